/*
 * A program against the static library: trains a small model, saves and loads it, and meets errors of the system. It
 * needs no test framework, so that .ci/musl can build it for a C library that has none. Exit status 0: all is well.
 */
#include <xsoftmax.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3000, FEATURES = 20, CLASSES = 10, THREADS = 4 };

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s: ", __LINE__, #condition);                                                    \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define CHECK_OK(call) CHECK((call) == XSM_OK, "%s", err.message)

/* The call failed as the system did: an I/O error that names the file and says why in the system's words. */
static void check_reason(xsm_status status, const xsm_error *err, const char *path, int number)
{
    CHECK(status == XSM_ERROR_IO, "%d, %s", (int)status, err->message);
    CHECK(strstr(err->message, path), "%s", err->message);
    CHECK(strstr(err->message, strerror(number)), "%s; wanted: %s", err->message, strerror(number));
    printf("%s\n", err->message);
}

/* Row i is of class i % CLASSES, and has two features of it among others. */
static float value(int row, int feature)
{
    const int class = row % CLASSES;
    return (feature == 2 * class || feature == 2 * class + 1 ? 1.0f : 0.0f) +
           (float)((row * 7 + feature * 3) % 5) * 0.1f;
}

static void train(xsm_context *ctx, const char *name, xsm_model *model, const xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 5;
    options.eta = 0.1;
    options.batch = 64;
    CHECK_OK(xsm_estimator_new(ctx, name, &estimator, &err));
    CHECK_OK(xsm_optimizer_new(ctx, "adagrad", &optimizer, &err));
    CHECK_OK(xsm_trainer_new(ctx, model, data, estimator, optimizer, &options, &trainer, &err));
    CHECK_OK(xsm_trainer_run(trainer, &err));
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
}

int main(void)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context *ctx;
    xsm_context_options context = XSM_CONTEXT_OPTIONS_INIT;
    context.threads = THREADS; /* the built-in runner's, with the stacks that the C library gives them */
    CHECK_OK(xsm_context_new(&context, &ctx, &err));

    static float x[ROWS * FEATURES];
    static uint32_t labels[ROWS];
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < FEATURES; j++) {
            x[i * FEATURES + j] = value(i, j);
        }
        labels[i] = (uint32_t)(i % CLASSES);
    }
    xsm_labels classes = XSM_LABELS_INIT;
    classes.classes = CLASSES;
    classes.labels = labels;
    xsm_dataset *data;
    CHECK_OK(xsm_dataset_from_dense(ctx,
                                    &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                      .values = x,
                                                      .rows = ROWS,
                                                      .features = FEATURES,
                                                      .labels = &classes,
                                                      .ownership = XSM_BORROW},
                                    &data, &err));

    /* A softmax over all classes, and a method that draws classes from a sampler: both on the threads. */
    static const char *const names[] = {"softmax", "ove", "sampled-softmax"};
    xsm_metrics before = XSM_METRICS_INIT, after = XSM_METRICS_INIT;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        xsm_model *model, *loaded;
        CHECK_OK(xsm_model_new_linear(ctx, FEATURES, CLASSES, NULL, &model, &err));
        train(ctx, names[i], model, data);
        CHECK_OK(xsm_evaluate(ctx, model, data, NULL, &before, &err));
        CHECK(before.error < 0.05, "%s: an error of %g", names[i], before.error);
        CHECK_OK(xsm_model_save(model, "small.safetensors", NULL, &err));
        CHECK_OK(xsm_model_load(ctx, "small.safetensors", NULL, NULL, &loaded, &err));
        CHECK_OK(xsm_evaluate(ctx, loaded, data, NULL, &after, &err));
        CHECK(after.log_loss == before.log_loss, "%s: %.17g, loaded %.17g", names[i], before.log_loss, after.log_loss);
        printf("%s: error %g, log-loss %g\n", names[i], after.error, after.log_loss);
        xsm_model_free(loaded);

        if (i == 0) {
            check_reason(xsm_model_save(model, "no/such/folder/x.safetensors", NULL, &err), &err,
                         "no/such/folder/x.safetensors", ENOENT);
            check_reason(xsm_model_save(model, "/dev/full", NULL, &err), &err, "/dev/full", ENOSPC);
            check_reason(xsm_model_load(ctx, "missing.safetensors", NULL, NULL, &loaded, &err), &err,
                         "missing.safetensors", ENOENT);
        }
        xsm_model_free(model);
    }
    xsm_dataset *missing;
    check_reason(xsm_dataset_read(ctx, "missing.csv", NULL, NULL, &missing, &err), &err, "missing.csv", ENOENT);
    remove("small.safetensors");
    xsm_dataset_free(data);
    xsm_context_free(ctx);
    return 0;
}
