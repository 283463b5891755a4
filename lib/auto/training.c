/*
 * Training in one call (xsm_train()): chooses with xsm_choose() what the options do not name, applies it as if it had
 * been named, and trains with the trainer or a fit.
 */
#include "auto/describe.h"

#include "base/entry.h"
#include "base/order.h"
#include "data/vocabulary.h"
#include "methods/registry.h"

#include <xsoftmax/calibrate.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/tune.h>

#include <math.h>
#include <string.h>

#define LBFGS "lbfgs"
/* How often a run may begin again at a tenth of a chosen rate. */
enum { RESTARTS_MOST = 3 };

typedef struct training {
    xsm_context *context;
    xsm_dataset *train;
    xsm_train_options options;
    xsm_trainer_options run;     /* options of the run; eta 0: still open */
    xsm_choice *choice;          /* NULL: nothing was chosen */
    xsm_estimator *estimator;    /* a reference; NULL: a label tree or class means */
    double ridge;                /* of the caller's estimator */
    xsm_optimizer *optimizer;    /* NULL: lbfgs, a label tree or class means */
    const char *optimizer_name;  /* or "lbfgs"; NULL: still open, a label tree or class means */
    bool is_tree, full;          /* full: lbfgs */
    xsm_label_tree_options tree; /* of a label tree */
    uint32_t hidden;
    double initial, pairs; /* of adagrad, 0 = its default; strength of pairs, 0 = none */
    double temperature;    /* of probabilities; 1 = as they are */
    bool eta_chosen;       /* the choice or tuning chose eta: a run may begin again with less */
    bool ngrams_chosen;
    xsm_transform *transform; /* NULL: none */
    xsm_model *model;
    double began, deadline; /* clock times; infinite = none */
    double trained;         /* seconds of training */
    xsm_train_report report;
} training;

/* -- options ------------------------------------------------------------------------------------------------------- */

static bool is_method(const training *t, const char *method)
{
    return t->options.method && strcmp(t->options.method, method) == 0;
}

/* Whether the options name settings that label trees and class means do not have. */
static bool names_steps(const training *t)
{
    return t->options.estimator || t->options.optimizer || t->options.keep_ridge || t->options.keep_schedule ||
           t->run.epochs > 0 || t->run.batch > 0 || t->run.eta != 0 || t->run.order != XSM_ORDER_SHUFFLE;
}

/* Returns a message on options that exclude each other, or NULL. */
static const char *clash(const training *t)
{
    const xsm_train_options *o = &t->options;
    const bool alone = is_method(t, XSMI_LABEL_TREE) || is_method(t, XSMI_CLASS_MEANS);
    return o->method && o->estimator ? "method and estimator name one thing; one of them is accepted"
           : o->label_tree && !is_method(t, XSMI_LABEL_TREE) ? "label_tree is of the method label-tree"
           : alone && names_steps(t)
               ? "label-tree and class-means have no optimizer, ridge, schedule, epochs, batch, eta and order"
           : alone && o->seconds > 0 ? "a time budget is of a choice, and of estimators"
           : alone && o->start       ? "label-tree and class-means go on from no model"
           : o->start && !o->method && !o->estimator
               ? "a model to start from needs a method: ways can be tried out only from a model of zeros"
           : o->start && !(t->run.eta > 0) && !(o->optimizer && strcmp(o->optimizer, LBFGS) == 0)
               ? "a model to start from needs run->eta: rates can be tried out only from a model of zeros"
           : o->start && o->transform   ? "a model to start from has its transform"
           : o->start && o->seconds > 0 ? "a time budget is of a choice, and a model to start from leaves none"
                                        : NULL;
}

