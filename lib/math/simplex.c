/*
 * The bi-simplex projection of Yen, Huang, Zhong, Ravikumar and Dhillon (PD-Sparse, 2016; Yen et al. 2018, eq. 11):
 * alpha = ([b - t_b]_+, -[c - t_c]_+) where, with B(t) = sum w [b - t]_+, C(t) = sum w [c - t]_+ and b shifted by s,
 *     both sums are 1                         if then t_b + s + t_c >= 0,
 *     alpha = 0                               if max b + s + max c <= 0,
 *     t_c = -t_b - s and B(t_b) = C(-t_b - s) otherwise.
 * Each case is the root of a falling piecewise linear function. A bracket is narrowed alternately by a pivot among the
 * corners in it and by its middle, so that no list is slow. Corners outside of it are kept as sums. Nothing is sorted.
 */
#include "math/simplex.h"

#include "base/order.h"

#include <math.h>
#include <stdbool.h>

/* A corner: a point of b contributes below `at`, a point of c (at = -c) above. */
typedef struct corners {
    double *at, *weight;
    size_t count;
} corners;

/* F(t) = sum w [b - t]_+ - sum w [t - at]_+ - target over all corners: b and c in the bracket, and sums over those
 * outside. */
typedef struct falling {
    corners b, c;
    double b_weight, b_sum; /* points of b above the bracket: sum w, sum w b */
    double c_weight, c_sum; /* points of c whose corner is below it: sum w, sum w at */
    double target;
} falling;

static double value_at(const falling *f, double t)
{
    double value = f->b_sum - f->b_weight * t - (f->c_weight * t - f->c_sum) - f->target;
    for (size_t i = 0; i < f->b.count; i++) {
        double part = f->b.at[i] - t;
        value += part > 0 ? f->b.weight[i] * part : 0;
    }
    for (size_t i = 0; i < f->c.count; i++) {
        double part = t - f->c.at[i];
        value -= part > 0 ? f->c.weight[i] * part : 0;
    }
    return value;
}

static double middle_of(double a, double b, double c)
{
    double low = fmin(a, b), high = fmax(a, b);
    return XSMI_CLAMP(c, low, high);
}

/* Returns a corner in the bracket near the median. */
static double pivot_of(const falling *f)
{
    const corners *of = f->b.count >= f->c.count ? &f->b : &f->c;
    return middle_of(of->at[0], of->at[of->count / 2], of->at[of->count - 1]);
}

/* Keeps the corners strictly between low and high. */
static void narrow(falling *f, double low, double high)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->b.count; i++) {
        double at = f->b.at[i], weight = f->b.weight[i];
        if (at >= high) {
            f->b_weight += weight;
            f->b_sum += weight * at;
        } else if (at > low) {
            f->b.at[kept] = at;
            f->b.weight[kept++] = weight;
        }
    }
    f->b.count = kept;
    kept = 0;
    for (size_t i = 0; i < f->c.count; i++) {
        double at = f->c.at[i], weight = f->c.weight[i];
        if (at <= low) {
            f->c_weight += weight;
            f->c_sum += weight * at;
        } else if (at < high) {
            f->c.at[kept] = at;
            f->c.weight[kept++] = weight;
        }
    }
    f->c.count = kept;
}

/* Returns the root of F in [low, high], where F(low) >= 0 >= F(high). */
static double root_of(falling *f, double low, double high)
{
    narrow(f, low, high);
    for (bool halve = false; f->b.count + f->c.count > 0; halve = !halve) {
        double half = low + (high - low) / 2;
        double t = halve && half > low && half < high ? half : pivot_of(f);
        double value = value_at(f, t);
        if (value > 0) {
            low = t;
        } else if (value < 0) {
            high = t;
        } else {
            return t;
        }
        narrow(f, low, high);
    }
    double slope = f->b_weight + f->c_weight;
    double t = slope > 0 ? (f->b_sum + f->c_sum - f->target) / slope : low;
    return XSMI_CLAMP(t, low, high);
}

