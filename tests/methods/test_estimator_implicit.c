/*
 * Tests of the implicit step: at its end the gradient of the whole proximal objective, computed here in double, is
 * zero; Propositions 1 and 2 of Fagan and Iyengar 2018; examples without features.
 */
#include "training.h"

#include "estimator/estimator.h"
#include "methods/double_sum.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { FEATURES = 9, CLASSES = 12, ROWS = 6 };

/* The estimator's state begins with what the double-sum estimators share. */
static double *u_of(xsm_estimator *e)
{
    return ((xsmi_double_sum *)e->state)->u;
}

typedef struct setting {
    uint32_t negatives;
    double eta, ridge;
    bool bias, sparse;
    double size; /* of the weights */
    const char *solver;
} setting;

typedef struct before {
    double w[CLASSES][FEATURES], b[CLASSES], u;
} before;

static before look(const xsm_model *m, xsm_estimator *e, uint64_t row)
{
    before old;
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            old.w[k][j] = test_weight(m, k, j);
        }
        old.b[k] = test_bias(m, k);
    }
    old.u = u_of(e)[row];
    return old;
}

static double norm(const float *x, bool bias)
{
    double sum = bias;
    for (uint32_t j = 0; j < FEATURES; j++) {
        sum += (double)x[j] * (double)x[j];
    }
    return sum;
}

/*
 * Largest component of the gradient of
 *   eta [u + e^-u (1 + (K-1)/m sum_k e^(z_k - z_y))] + sum_j (eta mu beta_j / 2N) |w_j|^2 + |theta - theta_old|^2 / 2
 * at the point that the step's coefficients lead to, relative to the terms that it is the sum of. Rows are followed in
 * double from the coefficients, so that only those (float32) and the scores (float32) are rounded.
 */
static double stationarity(const setting *s, const test_problem *p, uint64_t row, const before *old,
                           const xsm_gradient_view *g, double u)
{
    const float *x = p->x + row * FEATURES;
    const uint64_t *counts = test_class_counts(p->data);
    uint32_t n = g->lengths[0];
    double weight = (double)(CLASSES - 1) / s->negatives, worst = 0;
    double z[CLASSES], pull[CLASSES];
    for (uint32_t j = 0; j < n; j++) {
        uint32_t k = g->classes[j];
        /* beta_j / N: one over the examples of an epoch that are expected to touch the class */
        double own = (double)counts[k];
        double beta = 1 / (own + ((double)p->rows - own) * s->negatives / (CLASSES - 1));
        pull[j] = s->eta * s->ridge * beta;
        z[j] = s->bias ? old->b[k] - s->eta * (double)g->coefficients[j] : 0;
        for (uint32_t i = 0; i < FEATURES; i++) {
            double w = g->shrinks[j] * (old->w[k][i] - s->eta * (double)g->coefficients[j] * (double)x[i]);
            z[j] += w * (double)x[i];
        }
    }
    double sum = 0;
    for (uint32_t j = 1; j < n; j++) {
        sum += weight * exp(z[j] - z[0] - u);
    }
    double du = s->eta * (1 - exp(-u) - sum) + u - old->u;
    double size = s->eta * (1 + sum) + fabs(u) + fabs(old->u);
    worst = u > 0 ? fabs(du) / size : 0;
    for (uint32_t j = 0; j < n; j++) {
        uint32_t k = g->classes[j];
        double c = j ? s->eta * weight * exp(z[j] - z[0] - u) : -s->eta * sum;
        for (uint32_t i = 0; i < FEATURES; i++) {
            double w = g->shrinks[j] * (old->w[k][i] - s->eta * (double)g->coefficients[j] * (double)x[i]);
            double slope = c * (double)x[i] + pull[j] * w + w - old->w[k][i];
            double terms = fabs(c * (double)x[i]) + pull[j] * fabs(w) + fabs(w) + fabs(old->w[k][i]);
            worst = terms > 0 ? fmax(worst, fabs(slope) / terms) : worst;
        }
        if (s->bias) {
            double slope = c - s->eta * (double)g->coefficients[j];
            worst = c != 0 ? fmax(worst, fabs(slope) / fabs(c)) : worst;
        }
    }
    return worst;
}

