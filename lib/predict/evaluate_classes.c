/*
 * Evaluation class by class: compares the set of classes predicted for a row with its labels (metrics.h has the
 * formulas).
 *
 * Predictors, one a thread, list what is predicted for some rows, which are then counted in their order, so that the
 * result does not depend on the threads. If a row may have more classes than fit into its list, all lists become longer
 * and the rows are predicted again.
 */
#include "predict/predict.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/grow.h"
#include "base/heap_sort.h"
#include "base/held.h"
#include "base/order.h"
#include "base/overlap.h"
#include "base/settings.h"
#include "model/together.h"
#include "model/label_scores.h"

#include <math.h>

/* Rows of a job, and classes of a list at first. */
enum { JOB_ROWS = XSMI_PIECE, FIRST_TOP = 64 };

typedef struct classes_job {
    xsm_context *context;
    const xsm_model *model;
    const xsm_dataset *dataset;
    double threshold;
    uint32_t top, beam;
    size_t threads;             /* most that predict at a time */
    uint64_t first;             /* row of the round */
    xsm_predictor **predictors; /* [threads] */
    uint32_t *classes;          /* [threads][JOB_ROWS][top] */
    uint32_t *lengths;          /* [threads][JOB_ROWS] */
    xsm_error *errors;          /* [threads] */
    /* The counts, by weight. */
    double *labels, *predicted, *right; /* [K] */
    double label_sum, weight;           /* label_sum: of labels, unseen ones included; weight: of rows */
    uint64_t rows;
    bool confused; /* pairs of classes that are confused are wanted */
    xsm_confusion *pairs;
    size_t pair_count, pair_room;
} classes_job;

/* -- pairs --------------------------------------------------------------------------------------------------------- */

static int by_classes(const void *a, const void *b)
{
    const xsm_confusion *p = a, *q = b;
    return p->label != q->label ? XSMI_COMPARE(p->label, q->label) : XSMI_COMPARE(p->predicted, q->predicted);
}

static int by_rows(const void *a, const void *b)
{
    const xsm_confusion *p = a, *q = b;
    return p->rows != q->rows ? XSMI_COMPARE(q->rows, p->rows) : by_classes(a, b);
}

/* Merges equal pairs. */
static xsm_status merge_pairs(classes_job *job, xsm_error *err)
{
    if (!xsmi_heap_sort_polled(job->context, job->pairs, job->pair_count, sizeof *job->pairs, by_classes)) {
        return xsmi_fail_cancelled(job->context, err);
    }
    size_t kept = 0;
    for (size_t i = 0; i < job->pair_count; i++) {
        if (kept > 0 && by_classes(&job->pairs[kept - 1], &job->pairs[i]) == 0) {
            job->pairs[kept - 1].rows += job->pairs[i].rows;
        } else {
            job->pairs[kept++] = job->pairs[i];
        }
    }
    job->pair_count = kept;
    return XSM_OK;
}

