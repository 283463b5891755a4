/*
 * Epochs over a dataset: the order of the rows, the schedule, steps, evaluation, the callback.
 */
#include "train/trainer.h"

#include "estimator/pass.h"
#include "model/divided.h"
#include "model/together.h"
#include "predict/evaluate.h"
#include "train/checkpoint_settings.h"
#include "train/window.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"
#include "base/random.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include <xsoftmax/stored_weights.h>

/* Seconds between two calls of the callback within an epoch. */
#define CALLBACK_INTERVAL 0.2
/* How many rows ahead of a single step prefetching begins, and for at most how many features of a row. For each
 * feature, two cache lines of weights are prefetched, which should fit into the L1 or L2 cache beside the
 * present row's. */
enum { ROWS_AHEAD = 3, FEATURES_AHEAD = 512 };

/* -- settings ------------------------------------------------------------------------------------------------------ */

xsm_status xsmi_trainer_check_schedule(const xsm_trainer_options *o, xsm_error *err)
{
    if (o->schedule < XSM_SCHEDULE_CONSTANT || o->schedule > XSM_SCHEDULE_INVERSE_SQRT) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "schedule %d is none of XSM_SCHEDULE_*", o->schedule);
    }
    if (!(o->factor >= 0 && o->factor <= 1)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "the schedule's factor is %g; accepted is above 0 and up to 1",
                         o->factor);
    }
    if (o->order != XSM_ORDER_SHUFFLE && o->order != XSM_ORDER_FILE) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "order %d is none of XSM_ORDER_*", o->order);
    }
    return XSM_OK;
}

xsm_status xsmi_trainer_read_options(const xsm_trainer_options *given, const xsm_estimator *e, xsm_trainer_options *o,
                                     xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_trainer_options, o, given, err));
    o->epochs = o->epochs ? o->epochs : XSMI_DEFAULT(xsm_trainer_options, epochs);
    o->batch = o->batch ? o->batch : XSMI_DEFAULT(xsm_trainer_options, batch);
    o->eta = o->eta == 0 ? XSMI_DEFAULT(xsm_trainer_options, eta) : o->eta;
    o->factor = o->factor == 0 ? XSMI_DEFAULT(xsm_trainer_options, factor) : o->factor;
    o->evaluate_top = o->evaluate_top ? o->evaluate_top : XSMI_DEFAULT(xsm_trainer_options, evaluate_top);
    if (o->evaluate_top > XSM_TOP_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "evaluate_top is %u; accepted is 1 to %d", o->evaluate_top, XSM_TOP_MAX);
    }
    XSMI_TRY(xsmi_check_evaluate_train(o->evaluate_train, err));
    XSMI_TRY(xsmi_check_eta(o->eta, err));
    XSMI_TRY(xsmi_trainer_check_schedule(o, err));
    uint64_t limit = e->ops.batch_limit;
    if (limit && o->batch > limit) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' takes batches of %llu at most, not %llu",
                         e->ops.name, (unsigned long long)limit, (unsigned long long)o->batch);
    }
    return XSM_OK;
}

