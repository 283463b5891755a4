/*
 * Inverse propensities of classes (Jain, Prabhu and Varma, Extreme multi-label loss functions for recommendation,
 * tagging, ranking and other missing label applications, 2016): 1/p_k = 1 + C (n_k + B)^-A, C = (log N - 1) (B + 1)^A,
 * for n_k of N training rows with the class. C is at least 0.
 */
#ifndef XSMI_PROPENSITY_H
#define XSMI_PROPENSITY_H

#include <math.h>

/* A and B where nobody says. */
#define XSMI_PROPENSITY_A 0.55
#define XSMI_PROPENSITY_B 1.5

static inline double xsmi_inverse_propensity(double count, double rows, double a, double b)
{
    const double c = (log(rows) - 1) * pow(b + 1, a);
    return 1 + (c > 0 ? c : 0) * pow(count + b, -a);
}

#endif
