/*
 * Conversion of a model's weights: a new model with the same weights, rounded, in another type. Rows are read as floats
 * with their scales, and written one after another. Each process converts its part of a divided model.
 */
#include "model/divided.h"
#include "model/narrow.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"
#include "ranks/comm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <xsoftmax/stored_weights.h>

/* Number of floats that are converted between two polls, more if a row is longer. */
#define FLOATS_TOGETHER ((size_t)1 << 18)

/* -- one row ------------------------------------------------------------------------------------------------------- */

/* Converts a row; returns false if a number, *bad, is not finite in the type. */
static bool put_row(const xsmi_weights *to, size_t row, const float *from, size_t *bad)
{
    const int32_t dtype = xsmi_weights_dtype(to);
    const size_t n = to->features, at = row * to->stride;
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        if (!xsmi_finite_in(dtype, from[i])) {
            *bad = i;
            return false;
        }
        most = fabsf(from[i]) > most ? fabsf(from[i]) : most;
    }
    void *narrow = (void *)(uintptr_t)to->narrow.data;
    if (dtype == XSM_DTYPE_FLOAT32) {
        memcpy(to->weight + at, from, n * sizeof *from);
    } else if (dtype == XSM_DTYPE_BFLOAT16) {
        uint16_t *numbers = (uint16_t *)narrow + at;
        for (size_t i = 0; i < n; i++) {
            numbers[i] = xsmi_to_bfloat16(from[i]);
        }
    } else {
        int8_t *numbers = (int8_t *)narrow + at;
        const float factor = xsmi_int8_factor(most);
        for (size_t i = 0; i < n; i++) {
            numbers[i] = xsmi_to_int8(from[i], factor);
        }
        to->row_scale[row] = (double)factor;
    }
    return true;
}

/* -- a model ------------------------------------------------------------------------------------------------------- */

/* Makes a model in this process only, with the shape of another and memory for weights of a type. */
static xsm_status new_weights(const xsm_model *m, int32_t dtype, xsm_model **out, xsm_error *err)
{
    if (dtype == XSM_DTYPE_FLOAT32) {
        const xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
        XSMI_TRY(xsmi_model_new_local(m->context, m->features, m->classes, &shape, out, err));
        (*out)->untouched = false;
    } else {
        XSMI_TRY(xsmi_model_new_empty(m->context, m->features, m->classes, out, err));
        const xsm_status status = xsmi_weights_allocate_narrow(m->context, dtype, &(*out)->w, err);
        if (status != XSM_OK) {
            xsm_model_free(*out);
            return status;
        }
    }
    (*out)->score = m->score;
    return XSM_OK;
}

/* Makes such a model, which is divided if the other is. */
static xsm_status new_model(const xsm_model *m, int32_t dtype, xsm_model **out, xsm_error *err)
{
    xsm_model *own;
    XSMI_TRY(new_weights(xsmi_model_weights(m), dtype, &own, err));
    if (!xsmi_model_is_divided(m)) {
        *out = own;
        return XSM_OK;
    }
    const xsm_status status = xsmi_divided_of_part(m, own, out, err);
    if (status != XSM_OK) {
        xsm_model_free(own);
    }
    return status;
}

/* Copies rows of the same type, and their factors: the numbers are not rounded again. */
static xsm_status copy_numbers(const xsm_context *ctx, const xsmi_weights *from, const xsmi_weights *to, xsm_error *err)
{
    const xsmi_narrow *numbers = &from->narrow;
    const size_t each = numbers->stride * xsmi_number_bytes(numbers->dtype),
                 together = FLOATS_TOGETHER / numbers->stride + 1;
    for (size_t first = 0; first < from->rows; first += together) {
        const size_t count = XSMI_MIN(from->rows - first, together), at = first * each;
        XSMI_TRY(xsmi_go_on(ctx, err));
        memcpy((unsigned char *)(uintptr_t)to->narrow.data + at, (const unsigned char *)numbers->data + at,
               count * each);
    }
    if (to->row_scale) {
        memcpy(to->row_scale, from->row_scale, from->rows * sizeof *to->row_scale);
    }
    return XSM_OK;
}

