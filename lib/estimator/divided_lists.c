/*
 * Estimators on a model whose classes are divided among processes. Draws depend on seed and position alone, so that
 * every process lists the same classes; each scores those that it has, and the scores of all are exchanged before the
 * table turns them into coefficients, on every process. A process's optimizer changes only that process's classes.
 */
#include "estimator/divided_lists.h"

#include "base/held.h"
#include "base/order.h"
#include "gradient/shards.h"
#include "math/log_sum.h"

#include <math.h>
#include <string.h>

void xsmi_divided_find(const xsm_model *m, xsm_gradient *g, uint64_t i)
{
    const xsmi_own_lists *own = &g->work.own;
    const xsmi_mine mine = xsmi_model_mine(m);
    const uint64_t at = i * g->width;
    own->counts[i] =
        xsmi_part_list(mine.first, mine.end, g->classes + at, g->lengths[i], own->classes + at, own->entries + at);
}

void xsmi_divided_score_own(const xsm_estimator *e, xsm_gradient *g, uint64_t i, double alpha,
                            const xsmi_upcoming *next)
{
    enum { SOME = 64 };
    const xsmi_weights *w = xsmi_model_mine(e->model).w;
    const uint32_t *classes = g->work.own.classes + i * g->width, *entries = g->work.own.entries + i * g->width;
    const uint32_t count = g->work.own.counts[i];
    const xsmi_features x = xsmi_gradient_features(e, g, i);
    float *scores = g->work.scores + i * g->width, *linear = w->bias ? g->work.linear + i * g->width : NULL, z[SOME];
    for (uint64_t j = 0; j < g->width; j++) {
        scores[j] = -INFINITY;
    }
    for (uint64_t j = 0; linear && j < g->width; j++) {
        linear[j] = -INFINITY;
    }
    for (uint32_t from = 0, some; from < count; from += some) {
        some = XSMI_MIN(count - from, (uint32_t)SOME);
        const uint32_t left = count - from - some;
        const xsmi_upcoming rest = {classes + from + some, XSMI_MIN(left, (uint32_t)SOME), NULL, SIZE_MAX};
        xsmi_weights_score_list(w, &x, classes + from, some, alpha, z, left > 0 ? &rest : next);
        for (uint32_t t = 0; t < some; t++) {
            const uint32_t j = entries[from + t];
            scores[j] = z[t] == z[t] ? z[t] : INFINITY;
            if (linear && isfinite(scores[j])) {
                linear[j] = scores[j] - w->bias[classes[from + t]];
            }
        }
    }
}

static void score_examples(const xsmi_pass *p, uint64_t first, uint64_t count)
{
    const xsm_estimator *e = p->estimator;
    const xsm_gradient *g = p->gradient;
    const uint64_t ahead = xsmi_lists_ahead((size_t)(g->width / xsmi_processes(e->model)));
    for (uint64_t i = first; i < first + count; i++) {
        xsmi_divided_find(e->model, p->gradient, i);
    }
    for (uint64_t i = first; i < first + count; i++) {
        xsmi_upcoming next = {.rows = NULL};
        if (i + ahead < first + count) {
            const xsmi_features x = xsmi_gradient_features(e, g, i + ahead);
            next = (xsmi_upcoming){g->work.own.classes + (i + ahead) * g->width, g->work.own.counts[i + ahead],
                                   x.index ? NULL : x.values, SIZE_MAX};
        }
        xsmi_divided_score_own(e, p->gradient, i, xsmi_model_mine(e->model).w->alpha, &next);
    }
}

typedef struct score_job {
    const xsmi_pass *pass;
    bool listed; /* the examples have their lists */
} score_job;

static void score_chunk(void *state, const xsmi_range *r)
{
    const score_job *job = state;
    const xsmi_pass *p = job->pass;
    if (!job->listed) {
        xsmi_pass_list_examples(p, r->first, r->end - r->first);
        xsmi_estimator_select(p->estimator, p->gradient, r->first, r->end - r->first);
    }
    score_examples(p, r->first, r->end - r->first);
}

