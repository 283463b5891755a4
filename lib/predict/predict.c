/* Prediction: the best classes of rows, among all classes or those that a search finds, with the scratch of one
 * thread. */
#include "predict/predict.h"

#include "base/activity.h"
#include "base/order.h"
#include "model/listed.h"
#include "model/filter.h"
#include "model/together.h"
#include "model/label_scores.h"
#include "base/entry.h"
#include "base/hash.h"

#include <math.h>
#include <string.h>

/* Whether the rows of a model with a hierarchy are searched best first: for many classes tiles are faster. */
static bool searches_hierarchy(const xsm_model *m, uint32_t top)
{
    return xsmi_model_hierarchy(m) && top <= m->classes / 16;
}

/* The scratch of a search in a hierarchy. */
typedef struct best_first_scratch {
    void *search;
    float *hidden; /* for a first layer */
} best_first_scratch;

static best_first_scratch divide_best_first(const xsm_model *m, xsmi_arena *arena)
{
    best_first_scratch p;
    p.search = xsmi_arena_take(arena, xsmi_best_first_scratch(m), 1);
    p.hidden = xsmi_model_take_hidden(m, arena);
    return p;
}

static size_t hierarchy_scratch(const xsm_predictor *p)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide_best_first(p->model, &arena);
    return arena.used;
}

/* Returns the bytes that scoring all classes needs, for rows of either kind. */
static size_t all_scratch(const xsm_predictor *p)
{
    size_t sparse = xsmi_together_scratch(p->model, true, XSMI_TILE_BLOCKS, p->top);
    size_t dense = xsmi_together_scratch(p->model, false, XSMI_TILE_BLOCKS, p->top);
    return XSMI_MAX(sparse, dense);
}

static xsm_status run_hierarchy(xsm_predictor *p, const xsm_prediction *to, xsm_error *err);
static xsm_status run_all(xsm_predictor *p, const xsm_prediction *to, xsm_error *err);

/* A way to find classes: the bytes of scratch that it needs, and its function that predicts a batch. */
typedef struct way {
    size_t (*scratch)(const xsm_predictor *p);
    xsm_status (*run)(xsm_predictor *p, const xsm_prediction *to, xsm_error *err);
} way;

static way way_of(const xsm_predictor *p)
{
    if (p->shortlist.model) {
        return (way){xsmi_shortlist_scratch, xsmi_shortlist_run};
    }
    if (p->beam > 0) {
        return xsmi_model_beam(p->model, p->beam) ? (way){xsmi_labels_scratch, xsmi_labels_run}
                                                  : (way){xsmi_beam_scratch, xsmi_beam_run};
    }
    if (p->index) {
        return (way){xsmi_index_scratch_of, xsmi_index_run};
    }
    return searches_hierarchy(p->model, p->top) ? (way){hierarchy_scratch, run_hierarchy} : (way){all_scratch, run_all};
}

/* Refuses an index that was not built over the model as it is; NULL is accepted. */
static xsm_status check_index(const xsm_model *model, const xsm_index *index, xsm_error *err)
{
    if (index && (!index->built || index->model != model || index->shape != model->shape)) {
        return xsmi_fail(err, XSM_ERROR_STATE, "index '%s' is not built over this model as it is", index->ops.name);
    }
    if (index && model->head != index->head) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the model's scores have another correction since index '%s' was built; build it anew",
                         index->ops.name);
    }
    return XSM_OK;
}

/* Checks that model and index have not changed since the predictor was made. Weights may change, and so may their
 * layout and a rebuilt index, which may need more scratch. */
static xsm_status check_model(xsm_predictor *p, xsm_error *err)
{
    const xsm_model *m = p->model;
    if (m->classes != p->classes || m->features != p->width) {
        return xsmi_fail(
            err, XSM_ERROR_STATE,
            "the model has %u classes and %u features now, and %u and %u when the predictor was made; make "
            "it anew",
            m->classes, m->features, p->classes, p->width);
    }
    if (m->head != p->head) {
        return xsmi_fail(err, XSM_ERROR_STATE, "the model's correction is another since the predictor was made");
    }
    XSMI_TRY(check_index(m, p->index, err));
    const size_t needed = way_of(p).scratch(p);
    return xsmi_reserve(p->context, &p->scratch, &p->scratch_size, needed, 1)
               ? XSM_OK
               : xsmi_fail_memory(err, needed, "a predictor");
}

