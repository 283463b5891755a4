/*
 * Decompressing gzip. The functions exist with and without zlib.
 */
#ifndef XSMI_GZIP_H
#define XSMI_GZIP_H

#include "base/base.h"

typedef struct xsmi_gunzip xsmi_gunzip;

/* Makes a stream; fails with XSM_ERROR_UNSUPPORTED in a build without zlib. `name` is for messages and must outlive
 * it. */
xsm_status xsmi_gunzip_new(xsm_context *ctx, const char *name, xsmi_gunzip **out, xsm_error *err);
/* Makes a stream for deflated data without gzip's header, as archives have it. At its end `done` is set, and input
 * after it is not used. */
xsm_status xsmi_inflate_new(xsm_context *ctx, const char *name, xsmi_gunzip **out, xsm_error *err);
void xsmi_gunzip_free(xsmi_gunzip *g);
/* A step of decompression. */
typedef struct xsmi_gunzip_io {
    const unsigned char *input; /* moved past the bytes used */
    size_t input_size;
    bool last; /* nothing follows the input */
    void *out;
    size_t out_size;
    size_t produced; /* may be 0 when more input is needed */
    bool done;       /* all members ended correctly */
} xsmi_gunzip_io;

xsm_status xsmi_gunzip_step(xsmi_gunzip *g, xsmi_gunzip_io *io, xsm_error *err);

#endif
