/*
 * Tests of full-batch fits: optima compared with golden ones (golden/optimum.py, optimum_data.py), the objective and
 * its gradient compared with a naive computation in double, the same bits on any runner, and every reason for which a
 * fit ends.
 */
#include "training.h"

#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/fit.h>

#include "golden/optimum_data_golden.h"
#include "golden/optimum_golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- a naive objective --------------------------------------------------------------------------------------------- */

enum { SOFTMAX, OVE, BOUCHARD };

/* A row's loss and its derivatives in double. */
static double naive_loss(int kind, const double *z, uint32_t classes, uint32_t y, double *g)
{
    double most = -INFINITY, sum = 0;
    for (uint32_t k = 0; k < classes; k++) {
        most = fmax(most, z[k]);
    }
    if (kind == SOFTMAX) {
        for (uint32_t k = 0; k < classes; k++) {
            sum += exp(z[k] - most);
        }
        for (uint32_t k = 0; k < classes; k++) {
            g[k] = exp(z[k] - most) / sum - (k == y);
        }
        return most + log(sum) - z[y];
    }
    if (kind == OVE) {
        double loss = 0;
        g[y] = 0;
        for (uint32_t k = 0; k < classes; k++) {
            if (k != y) {
                loss += log1p(exp(-fabs(z[k] - z[y]))) + fmax(z[k] - z[y], 0);
                g[k] = 1 / (1 + exp(z[y] - z[k]));
                g[y] -= g[k];
            }
        }
        return loss;
    }
    double low = -1e5, high = most + 60;
    for (int i = 0; i < 200; i++) {
        double middle = (low + high) / 2, total = 0;
        for (uint32_t k = 0; k < classes; k++) {
            total += 1 / (1 + exp(middle - z[k]));
        }
        *(total > 1 ? &low : &high) = middle;
    }
    double loss = low - z[y];
    for (uint32_t k = 0; k < classes; k++) {
        loss += log1p(exp(-fabs(z[k] - low))) + fmax(z[k] - low, 0);
        g[k] = 1 / (1 + exp(low - z[k])) - (k == y);
    }
    return loss;
}

/* sum of the losses + mu/2 |W|^2 at the model's weights, and the norm of its gradient. */
static double naive_objective(int kind, const xsm_model *m, const test_problem *p, double mu, double *norm)
{
    size_t columns = (size_t)m->features + 1;
    HELD_MEMORY(double, gradient) = calloc(m->classes * columns, sizeof *gradient);
    HELD_MEMORY(double, z) = calloc(2 * (size_t)m->classes, sizeof *z);
    double *g = z + m->classes, f = 0;
    assert_true(gradient && z);
    for (uint64_t i = 0; i < p->rows; i++) {
        for (uint32_t k = 0; k < m->classes; k++) {
            z[k] = test_score(m, k, p->x + i * p->features);
        }
        f += naive_loss(kind, z, m->classes, p->labels[i], g);
        for (uint32_t k = 0; k < m->classes; k++) {
            for (uint32_t j = 0; j < m->features; j++) {
                gradient[k * columns + j] += g[k] * (double)p->x[i * p->features + j];
            }
            gradient[k * columns + m->features] += m->w.bias ? g[k] : 0;
        }
    }
    *norm = 0;
    for (uint32_t k = 0; k < m->classes; k++) {
        for (uint32_t j = 0; j < m->features; j++) {
            double w = test_weight(m, k, j), slope = gradient[k * columns + j] + mu * w;
            f += mu / 2 * w * w;
            *norm += slope * slope;
        }
        *norm += gradient[k * columns + m->features] * gradient[k * columns + m->features];
    }
    *norm = sqrt(*norm);
    return f;
}

/* -- optima -------------------------------------------------------------------------------------------------------- */

typedef struct subject {
    const char *estimator, *options;
    int kind;
    double optimum[2]; /* over N, without and with a bias */
} subject;

