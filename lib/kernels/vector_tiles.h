/*
 * The kernels on tiles of scores, over the vocabulary of vector_rows.h and
 *   v_load_quads               four floats from each of VW/4 rows: rows[0], rows[4], ..., at the same offset
 *   v_transpose_quads          transposes the 4 x 4 blocks of four such vectors
 *   v_transpose_fours          transposes VW/4 vectors as a matrix of fours: four floats are one number of it
 *   BLOCK_VECTORS              most vectors in a block of accumulators,
 *   BLOCK_CLASSES(v)           the classes of a block with v vectors, at most BLOCK_MOST
 *   RANK_VECTORS               vectors of features in a block of accumulators of rank_update()
 *
 * Full scoring follows the outer-product scheme of Goto & van de Geijn (Anatomy of High-Performance Matrix
 * Multiplication, ACM TOMS 34(3), 2008) with the roles reversed: the batch is packed, once for all classes, and the
 * weights are read unpacked as broadcast scalars, because packing them would cost as much as reading them.
 */
#ifndef XSMI_VECTOR_TILES_H
#define XSMI_VECTOR_TILES_H

#include "kernels/vector_few.h"
#include "kernels/vector_draws.h"
#include "kernels/vector_dual.h"
#include "kernels/vector_narrow.h"
#include "kernels/vector_quads.h"
#include "kernels/vector_rows.h"

#include <stdbool.h>

#define RANK_LANES (RANK_VECTORS * VW)
#define RANK_CLASSES BLOCK_CLASSES(RANK_VECTORS)

static void pack(const float *const *x, size_t n, size_t d, float *packed)
{
    static const float zeros[4] = {0};
    for (size_t first = 0; first < XSMI_LANES; first += VW) {
        size_t i = 0;
        for (; i + 4 <= d; i += 4) {
            const float *row[VW];
            for (size_t l = 0; l < VW; l++) {
                row[l] = first + l < n ? x[first + l] + i : zeros;
            }
            vf quad[4];
            XSMI_UNROLL
            for (size_t k = 0; k < 4; k++) {
                quad[k] = v_load_quads(row + k);
            }
            v_transpose_quads(quad);
            XSMI_UNROLL
            for (size_t k = 0; k < 4; k++) {
                v_store(packed + (i + k) * XSMI_LANES + first, quad[k]);
            }
        }
        for (; i < d; i++) {
            for (size_t l = first; l < first + VW; l++) {
                packed[i * XSMI_LANES + l] = l < n ? x[l][i] : 0.0f;
            }
        }
    }
}

/* VW classes of VW lanes, of which the first `wanted` are wanted. */
XSMI_INLINE void unpack_square(const float *scores, size_t wanted, float *out, size_t stride)
{
    vf part[VW / 4][4];
    XSMI_UNROLL
    for (size_t g = 0; g < VW / 4; g++) {
        XSMI_UNROLL
        for (size_t k = 0; k < 4; k++) {
            part[g][k] = v_load(scores + (4 * g + k) * XSMI_LANES);
        }
        v_transpose_quads(part[g]);
    }
    XSMI_UNROLL
    for (size_t k = 0; k < 4; k++) {
        vf row[VW / 4];
        XSMI_UNROLL
        for (size_t g = 0; g < VW / 4; g++) {
            row[g] = part[g][k];
        }
        v_transpose_fours(row);
        XSMI_UNROLL
        for (size_t g = 0; g < VW / 4; g++) {
            if (4 * g + k < wanted) {
                v_store(out + (4 * g + k) * stride, row[g]);
            }
        }
    }
}

static void unpack(const float *scores, size_t classes, size_t n, float *out, size_t stride)
{
    for (size_t first = 0; first < n; first += VW) {
        const size_t wanted = n - first < VW ? n - first : VW;
        float *rows = out + first * stride;
        for (size_t c = 0; c + VW <= classes; c += VW) {
            unpack_square(scores + c * XSMI_LANES + first, wanted, rows + c, stride);
        }
        if (classes % VW > 0 && classes > VW) { /* some for the second time */
            unpack_square(scores + (classes - VW) * XSMI_LANES + first, wanted, rows + classes - VW, stride);
        }
        for (size_t l = 0; classes < VW && l < wanted; l++) {
            for (size_t c = 0; c < classes; c++) {
                rows[l * stride + c] = scores[c * XSMI_LANES + first + l];
            }
        }
    }
}

