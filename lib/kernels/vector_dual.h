/*
 * A pass of dual coordinate descent for XSMI_DUAL_LANES classifiers at once, written with the vocabulary of
 * vector_rows.h. The lanes run over classifiers: an entry of a row meets one cache line of weights, without gathers.
 */
#ifndef XSMI_VECTOR_DUAL_H
#define XSMI_VECTOR_DUAL_H

#include "kernels/vector_rows.h"

/* Vectors of the lanes. */
#define DUAL (XSMI_DUAL_LANES / VW)

/* The products of a row with the weights of each lane. */
XSMI_INLINE void dual_products(const float *weights, const uint32_t *index, const float *value, size_t count,
                               vf z[DUAL])
{
    vf sum[4][DUAL];
    XSMI_UNROLL
    for (size_t p = 0; p < 4; p++) {
        XSMI_UNROLL
        for (size_t q = 0; q < DUAL; q++) {
            sum[p][q] = v_set(0.0f);
        }
    }
    size_t k = 0;
    for (; k + 4 <= count; k += 4) {
        XSMI_UNROLL
        for (size_t p = 0; p < 4; p++) {
            const float *w = weights + (size_t)index[k + p] * XSMI_DUAL_LANES;
            const vf x = v_set(value[k + p]);
            XSMI_UNROLL
            for (size_t q = 0; q < DUAL; q++) {
                sum[p][q] = v_fma(x, v_load(w + q * VW), sum[p][q]);
            }
        }
    }
    XSMI_UNROLL
    for (size_t p = 0; p < 3; p++) {
        if (k + p < count) {
            const float *w = weights + (size_t)index[k + p] * XSMI_DUAL_LANES;
            const vf x = v_set(value[k + p]);
            XSMI_UNROLL
            for (size_t q = 0; q < DUAL; q++) {
                sum[p][q] = v_fma(x, v_load(w + q * VW), sum[p][q]);
            }
        }
    }
    XSMI_UNROLL
    for (size_t q = 0; q < DUAL; q++) {
        z[q] = sum[0][q] + sum[1][q] + (sum[2][q] + sum[3][q]);
    }
}

/* What the lanes of one vector keep from row to row. */
typedef struct dual_lanes {
    vf bias, above, most, least;
} dual_lanes;

/* The step of one vector of lanes: `active` and `positive` are its bits. Returns the change; active loses the lanes
 * that leave the row out. */
XSMI_INLINE vf dual_step(dual_lanes *kept, vf z, float *alpha, vf step, vf diagonal, uint32_t positive,
                         uint32_t *active)
{
    const vf zero = v_set(0.0f);
    const vf y = v_select(m_lanes(positive), v_set(1.0f), v_set(-1.0f));
    const vf a = v_load(alpha);
    const vf g = v_fma(a, diagonal, v_fma(y, z + kept->bias, v_set(-1.0f)));
    const vm above_zero = m_less(zero, a);
    const uint32_t out = *active & m_bits(m_less(kept->above, g)) & ~m_bits(above_zero);
    *active &= ~out;
    const vm visits = m_lanes(*active);
    const vf projected = v_select(above_zero, g, v_min(g, zero));
    kept->most = v_select(visits, v_max(projected, kept->most), kept->most);
    kept->least = v_select(visits, v_min(projected, kept->least), kept->least);
    const vf next = v_select(visits, v_max(v_fma(step, g, a), zero), a);
    v_store(alpha, next);
    const vf d = y * (next - a);
    kept->bias = kept->bias + d;
    return d;
}

/* The logistic function of -u. */
XSMI_INLINE vf minus_sigma(vf u)
{
    const vf zero = v_set(0.0f), e = v_expf0(v_min(u, zero - u));
    const vf q = v_set(1.0f) / (v_set(1.0f) + e);
    return v_select(m_less(u, zero), q, e * q);
}

XSMI_INLINE vf v_size(vf a)
{
    const vf minus = v_set(0.0f) - a;
    return v_select(m_less(minus, a), a, minus);
}

