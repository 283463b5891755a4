/* Which weights of rows and labels an estimator takes. */
#include "estimator/estimator.h"

xsm_status xsmi_estimator_check_weights(const xsm_estimator *e, xsm_error *err)
{
    const char *steps = e->ops.flags & XSM_ESTIMATOR_PROXIMAL ? "proximal" : e->ops.joint ? "joint" : NULL;
    return steps && !(e->ops.flags & XSM_ESTIMATOR_WEIGHTED)
               ? xsmi_fail(
                     err, XSM_ERROR_UNSUPPORTED,
                     "estimator '%s' takes %s steps, which its table does not weigh (XSM_ESTIMATOR_WEIGHTED): rows "
                     "without weights are accepted",
                     e->ops.name, steps)
               : XSM_OK;
}

xsm_status xsmi_estimator_check_label_weights(const xsm_estimator *e, uint64_t most, xsm_error *err)
{
    if (e->ops.flags & XSM_ESTIMATOR_LABEL_WEIGHTED) {
        return XSM_OK;
    }
    if (most > 1) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "estimator '%s' does not weigh the labels of a row (XSM_ESTIMATOR_LABEL_WEIGHTED); one label a "
            "row is accepted with weights, or several without",
            e->ops.name);
    }
    return xsmi_estimator_check_weights(e, err);
}
