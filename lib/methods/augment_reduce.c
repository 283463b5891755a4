/*
 * Augment and reduce (Ruiz, Titsias, Dieng and Blei, Augment and reduce: stochastic inference for large categorical
 * distributions, 2018, section 3) for the softmax. With a Gumbel variable for each row, log p(y|x) is an integral whose
 * integrand is a product over the other classes. The variational distribution Gumbel(log e, 1) of row i's variable
 * gives the bound
 *     log p(y|x) >= 1 - log e - (1 + sum_{k != y} e^(z_k - z_y))/e,
 * which is tight at e = 1 + sum e^(z_k - z_y) = 1/p(y|x). With u = log e these are the terms of the double sum
 * (double_sum.h). A step on a row estimates the best e from m of the other classes, takes the natural gradient step of
 * length rho towards it, and then computes the gradient of the bound for the scores:
 *     e <- (1 - rho) e + rho (1 + (K-1)/m sum_{k in S} e^(z_k - z_y)),
 *     g_k = (K-1)/m e^(z_k - z_y)/e,  g_y = -sum g_k,
 * with rho = (1 + t)^-forget at the t-th step on that row, counted from t = 0: the first step uses its own estimate.
 * With all other classes and rho = 1 this is the exact softmax.
 */
#include "methods/double_sum.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

typedef struct augment_state {
    xsmi_double_sum sum; /* first: the shared functions read the state as this type */
    double forget;
    double *visits; /* [slots] steps so far for each row */
} augment_state;

static const xsm_option options[] = {
    XSMI_DOUBLE_SUM_NEGATIVES,
    XSMI_OPTION_DOUBLE(
        "forget", augment_state, forget, "0.9", 0, 1,
        "the power by which a row's estimate of its normaliser moves less from step to step: rho = (1 + t)^-forget"),
};

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    augment_state *s = state;
    XSMI_TRY(xsmi_double_sum_bind(&s->sum, "augment-reduce", problem, err));
    s->visits = xsmi_allocate_zero(problem->context, problem->row_slots, sizeof *s->visits);
    return s->visits ? XSM_OK
                     : xsmi_fail_memory(err, problem->row_slots * sizeof *s->visits, "one number for each row");
}

static void unbind(void *state)
{
    augment_state *s = state;
    if (s->visits) {
        xsmi_release(s->sum.context, s->visits, s->sum.slots, sizeof *s->visits);
        s->visits = NULL;
    }
    xsmi_double_sum_unbind(state);
}

static void gradient(void *state, const xsm_score_block *block)
{
    augment_state *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        uint64_t row = block->examples[i].row;
        uint32_t length = block->lengths[i];
        double most = 0, sum = 0;
        for (uint32_t j = 1; j < length; j++) {
            double difference = (double)z[j] - (double)z[0];
            most = XSMI_MAX(difference, most);
        }
        for (uint32_t j = 1; j < length; j++) {
            sum += exp((double)z[j] - (double)z[0] - most);
        }
        /* The estimate and the old value as multiples of e^top, which avoids overflow. */
        double rho = pow(1 + s->visits[row], -s->forget), old = s->sum.u[row];
        double top = rho < 1 && old > most ? old : most;
        double estimate = exp(-top) + s->sum.weight * sum * exp(most - top);
        double e = rho * estimate + (rho < 1 ? (1 - rho) * exp(old - top) : 0), u = top + log(e), all = 0;
        for (uint32_t j = 1; j < length; j++) {
            double c = s->sum.weight * exp((double)z[j] - (double)z[0] - u);
            all += c;
            g[j] = (float)c;
        }
        g[0] = (float)-all;
        block->losses[i] = u + estimate / e - 1;
        xsmi_double_sum_move(&s->sum, row, u);
        s->visits[row]++;
    }
}

static int32_t state_tensor(void *state, uint32_t index, xsm_state_tensor *tensor)
{
    augment_state *s = state;
    if (index > 1) {
        return 0;
    }
    (void)xsmi_double_sum_tensor(state, 0, tensor);
    if (index == 1) {
        tensor->name = "visits";
        tensor->data = s->visits;
    }
    return 1;
}

const xsm_estimator_ops xsmi_augment_reduce_ops = {
    XSMI_ESTIMATOR_OF(augment_state),
    .flags = XSM_ESTIMATOR_ROW_STATE,
    .name = "augment-reduce",
    .summary = "variational bound of the softmax, sampled classes (Ruiz et al. 2018)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    .unbind = unbind,
    .width = xsmi_double_sum_width,
    .select = xsmi_double_sum_select,
    .prefetch = xsmi_double_sum_fetch,
    .gradient = gradient,
    .state_tensor = state_tensor,
};
