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
#include "base/grow.h"
#include "base/heap_sort.h"
#include "base/held.h"
#include "base/top.h"

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
    const int whole = xsmi_kind_of(dtype)->whole;
    const float factor = whole ? xsmi_factor_of(whole, most) : 1;
    void *numbers = to->weight ? to->weight : (void *)(uintptr_t)to->narrow.data;
    for (size_t i = 0; i < n; i++) {
        xsmi_round_to(dtype, from[i], factor, numbers, at + i);
    }
    if (whole) {
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
                                           start + first + k, bad, xsmi_kind_of(dtype)->name)
                               : xsmi_fail(err, XSM_ERROR_DIVERGED,
                                           "number %zu of the vector of feature %zu is not finite in %s", bad,
                                           first + k, xsmi_kind_of(dtype)->name);
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
                                 what, bad.row, bad.feature, xsmi_kind_of(dtype)->name)
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

static xsm_status convert_as(const xsm_model *m, const xsm_convert_options *options, xsm_model **out, xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_model_convert", XSMI_GIVEN({out, "out"}), err));
    xsm_convert_options o = XSM_CONVERT_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_convert_options, &o, options, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_convert_options, &o, reserved, err));
#define ACCEPTED(with, TYPE, ...) ", XSM_DTYPE_" #TYPE
    if (!xsmi_kind_of(o.dtype)) {
        return xsmi_fail(
            err, XSM_ERROR_RANGE,
            "xsm_convert_options.dtype is %d; XSM_DTYPE_FLOAT32" XSMI_NARROW_KINDS(ACCEPTED, ) " are accepted",
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

xsm_status xsm_model_convert(const xsm_model *m, const xsm_convert_options *options, xsm_model **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"});
    return XSMI_COLLECTIVE(xsmi_model_group(m), convert_as(m, options, out, err), err);
}

/* -- pruning ------------------------------------------------------------------------------------------------------- */

/*
 * Pruning: makes a linear model that keeps the weights of another which are not small, as sparse rows. Takes the dense
 * rows one after another, and transposes those of a chunk.
 */

/* Number of classes of a chunk: a row's features are looked up once for all of them, and their scores fit into the
 * L2 cache. */
#define CHUNK_CLASSES 32768
/* Number of weights after which a chunk ends early, so that they can be counted in 32 bits. */
#define CHUNK_ENTRIES ((size_t)1 << 30)

typedef struct pruning {
    xsmi_held held; /* the arrays whose sizes are known */
    const xsm_model *model;
    xsm_prune_options options;
    xsmi_sparse_builder *builder;
    float *row;  /* [D] */
    float *best; /* [keep] the absolute values of the largest weights, and their features */
    uint32_t *best_feature;
    uint32_t keep; /* 0 = all */
    /* Rows of a chunk: weights in the order of the rows. */
    uint32_t rows;
    size_t entries;
    uint32_t *features;
    size_t feature_capacity;
    float *values;
    size_t value_capacity;
    uint32_t *row_end; /* [CHUNK_CLASSES] */
    /* The chunk by columns. */
    uint32_t *starts; /* [D+1] */
    uint32_t *used;   /* [D] */
    uint16_t *entry_rows;
    size_t row_capacity;
    float *sorted;
    size_t sorted_capacity;
} pruning;

/* Reads a class's weights, with scales multiplied in. */
static xsm_status read_row(const pruning *p, uint32_t k, xsm_error *err)
{
    xsmi_weights_copy(&p->model->w, NULL, k, 1, false, p->row, 0);
    for (size_t j = 0; j < p->model->features; j++) {
        if (!isfinite(p->row[j])) {
            return xsmi_fail(err, XSM_ERROR_DIVERGED, "the weight of class %u and feature %zu is not finite", k, j);
        }
    }
    return XSM_OK;
}

/* Sets all but the `keep` largest weights of the row to zero; of equal weights those of the first features stay. */
static void keep_largest(const pruning *p)
{
    const xsmi_top list = {p->best, p->best_feature, p->keep};
    xsmi_top_start(&list);
    for (uint32_t j = 0; j < p->model->features; j++) {
        xsmi_top_offer(&list, fabsf(p->row[j]), j);
    }
    for (uint32_t i = 0; i < p->keep; i++) { /* marks their features in `used`, which is free and has D entries */
        p->used[i] = list.class_of[i];
    }
    xsmi_heap_sort(p->used, p->keep, sizeof *p->used, xsmi_compare_u32);
    uint32_t next = 0;
    for (uint32_t j = 0; j < p->model->features; j++) {
        const bool kept = next < p->keep && p->used[next] == j;
        next += kept;
        p->row[j] = kept ? p->row[j] : 0;
    }
}

/* Appends the remaining weights of the row to the chunk. */
static xsm_status append_row(pruning *p, xsm_error *err)
{
    static const char what[] = "sparse weights";
    const uint32_t d = p->model->features;
    XSMI_TRY(XSMI_GROW(p->model->context, p->features, p->feature_capacity, p->entries + d, what, err));
    XSMI_TRY(XSMI_GROW(p->model->context, p->values, p->value_capacity, p->entries + d, what, err));
    for (uint32_t j = 0; j < d; j++) {
        if (p->row[j] != 0 && (double)fabsf(p->row[j]) >= p->options.below) {
            p->features[p->entries] = j;
            p->values[p->entries++] = p->row[j];
        }
    }
    p->row_end[p->rows++] = (uint32_t)p->entries;
    return XSM_OK;
}

/* Transposes the chunk, and adds it to the builder. */
static xsm_status end_chunk(pruning *p, xsm_error *err)
{
    static const char what[] = "sparse weights";
    const uint32_t d = p->model->features;
    uint32_t columns = 0, sum = 0;
    XSMI_TRY(XSMI_GROW(p->model->context, p->entry_rows, p->row_capacity, p->entries, what, err));
    XSMI_TRY(XSMI_GROW(p->model->context, p->sorted, p->sorted_capacity, p->entries, what, err));
    for (uint32_t j = 0; j < d + 1; j++) {
        p->starts[j] = 0;
    }
    for (size_t i = 0; i < p->entries; i++) {
        p->starts[p->features[i]]++;
    }
    for (uint32_t j = 0; j < d; j++) { /* starts[j] is where the entries of feature j begin */
        const uint32_t count = p->starts[j];
        p->starts[j] = sum;
        sum += count;
    }
    for (uint32_t r = 0, i = 0; r < p->rows; r++) {
        for (; i < p->row_end[r]; i++) {
            const uint32_t to = p->starts[p->features[i]]++;
            p->entry_rows[to] = (uint16_t)r;
            p->sorted[to] = p->values[i];
        }
    }
    for (uint32_t j = 0, end = 0; j < d; j++) { /* now starts[j] is where they end; only those of used features stay */
        const uint32_t start = end;
        end = p->starts[j];
        if (end > start) {
            p->used[columns] = j;
            p->starts[columns++] = start;
        }
    }
    p->starts[columns] = sum;
    const xsmi_sparse_chunk chunk = {p->rows, columns, p->used, p->starts, p->entry_rows, p->sorted, NULL};
    XSMI_TRY(xsmi_sparse_builder_add(p->builder, &chunk, err));
    p->rows = 0;
    p->entries = 0;
    return XSM_OK;
}

static xsm_status prune_rows(pruning *p, xsm_error *err)
{
    for (uint32_t k = 0; k < p->model->classes; k++) {
        XSMI_TRY(xsmi_go_on(p->model->context, err));
        XSMI_TRY(read_row(p, k, err));
        if (p->keep > 0) {
            keep_largest(p);
        }
        XSMI_TRY(append_row(p, err));
        if (p->rows == CHUNK_CLASSES || p->entries >= CHUNK_ENTRIES) {
            XSMI_TRY(end_chunk(p, err));
        }
        xsmi_advance(p->model->context, 1);
    }
    return p->rows > 0 ? end_chunk(p, err) : XSM_OK;
}

static xsm_status start(pruning *p, xsm_error *err)
{
    xsm_context *ctx = p->model->context;
    const size_t d = p->model->features;
    XSMI_TRY(xsmi_sparse_builder_new(ctx, p->model->features, false, &p->builder, err));
    p->held.context = ctx;
    p->keep = p->options.keep < d ? p->options.keep : 0;
    p->row = xsmi_hold(&p->held, d, sizeof *p->row);
    p->best = xsmi_hold(&p->held, p->keep, sizeof *p->best);
    p->best_feature = xsmi_hold(&p->held, p->keep, sizeof *p->best_feature);
    p->row_end = xsmi_hold(&p->held, CHUNK_CLASSES, sizeof *p->row_end);
    p->starts = xsmi_hold(&p->held, d + 1, sizeof *p->starts);
    p->used = xsmi_hold(&p->held, d, sizeof *p->used);
    return xsmi_held_check(&p->held, "pruning", err);
}

static void end(pruning *p)
{
    xsm_context *ctx = p->model->context;
    xsmi_sparse_builder_free(p->builder);
    xsmi_held_release(&p->held);
    xsmi_release(ctx, p->features, p->feature_capacity, sizeof *p->features);
    xsmi_release(ctx, p->values, p->value_capacity, sizeof *p->values);
    xsmi_release(ctx, p->entry_rows, p->row_capacity, sizeof *p->entry_rows);
    xsmi_release(ctx, p->sorted, p->sorted_capacity, sizeof *p->sorted);
}

static xsm_status make_weights(pruning *p, xsmi_sparse **out, xsm_error *err)
{
    xsm_status status = start(p, err);
    status = status == XSM_OK ? prune_rows(p, err) : status;
    status = status == XSM_OK ? xsmi_sparse_builder_finish(p->builder, out, err) : status;
    end(p);
    return status;
}

xsm_status xsmi_model_copy_rest(const xsm_model *from, xsm_model *to, xsm_error *err)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    XSMI_TRY(xsm_model_get_class_map(from, &map, err));
    XSMI_TRY(xsm_model_set_transform(to, from->transform, err));
    XSMI_TRY(xsm_model_set_class_map(to, &map, err));
    for (size_t i = 0; i < from->metadata.count; i++) {
        XSMI_TRY(xsm_model_set_metadata(to, from->metadata.keys[i], from->metadata.values[i], err));
    }
    XSMI_TRY(xsmi_host_tensors_copy(to->context, &from->host, &to->host, err));
    if (!xsmi_model_trees(from)) {
        xsmi_model_set_head(to, from->head);
    }
    to->link = from->link;
    xsmi_model_put_calibration(to, from->calibration);
    const xsm_model *a = xsmi_model_weights(from);
    xsm_model *b = xsmi_model_changed(to);
    if (a->w.bias) {
        b->w.bias = (float *)(uintptr_t)a->w.bias; /* is copied below */
        xsm_status status = xsmi_model_own_bias(b, err);
        b->w.bias = b->bias_owned ? b->w.bias : NULL;
        return status;
    }
    return XSM_OK;
}

static xsm_status prune_model(const xsm_model *m, const xsm_prune_options *o, xsm_model **out, xsm_error *err)
{
    pruning p = {.model = m, .options = *o};
    xsmi_sparse *weights;
    XSMI_TRY(make_weights(&p, &weights, err));
    xsm_model *pruned;
    xsm_status status = xsmi_model_of_sparse(m->context, weights, &pruned, err);
    xsmi_sparse_release(weights);
    XSMI_TRY(status);
    status = xsmi_model_copy_rest(m, pruned, err);
    if (status != XSM_OK) {
        xsm_model_free(pruned);
        return status;
    }
    *out = pruned;
    return XSM_OK;
}

xsm_status xsm_model_prune(const xsm_model *m, const xsm_prune_options *options, xsm_model **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"}, {out, "out"});
    xsm_prune_options o = XSM_PRUNE_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_prune_options, &o, options, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_prune_options, &o, reserved, err));
    if (!(o.below >= 0 && isfinite(o.below))) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_prune_options.below is %g; accepted is 0 and above", o.below);
    }
    XSMI_TRY(xsmi_model_need_whole(m, "pruning", err));
    XSMI_TRY(xsmi_model_need_dense(m, "pruning", err));
    if (m->layer || m->score != XSM_GEOMETRY_LINEAR) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "pruning takes linear models, and %s",
                         m->layer ? "this one has a first layer, whose hidden vectors use all of the weights"
                                  : "the scores of this one are distances");
    }
    xsmi_activity activity;
    xsmi_begin(&activity, m->context, "pruning", "classes", m->classes);
    return xsmi_end(&activity, prune_model(m, &o, out, err), err);
}