/* The floats from `at` to `at + VW` of a piece of a row of which `used` exist: the others are read as 0 and not
 * written. */
XSMI_INLINE vf load_used(const float *p, size_t at, size_t used)
{
    if (at + VW <= used) {
        return v_load(p + at);
    }
    return at < used ? v_load_first(p + at, used - at) : v_set(0.0f);
}

XSMI_INLINE void store_used(float *p, vf a, size_t at, size_t used)
{
    if (at + VW <= used) {
        v_store(p + at, a);
    } else if (at < used) {
        v_store_first(p + at, a, used - at);
    }
}

/* Prefetches the pieces of the rows that the next block changes. */
XSMI_INLINE void prefetch_rows(const float *rows, size_t stride, size_t left, size_t used)
{
    size_t n = left < RANK_CLASSES ? left : RANK_CLASSES;
    for (size_t c = 0; c < n; c++) {
        xsmi_prefetch_row(rows + c * stride, used);
    }
}

/* acc[c][v] += a[c*step] * (vector v at b). The smaller set of the two stays in registers, the other is read once. */
XSMI_INLINE void outer_product(const size_t classes, const size_t vectors, const float *a, size_t step, const float *b,
                               vf acc[BLOCK_MOST][BLOCK_VECTORS])
{
    vf x[BLOCK_VECTORS], factor[BLOCK_MOST];
    XSMI_UNROLL
    for (size_t c = 0; classes < vectors && c < classes; c++) {
        factor[c] = v_set(a[c * step]);
    }
    XSMI_UNROLL
    for (size_t v = 0; v < vectors; v++) {
        x[v] = v_load(b + v * VW);
        XSMI_UNROLL
        for (size_t c = 0; classes < vectors && c < classes; c++) {
            acc[c][v] = v_fma(factor[c], x[v], acc[c][v]);
        }
    }
    XSMI_UNROLL
    for (size_t c = 0; classes >= vectors && c < classes; c++) {
        factor[c] = v_set(a[c * step]);
        XSMI_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            acc[c][v] = v_fma(factor[c], x[v], acc[c][v]);
        }
    }
}

/* What a scoring kernel does besides, between two lines of features: nothing, prefetch the rows that follow, or widen
 * numbers of an XSM_DTYPE_* value. */
enum { BESIDE_NOTHING = -2, BESIDE_PREFETCH = -1 };

/* Bytes that are widened at once, and how many bytes ahead a line is prefetched into the L1 cache. */
#define WIDEN_BYTES 64
#define WIDEN_AHEAD 2048

/* Widens the next WIDEN_BYTES, at most `pieces` times; what is left at the end is less than that. */
XSMI_INLINE void widen_beside(const int32_t dtype, xsmi_widening *next, size_t pieces)
{
    const size_t size = xsmi_number_bytes(dtype), each = WIDEN_BYTES / size;
    for (size_t k = 0; k < pieces && next->at + each <= next->end; k++) {
        __builtin_prefetch((const void *)((uintptr_t)next->from->data + next->at * size + WIDEN_AHEAD), 0, 3);
        XSMI_UNROLL
        for (size_t i = 0; i < each; i += VW) {
            v_store(next->out + i, load_narrow(dtype, next->from->data, next->at + i));
        }
        next->out += each;
        next->at += each;
    }
}

/* `classes` x `vectors` x VW scores; these and `beside` are constants wherever this is inlined. Widens `each`
 * times WIDEN_BYTES for each line of features. */
