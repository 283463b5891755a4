/*
 * Full-batch training by libLBFGS on the whole objective. Reports its iterations, decides when it has converged and, if
 * rounding stops it before the tolerance is reached, starts it once more.
 */
#include "base/activity.h"
#include "base/entry.h"
#include "methods/registry.h"
#include "predict/evaluate.h"
#include "train/fit.h"
#include "train/objective.h"

#include <lbfgs.h>

#include <limits.h>
#include <math.h>
#include <string.h>

#include <xsoftmax/stored_weights.h>

/* libLBFGS requires vector lengths that are multiples of this. */
#define LBFGS_BLOCK 16
/* Seconds between two calls of the callback within an iteration. */
#define CALLBACK_INTERVAL 0.2
/* The number of iterations whose decrease is compared with the tolerance. */
#define WINDOW 5
/* A gradient norm, as a share of the first one, with which a fit may end if no step reduces the objective any more. */
#define SMALL_GRADIENT 1e-2
#define SMALL_GAIN 1e-3

/* The return values of an iteration's callback; libLBFGS's own codes for success are 0 to 2. */
enum { GO_ON = 0, STOP = 100 };

typedef struct fit_done {
    uint64_t iterations, evaluations, rows;
    uint64_t evaluated_at; /* the iteration */
    uint64_t rows_now;     /* of the current evaluation */
} fit_done;

/* The best point. */
typedef struct fit_point {
    double f, loss, gradient_norm, x_norm, step; /* f is over N */
} fit_point;

typedef struct fit_time {
    double started, evaluating, last_call;
} fit_time;

typedef struct fit {
    xsm_context *context;
    xsm_model *model;
    const xsm_dataset *train;
    xsm_estimator *estimator;
    xsm_fit_options options;
    xsmi_objective *objective;
    double *x;   /* [size] */
    float *kept; /* the weights and biases at the best point: libLBFGS's own point may be a trial */
    size_t size, capacity;
    fit_done done;
    fit_point best;
    fit_time time;
    double last_loss; /* of the last evaluation */
    double first_norm;
    double recent[WINDOW]; /* f of the previous iterations */
    int32_t end;
    xsmi_activity *activity;
    xsm_status status; /* what stopped the fit, or XSM_OK */
    xsm_error *err;
    xsm_metrics train_metrics, test_metrics;
    uint64_t sample; /* number of training rows evaluated, 0 before the first evaluation */
} fit;

static xsm_status read_options(const xsm_fit_options *given, xsm_fit_options *o, xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_fit_options, o, given, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_fit_options, o, reserved, err));
    o->iterations = o->iterations ? o->iterations : XSMI_DEFAULT(xsm_fit_options, iterations);
    o->tolerance = o->tolerance == XSM_DEFAULT ? XSMI_DEFAULT(xsm_fit_options, tolerance) : o->tolerance;
    o->memory = o->memory ? o->memory : XSMI_DEFAULT(xsm_fit_options, memory);
    if (!(o->tolerance >= 0 && o->tolerance < 1)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "the tolerance is %g; accepted is 0 to below 1", o->tolerance);
    }
    o->evaluate_top = o->evaluate_top ? o->evaluate_top : XSMI_DEFAULT(xsm_fit_options, evaluate_top);
    if (o->evaluate_top > XSM_TOP_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "evaluate_top is %u; accepted is 1 to %d", o->evaluate_top, XSM_TOP_MAX);
    }
    XSMI_TRY(xsmi_check_evaluate_train(o->evaluate_train, err));
    if (o->memory > 1000) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "L-BFGS is to keep %u pairs of vectors; accepted are up to 1000",
                         o->memory);
    }
    if (o->iterations > INT_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%llu iterations; accepted are up to %d",
                         (unsigned long long)o->iterations, INT_MAX);
    }
    return XSM_OK;
}

/* -- the callback -------------------------------------------------------------------------------------------------- */

static double seconds(const fit *t)
{
    return xsmi_seconds() - t->time.started - t->time.evaluating;
}