/* As xsm_predictor_new(), for options that were read and checked, with `top` classes a row and a beam of width `beam`.
 * The memory is the context's. */
static xsm_status make_predictor(xsm_context *context, const xsm_model *model, const xsm_predictor_options *o,
                                 uint32_t top, uint32_t beam, xsm_predictor **out, xsm_error *err)
{
    xsm_predictor *p;
    XSMI_TRY(XSMI_OBJECT_NEW(context, &p, xsm_predictor, "a predictor", err));
    p->model = xsmi_model_retain(model);
    p->head = xsmi_head_retain(model->head);
    p->top = top;
    p->beam = p->reach = beam;
    p->tree_alone = o->tree_alone;
    p->classes = model->classes;
    p->width = model->features;
    p->index = xsmi_index_retain(o->index);
    const xsm_status listed = o->shortlist ? xsmi_shortlist_make(p, o, err) : XSM_OK;
    if (listed != XSM_OK) {
        xsm_predictor_free(p);
        return listed;
    }
    p->scratch_size = way_of(p).scratch(p);
    p->held.context = context;
    p->top_score = xsmi_hold(&p->held, (uint64_t)XSMI_PIECE * top, sizeof *p->top_score);
    p->top_class = xsmi_hold(&p->held, (uint64_t)XSMI_PIECE * top, sizeof *p->top_class);
    p->probability = xsmi_hold(&p->held, top, sizeof *p->probability);
    xsm_status status = xsmi_held_check(&p->held, "a predictor", err);
    status = status == XSM_OK ? xsmi_array_new(context, &p->scratch, p->scratch_size, 1, "a predictor", err) : status;
    if (status != XSM_OK) {
        xsm_predictor_free(p);
        return status;
    }
    *out = p;
    return XSM_OK;
}

void xsm_predictor_free(xsm_predictor *p)
{
    if (p) {
        xsm_context *ctx = p->context;
        for (uint32_t i = 0; i < p->worker_count; i++) {
            xsm_predictor_free(p->workers[i].predictor);
        }
        xsmi_release(ctx, p->workers, p->worker_count, sizeof *p->workers);
        xsmi_held_release(&p->held);
        xsmi_release(ctx, p->scratch, p->scratch_size, 1);
        xsmi_filter_release(p);
        xsmi_shortlist_free(p);
        xsmi_index_release(p->index);
        xsmi_head_release(p->head);
        xsmi_model_release(p->model);
        XSMI_OBJECT_FREE(p, xsm_predictor);
    }
}

/* Scores one piece of a batch; the results are in the predictor. */
static xsm_status run_piece(xsm_predictor *p, const xsm_prediction *to, size_t first, size_t rows,
                            const xsmi_row_filter *filters, xsm_error *err)
{
    const xsm_batch *batch = to->batch;
    for (size_t i = 0; i < rows; i++) {
        p->features[i] = xsmi_batch_features(batch, first + i);
    }
    const xsmi_score_all wanted = {.rows = rows,
                                   .features = p->features,
                                   .sparse = xsmi_batch_sparse(batch),
                                   .top = p->top,
                                   .lists_alone = !xsmi_predict_sums(p, to),
                                   .filters = filters,
                                   .log_sum_exp = p->log_sum_exp,
                                   .target_score = p->target_score,
                                   .top_score = p->top_score,
                                   .top_class = p->top_class};
    return xsmi_together_score_rows(p->model, &wanted, NULL, p->scratch, p->context, XSM_OK, err);
}

