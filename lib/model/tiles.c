/*
 * Tiles of scores (logits): scores of the weights, with the model's correction, or scores of a head of nodes. Those of
 * the weights are computed in several ways.
 *
 * Dense rows, class-major weights: the rows of a block are packed so that vector lanes run over rows, and the weights
 * are read in place (kernels->score_tile). All blocks are scored against a tile of classes while its weights are in the
 * L2 cache, so that main memory is read once for all rows. If there are at most XSMI_FEW rows, lanes run over
 * classes instead (kernels->score_few), with the same bits.
 *
 * Feature-major weights: a row's scores of a tile of classes are the sum of its features' weights, each a contiguous
 * run (kernels->column_sums).
 *
 * Sparse rows, class-major weights: the features that occur in any of the rows are found once; for a tile of classes
 * their weights are gathered into a compact feature-major matrix, which all rows use as above. Gathering for each row
 * (kernels->sparse_gather_scores) would read each weight once for every row that uses it.
 *
 * Weights in fewer bits than float32 are widened, exactly, when they are read: a piece of a tile at a time for all of
 * its dense rows, in registers for a few rows (kernels->score_narrow), and when they are gathered. So the scores have
 * the same bits as with a float32 model of the widened weights.
 *
 * Sparse weights: a chunk is scored for one row after another, so that its weights stay in the cache.
 *
 * For sparse rows a score is the sum in rising order of features, by fused multiply-adds from 0; with sparse weights
 * each product is rounded first (sparse_weights.c).
 */
#include "model/tiles.h"
#include "base/arena.h"
#include "base/activity.h"
#include "base/order.h"
#include "model/narrow.h"

#include <string.h>

/* Number of bytes of weights that should stay in the L2 cache. */
#define CACHE_BYTES ((size_t)1 << 20)
/* Number of bytes of widened weights that should stay there; they are also written. */
#define WIDE_BYTES ((size_t)128 << 10)
/* Number of bytes of weights gathered at once. A piece of a tile is never narrower than GATHER_LEAST, and at most
 * GATHER_FEATURES features are gathered at once, so that scratch is bounded. */
#define GATHER_BYTES ((size_t)256 << 10)
#define GATHER_LEAST 64
#define GATHER_FEATURES 4096
/* Number of classes whose weights are gathered together: a cache line of the compact matrix. */
#define GATHER_CLASSES 16
/* From so many features on, an activity is polled more often than once a tile. */
#define LONG_ROW 2048

/* Scratch for scores of weights. */
typedef struct plain_scratch {
    /* For packed rows: */
    float *packed[XSMI_TILE_BLOCKS]; /* [features][XSMI_LANES] */
    float *lanes[XSMI_TILE_BLOCKS];  /* [XSMI_CLASS_TILE][XSMI_LANES] */
    float *wide[2];                  /* [piece of a tile][stride] widened weights: the piece in use, and the next one */
    /* For scoring row by row: */
    float *scores;       /* [XSMI_ROW_TILE]; [row_tile] for each row when weights are gathered; not kept by calls */
    float *scales;       /* [XSMI_ROW_TILE] */
    uint64_t *used;      /* [features/64] a bit for each feature: whether it occurs */
    uint32_t *column_of; /* [features] its column in the compact matrix, valid where the bit is set */
    uint32_t *list;      /* [GATHER_FEATURES] the features of the compact matrix */
    uint32_t *columns;   /* [GATHER_FEATURES] the columns of one row's features */
    float *compact;      /* [features][piece of a tile] */
    size_t *cursor;      /* [XSMI_TILE_ROWS] number of values of each row summed so far */
    float *hidden;       /* [blocks][XSMI_LANES][hidden_stride], with a first layer */
} plain_scratch;

static uint32_t piece_classes(const xsm_model *m);

static size_t hidden_stride(const xsm_model *m)
{
    return m->layer ? xsmi_row_stride(m->features) : 0;
}