xsm_status xsmi_divided_scores(const xsmi_pass *p, bool listed, xsm_error *err)
{
    xsm_gradient *g = p->gradient;
    const xsm_model *m = p->estimator->model;
    const size_t count = (size_t)(p->batch->count * g->width);
    score_job job = {p, listed};
    xsm_status status = xsmi_gradient_reserve_own(g, p->batch->count, err);
    status = status == XSM_OK
                 ? xsmi_run_ranges(p->estimator->context, score_chunk, &job, p->batch->count, XSMI_EXAMPLE_CHUNK, err)
                 : status;
    XSMI_TRY(xsmi_together(m, status, err));
    XSMI_TRY(xsmi_together_largest(m, g->work.scores, count, err));
    return xsmi_model_has_bias(m) ? xsmi_together_largest(m, g->work.linear, count, err) : XSM_OK;
}

bool xsmi_divided_finite(const xsm_gradient *g, uint64_t first, uint64_t count)
{
    bool finite = true;
    for (uint64_t i = first; i < first + count; i++) {
        for (uint32_t j = 0; j < g->lengths[i]; j++) {
            finite &= fabsf(g->work.scores[i * g->width + j]) < (float)XSMI_STEP_LIMIT;
        }
    }
    return finite;
}

/* -- every class --------------------------------------------------------------------------------------------------- */

/*
 * Estimators that score every class, on a model whose classes are divided among processes. A table with class_sums
 * computes the coefficients of this process's classes; the processes exchange a largest value and the scores of the
 * labels, then the sums of their class runs, which every process adds in rising order. Other tables get the scores of
 * all processes.
 */

/* -- scores -------------------------------------------------------------------------------------------------------- */

static xsm_status score_mine(const xsmi_pass *p, float *scores, size_t width, xsm_error *err)
{
    xsm_gradient *g = p->gradient;
    const xsm_model *own = xsmi_model_weights(p->estimator->model);
    const xsmi_score_range all = {p->batch, 0, own->classes, scores, width};
    return xsmi_model_score_range(own, &all, g->context, &g->work.score_scratch, err);
}

xsm_status xsmi_divided_all_scores(const xsmi_pass *p, xsm_error *err)
{
    xsm_gradient *g = p->gradient;
    const xsm_model *m = p->estimator->model;
    xsm_context *ctx = m->context;
    const uint32_t ranks = xsmi_processes(m);
    const size_t width = xsmi_model_weights(m)->classes, n = (size_t)p->batch->count, count = n * width;
    xsmi_held held = {.context = ctx};
    float *mine = xsmi_hold(&held, count, sizeof *mine);
    size_t *sizes = xsmi_hold(&held, ranks, sizeof *sizes);
    xsm_status status = xsmi_held_check(&held, "the scores of this process", err);
    status = status == XSM_OK ? score_mine(p, mine, width, err) : status;
    status = xsmi_together(m, status, err);
    for (uint32_t r = 0; status == XSM_OK && r < ranks; r++) {
        sizes[r] = xsmi_part_size(m->classes, ranks, r) * sizeof *mine;
    }
    for (size_t i = 0; status == XSM_OK && i < n; i++) {
        status = xsmi_together_blocks(m, mine + i * width, g->coefficients + i * g->width, sizes, err);
    }
    xsmi_held_release(&held);
    return status;
}

/* -- sums ---------------------------------------------------------------------------------------------------------- */

/* A process's report on its coefficients. */
typedef struct verdict {
    double largest;
    uint64_t nonzero;
    uint64_t finite;
} verdict;

typedef struct sum_pass {
    xsmi_held held; /* the arrays */
    const xsmi_pass *pass;
    const xsm_class_sums *table;
    size_t rows, labels, runs;  /* of the batch; class runs of this process */
    size_t limits;              /* rows with a largest value */
    size_t each;                /* numbers of a class run: `count` sums, or a relative one and its largest value */
    float *values;              /* [limits] the largest values, then [labels] the scores of the labels */
    const float **label_scores; /* [rows] */
    double *mine;               /* [rows][runs][each] */
    double *totals;             /* [rows][count] */
    size_t total_runs;          /* of all processes */
    unsigned char *sent, *all;  /* `mine` and those of all processes as they are sent: doubles or floats */
    verdict *verdicts;          /* [ranks + 1] of all processes, then this one's */
    size_t *sizes;              /* [ranks] bytes that each sends */
} sum_pass;

static size_t number_size(const sum_pass *s)
{
    return s->table->single ? sizeof(float) : sizeof(double);
}

