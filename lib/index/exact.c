/*
 * The exact index: every row is scored against a block of queries, tile by tile, and the best of each are kept in
 * heaps. Rows are copied, so that a search reads them in one stream, each with its bias.
 */
#include "index/index.h"

#include "base/activity.h"
#include "base/order.h"
#include "index/block.h"

#include <math.h>
#include <string.h>

typedef struct exact_state {
    xsm_context *context;
    const xsmi_kernels *kernels;
    float *rows; /* [count][stride] */
    uint32_t count, width;
    size_t stride;
} exact_state;

/* Rows copied by one job. */
#define COPY_ROWS 4096
/* With this many features or more, an activity is polled more often than once a tile. */
#define LONG_ROW 2048

typedef struct copy_job {
    exact_state *state;
    const xsm_index_source *source;
} copy_job;

static void run_copy(void *state, const xsmi_range *r)
{
    const copy_job *job = state;
    const uint32_t first = (uint32_t)r->first, count = (uint32_t)(r->end - r->first);
    job->source->read(job->source, NULL, first, count, job->state->rows + r->first * job->state->stride,
                      job->state->stride);
    xsmi_advance(job->state->context, count);
}

static void clear(void *state)
{
    exact_state *s = state;
    if (s->rows) {
        xsmi_release(s->context, s->rows, s->count, s->stride * sizeof *s->rows);
        s->rows = NULL;
    }
}

static xsm_status build(void *state, const xsm_index_source *source, xsm_error *err)
{
    exact_state *s = state;
    s->context = source->context;
    s->kernels = xsmi_context_kernels(source->context);
    s->count = source->count;
    s->width = source->width;
    s->stride = xsmi_row_stride(source->width);
    XSMI_TRY(xsmi_array_new(s->context, &s->rows, s->count, s->stride * sizeof *s->rows, "the rows of an index", err));
    copy_job job = {s, source};
    return xsmi_run_ranges(s->context, run_copy, &job, s->count, COPY_ROWS, err);
}

static xsm_status update(void *state, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                         xsm_error *err)
{
    exact_state *s = state;
    (void)err;
    for (uint32_t j = 0; j < count; j++) {
        source->read(source, NULL, rows[j], 1, s->rows + rows[j] * s->stride, s->stride);
    }
    return XSM_OK;
}

enum { BLOCKS = XSM_INDEX_QUERIES / XSMI_LANES };

typedef struct scratch_arrays {
    float *packed[BLOCKS], *tile;
} scratch_arrays;

static scratch_arrays divide_scratch(const exact_state *s, xsmi_arena *arena)
{
    scratch_arrays p;
    for (int b = 0; b < BLOCKS; b++) {
        p.packed[b] = xsmi_arena_take(arena, (size_t)s->width * XSMI_LANES, sizeof(float));
    }
    p.tile = xsmi_arena_take(arena, XSMI_CLASS_TILE * XSMI_LANES, sizeof(float));
    return p;
}

static size_t scratch(const void *state, uint32_t top)
{
    xsmi_arena arena = {NULL, 0};
    (void)top;
    (void)divide_scratch(state, &arena);
    return arena.used;
}

/* -- searches ------------------------------------------------------------------------------------------------------ */

/* The scores of the rows first..first+classes with the queries at..at+n: row by row, XSMI_LANES apart. */
typedef struct scored {
    const float *tile;
    uint32_t first, classes, at, n;
} scored;

typedef void (*taker)(void *user, const scored *part);

/* Returns how many queries are in the lanes of the b-th block. */
static uint32_t queries_of(const xsm_index_block *block, uint32_t b)
{
    const uint32_t left = block->count - b * XSMI_LANES;
    return XSMI_MIN(left, XSMI_LANES);
}