XSMI_INLINE void score_block(const size_t classes, const size_t vectors, const int beside, const float *w,
                             size_t stride, const float *packed, size_t d, float scale, const float *row_scale,
                             const float *bias, float *out, xsmi_widening *widening, size_t each)
{
    upcoming_lines next = {(const float *)((uintptr_t)w + classes * stride * sizeof(float)), stride, d, 0};
    vf acc[BLOCK_MOST][BLOCK_VECTORS];
    XSMI_UNROLL
    for (size_t c = 0; c < classes; c++) {
        XSMI_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            acc[c][v] = v_set(0.0f);
        }
    }
    for (size_t line = 0; line < d; line += XSMI_LINE) {
        if (beside == BESIDE_PREFETCH) {
            fetch_lines(&next, classes);
        } else if (beside != BESIDE_NOTHING) {
            widen_beside(beside, widening, each);
        }
        size_t end = d - line < XSMI_LINE ? d : line + XSMI_LINE;
        for (size_t i = line; i < end; i++) {
            outer_product(classes, vectors, w + i, stride, packed + i * XSMI_LANES, acc);
        }
    }
    XSMI_UNROLL
    for (size_t c = 0; c < classes; c++) {
        vf s = v_set(row_scale ? scale * row_scale[c] : scale);
        XSMI_UNROLL
        for (size_t v = 0; v < vectors; v++) {
            vf score = bias ? v_fma(s, acc[c][v], v_set(bias[c])) : (vf)(s * acc[c][v]);
            v_store(out + c * XSMI_LANES + v * VW, score);
        }
    }
}

/* Four classes with the most vectors. Not inlined: the compiler would keep fewer accumulators of the large block in
 * registers. */
static __attribute__((noinline)) void score_four(const float *w, size_t stride, const float *packed, size_t d,
                                                 float scale, const float *row_scale, const float *bias, float *out)
{
    score_block(4, BLOCK_VECTORS, BESIDE_NOTHING, w, stride, packed, d, scale, row_scale, bias, out, NULL, 0);
}

/* Scores of all classes with `vectors` vectors of lanes. */
XSMI_INLINE void score_vectors(const size_t vectors, const int beside, const float *w, size_t stride, size_t classes,
                               const float *packed, size_t d, float scale, const float *row_scale, const float *bias,
                               float *out, xsmi_widening *next)
{
    const size_t most = BLOCK_CLASSES(vectors), lines = classes / most * ((d + XSMI_LINE - 1) / XSMI_LINE);
    const size_t each =
        beside >= 0 && lines > 0 ? (next->end - next->at) * xsmi_number_bytes(beside) / WIDEN_BYTES / lines + 1 : 0;
    for (size_t c = 0, some; c < classes; c += some) {
        const float *scales = row_scale ? row_scale + c : NULL;
        const float *biases = bias ? bias + c : NULL;
        const float *rows = w + c * stride;
        float *scores = out + c * XSMI_LANES;
        if (classes - c >= most) {
            some = most;
            score_block(most, vectors, beside, rows, stride, packed, d, scale, scales, biases, scores, next, each);
        } else if (most > 4 && vectors == BLOCK_VECTORS && classes - c >= 4) {
            some = 4;
            score_four(rows, stride, packed, d, scale, scales, biases, scores);
        } else {
            some = 1;
            score_block(1, vectors, BESIDE_NOTHING, rows, stride, packed, d, scale, scales, biases, scores, NULL, 0);
        }
    }
}

/* Scores of n > 0 lanes, by one call for each number of vectors, each with a block size of its own. */
XSMI_INLINE void score_first_lanes(const int beside, const float *w, size_t stride, size_t classes, const float *packed,
                                   size_t n, size_t d, float scale, const float *row_scale, const float *bias,
                                   float *out, xsmi_widening *next)
{
    if (n > (BLOCK_VECTORS - 1) * VW) {
        score_vectors(BLOCK_VECTORS, beside, w, stride, classes, packed, d, scale, row_scale, bias, out, next);
    } else if (n > 2 * VW && BLOCK_VECTORS > 3) {
        score_vectors(3, beside, w, stride, classes, packed, d, scale, row_scale, bias, out, next);
    } else if (n > VW && BLOCK_VECTORS > 2) {
        score_vectors(2, beside, w, stride, classes, packed, d, scale, row_scale, bias, out, next);
    } else {
        score_vectors(1, beside, w, stride, classes, packed, d, scale, row_scale, bias, out, next);
    }
}

