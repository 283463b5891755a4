/*
 * Steps of sgd against the formula of xsm_gradient_view computed in double, the lazy scales of the ridge over many
 * steps, the same bits on any threads, and the errors.
 */
#include "training.h"

#include "estimator/estimator.h"
#include "optimizer/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/stored_weights.h>

/* -- one step against its formula --------------------------------------------------------------------------------- */

typedef struct dense {
    uint32_t classes, features;
    bool bias;
    double *w; /* [classes][features+1], the bias last */
} dense;

static dense dense_of(const xsm_model *m)
{
    dense d = {m->classes, m->features, m->w.bias != NULL,
               calloc((size_t)m->classes * (m->features + 1), sizeof(double))};
    assert_non_null(d.w);
    for (uint32_t k = 0; k < d.classes; k++) {
        for (uint32_t j = 0; j < d.features; j++) {
            d.w[k * (d.features + 1) + j] = test_weight(m, k, j);
        }
        d.w[k * (d.features + 1) + d.features] = test_bias(m, k);
    }
    return d;
}

/* w_k <- shrink (w_k - eta g x), b_k <- b_k - eta g for each example in turn, then w_k <- decay w_k for every class;
 * then rows longer than row_bound are scaled to it (of lists that are full). */
static void dense_step(dense *d, const test_problem *p, const uint64_t *rows, const xsm_gradient_view *g, double eta)
{
    for (uint64_t i = 0; i < g->examples; i++) {
        for (uint64_t place = 0; place < (g->lengths ? g->lengths[i] : g->width); place++) {
            uint64_t at = i * g->width + place;
            double *w = d->w + (g->classes ? g->classes[at] : place) * (d->features + 1);
            double change = -eta * (double)g->coefficients[at];
            double shrink = g->shrinks ? g->shrinks[at] : 1;
            for (uint32_t j = 0; j < d->features; j++) {
                w[j] = shrink * (w[j] + change * (double)p->x[rows[i] * d->features + j]);
            }
            w[d->features] += d->bias ? change : 0;
        }
    }
    for (uint32_t k = 0; k < d->classes; k++) {
        for (uint32_t j = 0; j < d->features; j++) {
            d->w[k * (d->features + 1) + j] *= g->decay;
        }
    }
    for (uint64_t place = 0; g->row_bound > 0 && place < g->examples * g->width; place++) {
        double *w = d->w + g->classes[place] * (d->features + 1), sum = 0;
        for (uint32_t j = 0; j < d->features; j++) {
            sum += w[j] * w[j];
        }
        for (uint32_t j = 0; sqrt(sum) > g->row_bound && j < d->features; j++) {
            w[j] *= g->row_bound / sqrt(sum);
        }
    }
}

/* Largest difference of a weight, or of a weight or bias, relative to the largest. */
static double distance(const dense *d, const xsm_model *m, bool biases)
{
    double worst = 0, size = 0;
    for (uint32_t k = 0; k < d->classes; k++) {
        for (uint32_t j = 0; j < d->features + biases; j++) {
            double want = d->w[k * (d->features + 1) + j];
            double have = j < d->features ? test_weight(m, k, j) : test_bias(m, k);
            worst = fmax(worst, fabs(want - have));
            size = fmax(size, fabs(want));
        }
    }
    return worst / size;
}

typedef struct kind {
    const char *estimator, *options;
    bool sparse, bias;
    int32_t layout;
    uint64_t n;
    double eta;
} kind;

static void check_kind(const kind *s)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_problem, p) = test_problem_new(90, 21, 70, s->sparse, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, s->bias, s->layout, 0.5, 3);
    HELD(xsm_estimator, e) = test_estimator(NULL, s->estimator, s->options);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    uint64_t seed = 4, rows[80];
    dense d = dense_of(m);
    for (int step = 0; step < 12; step++) {
        for (uint64_t i = 0; i < s->n; i++) {
            rows[i] = test_next(&seed) % p.rows;
        }
        xsm_batch batch = xsm_batch_rows(p.data, rows, s->n);
        assert_ok(xsm_estimator_gradient(e, &batch, s->eta, g, &err), err);
        xsm_gradient_view view = test_view(g);
        dense_step(&d, &p, rows, &view, s->eta);
        assert_ok(xsm_optimizer_apply(o, &batch, g, s->eta, &err), err);
    }
    double off = distance(&d, m, true);
    /* A weight rounds n times a step, a bias always the same way where a strong ridge leaves equal scores. */
    if (!(off <= 1e-6 + 2e-7 * (double)s->n)) {
        fail_msg("%s %s: sparse %d bias %d layout %d n %llu: %g from the formula", s->estimator, s->options, s->sparse,
                 s->bias, s->layout, (unsigned long long)s->n, off);
    }
    free(d.w);
}

