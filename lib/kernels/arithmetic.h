/*
 * The arithmetic that every kernel table shares: the constants of the exponential, the joining of partial sums, the
 * step of one weight.
 *
 * Results are bit-identical across instruction sets because each set does these steps, in this order, with one rounding
 * a step. A change of a constant or of an order here changes the results on every machine alike.
 */
#ifndef XSMI_ARITHMETIC_H
#define XSMI_ARITHMETIC_H

#include "kernels/kernels.h"

#include <stdint.h>
#include <string.h>

/*
 * exp(x) = 2^n * exp(r), n = x/ln 2 rounded to an integer, r = x - n ln 2 in [-ln 2/2, ln 2/2].
 *
 * Rounding to an integer is an addition of 1.5 * 2^23 (W. Kahan's trick): the sum's last bits are then the integer. The
 * exponent bias 127 is added with it, so that shifting the sum left by 23 bits makes the float 2^n. ln 2 is split in
 * two after Cody & Waite (Software Manual for the Elementary Functions, 1980); with a fused multiply-add the first step
 * is exact.
 *
 * exp(r) = 1 + r + c2 r^2 + ... + c6 r^6 minimises the largest relative error (Remez exchange, coefficients rounded to
 * float one after the other from the lowest): 5e-9 before rounding. The coefficients 1 of the first two terms are fixed
 * so that exp(0) is 1 exactly.
 */
#define XSMI_EXP_LOG2E 0x1.715476p+0f
#define XSMI_EXP_SHIFT 12583039.0f /* 1.5 * 2^23 + 127 */
#define XSMI_EXP_LN2_HIGH 0x1.62e43p-1f
#define XSMI_EXP_LN2_LOW -0x1.05c61p-29f
#define XSMI_EXP_C2 0x1.fffffcp-2f
#define XSMI_EXP_C3 0x1.55548cp-3f
#define XSMI_EXP_C4 0x1.555858p-5f
#define XSMI_EXP_C5 0x1.12432p-7f
#define XSMI_EXP_C6 0x1.6af29p-10f
/* Below this the result is 0; above it no result is a subnormal number, which some processors handle slowly. */
#define XSMI_EXP_LEAST -87.0f

/* expf0() of the contract in kernels.h, for x up to 88. NaN gives NaN. */
static inline float xsmi_expf0(float x)
{
    float shifted = __builtin_fmaf(x, XSMI_EXP_LOG2E, XSMI_EXP_SHIFT);
    float n = shifted - XSMI_EXP_SHIFT;
    float r = __builtin_fmaf(n, -XSMI_EXP_LN2_HIGH, x);
    r = __builtin_fmaf(n, -XSMI_EXP_LN2_LOW, r);
    float p = __builtin_fmaf(XSMI_EXP_C6, r, XSMI_EXP_C5);
    p = __builtin_fmaf(p, r, XSMI_EXP_C4);
    p = __builtin_fmaf(p, r, XSMI_EXP_C3);
    p = __builtin_fmaf(p, r, XSMI_EXP_C2);
    p = __builtin_fmaf(p, r, 1.0f);
    p = __builtin_fmaf(p, r, 1.0f);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits <<= 23;
    float power;
    memcpy(&power, &bits, sizeof(power));
    return x < XSMI_EXP_LEAST ? 0.0f : p * power;
}

/*
 * log(1 + e) = e * Q(e) for e in [0, 1]: Q of degree 9 minimises the largest relative error (weighted least squares,
 * repeated), 5e-9 before rounding; with it 1.5e-7 of the result at most, 1e-7 at most in all.
 */
#define XSMI_LOG1P_C0 0x1p+0f
#define XSMI_LOG1P_C1 -0x1.ffffbep-2f
#define XSMI_LOG1P_C2 0x1.554c8p-2f
#define XSMI_LOG1P_C3 -0x1.ff0f88p-3f
#define XSMI_LOG1P_C4 0x1.92f696p-3f
#define XSMI_LOG1P_C5 -0x1.39756p-3f
#define XSMI_LOG1P_C6 0x1.b25358p-4f
#define XSMI_LOG1P_C7 -0x1.d29cbap-5f
#define XSMI_LOG1P_C8 0x1.453efep-6f
#define XSMI_LOG1P_C9 -0x1.a9334ap-9f

static inline float xsmi_log1p01(float e)
{
    float q = __builtin_fmaf(XSMI_LOG1P_C9, e, XSMI_LOG1P_C8);
    q = __builtin_fmaf(q, e, XSMI_LOG1P_C7);
    q = __builtin_fmaf(q, e, XSMI_LOG1P_C6);
    q = __builtin_fmaf(q, e, XSMI_LOG1P_C5);
    q = __builtin_fmaf(q, e, XSMI_LOG1P_C4);
    q = __builtin_fmaf(q, e, XSMI_LOG1P_C3);
    q = __builtin_fmaf(q, e, XSMI_LOG1P_C2);
    q = __builtin_fmaf(q, e, XSMI_LOG1P_C1);
    q = __builtin_fmaf(q, e, XSMI_LOG1P_C0);
    return q * e;
}

/* Sum of 16 partial sums: each lane is added to the lane 8 further on, then 4, then 2, then 1. `p` is overwritten. */
static inline float xsmi_join_16(float p[16])
{
    for (int half = 8; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            p[l] += p[l + half];
        }
    }
    return p[0];
}

/* Sum of XSMI_PARTIALS partial sums: the four quarters are added as (0 + 1) + (2 + 3), then as in xsmi_join_16(). */
static inline float xsmi_join_partials(const float p[64])
{
    float q[16];
    for (int l = 0; l < 16; l++) {
        q[l] = (p[l] + p[l + 16]) + (p[l + 32] + p[l + 48]);
    }
    return xsmi_join_16(q);
}

/* Sum of XSMI_DRAW_PARTIALS partial sums, as in xsmi_join_16(). `p` is overwritten. */
static inline double xsmi_join_draws(double p[XSMI_DRAW_PARTIALS])
{
    for (int half = XSMI_DRAW_PARTIALS / 2; half > 0; half /= 2) {
        for (int l = 0; l < half; l++) {
            p[l] += p[l + half];
        }
    }
    return p[0];
}

/* A step of Adagrad for one weight with gradient t. */
static inline void xsmi_adagrad(float *y, float *s, float t, float eta)
{
    *s = __builtin_fmaf(t, t, *s);
    *y = *y - eta * t / __builtin_sqrtf(*s);
}

/* Inserts (score, class) into the falling list of lane l of a reduction. Classes are inserted in rising order, so a
 * class follows those of equal score. */
static inline void xsmi_insert_top(xsmi_reduction *r, size_t l, float score, uint32_t class)
{
    uint32_t rank = r->top;
    while (rank > 0 && score > r->top_score[(rank - 1) * XSMI_LANES + l]) {
        rank--;
    }
    if (rank == r->top) {
        return;
    }
    for (uint32_t k = r->top - 1; k > rank; k--) {
        r->top_score[k * XSMI_LANES + l] = r->top_score[(k - 1) * XSMI_LANES + l];
        r->top_class[k * XSMI_LANES + l] = r->top_class[(k - 1) * XSMI_LANES + l];
    }
    r->top_score[rank * XSMI_LANES + l] = score;
    r->top_class[rank * XSMI_LANES + l] = class;
}

#endif
