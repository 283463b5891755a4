/*
 * The scalar kernels: the reference that every other table is tested against, and the table for processors without
 * vectors.
 *
 * It is built without automatic vectorisation so that it does one operation at a time, as the contract in kernels.h
 * says. A fused multiply-add is libm's fmaf where the processor has none: slow, but the same bits.
 */
#include "kernels/arithmetic.h"
#include "kernels/kernels.h"
#include "kernels/philox.h"

#include <math.h>

#define DW 1
typedef double vd __attribute__((vector_size(8 * DW)));
typedef uint64_t vu __attribute__((vector_size(8 * DW)));

static inline vd d_fma(vd a, vd b, vd c)
{
    const vd sum = {__builtin_fma(a[0], b[0], c[0])};
    return sum;
}

#include "kernels/vector_solve.h"

static float dot(const float *a, const float *b, size_t n)
{
    float partial[XSMI_PARTIALS] = {0};
    for (size_t i = 0; i < n; i++) {
        size_t l = i % XSMI_PARTIALS;
        partial[l] = __builtin_fmaf(a[i], b[i], partial[l]);
    }
    return xsmi_join_partials(partial);
}

static void axpby(float *y, const float *x, size_t n, float a, float b)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = __builtin_fmaf(a, x[i], b * y[i]);
    }
}

static void scale(float *y, size_t n, float a)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = a * y[i];
    }
}

static void gather_scores(const float *w, size_t stride, const uint32_t *rows, size_t m, const float *x, size_t d,
                          float *out, const xsmi_upcoming *upcoming)
{
    (void)upcoming; /* each line takes so long that the processor's own prefetching is fast enough */
    for (size_t j = 0; j < m; j++) {
        out[j] = dot(w + rows[j] * stride, x, d);
    }
}

static void scatter_update(float *w, size_t stride, const uint32_t *rows, size_t m, const float *x, size_t d,
                           const float *a, const float *b)
{
    for (size_t j = 0; j < m; j++) {
        axpby(w + rows[j] * stride, x, d, a[j], b ? b[j] : 1.0f);
    }
}

static void sparse_gather_scores(const float *w, size_t stride, const uint32_t *rows, size_t m, const uint32_t *index,
                                 const float *value, size_t nnz, float *out)
{
    for (size_t j = 0; j < m; j++) {
        const float *row = w + rows[j] * stride;
        float partial[16] = {0};
        for (size_t i = 0; i < nnz; i++) {
            partial[i % 16] = __builtin_fmaf(row[index[i]], value[i], partial[i % 16]);
        }
        out[j] = xsmi_join_16(partial);
    }
}

static void sparse_scatter_update(float *w, size_t stride, const uint32_t *rows, size_t m, const uint32_t *index,
                                  const float *value, size_t nnz, const float *a)
{
    for (size_t j = 0; j < m; j++) {
        float *row = w + rows[j] * stride;
        for (size_t i = 0; i < nnz; i++) {
            row[index[i]] = __builtin_fmaf(a[j], value[i], row[index[i]]);
        }
    }
}

static void column_sums(const float *w, size_t stride, const uint32_t *index, const float *value, size_t nnz, size_t n,
                        float *out)
{
    for (size_t i = 0; i < nnz; i++) {
        const float *row = w + (index ? index[i] : i) * stride;
        for (size_t c = 0; c < n; c++) {
            out[c] = __builtin_fmaf(value[i], row[c], out[c]);
        }
    }
}

static void column_update(float *w, size_t stride, const uint32_t *index, const float *value, size_t nnz, size_t n,
                          const float *g, float a)
{
    for (size_t i = 0; i < nnz; i++) {
        float *row = w + (index ? index[i] : i) * stride;
        const float factor = a * value[i];
        for (size_t c = 0; c < n; c++) {
            row[c] = __builtin_fmaf(factor, g[c], row[c]);
        }
    }
}

static void pack(const float *const *x, size_t n, size_t d, float *packed)
{
    for (size_t i = 0; i < d; i++) {
        for (size_t l = 0; l < XSMI_LANES; l++) {
            packed[i * XSMI_LANES + l] = l < n ? x[l][i] : 0.0f;
        }
    }
}

static void unpack(const float *scores, size_t classes, size_t n, float *out, size_t stride)
{
    for (size_t l = 0; l < n; l++) {
        for (size_t c = 0; c < classes; c++) {
            out[l * stride + c] = scores[c * XSMI_LANES + l];
        }
    }
}

