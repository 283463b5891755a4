/*
 * Calibrations of models whose classes are divided among ranks: what is fitted, evaluated, predicted and saved has the
 * bits of one process, on any number of ranks and threads.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "base/comm.h"
#include "comm.h"
#include "model/divided.h"

#include <xsoftmax/calibrate.h>
#include <xsoftmax/metrics.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Five class runs, the last of a few classes; rows of several jobs, the last not full. */
enum { ROWS = 140, FEATURES = 9, CLASSES = 4 * XSMI_RUN_CLASSES + 11, SOME = 9, FEW = 20, TOP = 4, METHODS = 2 };

typedef struct results {
    xsm_calibrate_result fitted[METHODS], sample[METHODS];
    xsm_calibration kept[METHODS], loaded[METHODS], removed;
    double log_loss[2 * METHODS + 1], error[2 * METHODS + 1], calibration_error[2 * METHODS + 1];
    uint64_t unseen;
    uint32_t classes[METHODS][SOME * TOP], lengths[METHODS][SOME];
    float scores[METHODS][SOME * TOP], chosen[METHODS][SOME];
    double probabilities[METHODS][SOME * TOP];
} results;

typedef struct work {
    const xsm_dataset *rows;
    char model[256], saved[256];
    results *of; /* [ranks] */

} work;

static const int32_t methods[METHODS] = {XSM_CALIBRATION_TEMPERATURE, XSM_CALIBRATION_LABELS};

static xsm_status evaluate(const xsm_model *m, const xsm_dataset *rows, size_t number, results *to, xsm_error *err)
{
    xsm_metrics metrics = XSM_METRICS_INIT;
    XSMI_TRY(xsm_evaluate(NULL, m, rows, NULL, &metrics, err));
    to->log_loss[number] = metrics.log_loss;
    to->error[number] = metrics.error;
    to->calibration_error[number] = metrics.calibration_error;
    to->unseen += metrics.unseen_labels;
    return XSM_OK;
}

/* The best classes above a probability that some of them have. */
static xsm_status predict(const xsm_model *m, const xsm_dataset *rows, size_t number, results *to, xsm_error *err)
{
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = TOP;
    xsm_predictor *p = NULL;
    XSMI_TRY(xsm_predictor_new(m, &options, &p, err));
    const xsm_batch batch = xsm_batch_range(rows, 0, SOME);
    xsm_prediction wanted = XSM_PREDICTION_INIT;
    wanted.batch = &batch;
    wanted.classes = to->classes[number];
    wanted.scores = to->scores[number];
    wanted.lengths = to->lengths[number];
    wanted.probabilities = to->probabilities[number];
    xsm_status status = xsm_predictor_run(p, &wanted, err);
    wanted.least_probability = to->probabilities[number][1];
    status = status == XSM_OK ? xsm_predictor_run(p, &wanted, err) : status;
    xsm_predictor_free(p);
    uint32_t classes[SOME];
    for (uint32_t i = 0; i < SOME; i++) {
        classes[i] = i * (CLASSES / SOME);
    }
    return status == XSM_OK ? xsm_model_scores(m, &batch, classes, 1, to->chosen[number], err) : status;
}

/* Calibrates by a method, and saves, loads and saves what comes of it. */
static xsm_status calibrate(test_rank *r, xsm_model *m, size_t number, results *to)
{
    const work *w = r->user;
    xsm_error *err = &r->err;
    char path[300], again[310];
    snprintf(path, sizeof path, "%s%zu", w->saved, number);
    snprintf(again, sizeof again, "%s-again", path);
    xsm_calibrate_options options = XSM_CALIBRATE_OPTIONS_INIT;
    options.method = methods[number];
    options.rows = ROWS - 97;
    to->sample[number] = (xsm_calibrate_result)XSM_CALIBRATE_RESULT_INIT;
    to->fitted[number] = (xsm_calibrate_result)XSM_CALIBRATE_RESULT_INIT;
    XSMI_TRY(xsm_model_calibrate(NULL, m, w->rows, &options, &to->sample[number], err));
    options.rows = 0;
    XSMI_TRY(xsm_model_calibrate(r->context, m, w->rows, &options, &to->fitted[number], err));
    to->kept[number] = to->loaded[number] = (xsm_calibration)XSM_CALIBRATION_INIT;
    XSMI_TRY(xsm_model_get_calibration(m, &to->kept[number], err));
    XSMI_TRY(evaluate(m, w->rows, 2 * number + 1, to, err));
    XSMI_TRY(predict(m, w->rows, number, to, err));
    XSMI_TRY(xsm_model_save(m, path, err));
    xsm_model *loaded = NULL;
    XSMI_TRY(xsm_model_load(r->context, path, NULL, &loaded, err));
    xsm_status status = xsm_model_get_calibration(loaded, &to->loaded[number], err);
    status = status == XSM_OK ? evaluate(loaded, w->rows, 2 * number + 2, to, err) : status;
    status = status == XSM_OK ? xsm_model_save(loaded, again, err) : status;
    xsm_model_free(loaded);
    return status;
}

