/*
 * Fits a model's calibration: the temperature of Guo et al. (On calibration of modern neural networks, 2017), or for
 * several labels a row the two numbers of Platt (1999), by the least log-loss over the scores of all classes.
 *
 * The scores of a pass are never stored, so a pass computes what it needs of them at once: the log-losses at several
 * factors, or the derivatives by both numbers. Jobs have fixed rows, and their sums are added in the order of the rows,
 * so that the result does not depend on the threads.
 */
#include "predict/calibrate.h"

#include "base/activity.h"
#include "base/arena.h"
#include "base/entry.h"
#include "base/order.h"
#include "model/tiles.h"
#include "math/log_sum.h"

#include <math.h>
#include <string.h>

#define JOB_ROWS XSMI_TILE_ROWS
/* Factors of a pass: one in the middle, and STEPS on each side, which reach the neighbours of the best one before. */
enum { STEPS = 4, POINTS = 2 * STEPS + 1 };
/* Binary logarithms of the ratio of neighbours in the first pass and in the last: the polynomial through five points so
 * close has the minimum to about five digits. */
#define FIRST_RATIO 1.0
#define LAST_RATIO 0.0625
/* A log-loss that float32 scores cannot tell from zero. */
#define LOSS_LEAST 1e-7
/* Halvings of golden sections, after which nothing is left to find. */
enum { SECTIONS = 40 };
/* Newton's method: passes at most, and the fall of the log-loss, relative to it, that is worth no other pass. */
enum { NEWTON_PASSES = 60 };
#define NEWTON_GAIN 1e-9
/* Numbers by which a row's sums over classes are kept for XSM_CALIBRATION_LABELS: log-loss, its first derivatives by
 * scale and shift, and the second ones. */
enum { LOSS, BY_SCALE, BY_SHIFT, SCALE_SCALE, SCALE_SHIFT, SHIFT_SHIFT, SUMS };

typedef struct partial {
    double sums[POINTS]; /* of these SUMS for XSM_CALIBRATION_LABELS */
    uint64_t rows;
    uint64_t failed; /* first row whose scores are not finite, or UINT64_MAX */
} partial;

typedef struct calibration_job {
    xsm_context *context;
    const xsm_model *model;
    const xsm_dataset *dataset;
    uint64_t rows; /* of the sample */
    int32_t method;
    float points[POINTS]; /* factors of XSM_CALIBRATION_TEMPERATURE; scale and shift of XSM_CALIBRATION_LABELS */
    size_t jobs;
    partial *partials;      /* [jobs] */
    unsigned char *scratch; /* [threads][scratch_each] */
    size_t scratch_each;
} calibration_job;

/* One thread's scratch, and what the tiles of a job are added to. */
typedef struct job_sums {
    const calibration_job *job;
    xsmi_features *features; /* [JOB_ROWS] */
    size_t counts[XSMI_TILE_BLOCKS];
    float *max;          /* [POINTS][JOB_ROWS] of the class run */
    double *sum;         /* the same; or [SUMS][JOB_ROWS] */
    xsmi_log_sum *total; /* [POINTS][JOB_ROWS] of the class runs before */
    float *scaled;       /* tiles */
    float *code, *hidden;
    void *tiles;
} job_sums;

static job_sums divide_scratch(const calibration_job *job, xsmi_arena *arena)
{
    const xsm_model *m = job->model;
    const bool labels = job->method == XSM_CALIBRATION_LABELS;
    job_sums s = {.job = job};
    s.features = xsmi_arena_take(arena, JOB_ROWS, sizeof *s.features);
    s.max = xsmi_arena_take(arena, labels ? 0 : POINTS * JOB_ROWS, sizeof *s.max);
    s.sum = xsmi_arena_take(arena, (size_t)(labels ? SUMS : POINTS) * JOB_ROWS, sizeof *s.sum);
    s.total = xsmi_arena_take(arena, labels ? 0 : POINTS * JOB_ROWS, sizeof *s.total);
    s.scaled = xsmi_arena_take(arena, (labels ? 4 : 1) * XSMI_TILE_FLOATS, sizeof *s.scaled);
    s.code = xsmi_arena_take(arena, xsmi_correction_code(m->correction), sizeof *s.code);
    s.hidden = xsmi_arena_take(arena, m->layer ? m->features : 0, sizeof *s.hidden);
    s.tiles = xsmi_arena_take(arena, xsmi_tiles_scratch(m, job->dataset->sparse, XSMI_TILE_BLOCKS), 1);
    return s;
}

