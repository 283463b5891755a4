/* Queries of the examples of a batch, and what they are computed from: for searches of all classes in one process, and
 * of each rank's. */
#include "estimator/search.h"

#include "base/arena.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

/* B alpha x_j, followed by a 1 for the bias, of which each block has 1/B; with distances each block has its own. */
void xsmi_query_make(const xsmi_query_job *job, const xsmi_block_index *p, uint32_t i, float *query)
{
    const xsmi_searcher *s = job->searcher;
    const xsm_model *m = s->model;
    xsmi_features x = xsmi_gradient_features(job->pass->estimator, job->pass->gradient, job->first + i);
    float scale = (float)((double)s->blocks * m->alpha);
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
    if (m->bias) {
        query[p->width] = m->score == XSM_GEOMETRY_EUCLIDEAN ? (float)s->blocks : 1;
    }
}

/* A table may process all queries of one block together, which can be faster; each thread has work. */
uint32_t xsmi_query_pieces(const xsmi_searcher *s, uint32_t queries)
{
    uint32_t pieces = (xsmi_context_threads(s->context) + s->blocks - 1) / s->blocks;
    return XSMI_MIN(pieces, queries);
}

void xsmi_query_run(void *state, size_t index, uint32_t thread)
{
    xsmi_query_job *job = state;
    xsmi_searcher *s = job->searcher;
    const size_t of = index % s->blocks, piece = index / s->blocks;
    const xsmi_block_index *p = &s->indexes[of];
    const uint32_t begin = (uint32_t)(piece * job->count / job->pieces);
    const uint32_t count = (uint32_t)((piece + 1) * job->count / job->pieces) - begin;
    const size_t first_list = (size_t)begin * s->blocks + of;
    float *queries = s->results.queries + (of * s->results.capacity + begin) * s->query_stride;
    for (uint32_t i = 0; i < count; i++) {
        xsmi_query_make(job, p, begin + i, queries + i * s->query_stride);
    }
    xsmi_arena arena = {s->results.block + thread * s->results.block_each, 0};
    xsm_index_block block = {
        .size = sizeof block,
        .queries = queries,
        .stride = s->query_stride,
        .count = count,
        .top = s->candidates,
        .threshold = -INFINITY,
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

xsm_status xsmi_query_error(const xsmi_query_job *job, size_t count, xsm_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (job->status[i] != XSM_OK) {
            return xsmi_fail_copy(err, &job->errors[i]);
        }
    }
    return XSM_OK;
}

void xsmi_query_shares(const xsmi_searcher *s, size_t i, uint32_t class, float *shares)
{
    const xsm_model *m = s->model;
    const float *row = m->weight + (size_t) class * m->stride;
    const float scale = m->row_scale ? (float)m->row_scale[class] : 1;
    for (uint32_t j = 0; j < s->blocks; j++) {
        const xsmi_block_index *p = &s->indexes[j];
        const float *query = s->results.queries + (j * s->results.capacity + i) * s->query_stride;
        float sum = m->kernels->dot(row + p->first, query, p->width);
        float own = m->bias ? m->bias[class] : 0;
        if (m->score == XSM_GEOMETRY_EUCLIDEAN) {
            own = (float)s->blocks * (-0.5f * m->kernels->dot(row + p->first, row + p->first, p->width));
        }
        shares[j] = scale * sum + own;
    }
}

xsm_search_block xsmi_search_block_of(const xsmi_pass *p, uint64_t example, uint32_t thread)
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

void xsmi_search_finish(const xsmi_pass *p, const xsm_search_block *block, xsmi_outcome *outcome)
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
