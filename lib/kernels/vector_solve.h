/*
 * The kernel that solves the equations of several implicit steps at once, one per lane, written once with the vector
 * types of the compilers. The file that includes it defines
 *   DW     lanes of a vector
 *   d_fma  a*b + c, fused
 * after typedef double vd __attribute__((vector_size(8 * DW))). Every set does these operations in this order with one
 * rounding each, and a lane that is finished is not changed any more: its bits depend neither on the set nor on the
 * other lanes.
 */
#ifndef XSMI_VECTOR_SOLVE_H
#define XSMI_VECTOR_SOLVE_H

#include "kernels/kernels.h"

#define XSMI_SOLVE_INLINE static inline __attribute__((always_inline))

/* The bits of a vector (as vu, too), and its masks: all bits of a lane set, or none. */
typedef int64_t vi __attribute__((vector_size(8 * DW)));

XSMI_SOLVE_INLINE vd d_set(double a)
{
    const vd zero = {0};
    return zero + a;
}

XSMI_SOLVE_INLINE vi i_set(int64_t a)
{
    const vi zero = {0};
    return zero + a;
}

XSMI_SOLVE_INLINE vd d_select(vi mask, vd a, vd b)
{
    return (vd)((mask & (vi)a) | (~mask & (vi)b));
}

XSMI_SOLVE_INLINE vd d_max(vd a, vd b)
{
    return d_select(a > b, a, b);
}

XSMI_SOLVE_INLINE vd d_abs(vd a)
{
    return (vd)((vi)a & i_set(INT64_MAX));
}

XSMI_SOLVE_INLINE int d_any(vi mask)
{
    int64_t lane[DW];
    int64_t any = 0;
    __builtin_memcpy(lane, &mask, sizeof(lane));
    for (size_t l = 0; l < DW; l++) {
        any |= lane[l];
    }
    return any != 0;
}

XSMI_SOLVE_INLINE vd d_load(const double *p)
{
    vd a;
    __builtin_memcpy(&a, p, sizeof(a));
    return a;
}

XSMI_SOLVE_INLINE void d_store(double *p, vd a)
{
    __builtin_memcpy(p, &a, sizeof(a));
}

/* The low bits of 2^52 plus an integer are that integer. */
#define TWO_52 0x1p52
#define SHIFT_52 0x1.8p52

/*
 * log(x) for normal x above 0, error below 1 ulp. x = 2^k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f/(2 + f):
 *     log(m) = 2 atanh(s) = f - s (f - s^2 P(s^2)),    P(z) = 2/3 + 2/5 z + 2/7 z^2 + ...
 * P is interpolated at Chebyshev's points of [0, 0.02944] (tests/golden/vector_solve.py); its error is 5e-18 of log(m).
 * The first part of ln 2 ends in eleven zero bits, so that k times it is exact.
 */
XSMI_SOLVE_INLINE vd d_log(vd x)
{
    const int64_t root = 0x3fe6a09e667f3bcd; /* sqrt(1/2) */
    vi bits = (vi)x + (0x3ff0000000000000 - root);
    vi high = (vi)((vu)bits >> 52); /* 1023 + k */
    vd k = (vd)(high | (vi)d_set(TWO_52)) - (TWO_52 + 1023);
    vd m = (vd)((bits & 0x000fffffffffffff) + root);
    vd f = m - 1.0;
    vd s = f / (f + 2.0);
    vd z = s * s, z2 = z * z;
    vd even = d_fma(d_set(0x1.2b5850ded83b8p-3), z2, d_set(0x1.7462b4af0a2a3p-3));
    vd odd = d_fma(d_set(0x1.39fe5fe5147bp-3), z2, d_set(0x1.c71c62e5727d6p-3));
    even = d_fma(even, z2, d_set(0x1.2492492df1537p-2));
    odd = d_fma(odd, z2, d_set(0x1.99999999952e2p-2));
    even = d_fma(even, z2, d_set(0x1.5555555555558p-1));
    vd p = d_fma(odd, z, even);
    vd small = d_fma(s, d_fma(-z, p, f), k * -0x1.ef35793c7673p-45);
    return d_fma(k, d_set(0x1.62e42fefa38p-1), f - small);
}

