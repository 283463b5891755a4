/*
 * Tests of the implicit step of several examples, compared with the solution of the whole dense proximal problem
 * (golden/implicit_batch.py) and with the one-example step; the solver's stationarity, extreme inputs, the drawn
 * classes, and the minibatches that a trainer keeps.
 */
#include "training.h"

#include "methods/implicit.h"
#include "estimator/span.h"
#include "math/proximal_batch.h"
#include "train/window.h"

#include <xsoftmax/trainer.h>

#include "golden/implicit_batch_golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 60, FEATURES = 7, CLASSES = 11 };

/* -- against golden solutions ------------------------------------------------------------------------------------ */

/* The problem of the generator, in its first n rows; the others are there for N. */
static test_problem golden_problem(uint32_t n, bool sparse)
{
    test_problem p = {.rows = ROWS, .features = FEATURES, .classes = CLASSES};
    p.x = calloc((size_t)ROWS * FEATURES, sizeof *p.x);
    p.labels = calloc(ROWS, sizeof *p.labels);
    assert_true(p.x && p.labels);
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            int value = (int)((i * 37 + j * 101 + i * j * 13) % 64) - 32;
            p.x[i * FEATURES + j] = i == 2 && n > 2 ? 0 : (float)value / 32;
        }
        p.labels[i] = i * 5 / 2 % 6;
    }
    for (uint32_t j = 0; j < FEATURES; j++) {
        if (n > 3) {
            p.x[3 * FEATURES + j] = p.x[j];
        }
        if (n > 5) {
            p.x[5 * FEATURES + j] = p.x[FEATURES + j] / 2 - p.x[4 * FEATURES + j];
        }
    }
    p.data = test_relabel(&p, sparse, CLASSES, NULL, p.labels);
    return p;
}

static double old_weight(double size, uint32_t k, uint32_t j)
{
    return size * ((int)((k * 29 + j * 53 + k * j * 7) % 64) - 32) / 32;
}

static double old_bias(double size, uint32_t k)
{
    return size * ((int)(k * 19 % 16) - 8) / 16;
}

/* The estimator's joint() with the golden case's classes, whatever it would have drawn; then the step that the view's
 * contract says, in double. */
