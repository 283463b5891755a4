/* Prediction: the best classes of rows, among all classes or those that a search finds, with the scratch of one
 * thread. */
#include "predict/predict.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"
#include "predict/label_scores.h"

#include <math.h>
#include <string.h>

/* For a model with a hierarchy, whether rows are searched best first: not for so many classes that tiles are faster. */
static bool searches_hierarchy(const xsm_model *m, uint32_t top)
{
    return m->hierarchy && top <= m->classes / 16;
}

/* The scratch of a search. */
typedef struct search_scratch {
    float *queries; /* [XSM_INDEX_QUERIES][stride] */
    void *scratch;
} search_scratch;

static search_scratch divide_search(const xsm_index *index, uint32_t top, xsmi_arena *arena)
{
    search_scratch p;
    p.queries = xsmi_arena_take(arena, (uint64_t)XSM_INDEX_QUERIES * xsmi_index_query_stride(index), sizeof *p.queries);
    p.scratch = xsmi_arena_take(arena, xsmi_index_scratch(index, top), 1);
    return p;
}

static size_t index_scratch(const xsm_predictor *p)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide_search(p->index, p->top, &arena);
    return arena.used;
}

/* The scratch of a search in a hierarchy. */
typedef struct best_first_scratch {
    void *search;
    float *hidden; /* for a first layer */
} best_first_scratch;

static best_first_scratch divide_best_first(const xsm_model *m, xsmi_arena *arena)
{
    best_first_scratch p;
    p.search = xsmi_arena_take(arena, xsmi_best_first_scratch(m->hierarchy), 1);
    p.hidden = xsmi_arena_take(arena, m->layer ? m->features : 0, sizeof *p.hidden);
    return p;
}

static size_t hierarchy_scratch(const xsm_predictor *p)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide_best_first(p->model, &arena);
    return arena.used;
}

/* For rows of either kind, against all classes. */
static size_t all_scratch(const xsm_predictor *p)
{
    size_t sparse = xsmi_model_score_all_scratch(p->model, true, XSMI_TILE_BLOCKS, p->top);
    size_t dense = xsmi_model_score_all_scratch(p->model, false, XSMI_TILE_BLOCKS, p->top);
    return XSMI_MAX(sparse, dense);
}

static xsm_status run_index(xsm_predictor *p, const xsm_prediction *to, xsm_error *err);
static xsm_status run_hierarchy(xsm_predictor *p, const xsm_prediction *to, xsm_error *err);
static xsm_status run_all(xsm_predictor *p, const xsm_prediction *to, xsm_error *err);

/* How classes are found: bytes of scratch, and the prediction of a batch that was read. */
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
        return p->model->trees ? (way){xsmi_labels_scratch, xsmi_labels_run} : (way){xsmi_beam_scratch, xsmi_beam_run};
    }
    if (p->index) {
        return (way){index_scratch, run_index};
    }
    return searches_hierarchy(p->model, p->top) ? (way){hierarchy_scratch, run_hierarchy} : (way){all_scratch, run_all};
}

static xsm_status check_index(const xsm_model *model, const xsm_index *index, xsm_error *err)
{
    if (index && (!index->built || index->model != model || index->shape != model->shape)) {
        return xsmi_fail(err, XSM_ERROR_STATE, "index '%s' is not built over this model as it is", index->ops.name);
    }
    if (index && (model->correction != index->correction || model->hierarchy)) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the model's scores have another correction since index '%s' was built; build it anew",
                         index->ops.name);
    }
    return XSM_OK;
}

/* Checks that model and index have not changed since the predictor was made, except for weights and data that follows
 * from their order: another layout, or a rebuilt index, may need more scratch. */
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
    if (m->correction != p->correction || m->hierarchy != p->hierarchy) {
        return xsmi_fail(err, XSM_ERROR_STATE, "the model's correction is another since the predictor was made");
    }
    XSMI_TRY(check_index(m, p->index, err));
    const size_t needed = way_of(p).scratch(p);
    if (needed > p->scratch_size) {
        void *scratch = xsmi_allocate(p->context, needed, 1);
        if (!scratch) {
            return xsmi_fail_memory(err, needed, "a predictor");
        }
        xsmi_release(p->context, p->scratch, p->scratch_size, 1);
        p->scratch = scratch;
        p->scratch_size = needed;
    }
    return XSM_OK;
}

