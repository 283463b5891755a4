/*
 * The kernels on rows, written once over a small vocabulary of vector operations; avx512.c, avx2.c and neon.c define
 * the vocabulary and include this file.
 *
 * The vocabulary: VW floats in a vector vf, a mask vm of VW lanes;
 *   v_load, v_store            unaligned
 *   v_load_first, v_store_first  the first n < VW lanes only (others read as 0, and no other byte is touched)
 *   v_set, v_fma (a*b + c), v_sqrt
 *   v_max, v_min               a if a is larger (smaller) than b, else b; so b where either is NaN
 *   m_first, m_less, m_unordered, m_or, m_any
 *   m_lanes, m_bits            the lanes whose bits are set, and the bits of the lanes
 *   v_select                   a where the mask is set, else b
 *   v_most                     the largest lane; none is NaN, and of equal zeros either may be returned
 *   v_join                     joins 16/VW vectors as xsmi_join_16() does
 *   v_gather                   p[index[0..VW)]
 *   q_load, q_fma              of four floats in a vector vq
 *   ROWS                       the number of dot products for which x is read once
 * and the operators of C, lane by lane.
 */
#ifndef XSMI_VECTOR_ROWS_H
#define XSMI_VECTOR_ROWS_H

#include "kernels/arithmetic.h"
#include "kernels/kernels.h"

#include <math.h>

#define XSMI_INLINE static inline __attribute__((always_inline))

/* The small loops over registers must be unrolled, or the arrays that they index stay in memory. */
#ifdef __clang__
#define XSMI_UNROLL _Pragma("clang loop unroll(full)")
#define XSMI_UNROLL_TWICE _Pragma("clang loop unroll_count(2)")
#else
#define XSMI_UNROLL _Pragma("GCC unroll 64")
#define XSMI_UNROLL_TWICE _Pragma("GCC unroll 2")
#endif

/* The bits of a vector. */
typedef uint32_t v_bits __attribute__((vector_size(4 * VW)));

/* Vectors in a set of partial sums, and in a quarter of it. */
#define PARTS (XSMI_PARTIALS / VW)
#define QUARTER (16 / VW)

XSMI_INLINE float join_partials(const vf acc[PARTS])
{
    vf quarter[QUARTER];
    XSMI_UNROLL
    for (size_t k = 0; k < QUARTER; k++) {
        quarter[k] = acc[k] + acc[k + QUARTER] + (acc[k + 2 * QUARTER] + acc[k + 3 * QUARTER]);
    }
    return v_join(quarter);
}

/* expf0() of arithmetic.h without the cut-off at XSMI_EXP_LEAST: expf0 is the product of p and power. */
XSMI_INLINE vf exp_parts(vf x, vf *power)
{
    vf shifted = v_fma(x, v_set(XSMI_EXP_LOG2E), v_set(XSMI_EXP_SHIFT));
    vf n = shifted - v_set(XSMI_EXP_SHIFT);
    vf r = v_fma(n, v_set(-XSMI_EXP_LN2_HIGH), x);
    r = v_fma(n, v_set(-XSMI_EXP_LN2_LOW), r);
    vf p = v_fma(v_set(XSMI_EXP_C6), r, v_set(XSMI_EXP_C5));
    p = v_fma(p, r, v_set(XSMI_EXP_C4));
    p = v_fma(p, r, v_set(XSMI_EXP_C3));
    p = v_fma(p, r, v_set(XSMI_EXP_C2));
    p = v_fma(p, r, v_set(1.0f));
    *power = (vf)((v_bits)shifted << 23); /* 2^n of arithmetic.h: the exponent field is the low eight bits */
    return v_fma(p, r, v_set(1.0f));
}

XSMI_INLINE vf v_expf0(vf x)
{
    vf power;
    vf p = exp_parts(x, &power);
    return v_select(m_less(x, v_set(XSMI_EXP_LEAST)), v_set(0.0f), p * power);
}

/* sum + expf0(x). The product p * power is exact, so one fused operation rounds like a multiplication and an
 * addition. */
XSMI_INLINE vf add_expf0(vf sum, vf x)
{
    vf power;
    vf p = exp_parts(x, &power);
    return v_select(m_less(x, v_set(XSMI_EXP_LEAST)), sum, v_fma(p, power, sum));
}

