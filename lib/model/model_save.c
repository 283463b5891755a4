/*
 * A model on disk: its tensors and metadata, in a container of safetensors.h.
 *
 *     labels       I64 [K]      the file's label of each class, if they are numbers of a file
 *     class_counts I64 [K]      training rows of each class, if they are known; their sum in the metadata
 *     standard     F64 [2, n]   if the transform standardises columns: their means, then their scales
 *     weight       F32 [K, D]   or, before label_names, BF16 or I8, as then is the embedding
 *     weight_scale F32 [K]      with I8: a factor for each row
 *     bias         F32 [K]      if there is one
 *     embedding    F32 [F, D]   if there is a first layer whose vectors are not tied; with I8 embedding_scale F32 [F]
 *     idf          F32 [n]      if the transform has weights
 *     products     U32 [n, 2]   if it makes products: the pairs of features
 *     correction, tree_* or     a correction, if there is one (correction_*.c)
 *     pair_*
 *     nodes        U32 [2K-1] if the weights are those of a hierarchy's nodes (class_tree.h)
 *     indptr, ...               in place of the weight: sparse weights, or trees (sparse_file.h)
 *     label_names  U8 [bytes]   one name per line, if the classes have names
 *     vocabulary   U8 [bytes]   one word per line, if rows are text; or feature_names, if they are of a table, or
 *                  feature_numbers, I64 [D], if files number them otherwise
 *                               (schema_file.c)
 *     host.*                    tensors of the host, before others of smaller elements (host_tensors.c)
 *
 * A checkpoint is a model with tensors "state.*" (model_file.h, train/checkpoint.c) and the metadata entry
 * "checkpoint"; its weights do not include the scales that training keeps beside them.
 *
 * This order lets each tensor begin at a multiple of its element size without holes, which the format forbids. The
 * header is padded so that the weights begin at a cache line.
 *
 * Saving streams the weights: no second copy of them is made. Loading (model_load.c) maps the file: the weights are
 * used in place.
 */
#include "model/model.h"
#include "model/divided.h"
#include "model/model_file.h"
#include "model/narrow.h"
#include "model/sparse_file.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/option.h"
#include "base/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Bytes of weights that are buffered before they are written, more if a row is longer. */
#define WRITE_BYTES ((size_t)1 << 20)
/* Least classes whose weights are buffered from a feature-major model: a cache line of each feature. */
#define WRITE_CLASSES 16

static xsm_status fail_diverged(const float *rows, size_t first, size_t features, xsm_error *err)
{
    size_t position = 0;
    while (xsmi_floats_finite(rows + position, 1)) {
        position++;
    }
    return xsmi_fail(err, XSM_ERROR_DIVERGED, "the weight of class %zu and feature %zu is not finite; nothing is saved",
                     first + position / features, position % features);
}

static xsm_status check_biases(const float *bias, size_t first, size_t count, xsm_error *err)
{
    for (size_t k = 0; k < count; k++) {
        if (!xsmi_floats_finite(bias + k, 1)) {
            return xsmi_fail(err, XSM_ERROR_DIVERGED, "the bias of class %zu is not finite; nothing is saved",
                             first + k);
        }
    }
    return XSM_OK;
}

/* -- lines of classes ---------------------------------------------------------------------------------------------- */

/* What a tensor with a line for each class has of it. */
typedef enum line_kind {
    LINE_WEIGHTS,
    LINE_RAW_WEIGHTS,
    LINE_BIAS,
    LINE_SQUARE,
    LINE_AGE,
    LINE_FACTOR,
    LINE_NARROW,
    LINE_BYTES
} line_kind;

typedef struct lines {
    const xsm_model *model;
    line_kind kind;
    size_t bytes;     /* of a line */
    const void *mine; /* LINE_BYTES: those of this rank's classes, or of all */
} lines;