/* The root of u - from - k sigma(-u), from `start`, in the lanes of a mask's bits. */
XSMI_INLINE vf logistic_root(vf start, vf from, vf k, uint32_t moving)
{
    const vf zero = v_set(0.0f), minus_k = zero - k;
    vf low = from, high = from + k;
    const vf near = v_set(XSMI_LOGISTIC_NEAR) * (v_set(1.0f) + k + v_size(from));
    vf u = v_select(m_less(low, start), start, low);
    u = v_select(m_less(u, high), u, high);
    for (uint32_t n = 0; n < XSMI_LOGISTIC_ROUNDS && moving; n++) {
        const vf p = minus_sigma(u), f = v_fma(minus_k, p, u - from);
        low = v_select(m_less(f, zero), u, low);
        high = v_select(m_less(zero, f), u, high);
        moving &= m_bits(m_less(near, v_size(f)));
        const vf slope = v_fma(k, v_fma(zero - p, p, p), v_set(1.0f));
        const vf newton = u - f / slope, middle = v_set(0.5f) * (low + high);
        const uint32_t within = m_bits(m_less(low, newton)) & m_bits(m_less(newton, high));
        u = v_select(m_lanes(moving), v_select(m_lanes(within), newton, middle), u);
    }
    return u;
}

/* The same as dual_step() for the logistic loss, with u in `alpha`, the row's |x|^2 + 1 in `step` and C in
 * `diagonal`. */
XSMI_INLINE vf dual_logistic_step(dual_lanes *kept, vf z, float *alpha, vf step, vf diagonal, uint32_t positive,
                                  uint32_t *active)
{
    const vf zero = v_set(0.0f);
    const vf y = v_select(m_lanes(positive), v_set(1.0f), v_set(-1.0f));
    const vf u = v_load(alpha), before = minus_sigma(u), m = y * (z + kept->bias);
    const vf k = step * diagonal;
    const vm visits = m_lanes(*active);
    kept->most = v_select(visits, v_max(v_size(m - u), kept->most), kept->most);
    kept->least = v_select(visits, v_min(zero, kept->least), kept->least);
    const vf root = logistic_root(m, v_fma(zero - k, before, m), k, *active);
    const vf next = v_select(visits, root, u);
    v_store(alpha, next);
    const vf d = v_select(visits, y * diagonal * (minus_sigma(next) - before), y * zero);
    kept->bias = kept->bias + d;
    return d;
}

/* A pass with the steps of a loss. */
XSMI_INLINE void run_dual_pass(const xsmi_dual_pass *p, bool logistic)
{
    dual_lanes kept[DUAL];
    XSMI_UNROLL
    for (size_t q = 0; q < DUAL; q++) {
        kept[q] = (dual_lanes){v_load(p->bias + q * VW), v_load(p->above + q * VW), v_load(p->most + q * VW),
                               v_load(p->least + q * VW)};
    }
    const vf same = v_set(p->diagonal);
    for (size_t s = 0; s < p->count; s++) {
        const uint32_t i = p->order[s];
        const size_t row = p->source ? p->source[i] : i;
        const size_t first = p->offsets ? (size_t)p->offsets[row] : row * p->stride;
        const size_t count = p->offsets ? (size_t)p->offsets[row + 1] - first : p->features;
        const uint32_t *index = p->offsets ? p->index + first : p->index;
        const float *value = p->value + first;
        if (s + 1 < p->count) {
            const uint32_t next = p->order[s + 1];
            __builtin_prefetch(p->alpha + (size_t)next * XSMI_DUAL_LANES, 1, 3);
        }
        vf d[DUAL];
        dual_products(p->weights, index, value, count, d);
        const uint32_t off = p->active[i] & ~(uint32_t)p->live, on = p->active[i] & (uint32_t)p->live;
        const vf diagonal = p->diagonals ? v_set(p->diagonals[i]) : same;
        uint32_t left = off;
        vm any = m_lanes(0);
        XSMI_UNROLL
        for (size_t q = 0; q < DUAL; q++) {
            const uint32_t mask = (1u << VW) - 1;
            uint32_t active = on >> (q * VW) & mask;
            const uint32_t positive = (uint32_t)p->positive[i] >> (q * VW) & mask;
            float *alpha = p->alpha + (size_t)i * XSMI_DUAL_LANES + q * VW;
            const vf step = v_set(p->step[i]);
            d[q] = logistic ? dual_logistic_step(&kept[q], d[q], alpha, step, diagonal, positive, &active)
                            : dual_step(&kept[q], d[q], alpha, step, diagonal, positive, &active);
            left |= active << (q * VW);
            any = m_or(any, m_or(m_less(d[q], v_set(0.0f)), m_less(v_set(0.0f), d[q])));
        }
        p->active[i] = (uint16_t)left;
        for (size_t k = 0; m_any(any) && k < count; k++) {
            float *w = p->weights + (size_t)index[k] * XSMI_DUAL_LANES;
            const vf x = v_set(value[k]);
            XSMI_UNROLL
            for (size_t q = 0; q < DUAL; q++) {
                v_store(w + q * VW, v_fma(d[q], x, v_load(w + q * VW)));
            }
        }
    }
    XSMI_UNROLL
    for (size_t q = 0; q < DUAL; q++) {
        v_store(p->bias + q * VW, kept[q].bias);
        v_store(p->most + q * VW, kept[q].most);
        v_store(p->least + q * VW, kept[q].least);
    }
}

