/*
 * Tests of the search over a logarithmic grid (which points each round tries, the result) and of the trial runner (a
 * continued trial equals one long trial).
 */
#include "training.h"

#include "auto/search.h"
#include "auto/trial.h"

#include <xsoftmax/metrics.h>

#include <math.h>
#include <string.h>

enum { MOST = 32 };

/* Values with one minimum, and what was tried. */
typedef struct script {
    double minimum;
    int diverges_from; /* the first place of an infinite value */
    int forbidden;     /* a place that allows() refuses */
    int tried[XSMI_SEARCH_ROUNDS][MOST], count[XSMI_SEARCH_ROUNDS];
    uint32_t round;
} script;

static xsm_status begin(void *user, uint32_t round, xsm_error *err)
{
    (void)err;
    ((script *)user)->round = round;
    return XSM_OK;
}

static xsm_status attempt(void *user, int place, double *value, xsm_error *err)
{
    script *s = user;
    (void)err;
    assert_true(s->count[s->round] < MOST);
    s->tried[s->round][s->count[s->round]++] = place;
    *value = place >= s->diverges_from ? (double)INFINITY : 1 + fabs(place - s->minimum);
    return XSM_OK;
}

static bool allows(void *user, int place, bool planned)
{
    (void)planned;
    return place != ((const script *)user)->forbidden;
}

static void assert_tried(const script *s, uint32_t round, const int *places, int count)
{
    assert_int_equal(s->count[round], count);
    assert_memory_equal(s->tried[round], places, (size_t)count * sizeof *places);
}

static void halves(void **state)
{
    static const xsmi_scale scale = {0, 13, 6, 9, 3, begin, attempt, allows};
    static const int grid[] = {6, 7, 8, 9, 10, 11}, second[] = {10, 9, 11}, third[] = {10, 11, 9};
    script s = {.minimum = 10.4, .diverges_from = 99, .forbidden = 99};
    xsm_error err = XSM_ERROR_INIT;
    xsmi_scale_search search;
    (void)state;
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_tried(&s, 0, grid, 6);
    assert_tried(&s, 1, second, 3);
    assert_tried(&s, 2, third, 3);
    assert_int_equal(search.best[2], 10);
    assert_int_equal(xsmi_scale_search_second(&search, 2), 11);
    assert_true(isinf(xsmi_scale_search_value(&search, 2, 8)) && isinf(xsmi_scale_search_value(&search, 0, -1)));
}

static void brackets(void **state)
{
    static const xsmi_scale scale = {-20, 10, 0, 1, 1, NULL, attempt, allows};
    static const int down[] = {0, 1, -1, -2, -3, -4}, up[] = {0, 1, 2, 3, 4}, shut[] = {0, 1, 2};
    xsm_error err = XSM_ERROR_INIT;
    xsmi_scale_search search;
    (void)state;
    script s = {.minimum = -3, .diverges_from = -1, .forbidden = 99};
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_tried(&s, 0, down, 6);
    s = (script){.minimum = 3, .diverges_from = 4, .forbidden = 99};
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_tried(&s, 0, up, 5);
    s = (script){.minimum = 8, .diverges_from = 99, .forbidden = 3};
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_tried(&s, 0, shut, 3);
    s = (script){.minimum = 0, .diverges_from = -20, .forbidden = 99};
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_int_equal(search.best[0], XSMI_NOWHERE);
    assert_int_equal(s.count[0], 22); /* down to the least place */
}

static void of_equal_ones_the_lowest(void **state)
{
    static const xsmi_scale scale = {0, 3, 0, 3, 1, NULL, attempt, allows};
    script s = {.minimum = 1.5, .diverges_from = 99, .forbidden = 99};
    xsm_error err = XSM_ERROR_INIT;
    xsmi_scale_search search;
    (void)state;
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_int_equal(search.best[0], 1);
}

