/*
 * Exact softmax cross-entropy: loss log sum_j e^(z_j) - z_y, gradient p_k - [k = y]. For several labels P the loss is
 * the mean over P and the gradient p_k - [k in P]/|P|; labels of weights v have the terms v_k (log sum_j e^(z_j) -
 * z_k)/|P|.
 */
#include "methods/method.h"

#include <math.h>

static void gradient(void *state, const xsm_score_block *block)
{
    const xsmi_kernels *k = ((xsmi_kernels_state *)state)->kernels;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsm_example *example = &block->examples[i];
        const float *weights = xsmi_label_weights(block, i);
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        float max = k->row_max(z, block->width);
        double sum = k->row_sum_exp(z, block->width, max);
        double share = 1 / (double)example->label_count,
               all = xsmi_label_weight_sum(weights, example->label_count) * share;
        double target = 0;
        for (uint64_t j = 0; j < example->label_count; j++) {
            target += xsmi_label_weight(weights, j) *
                      (double)z[example->labels[j]]; /* before writing g, which may be the same memory */
        }
        block->losses[i] = all * ((double)max + log(sum)) - target * share;
        k->row_softmax(z, block->width, max, (float)(all / sum), g);
        for (uint64_t j = 0; j < example->label_count; j++) {
            g[example->labels[j]] -= (float)(xsmi_label_weight(weights, j) * share);
        }
    }
}

const xsm_estimator_ops xsmi_softmax_ops = {
    XSMI_ESTIMATOR_OF(xsmi_kernels_state),
    .kind = XSM_ESTIMATOR_EXACT,
    .flags = XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_LABEL_WEIGHTED,
    .name = "softmax",
    .summary = "exact cross-entropy over all classes",
    .bind = xsmi_bind_kernels,
    .gradient = gradient,
};
