/*
 * Arrays that grow as input arrives.
 */
#ifndef XSMI_GROW_H
#define XSMI_GROW_H

#include "base/base.h"

/* Reserves `needed` elements in a typed array, and more, so that all copies together cost a constant factor. On failure
 * array and capacity are unchanged. An xsm_status. */
#define XSMI_GROW(ctx, array, capacity, needed, what, err)                                                             \
    ((needed) <= (capacity) ? XSM_OK : xsmi_grow((ctx), XSMI_ARRAY(array), &(capacity), (needed), (what), (err)))

xsm_status xsmi_grow(xsm_context *ctx, xsmi_array_ref array, size_t *capacity, size_t needed, const char *what,
                     xsm_error *err);
/* Releases the unused part of a grown array if it is worth a copy; never fails. `array` is the address of the pointer,
 * of whatever type. */
void xsmi_shrink(xsm_context *ctx, void *array, size_t *capacity, size_t used, size_t each);

#endif
