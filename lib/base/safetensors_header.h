/*
 * The header of a safetensors file (safetensors.h): JSON of one shape, read in place. Memory is the context's, in
 * proportion to the header's bytes; nothing recurses, however deep values lie in each other.
 */
#ifndef XSMI_SAFETENSORS_HEADER_H
#define XSMI_SAFETENSORS_HEADER_H

#include "base/safetensors.h"

typedef struct xsmi_header {
    xsmi_entry *metadata;
    size_t metadata_count, metadata_capacity;
    /* The tensors in the header's order: `begin` and `size` are the two data_offsets, at most SIZE_MAX. */
    xsmi_tensor *tensors;
    size_t count, capacity;
    char *text; /* names, keys and values */
    size_t text_used, text_size;
} xsmi_header;

/* Reads the entries of __metadata__ and skips all else, whatever its form; `name` begins messages. Called first, so
 * that a file of a newer version is refused as such. `h` is zero before; the caller clears it whatever the result. */
xsm_status xsmi_header_read_metadata(xsm_context *ctx, const char *name, const char *json, size_t length,
                                     xsmi_header *h, xsm_error *err);
/* Reads the tensors, and refuses whatever is not of the format. */
xsm_status xsmi_header_read_tensors(xsm_context *ctx, const char *name, const char *json, size_t length, xsmi_header *h,
                                    xsm_error *err);
void xsmi_header_clear(xsm_context *ctx, xsmi_header *h);

#endif