static xsm_status reserve_sums(sum_pass *s, xsm_error *err)
{
    const xsm_model *m = s->pass->estimator->model;
    const uint32_t ranks = xsmi_processes(m);
    const size_t numbers = s->rows * s->each;
    for (uint32_t r = 0; r < ranks; r++) {
        s->total_runs += xsmi_runs_of_rank(m, r);
    }
    s->values = xsmi_hold(&s->held, s->limits + s->labels, sizeof *s->values);
    s->label_scores = xsmi_hold(&s->held, s->rows, sizeof *s->label_scores);
    s->mine = xsmi_hold(&s->held, (uint64_t)numbers * s->runs, sizeof *s->mine);
    s->totals = xsmi_hold(&s->held, numbers, sizeof *s->totals);
    s->sent = xsmi_hold(&s->held, (uint64_t)numbers * s->runs, number_size(s));
    s->all = xsmi_hold(&s->held, (uint64_t)numbers * s->total_runs, number_size(s));
    s->verdicts = xsmi_hold(&s->held, ranks + 1, sizeof *s->verdicts);
    s->sizes = xsmi_hold(&s->held, ranks, sizeof *s->sizes);
    XSMI_TRY(xsmi_held_check(&s->held, "the sums of all processes", err));
    const float *at = s->values + s->limits;
    for (size_t i = 0; i < s->rows; i++) {
        s->label_scores[i] = at;
        at += s->pass->gradient->example[i].label_count;
    }
    for (uint32_t r = 0; r < ranks; r++) {
        s->sizes[r] = numbers * xsmi_runs_of_rank(m, r) * number_size(s);
    }
    return XSM_OK;
}

/* Returns the block of a chunk's examples, with sums over the process's class runs or over all classes. */
static xsm_class_block block_of(const sum_pass *s, const xsmi_range *r, double *sums, size_t each)
{
    const xsmi_pass *p = s->pass;
    xsm_gradient *g = p->gradient;
    const size_t first = r->first;
    return (xsm_class_block){
        .size = sizeof(xsm_class_block),
        .examples = g->example + first,
        .count = r->end - first,
        .batch = p->batch->count,
        .width = g->width,
        .first = xsmi_model_mine(p->estimator->model).first,
        .classes = p->estimator->model->classes,
        .eta = p->eta,
        .coefficients = g->coefficients + first * g->width,
        .label_scores = s->label_scores + first,
        .label_weights = g->label_weighted ? (const float *const *)g->label_weights + first : NULL,
        .most = s->limits > 0 ? s->values + first : NULL,
        .sums = sums + first * each,
        .losses = g->losses + first,
    };
}

/* Returns the number as xsmi_exchange_max() can exchange it: INFINITY for NaN; the scores are checked later. */
static float comparable(float value)
{
    return value == value ? value : INFINITY;
}

static void run_most(void *state, const xsmi_range *r)
{
    const sum_pass *s = state;
    const xsm_class_block block = block_of(s, r, s->mine, 0);
    for (uint64_t i = 0; i < block.count; i++) {
        float *scores = (float *)(uintptr_t)block.label_scores[i];
        for (uint64_t j = 0; j < block.examples[i].label_count; j++) {
            const uint32_t at = block.examples[i].labels[j] - block.first;
            scores[j] = at < block.width ? comparable(block.coefficients[i * block.width + at]) : -INFINITY;
        }
    }
    if (s->limits > 0 && !xsmi_sums_are_relative(s->table)) {
        s->table->most(s->pass->estimator->state, &block);
        for (uint64_t i = 0; i < block.count; i++) {
            block.most[i] = comparable(block.most[i]);
        }
    }
}

/* Sums each class run of an example, relative to its largest value, which follows the sum. */
static void sum_relative(const sum_pass *s, const xsm_class_block *block, uint64_t i, double *to)
{
    float most;
    for (uint64_t run = 0; run < block->width; run += XSM_CLASS_RUN, to += 2) {
        const xsm_class_block part = {
            .size = sizeof part,
            .examples = block->examples + i,
            .count = 1,
            .batch = block->batch,
            .width = XSMI_MIN(block->width - run, XSM_CLASS_RUN),
            .first = block->first + (uint32_t)run,
            .classes = block->classes,
            .eta = block->eta,
            .coefficients = block->coefficients + i * block->width + run,
            .label_scores = block->label_scores + i,
            .label_weights = block->label_weights ? block->label_weights + i : NULL,
            .most = &most,
            .sums = to,
        };
        s->table->most(s->pass->estimator->state, &part);
        s->table->sums(s->pass->estimator->state, &part);
        to[1] = (double)most;
    }
}