/* Lines of this rank's classes, or of a model that is not divided. */
static xsm_status get_lines(const lines *l, size_t first, size_t count, void *out, xsm_error *err)
{
    const xsm_model *own = xsmi_model_weights(l->model);
    const size_t from = first - l->model->part.first;
    double *squares = out;
    uint64_t *ages = out;
    float *factors = out;
    const void *mine = l->mine;
    switch (l->kind) {
    case LINE_WEIGHTS:
    case LINE_RAW_WEIGHTS:
        xsmi_model_copy_rows(own, from, count, l->kind == LINE_RAW_WEIGHTS, out);
        return xsmi_floats_finite(out, count * own->features) ? XSM_OK : fail_diverged(out, first, own->features, err);
    case LINE_BIAS:
        memcpy(out, own->bias + from, count * l->bytes);
        return check_biases(out, first, count, err);
    case LINE_SQUARE:
        for (size_t k = 0; k < count; k++) {
            squares[k] = own->row_length[from + k].square;
        }
        return XSM_OK;
    case LINE_AGE:
        for (size_t k = 0; k < count; k++) {
            ages[k] = own->row_length[from + k].age;
        }
        return XSM_OK;
    case LINE_FACTOR:
        for (size_t k = 0; k < count; k++) {
            factors[k] = (float)own->row_scale[from + k]; /* exactly: it is a float */
        }
        return XSM_OK;
    case LINE_NARROW:
        XSMI_TRY(xsmi_narrow_check(&own->narrow, from, count, first, err));
        mine = own->narrow.data;
        break;
    case LINE_BYTES:
        break;
    }
    memcpy(out, (const unsigned char *)mine + from * l->bytes, count * l->bytes);
    return XSM_OK;
}

/* The lines of some classes of one rank, on every rank if the model is divided. *ended becomes true where every rank
 * fails, and none waits for another. */
static xsm_status exchange_lines(const lines *l, size_t first, size_t count, void *out, bool *ended, xsm_error *err)
{
    if (!xsmi_model_is_divided(l->model)) {
        return get_lines(l, first, count, out, err);
    }
    xsm_status status = xsmi_divided_has(l->model, first) ? get_lines(l, first, count, out, err) : XSM_OK;
    status = xsmi_divided_share(l->model, first, out, count * l->bytes, status, err);
    *ended |= status != XSM_OK;
    return status;
}

/* Writes the lines of all classes. */
static xsm_status write_lines(const lines *l, bool *ended, xsmi_container_writer *w, xsm_error *err)
{
    const xsm_model *m = l->model;
    const size_t least = m->layout == XSM_LAYOUT_FEATURE_MAJOR ? WRITE_CLASSES : 1;
    size_t together = WRITE_BYTES / (l->bytes ? l->bytes : 1);
    together = XSMI_MAX(together, least);
    together = XSMI_MIN(together, m->classes);
    unsigned char *some = xsmi_allocate(m->context, together, l->bytes);
    if (!some) {
        return xsmi_fail_memory(err, together * l->bytes, "copies of weights");
    }
    xsm_status status = XSM_OK;
    for (size_t first = 0, count; first < m->classes && status == XSM_OK; first += count) {
        const size_t end = xsmi_model_is_divided(m) ? xsmi_divided_end(m, first) : m->classes;
        count = XSMI_MIN(end - first, together);
        status = exchange_lines(l, first, count, some, ended, err);
        status = status == XSM_OK ? xsmi_container_write(w, some, count * l->bytes, err) : status;
    }
    xsmi_release(m->context, some, together, l->bytes);
    return status;
}

static xsm_status write_names(const xsm_model *m, xsmi_container_writer *w, xsm_error *err)
{
    for (size_t k = 0; k < m->classes; k++) {
        XSMI_TRY(xsmi_container_write(w, m->map.names[k], strlen(m->map.names[k]), err));
        XSMI_TRY(xsmi_container_write(w, "\n", 1, err));
    }
    return XSM_OK;
}

/* The tensors of a model in the order of the file, and the index of the weights. */
typedef struct contents {
    const xsm_model *model;
    xsmi_tensor *tensors; /* [capacity] */
    size_t count, capacity, weight;
    xsmi_transform_parts transform;  /* empty if there is none */
    const xsmi_model_extras *extras; /* NULL: the model alone */
    xsmi_sparse_tensors sparse;      /* of a model whose weights are sparse */
    bool *ended;                     /* exchange_lines() */
} contents;

/* Most tensors of a model and of the scales of its weights. */
#define MODEL_TENSORS (12 + XSMI_CORRECTION_TENSORS + 5)

