/*
 * Datasets from the caller's arrays: everything is checked here, so that no caller has to. A dataset first points to
 * the given arrays; then arrays are copied where a copy was requested.
 */
#include "data/dataset.h"

#include <math.h>

static xsm_status check_common(const char *function, uint64_t rows, uint32_t features, int32_t ownership,
                               xsm_dataset **out, xsm_error *err)
{
    if (!out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: out is NULL", function);
    }
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
    if (ownership != XSM_COPY && ownership != XSM_BORROW) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: ownership is %d; XSM_COPY or XSM_BORROW is accepted", function,
                         (int)ownership);
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

/* Sets borrowed labels of a dataset whose rows are set; d->class_counts is used to find repeated labels. */
static xsm_status set_labels(xsm_dataset *d, const xsm_labels *given, xsm_error *err)
{
    xsm_labels l = {sizeof l, 0, 0, NULL, NULL};
    XSMI_TRY(xsmi_options_read(&l, sizeof l, XSMI_FIRST(xsm_labels), given, "xsm_labels", err));
    if (l.classes > XSM_CLASSES_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%u classes; at most %u are supported", l.classes,
                         (unsigned)XSM_CLASSES_MAX);
    }
    if (l.reserved != 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_labels.reserved is %u; it must be 0", l.reserved);
    }
    if (l.offsets) {
        XSMI_TRY(check_offsets(l.offsets, d->rows, "labels", err));
    }
    if (given && !l.labels && (!l.offsets || l.offsets[d->rows] > 0)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_labels.labels is NULL though there are labels");
    }
    XSMI_TRY(xsmi_dataset_set_classes(d, l.classes, NULL, NULL, err));
    xsm_status status = XSM_OK;
    d->label_offsets = l.offsets;
    if (!l.offsets) {
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
    for (uint64_t i = 0; i < d->rows; i++) {
        size_t count;
        const uint32_t *labels = xsmi_dataset_labels(d, i, &count);
        for (size_t j = 0; j < count; j++) {
            if (labels[j] == XSM_CLASS_UNSEEN) {
                continue;
            }
            if (labels[j] >= d->classes) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "row %llu (from 0) has the label %u; labels are below the number of classes, %u",
                                 (unsigned long long)i, labels[j], d->classes);
            }
            if (d->map.counts[labels[j]] == i + 1) {
                return xsmi_fail(err, XSM_ERROR_RANGE, "row %llu (from 0) has the label %u twice",
                                 (unsigned long long)i, labels[j]);
            }
            d->map.counts[labels[j]] = i + 1;
        }
    }
    return XSM_OK;
}

/* Finishes a dataset that points to the caller's arrays. */
static xsm_status finish(xsm_dataset *d, const xsm_labels *labels, int32_t ownership, xsm_error *err)
{
    XSMI_TRY(set_labels(d, labels, err));
    if (ownership == XSM_COPY) {
        XSMI_TRY(xsmi_dataset_own(d, XSMI_OWN_VALUES | XSMI_OWN_INDEX | XSMI_OWN_LABELS, err));
    }
    xsmi_dataset_count_features(d);
    xsmi_dataset_count_labels(d);
    return XSM_OK;
}

static xsm_status hand_out(xsm_status status, xsm_dataset *d, xsm_dataset **out)
{
    if (status == XSM_OK) {
        *out = d;
    } else {
        xsm_dataset_free(d);
    }
    return status;
}

xsm_status xsm_dataset_from_dense(xsm_context *ctx, const float *values, uint64_t rows, uint32_t features,
                                  size_t stride, const xsm_labels *labels, int32_t ownership, xsm_dataset **out,
                                  xsm_error *err)
{
    const char *function = "xsm_dataset_from_dense";
    XSMI_TRY(check_common(function, rows, features, ownership, out, err));
    static const float nothing[1];
    values = features == 0 ? nothing : values;
    stride = features == 0 ? 0 : stride;
    if (!values) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: values is NULL", function);
    }
    if (stride < features) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: a stride of %zu floats is less than the %u features", function,
                         stride, features);
    }
    if (stride > 0 && rows > SIZE_MAX / sizeof(float) / stride) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %llu rows of %zu floats do not fit the address space", function,
                         (unsigned long long)rows, stride);
    }
    for (uint64_t i = 0; i < rows; i++) {
        const float *row = values + i * stride;
        for (uint32_t j = 0; j < features; j++) {
            if (!isfinite(row[j])) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "row %llu, feature %u (both from 0) is not finite; finite values are accepted",
                                 (unsigned long long)i, j);
            }
        }
    }
    xsm_dataset *d = NULL;
    XSMI_TRY(xsmi_dataset_start(ctx, &d, err));
    d->rows = rows;
    d->features = features;
    d->values = values;
    d->stride = stride;
    return hand_out(finish(d, labels, ownership, err), d, out);
}

static xsm_status check_csr(const uint64_t *offsets, const uint32_t *index, const float *values, uint64_t rows,
                            uint32_t features, xsm_error *err)
{
    for (uint64_t i = 0; i < rows; i++) {
        for (uint64_t j = offsets[i]; j < offsets[i + 1]; j++) {
            if (index[j] >= features) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "index[%llu] in row %llu (from 0) is %u; indexes are below the number of features, %u",
                                 (unsigned long long)j, (unsigned long long)i, index[j], features);
            }
            if (j > offsets[i] && index[j] <= index[j - 1]) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "index[%llu] in row %llu (from 0) is %u after %u; indexes of a row must rise",
                                 (unsigned long long)j, (unsigned long long)i, index[j], index[j - 1]);
            }
            if (!isfinite(values[j])) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "row %llu, feature %u (both from 0) is not finite; finite values are accepted",
                                 (unsigned long long)i, index[j]);
            }
        }
    }
    return XSM_OK;
}

xsm_status xsm_dataset_from_csr(xsm_context *ctx, const uint64_t *offsets, const uint32_t *index, const float *values,
                                uint64_t rows, uint32_t features, const xsm_labels *labels, int32_t ownership,
                                xsm_dataset **out, xsm_error *err)
{
    const char *function = "xsm_dataset_from_csr";
    XSMI_TRY(check_common(function, rows, features, ownership, out, err));
    if (!offsets) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: offsets is NULL", function);
    }
    XSMI_TRY(check_offsets(offsets, rows, "values", err));
    uint64_t count = offsets[rows];
    if (count > SIZE_MAX / sizeof(uint64_t)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %llu values do not fit the address space", function,
                         (unsigned long long)count);
    }
    if (count > 0 && (!index || !values)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s is NULL though there are %llu values", function,
                         index ? "values" : "index", (unsigned long long)count);
    }
    XSMI_TRY(check_csr(offsets, index, values, rows, features, err));
    xsm_dataset *d = NULL;
    XSMI_TRY(xsmi_dataset_start(ctx, &d, err));
    xsm_status status = XSM_OK;
    d->rows = rows;
    d->features = features;
    d->sparse = true;
    d->offsets = offsets;
    d->index = index ? index : xsmi_dataset_allocate(d, 0, sizeof *index, &d->capacity.index, &status, err);
    d->values = values ? values : xsmi_dataset_allocate(d, 0, sizeof *values, &d->capacity.values, &status, err);
    if (status == XSM_OK) {
        status = finish(d, labels, ownership, err);
    }
    return hand_out(status, d, out);
}
