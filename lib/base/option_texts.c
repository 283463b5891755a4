/* Options in a container's metadata. */
#include "base/option_texts.h"

#include <string.h>

#define KEY_OPTION "option."

static size_t get(const void *group, const char *name, char *buffer, size_t size)
{
    return xsmi_group_get(group, name, buffer, size);
}

xsm_status xsmi_option_texts_list(const xsmi_option_group *group, xsmi_settings *metadata, xsm_error *err)
{
    const xsm_option *option;
    for (size_t i = 0; (option = xsmi_group_at(group, i)); i++) {
        XSMI_TRY(xsmi_settings_add_option(metadata, KEY_OPTION, option, group, get, err));
    }
    return XSM_OK;
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