static xsm_status add_pair(classes_job *job, uint32_t label, uint32_t predicted, double rows, xsm_error *err)
{
    if (job->pair_count == job->pair_room) {
        XSMI_TRY(merge_pairs(job, err));
        if (job->pair_count > job->pair_room / 2) {
            XSMI_TRY(XSMI_GROW(job->context, job->pairs, job->pair_room, 2 * job->pair_room, "pairs of classes", err));
        }
    }
    job->pairs[job->pair_count++] = (xsm_confusion){label, predicted, rows};
    return XSM_OK;
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

static xsm_status add_row(classes_job *job, uint64_t row, const uint32_t *classes, uint32_t length, xsm_error *err)
{
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(job->dataset, row, &count);
    const double weight = xsmi_dataset_weight(job->dataset, row);
    if (count == 0) {
        return XSM_OK;
    }
    job->rows++;
    job->weight += weight;
    job->label_sum += weight * (double)count;
    for (uint32_t i = 0; i < length; i++) {
        job->predicted[classes[i]] += weight;
        job->right[classes[i]] += xsmi_contains(labels, count, classes[i]) ? weight : 0;
    }
    for (size_t j = 0; j < count; j++) {
        if (labels[j] >= job->model->classes) {
            continue;
        }
        job->labels[labels[j]] += weight;
        const bool missed = job->confused && weight > 0 && !xsmi_contains(classes, length, labels[j]);
        for (uint32_t i = 0; missed && i < length; i++) {
            if (!xsmi_contains(labels, count, classes[i])) {
                XSMI_TRY(add_pair(job, labels[j], classes[i], weight, err));
            }
        }
    }
    return XSM_OK;
}

/* Returns the rows of job `index` of the round; no rows after the last. */
static xsm_batch batch_of(const classes_job *job, size_t index)
{
    const uint64_t first = XSMI_MIN(job->first + (uint64_t)index * JOB_ROWS, job->dataset->rows);
    return xsm_batch_range(job->dataset, first, XSMI_MIN(job->dataset->rows - first, JOB_ROWS));
}

static void predict_rows(void *state, size_t index, uint32_t thread)
{
    const classes_job *job = state;
    const xsm_batch batch = batch_of(job, index);
    xsm_prediction to = XSM_PREDICTION_INIT;
    (void)thread;
    to.batch = &batch;
    to.classes = job->classes + index * JOB_ROWS * job->top;
    to.lengths = job->lengths + index * JOB_ROWS;
    to.least_probability = job->threshold;
    job->errors[index] = (xsm_error)XSM_ERROR_INIT;
    if (batch.count > 0) {
        (void)xsm_predictor_run(job->predictors[index], &to, &job->errors[index]);
    }
}

static void free_predictors(classes_job *job)
{
    for (size_t i = 0; job->predictors && i < job->threads; i++) {
        xsm_predictor_free(job->predictors[i]);
        job->predictors[i] = NULL;
    }
    xsmi_release(job->context, job->classes, job->threads * JOB_ROWS * job->top, sizeof *job->classes);
    job->classes = NULL;
}

/* Replaces the predictors by ones of `top` classes a row. */
static xsm_status make_predictors(classes_job *job, uint32_t top, xsm_error *err)
{
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    free_predictors(job);
    job->top = options.top = top;
    options.beam = job->beam;
    job->classes = xsmi_allocate(job->context, (uint64_t)job->threads * JOB_ROWS * top, sizeof *job->classes);
    xsm_status status =
        job->classes ? XSM_OK : xsmi_fail_memory(err, job->threads * JOB_ROWS * top * 4, "an evaluation");
    for (size_t i = 0; i < job->threads && status == XSM_OK; i++) {
        status = xsm_predictor_new(job->model, &options, &job->predictors[i], err);
    }
    return xsmi_together(job->model, status, err);
}

/* Whether a list of the round may be too short. */
static bool is_short(const classes_job *job)
{
    const uint64_t rows = XSMI_MIN(job->dataset->rows - job->first, (uint64_t)job->threads * JOB_ROWS);
    bool full = false;
    for (uint64_t i = 0; i < rows; i++) {
        full |= job->lengths[i] == job->top;
    }
    return full && job->threshold > 0 && job->top < job->model->classes;
}

static xsm_status run_round(classes_job *job, xsm_error *err)
{
    if (job->threads == 1) {
        predict_rows(job, 0, 0);
    } else {
        XSMI_TRY(xsmi_run(job->context, predict_rows, job, job->threads, err));
    }
    for (size_t i = 0; i < job->threads; i++) {
        if (job->errors[i].status != XSM_OK) {
            return xsmi_fail_copy(err, &job->errors[i]);
        }
    }
    return XSM_OK;
}

static xsm_status run_rows(classes_job *job, xsm_error *err)
{
    const uint64_t rows = job->dataset->rows, each = (uint64_t)job->threads * JOB_ROWS;
    for (job->first = 0; job->first < rows; job->first += each) {
        XSMI_TRY(run_round(job, err));
        while (is_short(job)) {
            if (job->top == XSM_TOP_MAX) {
                return xsmi_fail(err, XSM_ERROR_LIMIT,
                                 "a row has %d classes of a probability of %g or more; fewer are accepted, as with a "
                                 "larger threshold",
                                 XSM_TOP_MAX, job->threshold);
            }
            const uint32_t most = XSMI_MIN(job->model->classes, XSM_TOP_MAX);
            XSMI_TRY(make_predictors(job, job->top > most / 4 ? most : 4 * job->top, err));
            XSMI_TRY(run_round(job, err));
        }
        const uint64_t here = XSMI_MIN(rows - job->first, each);
        for (uint64_t i = 0; i < here; i++) {
            XSMI_TRY(add_row(job, job->first + i, job->classes + i * job->top, job->lengths[i], err));
        }
        XSMI_TRY(xsmi_go_on(job->context, err));
        xsmi_advance(job->context, (size_t)here);
    }
    return XSM_OK;
}

/* -- results ------------------------------------------------------------------------------------------------------- */

/* Returns the number of classes that the model lacks, each with an F1 of 0. Rows from memory do not tell which unseen
 * labels are equal. */
static uint32_t unseen_classes(const xsm_dataset *d)
{
    return (uint32_t)XSMI_MIN(d->counted.unseen_labels, d->unseen_classes);
}

static void compute_f1(const classes_job *job, xsm_class_metrics *m)
{
    double right = 0, predicted = 0, sum = 0;
    m->counted = unseen_classes(job->dataset);
    for (uint32_t k = 0; k < job->model->classes; k++) {
        const double both = job->labels[k] + job->predicted[k];
        right += job->right[k];
        predicted += job->predicted[k];
        m->counted += both > 0;
        sum += both > 0 ? 2 * job->right[k] / both : 0;
    }
    m->micro_f1 = 2 * right / (job->label_sum + predicted);
    m->macro_f1 = m->counted > 0 ? sum / (double)m->counted : 0;
}

/* Checks the sums, and sorts the pairs. */
static xsm_status check_rows(classes_job *job, xsm_error *err)
{
    if (job->rows == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "none of the %llu rows has a label to evaluate against",
                         (unsigned long long)job->dataset->rows);
    }
    if (!(job->weight > 0 && job->weight < INFINITY)) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "the weights of the %llu rows with a label add up to %g; a sum above 0 is accepted",
                         (unsigned long long)job->rows, job->weight);
    }
    XSMI_TRY(merge_pairs(job, err));
    return xsmi_heap_sort_polled(job->context, job->pairs, job->pair_count, sizeof *job->pairs, by_rows)
               ? XSM_OK
               : xsmi_fail_cancelled(job->context, err);
}

