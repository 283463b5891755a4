/* Scratch of a step's jobs, and whether they are worth threads. */
#include "optimizer/step.h"

xsm_status xsmi_run_work(const xsmi_step *s, xsm_job job, void *state, size_t count, double work, xsm_error *err)
{
    if (work > 10 * XSMI_JOB_WORK) {
        return xsmi_run(s->optimizer->context, job, state, count, err);
    }
    for (size_t i = 0; i < count; i++) {
        job(state, i, 0);
    }
    return XSM_OK;
}

xsm_status xsmi_reserve_sums(xsm_optimizer *o, size_t each, xsm_error *err)
{
    if (each <= o->sums_each) {
        return XSM_OK;
    }
    size_t count;
    xsmi_release(o->context, o->sums, o->sums_capacity, sizeof *o->sums);
    o->sums_each = o->sums_capacity = 0;
    o->sums = xsmi_multiply(xsm_context_threads(o->context), each, &count)
                  ? xsmi_allocate_zero(o->context, count, sizeof *o->sums)
                  : NULL;
    if (!o->sums) {
        return xsmi_fail_memory(err, each * sizeof *o->sums, "the gradients of a batch");
    }
    o->sums_each = each;
    o->sums_capacity = count;
    return XSM_OK;
}
