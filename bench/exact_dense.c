/*
 * Every class of dense rows: evaluation (log-sum-exp, argmax and the five best in one pass), and minibatch training
 * with the exact softmax. The ceiling is fused multiply-adds on registers only.
 */
#include "blas.h"
#include "ceilings.h"
#include "data.h"
#include "shape.h"
#include "training.h"

#include <stdlib.h>

enum {
    EVALUATED = 512, /* two batches of 256 */
    BATCH = 256,
    BATCH_CLASSES = 20000
};

#define NO_BLAS "no OpenBLAS (libopenblas0-pthread) to compare with"

typedef struct evaluation {
    xsm_context *context;
    xsm_dataset *data;
    xsm_model *model;
} evaluation;

static double evaluate(void *state)
{
    const evaluation *e = state;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_error err = XSM_ERROR_INIT;
    double start = peak_clock();
    bench_check(xsm_evaluate(e->context, e->model, e->data, NULL, &metrics, &err), &err);
    return 2.0 * EVALUATED * DENSE_FEATURES * DENSE_CLASSES / (peak_clock() - start);
}

static bench_result in_giga(bench_result result)
{
    result.value *= 1e-9;
    result.ceiling *= 1e-9;
    return result;
}

/* Rows and weights between -0.5 and 0.5. */
static evaluation start_evaluation(uint32_t threads)
{
    xsm_error err = XSM_ERROR_INIT;
    evaluation e = {bench_context(threads), NULL, NULL};
    e.data = bench_dense(e.context, EVALUATED, DENSE_FEATURES, DENSE_CLASSES);
    bench_check(xsm_model_new_linear(e.context, DENSE_FEATURES, DENSE_CLASSES, NULL, &e.model, &err), &err);
    xsm_parameters p = XSM_PARAMETERS_INIT;
    bench_check(xsm_model_get_parameters(e.model, &p, &err), &err);
    bench_random random = {5};
    for (size_t k = 0; k < p.classes; k++) {
        for (size_t j = 0; j < p.features; j++) {
            p.weight[k * p.class_step + j * p.feature_step] = bench_uniform(&random);
        }
    }
    return e;
}

static void end_evaluation(evaluation *e)
{
    xsm_model_free(e->model);
    xsm_dataset_free(e->data);
    xsm_context_free(e->context);
}

bench_result bench_evaluate_exact(uint32_t threads)
{
    evaluation e = start_evaluation(threads);
    ceilings c = ceilings_new(threads, NULL, 0, 0);
    bench_result result = bench_measure(evaluate, &e, ceiling_fma, &c, "GFLOP/s");
    ceilings_free(&c);
    end_evaluation(&e);
    return in_giga(result);
}

bench_result bench_evaluate_blas(uint32_t threads)
{
    evaluation e = start_evaluation(threads);
    blas b = blas_new(bench_instruction_set(e.context), threads, BATCH, DENSE_CLASSES, DENSE_FEATURES);
    bench_result result = {0, 0, "GFLOP/s", NO_BLAS};
    if (b.multiply) {
        result = bench_measure(evaluate, &e, blas_rate, &b, "GFLOP/s");
    }
    blas_free(&b);
    end_evaluation(&e);
    return in_giga(result);
}

/* The most that evaluate/blas could show. In pairs, as each run of OpenBLAS is longer than one of the sums. */
bench_result bench_evaluate_most(uint32_t threads)
{
    ceilings c = ceilings_new(threads, NULL, 0, 0);
    blas b = blas_new(c.loops->name, threads, BATCH, DENSE_CLASSES, DENSE_FEATURES);
    bench_result result = {0, 0, "GFLOP/s", c.loops->block ? NO_BLAS : "no such loop for AVX-512"};
    if (b.multiply && c.loops->block) {
        result = bench_measure_pairs(ceiling_block, &c, blas_rate, &b, "GFLOP/s");
    }
    blas_free(&b);
    ceilings_free(&c);
    return in_giga(result);
}

/* Scores and update: two products of n x D x K. */
static double train(void *state)
{
    return 4.0 * DENSE_FEATURES * BATCH_CLASSES * training_rate(state);
}

bench_result bench_batch_softmax(uint32_t threads)
{
    xsm_context *ctx = bench_context(threads);
    training t = {0};
    training_start(&t, ctx, bench_dense(ctx, 4 * BATCH, DENSE_FEATURES, BATCH_CLASSES), "softmax", 0, BATCH, 1);
    ceilings c = ceilings_new(threads, NULL, 0, 0);
    bench_result result = bench_measure(train, &t, ceiling_fma, &c, "GFLOP/s");
    ceilings_free(&c);
    training_end(&t);
    return in_giga(result);
}
