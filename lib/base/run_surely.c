/*
 * Jobs that must all run, whatever a host's runner does.
 */
#include "base/activity.h"
#include "base/base.h"
#include "base/context.h"

#include <string.h>

/* A job that notes that it has ended. */
typedef struct noted_job {
    xsm_job job;
    void *state;
    unsigned char *ended; /* [count] */
} noted_job;

static void run_noted(void *state, size_t index, uint32_t thread)
{
    const noted_job *noted = state;
    noted->job(noted->state, index, thread);
    noted->ended[index] = 1;
}

xsm_status xsmi_run_all(xsm_context *ctx, xsm_job job, void *state, size_t count, xsm_error *err)
{
    if (!ctx->runner.run || count <= 1) {
        return xsmi_run(ctx, job, state, count, err); /* it fails only where it is cancelled */
    }
    noted_job noted = {job, state, xsmi_allocate(ctx, count, 1)};
    xsm_status status = XSM_ERROR_RUNNER;
    if (noted.ended) {
        memset(noted.ended, 0, count);
        status = xsmi_run(ctx, run_noted, &noted, count, err);
    }
    for (size_t i = 0; i < count && status != XSM_OK && status != XSM_CANCELLED; i++) {
        if (xsmi_is_cancelled(ctx)) {
            status = xsmi_fail_cancelled(ctx, err);
        } else if (!noted.ended || !noted.ended[i]) {
            job(state, i, 0);
        }
    }
    xsmi_release(ctx, noted.ended, count, 1);
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
