/*
 * Lists of several ranks, each of which has found the best of its rows: they are merged by the rule of one list, where
 * of equal scores the smaller class comes first.
 */
#include "index/index.h"

#include "base/order.h"
#include "index/block.h"
#include "model/divided.h"

void xsmi_index_desk_free(xsm_context *ctx, xsmi_index_desk *desk)
{
    xsmi_release(ctx, desk->work, desk->work_bytes, 1);
    xsmi_release(ctx, desk->entries, desk->entry_bytes, 1);
    xsmi_release(ctx, desk->mine, desk->mine_bytes, 1);
    xsmi_release(ctx, desk->all, desk->all_bytes, 1);
    *desk = (xsmi_index_desk){.work = NULL};
}

xsm_index_block xsmi_index_part_of_block(const xsm_index_block *block, uint32_t first, uint32_t end)
{
    xsm_index_block part = *block;
    part.queries += first * block->stride;
    part.count = end - first;
    part.classes += first * block->list_stride;
    part.scores += first * block->list_stride;
    part.lengths += first;
    part.probed += first;
    return part;
}

/* -- merging lists ------------------------------------------------------------------------------------------------- */

/* A rank's lists in an exchange. */
typedef struct lists {
    uint32_t *lengths; /* [queries] */
    uint32_t *classes; /* [queries][each] of its rows */
    float *scores;     /* the same */
    size_t each, bytes;
} lists;

static lists divide_lists(const xsm_index_block *block, uint32_t rows, unsigned char *memory)
{
    lists l = {.each = XSMI_MIN(rows, block->top)};
    const size_t entries = block->count * l.each;
    l.lengths = (uint32_t *)(void *)memory;
    l.classes = memory ? l.lengths + block->count : NULL;
    l.scores = memory ? (float *)(void *)(l.classes + entries) : NULL;
    l.bytes = block->count * sizeof *l.lengths + entries * (sizeof *l.classes + sizeof *l.scores);
    return l;
}

typedef struct merge_job {
    const xsmi_index_lister *lister;
    const xsm_index_block *block;
    uint32_t pieces, ranks;
    lists mine;
    const unsigned char *all;
    unsigned char *scratch; /* [threads][scratch of a query] */
    xsm_status *status;     /* [pieces] */
    xsm_error *errors;      /* the same */
    size_t *sizes;          /* [ranks] */
} merge_job;

/* Bytes of a thread. */
static size_t scratch_of(const merge_job *j)
{
    const size_t needed = XSMI_MIN(j->lister->scratch, SIZE_MAX - XSMI_ALIGNMENT);
    return (needed + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT;
}

static void divide_work(merge_job *j, xsmi_arena *arena)
{
    const size_t threads = xsmi_context_threads(j->lister->context);
    j->scratch = xsmi_arena_take(arena, threads, scratch_of(j));
    j->status = xsmi_arena_take(arena, j->pieces, sizeof *j->status);
    j->errors = xsmi_arena_take(arena, j->pieces, sizeof *j->errors);
    j->sizes = xsmi_arena_take(arena, j->ranks, sizeof *j->sizes);
}

static uint32_t rows_of(const xsmi_index_part *part, uint32_t rank)
{
    return xsmi_part_size(part->classes, xsmi_ranks(part->group), rank);
}

static void list_piece(void *state, size_t index, uint32_t thread)
{
    const merge_job *j = state;
    const uint32_t first = xsmi_index_piece(j->block->count, j->pieces, index);
    xsm_index_block own = *j->block;
    own.top = (uint32_t)j->mine.each;
    own.list_stride = j->mine.each;
    own.classes = j->mine.classes;
    own.scores = j->mine.scores;
    own.lengths = j->mine.lengths;
    own.scratch = j->scratch + thread * scratch_of(j);
    own = xsmi_index_part_of_block(&own, first, xsmi_index_piece(j->block->count, j->pieces, index + 1));
    j->errors[index] = (xsm_error)XSM_ERROR_INIT;
    j->status[index] = j->lister->query(j->lister->state, &own, &j->errors[index]);
}

static void merge_query(void *state, size_t index, uint32_t thread)
{
    const merge_job *j = state;
    const xsmi_index_part *part = j->lister->part;
    const xsmi_top top = xsmi_block_list(j->block, (uint32_t)index);
    const unsigned char *block = j->all;
    uint32_t length = 0;
    (void)thread;
    if (!j->lister->every) {
        xsmi_top_start(&top);
    }
    for (uint32_t r = 0; r < j->ranks; r++) {
        const lists l = divide_lists(j->block, rows_of(part, r), (unsigned char *)(uintptr_t)block);
        const uint32_t start = xsmi_part_start(part->classes, j->ranks, r);
        for (size_t i = index * l.each; i < index * l.each + l.lengths[index]; i++) {
            if (j->lister->every) {
                top.class_of[length] = start + l.classes[i];
                top.score[length++] = l.scores[i];
            } else {
                xsmi_top_offer_any(&top, l.scores[i], start + l.classes[i]);
            }
        }
        block += l.bytes;
    }
    if (j->lister->every) {
        j->block->lengths[index] = length;
    } else {
        xsmi_block_end_list(j->block, (uint32_t)index);
    }
}

/* This rank's lists, and room for those of all. */
static xsm_status list_mine(merge_job *j, xsmi_index_desk *desk, xsm_error *err)
{
    const xsmi_index_lister *of = j->lister;
    size_t all = 0;
    xsmi_arena counted = {NULL, 0};
    divide_work(j, &counted);
    for (uint32_t r = 0; r < j->ranks; r++) {
        all += divide_lists(j->block, rows_of(of->part, r), NULL).bytes;
    }
    const size_t mine = divide_lists(j->block, of->rows, NULL).bytes;
    if (counted.used == SIZE_MAX || !xsmi_reserve(of->context, &desk->work, &desk->work_bytes, counted.used, 1) ||
        !xsmi_reserve(of->context, &desk->mine, &desk->mine_bytes, mine, 1) ||
        !xsmi_reserve(of->context, &desk->all, &desk->all_bytes, all, 1)) {
        return xsmi_fail_memory(err, XSMI_MAX(counted.used, all), "what a search finds");
    }
    xsmi_arena arena = {desk->work, 0};
    divide_work(j, &arena);
    j->mine = divide_lists(j->block, of->rows, desk->mine);
    j->all = desk->all;
    for (uint32_t r = 0; r < j->ranks; r++) {
        j->sizes[r] = divide_lists(j->block, rows_of(of->part, r), NULL).bytes;
    }
    XSMI_TRY(xsmi_run(of->context, list_piece, j, j->pieces, err));
    for (uint32_t i = 0; i < j->pieces; i++) {
        if (j->status[i] != XSM_OK) {
            return xsmi_fail_copy(err, &j->errors[i]);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_index_merge(const xsmi_index_lister *lister, const xsm_index_block *block, xsmi_index_desk *desk,
                            xsm_status status, xsm_error *err)
{
    xsm_context *group = lister->part->group;
    merge_job j = {.lister = lister, .block = block, .ranks = xsmi_ranks(group)};
    j.pieces = xsmi_index_pieces(lister->context, block->count);
    status = status == XSM_OK ? list_mine(&j, desk, err) : status;
    XSMI_TRY(xsmi_agree(group, status, err));
    XSMI_TRY(xsmi_exchange_blocks(group, desk->mine, desk->all, j.sizes, err));
    xsmi_run_surely(lister->context, merge_query, &j, block->count); /* nothing is left that a rank could fail in */
    return XSM_OK;
}
