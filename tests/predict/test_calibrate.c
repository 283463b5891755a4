/*
 * Calibration: probabilities and log-losses against a naive computation in double, fitted numbers against optima that
 * are known in closed form and against central differences, and what keeps and what drops a calibration.
 */
#include "training.h"

#include <xsoftmax/calibrate.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 15 };

static void set(xsm_model *m, int32_t method, double scale, double shift)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_calibration c = XSM_CALIBRATION_INIT;
    c.method = method;
    c.scale = scale;
    c.shift = shift;
    assert_ok(xsm_model_set_calibration(m, &c, &err), err);
}

static xsm_calibration get(const xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_calibration c = XSM_CALIBRATION_INIT;
    assert_ok(xsm_model_get_calibration(m, &c, &err), err);
    return c;
}

static xsm_metrics evaluate(const xsm_model *m, const xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    assert_ok(xsm_evaluate(NULL, m, data, NULL, &metrics, &err), err);
    return metrics;
}

/* -- what a calibration means -------------------------------------------------------------------------------------- */

static double softplus(double z)
{
    return (z > 0 ? z : 0) + log1p(exp(-fabs(z)));
}

/* Log-loss and calibration error of a model, and each row's probabilities, p[rows][classes], in double. */
static void judge_naively(const xsm_model *m, const test_problem *p, const xsm_dataset *data, double *probabilities,
                          double *log_loss, double *error)
{
    const xsm_calibration c = get(m);
    double sure[BINS] = {0}, right[BINS] = {0}, loss = 0;
    HELD_MEMORY(double, z) = calloc(m->classes, sizeof *z);
    for (uint64_t i = 0; i < p->rows; i++) {
        double *row = probabilities + i * m->classes, most = -INFINITY, sum = 0, branches = 0, target = 0;
        uint32_t best = 0;
        for (uint32_t k = 0; k < m->classes; k++) {
            z[k] = c.scale * test_score(m, k, p->x + i * p->features) + c.shift;
            most = fmax(most, z[k]);
            best = z[k] > z[best] ? k : best;
            branches += softplus(z[k]);
        }
        for (uint32_t k = 0; k < m->classes; k++) {
            sum += exp(z[k] - most);
        }
        for (uint32_t k = 0; k < m->classes; k++) {
            row[k] = c.method == XSM_CALIBRATION_LABELS ? 1 / (1 + exp(-z[k])) : exp(z[k] - most) / sum;
        }
        xsm_row labels = XSM_ROW_INIT;
        assert_int_equal(xsm_dataset_get_row(data, i, &labels, NULL), XSM_OK);
        const size_t bin = row[best] < 1 ? (size_t)(row[best] * BINS) : BINS - 1;
        sure[bin] += row[best];
        for (uint64_t j = 0; j < labels.label_count; j++) {
            target += z[labels.labels[j]];
            right[bin] += labels.labels[j] == best;
        }
        loss += c.method == XSM_CALIBRATION_LABELS ? branches - target
                                                   : most + log(sum) - target / (double)labels.label_count;
    }
    *log_loss = loss / (double)p->rows;
    *error = 0;
    for (size_t b = 0; b < BINS; b++) {
        *error += fabs(right[b] - sure[b]) / (double)p->rows;
    }
}

/* One label a row, or a second one for every third row. */
static xsm_dataset *labelled(const test_problem *p, bool sparse, bool several)
{
    return test_second_labels(p, sparse, p->classes, p->labels, several);
}

static void compare_predictions(const xsm_model *m, const test_problem *p, const xsm_dataset *data, const double *want)
{
    enum { TOP = 3 };
    xsm_error err = XSM_ERROR_INIT;
    MADE(xsm_predictor, predictor, xsm_predictor_new(m, STRUCT(xsm_predictor_options, .top = TOP), &predictor, &err));
    HELD_MEMORY(uint32_t, classes) = calloc(p->rows * TOP, sizeof *classes);
    HELD_MEMORY(double, probabilities) = calloc(p->rows * TOP, sizeof *probabilities);
    xsm_batch batch = xsm_batch_range(data, 0, p->rows);
    assert_ok(test_predict(predictor, &batch, classes, NULL, probabilities, &err), err);
    for (uint64_t i = 0; i < p->rows * TOP; i++) {
        assert_true(fabs(probabilities[i] - want[i / TOP * m->classes + classes[i]]) < 1e-5);
    }
}

