/*
 * One-vs-all (one_vs_all.c) that estimates the sum over the classes that are not labels from m of them, drawn uniformly
 * without replacement and weighted by (K - |P|)/m. Unbiased for the loss and its gradient:
 *     loss = sum over P of log(1 + e^(-z_k)) + (K-|P|)/m sum over S of log(1 + e^(z_k)),
 *     g_k = -sigma(-z_k) for k in P,   g_k = (K-|P|)/m sigma(z_k) for k in S.
 * With all classes it equals one-vs-all.
 */
#include "methods/method.h"
#include "base/order.h"
#include "math/omega.h"

typedef struct sampled_state {
    xsmi_kernels_state all; /* of one-vs-all; first, as that estimator's functions read the state as this type */
    int64_t negatives_option;
    uint64_t seed, width;
    uint32_t classes, negatives;
} sampled_state;

static const xsm_option options[] = {
    XSMI_OPTION_INT_OR("negatives", sampled_state, negatives_option, xsmi_negatives_words, "0", 0, XSM_CLASSES_MAX,
                       "classes beside the labels that a step scores, m; all makes the estimator exact; 0 = 5, or "
                       "all if there are fewer"),
};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    sampled_state *s = state;
    XSMI_TRY(xsmi_negatives("one-vs-all-sampled", s->negatives_option, problem->classes, &s->negatives, err));
    XSMI_TRY(xsmi_bind_kernels(&s->all, problem, err));
    s->seed = problem->seed;
    s->classes = problem->classes;
    s->width = problem->most_labels + s->negatives;
    s->width = XSMI_MIN(s->width, s->classes);
    return XSM_OK;
}

static uint64_t width(const void *state)
{
    return ((const sampled_state *)state)->width;
}

static void select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes, uint32_t *lengths)
{
    const sampled_state *s = state;
    xsmi_select_negatives(s->all.kernels, &(xsmi_negative_lists){s->seed, s->classes, s->negatives, s->width, examples,
                                                                 count, classes, lengths});
}

static int32_t exact(const void *state)
{
    const sampled_state *s = state;
    return s->negatives == s->classes - 1;
}

/* Writes the weights of an example's labels to the first entries of its coefficients, in the order of its list, which
 * is that of the classes. O(P log P). */
static void place_weights(const xsm_example *example, const float *weights, const uint32_t *classes, float *g)
{
    for (uint64_t j = 0; j < example->label_count; j++) {
        uint64_t place = 0;
        for (uint64_t left = example->label_count; left > 1;) {
            const uint64_t half = left / 2;
            place += classes[place + half] <= example->labels[j] ? half : 0;
            left -= half;
        }
        g[place] = weights[j];
    }
}

static void gradient(void *state, const xsm_score_block *block)
{
    const sampled_state *s = state;
    if (exact(s)) {
        xsmi_one_vs_all_ops.gradient(state, block);
        return;
    }
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        const float *weights = xsmi_label_weights(block->label_weights, i);
        uint32_t own = (uint32_t)block->examples[i].label_count, length = block->lengths[i];
        double weight = length > own ? (double)(s->classes - own) / (length - own) : 0, loss = 0;
        if (weights) {
            place_weights(&block->examples[i], weights, block->classes + i * block->width, g);
        }
        for (uint32_t j = 0; j < own; j++) {
            const double times = weights ? (double)g[j] : 1;
            loss += times * xsmi_softplus(-(double)z[j]);
            g[j] = (float)(times * -xsmi_sigmoid(-(double)z[j]));
        }
        for (uint32_t j = own; j < length; j++) {
            loss += weight * xsmi_softplus((double)z[j]);
            g[j] = (float)(weight * xsmi_sigmoid((double)z[j]));
        }
        block->losses[i] = loss;
    }
}

const xsm_estimator_ops xsmi_one_vs_all_sampled_ops = {
    XSMI_ESTIMATOR_OF(sampled_state),
    .flags =
        XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_OTHER_LOSS | XSM_ESTIMATOR_LABEL_WEIGHTED | XSM_ESTIMATOR_SIGMOID,
    .name = "one-vs-all-sampled",
    .summary = "logistic regression of each class, the others sampled; unbiased",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    .width = width,
    .select = select,
    .gradient = gradient,
    .exact = exact,
    .class_sums = &xsmi_one_vs_all_sums,
};
