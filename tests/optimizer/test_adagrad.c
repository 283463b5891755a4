/*
 * The optimizers adagrad and row-adagrad: whole runs against NumPy, the same bits however steps are taken, what they
 * refuse, their option.
 */
#include "training.h"

#include "golden/adagrad_golden.h"
#include "optimizer/optimizer.h"

#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = ADAGRAD_ROWS, FEATURES = ADAGRAD_FEATURES, CLASSES = ADAGRAD_CLASSES };

/* -- the problem of adagrad.py ------------------------------------------------------------------------------------- */

static test_problem golden_problem(bool sparse)
{
    test_problem p = {ROWS, FEATURES, CLASSES, calloc(ROWS * FEATURES, sizeof(float)), calloc(ROWS, sizeof(uint32_t)),
                      NULL};
    assert_true(p.x && p.labels);
    for (uint32_t i = 0; i < ROWS; i++) {
        p.labels[i] = (7 * i + i / 3) % CLASSES;
        for (uint32_t j = 0; j < FEATURES; j++) {
            int32_t value = (int32_t)((5 * i + 3 * j + i * j) % 11) - 5;
            p.x[i * FEATURES + j] = sparse && (i + j) % 3 ? 0.0f : (float)value / 4;
        }
    }
    p.data = test_relabel(&p, sparse, CLASSES, NULL, p.labels);
    return p;
}

static xsm_model *golden_model(xsm_context *ctx, int32_t layout)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_model, m, xsm_model_new_linear(ctx, FEATURES, CLASSES, STRUCT(xsm_model_options, .bias = 1), &m, &err));
    for (uint32_t k = 0; k < CLASSES; k++) {
        m->w.bias[k] = (float)((int32_t)(2 * k % 5) - 2) / 8;
        for (uint32_t j = 0; j < FEATURES; j++) {
            m->w.weight[k * m->w.stride + j] = (float)((int32_t)((3 * k + 5 * j) % 7) - 3) / 8;
        }
    }
    assert_ok(xsm_model_set_layout(m, layout, &err), err);
    return m;
}

/* "pairs": the label against the classes one and three further on, which several examples of a batch share. */
static uint64_t pairs_width(const void *state)
{
    (void)state;
    return 3;
}

static void pairs_select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                         uint32_t *lengths)
{
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        classes[3 * i] = examples[i].labels[0];
        classes[3 * i + 1] = (examples[i].labels[0] + 1) % CLASSES;
        classes[3 * i + 2] = (examples[i].labels[0] + 3) % CLASSES;
        lengths[i] = 3;
    }
}

static void pairs_gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + 3 * i;
        double sum = 0;
        for (int j = 1; j < 3; j++) {
            double c = 1.5 / (1 + exp((double)z[0] - (double)z[j]));
            block->coefficients[3 * i + (uint64_t)j] = (float)c;
            sum += c;
        }
        block->coefficients[3 * i] = (float)-sum;
        block->losses[i] = 0;
    }
}

static const xsm_estimator_ops pairs_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "pairs",
    .summary = "a fixed list of classes",
    .width = pairs_width,
    .select = pairs_select,
    .gradient = pairs_gradient,
};

static xsm_optimizer *adagrad(xsm_context *ctx, const char *name, double initial)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, name, &o, &err));
    assert_ok(xsm_optimizer_set_number(o, "initial", initial, &err), err);
    return o;
}

