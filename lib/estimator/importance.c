/*
 * Importance sampling of the log-partition's gradient (Bengio and Senecal, Quick training of probabilistic neural nets
 * by importance sampling, 2003; Adaptive importance sampling, 2008): the mean of dz_k under the model is estimated from
 * m classes drawn from q, with weights normalised over the sample, r_j in proportion to e^(z_j)/q_j:
 *     loss = log(1/m sum_j e^(z_j)/q_j) - z_y,   g_y = -1,   g_j = r_j / sum r for each draw j.
 * Biased, as a ratio of estimates is. The label counts in the normaliser only where it is drawn, so that its score is
 * driven up without bound by examples whose sample lacks it; sampled-softmax is the variant that puts it in.
 */
#include "estimator/estimator.h"

#include <math.h>

typedef struct importance_state {
    int64_t negatives;
} importance_state;

static const xsm_option options[] = {
    XSMI_DRAWS_OPTION(importance_state, negatives),
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
    p->count = (uint32_t)((const importance_state *)state)->negatives;
}

static void gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + i * block->width;
        const double *log_expected = block->log_expected + i * block->width;
        const uint32_t *draws = block->draws + i * block->width;
        float *g = block->coefficients + i * block->width;
        uint32_t length = block->lengths[i];
        double most = -INFINITY, sum = 0;
        for (uint32_t j = 0; j < length; j++) {
            double s = (double)z[j] - log_expected[j];
            most = draws[j] > 0 && s > most ? s : most;
        }
        for (uint32_t j = 0; j < length; j++) {
            sum += draws[j] > 0 ? draws[j] * exp((double)z[j] - log_expected[j] - most) : 0;
        }
        for (uint32_t j = 0; j < length; j++) {
            double r = draws[j] > 0 ? draws[j] * exp((double)z[j] - log_expected[j] - most) / sum : 0;
            g[j] = (float)(r - (j == 0));
        }
        block->losses[i] = most + log(sum) - (double)z[0];
    }
}

const xsm_estimator_ops xsmi_importance_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_ESTIMATOR_ABI,
    .flags = XSM_ESTIMATOR_SAMPLER,
    .name = "importance",
    .summary = "self-normalised importance sampling of the log-partition (Bengio and Senecal 2003)",
    .state_size = sizeof(importance_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_size = sizeof options[0],
    .bind = bind,
    .plan = plan,
    .gradient = gradient,
};
