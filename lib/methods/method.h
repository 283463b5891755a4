/*
 * What the built-in estimators share: the list of them, the members that every table has, and lists of negatives.
 */
#ifndef XSMI_METHOD_H
#define XSMI_METHOD_H

#include "base/base.h"
#include "base/option.h"
#include "gradient/gradient.h"
#include "sampler/sampler.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax/ext/experimental.h>

/* Negatives to draw, and the lists to fill. */
typedef struct xsmi_negative_lists {
    uint64_t seed;
    uint32_t classes, negatives; /* of each list */
    uint64_t width;              /* entries a row */
    const xsm_example *examples; /* [count] */
    uint64_t count;
    uint32_t *list;    /* [count][width] */
    uint32_t *lengths; /* [count] */
} xsmi_negative_lists;

/* Fills a negative-sampling estimator's lists: the label, then `negatives` other classes without replacement. The width
 * is 1 + negatives. */
void xsmi_select_others(const xsmi_kernels *kernels, const xsmi_negative_lists *lists);
/* The same for rows with several labels: first the labels, in rising order, then `negatives` other classes, or all of
 * them if there are fewer. */
void xsmi_select_negatives(const xsmi_kernels *kernels, const xsmi_negative_lists *lists);
extern const char *const xsmi_negatives_words[]; /* "all", for the option's table; its value is -1 */
/* Sets *negatives for an option's value: 0 = 5, or K-1 if that is less; below 0 = K-1. Refuses more than K-1. */
xsm_status xsmi_negatives(const char *estimator, int64_t option, uint32_t classes, uint32_t *negatives, xsm_error *err);

/* Return the weights of an example's labels, or NULL if each is 1; that of label j; and their sum. */
static inline const float *xsmi_label_weights(const float *const *label_weights, uint64_t i)
{
    return label_weights ? label_weights[i] : NULL;
}
static inline double xsmi_label_weight(const float *weights, uint64_t j)
{
    return weights ? (double)weights[j] : 1;
}
static inline double xsmi_label_weight_sum(const float *weights, uint64_t count)
{
    double sum = 0;
    for (uint64_t j = 0; weights && j < count; j++) {
        sum += (double)weights[j];
    }
    return weights ? sum : (double)count;
}

/* The first members of every built-in table, for a state of that type; and the name of an array of options. */
#define XSMI_ESTIMATOR_OF(type)                                                                                        \
    .size = sizeof(xsm_estimator_ops), .abi = XSM_EXT_ABI_VERSION, .state_size = sizeof(type)
#define XSMI_ESTIMATOR_OPTIONS(array) .options = (array), .option_count = sizeof(array) / sizeof *(array)

/* The state of estimators that need only kernels, and the bind() that sets them. */
typedef struct xsmi_kernels_state {
    const xsmi_kernels *kernels;
} xsmi_kernels_state;
xsm_status xsmi_bind_kernels(void *state, const xsm_problem *problem, xsm_error *err);

/* One-vs-all on some of the classes, for a state that begins with an xsmi_kernels_state (one_vs_all.c). */
extern const xsm_class_sums xsmi_one_vs_all_sums;

/* The built-in estimators: a new one is its file and a line here. */
/* clang-format off */
#define XSMI_ESTIMATORS(X) \
    X(xsmi_softmax_ops) \
    X(xsmi_bouchard_ops) \
    X(xsmi_margin_ops) \
    X(xsmi_mips_ops) \
    X(xsmi_decomp_mips_ops) \
    X(xsmi_one_vs_all_ops) \
    X(xsmi_one_vs_all_sampled_ops) \
    X(xsmi_ove_ops) \
    X(xsmi_vanilla_ops) \
    X(xsmi_raman_ops) \
    X(xsmi_umax_ops) \
    X(xsmi_implicit_ops) \
    X(xsmi_nce_ops) \
    X(xsmi_importance_ops) \
    X(xsmi_sampled_softmax_ops) \
    X(xsmi_negative_sampling_ops) \
    X(xsmi_ove_sampled_ops) \
    X(xsmi_ove_searched_ops) \
    X(xsmi_hierarchical_ops) \
    X(xsmi_augment_reduce_ops)
/* clang-format on */
#define XSMI_DECLARE_ESTIMATOR(table) extern const xsm_estimator_ops table;
XSMI_ESTIMATORS(XSMI_DECLARE_ESTIMATOR)

#endif