/* Against the naive way, for dense and sparse rows, both layouts, few rows and many, more than one class run. */
TEST(test_meaning)
{
    static const struct {
        uint64_t rows;
        uint32_t features, classes;
        bool sparse;
        int32_t layout;
    } cases[] = {{300, 6, 37, false, XSM_LAYOUT_CLASS_MAJOR},    {3, 6, 200, false, XSM_LAYOUT_CLASS_MAJOR},
                 {60, 30, 200, true, XSM_LAYOUT_CLASS_MAJOR},    {60, 30, 37, true, XSM_LAYOUT_FEATURE_MAJOR},
                 {40, 5, 4400, false, XSM_LAYOUT_FEATURE_MAJOR}, {40, 5, 4400, false, XSM_LAYOUT_CLASS_MAJOR},
                 {20, 20, 4400, true, XSM_LAYOUT_CLASS_MAJOR}};
    static const xsm_calibration calibrations[] = {{0, XSM_CALIBRATION_NONE, 0, 1, 0},
                                                   {0, XSM_CALIBRATION_TEMPERATURE, 0, 0.375, 0},
                                                   {0, XSM_CALIBRATION_TEMPERATURE, 0, 3.5, 0},
                                                   {0, XSM_CALIBRATION_LABELS, 0, 2.25, -1.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t j = 0; j < 2 * sizeof calibrations / sizeof *calibrations; j++) {
            const xsm_calibration *c = &calibrations[j / 2];
            test_problem p =
                test_problem_new(cases[i].rows, cases[i].features, cases[i].classes, cases[i].sparse, 7 + i);
            xsm_dataset *data = labelled(&p, cases[i].sparse, j % 2 == 1);
            xsm_model *m = test_model(NULL, &p, true, cases[i].layout, 2, 3);
            double *probabilities = calloc(p.rows * p.classes, sizeof *probabilities), log_loss, error;
            float *before = calloc(p.rows * p.classes, sizeof *before),
                  *after = calloc(p.rows * p.classes, sizeof *after);
            test_all_scores(m, data, before);
            set(m, c->method, c->scale, c->shift);
            test_all_scores(m, data, after);
            assert_memory_equal(before, after, p.rows * p.classes * sizeof *before);
            judge_naively(m, &p, data, probabilities, &log_loss, &error);
            const xsm_metrics have = evaluate(m, data);
            assert_true(fabs(have.log_loss - log_loss) < 2e-6 * fmax(1, log_loss));
            assert_true(fabs(have.calibration_error - error) < 1e-5);
            compare_predictions(m, &p, data, probabilities);
            free(probabilities);
            free(before);
            free(after);
            xsm_dataset_free(data);
            xsm_model_free(m);
            test_problem_free(&p);
        }
    }
}

/* -- fitting ------------------------------------------------------------------------------------------------------- */

static xsm_calibrate_result calibrate(xsm_context *ctx, xsm_model *m, const xsm_dataset *data, int32_t method)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_calibrate_options options = XSM_CALIBRATE_OPTIONS_INIT;
    xsm_calibrate_result result = XSM_CALIBRATE_RESULT_INIT;
    options.method = method;
    assert_ok(xsm_model_calibrate(ctx, m, data, &options, &result, &err), err);
    return result;
}

/* The log-loss at other numbers, and then the same numbers again. */
static double loss_at(xsm_model *m, const xsm_dataset *data, double scale, double shift)
{
    const xsm_calibration c = get(m);
    set(m, c.method, scale, shift);
    const double loss = evaluate(m, data).log_loss;
    set(m, c.method, c.scale, c.shift);
    return loss;
}

/* At the optimum the log-loss is least, and its central differences are zero; both methods, on rows of any kind. */
TEST(test_optimum)
{
    for (int j = 0; j < 8; j++) {
        const bool sparse = j % 2 == 1, several = j % 4 >= 2;
        const int32_t method = j < 4 ? XSM_CALIBRATION_TEMPERATURE : XSM_CALIBRATION_LABELS;
        HELD_STRUCT(test_problem, p) = test_problem_new(700, 12, 23, sparse, 5);
        HELD(xsm_dataset, data) = labelled(&p, sparse, several);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
        /* Better than by chance: the bias of classes follows their counts. */
        xsm_parameters weights = XSM_PARAMETERS_INIT;
        assert_int_equal(xsm_model_get_parameters(m, &weights, NULL), XSM_OK);
        for (uint64_t i = 0; i < p.rows; i++) {
            for (uint32_t f = 0; f < p.features; f++) {
                weights.weight[p.labels[i] * weights.class_step + f] += 0.1f * p.x[i * p.features + f];
            }
        }
        const xsm_metrics before = evaluate(m, data);
        const xsm_calibrate_result r = calibrate(NULL, m, data, method);
        const xsm_metrics after = evaluate(m, data);
        const xsm_calibration c = get(m);
        assert_int_equal(r.method, method);
        assert_int_equal(c.method, method);
        assert_true(c.scale == r.scale && c.shift == r.shift);
        assert_int_equal(r.rows, p.rows);
        assert_true(fabs(after.log_loss - r.log_loss) < 3e-6 * r.log_loss);
        assert_true(after.error == before.error);
        assert_true(r.log_loss < r.log_loss_before);
        if (method == XSM_CALIBRATION_TEMPERATURE) {
            assert_true(fabs(before.log_loss - r.log_loss_before) < 2e-6 * before.log_loss);
        }
        const double h = 0.02, up = loss_at(m, data, c.scale * (1 + h), c.shift),
                     down = loss_at(m, data, c.scale * (1 - h), c.shift);
        assert_true(up > r.log_loss && down > r.log_loss);
        /* The minimum is h/40 away at most, the third derivative and rounding included. */
        assert_true(fabs(up - down) < 0.05 * (up + down - 2 * r.log_loss));
        if (method == XSM_CALIBRATION_LABELS) {
            const double above = loss_at(m, data, c.scale, c.shift + h), below = loss_at(m, data, c.scale, c.shift - h);
            assert_true(fabs(above - below) < 0.05 * (above + below - 2 * r.log_loss));
        }
    }
}

