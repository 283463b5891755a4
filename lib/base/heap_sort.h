/*
 * Sorting in place, for lists of anything. The C library's qsort() is not used: it takes memory of its own, which the
 * host's allocator does not see.
 */
#ifndef XSMI_HEAP_SORT_H
#define XSMI_HEAP_SORT_H

#include <stddef.h>

/* As qsort(); equal items end up in an order that depends on nothing but the list. O(n log n). */
void xsmi_heap_sort(void *items, size_t count, size_t each, int (*compare)(const void *, const void *));

#endif
