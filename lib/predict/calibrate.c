/*
 * Fits a model's calibration: the temperature of Guo et al. (On calibration of modern neural networks, 2017), or for
 * several labels a row the two numbers of Platt (1999), by the least log-loss over the scores of all classes, or
 * of those that a search in label trees finds.
 *
 * A pass over the rows is in calibrate_rows.c or calibrate_trees.c.
 */
#include "predict/calibrate.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/held.h"
#include "base/order.h"
#include "predict/calibrate_rows.h"

#include <math.h>
#include <string.h>

/* Binary logarithms of the ratio of neighbouring factors in the first pass and in the last, after which the polynomial
 * through five points gives the minimum to about five digits. */
#define FIRST_RATIO 1.0
#define LAST_RATIO 0.0625
/* A log-loss that float32 scores cannot tell from zero. */
#define LOSS_LEAST 1e-7
/* Golden sections, which reach the precision of a double. */
enum { SECTIONS = 40 };
/* Newton's method: passes at most. */
enum { NEWTON_PASSES = 60 };

/* Scores all rows at the job's points and sets *out to the means over the rows. */
static xsm_status pass(xsmi_calibrate_job *job, xsmi_calibrate_sums *out, xsm_error *err)
{
    XSMI_TRY(xsmi_run_ranges(job->context, job->way->run, job, job->rows, XSMI_CALIBRATE_ROWS, err));
    *out = (xsmi_calibrate_sums){.failed = UINT64_MAX};
    for (size_t i = 0; i < job->jobs; i++) {
        const xsmi_calibrate_sums *p = &job->partials[i];
        for (size_t n = 0; n < sizeof out->sums / sizeof *out->sums; n++) {
            out->sums[n] += p->sums[n];
        }
        for (size_t n = 0; n < XSMI_POINTS * XSMI_BINS; n++) {
            out->gap[n / XSMI_BINS][n % XSMI_BINS] += p->gap[n / XSMI_BINS][n % XSMI_BINS];
        }
        out->labelled += p->labelled;
        out->weight += p->weight;
        out->rows += p->rows;
        out->failed = XSMI_MIN(p->failed, out->failed);
    }
    if (out->failed != UINT64_MAX) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED, "row %llu has scores that are not finite: the model has diverged",
                         (unsigned long long)out->failed);
    }
    if (out->rows == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "none of the %llu rows has a label that the model knows",
                         (unsigned long long)job->rows);
    }
    if (!(out->weight > 0 && out->weight < INFINITY)) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "the weights of the %llu rows with a known label add up to %g; a sum above 0 is accepted",
                         (unsigned long long)out->rows, out->weight);
    }
    for (size_t n = 0; n < sizeof out->sums / sizeof *out->sums; n++) {
        out->sums[n] /= out->weight;
    }
    return XSM_OK;
}

/* -- one number ---------------------------------------------------------------------------------------------------- */

static xsm_status fail_unbounded(xsm_error *err, double scale)
{
    return xsmi_fail(err, XSM_ERROR_DATA,
                     "the log-loss still falls at a scale of %g: no scale is the best one for these rows; rows are "
                     "needed that are not all right, and not as good as drawn by chance",
                     scale);
}

/* Returns the best point; of equal ones that nearest to the middle. */
static int best_of(const double *f)
{
    int best = XSMI_STEPS;
    for (int step = 1; step <= XSMI_STEPS; step++) {
        best = f[XSMI_STEPS - step] < f[best] ? XSMI_STEPS - step : best;
        best = f[XSMI_STEPS + step] < f[best] ? XSMI_STEPS + step : best;
    }
    return best;
}

/* Returns the value at x of the polynomial through five values at 0, 1, ..., 4 (Newton's forward differences). */
static double polynomial(const double *f, double x)
{
    double differences[5], sum = 0, product = 1;
    memcpy(differences, f, sizeof differences);
    for (int order = 0; order < 5; order++) {
        sum += differences[0] * product;
        product *= (x - order) / (order + 1);
        for (int i = 0; i < 4 - order; i++) {
            differences[i] = differences[i + 1] - differences[i];
        }
    }
    return sum;
}

/* Returns where that polynomial is least between the neighbours of a point, by golden sections; *least gets the
 * value. */
static double interpolate(const double *f, int point, double *least)
{
    const double share = (sqrt(5) - 1) / 2;
    const int first = XSMI_CLAMP(point - 2, 0, XSMI_POINTS - 5);
    double low = point - 1 - first, high = point + 1 - first;
    for (int i = 0; i < SECTIONS; i++) {
        const double a = high - share * (high - low), b = low + share * (high - low);
        if (polynomial(f + first, a) <= polynomial(f + first, b)) {
            high = b;
        } else {
            low = a;
        }
    }
    *least = polynomial(f + first, (low + high) / 2);
    return first + (low + high) / 2;
}

/* Whether there is nothing to interpolate: at an end, or if all scores of each row are equal. */
static bool is_flat(const double *f, int best)
{
    return best == 0 || best == XSMI_POINTS - 1 || (f[best - 1] == f[best] && f[best + 1] == f[best]);
}