static void add_tensor(contents *c, const char *name, xsmi_dtype dtype, uint32_t rank, uint64_t rows, uint64_t columns)
{
    c->tensors[c->count++] = (xsmi_tensor){.name = name, .dtype = dtype, .rank = rank, .shape = {rows, columns}};
}

/* Adds the extras, the tensors of sparse weights and those of the host whose elements have that many bytes. */
static void add_extras(contents *c, size_t bytes)
{
    for (size_t i = 0; c->extras && i < c->extras->tensor_count; i++) {
        if (xsmi_dtype_size(c->extras->tensors[i].dtype) == bytes) {
            c->tensors[c->count++] = c->extras->tensors[i];
        }
    }
    for (size_t i = 0; i < c->sparse.count; i++) {
        if (xsmi_dtype_size(c->sparse.tensors[i].dtype) == bytes) {
            c->tensors[c->count++] = c->sparse.tensors[i];
        }
    }
    for (size_t i = 0; i < c->model->host.count; i++) {
        if (xsmi_dtype_size(c->model->host.list[i]->tensor.dtype) == bytes) {
            c->tensors[c->count++] = c->model->host.list[i]->tensor;
        }
    }
}

static void add_narrow(const xsm_model *m, contents *c)
{
    c->weight = c->count;
    add_tensor(c, "weight", xsmi_narrow_tensor_type(xsmi_model_dtype(m)), 2, m->classes, m->features);
    c->count += xsmi_layer_tensor(m, c->tensors + c->count);
}

static void list_contents(const xsm_model *m, contents *c)
{
    const xsm_model *own = xsmi_model_weights(m);
    if (m->map.labels) {
        add_tensor(c, "labels", XSMI_DTYPE_I64, 1, m->classes, 0);
    }
    if (m->map.counts) {
        add_tensor(c, "class_counts", XSMI_DTYPE_I64, 1, m->classes, 0);
    }
    if (m->transform) {
        c->transform = xsmi_transform_get_parts(m->transform);
    }
    if (c->transform.standard) {
        add_tensor(c, "standard", XSMI_DTYPE_F64, 2, 2, c->transform.columns);
    }
    c->count += xsmi_schema_tensor(m->map.schema, 8, &c->tensors[c->count]) ? 1 : 0;
    if (c->extras) {
        add_tensor(c, XSMI_STATE_SCALE, XSMI_DTYPE_F64, 1, 1, 0);
        if (m->layer) {
            add_tensor(c, XSMI_STATE_LAYER_SCALE, XSMI_DTYPE_F64, 1, 1, 0);
        }
        if (own->row_scale) {
            add_tensor(c, XSMI_STATE_ROW_SCALE, XSMI_DTYPE_F64, 1, m->classes, 0);
        }
        if (own->row_length) {
            add_tensor(c, XSMI_STATE_ROW_LENGTH, XSMI_DTYPE_F64, 1, m->classes, 0);
            add_tensor(c, XSMI_STATE_ROW_AGE, XSMI_DTYPE_U64, 1, m->classes, 0);
        }
    }
    add_extras(c, 8);
    c->weight = c->count;
    const bool narrow = own->narrow.data != NULL;
    if (m->layout != XSM_LAYOUT_SPARSE_ROWS && !narrow) {
        add_tensor(c, "weight", XSMI_DTYPE_F32, 2, m->classes, m->features);
    }
    if (own->narrow.dtype == XSM_DTYPE_INT8) {
        add_tensor(c, XSMI_WEIGHT_SCALE, XSMI_DTYPE_F32, 1, m->classes, 0);
    }
    if (xsmi_model_has_bias(m)) {
        add_tensor(c, "bias", XSMI_DTYPE_F32, 1, m->classes, 0);
    }
    if (m->layer && m->layer->narrow.dtype == XSM_DTYPE_INT8) {
        add_tensor(c, XSMI_EMBEDDING_SCALE, XSMI_DTYPE_F32, 1, m->layer->features, 0);
    } else if (!narrow) {
        c->count += xsmi_layer_tensor(m, c->tensors + c->count);
    }
    if (c->transform.idf) {
        add_tensor(c, "idf", XSMI_DTYPE_F32, 1, c->transform.idf_count, 0);
    }
    if (c->transform.pairs) {
        add_tensor(c, "products", XSMI_DTYPE_U32, 2, c->transform.pair_count, 2);
    }
    if (m->correction) {
        c->count += xsmi_correction_tensors(m->correction, c->tensors + c->count);
    }
    if (m->hierarchy) {
        c->tensors[c->count++] = xsmi_hierarchy_tensor(m->hierarchy);
    }
    add_extras(c, 4);
    if (narrow && own->narrow.dtype == XSM_DTYPE_BFLOAT16) {
        add_narrow(m, c);
    }
    add_extras(c, 2);
    if (narrow && own->narrow.dtype == XSM_DTYPE_INT8) {
        add_narrow(m, c);
    }
    add_extras(c, 1);
    if (m->map.names) {
        uint64_t bytes = 0;
        for (size_t k = 0; k < m->classes; k++) {
            bytes += strlen(m->map.names[k]) + 1;
        }
        add_tensor(c, "label_names", XSMI_DTYPE_U8, 1, bytes, 0);
    }
    c->count += xsmi_schema_tensor(m->map.schema, 1, &c->tensors[c->count]) ? 1 : 0;
    for (size_t i = 0; i < c->count && m->layout == XSM_LAYOUT_SPARSE_ROWS; i++) {
        /* The first are the largest: the values. */
        if (c->tensors[i].dtype == xsmi_narrow_tensor_type(xsmi_model_dtype(m)) && c->tensors[i].data) {
            c->weight = i;
            break;
        }
    }
}