static void check_golden(size_t c, bool sparse)
{
    xsm_error err = XSM_ERROR_INIT;
    uint32_t n = golden[c].n;
    bool bias = golden[c].bias > 0;
    HELD_STRUCT(test_problem, p) = golden_problem(n, sparse);
    HELD(xsm_model, m) = test_model(NULL, &p, bias, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    char options[80];
    snprintf(options, sizeof options, "ridge=%g tolerance=1e-12", golden[c].ridge);
    HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", options);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    double *u = ((xsmi_double_sum *)e->state)->u;
    xsm_example examples[12];
    uint64_t rows[12];
    uint32_t list[CLASSES], labels = 0, length, lengths[12], classes[12 * CLASSES];
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t i = 0; i < n; i++) {
            if (p.labels[i] == k) {
                list[labels++] = k;
                break;
            }
        }
    }
    length = labels;
    for (uint32_t d = 0; golden[c].drawn[d] != 0; d++) {
        bool label = false;
        for (uint32_t j = 0; j < labels; j++) {
            label |= list[j] == golden[c].drawn[d];
        }
        if (!label) {
            list[length++] = golden[c].drawn[d];
        }
    }
    float scores[12 * CLASSES], linear[12 * CLASSES], g[12 * CLASSES];
    double losses[12];
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = i;
        u[i] = i * 3 % 8 / 4.0;
        examples[i] = (xsm_example){i, i, &p.labels[i], 1, 0};
        lengths[i] = length;
        for (uint32_t j = 0; j < length; j++) {
            double z = 0;
            for (uint32_t f = 0; f < FEATURES; f++) {
                z += old_weight(golden[c].size, list[j], f) * (double)p.x[i * FEATURES + f];
            }
            linear[i * CLASSES + j] = (float)z;
            scores[i * CLASSES + j] = (float)(z + (bias ? old_bias(golden[c].size, list[j]) : 0));
            classes[i * CLASSES + j] = list[j];
        }
    }
    xsmi_spans *spans = NULL;
    const double *coordinates;
    size_t rank;
    assert_ok(xsmi_spans_new(e->context, p.data, m->kernels, false, &spans, &err), err);
    assert_ok(xsmi_spans_get(spans, rows, n, &coordinates, &rank, &err), err);
    assert_int_equal(rank, golden[c].rank);
    double s = 1 / (1 + golden[c].eta * golden[c].ridge / ROWS);
    xsm_score_block block = {.size = sizeof block,
                             .examples = examples,
                             .count = n,
                             .batch = n,
                             .width = CLASSES,
                             .lengths = lengths,
                             .classes = classes,
                             .scores = scores,
                             .linear = linear,
                             .eta = golden[c].eta,
                             .coefficients = g,
                             .losses = losses,
                             .coordinates = coordinates,
                             .rank = rank,
                             .decay = s};
    assert_ok(e->ops.joint(e->state, &block, &err), err);
    double worst = 0, change = 0, worst_u = 0;
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t f = 0; f <= FEATURES; f++) {
            double old = f < FEATURES ? old_weight(golden[c].size, k, f) : old_bias(golden[c].size, k), w = old;
            w *= f < FEATURES ? s : 1;
            for (uint32_t j = 0; j < length; j++) {
                for (uint32_t i = 0; list[j] == k && i < n; i++) {
                    double step = golden[c].eta / n * (double)g[i * CLASSES + j];
                    w -= f < FEATURES ? s * step * (double)p.x[i * FEATURES + f] : bias ? step : 0;
                }
            }
            double want = f < FEATURES ? golden[c].w[k][f] : golden[c].b[k];
            worst = fmax(worst, fabs(w - want));
            change = fmax(change, fabs(want - old));
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        worst_u = fmax(worst_u, fabs(u[i] - golden[c].u[i]) / (1 + golden[c].u[i]));
    }
    if (!(worst <= 3e-6 * change) || !(worst_u <= 3e-6)) {
        fail_msg("case %zu sparse %d: weights off by %g of a change of %g, u by %g", c, sparse, worst, change, worst_u);
    }
    xsmi_spans_free(spans);
}

TEST(steps_are_golden)
{
    for (size_t c = 0; c < sizeof golden / sizeof *golden; c++) {
        check_golden(c, false);
        check_golden(c, true);
    }
}

/* With all other classes the one-example step is the exact proximal step: the same solutions, through the library. */
TEST(exact_steps_are_golden)
{
    int found = 0;
    for (size_t c = 0; c < sizeof golden / sizeof *golden; c++) {
        if (golden[c].n > 1 || golden[c].drawn[CLASSES - 2] == 0) {
            continue;
        }
        found++;
        bool bias = golden[c].bias > 0;
        HELD_STRUCT(test_problem, p) = golden_problem(1, false);
        HELD(xsm_model, m) = test_model(NULL, &p, bias, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        xsm_parameters w = XSM_PARAMETERS_INIT;
        assert_ok(xsm_model_get_parameters(m, &w, &err), err);
        for (uint32_t k = 0; k < CLASSES; k++) {
            for (uint32_t f = 0; f < FEATURES; f++) {
                w.weight[k * w.class_step + f * w.feature_step] = (float)old_weight(golden[c].size, k, f);
            }
            if (bias) {
                w.bias[k] = (float)old_bias(golden[c].size, k);
            }
        }
        char options[80];
        snprintf(options, sizeof options, "negatives=%d ridge=%g tolerance=1e-12", CLASSES - 1, golden[c].ridge);
        HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", options);
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        xsm_batch batch = xsm_batch_range(p.data, 0, 1);
        test_take_step(e, o, g, &batch, golden[c].eta);
        for (uint32_t k = 0; k < CLASSES; k++) {
            for (uint32_t f = 0; f < FEATURES; f++) {
                assert_true(fabs(test_weight(m, k, f) - golden[c].w[k][f]) <= 2e-6);
            }
            assert_true(!bias || fabs(test_bias(m, k) - golden[c].b[k]) <= 2e-6);
        }
        assert_true(fabs(((xsmi_double_sum *)e->state)->u[0] - golden[c].u[0]) <= 2e-6);
    }
    assert_int_equal(found, 2);
}

/* -- the solver --------------------------------------------------------------------------------------------------- */

typedef struct instance {
    size_t n, classes, rank;
    double *coordinates, *level, *log_weight, *u_old, *u, *pull, *work;
    uint32_t *own;
} instance;

static instance make(size_t n, size_t labels, size_t drawn, double size, uint64_t *seed)
{
    instance t = {.n = n, .classes = labels + drawn, .rank = n > 4 ? n - 1 : n};
    t.coordinates = calloc(n * t.rank, sizeof(double));
    t.level = calloc(n * t.classes, sizeof(double));
    t.pull = calloc(n * t.classes, sizeof(double));
    t.log_weight = calloc(t.classes, sizeof(double));
    t.u_old = calloc(n, sizeof(double));
    t.u = calloc(n, sizeof(double));
    t.own = calloc(n, sizeof(uint32_t));
    size_t work = (xsmi_proximal_batch_work(n, t.classes, t.rank) + 7) / 8 * 8;
    t.work = aligned_alloc(64, work * sizeof(double));
    assert_true(t.coordinates && t.level && t.pull && t.log_weight && t.u_old && t.u && t.own && t.work);
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t r = 0; r < t.rank; r++) {
            double v = r <= i ? 2 * test_uniform(seed) - 1 : 0;
            t.coordinates[i * t.rank + r] = v;
            sum += v * v;
        }
        for (size_t r = 0; r < t.rank; r++) {
            t.coordinates[i * t.rank + r] /= sqrt(sum);
        }
        t.own[i] = (uint32_t)(test_next(seed) % labels);
        t.u_old[i] = 3 * test_uniform(seed);
    }
    for (size_t i = 0; i < n * t.classes; i++) {
        t.level[i] = size * (2 * test_uniform(seed) - 1);
    }
    for (size_t j = labels; j < t.classes; j++) {
        t.log_weight[j] = log(30);
    }
    return t;
}

