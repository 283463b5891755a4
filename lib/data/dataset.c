/*
 * Datasets: their arrays, the ownership of these, and views of them.
 *
 * Each array belongs either to the caller (its capacity is 0) or to the dataset. Before an array is changed it is
 * copied if it is the caller's, so that a borrowed array is never written to.
 */
#include "data/dataset.h"

#include "data/schema.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/spool.h"
#include "base/random.h"
#include "base/order.h"
#include "base/option.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/dataset.h>

/* -- memory ------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_dataset_start(xsm_context *ctx, xsm_dataset **out, xsm_error *err)
{
    xsm_dataset *d;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &d, xsm_dataset, "a dataset", err));
    xsmi_holders_start(&d->holders);
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
    release(d, d->values, d->capacity.values, sizeof *d->values);
    release(d, d->index, d->capacity.index, sizeof *d->index);
    release(d, d->offsets, d->capacity.offsets, sizeof *d->offsets);
    release(d, d->labels, d->capacity.labels, sizeof *d->labels);
    release(d, d->label_offsets, d->capacity.label_offsets, sizeof *d->label_offsets);
    release(d, d->weights, d->capacity.weights, sizeof *d->weights);
    release(d, d->label_weights, d->capacity.label_weights, sizeof *d->label_weights);
    memset(&d->capacity, 0, sizeof d->capacity);
}

void xsmi_dataset_let_go(xsm_dataset *d)
{
    const bool values = d->features > 0 && d->capacity.values == 0;
    const bool index = d->sparse && (d->capacity.index == 0 || d->capacity.offsets == 0);
    const bool labels = d->capacity.labels == 0 || d->capacity.label_offsets == 0;
    const bool weights =
        (d->weights && d->capacity.weights == 0) || (d->label_weights && d->capacity.label_weights == 0);
    if (!values && !index && !labels && !weights) {
        xsmi_lender_tell(&d->lender);
    }
}

void xsmi_dataset_take_features(xsm_dataset *d, const xsmi_feature_arrays *arrays)
{
    release(d, d->values, d->capacity.values, sizeof *d->values);
    release(d, d->index, d->capacity.index, sizeof *d->index);
    d->values = arrays->values;
    d->capacity.values = arrays->value_capacity;
    d->stride = arrays->stride;
    d->index = arrays->index;
    d->capacity.index = arrays->index_capacity;
    if (arrays->offsets) {
        release(d, d->offsets, d->capacity.offsets, sizeof *d->offsets);
        d->offsets = arrays->offsets;
        d->capacity.offsets = arrays->offset_capacity;
    }
    xsmi_dataset_edited(d);
    xsmi_dataset_let_go(d);
}

void xsmi_feature_arrays_free(xsm_context *ctx, const xsmi_feature_arrays *arrays)
{
    xsmi_release(ctx, arrays->values, arrays->value_capacity, sizeof *arrays->values);
    xsmi_release(ctx, arrays->index, arrays->index_capacity, sizeof *arrays->index);
    xsmi_release(ctx, arrays->offsets, arrays->offset_capacity, sizeof *arrays->offsets);
}

static void release_classes(xsm_context *ctx, const xsmi_dataset_map *map, uint32_t classes)
{
    xsmi_release(ctx, map->labels, classes, sizeof *map->labels);
    xsmi_release(ctx, map->names, classes, sizeof *map->names);
    xsmi_release(ctx, map->counts, classes, sizeof *map->counts);
    xsmi_release(ctx, map->text, map->text_size, 1);
}

xsm_dataset *xsm_dataset_ref(const xsm_dataset *dataset)
{
    return xsmi_dataset_retain(dataset);
}

void xsm_dataset_free(xsm_dataset *d)
{
    if (!d || !xsmi_holders_drop(&d->holders)) {
        return;
    }
    xsm_context *ctx = d->context;
    xsmi_lender lender = d->lender;
    release_rows(d);
    release_classes(ctx, &d->map, d->classes);
    xsmi_schema_release(d->schema);
    for (size_t i = 0; i < d->mapped.count; i++) {
        xsmi_unmap_file(&d->mapped.files[i]);
    }
    xsmi_release(ctx, d, 1, sizeof *d);
    xsmi_lender_tell(&lender);
    xsm_context_free(ctx);
}

size_t xsmi_dataset_mapped_bytes(const xsm_dataset *d)
{
    size_t bytes = 0;
    for (size_t i = 0; i < d->mapped.count; i++) {
        bytes += d->mapped.files[i].size;
    }
    return d->capacity.values > 0 ? 0 : bytes; /* copied rows are no longer in the file */
}

