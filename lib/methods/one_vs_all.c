/*
 * One-vs-all: a binary logistic regression for each class, with any number of labels a row.
 *     loss = sum over k of log(1 + e^(z_k)) - sum over P of z_k,   g_k = sigma(z_k) - [k in P].
 * A label of weight v has the term v log(1 + e^(-z_k)).
 * The logarithm is computed of products of the factors 1 + e^-|z_k|, each between 1 and 2: one logarithm for a few
 * hundred classes. The loss is summed by class runs (XSMI_RUN_CLASSES).
 */
#include "methods/method.h"
#include "base/order.h"
#include "math/omega.h"

#include <math.h>

/* Classes whose factors share one logarithm: their product is below 2^512. They divide a run. */
#define FACTORS 512
/* Partial sums and products, which a compiler can keep in vectors. */
#define PARTS 8

/* Sets g[k] to sigma(z[k]) for n <= FACTORS classes; g may be z. Returns the sum of log(1 + e^z). */
static double logistic(const xsmi_kernels *kernels, const float *z, size_t n, float *g)
{
    float far[FACTORS], part[FACTORS];
    double sums[PARTS] = {0}, factors[PARTS] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t k = 0; k < n; k++) {
        far[k] = -fabsf(z[k]);
    }
    kernels->row_softmax(far, n, 0, 1, part); /* e^-|z|; the sums are not used */
    size_t whole = n / PARTS * PARTS;
    for (size_t k = 0; k < whole; k += PARTS) {
        for (size_t l = 0; l < PARTS; l++) {
            sums[l] += (double)XSMI_MAX(z[k + l], 0);
            factors[l] *= 1 + (double)part[k + l];
        }
    }
    for (size_t k = whole; k < n; k++) {
        sums[k - whole] += (double)XSMI_MAX(z[k], 0);
        factors[k - whole] *= 1 + (double)part[k];
    }
    for (size_t k = 0; k < n; k++) {
        float likely = 1 / (1 + part[k]);
        g[k] = z[k] < 0 ? part[k] * likely : likely;
    }
    double sum = 0, factor = 1;
    for (size_t l = 0; l < PARTS; l++) {
        sum += sums[l];
        factor *= factors[l];
    }
    return sum + log(factor);
}

/* Adds the losses of any number of classes. */
static double all_logistic(const xsmi_kernels *kernels, const float *z, size_t count, float *g)
{
    double loss = 0;
    for (size_t run = 0; run < count; run += XSMI_RUN_CLASSES) {
        const size_t end = XSMI_MIN(count, run + XSMI_RUN_CLASSES);
        double sum = 0;
        for (size_t k = run; k < end; k += FACTORS) {
            sum += logistic(kernels, z + k, XSMI_MIN(end - k, FACTORS), g + k);
        }
        loss += sum;
    }
    return loss;
}

/* Adds to the loss what a label's term is above that of another class. */
static void add_label(double score, double weight, double *loss)
{
    *loss -= weight * score;
    *loss += weight != 1 ? (weight - 1) * xsmi_softplus(score) : 0;
}

/* Turns sigma(z) of a label into its coefficient. */
static void finish_label(double weight, float *own)
{
    *own = (float)weight * (*own - 1);
}

static void gradient(void *state, const xsm_score_block *block)
{
    const xsmi_kernels *kernels = ((xsmi_kernels_state *)state)->kernels;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsm_example *example = &block->examples[i];
        const float *weights = xsmi_label_weights(block->label_weights, i);
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        double loss = 0;
        for (uint64_t j = 0; j < example->label_count; j++) {
            /* Read before g is written, which may be the same memory. */
            add_label((double)z[example->labels[j]], xsmi_label_weight(weights, j), &loss);
        }
        loss += all_logistic(kernels, z, (size_t)block->width, g);
        for (uint64_t j = 0; j < example->label_count; j++) {
            finish_label(xsmi_label_weight(weights, j), &g[example->labels[j]]);
        }
        block->losses[i] = loss;
    }
}

/* -- some of the classes ------------------------------------------------------------------------------------------- */

/* Puts sigma(z) in place of the scores. */
static void part_sums(const void *state, const xsm_class_block *block)
{
    const xsmi_kernels *kernels = ((const xsmi_kernels_state *)state)->kernels;
    double *sum = block->sums;
    for (uint64_t i = 0; i < block->count; i++) {
        float *g = block->coefficients + i * block->width;
        for (uint64_t run = 0; run < block->width; run += XSM_CLASS_RUN) {
            *sum++ = all_logistic(kernels, g + run, (size_t)XSMI_MIN(block->width - run, XSM_CLASS_RUN), g + run);
        }
    }
}

static void part_gradient(const void *state, const xsm_class_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        const xsm_example *example = &block->examples[i];
        const float *weights = xsmi_label_weights(block->label_weights, i);
        double loss = 0;
        for (uint64_t j = 0; j < example->label_count; j++) {
            const uint32_t at = example->labels[j] - block->first;
            add_label((double)block->label_scores[i][j], xsmi_label_weight(weights, j), &loss);
            if (at < block->width) {
                finish_label(xsmi_label_weight(weights, j), &block->coefficients[i * block->width + at]);
            }
        }
        block->losses[i] = loss + block->sums[i];
    }
}

const xsm_class_sums xsmi_one_vs_all_sums = {
    .size = sizeof(xsm_class_sums),
    .count = 1,
    .sums = part_sums,
    .gradient = part_gradient,
};

const xsm_estimator_ops xsmi_one_vs_all_ops = {
    XSMI_ESTIMATOR_OF(xsmi_kernels_state),
    .kind = XSM_ESTIMATOR_EXACT,
    .flags =
        XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_OTHER_LOSS | XSM_ESTIMATOR_LABEL_WEIGHTED | XSM_ESTIMATOR_SIGMOID,
    .name = "one-vs-all",
    .summary = "exact logistic regression of each class against all others",
    .bind = xsmi_bind_kernels,
    .gradient = gradient,
    .class_sums = &xsmi_one_vs_all_sums,
};
