/*
 * The kernels on an example's drawn classes, over the vectors of vector_solve.h: numbers in double precision beside
 * those in single precision.
 */
#ifndef XSMI_VECTOR_DRAWS_H
#define XSMI_VECTOR_DRAWS_H

#include "kernels/arithmetic.h"
#include "kernels/vector_solve.h"

/* As many floats, or counts, as a vector has doubles. */
typedef float vh __attribute__((vector_size(4 * DW)));
typedef int32_t vc __attribute__((vector_size(4 * DW)));

static void row_subtract(const float *z, const double *less, size_t n, float *out)
{
    size_t j = 0;
    for (; j + DW <= n; j += DW) {
        vh narrow;
        vd wide;
        __builtin_memcpy(&narrow, z + j, sizeof narrow);
        __builtin_memcpy(&wide, less + j, sizeof wide);
        const vh difference = __builtin_convertvector(__builtin_convertvector(narrow, vd) - wide, vh);
        __builtin_memcpy(out + j, &difference, sizeof difference);
    }
    for (; j < n; j++) {
        out[j] = (float)((double)z[j] - less[j]);
    }
}

static double row_multiply_sum(float *y, const uint32_t *counts, size_t n)
{
    vd sums[XSMI_DRAW_PARTIALS / DW] = {{0}};
    double partial[XSMI_DRAW_PARTIALS];
    size_t j = 0;
    for (; j + XSMI_DRAW_PARTIALS <= n; j += XSMI_DRAW_PARTIALS) {
        for (size_t v = 0; v < XSMI_DRAW_PARTIALS / DW; v++) {
            vh product;
            vc count;
            __builtin_memcpy(&product, y + j + v * DW, sizeof product);
            __builtin_memcpy(&count, counts + j + v * DW, sizeof count);
            product *= __builtin_convertvector(count, vh);
            __builtin_memcpy(y + j + v * DW, &product, sizeof product);
            sums[v] += __builtin_convertvector(product, vd);
        }
    }
    __builtin_memcpy(partial, sums, sizeof partial);
    for (size_t p = 0; j < n; j++, p++) {
        y[j] *= (float)(int32_t)counts[j];
        partial[p] += (double)y[j];
    }
    return xsmi_join_draws(partial);
}

#endif