_Static_assert((int)XSMI_CALIBRATE_FACTORS == (int)XSMI_POINTS, "the factors of a pass");

double xsmi_calibrate_least(const double *losses)
{
    double least;
    const int best = best_of(losses);
    const double at = is_flat(losses, best) ? best : interpolate(losses, best, &least);
    return exp2((at - XSMI_STEPS) * FIRST_RATIO / 2);
}

/* Finds the minimum of the log-loss, which has a single one, over the logarithm of the factor: it is bracketed between
 * neighbours in ever finer grids, then taken from the polynomial through the points around it. */
static xsm_status fit_temperature(xsmi_calibrate_job *job, double *once, xsm_calibrate_result *r, xsm_error *err)
{
    job->pass = XSMI_PASS_FACTORS;
    double middle = 0, ratio = once ? FIRST_RATIO / 2 : FIRST_RATIO;
    for (;;) {
        xsmi_calibrate_sums sums;
        for (int i = 0; i < XSMI_POINTS; i++) {
            job->points[i] = (float)exp2(middle + (i - XSMI_STEPS) * ratio);
        }
        XSMI_TRY(pass(job, &sums, err));
        const double *f = sums.sums;
        r->log_loss_before = r->passes == 0 ? f[XSMI_STEPS] : r->log_loss_before;
        r->rows = sums.rows;
        r->passes++;
        if (once) {
            memcpy(once, f, sizeof sums.sums);
        }
        const int best = best_of(f);
        middle += (best - XSMI_STEPS) * ratio;
        if (f[best] < LOSS_LEAST) {
            return fail_unbounded(err, exp2(middle));
        }
        if (best == 0 || best == XSMI_POINTS - 1) {
            if (!once && (exp2(middle) <= XSMI_CALIBRATION_LEAST || exp2(middle) >= XSMI_CALIBRATION_MOST)) {
                return fail_unbounded(err, exp2(middle));
            }
            if (!once) {
                continue;
            }
        }
        if (!once && ratio > LAST_RATIO) {
            ratio /= XSMI_STEPS;
            continue;
        }
        const bool flat = is_flat(f, best);
        const double at = flat ? best : interpolate(f, best, &r->log_loss);
        r->log_loss = flat ? f[best] : r->log_loss;
        r->scale = (double)(float)exp2(middle + (at - best) * ratio);
        const int start = flat ? best : XSMI_CLAMP(best - 2, 0, XSMI_POINTS - 5); /* as in interpolate() */
        for (uint64_t i = 0; job->each && i < job->rows; i++) {
            const double *losses = job->losses[i] + start;
            job->each[i].log_loss = flat ? *losses : polynomial(losses, at - start);
        }
        return XSM_OK;
    }
}

/* -- two numbers --------------------------------------------------------------------------------------------------- */

static xsm_status pass_branches(void *state, double at[2], double out[XSMI_PLATT_SUMS], xsm_error *err)
{
    xsmi_calibrate_job *job = state;
    xsmi_calibrate_sums sums;
    at[0] = xsmi_as_float(at[0]);
    at[1] = xsmi_as_float(at[1]);
    job->points[0] = (float)at[0];
    job->shifts[0] = (float)at[1];
    XSMI_TRY(pass(job, &sums, err));
    memcpy(out, sums.sums, XSMI_PLATT_SUMS * sizeof *out);
    job->labelled = sums.rows;
    return XSM_OK;
}

static xsm_status fit_labels(xsmi_calibrate_job *job, xsm_calibrate_result *r, xsm_error *err)
{
    double at[2] = {1, 0}, sums[XSMI_PLATT_SUMS];
    const xsmi_platt platt = {pass_branches, job, XSMI_CALIBRATION_LEAST, XSMI_CALIBRATION_MOST, NEWTON_PASSES};
    job->pass = XSMI_PASS_BRANCHES;
    XSMI_TRY(xsmi_platt_fit(&platt, at, sums, &r->log_loss_before, &r->passes, err));
    if (sums[XSMI_LOSS] < LOSS_LEAST || at[0] < 2 * XSMI_CALIBRATION_LEAST || at[0] > XSMI_CALIBRATION_MOST / 2 ||
        r->passes >= NEWTON_PASSES) {
        return fail_unbounded(err, at[0]);
    }
    r->rows = job->labelled;
    r->scale = at[0];
    r->shift = at[1];
    r->log_loss = sums[XSMI_LOSS];
    return XSM_OK;
}

/* -- label trees --------------------------------------------------------------------------------------------------- */

static double calibration_error(const xsmi_calibrate_sums *s, int point)
{
    double sum = 0;
    for (size_t b = 0; b < XSMI_BINS; b++) {
        sum += fabs(s->gap[point][b]);
    }
    return sum / s->labelled;
}

/* Goes from no calibration towards the fitted numbers only as far as the calibration error of the best class does not
 * rise. The log-loss falls all the way, but other classes take part in it, and rows of unknown labels do not. */
