/*
 * Loading a model: checks and maps a file of model_save.c, whose weights are used in place. In a context with several
 * processes, each reads the weights of its classes, and everything that is not divided.
 */
#include "model/model.h"
#include "model/divided.h"
#include "model/model_file.h"
#include "model/narrow.h"
#include "model/sparse_file.h"
#include "base/activity.h"
#include "base/buffer.h"
#include "base/entry.h"
#include "base/hash.h"
#include "base/held.h"
#include "base/option.h"
#include "ranks/comm.h"

#include <inttypes.h>
#include <string.h>

/* A file being loaded: the container, and its name in messages. */
typedef struct source {
    const xsmi_container *container;
    const char *name;
} source;

/* Finds the tensor of that name and dtype; *out is NULL if there is none. Another dtype or rank is an error. */
static xsm_status find_tensor(const source *s, const char *name, xsmi_dtype dtype, uint32_t rank,
                              const xsmi_tensor **out, xsm_error *err)
{
    const xsmi_tensor *t = xsmi_container_tensor(s->container, name);
    if (t && (t->dtype != dtype || t->rank != rank)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: tensor '%s' is %s of %u dimensions; %s of %u is needed", s->name,
                         name, xsmi_dtype_name(t->dtype), t->rank, xsmi_dtype_name(dtype), rank);
    }
    *out = t;
    return XSM_OK;
}

static xsm_status check_count(const source *s, const xsmi_tensor *t, uint32_t classes, xsm_error *err)
{
    if (t->shape[0] != classes) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: tensor '%s' has %llu elements; the model has %u classes", s->name,
                         t->name, (unsigned long long)t->shape[0], classes);
    }
    return XSM_OK;
}

/* Makes a model with sparse weights, whose bias is read like that of other models, or with trees. */
static xsm_status new_sparse_model(const source *s, xsm_context *ctx, const xsmi_tensor *bias, xsm_model **out,
                                   xsm_error *err)
{
    xsm_model *m;
    if (xsmi_container_metadata(s->container, XSMI_KEY_CHECKPOINT) ||
        xsmi_container_metadata(s->container, XSMI_KEY_FIRST_LAYER) ||
        xsmi_container_tensor(s->container, "embedding")) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: it has sparse weights, which %s cannot have", s->name,
                         xsmi_container_metadata(s->container, XSMI_KEY_CHECKPOINT) ? "a checkpoint"
                                                                                    : "an embedding model");
    }
    XSMI_TRY(xsmi_sparse_model_read(ctx, s->container, s->name, &m, err));
    xsm_status status = XSM_OK;
    if (m->classes > XSM_CLASSES_MAX || (m->features < 1 && !bias && m->w.sparse)) {
        status = xsmi_fail(err, XSM_ERROR_FORMAT,
                           "%s: sparse weights of %u classes and %u features; 1 to %u classes are accepted, and no "
                           "features with a bias",
                           s->name, m->classes, m->features, XSM_CLASSES_MAX);
    } else if (bias && xsmi_model_trees(m)) {
        status = xsmi_fail(err, XSM_ERROR_FORMAT, "%s: label trees have no tensor 'bias'", s->name);
    } else if (bias) {
        status = check_count(s, bias, m->classes, err);
        m->w.bias = (float *)(uintptr_t)bias->data;
    }
    if (status != XSM_OK) {
        xsm_model_free(m);
        return status;
    }
    *out = m;
    return XSM_OK;
}

/* Finds the tensor 'weight', of float32 or, outside checkpoints, in fewer bits; *out is NULL if there is none. */
static xsm_status find_weight(const source *s, const xsmi_tensor **out, xsm_error *err)
{
    const xsmi_tensor *t = xsmi_container_tensor(s->container, "weight");
    if (!t || t->dtype == XSMI_DTYPE_F32 || !xsmi_kind_in_file(t->dtype)) {
        return find_tensor(s, "weight", XSMI_DTYPE_F32, 2, out, err);
    }
    if (xsmi_container_metadata(s->container, XSMI_KEY_CHECKPOINT)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: tensor 'weight' is %s; that of a checkpoint is F32", s->name,
                         xsmi_dtype_name(t->dtype));
    }
    if (t->rank == 2 && t->shape[1] < 1) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: tensor 'weight' is %s, and has no features; F32 is accepted so",
                         s->name, xsmi_dtype_name(t->dtype));
    }
    return find_tensor(s, "weight", t->dtype, 2, out, err);
}