/* -- tiles --------------------------------------------------------------------------------------------------------- */

static void end_runs(const job_sums *s, size_t point, size_t position, size_t rows)
{
    for (size_t i = point * JOB_ROWS + position; i < point * JOB_ROWS + position + rows; i++) {
        const xsmi_log_sum run = {s->max[i], s->sum[i]};
        xsmi_log_sum_join(&s->total[i], &run);
        s->max[i] = -INFINITY;
        s->sum[i] = 0;
    }
}

static void add_exponentials(void *state, const xsmi_tile *tile)
{
    job_sums *s = state;
    const size_t position = tile->block * XSMI_LANES, rows = s->counts[tile->block];
    const bool ends = (tile->first + tile->count) % XSMI_RUN_CLASSES == 0;
    for (size_t p = 0; p < POINTS; p++) {
        const size_t base = p * JOB_ROWS + position;
        xsmi_add_exponentials(s->job->model->kernels, tile, rows, s->job->points[p], s->max + base, s->sum + base,
                              s->scaled);
        if (ends) {
            end_runs(s, p, tile->lanes ? position : position + tile->row, tile->lanes ? rows : 1);
        }
    }
}

/* Adds log(1 + e^s) and its derivatives, s = scale z + shift. */
static void add_branches(void *state, const xsmi_tile *tile)
{
    job_sums *s = state;
    const float scale = s->job->points[0], shift = s->job->points[1];
    const size_t count = tile->lanes ? (size_t)tile->count * XSMI_LANES : tile->count;
    const size_t step = tile->lanes ? XSMI_LANES : 1, first = tile->lanes ? 0 : tile->row;
    const size_t end = tile->lanes ? s->counts[tile->block] : tile->row + 1;
    float *z = s->scaled, *left = z + XSMI_TILE_FLOATS, *right = left + XSMI_TILE_FLOATS,
          *rest = right + XSMI_TILE_FLOATS;
    for (size_t i = 0; i < count; i++) {
        z[i] = scale * tile->scores[i] + shift;
    }
    s->job->model->kernels->logistics(z, count, left, right, rest);
    for (size_t row = first; row < end; row++) {
        double sums[SUMS] = {0};
        for (size_t at = row - first; at < count; at += step) {
            const double score = (double)tile->scores[at], p = (double)right[at], w = p * (double)left[at];
            sums[LOSS] += (double)(z[at] < 0 ? 0.0f : z[at]) + (double)rest[at]; /* NaN stays NaN */
            sums[BY_SCALE] += p * score;
            sums[BY_SHIFT] += p;
            sums[SCALE_SCALE] += w * score * score;
            sums[SCALE_SHIFT] += w * score;
            sums[SHIFT_SHIFT] += w;
        }
        for (size_t i = 0; i < SUMS; i++) {
            s->sum[i * JOB_ROWS + tile->block * XSMI_LANES + row] += sums[i];
        }
    }
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

static uint64_t row_of(const calibration_job *job, uint64_t i)
{
    return job->rows == job->dataset->rows ? i : (uint64_t)((double)i / (double)job->rows * (double)job->dataset->rows);
}

/* The sum of the scores of a row's known labels, and their number. */
static size_t sum_labels(const job_sums *s, uint64_t row, const xsmi_features *x, double *sum)
{
    const xsm_model *m = s->job->model;
    size_t count, known = 0;
    const uint32_t *labels = xsmi_dataset_labels(s->job->dataset, row, &count);
    xsmi_model_row features = {*x, *x};
    *sum = 0;
    for (size_t j = 0; j < count; j++) {
        if (labels[j] < m->classes) {
            float score;
            if (known++ == 0) {
                features.input = xsmi_model_forward(m, x, s->hidden);
            }
            xsmi_model_chosen_scores(m, &features, &labels[j], 1, &score, s->code);
            *sum += (double)score;
        }
    }
    return known;
}

/* Adds a row of a job to its sums; `target` as sum_labels() says, `known` at least 1. */
static void add_row(const job_sums *s, size_t i, double target, double known, partial *p)
{
    if (s->job->method == XSM_CALIBRATION_LABELS) {
        for (size_t n = 0; n < SUMS; n++) {
            p->sums[n] += s->sum[n * JOB_ROWS + i];
        }
        p->sums[LOSS] -= (double)s->job->points[0] * target + (double)s->job->points[1] * known;
        p->sums[BY_SCALE] -= target;
        p->sums[BY_SHIFT] -= known;
        return;
    }
    for (size_t n = 0; n < POINTS; n++) {
        const xsmi_log_sum *total = &s->total[n * JOB_ROWS + i];
        p->sums[n] += (double)total->max + log(total->sum) - (double)s->job->points[n] * (target / known);
    }
}

static void run_rows(void *state, size_t index, uint32_t thread)
{
    const calibration_job *job = state;
    const bool each = job->method == XSM_CALIBRATION_LABELS;
    xsmi_arena arena = {job->scratch + thread * job->scratch_each, 0};
    job_sums s = divide_scratch(job, &arena);
    const uint64_t first = (uint64_t)index * JOB_ROWS;
    const size_t rows = (size_t)XSMI_MIN(job->rows - first, JOB_ROWS);
    for (size_t i = 0; i < rows; i++) {
        s.features[i] = xsmi_dataset_features(job->dataset, row_of(job, first + i));
        s.counts[i / XSMI_LANES]++;
    }
    for (size_t i = 0; i < (size_t)(each ? SUMS : POINTS) * JOB_ROWS; i++) {
        s.sum[i] = 0;
        if (!each) {
            s.max[i] = -INFINITY;
            s.total[i] = (xsmi_log_sum)XSMI_LOG_SUM_INIT;
        }
    }
    const xsmi_tile_rows block = {s.features, s.counts, (rows + XSMI_LANES - 1) / XSMI_LANES, job->dataset->sparse};
    const xsmi_tile_call call = {
        job->model, &block, 0, job->model->classes, each ? add_branches : add_exponentials, &s, job->context};
    xsmi_tiles_score(&call, s.tiles);
    if (xsmi_is_cancelled(job->context)) {
        return;
    }
    partial *p = &job->partials[index];
    *p = (partial){.failed = UINT64_MAX};
    for (size_t n = 0; !each && n < POINTS; n++) {
        end_runs(&s, n, 0, rows);
    }
    for (size_t i = 0; i < rows; i++) {
        const uint64_t row = row_of(job, first + i);
        double target;
        const size_t known = sum_labels(&s, row, &s.features[i], &target);
        const double whole = each ? s.sum[i] : s.total[STEPS * JOB_ROWS + i].sum;
        if (!isfinite(target) || !isfinite(whole)) {
            p->failed = XSMI_MIN(row, p->failed);
        } else if (known > 0) {
            add_row(&s, i, target, (double)known, p);
            p->rows++;
        }
    }
    xsmi_advance(job->context, rows);
}

/* Scores all rows at the job's points; the means over the rows are in *out. */
static xsm_status pass(calibration_job *job, partial *out, xsm_error *err)
{
    XSMI_TRY(xsmi_run(job->context, run_rows, job, job->jobs, err));
    *out = (partial){.failed = UINT64_MAX};
    for (size_t i = 0; i < job->jobs; i++) {
        const partial *p = &job->partials[i];
        for (size_t n = 0; n < sizeof out->sums / sizeof *out->sums; n++) {
            out->sums[n] += p->sums[n];
        }
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
    for (size_t n = 0; n < sizeof out->sums / sizeof *out->sums; n++) {
        out->sums[n] /= (double)out->rows;
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

/* The best point; of equal ones that nearest to the middle. */
static int best_of(const double *f)
{
    int best = STEPS;
    for (int step = 1; step <= STEPS; step++) {
        best = f[STEPS - step] < f[best] ? STEPS - step : best;
        best = f[STEPS + step] < f[best] ? STEPS + step : best;
    }
    return best;
}

/* The polynomial through five values at 0, 1, ..., 4 (Newton's forward differences). */
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

/* The least value of that polynomial between the neighbours of a point, by golden sections. */
static double interpolate(const double *f, int point, double *least)
{
    const double share = (sqrt(5) - 1) / 2;
    const int first = XSMI_CLAMP(point - 2, 0, POINTS - 5);
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

/* The minimum of the log-loss over the logarithm of the factor, which has one: it is brought between two neighbours of
 * ever finer grids, and then to that of a polynomial through the points about it. */
static xsm_status fit_temperature(calibration_job *job, bool once, xsm_calibrate_result *r, xsm_error *err)
{
    double middle = 0, ratio = once ? FIRST_RATIO / 2 : FIRST_RATIO;
    for (;;) {
        partial sums;
        for (int i = 0; i < POINTS; i++) {
            job->points[i] = (float)exp2(middle + (i - STEPS) * ratio);
        }
        XSMI_TRY(pass(job, &sums, err));
        const double *f = sums.sums;
        r->log_loss_before = r->passes == 0 ? f[STEPS] : r->log_loss_before;
        r->rows = sums.rows;
        r->passes++;
        const int best = best_of(f);
        middle += (best - STEPS) * ratio;
        if (f[best] < LOSS_LEAST) {
            return fail_unbounded(err, exp2(middle));
        }
        if (best == 0 || best == POINTS - 1) {
            if (exp2(middle) <= XSMI_CALIBRATION_LEAST || exp2(middle) >= XSMI_CALIBRATION_MOST) {
                return fail_unbounded(err, exp2(middle));
            }
            continue;
        }
        if (!once && ratio > LAST_RATIO) {
            ratio /= STEPS;
            continue;
        }
        const bool flat = f[best - 1] == f[best] && f[best + 1] == f[best]; /* the scores of a row are all the same */
        const double at = flat ? best : interpolate(f, best, &r->log_loss);
        r->log_loss = flat ? f[best] : r->log_loss;
        r->scale = (double)(float)exp2(middle + (at - best) * ratio);
        return XSM_OK;
    }
}

/* -- two numbers --------------------------------------------------------------------------------------------------- */

/* Newton's method; a step that does not lower the log-loss is halved. */
static xsm_status fit_labels(calibration_job *job, xsm_calibrate_result *r, xsm_error *err)
{
    partial now, next;
    double at[2] = {1, 0};
    job->points[0] = 1;
    job->points[1] = 0;
    XSMI_TRY(pass(job, &now, err));
    r->log_loss_before = now.sums[LOSS];
    for (r->passes = 1; r->passes < NEWTON_PASSES;) {
        const double *f = now.sums;
        const double determinant = f[SCALE_SCALE] * f[SHIFT_SHIFT] - f[SCALE_SHIFT] * f[SCALE_SHIFT];
        double step[2] = {0, f[SHIFT_SHIFT] > 0 ? -f[BY_SHIFT] / f[SHIFT_SHIFT] : 0};
        if (determinant > 1e-12 * f[SCALE_SCALE] * f[SHIFT_SHIFT]) { /* else all scores are the same */
            step[0] = (f[SCALE_SHIFT] * f[BY_SHIFT] - f[SHIFT_SHIFT] * f[BY_SCALE]) / determinant;
            step[1] = (f[SCALE_SHIFT] * f[BY_SCALE] - f[SCALE_SCALE] * f[BY_SHIFT]) / determinant;
        }
        double gain = -INFINITY;
        for (double length = 1; r->passes < NEWTON_PASSES && !(gain >= 0) && length > 1e-6; length /= 2) {
            const double scale = at[0] + length * step[0];
            if (!(scale >= XSMI_CALIBRATION_LEAST && scale <= XSMI_CALIBRATION_MOST)) {
                continue;
            }
            job->points[0] = (float)scale;
            job->points[1] = (float)(at[1] + length * step[1]);
            XSMI_TRY(pass(job, &next, err));
            r->passes++;
            gain = now.sums[LOSS] - next.sums[LOSS];
        }
        if (gain >= 0) {
            at[0] = (double)job->points[0];
            at[1] = (double)job->points[1];
            now = next;
        }
        if (!(gain > NEWTON_GAIN * now.sums[LOSS])) {
            break;
        }
    }
    if (now.sums[LOSS] < LOSS_LEAST || at[0] < 2 * XSMI_CALIBRATION_LEAST || at[0] > XSMI_CALIBRATION_MOST / 2 ||
        r->passes >= NEWTON_PASSES) {
        return fail_unbounded(err, at[0]);
    }
    r->rows = now.rows;
    r->scale = at[0];
    r->shift = at[1];
    r->log_loss = now.sums[LOSS];
    return XSM_OK;
}

/* -- public -------------------------------------------------------------------------------------------------------- */

static xsm_status fit(calibration_job *job, bool once, xsm_calibrate_result *r, xsm_error *err)
{
    const size_t threads = xsmi_context_threads(job->context);
    xsmi_arena counted = {NULL, 0};
    (void)divide_scratch(job, &counted);
    job->scratch_each = counted.used;
    job->jobs = (size_t)((job->rows + JOB_ROWS - 1) / JOB_ROWS);
    job->partials = xsmi_allocate(job->context, job->jobs, sizeof *job->partials);
    job->scratch = xsmi_allocate(job->context, threads, job->scratch_each);
    xsm_status status = !job->partials || !job->scratch
                            ? xsmi_fail_memory(err, threads * job->scratch_each, "a calibration")
                        : job->method == XSM_CALIBRATION_LABELS ? fit_labels(job, r, err)
                                                                : fit_temperature(job, once, r, err);
    xsmi_release(job->context, job->partials, job->jobs, sizeof *job->partials);
    xsmi_release(job->context, job->scratch, threads, job->scratch_each);
    return status;
}

xsm_status xsmi_calibrate(xsm_context *ctx, const xsm_model *model, const xsm_dataset *rows, int32_t method,
                          uint64_t most, bool once, xsm_calibrate_result *r, xsm_error *err)
{
    calibration_job job = {.context = ctx, .model = model, .dataset = rows, .rows = rows->rows, .method = method};
    job.rows = most > 0 ? XSMI_MIN(most, job.rows) : job.rows;
    if (method == XSM_CALIBRATION_NONE) {
        job.method =
            rows->counted.labels > rows->rows || model->trees ? XSM_CALIBRATION_LABELS : XSM_CALIBRATION_TEMPERATURE;
    }
    *r = (xsm_calibrate_result){.size = sizeof *r, .method = job.method, .scale = 1};
    return fit(&job, once, r, err);
}

xsm_status xsm_model_calibrate(xsm_context *context, xsm_model *model, const xsm_dataset *rows,
                               const xsm_calibrate_options *options, xsm_calibrate_result *result, xsm_error *err)
{
    XSMI_ENTER();
    if (!model || !rows) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_model_calibrate: %s is NULL", model ? "the data" : "the model");
    }
    xsm_calibrate_options o = XSM_CALIBRATE_OPTIONS_INIT;
    xsm_calibrate_result r = XSM_CALIBRATE_RESULT_INIT;
    XSMI_TRY(xsmi_options_read(&o, sizeof o, XSMI_FIRST(xsm_calibrate_options), options, "xsm_calibrate_options", err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_calibrate_options, &o, reserved, err));
    if (result) {
        /* Checks the result struct before the work. */
        XSMI_TRY(
            xsmi_options_read(&r, sizeof r, XSMI_FIRST(xsm_calibrate_result), result, "xsm_calibrate_result", err));
    }
    if (o.method < XSM_CALIBRATION_NONE || o.method > XSM_CALIBRATION_LABELS) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "method %d is no XSM_CALIBRATION_* value", o.method);
    }
    if (xsmi_model_input(model) != rows->features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the model has %u features, the data %u", xsmi_model_input(model),
                         rows->features);
    }
    XSMI_TRY(xsmi_model_check_calibratable(model, o.method, err));
    xsm_context *ctx = context ? context : model->context;
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "calibrating", "rows", 0);
    XSMI_TRY(xsmi_end(&activity, xsmi_calibrate(ctx, model, rows, o.method, o.rows, false, &r, err), err));
    model->calibration = (xsmi_calibration){r.method, r.scale, r.shift};
    return result
               ? xsmi_options_write(&r, sizeof r, XSMI_FIRST(xsm_calibrate_result), result, "xsm_calibrate_result", err)
               : XSM_OK;
}
