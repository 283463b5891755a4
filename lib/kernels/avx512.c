/*
 * AVX-512 (F, BW, DQ, VL): 16 floats a vector, 32 vectors, masks for the rest of a row.
 */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define VW 16
#define ROWS 4
#define RANK_VECTORS 2
#define BLOCK_VECTORS 2
#define BLOCK_CLASSES(vectors) 14
#define BLOCK_MOST 14
#define NARROW_GROUPS 3

typedef __m512 vf;
typedef __mmask16 vm;

#define V_INLINE static inline __attribute__((always_inline))

V_INLINE vm m_first(size_t n)
{
    return (vm)((1u << n) - 1);
}

V_INLINE vf v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

V_INLINE void v_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}

V_INLINE vf v_load_first(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(m_first(n), p);
}

V_INLINE void v_store_first(float *p, vf a, size_t n)
{
    _mm512_mask_storeu_ps(p, m_first(n), a);
}

V_INLINE vf v_set(float a)
{
    return _mm512_set1_ps(a);
}

V_INLINE vf v_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}

V_INLINE vf v_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

V_INLINE vf v_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

V_INLINE float v_most(vf a)
{
    return _mm512_reduce_max_ps(a);
}

V_INLINE vf v_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

V_INLINE vm m_less(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

V_INLINE vm m_unordered(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
}

V_INLINE vm m_or(vm a, vm b)
{
    return (vm)(a | b);
}

V_INLINE vm m_lanes(uint32_t bits)
{
    return (vm)bits;
}

V_INLINE uint32_t m_bits(vm a)
{
    return a;
}

V_INLINE int m_any(vm a)
{
    return a != 0;
}

V_INLINE vf v_select(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

V_INLINE float v_join(const vf a[1])
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a[0]), _mm512_extractf32x8_ps(a[0], 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

/* The instruction takes signed indexes, so half the range is subtracted from them and added to the base. */
V_INLINE vf v_gather(const float *p, const uint32_t *index)
{
    const uintptr_t half = (uintptr_t)1 << 31;
    __m512i at = _mm512_xor_si512(_mm512_loadu_si512(index), _mm512_set1_epi32(INT32_MIN));
    return _mm512_i32gather_ps(at, (const void *)((uintptr_t)p + half * sizeof(float)), sizeof(float));
}

V_INLINE vf v_load_bfloat16(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), 16));
}

V_INLINE vf v_load_int8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
}

typedef __m128 vq;

V_INLINE vq q_load(const float *p)
{
    return _mm_loadu_ps(p);
}

V_INLINE vq q_fma(vq a, vq b, vq c)
{
    return _mm_fmadd_ps(a, b, c);
}

V_INLINE vf v_load_quads(const float *const *rows)
{
    vf a = _mm512_castps128_ps512(_mm_loadu_ps(rows[0]));
    a = _mm512_insertf32x4(a, _mm_loadu_ps(rows[4]), 1);
    a = _mm512_insertf32x4(a, _mm_loadu_ps(rows[8]), 2);
    return _mm512_insertf32x4(a, _mm_loadu_ps(rows[12]), 3);
}

V_INLINE void v_transpose_quads(vf a[4])
{
    vf low01 = _mm512_unpacklo_ps(a[0], a[1]);
    vf low23 = _mm512_unpacklo_ps(a[2], a[3]);
    vf high01 = _mm512_unpackhi_ps(a[0], a[1]);
    vf high23 = _mm512_unpackhi_ps(a[2], a[3]);
    a[0] = _mm512_shuffle_ps(low01, low23, _MM_SHUFFLE(1, 0, 1, 0));
    a[1] = _mm512_shuffle_ps(low01, low23, _MM_SHUFFLE(3, 2, 3, 2));
    a[2] = _mm512_shuffle_ps(high01, high23, _MM_SHUFFLE(1, 0, 1, 0));
    a[3] = _mm512_shuffle_ps(high01, high23, _MM_SHUFFLE(3, 2, 3, 2));
}

V_INLINE void v_transpose_fours(vf a[4])
{
    vf low01 = _mm512_shuffle_f32x4(a[0], a[1], _MM_SHUFFLE(2, 0, 2, 0));
    vf low23 = _mm512_shuffle_f32x4(a[2], a[3], _MM_SHUFFLE(2, 0, 2, 0));
    vf high01 = _mm512_shuffle_f32x4(a[0], a[1], _MM_SHUFFLE(3, 1, 3, 1));
    vf high23 = _mm512_shuffle_f32x4(a[2], a[3], _MM_SHUFFLE(3, 1, 3, 1));
    a[0] = _mm512_shuffle_f32x4(low01, low23, _MM_SHUFFLE(2, 0, 2, 0));
    a[1] = _mm512_shuffle_f32x4(high01, high23, _MM_SHUFFLE(2, 0, 2, 0));
    a[2] = _mm512_shuffle_f32x4(low01, low23, _MM_SHUFFLE(3, 1, 3, 1));
    a[3] = _mm512_shuffle_f32x4(high01, high23, _MM_SHUFFLE(3, 1, 3, 1));
}

#define DW 8
typedef double vd __attribute__((vector_size(8 * DW)));

V_INLINE vd d_fma(vd a, vd b, vd c)
{
    return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}

typedef uint64_t vu __attribute__((vector_size(8 * DW)));

V_INLINE vu u_mul(vu a, vu b)
{
    return (vu)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}

#include "kernels/vector_random.h"
#include "kernels/vector_solve.h"
#include "kernels/vector_tiles.h"

const xsmi_kernels xsmi_kernels_avx512 = XSMI_KERNELS("avx512");
