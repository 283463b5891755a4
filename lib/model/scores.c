/*
 * Scores for hosts: of chosen classes, and of a range of classes. Of a divided model, each process scores its classes,
 * and all processes get the scores of all; numbers that are not finite are sent as they are.
 */
#include "base/activity.h"
#include "base/entry.h"
#include "base/hash.h"
#include "base/held.h"
#include "base/order.h"
#include "base/safetensors.h"
#include "model/divided.h"
#include "model/score.h"
#include "model/tiles.h"
#include "model/together.h"
#include "ranks/comm.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

/* Number of rows of one job: so many that a job takes much longer than starting it. */
#define JOB_ROWS 32
/* Number of classes of a row that are scored between two polls. */
#define POLL_CLASSES 4096

typedef struct scores_job {
    const xsm_model *model;
    const xsm_batch *batch;
    const uint32_t *classes;
    size_t count;
    float *scores;
    float *scratch; /* [threads][each]: the correction's code, then a hidden vector; or NULL */
    size_t code, each;
} scores_job;

static void score_rows(void *state, const xsmi_range *r)
{
    const scores_job *job = state;
    const xsm_model *m = job->model;
    float *code = job->scratch ? job->scratch + r->thread * job->each : NULL;
    float *hidden = job->scratch ? code + job->code : NULL;
    for (size_t i = r->first; i < r->end; i++) {
        const xsmi_features x = xsmi_batch_features(job->batch, i);
        const xsmi_model_row row = {x, xsmi_model_forward(m, &x, hidden)};
        const uint32_t *classes = job->classes + i * job->count;
        float *scores = job->scores + i * job->count;
        for (size_t c = 0, some; c < job->count; c += some) {
            some = XSMI_MIN(job->count - c, POLL_CLASSES);
            if (some == POLL_CLASSES && xsmi_poll(m->context)) {
                return;
            }
            xsmi_model_chosen_scores(m, &row, classes + c, some, scores + c, code);
        }
    }
}

/* Scores chosen classes of the rows of a batch against this process's weights. */
static xsm_status score_batch(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                              float *scores, xsm_error *err)
{
    const size_t threads = xsmi_context_threads(m->context), hidden = xsmi_model_hidden_floats(m);
    const size_t code = xsmi_model_chosen_scratch(m), each = code + hidden;
    scores_job job = {m, batch, classes, count, scores, NULL, code, each};
    if (each > 0) {
        XSMI_TRY(
            xsmi_array_new(m->context, &job.scratch, threads, each * sizeof *job.scratch, "scratch of scoring", err));
    }
    xsm_status status = xsmi_run_ranges(m->context, score_rows, &job, batch->count, JOB_ROWS, err);
    xsmi_release(m->context, job.scratch, threads, each * sizeof *job.scratch);
    return status;
}

/* -- of all processes ---------------------------------------------------------------------------------------------- */

/* Number of scores that are exchanged together, unless a row has more. */
#define TOGETHER ((size_t)1 << 20)

