/*
 * Checking and quoting untrusted bytes for messages and names.
 */
#ifndef XSMI_UTF8_H
#define XSMI_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a character separates the parts of a line. */
static inline bool xsmi_is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* Returns the number of leading bytes that are complete UTF-8 characters other than NUL; `length` when all are. */
size_t xsmi_utf8_prefix(const char *text, size_t length);
/* Copies text with U+FFFD in place of what is no UTF-8, and of NUL; returns the length of the copy, at most three times
 * that of the text. *replaced: how many there are. */
size_t xsmi_utf8_mend(const char *text, size_t length, char *copy, uint64_t *replaced);

/* The most bytes that xsmi_quote() writes, the terminator included. */
#define XSMI_QUOTE_SIZE 64
/* Writes the start of text in single quotes, with \xNN for bytes that are not printable, into quote; returns quote. */
const char *xsmi_quote(char *quote, const char *text, size_t length);

#endif
