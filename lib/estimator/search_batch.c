/* Searches the classes of a batch, and computes the coefficients of what was found. */
#include "base/arena.h"
#include "base/order.h"
#include "estimator/pass.h"

#include <math.h>
#include <string.h>

/* The examples first..first+count of a batch, whose queries are made and run together. */
typedef struct search_job {
    const xsmi_pass *pass;
    xsmi_searcher *searcher;
    uint64_t first;
    uint32_t count;
    uint32_t pieces;    /* number of pieces of the queries, for more threads than blocks */
    xsm_status *status; /* [pieces][blocks]; of lists that grow [count] */
    xsm_error *errors;  /* the same */
    xsmi_outcome outcomes[XSM_INDEX_QUERIES];
} search_job;

/* Writes B alpha x_j, followed by a 1 for the bias: each block has the share 1/B of it, but its own bias with
 * distances. */
static void make_query(const search_job *job, const xsmi_block_index *p, uint32_t i, float *query)
{
    const xsmi_searcher *s = job->searcher;
    const xsm_model *m = s->model;
    xsmi_features x = xsmi_gradient_features(job->pass->estimator, job->pass->gradient, job->first + i);
    float scale = (float)((double)s->blocks * m->w.alpha);
    memset(query, 0, s->query_stride * sizeof *query);
    if (x.index) {
        for (size_t f = 0; f < x.count; f++) {
            if (x.index[f] >= p->first && x.index[f] - p->first < p->width) {
                query[x.index[f] - p->first] = scale * x.values[f];
            }
        }
    } else {
        for (uint32_t f = 0; f < p->width; f++) {
            query[f] = scale * x.values[p->first + f];
        }
    }
    if (m->w.bias) {
        query[p->width] = m->score == XSM_GEOMETRY_EUCLIDEAN ? (float)s->blocks : 1;
    }
}

/* Computes B z_kj of a class and query number i, for all blocks. */
static void query_shares(const xsmi_searcher *s, size_t i, uint32_t class, float *shares)
{
    const xsm_model *m = s->model;
    const float *row = m->w.weight + (size_t) class * m->w.stride;
    const float scale = m->w.row_scale ? (float)m->w.row_scale[class] : 1;
    for (uint32_t j = 0; j < s->blocks; j++) {
        const xsmi_block_index *p = &s->indexes[j];
        const float *query = s->results.queries + (j * s->results.capacity + i) * s->query_stride;
        float sum = m->kernels->dot(row + p->first, query, p->width);
        float own = 0;
        if (xsmi_model_constant(m, class, row + p->first, p->width, &own)) {
            own *= query[p->width];
        }
        shares[j] = scale * sum + own;
    }
}

/* Returns what search() gets of an example of the batch, except the classes found and the functions that score. */
static xsm_search_block search_block_of(const xsmi_pass *p, uint64_t example, uint32_t thread)
{
    xsm_gradient *g = p->gradient;
    const xsmi_searcher *s = p->estimator->search.searcher;
    const size_t entry = (size_t)(example * g->width);
    return (xsm_search_block){
        .size = sizeof(xsm_search_block),
        .examples = g->example + example,
        .count = 1,
        .batch = p->batch->count,
        .width = g->width,
        .blocks = s->blocks,
        .candidates = s->candidates,
        .eta = p->eta,
        .classes = g->classes + entry,
        .lengths = g->lengths + example,
        .coefficients = g->coefficients + entry,
        .losses = g->losses + example,
        .scratch = g->work.scratch_each ? g->work.scratch + thread * g->work.scratch_each : NULL,
    };
}

/* Completes the coefficients that search() has written: weights, mean over the batch, check. */
static void finish(const xsmi_pass *p, const xsm_search_block *block, xsmi_outcome *outcome)
{
    const xsm_gradient *g = p->gradient;
    xsm_score_block found = {
        .size = sizeof found,
        .examples = block->examples,
        .count = 1,
        .batch = block->batch,
        .width = block->width,
        .lengths = block->lengths,
        .eta = p->eta,
        .coefficients = block->coefficients,
        .losses = block->losses,
        .weights = g->weighted ? g->weights + (block->examples - g->example) : NULL,
    };
    *outcome = (xsmi_outcome){.finite = true};
    xsmi_estimator_finish_block(p->estimator->model->kernels, &found, outcome);
}

/* One example of a search_job. */
typedef struct example_job {
    search_job *job;
    uint32_t index;
    xsmi_growing_lists lists; /* if lists grow */
} example_job;

/* -- lists that do not grow, before search() ----------------------------------------------------------------------- */

/* Returns into how many pieces the queries are divided. An index may process all queries of one piece together, which
 * can be faster, but every thread must have work. */
static uint32_t pieces_of(const xsmi_searcher *s, uint32_t queries)
{
    uint32_t pieces = (xsmi_context_threads(s->context) + s->blocks - 1) / s->blocks;
    return XSMI_MIN(pieces, queries);
}

