/*
 * NEON of aarch64: 4 floats a vector, 32 vectors.
 */
#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VW 4
#define ROWS 1
#define RANK_VECTORS 4
#define BLOCK_VECTORS 4
#define BLOCK_CLASSES(vectors) 6
#define BLOCK_MOST 6
#define NARROW_GROUPS 3

typedef float32x4_t vf;
typedef uint32x4_t vm;

#define V_INLINE static inline __attribute__((always_inline))

V_INLINE vm m_first(size_t n)
{
    static const uint32_t lane[VW] = {0, 1, 2, 3};
    return vcltq_u32(vld1q_u32(lane), vdupq_n_u32((uint32_t)n));
}

V_INLINE vf v_load(const float *p)
{
    return vld1q_f32(p);
}

V_INLINE void v_store(float *p, vf a)
{
    vst1q_f32(p, a);
}

/* NEON has no masked loads and stores: lanes are handled one by one, at most three. */
V_INLINE vf v_load_first(const float *p, size_t n)
{
    vf a = vdupq_n_f32(0.0f);
    a = vld1q_lane_f32(p, a, 0);
    if (n > 1) {
        a = vld1q_lane_f32(p + 1, a, 1);
    }
    if (n > 2) {
        a = vld1q_lane_f32(p + 2, a, 2);
    }
    return a;
}

V_INLINE void v_store_first(float *p, vf a, size_t n)
{
    vst1q_lane_f32(p, a, 0);
    if (n > 1) {
        vst1q_lane_f32(p + 1, a, 1);
    }
    if (n > 2) {
        vst1q_lane_f32(p + 2, a, 2);
    }
}

V_INLINE vf v_set(float a)
{
    return vdupq_n_f32(a);
}

V_INLINE vf v_sqrt(vf a)
{
    return vsqrtq_f32(a);
}

V_INLINE vf v_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

/* Not vmaxq and vminq, which treat NaN and the two zeros differently. */
V_INLINE vf v_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

V_INLINE float v_most(vf a)
{
    return vmaxvq_f32(a);
}

V_INLINE vf v_min(vf a, vf b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

V_INLINE vm m_less(vf a, vf b)
{
    return vcltq_f32(a, b);
}

V_INLINE vm m_unordered(vf a, vf b)
{
    return vmvnq_u32(vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b)));
}

V_INLINE vm m_or(vm a, vm b)
{
    return vorrq_u32(a, b);
}

V_INLINE vm m_lanes(uint32_t bits)
{
    const vm each = {1, 2, 4, 8};
    return vtstq_u32(vdupq_n_u32(bits), each);
}

V_INLINE uint32_t m_bits(vm a)
{
    const vm each = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(a, each));
}

V_INLINE int m_any(vm a)
{
    return vmaxvq_u32(a) != 0;
}

V_INLINE vf v_select(vm m, vf a, vf b)
{
    return vbslq_f32(m, a, b);
}

V_INLINE float v_join(const vf a[4])
{
    vf b = vaddq_f32(vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3]));
    float32x2_t c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
    return vget_lane_f32(c, 0) + vget_lane_f32(c, 1);
}

V_INLINE vf v_gather(const float *p, const uint32_t *index)
{
    vf a = vdupq_n_f32(0.0f);
    a = vld1q_lane_f32(p + index[0], a, 0);
    a = vld1q_lane_f32(p + index[1], a, 1);
    a = vld1q_lane_f32(p + index[2], a, 2);
    return vld1q_lane_f32(p + index[3], a, 3);
}

V_INLINE vf v_load_bfloat16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

V_INLINE vf v_load_int8(const int8_t *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four))))));
}

typedef float32x4_t vq;

V_INLINE vq q_load(const float *p)
{
    return vld1q_f32(p);
}

V_INLINE vq q_fma(vq a, vq b, vq c)
{
    return vfmaq_f32(c, a, b);
}

V_INLINE vf v_load_quads(const float *const *rows)
{
    return vld1q_f32(rows[0]);
}

V_INLINE void v_transpose_quads(vf a[4])
{
    float32x4x2_t row01 = vtrnq_f32(a[0], a[1]);
    float32x4x2_t row23 = vtrnq_f32(a[2], a[3]);
    a[0] = vcombine_f32(vget_low_f32(row01.val[0]), vget_low_f32(row23.val[0]));
    a[1] = vcombine_f32(vget_low_f32(row01.val[1]), vget_low_f32(row23.val[1]));
    a[2] = vcombine_f32(vget_high_f32(row01.val[0]), vget_high_f32(row23.val[0]));
    a[3] = vcombine_f32(vget_high_f32(row01.val[1]), vget_high_f32(row23.val[1]));
}

V_INLINE void v_transpose_fours(vf a[1])
{
    (void)a;
}

#define DW 2
typedef double vd __attribute__((vector_size(8 * DW)));

V_INLINE vd d_fma(vd a, vd b, vd c)
{
    return (vd)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}

typedef uint64_t vu __attribute__((vector_size(8 * DW)));

V_INLINE vu u_mul(vu a, vu b)
{
    return (vu)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
}

#include "kernels/vector_random.h"
#include "kernels/vector_solve.h"
#include "kernels/vector_tiles.h"

const xsmi_kernels xsmi_kernels_neon = XSMI_KERNELS("neon");