static xsm_status read_options(training *t, const xsm_train_options *options, const xsm_train_report *report,
                               xsm_error *err)
{
    xsm_train_options *o = &t->options;
    XSMI_TRY(XSMI_READ(xsm_train_options, o, options, err));
    XSMI_TRY(XSMI_READ(xsm_train_report, &t->report, report, err));
    xsm_metrics *test = t->report.test;
    t->report = (xsm_train_report)XSM_TRAIN_REPORT_INIT; /* the caller's may have values of an earlier call */
    t->report.test = test;
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_train_options, o, keep_ridge, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_train_options, o, keep_schedule, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_train_options, o, keep_ngrams, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_train_options, o, reserved, err));
    XSMI_TRY(XSMI_READ(xsm_trainer_options, &t->run, o->run, err));
    if (!o->keep_schedule) {
        t->run.schedule = XSM_SCHEDULE_STEP;
        t->run.factor = 0;
    }
    t->run.factor = t->run.factor == 0 ? XSMI_DEFAULT(xsm_trainer_options, factor) : t->run.factor;
    XSMI_TRY(xsmi_trainer_check_schedule(&t->run, err));
    XSMI_TRY(t->run.eta != 0 ? xsmi_check_eta(t->run.eta, err) : XSM_OK);
    XSMI_TRY(xsmi_check_seconds("xsm_train_options", o->seconds, err));
    XSMI_TRY(o->keep_ridge ? xsmi_check_ridge("xsm_train_options", o->ridge, err) : XSM_OK);
    XSMI_TRY(xsmi_check_measure(o->measure, o->measure_top, err));
    if (o->seed > (uint64_t)1 << 53) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_train_options.seed is %llu; accepted is up to 2^53",
                         (unsigned long long)o->seed);
    }
    const char *wrong = clash(t);
    if (wrong) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_train_options: %s", wrong);
    }
    t->run.seed = o->seed;
    t->run.test = o->test;
    t->deadline = o->seconds > 0 ? t->began + o->seconds : (double)INFINITY;
    return XSM_OK;
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Returns rows that are not trained on (number i), or NULL. */
static xsm_dataset *beside(const training *t, size_t i)
{
    return i == 0 ? t->options.test : t->options.calibrate;
}
static const char *const beside_names[] = {"test", "calibrate"};

static xsm_status check_rows(const training *t, xsm_error *err)
{
    if (t->train->transformed) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_train: the rows are transformed; accepted are rows as they are "
                         "read, to which the model's transform is applied");
    }
    for (size_t i = 0; i < 2; i++) {
        const xsm_dataset *d = beside(t, i);
        if (d && (d->transformed || d == t->train || (i > 0 && d == beside(t, 0)))) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_train_options.%s: the rows are %s", beside_names[i],
                             d->transformed ? "transformed; accepted are rows as they are read"
                                            : "given twice; accepted is another dataset");
        }
        if (d && !t->options.start && (d->features != t->train->features || d->classes != t->train->classes)) {
            return xsmi_fail(err, XSM_ERROR_SHAPE,
                             "xsm_train_options.%s: rows of %u features and %u classes, and those to train on have %u "
                             "and %u; read them against the class map of these",
                             beside_names[i], d->features, d->classes, t->train->features, t->train->classes);
        }
    }
    return XSM_OK;
}

static xsm_status transform_rows(training *t, xsm_error *err)
{
    XSMI_TRY(xsm_transform_apply(t->transform, t->train, err));
    for (size_t i = 0; i < 2; i++) {
        XSMI_TRY(beside(t, i) ? xsm_transform_apply(t->transform, beside(t, i), err) : XSM_OK);
    }
    return XSM_OK;
}

/* Takes a transform by its description; NULL: rows as they are. */
static xsm_status take_transform(training *t, const char *description, xsm_error *err)
{
    if (!description) {
        return XSM_OK;
    }
    XSMI_TRY(xsm_transform_new(t->context, description, &t->transform, err));
    XSMI_TRY(xsm_transform_fit(t->transform, t->train, err));
    return transform_rows(t, err);
}

/* Adds to the model to start from the classes and features of the rows that it lacks, and gives the rows its
 * transform. */
