/*
 * Quickstart: a thousand classes, three ways to train. Makes clustered data, trains a model with each of three
 * estimators, and compares them on rows that were not used in training. Then saves the best model, loads it again and
 * checks that its predictions are the same.
 *
 *     quickstart [MODEL-FILE]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <xsoftmax.h>

enum { CLASSES = 1000, FEATURES = 32, TRAIN_ROWS = 20000, TEST_ROWS = 4000, EPOCHS = 10 };

/* The methods to compare. The learning rates are the best of a coarse grid; each is multiplied by 0.8 after an
 * epoch. */
static const struct method {
    const char *name, *looks_at, *negatives;
    uint64_t batch;
    double eta;
} methods[] = {
    {"softmax", "all 1,000 classes", NULL, 100, 100},
    {"ove", "its class and 10 others", "10", 1, 0.005},
    {"implicit", "its class and 10 others", "10", 1, 10},
};
enum { METHODS = sizeof methods / sizeof methods[0] };

/* Every call that can fail returns a status and explains itself in an xsm_error. */
static void check(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        fprintf(stderr, "quickstart: %s\n", err->message);
        exit(1);
    }
}

/* A random number in [-1, 1), the same on every machine (splitmix64). */
static float noise(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (float)((z ^ (z >> 31)) >> 40) / 8388608.0f - 1.0f;
}

/* Rows around the centre of their class. The centres are so near to one another that some classes overlap. */
static xsm_dataset *make_data(xsm_context *context, uint64_t rows, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    uint64_t centre_state = 1, state = seed;
    float *centres = malloc(sizeof *centres * CLASSES * FEATURES);
    float *values = malloc(sizeof *values * rows * FEATURES);
    uint32_t *classes = malloc(sizeof *classes * rows);
    if (!centres || !values || !classes) {
        fprintf(stderr, "quickstart: out of memory\n");
        exit(1);
    }
    for (size_t i = 0; i < (size_t)CLASSES * FEATURES; i++) {
        centres[i] = noise(&centre_state) / 3;
    }
    for (uint64_t i = 0; i < rows; i++) {
        classes[i] = (uint32_t)(i % CLASSES);
        for (size_t j = 0; j < FEATURES; j++) {
            values[i * FEATURES + j] = centres[(size_t)classes[i] * FEATURES + j] + noise(&state) / 3;
        }
    }
    xsm_labels labels = XSM_LABELS_INIT;
    labels.classes = CLASSES;
    labels.labels = classes;
    xsm_dense_rows given = XSM_DENSE_ROWS_INIT;
    given.values = values;
    given.rows = rows;
    given.features = FEATURES;
    given.labels = &labels;
    xsm_dataset *dataset;
    check(xsm_dataset_from_dense(context, &given, &dataset, &err), &err);
    free(classes);
    free(values);
    free(centres);
    return dataset;
}

static double seconds_now(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Trains a new model. */
static xsm_model *train(xsm_context *context, const struct method *method, const xsm_dataset *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    xsm_trainer_options how = XSM_TRAINER_OPTIONS_INIT;
    shape.bias = 1;
    how.epochs = EPOCHS;
    how.batch = method->batch;
    how.eta = method->eta;
    how.schedule = XSM_SCHEDULE_STEP;
    how.factor = 0.8;

    check(xsm_model_new_linear(context, FEATURES, CLASSES, &shape, &model, &err), &err);
    check(xsm_estimator_new(context, method->name, &estimator, &err), &err);
    if (method->negatives) {
        check(xsm_estimator_set(estimator, "negatives", method->negatives, &err), &err);
    }
    check(xsm_optimizer_new(context, "sgd", &optimizer, &err), &err);
    check(xsm_trainer_new(context, model, rows, estimator, optimizer, &how, &trainer, &err), &err);
    check(xsm_trainer_run(trainer, &err), &err);
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    return model;
}

/* The best class of every row; the caller frees the array. */
static uint32_t *predict(const xsm_model *model, const xsm_dataset *rows, uint64_t count)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor *predictor;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    uint32_t *classes = malloc(sizeof *classes * count);
    if (!classes) {
        fprintf(stderr, "quickstart: out of memory\n");
        exit(1);
    }
    options.top = 1;
    check(xsm_predictor_new(model, &options, &predictor, &err), &err);
    xsm_batch batch = xsm_batch_range(rows, 0, count);
    xsm_prediction prediction = XSM_PREDICTION_INIT;
    prediction.batch = &batch;
    prediction.classes = classes;
    check(xsm_predictor_run(predictor, &prediction, &err), &err);
    xsm_predictor_free(predictor);
    return classes;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "quickstart.safetensors";
    xsm_error err = XSM_ERROR_INIT;
    /* A context limits what the library may use: here one thread, so that the times are comparable. NULL instead of a
     * context means all processors. */
    xsm_context *context;
    xsm_context_options one_thread = XSM_CONTEXT_OPTIONS_INIT;
    one_thread.threads = 1;
    check(xsm_context_new(&one_thread, &context, &err), &err);
    xsm_dataset *train_rows = make_data(context, TRAIN_ROWS, 2), *test_rows = make_data(context, TEST_ROWS, 3);
    xsm_model *best = NULL;
    double best_loss = 0;

    printf("Rows of %d numbers, each of one of %d classes: %d rows to learn from, %d to test on.\n", FEATURES, CLASSES,
           TRAIN_ROWS, TEST_ROWS);
    printf(
        "Accuracy is how often the best class is the true one; log-loss is -log of the probability of the true class,\n"
        "on average: smaller is better.\n\n");
    printf("estimator   a step scores               log-loss   accuracy   time to train, one thread\n");
    printf("(guessing)                                 6.908      0.1 %%\n");
    for (size_t i = 0; i < METHODS; i++) {
        double start = seconds_now();
        xsm_model *model = train(context, &methods[i], train_rows);
        double seconds = seconds_now() - start;
        xsm_metrics metrics = XSM_METRICS_INIT;
        check(xsm_evaluate(context, model, test_rows, NULL, &metrics, &err), &err);
        printf("%-11s %-26s %9.3f %8.1f %% %10.2f s\n", methods[i].name, methods[i].looks_at, metrics.log_loss,
               100 * (1 - metrics.error), seconds);
        fflush(stdout);
        if (!best || metrics.log_loss < best_loss) {
            xsm_model_free(best);
            best = model;
            best_loss = metrics.log_loss;
        } else {
            xsm_model_free(model);
        }
    }

    xsm_model *loaded;
    check(xsm_model_save(best, path, NULL, &err), &err);
    check(xsm_model_load(context, path, NULL, NULL, &loaded, &err), &err);
    uint32_t *before = predict(best, test_rows, TEST_ROWS), *after = predict(loaded, test_rows, TEST_ROWS);
    int same = memcmp(before, after, sizeof *before * TEST_ROWS) == 0;
    printf("\nThe best model was saved to %s and loaded again: %s.\n", path,
           same ? "it predicts the same class for every test row" : "its predictions DIFFER");

    free(after);
    free(before);
    xsm_model_free(loaded);
    xsm_model_free(best);
    xsm_dataset_free(test_rows);
    xsm_dataset_free(train_rows);
    xsm_context_free(context);
    return same ? 0 : 1;
}
