/*
 * Datasets from the caller's arrays: everything is checked here, so that other code can rely on it. A dataset first
 * points to the given arrays; then arrays are copied where a copy was requested.
 */
#include "data/dataset.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"

#include <math.h>

/* Checks what dense and sparse rows have in common. `borrowable`: the arrays have the library's own types. */
static xsm_status check_common(const char *function, uint64_t rows, uint32_t features, int32_t dtype, int32_t ownership,
                               bool borrowable, xsm_error *err)
{
    if (rows == 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: there are no rows; at least one is needed", function);
    }
    if (features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %u features; at most %u are supported", function, features,
                         (unsigned)XSM_FEATURES_MAX);
    }
    if (rows >= SIZE_MAX / sizeof(uint64_t)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %llu rows do not fit the address space", function,
                         (unsigned long long)rows);
    }
    if (dtype != XSM_DTYPE_FLOAT32 && dtype != XSM_DTYPE_FLOAT64) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "%s: dtype is %d; XSM_DTYPE_FLOAT32 and XSM_DTYPE_FLOAT64 are accepted", function, (int)dtype);
    }
    if (ownership != XSM_COPY && ownership != XSM_BORROW) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: ownership is %d; XSM_COPY or XSM_BORROW is accepted", function,
                         (int)ownership);
    }
    if (ownership == XSM_BORROW && !borrowable) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "%s: XSM_BORROW takes float32 values, offsets of 64 bits and indexes of 32; XSM_COPY converts "
                         "others",
                         function);
    }
    return XSM_OK;
}

static xsm_status check_release(const char *function, int32_t ownership, xsm_release_hook release, xsm_error *err)
{
    if (release && ownership != XSM_BORROW) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "%s: release() is of XSM_BORROW; a copy needs the arrays for the call only", function);
    }
    return XSM_OK;
}

static xsm_status check_offsets(const uint64_t *offsets, uint64_t rows, const char *what, xsm_error *err)
{
    if (offsets[0] != 0) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "offsets[0] of the %s is %llu; it must be 0", what,
                         (unsigned long long)offsets[0]);
    }
    for (uint64_t i = 0; i < rows; i++) {
        if (offsets[i + 1] < offsets[i]) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "the %s of row %llu (from 0) go from offset %llu to %llu; offsets must not fall", what,
                             (unsigned long long)i, (unsigned long long)offsets[i], (unsigned long long)offsets[i + 1]);
        }
    }
    return XSM_OK;
}

/* Copies the caller's offsets of 32 bits to 64 bits. */
static xsm_status widen(xsm_dataset *d, const uint32_t *from, size_t *capacity, const uint64_t **offsets,
                        xsm_error *err)
{
    xsm_status status = XSM_OK;
    uint64_t *to = xsmi_dataset_allocate(d, d->rows + 1, sizeof *to, capacity, &status, err);
    *offsets = to;
    for (uint64_t i = 0; i <= d->rows && status == XSM_OK; i++) {
        to[i] = from[i];
    }
    return status;
}