static xsm_status grow(training *t, xsm_error *err)
{
    xsm_model *m = t->options.start;
    xsm_class_map own = XSM_CLASS_MAP_INIT, map = XSM_CLASS_MAP_INIT;
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    XSMI_TRY(xsm_model_get_info(m, &info, err));
    XSMI_TRY(xsm_model_get_class_map(m, &own, err));
    XSMI_TRY(xsm_dataset_extend(t->train, &own, err));
    XSMI_TRY(xsm_dataset_get_class_map(t->train, &map, err));
    const uint32_t more = map.features > info.input_features ? map.features - info.input_features : 0;
    if (info.trees > 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "xsm_train_options.start is a label tree, which grows by xsm_fit_label_tree()");
    }
    if (info.correction == XSM_CORRECTION_PAIRS) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "xsm_train_options.start has pairs, which training does not change; "
                         "xsm_model_clear_correction() removes them");
    }
    if ((t->estimator->ops.flags & XSM_ESTIMATOR_CORRECTED) != 0) {
        xsm_model_clear_correction(m); /* training makes a new one */
    }
    XSMI_TRY(xsm_model_grow(m, info.features + more, &map, err));
    XSMI_TRY(xsm_model_transform(m, t->train, err));
    for (size_t i = 0; i < 2; i++) {
        XSMI_TRY(beside(t, i) ? xsm_model_transform(m, beside(t, i), err) : XSM_OK);
    }
    return xsmi_describe_anew(m, err);
}

/* -- what is open -------------------------------------------------------------------------------------------------- */

static double seconds_left(const training *t)
{
    return isfinite(t->deadline) ? XSMI_MAX(t->deadline - xsmi_seconds(), 1e-3) : 0;
}

static xsm_choose_options choose_options(const training *t)
{
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.estimator = t->estimator;
    o.optimizer = t->options.optimizer;
    o.run = &t->run;
    o.ridge = t->options.ridge;
    o.seconds = seconds_left(t);
    o.keep_ridge = t->options.keep_ridge;
    o.keep_schedule = t->options.keep_schedule;
    o.measure = t->options.measure;
    o.measure_top = t->options.measure_top;
    o.bias = 1;
    o.transform = !t->estimator && !t->options.transform;
    o.embedding = !t->estimator;
    o.label_tree = o.class_means = !names_steps(t) && !t->estimator;
    return o;
}

/* Whether the n-grams of the rows are chosen. */
static bool ngrams_are_open(const training *t)
{
    const xsm_vocabulary *words = t->train->schema ? xsmi_schema_vocabulary(t->train->schema) : NULL;
    return words && !t->options.keep_ngrams && !t->estimator && !t->options.transform && !beside(t, 0) &&
           !beside(t, 1) && t->train->format != XSM_FORMAT_CACHE && !xsmi_vocabulary_is_fasttext(words) &&
           xsmi_vocabulary_options(words)->max_chars == 0;
}

static xsm_status choose_ngrams(training *t, xsm_error *err)
{
    const xsm_choose_options o = choose_options(t);
    xsm_choice *choice = NULL;
    xsm_choice_info info = XSM_CHOICE_INFO_INIT;
    if (!ngrams_are_open(t)) {
        return XSM_OK;
    }
    XSMI_TRY(xsm_choose_ngrams(t->context, t->train, &o, &choice, err));
    const xsm_status status = xsm_choice_get_info(choice, &info, err);
    t->report.trials += info.trials;
    t->ngrams_chosen = true;
    xsm_choice_free(choice);
    return status;
}

/* Applies the choice as if it had been named. */
static xsm_status apply(training *t, const xsm_choice_info *c, xsm_error *err)
{
    t->is_tree = c->label_tree != NULL;
    if (t->is_tree) {
        t->tree = *c->label_tree;
    }
    if (!t->estimator) {
        t->estimator = xsmi_estimator_retain(xsm_choice_estimator(t->choice));
    }
    t->hidden = c->hidden;
    t->initial = c->initial;
    t->pairs = c->pairs;
    t->temperature = t->options.calibrate ? 1 : c->temperature;
    t->optimizer_name = c->optimizer;
    if (c->optimizer && strcmp(c->optimizer, LBFGS) == 0) {
        t->run.epochs = t->options.optimizer && t->run.epochs > 0 ? t->run.epochs : c->iterations;
    } else if (c->optimizer) {
        t->eta_chosen = t->run.eta == 0;
        t->run.eta = c->eta;
        t->run.epochs = c->epochs;
        t->run.batch = c->batch;
        t->run.schedule = c->schedule;
        t->run.factor = c->factor;
    }
    return take_transform(t, c->transform, err);
}

