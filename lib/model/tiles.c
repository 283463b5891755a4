/*
 * Tiles of scores (logits), computed in three ways.
 *
 * Dense rows, class-major weights: the rows of a block are packed so that the vector lanes run over them, and the
 * weights are read in place (kernels->score_tile). All blocks are scored against a tile of classes while its weights
 * are in the second cache, so that main memory is read once for all rows. For up to XSMI_FEW rows in all, the lanes run
 * over classes instead (kernels->score_few), with the same bits.
 *
 * Feature-major weights: a row's scores of a tile of classes are the sum of its features' weights, each a contiguous
 * run (kernels->column_sums).
 *
 * Sparse rows, class-major weights: the features that occur in any of the rows are found once; for a tile of classes
 * their weights are gathered into a compact feature-major matrix, which all rows use as above. Gathering for each row
 * (kernels->sparse_gather_scores) would read each weight once for every row that uses it.
 *
 * In the last two a score is the sum, in rising order of features, by fused multiply-adds from 0: they give the same
 * bits.
 */
#include "model/tiles.h"
#include "base/arena.h"

#include <string.h>

/* Bytes of weights that should stay in the second cache. */
#define CACHE_BYTES ((size_t)1 << 20)
/* Bytes of weights gathered at once. A piece of a tile is never narrower than GATHER_LEAST, and at most GATHER_FEATURES
 * features are gathered at once, so that scratch is bounded. */
#define GATHER_BYTES ((size_t)256 << 10)
#define GATHER_LEAST 64
#define GATHER_FEATURES 4096
/* Bytes of log-probabilities of all classes that a sweep over a hierarchy may use for each thread, or those of one
 * block if that is more. */
#define SWEPT_BYTES ((size_t)32 << 20)
/* Classes whose weights are gathered together: a cache line of the compact matrix. */
#define GATHER_CLASSES 16

typedef struct scratch {
    /* packed */
    float *packed[XSMI_EXACT_BLOCKS]; /* [features][XSMI_LANES] */
    float *lanes[XSMI_EXACT_BLOCKS];  /* [XSMI_CLASS_TILE][XSMI_LANES] */
    /* row by row */
    float *scores;     /* [XSMI_ROW_TILE], for each row when weights are gathered */
    float *scales;     /* [XSMI_ROW_TILE] */
    uint64_t *used;    /* [features/64] a bit for each feature that occurs */
    uint32_t *place;   /* [features] its column in the compact matrix, valid where the bit is set */
    uint32_t *list;    /* [GATHER_FEATURES] the features of the compact matrix */
    uint32_t *columns; /* [GATHER_FEATURES] the columns of one row's features */
    float *compact;    /* [features][piece of a tile], at most [GATHER_FEATURES][GATHER_LEAST] floats */
    size_t *cursor;    /* [XSMI_TILE_ROWS] values of each row summed so far */
    void *prepared;    /* by a correction for one block */
    /* with a hierarchy, for each of several blocks */
    float *log_p;  /* [classes][XSMI_LANES] */
    float *stack;  /* stack of its sweep */
    float *nodes;  /* [XSMI_ROW_TILE][XSMI_LANES] scores of a tile, when scored row by row */
    float *hidden; /* [blocks][XSMI_LANES][hidden_stride], with a first layer */
} scratch;

static size_t hidden_stride(const xsm_model *m)
{
    return m->layer ? xsmi_row_stride(m->features) : 0;
}

static size_t used_words(const xsm_model *m)
{
    return ((size_t)m->features + 63) / 64;
}

/* Blocks whose log-probabilities in a hierarchy are kept at once. */
static size_t swept_together(const xsmi_hierarchy *h, size_t blocks)
{
    size_t most = SWEPT_BYTES / ((size_t)h->classes * XSMI_LANES * sizeof(float));
    return most < 1 ? 1 : most < blocks ? most : blocks;
}

