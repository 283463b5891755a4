/* Binding an estimator to a model and rows: checks both and computes what steps need for every row. */
#include "estimator/divided_lists.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/hash.h"
#include "base/order.h"
#include "model/together.h"
#include "estimator/stream.h"

#include <math.h>

/* Checks that every row has a label (exactly one, if the estimator allows no more), and that labels are below K. *most
 * is the largest number of labels of a row. */
static xsm_status check_labels(const xsm_estimator *e, const xsm_dataset *train, uint64_t *most, xsm_error *err)
{
    *most = 0;
    bool several = (e->ops.flags & XSM_ESTIMATOR_MULTI_LABEL) != 0;
    for (uint64_t i = 0; i < train->rows; i++) {
        size_t count;
        const uint32_t *labels = xsmi_dataset_labels(train, i, &count);
        if (count == 0) {
            return xsmi_fail(err, XSM_ERROR_DATA, "row %llu has no label; drop such rows before training",
                             (unsigned long long)i);
        }
        if (count > 1 && !several) {
            return xsmi_fail(err, XSM_ERROR_DATA,
                             "row %llu has %zu labels, but estimator '%s' takes one a row; keep the first or the "
                             "smallest",
                             (unsigned long long)i, count, e->ops.name);
        }
        *most = count > *most ? count : *most;
        for (size_t j = 0; j < count; j++) {
            if (labels[j] >= train->classes) {
                return xsmi_fail(err, XSM_ERROR_DATA, "row %llu has a label that is not in the class map",
                                 (unsigned long long)i);
            }
        }
    }
    return XSM_OK;
}

/* Number of rows whose norms one job computes. */
#define NORM_ROWS 4096

typedef struct norm_job {
    const xsm_context *context;
    const xsm_dataset *train;
    const xsmi_kernels *kernels;
    float *norms; /* [rows] */
} norm_job;

static void run_norms(void *state, const xsmi_range *r)
{
    norm_job *job = state;
    for (size_t i = r->first; i < r->end; i++) {
        xsmi_features x = xsmi_dataset_features(job->train, i);
        job->norms[i] = job->kernels->dot(x.values, x.values, x.count);
    }
    xsmi_dataset_passed(job->train, r->first, r->end - r->first);
    xsmi_advance(job->context, r->end - r->first);
}

/* Computes the rows' squared lengths, and the largest of their lengths. */
static xsm_status compute_norms(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, double *longest,
                                xsm_error *err)
{
    e->norms = train->rows < SIZE_MAX ? xsmi_allocate(e->context, (size_t)train->rows, sizeof *e->norms) : NULL;
    if (!e->norms) {
        return xsmi_fail_memory(err, (size_t)train->rows * sizeof *e->norms, "the norms of the rows");
    }
    e->norm_count = (size_t)train->rows;
    norm_job job = {e->context, train, model->kernels, e->norms};
    const xsm_status status = xsmi_run_ranges(e->context, run_norms, &job, train->rows, NORM_ROWS, err);
    if (status != XSM_OK) {
        xsmi_release(e->context, e->norms, e->norm_count, sizeof *e->norms);
        e->norms = NULL;
        return status;
    }
    float most = 0;
    for (size_t i = 0; i < e->norm_count; i++) {
        most = XSMI_MAX(e->norms[i], most);
    }
    *longest = sqrt((double)most);
    return XSM_OK;
}

/* Checks that the correction of the model's scores matches the estimator's training. */
static xsm_status check_correction(const xsm_estimator *e, const xsm_model *model, xsm_error *err)
{
    const xsmi_head_kind *kind = model->head ? model->head->kind : NULL;
    const bool hierarchical = e->ops.kind == XSM_ESTIMATOR_HIERARCHY;
    XSMI_TRY(hierarchical ? xsmi_model_need_untied(model, "an estimator of the nodes of a tree", err) : XSM_OK);
    if (!kind || (kind->nodes && hierarchical)) {
        return XSM_OK;
    }
    if (kind->nodes) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's weights are those of the nodes of a tree, which estimator '%s' would take for "
                         "classes; train it with hierarchical, or a new model",
                         e->ops.name);
    }
    if (!kind->drawn && !e->exact) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's scores have numbers of pairs added, which estimator '%s' does not know of; clear "
                         "its correction, and have the pairs counted when it is trained",
                         e->ops.name);
    }
    if (hierarchical || (!e->exact && !(e->ops.flags & XSM_ESTIMATOR_CORRECTED))) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's scores are corrected by the '%s' of the sampler that it was trained with, which "
                         "estimator '%s' does not know of; train it with negative-sampling or with all classes, or "
                         "clear its correction",
                         kind->name, e->ops.name);
    }
    return XSM_OK;
}

