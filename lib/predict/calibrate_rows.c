/* A pass over the scores of all classes, in tiles. */
#include "predict/calibrate_rows.h"

#include "base/activity.h"
#include "base/order.h"
#include "math/log_sum.h"
#include "model/score.h"
#include "model/tiles.h"

#include <math.h>

/* One thread's scratch, and the sums of a job. */
typedef struct job_sums {
    const xsmi_calibrate_job *job;
    const xsm_model *model;
    size_t numbers;          /* xsmi_calibrate_numbers() */
    xsmi_features *features; /* [XSMI_CALIBRATE_ROWS] */
    size_t counts[XSMI_TILE_BLOCKS];
    float *max;          /* [numbers][XSMI_CALIBRATE_ROWS] of the current class run */
    double *sum;         /* the same */
    xsmi_log_sum *total; /* [numbers][XSMI_CALIBRATE_ROWS] of the class runs before it */
    float *scaled;       /* tiles */
    float *best;         /* [XSMI_CALIBRATE_ROWS] the largest score so far, and its class, if outcomes are wanted */
    uint32_t *best_class;
    float *code, *hidden;
    void *tiles;
} job_sums;

static job_sums divide_scratch(const xsmi_calibrate_job *job, xsmi_arena *arena)
{
    const xsm_model *m = job->model;
    const bool labels = job->method == XSM_CALIBRATION_LABELS;
    job_sums s = {.job = job, .model = m, .numbers = xsmi_calibrate_numbers(job)};
    s.features = xsmi_arena_take(arena, XSMI_CALIBRATE_ROWS, sizeof *s.features);
    s.max = xsmi_arena_take(arena, s.numbers * XSMI_CALIBRATE_ROWS, sizeof *s.max);
    s.sum = xsmi_arena_take(arena, s.numbers * XSMI_CALIBRATE_ROWS, sizeof *s.sum);
    s.total = xsmi_arena_take(arena, s.numbers * XSMI_CALIBRATE_ROWS, sizeof *s.total);
    s.scaled = xsmi_arena_take(arena, (labels ? 4 : 1) * XSMI_TILE_FLOATS, sizeof *s.scaled);
    s.best = xsmi_arena_take(arena, XSMI_CALIBRATE_ROWS, sizeof *s.best);
    s.best_class = xsmi_arena_take(arena, XSMI_CALIBRATE_ROWS, sizeof *s.best_class);
    s.code = xsmi_arena_take(arena, xsmi_model_chosen_scratch(m), sizeof *s.code);
    s.hidden = xsmi_model_take_hidden(m, arena);
    s.tiles = xsmi_arena_take(arena, xsmi_tiles_scratch(m, job->dataset->sparse, XSMI_TILE_BLOCKS), 1);
    return s;
}

/* -- tiles --------------------------------------------------------------------------------------------------------- */

static void start_run(job_sums *s, size_t at)
{
    s->max[at] = xsmi_run_start(s->job->method);
    s->sum[at] = 0;
}

/* Ends the class runs of some rows, and starts the next ones. */
static void end_runs(job_sums *s, size_t position, size_t rows)
{
    for (size_t n = 0; n < s->numbers; n++) {
        for (size_t row = position; row < position + rows; row++) {
            const size_t i = n * XSMI_CALIBRATE_ROWS + row;
            const xsmi_log_sum run = {s->max[i], s->sum[i]};
            xsmi_log_sum_join(&s->total[i], &run);
            start_run(s, i);
        }
    }
}

/* Ends the runs of a tile's rows if it is the last one of its class run. */
static void end_tile(job_sums *s, const xsmi_tile *tile)
{
    const size_t position = tile->block * XSMI_LANES;
    if ((tile->first + tile->count) % XSMI_RUN_CLASSES == 0) {
        end_runs(s, tile->lanes ? position : position + tile->row, tile->lanes ? s->counts[tile->block] : 1);
    }
}

/* Keeps each row's best class so far; of equal ones the first stays. */
static void find_best(job_sums *s, const xsmi_tile *tile)
{
    float *best = s->best + tile->block * XSMI_LANES;
    uint32_t *class = s->best_class + tile->block * XSMI_LANES;
    if (!tile->lanes) {
        const float most = s->model->kernels->row_max(tile->scores, tile->count);
        if (most > best[tile->row]) {
            uint32_t c = 0;
            while (tile->scores[c] != most) {
                c++;
            }
            best[tile->row] = most;
            class[tile->row] = tile->first + c;
        }
        return;
    }
    for (uint32_t c = 0; c < tile->count; c++) {
        const float *scores = tile->scores + (size_t)c * XSMI_LANES;
        for (size_t l = 0; l < XSMI_LANES; l++) {
            const bool better = scores[l] > best[l];
            best[l] = better ? scores[l] : best[l];
            class[l] = better ? tile->first + c : class[l];
        }
    }
}

