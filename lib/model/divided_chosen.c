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
/* Rows whose classes are scored together, and those of one job, at most. */
#define CHOSEN_ROWS ((size_t)1024)
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

/* -- lists of classes ---------------------------------------------------------------------------------------------- */

typedef struct list_job {
    const xsm_model *model;
    const xsmi_chosen_rows *lists;
    bool weights;
    float *scores;
    size_t each;    /* rows of a job */
    float *scratch; /* [threads][of_thread]: `code` floats of xsmi_model_chosen_scores(), a hidden vector */
    size_t code, of_thread;
} list_job;

/* Scores those of a row's classes that this rank has; the scores of others are left as they are. */
static void score_row(const list_job *job, size_t row, float *scratch)
{
    const xsm_model *m = job->model, *own = m->part.own;
    const uint32_t *classes = job->lists->classes;
    const size_t end = job->lists->starts[row + 1];
    const xsmi_features *x = &job->lists->features[row];
    const xsmi_model_row both = {*x, xsmi_model_forward(m, x, scratch + job->code)};
    uint32_t local[SOME], at[SOME];
    float z[SOME];
    for (size_t j = job->lists->starts[row]; j < end; j += SOME) {
        const uint32_t listed = (uint32_t)XSMI_MIN(end - j, (size_t)SOME);
        const uint32_t some = xsmi_part_list(m->part.first, m->part.end, classes + j, listed, local, at);
        if (some > 0 && job->weights) {
            xsmi_weights_score(&own->w, &both.input, local, some, own->w.alpha, z, NULL);
        } else if (some > 0) {
            xsmi_model_chosen_scores(own, &both, local, some, z, scratch);
        }
        for (uint32_t i = 0; i < some; i++) {
            job->scores[j + at[i]] = z[i];
        }
    }
}

static void score_rows(void *state, size_t index, uint32_t thread)
{
    const list_job *job = state;
    const size_t start = index * job->each, end = XSMI_MIN(start + job->each, job->lists->rows);
    for (size_t i = start; i < end && !xsmi_poll(job->model->context); i++) {
        score_row(job, i, job->scratch + thread * job->of_thread);
    }
}

/* Counts the bytes of each rank, and collects this rank's scores. */
static void collect(const xsm_model *m, const xsmi_chosen_rows *lists, const float *scores, const blocks *b)
{
    const uint32_t ranks = xsmi_ranks(m->context), rank = xsmi_rank(m->context);
    size_t mine = 0;
    for (size_t j = 0; j < lists->starts[lists->rows]; j++) {
        const uint32_t r = xsmi_part_of(m->classes, ranks, lists->classes[j]);
        b->sizes[r] += sizeof *b->all;
        if (r == rank) {
            b->mine[mine++] = scores[j];
        }
    }
}

xsm_status xsmi_divided_list_scores(const xsm_model *m, const xsmi_chosen_rows *lists, bool weights, float *scores,
                                    xsm_error *err)
{
    if (m->hierarchy) {
        return xsmi_nodes_score_chosen(m, lists, scores, err);
    }
    xsm_context *ctx = m->context;
    const uint32_t ranks = xsmi_ranks(ctx);
    const size_t threads = xsmi_context_threads(ctx), code = xsmi_model_chosen_scratch(m->part.own);
    const size_t line = XSMI_ALIGNMENT / sizeof(float); /* no two threads write to one */
    const size_t of_thread = (code + (m->layer ? m->features : 0) + line - 1) / line * line;
    const size_t total = lists->starts[lists->rows], shares = (lists->rows + 4 * threads - 1) / (4 * threads);
    blocks b = {.sizes = NULL};
    list_job job = {.model = m,
                    .lists = lists,
                    .weights = weights,
                    .scores = scores,
                    .each = XSMI_MIN(shares, (size_t)JOB_ROWS),
                    .code = code,
                    .of_thread = of_thread};
    job.scratch = xsmi_allocate(ctx, threads, of_thread * sizeof *job.scratch);
    xsm_status status = job.scratch ? blocks_new(m, total, &b, err)
                                    : xsmi_fail_memory(err, threads * of_thread * sizeof(float), "scratch of scoring");
    status = status == XSM_OK ? xsmi_run(ctx, score_rows, &job, (lists->rows + job.each - 1) / job.each, err) : status;
    if (status == XSM_OK) {
        collect(m, lists, scores, &b);
    }
    status = exchange(m, &b, status, err);
    for (size_t j = 0; j < total && status == XSM_OK; j++) {
        scores[j] = b.all[b.next[xsmi_part_of(m->classes, ranks, lists->classes[j])]++];
    }
    blocks_free(m, &b);
    xsmi_release(ctx, job.scratch, threads, of_thread * sizeof *job.scratch);
    return status;
}

xsm_status xsmi_divided_chosen_scores(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                                      float *scores, xsm_error *err)
{
    xsm_context *ctx = m->context;
    const size_t wanted = XSMI_CLAMP(TOGETHER / count, (size_t)1, CHOSEN_ROWS), rows = (size_t)batch->count,
                 each = XSMI_MIN(wanted, rows);
    xsmi_features *features = xsmi_allocate(ctx, each, sizeof *features);
    size_t *starts = xsmi_allocate(ctx, each + 1, sizeof *starts);
    xsm_status status =
        features && starts ? XSM_OK : xsmi_fail_memory(err, each * (sizeof *features + sizeof *starts), "a batch");
    status = xsmi_agree(ctx, status, err);
    for (size_t first = 0; first < rows && status == XSM_OK; first += each) {
        const size_t some = XSMI_MIN(rows - first, each);
        for (size_t i = 0; i <= some; i++) {
            starts[i] = i * count;
            if (i < some) {
                features[i] = xsmi_batch_features(batch, first + i);
            }
        }
        const xsmi_chosen_rows lists = {features, starts, some, classes + first * count};
        status = xsmi_divided_list_scores(m, &lists, false, scores + first * count, err);
        xsmi_advance(ctx, some);
    }
    xsmi_release(ctx, features, each, sizeof *features);
    xsmi_release(ctx, starts, each + 1, sizeof *starts);
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