/* The weights after a trial of two epochs, at once or continued. */
static uint64_t train(const test_problem *p, uint64_t first)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context *ctx = test_context(1, TEST_BUILT_IN, 0);
    xsm_model *m = test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_estimator *e = test_estimator(ctx, "nce", "seed=3");
    xsm_optimizer *o = test_optimizer(ctx, m);
    xsmi_runner runner = {.context = ctx, .model = m, .purpose = "a test", .deadline = (double)INFINITY};
    xsmi_auto_trial t = {.runner = &runner,
                         .setting = {.estimator = e, .optimizer = o, .run = XSM_TRAINER_OPTIONS_INIT},
                         .rows = p->data,
                         .held_back = p->data,
                         .budget = {.epochs = first, .patience = 9, .stretch = 1, .startup = UINT64_MAX}};
    assert_ok(xsmi_auto_run(&t, &err), err);
    assert_int_equal(t.outcome.epochs, first);
    assert_ok(xsmi_auto_continue(&t, 2, &err), err);
    assert_int_equal(t.outcome.epochs, 2);
    assert_int_equal(t.outcome.examples, 2 * p->rows);
    assert_true(isfinite(t.outcome.held_back.loss) && !t.outcome.diverged && !t.outcome.late);
    xsmi_auto_end(&t);
    assert_ok(xsm_estimator_set(e, "seed", "9", &err), err); /* not bound any more */
    uint64_t hash = test_hash(m);
    xsmi_runner_free(&runner);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    xsm_context_free(ctx);
    return hash;
}

static void continues(void **state)
{
    test_problem p = test_problem_new(200, 5, 7, false, 3);
    (void)state;
    assert_true(train(&p, 1) == train(&p, 2));
    test_problem_free(&p);
}

/* A trial of softmax with one evaluation, judged by the log-loss after calibration. */
static xsmi_auto_outcome try_softmax(const test_problem *p, const xsm_dataset *held_back, double eta, double *precision,
                                     double *log_loss)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context *ctx = test_context(1, TEST_BUILT_IN, 0);
    xsm_model *m = test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_estimator *e = test_estimator(ctx, "softmax", "");
    xsm_optimizer *o = test_optimizer(ctx, m);
    xsmi_runner runner = {.context = ctx, .model = m, .purpose = "a test", .deadline = (double)INFINITY};
    xsmi_auto_trial t = {.runner = &runner,
                         .setting = {.estimator = e, .optimizer = o, .run = XSM_TRAINER_OPTIONS_INIT},
                         .rows = p->data,
                         .held_back = held_back,
                         .judge = XSMI_JUDGE_CALIBRATED,
                         .budget = {.epochs = 1, .patience = 9, .stretch = 1, .startup = UINT64_MAX}};
    t.setting.run.eta = eta;
    assert_ok(xsmi_auto_run(&t, &err), err);
    xsmi_auto_end(&t);
    xsm_metrics metrics = XSM_METRICS_INIT;
    if (!t.outcome.diverged) {
        assert_ok(xsm_evaluate(ctx, m, p->data, NULL, &metrics, &err), err);
    }
    *precision = 1 - metrics.error;
    *log_loss = metrics.log_loss;
    xsmi_runner_free(&runner);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    xsm_context_free(ctx);
    return t.outcome;
}

/* The calibration's pass says what an evaluation says of the best classes, in tiles of lanes and of rows. */
static void judges_in_one_pass(void **state)
{
    (void)state;
    for (size_t sparse = 0; sparse < 2; sparse++) {
        test_problem p = test_problem_new(300, 9, 23, sparse != 0, 3);
        double precision, log_loss;
        const xsmi_auto_outcome out = try_softmax(&p, p.data, 0.05, &precision, &log_loss);
        assert_int_equal(out.epochs, 1);
        assert_true(precision > 0.05 && precision < 0.99);
        assert_true(fabs(out.held_back.precision - precision) < 1e-12);
        assert_true(out.held_back.loss < log_loss + 1e-6);
        test_problem_free(&p);
    }
}

/* Rows held back whose scores leave the range of float32: what an evaluation refuses, the search goes on without. */
static void ends_what_diverges(void **state)
{
    test_problem p = test_problem_new(300, 9, 23, false, 3);
    double precision, log_loss;
    (void)state;
    for (size_t i = 0; i < 300 * 9; i++) {
        p.x[i] = 3e38f;
    }
    xsm_dataset *far = test_relabel(&p, false, 23, NULL, p.labels);
    const xsmi_auto_outcome out = try_softmax(&p, far, 0.5, &precision, &log_loss);
    assert_true(out.diverged && isinf(out.held_back.loss) && out.best_epoch == 0);
    xsm_dataset_free(far);
    test_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves),    cmocka_unit_test(brackets),           cmocka_unit_test(of_equal_ones_the_lowest),
        cmocka_unit_test(continues), cmocka_unit_test(judges_in_one_pass), cmocka_unit_test(ends_what_diverges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