/* Only the first of these calls prefetches or widens. */
static void score_lanes(const float *w, size_t stride, size_t classes, const float *packed, size_t n, size_t d,
                        float scale, const float *row_scale, const float *bias, float *out)
{
    score_first_lanes(BESIDE_PREFETCH, w, stride, classes, packed, n, d, scale, row_scale, bias, out, NULL);
    for (size_t lane = BLOCK_VECTORS * VW; lane < n; lane += BLOCK_VECTORS * VW) {
        score_first_lanes(BESIDE_NOTHING, w, stride, classes, packed + lane, n - lane, d, scale, row_scale, bias,
                          out + lane, NULL);
    }
}

static void score_widening(const float *w, size_t stride, size_t classes, const float *packed, size_t n, size_t d,
                           float scale, const float *row_scale, const float *bias, float *out,
                           const xsmi_widening *next)
{
    xsmi_widening left = *next;
#define SCORE_WIDENING(dtype)                                                                                          \
    score_first_lanes(dtype, w, stride, classes, packed, n, d, scale, row_scale, bias, out, &left)
    XSMI_BY_NARROW_KIND(next->from->dtype, SCORE_WIDENING);
    for (size_t lane = BLOCK_VECTORS * VW; lane < n; lane += BLOCK_VECTORS * VW) {
        score_first_lanes(BESIDE_NOTHING, w, stride, classes, packed + lane, n - lane, d, scale, row_scale, bias,
                          out + lane, NULL);
    }
    widen(left.from, left.at, left.end - left.at, left.out);
}

static void score_tile(const float *w, size_t stride, size_t classes, const float *packed, size_t d, float scale,
                       const float *row_scale, const float *bias, float *out)
{
    score_lanes(w, stride, classes, packed, XSMI_LANES, d, scale, row_scale, bias, out);
}

/* The most classes whose vectors of lanes are compared with the bar in one test. */
#define SIFT_CLASSES 4

static size_t sift_tile(const float *scores, size_t classes, const float *bar, size_t n, uint32_t *found)
{
    float above[XSMI_LANES];
    for (size_t l = 0; l < XSMI_LANES; l++) {
        above[l] = l < n ? bar[l] : INFINITY;
    }
    size_t count = 0;
    for (size_t c = 0; c < classes; c += SIFT_CLASSES) {
        size_t some = classes - c < SIFT_CLASSES ? classes - c : SIFT_CLASSES;
        vm any = m_less(v_set(0.0f), v_set(0.0f));
        for (size_t k = c; k < c + some; k++) {
            for (size_t l = 0; l < n; l += VW) {
                vf score = v_load(scores + k * XSMI_LANES + l);
                any = m_or(any, m_or(m_less(v_load(above + l), score), m_unordered(score, score)));
            }
        }
        if (__builtin_expect(!m_any(any), 1)) {
            continue;
        }
        for (size_t at = c * XSMI_LANES; at < (c + some) * XSMI_LANES; at++) {
            found[count] = (uint32_t)at;
            count += at % XSMI_LANES < n && !(scores[at] <= above[at % XSMI_LANES]);
        }
    }
    return count;
}

/* Lane-wise, score and class enter the falling list if the score is larger than the last; the entries below move down.
 * Classes are stored as the bits of floats: they are only loaded, selected and stored. */
XSMI_INLINE void insert_top(xsmi_reduction *r, size_t lane, vf score, vf class)
{
    float *scores = r->top_score + lane;
    float *classes = (float *)(void *)(r->top_class + lane);
    vm moved = m_less(v_load(scores), score);
    for (size_t k = 0; k < r->top; k++) {
        vf old_score = v_load(scores + k * XSMI_LANES);
        vf old_class = v_load(classes + k * XSMI_LANES);
        /* Everything below the new entry moves down, equal scores included: they keep their order. */
        moved = m_or(moved, m_less(old_score, score));
        v_store(scores + k * XSMI_LANES, v_select(moved, score, old_score));
        v_store(classes + k * XSMI_LANES, v_select(moved, class, old_class));
        score = v_select(moved, old_score, score);
        class = v_select(moved, old_class, class);
    }
}

