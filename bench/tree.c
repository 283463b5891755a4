/*
 * The adversarial tree at the size of the paper's Amazon-670K: fitting, drawing, all log-probabilities, and the time
 * that it adds to a step of negative sampling.
 */
#include "ceilings.h"
#include "data.h"
#include "peak.h"
#include "shape.h"
#include "training.h"

#include "sampler/sampler.h"

#include <stdlib.h>
#include <string.h>

#include <xsoftmax/draw.h>

enum { ROWS = 490449, CLASSES = 213874, DRAWS = 16, SWEPT = 256, STEP_ROWS = 16384 };
/* The target seconds of the fit, and of a draw with its log-probability. */
#define FIT_GOAL 60.0
#define DRAW_GOAL 1e-6

/* Rows whose classes form groups of groups: a class's centre is the sum of one vector for each prefix of its number. */
static xsm_dataset *grouped(xsm_context *ctx, uint64_t rows, uint32_t features, uint32_t classes)
{
    enum { LEVELS = 18, CENTRES = 4096 };
    float *centres = bench_memory((size_t)CENTRES * features, sizeof *centres);
    float *x = bench_memory((size_t)rows * features, sizeof *x);
    uint32_t *labels = bench_memory((size_t)rows, sizeof *labels);
    bench_random random = {11};
    for (size_t i = 0; i < (size_t)CENTRES * features; i++) {
        centres[i] = bench_uniform(&random);
    }
    for (uint64_t i = 0; i < rows; i++) {
        labels[i] = (uint32_t)(i < classes ? i : bench_below(&random, classes)); /* every class has a row */
        float *to = x + i * features;
        for (size_t j = 0; j < features; j++) {
            to[j] = bench_uniform(&random);
        }
        for (uint32_t level = 2; level <= LEVELS; level += 4) {
            const float *centre =
                centres + (size_t)((labels[i] >> (LEVELS - level)) * 2654435761u % CENTRES) * features;
            for (size_t j = 0; j < features; j++) {
                to[j] += centre[j];
            }
        }
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_labels l = {sizeof l, classes, 0, NULL, labels, NULL};
    xsm_dataset *data = NULL;
    bench_check(xsm_dataset_from_dense(
                    ctx,
                    &(xsm_dense_rows){
                        .size = sizeof(xsm_dense_rows), .values = x, .rows = rows, .features = features, .labels = &l},
                    &data, &err),
                &err);
    free(centres);
    free(labels);
    free(x);
    return data;
}

static xsm_sampler *tree_on(xsm_context *ctx, const xsm_dataset *data, double *seconds)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_sampler *s = NULL;
    bench_check(xsm_sampler_new(ctx, "tree", &s, &err), &err);
    double start = peak_clock();
    bench_check(xsm_sampler_bind(s, data, &err), &err);
    *seconds = peak_clock() - start;
    return s;
}

bench_result bench_tree_fit(uint32_t threads)
{
    xsm_context *ctx = bench_context(threads);
    xsm_dataset *data = grouped(ctx, ROWS, 64, CLASSES);
    double seconds;
    xsm_sampler *s = tree_on(ctx, data, &seconds);
    bench_result result = {ROWS / seconds, ROWS / FIT_GOAL, "rows/s", NULL};
    xsm_sampler_free(s);
    xsm_dataset_free(data);
    xsm_context_free(ctx);
    return result;
}

typedef struct tree_bench {
    xsm_context *context;
    xsm_dataset *data;
    xsm_sampler *sampler;
    float *codes;
    float *out, *scratch;
    uint64_t position;
    double sink;
} tree_bench;

static double goal(void *state)
{
    return *(double *)state;
}

static double draw(void *state)
{
    tree_bench *b = state;
    double start = peak_clock();
    for (uint64_t i = 0; i < SWEPT * 64; i++) {
        struct xsm_random random;
        uint32_t classes[DRAWS];
        double log_q[DRAWS];
        const float *code = b->codes + i % SWEPT * b->sampler->code_length;
        xsmi_stream_start(&random.stream, 1, XSMI_STREAM_NEGATIVES, b->position++);
        b->sampler->ops.draw(b->sampler->state, code, &random, DRAWS, classes, log_q);
        b->sink += log_q[DRAWS - 1];
    }
    return SWEPT * 64.0 * DRAWS / (peak_clock() - start);
}

static double sweep(void *state)
{
    tree_bench *b = state;
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch batch = xsm_batch_range(b->data, 0, SWEPT);
    double start = peak_clock();
    bench_check(xsm_sampler_log_probabilities(b->sampler, &batch, 0, CLASSES, b->out, &err), &err);
    return (double)SWEPT * CLASSES / (peak_clock() - start);
}

static double dots(void *state)
{
    enum { DIMENSIONS = 20 };
    return ceiling_fma(state) / (2.0 * DIMENSIONS);
}

static tree_bench open_tree(uint32_t threads)
{
    tree_bench b = {bench_context(threads), NULL, NULL, NULL, NULL, NULL, 0, 0};
    xsm_error err = XSM_ERROR_INIT;
    double seconds;
    b.data = grouped(b.context, CLASSES + CLASSES / 4, 32, CLASSES);
    b.sampler = tree_on(b.context, b.data, &seconds);
    b.codes = bench_memory((size_t)b.data->rows * b.sampler->code_length, sizeof *b.codes);
    bench_check(xsmi_sampler_encode_all(b.sampler, b.context, b.data, b.codes, &err), &err);
    return b;
}

static void close_tree(tree_bench *b)
{
    free(b->codes);
    free(b->out);
    xsm_sampler_free(b->sampler);
    xsm_dataset_free(b->data);
    xsm_context_free(b->context);
}

bench_result bench_tree_draw(uint32_t threads)
{
    tree_bench b = open_tree(threads);
    double wanted = 1 / DRAW_GOAL;
    bench_result result = bench_measure(draw, &b, goal, &wanted, "draws/s");
    close_tree(&b);
    return result;
}

bench_result bench_tree_sweep(uint32_t threads)
{
    tree_bench b = open_tree(threads);
    b.out = bench_memory((size_t)SWEPT * CLASSES, sizeof *b.out);
    ceilings c = ceilings_new(threads, NULL, 0, 0);
    bench_result result = bench_measure(sweep, &b, dots, &c, "labels/s");
    ceilings_free(&c);
    close_tree(&b);
    return result;
}

bench_result bench_step_tree(uint32_t threads)
{
    training with[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        xsm_context *ctx = bench_context(threads);
        with[i].sampler = i ? "uniform" : "tree";
        training_start(&with[i], ctx, grouped(ctx, STEP_ROWS, DENSE_FEATURES, CLASSES), "negative-sampling", 1, 1,
                       1e-3);
    }
    bench_result result = bench_measure(training_rate, &with[0], training_rate, &with[1], "steps/s");
    training_end(&with[0]);
    training_end(&with[1]);
    return result;
}
