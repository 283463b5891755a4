/*
 * Full scoring (of all classes) for one to XSMI_FEW rows, written with the vocabulary of vector_rows.h and
 * vector_tiles.h, which includes this file.
 *
 * With so few rows the time is that of reading the weights from memory, and lanes over examples would be mostly empty.
 * So the lanes run over classes: a block of weights is transposed in registers, four features of VW classes at a time,
 * and each class's sum still adds its terms in rising order of features. The bits are those of score_tile and
 * reduce_tile.
 */
#ifndef XSMI_VECTOR_FEW_H
#define XSMI_VECTOR_FEW_H

#include "kernels/vector_rows.h"

/* Vectors of classes at once: a chain of fused multiply-adds takes four cycles a feature. */
#define FEW_GROUPS (VW == 4 ? 4 : 2)
/* The position of the next line to prefetch. Rows are prefetched one after another, in the order of memory: in another
 * order, a column of lines after a column, they arrive more slowly. */
typedef struct upcoming_lines {
    const float *row;
    size_t stride, d, column;
} upcoming_lines;

/* Prefetches the next `count` lines into the L2 cache: a block of rows and the next are more than the L1 cache holds.
 * Rows that do not exist do no harm. */
XSMI_INLINE void fetch_lines(upcoming_lines *f, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        __builtin_prefetch((const void *)((uintptr_t)f->row + f->column * sizeof(float)), 0, 2);
        f->column += XSMI_LINE;
        if (f->column >= f->d) {
            f->column = 0;
            f->row = (const float *)((uintptr_t)f->row + f->stride * sizeof(float));
        }
    }
}

/* Four features of VW classes: quad[k] holds feature k of each. */
XSMI_INLINE void load_transposed(const float *w, size_t stride, vf quad[4])
{
    XSMI_UNROLL
    for (size_t k = 0; k < 4; k++) {
        const float *row[VW];
        XSMI_UNROLL
        for (size_t l = 0; l < VW; l += 4) {
            row[l] = w + (k + l) * stride;
        }
        quad[k] = v_load_quads(row);
    }
    v_transpose_quads(quad);
}

/* One feature of the first n of VW classes. */
XSMI_INLINE vf load_column(const float *w, size_t stride, size_t n)
{
    float column[VW];
    XSMI_UNROLL
    for (size_t l = 0; l < VW; l++) {
        column[l] = l < n ? w[l * stride] : 0.0f;
    }
    return v_load(column);
}

/* Writes the scores of the first n of VW classes with one row, XSMI_LANES floats apart. */
XSMI_INLINE void finish_few(vf sum, size_t n, float scale, const float *row_scale, const float *bias, float *out)
{
    float score[VW];
    vf s = v_set(scale);
    if (row_scale) {
        s = s * (n < VW ? v_load_first(row_scale, n) : v_load(row_scale));
    }
    if (bias) {
        sum = v_fma(s, sum, n < VW ? v_load_first(bias, n) : v_load(bias));
    } else {
        sum = s * sum;
    }
    v_store(score, sum);
    for (size_t l = 0; l < n; l++) {
        out[l * XSMI_LANES] = score[l];
    }
}

/* Adds the products of features i to i + 3 of VW classes. */
XSMI_INLINE void add_quad(const size_t rows, const float *w, size_t stride, const float *const *x, size_t i,
                          vf acc[XSMI_FEW])
{
    vf quad[4];
    load_transposed(w + i, stride, quad);
    XSMI_UNROLL
    for (size_t k = 0; k < 4; k++) {
        XSMI_UNROLL
        for (size_t r = 0; r < rows; r++) {
            acc[r] = v_fma(quad[k], v_set(x[r][i + k]), acc[r]);
        }
    }
}

/* The scores of groups*VW classes with `rows` rows; both are constants wherever this is inlined. */
XSMI_INLINE void score_groups(const size_t groups, const size_t rows, const float *w, size_t stride,
                              const float *const *x, size_t d, float scale, const float *row_scale, const float *bias,
                              float *out)
{
    vf acc[FEW_GROUPS][XSMI_FEW];
    XSMI_UNROLL
    for (size_t g = 0; g < groups; g++) {
        XSMI_UNROLL
        for (size_t r = 0; r < rows; r++) {
            acc[g][r] = v_set(0.0f);
        }
    }
    upcoming_lines next = {(const float *)((uintptr_t)w + groups * VW * stride * sizeof(float)), stride, d, 0};
    size_t i = 0;
    for (; i + XSMI_LINE <= d; i += XSMI_LINE) {
        fetch_lines(&next, groups * VW);
        XSMI_UNROLL
        for (size_t g = 0; g < groups; g++) {
            /* A line of each row at once: the lines of more rows would compete for the same sets of the L1 cache. */
            for (size_t j = i; j < i + XSMI_LINE; j += 4) {
                add_quad(rows, w + g * VW * stride, stride, x, j, acc[g]);
            }
        }
    }
    for (; i + 4 <= d; i += 4) {
        XSMI_UNROLL
        for (size_t g = 0; g < groups; g++) {
            add_quad(rows, w + g * VW * stride, stride, x, i, acc[g]);
        }
    }
    for (; i < d; i++) {
        XSMI_UNROLL
        for (size_t g = 0; g < groups; g++) {
            vf column = load_column(w + g * VW * stride + i, stride, VW);
            XSMI_UNROLL
            for (size_t r = 0; r < rows; r++) {
                acc[g][r] = v_fma(column, v_set(x[r][i]), acc[g][r]);
            }
        }
    }
    XSMI_UNROLL
    for (size_t g = 0; g < groups; g++) {
        XSMI_UNROLL
        for (size_t r = 0; r < rows; r++) {
            finish_few(acc[g][r], VW, scale, row_scale ? row_scale + g * VW : NULL, bias ? bias + g * VW : NULL,
                       out + g * VW * XSMI_LANES + r);
        }
    }
}

