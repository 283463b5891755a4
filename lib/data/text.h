/*
 * Bytes of unknown origin on their way into messages and names.
 */
#ifndef XSMI_TEXT_H
#define XSMI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* What may stand between the parts of a line. */
static inline bool xsmi_is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* Bytes at the start of text that are whole UTF-8 characters other than NUL: length when all are. */
size_t xsmi_utf8_prefix(const char *text, size_t length);

/* Room that xsmi_quote() needs at most, the end included. */
#define XSMI_QUOTE_SIZE 64
/* Writes the start of text in single quotes, with \xNN for what is not printable, into quote; returns quote. */
const char *xsmi_quote(char *quote, const char *text, size_t length);

#endif