/*
 * exp(x) and exp(x) - 1 for x in [-708, 0], errors below 2 ulp. x = n ln 2 + r, exp(r) - 1 = r + r^2 Q(r), with Q
 * interpolated like P above on [-ln 2/2, ln 2/2]; its error is 9e-19 of exp(r) - 1.
 */
XSMI_SOLVE_INLINE vd d_exp(vd x, vd *less_one)
{
    vd shifted = d_fma(x, d_set(0x1.71547652b82fep+0), d_set(SHIFT_52 + 1023));
    vd n = shifted - (SHIFT_52 + 1023);
    vd r = d_fma(n, d_set(-0x1.62e42fefa38p-1), x);
    r = d_fma(n, d_set(-0x1.ef35793c7673p-45), r);
    vd r2 = r * r;
    vd even = d_fma(d_set(0x1.1f72fc730b4ffp-29), r2, d_set(0x1.27e4db67b4303p-22));
    vd odd = d_fma(d_set(0x1.af4ddd84882fep-26), r2, d_set(0x1.71de02375656cp-19));
    even = d_fma(even, r2, d_set(0x1.a01a01a6d7808p-16));
    odd = d_fma(odd, r2, d_set(0x1.a01a01abe62ddp-13));
    even = d_fma(even, r2, d_set(0x1.6c16c16c162d6p-10));
    odd = d_fma(odd, r2, d_set(0x1.11111111100dfp-7));
    even = d_fma(even, r2, d_set(0x1.5555555555556p-5));
    odd = d_fma(odd, r2, d_set(0x1.5555555555557p-3));
    even = d_fma(even, r2, d_set(0x1p-1));
    vd p = d_fma(d_fma(odd, r, even), r2, r);
    vd power = (vd)((vi)shifted << 52);
    *less_one = d_fma(p, power, power - 1.0);
    return d_fma(p, power, power);
}

/* exp(x) for x in [-700, 1] within 4 per cent, log(x) for normal x above 0 within 0.05: the bits of a floating-point
 * number, read as an integer, are about proportional to its logarithm. */
XSMI_SOLVE_INLINE vd d_exp_about(vd x)
{
    vd y = d_fma(x, d_set(0x1.71547652b82fep+20), d_set(SHIFT_52 + (1023 - 0.043) * 0x1p20));
    return (vd)((vi)y << 32);
}

XSMI_SOLVE_INLINE vd d_log_about(vd x)
{
    vd y = (vd)((vi)((vu)x >> 32) | (vi)d_set(TWO_52)) - TWO_52;
    return d_fma(y, d_set(0x1.62e42fefa39efp-21), d_set((0.043 - 1023) * 0x1.62e42fefa39efp-1));
}

/* omega(t) within some twenty per cent, for t in [-600, 1e6]. */
XSMI_SOLVE_INLINE vd d_omega_about(vd t)
{
    vi small = t < 1.0;
    vd e = d_exp_about(d_select(small, t, d_set(1)));
    vd l = d_log_about(d_select(small, d_set(1), t));
    vd low = e / d_fma(e, d_select(t < -1.0, d_set(1), d_set(0.75)), d_set(1));
    vd high = (t - l) + l / (t + 1.0);
    return d_select(small, low, high);
}