/* Returns how many of so many classes a tile of gathered weights has at most, in whole cache lines. */
static size_t row_tile(uint32_t classes)
{
    return XSMI_MIN(((size_t)classes + GATHER_CLASSES - 1) / GATHER_CLASSES * GATHER_CLASSES, XSMI_ROW_TILE);
}

static size_t used_words(const xsm_model *m)
{
    return ((size_t)m->features + 63) / 64;
}

static void divide_plain(const xsm_model *m, bool sparse, size_t blocks, xsmi_arena *arena, plain_scratch *s)
{
    size_t d = m->features;
    s->scales = xsmi_arena_take(arena, XSMI_ROW_TILE, sizeof *s->scales);
    if (m->w.sparse) {
        s->scores = xsmi_arena_take(arena, XSMI_MAX(m->w.sparse->widest, XSMI_ROW_TILE), sizeof *s->scores);
        return;
    }
    if (xsmi_tiles_packed(m, sparse)) {
        for (size_t b = 0; b < blocks; b++) {
            s->packed[b] = xsmi_arena_take(arena, d * XSMI_LANES, sizeof **s->packed);
        }
        for (size_t b = 0; b < blocks; b++) {
            s->lanes[b] = xsmi_arena_take(arena, XSMI_CLASS_TILE * XSMI_LANES, sizeof **s->lanes);
        }
        for (size_t i = 0; i < 2; i++) {
            s->wide[i] = xsmi_arena_take(arena, m->w.narrow.data ? (uint64_t)piece_classes(m) * m->w.stride : 0,
                                         sizeof **s->wide);
        }
    } else if (m->w.layout == XSM_LAYOUT_FEATURE_MAJOR) {
        s->scores = xsmi_arena_take(arena, XSMI_ROW_TILE, sizeof *s->scores);
    } else {
        s->scores = xsmi_arena_take(arena, blocks * XSMI_LANES * row_tile(m->w.rows), sizeof *s->scores);
        s->used = xsmi_arena_take(arena, used_words(m), sizeof *s->used);
        s->column_of = xsmi_arena_take(arena, d, sizeof *s->column_of);
        s->list = xsmi_arena_take(arena, GATHER_FEATURES, sizeof *s->list);
        s->columns = xsmi_arena_take(arena, GATHER_FEATURES, sizeof *s->columns);
        s->compact = xsmi_arena_take(
            arena, XSMI_MIN(XSMI_MIN(d, GATHER_FEATURES) * row_tile(m->w.rows), (size_t)GATHER_FEATURES * GATHER_LEAST),
            sizeof *s->compact);
        s->cursor = xsmi_arena_take(arena, blocks * XSMI_LANES, sizeof *s->cursor);
    }
    s->hidden = xsmi_arena_take(arena, blocks * XSMI_LANES * hidden_stride(m), sizeof *s->hidden);
}

void xsmi_tiles_scales(const xsm_model *m, uint32_t first, uint32_t count, float *scales)
{
    if (m->w.row_scale) {
        for (uint32_t c = 0; c < count; c++) {
            scales[c] = (float)(m->w.alpha * m->w.row_scale[first + c]);
        }
    }
}

/* -- dense rows, class-major --------------------------------------------------------------------------------------- */

/* Returns how many classes' weights fit into the L2 cache beside the packed rows. Where score_tile's pieces begin
 * changes no score. */
static uint32_t piece_classes(const xsm_model *m)
{
    /* 42 classes are whole blocks of every set's kernel for a full block of rows (14, 3 or 6 classes). */
    const size_t most = m->w.narrow.data ? WIDE_BYTES : CACHE_BYTES;
    uint32_t piece = XSMI_CLASS_TILE;
    while (piece > 42 && (size_t)piece * m->features * sizeof(float) > most) {
        piece /= 2;
    }
    return piece;
}

/* Returns the number of classes of the piece that begins at `first`, in a tile with `left` classes left, or in the next
 * tile; 0 after the last. */
