/*
 * A sparse batch by feature: for each feature that it has, the examples with it, in their order.
 */
#ifndef XSMI_FEATURE_LIST_H
#define XSMI_FEATURE_LIST_H

#include "estimator/estimator.h"

/* One feature of one example of a batch; `next` is the next example that has the feature, NONE for the last. */
typedef struct xsmi_feature_entry {
    uint32_t example, next;
    float value;
} xsmi_feature_entry;
#define XSMI_NO_ENTRY UINT32_MAX

/* Starts as zeros. */
typedef struct xsmi_feature_list {
    xsmi_feature_entry *entries;
    size_t entry_capacity;
    uint32_t *head;  /* [head_capacity] the first entry of each feature, XSMI_NO_ENTRY where there is none */
    uint32_t *found; /* [head_capacity] features that have entries: `founds` of them */
    size_t head_capacity, founds;
} xsmi_feature_list;

/* Fills the list with the features, below `features`, of a batch; what it held before is forgotten. */
xsm_status xsmi_feature_list_fill(xsm_context *ctx, xsmi_feature_list *list, size_t features, const xsm_batch *batch,
                                  xsm_error *err);
/* Releases its memory and makes it zeros. */
void xsmi_feature_list_free(xsm_context *ctx, xsmi_feature_list *list);

/* Adds up one feature's part of a gradient: sum_i value_i of[example_i][from..from+count) in `sums`, zeros before. With
 * one example nothing is summed. Returns where the sum is, to be taken times *factor. */
const float *xsmi_feature_list_sum(const xsmi_feature_list *list, uint32_t feature, const xsmi_kernels *kernels,
                                   const float *of, size_t stride, size_t count, float *sums, float *factor);

#endif
