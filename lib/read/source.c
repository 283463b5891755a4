/* Bytes from a file descriptor or the host, through gunzip when they start with gzip's magic bytes. */
#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"
#include "base/system.h"
#include "read/foreign.h"
#include "read/source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RAW_SIZE ((size_t)64 << 10)
/* Most bytes read between two polls. */
#define PIECE ((size_t)1 << 20)

static xsm_status system_failure(const xsmi_source *s, const char *what, int number, xsm_error *err)
{
    char text[128];
    return xsmi_fail(err, XSM_ERROR_IO, "%s: %s: %s", s->name, what, xsmi_error_text(number, text, sizeof text));
}

static xsm_status read_raw(xsmi_source *s, void *buffer, size_t size, size_t *got, xsm_error *err)
{
    if (s->fd >= 0) {
        ssize_t count;
        do {
            count = read(s->fd, buffer, size);
        } while (count < 0 && errno == EINTR);
        if (count < 0) {
            return system_failure(s, "cannot read", errno, err);
        }
        *got = (size_t)count;
        s->raw_position += *got;
        return XSM_OK;
    }
    int64_t count;
    XSMI_CALL_HOST(count = s->host.read(s->host.user, buffer, size));
    if (count < 0) {
        return xsmi_fail(err, XSM_ERROR_IO, "%s: the source's read() failed (%lld)", s->name, (long long)count);
    }
    if ((uint64_t)count > size) {
        return xsmi_fail(err, XSM_ERROR_IO, "%s: the source's read() returned %lld for a buffer of %zu bytes", s->name,
                         (long long)count, size);
    }
    *got = (size_t)count;
    s->raw_position += *got;
    return XSM_OK;
}

static xsm_status read_compressed(xsmi_source *s, void *buffer, size_t size, size_t *got, xsm_error *err)
{
    for (;;) {
        if (s->raw_left == 0 && !s->raw_last) {
            s->raw_next = s->raw;
            XSMI_TRY(read_raw(s, s->raw, RAW_SIZE, &s->raw_left, err));
            s->raw_last = s->raw_left == 0;
        }
        xsmi_gunzip_io io = {s->raw_next, s->raw_left, s->raw_last, buffer, size, 0, false};
        XSMI_TRY(xsmi_gunzip_step(s->gunzip, &io, err));
        s->raw_next = io.input;
        s->raw_left = io.input_size;
        if (io.produced > 0 || io.done) {
            *got = io.produced;
            s->ended = io.done;
            return XSM_OK;
        }
    }
}

/* Reads until at least `least` of the first bytes are there: a host may return them one at a time. */
static xsm_status begin(xsmi_source *s, size_t least, xsm_error *err)
{
    while (s->raw_left < least && !s->raw_last) {
        size_t got;
        XSMI_TRY(read_raw(s, s->raw + s->raw_left, RAW_SIZE - s->raw_left, &got, err));
        s->raw_left += got;
        s->raw_last = got == 0;
    }
    return XSM_OK;
}

xsm_status xsmi_source_peek(xsmi_source *s, size_t least, const unsigned char **bytes, size_t *count, xsm_error *err)
{
    if (!s->gunzip) {
        XSMI_TRY(begin(s, least, err));
        *bytes = s->raw;
        *count = s->raw_left;
        return XSM_OK;
    }
    while (s->head_end < least && !s->ended) {
        size_t got;
        XSMI_TRY(read_compressed(s, s->head + s->head_end, sizeof s->head - s->head_end, &got, err));
        s->head_end += got;
    }
    *bytes = s->head;
    *count = s->head_end;
    return XSM_OK;
}

/* Refuses a kind of file that is not read, by its first bytes. */
static xsm_status check_kind(xsmi_source *s, xsm_error *err)
{
    for (size_t before = 0;;) {
        const unsigned char *bytes;
        size_t count;
        bool open;
        XSMI_TRY(xsmi_source_peek(s, before + 1, &bytes, &count, err));
        const xsmi_foreign *kind = xsmi_foreign_of(bytes, count, &open);
        if (!open || count == before || count >= XSMI_PEEK) {
            return kind ? xsmi_foreign_refuse(s, kind, err) : XSM_OK;
        }
        before = count;
    }
}

/* Sets *gzip to whether the source is compressed; a cache may begin with gzip's two bytes, too. */
static xsm_status is_gzip(xsmi_source *s, bool *gzip, xsm_error *err)
{
    XSMI_TRY(begin(s, 2, err));
    *gzip = s->raw_left >= 2 && s->raw[0] == 0x1F && s->raw[1] == 0x8B;
    XSMI_TRY(*gzip ? begin(s, 9, err) : XSM_OK);
    *gzip &= !xsmi_is_safetensors(s->raw, s->raw_left);
    return XSM_OK;
}

/* Starts gunzip if the first bytes are gzip's. */
static xsm_status start(xsmi_source *s, xsm_error *err)
{
    XSMI_TRY(xsmi_array_new(s->context, &s->raw, RAW_SIZE, 1, "a read buffer", err));
    s->raw_next = s->raw;
    bool gzip;
    XSMI_TRY(is_gzip(s, &gzip, err));
    if (gzip) {
        XSMI_TRY(xsmi_gunzip_new(s->context, s->name, &s->gunzip, err));
    }
    return check_kind(s, err);
}

xsm_status xsmi_source_open_file(xsmi_source *s, xsm_context *ctx, const char *path, xsm_error *err)
{
    memset(s, 0, sizeof *s);
    s->context = ctx;
    s->name = path;
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0) {
        return system_failure(s, "cannot open", errno, err);
    }
    struct stat st;
    if (fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        s->raw_size = (uint64_t)st.st_size;
    }
    return start(s, err);
}

xsm_status xsmi_source_open_host(xsmi_source *s, xsm_context *ctx, const xsm_source *host, const char *name,
                                 xsm_error *err)
{
    memset(s, 0, sizeof *s);
    s->context = ctx;
    s->name = name;
    s->fd = -1;
    s->host = *host;
    return start(s, err);
}

xsm_status xsmi_source_read(xsmi_source *s, void *buffer, size_t size, size_t *got, xsm_error *err)
{
    *got = XSMI_MIN(s->head_end - s->head_next, size);
    if (*got > 0) {
        memcpy(buffer, s->head + s->head_next, *got);
        s->head_next += *got;
        return XSM_OK;
    }
    if (s->ended) {
        return XSM_OK;
    }
    size = XSMI_MIN(size, PIECE);
    if (s->activity) {
        xsmi_reach(s->activity, s->raw_position - s->raw_left);
    }
    XSMI_TRY(xsmi_go_on(s->context, err));
    if (s->gunzip) {
        return read_compressed(s, buffer, size, got, err);
    }
    if (s->raw_left > 0) {
        *got = XSMI_MIN(s->raw_left, size);
        memcpy(buffer, s->raw_next, *got);
        s->raw_next += *got;
        s->raw_left -= *got;
        return XSM_OK;
    }
    if (!s->raw_last) {
        XSMI_TRY(read_raw(s, buffer, size, got, err));
    }
    s->ended = *got == 0;
    return XSM_OK;
}

void xsmi_source_close(xsmi_source *s)
{
    xsmi_gunzip_free(s->gunzip);
    xsmi_release(s->context, s->raw, RAW_SIZE, 1);
    if (s->fd >= 0) {
        close(s->fd);
    }
    memset(s, 0, sizeof *s);
    s->fd = -1;
}