/* Searches the best classes of a row in a hierarchy, whose scores are already log-probabilities. */
static bool search_hierarchy(xsm_predictor *p, const xsmi_features *x, const xsmi_row_filter *filter, const void *own,
                             const xsmi_top *list, double *probabilities)
{
    const best_first_scratch *b = own;
    const xsmi_features input = xsmi_model_forward(p->model, x, b->hidden);
    const uint64_t opened = xsmi_best_first(p->model, &input, filter, list, b->search);
    for (uint32_t k = 0; opened > 0 && probabilities && k < p->top; k++) {
        probabilities[k] = exp((double)list->score[k]);
    }
    p->probed += opened;
    return opened > 0;
}

static xsm_status run_hierarchy(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    xsmi_arena arena = {p->scratch, 0};
    const best_first_scratch own = divide_best_first(p->model, &arena);
    return xsmi_predict_rows(p, to, search_hierarchy, &own, err);
}

/* Whether the rows of a piece need the scores of few classes, and scores of chosen classes have the same bits as scores
 * of all. Per class, scoring single classes takes some 24 times as long as scoring all in tiles. */
static bool needs_few(const xsm_predictor *p, const xsm_prediction *to, const xsmi_row_filter *filters, size_t rows)
{
    uint64_t left = 0;
    for (size_t i = 0; i < rows && filters; i++) {
        left += filters[i].most;
    }
    return filters && xsmi_model_lists_as_all(p->model) && !xsmi_predict_sums(p, to) &&
           32 * left <= (uint64_t)p->classes * (24 + rows);
}

static void set_probabilities(const xsm_predictor *p, const xsmi_top *list, double log_sum)
{
    const xsmi_calibration *c = &p->model->calibration;
    for (uint32_t k = 0; k < p->top; k++) {
        p->probability[k] = xsmi_class_probability(p->model, c, list->score[k], log_sum);
    }
}

/* Predicts a piece of rows by scoring all classes, or all that the filter leaves. */
static xsm_status run_rows(xsm_predictor *p, const xsm_prediction *to, size_t first, size_t rows, xsm_error *err)
{
    const xsm_batch *batch = to->batch;
    const xsmi_row_filter *filters = xsmi_filter_of(p, to, first, 0);
    for (size_t i = 1; i < rows && filters; i++) {
        (void)xsmi_filter_of(p, to, first + i, i);
    }
    const bool few = needs_few(p, to, filters, rows);
    XSMI_TRY(few ? XSM_OK : run_piece(p, to, first, rows, filters, err));
    for (size_t i = 0; i < rows; i++) {
        const xsmi_top list = xsmi_predict_list(p, i);
        const xsmi_features x = xsmi_batch_features(batch, first + i);
        if (few ? !xsmi_filter_score(p, &x, &filters[i], true, &list) : !isfinite(p->log_sum_exp[i])) {
            return xsmi_predict_fail(p, batch, first + i, err);
        }
        if (xsmi_predict_wants(to)) {
            set_probabilities(p, &list, few ? 0 : p->log_sum_exp[i]);
        }
        xsmi_predict_put(p, to, first + i, &list);
    }
    return XSM_OK;
}

static xsm_status run_all(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    const xsm_batch *batch = to->batch;
    for (size_t first = 0; first < batch->count; first += XSMI_PIECE) {
        const size_t rows = (size_t)XSMI_MIN(batch->count - first, XSMI_PIECE);
        XSMI_TRY(run_rows(p, to, first, rows, err));
        xsmi_advance(p->context, rows);
    }
    if (batch->dataset && !batch->values && !batch->rows) {
        xsmi_dataset_passed(batch->dataset, batch->first, batch->count);
    }
    return XSM_OK;
}

/* Reserves memory for a prediction that was checked. */
static xsm_status prepare(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    XSMI_TRY(xsmi_filter_prepare(p, to, err));
    return check_model(p, err);
}

static xsm_status go(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    return way_of(p).run(p, to, err);
}

/* -- rows that are divided among threads --------------------------------------------------------------------------- */

