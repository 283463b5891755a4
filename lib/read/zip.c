/* Zip archives (PKWARE's APPNOTE.TXT): entries that are stored or deflated, of any size, without encryption. */
#include "read/zip.h"
#include "base/order.h"

#include <string.h>

#include <zlib.h>

#define ENTRY 0x04034B50U
#define DESCRIPTOR 0x08074B50U
#define BUFFER ((size_t)64 << 10)

struct xsmi_zip {
    xsmi_source *file;
    unsigned char *buffer; /* bytes of the file; those from `next` on are not used yet */
    size_t next, end;
    char name[256];
    bool begun;          /* an entry was found */
    bool inside;         /* within an entry: its end was not reached yet */
    bool deflated;       /* else stored */
    bool described;      /* checksum and sizes follow the entry */
    bool wide;           /* the sizes have 64 bits */
    uint64_t left, size; /* stored: bytes that are left; the size that the entry should have */
    uint64_t read;
    uint32_t checksum, sum; /* the file's checksum, and that of the bytes read */
    xsmi_gunzip *inflate;
};

static xsm_status fail(const xsmi_zip *z, const char *what, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: damaged zip archive: %s%s%s", z->file->name, what,
                     z->name[0] ? " in the entry " : "", z->name);
}

xsm_status xsmi_zip_new(xsmi_source *file, xsmi_zip **out, xsm_error *err)
{
    xsmi_zip *z = xsmi_allocate_zero(file->context, 1, sizeof *z);
    unsigned char *buffer = xsmi_allocate(file->context, BUFFER, 1);
    if (!z || !buffer) {
        xsmi_release(file->context, z, 1, sizeof *z);
        xsmi_release(file->context, buffer, BUFFER, 1);
        return xsmi_fail_memory(err, BUFFER, "reading an archive");
    }
    z->file = file;
    z->buffer = buffer;
    *out = z;
    return XSM_OK;
}

void xsmi_zip_free(xsmi_zip *z)
{
    if (z) {
        xsm_context *ctx = z->file->context;
        xsmi_gunzip_free(z->inflate);
        xsmi_release(ctx, z->buffer, BUFFER, 1);
        xsmi_release(ctx, z, 1, sizeof *z);
    }
}

/* Makes sure that the buffer has bytes, unless the file is at its end. */
static xsm_status fill(xsmi_zip *z, xsm_error *err)
{
    if (z->next < z->end) {
        return XSM_OK;
    }
    z->next = 0;
    return xsmi_source_read(z->file, z->buffer, BUFFER, &z->end, err);
}

static xsm_status take(xsmi_zip *z, unsigned char *bytes, size_t size, xsm_error *err)
{
    while (size > 0) {
        XSMI_TRY(fill(z, err));
        const size_t some = XSMI_MIN(z->end - z->next, size);
        if (some == 0) {
            return fail(z, "the file is cut short", err);
        }
        memcpy(bytes, z->buffer + z->next, some);
        z->next += some;
        bytes += some;
        size -= some;
    }
    return XSM_OK;
}

static uint64_t little(const unsigned char *p, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) {
        number |= (uint64_t)p[i] << (8 * i);
    }
    return number;
}

/* Reads the sizes from an entry's extra fields, if they do not fit 32 bits. */
static xsm_status read_extra(xsmi_zip *z, size_t length, uint64_t sizes[2], xsm_error *err)
{
    while (length >= 4) {
        unsigned char head[4], number[16];
        XSMI_TRY(take(z, head, 4, err));
        size_t size = (size_t)little(head + 2, 2);
        length -= 4;
        if (size > length) {
            return fail(z, "a wrong extra field", err);
        }
        length -= size;
        if (little(head, 2) == 1 && size >= 16) {
            XSMI_TRY(take(z, number, 16, err));
            sizes[0] = little(number, 8);
            sizes[1] = little(number + 8, 8);
            z->wide = true;
            size -= 16;
        }
        for (; size > 0; size--) {
            XSMI_TRY(take(z, head, 1, err));
        }
    }
    unsigned char rest[4];
    return take(z, rest, length, err);
}

