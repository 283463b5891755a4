/*
 * The margin of Crammer and Singer over all classes, smoothed by mu, for one label a row or several (Yen et al., Loss
 * Decomposition for Fast Learning in Large Output Spaces, 2018, eq. 3, 10 and 11; the loss itself is in
 * loss/margin_loss.c): the gradient is the projection of (z + 1_N)/mu onto the bi-simplex. A class has a coefficient
 * only if its score is within mu of the best wrong one and above the threshold computed from some of the best scores.
 * sifted.h selects these few classes while scores are computed, and only they are projected.
 */
#include "methods/method.h"

#include "loss/loss.h"
#include "base/arena.h"

#include <math.h>
#include <string.h>

typedef struct margin_state {
    double mu;
    uint32_t classes;
    size_t loss_scratch;
} margin_state;

static const xsm_option options[] = {
    XSMI_OPTION_DOUBLE("mu", margin_state, mu, "1", 1e-6, 1e6,
                       "width of the smoothing: 1 for one label a row, 5 for several (the paper's)"),
};

/* The scratch of one thread. */
typedef struct scratch_arrays {
    double *z, *g, *scratch; /* [K] scores and coefficients, the labels first; the loss's scratch */
} scratch_arrays;

static scratch_arrays divide_scratch(const margin_state *s, xsmi_arena *arena)
{
    scratch_arrays p;
    p.z = xsmi_arena_take(arena, s->classes, sizeof *p.z);
    p.g = xsmi_arena_take(arena, s->classes, sizeof *p.g);
    p.scratch = xsmi_arena_take(arena, s->loss_scratch, sizeof *p.scratch);
    return p;
}

static size_t scratch(const void *state)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide_scratch(state, &arena);
    return arena.used;
}

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    margin_state *s = state;
    s->classes = problem->classes;
    /* The loss's scratch for lists of K classes in total grows with both lengths, so the sum bounds that of every
     * row. */
    s->loss_scratch = xsmi_loss_margin.scratch((size_t)problem->most_labels, s->classes);
    if (scratch(s) == SIZE_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%u classes are more than 'margin' can address", s->classes);
    }
    return XSM_OK;
}

static void gradient(void *state, const xsm_score_block *block)
{
    const margin_state *s = state;
    xsmi_arena arena = {block->scratch, 0};
    scratch_arrays p = divide_scratch(s, &arena);
    for (uint64_t i = 0; i < block->count; i++) {
        const float *scores = block->scores + i * block->width;
        float *coefficients = block->coefficients + i * block->width; /* the scores are in this memory */
        size_t own = (size_t)block->examples[i].label_count, count = 0;
        for (; count < block->lengths[i]; count++) {
            p.z[count] = (double)scores[count];
        }
        bool finite = true;
        for (size_t j = 0; j < count; j++) {
            finite &= isfinite(p.z[j]) != 0;
        }
        if (!finite) {
            block->losses[i] = NAN; /* the caller detects and reports it */
            continue;
        }
        xsmi_loss_scores z = {p.z, p.z + own, own, count - own, 0};
        xsmi_loss_gradient g = {p.g, p.g + own, 0, 0};
        block->losses[i] = xsmi_loss_margin.gradient(&z, s->mu, &g, p.scratch);
        for (size_t j = 0; j < count; j++) {
            coefficients[j] = (float)p.g[j];
        }
    }
}

static double sift(const void *state)
{
    return ((const margin_state *)state)->mu;
}

const xsm_estimator_ops xsmi_margin_ops = {
    XSMI_ESTIMATOR_OF(margin_state),
    .kind = XSM_ESTIMATOR_EXACT,
    .flags = XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_OTHER_LOSS,
    .name = "margin",
    .summary = "exact smoothed margin of Crammer and Singer over all classes",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    .scratch = scratch,
    .gradient = gradient,
    .sift = sift,
};
