/*
 * The implicit step on the double sum for several examples at once (derived in methods/implicit.c): a smooth
 * convex problem in the coordinates of the step, solved by libLBFGS.
 */
#ifndef XSMI_PROXIMAL_BATCH_H
#define XSMI_PROXIMAL_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/context.h>

/*
 * With q_i the coordinates of example i, s the weight decay factor of the L2 penalty (ridge), b = 1 with a bias and
 * else 0, and y(i) the index of i's label, finds the p_j (rank numbers and, with a bias, one more) that minimise
 *     1/2 sum_j |p_j|^2 + sum_i v_i h_i(z_i),   z_ij = level_ij - sqrt(s) q_i.p_j - b p_j,rank,
 *     h_i(z) = min_u eta/n (u + e^(T_i - u)) + (u - u_old_i)^2 / 2,   T_i = log(1 + sum_{j != y} e^(z_ij - z_iy) A_j).
 * The u is that of log(eta/n e^(T - u)) = log v, v = omega(log(eta/n) + T - u_old + eta/n): nothing overflows.
 */
typedef struct xsmi_proximal_batch {
    double eta, shrink;
    bool bias;
    size_t examples, classes, rank; /* n, J, r <= n */
    const double *coordinates;      /* [n][r] */
    const double *level;            /* [n][J] */
    const double *log_weight;       /* [J] log A_j */
    const uint32_t *own;            /* [n] y(i) */
    const double *u_old;            /* [n] at least 0 */
    double *u;                      /* [n] result */
    double *pull;               /* [n][J] result: c_ij = v_i dh_i/dz_ij at the solution, which is the step's w_j change
                                   -s sum_i c_ij x_i */
    double *work;               /* xsmi_proximal_batch_work() doubles, aligned to 64 */
    double gap;                 /* result: |p - M'c| / |M'c|, how far the solution is from stationary */
    const double *weight;       /* [n] v_i, at least 0; NULL = 1 each */
    const xsm_context *context; /* polled by xsmi_would_stop(); NULL = the call cannot be cancelled */
    bool stopped;               /* result: the call was cancelled, and the other results are undefined */
} xsmi_proximal_batch;

/* Size of the workspace in doubles; SIZE_MAX when it cannot be addressed. */
size_t xsmi_proximal_batch_work(size_t examples, size_t classes, size_t rank);

enum { XSMI_SOLVED = 0, XSMI_SOLVE_MEMORY = 1 };
/* Solves until `gap` is at most `tolerance`, or no more progress can be made in double precision (see `gap`). Returns
 * XSMI_SOLVE_MEMORY when libLBFGS gets no memory, else XSMI_SOLVED. */
int xsmi_proximal_batch_solve(xsmi_proximal_batch *p, double tolerance);

#endif