xsm_status xsm_predictor_new(const xsm_model *model, const xsm_predictor_options *options, xsm_predictor **out,
                             xsm_error *err)
{
    XSMI_ENTER(err);
    if (!model || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_predictor_new: %s is NULL", model ? "out" : "the model");
    }
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    XSMI_TRY(xsmi_options_read(&o, sizeof o, XSMI_FIRST(xsm_predictor_options), options, "xsm_predictor_options", err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_predictor_options, &o, tree_alone, err));
    XSMI_TRY(check_index(model, o.index, err));
    XSMI_TRY(xsmi_shortlist_check(model, &o, err));
    uint32_t top = o.top ? o.top : 5;
    if (top > XSM_TOP_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "top is %u; accepted is 1 to %d", top, XSM_TOP_MAX);
    }
    top = XSMI_MIN(top, model->classes);
    uint32_t beam;
    XSMI_TRY(xsmi_beam_width(model, &o, top, &beam, err));
    xsm_context *ctx = xsmi_context_retain(model->context);
    xsm_predictor *p = xsmi_allocate(ctx, 1, sizeof *p);
    if (!p) {
        xsm_context_free(ctx);
        return xsmi_fail_memory(err, sizeof *p, "a predictor");
    }
    memset(p, 0, sizeof *p);
    p->context = ctx;
    p->model = xsmi_model_retain(model);
    p->correction = xsmi_correction_retain(model->correction);
    p->hierarchy = xsmi_class_tree_retain(model->hierarchy);
    p->top = top;
    p->beam = beam;
    p->tree_alone = o.tree_alone;
    p->classes = model->classes;
    p->width = model->features;
    p->index = xsmi_index_retain(o.index);
    const xsm_status listed = o.shortlist ? xsmi_shortlist_make(p, &o, err) : XSM_OK;
    if (listed != XSM_OK) {
        xsm_predictor_free(p);
        return listed;
    }
    p->scratch_size = way_of(p).scratch(p);
    p->top_score = xsmi_allocate(ctx, (uint64_t)XSMI_PIECE * top, sizeof *p->top_score);
    p->top_class = xsmi_allocate(ctx, (uint64_t)XSMI_PIECE * top, sizeof *p->top_class);
    p->scratch = xsmi_allocate(ctx, p->scratch_size, 1);
    if (!p->top_score || !p->top_class || !p->scratch) {
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
        xsmi_release(ctx, p->top_score, XSMI_PIECE * (size_t)p->top, sizeof *p->top_score);
        xsmi_release(ctx, p->top_class, XSMI_PIECE * (size_t)p->top, sizeof *p->top_class);
        xsmi_release(ctx, p->scratch, p->scratch_size, 1);
        xsmi_shortlist_free(p);
        xsmi_index_release(p->index);
        xsmi_class_tree_release(p->hierarchy);
        xsmi_correction_release(p->correction);
        xsmi_model_release(p->model);
        xsmi_release(ctx, p, 1, sizeof *p);
        xsm_context_free(ctx);
    }
}

xsm_status xsm_predictor_get_info(const xsm_predictor *p, xsm_predictor_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!p) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_predictor_get_info: the predictor is NULL");
    }
    xsm_predictor_info known = XSM_PREDICTOR_INFO_INIT;
    known.probed = p->probed;
    known.top = p->top;
    return xsmi_options_write(&known, sizeof known, XSMI_FIRST(xsm_predictor_info), info, "xsm_predictor_info", err);
}