/* The blocks of an exchange. */
typedef struct blocks {
    xsmi_held held;    /* the arrays */
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
    b->held.context = ctx;
    b->sizes = xsmi_hold_zeros(&b->held, ranks, sizeof *b->sizes);
    b->next = xsmi_hold(&b->held, ranks, sizeof *b->next);
    b->mine = xsmi_hold(&b->held, count, sizeof *b->mine);
    b->all = xsmi_hold(&b->held, count, sizeof *b->all);
    return xsmi_held_check(&b->held, "scores", err);
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

/* Scores the listed classes of this process, numbered as in its part, with class 0 of the part in place of other
 * processes' classes. Then counts the bytes of each process, and collects this one's scores. */
static xsm_status score_own(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                            uint32_t *local, const blocks *b, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(m->context);
    const size_t total = (size_t)batch->count * count;
    for (size_t j = 0; j < total; j++) {
        local[j] = xsmi_divided_has(m, classes[j]) ? classes[j] - m->part.first : 0;
    }
    XSMI_TRY(score_batch(m->part.own, batch, local, count, b->all, err));
    XSMI_TRY(xsmi_go_on(m->context, err));
    memset(b->sizes, 0, ranks * sizeof *b->sizes);
    for (size_t j = 0, mine = 0; j < total; j++) {
        b->sizes[xsmi_part_of(m->classes, ranks, classes[j])] += sizeof *b->all;
        if (xsmi_divided_has(m, classes[j])) {
            b->mine[mine++] = b->all[j];
        }
    }
    return XSM_OK;
}

/* The process that has the class sends 4 bytes for each score. */
static xsm_status score_chosen_together(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes,
                                        size_t count, float *scores, xsm_error *err)
{
    xsm_context *ctx = m->context;
    const size_t wanted = XSMI_MAX(TOGETHER / count, (size_t)1), rows = (size_t)batch->count,
                 each = XSMI_MIN(wanted, rows);
    blocks b = {.sizes = NULL};
    uint32_t *local = xsmi_allocate(ctx, each, count * sizeof *local);
    xsm_status status =
        local ? blocks_new(m, each * count, &b, err) : xsmi_fail_memory(err, each * count * sizeof *local, "scores");
    for (size_t first = 0; first < rows; first += each) {
        const size_t some = XSMI_MIN(rows - first, each), at = first * count;
        const xsm_batch slice = xsmi_batch_slice(batch, first, some);
        status = status == XSM_OK ? score_own(m, &slice, classes + at, count, local, &b, err) : status;
        status = exchange(m, &b, status, err);
        if (status != XSM_OK) {
            break;
        }
        for (size_t j = 0; j < some * count; j++) {
            scores[at + j] = b.all[b.next[xsmi_part_of(m->classes, xsmi_ranks(ctx), classes[at + j])]++];
        }
        xsmi_advance(ctx, some);
    }
    xsmi_held_release(&b.held);
    xsmi_release(ctx, local, each, count * sizeof *local);
    return status;
}

/* -- ranges of classes --------------------------------------------------------------------------------------------- */

/* Returns the first class of a range that a process has, and sets *end to the end of such classes. */
static uint32_t range_of(const xsm_model *m, const xsmi_score_range *range, uint32_t rank, uint32_t *end)
{
    const uint32_t ranks = xsmi_ranks(m->context), first = xsmi_part_start(m->classes, ranks, rank),
                   last = xsmi_part_start(m->classes, ranks, rank + 1);
    const uint32_t from = XSMI_CLAMP(range->first, first, last);
    *end = XSMI_CLAMP(range->first + range->count, first, last);
    return from;
}

/* Returns the first of the classes at..at+each that a process has in the range, and sets *count to their number. */
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

static xsm_status score_range_together(const xsm_model *m, const xsmi_score_range *range, xsmi_score_scratch *scratch,
                                       xsm_error *err)
{
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
    xsmi_held_release(&b.held);
    return status;
}

/* -- public -------------------------------------------------------------------------------------------------------- */

/* Scores that one job checks. */
#define JOB_SCORES ((size_t)1 << 16)

/* Scores that were computed: those of row i begin at scores[i*stride]. */
typedef struct computed {
    const xsm_model *model;
    const float *scores;
    size_t count, stride;
    atomic_ullong failed; /* the first row with scores that are not finite, or ULLONG_MAX */
} computed;

static void check_rows(void *state, const xsmi_range *r)
{
    computed *c = state;
    for (size_t i = r->first; i < r->end; i++) {
        bool finite = true;
        for (size_t k = 0; k < c->count && finite && !xsmi_poll(c->model->context); k += JOB_SCORES) {
            finite = xsmi_floats_finite(c->scores + i * c->stride + k, XSMI_MIN(c->count - k, JOB_SCORES));
        }
        unsigned long long least = atomic_load(&c->failed);
        while (!finite && i < least && !atomic_compare_exchange_weak(&c->failed, &least, i)) {
        }
    }
}

/* Refuses scores that are not finite. */
static xsm_status check_finite(const xsm_model *m, const float *scores, uint64_t rows, size_t count, size_t stride,
                               xsm_error *err)
{
    computed c = {m, scores, count, stride, ULLONG_MAX};
    XSMI_TRY(
        xsmi_run_together(m->context, xsmi_model_is_divided(m), check_rows, &c, rows, JOB_SCORES / count + 1, err));
    const unsigned long long failed = atomic_load(&c.failed);
    return failed == ULLONG_MAX ? XSM_OK
                                : xsmi_fail(err, XSM_ERROR_DIVERGED, "row %llu has scores that are not finite", failed);
}

static xsm_status read_chosen(const xsm_model *m, const xsm_batch *given, const uint32_t *classes, size_t count,
                              float *scores, xsm_batch *batch, xsm_error *err)
{
    XSMI_TRY(xsmi_model_read_batch(m, given, batch, err));
    size_t total;
    if (!xsmi_multiply((size_t)batch->count, count, &total)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%llu rows of %zu classes are more than can be addressed",
                         (unsigned long long)batch->count, count);
    }
    XSMI_TRY(count == 0 ? XSM_OK
                        : xsmi_need("xsm_model_scores", XSMI_GIVEN({classes, "classes"}, {scores, "scores"}), err));
    xsmi_region regions[2 + XSMI_BATCH_REGIONS] = {xsmi_output("scores", scores, total, sizeof *scores),
                                                   xsmi_input("classes", classes, total, sizeof *classes)};
    xsmi_batch_regions(batch, regions + 2);
    XSMI_TRY(xsmi_check_overlap("xsm_model_scores", regions, 2 + XSMI_BATCH_REGIONS, err));
    for (size_t i = 0; i < total; i++) {
        if (classes[i] >= m->classes) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "class %u at position %zu of row %zu of the batch; the model has %u",
                             classes[i], i % count, i / count, m->classes);
        }
    }
    return XSM_OK;
}

