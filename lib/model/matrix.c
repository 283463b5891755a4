#include "model/matrix.h"

#include "base/activity.h"
#include "base/order.h"
#include "model/narrow.h"

#include <math.h>
#include <string.h>

#include <xsoftmax/model.h>

/* -- memory -------------------------------------------------------------------------------------------------------- */

void xsmi_weights_start(const xsmi_kernels *kernels, uint32_t rows, uint32_t features, xsmi_weights *w)
{
    memset(w, 0, sizeof *w);
    w->kernels = kernels;
    w->rows = rows;
    w->features = features;
    w->layout = XSM_LAYOUT_CLASS_MAJOR;
    w->alpha = 1;
}

bool xsmi_weights_size(const xsmi_weights *w, int32_t layout, size_t *stride, size_t *count)
{
    const bool class_major = layout == XSM_LAYOUT_CLASS_MAJOR;
    size_t bytes;
    *stride = xsmi_row_stride(class_major ? w->features : w->rows);
    bool fits = xsmi_multiply(class_major ? w->rows : w->features, *stride, count) &&
                xsmi_multiply(*count, sizeof(float), &bytes);
    *count = fits && *count == 0 ? 1 : *count; /* a model without features has an allocation, too */
    return fits && bytes <= SIZE_MAX / 2;
}

static xsm_status fail_too_large(const xsmi_weights *w, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_LIMIT, "%u rows of %u weights are more than can be addressed", w->rows,
                     w->features);
}

xsm_status xsmi_weights_allocate(xsm_context *ctx, int32_t layout, const char *what, xsmi_weights *w, xsm_error *err)
{
    size_t stride, count;
    if (!xsmi_weights_size(w, layout, &stride, &count)) {
        return fail_too_large(w, err);
    }
    float *weight;
    XSMI_TRY(xsmi_zeros_new(ctx, &weight, count, sizeof *weight, what, err));
    w->weight = weight;
    w->stride = stride;
    w->weight_count = count;
    w->layout = layout;
    return XSM_OK;
}

xsm_status xsmi_weights_allocate_narrow(xsm_context *ctx, int32_t dtype, xsmi_weights *w, xsm_error *err)
{
    size_t count;
    if (!xsmi_multiply(w->rows, w->features, &count) || count > SIZE_MAX / 2 / sizeof(uint16_t)) {
        return fail_too_large(w, err);
    }
    if (xsmi_has_factors(dtype)) {
        XSMI_TRY(xsmi_array_new(ctx, &w->row_scale, w->rows, sizeof *w->row_scale, "the factors of weights", err));
    }
    count *= xsmi_number_bytes(dtype);
    void *data;
    XSMI_TRY(xsmi_array_new(ctx, &data, count, 1, "weights in fewer bits", err));
    w->stride = w->features;
    w->narrow = (xsmi_narrow){dtype, data, w->stride};
    w->narrow_bytes = count;
    return XSM_OK;
}

void xsmi_weights_release(xsm_context *ctx, xsmi_weights *w)
{
    if (w->weight_count > 0) {
        xsmi_release(ctx, w->weight, w->weight_count, sizeof *w->weight);
    }
    if (w->narrow_bytes > 0) {
        xsmi_release(ctx, (void *)(uintptr_t)w->narrow.data, w->narrow_bytes, 1);
    }
    xsmi_sparse_release(w->sparse);
    w->weight = NULL;
    w->weight_count = 0;
    w->narrow = (xsmi_narrow){0, NULL, 0};
    w->narrow_bytes = 0;
    w->sparse = NULL;
}

/* -- layout -------------------------------------------------------------------------------------------------------- */

/* Side of a square that is transposed at once: the cache lines of both matrices stay in the L1 cache. */
#define TRANSPOSE_SIDE 32
/* Number of rows of the result that one job makes. */
#define TRANSPOSE_ROWS 64
/* Number of rows of the source of which TRANSPOSE_SIDE columns are transposed between two polls. */
#define TRANSPOSE_POLL (TRANSPOSE_SIDE * 64)
/* Number of floats of the source of one job that copies them without transposing. */
#define COPY_FLOATS ((size_t)1 << 20)

typedef struct copy_job {
    const xsm_context *context;
    const xsmi_weights *from, *to;
    size_t rows, columns; /* of the source in memory */
} copy_job;

static void copy_rows(void *state, const xsmi_range *r)
{
    const copy_job *job = state;
    for (size_t i = r->first; i < r->end; i++) {
        memcpy(job->to->weight + i * job->to->stride, job->from->weight + i * job->from->stride,
               job->columns * sizeof *job->to->weight);
    }
}