static xsm_status choose(training *t, xsm_error *err)
{
    xsm_choice_info c = XSM_CHOICE_INFO_INIT;
    xsm_train_report *r = &t->report;
    XSMI_TRY(choose_ngrams(t, err));
    XSMI_TRY(take_transform(t, t->options.transform, err)); /* before the choice, which then chooses none */
    const xsm_choose_options o = choose_options(t);
    XSMI_TRY(xsm_choose(t->context, t->train, &o, &t->choice, err));
    XSMI_TRY(xsm_choice_get_info(t->choice, &c, err));
    r->trials += c.trials;
    r->held = c.held;
    r->loss = c.loss;
    r->predicted = c.predicted;
    r->prior = c.prior;
    r->precision = c.precision;
    r->measure = c.measure;
    r->measure_top = c.measure_top;
    r->is_prior = c.is_prior;
    return apply(t, &c, err);
}

/* Makes the named estimator, with the seed. */
static xsm_status name_estimator(training *t, xsm_error *err)
{
    XSMI_TRY(xsm_estimator_new(t->context, t->options.method, &t->estimator, err));
    XSMI_TRY(xsm_estimator_set_number(t->estimator, "seed", (double)t->options.seed, err));
    return XSM_OK;
}

static xsm_status settle(training *t, xsm_error *err)
{
    const xsm_train_options *o = &t->options;
    const bool means = is_method(t, XSMI_CLASS_MEANS);
    t->is_tree = is_method(t, XSMI_LABEL_TREE);
    if (o->estimator) {
        t->estimator = xsmi_estimator_retain(o->estimator);
        t->ridge = o->estimator->common.ridge;
    } else if (o->method && !t->is_tree && !means) {
        XSMI_TRY(name_estimator(t, err));
    }
    if (t->estimator && o->keep_ridge) {
        XSMI_TRY(xsm_estimator_set_number(t->estimator, "ridge", o->ridge, err));
    }
    if ((!o->method && !o->estimator) || o->seconds > 0) {
        return choose(t, err);
    }
    if (t->is_tree) {
        XSMI_TRY(XSMI_READ(xsm_label_tree_options, &t->tree, o->label_tree, err));
        t->tree.seed = o->seed;
    }
    t->optimizer_name = t->estimator ? o->optimizer ? o->optimizer : "sgd" : NULL;
    return o->start ? XSM_OK : take_transform(t, t->is_tree && !o->transform ? "unit" : o->transform, err);
}

/* -- models -------------------------------------------------------------------------------------------------------- */

static xsm_status new_model(training *t, xsm_error *err)
{
    const xsm_dataset *d = t->train;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    if (t->hidden > 0) {
        xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
        o.bias = 1;
        o.seed = t->options.seed;
        XSMI_TRY(xsm_model_new_embedding(t->context, d->features, t->hidden, d->classes, &o, &t->model, err));
    } else {
        xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
        const bool exact = t->estimator && t->estimator->ops.kind == XSM_ESTIMATOR_EXACT;
        o.bias = 1;
        o.layout = xsmi_layout_for(exact, d->sparse);
        XSMI_TRY(xsm_model_new_linear(t->context, d->features, d->classes, &o, &t->model, err));
    }
    XSMI_TRY(t->transform ? xsm_model_set_transform(t->model, t->transform, err) : XSM_OK);
    XSMI_TRY(xsm_dataset_get_class_map(d, &map, err));
    return xsm_model_set_class_map(t->model, &map, err);
}

/* Describes what all trained models describe. If the estimator takes one label a row, files with several labels must be
 * read in the same way. */
static xsm_status describe_rows(const training *t, xsm_error *err)
{
    XSMI_TRY(t->temperature != 1 ? xsmi_describe_real(t->model, "temperature", t->temperature, err) : XSM_OK);
    const bool one = t->estimator && !t->choice && (t->estimator->ops.flags & XSM_ESTIMATOR_MULTI_LABEL) == 0;
    XSMI_TRY(xsm_model_set_metadata(t->model, "training.labels", one ? "first" : "all", err));
    return xsmi_describe_whole(t->model, "examples", t->train->rows, err);
}