/* Scores all rows with all queries, and hands the scores on in rising order of row. */
static xsm_status score_rows(const exact_state *s, const xsm_index_block *block, taker take, void *user, xsm_error *err)
{
    xsmi_arena arena = {block->scratch, 0};
    scratch_arrays p = divide_scratch(s, &arena);
    const uint32_t blocks = (block->count + XSMI_LANES - 1) / XSMI_LANES;
    const float *x[XSM_INDEX_QUERIES];
    for (uint32_t i = 0; i < block->count; i++) {
        x[i] = block->queries + i * block->stride;
    }
    for (uint32_t b = 0; b < blocks; b++) {
        const uint32_t n = queries_of(block, b);
        if (n > XSMI_FEW) {
            s->kernels->pack(x + b * XSMI_LANES, n, s->width, p.packed[b]);
        }
    }
    memset(p.tile, 0, XSMI_CLASS_TILE * XSMI_LANES * sizeof *p.tile); /* lanes without a query are read, too */
    for (uint32_t first = 0; first < s->count;) {
        uint32_t classes = s->count - first < XSMI_CLASS_TILE ? s->count - first : XSMI_CLASS_TILE;
        for (uint32_t b = 0; b < blocks; b++) {
            if ((b == 0 || s->width > LONG_ROW) && xsmi_poll(s->context)) {
                return xsmi_fail_cancelled(s->context, err);
            }
            const uint32_t at = b * XSMI_LANES, n = queries_of(block, b);
            const float *rows = s->rows + first * s->stride;
            if (n <= XSMI_FEW) {
                s->kernels->score_few(rows, s->stride, classes, x + at, n, s->width, 1, NULL, NULL, p.tile);
            } else {
                s->kernels->score_lanes(rows, s->stride, classes, p.packed[b], n, s->width, 1, NULL, NULL, p.tile);
            }
            take(user, &(scored){p.tile, first, classes, at, n});
        }
        first += classes;
    }
    return XSM_OK;
}

typedef struct best_lists {
    xsmi_top lists[XSM_INDEX_QUERIES];
    float least[XSM_INDEX_QUERIES]; /* the least score that counts: in full lists one above the worst */
} best_lists;

static void offer(void *user, const scored *part)
{
    best_lists *b = user;
    float *least = b->least + part->at;
    for (uint32_t c = 0; c < part->classes; c++) {
        const float *scores = part->tile + c * XSMI_LANES;
        uint32_t any = 0;
        for (uint32_t l = 0; l < XSMI_LANES; l++) {
            any |= scores[l] >= least[l];
        }
        for (uint32_t l = 0; any && l < part->n; l++) {
            if (scores[l] >= least[l]) {
                const xsmi_top *list = &b->lists[part->at + l];
                xsmi_block_offer(list, scores[l], part->first + c);
                least[l] = list->class_of[0] == XSMI_NO_CLASS ? least[l] : nextafterf(list->score[0], INFINITY);
            }
        }
    }
}

/* Copies scores into lists that are long enough for every row. */
static void copy(void *user, const scored *part)
{
    const best_lists *b = user;
    for (uint32_t l = 0; l < part->n; l++) {
        const xsmi_top *list = &b->lists[part->at + l];
        for (uint32_t c = 0; c < part->classes; c++) {
            list->score[part->first + c] = part->tile[c * XSMI_LANES + l];
            list->class_of[part->first + c] = part->first + c;
        }
    }
}

static xsm_status query(const void *state, const xsm_index_block *given, xsm_error *err)
{
    xsm_index_block read;
    XSMI_TRY(xsmi_index_read_block(given, &read, err));
    const xsm_index_block *block = &read;
    const exact_state *s = state;
    bool all = block->any_order && block->top == s->count && block->least_score == -INFINITY;
    best_lists best;
    for (uint32_t i = 0; i < XSM_INDEX_QUERIES; i++) {
        best.least[i] = i < block->count ? block->least_score : INFINITY;
        if (i < block->count) {
            best.lists[i] = xsmi_block_list(block, i);
            if (!all) {
                xsmi_top_start(&best.lists[i]);
            }
        }
    }
    XSMI_TRY(score_rows(s, block, all ? copy : offer, &best, err));
    for (uint32_t i = 0; i < block->count; i++) {
        if (all) {
            block->lengths[i] = block->top;
        } else {
            xsmi_block_end_list(block, i);
        }
        block->probed[i] = s->count;
    }
    return XSM_OK;
}

/* -- falling order on demand --------------------------------------------------------------------------------------- */

/* What a query has listed so far: all rows before the score last_score and the row `last`, in falling order. */
typedef struct exact_cursor {
    bool listed; /* any */
    float last_score;
    uint32_t last;
} exact_cursor;