/* Calls the callback; returns true if it asks to stop. */
static bool report(fit *t, bool ended, const xsm_metrics *train, const xsm_metrics *test)
{
    if (!t->options.progress) {
        return false;
    }
    double rows = (double)t->train->rows;
    xsm_progress p;
    memset(&p, 0, sizeof p);
    p.size = sizeof p;
    p.epoch = p.step = t->done.iterations;
    p.epochs = p.steps = t->options.iterations;
    p.examples = t->done.rows + t->done.rows_now;
    p.eta = t->best.step;
    p.seconds = seconds(t);
    p.loss = t->best.loss / t->train->total_weight;
    p.epoch_ended = ended;
    p.train = train;
    p.test = test;
    p.objective = t->best.f * rows;
    p.gradient_norm = t->best.gradient_norm * rows;
    double since = xsmi_seconds();
    bool stop;
    XSMI_CALL_HOST(stop = t->options.progress(t->options.progress_user, &p) != 0);
    t->time.last_call = xsmi_seconds();
    t->time.evaluating += t->time.last_call - since;
    return stop;
}

static xsm_status evaluate(fit *t, const xsm_metrics **train, const xsm_metrics **test, xsm_error *err)
{
    double since = xsmi_seconds();
    xsm_status status = XSM_OK;
    if (t->options.evaluate_train) {
        status = xsmi_evaluate_train(t->context, t->model, t->train, t->options.evaluate_train, seconds(t), &t->sample,
                                     &t->train_metrics, err);
        *train = &t->train_metrics;
    }
    if (status == XSM_OK && t->options.test) {
        status = xsm_evaluate(t->context, t->model, t->options.test, NULL, &t->test_metrics, err);
        *test = &t->test_metrics;
    }
    t->time.evaluating += xsmi_seconds() - since;
    t->done.evaluated_at = t->done.iterations;
    return status;
}

static xsm_status fail_stopped(const fit *t, xsm_error *err)
{
    return xsmi_fail(err, XSM_CANCELLED, "stopped by the callback after %llu iterations",
                     (unsigned long long)t->done.iterations);
}

/* Ends an iteration, whose weights are in the model. */
static void end_iteration(fit *t, bool last)
{
    const xsm_metrics *train = NULL, *test = NULL;
    uint64_t every = t->options.evaluate_every;
    if (every > 0 && (last || t->done.iterations % every == 0)) {
        t->status = evaluate(t, &train, &test, t->err);
    }
    if (t->status == XSM_OK && report(t, true, train, test) && !last) {
        t->status = fail_stopped(t, t->err);
    }
}

static xsm_status pause_evaluation(void *user, uint64_t rows, xsm_error *err)
{
    fit *t = user;
    t->done.rows_now = rows;
    const bool stops = xsmi_seconds() - t->time.last_call > CALLBACK_INTERVAL && report(t, false, NULL, NULL);
    return stops ? fail_stopped(t, err) : XSM_OK;
}

/* -- the best point ------------------------------------------------------------------------------------------------ */

static size_t best_floats(const fit *t)
{
    return t->model->w.weight_count + (t->model->w.bias ? t->model->classes : 0);
}

static void keep_best(fit *t)
{
    const xsm_model *m = t->model;
    memcpy(t->kept, m->w.weight, m->w.weight_count * sizeof *t->kept);
    if (m->w.bias) {
        memcpy(t->kept + m->w.weight_count, m->w.bias, m->classes * sizeof *t->kept);
    }
}

static void restore_best(const fit *t)
{
    const xsm_model *m = t->model;
    memcpy(m->w.weight, t->kept, m->w.weight_count * sizeof *t->kept);
    if (m->w.bias) {
        memcpy(m->w.bias, t->kept + m->w.weight_count, m->classes * sizeof *t->kept);
    }
}

/* -- callbacks of libLBFGS ----------------------------------------------------------------------------------------- */