/* Makes `count` workers, one a thread, whose options are those of make_predictor(). */
static xsm_status make_workers(xsm_predictor *p, const xsm_predictor_options *o, uint32_t count, xsm_error *err)
{
    XSMI_TRY(xsmi_zeros_new(p->context, &p->workers, count, sizeof *p->workers, "a predictor", err));
    p->worker_count = count;
    for (uint32_t i = 0; i < count; i++) {
        XSMI_TRY(make_predictor(p->context, p->model, o, p->top, p->beam, &p->workers[i].predictor, err));
    }
    return XSM_OK;
}

/* Returns the rows first..first+count of a prediction; `batch` gets that part of its batch. */
static xsm_prediction slice_of(const xsm_prediction *to, size_t first, size_t count, uint32_t top, xsm_batch *batch)
{
    xsm_prediction slice = *to;
    *batch = xsmi_batch_slice(to->batch, first, count);
    slice.batch = batch;
    slice.classes += first * top;
    slice.scores = to->scores ? to->scores + first * top : NULL;
    slice.probabilities = to->probabilities ? to->probabilities + first * top : NULL;
    slice.lengths = to->lengths ? to->lengths + first : NULL;
    slice.filters = to->filters ? to->filters + first : NULL;
    slice.allow_offsets = to->allow_offsets ? to->allow_offsets + first : NULL;
    slice.deny_offsets = to->deny_offsets ? to->deny_offsets + first : NULL;
    return slice;
}

typedef struct share_job {
    const xsm_predictor *predictor;
    const xsm_prediction *to;
} share_job;

static void run_some(void *state, const xsmi_range *r)
{
    const share_job *job = state;
    const xsm_predictor *p = job->predictor;
    xsmi_worker *w = &p->workers[r->thread];
    xsm_batch batch;
    const xsm_prediction some = slice_of(job->to, r->first, r->end - r->first, p->top, &batch);
    xsm_error err = XSM_ERROR_INIT;
    const xsm_status status = go(w->predictor, &some, &err);
    if (status != XSM_OK && r->index < w->failed) {
        w->failed = r->index;
        w->status = status;
        w->err = err;
    }
}

/* Predicts with the workers. */
static xsm_status run_workers(const xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    const size_t rows = (size_t)to->batch->count, wanted = rows / (4 * (size_t)p->worker_count);
    if (rows == 0) {
        return XSM_OK;
    }
    share_job job = {p, to};
    for (uint32_t i = 0; i < p->worker_count; i++) {
        xsmi_worker *w = &p->workers[i];
        w->failed = SIZE_MAX;
        XSMI_TRY(prepare(w->predictor, to, err));
    }
    XSMI_TRY(xsmi_run_ranges(p->context, run_some, &job, rows, XSMI_CLAMP(wanted, (size_t)1, (size_t)XSMI_PIECE), err));
    const xsmi_worker *first = &p->workers[0];
    for (uint32_t i = 0; i < p->worker_count; i++) {
        const xsmi_worker *w = &p->workers[i];
        first = w->failed < first->failed ? w : first;
    }
    return first->failed == SIZE_MAX ? XSM_OK : xsmi_fail_copy(err, &first->err);
}

/* -- predictors as callers have them ------------------------------------------------------------------------------- */

/* Makes a predictor without workers. The caller frees *out, also on failure. */
static xsm_status new_predictor(xsm_context *context, const xsm_model *model, const xsm_predictor_options *options,
                                xsm_predictor_options *o, xsm_predictor **out, xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_predictor_options, o, options, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_predictor_options, o, tree_alone, err));
    if (o->beam > 0 || o->tree_alone || o->shortlist) {
        XSMI_TRY(xsmi_model_need_whole(model, "a predictor with a beam or a shortlist", err));
    }
    XSMI_TRY(check_index(model, o->index, err));
    XSMI_TRY(xsmi_shortlist_check(model, o, err));
    uint32_t top = o->top ? o->top : XSMI_DEFAULT(xsm_predictor_options, top);
    if (top > XSM_TOP_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "top is %u; accepted is 1 to %d", top, XSM_TOP_MAX);
    }
    top = XSMI_MIN(top, model->classes);
    uint32_t beam;
    XSMI_TRY(xsmi_beam_width(model, o, top, &beam, err));
    return make_predictor(context, model, o, top, beam, out, err);
}