/* Sets borrowed labels of a dataset whose rows are set, and counts them. */
static xsm_status set_labels(xsm_dataset *d, const xsm_labels *given, xsm_error *err)
{
    xsm_labels l = XSM_LABELS_INIT;
    XSMI_TRY(XSMI_READ(xsm_labels, &l, given, err));
    if (l.classes > XSM_CLASSES_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%u classes; at most %u are supported", l.classes,
                         (unsigned)XSM_CLASSES_MAX);
    }
    l.offset_bits = l.offset_bits ? l.offset_bits : XSMI_DEFAULT(xsm_labels, offset_bits);
    if (l.offset_bits != 32 && l.offset_bits != 64) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_labels.offset_bits is %u; 32 and 64 are accepted",
                         l.offset_bits);
    }
    const uint64_t *given_offsets = l.offsets;
    if (l.offsets && l.offset_bits == 32) {
        XSMI_TRY(widen(d, l.offsets, &d->capacity.label_offsets, &given_offsets, err));
    }
    d->label_offsets = given_offsets;
    if (given_offsets) {
        XSMI_TRY(check_offsets(given_offsets, d->rows, "labels", err));
    }
    if (given && !l.labels && (!given_offsets || given_offsets[d->rows] > 0)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_labels.labels is NULL though there are labels");
    }
    XSMI_TRY(xsmi_dataset_set_classes(d, l.classes, NULL, NULL, err));
    xsm_status status = XSM_OK;
    if (!given_offsets) {
        uint64_t *offsets =
            xsmi_dataset_allocate(d, d->rows + 1, sizeof *offsets, &d->capacity.label_offsets, &status, err);
        if (status != XSM_OK) {
            return status;
        }
        for (uint64_t i = 0; i <= d->rows; i++) {
            offsets[i] = given ? i : 0;
        }
        d->label_offsets = offsets;
    }
    d->labels = l.labels;
    if (!l.labels) {
        d->labels = xsmi_dataset_allocate(d, 0, sizeof *d->labels, &d->capacity.labels, &status, err);
        if (status != XSM_OK) {
            return status;
        }
    }
    XSMI_TRY(xsmi_dataset_check_labels(d, NULL, err));
    XSMI_TRY(l.weights ? xsmi_check_weights(l.weights, d->label_offsets[d->rows], "labels", err) : XSM_OK);
    d->label_weights = l.weights;
    return XSM_OK;
}

/* Finishes a dataset that points to the caller's arrays. */
static xsm_status finish(xsm_dataset *d, const xsm_labels *labels, const float *weights, int32_t ownership,
                         xsm_error *err)
{
    XSMI_TRY(set_labels(d, labels, err));
    XSMI_TRY(weights ? xsmi_check_weights(weights, d->rows, "rows", err) : XSM_OK);
    d->weights = weights;
    if (ownership == XSM_COPY) {
        XSMI_TRY(xsmi_dataset_own(d, XSMI_OWN_ALL, err));
    }
    xsmi_dataset_count_features(d);
    xsmi_dataset_count_weights(d);
    return xsmi_go_on(d->context, err);
}

static xsm_status hand_out(xsm_status status, xsm_dataset *d, xsm_release_hook release, void *user, xsm_dataset **out)
{
    if (status == XSM_OK) {
        d->lender = (xsmi_lender){release, user};
        xsmi_dataset_let_go(d); /* if there was nothing to borrow */
        *out = d;
    } else {
        xsm_dataset_free(d);
    }
    return status;
}

static xsm_status fail_not_finite(uint64_t row, uint32_t feature, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_RANGE,
                     "row %llu, feature %u (both from 0) is not finite as a float32; finite values are accepted",
                     (unsigned long long)row, feature);
}

/* -- dense rows ---------------------------------------------------------------------------------------------------- */

/* Copies rows of doubles; `stride` is theirs. */
static xsm_status narrow_dense(xsm_dataset *d, const double *from, size_t stride, xsm_error *err)
{
    const size_t own = xsmi_dataset_stride(d->features);
    xsm_status status = XSM_OK;
    if (own > 0 && d->rows > SIZE_MAX / sizeof(float) / own) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%llu rows of %zu floats do not fit the address space",
                         (unsigned long long)d->rows, own);
    }
    float *to = xsmi_dataset_allocate(d, d->rows * own, sizeof *to, &d->capacity.values, &status, err);
    XSMI_TRY(status);
    d->values = to;
    d->stride = own;
    size_t since = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        for (size_t j = 0; j < own; j++) {
            to[i * own + j] = j < d->features ? (float)from[i * stride + j] : 0;
        }
        XSMI_TRY(xsmi_dataset_worked(d->context, &since, own, err));
    }
    return XSM_OK;
}