static const subject subjects[] = {
    {"softmax", "ridge=1", SOFTMAX, {SMALL_SOFTMAX_BIAS_0, SMALL_SOFTMAX_BIAS_1}},
    {"bouchard", "ridge=1", BOUCHARD, {SMALL_BOUCHARD_BIAS_0, SMALL_BOUCHARD_BIAS_1}},
    {"ove", "ridge=1 negatives=all", OVE, {SMALL_ONE_VS_EACH_BIAS_0, SMALL_ONE_VS_EACH_BIAS_1}},
    {"ove", "ridge=1 negatives=all tight=all", SOFTMAX, {SMALL_SOFTMAX_BIAS_0, SMALL_SOFTMAX_BIAS_1}},
};
#define SUBJECTS (sizeof subjects / sizeof subjects[0])

TEST(optima_are_golden)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_golden_problem(sparse);
        for (size_t s = 0; s < 2 * SUBJECTS; s++) {
            const subject *of = &subjects[s / 2];
            bool bias = s % 2;
            HELD(xsm_model, m) = test_model(NULL, &p, bias, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
            double first, norm;
            naive_objective(of->kind, m, &p, 1, &first);
            HELD(xsm_estimator, e) = test_estimator(NULL, of->estimator, of->options);
            xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
            options.tolerance = 1e-8;
            xsm_fit_result r = XSM_FIT_RESULT_INIT;
            assert_ok(xsm_fit_full_batch(NULL, m, p.data, e, &options, &r, &err), err);
            double f = naive_objective(of->kind, m, &p, 1, &norm), want = of->optimum[bias] * (double)p.rows;
            print_message("%s, bias %d: %.9g, golden %.9g; %llu iterations, gradient %.3g of %.3g\n", of->estimator,
                          bias, f, want, (unsigned long long)r.iterations, norm, first);
            assert_true(fabs(f - want) <= 1e-6 * want);
            assert_true(fabs(r.objective - f) <= 1e-6 * f);
            assert_true(r.loss < r.objective && r.loss > 0);
            assert_true(norm <= 1e-3 * first); /* stationary */
            assert_true(fabs(r.gradient_norm - norm) <= 1e-5 * first);
            assert_true(r.end == XSM_FIT_CONVERGED || r.end == XSM_FIT_PRECISION);
            assert_true(r.evaluations > r.iterations && r.iterations > 3 && r.seconds > 0);
            assert_int_equal(m->w.layout, sparse ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR);
            /* From there it is done at once, and stays. */
            xsm_fit_result again = XSM_FIT_RESULT_INIT;
            assert_ok(xsm_fit_full_batch(NULL, m, p.data, e, NULL, &again, &err), err);
            assert_true(again.iterations <= 10 && again.objective <= r.objective * (1 + 1e-7));
        }
    }
}

/* Weights of any size and a ridge of the same have the optimum of weights of 1. */
TEST(small_weights_have_the_same_optimum)
{
    HELD_STRUCT(test_problem, p) = test_golden_problem(0);
    HELD_MEMORY(float, small) = malloc(p.rows * sizeof *small);
    assert_non_null(small);
    for (uint64_t i = 0; i < p.rows; i++) {
        small[i] = 1e-13F;
    }
    assert_ok(xsm_dataset_set_weights(p.data, STRUCT(xsm_dataset_weights, .rows = small, .row_count = p.rows), &err),
              err);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "ridge=1e-13");
    assert_ok(xsm_fit_full_batch(NULL, m, p.data, e, NULL, NULL, &err), err);
    double norm, f = naive_objective(SOFTMAX, m, &p, 1, &norm), want = SMALL_SOFTMAX_BIAS_1 * (double)p.rows;
    print_message("%.9g, golden %.9g\n", f, want);
    assert_true(fabs(f - want) <= 1e-5 * want);
}

