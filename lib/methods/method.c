/* The state of estimators that need only kernels. */
#include "methods/method.h"

xsm_status xsmi_bind_kernels(void *state, const xsm_problem *problem, xsm_error *err)
{
    (void)err;
    ((xsmi_kernels_state *)state)->kernels = xsmi_context_kernels(problem->context);
    return XSM_OK;
}