static void end(instance *t)
{
    free(t->coordinates);
    free(t->level);
    free(t->pull);
    free(t->log_weight);
    free(t->u_old);
    free(t->u);
    free(t->own);
    free(t->work);
}

/* How far the result is from the equations that it is to solve, at the scores that its own pulls lead to:
 * c_ij = eta/n A_j e^(z_ij - z_iy - u_i), and eta/n (1 - e^(T_i - u_i)) + u_i - u_old_i = 0. Relative. */
static double residual(const instance *t, double eta, double shrink, bool bias)
{
    double worst = 0, most = 0;
    double share = eta / (double)t->n;
    for (size_t i = 0; i < t->n * t->classes; i++) {
        most = fmax(most, fabs(t->pull[i]));
    }
    for (size_t i = 0; i < t->n; i++) {
        HELD_MEMORY(double, z) = calloc(t->classes, sizeof *z);
        double sum = 0;
        assert_non_null(z);
        for (size_t j = 0; j < t->classes; j++) {
            z[j] = t->level[i * t->classes + j];
            for (size_t o = 0; o < t->n; o++) {
                double product = bias;
                for (size_t r = 0; r < t->rank; r++) {
                    product += shrink * t->coordinates[i * t->rank + r] * t->coordinates[o * t->rank + r];
                }
                z[j] -= product * t->pull[o * t->classes + j];
            }
        }
        double total = exp(-t->u[i]);
        for (size_t j = 0; j < t->classes; j++) {
            if (j != t->own[i]) {
                double c = share * exp(t->log_weight[j] + z[j] - z[t->own[i]] - t->u[i]);
                worst = fmax(worst, fabs(c - t->pull[i * t->classes + j]) / most);
                total += c / share;
                sum += t->pull[i * t->classes + j];
            }
        }
        worst = fmax(worst, fabs(sum + t->pull[i * t->classes + t->own[i]]) / most);
        double du = share * (1 - total) + t->u[i] - t->u_old[i];
        worst = fmax(worst, fabs(du) / (share * (1 + total) + t->u[i] + t->u_old[i]));
    }
    return worst;
}

