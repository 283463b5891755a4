/*
 * Noise-contrastive estimation (Gutmann and Hyvarinen, Noise-contrastive estimation, 2010; Mnih and Teh, A fast and
 * simple algorithm for training neural probabilistic language models, 2012, with the normaliser fixed at 1): the label
 * against m classes drawn from the noise q, told apart by a logistic of s_k = z_k - log(m q_k):
 *     loss = softplus(-s_y) + sum_j softplus(s_j),   g_y = -sigma(-s_y),   g_j = sigma(s_j) for each draw j.
 * A draw that equals the label is noise like any other: both terms then count, as the consistency of the method needs.
 * Where the model is rich enough its optimum is z_k = log p(k|x), normalised without a sum; otherwise the normaliser is
 * only approximately 1 and the optimum is not that of the likelihood.
 */
#include "estimator/estimator.h"
#include "math/omega.h"

typedef struct nce_state {
    int64_t negatives;
} nce_state;

static const xsm_option options[] = {
    XSMI_DRAWS_OPTION(nce_state, negatives),
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
    p->count = (uint32_t)((const nce_state *)state)->negatives;
    p->label_probabilities = 1;
}

static void gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        uint64_t start = i * block->width;
        double loss = 0;
        for (uint32_t j = 0; j < block->lengths[i]; j++) {
            double s = (double)block->scores[start + j] - block->log_expected[start + j];
            double times = block->draws[start + j], c = 0;
            if (times > 0) {
                c = times * xsmi_sigmoid(s);
                loss += times * xsmi_softplus(s);
            }
            if (j == 0) {
                c -= xsmi_sigmoid(-s);
                loss += xsmi_softplus(-s);
            }
            block->coefficients[start + j] = (float)c;
        }
        block->losses[i] = loss;
    }
}

const xsm_estimator_ops xsmi_nce_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_ESTIMATOR_ABI,
    .flags = XSM_ESTIMATOR_SAMPLER,
    .name = "nce",
    .summary = "noise-contrastive estimation, any sampler as noise (Gutmann and Hyvarinen 2010)",
    .state_size = sizeof(nce_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_size = sizeof options[0],
    .bind = bind,
    .plan = plan,
    .gradient = gradient,
};