void xsmi_dataset_passed(const xsm_dataset *d, uint64_t first, uint64_t count)
{
    size_t bytes = xsmi_dataset_mapped_bytes(d);
    if (bytes < XSMI_FORGET_BYTES) {
        return;
    }
    double a_row = (double)bytes / (double)d->rows;
    if ((uint64_t)((double)first * a_row / (double)XSMI_FORGET_BYTES) !=
        (uint64_t)((double)(first + count) * a_row / (double)XSMI_FORGET_BYTES)) {
        for (size_t i = 0; i < d->mapped.count; i++) {
            xsmi_mapping_forget(&d->mapped.files[i]);
        }
    }
}

void *xsmi_dataset_allocate(xsm_dataset *d, uint64_t count, size_t each, size_t *capacity, xsm_status *status,
                            xsm_error *err)
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
    d->map.counts = counts;
    d->map.labels = label_copy;
    d->map.names = name_copy;
    d->map.text = text;
    d->map.text_size = text_size;
    return XSM_OK;
}

xsm_status xsmi_dataset_replace_classes(xsm_dataset *d, uint32_t classes, const int64_t *labels,
                                        const char *const *names, xsm_error *err)
{
    const xsmi_dataset_map old = d->map;
    const uint32_t before = d->classes;
    XSMI_TRY(xsmi_dataset_set_classes(d, classes, labels, names, err));
    release_classes(d->context, &old, before);
    return XSM_OK;
}

/* An array of a dataset, which is copied before a change if it is the caller's. */
typedef struct owned {
    bool wanted;
    void *pointer;    /* the address of the dataset's pointer */
    size_t *capacity; /* 0 if the array is the caller's */
    uint64_t count;
    size_t each;
    void *copy;
    size_t copy_capacity;
} owned;

xsm_status xsmi_dataset_worked(const xsm_context *ctx, size_t *since, size_t numbers, xsm_error *err)
{
    enum { NUMBERS = 1 << 20 };
    *since += numbers;
    if (*since < NUMBERS) {
        return XSM_OK;
    }
    *since = 0;
    return xsmi_go_on(ctx, err);
}

/* Makes and fills the copy, in which dense rows are `stride` floats apart. */
static xsm_status copy_array(const xsm_dataset *d, const owned *a, size_t stride, xsm_error *err)
{
    const void *from;
    memcpy(&from, a->pointer, sizeof from);
    if (from == d->values && !d->sparse) {
        size_t since = 0;
        for (uint64_t i = 0; i < d->rows; i++) {
            copy_dense((float *)a->copy + i * stride, stride, d->values + i * d->stride, d->features);
            XSMI_TRY(xsmi_dataset_worked(d->context, &since, stride, err));
        }
        return XSM_OK;
    }
    return xsmi_copy_bytes(d->context, a->copy, from, (size_t)a->count * a->each, err);
}

