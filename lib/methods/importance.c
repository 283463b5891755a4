/*
 * Importance sampling of the log-partition's gradient (Bengio and Senecal, Quick training of probabilistic neural nets
 * by importance sampling, 2003; Adaptive importance sampling, 2008): the mean of dz_k under the model is estimated from
 * m classes drawn from q, with weights normalised over the sample, r_j in proportion to e^(z_j)/q_j:
 *     loss = log(1/m sum_j e^(z_j)/q_j) - z_y,   g_y = -1,   g_j = r_j / sum r for each draw j.
 * The estimate is a ratio of estimates and therefore biased. The normaliser includes the label only if it is drawn, so
 * examples whose sample lacks the label increase its score without bound. The estimator sampled-softmax is the variant
 * that always includes the label.
 */
#include "methods/sampled.h"

#include <math.h>

static const xsm_option options[] = {XSMI_DRAWS_OPTION};

static void gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsmi_sampled_example e = xsmi_sampled_at(block, i);
        double most = -INFINITY, sum = 0;
        for (uint32_t j = 0; j < e.length; j++) {
            double s = (double)e.z[j] - e.log_expected[j];
            most = e.draws[j] > 0 && s > most ? s : most;
        }
        for (uint32_t j = 0; j < e.length; j++) {
            sum += e.draws[j] > 0 ? e.draws[j] * exp((double)e.z[j] - e.log_expected[j] - most) : 0;
        }
        for (uint32_t j = 0; j < e.length; j++) {
            double r = e.draws[j] > 0 ? e.draws[j] * exp((double)e.z[j] - e.log_expected[j] - most) / sum : 0;
            e.g[j] = (float)(r - (j == 0));
        }
        block->losses[i] = most + log(sum) - (double)e.z[0];
    }
}

const xsm_estimator_ops xsmi_importance_ops = {
    XSMI_ESTIMATOR_OF(xsmi_draws),
    .kind = XSM_ESTIMATOR_SAMPLED,
    .flags = XSM_ESTIMATOR_UNBOUNDED,
    .name = "importance",
    .summary = "self-normalised importance sampling of the log-partition (Bengio and Senecal 2003)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .plan = xsmi_plan_any,
    .gradient = gradient,
};
