/*
 * Scores (logits) of every class: log-sum-exp over all classes, the target's score and the best classes, for blocks of
 * rows.
 *
 * The sums of a row's tiles are added in rising order of classes, in double precision, each relative to the largest
 * score of the class run so far (XSMI_RUN_CLASSES); the sums of class runs are joined in rising order. Tile borders are
 * fixed, so that a row's result has the same bits whatever other rows are scored with it and on any number of threads.
 */
#include "model/score_all.h"
#include "model/screen.h"
#include "model/tiles.h"
#include "base/arena.h"
#include "base/top.h"
#include "model/filter.h"
#include "kernels/arithmetic.h"
#include "base/order.h"

#include <math.h>

/* The kernel makes top lists up to this length, sorted, in lanes; longer ones are heaps. */
#define TOP_IN_LANES 32
/* Number of classes of a row's tile that are skipped together if none of them can enter the top list. */
#define TOP_RUN 64

typedef struct score_all_state {
    const xsm_model *model;
    xsmi_score_all *blocks;
    float *max;          /* [blocks][XSMI_LANES] of the class run */
    double *sum;         /* [blocks][XSMI_LANES] of the class run */
    xsmi_log_sum *total; /* [blocks][XSMI_LANES] of the class runs before */
    float *target_score; /* [blocks][XSMI_LANES] targets' scores */
    uint32_t *target;    /* [blocks][XSMI_LANES] the targets, XSMI_NO_CLASS without a row or a target */
    /* For packed tiles with short top lists: [blocks][top][XSMI_LANES]. Other lists are made in the results. */
    float *top_score;
    uint32_t *top_class;
    /* For a calibrated model, otherwise NULL: the sums of the scaled scores, as those of the scores, and scratch
     * memory. */
    float *scaled_max;
    double *scaled_sum;
    float *scaled;
} score_all_state;

static bool lists_in_lanes(const xsm_model *m, bool sparse, uint32_t top, bool filtered)
{
    return xsmi_tiles_packed(m, sparse) && top <= TOP_IN_LANES && !filtered;
}

static void divide_scratch(const xsm_model *m, bool sparse, size_t blocks, uint32_t top, bool filtered,
                           xsmi_arena *arena, score_all_state *s)
{
    size_t rows = blocks * XSMI_LANES;
    s->max = xsmi_arena_take(arena, rows, sizeof *s->max);
    s->sum = xsmi_arena_take(arena, rows, sizeof *s->sum);
    s->total = xsmi_arena_take(arena, rows, sizeof *s->total);
    s->target_score = xsmi_arena_take(arena, rows, sizeof *s->target_score);
    s->target = xsmi_arena_take(arena, rows, sizeof *s->target);
    if (lists_in_lanes(m, sparse, top, filtered)) {
        s->top_score = xsmi_arena_take(arena, (uint64_t)rows * top, sizeof *s->top_score);
        s->top_class = xsmi_arena_take(arena, (uint64_t)rows * top, sizeof *s->top_class);
    }
    if (m->calibration.method != XSM_CALIBRATION_NONE) {
        const size_t tiles = m->calibration.method == XSM_CALIBRATION_LABELS ? 4 : 1;
        s->scaled_max = xsmi_arena_take(arena, rows, sizeof *s->scaled_max);
        s->scaled_sum = xsmi_arena_take(arena, rows, sizeof *s->scaled_sum);
        s->scaled = xsmi_arena_take(arena, tiles * XSMI_TILE_FLOATS, sizeof *s->scaled);
    }
}

size_t xsmi_model_score_all_scratch(const xsm_model *m, bool sparse, size_t blocks, uint32_t top)
{
    xsmi_arena arena = {NULL, 0};
    score_all_state s = {.model = m};
    divide_scratch(m, sparse, blocks, top, false, &arena, &s); /* with filters, less is needed */
    const size_t tiles = xsmi_tiles_scratch(m, sparse, blocks);
    const size_t screened = xsmi_model_screens(m, sparse, top) ? xsmi_model_screen_scratch(m, top) : 0;
    size_t total;
    return tiles == SIZE_MAX || !xsmi_add(arena.used, tiles, &total) ? SIZE_MAX : XSMI_MAX(total, screened);
}

