/*
 * Tests of the result of training: compared with golden optima (golden/optimum.py, optimum_data.py) on a small problem
 * and on Bibtex, and with the results of Fagan and Iyengar's own runs.
 */
#include "training.h"

#include <xsoftmax/trainer.h>

#include "golden/optimum_data_golden.h"
#include "golden/optimum_golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    const char *estimator, *options;
    double eta, factor;
    int32_t schedule;
    uint64_t batch, epochs;
    bool bias;
} run;

static xsm_model *train(const run *r, const xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(data, &info, &err), err);
    test_problem p = {.rows = info.rows, .features = info.features, .classes = info.classes};
    HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
    xsm_model *m = test_model(ctx, &p, r->bias, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(ctx, r->estimator, r->options);
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, "sgd", &o, &err));
    NEW(xsm_trainer, t,
        xsm_trainer_new(ctx, m, data, e, o,
                        STRUCT(xsm_trainer_options, .epochs = r->epochs, .batch = r->batch, .eta = r->eta,
                               .factor = r->factor, .schedule = r->schedule, .seed = 1),
                        &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    return m;
}

/* Mean loss plus ridge, from the weights alone: mean over the rows + mu/(2N) |W|^2. */
static double objective(xsm_model *m, const xsm_dataset *data, bool one_vs_each, double mu)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(data, &info, &err), err);
    xsm_parameters w = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &w, &err), err);
    double squares = 0, loss = 0;
    for (uint32_t k = 0; k < info.classes; k++) {
        for (uint32_t j = 0; j < info.features; j++) {
            double v = (double)w.weight[k * w.class_step + j * w.feature_step];
            squares += v * v;
        }
    }
    double *z = calloc(info.classes, sizeof *z);
    assert_non_null(z);
    for (uint64_t i = 0; i < info.rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(data, i, &row, &err), err);
        double most = -INFINITY, sum = 0;
        for (uint32_t k = 0; k < info.classes; k++) {
            z[k] = w.bias ? (double)w.bias[k] : 0;
            for (uint64_t j = 0; j < row.count; j++) {
                size_t feature = row.index ? row.index[j] : j;
                z[k] += (double)w.weight[k * w.class_step + feature * w.feature_step] * (double)row.values[j];
            }
            most = fmax(most, z[k]);
        }
        double own = z[row.labels[0]];
        for (uint32_t k = 0; k < info.classes; k++) {
            sum += one_vs_each ? (k == row.labels[0] ? 0 : log1p(exp(-fabs(z[k] - own))) + fmax(z[k] - own, 0))
                               : exp(z[k] - most);
        }
        loss += one_vs_each ? sum : most + log(sum) - own;
    }
    free(z);
    return (loss + mu / 2 * squares) / (double)info.rows;
}

static void check_end(const run *r, const xsm_dataset *data, bool one_vs_each, double mu, double optimum)
{
    xsm_model *m = train(r, data);
    double end = objective(m, data, one_vs_each, mu);
    xsm_model_free(m);
    print_message("%s %s: %.6f, the optimum is %.6f (%+.2f %%)\n", r->estimator, r->options, end, optimum,
                  100 * (end / optimum - 1));
    assert_true(end <= 1.01 * optimum);
    assert_true(end >= optimum * (1 - 1e-6)); /* else one of the two objectives is not what it says */
}

/* -- a small problem ----------------------------------------------------------------------------------------------- */

static void small_problem_is_solved(void **state)
{
    (void)state;
    static const double softmax[] = {SMALL_SOFTMAX_BIAS_0, SMALL_SOFTMAX_BIAS_1};
    static const double ove[] = {SMALL_ONE_VS_EACH_BIAS_0, SMALL_ONE_VS_EACH_BIAS_1};
    HELD_STRUCT(test_problem, p) = test_golden_problem(false);
    for (int bias = 0; bias < 2; bias++) {
        run r = {"softmax", "ridge=1", 0.5, 0, XSM_SCHEDULE_INVERSE, 1, 60, bias};
        check_end(&r, p.data, false, 1, softmax[bias]);
        r = (run){"softmax", "ridge=1", 2, 0, XSM_SCHEDULE_CONSTANT, p.rows, 400, bias};
        check_end(&r, p.data, false, 1, softmax[bias]);
        r = (run){"ove", "ridge=1 negatives=11", 0.2, 0, XSM_SCHEDULE_INVERSE, 1, 60, bias};
        check_end(&r, p.data, true, 1, ove[bias]);
        r = (run){"ove", "ridge=1 negatives=3", 0.2, 0, XSM_SCHEDULE_INVERSE, 5, 200, bias};
        check_end(&r, p.data, true, 1, ove[bias]);
        r = (run){"implicit", "ridge=1 negatives=3", 1, 0, XSM_SCHEDULE_INVERSE, 1, 200, bias};
        check_end(&r, p.data, false, 1, softmax[bias]);
        r = (run){"implicit", "ridge=1 negatives=11", 1, 0, XSM_SCHEDULE_INVERSE, 1, 200, bias};
        check_end(&r, p.data, false, 1, softmax[bias]);
        /* A u that was raised comes down by about eta a visit: the rates must not have a finite or slowly growing sum.
         */
        r = (run){"umax", "ridge=1 negatives=3", 0.1, 0, XSM_SCHEDULE_INVERSE_SQRT, 1, 500, bias};
        check_end(&r, p.data, false, 1, softmax[bias]);
        r = (run){"umax", "ridge=1 negatives=11", 0.1, 0, XSM_SCHEDULE_INVERSE_SQRT, 1, 500, bias};
        check_end(&r, p.data, false, 1, softmax[bias]);
    }
}

