/*
 * Sampled softmax (Jean et al., On using very large target vocabulary for neural machine translation, 2015): the
 * softmax over the labels P and the classes drawn from q. A drawn class stands for those that were not: with c_j draws
 * of class j, the expected number of its draws taken off its score, Z = sum_{k in P} e^(z_k) + sum_{j not in P} c_j
 * e^(z_j - log(m q_j)), has the full sum as its mean (option log-q; without it Z is that of the classes drawn alone,
 * c_j e^(z_j)). loss = log Z - mean over P of z_k,   g_k = share of k in Z - [k in P]/|P|. A label that is drawn is no
 * negative. Uniform draws are made without replacement from the other classes, with (K-|P|)/m in the place of 1/(m q);
 * all the others drawn, it is the exact softmax.
 */
#include "estimator/sampled.h"

#include <math.h>

typedef struct sampled_softmax_state {
    xsmi_draws draws; /* first: the shared functions take the state as this */
    int32_t log_q;
} sampled_softmax_state;

static const xsm_option options[] = {
    XSMI_DRAWS_OPTION,
    {"log-q", XSM_OPTION_BOOL, offsetof(sampled_softmax_state, log_q), "yes", 0, 1, NULL,
     "takes the logarithm of its expected draws off a drawn class's score, so that the sum estimates that over all"},
};

static void gradient(void *state, const xsm_score_block *block)
{
    const sampled_softmax_state *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsmi_sampled_example e = xsmi_sampled_at(block, i);
        double most = -INFINITY, sum = 0, target = 0;
        for (uint32_t j = 0; j < e.length; j++) {
            double shifted = (double)e.z[j] - (s->log_q && j >= e.labels ? e.log_expected[j] : 0);
            most = shifted > most ? shifted : most;
            target += j < e.labels ? (double)e.z[j] : 0;
        }
        for (uint32_t j = 0; j < e.length; j++) {
            double times = j < e.labels ? 1 : e.draws[j];
            sum += times * exp((double)e.z[j] - (s->log_q && j >= e.labels ? e.log_expected[j] : 0) - most);
        }
        for (uint32_t j = 0; j < e.length; j++) {
            double times = j < e.labels ? 1 : e.draws[j];
            double share =
                times * exp((double)e.z[j] - (s->log_q && j >= e.labels ? e.log_expected[j] : 0) - most) / sum;
            e.g[j] = (float)(share - (j < e.labels ? 1 / (double)e.labels : 0));
        }
        block->losses[i] = most + log(sum) - target / e.labels;
    }
}

const xsm_estimator_ops xsmi_sampled_softmax_ops = {
    XSMI_ESTIMATOR_OF(sampled_softmax_state),
    .flags = XSM_ESTIMATOR_SAMPLER | XSM_ESTIMATOR_MULTI_LABEL,
    .name = "sampled-softmax",
    .summary = "softmax over the labels and sampled classes (Jean et al. 2015)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .plan = xsmi_plan_others,
    .gradient = gradient,
};
