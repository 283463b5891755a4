/**
 * @file batch.h
 * @brief The rows that one call works on.
 */
#ifndef XSOFTMAX_BATCH_H
#define XSOFTMAX_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>

/** @ingroup dataset
 *  @{ */

/** Some rows; a small view, passed by address. Their features are the dataset's, or an array of the host's: the output
 * of its own network, say. */
typedef struct xsm_batch {
    size_t size;                /**< sizeof(xsm_batch). */
    const xsm_dataset *dataset; /**< Borrowed. With `values` it is asked for labels alone, so NULL where none are
                                     wanted: to score and to predict. */
    const uint64_t *rows;       /**< [count] row numbers, borrowed; NULL = the rows first, first+1, ... */
    uint64_t first;             /**< First row when `rows` is NULL. */
    uint64_t count;             /**< n >= 1. */
    const float *values;        /**< [n][features] the features of the rows, finite, borrowed; NULL = the dataset's. */
    size_t stride;              /**< With `values`: floats from a row to the next, at least `features`. */
    uint32_t features;          /**< With `values`: how many a row has, the model's D. */
    uint32_t reserved;          /**< Zero. */
    const uint64_t *offsets;    /**< With `values`, for sparse rows: [n+1] row i has values[offsets[i]..offsets[i+1]);
                                     `stride` does not matter. NULL = dense rows. */
    const uint32_t *index;      /**< With `offsets`: the feature of each value, rising in a row. */
    /** With `values`, for xsm_estimator_bind_stream(), all three borrowed: [n] the class of each row, or with
     *  `label_offsets` [n+1] the classes of row i at labels[label_offsets[i]..label_offsets[i+1]). */
    const uint32_t *labels;
    const uint64_t *label_offsets; /**< See `labels`; NULL = one each. */
    const uint64_t *ids;           /**< [n] the host's number of each row, or #XSM_NO_ID; NULL = none has one. */
} xsm_batch;

/** A row that does not come again, or of which that is not known. */
#define XSM_NO_ID UINT64_MAX

/** The rows first..first+count of a dataset. Nothing is checked here, as in all functions that make a batch, but by
 *  those that take it: #XSM_ERROR_ARGUMENT for a batch without rows or without a dataset, #XSM_ERROR_RANGE for a row
 *  that is not there or a value that is not finite, #XSM_ERROR_SHAPE for rows of other than the features that are
 *  needed. O(1). */
static inline xsm_batch xsm_batch_range(const xsm_dataset *dataset, uint64_t first, uint64_t count)
{
    xsm_batch batch;
    batch.size = sizeof(batch);
    batch.dataset = dataset;
    batch.rows = NULL;
    batch.first = first;
    batch.count = count;
    batch.values = NULL;
    batch.stride = 0;
    batch.features = 0;
    batch.reserved = 0;
    batch.offsets = NULL;
    batch.index = NULL;
    batch.labels = NULL;
    batch.label_offsets = NULL;
    batch.ids = NULL;
    return batch;
}

/** The rows rows[0..count) of a dataset. The array must stay while the batch is used. */
static inline xsm_batch xsm_batch_rows(const xsm_dataset *dataset, const uint64_t *rows, uint64_t count)
{
    xsm_batch batch = xsm_batch_range(dataset, 0, count);
    batch.rows = rows;
    return batch;
}

/** Rows whose features are the host's own float[count][features], rows `stride` floats apart. The array must stay while
 *  the batch is used. For training, set `dataset` and `rows` or `first` then: whose labels these rows have. */
static inline xsm_batch xsm_batch_values(const float *values, uint64_t count, uint32_t features, size_t stride)
{
    xsm_batch batch = xsm_batch_range(NULL, 0, count);
    batch.values = values;
    batch.stride = stride;
    batch.features = features;
    return batch;
}

/** The same for sparse rows (CSR): row i has the features index[offsets[i]..offsets[i+1]) with those `values`. */
static inline xsm_batch xsm_batch_sparse_values(const uint64_t *offsets, const uint32_t *index, const float *values,
                                                uint64_t count, uint32_t features)
{
    xsm_batch batch = xsm_batch_values(values, count, features, 0);
    batch.offsets = offsets;
    batch.index = index;
    return batch;
}

/** @} */

#endif
