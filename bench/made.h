/*
 * What the generators of labelled rows share: random numbers that depend on seed, part and row alone, draws by weight,
 * and words NAME=NUMBER.
 */
#ifndef BENCH_MADE_H
#define BENCH_MADE_H

#include <stddef.h>
#include <stdint.h>

/* What a stream of random numbers is for: classes, or rows of a part. */
enum { MADE_CLASSES, MADE_TRAIN, MADE_TEST };

/* The state at the start of stream `index` of a kind. */
uint64_t made_stream(double seed, uint64_t kind, uint64_t index);
/* 64 random bits (splitmix64). */
uint64_t made_bits(uint64_t *state);
/* In [0, 1). */
double made_uniform(uint64_t *state);
/* Below n, which is at most 2^32 - 1. */
uint32_t made_below(uint64_t *state, uint32_t n);
/* An index below count, with probability proportional to its weight; reach[i] are the weights up to i, added up. */
uint32_t made_draw(uint64_t *state, const double *reach, uint32_t count);
/* For qsort() of uint32_t. */
int made_rising(const void *a, const void *b);

typedef struct made_number {
    const char *name;
    double *value, least, most;
} made_number;

/* Reads the words from argv[2] on; prints what is accepted, and returns 0, if one is not. */
int made_read(int argc, char **argv, const char *program, const made_number *numbers, size_t count);

#endif