static double eta_at(xsm_trainer *t, uint64_t epoch, uint64_t rows_done)
{
    const xsm_trainer_options *o = &t->options;
    if (o->schedule == XSM_SCHEDULE_CONSTANT) {
        return o->eta;
    }
    double passes = t->schedule.stretch * ((double)epoch + (double)rows_done / (double)t->rows);
    switch (o->schedule) {
    case XSM_SCHEDULE_STEP:
        if (!(passes >= t->schedule.decayed && passes < t->schedule.decayed + 1)) { /* one power a pass, not a step */
            t->schedule.decayed = floor(passes);
            t->schedule.decay = pow(o->factor, t->schedule.decayed);
        }
        return fmax(o->eta * t->schedule.decay, fmin(o->eta, DBL_MIN)); /* above 0 after any number of epochs */
    case XSM_SCHEDULE_INVERSE:
        return o->eta / (1 + passes);
    case XSM_SCHEDULE_INVERSE_SQRT:
        return o->eta / sqrt(1 + passes);
    default:
        return o->eta;
    }
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static xsm_status new_trainer(xsm_context *context, xsm_model *model, const xsm_dataset *train,
                              xsm_estimator *estimator, xsm_optimizer *optimizer, const xsm_trainer_options *options,
                              xsm_trainer **out, xsm_error *err)
{
    XSMI_TRY(xsmi_need(
        "xsm_trainer_new",
        XSMI_GIVEN({train, "the data"}, {estimator, "the estimator"}, {optimizer, "the optimizer"}, {out, "out"}),
        err));
    xsm_trainer_options o = XSM_TRAINER_OPTIONS_INIT;
    XSMI_TRY(xsmi_trainer_read_options(options, estimator, &o, err));
    XSMI_TRY(xsmi_trainer_agree(model, &o, err));
    XSMI_TRY(o.test ? xsmi_together_rows(model, o.test, false, err) : XSM_OK); /* otherwise done by an evaluation */
    XSMI_TRY(xsmi_model_check_rows(model, o.test, "the test rows", err));
    XSMI_TRY(xsmi_model_check_labels(model, o.test, "the test rows", err));
    XSMI_TRY(xsm_estimator_bind(estimator, model, train, err));
    XSMI_TRY(o.order == XSM_ORDER_SHUFFLE ? xsmi_together_order(model, train, err) : XSM_OK);
    XSMI_TRY(xsmi_estimator_check_eta(estimator, o.eta, err));
    estimator->fixed_batches = xsmi_estimator_is_joint(estimator, o.batch);
    XSMI_TRY(estimator->fixed_batches ? xsmi_estimator_check_joint(estimator, err) : XSM_OK);
    xsmi_model_take_head(model, estimator->head);
    XSMI_TRY(xsmi_optimizer_check(optimizer, (estimator->ops.flags & XSM_ESTIMATOR_PROXIMAL) != 0,
                                  estimator->decay_rate > 0, estimator->row_bound > 0, err));
    XSMI_TRY(xsm_model_set_layout(model, xsmi_estimator_layout(estimator), err));
    XSMI_TRY(xsm_optimizer_bind(optimizer, model, err));
    xsm_trainer *t;
    XSMI_TRY(XSMI_OBJECT_NEW(context, &t, xsm_trainer, "a trainer", err));
    xsm_context *ctx = t->context;
    t->model = xsmi_model_retain(model);
    t->train = xsmi_dataset_retain(train);
    t->estimator = xsmi_estimator_retain(estimator);
    t->optimizer = xsmi_optimizer_retain(optimizer);
    t->options = o;
    t->options.test = xsmi_dataset_retain(o.test);
    t->rows = train->rows;
    t->schedule.stretch = t->schedule.decay = 1;
    t->sequence.ahead = UINT64_MAX;
    t->report.interval = CALLBACK_INTERVAL;
    t->layout = model->w.layout;
    t->shape = model->shape;
    t->edits = train->edits;
    xsm_status status = XSM_OK;
    if (o.evaluate_every > 0 && o.evaluate_train) {
        status = xsmi_metrics_new(ctx, o.evaluate_top, &t->report.train, err);
    }
    if (status == XSM_OK && o.evaluate_every > 0 && o.test) {
        status = xsmi_metrics_new(ctx, o.evaluate_top, &t->report.test, err);
    }
    t->held.context = ctx;
    t->sequence.now = xsmi_hold(&t->held, train->rows, sizeof *t->sequence.now);
    status = status == XSM_OK ? xsmi_held_check(&t->held, "the order of the rows", err) : status;
    if (status == XSM_OK && o.batch == 1 && xsmi_window_fits(estimator, model)) {
        status = xsmi_window_new(ctx, estimator, optimizer, &t->window, err);
        if (status == XSM_OK) {
            t->window_steps = xsmi_window_steps(t->window);
            t->etas = xsmi_hold(&t->held, t->window_steps, sizeof *t->etas);
            status = xsmi_held_check(&t->held, "a window of steps", err);
        }
        if (status == XSM_OK && o.epochs > 1 && xsmi_window_threads(t->window) > 1) {
            t->sequence.next = xsmi_hold(&t->held, train->rows, sizeof *t->sequence.next);
            status = xsmi_held_check(&t->held, "the order of the rows", err);
        }
    } else if (status == XSM_OK) {
        status = xsm_gradient_new(ctx, &t->gradient, err);
    }
    if (status != XSM_OK) {
        xsm_trainer_free(t);
        return status;
    }
    *out = t;
    return XSM_OK;
}

xsm_status xsm_trainer_new(xsm_context *context, xsm_model *model, const xsm_dataset *train, xsm_estimator *estimator,
                           xsm_optimizer *optimizer, const xsm_trainer_options *options, xsm_trainer **out,
                           xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"});
    xsm_trainer *t = NULL;
    const xsm_status status = XSMI_TOGETHER(
        model,
        xsmi_together(model, new_trainer(context, model, train, estimator, optimizer, options, out ? &t : NULL, err),
                      err),
        err);
    if (status != XSM_OK) {
        xsm_trainer_free(t);
        return status;
    }
    *out = t;
    return XSM_OK;
}

void xsm_trainer_free(xsm_trainer *t)
{
    if (t && t->running) {
        t->freed = true;
    } else if (t) {
        xsm_context *ctx = t->context;
        xsmi_window_free(t->window);
        xsm_gradient_free(t->gradient);
        xsmi_held_release(&t->held);
        xsmi_metrics_free(ctx, &t->report.train);
        xsmi_metrics_free(ctx, &t->report.test);
        xsmi_dataset_release(t->options.test);
        xsm_optimizer_free(t->optimizer);
        xsm_estimator_free(t->estimator);
        xsmi_dataset_release(t->train);
        xsm_model_free(t->model);
        XSMI_OBJECT_FREE(t, xsm_trainer);
    }
}

/* -- progress ------------------------------------------------------------------------------------------------------ */

static uint64_t steps_per_epoch(const xsm_trainer *t)
{
    return t->rows / t->options.batch + (t->rows % t->options.batch != 0);
}

/* Returns the mean weight of the rows. */
static double mean_weight(const xsm_trainer *t)
{
    const xsm_dataset *d = t->estimator->train;
    return d && d->weights ? d->total_weight / (double)d->rows : 1;
}

static xsm_progress progress_of(const xsm_trainer *t)
{
    xsm_progress p;
    memset(&p, 0, sizeof p);
    p.size = sizeof p;
    p.epoch = t->done.epoch;
    p.epochs = t->options.epochs;
    p.step = t->done.steps;
    p.steps = t->options.epochs * steps_per_epoch(t);
    p.examples = t->done.examples;
    p.eta = t->done.eta;
    p.seconds = t->done.seconds;
    uint64_t rows = t->report.pending ? t->rows : t->done.rows;
    p.loss = rows ? t->done.loss_sum / ((double)rows * mean_weight(t)) : (double)NAN;
    p.epoch_ended = t->report.pending;
    p.objective = p.gradient_norm = (double)NAN;
    return p;
}

void xsmi_trainer_stretch(xsm_trainer *t, double stretch)
{
    t->schedule.stretch = stretch;
}

double xsmi_trainer_active(const xsm_trainer *t)
{
    return (t->estimator->exact || t->estimator->search.searcher) && t->done.examples > 0
               ? t->done.active / (double)t->done.examples
               : 1;
}

bool xsmi_trainer_mark(xsm_trainer *t, uint64_t *marks)
{
    t->marks = t->window && xsmi_window_can_mark(t->window) ? marks : NULL;
    return t->marks != NULL;
}

xsm_status xsm_trainer_get_progress(const xsm_trainer *t, xsm_progress *progress, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {t, "the trainer"});
    xsm_progress p = progress_of(t);
    return XSMI_WRITE(xsm_progress, &p, progress, err);
}