static uint32_t following(const xsmi_tile_call *call, uint32_t first, uint32_t left, uint32_t piece)
{
    if (left > 0) {
        return XSMI_MIN(left, piece);
    }
    return first < call->end ? XSMI_MIN(xsmi_tile_classes(first, call->end, XSMI_CLASS_TILE), piece) : 0;
}

static void score_packed(const xsmi_tile_call *call, plain_scratch *s)
{
    const xsm_model *m = call->model;
    const xsmi_tile_rows *rows = call->rows;
    const float *x[XSMI_LANES];
    const bool few = rows->blocks == 1 && rows->counts[0] <= xsmi_kind_of(m->w.narrow.dtype)->few;
    for (size_t b = 0; b < rows->blocks; b++) {
        for (size_t l = 0; l < rows->counts[b]; l++) {
            x[l] = rows->features[b * XSMI_LANES + l].values;
        }
        if (!few) {
            m->kernels->pack(x, rows->counts[b], m->features, s->packed[b]);
        }
    }
    for (size_t b = 0; b < rows->blocks; b++) { /* lanes without a row are read, too */
        if (rows->counts[b] < XSMI_LANES) {
            memset(s->lanes[b], 0, XSMI_CLASS_TILE * XSMI_LANES * sizeof *s->lanes[b]);
        }
    }
    const uint32_t piece = few ? XSMI_CLASS_TILE : piece_classes(m);
    const bool narrow = m->w.narrow.data, widened = narrow && !few;
    float *wide = s->wide[0], *next_wide = s->wide[1];
    if (widened) {
        const uint32_t some = XSMI_MIN(xsmi_tile_classes(call->first, call->end, XSMI_CLASS_TILE), piece);
        m->kernels->widen(&m->w.narrow, call->first * m->w.stride, some * m->w.stride, wide);
    }
    for (uint32_t tile = call->first, count; tile < call->end; tile += count) {
        count = xsmi_tile_classes(tile, call->end, XSMI_CLASS_TILE);
        xsmi_tiles_scales(m, tile, count, s->scales);
        for (uint32_t c = 0; c < count; c += piece) {
            uint32_t some = XSMI_MIN(count - c, piece);
            const size_t next = widened ? following(call, tile + c + some, count - c - some, piece) : 0;
            for (size_t b = 0; b < rows->blocks; b++) {
                if ((b == 0 || call->stores || m->features > LONG_ROW) && xsmi_poll(call->context)) {
                    return;
                }
                /* If a block's tile is complete at once, one buffer for all blocks stays in the L1 cache. */
                float *out = s->lanes[piece < XSMI_CLASS_TILE ? b : 0];
                const float *weights = narrow ? wide : m->w.weight + (tile + c) * m->w.stride;
                const float scale = m->w.row_scale ? 1.0f : (float)m->w.alpha;
                const float *scales = m->w.row_scale ? s->scales + c : NULL;
                const float *bias = m->w.bias ? m->w.bias + tile + c : NULL;
                if (few && narrow) {
                    for (size_t r = 0; r < rows->counts[b]; r += XSMI_FEW) {
                        const size_t n = XSMI_MIN(rows->counts[b] - r, XSMI_FEW);
                        m->kernels->score_narrow(&m->w.narrow, tile + c, some, x + r, n, m->features, scale, scales,
                                                 bias, out + c * XSMI_LANES + r);
                    }
                } else if (few) {
                    m->kernels->score_few(weights, m->w.stride, some, x, rows->counts[b], m->features, scale, scales,
                                          bias, out + c * XSMI_LANES);
                } else if (widened) {
                    const size_t from = (tile + c + some) * m->w.stride, all = next * m->w.stride;
                    const size_t done = b * all / rows->blocks, until = (b + 1) * all / rows->blocks;
                    const xsmi_widening ahead = {&m->w.narrow, from + done, from + until, next_wide + done};
                    m->kernels->score_widening(weights, m->w.stride, some, s->packed[b], rows->counts[b], m->features,
                                               scale, scales, bias, out + c * XSMI_LANES, &ahead);
                } else {
                    m->kernels->score_lanes(weights, m->w.stride, some, s->packed[b], rows->counts[b], m->features,
                                            scale, scales, bias, out + c * XSMI_LANES);
                }
                if (c + some == count) {
                    xsmi_tile t = {b, 0, true, tile, count, out};
                    call->consume(call->state, &t);
                }
            }
            float *scored = wide;
            wide = next_wide;
            next_wide = scored;
        }
    }
}

