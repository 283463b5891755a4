/*
 * A model on disk: its tensors and metadata, in a container of safetensors.h, tensors of larger elements first
 * (base/contents.h).
 *
 *     labels       I64 [K]      the file's label of each class, if they are numbers of a file
 *     class_counts I64 [K]      training rows of each class, if they are known; their sum in the metadata
 *     standard     F64 [2, n]   if the transform standardises columns: their means, then their scales
 *     weight       F32 [K, D]   or of another kind (weight_kinds.h), as then is the embedding
 *     weight_scale F32 [K]      a factor for each row, if the kind has factors
 *     bias         F32 [K]      if there is one
 *     embedding    F32 [F, D]   if there is a first layer whose vectors are not tied
 *     embedding_scale F32 [F]   as weight_scale
 *     idf          F32 [n]      if the transform has weights
 *     products     U32 [n, 2]   if it makes products: the pairs of features
 *     correction, tree_*, pair_*  a correction, if there is one (correction_*.c, pairs.c)
 *     nodes        U32 [2K-1]   if the weights are those of a hierarchy's nodes (class_tree.h)
 *     indptr, ...               in place of the weight: sparse weights, or trees (sparse_file.h)
 *     label_names  U8 [bytes]   one name per line, if the classes have names
 *     vocabulary   U8 [bytes]   one word per line, if rows are text; or feature_names, if they are of a table, or
 *                               feature_numbers, I64 [D], if files number them otherwise (schema_file.c)
 *     host.*                    tensors of the host (host_tensors.c)
 *
 * A checkpoint is a model with tensors "state.*" (model_file.h, train/trainer_checkpoint.c) and the metadata entry
 * "checkpoint"; its weights do not include the scales that training keeps beside them.
 *
 * The header is padded so that the weights begin at a cache line.
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
#include "base/held.h"
#include "base/option.h"
#include "base/order.h"
#include "ranks/comm.h"
#include "ranks/same.h"

#include <inttypes.h>
#include <string.h>

/* Number of bytes of weights that are buffered before they are written, more if a row is longer. */
#define WRITE_BYTES ((size_t)1 << 20)
/* The least number of classes whose weights are buffered from a feature-major model: a cache line of each feature. */
#define WRITE_CLASSES 16

