/* Training on all rows at once, and the distance between models. */
#include "learn.h"

fitted fit(const papers *p, const xsm_dataset *train, const method *m, double ridge, bool bias, double tolerance,
           xsm_progress_function progress, void *user)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
    xsm_estimator *estimator = NULL;
    fitted f = {NULL, XSM_FIT_RESULT_INIT, 0};
    papers_check(xsm_dataset_get_info(train, &info, &err), &err);
    shape.bias = bias;
    options.tolerance = tolerance;
    options.progress = progress;
    options.progress_user = user;
    papers_check(xsm_model_new_linear(p->context, info.features, info.classes, &shape, &f.model, &err), &err);
    papers_check(xsm_estimator_new(p->context, m->estimator, &estimator, &err), &err);
    set_options(estimator, m, ridge);
    const double begun = papers_seconds(p);
    papers_check(xsm_fit_full_batch(p->context, f.model, train, estimator, &options, &f.result, &err), &err);
    f.seconds = papers_seconds(p) - begun;
    xsm_estimator_free(estimator);
    if (f.result.end == XSM_FIT_ITERATIONS) {
        papers_say("  %s: the iterations ran out before the tolerance was reached", m->title);
    }
    return f;
}

double softmax_objective(const papers *p, xsm_model *model, const xsm_dataset *data, double ridge)
{
    evaluation metrics = evaluate(p, model, data);
    xsm_parameters w = XSM_PARAMETERS_INIT;
    xsm_error err = XSM_ERROR_INIT;
    double squares = 0;
    papers_check(xsm_model_get_parameters(model, &w, &err), &err);
    for (size_t k = 0; k < w.classes; k++) {
        for (size_t j = 0; j < w.features; j++) {
            double value = (double)w.weight[k * w.class_step + j * w.feature_step];
            squares += value * value;
        }
    }
    return metrics.log_loss * (double)metrics.known_rows + 0.5 * ridge * squares;
}

double distance_from(xsm_model *model, xsm_model *of)
{
    xsm_parameters a = XSM_PARAMETERS_INIT, b = XSM_PARAMETERS_INIT;
    xsm_error err = XSM_ERROR_INIT;
    double apart = 0, length = 0;
    papers_check(xsm_model_get_parameters(model, &a, &err), &err);
    papers_check(xsm_model_get_parameters(of, &b, &err), &err);
    for (size_t k = 0; k < b.classes; k++) {
        for (size_t j = 0; j < b.features; j++) {
            double x = (double)a.weight[k * a.class_step + j * a.feature_step];
            double y = (double)b.weight[k * b.class_step + j * b.feature_step];
            apart += fabs(x - y);
            length += fabs(y);
        }
        if (a.bias && b.bias) {
            apart += fabs((double)a.bias[k] - (double)b.bias[k]);
            length += fabs((double)b.bias[k]);
        }
    }
    return apart / length;
}