/* Returns a row's top list in the results. */
static xsmi_top row_list(const xsmi_score_all *block, size_t row)
{
    xsmi_top list = {block->top_score + row * block->top, block->top_class + row * block->top, block->top};
    return list;
}

/* Returns a block's part of the state as the kernels take it. */
static xsmi_reduction block_reduction(const score_all_state *s, size_t block, bool in_lanes)
{
    size_t base = block * XSMI_LANES;
    uint32_t top = in_lanes ? s->blocks[block].top : 0;
    xsmi_reduction r = {
        .max = s->max + base,
        .sum = s->sum + base,
        .top = top,
        .top_score = top ? s->top_score + base * top : NULL,
        .top_class = top ? s->top_class + base * top : NULL,
        .target = s->target + base,
        .target_score = s->target_score + base,
        .lanes = s->blocks[block].rows,
    };
    return r;
}

/* Offers a tile's scores to the lists of rows with filters. */
static void offer_filtered(const xsmi_score_all *block, const xsmi_tile *tile)
{
    float least[XSMI_LANES]; /* the worst score of each list */
    for (size_t row = 0; row < XSMI_LANES; row++) {
        least[row] = row < block->rows ? row_list(block, row).score[0] : INFINITY;
    }
    for (uint32_t c = 0; c < tile->count; c++) {
        const float *scores = tile->scores + (size_t)c * XSMI_LANES;
        uint32_t any = 0;
        for (size_t row = 0; row < XSMI_LANES; row++) {
            any |= scores[row] > least[row];
        }
        for (size_t row = 0; any && row < block->rows; row++) {
            const xsmi_top list = row_list(block, row);
            xsmi_top_offer_left(&list, scores[row], tile->first + c, &block->filters[row]);
            least[row] = list.score[0];
        }
    }
}

static void reduce_lanes(score_all_state *s, const xsmi_tile *tile)
{
    xsmi_score_all *block = &s->blocks[tile->block];
    bool in_lanes = block->top <= TOP_IN_LANES && !block->filters;
    xsmi_reduction r = block_reduction(s, tile->block, in_lanes);
    s->model->kernels->reduce_tile(tile->scores, tile->count, tile->first, &r);
    if (block->filters && block->top) {
        offer_filtered(block, tile);
    } else if (!in_lanes) {
        for (size_t row = 0; row < block->rows; row++) {
            xsmi_top list = row_list(block, row);
            for (uint32_t c = 0; c < tile->count; c++) {
                xsmi_top_offer(&list, tile->scores[c * XSMI_LANES + row], tile->first + c);
            }
        }
    }
}

static void reduce_row(score_all_state *s, const xsmi_tile *tile)
{
    const xsmi_kernels *kernels = s->model->kernels;
    xsmi_score_all *block = &s->blocks[tile->block];
    size_t position = tile->block * XSMI_LANES + tile->row;
    float max = s->max[position];
    xsmi_top list = {NULL, NULL, 0};
    if (block->top) {
        list = row_list(block, tile->row);
    }
    for (uint32_t c = 0; c < tile->count; c += TOP_RUN) {
        uint32_t run = XSMI_MIN(tile->count - c, TOP_RUN);
        float best = kernels->row_max(tile->scores + c, run);
        if (block->top && !(best <= list.score[0])) { /* also if it is NaN: other scores of the class run may enter */
            for (uint32_t k = c; k < c + run; k++) {
                xsmi_top_offer_left(&list, tile->scores[k], tile->first + k,
                                    block->filters ? &block->filters[tile->row] : NULL);
            }
        }
        if (best != best) {
            s->sum[position] = NAN; /* it stays NaN, as later sums are added to it */
        } else if (best > max) {
            max = best;
        }
    }
    /* If every score is -INFINITY, shifting by 0 gives exponentials of 0, not NaN. */
    float shift = max == -INFINITY ? 0.0f : max;
    double before = s->sum[position] * (double)xsmi_expf0(s->max[position] - shift);
    s->sum[position] = before + kernels->row_sum_exp(tile->scores, tile->count, shift);
    s->max[position] = max;
    uint32_t target = s->target[position];
    if (target >= tile->first && target - tile->first < tile->count) {
        s->target_score[position] = tile->scores[target - tile->first];
    }
}