static xsm_status fail_diverged(const float *rows, bool vectors, size_t first, size_t features, xsm_error *err)
{
    size_t position = 0;
    while (xsmi_floats_finite(rows + position, 1)) {
        position++;
    }
    const size_t row = first + position / features, column = position % features;
    return vectors ? xsmi_fail(err, XSM_ERROR_DIVERGED,
                               "number %zu of the vector of feature %zu is not finite; nothing is saved", column, row)
                   : xsmi_fail(err, XSM_ERROR_DIVERGED,
                               "the weight of class %zu and feature %zu is not finite; nothing is saved", row, column);
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

/* -- writers of tensors -------------------------------------------------------------------------------------------- */

/* A model that is being saved, for its tensors' writers. */
typedef struct saving {
    const xsm_model *model;
    const xsmi_model_extras *extras; /* NULL: the model alone */
    bool *ended;                     /* see exchange_lines() */
} saving;

/* What the lines of a tensor are. It has a line for each class, or for each feature of a first layer, which every
 * process has. */
typedef enum line_kind {
    LINE_WEIGHTS, /* with `extras`, as in memory */
    LINE_BIAS,
    LINE_SQUARE,
    LINE_AGE,
    LINE_FACTOR,
    LINE_BYTES, /* the tensor's data: the lines of this process's classes, or of all */
    LINE_VECTORS,
    LINE_VECTOR_FACTOR
} line_kind;

static bool is_of_vectors(const xsmi_content *c)
{
    return c->part == LINE_VECTORS || c->part == LINE_VECTOR_FACTOR;
}

/* Returns the bytes of a line of a tensor. */
static size_t line_bytes(const xsmi_tensor *t)
{
    return xsmi_dtype_size(t->dtype) * (t->rank > 1 ? (size_t)t->shape[1] : 1);
}

/* Copies rows of a matrix; messages call the first one number `first`. */
static xsm_status get_rows(const xsmi_weights *w, bool vectors, bool raw, size_t from, size_t count, size_t first,
                           void *out, xsm_error *err)
{
    const size_t line = w->features * xsmi_number_bytes(w->narrow.dtype);
    if (w->narrow.data) {
        XSMI_TRY(xsmi_narrow_check(&w->narrow, from, count, first, err));
        memcpy(out, (const unsigned char *)w->narrow.data + from * line, count * line);
        return XSM_OK;
    }
    xsmi_weights_copy(w, NULL, from, count, raw, out, w->features);
    return xsmi_floats_finite(out, count * w->features) ? XSM_OK : fail_diverged(out, vectors, first, w->features, err);
}

/* Copies lines of this process's classes, or of a model that is not divided. */
static xsm_status get_lines(const xsmi_content *c, size_t first, size_t count, void *out, xsm_error *err)
{
    const saving *s = c->of;
    const xsm_model *own = xsmi_model_weights(s->model);
    const bool vectors = is_of_vectors(c);
    const xsmi_weights *w = vectors ? &own->layer->w : &own->w;
    const size_t from = vectors ? first : first - s->model->part.first, bytes = line_bytes(&c->tensor);
    double *squares = out;
    uint64_t *ages = out;
    float *factors = out;
    switch ((line_kind)c->part) {
    case LINE_WEIGHTS:
    case LINE_VECTORS:
        return get_rows(w, vectors, s->extras != NULL, from, count, first, out, err);
    case LINE_BIAS:
        memcpy(out, own->w.bias + from, count * bytes);
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
    case LINE_VECTOR_FACTOR:
        for (size_t k = 0; k < count; k++) {
            factors[k] = (float)w->row_scale[from + k]; /* exactly: it is a float */
        }
        return XSM_OK;
    case LINE_BYTES:
        break;
    }
    memcpy(out, c->tensor.data + from * bytes, count * bytes);
    return XSM_OK;
}

/* Copies lines of the classes of one process to `out`, on every process if the model is divided. Sets *ended to true if
 * every process fails, so that none waits for another. */
static xsm_status exchange_lines(const xsmi_content *c, size_t first, size_t count, void *out, xsm_error *err)
{
    const saving *s = c->of;
    if (!xsmi_model_is_divided(s->model) || is_of_vectors(c)) {
        return get_lines(c, first, count, out, err);
    }
    xsm_status status = xsmi_divided_has(s->model, first) ? get_lines(c, first, count, out, err) : XSM_OK;
    status = xsmi_divided_share(s->model, first, out, count * line_bytes(&c->tensor), status, err);
    *s->ended |= status != XSM_OK;
    return status;
}

/* Writes all lines. */
static xsm_status write_lines(const xsmi_content *c, xsmi_container_writer *w, xsm_error *err)
{
    const xsm_model *m = ((const saving *)c->of)->model;
    const size_t least = m->w.layout == XSM_LAYOUT_FEATURE_MAJOR ? WRITE_CLASSES : 1, bytes = line_bytes(&c->tensor),
                 lines = (size_t)c->tensor.shape[0];
    const bool divided = xsmi_model_is_divided(m) && !is_of_vectors(c);
    size_t together = WRITE_BYTES / (bytes ? bytes : 1);
    together = XSMI_MAX(together, least);
    together = XSMI_MIN(together, lines);
    unsigned char *some;
    XSMI_TRY(xsmi_array_new(m->context, &some, together, bytes, "copies of weights", err));
    xsm_status status = XSM_OK;
    for (size_t first = 0, count; first < lines && status == XSM_OK; first += count) {
        const size_t end = divided ? xsmi_divided_end(m, first) : lines;
        count = XSMI_MIN(end - first, together);
        status = exchange_lines(c, first, count, some, err);
        status = status == XSM_OK ? xsmi_container_write(w, some, count * bytes, err) : status;
    }
    xsmi_release(m->context, some, together, bytes);
    return status;
}

static xsm_status write_names(const xsmi_content *c, xsmi_container_writer *w, xsm_error *err)
{
    const xsm_model *m = ((const saving *)c->of)->model;
    for (size_t k = 0; k < m->classes; k++) {
        XSMI_TRY(xsmi_container_write(w, m->map.names[k], strlen(m->map.names[k]), err));
        XSMI_TRY(xsmi_container_write(w, "\n", 1, err));
    }
    return XSM_OK;
}

/* The memory for lines of a tensor whose columns are divided. */
typedef struct column_lines {
    size_t line, mine, stride;         /* bytes of a line, of this process's columns in it, and between these in
                                          memory */
    size_t *ends, *sizes;              /* [ranks] where the columns of each end in a line, and bytes that it sends */
    unsigned char *sent, *got, *whole; /* [together] lines: this process's; all, one process after another; as in the
                                          file */
} column_lines;

/* Joins lines as they are in the file, on every process. */
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

/* Writes tensor c->part of the extras, which has 4 bytes a number and whose columns are divided. */
static xsm_status write_columns(const xsmi_content *c, xsmi_container_writer *w, xsm_error *err)
{
    const saving *s = c->of;
    const xsm_model *m = s->model;
    const xsmi_tensor *t = &c->tensor;
    const uint32_t ranks = xsmi_ranks(m->context), rank = xsmi_rank(m->context);
    const size_t each = xsmi_dtype_size(t->dtype), line = line_bytes(t), all = (size_t)t->shape[0];
    const size_t stride = s->extras->divisions[c->part].stride * each;
    size_t together = WRITE_BYTES / line;
    together = XSMI_MAX(together, 1);
    together = XSMI_MIN(together, all);
    column_lines l = {.line = line, .stride = stride};
    xsmi_held held = {.context = m->context};
    size_t *numbers = xsmi_hold(&held, 2 * (size_t)ranks, sizeof *numbers);
    unsigned char *some = xsmi_hold(&held, 3 * together, line);
    xsm_status status = xsmi_held_check(&held, "copies of an optimizer's numbers", err);
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
        *s->ended |= status != XSM_OK;
        status = status == XSM_OK ? xsmi_container_write(w, l.whole, count * line, err) : status;
    }
    xsmi_held_release(&held);
    return status;
}