/* Rows of one feature that is 0 or 1, and a model of two classes: how many of each kind have which labels. */
static xsm_dataset *two_kinds(const uint32_t count[2][2])
{
    float x[200];
    uint64_t offsets[201] = {0};
    uint32_t labels[200], rows = 0;
    for (uint32_t kind = 0; kind < 2; kind++) {
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t i = 0; i < count[kind][k]; i++, rows++) {
                x[rows] = (float)kind;
                labels[rows] = k;
                offsets[rows + 1] = rows + 1;
            }
        }
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_labels of = XSM_LABELS_INIT;
    xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
    of.offsets = offsets;
    of.labels = labels;
    of.classes = 2;
    dense.values = x;
    dense.rows = rows;
    dense.features = 1;
    dense.labels = &of;
    xsm_dataset *data;
    assert_ok(xsm_dataset_from_dense(NULL, &dense, &data, &err), err);
    return data;
}

static xsm_model *two_classes(float w0, float b0, float w1, float b1)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = 1;
    xsm_model *m;
    xsm_parameters weights = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_new_linear(NULL, 1, 2, &options, &m, &err), err);
    assert_ok(xsm_model_get_parameters(m, &weights, &err), err);
    weights.weight[0] = w0;
    weights.weight[weights.class_step] = w1;
    weights.bias[0] = b0;
    weights.bias[1] = b1;
    return m;
}

/* Optima that are known: shares of labels are the probabilities that a model of two kinds of rows can reach. */
TEST(test_known)
{
    /* All rows are alike, z = (0, c): e^{scale c} = 3, whatever c. */
    static const uint32_t alike[2][2] = {{25, 75}, {0, 0}};
    xsm_dataset *data = two_kinds(alike);
    for (int j = -6; j <= 6; j++) {
        const double c = exp2(j);
        HELD(xsm_model, m) = two_classes(0, 0, 0, (float)c);
        const xsm_calibrate_result r = calibrate(NULL, m, data, XSM_CALIBRATION_AUTO);
        assert_int_equal(r.method, XSM_CALIBRATION_TEMPERATURE);
        assert_true(fabs(r.scale * c / log(3) - 1) < 1e-4);
        assert_true(fabs(r.log_loss - (-0.25 * log(0.25) - 0.75 * log(0.75))) < 1e-6);
        assert_true(evaluate(m, data).calibration_error < 1e-4);
    }
    xsm_dataset_free(data);
    /* z = 2 x - 1 for the one class and its negative for the other; 30 of 50 rows with x = 1 have class 0, and 10 of 50
     * with x = 0: the scaled scores are the logits of their shares in both kinds, of which the two numbers are a fit
     * with logit(p) at z = 1 and at z = -1. Pairs (z, share): (1, (30 + 40) / 100), (-1, (10 + 20) / 100). */
    static const uint32_t kinds[2][2] = {{10, 40}, {30, 20}};
    data = two_kinds(kinds);
    xsm_model *m = two_classes(2, -1, -2, 1);
    const xsm_calibrate_result r = calibrate(NULL, m, data, XSM_CALIBRATION_LABELS);
    const double up = log(0.7 / 0.3), down = log(0.3 / 0.7);
    assert_true(fabs(r.scale - (up - down) / 2) < 1e-5);
    assert_true(fabs(r.shift - (up + down) / 2) < 1e-5);
    xsm_model_free(m);
    /* The same with z = 3 x + 5 for both classes: shares 1/2 at either. */
    m = two_classes(3, 5, 3, 5);
    assert_fails(
        xsm_model_calibrate(NULL, m, data, STRUCT(xsm_calibrate_options, .method = XSM_CALIBRATION_LABELS), NULL, &err),
        XSM_ERROR_DATA, err);
    assert_int_equal(get(m).method, XSM_CALIBRATION_NONE);
    xsm_model_free(m);
    xsm_dataset_free(data);
}

