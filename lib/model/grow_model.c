/*
 * Growing models by classes and features: makes and fills a new model, which then replaces the old one, so that a
 * failure leaves the old one unchanged.
 */
#include "model/model.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"
#include "data/vocabulary.h"
#include "model/grow_trees.h"
#include "model/model_file.h"

#include <stddef.h>
#include <string.h>

/* Checks the features: their number can only grow if the transform does not depend on the feature. */
static xsm_status check_features(const xsm_model *m, uint32_t features, xsm_error *err)
{
    const uint32_t before = xsmi_model_input(m);
    if (features < before || features > XSM_FEATURES_MAX || (features > 0 && before == 0)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a model of %u features cannot become one of %u; accepted are %u to %u",
                         before, features, before, before ? XSM_FEATURES_MAX : 0);
    }
    if (features > before && m->transform && !xsmi_transform_may_grow(m->transform)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's transform '%.80s' was fitted for %u features, so that there can be no more",
                         xsmi_transform_description(m->transform), xsmi_transform_features(m->transform));
    }
    return XSM_OK;
}

/* Checks that a model which reads text gets new features only for new words. */
static xsm_status check_vocabulary(const xsm_model *m, uint32_t features, const xsm_class_map *map, xsm_error *err)
{
    const xsm_vocabulary *own = xsmi_schema_vocabulary(m->map.schema);
    if (own &&
        features > XSMI_MAX(xsmi_model_input(m), xsmi_vocabulary_features(map->vocabulary ? map->vocabulary : own))) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model reads text, and %u features are more than the words and n-grams of the map's "
                         "vocabulary; rows are read against the model's map (xsm_read_options.classes and "
                         "new_features)",
                         features);
    }
    return XSM_OK;
}

/* Finds the new number of each class of the model. */
static xsm_status match_classes(const xsm_model *m, const xsm_class_map *map, uint32_t *match, xsm_error *err)
{
    xsm_class_map own = XSM_CLASS_MAP_INIT;
    XSMI_TRY(xsm_model_get_class_map(m, &own, err));
    XSMI_TRY(xsmi_class_match(m->context, &own, map, match, err));
    for (uint32_t k = 0; k < m->classes; k++) {
        if (match[k] == XSM_CLASS_UNSEEN && own.names && !own.labels) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "the map has no class '%.80s', which the model has; all of its classes are needed",
                             own.names[k]);
        }
        if (match[k] == XSM_CLASS_UNSEEN) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "the map has no class of label %lld, which the model has; all of its classes are needed",
                             own.labels ? (long long)own.labels[k] : (long long)k);
        }
    }
    return XSM_OK;
}

/* With tied vectors, classes are features: checks that they keep their numbers. */
static xsm_status check_tied(const xsm_model *m, uint32_t features, uint32_t classes, const uint32_t *match,
                             xsm_error *err)
{
    if (!m->layer || !m->layer->tied) {
        return XSM_OK;
    }
    if (features != classes) {
        return xsmi_fail(
            err, XSM_ERROR_SHAPE,
            "tied vectors are both the features' and the classes': %u features and %u classes must be as many",
            features, classes);
    }
    for (uint32_t k = 0; k < m->classes; k++) {
        if (match[k] != k) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "the map makes class %u class %u, but tied vectors are the features', too, which keep "
                             "their numbers; accepted are new classes behind those that there are",
                             k, match[k]);
        }
    }
    return XSM_OK;
}

/* Number of weights copied between two polls. */
#define WEIGHTS_TOGETHER ((size_t)1 << 16)

/* Counts `weights` more weights, and polls if a poll is due. */
static xsm_status pass(const xsm_model *m, size_t weights, size_t *since, xsm_error *err)
{
    *since += weights;
    xsmi_advance(m->context, weights);
    if (*since < WEIGHTS_TOGETHER) {
        return XSM_OK;
    }
    *since = 0;
    return xsmi_go_on(m->context, err);
}

