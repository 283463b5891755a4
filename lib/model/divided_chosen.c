/*
 * Scores of chosen classes, and of a range of classes, of a divided model: each rank scores its own, and all ranks get
 * the blocks of all. Numbers that are not finite arrive as they are.
 */
#include "model/divided.h"

#include "base/activity.h"
#include "base/order.h"
#include "model/tiles.h"

#include <string.h>

/* Scores that are exchanged together, unless a row has more. */
#define TOGETHER ((size_t)1 << 20)
/* Rows of one job. */
#define JOB_ROWS 32
/* Classes of a row that are scored together. */
#define SOME 64

/* The blocks of an exchange. */
typedef struct blocks {
    size_t *sizes;     /* [ranks] bytes */
    size_t *next;      /* [ranks] the next number of each block in `all` */
    float *mine, *all; /* [count] */
    size_t count;
} blocks;

static xsm_status blocks_new(const xsm_model *m, size_t count, blocks *b, xsm_error *err)
{
    xsm_context *ctx = m->context;
    const uint32_t ranks = xsmi_ranks(ctx);
    b->count = count;
    b->sizes = xsmi_allocate_zero(ctx, ranks, sizeof *b->sizes);
    b->next = xsmi_allocate(ctx, ranks, sizeof *b->next);
    b->mine = xsmi_allocate(ctx, count, sizeof *b->mine);
    b->all = xsmi_allocate(ctx, count, sizeof *b->all);
    return b->sizes && b->next && b->mine && b->all ? XSM_OK
                                                    : xsmi_fail_memory(err, 2 * count * sizeof *b->all, "scores");
}

static void blocks_free(const xsm_model *m, blocks *b)
{
    xsm_context *ctx = m->context;
    const uint32_t ranks = xsmi_ranks(ctx);
    xsmi_release(ctx, b->sizes, ranks, sizeof *b->sizes);
    xsmi_release(ctx, b->next, ranks, sizeof *b->next);
    xsmi_release(ctx, b->mine, b->count, sizeof *b->mine);
    xsmi_release(ctx, b->all, b->count, sizeof *b->all);
}

static xsm_status exchange(const xsm_model *m, const blocks *b, xsm_status status, xsm_error *err)
{
    XSMI_TRY(xsmi_agree(m->context, status, err));
    XSMI_TRY(xsmi_exchange_blocks(m->context, b->mine, b->all, b->sizes, err));
    size_t at = 0;
    for (uint32_t r = 0; r < xsmi_ranks(m->context); r++) {
        b->next[r] = at;
        at += b->sizes[r] / sizeof *b->all;
    }
    return XSM_OK;
}

/* -- chosen classes ------------------------------------------------------------------------------------------------ */

typedef struct chosen_job {
    const xsm_model *model;
    const xsm_batch *batch;
    const uint32_t *classes; /* [rows][count] of the rows from `first` on */
    float *scores;
    size_t first, rows, count;
    float *scratch; /* [threads][each]: `code` floats of xsmi_model_chosen_scores(), then a hidden vector */
    size_t code, each;
} chosen_job;

/* Scores those of a row's classes that this rank has; the scores of others are left as they are. */
static void score_row(const chosen_job *job, size_t row, float *scratch)
{
    const xsm_model *m = job->model;
    const xsmi_features x = xsmi_batch_features(job->batch, job->first + row);
    const xsmi_model_row both = {x, xsmi_model_forward(m, &x, scratch + job->code)};
    uint32_t local[SOME];
    size_t at[SOME];
    float z[SOME];
    for (size_t j = row * job->count; j < (row + 1) * job->count;) {
        size_t some = 0;
        for (; j < (row + 1) * job->count && some < SOME; j++) {
            if (xsmi_divided_has(m, job->classes[j])) {
                local[some] = job->classes[j] - m->part.first;
                at[some++] = j;
            }
        }
        if (some > 0) {
            xsmi_model_chosen_scores(m->part.own, &both, local, some, z, scratch);
        }
        for (size_t i = 0; i < some; i++) {
            job->scores[at[i]] = z[i];
        }
    }
}

static void score_rows(void *state, size_t index, uint32_t thread)
{
    const chosen_job *job = state;
    const size_t start = index * JOB_ROWS, end = XSMI_MIN(start + JOB_ROWS, job->rows);
    for (size_t i = start; i < end && !xsmi_poll(job->model->context); i++) {
        score_row(job, i, job->scratch + thread * job->each);
    }
}

/* Scores some rows; the results are in job->scores. */
static xsm_status score_some(const chosen_job *job, const blocks *b, xsm_error *err)
{
    const xsm_model *m = job->model;
    const uint32_t ranks = xsmi_ranks(m->context), rank = xsmi_rank(m->context);
    const size_t total = job->rows * job->count, jobs = (job->rows + JOB_ROWS - 1) / JOB_ROWS;
    xsm_status status = xsmi_run(m->context, score_rows, (void *)(uintptr_t)job, jobs, err);
    memset(b->sizes, 0, ranks * sizeof *b->sizes);
    size_t mine = 0;
    for (size_t j = 0; j < total; j++) {
        const uint32_t r = xsmi_part_of(m->classes, ranks, job->classes[j]);
        b->sizes[r] += sizeof *b->all;
        if (r == rank) {
            b->mine[mine++] = job->scores[j];
        }
    }
    XSMI_TRY(exchange(m, b, status, err));
    for (size_t j = 0; j < total; j++) {
        job->scores[j] = b->all[b->next[xsmi_part_of(m->classes, ranks, job->classes[j])]++];
    }
    return XSM_OK;
}