/* Adds a tile of a calibrated model to the sums for its probabilities. */
static void reduce_scaled(score_all_state *s, const xsmi_tile *tile)
{
    const xsmi_calibration *c = &s->model->calibration;
    const size_t base = tile->block * XSMI_LANES, rows = s->blocks[tile->block].rows;
    if (c->method == XSM_CALIBRATION_LABELS) {
        xsmi_add_branches(s->model->kernels, tile, rows, c, s->scaled_sum + base, s->scaled);
    } else {
        xsmi_add_exponentials(s->model->kernels, tile, rows, (float)c->scale, s->scaled_max + base,
                              s->scaled_sum + base, s->scaled);
    }
}

/* Ends the class run of `class` for some rows: adds it to their totals, and starts the next. */
static void end_runs(score_all_state *s, size_t position, size_t rows, uint32_t class)
{
    const int32_t method = s->model->calibration.method;
    const xsmi_score_all *block = &s->blocks[position / XSMI_LANES];
    for (size_t i = position; i < position + rows; i++) {
        xsmi_log_sum run = {s->max[i], s->sum[i]};
        if (s->scaled) {
            run = (xsmi_log_sum){s->scaled_max[i], s->scaled_sum[i]};
            s->scaled_max[i] = xsmi_run_start(method);
            s->scaled_sum[i] = 0;
        }
        if (block->runs) {
            block->runs[i % XSMI_LANES * block->run_count + class / XSMI_RUN_CLASSES] = run;
        }
        xsmi_log_sum_join(&s->total[i], &run);
        s->max[i] = -INFINITY;
        s->sum[i] = 0;
    }
}

static void reduce_tile(void *state, const xsmi_tile *tile)
{
    score_all_state *s = state;
    const size_t position = tile->block * XSMI_LANES;
    if (tile->lanes) {
        reduce_lanes(s, tile);
    } else {
        reduce_row(s, tile);
    }
    if (s->scaled) {
        reduce_scaled(s, tile);
    }
    if ((tile->first + tile->count) % XSMI_RUN_CLASSES == 0) {
        end_runs(s, tile->lanes ? position : position + tile->row, tile->lanes ? s->blocks[tile->block].rows : 1,
                 tile->first);
    }
}

static void start(score_all_state *s, size_t count, bool in_lanes)
{
    for (size_t b = 0; b < count; b++) {
        const xsmi_score_all *block = &s->blocks[b];
        xsmi_reduction r = block_reduction(s, b, in_lanes);
        xsmi_reduction_start(&r);
        for (size_t row = 0; row < XSMI_LANES; row++) {
            bool wanted = block->target && row < block->rows;
            s->target[b * XSMI_LANES + row] = wanted ? block->target[row] : XSMI_NO_CLASS;
            s->total[b * XSMI_LANES + row] = (xsmi_log_sum)XSMI_LOG_SUM_INIT;
            if (s->scaled) {
                s->scaled_max[b * XSMI_LANES + row] = xsmi_run_start(s->model->calibration.method);
                s->scaled_sum[b * XSMI_LANES + row] = 0;
            }
        }
        for (size_t row = 0; !in_lanes && block->top && row < block->rows; row++) {
            xsmi_top list = row_list(block, row);
            xsmi_top_start(&list);
        }
    }
}