/* Prefetches XSMI_PARTIALS floats of each of `ahead` rows. */
XSMI_INLINE void prefetch_at(size_t ahead, const float *const *row, size_t i)
{
    XSMI_UNROLL
    for (size_t j = 0; j < ahead; j++) {
        XSMI_UNROLL
        for (size_t k = 0; k < XSMI_PARTIALS; k += XSMI_LINE) {
            xsmi_prefetch_soon(row[j] + i + k);
        }
    }
}

/* Adds XSMI_PARTIALS products of each row to its partial sums. */
XSMI_INLINE void add_products(size_t rows, const float *const *row, const float *x, size_t i, vf acc[ROWS][PARTS])
{
    XSMI_UNROLL
    for (size_t k = 0; k < PARTS; k++) {
        vf xk = v_load(x + i + k * VW);
        XSMI_UNROLL
        for (size_t j = 0; j < rows; j++) {
            acc[j][k] = v_fma(v_load(row[j] + i + k * VW), xk, acc[j][k]);
        }
    }
}

/* `rows` dot products at once: x is read once, and the chains of one row hide the latency of another's. Meanwhile
 * prefetches the rows upcoming[0..ahead), the first `most` numbers of each (in whole XSMI_PARTIALS, or more than n). */
XSMI_INLINE void dot_rows(size_t rows, const float *const *row, const float *x, size_t n, float *out, size_t ahead,
                          const float *const *upcoming, size_t most)
{
    vf acc[ROWS][PARTS];
    XSMI_UNROLL
    for (size_t j = 0; j < rows; j++) {
        XSMI_UNROLL
        for (size_t k = 0; k < PARTS; k++) {
            acc[j][k] = v_set(0.0f);
        }
    }
    const size_t whole = n - n % XSMI_PARTIALS, prefetched = most < whole ? most : whole;
    size_t i = 0;
    /* Two pieces between two tests for the end: dense steps wait for instructions as well as for memory. */
    if (ahead > 0) {
        XSMI_UNROLL_TWICE
        for (; i < prefetched; i += XSMI_PARTIALS) {
            prefetch_at(ahead, upcoming, i);
            add_products(rows, row, x, i, acc);
        }
    }
    XSMI_UNROLL_TWICE
    for (; i < whole; i += XSMI_PARTIALS) {
        add_products(rows, row, x, i, acc);
    }
    if (i < n) {
        if (ahead > 0 && i < most) {
            prefetch_at(ahead, upcoming, i);
        }
        XSMI_UNROLL
        for (size_t k = 0; k < PARTS; k++) {
            size_t at = i + k * VW;
            if (at + VW <= n) {
                vf xk = v_load(x + at);
                XSMI_UNROLL
                for (size_t j = 0; j < rows; j++) {
                    acc[j][k] = v_fma(v_load(row[j] + at), xk, acc[j][k]);
                }
            } else if (at < n) {
                vm rest = m_first(n - at);
                vf xk = v_load_first(x + at, n - at);
                XSMI_UNROLL
                for (size_t j = 0; j < rows; j++) {
                    /* Not a plain fma: adding 0 would turn a partial sum of -0 into +0. */
                    vf sum = v_fma(v_load_first(row[j] + at, n - at), xk, acc[j][k]);
                    acc[j][k] = v_select(rest, sum, acc[j][k]);
                }
            }
        }
    }
    XSMI_UNROLL
    for (size_t j = 0; j < rows; j++) {
        out[j] = join_partials(acc[j]);
    }
}

static float dot(const float *a, const float *b, size_t n)
{
    float out;
    dot_rows(1, &a, b, n, &out, 0, NULL, 0);
    return out;
}

