/*
 * Datasets to measure on.
 */
#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include "bench.h"

typedef struct bench_random {
    uint64_t state; /* never 0 */
} bench_random;

/* xorshift64*: S. Vigna, An experimental exploration of Marsaglia's xorshift generators, scrambled, 2016. */
static inline uint64_t bench_next(bench_random *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * UINT64_C(0x2545f4914f6cdd1d);
}

/* A number below n, n < 2^32; uniform enough for measurements. */
static inline uint64_t bench_below(bench_random *r, uint64_t n)
{
    return (bench_next(r) >> 32) * n >> 32;
}

/* In [-1, 1). */
static inline float bench_uniform(bench_random *r)
{
    return (float)(int64_t)bench_next(r) * 0x1p-63f;
}

/* Dense rows of length about 1, with a class each, all equally likely. */
xsm_dataset *bench_dense(xsm_context *ctx, uint64_t rows, uint32_t features, uint32_t classes);
/* Bibtex as in the papers (first label, classes that occur, unit rows), or data of the same shape if it is not
 * installed; *note says which. */
xsm_dataset *bench_bibtex(xsm_context *ctx, const char **note);
/* Text of the same shape as Bibtex's, in the Extreme Classification format; free() it. */
char *bench_bibtex_text(uint64_t rows, size_t *length);

#endif