/* Scores one piece of a batch; the results are in the predictor. */
static void run_piece(xsm_predictor *p, const xsm_batch *batch, size_t first, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        p->features[i] = xsmi_batch_features(batch, first + i);
    }
    const xsmi_score_all wanted = {.rows = rows,
                                   .features = p->features,
                                   .sparse = xsmi_batch_sparse(batch),
                                   .top = p->top,
                                   .log_sum_exp = p->log_sum_exp,
                                   .target_score = p->target_score,
                                   .top_score = p->top_score,
                                   .top_class = p->top_class};
    xsmi_model_score_rows(p->model, &wanted, p->scratch, p->context);
}

/* Sorts a row's classes by falling score, of equal scores the smaller class first; most are in order already. */
static void sort_row(uint32_t *classes, float *scores, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        uint32_t class = classes[i], rank = i;
        float score = scores[i];
        for (; rank > 0 && (scores[rank - 1] < score || (scores[rank - 1] == score && classes[rank - 1] > class));
             rank--) {
            classes[rank] = classes[rank - 1];
            scores[rank] = scores[rank - 1];
        }
        classes[rank] = class;
        scores[rank] = score;
    }
}

/* Searches for the classes of the next XSM_INDEX_QUERIES rows at most, from `first` on, and scores them again. */
static xsm_status search_rows(xsm_predictor *p, const xsm_batch *batch, size_t first, uint32_t *classes, float *scores,
                              xsm_error *err)
{
    const uint32_t rows = (uint32_t)XSMI_MIN(batch->count - first, XSM_INDEX_QUERIES);
    const xsm_model *m = p->model;
    xsmi_arena arena = {p->scratch, 0};
    search_scratch own = divide_search(p->index, p->top, &arena);
    size_t stride = xsmi_index_query_stride(p->index);
    uint32_t lengths[XSM_INDEX_QUERIES];
    uint64_t probed[XSM_INDEX_QUERIES] = {0};
    memset(own.queries, 0, rows * stride * sizeof *own.queries);
    for (uint32_t i = 0; i < rows; i++) {
        xsmi_features x = xsmi_batch_features(batch, first + i);
        float *query = own.queries + i * stride;
        if (p->model->layer) {
            xsmi_layer_hidden(p->model, &x, query);
        }
        for (size_t j = 0; !p->model->layer && j < x.count; j++) {
            query[x.index ? x.index[j] : j] = x.values[j];
        }
        if (p->index->own_width > p->index->width) {
            query[p->index->width] = 1;
        }
    }
    xsm_index_block block = {
        .size = sizeof block,
        .queries = own.queries,
        .stride = stride,
        .count = rows,
        .top = p->top,
        .threshold = -INFINITY,
        .classes = classes,
        .scores = scores,
        .lengths = lengths,
        .probed = probed,
        .scratch = own.scratch,
        .list_stride = p->top,
    };
    XSMI_TRY(xsmi_index_block(p->index, &block, err));
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t row = xsmi_batch_row(batch, first + i);
        xsmi_features x = xsmi_batch_features(batch, first + i);
        if (m->layer) {
            x = (xsmi_features){own.queries + i * stride, NULL, m->features};
        }
        bool finite = lengths[i] == p->top;
        if (finite) {
            xsmi_model_score_classes(m, &x, classes + (size_t)i * p->top, p->top, m->alpha, scores + (size_t)i * p->top,
                                     NULL);
            if (p->correction) { /* numbers, which need no scratch */
                p->correction->kind->chosen(p->correction, &x, classes + (size_t)i * p->top, p->top,
                                            scores + (size_t)i * p->top, NULL);
            }
        }
        for (uint32_t k = 0; k < p->top && finite; k++) {
            finite = isfinite(scores[(size_t)i * p->top + k]) != 0;
        }
        if (!finite) {
            return xsmi_fail(err, XSM_ERROR_DIVERGED,
                             "row %llu has scores that are not finite, or index '%s' finds fewer "
                             "than %u classes",
                             (unsigned long long)row, p->index->ops.name, p->top);
        }
        sort_row(classes + (size_t)i * p->top, scores + (size_t)i * p->top, p->top);
        p->probed += probed[i];
    }
    return XSM_OK;
}

