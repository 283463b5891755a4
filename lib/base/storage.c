/* Files and the storages of hosts, as places that are read and written alike. */
#include "base/storage.h"

#include "base/activity.h"
#include "base/buffer.h"
#include "base/entry.h"
#include "base/order.h"

/* Bytes that a host's function reads or writes at once, between two polls. */
#define PIECE ((size_t)1 << 20)

static xsm_status read_place(const char *path, const xsm_storage *given, xsm_storage *known, const char *function,
                             xsmi_place *out, xsm_error *err)
{
    *known = (xsm_storage)XSM_STORAGE_INIT;
    *out = (xsmi_place){.name = path};
    if (!path == !given) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: path and storage are %s", function,
                         path ? "given; one of them is accepted" : "NULL; one of them is needed");
    }
    if (path) {
        return XSM_OK;
    }
    XSMI_TRY(XSMI_READ(xsm_storage, known, given, err));
    *out = (xsmi_place){known->name ? known->name : "storage", known};
    return XSM_OK;
}

xsm_status xsmi_place_to_read(const char *path, const xsm_storage *given, xsm_storage *known, const char *function,
                              xsmi_place *out, xsm_error *err)
{
    XSMI_TRY(read_place(path, given, known, function, out, err));
    if (path) {
        return XSM_OK;
    }
    if (known->source) { /* the members used are those of the first release, which every release has at the same
                            offsets */
        xsm_source source;
        XSMI_TRY(XSMI_READ(xsm_source, &source, known->source, err));
    }
    XSMI_TRY(xsmi_buffer_check(known, function, out->name, err));
    if (!known->bytes == !(known->source && known->source->read)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s: the storage has %s; one of them is needed", function,
                         out->name, known->bytes ? "bytes and a source" : "neither bytes nor a source with read()");
    }
    if (known->source) {
        XSMI_TRY(xsmi_place_check_unlent(out, err));
    }
    if ((uintptr_t)known->bytes % 8 != 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "%s: %s: the storage's bytes begin at an address that is no multiple of 8", function,
                         out->name);
    }
    if (known->byte_count > SIZE_MAX / 2) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %s: %llu bytes are more than a %zu-bit process has room for",
                         function, out->name, (unsigned long long)known->byte_count, 8 * sizeof(void *));
    }
    return XSM_OK;
}

xsm_status xsmi_place_check_unlent(const xsmi_place *place, xsm_error *err)
{
    return place->storage && place->storage->release
               ? xsmi_fail(err, XSM_ERROR_ARGUMENT,
                           "%s: the storage has release(), which is of bytes that a model uses in "
                           "place; these are needed for the call only",
                           place->name)
               : XSM_OK;
}

xsm_status xsmi_place_to_write(const char *path, const xsm_storage *given, xsm_storage *known, const char *function,
                               xsmi_place *out, xsm_error *err)
{
    XSMI_TRY(read_place(path, given, known, function, out, err));
    if (!path && !known->write) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s: the storage has no write()", function, out->name);
    }
    return XSM_OK;
}

