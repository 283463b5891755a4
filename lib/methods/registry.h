/* Questions that concern all built-in estimators. */
#ifndef XSMI_METHODS_REGISTRY_H
#define XSMI_METHODS_REGISTRY_H

#include "estimator/estimator.h"

/* Refuses a bound estimator whose gradient over all rows is not the gradient of the whole objective; the message names
 * estimators for which it is. */
xsm_status xsmi_estimator_check_full(const xsm_estimator *e, xsm_error *err);

#endif
