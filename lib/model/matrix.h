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
    int32_t layout; /* XSM_LAYOUT_* */
    /* Class-major: row k at weight + k*stride, stride >= features. Feature-major: row j at weight + j*stride, stride >=
     * classes. Read-only when mapped. */
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

#endif