/* y[i] = fma(a, x[i], b*y[i]); meanwhile prefetches the row `next`, if any. */
XSMI_INLINE void update_row(float *y, const float *x, size_t n, float a, float b, const float *next)
{
    const vf va = v_set(a);
    const vf vb = v_set(b);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        if (next) {
            xsmi_prefetch_row(next + i, 32);
        }
        vf updated[32 / VW];
        XSMI_UNROLL
        for (size_t k = 0; k < 32 / VW; k++) {
            updated[k] = v_fma(va, v_load(x + i + k * VW), vb * v_load(y + i + k * VW));
        }
        XSMI_UNROLL
        for (size_t k = 0; k < 32 / VW; k++) {
            v_store(y + i + k * VW, updated[k]);
        }
    }
    for (; i + VW <= n; i += VW) {
        v_store(y + i, v_fma(va, v_load(x + i), vb * v_load(y + i)));
    }
    if (i < n) {
        vf last = v_fma(va, v_load_first(x + i, n - i), vb * v_load_first(y + i, n - i));
        v_store_first(y + i, last, n - i);
    }
}

/* Floats of each of two rows that are changed between two tests for the end. */
#define PAIR_FLOATS 64

/* y[j][i] = fma(a[j], x[i], y[j][i]) for two different rows: x is read once. Meanwhile prefetches the rows `next`, if
 * any. */
XSMI_INLINE void update_pair(float *const y[2], const float *x, size_t n, const float *a, const float *const *next)
{
    const vf va[2] = {v_set(a[0]), v_set(a[1])};
    float *const row[2] = {y[0], y[1]};
    size_t i = 0;
    for (; i + PAIR_FLOATS <= n; i += PAIR_FLOATS) {
        if (next) {
            xsmi_prefetch_row(next[0] + i, PAIR_FLOATS);
            xsmi_prefetch_row(next[1] + i, PAIR_FLOATS);
        }
        XSMI_UNROLL
        for (size_t k = 0; k < PAIR_FLOATS / VW; k++) {
            const vf xk = v_load(x + i + k * VW);
            XSMI_UNROLL
            for (size_t j = 0; j < 2; j++) {
                v_store(row[j] + i + k * VW, v_fma(va[j], xk, v_load(row[j] + i + k * VW)));
            }
        }
    }
    for (; i + VW <= n; i += VW) {
        const vf xk = v_load(x + i);
        XSMI_UNROLL
        for (size_t j = 0; j < 2; j++) {
            v_store(row[j] + i, v_fma(va[j], xk, v_load(row[j] + i)));
        }
    }
    if (i < n) {
        const vf xk = v_load_first(x + i, n - i);
        XSMI_UNROLL
        for (size_t j = 0; j < 2; j++) {
            v_store_first(row[j] + i, v_fma(va[j], xk, v_load_first(row[j] + i, n - i)), n - i);
        }
    }
}

static void axpby(float *y, const float *x, size_t n, float a, float b)
{
    update_row(y, x, n, a, b, NULL);
}

static void scale(float *y, size_t n, float a)
{
    const vf va = v_set(a);
    size_t i = 0;
    for (; i + VW <= n; i += VW) {
        v_store(y + i, va * v_load(y + i));
    }
    if (i < n) {
        v_store_first(y + i, va * v_load_first(y + i, n - i), n - i);
    }
}

XSMI_INLINE void gather_some(size_t some, const float *w, size_t stride, const uint32_t *rows, const float *x, size_t d,
                             float *out, xsmi_upcoming *left)
{
    const float *row[ROWS];
    const float *upcoming[ROWS + 1];
    XSMI_UNROLL
    for (size_t j = 0; j < some; j++) {
        row[j] = w + rows[j] * stride;
    }
    if (left->count < some) {
        dot_rows(some, row, x, d, out, 0, NULL, 0);
        return;
    }
    XSMI_UNROLL
    for (size_t j = 0; j < some; j++) {
        upcoming[j] = w + left->rows[j] * stride;
    }
    left->rows += some;
    left->count -= some;
    if (left->x) {
        upcoming[some] = left->x;
        left->x = NULL;
        dot_rows(some, row, x, d, out, some + 1, upcoming, left->most);
    } else {
        dot_rows(some, row, x, d, out, some, upcoming, left->most);
    }
}

/* Prefetches n floats at once: a row that is to be prefetched when no row is left to score meanwhile. */
static void prefetch_row(const float *row, size_t n)
{
    for (size_t i = 0; i < n; i += XSMI_LINE) {
        xsmi_prefetch_soon(row + i);
    }
}

