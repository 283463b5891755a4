/*
 * Bouchard's bound (Bouchard, Efficient bounds for the softmax function, 2007; Titsias 2016, eq. 12):
 * log sum_m e^(z_m) <= alpha + sum_m log(1 + e^(z_m - alpha)) for every alpha. Each example takes the alpha that makes
 * it tightest, the root of sum_m sigma(z_m - alpha) = 1, at which the bound's gradient is sigma(z_m - alpha): how alpha
 * moves with the scores does not count.
 */
#include "estimator/estimator.h"
#include "math/omega.h"

/*
 * The root alpha, less the largest score, which is z[top]; at least two scores. The largest class is put on the other
 * side, R(a) = sum of the others' sigma(z_m - z_top - a) = sigma(a), because 1 - sigma(-a) would cancel, and Newton's
 * method runs on h(a) = log R(a) - log sigma(a), which falls and is nearly straight.
 *
 * Between: the largest two scores alone have the root (z_second - z_top)/2, and more terms only move it up; and with
 * e^t in place of sigma(t) < e^t the equation is quadratic in e^a.
 */
static double tightest(const float *z, uint64_t count, uint64_t top)
{
    double second = -INFINITY, sum = 0;
    for (uint64_t k = 0; k < count; k++) {
        second = k != top && (double)z[k] > second ? (double)z[k] : second;
    }
    for (uint64_t k = 0; k < count; k++) {
        sum += k != top ? exp((double)z[k] - second) : 0;
    }
    double low = (second - (double)z[top]) / 2;
    double b = second - (double)z[top] + log(sum), half = exp(b / 2);
    /* y^2 - e^b y - e^b = 0, divided by e^b: y = e^(b/2) (e^(b/2) + sqrt(e^b + 4)) / 2 */
    double high = b / 2 + log((half + sqrt(half * half + 4)) / 2);
    double a = high;
    for (int step = 0; step < 60 && high > low; step++) {
        double rest = 0, slope = 0;
        for (uint64_t k = 0; k < count; k++) {
            double s = k != top ? xsmi_sigmoid((double)z[k] - (double)z[top] - a) : 0;
            rest += s;
            slope += s * (1 - s);
        }
        if (!(rest > 0)) {
            break; /* the largest is so far ahead that the others count for nothing at any a in between */
        }
        double h = log(rest) + xsmi_softplus(-a);
        double next = a + h / (slope / rest + xsmi_sigmoid(-a));
        low = h > 0 ? a : low;
        high = h > 0 ? high : a;
        next = next > low && next < high ? next : low + (high - low) / 2;
        double moved = fabs(next - a);
        a = next;
        if (moved < 1e-7 * (1 + fabs(a))) {
            break; /* and squared once more by the step just taken */
        }
    }
    return a;
}

static void gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsm_example *example = &block->examples[i];
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        uint64_t top = 0;
        double share = 1 / (double)example->label_count, target = 0;
        for (uint64_t j = 0; j < example->label_count; j++) {
            target += (double)z[example->labels[j]] * share; /* before g, which may be the same memory, is written */
        }
        if (block->width == 1) {
            g[0] = z[0] - z[0]; /* 0, but what is not a number stays so */
            block->losses[i] = (double)g[0];
            continue;
        }
        for (uint64_t k = 1; k < block->width; k++) {
            top = z[k] > z[top] ? k : top;
        }
        double alpha = (double)z[top] + tightest(z, block->width, top);
        xsmi_softplus_sum softplus = XSMI_SOFTPLUS_SUM_INIT;
        for (uint64_t k = 0; k < block->width; k++) {
            g[k] = (float)xsmi_softplus_add(&softplus, (double)z[k] - alpha);
        }
        block->losses[i] = alpha - target + xsmi_softplus_total(&softplus);
        for (uint64_t j = 0; j < example->label_count; j++) {
            g[example->labels[j]] -= (float)share;
        }
    }
}

const xsm_estimator_ops xsmi_bouchard_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_ESTIMATOR_ABI,
    .flags = XSM_ESTIMATOR_EXACT | XSM_ESTIMATOR_MULTI_LABEL,
    .name = "bouchard",
    .summary = "Bouchard's upper bound of the cross-entropy over all classes (Bouchard 2007)",
    .gradient = gradient,
};
