/* A pass over the scores of all classes, in tiles. */
#include "predict/calibrate_rows.h"

#include "base/activity.h"
#include "base/order.h"
#include "math/log_sum.h"
#include "model/tiles.h"

#include <math.h>

/* One thread's scratch, and what the tiles of a job are added to. */
typedef struct job_sums {
    const xsmi_calibrate_job *job;
    xsmi_features *features; /* [XSMI_CALIBRATE_ROWS] */
    size_t counts[XSMI_TILE_BLOCKS];
    float *max;          /* [XSMI_POINTS][XSMI_CALIBRATE_ROWS] of the class run */
    double *sum;         /* the same; or [XSMI_PLATT_SUMS][XSMI_CALIBRATE_ROWS] */
    xsmi_log_sum *total; /* [XSMI_POINTS][XSMI_CALIBRATE_ROWS] of the class runs before */
    float *scaled;       /* tiles */
    float *code, *hidden;
    void *tiles;
} job_sums;

static job_sums divide_scratch(const xsmi_calibrate_job *job, xsmi_arena *arena)
{
    const xsm_model *m = job->model;
    const bool labels = job->method == XSM_CALIBRATION_LABELS;
    job_sums s = {.job = job};
    s.features = xsmi_arena_take(arena, XSMI_CALIBRATE_ROWS, sizeof *s.features);
    s.max = xsmi_arena_take(arena, labels ? 0 : XSMI_POINTS * XSMI_CALIBRATE_ROWS, sizeof *s.max);
    s.sum =
        xsmi_arena_take(arena, (size_t)(labels ? XSMI_PLATT_SUMS : XSMI_POINTS) * XSMI_CALIBRATE_ROWS, sizeof *s.sum);
    s.total = xsmi_arena_take(arena, labels ? 0 : XSMI_POINTS * XSMI_CALIBRATE_ROWS, sizeof *s.total);
    s.scaled = xsmi_arena_take(arena, (labels ? 4 : 1) * XSMI_TILE_FLOATS, sizeof *s.scaled);
    s.code = xsmi_arena_take(arena, xsmi_correction_code(m->correction), sizeof *s.code);
    s.hidden = xsmi_arena_take(arena, m->layer ? m->features : 0, sizeof *s.hidden);
    s.tiles = xsmi_arena_take(arena, xsmi_tiles_scratch(m, job->dataset->sparse, XSMI_TILE_BLOCKS), 1);
    return s;
}

/* -- tiles --------------------------------------------------------------------------------------------------------- */

static void end_runs(const job_sums *s, size_t point, size_t position, size_t rows)
{
    for (size_t i = point * XSMI_CALIBRATE_ROWS + position; i < point * XSMI_CALIBRATE_ROWS + position + rows; i++) {
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
    for (size_t p = 0; p < XSMI_POINTS; p++) {
        const size_t base = p * XSMI_CALIBRATE_ROWS + position;
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
    const float scale = s->job->points[0], shift = s->job->shifts[0];
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
        double sums[XSMI_PLATT_SUMS] = {0};
        for (size_t at = row - first; at < count; at += step) {
            xsmi_platt_add(sums, (double)tile->scores[at], (double)right[at], (double)left[at],
                           (double)(z[at] < 0 ? 0.0f : z[at]) + (double)rest[at]); /* NaN stays NaN */
        }
        for (size_t i = 0; i < XSMI_PLATT_SUMS; i++) {
            s->sum[i * XSMI_CALIBRATE_ROWS + tile->block * XSMI_LANES + row] += sums[i];
        }
    }
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

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

/* Adds a row of a job to its sums, so many times; `target` as sum_labels() says, `known` at least 1. */
static void add_row(const job_sums *s, size_t i, double times, double target, double known, xsmi_calibrate_sums *p)
{
    if (s->job->method == XSM_CALIBRATION_LABELS) {
        for (size_t n = 0; n < XSMI_PLATT_SUMS; n++) {
            p->sums[n] += times * s->sum[n * XSMI_CALIBRATE_ROWS + i];
        }
        xsmi_platt_add_labels(p->sums, times * known, times * target,
                              times * ((double)s->job->points[0] * target + (double)s->job->shifts[0] * known));
        return;
    }
    for (size_t n = 0; n < XSMI_POINTS; n++) {
        const xsmi_log_sum *total = &s->total[n * XSMI_CALIBRATE_ROWS + i];
        p->sums[n] += times * ((double)total->max + log(total->sum) - (double)s->job->points[n] * (target / known));
    }
}

void xsmi_calibrate_rows_job(void *state, size_t index, uint32_t thread)
{
    const xsmi_calibrate_job *job = state;
    const bool each = job->method == XSM_CALIBRATION_LABELS;
    xsmi_arena arena = {job->scratch + thread * job->scratch_each, 0};
    job_sums s = divide_scratch(job, &arena);
    const uint64_t first = (uint64_t)index * XSMI_CALIBRATE_ROWS;
    const size_t rows = (size_t)XSMI_MIN(job->rows - first, XSMI_CALIBRATE_ROWS);
    for (size_t i = 0; i < rows; i++) {
        s.features[i] = xsmi_dataset_features(job->dataset, xsmi_calibrate_row(job, first + i));
        s.counts[i / XSMI_LANES]++;
    }
    for (size_t i = 0; i < (size_t)(each ? XSMI_PLATT_SUMS : XSMI_POINTS) * XSMI_CALIBRATE_ROWS; i++) {
        s.sum[i] = 0;
        if (!each) {
            s.max[i] = -INFINITY;
            s.total[i] = (xsmi_log_sum)XSMI_LOG_SUM_INIT;
        }
    }
    const xsmi_tile_rows block = {s.features, s.counts, (rows + XSMI_LANES - 1) / XSMI_LANES, job->dataset->sparse};
    const xsmi_tile_call call = {
        job->model, &block, 0, job->model->classes, each ? add_branches : add_exponentials, &s, job->context, false};
    xsmi_tiles_score(&call, s.tiles);
    if (xsmi_is_cancelled(job->context)) {
        return;
    }
    xsmi_calibrate_sums *p = &job->partials[index];
    *p = (xsmi_calibrate_sums){.failed = UINT64_MAX};
    for (size_t n = 0; !each && n < XSMI_POINTS; n++) {
        end_runs(&s, n, 0, rows);
    }
    for (size_t i = 0; i < rows; i++) {
        const uint64_t row = xsmi_calibrate_row(job, first + i);
        double target;
        const size_t known = sum_labels(&s, row, &s.features[i], &target);
        const double whole = each ? s.sum[i] : s.total[XSMI_STEPS * XSMI_CALIBRATE_ROWS + i].sum;
        if (!isfinite(target) || !isfinite(whole)) {
            p->failed = XSMI_MIN(row, p->failed);
        } else if (known > 0) {
            const double times = xsmi_dataset_weight(job->dataset, row);
            add_row(&s, i, times, target, (double)known, p);
            p->weight += times;
            p->rows++;
        }
    }
    xsmi_advance(job->context, rows);
}

size_t xsmi_calibrate_rows_scratch(const xsmi_calibrate_job *job)
{
    xsmi_arena counted = {NULL, 0};
    (void)divide_scratch(job, &counted);
    return counted.used;
}