/* Converts to a matrix whose memory is allocated; `rows` is scratch, [together][features]. For messages: with `classes`
 * the rows are those of the classes from `start` on, otherwise the vectors of a first layer. */
static xsm_status convert_matrix(const xsm_context *ctx, const xsmi_weights *from, const xsmi_weights *to, bool classes,
                                 size_t start, float *rows, size_t together, xsm_error *err)
{
    const int32_t dtype = xsmi_weights_dtype(to);
    if (from->narrow.data && from->narrow.dtype == dtype) {
        return copy_numbers(ctx, from, to, err);
    }
    for (size_t first = 0; first < from->rows; first += together) {
        const size_t count = XSMI_MIN(from->rows - first, together);
        XSMI_TRY(xsmi_go_on(ctx, err));
        xsmi_weights_copy(from, NULL, first, count, false, rows, from->features);
        for (size_t k = 0; k < count; k++) {
            size_t bad;
            if (!put_row(to, first + k, rows + k * from->features, &bad)) {
                return classes ? xsmi_fail(err, XSM_ERROR_DIVERGED,
                                           "the weight of class %zu and feature %zu is not finite in %s",
                                           start + first + k, bad, xsmi_narrow_name(dtype))
                               : xsmi_fail(err, XSM_ERROR_DIVERGED,
                                           "number %zu of the vector of feature %zu is not finite in %s", bad,
                                           first + k, xsmi_narrow_name(dtype));
            }
        }
        xsmi_advance(ctx, classes ? count : 0);
    }
    return XSM_OK;
}

/* Converts the first layer to the type of the model's weights. */
static xsm_status convert_layer(const xsm_model *m, xsm_model *to, float *rows, size_t together, xsm_error *err)
{
    const xsmi_layer *from = m->layer;
    const int32_t dtype = xsmi_model_dtype(to);
    if (!from) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_layer_new(to, from->features, &from->made, err));
    if (from->tied) {
        return XSM_OK;
    }
    XSMI_TRY(dtype == XSM_DTYPE_FLOAT32 ? xsmi_layer_allocate(to, err)
                                        : xsmi_weights_allocate_narrow(m->context, dtype, &to->layer->w, err));
    return convert_matrix(m->context, &from->w, &to->layer->w, false, 0, rows, together, err);
}

/* Computes the bias of distances from the rounded weights, so that a class is one point. */
static xsm_status convert_bias(xsm_model *to, float *row, xsm_error *err)
{
    for (uint32_t k = 0; to->score == XSM_GEOMETRY_EUCLIDEAN && k < to->classes; k++) {
        XSMI_TRY(k % 1024 == 0 ? xsmi_go_on(to->context, err) : XSM_OK);
        xsmi_weights_copy(&to->w, NULL, k, 1, false, row, 0);
        to->w.bias[k] = -0.5f * to->kernels->dot(row, row, to->features);
    }
    return XSM_OK;
}

static xsm_status convert_parts(const xsm_model *m, xsm_model *to, float *rows, size_t together, xsm_error *err)
{
    const xsm_model *from = xsmi_model_weights(m);
    xsm_model *own = xsmi_model_changed(to);
    XSMI_TRY(convert_matrix(m->context, &from->w, &own->w, true, m->part.first, rows, together, err));
    const xsm_status status = convert_layer(from, own, rows, together, err);
    to->layer = own->layer;
    XSMI_TRY(status);
    XSMI_TRY(xsmi_model_copy_rest(m, to, err));
    return convert_bias(own, rows, err);
}

static xsm_status convert(const xsm_model *m, int32_t dtype, xsm_model **out, xsm_error *err)
{
    const size_t together = XSMI_MIN(FLOATS_TOGETHER / m->features + 1, xsmi_model_weights(m)->classes);
    float *rows;
    XSMI_TRY(
        xsmi_array_new(m->context, &rows, (uint64_t)together * m->features, sizeof *rows, "copies of weights", err));
    xsm_model *to = NULL;
    xsm_status status = new_model(m, dtype, &to, err);
    if (status == XSM_OK) {
        status = convert_parts(m, to, rows, together, err);
        if (status == XSM_OK) {
            *out = to;
        } else {
            xsm_model_free(to);
        }
    }
    xsmi_release(m->context, rows, together * m->features, sizeof *rows);
    return status;
}

