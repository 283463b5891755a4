/* SPDX-License-Identifier: MIT */
/**
 * @file batch.h
 * @brief The rows that one call works on.
 */
#ifndef XSOFTMAX_BATCH_H
#define XSOFTMAX_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>
#include <xsoftmax/dtype.h>

/** @ingroup dataset
 *  @{ */

/** Some rows: a small view, passed by address. Make it by xsm_batch_range() and its like, or start with
 *  #XSM_BATCH_INIT. Their features come from the dataset or from an array of the host, such as the output of the host's
 *  own network. */
typedef struct xsm_batch {
    size_t size;                /**< sizeof(xsm_batch). */
    const xsm_dataset *dataset; /**< Borrowed. With `values`, only its labels are read; NULL where no labels are needed
                                     (scoring, prediction). */
    const uint64_t *rows;       /**< [count] row numbers, borrowed; NULL = rows first, first+1, ... */
    uint64_t first;             /**< First row when `rows` is NULL. */
    size_t count;               /**< n >= 1. */
    const float *values;        /**< [n][features] features of the rows, finite, borrowed; NULL = the dataset's
                                     features, or with `offsets` none. */
    size_t stride;              /**< With `values`: floats from one row to the next, at least `features`. */
    uint32_t features;          /**< With `values`: features of a row, the model's D. */
    int32_t dtype;              /**< With `values`: their type, an XSM_DTYPE_* value; only #XSM_DTYPE_FLOAT32, which is
                                     0, is accepted. */
    const uint64_t *offsets;    /**< For sparse rows of the host: [n+1] row i has values[offsets[i]..offsets[i+1]);
                                     `stride` is ignored. NULL = dense rows. */
    const uint32_t *index;      /**< With `offsets`: the feature of each value, strictly increasing within a row. Where
                                     all rows are empty, `values` and `index` may be NULL. */
    /** With `values`, for xsm_estimator_bind_stream(), all three borrowed: [n] the class of each row, or with
     *  `label_offsets` [n+1] the classes of row i at labels[label_offsets[i]..label_offsets[i+1]). */
    const uint32_t *labels;
    const uint64_t *label_offsets; /**< See `labels`; NULL = one label a row. */
    const uint64_t *ids;           /**< [n] the host's number of each row, or #XSM_NO_ID; NULL = no row has a number. */
    const float *weights;          /**< [n] weight of each row, finite and at least 0, borrowed: its loss is multiplied
                                        by it. NULL = the dataset's weights, or 1 each. */
    const float *label_weights;    /**< With `labels`: the weight of each, as in xsm_labels. */
} xsm_batch;

/** Starting value of an #xsm_batch: no rows. */
#define XSM_BATCH_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(xsm_batch), NULL, NULL, 0, 0, NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL                   \
    }

/** Id of a row that does not occur again, or for which that is unknown. */
#define XSM_NO_ID UINT64_MAX

/** The rows [first, first+count) of a dataset. Functions that make a batch check nothing. Functions that take a batch
 *  return #XSM_ERROR_ARGUMENT for a batch without rows or without a dataset, #XSM_ERROR_RANGE for a row that does not
 *  exist or a value that is not finite, #XSM_ERROR_SHAPE for rows with the wrong number of features, and
 *  #XSM_ERROR_UNSUPPORTED for values that are not #XSM_DTYPE_FLOAT32. O(1). */
static inline xsm_batch xsm_batch_range(const xsm_dataset *dataset, uint64_t first, size_t count)
{
    xsm_batch batch = XSM_BATCH_INIT;
    batch.dataset = dataset;
    batch.first = first;
    batch.count = count;
    return batch;
}

/** The rows rows[0..count) of a dataset. The array must stay valid while the batch is used. */
static inline xsm_batch xsm_batch_rows(const xsm_dataset *dataset, const uint64_t *rows, size_t count)
{
    xsm_batch batch = xsm_batch_range(dataset, 0, count);
    batch.rows = rows;
    return batch;
}

/** Rows whose features are the host's own float[count][features], with `stride` floats from one row to the next. The
 *  array must stay valid while the batch is used. For training, also set `dataset`, and `rows` or `first`: they name
 *  the dataset rows whose labels these rows have. */
static inline xsm_batch xsm_batch_values(const float *values, size_t count, uint32_t features, size_t stride)
{
    xsm_batch batch = xsm_batch_range(NULL, 0, count);
    batch.values = values;
    batch.stride = stride;
    batch.features = features;
    return batch;
}

/** As xsm_batch_values(), for sparse rows (CSR): row i has the features index[offsets[i]..offsets[i+1]) and the
 *  `values` at the same positions. */
static inline xsm_batch xsm_batch_sparse_values(const uint64_t *offsets, const uint32_t *index, const float *values,
                                                size_t count, uint32_t features)
{
    xsm_batch batch = xsm_batch_values(values, count, features, 0);
    batch.offsets = offsets;
    batch.index = index;
    return batch;
}

/** @} */

#endif