static void gather_scores(const float *w, size_t stride, const uint32_t *rows, size_t m, const float *x, size_t d,
                          float *out, const xsmi_upcoming *upcoming)
{
    const xsmi_upcoming none = {NULL, 0, NULL, 0};
    xsmi_upcoming left = upcoming ? *upcoming : none; /* the rows that have not been prefetched */
    size_t j = 0;
    for (; j + ROWS <= m; j += ROWS) {
        gather_some(ROWS, w, stride, rows + j, x, d, out + j, &left);
    }
#if ROWS > 2
    for (; j + 2 <= m; j += 2) {
        gather_some(2, w, stride, rows + j, x, d, out + j, &left);
    }
#endif
    for (; j < m; j++) {
        gather_some(1, w, stride, rows + j, x, d, out + j, &left);
    }
    const size_t most = left.most < d ? left.most : d;
    for (; left.count > 0; left.count--, left.rows++) {
        prefetch_row(w + left.rows[0] * stride, most);
    }
    if (left.x) {
        prefetch_row(left.x, most);
    }
}

static void scatter_update(float *w, size_t stride, const uint32_t *rows, size_t m, const float *x, size_t d,
                           const float *a, const float *b)
{
    for (size_t j = 0; j < m; j++) {
        float *const row = w + rows[j] * stride;
        if (b || j + 1 == m || rows[j] == rows[j + 1]) {
            update_row(row, x, d, a[j], b ? b[j] : 1.0f, j + 1 < m ? w + rows[j + 1] * stride : NULL);
            continue;
        }
        float *const pair[2] = {row, w + rows[j + 1] * stride};
        if (j + 3 < m) {
            const float *const next[2] = {w + rows[j + 2] * stride, w + rows[j + 3] * stride};
            update_pair(pair, x, d, a + j, next);
        } else {
            update_pair(pair, x, d, a + j, NULL);
        }
        j++;
    }
}

/* One vector of a step of Adagrad: the new sums and the new weights. */
XSMI_INLINE vf adagrad_some(vf y, vf *s, vf t, vf eta)
{
    *s = v_fma(t, t, *s);
    return y - eta * t / v_sqrt(*s);
}

static void adagrad(float *y, float *s, const float *x, size_t n, float a, float b, float eta)
{
    const vf va = v_set(a), vb = v_set(b), ve = v_set(eta);
    size_t i = 0;
    for (; i + VW <= n; i += VW) {
        vf sums = v_load(s + i);
        vf stepped = adagrad_some(v_load(y + i), &sums, vb * (va * v_load(x + i)), ve);
        v_store(s + i, sums);
        v_store(y + i, stepped);
    }
    for (; i < n; i++) {
        xsmi_adagrad(&y[i], &s[i], b * (a * x[i]), eta);
    }
}

static void sparse_adagrad(float *y, float *s, const uint32_t *index, const float *value, size_t nnz, float a, float b,
                           float eta)
{
    const vf va = v_set(a), vb = v_set(b), ve = v_set(eta);
    size_t i = 0;
    for (; i + VW <= nnz; i += VW) {
        float changed[VW], grown[VW];
        vf sums = v_gather(s, index + i);
        v_store(changed, adagrad_some(v_gather(y, index + i), &sums, vb * (va * v_load(value + i)), ve));
        v_store(grown, sums);
        for (size_t k = 0; k < VW; k++) {
            y[index[i + k]] = changed[k];
            s[index[i + k]] = grown[k];
        }
    }
    for (; i < nnz; i++) {
        xsmi_adagrad(&y[index[i]], &s[index[i]], b * (a * value[i]), eta);
    }
}

/* -- sparse dot products: their 16 partial sums are four quads ----------------------------------------------------- */

/* Rows for which a feature is read once. Two, three, four and six are as fast. */
#define SPARSE_ROWS 2

typedef int32_t lanes __attribute__((vector_size(16)));

/* Four features, numbers and values. A load for each weight is faster than the gathering instruction. */
typedef struct sparse_four {
    size_t at[4];
    vq value;
} sparse_four;

XSMI_INLINE vq gather_four(const float *row, const sparse_four *x)
{
    return (vq){row[x->at[0]], row[x->at[1]], row[x->at[2]], row[x->at[3]]};
}

