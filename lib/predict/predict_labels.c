/* Prediction by beam searches in label trees. */
#include "predict/predict.h"

#include "base/order.h"
#include "predict/label_scores.h"

#include <math.h>

static xsmi_label_scores divide(const xsm_predictor *p, xsmi_arena *arena)
{
    xsmi_label_scores s;
    xsmi_label_scores_divide(p->model, XSMI_MAX(p->beam, p->top), arena, &s);
    return s;
}

size_t xsmi_labels_scratch(const xsm_predictor *p)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide(p, &arena);
    return arena.used;
}

static bool search_row(xsm_predictor *p, const xsmi_features *x, const void *own, const xsmi_top *list,
                       double *probabilities)
{
    const xsmi_label_scores *s = own;
    const xsmi_calibration *c = &p->model->calibration;
    const uint32_t scored = xsmi_label_beam_search(&s->beam, x, p->beam, list);
    if (scored == 0 || !isfinite(list->score[p->top - 1])) {
        return false;
    }
    const double log_sum = probabilities ? xsmi_label_log_sum(s) : 0;
    for (uint32_t j = 0; probabilities && j < p->top; j++) {
        probabilities[j] = xsmi_label_probability(p->model, c, list->score[j], log_sum);
    }
    p->probed += scored;
    return true;
}

xsm_status xsmi_labels_run(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    xsmi_arena arena = {p->scratch, 0};
    const xsmi_label_scores own = divide(p, &arena);
    xsmi_label_beam_start(&own.beam, p->classes);
    return xsmi_predict_rows(p, to, search_row, &own, err);
}
