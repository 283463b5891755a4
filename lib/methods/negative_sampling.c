/*
 * Negative sampling with any sampler (Bamler and Mandt, Extreme classification via adversarial softmax approximation,
 * 2020, eq. 2 and 6): the label against m classes drawn from p_n(.|x), with a logistic for each,
 *     loss = softplus(-z_y) + lambda (z_y + log p_n(y|x))^2
 *            + 1/m sum_j [softplus(z_j) + lambda (z_j + log p_n(j|x))^2],
 *     g_y = -sigma(-z_y) + 2 lambda (z_y + log p_n(y|x)),
 *     g_j = 1/m [sigma(z_j) + 2 lambda (z_j + log p_n(j|x))] for each draw j.
 * A draw that equals the label counts; without it the optimum would differ. At the optimum z_k = log p(k|x) - log
 * p_n(k|x) + const (Theorem 1), so the scores of the softmax are z_k + log p_n(k|x), eq. 5.
 */
#include "methods/sampled.h"
#include "math/omega.h"

#include <math.h>

typedef struct negative_state {
    xsmi_draws draws; /* first: the shared functions read the state as this type */
    double lambda;
} negative_state;

static const xsm_option options[] = {
    XSMI_DRAWS_OPTION,
    XSMI_OPTION_DOUBLE("lambda", negative_state, lambda, "0", 0, 1e30,
                       "strength of the penalty on squared softmax scores, those with log p_n(k|x) added (eq. 6)"),
};

static void plan(const void *state, xsm_draw_plan *p)
{
    xsmi_plan_any(state, p);
    p->label_probabilities = ((const negative_state *)state)->lambda > 0;
}

static void gradient(void *state, const xsm_score_block *block)
{
    const negative_state *s = state;
    const double m = (double)s->draws.negatives, log_m = log(m);
    for (uint64_t i = 0; i < block->count; i++) {
        const xsmi_sampled_example e = xsmi_sampled_at(block, i);
        double loss = 0;
        for (uint32_t j = 0; j < e.length; j++) {
            double z = (double)e.z[j];
            double share = e.draws[j] / m, c = 0;
            if (share > 0) {
                c = share * xsmi_sigmoid(z);
                loss += share * xsmi_softplus(z);
            }
            if (j == 0) {
                c -= xsmi_sigmoid(-z);
                loss += xsmi_softplus(-z);
            }
            if (s->lambda > 0) {
                double softmax_score = z + e.log_expected[j] - log_m, weight = share + (j == 0);
                c += 2 * s->lambda * weight * softmax_score;
                loss += s->lambda * weight * softmax_score * softmax_score;
            }
            e.g[j] = (float)c;
        }
        block->losses[i] = loss;
    }
}

const xsm_estimator_ops xsmi_negative_sampling_ops = {
    XSMI_ESTIMATOR_OF(negative_state),
    .kind = XSM_ESTIMATOR_SAMPLED,
    .flags = XSM_ESTIMATOR_CORRECTED,
    .name = "negative-sampling",
    .summary = "logistics of the label against sampled classes, any sampler (Bamler and Mandt 2020)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .plan = plan,
    .gradient = gradient,
};