static xsm_status predictor_new(const xsm_model *model, const xsm_predictor_options *options, xsm_predictor **out,
                                xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_predictor_new", XSMI_GIVEN({out, "out"}), err));
    xsm_predictor *p = NULL;
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_status status = new_predictor(model->context, model, options, &o, &p, err);
    const xsmi_number top = XSMI_WHOLE("top", o.top);
    status = xsmi_together_numbers(model, &top, 1, status, err);
    if (status != XSM_OK) {
        xsm_predictor_free(p);
        return status;
    }
    *out = p;
    return XSM_OK;
}

xsm_status xsm_predictor_new(const xsm_model *model, const xsm_predictor_options *options, xsm_predictor **out,
                             xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"});
    return XSMI_TOGETHER(model, predictor_new(model, options, out, err), err);
}

xsm_status xsm_predictor_get_info(const xsm_predictor *p, xsm_predictor_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {p, "the predictor"});
    xsm_predictor_info known = XSM_PREDICTOR_INFO_INIT;
    known.probed = p->probed;
    known.top = p->top;
    return XSMI_WRITE(xsm_predictor_info, &known, info, err);
}

static xsm_status check_outputs(const xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    const size_t n = (size_t)to->batch->count, all = n * p->top;
    const size_t ends = to->allow_offsets ? n + 1 : 0, denied = to->deny_offsets ? n + 1 : 0;
    xsmi_region regions[8 + XSMI_BATCH_REGIONS] = {
        xsmi_output("classes", to->classes, all, sizeof *to->classes),
        xsmi_output("scores", to->scores, all, sizeof *to->scores),
        xsmi_output("probabilities", to->probabilities, all, sizeof *to->probabilities),
        xsmi_output("lengths", to->lengths, n, sizeof *to->lengths),
        xsmi_input("allow_offsets", to->allow_offsets, ends, sizeof *to->allow_offsets),
        xsmi_input("allow", to->allow, ends ? (size_t)to->allow_offsets[n] : 0, sizeof *to->allow),
        xsmi_input("deny_offsets", to->deny_offsets, denied, sizeof *to->deny_offsets),
        xsmi_input("deny", to->deny, denied ? (size_t)to->deny_offsets[n] : 0, sizeof *to->deny)};
    xsmi_batch_regions(to->batch, regions + 8);
    return xsmi_check_overlap("xsm_prediction", regions, 8 + XSMI_BATCH_REGIONS, err);
}

/* Reads and checks a call, and prepares it. */
static xsm_status read_call(const char *call, xsm_predictor *p, const xsm_prediction *prediction, xsm_prediction *to,
                            xsm_batch *batch, xsm_error *err)
{
    if (!prediction) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: prediction is NULL", call);
    }
    XSMI_TRY(XSMI_READ(xsm_prediction, to, prediction, err));
    if (!to->batch || !to->classes) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_prediction.%s is NULL", to->batch ? "classes" : "batch");
    }
    XSMI_TRY(xsmi_model_read_batch(p->model, to->batch, batch, err));
    to->batch = batch;
    XSMI_TRY(xsmi_filter_check(p, to, err));
    XSMI_TRY(check_outputs(p, to, err));
    if ((p->index || (p->beam > 0 && !xsmi_model_beam(p->model, p->beam))) && xsmi_predict_sums(p, to)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "probabilities need the scores of all classes, which a search is there to avoid, unless the "
                         "model is calibrated for several labels");
    }
    return prepare(p, to, err);
}

