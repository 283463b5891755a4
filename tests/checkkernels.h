/*
 * What the two halves of checkkernels, tests and benchmark, share.
 */
#ifndef CHECKKERNELS_H
#define CHECKKERNELS_H

#include <stdbool.h>

#include "kernels/kernels.h"

/* Every table that was built, the scalar one first; ends with NULL. */
extern const xsmi_kernels *const check_tables[];

/* Whether this machine can run it. */
bool check_available(const xsmi_kernels *k);

/* Prints the benchmark's table; returns main's result. */
int check_bench(void);

#endif