XSMI_INLINE void add_four(size_t some, const float *const *row, const uint32_t *index, const float *value, vq acc[][4],
                          size_t quad)
{
    const sparse_four x = {{index[0], index[1], index[2], index[3]}, q_load(value)};
    XSMI_UNROLL
    for (size_t j = 0; j < some; j++) {
        acc[j][quad] = q_fma(gather_four(row[j], &x), x.value, acc[j][quad]);
    }
}

/* The last features, one to three: the sums of the other lanes stay as they are. */
XSMI_INLINE void add_rest(size_t some, const float *const *row, const uint32_t *index, const float *value, size_t rest,
                          vq acc[][4], size_t quad)
{
    const size_t second = rest > 1, third = second + (rest > 2);
    const sparse_four x = {{index[0], index[second], index[third], index[0]},
                           {value[0], value[second], value[third], 0}};
    const lanes there = {-1, rest > 1 ? -1 : 0, rest > 2 ? -1 : 0, 0};
    XSMI_UNROLL
    for (size_t j = 0; j < some; j++) {
        const lanes sum = (lanes)q_fma(gather_four(row[j], &x), x.value, acc[j][quad]);
        acc[j][quad] = (vq)((sum & there) | ((lanes)acc[j][quad] & ~there));
    }
}

XSMI_INLINE void sparse_dots(size_t some, const float *w, size_t stride, const uint32_t *rows, const uint32_t *index,
                             const float *value, size_t nnz, float *out)
{
    const float *row[SPARSE_ROWS];
    vq acc[SPARSE_ROWS][4];
    XSMI_UNROLL
    for (size_t j = 0; j < some; j++) {
        row[j] = w + rows[j] * stride;
        XSMI_UNROLL
        for (size_t k = 0; k < 4; k++) {
            acc[j][k] = (vq){0};
        }
    }
    size_t i = 0;
    for (; i + 16 <= nnz; i += 16) {
        XSMI_UNROLL
        for (size_t k = 0; k < 4; k++) {
            add_four(some, row, index + i + 4 * k, value + i + 4 * k, acc, k);
        }
    }
    XSMI_UNROLL
    for (size_t k = 0; k < 4; k++) {
        if (nnz - i >= 4) {
            add_four(some, row, index + i, value + i, acc, k);
            i += 4;
        } else if (nnz - i > 0) {
            add_rest(some, row, index + i, value + i, nnz - i, acc, k);
            i = nnz;
        }
    }
    XSMI_UNROLL
    for (size_t j = 0; j < some; j++) {
        const vq b = (acc[j][0] + acc[j][2]) + (acc[j][1] + acc[j][3]);
        out[j] = (b[0] + b[2]) + (b[1] + b[3]);
    }
}

static void sparse_gather_scores(const float *w, size_t stride, const uint32_t *rows, size_t m, const uint32_t *index,
                                 const float *value, size_t nnz, float *out)
{
    size_t j = 0;
    for (; j + SPARSE_ROWS <= m; j += SPARSE_ROWS) {
        sparse_dots(SPARSE_ROWS, w, stride, rows + j, index, value, nnz, out + j);
    }
    for (; j < m; j++) {
        sparse_dots(1, w, stride, rows + j, index, value, nnz, out + j);
    }
}

static void sparse_scatter_update(float *w, size_t stride, const uint32_t *rows, size_t m, const uint32_t *index,
                                  const float *value, size_t nnz, const float *a)
{
    for (size_t j = 0; j < m; j++) {
        float *row = w + rows[j] * stride;
        const float factor = a[j];
        size_t i = 0;
        /* The indexes differ, so eight loads may precede the first store, which the compiler cannot know. Measured: a
         * quarter faster than one by one, and as fast as AVX-512's scatter. */
        for (; i + 8 <= nnz; i += 8) {
            float updated[8];
            XSMI_UNROLL
            for (size_t k = 0; k < 8; k++) {
                updated[k] = __builtin_fmaf(factor, value[i + k], row[index[i + k]]);
            }
            XSMI_UNROLL
            for (size_t k = 0; k < 8; k++) {
                row[index[i + k]] = updated[k];
            }
        }
        for (; i < nnz; i++) {
            row[index[i]] = __builtin_fmaf(factor, value[i], row[index[i]]);
        }
    }
}

/* Vectors of columns that are summed in registers over all features. */
#define COLUMN_VECTORS 8