static void transpose_rows(void *state, const xsmi_range *r)
{
    const copy_job *job = state;
    const xsmi_weights *from = job->from, *to = job->to;
    for (size_t column = r->first; column < r->end; column += TRANSPOSE_SIDE) {
        size_t column_end = r->end - column < TRANSPOSE_SIDE ? r->end : column + TRANSPOSE_SIDE;
        for (size_t row = 0; row < job->rows; row += TRANSPOSE_SIDE) {
            if (row % TRANSPOSE_POLL == 0 && xsmi_poll(job->context)) {
                return;
            }
            size_t row_end = job->rows - row < TRANSPOSE_SIDE ? job->rows : row + TRANSPOSE_SIDE;
            for (size_t c = column; c < column_end; c++) {
                for (size_t i = row; i < row_end; i++) {
                    to->weight[c * to->stride + i] = from->weight[i * from->stride + c];
                }
            }
        }
        xsmi_advance(job->context, (column_end - column) * job->rows);
    }
}

static xsm_status copy_numbers(xsm_context *ctx, const xsmi_weights *from, const xsmi_weights *to, xsm_error *err)
{
    const bool class_major = from->layout == XSM_LAYOUT_CLASS_MAJOR;
    copy_job job = {.context = ctx,
                    .from = from,
                    .to = to,
                    .rows = class_major ? from->rows : from->features,
                    .columns = class_major ? from->features : from->rows};
    if (from->sparse) {
        const bool rows = to->layout == XSM_LAYOUT_CLASS_MAJOR;
        return xsmi_sparse_spread(from->sparse, to->weight, rows ? to->stride : 1, rows ? 1 : to->stride, err);
    }
    if (to->layout == from->layout) {
        const size_t each = job.columns < COPY_FLOATS ? COPY_FLOATS / XSMI_MAX(job.columns, 1) : 1;
        return xsmi_run_ranges(ctx, copy_rows, &job, job.rows, each, err);
    }
    return xsmi_run_ranges(ctx, transpose_rows, &job, job.columns, TRANSPOSE_ROWS, err);
}