static xsm_status load_and_use(test_rank *r)
{
    const work *w = r->user;
    results *to = &w->of[r->rank];
    memset(to, 0, sizeof *to);
    xsm_model *m = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->model, NULL, &m, &r->err));
    xsm_status status = evaluate(m, w->rows, 0, to, &r->err);
    for (size_t i = 0; i < METHODS && status == XSM_OK; i++) {
        status = calibrate(r, m, i, to);
    }
    to->removed = (xsm_calibration)XSM_CALIBRATION_INIT;
    status = status == XSM_OK ? xsm_model_set_calibration(m, NULL, &r->err) : status;
    status = status == XSM_OK ? xsm_model_get_calibration(m, &to->removed, &r->err) : status;
    xsm_metrics metrics = XSM_METRICS_INIT;
    status = status == XSM_OK ? xsm_evaluate(NULL, m, w->rows, NULL, &metrics, &r->err) : status;
    if (status == XSM_OK && metrics.log_loss != to->log_loss[0]) {
        status = xsmi_fail(&r->err, XSM_ERROR_INTERNAL, "the log-loss is %a again, and was %a", metrics.log_loss,
                           to->log_loss[0]);
    }
    xsm_model_free(m);
    return status;
}

/* One to three labels a row, of which some are beyond the model's classes; some rows have none that is known. */
static xsm_dataset *relabel(const test_problem *p, bool sparse)
{
    uint64_t offsets[ROWS + 1] = {0};
    uint32_t labels[3 * ROWS];
    uint64_t count = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint32_t first = p->labels[i], second = (first + 5000 + i) % CLASSES;
        const bool has = i % 29 != 3, both = i % 5 == 0;
        if (both && second < first) {
            labels[count++] = second;
        }
        if (has) {
            labels[count++] = first;
        }
        if (both && second > first) {
            labels[count++] = second;
        }
        if (i % 11 == 4 || i % 29 == 3) {
            labels[count++] = CLASSES + i % 3;
        }
        offsets[i + 1] = count;
    }
    return test_relabel(p, sparse, CLASSES + 3, offsets, labels);
}

/* A model that is right more often than by chance, and not always. */
static xsm_model *model_new(const test_problem *p, bool bias, int32_t layout, uint32_t hidden)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_model *m = NULL;
    layer.bias = bias;
    layer.activation = XSM_ACTIVATION_TANH;
    layer.scale = 1;
    if (hidden == 0) {
        m = test_model(NULL, p, bias, layout, 0.5, 6);
    } else {
        assert_ok(xsm_model_new_embedding(NULL, FEATURES, hidden, CLASSES, &layer, &m, &err), err);
    }
    xsm_parameters w = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &w, &err), err);
    for (uint32_t i = 0; i < p->rows; i++) {
        const xsmi_features x = xsmi_dataset_features(p->data, i);
        float vector[64];
        const xsmi_features h = xsmi_model_forward(m, &x, vector);
        const uint32_t k = i % 4 == 1 ? (i * 331) % CLASSES : p->labels[i];
        for (size_t j = 0; j < h.count; j++) {
            const size_t f = h.index ? h.index[j] : j;
            w.weight[k * w.class_step + f * w.feature_step] += 0.7f * h.values[j];
        }
    }
    return m;
}

typedef struct files {
    unsigned char *bytes[METHODS];
    size_t size[METHODS];
} files;

/* Both files of each method are those of one process; the first time they are read. */
static void compare_files(const work *w, files *f)
{
    for (size_t i = 0; i < METHODS; i++) {
        char path[300], again[310];
        snprintf(path, sizeof path, "%s%zu", w->saved, i);
        snprintf(again, sizeof again, "%s-again", path);
        if (!f->bytes[i]) {
            f->bytes[i] = test_read(path, &f->size[i]);
        }
        test_assert_bytes(path, f->bytes[i], f->size[i]);
        test_assert_bytes(again, f->bytes[i], f->size[i]);
        remove(path);
        remove(again);
    }
}