TEST(steps_are_the_formula)
{
    static const uint64_t batches[] = {1, 2, 7, 70};
    static const char *const ridges[] = {"ridge=0", "ridge=5", "ridge=1e7"};
    for (int bits = 0; bits < 8; bits++) {
        for (int r = 0; r < 3; r++) {
            for (int b = 0; b < 4; b++) {
                kind s = {"softmax",  ridges[r], bits & 1, bits & 2, bits & 4 ? XSM_LAYOUT_FEATURE_MAJOR : 0,
                          batches[b], 0.3};
                check_kind(&s);
                s.estimator = "one-vs-all";
                check_kind(&s);
                s.estimator = "margin"; /* of which most classes have no part */
                check_kind(&s);
                s.estimator = "ove";
                check_kind(&s);
                s.estimator = "umax"; /* with a ridge its rows are bounded, which takes rows that lie together */
                if (r == 0 || s.layout == XSM_LAYOUT_CLASS_MAJOR) {
                    check_kind(&s);
                }
                if (batches[b] == 1 && s.layout == XSM_LAYOUT_CLASS_MAJOR) {
                    s.estimator = "implicit";
                    check_kind(&s);
                    s.options = "negatives=69 ridge=5"; /* more than a group of rows */
                    check_kind(&s);
                }
            }
        }
    }
}

/* Shrinks are for batches, too, in the order of the examples: a gradient made up here. */
TEST(shrinks_of_batches)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(5, 9, 6, sparse, 2);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
        HELD(xsm_estimator, e) = test_estimator(NULL, "ove", "negatives=2");
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        xsm_batch batch = xsm_batch_range(p.data, 0, 5);
        assert_ok(xsm_estimator_gradient(e, &batch, 0.3, g, &err), err);
        double shrinks[15];
        for (int i = 0; i < 15; i++) {
            shrinks[i] = i == 7 ? 1e-20 : 1 / (1 + 0.1 * i);
        }
        g->proximal = true;
        g->shrinks = shrinks;
        dense d = dense_of(m);
        static const uint64_t rows[] = {0, 1, 2, 3, 4};
        xsm_gradient_view view = test_view(g);
        dense_step(&d, &p, rows, &view, 0.3);
        assert_ok(xsm_optimizer_apply(o, &batch, g, 0.3, &err), err);
        assert_true(distance(&d, m, true) <= 1e-6);
        g->shrinks = NULL;
        free(d.w);
    }
}

/* -- the ridge over many steps ------------------------------------------------------------------------------------- */

/* `steps` steps of single sparse rows; the dense computation takes the same coefficients. Returns the distance. */
static double many_steps(const char *estimator, const char *options, double eta, bool bias, uint64_t steps, int *folds)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_problem, p) = test_problem_new(64, 30, 10, true, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, bias, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
    HELD(xsm_estimator, e) = test_estimator(NULL, estimator, options);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    dense d = dense_of(m);
    uint64_t seed = 4;
    *folds = 0;
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t row = test_next(&seed) % p.rows;
        xsm_batch batch = xsm_batch_range(p.data, row, 1);
        assert_ok(xsm_estimator_gradient(e, &batch, eta, g, &err), err);
        xsm_gradient_view view = test_view(g);
        dense_step(&d, &p, &row, &view, eta);
        double alpha = m->w.alpha;
        assert_ok(xsm_optimizer_apply(o, &batch, g, eta, &err), err);
        *folds += m->w.alpha > alpha;
        if (m->w.row_scale && m->w.row_scale[3] < 1e-6 && step % 1000 == 999) { /* now and then, on purpose */
            assert_ok(xsmi_model_fold(m, &err), err);
            (*folds)++;
        }
    }
    double off = distance(&d, m, false);
    assert_true(distance(&d, m, true) <= 5e-5); /* a bias does not shrink, and so forgets none of its roundings */
    free(d.w);
    return off;
}

TEST(scales_stay_exact)
{
    int folds;
    /* Every float32 weight rounds at each touch, so the distance is a few of those roundings: the ridge makes it forget
     * the older ones. */
    static const char *const estimators[] = {"ove", "implicit", "umax"};
    for (int n = 0; n < 3; n++) {
        for (int bias = 0; bias < 2; bias++) {
            uint64_t steps = bias ? 200000 : 1000000;
            double off = many_steps(estimators[n], "ridge=1", 0.05, bias, steps, &folds);
            print_message("%s, %d steps: %.2g (%d folds)\n", estimators[n], (int)steps, off, folds);
            assert_true(off <= 1e-6);
            assert_true(folds > 0);
        }
        assert_true(many_steps(estimators[n], "ridge=1e4", 0.05, false, 20000, &folds) <= 1e-6);
        assert_true(many_steps(estimators[n], "ridge=1e12", 3, false, 2000, &folds) <= 1e-6);
    }
}

