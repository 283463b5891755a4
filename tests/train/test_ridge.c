/*
 * The L2 penalty (ridge) in steps. With s = 1/(1 + eta mu/N), a step with a ridge is s times the step without one: for
 * every estimator and optimizer, layout, first layer and batch. So a constant rate ends at the optimum that L-BFGS
 * finds, however large eta mu/N is; and so do proximal steps.
 */
#include "training.h"

#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* eta mu/N */
static const double ratios[] = {1e-3, 0.1, 3};
enum { RATIOS = sizeof ratios / sizeof *ratios };

static bool has_option(const xsm_estimator_ops *ops, const char *name)
{
    const xsm_option *o = NULL;
    for (size_t i = 0; (o = xsm_estimator_ops_option(ops, i)) && strcmp(o->name, name) != 0; i++) {
    }
    return o != NULL;
}

/* -- one step ------------------------------------------------------------------------------------------------------ */

enum { ROWS = 14, CLASSES = 9, FEATURES = 9, HIDDEN = 5 };

enum { CLASS_MAJOR, FEATURE_MAJOR, EMBEDDING, TIED, FORMS };

typedef struct form {
    int of;
    bool sparse, shared; /* rows; one draw for the whole batch */
    uint64_t batch;
} form;

static void fill(float *at, size_t stride, uint32_t lines, uint32_t width)
{
    uint64_t seed = 3;
    for (uint32_t i = 0; at && i < lines; i++) {
        for (uint32_t j = 0; j < width; j++) {
            at[i * stride + j] = (float)(test_uniform(&seed) - 0.5);
        }
    }
}

static xsm_model *model_of(const form *f, const test_problem *p)
{
    xsm_error err = XSM_ERROR_INIT;
    if (f->of < EMBEDDING) {
        return test_model(NULL, p, true, f->of == CLASS_MAJOR ? XSM_LAYOUT_CLASS_MAJOR : XSM_LAYOUT_FEATURE_MAJOR, 1,
                          3);
    }
    xsm_embedding_options options = XSM_EMBEDDING_OPTIONS_INIT;
    options.bias = 1;
    options.tied = f->of == TIED;
    NEW(xsm_model, m, xsm_model_new_embedding(NULL, FEATURES, HIDDEN, CLASSES, &options, &m, &err));
    fill(m->w.weight, m->w.stride, m->classes, HIDDEN);
    fill(m->layer->w.weight, m->layer->w.stride, FEATURES, HIDDEN);
    return m;
}

/* All weights, scales multiplied in; biases follow them. Returns their number; at most 2 CLASSES (FEATURES + 1). */
static size_t weights_of(const xsm_model *m, double *out)
{
    size_t n = 0;
    for (uint32_t k = 0; k < m->classes; k++) {
        for (uint32_t j = 0; j < m->features; j++) {
            out[n++] = test_weight(m, k, j);
        }
    }
    for (uint32_t j = 0; m->layer && !m->layer->tied && j < FEATURES; j++) {
        for (uint32_t h = 0; h < HIDDEN; h++) {
            out[n++] = m->layer->w.alpha * (double)m->layer->w.weight[j * m->layer->w.stride + h];
        }
    }
    return n;
}

/* A step with a ridge, which leaves scales beside the weights; then one with another ridge and a new estimator. Returns
 * its status. */
static xsm_status two_steps(const xsm_estimator_ops *ops, const char *optimizer, const form *f, double ridge,
                            const test_problem *p, double eta, xsm_model **model)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = *model = model_of(f, p);
    xsm_gradient *g = test_gradient(NULL);
    const xsm_batch batch = xsm_batch_range(p->data, 2, f->batch);
    xsm_status status = XSM_OK;
    NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, optimizer, &o, &err));
    for (int step = 0; status == XSM_OK && step < 2; step++) {
        HELD(xsm_estimator, e) =
            test_estimator(NULL, ops->name, strcmp(ops->name, "umax") == 0 ? "weight-bound=1e6" : "");
        if (f->shared) {
            assert_ok(xsm_estimator_set(e, "shared", "yes", &err), err);
        }
        assert_ok(xsm_estimator_set_number(e, "ridge", step ? ridge : 5, &err), err);
        status = xsm_estimator_bind(e, m, p->data, &err);
        if (step == 0 && status == XSM_OK) {
            assert_ok(xsm_optimizer_bind(o, m, &err), err);
        }
        status = status == XSM_OK ? xsm_estimator_gradient(e, &batch, eta, g, &err) : status;
        status = status == XSM_OK ? xsm_optimizer_apply(o, &batch, g, eta, &err) : status;
    }
    if (status != XSM_OK && status != XSM_ERROR_UNSUPPORTED) {
        fail_msg("%s with %s: %s", ops->name, optimizer, err.message);
    }
    xsm_gradient_free(g);
    xsm_optimizer_free(o);
    return status;
}

