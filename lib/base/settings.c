/* The settings of a run as text, and the comparison of two runs. */
#include "base/settings.h"

#include "base/grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX XSMI_SETTINGS_PREFIX

/* -- gathering ---------------------------------------------------------------------------------------------------- */

xsm_status xsmi_settings_add(xsmi_settings *s, const char *key, const char *more, const char *value, xsm_error *err)
{
    XSMI_TRY(XSMI_GROW(s->context, s->entries, s->capacity, s->count + 1, "a run's settings", err));
    XSMI_TRY(XSMI_GROW(s->context, s->initial, s->initial_capacity, s->count + 1, "a run's settings", err));
    size_t first = strlen(key), rest = strlen(more);
    char *text = xsmi_copy_text(s->context, value, strlen(value));
    char *name = xsmi_allocate(s->context, first + rest + 1, 1);
    if (!text || !name) {
        xsmi_release_text(s->context, text);
        xsmi_release(s->context, name, first + rest + 1, 1);
        return xsmi_fail_memory(err, first + rest + strlen(value) + 2, "a run's settings");
    }
    memcpy(name, key, first);
    memcpy(name + first, more, rest + 1);
    s->initial[s->count] = false;
    s->entries[s->count++] = (xsmi_entry){name, text};
    return XSM_OK;
}

xsm_status xsmi_settings_add_whole(xsmi_settings *s, const char *key, uint64_t value, xsm_error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return xsmi_settings_add(s, key, "", text, err);
}

xsm_status xsmi_settings_add_hash(xsmi_settings *s, const char *key, uint64_t value, xsm_error *err)
{
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return xsmi_settings_add(s, key, "", text, err);
}

xsm_status xsmi_settings_add_real(xsmi_settings *s, const char *key, double value, xsm_error *err)
{
    static const xsm_option real = {.type = XSM_OPTION_DOUBLE};
    char text[64];
    xsmi_option_print(&real, &value, text, sizeof text); /* its shortest text, which reads back as the same number */
    return xsmi_settings_add(s, key, "", text, err);
}

xsm_status xsmi_option_text(xsm_context *context, xsmi_option_getter get, const void *of, const char *name, char **text,
                            size_t *size, xsm_error *err)
{
    const size_t length = get(of, name, NULL, 0);
    *text = NULL;
    *size = 0;
    if (length == SIZE_MAX) {
        return XSM_OK;
    }
    *text = xsmi_allocate(context, length + 1, 1);
    if (!*text) {
        return xsmi_fail_memory(err, length + 1, "the value of an option");
    }
    *size = length + 1;
    (void)get(of, name, *text, *size);
    return XSM_OK;
}

xsm_status xsmi_settings_add_option(xsmi_settings *s, const char *prefix, const xsm_option *option, const void *of,
                                    xsmi_option_getter get, xsm_error *err)
{
    char *value;
    size_t size;
    XSMI_TRY(xsmi_option_text(s->context, get, of, option->name, &value, &size, err));
    const xsm_status status = xsmi_settings_add(s, prefix, option->name, value ? value : "", err);
    if (status == XSM_OK) {
        s->initial[s->count - 1] = value && option->initial && strcmp(value, option->initial) == 0;
    }
    xsmi_release(s->context, value, size, 1);
    return status;
}

xsm_status xsmi_settings_add_numbers(xsmi_settings *s, const xsmi_number *numbers, size_t count, xsm_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const xsmi_number *n = &numbers[i];
        XSMI_TRY(n->whole ? xsmi_settings_add_whole(s, n->key, n->whole, err)
                          : xsmi_settings_add_real(s, n->key, n->real, err));
    }
    return XSM_OK;
}

void xsmi_settings_free(xsmi_settings *s)
{
    for (size_t i = 0; i < s->count; i++) {
        xsmi_release_text(s->context, (char *)(uintptr_t)s->entries[i].key);
        xsmi_release_text(s->context, (char *)(uintptr_t)s->entries[i].value);
    }
    xsmi_release(s->context, s->entries, s->capacity, sizeof *s->entries);
    xsmi_release(s->context, s->initial, s->initial_capacity, sizeof *s->initial);
    memset(s, 0, sizeof *s);
}

/* -- comparing ---------------------------------------------------------------------------------------------------- */

static xsm_status differs(const char *path, const char *key, const char *theirs, const char *ours, xsm_error *err)
{
    const char *name = key + sizeof PREFIX - 1;
    if (strcmp(name, "data") == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "%s: the training rows are not those that the checkpoint was made with, though as many; the "
                         "same rows in the same order, read and transformed alike, are needed",
                         path);
    }
    if (strcmp(name, "draws") == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "%s: the sampler draws other classes than the checkpoint's did", path);
    }
    if (strcmp(name, "file_bytes") == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "%s: the checkpoint's run read its rows %s and this one reads them %s, which shuffles them "
                         "another way",
                         path, theirs ? "from a large file" : "into memory",
                         !ours    ? "into memory"
                         : theirs ? "from one of another size"
                                  : "from a large file");
    }
    bool of_data = strcmp(name, "rows") == 0 || strcmp(name, "features") == 0 || strcmp(name, "classes") == 0;
    if (!theirs || !ours) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s has the setting %s = %s, %s does not", path,
                         theirs ? "the checkpoint" : "this run", name, theirs ? theirs : ours,
                         theirs ? "this run" : "the checkpoint");
    }
    return xsmi_fail(err, of_data ? XSM_ERROR_DATA : XSM_ERROR_ARGUMENT,
                     "%s: the checkpoint was made with %s = %s, this run has %s", path, name, theirs, ours);
}

const char *xsmi_settings_value(const xsmi_settings *s, const char *key)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->entries[i].key, key) == 0) {
            return s->entries[i].value;
        }
    }
    return NULL;
}

xsm_status xsmi_settings_compare(const xsmi_settings *s, const xsmi_container *file, const char *path, xsm_error *err)
{
    if (!xsmi_container_metadata(file, XSMI_KEY_CHECKPOINT)) {
        const char *kind = xsmi_container_kind(file);
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: not a checkpoint but %s: it has no metadata entry '%s'", path,
                         kind ? kind : "a file of others", XSMI_KEY_CHECKPOINT);
    }
    for (size_t i = 1; i < s->count; i++) { /* the first is the version, which is checked when the model is loaded */
        const xsmi_entry *ours = &s->entries[i];
        const char *theirs = xsmi_container_metadata(file, ours->key);
        if (theirs ? strcmp(theirs, ours->value) != 0 : !s->initial[i]) {
            return differs(path, ours->key, theirs, ours->value, err);
        }
    }
    const xsmi_entry *entry;
    for (size_t i = 0; (entry = xsmi_container_metadata_at(file, i)) != NULL; i++) {
        if (strncmp(entry->key, PREFIX, sizeof PREFIX - 1) == 0 && !xsmi_settings_value(s, entry->key)) {
            return differs(path, entry->key, entry->value, NULL, err);
        }
    }
    return XSM_OK;
}