static void finish(score_all_state *s, size_t count, bool in_lanes)
{
    for (size_t b = 0; b < count; b++) {
        xsmi_score_all *block = &s->blocks[b];
        if (s->model->classes % XSMI_RUN_CLASSES != 0) {
            end_runs(s, b * XSMI_LANES, block->rows, s->model->classes);
        }
        for (size_t row = 0; row < block->rows; row++) {
            size_t position = b * XSMI_LANES + row;
            block->log_sum_exp[row] = xsmi_log_partition(s->model->calibration.method, &s->total[position]);
            if (block->target) {
                block->target_score[row] = s->target_score[position];
            }
            if (!block->top) {
                continue;
            }
            xsmi_top list = row_list(block, row);
            if (!in_lanes) {
                xsmi_top_sort(&list);
                continue;
            }
            for (size_t k = 0; k < block->top; k++) {
                size_t entry = (b * block->top + k) * XSMI_LANES + row;
                list.score[k] = s->top_score[entry];
                list.class_of[k] = s->top_class[entry];
            }
        }
    }
}

/* Scores blocks of at most XSMI_LANES rows, at least one. All have the same `sparse` and `top`, and all have filters or
 * none has. */
static void score_blocks(const xsm_model *m, xsmi_score_all *blocks, size_t count, void *scratch,
                         const xsm_context *ctx)
{
    bool sparse = blocks[0].sparse;
    uint32_t top = blocks[0].top;
    const bool filtered = blocks[0].filters != NULL, in_lanes = lists_in_lanes(m, sparse, top, filtered);
    xsmi_arena arena = {scratch, 0};
    score_all_state state = {.model = m, .blocks = blocks};
    divide_scratch(m, sparse, count, top, filtered, &arena, &state);
    start(&state, count, in_lanes);

    xsmi_features features[XSMI_TILE_ROWS];
    size_t counts[XSMI_TILE_BLOCKS];
    for (size_t b = 0; b < count; b++) {
        counts[b] = blocks[b].rows;
        for (size_t row = 0; row < blocks[b].rows; row++) {
            features[b * XSMI_LANES + row] = blocks[b].features[row];
        }
    }
    xsmi_tile_rows rows = {features, counts, count, sparse};
    const xsmi_tile_call call = {m, &rows, 0, m->classes, reduce_tile, &state, ctx, false, false, false};
    xsmi_tiles_score(&call, arena.base + arena.used);
    finish(&state, count, in_lanes);
}

/* Screens a single row of which the list alone is needed. False if its classes are yet to be scored. */
static bool screen_row(const xsm_model *m, const xsmi_score_all *rows, void *scratch, const xsm_context *ctx)
{
    const xsmi_top list = {rows->top_score, rows->top_class, rows->top};
    if (!rows->lists_alone || rows->rows != 1 || rows->filters || !xsmi_model_screens(m, rows->sparse, rows->top)) {
        return false;
    }
    rows->log_sum_exp[0] = 0;
    return xsmi_model_screen(m, rows->features, &list, scratch, ctx);
}

void xsmi_model_score_rows(const xsm_model *m, const xsmi_score_all *rows, void *scratch, const xsm_context *ctx)
{
    if (screen_row(m, rows, scratch, ctx)) {
        return;
    }
    xsmi_score_all blocks[XSMI_TILE_BLOCKS];
    size_t count = 0;
    for (size_t i = 0; i < rows->rows; i += XSMI_LANES) {
        xsmi_score_all *b = &blocks[count++];
        *b = *rows;
        b->rows = XSMI_MIN(rows->rows - i, XSMI_LANES);
        b->features += i;
        b->filters = rows->filters ? rows->filters + i : NULL;
        b->target = rows->target ? rows->target + i : NULL;
        b->log_sum_exp += i;
        b->runs = rows->runs ? rows->runs + i * rows->run_count : NULL;
        b->target_score += i;
        b->top_score += i * rows->top;
        b->top_class += i * rows->top;
    }
    if (count > 0) {
        score_blocks(m, blocks, count, scratch, ctx);
    }
}
