/*
 * What xsm_choose() compares: estimators with their options, optimizers and kinds of models that the numbers of rows,
 * features and classes allow, and the work of each.
 */
#include "auto/choose.h"
#include "base/order.h"
#include "methods/registry.h"
#include "train/fit.h"

#include <string.h>

/* Work is counted in multiplications, as exactly as a single number can. A sampled class must be read from memory,
 * while an exact step finds the weights of the next class beside the last. */
#define EXACT_COST 2.0
#define SAMPLED_COST 16.0
#define FAR_COST 160.0 /* the same if the weights, of NEAR_BYTES, are in no cache */
#define NEAR_BYTES 3e7
#define OVERHEAD 8.0 /* fixed work of a row, in non-zeros */
/* Costs of an embedding model, whose vectors are short and mostly in a cache, for each number of a vector: in training;
 * for each further row if its batch shares the vector; in judging. */
#define VECTOR_COST 10.0
#define SHARED_COST 0.45
#define SCORE_COST 0.1
/* A pass over all rows and classes is cheap up to this work, or up to so many classes. */
#define CHEAP 6e9
enum { FEW_CLASSES = 100 };
/* lbfgs needs dozens of passes a trial, so it is tried only up to so many multiplications a pass, and so many
 * weights. */
#define FIT_PASS 1e7
#define FIT_WEIGHTS 2e6
/* The length of an embedding model's vectors: wide ones if rows have many features. */
enum { VECTOR = 256, VECTOR_WIDE = 512, WIDE_FEATURES = 32 };
/* adagrad in batches: how many steps a pass has, the largest batch, and what its sums start at. */
typedef struct batching {
    uint64_t steps, most;
    double initial;
} batching;
static const batching of_vectors = {1000, 128, 0.004}, of_exact = {100, 64, 4};
enum { BATCH_LEAST = 8 };

typedef const char *const settings[][2];

/* The work of an example for a candidate method whose estimator is bound. */
static double cost(const xsmi_chooser *c, const xsmi_candidate *candidate)
{
    const xsm_estimator *e = candidate->estimator;
    if (candidate->hidden) {
        const double batch = (double)candidate->batch;
        const double class_cost = e->common.shared && batch > 1 ? SHARED_COST + VECTOR_COST / batch : VECTOR_COST;
        return (double)candidate->hidden * (class_cost * (double)e->width + VECTOR_COST * c->survey.nonzeros);
    }
    const double features = c->survey.nonzeros + OVERHEAD, k = (double)c->train->classes;
    const double sampled = 4 * k * (double)c->train->features > NEAR_BYTES ? FAR_COST : SAMPLED_COST;
    return e->exact ? EXACT_COST * k * features : sampled * (double)e->width * features;
}

double xsmi_candidates_judging(const xsmi_chooser *c)
{
    const uint32_t hidden = c->candidates[0].hidden;
    return (double)c->train->classes * (hidden ? hidden * SCORE_COST : (c->survey.nonzeros + OVERHEAD) * EXACT_COST);
}

xsm_status xsmi_candidate_model(xsmi_chooser *c, const xsmi_candidate *candidate, xsm_error *err)
{
    xsmi_runner *r = &c->runner;
    const xsm_dataset *d = c->train;
    const int32_t layout = candidate->exact && d->sparse ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR;
    const uint32_t hidden = r->model && r->model->layer ? r->model->features : 0;
    if (r->model && hidden == candidate->hidden && (hidden || r->model->layout == layout)) {
        xsm_model_clear_correction(r->model);
        xsmi_model_drop_row_lengths(r->model);
        xsmi_model_zero(r->model);
        return XSM_OK;
    }
    xsm_model_free(r->model);
    r->model = NULL;
    if (candidate->hidden) {
        xsm_embedding_options e = XSM_EMBEDDING_OPTIONS_INIT;
        e.bias = c->options.bias != 0;
        e.seed = c->run.seed;
        return xsm_model_new_embedding(r->context, d->features, candidate->hidden, d->classes, &e, &r->model, err);
    }
    xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    o.bias = c->options.bias != 0;
    o.layout = layout;
    return xsm_model_new_linear(r->context, d->features, d->classes, &o, &r->model, err);
}

/* Binds the estimator to all rows: detects unsuitable data early and computes the work of a step. */
static xsm_status measure(xsmi_chooser *c, xsmi_candidate *candidate, xsm_error *err)
{
    xsm_estimator *e = candidate->estimator;
    if (!c->runner.model || candidate->hidden || c->runner.model->layer) {
        XSMI_TRY(xsmi_candidate_model(c, candidate, err));
    }
    XSMI_TRY(xsm_estimator_bind(e, c->runner.model, c->train, err));
    candidate->exact = e->exact;
    candidate->work = cost(c, candidate);
    xsm_status status = candidate->full ? xsmi_estimator_check_full(e, err) : XSM_OK;
    xsmi_estimator_unbind(e);
    return status;
}

/* Adds a candidate method: one of the library's estimators with these options, or of the caller's. */
static xsm_status add(xsmi_chooser *c, xsmi_candidate start, const char *name, settings set, xsm_error *err)
{
    const char *given = c->options.optimizer;
    xsmi_candidate *candidate = &c->candidates[c->candidate_count];
    *candidate = start;
    candidate->optimizer = candidate->full        ? "lbfgs"
                           : given                ? given
                           : candidate->optimizer ? candidate->optimizer
                                                  : "sgd";
    candidate->batch = c->run.batch ? c->run.batch : candidate->batch ? candidate->batch : 1;
    candidate->ridge = c->ridge >= 0 ? c->ridge : name ? 0 : candidate->estimator->common.ridge;
    if (name) {
        XSMI_TRY(xsm_estimator_new(c->runner.context, name, &candidate->estimator, err));
        candidate->own = true;
    }
    c->candidate_count++;
    for (size_t i = 0; set && set[i][0]; i++) {
        XSMI_TRY(xsm_estimator_set(candidate->estimator, set[i][0], set[i][1], err));
    }
    if (candidate->own) {
        XSMI_TRY(xsm_estimator_set_number(candidate->estimator, "seed", (int64_t)(c->run.seed & INT64_MAX), err));
    }
    return measure(c, candidate, err);
}

