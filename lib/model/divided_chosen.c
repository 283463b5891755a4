/*
 * Scores of chosen classes, and of a range of classes, of a divided model: each process scores its classes, and all
 * processes get the scores of all. Numbers that are not finite are sent as they are.
 */
#include "model/divided.h"

#include "base/activity.h"
#include "base/order.h"
#include "model/tiles.h"
#include "ranks/comm.h"

#include <string.h>

/* Number of scores that are exchanged together, unless a row has more. */
#define TOGETHER ((size_t)1 << 20)

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
    XSMI_TRY(xsmi_model_batch_scores(m->part.own, batch, local, count, b->all, err));
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

xsm_status xsmi_divided_chosen_scores(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                                      float *scores, xsm_error *err)
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
    blocks_free(m, &b);
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

xsm_status xsmi_divided_score_range(const xsm_model *m, const xsmi_score_range *range, xsmi_score_scratch *scratch,
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
    blocks_free(m, &b);
    return status;
}
