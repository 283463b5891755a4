/* Options in a container's metadata. */
#include "base/option_texts.h"

#include <stdio.h>
#include <string.h>

#define KEY_OPTION "option."

/* Keys and values in one block, each terminated; returns its bytes. `text` and `entries` NULL: only counts. */
static size_t list(const xsmi_option_group *group, char *text, size_t size, xsmi_entry *entries)
{
    size_t used = 0;
    const xsm_option *option;
    for (size_t i = 0; (option = xsmi_group_at(group, i)); i++) {
        const size_t key = strlen(KEY_OPTION) + strlen(option->name) + 1;
        const size_t value = xsmi_group_get(group, option->name, NULL, 0) + 1;
        if (text) {
            entries[i] = (xsmi_entry){text + used, text + used + key};
            snprintf(text + used, size - used, "%s%s", KEY_OPTION, option->name);
            xsmi_group_get(group, option->name, text + used + key, value);
        }
        used += key + value;
    }
    return used;
}

xsm_status xsmi_option_texts_list(xsm_context *ctx, const xsmi_option_group *group, size_t own, xsmi_option_texts *out,
                                  xsm_error *err)
{
    size_t options = 0;
    while (xsmi_group_at(group, options)) {
        options++;
    }
    const size_t size = list(group, NULL, 0, NULL);
    xsmi_option_texts t = {.count = options + own, .size = size};
    t.text = xsmi_allocate(ctx, size, 1);
    t.entries = xsmi_allocate(ctx, t.count, sizeof *t.entries);
    if ((size > 0 && !t.text) || !t.entries) {
        xsmi_option_texts_clear(ctx, &t);
        return xsmi_fail_memory(err, size, "the texts of options");
    }
    list(group, t.text, size, t.entries);
    t.own = t.entries + options;
    *out = t;
    return XSM_OK;
}

void xsmi_option_texts_clear(xsm_context *ctx, xsmi_option_texts *t)
{
    xsmi_release(ctx, t->text, t->size, 1);
    xsmi_release(ctx, t->entries, t->count, sizeof *t->entries);
}

xsm_status xsmi_option_texts_set(const xsmi_option_group *group, const xsmi_container *file, const char *path,
                                 xsm_error *err)
{
    const xsmi_entry *entry;
    const size_t prefix = strlen(KEY_OPTION);
    for (size_t i = 0; (entry = xsmi_container_metadata_at(file, i)); i++) {
        xsm_error said = XSM_ERROR_INIT;
        if (strncmp(entry->key, KEY_OPTION, prefix) == 0 &&
            xsmi_group_set_text(group, entry->key + prefix, entry->value, &said) != XSM_OK) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: %s", path, said.message);
        }
    }
    return XSM_OK;
}

bool xsmi_metadata_number(const xsmi_container *file, const char *key, uint32_t least, uint32_t most, uint32_t *out)
{
    const char *text = xsmi_container_metadata(file, key);
    int64_t number;
    if (!text || !xsmi_parse_int(text, &number) || number < least || number > most) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}
