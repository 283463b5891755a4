/*
 * Minibatches of sparse rows with the exact softmax: text of short documents, whose word frequencies follow Zipf's law,
 * so that rows share most of their words. A batch must move the weights of all its features: they are read for the
 * scores (logits), and read and written for the step. The ceiling is rows that are read and written one after another.
 */
#include "ceilings.h"
#include "data.h"
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2048, BATCH = 256, FEATURES = 8000, CLASSES = 12000 };

/* A row contains word j, from 1, with probability COMMON/j, at most 0.9: about 52 words. */
#define COMMON 7.0

static xsm_dataset *documents(xsm_context *ctx)
{
    bench_random random = {6};
    uint64_t *offsets = bench_memory(ROWS + 1, sizeof *offsets);
    uint32_t *index = bench_memory((size_t)ROWS * FEATURES / 8, sizeof *index);
    float *values = bench_memory((size_t)ROWS * FEATURES / 8, sizeof *values);
    uint32_t *labels = bench_memory(ROWS, sizeof *labels);
    size_t n = 0;
    for (size_t i = 0; i < ROWS; i++) {
        size_t start = n;
        for (uint32_t j = 0; j < FEATURES && n < (i + 1) * FEATURES / 8; j++) {
            if ((double)bench_uniform(&random) * 0.5 + 0.5 < fmin(0.9, COMMON / (j + 1))) {
                index[n++] = j;
            }
        }
        for (size_t k = start; k < n; k++) {
            values[k] = 1 / sqrtf((float)(n - start));
        }
        offsets[i + 1] = n;
        labels[i] = (uint32_t)bench_below(&random, CLASSES);
    }
    xsm_labels of = {sizeof of, CLASSES, 0, NULL, labels, NULL};
    xsm_dataset *data = NULL;
    xsm_error err = XSM_ERROR_INIT;
    bench_check(xsm_dataset_from_csr(ctx,
                                     &(xsm_csr_rows){.size = sizeof(xsm_csr_rows),
                                                     .offsets = offsets,
                                                     .index = index,
                                                     .values = values,
                                                     .rows = ROWS,
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

/* The average number of features in a batch. */
static double batch_features(const xsm_dataset *data)
{
    unsigned char *seen = bench_memory(FEATURES, 1);
    double features = 0;
    for (uint64_t i = 0; i < ROWS; i++) {
        xsm_row x = XSM_ROW_INIT;
        xsm_error err = XSM_ERROR_INIT;
        bench_check(xsm_dataset_get_row(data, i, &x, &err), &err);
        if (i % BATCH == 0) {
            memset(seen, 0, FEATURES);
        }
        for (size_t j = 0; j < x.count; j++) {
            features += !seen[x.index[j]];
            seen[x.index[j]] = 1;
        }
    }
    free(seen);
    return features / (ROWS / BATCH);
}

typedef struct work {
    training training;
    double row_bytes;
} work;

static double train(void *state)
{
    work *w = state;
    return w->row_bytes * training_rate(&w->training);
}

static double stream(void *state)
{
    const ceilings *c = state;
    return 2.0 * sizeof(float) * (double)c->features * ceiling_stream(state);
}

bench_result bench_batch_softmax_sparse(uint32_t threads)
{
    xsm_context *ctx = bench_context(threads);
    work w = {{0}, 0};
    xsm_dataset *data = documents(ctx);
    training_start(&w.training, ctx, data, "softmax", 0, BATCH, 1);
    w.row_bytes = 3.0 * sizeof(float) * batch_features(data) * CLASSES / BATCH;
    ceilings c = ceilings_new(threads, NULL, 100000, 512);
    bench_result result = bench_measure(train, &w, stream, &c, "GB/s");
    ceilings_free(&c);
    training_end(&w.training);
    result.value *= 1e-9;
    result.ceiling *= 1e-9;
    return result;
}