/* Refuses options that scale rows, or that concern rows other than the classes', with scores that are distances. */
static xsm_status check_distances(const xsm_estimator *e, const xsm_model *model, xsm_error *err)
{
    const char *what = (e->ops.flags & XSM_ESTIMATOR_PROXIMAL)  ? "an estimator that solves its steps"
                       : e->ops.kind == XSM_ESTIMATOR_HIERARCHY ? "an estimator of the nodes of a tree"
                       : e->row_bound > 0                       ? "an estimator that bounds the length of rows"
                       : e->common.ridge > 0                    ? "a ridge, which pulls rows towards the origin,"
                                                                : NULL;
    return what ? xsmi_model_need_linear(model, what, err) : XSM_OK;
}

static xsm_status check_weights(const xsm_estimator *e, const xsm_dataset *train, uint64_t most, xsm_error *err)
{
    XSMI_TRY(train->label_weights ? xsmi_estimator_check_label_weights(e, most, err) : XSM_OK);
    if (!train->weights) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_estimator_check_weights(e, err));
    return train->total_weight > 0 && train->total_weight < INFINITY
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_DATA, "the weights of the rows add up to %g; a sum above 0 is accepted",
                           train->total_weight);
}

static xsm_status check_classes(const xsm_model *model, const xsm_dataset *train, xsm_error *err)
{
    return model->classes == train->classes ? XSM_OK
                                            : xsmi_fail(err, XSM_ERROR_SHAPE, "the model has %u classes, the data %u",
                                                        model->classes, train->classes);
}

/* Calls the table's bind(), and reads the properties that it has then. */
static xsm_status bind_table(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, double longest,
                             xsm_error *err)
{
    const xsm_problem problem = {
        .size = sizeof problem,
        .context = e->context,
        .examples = e->examples,
        .classes = train->classes,
        .features = model->features,
        .class_counts = train->map.counts,
        .ridge = e->common.ridge,
        .seed = (uint64_t)e->common.seed,
        .bias = xsmi_model_has_bias(model),
        .longest_row = longest,
        .most_labels = e->most_labels,
        .row_slots = e->row_slots,
        .total_weight = train->weights ? train->total_weight : (double)e->examples,
    };
    XSMI_TRY(e->ops.bind ? e->ops.bind(e->state, &problem, err) : XSM_OK);
    e->exact = e->ops.kind == XSM_ESTIMATOR_EXACT || (e->ops.exact && e->ops.exact(e->state));
    e->row_bound = e->ops.row_bound ? e->ops.row_bound(e->state) : 0;
    if (!(e->row_bound >= 0 && e->row_bound < INFINITY)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': row_bound() is %g; accepted is 0 and above",
                         e->ops.name, e->row_bound);
    }
    return XSM_OK;
}

/* Binds what finds the classes of an example (sampler, index or tree), and sets how many they can be. */
static xsm_status bind_classes(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, xsm_error *err)
{
    if (e->exact) {
        const xsmi_mine mine = xsmi_model_mine(model);
        e->width = xsmi_divided_has_sums(e) ? mine.end - mine.first : train->classes;
        return XSM_OK;
    }
    if (e->ops.kind == XSM_ESTIMATOR_HIERARCHY) {
        XSMI_TRY(xsmi_model_need_whole(model, "estimator 'hierarchical'", err));
        return xsmi_estimator_bind_hierarchy(e, model, train, err);
    }
    if (e->sampling.sampler) {
        return xsmi_estimator_bind_sampler(e, model, train, e->most_labels, err);
    }
    e->width = e->ops.width(e->state);
    if (e->width == 0 || e->width > XSM_CLASSES_MAX) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': width() is %llu; accepted is 1 to %u", e->ops.name,
                         (unsigned long long)e->width, XSM_CLASSES_MAX);
    }
    return XSM_OK;
}

static xsm_status bind_search(xsm_estimator *e, const xsm_model *model, xsm_error *err)
{
    if (!e->search.index) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_model_need_whole(model, "an estimator that searches an index", err));
    XSMI_TRY(xsmi_model_need_untied(model, "an estimator that searches an index", err));
    xsm_search_plan plan = {.size = sizeof plan};
    e->ops.search_plan(e->state, &plan);
    if (plan.most > 0 && !e->search.index->ops.next) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' lists classes on demand (option 'error' of mips and decomp-mips), which index "
                         "'%s' cannot: its table has no next()",
                         e->ops.name, e->search.index->ops.name);
    }
    return xsmi_searcher_new(e->context, e->search.index, &plan, model, e->examples, &e->search.searcher, err);
}