typedef struct cursor_arrays {
    exact_cursor *place;
    float *scores; /* [count] */
} cursor_arrays;

static cursor_arrays divide_cursor(const exact_state *s, xsmi_arena *arena)
{
    cursor_arrays c;
    c.place = xsmi_arena_take(arena, 1, sizeof *c.place);
    c.scores = xsmi_arena_take(arena, s->count, sizeof *c.scores);
    return c;
}

static cursor_arrays cursor_of(const exact_state *s, const xsm_index_block *block, uint32_t query)
{
    xsmi_arena arena = xsmi_block_cursor(block, query);
    return divide_cursor(s, &arena);
}

static size_t cursor(const void *state)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide_cursor(state, &arena);
    return arena.used;
}

typedef struct keeper {
    const exact_state *state;
    const xsm_index_block *block;
} keeper;

static void keep(void *user, const scored *part)
{
    const keeper *k = user;
    for (uint32_t l = 0; l < part->n; l++) {
        float *scores = cursor_of(k->state, k->block, part->at + l).scores + part->first;
        for (uint32_t c = 0; c < part->classes; c++) {
            scores[c] = part->tile[c * XSMI_LANES + l];
        }
    }
}

static void list_more(const exact_state *s, const xsm_index_block *block, uint32_t query)
{
    const cursor_arrays c = cursor_of(s, block, query);
    const xsmi_top list = xsmi_block_list(block, query);
    const float last_score = c.place->listed ? c.place->last_score : INFINITY;
    xsmi_top_start(&list);
    for (uint32_t k = 0; k < s->count; k++) {
        const float z = c.scores[k];
        if (z >= list.score[0] && z <= last_score && (z < last_score || !c.place->listed || k > c.place->last)) {
            xsmi_block_offer(&list, z, k);
        }
    }
    xsmi_block_end_list(block, query);
}

/* Moves the cursors behind the lists. */
static void move_on(const exact_state *s, const xsm_index_block *block)
{
    for (uint32_t i = 0; i < block->count; i++) {
        const xsmi_top list = xsmi_block_list(block, i);
        const uint32_t length = block->lengths[i];
        if (length > 0) {
            *cursor_of(s, block, i).place = (exact_cursor){true, list.score[length - 1], list.class_of[length - 1]};
        }
    }
}

static xsm_status next(const void *state, const xsm_index_block *given, xsm_error *err)
{
    xsm_index_block block;
    const exact_state *s = state;
    XSMI_TRY(xsmi_index_read_next(given, cursor(state), &block, err));
    if (block.begin) {
        keeper k = {s, &block};
        for (uint32_t i = 0; i < block.count; i++) {
            *cursor_of(s, &block, i).place = (exact_cursor){false, 0, 0};
        }
        XSMI_TRY(score_rows(s, &block, keep, &k, err));
    }
    for (uint32_t i = 0; i < block.count; i++) {
        if (xsmi_poll(s->context)) {
            return xsmi_fail_cancelled(s->context, err);
        }
        list_more(s, &block, i);
        block.probed[i] = block.begin ? s->count : 0;
    }
    move_on(s, &block);
    return XSM_OK;
}

/* -- checkpoints --------------------------------------------------------------------------------------------------- */

/* Returns how many numbers a checkpoint needs for this index: none, as rows never move in an update. */
static uint64_t saved(const void *state, const xsm_index_source *source)
{
    (void)state;
    (void)source;
    return 0;
}

static void save(const void *state, const xsm_index_source *source, uint32_t *numbers)
{
    (void)state;
    (void)source;
    (void)numbers;
}

static xsm_status restore(void *state, const xsm_index_source *source, const uint32_t *numbers, xsm_error *err)
{
    (void)numbers;
    return build(state, source, err);
}

const xsm_index_ops xsmi_exact_index_ops = {
    .size = sizeof(xsm_index_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .flags = XSM_INDEX_UNCHECKED,
    .name = "exact",
    .summary = "scores every row",
    .state_size = sizeof(exact_state),
    .build = build,
    .clear = clear,
    .update = update,
    .scratch = scratch,
    .query = query,
    .saved = saved,
    .save = save,
    .restore = restore,
    .cursor = cursor,
    .next = next,
};
