/*
 * What the library promises about a host's threads (the guide's page "What the library does to its host"): errno, the
 * floating-point environment, and that run() is not called from a job. That results and rounding mode stay the same in
 * another floating-point environment, and that 128 KiB of stack are enough, is shown by `bits` for every run.
 */
#include "training.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xsoftmax.h>

/* What every test here does: it binds, draws, trains, evaluates, predicts, searches and saves. */
static void use_everything(xsm_context *ctx, const char *estimator)
{
    xsm_error err = XSM_ERROR_INIT;
    test_problem p = test_problem_new(300, 12, 40, false, 7);
    xsm_dataset *data = NULL;
    xsm_labels labels = XSM_LABELS_INIT;
    labels.classes = p.classes;
    labels.labels = p.labels;
    xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
    rows.values = p.x;
    rows.rows = p.rows;
    rows.features = p.features;
    rows.labels = &labels;
    assert_ok(xsm_dataset_from_dense(ctx, &rows, &data, &err), err);
    xsm_model *m = NULL;
    xsm_estimator *e = NULL;
    xsm_optimizer *o = NULL;
    xsm_trainer *t = NULL;
    assert_ok(xsm_model_new_linear(ctx, p.features, p.classes, NULL, &m, &err), err);
    assert_ok(xsm_estimator_new(ctx, estimator, &e, &err), err);
    assert_ok(xsm_optimizer_new(ctx, "sgd", &o, &err), err);
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    run.epochs = 2;
    run.batch = 8;
    run.eta = 1e-4; /* at which each of them stays finite */
    assert_ok(xsm_trainer_new(ctx, m, data, e, o, &run, &t, &err), err);
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_metrics metrics = XSM_METRICS_INIT;
    assert_ok(xsm_evaluate(ctx, m, data, NULL, &metrics, &err), err);
    xsm_index *x = NULL;
    assert_ok(xsm_index_new(ctx, "spherical", &x, &err), err);
    if (strcmp(test_model_info(m).correction, "none") == 0) {
        assert_ok(xsm_index_build_model(x, m, &err), err);
    }
    char path[] = "/tmp/xsoftmax-contracts-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_ok(xsm_model_save(m, path, &err), err);
    remove(path);
    xsm_index_free(x);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    xsm_dataset_free(data);
    test_problem_free(&p);
}

/* -- errno --------------------------------------------------------------------------------------------------------- */

static void test_errno(void **state)
{
    (void)state;
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *data = NULL;
    xsm_context *ctx = test_context(2, TEST_BUILT_IN, 0);
    errno = EXDEV;
    assert_fails(xsm_dataset_read(ctx, "/nowhere/at/all", NULL, &data, &err), XSM_ERROR_IO, err);
    assert_int_equal(errno, EXDEV);
    xsm_model *m = NULL;
    assert_fails(xsm_model_load(ctx, "/nowhere/at/all", NULL, &m, &err), XSM_ERROR_IO, err);
    assert_int_equal(errno, EXDEV);
    xsm_estimator *e = NULL;
    assert_ok(xsm_estimator_new(ctx, "umax", &e, &err), err);
    assert_ok(xsm_estimator_set(e, "ridge", "1e-400", &err), err); /* strtod() says ERANGE */
    assert_int_equal(errno, EXDEV);
    xsm_estimator_free(e);
    xsm_context_free(ctx);
}

/* -- floating point ------------------------------------------------------------------------------------------------ */

static void test_flags(void **state)
{
    (void)state;
    xsm_context *ctx = test_context(2, TEST_BUILT_IN, 0);
    xsm_error err = XSM_ERROR_INIT;
    test_problem p = test_problem_new(50, 6, 9, false, 7);
    xsm_model *m = NULL;
    assert_ok(xsm_model_new_linear(ctx, p.features, p.classes, NULL, &m, &err), err);
    xsm_metrics metrics = XSM_METRICS_INIT;
    feclearexcept(FE_ALL_EXCEPT);
    assert_ok(xsm_evaluate(ctx, m, p.data, NULL, &metrics, &err), err); /* log(9) is inexact */
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0);
    feraiseexcept(FE_DIVBYZERO);
    assert_ok(xsm_evaluate(ctx, m, p.data, NULL, &metrics, &err), err);
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT), FE_DIVBYZERO);
    feclearexcept(FE_ALL_EXCEPT);
    xsm_model_free(m);
    test_problem_free(&p);
    xsm_context_free(ctx);
}

