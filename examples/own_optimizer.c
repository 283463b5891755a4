/*
 * An optimizer of the host, defined by the library's public table: RMSprop (Tieleman and Hinton, Lecture 6.5 of Neural
 * Networks for Machine Learning, 2012). Each weight has a mean of its squared gradients that forgets old ones,
 *     s <- decay s + (1 - decay) t^2,    w <- w - eta t / (sqrt(s) + epsilon),
 * where t is the gradient of the weight, summed over the batch.
 *
 * The library's test suite then checks that the table keeps its contract, and training compares the optimizer with the
 * built-in ones.
 *
 *     own_optimizer
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <xsoftmax.h>
#include <xsoftmax/ext/optimizer.h>

/* -- the optimizer ------------------------------------------------------------------------------------------------- */

/* The state: the library allocates it and stores the options' values in it. */
typedef struct rmsprop {
    double decay, epsilon;
} rmsprop;

static const xsm_option rmsprop_options[] = {
    {sizeof(xsm_option), "decay", XSM_OPTION_DOUBLE, offsetof(rmsprop, decay), "0.99", 0, 0.999999, NULL,
     "what a mean of squares keeps of itself in a step; the more, the longer it remembers"},
    {sizeof(xsm_option), "epsilon", XSM_OPTION_DOUBLE, offsetof(rmsprop, epsilon), "1e-3", 1e-12, 1, NULL,
     "added to the root of the mean, so that first steps and steps of small gradients stay short"},
};

/* Changes n weights and their means of squares. Weights without a gradient keep both: the library calls the rule for
 * the classes and features of a batch only, and a sum of 0 must not matter. */
static void rmsprop_rule(const void *state, float *weights, float *const *accumulators, const float *sum, size_t n,
                         const xsm_step *step)
{
    const rmsprop *s = state;
    const float decay = (float)s->decay, epsilon = (float)s->epsilon, eta = (float)step->eta;
    float *squares = accumulators[0];
    for (size_t i = 0; i < n; i++) {
        if (sum[i] != 0) {
            squares[i] = decay * squares[i] + (1 - decay) * sum[i] * sum[i];
            weights[i] -= eta * sum[i] / (sqrtf(squares[i]) + epsilon);
        }
    }
}

/* One number for each weight, which checkpoints save under this name. It starts at 0, as the table has no initial(). */
static const char *const rmsprop_accumulators[] = {"mean-squares"};

static const xsm_optimizer_ops rmsprop_table = {
    .size = sizeof(xsm_optimizer_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "rmsprop",
    .summary = "a rate for each weight by a mean of its last squared gradients (Tieleman and Hinton 2012)",
    .state_size = sizeof(rmsprop),
    .options = rmsprop_options,
    .option_count = sizeof rmsprop_options / sizeof rmsprop_options[0],
    .accumulator_names = rmsprop_accumulators,
    .accumulators = 1,
    .rule = rmsprop_rule,
};

/* -- comparison ---------------------------------------------------------------------------------------------------- */

enum { CLASSES = 500, FEATURES = 64, TRAIN_ROWS = 10000, TEST_ROWS = 2000, EPOCHS = 5 };

static void check(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        fprintf(stderr, "own_optimizer: %s\n", err->message);
        exit(1);
    }
}

/* Uniform in [-1, 1) (splitmix64). */
static float noise(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (float)((z ^ (z >> 31)) >> 40) / 8388608.0f - 1.0f;
}

/* Rows around the centre of their class; features have scales from 1 to 1/64, for which one rate for all weights is
 * too low or too high. */
static xsm_dataset *make_rows(uint64_t rows, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    static float centres[CLASSES][FEATURES];
    uint64_t centre_state = 1, state = seed << 32;
    float *values = malloc(sizeof *values * rows * FEATURES);
    uint32_t *classes = malloc(sizeof *classes * rows);
    if (!values || !classes) {
        fprintf(stderr, "own_optimizer: out of memory\n");
        exit(1);
    }
    for (size_t k = 0; k < CLASSES; k++) {
        for (size_t j = 0; j < FEATURES; j++) {
            centres[k][j] = noise(&centre_state);
        }
    }
    for (uint64_t i = 0; i < rows; i++) {
        classes[i] = (uint32_t)(i % CLASSES);
        for (size_t j = 0; j < FEATURES; j++) {
            values[i * FEATURES + j] = (centres[classes[i]][j] + noise(&state)) / (float)(1 + j);
        }
    }
    xsm_labels labels = XSM_LABELS_INIT;
    labels.classes = CLASSES;
    labels.labels = classes;
    xsm_dataset *data;
    check(xsm_dataset_from_dense(NULL,
                                 &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                   .values = values,
                                                   .rows = rows,
                                                   .features = FEATURES,
                                                   .labels = &labels},
                                 &data, &err),
          &err);
    free(classes);
    free(values);
    return data;
}

/* Trains with any table, the library's or the host's: the other code does not distinguish them. Returns P@1. */
static double compare(const xsm_optimizer_ops *ops, double eta, const xsm_dataset *train, const xsm_dataset *test)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *model;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
    xsm_trainer_options how = XSM_TRAINER_OPTIONS_INIT;
    double precision; /* at 1 */
    xsm_metrics metrics = XSM_METRICS_INIT;
    metrics.top = 1;
    metrics.precision = &precision;
    shape.bias = 1;
    how.epochs = EPOCHS;
    how.batch = 32;
    how.eta = eta;
    how.schedule = XSM_SCHEDULE_STEP;
    how.factor = 0.7;
    check(xsm_model_new_linear(NULL, FEATURES, CLASSES, &shape, &model, &err), &err);
    check(xsm_estimator_new(NULL, "softmax", &estimator, &err), &err);
    check(xsm_optimizer_new_from(NULL, ops, &optimizer, &err), &err);
    check(xsm_trainer_new(NULL, model, train, estimator, optimizer, &how, &trainer, &err), &err);
    check(xsm_trainer_run(trainer, &err), &err);
    check(xsm_evaluate(NULL, model, test, NULL, &metrics, &err), &err);
    printf("%-9s %6g %12.3f %10.1f %%\n", ops->name, eta, metrics.log_loss, 100 * precision);
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    xsm_model_free(model);
    return precision;
}

int main(void)
{
    xsm_error err = XSM_ERROR_INIT;
    check(xsm_optimizer_check(NULL, &rmsprop_table, NULL, &err), &err);
    printf("The table passes the suite. %d classes, %d rows to learn from, %d to test on:\n\n", CLASSES, TRAIN_ROWS,
           TEST_ROWS);
    xsm_dataset *train = make_rows(TRAIN_ROWS, 2), *test = make_rows(TEST_ROWS, 3);
    /* Learning rates from a grid of factors of 3. */
    printf("optimizer   rate     log-loss   first right\n");
    double own = compare(&rmsprop_table, 1, train, test);
    compare(xsm_optimizer_find("adagrad"), 30, train, test);
    double plain = compare(xsm_optimizer_find("sgd"), 300, train, test);
    xsm_dataset_free(test);
    xsm_dataset_free(train);
    return own > plain ? 0 : 1;
}
