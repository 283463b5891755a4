/*
 * Decimal numbers in text, read without the C library: the same in every locale, and correctly rounded.
 *
 * The text of a number must be followed by a byte that cannot belong to it (readers end every line with one), so that
 * these functions need not know where the text ends.
 */
#ifndef XSMI_NUMBER_H
#define XSMI_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    XSMI_NUMBER_OK = 0,
    XSMI_NUMBER_NONE,       /* no number here */
    XSMI_NUMBER_NOT_FINITE, /* "nan", "inf", "infinity" in any case, with or without a sign */
    XSMI_NUMBER_TOO_LARGE,  /* beyond the type */
    XSMI_NUMBER_FRACTION    /* not an integer */
};

/* Parses [sign] digits [. digits] [e [sign] digits], with a digit before or after the point, to the nearest float32
 * (ties to even; numbers that are too small become zero). On success *end is the first byte after the number. */
int xsmi_parse_float(const char *text, const char **end, float *value);

/* As xsmi_parse_float(), but faster for the common numbers in files. */
static inline int xsmi_parse_short_float(const char *text, const char **end, float *value);

/* Reads the same syntax after blanks, right to a few units in the last place; returns 0 if there is no number. */
double xsmi_rough_double(const char *text);

/* Parses the same syntax, for a value that is an integer ("3", "+3", "3.0", "3e0"). */
int xsmi_parse_integer(const char *text, const char **end, int64_t *value);

/* Returns the number of unsigned integers, with blanks between, in a line; 0 if it has anything else. */
size_t xsmi_count_integers(const char *text, size_t length);

static inline bool xsmi_is_digit(char c)
{
    return (unsigned)((unsigned char)c - '0') <= 9;
}

/* Powers of ten that a double holds exactly. */
extern const double xsmi_powers_of_ten[23];

static inline int xsmi_parse_short_float(const char *text, const char **end, float *value)
{
    const char *p = text + (*text == '-');
    const char *first = p;
    uint64_t digits = 0;
    unsigned c;
    while ((c = (unsigned)((unsigned char)*p - '0')) <= 9) {
        digits = digits * 10 + c;
        p++;
    }
    ptrdiff_t count = p - first;
    double x;
    if (*p == '.') {
        const char *fraction = ++p;
        while ((c = (unsigned)((unsigned char)*p - '0')) <= 9) {
            digits = digits * 10 + c;
            p++;
        }
        ptrdiff_t places = p - fraction;
        count += places;
        if (count > 15) {
            return xsmi_parse_float(text, end, value);
        }
        x = (double)(int64_t)digits / xsmi_powers_of_ten[places];
        uint64_t bits;
        memcpy(&bits, &x, sizeof bits);
        if ((bits & 0x1FFFFFFF) == 0x10000000) { /* between two floats: see number.c */
            return xsmi_parse_float(text, end, value);
        }
    } else {
        x = (double)(int64_t)digits; /* exact, so that there is one rounding only */
    }
    if (count == 0 || count > 15 || (*p | 0x20) == 'e') {
        return xsmi_parse_float(text, end, value);
    }
    *value = (float)(*text == '-' ? -x : x);
    *end = p;
    return XSMI_NUMBER_OK;
}

#endif