/* Writes a tensor if its elements have that many bytes. */
static xsm_status write_tensor(const xsmi_tensor *t, size_t bytes, xsmi_container_writer *w, xsm_error *err)
{
    size_t size = 0;
    if (xsmi_dtype_size(t->dtype) != bytes) {
        return XSM_OK;
    }
    (void)xsmi_tensor_bytes(t, &size); /* it was computed when the file was begun */
    return xsmi_container_write(w, t->data, size, err);
}

/* Lines of a tensor whose columns are divided. */
typedef struct column_lines {
    size_t line, mine, stride;         /* bytes of a line, of this rank's columns in it, and between them in memory */
    size_t *ends, *sizes;              /* [ranks] where the columns of each end in a line, and bytes that it sends */
    unsigned char *sent, *got, *whole; /* [together] lines: this rank's; all, one rank after another; as in the file */
} column_lines;

/* Some lines, as they are in the file, on every rank. */
static xsm_status join_columns(const xsm_model *m, const column_lines *l, const unsigned char *from, size_t count,
                               xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(m->context);
    size_t begin = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(l->sent + i * l->mine, from + i * l->stride, l->mine);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        l->sizes[r] = count * (l->ends[r] - begin);
        begin = l->ends[r];
    }
    XSMI_TRY(xsmi_agree(m->context, XSM_OK, err));
    XSMI_TRY(xsmi_exchange_blocks(m->context, l->sent, l->got, l->sizes, err));
    const unsigned char *next = l->got;
    begin = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        const size_t bytes = l->ends[r] - begin;
        for (size_t i = 0; i < count; i++) {
            memcpy(l->whole + i * l->line + begin, next, bytes);
            next += bytes;
        }
        begin = l->ends[r];
    }
    return XSM_OK;
}

