/* The functions that look up built-in optimizers by name; XSMI_OPTIMIZERS lists them. */
#include "base/registry.h"
#include "optimizer/optimizer.h"

#include <stdio.h>

XSMI_REGISTRY(optimizer, XSMI_OPTIMIZERS(XSMI_REGISTRY_TABLE))

xsm_status xsm_optimizer_new(xsm_context *context, const char *name, xsm_optimizer **out, xsm_error *err)
{
    const xsm_optimizer_ops *ops = xsm_optimizer_find(name);
    if (!name || ops) {
        return name ? xsm_optimizer_new_from(context, ops, out, err)
                    : xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_optimizer_new: name is NULL");
    }
    char names[sizeof err->message]; /* "'sgd' or 'adagrad'" */
    size_t used = 0;
    for (size_t i = 0, count = xsm_optimizer_count(); i < count && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s'%s'",
                                 i == 0          ? ""
                                 : i + 1 < count ? ", "
                                                 : " or ",
                                 xsm_optimizer_at(i)->name);
    }
    return xsmi_fail(err, XSM_ERROR_NAME, "no optimizer '%s'; accepted is %s", name, names);
}
