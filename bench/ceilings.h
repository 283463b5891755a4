/*
 * Ceilings on several threads, from the loops of bench/peak/: the speed of the machine at this moment, without the
 * library.
 */
#ifndef BENCH_CEILINGS_H
#define BENCH_CEILINGS_H

#include <stddef.h>

#include "bench.h"
#include "data.h"
#include "peak.h"

/* Rows of x, 32 MB of 512 floats: as many as the examples of the benchmarks of steps. */
#define CEILING_EXAMPLES 16384

typedef struct ceilings {
    const peak_loops *loops; /* of the instruction set that the context uses */
    uint32_t threads;
    /* A matrix of rows in huge pages, and for each thread a random list of rows of its own part. */
    float *rows;
    float *x;               /* [CEILING_EXAMPLES][features] zeros, so that the rows keep their values */
    uint32_t *list, *reads; /* [threads][listed], [threads][listed/2] */
    bench_random random;
    size_t row_count, features, listed;
    bool borrowed; /* the rows */
} ceilings;

/* Makes `row_count` rows of `features` floats; 0 rows: none, for fma() only. `rows` is the matrix, one row after
 * another; NULL: a new matrix is allocated. */
ceilings ceilings_new(uint32_t threads, float *rows, size_t row_count, size_t features);
void ceilings_free(ceilings *c);

/* The state is a `ceilings`. Floating-point operations a second in fused multiply-adds on registers. */
double ceiling_fma(void *state);
/* Operations a second of the sums of full scoring in registers, with the multiply-adds of their exponentials. Not for
 * AVX-512. */
double ceiling_block(void *state);
/* Rows a second that are chosen at random, prefetched, multiplied with x, and changed. */
double ceiling_rows(void *state);
/* The same, with another row of x for every two of them, chosen at random and read: the memory traffic of a step with
 * one example and two classes. */
double ceiling_pairs(void *state);
/* Steps a second with the same traffic that do the least that a step must: scores, coefficients, changed rows. */
double ceiling_steps(void *state);
/* Rows a second that are read and written one after another. */
double ceiling_stream(void *state);
/* Bytes a second that are read one after another. */
double ceiling_read(void *state);

#endif