/* Calls the callback; returns true if it asks to stop. */
static bool report(xsm_trainer *t, const xsm_metrics *train, const xsm_metrics *test)
{
    if (!t->options.progress) {
        return false;
    }
    xsm_progress p = progress_of(t);
    p.train = train;
    p.test = test;
    bool stop;
    t->report.running = true;
    XSMI_CALL_HOST(stop = t->options.progress(t->options.progress_user, &p) != 0 || t->freed);
    t->report.running = false;
    t->report.last_call = xsmi_seconds();
    return stop;
}

/* -- running ------------------------------------------------------------------------------------------------------- */

/* Shuffles runs of `each` rows as wholes; an incomplete run stays at the end. */
static void shuffle_batches(uint64_t *rows, uint64_t count, uint64_t each, xsmi_stream *stream)
{
    for (uint64_t n = count / each; n > 1; n--) {
        uint64_t *a = rows + (n - 1) * each, *b = rows + xsmi_stream_below(stream, n) * each;
        for (uint64_t i = 0; i < each; i++) {
            uint64_t saved = a[i];
            a[i] = b[i];
            b[i] = saved;
        }
    }
}

/* Computes the order of the rows in an epoch. */
static xsm_status order_rows(const xsm_trainer *t, uint64_t epoch, uint64_t *order, xsm_error *err)
{
    /* An estimator with joint batches has the batches of the first epoch in every epoch. */
    bool fixed = xsmi_estimator_is_joint(t->estimator, t->options.batch);
    for (uint64_t i = 0; i < t->rows; i++) {
        order[i] = i;
    }
    if (t->options.order == XSM_ORDER_SHUFFLE) {
        xsmi_stream stream;
        xsmi_stream_start(&stream, t->options.seed, XSMI_STREAM_SHUFFLE, fixed ? 0 : epoch);
        XSMI_TRY(xsmi_dataset_order(t->train, &stream, order, err));
        if (fixed && epoch > 0) {
            xsmi_stream_start(&stream, t->options.seed, XSMI_STREAM_SHUFFLE, epoch);
            shuffle_batches(order, t->rows, t->options.batch, &stream);
        }
    }
    return XSM_OK;
}

