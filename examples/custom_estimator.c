/*
 * An estimator of the host, defined by the library's public table: WARP, the weighted approximate-rank pairwise loss
 * (Weston, Bengio and Usunier, WSABIE: scaling up to large vocabulary image annotation, 2011). It draws up to m classes
 * and stops at the first whose score (logit) is within a margin of 1 of the label's score. If that is draw number j,
 * the label's rank is about r = (K-1)/j, and the example's loss is (1/1 + 1/2 + ... + 1/r) (1 - z_y + z_k), so that
 * steps are longer for labels of worse rank. WARP learns a ranking, not probabilities: the log-loss of such a model has
 * no meaning, the classes that it ranks first do.
 *
 * The library's test suite then checks that the table keeps its contract, and training compares the estimator with
 * built-in ones.
 *
 *     custom_estimator
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <xsoftmax.h>
#include <xsoftmax/ext/context.h>
#include <xsoftmax/ext/estimator.h>

/* -- the estimator ------------------------------------------------------------------------------------------------- */

/* The state: the library allocates and zeroes it, and stores the options' values in it. */
typedef struct warp {
    int64_t most; /* option `negatives` */
    double margin;
    uint32_t classes;
    uint64_t seed;
    xsm_context *context;
    double *harmonic; /* [classes] 1 + 1/2 + ... + 1/r */
} warp;

static const xsm_option warp_options[] = {
    {sizeof(xsm_option), "negatives", XSM_OPTION_INT, offsetof(warp, most), "30", 1, XSM_CLASSES_MAX, NULL,
     "classes tried to find one within the margin, at most"},
    {sizeof(xsm_option), "margin", XSM_OPTION_DOUBLE, offsetof(warp, margin), "1", 0, 1e6, NULL,
     "how far above all others the label's score is to be"},
};

/* Memory comes from the problem's context, so that the host's allocator is used and the memory is counted. */
static xsm_status warp_bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    warp *s = state;
    (void)err; /* the status is enough */
    s->classes = problem->classes;
    s->seed = problem->seed;
    s->context = problem->context;
    s->harmonic = xsm_context_allocate(s->context, s->classes * sizeof *s->harmonic);
    if (!s->harmonic) {
        return XSM_ERROR_MEMORY;
    }
    s->harmonic[0] = 0;
    for (uint32_t r = 1; r < s->classes; r++) {
        s->harmonic[r] = s->harmonic[r - 1] + 1.0 / r;
    }
    return XSM_OK;
}

static void warp_unbind(void *state)
{
    warp *s = state;
    if (s->harmonic) {
        xsm_context_release(s->context, s->harmonic, s->classes * sizeof *s->harmonic);
        s->harmonic = NULL;
    }
}

static uint64_t warp_width(const void *state)
{
    const warp *s = state;
    uint64_t all = 1 + (uint64_t)s->most;
    return all < s->classes ? all : s->classes;
}

/* A random number that depends on the seed, the example's position and j alone (splitmix64), so that results do not
 * depend on the number of threads. */
static uint64_t number(const warp *s, uint64_t position, uint64_t j)
{
    uint64_t z = s->seed * UINT64_C(0xd1342543de82ef95) + position * UINT64_C(0x2545f4914f6cdd1d) +
                 j * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The label, then distinct other classes in the order of drawing. */
static void warp_select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                        uint32_t *lengths)
{
    const warp *s = state;
    uint32_t width = (uint32_t)warp_width(s);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t *of = classes + i * width, length = 1;
        of[0] = examples[i].labels[0];
        for (uint64_t j = 0; length < width; j++) {
            uint32_t k = (uint32_t)(number(s, examples[i].position, j) % s->classes), before = 0;
            while (before < length && of[before] != k) {
                before++;
            }
            if (before == length) {
                of[length++] = k;
            }
        }
        lengths[i] = length;
    }
}

/* Input: scores; output: the coefficients of each example. The library divides by the number of examples in a batch. */
static void warp_gradient(void *state, const xsm_score_block *block)
{
    const warp *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        uint32_t length = block->lengths[i], found = 1;
        for (uint32_t j = 0; j < length; j++) {
            g[j] = 0;
        }
        while (found < length && (double)z[found] + s->margin <= (double)z[0]) {
            found++;
        }
        block->losses[i] = 0;
        if (found < length) {
            double weight = s->harmonic[(s->classes - 1) / found];
            g[0] = (float)-weight;
            g[found] = (float)weight;
            block->losses[i] = weight * (s->margin - (double)z[0] + (double)z[found]);
        }
    }
}

