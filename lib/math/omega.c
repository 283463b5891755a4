/*
 * The Wright omega function on the real line, W0(e^t).
 *
 * An initial value right to a few per cent, then two steps of Fritsch, Shafer and Crowley's iteration (CACM algorithm
 * 443, 1973, in the form of Lawrence, Corless and Jeffrey, ACM TOMS algorithm 917, 2012), which raises the error to the
 * fourth power.
 */
#include "math/omega.h"

#include <float.h>

double xsmi_omega(double t)
{
    if (!(t > -745.2)) {
        return isnan(t) ? t : 0;
    }
    if (t < 0) {
        /* w = e^t (1 - e^t + ...). The residual is computed relative to e^t, as t - log(w) would cancel. */
        double e = exp(t);
        if (t < -36.8) {
            return e; /* the second term is below half an ulp */
        }
        double w = e / (1 + e / (1 + e));
        w = xsmi_omega_improve(w, -w - log(w / e));
        return xsmi_omega_improve(w, -w - log(w / e));
    }
    if (t > DBL_MAX) {
        return t;
    }
    double w;
    if (t < 4) {
        /* Expansion about t = 1, where w = 1: 1 + x/2 + x^2/16 - x^3/192 - x^4/3072 (algorithm 917). */
        double x = t - 1;
        w = 1 + x * (0.5 + x * (1.0 / 16 + x * (-1.0 / 192 - x / 3072)));
    } else {
        double l = log(t);
        w = t - l + l / t; /* de Bruijn's asymptotic series */
    }
    w = xsmi_omega_improve(w, t - w - log(w));
    return xsmi_omega_improve(w, t - w - log(w));
}
