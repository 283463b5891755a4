/*
 * Tests of xsm_predict(): what it writes for many rows are the bits of a predictor that takes them one by one, whatever
 * the number of threads, for every way of searching; and what it refuses, which leaves the arrays as they are.
 */
#include "training.h"

#include <xsoftmax/filter.h>
#include <xsoftmax/index.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/predict.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 301, FEATURES = 20, CLASSES = 70, TOP = 6 };

/* The arrays of a prediction of ROWS rows. */
typedef struct outputs {
    uint32_t classes[ROWS * TOP], lengths[ROWS];
    float scores[ROWS * TOP];
    double probabilities[ROWS * TOP];
} outputs;

static xsm_prediction into(outputs *o, const xsm_batch *batch, size_t row, bool probabilities)
{
    xsm_prediction p = XSM_PREDICTION_INIT;
    p.batch = batch;
    p.classes = o->classes + row * TOP;
    p.scores = o->scores + row * TOP;
    p.probabilities = probabilities ? o->probabilities + row * TOP : NULL;
    p.lengths = o->lengths + row;
    return p;
}

/* Compares xsm_predict() on 1, 2 and 3 threads with the rows one by one. `limits` has filters, or is NULL. */
static void check(const xsm_model *m, const xsm_dataset *rows, xsm_predictor_options options, bool probabilities,
                  const xsm_prediction *limits)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_MEMORY(outputs, want) = calloc(1, sizeof *want);
    HELD_MEMORY(outputs, have) = calloc(1, sizeof *have);
    assert_non_null(want);
    assert_non_null(have);
    options.top = TOP;
    NEW(xsm_predictor, one, xsm_predictor_new(m, &options, &one, &err));
    for (size_t i = 0; i < ROWS; i++) {
        const xsm_batch row = xsm_batch_range(rows, i, 1);
        xsm_prediction p = into(want, &row, i, probabilities);
        p.filter = limits ? limits->filter : NULL;
        p.deny_offsets = limits && limits->deny_offsets ? limits->deny_offsets + i : NULL;
        p.deny = limits ? limits->deny : NULL;
        assert_ok(xsm_predictor_run(one, &p, &err), err);
    }
    xsm_predictor_free(one);
    const xsm_batch all = xsm_batch_range(rows, 0, ROWS);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        HELD(xsm_context, ctx) = test_context(threads, threads == 2 ? TEST_REVERSED : TEST_BUILT_IN, 0);
        memset(have, 0x55, sizeof *have);
        xsm_prediction p = limits ? *limits : (xsm_prediction)XSM_PREDICTION_INIT;
        const xsm_prediction arrays = into(have, &all, 0, probabilities);
        p.batch = arrays.batch;
        p.classes = arrays.classes;
        p.scores = arrays.scores;
        p.probabilities = arrays.probabilities;
        p.lengths = arrays.lengths;
        assert_ok(xsm_predict(ctx, m, &options, &p, &err), err);
        assert_memory_equal(have->classes, want->classes, sizeof want->classes);
        assert_memory_equal(have->lengths, want->lengths, sizeof want->lengths);
        assert_memory_equal(have->scores, want->scores, sizeof want->scores);
        if (probabilities) {
            assert_memory_equal(have->probabilities, want->probabilities, sizeof want->probabilities);
        }
    }
}

/* Every class, an index, a label tree, a label tree as shortlist, on dense and sparse rows. */
TEST(row_by_row)
{
    for (int sparse = 0; sparse <= 1; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 3);
        HELD(xsm_model, m) =
            test_model(NULL, &p, true, sparse ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR, 1, 9);
        HELD(xsm_model, tree) = NULL;
        xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
        check(m, p.data, options, true, NULL);
        assert_ok(xsm_fit_label_tree(NULL, p.data, NULL, &tree, NULL, &err), err);
        check(tree, p.data, options, true, NULL);
        options.shortlist = tree;
        options.candidates = 20;
        check(m, p.data, options, false, NULL);
        options = (xsm_predictor_options)XSM_PREDICTOR_OPTIONS_INIT;
        MADE(xsm_index, index, xsm_index_new(NULL, "spherical", &index, &err));
        assert_ok(xsm_index_build_model(index, m, &err), err);
        options.index = index;
        check(m, p.data, options, false, NULL);
    }
}