/* Reads a bias of the weights' type, as other programs store it. */
static xsm_status widen_bias(xsm_model *m, const xsmi_tensor *bias, xsm_error *err)
{
    const xsmi_narrow numbers = {m->w.narrow.dtype, bias->data, 0};
    XSMI_TRY(xsmi_array_new(m->context, &m->w.bias, m->classes, sizeof *m->w.bias, "the bias", err));
    m->bias_owned = true;
    m->kernels->widen(&numbers, 0, m->classes, m->w.bias);
    return XSM_OK;
}

static xsm_status new_model(const source *s, xsm_context *ctx, xsm_model **out, xsm_error *err)
{
    const xsmi_tensor *weight = NULL;
    const xsmi_tensor *bias = NULL;
    const char *kind = xsmi_container_kind(s->container);
    if (kind && strcmp(kind, "a model") != 0 && strcmp(kind, "a checkpoint of training") != 0) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: %s, and a model is wanted", s->name, kind);
    }
    XSMI_TRY(find_weight(s, &weight, err));
    const xsmi_tensor *given = xsmi_container_tensor(s->container, "bias");
    const bool narrow_bias = weight && given && weight->dtype == given->dtype && given->dtype != XSMI_DTYPE_F32 &&
                             !xsmi_kind_in_file(given->dtype)->whole;
    XSMI_TRY(find_tensor(s, "bias", narrow_bias ? given->dtype : XSMI_DTYPE_F32, 1, &bias, err));
    if (xsmi_sparse_in_file(s->container)) {
        return weight ? xsmi_fail(err, XSM_ERROR_FORMAT, "%s: it has a tensor 'weight' and sparse weights", s->name)
                      : new_sparse_model(s, ctx, bias, out, err);
    }
    if (!weight) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: not a model: it has no tensor 'weight'", s->name);
    }
    if (weight->shape[0] < 1 || weight->shape[0] > XSM_CLASSES_MAX || (weight->shape[1] < 1 && !bias) ||
        weight->shape[1] > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: weights of %llu classes and %llu features; 1 to %u are accepted, and no features with a "
                         "bias",
                         s->name, (unsigned long long)weight->shape[0], (unsigned long long)weight->shape[1],
                         XSM_CLASSES_MAX);
    }
    uint32_t classes = (uint32_t)weight->shape[0];
    if (bias) {
        XSMI_TRY(check_count(s, bias, classes, err));
    }
    xsm_model *m = NULL;
    XSMI_TRY(xsmi_model_new_empty(ctx, (uint32_t)weight->shape[1], classes, &m, err));
    if (xsmi_tensor_kept(weight) < weight->size) {
        const size_t line = weight->size / classes;
        m->part.first = (uint32_t)(weight->part.from / line);
        m->part.end = (uint32_t)(weight->part.to / line);
    }
    xsm_status status = xsmi_weights_read(ctx, s->container, s->name, weight, XSMI_WEIGHT_SCALE, &m->w, err);
    if (status != XSM_OK) {
        xsm_model_free(m);
        return status;
    }
    m->w.bias = bias ? (float *)(uintptr_t)bias->data : NULL;
    if (narrow_bias) {
        status = widen_bias(m, bias, err);
        if (status != XSM_OK) {
            xsm_model_free(m);
            return status;
        }
    }
    *out = m;
    return XSM_OK;
}

/* Splits lines into `count` names. `text` is a copy in which each line end is replaced by a zero. */
static xsm_status split_names(const source *s, char *text, size_t length, const char **names, size_t count,
                              xsm_error *err)
{
    size_t offset = 0;
    for (size_t k = 0; k < count; k++) {
        char *end = memchr(text + offset, '\n', length - offset);
        if (!end) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: label_names has %zu lines; the model has %zu classes", s->name,
                             k, count);
        }
        size_t size = (size_t)(end - (text + offset));
        if (memchr(text + offset, '\0', size)) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the name of class %zu has a zero byte in it", s->name, k);
        }
        *end = '\0';
        names[k] = text + offset;
        offset += size + 1;
    }
    if (offset != length) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: label_names has more lines than the model's %zu classes", s->name,
                         count);
    }
    return XSM_OK;
}

