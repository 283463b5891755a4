/*
 * The options of an object in a container's metadata: option.NAME and the value as text, as samplers and indexes save
 * them.
 */
#ifndef XSMI_OPTION_TEXTS_H
#define XSMI_OPTION_TEXTS_H

#include "base/option.h"
#include "base/safetensors.h"

typedef struct xsmi_option_texts {
    xsmi_entry *entries; /* [count]: the options, and behind them room for the object's own */
    size_t count;
    xsmi_entry *own; /* where these begin */
    char *text;      /* what the options' entries point into */
    size_t size;
} xsmi_option_texts;

/* The values of all options, and room for `own` entries more. */
xsm_status xsmi_option_texts_list(xsm_context *ctx, const xsmi_option_group *group, size_t own, xsmi_option_texts *out,
                                  xsm_error *err);
void xsmi_option_texts_clear(xsm_context *ctx, xsmi_option_texts *texts);
/* Sets the options of a container's metadata. An option that the object has not, or a value that it does not accept, is
 * XSM_ERROR_FORMAT; `path` begins the message. */
xsm_status xsmi_option_texts_set(const xsmi_option_group *group, const xsmi_container *file, const char *path,
                                 xsm_error *err);
/* A whole number of the metadata; false where it is missing or out of range. */
bool xsmi_metadata_number(const xsmi_container *file, const char *key, uint32_t least, uint32_t most, uint32_t *out);

#endif
