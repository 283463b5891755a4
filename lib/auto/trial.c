/*
 * Runs trials: makes the trainer, ends it at the deadline or when the callback asks, judges the model, and cleans up.
 */
#include "auto/trial.h"
#include "base/activity.h"

#include <xsoftmax/fit.h>
#include <xsoftmax/label_tree.h>

#include <math.h>
#include <string.h>

/* The option by which estimators that sample can score all classes, by its word "all". */
#define NEGATIVES "negatives"
/* Rows whose own loss is computed in one call. */
enum { LOSS_ROWS = 32 };

/* -- judging ------------------------------------------------------------------------------------------------------- */

/* The result if nothing could be measured. */
static const xsmi_measured unmeasured = {(double)INFINITY, 1};

static xsm_status sum_losses(xsmi_runner *r, xsm_estimator *e, const xsm_dataset *rows, xsmi_measured *out,
                             xsm_error *err)
{
    uint64_t list[LOSS_ROWS], slots = 0, active = 0;
    const xsm_gradient *g = r->losses;
    double sum = 0;
    XSMI_TRY(xsm_estimator_bind(e, r->model, rows, err));
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
        active += xsmi_gradient_count(g, true);
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

/* Computes the mean of the estimator's own loss. If the estimator samples its sum over the classes, uses the full sum:
 * a few classes of each row do not measure a model whose losses come from few classes. */
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

static xsm_status log_loss(xsmi_runner *r, const xsm_dataset *rows, xsmi_measured *out, xsm_error *err)
{
    xsm_metrics metrics = XSM_METRICS_INIT;
    r->scratch.context = r->context;
    XSMI_TRY(xsmi_evaluate(r->model, rows, NULL, &r->scratch, NULL, &metrics, err));
    *out = unmeasured;
    out->loss = isfinite(metrics.log_loss) ? metrics.log_loss : (double)INFINITY;
    return XSM_OK;
}

xsm_status xsmi_runner_judge(xsmi_runner *r, xsm_estimator *e, xsmi_judge judge, const xsm_dataset *rows,
                             xsmi_measured *out, xsm_error *err)
{
    xsm_error inner = XSM_ERROR_INIT;
    *out = unmeasured;
    xsm_status status = judge == XSMI_JUDGE_OWN ? own_loss(r, e, rows, out, &inner) : log_loss(r, rows, out, &inner);
    if (status != XSM_OK && status != XSM_ERROR_DIVERGED) {
        xsmi_fail_copy(err, &inner);
        return status;
    }
    return XSM_OK;
}

/* -- running ------------------------------------------------------------------------------------------------------- */

void xsmi_runner_read_clock(xsmi_runner *r)
{
    r->elapsed = isinf(r->deadline) ? r->elapsed : xsmi_seconds() - r->began;
}

/* Called by the trainer and by lbfgs. Both a non-zero answer of the runner's callback and the trial's own reasons to
 * end it cancel the run; `stopped` tells them apart. */
static int32_t on_progress(void *user, const xsm_progress *p)
{
    xsmi_auto_trial *t = user;
    xsmi_auto_outcome *out = &t->outcome;
    t->stopped = t->runner->progress && t->runner->progress(t->runner->user, p) != 0;
    const xsmi_runner *r = t->runner;
    out->late = xsmi_seconds() - r->began > r->deadline;
    return t->stopped || out->late;
}

static xsm_status run_steps(xsmi_auto_trial *t, xsm_error *err)
{
    xsm_progress end;
    end.size = sizeof end;
    xsm_status status = xsm_trainer_run(t->trainer, err);
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
    o.evaluate_train = 0;
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

/* Returns the status with which a cancelled run ends the search as well; XSM_OK if it ends only this trial. */
static xsm_status why_cancelled(const xsmi_auto_trial *t, xsm_error *err)
{
    const xsmi_runner *r = t->runner;
    if (xsmi_is_cancelled(r->context)) {
        return xsmi_fail_cancelled(r->context, err);
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
    const xsm_status status = xsm_fit_full_batch(r->context, r->model, t->rows, t->setting.estimator, &o, &result, err);
    out->examples = result.evaluations * t->rows->rows;
    out->seconds = result.seconds;
    return status;
}

/* Converts a run's status to that of the search. */
static xsm_status settle(xsmi_auto_trial *t, xsm_status status, xsm_error *inner, xsm_error *err)
{
    if (status != XSM_OK && status != XSM_CANCELLED && status != XSM_ERROR_DIVERGED) {
        xsmi_fail_copy(err, inner);
        return status;
    }
    XSMI_TRY(status == XSM_CANCELLED ? why_cancelled(t, err) : XSM_OK);
    if (status == XSM_ERROR_DIVERGED) {
        t->outcome.diverged = true;
        return XSM_OK;
    }
    xsmi_advance(t->runner->context, 1);
    return XSM_OK;
}

/* Clears the outcome before a run. */
static void clear(xsmi_auto_trial *t)
{
    t->outcome = (xsmi_auto_outcome){.active = 1};
}

xsm_status xsmi_auto_run(xsmi_auto_trial *t, xsm_error *err)
{
    xsm_error inner = XSM_ERROR_INIT;
    clear(t);
    t->setting.estimator->common.ridge = t->setting.ridge;
    xsm_status status = t->setting.optimizer ? start_steps(t, &inner) : run_fit(t, &inner);
    return settle(t, status, &inner, err);
}

/* Calls the runner's callback about a tree. */
static xsm_status go_on(xsmi_auto_trial *t, xsm_error *err)
{
    xsmi_runner *r = t->runner;
    const xsm_progress progress = {.size = sizeof progress};
    t->stopped = r->progress && r->progress(r->user, &progress) != 0;
    return t->stopped ? xsmi_fail(err, XSM_CANCELLED, "%s was stopped by the callback", r->purpose) : XSM_OK;
}

xsm_status xsmi_auto_run_tree(xsmi_auto_trial *t, const xsm_label_tree_options *tree, xsm_model **out, xsm_error *err)
{
    xsmi_runner *r = t->runner;
    xsm_error inner = XSM_ERROR_INIT;
    xsm_label_tree_result result = XSM_LABEL_TREE_RESULT_INIT;
    const double began = xsmi_seconds();
    clear(t);
    *out = NULL;
    xsm_status status = go_on(t, &inner);
    status = status == XSM_OK ? xsm_fit_label_tree(r->context, t->rows, tree, out, &result, &inner) : status;
    t->outcome.seconds = xsmi_seconds() - began;
    t->outcome.examples = t->rows->rows;
    t->outcome.bytes = result.bytes;
    status = status == XSM_OK ? go_on(t, &inner) : status;
    status = settle(t, status, &inner, err);
    if (status != XSM_OK) {
        xsm_model_free(*out);
        *out = NULL;
    }
    return status;
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
    const size_t count = xsmi_model_marks(r->model) / 64 + 1;
    if (count > r->mark_count) {
        xsmi_release(r->context, r->marks, r->mark_count, sizeof *r->marks);
        r->marks = xsmi_allocate_zero(r->context, count, sizeof *r->marks);
        r->mark_count = r->marks ? count : 0;
    }
    return r->marks != NULL;
}

xsm_status xsmi_rows_with_weight(const xsm_dataset *d, xsm_dataset **out, xsm_error *err)
{
    size_t count = 0;
    uint64_t *rows;
    *out = NULL;
    for (uint64_t i = 0; d->weights && i < d->rows; i++) {
        count += xsmi_dataset_weight(d, i) > 0;
    }
    if (count == 0 || count == d->rows) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_array_new(d->context, &rows, count, sizeof *rows, "the rows with a weight", err));
    for (uint64_t i = 0, n = 0; i < d->rows; i++) {
        if (xsmi_dataset_weight(d, i) > 0) {
            rows[n++] = i;
        }
    }
    const xsm_status status = xsm_dataset_select(d, rows, count, out, err);
    xsmi_release(d->context, rows, count, sizeof *rows);
    return status;
}

void xsmi_runner_free(xsmi_runner *r)
{
    xsm_gradient_free(r->losses);
    r->scratch.context = r->context;
    xsmi_evaluate_scratch_free(&r->scratch);
    xsmi_release(r->context, r->marks, r->mark_count, sizeof *r->marks);
}
