/*
 * Jobs that each thread takes from a share of its own, and then from those of others.
 *
 * xsmi_run() says how many jobs a thread runs, and a counter of each share which ones. There are as many jobs as calls,
 * and a call looks at all shares, so that each finds one.
 */
#include "base/base.h"
#include "base/context.h"
#include "base/order.h"
#include "base/share.h"

#include <stdatomic.h>

/* More threads than this have a share together with others. */
enum { SHARES_MOST = 64 };

/* A share of the jobs, in a cache line of its own. */
typedef struct share {
    _Alignas(XSMI_ALIGNMENT) atomic_size_t taken;
} share;

typedef struct shared_jobs {
    xsm_job job;
    void *state;
    size_t count;
    share *shares;
    uint32_t share_count;
} shared_jobs;

static void run_next(void *state, size_t index, uint32_t thread)
{
    const shared_jobs *s = state;
    (void)index;
    for (uint32_t i = 0; i < s->share_count; i++) {
        const uint32_t number = (thread + i) % s->share_count;
        const size_t first = (size_t)xsmi_share_start(s->count, s->share_count, number);
        const size_t jobs = (size_t)xsmi_share_start(s->count, s->share_count, number + 1) - first;
        atomic_size_t *taken = &s->shares[number].taken;
        if (atomic_load_explicit(taken, memory_order_relaxed) < jobs) {
            const size_t at = atomic_fetch_add_explicit(taken, (size_t)1, memory_order_relaxed);
            if (at < jobs) {
                s->job(s->state, first + at, thread);
                return;
            }
        }
    }
}

xsm_status xsmi_run_shares(xsm_context *ctx, xsm_job job, void *state, size_t count, xsm_error *err)
{
    share shares[SHARES_MOST];
    const uint32_t threads = xsmi_context_threads(ctx);
    shared_jobs jobs = {job, state, count, shares, XSMI_MIN(threads, (uint32_t)SHARES_MOST)};
    for (uint32_t i = 0; i < jobs.share_count; i++) {
        atomic_init(&shares[i].taken, (size_t)0);
    }
    return threads > 1 ? xsmi_run(ctx, run_next, &jobs, count, err) : xsmi_run(ctx, job, state, count, err);
}