static void divide_scratch(const xsm_model *m, bool sparse, size_t blocks, xsmi_arena *arena, scratch *s)
{
    size_t d = m->features;
    s->scales = xsmi_arena_take(arena, XSMI_ROW_TILE, sizeof *s->scales);
    if (xsmi_tiles_packed(m, sparse)) {
        for (size_t b = 0; b < blocks; b++) {
            s->packed[b] = xsmi_arena_take(arena, d * XSMI_LANES, sizeof **s->packed);
        }
        for (size_t b = 0; b < blocks; b++) {
            s->lanes[b] = xsmi_arena_take(arena, XSMI_CLASS_TILE * XSMI_LANES, sizeof **s->lanes);
        }
    } else if (m->layout == XSM_LAYOUT_FEATURE_MAJOR) {
        s->scores = xsmi_arena_take(arena, XSMI_ROW_TILE, sizeof *s->scores);
    } else {
        s->scores = xsmi_arena_take(arena, blocks * XSMI_LANES * XSMI_ROW_TILE, sizeof *s->scores);
        s->used = xsmi_arena_take(arena, used_words(m), sizeof *s->used);
        s->place = xsmi_arena_take(arena, d, sizeof *s->place);
        s->list = xsmi_arena_take(arena, GATHER_FEATURES, sizeof *s->list);
        s->columns = xsmi_arena_take(arena, GATHER_FEATURES, sizeof *s->columns);
        s->compact = xsmi_arena_take(arena, (size_t)GATHER_FEATURES * GATHER_LEAST, sizeof *s->compact);
        s->cursor = xsmi_arena_take(arena, blocks * XSMI_LANES, sizeof *s->cursor);
    }
    s->hidden = xsmi_arena_take(arena, blocks * XSMI_LANES * hidden_stride(m), sizeof *s->hidden);
    const xsmi_hierarchy *h = m->hierarchy;
    if (h) {
        size_t together = swept_together(h, blocks);
        s->log_p = xsmi_arena_take(arena, together * h->classes, XSMI_LANES * sizeof *s->log_p);
        s->stack = xsmi_arena_take(arena, together * xsmi_hierarchy_stack(h), sizeof *s->stack);
        s->nodes = xsmi_arena_take(arena, together * XSMI_ROW_TILE, XSMI_LANES * sizeof *s->nodes);
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

/* -- dense rows, class-major --------------------------------------------------------------------------------------- */

/* Classes whose weights fit into the second cache beside the packed rows; the borders of score_tile change no score. */
static uint32_t piece_classes(const xsm_model *m)
{
    /* 42 classes are a multiple of the block of every instruction set's kernel (14, 6, or 4 with a rest of 2). */
    uint32_t piece = XSMI_CLASS_TILE;
    while (piece > 42 && (size_t)piece * m->features * sizeof(float) > CACHE_BYTES) {
        piece /= 2;
    }
    return piece;
}

static void score_packed(const xsm_model *m, const xsmi_tile_rows *rows, uint32_t first, uint32_t end, scratch *s,
                         xsmi_tile_consumer consume, void *state)
{
    const float *x[XSMI_LANES];
    const bool few = rows->blocks == 1 && rows->counts[0] <= XSMI_FEW;
    for (size_t b = 0; b < rows->blocks; b++) {
        for (size_t l = 0; l < rows->counts[b]; l++) {
            x[l] = rows->features[b * XSMI_LANES + l].values;
        }
        if (!few) {
            m->kernels->pack(x, rows->counts[b], m->features, s->packed[b]);
        }
    }
    for (size_t b = 0; b < rows->blocks; b++) { /* lanes without a row are read too */
        if (rows->counts[b] < XSMI_LANES) {
            memset(s->lanes[b], 0, XSMI_CLASS_TILE * XSMI_LANES * sizeof *s->lanes[b]);
        }
    }
    const uint32_t piece = few ? XSMI_CLASS_TILE : piece_classes(m);
    for (uint32_t tile = first; tile < end;) {
        uint32_t count = end - tile < XSMI_CLASS_TILE ? end - tile : XSMI_CLASS_TILE;
        if (m->row_scale) {
            for (uint32_t c = 0; c < count; c++) {
                s->scales[c] = (float)(m->alpha * m->row_scale[tile + c]);
            }
        }
        for (uint32_t c = 0; c < count; c += piece) {
            uint32_t some = count - c < piece ? count - c : piece;
            for (size_t b = 0; b < rows->blocks; b++) {
                /* If a block's tile is complete at once, one buffer for all blocks stays in the first cache. */
                float *out = s->lanes[piece < XSMI_CLASS_TILE ? b : 0];
                const float *weights = m->weight + (tile + c) * m->stride;
                const float scale = m->row_scale ? 1.0f : (float)m->alpha;
                const float *scales = m->row_scale ? s->scales + c : NULL;
                const float *bias = m->bias ? m->bias + tile + c : NULL;
                if (few) {
                    m->kernels->score_few(weights, m->stride, some, x, rows->counts[b], m->features, scale, scales,
                                          bias, out + c * XSMI_LANES);
                } else {
                    m->kernels->score_lanes(weights, m->stride, some, s->packed[b], rows->counts[b], m->features, scale,
                                            scales, bias, out + c * XSMI_LANES);
                }
                if (c + some == count) {
                    xsmi_tile t = {b, 0, true, tile, count, out};
                    consume(state, &t);
                }
            }
        }
        tile += count;
    }
}

/* -- row by row ---------------------------------------------------------------------------------------------------- */

/* Scales of a tile, for each row's sums. */
static void prepare_finish(const xsm_model *m, uint32_t first, uint32_t count, float *scales)
{
    if (m->row_scale) {
        for (uint32_t c = 0; c < count; c++) {
            scales[c] = (float)(m->alpha * m->row_scale[first + c]);
        }
    }
}

void xsmi_tiles_finish(const xsm_model *m, uint32_t first, uint32_t count, const float *scales, float *scores)
{
    float alpha = (float)m->alpha;
    if (m->row_scale) {
        for (uint32_t c = 0; c < count; c++) {
            scores[c] *= scales[c];
        }
    } else if (alpha != 1.0f) {
        m->kernels->scale(scores, count, alpha);
    }
    if (m->bias) {
        m->kernels->axpby(scores, m->bias + first, count, 1.0f, 1.0f);
    }
}

static void score_feature_major(const xsm_model *m, const xsmi_tile_rows *rows, uint32_t first, uint32_t end,
                                scratch *s, xsmi_tile_consumer consume, void *state)
{
    for (uint32_t tile = first; tile < end;) {
        uint32_t count = end - tile < XSMI_ROW_TILE ? end - tile : XSMI_ROW_TILE;
        prepare_finish(m, tile, count, s->scales);
        for (size_t b = 0; b < rows->blocks; b++) {
            for (size_t l = 0; l < rows->counts[b]; l++) {
                const xsmi_features *x = &rows->features[b * XSMI_LANES + l];
                memset(s->scores, 0, count * sizeof *s->scores);
                m->kernels->column_sums(m->weight + tile, m->stride, x->index, x->values, x->count, count, s->scores);
                xsmi_tiles_finish(m, tile, count, s->scales, s->scores);
                xsmi_tile t = {b, l, false, tile, count, s->scores};
                consume(state, &t);
            }
        }
        tile += count;
    }
}

/* Marks the features that occur and numbers them in rising order; returns their number. */
static size_t number_features(const xsm_model *m, const xsmi_tile_rows *rows, scratch *s)
{
    size_t words = used_words(m);
    size_t total = 0;
    memset(s->used, 0, words * sizeof *s->used);
    for (size_t b = 0; b < rows->blocks; b++) {
        for (size_t l = 0; l < rows->counts[b]; l++) {
            const xsmi_features *x = &rows->features[b * XSMI_LANES + l];
            for (size_t i = 0; i < x->count; i++) {
                s->used[x->index[i] / 64] |= UINT64_C(1) << x->index[i] % 64;
            }
        }
    }
    for (size_t w = 0; w < words; w++) {
        for (uint64_t bits = s->used[w]; bits; bits &= bits - 1) {
            s->place[w * 64 + (size_t)__builtin_ctzll(bits)] = (uint32_t)(total++ % GATHER_FEATURES);
        }
    }
    return total;
}

/* The next features that occur, from *next on, at most GATHER_FEATURES; *next becomes the first not listed. */
static size_t list_features(const xsm_model *m, scratch *s, size_t *next)
{
    size_t count = 0;
    size_t words = used_words(m);
    uint64_t mask = ~UINT64_C(0) << *next % 64;
    for (size_t w = *next / 64; w < words; w++) {
        for (uint64_t bits = s->used[w] & mask; bits; bits &= bits - 1) {
            size_t feature = w * 64 + (size_t)__builtin_ctzll(bits);
            if (count == GATHER_FEATURES) {
                *next = feature;
                return count;
            }
            s->list[count++] = (uint32_t)feature;
        }
        mask = ~UINT64_C(0);
    }
    *next = m->features;
    return count;
}

/* compact[i*width + c] = weight of class first + c and feature list[i]. */
static void gather_weights(const xsm_model *m, uint32_t first, uint32_t count, const uint32_t *list, size_t features,
                           size_t width, float *compact)
{
    uint32_t c = 0;
    for (; c + GATHER_CLASSES <= count; c += GATHER_CLASSES) {
        const float *row[GATHER_CLASSES];
        for (size_t k = 0; k < GATHER_CLASSES; k++) {
            row[k] = m->weight + (first + c + k) * m->stride;
        }
        for (size_t i = 0; i < features; i++) {
            float *line = compact + i * width + c;
            for (size_t k = 0; k < GATHER_CLASSES; k++) {
                line[k] = row[k][list[i]];
            }
        }
    }
    for (; c < count; c++) {
        const float *row = m->weight + (first + c) * m->stride;
        for (size_t i = 0; i < features; i++) {
            compact[i * width + c] = row[list[i]];
        }
    }
}

/* Adds the contribution of the features below `limit` in the compact matrix to each row's scores of `count` classes. */
static void add_gathered(const xsm_model *m, const xsmi_tile_rows *rows, scratch *s, uint32_t offset, uint32_t count,
                         size_t width, size_t limit)
{
    for (size_t b = 0; b < rows->blocks; b++) {
        for (size_t l = 0; l < rows->counts[b]; l++) {
            size_t row = b * XSMI_LANES + l;
            const xsmi_features *x = &rows->features[row];
            float *scores = s->scores + row * XSMI_ROW_TILE + offset;
            size_t first = s->cursor[row];
            size_t i = first;
            for (; i < x->count && x->index[i] < limit; i++) {
                s->columns[i - first] = s->place[x->index[i]];
            }
            m->kernels->column_sums(s->compact, width, s->columns, x->values + first, i - first, count, scores);
            s->cursor[row] = i;
        }
    }
}

/* Sums one tile of every row, in pieces of `width` classes. */
static void sum_gathered(const xsm_model *m, const xsmi_tile_rows *rows, scratch *s, uint32_t tile, uint32_t count,
                         size_t width, size_t total)
{
    memset(s->scores, 0, rows->blocks * XSMI_LANES * XSMI_ROW_TILE * sizeof *s->scores);
    for (uint32_t c = 0; c < count; c += (uint32_t)width) {
        uint32_t some = count - c < width ? count - c : (uint32_t)width;
        memset(s->cursor, 0, rows->blocks * XSMI_LANES * sizeof *s->cursor);
        size_t next = 0;
        for (size_t done = 0; done < total;) {
            size_t features = total; /* one list is enough for all tiles, if it holds all features */
            if (total > GATHER_FEATURES) {
                features = list_features(m, s, &next);
            } else {
                next = m->features;
            }
            gather_weights(m, tile + c, some, s->list, features, width, s->compact);
            add_gathered(m, rows, s, c, some, width, next);
            done += features;
        }
    }
}

static void score_gathered(const xsm_model *m, const xsmi_tile_rows *rows, uint32_t first, uint32_t end, scratch *s,
                           xsmi_tile_consumer consume, void *state)
{
    size_t total = number_features(m, rows, s);
    size_t held = total < 1 ? 1 : total < GATHER_FEATURES ? total : GATHER_FEATURES;
    size_t width = GATHER_BYTES / sizeof(float) / held / GATHER_CLASSES * GATHER_CLASSES;
    width = width < GATHER_LEAST ? GATHER_LEAST : width > XSMI_ROW_TILE ? XSMI_ROW_TILE : width;
    const size_t needed = ((size_t)(end - first) + GATHER_CLASSES - 1) / GATHER_CLASSES * GATHER_CLASSES;
    width = width < needed ? width : needed; /* no memory for empty lines of the compact matrix */
    if (total <= GATHER_FEATURES) {
        size_t next = 0;
        (void)list_features(m, s, &next);
    }
    for (uint32_t tile = first; tile < end;) {
        uint32_t count = end - tile < XSMI_ROW_TILE ? end - tile : XSMI_ROW_TILE;
        sum_gathered(m, rows, s, tile, count, width, total);
        prepare_finish(m, tile, count, s->scales);
        for (size_t b = 0; b < rows->blocks; b++) {
            for (size_t l = 0; l < rows->counts[b]; l++) {
                float *scores = s->scores + (b * XSMI_LANES + l) * XSMI_ROW_TILE;
                xsmi_tiles_finish(m, tile, count, s->scales, scores);
                xsmi_tile t = {b, l, false, tile, count, scores};
                consume(state, &t);
            }
        }
        tile += count;
    }
}

/* Rows as the output layer sees them. */
static void score_plain(const xsm_model *m, const xsmi_tile_rows *rows, uint32_t first, uint32_t end, scratch *s,
                        xsmi_tile_consumer consume, void *state)
{
    xsmi_features hidden[XSMI_TILE_ROWS];
    xsmi_tile_rows seen = *rows;
    if (m->layer) {
        for (size_t b = 0; b < rows->blocks; b++) {
            for (size_t l = b * XSMI_LANES; l < b * XSMI_LANES + rows->counts[b]; l++) {
                hidden[l] = xsmi_model_seen(m, &rows->features[l], s->hidden + l * hidden_stride(m));
            }
        }
        seen.features = hidden;
        seen.sparse = false;
        rows = &seen;
    }
    if (xsmi_tiles_packed(m, rows->sparse)) {
        score_packed(m, rows, first, end, s, consume, state);
    } else if (m->layout == XSM_LAYOUT_FEATURE_MAJOR) {
        score_feature_major(m, rows, first, end, s, consume, state);
    } else {
        score_gathered(m, rows, first, end, s, consume, state);
    }
}

/* -- corrections --------------------------------------------------------------------------------------------------- */

typedef struct corrected {
    const xsmi_correction *correction;
    const xsmi_tile_rows *rows; /* themselves, not their hidden vectors */
    size_t block;               /* the number of the first one */
    const void *prepared;
    xsmi_tile_consumer consume;
    void *state;
} corrected;

/* Adds the correction to a tile, which is in scratch memory, and passes it on. */
static void correct_tile(void *state, const xsmi_tile *tile)
{
    const corrected *c = state;
    const xsmi_features *rows = c->rows->features + tile->block * XSMI_LANES;
    const size_t count = c->rows->counts[tile->block];
    c->correction->kind->tile(c->correction, tile, rows, count, c->prepared, (float *)(uintptr_t)tile->scores);
    xsmi_tile moved = *tile;
    moved.block += c->block;
    c->consume(c->state, &moved);
}

/* What a kind prepares for a block may need as much memory as its scores of all classes: then one block at a time. */
static void score_corrected(const xsm_model *m, const xsmi_tile_rows *rows, uint32_t first, uint32_t end, scratch *s,
                            xsmi_tile_consumer consume, void *state)
{
    const xsmi_correction *correction = m->correction;
    const size_t together = correction->kind->prepare ? 1 : rows->blocks;
    for (size_t b = 0; b < rows->blocks; b += together) {
        const xsmi_tile_rows group = {rows->features + b * XSMI_LANES, rows->counts + b, together, rows->sparse};
        if (correction->kind->prepare) {
            correction->kind->prepare(correction, m->kernels, group.features, group.counts[0], s->prepared);
        }
        corrected c = {correction, &group, b, s->prepared, consume, state};
        score_plain(m, &group, first, end, s, correct_tile, &c);
    }
}

/* -- hierarchies --------------------------------------------------------------------------------------------------- */

typedef struct swept {
    xsmi_hierarchy_sweep sweep[XSMI_EXACT_BLOCKS];
    float *nodes;         /* scratch's */
    const size_t *counts; /* rows of each block */
} swept;

/* Consumes a tile of nodes: at once, or after the tile of the block's last row. */
static void sweep_tile(void *state, const xsmi_tile *tile)
{
    swept *w = state;
    if (tile->lanes) {
        xsmi_hierarchy_take(&w->sweep[tile->block], tile->scores, tile->count);
        return;
    }
    float *nodes = w->nodes + tile->block * XSMI_ROW_TILE * XSMI_LANES;
    for (uint32_t i = 0; i < tile->count; i++) {
        nodes[(size_t)i * XSMI_LANES + tile->row] = tile->scores[i];
    }
    if (tile->row + 1 == w->counts[tile->block]) {
        xsmi_hierarchy_take(&w->sweep[tile->block], nodes, tile->count);
    }
}

/* Passes a block's log-probabilities on as tiles. */
static void give_swept(const scratch *s, const float *log_p, size_t block, size_t rows, bool lanes, uint32_t first,
                       uint32_t end, xsmi_tile_consumer consume, void *state)
{
    const uint32_t most = lanes ? XSMI_CLASS_TILE : XSMI_ROW_TILE;
    for (uint32_t tile = first; tile < end; tile += most) {
        uint32_t count = end - tile < most ? end - tile : most;
        const float *from = log_p + (size_t)tile * XSMI_LANES;
        if (lanes) {
            xsmi_tile t = {block, 0, true, tile, count, from};
            consume(state, &t);
        }
        for (size_t l = 0; !lanes && l < rows; l++) {
            for (uint32_t c = 0; c < count; c++) {
                s->scores[c] = from[(size_t)c * XSMI_LANES + l];
            }
            xsmi_tile t = {block, l, false, tile, count, s->scores};
            consume(state, &t);
        }
    }
}

/* Converts the nodes' scores of several blocks to log-probabilities of all classes, which are then the tiles. */
static void score_with_hierarchy(const xsm_model *m, const xsmi_tile_rows *rows, uint32_t first, uint32_t end,
                                 scratch *s, xsmi_tile_consumer consume, void *state)
{
    const xsmi_hierarchy *h = m->hierarchy;
    const bool lanes = xsmi_tiles_packed(m, rows->sparse);
    const size_t together = swept_together(h, rows->blocks), each = (size_t)h->classes * XSMI_LANES;
    for (size_t b = 0; b < rows->blocks; b += together) {
        size_t some = rows->blocks - b < together ? rows->blocks - b : together;
        xsmi_tile_rows group = {rows->features + b * XSMI_LANES, rows->counts + b, some, rows->sparse};
        swept w = {.nodes = s->nodes, .counts = group.counts};
        for (size_t i = 0; i < some; i++) {
            w.sweep[i] = (xsmi_hierarchy_sweep){
                h, m->kernels, s->log_p + i * each, s->stack + i * xsmi_hierarchy_stack(h), 0, 0};
            xsmi_hierarchy_start_sweep(&w.sweep[i]);
        }
        memset(s->nodes, 0, some * XSMI_ROW_TILE * XSMI_LANES * sizeof *s->nodes);
        score_plain(m, &group, 0, h->nodes, s, sweep_tile, &w);
        for (size_t i = 0; i < some; i++) {
            give_swept(s, s->log_p + i * each, b + i, group.counts[i], lanes, first, end, consume, state);
        }
    }
}

void xsmi_tiles_score(const xsm_model *m, const xsmi_tile_rows *rows, uint32_t first, uint32_t end, void *memory,
                      xsmi_tile_consumer consume, void *state)
{
    xsmi_arena arena = {memory, 0};
    scratch s;
    divide_scratch(m, rows->sparse, rows->blocks, &arena, &s);
    if (m->hierarchy) {
        score_with_hierarchy(m, rows, first, end, &s, consume, state);
    } else if (m->correction) {
        score_corrected(m, rows, first, end, &s, consume, state);
    } else {
        score_plain(m, rows, first, end, &s, consume, state);
    }
}
