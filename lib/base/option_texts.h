/*
 * The options of an object in a container's metadata: option.NAME and the value as text, as samplers and indexes save
 * them.
 */
#ifndef XSMI_OPTION_TEXTS_H
#define XSMI_OPTION_TEXTS_H

#include "base/settings.h"

/* Adds the values of all options. */
xsm_status xsmi_option_texts_list(const xsmi_option_group *group, xsmi_settings *metadata, xsm_error *err);
/* Sets the options of a container's metadata. An option that the object lacks, or a value that it does not accept, is
 * XSM_ERROR_FORMAT; `path` begins the message. */
xsm_status xsmi_option_texts_set(const xsmi_option_group *group, const xsmi_container *file, const char *path,
                                 xsm_error *err);
/* A whole number of the metadata; false where it is missing or out of range. */
bool xsmi_metadata_number(const xsmi_container *file, const char *key, uint32_t least, uint32_t most, uint32_t *out);

#endif