static lbfgsfloatval_t evaluate_objective(void *user, const lbfgsfloatval_t *x, lbfgsfloatval_t *gradient, const int n,
                                          const lbfgsfloatval_t step)
{
    fit *t = user;
    double f = INFINITY;
    (void)step;
    if (t->status == XSM_OK) {
        t->status = xsmi_objective_at(t->objective, x, &f, &t->last_loss, gradient, t->err);
        t->done.rows += t->done.rows_now;
        t->done.rows_now = 0;
        t->done.evaluations++;
    }
    if (t->status != XSM_OK) {
        /* A line search cannot be stopped from here. This makes it succeed at once, and the iteration then ends the
         * run. */
        memset(gradient, 0, (size_t)n * sizeof *gradient);
        return -INFINITY;
    }
    for (size_t i = t->size; i < (size_t)n; i++) {
        gradient[i] = 0;
    }
    if (t->done.evaluations == 1) {
        double squares = 0;
        for (size_t i = 0; i < t->size; i++) {
            squares += gradient[i] * gradient[i];
        }
        t->best.f = f;
        t->best.loss = t->last_loss;
        t->best.gradient_norm = t->first_norm = sqrt(squares);
    }
    return f;
}

/* Whether f has stopped decreasing, or its distance to the minimum is known to be small. */
static bool converged(const fit *t, double before)
{
    double enough = t->options.tolerance * fabs(t->best.f);
    double ridge = t->estimator->common.ridge / (double)t->train->rows;
    bool bounded =
        ridge > 0 && !t->model->w.bias && t->best.gradient_norm * t->best.gradient_norm / (2 * ridge) <= enough;
    return bounded || t->best.gradient_norm == 0 || before - t->best.f <= enough;
}

static int on_iteration(void *user, const lbfgsfloatval_t *x, const lbfgsfloatval_t *gradient, const lbfgsfloatval_t f,
                        const lbfgsfloatval_t x_norm, const lbfgsfloatval_t gradient_norm, const lbfgsfloatval_t step,
                        int n, int iteration, int evaluations)
{
    fit *t = user;
    (void)x;
    (void)gradient;
    (void)n;
    (void)iteration;
    (void)evaluations;
    if (t->status != XSM_OK) {
        return STOP;
    }
    keep_best(t);
    xsmi_reach(t->activity, t->done.iterations + 1);
    double *slot = &t->recent[t->done.iterations % WINDOW], before = *slot;
    *slot = f;
    t->done.iterations++;
    t->best.f = f;
    t->best.loss = t->last_loss;
    t->best.x_norm = x_norm;
    t->best.gradient_norm = gradient_norm;
    t->best.step = step;
    /* `before` is f of WINDOW iterations ago, and undefined in the first iterations. */
    t->end = converged(t, t->done.iterations > WINDOW ? before : INFINITY) ? XSM_FIT_CONVERGED
             : t->done.iterations >= t->options.iterations                 ? XSM_FIT_ITERATIONS
                                                                           : XSM_FIT_UNFINISHED;
    end_iteration(t, t->end != XSM_FIT_UNFINISHED);
    return t->status != XSM_OK || t->end != XSM_FIT_UNFINISHED ? STOP : GO_ON;
}

/* -- running ------------------------------------------------------------------------------------------------------- */

/* Whether the gradient is as small as rounding allows near a minimum. */
static bool stationary(const fit *t)
{
    bool fell = t->done.iterations > 0 && t->best.gradient_norm <= SMALL_GRADIENT * t->first_norm;
    /* Or changing every weight by as much as it has changed would reduce f by little. */
    return fell || t->best.gradient_norm * (1 + t->best.x_norm) <= SMALL_GAIN * fabs(t->best.f);
}