static const xsm_estimator_ops warp_table = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "warp",
    .summary = "the weighted approximate-rank pairwise loss (Weston, Bengio and Usunier 2011)",
    .state_size = sizeof(warp),
    .options = warp_options,
    .option_count = sizeof warp_options / sizeof warp_options[0],
    .bind = warp_bind,
    .unbind = warp_unbind,
    .width = warp_width,
    .select = warp_select,
    .gradient = warp_gradient,
};

/* -- measurement --------------------------------------------------------------------------------------------------- */

enum { CLASSES = 1000, FEATURES = 32, TRAIN_ROWS = 20000, TEST_ROWS = 4000, EPOCHS = 10 };

static void check(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        fprintf(stderr, "custom_estimator: %s\n", err->message);
        exit(1);
    }
}

static float noise(uint64_t *state)
{
    warp w = {.seed = 0};
    return (float)(number(&w, 0, ++*state) >> 40) / 8388608.0f - 1.0f;
}

/* Rows around the centre of their class. */
static xsm_dataset *make_rows(uint64_t rows, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    uint64_t centre_state = 1, state = seed << 32;
    float *centres = malloc(sizeof *centres * CLASSES * FEATURES), *values = malloc(sizeof *values * rows * FEATURES);
    uint32_t *classes = malloc(sizeof *classes * rows);
    if (!centres || !values || !classes) {
        fprintf(stderr, "custom_estimator: out of memory\n");
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
    free(centres);
    return data;
}

/* Trains with any table, the library's or the host's: the other code does not distinguish them. Returns P@1. */
static double compare(const xsm_estimator_ops *ops, const char *negatives, double eta, const xsm_dataset *train,
                      const xsm_dataset *test)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context *context;
    xsm_context_options one_thread = XSM_CONTEXT_OPTIONS_INIT;
    xsm_model *model;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
    xsm_trainer_options how = XSM_TRAINER_OPTIONS_INIT;
    one_thread.threads = 1;
    shape.bias = 1;
    how.epochs = EPOCHS;
    how.batch = 1;
    how.eta = eta;
    how.schedule = XSM_SCHEDULE_STEP;
    how.factor = 0.8;
    check(xsm_context_new(&one_thread, &context, &err), &err);
    check(xsm_model_new_linear(context, FEATURES, CLASSES, &shape, &model, &err), &err);
    check(xsm_estimator_new_from(context, ops, &estimator, &err), &err);
    check(xsm_estimator_set(estimator, "negatives", negatives, &err), &err);
    check(xsm_optimizer_new(context, "sgd", &optimizer, &err), &err);
    check(xsm_trainer_new(context, model, train, estimator, optimizer, &how, &trainer, &err), &err);
    clock_t start = clock();
    check(xsm_trainer_run(trainer, &err), &err);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;

    double precision[5]; /* at 1 to 5 */
    xsm_metrics metrics = XSM_METRICS_INIT;
    metrics.top = 5;
    metrics.precision = precision;
    check(xsm_evaluate(context, model, test, NULL, &metrics, &err), &err);
    printf("%-9s %9s %10.1f %% %10.1f %% %10.2f s\n", ops->name, negatives, 100 * precision[0], 500 * precision[4],
           seconds);
    fflush(stdout);
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    xsm_model_free(model);
    xsm_context_free(context);
    return precision[0];
}

int main(void)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator_check_options promises = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    promises.promises = XSM_ESTIMATOR_CHECK_FINITE | XSM_ESTIMATOR_CHECK_GRADIENT | XSM_ESTIMATOR_CHECK_ZERO_SUM;
    check(xsm_estimator_check(NULL, &warp_table, &promises, &err), &err);
    printf("The table passes the suite. %d classes, %d rows to learn from, %d to test on:\n\n", CLASSES, TRAIN_ROWS,
           TEST_ROWS);
    xsm_dataset *train = make_rows(TRAIN_ROWS, 2), *test = make_rows(TEST_ROWS, 3);
    /* Learning rates from a coarse grid, chosen on rows of other seeds. */
    printf("estimator negatives   first right   among five   one thread\n");
    double own = compare(&warp_table, "30", 0.005, train, test);
    double ove = compare(xsm_estimator_find("ove"), "10", 0.005, train, test);
    compare(xsm_estimator_find("implicit"), "10", 10, train, test);
    xsm_dataset_free(test);
    xsm_dataset_free(train);
    /* A random guess is right for one row in a thousand. */
    return own > 0.8 && ove > 0.7 ? 0 : 1;
}
