/* Plain steps whose gradients are clipped to [-clip, clip]. */
#include "base/option.h"
#include "base/order.h"
#include "optimizer/optimizer.h"

typedef struct clipped_state {
    double clip;
} clipped_state;

static const xsm_option options[] = {
    XSMI_OPTION_DOUBLE("clip", clipped_state, clip, "0.5", 0, 1e30, "largest size of a gradient"),
};

static void rule(const void *state, float *weights, float *const *memory, const float *sum, size_t n,
                 const xsm_step *step)
{
    const float clip = (float)((const clipped_state *)state)->clip;
    (void)memory;
    for (size_t i = 0; i < n; i++) {
        weights[i] -= (float)step->eta * XSMI_CLAMP(sum[i], -clip, clip);
    }
}

const xsm_optimizer_ops xsmi_clipped_ops = {
    .size = sizeof(xsm_optimizer_ops),
    .abi = XSM_OPTIMIZER_ABI,
    .name = "clipped",
    .summary = "plain steps with clipped gradients",
    .state_size = sizeof(clipped_state),
    .options = options,
    .option_count = 1,
    .option_size = sizeof(xsm_option),
    .rule = rule,
};