/* Adds the file's name to an error of code that knows no files; out of memory stays as it is. */
static xsm_status in_file(const source *s, xsm_status status, const xsm_error *inner, xsm_error *err)
{
    if (status == XSM_OK || status == XSM_ERROR_MEMORY) {
        return status == XSM_OK ? status : xsmi_fail_copy(err, inner);
    }
    return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: %s", s->name, inner->message);
}

static xsm_status load_counts(const source *s, const xsm_model *m, xsm_class_map *map, xsm_error *err)
{
    const xsmi_tensor *counts = NULL;
    XSMI_TRY(find_tensor(s, "class_counts", XSMI_DTYPE_I64, 1, &counts, err));
    const char *text = xsmi_container_metadata(s->container, XSMI_KEY_TRAINING_ROWS);
    if (!counts && !text) {
        return XSM_OK;
    }
    int64_t rows = 0;
    if (!counts || !text || !xsmi_parse_int(text, &rows)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: a tensor 'class_counts' and the metadata 'training_rows', a number, need each other",
                         s->name);
    }
    XSMI_TRY(check_count(s, counts, m->classes, err));
    /* Read as unsigned, so that negative numbers are larger than every number that xsmi_model_check_counts()
     * accepts. */
    map->counts = (const uint64_t *)(const void *)counts->data;
    map->rows = (uint64_t)rows;
    return XSM_OK;
}

static xsm_status load_classes(const source *s, xsm_model *m, xsm_error *err)
{
    const xsmi_tensor *labels = NULL;
    const xsmi_tensor *lines = NULL;
    XSMI_TRY(find_tensor(s, "labels", XSMI_DTYPE_I64, 1, &labels, err));
    XSMI_TRY(find_tensor(s, "label_names", XSMI_DTYPE_U8, 1, &lines, err));
    if (labels) {
        XSMI_TRY(check_count(s, labels, m->classes, err));
    }
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = m->classes;
    map.labels = labels ? (const int64_t *)(const void *)labels->data : NULL;
    XSMI_TRY(load_counts(s, m, &map, err));
    xsmi_held held = {.context = m->context};
    xsm_status status = XSM_OK;
    if (lines) {
        const char **names = xsmi_hold(&held, m->classes, sizeof *names);
        char *text = xsmi_hold(&held, lines->size, 1);
        status = xsmi_held_check(&held, "the classes' names", err);
        if (status == XSM_OK) {
            memcpy(text, lines->data, lines->size);
            status = split_names(s, text, lines->size, names, m->classes, err);
            map.names = names;
        }
    }
    if (status == XSM_OK) {
        xsm_error inner = XSM_ERROR_INIT;
        status = in_file(s, xsm_model_set_class_map(m, &map, &inner), &inner, err);
    }
    xsmi_held_release(&held);
    return status;
}

static xsm_status load_transform(const source *s, xsm_model *m, xsm_error *err)
{
    const xsmi_tensor *idf = NULL, *standard = NULL, *pairs = NULL;
    XSMI_TRY(find_tensor(s, "idf", XSMI_DTYPE_F32, 1, &idf, err));
    XSMI_TRY(find_tensor(s, "standard", XSMI_DTYPE_F64, 2, &standard, err));
    XSMI_TRY(find_tensor(s, "products", XSMI_DTYPE_U32, 2, &pairs, err));
    const char *description = xsmi_container_metadata(s->container, XSMI_KEY_TRANSFORM);
    const char *text = xsmi_container_metadata(s->container, XSMI_KEY_INPUT_FEATURES);
    if (!description && !text && !idf && !standard && !pairs) {
        return XSM_OK;
    }
    int64_t features = 0;
    if (!description || !text || !xsmi_parse_int(text, &features) || features < 1 || features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: a transform needs the metadata 'transform' and 'input_features', 1 to %u", s->name,
                         XSM_FEATURES_MAX);
    }
    if (idf && idf->shape[0] > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: tensor 'idf' has %llu elements", s->name,
                         (unsigned long long)idf->shape[0]);
    }
    if (standard && (standard->shape[0] != 2 || standard->shape[1] > XSM_FEATURES_MAX)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: tensor 'standard' is of shape [%llu, %llu]; [2, n] is needed",
                         s->name, (unsigned long long)standard->shape[0], (unsigned long long)standard->shape[1]);
    }
    if (pairs && (pairs->shape[0] > XSM_FEATURES_MAX || pairs->shape[1] != 2)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: tensor 'products' is of shape [%llu, %llu]; [n, 2] is needed",
                         s->name, (unsigned long long)pairs->shape[0], (unsigned long long)pairs->shape[1]);
    }
    const xsmi_transform_parts parts = {
        .description = description,
        .features = (uint32_t)features,
        .idf = idf ? (const float *)(const void *)idf->data : NULL,
        .standard = standard ? (const double *)(const void *)standard->data : NULL,
        .columns = standard ? (uint32_t)standard->shape[1] : 0,
        .idf_count = idf ? (uint32_t)idf->shape[0] : 0,
        .pairs = pairs ? (const xsmi_feature_pair *)(const void *)pairs->data : NULL,
        .pair_count = pairs ? (uint32_t)pairs->shape[0] : 0,
    };
    xsm_error inner = XSM_ERROR_INIT;
    XSMI_TRY(in_file(s, xsmi_transform_restore(m->context, &parts, &m->transform, &inner), &inner, err));
    uint32_t output = xsmi_transform_output_features(m->transform);
    if (output != xsmi_model_input(m)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the transform yields %u features, the model has %u", s->name,
                         output, xsmi_model_input(m));
    }
    return XSM_OK;
}