/* Returns whether the optimizer takes the estimator's steps with a ridge on such a model. */
static bool is_scaled(const xsm_estimator_ops *ops, const char *optimizer, const form *f)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, f->sparse, 5);
    bool taken = true;
    for (int r = 0; taken && r < RATIOS; r++) {
        const double eta = 0.25, s = 1 / (1 + ratios[r]);
        double with[2 * CLASSES * FEATURES], without[2 * CLASSES * FEATURES];
        HELD(xsm_model, penalised) = NULL;
        xsm_model *plain;
        taken = two_steps(ops, optimizer, f, ratios[r] * ROWS / eta, &p, eta, &penalised) == XSM_OK;
        if (taken) {
            assert_int_equal(two_steps(ops, optimizer, f, 0, &p, eta, &plain), XSM_OK);
            const size_t n = weights_of(penalised, with);
            assert_int_equal(weights_of(plain, without), n);
            for (size_t i = 0; i < n; i++) {
                if (!(fabs(with[i] - s * without[i]) <= 4e-7 * (1 + fabs(without[i])))) {
                    fail_msg(
                        "%s, form %d, sparse %d, shared %d, batch %d, eta mu/N = %g: weight %zu is %.9g; %.9g without "
                        "a ridge, %.9g in all",
                        ops->name, f->of, f->sparse, f->shared, (int)f->batch, ratios[r], i, with[i], without[i],
                        s * without[i]);
                }
            }
            for (uint32_t k = 0; k < penalised->classes; k++) {
                assert_true(test_bias(penalised, k) == test_bias(plain, k));
            }
            xsm_model_free(plain);
        }
    }
    return taken;
}

TEST(a_step_with_a_ridge_is_scaled)
{
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        const xsm_estimator_ops *ops = xsm_estimator_at(i);
        for (int bits = 0; bits < 8 * FORMS; bits++) {
            const form f = {bits / 8, bits & 1 || bits / 8 == TIED, bits & 2, bits & 4 ? 8 : 1};
            if (ops->flags & XSM_ESTIMATOR_PROXIMAL || (f.shared && !has_option(ops, "shared"))) {
                continue; /* proximal ones solve for the ridge, see below */
            }
            const bool taken = is_scaled(ops, "sgd", &f);
            /* searches, and bounds on rows, need class-major weights; trees and searches refuse tied vectors */
            if (!taken && f.of < TIED &&
                !(f.of == FEATURE_MAJOR && (ops->search_plan || strcmp(ops->name, "umax") == 0))) {
                fail_msg("%s takes no step: form %d, batch %d", ops->name, f.of, (int)f.batch);
            }
        }
    }
}

/* Each other optimizer takes such steps, too, or refuses a ridge. */
TEST(every_optimizer_scales_or_refuses)
{
    const xsm_optimizer_ops *o;
    for (size_t i = 0; (o = xsm_optimizer_at(i)); i++) {
        const form f = {CLASS_MAJOR, false, false, 8};
        assert_true(is_scaled(xsm_estimator_find("softmax"), o->name, &f) == !!(o->flags & XSM_OPTIMIZER_LINEAR));
    }
}

/* -- fixed points -------------------------------------------------------------------------------------------------- */

enum { FEW = 24, INPUTS = 4, LABELS = 5 };

typedef struct problem {
    test_problem rows;
    const xsm_estimator_ops *ops;
    int32_t layout;
    double eta, ratio;
    uint64_t steps;
} problem;

static xsm_estimator *estimator_of(const xsm_estimator_ops *ops, double ridge)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator *e = test_estimator(NULL, ops->name, "");
    if (has_option(ops, "negatives")) {
        (void)xsm_estimator_set(e, "negatives", "all", NULL);
    }
    assert_ok(xsm_estimator_set_number(e, "ridge", ridge, &err), err);
    return e;
}

/* f = sum_i loss_i + (mu/2) ||W||^2, of an estimator that scores all classes, and the length of its slope in W,
 * relative to the penalty's part of it. */