static void take_steps(const setting *s)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, s->sparse, 5);
    HELD(xsm_model, m) = test_model(NULL, &p, s->bias, XSM_LAYOUT_CLASS_MAJOR, s->size, 17);
    char options[160];
    snprintf(options, sizeof options, "negatives=%u ridge=%.17g solver=%s start=log-classes tolerance=1e-12",
             s->negatives, s->ridge, s->solver);
    HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", options);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    for (uint64_t step = 0; step < 4 * ROWS; step++) {
        xsm_batch batch = xsm_batch_range(p.data, step % ROWS, 1);
        before old = look(m, e, step % ROWS);
        assert_ok(xsm_estimator_gradient(e, &batch, s->eta, g, &err), err);
        xsm_gradient_view view = test_view(g);
        assert_int_equal(view.lengths[0], 1 + s->negatives);
        double off = stationarity(s, &p, step % ROWS, &old, &view, u_of(e)[step % ROWS]);
        if (!(off <= 2e-6)) {
            fail_msg("m %u eta %g ridge %g bias %d size %g: the gradient at the new point is %g of its terms",
                     s->negatives, s->eta, s->ridge, s->bias, s->size, off);
        }
        assert_ok(xsm_optimizer_apply(o, &batch, g, s->eta, &err), err);
    }
}

TEST(step_is_where_the_gradient_is_zero)
{
    static const uint32_t negatives[] = {1, 2, 7, CLASSES - 1};
    static const double ridges[] = {0, 0.1, 30}, sizes[] = {0, 0.5, 3};
    for (int power = -6; power <= 0; power++) {
        for (size_t n = 0; n < 4; n++) {
            for (size_t r = 0; r < 3; r++) {
                for (size_t w = 0; w < 3; w++) {
                    for (int kind = 0; kind < 4; kind++) {
                        setting s = {negatives[n],
                                     pow(10, power),
                                     ridges[r],
                                     kind & 1,
                                     kind & 2,
                                     sizes[w],
                                     (power + kind) % 2 ? "newton" : "bisection"};
                        take_steps(&s);
                    }
                }
            }
        }
    }
}

/* Solves one example with scores far apart for both kinds of step: `gap` = x.(w_k - w_y) - u. */
static void both_steps(double gap, double eta, bool ridge, double *implicit, double *explicit)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(1, FEATURES, 3, false, 9);
    p.labels[0] = 1;
    HELD(xsm_dataset, data) = test_relabel(&p, false, 3, NULL, p.labels);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    double x2 = norm(p.x, false);
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &w, &err), err);
    for (uint32_t k = 0; k < 3; k++) {
        for (uint32_t j = 0; k != 1 && j < FEATURES; j++) {
            w.weight[k * w.class_step + j * w.feature_step] = (float)(gap / x2 * (double)p.x[j]);
        }
    }
    HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", ridge ? "negatives=1 ridge=0.5" : "negatives=1");
    assert_ok(xsm_estimator_bind(e, m, data, &err), err);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(data, 0, 1);
    assert_ok(xsm_estimator_gradient(e, &batch, eta, g, &err), err);
    xsm_gradient_view view = test_view(g);
    *implicit = fabs((double)view.coefficients[1]);
    *explicit = 2 * exp(test_score(m, view.classes[1], p.x) - test_score(m, 1, p.x));
    assert_true(fabs((double)view.coefficients[0] + (double)view.coefficients[1]) <= 1e-6 * *implicit);
}

TEST(never_longer_than_the_explicit_step)
{
    for (double gap = -20; gap <= 60; gap += 2.5) {
        for (int power = -6; power <= 4; power += 2) {
            double implicit, explicit;
            both_steps(gap, pow(10, power), false, &implicit, &explicit);
            if (!(implicit <= explicit * (1 + 1e-5))) {
                fail_msg("gap %g eta 1e%d: %g against %g", gap, power, implicit, explicit);
            }
            if (power == -6 && gap < 0) { /* and the same for small steps */
                assert_true(implicit >= explicit * (1 - 1e-4));
            }
        }
    }
}