/* Whole vectors of columns and `rest` < VW more columns together: a chain of additions waits for each weight. */
XSMI_INLINE void column_sums_some(size_t vectors, size_t rest, const float *w, size_t stride, const uint32_t *index,
                                  const float *value, size_t nnz, float *out)
{
    vf acc[COLUMN_VECTORS], last = rest ? v_load_first(out + vectors * VW, rest) : v_set(0.0f);
    XSMI_UNROLL
    for (size_t k = 0; k < vectors; k++) {
        acc[k] = v_load(out + k * VW);
    }
    for (size_t i = 0; i < nnz; i++) {
        const float *row = w + (index ? index[i] : i) * stride;
        const vf v = v_set(value[i]);
        XSMI_UNROLL
        for (size_t k = 0; k < vectors; k++) {
            acc[k] = v_fma(v, v_load(row + k * VW), acc[k]);
        }
        last = rest ? v_fma(v, v_load_first(row + vectors * VW, rest), last) : last;
    }
    XSMI_UNROLL
    for (size_t k = 0; k < vectors; k++) {
        v_store(out + k * VW, acc[k]);
    }
    if (rest) {
        v_store_first(out + vectors * VW, last, rest);
    }
}

XSMI_INLINE void column_sums_rest(size_t vectors, size_t rest, const float *w, size_t stride, const uint32_t *index,
                                  const float *value, size_t nnz, float *out)
{
    if (rest > 0) {
        column_sums_some(vectors, rest, w, stride, index, value, nnz, out);
    } else {
        column_sums_some(vectors, 0, w, stride, index, value, nnz, out);
    }
}

#define COLUMN_SUMS(vectors)                                                                                           \
    column_sums_rest(vectors, rest, w + c, stride, index, value, nnz, out + c);                                        \
    break

static void column_sums(const float *w, size_t stride, const uint32_t *index, const float *value, size_t nnz, size_t n,
                        float *out)
{
    size_t c = 0;
    for (; c + COLUMN_VECTORS * VW <= n; c += COLUMN_VECTORS * VW) {
        column_sums_some(COLUMN_VECTORS, 0, w + c, stride, index, value, nnz, out + c);
    }
    const size_t rest = (n - c) % VW;
    switch ((n - c) / VW) {
    case 7:
        COLUMN_SUMS(7);
    case 6:
        COLUMN_SUMS(6);
    case 5:
        COLUMN_SUMS(5);
    case 4:
        COLUMN_SUMS(4);
    case 3:
        COLUMN_SUMS(3);
    case 2:
        COLUMN_SUMS(2);
    case 1:
        COLUMN_SUMS(1);
    default:
        COLUMN_SUMS(0);
    }
}

XSMI_INLINE void column_update_some(size_t vectors, float *w, size_t stride, const uint32_t *index, const float *value,
                                    size_t nnz, const float *g, float a)
{
    vf factors[COLUMN_VECTORS];
    XSMI_UNROLL
    for (size_t k = 0; k < vectors; k++) {
        factors[k] = v_load(g + k * VW);
    }
    for (size_t i = 0; i < nnz; i++) {
        float *row = w + (index ? index[i] : i) * stride;
        const vf v = v_set(a * value[i]);
        XSMI_UNROLL
        for (size_t k = 0; k < vectors; k++) {
            v_store(row + k * VW, v_fma(v, factors[k], v_load(row + k * VW)));
        }
    }
}

static void column_update(float *w, size_t stride, const uint32_t *index, const float *value, size_t nnz, size_t n,
                          const float *g, float a)
{
    size_t c = 0;
    for (; c + COLUMN_VECTORS * VW <= n; c += COLUMN_VECTORS * VW) {
        column_update_some(COLUMN_VECTORS, w + c, stride, index, value, nnz, g + c, a);
    }
    for (; c + 2 * VW <= n; c += 2 * VW) {
        column_update_some(2, w + c, stride, index, value, nnz, g + c, a);
    }
    if (c + VW <= n) {
        column_update_some(1, w + c, stride, index, value, nnz, g + c, a);
        c += VW;
    }
    if (c < n) {
        const vf factors = v_load_first(g + c, n - c);
        for (size_t i = 0; i < nnz; i++) {
            float *row = w + (index ? index[i] : i) * stride + c;
            v_store_first(row, v_fma(v_set(a * value[i]), factors, v_load_first(row, n - c)), n - c);
        }
    }
}