/* First label, unit rows, no bias. */
TEST(bibtex_optima_are_golden)
{
    const char *path = test_data("bibtex/bibtex_train.txt.gz");
    if (!path) {
        skip();
    }
    xsm_read_options reading = XSM_READ_OPTIONS_INIT;
    reading.labels = XSM_KEEP_LABELS_FIRST;
    HELD(xsm_transform, unit) = NULL;
    MADE(xsm_dataset, data, xsm_dataset_read(NULL, path, NULL, &reading, &data, &err));
    assert_ok(xsm_dataset_drop(data, XSM_DROP_UNLABELLED, NULL, &err), err);
    assert_ok(xsm_dataset_drop(data, XSM_DROP_CLASSES, NULL, &err), err);
    assert_ok(xsm_transform_new(NULL, "unit", &unit, &err), err);
    assert_ok(xsm_transform_fit(unit, data, &err), err);
    assert_ok(xsm_transform_apply(unit, data, &err), err);
    static const struct {
        const char *estimator, *options;
        double optimum;
    } of[] = {{"softmax", "ridge=1", BIBTEX_SOFTMAX},
              {"bouchard", "ridge=1", BIBTEX_BOUCHARD},
              {"ove", "ridge=1 negatives=all", BIBTEX_ONE_VS_EACH}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        test_problem p = {.rows = BIBTEX_ROWS, .features = 1836, .classes = BIBTEX_CLASSES};
        HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        HELD(xsm_estimator, e) = test_estimator(NULL, of[i].estimator, of[i].options);
        xsm_fit_result r = XSM_FIT_RESULT_INIT;
        assert_ok(xsm_fit_full_batch(NULL, m, data, e, NULL, &r, &err), err);
        double f = r.objective / BIBTEX_ROWS;
        print_message("%s: %.9g, golden %.9g\n", of[i].estimator, f, of[i].optimum);
        assert_true(fabs(f / of[i].optimum - 1) < 2e-6);
    }
}

/* -- the same bits ------------------------------------------------------------------------------------------------- */

static uint64_t bits_of(const subject *of, bool sparse, bool bias, uint32_t threads, int runner, uint32_t cpu_disable)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_context, ctx) = test_context(threads, runner, cpu_disable);
    test_problem p = test_problem_new(4200, 19, 90, sparse, 5); /* two tiles, two ranges, several runs */
    xsm_model *m = test_model(ctx, &p, bias, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_estimator *e = test_estimator(ctx, of->estimator, of->options);
    xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
    options.iterations = 3;
    assert_ok(xsm_fit_full_batch(ctx, m, p.data, e, &options, NULL, &err), err);
    uint64_t hash = test_hash(m);
    xsm_estimator_free(e);
    xsm_model_free(m);
    test_problem_free(&p);
    return hash;
}

TEST(bits_do_not_depend_on_threads)
{
    for (size_t s = 0; s < SUBJECTS; s++) {
        for (int kind = 0; kind < 2; kind++) { /* every two of estimator, rows and bias meet */
            bool sparse = kind, bias = (kind + s) & 1;
            uint64_t hash = bits_of(&subjects[s], sparse, bias, 1, TEST_BUILT_IN, 0);
            assert_true(bits_of(&subjects[s], sparse, bias, 3, TEST_BUILT_IN, 0) == hash);
            assert_true(bits_of(&subjects[s], sparse, bias, 2, TEST_PTHREADS, 0) == hash);
            assert_true(bits_of(&subjects[s], sparse, bias, 5, TEST_REVERSED, 0) == hash);
            assert_true(bits_of(&subjects[s], sparse, bias, 2, TEST_BUILT_IN, XSM_CPU_DISABLE_AVX512) == hash);
            assert_true(bits_of(&subjects[s], sparse, bias, 1, TEST_BUILT_IN,
                                XSM_CPU_DISABLE_AVX512 | XSM_CPU_DISABLE_AVX2) == hash);
        }
    }
}

/* -- the callback -------------------------------------------------------------------------------------------------- */

typedef struct watch {
    uint64_t rows, calls, ends, evaluated, stop_at; /* iteration to stop after; UINT64_MAX = never */
    double last, seconds;
    bool stopped;
} watch;

static int32_t look(void *user, const xsm_progress *p)
{
    watch *w = user;
    assert_int_equal(p->size, sizeof *p);
    assert_int_equal(p->epoch, p->step);
    assert_int_equal(p->epochs, p->steps);
    assert_false(w->stopped);
    w->calls++;
    assert_true(p->seconds >= w->seconds);
    w->seconds = p->seconds;
    if (p->epoch_ended) {
        w->ends++;
        assert_int_equal(p->step, w->ends);
        assert_true(p->objective < w->last); /* every iteration is a better point */
        assert_true(p->gradient_norm > 0 && p->eta > 0 && p->loss > 0);
        assert_true(p->loss * (double)w->rows < p->objective);
        assert_true(p->examples >= w->rows * (w->ends + 1) && p->examples % w->rows == 0);
        w->last = p->objective;
        w->evaluated += p->train != NULL;
        assert_true(!p->train || fabs(p->train->log_loss - p->loss) < 1e-5);
        assert_true((p->train != NULL) == (p->test != NULL));
    } else if (w->calls == 1) {
        assert_true(p->step == 0 && isnan(p->objective) && isnan(p->loss));
    }
    w->stopped = p->step >= w->stop_at;
    return w->stopped;
}

