/*
 * A sparse batch by feature: for each feature that it has, the examples with it, in their order.
 */
#ifndef XSMI_FEATURE_LIST_H
#define XSMI_FEATURE_LIST_H

#include "estimator/estimator.h"

/* Starts as zeros. The examples that have feature found[f] are examples[starts[f]] to examples[starts[f + 1]], and
 * values[] holds what they have of it. */
typedef struct xsmi_feature_list {
    uint32_t *found; /* [founds] mostly rising, which suits memory; each once */
    size_t *starts;  /* [founds + 1] */
    size_t founds;
    uint32_t *examples; /* [entry_capacity] */
    float *values;      /* [entry_capacity] */
    uint32_t *place;    /* [feature_capacity] of a feature in `found`, XSMI_NO_PLACE where the batch has it not */
    size_t entry_capacity, feature_capacity;
} xsmi_feature_list;
#define XSMI_NO_PLACE UINT32_MAX

/* Fills the list with the features, below `features`, of a batch; what it held before is forgotten. */
xsm_status xsmi_feature_list_fill(xsm_context *ctx, xsmi_feature_list *list, size_t features, const xsm_batch *batch,
                                  xsm_error *err);
/* Releases its memory and makes it zeros. */
void xsmi_feature_list_free(xsm_context *ctx, xsmi_feature_list *list);

/* Adds up the part of a gradient of the f-th feature found: sum_i value_i of[example_i*stride + c], c < count, in
 * `sums`, zeros before. With one example nothing is summed. Returns where the sum is, to be taken times *factor. */
const float *xsmi_feature_list_sum(const xsmi_feature_list *list, size_t f, const xsmi_kernels *kernels,
                                   const float *of, size_t stride, size_t count, float *sums, float *factor);

#endif
