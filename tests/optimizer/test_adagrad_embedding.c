/*
 * The optimizers adagrad and row-adagrad on embedding models: whole runs against NumPy, the same bits however steps are
 * taken, and scales that other steps left.
 */
#include "training.h"

#include "estimator/estimator.h"
#include "golden/adagrad_embedding_golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/stored_weights.h>

enum { ROWS = GOLDEN_ROWS, FEATURES = GOLDEN_FEATURES, HIDDEN = GOLDEN_HIDDEN };

static test_problem golden_rows(void)
{
    test_problem p = {ROWS, FEATURES, FEATURES, calloc(ROWS * FEATURES, sizeof(float)), calloc(ROWS, sizeof(uint32_t)),
                      NULL};
    assert_true(p.x && p.labels);
    for (uint32_t i = 0; i < ROWS; i++) {
        p.labels[i] = (7 * i + i / 3) % FEATURES;
        for (uint32_t j = 0; j < FEATURES; j++) {
            double value = ((5 * i + 3 * j + i * j) % 10 - 4.5) / 4;
            p.x[i * FEATURES + j] = (i + j) % 3 ? 0.0f : (float)value;
        }
    }
    p.data = test_relabel(&p, true, FEATURES, NULL, p.labels);
    return p;
}

static float start(uint32_t j, uint32_t h, uint32_t shift)
{
    return (float)((int32_t)((3 * j + 5 * h + shift) % 7) - 3) / 8 + 1.0f / 64;
}

static xsm_model *golden_model(xsm_context *ctx, const char *activation, int mean, int tied)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    o.activation = strcmp(activation, "tanh") == 0   ? XSM_ACTIVATION_TANH
                   : strcmp(activation, "relu") == 0 ? XSM_ACTIVATION_RELU
                                                     : XSM_ACTIVATION_IDENTITY;
    o.pool = mean ? XSM_POOL_MEAN : XSM_POOL_SUM;
    o.tied = tied;
    o.bias = 1;
    NEW(xsm_model, m, xsm_model_new_embedding(ctx, FEATURES, HIDDEN, FEATURES, &o, &m, &err));
    xsm_embedding_parameters v = XSM_EMBEDDING_PARAMETERS_INIT;
    assert_ok(xsm_model_get_embedding_parameters(m, &v, &err), err);
    for (uint32_t k = 0; k < FEATURES; k++) {
        m->w.bias[k] = (float)((int32_t)(2 * k % 5) - 2) / 8;
        for (uint32_t h = 0; h < HIDDEN; h++) {
            m->w.weight[k * m->w.stride + h] = start(k, h, 0);
            if (!tied) {
                v.vectors[k * v.feature_step + h] = start(k, h, 2);
            }
        }
    }
    return m;
}

static xsm_optimizer *adagrad(xsm_context *ctx, xsm_model *m, const char *name, double initial)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, name, &o, &err));
    assert_ok(xsm_optimizer_set_number(o, "initial", initial, &err), err);
    assert_ok(xsm_optimizer_bind(o, m, &err), err);
    return o;
}

static void check_golden(size_t c, xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_parameters v = XSM_EMBEDDING_PARAMETERS_INIT;
    assert_ok(xsm_model_get_embedding_parameters(m, &v, &err), err);
    for (uint32_t k = 0; k < FEATURES; k++) {
        for (uint32_t j = 0; j <= 2 * HIDDEN; j++) {
            double have = j < HIDDEN    ? test_weight(m, k, j)
                          : j == HIDDEN ? test_bias(m, k)
                                        : (double)v.vectors[k * v.feature_step + (j - HIDDEN - 1)];
            if (!(fabs(have - golden_adagrad_embedding[c].w[k][j]) <= 2e-5)) {
                fail_msg("case %zu: number %u of class %u is %.9g, by NumPy %.9g", c, j, k, have,
                         golden_adagrad_embedding[c].w[k][j]);
            }
        }
    }
}