static void dual_pass(const xsmi_dual_pass *p)
{
    run_dual_pass(p, false);
}

static void dual_logistic_pass(const xsmi_dual_pass *p)
{
    run_dual_pass(p, true);
}

static void dual_squares(float *squares, const uint32_t *index, const float *value, size_t count, const float *used)
{
    vf of[DUAL];
    XSMI_UNROLL
    for (size_t q = 0; q < DUAL; q++) {
        of[q] = v_load(used + q * VW);
    }
    for (size_t k = 0; k < count; k++) {
        float *to = squares + (size_t)index[k] * XSMI_DUAL_LANES;
        const vf square = v_set(value[k] * value[k]);
        XSMI_UNROLL
        for (size_t q = 0; q < DUAL; q++) {
            v_store(to + q * VW, v_load(to + q * VW) + square * of[q]);
        }
    }
}

static void dual_shares(const float *squares, const uint32_t *index, const float *value, size_t count,
                        const float *used, float unit, float *share)
{
    const vf zero = v_set(0.0f), one = v_set(1.0f), by = v_set(unit);
    vf of[DUAL], sum[DUAL];
    XSMI_UNROLL
    for (size_t q = 0; q < DUAL; q++) {
        of[q] = v_load(used + q * VW);
        sum[q] = v_load(share + q * VW);
    }
    for (size_t k = 0; k < count; k++) {
        const float *from = squares + (size_t)index[k] * XSMI_DUAL_LANES;
        const vf square = v_set(value[k] * value[k]);
        XSMI_UNROLL
        for (size_t q = 0; q < DUAL; q++) {
            const vf rest = v_load(from + q * VW) - square * of[q];
            const vf others = v_select(m_less(zero, rest), rest, zero);
            sum[q] = sum[q] + square / (one + by * others);
        }
    }
    XSMI_UNROLL
    for (size_t q = 0; q < DUAL; q++) {
        v_store(share + q * VW, sum[q]);
    }
}

static bool dual_keep(float *weights, size_t width, const float *least, uint16_t *kept)
{
    const vf zero = v_set(0.0f), infinite = v_set(INFINITY);
    const uint32_t all = (1u << VW) - 1;
    uint32_t finite = all;
    for (size_t f = 0; f < width; f++) {
        uint32_t found = 0;
        XSMI_UNROLL
        for (size_t q = 0; q < DUAL; q++) {
            float *at = weights + f * XSMI_DUAL_LANES + q * VW;
            const vf w = v_load(at), size = v_size(w);
            finite &= m_bits(m_less(size, infinite));
            const uint32_t keep = all & m_bits(m_less(zero, size)) & ~m_bits(m_less(size, v_load(least + q * VW)));
            v_store(at, v_select(m_lanes(keep), w, zero));
            found |= keep << (q * VW);
        }
        kept[f] = (uint16_t)found;
    }
    return finite == all;
}

#endif