/* No minimum, no rows, rows of another shape. */
TEST(test_refused)
{
    static const uint32_t right[2][2] = {{50, 0}, {0, 50}};
    HELD(xsm_dataset, data) = two_kinds(right);
    HELD(xsm_model, m) = two_classes(-2, 1, 2, -1);
    assert_fails(xsm_model_calibrate(NULL, m, data, NULL, NULL, &err), XSM_ERROR_DATA, err);
    xsm_calibrate_options options = XSM_CALIBRATE_OPTIONS_INIT;
    options.method = XSM_CALIBRATION_LABELS;
    assert_fails(xsm_model_calibrate(NULL, m, data, &options, NULL, &err), XSM_ERROR_DATA, err);
    for (int32_t method = -1; method <= 4; method += method == -1 ? 4 : 1) { /* 3: what calibrates nothing */
        options.method = method;
        assert_fails(xsm_model_calibrate(NULL, m, data, &options, NULL, &err), XSM_ERROR_RANGE, err);
    }
    assert_fails(xsm_model_calibrate(NULL, NULL, data, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_calibrate(NULL, m, NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    test_problem p = test_problem_new(20, 3, 4, false, 1);
    assert_fails(xsm_model_calibrate(NULL, m, p.data, NULL, NULL, &err), XSM_ERROR_SHAPE, err);
    test_problem_free(&p);
    static const struct {
        int32_t method;
        double scale, shift;
    } wrong[] = {{XSM_CALIBRATION_AUTO, 1, 0},
                 {4, 1, 0},
                 {-1, 1, 0},
                 {XSM_CALIBRATION_NONE, 2, 0},
                 {XSM_CALIBRATION_NONE, 1, 1},
                 {XSM_CALIBRATION_TEMPERATURE, 0, 0},
                 {XSM_CALIBRATION_TEMPERATURE, -1, 0},
                 {XSM_CALIBRATION_TEMPERATURE, (double)NAN, 0},
                 {XSM_CALIBRATION_TEMPERATURE, 0x1p21, 0},
                 {XSM_CALIBRATION_TEMPERATURE, 1, 1},
                 {XSM_CALIBRATION_LABELS, 1, (double)INFINITY}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        xsm_calibration c = XSM_CALIBRATION_INIT;
        c.method = wrong[i].method;
        c.scale = wrong[i].scale;
        c.shift = wrong[i].shift;
        assert_fails(xsm_model_set_calibration(m, &c, &err), XSM_ERROR_RANGE, err);
        assert_int_equal(get(m).method, XSM_CALIBRATION_NONE);
    }
}

/* The same bits for any number of threads; a sample of the rows. */
TEST(test_threads)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(1500, 12, 23, true, 5);
    xsm_calibrate_result first[2];
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        for (int32_t method = XSM_CALIBRATION_TEMPERATURE; method <= XSM_CALIBRATION_LABELS; method++) {
            HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
            HELD(xsm_model, m) = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
            xsm_parameters weights = XSM_PARAMETERS_INIT;
            assert_int_equal(xsm_model_get_parameters(m, &weights, NULL), XSM_OK);
            for (uint64_t i = 0; i < p.rows; i++) {
                weights.bias[p.labels[i]] += 0.05f;
                for (uint32_t f = 0; f < p.features; f++) {
                    weights.weight[p.labels[i] * weights.class_step + f] += 0.1f * p.x[i * p.features + f];
                }
            }
            const xsm_calibrate_result r = calibrate(ctx, m, p.data, method);
            xsm_calibrate_result *one = &first[method - XSM_CALIBRATION_TEMPERATURE];
            *one = threads == 1 ? r : *one;
            assert_true(r.scale == one->scale && r.shift == one->shift && r.log_loss == one->log_loss);
            xsm_calibrate_options options = XSM_CALIBRATE_OPTIONS_INIT;
            xsm_calibrate_result some = XSM_CALIBRATE_RESULT_INIT;
            options.method = method;
            options.rows = 400;
            assert_ok(xsm_model_calibrate(ctx, m, p.data, &options, &some, &err), err);
            assert_int_equal(some.rows, 400);
            assert_true(fabs(some.scale / r.scale - 1) < 0.3);
        }
    }
}

/* -- a model that has one ------------------------------------------------------------------------------------------ */

/* Of rows that are surely right no log-loss is below 0, and no probability above 1, whatever is rounded. */
TEST(test_sure)
{
    enum { N = 200 };
    float values[N];
    double probability[2 * N];
    uint32_t labels[N], found[2 * N];
    for (int i = 0; i < N; i++) {
        labels[i] = (uint32_t)i % 2;
        values[i] = (91.7f + 0.37f * (float)i) * (i % 2 ? -1.0f : 1.0f);
    }
    xsm_predictor *predictor = NULL;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    const xsm_labels given = {.size = sizeof given, .classes = 2, .labels = labels};
    const xsm_dense_rows rows = {.size = sizeof rows, .values = values, .rows = N, .features = 1, .labels = &given};
    MADE(xsm_dataset, d, xsm_dataset_from_dense(NULL, &rows, &d, &err));
    MADE(xsm_model, m, xsm_model_new_linear(NULL, 1, 2, NULL, &m, &err));
    assert_ok(xsm_model_get_parameters(m, &w, &err), err);
    w.weight[0] = 3.3f;
    w.weight[w.class_step] = -3.3f;
    const xsm_batch batch = xsm_batch_range(d, 0, N);
    for (int32_t method = XSM_CALIBRATION_TEMPERATURE; method <= XSM_CALIBRATION_LABELS; method++) {
        for (double scale = 0.9; scale < 1.1; scale += 0.013) {
            xsm_metrics metrics = XSM_METRICS_INIT;
            set(m, method, scale, method == XSM_CALIBRATION_LABELS ? 0.3 : 0);
            assert_ok(xsm_evaluate(NULL, m, d, NULL, &metrics, &err), err);
            assert_true(metrics.log_loss >= 0 && !signbit(metrics.log_loss) && metrics.log_loss < 1e-6);
            assert_ok(xsm_predictor_new(m, NULL, &predictor, &err), err);
            assert_ok(test_predict(predictor, &batch, found, NULL, probability, &err), err);
            for (int i = 0; i < 2 * N; i++) {
                assert_true(probability[i] <= 1);
            }
            xsm_predictor_free(predictor);
        }
    }
}

TEST(test_saved)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(50, 6, 9, false, 2);
    static const xsm_calibration calibrations[] = {{0, XSM_CALIBRATION_NONE, 0, 1, 0},
                                                   {0, XSM_CALIBRATION_TEMPERATURE, 0, 0.7, 0},
                                                   {0, XSM_CALIBRATION_LABELS, 0, 1e-5, -123.456}};
    for (size_t i = 0; i < sizeof calibrations / sizeof *calibrations; i++) {
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 2, 3);
        set(m, calibrations[i].method, calibrations[i].scale, calibrations[i].shift);
        const char *path = test_path("model");
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        MADE(xsm_model, loaded, xsm_model_load(NULL, path, NULL, NULL, &loaded, &err));
        const xsm_calibration a = get(m), b = get(loaded);
        assert_true(a.method == b.method && a.scale == b.scale && a.shift == b.shift);
        assert_true(evaluate(m, p.data).log_loss == evaluate(loaded, p.data).log_loss);
        assert_fails(xsm_model_set_metadata(m, "calibration", "temperature 2", &err), XSM_ERROR_ARGUMENT, err);
    }
    static const char *const wrong[] = {
        "",           "temperature",     "temperature 0",  "temperature 1 0", "labels 1",
        "labels 1 x", "labels 1 inf",    "temperature -1", "none 1",          "labels 1 1 1",
        "heat 1",     "temperature 1e9", "temperature  1", "labels nan 0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char bytes[512];
        int length = snprintf(bytes + 8, sizeof bytes - 8,
                              "{\"__metadata__\":{\"calibration\":\"%s\"},"
                              "\"weight\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}",
                              wrong[i]);
        while (length % 8 != 0) {
            bytes[8 + length++] = ' ';
        }
        uint64_t size = (uint64_t)length;
        memcpy(bytes, &size, 8);
        memset(bytes + 8 + length, 0, 8);
        xsm_model *m;
        const char *path = test_file("wrong", bytes, 16 + (size_t)length);
        assert_fails(xsm_model_load(NULL, path, NULL, NULL, &m, &err), XSM_ERROR_FORMAT, err);
        if (!strstr(err.message, "calibration")) {
            fail_msg("'%s': %s", wrong[i], err.message);
        }
    }
}

