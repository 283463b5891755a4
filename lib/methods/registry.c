/* The functions that look up built-in estimators by name; XSMI_ESTIMATORS lists them. */
#include "base/registry.h"
#include "methods/method.h"
#include "methods/registry.h"

#include <stdio.h>

/* xsm_estimator_at(), _find(), _new() */
XSMI_REGISTRY(estimator, XSMI_ESTIMATORS(XSMI_REGISTRY_TABLE))

xsm_status xsmi_estimator_check_full(const xsm_estimator *e, xsm_error *err)
{
    const bool every = e->ops.kind == XSM_ESTIMATOR_EXACT ||
                       (e->ops.exact && e->ops.exact(e->state)); /* for an unbound estimator, too */
    if (every && !(e->ops.flags & XSM_ESTIMATOR_ROW_STATE)) {
        return XSM_OK;
    }
    char accepted[256];
    size_t used = 0;
    accepted[0] = '\0';
    for (size_t i = 0; xsm_estimator_at(i) && used < sizeof accepted; i++) {
        const xsm_estimator_ops *ops = xsm_estimator_at(i);
        bool exact = (ops->kind == XSM_ESTIMATOR_EXACT) != 0;
        if (exact || ops->exact) {
            used += (size_t)snprintf(accepted + used, sizeof accepted - used, "%s'%s'%s", used ? ", " : "", ops->name,
                                     exact ? "" : " with negatives=all");
        }
    }
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                     "estimator '%s' scores some classes only; all rows at once take one that scores every class: %s",
                     e->ops.name, accepted);
}
