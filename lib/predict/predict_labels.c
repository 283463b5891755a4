/* Prediction by beam searches in label trees. */
#include "predict/predict.h"

#include "base/activity.h"
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

xsm_status xsmi_labels_run(xsm_predictor *p, const xsm_batch *batch, uint32_t *classes, float *scores,
                           double *probabilities, xsm_error *err)
{
    xsmi_arena arena = {p->scratch, 0};
    const xsmi_label_scores own = divide(p, &arena);
    const xsmi_calibration *c = &p->model->calibration;
    xsmi_label_beam_start(&own.beam, p->classes);
    for (size_t i = 0; i < batch->count; i++) {
        XSMI_TRY(xsmi_go_on(p->context, err));
        const xsmi_features x = xsmi_batch_features(batch, i);
        const xsmi_top list = {scores ? scores + i * p->top : p->top_score, classes + i * p->top, p->top};
        const uint32_t scored = xsmi_label_beam_search(&own.beam, &x, p->beam, &list);
        if (scored == 0 || !isfinite(list.score[p->top - 1])) {
            return xsmi_fail(err, XSM_ERROR_DIVERGED, "row %llu has scores that are not finite",
                             (unsigned long long)xsmi_batch_row(batch, i));
        }
        const double log_partition =
            probabilities && c->method == XSM_CALIBRATION_TEMPERATURE ? xsmi_label_log_partition(&own, c->scale) : 0;
        for (uint32_t j = 0; probabilities && j < p->top; j++) {
            probabilities[i * p->top + j] = xsmi_label_probability(p->model, c, list.score[j], log_partition);
        }
        p->probed += scored;
        xsmi_advance(p->context, 1);
    }
    return XSM_OK;
}
