/*
 * Tiles of scores (logits) with the model's correction, of log-probabilities in its hierarchy, or of label trees, which
 * are swept once for as many rows as there is scratch memory for.
 */
#include "model/tiles.h"
#include "model/plain_tiles.h"
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

/* -- label trees --------------------------------------------------------------------------------------------------- */

/* Bytes of log-probabilities of all nodes that a sweep over label trees may use for each thread, or those of one row if
 * that is more. Parents come before their children. */
#define NODE_BYTES ((size_t)32 << 20)

/* Rows that are swept together. */
static size_t rows_together(const xsm_model *m, size_t blocks)
{
    const size_t most = NODE_BYTES / (m->trees->nodes * sizeof(float));
    return XSMI_CLAMP(most, 1, blocks * XSMI_LANES);
}

static size_t label_floats(const xsm_model *m, size_t blocks)
{
    return rows_together(m, blocks) * m->trees->nodes + m->trees->widest + XSMI_ROW_TILE;
}

/* Log-probabilities of all nodes of all trees, log_p[tree's nodes, one tree after another], for some rows. False when
 * the call was cancelled. */
static bool sweep_trees(const xsmi_tile_call *call, const xsmi_features *rows, size_t count, float *log_p, float *z)
{
    const xsmi_label_trees *l = call->model->trees;
    size_t offset = 0;
    for (uint32_t t = 0; t < l->count; t++) {
        const xsmi_class_tree *tree = l->tree[t].tree;
        for (uint32_t v = 0; v < tree->nodes; v++) {
            const uint32_t first = tree->first_child[v], end = tree->first_child[v + 1];
            if (v > 0 && first == end) {
                continue;
            }
            if (xsmi_poll(call->context)) {
                return false;
            }
            for (size_t r = 0; r < count; r++) {
                float *to = log_p + r * l->nodes + offset;
                const float before = v == 0 ? 0 : to[v];
                xsmi_label_children(l, t, v, &rows[r], z);
                for (uint32_t i = first; i < end; i++) {
                    to[i] = before + z[i - first];
                }
            }
        }
        offset += tree->nodes;
    }
    return true;
}

/* Passes a row's scores on. */
static void pass_row(const xsmi_tile_call *call, size_t number, const float *log_p, float *scores)
{
    const xsmi_label_trees *l = call->model->trees;
    for (uint32_t tile = call->first, count; tile < call->end; tile += count) {
        count = xsmi_tile_classes(tile, call->end, XSMI_ROW_TILE);
        for (uint32_t c = 0; c < count; c++) {
            float p[XSMI_LABEL_TREES] = {0};
            size_t offset = 0;
            for (uint32_t t = 0; t < l->count; t++) {
                p[t] = log_p[offset + l->tree[t].tree->class_leaf[tile + c]];
                offset += l->tree[t].tree->nodes;
            }
            scores[c] = xsmi_label_mean(p, l->count);
        }
        xsmi_tile t = {number / XSMI_LANES, number % XSMI_LANES, false, tile, count, scores};
        call->consume(call->state, &t);
    }
}

static void score_label_trees(const xsmi_tile_call *call, float *memory)
{
    const xsm_model *m = call->model;
    const xsmi_tile_rows *rows = call->rows;
    const size_t together = rows_together(m, rows->blocks);
    float *log_p = memory, *z = log_p + together * m->trees->nodes, *scores = z + m->trees->widest;
    for (size_t b = 0; b < rows->blocks; b++) {
        for (size_t l = 0; l < rows->counts[b];) { /* of one block, as the last one has fewer rows */
            const size_t some = XSMI_MIN(rows->counts[b] - l, together), first = b * XSMI_LANES + l;
            if (!sweep_trees(call, rows->features + first, some, log_p, z)) {
                return;
            }
            for (size_t r = 0; r < some; r++) {
                pass_row(call, first + r, log_p + r * m->trees->nodes, scores);
            }
            l += some;
        }
    }
}

/* -- scratch ------------------------------------------------------------------------------------------------------- */

static void divide_scratch(const xsm_model *m, bool sparse, size_t blocks, xsmi_arena *arena, scratch *s)
{
    const xsmi_class_tree *h = m->hierarchy;
    if (m->trees) {
        s->labels = xsmi_arena_take(arena, label_floats(m, blocks), sizeof *s->labels);
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

/* Keeps a tile of nodes for sweep_kept(). */
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
static void sweep_kept(swept *w, size_t block, const float *scores, const xsm_context *ctx)
{
    float *nodes = w->nodes + block * XSMI_ROW_TILE * XSMI_LANES;
    const uint32_t inner = w->sweep[block].tree->inner;
    for (uint32_t first = 0, count; first < inner && !xsmi_poll(ctx); first += count) {
        count = XSMI_MIN(inner - first, XSMI_ROW_TILE);
        for (size_t l = 0; l < w->counts[block]; l++) {
            for (uint32_t i = 0; i < count; i++) {
                nodes[(size_t)i * XSMI_LANES + l] = scores[l * inner + first + i];
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

/* Converts the nodes' scores of several blocks to log-probabilities of all classes, which are then the tiles. */
static void score_hierarchy(const xsmi_tile_call *call, scratch *s)
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
        xsmi_plain_score(&nodes, &s->plain);
        for (size_t i = 0; i < some && m->w.sparse; i++) {
            sweep_kept(&w, i, s->rows + i * XSMI_LANES * h->inner, call->context);
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
        score_label_trees(call, s.labels);
    } else if (m->hierarchy) {
        score_hierarchy(call, &s);
    } else if (m->correction) {
        score_corrected(call, &s);
    } else {
        xsmi_plain_score(call, &s.plain);
    }
}