TEST(without_features_only_u_moves)
{
    float x[2 * 4] = {0};
    x[4] = 1;
    uint32_t labels[2] = {2, 0};
    xsm_labels given = {sizeof given, 5, 0, NULL, labels, NULL};
    MADE(xsm_dataset, data,
         xsm_dataset_from_dense(
             NULL,
             STRUCT(xsm_dense_rows, .values = x, .rows = 2, .features = 4, .labels = &given, .ownership = XSM_BORROW),
             &data, &err));
    test_problem p = {.rows = 2, .features = 4, .classes = 5};
    for (int ridge = 0; ridge < 2; ridge++) {
        HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
        double old = test_weight(m, 2, 1);
        HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", ridge ? "negatives=2 ridge=1" : "negatives=2");
        assert_ok(xsm_estimator_bind(e, m, data, &err), err);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        xsm_batch batch = xsm_batch_range(data, 0, 1);
        double eta = 0.25;
        assert_ok(xsm_estimator_gradient(e, &batch, eta, g, &err), err);
        /* eta (1 - e^-u (1 + (K-1)/m m)) + u - 0 = 0, the sum over the sample being m e^0 */
        double u = u_of(e)[0];
        assert_true(u > 0);
        assert_true(fabs(eta * (1 - exp(-u) * 5) + u) < 1e-8);
        xsm_gradient_view view = test_view(g);
        for (uint32_t j = 1; j < 3; j++) {
            assert_true(fabs((double)view.coefficients[j] - 2 * exp(-u)) < 1e-6);
        }
        assert_ok(xsm_optimizer_apply(o, &batch, g, eta, &err), err);
        assert_true(fabs(test_weight(m, 2, 1) - (ridge ? view.shrinks[0] : 1) * old) < 1e-7);
        assert_true(u_of(e)[1] == 0);
    }
}

/* One class: nothing to draw, but the ridge still holds. */
TEST(one_class)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(4, 3, 1, false, 21);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    double old = test_weight(m, 0, 1);
    HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", "ridge=2");
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    xsm_batch batch = xsm_batch_range(p.data, 0, 1);
    assert_ok(xsm_estimator_gradient(e, &batch, 0.5, g, &err), err);
    assert_int_equal(test_view(g).lengths[0], 1);
    assert_true(test_view(g).coefficients[0] == 0);
    assert_ok(xsm_optimizer_apply(o, &batch, g, 0.5, &err), err);
    assert_true(fabs(test_weight(m, 0, 1) - old / (1 + 0.5 * 2 / 4)) < 1e-7); /* all four rows touch it */
}

/* A pass over the rows with these options, and one step on the first row again: the weights, and that row's u. */
static uint64_t pass(const test_problem *p, const char *options, bool bias, double *u)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(NULL, p, bias, XSM_LAYOUT_CLASS_MAJOR, 1, 17);
    HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", options);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    assert_ok(xsm_estimator_bind(e, m, p->data, &err), err);
    for (uint64_t i = 0; i <= ROWS; i++) {
        xsm_batch batch = xsm_batch_range(p->data, i % ROWS, 1);
        assert_ok(xsm_estimator_gradient(e, &batch, 0.5, g, &err), err);
        assert_int_equal(test_view(g).lengths[0], CLASSES);
        assert_ok(xsm_optimizer_apply(o, &batch, g, 0.5, &err), err);
    }
    *u = u_of(e)[0];
    uint64_t hash = test_hash(m);
    return hash;
}

/* m = K - 1: every class is in the step, once, so that nothing of it is drawn and no seed matters. */
TEST(all_classes_make_a_step_without_chance)
{
    for (int kind = 0; kind < 4; kind++) {
        const bool bias = kind & 1;
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, kind & 2, 5);
        double u[3];
        uint64_t all = pass(&p, "negatives=all ridge=0.3 seed=1", bias, &u[0]);
        char number[64];
        snprintf(number, sizeof number, "negatives=%d ridge=0.3 seed=1", CLASSES - 1);
        assert_true(pass(&p, number, bias, &u[1]) == all);
        assert_true(pass(&p, "negatives=all ridge=0.3 seed=2", bias, &u[2]) == all);
        assert_true(u[0] == u[1] && u[0] == u[2]);
    }
}

/* Steps of m = K - 1 on one example again and again are the proximal point method on its log-loss in its joint form,
 * u + e^-u sum_k e^(z_k - z_y): loss and u come to the log-loss, and the coefficients to softmax's. */
TEST(all_classes_come_to_the_softmax)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 5);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 17);
    HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", "negatives=all");
    HELD(xsm_estimator, exact) = test_estimator(NULL, "softmax", "");
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    HELD(xsm_gradient, want) = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 2, 1);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_ok(xsm_estimator_bind(exact, m, p.data, &err), err);
    for (int step = 0; step < 400; step++) {
        test_take_step(e, o, g, &batch, 0.2);
    }
    assert_ok(xsm_estimator_gradient(exact, &batch, 0.2, want, &err), err);
    xsm_gradient_view is = test_view(g), should = test_view(want);
    assert_true(should.loss > 1e-3); /* not learnt by heart: there is something to compare */
    assert_true(fabs(u_of(e)[2] - should.loss) < 0.02 * should.loss);
    for (uint32_t j = 0; j < CLASSES; j++) {
        double softmax = (double)should.coefficients[is.classes[j]];
        assert_true(fabs((double)is.coefficients[j] - softmax) < 0.02 * should.loss);
    }
}
