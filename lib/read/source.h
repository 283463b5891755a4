/*
 * Text from a file or from the host, decompressed, line by line.
 */
#ifndef XSMI_SOURCE_H
#define XSMI_SOURCE_H

#include "base/base.h"
#include "read/gzip.h"

#include <xsoftmax/dataset.h>

/* Bytes that xsmi_source_peek() can show, at least. */
#define XSMI_PEEK 512

/* A source of bytes, which are read once, from first to last. */
typedef struct xsmi_source {
    xsm_context *context;
    const char *name; /* the caller's, for messages */
    int fd;           /* -1 when the host reads */
    xsm_source host;
    unsigned char *raw; /* bytes as read; those from raw_next on are not used yet */
    const unsigned char *raw_next;
    size_t raw_left;
    bool raw_last; /* no bytes follow those in raw */
    xsmi_gunzip *gunzip;
    unsigned char head[XSMI_PEEK]; /* decompressed bytes that were shown; those from head_next on are not read yet */
    size_t head_next, head_end;
    bool ended;
    uint64_t raw_position;          /* bytes read so far, before decompression */
    uint64_t raw_size;              /* all of them; 0 = not known */
    struct xsmi_activity *activity; /* gets the progress; NULL = none */
} xsmi_source;

xsm_status xsmi_source_open_file(xsmi_source *s, xsm_context *ctx, const char *path, xsm_error *err);
xsm_status xsmi_source_open_host(xsmi_source *s, xsm_context *ctx, const xsm_source *host, const char *name,
                                 xsm_error *err);
/* Reads up to `size` (> 0) bytes; *got is 0 at the end. */
xsm_status xsmi_source_read(xsmi_source *s, void *buffer, size_t size, size_t *got, xsm_error *err);
/* Shows the next bytes without taking them: at least `least` (at most XSMI_PEEK), fewer only at the end. */
xsm_status xsmi_source_peek(xsmi_source *s, size_t least, const unsigned char **bytes, size_t *count, xsm_error *err);
/* Allowed after a failed open, and on zeroed memory with fd = -1. */
void xsmi_source_close(xsmi_source *s);

/* Lines of a source, of any length. */
typedef struct xsmi_lines {
    xsmi_source *source;
    char *buffer;
    size_t capacity;
    size_t keep; /* start of the bytes that must stay in the buffer: the current line, or everything with `keep_all` */
    size_t next; /* start of the next line */
    size_t end;  /* end of the bytes read */
    bool keep_all; /* do not drop lines that were read */
    bool ended;    /* the source is at its end */
    uint64_t line; /* number of the current line, from 1 */
} xsmi_lines;

void xsmi_lines_start(xsmi_lines *l, xsmi_source *source);
void xsmi_lines_end(xsmi_lines *l);
/* Reads the next line, valid until the next call; *text = NULL at the end of the file. text[length] is the '\n' or
 * "\r\n" that ends it (added when the file ends without one). */
xsm_status xsmi_lines_next(xsmi_lines *l, char **text, size_t *length, xsm_error *err);
/* Joins the next line to the current one, line end included; *text = NULL at the end. The text may move. l->line stays
 * the number of the line where the text starts. */
xsm_status xsmi_lines_extend(xsmi_lines *l, char **text, size_t *length, xsm_error *err);
/* Keeps all following lines so that xsmi_lines_rewind() can return to the start of the file; called before the first
 * line. */
void xsmi_lines_hold(xsmi_lines *l);
void xsmi_lines_rewind(xsmi_lines *l);
/* Returns the share of the file read so far, approximately, up to 1; 0 = unknown, or too early. */
double xsmi_lines_progress(const xsmi_lines *l);
/* Returns the bytes in the buffer. */
static inline size_t xsmi_lines_buffered(const xsmi_lines *l)
{
    return l->end - l->keep;
}

#endif
