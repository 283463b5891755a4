/*
 * What the files of checkkernels share: the tables, test data (checkkernels_arrays.c), and the lists of tests.
 */
#ifndef CHECKKERNELS_H
#define CHECKKERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* Every table that was built, the scalar one first; ends with NULL. */
extern const xsmi_kernels *const check_tables[];

/* Whether this machine can run it. */
bool check_available(const xsmi_kernels *k);

/* The table under test; the test is skipped where the processor cannot run it. Restarts the random numbers. */
const xsmi_kernels *check_table(void **state);

typedef struct named_test {
    const char *name;
    void (*run)(void **state);
} named_test;

/* For every table; each ends with a NULL name. */
extern const named_test row_tests[];
extern const named_test tile_tests[];
extern const named_test narrow_tests[];
extern const named_test solve_tests[];

/* -- sizes and values ---------------------------------------------------------------------------------- */

/* Every size below SHORT_SIZES, then some longer ones. */
#define SHORT_SIZES 258
#define SIZES (SHORT_SIZES + 9)
size_t size_at(size_t k);

/* COARSE has many equal values, WIDE reaches from subnormals to 1e4, SPECIAL sprinkles NaN and infinities. */
typedef enum { PLAIN, COARSE, WIDE, SPECIAL, KINDS } kind;

void random_restart(void);
uint32_t random_bits(void);
uint32_t random_below(uint32_t n);
float random_unit(void); /* in [-1, 1) */
float random_value(kind k);

/* -- arrays with fences -------------------------------------------------------------------------------- */

typedef struct array {
    char *pages;
    size_t bytes; /* without the fence */
    float *at;    /* the floats in use: they end at the fence */
    size_t n;
} array;

void array_open(array *a, size_t most);
void array_close(array *a);
/* Places n floats at the fence, or `slack` floats before it, and fills them; the guard too. */
float *array_fill(array *a, size_t n, size_t slack, kind k);
/* Makes `a` what `from` is, guard included. */
float *array_copy(array *a, const array *from);

/* Bit for bit; NaNs compare equal whatever their bits. */
void expect_floats(const float *got, const float *want, size_t n, const char *what, size_t size);
void expect_float(float got, float want, const char *what, size_t size);
/* The whole of two arrays, guards included. */
void expect_arrays(const array *got, const array *want, const char *what, size_t size);

/* -- reductions ---------------------------------------------------------------------------------------- */

#define MOST_TOP 33

typedef struct reduction_arrays {
    xsmi_reduction r;
    float max[XSMI_LANES];
    double sum[XSMI_LANES];
    float top_score[(MOST_TOP + 1) * XSMI_LANES];
    uint32_t top_class[(MOST_TOP + 1) * XSMI_LANES];
    float target_score[XSMI_LANES];
} reduction_arrays;

/* Clears everything to a pattern, then starts the reduction. */
void reduction_open(reduction_arrays *a, uint32_t top, const uint32_t *target);

/* -- the benchmark ------------------------------------------------------------------------------------- */

/* Prints the benchmark's table; returns main's result. */
int check_bench(void);

#endif