/* -- contents ------------------------------------------------------------------------------------------------------ */

/* Returns a tensor of rows, or of rows and columns if `columns` is above 0, with its writer. */
static xsmi_content content(const saving *s, const char *name, xsmi_dtype dtype, uint64_t rows, uint64_t columns,
                            xsmi_content_writer write)
{
    return (xsmi_content){
        .tensor = {.name = name, .dtype = dtype, .rank = columns > 0 ? 2 : 1, .shape = {rows, columns}},
        .write = write,
        .of = s};
}

/* Adds a tensor with a number for each class. */
static void add_lines(xsmi_contents *c, const saving *s, const char *name, xsmi_dtype dtype, line_kind kind,
                      const void *data)
{
    xsmi_content lines = content(s, name, dtype, s->model->classes, 0, write_lines);
    lines.tensor.data = data;
    lines.part = (int)kind;
    xsmi_contents_add(c, lines);
}

/* Adds a matrix, of which this process has the rows `w`, and its factors. */
static void add_matrix(xsmi_contents *c, const saving *s, const xsmi_weights *w, uint64_t rows, line_kind kind,
                       line_kind factor)
{
    const bool vectors = kind == LINE_VECTORS;
    xsmi_content factors =
        content(s, vectors ? XSMI_EMBEDDING_SCALE : XSMI_WEIGHT_SCALE, XSMI_DTYPE_F32, rows, 0, write_lines);
    xsmi_content numbers = content(s, vectors ? "embedding" : "weight", xsmi_kind_of(xsmi_weights_dtype(w))->tensor,
                                   rows, w->features, write_lines);
    factors.part = (int)factor;
    numbers.part = (int)kind;
    numbers.tensor.rank = 2;
    numbers.aligned = !vectors;
    xsmi_contents_add(c, numbers);
    if (xsmi_has_factors(w->narrow.dtype)) {
        xsmi_contents_add(c, factors);
    }
}