/* -- threads ------------------------------------------------------------------------------------------------------ */

TEST(same_bits_on_any_threads)
{
    for (int bits = 0; bits < 16; bits++) {
        bool sparse = bits & 1, feature_major = bits & 2, exact = bits & 4, bias = bits & 8;
        HELD_STRUCT(test_problem, p) = test_problem_new(200, 33, exact ? 700 : 3000, sparse, 2);
        uint64_t first = 0;
        for (int way = 0; way < 6; way++) {
            HELD(xsm_context, ctx) = way < 4 ? test_context((uint32_t)way + 1, TEST_BUILT_IN, 0)
                                             : test_context(3, way == 4 ? TEST_REVERSED : TEST_PTHREADS, 0);
            HELD(xsm_model, m) = test_model(ctx, &p, bias, feature_major, 0.5, 3);
            HELD(xsm_estimator, e) = test_estimator(ctx,
                                                    exact           ? "softmax"
                                                    : feature_major ? "ove"
                                                                    : "umax",
                                                    exact ? "ridge=1" : "ridge=1 negatives=9");
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            HELD(xsm_optimizer, o) = test_optimizer(ctx, m);
            HELD(xsm_gradient, g) = test_gradient(ctx);
            for (uint64_t step = 0; step < 4; step++) {
                xsm_batch batch = xsm_batch_range(p.data, step * 30, 20 + step * 30);
                test_take_step(e, o, g, &batch, 0.5);
            }
            uint64_t hash = test_hash(m);
            first = way ? first : hash;
            if (hash != first) {
                fail_msg("sparse %d layout %d exact %d bias %d: way %d has other bits", sparse, feature_major, exact,
                         bias, way);
            }
        }
    }
}

/* -- what an earlier use leaves behind ----------------------------------------------------------------------------- */

/* A gradient that held a proximal step is filled by an estimator that takes none. */
TEST(old_shrinks_are_not_used)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(10, 9, 6, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
    HELD(xsm_estimator, implicit) = test_estimator(NULL, "implicit", "ridge=50 negatives=3");
    HELD(xsm_estimator, ove) = test_estimator(NULL, "ove", "negatives=3");
    assert_ok(xsm_estimator_bind(implicit, m, p.data, &err), err);
    assert_ok(xsm_estimator_bind(ove, m, p.data, &err), err);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    static const uint64_t rows[] = {2, 5};
    xsm_batch one = xsm_batch_rows(p.data, rows, 1), two = xsm_batch_rows(p.data, rows, 2);
    assert_ok(xsm_estimator_gradient(implicit, &one, 1, g, &err), err);
    assert_true(test_view(g).shrinks[0] < 0.9);
    assert_ok(xsm_optimizer_apply(o, &one, g, 1, &err), err);
    dense d = dense_of(m);
    assert_ok(xsm_estimator_gradient(ove, &two, 0.1, g, &err), err);
    xsm_gradient_view view = test_view(g);
    assert_null(view.shrinks);
    dense_step(&d, &p, rows, &view, 0.1);
    assert_ok(xsm_optimizer_apply(o, &two, g, 0.1, &err), err);
    assert_true(distance(&d, m, true) <= 1e-6);
    free(d.w);
}

/* Proximal steps without a ridge leave all scales at 1, which are then not read; those with a ridge, and all later
 * ones, read them. */
TEST(scales_are_read_once_they_differ)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(10, 9, 6, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    for (int step = 0; step < 4; step++) {
        const bool ridge = step % 2;
        HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", ridge ? "ridge=50 negatives=3" : "negatives=3");
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        const uint64_t rows[] = {(uint64_t)(2 * step)};
        xsm_batch one = xsm_batch_rows(p.data, rows, 1);
        assert_ok(xsm_estimator_gradient(e, &one, 1, g, &err), err);
        xsm_gradient_view view = test_view(g);
        assert_true((view.shrinks[0] < 0.9) == ridge);
        dense d = dense_of(m);
        dense_step(&d, &p, rows, &view, 1);
        assert_ok(xsm_optimizer_apply(o, &one, g, 1, &err), err);
        assert_true(distance(&d, m, true) <= 1e-6);
        assert_true(m->w.row_scale && (xsmi_weights_scales(&m->w) == NULL) == (step == 0));
        free(d.w);
    }
}