/* Writes the results to the caller's struct and arrays. */
static xsm_status finish(classes_job *job, xsm_class_metrics *m, xsm_class_metrics *metrics, xsm_error *err)
{
    m->rows = job->rows;
    m->threshold = job->threshold;
    m->found = job->pair_count;
    compute_f1(job, m);
    XSMI_TRY(XSMI_WRITE(xsm_class_metrics, m, metrics, err));
    const struct {
        double *to;
        const double *from;
    } arrays[] = {{m->labels, job->labels}, {m->predicted, job->predicted}, {m->right, job->right}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        for (uint32_t k = 0; arrays[i].to && k < job->model->classes; k++) {
            arrays[i].to[k] = arrays[i].from[k];
        }
    }
    for (size_t i = 0; job->confused && i < job->pair_count && i < m->most; i++) {
        m->confusions[i] = job->pairs[i];
    }
    return XSM_OK;
}

static xsm_status evaluate(classes_job *job, xsm_class_metrics *m, xsm_class_metrics *metrics, xsm_error *err)
{
    xsm_context *ctx = job->context;
    const uint32_t classes = job->model->classes;
    job->threads = xsmi_together_callers(job->model, ctx);
    job->pair_room = job->confused ? 1 << 12 : 0;
    xsmi_held held = {.context = ctx};
    job->predictors = xsmi_hold_zeros(&held, job->threads, sizeof(xsm_predictor *));
    job->lengths = xsmi_hold(&held, job->threads * (uint64_t)JOB_ROWS, sizeof *job->lengths);
    job->errors = xsmi_hold(&held, job->threads, sizeof *job->errors);
    double *counts = xsmi_hold_zeros(&held, 3 * (size_t)classes, sizeof *counts);
    xsm_status status = xsmi_held_check(&held, "an evaluation", err);
    if (status == XSM_OK && job->confused) {
        status = xsmi_array_new(ctx, &job->pairs, job->pair_room, sizeof *job->pairs, "an evaluation", err);
    }
    status = xsmi_together(job->model, status, err);
    if (status == XSM_OK) {
        job->labels = counts;
        job->predicted = counts + classes;
        job->right = counts + 2 * (size_t)classes;
        status = make_predictors(job, job->threshold > 0 ? XSMI_MIN(classes, FIRST_TOP) : 1, err);
    }
    xsmi_activity activity;
    xsmi_begin_cover(&activity, ctx, "evaluating", "rows", job->dataset->rows);
    status = status == XSM_OK ? run_rows(job, err) : status;
    status = xsmi_end(&activity, status == XSM_OK ? check_rows(job, err) : status, err);
    status = xsmi_together(job->model, status, err);
    status = status == XSM_OK ? finish(job, m, metrics, err) : status;
    free_predictors(job);
    xsmi_release(ctx, job->pairs, job->pair_room, sizeof *job->pairs);
    xsmi_held_release(&held);
    return status;
}

