/* Scratch of a step's jobs, and whether they are worth threads. */
#include "base/order.h"
#include "optimizer/step.h"

xsm_status xsmi_run_step(const xsmi_step *s, xsmi_range_job job, void *state, size_t count, size_t each, xsm_error *err)
{
    return xsmi_run_together(s->optimizer->context, s->optimizer->whole != NULL, job, state, count, each, err);
}

xsm_status xsmi_run_work(const xsmi_step *s, xsmi_range_job job, void *state, size_t count, size_t each, double work,
                         xsm_error *err)
{
    if (work > 10 * XSMI_JOB_WORK) {
        return xsmi_run_step(s, job, state, count, each, err);
    }
    xsmi_run_here(job, state, count, each);
    return XSM_OK;
}

/* Rows that one job packs. */
enum { PACK_ROWS = 32 };

static void run_pack(void *state, const xsmi_range *r)
{
    const xsmi_step *s = state;
    const xsm_optimizer *o = s->optimizer;
    const float *x[PACK_ROWS];
    for (size_t i = r->first; i < r->end; i++) {
        x[i - r->first] = xsmi_batch_features(s->batch, i).values;
    }
    o->model->kernels->pack_rows(x, r->end - r->first, o->model->features, o->packed + r->first * XSMI_LANES,
                                 xsmi_pitch(s));
}

xsm_status xsmi_pack_batch(const xsmi_step *s, xsm_error *err)
{
    xsm_optimizer *o = s->optimizer;
    const size_t rows = (size_t)s->batch->count, lanes = ((size_t)o->model->features + XSMI_LANES - 1) / XSMI_LANES;
    const size_t pieces = XSMI_MAX(lanes, (size_t)1); /* so that the memory is not NULL without features */
    size_t count;
    if (!xsmi_multiply(xsmi_pitch(s), pieces, &count) ||
        !xsmi_reserve(o->context, &o->packed, &o->packed_capacity, count, sizeof *o->packed)) {
        return xsmi_fail_memory(err, rows * o->model->features * sizeof *o->packed, "the rows of a batch");
    }
    return xsmi_run_work(s, run_pack, (void *)(uintptr_t)s, rows, PACK_ROWS, (double)count, err);
}

xsm_status xsmi_reserve_sums(xsm_optimizer *o, size_t each, xsm_error *err)
{
    if (each <= o->sums_each) {
        return XSM_OK;
    }
    size_t count;
    xsmi_release(o->context, o->sums, o->sums_capacity, sizeof *o->sums);
    o->sums_each = o->sums_capacity = 0;
    o->sums = xsmi_multiply(xsmi_context_threads(o->context), each, &count)
                  ? xsmi_allocate_zero(o->context, count, sizeof *o->sums)
                  : NULL;
    if (!o->sums) {
        return xsmi_fail_memory(err, each * sizeof *o->sums, "the gradients of a batch");
    }
    o->sums_each = each;
    o->sums_capacity = count;
    return XSM_OK;
}
