/*
 * The class map of a model (labels and names of its classes, what its features are), and its metadata: text under keys,
 * kept in alphabetic order.
 */
#include "model/model.h"
#include "base/activity.h"
#include "base/entry.h"
#include "model/model_file.h"
#include "base/heap_sort.h"
#include "base/order.h"
#include "model/sparse_file.h"

#include <string.h>

/* Number of names between two polls. */
#define NAMES_TOGETHER 4096

static void release_names(xsm_context *ctx, char **names, size_t count, size_t filled)
{
    if (names) {
        for (size_t k = 0; k < filled; k++) {
            xsmi_release_text(ctx, names[k]);
        }
        xsmi_release(ctx, names, count, sizeof *names);
    }
}

void xsmi_model_clear_classes(xsm_model *m)
{
    xsmi_model_map *map = &m->map;
    xsmi_release(m->context, map->labels, m->classes, sizeof *map->labels);
    release_names(m->context, map->names, m->classes, m->classes);
    xsmi_release(m->context, map->counts, m->classes, sizeof *map->counts);
    xsmi_schema_release(map->schema);
    *map = (xsmi_model_map){.labels = NULL};
}

/* Returns a copy of `count` items, NULL if there are none. */
static void *copy_items(xsm_context *ctx, const void *items, size_t count, size_t each, xsm_status *status,
                        const char *what, xsm_error *err)
{
    void *copy = items && *status == XSM_OK ? xsmi_allocate(ctx, count, each) : NULL;
    if (copy) {
        memcpy(copy, items, count * each);
    } else if (items && *status == XSM_OK) {
        *status = xsmi_fail_memory(err, count * each, what);
    }
    return copy;
}

xsm_status xsmi_model_check_counts(const uint64_t *counts, uint32_t classes, uint64_t rows, xsm_error *err)
{
    if (counts && (rows < 1 || rows > INT64_MAX)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "class counts of %llu training rows; 1 to %lld rows are accepted",
                         (unsigned long long)rows, (long long)INT64_MAX);
    }
    for (uint32_t k = 0; counts && k < classes; k++) {
        if (counts[k] > rows) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "class %u is in %llu rows of %llu", k, (unsigned long long)counts[k],
                             (unsigned long long)rows);
        }
    }
    return XSM_OK;
}

static xsm_status check_labels(const int64_t *labels, size_t count, xsm_error *err)
{
    for (size_t k = 1; k < count; k++) {
        if (labels[k] <= labels[k - 1]) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "the label of class %zu is %lld, which is not above class %zu's %lld", k,
                             (long long)labels[k], k - 1, (long long)labels[k - 1]);
        }
    }
    return XSM_OK;
}

static xsm_status check_names(const xsm_context *ctx, const char *const *names, size_t count, xsm_error *err)
{
    for (size_t k = 0; k < count; k++) {
        if (k % NAMES_TOGETHER == 0) {
            XSMI_TRY(xsmi_go_on(ctx, err));
        }
        if (!names[k]) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the name of class %zu is NULL", k);
        }
        if (strpbrk(names[k], "\n\r")) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "the name of class %zu has a line end in it", k);
        }
        if (!xsmi_model_is_text(names[k])) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "the name of class %zu is not UTF-8", k);
        }
    }
    return XSM_OK;
}

static xsm_status copy_names(xsm_context *ctx, const char *const *names, size_t count, char ***out, xsm_error *err)
{
    char **copy;
    XSMI_TRY(xsmi_array_new(ctx, &copy, count, sizeof *copy, "the classes' names", err));
    for (size_t k = 0; k < count; k++) {
        size_t length = strlen(names[k]);
        xsm_status status = k % NAMES_TOGETHER == 0 ? xsmi_go_on(ctx, err) : XSM_OK;
        copy[k] = status == XSM_OK ? xsmi_copy_text(ctx, names[k], length) : NULL;
        if (!copy[k]) {
            release_names(ctx, copy, count, k);
            return status == XSM_OK ? xsmi_fail_memory(err, length + 1, "a class's name") : status;
        }
    }
    *out = copy;
    return XSM_OK;
}