xsm_status xsmi_dataset_own(xsm_dataset *d, unsigned which, xsm_error *err)
{
    const size_t stride = d->sparse ? 0 : xsmi_dataset_stride(d->features);
    const uint64_t values = d->sparse ? d->offsets[d->rows] : d->rows * stride, labels = d->label_offsets[d->rows];
    const bool own_values = which & XSMI_OWN_VALUES, own_labels = which & XSMI_OWN_LABELS;
    const bool own_index = (which & XSMI_OWN_INDEX) && d->sparse,
               own_weights = (which & XSMI_OWN_WEIGHTS) && d->weights;
    if (stride > 0 && d->rows > SIZE_MAX / sizeof(float) / stride) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%llu rows of %zu floats do not fit the address space",
                         (unsigned long long)d->rows, stride);
    }
    owned arrays[] = {
        {own_values, &d->values, &d->capacity.values, values, sizeof *d->values, NULL, 0},
        {own_index, &d->index, &d->capacity.index, values, sizeof *d->index, NULL, 0},
        {own_index, &d->offsets, &d->capacity.offsets, d->rows + 1, sizeof *d->offsets, NULL, 0},
        {own_labels, &d->labels, &d->capacity.labels, labels, sizeof *d->labels, NULL, 0},
        {own_labels, &d->label_offsets, &d->capacity.label_offsets, d->rows + 1, sizeof *d->label_offsets, NULL, 0},
        {own_weights, &d->weights, &d->capacity.weights, d->rows, sizeof *d->weights, NULL, 0},
        {own_labels && d->label_weights, &d->label_weights, &d->capacity.label_weights, labels,
         sizeof *d->label_weights, NULL, 0},
    };
    const size_t count = sizeof arrays / sizeof *arrays;
    xsm_status status = XSM_OK;
    for (owned *a = arrays; a < arrays + count; a++) {
        a->wanted = a->wanted && *a->capacity == 0;
        a->copy = a->wanted ? xsmi_dataset_allocate(d, a->count, a->each, &a->copy_capacity, &status, err) : NULL;
    }
    for (owned *a = arrays; a < arrays + count && status == XSM_OK; a++) {
        status = a->wanted ? copy_array(d, a, stride, err) : XSM_OK;
    }
    for (owned *a = arrays; a < arrays + count; a++) {
        if (status != XSM_OK) {
            xsmi_release(d->context, a->copy, a->copy_capacity, a->each);
        } else if (a->wanted) {
            memcpy(a->pointer, &a->copy, sizeof a->copy);
            *a->capacity = a->copy_capacity;
        }
    }
    if (status == XSM_OK && own_values && arrays[0].wanted && !d->sparse) {
        d->stride = stride;
    }
    if (status == XSM_OK) {
        xsmi_dataset_let_go(d);
    }
    return status;
}

xsm_status xsmi_dataset_gather(xsm_dataset *d, const xsm_dataset *from, const uint64_t *rows, uint64_t count,
                               xsm_error *err)
{
    /* Rows may be chosen more than once, so that the sums may be larger than the dataset's. */
    uint64_t value_count = 0;
    uint64_t label_count = 0;
    size_t stride = from->sparse ? 0 : xsmi_dataset_stride(from->features);
    bool fits = count < UINT64_MAX;
    for (uint64_t i = 0; i < count && fits; i++) {
        uint64_t r = rows[i];
        XSMI_TRY(i % 4096 == 0 ? xsmi_go_on(from->context, err) : XSM_OK);
        uint64_t values = from->sparse ? from->offsets[r + 1] - from->offsets[r] : stride;
        fits = !__builtin_add_overflow(value_count, values, &value_count) &&
               !__builtin_add_overflow(label_count, from->label_offsets[r + 1] - from->label_offsets[r], &label_count);
    }
    if (!fits) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%llu rows do not fit the address space", (unsigned long long)count);
    }
    xsm_status status = XSM_OK;
    float *v = xsmi_dataset_allocate(d, value_count, sizeof *v, &d->capacity.values, &status, err);
    d->values = v;
    uint32_t *l = xsmi_dataset_allocate(d, label_count, sizeof *l, &d->capacity.labels, &status, err);
    d->labels = l;
    uint64_t *p = xsmi_dataset_allocate(d, count + 1, sizeof *p, &d->capacity.label_offsets, &status, err);
    d->label_offsets = p;
    float *w = NULL;
    if (from->weights) {
        w = xsmi_dataset_allocate(d, count, sizeof *w, &d->capacity.weights, &status, err);
        d->weights = w;
    }
    float *lw = NULL;
    if (from->label_weights) {
        lw = xsmi_dataset_allocate(d, label_count, sizeof *lw, &d->capacity.label_weights, &status, err);
        d->label_weights = lw;
    }
    uint32_t *x = NULL;
    uint64_t *o = NULL;
    if (from->sparse) {
        x = xsmi_dataset_allocate(d, value_count, sizeof *x, &d->capacity.index, &status, err);
        d->index = x;
        o = xsmi_dataset_allocate(d, count + 1, sizeof *o, &d->capacity.offsets, &status, err);
        d->offsets = o;
    }
    if (status != XSM_OK) {
        return status; /* the arrays made so far are released with d */
    }
    d->sparse = from->sparse;
    d->features = from->features;
    d->stride = stride;
    uint64_t v_next = 0;
    uint64_t l_next = 0;
    size_t since = 0;
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
        if (lw) {
            memcpy(lw + l_next, xsmi_dataset_label_weights(from, r), labels * sizeof *lw);
        }
        p[i] = l_next;
        l_next += labels;
        XSMI_TRY(
            xsmi_dataset_worked(d->context, &since, (from->sparse ? (size_t)(v_next - o[i]) : stride) + labels, err));
        if (w) {
            w[i] = from->weights[r];
        }
    }
    if (o) {
        o[count] = v_next;
    }
    p[count] = l_next;
    d->rows = count;
    return XSM_OK;
}

