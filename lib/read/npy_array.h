/* Arrays as NumPy writes them: the header of a .npy file or of an array of an archive, and its numbers. */
#ifndef XSMI_NPY_ARRAY_H
#define XSMI_NPY_ARRAY_H

#include "read/source.h"

#include <string.h>

#define XSMI_NPY_MAGIC "\x93NUMPY"

typedef struct xsmi_npy {
    const char *name;
    char kind; /* 'f', 'i', 'u', 'b', or 'U' and 'S' of text, whose size is that of a text */
    bool swapped;
    bool columns_first; /* Fortran order */
    size_t size;        /* bytes of a number */
    unsigned rank;
    uint64_t rows, columns; /* columns is 1 for a vector; both are 1 for a scalar */
} xsmi_npy;

#define XSMI_NPY_FAIL(n, err, ...) XSMI_NPY_FAIL_TEXT(n, err, __VA_ARGS__)
#define XSMI_NPY_FAIL_TEXT(n, err, format, ...) xsmi_fail(err, XSM_ERROR_FORMAT, "%s: " format, (n)->name, __VA_ARGS__)

/* Reads the header; n->name is set. */
xsm_status xsmi_npy_read_header(xsmi_source *s, xsmi_npy *n, xsm_error *err);
/* Reads `size` bytes of numbers; at the end of the file *got is less. */
xsm_status xsmi_npy_read(xsmi_source *s, void *buffer, size_t size, size_t *got, xsm_error *err);
/* Fails unless the source is at its end. */
xsm_status xsmi_npy_check_end(xsmi_source *s, const xsmi_npy *n, xsm_error *err);
/* Returns the error of a file that ends within this row. */
xsm_status xsmi_npy_cut_short(const xsmi_npy *n, uint64_t row, xsm_error *err);
/* Return a number of any type but text; xsmi_npy_number() is fast for the common types. */
double xsmi_npy_slow_number(const xsmi_npy *n, const unsigned char *p);
static inline double xsmi_npy_number(const xsmi_npy *n, const unsigned char *p)
{
    double d;
    float f;
    if (n->kind != 'f' || n->swapped || n->size == 2) {
        return xsmi_npy_slow_number(n, p);
    }
    if (n->size == 8) {
        memcpy(&d, p, sizeof d);
        return d;
    }
    memcpy(&f, p, sizeof f);
    return (double)f;
}
/* Sets *out to an integer or a whole float of at most 2^53; false if the number is no signed integer of 64 bits. */
bool xsmi_npy_integer(const xsmi_npy *n, const unsigned char *p, int64_t *out);

#endif