/* -- row by row ---------------------------------------------------------------------------------------------------- */

void xsmi_tiles_finish(const xsm_model *m, uint32_t first, uint32_t count, const float *scales, float *scores)
{
    float alpha = (float)m->w.alpha;
    if (m->w.row_scale) {
        for (uint32_t c = 0; c < count; c++) {
            scores[c] *= scales[c];
        }
    } else if (alpha != 1.0f) {
        m->kernels->scale(scores, count, alpha);
    }
    if (m->w.bias) {
        m->kernels->axpby(scores, m->w.bias + first, count, 1.0f, 1.0f);
    }
}

static void score_feature_major(const xsmi_tile_call *call, plain_scratch *s)
{
    const xsm_model *m = call->model;
    const xsmi_tile_rows *rows = call->rows;
    for (uint32_t tile = call->first, count; tile < call->end; tile += count) {
        count = xsmi_tile_classes(tile, call->end, XSMI_ROW_TILE);
        xsmi_tiles_scales(m, tile, count, s->scales);
        for (size_t b = 0; b < rows->blocks; b++) {
            for (size_t l = 0; l < rows->counts[b]; l++) {
                const xsmi_features *x = &rows->features[b * XSMI_LANES + l];
                if ((l == 0 || x->count > LONG_ROW) && xsmi_poll(call->context)) {
                    return;
                }
                memset(s->scores, 0, count * sizeof *s->scores);
                m->kernels->column_sums(m->w.weight + tile, m->w.stride, x->index, x->values, x->count, count,
                                        s->scores);
                xsmi_tiles_finish(m, tile, count, s->scales, s->scores);
                xsmi_tile t = {b, l, false, tile, count, s->scores};
                call->consume(call->state, &t);
            }
        }
    }
}

/* Marks the features that occur, and numbers them in rising order; returns how many. */
static size_t number_features(const xsm_model *m, const xsmi_tile_rows *rows, plain_scratch *s)
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
            s->column_of[w * 64 + (size_t)__builtin_ctzll(bits)] = (uint32_t)(total++ % GATHER_FEATURES);
        }
    }
    return total;
}

/* Lists the next features that occur, from *next on, at most GATHER_FEATURES; sets *next to the first that is not
 * listed. */
static size_t list_features(const xsm_model *m, plain_scratch *s, size_t *next)
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

/* A call for sparse rows and class-major weights. */
typedef struct gathering {
    const xsm_model *model;
    const xsmi_tile_rows *rows;
    plain_scratch *s;
    size_t total; /* features that occur */
    size_t width; /* classes of a piece of a tile */
    const xsm_context *context;
} gathering;

