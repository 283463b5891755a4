/*
 * U-max (Fagan and Iyengar 2018, Algorithm 1, without its projections): stochastic gradient on the double sum, except
 * that u_i is raised to B = log(1 + sum_{k in S} e^(z_k - z_y)) first whenever it lies more than delta below. All
 * gradients are taken at the raised u.
 */
#include "estimator/double_sum.h"

#include <math.h>

typedef struct umax_state {
    xsmi_double_sum sum; /* first: the shared functions take the state as this */
    double delta;
} umax_state;

static const xsm_option options[] = {
    XSMI_DOUBLE_SUM_OPTIONS,
    {"delta", XSM_OPTION_DOUBLE, offsetof(umax_state, delta), "1", 1e-6, 100, NULL,
     "how far u may lie below its bound before it is raised"},
};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    return xsmi_double_sum_bind(state, "umax", problem, err);
}

static void gradient(void *state, const xsm_score_block *block)
{
    umax_state *s = state;
    xsmi_double_sum_explicit(&s->sum, block, s->delta, INFINITY);
}

const xsm_estimator_ops xsmi_umax_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_ESTIMATOR_ABI,
    .flags = XSM_ESTIMATOR_ROW_STATE,
    .name = "umax",
    .summary = "U-max: unbiased double-sum gradient on sampled classes (Fagan and Iyengar 2018)",
    .state_size = sizeof(umax_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_size = sizeof options[0],
    .bind = bind,
    .unbind = xsmi_double_sum_unbind,
    .width = xsmi_double_sum_width,
    .select = xsmi_double_sum_select,
    .gradient = gradient,
};