/* Offers the scores to the lists of one vector of lanes. */
XSMI_INLINE void update_top(const float *scores, size_t classes, uint32_t first, xsmi_reduction *r, size_t lane)
{
    const float *least = r->top_score + (size_t)(r->top - 1) * XSMI_LANES + lane;
    vf threshold = v_load(least);
    for (size_t c = 0; c < classes; c++) {
        vf score = v_load(scores + c * XSMI_LANES + lane);
        if (__builtin_expect(m_any(m_less(threshold, score)), 0)) {
            uint32_t class = first + (uint32_t)c;
            float bits;
            memcpy(&bits, &class, sizeof(bits));
            insert_top(r, lane, score, v_set(bits));
            threshold = v_load(least);
        }
    }
}

/* REDUCE_VECTORS vectors of lanes: several exponentials are computed at once. */
#define REDUCE_VECTORS 2

XSMI_INLINE void reduce_lanes(const float *scores, size_t classes, uint32_t first, xsmi_reduction *r, size_t lane)
{
    /* Four chains: a maximum takes four cycles and two can start in each cycle. */
    vf max[4][REDUCE_VECTORS];
    vf before[REDUCE_VECTORS];
    XSMI_UNROLL
    for (size_t v = 0; v < REDUCE_VECTORS; v++) {
        before[v] = v_load(r->max + lane + v * VW);
        XSMI_UNROLL
        for (size_t k = 0; k < 4; k++) {
            max[k][v] = v_set(-INFINITY);
        }
    }
    size_t c = 0;
    for (; c + 4 <= classes; c += 4) {
        XSMI_UNROLL
        for (size_t k = 0; k < 4; k++) {
            XSMI_UNROLL
            for (size_t v = 0; v < REDUCE_VECTORS; v++) {
                max[k][v] = v_max(v_load(scores + (c + k) * XSMI_LANES + lane + v * VW), max[k][v]);
            }
        }
    }
    for (; c < classes; c++) {
        XSMI_UNROLL
        for (size_t v = 0; v < REDUCE_VECTORS; v++) {
            max[0][v] = v_max(v_load(scores + c * XSMI_LANES + lane + v * VW), max[0][v]);
        }
    }
    vf shift[REDUCE_VECTORS];
    vf sum[REDUCE_VECTORS];
    XSMI_UNROLL
    for (size_t v = 0; v < REDUCE_VECTORS; v++) {
        vf tile_max = v_max(v_max(max[0][v], max[1][v]), v_max(max[2][v], max[3][v]));
        if (r->top > 0) {
            vf least = v_load(r->top_score + (size_t)(r->top - 1) * XSMI_LANES + lane + v * VW);
            if (m_any(m_less(least, tile_max))) {
                update_top(scores, classes, first, r, lane + v * VW);
            }
        }
        /* + 0: whether the maximum is +0 or -0 depends on the order of the comparisons. */
        vf all_max = v_max(tile_max, before[v]) + v_set(0.0f);
        v_store(r->max + lane + v * VW, all_max);
        /* If every score is -INFINITY, shifting by 0 gives exponentials of 0, not NaN. */
        shift[v] = v_select(m_less(v_set(-INFINITY), all_max), all_max, v_set(0.0f));
        sum[v] = v_set(0.0f);
    }
    for (c = 0; c < classes; c++) {
        XSMI_UNROLL
        for (size_t v = 0; v < REDUCE_VECTORS; v++) {
            sum[v] = add_expf0(sum[v], v_load(scores + c * XSMI_LANES + lane + v * VW) - shift[v]);
        }
    }
    float tile_sum[REDUCE_VECTORS * VW];
    float factor[REDUCE_VECTORS * VW];
    XSMI_UNROLL
    for (size_t v = 0; v < REDUCE_VECTORS; v++) {
        v_store(tile_sum + v * VW, sum[v]);
        v_store(factor + v * VW, v_expf0(before[v] - shift[v]));
    }
    for (size_t l = 0; l < REDUCE_VECTORS * VW; l++) {
        double scaled = r->sum[lane + l] * (double)factor[l];
        r->sum[lane + l] = scaled + (double)tile_sum[l];
    }
}

