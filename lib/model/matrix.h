/*
 * A matrix of weights: those of a model's classes, the vectors of a first layer, or a view of some rows.
 *
 * The weights of row k are alpha * row_scale[k] * row k of the numbers (row_scale NULL: all ones), so that the L2
 * penalty (ridge) scales a row, or all rows, by changing one number. One of `weight`, `narrow.data` and `sparse` holds
 * the numbers.
 */
#ifndef XSMI_MATRIX_H
#define XSMI_MATRIX_H

#include "model/sparse_weights.h"

#include <xsoftmax/model.h>

#include <stdatomic.h>

typedef struct xsmi_weights {
    const xsmi_kernels *kernels;
    uint32_t rows, features;
    int32_t layout; /* XSM_LAYOUT_* */
    /* Class-major: row k at weight + k*stride, with stride >= features. Feature-major: feature j at weight + j*stride,
     * with stride >= rows. Read-only when mapped. */
    float *weight;
    size_t stride;
    size_t weight_count; /* floats allocated; 0 when mapped */
    /* Or numbers in fewer bits than float32, with the same stride, class-major and never changed; row_scale has the
     * factors of a kind that has them. (narrow.h, convert.c) */
    xsmi_narrow narrow;
    size_t narrow_bytes; /* allocated; 0 when mapped */
    xsmi_sparse *sparse; /* or sparse rows */
    double alpha;
    double *row_scale; /* [rows] or NULL; class-major only */
    /* Every row_scale is known to be 1, so that steps need not read them. xsmi_model_need_row_scale() clears this flag,
     * and so does a step before it scales its first row. */
    atomic_bool unscaled;
    float *bias; /* [rows] or NULL */
} xsmi_weights;

/* Makes a class-major matrix of that shape, still without numbers. */
void xsmi_weights_start(const xsmi_kernels *kernels, uint32_t rows, uint32_t features, xsmi_weights *w);
/* Computes the floats of the matrix in a dense layout, and their stride; returns false if they cannot be addressed. */
bool xsmi_weights_size(const xsmi_weights *w, int32_t layout, size_t *stride, size_t *count);
/* Gives `w`, whose shape is set, zeros in a dense layout; `what` names them in messages. Does not release earlier
 * numbers. */
xsm_status xsmi_weights_allocate(xsm_context *ctx, int32_t layout, const char *what, xsmi_weights *w, xsm_error *err);
/* Allocates numbers in fewer bits, which are not set, class-major and without padding, and factors if the type has
 * them. */
xsm_status xsmi_weights_allocate_narrow(xsm_context *ctx, int32_t dtype, xsmi_weights *w, xsm_error *err);
/* Copies the numbers, which are not in fewer bits, to a dense layout, without scales and bias, in parallel. */
xsm_status xsmi_weights_copy_as(xsm_context *ctx, const xsmi_weights *from, int32_t layout, const char *what,
                                xsmi_weights *to, xsm_error *err);
/* Releases numbers that were allocated here. */
void xsmi_weights_release(xsm_context *ctx, xsmi_weights *w);

/* Returns the type of the numbers, an XSM_DTYPE_* value. */
static inline int32_t xsmi_weights_dtype(const xsmi_weights *w)
{
    return w->sparse ? xsmi_sparse_dtype(w->sparse) : w->narrow.dtype;
}
/* Returns where the first number of a row of dense weights is, and sets *step to how far apart its numbers are. */
static inline float *xsmi_weights_row(const xsmi_weights *w, size_t row, size_t *step)
{
    const bool lines = w->layout == XSM_LAYOUT_CLASS_MAJOR;
    *step = lines ? 1 : w->stride;
    return w->weight + (lines ? row * w->stride : row);
}
/* Returns row_scale, or NULL if all are known to be 1: for code that reads a few of them in random order. */
static inline double *xsmi_weights_scales(const xsmi_weights *w)
{
    return atomic_load_explicit(&w->unscaled, memory_order_relaxed) ? NULL : w->row_scale;
}

/* Copies listed rows, which are not sparse, as floats to out + i*stride, with scales multiplied in unless `raw`; rows
 * NULL = first, first+1, ... */
void xsmi_weights_copy(const xsmi_weights *w, const uint32_t *rows, size_t first, size_t count, bool raw, float *out,
                       size_t stride);

/* Computes the scores (logits) of listed rows for a row of data, with `alpha`, scales and bias. A score is one dot
 * product: it has the same bits whatever other rows are scored. This is an inner loop: no checks, no allocation.
 * Meanwhile the dense rows of `upcoming` (NULL: none) are prefetched. */
void xsmi_weights_score(const xsmi_weights *w, const xsmi_features *x, const uint32_t *rows, size_t count, double alpha,
                        float *scores, const xsmi_upcoming *upcoming);
/* Scores one of many lists of any length: prefetches the weights of the rows that follow in the list and, at its end,
 * those of `next`, a list that will be scored soon. */
void xsmi_weights_score_list(const xsmi_weights *w, const xsmi_features *x, const uint32_t *rows, size_t count,
                             double alpha, float *scores, const xsmi_upcoming *next);
/* Returns how many lists later `next` should be, if lists have about `rows` rows. */
size_t xsmi_lists_ahead(size_t rows);

/* Adds amounts_k times a row of data to listed rows of the numbers, which are dense, whatever their scales. */
void xsmi_weights_add(const xsmi_weights *w, const xsmi_features *x, const uint32_t *rows, size_t count,
                      const float *amounts);
/* Adds the gradient of `count` scores with respect to the features of the row of data, sum_k coefficients_k w_k, to out
 * [features]; rows NULL = first, first+1, ... It sums in the order of the list. */
void xsmi_weights_backward(const xsmi_weights *w, const uint32_t *rows, uint32_t first, const float *coefficients,
                           size_t count, float *out);

#endif
