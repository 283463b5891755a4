/*
 * Lines from a buffer that is refilled at its end and grows for a longer line. Each line is returned complete and
 * followed by a line end, so that parsers need no check for the end of the buffer.
 */
#include "read/source.h"
#include "base/grow.h"

#include <string.h>

#define CHUNK ((size_t)256 << 10)

void xsmi_lines_start(xsmi_lines *l, xsmi_source *source)
{
    memset(l, 0, sizeof *l);
    l->source = source;
}

void xsmi_lines_end(xsmi_lines *l)
{
    if (l->source) {
        xsmi_release(l->source->context, l->buffer, l->capacity, 1);
    }
    memset(l, 0, sizeof *l);
}

/* Reads more bytes to l->end; the bytes kept may move to the front. */
static xsm_status fill(xsmi_lines *l, xsm_error *err)
{
    if (l->keep > 0 && !l->keep_all) {
        memmove(l->buffer, l->buffer + l->keep, l->end - l->keep);
        l->next -= l->keep;
        l->end -= l->keep;
        l->keep = 0;
    }
    /* At least half a chunk is read at a time, and one byte stays free for an added line end. */
    size_t needed;
    if (!xsmi_add(l->end, CHUNK / 2 + 1, &needed)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: a line that does not fit the address space", l->source->name);
    }
    if (needed > l->capacity) {
        XSMI_TRY(XSMI_GROW(l->source->context, l->buffer, l->capacity, needed < CHUNK ? CHUNK : needed, "a line", err));
    }
    size_t got;
    XSMI_TRY(xsmi_source_read(l->source, l->buffer + l->end, l->capacity - 1 - l->end, &got, err));
    l->end += got;
    l->ended = got == 0;
    return XSM_OK;
}

/* Finds the end of the line that starts, or goes on, at l->next: *stop is the position of its '\n'. *found = false at
 * the end. */
static xsm_status find_end(xsmi_lines *l, size_t *stop, bool *found, xsm_error *err)
{
    size_t scanned = 0; /* bytes searched from l->next on, which may move */
    for (;;) {
        size_t from = l->next + scanned;
        const char *newline = from < l->end ? memchr(l->buffer + from, '\n', l->end - from) : NULL;
        if (newline) {
            *stop = (size_t)(newline - l->buffer);
            break;
        }
        scanned = l->end - l->next;
        if (l->ended) {
            if (scanned == 0) {
                *found = false;
                return XSM_OK;
            }
            *stop = l->end;
            l->buffer[l->end] = '\n';
            break;
        }
        XSMI_TRY(fill(l, err));
    }
    *found = true;
    return XSM_OK;
}

/* Sets *text to that from `start` to `stop` without its line end; reading continues behind it. */
static void give(xsmi_lines *l, size_t start, size_t stop, char **text, size_t *length)
{
    l->next = stop < l->end ? stop + 1 : l->end;
    *text = l->buffer + start;
    *length = stop - start;
    if (*length > 0 && (*text)[*length - 1] == '\r') {
        --*length;
    }
}

/* Refuses a source whose only line contains carriage returns: all its rows would become one. */
static xsm_status check_ends(const xsmi_lines *l, size_t start, size_t stop, xsm_error *err)
{
    const char *const text = l->buffer + start;
    const char *end = l->line == 1 && stop == l->end ? memchr(text, '\r', stop - start) : NULL;
    return !end || end + 1 == text + (stop - start)
               ? XSM_OK
               : xsmi_fail_at(err, XSM_ERROR_FORMAT, 1, (uint64_t)(end - text) + 1,
                              "%s, line 1, column %llu: lines that end in a carriage return alone; a line feed ends a "
                              "line: tr '\\r' '\\n' <FILE >NEW",
                              l->source->name, (unsigned long long)(end - text) + 1);
}

xsm_status xsmi_lines_next(xsmi_lines *l, char **text, size_t *length, xsm_error *err)
{
    if (!l->keep_all) {
        l->keep = l->next;
    }
    size_t before = l->next - l->keep;
    size_t stop;
    bool found;
    XSMI_TRY(find_end(l, &stop, &found, err));
    *text = NULL;
    *length = 0;
    if (found) {
        size_t start = l->keep + before;
        if (stop - start >= 3 && memcmp(l->buffer + start, "\xEF\xBB\xBF", 3) == 0) {
            start += 3; /* a byte order mark, as spreadsheets write it; within a file where cat joined several */
            l->keep += before == 0 ? 3 : 0;
            if (start == l->end && l->line == 0) { /* a mark alone is no line */
                l->next = l->end;
                return XSM_OK;
            }
        }
        l->line++;
        XSMI_TRY(check_ends(l, start, stop, err));
        give(l, start, stop, text, length);
    }
    return XSM_OK;
}

xsm_status xsmi_lines_extend(xsmi_lines *l, char **text, size_t *length, xsm_error *err)
{
    size_t stop;
    bool found;
    XSMI_TRY(find_end(l, &stop, &found, err));
    *text = NULL;
    if (found) {
        give(l, l->keep, stop, text, length);
    }
    return XSM_OK;
}

void xsmi_lines_hold(xsmi_lines *l)
{
    l->keep_all = true;
}

void xsmi_lines_rewind(xsmi_lines *l)
{
    l->keep_all = false;
    l->next = l->keep;
    l->line = 0;
}

double xsmi_lines_progress(const xsmi_lines *l)
{
    const xsmi_source *s = l->source;
    if (s->raw_position < CHUNK * 4 || s->raw_position > s->raw_size) {
        return 0;
    }
    /* Bytes waiting in the line buffer count only if they are the file's bytes (not decompressed). */
    uint64_t waiting = s->raw_left + (s->gunzip ? 0 : l->end - l->next);
    return (double)(s->raw_position - waiting) / (double)s->raw_size;
}
