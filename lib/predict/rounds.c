#include "predict/rounds.h"

#include "base/order.h"

#include <string.h>

xsm_status xsmi_rounds_start(xsm_context *ctx, xsmi_rounds *r, xsm_error *err)
{
    r->first = 0;
    r->jobs = (size_t)((r->rows + r->job_rows - 1) / r->job_rows);
    r->round = XSMI_MIN(r->jobs, XSMI_MAX(XSMI_ROUND_NUMBERS / r->each, XSMI_ROUND_JOBS));
    r->held.context = ctx;
    r->sums = xsmi_hold_zeros(&r->held, r->each, sizeof *r->sums);
    size_t bytes;
    bytes = xsmi_multiply(r->each, sizeof *r->numbers, &bytes) ? bytes : SIZE_MAX;
    r->numbers = xsmi_hold(&r->held, r->round, bytes);
    return xsmi_held_check(&r->held, "an evaluation", err);
}

/* Jobs of a round. */
typedef struct round_job {
    const xsmi_rounds *rounds;
    xsmi_range_job job;
    void *state;
} round_job;

static void run_job(void *state, const xsmi_range *r)
{
    const round_job *of = state;
    const size_t jobs = of->rounds->first, rows = jobs * of->rounds->job_rows;
    of->job(of->state, &(xsmi_range){rows + r->first, rows + r->end, jobs + r->index, r->thread});
}

xsm_status xsmi_rounds_run(xsm_context *ctx, xsmi_rounds *r, xsmi_range_job job, void *state, xsm_error *err)
{
    round_job of = {r, job, state};
    for (r->first = 0; r->first < r->jobs; r->first += r->round) {
        const size_t count = XSMI_MIN(r->round, r->jobs - r->first);
        memset(r->numbers, 0, count * r->each * sizeof *r->numbers);
        const uint64_t rows = count * r->job_rows, left = r->rows - r->first * r->job_rows;
        XSMI_TRY(xsmi_run_ranges(ctx, run_job, &of, XSMI_MIN(rows, left), r->job_rows, err));
        for (size_t i = 0; i < count; i++) {
            for (size_t j = 0; j < r->each; j++) {
                r->sums[j] += r->numbers[i * r->each + j];
            }
        }
    }
    return XSM_OK;
}
