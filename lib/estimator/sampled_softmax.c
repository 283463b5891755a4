/*
 * Sampled softmax (Jean et al., On using very large target vocabulary for neural machine translation, 2015): the
 * softmax over the labels P and the classes drawn from q. A drawn class stands for those that were not: with c_j draws
 * of class j, the expected number of its draws taken off its score, Z = sum_{k in P} e^(z_k) + sum_{j not in P} c_j
 * e^(z_j - log(m q_j)), has the full sum as its mean (option log-q; without it Z is that of the classes drawn alone,
 * c_j e^(z_j)). loss = log Z - mean over P of z_k,   g_k = share of k in Z - [k in P]/|P|. A label that is drawn is no
 * negative. Uniform draws are made without replacement from the other classes, with (K-|P|)/m in the place of 1/(m q);
 * all the others drawn, it is the exact softmax.
 */
#include "estimator/estimator.h"

#include <math.h>

typedef struct sampled_softmax_state {
    int64_t negatives;
    int32_t log_q;
} sampled_softmax_state;

static const xsm_option options[] = {
    XSMI_DRAWS_OPTION(sampled_softmax_state, negatives),
    {"log-q", XSM_OPTION_BOOL, offsetof(sampled_softmax_state, log_q), "yes", 0, 1, NULL,
     "takes the logarithm of its expected draws off a drawn class's score, so that the sum estimates that over all"},
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
    p->count = (uint32_t)((const sampled_softmax_state *)state)->negatives;
    p->exclude_labels = 1;
}

static void gradient(void *state, const xsm_score_block *block)
{
    const sampled_softmax_state *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + i * block->width;
        const double *log_expected = block->log_expected + i * block->width;
        const uint32_t *draws = block->draws + i * block->width;
        float *g = block->coefficients + i * block->width;
        uint32_t length = block->lengths[i], labels = (uint32_t)block->examples[i].label_count;
        double most = -INFINITY, sum = 0, target = 0;
        for (uint32_t j = 0; j < length; j++) {
            double shifted = (double)z[j] - (s->log_q && j >= labels ? log_expected[j] : 0);
            most = shifted > most ? shifted : most;
            target += j < labels ? (double)z[j] : 0;
        }
        for (uint32_t j = 0; j < length; j++) {
            double times = j < labels ? 1 : draws[j];
            sum += times * exp((double)z[j] - (s->log_q && j >= labels ? log_expected[j] : 0) - most);
        }
        for (uint32_t j = 0; j < length; j++) {
            double times = j < labels ? 1 : draws[j];
            double share = times * exp((double)z[j] - (s->log_q && j >= labels ? log_expected[j] : 0) - most) / sum;
            g[j] = (float)(share - (j < labels ? 1 / (double)labels : 0));
        }
        block->losses[i] = most + log(sum) - target / labels;
    }
}

const xsm_estimator_ops xsmi_sampled_softmax_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_ESTIMATOR_ABI,
    .flags = XSM_ESTIMATOR_SAMPLER | XSM_ESTIMATOR_MULTI_LABEL,
    .name = "sampled-softmax",
    .summary = "softmax over the labels and sampled classes (Jean et al. 2015)",
    .state_size = sizeof(sampled_softmax_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_size = sizeof options[0],
    .bind = bind,
    .plan = plan,
    .gradient = gradient,
};