xsm_status xsmi_weights_copy_as(xsm_context *ctx, const xsmi_weights *from, int32_t layout, const char *what,
                                xsmi_weights *to, xsm_error *err)
{
    xsmi_weights_start(from->kernels, from->rows, from->features, to);
    XSMI_TRY(xsmi_weights_allocate(ctx, layout, what, to, err));
    const xsm_status status = copy_numbers(ctx, from, to, err);
    if (status != XSM_OK) {
        xsmi_weights_release(ctx, to);
    }
    return status;
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

void xsmi_weights_copy(const xsmi_weights *w, const uint32_t *rows, size_t first, size_t count, bool raw, float *out,
                       size_t stride)
{
    const bool columns = w->layout == XSM_LAYOUT_FEATURE_MAJOR;
    for (size_t f = 0; columns && f < w->features; f++) {
        for (size_t i = 0; i < count; i++) {
            out[i * stride + f] = w->weight[f * w->stride + (rows ? rows[i] : first + i)];
        }
    }
    for (size_t i = 0; i < count; i++) {
        const size_t k = rows ? rows[i] : first + i;
        float *row = out + i * stride;
        if (w->narrow.data) {
            w->kernels->widen(&w->narrow, k * w->stride, w->features, row);
        } else if (!columns) {
            memcpy(row, w->weight + k * w->stride, w->features * sizeof *row);
        }
        const float scale = (float)(w->alpha * (w->row_scale ? w->row_scale[k] : 1.0));
        if (!raw && scale != 1.0f) {
            w->kernels->scale(row, w->features, scale);
        }
    }
}

/* -- scores -------------------------------------------------------------------------------------------------------- */

void xsmi_weights_score(const xsmi_weights *w, const xsmi_features *x, const uint32_t *rows, size_t count, double alpha,
                        float *scores, const xsmi_upcoming *upcoming)
{
    if (w->sparse) {
        for (size_t j = 0; j < count; j++) {
            scores[j] = xsmi_sparse_score(w->sparse, rows[j], x);
        }
    } else if (w->layout == XSM_LAYOUT_FEATURE_MAJOR) {
        for (size_t j = 0; j < count; j++) {
            /* Sums a column in the same order, and so with the same bits, as in a tile. */
            scores[j] = 0.0f;
            w->kernels->column_sums(w->weight + rows[j], w->stride, x->index, x->values, x->count, 1, &scores[j]);
        }
    } else if (w->narrow.data && x->index) {
        w->kernels->sparse_gather_narrow(&w->narrow, rows, count, x->index, x->values, x->count, scores);
    } else if (w->narrow.data) {
        w->kernels->gather_narrow(&w->narrow, rows, count, x->values, x->count, scores);
    } else if (x->index) {
        w->kernels->sparse_gather_scores(w->weight, w->stride, rows, count, x->index, x->values, x->count, scores);
    } else {
        w->kernels->gather_scores(w->weight, w->stride, rows, count, x->values, x->count, scores, upcoming);
    }
    const float scale = (float)alpha;
    const double *row_scale = xsmi_weights_scales(w);
    for (size_t j = 0; j < count; j++) {
        float s = row_scale ? (float)(alpha * row_scale[rows[j]]) : scale;
        scores[j] *= s;
        if (w->bias) {
            scores[j] += w->bias[rows[j]];
        }
    }
}

/* Weights are prefetched at most AHEAD_BYTES ahead, which should stay in the L1 cache, but at least some rows ahead:
 * memory takes longer than scoring a few rows. */
#define AHEAD_BYTES ((size_t)32 << 10)
#define AHEAD_LEAST ((size_t)8)

size_t xsmi_lists_ahead(size_t rows)
{
    return rows > 0 ? (AHEAD_LEAST + rows - 1) / rows : AHEAD_LEAST;
}

void xsmi_weights_score_list(const xsmi_weights *w, const xsmi_features *x, const uint32_t *rows, size_t count,
                             double alpha, float *scores, const xsmi_upcoming *next)
{
    const size_t fit = AHEAD_BYTES / (w->features * sizeof *scores + 1), most = XSMI_MAX(fit, AHEAD_LEAST);
    for (size_t at = 0; at < count;) {
        const size_t some = XSMI_MIN(count - at, most), left = count - at - some;
        const xsmi_upcoming rest = {rows + at + some, XSMI_MIN(left, most), NULL, SIZE_MAX};
        const xsmi_upcoming first = {next->rows, XSMI_MIN(next->count, most), next->x, SIZE_MAX};
        xsmi_weights_score(w, x, rows + at, some, alpha, scores + at, left > 0 ? &rest : &first);
        at += some;
    }
}

void xsmi_weights_add(const xsmi_weights *w, const xsmi_features *x, const uint32_t *rows, size_t count,
                      const float *amounts)
{
    if (w->layout == XSM_LAYOUT_FEATURE_MAJOR) {
        for (size_t i = 0; i < x->count; i++) {
            float *row = w->weight + (size_t)(x->index ? x->index[i] : i) * w->stride;
            for (size_t j = 0; j < count; j++) {
                row[rows[j]] += amounts[j] * x->values[i];
            }
        }
    } else if (x->index) {
        w->kernels->sparse_scatter_update(w->weight, w->stride, rows, count, x->index, x->values, x->count, amounts);
    } else {
        w->kernels->scatter_update(w->weight, w->stride, rows, count, x->values, x->count, amounts, NULL);
    }
}

/* Number of rows whose coefficients are scaled together. */
#define GROUP 64

static void add_feature_major(const xsmi_weights *w, const uint32_t *rows, uint32_t first, const float *amounts,
                              size_t count, float *out)
{
    for (size_t j = 0; j < w->features; j++) {
        const float *row = w->weight + j * w->stride;
        for (size_t i = 0; i < count; i++) {
            out[j] = fmaf(amounts[i], row[rows ? rows[i] : first + i], out[j]);
        }
    }
}

void xsmi_weights_backward(const xsmi_weights *w, const uint32_t *rows, uint32_t first, const float *coefficients,
                           size_t count, float *out)
{
    float amounts[GROUP];
    for (size_t start = 0; start < count; start += GROUP) {
        size_t group = XSMI_MIN(count - start, GROUP);
        const uint32_t *some = rows ? rows + start : NULL;
        const uint32_t next = first + (uint32_t)start;
        for (size_t i = 0; i < group; i++) {
            double scale = w->row_scale ? w->alpha * w->row_scale[some ? some[i] : next + i] : w->alpha;
            amounts[i] = (float)((double)coefficients[start + i] * scale);
        }
        if (w->layout == XSM_LAYOUT_FEATURE_MAJOR) {
            add_feature_major(w, some, next, amounts, group, out);
        } else {
            const float *weight = some ? w->weight : w->weight + next * w->stride;
            w->kernels->column_sums(weight, w->stride, some, amounts, group, w->features, out);
        }
    }
}
