/*
 * Tests of U-max's projections: rows of weights stay within B_W and u within B_u, compared with a dense computation in
 * double with the same gradients; and the defaults of the bounds.
 */
#include "training.h"

#include "estimator/estimator.h"
#include "methods/double_sum.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 40, FEATURES = 30, CLASSES = 9 };

/* The weights in double, by class, the bias last. */
typedef struct dense {
    double w[CLASSES][FEATURES + 1];
} dense;

static double length_of(const double *row)
{
    double sum = 0;
    for (int j = 0; j < FEATURES; j++) {
        sum += row[j] * row[j];
    }
    return sqrt(sum);
}

/* What the view says a step is, with every weight touched. */
static int dense_step(dense *d, const xsm_gradient_view *view, const test_problem *p, const uint64_t *rows, double eta)
{
    bool touched[CLASSES] = {false};
    int scaled = 0;
    for (uint64_t i = 0; i < view->examples; i++) {
        for (uint32_t j = 0; j < view->lengths[i]; j++) {
            uint32_t k = view->classes[i * view->width + j];
            double step = -eta * (double)view->coefficients[i * view->width + j];
            touched[k] = true;
            for (int f = 0; f < FEATURES; f++) {
                d->w[k][f] += step * (double)p->x[rows[i] * FEATURES + (uint64_t)f];
            }
            d->w[k][FEATURES] += step;
        }
    }
    for (int k = 0; k < CLASSES; k++) {
        for (int j = 0; j < FEATURES; j++) {
            d->w[k][j] *= view->decay;
        }
        double length = length_of(d->w[k]);
        if (touched[k] && view->row_bound > 0 && length > view->row_bound) {
            scaled++;
            for (int j = 0; j < FEATURES; j++) {
                d->w[k][j] *= view->row_bound / length;
            }
        }
    }
    return scaled;
}

static void check_bounds(double ridge, double bound, uint64_t batch, bool sparse, bool bias, int32_t threads)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 5);
    HELD(xsm_context, ctx) = test_context((uint32_t)threads, TEST_BUILT_IN, 0);
    HELD(xsm_model, m) = test_model(ctx, &p, bias, XSM_LAYOUT_CLASS_MAJOR, 0.01, 17);
    char options[160];
    snprintf(options, sizeof options, "negatives=3 ridge=%g weight-bound=%g u-bound=1.5", ridge, bound);
    HELD(xsm_estimator, e) = test_estimator(ctx, "umax", options);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    HELD(xsm_optimizer, o) = test_optimizer(ctx, m);
    HELD(xsm_gradient, g) = test_gradient(ctx);
    dense d;
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            d.w[k][j] = test_weight(m, k, j);
        }
        d.w[k][FEATURES] = test_bias(m, k);
    }
    uint64_t seed = 3;
    int scaled = 0;
    double u_most = 0;
    for (int step = 0; step < 6000; step++) {
        uint64_t rows[ROWS];
        for (uint64_t i = 0; i < batch; i++) {
            rows[i] = test_next(&seed) % ROWS;
        }
        double eta = 0.3;
        xsm_batch b = xsm_batch_rows(p.data, rows, batch);
        assert_ok(xsm_estimator_gradient(e, &b, eta, g, &err), err);
        xsm_gradient_view view = test_view(g);
        assert_true(fabs(view.row_bound - bound) < 1e-12);
        assert_ok(xsm_optimizer_apply(o, &b, g, eta, &err), err);
        scaled += dense_step(&d, &view, &p, rows, eta);
        for (uint32_t k = 0; step % 50 == 0 && k < CLASSES; k++) {
            double sum = 0;
            for (uint32_t j = 0; j < FEATURES; j++) {
                double w = test_weight(m, k, j);
                sum += w * w;
                if (!(fabs(w - d.w[k][j]) <= 3e-6 * bound)) {
                    fail_msg("ridge %g, batch %llu, sparse %d: step %d: weight %g, the dense one %g", ridge,
                             (unsigned long long)batch, sparse, step, w, d.w[k][j]);
                }
            }
            assert_true(sqrt(sum) <= bound * (1 + 1e-6));
            assert_true(!bias || fabs(test_bias(m, k) - d.w[k][FEATURES]) <= 1e-4);
        }
        for (uint64_t i = 0; i < ROWS; i++) {
            u_most = fmax(u_most, ((xsmi_double_sum *)e->state)->u[i]);
        }
        if (step == 3000) { /* weights that the host changes count from then on */
            xsm_parameters w = XSM_PARAMETERS_INIT;
            assert_ok(xsm_model_get_parameters(m, &w, &err), err);
            for (uint32_t j = 0; j < FEATURES; j++) {
                d.w[4][j] = 0.001 * j;
                w.weight[4 * w.class_step + j * w.feature_step] = (float)d.w[4][j];
            }
        }
    }
    assert_true(scaled > 100);
    assert_true(u_most == 1.5);
}

