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

/** Some rows of a dataset; a small view, passed by address. */
typedef struct xsm_batch {
    size_t size;                /**< sizeof(xsm_batch). */
    const xsm_dataset *dataset; /**< Borrowed. */
    const uint64_t *rows;       /**< [count] row numbers, borrowed; NULL = the rows first, first+1, ... */
    uint64_t first;             /**< First row when `rows` is NULL. */
    uint64_t count;             /**< n >= 1. */
} xsm_batch;

/** The rows rows[0..count) of a dataset. The array must stay while the batch is used. */
static inline xsm_batch xsm_batch_rows(const xsm_dataset *dataset, const uint64_t *rows, uint64_t count)
{
    xsm_batch batch;
    batch.size = sizeof(batch);
    batch.dataset = dataset;
    batch.rows = rows;
    batch.first = 0;
    batch.count = count;
    return batch;
}

/** The rows first..first+count of a dataset. */
static inline xsm_batch xsm_batch_range(const xsm_dataset *dataset, uint64_t first, uint64_t count)
{
    xsm_batch batch;
    batch.size = sizeof(batch);
    batch.dataset = dataset;
    batch.rows = NULL;
    batch.first = first;
    batch.count = count;
    return batch;
}

/** @} */

#endif