xsm_status xsmi_divided_chosen_scores(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                                      float *scores, xsm_error *err)
{
    if (m->hierarchy) {
        return xsmi_nodes_score_batch(m, batch, classes, count, scores, err);
    }
    const size_t rows = (size_t)batch->count, wanted = XSMI_MAX(TOGETHER / count, 1), each = XSMI_MIN(wanted, rows);
    const size_t threads = xsmi_context_threads(m->context), code = xsmi_model_chosen_scratch(m->part.own);
    const size_t of_thread = code + (m->layer ? m->features : 0);
    float *scratch = xsmi_allocate(m->context, threads, of_thread * sizeof *scratch);
    blocks b = {.sizes = NULL};
    xsm_status status = scratch ? blocks_new(m, each * count, &b, err)
                                : xsmi_fail_memory(err, threads * of_thread * sizeof *scratch, "scratch of scoring");
    status = xsmi_agree(m->context, status, err);
    for (size_t first = 0; first < rows && status == XSM_OK; first += each) {
        const chosen_job job = {.model = m,
                                .batch = batch,
                                .classes = classes + first * count,
                                .scores = scores + first * count,
                                .first = first,
                                .rows = XSMI_MIN(rows - first, each),
                                .count = count,
                                .scratch = scratch,
                                .code = code,
                                .each = of_thread};
        status = score_some(&job, &b, err);
        xsmi_advance(m->context, job.rows);
    }
    blocks_free(m, &b);
    xsmi_release(m->context, scratch, threads, of_thread * sizeof *scratch);
    return status;
}

/* -- ranges of classes --------------------------------------------------------------------------------------------- */

/* The classes of a range that a rank has: the first and the end. */
static uint32_t range_of(const xsm_model *m, const xsmi_score_range *range, uint32_t rank, uint32_t *end)
{
    const uint32_t ranks = xsmi_ranks(m->context), first = xsmi_part_start(m->classes, ranks, rank),
                   last = xsmi_part_start(m->classes, ranks, rank + 1);
    const uint32_t from = XSMI_CLAMP(range->first, first, last);
    *end = XSMI_CLAMP(range->first + range->count, first, last);
    return from;
}

/* Classes at..at+each of each rank's in the range. */
static uint32_t piece_of(const xsm_model *m, const xsmi_score_range *range, uint32_t rank, uint32_t at, uint32_t each,
                         uint32_t *count)
{
    uint32_t end, first = range_of(m, range, rank, &end);
    first = XSMI_MIN(end - first, at) + first;
    *count = XSMI_MIN(end - first, each);
    return first;
}

static xsm_status score_piece(const xsm_model *m, const xsmi_score_range *range, uint32_t at, uint32_t each,
                              const blocks *b, xsmi_score_scratch *scratch, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(m->context);
    const size_t rows = (size_t)range->batch->count;
    uint32_t count;
    for (uint32_t r = 0; r < ranks; r++) {
        (void)piece_of(m, range, r, at, each, &count);
        b->sizes[r] = rows * count * sizeof *b->all;
    }
    const uint32_t first = piece_of(m, range, xsmi_rank(m->context), at, each, &count);
    const xsmi_score_range mine = {range->batch, first - m->part.first, count, b->mine, count};
    XSMI_TRY(
        exchange(m, b, count > 0 ? xsmi_model_score_range(m->part.own, &mine, m->context, scratch, err) : XSM_OK, err));
    for (uint32_t r = 0; r < ranks; r++) {
        const uint32_t from = piece_of(m, range, r, at, each, &count);
        for (size_t i = 0; i < rows; i++, b->next[r] += count) {
            memcpy(range->scores + i * range->stride + (from - range->first), b->all + b->next[r],
                   count * sizeof *b->all);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_divided_score_range(const xsm_model *m, const xsmi_score_range *range, xsmi_score_scratch *scratch,
                                    xsm_error *err)
{
    if (m->hierarchy) {
        return xsmi_nodes_score_range(m, range, err);
    }
    const uint32_t ranks = xsmi_ranks(m->context);
    const size_t rows = (size_t)range->batch->count;
    uint32_t widest = 0, end;
    for (uint32_t r = 0; r < ranks; r++) {
        const uint32_t first = range_of(m, range, r, &end);
        widest = XSMI_MAX(end - first, widest);
    }
    const size_t fit = TOGETHER / (rows * ranks) / XSMI_CLASS_TILE * XSMI_CLASS_TILE;
    const size_t wanted = XSMI_MAX(fit, XSMI_CLASS_TILE);
    const uint32_t each = (uint32_t)XSMI_MIN(wanted, widest);
    blocks b = {.sizes = NULL};
    xsm_status status = xsmi_agree(m->context, blocks_new(m, (size_t)each * rows * ranks, &b, err), err);
    for (uint32_t at = 0; at < widest && status == XSM_OK; at += each) {
        status = score_piece(m, range, at, each, &b, scratch, err);
    }
    blocks_free(m, &b);
    return status;
}
