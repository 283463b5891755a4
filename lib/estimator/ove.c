/*
 * One-vs-each (Titsias, One-vs-Each Approximation to Softmax for Scalable Estimation of Probabilities, 2016, eq. 4 and
 * 15): the bound log p(y|x) >= sum_{m != y} log sigma(z_y - z_m), its sum estimated from m classes drawn uniformly
 * without replacement from the K-1 others, scaled by (K-1)/m. Unbiased for the bound's gradient:
 * g_k = (K-1)/m sigma(z_k - z_y), g_y = -sum_k g_k.
 */
#include "estimator/estimator.h"
#include "math/omega.h"

typedef struct ove_state {
    int64_t negatives_option;
    uint64_t seed;
    double weight; /* (K-1)/m */
    uint32_t classes, negatives;
} ove_state;

static const xsm_option options[] = {
    {"negatives", XSM_OPTION_INT, offsetof(ove_state, negatives_option), "0", 0, XSM_CLASSES_MAX, NULL,
     "other classes that a step looks at, m; 0 = 5, or all the others if there are fewer"},
};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    ove_state *s = state;
    XSMI_TRY(xsmi_negatives("ove", s->negatives_option, problem->classes, &s->negatives, err));
    s->seed = problem->seed;
    s->classes = problem->classes;
    s->weight = s->negatives ? (double)(s->classes - 1) / s->negatives : 0;
    return XSM_OK;
}

static uint64_t width(const void *state)
{
    return 1 + (uint64_t)((const ove_state *)state)->negatives;
}

static void select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes, uint32_t *lengths)
{
    const ove_state *s = state;
    xsmi_select_others(s->seed, s->classes, s->negatives, examples, count, classes, lengths);
}

static void gradient(void *state, const xsm_score_block *block)
{
    const ove_state *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        double sum = 0, loss = 0;
        for (uint32_t j = 1; j < block->lengths[i]; j++) {
            double difference = (double)z[j] - (double)z[0];
            double c = s->weight * xsmi_sigmoid(difference);
            loss += s->weight * xsmi_softplus(difference);
            sum += c;
            g[j] = (float)c;
        }
        g[0] = (float)-sum;
        block->losses[i] = loss;
    }
}

const xsm_estimator_ops xsmi_ove_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_ESTIMATOR_ABI,
    .name = "ove",
    .summary = "one-vs-each bound on sampled classes (Titsias 2016)",
    .state_size = sizeof(ove_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_size = sizeof options[0],
    .bind = bind,
    .width = width,
    .select = select,
    .gradient = gradient,
};