/* Runs one job: makes its queries, and searches the classes. */
static void run_queries(void *state, size_t index, uint32_t thread)
{
    search_job *job = state;
    xsmi_searcher *s = job->searcher;
    const size_t of = index % s->blocks, piece = index / s->blocks;
    const xsmi_block_index *p = &s->indexes[of];
    const uint32_t begin = (uint32_t)xsmi_share_start(job->count, job->pieces, (uint32_t)piece);
    const uint32_t count = (uint32_t)xsmi_share_start(job->count, job->pieces, (uint32_t)piece + 1) - begin;
    const size_t first_list = (size_t)begin * s->blocks + of;
    float *queries = s->results.queries + (of * s->results.capacity + begin) * s->query_stride;
    for (uint32_t i = 0; i < count; i++) {
        make_query(job, p, begin + i, queries + i * s->query_stride);
    }
    xsmi_arena arena = {s->results.block + thread * s->results.block_each, 0};
    xsm_index_block block = {
        .size = sizeof block,
        .queries = queries,
        .stride = s->query_stride,
        .count = count,
        .top = s->candidates,
        .least_score = -INFINITY,
        .any_order = 1,
        .classes = s->results.found + first_list * s->candidates,
        .scores = s->results.score + first_list * s->candidates,
        .list_stride = (size_t)s->blocks * s->candidates,
    };
    block.lengths = xsmi_arena_take(&arena, s->results.capacity, sizeof *block.lengths);
    block.probed = xsmi_arena_take(&arena, s->results.capacity, sizeof *block.probed);
    block.scratch = arena.base + arena.used;
    job->errors[index] = (xsm_error)XSM_ERROR_INIT;
    job->status[index] = xsmi_index_block(p->index, &block, &job->errors[index]);
    for (uint32_t i = 0; i < count && job->status[index] == XSM_OK; i++) {
        s->results.length[first_list + (size_t)i * s->blocks] = block.lengths[i];
    }
}

/* Returns the first of the errors of `count` jobs. */
static xsm_status first_error(const search_job *job, size_t count, xsm_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (job->status[i] != XSM_OK) {
            return xsmi_fail_copy(err, &job->errors[i]);
        }
    }
    return XSM_OK;
}

/* -- one example --------------------------------------------------------------------------------------------------- */

/* xsm_search_block.score() and next(): a block has one example. */

static void score_parts(const xsm_search_block *block, uint64_t example, const uint32_t *classes, uint32_t count,
                        float *shares)
{
    const example_job *of = block->scorer;
    const xsmi_searcher *s = of->job->searcher;
    const xsm_model *m = s->model;
    for (uint32_t c = 0; c < count; c++) {
        if (c + 4 < count) {
            xsmi_prefetch_row(m->w.weight + (size_t)classes[c + 4] * m->w.stride, m->features);
        }
        query_shares(s, (size_t)(of->index + example), classes[c], shares + (size_t)c * s->blocks);
    }
}

static uint32_t list_more(const xsm_search_block *block, uint64_t example, uint32_t j, uint32_t count)
{
    const example_job *of = block->scorer;
    search_job *job = of->job;
    const xsmi_searcher *s = job->searcher;
    const xsmi_growing_lists *lists = &of->lists;
    const uint32_t length = lists->length[j], left = s->most - length, i = of->index + (uint32_t)example;
    uint32_t found = 0;
    uint64_t probed = 0;
    const xsm_index_block further = {
        .size = sizeof further,
        .queries = s->results.queries + (j * s->results.capacity + i) * s->query_stride,
        .stride = s->query_stride,
        .count = 1,
        .top = XSMI_MIN(count, left),
        .least_score = -INFINITY,
        .classes = lists->found + (size_t)j * s->most + length,
        .scores = lists->score + (size_t)j * s->most + length,
        .lengths = &found,
        .probed = &probed,
        .scratch = lists->scratch,
        .list_stride = left,
        .cursors = lists->cursors + j * lists->cursor_stride,
        .cursor_stride = lists->cursor_stride,
        .begin = length == 0,
    };
    if (further.top == 0 || job->status[i] != XSM_OK) {
        return 0;
    }
    job->status[i] = xsmi_index_next(s->indexes[j].index, &further, &job->errors[i]);
    if (job->status[i] != XSM_OK) {
        return 0;
    }
    lists->length[j] += found;
    return found;
}

/* Begins the lists of an example that grow. */
static void begin_lists(example_job *of, uint32_t thread)
{
    const search_job *job = of->job;
    const xsmi_searcher *s = job->searcher;
    xsmi_arena arena = {s->results.block + thread * s->results.block_each, 0};
    of->lists = xsmi_searcher_divide(s, &arena);
    for (uint32_t j = 0; j < s->blocks; j++) {
        of->lists.length[j] = 0;
        make_query(job, &s->indexes[j], of->index,
                   s->results.queries + (j * s->results.capacity + of->index) * s->query_stride);
    }
    job->errors[of->index] = (xsm_error)XSM_ERROR_INIT;
    job->status[of->index] = XSM_OK;
}