TEST(solver_is_stationary)
{
    uint64_t seed = 8;
    static const size_t sizes[][3] = {{1, 1, 1}, {1, 1, 9}, {2, 2, 1}, {5, 3, 4}, {10, 8, 5}, {24, 9, 12}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (int power = -6; power <= 2; power++) {
            for (int kind = 0; kind < 4; kind++) {
                instance t = make(sizes[k][0], sizes[k][1], sizes[k][2], kind & 2 ? 3 : 0.5, &seed);
                double eta = pow(10, power) * (double)t.n;
                xsmi_proximal_batch p = {eta,     0.9,          kind & 1, t.n,     t.classes, t.rank, t.coordinates,
                                         t.level, t.log_weight, t.own,    t.u_old, t.u,       t.pull, t.work,
                                         0,       NULL,         NULL,     false};
                assert_int_equal(xsmi_proximal_batch_solve(&p, 1e-12), XSMI_SOLVED);
                double off = residual(&t, eta, 0.9, kind & 1);
                if (!(off <= 1e-8)) {
                    fail_msg("n %zu eta 1e%d kind %d: the equations are off by %g (gap %g)", t.n, power, kind, off,
                             p.gap);
                }
                end(&t);
            }
        }
    }
}

/* From the old point, without a start by a linear program: scores to 1e4, rates from 1e-8 to 1e8. */
TEST(extremes_are_solved)
{
    uint64_t seed = 80;
    static const size_t sizes[][3] = {{1, 1, 2}, {3, 2, 2}, {8, 5, 4}};
    for (size_t k = 0; k < 3; k++) {
        for (double size = 1; size <= 1e4; size *= 10) {
            for (int power = -8; power <= 8; power += 2) {
                instance t = make(sizes[k][0], sizes[k][1], sizes[k][2], size, &seed);
                double eta = pow(10, power) * (double)t.n;
                xsmi_proximal_batch p = {
                    eta,   1,       1,   t.n,    t.classes, t.rank, t.coordinates, t.level, t.log_weight,
                    t.own, t.u_old, t.u, t.pull, t.work,    0,      NULL,          NULL,    false};
                assert_int_equal(xsmi_proximal_batch_solve(&p, 1e-8), XSMI_SOLVED);
                if (!(p.gap <= 1e-6)) {
                    fail_msg("n %zu size %g eta 1e%d: gap %g", t.n, size, power, p.gap);
                }
                for (size_t i = 0; i < t.n * t.classes; i++) {
                    assert_true(isfinite(t.pull[i]));
                }
                end(&t);
            }
        }
    }
}

/* -- one example, Proposition 4 against Proposition 3 -------------------------------------------------------------- */

TEST(one_example_is_the_one_dimensional_step)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(20, 9, 40, false, 5);
    for (int kind = 0; kind < 24; kind++) {
        bool bias = kind & 1;
        double eta = pow(10, kind % 6 - 3);
        HELD(xsm_model, m) = test_model(NULL, &p, bias, XSM_LAYOUT_CLASS_MAJOR, kind & 2 ? 1 : 4, 17);
        char options[80];
        snprintf(options, sizeof options, "negatives=%d tolerance=1e-12", kind % 3 == 0 ? 39 : kind % 3 * 3);
        HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", options);
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        double *u = ((xsmi_double_sum *)e->state)->u;
        for (uint64_t row = 0; row < p.rows; row++) {
            u[row] = 2;
            xsm_batch batch = xsm_batch_range(p.data, row, 1);
            assert_ok(xsm_estimator_gradient(e, &batch, eta, g, &err), err);
            xsm_gradient_view view = test_view(g);
            float coefficients[40];
            double loss = 0, after = u[row], length = sqrt(g->example[0].squared_norm);
            u[row] = 2;
            xsm_score_block block = {.size = sizeof block,
                                     .examples = g->example,
                                     .count = 1,
                                     .batch = 1,
                                     .width = g->width,
                                     .lengths = g->lengths,
                                     .classes = g->classes,
                                     .scores = g->work.scores,
                                     .linear = bias ? g->work.linear : g->work.scores,
                                     .eta = eta,
                                     .coefficients = coefficients,
                                     .losses = &loss,
                                     .coordinates = &length,
                                     .rank = 1,
                                     .decay = 1};
            assert_ok(e->ops.joint(e->state, &block, &err), err);
            assert_true(fabs(u[row] - after) <= 1e-7 * (1 + after));
            assert_true(fabs(loss - view.loss) <= 1e-6 * (1 + fabs(loss)));
            for (uint32_t j = 0; j < view.lengths[0]; j++) {
                double want = (double)view.coefficients[j];
                assert_true(fabs((double)coefficients[j] - want) <= 2e-6 * fabs((double)view.coefficients[0]));
            }
        }
    }
}