static void score_tile(const float *w, size_t stride, size_t classes, const float *packed, size_t d, float scale,
                       const float *row_scale, const float *bias, float *out)
{
    for (size_t c = 0; c < classes; c++) {
        const float *row = w + c * stride;
        float sum[XSMI_LANES] = {0};
        for (size_t i = 0; i < d; i++) {
            for (size_t l = 0; l < XSMI_LANES; l++) {
                sum[l] = __builtin_fmaf(row[i], packed[i * XSMI_LANES + l], sum[l]);
            }
        }
        float s = row_scale ? scale * row_scale[c] : scale;
        for (size_t l = 0; l < XSMI_LANES; l++) {
            out[c * XSMI_LANES + l] = bias ? __builtin_fmaf(s, sum[l], bias[c]) : s * sum[l];
        }
    }
}

static void score_lanes(const float *w, size_t stride, size_t classes, const float *packed, size_t n, size_t d,
                        float scale, const float *row_scale, const float *bias, float *out)
{
    (void)n;
    score_tile(w, stride, classes, packed, d, scale, row_scale, bias, out);
}

static void widen(const xsmi_narrow *w, size_t first, size_t n, float *out);

static void score_widening(const float *w, size_t stride, size_t classes, const float *packed, size_t n, size_t d,
                           float scale, const float *row_scale, const float *bias, float *out,
                           const xsmi_widening *next)
{
    score_lanes(w, stride, classes, packed, n, d, scale, row_scale, bias, out);
    widen(next->from, next->at, next->end - next->at, next->out);
}

static void score_few(const float *w, size_t stride, size_t classes, const float *const *x, size_t n, size_t d,
                      float scale, const float *row_scale, const float *bias, float *out)
{
    for (size_t c = 0; c < classes; c++) {
        const float *row = w + c * stride;
        float s = row_scale ? scale * row_scale[c] : scale;
        for (size_t l = 0; l < n; l++) {
            float sum = 0.0f;
            for (size_t i = 0; i < d; i++) {
                sum = __builtin_fmaf(row[i], x[l][i], sum);
            }
            out[c * XSMI_LANES + l] = bias ? __builtin_fmaf(s, sum, bias[c]) : s * sum;
        }
    }
}

static void widen(const xsmi_narrow *w, size_t first, size_t n, float *out)
{
#define WIDEN(dtype)                                                                                                   \
    for (size_t i = 0; i < n; i++) {                                                                                   \
        out[i] = xsmi_number_at(dtype, w->data, first + i);                                                            \
    }
    XSMI_BY_NARROW_KIND(w->dtype, WIDEN);
}

static void gather_narrow(const xsmi_narrow *w, const uint32_t *rows, size_t m, const float *x, size_t d, float *out)
{
    for (size_t j = 0; j < m; j++) {
        const size_t row = rows[j] * w->stride;
        float partial[XSMI_PARTIALS] = {0};
#define GATHER(dtype)                                                                                                  \
    for (size_t i = 0; i < d; i++) {                                                                                   \
        float *sum = &partial[i % XSMI_PARTIALS];                                                                      \
        *sum = __builtin_fmaf(xsmi_number_at(dtype, w->data, row + i), x[i], *sum);                                    \
    }
        XSMI_BY_NARROW_KIND(w->dtype, GATHER);
        out[j] = xsmi_join_partials(partial);
    }
}

void xsmi_sparse_gather_narrow(const xsmi_narrow *w, const uint32_t *rows, size_t m, const uint32_t *index,
                               const float *value, size_t nnz, float *out)
{
    for (size_t j = 0; j < m; j++) {
        const size_t row = rows[j] * w->stride;
        float partial[16] = {0};
#define SPARSE_GATHER(dtype)                                                                                           \
    for (size_t i = 0; i < nnz; i++) {                                                                                 \
        float *sum = &partial[i % 16];                                                                                 \
        *sum = __builtin_fmaf(xsmi_number_at(dtype, w->data, row + index[i]), value[i], *sum);                         \
    }
        XSMI_BY_NARROW_KIND(w->dtype, SPARSE_GATHER);
        out[j] = xsmi_join_16(partial);
    }
}

