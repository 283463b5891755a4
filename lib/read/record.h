/*
 * Records of a table (RFC 4180 with any separator): their fields, one after another.
 *
 * A quoted field may contain separators, doubled quotes and, unless tabs separate the fields, line ends, so that a
 * record may have several lines; blanks may be around the quotes. A record stays in the line buffer until it is
 * complete, but moves when a line is added. So positions in it are stored as offsets.
 */
#ifndef XSMI_RECORD_H
#define XSMI_RECORD_H

#include "read/reader.h"

#include <string.h>

typedef struct xsmi_field {
    size_t start, length; /* in the record's text, without quotes, doubled ones made single */
    uint64_t line, column;
    bool quoted;
} xsmi_field;

typedef struct xsmi_record {
    xsmi_reader *r;
    char separator; /* a blank stands for any number of blanks */
    char *text;
    size_t length;
    size_t at;     /* start of the next field */
    bool done;     /* the last field was returned */
    uint64_t line; /* the line of `at`, and where it starts */
    size_t line_start;
    xsmi_field *fields; /* of a record that was split, to be read again */
    size_t count, capacity;
    size_t again; /* how many of them are still to be read */
} xsmi_record;

/* Starts with the first line of a record. */
void xsmi_record_start(xsmi_record *c, char *text, size_t length);
/* Returns the position of the first byte from `at` on that is not a blank. */
static inline size_t xsmi_record_skip(const xsmi_record *c, size_t at)
{
    while (at < c->length && (c->text[at] == ' ' || (c->text[at] == '\t' && c->separator != '\t'))) {
        at++;
    }
    return at;
}
/* Whether the quote at `at`, with which a field of the line begins, opens a quoted field. If tabs separate the fields,
 * it does so only if a quote in the same line ends the field; else it is part of the text. */
bool xsmi_record_opens(const char *line, size_t at, size_t length, char separator);
static inline bool xsmi_record_quoted(const xsmi_record *c)
{
    const size_t at = xsmi_record_skip(c, c->at);
    return at < c->length && c->text[at] == '"' && xsmi_record_opens(c->text, at, c->length, c->separator);
}
/* Takes the next field of the line, which has no quotes. */
static inline void xsmi_record_plain(xsmi_record *c, xsmi_field *f)
{
    const char *stop = memchr(c->text + c->at, c->separator, c->length - c->at);
    const size_t end = stop ? (size_t)(stop - c->text) : c->length;
    *f = (xsmi_field){.start = c->at, .length = end - c->at, .line = c->line, .column = c->at - c->line_start + 1};
    c->done = !stop;
    c->at = end + 1;
}
/* As xsmi_record_next(), which calls this for all but plain fields. */
xsm_status xsmi_record_next_field(xsmi_record *c, xsmi_field *f, xsm_error *err);
/* Reads the next field; there is one until c->done. It is followed by the separator, a quote or the line's end. */
static inline xsm_status xsmi_record_next(xsmi_record *c, xsmi_field *f, xsm_error *err)
{
    if (c->again > 0 || c->separator == ' ' || xsmi_record_quoted(c)) {
        return xsmi_record_next_field(c, f, err);
    }
    xsmi_record_plain(c, f);
    return XSM_OK;
}
/* Reads all fields of the record into c->fields. With c->again = c->count they are read again. */
xsm_status xsmi_record_split(xsmi_record *c, xsm_error *err);
void xsmi_record_end(xsmi_record *c);

#endif
