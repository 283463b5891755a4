/*
 * Every number that a caller hands in, by functions, structs and arrays of the core and of ext/: NaN is refused
 * everywhere, and infinity wherever it means nothing, with a status and a message; a sound number in its place is
 * accepted. Rates, weights and thresholds that are no numbers would else train, rank and count in silence.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include <xsoftmax.h>
#include <xsoftmax/choose.h>
#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/encoder.h>
#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>
#include <xsoftmax/search.h>
#include <xsoftmax/tune.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 40, FEATURES = 4, CLASSES = 5 };

/* What calls are about, made anew for each. */
typedef struct things {
    test_problem dense, sparse;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_gradient *gradient;
    xsm_batch batch; /* of one row of the dense ones */
} things;

static things things_new(void)
{
    xsm_error err = XSM_ERROR_INIT;
    things t = {.dense = test_problem_new(ROWS, FEATURES, CLASSES, false, 1),
                .sparse = test_problem_new(ROWS, FEATURES, CLASSES, true, 2)};
    t.model = test_model(NULL, &t.dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    t.estimator = test_estimator(NULL, "softmax", "");
    assert_ok(xsm_estimator_bind(t.estimator, t.model, t.dense.data, &err), err);
    t.optimizer = test_optimizer(NULL, t.model);
    t.gradient = test_gradient(NULL);
    t.batch = xsm_batch_range(t.dense.data, 0, 1);
    return t;
}

static void things_free(things *t)
{
    xsm_gradient_free(t->gradient);
    xsm_optimizer_free(t->optimizer);
    xsm_estimator_free(t->estimator);
    xsm_model_free(t->model);
    test_problem_free(&t->sparse);
    test_problem_free(&t->dense);
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

static float values[FEATURES] = {1, 2, 3, 4};
static const uint32_t index_of[FEATURES] = {0, 1, 2, 3}, labels_of[2] = {0, 1};
static const uint64_t offsets_of[2] = {0, FEATURES}, two_labels[2] = {0, 2};

/* One row, dense or sparse, whose value, weight or second label's weight is x; 0: of no consequence. */
static xsm_status make_row(bool sparse, float value, float weight, float label_weight, xsm_error *err)
{
    float own[FEATURES] = {value, 2, 3, 4}, label_weights[2] = {1, label_weight};
    xsm_labels labels = XSM_LABELS_INIT;
    labels.classes = 2;
    labels.offsets = two_labels;
    labels.labels = labels_of;
    labels.weights = label_weights;
    xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
    dense.values = own;
    dense.rows = 1;
    dense.features = dense.stride = FEATURES;
    dense.labels = &labels;
    dense.weights = &weight;
    xsm_csr_rows csr = XSM_CSR_ROWS_INIT;
    csr.values = own;
    csr.index = index_of;
    csr.offsets = offsets_of;
    csr.rows = 1;
    csr.features = FEATURES;
    csr.labels = &labels;
    csr.weights = &weight;
    HELD(xsm_dataset, d) = NULL;
    const xsm_status status =
        sparse ? xsm_dataset_from_csr(NULL, &csr, &d, err) : xsm_dataset_from_dense(NULL, &dense, &d, err);
    return status;
}

#define TRY(name) static xsm_status try_##name(things *t __attribute__((unused)), double x, xsm_error *err)

TRY(dense_values)
{
    return make_row(false, (float)x, 1, 1, err);
}

TRY(dense_weights)
{
    return make_row(false, 1, (float)x, 1, err);
}

TRY(label_weights)
{
    return make_row(false, 1, 1, (float)x, err);
}

TRY(csr_values)
{
    return make_row(true, (float)x, 1, 1, err);
}

TRY(csr_weights)
{
    return make_row(true, 1, (float)x, 1, err);
}

TRY(csr_label_weights)
{
    return make_row(true, 1, 1, (float)x, err);
}

TRY(split)
{
    HELD(xsm_dataset, part) = NULL;
    HELD(xsm_dataset, rest) = NULL;
    return xsm_dataset_split(t->dense.data, x / 2, 1, &part, &rest, err);
}

TRY(row_weights)
{
    float weights[ROWS];
    xsm_dataset_weights w = XSM_DATASET_WEIGHTS_INIT;
    for (int i = 0; i < ROWS; i++) {
        weights[i] = i == 7 ? (float)x : 1;
    }
    w.rows = weights;
    w.row_count = ROWS;
    return xsm_dataset_set_weights(t->dense.data, &w, err);
}

TRY(weights_of_labels)
{
    float weights[ROWS];
    xsm_dataset_weights w = XSM_DATASET_WEIGHTS_INIT;
    for (int i = 0; i < ROWS; i++) {
        weights[i] = i == 7 ? (float)x : 1;
    }
    w.labels = weights;
    w.label_count = ROWS;
    return xsm_dataset_set_weights(t->dense.data, &w, err);
}

TRY(class_weights)
{
    float weights[CLASSES] = {1, (float)x, 1, 1, 1};
    xsm_class_weights w = XSM_CLASS_WEIGHTS_INIT;
    w.method = XSM_CLASS_WEIGHTS_GIVEN;
    w.weights = weights;
    w.count = CLASSES;
    return xsm_dataset_weigh_classes(t->dense.data, &w, err);
}

TRY(class_propensity_a)
{
    xsm_class_weights w = XSM_CLASS_WEIGHTS_INIT;
    w.method = XSM_CLASS_WEIGHTS_PROPENSITY;
    w.propensity_a = x;
    return xsm_dataset_weigh_classes(t->dense.data, &w, err);
}

TRY(class_propensity_b)
{
    xsm_class_weights w = XSM_CLASS_WEIGHTS_INIT;
    w.method = XSM_CLASS_WEIGHTS_PROPENSITY;
    w.propensity_b = x;
    return xsm_dataset_weigh_classes(t->dense.data, &w, err);
}

TRY(encoded_pairs)
{
    HELD(xsm_encoder, e) = NULL;
    xsm_batch batch = {.size = sizeof batch};
    const uint32_t features[1] = {2};
    const float number[1] = {(float)x};
    xsm_encoder_options o = XSM_ENCODER_OPTIONS_INIT;
    o.index_base = XSM_INDEX_BASE_ZERO;
    xsm_status status = xsm_encoder_new(t->model, &o, &e, err);
    status = status == XSM_OK ? xsm_encoder_encode_pairs(e, features, number, 1, &batch, err) : status;
    return status;
}

/* -- steps --------------------------------------------------------------------------------------------------------- */

TRY(gradient_eta)
{
    return xsm_estimator_gradient(t->estimator, &t->batch, x, t->gradient, err);
}

TRY(gradient_input_eta)
{
    float input[FEATURES];
    return xsm_estimator_gradient_input(t->estimator, &t->batch, x, t->gradient, input, FEATURES, err);
}

TRY(apply_eta)
{
    assert_int_equal(xsm_estimator_gradient(t->estimator, &t->batch, 1, t->gradient, NULL), XSM_OK);
    return xsm_optimizer_apply(t->optimizer, &t->batch, t->gradient, x, err);
}

/* A step on a row that the host brings. */
static xsm_status step_on(things *t, const float *row, const float *weight, const float *label_weight, xsm_error *err)
{
    xsm_batch batch = xsm_batch_values(row, 1, FEATURES, FEATURES);
    batch.labels = labels_of;
    batch.weights = weight;
    batch.label_weights = label_weight;
    HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "");
    assert_int_equal(xsm_estimator_bind_stream(e, t->model, NULL, NULL), XSM_OK);
    return xsm_estimator_gradient(e, &batch, 1, t->gradient, err);
}

TRY(batch_values)
{
    const float row[FEATURES] = {1, (float)x, 0, 0};
    return step_on(t, row, NULL, NULL, err);
}

TRY(batch_weights)
{
    const float weight[1] = {(float)x};
    return step_on(t, values, weight, NULL, err);
}

TRY(batch_label_weights)
{
    const float weight[1] = {(float)x};
    return step_on(t, values, NULL, weight, err);
}

TRY(trainer_eta)
{
    HELD(xsm_trainer, trainer) = NULL;
    xsm_trainer_options o = XSM_TRAINER_OPTIONS_INIT;
    o.eta = x;
    const xsm_status status =
        xsm_trainer_new(NULL, t->model, t->dense.data, t->estimator, t->optimizer, &o, &trainer, err);
    return status;
}

TRY(trainer_factor)
{
    HELD(xsm_trainer, trainer) = NULL;
    xsm_trainer_options o = XSM_TRAINER_OPTIONS_INIT;
    o.schedule = XSM_SCHEDULE_STEP;
    o.factor = x;
    const xsm_status status =
        xsm_trainer_new(NULL, t->model, t->dense.data, t->estimator, t->optimizer, &o, &trainer, err);
    return status;
}

TRY(choose_ridge)
{
    HELD(xsm_choice, choice) = NULL;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.keep_ridge = 1;
    o.ridge = x;
    return xsm_choose(NULL, t->sparse.data, &o, &choice, err);
}

TRY(choose_seconds)
{
    HELD(xsm_choice, choice) = NULL;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.seconds = x;
    return xsm_choose(NULL, t->sparse.data, &o, &choice, err);
}

TRY(choose_eta)
{
    HELD(xsm_choice, choice) = NULL;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    run.eta = x;
    o.run = &run;
    return xsm_choose(NULL, t->sparse.data, &o, &choice, err);
}

TRY(choose_factor)
{
    HELD(xsm_choice, choice) = NULL;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    run.schedule = XSM_SCHEDULE_STEP;
    run.factor = x;
    o.run = &run;
    o.keep_schedule = 1;
    return xsm_choose(NULL, t->sparse.data, &o, &choice, err);
}

TRY(tune_factor)
{
    HELD(xsm_tuning, tuning) = NULL;
    xsm_tune_options o = XSM_TUNE_OPTIONS_INIT;
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    HELD(xsm_model, m) = NULL;
    run.schedule = XSM_SCHEDULE_STEP;
    run.factor = x;
    o.run = &run;
    assert_int_equal(xsm_model_new_linear(NULL, FEATURES, CLASSES, NULL, &m, NULL), XSM_OK);
    return xsm_tune_eta(NULL, m, t->dense.data, t->estimator, t->optimizer, &o, &tuning, err);
}

#ifdef HAVE_LBFGS
TRY(fit_tolerance)
{
    xsm_fit_options o = XSM_FIT_OPTIONS_INIT;
    o.tolerance = x;
    o.iterations = 2;
    return xsm_fit_full_batch(NULL, t->model, t->dense.data, t->estimator, &o, NULL, err);
}
#endif

static xsm_status fit_tree(things *t, const xsm_label_tree_options *o, xsm_error *err)
{
    HELD(xsm_model, m) = NULL;
    return xsm_fit_label_tree(NULL, t->sparse.data, o, &m, NULL, err);
}

TRY(tree_cost)
{
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    o.cost = x;
    return fit_tree(t, &o, err);
}

TRY(tree_epsilon)
{
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    o.epsilon = x;
    return fit_tree(t, &o, err);
}

TRY(tree_threshold)
{
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    o.threshold = x;
    return fit_tree(t, &o, err);
}

TRY(tree_checkpoint_every)
{
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    o.checkpoint_every = x;
    return fit_tree(t, &o, err);
}

TRY(pairs)
{
    return xsm_model_add_pairs(t->model, t->sparse.data, x, err);
}

/* -- models, predictions, measures --------------------------------------------------------------------------------- */

TRY(embedding_scale)
{
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    HELD(xsm_model, m) = NULL;
    o.scale = x;
    return xsm_model_new_embedding(NULL, FEATURES, 3, CLASSES, &o, &m, err);
}

TRY(calibration_scale)
{
    xsm_calibration c = XSM_CALIBRATION_INIT;
    c.method = XSM_CALIBRATION_TEMPERATURE;
    c.scale = x;
    return xsm_model_set_calibration(t->model, &c, err);
}

TRY(calibration_shift)
{
    xsm_calibration c = XSM_CALIBRATION_INIT;
    c.method = XSM_CALIBRATION_LABELS;
    c.shift = x;
    return xsm_model_set_calibration(t->model, &c, err);
}

TRY(prune_below)
{
    xsm_prune_options o = XSM_PRUNE_OPTIONS_INIT;
    HELD(xsm_model, m) = NULL;
    o.below = x;
    return xsm_model_prune(t->model, &o, &m, err);
}

static xsm_status predict(things *t, const xsm_batch *batch, float least_score, double least_probability,
                          xsm_error *err)
{
    uint32_t classes[CLASSES];
    float scores[CLASSES];
    HELD(xsm_predictor, p) = NULL;
    xsm_prediction to = XSM_PREDICTION_INIT;
    to.batch = batch;
    to.classes = classes;
    to.scores = scores;
    to.has_least_score = 1;
    to.least_score = least_score;
    to.least_probability = least_probability;
    assert_int_equal(xsm_predictor_new(t->model, NULL, &p, NULL), XSM_OK);
    return xsm_predictor_run(p, &to, err);
}

TRY(least_score)
{
    return predict(t, &t->batch, (float)x, 0, err);
}

TRY(least_probability)
{
    return predict(t, &t->batch, -1, x, err);
}

TRY(predicted_values)
{
    const float row[FEATURES] = {1, (float)x, 0, 0};
    const xsm_batch batch = xsm_batch_values(row, 1, FEATURES, FEATURES);
    return predict(t, &batch, -100, 0, err);
}

TRY(evaluate_a)
{
    xsm_evaluate_options o = XSM_EVALUATE_OPTIONS_INIT;
    xsm_metrics m = XSM_METRICS_INIT;
    o.propensity_a = x;
    return xsm_evaluate(NULL, t->model, t->dense.data, &o, &m, err);
}

TRY(evaluate_b)
{
    xsm_evaluate_options o = XSM_EVALUATE_OPTIONS_INIT;
    xsm_metrics m = XSM_METRICS_INIT;
    o.propensity_b = x;
    return xsm_evaluate(NULL, t->model, t->dense.data, &o, &m, err);
}

TRY(evaluate_seconds)
{
    xsm_evaluate_options o = XSM_EVALUATE_OPTIONS_INIT;
    xsm_metrics m = XSM_METRICS_INIT;
    o.seconds = x;
    return xsm_evaluate(NULL, t->model, t->dense.data, &o, &m, err);
}

TRY(classes_threshold)
{
    xsm_class_metrics_options o = XSM_CLASS_METRICS_OPTIONS_INIT;
    xsm_class_metrics m = XSM_CLASS_METRICS_INIT;
    o.threshold = x;
    return xsm_evaluate_classes(NULL, t->model, t->dense.data, &o, &m, err);
}

/* -- indexes ------------------------------------------------------------------------------------------------------- */

/* Builds and searches an index of two rows. */
static xsm_status search(float row, float bias, float query, float threshold, xsm_error *err)
{
    const float rows[4] = {row, 1, 2, 3}, added[2] = {0, bias}, queries[2] = {1, query};
    uint32_t classes[2], length;
    float scores[2];
    HELD(xsm_index, x) = NULL;
    xsm_index_rows of = XSM_INDEX_ROWS_INIT;
    xsm_index_search s = XSM_INDEX_SEARCH_INIT;
    of.rows = rows;
    of.stride = of.width = of.count = 2;
    of.bias = added;
    s.queries = queries;
    s.stride = s.top = 2;
    s.count = 1;
    s.has_least_score = 1;
    s.least_score = threshold;
    s.classes = classes;
    s.scores = scores;
    s.lengths = &length;
    assert_int_equal(xsm_index_new(NULL, "exact", &x, NULL), XSM_OK);
    xsm_status status = xsm_index_build(x, &of, err);
    status = status == XSM_OK ? xsm_index_query(x, &s, err) : status;
    return status;
}

TRY(index_rows)
{
    return search((float)x, 0, 1, 0, err);
}

TRY(index_bias)
{
    return search(1, (float)x, 1, 0, err);
}

TRY(index_queries)
{
    return search(1, 0, (float)x, 0, err);
}

TRY(index_threshold)
{
    return search(1, 0, 1, (float)x, err);
}

/* -- the suites for hosts' tables ---------------------------------------------------------------------------------- */

TRY(check_estimator_eta)
{
    xsm_estimator_check_options o = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    o.eta = x / 10;
    return xsm_estimator_check(NULL, xsm_estimator_find("softmax"), &o, err);
}

TRY(check_estimator_tolerance)
{
    xsm_estimator_check_options o = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    o.tolerance = x;
    return xsm_estimator_check(NULL, xsm_estimator_find("softmax"), &o, err);
}

TRY(check_index_recall)
{
    xsm_index_check_options o = XSM_INDEX_CHECK_OPTIONS_INIT;
    o.recall = x;
    return xsm_index_check(NULL, xsm_index_find("exact"), &o, err);
}

TRY(check_index_tolerance)
{
    xsm_index_check_options o = XSM_INDEX_CHECK_OPTIONS_INIT;
    o.tolerance = x;
    return xsm_index_check(NULL, xsm_index_find("exact"), &o, err);
}

TRY(check_optimizer_eta)
{
    xsm_optimizer_check_options o = XSM_OPTIMIZER_CHECK_OPTIONS_INIT;
    o.eta = x / 10;
    return xsm_optimizer_check(NULL, xsm_optimizer_find("sgd"), &o, err);
}

TRY(check_sampler_alarm)
{
    xsm_sampler_check_options o = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    o.false_alarm = x / 1e6;
    return xsm_sampler_check(NULL, xsm_sampler_find("uniform"), &o, err);
}

TRY(check_sampler_tolerance)
{
    xsm_sampler_check_options o = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    o.tolerance = x;
    return xsm_sampler_check(NULL, xsm_sampler_find("uniform"), &o, err);
}

/* -- all ----------------------------------------------------------------------------------------------------------- */

/* Which infinities mean something. */
enum { NONE = 0, PLUS = 1, MINUS = 2 };

typedef struct number {
    const char *name;
    xsm_status (*hand)(things *t, double x, xsm_error *err);
    double sound;
    int accepts;
} number;

#define NUMBER(name, sound, accepts)                                                                                   \
    {                                                                                                                  \
#name, try_##name, sound, accepts                                                                              \
    }

static const number numbers[] = {
    NUMBER(dense_values, 1, NONE),
    NUMBER(dense_weights, 1, NONE),
    NUMBER(label_weights, 1, NONE),
    NUMBER(csr_values, 1, NONE),
    NUMBER(csr_weights, 1, NONE),
    NUMBER(csr_label_weights, 1, NONE),
    NUMBER(split, 1, NONE),
    NUMBER(row_weights, 1, NONE),
    NUMBER(weights_of_labels, 1, NONE),
    NUMBER(class_weights, 1, NONE),
    NUMBER(class_propensity_a, 1, NONE),
    NUMBER(class_propensity_b, 1, NONE),
    NUMBER(encoded_pairs, 1, NONE),
    NUMBER(gradient_eta, 1, NONE),
    NUMBER(gradient_input_eta, 1, NONE),
    NUMBER(apply_eta, 1, NONE),
    NUMBER(batch_values, 1, NONE),
    NUMBER(batch_weights, 1, NONE),
    NUMBER(batch_label_weights, 1, NONE),
    NUMBER(trainer_eta, 1, NONE),
    NUMBER(trainer_factor, 1, NONE),
    NUMBER(choose_ridge, 1, NONE),
    NUMBER(choose_seconds, 1, NONE),
    NUMBER(choose_eta, 1, NONE),
    NUMBER(choose_factor, 1, NONE),
    NUMBER(tune_factor, 1, NONE),
#ifdef HAVE_LBFGS
    NUMBER(fit_tolerance, 1e-3, NONE),
#endif
    NUMBER(tree_cost, 1, NONE),
    NUMBER(tree_epsilon, 1, NONE),
    NUMBER(tree_threshold, 1, NONE),
    NUMBER(tree_checkpoint_every, 1, NONE),
    NUMBER(pairs, 1, NONE),
    NUMBER(embedding_scale, 1, NONE),
    NUMBER(calibration_scale, 1, NONE),
    NUMBER(calibration_shift, 1, NONE),
    NUMBER(prune_below, 0.01, NONE),
    NUMBER(least_score, 0, PLUS | MINUS), /* none, or all, are below it */
    NUMBER(least_probability, 0.5, NONE),
    NUMBER(predicted_values, 1, NONE),
    NUMBER(evaluate_a, 1, NONE),
    NUMBER(evaluate_b, 1, NONE),
    NUMBER(evaluate_seconds, 1, NONE),
    NUMBER(classes_threshold, 0.5, NONE),
    NUMBER(index_rows, 1, NONE),
    NUMBER(index_bias, 1, NONE),
    NUMBER(index_queries, 1, NONE),
    NUMBER(index_threshold, 0, NONE),
    NUMBER(check_estimator_eta, 1, NONE),
    NUMBER(check_estimator_tolerance, 1e-3, NONE),
    NUMBER(check_index_recall, 1, NONE),
    NUMBER(check_index_tolerance, 1e-3, NONE),
    NUMBER(check_optimizer_eta, 1, NONE),
    NUMBER(check_sampler_alarm, 1, NONE),
    NUMBER(check_sampler_tolerance, 1e-3, NONE),
};

static xsm_status hand(const number *n, double x, xsm_error *err)
{
    things t = things_new();
    const xsm_status status = n->hand(&t, x, err);
    things_free(&t);
    return status;
}

TEST(numbers_that_are_none_are_refused)
{
    static const struct {
        double x;
        int infinity;
    } tried[] = {{(double)NAN, NONE}, {(double)INFINITY, PLUS}, {-(double)INFINITY, MINUS}};
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const number *n = &numbers[i];
        if (hand(n, n->sound, &err) != XSM_OK) {
            print_error("%s: %g is refused: %s\n", n->name, n->sound, err.message);
            wrong++;
        }
        for (size_t k = 0; k < sizeof tried / sizeof *tried; k++) {
            const bool means = (n->accepts & tried[k].infinity) != 0;
            const xsm_status status = hand(n, tried[k].x, &err);
            if (means ? status != XSM_OK
                      : (status != XSM_ERROR_RANGE && status != XSM_ERROR_DIVERGED) || err.message[0] == '\0') {
                print_error("%s: %g: %s: %s\n", n->name, tried[k].x, xsm_status_name(status), err.message);
                wrong++;
            }
        }
    }
    assert_int_equal(wrong, 0);
}