TEST(callback_sees_and_stops)
{
    HELD_STRUCT(test_problem, p) = test_golden_problem(false);
    HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "ridge=1");
    for (uint64_t stop_at = 0; stop_at < 5; stop_at++) {
        watch w = {.rows = p.rows, .last = INFINITY, .stop_at = stop_at < 4 ? stop_at : UINT64_MAX};
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.25, 3);
        uint64_t before = test_hash(m);
        xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
        options.progress = look;
        options.progress_user = &w;
        options.evaluate_every = 4;
        options.evaluate_train = XSM_EVALUATE_ALL;
        options.test = p.data;
        options.iterations = 10;
        xsm_fit_result r = XSM_FIT_RESULT_INIT;
        xsm_status status = xsm_fit_full_batch(NULL, m, p.data, e, &options, &r, &err);
        double norm;
        if (stop_at == 4) {
            assert_ok(status, err);
            assert_int_equal(r.iterations, 10);
            assert_int_equal(r.end, XSM_FIT_ITERATIONS);
            assert_int_equal(w.evaluated, 3); /* after 4, 8 and, as the last, 10 */
        } else {
            assert_fails(status, XSM_CANCELLED, err);
            assert_int_equal(r.iterations, stop_at);
            assert_int_equal(r.end, XSM_FIT_UNFINISHED);
            assert_true((test_hash(m) == before) == (stop_at == 0));
            assert_true(stop_at > 0 || isnan(r.objective));
        }
        if (stop_at > 0) {
            double f = naive_objective(SOFTMAX, m, &p, 1, &norm);
            assert_true(fabs(f / r.objective - 1) < 1e-6 && r.objective == w.last);
        }
    }
}

/* -- what cannot be fitted ----------------------------------------------------------------------------------------- */

/* A host's own: what is wrong with it is in its name. */
typedef struct own_state {
    int32_t calls;
} own_state;

static xsm_status own_bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    (void)state;
    (void)problem;
    (void)err;
    return XSM_OK;
}

static void uphill(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        block->losses[i] = 0;
        for (uint64_t k = 0; k < block->width; k++) {
            float z = block->scores[i * block->width + k];
            block->losses[i] += 1 + 0.5 * (double)z * (double)z - (double)z;
            block->coefficients[i * block->width + k] = 1 - z; /* the wrong sign */
        }
    }
}

static void gapped(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        for (uint64_t k = 0; k < block->width; k++) {
            float z = block->scores[i * block->width + k];
            block->coefficients[i * block->width + k] = z == 0 ? -1 : NAN;
        }
        block->losses[i] = 1;
    }
}