/* What changes the scores drops a calibration; growth and another layout keep it. */
TEST(test_dropped)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(50, 6, 9, true, 2);
    xsm_model *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 2, 3);
    set(m, XSM_CALIBRATION_TEMPERATURE, 2, 0);
    assert_ok(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, &err), err);
    assert_ok(xsm_model_grow(m, 8, NULL, &err), err);
    assert_int_equal(get(m).method, XSM_CALIBRATION_TEMPERATURE);
    xsm_model_free(m);

    m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 2, 3);
    set(m, XSM_CALIBRATION_TEMPERATURE, 2, 0);
    assert_ok(xsm_model_add_pairs(m, p.data, 1, &err), err);
    assert_int_equal(get(m).method, XSM_CALIBRATION_NONE);
    set(m, XSM_CALIBRATION_TEMPERATURE, 2, 0);
    xsm_model_clear_correction(m);
    assert_int_equal(get(m).method, XSM_CALIBRATION_NONE);

    set(m, XSM_CALIBRATION_TEMPERATURE, 2, 0);
    xsm_estimator *e = test_estimator(NULL, "softmax", "");
    xsm_optimizer *o = test_optimizer(NULL, m);
    assert_int_equal(get(m).method, XSM_CALIBRATION_NONE);
    xsm_gradient *g = test_gradient(NULL);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    set(m, XSM_CALIBRATION_TEMPERATURE, 2, 0);
    xsm_batch batch = xsm_batch_range(p.data, 0, 4);
    test_take_step(e, o, g, &batch, 0.1);
    assert_int_equal(get(m).method, XSM_CALIBRATION_NONE);
    xsm_trainer *t;
    assert_ok(xsm_trainer_new(NULL, m, p.data, e, o, NULL, &t, &err), err);
    set(m, XSM_CALIBRATION_TEMPERATURE, 2, 0);
    assert_ok(xsm_trainer_run(t, &err), err);
    assert_int_equal(get(m).method, XSM_CALIBRATION_NONE);
    xsm_trainer_free(t);
    if (test_has_lbfgs()) {
        set(m, XSM_CALIBRATION_TEMPERATURE, 2, 0);
        assert_ok(xsm_fit_full_batch(NULL, m, p.data, e, NULL, NULL, &err), err);
        assert_int_equal(get(m).method, XSM_CALIBRATION_NONE);
    }
    set(m, XSM_CALIBRATION_TEMPERATURE, 2, 0);
    assert_ok(xsm_model_set_calibration(m, NULL, &err), err);
    assert_int_equal(get(m).method, XSM_CALIBRATION_NONE);
    xsm_gradient_free(g);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
}

