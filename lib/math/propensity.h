/*
 * Inverse propensities of classes (Jain, Prabhu and Varma, Extreme multi-label loss functions for recommendation,
 * tagging, ranking and other missing label applications, 2016): 1/p_k = 1 + C (n_k + B)^-A, C = (log N - 1) (B + 1)^A,
 * for n_k of N training rows with the class. C is at least 0.
 */
#ifndef XSMI_PROPENSITY_H
#define XSMI_PROPENSITY_H

#include "base/base.h"

#include <math.h>

/* Replaces XSM_DEFAULT by the default of A or B; XSM_ERROR_RANGE for numbers out of range. */
static inline xsm_status xsmi_propensity_options(double *a, double *b, double default_a, double default_b,
                                                 xsm_error *err)
{
    *a = *a == XSM_DEFAULT ? default_a : *a;
    *b = *b == XSM_DEFAULT ? default_b : *b;
    return *a >= 0 && *a <= 10 && *b >= 0 && *b <= 1e9
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_RANGE,
                           "propensity_a is %g and propensity_b is %g; accepted is 0 to 10 and 0 to 1e9", *a, *b);
}

static inline double xsmi_inverse_propensity(double count, double rows, double a, double b)
{
    const double c = (log(rows) - 1) * pow(b + 1, a);
    return 1 + (c > 0 ? c : 0) * pow(count + b, -a);
}

#endif
