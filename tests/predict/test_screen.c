/*
 * Tests of screening: a single row without probabilities has to the bit the classes and scores that it has among other
 * rows, whose classes are all scored; and where screening cannot tell the best, they are scored as well.
 */
#include "narrow_kinds.h"
#include "training.h"

#include <xsoftmax/stored_weights.h>
#include <xsoftmax/predict.h>

#include "model/screen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 4500, FEATURES = 70, ROWS = 12, MOST_TOP = 70 };

/* One of the shapes that weights have here. */
typedef enum shape {
    RANDOM,   /* uniform */
    BIASED,   /* with biases, one of them hides all that the weights say */
    REPEATED, /* every row 50 times */
    RISING,   /* each class is better than those before */
    WIDE,     /* a few rows are 60,000 times as long as others */
    PERMUTED, /* the best 300 rows have the same numbers in other orders, and all features are equal: their scores
                 differ by rounding alone */
    SHAPES
} shape;

static float uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

static xsm_model *make_model(xsm_context *ctx, shape kind, uint32_t features)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    uint64_t state = 7 + kind;
    o.bias = kind != RANDOM;
    NEW(xsm_model, m, xsm_model_new_linear(ctx, features, CLASSES, &o, &m, &err));
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    for (size_t k = 0; k < CLASSES; k++) {
        float *w = p.weight + k * p.class_step;
        for (size_t j = 0; j < features; j++) {
            const float number = uniform(&state);
            w[j] = kind == REPEATED && k % 50 > 0 ? w[j - p.class_step]
                   : kind == WIDE && k % 997 == 5 ? 6e4f * number
                                                  : number;
        }
        for (size_t j = features; kind == PERMUTED && k % 15 == 0 && j-- > 0;) {
            if (k > 0) { /* of the last such row */
                w[j] = w[j - 15 * p.class_step];
                const size_t other = j + (size_t)((uniform(&state) + 1) / 2 * (float)(features - 1 - j));
                const float moved = w[other];
                w[other] = w[j];
                w[j] = moved;
            }
        }
        if (p.bias) {
            p.bias[k] = kind == BIASED     ? (k == 99 ? -1e30f : 3 * uniform(&state))
                        : kind == RISING   ? (float)k
                        : kind == PERMUTED ? (k % 15 == 0 ? 0.0f : -1e6f)
                                           : 0;
        }
    }
    return m;
}

static void fill_rows(float *x, size_t count)
{
    uint64_t state = 3;
    for (size_t i = 0; i < count; i++) {
        x[i] = uniform(&state);
    }
}

static xsm_predictor *make_predictor(const xsm_model *m, uint32_t top)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_predictor, p, xsm_predictor_new(m, STRUCT(xsm_predictor_options, .top = top), &p, &err));
    return p;
}

/* Whether screening finds the best of that row by itself. */
static bool screened(const xsm_model *m, const float *x, uint32_t top)
{
    static uint32_t classes[MOST_TOP];
    static float scores[MOST_TOP];
    const xsmi_features row = {x, NULL, m->features};
    const xsmi_top list = {scores, classes, top};
    assert_true(xsmi_model_screens(m, false, top));
    const size_t bytes = xsmi_model_screen_scratch(m, top);
    HELD_MEMORY(void, memory) = aligned_alloc(64, (bytes + 63) / 64 * 64);
    const bool done = xsmi_model_screen(m, &row, &list, memory, m->context);
    return done;
}

/* Single rows against all rows at once. */
static void expect_same(const xsm_model *m, const float *x, uint32_t top)
{
    static uint32_t want_classes[ROWS * MOST_TOP], got_classes[MOST_TOP];
    static float want[ROWS * MOST_TOP], got[MOST_TOP];
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_predictor, p) = make_predictor(m, top);
    xsm_batch batch = xsm_batch_values(x, ROWS, m->features, m->features);
    assert_ok(test_predict(p, &batch, want_classes, want, NULL, &err), err);
    for (size_t i = 0; i < ROWS; i++) {
        batch = xsm_batch_values(x + i * m->features, 1, m->features, m->features);
        assert_ok(test_predict(p, &batch, got_classes, got, NULL, &err), err);
        assert_memory_equal(got_classes, want_classes + i * top, top * sizeof *got_classes);
        assert_memory_equal(got, want + i * top, top * sizeof *got);
    }
}

TEST(single_rows_have_the_bits_of_many)
{
    static const uint32_t tops[] = {1, 5, MOST_TOP};
    static const uint32_t widths[] = {1, 33, FEATURES};
    static float x[ROWS * FEATURES];
    for (uint32_t n = 0; n < 3 * SHAPES; n++) {
        const uint32_t features = widths[n % 3];
        HELD(xsm_model, m) = make_model(NULL, (shape)(n / 3), features);
        fill_rows(x, (size_t)ROWS * features);
        for (size_t i = 0; i < (size_t)ROWS * features && n / 3 == PERMUTED; i++) {
            x[i] = x[i / features * features];
        }
        for (size_t type = 0; type <= TEST_KINDS; type++) {
            HELD(xsm_model, small) = type > 0 ? test_converted(m, test_kinds[type - 1].dtype) : NULL;
            for (size_t t = 0; t < sizeof tops / sizeof *tops; t++) {
                expect_same(type > 0 ? small : m, x, tops[t]);
            }
            /* Rows of one feature are often equal in fewer bits. */
            assert_true(features == 1 || screened(type > 0 ? small : m, x, 5));
        }
    }
}