/* Writes a tensor of 4 bytes a number whose columns are divided; this rank's are `stride` bytes apart. */
static xsm_status write_columns(const contents *c, const xsmi_tensor *t, size_t stride, xsmi_container_writer *w,
                                xsm_error *err)
{
    const xsm_model *m = c->model;
    const uint32_t ranks = xsmi_ranks(m->context), rank = xsmi_rank(m->context);
    const size_t each = xsmi_dtype_size(t->dtype), line = (size_t)t->shape[1] * each, all = (size_t)t->shape[0];
    size_t together = WRITE_BYTES / line;
    together = XSMI_MAX(together, 1);
    together = XSMI_MIN(together, all);
    column_lines l = {.line = line, .stride = stride};
    size_t *numbers = xsmi_allocate(m->context, 2 * (size_t)ranks, sizeof *numbers);
    unsigned char *some = xsmi_allocate(m->context, 3 * together, line);
    xsm_status status =
        numbers && some ? XSM_OK : xsmi_fail_memory(err, 3 * together * line, "copies of an optimizer's numbers");
    if (status == XSM_OK) {
        l.ends = numbers;
        l.sizes = numbers + ranks;
        l.sent = some;
        l.got = l.sent + together * line;
        l.whole = l.got + together * line;
        for (uint32_t r = 0; r < ranks; r++) {
            l.ends[r] = xsmi_part_columns_end(m->classes, ranks, r, (size_t)t->shape[1]) * each;
        }
        l.mine = l.ends[rank] - (rank ? l.ends[rank - 1] : 0);
    }
    for (size_t first = 0, count; first < all && status == XSM_OK; first += count) {
        count = XSMI_MIN(all - first, together);
        status = join_columns(m, &l, t->data + first * stride, count, err);
        *c->ended |= status != XSM_OK;
        status = status == XSM_OK ? xsmi_container_write(w, l.whole, count * line, err) : status;
    }
    xsmi_release(m->context, numbers, 2 * (size_t)ranks, sizeof *numbers);
    xsmi_release(m->context, some, 3 * together, line);
    return status;
}

/* Writes a tensor of sparse weights if its elements have that many bytes. */
static xsm_status write_sparse(const contents *c, const xsmi_tensor *t, size_t bytes, xsmi_container_writer *w,
                               xsm_error *err)
{
    const xsm_model *m = c->model;
    const int which = xsmi_sparse_which(t->name);
    if (!xsmi_model_is_divided(m) || which == XSMI_SPARSE_PLACES || xsmi_dtype_size(t->dtype) != bytes) {
        return write_tensor(t, bytes, w, err);
    }
    if (which == XSMI_SPARSE_FACTORS) {
        const lines l = {m, LINE_BYTES, bytes, t->data};
        return write_lines(&l, c->ended, w, err);
    }
    return xsmi_sparse_write_divided(m, t, c->ended, w, err);
}

static xsm_status write_extras(const contents *c, size_t bytes, xsmi_container_writer *w, xsm_error *err)
{
    for (size_t i = 0; c->extras && i < c->extras->tensor_count; i++) {
        const xsmi_tensor *t = &c->extras->tensors[i];
        const xsmi_division *division = &c->extras->divisions[i];
        if (division->by == XSMI_UNDIVIDED) {
            XSMI_TRY(write_tensor(t, bytes, w, err));
        } else if (xsmi_dtype_size(t->dtype) == bytes && division->by == XSMI_COLUMNS) {
            XSMI_TRY(write_columns(c, t, division->stride * bytes, w, err));
        } else if (xsmi_dtype_size(t->dtype) == bytes) {
            const lines l = {c->model, LINE_BYTES, (size_t)t->shape[1] * bytes, t->data};
            XSMI_TRY(write_lines(&l, c->ended, w, err));
        }
    }
    for (size_t i = 0; i < c->sparse.count; i++) {
        XSMI_TRY(write_sparse(c, &c->sparse.tensors[i], bytes, w, err));
    }
    for (size_t i = 0; i < c->model->host.count; i++) {
        XSMI_TRY(write_tensor(&c->model->host.list[i]->tensor, bytes, w, err));
    }
    return XSM_OK;
}

static xsm_status write_scales(const contents *c, xsmi_container_writer *w, xsm_error *err)
{
    const xsm_model *m = c->model, *own = xsmi_model_weights(m);
    const lines scales = {m, LINE_BYTES, sizeof *own->row_scale, own->row_scale},
                squares = {m, LINE_SQUARE, sizeof(double), NULL}, ages = {m, LINE_AGE, sizeof(uint64_t), NULL};
    XSMI_TRY(xsmi_container_write(w, &own->alpha, sizeof own->alpha, err));
    if (m->layer) {
        XSMI_TRY(xsmi_container_write(w, &m->layer->alpha, sizeof m->layer->alpha, err));
    }
    if (own->row_scale) {
        XSMI_TRY(write_lines(&scales, c->ended, w, err));
    }
    if (own->row_length) {
        XSMI_TRY(write_lines(&squares, c->ended, w, err));
        XSMI_TRY(write_lines(&ages, c->ended, w, err));
    }
    return XSM_OK;
}

