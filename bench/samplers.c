/*
 * How near samplers are to the softmax of a trained model, and how fast they draw.
 *
 *     bench_samplers MODEL TRAIN TEST       see doc/measurements/estimators.md; bench/samplers.py runs it
 *
 * MODEL is an embedding model with one label a row. For each sampler: processor seconds to make its distribution from
 * the rows of TRAIN or the weights, KL(softmax || q) by enumeration of all classes, mean over the first 300 rows of
 * TEST, and draws a second on one thread, 20 for each row, the row's code included.
 */
#include "calls.h"

#include <math.h>
#include <string.h>

#include <xsoftmax/draw.h>

enum { ROWS = 300, TOGETHER = 20, DRAWS = 20 };

static xsm_error err = XSM_ERROR_INIT;

static double spent(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static xsm_dataset *read_rows(xsm_context *context, const xsm_model *model, const char *path)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    xsm_dataset *rows = NULL;
    check(xsm_model_get_class_map(model, &map, &err), &err);
    read.classes = &map;
    read.labels = XSM_KEEP_LABELS_FIRST;
    check(xsm_dataset_read(context, path, NULL, &read, &rows, &err), &err);
    check(xsm_model_transform(model, rows, &err), &err);
    return rows;
}

/* The hidden vectors of the first rows: what a sampler that follows the training draws by. */
static xsm_dataset *hide(xsm_context *context, const xsm_model *model, const xsm_dataset *rows, uint64_t count)
{
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
    xsm_dataset *out = NULL;
    const xsm_batch batch = xsm_batch_range(rows, 0, count);
    check(xsm_model_get_info(model, &info, &err), &err);
    float *values = memory(count * info.hidden, sizeof *values);
    check(xsm_model_hidden_vectors(model, &batch, values, info.hidden, &err), &err);
    dense.values = values;
    dense.rows = count;
    dense.features = info.hidden;
    check(xsm_dataset_from_dense(context, &dense, &out, &err), &err);
    free(values);
    return out;
}

static double divergence(const float *scores, const float *log_q, size_t classes)
{
    double most = -INFINITY, sum = 0, kl = 0;
    for (size_t k = 0; k < classes; k++) {
        most = fmax(most, (double)scores[k]);
    }
    for (size_t k = 0; k < classes; k++) {
        sum += exp((double)scores[k] - most);
    }
    for (size_t k = 0; k < classes; k++) {
        const double log_p = (double)scores[k] - most - log(sum);
        kl += exp(log_p) * (log_p - (double)log_q[k]);
    }
    return kl;
}

static void measure(xsm_context *context, const xsm_model *model, const xsm_dataset *train, const xsm_dataset *test,
                    const char *name, const char *words)
{
    xsm_sampler *sampler = NULL;
    xsm_estimator *estimator = NULL;
    xsm_gradient *gradient = NULL;
    const xsm_batch one = xsm_batch_range(train, 0, 1);
    check(xsm_sampler_new(context, name, &sampler, &err), &err);
    check(words ? xsm_sampler_set(sampler, "words", words, &err) : XSM_OK, &err);
    check(xsm_estimator_new(context, "sampled-softmax", &estimator, &err), &err);
    check(xsm_estimator_set_sampler(estimator, sampler, &err), &err);
    check(xsm_gradient_new(context, &gradient, &err), &err);
    const double start = spent();
    check(xsm_estimator_bind(estimator, model, train, &err), &err);
    for (int step = 0; step < 2; step++) { /* one that follows looks at the weights before the second */
        check(xsm_estimator_gradient(estimator, &one, 1, gradient, &err), &err);
    }
    const double made = spent() - start;

    const uint32_t classes = xsm_model_class_count(model);
    xsm_dataset *hidden = words ? hide(context, model, test, ROWS) : NULL;
    const xsm_dataset *drawn = hidden ? hidden : test;
    float *scores = memory(TOGETHER * (size_t)classes, sizeof *scores);
    float *log_q = memory(TOGETHER * (size_t)classes, sizeof *log_q);
    double kl = 0, draws = 0;
    for (uint64_t first = 0; first < ROWS; first += TOGETHER) {
        const xsm_batch batch = xsm_batch_range(test, first, TOGETHER), by = xsm_batch_range(drawn, first, TOGETHER);
        check(xsm_model_score_range(model, &batch, 0, classes, scores, classes, &err), &err);
        check(xsm_sampler_log_probabilities(sampler, &by, 0, classes, log_q, &err), &err);
        for (size_t i = 0; i < TOGETHER; i++) {
            kl += divergence(scores + i * classes, log_q + i * classes, classes) / ROWS;
        }
    }
    uint32_t *found = memory((size_t)ROWS * DRAWS, sizeof *found);
    double *log_of_found = memory((size_t)ROWS * DRAWS, sizeof *log_of_found);
    const xsm_batch all = xsm_batch_range(drawn, 0, ROWS);
    xsm_draw draw = XSM_DRAW_INIT;
    draw.batch = &all;
    draw.count = DRAWS;
    draw.classes = found;
    draw.log_probabilities = log_of_found;
    const double from = spent();
    for (; spent() - from < 0.5; draws += ROWS * DRAWS, draw.position += ROWS) {
        check(xsm_sampler_draw(sampler, &draw, &err), &err);
    }
    const double speed = draws / (spent() - from);
    printf("| %s%s%s | %.2f | %.2f | %.2f |\n", name, words ? ", M = " : "", words ? words : "", made, kl, speed / 1e6);
    fflush(stdout);
    free(scores);
    free(log_q);
    free(found);
    free(log_of_found);
    xsm_gradient_free(gradient);
    xsm_dataset_free(hidden);
    xsm_estimator_free(estimator);
    xsm_sampler_free(sampler);
}

int main(int argc, char **argv)
{
    static const char *const samplers[][2] = {{"uniform", NULL},    {"frequency", NULL}, {"tree", NULL},
                                              {"label-tree", NULL}, {"midx", "16"},      {"midx", "64"},
                                              {"midx", "256"}};
    xsm_context *context = NULL;
    xsm_context_options how = XSM_CONTEXT_OPTIONS_INIT;
    xsm_model *model = NULL;
    if (argc != 4) {
        fprintf(stderr, "usage: bench_samplers MODEL TRAIN TEST\n");
        return 2;
    }
    how.threads = 1;
    check(xsm_context_new(&how, &context, &err), &err);
    check(xsm_model_load(context, argv[1], NULL, NULL, &model, &err), &err);
    xsm_dataset *train = read_rows(context, model, argv[2]), *test = read_rows(context, model, argv[3]);
    printf("| sampler | made, s | KL | million draws a second |\n|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof samplers / sizeof *samplers; i++) {
        measure(context, model, train, test, samplers[i][0], samplers[i][1]);
    }
    xsm_dataset_free(train);
    xsm_dataset_free(test);
    xsm_model_free(model);
    xsm_context_free(context);
    return 0;
}