#define LIST(kind) &kind,
static const xsmi_head_kind *const heads[] = {XSMI_HEADS(LIST)};

/* Finds a kind's tensors; returns false if the file has none of them. */
static bool find_head(const xsmi_head_kind *kind, const xsmi_container *file, xsmi_tensor_source *t)
{
    bool any = false;
    for (size_t i = 0; kind->tensor_names[i]; i++) {
        t->tensors[i] = xsmi_container_tensor(file, kind->tensor_names[i]);
        any |= t->tensors[i] != NULL;
    }
    return any;
}

static xsm_status load_head(const source *s, xsm_model *m, xsm_error *err)
{
    xsmi_tensor_source tensors = {m->context, s->name, m->classes, xsmi_model_input(m), {NULL}};
    const xsmi_head_kind *kind = NULL;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        if (!find_head(heads[i], s->container, &tensors)) {
            continue;
        }
        if (kind || m->head) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: its scores are made with %s and with %s; one is accepted",
                             s->name, kind ? kind->described : m->head->kind->described, heads[i]->described);
        }
        kind = heads[i];
    }
    if (!kind) {
        return XSM_OK;
    }
    (void)find_head(kind, s->container, &tensors);
    return kind->load(&tensors, &m->head, err);
}

/* Needs the first layer and the hierarchy, which are loaded before. */
static xsm_status load_score(const source *s, xsm_model *m, xsm_error *err)
{
    const char *score = xsmi_container_metadata(s->container, XSMI_KEY_GEOMETRY);
    if (!score || strcmp(score, xsmi_geometry_names[XSM_GEOMETRY_LINEAR]) == 0) {
        return XSM_OK;
    }
    if (strcmp(score, xsmi_geometry_names[XSM_GEOMETRY_EUCLIDEAN]) != 0) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: the metadata '" XSMI_KEY_GEOMETRY "' is '%.100s'; linear or euclidean is accepted",
                         s->name, score);
    }
    if (!m->w.bias || m->features < 1 || (m->layer && m->layer->tied) || xsmi_model_nodes(m) ||
        m->w.layout == XSM_LAYOUT_SPARSE_ROWS) {
        return xsmi_fail(
            err, XSM_ERROR_FORMAT,
            "%s: scores that are distances need a tensor 'bias' and features, and neither tied vectors nor "
            "a hierarchy",
            s->name);
    }
    m->score = XSM_GEOMETRY_EUCLIDEAN;
    return XSM_OK;
}

/* Needs the hierarchy; load_calibration() needs both. */
static xsm_status load_link(const source *s, xsm_model *m, xsm_error *err)
{
    const char *word = xsmi_container_metadata(s->container, XSMI_KEY_LINK);
    const bool sigmoid = word && strcmp(word, xsmi_link_words[XSM_LINK_SIGMOID]) == 0;
    const bool known = !word || sigmoid || strcmp(word, xsmi_link_words[XSM_LINK_SOFTMAX]) == 0;
    if (!known || (sigmoid && xsmi_model_nodes(m))) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: the metadata '" XSMI_KEY_LINK "' is '%.100s'; softmax is accepted, and sigmoid but for "
                         "label trees and hierarchies",
                         s->name, word);
    }
    xsmi_model_put_link(m, sigmoid ? XSM_LINK_SIGMOID : XSM_LINK_SOFTMAX);
    return XSM_OK;
}

