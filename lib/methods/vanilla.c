/*
 * Plain stochastic gradient on the double sum (Fagan and Iyengar 2018, eq. 6 and 7): U-max that never raises u. The
 * gradient grows as e^(z_k - z_y - u), so all but small learning rates diverge. The estimator exists to show this.
 */
#include "methods/double_sum.h"

#include <math.h>

static const xsm_option options[] = {
    XSMI_DOUBLE_SUM_OPTIONS,
};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    return xsmi_double_sum_bind(state, "vanilla", problem, err);
}

static void gradient(void *state, const xsm_score_block *block)
{
    xsmi_double_sum_explicit(state, block, INFINITY, INFINITY);
}

const xsm_estimator_ops xsmi_vanilla_ops = {
    XSMI_ESTIMATOR_OF(xsmi_double_sum),
    .flags = XSM_ESTIMATOR_ROW_STATE | XSM_ESTIMATOR_UNBOUNDED,
    .name = "vanilla",
    .summary = "plain SGD on the double sum, sampled classes (Fagan and Iyengar 2018)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    XSMI_DOUBLE_SUM_OPS,
    .gradient = gradient,
};
