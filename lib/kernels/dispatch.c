/*
 * Selects a kernel table at run time. Nothing is cached: a context calls this once and keeps the pointer.
 */
#include "kernels/kernels.h"

#include <math.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* The vector state that the system saves at a context switch (XCR0), which the processor's flags do not show. */
static uint64_t saved_state(void)
{
    uint32_t low;
    uint32_t high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

uint32_t xsmi_cpu_features(void)
{
    const uint64_t ymm_state = 0x06; /* XMM and the upper halves of YMM */
    const uint64_t zmm_state = 0xe6; /* and masks, upper halves of ZMM, ZMM16 to ZMM31 */
    uint32_t a;
    uint32_t b;
    uint32_t c;
    uint32_t d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) {
        return 0;
    }
    if (!(c & bit_OSXSAVE) || !(c & bit_AVX) || !(c & bit_FMA)) {
        return 0;
    }
    uint64_t saved = saved_state();
    if ((saved & ymm_state) != ymm_state || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) {
        return 0;
    }
    uint32_t features = XSMI_CPU_AVX2;
    const uint32_t avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if ((b & avx512) == avx512 && (saved & zmm_state) == zmm_state) {
        features |= XSMI_CPU_AVX512;
    }
    return features;
}
#elif defined(__aarch64__)
uint32_t xsmi_cpu_features(void)
{
    return XSMI_CPU_NEON; /* part of the base instruction set */
}
#else
uint32_t xsmi_cpu_features(void)
{
    return 0;
}
#endif

const xsmi_kernels *xsmi_kernels_select(uint32_t disabled)
{
    uint32_t features = xsmi_cpu_features() & ~disabled;
#if defined(__x86_64__) || defined(__i386__)
    if (features & XSMI_CPU_AVX512) {
        return &xsmi_kernels_avx512;
    }
    if (features & XSMI_CPU_AVX2) {
        return &xsmi_kernels_avx2;
    }
#elif defined(__aarch64__)
    if (features & XSMI_CPU_NEON) {
        return &xsmi_kernels_neon;
    }
#endif
    (void)features;
    return &xsmi_kernels_scalar;
}

void xsmi_reduction_start(xsmi_reduction *r)
{
    for (uint32_t l = 0; l < XSMI_LANES; l++) {
        r->max[l] = -INFINITY;
        r->sum[l] = 0.0;
    }
    for (size_t k = 0; k < (size_t)r->top * XSMI_LANES; k++) {
        r->top_score[k] = -INFINITY;
        r->top_class[k] = XSMI_NO_CLASS;
    }
    if (r->target_score) {
        for (uint32_t l = 0; l < XSMI_LANES; l++) {
            r->target_score[l] = -INFINITY;
        }
    }
}
