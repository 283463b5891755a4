/*
 * A pass over the rows of a calibration of a divided model: each rank makes the sums of its class runs, and every rank
 * joins those of all in rising order and adds the rows in their order.
 */
#include "predict/calibrate_rows.h"

#include "base/activity.h"
#include "base/grow.h"
#include "base/order.h"
#include "data/part.h"
#include "model/divided.h"

#include <string.h>

/* Bytes of sums of all ranks that are exchanged together, or those of a row if that is more; and rows at most. */
#define TOGETHER_BYTES ((size_t)32 << 20)
#define TOGETHER_ROWS ((uint64_t)4096)

/* Some rows whose sums are exchanged together. The same on every rank but for `mine`, `sent` and `each`. */
typedef struct piece {
    const xsmi_calibrate_job *job;
    uint64_t first; /* of the sample */
    size_t rows, capacity;
    size_t each;                  /* rows of a job */
    size_t numbers, runs;         /* of a row; class runs of this rank */
    xsmi_log_sum *mine;           /* [capacity][numbers][runs] */
    unsigned char *sent, *all;    /* as block_of() divides them, of this rank and of all */
    size_t sent_bytes, all_bytes; /* allocated */
    size_t *sizes;                /* [ranks] bytes of each block */
    uint64_t *listed;             /* [capacity] the rows */
    size_t *starts;               /* [capacity+1] */
    uint32_t *labels;
    size_t label_capacity;
    float *scores;
    size_t score_capacity;
} piece;

/* A rank's sums, [rows][numbers][runs]. With XSM_CALIBRATION_LABELS no largest scores are sent. */
typedef struct block {
    double *sum;
    float *max; /* or NULL */
} block;

static bool has_max(const piece *p)
{
    return p->job->method != XSM_CALIBRATION_LABELS;
}

/* Bytes of a block, a multiple of 8. */
static size_t block_bytes(const piece *p, size_t rows, size_t runs)
{
    const size_t bytes = rows * p->numbers * runs * (sizeof(double) + (has_max(p) ? sizeof(float) : 0));
    return (bytes + 7) / 8 * 8;
}

static block block_of(const piece *p, size_t runs, unsigned char *memory)
{
    const size_t sums = p->rows * p->numbers * runs;
    return (block){(double *)(void *)memory, has_max(p) ? (float *)(void *)(memory + sums * sizeof(double)) : NULL};
}

/* Lists the known labels of the piece's rows. */
static xsm_status list_labels(piece *p, xsm_error *err)
{
    const xsmi_calibrate_job *job = p->job;
    size_t total = 0;
    for (size_t i = 0; i < p->rows; i++) {
        size_t count;
        const uint32_t *labels = xsmi_dataset_labels(job->dataset, xsmi_calibrate_row(job, p->first + i), &count);
        XSMI_TRY(XSMI_GROW(job->context, p->labels, p->label_capacity, total + count, "the labels of rows", err));
        p->starts[i] = total;
        for (size_t j = 0; j < count; j++) {
            if (labels[j] < job->model->classes) {
                p->labels[total++] = labels[j];
            }
        }
    }
    p->starts[p->rows] = total;
    return XSMI_GROW(job->context, p->scores, p->score_capacity, total, "the scores of labels", err);
}

static void score_some(void *state, size_t index, uint32_t thread)
{
    const piece *p = state;
    const size_t first = index * p->each, rows = XSMI_MIN(p->rows - first, p->each);
    const xsmi_calibrate_part part = {.runs = p->mine + first * p->numbers * p->runs,
                                      .run_count = p->runs,
                                      .labels = p->labels,
                                      .starts = p->starts + first,
                                      .scores = p->scores};
    xsmi_calibrate_score_part(p->job, p->first + first, rows, p->job->scratch + thread * p->job->scratch_each, &part);
}

/* Scores the piece's rows against this rank's classes. */
static xsm_status score_mine(piece *p, xsm_error *err)
{
    xsm_context *ctx = p->job->context;
    XSMI_TRY(list_labels(p, err));
    const size_t threads = xsmi_context_threads(ctx), blocks = (p->rows + XSMI_LANES - 1) / XSMI_LANES;
    p->each = XSMI_MIN((blocks + threads - 1) / threads, XSMI_TILE_BLOCKS) * XSMI_LANES;
    XSMI_TRY(xsmi_run(ctx, score_some, p, (p->rows + p->each - 1) / p->each, err));
    if (xsmi_is_cancelled(ctx)) {
        return xsmi_fail_cancelled(ctx, err);
    }
    const block b = block_of(p, p->runs, p->sent);
    for (size_t i = 0; i < p->rows * p->numbers * p->runs; i++) {
        b.sum[i] = p->mine[i].sum;
        if (b.max) {
            b.max[i] = p->mine[i].max;
        }
    }
    return XSM_OK;
}

