/*
 * Each long call, cancelled at the first, the second, ... poll: it returns XSM_CANCELLED, leaks nothing, leaves its
 * outputs alone, and its objects can still be used.
 */
#include "training.h"

#include <xsoftmax.h>

#include <stdlib.h>
#include <string.h>

enum { ROWS = 1500, FEATURES = 12, CLASSES = 700 };

/* What the bodies share: rows, and a model of theirs for tests that do not change one. */
typedef struct things {
    test_problem dense, sparse;
    bool use_sparse;
    const char *name;
    const char *path;
} things;

static const test_problem *problem(const things *t)
{
    return t->use_sparse ? &t->sparse : &t->dense;
}

static int start(void **state)
{
    static things t;
    t.dense = test_problem_new(ROWS, FEATURES, CLASSES, false, 1);
    t.sparse = test_problem_new(ROWS, 40, CLASSES, true, 2);
    *state = &t;
    return 0;
}

static int end(void **state)
{
    things *t = *state;
    test_problem_free(&t->dense);
    test_problem_free(&t->sparse);
    test_files_end();
    return 0;
}

/* -- evaluation and prediction ------------------------------------------------------------------------------------- */

static xsm_status evaluate(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    const test_problem *p = problem(t);
    xsm_model *m = test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    xsm_metrics metrics = XSM_METRICS_INIT;
    const xsm_metrics before = metrics;
    xsm_status status = xsm_evaluate(ctx, m, p->data, NULL, &metrics, err);
    if (status != XSM_OK) {
        assert_memory_equal(&metrics, &before, sizeof metrics);
    }
    xsm_model_free(m);
    return status;
}

static xsm_status evaluate_ranks(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    const test_problem *p = problem(t);
    xsm_model *m = test_model(ctx, p, true, XSM_LAYOUT_FEATURE_MAJOR, 0.1, 3);
    xsm_ranks ranks = XSM_RANKS_INIT;
    const xsm_ranks before = ranks;
    const xsm_dataset *known[] = {p->data};
    xsm_ranks_options options = XSM_RANKS_OPTIONS_INIT;
    options.known = known;
    options.known_count = 1;
    xsm_status status = xsm_evaluate_ranks(ctx, m, p->data, &options, &ranks, err);
    if (status != XSM_OK) {
        assert_memory_equal(&ranks, &before, sizeof ranks);
    }
    xsm_model_free(m);
    return status;
}

static xsm_status evaluate_search(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_model *m = test_model(ctx, &t->dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    xsm_error none = XSM_ERROR_INIT;
    xsm_index *x = NULL;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_search_metrics metrics = XSM_SEARCH_METRICS_INIT;
    const xsm_search_metrics before = metrics;
    assert_ok(xsm_index_new(NULL, "spherical", &x, &none), none);
    assert_ok(xsm_index_build_model(x, m, &none), none);
    options.index = x;
    xsm_status status = xsm_evaluate_search(ctx, m, t->dense.data, &options, &metrics, err);
    if (status != XSM_OK) {
        assert_memory_equal(&metrics, &before, sizeof metrics);
    }
    xsm_index_free(x);
    xsm_model_free(m);
    return status;
}

static xsm_status predict(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    const test_problem *p = problem(t);
    static uint32_t classes[ROWS * 5], again[ROWS * 5];
    xsm_error none = XSM_ERROR_INIT;
    xsm_model *m = test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    xsm_predictor *predictor = NULL;
    const xsm_batch all = xsm_batch_range(p->data, 0, ROWS), one = xsm_batch_range(p->data, 7, 1);
    assert_ok(xsm_predictor_new(m, NULL, &predictor, &none), none);
    xsm_status status = xsm_predictor_run(predictor, &all, classes, NULL, NULL, err);
    if (status != XSM_OK) { /* it goes on working; one more call does not reach the poll that cancels */
        assert_ok(xsm_predictor_run(predictor, &one, again, NULL, NULL, &none), none);
    }
    xsm_predictor_free(predictor);
    xsm_model_free(m);
    return status;
}

static void evaluations(void **state)
{
    things *t = *state;
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        for (t->use_sparse = false;; t->use_sparse = true) {
            test_every_poll(evaluate, t, threads, 3, "evaluating");
            test_every_poll(evaluate_ranks, t, threads, 3, "evaluating");
            test_every_poll(predict, t, threads, 3, "predicting");
            if (t->use_sparse) {
                break;
            }
        }
        test_every_poll(evaluate_search, t, threads, 3, "evaluating");
    }
}

/* -- indexes ------------------------------------------------------------------------------------------------------- */

static xsm_status build_index(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    xsm_model *m = test_model(ctx, &t->dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    xsm_index *x = NULL;
    xsm_index_info info = XSM_INDEX_INFO_INIT;
    assert_ok(xsm_index_new(ctx, t->name, &x, &none), none);
    xsm_status status = xsm_index_build_model(x, m, err);
    assert_ok(xsm_index_get_info(x, &info, &none), none);
    assert_int_equal(info.rows, status == XSM_OK ? CLASSES : 0);
    if (status == XSM_CANCELLED) { /* and can be built after all */
        assert_ok(xsm_index_build_model(x, m, &none), none);
    }
    xsm_index_free(x);
    xsm_model_free(m);
    return status;
}

static xsm_status update_index(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    uint32_t classes[CLASSES];
    xsm_error none = XSM_ERROR_INIT;
    xsm_index *x = NULL;
    float *rows = calloc(CLASSES, FEATURES * sizeof *rows);
    xsm_index_rows given = XSM_INDEX_ROWS_INIT;
    assert_ok(xsm_index_new(ctx, t->name, &x, &none), none);
    for (uint32_t k = 0; k < CLASSES; k++) {
        classes[k] = k;
        rows[k * FEATURES + k % FEATURES] = 1 + (float)k / CLASSES;
    }
    given.rows = rows;
    given.stride = given.width = FEATURES;
    given.count = CLASSES;
    xsm_status status = xsm_index_build(x, &given, err);
    for (uint32_t k = 0; status == XSM_OK && k < CLASSES; k++) {
        rows[k * FEATURES] += 2;
    }
    if (status == XSM_OK) {
        status = xsm_index_update(x, classes, CLASSES, err);
        if (status == XSM_CANCELLED) { /* it is valid, and can be updated after all */
            assert_ok(xsm_index_update(x, classes, CLASSES, &none), none);
        }
    }
    xsm_index_free(x);
    free(rows);
    return status;
}

static xsm_status search_index(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    xsm_model *m = test_model(ctx, &t->dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    xsm_index *x = NULL;
    double recall = -1;
    assert_ok(xsm_index_new(ctx, t->name, &x, &none), none);
    xsm_status status = xsm_index_build_model(x, m, err);
    if (status == XSM_OK) {
        status = xsm_index_recall(x, t->dense.x, FEATURES, ROWS, 5, &recall, err);
        assert_true(status == XSM_OK ? recall > 0 : recall == -1);
    }
    xsm_index_free(x);
    xsm_model_free(m);
    return status;
}

static void indexes(void **state)
{
    things *t = *state;
    for (size_t i = 0; i < xsm_index_count(); i++) {
        t->name = xsm_index_ops_name(xsm_index_at(i));
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            test_every_poll(build_index, t, threads, 5, "building an index");
            test_every_poll(update_index, t, threads, 5, "building an index, updating an index");
            test_every_poll(search_index, t, threads, 5, "searching");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluations),
        cmocka_unit_test(indexes),
    };
    return cmocka_run_group_tests(tests, start, end);
}