static xsm_status bind_stages(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, xsm_error *err)
{
    double longest = INFINITY; /* unknown if rows vary */
    if (!xsmi_estimator_rows_vary(e)) {
        XSMI_TRY(compute_norms(e, model, train, &longest, err));
    }
    XSMI_TRY(bind_table(e, model, train, longest, err));
    XSMI_TRY(bind_classes(e, model, train, err));
    XSMI_TRY(check_correction(e, model, err));
    XSMI_TRY(bind_search(e, model, err));
    return check_distances(e, model, err);
}

xsm_status xsmi_estimator_check_rows_kept(const xsm_estimator *e, xsm_error *err)
{
    return !e->apart
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_STATE,
                           "estimator '%s': a process has failed in a step for which others have changed what they "
                           "keep of the rows; bind it again, and resume the run from a checkpoint",
                           e->ops.name);
}

xsm_status xsmi_estimator_bind(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, bool labels_alone,
                               const xsmi_bind_size *size, xsm_error *err)
{
    XSMI_TRY(xsmi_need(labels_alone ? "xsm_estimator_bind_labels" : "xsm_estimator_bind",
                       XSMI_GIVEN({e, "the estimator"}, {train, "the data"}), err));
    XSMI_TRY(xsmi_model_need_dense(xsmi_model_weights(model), "training by an estimator", err));
    XSMI_TRY(xsmi_model_need_together(model, "an estimator", err));
    xsmi_activity activity;
    XSMI_TRY(xsmi_estimator_agree(e, model, train, size, err));
    if (!size) { /* processes with the same rows get the same results below */
        XSMI_TRY(xsmi_together_rows(model, train, labels_alone, err));
    }
    XSMI_TRY(labels_alone ? XSM_OK : xsmi_model_check_rows(model, train, "the data", err));
    XSMI_TRY(check_classes(model, train, err));
    XSMI_TRY(xsmi_model_check_labels(model, train, "the data", err));
    xsmi_bind_size of = {train->rows, train->rows, 0};
    if (size) {
        of = *size;
    } else {
        XSMI_TRY(check_labels(e, train, &of.most_labels, err));
    }
    XSMI_TRY(check_weights(e, train, of.most_labels, err));
    /* Retains the new ones before an earlier binding releases its own, which may be the same. */
    const xsm_model *kept_model = xsmi_model_retain(model);
    const xsm_dataset *kept_train = xsmi_dataset_retain(train);
    xsmi_estimator_unbind(e);
    e->labels_alone = labels_alone;
    e->hidden = model->layer != NULL;
    e->divided = xsmi_model_is_divided(model);
    e->examples = of.examples;
    e->row_slots = of.row_slots;
    e->most_labels = of.most_labels;
    xsmi_begin(&activity, e->context, "binding an estimator", "rows", train->rows);
    const xsm_status status = xsmi_together(model, xsmi_end(&activity, bind_stages(e, model, train, err), err), err);
    if (status != XSM_OK) {
        xsmi_estimator_clear(e);
        xsmi_dataset_release(kept_train);
        xsmi_model_release(kept_model);
        return status;
    }
    e->model = kept_model;
    e->train = kept_train;
    e->shape = model->shape;
    e->edits = train->edits;
    e->position = 0;
    e->bindings++;
    e->fixed_batches = e->apart = false;
    e->decay_rate = e->ops.flags & XSM_ESTIMATOR_PROXIMAL ? 0 : e->common.ridge / (double)of.examples;
    return XSM_OK;
}

xsm_status xsm_estimator_bind(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"});
    return XSMI_TOGETHER(model, xsmi_estimator_bind(e, model, train, false, NULL, err), err);
}

xsm_status xsm_estimator_bind_labels(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"});
    return XSMI_TOGETHER(model, xsmi_estimator_bind(e, model, train, true, NULL, err), err);
}

/* -- streams ------------------------------------------------------------------------------------------------------- */

static xsm_status new_stream(const xsm_estimator *e, const xsm_model *model, const xsm_stream_options *o,
                             xsmi_stream_rows **out, xsm_error *err)
{
    xsmi_stream_rows *s;
    XSMI_TRY(XSMI_OBJECT_NEW(e->context, &s, xsmi_stream_rows, "a stream of rows", err));
    s->ids = o->ids;
    s->batch = o->batch;
    s->labels = o->labels;
    xsm_status status = xsmi_dataset_start(s->context, &s->rows, err);
    if (status == XSM_OK) {
        status = xsmi_dataset_set_classes(s->rows, model->classes, NULL, NULL, err);
    }
    if (status != XSM_OK) {
        xsmi_stream_free(s);
        return status;
    }
    s->rows->features = xsmi_model_input(model);
    for (uint32_t k = 0; o->class_counts && k < model->classes; k++) {
        s->rows->map.counts[k] = o->class_counts[k];
    }
    *out = s;
    return XSM_OK;
}