void xsmi_dataset_move_rows(xsm_dataset *d, xsm_dataset *from)
{
    release_rows(d);
    xsmi_dataset_edited(d);
    d->rows = from->rows;
    d->features = from->features;
    d->sparse = from->sparse;
    d->stride = from->stride;
    d->values = from->values;
    d->index = from->index;
    d->offsets = from->offsets;
    d->labels = from->labels;
    d->label_offsets = from->label_offsets;
    d->weights = from->weights;
    d->label_weights = from->label_weights;
    d->capacity = from->capacity;
    memset(&from->capacity, 0, sizeof from->capacity);
    from->weights = from->label_weights = NULL;
    from->rows = 0;
    xsmi_dataset_let_go(d);
}

/* -- weights ------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_check_weights(const float *weights, uint64_t count, const char *what, xsm_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!(weights[i] >= 0 && weights[i] <= FLT_MAX)) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "weight %llu (from 0) of the %s is %g; finite weights of 0 or more are accepted",
                             (unsigned long long)i, what, (double)weights[i]);
        }
    }
    return XSM_OK;
}

void xsmi_dataset_take_weights(xsm_dataset *d, float *weights, size_t capacity)
{
    if (d->capacity.weights > 0) {
        xsmi_release(d->context, xsmi_dataset_own_weights(d), d->capacity.weights, sizeof *d->weights);
    }
    d->weights = weights;
    d->capacity.weights = capacity;
    xsmi_dataset_count_weights(d);
    xsmi_dataset_let_go(d);
}

void xsmi_dataset_take_label_weights(xsm_dataset *d, float *weights, size_t capacity)
{
    if (d->capacity.label_weights > 0) {
        xsmi_release(d->context, xsmi_dataset_own_label_weights(d), d->capacity.label_weights,
                     sizeof *d->label_weights);
    }
    d->label_weights = weights;
    d->capacity.label_weights = capacity;
    xsmi_dataset_edited(d);
    xsmi_dataset_let_go(d);
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
    xsmi_dataset_edited(d);
    d->counted.empty = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        d->counted.empty += xsmi_dataset_row_is_empty(d, i);
        xsmi_dataset_passed(d, i, 1);
        xsmi_dataset_poll(d->context, i);
    }
}

void xsmi_dataset_count_weights(xsm_dataset *d)
{
    xsmi_dataset_edited(d);
    d->total_weight = d->weights ? 0 : (double)d->rows;
    for (uint64_t i = 0; d->weights && i < d->rows; i++) {
        d->total_weight += (double)d->weights[i];
    }
}

static void start_counts(xsm_dataset *d)
{
    xsmi_dataset_edited(d);
    d->counted.labels = d->label_offsets[d->rows];
    xsmi_dataset_count_weights(d);
    d->counted.unlabelled = d->counted.unseen_rows = d->counted.unseen_labels = 0;
    memset(d->map.counts, 0, d->classes * sizeof *d->map.counts);
}

static void count_row(xsm_dataset *d, uint64_t row)
{
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(d, row, &count);
    size_t unseen = 0;
    for (size_t j = 0; j < count; j++) {
        if (labels[j] == XSM_CLASS_UNSEEN) {
            unseen++;
        } else {
            d->map.counts[labels[j]]++;
        }
    }
    d->counted.unlabelled += count == 0;
    d->counted.unseen_labels += unseen;
    d->counted.unseen_rows += count > 0 && unseen == count;
}

void xsmi_dataset_count_labels(xsm_dataset *d)
{
    start_counts(d);
    for (uint64_t i = 0; i < d->rows; i++) {
        count_row(d, i);
        xsmi_dataset_poll(d->context, i);
    }
}

/* Labels that are checked between two polls. */
#define LABELS_TOGETHER ((uint64_t)1 << 16)

