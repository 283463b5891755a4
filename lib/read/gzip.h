/*
 * Decompressing gzip. The functions exist with and without zlib.
 */
#ifndef XSMI_GZIP_H
#define XSMI_GZIP_H

#include "base/base.h"

typedef struct xsmi_gunzip xsmi_gunzip;

/* A new stream; XSM_ERROR_UNSUPPORTED in a build without zlib. `name` is for messages and must outlive it. */
xsm_status xsmi_gunzip_new(xsm_context *ctx, const char *name, xsmi_gunzip **out, xsm_error *err);
void xsmi_gunzip_free(xsmi_gunzip *g);
/* Decompresses from *input (moved past the bytes used; `last`: nothing follows it) to out. *produced may be 0 when more
 * input is needed. *done: all members ended correctly. */
xsm_status xsmi_gunzip_step(xsmi_gunzip *g, const unsigned char **input, size_t *input_size, bool last, void *out,
                            size_t out_size, size_t *produced, bool *done, xsm_error *err);

#endif
