/*
 * Tiles of scores (logits) with the model's correction, or of log-probabilities in its hierarchy.
 */
#include "model/tiles.h"
#include "model/plain_tiles.h"
#include "model/sparse_tiles.h"
#include "base/activity.h"
#include "base/order.h"

#include <string.h>

/* Bytes of log-probabilities of all classes that a sweep over a hierarchy may use for each thread, or those of one
 * block if that is more. */
#define SWEPT_BYTES ((size_t)32 << 20)

typedef struct scratch {
    xsmi_plain_scratch plain;
    void *prepared; /* by a correction for one block */
    /* with a hierarchy, for each of several blocks */
    float *log_p;  /* [classes][XSMI_LANES] */
    float *stack;  /* stack of its sweep */
    float *nodes;  /* [XSMI_ROW_TILE][XSMI_LANES] scores of a tile, when scored row by row */
    float *rows;   /* [XSMI_LANES][inner nodes] of sparse weights, whose tiles come row after row: all scores */
    float *labels; /* for label trees */
} scratch;

/* Blocks whose log-probabilities in a hierarchy are kept at once. */
static size_t swept_together(const xsm_model *m, size_t blocks)
{
    const size_t numbers = m->w.sparse ? 2 : 1; /* of a class and row */
    size_t most = SWEPT_BYTES / ((size_t)m->hierarchy->classes * XSMI_LANES * numbers * sizeof(float));
    return XSMI_CLAMP(most, 1, blocks);
}

static void divide_scratch(const xsm_model *m, bool sparse, size_t blocks, xsmi_arena *arena, scratch *s)
{
    const xsmi_class_tree *h = m->hierarchy;
    if (m->trees) {
        s->labels = xsmi_arena_take(arena, xsmi_label_tiles_scratch(m, blocks), sizeof *s->labels);
        return;
    }
    xsmi_plain_divide(m, sparse, blocks, arena, &s->plain);
    if (h) {
        size_t together = swept_together(m, blocks);
        s->log_p = xsmi_arena_take(arena, together * h->classes, XSMI_LANES * sizeof *s->log_p);
        s->stack = xsmi_arena_take(arena, together * xsmi_hierarchy_stack(h), sizeof *s->stack);
        s->nodes = xsmi_arena_take(arena, together * XSMI_ROW_TILE, XSMI_LANES * sizeof *s->nodes);
        s->rows = xsmi_arena_take(arena, m->w.sparse ? together * h->inner : 0, XSMI_LANES * sizeof *s->rows);
    }
    s->prepared = xsmi_arena_take(arena, m->correction ? m->correction->block : 0, 1);
}

size_t xsmi_tiles_scratch(const xsm_model *m, bool sparse, size_t blocks)
{
    xsmi_arena arena = {NULL, 0};
    scratch s;
    divide_scratch(m, sparse, blocks, &arena, &s);
    return arena.used;
}

/* -- corrections --------------------------------------------------------------------------------------------------- */

typedef struct corrected {
    const xsmi_tile_call *call;
    const xsmi_tile_rows *rows; /* of these blocks, themselves, not their hidden vectors */
    size_t block;               /* the number of the first one in the call */
    const void *prepared;
} corrected;

/* Adds the correction to a tile, which is in scratch memory, and passes it on. */
static void correct_tile(void *state, const xsmi_tile *tile)
{
    const corrected *c = state;
    const xsmi_correction *correction = c->call->model->correction;
    const xsmi_features *rows = c->rows->features + tile->block * XSMI_LANES;
    float *scores = (float *)(uintptr_t)tile->scores;
    correction->kind->tile(correction, tile, rows, c->rows->counts[tile->block], c->prepared, scores);
    xsmi_tile moved = *tile;
    moved.block += c->block;
    c->call->consume(c->call->state, &moved);
}

/* What a kind prepares for a block may need as much memory as its scores of all classes: then one block at a time. */
static void score_corrected(const xsmi_tile_call *call, scratch *s)
{
    const xsm_model *m = call->model;
    const xsmi_tile_rows *rows = call->rows;
    const xsmi_correction_kind *kind = m->correction->kind;
    const size_t together = kind->prepare ? 1 : rows->blocks;
    for (size_t b = 0; b < rows->blocks; b += together) {
        const xsmi_tile_rows group = {rows->features + b * XSMI_LANES, rows->counts + b, together, rows->sparse};
        if (kind->prepare) {
            kind->prepare(m->correction, m->kernels, group.features, group.counts[0], s->prepared);
        }
        corrected c = {call, &group, b, s->prepared};
        const xsmi_tile_call plain = {m, &group, call->first, call->end, correct_tile, &c, call->context, call->stores};
        xsmi_plain_score(&plain, &s->plain);
    }
}

/* -- hierarchies --------------------------------------------------------------------------------------------------- */

typedef struct swept {
    xsmi_hierarchy_sweep sweep[XSMI_TILE_BLOCKS];
    float *nodes;         /* scratch's */
    const size_t *counts; /* rows of each block */
} swept;

/* Consumes a tile of nodes: at once, or after the tile of the block's last row. */
static void sweep_tile(void *state, const xsmi_tile *tile)
{
    swept *w = state;
    if (tile->lanes) {
        xsmi_hierarchy_consume(&w->sweep[tile->block], tile->scores, tile->count);
        return;
    }
    float *nodes = w->nodes + tile->block * XSMI_ROW_TILE * XSMI_LANES;
    for (uint32_t i = 0; i < tile->count; i++) {
        nodes[(size_t)i * XSMI_LANES + tile->row] = tile->scores[i];
    }
    if (tile->row + 1 == w->counts[tile->block]) {
        xsmi_hierarchy_consume(&w->sweep[tile->block], nodes, tile->count);
    }
}

