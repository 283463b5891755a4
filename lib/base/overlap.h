/*
 * Whether the arrays of a caller share memory: what a call fills must overlap neither what it reads nor another output.
 */
#ifndef XSMI_OVERLAP_H
#define XSMI_OVERLAP_H

#include "base/base.h"

/* `rows` pieces of `width` bytes, `step` bytes from one to the next; none where `first` is NULL. */
typedef struct xsmi_region {
    const char *name; /* for messages */
    const void *first;
    size_t rows, width, step;
    bool output;
} xsmi_region;

/* What a call fills: `count` numbers of `size` bytes, or n times `count` of them with `stride` from row to row. */
static inline xsmi_region xsmi_output(const char *name, const void *first, size_t count, size_t size)
{
    return (xsmi_region){name, first, 1, count * size, count * size, true};
}
static inline xsmi_region xsmi_output_rows(const char *name, const void *first, uint64_t n, size_t count, size_t stride,
                                           size_t size)
{
    return (xsmi_region){name, first, (size_t)n, count * size, stride * size, true};
}
/* Returns such a region that a call reads. */
static inline xsmi_region xsmi_input(const char *name, const void *first, size_t count, size_t size)
{
    return (xsmi_region){name, first, 1, count * size, count * size, false};
}
static inline xsmi_region xsmi_input_rows(const char *name, const void *first, uint64_t n, size_t count, size_t stride,
                                          size_t size)
{
    return (xsmi_region){name, first, (size_t)n, count * size, stride * size, false};
}

/* XSM_ERROR_ARGUMENT if an output shares a byte with another region. Rows of two arrays may alternate in memory.
 * O(regions^2), and O(rows) for two arrays that might alternate. `what` is the call or the struct. */
xsm_status xsmi_check_overlap(const char *what, const xsmi_region *regions, size_t count, xsm_error *err);

#endif