static uint64_t hash_lists(const uint64_t *offsets, const uint32_t *classes, uint64_t rows, uint64_t hash)
{
    hash = xsmi_hash(&(bool){offsets != NULL}, sizeof(bool), hash);
    return offsets ? xsmi_hash(classes, (size_t)offsets[rows] * sizeof *classes,
                               xsmi_hash(offsets, ((size_t)rows + 1) * sizeof *offsets, hash))
                   : hash;
}

/* Returns a hash of which classes a call accepts. */
static uint64_t hash_accepted(const xsm_prediction *to)
{
    const double numbers[] = {to->exclude_known, to->has_least_score, to->has_least_score ? (double)to->least_score : 0,
                              to->least_probability};
    const uint64_t rows = to->batch->count;
    uint64_t hash = xsmi_hash(numbers, sizeof numbers, 0);
    hash = hash_lists(to->allow_offsets, to->allow, rows, hash);
    hash = hash_lists(to->deny_offsets, to->deny, rows, hash);
    for (uint64_t i = 0; i <= rows; i++) {
        const xsm_filter *f = i == rows ? to->filter : to->filters ? to->filters[i] : NULL;
        hash = f ? xsmi_hash(f->bits, xsmi_filter_words(f->classes) * sizeof *f->bits, xsmi_hash(&i, sizeof i, hash))
                 : hash;
    }
    return hash;
}

static xsm_status predictor_run(xsm_predictor *p, const xsm_prediction *prediction, xsm_error *err)
{
    xsm_prediction to = XSM_PREDICTION_INIT;
    xsm_batch batch = {.size = sizeof batch};
    xsm_status status = read_call("xsm_predictor_run", p, prediction, &to, &batch, err);
    const uint64_t asked = status == XSM_OK && xsmi_model_is_divided(p->model) ? hash_accepted(&to) : 0;
    XSMI_TRY(xsmi_together_batch(p->model, &batch, asked, status, err));
    xsmi_activity activity;
    xsmi_begin(&activity, p->context, "predicting", "rows", batch.count);
    status = go(p, &to, err);
    return xsmi_end(&activity, status, err);
}

xsm_status xsm_predictor_run(xsm_predictor *p, const xsm_prediction *prediction, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {p, "the predictor"});
    return XSMI_TOGETHER(p->model, predictor_run(p, prediction, err), err);
}

/* Predicts rows in one process, on the threads of a context, at most one for each row. */
static xsm_status predict_rows(xsm_predictor *p, const xsm_predictor_options *o, const xsm_prediction *prediction,
                               xsm_error *err)
{
    xsm_prediction to = XSM_PREDICTION_INIT;
    xsm_batch batch = {.size = sizeof batch};
    XSMI_TRY(read_call("xsm_predict", p, prediction, &to, &batch, err));
    const uint32_t threads = xsmi_context_threads(p->context);
    const uint32_t count = (uint32_t)XSMI_MIN(batch.count, threads);
    XSMI_TRY(count > 1 ? make_workers(p, o, count, err) : XSM_OK);
    xsmi_activity activity;
    xsmi_begin(&activity, p->context, "predicting", "rows", batch.count);
    const xsm_status status = count > 1 ? run_workers(p, &to, err) : go(p, &to, err);
    return xsmi_end(&activity, status, err);
}

static xsm_status predict(xsm_context *context, const xsm_model *model, const xsm_predictor_options *options,
                          const xsm_prediction *prediction, xsm_error *err)
{
    xsm_predictor *p = NULL;
    xsm_status status;
    if (xsmi_model_is_divided(model)) {
        status = predictor_new(model, options, &p, err);
        status = status == XSM_OK ? predictor_run(p, prediction, err) : status;
    } else {
        xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
        status = new_predictor(context ? context : model->context, model, options, &o, &p, err);
        status = status == XSM_OK ? predict_rows(p, &o, prediction, err) : status;
    }
    xsm_predictor_free(p);
    return status;
}

xsm_status xsm_predict(xsm_context *context, const xsm_model *model, const xsm_predictor_options *options,
                       const xsm_prediction *prediction, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"});
    return XSMI_TOGETHER(model, predict(context, model, options, prediction, err), err);
}