static void narrow_column_sums(const xsmi_narrow *w, const uint32_t *index, const float *value, size_t nnz, size_t n,
                               float *out)
{
    for (size_t i = 0; i < nnz; i++) {
        const size_t row = (index ? index[i] : i) * w->stride;
#define ADD_ROW(dtype)                                                                                                 \
    for (size_t c = 0; c < n; c++) {                                                                                   \
        out[c] = __builtin_fmaf(value[i], xsmi_number_at(dtype, w->data, row + c), out[c]);                            \
    }
        XSMI_BY_NARROW_KIND(w->dtype, ADD_ROW);
    }
}

static void screen(const xsmi_narrow *w, size_t first, size_t classes, const float *x, size_t d, float *out,
                   float *squares)
{
    for (size_t c = 0; c < classes; c++) {
        float partial[XSMI_PARTIALS] = {0}, square[32] = {0}, both[16];
        const size_t row = (first + c) * w->stride;
#define SCREEN(dtype)                                                                                                  \
    for (size_t i = 0; i < d; i++) {                                                                                   \
        const float number = xsmi_number_at(dtype, w->data, row + i);                                                  \
        partial[i % XSMI_PARTIALS] = __builtin_fmaf(number, x[i], partial[i % XSMI_PARTIALS]);                         \
        square[i % 32] = __builtin_fmaf(number, number, square[i % 32]);                                               \
    }
        XSMI_BY_KIND(w->dtype, SCREEN);
        out[c] = xsmi_join_partials(partial);
        for (size_t l = 0; l < 16; l++) {
            both[l] = square[l] + square[l + 16];
        }
        if (squares) {
            squares[c] = xsmi_join_16(both);
        }
    }
}

static void score_narrow(const xsmi_narrow *w, size_t first, size_t classes, const float *const *x, size_t n, size_t d,
                         float scale, const float *row_scale, const float *bias, float *out)
{
    for (size_t c = 0; c < classes; c++) {
        const size_t row = (first + c) * w->stride;
        const float s = row_scale ? scale * row_scale[c] : scale;
        for (size_t l = 0; l < n; l++) {
            float sum = 0.0f;
#define SCORE(dtype)                                                                                                   \
    for (size_t i = 0; i < d; i++) {                                                                                   \
        sum = __builtin_fmaf(xsmi_number_at(dtype, w->data, row + i), x[l][i], sum);                                   \
    }
            XSMI_BY_NARROW_KIND(w->dtype, SCORE);
            out[c * XSMI_LANES + l] = bias ? __builtin_fmaf(s, sum, bias[c]) : s * sum;
        }
    }
}

static void reduce_tile(const float *scores, size_t classes, uint32_t first, xsmi_reduction *r)
{
    for (size_t l = 0; l < r->lanes; l++) {
        float max = r->max[l];
        for (size_t c = 0; c < classes; c++) {
            float score = scores[c * XSMI_LANES + l];
            if (score > max) {
                max = score;
            }
            xsmi_insert_top(r, l, score, first + (uint32_t)c);
        }
        max += 0.0f; /* -0 becomes +0, so that the result does not depend on the order of the comparisons */
        /* If every score is -INFINITY, shifting by 0 gives exponentials of 0, not NaN. */
        float shift = max == -INFINITY ? 0.0f : max;
        float sum = 0.0f;
        for (size_t c = 0; c < classes; c++) {
            sum += xsmi_expf0(scores[c * XSMI_LANES + l] - shift);
        }
        double before = r->sum[l] * (double)xsmi_expf0(r->max[l] - shift);
        r->sum[l] = before + (double)sum;
        r->max[l] = max;
        if (r->target && r->target[l] - first < classes) {
            r->target_score[l] = scores[(r->target[l] - first) * XSMI_LANES + l];
        }
    }
}

static void rank_update(float *w, size_t stride, size_t classes, const float *g, size_t g_stride, const float *const *x,
                        size_t n, size_t d)
{
    for (size_t c = 0; c < classes; c++) {
        for (size_t i = 0; i < n; i++) {
            axpby(w + c * stride, x[i], d, g[i * g_stride + c], 1.0f);
        }
    }
}

static void pack_rows(const float *const *x, size_t n, size_t d, float *packed, size_t pitch)
{
    for (size_t at = 0; at < d; at += XSMI_LANES) {
        for (size_t i = 0; i < n; i++) {
            for (size_t l = 0; l < XSMI_LANES; l++) {
                packed[at / XSMI_LANES * pitch + i * XSMI_LANES + l] = at + l < d ? x[i][at + l] : 0.0f;
            }
        }
    }
}

