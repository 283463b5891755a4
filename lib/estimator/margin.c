/*
 * The margin of Crammer and Singer over all classes, smoothed by mu, for one label a row or several (Yen et al., Loss
 * Decomposition for Fast Learning in Large Output Spaces, 2018, eq. 3, 10 and 11; the loss itself is loss/margin.c):
 * the gradient is the projection of (z + 1_N)/mu onto the bi-simplex. Only classes within mu of the best wrong one can
 * have a coefficient, and only those above the threshold that the best of each run of classes have among themselves:
 * the scores are read once, and the projection is of the few that are left.
 */
#include "estimator/estimator.h"
#include "loss/loss.h"
#include "model/tiles.h"

#include <math.h>
#include <string.h>

/* Classes that are passed over together when none of them comes near. */
#define RUN 64

typedef struct margin_state {
    double mu;
    const xsmi_kernels *kernels;
    uint32_t classes;
    size_t loss_scratch;
} margin_state;

static const xsm_option options[] = {
    {"mu", XSM_OPTION_DOUBLE, offsetof(margin_state, mu), "1", 1e-6, 1e6, NULL,
     "width of the smoothing: 1 for one label a row, 5 for several (the paper's)"},
};

/* One thread's memory. */
typedef struct places {
    float *best;             /* [K/RUN] of each run */
    double *run_scratch;     /* [K/RUN][3] */
    uint32_t *place;         /* [K] classes that may count */
    double *z, *g, *scratch; /* [K] their scores and coefficients, the labels first */
} places;

static places divide_scratch(const margin_state *s, xsmi_arena *arena)
{
    places p;
    size_t runs = s->classes / RUN + 1;
    p.best = xsmi_arena_take(arena, runs, sizeof *p.best);
    p.run_scratch = xsmi_arena_take(arena, runs, 3 * sizeof *p.run_scratch);
    p.place = xsmi_arena_take(arena, s->classes, sizeof *p.place);
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
    s->kernels = xsmi_context_kernels(problem->context);
    s->classes = problem->classes;
    /* What the loss takes for lists of K classes in all grows with either, so the sum bounds every row's. */
    s->loss_scratch = xsmi_loss_margin.scratch((size_t)problem->most_labels, s->classes);
    if (scratch(s) == SIZE_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%u classes are more than 'margin' can address", s->classes);
    }
    return XSM_OK;
}

/* Fills the row of coefficients, where the scores are; returns the loss. */
static double take_row(const margin_state *s, const xsm_example *example, float *row, const places *p)
{
    const uint32_t n = s->classes;
    size_t own = (size_t)example->label_count, count = own;
    double least = INFINITY;
    bool finite = true;
    for (size_t i = 0; i < own; i++) {
        p->place[i] = example->labels[i];
        p->z[i] = row[example->labels[i]];
        finite &= isfinite(p->z[i]) != 0;
        least = p->z[i] < least ? p->z[i] : least;
    }
    for (size_t i = 0; i < own; i++) {
        row[example->labels[i]] = -INFINITY;
    }
    float most = -INFINITY;
    uint32_t runs = 0;
    for (uint32_t k = 0; k < n; k += RUN, runs++) {
        float best = s->kernels->row_max(row + k, n - k < RUN ? n - k : RUN);
        p->best[runs] = best;
        finite &= best == best;
        most = best > most ? best : most;
    }
    if (!finite || most == INFINITY) {
        row[0] = NAN; /* is found out and told of */
        return NAN;
    }
    double bar = xsmi_margin_bar(s->mu, least, (double)most, p->best, runs, p->run_scratch);
    for (uint32_t k = 0, run = 0; k < n; k += RUN, run++) {
        if ((double)p->best[run] > bar) {
            for (uint32_t j = k; j < n && j < k + RUN; j++) {
                if ((double)row[j] > bar) {
                    p->place[count] = j;
                    p->z[count++] = (double)row[j];
                }
            }
        }
    }
    memset(row, 0, n * sizeof *row);
    xsmi_loss_scores z = {p->z, p->z + own, own, count - own, 0};
    xsmi_loss_gradient g = {p->g, p->g + own, 0};
    double loss = xsmi_loss_margin.gradient(&z, s->mu, &g, p->scratch);
    for (size_t i = 0; i < count; i++) {
        row[p->place[i]] = (float)p->g[i];
    }
    return loss;
}

static void gradient(void *state, const xsm_score_block *block)
{
    const margin_state *s = state;
    xsmi_arena arena = {block->scratch, 0};
    places p = divide_scratch(s, &arena);
    for (uint64_t i = 0; i < block->count; i++) {
        block->losses[i] = take_row(s, &block->examples[i], block->coefficients + i * block->width, &p);
    }
}

const xsm_estimator_ops xsmi_margin_ops = {
    XSMI_ESTIMATOR_OF(margin_state),
    .flags = XSM_ESTIMATOR_EXACT | XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_OTHER_LOSS,
    .name = "margin",
    .summary = "exact smoothed margin of Crammer and Singer over all classes",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    .scratch = scratch,
    .gradient = gradient,
};