static xsm_status stop_where_worse(xsmi_calibrate_job *job, xsm_calibrate_result *r, xsm_error *err)
{
    const bool factor = job->method == XSM_CALIBRATION_TEMPERATURE;
    xsmi_calibrate_sums sums;
    for (int i = 0; i < XSMI_POINTS; i++) {
        const double share = (double)i / (XSMI_POINTS - 1);
        job->points[i] = (float)(factor ? pow(r->scale, share) : 1 + share * (r->scale - 1));
        job->shifts[i] = (float)(share * r->shift + 0.0); /* no -0 */
    }
    job->pass = XSMI_PASS_JUDGE;
    XSMI_TRY(pass(job, &sums, err));
    const double before = calibration_error(&sums, 0);
    int best = XSMI_POINTS - 1;
    while (best > 0 && !(calibration_error(&sums, best) <= before && sums.sums[best] <= sums.sums[0])) {
        best--;
    }
    r->passes++;
    r->log_loss_before = sums.sums[0];
    r->log_loss = sums.sums[best];
    r->scale = (double)job->points[best];
    r->shift = (double)job->shifts[best];
    return XSM_OK;
}

/* -- public -------------------------------------------------------------------------------------------------------- */

static xsm_status fit(xsmi_calibrate_job *job, double *once, xsm_calibrate_result *r, xsm_error *err)
{
    const size_t threads = xsmi_context_threads(job->context);
    job->scratch_each = job->way->scratch(job);
    job->jobs = (size_t)((job->rows + XSMI_CALIBRATE_ROWS - 1) / XSMI_CALIBRATE_ROWS);
    xsmi_held held = {.context = job->context};
    job->partials = xsmi_hold(&held, job->jobs, sizeof *job->partials);
    job->scratch = xsmi_hold(&held, threads, job->scratch_each);
    job->losses = job->each ? xsmi_hold(&held, job->rows, sizeof *job->losses) : NULL;
    xsm_status status = xsmi_held_check(&held, "a calibration", err);
    if (status == XSM_OK) {
        status = job->method == XSM_CALIBRATION_LABELS ? fit_labels(job, r, err) : fit_temperature(job, once, r, err);
    }
    if (status == XSM_OK && job->way->judges && job->way->judges(job)) {
        status = stop_where_worse(job, r, err);
    }
    xsmi_held_release(&held);
    return status;
}

xsm_status xsmi_calibrate(xsm_context *ctx, const xsm_model *model, const xsm_dataset *rows, int32_t method,
                          uint64_t most, double *once, xsmi_row_outcome *each, xsm_calibrate_result *r, xsm_error *err)
{
    xsmi_calibrate_job job = {
        .context = ctx, .model = model, .dataset = rows, .rows = rows->rows, .method = method, .each = each};
    job.way = xsmi_model_beam(model, 0) ? &xsmi_calibrate_searched : &xsmi_calibrate_all;
    job.rows = most > 0 ? XSMI_MIN(most, job.rows) : job.rows;
    if (method == XSM_CALIBRATION_AUTO) {
        const bool by_label = rows->counted.labels > rows->rows || xsmi_model_link(model) == XSM_LINK_SIGMOID;
        job.method = by_label ? XSM_CALIBRATION_LABELS : XSM_CALIBRATION_TEMPERATURE;
    }
    *r = (xsm_calibrate_result){.size = sizeof *r, .method = job.method, .scale = 1};
    return fit(&job, once, r, err);
}

xsm_status xsm_model_calibrate(xsm_context *context, xsm_model *model, const xsm_dataset *rows,
                               const xsm_calibrate_options *options, xsm_calibrate_result *result, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"}, {rows, "the data"});
    XSMI_TRY(xsmi_model_need_whole(model, "a calibration", err));
    xsm_calibrate_options o = XSM_CALIBRATE_OPTIONS_INIT;
    xsm_calibrate_result r = XSM_CALIBRATE_RESULT_INIT;
    XSMI_TRY(XSMI_READ(xsm_calibrate_options, &o, options, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_calibrate_options, &o, reserved, err));
    if (result) {
        /* Checks the result struct before the work. */
        XSMI_TRY(XSMI_READ(xsm_calibrate_result, &r, result, err));
    }
    if (o.method < XSM_CALIBRATION_AUTO || o.method > XSM_CALIBRATION_LABELS) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "method %d; accepted is an XSM_CALIBRATION_* value but NONE (xsm_model_set_calibration() with "
                         "NULL removes a calibration)",
                         o.method);
    }
    XSMI_TRY(xsmi_model_check_rows(model, rows, "the data", err));
    XSMI_TRY(xsmi_model_check_labels(model, rows, "the data", err));
    XSMI_TRY(xsmi_model_check_calibratable(model, o.method, err));
    xsm_context *ctx = context ? context : model->context;
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "calibrating", "rows", 0);
    XSMI_TRY(xsmi_end(&activity, xsmi_calibrate(ctx, model, rows, o.method, o.rows, NULL, NULL, &r, err), err));
    xsmi_model_put_calibration(model, (xsmi_calibration){r.method, r.scale, r.shift});
    return result ? XSMI_WRITE(xsm_calibrate_result, &r, result, err) : XSM_OK;
}
