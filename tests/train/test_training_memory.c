/* Tests in which every allocation of estimators, optimizers, training, evaluation and prediction fails in turn. */
#include "training.h"

#include <xsoftmax/stored_weights.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

#include <string.h>

enum { ROWS = 300, FEATURES = 5, CLASSES = 40 };

typedef struct subject {
    test_problem p;
    xsm_model *m; /* of another context: not refused */
    const char *estimator, *options;
    uint64_t batch;
    const char *optimizer;
} subject;

static subject make(const char *estimator, const char *options, uint64_t batch)
{
    subject s = {test_problem_new(ROWS, FEATURES, CLASSES, false, 3), NULL, estimator, options, batch, "sgd"};
    s.m = test_model(NULL, &s.p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 6);
    return s;
}

static void end(subject *s)
{
    xsm_model_free(s->m);
    test_problem_free(&s->p);
}

static const char *const kinds[][2] = {
    {"softmax", ""}, {"margin", ""},    {"one-vs-all", ""}, {"one-vs-all-sampled", "3"}, {"ove", "3"},
    {"umax", "3"},   {"implicit", "3"}, {"implicit", "7"},  {"augment-reduce", "3"}};
#define KINDS ((int)(sizeof kinds / sizeof *kinds))

/* What options "3" and "7" stand for: set without a helper that would fail the test. */
static xsm_status make_estimator(const subject *s, xsm_context *ctx, xsm_estimator **out, xsm_error *err)
{
    xsm_estimator *e = (xsm_estimator *)s; /* untouched on failure */
    xsm_status status = xsm_estimator_new(ctx, s->estimator, &e, err);
    if (status != XSM_OK) {
        assert_ptr_equal(e, (const xsm_estimator *)s);
        return status;
    }
    if (s->options[0]) {
        assert_int_equal(xsm_estimator_set(e, "negatives", s->options, NULL), XSM_OK);
    }
    if (s->options[0] == '7') {
        assert_int_equal(xsm_estimator_set(e, "ridge", "0.5", NULL), XSM_OK);
    }
    *out = e;
    return XSM_OK;
}

/* A step of a loop of the host's: a small batch, then a larger one with the same objects. The steps are small, so that
 * after all runs something is left to learn. */
static xsm_status loop(void *state, xsm_context *ctx, xsm_error *err)
{
    subject *s = state;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_gradient, g) = NULL;
    uint64_t rows[ROWS];
    for (uint64_t i = 0; i < ROWS; i++) {
        rows[i] = i * 13 % ROWS;
    }
    xsm_status status = make_estimator(s, ctx, &e, err);
    if (status == XSM_OK) {
        status = xsm_estimator_bind(e, s->m, s->p.data, err);
    }
    if (status == XSM_OK) {
        status = xsm_optimizer_new(ctx, s->optimizer, &o, err);
    }
    if (status == XSM_OK && strcmp(s->optimizer, "adagrad") == 0) { /* small steps: something is left to learn */
        assert_int_equal(xsm_optimizer_set(o, "initial", "1e4", NULL), XSM_OK);
    }
    if (status == XSM_OK) {
        status = xsm_optimizer_bind(o, s->m, err);
    }
    if (status == XSM_OK) {
        status = xsm_gradient_new(ctx, &g, err);
    }
    for (uint64_t n = 1; status == XSM_OK && n <= s->batch; n *= 17) {
        xsm_batch batch = xsm_batch_rows(s->p.data, rows, n);
        status = xsm_estimator_gradient(e, &batch, 0.05, g, err);
        assert_int_equal(test_view(g).examples, status == XSM_OK ? n : 0);
        if (status == XSM_OK) {
            uint64_t before = test_hash(s->m);
            status = xsm_optimizer_apply(o, &batch, g, 0.05, err);
            assert_true((test_hash(s->m) == before) == (status != XSM_OK));
        }
    }
    return status;
}

TEST(every_allocation_of_a_loop)
{
    for (int kind = 0; kind < KINDS; kind++) {
        subject s = make(kinds[kind][0], kinds[kind][1], strcmp(kinds[kind][0], "implicit") == 0 ? 17 : 289);
        assert_true(test_every_allocation(loop, &s) > 6);
        end(&s);
    }
    for (int kind = 0; kind < 4; kind++) { /* dense and exact on either layout, a few classes, all rows of a batch */
        subject s = make(kind < 2 ? "softmax" : kind == 2 ? "margin" : "ove", kind == 3 ? "3" : "", 289);
        s.optimizer = "adagrad";
        assert_int_equal(xsm_model_set_layout(s.m, kind == 1 ? XSM_LAYOUT_FEATURE_MAJOR : 0, NULL), XSM_OK);
        assert_true(test_every_allocation(loop, &s) > 10);
        end(&s);
    }
}

static int32_t look(void *user, const xsm_progress *progress)
{
    (void)progress;
    (*(int *)user)++;
    return 0;
}