/* Weights and, unless they are tied, vectors in fewer bits. */
static xsm_status write_narrow(const contents *c, xsmi_container_writer *w, xsm_error *err)
{
    const xsm_model *m = c->model;
    const xsmi_narrow *numbers = &xsmi_model_weights(m)->narrow;
    const lines l = {m, LINE_NARROW, numbers->stride * xsmi_number_bytes(numbers->dtype), NULL};
    XSMI_TRY(write_lines(&l, c->ended, w, err));
    return m->layer && !m->layer->tied ? xsmi_layer_write(m, false, w, err) : XSM_OK;
}

/* w NULL: takes part in the exchange of what another rank writes. */
static xsm_status write_contents(const void *state, xsmi_container_writer *w, xsm_error *err)
{
    const contents *c = state;
    const xsm_model *m = c->model;
    if (m->map.labels) {
        XSMI_TRY(xsmi_container_write(w, m->map.labels, m->classes * sizeof *m->map.labels, err));
    }
    if (m->map.counts) {
        XSMI_TRY(xsmi_container_write(w, m->map.counts, m->classes * sizeof *m->map.counts, err));
    }
    const xsmi_transform_parts *t = &c->transform;
    if (t->standard) {
        XSMI_TRY(xsmi_container_write(w, t->standard, t->columns * 2 * sizeof *t->standard, err));
    }
    XSMI_TRY(xsmi_schema_write(m->map.schema, 8, w, err));
    if (c->extras) {
        XSMI_TRY(write_scales(c, w, err));
    }
    XSMI_TRY(write_extras(c, 8, w, err));
    const int32_t narrow_type = xsmi_model_weights(m)->narrow.dtype;
    const bool narrow = xsmi_model_weights(m)->narrow.data != NULL, own_layer = m->layer && !m->layer->tied;
    if (m->layout != XSM_LAYOUT_SPARSE_ROWS && !narrow) {
        const lines l = {m, c->extras ? LINE_RAW_WEIGHTS : LINE_WEIGHTS, m->features * sizeof(float), NULL};
        XSMI_TRY(write_lines(&l, c->ended, w, err));
    }
    if (narrow_type == XSM_DTYPE_INT8) {
        const lines l = {m, LINE_FACTOR, sizeof(float), NULL};
        XSMI_TRY(write_lines(&l, c->ended, w, err));
    }
    if (xsmi_model_has_bias(m)) {
        const lines l = {m, LINE_BIAS, sizeof(float), NULL};
        XSMI_TRY(write_lines(&l, c->ended, w, err));
    }
    if (own_layer && m->layer->narrow.dtype == XSM_DTYPE_INT8) {
        XSMI_TRY(xsmi_narrow_write_factors(m->layer->row_scale, m->layer->features, w, err));
    }
    if (own_layer && !narrow) {
        XSMI_TRY(xsmi_layer_write(m, c->extras != NULL, w, err));
    }
    if (t->idf) {
        XSMI_TRY(xsmi_container_write(w, t->idf, t->idf_count * sizeof *t->idf, err));
    }
    if (t->pairs) {
        XSMI_TRY(xsmi_container_write(w, t->pairs, t->pair_count * sizeof *t->pairs, err));
    }
    if (m->correction) {
        XSMI_TRY(xsmi_correction_write(m->correction, w, err));
    }
    if (m->hierarchy) {
        const xsmi_tensor tensor = xsmi_hierarchy_tensor(m->hierarchy);
        XSMI_TRY(xsmi_container_write(w, tensor.data, tensor.size, err));
    }
    XSMI_TRY(write_extras(c, 4, w, err));
    if (narrow && narrow_type == XSM_DTYPE_BFLOAT16) {
        XSMI_TRY(write_narrow(c, w, err));
    }
    XSMI_TRY(write_extras(c, 2, w, err));
    if (narrow && narrow_type == XSM_DTYPE_INT8) {
        XSMI_TRY(write_narrow(c, w, err));
    }
    XSMI_TRY(write_extras(c, 1, w, err));
    if (m->map.names) {
        XSMI_TRY(write_names(m, w, err));
    }
    return xsmi_schema_write(m->map.schema, 1, w, err);
}