static xsm_status fill_dense(xsm_dataset *d, const xsm_dense_rows *given, xsm_error *err)
{
    static const float nothing[1];
    const size_t stride = d->features == 0 ? 0 : given->stride ? given->stride : d->features;
    if (given->dtype == XSM_DTYPE_FLOAT64 && d->features > 0) {
        XSMI_TRY(narrow_dense(d, given->values, stride, err));
    } else {
        d->values = d->features == 0 ? nothing : given->values;
        d->stride = stride;
    }
    size_t since = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        const float *row = d->values + i * d->stride;
        for (uint32_t j = 0; j < d->features; j++) {
            if (!isfinite(row[j])) {
                return fail_not_finite(i, j, err);
            }
        }
        XSMI_TRY(xsmi_dataset_worked(d->context, &since, d->features, err));
    }
    return finish(d, given->labels, given->weights, given->ownership, err);
}

xsm_status xsm_dataset_from_dense(xsm_context *ctx, const xsm_dense_rows *rows, xsm_dataset **out, xsm_error *err)
{
    XSMI_ENTER(err);
    const char *function = "xsm_dataset_from_dense";
    if (!rows || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s is NULL", function, rows ? "out" : "rows");
    }
    xsm_dense_rows r = XSM_DENSE_ROWS_INIT;
    XSMI_TRY(XSMI_READ(xsm_dense_rows, &r, rows, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_dense_rows, &r, reserved, err));
    XSMI_TRY(check_common(function, r.rows, r.features, r.dtype, r.ownership, r.dtype == XSM_DTYPE_FLOAT32, err));
    XSMI_TRY(check_release(function, r.ownership, r.release, err));
    if (!r.values && r.features > 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: values is NULL", function);
    }
    if (r.stride > 0 && r.stride < r.features) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: a stride of %zu numbers is less than the %u features", function,
                         r.stride, r.features);
    }
    if (r.features > 0 && r.rows > SIZE_MAX / sizeof(double) / XSMI_MAX(r.stride, r.features)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %llu rows of %zu numbers do not fit the address space", function,
                         (unsigned long long)r.rows, XSMI_MAX(r.stride, (size_t)r.features));
    }
    xsm_dataset *d = NULL;
    XSMI_TRY(xsmi_dataset_start(ctx, &d, err));
    d->rows = r.rows;
    d->features = r.features;
    xsmi_activity activity;
    xsmi_begin_short(&activity, d->context, "taking rows", "rows");
    return hand_out(xsmi_end(&activity, fill_dense(d, &r, err), err), d, r.release, r.release_user, out);
}

/* -- sparse rows --------------------------------------------------------------------------------------------------- */

static xsm_status check_csr(const xsm_dataset *d, xsm_error *err)
{
    const uint32_t *index = d->index;
    size_t since = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        XSMI_TRY(xsmi_dataset_worked(d->context, &since, (size_t)(d->offsets[i + 1] - d->offsets[i]), err));
        for (uint64_t j = d->offsets[i]; j < d->offsets[i + 1]; j++) {
            if (index[j] >= d->features) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "index[%llu] in row %llu (from 0) is %u; indexes are below the number of features, %u",
                                 (unsigned long long)j, (unsigned long long)i, index[j], d->features);
            }
            if (j > d->offsets[i] && index[j] <= index[j - 1]) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "index[%llu] in row %llu (from 0) is %u after %u; indexes of a row must rise",
                                 (unsigned long long)j, (unsigned long long)i, index[j], index[j - 1]);
            }
            if (!isfinite(d->values[j])) {
                return fail_not_finite(i, index[j], err);
            }
        }
    }
    return XSM_OK;
}

static xsm_status set_offsets(xsm_dataset *d, const xsm_csr_rows *given, xsm_error *err)
{
    d->offsets = given->offsets;
    if (given->offset_bits == 32) {
        XSMI_TRY(widen(d, given->offsets, &d->capacity.offsets, &d->offsets, err));
    }
    return check_offsets(d->offsets, d->rows, "values", err);
}

