/*
 * OpenBLAS, loaded at run time: the product of a batch and all weights, for comparison with exact scoring.
 */
#ifndef BENCH_BLAS_H
#define BENCH_BLAS_H

#include <stddef.h>
#include <stdint.h>

typedef struct blas {
    void *library;
    /* cblas_sgemm(); NULL if there is no OpenBLAS */
    void (*multiply)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                     const float *b, int ldb, float beta, float *c, int ldc);
    float *a, *b, *c; /* [rows][features], [classes][features], [rows][classes] */
    size_t rows, classes, features;
} blas;

/* Loads OpenBLAS with its kernels for the instruction set `set`, and makes matrices with values between -0.5 and 0.5.
 * OpenBLAS selects its kernels once per process: all calls must name the same set. */
blas blas_new(const char *set, uint32_t threads, size_t rows, size_t classes, size_t features);
void blas_free(blas *b);
/* Multiplies once; returns floating-point operations a second. */
double blas_rate(void *state);

#endif
