#include "estimator/recomputed.h"

#include "base/arena.h"
#include "math/log_sum.h"
#include "model/tiles.h"

#include <string.h>

enum {
    ROWS = XSMI_EXAMPLE_CHUNK,  /* of a job */
    CACHED_FLOATS = 128 * 1024, /* scores that stay in the L2 cache, about */
    SCORED = XSMI_TILE_ROWS,    /* most rows that are scored together */
    /* from row to row of a class run: at a power of two, rows would evict each other from the L1 cache */
    RUN_FLOATS = XSMI_RUN_CLASSES + XSMI_LINE
};

/* What a thread has found in the coefficients. */
typedef struct verdict {
    xsmi_outcome outcome;
    uint64_t nonzero; /* counted until they are more than `few` */
} verdict;

/* The work of a call, in the gradient's memory. */
typedef struct recomputing {
    const xsmi_pass *pass;
    size_t runs;
    uint64_t few;           /* coefficients that are not 0, with which the step would go class by class */
    float *run_most;        /* [runs][n] */
    double *run_sums;       /* [runs][n][count] */
    verdict *verdicts;      /* [threads] */
    unsigned char *scratch; /* [threads][scratch_each] */
    size_t scratch_each;
} recomputing;

/* Scratch for some rows and a class run. */
typedef struct run_scratch {
    float *coefficients;   /* [rows][classes] */
    double *sums, *losses; /* [rows][count], [rows] */
    void *tiles;
} run_scratch;

static const xsm_class_sums *table_of(const xsm_estimator *e)
{
    return e->ops.class_sums;
}

/* Returns how many classes are computed together for `rows` rows: a class run, or where its sums are known already and
 * nothing else needs it as a whole, a part whose scores stay in the L2 cache. */
static uint32_t classes_for(const xsm_estimator *e, uint64_t rows)
{
    const uint64_t tiles = CACHED_FLOATS / XSMI_CLASS_TILE / XSMI_MAX(rows, 1);
    return xsmi_sums_are_relative(table_of(e))
               ? (uint32_t)XSMI_MIN(XSMI_MAX(tiles, 1) * XSMI_CLASS_TILE, (uint64_t)XSMI_RUN_CLASSES)
               : XSMI_RUN_CLASSES;
}

static run_scratch divide_scratch(const xsm_estimator *e, uint64_t rows, uint32_t classes, xsmi_arena *arena)
{
    run_scratch s;
    s.coefficients = xsmi_arena_take(arena, rows, classes * sizeof *s.coefficients);
    s.sums = xsmi_arena_take(arena, rows, table_of(e)->count * sizeof *s.sums);
    s.losses = xsmi_arena_take(arena, rows, sizeof *s.losses);
    s.tiles = xsmi_arena_take(arena, xsmi_tiles_scratch(e->model, false, XSMI_TILE_BLOCKS), 1);
    return s;
}

/* -- a class run --------------------------------------------------------------------------------------------------- */

/* Some examples and some classes of a run. */
typedef struct piece {
    uint64_t row, rows;
    uint32_t first, end;
} piece;

/* Writes the scores of the piece's example i to s->coefficients + i*stride. */
static void score(const xsm_gradient *g, const piece *p, const run_scratch *s, size_t stride, const xsm_context *ctx)
{
    const xsm_estimator *e = g->recomputed.estimator;
    for (uint64_t i = 0, some; i < p->rows; i += some) {
        some = XSMI_MIN(p->rows - i, (uint64_t)SCORED);
        xsmi_features features[SCORED];
        for (uint64_t j = 0; j < some; j++) {
            features[j] = xsmi_gradient_features(e, g, p->row + i + j);
        }
        const xsmi_score_block block = {
            features, (size_t)some, false, true, p->first, p->end, s->coefficients + i * stride, stride};
        xsmi_model_score_block(e->model, &block, s->tiles, ctx);
    }
}

