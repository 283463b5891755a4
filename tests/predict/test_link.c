/*
 * The link of a model: what makes probabilities of scores, who sets it, and what keeps it.
 */
#include "base/system.h"
#include "training.h"

#include <xsoftmax/calibrate.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 60, FEATURES = 5, CLASSES = 6 };

static int32_t link_of(const xsm_model *m)
{
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    assert_int_equal(xsm_model_get_info(m, &info, NULL), XSM_OK);
    return info.link;
}

/* Rows of one or two labels. */
static xsm_dataset *labelled(const test_problem *p)
{
    uint64_t offsets[ROWS + 1] = {0};
    uint32_t labels[2 * ROWS];
    for (uint64_t i = 0; i < ROWS; i++) {
        offsets[i + 1] = offsets[i];
        labels[offsets[i + 1]++] = p->labels[i];
        if (i % 2) {
            labels[offsets[i + 1]++] = (p->labels[i] + 1 + (uint32_t)i % 4) % CLASSES;
        }
    }
    return test_relabel(p, true, CLASSES, offsets, labels);
}

/* Probabilities and the log-loss are those of each class by itself, computed here of the scores. */
static void assert_sigmoid(const xsm_model *m, const test_problem *p, const xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    uint32_t classes[ROWS * CLASSES], lengths[ROWS];
    double probabilities[ROWS * CLASSES], loss = 0;
    options.top = CLASSES;
    MADE(xsm_predictor, predictor, xsm_predictor_new(m, &options, &predictor, &err));
    const xsm_batch batch = xsm_batch_range(data, 0, ROWS);
    xsm_prediction prediction = XSM_PREDICTION_INIT;
    prediction.batch = &batch;
    prediction.classes = classes;
    prediction.probabilities = probabilities;
    assert_ok(xsm_predictor_run(predictor, &prediction, &err), err);
    for (uint64_t i = 0; i < ROWS; i++) {
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(data, i, &row, &err), err);
        for (uint32_t j = 0; j < CLASSES; j++) {
            const uint32_t k = classes[i * CLASSES + j];
            const double z = test_score(m, k, p->x + i * FEATURES), own = 1 / (1 + exp(-z));
            const bool is = row.labels[0] == k || (row.label_count > 1 && row.labels[1] == k);
            assert_true(fabs(probabilities[i * CLASSES + j] - own) <= 1e-5);
            loss -= log(is ? own : 1 - own);
        }
    }
    xsm_metrics metrics = XSM_METRICS_INIT;
    assert_ok(xsm_evaluate(NULL, m, data, NULL, &metrics, &err), err);
    assert_true(fabs(metrics.log_loss - loss / ROWS) <= 1e-4 * loss / ROWS);
    prediction.probabilities = NULL; /* a threshold alone */
    prediction.lengths = lengths;
    prediction.least_probability = 0.5;
    assert_ok(xsm_predictor_run(predictor, &prediction, &err), err);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint32_t above = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            above += test_score(m, k, p->x + i * FEATURES) >= 0;
        }
        assert_int_equal(lengths[i], above);
    }
}

/* Trains by a trainer, by all rows at once, or by a loop of the host. */
enum { BY_TRAINER, BY_FIT, BY_LOOP, WAYS };
static void train(xsm_model *m, const xsm_dataset *data, const char *name, int way)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_estimator, e) = test_estimator(NULL, name, "");
    if (way == BY_FIT) {
        xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
        options.iterations = 5;
        assert_ok(xsm_fit_full_batch(NULL, m, data, e, &options, NULL, &err), err);
    } else {
        xsm_trainer *t = NULL;
        xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
        options.epochs = 2;
        options.eta = 1;
        MADE(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
        if (way == BY_TRAINER) {
            assert_ok(xsm_trainer_new(NULL, m, data, e, o, &options, &t, &err), err);
            assert_ok(xsm_trainer_run(t, &err), err);
            xsm_trainer_free(t);
        } else {
            HELD(xsm_gradient, g) = test_gradient(NULL);
            const xsm_batch batch = xsm_batch_range(data, 0, 8);
            assert_ok(xsm_estimator_bind(e, m, data, &err), err);
            assert_ok(xsm_optimizer_bind(o, m, &err), err);
            test_take_step(e, o, g, &batch, 0.5);
        }
    }
}

TEST(training_sets_it)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    HELD(xsm_dataset, data) = labelled(&p);
    for (int way = 0; way < WAYS; way++) {
        if (way == BY_FIT && !XSMI_HAVE_LBFGS) {
            continue;
        }
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
        assert_int_equal(link_of(m), XSM_LINK_SOFTMAX);
        train(m, data, "one-vs-all", way);
        assert_int_equal(link_of(m), XSM_LINK_SIGMOID);
        assert_sigmoid(m, &p, data);
        train(m, data, "softmax", way);
        assert_int_equal(link_of(m), XSM_LINK_SOFTMAX);
        xsm_metrics metrics = XSM_METRICS_INIT;
        assert_ok(xsm_evaluate(NULL, m, data, NULL, &metrics, &err), err);
        assert_true(metrics.log_loss < 2.5); /* of 6 classes, by the softmax */
    }
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
    train(m, data, "one-vs-all-sampled", BY_TRAINER);
    assert_sigmoid(m, &p, data);
}

