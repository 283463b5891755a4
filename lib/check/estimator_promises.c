/* Tests that an estimator's coefficients are the slopes of its losses, and finite at large scores. */
#include "check/estimator_check.h"

#include "base/order.h"

#include <math.h>

enum { DIFFERED = 12 }; /* rows whose gradients are compared with differences */

static xsm_status loss_at(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g, uint64_t row, double *loss,
                          xsm_error *err)
{
    const bool anew = (e->ops.flags & XSM_ESTIMATOR_ROW_STATE) != 0;
    XSMI_TRY(xsmi_estimator_trial_run(t, e, g, &(xsmi_trial_run){row, 1, 1, 1, 0xff, anew}, err));
    *loss = g->losses[0];
    return XSM_OK;
}

/* Compares coefficients with differences of losses. Weights are zero, so the biases are the scores: changes them by
 * exact steps, and uses a difference formula of the fourth order. */
static xsm_status compare_slopes(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g, xsm_gradient *other,
                                 uint64_t row, xsm_error *err)
{
    const float h = 0x1p-9f;
    double most = 0, loss[4];
    xsm_parameters w = XSM_PARAMETERS_INIT;
    XSMI_TRY(xsm_model_get_parameters(t->model, &w, err));
    XSMI_TRY(loss_at(t, e, g, row, &loss[0], err));
    const xsmi_entries entries = xsmi_gradient_example_entries(g, 0);
    for (uint64_t j = 0; j < entries.count; j++) {
        const double size = fabs((double)entries.coefficients[j]);
        most = XSMI_MAX(size, most);
    }
    for (uint64_t j = 0; j < entries.count; j++) {
        static const float steps[] = {-2, -1, 1, 2};
        uint32_t k = xsmi_gradient_class(g, j);
        float before = w.bias[k];
        xsm_status status = XSM_OK;
        for (int s = 0; s < 4 && status == XSM_OK; s++) {
            w.bias[k] = before + steps[s] * h;
            status = loss_at(t, e, other, row, &loss[s], err);
        }
        w.bias[k] = before;
        XSMI_TRY(status);
        double slope = (8 * (loss[2] - loss[1]) - (loss[3] - loss[0])) / (12 * (double)h);
        double have = (double)entries.coefficients[j];
        if (!(fabs(slope - have) <= t->options->tolerance * (1 + most))) {
            return xsmi_estimator_fault(t, err,
                                        "row %u, class %u: the coefficient is %.8g, the loss rises by %.8g a score",
                                        (unsigned)row, k, have, slope);
        }
    }
    return XSM_OK;
}

/* Losses may have kinks, and scores can be near one by chance, so a row has three attempts. */
xsm_status xsmi_estimator_trial_slopes(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g,
                                       xsm_gradient *other, xsm_error *err)
{
    for (uint64_t row = 0; row < DIFFERED; row++) {
        xsm_error said = XSM_ERROR_INIT;
        xsm_status status = XSM_ERROR_DATA;
        for (uint64_t attempt = 0; attempt < 3 && status == XSM_ERROR_DATA; attempt++) {
            XSMI_TRY(xsmi_estimator_trial_fill(t, 0, 2, 5 + attempt, err));
            status = compare_slopes(t, e, g, other, row, &said);
        }
        if (status != XSM_OK) {
            return xsmi_fail_copy(err, &said);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_estimator_trial_extremes(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g,
                                         xsm_error *err)
{
    const float far = 1e4f;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    for (int kind = 0; kind < 6; kind++) {
        XSMI_TRY(xsmi_estimator_trial_fill(t, 0, kind < 2 ? (double)far : 0, (uint64_t)kind, err));
        XSMI_TRY(xsm_model_get_parameters(t->model, &w, err));
        for (uint32_t k = 0; k < t->shape.classes && kind >= 2; k++) {
            bool up = kind == 2 ? k % 2 == 0 : kind == 3 ? k % 2 == 1 : kind == 4;
            w.bias[k] = up ? far : -far;
        }
        const xsmi_trial_run whole = {0, XSMI_TRIAL_ROWS, XSMI_TRIAL_ROWS, XSMI_TRIAL_ROWS, 0xff, true};
        XSMI_TRY(xsmi_estimator_trial_run(t, e, g, &whole, err));
        xsm_error said = XSM_ERROR_INIT;
        xsm_status status = xsmi_estimator_trial_numbers(t, g, true, &said);
        if (status != XSM_OK) {
            xsmi_fail(err, status, "%s, at scores up to %g", said.message, (double)far);
            return status;
        }
    }
    return XSM_OK;
}