static xsm_status set_index(xsm_dataset *d, const xsm_csr_rows *given, uint64_t count, xsm_error *err)
{
    xsm_status status = XSM_OK;
    d->index = given->index;
    if (given->index_bits == 64 || !given->index) {
        const uint64_t *from = given->index;
        uint32_t *to = xsmi_dataset_allocate(d, count, sizeof *to, &d->capacity.index, &status, err);
        d->index = to;
        for (uint64_t j = 0; j < count && status == XSM_OK; j++) {
            if (from[j] >= d->features) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "index[%llu] is %llu; indexes are below the number of features, %u",
                                 (unsigned long long)j, (unsigned long long)from[j], d->features);
            }
            to[j] = (uint32_t)from[j];
        }
    }
    return status;
}

static xsm_status set_values(xsm_dataset *d, const xsm_csr_rows *given, uint64_t count, xsm_error *err)
{
    xsm_status status = XSM_OK;
    d->values = given->values;
    if (given->dtype == XSM_DTYPE_FLOAT64 || !given->values) {
        const double *from = given->values;
        float *to = xsmi_dataset_allocate(d, count, sizeof *to, &d->capacity.values, &status, err);
        d->values = to;
        for (uint64_t j = 0; j < count && status == XSM_OK; j++) {
            to[j] = (float)from[j];
        }
    }
    return status;
}

static xsm_status fill_csr(xsm_dataset *d, const xsm_csr_rows *given, const char *function, xsm_error *err)
{
    XSMI_TRY(set_offsets(d, given, err));
    const uint64_t count = d->offsets[d->rows];
    if (count > SIZE_MAX / sizeof(uint64_t)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %llu values do not fit the address space", function,
                         (unsigned long long)count);
    }
    if (count > 0 && (!given->index || !given->values)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s is NULL though there are %llu values", function,
                         given->index ? "values" : "index", (unsigned long long)count);
    }
    XSMI_TRY(set_index(d, given, count, err));
    XSMI_TRY(set_values(d, given, count, err));
    XSMI_TRY(check_csr(d, err));
    return finish(d, given->labels, given->weights, given->ownership, err);
}

xsm_status xsm_dataset_from_csr(xsm_context *ctx, const xsm_csr_rows *rows, xsm_dataset **out, xsm_error *err)
{
    XSMI_ENTER(err);
    const char *function = "xsm_dataset_from_csr";
    if (!rows || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s is NULL", function, rows ? "out" : "rows");
    }
    xsm_csr_rows r = XSM_CSR_ROWS_INIT;
    XSMI_TRY(XSMI_READ(xsm_csr_rows, &r, rows, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_csr_rows, &r, reserved, err));
    r.offset_bits = r.offset_bits ? r.offset_bits : XSMI_DEFAULT(xsm_csr_rows, offset_bits);
    r.index_bits = r.index_bits ? r.index_bits : XSMI_DEFAULT(xsm_csr_rows, index_bits);
    if ((r.offset_bits != 32 && r.offset_bits != 64) || (r.index_bits != 32 && r.index_bits != 64)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "%s: offset_bits is %u and index_bits is %u; 32 and 64 are accepted for both", function,
                         r.offset_bits, r.index_bits);
    }
    const bool borrowable = r.dtype == XSM_DTYPE_FLOAT32 && r.offset_bits == 64 && r.index_bits == 32;
    XSMI_TRY(check_common(function, r.rows, r.features, r.dtype, r.ownership, borrowable, err));
    XSMI_TRY(check_release(function, r.ownership, r.release, err));
    if (!r.offsets) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: offsets is NULL", function);
    }
    xsm_dataset *d = NULL;
    XSMI_TRY(xsmi_dataset_start(ctx, &d, err));
    d->rows = r.rows;
    d->features = r.features;
    d->sparse = true;
    xsmi_activity activity;
    xsmi_begin_short(&activity, d->context, "taking rows", "rows");
    return hand_out(xsmi_end(&activity, fill_csr(d, &r, function, err), err), d, r.release, r.release_user, out);
}