static void add_exponentials(void *state, const xsmi_tile *tile)
{
    job_sums *s = state;
    const size_t position = tile->block * XSMI_LANES, rows = s->counts[tile->block];
    if (s->job->each) {
        find_best(s, tile);
    }
    for (size_t p = 0; p < XSMI_POINTS; p++) {
        const size_t base = p * XSMI_CALIBRATE_ROWS + position;
        xsmi_add_exponentials(s->model->kernels, tile, rows, s->job->points[p], s->max + base, s->sum + base,
                              s->scaled);
    }
    end_tile(s, tile);
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
    s->model->kernels->logistics(z, count, left, right, rest);
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
    end_tile(s, tile);
}

/* Scores rows first..first+rows of the sample. */
static void score_rows(job_sums *s, uint64_t first, size_t rows)
{
    const xsmi_calibrate_job *job = s->job;
    for (size_t i = 0; i < rows; i++) {
        s->features[i] = xsmi_dataset_features(job->dataset, xsmi_calibrate_row(job, first + i));
        s->counts[i / XSMI_LANES]++;
    }
    for (size_t i = 0; job->each && i < XSMI_CALIBRATE_ROWS; i++) {
        s->best[i] = -INFINITY;
        s->best_class[i] = XSMI_NO_CLASS;
    }
    for (size_t i = 0; i < s->numbers * XSMI_CALIBRATE_ROWS; i++) {
        start_run(s, i);
        s->total[i] = (xsmi_log_sum)XSMI_LOG_SUM_INIT;
    }
    const xsmi_tile_rows block = {s->features, s->counts, (rows + XSMI_LANES - 1) / XSMI_LANES, job->dataset->sparse};
    const bool each = job->method == XSM_CALIBRATION_LABELS;
    const xsmi_tile_call call = {
        s->model, &block, 0,    s->model->classes, each ? add_branches : add_exponentials, s, job->context,
        false,    false,  false};
    xsmi_tiles_score(&call, s->tiles);
    if (s->model->classes % XSMI_RUN_CLASSES != 0) {
        end_runs(s, 0, rows);
    }
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Sums the scores of a row's known labels; returns their number. */
static size_t sum_labels(const job_sums *s, uint64_t row, const xsmi_features *x, double *sum)
{
    const xsm_model *m = s->model;
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

/* Adds row `row` of the data to p, in which failed was UINT64_MAX at first. The row has the joined sums `sums`
 * [numbers], and `known` known labels whose scores sum to `target`. */
static void add_row(const xsmi_calibrate_job *job, uint64_t row, const xsmi_log_sum *sums, double target, size_t known,
                    xsmi_calibrate_sums *p)
{
    const bool each = job->method == XSM_CALIBRATION_LABELS;
    if (!isfinite(target) || !isfinite(sums[each ? XSMI_LOSS : XSMI_STEPS].sum)) {
        p->failed = XSMI_MIN(row, p->failed);
        return;
    }
    if (known == 0) {
        return;
    }
    const double times = xsmi_dataset_weight(job->dataset, row), labels = (double)known;
    for (size_t n = 0; job->each && n < XSMI_POINTS; n++) {
        job->losses[row][n] = xsmi_log_partition(job->method, &sums[n]) - (double)job->points[n] * (target / labels);
    }
    for (size_t n = 0; each && n < XSMI_PLATT_SUMS; n++) {
        p->sums[n] += times * xsmi_log_partition(job->method, &sums[n]);
    }
    if (each) {
        xsmi_platt_add_labels(p->sums, times * labels, times * target,
                              times * ((double)job->points[0] * target + (double)job->shifts[0] * labels));
    }
    for (size_t n = 0; !each && n < XSMI_POINTS; n++) {
        p->sums[n] += times * (xsmi_log_partition(job->method, &sums[n]) - (double)job->points[n] * (target / labels));
    }
    p->weight += times;
    p->rows++;
}

static void run(void *state, const xsmi_range *r)
{
    const xsmi_calibrate_job *job = state;
    xsmi_arena arena = {job->scratch + r->thread * job->scratch_each, 0};
    job_sums s = divide_scratch(job, &arena);
    const size_t first = r->first, rows = r->end - first;
    score_rows(&s, first, rows);
    if (xsmi_is_cancelled(job->context)) {
        return;
    }
    xsmi_calibrate_sums *p = &job->partials[r->index];
    *p = (xsmi_calibrate_sums){.failed = UINT64_MAX};
    for (size_t i = 0; i < rows; i++) {
        const uint64_t row = xsmi_calibrate_row(job, first + i);
        double target;
        const size_t known = sum_labels(&s, row, &s.features[i], &target);
        xsmi_log_sum sums[XSMI_POINTS];
        for (size_t n = 0; n < s.numbers; n++) {
            sums[n] = s.total[n * XSMI_CALIBRATE_ROWS + i];
        }
        add_row(job, row, sums, target, known, p);
        if (job->each) {
            size_t labels;
            const uint32_t *label = xsmi_dataset_labels(job->dataset, row, &labels);
            job->each[row].first = xsmi_contains(label, labels, s.best_class[i]);
        }
    }
    xsmi_advance(job->context, rows);
}

static size_t scratch_bytes(const xsmi_calibrate_job *job)
{
    xsmi_arena counted = {NULL, 0};
    (void)divide_scratch(job, &counted);
    return counted.used;
}

const xsmi_calibrate_way xsmi_calibrate_all = {run, scratch_bytes, NULL};