static xsm_status describe_steps(const training *t, xsm_error *err)
{
    XSMI_TRY(xsm_model_describe(t->model, t->estimator, t->optimizer, &t->run, err));
    XSMI_TRY(describe_rows(t, err));
    XSMI_TRY(t->ngrams_chosen ? xsm_model_set_metadata(t->model, "training.ngrams", "chosen", err) : XSM_OK);
    XSMI_TRY(t->pairs > 0 ? xsmi_describe_real(t->model, "pairs", t->pairs, err) : XSM_OK);
    return t->full ? xsmi_describe_real(t->model, "tolerance", XSMI_DEFAULT_xsm_fit_options_tolerance, err)
                   : (t->run.eta > 0 ? xsmi_describe_real(t->model, "eta", t->run.eta, err) : XSM_OK);
}

/* Fails before a long run if the other rows do not fit the model. */
static xsm_status check_beside(const training *t, xsm_error *err)
{
    for (size_t i = 0; i < 2; i++) {
        XSMI_TRY(xsmi_model_check_rows(t->model, beside(t, i), beside_names[i], err));
        XSMI_TRY(xsmi_model_check_labels(t->model, beside(t, i), beside_names[i], err));
    }
    return XSM_OK;
}

/* -- training ------------------------------------------------------------------------------------------------------ */

static xsm_status fit_method(training *t, xsm_error *err)
{
    const double since = xsmi_seconds();
    if (t->is_tree) {
        XSMI_TRY(xsm_fit_label_tree(t->context, t->train, &t->tree, &t->model, NULL, err));
        XSMI_TRY(t->transform ? xsm_model_set_transform(t->model, t->transform, err) : XSM_OK);
    } else {
        XSMI_TRY(new_model(t, err));
        XSMI_TRY(xsm_fit_class_means(t->context, t->model, t->train, NULL, err));
    }
    t->report.train_seconds = xsmi_seconds() - since;
    XSMI_TRY(xsmi_describe_method(t->model, t->is_tree ? XSMI_LABEL_TREE : XSMI_CLASS_MEANS,
                                  t->is_tree ? &t->tree : NULL, err));
    return describe_rows(t, err);
}

/* Calls the host's callback, and ends the run at the end of the budget. */
static int32_t on_progress(void *user, const xsm_progress *progress)
{
    training *t = user;
    const xsm_trainer_options *o = t->options.run;
    const int32_t asked = t->run.progress && o ? o->progress(o->progress_user, progress) : 0;
    t->report.spent = !asked && xsmi_seconds() > t->deadline;
    return asked || t->report.spent;
}

static xsm_status take_steps(training *t, xsm_error *err)
{
    xsm_trainer *trainer = NULL;
    xsm_progress end = XSM_PROGRESS_INIT;
    xsm_trainer_options run = t->run;
    run.progress = on_progress;
    run.progress_user = t;
    XSMI_TRY(xsm_trainer_new(t->context, t->model, t->train, t->estimator, t->optimizer, &run, &trainer, err));
    xsm_status status = xsm_trainer_run(trainer, err);
    if (status == XSM_CANCELLED && t->report.spent) {
        xsmi_clear_error(err);
        status = XSM_OK;
    }
    (void)xsm_trainer_get_progress(trainer, &end, NULL);
    xsm_trainer_free(trainer);
    XSMI_TRY(status);
    t->report.epochs = end.epoch;
    t->report.steps = end.step;
    t->report.train_seconds += end.seconds;
    XSMI_TRY(xsmi_describe_whole(t->model, "epochs", end.epoch, err));
    return xsmi_describe_whole(t->model, "steps", end.step, err);
}

static xsm_status take_all_rows(training *t, xsm_error *err)
{
    xsm_fit_options o = XSM_FIT_OPTIONS_INIT;
    xsm_fit_result result = XSM_FIT_RESULT_INIT;
    o.iterations = t->run.epochs;
    o.evaluate_train = t->run.evaluate_train;
    o.evaluate_every = t->run.evaluate_every;
    o.evaluate_top = t->run.evaluate_top;
    o.test = t->run.test;
    o.progress = on_progress;
    o.progress_user = t;
    xsm_status status = xsm_fit_full_batch(t->context, t->model, t->train, t->estimator, &o, &result, err);
    if (status == XSM_CANCELLED && t->report.spent) {
        xsmi_clear_error(err);
        status = XSM_OK;
    }
    XSMI_TRY(status);
    t->report.epochs = result.iterations;
    t->report.train_seconds = result.seconds;
    return xsmi_describe_whole(t->model, "iterations", result.iterations, err);
}

