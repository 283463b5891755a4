/*
 * Steps on sparse rows, one example each. A model of Bibtex's size stays in the second-level cache, so the overhead of
 * a step beside its arithmetic is measured; the ceiling is the kernels alone on the same examples.
 *
 * Values are times, not rates: smaller is better, and a ratio of 1 is the lower bound.
 */
#include "data.h"
#include "training.h"

#include "base/base.h"
#include "peak.h"

#include <stdlib.h>

/* The kernels that a step needs at least. */
typedef struct bare {
    const xsmi_kernels *kernels;
    const xsm_dataset *data;
    uint64_t rows;
    uint32_t classes;
    size_t stride;
    float *weight;
    float *scores;
    uint64_t epochs;
} bare;

static bare bare_new(const training *t, bool feature_major)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    bench_check(xsm_dataset_get_info(t->data, &info, &err), &err);
    size_t rows = feature_major ? info.features : info.classes;
    size_t columns = feature_major ? info.classes : info.features;
    size_t stride = (columns + 15) / 16 * 16;
    bare b = {xsmi_context_kernels(t->context), t->data, info.rows, info.classes, stride, NULL, NULL, t->epochs};
    b.weight = bench_memory(rows * b.stride, sizeof *b.weight);
    b.scores = bench_memory(info.classes, sizeof *b.scores);
    return b;
}

static void bare_free(bare *b)
{
    free(b->weight);
    free(b->scores);
}

static xsm_row row_at(const bare *b, uint64_t row)
{
    xsm_row x = XSM_ROW_INIT;
    xsm_error err = XSM_ERROR_INIT;
    bench_check(xsm_dataset_get_row(b->data, row, &x, &err), &err);
    return x;
}

/* Two classes of each example scored and changed. */
static double bare_sampled(void *state)
{
    const bare *b = state;
    bench_random random = {4};
    double start = peak_clock();
    for (uint64_t i = 0; i < b->epochs * b->rows; i++) {
        xsm_row x = row_at(b, i % b->rows);
        uint32_t classes[2] = {x.labels[0], (uint32_t)bench_below(&random, b->classes)};
        float scores[2];
        b->kernels->sparse_gather_scores(b->weight, b->stride, classes, 2, x.index, x.values, x.count, scores);
        scores[0] = 1e-6f * (1 - scores[0]);
        scores[1] = 1e-6f * (1 - scores[1]);
        b->kernels->sparse_scatter_update(b->weight, b->stride, classes, 2, x.index, x.values, x.count, scores);
    }
    return (double)(b->epochs * b->rows) / (peak_clock() - start);
}

/* The weights of each example's features are summed and changed. */
static double bare_exact(void *state)
{
    const bare *b = state;
    double start = peak_clock();
    for (uint64_t i = 0; i < b->epochs * b->rows; i++) {
        xsm_row x = row_at(b, i % b->rows);
        for (size_t j = 0; j < x.count; j++) {
            b->kernels->axpby(b->scores, b->weight + x.index[j] * b->stride, b->classes, x.values[j], j > 0);
        }
        for (size_t j = 0; j < x.count; j++) {
            b->kernels->axpby(b->weight + x.index[j] * b->stride, b->scores, b->classes, 1e-6f * x.values[j], 1);
        }
    }
    return (double)(b->epochs * b->rows) / (peak_clock() - start);
}

static bench_result run(const char *estimator, uint32_t negatives, uint32_t threads, uint64_t epochs,
                        bench_rate kernels)
{
    xsm_context *ctx = bench_context(threads);
    training t = {0};
    const char *note;
    xsm_dataset *data = bench_bibtex(ctx, &note);
    training_start(&t, ctx, data, estimator, negatives, 1, 1);
    t.epochs = epochs;
    bare b = bare_new(&t, negatives == 0);
    bench_result result = bench_measure(training_rate, &t, kernels, &b, "ns/step");
    result.value = 1e9 / result.value;
    result.ceiling = 1e9 / result.ceiling;
    result.note = note;
    bare_free(&b);
    training_end(&t);
    return result;
}

bench_result bench_step_implicit_sparse(uint32_t threads)
{
    return run("implicit", 1, threads, 10, bare_sampled);
}

bench_result bench_step_softmax_sparse(uint32_t threads)
{
    return run("softmax", 0, threads, 2, bare_exact);
}