/* -- sparse weights ------------------------------------------------------------------------------------------------ */

static xsm_status convert_sparse(const xsmi_sparse *s, int32_t dtype, const char *what, xsmi_sparse **out,
                                 xsm_error *err)
{
    xsmi_sparse_bad bad;
    XSMI_TRY(xsmi_sparse_convert(s, dtype, &bad, out, err));
    return bad.found ? xsmi_fail(err, XSM_ERROR_DIVERGED, "the weight of %s %u and feature %u is not finite in %s",
                                 what, bad.row, bad.feature, xsmi_narrow_name(dtype))
                     : XSM_OK;
}

static xsm_status convert_linear(const xsm_model *m, int32_t dtype, xsm_model **out, xsm_error *err)
{
    xsmi_sparse *weights;
    XSMI_TRY(convert_sparse(m->w.sparse, dtype, "class", &weights, err));
    const xsm_status status = xsmi_model_of_sparse(m->context, weights, out, err);
    xsmi_sparse_release(weights);
    return status;
}

static xsm_status convert_trees(const xsm_model *m, int32_t dtype, xsm_model **out, xsm_error *err)
{
    const xsmi_label_trees *from = xsmi_model_trees(m);
    xsmi_label_tree trees[XSMI_LABEL_TREES] = {{NULL, NULL}};
    xsm_status status = XSM_OK;
    for (uint32_t t = 0; status == XSM_OK && t < from->count; t++) {
        char what[48];
        snprintf(what, sizeof what, "tree %u, row", t);
        trees[t].tree = from->tree[t].tree; /* the model keeps it */
        status = convert_sparse(from->tree[t].weights, dtype, what, &trees[t].weights, err);
    }
    if (status == XSM_OK) {
        status = xsmi_model_of_label_trees(m->context, from->link, trees, from->count, out, err);
    }
    for (uint32_t t = 0; t < from->count; t++) {
        xsmi_sparse_release(trees[t].weights);
    }
    return status;
}

static xsm_status convert_rows(const xsm_model *m, int32_t dtype, xsm_model **out, xsm_error *err)
{
    xsm_model *to = NULL;
    XSMI_TRY(xsmi_model_trees(m) ? convert_trees(m, dtype, &to, err) : convert_linear(m, dtype, &to, err));
    const xsm_status status = xsmi_model_copy_rest(m, to, err);
    if (status == XSM_OK) {
        *out = to;
    } else {
        xsm_model_free(to);
    }
    return status;
}

/* Converts on all processes, or on none. */
static xsm_status convert_any(const xsm_model *m, int32_t dtype, xsm_model **out, xsm_error *err)
{
    xsm_model *to = NULL;
    xsm_status status =
        m->w.layout == XSM_LAYOUT_SPARSE_ROWS ? convert_rows(m, dtype, &to, err) : convert(m, dtype, &to, err);
    status = xsmi_agree(xsmi_model_group(m), status, err);
    if (status != XSM_OK) {
        xsm_model_free(to);
        return status;
    }
    *out = to;
    return XSM_OK;
}

xsm_status xsm_model_convert(const xsm_model *m, const xsm_convert_options *options, xsm_model **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"}, {out, "out"});
    xsm_convert_options o = XSM_CONVERT_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_convert_options, &o, options, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_convert_options, &o, reserved, err));
    if (!xsmi_narrow_name(o.dtype)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_convert_options.dtype is %d; XSM_DTYPE_FLOAT32, _BFLOAT16 and _INT8 are accepted",
                         o.dtype);
    }
    XSMI_TRY(xsmi_model_need_together(m, "a conversion", err));
    if (m->features < 1) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "a model without features has no weights to convert");
    }
    xsmi_activity activity;
    if (m->w.layout == XSM_LAYOUT_SPARSE_ROWS) {
        uint64_t bytes;
        xsmi_begin(&activity, m->context, "converting", "weights", xsmi_model_stored(xsmi_model_weights(m), &bytes));
    } else {
        xsmi_begin(&activity, m->context, "converting", "classes", xsmi_model_weights(m)->classes);
    }
    return xsmi_end(&activity, convert_any(m, o.dtype, out, err), err);
}
