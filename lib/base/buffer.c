/* Buffers: storages in memory of a context. A save goes to memory of its own, which becomes the buffer's when it is
 * complete. */
#include "base/base.h"
#include "base/entry.h"

#include <string.h>

#include <xsoftmax/ext/storage.h>

struct xsm_buffer {
    xsm_context *context;
    unsigned char *bytes; /* [count] of the last complete save, or NULL */
    size_t count;
    unsigned char *next; /* [next_count] of the save that runs, or NULL */
    size_t next_count, position;
};

static void drop(xsm_context *ctx, unsigned char **bytes, size_t *count)
{
    xsmi_release(ctx, *bytes, *count, 1);
    *bytes = NULL;
    *count = 0;
}

static int32_t begin_save(void *user, uint64_t bytes)
{
    xsm_buffer *b = user;
    drop(b->context, &b->next, &b->next_count);
    b->position = 0;
    b->next = xsmi_allocate(b->context, bytes, 1);
    if (!b->next) {
        return XSM_ERROR_MEMORY;
    }
    b->next_count = (size_t)bytes;
    return 0;
}

static int64_t write_bytes(void *user, const void *data, size_t size)
{
    xsm_buffer *b = user;
    if (!b->next || size > b->next_count - b->position) {
        return -1;
    }
    memcpy(b->next + b->position, data, size);
    b->position += size;
    return (int64_t)size;
}

static int32_t move_by(void *user, int64_t distance)
{
    xsm_buffer *b = user;
    const int64_t position = (int64_t)b->position + distance;
    if (position < 0 || position > (int64_t)b->next_count) {
        return -1;
    }
    b->position = (size_t)position;
    return 0;
}

static int32_t end_save(void *user, int32_t complete)
{
    xsm_buffer *b = user;
    if (complete) {
        drop(b->context, &b->bytes, &b->count);
        b->bytes = b->next;
        b->count = b->next_count;
        b->next = NULL;
        b->next_count = 0;
    } else {
        drop(b->context, &b->next, &b->next_count);
    }
    return 0;
}

xsm_status xsm_buffer_new(xsm_context *context, xsm_buffer **out, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_buffer_new: out is NULL");
    }
    xsm_context *kept;
    void *memory;
    XSMI_TRY(xsmi_object_new(context, sizeof(xsm_buffer), "a buffer", &kept, &memory, err));
    xsm_buffer *b = memory;
    b->context = kept;
    *out = b;
    return XSM_OK;
}

void xsm_buffer_free(xsm_buffer *b)
{
    if (b) {
        xsm_context *ctx = b->context;
        drop(ctx, &b->bytes, &b->count);
        drop(ctx, &b->next, &b->next_count);
        xsmi_release(ctx, b, 1, sizeof *b);
        xsm_context_free(ctx);
    }
}

const void *xsm_buffer_bytes(const xsm_buffer *b, uint64_t *count)
{
    if (count) {
        *count = b ? b->count : 0;
    }
    return b ? b->bytes : NULL;
}

xsm_status xsm_buffer_get_storage(xsm_buffer *b, xsm_storage *storage, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_storage known = XSM_STORAGE_INIT;
    if (!b || !storage) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_buffer_get_storage: %s is NULL", b ? "storage" : "buffer");
    }
    XSMI_TRY(xsmi_options_read(&known, sizeof known, XSMI_FIRST(xsm_storage), storage, "xsm_storage", err));
    known = (xsm_storage){.size = sizeof known,
                          .name = known.name,
                          .bytes = b->bytes,
                          .byte_count = b->count,
                          .user = b,
                          .begin = begin_save,
                          .write = write_bytes,
                          .seek = move_by,
                          .end = end_save};
    return xsmi_options_write(&known, sizeof known, XSMI_FIRST(xsm_storage), storage, "xsm_storage", err);
}
