/*
 * One-vs-each with any sampler (Titsias, One-vs-Each Approximation to Softmax for Scalable Estimation of Probabilities,
 * 2016, whose future work it is): the sum over the other classes in the bound of eq. 4, estimated from m classes drawn
 * from q with the weights 1/(m q):
 *     loss = sum_j c_j/(m q_j) softplus(z_j - z_y),   g_j = c_j/(m q_j) sigma(z_j - z_y),   g_y = -sum_j g_j,
 * c_j the draws of class j. Unbiased for the bound and its gradient; a label that is drawn adds nothing. Uniform
 * classes are drawn without replacement from the others, which is `ove`.
 */
#include "estimator/estimator.h"
#include "math/omega.h"

#include <math.h>

typedef struct ove_sampled_state {
    int64_t negatives;
} ove_sampled_state;

static const xsm_option options[] = {
    XSMI_DRAWS_OPTION(ove_sampled_state, negatives),
};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    (void)state;
    (void)problem;
    (void)err;
    return XSM_OK;
}

static void plan(const void *state, xsm_draw_plan *p)
{
    p->count = (uint32_t)((const ove_sampled_state *)state)->negatives;
    p->exclude_labels = 1;
}

static void gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        uint64_t start = i * block->width;
        double own = (double)block->scores[start], sum = 0, loss = 0;
        for (uint32_t j = 1; j < block->lengths[i]; j++) {
            double weight = block->draws[start + j] * exp(-block->log_expected[start + j]);
            double difference = (double)block->scores[start + j] - own;
            double c = weight * xsmi_sigmoid(difference);
            loss += weight * xsmi_softplus(difference);
            sum += c;
            block->coefficients[start + j] = (float)c;
        }
        block->coefficients[start] = (float)-sum;
        block->losses[i] = loss;
    }
}

const xsm_estimator_ops xsmi_ove_sampled_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_ESTIMATOR_ABI,
    .flags = XSM_ESTIMATOR_SAMPLER,
    .name = "ove-sampled",
    .summary = "one-vs-each bound, importance-weighted classes of any sampler (Titsias 2016)",
    .state_size = sizeof(ove_sampled_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_size = sizeof options[0],
    .bind = bind,
    .plan = plan,
    .gradient = gradient,
};