static xsm_class_block block_of(const xsm_gradient *g, const piece *p, const run_scratch *s)
{
    const xsmi_recomputed *r = &g->recomputed;
    return (xsm_class_block){
        .size = sizeof(xsm_class_block),
        .examples = g->example + p->row,
        .count = p->rows,
        .batch = r->batch,
        .width = p->end - p->first,
        .first = p->first,
        .classes = r->estimator->model->classes,
        .eta = r->eta,
        .coefficients = s->coefficients,
        .label_scores = r->label_score_rows + p->row,
        .label_weights = g->label_weighted ? (const float *const *)g->label_weights + p->row : NULL,
        .most = r->most ? r->most + p->row : NULL,
        .sums = s->sums,
        .losses = s->losses,
    };
}

/* Computes the coefficients of a piece, and its losses. */
static void compute(const xsm_gradient *g, const piece *p, const run_scratch *s, const xsm_context *ctx,
                    xsmi_outcome *outcome)
{
    const xsm_estimator *e = g->recomputed.estimator;
    const xsm_class_sums *table = table_of(e);
    score(g, p, s, p->end - p->first, ctx);
    xsm_class_block block = block_of(g, p, s);
    if (!xsmi_sums_are_relative(table)) {
        table->sums(e->state, &block); /* may replace the scores by what gradient() needs */
    }
    block.sums = g->recomputed.sums + p->row * table->count;
    table->gradient(e->state, &block);
    const xsm_score_block entries = {
        .size = sizeof entries,
        .examples = block.examples,
        .count = block.count,
        .batch = block.batch,
        .width = block.width,
        .eta = block.eta,
        .coefficients = block.coefficients,
        .losses = block.losses,
        .weights = g->weighted ? g->weights + p->row : NULL,
    };
    xsmi_estimator_finish_block(e->model->kernels, &entries, outcome);
}

static void compute_again(const xsm_gradient *g, uint32_t first, uint32_t end, void *scratch, const xsm_context *ctx)
{
    xsmi_arena arena = {scratch, 0};
    const piece all = {0, g->examples, first, end};
    const run_scratch s = divide_scratch(g->recomputed.estimator, g->examples, g->recomputed.step_classes, &arena);
    xsmi_outcome outcome = {.finite = true};
    compute(g, &all, &s, ctx, &outcome);
}

/* See xsmi_pass::recompute(). */
static const float *recompute_rows(const xsm_gradient *g, uint64_t row, uint64_t rows, uint32_t first, uint32_t end,
                                   uint32_t thread)
{
    const xsm_estimator *e = g->recomputed.estimator;
    const recomputing *r = g->recomputed.work;
    xsmi_arena arena = {r->scratch + thread * r->scratch_each, 0};
    const piece some = {row, rows, first, end};
    const run_scratch s = divide_scratch(e, ROWS, RUN_FLOATS, &arena);
    verdict *v = &r->verdicts[thread];
    compute(g, &some, &s, e->context, &v->outcome);
    for (size_t i = 0; v->nonzero <= r->few && i < rows * (end - first); i++) {
        v->nonzero += s.coefficients[i] != 0;
    }
    if (first == 0) { /* they are the same of every run */
        memcpy(g->losses + row, s.losses, rows * sizeof *g->losses);
    }
    return s.coefficients;
}

/* -- passes over all classes --------------------------------------------------------------------------------------- */

/* Returns the rows and the run of a job. */
static piece piece_of(const recomputing *r, size_t index)
{
    const uint64_t n = r->pass->batch->count, groups = (n + ROWS - 1) / ROWS, row = index % groups * ROWS;
    const uint32_t classes = r->pass->estimator->model->classes;
    const uint32_t first = (uint32_t)(index / groups) * XSMI_RUN_CLASSES;
    return (piece){row, XSMI_MIN(n - row, (uint64_t)ROWS), first,
                   first + XSMI_MIN(classes - first, (uint32_t)XSMI_RUN_CLASSES)};
}

/* Returns the first number of a piece in an array [runs][n][count]. */
static size_t number_of(const recomputing *r, const piece *p, size_t count)
{
    return (p->first / XSMI_RUN_CLASSES * (size_t)r->pass->batch->count + (size_t)p->row) * count;
}

