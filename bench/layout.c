/*
 * The order of the weights: steps on Bibtex in the order that the trainer chooses, compared with steps in the other
 * order. Value and ceiling are the two rates; the trainer's choice is right if the ratio is above 1.
 *
 * The trainer sets the order itself, so these steps are made as in a host: gradient, then optimizer.
 */
#include "data.h"

#include "peak.h"

typedef struct loop {
    const xsm_dataset *data;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_gradient *gradient;
    uint64_t rows;
} loop;

static loop loop_new(xsm_context *ctx, const xsm_dataset *data, const char *estimator, int32_t layout)
{
    loop l = {data, NULL, NULL, NULL, NULL, 0};
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.layout = layout;
    bench_check(xsm_dataset_get_info(data, &info, &err), &err);
    l.rows = info.rows;
    bench_check(xsm_model_new_linear(ctx, info.features, info.classes, &options, &l.model, &err), &err);
    bench_check(xsm_estimator_new(ctx, estimator, &l.estimator, &err), &err);
    bench_check(xsm_estimator_bind(l.estimator, l.model, data, &err), &err);
    bench_check(xsm_optimizer_new(ctx, "sgd", &l.optimizer, &err), &err);
    bench_check(xsm_optimizer_bind(l.optimizer, l.model, &err), &err);
    bench_check(xsm_gradient_new(ctx, &l.gradient, &err), &err);
    return l;
}

static void loop_free(loop *l)
{
    xsm_gradient_free(l->gradient);
    xsm_optimizer_free(l->optimizer);
    xsm_estimator_free(l->estimator);
    xsm_model_free(l->model);
}

static double loop_rate(void *state)
{
    const loop *l = state;
    xsm_error err = XSM_ERROR_INIT;
    const double eta = 1e-2;
    double start = peak_clock();
    for (uint64_t i = 0; i < l->rows; i++) {
        xsm_batch batch = xsm_batch_range(l->data, i, 1);
        bench_check(xsm_estimator_gradient(l->estimator, &batch, eta, l->gradient, &err), &err);
        bench_check(xsm_optimizer_apply(l->optimizer, &batch, l->gradient, eta, &err), &err);
    }
    return (double)l->rows / (peak_clock() - start);
}

static bench_result run(uint32_t threads, const char *estimator, int32_t chosen, int32_t other)
{
    xsm_context *ctx = bench_context(threads);
    const char *note;
    xsm_dataset *data = bench_bibtex(ctx, &note);
    loop a = loop_new(ctx, data, estimator, chosen);
    loop b = loop_new(ctx, data, estimator, other);
    bench_result result = bench_measure(loop_rate, &a, loop_rate, &b, "steps/s");
    result.note = note;
    loop_free(&a);
    loop_free(&b);
    xsm_dataset_free(data);
    xsm_context_free(ctx);
    return result;
}

bench_result bench_layout_sampled(uint32_t threads)
{
    return run(threads, "ove", XSM_LAYOUT_CLASS_MAJOR, XSM_LAYOUT_FEATURE_MAJOR);
}

bench_result bench_layout_exact(uint32_t threads)
{
    return run(threads, "softmax", XSM_LAYOUT_FEATURE_MAJOR, XSM_LAYOUT_CLASS_MAJOR);
}