static xsm_status set_class_map(xsm_model *m, const xsm_class_map *map, bool checked, xsm_error *err)
{
    xsm_class_map given = XSM_CLASS_MAP_INIT;
    XSMI_TRY(XSMI_READ(xsm_class_map, &given, map, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_class_map, &given, reserved, err));
    if (given.classes != m->classes) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "a class map of %u classes for a model of %u", given.classes,
                         m->classes);
    }
    if (given.labels) {
        XSMI_TRY(check_labels(given.labels, m->classes, err));
    }
    if (given.names) {
        XSMI_TRY(check_names(m->context, given.names, m->classes, err));
    }
    XSMI_TRY(xsmi_model_check_counts(given.counts, m->classes, given.rows, err));
    char **names = NULL;
    xsmi_schema *schema;
    xsm_status status = xsmi_schema_of_map(m->context, &given, &schema, err);
    status = status == XSM_OK && checked ? xsmi_schema_check_count(schema, xsmi_model_input_features(m), err) : status;
    int64_t *labels =
        copy_items(m->context, given.labels, m->classes, sizeof *labels, &status, "the classes' labels", err);
    uint64_t *counts =
        copy_items(m->context, given.counts, m->classes, sizeof *counts, &status, "the classes' counts", err);
    if (given.names && status == XSM_OK) {
        status = copy_names(m->context, given.names, m->classes, &names, err);
    }
    if (status != XSM_OK) {
        xsmi_release(m->context, labels, m->classes, sizeof *labels);
        xsmi_release(m->context, counts, m->classes, sizeof *counts);
        xsmi_schema_release(schema);
        return status;
    }
    const xsmi_model_map made = {
        .labels = labels,
        .names = names,
        .counts = counts,
        .rows = counts ? given.rows : 0,
        .schema = schema,
    };
    xsmi_model_clear_classes(m);
    m->map = made;
    return XSM_OK;
}

xsm_status xsm_model_set_class_map(xsm_model *m, const xsm_class_map *map, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"}, {map, "map"});
    xsmi_activity activity;
    xsmi_begin(&activity, m->context, "copying a class map", "classes", 0);
    return xsmi_end(&activity, set_class_map(m, map, true, err), err);
}

xsm_status xsmi_model_put_class_map(xsm_model *m, const xsm_class_map *map, xsm_error *err)
{
    return set_class_map(m, map, false, err);
}

xsm_status xsm_model_get_class_map(const xsm_model *m, xsm_class_map *map, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"}, {map, "map"});
    xsm_class_map view = XSM_CLASS_MAP_INIT;
    view.classes = m->classes;
    view.features = xsmi_model_input_features(m);
    view.labels = m->map.labels;
    view.names = (const char *const *)m->map.names;
    view.counts = m->map.counts;
    view.rows = m->map.rows;
    xsmi_schema_view(m->map.schema, &view);
    return XSMI_WRITE(xsm_class_map, &view, map, err);
}

/* -- metadata ------------------------------------------------------------------------------------------------------ */

/* Whether the library uses a key itself (model_file.h). */
static bool is_reserved(const char *key)
{
    static const char *const keys[] = {XSMI_KEY_VERSION,        XSMI_KEY_CHECKSUM,    XSMI_KEY_TRANSFORM,
                                       XSMI_KEY_INPUT_FEATURES, XSMI_KEY_LIBRARY,     XSMI_KEY_INDEX_BASE,
                                       XSMI_KEY_TRAINING_ROWS,  XSMI_KEY_VOCABULARY,  XSMI_KEY_FIRST_LAYER,
                                       XSMI_KEY_GEOMETRY,       XSMI_KEY_CALIBRATION, XSMI_KEY_SPARSE_FEATURES,
                                       XSMI_KEY_LABEL_TREES,    XSMI_KEY_LINK,        XSMI_KEY_DATASET,
                                       XSMI_KEY_INDEX,          XSMI_KEY_SAMPLER};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(key, keys[i]) == 0) {
            return true;
        }
    }
    static const char prefix[] = XSMI_KEY_CHECKPOINT ".";
    return strcmp(key, XSMI_KEY_CHECKPOINT) == 0 || strncmp(key, prefix, sizeof prefix - 1) == 0;
}

static void release(xsm_context *ctx, xsmi_metadata *d)
{
    xsmi_release(ctx, d->keys, d->count, sizeof *d->keys);
    xsmi_release(ctx, d->values, d->count, sizeof *d->values);
    *d = (xsmi_metadata){NULL, NULL, 0};
}

void xsmi_model_clear_metadata(xsm_model *m)
{
    for (size_t i = 0; i < m->metadata.count; i++) {
        xsmi_release_text(m->context, m->metadata.keys[i]);
        xsmi_release_text(m->context, m->metadata.values[i]);
    }
    release(m->context, &m->metadata);
}

/* Allocates arrays for `count` entries, all NULL. */
static xsm_status reserve(xsm_context *ctx, size_t count, xsmi_metadata *out, xsm_error *err)
{
    *out = (xsmi_metadata){NULL, NULL, 0};
    if (count == 0) {
        return XSM_OK;
    }
    out->count = count;
    out->keys = xsmi_allocate_zero(ctx, count, sizeof *out->keys);
    out->values = xsmi_allocate_zero(ctx, count, sizeof *out->values);
    if (!out->keys || !out->values) {
        release(ctx, out);
        return xsmi_fail_memory(err, 2 * count * sizeof *out->keys, "metadata");
    }
    return XSM_OK;
}

