/*
 * The one-dimensional equation of an implicit step on the double sum (derived in methods/implicit.c).
 */
#ifndef XSMI_PROXIMAL_H
#define XSMI_PROXIMAL_H

#include "kernels/kernels.h"

#include <stdint.h>

enum { XSMI_SOLVER_NEWTON = 0, XSMI_SOLVER_BISECTION = 1 };

/* F(u) = C(u) - sum_k c_k(u), C(u) = eta (1 - e^-u) + u - u_old, c_k(u) = omega(level_k - q_y C(u) - u) / q_k. F rises;
 * its root is the new u, at least 0 when u_old is. */
typedef struct xsmi_proximal {
    double eta, u_old, q_y;
    uint32_t count;      /* sampled classes */
    const double *level; /* [count] log(q_k A) + a_k - a_y */
    const double *q;     /* [count] above 0 */
    double *c;           /* [count] result: c_k at the root */
} xsmi_proximal;

/* Solves until the arguments of omega are right to `tolerance`; u then has this absolute error and each c_k this
 * relative error. Returns u and sets the c_k. Cannot fail on finite input. */
double xsmi_proximal_solve(xsmi_proximal *p, int32_t solver, double tolerance);
/* Solves equations side by side, level_k being log(q_k rate) + margin_k, to e->tolerance, as above. The results of each
 * equation have the same bits whatever it is solved with. e->count may be 0. scratch: [3*count]. */
void xsmi_proximal_solve_lanes(const xsmi_kernels *kernels, const xsmi_equations *e, int32_t solver, double *scratch);

#endif
