/*
 * Datasets: their arrays, whose they are, and the views of them.
 *
 * Each array is either the caller's (its capacity is 0) or ours. Whatever changes an array makes it ours first, so a
 * borrowed array is never written to.
 */
#include "data/dataset.h"

#include <math.h>
#include <string.h>

#define FIRST_INFO_SIZE (offsetof(xsm_dataset_info, format) + sizeof(int32_t))
#define FIRST_ROW_SIZE (offsetof(xsm_row, label_count) + sizeof(uint64_t))
#define FIRST_LABELS_SIZE (offsetof(xsm_labels, labels) + sizeof(const uint32_t *))
#define FIRST_MAP_SIZE (offsetof(xsm_class_map, names) + sizeof(const char *const *))

/* -- memory ------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_dataset_start(xsm_context *ctx, xsm_dataset **out, xsm_error *err)
{
    xsm_context *held;
    XSMI_TRY(xsmi_context_acquire(ctx, &held, err));
    xsm_dataset *d = xsmi_allocate_zero(held, 1, sizeof *d);
    if (!d) {
        xsm_context_free(held);
        return xsmi_fail_memory(err, sizeof *d, "a dataset");
    }
    d->context = held;
    *out = d;
    return XSM_OK;
}

static void release(const xsm_dataset *d, const void *array, size_t capacity, size_t each)
{
    if (capacity > 0) {
        xsmi_release(d->context, (void *)(uintptr_t)array, capacity, each);
    }
}

static void release_rows(xsm_dataset *d)
{
    release(d, d->values, d->value_capacity, sizeof *d->values);
    release(d, d->index, d->index_capacity, sizeof *d->index);
    release(d, d->offsets, d->offset_capacity, sizeof *d->offsets);
    release(d, d->labels, d->label_capacity, sizeof *d->labels);
    release(d, d->label_offsets, d->label_offset_capacity, sizeof *d->label_offsets);
    d->value_capacity = d->index_capacity = d->offset_capacity = d->label_capacity = d->label_offset_capacity = 0;
}

void xsm_dataset_free(xsm_dataset *d)
{
    if (!d) {
        return;
    }
    xsm_context *ctx = d->context;
    release_rows(d);
    xsmi_release(ctx, d->class_labels, d->classes, sizeof *d->class_labels);
    xsmi_release(ctx, d->class_names, d->classes, sizeof *d->class_names);
    xsmi_release(ctx, d->class_counts, d->classes, sizeof *d->class_counts);
    xsmi_release(ctx, d->name_text, d->name_text_size, 1);
    xsmi_release(ctx, d, 1, sizeof *d);
    xsm_context_free(ctx);
}

/* Room for at least one element, so that a capacity of 0 can mean that the array is not ours. */
static void *take(xsm_dataset *d, uint64_t count, size_t each, size_t *capacity, xsm_status *status, xsm_error *err)
{
    if (*status != XSM_OK) {
        return NULL;
    }
    size_t wanted = count > 0 ? (size_t)count : 1;
    void *memory = count <= SIZE_MAX ? xsmi_allocate(d->context, wanted, each) : NULL;
    if (!memory) {
        *status = xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory: %llu times %zu bytes for a dataset",
                            (unsigned long long)count, each);
        return NULL;
    }
    *capacity = wanted;
    return memory;
}

size_t xsmi_dataset_stride(uint32_t features)
{
    if (features < 64) {
        return features;
    }
    size_t stride = ((size_t)features + 15) & ~(size_t)15;
    /* Rows a multiple of 4 KiB apart would compete for the same few sets of the cache. */
    return stride % 1024 == 0 ? stride + 16 : stride;
}

static void copy_dense(float *to, size_t stride, const float *from, uint32_t features)
{
    memcpy(to, from, features * sizeof *to);
    memset(to + features, 0, (stride - features) * sizeof *to);
}