/* Keeps a tile of nodes for sweep_given(). */
typedef struct kept {
    float *rows;
    size_t stride;
} kept;

static void keep_tile(void *state, const xsmi_tile *tile)
{
    const kept *k = state;
    memcpy(k->rows + (tile->block * XSMI_LANES + tile->row) * k->stride + tile->first, tile->scores,
           tile->count * sizeof *k->rows);
}

/* Consumes scores of all nodes, row by row. */
static void sweep_given(swept *w, size_t block, const float *scores, size_t stride, const xsm_context *ctx)
{
    float *nodes = w->nodes + block * XSMI_ROW_TILE * XSMI_LANES;
    const uint32_t inner = w->sweep[block].tree->inner;
    for (uint32_t first = 0, count; first < inner && !xsmi_poll(ctx); first += count) {
        count = XSMI_MIN(inner - first, XSMI_ROW_TILE);
        for (size_t l = 0; l < w->counts[block]; l++) {
            for (uint32_t i = 0; i < count; i++) {
                nodes[(size_t)i * XSMI_LANES + l] = scores[l * stride + first + i];
            }
        }
        xsmi_hierarchy_consume(&w->sweep[block], nodes, count);
    }
}

/* Passes a block's log-probabilities on as tiles. */
static void pass_swept(const xsmi_tile_call *call, size_t block, const float *log_p, float *scores)
{
    const bool lanes = xsmi_tiles_packed(call->model, call->rows->sparse);
    const uint32_t most = lanes ? XSMI_CLASS_TILE : XSMI_ROW_TILE;
    for (uint32_t tile = call->first, count; tile < call->end; tile += count) {
        count = xsmi_tile_classes(tile, call->end, most);
        if (xsmi_poll(call->context)) {
            return;
        }
        const float *from = log_p + (size_t)tile * XSMI_LANES;
        if (lanes) {
            xsmi_tile t = {block, 0, true, tile, count, from};
            call->consume(call->state, &t);
        }
        for (size_t l = 0; !lanes && l < call->rows->counts[block]; l++) {
            for (uint32_t c = 0; c < count; c++) {
                scores[c] = from[(size_t)c * XSMI_LANES + l];
            }
            xsmi_tile t = {block, l, false, tile, count, scores};
            call->consume(call->state, &t);
        }
    }
}

/* Converts the nodes' scores of several blocks, which may be given, to log-probabilities of all classes, which are then
 * the tiles. */
static void score_hierarchy(const xsmi_tile_call *call, const xsmi_node_scores *given, scratch *s)
{
    const xsm_model *m = call->model;
    const xsmi_tile_rows *rows = call->rows;
    const xsmi_class_tree *h = m->hierarchy;
    const size_t together = swept_together(m, rows->blocks), each = (size_t)h->classes * XSMI_LANES;
    for (size_t b = 0; b < rows->blocks; b += together) {
        size_t some = XSMI_MIN(rows->blocks - b, together);
        const xsmi_tile_rows group = {rows->features + b * XSMI_LANES, rows->counts + b, some, rows->sparse};
        swept w = {.nodes = s->nodes, .counts = group.counts};
        for (size_t i = 0; i < some; i++) {
            w.sweep[i] = (xsmi_hierarchy_sweep){
                h, m->kernels, s->log_p + i * each, s->stack + i * xsmi_hierarchy_stack(h), 0, 0};
            xsmi_hierarchy_start_sweep(&w.sweep[i]);
        }
        memset(s->nodes, 0, some * XSMI_ROW_TILE * XSMI_LANES * sizeof *s->nodes);
        kept all = {s->rows, h->inner};
        const xsmi_tile_call nodes = {m,
                                      &group,
                                      0,
                                      h->inner,
                                      m->w.sparse ? keep_tile : sweep_tile,
                                      m->w.sparse ? (void *)&all : &w,
                                      call->context,
                                      call->stores};
        if (!given) {
            xsmi_plain_score(&nodes, &s->plain);
        }
        for (size_t i = 0; i < some && (given || m->w.sparse); i++) {
            const float *scores = given ? given->of[b + i] : s->rows + i * XSMI_LANES * h->inner;
            sweep_given(&w, i, scores, given ? given->stride : h->inner, call->context);
        }
        for (size_t i = 0; i < some; i++) {
            pass_swept(call, b + i, s->log_p + i * each, s->plain.scores);
        }
    }
}

void xsmi_tiles_score(const xsmi_tile_call *call, void *memory)
{
    const xsm_model *m = call->model;
    xsmi_arena arena = {memory, 0};
    scratch s;
    divide_scratch(m, call->rows->sparse, call->rows->blocks, &arena, &s);
    if (m->trees) {
        xsmi_label_tiles(call, s.labels);
    } else if (m->hierarchy) {
        score_hierarchy(call, NULL, &s);
    } else if (m->correction) {
        score_corrected(call, &s);
    } else {
        xsmi_plain_score(call, &s.plain);
    }
}

void xsmi_tiles_sweep(const xsmi_tile_call *call, const xsmi_node_scores *nodes, void *memory)
{
    xsmi_arena arena = {memory, 0};
    scratch s;
    divide_scratch(call->model, call->rows->sparse, call->rows->blocks, &arena, &s);
    score_hierarchy(call, nodes, &s);
}