static void rank_packed(bool add, float *w, size_t stride, size_t classes, const float *g, size_t g_class, size_t g_row,
                        const float *packed, size_t pitch, size_t n, size_t d, xsmi_prefetch_queue *queue)
{
    (void)queue;
    for (size_t c = 0; c < classes; c++) {
        for (size_t at = 0; at < d; at += XSMI_LANES) {
            const size_t used = d - at < XSMI_LANES ? d - at : XSMI_LANES;
            const float *piece = packed + at / XSMI_LANES * pitch;
            for (size_t l = 0; !add && l < used; l++) {
                w[c * stride + at + l] = 0;
            }
            for (size_t i = 0; i < n; i++) {
                axpby(w + c * stride + at, piece + i * XSMI_LANES, used, g[c * g_class + i * g_row], 1.0f);
            }
        }
    }
}

static float row_max(const float *z, size_t n)
{
    float max = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (z[i] != z[i]) {
            return NAN;
        }
        max = z[i] > max ? z[i] : max;
    }
    return max + 0.0f; /* as in reduce_tile */
}

static float row_scaled_max(float *y, size_t n, float a, float least)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        const float scaled = a * y[i], size = fabsf(scaled);
        y[i] = size < least ? 0 : scaled;
        most = size < least || size <= most || most != most ? most : size; /* NaN is kept */
    }
    return most;
}

static double row_sum_exp(const float *z, size_t n, float max)
{
    double total = 0.0;
    for (size_t run = 0; run < n; run += XSMI_RUN_CLASSES) {
        float partial[XSMI_PARTIALS] = {0};
        for (size_t i = run; i < n && i < run + XSMI_RUN_CLASSES; i++) {
            partial[i % XSMI_PARTIALS] += xsmi_expf0(z[i] - max);
        }
        total += (double)xsmi_join_partials(partial);
    }
    return total;
}

static void row_softmax(const float *z, size_t n, float shift, float scale, float *out)
{
    for (size_t i = 0; i < n; i++) {
        float x = z[i] - shift;
        out[i] = scale * xsmi_expf0(x > 0.0f ? 0.0f : x);
    }
}

static void row_subtract(const float *z, const double *less, size_t n, float *out)
{
    for (size_t j = 0; j < n; j++) {
        out[j] = (float)((double)z[j] - less[j]);
    }
}

static double row_multiply_sum(float *y, const uint32_t *counts, size_t n)
{
    double partial[XSMI_DRAW_PARTIALS] = {0};
    for (size_t j = 0; j < n; j++) {
        y[j] *= (float)(int32_t)counts[j];
        partial[j % XSMI_DRAW_PARTIALS] += (double)y[j];
    }
    return xsmi_join_draws(partial);
}

static void log_branches(const float *scores, const float *parents, size_t nodes, float *children)
{
    for (size_t c = 0; c < nodes; c++) {
        float *left = children + 2 * c * XSMI_LANES;
        float *right = left + XSMI_LANES;
        for (size_t l = 0; l < XSMI_LANES; l++) {
            float s = scores[c * XSMI_LANES + l];
            float t = xsmi_log1p01(xsmi_expf0(s < -s ? s : -s));
            left[l] = parents[c * XSMI_LANES + l] + ((-s < 0.0f ? -s : 0.0f) - t);
            right[l] = parents[c * XSMI_LANES + l] + ((s < 0.0f ? s : 0.0f) - t);
        }
    }
}

static void logistics(const float *scores, size_t n, float *left, float *right, float *rest)
{
    for (size_t i = 0; i < n; i++) {
        float s = scores[i];
        float e = xsmi_expf0(s < -s ? s : -s);
        float q = 1.0f / (1.0f + e);
        left[i] = s < 0.0f ? q : e * q;
        right[i] = s < 0.0f ? e * q : q;
        if (rest) {
            rest[i] = xsmi_log1p01(e);
        }
    }
}

static void adagrad(float *y, float *s, const float *x, size_t n, float a, float b, float eta)
{
    for (size_t i = 0; i < n; i++) {
        xsmi_adagrad(&y[i], &s[i], b * (a * x[i]), eta);
    }
}

static void sparse_adagrad(float *y, float *s, const uint32_t *index, const float *value, size_t nnz, float a, float b,
                           float eta)
{
    for (size_t i = 0; i < nnz; i++) {
        xsmi_adagrad(&y[index[i]], &s[index[i]], b * (a * value[i]), eta);
    }
}

