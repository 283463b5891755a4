/*
 * Runs trials: makes the trainer, ends it at the deadline, when the callback asks, or when held-back rows stop
 * improving, judges the model, and cleans up.
 */
#include "auto/trial.h"
#include "base/activity.h"
#include "estimator/divided.h"
#include "predict/calibrate.h"

#include <xsoftmax/fit.h>
#include <xsoftmax/label_tree.h>

#include <math.h>
#include <string.h>

/* The option by which estimators that sample can score all classes, by its word "all". */
#define NEGATIVES "negatives"
/* Rows whose own loss is computed in one call. */
enum { LOSS_ROWS = 32 };

/* -- judging ------------------------------------------------------------------------------------------------------- */

/* Nothing could be measured. */
static const xsmi_measured unmeasured = {(double)INFINITY, (double)NAN, 1};

static xsm_status sum_losses(xsmi_runner *r, xsm_estimator *e, const xsm_dataset *rows, xsmi_measured *out,
                             xsm_error *err)
{
    uint64_t list[LOSS_ROWS], slots = 0, active = 0;
    const xsm_gradient *g = r->losses;
    double sum = 0;
    XSMI_TRY(xsm_estimator_bind(e, r->model, rows, err));
    /* A gradient of a rank's classes alone; none of it is idle. */
    const bool part = xsmi_divided_has_sums(e, r->model);
    if (e->search.searcher) {
        xsmi_searcher_set_startup(e->search.searcher, 0);
    }
    for (uint64_t first = 0; first < rows->rows; first += LOSS_ROWS) {
        uint64_t count = 0;
        for (; count < LOSS_ROWS && first + count < rows->rows; count++) {
            list[count] = first + count;
        }
        xsm_batch batch = xsm_batch_rows(rows, list, count);
        XSMI_TRY(xsm_estimator_gradient(e, &batch, 1, r->losses, err));
        sum += g->loss * (double)count;
        slots += count * g->width;
        active += part ? count * g->width : xsmi_gradient_count(g, true);
    }
    *out = unmeasured;
    out->loss = sum / (double)rows->rows;
    out->active = (double)active / (double)slots;
    return XSM_OK;
}