static void run_sums(void *state, const xsmi_range *r)
{
    const sum_pass *s = state;
    const size_t each = s->runs * s->each, first = r->first * each;
    const xsm_class_block block = block_of(s, r, s->mine, each);
    for (uint64_t i = 0; xsmi_sums_are_relative(s->table) && i < block.count; i++) {
        sum_relative(s, &block, i, block.sums + i * each);
    }
    if (!xsmi_sums_are_relative(s->table)) {
        s->table->sums(s->pass->estimator->state, &block);
    }
    const size_t numbers = (size_t)block.count * each;
    if (!s->table->single) {
        memcpy(s->sent + first * sizeof(double), block.sums, numbers * sizeof(double));
        return;
    }
    float *sent = (float *)(void *)s->sent + first;
    for (size_t i = 0; i < numbers; i++) {
        sent[i] = (float)block.sums[i];
    }
}

/* Joins the relative sums of a process's class runs to those before. */
static void join_runs(const sum_pass *s, const float *from, size_t runs)
{
    for (size_t i = 0; i < s->rows; i++) {
        xsmi_log_sum all = {s->values[i], s->totals[i]};
        for (size_t run = 0; run < runs; run++, from += 2) {
            xsmi_log_sum_join(&all, &(xsmi_log_sum){from[1], (double)from[0]});
        }
        s->values[i] = all.max;
        s->totals[i] = all.sum;
    }
}

/* Adds the sums of all class runs, in rising order. */
static void add_runs(const sum_pass *s)
{
    const xsm_model *m = s->pass->estimator->model;
    const uint32_t ranks = xsmi_processes(m);
    const size_t count = s->table->count;
    const unsigned char *from = s->all;
    memset(s->totals, 0, s->rows * count * sizeof *s->totals);
    for (size_t i = 0; xsmi_sums_are_relative(s->table) && i < s->rows; i++) {
        s->values[i] = -INFINITY;
    }
    for (uint32_t r = 0; r < ranks; r++) {
        const size_t runs = xsmi_runs_of_rank(m, r);
        if (xsmi_sums_are_relative(s->table)) {
            join_runs(s, (const float *)(const void *)from, runs);
        }
        for (size_t i = 0; !xsmi_sums_are_relative(s->table) && i < s->rows * runs * count; i++) {
            double *total = s->totals + i / (runs * count) * count + i % count;
            *total += s->table->single ? (double)((const float *)(const void *)from)[i]
                                       : ((const double *)(const void *)from)[i];
        }
        from += s->sizes[r];
    }
}

static void run_gradient(void *state, const xsmi_range *r)
{
    const sum_pass *s = state;
    const xsmi_pass *p = s->pass;
    xsm_gradient *g = p->gradient;
    const xsm_class_block block = block_of(s, r, s->totals, s->table->count);
    const xsmi_piece piece = {r->first, block.count, p->batch->count, p->eta, r->thread};
    xsmi_outcome *outcome = &g->work.outcomes[r->index];
    *outcome = (xsmi_outcome){.finite = true};
    s->table->gradient(p->estimator->state, &block);
    const xsm_score_block entries = xsmi_estimator_block(p->estimator, g, &piece);
    xsmi_estimator_finish_block(p->estimator->model->kernels, &entries, outcome);
}

