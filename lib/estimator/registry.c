/* The functions that look up built-in estimators; XSMI_ESTIMATORS lists them. */
#include "base/registry.h"
#include "estimator/estimator.h"

XSMI_REGISTRY(estimator, XSMI_ESTIMATORS(XSMI_REGISTRY_TABLE))