static xsm_status tune(training *t, xsm_error *err)
{
    xsm_tune_options o = XSM_TUNE_OPTIONS_INIT;
    xsm_tuning *tuning = NULL;
    xsm_tuning_info info = XSM_TUNING_INFO_INIT;
    o.run = &t->run;
    XSMI_TRY(xsm_tune_eta(t->context, t->model, t->train, t->estimator, t->optimizer, &o, &tuning, err));
    const xsm_status status = xsm_tuning_get_info(tuning, &info, err);
    xsm_tuning_free(tuning);
    t->run.eta = info.eta;
    t->eta_chosen = true;
    t->report.trials += info.trials;
    return status;
}

static xsm_status make_optimizer(training *t, xsm_error *err)
{
    t->full = strcmp(t->optimizer_name, LBFGS) == 0;
    XSMI_TRY(t->full ? XSM_OK : xsm_optimizer_new(t->context, t->optimizer_name, &t->optimizer, err));
    return t->initial > 0 && !t->full ? xsm_optimizer_set_number(t->optimizer, "initial", t->initial, err) : XSM_OK;
}

/* Grows the model to start from, which a failure would leave grown: what can be wrong with the options fails before. */
static xsm_status start_from_model(training *t, xsm_error *err)
{
    const xsm_estimator *e = t->estimator;
    const bool proximal = (e->ops.flags & XSM_ESTIMATOR_PROXIMAL) != 0, bound = e->ops.row_bound != NULL;
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    XSMI_TRY(xsmi_trainer_read_options(&t->run, e, &run, err));
    XSMI_TRY(t->full ? xsmi_estimator_check_full(e, err)
                     : xsmi_optimizer_check(t->optimizer, proximal, !proximal && e->common.ridge > 0,
                                            bound && e->ops.row_bound(e->state) > 0, err));
    return grow(t, err);
}

/* Runs once, from the model as it was made. */
static xsm_status run_once(training *t, xsm_error *err)
{
    XSMI_TRY(t->model ? XSM_OK : new_model(t, err));
    XSMI_TRY(check_beside(t, err));
    XSMI_TRY(describe_steps(t, err));
    return t->full ? take_all_rows(t, err) : take_steps(t, err);
}

static xsm_status fit_estimator(training *t, xsm_error *err)
{
    if (t->options.start) {
        t->model = xsm_model_ref(t->options.start);
    }
    if (!t->full && t->run.eta == 0) {
        XSMI_TRY(new_model(t, err));
        XSMI_TRY(check_beside(t, err));
        XSMI_TRY(tune(t, err));
    }
    t->report.choose_seconds = xsmi_seconds() - t->began;
    xsm_status status = run_once(t, err);
    while (status == XSM_ERROR_DIVERGED && t->eta_chosen && t->report.restarts < RESTARTS_MOST) {
        t->report.restarts++;
        t->run.eta /= 10; /* trials are short: a rate that is good in them can be too large for the run */
        xsm_model_free(t->model);
        t->model = NULL;
        status = run_once(t, err);
    }
    XSMI_TRY(status);
    return t->pairs > 0 ? xsm_model_add_pairs(t->model, t->train, t->pairs, err) : XSM_OK;
}

/* -- the call ------------------------------------------------------------------------------------------------------ */