/* Whether the estimator has an option `negatives` with the word "all"; a host's may mean something else by it. */
static bool can_sum_all(const xsm_estimator *e)
{
    const xsm_option *option;
    for (size_t i = 0; (option = xsm_estimator_ops_option(&e->ops, i)); i++) {
        for (size_t w = 0; strcmp(option->name, NEGATIVES) == 0 && option->choices && option->choices[w]; w++) {
            if (strcmp(option->choices[w], "all") == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The mean of the estimator's own loss. If it samples its sum over the classes, the full sum is used: a few classes of
 * each row do not measure a model whose losses are in few classes. */
static xsm_status own_loss(xsmi_runner *r, xsm_estimator *e, const xsm_dataset *rows, xsmi_measured *out,
                           xsm_error *err)
{
    char negatives[32];
    XSMI_TRY(r->losses ? XSM_OK : xsm_gradient_new(r->context, &r->losses, err));
    xsmi_estimator_unbind(e);
    const bool sampled = can_sum_all(e) && xsm_estimator_get(e, NEGATIVES, negatives, sizeof negatives) != SIZE_MAX;
    xsm_status status = sampled ? xsm_estimator_set(e, NEGATIVES, "all", err) : XSM_OK;
    status = status == XSM_OK ? sum_losses(r, e, rows, out, err) : status;
    xsmi_estimator_unbind(e);
    if (sampled) {
        (void)xsm_estimator_set(e, NEGATIVES, negatives, NULL);
    }
    return status;
}

/* The length of the lists of best classes that a judge uses. */
static uint32_t top_of(const xsmi_runner *r, xsmi_judge judge)
{
    return judge == XSMI_JUDGE_LOG_LOSS || judge == XSMI_JUDGE_CALIBRATED ? 1 : r->top;
}

static xsmi_measured measured_by(xsmi_judge judge, const xsm_metrics *m)
{
    const uint32_t last = m->top - 1;
    const double loss = judge == XSMI_JUDGE_RANKING     ? 1 - m->ndcg[last]
                        : judge == XSMI_JUDGE_PRECISION ? 1 - m->precision[last]
                        : judge == XSMI_JUDGE_HITS      ? 1 - m->hits[last]
                        : judge == XSMI_JUDGE_MRR       ? 1 - m->reciprocal_rank[last]
                                                        : m->log_loss;
    xsmi_measured measured = unmeasured;
    measured.loss = isfinite(loss) ? loss : (double)INFINITY;
    measured.precision = m->precision[0];
    return measured;
}

/* Calibrates for the log-loss, and P@1 unless `precision` is NULL. *done is false, and the loss as it was, if no scale
 * is the best one, or scores are not finite. */
static xsm_status try_calibration(const xsmi_runner *r, const xsm_dataset *rows, int32_t method, double *precision,
                                  double *loss, bool *done, xsm_error *err)
{
    xsm_calibrate_result result;
    xsm_error inner = XSM_ERROR_INIT;
    const xsm_status status = xsmi_calibrate(r->context, r->model, rows, method, 0, true, precision, &result, &inner);
    *done = status == XSM_OK;
    if (status != XSM_OK && status != XSM_ERROR_DATA && status != XSM_ERROR_DIVERGED) {
        return xsmi_fail_copy(err, &inner);
    }
    *loss = *done ? result.log_loss : *loss;
    return XSM_OK;
}

/* Measures the log-loss after calibration. Where no calibration is the best one it stays as it is. */
static xsm_status calibrated(const xsmi_runner *r, const xsm_dataset *rows, xsmi_measured *out, xsm_error *err)
{
    bool done;
    if (!isfinite(out->loss) || r->model->hierarchy || r->model->trees) { /* label trees are calibrated as they are */
        return XSM_OK;
    }
    /* By the rows alone, so that methods with other links are compared by the same loss. */
    const int32_t method = rows->counted.labels > rows->rows ? XSM_CALIBRATION_LABELS : XSM_CALIBRATION_TEMPERATURE;
    return try_calibration(r, rows, method, NULL, &out->loss, &done, err);
}

/* Whether a calibration gives all that is needed, the log-loss and P@1, so that rows are scored once: it does for one
 * label a row, where the softmax is over all classes and they are not divided among ranks. */
static bool calibrates_alone(const xsmi_runner *r, xsmi_judge judge, const xsm_dataset *rows)
{
    return judge == XSMI_JUDGE_CALIBRATED && rows && rows->counted.labels <= rows->rows && !r->group &&
           !r->model->hierarchy && !r->model->trees;
}

static xsm_status metrics_of(xsmi_runner *r, xsmi_judge judge, const xsm_dataset *rows, xsmi_measured *out,
                             xsm_error *err)
{
    double measures[4][XSMI_JUDGE_TOP];
    const bool alone = calibrates_alone(r, judge, rows);
    bool done = false;
    if (alone) {
        *out = unmeasured;
        XSMI_TRY(try_calibration(r, rows, XSM_CALIBRATION_TEMPERATURE, &out->precision, &out->loss, &done, err));
    }
    if (done) {
        return XSM_OK;
    }
    xsm_metrics metrics = XSM_METRICS_INIT;
    metrics.top = top_of(r, judge);
    metrics.precision = measures[0];
    metrics.ndcg = measures[1];
    metrics.hits = measures[2];
    metrics.reciprocal_rank = measures[3];
    r->scratch.context = r->context;
    XSMI_TRY(xsmi_evaluate(r->model, rows, NULL, &r->scratch, &metrics, err));
    *out = measured_by(judge, &metrics);
    return judge == XSMI_JUDGE_CALIBRATED && !alone ? calibrated(r, rows, out, err) : XSM_OK;
}

xsm_status xsmi_runner_judge(xsmi_runner *r, xsm_estimator *e, xsmi_judge judge, const xsm_dataset *rows,
                             xsmi_measured *out, xsm_error *err)
{
    xsm_error inner = XSM_ERROR_INIT;
    *out = unmeasured;
    xsm_status status =
        judge == XSMI_JUDGE_OWN ? own_loss(r, e, rows, out, &inner) : metrics_of(r, judge, rows, out, &inner);
    if (status != XSM_OK && status != XSM_ERROR_DIVERGED) {
        xsmi_fail_copy(err, &inner);
        return status;
    }
    if (r->group) {
        xsmi_agree_begin(r->group); /* a failure that is none for the search */
    }
    return XSM_OK;
}

/* -- running ------------------------------------------------------------------------------------------------------- */

bool xsmi_runner_late(const xsmi_runner *r)
{
    return r->elapsed > r->deadline;
}

xsm_status xsmi_runner_share(const xsmi_runner *r, xsm_status status, void *data, size_t bytes, xsm_error *err)
{
    if (!r->group) {
        return status;
    }
    XSMI_TRY(xsmi_agree(r->group, status, err));
    return xsmi_exchange_copy(r->group, data, bytes, 0, err);
}

xsm_status xsmi_runner_look(xsmi_runner *r, xsm_error *err)
{
    if (isinf(r->deadline)) {
        return XSM_OK;
    }
    r->elapsed = xsmi_seconds() - r->began;
    return xsmi_runner_share(r, XSM_OK, &r->elapsed, sizeof r->elapsed, err);
}

/* Judges the model after an epoch, which the trainer has evaluated unless a calibration is enough. */
static xsm_status judge_epoch(xsmi_auto_trial *t, const xsm_metrics *metrics, xsmi_measured *now)
{
    if (!metrics) {
        return metrics_of(t->runner, t->judge, t->held_back, now, &t->error);
    }
    *now = measured_by(t->judge, metrics);
    return t->judge == XSMI_JUDGE_CALIBRATED ? calibrated(t->runner, t->held_back, now, &t->error) : XSM_OK;
}

/* Called by the trainer and by lbfgs. Both a non-zero answer of the runner's callback and our own reasons to end the
 * trial cancel the run; `stopped` tells them apart. */
static int32_t on_progress(void *user, const xsm_progress *p)
{
    xsmi_auto_trial *t = user;
    xsmi_auto_outcome *out = &t->outcome;
    if (p->epoch_ended && t->held_back && t->setting.optimizer) {
        xsmi_measured now;
        t->judged = judge_epoch(t, p->test, &now);
        if (t->judged != XSM_OK) {
            return 1;
        }
        out->epochs = p->epoch;
        if (p->epoch <= XSMI_CURVE) {
            out->curve[p->epoch - 1] = now.loss;
        }
        if (now.loss < out->held_back.loss) {
            out->held_back = now;
            out->best_epoch = p->epoch;
        }
        const bool hopeless = t->hopeless && t->hopeless(t->runner->user, p->epoch, now.loss);
        if (hopeless || p->epoch >= out->best_epoch + t->budget.patience) {
            return 1;
        }
    }
    t->stopped = t->runner->progress && t->runner->progress(t->runner->user, p) != 0;
    const xsmi_runner *r = t->runner;
    const bool own_clock = !r->group || xsmi_rank(r->group) == 0;
    out->late = own_clock && xsmi_seconds() - r->began > r->deadline;
    return t->stopped || out->late;
}

static xsm_status run_steps(xsmi_auto_trial *t, xsm_error *err)
{
    xsm_progress end;
    end.size = sizeof end;
    xsm_status status = xsm_trainer_run(t->trainer, err);
    if (status == XSM_CANCELLED && t->judged == XSM_ERROR_DIVERGED) { /* as the trainer's own evaluation would end it */
        t->judged = XSM_OK;
        status = XSM_ERROR_DIVERGED;
    }
    (void)xsm_trainer_get_progress(t->trainer, &end, NULL);
    t->outcome.examples = end.examples;
    t->outcome.seconds = end.seconds;
    t->outcome.active = xsmi_trainer_active(t->trainer);
    return status;
}

static xsm_status start_steps(xsmi_auto_trial *t, xsm_error *err)
{
    xsmi_runner *r = t->runner;
    xsm_estimator *e = t->setting.estimator;
    xsm_trainer_options o = t->setting.run;
    o.epochs = t->budget.epochs;
    const bool alone = e->ops.kind != XSM_ESTIMATOR_HIERARCHY && calibrates_alone(r, t->judge, t->held_back);
    o.test = alone ? NULL : t->held_back;
    o.evaluate_every = o.test != NULL;
    o.evaluate_train = 0;
    o.evaluate_top = top_of(t->runner, t->judge);
    o.progress = on_progress;
    o.progress_user = t;
    XSMI_TRY(xsm_trainer_new(r->context, r->model, t->rows, e, t->setting.optimizer, &o, &t->trainer, err));
    if (e->search.searcher && t->budget.startup != UINT64_MAX) {
        xsmi_searcher_set_startup(e->search.searcher, t->budget.startup);
    }
    xsmi_trainer_stretch(t->trainer, t->budget.stretch);
    t->outcome.marked = t->budget.marked && xsmi_trainer_mark(t->trainer, r->marks);
    return run_steps(t, err);
}

/* Why a run that was cancelled ends the search as well; XSM_OK: it ends this trial alone. */
static xsm_status why_cancelled(const xsmi_auto_trial *t, xsm_error *err)
{
    const xsmi_runner *r = t->runner;
    if (xsmi_is_cancelled(r->context)) {
        return xsmi_fail_cancelled(r->context, err);
    }
    if (t->judged != XSM_OK) {
        return xsmi_fail_copy(err, &t->error);
    }
    return t->stopped ? xsmi_fail(err, XSM_CANCELLED, "%s was stopped by the callback", r->purpose) : XSM_OK;
}

static xsm_status run_fit(xsmi_auto_trial *t, xsm_error *err)
{
    xsmi_runner *r = t->runner;
    xsmi_auto_outcome *out = &t->outcome;
    xsm_fit_options o = XSM_FIT_OPTIONS_INIT;
    xsm_fit_result result = XSM_FIT_RESULT_INIT;
    o.iterations = t->budget.epochs;
    o.tolerance = t->budget.tolerance;
    o.progress = on_progress;
    o.progress_user = t;
    xsm_status status = xsm_fit_full_batch(r->context, r->model, t->rows, t->setting.estimator, &o, &result, err);
    out->examples = result.evaluations * t->rows->rows;
    out->seconds = result.seconds;
    if (status == XSM_CANCELLED) {
        status = why_cancelled(t, err);
        status = r->group ? xsmi_agree(r->group, status, err) : status;
    }
    if (status == XSM_OK) {
        status = xsmi_runner_judge(r, t->setting.estimator, t->judge, t->held_back, &out->held_back, err);
        out->epochs = result.iterations;
        out->best_epoch = isfinite(out->held_back.loss) ? result.iterations : 0;
    }
    return status;
}

/* What a run's status is for the search, and for all ranks. */
static xsm_status settle(xsmi_auto_trial *t, xsm_status status, xsm_error *inner, xsm_error *err)
{
    const xsmi_runner *r = t->runner;
    xsmi_auto_outcome *out = &t->outcome;
    status = r->group ? xsmi_agree_once(r->group, status, inner) : status;
    if (status != XSM_OK && status != XSM_CANCELLED && status != XSM_ERROR_DIVERGED) {
        xsmi_fail_copy(err, inner);
        return status;
    }
    if (r->group && status == XSM_CANCELLED && t->judged != XSM_OK) {
        return xsmi_fail_copy(err, &t->error); /* on all ranks, which have agreed on it */
    }
    struct {
        double seconds;
        uint64_t late;
    } first = {out->seconds, out->late}; /* rank 0's */
    XSMI_TRY(xsmi_runner_share(r, status == XSM_CANCELLED ? why_cancelled(t, err) : XSM_OK, &first, sizeof first, err));
    out->seconds = first.seconds;
    out->late = first.late != 0;
    if (status == XSM_ERROR_DIVERGED) {
        out->diverged = true;
        out->held_back.loss = (double)INFINITY;
        out->best_epoch = 0;
        return XSM_OK;
    }
    xsmi_advance(r->context, t->counted ? 0 : 1);
    t->counted = true;
    return XSM_OK;
}

/* Before a run: nothing has come of it. */
static void clear(xsmi_auto_trial *t)
{
    t->counted = false;
    t->judged = XSM_OK;
    t->error = (xsm_error)XSM_ERROR_INIT;
    t->outcome = (xsmi_auto_outcome){.held_back = unmeasured, .active = 1};
}

xsm_status xsmi_auto_run(xsmi_auto_trial *t, xsm_error *err)
{
    xsm_error inner = XSM_ERROR_INIT;
    clear(t);
    t->setting.estimator->common.ridge = t->setting.ridge;
    xsm_status status = t->setting.optimizer ? start_steps(t, &inner) : run_fit(t, &inner);
    return settle(t, status, &inner, err);
}

xsm_status xsmi_auto_continue(xsmi_auto_trial *t, uint64_t epochs, xsm_error *err)
{
    if (t->outcome.diverged || t->outcome.late) {
        return XSM_OK;
    }
    xsm_error inner = XSM_ERROR_INIT;
    t->budget.epochs = epochs;
    xsmi_trainer_extend(t->trainer, epochs);
    return settle(t, run_steps(t, &inner), &inner, err);
}

/* Calls the runner's callback about a tree; a failure, on all ranks, if one of them is to stop. */
static xsm_status go_on(xsmi_auto_trial *t, xsm_error *err)
{
    xsmi_runner *r = t->runner;
    const xsm_progress progress = {.size = sizeof progress};
    t->stopped = r->progress && r->progress(r->user, &progress) != 0;
    const xsm_status status =
        t->stopped ? xsmi_fail(err, XSM_CANCELLED, "%s was stopped by the callback", r->purpose) : XSM_OK;
    return r->group ? xsmi_agree(r->group, status, err) : status;
}

xsm_status xsmi_auto_run_tree(xsmi_auto_trial *t, const xsm_label_tree_options *tree, xsm_error *err)
{
    xsmi_runner *r = t->runner;
    xsmi_auto_outcome *out = &t->outcome;
    xsm_error inner = XSM_ERROR_INIT;
    xsm_model *fitted = NULL, *kept = r->model;
    const double began = xsmi_seconds();
    clear(t);
    xsm_status status = go_on(t, &inner);
    status = status == XSM_OK ? xsm_fit_label_tree(r->context, t->rows, tree, &fitted, NULL, &inner) : status;
    if (status == XSM_OK) {
        out->seconds = xsmi_seconds() - began;
        out->examples = t->rows->rows;
        out->epochs = 1;
        r->model = fitted;
        status = xsmi_runner_judge(r, NULL, t->judge, t->held_back, &out->held_back, &inner);
        out->best_epoch = isfinite(out->held_back.loss) ? 1 : 0;
        r->model = kept;
    }
    xsm_model_free(fitted);
    status = status == XSM_OK ? go_on(t, &inner) : status;
    return settle(t, status, &inner, err);
}

void xsmi_auto_end(xsmi_auto_trial *t)
{
    xsm_trainer_free(t->trainer);
    t->trainer = NULL;
    xsmi_estimator_unbind(t->setting.estimator);
}

/* -- what trials share --------------------------------------------------------------------------------------------- */

bool xsmi_runner_need_marks(xsmi_runner *r)
{
    if (xsmi_model_is_divided(r->model)) {
        return false;
    }
    const size_t count = xsmi_model_marks(r->model) / 64 + 1;
    if (count > r->mark_count) {
        xsmi_release(r->context, r->marks, r->mark_count, sizeof *r->marks);
        r->marks = xsmi_allocate_zero(r->context, count, sizeof *r->marks);
        r->mark_count = r->marks ? count : 0;
    }
    return r->marks != NULL;
}

void xsmi_runner_free(xsmi_runner *r)
{
    xsm_gradient_free(r->losses);
    r->scratch.context = r->context;
    xsmi_evaluate_scratch_free(&r->scratch);
    xsmi_release(r->context, r->marks, r->mark_count, sizeof *r->marks);
}
