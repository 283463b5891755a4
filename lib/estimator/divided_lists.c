/*
 * Estimators on a model whose classes are divided among processes. Draws depend on seed and position alone, so that
 * every process lists the same classes; each scores those that it has, and the scores of all are exchanged before the
 * table turns them into coefficients, on every process. A process's optimizer changes only that process's classes.
 */
#include "estimator/divided_lists.h"

#include <math.h>

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