static void reduce_tile(const float *scores, size_t classes, uint32_t first, xsmi_reduction *r)
{
    if (r->lanes <= XSMI_FEW) {
        reduce_few(scores, classes, first, r);
        return;
    }
    for (size_t lane = 0; lane < XSMI_LANES; lane += REDUCE_VECTORS * VW) {
        reduce_lanes(scores, classes, first, r, lane);
    }
    if (r->target) {
        for (size_t l = 0; l < XSMI_LANES; l++) {
            uint32_t at = r->target[l] - first;
            if (__builtin_expect(at < classes, 0)) {
                r->target_score[l] = scores[(size_t)at * XSMI_LANES + l];
            }
        }
    }
}

/* Terms of a product that are added together: with RANK_LANES numbers each they fill half of a small L1 cache. */
#define RANK_TERMS 128
/* Every RANK_STEPS terms a block prefetches RANK_QUEUED lines of a queue: no more than memory delivers meanwhile. */
#define RANK_STEPS 16
#define RANK_QUEUED (RANK_CLASSES / 2 + 1)

/* Prefetches the next RANK_QUEUED lines, or the rest of a row. */
XSMI_PREFETCHER void prefetch_some(xsmi_prefetch_queue *queue)
{
    if (queue->row < queue->count) {
        const float *row = queue->rows[queue->row];
        const size_t left = queue->lines - queue->line, end = queue->line + (left < RANK_QUEUED ? left : RANK_QUEUED);
        for (size_t line = queue->line; line < end; line++) {
            xsmi_prefetch_line(row + line * XSMI_LINE);
        }
        queue->row += end == queue->lines;
        queue->line = end == queue->lines ? 0 : end;
    }
}

/*
 * The rows' numbers of the same features lie one row length apart, often a power of two, and so evict one another from
 * the L1 cache; packed, they do not.
 */
static void pack_rows(const float *const *x, size_t n, size_t d, float *packed, size_t pitch)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t at = 0; at < d; at += XSMI_LANES) {
            float *piece = packed + at / XSMI_LANES * pitch + i * XSMI_LANES;
            XSMI_UNROLL
            for (size_t v = 0; v < XSMI_LANES; v += VW) {
                v_store(piece + v, load_used(x[i] + at, v, d - at));
            }
        }
    }
}

/* What the blocks of a product read: the coefficients and the terms of a piece. */
typedef struct rank_terms {
    const float *g, *x;
    size_t n, used; /* terms; numbers of a row that exist */
    bool add;       /* onto the weights, not onto 0 */
} rank_terms;

/* `classes` x RANK_LANES weights stay in registers for all terms. `whole`: all of the numbers exist. */
XSMI_INLINE void rank_block(const size_t classes, const bool whole, float *w, size_t stride, const rank_terms *t,
                            const float *g, const size_t g_class, const size_t g_row, xsmi_prefetch_queue *queue)
{
    vf acc[BLOCK_MOST][BLOCK_VECTORS];
    XSMI_UNROLL
    for (size_t c = 0; c < classes; c++) {
        XSMI_UNROLL
        for (size_t v = 0; v < RANK_VECTORS; v++) {
            acc[c][v] = !t->add ? v_set(0.0f)
                        : whole ? v_load(w + c * stride + v * VW)
                                : load_used(w + c * stride, v * VW, t->used);
        }
    }
    for (size_t i = 0, end; i < t->n; i = end) {
        end = !queue || t->n - i < RANK_STEPS ? t->n : i + RANK_STEPS;
        if (queue) {
            prefetch_some(queue);
        }
        for (size_t j = i; j < end; j++) {
            outer_product(classes, RANK_VECTORS, g + j * g_row, g_class, t->x + j * XSMI_LANES, acc);
        }
    }
    XSMI_UNROLL
    for (size_t c = 0; c < classes; c++) {
        XSMI_UNROLL
        for (size_t v = 0; v < RANK_VECTORS; v++) {
            if (whole) {
                v_store(w + c * stride + v * VW, acc[c][v]);
            } else {
                store_used(w + c * stride, acc[c][v], v * VW, t->used);
            }
        }
    }
}

