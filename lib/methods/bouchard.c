/*
 * Bouchard's bound (Bouchard, Efficient bounds for the softmax function, 2007; Titsias 2016, eq. 12): log sum_m e^(z_m)
 * <= alpha + sum_m log(1 + e^(z_m - alpha)) for every alpha. Each example uses the alpha of the tightest bound, the
 * root of sum_m sigma(z_m - alpha) = 1. There the gradient of the bound is sigma(z_m - alpha); the dependence of alpha
 * on the scores contributes nothing.
 *
 * All sums over the classes are by runs (XSMI_RUN_CLASSES), which are added in rising order.
 */
#include "methods/method.h"
#include "base/order.h"
#include "math/omega.h"

/* The number of classes whose logistics are computed at a time, and the number of partial sums, which a compiler can
 * keep in vectors. */
#define TOGETHER 512
#define PARTS 8
/* After a relative move below this, Newton's method continues in double: the next move is near the accuracy of
 * floats. */
#define MOVE_FLOAT 1e-4
/* The method ends after a Newton move below MOVE_NEWTON, as the error after it is about its square, or after a halving
 * of the interval that moves less than MOVE_HALVING. */
#define MOVE_NEWTON 1e-5
#define MOVE_HALVING 1e-9
/* The logarithm of a sum of exponentials in float is too small by at most this. */
#define SUM_ERROR 1e-5

/* Adds the sigma(z_k - shift) of n <= TOGETHER classes to rest[], and their derivatives to slope[]. */
static void add_logistics(const xsmi_kernels *kernels, const float *z, size_t n, double shift, double rest[PARTS],
                          double slope[PARTS])
{
    float t[TOGETHER], unlikely[TOGETHER], likely[TOGETHER];
    if (n == 0) {
        return;
    }
    for (size_t k = 0; k < n; k++) {
        t[k] = (float)((double)z[k] - shift);
    }
    kernels->logistics(t, n, unlikely, likely, NULL);
    size_t whole = n / PARTS * PARTS;
    for (size_t k = 0; k < whole; k += PARTS) {
        for (size_t l = 0; l < PARTS; l++) {
            rest[l] += (double)likely[k + l];
            slope[l] += (double)(likely[k + l] * unlikely[k + l]);
        }
    }
    for (size_t k = whole; k < n; k++) {
        rest[k - whole] += (double)likely[k];
        slope[k - whole] += (double)(likely[k] * unlikely[k]);
    }
}

/* The scores of an example, and the class of the largest. */
typedef struct scores {
    const xsmi_kernels *kernels;
    const float *z;
    uint64_t count, top;
} scores;

static uint64_t run_end(const scores *s, uint64_t run)
{
    return XSMI_MIN(s->count - run, XSMI_RUN_CLASSES) + run;
}

/* Returns the top class if the run has it, otherwise the run's end. */
static uint64_t top_in(const scores *s, uint64_t run)
{
    const uint64_t end = run_end(s, run);
    return s->top >= run && s->top < end ? s->top : end;
}

/* Adds the sums of sigma(z_k - shift), and of their derivatives, over all classes of a run but the top one. */
static void add_run(const scores *s, uint64_t run, double shift, double *rest, double *slope)
{
    double r[PARTS] = {0}, d[PARTS] = {0};
    const uint64_t end = run_end(s, run), but = top_in(s, run);
    for (uint64_t k = run; k < end;) {
        uint64_t left = (k <= but ? but : end) - k, n = XSMI_MIN(left, TOGETHER);
        add_logistics(s->kernels, s->z + k, (size_t)n, shift, r, d);
        k += n + (k + n == but);
    }
    *rest += ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    *slope += ((d[0] + d[1]) + (d[2] + d[3])) + ((d[4] + d[5]) + (d[6] + d[7]));
}

/* Adds the same run with each term rounded as a double. */
static void add_run_precisely(const scores *s, uint64_t run, double shift, double *rest, double *slope)
{
    double r = 0, d = 0;
    const float *z = s->z;
    const uint64_t end = run_end(s, run), top = s->top;
    for (uint64_t k = run; k < end; k++) {
        double likely = k != top ? xsmi_sigmoid((double)z[k] - shift) : 0;
        r += likely;
        d += likely * (1 - likely);
    }
    *rest += r;
    *slope += d;
}

/* Returns the sum of e^(z_k - shift) over all classes but the top one, for a shift that no other score exceeds. */
static double sum_others(const scores *s, float shift)
{
    double sum = 0;
    for (uint64_t run = 0; run < s->count; run = run_end(s, run)) {
        const uint64_t end = run_end(s, run), but = top_in(s, run), above = XSMI_MIN(but + 1, end);
        sum += s->kernels->row_sum_exp(s->z + run, (size_t)(but - run), shift) +
               s->kernels->row_sum_exp(s->z + above, (size_t)(end - above), shift);
    }
    return sum;
}

