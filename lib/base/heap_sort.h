/*
 * Sorting in place, for lists of any type. The C library's qsort() is not used: it allocates memory without the host's
 * allocator.
 */
#ifndef XSMI_HEAP_SORT_H
#define XSMI_HEAP_SORT_H

#include <stdbool.h>
#include <stddef.h>

#include <xsoftmax/context.h>

/* Like qsort(); the order of equal items depends only on the list. O(n log n). */
void xsmi_heap_sort(void *items, size_t count, size_t each, int (*compare)(const void *, const void *));
/* The same for long lists: polls the context now and then. False, with the items in any order, when the call was
 * cancelled. */
bool xsmi_heap_sort_polled(const xsm_context *ctx, void *items, size_t count, size_t each,
                           int (*compare)(const void *, const void *));

#endif