static void copy_points(const xsmi_points *p, double sign, double shift, corners *to, double *scratch)
{
    to->at = scratch;
    to->weight = scratch + p->count;
    to->count = p->count;
    for (size_t i = 0; i < p->count; i++) {
        to->at[i] = sign * p->value[i] + shift;
        to->weight[i] = p->weight ? p->weight[i] : 1;
    }
}

static double largest(const xsmi_points *p)
{
    double most = p->value[0];
    for (size_t i = 1; i < p->count; i++) {
        most = XSMI_MAX(p->value[i], most);
    }
    return most;
}

/* Passes before a list counts as a slow one. */
#define PASSES 40

/* Returns the threshold above which the weighted sum of a list is 1. The threshold of any subset of the points is never
 * above it, so that points below that are dropped, repeatedly, until none is (Michelot 1986). A list that keeps losing
 * few points is left to root_of(). */
static double simplex_threshold(const xsmi_points *p, double most, double *scratch)
{
    falling f = {.b = {scratch, scratch + p->count, 0}, .target = 1};
    double *at = f.b.at, *weight = f.b.weight, low = -1; /* relative to the largest point, whose own threshold is -1 */
    for (size_t i = 0; i < p->count; i++) {
        at[f.b.count] = p->value[i] - most;
        weight[f.b.count] = p->weight ? p->weight[i] : 1;
        f.b.count += at[f.b.count] > low;
    }
    for (int pass = 0; pass < PASSES; pass++) {
        double sums[4] = {0}, totals[4] = {0};
        for (size_t i = 0; i < f.b.count; i++) {
            sums[i % 4] += weight[i] * at[i];
            totals[i % 4] += weight[i];
        }
        double total = (totals[0] + totals[1]) + (totals[2] + totals[3]);
        double threshold = ((sums[0] + sums[1]) + (sums[2] + sums[3]) - 1) / total;
        if (!(threshold > low)) {
            return most + low;
        }
        low = threshold;
        size_t kept = 0;
        for (size_t i = 0; i < f.b.count; i++) {
            at[kept] = at[i];
            weight[kept] = weight[i];
            kept += at[i] > low;
        }
        if (kept == f.b.count) {
            return most + low;
        }
        f.b.count = kept;
    }
    return most + root_of(&f, low, 0);
}

double xsmi_simplex_threshold(const xsmi_points *p, double *scratch)
{
    return simplex_threshold(p, largest(p), scratch);
}

size_t xsmi_bisimplex_scratch(size_t b, size_t c)
{
    return 2 * (b + c);
}

xsmi_bisimplex xsmi_bisimplex_project(const xsmi_points *b, const xsmi_points *c, double shift, double *scratch)
{
    double most_b = largest(b), most_c = largest(c);
    if (most_b + most_c + shift <= 0) {
        return (xsmi_bisimplex){most_b, most_c, 0};
    }
    double t_b = simplex_threshold(b, most_b, scratch), t_c = simplex_threshold(c, most_c, scratch);
    if (t_b + t_c + shift >= 0) {
        return (xsmi_bisimplex){t_b, t_c, 1};
    }
    falling f = {.target = 0};
    copy_points(b, 1, 0, &f.b, scratch);
    copy_points(c, -1, -shift, &f.c, scratch + 2 * b->count);
    /* The sums are below 1: t_b and t_c have grown. */
    double low = -most_c - shift, high = -t_c - shift;
    double t = root_of(&f, XSMI_MAX(t_b, low), XSMI_MIN(high, most_b));
    double sum = 0;
    for (size_t i = 0; i < c->count; i++) {
        double part = c->value[i] + (t + shift);
        sum += part > 0 ? (c->weight ? c->weight[i] : 1) * part : 0;
    }
    return (xsmi_bisimplex){t, -(t + shift), sum};
}