TEST(runs_are_those_of_numpy)
{
    static const uint32_t cpus[] = {0, XSM_CPU_DISABLE_AVX512, XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON};
    for (size_t c = 0; c < sizeof golden_adagrad / sizeof *golden_adagrad; c++) {
        HELD_STRUCT(test_problem, p) = golden_problem(golden_adagrad[c].sparse);
        uint64_t hashes[2][4];
        for (int bits = 0; bits < 8; bits++) {
            int32_t layout = bits < 4 ? XSM_LAYOUT_CLASS_MAJOR : XSM_LAYOUT_FEATURE_MAJOR;
            HELD(xsm_context, ctx) = test_context(bits % 4 == 3 ? 3 : 1, TEST_BUILT_IN, cpus[bits % 4 % 3]);
            HELD(xsm_model, m) = golden_model(ctx, layout);
            HELD(xsm_optimizer, o) = adagrad(ctx, golden_adagrad[c].optimizer, golden_adagrad[c].initial);
            const xsm_estimator_ops *ops = xsm_estimator_find(golden_adagrad[c].loss);
            MADE(xsm_estimator, e, xsm_estimator_new_from(ctx, ops ? ops : &pairs_ops, &e, &err));
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            assert_ok(xsm_optimizer_bind(o, m, &err), err);
            HELD(xsm_gradient, g) = test_gradient(ctx);
            for (uint64_t step = 0; step < ADAGRAD_STEPS; step++) {
                uint64_t rows[4], n = (uint64_t)golden_adagrad[c].batch;
                float values[4][FEATURES + 2];
                for (uint64_t r = 0; r < n; r++) {
                    rows[r] = (step * n + r) % ROWS;
                    memcpy(values[r], p.x + rows[r] * FEATURES, FEATURES * sizeof(float));
                }
                xsm_batch batch = xsm_batch_rows(p.data, rows, n);
                if (bits % 2 && !golden_adagrad[c].sparse) { /* the host's own features */
                    batch.values = values[0];
                    batch.stride = FEATURES + 2;
                    batch.features = FEATURES;
                }
                test_take_step(e, o, g, &batch, ADAGRAD_ETA);
                if (step == 5) { /* what the optimizer keeps goes along */
                    assert_ok(xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, &err), err);
                    assert_ok(xsm_model_set_layout(m, layout, &err), err);
                }
            }
            for (uint32_t k = 0; k < CLASSES; k++) {
                for (uint32_t j = 0; j <= FEATURES; j++) {
                    double have = j < FEATURES ? test_weight(m, k, j) : test_bias(m, k);
                    if (!(fabs(have - golden_adagrad[c].w[k][j]) <= 2e-5)) {
                        fail_msg("case %zu, layout %d: weight %u of class %u is %.9g, by NumPy %.9g", c, layout, j, k,
                                 have, golden_adagrad[c].w[k][j]);
                    }
                }
            }
            hashes[bits / 4][bits % 4] = test_hash(m);
            assert_true(hashes[bits / 4][bits % 4] == hashes[bits / 4][0]);
        }
    }
}

/* A larger problem: more examples than one product takes, more classes than one sum, every way into a step. */
TEST(both_layouts_agree)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(90, 21, 2100, sparse, 2);
        static const char *const estimators[] = {"softmax", "margin", "ove"};
        for (size_t s = 0; s < 6; s++) {
            for (uint64_t n = 1; n <= 70; n += 69) {
                xsm_model *m[2];
                for (int i = 0; i < 2; i++) {
                    m[i] = test_model(NULL, &p, true, i ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
                    HELD(xsm_estimator, e) = test_estimator(NULL, estimators[s % 3], "");
                    assert_ok(xsm_estimator_bind(e, m[i], p.data, &err), err);
                    HELD(xsm_optimizer, o) = adagrad(NULL, s < 3 ? "adagrad" : "row-adagrad", 1e-3);
                    assert_ok(xsm_optimizer_bind(o, m[i], &err), err);
                    HELD(xsm_gradient, g) = test_gradient(NULL);
                    for (uint64_t step = 0; step < 4; step++) {
                        xsm_batch batch = xsm_batch_range(p.data, step * 5, n);
                        test_take_step(e, o, g, &batch, 0.05);
                    }
                }
                double worst = 0;
                for (uint32_t k = 0; k < p.classes; k++) {
                    for (uint32_t j = 0; j < p.features; j++) {
                        worst = fmax(worst, fabs(test_weight(m[0], k, j) - test_weight(m[1], k, j)));
                    }
                    worst = fmax(worst, fabs(test_bias(m[0], k) - test_bias(m[1], k)));
                }
                if (!(worst <= 2e-4)) {
                    fail_msg("%s, sparse %d, n %llu: layouts differ by %g", estimators[s % 3], sparse,
                             (unsigned long long)n, worst);
                }
                xsm_model_free(m[0]);
                xsm_model_free(m[1]);
            }
        }
    }
}

