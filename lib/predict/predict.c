/* Prediction: the best classes of rows, among all classes or those that a search finds, with the scratch of one
 * thread. */
#include "predict/predict.h"

#include "base/activity.h"
#include "base/order.h"
#include "model/listed.h"
#include "model/together.h"
#include "model/label_scores.h"

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

xsm_status xsmi_predictor_check_index(const xsm_model *model, const xsm_index *index, xsm_error *err)
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
    XSMI_TRY(xsmi_predictor_check_index(m, p->index, err));
    const size_t needed = way_of(p).scratch(p);
    return xsmi_reserve(p->context, &p->scratch, &p->scratch_size, needed, 1)
               ? XSM_OK
               : xsmi_fail_memory(err, needed, "a predictor");
}

xsm_status xsmi_predictor_make(xsm_context *context, const xsm_model *model, const xsm_predictor_options *o,
                               uint32_t top, uint32_t beam, xsm_predictor **out, xsm_error *err)
{
    xsm_context *ctx = xsmi_context_retain(context);
    xsm_predictor *p = xsmi_allocate(ctx, 1, sizeof *p);
    if (!p) {
        xsm_context_free(ctx);
        return xsmi_fail_memory(err, sizeof *p, "a predictor");
    }
    memset(p, 0, sizeof *p);
    p->context = ctx;
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
    p->top_score = xsmi_allocate(ctx, (uint64_t)XSMI_PIECE * top, sizeof *p->top_score);
    p->top_class = xsmi_allocate(ctx, (uint64_t)XSMI_PIECE * top, sizeof *p->top_class);
    p->probability = xsmi_allocate(ctx, top, sizeof *p->probability);
    p->scratch = xsmi_allocate(ctx, p->scratch_size, 1);
    if (!p->top_score || !p->top_class || !p->probability || !p->scratch) {
        xsm_status status = xsmi_fail_memory(err, p->scratch_size, "a predictor");
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
        xsmi_release(ctx, p->top_score, XSMI_PIECE * (size_t)p->top, sizeof *p->top_score);
        xsmi_release(ctx, p->top_class, XSMI_PIECE * (size_t)p->top, sizeof *p->top_class);
        xsmi_release(ctx, p->probability, p->top, sizeof *p->probability);
        xsmi_release(ctx, p->scratch, p->scratch_size, 1);
        xsmi_filter_release(p);
        xsmi_shortlist_free(p);
        xsmi_index_release(p->index);
        xsmi_head_release(p->head);
        xsmi_model_release(p->model);
        xsmi_release(ctx, p, 1, sizeof *p);
        xsm_context_free(ctx);
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

xsm_status xsmi_predictor_prepare(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    XSMI_TRY(xsmi_filter_prepare(p, to, err));
    return check_model(p, err);
}

xsm_status xsmi_predictor_go(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    return way_of(p).run(p, to, err);
}
