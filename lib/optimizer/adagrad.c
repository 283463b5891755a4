/*
 * Adagrad (Duchi, Hazan and Singer, Adaptive subgradient methods for online learning and stochastic optimization, 2011,
 * Figure 1 with diagonal matrices, without a regulariser). Every weight has its own learning rate, which falls with the
 * gradients of that weight so far. With t the sum of one weight's gradients over the examples of the batch,
 *     s <- s + t^2,    w <- w - eta t / sqrt(s),
 * where s starts at the option `initial`. The rule gets the mean over n examples and multiplies it by n, so that a
 * weight with a gradient in few examples of a batch takes as long a step as in batches of one, and one learning rate
 * suits all batches: apart from `initial` the factor cancels.
 *
 * Weights with gradient 0 keep w and s. The bias is treated as one more weight of each class.
 *
 * An L2 penalty (ridge) is refused rather than applied as a decay of all weights. As the rates of the steps fall, such
 * a decay would become stronger relative to them, and training would not end at the optimum with that penalty. A decay
 * with a rate for every weight would have to update all weights of all classes at every step.
 */
#include "base/option.h"
#include "optimizer/optimizer.h"

typedef struct adagrad_state {
    double initial;
    const xsmi_kernels *kernels;
} adagrad_state;

static const xsm_option options[] = {
    XSMI_OPTION_DOUBLE(
        "initial", adagrad_state, initial, "0.01", 1e-30, 1e30,
        "what each weight's sum of squared gradients starts at; the more, the longer steps stay like plain ones"),
};

static xsm_status bind(void *state, xsm_context *context, xsm_error *err)
{
    (void)err;
    ((adagrad_state *)state)->kernels = xsmi_context_kernels(context);
    return XSM_OK;
}

static float initial(const void *state, uint32_t accumulator)
{
    (void)accumulator;
    return (float)((const adagrad_state *)state)->initial;
}

static void rule(const void *state, float *weights, float *const *accumulators, const float *sum, size_t n,
                 const xsm_step *step)
{
    ((const adagrad_state *)state)
        ->kernels->adagrad(weights, accumulators[0], sum, n, 1, (float)step->examples, (float)step->eta);
}

static void scaled(const void *state, float *weights, float *const *accumulators, const xsm_scaled_gradient *g,
                   const xsm_step *step)
{
    const xsmi_kernels *kernels = ((const adagrad_state *)state)->kernels;
    if (g->index) {
        kernels->sparse_adagrad(weights, accumulators[0], g->index, g->values, g->count, g->factor,
                                (float)step->examples, (float)step->eta);
    } else {
        kernels->adagrad(weights, accumulators[0], g->values, g->count, g->factor, (float)step->examples,
                         (float)step->eta);
    }
}

static const char *const accumulator_names[] = {"squares"};

const xsm_optimizer_ops xsmi_adagrad_ops = {
    .size = sizeof(xsm_optimizer_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "adagrad",
    .summary = "a rate for each weight that falls with its gradients (Duchi et al. 2011)",
    .state_size = sizeof(adagrad_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .accumulator_names = accumulator_names,
    .accumulators = 1,
    .bind = bind,
    .initial = initial,
    .rule = rule,
    .scaled = scaled,
};