static double objective(const xsm_estimator_ops *ops, double ridge, xsm_model *m, const test_problem *p, double *slope)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator *e = estimator_of(ops, ridge);
    xsm_gradient *g = test_gradient(NULL);
    const xsm_batch all = xsm_batch_range(p->data, 0, p->rows);
    double squares = 0, slopes = 0;
    assert_ok(xsm_estimator_bind(e, m, p->data, &err), err);
    assert_ok(xsm_estimator_gradient(e, &all, 1, g, &err), err);
    const xsm_gradient_view v = test_view(g);
    assert_null(v.classes); /* every class */
    for (uint32_t k = 0; k < m->classes; k++) {
        for (uint32_t j = 0; j < m->features; j++) {
            const double w = test_weight(m, k, j);
            double sum = ridge / (double)p->rows * w;
            for (uint64_t i = 0; i < p->rows; i++) {
                sum += (double)v.coefficients[i * v.width + k] * (double)p->x[i * p->features + j];
            }
            squares += w * w;
            slopes += sum * sum;
        }
    }
    *slope = sqrt(slopes / squares) * (double)p->rows / ridge;
    xsm_gradient_free(g);
    xsm_estimator_free(e);
    return (double)p->rows * v.loss + ridge / 2 * squares;
}

/* Trains at a constant rate, all rows a step. */
static xsm_model *train(const problem *q, double ridge)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(NULL, &q->rows, q->rows.rows > 1, q->layout, 0, 0);
    HELD(xsm_estimator, e) = estimator_of(q->ops, ridge);
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = q->steps;
    options.batch = q->rows.rows;
    options.eta = q->eta;
    options.schedule = XSM_SCHEDULE_CONSTANT;
    NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    NEW(xsm_trainer, t, xsm_trainer_new(NULL, m, q->rows.data, e, o, &options, &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    return m;
}

/* Whether steps end where L-BFGS does, with the estimator whose optimum it is; false if L-BFGS has none of it. */
static bool ends_at_the_optimum(const problem *q, const xsm_estimator_ops *optimum)
{
    xsm_error err = XSM_ERROR_INIT;
    const double ridge = q->ratio * (double)q->rows.rows / q->eta;
    xsm_model *best = test_model(NULL, &q->rows, q->rows.rows > 1, q->layout, 0, 0);
    xsm_estimator *e = estimator_of(optimum, ridge);
    xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
    options.tolerance = 0;
    const xsm_status status = xsm_fit_full_batch(NULL, best, q->rows.data, e, &options, NULL, &err);
    xsm_estimator_free(e);
    if (status == XSM_ERROR_UNSUPPORTED) {
        xsm_model_free(best);
        return false;
    }
    assert_ok(status, err);
    xsm_model *m = train(q, ridge);
    double off = 0, size = 0;
    for (uint32_t k = 0; k < m->classes; k++) {
        for (uint32_t j = 0; j < m->features; j++) {
            off = fmax(off, fabs(test_weight(m, k, j) - test_weight(best, k, j)));
            size = fmax(size, fabs(test_weight(best, k, j)));
        }
    }
    /* L-BFGS compares objectives in float32, and ends a little beside the point where the slope is 0. */
    double slope, of_best;
    const double at = objective(optimum, ridge, m, &q->rows, &slope);
    const double least = objective(optimum, ridge, best, &q->rows, &of_best);
    if (!(off <= 2e-3 * size && at <= least * (1 + 1e-4) && slope <= 3e-4)) {
        fail_msg(
            "%s, layout %d, %llu rows, eta mu/N = %g: weights off by %g of %g, objective %.9g for %.9g, slope %g (%g)",
            q->ops->name, q->layout, (unsigned long long)q->rows.rows, q->ratio, off, size, at, least, slope, of_best);
    }
    xsm_model_free(m);
    xsm_model_free(best);
    return true;
}

TEST(constant_rates_end_at_the_optimum)
{
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        const xsm_estimator_ops *ops = xsm_estimator_at(i);
        const bool proximal = ops->flags & XSM_ESTIMATOR_PROXIMAL;
        for (int bits = 0; bits < 4 * RATIOS; bits += proximal && bits % 4 == 1 ? 3 : 1) { /* dense rows are enough */
            /* A single row has the steps of windows, and no bias, which would grow for ever. */
            problem q = {.rows = test_problem_new(bits & 1 ? 1 : FEW, INPUTS, LABELS, bits & 2, 7),
                         .ops = ops,
                         .layout = bits & 2 ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR,
                         .eta = proximal ? 8 : 0.25,
                         .ratio = ratios[bits / 4]};
            q.steps = 1500 + (proximal ? 0 : (uint64_t)(12 / log1p(q.ratio)));
            const xsm_estimator_ops *optimum = proximal ? xsm_estimator_find("softmax") : ops;
            assert_true(!proximal || strcmp(ops->name, "implicit") == 0); /* of another one, say what it minimises */
            const bool found = ends_at_the_optimum(&q, optimum);
            assert_true(found || ops->kind != XSM_ESTIMATOR_EXACT);
            test_problem_free(&q.rows);
            if (!found) {
                break;
            }
        }
    }
}