TEST(what_does_not_go_with_it)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(60, 6, 9, false, 2);
    static const char *const refused[][3] = {
        {"implicit", "", "proximal"}, {"softmax", "ridge=1", "ridge"}, {"umax", "weight-bound=2", "length of rows"}};
    for (int i = 0; i < 3; i++) {
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
        HELD(xsm_estimator, e) = test_estimator(NULL, refused[i][0], refused[i][1]);
        HELD(xsm_optimizer, o) = adagrad(NULL, "adagrad", 1);
        xsm_trainer *t = (xsm_trainer *)&err;
        assert_fails(xsm_trainer_new(NULL, m, p.data, e, o, STRUCT(xsm_trainer_options, .eta = 0.1), &t, &err),
                     XSM_ERROR_UNSUPPORTED, err);
        assert_ptr_equal(t, &err);
        assert_non_null(strstr(err.message, refused[i][2]));
        assert_ok(xsm_optimizer_bind(o, m, &err), err);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        xsm_batch batch = xsm_batch_range(p.data, 0, 1);
        uint64_t before = test_hash(m);
        assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g, &err), err);
        assert_fails(xsm_optimizer_apply(o, &batch, g, 0.1, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_non_null(strstr(err.message, refused[i][2]));
        assert_true(test_hash(m) == before);
    }
}

/* A model whose rows still have scales of their own, from implicit steps with a ridge. */
TEST(scaled_rows_are_multiplied_out)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(60, 6, 9, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
    HELD(xsm_estimator, implicit) = test_estimator(NULL, "implicit", "ridge=5");
    HELD(xsm_estimator, e) = test_estimator(NULL, "ove", "");
    HELD(xsm_optimizer, sgd) = test_optimizer(NULL, m);
    HELD(xsm_optimizer, o) = adagrad(NULL, "adagrad", 1e-3);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 3, 1);
    assert_ok(xsm_estimator_bind(implicit, m, p.data, &err), err);
    test_take_step(implicit, sgd, g, &batch, 1);
    assert_non_null(m->w.row_scale);
    assert_ok(xsm_optimizer_bind(o, m, &err), err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g, &err), err);
    xsm_gradient_view view = test_view(g);
    uint32_t k = view.classes[0];
    double t = (double)view.coefficients[0] * (double)p.x[3 * p.features], before = test_weight(m, k, 0);
    assert_ok(xsm_optimizer_apply(o, &batch, g, 0.1, &err), err);
    assert_float_equal(test_weight(m, k, 0), before - 0.1 * t / sqrt(1e-3 + t * t), 1e-6);
}

TEST(its_option)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(6, 4, 3, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
    HELD(xsm_optimizer, o) = NULL;
    char text[32];
    assert_non_null(xsm_optimizer_at(2));
    assert_null(xsm_optimizer_at(3));
    assert_null(xsm_optimizer_at(3));
    assert_null(xsm_optimizer_find("adam"));
    const xsm_optimizer_ops *ops = xsm_optimizer_find("adagrad");
    assert_ptr_equal(ops, xsm_optimizer_at(1));
    assert_string_equal(ops->name, "adagrad");
    assert_non_null(ops->summary);
    assert_string_equal(xsm_optimizer_ops_option(ops, 0)->name, "initial");
    assert_null(xsm_optimizer_ops_option(ops, 1));
    assert_null(xsm_optimizer_ops_option(xsm_optimizer_find("sgd"), 0));
    assert_null(xsm_optimizer_ops_option(NULL, 0));
    assert_fails(xsm_optimizer_new(NULL, "adagrat", &o, &err), XSM_ERROR_NAME, err);
    assert_non_null(strstr(err.message, "'adagrad'"));
    assert_ok(xsm_optimizer_new(NULL, "adagrad", &o, &err), err);
    assert_true(xsm_optimizer_get(o, "initial", text, sizeof text) > 0);
    assert_true(atof(text) == atof(xsm_optimizer_ops_option(ops, 0)->initial));
    assert_fails(xsm_optimizer_set(o, "initial", "0", &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_optimizer_set(o, "initial", "much", &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_optimizer_set(o, "inital", "1", &err), XSM_ERROR_NAME, err);
    assert_non_null(strstr(err.message, "initial"));
    assert_fails(xsm_optimizer_set(o, "initial", NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_optimizer_set(NULL, "initial", "1", &err), XSM_ERROR_ARGUMENT, err);
    assert_ok(xsm_optimizer_set_number(o, "initial", 2, &err), err);
    assert_int_equal(xsm_optimizer_get(o, "initial", text, sizeof text), 1);
    assert_string_equal(text, "2");
    assert_int_equal(xsm_optimizer_get(o, "none", text, sizeof text), SIZE_MAX);
    assert_int_equal(xsm_optimizer_get(NULL, "initial", text, sizeof text), SIZE_MAX);
    assert_ok(xsm_optimizer_bind(o, m, &err), err);
    assert_fails(xsm_optimizer_set(o, "initial", "3", &err), XSM_ERROR_STATE, err);
}
