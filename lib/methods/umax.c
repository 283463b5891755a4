/*
 * U-max (Fagan and Iyengar 2018, Algorithm 1): stochastic gradient on the double sum, but u_i is first raised to log(1
 * + sum_{k in S} e^(z_k - z_y)) if it is more than delta below that. All gradients are computed at the raised u. After
 * the step u is projected to [0, B_u] and the rows of weights to ||w|| <= B_W, which contain the optimum (Lemmas 1 and
 * 2): B_W^2 = (2/mu) N log K, with the sum of the weights of the rows for N, B_u = log(1 + (K-1) e^(2 B_x B_W)), with
 * B_x the largest length of a row.
 */
#include "methods/double_sum.h"
#include "math/omega.h"

#include <math.h>

typedef struct umax_state {
    xsmi_double_sum sum; /* first: the shared functions read the state as this type */
    double delta, u_option, weight_option;
    double u_bound, weight_bound; /* INFINITY, and 0, for no bound */
} umax_state;

static const xsm_option options[] = {
    XSMI_DOUBLE_SUM_OPTIONS,
    XSMI_OPTION_DOUBLE("delta", umax_state, delta, "1", 1e-6, 100,
                       "how far u may lie below its bound before it is raised"),
    XSMI_OPTION_DOUBLE(
        "u-bound", umax_state, u_option, "0", 0, 1e300,
        "largest u, B_u; 0 = log(1 + (K-1) e^(2 B_x B_W)), or none without a weight-bound or with a bias"),
    XSMI_OPTION_DOUBLE(
        "weight-bound", umax_state, weight_option, "0", 0, 1e300,
        "largest length of a class's weights, B_W; 0 = sqrt(2 N log(K) / ridge), or none without a ridge"),
};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    umax_state *s = state;
    XSMI_TRY(xsmi_double_sum_bind(state, "umax", problem, err));
    double n = problem->total_weight, k = (double)problem->classes;
    s->weight_bound = s->weight_option;
    if (!(s->weight_bound > 0) && problem->ridge > 0) {
        s->weight_bound = sqrt(2 * n * log(k) / problem->ridge);
    }
    s->u_bound = s->u_option;
    if (!(s->u_bound > 0)) {
        bool known = s->weight_bound > 0 && !problem->bias;
        s->u_bound = known ? xsmi_softplus(log(k - 1) + 2 * problem->longest_row * s->weight_bound) : INFINITY;
    }
    return XSM_OK;
}

static double row_bound(const void *state)
{
    return ((const umax_state *)state)->weight_bound;
}

static void gradient(void *state, const xsm_score_block *block)
{
    umax_state *s = state;
    xsmi_double_sum_explicit(&s->sum, block, s->delta, s->u_bound);
}

const xsm_estimator_ops xsmi_umax_ops = {
    XSMI_ESTIMATOR_OF(umax_state),
    .flags = XSM_ESTIMATOR_ROW_STATE,
    .name = "umax",
    .summary = "U-max: unbiased double-sum gradient on sampled classes (Fagan and Iyengar 2018)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    XSMI_DOUBLE_SUM_OPS,
    .gradient = gradient,
    .row_bound = row_bound,
};
