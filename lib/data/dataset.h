/*
 * Inside of a dataset, for the floors above that read rows in their inner loops.
 */
#ifndef XSMI_DATASET_H
#define XSMI_DATASET_H

#include "base/base.h"

#include <xsoftmax/dataset.h>

struct xsm_dataset {
    xsm_context *context;
    uint64_t rows;
    uint32_t features;
    uint32_t classes;
    bool sparse;
    int32_t format;

    /* Features: dense rows `stride` floats apart, or CSR. */
    const float *values;
    size_t stride;
    const uint64_t *offsets; /* [rows+1], NULL when dense */
    const uint32_t *index;
    /* Labels, always with offsets inside. */
    const uint64_t *label_offsets; /* [rows+1] */
    const uint32_t *labels;
    /* Class map. */
    int64_t *class_labels;  /* [classes] */
    char **class_names;     /* [classes] or NULL */
    uint64_t *class_counts; /* [classes] rows that carry the class */

    /* What of the above is ours to release; see dataset.c. Counts are those of the allocations. */
    bool owns_features, owns_labels;
    size_t value_capacity, index_capacity, offset_capacity, label_capacity, label_offset_capacity;

    /* Counted when the contents change (xsmi_dataset_count()). */
    uint64_t label_total, unlabelled, empty, unseen_rows, unseen_labels, dropped_features;
};

/* A row's features and labels as a small view. */
typedef struct xsmi_features {
    const float *values;
    const uint32_t *index; /* NULL = dense */
    size_t count;
} xsmi_features;

static inline xsmi_features xsmi_dataset_features(const xsm_dataset *d, uint64_t row)
{
    xsmi_features f;
    if (d->sparse) {
        uint64_t start = d->offsets[row];
        f.values = d->values + start;
        f.index = d->index + start;
        f.count = (size_t)(d->offsets[row + 1] - start);
    } else {
        f.values = d->values + row * d->stride;
        f.index = NULL;
        f.count = d->features;
    }
    return f;
}

static inline const uint32_t *xsmi_dataset_labels(const xsm_dataset *d, uint64_t row, size_t *count)
{
    *count = (size_t)(d->label_offsets[row + 1] - d->label_offsets[row]);
    return d->labels + d->label_offsets[row];
}

/* What a model stores of a fitted transform, and how it gets it back. idf is [idf_count] or NULL. */
const float *xsmi_transform_idf(const xsm_transform *t, uint32_t *count);
/* The D that it was fitted for, 0 if it was not. */
uint32_t xsmi_transform_features(const xsm_transform *t);
/* The D that rows have afterwards. */
uint32_t xsmi_transform_output_features(const xsm_transform *t);
/* A fitted transform from its stored parts. */
xsm_status xsmi_transform_restore(xsm_context *ctx, const char *description, uint32_t features, const float *idf,
                                  uint32_t idf_count, xsm_transform **out, xsm_error *err);

#endif