TEST(rows_stay_within_the_bound)
{
    for (int kind = 0; kind < 16; kind++) {
        check_bounds(kind & 1 ? 2 : 0, 0.7, kind & 2 ? 7 : 1, kind & 4, kind & 8, 1);
    }
    check_bounds(2, 0.7, 30, true, false, 3);
    check_bounds(40, 0.05, 5, true, true, 2); /* scales that leave their range again and again */
}

/* B_W^2 = (2/mu) N log K, B_u = log(1 + (K-1) e^(2 B_x B_W)). */
TEST(bounds_are_the_papers)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 5);
    double b_x = 0;
    for (uint64_t i = 0; i < ROWS; i++) {
        double sum = 0;
        for (uint64_t j = 0; j < FEATURES; j++) {
            sum += (double)p.x[i * FEATURES + j] * (double)p.x[i * FEATURES + j];
        }
        b_x = fmax(b_x, sqrt(sum));
    }
    static const struct {
        const char *options;
        double ridge, weight; /* bound given */
        bool bias, limited;   /* u */
    } cases[] = {{"", 0, 0, false, false},
                 {"ridge=3000", 3000, 0, false, true},
                 {"ridge=3000", 3000, 0, true, false},
                 {"weight-bound=0.25", 0, 0.25, false, true},
                 {"weight-bound=0.25 ridge=3000", 3000, 0.25, false, true}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        HELD(xsm_model, m) = test_model(NULL, &p, cases[c].bias, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        HELD(xsm_estimator, e) = test_estimator(NULL, "umax", cases[c].options);
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        double b_w = cases[c].weight > 0  ? cases[c].weight
                     : cases[c].ridge > 0 ? sqrt(2 / cases[c].ridge * ROWS * log(CLASSES))
                                          : 0;
        double b_u = log(1 + (CLASSES - 1) * exp(2 * b_x * b_w));
        for (uint64_t i = 0; i < ROWS; i++) {
            ((xsmi_double_sum *)e->state)->u[i] = 1e6; /* comes down by eta, to the bound if there is one */
        }
        xsm_batch batch = xsm_batch_range(p.data, 0, 1);
        assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
        double u = ((xsmi_double_sum *)e->state)->u[0];
        assert_true(fabs(u - (cases[c].limited ? b_u : 1e6 - 1)) <= 1e-6 * u);
        assert_true(fabs(test_view(g).row_bound - b_w) <= 1e-12 * b_w);
    }
}

/* The optimum lies within the default bounds, so that they do not change where training ends: with and without them a
 * run from 0 takes the same steps. */
TEST(default_bounds_do_not_bind)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 5);
    double last = 0;
    for (int way = 0; way < 2; way++) {
        HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        HELD(xsm_estimator, e) = test_estimator(
            NULL, "umax", way ? "negatives=3 ridge=1 weight-bound=1e300 u-bound=1e300" : "negatives=3 ridge=1");
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        for (uint64_t i = 0; i < 50 * ROWS; i++) {
            xsm_batch batch = xsm_batch_range(p.data, i % ROWS, 1);
            test_take_step(e, o, g, &batch, 0.05);
        }
        double sum = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            sum += test_score(m, k, p.x + (size_t)k * FEATURES);
        }
        assert_true(sum != 0 && (way == 0 || sum == last));
        last = sum;
    }
}
