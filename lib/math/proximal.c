/*
 * Solving the implicit step's equation: Newton's method on u and all c_k at once, or where that does not converge
 * Halley's method on u alone, kept inside a bracket; or the paper's bisection.
 */
#include "math/proximal.h"

#include "math/omega.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* F and its first two derivatives at one u. */
typedef struct point {
    double value, slope, bend;
    double shift; /* q_y C(u) + u, what the arguments of omega are lowered by */
    double pace;  /* its derivative, at least 1 */
    double noise; /* rounding error of value */
} point;

/* omega(t), where it was `last` at t - rise. */
static double follow(double last, double t, double rise)
{
    double w = last * (1 + rise / (1 + last));
    if (w > 0.2 * last && w < 5 * last && last > 1e-280) {
        for (int i = 0; i < 3; i++) {
            double r = t - w - log(w);
            w = xsmi_omega_improve(w, r);
            if (fabs(r) < 1e-3) {
                return w; /* the error was below 1e-3 and went with its fourth power */
            }
        }
    }
    return xsmi_omega(t);
}

/* Evaluates F at u. With `near`, the c_k are those at a u where the shift was near->shift, and each omega is followed
 * from there. */
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

double xsmi_proximal_value(xsmi_proximal *p, double u)
{
    return evaluate(p, u, NULL).value;
}

/* omega(t) to some ten per cent, for t above -700. */
static double omega_about(double t)
{
    if (t < 1) {
        double e = exp(t);
        return e / (1 + e * (t < -1 ? 1 : 0.75)); /* within 15 per cent of omega */
    }
    double l = log(t);
    return t - l + l / (1 + t);
}

/* What class k's equation below lacks. */
static double residual_at(const xsmi_proximal *p, uint32_t k, double shift)
{
    double w = p->q[k] * p->c[k];
    return log(w) + w + shift - p->level[k];
}

/*
 * Newton's method on the equations as they stand before omega enters,
 *     C(u) - sum_k c_k = 0,    log(q_k c_k) + q_k c_k + q_y sum_j c_j + u - level_k = 0,
 * whose matrix is a diagonal and a border: one logarithm a class and one exponential an iteration, none waiting for
 * another. False when it does not converge at once, or numbers leave the range of floating point.
 */
static bool solve_together(xsmi_proximal *p, double tolerance, double *root)
{
    enum { KEPT = 64 };
    const double log_two = 0.7;
    double kept[KEPT]; /* the first residuals, so that their logarithms are taken once */
    double u = p->u_old;
    for (uint32_t k = 0; k < p->count; k++) {
        /* The start: u stays, and no class pushes but this one. */
        double t = p->level[k] - u + log_two;
        if (!(t > -600 && t < 1e6)) {
            return false;
        }
        p->c[k] = omega_about(t) / (p->q[k] + p->q_y);
    }
    for (int i = 0; i < 12; i++) {
        double decline = expm1(-u);
        double rise = p->eta * (1 + decline) + 1; /* C'(u) */
        double sum = 0, reach = 0, pull = 0;
        for (uint32_t k = 0; k < p->count; k++) {
            sum += p->c[k];
        }
        double gap = u - p->u_old - p->eta * decline - sum;
        double shift = p->q_y * sum + u;
        for (uint32_t k = 0; k < p->count; k++) {
            double slack = p->c[k] / (1 + p->q[k] * p->c[k]);
            double residual = residual_at(p, k, shift);
            if (k < KEPT) {
                kept[k] = residual;
            }
            reach += slack;
            pull += slack * residual;
        }
        double du = -(pull + gap * (1 + p->q_y * reach)) / (rise + reach * (p->q_y * rise + 1));
        double push = p->q_y * (rise * du + gap) + du;
        double largest = fabs(du), bend = 1 + p->q_y * (rise - 1); /* of omega's arguments over u, at most */
        for (uint32_t k = 0; k < p->count; k++) {
            double residual = k < KEPT ? kept[k] : residual_at(p, k, shift);
            double change = -(residual + push) / (1 + p->q[k] * p->c[k]);
            largest = fmax(largest, fabs(change));
            p->c[k] *= change > -0.9 ? 1 + change : 0.1;
        }
        u = u + du > 0 ? u + du : 0;
        if (!(largest < 1e4)) {
            return false;
        }
        if (largest * largest <= tolerance && bend * du * du <= tolerance) {
            *root = u; /* what is left is at most half of each: the method's error goes with the square */
            return true;
        }
    }
    return false;
}

double xsmi_proximal_solve(xsmi_proximal *p, int32_t solver, double tolerance)
{
    double low = 0, high = INFINITY; /* F(0) <= 0 because u_old >= 0 */
    double u = p->u_old;
    if (solver == XSMI_SOLVER_NEWTON && solve_together(p, tolerance, &u)) {
        return u;
    }
    point at = evaluate(p, u, NULL);
    for (int i = 0; i < 400; i++) {
        /* Since F rises at least as fast as u, the root lies between u and u - F(u), whichever way: every evaluation
         * bounds it on both sides. */
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
            break; /* the bracket is as narrow as numbers go */
        }
        u = next;
        at = evaluate(p, u, &at);
    }
    return u;
}
