/*
 * Sums over all classes, which start anew at every run of XSMI_RUN_CLASSES: against sums in long double for numbers of
 * classes around the borders, and the same bits for every number of threads, size of batches and instruction set.
 */
#include "training.h"

#include "estimator/estimator.h"
#include "kernels/kernels.h"
#include "math/log_sum.h"

#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 5, ROWS = 200, SOME = 33 };

static const uint32_t borders[] = {4095, 4096, 4097, 8192, 12300};
enum { BORDERS = sizeof borders / sizeof *borders };

/* -- joining ------------------------------------------------------------------------------------------------------- */

TEST(runs_are_joined)
{
    const xsmi_log_sum nothing = XSMI_LOG_SUM_INIT, one = {-3.25f, 1.0625}, larger = {700, 3};
    xsmi_log_sum s = nothing;
    xsmi_log_sum_join(&s, &nothing);
    assert_true(s.max == -INFINITY && s.sum == 0);
    xsmi_log_sum_join(&s, &one);
    assert_true(s.max == one.max && s.sum == one.sum); /* the first run's bits */
    xsmi_log_sum_join(&s, &nothing);
    assert_true(s.max == one.max && s.sum == one.sum);
    xsmi_log_sum_join(&s, &one);
    assert_true(s.max == one.max && s.sum == 2 * one.sum);
    xsmi_log_sum_join(&s, &larger);
    assert_true(s.max == 700 && s.sum == 3);
    const xsmi_log_sum infinite = {INFINITY, (double)NAN};
    xsmi_log_sum_join(&s, &infinite);
    xsmi_log_sum_join(&s, &one);
    assert_true(isnan(s.sum));
}

/* -- losses against sums in long double ---------------------------------------------------------------------------- */

static long double wanted_softmax(const float *z, uint32_t classes, uint32_t y)
{
    long double most = (long double)z[0], sum = 0;
    for (uint32_t k = 1; k < classes; k++) {
        most = (long double)z[k] > most ? (long double)z[k] : most;
    }
    for (uint32_t k = 0; k < classes; k++) {
        sum += expl((long double)z[k] - most);
    }
    return most + logl(sum) - (long double)z[y];
}

static long double wanted_one_vs_all(const float *z, uint32_t classes, uint32_t y)
{
    long double sum = -(long double)z[y];
    for (uint32_t k = 0; k < classes; k++) {
        sum += log1pl(expl((long double)z[k]));
    }
    return sum;
}

static long double wanted_ove(const float *z, uint32_t classes, uint32_t y)
{
    long double sum = 0;
    for (uint32_t k = 0; k < classes; k++) {
        sum += k != y ? log1pl(expl((long double)z[k] - (long double)z[y])) : 0;
    }
    return sum;
}

/* alpha + sum log(1 + e^(z - alpha)), at the alpha where the sum of sigma(z - alpha) is 1, by halving. */
static long double wanted_bouchard(const float *z, uint32_t classes, uint32_t y)
{
    long double low = -100, high = 100, sum = 0;
    for (int step = 0; step < 120; step++) {
        const long double alpha = (low + high) / 2;
        sum = 0;
        for (uint32_t k = 0; k < classes; k++) {
            sum += 1 / (1 + expl(alpha - (long double)z[k]));
        }
        low = sum > 1 ? alpha : low;
        high = sum > 1 ? high : alpha;
    }
    sum = low - (long double)z[y];
    for (uint32_t k = 0; k < classes; k++) {
        sum += log1pl(expl((long double)z[k] - low));
    }
    return sum;
}

static const struct sum_case {
    const char *name, *options;
    long double (*wanted)(const float *z, uint32_t classes, uint32_t y);
} cases[] = {
    {"softmax", "", wanted_softmax},      {"one-vs-all", "", wanted_one_vs_all},
    {"ove", "negatives=all", wanted_ove}, {"ove", "negatives=all tight=all", wanted_softmax},
    {"bouchard", "", wanted_bouchard},    {"margin", "", NULL},
};
enum { CASES = sizeof cases / sizeof *cases };

/* dL/dx is sum_k g_k w_k. */
static void check_input(const xsm_model *m, const xsm_gradient *g, size_t rows, const float *input)
{
    const xsm_gradient_view v = test_view(g);
    for (size_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            long double wanted = 0, size = 0;
            for (uint32_t k = 0; k < m->classes; k++) {
                const long double term =
                    (long double)v.coefficients[i * v.width + k] * (long double)test_weight(m, k, j);
                wanted += term;
                size += fabsl(term);
            }
            assert_true(fabsl((long double)input[i * FEATURES + j] - wanted) <= 1e-5L * size);
        }
    }
}