static xsm_status start_entry(xsmi_zip *z, const unsigned char *h, xsm_error *err)
{
    const unsigned flags = (unsigned)little(h + 6, 2), method = (unsigned)little(h + 8, 2);
    const size_t name = (size_t)little(h + 26, 2);
    uint64_t sizes[2] = {little(h + 22, 4), little(h + 18, 4)}; /* of the contents, and in the file */
    if (name >= sizeof z->name) {
        return fail(z, "a name of more than 255 bytes", err);
    }
    XSMI_TRY(take(z, (unsigned char *)z->name, name, err));
    z->name[name] = '\0';
    z->wide = false;
    XSMI_TRY(read_extra(z, (size_t)little(h + 28, 2), sizes, err));
    z->described = flags & 8;
    if ((method != 0 && method != 8) || flags & 1 || (method == 0 && z->described)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "%s: the entry %s is %s; stored and deflated ones are read, as numpy.savez_compressed() "
                         "writes them",
                         z->file->name, z->name, flags & 1 ? "encrypted" : "compressed in another way");
    }
    z->deflated = method == 8;
    z->size = sizes[0];
    z->left = sizes[1];
    z->checksum = (uint32_t)little(h + 14, 4);
    z->sum = 0;
    z->read = 0;
    z->inside = true;
    xsmi_gunzip_free(z->inflate);
    z->inflate = NULL;
    return z->deflated ? xsmi_inflate_new(z->file->context, z->file->name, &z->inflate, err) : XSM_OK;
}

/* Ends an entry whose last byte has been read. */
static xsm_status end_entry(xsmi_zip *z, xsm_error *err)
{
    unsigned char bytes[24];
    z->inside = false;
    if (z->described) {
        const size_t size = z->wide ? 16 : 8;
        XSMI_TRY(take(z, bytes, 4, err));
        if (little(bytes, 4) == DESCRIPTOR) {
            XSMI_TRY(take(z, bytes, 4, err));
        }
        z->checksum = (uint32_t)little(bytes, 4);
        XSMI_TRY(take(z, bytes, size, err));
        z->size = little(bytes + size / 2, size / 2);
    }
    return z->sum == z->checksum && z->read == z->size ? XSM_OK : fail(z, "a wrong checksum or size", err);
}

static xsm_status read_stored(xsmi_zip *z, void *buffer, size_t size, size_t *got, xsm_error *err)
{
    *got = (size_t)XSMI_MIN(z->left, (uint64_t)size);
    XSMI_TRY(take(z, buffer, *got, err));
    z->left -= *got;
    return XSM_OK;
}

static xsm_status read_deflated(xsmi_zip *z, void *buffer, size_t size, size_t *got, xsm_error *err)
{
    for (bool done = false; *got == 0 && !done;) {
        XSMI_TRY(fill(z, err));
        xsmi_gunzip_io io = {z->buffer + z->next, z->end - z->next, z->end == 0, buffer, size, 0, false};
        XSMI_TRY(xsmi_gunzip_step(z->inflate, &io, err));
        z->next = z->end - io.input_size;
        *got = io.produced;
        done = io.done;
        if (done) {
            xsmi_gunzip_free(z->inflate);
            z->inflate = NULL;
        }
    }
    return XSM_OK;
}

xsm_status xsmi_zip_read(xsmi_zip *z, void *buffer, size_t size, size_t *got, xsm_error *err)
{
    *got = 0;
    if (!z->inside) {
        return XSM_OK;
    }
    if (!z->deflated) {
        XSMI_TRY(read_stored(z, buffer, size, got, err));
    } else if (z->inflate) {
        XSMI_TRY(read_deflated(z, buffer, XSMI_MIN(size, BUFFER), got, err));
    }
    if (*got == 0) {
        return end_entry(z, err);
    }
    const size_t piece = (size_t)1 << 30;
    for (size_t at = 0; at < *got; at += piece) {
        z->sum = (uint32_t)crc32(z->sum, (const unsigned char *)buffer + at, (uInt)XSMI_MIN(piece, *got - at));
    }
    z->read += *got;
    return XSM_OK;
}

xsm_status xsmi_zip_next(xsmi_zip *z, const char **name, xsm_error *err)
{
    unsigned char header[30];
    *name = NULL;
    while (z->inside) {
        unsigned char rest[4096];
        size_t got;
        XSMI_TRY(xsmi_zip_read(z, rest, sizeof rest, &got, err));
    }
    z->name[0] = '\0';
    XSMI_TRY(take(z, header, 4, err));
    if (little(header, 4) != ENTRY) {
        return z->begun ? XSM_OK /* the directory follows the entries */
                        : xsmi_fail(err, XSM_ERROR_FORMAT,
                                    "%s: not a NumPy archive, as it does not begin as zip files do", z->file->name);
    }
    z->begun = true;
    XSMI_TRY(take(z, header + 4, sizeof header - 4, err));
    XSMI_TRY(start_entry(z, header, err));
    *name = z->name;
    return XSM_OK;
}
