/* Queries of the examples of a batch, their scores, and what search() gets: for searches of one process, and of all
 * ranks. */
#include "estimator/search.h"

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