xsm_status xsmi_dataset_set_classes(xsm_dataset *d, uint32_t classes, const int64_t *labels, const char *const *names,
                                    xsm_error *err)
{
    uint64_t *counts = xsmi_allocate_zero(d->context, classes, sizeof *counts);
    int64_t *label_copy = labels ? xsmi_allocate(d->context, classes, sizeof *label_copy) : NULL;
    char **name_copy = NULL;
    char *text = NULL;
    size_t text_size = 0;
    if (names) {
        for (uint32_t k = 0; k < classes; k++) {
            text_size += strlen(names[k]) + 1;
        }
        name_copy = xsmi_allocate(d->context, classes, sizeof *name_copy);
        text = xsmi_allocate(d->context, text_size, 1);
    }
    if (!counts || (labels && !label_copy) || (names && (!name_copy || !text))) {
        xsmi_release(d->context, counts, classes, sizeof *counts);
        xsmi_release(d->context, label_copy, classes, sizeof *label_copy);
        xsmi_release(d->context, name_copy, classes, sizeof *name_copy);
        xsmi_release(d->context, text, text_size, 1);
        return xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory for %u classes", classes);
    }
    if (labels) {
        memcpy(label_copy, labels, classes * sizeof *labels);
    }
    if (names) {
        char *next = text;
        for (uint32_t k = 0; k < classes; k++) {
            size_t size = strlen(names[k]) + 1;
            memcpy(next, names[k], size);
            name_copy[k] = next;
            next += size;
        }
    }
    d->classes = classes;
    d->class_counts = counts;
    d->class_labels = label_copy;
    d->class_names = name_copy;
    d->name_text = text;
    d->name_text_size = text_size;
    return XSM_OK;
}

xsm_status xsmi_dataset_own(xsm_dataset *d, unsigned which, xsm_error *err)
{
    bool values = (which & XSMI_OWN_VALUES) && d->value_capacity == 0;
    bool index = (which & XSMI_OWN_INDEX) && d->sparse && d->index_capacity == 0;
    bool offsets = (which & XSMI_OWN_INDEX) && d->sparse && d->offset_capacity == 0;
    bool labels = (which & XSMI_OWN_LABELS) && d->label_capacity == 0;
    bool label_offsets = (which & XSMI_OWN_LABELS) && d->label_offset_capacity == 0;
    size_t stride = d->sparse ? 0 : xsmi_dataset_stride(d->features);
    uint64_t value_count = d->sparse ? d->offsets[d->rows] : d->rows * stride;
    uint64_t label_count = d->label_offsets[d->rows];
    if (!d->sparse && d->rows > SIZE_MAX / sizeof(float) / stride) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%llu rows of %zu floats do not fit the address space",
                         (unsigned long long)d->rows, stride);
    }

    /* All memory first, into a dataset that is thrown away if there is not enough. */
    xsm_status status = XSM_OK;
    xsm_dataset copy = {.context = d->context};
    float *v = !values ? NULL : take(&copy, value_count, sizeof *v, &copy.value_capacity, &status, err);
    copy.values = v;
    uint32_t *x = !index ? NULL : take(&copy, value_count, sizeof *x, &copy.index_capacity, &status, err);
    copy.index = x;
    uint64_t *o = !offsets ? NULL : take(&copy, d->rows + 1, sizeof *o, &copy.offset_capacity, &status, err);
    copy.offsets = o;
    uint32_t *l = !labels ? NULL : take(&copy, label_count, sizeof *l, &copy.label_capacity, &status, err);
    copy.labels = l;
    uint64_t *p =
        !label_offsets ? NULL : take(&copy, d->rows + 1, sizeof *p, &copy.label_offset_capacity, &status, err);
    copy.label_offsets = p;
    if (status != XSM_OK) {
        release_rows(&copy);
        return status;
    }
    if (values && d->sparse) {
        memcpy(v, d->values, (size_t)value_count * sizeof *v);
    } else if (values) {
        for (uint64_t i = 0; i < d->rows; i++) {
            copy_dense(v + i * stride, stride, d->values + i * d->stride, d->features);
        }
        d->stride = stride;
    }
    if (values) {
        d->values = v;
        d->value_capacity = copy.value_capacity;
    }
    if (index) {
        memcpy(x, d->index, (size_t)value_count * sizeof *x);
        d->index = x;
        d->index_capacity = copy.index_capacity;
    }
    if (offsets) {
        memcpy(o, d->offsets, ((size_t)d->rows + 1) * sizeof *o);
        d->offsets = o;
        d->offset_capacity = copy.offset_capacity;
    }
    if (labels) {
        memcpy(l, d->labels, (size_t)label_count * sizeof *l);
        d->labels = l;
        d->label_capacity = copy.label_capacity;
    }
    if (label_offsets) {
        memcpy(p, d->label_offsets, ((size_t)d->rows + 1) * sizeof *p);
        d->label_offsets = p;
        d->label_offset_capacity = copy.label_offset_capacity;
    }
    return XSM_OK;
}

