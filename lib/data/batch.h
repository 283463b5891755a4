/*
 * The rows of one call. A public function parses and checks its caller's xsm_batch once; the functions that it calls
 * take the checked copy and do not check again.
 */
#ifndef XSMI_BATCH_H
#define XSMI_BATCH_H

#include "base/overlap.h"
#include "data/dataset.h"

#include <xsoftmax/batch.h>

/* Refuses any type of numbers but float32; the message names the type and `member`, which has it. */
xsm_status xsmi_check_float32(const char *member, int32_t dtype, xsm_error *err);

/* Copies a caller's batch of any version of the struct, without checks. `given` may be NULL, which is refused. */
xsm_status xsmi_batch_parse(const xsm_batch *given, xsm_batch *batch, xsm_error *err);
/* Checks a parsed batch: its rows exist and have the given number of features, and features of the host's own are
 * finite and in order. `what` names in messages who needs that many features. O(1) for a range of a dataset, else O(n),
 * or the size of the host's features. */
xsm_status xsmi_batch_check(const xsm_batch *batch, const char *what, uint32_t features, xsm_error *err);
/* xsmi_batch_parse(), then xsmi_batch_check(). */
xsm_status xsmi_batch_read(const xsm_batch *given, const char *what, uint32_t features, xsm_batch *batch,
                           xsm_error *err);

/* Returns the dataset row of the i-th row. */
static inline uint64_t xsmi_batch_row(const xsm_batch *batch, size_t i)
{
    return batch->rows ? batch->rows[i] : batch->first + i;
}

static inline xsmi_features xsmi_batch_features(const xsm_batch *batch, size_t i)
{
    if (batch->offsets) {
        uint64_t start = batch->offsets[i];
        xsmi_features x = {batch->values + start, batch->index + start, (size_t)(batch->offsets[i + 1] - start)};
        return x;
    }
    if (batch->values) {
        xsmi_features x = {batch->values + i * batch->stride, NULL, batch->features};
        return x;
    }
    return xsmi_dataset_features(batch->dataset, xsmi_batch_row(batch, i));
}

/* Returns the rows first..first+count of a checked batch. */
xsm_batch xsmi_batch_slice(const xsm_batch *batch, size_t first, size_t count);

/* Whether the rows are lists of features. */
static inline bool xsmi_batch_sparse(const xsm_batch *batch)
{
    return batch->values ? batch->offsets != NULL : batch->dataset->sparse;
}

/* What a checked batch reads of the caller's arrays, for xsmi_check_overlap(): its features and the numbers of its
 * rows. A dataset's own arrays are left out. */
#define XSMI_BATCH_REGIONS 4
void xsmi_batch_regions(const xsm_batch *batch, xsmi_region regions[XSMI_BATCH_REGIONS]);

/* Returns the number of features that the rows list, over all rows. O(n). */
size_t xsmi_batch_entries(const xsm_batch *batch);
/* Returns about how many multiplications a mean row takes with a class's weights; the host's count as dense. O(1). */
double xsmi_batch_row_work(const xsm_batch *batch);
/* Whether a row occurs twice in a batch with `rows`. Scratch: sorted [n]. O(n log n). */
bool xsmi_batch_has_repeats(const xsm_batch *batch, uint64_t *sorted);

#endif
