/* Growing arrays. */
#include "base/grow.h"

#include "base/order.h"

#include <string.h>

#define SMALLEST 64

xsm_status xsmi_grow(xsm_context *ctx, xsmi_array_ref array, size_t *capacity, size_t needed, const char *what,
                     xsm_error *err)
{
    if (needed <= *capacity) {
        return XSM_OK;
    }
    size_t wanted = *capacity < SIZE_MAX / 2 ? *capacity + *capacity / 2 : needed;
    wanted = XSMI_MAX(wanted, needed);
    wanted = XSMI_MAX(wanted, SMALLEST);
    void *memory;
    memcpy(&memory, array.pointer, sizeof memory);
    void *grown = xsmi_reallocate(ctx, memory, *capacity, wanted, array.each);
    if (!grown) {
        return xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory: %zu times %zu bytes for %s", wanted, array.each, what);
    }
    memcpy(array.pointer, &grown, sizeof grown);
    *capacity = wanted;
    return XSM_OK;
}

void xsmi_shrink(xsm_context *ctx, void *array, size_t *capacity, size_t used, size_t each)
{
    size_t wanted = XSMI_MAX(used, SMALLEST);
    if (wanted >= *capacity - *capacity / 8) {
        return;
    }
    void *memory;
    memcpy(&memory, array, sizeof memory);
    void *smaller = xsmi_reallocate(ctx, memory, *capacity, wanted, each);
    if (smaller) {
        memcpy(array, &smaller, sizeof smaller);
        *capacity = wanted;
    }
}