/* Computes the order of the next epoch while the last window of this one runs. */
static void order_ahead(void *state)
{
    xsm_trainer *t = state;
    if (order_rows(t, t->done.epoch + 1, t->sequence.next, NULL) == XSM_OK) {
        t->sequence.ahead = t->done.epoch + 1;
    }
}

xsm_status xsmi_trainer_order_rows(xsm_trainer *t, xsm_error *err)
{
    if (t->sequence.ahead == t->done.epoch) {
        uint64_t *known = t->sequence.next;
        t->sequence.next = t->sequence.now;
        t->sequence.now = known;
    } else {
        XSMI_TRY(order_rows(t, t->done.epoch, t->sequence.now, err));
    }
    t->sequence.ahead = UINT64_MAX;
    t->sequence.ready = true;
    t->done.loss_sum = 0;
    return XSM_OK;
}

static xsm_status diverged(const xsm_trainer *t, uint64_t step, double eta, xsm_error *err)
{
    XSMI_TRY(xsmi_estimator_check_draws(t->estimator, err));
    return xsmi_fail(err, XSM_ERROR_DIVERGED,
                     "training diverged at step %llu (epoch %llu) with estimator '%s': scores or coefficients are no "
                     "longer finite; try a smaller learning rate than %g, unit-length rows, or a ridge",
                     (unsigned long long)step, (unsigned long long)t->done.epoch + 1, t->estimator->ops.name, eta);
}

/* Counts rows of the epoch, and the steps that used them. */
static void count_steps(xsm_trainer *t, uint64_t rows, uint64_t steps)
{
    t->done.rows += rows;
    t->done.examples += rows;
    t->done.steps += steps;
}

/* Takes a window of steps. */
static xsm_status advance_window(xsm_trainer *t, xsm_error *err)
{
    const uint64_t left = t->rows - t->done.rows;
    xsmi_window_rows now = {t->sequence.now + t->done.rows, t->etas, XSMI_MIN(left, t->window_steps), NULL, NULL};
    xsmi_window_rows next = {now.rows + now.count, NULL, XSMI_MIN(left - now.count, t->window_steps), NULL, NULL};
    if (next.count == 0 && t->sequence.next && t->done.epoch + 1 < t->options.epochs) {
        next = (xsmi_window_rows){t->sequence.next, NULL, XSMI_MIN(t->rows, t->window_steps), order_ahead, t};
    }
    for (uint64_t s = 0; s < now.count; s++) {
        t->etas[s] = eta_at(t, t->done.epoch, t->done.rows + s);
    }
    xsmi_together_begin(t->model); /* no step of the window has been taken */
    uint64_t failed;
    xsmi_activity shield;
    xsmi_shield(&shield, t->context); /* the steps of a window end in any order, so it is not cancelled */
    xsm_status status = xsmi_window_run(t->window, &now, &next, &t->done.loss_sum, &failed, err);
    xsmi_unshield(&shield);
    /* The steps after the failed one are not counted, even if they were taken. */
    const bool taken = failed != UINT64_MAX && failed > 0;
    if (taken && (status == XSM_ERROR_MEMORY || status == XSM_ERROR_RUNNER)) {
        xsmi_together_lose(t->model);
    }
    if (t->marks) {
        xsmi_window_mark(t->window, now.count, t->marks);
    }
    if (status == XSM_ERROR_DIVERGED) {
        count_steps(t, failed, failed);
        t->done.eta = t->etas[failed];
        return diverged(t, t->done.steps, t->done.eta, err);
    }
    XSMI_TRY(status);
    t->done.eta = t->etas[now.count - 1];
    xsmi_dataset_passed(t->train, t->done.rows, now.count);
    count_steps(t, now.count, now.count);
    return XSM_OK;
}

/* Prefetches the rows and weights of the next single steps while the present step changes its weights. Otherwise each
 * step would wait for its row, and then for the weights of one feature after another. */