/* Begins the file: lists its contents and writes the header. */
static xsm_status begin_file(const xsm_model *m, const xsmi_place *place, contents *c, xsmi_container_writer **w,
                             xsm_error *err)
{
    list_contents(m, c);
    size_t count = m->metadata.count;
    size_t capacity = count + 11 + (c->extras ? c->extras->metadata_count : 0);
    xsmi_entry *metadata = xsmi_allocate(m->context, capacity, sizeof *metadata);
    if (!metadata) {
        return xsmi_fail_memory(err, capacity * sizeof *metadata, "metadata");
    }
    for (size_t i = 0; i < count; i++) {
        metadata[i] = (xsmi_entry){m->metadata.keys[i], m->metadata.values[i]};
    }
    for (size_t i = 0; c->extras && i < c->extras->metadata_count; i++) {
        metadata[count++] = c->extras->metadata[i];
    }
    char *vocabulary;
    xsm_status status = xsmi_schema_describe(m->context, m->map.schema, &vocabulary, err);
    if (status != XSM_OK) {
        xsmi_release(m->context, metadata, capacity, sizeof *metadata);
        return status;
    }
    if (vocabulary) {
        metadata[count++] = (xsmi_entry){XSMI_KEY_VOCABULARY, vocabulary};
    }
    char features[16], rows[32], layer[XSMI_LAYER_TEXT], calibration[XSMI_CALIBRATION_TEXT];
    char width[16], trees[XSMI_LABEL_TREES_TEXT];
    if (m->map.counts) {
        snprintf(rows, sizeof rows, "%" PRIu64, m->map.rows);
        metadata[count++] = (xsmi_entry){XSMI_KEY_TRAINING_ROWS, rows};
    }
    if (m->transform) {
        snprintf(features, sizeof features, "%" PRIu32, xsmi_transform_features(m->transform));
        metadata[count++] = (xsmi_entry){XSMI_KEY_TRANSFORM, xsmi_transform_description(m->transform)};
        metadata[count++] = (xsmi_entry){XSMI_KEY_INPUT_FEATURES, features};
    }
    if (m->layout == XSM_LAYOUT_SPARSE_ROWS) {
        snprintf(width, sizeof width, "%" PRIu32, m->features);
        metadata[count++] = (xsmi_entry){XSMI_KEY_SPARSE_FEATURES, width};
    }
    if (m->trees) {
        xsmi_label_trees_describe(m->trees, trees);
        metadata[count++] = (xsmi_entry){XSMI_KEY_LABEL_TREES, trees};
    }
    if (m->layer) {
        xsmi_layer_describe(m->layer, layer, sizeof layer);
        metadata[count++] = (xsmi_entry){XSMI_KEY_FIRST_LAYER, layer};
    }
    if (m->score != XSM_GEOMETRY_LINEAR) {
        metadata[count++] = (xsmi_entry){XSMI_KEY_SCORE, xsmi_score_names[m->score]};
    }
    if (m->link != XSM_LINK_SOFTMAX) {
        metadata[count++] = (xsmi_entry){XSMI_KEY_LINK, xsmi_link_words[m->link]};
    }
    if (!xsmi_calibration_is_link(&m->calibration, m->link)) {
        xsmi_calibration_describe(&m->calibration, calibration, sizeof calibration);
        metadata[count++] = (xsmi_entry){XSMI_KEY_CALIBRATION, calibration};
    }
    const int32_t index_base = xsmi_schema_index_base(m->map.schema);
    if (index_base != XSM_INDEX_BASE_AUTO) {
        const char *base = index_base == XSM_INDEX_BASE_ONE ? "1" : "0";
        metadata[count++] = (xsmi_entry){XSMI_KEY_INDEX_BASE, base};
    }
    const xsmi_container_plan plan = {c->tensors, c->count, c->weight, metadata, count};
    status = xsmi_container_create_at(m->context, place, &plan, w, err);
    xsmi_release(m->context, metadata, capacity, sizeof *metadata);
    xsmi_release_text(m->context, vocabulary);
    return status;
}