static xsm_status copy_weights(const xsm_model *m, const uint32_t *match, const xsm_parameters *to, xsm_error *err)
{
    bool class_major = m->w.layout == XSM_LAYOUT_CLASS_MAJOR;
    size_t since = 0;
    for (size_t k = 0; class_major && k < m->classes; k++) {
        memcpy(to->weight + match[k] * to->class_step, m->w.weight + k * m->w.stride,
               m->features * sizeof *m->w.weight);
        XSMI_TRY(pass(m, m->features, &since, err));
    }
    for (size_t j = 0; !class_major && j < m->features; j++) {
        for (size_t k = 0; k < m->classes; k += WEIGHTS_TOGETHER) {
            const size_t some = XSMI_MIN(m->classes - k, WEIGHTS_TOGETHER);
            for (size_t i = k; i < k + some; i++) {
                to->weight[j * to->feature_step + match[i]] = m->w.weight[j * m->w.stride + i];
            }
            XSMI_TRY(pass(m, some, &since, err));
        }
    }
    for (size_t k = 0; m->w.bias && k < m->classes; k++) {
        to->bias[match[k]] = m->w.bias[k];
    }
    return XSM_OK;
}

/* Adds the model's counts of training rows to the map's. `own`: the map is the model's. */
static xsm_status add_counts(const xsm_model *m, xsm_model *wider, bool own, const uint32_t *match, xsm_error *err)
{
    if (!m->map.counts || own) {
        return XSM_OK;
    }
    if (!wider->map.counts) {
        XSMI_TRY(xsmi_zeros_new(wider->context, &wider->map.counts, wider->classes, sizeof *wider->map.counts,
                                "the classes' counts", err));
    }
    for (uint32_t k = 0; k < m->classes; k++) {
        wider->map.counts[match[k]] += m->map.counts[k]; /* both are at most INT64_MAX */
    }
    wider->map.rows += m->map.rows;
    return xsmi_model_check_counts(wider->map.counts, wider->classes, wider->map.rows, err);
}

/* Checks that the map describes the model's features as the model does; a map without a description keeps the
 * model's. */
static xsm_status keep_schema(const xsm_model *m, xsm_model *wider, uint32_t features, xsm_error *err)
{
    const xsmi_feature_side own = {m->map.schema, xsmi_model_input_features(m), "the model"};
    const xsmi_feature_side map = {wider->map.schema, 0, "the map"};
    XSMI_TRY(xsmi_features_kept(&own, &map, err));
    wider->map.schema = wider->map.schema ? wider->map.schema : xsmi_schema_retain(m->map.schema);
    const xsmi_schema *s = wider->map.schema;
    return !s || s->kind == XSMI_SCHEMA_WORDS || s->count == 0 || features <= XSMI_MAX(xsmi_model_input(m), s->count)
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                           "%u features, and the map says what %u of them are; rows are read against the model's map "
                           "(xsm_read_options.classes and new_features)",
                           features, s->count);
}

/* Fills in everything but the weights. */
static xsm_status fill_rest(const xsm_model *m, xsm_model *wider, uint32_t features, const xsm_class_map *map,
                            const uint32_t *match, xsm_error *err)
{
    XSMI_TRY(xsmi_model_put_class_map(wider, map, err));
    XSMI_TRY(keep_schema(m, wider, features, err));
    XSMI_TRY(add_counts(m, wider, map->counts && map->counts == m->map.counts, match, err));
    if (m->transform) {
        const bool same = features == xsmi_model_input(m); /* features after the transform */
        const xsmi_transform_parts parts = xsmi_transform_get_parts(m->transform);
        XSMI_TRY(same ? xsmi_transform_restore(m->context, &parts, &wider->transform, err)
                      : xsmi_transform_grown(m->transform, features, &wider->transform, err));
    }
    wider->link = m->link;
    wider->calibration = m->calibration;
    return XSM_OK;
}

static xsm_status fill(const xsm_model *m, xsm_model *wider, uint32_t features, const xsm_class_map *map,
                       const uint32_t *match, xsm_error *err)
{
    xsm_parameters to = XSM_PARAMETERS_INIT;
    XSMI_TRY(fill_rest(m, wider, features, map, match, err));
    if (xsmi_model_trees(m)) {
        return XSM_OK;
    }
    XSMI_TRY(xsm_model_get_parameters(wider, &to, err));
    if (m->w.row_scale) {
        XSMI_TRY(xsmi_model_need_row_scale(wider, err));
        for (uint32_t k = 0; k < m->classes; k++) {
            wider->w.row_scale[match[k]] = m->w.row_scale[k];
        }
    }
    wider->w.alpha = m->w.alpha;
    wider->score = m->score; /* a new class is at the origin, with a bias of 0 */
    XSMI_TRY(copy_weights(m, match, &to, err));
    return xsmi_layer_grow(m, features, wider, err);
}

