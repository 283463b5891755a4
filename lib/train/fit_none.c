/* A build without libLBFGS: training on all rows at once is refused. */
#include "train/fit.h"
#include "base/entry.h"

xsm_status xsmi_fit_check(xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                     "all rows at once: this build of the library has no L-BFGS (it was built without libLBFGS); a "
                     "trainer takes steps, with the optimizers sgd and adagrad");
}

xsm_status xsm_fit_full_batch(xsm_context *context, xsm_model *model, const xsm_dataset *train,
                              xsm_estimator *estimator, const xsm_fit_options *options, xsm_fit_result *result,
                              xsm_error *err)
{
    XSMI_ENTER(err);
    (void)context;
    (void)model;
    (void)train;
    (void)estimator;
    (void)options;
    (void)result;
    return xsmi_fit_check(err);
}