xsm_status xsmi_dataset_gather(xsm_dataset *d, const xsm_dataset *from, const uint64_t *rows, uint64_t count,
                               xsm_error *err)
{
    /* Rows may be chosen more than once, so the sums can be anything. */
    uint64_t value_count = 0;
    uint64_t label_count = 0;
    size_t stride = from->sparse ? 0 : xsmi_dataset_stride(from->features);
    bool fits = count < UINT64_MAX;
    for (uint64_t i = 0; i < count && fits; i++) {
        uint64_t r = rows[i];
        uint64_t values = from->sparse ? from->offsets[r + 1] - from->offsets[r] : stride;
        fits = !__builtin_add_overflow(value_count, values, &value_count) &&
               !__builtin_add_overflow(label_count, from->label_offsets[r + 1] - from->label_offsets[r], &label_count);
    }
    if (!fits) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%llu rows do not fit the address space", (unsigned long long)count);
    }
    xsm_status status = XSM_OK;
    float *v = take(d, value_count, sizeof *v, &d->value_capacity, &status, err);
    d->values = v;
    uint32_t *l = take(d, label_count, sizeof *l, &d->label_capacity, &status, err);
    d->labels = l;
    uint64_t *p = take(d, count + 1, sizeof *p, &d->label_offset_capacity, &status, err);
    d->label_offsets = p;
    uint32_t *x = NULL;
    uint64_t *o = NULL;
    if (from->sparse) {
        x = take(d, value_count, sizeof *x, &d->index_capacity, &status, err);
        d->index = x;
        o = take(d, count + 1, sizeof *o, &d->offset_capacity, &status, err);
        d->offsets = o;
    }
    if (status != XSM_OK) {
        return status; /* what there is goes with d */
    }
    d->sparse = from->sparse;
    d->features = from->features;
    d->stride = stride;
    uint64_t v_next = 0;
    uint64_t l_next = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t r = rows[i];
        if (from->sparse) {
            xsmi_features f = xsmi_dataset_features(from, r);
            memcpy(v + v_next, f.values, f.count * sizeof *v);
            memcpy(x + v_next, f.index, f.count * sizeof *x);
            o[i] = v_next;
            v_next += f.count;
        } else {
            copy_dense(v + i * stride, stride, from->values + r * from->stride, from->features);
        }
        size_t labels;
        const uint32_t *row_labels = xsmi_dataset_labels(from, r, &labels);
        memcpy(l + l_next, row_labels, labels * sizeof *l);
        p[i] = l_next;
        l_next += labels;
    }
    if (o) {
        o[count] = v_next;
    }
    p[count] = l_next;
    d->rows = count;
    return XSM_OK;
}

void xsmi_dataset_take_rows(xsm_dataset *d, xsm_dataset *from)
{
    release_rows(d);
    d->rows = from->rows;
    d->features = from->features;
    d->sparse = from->sparse;
    d->stride = from->stride;
    d->values = from->values;
    d->index = from->index;
    d->offsets = from->offsets;
    d->labels = from->labels;
    d->label_offsets = from->label_offsets;
    d->value_capacity = from->value_capacity;
    d->index_capacity = from->index_capacity;
    d->offset_capacity = from->offset_capacity;
    d->label_capacity = from->label_capacity;
    d->label_offset_capacity = from->label_offset_capacity;
    from->value_capacity = from->index_capacity = from->offset_capacity = 0;
    from->label_capacity = from->label_offset_capacity = 0;
    from->rows = 0;
}

/* -- counts ------------------------------------------------------------------------------------------------------- */

bool xsmi_dataset_row_is_empty(const xsm_dataset *d, uint64_t row)
{
    xsmi_features f = xsmi_dataset_features(d, row);
    for (size_t i = 0; i < f.count; i++) {
        if (f.values[i] != 0) {
            return false;
        }
    }
    return true;
}

void xsmi_dataset_count_features(xsm_dataset *d)
{
    d->empty = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        d->empty += xsmi_dataset_row_is_empty(d, i);
    }
}

void xsmi_dataset_count_labels(xsm_dataset *d)
{
    d->label_total = d->label_offsets[d->rows];
    d->unlabelled = d->unseen_rows = d->unseen_labels = 0;
    memset(d->class_counts, 0, d->classes * sizeof *d->class_counts);
    for (uint64_t i = 0; i < d->rows; i++) {
        size_t count;
        const uint32_t *labels = xsmi_dataset_labels(d, i, &count);
        size_t unseen = 0;
        for (size_t j = 0; j < count; j++) {
            if (labels[j] == XSM_CLASS_UNSEEN) {
                unseen++;
            } else {
                d->class_counts[labels[j]]++;
            }
        }
        d->unlabelled += count == 0;
        d->unseen_labels += unseen;
        d->unseen_rows += count > 0 && unseen == count;
    }
}