static xsm_calibration calibration_of(const xsm_model *m)
{
    xsm_calibration c = XSM_CALIBRATION_INIT;
    assert_int_equal(xsm_model_get_calibration(m, &c, NULL), XSM_OK);
    return c;
}

/* A host sets it; files, copies and growth keep it, and a calibration comes before it. */
TEST(models_keep_it)
{
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, true, 4);
    xsm_dataset *data = labelled(&p);
    xsm_model *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 5), *other = NULL;
    assert_ok(xsm_model_set_link(m, XSM_LINK_SIGMOID, &err), err);
    assert_sigmoid(m, &p, data);
    assert_int_equal(calibration_of(m).method, XSM_CALIBRATION_NONE);
    assert_ok(xsm_model_save(m, "link.model", NULL, &err), err);
    assert_ok(xsm_model_load(NULL, "link.model", NULL, NULL, &other, &err), err);
    assert_int_equal(link_of(other), XSM_LINK_SIGMOID);
    assert_sigmoid(other, &p, data);
    xsm_model_free(other);
    assert_ok(xsm_model_prune(m, NULL, &other, &err), err);
    assert_int_equal(link_of(other), XSM_LINK_SIGMOID);
    xsm_model_free(other);
    assert_ok(xsm_model_convert(m, STRUCT(xsm_convert_options, .dtype = XSM_DTYPE_BFLOAT16), &other, &err), err);
    assert_int_equal(link_of(other), XSM_LINK_SIGMOID);
    xsm_model_free(other);
    assert_ok(xsm_model_grow(m, FEATURES + 1, NULL, &err), err);
    assert_int_equal(link_of(m), XSM_LINK_SIGMOID);
    xsm_model_free(m);

    m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 5);
    train(m, data, "one-vs-all", BY_TRAINER);
    xsm_calibrate_result result = XSM_CALIBRATE_RESULT_INIT;
    assert_ok(xsm_model_calibrate(NULL, m, p.data, NULL, &result, &err), err); /* rows of one label */
    assert_int_equal(result.method, XSM_CALIBRATION_LABELS);
    assert_ok(xsm_model_save(m, "link.model", NULL, &err), err);
    assert_ok(xsm_model_load(NULL, "link.model", NULL, NULL, &other, &err), err);
    assert_true(calibration_of(other).scale == calibration_of(m).scale);
    assert_ok(xsm_model_set_calibration(other, NULL, &err), err);
    assert_sigmoid(other, &p, data);
    xsm_model_free(other);
    xsm_model_free(m);
    xsm_dataset_free(data);
    test_problem_free(&p);
    (void)remove("link.model");
}

TEST(what_has_none_refuses)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 6);
    HELD(xsm_dataset, data) = labelled(&p);
    xsm_label_tree_options options = XSM_LABEL_TREE_OPTIONS_INIT;
    HELD(xsm_model, tree) = NULL;
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 5);
    assert_fails(xsm_model_set_link(m, 2, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_model_set_link(NULL, 1, &err), XSM_ERROR_ARGUMENT, err);
    assert_ok(xsm_fit_label_tree(NULL, data, &options, &tree, NULL, &err), err);
    assert_fails(xsm_model_set_link(tree, XSM_LINK_SIGMOID, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_int_equal(link_of(tree), XSM_LINK_SIGMOID); /* that of the default, of several labels */
}

/* Sums of exponentials in float32 are rounded, also below the largest of them: a probability near 1 is not above it. */
TEST(probabilities_are_at_most_one)
{
    enum { MANY = 3000, FEW = 3 };
    static uint32_t classes[MANY * FEW];
    static double probabilities[MANY * FEW];
    size_t near = 0;
    HELD_STRUCT(test_problem, p) = test_problem_new(MANY, FEATURES, 12, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 9, 4);
    const xsm_batch batch = xsm_batch_range(p.data, 0, MANY);
    for (int method = 0; method < 2; method++) {
        xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
        xsm_calibration calibration = XSM_CALIBRATION_INIT;
        options.top = FEW;
        calibration.method = XSM_CALIBRATION_TEMPERATURE;
        calibration.scale = 1.1;
        assert_ok(xsm_model_set_calibration(m, method ? &calibration : NULL, &err), err);
        MADE(xsm_predictor, predictor, xsm_predictor_new(m, &options, &predictor, &err));
        assert_ok(test_predict(predictor, &batch, classes, NULL, probabilities, &err), err);
        for (size_t i = 0; i < MANY * FEW; i++) {
            assert_true(probabilities[i] >= 0 && probabilities[i] <= 1);
            near += probabilities[i] > 1 - 1e-5;
        }
    }
    assert_true(near > 100);
}