static void prefetch_rows(const xsm_trainer *t)
{
    const xsm_dataset *d = t->train;
    const xsmi_weights *w = xsmi_model_feature_lines(t->model);
    const uint64_t *rows = t->sequence.now + t->done.rows, left = t->rows - t->done.rows;
    if (t->options.batch > 1 || !d->sparse || !w || left <= ROWS_AHEAD) {
        return;
    }
    const uint64_t last = rows[ROWS_AHEAD], middle = rows[ROWS_AHEAD - 1];
    __builtin_prefetch(d->offsets + last, 0, 3);
    __builtin_prefetch(d->label_offsets + last, 0, 3);
    const xsmi_features later = xsmi_dataset_features(d, middle), next = xsmi_dataset_features(d, rows[1]);
    __builtin_prefetch(d->labels + d->label_offsets[middle], 0, 3);
    for (size_t i = 0; i < XSMI_MIN(later.count, FEATURES_AHEAD); i += XSMI_LINE) {
        __builtin_prefetch(later.values + i, 0, 3);
        __builtin_prefetch(later.index + i, 0, 3);
    }
    const size_t second = XSMI_MIN(w->stride - 1, XSMI_LINE);
    for (size_t i = 0; i < XSMI_MIN(next.count, FEATURES_AHEAD); i++) {
        const float *weights = w->weight + next.index[i] * w->stride;
        __builtin_prefetch(weights, 1, 3);
        __builtin_prefetch(weights + second, 1, 3);
    }
}

/* Takes a step with one batch. */
static xsm_status advance_batch(xsm_trainer *t, xsm_error *err)
{
    const uint64_t count = XSMI_MIN(t->rows - t->done.rows, t->options.batch);
    xsm_batch batch = xsm_batch_rows(t->train, t->sequence.now + t->done.rows, count);
    double eta = eta_at(t, t->done.epoch, t->done.rows);
    xsmi_activity shield;
    /* A cancelled step is taken again, so its gradient must then be the same. A small step is not cancelled. */
    const bool changes = xsmi_estimator_changes(t->estimator);
    const bool whole = t->estimator->sampling.follows || count < XSMI_UNDO_ROWS;
    if (changes) {
        xsmi_shield(&shield, t->context);
    }
    xsm_status status = xsmi_estimator_step_gradient(t->estimator, &batch, eta, t->gradient, err);
    if (!changes && whole) {
        xsmi_shield(&shield, t->context);
    }
    if (status == XSM_OK) {
        prefetch_rows(t);
        status = xsmi_optimizer_apply(t->optimizer, &batch, t->gradient, eta, err);
        t->estimator->position -= status == XSM_CANCELLED ? count : 0; /* so that the same gradient is computed again */
    }
    if (changes || whole) {
        xsmi_unshield(&shield);
    }
    if (status == XSM_ERROR_DIVERGED) {
        return diverged(t, t->done.steps, eta, err);
    }
    XSMI_TRY(status);
    t->done.loss_sum += t->gradient->loss * (double)count;
    t->done.active += xsmi_gradient_density(t->gradient);
    t->done.eta = eta;
    xsmi_dataset_passed(t->train, t->done.rows, count);
    count_steps(t, count, 1);
    return XSM_OK;
}

/* Ends an epoch: evaluates if that is due, and calls the callback. *stop is its answer. */
static xsm_status end_epoch(xsm_trainer *t, bool *stop, xsm_error *err)
{
    const xsm_trainer_options *o = &t->options;
    bool evaluate = o->evaluate_every > 0 && (t->done.epoch % o->evaluate_every == 0 || t->done.epoch == o->epochs);
    const xsm_metrics *train = NULL, *test = NULL;
    if (evaluate && o->evaluate_train) {
        XSMI_TRY(xsmi_evaluate_train(t->context, t->model, t->train, o->evaluate_train, t->done.seconds,
                                     &t->report.sample, &t->report.train, err));
        train = &t->report.train;
    }
    if (evaluate && o->test) {
        XSMI_TRY(xsm_evaluate(t->context, t->model, o->test, NULL, &t->report.test, err));
        test = &t->report.test;
    }
    *stop = report(t, train, test);
    t->report.pending = false;
    return XSM_OK;
}

