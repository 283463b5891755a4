/*
 * A sparse batch by feature: for each feature of the batch, the examples that have it, in their order.
 */
#ifndef XSMI_FEATURE_LIST_H
#define XSMI_FEATURE_LIST_H

#include "data/batch.h"

/* Starts as zeros. The examples that have feature found[f] are examples[starts[f]] to examples[starts[f + 1]], and
 * values[] has their values of the feature. */
typedef struct xsmi_feature_list {
    uint32_t *found; /* [founds] mostly rising, for sequential memory access; each once */
    size_t *starts;  /* [founds + 1] */
    size_t founds;
    uint32_t *examples; /* [entry_capacity] */
    float *values;      /* [entry_capacity] */
    uint32_t *position; /* [feature_capacity] position of a feature in `found`, XSMI_NO_POSITION if not in the batch */
    size_t entry_capacity, feature_capacity;
} xsmi_feature_list;
#define XSMI_NO_POSITION UINT32_MAX

/* Replaces the list's contents by the features of a batch, which are below `features`. */
xsm_status xsmi_feature_list_fill(xsm_context *ctx, xsmi_feature_list *list, size_t features, const xsm_batch *batch,
                                  xsm_error *err);
/* Releases the list's memory and sets it to zeros. */
void xsmi_feature_list_free(xsm_context *ctx, xsmi_feature_list *list);

/* A row of numbers for each example. */
typedef struct xsmi_example_rows {
    const xsmi_kernels *kernels;
    const float *rows; /* [examples][stride] */
    size_t stride, count;
} xsmi_example_rows;

/* Sums the gradient of the f-th feature found, sum_i value_i rows[example_i*stride + c] for c < count, in `sums`, which
 * are zeros before. With one example nothing is summed. Returns a pointer to the sum, which the caller must multiply by
 * *factor. */
const float *xsmi_feature_list_sum(const xsmi_feature_list *list, size_t f, const xsmi_example_rows *of, float *sums,
                                   float *factor);

#endif
