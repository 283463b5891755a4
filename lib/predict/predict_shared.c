/*
 * Predictions whose rows are divided: among the threads of a process, each with a predictor of its own; and among the
 * ranks of a context, of models that each rank has whole: label trees, and the tree of a model by itself. Each rank
 * predicts its share of a batch by its threads, and all get the results.
 */
#include "predict/predict.h"

#include "base/activity.h"
#include "base/order.h"
#include "base/share.h"
#include "data/part.h"
#include "model/divided.h"

/* Rows that are divided at a time. */
#define SHARED_ROWS ((size_t)4096)
/* Outputs of a row, and the classes that were scored. */
#define ARRAYS 5

struct xsmi_worker {
    xsm_predictor *predictor;
    /* Its first job that failed, in a run: */
    size_t failed; /* SIZE_MAX = none */
    xsm_status status;
    xsm_error err;
};

/* -- workers ------------------------------------------------------------------------------------------------------- */

static bool divides_rows(const xsm_predictor *p)
{
    return xsmi_model_is_copied(p->model) || (xsmi_model_is_divided(p->model) && p->tree_alone);
}

xsm_status xsmi_workers_make(xsm_predictor *p, const xsm_predictor_options *o, uint32_t count, xsm_error *err)
{
    p->workers = xsmi_allocate_zero(p->context, count, sizeof *p->workers);
    if (!p->workers) {
        return xsmi_fail_memory(err, count * sizeof *p->workers, "a predictor");
    }
    p->worker_count = count;
    for (uint32_t i = 0; i < count; i++) {
        XSMI_TRY(xsmi_predictor_new_alone(p->context, p->model, o, p->top, p->beam, &p->workers[i].predictor, err));
    }
    return XSM_OK;
}

xsm_status xsmi_shared_make(xsm_predictor *p, const xsm_predictor_options *o, xsm_error *err)
{
    return divides_rows(p) ? xsmi_workers_make(p, o, xsmi_context_threads(p->context), err) : XSM_OK;
}

void xsmi_shared_free(xsm_predictor *p)
{
    for (uint32_t i = 0; i < p->worker_count; i++) {
        xsmi_predictor_free_alone(p->workers[i].predictor);
    }
    xsmi_release(p->context, p->workers, p->worker_count, sizeof *p->workers);
}

/* -- the rows of a rank, or of a call ------------------------------------------------------------------------------ */

/* The rows first..first+count of a prediction; `batch` gets those of its batch. */
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
    size_t each; /* rows of a job */
} share_job;

static void run_some(void *state, size_t index, uint32_t thread)
{
    const share_job *job = state;
    const xsm_predictor *p = job->predictor;
    xsmi_worker *w = &p->workers[thread];
    const size_t first = index * job->each, rest = (size_t)job->to->batch->count - first;
    xsm_batch batch;
    const xsm_prediction some = slice_of(job->to, first, XSMI_MIN(rest, job->each), p->top, &batch);
    xsm_error err = XSM_ERROR_INIT;
    const xsm_status status = xsmi_predictor_go(w->predictor, &some, &err);
    if (status != XSM_OK && index < w->failed) {
        w->failed = index;
        w->status = status;
        w->err = err;
    }
}

xsm_status xsmi_workers_run(const xsm_predictor *p, const xsm_prediction *to, uint64_t *probed, xsm_error *err)
{
    const size_t rows = (size_t)to->batch->count, wanted = rows / (4 * (size_t)p->worker_count);
    *probed = 0;
    if (rows == 0) {
        return XSM_OK;
    }
    share_job job = {p, to, XSMI_CLAMP(wanted, (size_t)1, (size_t)XSMI_PIECE)};
    for (uint32_t i = 0; i < p->worker_count; i++) {
        xsmi_worker *w = &p->workers[i];
        w->failed = SIZE_MAX;
        w->predictor->probed = 0;
        XSMI_TRY(xsmi_predictor_prepare(w->predictor, to, err));
    }
    XSMI_TRY(xsmi_run(p->context, run_some, &job, (rows + job.each - 1) / job.each, err));
    const xsmi_worker *first = &p->workers[0];
    for (uint32_t i = 0; i < p->worker_count; i++) {
        const xsmi_worker *w = &p->workers[i];
        first = w->failed < first->failed ? w : first;
        *probed += w->predictor->probed;
    }
    return first->failed == SIZE_MAX ? XSM_OK : xsmi_fail_copy(err, &first->err);
}