static void add_scales(xsmi_contents *c, const saving *s)
{
    const xsm_model *m = s->model, *own = xsmi_model_weights(m);
    xsmi_contents_add_data(c, XSMI_STATE_SCALE, XSMI_DTYPE_F64, 1, 0, &own->w.alpha);
    if (m->layer) {
        xsmi_contents_add_data(c, XSMI_STATE_LAYER_SCALE, XSMI_DTYPE_F64, 1, 0, &m->layer->w.alpha);
    }
    if (own->w.row_scale) {
        add_lines(c, s, XSMI_STATE_ROW_SCALE, XSMI_DTYPE_F64, LINE_BYTES, own->w.row_scale);
    }
    if (own->row_length) {
        add_lines(c, s, XSMI_STATE_ROW_LENGTH, XSMI_DTYPE_F64, LINE_SQUARE, NULL);
        add_lines(c, s, XSMI_STATE_ROW_AGE, XSMI_DTYPE_U64, LINE_AGE, NULL);
    }
}

/* Adds weights, bias and first layer. Sparse weights are in a list of their own. */
static void add_weights(xsmi_contents *c, const saving *s)
{
    const xsm_model *m = s->model, *own = xsmi_model_weights(m);
    if (m->w.layout != XSM_LAYOUT_SPARSE_ROWS) {
        add_matrix(c, s, &own->w, m->classes, LINE_WEIGHTS, LINE_FACTOR);
    }
    if (xsmi_model_has_bias(m)) {
        add_lines(c, s, "bias", XSMI_DTYPE_F32, LINE_BIAS, NULL);
    }
    if (m->layer && !m->layer->tied) {
        add_matrix(c, s, &m->layer->w, m->layer->features, LINE_VECTORS, LINE_VECTOR_FACTOR);
    }
}

static void add_transform(xsmi_contents *c, const xsmi_transform_parts *t)
{
    if (t->standard) {
        xsmi_contents_add_data(c, "standard", XSMI_DTYPE_F64, 2, t->columns, t->standard);
    }
    if (t->idf) {
        xsmi_contents_add_data(c, "idf", XSMI_DTYPE_F32, t->idf_count, 0, t->idf);
    }
    if (t->pairs) {
        xsmi_contents_add_data(c, "products", XSMI_DTYPE_U32, t->pair_count, 2, t->pairs);
    }
}

/* Adds the tensors of a checkpoint's state. */
static void add_extras(xsmi_contents *c, const saving *s)
{
    for (size_t i = 0; s->extras && i < s->extras->tensor_count; i++) {
        const int by = (int)s->extras->divisions[i].by;
        xsmi_contents_add(c, (xsmi_content){.tensor = s->extras->tensors[i],
                                            .write = by == XSMI_UNDIVIDED ? NULL
                                                     : by == XSMI_COLUMNS ? write_columns
                                                                          : write_lines,
                                            .of = s,
                                            .part = by == XSMI_COLUMNS ? (int)i : LINE_BYTES});
    }
}

static void add_sparse(xsmi_contents *c, const xsmi_sparse_tensors *sparse)
{
    bool aligned = false;
    for (size_t i = 0; i < sparse->count; i++) {
        const bool values = !aligned && xsmi_sparse_which(sparse->tensors[i].name) == XSMI_SPARSE_VALUES;
        xsmi_contents_add(c, (xsmi_content){.tensor = sparse->tensors[i], .aligned = values});
        aligned |= values;
    }
}

static void add_names(xsmi_contents *c, const saving *s)
{
    uint64_t bytes = 0;
    for (size_t k = 0; k < s->model->classes; k++) {
        bytes += strlen(s->model->map.names[k]) + 1;
    }
    xsmi_contents_add(c, content(s, "label_names", XSMI_DTYPE_U8, bytes, 0, write_names));
}

