/* Buffers: storages in memory of a context. A save goes to memory of its own, which becomes the buffer's when it is
 * complete. A block of bytes counts its users: the buffer, and models that were loaded from its storage. */
#include "base/buffer.h"

#include "base/counted.h"
#include "base/entry.h"

#include <string.h>

typedef struct block {
    xsmi_holders holders;
    xsm_context *context;
    unsigned char *bytes; /* [count] */
    size_t count;
} block;

struct xsm_buffer {
    xsm_context *context;
    block *saved; /* by the last complete save, or NULL */
    block *next;  /* of the save that runs, or NULL */
    size_t position;
};

/* Gives up a reference to a block, or NULL. */
static void drop(void *user)
{
    block *b = user;
    if (b && xsmi_holders_drop(&b->holders)) {
        xsm_context *ctx = b->context;
        xsmi_release(ctx, b->bytes, b->count, 1);
        XSMI_OBJECT_FREE(b, block);
    }
}

/* Returns NULL when there is no memory. */
static block *new_block(xsm_context *ctx, uint64_t bytes)
{
    block *b = bytes <= SIZE_MAX ? xsmi_allocate(ctx, 1, sizeof *b) : NULL;
    unsigned char *room = b ? xsmi_allocate(ctx, (size_t)bytes, 1) : NULL;
    if (!room) {
        xsmi_release(ctx, b, 1, sizeof *b);
        return NULL;
    }
    *b = (block){.context = xsmi_context_retain(ctx), .bytes = room, .count = (size_t)bytes};
    xsmi_holders_start(&b->holders);
    return b;
}

static int32_t begin_save(void *user, uint64_t bytes)
{
    xsm_buffer *b = user;
    drop(b->next);
    b->position = 0;
    b->next = new_block(b->context, bytes);
    return b->next ? 0 : XSM_ERROR_MEMORY;
}

static int64_t write_bytes(void *user, const void *data, size_t size)
{
    xsm_buffer *b = user;
    if (!b->next || size > b->next->count - b->position) {
        return -1;
    }
    memcpy(b->next->bytes + b->position, data, size);
    b->position += size;
    return (int64_t)size;
}

static int32_t move_by(void *user, int64_t distance)
{
    xsm_buffer *b = user;
    const int64_t position = (int64_t)b->position + distance;
    if (!b->next || position < 0 || position > (int64_t)b->next->count) {
        return -1;
    }
    b->position = (size_t)position;
    return 0;
}

static int32_t end_save(void *user, int32_t complete)
{
    xsm_buffer *b = user;
    if (complete) {
        drop(b->saved);
        b->saved = b->next;
    } else {
        drop(b->next);
    }
    b->next = NULL;
    return 0;
}

xsm_status xsm_buffer_new(xsm_context *context, xsm_buffer **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {out, "out"});
    xsm_buffer *b;
    XSMI_TRY(XSMI_OBJECT_NEW(context, &b, xsm_buffer, "a buffer", err));
    *out = b;
    return XSM_OK;
}

void xsm_buffer_free(xsm_buffer *b)
{
    if (b) {
        drop(b->saved);
        drop(b->next);
        XSMI_OBJECT_FREE(b, xsm_buffer);
    }
}

const void *xsm_buffer_bytes(const xsm_buffer *b, size_t *count)
{
    const block *saved = b ? b->saved : NULL;
    if (count) {
        *count = saved ? saved->count : 0;
    }
    return saved ? saved->bytes : NULL;
}

xsm_status xsm_buffer_get_storage(xsm_buffer *b, xsm_storage *storage, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_storage known = XSM_STORAGE_INIT;
    XSMI_NEED(err, {b, "buffer"}, {storage, "storage"});
    XSMI_TRY(XSMI_READ(xsm_storage, &known, storage, err));
    known = (xsm_storage){.size = sizeof known,
                          .name = known.name,
                          .bytes = b->saved ? b->saved->bytes : NULL,
                          .byte_count = b->saved ? b->saved->count : 0,
                          .user = b,
                          .begin = begin_save,
                          .write = write_bytes,
                          .seek = move_by,
                          .end = end_save};
    return XSMI_WRITE(xsm_storage, &known, storage, err);
}

/* Returns the buffer whose storage it is, or NULL. */
static const xsm_buffer *buffer_of(const xsm_storage *storage)
{
    return storage->write == write_bytes ? storage->user : NULL;
}

xsm_status xsmi_buffer_check(const xsm_storage *storage, const char *function, const char *name, xsm_error *err)
{
    const xsm_buffer *b = buffer_of(storage);
    if (!b || storage->source) {
        return XSM_OK;
    }
    if (!b->saved) {
        return xsmi_fail(err, XSM_ERROR_STATE, "%s: %s: nothing has been saved in the buffer", function, name);
    }
    if (storage->bytes != b->saved->bytes || storage->byte_count != b->saved->count) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "%s: %s: the storage does not read the bytes of the buffer's last save; after a save, "
                         "xsm_buffer_get_storage() fills it again",
                         function, name);
    }
    return storage->release ? xsmi_fail(err, XSM_ERROR_ARGUMENT,
                                        "%s: %s: the storage has release(), which is of bytes of the host; a buffer "
                                        "keeps its own as long as they are used",
                                        function, name)
                            : XSM_OK;
}

xsmi_lender xsmi_buffer_lender(const xsm_storage *storage)
{
    const xsm_buffer *b = buffer_of(storage);
    if (!b) {
        return (xsmi_lender){storage->release, storage->release_user};
    }
    xsmi_holders_add(&b->saved->holders);
    return (xsmi_lender){drop, b->saved};
}