/* -- Bibtex -------------------------------------------------------------------------------------------------------- */

typedef struct real {
    xsm_dataset *train, *test; /* NULL when the data are not there */
} real;

/* FOLDER/FOLDER_train.txt.gz and _test, which must have those rows and classes: first label, unit rows; the test rows
 * read against the training classes. */
static real read_real(const char *folder, uint64_t rows, uint32_t classes)
{
    xsm_error err = XSM_ERROR_INIT;
    real r = {NULL, NULL};
    char name[80];
    snprintf(name, sizeof name, "%s/%s_train.txt.gz", folder, folder);
    const char *path = test_data(name);
    if (!path) {
        return r;
    }
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.labels = XSM_KEEP_LABELS_FIRST;
    assert_ok(xsm_dataset_read(NULL, path, NULL, &options, &r.train, &err), err);
    assert_ok(xsm_dataset_drop(r.train, XSM_DROP_UNLABELLED, NULL, &err), err);
    assert_ok(xsm_dataset_drop(r.train, XSM_DROP_CLASSES, NULL, &err), err);
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(r.train, &info, &err), err);
    assert_int_equal(info.rows, rows);
    assert_int_equal(info.classes, classes);
    snprintf(name, sizeof name, "%s/%s_test.txt.gz", folder, folder);
    path = test_data(name);
    if (path) {
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        assert_ok(xsm_dataset_get_class_map(r.train, &map, &err), err);
        options.classes = &map;
        assert_ok(xsm_dataset_read(NULL, path, NULL, &options, &r.test, &err), err);
    }
    HELD(xsm_transform, unit) = NULL;
    assert_ok(xsm_transform_new(NULL, "unit", &unit, &err), err);
    assert_ok(xsm_transform_fit(unit, r.train, &err), err);
    assert_ok(xsm_transform_apply(unit, r.train, &err), err);
    if (r.test) {
        assert_ok(xsm_transform_apply(unit, r.test, &err), err);
    }
    return r;
}

static void end_real(real *r)
{
    xsm_dataset_free(r->train);
    xsm_dataset_free(r->test);
}

static void bibtex_optima_are_reached(void **state)
{
    (void)state;
    real r = read_real("bibtex", BIBTEX_ROWS, BIBTEX_CLASSES);
    if (!r.train) {
        skip();
    }
    run softmax = {"softmax", "ridge=1", 5, 0, XSM_SCHEDULE_INVERSE, 1, 20, false};
    check_end(&softmax, r.train, false, 1, BIBTEX_SOFTMAX);
    run ove = {"ove", "ridge=1 negatives=145", 1.5, 0, XSM_SCHEDULE_INVERSE, 1, 25, false};
    check_end(&ove, r.train, true, 1, BIBTEX_ONE_VS_EACH);
    run sampled = {"ove", "ridge=1 negatives=20", 1.5, 0, XSM_SCHEDULE_INVERSE, 1, 40, false};
    check_end(&sampled, r.train, true, 1, BIBTEX_ONE_VS_EACH);
    end_real(&r);
}

static xsm_metrics scores(const run *r, const xsm_dataset *train_rows, const xsm_dataset *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = train(r, train_rows);
    xsm_metrics metrics = XSM_METRICS_INIT;
    assert_ok(xsm_evaluate(NULL, m, rows, NULL, &metrics, &err), err);
    print_message("%s %s eta %g: log-loss %.4f, error %.4f\n", r->estimator, r->options, r->eta, metrics.log_loss,
                  metrics.error);
    return metrics;
}

/* The authors' logs, epoch 50: implicit .333 with m = 1; U-max 1.414 (their start of u). */
/* Rates that fall as 1/t: unbiased sampled steps end at the maximum likelihood, not beside it. */
static void sampled_steps_reach_the_optimum(void **state)
{
    (void)state;
    real r = read_real("bibtex", BIBTEX_ROWS, BIBTEX_CLASSES);
    if (!r.train) {
        skip();
    }
    run implicit = {"implicit", "ridge=1 negatives=5", 3, 0, XSM_SCHEDULE_INVERSE, 1, 50, false};
    check_end(&implicit, r.train, false, 1, BIBTEX_SOFTMAX);
    run umax = {"umax", "ridge=1 negatives=20", 0.3, 0, XSM_SCHEDULE_INVERSE, 1, 50, false};
    check_end(&umax, r.train, false, 1, BIBTEX_SOFTMAX);
    end_real(&r);
}

