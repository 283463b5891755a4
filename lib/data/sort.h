/*
 * Sorting without the C library's qsort(), which allocates its own memory.
 */
#ifndef XSMI_SORT_H
#define XSMI_SORT_H

#include "base/activity.h"

#include <stddef.h>
#include <stdint.h>

/* Sorts keys in rising order; scratch has the same size. O(n log n). Polls: a call that was cancelled leaves the items
 * in some order. */
void xsmi_sort(const xsm_context *ctx, uint64_t *keys, uint64_t *scratch, size_t count);

/* Whether item a must come before item b. */
typedef int (*xsmi_before)(const void *state, uint32_t a, uint32_t b);
/* Sorts items by before(); equal items stay in order. */
void xsmi_sort_by(const xsm_context *ctx, xsmi_before before, const void *state, uint32_t *items, uint32_t *scratch,
                  size_t count);

#endif
