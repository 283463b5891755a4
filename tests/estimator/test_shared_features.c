/*
 * Tests of batches of sparse rows that share features, on feature-major models: scores by tiles equal those of one
 * class at a time, and steps by feature equal the sums in double, with the same bits on any threads and instruction
 * set.
 */
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 300, FEATURES = 150, CLASSES = 1111, BATCH = 96 };

static test_problem problem(void)
{
    return test_problem_new(ROWS, FEATURES, CLASSES, true, 8);
}

static uint32_t scalar(void)
{
    return XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_AVX512 | XSM_CPU_DISABLE_NEON;
}

/* Ranges of classes that begin and end anywhere, batches that rows share features in or do not. */
TEST(test_scores)
{
    static const uint32_t firsts[] = {0, 5, 500}, counts[] = {CLASSES, 1001, 70}, batches[] = {ROWS, 33, 2, 1};
    HELD_STRUCT(test_problem, p) = problem();
    HELD_MEMORY(float, range) = malloc(ROWS * CLASSES * sizeof *range);
    HELD_MEMORY(float, single) = malloc(ROWS * CLASSES * sizeof *single);
    HELD_MEMORY(uint32_t, classes) = malloc(ROWS * CLASSES * sizeof *classes);
    assert_true(range && single && classes);
    for (int way = 0; way < 4; way++) {
        HELD(xsm_context, ctx) = test_context(way % 2 ? 3 : 1, TEST_BUILT_IN, way / 2 ? scalar() : 0);
        HELD(xsm_model, m) = test_model(ctx, &p, true, XSM_LAYOUT_FEATURE_MAJOR, 1, 3);
        m->w.alpha = 0.7;
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++) {
            for (size_t r = 0; r < sizeof firsts / sizeof *firsts; r++) {
                xsm_batch batch = xsm_batch_range(p.data, ROWS - batches[b], batches[b]);
                for (size_t i = 0; i < batches[b] * counts[r]; i++) {
                    classes[i] = firsts[r] + (uint32_t)(i % counts[r]);
                }
                assert_ok(xsm_model_score_range(m, &batch, firsts[r], counts[r], range, CLASSES, &err), err);
                assert_ok(xsm_model_scores(m, &batch, classes, counts[r], single, &err), err);
                for (size_t i = 0; i < batches[b]; i++) {
                    assert_memory_equal(range + i * CLASSES, single + i * counts[r], counts[r] * sizeof *range);
                }
            }
        }
    }
}

/* A few steps on batches of `batch` rows; where weights before the last are wanted, they are kept in `before`, and its
 * coefficients in `g`. */
static xsm_model *steps(const test_problem *p, xsm_context *ctx, const char *optimizer, uint64_t batch, double *before,
                        float *g)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(ctx, p, true, XSM_LAYOUT_FEATURE_MAJOR, 0.1, 4);
    HELD(xsm_estimator, e) = test_estimator(ctx, "softmax", strcmp(optimizer, "sgd") == 0 ? "ridge=0.5" : "");
    xsm_gradient *gradient = test_gradient(ctx);
    assert_ok(xsm_estimator_bind(e, m, p->data, &err), err);
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, optimizer, &o, &err));
    assert_ok(xsm_optimizer_bind(o, m, &err), err);
    for (uint64_t start = 0; start + batch <= ROWS; start += batch) {
        xsm_batch rows = xsm_batch_range(p->data, start, batch);
        assert_ok(xsm_estimator_gradient(e, &rows, 2, gradient, &err), err);
        for (uint32_t k = 0; before && k < CLASSES; k++) {
            for (uint32_t j = 0; j < FEATURES; j++) {
                before[k * FEATURES + j] = test_weight(m, k, j);
            }
        }
        if (g) {
            memcpy(g, test_view(gradient).coefficients, batch * CLASSES * sizeof *g);
        }
        assert_ok(xsm_optimizer_apply(o, &rows, gradient, 2, &err), err);
    }
    xsm_gradient_free(gradient);
    xsm_optimizer_free(o);
    return m;
}

/* w+ = (w - eta sum_i g_i x_i)/(1 + eta mu/N) over the last batch. */
TEST(test_step)
{
    HELD_STRUCT(test_problem, p) = problem();
    HELD(xsm_context, ctx) = test_context(2, TEST_BUILT_IN, 0);
    HELD_MEMORY(double, before) = malloc(sizeof *before * CLASSES * FEATURES);
    HELD_MEMORY(float, g) = malloc(sizeof *g * BATCH * CLASSES);
    assert_true(before && g);
    HELD(xsm_model, m) = steps(&p, ctx, "sgd", BATCH, before, g);
    const float *x = p.x + (ROWS / BATCH - 1) * BATCH * FEATURES;
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            double wanted = before[k * FEATURES + j];
            for (size_t i = 0; i < BATCH; i++) {
                wanted -= 2 * (double)g[i * CLASSES + k] * (double)x[i * FEATURES + j];
            }
            assert_true(fabs(test_weight(m, k, j) - wanted / (1 + 2 * 0.5 / ROWS)) < 2e-6);
        }
    }
}

/* Batches by feature, by example (of one row), and mixed sizes of tiles. */
TEST(test_same_bits)
{
    static const char *const optimizers[] = {"sgd", "adagrad"};
    static const uint64_t batches[] = {BATCH, 7, 1};
    HELD_STRUCT(test_problem, p) = problem();
    for (size_t o = 0; o < 2; o++) {
        for (size_t b = 0; b < 3; b++) {
            uint64_t hash[4];
            for (int way = 0; way < 4; way++) {
                xsm_context *ctx =
                    test_context(way == 0 ? 1 : 3, way == 2 ? TEST_REVERSED : TEST_BUILT_IN, way == 3 ? scalar() : 0);
                xsm_model *m = steps(&p, ctx, optimizers[o], batches[b], NULL, NULL);
                hash[way] = test_hash(m);
                xsm_model_free(m);
                xsm_context_free(ctx);
            }
            assert_true(hash[0] == hash[1] && hash[0] == hash[2] && hash[0] == hash[3]);
        }
    }
}

TEST(test_allocations)
{
    HELD_STRUCT(test_problem, p) = problem();
    test_steps s = {.p = &p, .estimator = "softmax", .options = "", .steps = 1, .rows = BATCH, .eta = 1};
    s.layout = XSM_LAYOUT_FEATURE_MAJOR;
    for (int adagrad = 0; adagrad < 2; adagrad++) {
        s.optimizer = adagrad ? "adagrad" : "sgd";
        assert_true(test_every_allocation(test_run_steps, &s) > 12);
    }
}
