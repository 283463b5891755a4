/*
 * Solving the implicit step's equation: Newton's method on u and all c_k at once, several equations side by side (a
 * kernel), or where that does not converge Halley's method on u alone, kept inside a bracket; or the paper's bisection.
 *
 * The kernel solves the equations in the form without omega,
 *     C(u) - sum_k c_k = 0,    log(q_k c_k) + q_k c_k + q_y sum_j c_j + u - level_k = 0,
 * whose matrix is a diagonal with a border. An iteration takes one logarithm a class and one exponential, all
 * independent.
 */
#include "math/proximal.h"

#include "math/omega.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

/* F and its first two derivatives at one u. */
typedef struct point {
    double value, slope, bend;
    double shift; /* q_y C(u) + u, which is subtracted from the arguments of omega */
    double pace;  /* its derivative, at least 1 */
    double noise; /* rounding error of value */
} point;

/* omega(t), given that omega(t - rise) = last. */
static double follow(double last, double t, double rise)
{
    double w = last * (1 + rise / (1 + last));
    if (w > 0.2 * last && w < 5 * last && last > 1e-280) {
        for (int i = 0; i < 3; i++) {
            double r = t - w - log(w);
            w = xsmi_omega_improve(w, r);
            if (fabs(r) < 1e-3) {
                return w; /* the error was below 1e-3 and is raised to the fourth power */
            }
        }
    }
    return xsmi_omega(t);
}

/* Evaluates F at u. With `near`, the c_k are those at a point with the shift near->shift, and each omega starts from
 * there. */
static point evaluate(xsmi_proximal *p, double u, const point *near)
{
    double decline = expm1(-u);
    double total = -p->eta * decline + (u - p->u_old);
    double rise = p->eta * (1 + decline) + 1; /* C'(u) */
    double arch = p->eta * (1 + decline);     /* -C''(u) */
    double pace = p->q_y * rise + 1;
    point at = {0, 0, 0, p->q_y * total + u, pace, 0};
    double sum = 0, fall = 0, curve = 0;
    for (uint32_t k = 0; k < p->count; k++) {
        double t = p->level[k] - at.shift;
        double w = near ? follow(p->c[k] * p->q[k], t, near->shift - at.shift) : xsmi_omega(t);
        double c = w / p->q[k], w1 = 1 + w;
        p->c[k] = c;
        sum += c;
        fall += c / w1; /* omega' = omega/(1+omega), omega'' = omega/(1+omega)^3 */
        curve += c / w1 * (pace * pace / (w1 * w1) + p->q_y * arch);
    }
    at.value = total - sum;
    at.noise = 4 * DBL_EPSILON * (p->u_old + u - p->eta * decline + sum);
    at.slope = rise + fall * pace;
    at.bend = -arch - curve;
    return at;
}

double xsmi_proximal_solve(xsmi_proximal *p, int32_t solver, double tolerance)
{
    double low = 0, high = INFINITY; /* F(0) <= 0 because u_old >= 0 */
    double u = p->u_old;
    point at = evaluate(p, u, NULL);
    for (int i = 0; i < 400; i++) {
        /* Since F rises at least as fast as u, the root lies between u and u - F(u). So every evaluation bounds it on
         * both sides. */
        if (fabs(at.value) <= at.noise) {
            break;
        }
        double other = u - at.value - copysign(at.noise, at.value);
        low = fmax(low, at.value > 0 ? other : u);
        high = fmin(high, at.value > 0 ? u : other);
        double next;
        if (solver == XSMI_SOLVER_BISECTION) {
            if ((high - low) * at.pace <= tolerance) {
                break;
            }
            next = 0.5 * (low + high);
        } else {
            if (fabs(at.value) * at.pace <= tolerance * at.slope) {
                break;
            }
            double divisor = at.slope - 0.5 * at.value * at.bend / at.slope;
            next = u - at.value / fmax(divisor, 0.3 * at.slope);
            if (!(next > low && next < high)) {
                next = 0.5 * (low + high);
            }
        }
        if (next <= low || next >= high) {
            break; /* the bracket cannot become narrower in double precision */
        }
        u = next;
        at = evaluate(p, u, &at);
    }
    return u;
}

void xsmi_proximal_solve_lanes(const xsmi_kernels *kernels, const xsmi_equations *e, int32_t solver, double *scratch)
{
    const size_t stride = XSMI_SOLVE_LANES, count = e->count;
    uint32_t solved = solver == XSMI_SOLVER_NEWTON && count > 0 ? kernels->solve(e) : 0;
    double *level = scratch, *q = scratch + count, *c = scratch + 2 * count;
    for (size_t l = 0; l < e->lanes; l++) {
        if (solved >> l & 1) {
            continue;
        }
        xsmi_proximal one = {e->eta, e->u_old[l], e->q_y[l], (uint32_t)count, level, q, c};
        for (size_t k = 0; k < count; k++) {
            /* One logarithm, unless the product is outside of the normal numbers. */
            q[k] = e->q[k * stride + l];
            double product = q[k] * e->rate;
            double log_product = product > DBL_MIN && product < DBL_MAX ? log(product) : log(q[k]) + log(e->rate);
            level[k] = log_product + e->margin[k * stride + l];
        }
        e->u[l] = xsmi_proximal_solve(&one, solver, e->tolerance);
        for (size_t k = 0; k < count; k++) {
            e->c[k * stride + l] = c[k];
        }
    }
}