/* -- what is drawn ------------------------------------------------------------------------------------------------ */

/* Labels first, rising, then others, each as often as any: the batch's estimate is unbiased. */
TEST(classes_are_drawn_alike)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(30, 5, 12, false, 5);
    uint32_t seen[12] = {0}, draws = 0;
    for (uint64_t n = 2; n <= 30; n += 4) {
        HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", "negatives=2 seed=3");
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        bool label[12] = {false};
        uint32_t labels = 0;
        for (uint64_t i = 0; i < n; i++) {
            labels += !label[p.labels[i]];
            label[p.labels[i]] = true;
        }
        for (int draw = 0; draw < (n == 2 ? 8000 : 50); draw++) {
            xsm_batch batch = xsm_batch_range(p.data, 0, n);
            assert_ok(xsm_estimator_gradient(e, &batch, 1e-3, g, &err), err);
            xsm_gradient_view view = test_view(g);
            assert_null(view.shrinks);
            bool listed[12] = {false};
            assert_int_equal(view.lengths[0], labels + 2 < 12 ? labels + 2 : 12);
            assert_true(view.lengths[0] <= view.width);
            for (uint32_t j = 0; j < view.lengths[0]; j++) {
                uint32_t k = view.classes[j];
                assert_true(k < 12 && !listed[k] && label[k] == (j < labels));
                listed[k] = true;
                if (n == 2 && j >= labels) {
                    seen[k]++;
                    draws++;
                }
                for (uint64_t i = 1; i < n; i++) {
                    assert_int_equal(view.classes[i * view.width + j], k);
                }
            }
        }
        if (n == 2) {
            double chi = 0, want = (double)draws / (12 - labels);
            for (uint32_t k = 0; k < 12; k++) {
                chi += label[k] ? 0 : (seen[k] - want) * (seen[k] - want) / want;
            }
            assert_int_equal(12 - labels, 11);
            assert_true(chi < 35.6); /* 10 degrees of freedom, one in ten thousand */
        }
    }
}

/* The mean over draws of a tiny step's coefficients is the gradient of the double sum with all classes. */
TEST(steps_are_unbiased)
{
    enum { K = 9, N = 3 };
    HELD_STRUCT(test_problem, p) = test_problem_new(N, 5, K, false, 6);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 7);
    double mean[N][K] = {{0}};
    HELD(xsm_gradient, g) = test_gradient(NULL);
    bool label[K] = {false};
    for (int i = 0; i < N; i++) {
        label[p.labels[i]] = true;
    }
    uint32_t count = 0;
    for (uint32_t k = 0; k < K; k++) {
        count += !label[k];
    }
    HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", "negatives=1 seed=3");
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    double *u = ((xsmi_double_sum *)e->state)->u;
    /* With one class drawn there are `count` draws: asked for until each has come. */
    uint32_t found = 0;
    bool come[K] = {false};
    for (int draw = 0; found < count && draw < 10000; draw++) {
        for (int i = 0; i < N; i++) {
            u[i] = 1 + i;
        }
        xsm_batch batch = xsm_batch_range(p.data, 0, N);
        assert_ok(xsm_estimator_gradient(e, &batch, 1e-7, g, &err), err);
        xsm_gradient_view view = test_view(g);
        uint32_t drawn = view.classes[view.lengths[0] - 1];
        if (!come[drawn]) {
            come[drawn] = true;
            found++;
            for (uint64_t i = 0; i < N; i++) {
                for (uint32_t j = 0; j < view.lengths[i]; j++) {
                    mean[i][view.classes[j]] += (double)view.coefficients[i * view.width + j] / count;
                }
            }
        }
    }
    assert_int_equal(found, count);
    for (uint64_t i = 0; i < N; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < K; k++) {
            double z = test_score(m, k, p.x + i * 5) - test_score(m, p.labels[i], p.x + i * 5);
            double want = k == p.labels[i] ? 0 : exp(z - (1 + (double)i)) / N;
            sum += want;
            if (k != p.labels[i] &&
                !(fabs(mean[i][k] - want) <= 1e-5 * (1 + want))) { /* float scores, times the weight */
                fail_msg("example %llu class %u: %g, not %g", (unsigned long long)i, k, mean[i][k], want);
            }
        }
        assert_true(fabs(mean[i][p.labels[i]] + sum) <= 1e-5 * (1 + sum));
    }
}