static xsm_status run_index(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    for (size_t first = 0; first < to->batch->count; first += XSM_INDEX_QUERIES) {
        float *found = to->scores ? to->scores + first * p->top : p->top_score;
        XSMI_TRY(xsmi_go_on(p->context, err));
        XSMI_TRY(search_rows(p, to->batch, first, to->classes + first * p->top, found, err));
        const size_t rows = (size_t)XSMI_MIN(to->batch->count - first, XSM_INDEX_QUERIES);
        xsmi_predict_each(p, found, rows * p->top, to->probabilities ? to->probabilities + first * p->top : NULL);
        xsmi_advance(p->context, XSM_INDEX_QUERIES);
    }
    return XSM_OK;
}

/* A row of a model with a hierarchy, whose scores are already log-probabilities. */
static bool search_hierarchy(xsm_predictor *p, const xsmi_features *x, const void *own, const xsmi_top *list,
                             double *probabilities)
{
    const best_first_scratch *b = own;
    const xsmi_features input = xsmi_model_forward(p->model, x, b->hidden);
    const uint64_t opened = xsmi_best_first(p->model, &input, p->top, list->class_of, list->score, b->search);
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

static xsm_status run_all(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    const xsm_batch *batch = to->batch;
    for (size_t first = 0; first < batch->count; first += XSMI_PIECE) {
        size_t rows = (size_t)XSMI_MIN(batch->count - first, XSMI_PIECE);
        run_piece(p, batch, first, rows);
        if (xsmi_is_cancelled(p->context)) {
            return xsmi_fail_cancelled(p->context, err);
        }
        for (size_t i = 0; i < rows; i++) {
            if (!isfinite(p->log_sum_exp[i])) {
                return xsmi_fail(err, XSM_ERROR_DIVERGED, "row %llu has scores that are not finite",
                                 (unsigned long long)xsmi_batch_row(batch, first + i));
            }
            for (uint32_t k = 0; k < p->top; k++) {
                size_t from = i * p->top + k, at = (first + i) * p->top + k;
                to->classes[at] = p->top_class[from];
                if (to->scores) {
                    to->scores[at] = p->top_score[from];
                }
                if (to->probabilities) {
                    const xsmi_calibration *c = &p->model->calibration;
                    const float score = p->top_score[from];
                    to->probabilities[at] = p->model->trees
                                                ? xsmi_label_probability(p->model, c, score, p->log_sum_exp[i])
                                                : xsmi_probability(c, score, p->log_sum_exp[i]);
                }
            }
        }
        xsmi_advance(p->context, rows);
    }
    if (batch->dataset && !batch->values && !batch->rows) {
        xsmi_dataset_passed(batch->dataset, batch->first, batch->count);
    }
    return XSM_OK;
}

xsm_status xsm_predictor_run(xsm_predictor *p, const xsm_prediction *prediction, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!p || !prediction) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_predictor_run: %s is NULL", p ? "prediction" : "the predictor");
    }
    xsm_prediction given = XSM_PREDICTION_INIT;
    XSMI_TRY(xsmi_options_read(&given, sizeof given, XSMI_FIRST(xsm_prediction), prediction, "xsm_prediction", err));
    if (!given.batch || !given.classes) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_prediction.%s is NULL", given.batch ? "classes" : "batch");
    }
    xsm_batch batch;
    XSMI_TRY(xsmi_model_read_batch(p->model, given.batch, &batch, err));
    given.batch = &batch;
    XSMI_TRY(check_model(p, err));
    if ((p->index || (p->beam > 0 && !p->tree_alone && !p->model->trees)) && given.probabilities &&
        p->model->calibration.method != XSM_CALIBRATION_LABELS) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "probabilities need the scores of all classes, which a search is there to avoid, unless the "
                         "model is calibrated for several labels");
    }
    xsmi_activity activity;
    xsmi_begin(&activity, p->context, "predicting", "rows", batch.count);
    return xsmi_end(&activity, way_of(p).run(p, &given, err), err);
}