/* Joins the outcomes of the chunks and of the processes, so that all processes get the same outcome. */
static xsm_status join_outcomes(const sum_pass *s, size_t chunks, xsmi_outcome *outcome, xsm_error *err)
{
    const xsm_model *m = s->pass->estimator->model;
    const uint32_t ranks = xsmi_processes(m);
    xsm_gradient *g = s->pass->gradient;
    verdict *all = s->verdicts, *mine = s->verdicts + ranks;
    xsmi_outcome own = {.finite = true};
    for (size_t i = 0; i < chunks; i++) {
        xsmi_outcome_join(&own, &g->work.outcomes[i]);
    }
    g->examples = s->rows; /* only for xsmi_gradient_count() */
    *mine = (verdict){own.largest, xsmi_gradient_count(g, true), own.finite};
    g->examples = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        s->sizes[r] = sizeof *mine;
    }
    XSMI_TRY(xsmi_together_blocks(m, mine, all, s->sizes, err));
    g->whole = (xsmi_whole_gradient){m->classes, 0};
    for (uint32_t r = 0; r < ranks; r++) {
        const xsmi_outcome of = {.largest = all[r].largest, .finite = all[r].finite};
        xsmi_outcome_join(outcome, &of);
        g->whole.nonzero += all[r].nonzero;
    }
    return XSM_OK;
}

/* Runs the stages; each computes and exchanges what the next one needs. The processes agree before the first exchange;
 * later stages cannot fail in one process alone: they run surely. */
static xsm_status run_stages(sum_pass *s, xsmi_outcome *outcome, xsm_error *err)
{
    const xsmi_pass *p = s->pass;
    xsm_gradient *g = p->gradient;
    const xsm_model *m = p->estimator->model;
    xsm_context *ctx = p->estimator->context;
    const size_t chunks = (s->rows + XSMI_EXAMPLE_CHUNK - 1) / XSMI_EXAMPLE_CHUNK;
    xsm_status status = reserve_sums(s, err);
    status = status == XSM_OK ? xsmi_gradient_reserve_outcomes(g, chunks, err) : status;
    status = status == XSM_OK ? score_mine(p, g->coefficients, (size_t)g->width, err) : status;
    status = status == XSM_OK ? xsmi_run_ranges(ctx, run_most, s, s->rows, XSMI_EXAMPLE_CHUNK, err) : status;
    XSMI_TRY(xsmi_together(m, status, err));
    const size_t unknown = xsmi_sums_are_relative(s->table) ? s->limits : 0; /* known with the sums */
    XSMI_TRY(xsmi_together_largest(m, s->values + unknown, s->limits - unknown + s->labels, err));
    xsmi_run_surely(ctx, run_sums, s, s->rows, XSMI_EXAMPLE_CHUNK);
    XSMI_TRY(xsmi_together_blocks(m, s->sent, s->all, s->sizes, err));
    add_runs(s);
    xsmi_run_surely(ctx, run_gradient, s, s->rows, XSMI_EXAMPLE_CHUNK);
    return join_outcomes(s, chunks, outcome, err);
}

xsm_status xsmi_divided_sums(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err)
{
    const xsm_estimator *e = p->estimator;
    xsm_gradient *g = p->gradient;
    sum_pass s = {
        .held = {.context = e->model->context}, .pass = p, .table = e->ops.class_sums, .rows = (size_t)p->batch->count};
    xsmi_pass_list_examples(p, 0, p->batch->count);
    for (size_t i = 0; i < s.rows; i++) {
        s.labels += (size_t)g->example[i].label_count;
    }
    s.runs = xsmi_runs_of(xsmi_model_weights(e->model)->classes);
    s.limits = s.table->most ? s.rows : 0;
    s.each = xsmi_sums_are_relative(s.table) ? 2 : s.table->count;
    const xsm_status status = run_stages(&s, outcome, err);
    xsmi_held_release(&s.held);
    g->decay = xsmi_estimator_decay(e, p->eta);
    g->model_classes = xsmi_model_weights(e->model)->classes;
    return status;
}

/* -- the gradient of the rows -------------------------------------------------------------------------------------- */

/*
 * The gradient of the rows (dL/dx) on a divided model where every class has a coefficient. Each process computes the
 * sums of the highest nodes of the tree of shards (gradient/shards.h) that contain only its classes. All processes get
 * all sums, and join them in the tree, with the same bits as one process.
 */

/* -- nodes --------------------------------------------------------------------------------------------------------- */

/* A node whose classes all belong to one process, while its parent's do not. */
typedef struct node {
    uint32_t shard, count, rank;
} node;

typedef struct node_list {
    node *nodes;              /* [count] of all processes, in the order of the classes */
    size_t count, first, own; /* those of this process are `own` nodes from `first` on */
} node_list;

