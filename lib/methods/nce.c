/*
 * Noise-contrastive estimation (Gutmann and Hyvarinen, Noise-contrastive estimation, 2010; Mnih and Teh, A fast and
 * simple algorithm for training neural probabilistic language models, 2012, with the normaliser fixed at 1): the label
 * against m classes drawn from the noise q, separated by a logistic of s_k = z_k - log(m q_k):
 *     loss = softplus(-s_y) + lambda z_y^2 + sum_j [softplus(s_j) + lambda z_j^2],
 *     g_y = -sigma(-s_y) + 2 lambda z_y,   g_j = sigma(s_j) + 2 lambda z_j for each draw j.
 * A draw that equals the label counts as noise: then both terms apply, which the consistency of the method requires. If
 * the model is rich enough, its optimum is z_k = log p(k|x), normalised without a sum; otherwise the normaliser is only
 * approximately 1, and the optimum is not that of the likelihood. The penalty on squared scores is the one of Bamler
 * and Mandt 2020, eq. 6, where z_k + log p_n(k|x) are the scores of the softmax; here z_k are.
 */
#include "methods/sampled.h"
#include "math/omega.h"

typedef struct nce_state {
    xsmi_draws draws; /* first: the shared functions read the state as this type */
    double lambda;
} nce_state;

static const xsm_option options[] = {
    XSMI_DRAWS_OPTION,
    XSMI_OPTION_DOUBLE("lambda", nce_state, lambda, "0", 0, 1e30,
                       "strength of the penalty on squared scores of the label and of each draw"),
};

static void gradient(void *state, const xsm_score_block *block)
{
    const nce_state *own = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsmi_sampled_example e = xsmi_sampled_at(block, i);
        double loss = 0;
        for (uint32_t j = 0; j < e.length; j++) {
            double s = (double)e.z[j] - e.log_expected[j];
            double times = e.draws[j], c = 0;
            if (times > 0) {
                c = times * xsmi_sigmoid(s);
                loss += times * xsmi_softplus(s);
            }
            if (j == 0) {
                c -= xsmi_sigmoid(-s);
                loss += xsmi_softplus(-s);
            }
            if (own->lambda > 0) {
                const double z = (double)e.z[j], weight = times + (j == 0);
                c += 2 * own->lambda * weight * z;
                loss += own->lambda * weight * z * z;
            }
            e.g[j] = (float)c;
        }
        block->losses[i] = loss;
    }
}

const xsm_estimator_ops xsmi_nce_ops = {
    XSMI_ESTIMATOR_OF(nce_state),
    .kind = XSM_ESTIMATOR_SAMPLED,
    .name = "nce",
    .summary = "noise-contrastive estimation, any sampler as noise (Gutmann and Hyvarinen 2010)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .plan = xsmi_plan_probabilities,
    .gradient = gradient,
};
