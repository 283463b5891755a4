#include "data/batch.h"
#include "base/entry.h"
#include "base/heap_sort.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

#include <xsoftmax/bindings.h>

/* Checks sparse rows of the host. */
static xsm_status check_sparse_values(const xsm_batch *batch, uint32_t features, xsm_error *err)
{
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->offsets[i + 1] < batch->offsets[i] || batch->offsets[i + 1] > SIZE_MAX / sizeof(float)) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_batch.offsets: row %zu (from 0) ends before it begins", i);
        }
        for (uint64_t j = batch->offsets[i]; j < batch->offsets[i + 1]; j++) {
            if (batch->index[j] >= features || (j > batch->offsets[i] && batch->index[j] <= batch->index[j - 1])) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "xsm_batch.index[%llu] in row %zu (from 0) is %u; a row's rise and are below %u",
                                 (unsigned long long)j, i, batch->index[j], features);
            }
            if (!isfinite(batch->values[j])) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "xsm_batch.values: row %zu, feature %u (both from 0) is not finite; finite values are "
                                 "accepted",
                                 i, batch->index[j]);
            }
        }
    }
    return XSM_OK;
}

/* Checks a host's own features, without its dataset. */
static xsm_status check_values(const xsm_batch *batch, const char *what, uint32_t features, xsm_error *err)
{
    if (batch->features != features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "xsm_batch.values has %u features, for %s of %u", batch->features, what,
                         features);
    }
    if (batch->offsets) {
        return check_sparse_values(batch, features, err);
    }
    if (batch->stride < features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "xsm_batch.values has rows %zu floats apart for %u features",
                         batch->stride, features);
    }
    size_t floats;
    if (!xsmi_multiply((size_t)batch->count, batch->stride, &floats) || floats > SIZE_MAX / sizeof(float)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%llu rows of %zu floats are more than can be addressed",
                         (unsigned long long)batch->count, batch->stride);
    }
    for (size_t i = 0; i < batch->count; i++) {
        const float *row = batch->values + i * batch->stride;
        for (uint32_t j = 0; j < features; j++) {
            if (!isfinite(row[j])) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "xsm_batch.values: row %zu, feature %u (both from 0) is not finite; finite values are "
                                 "accepted",
                                 i, j);
            }
        }
    }
    return XSM_OK;
}

/* Writes a batch to the caller's struct, which may be another release's. */
static xsm_status set_batch(xsm_batch *batch, xsm_batch value, xsm_error *err)
{
    if (!batch) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "batch is NULL");
    }
    size_t size = batch->size;
    XSMI_TRY(xsmi_check_struct_size(sizeof value, XSMI_FIRST(xsm_batch), size, "xsm_batch", err));
    value.size = size;
    memset(batch, 0, size);
    memcpy(batch, &value, XSMI_MIN(size, sizeof value));
    return XSM_OK;
}

xsm_status xsm_batch_set_range(xsm_batch *batch, const xsm_dataset *dataset, uint64_t first, size_t count,
                               xsm_error *err)
{
    XSMI_ENTER(err);
    return set_batch(batch, xsm_batch_range(dataset, first, count), err);
}

xsm_status xsm_batch_set_rows(xsm_batch *batch, const xsm_dataset *dataset, const uint64_t *rows, size_t count,
                              xsm_error *err)
{
    XSMI_ENTER(err);
    return set_batch(batch, xsm_batch_rows(dataset, rows, count), err);
}

xsm_status xsm_batch_set_values(xsm_batch *batch, const float *values, size_t count, uint32_t features, size_t stride,
                                xsm_error *err)
{
    XSMI_ENTER(err);
    return set_batch(batch, xsm_batch_values(values, count, features, stride), err);
}

xsm_status xsm_batch_set_sparse_values(xsm_batch *batch, const uint64_t *offsets, const uint32_t *index,
                                       const float *values, size_t count, uint32_t features, xsm_error *err)
{
    XSMI_ENTER(err);
    return set_batch(batch, xsm_batch_sparse_values(offsets, index, values, count, features), err);
}

xsm_status xsmi_check_float32(const char *member, int32_t dtype, xsm_error *err)
{
    static const char *const names[] = {
        [XSM_DTYPE_FLOAT32] = "FLOAT32", [XSM_DTYPE_FLOAT64] = "FLOAT64", [XSM_DTYPE_BFLOAT16] = "BFLOAT16",
        [XSM_DTYPE_INT8] = "INT8",       [XSM_DTYPE_UINT8] = "UINT8",     [XSM_DTYPE_INT32] = "INT32",
        [XSM_DTYPE_UINT32] = "UINT32",   [XSM_DTYPE_INT64] = "INT64",     [XSM_DTYPE_UINT64] = "UINT64",
    };
    if (dtype == XSM_DTYPE_FLOAT32) {
        return XSM_OK;
    }
    if (dtype < 0 || (size_t)dtype >= sizeof names / sizeof *names) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%s is %d, which is no XSM_DTYPE_* value", member, dtype);
    }
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s is XSM_DTYPE_%s; XSM_DTYPE_FLOAT32 is accepted", member,
                     names[dtype]);
}

