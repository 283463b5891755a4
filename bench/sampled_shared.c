/*
 * Minibatches of sparse rows on an embedding model, with a sampled softmax whose draws are shared by the batch: the
 * case that the automatic choice uses most. A batch makes three products of examples x draws x H, for scores (logits),
 * for the gradient of the hidden vectors and for that of the classes; nothing else is counted. The ceiling is fused
 * multiply-adds on registers only.
 */
#include "ceilings.h"
#include "data.h"
#include "training.h"
#include "train/trainer.h"

#include <stdlib.h>

enum {
    ROWS = 16384,
    FEATURES = 20000,
    ROW_FEATURES = 10,
    CLASSES = 100000,
    MANY = 1000000,
    HIDDEN = 256,
    BATCH = 128,
    DRAWS = 1000
};

/* Rows of ROW_FEATURES features of equal value, each feature from its own range. */
static xsm_dataset *rows_of(xsm_context *ctx, size_t rows, uint32_t classes)
{
    enum { RANGE = FEATURES / ROW_FEATURES };
    bench_random random = {7};
    uint64_t *offsets = bench_memory(rows + 1, sizeof *offsets);
    uint32_t *index = bench_memory(rows * ROW_FEATURES, sizeof *index);
    float *values = bench_memory(rows * ROW_FEATURES, sizeof *values);
    uint32_t *labels = bench_memory(rows, sizeof *labels);
    for (size_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < ROW_FEATURES; j++) {
            index[i * ROW_FEATURES + j] = j * RANGE + (uint32_t)bench_below(&random, RANGE);
            values[i * ROW_FEATURES + j] = 0.316f;
        }
        offsets[i + 1] = (i + 1) * ROW_FEATURES;
        labels[i] = (uint32_t)bench_below(&random, classes);
    }
    xsm_labels of = {sizeof of, classes, 0, NULL, labels, NULL};
    xsm_dataset *data = NULL;
    xsm_error err = XSM_ERROR_INIT;
    bench_check(xsm_dataset_from_csr(ctx,
                                     &(xsm_csr_rows){.size = sizeof(xsm_csr_rows),
                                                     .offsets = offsets,
                                                     .index = index,
                                                     .values = values,
                                                     .rows = rows,
                                                     .features = FEATURES,
                                                     .labels = &of},
                                     &data, &err),
                &err);
    free(offsets);
    free(index);
    free(values);
    free(labels);
    return data;
}

static double train(void *state)
{
    return 3.0 * 2.0 * DRAWS * HIDDEN * training_rate(state);
}

static bench_result in_giga(bench_result result)
{
    result.value *= 1e-9;
    result.ceiling *= 1e-9;
    return result;
}

bench_result bench_batch_sampled_shared(uint32_t threads)
{
    xsm_context *ctx = bench_context(threads);
    training t = {.sampler = "frequency", .shared = true, .hidden = HIDDEN, .rule = "adagrad"};
    training_start(&t, ctx, rows_of(ctx, ROWS, CLASSES), "sampled-softmax", DRAWS, BATCH, 0.05);
    ceilings c = ceilings_new(threads, NULL, 0, 0);
    bench_result result = bench_measure(train, &t, ceiling_fma, &c, "GFLOP/s");
    ceilings_free(&c);
    training_end(&t);
    return in_giga(result);
}

/* A million classes: weights and sums no longer fit into any cache. */
static void start_rule(training *t, uint32_t threads)
{
    xsm_context *ctx = bench_context(threads);
    training_start(t, ctx, rows_of(ctx, ROWS, MANY), "sampled-softmax", DRAWS, BATCH, 0.05);
}

bench_result bench_batch_row_adagrad(uint32_t threads)
{
    training row = {.sampler = "frequency", .shared = true, .hidden = HIDDEN, .rule = "row-adagrad"}, each = row;
    each.rule = "adagrad";
    start_rule(&row, threads);
    start_rule(&each, threads);
    bench_result result = bench_measure_pairs(training_rate, &row, training_rate, &each, "rows/s");
    training_end(&row);
    training_end(&each);
    return result;
}

/* Steps of 256 rows with every class: 1 GB of coefficients, kept or computed again (estimator/recomputed.h). */
enum { EXACT_HIDDEN = 64 };

static void start_exact(training *t, uint32_t threads, uint64_t array_most)
{
    enum { FEW_ROWS = 512, LARGE_BATCH = 256 };
    xsm_context *ctx = bench_context(threads);
    training_start(t, ctx, rows_of(ctx, FEW_ROWS, MANY), "softmax", 0, LARGE_BATCH, 0.05);
    t->trainer->gradient->array_most = array_most;
}

bench_result bench_batch_recomputed(uint32_t threads)
{
    training again = {.hidden = EXACT_HIDDEN}, kept = again;
    start_exact(&again, threads, 0);
    start_exact(&kept, threads, UINT64_MAX);
    bench_result result = bench_measure_pairs(training_rate, &again, training_rate, &kept, "rows/s");
    training_end(&again);
    training_end(&kept);
    return result;
}

static double train_exact(void *state)
{
    return 3.0 * 2.0 * MANY * EXACT_HIDDEN * training_rate(state);
}

bench_result bench_batch_fused(uint32_t threads)
{
    training again = {.hidden = EXACT_HIDDEN};
    start_exact(&again, threads, 0);
    ceilings c = ceilings_new(threads, NULL, 0, 0);
    bench_result result = bench_measure(train_exact, &again, ceiling_fma, &c, "GFLOP/s");
    ceilings_free(&c);
    training_end(&again);
    return in_giga(result);
}
