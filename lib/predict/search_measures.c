/* Compares the results of a predictor that does not score all classes with those of one that does. */
#include "predict/predict.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/held.h"
#include "base/order.h"
#include "base/overlap.h"
#include "predict/rounds.h"

#include <math.h>

#define JOB_ROWS 256

/* The predictors of one thread. */
typedef struct pair {
    xsm_predictor *full, *searching;
    uint32_t *want, *have; /* [JOB_ROWS][top] */
} pair;

/* The sums of a job, each row multiplied by its weight: the rows, those with a label, and from MEASURES on, by k, the
 * number of the k best classes that are among the k best found, then the labels among the k best found. */
enum { ROWS, LABELLED, MEASURES };

typedef struct search_job {
    xsm_context *context;
    const xsm_model *model;
    const xsm_predictor_options *options; /* of the predictor that is measured */
    const xsm_dataset *dataset;
    uint32_t top;         /* of the predictors */
    pair *pairs;          /* [threads] */
    xsmi_rounds rounds;   /* MEASURES + 2 * top numbers */
    uint64_t *labelled;   /* [jobs] */
    uint64_t *probed;     /* [jobs] */
    xsm_error *errors;    /* [jobs], filled if statuses are not XSM_OK */
    xsm_status *statuses; /* [jobs] */
} search_job;

/* Adds row i of a job; returns whether it has a label. */
static bool compare_row(const search_job *job, double *numbers, const pair *p, uint64_t row, size_t i)
{
    const uint32_t *want = p->want + i * job->top, *have = p->have + i * job->top;
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(job->dataset, row, &count);
    uint64_t both = 0, right = 0;
    const double times = xsmi_dataset_weight(job->dataset, row);
    double *hits = numbers + MEASURES, *found = hits + job->top;
    numbers[ROWS] += times;
    numbers[LABELLED] += count > 0 ? times : 0;
    for (uint32_t k = 0; k < job->top; k++) {
        /* What the k-th of each list adds to the number for k - 1. */
        both += xsmi_contains(have, k, want[k]) + xsmi_contains(want, k, have[k]) + (want[k] == have[k]);
        right += xsmi_contains(labels, count, have[k]);
        hits[k] += times * (double)both;
        found[k] += times * (double)right;
    }
    return count > 0;
}

static void run_rows(void *state, const xsmi_range *r)
{
    const search_job *job = state;
    const pair *p = &job->pairs[r->thread];
    const size_t index = r->index, first = r->first;
    double *numbers = xsmi_rounds_numbers(&job->rounds, index);
    xsm_batch batch = xsm_batch_range(job->dataset, first, r->end - first);
    xsm_error *err = &job->errors[index];
    *err = (xsm_error)XSM_ERROR_INIT;
    job->labelled[index] = 0;
    uint64_t before = p->searching->probed;
    xsm_status status = xsm_predictor_run(
        p->full, &(xsm_prediction){.size = sizeof(xsm_prediction), .batch = &batch, .classes = p->want}, err);
    if (status == XSM_OK) {
        status = xsm_predictor_run(
            p->searching, &(xsm_prediction){.size = sizeof(xsm_prediction), .batch = &batch, .classes = p->have}, err);
    }
    job->statuses[index] = status;
    job->probed[index] = p->searching->probed - before;
    for (size_t i = 0; status == XSM_OK && i < batch.count; i++) {
        job->labelled[index] += compare_row(job, numbers, p, first + i, i);
    }
    xsmi_advance(job->context, (size_t)batch.count);
}

static xsm_status join(const search_job *job, size_t jobs, xsm_search_metrics *m, xsm_error *err)
{
    uint64_t probed = 0;
    m->labelled = 0;
    for (size_t i = 0; i < jobs; i++) {
        if (job->statuses[i] != XSM_OK) {
            return xsmi_fail_copy(err, &job->errors[i]);
        }
        m->labelled += job->labelled[i];
        probed += job->probed[i];
    }
    m->rows = job->dataset->rows;
    m->probed = (double)probed / (double)m->rows;
    const double weight = job->rounds.sums[ROWS];
    return weight > 0 && weight < INFINITY
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_DATA, "the weights of the %llu rows add up to %g; a sum above 0 is accepted",
                           (unsigned long long)m->rows, weight);
}

/* Writes the means for each k. A model with fewer than k classes has all of them among the k best. */
static void write_means(const search_job *job, const xsm_search_metrics *m)
{
    const double *sums = job->rounds.sums, *hits = sums + MEASURES, *found = hits + job->top;
    for (uint32_t k = 0; k < m->top; k++) {
        const uint32_t last = XSMI_MIN(k, job->top - 1);
        if (m->recall) {
            m->recall[k] = hits[last] / (sums[ROWS] * (last + 1));
        }
        if (m->precision) {
            m->precision[k] = sums[LABELLED] > 0 ? found[last] / (sums[LABELLED] * (k + 1)) : (double)NAN;
        }
    }
}