/* A filter of the call and lists of each row, which lie with their rows. */
TEST(with_filters)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 4);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 9);
    const xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    uint64_t offsets[ROWS + 1];
    uint32_t deny[2 * ROWS], few[] = {1, 2, 3, 20, 21, 22, 23, 60};
    offsets[0] = 0;
    for (uint32_t i = 0; i < ROWS; i++) { /* other classes, and another number of them, for each row */
        deny[offsets[i]] = i % 60;
        deny[offsets[i] + 1] = i % 60 + 5;
        offsets[i + 1] = offsets[i] + i % 3;
    }
    xsm_prediction limits = XSM_PREDICTION_INIT;
    limits.deny_offsets = offsets;
    limits.deny = deny;
    check(m, p.data, options, true, &limits);
    MADE(xsm_filter, filter,
         xsm_filter_new(
             NULL,
             STRUCT(xsm_filter_classes, .classes = CLASSES, .allow = few, .allow_count = sizeof few / sizeof *few),
             &filter, &err));
    limits.filter = filter;
    check(m, p.data, options, true, &limits);
}

/* The error is that of the first row that has one, whoever comes to it first, and names that row. */
TEST(names_the_first_row)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 5);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 9);
    static float rows[ROWS][FEATURES];
    static uint32_t classes[ROWS * 5];
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < FEATURES; j++) {
            rows[i][j] = i == 100 || i == 250 ? 3e38f : 0.5f; /* the sum of products overflows */
        }
    }
    const xsm_batch batch = xsm_batch_values(rows[0], ROWS, FEATURES, FEATURES);
    xsm_prediction wanted = XSM_PREDICTION_INIT;
    wanted.batch = &batch;
    wanted.classes = classes;
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
        assert_fails(xsm_predict(ctx, m, NULL, &wanted, &err), XSM_ERROR_DIVERGED, err);
        assert_non_null(strstr(err.message, "row 100"));
    }
}

TEST(refuses)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 6);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 9);
    HELD_MEMORY(outputs, o) = malloc(2 * sizeof *o);
    assert_non_null(o);
    memset(o, 0x33, 2 * sizeof *o);
    xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
    xsm_prediction wanted = into(o, &batch, 0, true);
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    assert_fails(xsm_predict(NULL, NULL, NULL, &wanted, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_predict(NULL, m, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "xsm_predict: prediction is NULL"));
    options.top = XSM_TOP_MAX + 1;
    assert_fails(xsm_predict(NULL, m, &options, &wanted, &err), XSM_ERROR_RANGE, err);
    batch.count = ROWS + 1;
    assert_fails(xsm_predict(NULL, m, NULL, &wanted, &err), XSM_ERROR_RANGE, err);
    batch.count = 0;
    assert_fails(xsm_predict(NULL, m, NULL, &wanted, &err), XSM_ERROR_ARGUMENT, err);
    batch.count = ROWS;
    wanted.scores = (float *)(void *)o->classes;
    assert_fails(xsm_predict(NULL, m, NULL, &wanted, &err), XSM_ERROR_ARGUMENT, err);
    assert_memory_equal(o, o + 1, sizeof *o);
}

typedef struct call {
    const xsm_model *model;
    const xsm_dataset *rows;
    outputs *o;
} call;

static xsm_status predict(void *state, xsm_context *ctx, xsm_error *err)
{
    const call *c = state;
    const xsm_batch batch = xsm_batch_range(c->rows, 0, ROWS);
    const xsm_prediction wanted = into(c->o, &batch, 0, true);
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = TOP;
    return xsm_predict(ctx, c->model, &options, &wanted, err);
}

/* Its memory is the context's, and its progress and cancelling, not the model's. */
TEST(on_its_context)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 7);
    call c = {test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 9), p.data, malloc(sizeof(outputs))};
    assert_non_null(c.o);
    assert_true(test_every_allocation(predict, &c) > 4);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        test_hook hook;
        test_hook_start(&hook, threads);
        assert_ok(predict(&c, hook.context, &err), err);
        assert_string_equal(hook.phases, "predicting");
        test_hook_cancel(&hook, 1);
        assert_fails(predict(&c, hook.context, &err), XSM_CANCELLED, err);
        test_hook_cancel(&hook, 0);
        assert_ok(predict(&c, hook.context, &err), err);
        test_hook_end(&hook);
    }
    free(c.o);
    xsm_model_free((xsm_model *)c.model);
}