static float row_max(const float *z, size_t n)
{
    vf acc[PARTS];
    XSMI_UNROLL
    for (size_t k = 0; k < PARTS; k++) {
        acc[k] = v_set(-INFINITY);
    }
    vm nan = m_unordered(acc[0], acc[0]);
    size_t i = 0;
    for (; i + XSMI_PARTIALS <= n; i += XSMI_PARTIALS) {
        XSMI_UNROLL
        for (size_t k = 0; k < PARTS; k += 2) {
            vf z0 = v_load(z + i + k * VW);
            vf z1 = v_load(z + i + (k + 1) * VW);
            nan = m_or(nan, m_unordered(z0, z1));
            acc[k] = v_max(z0, acc[k]);
            acc[k + 1] = v_max(z1, acc[k + 1]);
        }
    }
    for (; i + VW <= n; i += VW) {
        vf z0 = v_load(z + i);
        nan = m_or(nan, m_unordered(z0, z0));
        acc[0] = v_max(z0, acc[0]);
    }
    if (i < n) {
        vf z0 = v_select(m_first(n - i), v_load_first(z + i, n - i), v_set(-INFINITY));
        nan = m_or(nan, m_unordered(z0, z0));
        acc[0] = v_max(z0, acc[0]);
    }
    if (m_any(nan)) {
        return NAN;
    }
    XSMI_UNROLL
    for (size_t k = 1; k < PARTS; k++) {
        acc[0] = v_max(acc[k], acc[0]);
    }
    /* Whether this is +0 or -0 depends on the order of the comparisons; the sum is +0 in either case. */
    return v_most(acc[0]) + 0.0f;
}

/* Scales a vector in place and raises *most to the largest size; *nan collects the lanes that are NaN. */
XSMI_INLINE vf scale_vector(vf y, vf a, vf least, vf *most, vm *nan)
{
    const vf scaled = a * y, size = v_max(scaled, v_set(0.0f) - scaled);
    const vf kept = v_select(m_less(size, least), v_set(0.0f), scaled);
    *nan = m_or(*nan, m_unordered(scaled, scaled));
    *most = v_max(size, *most);
    return kept;
}

/* The most numbers that are scaled one by one. */
#define SCALED_FEW 7

/* Scales a few numbers one by one. They were just written one by one, and a vector load would wait until all of them
 * have left the store buffer. */
XSMI_INLINE float few_scaled_max(float *y, size_t n, float a, float least)
{
    float most = 0.0f;
    bool nan = false;
    for (size_t i = 0; i < n; i++) {
        const float scaled = a * y[i], size = fabsf(scaled);
        nan |= isnan(scaled);
        most = size > most ? size : most;
        y[i] = size < least ? 0.0f : scaled;
    }
    return nan ? NAN : most < least ? 0.0f : most;
}

static float row_scaled_max(float *y, size_t n, float a, float least)
{
    if (n <= SCALED_FEW) {
        return few_scaled_max(y, n, a, least);
    }
    const vf factor = v_set(a), bar = v_set(least);
    vf most = v_set(0.0f);
    vm nan = m_unordered(most, most);
    size_t i = 0;
    for (; i + VW <= n; i += VW) {
        v_store(y + i, scale_vector(v_load(y + i), factor, bar, &most, &nan));
    }
    if (i < n) {
        v_store_first(y + i, scale_vector(v_load_first(y + i, n - i), factor, bar, &most, &nan), n - i);
    }
    const float largest = v_most(most);
    return m_any(nan) ? NAN : largest < least ? 0 : largest;
}