/* Exchanges all members except the count of references and the number of the shape. */
static void swap(xsm_model *a, xsm_model *b)
{
    enum { FIRST = offsetof(xsm_model, context), SIZE = sizeof(xsm_model) - FIRST };
    unsigned char before[SIZE];
    memcpy(before, (unsigned char *)a + FIRST, SIZE);
    memcpy((unsigned char *)a + FIRST, (unsigned char *)b + FIRST, SIZE);
    memcpy((unsigned char *)b + FIRST, before, SIZE);
}

static xsm_status grow(xsm_model *m, uint32_t features, const xsm_class_map *map, uint32_t *match, xsm_error *err)
{
    const bool grows = map->classes > m->classes || features > xsmi_model_input(m);
    XSMI_TRY(match_classes(m, map, match, err));
    XSMI_TRY(check_tied(m, features, map->classes, match, err));
    const bool trees = xsmi_model_trees(m) != NULL;
    if (xsmi_model_nodes(m) && !trees && grows) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's weights are those of the nodes of a tree over its classes, which cannot grow");
    }
    if (m->head && !trees && grows) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's scores are corrected by what its training %s, which is not known of new "
                         "classes and features; clear its correction before",
                         m->head->kind->drawn ? "drew" : "counted");
    }
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = m->w.bias != NULL;
    options.layout = m->w.layout;
    xsm_model *wider = NULL;
    uint32_t columns = m->layer ? m->features : features;
    XSMI_TRY(trees ? xsmi_label_trees_grow(m, features, map->classes, match, &wider, err)
                   : xsm_model_new_linear(m->context, columns, map->classes, &options, &wider, err));
    xsm_status status = fill(m, wider, features, map, match, err);
    if (status == XSM_OK) {
        swap(m, wider);
        m->shape += grows;
        /* Members that do not depend on the shape stay with the model. */
        m->metadata = wider->metadata;
        if (!trees) {
            m->head = wider->head;
            wider->head = NULL;
        }
        m->host = wider->host;
        if (xsmi_host_tensors_mapped(&m->host)) {
            m->mapping = wider->mapping;
            m->lender = wider->lender;
            wider->mapping = (xsmi_mapping){.data = NULL};
            wider->lender.release = NULL;
        }
        wider->metadata = (xsmi_metadata){NULL, NULL, 0};
        wider->host = (xsmi_host_tensors){NULL, 0, 0};
    }
    xsm_model_free(wider);
    return status;
}

xsm_status xsm_model_grow(xsm_model *m, uint32_t features, const xsm_class_map *given, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"});
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    if (!xsmi_model_trees(m)) {
        XSMI_TRY(xsmi_model_need_dense(m, "growing", err));
    } else if (xsmi_model_dtype(m) != XSM_DTYPE_FLOAT32) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "a label tree grows in float32; xsm_model_convert() makes such a one");
    }
    XSMI_TRY(check_features(m, features, err));
    if (given) {
        XSMI_TRY(xsmi_class_map_read(given, &map, err));
    } else {
        XSMI_TRY(xsm_model_get_class_map(m, &map, err));
    }
    XSMI_TRY(check_vocabulary(m, features, &map, err));
    const uint32_t classes = m->classes;
    xsm_context *ctx = xsmi_context_retain(m->context);
    uint32_t *match = xsmi_allocate(ctx, classes, sizeof *match);
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "growing a model", "weights", (uint64_t)classes * m->features);
    xsm_status status = match ? grow(m, features, &map, match, err)
                              : xsmi_fail_memory(err, classes * sizeof *match, "the numbers of classes");
    status = xsmi_end(&activity, status, err);
    xsmi_release(ctx, match, classes, sizeof *match);
    xsm_context_free(ctx);
    return status;
}