/* Rows that an implicit step shrank one by one, then a step on every class. */
TEST(exact_steps_know_the_rows_scales)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(10, 9, 6, sparse, 2);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
        HELD(xsm_estimator, implicit) = test_estimator(NULL, "implicit", "ridge=50 negatives=3");
        HELD(xsm_estimator, softmax) = test_estimator(NULL, "softmax", "ridge=1");
        assert_ok(xsm_estimator_bind(implicit, m, p.data, &err), err);
        assert_ok(xsm_estimator_bind(softmax, m, p.data, &err), err);
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        static const uint64_t rows[] = {2, 5};
        xsm_batch one = xsm_batch_rows(p.data, rows, 1), two = xsm_batch_rows(p.data, rows, 2);
        test_take_step(implicit, o, g, &one, 1);
        dense d = dense_of(m);
        assert_ok(xsm_estimator_gradient(softmax, &two, 0.5, g, &err), err);
        xsm_gradient_view view = test_view(g);
        dense_step(&d, &p, rows, &view, 0.5);
        assert_ok(xsm_optimizer_apply(o, &two, g, 0.5, &err), err);
        assert_true(distance(&d, m, true) <= 1e-6);
        free(d.w);
    }
}

/* -- errors ------------------------------------------------------------------------------------------------------- */

TEST(bad_calls_are_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(10, 9, 60, false, 2);
    HELD_STRUCT(test_problem, narrow) = test_problem_new(10, 9, 6, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
    HELD(xsm_model, small) = test_model(NULL, &narrow, false, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
    xsm_optimizer *o = (xsm_optimizer *)&err;
    assert_fails(xsm_optimizer_new(NULL, "adam", &o, &err), XSM_ERROR_NAME, err);
    assert_non_null(strstr(err.message, "'sgd'"));
    assert_fails(xsm_optimizer_new(NULL, NULL, &o, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_optimizer_new(NULL, "sgd", NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_ptr_equal(o, (xsm_optimizer *)&err);
    assert_ok(xsm_optimizer_new(NULL, "sgd", &o, &err), err);
    assert_string_equal(test_optimizer_info(o).name, "sgd");
    xsm_optimizer_info info = XSM_OPTIMIZER_INFO_INIT;
    assert_fails(xsm_optimizer_get_info(NULL, &info, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_optimizer_get_info(o, NULL, &err), XSM_ERROR_ARGUMENT, err);
    xsm_estimator *e = test_estimator(NULL, "ove", ""), *exact = test_estimator(NULL, "softmax", "");
    xsm_estimator *proximal = test_estimator(NULL, "implicit", "");
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_ok(xsm_estimator_bind(exact, m, p.data, &err), err);
    assert_ok(xsm_estimator_bind(proximal, m, p.data, &err), err);
    xsm_gradient *g = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 0, 2), three = xsm_batch_range(p.data, 0, 3);
    assert_fails(xsm_optimizer_apply(o, &batch, g, 1, &err), XSM_ERROR_STATE, err);
    assert_fails(xsm_optimizer_bind(o, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_optimizer_bind(NULL, m, &err), XSM_ERROR_ARGUMENT, err);
    assert_ok(xsm_optimizer_bind(o, m, &err), err);
    assert_fails(xsm_optimizer_apply(o, &batch, g, 1, &err), XSM_ERROR_SHAPE, err); /* holds nothing yet */
    assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
    uint64_t before = test_hash(m);
    assert_fails(xsm_optimizer_apply(NULL, &batch, g, 1, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_optimizer_apply(o, NULL, g, 1, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_optimizer_apply(o, &batch, NULL, 1, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_optimizer_apply(o, &three, g, 1, &err), XSM_ERROR_SHAPE, err);
    static const double etas[] = {0, -1, (double)NAN, (double)INFINITY, 1e15};
    for (int i = 0; i < 5; i++) {
        assert_fails(xsm_optimizer_apply(o, &batch, g, etas[i], &err), XSM_ERROR_RANGE, err);
    }
    batch.size = 8;
    assert_fails(xsm_optimizer_apply(o, &batch, g, 1, &err), XSM_ERROR_STRUCT_OLD, err);
    batch.size = sizeof batch;
    assert_true(test_hash(m) == before);
    /* gradients over other classes than the model's */
    xsm_batch few = xsm_batch_range(narrow.data, 0, 2);
    assert_ok(xsm_optimizer_bind(o, small, &err), err);
    assert_fails(xsm_optimizer_apply(o, &few, g, 1, &err), XSM_ERROR_SHAPE, err);
    assert_ok(xsm_estimator_gradient(exact, &batch, 1, g, &err), err);
    assert_fails(xsm_optimizer_apply(o, &few, g, 1, &err), XSM_ERROR_SHAPE, err);
    /* shrinking class by class where classes are columns */
    assert_ok(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, &err), err);
    assert_ok(xsm_optimizer_bind(o, m, &err), err);
    batch = xsm_batch_range(p.data, 0, 1);
    assert_ok(xsm_estimator_gradient(proximal, &batch, 1, g, &err), err);
    assert_fails(xsm_optimizer_apply(o, &batch, g, 1, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_gradient_free(g);
    xsm_estimator_free(e);
    xsm_estimator_free(exact);
    xsm_estimator_free(proximal);
    xsm_optimizer_free(o);
    xsm_optimizer_free(NULL);
}
