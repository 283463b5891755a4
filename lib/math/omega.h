/*
 * Scalar functions of the implicit step and the losses, in double and in log space.
 */
#ifndef XSMI_OMEGA_H
#define XSMI_OMEGA_H

#include "base/order.h"

#include <math.h>

/* Wright omega of a real argument: w + log(w) = t, that is W0(e^t). Cannot overflow; relative error at most 4 ulp over
 * [-745, 1e8] (0 below that, as e^t is 0). */
double xsmi_omega(double t);

/* One step of Fritsch, Shafer and Crowley's iteration for omega from the estimate w with the residual r = t - w -
 * log(w); it raises the relative error to the fourth power. */
static inline double xsmi_omega_improve(double w, double r)
{
    double w1 = 1 + w;
    double q = w1 * (w1 + 2.0 / 3.0 * r) * 2;
    return w * (1 + r / w1 * (q - r) / (q - 2 * r));
}

/* log(1 + e^t) without overflow. */
static inline double xsmi_softplus(double t)
{
    return t > 0 ? t + log1p(exp(-t)) : log1p(exp(t));
}

/* 1 / (1 + e^-t). */
static inline double xsmi_sigmoid(double t)
{
    if (t >= 0) {
        return 1 / (1 + exp(-t));
    }
    double e = exp(t);
    return e / (1 + e);
}

/* A sum of log(1 + e^t): one logarithm of a product in place of the logarithms of many factors. */
typedef struct xsmi_softplus_sum {
    double total, product;
    unsigned terms;
} xsmi_softplus_sum;

#define XSMI_SOFTPLUS_SUM_INIT                                                                                         \
    {                                                                                                                  \
        0, 1, 0                                                                                                        \
    }

/* Adds log(1 + e^t); returns sigma(t). */
static inline double xsmi_softplus_add(xsmi_softplus_sum *s, double t)
{
    double e = exp(-fabs(t));
    s->total += XSMI_MAX(t, 0);
    s->product *= 1 + e;
    if (++s->terms == 512) { /* of at most 2 each: far from overflow */
        s->total += log(s->product);
        s->product = 1;
        s->terms = 0;
    }
    return XSMI_MAX(e, (double)(t > 0)) / (1 + e); /* 1 or e, without a branch, which could not be predicted */
}

static inline double xsmi_softplus_total(const xsmi_softplus_sum *s)
{
    /* If every e is below an ulp of 1, the sum is that of the e, which is below an ulp of any relevant loss. */
    return s->total + log(s->product);
}

#endif
