/*
 * The callback stops the trainer after some epochs, and the next run continues from there.
 */
#include "training.h"

#include "peak.h"

static int32_t stop_at_end(void *user, const xsm_progress *progress)
{
    training *t = user;
    t->ends += progress->epoch_ended != 0;
    return progress->epoch_ended && t->ends == t->epochs;
}

void training_start(training *t, xsm_context *ctx, xsm_dataset *data, const char *estimator, uint32_t negatives,
                    uint64_t batch, double eta)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    t->context = ctx;
    t->data = data;
    t->epochs = 1;
    bench_check(xsm_dataset_get_info(data, &info, &err), &err);
    if (t->hidden > 0) {
        bench_check(xsm_model_new_embedding(ctx, info.features, t->hidden, info.classes, NULL, &t->model, &err), &err);
    } else {
        bench_check(xsm_model_new_linear(ctx, info.features, info.classes, NULL, &t->model, &err), &err);
    }
    bench_check(xsm_estimator_new(ctx, estimator, &t->estimator, &err), &err);
    if (negatives > 0) {
        bench_check(xsm_estimator_set_number(t->estimator, "negatives", negatives, &err), &err);
    }
    if (t->sampler) {
        bench_check(xsm_estimator_set(t->estimator, "sampler", t->sampler, &err), &err);
    }
    if (t->shared) {
        bench_check(xsm_estimator_set(t->estimator, "shared", "yes", &err), &err);
    }
    bench_check(xsm_optimizer_new(ctx, t->rule ? t->rule : "sgd", &t->optimizer, &err), &err);
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = UINT64_MAX / info.rows;
    options.batch = batch;
    options.eta = eta;
    options.progress = stop_at_end;
    options.progress_user = t;
    bench_check(xsm_trainer_new(ctx, t->model, data, t->estimator, t->optimizer, &options, &t->trainer, &err), &err);
}

void training_end(training *t)
{
    xsm_trainer_free(t->trainer);
    xsm_optimizer_free(t->optimizer);
    xsm_estimator_free(t->estimator);
    xsm_model_free(t->model);
    xsm_dataset_free(t->data);
    xsm_context_free(t->context);
}

double training_rate(void *state)
{
    training *t = state;
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    bench_check(xsm_dataset_get_info(t->data, &info, &err), &err);
    t->ends = 0;
    double start = peak_clock();
    xsm_status status = xsm_trainer_run(t->trainer, &err);
    double seconds = peak_clock() - start;
    bench_check(status == XSM_CANCELLED ? XSM_OK : status, &err);
    return (double)(info.rows * t->epochs) / seconds;
}