static const char *key_of(const void *metadata, size_t i)
{
    return ((const xsmi_metadata *)metadata)->keys[i];
}

static size_t find(const xsm_model *m, const char *key, bool *found)
{
    return xsmi_find_text(key_of, &m->metadata, m->metadata.count, key, found);
}

/* Moves the entries to new arrays without the entry `skip`, or with a free entry at `skip`. */
static xsm_status resize(xsm_model *m, size_t skip, bool insert, xsm_error *err)
{
    xsmi_metadata moved;
    XSMI_TRY(reserve(m->context, insert ? m->metadata.count + 1 : m->metadata.count - 1, &moved, err));
    for (size_t from = 0, to = 0; from < m->metadata.count; from++) {
        if (from == skip && !insert) {
            continue;
        }
        to += from == skip;
        moved.keys[to] = m->metadata.keys[from];
        moved.values[to] = m->metadata.values[from];
        to++;
    }
    release(m->context, &m->metadata);
    m->metadata = moved;
    return XSM_OK;
}

xsm_status xsm_model_set_metadata(xsm_model *m, const char *key, const char *value, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"}, {key, "key"});
    if (*key == '\0') {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the key of a metadata entry is empty");
    }
    if (is_reserved(key)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the metadata entry '%s' is the library's own", key);
    }
    if (!xsmi_model_is_text(key)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "the key of a metadata entry is not UTF-8");
    }
    if (value && !xsmi_model_is_text(value)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "the metadata entry '%s' is not UTF-8", key);
    }
    bool found;
    size_t position = find(m, key, &found);
    if (!value) {
        if (found) {
            char *old_key = m->metadata.keys[position], *old_value = m->metadata.values[position];
            XSMI_TRY(resize(m, position, false, err));
            xsmi_release_text(m->context, old_key);
            xsmi_release_text(m->context, old_value);
        }
        return XSM_OK;
    }
    char *copy = xsmi_copy_text(m->context, value, strlen(value));
    if (!copy) {
        return xsmi_fail_memory(err, strlen(value) + 1, "metadata");
    }
    if (found) {
        xsmi_release_text(m->context, m->metadata.values[position]);
        m->metadata.values[position] = copy;
        return XSM_OK;
    }
    char *name = xsmi_copy_text(m->context, key, strlen(key));
    xsm_status status = name ? resize(m, position, true, err) : xsmi_fail_memory(err, strlen(key) + 1, "metadata");
    if (status != XSM_OK) {
        xsmi_release_text(m->context, copy);
        xsmi_release_text(m->context, name);
        return status;
    }
    m->metadata.keys[position] = name;
    m->metadata.values[position] = copy;
    return XSM_OK;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp((*(const xsmi_entry *const *)a)->key, (*(const xsmi_entry *const *)b)->key);
}

/* Sets all at once: xsm_model_set_metadata() for each would take time quadratic in their number. */
xsm_status xsmi_model_copy_metadata(xsm_model *m, const xsmi_container *container, xsm_error *err)
{
    const xsmi_entry *entry;
    size_t count = 0;
    for (size_t i = 0; (entry = xsmi_container_metadata_at(container, i)) != NULL; i++) {
        count += !is_reserved(entry->key);
    }
    if (count == 0) {
        return XSM_OK;
    }
    const xsmi_entry **sorted;
    XSMI_TRY(xsmi_array_new(m->context, &sorted, count, sizeof *sorted, "metadata", err));
    size_t next = 0;
    for (size_t i = 0; (entry = xsmi_container_metadata_at(container, i)) != NULL; i++) {
        if (!is_reserved(entry->key)) {
            sorted[next++] = entry;
        }
    }
    xsm_status status = xsmi_heap_sort_polled(m->context, sorted, count, sizeof *sorted, compare_keys)
                            ? reserve(m->context, count, &m->metadata, err)
                            : xsmi_fail_cancelled(m->context, err);
    for (size_t i = 0; i < count && status == XSM_OK; i++) {
        m->metadata.keys[i] = xsmi_copy_text(m->context, sorted[i]->key, strlen(sorted[i]->key));
        m->metadata.values[i] = xsmi_copy_text(m->context, sorted[i]->value, strlen(sorted[i]->value));
        if (!m->metadata.keys[i] || !m->metadata.values[i]) {
            status = xsmi_fail_memory(err, strlen(sorted[i]->key) + strlen(sorted[i]->value) + 2, "metadata");
            xsmi_model_clear_metadata(m); /* entries that were not copied are NULL, which this accepts */
        }
    }
    xsmi_release(m->context, sorted, count, sizeof *sorted);
    return status;
}

const char *xsm_model_get_metadata(const xsm_model *m, const char *key)
{
    if (!m || !key) {
        return NULL;
    }
    bool found;
    size_t position = find(m, key, &found);
    return found ? m->metadata.values[position] : NULL;
}
