/*
 * AVX2 with FMA: 8 floats a vector, 16 vectors.
 */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define VW 8
#define ROWS 1
#define RANK_VECTORS 4
/* Twelve accumulators: enough for two units of latency 4 or 5, and four registers for the operands. */
#define BLOCK_VECTORS 4
#define BLOCK_CLASSES(vectors) (12 / (vectors))
#define BLOCK_MOST 12
#define NARROW_GROUPS 2

typedef __m256 vf;
typedef __m256 vm;

#define V_INLINE static inline __attribute__((always_inline))

V_INLINE __m256i first_lanes(size_t n)
{
    static const int32_t lanes[2 * VW] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const void *)(lanes + VW - n));
}

V_INLINE vm m_first(size_t n)
{
    return _mm256_castsi256_ps(first_lanes(n));
}

V_INLINE vf v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

V_INLINE void v_store(float *p, vf a)
{
    _mm256_storeu_ps(p, a);
}

V_INLINE vf v_load_first(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, first_lanes(n));
}

V_INLINE void v_store_first(float *p, vf a, size_t n)
{
    _mm256_maskstore_ps(p, first_lanes(n), a);
}

V_INLINE vf v_set(float a)
{
    return _mm256_set1_ps(a);
}

V_INLINE vf v_sqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}

V_INLINE vf v_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

V_INLINE vf v_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

V_INLINE float v_most(vf a)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

V_INLINE vf v_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

V_INLINE vm m_less(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

V_INLINE vm m_unordered(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_UNORD_Q);
}

V_INLINE vm m_or(vm a, vm b)
{
    return _mm256_or_ps(a, b);
}

V_INLINE vm m_lanes(uint32_t bits)
{
    const __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int32_t)bits), each), each));
}

V_INLINE uint32_t m_bits(vm a)
{
    return (uint32_t)_mm256_movemask_ps(a);
}

V_INLINE int m_any(vm a)
{
    return _mm256_movemask_ps(a) != 0;
}

V_INLINE vf v_select(vm m, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, m);
}

V_INLINE float v_join(const vf a[2])
{
    vf b = _mm256_add_ps(a[0], a[1]);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

/* The instruction takes signed indexes, so half the range is subtracted from them and added to the base. */
V_INLINE vf v_gather(const float *p, const uint32_t *index)
{
    const uintptr_t half = (uintptr_t)1 << 31;
    __m256i at = _mm256_xor_si256(_mm256_loadu_si256((const void *)index), _mm256_set1_epi32(INT32_MIN));
    return _mm256_i32gather_ps((const float *)((uintptr_t)p + half * sizeof(float)), at, sizeof(float));
}

V_INLINE vf v_load_bfloat16(const uint16_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16));
}

V_INLINE vf v_load_int8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
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
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(rows[0])), _mm_loadu_ps(rows[4]), 1);
}

V_INLINE void v_transpose_quads(vf a[4])
{
    vf low01 = _mm256_unpacklo_ps(a[0], a[1]);
    vf low23 = _mm256_unpacklo_ps(a[2], a[3]);
    vf high01 = _mm256_unpackhi_ps(a[0], a[1]);
    vf high23 = _mm256_unpackhi_ps(a[2], a[3]);
    a[0] = _mm256_shuffle_ps(low01, low23, _MM_SHUFFLE(1, 0, 1, 0));
    a[1] = _mm256_shuffle_ps(low01, low23, _MM_SHUFFLE(3, 2, 3, 2));
    a[2] = _mm256_shuffle_ps(high01, high23, _MM_SHUFFLE(1, 0, 1, 0));
    a[3] = _mm256_shuffle_ps(high01, high23, _MM_SHUFFLE(3, 2, 3, 2));
}

V_INLINE void v_transpose_fours(vf a[2])
{
    vf low = _mm256_permute2f128_ps(a[0], a[1], 0x20);
    a[1] = _mm256_permute2f128_ps(a[0], a[1], 0x31);
    a[0] = low;
}

#define DW 4
typedef double vd __attribute__((vector_size(8 * DW)));

V_INLINE vd d_fma(vd a, vd b, vd c)
{
    return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}

typedef uint64_t vu __attribute__((vector_size(8 * DW)));

V_INLINE vu u_mul(vu a, vu b)
{
    return (vu)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}

#include "kernels/vector_random.h"
#include "kernels/vector_solve.h"
#include "kernels/vector_tiles.h"

const xsmi_kernels xsmi_kernels_avx2 = XSMI_KERNELS("avx2");
