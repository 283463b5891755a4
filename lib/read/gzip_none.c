/* A build without zlib: gzip input is refused. */
#include "read/gzip.h"

xsm_status xsmi_gunzip_new(xsm_context *ctx, const char *name, xsmi_gunzip **out, xsm_error *err)
{
    (void)ctx;
    (void)out;
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                     "%s: compressed with gzip, which this build of the library cannot read (it was built without "
                     "zlib); plain text is accepted",
                     name);
}

xsm_status xsmi_inflate_new(xsm_context *ctx, const char *name, xsmi_gunzip **out, xsm_error *err)
{
    return xsmi_gunzip_new(ctx, name, out, err);
}

void xsmi_gunzip_free(xsmi_gunzip *g)
{
    (void)g;
}

xsm_status xsmi_gunzip_step(xsmi_gunzip *g, xsmi_gunzip_io *io, xsm_error *err)
{
    (void)g;
    (void)io;
    return xsmi_fail(err, XSM_ERROR_INTERNAL, "gzip without zlib");
}
