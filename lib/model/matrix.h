/*
 * A matrix of weights: that of a model's classes, that of the vectors of a first layer, or a view of some rows.
 *
 * The weight of row k is alpha * row_scale[k] * row k of the numbers (row_scale NULL: all ones): the L2 penalty (ridge)
 * scales a row, or all rows, by changing one number. Only the optimizers change scales and rows. One of `weight`,
 * `narrow.data` and `sparse` holds the numbers.
 */
#ifndef XSMI_MATRIX_H
#define XSMI_MATRIX_H

#include "model/sparse_weights.h"

#include <stdatomic.h>

typedef struct xsmi_weights {
    const xsmi_kernels *kernels;
    uint32_t rows, features;
    int32_t layout; /* XSM_LAYOUT_* */
    /* Class-major: row k at weight + k*stride, stride >= features. Feature-major: feature j at weight + j*stride,
     * stride
     * >= rows. Read-only when mapped. */
    float *weight;
    size_t stride;
    size_t weight_count; /* floats allocated; 0 when mapped */
    /* Or numbers in fewer bits, with the same stride, class-major and never changed; row_scale are the factors of int8.
     * (narrow.h, convert.c) */
    xsmi_narrow narrow;
    size_t narrow_bytes; /* allocated; 0 when mapped */
    xsmi_sparse *sparse; /* or sparse rows */
    double alpha;
    double *row_scale; /* [rows] or NULL; class-major only */
    /* Every row_scale is known to be 1, so that steps need not read them. xsmi_model_need_row_scale() clears it, and so
     * does a step before it scales its first row. */
    atomic_bool unscaled;
    float *bias; /* [rows] or NULL */
} xsmi_weights;

/* A class-major matrix of that shape, yet without numbers. */
void xsmi_weights_start(const xsmi_kernels *kernels, uint32_t rows, uint32_t features, xsmi_weights *w);
/* Floats of the matrix in a dense layout, and their stride; false when they cannot be addressed. */
bool xsmi_weights_size(const xsmi_weights *w, int32_t layout, size_t *stride, size_t *count);
/* Gives `w`, whose shape is set, zeros in a dense layout; `what` they are in a message. What it had is forgotten. */
xsm_status xsmi_weights_allocate(xsm_context *ctx, int32_t layout, const char *what, xsmi_weights *w, xsm_error *err);
/* The same of numbers in fewer bits, which are not set, class-major without padding, and of factors where the type has
 * some. */
xsm_status xsmi_weights_allocate_narrow(xsm_context *ctx, int32_t dtype, xsmi_weights *w, xsm_error *err);
/* A copy of the numbers in a dense layout, without scales and bias, of numbers that are not in fewer bits; in parallel.
 */
xsm_status xsmi_weights_copy_as(xsm_context *ctx, const xsmi_weights *from, int32_t layout, const char *what,
                                xsmi_weights *to, xsm_error *err);
/* Releases numbers that were allocated. */
void xsmi_weights_release(xsm_context *ctx, xsmi_weights *w);

/* The type of the numbers, an XSM_DTYPE_* value. */
static inline int32_t xsmi_weights_dtype(const xsmi_weights *w)
{
    return w->sparse ? xsmi_sparse_dtype(w->sparse) : w->narrow.dtype;
}
/* row_scale, or NULL where all are known to be 1: for code that reads a few of them at a time, chosen at random. */
static inline double *xsmi_weights_scales(const xsmi_weights *w)
{
    return atomic_load_explicit(&w->unscaled, memory_order_relaxed) ? NULL : w->row_scale;
}

/* Listed rows, not sparse, as floats, row i to out + i*stride, scales multiplied in, or `raw`; rows NULL = first,
 * first+1, ... */
void xsmi_weights_copy(const xsmi_weights *w, const uint32_t *rows, size_t first, size_t count, bool raw, float *out,
                       size_t stride);

/* Scores (logits) of listed rows for a row of data, with `alpha`, scales and bias. A score is one dot product: it has
 * the same bits whatever other rows are scored. Inner loop: no checks, no allocation. Upcoming dense rows are
 * prefetched meanwhile; NULL: none are. */
void xsmi_weights_score(const xsmi_weights *w, const xsmi_features *x, const uint32_t *rows, size_t count, double alpha,
                        float *scores, const xsmi_upcoming *upcoming);
/* The same for one of many lists, of any length: prefetches the weights of the rows that follow in the list and, at its
 * end, what `next` has, a list that is scored soon. */
void xsmi_weights_score_list(const xsmi_weights *w, const xsmi_features *x, const uint32_t *rows, size_t count,
                             double alpha, float *scores, const xsmi_upcoming *next);
/* How many lists later that should be, if lists have about so many rows. */
size_t xsmi_lists_ahead(size_t rows);

/* The transpose: adds the gradient of `count` scores with respect to the features of the row of data, sum_k
 * coefficients_k w_k, to out [features]; rows NULL = first, first+1, ... The sum has the order of the list. */
void xsmi_weights_backward(const xsmi_weights *w, const uint32_t *rows, uint32_t first, const float *coefficients,
                           size_t count, float *out);

#endif