static xsm_status load_calibration(const source *s, xsm_model *m, xsm_error *err)
{
    const char *text = xsmi_container_metadata(s->container, XSMI_KEY_CALIBRATION);
    xsmi_calibration c;
    if (!text) {
        return XSM_OK;
    }
    if (!xsmi_calibration_parse(text, &c) || xsmi_model_check_calibratable(m, c.method, NULL) != XSM_OK) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: the metadata '" XSMI_KEY_CALIBRATION
                         "' is '%.100s'; 'temperature SCALE' or 'labels SCALE "
                         "SHIFT' is accepted, of label trees the latter alone, a scale from %g to %g, and no hierarchy",
                         s->name, text, XSMI_CALIBRATION_LEAST, XSMI_CALIBRATION_MOST);
    }
    m->calibration = c;
    return XSM_OK;
}

void xsmi_model_choose_part(const void *context, const xsmi_tensor *t, xsmi_tensor_part *part)
{
    const xsm_context *ctx = context;
    const uint32_t ranks = xsmi_ranks(ctx), rank = xsmi_rank(ctx);
    if (strcmp(t->name, "weight") == 0 && t->rank == 2 && t->shape[0] <= XSM_CLASSES_MAX &&
        xsmi_enough_classes((uint32_t)t->shape[0], ranks)) { /* otherwise the model is refused */
        const uint32_t classes = (uint32_t)t->shape[0];
        const size_t line = t->size / classes;
        part->from = xsmi_part_start(classes, ranks, rank) * line;
        part->to = xsmi_part_start(classes, ranks, rank + 1) * line;
    }
}

/* Notes which release wrote the file, and in which format. */
static xsm_status load_writer(const source *s, xsm_model *m, xsm_error *err)
{
    const char *version = xsmi_container_metadata(s->container, XSMI_KEY_VERSION);
    const char *release = version ? xsmi_container_metadata(s->container, XSMI_KEY_LIBRARY) : NULL;
    m->format_version = version ? XSMI_CONTAINER_VERSION : 0; /* the only one that is read */
    m->release = release ? xsmi_copy_text(m->context, release, strlen(release)) : NULL;
    return release && !m->release ? xsmi_fail_memory(err, strlen(release), "the release") : XSM_OK;
}

/* Loads everything but the weights. */
static xsm_status load_rest(const source *s, xsm_model *m, xsm_error *err)
{
    const xsmi_container *file = s->container;
    xsm_error inner = XSM_ERROR_INIT;
    XSMI_TRY(xsmi_layer_read(m, file, s->name, err));
    XSMI_TRY(load_classes(s, m, err));
    XSMI_TRY(xsmi_schema_load(m->context, file, s->name, &m->map.schema, err));
    XSMI_TRY(load_transform(s, m, err));
    XSMI_TRY(in_file(s, xsmi_schema_check_count(m->map.schema, xsmi_model_input_features(m), &inner), &inner, err));
    if (xsmi_container_metadata(file, XSMI_KEY_CHECKPOINT)) {
        XSMI_TRY(xsmi_model_load_scales(m, file, s->name, err));
        xsmi_container_know(file, XSMI_STATE_PREFIX);
    }
    XSMI_TRY(load_head(s, m, err));
    XSMI_TRY(load_score(s, m, err));
    XSMI_TRY(load_link(s, m, err));
    XSMI_TRY(load_calibration(s, m, err));
    XSMI_TRY(xsmi_model_copy_metadata(m, file, err));
    XSMI_TRY(load_writer(s, m, err));
    XSMI_TRY(xsmi_host_tensors_read(m->context, file, s->name, &m->host, err));
    return xsmi_container_check_known(file, s->name, "a model", err);
}

/* The few numbers of the bias are checked here. Checking the weights would read a mapped file whole: scores that they
 * make not finite are errors. */