/* Newton's method for the lanes first..first+DW; returns those that were solved. */
XSMI_SOLVE_INLINE vi solve_some(size_t first, size_t count, const xsmi_equations *p)
{
    /* Lines prefetched per round. Most calls take three rounds, in which the lines of four steps of two classes with
     * 512 features each are prefetched (train/steps.c). Most are in a cache: memory delivers some 20 in that time. */
    enum { ROUNDS = 12, QUEUED = 86 };
    const size_t stride = XSMI_SOLVE_LANES;
    const double *margin = p->margin + first, *q = p->q + first;
    double *c = p->c + first, *residual = p->work + first, *inverse = p->work + count * stride + first;
    const vd u_old = d_load(p->u_old + first), q_y = d_load(p->q_y + first);
    const vd eta = d_set(p->eta), share = d_set(1 / p->rate), tolerance = d_set(p->tolerance);
    const vd log_rate = d_log_about(d_set(p->rate));
    vd u = u_old;
    vi active = u_old >= 0.0;
    for (size_t l = 0; l < DW; l++) {
        active[l] = first + l < p->lanes ? active[l] : 0;
    }
    for (size_t k = 0; k < count; k++) {
        /* The start: u keeps its old value, and each class is treated as the only one. */
        vd q_k = d_load(q + k * stride);
        vd t = ((d_log_about(q_k) + log_rate) + d_load(margin + k * stride)) - u + 0.7;
        active &= (t > -600.0) & (t < 1e6) & (q_k > 1e-100) & (q_k < 1e100);
        t = d_select(active, t, d_set(0));
        d_store(c + k * stride, d_omega_about(t) / d_select(active, q_k + q_y, d_set(1)));
    }
    vi solved = i_set(0);
    for (int round = 0; round < ROUNDS && d_any(active); round++) {
        if (p->queue) {
            xsmi_prefetch_queued(p->queue, QUEUED);
        }
        vd decline;
        vd e = d_exp(d_max(-u, d_set(-708)), &decline);
        vd rise = d_fma(eta, e, d_set(1)); /* C'(u) */
        vd sum = d_set(0), reach = d_set(0), pull = d_set(0);
        for (size_t k = 0; k < count; k++) {
            sum += d_load(c + k * stride);
        }
        vd gap = d_fma(-eta, decline, u - u_old) - sum;
        vd shift = d_fma(q_y, sum, u);
        for (size_t k = 0; k < count; k++) {
            vd c_k = d_load(c + k * stride);
            vd w = d_load(q + k * stride) * c_k;
            vd i_k = 1.0 / (w + 1.0);
            vd slack = c_k * i_k;
            vd r_k = d_log(c_k * share) + (w + (shift - d_load(margin + k * stride)));
            d_store(residual + k * stride, r_k);
            d_store(inverse + k * stride, i_k);
            reach += slack;
            pull = d_fma(slack, r_k, pull);
        }
        vd du = -d_fma(gap, d_fma(q_y, reach, d_set(1)), pull) / d_fma(reach, d_fma(q_y, rise, d_set(1)), rise);
        vd push = d_fma(q_y, d_fma(rise, du, gap), du);
        vd largest = d_abs(du);
        vd bend = d_fma(q_y, rise - 1.0, d_set(1)); /* a bound on the curvature of omega's arguments as functions of
                                                       u */
        for (size_t k = 0; k < count; k++) {
            vd change = -(d_load(residual + k * stride) + push) * d_load(inverse + k * stride);
            vd c_k = d_load(c + k * stride);
            vd next = c_k * d_select(change > -0.9, change + 1.0, d_set(0.1));
            largest = d_max(d_abs(change), largest);
            d_store(c + k * stride, d_select(active, next, c_k));
        }
        u = d_select(active, d_max(u + du, d_set(0)), u);
        active &= largest < 1e4; /* false for NaN too */
        /* The remaining errors are at most half of these products, because Newton's method converges quadratically. */
        vi done = active & (largest * largest <= tolerance) & (bend * (du * du) <= tolerance);
        solved |= done;
        active &= ~done;
    }
    d_store(p->u + first, u);
    return solved;
}

static uint32_t solve(const xsmi_equations *p)
{
    uint32_t solved = 0;
    if (!(p->rate > 1e-100 && p->rate < 1e100)) {
        return 0;
    }
    for (size_t first = 0; first < p->lanes; first += DW) {
        vi mask = p->count == 1 ? solve_some(first, 1, p) : solve_some(first, p->count, p);
        for (size_t l = 0; l < DW; l++) {
            solved |= mask[l] ? 1u << (first + l) : 0;
        }
    }
    return solved;
}

#endif