static void score_quads(const float *query, const float *rows, size_t block_stride, size_t blocks, size_t quads,
                        float *out)
{
    for (size_t b = 0; b < blocks; b++) {
        for (size_t i = 0; i < XSMI_QUAD_ROWS; i++) {
            const float *row = rows + b * block_stride + xsmi_quad_offset(i, quads);
            float sum[4] = {0};
            for (size_t c = 0; c < quads; c++) {
                for (size_t p = 0; p < 4; p++) {
                    sum[p] = __builtin_fmaf(row[c * XSMI_LINE + p], query[c * XSMI_LINE + p], sum[p]);
                }
            }
            out[b * XSMI_QUAD_ROWS + i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        }
    }
}

static size_t sift_tile(const float *scores, size_t classes, const float *bar, size_t n, uint32_t *found)
{
    size_t count = 0;
    for (size_t c = 0; c < classes; c++) {
        for (size_t l = 0; l < n; l++) {
            if (!(scores[c * XSMI_LANES + l] <= bar[l])) {
                found[count++] = (uint32_t)(c * XSMI_LANES + l);
            }
        }
    }
    return count;
}

static void philox(const uint32_t key[2], uint32_t block, uint32_t purpose, const uint64_t *positions, size_t n,
                   uint32_t *out)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t words[4] = {block, purpose, (uint32_t)positions[i], (uint32_t)(positions[i] >> 32)};
        xsmi_philox(key, words);
        for (size_t w = 0; w < 4; w++) {
            out[w * n + i] = words[w];
        }
    }
}

/* Computes the products of a row with the weights of each lane. */
static void dual_products(const float *weights, const uint32_t *index, const float *value, size_t count,
                          float z[XSMI_DUAL_LANES])
{
    float sum[4][XSMI_DUAL_LANES] = {{0}};
    for (size_t k = 0; k < count; k++) {
        for (size_t l = 0; l < XSMI_DUAL_LANES; l++) {
            float *s = &sum[k % 4][l];
            *s = __builtin_fmaf(value[k], weights[(size_t)index[k] * XSMI_DUAL_LANES + l], *s);
        }
    }
    for (size_t l = 0; l < XSMI_DUAL_LANES; l++) {
        z[l] = (sum[0][l] + sum[1][l]) + (sum[2][l] + sum[3][l]);
    }
}

/* Takes the step of one lane, in which the row is active or not; returns the change of the bias. */
static float dual_step(const xsmi_dual_pass *p, uint32_t i, size_t l, bool active, float z)
{
    float *alpha = p->alpha + (size_t)i * XSMI_DUAL_LANES + l;
    const float y = p->positive[i] >> l & 1 ? 1.0f : -1.0f;
    if (!active) {
        return y * 0.0f;
    }
    const float diagonal = p->diagonals ? p->diagonals[i] : p->diagonal;
    const float g = __builtin_fmaf(*alpha, diagonal, __builtin_fmaf(y, z, -1.0f));
    if (*alpha == 0.0f && g > p->above[l]) {
        p->active[i] &= (uint16_t) ~(1u << l);
        return y * 0.0f;
    }
    const float projected = *alpha > 0.0f || g < 0.0f ? g : 0.0f;
    p->most[l] = projected > p->most[l] ? projected : p->most[l];
    p->least[l] = projected < p->least[l] ? projected : p->least[l];
    float next = __builtin_fmaf(p->step[i], g, *alpha);
    next = next > 0.0f ? next : 0.0f;
    const float d = y * (next - *alpha);
    *alpha = next;
    return d;
}

/* Returns the logistic function of -u. */
static float minus_sigma(float u)
{
    const float e = xsmi_expf0(u < -u ? u : -u), q = 1.0f / (1.0f + e);
    return u < 0.0f ? q : e * q;
}

/* |a|; 0 for -0. */
static float magnitude(float a)
{
    const float minus = 0.0f - a;
    return minus < a ? a : minus;
}

/* Returns the root of u - from - k sigma(-u). */
static float logistic_root(float u, float from, float k)
{
    float low = from, high = from + k;
    const float near = XSMI_LOGISTIC_NEAR * ((1.0f + k) + magnitude(from));
    u = low < u ? u : low;
    u = u < high ? u : high;
    for (uint32_t n = 0; n < XSMI_LOGISTIC_ROUNDS; n++) {
        const float p = minus_sigma(u), f = __builtin_fmaf(-k, p, u - from);
        low = f < 0.0f ? u : low;
        high = 0.0f < f ? u : high;
        if (!(near < magnitude(f))) {
            break;
        }
        const float next = u - f / __builtin_fmaf(k, __builtin_fmaf(-p, p, p), 1.0f);
        u = low < next && next < high ? next : 0.5f * (low + high);
    }
    return u;
}