static xsm_status read_options(const xsm_estimator *e, const xsm_stream_options *given, xsm_stream_options *o,
                               xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_stream_options, o, given, err));
    o->batch = o->batch ? o->batch : XSMI_DEFAULT(xsm_stream_options, batch);
    o->labels = o->labels ? o->labels : XSMI_DEFAULT(xsm_stream_options, labels);
    if (o->examples == 0 && e->common.ridge > 0) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "a ridge is of the sum over all rows: xsm_stream_options.examples must say how many they are");
    }
    o->examples = o->examples ? o->examples : 1;
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_stream_options, o, reserved, err));
    if (o->labels > XSM_CLASSES_MAX || o->batch > SIZE_MAX / 16 || o->ids > SIZE_MAX / 16) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_stream_options: %llu ids, batches of %llu and %u labels are too many",
                         (unsigned long long)o->ids, (unsigned long long)o->batch, o->labels);
    }
    if (o->labels > 1 && !(e->ops.flags & XSM_ESTIMATOR_MULTI_LABEL)) {
        return xsmi_fail(err, XSM_ERROR_DATA, "estimator '%s' takes one label a row, not %u", e->ops.name, o->labels);
    }
    if ((e->ops.flags & XSM_ESTIMATOR_ROW_STATE) && !e->ops.state_tensor) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' keeps something by row and does not say what (state_tensor()), which a stream "
                         "needs",
                         e->ops.name);
    }
    return XSM_OK;
}

/* The state of the ids of an earlier stream; `bytes` is NULL if there was none. */
typedef struct kept_state {
    uint64_t ids;
    unsigned char *bytes;
} kept_state;

/* Binds, and restores the state of the ids. */
static xsm_status bind(xsm_estimator *e, const xsm_model *model, const xsm_stream_options *o, xsmi_stream_rows *s,
                       const kept_state *kept, xsm_error *err)
{
    uint64_t position = e->position;
    xsmi_bind_size size = {o->examples, o->ids + o->batch, o->labels};
    XSMI_TRY(xsmi_estimator_bind(e, model, s->rows, true, &size, err));
    e->stream = s; /* owned by the binding from here on */
    xsm_status status = xsmi_together(model, xsmi_stream_keep_fresh(e, s, err), err);
    if (status != XSM_OK) {
        e->stream = NULL; /* still owned by the caller */
        xsmi_estimator_unbind(e);
        return status;
    }
    if (kept->bytes) {
        xsmi_stream_carry(e, kept->ids, kept->bytes, true);
        e->position = position;
    }
    return XSM_OK;
}

static xsm_status bind_stream(xsm_estimator *e, const xsm_model *model, const xsm_stream_options *options,
                              xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_estimator_bind_stream", XSMI_GIVEN({e, "the estimator"}), err));
    xsm_stream_options o = XSM_STREAM_OPTIONS_INIT;
    xsmi_stream_rows *s = NULL;
    xsm_status status = read_options(e, options, &o, err);
    status = status == XSM_OK ? new_stream(e, model, &o, &s, err) : status;
    if (status != XSM_OK) {
        xsmi_stream_free(s);
        return status;
    }
    /* An estimator that was bound to a stream before keeps the state of the ids. */
    uint64_t ids = e->stream ? e->stream->ids : 0;
    ids = XSMI_MIN(ids, o.ids);
    const size_t bytes = e->stream ? xsmi_stream_bytes(e, ids) : 0;
    unsigned char *kept = e->stream ? xsmi_allocate(e->context, bytes, 1) : NULL;
    if (e->stream && !kept) {
        status = xsmi_fail_memory(err, bytes, "what is kept of rows");
    } else {
        if (kept) {
            xsmi_stream_carry(e, ids, kept, false);
        }
        status = bind(e, model, &o, s, &(kept_state){ids, kept}, err);
    }
    if (status != XSM_OK) {
        xsmi_stream_free(s);
    }
    xsmi_release(e->context, kept, bytes, 1);
    return status;
}

xsm_status xsm_estimator_bind_stream(xsm_estimator *e, const xsm_model *model, const xsm_stream_options *options,
                                     xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"});
    return XSMI_TOGETHER(model, bind_stream(e, model, options, err), err);
}