static double row_sum_exp(const float *z, size_t n, float max)
{
    const vf shift = v_set(max);
    double total = 0.0;
    for (size_t run = 0; run < n; run += XSMI_RUN_CLASSES) {
        size_t end = n - run < XSMI_RUN_CLASSES ? n : run + XSMI_RUN_CLASSES;
        vf acc[PARTS];
        XSMI_UNROLL
        for (size_t k = 0; k < PARTS; k++) {
            acc[k] = v_set(0.0f);
        }
        size_t i = run;
        for (; i + XSMI_PARTIALS <= end; i += XSMI_PARTIALS) {
            XSMI_UNROLL
            for (size_t k = 0; k < PARTS; k++) {
                acc[k] = add_expf0(acc[k], v_load(z + i + k * VW) - shift);
            }
        }
        if (i < end) {
            XSMI_UNROLL
            for (size_t k = 0; k < PARTS; k++) {
                size_t at = i + k * VW;
                if (at + VW <= end) {
                    acc[k] = add_expf0(acc[k], v_load(z + at) - shift);
                } else if (at < end) {
                    vf sum = add_expf0(acc[k], v_load_first(z + at, end - at) - shift);
                    acc[k] = v_select(m_first(end - at), sum, acc[k]);
                }
            }
        }
        total += (double)join_partials(acc);
    }
    return total;
}

XSMI_INLINE vf softmax_vector(vf z, vf shift, vf scale)
{
    return scale * v_expf0(v_min(v_set(0.0f), z - shift));
}

static void row_softmax(const float *z, size_t n, float shift, float scale, float *out)
{
    const vf vshift = v_set(shift);
    const vf vscale = v_set(scale);
    size_t i = 0;
    for (; i + VW <= n; i += VW) {
        v_store(out + i, softmax_vector(v_load(z + i), vshift, vscale));
    }
    if (i < n) {
        v_store_first(out + i, softmax_vector(v_load_first(z + i, n - i), vshift, vscale), n - i);
    }
}

XSMI_INLINE vf v_log1p01(vf e)
{
    vf q = v_fma(v_set(XSMI_LOG1P_C9), e, v_set(XSMI_LOG1P_C8));
    q = v_fma(q, e, v_set(XSMI_LOG1P_C7));
    q = v_fma(q, e, v_set(XSMI_LOG1P_C6));
    q = v_fma(q, e, v_set(XSMI_LOG1P_C5));
    q = v_fma(q, e, v_set(XSMI_LOG1P_C4));
    q = v_fma(q, e, v_set(XSMI_LOG1P_C3));
    q = v_fma(q, e, v_set(XSMI_LOG1P_C2));
    q = v_fma(q, e, v_set(XSMI_LOG1P_C1));
    q = v_fma(q, e, v_set(XSMI_LOG1P_C0));
    return q * e;
}

static void log_branches(const float *scores, const float *parents, size_t nodes, float *children)
{
    const vf zero = v_set(0.0f);
    for (size_t c = 0; c < nodes; c++) {
        float *left = children + 2 * c * XSMI_LANES;
        for (size_t l = 0; l < XSMI_LANES; l += VW) {
            vf s = v_load(scores + c * XSMI_LANES + l);
            vf minus = zero - s;
            vf parent = v_load(parents + c * XSMI_LANES + l);
            vf t = v_log1p01(v_expf0(v_min(s, minus)));
            v_store(left + l, parent + (v_min(minus, zero) - t));
            v_store(left + XSMI_LANES + l, parent + (v_min(s, zero) - t));
        }
    }
}

XSMI_INLINE void logistic_vectors(vf s, vf *left, vf *right, vf *e)
{
    const vf zero = v_set(0.0f);
    const vf one = v_set(1.0f);
    *e = v_expf0(v_min(s, zero - s));
    vf larger = one / (one + *e);
    vf smaller = *e * larger;
    vm below = m_less(s, zero);
    *left = v_select(below, larger, smaller);
    *right = v_select(below, smaller, larger);
}

static void logistics(const float *scores, size_t n, float *left, float *right, float *rest)
{
    size_t i = 0;
    vf of_left, of_right, e;
    for (; i + VW <= n; i += VW) {
        logistic_vectors(v_load(scores + i), &of_left, &of_right, &e);
        v_store(left + i, of_left);
        v_store(right + i, of_right);
        if (rest) {
            v_store(rest + i, v_log1p01(e));
        }
    }
    if (i < n) {
        logistic_vectors(v_load_first(scores + i, n - i), &of_left, &of_right, &e);
        v_store_first(left + i, of_left, n - i);
        v_store_first(right + i, of_right, n - i);
        if (rest) {
            v_store_first(rest + i, v_log1p01(e), n - i);
        }
    }
}

#endif