/* Polls after a row, now and then; *next is the position at which it polls next. */
static xsm_status poll_after(const xsm_dataset *d, uint64_t row, uint64_t *next, xsm_error *err)
{
    if (d->label_offsets[row + 1] + row < *next) {
        return XSM_OK;
    }
    *next = d->label_offsets[row + 1] + row + LABELS_TOGETHER;
    return xsmi_go_on(d->context, err);
}

/* Checks a row's labels. Meanwhile the class map's counts hold the last row with each class, from 1. */
static xsm_status check_row(xsm_dataset *d, uint64_t row, const char *name, xsm_error *err)
{
    const char *file = name ? name : "", *colon = name ? ": " : "";
    const xsm_status wrong = name ? XSM_ERROR_FORMAT : XSM_ERROR_RANGE;
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(d, row, &count);
    for (size_t j = 0; j < count; j++) {
        if (labels[j] == XSM_CLASS_UNSEEN) {
            continue;
        }
        if (labels[j] >= d->classes) {
            return xsmi_fail(err, wrong,
                             "%s%srow %llu (from 0) has the label %u; labels are below the number of classes, %u", file,
                             colon, (unsigned long long)row, labels[j], d->classes);
        }
        if (d->map.counts[labels[j]] == row + 1) {
            return xsmi_fail(err, wrong, "%s%srow %llu (from 0) has the label %u twice", file, colon,
                             (unsigned long long)row, labels[j]);
        }
        d->map.counts[labels[j]] = row + 1;
    }
    return XSM_OK;
}

xsm_status xsmi_dataset_check_labels(xsm_dataset *d, const char *name, xsm_error *err)
{
    uint64_t next = 0;
    memset(d->map.counts, 0, d->classes * sizeof *d->map.counts);
    for (uint64_t i = 0; i < d->rows; i++) {
        XSMI_TRY(check_row(d, i, name, err));
        XSMI_TRY(poll_after(d, i, &next, err));
    }
    start_counts(d);
    next = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        count_row(d, i);
        XSMI_TRY(poll_after(d, i, &next, err));
    }
    return XSM_OK;
}

/* -- views -------------------------------------------------------------------------------------------------------- */

xsm_status xsm_dataset_get_info(const xsm_dataset *d, xsm_dataset_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"});
    xsm_dataset_info i = XSM_DATASET_INFO_INIT;
    i.rows = d->rows;
    i.values = d->sparse ? d->offsets[d->rows] : d->rows * d->features;
    i.labels = d->counted.labels;
    i.unlabelled = d->counted.unlabelled;
    i.empty = d->counted.empty;
    i.unseen_rows = d->counted.unseen_rows;
    i.unseen_labels = d->counted.unseen_labels;
    i.dropped_features = d->counted.dropped_features;
    i.features = d->features;
    i.classes = d->classes;
    i.sparse = d->sparse;
    i.format = d->format;
    i.total_weight = d->total_weight;
    i.weighted = d->weights != NULL;
    i.label_weighted = d->label_weights != NULL;
    i.unknown_features = d->unknown_features;
    return XSMI_WRITE(xsm_dataset_info, &i, info, err);
}