/* rank_block() over all classes. */
XSMI_INLINE void rank_blocks(const bool whole, float *w, size_t stride, size_t classes, const rank_terms *t,
                             const size_t g_class, const size_t g_row, xsmi_prefetch_queue *queue)
{
    const float *g = t->g;
    size_t c = 0;
    for (; c + RANK_CLASSES <= classes; c += RANK_CLASSES) {
        float *rows = w + c * stride;
        prefetch_rows(rows + RANK_CLASSES * stride, stride, classes - c - RANK_CLASSES, t->used);
        queue = queue && queue->row < queue->count ? queue : NULL;
        rank_block(RANK_CLASSES, whole, rows, stride, t, g + c * g_class, g_class, g_row, queue);
    }
    for (; RANK_CLASSES > 4 && c + 4 <= classes; c += 4) {
        rank_block(4, whole, w + c * stride, stride, t, g + c * g_class, g_class, g_row, NULL);
    }
    for (; c + 2 <= classes; c += 2) {
        rank_block(2, whole, w + c * stride, stride, t, g + c * g_class, g_class, g_row, NULL);
    }
    if (c < classes) {
        rank_block(1, whole, w + c * stride, stride, t, g + c * g_class, g_class, g_row, NULL);
    }
}

XSMI_INLINE void rank_pieces(bool add, float *w, size_t stride, size_t classes, const float *g, const size_t g_class,
                             const size_t g_row, const float *packed, size_t pitch, size_t n, size_t d,
                             xsmi_prefetch_queue *queue)
{
    for (size_t at = 0; at < d; at += RANK_LANES) {
        const float *piece = packed + at / XSMI_LANES * pitch + at % XSMI_LANES;
        const size_t used = d - at < RANK_LANES ? d - at : RANK_LANES;
        size_t from = 0;
        /* At least once: without terms the sums are 0, too. */
        do {
            const size_t some = n - from < RANK_TERMS ? n - from : RANK_TERMS;
            const rank_terms t = {g + from * g_row, piece + from * XSMI_LANES, some, used, add || from > 0};
            if (used == RANK_LANES) {
                rank_blocks(true, w + at, stride, classes, &t, g_class, g_row, queue);
            } else {
                rank_blocks(false, w + at, stride, classes, &t, g_class, g_row, queue);
            }
            from += some;
        } while (from < n);
    }
}

static void rank_packed(bool add, float *w, size_t stride, size_t classes, const float *g, size_t g_class, size_t g_row,
                        const float *packed, size_t pitch, size_t n, size_t d, xsmi_prefetch_queue *queue)
{
    if (g_class == 1) {
        rank_pieces(add, w, stride, classes, g, 1, g_row, packed, pitch, n, d, queue);
    } else {
        rank_pieces(add, w, stride, classes, g, g_class, 1, packed, pitch, n, d, queue);
    }
}

static void rank_update(float *w, size_t stride, size_t classes, const float *g, size_t g_stride, const float *const *x,
                        size_t n, size_t d)
{
    _Alignas(64) float packed[RANK_TERMS * XSMI_LANES];
    for (size_t at = 0; at < d; at += XSMI_LANES) {
        const size_t used = d - at < XSMI_LANES ? d - at : XSMI_LANES;
        for (size_t from = 0; from < n; from += RANK_TERMS) {
            const float *rows[RANK_TERMS];
            const size_t some = n - from < RANK_TERMS ? n - from : RANK_TERMS;
            for (size_t i = 0; i < some; i++) {
                rows[i] = x[from + i] + at;
            }
            pack_rows(rows, some, used, packed, 0);
            rank_packed(true, w + at, stride, classes, g + from * g_stride, 1, g_stride, packed, 0, some, used, NULL);
        }
    }
}

#endif
