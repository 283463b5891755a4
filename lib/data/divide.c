/* Dividing the rows of a dataset among the ranks of its context: part.h. */
#include "data/part.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/share.h"

#include <string.h>

/* What a dataset has once it is divided. */
typedef struct share {
    xsmi_row_part *part;
    xsmi_feature_arrays of; /* without offsets if the dataset owns its own */
} share;

static void free_share(xsm_context *ctx, const share *s, uint64_t rows)
{
    xsmi_row_part_free(ctx, s->part, rows);
    xsmi_feature_arrays_free(ctx, &s->of);
}

static xsm_status new_part(const xsm_dataset *d, xsmi_row_part **out, xsm_error *err)
{
    xsm_context *ctx = d->context;
    const uint32_t ranks = xsmi_ranks(ctx), rank = xsmi_rank(ctx);
    xsmi_row_part *p = xsmi_allocate_zero(ctx, 1, sizeof *p);
    if (!p) {
        return xsmi_fail_memory(err, sizeof *p, "a share of the rows");
    }
    *out = p;
    p->first = xsmi_share_start(d->rows, ranks, rank);
    p->end = xsmi_share_start(d->rows, ranks, rank + 1);
    p->hash = xsmi_dataset_hash_features(d);
    p->order_bytes = xsmi_dataset_order_bytes(d);
    p->place = xsmi_allocate_zero(ctx, d->rows, sizeof *p->place);
    p->sizes = xsmi_allocate(ctx, 2 * (uint64_t)ranks, sizeof *p->sizes);
    p->at = p->sizes ? p->sizes + ranks : NULL;
    return p->place && p->sizes ? XSM_OK
                                : xsmi_fail_memory(err, (size_t)d->rows * sizeof *p->place, "a share of the rows");
}

/* Rows copied between two looks whether to go on. */
#define ROWS_TOGETHER 1024

/* Copies what this rank keeps. The dataset's contents stay as they are. */
static xsm_status copy_share(xsm_dataset *d, share *s, xsm_error *err)
{
    XSMI_TRY(xsmi_dataset_own(d, XSMI_OWN_LABELS | XSMI_OWN_WEIGHTS, err));
    XSMI_TRY(new_part(d, &s->part, err));
    const uint64_t first = s->part->first, rows = s->part->end - first;
    xsmi_feature_arrays *of = &s->of;
    xsm_status status = XSM_OK;
    of->stride = d->sparse ? 0 : xsmi_dataset_stride(d->features);
    const uint64_t values = d->sparse ? d->offsets[s->part->end] - d->offsets[first] : rows * of->stride;
    of->values = xsmi_dataset_allocate(d, values, sizeof *of->values, &of->value_capacity, &status, err);
    if (d->sparse) {
        of->index = xsmi_dataset_allocate(d, values, sizeof *of->index, &of->index_capacity, &status, err);
    }
    if (d->sparse && d->capacity.offsets == 0) {
        of->offsets = xsmi_dataset_allocate(d, d->rows + 1, sizeof *of->offsets, &of->offset_capacity, &status, err);
    }
    XSMI_TRY(status);
    if (of->offsets) {
        XSMI_TRY(xsmi_copy_bytes(d->context, of->offsets, d->offsets, (size_t)(d->rows + 1) * sizeof *d->offsets, err));
    }
    if (d->sparse) {
        const uint64_t at = d->offsets[first];
        XSMI_TRY(xsmi_copy_bytes(d->context, of->values, d->values + at, (size_t)values * sizeof *of->values, err));
        return xsmi_copy_bytes(d->context, of->index, d->index + at, (size_t)values * sizeof *of->index, err);
    }
    for (uint64_t i = 0; i < rows; i++) {
        float *to = of->values + i * of->stride;
        memcpy(to, d->values + (first + i) * d->stride, d->features * sizeof *to);
        memset(to + d->features, 0, (of->stride - d->features) * sizeof *to);
        if (i % ROWS_TOGETHER == 0) {
            XSMI_TRY(xsmi_go_on(d->context, err));
        }
    }
    return XSM_OK;
}

static void install(xsm_dataset *d, const share *s)
{
    xsmi_dataset_take_features(d, &s->of);
    for (size_t i = 0; i < d->mapped.count; i++) {
        xsmi_unmap_file(&d->mapped.files[i]);
    }
    d->mapped.count = 0;
    d->part = s->part;
}

static xsm_status divide(xsm_dataset *d, xsm_error *err)
{
    xsm_context *ctx = d->context;
    XSMI_TRY(xsmi_check_same_rows(ctx, d, err));
    share s = {.part = NULL};
    const xsm_status status = xsmi_agree(ctx, copy_share(d, &s, err), err);
    if (status != XSM_OK) {
        free_share(ctx, &s, d->rows);
        return status;
    }
    install(d, &s);
    return XSM_OK;
}

xsm_status xsm_dataset_divide(xsm_dataset *d, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!d) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_dataset_divide: dataset is NULL");
    }
    if (xsmi_ranks(d->context) == 1 || d->part) {
        return XSM_OK;
    }
    xsmi_activity activity;
    xsmi_begin(&activity, d->context, "dividing rows", "rows", 0);
    return xsmi_end(&activity, divide(d, err), err);
}