/* -- from memory -------------------------------------------------------------------------------------------------- */

static xsm_status check_common(const char *function, uint64_t rows, uint32_t features, int32_t ownership,
                               xsm_dataset **out, xsm_error *err)
{
    if (!out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: out is NULL", function);
    }
    if (rows == 0 || features == 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %llu rows of %u features; at least one of each is needed",
                         function, (unsigned long long)rows, features);
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

/* Gives a dataset with its rows set the labels, borrowed; d->class_counts serves to find repeated labels. */
static xsm_status set_labels(xsm_dataset *d, const xsm_labels *given, xsm_error *err)
{
    xsm_labels l = {sizeof l, 0, 0, NULL, NULL};
    XSMI_TRY(xsmi_options_read(&l, sizeof l, FIRST_LABELS_SIZE, given, "xsm_labels", err));
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
        uint64_t *offsets = take(d, d->rows + 1, sizeof *offsets, &d->label_offset_capacity, &status, err);
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
        d->labels = take(d, 0, sizeof *d->labels, &d->label_capacity, &status, err);
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
            if (d->class_counts[labels[j]] == i + 1) {
                return xsmi_fail(err, XSM_ERROR_RANGE, "row %llu (from 0) has the label %u twice",
                                 (unsigned long long)i, labels[j]);
            }
            d->class_counts[labels[j]] = i + 1;
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
    if (!values) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: values is NULL", function);
    }
    if (stride < features) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: a stride of %zu floats is less than the %u features", function,
                         stride, features);
    }
    if (rows > SIZE_MAX / sizeof(float) / stride) {
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
    d->index = index ? index : take(d, 0, sizeof *index, &d->index_capacity, &status, err);
    d->values = values ? values : take(d, 0, sizeof *values, &d->value_capacity, &status, err);
    if (status == XSM_OK) {
        status = finish(d, labels, ownership, err);
    }
    return hand_out(status, d, out);
}

/* -- views -------------------------------------------------------------------------------------------------------- */

xsm_status xsm_dataset_get_info(const xsm_dataset *d, xsm_dataset_info *info, xsm_error *err)
{
    if (!d) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_dataset_get_info: dataset is NULL");
    }
    xsm_dataset_info i = XSM_DATASET_INFO_INIT;
    i.rows = d->rows;
    i.values = d->sparse ? d->offsets[d->rows] : d->rows * d->features;
    i.labels = d->label_total;
    i.unlabelled = d->unlabelled;
    i.empty = d->empty;
    i.unseen_rows = d->unseen_rows;
    i.unseen_labels = d->unseen_labels;
    i.dropped_features = d->dropped_features;
    i.features = d->features;
    i.classes = d->classes;
    i.sparse = d->sparse;
    i.format = d->format;
    return xsmi_options_write(&i, sizeof i, FIRST_INFO_SIZE, info, "xsm_dataset_info", err);
}

xsm_status xsm_dataset_get_row(const xsm_dataset *d, uint64_t index, xsm_row *row, xsm_error *err)
{
    if (!d) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_dataset_get_row: dataset is NULL");
    }
    if (index >= d->rows) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "row %llu; rows are numbered from 0 to %llu", (unsigned long long)index,
                         (unsigned long long)d->rows - 1);
    }
    size_t labels;
    xsmi_features f = xsmi_dataset_features(d, index);
    xsm_row r = XSM_ROW_INIT;
    r.values = f.values;
    r.index = f.index;
    r.count = f.count;
    r.labels = xsmi_dataset_labels(d, index, &labels);
    r.label_count = labels;
    return xsmi_options_write(&r, sizeof r, FIRST_ROW_SIZE, row, "xsm_row", err);
}

xsm_status xsm_dataset_get_classes(const xsm_dataset *d, xsm_class_map *map, xsm_error *err)
{
    if (!d) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_dataset_get_classes: dataset is NULL");
    }
    xsm_class_map m = XSM_CLASS_MAP_INIT;
    m.classes = d->classes;
    m.features = d->features;
    m.labels = d->class_labels;
    m.names = (const char *const *)d->class_names;
    return xsmi_options_write(&m, sizeof m, FIRST_MAP_SIZE, map, "xsm_class_map", err);
}

const uint64_t *xsm_dataset_class_counts(const xsm_dataset *d)
{
    return d ? d->class_counts : NULL;
}
