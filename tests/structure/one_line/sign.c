/* Steps of one size: w -= eta sign(sum) (Bernstein et al., signSGD, 2018). */
#include "optimizer/optimizer.h"

static void rule(const void *state, float *weights, float *const *memory, const float *sum, size_t n,
                 const xsm_step *step)
{
    const float eta = (float)step->eta;
    (void)state;
    (void)memory;
    for (size_t i = 0; i < n; i++) {
        weights[i] -= eta * (float)((sum[i] > 0) - (sum[i] < 0));
    }
}

const xsm_optimizer_ops xsmi_sign_ops = {
    .size = sizeof(xsm_optimizer_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "sign",
    .summary = "steps of one size in the direction of the gradient's signs (Bernstein et al. 2018)",
    .rule = rule,
};
