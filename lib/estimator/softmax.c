/*
 * Exact softmax cross-entropy: loss log sum_j e^(z_j) - z_y, gradient p_k - [k = y]. For several labels P the loss is
 * the mean over P and the gradient p_k - [k in P]/|P|.
 */
#include "estimator/estimator.h"

#include <math.h>

typedef struct softmax_state {
    const xsmi_kernels *kernels;
} softmax_state;

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    (void)err;
    ((softmax_state *)state)->kernels = xsmi_context_kernels(problem->context);
    return XSM_OK;
}

static void gradient(void *state, const xsm_score_block *block)
{
    const xsmi_kernels *k = ((softmax_state *)state)->kernels;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsm_example *example = &block->examples[i];
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        float max = k->row_max(z, block->width);
        double sum = k->row_sum_exp(z, block->width, max);
        double share = 1 / (double)example->label_count;
        double target = 0;
        for (uint64_t j = 0; j < example->label_count; j++) {
            target += z[example->labels[j]]; /* before g, which may be the same memory, is written */
        }
        block->losses[i] = (double)max + log(sum) - target * share;
        k->row_softmax(z, block->width, max, (float)(1 / sum), g);
        for (uint64_t j = 0; j < example->label_count; j++) {
            g[example->labels[j]] -= (float)share;
        }
    }
}

const xsm_estimator_ops xsmi_softmax_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_ESTIMATOR_ABI,
    .flags = XSM_ESTIMATOR_EXACT | XSM_ESTIMATOR_MULTI_LABEL,
    .name = "softmax",
    .summary = "exact cross-entropy over all classes",
    .state_size = sizeof(softmax_state),
    .bind = bind,
    .gradient = gradient,
};
