/*
 * Memory that is cleared by all threads.
 */
#include "base/base.h"
#include "base/order.h"

#include <string.h>

typedef struct clear_job {
    unsigned char *memory;
    size_t bytes;
} clear_job;

/* A multiple of the page size, so that first touches spread over the threads. */
#define PIECE ((size_t)8 << 20)

static void clear_piece(void *state, size_t index, uint32_t thread)
{
    const clear_job *job = state;
    const size_t start = index * PIECE;
    (void)thread;
    memset(job->memory + start, 0, XSMI_MIN(job->bytes - start, PIECE));
}

void *xsmi_allocate_zero(xsm_context *ctx, uint64_t count, size_t each)
{
    void *memory = xsmi_allocate(ctx, count, each);
    if (memory) {
        clear_job job = {memory, (size_t)count * each};
        if (xsmi_run_all(ctx, clear_piece, &job, (job.bytes + PIECE - 1) / PIECE, NULL) != XSM_OK) {
            xsmi_release(ctx, memory, (size_t)count, each);
            return NULL;
        }
    }
    return memory;
}