xsm_status xsm_dataset_get_row(const xsm_dataset *d, uint64_t index, xsm_row *row, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"});
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
    r.weight = xsmi_dataset_weight(d, index);
    r.label_weights = xsmi_dataset_label_weights(d, index);
    return XSMI_WRITE(xsm_row, &r, row, err);
}

xsm_status xsm_dataset_get_class_map(const xsm_dataset *d, xsm_class_map *map, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"});
    xsm_class_map m = XSM_CLASS_MAP_INIT;
    m.classes = d->classes;
    m.features = d->features;
    m.labels = d->map.labels;
    m.names = (const char *const *)d->map.names;
    m.counts = d->map.counts;
    m.rows = d->rows;
    xsmi_schema_view(d->schema, &m);
    return XSMI_WRITE(xsm_class_map, &m, map, err);
}

/* -- the order of an epoch ----------------------------------------------------------------------------------------- */

/*
 * The order of the rows of an epoch. Rows in memory, or in a file that is small, are permuted, each order equally
 * likely. In larger files each single row would cost a page. There, runs of some megabytes are permuted first, then
 * the rows within each stretch of 64 runs. Thus little of the file is in use at a time, every byte is read once an
 * epoch, and neighbours in the file are far apart in the order.
 *
 * In each array a run is longer than the 2 MB that some file systems map at once.
 */

#define RUN_BYTES ((size_t)4 << 20)
/* The smallest file that is ordered by runs. */
#define LARGE_BYTES ((size_t)1 << 29)

size_t xsmi_dataset_order_bytes(const xsm_dataset *d)
{
    size_t bytes = xsmi_dataset_mapped_bytes(d);
    return bytes < LARGE_BYTES ? 0 : bytes;
}

xsm_status xsmi_dataset_order(const xsm_dataset *d, xsmi_stream *stream, uint64_t *order, xsm_error *err)
{
    size_t bytes = xsmi_dataset_order_bytes(d);
    if (bytes == 0) {
        return xsmi_stream_order(d->context, stream, order, (size_t)d->rows, err);
    }
    double a_row = (double)bytes / (double)d->rows;
    uint64_t each = a_row < (double)RUN_BYTES ? (uint64_t)((double)RUN_BYTES / a_row) : 1;
    uint64_t stretch = a_row < (double)XSMI_FORGET_BYTES ? (uint64_t)((double)XSMI_FORGET_BYTES / a_row) : 1;
    uint64_t runs = (d->rows + each - 1) / each;
    /* The runs' numbers are at the end of the array. Rows written from its start never overwrite numbers still to be
     * read: every run but the last has `each` rows. */
    uint64_t *numbers = order + (d->rows - runs);
    XSMI_TRY(xsmi_stream_order(d->context, stream, numbers, (size_t)runs, err));
    uint64_t next = 0;
    for (uint64_t i = 0; i < runs; i++) {
        uint64_t run = numbers[i];
        uint64_t count = XSMI_MIN(d->rows - run * each, each);
        for (uint64_t j = 0; j < count; j++) {
            order[next++] = run * each + j;
        }
    }
    for (uint64_t start = 0; start < d->rows; start += stretch) {
        const uint64_t left = d->rows - start;
        XSMI_TRY(xsmi_stream_permute(d->context, stream, order + start, (size_t)XSMI_MIN(left, stretch), err));
    }
    return XSM_OK;
}

/* -- weights of rows ----------------------------------------------------------------------------------------------- */

/* Refuses an array that does not have `wanted` elements. */
static xsm_status check_count(const float *weights, size_t count, const char *member, uint64_t wanted, xsm_error *err)
{
    const uint64_t expected = weights ? wanted : 0;
    return count == expected
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_SHAPE, "xsm_dataset_weights.%s is %zu; %" PRIu64 " is accepted, %s", member,
                           count, expected, weights ? "as the dataset has" : "without weights");
}