/* The same for the remaining n < VW classes. */
XSMI_INLINE void score_left(const float *w, size_t stride, size_t n, const float *x, size_t d, float scale,
                            const float *row_scale, const float *bias, float *out)
{
    vf sum = v_set(0.0f);
    for (size_t i = 0; i < d; i++) {
        sum = v_fma(load_column(w + i, stride, n), v_set(x[i]), sum);
    }
    finish_few(sum, n, scale, row_scale, bias, out);
}

XSMI_INLINE void score_rows(const size_t rows, const float *w, size_t stride, size_t classes, const float *const *x,
                            size_t d, float scale, const float *row_scale, const float *bias, float *out)
{
    size_t c = 0;
    for (; c + FEW_GROUPS * VW <= classes; c += FEW_GROUPS * VW) {
        score_groups(FEW_GROUPS, rows, w + c * stride, stride, x, d, scale, row_scale ? row_scale + c : NULL,
                     bias ? bias + c : NULL, out + c * XSMI_LANES);
    }
    for (; c + VW <= classes; c += VW) {
        score_groups(1, rows, w + c * stride, stride, x, d, scale, row_scale ? row_scale + c : NULL,
                     bias ? bias + c : NULL, out + c * XSMI_LANES);
    }
    if (c < classes && classes >= VW) {
        /* The last VW classes, some of them a second time: this is cheaper than fewer classes, and gives the same
         * bits. */
        c = classes - VW;
        score_groups(1, rows, w + c * stride, stride, x, d, scale, row_scale ? row_scale + c : NULL,
                     bias ? bias + c : NULL, out + c * XSMI_LANES);
        return;
    }
    for (size_t r = 0; c < classes && r < rows; r++) {
        score_left(w + c * stride, stride, classes - c, x[r], d, scale, row_scale ? row_scale + c : NULL,
                   bias ? bias + c : NULL, out + c * XSMI_LANES + r);
    }
}

static void score_few(const float *w, size_t stride, size_t classes, const float *const *x, size_t n, size_t d,
                      float scale, const float *row_scale, const float *bias, float *out)
{
    switch (n) {
    case 1:
        score_rows(1, w, stride, classes, x, d, scale, row_scale, bias, out);
        break;
    case 2:
        score_rows(2, w, stride, classes, x, d, scale, row_scale, bias, out);
        break;
    case 3:
        score_rows(3, w, stride, classes, x, d, scale, row_scale, bias, out);
        break;
    default:
        score_rows(XSMI_FEW, w, stride, classes, x, d, scale, row_scale, bias, out);
        break;
    }
}

/* Scratch for a tile of one lane's scores, in whole vectors. */
#define FEW_TILE ((XSMI_CLASS_TILE + 15) / 16 * 16)

/* Copies the scores of lane l to z, followed by -INFINITY, and returns their maximum, or `max` if that is larger. */
XSMI_INLINE float copy_lane(const float *scores, size_t classes, size_t l, float max, float *z)
{
    for (size_t c = 0; c < classes; c++) {
        z[c] = scores[c * XSMI_LANES + l];
    }
    for (size_t c = classes; c % VW != 0; c++) {
        z[c] = -INFINITY;
    }
    vf largest = v_set(max);
    for (size_t c = 0; c < classes; c += VW) {
        largest = v_max(v_load(z + c), largest);
    }
    float lane[VW];
    v_store(lane, largest);
    for (size_t i = 0; i < VW; i++) {
        max = lane[i] > max ? lane[i] : max;
    }
    return max;
}

/* reduce_tile for r->lanes <= XSMI_FEW. */
static void reduce_few(const float *scores, size_t classes, uint32_t first, xsmi_reduction *r)
{
    float z[XSMI_FEW][FEW_TILE];
    float sum[XSMI_FEW] = {0};
    float shift[XSMI_FEW];
    for (size_t l = 0; l < r->lanes; l++) {
        float max = copy_lane(scores, classes, l, -INFINITY, z[l]);
        if (r->top > 0 && max > r->top_score[(size_t)(r->top - 1) * XSMI_LANES + l]) {
            for (size_t c = 0; c < classes; c++) {
                xsmi_insert_top(r, l, z[l][c], first + (uint32_t)c);
            }
        }
        max = (max > r->max[l] ? max : r->max[l]) + 0.0f; /* + 0 as in reduce_lanes() */
        shift[l] = max == -INFINITY ? 0.0f : max;
        double factor = (double)xsmi_expf0(r->max[l] - shift[l]);
        r->sum[l] *= factor;
        r->max[l] = max;
        const vf by = v_set(shift[l]);
        for (size_t c = 0; c < classes; c += VW) {
            v_store(z[l] + c, v_expf0(v_load(z[l] + c) - by));
        }
    }
    for (size_t l = r->lanes; l < XSMI_FEW; l++) {
        memset(z[l], 0, sizeof z[l]);
    }
    /* In rising order of classes, with the chains of four lanes interleaved. */
    for (size_t c = 0; c < classes; c++) {
        XSMI_UNROLL
        for (size_t l = 0; l < XSMI_FEW; l++) {
            sum[l] += z[l][c];
        }
    }
    for (size_t l = 0; l < r->lanes; l++) {
        r->sum[l] += (double)sum[l];
        uint32_t at = r->target ? r->target[l] - first : XSMI_NO_CLASS;
        if (at < classes) {
            r->target_score[l] = scores[(size_t)at * XSMI_LANES + l];
        }
    }
}

#endif