/* Of every table, by number and as text. */
TEST(options_that_are_none_are_refused)
{
    static const double wrong[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    static const char *const texts[] = {"nan", "inf", "-inf", "1e999"};
    size_t count = 0;
#define TABLES(kind)                                                                                                   \
    for (size_t i = 0; xsm_##kind##_at(i); i++) {                                                                      \
        const xsm_##kind##_ops *ops = xsm_##kind##_at(i);                                                              \
        const xsm_option *option;                                                                                      \
        xsm_##kind *object = NULL;                                                                                     \
        assert_ok(xsm_##kind##_new(NULL, ops->name, &object, &err), err);                                              \
        for (size_t o = 0; (option = xsm_##kind##_ops_option(ops, o)) != NULL; o++) {                                  \
            const bool is_number = option->type == XSM_OPTION_DOUBLE || option->type == XSM_OPTION_INT;                \
            for (size_t w = 0; is_number && w < sizeof wrong / sizeof *wrong; w++, count++) {                          \
                const xsm_status status = xsm_##kind##_set_number(object, option->name, wrong[w], &err);               \
                assert_true(status == XSM_ERROR_RANGE || status == XSM_ERROR_FORMAT);                                  \
            }                                                                                                          \
            for (size_t w = 0; is_number && w < sizeof texts / sizeof *texts; w++, count++) {                          \
                const xsm_status status = xsm_##kind##_set(object, option->name, texts[w], &err);                      \
                assert_true(status == XSM_ERROR_RANGE || status == XSM_ERROR_FORMAT);                                  \
            }                                                                                                          \
        }                                                                                                              \
        xsm_##kind##_free(object);                                                                                     \
    }
    TABLES(estimator)
    TABLES(sampler)
    TABLES(optimizer)
    TABLES(index)
#undef TABLES
    const xsm_option *option;
    xsm_label_tree_options tree = XSM_LABEL_TREE_OPTIONS_INIT;
    for (size_t o = 0; (option = xsm_label_tree_option(o)) != NULL; o++) {
        for (size_t w = 0; option->type != XSM_OPTION_CHOICE && w < sizeof texts / sizeof *texts; w++, count++) {
            const xsm_status status = xsm_label_tree_set(&tree, option->name, texts[w], &err);
            assert_true(status == XSM_ERROR_RANGE || status == XSM_ERROR_FORMAT);
        }
    }
    assert_true(count > 300);
}