/* Lists the nodes below a node; only counts them if `nodes` is NULL. */
static void list_nodes(const xsm_model *m, uint32_t shard, uint32_t count, node_list *n)
{
    const uint32_t ranks = xsmi_processes(m);
    const uint32_t first = xsmi_shard_start(m->classes, shard), end = xsmi_shard_start(m->classes, shard + count);
    if (first == end) {
        return;
    }
    const uint32_t rank = xsmi_part_of(m->classes, ranks, first);
    if (end > xsmi_part_start(m->classes, ranks, rank + 1)) {
        list_nodes(m, shard, count / 2, n);
        list_nodes(m, shard + count / 2, count / 2, n);
        return;
    }
    if (n->nodes) {
        n->nodes[n->count] = (node){shard, count, rank};
    }
    if (rank == xsmi_process(m)) {
        n->first = n->own == 0 ? n->count : n->first;
        n->own++;
    }
    n->count++;
}

static xsm_status list_new(const xsm_model *m, node_list *out, xsm_error *err)
{
    memset(out, 0, sizeof *out);
    list_nodes(m, 0, XSMI_SHARDS, out);
    XSMI_TRY(xsmi_array_new(m->context, &out->nodes, out->count, sizeof *out->nodes, "the sums of all processes", err));
    out->count = out->own = 0;
    list_nodes(m, 0, XSMI_SHARDS, out);
    return XSM_OK;
}

static void list_clear(xsm_context *group, node_list *n)
{
    xsmi_release(group, n->nodes, n->count, sizeof *n->nodes);
    memset(n, 0, sizeof *n);
}

static void list_sizes(const node_list *n, size_t each, size_t *sizes)
{
    for (size_t i = 0; i < n->count; i++) {
        sizes[n->nodes[i].rank] += each;
    }
}

static size_t list_find(const node_list *n, uint32_t shard, uint32_t count)
{
    size_t low = 0, high = n->count;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        *(n->nodes[middle].shard <= shard ? &low : &high) = middle;
    }
    return n->nodes[low].shard == shard && n->nodes[low].count == count ? low : SIZE_MAX;
}

static bool no_sum(void *state, uint32_t first, uint32_t end, float *out, size_t stride)
{
    (void)state;
    (void)first;
    (void)end;
    (void)out;
    (void)stride;
    return false;
}

/* -- sums ---------------------------------------------------------------------------------------------------------- */

typedef struct back_pass {
    xsmi_held held; /* the arrays */
    const xsmi_pass *pass;
    size_t rows, line; /* examples; floats of a sum, for sifted gradients with one more that says whether there is a
                          sum */
    node_list nodes;
    size_t jobs;   /* for each node */
    float *mine;   /* [this process's nodes][rows][line] */
    float *all;    /* [nodes][rows][line] */
    size_t *sizes; /* [processes] */
} back_pass;

static xsm_status reserve_back(back_pass *b, xsm_error *err)
{
    const xsm_model *m = b->pass->estimator->model;
    b->held.context = m->context;
    XSMI_TRY(list_new(m, &b->nodes, err));
    b->sizes = xsmi_hold_zeros(&b->held, xsmi_processes(m), sizeof *b->sizes);
    size_t each;
    each = xsmi_multiply(b->rows, b->line * sizeof *b->mine, &each) ? each : SIZE_MAX;
    b->mine = xsmi_hold(&b->held, b->nodes.own, each);
    b->all = xsmi_hold(&b->held, b->nodes.count, each);
    XSMI_TRY(xsmi_held_check(&b->held, "the gradient of the rows, of all processes", err));
    list_sizes(&b->nodes, each, b->sizes);
    return XSM_OK;
}

static void release_back(back_pass *b)
{
    list_clear(b->held.context, &b->nodes);
    xsmi_held_release(&b->held);
}

static bool is_sifted(const back_pass *b)
{
    return xsmi_gradient_is_sifted(b->pass->gradient);
}

