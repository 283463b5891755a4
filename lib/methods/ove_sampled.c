/*
 * One-vs-each with any sampler (Titsias, One-vs-Each Approximation to Softmax for Scalable Estimation of Probabilities,
 * 2016, which names it as future work): the sum over the other classes in the bound of eq. 4 is estimated from m
 * classes drawn from q with the weights 1/(m q):
 *     loss = sum_j c_j/(m q_j) softplus(z_j - z_y),   g_j = c_j/(m q_j) sigma(z_j - z_y),   g_y = -sum_j g_j,
 * where c_j is the number of draws of class j. Unbiased for the bound and its gradient; a drawn label adds nothing.
 * Uniform classes are drawn without replacement from the others, which equals `ove`. With another sampler, the tree
 * above all, the weight of a rare class has no bound, and neither has a step.
 */
#include "methods/sampled.h"
#include "math/omega.h"

#include <math.h>

static const xsm_option options[] = {XSMI_DRAWS_OPTION};

static void gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsmi_sampled_example e = xsmi_sampled_at(block, i);
        double own = (double)e.z[0], sum = 0, loss = 0;
        for (uint32_t j = 1; j < e.length; j++) {
            double weight = e.draws[j] * exp(-e.log_expected[j]);
            double difference = (double)e.z[j] - own;
            double c = weight * xsmi_sigmoid(difference);
            loss += weight * xsmi_softplus(difference);
            sum += c;
            e.g[j] = (float)c;
        }
        e.g[0] = (float)-sum;
        block->losses[i] = loss;
    }
}

const xsm_estimator_ops xsmi_ove_sampled_ops = {
    XSMI_ESTIMATOR_OF(xsmi_draws),
    .kind = XSM_ESTIMATOR_SAMPLED,
    .flags = XSM_ESTIMATOR_UNBOUNDED,
    .name = "ove-sampled",
    .summary = "one-vs-each bound, importance-weighted classes of any sampler (Titsias 2016)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .plan = xsmi_plan_others,
    .gradient = gradient,
};