/* -- public -------------------------------------------------------------------------------------------------------- */

/* Whether each class has a probability of its own. */
static bool is_each(const xsm_model *m)
{
    return m->calibration.method == XSM_CALIBRATION_LABELS ||
           (xsmi_model_link(m) == XSM_LINK_SIGMOID && xsmi_label_has_loss(m));
}

static xsm_status choose_threshold(const xsm_model *model, const xsm_dataset *dataset, double *threshold,
                                   xsm_error *err)
{
    if (*threshold == XSM_DEFAULT) {
        size_t most = 0, count;
        for (uint64_t i = 0; i < dataset->rows && most < 2; i++) {
            (void)xsmi_dataset_labels(dataset, i, &count);
            most = XSMI_MAX(most, count);
        }
        *threshold = most > 1 && is_each(model) ? XSMI_DEFAULT(xsm_class_metrics_options, threshold) : 0;
    }
    if (!(*threshold >= 0 && *threshold <= 1)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_class_metrics_options.threshold is %g; accepted is 0 to 1",
                         *threshold);
    }
    if (*threshold > 0 && !xsmi_label_has_loss(model)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "a threshold of %g: the scores of this label tree rank only, and are no probabilities; "
                         "calibrate it, or take 0, the best class of each row",
                         *threshold);
    }
    return XSM_OK;
}

/* Reads and checks the caller's structs. */
static xsm_status read_request(const xsm_model *model, const xsm_dataset *dataset,
                               const xsm_class_metrics_options *options, const xsm_class_metrics *metrics,
                               xsm_class_metrics_options *o, xsm_class_metrics *m, xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_class_metrics_options, o, options, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_class_metrics_options, o, reserved, err));
    XSMI_TRY(XSMI_READ(xsm_class_metrics, m, metrics, err));
    const xsmi_region regions[] = {xsmi_output("labels", m->labels, model->classes, sizeof *m->labels),
                                   xsmi_output("predicted", m->predicted, model->classes, sizeof *m->labels),
                                   xsmi_output("right", m->right, model->classes, sizeof *m->labels),
                                   xsmi_output("confusions", m->confusions, m->most, sizeof *m->confusions)};
    XSMI_TRY(xsmi_check_overlap("xsm_class_metrics", regions, sizeof regions / sizeof *regions, err));
    if (o->beam > 0 && !xsmi_model_beam(model, o->beam)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "xsm_class_metrics_options.beam is %u, and the model is no label tree; 0 is accepted",
                         o->beam);
    }
    XSMI_TRY(xsmi_model_check_rows(model, dataset, "the data", err));
    XSMI_TRY(xsmi_model_check_labels(model, dataset, "the data", err));
    return choose_threshold(model, dataset, &o->threshold, err);
}

/* Compares the requests of all processes. */
static xsm_status agree_options(const xsm_model *model, const xsm_class_metrics_options *o, const xsm_class_metrics *m,
                                xsm_error *err)
{
    const xsmi_number numbers[] = {XSMI_REAL("threshold", o->threshold), XSMI_WHOLE("beam", o->beam),
                                   XSMI_WHOLE("confusions", m->confusions != NULL && m->most > 0)};
    return xsmi_together_numbers(model, numbers, sizeof numbers / sizeof *numbers, XSM_OK, err);
}

static xsm_status evaluate_given(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                                 const xsm_class_metrics_options *options, xsm_class_metrics *metrics, xsm_error *err)
{
    xsm_class_metrics_options o = XSM_CLASS_METRICS_OPTIONS_INIT;
    xsm_class_metrics m = XSM_CLASS_METRICS_INIT;
    XSMI_TRY(xsmi_need("xsm_evaluate_classes", XSMI_GIVEN({dataset, "the data"}, {metrics, "metrics"}), err));
    XSMI_TRY(xsmi_together_rows(model, dataset, false, err));
    XSMI_TRY(read_request(model, dataset, options, metrics, &o, &m, err));
    XSMI_TRY(agree_options(model, &o, &m, err));
    classes_job job = {.context = context ? context : model->context,
                       .model = model,
                       .dataset = dataset,
                       .threshold = o.threshold,
                       .beam = o.beam,
                       .confused = m.confusions != NULL && m.most > 0};
    return evaluate(&job, &m, metrics, err);
}

xsm_status xsm_evaluate_classes(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                                const xsm_class_metrics_options *options, xsm_class_metrics *metrics, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"});
    return XSMI_TOGETHER(model, evaluate_given(context, model, dataset, options, metrics, err), err);
}
