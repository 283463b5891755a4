/*
 * The built-in runner: threads that help the caller.
 *
 * The caller shares the pieces with the workers that are awake. It never waits for a worker that has not begun: on a
 * busy machine it does the work alone, where a barrier would wait for threads that are not scheduled.
 */
#ifndef XSMI_POOL_H
#define XSMI_POOL_H

#include "base/base.h"

typedef struct xsmi_pool xsmi_pool;

/* Makes a pool for up to `threads` (>= 2) threads, the caller of a run included. Workers are started by the first run
 * that has work for them. If a thread cannot be started, the pool works without it. */
xsm_status xsmi_pool_new(const xsm_allocator *allocator, uint32_t threads, xsmi_pool **out, xsm_error *err);
/* Ends the workers; NULL is allowed. */
void xsmi_pool_free(xsmi_pool *pool);
/* Calls job for each index in [0, count) and returns when all have finished. The caller does everything itself when the
 * pool is in use (by another thread or by a job that calls this) or belongs to the parent of this process. While the
 * caller has nothing to do but wait, it calls idle(idle_state) some 50 times a second; NULL = it sleeps. */
void xsmi_pool_run(xsmi_pool *pool, xsm_job job, void *state, size_t count, void (*idle)(void *), void *idle_state);

#endif