static work work_new(const xsm_dataset *rows, const xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    work w = {.rows = rows};
    snprintf(w.model, sizeof w.model, "%s", test_path("calibrated"));
    snprintf(w.saved, sizeof w.saved, "%s", test_path("saved"));
    assert_ok(xsm_model_save(m, w.model, &err), err);
    return w;
}

/* On 1, 2, 3 and 5 ranks of one and two threads, or on the latter two numbers only. */
static void try_bits(bool sparse, bool bias, int32_t layout, uint32_t hidden, int32_t correction, bool all)
{
    static results one, many[TEST_RANKS];
    static const uint32_t counts[] = {1, 2, 3, 5};
    test_rank ranks[TEST_RANKS];
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 5);
    xsm_dataset *rows = relabel(&p, sparse);
    xsm_model *m = model_new(&p, bias, layout, hidden);
    test_correct(m, &p, correction);
    work w = work_new(rows, m);
    xsm_model_free(m);
    files f = {{NULL}, {0}};
    w.of = &one;
    test_run_ranks(1, 1, 0, load_and_use, &w, ranks);
    assert_ok(ranks[0].status, ranks[0].err);
    compare_files(&w, &f);
    assert_true(one.unseen > 0);
    for (size_t i = 0; i < METHODS; i++) {
        assert_int_equal(one.kept[i].method, methods[i]);
        assert_true(one.kept[i].scale == one.fitted[i].scale && one.kept[i].shift == one.fitted[i].shift);
        assert_memory_equal(&one.kept[i], &one.loaded[i], sizeof one.kept[i]);
        assert_true(one.kept[i].scale != 1 && one.sample[i].scale != one.fitted[i].scale);
        assert_true(one.log_loss[2 * i + 1] == one.log_loss[2 * i + 2]);
        assert_true(one.fitted[i].log_loss < one.fitted[i].log_loss_before);
        assert_in_range(one.fitted[i].rows, ROWS - ROWS / 29 - 1, ROWS - 1);
    }
    assert_true(one.log_loss[1] < one.log_loss[0]);
    assert_true(one.calibration_error[1] != one.calibration_error[0]);
    assert_int_equal(one.removed.method, XSM_CALIBRATION_NONE);
    for (size_t c = all ? 0 : 2; c < sizeof counts / sizeof *counts; c++) {
        for (uint32_t threads = all ? 1 : 1 + c % 2; threads <= (all ? 2 : 1 + c % 2); threads++) {
            w.of = many;
            test_run_ranks(counts[c], threads, 0, load_and_use, &w, ranks);
            for (uint32_t r = 0; r < counts[c]; r++) {
                assert_ok(ranks[r].status, ranks[r].err);
                assert_memory_equal(&many[r].fitted, &one.fitted, sizeof one.fitted);
                assert_memory_equal(&many[r], &one, sizeof one);
            }
            compare_files(&w, &f);
        }
    }
    for (size_t i = 0; i < METHODS; i++) {
        free(f.bytes[i]);
    }
    xsm_dataset_free(rows);
    test_problem_free(&p);
}

TEST(test_linear)
{
    try_bits(false, true, XSM_LAYOUT_CLASS_MAJOR, 0, XSM_CORRECTION_NONE, true);
    try_bits(true, false, XSM_LAYOUT_CLASS_MAJOR, 0, XSM_CORRECTION_NONE, false);
    try_bits(true, true, XSM_LAYOUT_FEATURE_MAJOR, 0, XSM_CORRECTION_NONE, true);
}

TEST(test_others)
{
    try_bits(true, true, XSM_LAYOUT_CLASS_MAJOR, 7, XSM_CORRECTION_NONE, false);
    try_bits(false, false, XSM_LAYOUT_CLASS_MAJOR, 0, XSM_CORRECTION_CLASSES, false);
    try_bits(true, true, XSM_LAYOUT_CLASS_MAJOR, 0, XSM_CORRECTION_TREE, false);
    try_bits(true, true, XSM_LAYOUT_CLASS_MAJOR, 0, XSM_CORRECTION_PAIRS, false);
}

/* -- bytes and failures -------------------------------------------------------------------------------------------- */