static xsm_status write_file(const xsm_model *m, const xsmi_place *place, const xsmi_model_extras *extras, bool *ended,
                             xsm_error *err)
{
    if (m->correction && !m->correction->kind->save) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "%s: the model's scores are made with %s of the host's, which no file can hold; a sampler with "
            "XSM_SAMPLER_TREE, one that does not depend on the row, or xsm_model_clear_correction() is "
            "accepted",
            place->name, m->correction->kind->described);
    }
    contents c = {.model = m, .extras = extras, .ended = ended};
    XSMI_TRY(xsmi_sparse_list(m, &c.sparse, err));
    c.capacity = MODEL_TENSORS + (extras ? extras->tensor_count : 0) + c.sparse.count + m->host.count;
    c.tensors = xsmi_allocate(m->context, c.capacity, sizeof *c.tensors);
    xsmi_container_writer *w = NULL;
    xsm_status status = c.tensors ? begin_file(m, place, &c, &w, err)
                                  : xsmi_fail_memory(err, c.capacity * sizeof *c.tensors, "a list of tensors");
    xsmi_release(m->context, c.tensors, c.capacity, sizeof *c.tensors);
    if (status != XSM_OK) {
        xsmi_sparse_list_free(&c.sparse);
        return status;
    }
    xsmi_activity activity;
    xsmi_begin(&activity, m->context, "saving", "bytes", xsmi_container_expected(w));
    status = xsmi_container_fill(w, write_contents, &c, err);
    xsmi_sparse_list_free(&c.sparse);
    return xsmi_end(&activity, status, err);
}

/* Rank 0 writes the file or its storage, and gets the weights of the others. */
static xsm_status save_divided(const xsm_model *m, const xsmi_place *place, const xsmi_model_extras *extras,
                               xsm_error *err)
{
    const bool writes = xsmi_rank(m->context) == 0;
    float twice = writes && place->storage && !place->storage->seek; /* xsmi_container_fill() */
    XSMI_TRY(xsmi_exchange_max(m->context, &twice, 1, err));
    bool ended = false;
    xsm_status status = XSM_OK;
    if (writes) {
        status = write_file(m, place, extras, &ended, err);
    }
    contents c = {.model = m, .extras = extras, .ended = &ended, .sparse = {.context = m->context}};
    if (!writes) {
        status = xsmi_sparse_list(m, &c.sparse, err);
    }
    for (int pass = 0; !writes && pass < 1 + (twice > 0) && status == XSM_OK; pass++) {
        status = write_contents(&c, NULL, err);
    }
    xsmi_sparse_list_free(&c.sparse);
    return ended ? status : xsmi_agree(m->context, status, err);
}

static xsm_status save(const xsm_model *m, const xsmi_place *place, const xsmi_model_extras *extras, xsm_error *err)
{
    XSMI_TRY(xsmi_model_need_together(m, "saving", err));
    if (xsmi_model_is_divided(m)) {
        return save_divided(m, place, extras, err);
    }
    bool ended = false;
    if (!xsmi_model_is_copied(m)) {
        return write_file(m, place, extras, &ended, err);
    }
    const xsm_status status = xsmi_rank(m->context) == 0 ? write_file(m, place, extras, &ended, err) : XSM_OK;
    return xsmi_agree(m->context, status, err);
}

xsm_status xsm_model_save(const xsm_model *m, const char *path, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!m || !path) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_model_save: %s is NULL", m ? "path" : "model");
    }
    const xsmi_place place = {.name = path};
    return save(m, &place, NULL, err);
}

xsm_status xsm_model_save_to(const xsm_model *m, const xsm_storage *storage, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_storage known;
    xsmi_place place;
    if (!m) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_model_save_to: model is NULL");
    }
    XSMI_TRY(xsmi_place_to_write(storage, &known, "xsm_model_save_to", &place, err));
    return save(m, &place, NULL, err);
}

xsm_status xsmi_model_save_state(const xsm_model *m, const xsmi_place *place, const xsmi_model_extras *extras,
                                 xsm_error *err)
{
    return save(m, place, extras, err);
}