/* A model of `hierarchical` has probabilities by its tree. */
TEST(test_hierarchy)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(50, 6, 9, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 3);
    HELD(xsm_estimator, e) = test_estimator(NULL, "hierarchical", "");
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    MADE(xsm_trainer, t, xsm_trainer_new(NULL, m, p.data, e, o, NULL, &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_calibration c = XSM_CALIBRATION_INIT;
    assert_ok(xsm_model_set_calibration(m, &c, &err), err);
    c.method = XSM_CALIBRATION_TEMPERATURE;
    assert_fails(xsm_model_set_calibration(m, &c, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_model_calibrate(NULL, m, p.data, NULL, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
}

/* The rows of a problem with labels of which some are others, some unknown, and some missing. */
static xsm_dataset *with_noise(const test_problem *p, bool several)
{
    HELD_MEMORY(uint32_t, first) = calloc(p->rows, sizeof *first);
    for (uint64_t i = 0; i < p->rows; i++) {
        first[i] = i % 15 == 0   ? XSM_CLASS_UNSEEN
                   : i % 10 == 1 ? p->classes
                   : i % 4 == 2  ? (p->labels[i] + 7) % p->classes
                                 : p->labels[i];
    }
    xsm_dataset *data = test_second_labels(p, true, p->classes + 1, first, several);
    return data;
}

/* Of label trees the log-loss and the calibration error fall on the rows, or stay, whatever these are: rows of the
 * training and others, with labels that are unknown and rows without one. The result depends on no threads. */
TEST(test_label_tree)
{
    static const int32_t links[] = {XSM_LABEL_TREE_LINK_SOFTMAX, XSM_LABEL_TREE_LINK_SIGMOID, XSM_LABEL_TREE_LINK_HINGE,
                                    XSM_LABEL_TREE_LINK_NORMALISED};
    for (size_t i = 0; i < 32; i++) {
        const int32_t link = links[i % 4];
        const bool several = i / 4 % 2 == 1, own = i / 8 % 2 == 1, steep = i >= 16;
        const bool one_sum = link == XSM_LABEL_TREE_LINK_SOFTMAX || link == XSM_LABEL_TREE_LINK_NORMALISED;
        HELD_STRUCT(test_problem, p) = test_problem_new(400, 30, 60, true, 2 + i);
        HELD(xsm_dataset, train) = labelled(&p, true, several);
        HELD(xsm_dataset, other) = with_noise(&p, several);
        const xsm_dataset *rows = own ? train : other;
        xsm_label_tree_options options = XSM_LABEL_TREE_OPTIONS_INIT;
        options.leaf = 5;
        options.arity = 4;
        options.trees = 1 + (uint32_t)(i / 4 + i) % 2;
        options.link = link;
        options.cost = steep ? 100 : 1;
        HELD(xsm_model, m) = NULL;
        assert_ok(xsm_fit_label_tree(NULL, train, &options, &m, NULL, &err), err);
        if (!one_sum) {
            assert_fails(xsm_model_calibrate(NULL, m, rows,
                                             STRUCT(xsm_calibrate_options, .method = XSM_CALIBRATION_TEMPERATURE), NULL,
                                             &err),
                         XSM_ERROR_UNSUPPORTED, err);
        }
        const xsm_metrics before = evaluate(m, rows);
        HELD(xsm_context, two) = test_context(2, 0, 0);
        const xsm_calibrate_result r = calibrate(NULL, m, rows, XSM_CALIBRATION_AUTO);
        const xsm_calibrate_result again = calibrate(two, m, rows, XSM_CALIBRATION_AUTO);
        const xsm_metrics after = evaluate(m, rows);
        assert_true(r.scale == again.scale && r.shift == again.shift && r.log_loss == again.log_loss);
        assert_int_equal(r.method, one_sum && !several ? XSM_CALIBRATION_TEMPERATURE : XSM_CALIBRATION_LABELS);
        assert_int_equal(r.rows, after.known_rows);
        assert_true(fabs(r.log_loss - after.log_loss) <= 1e-6 * after.log_loss);
        assert_true(after.error == before.error);
        assert_true(r.log_loss <= r.log_loss_before);
        if (link != XSM_LABEL_TREE_LINK_HINGE && !(link == XSM_LABEL_TREE_LINK_NORMALISED && several)) {
            assert_true(after.calibration_error <= before.calibration_error + 1e-6);
        }
    }
}

/* Each class by itself: a class's probability needs its own score alone. */
TEST(test_label_tree_classes)
{
    enum { TOP = 3, ROWS = 60 };
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 6, 9, false, 2);
    xsm_label_tree_options options = XSM_LABEL_TREE_OPTIONS_INIT;
    options.leaf = 3;
    static const int32_t links[] = {XSM_LABEL_TREE_LINK_SOFTMAX, XSM_LABEL_TREE_LINK_SIGMOID, XSM_LABEL_TREE_LINK_HINGE,
                                    XSM_LABEL_TREE_LINK_NORMALISED};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        HELD(xsm_model, m) = NULL;
        options.link = links[i];
        assert_ok(xsm_fit_label_tree(NULL, p.data, &options, &m, NULL, &err), err);
        const xsm_calibrate_result r = calibrate(NULL, m, p.data, XSM_CALIBRATION_LABELS);
        MADE(xsm_predictor, predictor,
             xsm_predictor_new(m, STRUCT(xsm_predictor_options, .top = TOP), &predictor, &err));
        uint32_t classes[ROWS * TOP];
        float scores[ROWS * TOP];
        double probabilities[ROWS * TOP];
        xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
        assert_ok(xsm_predictor_run(predictor,
                                    STRUCT(xsm_prediction, .batch = &batch, .classes = classes, .scores = scores,
                                           .probabilities = probabilities),
                                    &err),
                  err);
        for (size_t j = 0; j < ROWS * TOP; j++) {
            const double log_p = fmin((double)scores[j], -0x1p-24), hinge = (double)scores[j];
            const double z = links[i] == XSM_LABEL_TREE_LINK_HINGE ? hinge : log_p - log(1 - exp(log_p));
            assert_true(fabs(probabilities[j] - 1 / (1 + exp(-(r.scale * z + r.shift)))) <= 1e-5);
        }
    }
}

/* Probabilities of a search: available for a calibration of each class by itself. */
TEST(test_search)
{
    enum { TOP = 3 };
    HELD_STRUCT(test_problem, p) = test_problem_new(40, 6, 60, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 2, 3);
    MADE(xsm_index, index, xsm_index_new(NULL, "exact", &index, &err));
    assert_ok(xsm_index_build_model(index, m, &err), err);
    MADE(xsm_predictor, predictor,
         xsm_predictor_new(m, STRUCT(xsm_predictor_options, .top = TOP, .index = index), &predictor, &err));
    uint32_t classes[40 * TOP];
    float scores[40 * TOP];
    double probabilities[40 * TOP];
    xsm_batch batch = xsm_batch_range(p.data, 0, p.rows);
    set(m, XSM_CALIBRATION_TEMPERATURE, 1.5, 0);
    assert_fails(test_predict(predictor, &batch, classes, NULL, probabilities, &err), XSM_ERROR_UNSUPPORTED, err);
    set(m, XSM_CALIBRATION_LABELS, 1.5, -1);
    for (int given = 0; given < 2; given++) {
        memset(probabilities, 0, sizeof probabilities);
        assert_ok(test_predict(predictor, &batch, classes, given ? scores : NULL, probabilities, &err), err);
        for (uint64_t i = 0; i < p.rows * TOP; i++) {
            const double z = test_score(m, classes[i], p.x + i / TOP * p.features);
            assert_true(fabs(probabilities[i] - 1 / (1 + exp(1 - 1.5 * z))) < 1e-5);
        }
    }
}

/* -- memory and cancelling ----------------------------------------------------------------------------------------- */

/* A calibration with weights is that of copies of the rows. */
TEST(test_weights)
{
    for (int several = 0; several < 2; several++) {
        enum { ROWS = 200 };
        uint64_t copies[2 * ROWS], count = 0;
        float weights[ROWS];
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 5, 8, several, 21);
        xsm_dataset *rows = labelled(&p, several, several), *all = NULL;
        xsm_model *a = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 2, 3);
        xsm_model *b = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 2, 3), *both[] = {a, b};
        for (uint64_t i = 0; i < ROWS; i++) {
            for (size_t j = 0; j < 2; j++) { /* better than by chance */
                xsm_parameters of = XSM_PARAMETERS_INIT;
                assert_ok(xsm_model_get_parameters(both[j], &of, &err), err);
                for (uint32_t f = 0; f < p.features; f++) {
                    of.weight[p.labels[i] * of.class_step + f] += 0.2f * p.x[i * p.features + f];
                }
            }
            weights[i] = (float)(i % 3);
            for (uint64_t n = 0; n < i % 3; n++) {
                copies[count++] = i;
            }
        }
        assert_ok(xsm_dataset_select(rows, copies, count, &all, &err), err);
        xsm_dataset_weights w = XSM_DATASET_WEIGHTS_INIT;
        w.rows = weights;
        w.row_count = ROWS;
        assert_ok(xsm_dataset_set_weights(rows, &w, &err), err);
        const int32_t method = several ? XSM_CALIBRATION_LABELS : XSM_CALIBRATION_TEMPERATURE;
        const xsm_calibrate_result r = calibrate(NULL, a, rows, method), s = calibrate(NULL, b, all, method);
        assert_true(fabs(r.scale - s.scale) < 1e-5 * s.scale && fabs(r.shift - s.shift) < 1e-5);
        assert_true(fabs(r.log_loss - s.log_loss) < 1e-9 && fabs(r.log_loss_before - s.log_loss_before) < 1e-9);
        memset(weights, 0, sizeof weights);
        assert_ok(xsm_dataset_set_weights(rows, &w, &err), err);
        assert_fails(xsm_model_calibrate(NULL, a, rows, NULL, NULL, &err), XSM_ERROR_DATA, err);
        xsm_dataset_free(all);
        xsm_dataset_free(rows);
        xsm_model_free(a);
        xsm_model_free(b);
    }
}