static xsm_status calibrate_once(test_rank *r)
{
    const work *w = r->user;
    results *to = &w->of[r->rank];
    memset(to, 0, sizeof *to);
    xsm_model *m = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->model, NULL, &m, &r->err));
    xsm_status status = XSM_OK;
    for (size_t i = 0; i < METHODS && status == XSM_OK; i++) {
        const uint64_t before = xsmi_sent_by(r->context).bytes;
        xsm_calibrate_options options = XSM_CALIBRATE_OPTIONS_INIT;
        options.method = methods[i];
        to->fitted[i] = (xsm_calibrate_result)XSM_CALIBRATE_RESULT_INIT;
        status = xsm_model_calibrate(NULL, m, w->rows, &options, &to->fitted[i], &r->err);
        to->sample[i].rows = xsmi_sent_by(r->context).bytes - before;
    }
    xsm_model_free(m);
    return status;
}

/* Of each row and pass 12 bytes for each of nine factors and class run, or 8 for each of six sums; 4 for each label
 * that is known; and agreements: 4 bytes each, of which a calibration has two and a pass two for so few rows; 32 to
 * compare the rows, and 8, of rank 0 16, to compare the settings. */
TEST(test_sent)
{
    results of[3];
    test_rank ranks[TEST_RANKS];
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, false, 5);
    xsm_model *m = model_new(&p, true, XSM_LAYOUT_CLASS_MAJOR, 0);
    work w = work_new(p.data, m);
    w.of = of;
    test_run_ranks(3, 1, 0, calibrate_once, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
        const uint64_t runs = r == 0 ? 1 : 2, of_row[METHODS] = {9 * 12 * runs, 6 * 8 * runs};
        for (size_t i = 0; i < METHODS; i++) {
            const uint64_t of_pass = 8 + ROWS * (of_row[i] + 4), sent = of[r].sample[i].rows - (r == 0 ? 56 : 48);
            assert_int_equal(sent % of_pass, 0);
            assert_true(sent / of_pass >= of[r].fitted[i].passes && of[r].fitted[i].passes > 2);
        }
    }
    xsm_model_free(m);
    test_problem_free(&p);
}

static void assert_fail_alike(work *w, xsm_status expected)
{
    test_rank ranks[TEST_RANKS];
    results of[3];
    w->of = of;
    test_run_ranks(1, 1, 0, calibrate_once, w, ranks);
    assert_fails(ranks[0].status, expected, ranks[0].err);
    const xsm_error wanted = ranks[0].err;
    test_run_ranks(3, 2, 0, calibrate_once, w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_fails(ranks[r].status, expected, ranks[r].err);
        assert_non_null(strstr(ranks[r].err.message, wanted.message)); /* behind which rank it was */
    }
}

TEST_OF_FULL(test_failures)
{
    static results many[3];
    test_rank ranks[TEST_RANKS];
    test_problem p = test_problem_new(FEW, FEATURES, CLASSES, false, 5);
    xsm_model *m = model_new(&p, true, XSM_LAYOUT_CLASS_MAJOR, 0);
    work w = work_new(p.data, m);
    /* The group fails at each of its calls in turn. */
    uint64_t at = 1;
    w.of = many;
    do {
        test_run_ranks(3, 1, at++, load_and_use, &w, ranks);
        for (uint32_t r = 1; r < 3; r++) {
            assert_int_equal(ranks[r].status, ranks[0].status);
        }
        assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_ERROR_COMM);
    } while (ranks[0].status != XSM_OK);
    assert_true(at > 60);
    files f = {{NULL}, {0}};
    compare_files(&w, &f);
    for (size_t i = 0; i < METHODS; i++) {
        free(f.bytes[i]);
    }
    /* Numbers of the last rank whose scores are not finite: the first row, of the labels' classes or not. */
    uint64_t offsets[FEW + 1] = {0};
    uint32_t unknown[FEW];
    for (uint32_t i = 0; i < FEW; i++) {
        offsets[i + 1] = i + 1;
        unknown[i] = CLASSES;
    }
    xsm_dataset *strange = test_relabel(&p, false, CLASSES + 1, offsets, unknown);
    w.rows = strange;
    assert_fail_alike(&w, XSM_ERROR_DATA);
    w.rows = p.data;
    xsm_error err = XSM_ERROR_INIT;
    m->w.bias[CLASSES - 3] = 3e38f;
    for (uint32_t j = 0; j < FEATURES; j++) {
        m->w.weight[(CLASSES - 3) * m->w.stride + j] = p.x[17 * FEATURES + j] > 0 ? 3e38f : -3e38f;
    }
    assert_ok(xsm_model_save(m, w.model, &err), err);
    assert_fail_alike(&w, XSM_ERROR_DIVERGED);
    xsm_dataset_free(strange);
    xsm_model_free(m);
    test_problem_free(&p);
}
