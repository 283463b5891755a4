/* Sorting the features of a row. */
#ifndef XSMI_ENTRY_SORT_H
#define XSMI_ENTRY_SORT_H

#include "base/base.h"

/* Scratch memory of xsmi_sort_entries(), which is kept from row to row. */
typedef struct xsmi_entry_sort {
    uint64_t *keys, *scratch;
    size_t key_capacity, scratch_capacity;
} xsmi_entry_sort;

/* Sorts the values of a row by their features. */
xsm_status xsmi_sort_entries(xsm_context *ctx, xsmi_entry_sort *s, uint32_t *index, float *values, size_t count,
                             xsm_error *err);
/* Adds the values of each feature of a sorted row, and returns how many features there are; a sum may be infinite. */
size_t xsmi_add_duplicates(uint32_t *index, float *values, size_t count);
void xsmi_entry_sort_end(xsm_context *ctx, xsmi_entry_sort *s);

#endif
