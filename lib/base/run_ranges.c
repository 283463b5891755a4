/*
 * Jobs that each take some of a number of elements; and jobs that must all run, each once, whatever a host's runner
 * does.
 */
#include "base/activity.h"
#include "base/base.h"
#include "base/context.h"
#include "base/order.h"

#include <stdatomic.h>
#include <string.h>

typedef struct ranges {
    xsmi_range_job job;
    void *state;
    size_t count, each;
    const xsmi_aside *aside;
    atomic_bool *begun; /* [jobs] whether a job has begun: a host's runner may run one twice, even at once */
} ranges;

static size_t jobs_of(const ranges *r)
{
    return r->count / r->each + (r->count % r->each > 0);
}

static void run_range(void *state, size_t index, uint32_t thread)
{
    const ranges *r = state;
    const size_t first = index * r->each, left = r->count - first;
    const xsmi_range range = {first, first + XSMI_MIN(left, r->each), index, thread};
    r->job(r->state, &range);
}

static void run_noted(void *state, size_t index, uint32_t thread)
{
    const ranges *r = state;
    if (!atomic_exchange_explicit(&r->begun[index], true, memory_order_relaxed)) {
        run_range(state, index, thread);
    }
}

static void run_beside(void *state, size_t index, uint32_t thread)
{
    const ranges *r = state;
    if (index == 0) {
        r->aside->run(r->aside->state);
    } else {
        run_range(state, index - 1, thread);
    }
}

xsm_status xsmi_run_ranges(xsm_context *ctx, xsmi_range_job job, void *state, uint64_t count, size_t each,
                           xsm_error *err)
{
    ranges r = {job, state, (size_t)count, each, NULL, NULL};
    return xsmi_run(ctx, run_range, &r, jobs_of(&r), err);
}

void xsmi_run_here(xsmi_range_job job, void *state, uint64_t count, size_t each)
{
    ranges r = {job, state, (size_t)count, each, NULL, NULL};
    for (size_t i = 0, jobs = jobs_of(&r); i < jobs; i++) {
        run_range(&r, i, 0);
    }
}

xsm_status xsmi_run_beside(xsm_context *ctx, xsmi_range_job job, void *state, uint64_t count, size_t each,
                           const xsmi_aside *aside, xsm_error *err)
{
    ranges r = {job, state, (size_t)count, each, aside, NULL};
    return xsmi_run(ctx, aside ? run_beside : run_range, &r, jobs_of(&r) + (aside != NULL), err);
}

xsm_status xsmi_run_all(xsm_context *ctx, xsmi_range_job job, void *state, uint64_t count, size_t each, xsm_error *err)
{
    ranges r = {job, state, (size_t)count, each, NULL, NULL};
    const size_t jobs = jobs_of(&r);
    if (!ctx->runner.run || jobs <= 1) {
        return xsmi_run(ctx, run_range, &r, jobs, err); /* it fails only where it is cancelled */
    }
    r.begun = xsmi_allocate(ctx, jobs, sizeof *r.begun);
    xsm_status status = XSM_OK;
    if (r.begun) {
        for (size_t i = 0; i < jobs; i++) {
            atomic_init(&r.begun[i], false);
        }
        status = xsmi_run(ctx, run_noted, &r, jobs, err);
    }
    for (size_t i = 0; i < jobs && status != XSM_CANCELLED; i++) {
        if (r.begun && atomic_load_explicit(&r.begun[i], memory_order_relaxed)) {
            continue;
        }
        if (xsmi_is_cancelled(ctx)) {
            status = xsmi_fail_cancelled(ctx, err);
        } else {
            run_range(&r, i, 0);
        }
    }
    xsmi_release(ctx, r.begun, jobs, sizeof *r.begun);
    return status == XSM_CANCELLED ? status : XSM_OK;
}

void xsmi_run_surely(xsm_context *ctx, xsmi_range_job job, void *state, uint64_t count, size_t each)
{
    xsmi_activity shield;
    xsmi_shield(&shield, ctx);
    (void)xsmi_run_all(ctx, job, state, count, each, NULL);
    xsmi_unshield(&shield);
}

xsm_status xsmi_run_together(xsm_context *ctx, bool ranks, xsmi_range_job job, void *state, uint64_t count, size_t each,
                             xsm_error *err)
{
    if (!ranks) {
        return xsmi_run_ranges(ctx, job, state, count, each, err);
    }
    xsmi_run_surely(ctx, job, state, count, each);
    return XSM_OK;
}

/* -- memory that is cleared by all threads ------------------------------------------------------------------------- */

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

xsm_status xsmi_zeros_new(xsm_context *ctx, void *array, uint64_t count, size_t each, const char *what, xsm_error *err)
{
    void *memory = xsmi_allocate_zero(ctx, count, each);
    memcpy(array, &memory, sizeof memory);
    return memory ? XSM_OK : xsmi_fail_memory(err, count * each, what);
}
