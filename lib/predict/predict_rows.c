/* Prediction row by row, for searches that take one row at a time. */
#include "predict/predict.h"

#include "base/activity.h"

#include <math.h>

xsm_status xsmi_predict_fail(const xsm_predictor *p, const xsm_batch *batch, size_t row, xsm_error *err)
{
    const unsigned long long number = xsmi_batch_row(batch, row);
    return p->index ? xsmi_fail(err, XSM_ERROR_DIVERGED,
                                "row %llu has scores that are not finite, or index '%s' finds fewer than %u classes",
                                number, p->index->ops.name, p->top)
                    : xsmi_fail(err, XSM_ERROR_DIVERGED, "row %llu has scores that are not finite", number);
}

xsm_status xsmi_predict_rows(xsm_predictor *p, const xsm_prediction *to, xsmi_row_search search, const void *own,
                             xsm_error *err)
{
    const xsmi_top list = {p->top_score, p->top_class, p->top};
    for (size_t i = 0; i < to->batch->count; i++) {
        XSMI_TRY(xsmi_go_on(p->context, err));
        const xsmi_features x = xsmi_batch_features(to->batch, i);
        const xsmi_row_filter *filter = xsmi_filter_of(p, to, i, 0);
        if (!search(p, &x, filter, own, &list, xsmi_predict_space(p, to))) {
            return xsmi_predict_fail(p, to->batch, i, err);
        }
        xsmi_predict_put(p, to, i, &list);
        xsmi_advance(p->context, 1);
    }
    return XSM_OK;
}

bool xsmi_predict_best(const xsm_predictor *p, const uint32_t *classes, const float *scores, uint32_t found,
                       const xsmi_row_filter *filter, const xsmi_top *list)
{
    bool finite = filter || found >= p->top;
    xsmi_top_start(list);
    for (uint32_t j = 0; j < found; j++) {
        finite &= isfinite(scores[j]) != 0;
        xsmi_top_offer_any_left(list, scores[j], classes[j], filter);
    }
    xsmi_top_sort(list);
    return finite;
}

void xsmi_predict_each(const xsm_predictor *p, const float *scores, size_t count, double *probabilities)
{
    for (size_t i = 0; probabilities && i < count; i++) {
        probabilities[i] = xsmi_probability(&p->model->calibration, scores[i], 0);
    }
}