/* Runs libLBFGS until it ends for a reason that another start would not remove. */
static xsm_status minimise(fit *t, xsm_error *err)
{
    lbfgs_parameter_t parameters;
    lbfgs_parameter_init(&parameters);
    parameters.m = (int)t->options.memory;
    /* A share of the weights' mean, as the gradient is: f is over N. */
    parameters.epsilon = 1e-14 * fmin(1, t->train->total_weight / (double)t->train->rows);
    parameters.max_linesearch = 20;
    parameters.max_iterations = 0;
    for (;;) {
        uint64_t before = t->done.iterations;
        double f;
        int code = lbfgs((int)t->capacity, t->x, &f, evaluate_objective, on_iteration, t, &parameters);
        if (t->status != XSM_OK || t->end != XSM_FIT_UNFINISHED) {
            return t->status;
        }
        if (code == LBFGSERR_OUTOFMEMORY) {
            return xsmi_fail_memory(err, (2 * (size_t)t->options.memory + 3) * t->capacity * sizeof(double),
                                    "L-BFGS's vectors");
        }
        if (code == LBFGS_SUCCESS || code == LBFGS_ALREADY_MINIMIZED) {
            t->end = XSM_FIT_CONVERGED;
            return XSM_OK;
        }
        /* The line search found no better point. Rounding may have spoilt the stored pairs of L-BFGS: starts again
         * along the gradient. */
        if (t->done.iterations == before) {
            break;
        }
    }
    if (stationary(t)) {
        t->end = XSM_FIT_PRECISION;
        return XSM_OK;
    }
    return xsmi_fail(err, XSM_ERROR_DIVERGED,
                     "after %llu iterations no step along the gradient (norm %.3g) lowers the objective (%.6g); "
                     "estimator '%s' must be smooth and its coefficients its gradient; unit-length rows or a larger "
                     "ridge may help",
                     (unsigned long long)t->done.iterations, t->best.gradient_norm * (double)t->train->rows,
                     t->best.f * (double)t->train->rows, t->estimator->ops.name);
}

static void explain(const fit *t, xsm_status status, xsm_error *err)
{
    if (status == XSM_ERROR_DIVERGED && t->status == XSM_ERROR_DIVERGED) {
        (void)xsmi_fail(err, status,
                        "scores or losses of estimator '%s' left the finite numbers after %llu iterations; try "
                        "unit-length rows or a larger ridge",
                        t->estimator->ops.name, (unsigned long long)t->done.iterations);
    }
}

xsm_status xsmi_fit_check(xsm_error *err)
{
    (void)err;
    return XSM_OK;
}

/* Allocates memory and runs the fit. */
static xsm_status run(fit *t, xsm_error *err)
{
    XSMI_TRY(xsmi_objective_new(t->context, t->model, t->train, t->estimator, &t->objective, err));
    xsmi_objective_set_pause(t->objective, pause_evaluation, t);
    t->size = xsmi_objective_size(t->objective);
    if (t->size > INT_MAX - LBFGS_BLOCK) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%zu weights; L-BFGS takes up to %d", t->size, INT_MAX - LBFGS_BLOCK);
    }
    t->capacity = (t->size + LBFGS_BLOCK - 1) / LBFGS_BLOCK * LBFGS_BLOCK;
    XSMI_TRY(xsmi_zeros_new(t->context, &t->x, t->capacity, sizeof *t->x, "the parameters", err));
    XSMI_TRY(xsmi_array_new(t->context, &t->kept, best_floats(t), sizeof *t->kept, "the best weights", err));
    XSMI_TRY(xsmi_objective_read(t->objective, t->x, err));
    keep_best(t);
    xsm_status status = t->status = report(t, false, NULL, NULL) ? fail_stopped(t, err) : XSM_OK;
    if (status == XSM_OK) {
        status = minimise(t, err);
        /* The last point tried need not be the best one. */
        restore_best(t);
    }
    if (status == XSM_OK && t->end == XSM_FIT_PRECISION) {
        if (t->options.evaluate_every > 0 && t->done.evaluated_at != t->done.iterations) {
            end_iteration(t, true);
        }
        status = t->status;
    }
    explain(t, status, err);
    return status;
}