/* -- the rows of all ranks ----------------------------------------------------------------------------------------- */

/* What the ranks write of a prediction's rows; returns how many arrays. */
static size_t list_arrays(const xsm_predictor *p, const xsm_prediction *to, uint64_t *probed, xsmi_shared *arrays)
{
    const uint32_t ranks = xsmi_ranks(p->context);
    const size_t rows = (size_t)to->batch->count, top = p->top;
    size_t count = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        const size_t first = (size_t)xsmi_share_start(rows, ranks, r),
                     some = (size_t)xsmi_share_start(rows, ranks, r + 1) - first;
        arrays[count++] = (xsmi_shared){&probed[r], sizeof *probed, r};
        arrays[count++] = (xsmi_shared){to->classes + first * top, some * top * sizeof *to->classes, r};
        if (to->scores) {
            arrays[count++] = (xsmi_shared){to->scores + first * top, some * top * sizeof *to->scores, r};
        }
        if (to->probabilities) {
            arrays[count++] = (xsmi_shared){to->probabilities + first * top, some * top * sizeof(double), r};
        }
        if (to->lengths) {
            arrays[count++] = (xsmi_shared){to->lengths + first, some * sizeof *to->lengths, r};
        }
    }
    return count;
}

/* Predicts rows that are divided together. */
static xsm_status run_rows(xsm_predictor *p, const xsm_prediction *to, uint64_t *probed, xsmi_shared *arrays,
                           xsm_error *err)
{
    xsm_context *ctx = p->context;
    const uint32_t ranks = xsmi_ranks(ctx), rank = xsmi_rank(ctx);
    const size_t rows = (size_t)to->batch->count, first = (size_t)xsmi_share_start(rows, ranks, rank),
                 some = (size_t)xsmi_share_start(rows, ranks, rank + 1) - first;
    xsm_batch batch;
    const xsm_prediction mine = slice_of(to, first, some, p->top, &batch);
    const xsm_status status = xsmi_workers_run(p, &mine, &probed[rank], err);
    const size_t count = list_arrays(p, to, probed, arrays);
    XSMI_TRY(xsmi_share_arrays(ctx, status, arrays, count, err));
    for (uint32_t r = 0; r < ranks; r++) {
        p->probed += probed[r];
    }
    xsmi_advance(ctx, rows - some);
    return XSM_OK;
}

xsm_status xsmi_shared_run(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    xsm_context *ctx = p->context;
    const uint32_t ranks = xsmi_ranks(ctx);
    const size_t rows = (size_t)to->batch->count;
    uint64_t *probed = xsmi_allocate(ctx, ranks, sizeof *probed);
    xsmi_shared *arrays = xsmi_allocate(ctx, ranks, ARRAYS * sizeof *arrays);
    xsm_status status =
        probed && arrays ? XSM_OK : xsmi_fail_memory(err, ranks * ARRAYS * sizeof *arrays, "a prediction");
    status = xsmi_agree(ctx, status, err);
    for (size_t first = 0; first < rows && status == XSM_OK; first += SHARED_ROWS) {
        const size_t rest = rows - first, some = XSMI_MIN(rest, SHARED_ROWS);
        xsm_batch batch;
        const xsm_prediction part = slice_of(to, first, some, p->top, &batch);
        status = xsmi_batch_fetch(&batch, 0, some, err);
        status = status == XSM_OK ? run_rows(p, &part, probed, arrays, err) : status;
    }
    xsmi_release(ctx, arrays, ranks, ARRAYS * sizeof *arrays);
    xsmi_release(ctx, probed, ranks, sizeof *probed);
    return status;
}