static void bibtex_is_as_good_as_the_paper(void **state)
{
    (void)state;
    real r = read_real("bibtex", BIBTEX_ROWS, BIBTEX_CLASSES);
    if (!r.train || !r.test) {
        skip();
    }
    run implicit = {"implicit", "negatives=1", 10, 0.9, XSM_SCHEDULE_STEP, 1, 50, false};
    assert_true(scores(&implicit, r.train, r.train).log_loss <= 0.34);
    implicit.options = "negatives=5";
    assert_true(scores(&implicit, r.train, r.train).log_loss <= 0.12);
    implicit.options = "negatives=20";
    assert_true(scores(&implicit, r.train, r.train).log_loss <= 0.055);
    implicit.options = "negatives=5";
    implicit.eta = 1;
    xsm_metrics test = scores(&implicit, r.train, r.test);
    assert_true(test.log_loss <= 2.62);
    assert_true(test.error <= 0.612);
    run umax = {"umax", "negatives=1", 0.1, 0.9, XSM_SCHEDULE_STEP, 1, 50, false};
    assert_true(scores(&umax, r.train, r.train).log_loss <= 1.20);
    /* A step of several examples, at n times the rate, does not do worse in an epoch. */
    double last = 1e9;
    static const uint64_t batches[] = {1, 2, 5, 10};
    for (int i = 0; i < 4; i++) {
        run batch = {
            "implicit", "negatives=5 tolerance=1e-4", 200. * (double)batches[i], 0.9, XSM_SCHEDULE_STEP, batches[i], 10,
            false};
        double loss = scores(&batch, r.train, r.train).log_loss;
        assert_true(loss <= last);
        last = loss;
    }
    end_real(&r);
}

/* -- MNIST --------------------------------------------------------------------------------------------------------- */

/* -- Delicious ----------------------------------------------------------------------------------------------------- */

static void delicious_optimum_is_reached(void **state)
{
    (void)state;
    real r = read_real("delicious", DELICIOUS_ROWS, DELICIOUS_CLASSES);
    if (!r.train) {
        skip();
    }
    run implicit = {"implicit", "ridge=1 negatives=20", 3, 0, XSM_SCHEDULE_INVERSE, 1, 50, false};
    check_end(&implicit, r.train, false, 1, DELICIOUS_SOFTMAX);
    run umax = {"umax", "ridge=1 negatives=50", 0.3, 0, XSM_SCHEDULE_INVERSE, 1, 50, false};
    check_end(&umax, r.train, false, 1, DELICIOUS_SOFTMAX);
    /* The authors' logs, epoch 50, m = 1: implicit 3.203, U-max 3.307. */
    run paper = {"implicit", "negatives=1", 0.1, 0.9, XSM_SCHEDULE_STEP, 1, 50, false};
    assert_true(scores(&paper, r.train, r.train).log_loss <= 3.05);
    paper = (run){"implicit", "negatives=5", 1, 0.9, XSM_SCHEDULE_STEP, 1, 50, false};
    assert_true(scores(&paper, r.train, r.train).log_loss <= 2.65);
    paper = (run){"umax", "negatives=1", 0.01, 0.9, XSM_SCHEDULE_STEP, 1, 50, false};
    assert_true(scores(&paper, r.train, r.train).log_loss <= 3.307);
    end_real(&r);
}

static void mnist_is_as_good_as_the_paper(void **state)
{
    (void)state;
    real r = read_real("mnist", 60000, 10);
    if (!r.train) {
        skip();
    }
    run implicit = {"implicit", "negatives=1", 1, 0.9, XSM_SCHEDULE_STEP, 1, 50, false};
    assert_true(scores(&implicit, r.train, r.train).log_loss <= 0.26);
    run umax = {"umax", "negatives=1", 0.1, 0.9, XSM_SCHEDULE_STEP, 1, 50, false};
    assert_true(scores(&umax, r.train, r.train).log_loss <= 0.414);
    end_real(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_problem_is_solved),
        cmocka_unit_test(bibtex_optima_are_reached),
        cmocka_unit_test(sampled_steps_reach_the_optimum),
        cmocka_unit_test(bibtex_is_as_good_as_the_paper),
    };
    const struct CMUnitTest slow[] = {
        cmocka_unit_test(delicious_optimum_is_reached),
        cmocka_unit_test(mnist_is_as_good_as_the_paper),
    };
    return argc > 1 && strcmp(argv[1], "slow") == 0 ? cmocka_run_group_tests(slow, NULL, NULL)
                                                    : cmocka_run_group_tests(tests, NULL, NULL);
}
