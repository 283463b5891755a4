/*
 * Sampled softmax (Jean et al., On using very large target vocabulary for neural machine translation, 2015): the
 * softmax over the labels P and the classes drawn from q. A drawn class represents classes that were not drawn. With
 * c_j draws of class j, the logarithm of the expected number of draws is subtracted from its score, and
 *     Z = sum_{k in P} e^(z_k) + sum_{j not in P} c_j e^(z_j - log(m q_j))
 * has the full sum as its mean (option log-q; without it Z is the sum over the drawn classes alone, with c_j e^(z_j)).
 *     loss = log Z - mean over P of z_k,   g_k = share of k in Z - [k in P]/|P|.
 * A drawn label is not a negative. Uniform draws are made without replacement from the other classes, with (K-|P|)/m in
 * place of 1/(m q); if all others are drawn, it is the exact softmax.
 */
#include "methods/sampled.h"

#include <math.h>
#include <string.h>

typedef struct sampled_softmax_state {
    xsmi_draws draws; /* first: the shared functions read the state as this type */
    int32_t log_q;
    const xsmi_kernels *kernels;
} sampled_softmax_state;

static const xsm_option options[] = {
    XSMI_DRAWS_OPTION,
    XSMI_OPTION_BOOL(
        "log-q", sampled_softmax_state, log_q, "yes",
        "takes the logarithm of its expected draws off a drawn class's score, so that the sum estimates that over all"),
};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    (void)err;
    ((sampled_softmax_state *)state)->kernels = xsmi_context_kernels(problem->context);
    return XSM_OK;
}

static void gradient(void *state, const xsm_score_block *block)
{
    const sampled_softmax_state *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsmi_sampled_example e = xsmi_sampled_at(block, i);
        const float *weights = xsmi_label_weights(block->label_weights, i);
        const size_t drawn = e.length - e.labels;
        float *g = e.g + e.labels;
        double target = 0;
        for (uint32_t j = 0; j < e.labels; j++) {
            e.g[j] = e.z[j];
            target += xsmi_label_weight(weights, j) * (double)e.z[j];
        }
        if (s->log_q) {
            s->kernels->row_subtract(e.z + e.labels, e.log_expected + e.labels, drawn, g);
        } else {
            memcpy(g, e.z + e.labels, drawn * sizeof *g);
        }
        const float most = s->kernels->row_max(e.g, e.length);
        s->kernels->row_softmax(e.g, e.length, most, 1, e.g);
        double sum = s->kernels->row_multiply_sum(g, e.draws + e.labels, drawn);
        for (uint32_t j = 0; j < e.labels; j++) {
            sum += (double)e.g[j];
        }
        const double all = xsmi_label_weight_sum(weights, e.labels) / e.labels;
        s->kernels->scale(g, drawn, (float)(all / sum));
        for (uint32_t j = 0; j < e.labels; j++) { /* a share of nearly 1 leaves a small difference */
            e.g[j] = (float)(all * (double)e.g[j] / sum - xsmi_label_weight(weights, j) / (double)e.labels);
        }
        block->losses[i] = all * ((double)most + log(sum)) - target / e.labels;
    }
}

const xsm_estimator_ops xsmi_sampled_softmax_ops = {
    XSMI_ESTIMATOR_OF(sampled_softmax_state),
    .kind = XSM_ESTIMATOR_SAMPLED,
    .flags = XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_LABEL_WEIGHTED,
    .name = "sampled-softmax",
    .summary = "softmax over the labels and sampled classes (Jean et al. 2015)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    .plan = xsmi_plan_others,
    .gradient = gradient,
};