xsm_status xsmi_place_read(xsm_context *ctx, const xsmi_place *place, void *buffer, size_t size, size_t *got,
                           xsm_error *err)
{
    const xsm_source *source = place->storage->source;
    for (*got = 0; *got < size;) {
        const size_t piece = XSMI_MIN(size - *got, PIECE);
        int64_t count;
        XSMI_TRY(xsmi_go_on(ctx, err));
        XSMI_CALL_HOST(count = source->read(source->user, (unsigned char *)buffer + *got, piece));
        if (count < 0) {
            return xsmi_fail(err, XSM_ERROR_IO, "%s: the source's read() failed (%lld)", place->name, (long long)count);
        }
        if ((uint64_t)count > piece) {
            return xsmi_fail(err, XSM_ERROR_IO, "%s: the source's read() returned %lld for a buffer of %zu bytes",
                             place->name, (long long)count, piece);
        }
        if (count == 0) {
            return XSM_OK;
        }
        *got += (size_t)count;
        xsmi_advance(ctx, (size_t)count);
    }
    return XSM_OK;
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static xsm_status file_write(void *state, const void *data, size_t size, xsm_error *err)
{
    return xsmi_replace_write(state, data, size, err);
}

static xsm_status file_rewrite(void *state, uint64_t offset, const void *data, size_t size, xsm_error *err)
{
    return xsmi_replace_rewrite(state, offset, data, size, err);
}

static xsm_status file_commit(void *state, xsm_error *err)
{
    return xsmi_replace_commit(state, err);
}

static void file_abandon(void *state)
{
    xsmi_replace_abandon(state);
}

/* -- storages of hosts --------------------------------------------------------------------------------------------- */

typedef struct host_sink {
    xsm_context *context;
    const char *name;
    const xsm_storage *to;
    uint64_t bytes, written; /* in all, and so far */
    bool begun;
} host_sink;

static xsm_status host_put(host_sink *h, const void *data, size_t size, xsm_error *err)
{
    for (size_t at = 0; at < size;) {
        const size_t piece = XSMI_MIN(size - at, PIECE);
        int64_t count;
        XSMI_CALL_HOST(count = h->to->write(h->to->user, (const unsigned char *)data + at, piece));
        if (count < 1 || (uint64_t)count > piece) {
            return xsmi_fail(err, XSM_ERROR_IO, "%s: the storage's write() returned %lld for %zu bytes", h->name,
                             (long long)count, piece);
        }
        at += (size_t)count;
    }
    return XSM_OK;
}

static xsm_status host_begin(host_sink *h, xsm_error *err)
{
    int32_t result = 0;
    h->begun = true;
    if (h->to->begin) {
        XSMI_CALL_HOST(result = h->to->begin(h->to->user, h->bytes));
    }
    return result == 0 ? XSM_OK
                       : xsmi_fail(err, result == XSM_ERROR_MEMORY ? XSM_ERROR_MEMORY : XSM_ERROR_IO,
                                   "%s: the storage's begin() failed for %llu bytes (%d)", h->name,
                                   (unsigned long long)h->bytes, result);
}

static xsm_status host_write(void *state, const void *data, size_t size, xsm_error *err)
{
    host_sink *h = state;
    XSMI_TRY(xsmi_go_on(h->context, err));
    if (!h->begun) {
        XSMI_TRY(host_begin(h, err));
    }
    XSMI_TRY(host_put(h, data, size, err));
    h->written += size;
    return XSM_OK;
}

static xsm_status host_seek(const host_sink *h, int64_t distance, xsm_error *err)
{
    int32_t result;
    XSMI_CALL_HOST(result = h->to->seek(h->to->user, distance));
    return result == 0 ? XSM_OK
                       : xsmi_fail(err, XSM_ERROR_IO, "%s: the storage's seek() by %lld bytes failed (%d)", h->name,
                                   (long long)distance, result);
}

static xsm_status host_rewrite(void *state, uint64_t offset, const void *data, size_t size, xsm_error *err)
{
    host_sink *h = state;
    XSMI_TRY(host_seek(h, -(int64_t)(h->written - offset), err));
    XSMI_TRY(host_put(h, data, size, err));
    return host_seek(h, (int64_t)(h->written - offset - size), err);
}

static xsm_status host_commit(void *state, xsm_error *err)
{
    host_sink *h = state;
    xsm_status status = XSM_OK;
    if (h->to->end) {
        int32_t result;
        XSMI_CALL_HOST(result = h->to->end(h->to->user, 1));
        if (result != 0) {
            status = xsmi_fail(err, XSM_ERROR_IO, "%s: the storage's end() failed (%d)", h->name, result);
        }
    }
    XSMI_OBJECT_FREE(h, host_sink);
    return status;
}

static void host_abandon(void *state)
{
    host_sink *h = state;
    if (h->begun && h->to->end) {
        XSMI_CALL_HOST((void)h->to->end(h->to->user, 0));
    }
    XSMI_OBJECT_FREE(h, host_sink);
}

xsm_status xsmi_sink_open(xsm_context *ctx, const xsmi_place *place, uint64_t bytes, xsmi_sink *out, xsm_error *err)
{
    static const xsmi_sink_ops files = {file_write, file_rewrite, file_commit, file_abandon};
    static const xsmi_sink_ops hosts = {host_write, host_rewrite, host_commit, host_abandon};
    if (!place->storage) {
        xsmi_replace *file = NULL;
        XSMI_TRY(xsmi_replace_open(ctx, place->name, &file, err));
        *out = (xsmi_sink){&files, file, xsmi_replace_forward(file)};
        return XSM_OK;
    }
    host_sink *h;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &h, host_sink, "a storage being written", err));
    h->name = place->name;
    h->to = place->storage;
    h->bytes = bytes;
    *out = (xsmi_sink){&hosts, h, !place->storage->seek};
    return XSM_OK;
}
