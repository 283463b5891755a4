/*
 * Ceilings to compare kernels with, measured in the same run: fused multiply-adds on registers only, and plain passes
 * over memory. One set of loops per instruction set; the library is not used.
 */
#ifndef PEAK_H
#define PEAK_H

#include <stddef.h>
#include <stdint.h>

typedef struct peak_loops {
    const char *name; /* the name of the kernel table */
    /* Floating-point operations in a round of fma(). */
    double fma_operations;
    float (*fma)(size_t rounds);
    /* Operations of the sums in a round of block(), 2 for each multiply-add. */
    double block_operations;
    /* What full scoring must do at least, with its numbers in the first cache and its sums in registers: in each round
     * the sums of PEAK_FEATURES products of three classes and four vectors of rows, and then ten fused multiply-adds
     * for each sum, as many as an exponential of it takes. NULL for AVX-512. */
    float (*block)(size_t rounds);
    /* Reads n floats, 64-byte aligned, n a multiple of 64. */
    float (*read)(const float *x, size_t n);
    /* Reads and writes them. */
    void (*update)(float *x, size_t n);
    /* For the rows list[0..count) of w, each n floats (a multiple of 64): prefetches upcoming rows, multiplies each
     * with x, and adds a little of x. */
    void (*rows)(float *w, const uint32_t *list, size_t count, const float *x, size_t n);
    /* The same with x = row reads[i/2] of `matrix` for the i-th row, prefetched as well. */
    void (*pairs)(float *w, const uint32_t *list, size_t count, const float *matrix, const uint32_t *reads, size_t n);
    /* The least that steps with two classes each must do, in blocks of PEAK_STEPS (count a multiple of twice as many):
     * scores rows 2s and 2s+1 of the list with row reads[s] of `matrix`, computes coefficients with an exponential and
     * a logarithm, and changes both rows. The next block's rows are prefetched evenly. */
    void (*steps)(float *w, const uint32_t *list, size_t count, const float *matrix, const uint32_t *reads, size_t n);
} peak_loops;

/* The loops for a kernel table's name, or NULL. They run on the same processors as the table. */
const peak_loops *peak_find(const char *name);

#define PEAK_STEPS 8
/* Features of a product of block(). */
#define PEAK_FEATURES 512

/* Seconds of a monotonic clock. */
double peak_clock(void);

#endif
