/*
 * Estimators on a model whose classes are divided among ranks. Draws depend on seed and position alone, so that every
 * rank lists the same classes; each scores those that it has, and the scores of all are exchanged before the table
 * turns them into coefficients, on every rank. What an optimizer changes is its rank's.
 */
#include "estimator/divided.h"

#include <math.h>

static xsm_status check_search(const xsm_estimator *e, const xsm_model *m, xsm_error *err)
{
    XSMI_TRY(xsmi_index_check_ranks(e->search.index, m, err));
    return !e->ops.state_tensor ? XSM_OK
                                : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                                            "estimator '%s' searches, and has a state that changes, and the classes of "
                                            "the model are divided among %u ranks, where searches are repeated; tables "
                                            "without state_tensor() are accepted",
                                            e->ops.name, xsmi_ranks(m->context));
}

xsm_status xsmi_divided_check(const xsm_estimator *e, const xsm_model *m, xsm_error *err)
{
    return xsmi_model_is_divided(m) && e->ops.kind == XSM_ESTIMATOR_SEARCHED ? check_search(e, m, err) : XSM_OK;
}

/* Scores the classes of this rank that the examples list. */
static void score_examples(const xsmi_pass *p, uint64_t first, uint64_t count)
{
    const xsm_estimator *e = p->estimator;
    const xsm_model *m = e->model;
    xsm_gradient *g = p->gradient;
    for (uint64_t i = first; i < first + count; i++) {
        const xsmi_features x = xsmi_gradient_features(e, g, i);
        const uint32_t *classes = g->classes + i * g->width;
        float *scores = g->work.scores + i * g->width;
        xsmi_divided_score_classes(m, &x, classes, g->lengths[i], scores);
        for (uint64_t j = g->lengths[i]; j < g->width; j++) {
            scores[j] = -INFINITY;
        }
        for (uint64_t j = 0; m->part.own->bias && j < g->width; j++) {
            const uint32_t k = j < g->lengths[i] ? classes[j] : XSMI_NO_CLASS;
            const bool own = k >= m->part.first && k < m->part.end;
            g->work.linear[i * g->width + j] =
                own && isfinite(scores[j]) ? scores[j] - m->part.own->bias[k - m->part.first] : -INFINITY;
        }
    }
}

typedef struct score_job {
    const xsmi_pass *pass;
    bool listed; /* the examples have their lists */
} score_job;

static void score_chunk(void *state, size_t index, uint32_t thread)
{
    const score_job *job = state;
    const xsmi_pass *p = job->pass;
    const uint64_t first = index * XSMI_EXAMPLE_CHUNK, rest = p->batch->count - first;
    const uint64_t count = XSMI_MIN(rest, XSMI_EXAMPLE_CHUNK);
    (void)thread;
    if (!job->listed) {
        xsmi_pass_list_examples(p, first, count);
        xsmi_estimator_select(p->estimator, p->gradient, first, count);
    }
    score_examples(p, first, count);
}

xsm_status xsmi_divided_scores(const xsmi_pass *p, bool listed, xsm_error *err)
{
    xsm_gradient *g = p->gradient;
    const xsm_model *m = p->estimator->model;
    const uint64_t chunks = (p->batch->count + XSMI_EXAMPLE_CHUNK - 1) / XSMI_EXAMPLE_CHUNK;
    const size_t count = (size_t)(p->batch->count * g->width);
    score_job job = {p, listed};
    const xsm_status status = xsmi_run(p->estimator->context, score_chunk, &job, (size_t)chunks, err);
    XSMI_TRY(xsmi_agree(m->context, status, err));
    XSMI_TRY(xsmi_exchange_max(m->context, g->work.scores, count, err));
    return m->part.own->bias ? xsmi_exchange_max(m->context, g->work.linear, count, err) : XSM_OK;
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