TEST(runs_are_those_of_numpy)
{
    static const uint32_t cpus[] = {0, XSM_CPU_DISABLE_AVX512, XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON};
    HELD_STRUCT(test_problem, p) = golden_rows();
    for (size_t c = 0; c < sizeof golden_adagrad_embedding / sizeof *golden_adagrad_embedding; c++) {
        uint64_t first = 0;
        for (int way = 0; way < 4; way++) {
            HELD(xsm_context, ctx) =
                test_context(way == 3 ? 3 : 1, way == 3 ? TEST_PTHREADS : TEST_BUILT_IN, cpus[way % 3]);
            HELD(xsm_model, m) = golden_model(ctx, golden_adagrad_embedding[c].activation,
                                              golden_adagrad_embedding[c].mean, golden_adagrad_embedding[c].tied);
            xsm_optimizer *o =
                adagrad(ctx, m, golden_adagrad_embedding[c].optimizer, golden_adagrad_embedding[c].initial);
            xsm_estimator *e = test_estimator(ctx, "softmax", "");
            xsm_gradient *g = test_gradient(ctx);
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            for (uint64_t step = 0; step < GOLDEN_STEPS; step++) {
                uint64_t rows[4], n = (uint64_t)golden_adagrad_embedding[c].batch;
                for (uint64_t r = 0; r < n; r++) {
                    rows[r] = (step * n + r) % ROWS;
                }
                xsm_batch batch = xsm_batch_rows(p.data, rows, n);
                test_take_step(e, o, g, &batch, GOLDEN_ETA);
            }
            check_golden(c, m);
            first = way == 0 ? test_hash_embedding(m) : first;
            assert_true(test_hash_embedding(m) == first);
            xsm_gradient_free(g);
            xsm_estimator_free(e);
            xsm_optimizer_free(o);
        }
    }
}

/* Batches large enough for several threads to share the features. */
TEST(threads_do_not_matter)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(600, 300, 40, true, 4);
    uint64_t hashes[6];
    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t t = i % 3;
        HELD(xsm_context, ctx) = test_context(t + 1, t == 2 ? TEST_REVERSED : TEST_BUILT_IN, 0);
        xsm_embedding_options options = XSM_EMBEDDING_OPTIONS_INIT;
        options.bias = 1;
        MADE(xsm_model, m, xsm_model_new_embedding(ctx, 300, 24, 40, &options, &m, &err));
        HELD(xsm_optimizer, o) = adagrad(ctx, m, i < 3 ? "adagrad" : "row-adagrad", 0.01);
        HELD(xsm_estimator, e) = test_estimator(ctx, "sampled-softmax", "negatives=7");
        HELD(xsm_gradient, g) = test_gradient(ctx);
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        for (uint64_t step = 0; step < 6; step++) {
            xsm_batch batch = xsm_batch_range(p.data, step * 100, 100);
            test_take_step(e, o, g, &batch, 0.1);
        }
        hashes[i] = test_hash_embedding(m);
        assert_true(hashes[i] == hashes[i - t]);
    }
}

/* Steps with a ridge leave a scale beside the vectors; adagrad's steps are of what is meant. */
TEST(scaled_vectors_are_multiplied_out)
{
    HELD_STRUCT(test_problem, p) = golden_rows();
    HELD(xsm_model, m) = golden_model(NULL, "identity", 0, 0);
    HELD(xsm_estimator, ridged) = test_estimator(NULL, "softmax", "ridge=20");
    HELD(xsm_estimator, plain) = test_estimator(NULL, "softmax", "");
    HELD(xsm_optimizer, sgd) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 3, 1);
    assert_ok(xsm_estimator_bind(ridged, m, p.data, &err), err);
    test_take_step(ridged, sgd, g, &batch, 0.5);
    assert_true(m->layer->w.alpha != 1);
    const double scale = m->layer->w.alpha;
    float before[FEATURES][HIDDEN];
    for (uint32_t j = 0; j < FEATURES; j++) {
        for (uint32_t h = 0; h < HIDDEN; h++) {
            before[j][h] = m->layer->w.weight[j * m->layer->w.stride + h];
        }
    }
    HELD(xsm_optimizer, o) = adagrad(NULL, m, "adagrad", 1e-3);
    assert_fails(xsm_optimizer_apply(o, &batch, g, 0.5, &err), XSM_ERROR_UNSUPPORTED, err); /* a ridge */
    assert_ok(xsm_estimator_bind(plain, m, p.data, &err), err);
    assert_ok(xsm_estimator_gradient(plain, &batch, 0.5, g, &err), err);
    double t[HIDDEN];
    for (uint32_t h = 0; h < HIDDEN; h++) {
        t[h] = (double)g->layer.gradient[h];
    }
    assert_ok(xsm_optimizer_apply(o, &batch, g, 0.5, &err), err);
    xsm_embedding_parameters v = XSM_EMBEDDING_PARAMETERS_INIT;
    assert_ok(xsm_model_get_embedding_parameters(m, &v, &err), err);
    for (uint32_t j = 0; j < FEATURES; j++) {
        for (uint32_t h = 0; h < HIDDEN; h++) {
            double step = t[h] * (double)p.x[3 * FEATURES + j];
            double want = scale * (double)before[j][h] - 0.5 * step / sqrt(1e-3 + step * step);
            assert_float_equal(v.vectors[j * v.feature_step + h], want, 1e-5);
        }
    }
}