TEST(losses_are_sums)
{
    for (size_t b = 0; b < BORDERS; b++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(2, FEATURES, borders[b], false, 5);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 2, 3);
        HELD_MEMORY(float, z) = malloc(2 * borders[b] * sizeof *z);
        assert_non_null(z);
        test_all_scores(m, p.data, z);
        for (size_t c = 0; c < CASES; c++) {
            HELD(xsm_estimator, e) = test_estimator(NULL, cases[c].name, cases[c].options);
            HELD(xsm_gradient, g) = test_gradient(NULL);
            const xsm_batch batch = xsm_batch_range(p.data, 0, 2);
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            float input[2 * FEATURES];
            assert_ok(xsm_estimator_gradient_input(e, &batch, 0.1, g, input, FEATURES, &err), err);
            check_input(m, g, 2, input);
            for (size_t i = 0; cases[c].wanted && i < 2; i++) {
                const double wanted = (double)cases[c].wanted(z + i * borders[b], borders[b], p.labels[i]);
                assert_true(fabs(g->losses[i] - wanted) < 1e-6 * (1 + fabs(wanted)));
            }
        }
    }
}

/* -- the same bits, whatever computes them ------------------------------------------------------------------------- */

typedef struct computed {
    double losses[ROWS];
    uint64_t bits; /* of the coefficients and of dL/dx of the first SOME rows, as one batch */
} computed;

static uint64_t mix(uint64_t hash, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &values[i], sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

static computed compute(xsm_context *ctx, const test_problem *p, bool sparse, const struct sum_case *c, uint64_t rows)
{
    computed out = {.bits = 0};
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(ctx, p, true, sparse ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR, 2, 3);
    HELD(xsm_estimator, e) = test_estimator(ctx, c->name, c->options);
    HELD(xsm_gradient, g) = test_gradient(ctx);
    assert_ok(xsm_estimator_bind(e, m, p->data, &err), err);
    for (uint64_t first = 0; first < ROWS; first += rows) {
        const uint64_t count = ROWS - first < rows ? ROWS - first : rows;
        const xsm_batch batch = xsm_batch_range(p->data, first, count);
        assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g, &err), err);
        memcpy(out.losses + first, g->losses, count * sizeof *out.losses);
    }
    const xsm_batch some = xsm_batch_range(p->data, 0, SOME);
    float input[SOME * FEATURES];
    assert_ok(xsm_estimator_gradient_input(e, &some, 0.1, g, input, FEATURES, &err), err);
    const xsm_gradient_view v = test_view(g);
    out.bits = mix(mix(0, v.coefficients, SOME * v.width), input, SOME * FEATURES);
    return out;
}

TEST(bits_are_the_same)
{
    static const uint32_t masks[] = {0, XSM_CPU_DISABLE_AVX512, XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON};
    static const uint64_t batches[] = {200, 33, 31, 2, 1};
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, 8200, sparse, 7);
        for (size_t c = 0; c < CASES; c++) {
            xsm_context *first = test_context(1, TEST_BUILT_IN, 0);
            const computed one = compute(first, &p, sparse, &cases[c], 200);
            xsm_context_free(first);
            for (uint32_t i = 0; i < 5; i++) {
                HELD(xsm_context, ctx) = test_context(1 + i % 3, TEST_BUILT_IN, masks[i % 3]);
                const computed other = compute(ctx, &p, sparse, &cases[c], batches[i]);
                assert_memory_equal(one.losses, other.losses, sizeof one.losses);
                assert_true(one.bits == other.bits);
            }
        }
    }
}

/* -- evaluation ---------------------------------------------------------------------------------------------------- */

TEST(evaluation_is_a_sum)
{
    for (size_t b = 0; b < BORDERS; b++) {
        for (int variant = 0; variant < 4; variant++) {
            const bool sparse = variant & 1;
            HELD_STRUCT(test_problem, p) = test_problem_new(SOME, FEATURES, borders[b], sparse, 5);
            HELD(xsm_model, m) = test_model(NULL, &p, true, variant / 2, 2, 3);
            HELD_MEMORY(float, z) = malloc((size_t)SOME * borders[b] * sizeof *z);
            assert_non_null(z);
            test_all_scores(m, p.data, z);
            long double wanted = 0;
            for (size_t i = 0; i < SOME; i++) {
                wanted += wanted_softmax(z + i * borders[b], borders[b], p.labels[i]) / SOME;
            }
            xsm_metrics found = XSM_METRICS_INIT;
            assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &found, &err), err);
            assert_true(fabs(found.log_loss - (double)wanted) < 3e-7 * (double)wanted);
            for (uint32_t threads = 1; threads <= 3; threads++) {
                HELD(xsm_context, ctx) =
                    test_context(threads, TEST_BUILT_IN, threads == 2 ? XSM_CPU_DISABLE_AVX512 : 0);
                xsm_metrics again = XSM_METRICS_INIT;
                assert_ok(xsm_evaluate(ctx, m, p.data, NULL, &again, &err), err);
                assert_true(again.log_loss == found.log_loss);
            }
        }
    }
}