static run_scratch scored(const recomputing *r, const piece *p, size_t stride, uint32_t thread)
{
    const xsm_estimator *e = r->pass->estimator;
    xsmi_arena arena = {r->scratch + thread * r->scratch_each, 0};
    const run_scratch s = divide_scratch(e, ROWS, RUN_FLOATS, &arena);
    score(r->pass->gradient, p, &s, stride, e->context);
    return s;
}

/* Scores the labels of some examples, each by itself. */
static void run_labels(void *state, const xsmi_range *range)
{
    const recomputing *r = state;
    const xsmi_pass *p = r->pass;
    const xsm_gradient *g = p->gradient;
    xsmi_arena arena = {r->scratch + range->thread * r->scratch_each, 0};
    const run_scratch s = divide_scratch(p->estimator, ROWS, RUN_FLOATS, &arena);
    for (size_t i = range->first; i < range->end; i++) {
        float *scores = (float *)(uintptr_t)g->recomputed.label_score_rows[i];
        for (uint64_t j = 0; j < g->example[i].label_count; j++) {
            const piece label = {i, 1, g->example[i].labels[j], g->example[i].labels[j] + 1};
            score(g, &label, &s, 1, p->estimator->context);
            scores[j] = s.coefficients[0];
        }
    }
}

static void run_most(void *state, size_t index, uint32_t thread)
{
    const recomputing *r = state;
    const xsmi_pass *p = r->pass;
    const piece some = piece_of(r, index);
    const run_scratch s = scored(r, &some, some.end - some.first, thread);
    xsm_class_block block = block_of(p->gradient, &some, &s);
    block.most = r->run_most + number_of(r, &some, 1);
    table_of(p->estimator)->most(p->estimator->state, &block);
}

/* Finds the largest scores and relative sums, for one example after another. */
static void run_relative(void *state, size_t index, uint32_t thread)
{
    const recomputing *r = state;
    const xsmi_pass *p = r->pass;
    piece some = piece_of(r, index);
    run_scratch s = scored(r, &some, RUN_FLOATS, thread);
    for (const uint64_t end = some.row + some.rows; some.row < end; some.row++) {
        some.rows = 1;
        xsm_class_block block = block_of(p->gradient, &some, &s);
        block.most = r->run_most + number_of(r, &some, 1);
        block.sums = r->run_sums + number_of(r, &some, 1);
        table_of(p->estimator)->most(p->estimator->state, &block);
        table_of(p->estimator)->sums(p->estimator->state, &block);
        s.coefficients += RUN_FLOATS;
    }
}

static void run_sums(void *state, size_t index, uint32_t thread)
{
    const recomputing *r = state;
    const xsmi_pass *p = r->pass;
    const xsm_class_sums *table = table_of(p->estimator);
    const piece some = piece_of(r, index);
    const run_scratch s = scored(r, &some, some.end - some.first, thread);
    xsm_class_block block = block_of(p->gradient, &some, &s);
    block.sums = r->run_sums + number_of(r, &some, table->count);
    table->sums(p->estimator->state, &block);
}

/* Finds what there is to know of the coefficients, where no gradient of the rows is computed. */
static void run_look(void *state, size_t index, uint32_t thread)
{
    const recomputing *r = state;
    const xsm_gradient *g = r->pass->gradient;
    const piece p = piece_of(r, index);
    for (uint32_t k = p.first, some; k < p.end; k += some) {
        some = XSMI_MIN(p.end - k, g->recomputed.chunk_classes);
        (void)recompute_rows(g, p.row, p.rows, k, k + some, thread);
    }
}

/* Computes the gradient of the first layer's hidden vectors. */
static void run_backward(void *state, const xsmi_range *range)
{
    const recomputing *r = state;
    const uint64_t count = range->end - range->first;
    xsmi_outcome *outcome = &r->verdicts[range->thread].outcome;
    outcome->finite &= xsmi_pass_backward(r->pass, range->first, count, range->thread);
    if (outcome->finite) {
        xsmi_pass_layer_backward(r->pass, range->first, count, outcome);
    }
}

