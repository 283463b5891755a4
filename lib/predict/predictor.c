/* Predictors as callers have them: their options and calls are checked. */
#include "predict/predict.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"
#include "model/together.h"

/* Makes a predictor without workers. The caller frees *out, also on failure. */
static xsm_status new_predictor(xsm_context *context, const xsm_model *model, const xsm_predictor_options *options,
                                xsm_predictor_options *o, xsm_predictor **out, xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_predictor_options, o, options, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_predictor_options, o, tree_alone, err));
    if (o->beam > 0 || o->tree_alone || o->shortlist) {
        XSMI_TRY(xsmi_model_need_whole(model, "a predictor with a beam or a shortlist", err));
    }
    XSMI_TRY(xsmi_predictor_check_index(model, o->index, err));
    XSMI_TRY(xsmi_shortlist_check(model, o, err));
    uint32_t top = o->top ? o->top : XSMI_DEFAULT(xsm_predictor_options, top);
    if (top > XSM_TOP_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "top is %u; accepted is 1 to %d", top, XSM_TOP_MAX);
    }
    top = XSMI_MIN(top, model->classes);
    uint32_t beam;
    XSMI_TRY(xsmi_beam_width(model, o, top, &beam, err));
    return xsmi_predictor_make(context, model, o, top, beam, out, err);
}

xsm_status xsm_predictor_new(const xsm_model *model, const xsm_predictor_options *options, xsm_predictor **out,
                             xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"}, {out, "out"});
    xsm_predictor *p = NULL;
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_status status = new_predictor(model->context, model, options, &o, &p, err);
    const xsmi_number top = XSMI_WHOLE("top", o.top);
    status = xsmi_together_numbers(model, &top, 1, status, err);
    if (status != XSM_OK) {
        xsm_predictor_free(p);
        return status;
    }
    *out = p;
    return XSM_OK;
}

xsm_status xsm_predictor_get_info(const xsm_predictor *p, xsm_predictor_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {p, "the predictor"});
    xsm_predictor_info known = XSM_PREDICTOR_INFO_INIT;
    known.probed = p->probed;
    known.top = p->top;
    return XSMI_WRITE(xsm_predictor_info, &known, info, err);
}

static xsm_status check_outputs(const xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    const size_t n = (size_t)to->batch->count, all = n * p->top;
    const size_t ends = to->allow_offsets ? n + 1 : 0, denied = to->deny_offsets ? n + 1 : 0;
    xsmi_region regions[8 + XSMI_BATCH_REGIONS] = {
        xsmi_output("classes", to->classes, all, sizeof *to->classes),
        xsmi_output("scores", to->scores, all, sizeof *to->scores),
        xsmi_output("probabilities", to->probabilities, all, sizeof *to->probabilities),
        xsmi_output("lengths", to->lengths, n, sizeof *to->lengths),
        xsmi_input("allow_offsets", to->allow_offsets, ends, sizeof *to->allow_offsets),
        xsmi_input("allow", to->allow, ends ? (size_t)to->allow_offsets[n] : 0, sizeof *to->allow),
        xsmi_input("deny_offsets", to->deny_offsets, denied, sizeof *to->deny_offsets),
        xsmi_input("deny", to->deny, denied ? (size_t)to->deny_offsets[n] : 0, sizeof *to->deny)};
    xsmi_batch_regions(to->batch, regions + 8);
    return xsmi_check_overlap("xsm_prediction", regions, 8 + XSMI_BATCH_REGIONS, err);
}

/* Reads and checks a call, and prepares it. */
static xsm_status read_call(const char *call, xsm_predictor *p, const xsm_prediction *prediction, xsm_prediction *to,
                            xsm_batch *batch, xsm_error *err)
{
    if (!prediction) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: prediction is NULL", call);
    }
    XSMI_TRY(XSMI_READ(xsm_prediction, to, prediction, err));
    if (!to->batch || !to->classes) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_prediction.%s is NULL", to->batch ? "classes" : "batch");
    }
    XSMI_TRY(xsmi_model_read_batch(p->model, to->batch, batch, err));
    to->batch = batch;
    XSMI_TRY(xsmi_filter_check(p, to, err));
    XSMI_TRY(check_outputs(p, to, err));
    if ((p->index || (p->beam > 0 && !xsmi_model_beam(p->model, p->beam))) && xsmi_predict_sums(p, to)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "probabilities need the scores of all classes, which a search is there to avoid, unless the "
                         "model is calibrated for several labels");
    }
    return xsmi_predictor_prepare(p, to, err);
}

xsm_status xsm_predictor_run(xsm_predictor *p, const xsm_prediction *prediction, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {p, "the predictor"});
    xsm_prediction to = XSM_PREDICTION_INIT;
    xsm_batch batch = {.size = sizeof batch};
    xsm_status status = read_call("xsm_predictor_run", p, prediction, &to, &batch, err);
    XSMI_TRY(xsmi_together_batch(p->model, &batch, status, err));
    xsmi_activity activity;
    xsmi_begin(&activity, p->context, "predicting", "rows", batch.count);
    status = xsmi_predictor_go(p, &to, err);
    return xsmi_end(&activity, status, err);
}

/* Predicts rows in one process, on the threads of a context, at most one for each row. */
static xsm_status predict_rows(xsm_predictor *p, const xsm_predictor_options *o, const xsm_prediction *prediction,
                               xsm_error *err)
{
    xsm_prediction to = XSM_PREDICTION_INIT;
    xsm_batch batch = {.size = sizeof batch};
    XSMI_TRY(read_call("xsm_predict", p, prediction, &to, &batch, err));
    const uint32_t threads = xsmi_context_threads(p->context);
    const uint32_t count = (uint32_t)XSMI_MIN(batch.count, threads);
    XSMI_TRY(count > 1 ? xsmi_workers_make(p, o, count, err) : XSM_OK);
    xsmi_activity activity;
    xsmi_begin(&activity, p->context, "predicting", "rows", batch.count);
    const xsm_status status = count > 1 ? xsmi_workers_run(p, &to, err) : xsmi_predictor_go(p, &to, err);
    return xsmi_end(&activity, status, err);
}

xsm_status xsm_predict(xsm_context *context, const xsm_model *model, const xsm_predictor_options *options,
                       const xsm_prediction *prediction, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"});
    xsm_predictor *p = NULL;
    xsm_status status;
    if (xsmi_model_is_divided(model)) {
        status = xsm_predictor_new(model, options, &p, err);
        status = status == XSM_OK ? xsm_predictor_run(p, prediction, err) : status;
    } else {
        xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
        status = new_predictor(context ? context : model->context, model, options, &o, &p, err);
        status = status == XSM_OK ? predict_rows(p, &o, prediction, err) : status;
    }
    xsm_predictor_free(p);
    return status;
}

/* -- rows that are divided among threads --------------------------------------------------------------------------- */

xsm_status xsmi_workers_make(xsm_predictor *p, const xsm_predictor_options *o, uint32_t count, xsm_error *err)
{
    XSMI_TRY(xsmi_zeros_new(p->context, &p->workers, count, sizeof *p->workers, "a predictor", err));
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
