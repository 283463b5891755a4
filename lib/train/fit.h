/*
 * Whether this build minimises over all rows at once.
 */
#ifndef XSMI_FIT_H
#define XSMI_FIT_H

#include "base/base.h"

#include <xsoftmax/fit.h>

/* XSM_ERROR_UNSUPPORTED, with what is accepted instead, in builds without libLBFGS. */
xsm_status xsmi_fit_check(xsm_error *err);

#endif