TEST(equal_scores_are_left_to_full_scoring)
{
    static float x[ROWS * FEATURES];
    fill_rows(x, ROWS * FEATURES);
    MADE(xsm_model, m, xsm_model_new_linear(NULL, FEATURES, CLASSES, NULL, &m, &err));
    assert_false(screened(m, x, 5));
    expect_same(m, x, 5);
}

TEST(scores_that_are_not_finite_are_refused)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f};
    static float x[ROWS * FEATURES];
    fill_rows(x, ROWS * FEATURES);
    for (size_t i = 0; i < 2 * sizeof bad / sizeof *bad; i++) {
        xsm_parameters w = XSM_PARAMETERS_INIT;
        HELD(xsm_model, m) = make_model(NULL, BIASED, FEATURES);
        assert_ok(xsm_model_get_parameters(m, &w, &err), err);
        if (i % 2 == 0) {
            w.weight[4321 * w.class_step + 7] = bad[i / 2];
        } else {
            w.bias[17] = bad[i / 2];
        }
        uint32_t alone[5], summed[5];
        double probabilities[5];
        HELD(xsm_predictor, p) = make_predictor(m, 5);
        const xsm_batch row = xsm_batch_values(x, 1, FEATURES, FEATURES);
        assert_false(screened(m, x, 5));
        const xsm_status status = test_predict(p, &row, summed, NULL, probabilities, &err);
        assert_int_equal(test_predict(p, &row, alone, NULL, NULL, &err), status);
        assert_int_equal(status, isnan(bad[i / 2]) || i == 3 ? XSM_ERROR_DIVERGED : status);
        assert_true(status != XSM_OK || memcmp(alone, summed, sizeof alone) == 0);
    }
}

/* After the first, a call for one row allocates nothing, whatever the type of the weights. */
TEST(single_rows_need_no_memory)
{
    static float x[ROWS * FEATURES];
    fill_rows(x, ROWS * FEATURES);
    for (size_t type = 0; type <= TEST_KINDS; type++) {
        test_memory *memory;
        xsm_context *ctx = test_memory_context(&memory, 1);
        xsm_model *m = make_model(ctx, BIASED, FEATURES);
        xsm_model *small = type > 0 ? test_converted(m, test_kinds[type - 1].dtype) : NULL;
        xsm_predictor *p = make_predictor(small ? small : m, 5);
        uint32_t classes[5];
        float scores[5];
        xsm_batch row = xsm_batch_values(x, 1, FEATURES, FEATURES);
        assert_ok(test_predict(p, &row, classes, scores, NULL, &err), err);
        test_memory_fail(memory, 0); /* counts from nothing */
        for (size_t i = 0; i < ROWS; i++) {
            row = xsm_batch_values(x + i * FEATURES, 1, FEATURES, FEATURES);
            assert_true(screened(small ? small : m, x + i * FEATURES, 5));
            assert_ok(test_predict(p, &row, classes, scores, NULL, &err), err);
        }
        assert_int_equal(test_memory_calls(memory), 0);
        xsm_predictor_free(p);
        xsm_model_free(small);
        xsm_model_free(m);
        test_memory_end(memory, ctx);
    }
}

/* As the guide says: the best by int8 are scored again by float32, and of these the best are those of float32, where
 * they are among the first. */
TEST(the_best_are_scored_again_in_float32)
{
    enum { WIDE_TOP = 20, NARROW_TOP = 5 };
    static float x[ROWS * FEATURES];
    HELD(xsm_model, m) = make_model(NULL, RANDOM, FEATURES);
    HELD(xsm_model, small) = test_converted(m, XSM_DTYPE_INT8);
    size_t recalled = 0, moved = 0;
    fill_rows(x, ROWS * FEATURES);
    HELD(xsm_predictor, first) = make_predictor(small, WIDE_TOP);
    HELD(xsm_predictor, exact) = make_predictor(m, NARROW_TOP);
    for (size_t i = 0; i < ROWS; i++) {
        const xsm_batch row = xsm_batch_values(x + i * FEATURES, 1, FEATURES, FEATURES);
        uint32_t some[WIDE_TOP], best[NARROW_TOP];
        float scores[WIDE_TOP], want[NARROW_TOP];
        assert_ok(test_predict(first, &row, some, NULL, NULL, &err), err);
        assert_ok(test_predict(exact, &row, best, want, NULL, &err), err);
        assert_ok(xsm_model_scores(m, &row, some, WIDE_TOP, scores, &err), err);
        moved += memcmp(some, best, sizeof best) != 0;
        for (size_t k = 0; k < NARROW_TOP; k++) {
            size_t at = 0, better = 0;
            while (at < WIDE_TOP && some[at] != best[k]) {
                at++;
            }
            if (at == WIDE_TOP) {
                continue;
            }
            recalled++;
            assert_true(fabsf(scores[at] - want[k]) <= 1e-5f * (1 + fabsf(want[k]))); /* the float32 model's */
            for (size_t j = 0; j < WIDE_TOP; j++) {
                better += scores[j] > scores[at];
            }
            assert_true(better <=
                        k); /* so sorting by the scores puts it at its place, or before if one above is missing */
        }
    }
    assert_true(recalled >= ROWS * NARROW_TOP * 95 / 100 && moved > 0);
}