static void join_most(const recomputing *r)
{
    const size_t n = (size_t)r->pass->batch->count;
    float *most = r->pass->gradient->recomputed.most;
    for (size_t i = 0; i < n; i++) {
        most[i] = r->run_most[i];
        for (size_t run = 1; run < r->runs; run++) {
            const float other = r->run_most[run * n + i];
            most[i] = other > most[i] || other != other ? other : most[i]; /* NaN stays */
        }
    }
}

/* Adds the sums of the class runs, in rising order. */
static void join_sums(const recomputing *r)
{
    const xsm_class_sums *table = table_of(r->pass->estimator);
    const size_t count = (size_t)r->pass->batch->count * table->count;
    double *sums = r->pass->gradient->recomputed.sums;
    memset(sums, 0, count * sizeof *sums);
    for (size_t i = 0; i < r->runs * count; i++) {
        sums[i % count] += table->single ? (double)(float)r->run_sums[i] : r->run_sums[i];
    }
}

/* Joins the largest scores and relative sums of the class runs. */
static void join_relative(const recomputing *r)
{
    const size_t n = (size_t)r->pass->batch->count;
    const xsmi_recomputed *of = &r->pass->gradient->recomputed;
    for (size_t i = 0; i < n; i++) {
        xsmi_log_sum all = XSMI_LOG_SUM_INIT;
        for (size_t at = i; at < r->runs * n; at += n) {
            xsmi_log_sum_join(&all, &(xsmi_log_sum){r->run_most[at], (double)(float)r->run_sums[at]});
        }
        of->most[i] = all.max;
        of->sums[i] = all.sum;
    }
}

/* -- a batch ------------------------------------------------------------------------------------------------------- */

bool xsmi_pass_recomputes(const xsmi_pass *p)
{
    const xsm_estimator *e = p->estimator;
    const xsm_model *m = e->model;
    const double decay = xsmi_estimator_decay(e, p->eta);
    if (p->lists || p->input || !e->exact || !e->ops.class_sums || (e->ops.flags & XSM_ESTIMATOR_ROW_STATE) ||
        e->ops.state_tensor || p->batch->count <= p->gradient->array_most / m->classes) {
        return false;
    }
    return xsmi_model_multiplies(m, xsmi_batch_sparse(p->batch)) &&
           (decay == 1 ? m->w.alpha == 1 : m->w.alpha * decay >= XSMI_ALPHA_LEAST);
}

/* Divides the memory; `labels` of all examples. */
static void divide_memory(recomputing *r, size_t labels, size_t threads, xsmi_arena *arena)
{
    const xsm_class_sums *table = table_of(r->pass->estimator);
    xsmi_recomputed *of = &r->pass->gradient->recomputed;
    const uint64_t n = r->pass->batch->count, limits = table->most ? n : 0;
    of->most = xsmi_arena_take(arena, limits, sizeof *of->most);
    of->sums = xsmi_arena_take(arena, n, table->count * sizeof *of->sums);
    of->label_scores = xsmi_arena_take(arena, labels, sizeof *of->label_scores);
    of->label_score_rows = xsmi_arena_take(arena, n, sizeof *of->label_score_rows);
    r->run_most = xsmi_arena_take(arena, limits, r->runs * sizeof *r->run_most);
    r->run_sums = xsmi_arena_take(arena, n, r->runs * table->count * sizeof *r->run_sums);
    r->verdicts = xsmi_arena_take(arena, threads, sizeof *r->verdicts);
    r->scratch = xsmi_arena_take(arena, threads, r->scratch_each);
}