static xsm_status check_bias(const source *s, const xsm_model *m, xsm_error *err)
{
    for (uint32_t k = 0; m->w.bias && k < m->classes; k++) {
        if (!xsmi_floats_finite(m->w.bias + k, 1)) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the bias of class %u is %g; finite numbers are accepted",
                             s->name, k, (double)m->w.bias[k]);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_model_from_container(xsm_context *ctx, xsmi_container *container, const char *name, xsm_model **out,
                                     xsm_error *err)
{
    const source s = {container, name};
    xsm_model *m = NULL;
    XSMI_TRY(new_model(&s, ctx, &m, err));
    xsm_status status = check_bias(&s, m, err);
    status = status == XSM_OK ? load_rest(&s, m, err) : status;
    if (status != XSM_OK) {
        xsm_model_free(m);
        return status;
    }
    m->mapping = xsmi_container_detach_mapping(container);
    *out = m;
    return XSM_OK;
}

uint64_t xsmi_file_mark(const xsmi_container *c)
{
    const char *sum = xsmi_container_metadata(c, XSMI_KEY_CHECKSUM);
    return sum ? xsmi_hash(sum, strlen(sum), 0) : 0;
}

xsm_status xsmi_check_same_file(xsm_context *ctx, uint64_t mine, const char *name, xsm_error *err)
{
    bool same;
    xsm_status status = XSM_OK;
    XSMI_TRY(xsmi_compare_first(ctx, mine, &same, err));
    if (!same) {
        status = xsmi_fail(err, XSM_ERROR_STATE,
                           "%s: this is not the file that rank 0 has read: was it replaced meanwhile?", name);
    } else if (mine == 0 && xsmi_ranks(ctx) > 1) {
        status =
            xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                      "%s: another program wrote it, without the checksum by which processes compare what they read; "
                      "load and save it in one process first",
                      name);
    }
    return xsmi_agree(ctx, status, err);
}

static xsm_status load(xsm_context *context, const char *path, const xsm_storage *storage,
                       const xsm_load_options *options, xsm_model **out, xsm_error *err)
{
    xsm_load_options o = XSM_LOAD_OPTIONS_INIT;
    xsm_storage known;
    xsmi_place place;
    XSMI_TRY(xsmi_place_to_read(path, storage, &known, "xsm_model_load", &place, err));
    XSMI_TRY(xsmi_need("xsm_model_load", XSMI_GIVEN({out, "out"}), err));
    XSMI_TRY(XSMI_READ(xsm_load_options, &o, options, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_load_options, &o, skip_verify, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_load_options, &o, copy, err));
    XSMI_TRY(o.copy ? xsmi_place_check_unlent(&place, err) : XSM_OK);
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    xsmi_container *container = NULL;
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "loading", "bytes", 0);
    const xsm_storage *lent = place.storage && place.storage->bytes && !o.copy ? place.storage : NULL;
    const xsmi_open_how how = {.believe = o.skip_verify,
                               .copy = o.copy,
                               .choose = xsmi_ranks(ctx) > 1 ? xsmi_model_choose_part : NULL,
                               .chooser = ctx};
    xsm_model *m = NULL;
    xsm_status status = xsmi_container_open_at(ctx, &place, how, &container, err);
    if (status == XSM_OK) {
        status = xsmi_model_from_container(ctx, container, place.name, &m, err);
    }
    if (xsmi_ranks(ctx) > 1) {
        status = status == XSM_OK ? xsmi_model_divide(m, err) : status;
        status = xsmi_agree(ctx, status, err);
        status = status == XSM_OK ? xsmi_check_same_file(ctx, xsmi_file_mark(container), place.name, err) : status;
    }
    xsmi_container_close(container); /* the weights of a part were copied */
    status = xsmi_end(&activity, status, err);
    if (status == XSM_OK) {
        m->lender = lent ? xsmi_buffer_lender(lent) : m->lender;
        *out = m;
    } else {
        xsm_model_free(m);
    }
    xsm_context_free(ctx);
    return status;
}

xsm_status xsm_model_load(xsm_context *context, const char *path, const xsm_storage *storage,
                          const xsm_load_options *options, xsm_model **out, xsm_error *err)
{
    XSMI_ENTER(err);
    return XSMI_COLLECTIVE(xsmi_context_group(context), load(context, path, storage, options, out, err), err);
}
