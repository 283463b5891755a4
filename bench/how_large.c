/*
 * What K classes cost: memory, seconds of training, milliseconds of a request.
 *
 *     bench_how_large vectors|dense K [THREADS]
 *
 * `vectors`: rows of 20 of 100,000 features, an embedding model of 64 numbers. `dense`: rows of 128 numbers, a linear
 * model. Labels are drawn by Zipf's law among all classes. Trains on 200,000 rows for an epoch by `sampled-softmax`
 * (1,000 negatives by frequency that the 128 rows of a batch share) and `row-adagrad`. Then predicts the best five of
 * one row, with probabilities from all scores, and with scores alone from a `spherical` index. The most memory is that
 * of the process, rows and the index included.
 */
#include "calls.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { ROWS = 200000, EACH = 20, FEATURES = 100000, HIDDEN = 64, WIDTH = 128, TOP = 5, CALLS = 21 };

static xsm_dataset *make_rows(xsm_context *context, bool vectors, uint32_t classes)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *rows = NULL;
    const size_t each = vectors ? EACH : WIDTH;
    uint64_t state = 3, *offsets = memory(ROWS + 1, sizeof *offsets);
    uint32_t *index = memory(ROWS * each, sizeof *index), *labels = memory(ROWS, sizeof *labels);
    float *values = memory(ROWS * each, sizeof *values);
    for (size_t i = 0; i < ROWS; i++) {
        labels[i] = (uint32_t)(exp(uniform(&state) * log(classes))) % classes; /* the k-th: about 1 / (k log K) */
        offsets[i + 1] = offsets[i] + each;
        for (size_t j = 0; j < each; j++) { /* a feature of each twentieth, so that they rise */
            index[i * each + j] = (uint32_t)((j + uniform(&state)) * (FEATURES / EACH));
            values[i * each + j] = vectors ? 1.0f / EACH : (float)(uniform(&state) - 0.5);
        }
    }
    xsm_labels given = XSM_LABELS_INIT;
    given.classes = classes;
    given.labels = labels;
    xsm_csr_rows sparse = {.size = sizeof sparse,
                           .offsets = offsets,
                           .index = index,
                           .values = values,
                           .rows = ROWS,
                           .features = FEATURES,
                           .labels = &given};
    xsm_dense_rows dense = {.size = sizeof dense, .values = values, .rows = ROWS, .features = WIDTH, .labels = &given};
    check(vectors ? xsm_dataset_from_csr(context, &sparse, &rows, &err)
                  : xsm_dataset_from_dense(context, &dense, &rows, &err),
          &err);
    free(offsets);
    free(index);
    free(labels);
    free(values);
    return rows;
}

static double train(xsm_context *context, xsm_model *model, const xsm_dataset *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator *estimator = NULL;
    xsm_optimizer *optimizer = NULL;
    xsm_trainer *trainer = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    check(xsm_estimator_new(context, "sampled-softmax", &estimator, &err), &err);
    check(xsm_estimator_set(estimator, "negatives", "1000", &err), &err);
    check(xsm_estimator_set(estimator, "shared", "yes", &err), &err);
    check(xsm_estimator_set(estimator, "sampler", "frequency", &err), &err);
    check(xsm_optimizer_new(context, "row-adagrad", &optimizer, &err), &err);
    options.epochs = 1;
    options.batch = 128;
    options.eta = 0.1;
    check(xsm_trainer_new(context, model, rows, estimator, optimizer, &options, &trainer, &err), &err);
    const double start = now();
    check(xsm_trainer_run(trainer, &err), &err);
    const double seconds = now() - start;
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    return seconds;
}

/* The median of some requests of one row each, in milliseconds. */
static double request(const xsm_model *model, const xsm_index *index, const xsm_dataset *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_predictor *predictor = NULL;
    uint32_t classes[TOP];
    double probabilities[TOP], times[CALLS];
    options.top = TOP;
    options.index = index;
    check(xsm_predictor_new(model, &options, &predictor, &err), &err);
    for (uint32_t i = 0; i <= CALLS; i++) { /* the first is not counted */
        xsm_batch batch = xsm_batch_range(rows, i, 1);
        const double start = now();
        check(xsm_predictor_run(predictor,
                                &(xsm_prediction){.size = sizeof(xsm_prediction),
                                                  .batch = &batch,
                                                  .classes = classes,
                                                  .probabilities = index ? NULL : probabilities},
                                &err),
              &err);
        times[i > 0 ? i - 1 : 0] = 1e3 * (now() - start);
    }
    xsm_predictor_free(predictor);
    qsort(times, CALLS, sizeof *times, compare);
    return times[CALLS / 2];
}

static double mebibytes(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)used.ru_maxrss / 1024;
}

int main(int argc, char **argv)
{
    const bool vectors = argc > 1 && strcmp(argv[1], "vectors") == 0;
    const double k = argc > 2 ? strtod(argv[2], NULL) : 0;
    if (!(vectors || (argc > 1 && strcmp(argv[1], "dense") == 0)) || !(k >= 2 && k <= XSM_CLASSES_MAX)) {
        fprintf(stderr, "usage: bench_how_large vectors|dense K [THREADS]\n");
        return 2;
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_context *context = NULL;
    xsm_context_options how = XSM_CONTEXT_OPTIONS_INIT;
    xsm_embedding_options embedding = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_model_options linear = XSM_MODEL_OPTIONS_INIT;
    xsm_model *model = NULL;
    xsm_index *index = NULL;
    how.threads = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    embedding.bias = linear.bias = 1;
    check(xsm_context_new(&how, &context, &err), &err);
    xsm_dataset *rows = make_rows(context, vectors, (uint32_t)k);
    check(vectors ? xsm_model_new_embedding(context, FEATURES, HIDDEN, (uint32_t)k, &embedding, &model, &err)
                  : xsm_model_new_linear(context, WIDTH, (uint32_t)k, &linear, &model, &err),
          &err);
    const double trained = train(context, model, rows), peak = mebibytes(), all = request(model, NULL, rows);
    printf("%s, K = %.0f: training %.0f MiB at most, %.0f s for a million rows; a request %.2f ms", argv[1], k, peak,
           trained * 1e6 / ROWS, all);
    fflush(stdout);
    double start = now();
    check(xsm_index_new(context, "spherical", &index, &err), &err);
    check(xsm_index_build_model(index, model, &err), &err);
    start = now() - start;
    printf("; an index %.0f s to build, %.0f MiB in all, a request %.3f ms\n", start, mebibytes(),
           request(model, index, rows));
    xsm_index_free(index);
    xsm_model_free(model);
    xsm_dataset_free(rows);
    xsm_context_free(context);
    return 0;
}
