/*
 * Estimators that score every class, on a model whose classes are divided among processes. A table with class_sums
 * computes the coefficients of this process's classes; the processes exchange a largest value and the scores of the
 * labels, then the sums of their class runs, which every process adds in rising order. Other tables get the scores of
 * all processes.
 */
#include "estimator/divided_lists.h"

#include <math.h>
#include <string.h>

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
    float *mine = xsmi_allocate(ctx, count, sizeof *mine);
    size_t *sizes = xsmi_allocate(ctx, ranks, sizeof *sizes);
    xsm_status status = mine && sizes ? score_mine(p, mine, width, err)
                                      : xsmi_fail_memory(err, count * sizeof *mine, "the scores of this process");
    status = xsmi_together(m, status, err);
    for (uint32_t r = 0; status == XSM_OK && r < ranks; r++) {
        sizes[r] = xsmi_part_size(m->classes, ranks, r) * sizeof *mine;
    }
    for (size_t i = 0; status == XSM_OK && i < n; i++) {
        status = xsmi_together_blocks(m, mine + i * width, g->coefficients + i * g->width, sizes, err);
    }
    xsmi_release(ctx, sizes, ranks, sizeof *sizes);
    xsmi_release(ctx, mine, count, sizeof *mine);
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
    const xsmi_pass *pass;
    const xsm_class_sums *table;
    size_t rows, labels, runs;  /* of the batch; class runs of this process */
    size_t limits;              /* rows with a largest value */
    float *values;              /* [limits] the largest values, then [labels] the scores of the labels */
    const float **label_scores; /* [rows] */
    double *mine;               /* [rows][runs][count] */
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

static void release(sum_pass *s)
{
    const xsm_model *m = s->pass->estimator->model;
    xsm_context *ctx = m->context;
    const size_t count = s->table->count, numbers = s->rows * count;
    xsmi_release(ctx, s->values, s->limits + s->labels, sizeof *s->values);
    xsmi_release(ctx, s->label_scores, s->rows, sizeof *s->label_scores);
    xsmi_release(ctx, s->mine, numbers * s->runs, sizeof *s->mine);
    xsmi_release(ctx, s->totals, numbers, sizeof *s->totals);
    xsmi_release(ctx, s->sent, numbers * s->runs, number_size(s));
    xsmi_release(ctx, s->all, numbers * s->total_runs, number_size(s));
    xsmi_release(ctx, s->verdicts, xsmi_processes(m) + 1, sizeof *s->verdicts);
    xsmi_release(ctx, s->sizes, xsmi_processes(m), sizeof *s->sizes);
}

static xsm_status reserve(sum_pass *s, xsm_error *err)
{
    const xsm_model *m = s->pass->estimator->model;
    xsm_context *ctx = m->context;
    const uint32_t ranks = xsmi_processes(m);
    const size_t count = s->table->count, numbers = s->rows * count;
    for (uint32_t r = 0; r < ranks; r++) {
        s->total_runs += xsmi_runs_of_rank(m, r);
    }
    s->values = xsmi_allocate(ctx, s->limits + s->labels, sizeof *s->values);
    s->label_scores = xsmi_allocate(ctx, s->rows, sizeof *s->label_scores);
    s->mine = xsmi_allocate(ctx, (uint64_t)numbers * s->runs, sizeof *s->mine);
    s->totals = xsmi_allocate(ctx, numbers, sizeof *s->totals);
    s->sent = xsmi_allocate(ctx, (uint64_t)numbers * s->runs, number_size(s));
    s->all = xsmi_allocate(ctx, (uint64_t)numbers * s->total_runs, number_size(s));
    s->verdicts = xsmi_allocate(ctx, ranks + 1, sizeof *s->verdicts);
    s->sizes = xsmi_allocate(ctx, ranks, sizeof *s->sizes);
    if (!s->values || !s->label_scores || !s->mine || !s->totals || !s->sent || !s->all || !s->verdicts || !s->sizes) {
        return xsmi_fail_memory(err, numbers * s->total_runs * number_size(s), "the sums of all processes");
    }
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
    if (s->limits > 0) {
        s->table->most(s->pass->estimator->state, &block);
        for (uint64_t i = 0; i < block.count; i++) {
            block.most[i] = comparable(block.most[i]);
        }
    }
}

static void run_sums(void *state, const xsmi_range *r)
{
    const sum_pass *s = state;
    const size_t count = s->table->count, first = r->first * s->runs * count;
    const xsm_class_block block = block_of(s, r, s->mine, s->runs * count);
    s->table->sums(s->pass->estimator->state, &block);
    const size_t numbers = (size_t)block.count * s->runs * count;
    if (!s->table->single) {
        memcpy(s->sent + first * sizeof(double), block.sums, numbers * sizeof(double));
        return;
    }
    float *sent = (float *)(void *)s->sent + first;
    for (size_t i = 0; i < numbers; i++) {
        sent[i] = (float)block.sums[i];
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
    for (uint32_t r = 0; r < ranks; r++) {
        const size_t runs = xsmi_runs_of_rank(m, r);
        for (size_t i = 0; i < s->rows * runs * count; i++) {
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
    xsm_status status = reserve(s, err);
    status = status == XSM_OK ? xsmi_gradient_reserve_outcomes(g, chunks, err) : status;
    status = status == XSM_OK ? score_mine(p, g->coefficients, (size_t)g->width, err) : status;
    status = status == XSM_OK ? xsmi_run_ranges(ctx, run_most, s, s->rows, XSMI_EXAMPLE_CHUNK, err) : status;
    XSMI_TRY(xsmi_together(m, status, err));
    XSMI_TRY(xsmi_together_largest(m, s->values, s->limits + s->labels, err));
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
    sum_pass s = {.pass = p, .table = e->ops.class_sums, .rows = (size_t)p->batch->count};
    xsmi_pass_list_examples(p, 0, p->batch->count);
    for (size_t i = 0; i < s.rows; i++) {
        s.labels += (size_t)g->example[i].label_count;
    }
    s.runs = xsmi_runs_of(xsmi_model_weights(e->model)->classes);
    s.limits = s.table->most ? s.rows : 0;
    const xsm_status status = run_stages(&s, outcome, err);
    release(&s);
    g->decay = xsmi_estimator_decay(e, p->eta);
    g->model_classes = xsmi_model_weights(e->model)->classes;
    return status;
}