/* Lists all tensors; those with elements of the same size are in the order of the file. */
static void list_tensors(const saving *s, const xsmi_sparse_tensors *sparse, xsmi_contents *c)
{
    const xsm_model *m = s->model;
    if (m->map.labels) {
        xsmi_contents_add_data(c, "labels", XSMI_DTYPE_I64, m->classes, 0, m->map.labels);
    }
    if (m->map.counts) {
        xsmi_contents_add_data(c, "class_counts", XSMI_DTYPE_I64, m->classes, 0, m->map.counts);
    }
    add_weights(c, s);
    if (m->transform) {
        const xsmi_transform_parts parts = xsmi_transform_get_parts(m->transform);
        add_transform(c, &parts);
    }
    if (s->extras) {
        add_scales(c, s);
    }
    xsmi_tensor head[XSMI_HEAD_TENSORS];
    const size_t count = m->head ? m->head->kind->save(m->head, head) : 0;
    for (size_t i = 0; i < count; i++) {
        xsmi_contents_add(c, (xsmi_content){.tensor = head[i]});
    }
    add_extras(c, s);
    add_sparse(c, sparse);
    for (size_t i = 0; i < m->host.count; i++) {
        xsmi_contents_add(c, (xsmi_content){.tensor = m->host.list[i]->tensor});
    }
    if (m->map.names) {
        add_names(c, s);
    }
}

static xsm_status list_metadata(const saving *s, xsmi_contents *c, xsm_error *err)
{
    const xsm_model *m = s->model;
    xsmi_settings *to = &c->metadata;
    char text[XSMI_LAYER_TEXT > XSMI_CALIBRATION_TEXT ? XSMI_LAYER_TEXT : XSMI_CALIBRATION_TEXT];
    for (size_t i = 0; i < m->metadata.count; i++) {
        XSMI_TRY(xsmi_settings_add(to, m->metadata.keys[i], "", m->metadata.values[i], err));
    }
    if (s->extras) {
        XSMI_TRY(xsmi_contents_add_entries(c, s->extras->metadata, s->extras->metadata_count, err));
    }
    if (m->map.counts) {
        XSMI_TRY(xsmi_settings_add_whole(to, XSMI_KEY_TRAINING_ROWS, m->map.rows, err));
    }
    if (m->transform) {
        XSMI_TRY(xsmi_settings_add(to, XSMI_KEY_TRANSFORM, "", xsmi_transform_description(m->transform), err));
        XSMI_TRY(xsmi_settings_add_whole(to, XSMI_KEY_INPUT_FEATURES, xsmi_transform_features(m->transform), err));
    }
    if (m->w.layout == XSM_LAYOUT_SPARSE_ROWS) {
        XSMI_TRY(xsmi_settings_add_whole(to, XSMI_KEY_SPARSE_FEATURES, m->features, err));
    }
    if (xsmi_model_trees(m)) {
        xsmi_label_trees_describe(xsmi_model_trees(m), text);
        XSMI_TRY(xsmi_settings_add(to, XSMI_KEY_LABEL_TREES, "", text, err));
    }
    if (m->layer) {
        xsmi_layer_describe(m->layer, text, sizeof text);
        XSMI_TRY(xsmi_settings_add(to, XSMI_KEY_FIRST_LAYER, "", text, err));
    }
    if (m->score != XSM_GEOMETRY_LINEAR) {
        XSMI_TRY(xsmi_settings_add(to, XSMI_KEY_GEOMETRY, "", xsmi_geometry_names[m->score], err));
    }
    if (m->link != XSM_LINK_SOFTMAX) {
        XSMI_TRY(xsmi_settings_add(to, XSMI_KEY_LINK, "", xsmi_link_words[m->link], err));
    }
    if (!xsmi_calibration_is_link(&m->calibration, m->link)) {
        xsmi_calibration_describe(&m->calibration, text, sizeof text);
        XSMI_TRY(xsmi_settings_add(to, XSMI_KEY_CALIBRATION, "", text, err));
    }
    XSMI_TRY(xsmi_schema_list_base(m->map.schema, c, err));
    return xsmi_schema_list(m->map.schema, c, err);
}

static xsm_status write_file(const xsm_model *m, const xsmi_place *place, const xsmi_model_extras *extras, bool *ended,
                             xsm_error *err)
{
    const saving s = {m, extras, ended};
    xsmi_sparse_tensors sparse;
    xsmi_contents c;
    xsmi_activity activity;
    XSMI_TRY(xsmi_sparse_list(m, &sparse, err));
    xsmi_begin(&activity, m->context, "saving", "bytes", 0);
    xsmi_contents_start(&c, m->context);
    list_tensors(&s, &sparse, &c);
    xsm_status status = list_metadata(&s, &c, err);
    status = status == XSM_OK ? xsmi_contents_save(&c, place, &activity, err) : status;
    xsmi_contents_end(&c);
    xsmi_sparse_list_free(&sparse);
    return xsmi_end(&activity, status, err);
}

