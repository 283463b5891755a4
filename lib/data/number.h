/*
 * Decimal numbers in text, read without the C library: the same in every locale, and correctly rounded.
 *
 * The text of a number must be followed by a byte that cannot belong to it (readers end every line with one), so that
 * nothing here needs to know where the text ends.
 */
#ifndef XSMI_NUMBER_H
#define XSMI_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    XSMI_NUMBER_OK = 0,
    XSMI_NUMBER_NONE,       /* no number here */
    XSMI_NUMBER_NOT_FINITE, /* "nan", "inf", "infinity" in any case, with or without a sign */
    XSMI_NUMBER_TOO_LARGE,  /* beyond the type */
    XSMI_NUMBER_FRACTION    /* not an integer */
};

/* [sign] digits [. digits] [e [sign] digits], with a digit before or after the point, to the nearest float32 (ties to
 * even; what is too small becomes a zero). *end is the first byte after the number; untouched unless OK. */
int xsmi_parse_float(const char *text, const char **end, float *value);

/* The same syntax, for a value that is an integer ("3", "+3", "3.0", "3e0"). */
int xsmi_parse_integer(const char *text, const char **end, int64_t *value);

static inline bool xsmi_is_digit(char c)
{
    return (unsigned)((unsigned char)c - '0') <= 9;
}

#endif