static void run_examples(void *state, size_t index, uint32_t thread)
{
    search_job *job = state;
    const xsmi_searcher *s = job->searcher;
    const xsmi_pass *p = job->pass;
    example_job own = {.job = job, .index = (uint32_t)index};
    const uint64_t at = job->first + index;
    const size_t lists = index * s->blocks;
    xsm_search_block block = search_block_of(p, at, thread);
    block.found = s->results.found + lists * s->candidates;
    block.found_length = s->results.length + lists;
    block.found_score = s->results.score + lists * s->candidates;
    block.score = score_parts;
    block.scorer = &own;
    xsmi_outcome *outcome = &job->outcomes[index];
    *outcome = (xsmi_outcome){.finite = true};
    if (s->most > 0) {
        begin_lists(&own, thread);
        block.candidates = s->most;
        block.found = own.lists.found;
        block.found_length = own.lists.length;
        block.found_score = own.lists.score;
        block.next = list_more;
    }
    p->estimator->ops.search(p->estimator->state, &block);
    if (s->most > 0 && job->status[index] != XSM_OK) {
        return;
    }
    finish(p, &block, outcome);
    if (p->input && outcome->finite) {
        outcome->finite = xsmi_pass_backward(p, at, 1, thread);
    }
}

static xsm_status search_all(search_job *job, xsmi_outcome *outcome, xsm_error *err)
{
    xsmi_searcher *s = job->searcher;
    const uint64_t n = job->pass->batch->count;
    for (; job->first < n; job->first += job->count) {
        job->count = n - job->first < XSM_INDEX_QUERIES ? (uint32_t)(n - job->first) : XSM_INDEX_QUERIES;
        xsmi_pass_list_examples(job->pass, job->first, job->count);
        job->pieces = pieces_of(s, job->count);
        const size_t jobs = (size_t)job->pieces * s->blocks;
        if (s->most == 0) {
            XSMI_TRY(xsmi_run(s->context, run_queries, job, jobs, err));
            XSMI_TRY(first_error(job, jobs, err));
        }
        XSMI_TRY(xsmi_run(s->context, run_examples, job, job->count, err));
        XSMI_TRY(s->most > 0 ? first_error(job, job->count, err) : XSM_OK);
        for (uint32_t i = 0; i < job->count; i++) {
            xsmi_outcome_join(outcome, &job->outcomes[i]);
        }
    }
    return XSM_OK;
}

static xsm_status search(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err)
{
    xsmi_searcher *s = p->estimator->search.searcher;
    search_job job = {.pass = p, .searcher = s};
    const size_t searches = (size_t)pieces_of(s, (uint32_t)s->results.capacity) * s->blocks;
    const size_t jobs = s->most > 0 ? s->results.capacity : searches;
    job.status = xsmi_allocate(s->context, jobs, sizeof *job.status);
    job.errors = xsmi_allocate(s->context, jobs, sizeof *job.errors);
    xsm_status status = job.status && job.errors ? search_all(&job, outcome, err)
                                                 : xsmi_fail_memory(err, jobs * sizeof *job.errors, "a search");
    xsmi_release(s->context, job.status, jobs, sizeof *job.status);
    xsmi_release(s->context, job.errors, jobs, sizeof *job.errors);
    return status;
}

/* Indexes the rows that have changed; sets *finite to whether they are finite. */
static xsm_status update(xsmi_searcher *s, bool *finite, xsm_error *err)
{
    xsm_error unsaid = XSM_ERROR_INIT;
    const xsm_status status = xsmi_searcher_update(s, &unsaid);
    *finite = status != XSM_ERROR_DIVERGED;
    return status == XSM_OK || status == XSM_ERROR_DIVERGED ? XSM_OK : xsmi_fail_copy(err, &unsaid);
}

xsm_status xsmi_pass_search(const xsmi_pass *given, xsmi_outcome *outcome, xsm_error *err)
{
    xsmi_pass p = *given;
    xsm_estimator *e = p.estimator;
    xsm_gradient *g = p.gradient;
    XSMI_TRY(xsmi_estimator_reserve(e, g, p.batch->count, xsmi_context_threads(e->context), false, err));
    XSMI_TRY(xsmi_pass_set_rows(&p, NULL, err));
    const xsmi_input_gradient of_layer = {g->layer.gradient, g->work.rows.stride};
    p.input = g->layered ? &of_layer : p.input;
    xsmi_searcher *s = e->search.searcher;
    XSMI_TRY(update(s, &outcome->finite, err));
    if (!outcome->finite) { /* the caller reports it, as for scores */
        return XSM_OK;
    }
    XSMI_TRY(xsmi_searcher_reserve(s, p.batch->count, err));
    XSMI_TRY(search(&p, outcome, err));
    g->decay = xsmi_estimator_decay(e, p.eta);
    if (outcome->finite && g->layered) {
        xsmi_pass_layer_backward(&p, 0, p.batch->count, outcome);
    }
    if (outcome->finite) {
        xsmi_searcher_note(e->search.searcher, g, p.batch->count);
    }
    return XSM_OK;
}
