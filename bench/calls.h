/*
 * Shared by the programs that time single calls: a clock, random numbers, memory, options that are numbers, and the
 * end of a program that cannot go on. Its message begins with the program's name.
 */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <xsoftmax.h>

/* Seconds of a monotonic clock. */
static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* In [0, 1). */
static inline double uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

static inline void check(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, err->message);
        exit(1);
    }
}

/* Zeros, which the caller frees with free(). Never NULL. */
static inline void *memory(size_t count, size_t each)
{
    void *bytes = calloc(count, each);
    if (!bytes) {
        fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
        exit(1);
    }
    return bytes;
}

/* Two doubles, for qsort(). */
static inline int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value of an option, from 1 to `most`; text may be NULL. */
static inline uint32_t number(const char *text, const char *flag, uint32_t most)
{
    char *end;
    const unsigned long value = text ? strtoul(text, &end, 10) : 0;
    if (!text || *end || value < 1 || value > most) {
        fprintf(stderr, "%s: %s takes a number from 1 to %u\n", program_invocation_short_name, flag, most);
        exit(2);
    }
    return (uint32_t)value;
}

#endif
