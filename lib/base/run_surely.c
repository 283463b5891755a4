/*
 * Jobs that must all run, each once, whatever a host's runner does.
 */
#include "base/activity.h"
#include "base/base.h"
#include "base/context.h"

#include <stdatomic.h>

/* A job that notes that it has begun. */
typedef struct noted_job {
    xsm_job job;
    void *state;
    atomic_bool *begun; /* [count] */
} noted_job;

/* Runs a job unless it has run: a runner may run it twice, even at once. */
static void run_noted(void *state, size_t index, uint32_t thread)
{
    const noted_job *noted = state;
    if (!atomic_exchange_explicit(&noted->begun[index], true, memory_order_relaxed)) {
        noted->job(noted->state, index, thread);
    }
}

xsm_status xsmi_run_all(xsm_context *ctx, xsm_job job, void *state, size_t count, xsm_error *err)
{
    if (!ctx->runner.run || count <= 1) {
        return xsmi_run(ctx, job, state, count, err); /* it fails only where it is cancelled */
    }
    noted_job noted = {job, state, xsmi_allocate(ctx, count, sizeof *noted.begun)};
    xsm_status status = XSM_OK;
    if (noted.begun) {
        for (size_t i = 0; i < count; i++) {
            atomic_init(&noted.begun[i], false);
        }
        status = xsmi_run(ctx, run_noted, &noted, count, err);
    }
    for (size_t i = 0; i < count && status != XSM_CANCELLED; i++) {
        if (noted.begun && atomic_load_explicit(&noted.begun[i], memory_order_relaxed)) {
            continue;
        }
        if (xsmi_is_cancelled(ctx)) {
            status = xsmi_fail_cancelled(ctx, err);
        } else {
            job(state, i, 0);
        }
    }
    xsmi_release(ctx, noted.begun, count, sizeof *noted.begun);
    return status == XSM_CANCELLED ? status : XSM_OK;
}

void xsmi_run_surely(xsm_context *ctx, xsm_job job, void *state, size_t count)
{
    xsmi_activity shield;
    xsmi_shield(&shield, ctx);
    (void)xsmi_run_all(ctx, job, state, count, NULL);
    xsmi_unshield(&shield);
}

xsm_status xsmi_run_together(xsm_context *ctx, bool ranks, xsm_job job, void *state, size_t count, xsm_error *err)
{
    if (!ranks) {
        return xsmi_run(ctx, job, state, count, err);
    }
    xsmi_run_surely(ctx, job, state, count);
    return XSM_OK;
}