TEST(failures_are_told)
{
    HELD_STRUCT(test_problem, p) = test_golden_problem(false);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    uint64_t before = test_hash(m);
    static const char *const sampled[] = {"ove", "umax", "implicit"};
    for (size_t i = 0; i < sizeof sampled / sizeof sampled[0]; i++) {
        HELD(xsm_estimator, e) = test_estimator(NULL, sampled[i], "negatives=3");
        assert_fails(xsm_fit_full_batch(NULL, m, p.data, e, NULL, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_non_null(strstr(err.message, "'ove' with negatives=all"));
    }
    xsm_estimator *e = test_estimator(NULL, "softmax", "");
    assert_fails(xsm_fit_full_batch(NULL, NULL, p.data, e, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_fit_full_batch(NULL, m, NULL, e, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_fit_full_batch(NULL, m, p.data, NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    static const double tolerances[] = {-2, 1, 2, NAN, INFINITY};
    for (size_t i = 0; i < sizeof tolerances / sizeof tolerances[0]; i++) {
        xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
        options.tolerance = tolerances[i];
        assert_fails(xsm_fit_full_batch(NULL, m, p.data, e, &options, NULL, &err), XSM_ERROR_RANGE, err);
    }
    xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
    xsm_fit_result usual = XSM_FIT_RESULT_INIT, zero = XSM_FIT_RESULT_INIT;
    assert_true(options.tolerance == XSM_DEFAULT);
    for (int i = 0; i < 2; i++) { /* with 0 as far as float32 goes */
        xsm_model *fresh = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        assert_ok(xsm_estimator_set(e, "ridge", "0.01", &err), err);
        assert_ok(xsm_fit_full_batch(NULL, fresh, p.data, e, &options, i ? &zero : &usual, &err), err);
        xsm_model_free(fresh);
        xsm_estimator_free(e);
        e = test_estimator(NULL, "softmax", "");
        options.tolerance = 0;
    }
    print_message("%llu and %llu iterations to %.12g and %.12g\n", (unsigned long long)usual.iterations,
                  (unsigned long long)zero.iterations, usual.objective, zero.objective);
    assert_true(zero.iterations > usual.iterations && zero.objective <= usual.objective);
    options = (xsm_fit_options)XSM_FIT_OPTIONS_INIT;
    options.memory = 1001;
    assert_fails(xsm_fit_full_batch(NULL, m, p.data, e, &options, NULL, &err), XSM_ERROR_RANGE, err);
    options.memory = 1;
    options.iterations = UINT64_C(1) << 31;
    assert_fails(xsm_fit_full_batch(NULL, m, p.data, e, &options, NULL, &err), XSM_ERROR_RANGE, err);
    test_problem other = test_problem_new(5, p.features + 1, p.classes, false, 1);
    options.iterations = 1;
    options.test = other.data;
    assert_fails(xsm_fit_full_batch(NULL, m, p.data, e, &options, NULL, &err), XSM_ERROR_SHAPE, err);
    assert_fails(xsm_fit_full_batch(NULL, m, other.data, e, NULL, NULL, &err), XSM_ERROR_SHAPE, err);
    assert_true(test_hash(m) == before);
    xsm_estimator_free(e);
    test_problem_free(&other);

    xsm_estimator_ops ops = {.size = sizeof ops,
                             .abi = XSM_EXT_ABI_VERSION,
                             .kind = XSM_ESTIMATOR_EXACT,
                             .name = "uphill",
                             .summary = "a gradient with the wrong sign",
                             .state_size = sizeof(own_state),
                             .bind = own_bind,
                             .gradient = uphill};
    for (int i = 0; i < 2; i++) {
        e = NULL;
        assert_ok(xsm_estimator_new_from(NULL, &ops, &e, &err), err);
        xsm_fit_result r = XSM_FIT_RESULT_INIT;
        assert_fails(xsm_fit_full_batch(NULL, m, p.data, e, NULL, &r, &err), XSM_ERROR_DIVERGED, err);
        assert_non_null(strstr(err.message, i ? "finite" : "uphill"));
        assert_int_equal(r.end, XSM_FIT_UNFINISHED);
        assert_true(r.evaluations > 0 && r.iterations == 0 && r.objective > 0);
        assert_true(test_hash(m) == before);
        xsm_estimator_free(e);
        ops.name = "gapped";
        ops.gradient = gapped;
    }
}

/* Features so large that no score is finite: the model stays finite. */
TEST(divergence_leaves_the_model)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(50, 3, 4, false, 9);
    for (int i = 0; i < 150; i++) {
        p.x[i] = p.x[i] < 0 ? -1e36f : 1e36f;
    }
    HELD(xsm_dataset, data) = test_relabel(&p, false, 4, NULL, p.labels);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 2);
    uint64_t before = test_hash(m);
    HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "ridge=1");
    xsm_fit_result r = XSM_FIT_RESULT_INIT;
    assert_fails(xsm_fit_full_batch(NULL, m, data, e, NULL, &r, &err), XSM_ERROR_DIVERGED, err);
    assert_non_null(strstr(err.message, "unit-length rows"));
    assert_true(test_hash(m) == before);
}
