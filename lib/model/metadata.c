/*
 * The metadata of a model's file: text under keys, kept in alphabetic order.
 */
#include "model/model.h"
#include "base/entry.h"
#include "base/heap_sort.h"
#include "model/model_file.h"

#include <string.h>

/* Whether the library uses a key itself (model_file.h). */
static bool is_reserved(const char *key)
{
    static const char *const keys[] = {
        XSMI_KEY_VERSION,    XSMI_KEY_CHECKSUM,      XSMI_KEY_TRANSFORM,  XSMI_KEY_INPUT_FEATURES, XSMI_KEY_LIBRARY,
        XSMI_KEY_INDEX_BASE, XSMI_KEY_TRAINING_ROWS, XSMI_KEY_VOCABULARY, XSMI_KEY_FIRST_LAYER,    XSMI_KEY_SCORE};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(key, keys[i]) == 0) {
            return true;
        }
    }
    static const char prefix[] = XSMI_KEY_CHECKPOINT ".";
    return strcmp(key, XSMI_KEY_CHECKPOINT) == 0 || strncmp(key, prefix, sizeof prefix - 1) == 0;
}

void xsmi_model_clear_metadata(xsm_model *m)
{
    for (size_t i = 0; i < m->metadata_count; i++) {
        xsmi_release_text(m->context, m->metadata[i].key);
        xsmi_release_text(m->context, m->metadata[i].value);
    }
    xsmi_release(m->context, m->metadata, m->metadata_count, sizeof *m->metadata);
    m->metadata = NULL;
    m->metadata_count = 0;
}

/* The position of a key, or where it would be inserted. */
static size_t find(const xsm_model *m, const char *key, bool *found)
{
    size_t low = 0;
    size_t high = m->metadata_count;
    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(m->metadata[middle].key, key);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* A new array without the entry `skip`, or with a free entry at `skip`; the entries are moved to it. */
static xsm_status resize(xsm_model *m, size_t skip, bool insert, xsm_error *err)
{
    size_t count = insert ? m->metadata_count + 1 : m->metadata_count - 1;
    xsmi_metadata *entries = NULL;
    if (count > 0) {
        entries = xsmi_allocate(m->context, count, sizeof *entries);
        if (!entries) {
            return xsmi_fail_memory(err, count * sizeof *entries, "metadata");
        }
        size_t rest = insert ? skip : skip + 1;
        size_t position = insert ? skip + 1 : skip;
        if (skip > 0) {
            memcpy(entries, m->metadata, skip * sizeof *entries);
        }
        if (rest < m->metadata_count) {
            memcpy(entries + position, m->metadata + rest, (m->metadata_count - rest) * sizeof *entries);
        }
    }
    xsmi_release(m->context, m->metadata, m->metadata_count, sizeof *m->metadata);
    m->metadata = entries;
    m->metadata_count = count;
    return XSM_OK;
}

xsm_status xsm_model_set_metadata(xsm_model *m, const char *key, const char *value, xsm_error *err)
{
    XSMI_ENTER();
    if (!m || !key) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_model_set_metadata: %s is NULL", m ? "key" : "model");
    }
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
            xsmi_metadata old = m->metadata[position];
            XSMI_TRY(resize(m, position, false, err));
            xsmi_release_text(m->context, old.key);
            xsmi_release_text(m->context, old.value);
        }
        return XSM_OK;
    }
    char *copy = xsmi_copy_text(m->context, value, strlen(value));
    if (!copy) {
        return xsmi_fail_memory(err, strlen(value) + 1, "metadata");
    }
    if (found) {
        xsmi_release_text(m->context, m->metadata[position].value);
        m->metadata[position].value = copy;
        return XSM_OK;
    }
    char *name = xsmi_copy_text(m->context, key, strlen(key));
    xsm_status status = name ? resize(m, position, true, err) : xsmi_fail_memory(err, strlen(key) + 1, "metadata");
    if (status != XSM_OK) {
        xsmi_release_text(m->context, copy);
        xsmi_release_text(m->context, name);
        return status;
    }
    m->metadata[position].key = name;
    m->metadata[position].value = copy;
    return XSM_OK;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const xsmi_metadata *)a)->key, ((const xsmi_metadata *)b)->key);
}

/* Sets all at once: xsm_model_set_metadata() for each takes time quadratic in their number. */
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
    m->metadata = xsmi_allocate_zero(m->context, count, sizeof *m->metadata);
    if (!m->metadata) {
        return xsmi_fail_memory(err, count * sizeof *m->metadata, "metadata");
    }
    m->metadata_count = count; /* entries not filled stay NULL, which the release accepts */
    count = 0;
    for (size_t i = 0; (entry = xsmi_container_metadata_at(container, i)) != NULL; i++) {
        if (is_reserved(entry->key)) {
            continue;
        }
        xsmi_metadata *copy = &m->metadata[count++];
        copy->key = xsmi_copy_text(m->context, entry->key, strlen(entry->key));
        copy->value = xsmi_copy_text(m->context, entry->value, strlen(entry->value));
        if (!copy->key || !copy->value) {
            xsmi_model_clear_metadata(m);
            return xsmi_fail_memory(err, strlen(entry->key) + strlen(entry->value) + 2, "metadata");
        }
    }
    xsmi_heap_sort(m->metadata, m->metadata_count, sizeof *m->metadata, compare_keys);
    return XSM_OK;
}

const char *xsm_model_get_metadata(const xsm_model *m, const char *key)
{
    if (!m || !key) {
        return NULL;
    }
    bool found;
    size_t position = find(m, key, &found);
    return found ? m->metadata[position].value : NULL;
}

const char *xsm_model_metadata_key(const xsm_model *m, size_t index)
{
    return m && index < m->metadata_count ? m->metadata[index].key : NULL;
}