static xsm_status run(void *state, xsm_context *ctx, xsm_error *err)
{
    subject *s = state;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_trainer, t) = NULL;
    int calls = 0;
    xsm_model_options bias = XSM_MODEL_OPTIONS_INIT;
    bias.bias = 1;
    xsm_status status = make_estimator(s, ctx, &e, err);
    if (status == XSM_OK) {
        status = xsm_optimizer_new(ctx, s->optimizer, &o, err);
    }
    if (status == XSM_OK) {
        status = xsm_model_new_linear(ctx, FEATURES, CLASSES, &bias, &m, err);
    }
    if (status == XSM_OK) {
        xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
        options.epochs = 2;
        options.batch = s->batch;
        options.eta = 0.01;
        options.evaluate_every = 1;
        options.evaluate_train = XSM_EVALUATE_ALL;
        options.test = s->p.data;
        options.progress = look;
        options.progress_user = &calls;
        status = xsm_trainer_new(ctx, m, s->p.data, e, o, &options, &t, err);
        assert_true((t != NULL) == (status == XSM_OK));
    }
    if (status == XSM_OK) {
        status = xsm_trainer_run(t, err);
        if (status == XSM_OK) {
            assert_int_equal(calls, 4);
        } else { /* the run can go on once there is memory */
            xsm_progress p = XSM_PROGRESS_INIT;
            assert_int_equal(xsm_trainer_get_progress(t, &p, NULL), XSM_OK);
            assert_int_equal(xsm_trainer_run(t, NULL), XSM_OK);
        }
    }
    return status;
}

TEST(every_allocation_of_a_run)
{
    for (int kind = 0; kind < KINDS; kind++) {
        for (uint64_t batch = 1; batch <= (strcmp(kinds[kind][0], "implicit") == 0 ? 1u : 289u); batch += 288) {
            subject s = make(kinds[kind][0], kinds[kind][1], batch);
            assert_true(test_every_allocation(run, &s) > 10);
            end(&s);
        }
    }
}

static xsm_status fit(void *state, xsm_context *ctx, xsm_error *err)
{
    const subject *s = state;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_model, m) = NULL;
    xsm_status status = make_estimator(s, ctx, &e, err);
    if (status == XSM_OK) {
        status = xsm_model_new_linear(ctx, FEATURES, CLASSES, NULL, &m, err);
    }
    if (status == XSM_OK) {
        xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
        options.iterations = 3;
        options.evaluate_every = 2;
        options.evaluate_train = XSM_EVALUATE_ALL;
        xsm_fit_result r = XSM_FIT_RESULT_INIT, before = r;
        uint64_t hash = test_hash(m);
        status = xsm_fit_full_batch(ctx, m, s->p.data, e, &options, &r, err);
        assert_true(status == XSM_OK ? r.iterations == 3 : memcmp(&r, &before, sizeof r) == 0);
        assert_true(status != XSM_OK || test_hash(m) != hash);
        if (status != XSM_OK) { /* whatever happened, the weights are some iteration's */
            xsm_metrics metrics = XSM_METRICS_INIT;
            assert_int_equal(xsm_evaluate(NULL, m, s->p.data, NULL, &metrics, NULL), XSM_OK);
        }
    }
    return status;
}

TEST(every_allocation_of_a_fit)
{
    static const char *const exact[][2] = {{"softmax", ""}, {"bouchard", ""}, {"ove", "all"}};
    if (!test_has_lbfgs()) {
        skip();
    }
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        subject s = make(exact[i][0], exact[i][1], 1);
        assert_true(test_every_allocation(fit, &s) > 10);
        end(&s);
    }
}

static xsm_status judge(void *state, xsm_context *ctx, xsm_error *err)
{
    const subject *s = state;
    TEST_METRICS(metrics, 5);
    metrics.rows = 12345;
    xsm_metrics before = metrics;
    xsm_status status = xsm_evaluate(ctx, s->m, s->p.data, NULL, &metrics, err);
    assert_true(status == XSM_OK ? metrics.rows == ROWS : memcmp(&metrics, &before, sizeof metrics) == 0);
    return status;
}

static xsm_status foretell(void *state, xsm_context *ctx, xsm_error *err)
{
    const subject *s = state;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_predictor, predictor) = NULL;
    xsm_status status = xsm_model_new_linear(ctx, FEATURES, CLASSES, NULL, &m, err);
    if (status == XSM_OK) {
        status = xsm_predictor_new(m, NULL, &predictor, err);
        assert_true((predictor != NULL) == (status == XSM_OK));
    }
    if (status == XSM_OK) {
        uint32_t classes[ROWS * 5];
        xsm_batch batch = xsm_batch_range(s->p.data, 0, ROWS);
        status = test_predict(predictor, &batch, classes, NULL, NULL, err);
    }
    return status;
}

TEST(every_allocation_of_evaluation_and_prediction)
{
    subject s = make("softmax", "", 1);
    assert_int_equal(test_every_allocation(judge, &s), 6);
    assert_true(test_every_allocation(foretell, &s) > 4);
    end(&s);
}