/* compact[i*width + c] = weight of class first + c and feature list[i]. */
static void gather_weights(const gathering *g, uint32_t first, uint32_t count, size_t features)
{
    const xsm_model *m = g->model;
    const uint32_t *list = g->s->list;
    const size_t width = g->width;
    float *compact = g->s->compact;
    uint32_t c = 0;
    for (; m->w.narrow.data && c < count; c++) {
        for (size_t i = 0; i < features; i++) {
            compact[i * width + c] = xsmi_narrow_number(&m->w.narrow, (first + c) * m->w.stride + list[i]);
        }
    }
    for (; c + GATHER_CLASSES <= count; c += GATHER_CLASSES) {
        const float *row[GATHER_CLASSES];
        for (size_t k = 0; k < GATHER_CLASSES; k++) {
            row[k] = m->w.weight + (first + c + k) * m->w.stride;
        }
        for (size_t i = 0; i < features; i++) {
            float *line = compact + i * width + c;
            for (size_t k = 0; k < GATHER_CLASSES; k++) {
                line[k] = row[k][list[i]];
            }
        }
    }
    for (; c < count; c++) {
        const float *row = m->w.weight + (first + c) * m->w.stride;
        for (size_t i = 0; i < features; i++) {
            compact[i * width + c] = row[list[i]];
        }
    }
}

/* Adds the contribution of the features below `limit` in the compact matrix to each row's scores of `count` classes,
 * `offset` classes from the start of the tile. */
static void add_gathered(const gathering *g, uint32_t offset, uint32_t count, size_t limit)
{
    const xsmi_tile_rows *rows = g->rows;
    plain_scratch *s = g->s;
    for (size_t b = 0; b < rows->blocks; b++) {
        for (size_t l = 0; l < rows->counts[b]; l++) {
            size_t row = b * XSMI_LANES + l;
            const xsmi_features *x = &rows->features[row];
            float *scores = s->scores + row * row_tile(g->model->w.rows) + offset;
            size_t first = s->cursor[row];
            size_t i = first;
            for (; i < x->count && x->index[i] < limit; i++) {
                s->columns[i - first] = s->column_of[x->index[i]];
            }
            g->model->kernels->column_sums(s->compact, g->width, s->columns, x->values + first, i - first, count,
                                           scores);
            s->cursor[row] = i;
        }
    }
}

/* Sums one tile of every row, piece by piece. */
static void sum_gathered(const gathering *g, uint32_t tile, uint32_t count)
{
    const xsm_model *m = g->model;
    plain_scratch *s = g->s;
    const size_t rows = g->rows->blocks * XSMI_LANES;
    memset(s->scores, 0, rows * row_tile(m->w.rows) * sizeof *s->scores);
    for (uint32_t c = 0; c < count; c += (uint32_t)g->width) {
        uint32_t some = (uint32_t)XSMI_MIN(count - c, g->width);
        memset(s->cursor, 0, rows * sizeof *s->cursor);
        size_t next = 0;
        for (size_t done = 0; done < g->total;) {
            if (xsmi_poll(g->context)) {
                return;
            }
            size_t features = g->total; /* one list is enough for all tiles if it has all features */
            if (g->total > GATHER_FEATURES) {
                features = list_features(m, s, &next);
            } else {
                next = m->features;
            }
            gather_weights(g, tile + c, some, features);
            add_gathered(g, c, some, next);
            done += features;
        }
    }
}

/* Returns how many classes a piece of a tile has, so that the weights of `features` features fit into the cache. */
static size_t piece_width(size_t features, uint32_t classes)
{
    const size_t listed = XSMI_CLAMP(features, 1, GATHER_FEATURES);
    const size_t fits = GATHER_BYTES / sizeof(float) / listed / GATHER_CLASSES * GATHER_CLASSES;
    return XSMI_MIN(XSMI_MAX(fits, GATHER_LEAST), row_tile(classes)); /* no more lines than needed */
}