/* -- fixed minibatches -------------------------------------------------------------------------------------------- */

TEST(trainers_keep_their_minibatches)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(53, 9, 12, sparse, 5);
        HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", "negatives=3");
        MADE(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
        MADE(xsm_trainer, t,
             xsm_trainer_new(NULL, m, p.data, e, o, STRUCT(xsm_trainer_options, .epochs = 5, .batch = 6, .seed = 9), &t,
                             &err));
        assert_ok(xsm_trainer_run(t, &err), err);
        assert_int_equal(xsmi_spans_kept(e->spans), 9); /* eight of six, one of five: the same in every epoch */
    }
}

static xsm_status make_spans(void *state, xsm_context *ctx, xsm_error *err)
{
    xsmi_spans *s = NULL;
    const xsm_status status = xsmi_spans_new(ctx, state, xsmi_context_kernels(ctx), true, &s, err);
    xsmi_spans_free(s);
    return status;
}

/* Products of coordinates are those of the rows; kept ones are found by all of their rows. */
TEST(spans_are_the_rows)
{
    for (int kind = 0; kind < 4; kind++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(40, 9, 4, kind & 1, 5);
        HELD(xsm_context, ctx) = test_context(kind & 2 ? 3 : 1, TEST_BUILT_IN, 0);
        xsmi_spans *s = NULL;
        test_every_allocation(make_spans, p.data);
        assert_ok(xsmi_spans_new(ctx, p.data, xsmi_context_kernels(ctx), true, &s, &err), err);
        uint64_t seed = 2;
        for (int turn = 0; turn < 200; turn++) {
            uint64_t rows[14], first = test_next(&seed) % 26, n = 1 + test_next(&seed) % 14;
            for (uint64_t i = 0; i < n; i++) {
                rows[i] = turn % 3 == 2 ? first + n - 1 - i : first + i;
            }
            const double *b;
            size_t rank;
            assert_ok(xsmi_spans_get(s, rows, (size_t)n, &b, &rank, &err), err);
            assert_true(rank <= n && rank <= 9);
            for (uint64_t i = 0; i < n; i++) {
                for (uint64_t j = 0; j < n; j++) {
                    double want = 0, have = 0, a = 0, c = 0;
                    for (uint64_t f = 0; f < 9; f++) {
                        double x = (double)p.x[rows[i] * 9 + f], y = (double)p.x[rows[j] * 9 + f];
                        want += x * y;
                        a += x * x;
                        c += y * y;
                    }
                    for (size_t r = 0; r < rank; r++) {
                        have += b[i * rank + r] * b[j * rank + r];
                    }
                    assert_true(fabs(have - want) <= 2e-6 * sqrt(a * c) + 1e-12);
                }
            }
        }
        assert_true(xsmi_spans_kept(s) > 50 && xsmi_spans_kept(s) <= 200);
        xsmi_spans_free(s);
    }
}

/* One class; two; labels that are all there is. */
TEST(few_classes)
{
    for (uint32_t k = 1; k <= 3; k++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(12, 5, k, false, 5);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 2);
        double old = test_weight(m, 0, 0);
        HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", "ridge=3");
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        xsm_batch batch = xsm_batch_range(p.data, 0, 12);
        assert_ok(xsm_estimator_gradient(e, &batch, 2, g, &err), err);
        assert_int_equal(test_view(g).lengths[0], k);
        assert_true(fabs(test_view(g).decay - 1 / (1 + 2 * 3 / 12.0)) < 1e-15);
        assert_ok(xsm_optimizer_apply(o, &batch, g, 2, &err), err);
        assert_true(k > 1 || fabs(test_weight(m, 0, 0) - old / 1.5) < 1e-7);
    }
}