static xsm_status calibrate_both(void *state, xsm_context *ctx, xsm_error *err)
{
    const test_problem *p = state;
    HELD(xsm_model, m) = NULL;
    xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    o.bias = 1;
    xsm_status status = xsm_model_new_linear(ctx, p->features, p->classes, &o, &m, err);
    for (int32_t method = XSM_CALIBRATION_TEMPERATURE; status == XSM_OK && method <= XSM_CALIBRATION_LABELS; method++) {
        xsm_calibrate_options options = XSM_CALIBRATE_OPTIONS_INIT;
        xsm_parameters weights = XSM_PARAMETERS_INIT;
        options.method = method;
        status = xsm_model_get_parameters(m, &weights, err);
        for (uint32_t k = 0; status == XSM_OK && k < p->classes; k++) {
            weights.bias[k] = 0.125f * (float)(k % 3);
        }
        status = status == XSM_OK ? xsm_model_calibrate(ctx, m, p->data, &options, NULL, err) : status;
        if (status != XSM_OK && status != XSM_ERROR_DATA) {
            assert_int_equal(get(m).method,
                             method == XSM_CALIBRATION_TEMPERATURE ? XSM_CALIBRATION_NONE : method - 1); /* as before */
        }
        status = status == XSM_ERROR_DATA ? XSM_OK : status;
    }
    return status;
}

TEST(test_memory_and_cancelling)
{
    /* Classes 1 and 2 of three are more frequent, as the biases say. */
    uint64_t offsets[301] = {0};
    uint32_t labels[300];
    HELD_STRUCT(test_problem, p) = test_problem_new(300, 4, 3, false, 3);
    for (uint64_t i = 0; i < p.rows; i++) {
        offsets[i + 1] = i + 1;
        labels[i] = i % 6 == 0 ? 0 : i % 2 ? 2 : 1;
    }
    xsm_dataset *all = p.data;
    p.data = test_relabel(&p, false, 3, offsets, labels);
    assert_true(test_every_allocation(calibrate_both, &p) > 3);
    test_every_poll(calibrate_both, &p, 1, 2, "calibrating");
    xsm_dataset_free(p.data);
    p.data = all;
}