static void score_gathered(const xsmi_tile_call *call, plain_scratch *s)
{
    const xsm_model *m = call->model;
    const xsmi_tile_rows *rows = call->rows;
    const size_t total = number_features(m, rows, s);
    const gathering g = {m, rows, s, total, piece_width(total, call->end - call->first), call->context};
    if (total <= GATHER_FEATURES) {
        size_t next = 0;
        (void)list_features(m, s, &next);
    }
    for (uint32_t tile = call->first, count; tile < call->end; tile += count) {
        count = xsmi_tile_classes(tile, call->end, XSMI_ROW_TILE);
        sum_gathered(&g, tile, count);
        if (xsmi_poll(call->context)) { /* also for rows without features, for which nothing is gathered */
            return;
        }
        xsmi_tiles_scales(m, tile, count, s->scales);
        for (size_t b = 0; b < rows->blocks; b++) {
            if (b > 0 && call->stores && xsmi_poll(call->context)) {
                return;
            }
            for (size_t l = 0; l < rows->counts[b]; l++) {
                float *scores = s->scores + (b * XSMI_LANES + l) * row_tile(m->w.rows);
                xsmi_tiles_finish(m, tile, count, s->scales, scores);
                xsmi_tile t = {b, l, false, tile, count, scores};
                call->consume(call->state, &t);
            }
        }
    }
}

/* -- sparse weights ------------------------------------------------------------------------------------------------ */

/* Passes on a row's scores of a chunk that are within the call's range; z has the scores of the chunk, which begins at
 * class `start`. */
static void pass_chunk(const xsmi_tile_call *call, size_t block, size_t row, uint32_t start, uint32_t rows, float *z)
{
    const uint32_t first = XSMI_MAX(start, call->first), end = XSMI_MIN(start + rows, call->end);
    for (uint32_t tile = first, count; tile < end; tile += count) {
        count = xsmi_tile_classes(tile, end, XSMI_ROW_TILE - tile % XSMI_ROW_TILE);
        if (call->model->w.bias) {
            call->model->kernels->axpby(z + (tile - start), call->model->w.bias + tile, count, 1.0f, 1.0f);
        }
        xsmi_tile t = {block, row, false, tile, count, z + (tile - start)};
        call->consume(call->state, &t);
    }
}

/* Scores by chunks. If the range begins or ends within a chunk, the chunk's other classes are scored in vain. */
static void score_sparse(const xsmi_tile_call *call, float *scratch)
{
    const xsmi_sparse *s = call->model->w.sparse;
    const xsmi_tile_rows *rows = call->rows;
    for (uint32_t c = xsmi_sparse_chunk_of(s, call->first); c < s->chunks && s->places[c].row < call->end; c++) {
        for (size_t b = 0; b < rows->blocks; b++) {
            for (size_t l = 0; l < rows->counts[b]; l++) {
                if (xsmi_poll(call->context)) {
                    return;
                }
                xsmi_sparse_scores(s, c, &rows->features[b * XSMI_LANES + l], scratch);
                pass_chunk(call, b, l, s->places[c].row, xsmi_sparse_chunk_rows(s, c), scratch);
            }
        }
    }
}

/* -- any ----------------------------------------------------------------------------------------------------------- */

static void score_input(const xsmi_tile_call *call, plain_scratch *s)
{
    if (call->model->w.sparse) {
        score_sparse(call, s->scores);
    } else if (xsmi_tiles_packed(call->model, call->rows->sparse)) {
        score_packed(call, s);
    } else if (call->model->w.layout == XSM_LAYOUT_FEATURE_MAJOR) {
        score_feature_major(call, s);
    } else {
        score_gathered(call, s);
    }
}

/* Scores the rows' hidden vectors. */
static void score_hidden(const xsmi_tile_call *call, plain_scratch *s)
{
    const xsmi_tile_rows *rows = call->rows;
    const size_t stride = hidden_stride(call->model);
    xsmi_features hidden[XSMI_TILE_ROWS];
    for (size_t b = 0; b < rows->blocks; b++) {
        for (size_t l = b * XSMI_LANES; l < b * XSMI_LANES + rows->counts[b]; l++) {
            hidden[l] = xsmi_model_forward(call->model, &rows->features[l], s->hidden + l * stride);
        }
    }
    const xsmi_tile_rows input = {hidden, rows->counts, rows->blocks, false};
    xsmi_tile_call of_hidden = *call;
    of_hidden.rows = &input;
    score_input(&of_hidden, s);
}