xsm_status xsm_dataset_set_weights(xsm_dataset *d, const xsm_dataset_weights *given, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"});
    xsm_dataset_weights w = XSM_DATASET_WEIGHTS_INIT;
    XSMI_TRY(XSMI_READ(xsm_dataset_weights, &w, given, err));
    const uint64_t labels = d->label_offsets[d->rows];
    float *row_weights = NULL, *label_weights = NULL;
    size_t row_capacity = 0, label_capacity = 0;
    xsm_status status = XSM_OK;
    XSMI_TRY(check_count(w.rows, w.row_count, "row_count", d->rows, err));
    XSMI_TRY(check_count(w.labels, w.label_count, "label_count", labels, err));
    XSMI_TRY(w.rows ? xsmi_check_weights(w.rows, d->rows, "rows", err) : XSM_OK);
    XSMI_TRY(w.labels ? xsmi_check_weights(w.labels, labels, "labels", err) : XSM_OK);
    if (w.rows) {
        row_weights = xsmi_dataset_allocate(d, d->rows, sizeof *row_weights, &row_capacity, &status, err);
    }
    if (w.labels) {
        label_weights = xsmi_dataset_allocate(d, labels, sizeof *label_weights, &label_capacity, &status, err);
    }
    if (status != XSM_OK) {
        xsmi_release(d->context, row_weights, row_capacity, sizeof *row_weights);
        return status;
    }
    if (w.rows) {
        memcpy(row_weights, w.rows, (size_t)d->rows * sizeof *row_weights);
    }
    if (w.labels) {
        memcpy(label_weights, w.labels, (size_t)labels * sizeof *label_weights);
    }
    xsmi_dataset_take_weights(d, row_weights, row_capacity);
    xsmi_dataset_take_label_weights(d, label_weights, label_capacity);
    return XSM_OK;
}

/* -- the class map ------------------------------------------------------------------------------------------------- */

/* Copies the caller's map, which may be another release's; false for a map that no release has. */
static bool read_map(const xsm_class_map *given, xsm_class_map *map)
{
    *map = (xsm_class_map)XSM_CLASS_MAP_INIT;
    return given && XSMI_READ(xsm_class_map, map, given, NULL) == XSM_OK;
}

static int64_t number_of(const xsm_class_map *map, uint32_t k)
{
    return map->labels ? map->labels[k] : (int64_t)k;
}

size_t xsm_class_map_label(const xsm_class_map *given, uint32_t class_number, char *buffer, size_t size)
{
    xsm_class_map map;
    char number[24];
    const char *text = "";
    if (read_map(given, &map) && class_number < map.classes) {
        snprintf(number, sizeof number, "%" PRId64, number_of(&map, class_number));
        text = map.names ? map.names[class_number] : number;
    }
    const size_t length = strlen(text);
    if (buffer && size > 0) {
        const size_t fits = length < size ? length : size - 1;
        memcpy(buffer, text, fits);
        buffer[fits] = '\0';
    }
    return length;
}

uint32_t xsmi_class_of_number(const int64_t *labels, uint32_t classes, int64_t label)
{
    if (!labels) {
        return label >= 0 && label < (int64_t)classes ? (uint32_t)label : XSM_CLASS_UNSEEN;
    }
    uint32_t low = 0, high = classes;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (labels[middle] < label) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < classes && labels[low] == label ? low : XSM_CLASS_UNSEEN;
}

uint32_t xsm_class_map_find(const xsm_class_map *given, const char *label)
{
    xsm_class_map map;
    int64_t number;
    if (!label || !read_map(given, &map)) {
        return XSM_NO_CLASS;
    }
    const bool whole = xsmi_whole_number(label, strlen(label), &number);
    if (!map.names) {
        return whole || xsmi_parse_int(label, &number) ? xsmi_class_of_number(map.labels, map.classes, number)
                                                       : XSM_NO_CLASS;
    }
    for (uint32_t k = 0; k < map.classes; k++) {
        if (strcmp(map.names[k], label) == 0) {
            return k;
        }
    }
    for (uint32_t k = 0; k < map.classes && whole && !map.labels; k++) {
        int64_t other;
        if (xsmi_whole_number(map.names[k], strlen(map.names[k]), &other) && other == number) {
            return k;
        }
    }
    return XSM_NO_CLASS;
}