/* Computes the sums of one of this process's nodes for some examples. */
static void run_node(void *state, size_t index, uint32_t thread)
{
    const back_pass *b = state;
    const node *n = &b->nodes.nodes[b->nodes.first + index / b->jobs];
    const size_t start = index % b->jobs * XSMI_EXAMPLE_CHUNK, end = XSMI_MIN(start + XSMI_EXAMPLE_CHUNK, b->rows);
    const uint64_t together = xsmi_pass_rows_together(b->pass, XSMI_EXAMPLE_CHUNK);
    float *sums = b->mine + index / b->jobs * b->rows * b->line;
    for (size_t i = start, rows; i < end; i += rows) {
        rows = (size_t)XSMI_MIN(end - i, together);
        float *out = sums + i * b->line;
        const bool any = xsmi_pass_backward_node(b->pass, i, rows, thread, n->shard, n->count, out, b->line);
        if (is_sifted(b)) {
            if (!any) {
                memset(out, 0, b->line * sizeof *out);
            }
            out[b->line - 1] = any;
        }
    }
}

/* -- joining ------------------------------------------------------------------------------------------------------- */

/* The examples whose sums are joined. */
typedef struct join {
    const back_pass *of;
    size_t first, rows;
} join;

static bool known(void *state, uint32_t shard, uint32_t count, float *out, size_t stride, bool *any)
{
    const join *j = state;
    const back_pass *b = j->of;
    const size_t at = list_find(&b->nodes, shard, count);
    if (at == SIZE_MAX) {
        return false;
    }
    const float *from = b->all + (at * b->rows + j->first) * b->line;
    const size_t features = b->pass->estimator->model->features;
    for (size_t i = 0; i < j->rows; i++) {
        memcpy(out + i * stride, from + i * b->line, features * sizeof *out);
    }
    *any = !is_sifted(b) || from[b->line - 1] != 0;
    return true;
}

/* Joins the sums of some examples, and propagates them through a first layer. */
static void run_join(void *state, const xsmi_range *r)
{
    const back_pass *b = state;
    const xsmi_pass *p = b->pass;
    xsm_gradient *g = p->gradient;
    const xsm_model *m = p->estimator->model;
    const uint64_t together = xsmi_pass_rows_together(p, XSMI_EXAMPLE_CHUNK);
    xsmi_outcome *outcome = &g->work.outcomes[r->index];
    *outcome = (xsmi_outcome){.finite = true};
    for (size_t i = r->first, rows; i < r->end; i += rows) {
        rows = (size_t)XSMI_MIN(r->end - i, together);
        join j = {b, i, rows};
        const xsmi_shard_sums sums = {m->kernels, m->classes, rows, m->features, no_sum, known, &j};
        xsmi_shard_all(&sums, p->input->values + i * p->input->stride, p->input->stride,
                       g->work.shards + r->thread * g->work.shards_each);
    }
    for (size_t i = r->first; i < r->end; i++) {
        /* False for NaN, too. */
        outcome->finite &=
            m->kernels->row_scaled_max(p->input->values + i * p->input->stride, m->features, 1, 0) < INFINITY;
    }
    if (p->estimator->hidden && outcome->finite) {
        xsmi_pass_layer_backward(p, r->first, r->end - r->first, outcome);
    }
}

static xsm_status run(back_pass *b, xsmi_outcome *outcome, xsm_error *err)
{
    const xsmi_pass *p = b->pass;
    xsm_gradient *g = p->gradient;
    xsm_context *ctx = p->estimator->context;
    const xsm_model *m = p->estimator->model;
    b->jobs = (b->rows + XSMI_EXAMPLE_CHUNK - 1) / XSMI_EXAMPLE_CHUNK;
    xsm_status status = reserve_back(b, err);
    status = status == XSM_OK ? xsmi_gradient_reserve_outcomes(g, b->jobs, err) : status;
    status = status == XSM_OK ? xsmi_run(ctx, run_node, b, b->jobs * b->nodes.own, err) : status;
    XSMI_TRY(xsmi_together(m, status, err));
    XSMI_TRY(xsmi_together_blocks(m, b->mine, b->all, b->sizes, err));
    xsmi_run_surely(ctx, run_join, b, b->rows, XSMI_EXAMPLE_CHUNK);
    for (size_t i = 0; i < b->jobs; i++) {
        xsmi_outcome_join(outcome, &g->work.outcomes[i]);
    }
    return XSM_OK;
}

xsm_status xsmi_divided_backward(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err)
{
    if (!p->input || !outcome->finite) {
        return XSM_OK;
    }
    back_pass b = {.pass = p, .rows = (size_t)p->batch->count, .line = p->estimator->model->features};
    b.line += is_sifted(&b);
    const xsm_status status = run(&b, outcome, err);
    release_back(&b);
    return status;
}
