/* Temporary files as memory. Blocks are reserved on the disk before they are mapped: a full disk is an error here and
 * not a signal later. */
#include "base/spool.h"
#include "base/order.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SMALLEST ((size_t)1 << 20)

void xsmi_mapping_forget(const xsmi_mapping *mapping)
{
    if (mapping->size > 0 && !mapping->owner) { /* a context's memory is in no file and must stay */
        xsmi_advise_forget(mapping->data, mapping->size);
    }
}

static xsm_status fail(const char *folder, const char *what, int number, xsm_error *err)
{
    char text[128];
    return xsmi_fail(err, XSM_ERROR_IO, "%s: cannot %s a temporary file: %s", folder, what,
                     xsmi_error_text(number, text, sizeof text));
}

static xsm_status open_file(const char *folder, int *out, xsm_error *err)
{
    int fd = xsmi_open_nameless(folder, O_RDWR, 0600);
    char name[4096];
    /* Some file systems have no unnamed files; there a named one is unlinked at once. */
    for (uint32_t attempt = 0; fd < 0 && (xsmi_lacks_nameless(errno) || errno == EEXIST) && attempt < 100; attempt++) {
        const uint64_t number = xsmi_name_number(attempt);
        if (snprintf(name, sizeof name, "%s/.%016llx.tmp", folder, (unsigned long long)number) >= (int)sizeof name) {
            errno = ENAMETOOLONG;
            break;
        }
        fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0) {
            unlink(name);
        }
    }
    *out = fd;
    return fd >= 0 ? XSM_OK : fail(folder, "make", errno, err);
}

xsm_status xsmi_spool_grow(xsmi_spool *s, const char *folder, size_t bytes, xsm_error *err)
{
    if (bytes <= s->bytes) {
        return XSM_OK;
    }
    size_t wanted = s->bytes + s->bytes / 2;
    wanted = XSMI_MAX(wanted, bytes);
    wanted = XSMI_MAX(wanted, SMALLEST);
    if (wanted > SIZE_MAX / 2) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: a temporary file of %zu bytes", folder, wanted);
    }
    wanted = (wanted + SMALLEST - 1) / SMALLEST * SMALLEST;
    int fd = s->file - 1;
    if (fd < 0) {
        XSMI_TRY(open_file(folder, &fd, err));
        s->file = fd + 1;
    }
    int failure = xsmi_reserve_blocks(fd, s->bytes, wanted);
    if (failure) {
        return fail(folder, "extend", failure, err);
    }
    void *data = xsmi_remap(fd, s->data, s->bytes, wanted);
    if (!data) {
        return fail(folder, "map", errno, err);
    }
    s->data = data;
    s->bytes = wanted;
    return XSM_OK;
}

xsmi_mapping xsmi_spool_move(xsmi_spool *s)
{
    xsmi_mapping mapping = {.data = s->data, .size = s->bytes};
    if (s->file > 0) {
        close(s->file - 1); /* the mapping keeps the file */
    }
    memset(s, 0, sizeof *s);
    return mapping;
}

void xsmi_spool_end(xsmi_spool *s)
{
    xsmi_mapping mapping = xsmi_spool_move(s);
    xsmi_unmap_file(&mapping);
}
