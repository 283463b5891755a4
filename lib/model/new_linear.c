/* New linear models, in one process or divided among several. */
#include "base/entry.h"
#include "model/divided.h"
#include "ranks/comm.h"

xsm_status xsm_model_new_linear(xsm_context *context, uint32_t features, uint32_t classes,
                                const xsm_model_options *options, xsm_model **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {out, "out"});
    xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_model_options, &o, options, err));
    if (features > XSM_FEATURES_MAX || (features == 0 && o.bias == 0)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u features; accepted are 1 to %u, or 0 with a bias", features,
                         XSM_FEATURES_MAX);
    }
    if (classes < 1 || classes > XSM_CLASSES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u classes; accepted are 1 to %u", classes, XSM_CLASSES_MAX);
    }
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_model_options, &o, bias, err));
    if (o.layout != XSM_LAYOUT_CLASS_MAJOR && o.layout != XSM_LAYOUT_FEATURE_MAJOR) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_model_options.layout is %d, which is no XSM_LAYOUT_* value",
                         o.layout);
    }
    return context && xsmi_ranks(context) > 1 ? xsmi_divided_new_linear(context, features, classes, &o, out, err)
                                              : xsmi_model_new_local(context, features, classes, &o, out, err);
}