static float dual_logistic_step(const xsmi_dual_pass *p, uint32_t i, size_t l, bool active, float z)
{
    float *u = p->alpha + (size_t)i * XSMI_DUAL_LANES + l;
    const float y = p->positive[i] >> l & 1 ? 1.0f : -1.0f;
    if (!active) {
        return y * 0.0f;
    }
    const float cost = p->diagonals ? p->diagonals[i] : p->diagonal;
    const float m = y * z, before = minus_sigma(*u), k = p->step[i] * cost;
    const float size = magnitude(m - *u);
    p->most[l] = size > p->most[l] ? size : p->most[l];
    p->least[l] = 0.0f < p->least[l] ? 0.0f : p->least[l];
    *u = logistic_root(m, __builtin_fmaf(-k, before, m), k);
    return (y * cost) * (minus_sigma(*u) - before);
}

/* Makes a pass with the steps of a loss. */
static inline void run_dual_pass(const xsmi_dual_pass *p,
                                 float (*step)(const xsmi_dual_pass *p, uint32_t i, size_t l, bool active, float z))
{
    for (size_t s = 0; s < p->count; s++) {
        const uint32_t i = p->order[s];
        const size_t row = p->source ? p->source[i] : i;
        const size_t first = p->offsets ? (size_t)p->offsets[row] : row * p->stride;
        const size_t count = p->offsets ? (size_t)p->offsets[row + 1] - first : p->features;
        const uint32_t *index = p->offsets ? p->index + first : p->index;
        float z[XSMI_DUAL_LANES];
        dual_products(p->weights, index, p->value + first, count, z);
        const uint32_t lanes = p->active[i] & p->live;
        bool any = false;
        for (size_t l = 0; l < XSMI_DUAL_LANES; l++) {
            const float d = step(p, i, l, lanes >> l & 1, z[l] + p->bias[l]);
            p->bias[l] += d;
            any = any || d != 0.0f;
            z[l] = d;
        }
        for (size_t k = 0; any && k < count; k++) {
            float *w = p->weights + (size_t)index[k] * XSMI_DUAL_LANES;
            for (size_t l = 0; l < XSMI_DUAL_LANES; l++) {
                w[l] = __builtin_fmaf(z[l], p->value[first + k], w[l]);
            }
        }
    }
}

static void dual_pass(const xsmi_dual_pass *p)
{
    run_dual_pass(p, dual_step);
}

static void dual_logistic_pass(const xsmi_dual_pass *p)
{
    run_dual_pass(p, dual_logistic_step);
}

static void dual_squares(float *squares, const uint32_t *index, const float *value, size_t count, const float *used)
{
    for (size_t k = 0; k < count; k++) {
        float *to = squares + (size_t)index[k] * XSMI_DUAL_LANES;
        const float square = value[k] * value[k];
        for (size_t l = 0; l < XSMI_DUAL_LANES; l++) {
            to[l] += square * used[l];
        }
    }
}

static void dual_shares(const float *squares, const uint32_t *index, const float *value, size_t count,
                        const float *used, float unit, float *share)
{
    for (size_t k = 0; k < count; k++) {
        const float *from = squares + (size_t)index[k] * XSMI_DUAL_LANES;
        const float square = value[k] * value[k];
        for (size_t l = 0; l < XSMI_DUAL_LANES; l++) {
            const float others = from[l] - square * used[l];
            share[l] += square / (1.0f + unit * (others > 0.0f ? others : 0.0f));
        }
    }
}

static bool dual_keep(float *weights, size_t width, const float *least, uint16_t *kept)
{
    bool finite = true;
    for (size_t f = 0; f < width; f++) {
        uint32_t lanes = 0;
        for (uint32_t l = 0; l < XSMI_DUAL_LANES; l++) {
            float *w = &weights[f * XSMI_DUAL_LANES + l];
            const bool keep = fabsf(*w) >= least[l] && *w != 0.0f;
            finite = finite && isfinite(*w);
            *w = keep ? *w : 0.0f;
            lanes |= (uint32_t)keep << l;
        }
        kept[f] = (uint16_t)lanes;
    }
    return finite;
}

const xsmi_kernels xsmi_kernels_scalar = XSMI_KERNELS("scalar");
