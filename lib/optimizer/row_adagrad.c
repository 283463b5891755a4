/*
 * Row-wise Adagrad (as the tables of FBGEMM and TorchRec are trained; Mudigere et al., Software-hardware co-design for
 * fast and scalable training of deep learning recommendation models, 2022): Adagrad with one sum a row, which is a
 * class's weights, a feature's vector, or a bias. With t the sums of the row's gradients over the examples of a batch,
 *     s <- s + mean of t_i^2 over the t_i other than 0,    w_i <- w_i - eta t_i / sqrt(s),
 * where s starts at the option `initial`. With vectors of numbers the mean is that over the whole row; a sparse row's
 * absent features do not lower it, as no weight of theirs changes.
 */
#include "base/option.h"
#include "optimizer/optimizer.h"

#include <math.h>

typedef struct row_adagrad_state {
    double initial;
} row_adagrad_state;

static const xsm_option options[] = {
    XSMI_OPTION_DOUBLE("initial", row_adagrad_state, initial, "0.01", 1e-30, 1e30,
                       "what each row's sum of mean squared gradients starts at; the more, the longer steps stay like "
                       "plain ones"),
};

static float initial(const void *state, uint32_t accumulator)
{
    (void)accumulator;
    return (float)((const row_adagrad_state *)state)->initial;
}

static float row_rate(const void *state, float *const *accumulators, float mean_square, const xsm_step *step)
{
    const float examples = (float)step->examples;
    (void)state;
    *accumulators[0] += examples * examples * mean_square;
    return (float)step->eta * examples / sqrtf(*accumulators[0]);
}

static const char *const accumulator_names[] = {"row-squares"};

const xsm_optimizer_ops xsmi_row_adagrad_ops = {
    .size = sizeof(xsm_optimizer_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "row-adagrad",
    .summary = "Adagrad with one sum of squares a class or feature, not one a weight",
    .state_size = sizeof(row_adagrad_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .accumulator_names = accumulator_names,
    .accumulators = 1,
    .initial = initial,
    .row_rate = row_rate,
};