static xsm_status finish_report(training *t, xsm_error *err)
{
    xsm_train_report *r = &t->report;
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    const xsm_vocabulary *words = t->train->schema ? xsmi_schema_vocabulary(t->train->schema) : NULL;
    XSMI_TRY(xsm_model_get_info(t->model, &info, err));
    XSMI_TRY(xsm_dataset_spread(t->train, &r->spread, NULL, err));
    r->method = xsm_model_get_metadata(t->model, t->estimator ? "estimator" : "method");
    r->optimizer = t->estimator ? xsm_model_get_metadata(t->model, "training.optimizer") : NULL;
    r->transform = info.transform;
    r->rows = t->train->rows;
    r->hidden = info.hidden;
    r->trees = info.trees;
    r->ridge = t->estimator ? t->estimator->common.ridge : 0;
    r->pairs = t->pairs;
    r->temperature = t->temperature;
    if (t->optimizer) {
        r->eta = t->run.eta;
        r->batch = t->run.batch ? t->run.batch : XSMI_DEFAULT_xsm_trainer_options_batch;
        r->schedule = t->run.schedule;
        r->factor = t->run.schedule == XSM_SCHEDULE_STEP ? t->run.factor : 0;
    }
    if (words) {
        const xsm_text_options *text = xsmi_vocabulary_options(words);
        r->word_ngrams = text->word_ngrams;
        r->min_chars = text->min_chars;
        r->max_chars = text->max_chars;
        r->buckets = xsmi_text_buckets(text);
    }
    r->seconds = xsmi_seconds() - t->began;
    return XSM_OK;
}

static xsm_status train(training *t, const xsm_train_options *options, const xsm_train_report *report, xsm_error *err)
{
    XSMI_TRY(read_options(t, options, report, err));
    XSMI_TRY(xsmi_context_need_alone(t->context, "xsm_train", err));
    XSMI_TRY(check_rows(t, err));
    XSMI_TRY(xsm_dataset_drop(t->train, XSM_DROP_UNLABELLED | XSM_DROP_WEIGHTLESS, &t->report.dropped, err));
    if (t->train->classes == 1 && !t->options.start) {
        xsmi_log(t->context, XSM_LOG_WARNING, "all rows have the same label, so that there is nothing to learn");
    }
    t->report.loss = t->report.predicted = t->report.prior = t->report.precision = (double)NAN;
    XSMI_TRY(settle(t, err));
    t->report.choose_seconds = xsmi_seconds() - t->began;
    XSMI_TRY(t->estimator ? make_optimizer(t, err) : XSM_OK);
    XSMI_TRY(t->options.start ? start_from_model(t, err) : XSM_OK);
    XSMI_TRY(t->estimator ? fit_estimator(t, err) : fit_method(t, err));
    if (t->options.calibrate) {
        XSMI_TRY(xsm_model_calibrate(t->context, t->model, t->options.calibrate, NULL, NULL, err));
    } else if (t->temperature != 1) {
        xsm_calibration c = XSM_CALIBRATION_INIT;
        c.method = XSM_CALIBRATION_TEMPERATURE;
        c.scale = 1 / t->temperature;
        XSMI_TRY(xsm_model_set_calibration(t->model, &c, err));
    }
    XSMI_TRY(finish_report(t, err));
    return t->options.test && t->report.test
               ? xsm_evaluate(t->context, t->model, t->options.test, NULL, t->report.test, err)
               : XSM_OK;
}

static void release(training *t)
{
    xsm_optimizer_free(t->optimizer);
    if (t->options.estimator && t->estimator) {
        t->estimator->common.ridge = t->ridge;
        xsmi_estimator_unbind(t->estimator);
    }
    xsm_estimator_free(t->estimator);
    xsm_choice_free(t->choice);
    xsm_transform_free(t->transform);
    xsm_context_free(t->context);
}

xsm_status xsm_train(xsm_context *context, xsm_dataset *train_rows, const xsm_train_options *options, xsm_model **out,
                     xsm_train_report *report, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {train_rows, "the data"}, {out, "out"});
    training t = {.train = train_rows,
                  .options = XSM_TRAIN_OPTIONS_INIT,
                  .run = XSM_TRAINER_OPTIONS_INIT,
                  .tree = XSM_LABEL_TREE_OPTIONS_INIT,
                  .temperature = 1,
                  .report = XSM_TRAIN_REPORT_INIT,
                  .began = xsmi_seconds()};
    XSMI_TRY(xsmi_context_acquire(context, &t.context, err));
    xsm_status status = train(&t, options, report, err);
    if (status == XSM_OK && report) {
        status = XSMI_WRITE(xsm_train_report, &t.report, report, err);
    }
    if (status == XSM_OK) {
        *out = t.model;
    } else {
        xsm_model_free(t.model);
    }
    release(&t);
    return status;
}
