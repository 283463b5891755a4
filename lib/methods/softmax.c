/*
 * Exact softmax cross-entropy: loss log sum_j e^(z_j) - z_y, gradient p_k - [k = y]. For several labels P the loss is
 * the mean over P and the gradient p_k - [k in P]/|P|; labels of weights v have the terms v_k (log sum_j e^(z_j) -
 * z_k)/|P|.
 */
#include "methods/method.h"

#include "base/order.h"
#include "math/log_sum.h"

#include <math.h>

/* The scores of a class run. */
static xsmi_log_sum sum_run(const xsmi_kernels *k, const float *z, uint64_t classes)
{
    const float max = k->row_max(z, classes);
    return (xsmi_log_sum){max, k->row_sum_exp(z, classes, max == -INFINITY ? 0 : max)};
}

/* Returns the loss. `share` is 1/|P|; `all` is the sum of the labels' weights times `share`; `target` is the sum of the
 * labels' scores times their weights. */
static double loss_of(const xsmi_log_sum *w, double all, double target, double share)
{
    return all * ((double)w->max + log(w->sum)) - target * share;
}

static void gradient(void *state, const xsm_score_block *block)
{
    const xsmi_kernels *k = ((xsmi_kernels_state *)state)->kernels;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsm_example *example = &block->examples[i];
        const float *weights = xsmi_label_weights(block->label_weights, i);
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        xsmi_log_sum w = XSMI_LOG_SUM_INIT;
        for (uint64_t run = 0; run < block->width; run += XSM_CLASS_RUN) {
            const xsmi_log_sum part = sum_run(k, z + run, XSMI_MIN(block->width - run, XSM_CLASS_RUN));
            xsmi_log_sum_join(&w, &part);
        }
        double share = 1 / (double)example->label_count,
               all = xsmi_label_weight_sum(weights, example->label_count) * share;
        double target = 0;
        for (uint64_t j = 0; j < example->label_count; j++) {
            target += xsmi_label_weight(weights, j) *
                      (double)z[example->labels[j]]; /* before writing g, which may be the same memory */
        }
        block->losses[i] = loss_of(&w, all, target, share);
        k->row_softmax(z, block->width, w.max, (float)(all / w.sum), g);
        for (uint64_t j = 0; j < example->label_count; j++) {
            g[example->labels[j]] -= (float)(xsmi_label_weight(weights, j) * share);
        }
    }
}

/* -- some of the classes ------------------------------------------------------------------------------------------- */

static void part_most(const void *state, const xsm_class_block *block)
{
    const xsmi_kernels *k = ((const xsmi_kernels_state *)state)->kernels;
    for (uint64_t i = 0; i < block->count; i++) {
        block->most[i] = k->row_max(block->coefficients + i * block->width, block->width);
    }
}

static void part_sums(const void *state, const xsm_class_block *block)
{
    const xsmi_kernels *k = ((const xsmi_kernels_state *)state)->kernels;
    for (uint64_t i = 0; i < block->count; i++) {
        block->sums[i] = k->row_sum_exp(block->coefficients + i * block->width, block->width,
                                        block->most[i] == -INFINITY ? 0 : block->most[i]);
    }
}

static void part_gradient(const void *state, const xsm_class_block *block)
{
    const xsmi_kernels *k = ((const xsmi_kernels_state *)state)->kernels;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsm_example *example = &block->examples[i];
        const float *weights = xsmi_label_weights(block->label_weights, i);
        float *g = block->coefficients + i * block->width;
        const xsmi_log_sum w = {block->most[i], block->sums[i]};
        double share = 1 / (double)example->label_count,
               all = xsmi_label_weight_sum(weights, example->label_count) * share;
        double target = 0;
        for (uint64_t j = 0; j < example->label_count; j++) {
            target += xsmi_label_weight(weights, j) * (double)block->label_scores[i][j];
        }
        block->losses[i] = loss_of(&w, all, target, share);
        k->row_softmax(g, block->width, w.max, (float)(all / w.sum), g);
        for (uint64_t j = 0; j < example->label_count; j++) {
            const uint32_t at = example->labels[j] - block->first;
            if (at < block->width) {
                g[at] -= (float)(xsmi_label_weight(weights, j) * share);
            }
        }
    }
}

static const xsm_class_sums class_sums = {
    .size = sizeof class_sums,
    .count = 1,
    .single = 2,
    .most = part_most,
    .sums = part_sums,
    .gradient = part_gradient,
};

const xsm_estimator_ops xsmi_softmax_ops = {
    XSMI_ESTIMATOR_OF(xsmi_kernels_state),
    .kind = XSM_ESTIMATOR_EXACT,
    .flags = XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_LABEL_WEIGHTED,
    .name = "softmax",
    .summary = "exact cross-entropy over all classes",
    .bind = xsmi_bind_kernels,
    .gradient = gradient,
    .class_sums = &class_sums,
};
