/*
 * Memory that is cleared by all threads.
 */
#include "base/base.h"

#include <string.h>

/* A multiple of the page size, so that first touches spread over the threads. */
#define PIECE ((size_t)8 << 20)

static void clear_piece(void *state, const xsmi_range *r)
{
    memset((unsigned char *)state + r->first, 0, r->end - r->first);
}

void *xsmi_allocate_zero(xsm_context *ctx, uint64_t count, size_t each)
{
    void *memory = xsmi_allocate(ctx, count, each);
    if (memory && xsmi_run_all(ctx, clear_piece, memory, count * each, PIECE, NULL) != XSM_OK) {
        xsmi_release(ctx, memory, (size_t)count, each);
        return NULL;
    }
    return memory;
}