xsm_status xsmi_trainer_check(const xsm_trainer *t, xsm_error *err)
{
    const xsm_estimator *e = t->estimator;
    if (e->model != t->model || e->train != t->train || e->labels_alone || e->shape != t->shape ||
        t->model->shape != t->shape || e->edits != t->edits || t->train->edits != t->edits ||
        xsmi_optimizer_model(t->optimizer) != t->model || (!t->optimizer->whole && t->optimizer->shape != t->shape)) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the estimator, the optimizer, the model's classes, features or geometry, or the data are no "
                         "longer what the trainer was made with");
    }
    XSMI_TRY(xsmi_model_need_together(t->model, "training", err));
    return xsmi_estimator_check_rows_kept(e, err);
}

/* Checks that the run can go on. On a divided model, the processes agree on that before an epoch begins and before it
 * ends, where evaluations and callbacks follow. Within an epoch, a process that cannot go on, or whose last step or
 * callback ended the run, takes part in the first agreement of the others' next step; before it, a step changes
 * nothing. */
static xsm_status check_go_on(xsm_trainer *t, xsm_error *err)
{
    xsm_status status = xsmi_go_on(t->context, err);
    status =
        status == XSM_OK ? xsmi_trainer_check(t, err) : status; /* a callback may have bound or changed something */
    return t->sequence.ready ? status : xsmi_together(t->model, status, err);
}

/* Starts an epoch, takes a step or a window of steps, or ends an epoch. */
static xsm_status advance(xsm_trainer *t, xsmi_activity *activity, bool *stop, xsm_error *err)
{
    xsmi_reach(activity, t->done.steps);
    XSMI_TRY(check_go_on(t, err));
    if (t->report.pending) {
        return end_epoch(t, stop, err);
    }
    double start = xsmi_seconds();
    if (!t->sequence.ready) {
        XSMI_TRY(xsmi_trainer_order_rows(t, err));
        t->done.seconds += xsmi_seconds() - start;
        *stop = report(t, NULL, NULL);
        if (*stop) {
            return XSM_OK;
        }
        XSMI_TRY(xsmi_trainer_check(t, err));
        start = xsmi_seconds();
    }
    xsm_status status = t->window ? advance_window(t, err) : advance_batch(t, err);
    double end = xsmi_seconds();
    t->done.seconds += end - start;
    XSMI_TRY(status);
    if (t->done.rows == t->rows) {
        t->done.epoch++;
        t->done.rows = 0;
        t->sequence.ready = false;
        t->report.pending = true;
    } else if (end - t->report.last_call > t->report.interval) {
        *stop = report(t, NULL, NULL);
    }
    return XSM_OK;
}

/* Ends a step. If memory or the runner failed on a process, whose weights then have not changed although those of
 * others may have, the model is marked `apart` on all processes, even if they agree on another process's status. */
static xsm_status end_step(xsm_trainer *t, xsm_status status, xsm_error *err)
{
    return xsmi_together_end_step(t->model, status == XSM_ERROR_MEMORY || status == XSM_ERROR_RUNNER, status, err);
}

static xsm_status run(xsm_trainer *t, xsmi_activity *activity, xsm_error *err)
{
    XSMI_TRY(xsm_model_set_layout(t->model, t->layout, err));
    bool stop = false;
    while (t->report.pending || t->done.epoch < t->options.epochs) {
        xsmi_together_begin(t->model);
        xsm_status status = advance(t, activity, &stop, err);
        if (status == XSM_OK && stop) {
            status = xsmi_fail(err, XSM_CANCELLED, "stopped by the callback after %llu steps",
                               (unsigned long long)t->done.steps);
        }
        XSMI_TRY(end_step(t, status, err));
    }
    return end_step(t, xsmi_together(t->model, XSM_OK, err), err);
}

static xsm_status run_checked(xsm_trainer *t, xsm_error *err)
{
    if (t->running) {
        return xsmi_fail(err, XSM_ERROR_STATE, "xsm_trainer_run: the trainer is running: this is in its own callback");
    }
    XSMI_TRY(xsmi_trainer_check(t, err));
    xsmi_model_put_link(t->model, xsmi_estimator_link(t->estimator));
    xsmi_activity activity;
    xsmi_begin(&activity, t->context, "training", "steps", t->options.epochs * steps_per_epoch(t));
    t->running = true;
    const xsm_status status = xsmi_end(&activity, run(t, &activity, err), err);
    t->running = false;
    return status;
}

xsm_status xsm_trainer_run(xsm_trainer *t, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {t, "the trainer"});
    const xsm_status status = XSMI_TOGETHER(t->model, run_checked(t, err), err);
    if (t->freed && !t->running) {
        xsm_trainer_free(t);
    }
    return status;
}
