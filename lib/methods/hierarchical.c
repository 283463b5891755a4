/*
 * Hierarchical softmax (Morin and Bengio, Hierarchical probabilistic neural network language model, 2005; Mnih and
 * Hinton, A scalable hierarchical distributed language model, 2008). Classes are the leaves of a binary tree, each
 * inner node is a logistic on the features, and log p(y|x) is the sum over the path to y. A step therefore costs O(D
 * log K) and is exact. With s_i the score (logit) of node i and r_i = 1 where the path goes to the right,
 *     loss = sum over the path of softplus((1 - 2 r_i) s_i),   g_i = sigma(s_i) - r_i.
 */
#include "math/omega.h"
#include "methods/method.h"

static void gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *s = block->scores + i * block->width;
        const uint32_t *turns = block->turns + i * block->width;
        float *g = block->coefficients + i * block->width;
        double loss = 0;
        for (uint32_t j = 0; j < block->lengths[i]; j++) {
            double against = turns[j] ? -(double)s[j] : (double)s[j], rest = xsmi_sigmoid(against);
            loss += xsmi_softplus(against);
            g[j] = (float)(turns[j] ? -rest : rest);
        }
        block->losses[i] = loss;
    }
}

const xsm_estimator_ops xsmi_hierarchical_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .kind = XSM_ESTIMATOR_HIERARCHY,
    .name = "hierarchical",
    .summary = "hierarchical softmax, exact over a tree of the classes (Morin and Bengio 2005)",
    .gradient = gradient,
};
