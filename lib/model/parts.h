/*
 * What the files of the model floor call of each other; the floors above have model.h.
 */
#ifndef XSMI_MODEL_PARTS_H
#define XSMI_MODEL_PARTS_H

#include <string.h>

#include "data/text.h"
#include "model/model.h"

/* A class-major model without weights, for a loader to fill. xsm_model_free() takes it as it is. */
xsm_status xsmi_model_new_empty(xsm_context *context, uint32_t features, uint32_t classes, xsm_model **out,
                                xsm_error *err);

/* Releases labels and names (classes.c). */
void xsmi_model_clear_classes(xsm_model *m);
/* Releases the transform (transform.c). */
void xsmi_model_clear_transform(xsm_model *m);
/* Releases the metadata (metadata.c). */
void xsmi_model_clear_metadata(xsm_model *m);

/* Keys that only the library writes (metadata.c). */
#define XSMI_KEY_VERSION "format_version"
#define XSMI_KEY_CHECKSUM "checksum"
#define XSMI_KEY_TRANSFORM "transform"
#define XSMI_KEY_INPUT_FEATURES "input_features"
#define XSMI_KEY_LIBRARY "library"
bool xsmi_metadata_reserved(const char *key);

/* Whether a string is well-formed UTF-8. */
static inline bool xsmi_model_is_text(const char *string)
{
    size_t length = strlen(string);
    return xsmi_utf8_prefix(string, length) == length;
}

#endif