/*
 * Computes the root alpha, less the largest score, which is z[top], for at least two scores. The equation has the
 * largest class on the other side, R(a) = sum of the others' sigma(z_m - z_top - a) = sigma(a), because 1 - sigma(-a)
 * would cancel. Newton's method solves h(a) = log R(a) - log sigma(a) = 0; h falls and is nearly straight. All steps
 * but the last ones are in float.
 *
 * The bounds of the root: the largest two scores alone have the root (z_second - z_top)/2, and more terms only increase
 * it; with e^t in place of sigma(t) < e^t the equation is quadratic in e^a.
 */
static double tightest(const scores *s)
{
    const double top = (double)s->z[s->top];
    const float second = fmaxf(s->kernels->row_max(s->z, (size_t)s->top),
                               s->kernels->row_max(s->z + s->top + 1, (size_t)(s->count - s->top - 1)));
    double low = ((double)second - top) / 2;
    double b = (double)second - top + log(sum_others(s, second)) + SUM_ERROR, half = exp(b / 2);
    /* y^2 - e^b y - e^b = 0, divided by e^b: y = e^(b/2) (e^(b/2) + sqrt(e^b + 4)) / 2 */
    double high = b / 2 + log((half + sqrt(half * half + 4)) / 2);
    double a = high;
    bool precise = false, done = false;
    for (int step = 0; step < 60 && high > low && !done; step++) {
        double rest = 0, slope = 0;
        for (uint64_t run = 0; run < s->count; run = run_end(s, run)) {
            (precise ? add_run_precisely : add_run)(s, run, top + a, &rest, &slope);
        }
        if (!(rest > 0)) {
            done = precise; /* the largest is so far ahead that the others contribute nothing at any a between the
                               bounds */
            precise = true;
            continue;
        }
        double h = log(rest) + xsmi_softplus(-a);
        double next = a + h / (slope / rest + xsmi_sigmoid(-a));
        bool within = true;
        if (precise) {
            low = h > 0 ? a : low;
            high = h > 0 ? high : a;
            within = next > low && next < high;
            next = within ? next : low + (high - low) / 2;
        } else { /* the sign of a float result may be wrong */
            next = fmin(fmax(next, low), high);
        }
        double moved = fabs(next - a) / (1 + fabs(next));
        a = next;
        done = precise && moved < (within ? MOVE_NEWTON : MOVE_HALVING);
        precise = precise || moved < MOVE_FLOAT;
    }
    return a;
}

/* Sets g to sigma(z - alpha), which may be in the same memory; returns the sum of log(1 + e^(z - alpha)). */
static double softplus(const scores *s, double alpha, float *g)
{
    const float *z = s->z;
    double sum = 0;
    for (uint64_t run = 0, end; run < s->count; run = end) {
        xsmi_softplus_sum part = XSMI_SOFTPLUS_SUM_INIT;
        end = run_end(s, run);
        for (uint64_t k = run; k < end; k++) {
            g[k] = (float)xsmi_softplus_add(&part, (double)z[k] - alpha);
        }
        sum += xsmi_softplus_total(&part);
    }
    return sum;
}

static void gradient(void *state, const xsm_score_block *block)
{
    const xsmi_kernels *kernels = ((xsmi_kernels_state *)state)->kernels;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsm_example *example = &block->examples[i];
        const float *weights = xsmi_label_weights(block->label_weights, i);
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        uint64_t top = 0;
        double share = 1 / (double)example->label_count, target = 0,
               all_weights = xsmi_label_weight_sum(weights, example->label_count) * share;
        for (uint64_t j = 0; j < example->label_count; j++) {
            target += xsmi_label_weight(weights, j) * (double)z[example->labels[j]] *
                      share; /* before writing g, which may be the same memory */
        }
        if (block->width == 1) {
            g[0] = z[0] - z[0]; /* 0, but NaN if z is not finite */
            block->losses[i] = (double)g[0];
            continue;
        }
        for (uint64_t k = 1; k < block->width; k++) {
            top = z[k] > z[top] ? k : top;
        }
        const scores all = {kernels, z, block->width, top};
        double alpha = (double)z[top] + tightest(&all);
        if (weights) {
            block->losses[i] = all_weights * (alpha + softplus(&all, alpha, g)) - target;
            kernels->scale(g, (size_t)block->width, (float)all_weights);
        } else {
            block->losses[i] = alpha - target + softplus(&all, alpha, g);
        }
        for (uint64_t j = 0; j < example->label_count; j++) {
            g[example->labels[j]] -= (float)(xsmi_label_weight(weights, j) * share);
        }
    }
}

const xsm_estimator_ops xsmi_bouchard_ops = {
    XSMI_ESTIMATOR_OF(xsmi_kernels_state),
    .kind = XSM_ESTIMATOR_EXACT,
    .flags = XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_LABEL_WEIGHTED,
    .name = "bouchard",
    .summary = "Bouchard's upper bound of the cross-entropy over all classes (Bouchard 2007)",
    .bind = xsmi_bind_kernels,
    .gradient = gradient,
};