/* Takes part while process 0 writes the file, in one or two passes. */
static xsm_status take_part(const xsm_model *m, const xsmi_model_extras *extras, bool *ended, int passes,
                            xsm_error *err)
{
    const saving s = {m, extras, ended};
    const xsmi_sparse_tensors none = {.count = 0};
    xsmi_contents c;
    xsmi_contents_start(&c, m->context);
    list_tensors(&s, &none, &c);
    xsm_status status = XSM_OK;
    for (int pass = 0; pass < passes && status == XSM_OK; pass++) {
        status = xsmi_contents_take_part(&c, err);
    }
    xsmi_contents_end(&c);
    return status;
}

/* Saves a divided model: process 0 writes the file or the host's storage, and gets the weights of the other
 * processes. */
static xsm_status save_divided(const xsm_model *m, const xsmi_place *place, const xsmi_model_extras *extras,
                               xsm_error *err)
{
    const bool writes = xsmi_rank(m->context) == 0;
    float twice = writes && place->storage && !place->storage->seek; /* xsmi_container_fill() */
    XSMI_TRY(xsmi_exchange_max(m->context, &twice, 1, err));
    bool ended = false;
    const xsm_status status =
        writes ? write_file(m, place, extras, &ended, err) : take_part(m, extras, &ended, twice > 0 ? 2 : 1, err);
    return ended ? status : xsmi_agree(m->context, status, err);
}

/* Returns a hash of the user's metadata. */
static uint64_t hash_metadata(const xsm_model *m)
{
    uint64_t hash = m->metadata.count;
    for (size_t i = 0; i < m->metadata.count; i++) {
        hash += xsmi_entry_hash(m->metadata.keys[i], m->metadata.values[i]);
    }
    return hash;
}

/* The processes that save a model together: every one has all label trees and sparse weights, and process 0 writes
 * them. */
static xsm_context *group_of(const xsm_model *m)
{
    return xsmi_model_is_divided(m) || m->w.layout == XSM_LAYOUT_SPARSE_ROWS ? xsmi_context_group(m->context) : NULL;
}

static xsm_status save(const xsm_model *m, const xsmi_place *place, const xsmi_model_extras *extras, xsm_error *err)
{
    XSMI_TRY(xsmi_model_need_together(m, "saving", err));
    if (m->head && !m->head->kind->save) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "%s: the model's scores are made with %s of the host's, which no file can hold; a sampler with "
            "XSM_SAMPLER_TREE, one that does not depend on the row, or xsm_model_clear_correction() is "
            "accepted",
            place->name, m->head->kind->described);
    }
    xsm_context *group = group_of(m);
    const xsmi_number entries = XSMI_WHOLE("metadata", hash_metadata(m));
    XSMI_TRY(xsmi_numbers_agree(group, &entries, 1, XSM_OK, err));
    if (xsmi_model_is_divided(m)) {
        return save_divided(m, place, extras, err);
    }
    bool ended = false;
    const xsm_status status = !group || xsmi_rank(group) == 0 ? write_file(m, place, extras, &ended, err) : XSM_OK;
    return xsmi_agree(group, status, err);
}

static xsm_status save_at(const xsm_model *m, const char *path, const xsm_storage *storage, xsm_error *err)
{
    xsm_storage known;
    xsmi_place place;
    XSMI_TRY(xsmi_place_to_write(path, storage, &known, "xsm_model_save", &place, err));
    return save(m, &place, NULL, err);
}

xsm_status xsm_model_save(const xsm_model *m, const char *path, const xsm_storage *storage, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"});
    return XSMI_COLLECTIVE(group_of(m), save_at(m, path, storage, err), err);
}

xsm_status xsmi_model_save_state(const xsm_model *m, const xsmi_place *place, const xsmi_model_extras *extras,
                                 xsm_error *err)
{
    return save(m, place, extras, err);
}
