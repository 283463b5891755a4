/*
 * The scale and shift of least log-loss (Platt, Probabilistic outputs for support vector machines, 1999), by Newton's
 * method from the sums of a pass over the scores, which the caller makes.
 */
#ifndef XSMI_PLATT_H
#define XSMI_PLATT_H

#include "base/base.h"

#include <math.h>

/* A log-loss and its derivatives by scale and shift. */
enum { XSMI_LOSS, XSMI_BY_SCALE, XSMI_BY_SHIFT, XSMI_SCALE_SCALE, XSMI_SCALE_SHIFT, XSMI_SHIFT_SHIFT, XSMI_PLATT_SUMS };

/* Fills the sums at at[0], the scale, and at[1], the shift; it may round both. */
typedef xsm_status (*xsmi_platt_pass)(void *state, double at[2], double sums[XSMI_PLATT_SUMS], xsm_error *err);

typedef struct xsmi_platt {
    xsmi_platt_pass pass;
    void *state;
    double least, most; /* scales that are tried */
    uint32_t passes;    /* at most */
} xsmi_platt;

/* Adds the terms of a class that is no label and has the score z. With s = scale z + shift, `right` is sigma(s), `left`
 * is 1 - sigma(s) and `loss` is log(1 + e^s). */
static inline void xsmi_platt_add(double sums[XSMI_PLATT_SUMS], double z, double right, double left, double loss)
{
    const double w = right * left;
    sums[XSMI_LOSS] += loss;
    sums[XSMI_BY_SCALE] += right * z;
    sums[XSMI_BY_SHIFT] += right;
    sums[XSMI_SCALE_SCALE] += w * z * z;
    sums[XSMI_SCALE_SHIFT] += w * z;
    sums[XSMI_SHIFT_SHIFT] += w;
}

/* As xsmi_platt_add(), with right, left and loss computed from s. */
static inline void xsmi_platt_add_score(double sums[XSMI_PLATT_SUMS], double z, double s)
{
    const double e = exp(-fabs(s)), large = 1 / (1 + e), small = e * large;
    xsmi_platt_add(sums, z, s >= 0 ? large : small, s >= 0 ? small : large, fmax(s, 0) + log1p(e));
}

/* Adds the terms of labels: `labels` is their number, or the share of one; z and s are the sums over them. */
static inline void xsmi_platt_add_labels(double sums[XSMI_PLATT_SUMS], double labels, double z, double s)
{
    sums[XSMI_LOSS] -= s;
    sums[XSMI_BY_SCALE] -= z;
    sums[XSMI_BY_SHIFT] -= labels;
}

/* Starts at at[2] and leaves the best numbers there, with their sums, the log-loss at the start and the number of
 * passes. */
xsm_status xsmi_platt_fit(const xsmi_platt *p, double at[2], double sums[XSMI_PLATT_SUMS], double *before,
                          uint32_t *passes, xsm_error *err);

#endif