static xsm_status score_chosen(const xsm_model *m, const xsm_batch *given, const uint32_t *classes, size_t count,
                               float *scores, xsm_error *err)
{
    xsm_batch batch = {.size = sizeof batch};
    xsm_status status = read_chosen(m, given, classes, count, scores, &batch, err);
    const size_t total = status == XSM_OK ? (size_t)batch.count * count : 0;
    const uint64_t asked =
        xsmi_model_is_divided(m) && total > 0 ? xsmi_hash(classes, total * sizeof *classes, count) : 0;
    XSMI_TRY(xsmi_together_batch(m, &batch, asked, status, err));
    if (total == 0) {
        return XSM_OK;
    }
    xsmi_activity activity;
    xsmi_begin_short(&activity, m->context, "scoring", "rows");
    status = xsmi_model_is_divided(m) ? score_chosen_together(m, &batch, classes, count, scores, err)
                                      : score_batch(m, &batch, classes, count, scores, err);
    status = status == XSM_OK ? check_finite(m, scores, batch.count, count, count, err) : status;
    return xsmi_end(&activity, status, err);
}

xsm_status xsm_model_scores(const xsm_model *m, const xsm_batch *given, const uint32_t *classes, size_t count,
                            float *scores, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"});
    return XSMI_COLLECTIVE(xsmi_model_group(m), score_chosen(m, given, classes, count, scores, err), err);
}

static xsm_status read_range(const xsm_model *m, const xsm_batch *given, uint32_t first, uint32_t count,
                             const float *scores, size_t stride, xsm_batch *batch, xsm_error *err)
{
    XSMI_TRY(xsmi_model_read_batch(m, given, batch, err));
    if (first > m->classes || count > m->classes - first) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u classes from class %u on; the model has %u", count, first,
                         m->classes);
    }
    size_t floats = 0;
    if (stride < count || !xsmi_multiply((size_t)batch->count, stride, &floats) || floats > SIZE_MAX / sizeof(float)) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "%llu rows of scores %zu floats apart for %u classes",
                         (unsigned long long)batch->count, stride, count);
    }
    if (count == 0) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_need("xsm_model_score_range", XSMI_GIVEN({scores, "scores"}), err));
    xsmi_region regions[1 + XSMI_BATCH_REGIONS] = {
        xsmi_output_rows("scores", scores, batch->count, count, stride, sizeof *scores)};
    xsmi_batch_regions(batch, regions + 1);
    return xsmi_check_overlap("xsm_model_score_range", regions, 1 + XSMI_BATCH_REGIONS, err);
}

static xsm_status score_range(const xsm_model *m, const xsm_batch *given, uint32_t first, uint32_t count, float *scores,
                              size_t stride, xsm_error *err)
{
    xsm_batch batch = {.size = sizeof batch};
    xsm_status status = read_range(m, given, first, count, scores, stride, &batch, err);
    XSMI_TRY(xsmi_together_batch(m, &batch, (uint64_t)first << 32 | count, status, err));
    if (count == 0 || batch.count == 0) {
        return XSM_OK;
    }
    const xsmi_score_range range = {&batch, first, count, scores, stride};
    xsmi_score_scratch scratch = {.used = NULL};
    xsmi_activity activity;
    xsmi_begin_short(&activity, m->context, "scoring", "rows");
    status = xsmi_model_is_divided(m) ? score_range_together(m, &range, &scratch, err)
                                      : xsmi_model_score_range(m, &range, m->context, &scratch, err);
    status = status == XSM_OK ? check_finite(m, scores, batch.count, count, stride, err) : status;
    xsmi_score_scratch_free(m->context, &scratch);
    return xsmi_end(&activity, status, err);
}

xsm_status xsm_model_score_range(const xsm_model *m, const xsm_batch *given, uint32_t first, uint32_t count,
                                 float *scores, size_t stride, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"});
    return XSMI_COLLECTIVE(xsmi_model_group(m), score_range(m, given, first, count, scores, stride, err), err);
}