static xsm_status make_pair(const search_job *job, pair *p, xsm_error *err)
{
    xsm_predictor_options all = XSM_PREDICTOR_OPTIONS_INIT;
    all.beam = xsmi_model_beam(job->model, job->model->classes); /* a width that scores all */
    all.top = job->top;
    XSMI_TRY(xsm_predictor_new(job->model, &all, &p->full, err));
    XSMI_TRY(xsm_predictor_new(job->model, job->options, &p->searching, err));
    p->want = xsmi_allocate(job->context, (uint64_t)JOB_ROWS * job->top, sizeof *p->want);
    p->have = xsmi_allocate(job->context, (uint64_t)JOB_ROWS * job->top, sizeof *p->have);
    return p->want && p->have ? XSM_OK : xsmi_fail_memory(err, JOB_ROWS * (size_t)job->top * 8, "an evaluation");
}

/* Allocates and runs a job whose context, model, options, dataset and top are set. `m` is the copy of `out`. */
static xsm_status run(search_job job, xsm_search_metrics *m, xsm_search_metrics *out, xsm_error *err)
{
    xsm_context *ctx = job.context;
    const size_t jobs = (size_t)((job.dataset->rows + JOB_ROWS - 1) / JOB_ROWS);
    const size_t threads = xsmi_context_threads(ctx);
    const uint32_t top = job.top;
    xsmi_held held = {.context = ctx};
    job.pairs = xsmi_hold_zeros(&held, threads, sizeof *job.pairs);
    job.labelled = xsmi_hold(&held, jobs, sizeof *job.labelled);
    job.probed = xsmi_hold(&held, jobs, sizeof *job.probed);
    job.errors = xsmi_hold(&held, jobs, sizeof *job.errors);
    job.statuses = xsmi_hold(&held, jobs, sizeof *job.statuses);
    job.rounds.rows = job.dataset->rows;
    job.rounds.job_rows = JOB_ROWS;
    job.rounds.each = MEASURES + 2 * (size_t)top;
    xsm_status status = xsmi_rounds_start(ctx, &job.rounds, err);
    status = status == XSM_OK ? xsmi_held_check(&held, "an evaluation", err) : status;
    for (size_t i = 0; i < threads && status == XSM_OK; i++) {
        status = make_pair(&job, &job.pairs[i], err);
    }
    xsmi_activity activity;
    xsmi_begin_cover(&activity, ctx, "evaluating", "rows", job.dataset->rows);
    if (status == XSM_OK) {
        status = xsmi_rounds_run(ctx, &job.rounds, run_rows, &job, err);
    }
    status = xsmi_end(&activity, status, err);
    status = status == XSM_OK ? join(&job, jobs, m, err) : status;
    if (status == XSM_OK) {
        status = XSMI_WRITE(xsm_search_metrics, m, out, err);
    }
    if (status == XSM_OK) {
        write_means(&job, m);
    }
    for (size_t i = 0; job.pairs && i < threads; i++) {
        xsm_predictor_free(job.pairs[i].full);
        xsm_predictor_free(job.pairs[i].searching);
        xsmi_release(ctx, job.pairs[i].want, JOB_ROWS * (size_t)top, sizeof(uint32_t));
        xsmi_release(ctx, job.pairs[i].have, JOB_ROWS * (size_t)top, sizeof(uint32_t));
    }
    xsmi_held_release(&job.rounds.held);
    xsmi_held_release(&held);
    return status;
}

xsm_status xsm_evaluate_search(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                               const xsm_predictor_options *options, xsm_search_metrics *metrics, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"}, {dataset, "the data"}, {metrics, "metrics"});
    XSMI_TRY(xsmi_model_need_whole(model, "xsm_evaluate_search()", err));
    XSMI_TRY(xsmi_model_check_rows(model, dataset, "the data", err));
    XSMI_TRY(xsmi_model_check_labels(model, dataset, "the data", err));
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_predictor_options, &o, options, err));
    xsm_search_metrics m = XSM_SEARCH_METRICS_INIT;
    XSMI_TRY(XSMI_READ(xsm_search_metrics, &m, metrics, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_search_metrics, &m, reserved, err));
    m.top = m.recall || m.precision ? m.top : 0;
    if ((m.recall || m.precision) && (m.top == 0 || m.top > XSM_TOP_MAX)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_search_metrics.top is %u; accepted is 1 to %d", m.top, XSM_TOP_MAX);
    }
    const xsmi_region regions[] = {xsmi_output("recall", m.recall, m.top, sizeof *m.recall),
                                   xsmi_output("precision", m.precision, m.top, sizeof *m.precision)};
    XSMI_TRY(xsmi_check_overlap("xsm_search_metrics", regions, sizeof regions / sizeof *regions, err));
    o.top = o.top ? o.top : XSMI_MAX(m.top, 1);
    if (o.top < m.top) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "the predictor finds %u classes of a row; xsm_search_metrics.top is %u",
                         o.top, m.top);
    }
    const search_job job = {.context = context ? context : model->context,
                            .model = model,
                            .options = &o,
                            .dataset = dataset,
                            .top = XSMI_MIN(o.top, model->classes)};
    return run(job, &m, metrics, err);
}
