/*
 * What other floors need to know of training on all rows at once.
 */
#ifndef XSMI_FIT_H
#define XSMI_FIT_H

#include "base/base.h"

#include <xsoftmax/fit.h>

/* The most rows by which class_means.c chooses the variance, and the most classes that each row is compared with. */
enum { XSMI_MEANS_SAMPLE = 512 };

/* Fails with XSM_ERROR_UNSUPPORTED, and says what is accepted instead, in builds without libLBFGS. */
xsm_status xsmi_fit_check(xsm_error *err);

#endif
