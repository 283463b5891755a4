/* A build without zlib: archives are refused. */
#include "read/zip.h"

xsm_status xsmi_zip_new(xsmi_source *file, xsmi_zip **out, xsm_error *err)
{
    (void)out;
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                     "%s: an archive of NumPy, which this build of the library cannot read (it was built without "
                     "zlib); .npy files are accepted",
                     file->name);
}

void xsmi_zip_free(xsmi_zip *z)
{
    (void)z;
}

xsm_status xsmi_zip_next(xsmi_zip *z, const char **name, xsm_error *err)
{
    (void)z;
    (void)name;
    return xsmi_fail(err, XSM_ERROR_INTERNAL, "an archive without zlib");
}

xsm_status xsmi_zip_read(xsmi_zip *z, void *buffer, size_t size, size_t *got, xsm_error *err)
{
    (void)z;
    (void)buffer;
    (void)size;
    (void)got;
    return xsmi_fail(err, XSM_ERROR_INTERNAL, "an archive without zlib");
}
