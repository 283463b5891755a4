/*
 * Small dense linear algebra in double precision, in one fixed order of operations: eigenvectors of a symmetric matrix,
 * orthonormal bases of a few long vectors.
 */
#ifndef XSMI_SYMMETRIC_H
#define XSMI_SYMMETRIC_H

#include <stdbool.h>
#include <stddef.h>

/* Eigenvalues, falling, and eigenvectors of a symmetric matrix a [n][n] (destroyed) by cyclic Jacobi rotations (Golub
 * and Van Loan, Matrix Computations, section 8.5). vectors[i*n + j] is component j of vector i, the largest component
 * of each (the first of equal ones) above 0. O(n^3) a sweep, about 8 sweeps. */
void xsmi_symmetric_eigen(double *a, size_t n, double *values, double *vectors);

/* Makes vectors v [count][d] orthonormal in their order by Gram-Schmidt, twice for each. A vector that depends on those
 * before it becomes zero. Calls goes_on(state) before each vector, and stops when that returns false. O(count^2 d). */
void xsmi_orthonormalise(double *v, size_t count, size_t d, bool (*goes_on)(void *), void *state);

#endif
