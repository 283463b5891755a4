/*
 * The perceptron (Rosenblatt 1958) of several classes: loss max_k z_k - z_y, so that the coefficient of the best class
 * is 1 and that of the label -1, or 0 where they are one.
 */
#include "methods/method.h"

#include <string.h>

static void gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        const uint32_t label = block->examples[i].labels[0];
        uint64_t best = 0;
        for (uint64_t k = 1; k < block->width; k++) {
            best = z[k] > z[best] ? k : best;
        }
        block->losses[i] = (double)z[best] - (double)z[label];
        memset(g, 0, block->width * sizeof *g); /* the memory of z */
        g[best] += 1;
        g[label] -= 1;
    }
}

const xsm_estimator_ops xsmi_perceptron_ops = {
    XSMI_ESTIMATOR_OF(xsmi_kernels_state),
    .kind = XSM_ESTIMATOR_EXACT,
    .name = "perceptron",
    .summary = "the best class against the label (Rosenblatt 1958)",
    .bind = xsmi_bind_kernels,
    .gradient = gradient,
};