/* Completes a batch of sparse rows without entries, which need neither values nor an index. */
static xsm_status complete_sparse(xsm_batch *batch, xsm_error *err)
{
    static const float no_value = 0;
    static const uint32_t no_feature = 0;
    for (uint64_t i = 1; i <= batch->count; i++) {
        if (batch->offsets[i] != batch->offsets[0]) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_batch.%s is NULL, with offsets of rows that have values",
                             batch->values ? "index" : "values");
        }
    }
    batch->values = &no_value;
    batch->index = &no_feature;
    return XSM_OK;
}

xsm_status xsmi_batch_parse(const xsm_batch *given, xsm_batch *batch, xsm_error *err)
{
    if (!given) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "batch is NULL");
    }
    memset(batch, 0, sizeof *batch);
    XSMI_TRY(XSMI_READ(xsm_batch, batch, given, err));
    return batch->offsets && !(batch->values && batch->index) ? complete_sparse(batch, err) : XSM_OK;
}

xsm_status xsmi_batch_check(const xsm_batch *batch, const char *what, uint32_t features, xsm_error *err)
{
    const xsm_dataset *dataset = batch->dataset;
    if (!dataset && !batch->values) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_batch.dataset is NULL, and there are no values");
    }
    if (batch->count == 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the batch has no rows");
    }
    XSMI_TRY(xsmi_check_float32("xsm_batch.dtype", batch->dtype, err));
    XSMI_TRY(batch->weights ? xsmi_check_weights(batch->weights, batch->count, "batch", err) : XSM_OK);
    if (batch->values) {
        XSMI_TRY(check_values(batch, what, features, err));
    } else if (dataset->features != features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "rows of %u features for %s of %u", dataset->features, what, features);
    }
    if (!dataset) {
        return XSM_OK;
    }
    if (!batch->rows) {
        if (batch->first > dataset->rows || batch->count > dataset->rows - batch->first) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "a batch of %llu rows from row %llu on; the dataset has %llu",
                             (unsigned long long)batch->count, (unsigned long long)batch->first,
                             (unsigned long long)dataset->rows);
        }
        return XSM_OK;
    }
    for (uint64_t i = 0; i < batch->count; i++) {
        if (batch->rows[i] >= dataset->rows) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "row %llu at position %llu of the batch; the dataset has %llu",
                             (unsigned long long)batch->rows[i], (unsigned long long)i,
                             (unsigned long long)dataset->rows);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_batch_read(const xsm_batch *given, const char *what, uint32_t features, xsm_batch *batch,
                           xsm_error *err)
{
    XSMI_TRY(xsmi_batch_parse(given, batch, err));
    return xsmi_batch_check(batch, what, features, err);
}

void xsmi_batch_regions(const xsm_batch *batch, xsmi_region regions[XSMI_BATCH_REGIONS])
{
    const size_t n = (size_t)batch->count, entries = batch->offsets ? (size_t)batch->offsets[n] : 0;
    regions[0] = batch->offsets ? xsmi_input("xsm_batch.values", batch->values, entries, sizeof *batch->values)
                                : xsmi_input_rows("xsm_batch.values", batch->values, n, batch->features, batch->stride,
                                                  sizeof *batch->values);
    regions[1] = xsmi_input("xsm_batch.index", batch->index, entries, sizeof *batch->index);
    regions[2] = xsmi_input("xsm_batch.offsets", batch->offsets, n + 1, sizeof *batch->offsets);
    regions[3] = xsmi_input("xsm_batch.rows", batch->rows, n, sizeof *batch->rows);
}

size_t xsmi_batch_entries(const xsm_batch *batch)
{
    size_t entries = 0;
    for (uint64_t i = 0; i < batch->count; i++) {
        entries += xsmi_batch_features(batch, (size_t)i).count;
    }
    return entries;
}

double xsmi_batch_row_work(const xsm_batch *batch)
{
    const xsm_dataset *data = batch->dataset;
    return batch->values  ? (double)batch->features + 1
           : data->sparse ? (double)data->offsets[data->rows] / (double)data->rows + 1
                          : (double)data->features + 1;
}

bool xsmi_batch_has_repeats(const xsm_batch *batch, uint64_t *sorted)
{
    size_t n = (size_t)batch->count;
    memcpy(sorted, batch->rows, n * sizeof *sorted);
    xsmi_heap_sort(sorted, n, sizeof *sorted, xsmi_compare_u64);
    bool repeats = false;
    for (size_t i = 1; i < n; i++) {
        repeats |= sorted[i] == sorted[i - 1];
    }
    return repeats;
}

xsm_batch xsmi_batch_slice(const xsm_batch *batch, size_t first, size_t count)
{
    xsm_batch slice = *batch;
    slice.count = count;
    slice.first += first;
    slice.rows = batch->rows ? batch->rows + first : NULL;
    if (batch->offsets) {
        slice.offsets += first;
    } else if (batch->values) {
        slice.values += first * batch->stride;
    }
    if (batch->label_offsets) {
        slice.label_offsets += first;
    } else if (batch->labels) {
        slice.labels += first;
        slice.label_weights = batch->label_weights ? batch->label_weights + first : NULL;
    }
    slice.ids = batch->ids ? batch->ids + first : NULL;
    slice.weights = batch->weights ? batch->weights + first : NULL;
    return slice;
}
