/*
 * Jobs that must all run, whatever a host's runner does.
 */
#include "base/activity.h"
#include "base/base.h"
#include "base/context.h"

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

void xsmi_run_surely(xsm_context *ctx, xsm_job job, void *state, size_t count)
{
    xsmi_activity shield;
    xsmi_shield(&shield, ctx);
    noted_job noted = {job, state, ctx->runner.run ? xsmi_allocate_zero(ctx, count, 1) : NULL};
    if (!ctx->runner.run) {
        (void)xsmi_run(ctx, job, state, count, NULL); /* it fails only where it is cancelled */
    } else if (!noted.ended || xsmi_run(ctx, run_noted, &noted, count, NULL) != XSM_OK) {
        for (size_t i = 0; i < count; i++) {
            if (!noted.ended || !noted.ended[i]) {
                job(state, i, 0);
            }
        }
    }
    xsmi_unshield(&shield);
    xsmi_release(ctx, noted.ended, count, 1);
}
