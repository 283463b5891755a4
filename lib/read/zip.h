/* Entries of a zip archive, in the order of the file, which is read once from its start; with and without zlib. */
#ifndef XSMI_ZIP_H
#define XSMI_ZIP_H

#include "read/source.h"

typedef struct xsmi_zip xsmi_zip;

/* Makes a reader of archives; XSM_ERROR_UNSUPPORTED in a build without zlib. */
xsm_status xsmi_zip_new(xsmi_source *file, xsmi_zip **out, xsm_error *err);
void xsmi_zip_free(xsmi_zip *z);
/* Goes on to the next entry, past what is left of the present one; *name = NULL at the end. The name is valid until the
 * next call. */
xsm_status xsmi_zip_next(xsmi_zip *z, const char **name, xsm_error *err);
/* Reads up to `size` bytes of the entry; 0 at its end, where its checksum is compared. */
xsm_status xsmi_zip_read(xsmi_zip *z, void *buffer, size_t size, size_t *got, xsm_error *err);

#endif
