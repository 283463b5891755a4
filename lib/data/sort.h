/*
 * Sorting without the C library's qsort(), which allocates its own memory.
 */
#ifndef XSMI_SORT_H
#define XSMI_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Sorts keys in rising order; scratch has the same size. O(n log n). */
void xsmi_sort(uint64_t *keys, uint64_t *scratch, size_t count);

/* Whether item a must come before item b. */
typedef int (*xsmi_before)(const void *state, uint32_t a, uint32_t b);
/* Sorts items by before(), equal ones kept in order; scratch has the same size. O(n log n). */
void xsmi_sort_by(xsmi_before before, const void *state, uint32_t *items, uint32_t *scratch, size_t count);

#endif
