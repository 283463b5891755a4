/*
 * Plain stochastic gradient on the older double sum (Raman, Matsushima, Zhang, Yun and Vishwanathan, DS-MLR, 2016; here
 * Fagan and Iyengar 2018, eq. 8), which does not factor the label's score out of the sum:
 *     f_i = u - z_y + e^(z_y - u) + (K-1)/m sum_{k in S} e^(z_k - u),
 *     g_k = (K-1)/m e^(z_k - u),   g_y = e^(z_y - u) - 1,   df/du = 1 - e^(z_y - u) - (K-1)/m sum_k e^(z_k - u).
 * Minimised over u, which may have either sign, it is the log-loss + 1 at u = log sum_j e^z_j. With `delta` it is U-max
 * on this sum (Fagan and Iyengar, section 3.1, for either sum): u is raised before the step.
 */
#include "base/order.h"
#include "methods/double_sum.h"

#include <math.h>

typedef struct raman_state {
    xsmi_double_sum sum; /* first: the shared functions read the state as this type */
    double delta;
} raman_state;

static const xsm_option options[] = {
    XSMI_DOUBLE_SUM_NEGATIVES,
    XSMI_OPTION_CHOICE(
        "start", xsmi_double_sum, start, xsmi_double_sum_starts, "log-classes",
        "where u, a row's running log-partition, starts: log-classes (its value when all weights are 0) or zero"),
    XSMI_OPTION_DOUBLE("delta", raman_state, delta, "0", 0, 100,
                       "how far u may lie below log(e^z_y + sum_S e^z_k) before it is raised to it; 0 = never raised"),
};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    return xsmi_double_sum_bind(state, "raman", problem, err);
}

/* Returns log(e^z_y + sum_{k in S} e^z_k), to which u is raised. */
static double bound(const float *z, uint32_t length)
{
    double most = (double)z[0], sum = 0;
    for (uint32_t j = 1; j < length; j++) {
        most = XSMI_MAX((double)z[j], most);
    }
    for (uint32_t j = 0; j < length; j++) {
        sum += exp((double)z[j] - most);
    }
    return most + log(sum);
}

static void gradient(void *state, const xsm_score_block *block)
{
    const raman_state *raman = state;
    xsmi_double_sum *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        uint64_t row = block->examples[i].row;
        uint32_t length = block->lengths[i];
        double u = s->u[row];
        if (raman->delta > 0) {
            const double least = bound(z, length);
            u = u < least - raman->delta ? least : u;
        }
        double own = exp((double)z[0] - u), sum = own;
        g[0] = (float)(own - 1);
        for (uint32_t j = 1; j < length; j++) {
            double c = s->weight * exp((double)z[j] - u);
            sum += c;
            g[j] = (float)c;
        }
        /* The loss is the batch's mean, so the u of each row takes 1/n of the step. */
        xsmi_double_sum_move(s, row, u - block->eta / (double)block->batch * (1 - sum));
        block->losses[i] = u - (double)z[0] + sum - 1;
    }
}

const xsm_estimator_ops xsmi_raman_ops = {
    XSMI_ESTIMATOR_OF(raman_state),
    .flags = XSM_ESTIMATOR_ROW_STATE | XSM_ESTIMATOR_UNBOUNDED,
    .name = "raman",
    .summary = "plain SGD on the double sum of DS-MLR, sampled classes (Raman et al. 2016)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    XSMI_DOUBLE_SUM_OPS,
    .gradient = gradient,
};