/* A host that wants a signal at the first inexact sum of its own gets none from the library. */
static void test_traps(void **state)
{
    (void)state;
#ifdef __GLIBC__
    feclearexcept(FE_ALL_EXCEPT); /* the x87 would trap at flags that are set already */
    if (feenableexcept(FE_INEXACT | FE_UNDERFLOW | FE_DIVBYZERO) != -1) {
        xsm_context *ctx = test_context(2, TEST_BUILT_IN, 0);
        xsm_error err = XSM_ERROR_INIT;
        xsm_estimator *e = NULL;
        xsm_status status = xsm_estimator_new(ctx, "softmax", &e, &err);
        status = status == XSM_OK ? xsm_estimator_set(e, "ridge", "0.1", &err) : status;
        fedisableexcept(FE_ALL_EXCEPT);
        assert_ok(status, err);
        xsm_estimator_free(e);
        xsm_context_free(ctx);
        return;
    }
#endif
    skip();
}

/* -- run() --------------------------------------------------------------------------------------------------------- */

/* A runner with two threads that notes whether run() was called from a job. */
typedef struct shy_runner {
    pthread_key_t inside; /* not NULL in a thread that runs a job */
    size_t runs, nested;
    pthread_mutex_t lock;
} shy_runner;

typedef struct shy_half {
    shy_runner *runner;
    xsm_job job;
    void *state;
    size_t count;
    uint32_t thread;
} shy_half;

static void *run_half(void *argument)
{
    shy_half *h = argument;
    pthread_setspecific(h->runner->inside, h);
    for (size_t i = h->thread; i < h->count; i += 2) {
        h->job(h->state, i, h->thread);
    }
    pthread_setspecific(h->runner->inside, NULL);
    return NULL;
}

static int32_t run_shyly(void *user, xsm_job job, void *state, size_t count)
{
    shy_runner *r = user;
    pthread_mutex_lock(&r->lock);
    r->runs++;
    r->nested += pthread_getspecific(r->inside) != NULL;
    pthread_mutex_unlock(&r->lock);
    shy_half halves[2] = {{r, job, state, count, 0}, {r, job, state, count, 1}};
    pthread_t other;
    if (pthread_create(&other, NULL, run_half, &halves[1]) != 0) {
        return 1;
    }
    run_half(&halves[0]);
    pthread_join(other, NULL);
    return 0;
}

static void test_no_nesting(void **state)
{
    (void)state;
    shy_runner r = {0, 0, 0, PTHREAD_MUTEX_INITIALIZER};
    assert_int_equal(pthread_key_create(&r.inside, NULL), 0);
    xsm_runner runner = {&r, 2, 0, run_shyly};
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.runner = &runner;
    xsm_error err = XSM_ERROR_INIT;
    xsm_context *ctx = NULL;
    assert_ok(xsm_context_new(&options, &ctx, &err), err);
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        use_everything(ctx, xsm_estimator_at(i)->name);
    }
    xsm_context_free(ctx);
    pthread_key_delete(r.inside);
    assert_true(r.runs > 100);
    assert_int_equal(r.nested, 0);
}

/* A job of the host's, in a context's own threads, may use the context. */
typedef struct inner_state {
    xsm_context *context;
    test_problem *problem;
    xsm_model *model;
    xsm_metrics metrics[8];
    xsm_status status[8];
} inner_state;

static void evaluate_inside(void *state, size_t index, uint32_t thread)
{
    inner_state *s = state;
    (void)thread;
    s->metrics[index] = (xsm_metrics)XSM_METRICS_INIT;
    s->status[index] = xsm_evaluate(s->context, s->model, s->problem->data, NULL, &s->metrics[index], NULL);
}

static void test_nested_calls(void **state)
{
    (void)state;
    test_problem p = test_problem_new(200, 6, 9, false, 7);
    inner_state s = {.context = test_context(2, TEST_BUILT_IN, 0), .problem = &p};
    xsm_error err = XSM_ERROR_INIT;
    s.model = test_model(s.context, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    assert_ok(xsmi_run(s.context, evaluate_inside, &s, 8, &err), err);
    xsm_metrics alone = XSM_METRICS_INIT;
    assert_ok(xsm_evaluate(s.context, s.model, p.data, NULL, &alone, &err), err);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(s.status[i], XSM_OK);
        assert_true(s.metrics[i].log_loss == alone.log_loss);
    }
    xsm_model_free(s.model);
    xsm_context_free(s.context);
    test_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errno),      cmocka_unit_test(test_flags),        cmocka_unit_test(test_traps),
        cmocka_unit_test(test_no_nesting), cmocka_unit_test(test_nested_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