static void score_plain(const xsmi_tile_call *call, plain_scratch *s)
{
    if (call->model->layer && !call->hidden) {
        score_hidden(call, s);
    } else {
        score_input(call, s);
    }
}

/* -- with the head ------------------------------------------------------------------------------------------------- */

/* Scratch for scores of weights, with or without a correction. */
typedef struct scratch {
    plain_scratch plain;
    void *prepared; /* what a correction has prepared for one block */
} scratch;

static void divide_scratch(const xsm_model *m, bool sparse, size_t blocks, xsmi_arena *arena, scratch *s)
{
    divide_plain(m, sparse, blocks, arena, &s->plain);
    s->prepared = xsmi_arena_take(arena, m->head ? m->head->block : 0, 1);
}

size_t xsmi_tiles_scratch(const xsm_model *m, bool sparse, size_t blocks)
{
    const xsmi_head_of_nodes *nodes = xsmi_model_nodes(m);
    return nodes ? nodes->scratch(m, sparse, blocks) : xsmi_tiles_scratch_of_rows(m, sparse, blocks);
}

size_t xsmi_tiles_scratch_of_rows(const xsm_model *m, bool sparse, size_t blocks)
{
    xsmi_arena arena = {NULL, 0};
    scratch s;
    divide_scratch(m, sparse, blocks, &arena, &s);
    return arena.used;
}

typedef struct corrected {
    const xsmi_tile_call *call;
    const xsmi_tile_rows *rows; /* the rows of these blocks, not their hidden vectors */
    size_t block;               /* the number of the first one in the call */
    const void *prepared;
} corrected;

/* Adds the correction to a tile, which is in scratch memory, and passes the tile on. */
static void correct_tile(void *state, const xsmi_tile *tile)
{
    const corrected *c = state;
    const xsmi_head *correction = c->call->model->head;
    const xsmi_features *rows = c->rows->features + tile->block * XSMI_LANES;
    float *scores = (float *)(uintptr_t)tile->scores;
    xsmi_tile moved = *tile;
    moved.first += c->call->model->head_first;
    correction->kind->tile(correction, &moved, rows, c->rows->counts[tile->block], c->prepared, scores);
    moved.first = tile->first;
    moved.block += c->block;
    c->call->consume(c->call->state, &moved);
}

/* Scores with a correction. If it prepares memory for a block, which may be as much as the block's scores of all
 * classes, takes one block at a time. */
static void score_corrected(const xsmi_tile_call *call, scratch *s)
{
    const xsm_model *m = call->model;
    const xsmi_tile_rows *rows = call->rows;
    const xsmi_head_kind *kind = m->head->kind;
    const size_t together = kind->prepare ? 1 : rows->blocks;
    for (size_t b = 0; b < rows->blocks; b += together) {
        const xsmi_tile_rows group = {rows->features + b * XSMI_LANES, rows->counts + b, together, rows->sparse};
        if (kind->prepare) {
            kind->prepare(m->head, m->kernels, group.features, group.counts[0], s->prepared);
        }
        corrected c = {call, &group, b, s->prepared};
        const xsmi_tile_call plain = {m,  &group,        call->first,  call->end,    correct_tile,
                                      &c, call->context, call->stores, call->hidden, true};
        score_plain(&plain, &s->plain);
    }
}

void xsmi_tiles_score(const xsmi_tile_call *call, void *memory)
{
    const xsm_model *m = call->model;
    const xsmi_head_of_nodes *nodes = xsmi_model_nodes(m);
    if (nodes && !call->of_rows) {
        nodes->score(call, memory);
        return;
    }
    xsmi_arena arena = {memory, 0};
    scratch s;
    divide_scratch(m, call->rows->sparse, call->rows->blocks, &arena, &s);
    if (m->head && !call->of_rows) {
        score_corrected(call, &s);
    } else {
        score_plain(call, &s.plain);
    }
}
