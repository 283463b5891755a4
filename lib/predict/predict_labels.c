/* Prediction by beam searches in label trees. */
#include "predict/predict.h"

#include "base/order.h"
#include "model/label_scores.h"

#include <math.h>

static xsmi_label_scores divide(const xsm_predictor *p, xsmi_arena *arena)
{
    xsmi_label_scores s;
    xsmi_label_scores_divide(p->model, XSMI_MAX(p->reach, p->top), arena, &s);
    return s;
}

size_t xsmi_labels_scratch(const xsm_predictor *p)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide(p, &arena);
    return arena.used;
}

static bool search_row(xsm_predictor *p, const xsmi_features *x, const xsmi_row_filter *filter, const void *own,
                       const xsmi_top *list, double *probabilities)
{
    const xsmi_label_scores *s = own;
    const xsmi_calibration *c = &p->model->calibration;
    const uint32_t width = xsmi_filter_width(p, filter), least = xsmi_filter_least(p, filter);
    const xsmi_label_wanted wanted = {list, XSMI_MAX(least, 1), filter};
    uint32_t scored = 0, found = 0;
    if (width > 0) {
        scored = xsmi_label_beam_search(&s->beam, x, width, &wanted);
        if (scored == 0) {
            return false;
        }
    }
    if (width == 0 || (!p->own.sums && xsmi_filter_misses(p, filter, list))) {
        if (!xsmi_filter_score(p, x, filter, false, list)) {
            return false;
        }
    }
    while (found < p->top && list->class_of[found] != XSMI_NO_CLASS) {
        found++;
    }
    if ((!filter && found < p->top) || (found > 0 && !isfinite(list->score[found - 1]))) {
        return false;
    }
    const double log_sum = probabilities && found > 0 ? xsmi_label_log_sum(s) : 0;
    for (uint32_t j = 0; probabilities && j < found; j++) {
        probabilities[j] = xsmi_class_probability(p->model, c, list->score[j], log_sum);
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