static xsm_status reserve(recomputing *r, size_t threads, xsm_error *err)
{
    xsm_gradient *g = r->pass->gradient;
    const xsm_estimator *e = r->pass->estimator;
    xsmi_recomputed *of = &g->recomputed;
    const uint64_t n = r->pass->batch->count;
    size_t labels = 0;
    for (uint64_t i = 0; i < n; i++) {
        labels += (size_t)g->example[i].label_count;
    }
    xsmi_arena each = {NULL, 0}, step = {NULL, 0}, needed = {NULL, 0};
    of->step_classes = classes_for(e, n);
    of->chunk_classes = classes_for(e, ROWS);
    (void)divide_scratch(e, ROWS, RUN_FLOATS, &each);
    (void)divide_scratch(e, n, of->step_classes, &step);
    r->scratch_each = each.used;
    divide_memory(r, labels, threads, &needed);
    if (each.used == SIZE_MAX || step.used == SIZE_MAX || needed.used == SIZE_MAX ||
        !xsmi_reserve(g->context, &of->memory, &of->memory_bytes, needed.used, 1)) {
        return xsmi_fail_memory(err, needed.used, "the sums over all classes");
    }
    xsmi_arena arena = {of->memory, 0};
    divide_memory(r, labels, threads, &arena);
    of->most = table_of(e)->most ? of->most : NULL;
    of->compute = compute_again;
    of->scratch_each = step.used;
    of->estimator = e;
    of->batch = n;
    of->eta = r->pass->eta;
    of->work = r;
    const float *at = of->label_scores;
    for (uint64_t i = 0; i < n; i++) {
        of->label_score_rows[i] = at;
        at += g->example[i].label_count;
    }
    for (size_t t = 0; t < threads; t++) {
        r->verdicts[t] = (verdict){{.finite = true}, 0};
    }
    return XSM_OK;
}

static xsm_status run_passes(recomputing *r, xsm_error *err)
{
    const xsmi_pass *p = r->pass;
    xsm_context *ctx = p->estimator->context;
    const size_t n = (size_t)p->batch->count, jobs = (n + ROWS - 1) / ROWS * r->runs;
    XSMI_TRY(xsmi_run_ranges(ctx, run_labels, r, n, XSMI_EXAMPLE_CHUNK, err));
    const xsm_class_sums *table = table_of(p->estimator);
    if (xsmi_sums_are_relative(table)) {
        XSMI_TRY(xsmi_run(ctx, run_relative, r, jobs, err));
        join_relative(r);
    } else {
        if (table->most) {
            XSMI_TRY(xsmi_run(ctx, run_most, r, jobs, err));
            join_most(r);
        }
        XSMI_TRY(xsmi_run(ctx, run_sums, r, jobs, err));
        join_sums(r);
    }
    return p->input ? xsmi_run_ranges(ctx, run_backward, r, n, XSMI_EXAMPLE_CHUNK, err)
                    : xsmi_run(ctx, run_look, r, jobs, err);
}

xsm_status xsmi_pass_recomputed(const xsmi_pass *given, xsmi_outcome *outcome, bool *done, xsm_error *err)
{
    xsmi_pass p = *given;
    p.end = p.batch->count;
    p.recompute = recompute_rows;
    const xsm_estimator *e = p.estimator;
    xsm_gradient *g = p.gradient;
    const uint32_t threads = xsmi_context_threads(e->context);
    XSMI_TRY(xsmi_estimator_reserve_recomputed(e, g, p.batch->count, err));
    XSMI_TRY(xsmi_pass_set_rows(&p, NULL, err));
    const xsmi_input_gradient of_layer = {g->layer.gradient, g->work.rows.stride};
    p.input = e->hidden ? &of_layer : NULL;
    XSMI_TRY(xsmi_gradient_reserve_shards(g, xsmi_pass_backward_scratch(&p), threads, err));
    xsmi_pass_list_examples(&p, 0, p.batch->count);
    recomputing r = {.pass = &p, .runs = ((size_t)e->model->classes + XSMI_RUN_CLASSES - 1) / XSMI_RUN_CLASSES};
    r.few = p.batch->count * g->width / XSMI_SPARSE_PART;
    XSMI_TRY(reserve(&r, threads, err));
    const xsm_status status = run_passes(&r, err);
    g->recomputed.work = NULL;
    XSMI_TRY(status);
    uint64_t nonzero = 0;
    for (uint32_t t = 0; t < threads; t++) {
        xsmi_outcome_join(outcome, &r.verdicts[t].outcome);
        nonzero += r.verdicts[t].nonzero;
    }
    g->decay = xsmi_estimator_decay(e, p.eta);
    *done = !outcome->finite || nonzero > r.few;
    return XSM_OK;
}
