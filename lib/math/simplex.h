/*
 * Projections onto the simplex and the bi-simplex, of lists in which an entry may stand for many equal ones.
 */
#ifndef XSMI_SIMPLEX_H
#define XSMI_SIMPLEX_H

#include <stddef.h>

/* Weighted points; sum_j weight_j [value_j - t]_+ falls in the threshold t. */
typedef struct xsmi_points {
    const double *value;  /* [count], finite */
    const double *weight; /* [count] above 0, how many equal entries each stands for; NULL = 1 */
    size_t count;
} xsmi_points;

/* A projection: the point nearest to (shift + b, -c) with b-parts [b - t_b]_+ and c-parts -[c - t_c]_+ whose weighted
 * sums are equal and at most 1. */
typedef struct xsmi_bisimplex {
    double t_b, t_c; /* thresholds; if the projection is 0, the largest b and c */
    double sum;      /* of either side, 0 to 1 */
} xsmi_bisimplex;

/* Returns the threshold above which the weighted sum of a list of at least one point is 1; the threshold of a subset is
 * never larger. 2 doubles of scratch a point. */
double xsmi_simplex_threshold(const xsmi_points *p, double *scratch);

/* Doubles of scratch for a projection of that many points. */
size_t xsmi_bisimplex_scratch(size_t b, size_t c);
/* Projects onto C = {alpha >= 0 on b, <= 0 on c, sum over b = -sum over c <= 1}. Both lists must have a point.
 * `scratch` as above. Every list is halved about its median until the thresholds are found: O(b + c) usually; at worst
 * times the logarithm of the ratio of their range to their precision. */
xsmi_bisimplex xsmi_bisimplex_project(const xsmi_points *b, const xsmi_points *c, double shift, double *scratch);

#endif