/* Joins the sums of all ranks and adds the rows to the partials of their jobs. */
static void add_rows(const piece *p)
{
    const xsmi_calibrate_job *job = p->job;
    const uint32_t ranks = xsmi_ranks(job->model->context);
    for (size_t i = 0; i < p->rows; i++) {
        xsmi_log_sum sums[XSMI_POINTS];
        for (size_t n = 0; n < p->numbers; n++) {
            size_t at = 0;
            sums[n] = (xsmi_log_sum)XSMI_LOG_SUM_INIT;
            for (uint32_t r = 0; r < ranks; r++) {
                const size_t runs = xsmi_runs_of_rank(job->model, r), first = (i * p->numbers + n) * runs;
                const block b = block_of(p, runs, p->all + at);
                for (size_t j = first; j < first + runs; j++) {
                    const xsmi_log_sum run = {b.max ? b.max[j] : xsmi_run_start(job->method), b.sum[j]};
                    xsmi_log_sum_join(&sums[n], &run);
                }
                at += p->sizes[r];
            }
        }
        double target = 0;
        for (size_t j = p->starts[i]; j < p->starts[i + 1]; j++) {
            target += (double)p->scores[j];
        }
        xsmi_calibrate_sums *to = &job->partials[(p->first + i) / XSMI_CALIBRATE_ROWS];
        if ((p->first + i) % XSMI_CALIBRATE_ROWS == 0) {
            *to = (xsmi_calibrate_sums){.failed = UINT64_MAX};
        }
        xsmi_calibrate_add_row(job, xsmi_calibrate_row(job, p->first + i), sums, target,
                               p->starts[i + 1] - p->starts[i], to);
    }
}

static xsm_status run_piece(piece *p, xsm_error *err)
{
    const xsm_model *m = p->job->model;
    for (uint32_t r = 0; r < xsmi_ranks(m->context); r++) {
        p->sizes[r] = block_bytes(p, p->rows, xsmi_runs_of_rank(m, r));
    }
    for (size_t i = 0; i < p->rows; i++) {
        p->listed[i] = xsmi_calibrate_row(p->job, p->first + i);
    }
    const xsm_batch batch = xsm_batch_rows(p->job->dataset, p->listed, p->rows);
    XSMI_TRY(xsmi_batch_fetch(&batch, 0, p->rows, err));
    XSMI_TRY(xsmi_agree(m->context, score_mine(p, err), err));
    XSMI_TRY(xsmi_exchange_blocks(m->context, p->sent, p->all, p->sizes, err));
    if (p->starts[p->rows] > 0) {
        XSMI_TRY(xsmi_exchange_max(m->context, p->scores, p->starts[p->rows], err));
    }
    add_rows(p);
    xsmi_advance(p->job->context, p->rows);
    return XSM_OK;
}

static xsm_status allocate(piece *p, xsm_error *err)
{
    const xsm_model *m = p->job->model;
    xsm_context *ctx = p->job->context;
    const uint32_t ranks = xsmi_ranks(m->context);
    for (uint32_t r = 0; r < ranks; r++) {
        p->all_bytes += block_bytes(p, p->capacity, xsmi_runs_of_rank(m, r));
    }
    p->sent_bytes = block_bytes(p, p->capacity, p->runs);
    p->mine = xsmi_allocate(ctx, (uint64_t)p->capacity * p->numbers * p->runs, sizeof *p->mine);
    p->sent = xsmi_allocate_zero(ctx, p->sent_bytes, 1);
    p->all = xsmi_allocate(ctx, p->all_bytes, 1);
    p->sizes = xsmi_allocate(ctx, ranks, sizeof *p->sizes);
    p->listed = xsmi_allocate(ctx, p->capacity, sizeof *p->listed);
    p->starts = xsmi_allocate(ctx, p->capacity + 1, sizeof *p->starts);
    return p->mine && p->sent && p->all && p->sizes && p->listed && p->starts
               ? XSM_OK
               : xsmi_fail_memory(err, p->all_bytes, "the sums of all ranks");
}

static void release(piece *p)
{
    xsm_context *ctx = p->job->context;
    xsmi_release(ctx, p->mine, p->capacity * p->numbers * p->runs, sizeof *p->mine);
    xsmi_release(ctx, p->sent, p->sent_bytes, 1);
    xsmi_release(ctx, p->all, p->all_bytes, 1);
    xsmi_release(ctx, p->sizes, xsmi_ranks(p->job->model->context), sizeof *p->sizes);
    xsmi_release(ctx, p->listed, p->capacity, sizeof *p->listed);
    xsmi_release(ctx, p->starts, p->capacity + 1, sizeof *p->starts);
    xsmi_release(ctx, p->labels, p->label_capacity, sizeof *p->labels);
    xsmi_release(ctx, p->scores, p->score_capacity, sizeof *p->scores);
}

xsm_status xsmi_calibrate_divided(xsmi_calibrate_job *job, xsm_error *err)
{
    const xsm_model *m = job->model;
    piece p = {.job = job, .numbers = xsmi_calibrate_numbers(job), .runs = xsmi_runs_of(m->part.own->classes)};
    const uint64_t fit = TOGETHER_BYTES / block_bytes(&p, 1, xsmi_runs_of(m->classes));
    p.capacity = (size_t)XSMI_MIN(XSMI_CLAMP(fit, 1, TOGETHER_ROWS), job->rows);
    xsm_status status = xsmi_agree(m->context, allocate(&p, err), err);
    for (; p.first < job->rows && status == XSM_OK; p.first += p.rows) {
        p.rows = (size_t)XSMI_MIN(job->rows - p.first, p.capacity);
        status = run_piece(&p, err);
    }
    release(&p);
    return status;
}
