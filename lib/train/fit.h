/*
 * What the choice of how to train knows of fits to all rows at once.
 */
#ifndef XSMI_FIT_H
#define XSMI_FIT_H

#include "base/base.h"

#include <xsoftmax/fit.h>

/* The most rows by which the variance of class means is chosen, and classes that each of them is compared with. */
enum { XSMI_MEANS_SAMPLE = 512 };

/* Of L-BFGS: XSM_ERROR_UNSUPPORTED, with what is accepted instead, in builds without libLBFGS. */
xsm_status xsmi_fit_check(xsm_error *err);

#endif