/* A candidate method with adagrad in batches: a power of two that leaves a pass enough steps. */
static xsmi_candidate by_adagrad(const xsmi_chooser *c, const batching *b)
{
    xsmi_candidate candidate = {.optimizer = "adagrad", .batch = c->run.batch ? c->run.batch : BATCH_LEAST};
    while (!c->run.batch && candidate.batch < b->most && 2 * candidate.batch * b->steps <= c->train->rows) {
        candidate.batch *= 2;
    }
    candidate.initial = b->initial;
    return candidate;
}

/* Whether embedding models may be tried. They are trained by adagrad, which supports no L2 penalty (ridge); a given
 * learning rate is meant for steps on linear scores (logits). */
static bool tries_vectors(const xsmi_chooser *c)
{
    const char *optimizer = c->options.optimizer;
    return c->options.embedding && c->train->sparse && (!optimizer || strcmp(optimizer, "adagrad") == 0) &&
           !(c->ridge > 0) && !(c->run.eta > 0);
}

/* Whether exact candidate methods with adagrad, in batches, may be tried. It supports no L2 penalty (ridge), and a
 * given learning rate, batch size of 1 or optimizer is meant for steps of another kind. With few classes its steps cost
 * more than single ones. */
static bool tries_adagrad(const xsmi_chooser *c)
{
    return c->train->classes > FEW_CLASSES && !c->options.optimizer && !(c->ridge > 0) && !(c->run.eta > 0) &&
           c->run.batch != 1;
}

/* Whether lbfgs may be tried too: this build has it, and no batches, epochs or rates are given, by which steps would be
 * meant. */
static bool tries_fit(const xsmi_chooser *c, double pass)
{
    return !(c->options.optimizer || c->run.epochs || c->run.batch || c->run.eta > 0 || c->options.keep_schedule) &&
           xsmi_fit_check(NULL) == XSM_OK && pass <= FIT_PASS &&
           (double)c->train->classes * (double)c->train->features <= FIT_WEIGHTS;
}

/* `pass`: the multiplications of a pass over all rows and classes. */
static xsm_status list_exact(xsmi_chooser *c, double pass, xsm_error *err)
{
    const char *first = c->survey.several ? "one-vs-all" : "softmax";
    XSMI_TRY(add(c, (xsmi_candidate){0}, first, NULL, err));
    if (tries_adagrad(c)) {
        xsmi_candidate candidate = by_adagrad(c, &of_exact);
        candidate.follows = true;
        XSMI_TRY(add(c, candidate, first, NULL, err));
    }
    const bool fit = !c->survey.several && tries_fit(c, pass);
    return c->survey.several || fit ? add(c, (xsmi_candidate){.full = fit}, "softmax", NULL, err) : XSM_OK;
}

static xsm_status list_vectors(xsmi_chooser *c, xsm_error *err)
{
    static settings alone = {{"negatives", "100"}, {"sampler", "frequency"}, {NULL, NULL}};
    static settings shared = {{"negatives", "1000"}, {"sampler", "frequency"}, {"shared", "yes"}, {NULL, NULL}};
    const bool single = c->run.batch == 1; /* single rows cannot share classes, so they get fewer */
    xsmi_candidate candidate = by_adagrad(c, &of_vectors);
    candidate.hidden = single || c->survey.nonzeros < WIDE_FEATURES ? VECTOR : VECTOR_WIDE;
    return add(c, candidate, "sampled-softmax", single ? alone : shared, err);
}

static xsm_status list_sampled(xsmi_chooser *c, xsm_error *err)
{
    static settings few = {{"negatives", "20"}, {"sampler", "frequency"}, {NULL, NULL}};
    static settings more = {{"negatives", "50"}, {"sampler", "frequency"}, {NULL, NULL}};
    static settings uniform = {{"negatives", "50"}, {NULL, NULL}};
    if (c->survey.several) {
        XSMI_TRY(add(c, (xsmi_candidate){0}, "sampled-softmax", more, err));
        return add(c, (xsmi_candidate){0}, "one-vs-all-sampled", uniform, err);
    }
    XSMI_TRY(add(c, (xsmi_candidate){0}, "nce", few, err));
    return add(c, (xsmi_candidate){0}, "sampled-softmax", more, err);
}

xsm_status xsmi_candidates_list(xsmi_chooser *c, xsm_error *err)
{
    xsm_estimator *given = c->options.estimator;
    const bool lbfgs = c->options.optimizer && strcmp(c->options.optimizer, "lbfgs") == 0;
    const double k = (double)c->train->classes, pass = (double)c->train->rows * k * (c->survey.nonzeros + OVERHEAD);
    if (lbfgs) {
        XSMI_TRY(xsmi_fit_check(err));
    }
    if (given) {
        return add(c, (xsmi_candidate){.estimator = given, .full = lbfgs}, NULL, NULL, err);
    }
    if (lbfgs) {
        return add(c, (xsmi_candidate){.full = true}, "softmax", NULL, err);
    }
    return EXACT_COST * pass <= CHEAP || k <= FEW_CLASSES ? list_exact(c, pass, err)
           : tries_vectors(c)                             ? list_vectors(c, err)
                                                          : list_sampled(c, err);
}