/* Gives the weights the layout that suits the estimator, memory of their own, and scales of 1. */
static xsm_status prepare_weights(const fit *t, xsm_error *err)
{
    xsm_parameters parameters = XSM_PARAMETERS_INIT;
    XSMI_TRY(xsm_model_set_layout(t->model, xsmi_estimator_layout(t->estimator), err));
    XSMI_TRY(xsm_model_get_parameters(t->model, &parameters, err));
    xsmi_model_put_link(t->model, xsmi_estimator_link(t->estimator));
    return XSM_OK;
}

xsm_status xsm_fit_full_batch(xsm_context *context, xsm_model *model, const xsm_dataset *train,
                              xsm_estimator *estimator, const xsm_fit_options *options, xsm_fit_result *result,
                              xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"}, {train, "the data"}, {estimator, "the estimator"});
    XSMI_TRY(xsmi_context_need_alone(model->context, "a fit of all rows at once (L-BFGS)", err));
    XSMI_TRY(xsmi_model_need_no_layer(model, "a fit of all rows at once (L-BFGS)", err));
    XSMI_TRY(xsmi_model_need_linear(model, "a fit of all rows at once (L-BFGS)", err));
    fit t = {.model = model, .train = train, .estimator = estimator, .err = err};
    t.options = (xsm_fit_options)XSM_FIT_OPTIONS_INIT;
    XSMI_TRY(read_options(options, &t.options, err));
    xsm_fit_result r = XSM_FIT_RESULT_INIT;
    if (result) {
        /* Checks the result struct before the work. */
        XSMI_TRY(XSMI_READ(xsm_fit_result, &r, result, err));
    }
    XSMI_TRY(xsmi_model_check_rows(model, t.options.test, "the test rows", err));
    XSMI_TRY(xsmi_model_check_labels(model, t.options.test, "the test rows", err));
    XSMI_TRY(xsm_estimator_bind(estimator, model, train, err));
    XSMI_TRY(xsmi_estimator_check_full(estimator, err));
    XSMI_TRY(prepare_weights(&t, err));
    XSMI_TRY(xsmi_context_acquire(context, &t.context, err));
    t.best.f = t.best.loss = t.best.gradient_norm = t.first_norm = (double)NAN;
    t.time.started = t.time.last_call = xsmi_seconds();
    const bool evaluates = t.options.evaluate_every > 0;
    xsm_status status = XSM_OK;
    if (evaluates && t.options.evaluate_train) {
        status = xsmi_metrics_new(t.context, t.options.evaluate_top, &t.train_metrics, err);
    }
    if (status == XSM_OK && evaluates && t.options.test) {
        status = xsmi_metrics_new(t.context, t.options.evaluate_top, &t.test_metrics, err);
    }
    if (status == XSM_OK) {
        xsmi_activity activity;
        xsmi_begin(&activity, t.context, "training", "iterations", 0);
        t.activity = &activity;
        status = xsmi_end(&activity, run(&t, err), err);
    }
    r.iterations = t.done.iterations;
    r.evaluations = t.done.evaluations;
    r.objective = t.best.f * (double)train->rows;
    r.loss = t.best.loss;
    r.gradient_norm = t.best.gradient_norm * (double)train->rows;
    r.seconds = seconds(&t);
    r.end = status == XSM_OK ? t.end : XSM_FIT_UNFINISHED;
    xsmi_objective_free(t.objective);
    xsmi_release(t.context, t.x, t.capacity, sizeof *t.x);
    xsmi_release(t.context, t.kept, best_floats(&t), sizeof *t.kept);
    xsmi_metrics_free(t.context, &t.train_metrics);
    xsmi_metrics_free(t.context, &t.test_metrics);
    xsm_context_free(t.context);
    if (result && (status == XSM_OK || status == XSM_CANCELLED || status == XSM_ERROR_DIVERGED)) {
        (void)XSMI_WRITE(xsm_fit_result, &r, result, NULL);
    }
    return status;
}
