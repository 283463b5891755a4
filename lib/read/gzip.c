/*
 * gzip through zlib's inflate, on the context's memory. A file may have several members (bgzip, or files joined by
 * cat); zeros after the last are padding; anything else there is an error, and so is an end before the checksum.
 */
#include "read/gzip.h"

#include <limits.h>
#include <string.h>

#include <zlib.h>

struct xsmi_gunzip {
    xsm_context *context;
    const char *name;
    z_stream stream;
    bool open;         /* the stream must be ended */
    bool between;      /* a member has ended */
    bool bare;         /* one stream without header */
    uint64_t position; /* compressed bytes used */
};

/* Bytes before each block that zlib gets, with the block's size: zlib does not say how much it releases. */
#define HEADER XSMI_ALIGNMENT

static void *zlib_allocate(void *opaque, unsigned items, unsigned size)
{
    size_t bytes;
    if (!xsmi_multiply(items, size, &bytes) || !xsmi_add(bytes, HEADER, &bytes)) {
        return Z_NULL;
    }
    unsigned char *memory = xsmi_allocate(opaque, bytes, 1);
    if (!memory) {
        return Z_NULL;
    }
    memcpy(memory, &bytes, sizeof bytes);
    return memory + HEADER;
}

static void zlib_release(void *opaque, void *memory)
{
    unsigned char *start = (unsigned char *)memory - HEADER;
    size_t bytes;
    memcpy(&bytes, start, sizeof bytes);
    xsmi_release(opaque, start, bytes, 1);
}

static xsm_status fail(const xsmi_gunzip *g, int code, xsm_error *err)
{
    if (code == Z_MEM_ERROR) {
        return xsmi_fail(err, XSM_ERROR_MEMORY, "%s: out of memory while uncompressing", g->name);
    }
    return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: damaged %s data near its byte %llu (%s)", g->name,
                     g->bare ? "deflated" : "gzip", (unsigned long long)g->position,
                     g->stream.msg ? g->stream.msg : "invalid stream");
}

static xsm_status new_stream(xsm_context *ctx, const char *name, bool bare, xsmi_gunzip **out, xsm_error *err)
{
    xsmi_gunzip *g;
    XSMI_TRY(xsmi_struct_new(ctx, &g, sizeof *g, "uncompressing", err));
    g->context = ctx;
    g->name = name;
    g->stream.zalloc = zlib_allocate;
    g->stream.zfree = zlib_release;
    g->stream.opaque = ctx;
    g->bare = bare;
    int code = inflateInit2(&g->stream, bare ? -15 : 15 + 16);
    if (code != Z_OK) {
        xsm_status status = fail(g, code, err);
        xsmi_gunzip_free(g);
        return status;
    }
    g->open = true;
    *out = g;
    return XSM_OK;
}

xsm_status xsmi_gunzip_new(xsm_context *ctx, const char *name, xsmi_gunzip **out, xsm_error *err)
{
    return new_stream(ctx, name, false, out, err);
}

xsm_status xsmi_inflate_new(xsm_context *ctx, const char *name, xsmi_gunzip **out, xsm_error *err)
{
    return new_stream(ctx, name, true, out, err);
}

void xsmi_gunzip_free(xsmi_gunzip *g)
{
    if (g) {
        if (g->open) {
            inflateEnd(&g->stream);
        }
        xsmi_release(g->context, g, 1, sizeof *g);
    }
}

/* Skips the zeros after a member, of which the file may end; *next: another member begins. */
static xsm_status skip_between(xsmi_gunzip *g, const unsigned char **input, size_t *input_size, bool *next,
                               xsm_error *err)
{
    *next = false;
    while (*input_size > 0 && **input == 0) {
        ++*input;
        --*input_size;
        g->position++;
    }
    if (*input_size > 0) {
        if (**input != 0x1F) {
            return xsmi_fail(err, XSM_ERROR_FORMAT,
                             "%s: byte %llu, after the end of the gzip data, is 0x%02X; zeros or more gzip data are "
                             "accepted",
                             g->name, (unsigned long long)g->position, **input);
        }
        *next = true;
    }
    return XSM_OK;
}

xsm_status xsmi_gunzip_step(xsmi_gunzip *g, xsmi_gunzip_io *io, xsm_error *err)
{
    io->produced = 0;
    io->done = false;
    if (g->between) {
        bool next;
        XSMI_TRY(skip_between(g, &io->input, &io->input_size, &next, err));
        if (!next) {
            io->done = io->last;
            return XSM_OK;
        }
        int code = inflateReset(&g->stream);
        if (code != Z_OK) {
            return fail(g, code, err);
        }
        g->between = false;
    }
    unsigned available = io->input_size > UINT_MAX ? UINT_MAX : (unsigned)io->input_size;
    unsigned space = io->out_size > UINT_MAX ? UINT_MAX : (unsigned)io->out_size;
    g->stream.next_in = (z_const Bytef *)(uintptr_t)io->input;
    g->stream.avail_in = available;
    g->stream.next_out = io->out;
    g->stream.avail_out = space;
    int code = inflate(&g->stream, Z_NO_FLUSH);
    unsigned used = available - g->stream.avail_in;
    io->input += used;
    io->input_size -= used;
    g->position += used;
    io->produced = space - g->stream.avail_out;
    if (code == Z_STREAM_END) {
        g->between = true;
        io->done = g->bare;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return fail(g, code, err);
    } else if (io->produced == 0 && io->input_size == 0 && io->last) {
        /* Checked last: after all input there may still be output. */
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: the %s data end too early, after %llu compressed bytes; the file is cut off", g->name,
                         g->bare ? "deflated" : "gzip", (unsigned long long)g->position);
    }
    return XSM_OK;
}
