/* Predictions whose rows are divided among threads, each with a predictor of its own. */
#include "predict/predict.h"

#include "base/activity.h"
#include "base/order.h"

xsm_status xsmi_workers_make(xsm_predictor *p, const xsm_predictor_options *o, uint32_t count, xsm_error *err)
{
    p->workers = xsmi_allocate_zero(p->context, count, sizeof *p->workers);
    if (!p->workers) {
        return xsmi_fail_memory(err, count * sizeof *p->workers, "a predictor");
    }
    p->worker_count = count;
    for (uint32_t i = 0; i < count; i++) {
        XSMI_TRY(xsmi_predictor_make(p->context, p->model, o, p->top, p->beam, &p->workers[i].predictor, err));
    }
    return XSM_OK;
}

/* Returns the rows first..first+count of a prediction; `batch` gets that part of its batch. */
static xsm_prediction slice_of(const xsm_prediction *to, size_t first, size_t count, uint32_t top, xsm_batch *batch)
{
    xsm_prediction slice = *to;
    *batch = xsmi_batch_slice(to->batch, first, count);
    slice.batch = batch;
    slice.classes += first * top;
    slice.scores = to->scores ? to->scores + first * top : NULL;
    slice.probabilities = to->probabilities ? to->probabilities + first * top : NULL;
    slice.lengths = to->lengths ? to->lengths + first : NULL;
    slice.filters = to->filters ? to->filters + first : NULL;
    slice.allow_offsets = to->allow_offsets ? to->allow_offsets + first : NULL;
    slice.deny_offsets = to->deny_offsets ? to->deny_offsets + first : NULL;
    return slice;
}

typedef struct share_job {
    const xsm_predictor *predictor;
    const xsm_prediction *to;
} share_job;

static void run_some(void *state, const xsmi_range *r)
{
    const share_job *job = state;
    const xsm_predictor *p = job->predictor;
    xsmi_worker *w = &p->workers[r->thread];
    xsm_batch batch;
    const xsm_prediction some = slice_of(job->to, r->first, r->end - r->first, p->top, &batch);
    xsm_error err = XSM_ERROR_INIT;
    const xsm_status status = xsmi_predictor_go(w->predictor, &some, &err);
    if (status != XSM_OK && r->index < w->failed) {
        w->failed = r->index;
        w->status = status;
        w->err = err;
    }
}

xsm_status xsmi_workers_run(const xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    const size_t rows = (size_t)to->batch->count, wanted = rows / (4 * (size_t)p->worker_count);
    if (rows == 0) {
        return XSM_OK;
    }
    share_job job = {p, to};
    for (uint32_t i = 0; i < p->worker_count; i++) {
        xsmi_worker *w = &p->workers[i];
        w->failed = SIZE_MAX;
        XSMI_TRY(xsmi_predictor_prepare(w->predictor, to, err));
    }
    XSMI_TRY(xsmi_run_ranges(p->context, run_some, &job, rows, XSMI_CLAMP(wanted, (size_t)1, (size_t)XSMI_PIECE), err));
    const xsmi_worker *first = &p->workers[0];
    for (uint32_t i = 0; i < p->worker_count; i++) {
        const xsmi_worker *w = &p->workers[i];
        first = w->failed < first->failed ? w : first;
    }
    return first->failed == SIZE_MAX ? XSM_OK : xsmi_fail_copy(err, &first->err);
}
