/*
 * Steps of sampled estimators on dense rows, with one example and one other class each: two rows of the model are read,
 * multiplied with the example and written, and the example's features are read. Examples and classes are random. The
 * ceiling is half the rate at which such rows can be updated.
 */
#include "ceilings.h"
#include "data.h"
#include "shape.h"
#include "training.h"

/* 32 MB of features: more than the cache of a single core. */
#define EXAMPLES 16384
/* Epochs of a run: 131,072 steps, so that the start and the end of a run do not count. */
#define EPOCHS 8

static double half_the_rows(void *state)
{
    return 0.5 * ceiling_rows(state);
}

static bench_result run(const char *estimator, uint32_t threads, double eta)
{
    xsm_context *ctx = bench_context(threads);
    training t = {0};
    training_start(&t, ctx, bench_dense(ctx, EXAMPLES, DENSE_FEATURES, DENSE_CLASSES), estimator, 1, 1, eta);
    t.epochs = EPOCHS;
    /* On the model's own rows, so that the last-level cache contains an equal share of both. */
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_error err = XSM_ERROR_INIT;
    bench_check(xsm_model_get_parameters(t.model, &p, &err), &err);
    ceilings c = ceilings_new(threads, p.weight, DENSE_CLASSES, DENSE_FEATURES);
    bench_result result = bench_measure_pairs(training_rate, &t, half_the_rows, &c, "steps/s");
    ceilings_free(&c);
    training_end(&t);
    return result;
}

bench_result bench_step_implicit(uint32_t threads)
{
    return run("implicit", threads, 1);
}

bench_result bench_step_umax(uint32_t threads)
{
    return run("umax", threads, 1e-5); /* its step is K times the error of its score */
}

bench_result bench_step_ove(uint32_t threads)
{
    return run("ove", threads, 1e-5);
}
