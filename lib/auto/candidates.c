/*
 * What xsm_choose() compares: the portfolio, a table of methods with their options, each with the counts of rows,
 * features, classes and labels that it is for; and the work of each.
 */
#include "auto/choose.h"
#include "base/order.h"
#include "model/divided.h"
#include "methods/registry.h"
#include "train/fit.h"

#include <xsoftmax/ext/label_tree.h>

#include <math.h>
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
/* Costs of a label tree for each feature and label of a row: of a level of a tree, and of a class of a leaf. */
#define TREE_COST 130.0
#define LEAF_COST 2.0
/* The same in judging a row by one, whatever its classes. */
#define TREE_SCORE_COST 6000.0
/* How much longer a label tree takes that learns from the mistakes of a beam, too. */
#define BEAM_TIMES 5.0
/* The most labels of a leaf by default, and of a tree without inner nodes. */
enum { TREE_LEAF = 100, FLAT_CLASSES = 4096 };
/* A pass over all rows and classes is cheap up to this work, or up to so many classes. So quick that a label tree,
 * which leaves most classes out to save time, has nothing to save, up to that. */
#define CHEAP 6e9
#define QUICK 1.6e9
enum { FEW_CLASSES = 100 };
/* lbfgs needs dozens of passes a trial, so it is tried only up to so many multiplications a pass, and so many
 * weights. */
#define FIT_PASS 1e7
#define FIT_WEIGHTS 2e6
/* The length of an embedding model's vectors: wide ones if rows have many features. */
enum { VECTOR = 256, VECTOR_WIDE = 512, WIDE_FEATURES = 32 };
/* Beside label trees, methods that sample classes are tried where a class has so many labels in the mean: with
 * EPOCHS_VECTOR its vector has some thirty steps as the right one then. */
#define TAUGHT 8.0
/* The run's epochs at most, by kind of candidate method. For an embedding model's rate, few passes over many rows tell
 * more than many passes over few rows, which are memorised. A single pass favours rates with which the run overfits. */
enum { EPOCHS_CHEAP = 10, EPOCHS_LARGE = 5, EPOCHS_VECTOR = 4, PASSES_VECTOR = 2 };
/* adagrad in batches: how many steps a pass has, the largest batch, and what its sums start at. */
typedef struct batching {
    uint64_t steps, most;
    double initial;
} batching;
static const batching of_vectors = {1000, 128, 0.004}, of_exact = {100, 64, 4};
enum { BATCH_LEAST = 8 };

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

double xsmi_candidates_judging(const xsmi_chooser *c, const xsmi_candidate *candidate)
{
    const uint32_t hidden = candidate->hidden;
    const double features = c->survey.nonzeros + OVERHEAD, classes = (double)c->train->classes;
    return candidate->tree ? candidate->tree->trees * features * TREE_SCORE_COST
                           : classes * (hidden ? hidden * SCORE_COST : features * EXACT_COST);
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

/* -- the portfolio ------------------------------------------------------------------------------------------------- */

/* How a line's numbers are searched. */
typedef enum way {
    AS_IT_IS, /* it has none */
    BY_RATE,  /* the learning rate, then for exact ones the L2 penalty (ridge) */
    BESIDE,   /* one trial after those of the line before it, at a rate that follows from its rate, if it has one */
    AT_ONCE   /* lbfgs: the ridge */
} way;

/* How many labels rows have. */
typedef enum of_rows { ONE = 1, SEVERAL = 2, ANY = ONE | SEVERAL } of_rows;

enum { SETTINGS = 3 };

/* A line of the portfolio: a method with its options. */
typedef struct line {
    const char *method; /* an estimator, or XSMI_LABEL_TREE */
    of_rows labels;
    bool (*applies)(
        const xsmi_chooser *c); /* by the numbers of rows, features, classes and labels, and what is given */
    way way;
    const batching *batching; /* NULL: single rows */
    uint32_t hidden, wide;   /* length of an embedding model's vectors, and where rows have many features; 0 = linear */
    uint64_t epochs, passes; /* the most of the run and of a trial; 0: by whether every class is scored */
    const char *options[SETTINGS][2];
} line;

/* The multiplications of a pass over all rows and classes. */
static double pass_of(const xsmi_chooser *c)
{
    return (double)c->train->rows * (double)c->train->classes * (c->survey.nonzeros + OVERHEAD);
}

/* Whether every class can be scored for every row. */
static bool scores_all(const xsmi_chooser *c)
{
    return EXACT_COST * pass_of(c) <= CHEAP || c->train->classes <= FEW_CLASSES;
}

/* Whether settings of steps are given: they are meant for steps on linear scores. */
static bool steps_given(const xsmi_chooser *c)
{
    return c->options.optimizer || c->run.epochs || c->run.batch || c->run.eta > 0 || c->options.keep_schedule;
}

/* Whether embedding models may be tried. They are trained by adagrad, which supports no L2 penalty (ridge); a given
 * learning rate is meant for steps on linear scores (logits). */
static bool takes_vectors(const xsmi_chooser *c)
{
    const char *optimizer = c->options.optimizer;
    return !scores_all(c) && c->options.embedding && c->train->sparse &&
           (!optimizer || strcmp(optimizer, "adagrad") == 0) && !(c->ridge > 0) && !(c->run.eta > 0);
}

/* Whether classes have labels enough to train their weights or vectors from a few steps each. */
static bool has_labels(const xsmi_chooser *c)
{
    return (double)c->train->counted.labels >= TAUGHT * (double)c->train->classes;
}

/* Whether held-back rows would overrate label trees beside embedding models. */
static bool overrates_trees(const xsmi_chooser *c)
{
    return c->survey.nonzeros < XSMI_KEY_FEATURES && has_labels(c) && takes_vectors(c);
}

/* With several labels a row a label tree has no log-loss to be judged by. */
static bool tries_trees(const xsmi_chooser *c)
{
    const xsm_dataset *d = c->train;
    const bool judged = !(c->survey.several && c->judge == XSMI_JUDGE_CALIBRATED);
    const bool weighed = !(c->survey.several && d->label_weights); /* it weighs rows, not labels */
    return c->options.label_tree && judged && weighed && d->sparse && d->features > 0 &&
           EXACT_COST * pass_of(c) > QUICK && !overrates_trees(c) && d->rows < UINT32_MAX - 1 &&
           d->classes <= INT32_MAX && !steps_given(c) && c->ridge < 0;
}

/* Where the first place alone counts: the mistakes of a beam as negatives rank it better with one label a row, and have
 * a worse log-loss. */
static bool tries_ranking_trees(const xsmi_chooser *c)
{
    return tries_trees(c) && c->judge == XSMI_JUDGE_PRECISION;
}

/* A single node over all classes: exact one-vs-rest. */
static bool tries_flat_trees(const xsmi_chooser *c)
{
    return tries_trees(c) && !scores_all(c) && c->train->classes > TREE_LEAF && c->train->classes <= FLAT_CLASSES;
}

/* Where classes have too few labels, label trees, if they may be tried and there is no budget that they might exceed,
 * are tried alone. */
static bool is_taught(const xsmi_chooser *c)
{
    return has_labels(c) || !tries_trees(c) || c->options.seconds > 0;
}

static bool tries_vectors(const xsmi_chooser *c)
{
    return takes_vectors(c) && is_taught(c);
}

static bool tries_shared_vectors(const xsmi_chooser *c)
{
    return tries_vectors(c) && c->run.batch != 1;
}

/* Single rows cannot share classes, so they get fewer. */
static bool tries_single_vectors(const xsmi_chooser *c)
{
    return tries_vectors(c) && c->run.batch == 1;
}

static bool samples(const xsmi_chooser *c)
{
    return !scores_all(c) && !takes_vectors(c) && is_taught(c);
}

/* Whether exact candidate methods with adagrad, in batches, may be tried. It supports no L2 penalty (ridge), and a
 * given learning rate, batch size of 1 or optimizer is meant for steps of another kind. With few classes its steps cost
 * more than single ones. */
static bool tries_adagrad(const xsmi_chooser *c)
{
    return scores_all(c) && c->train->classes > FEW_CLASSES && !c->options.optimizer && !(c->ridge > 0) &&
           !(c->run.eta > 0) && c->run.batch != 1;
}

/* Whether lbfgs may be tried too: this build has it, and no batches, epochs or rates are given, by which steps would be
 * meant. */
static bool tries_fit(const xsmi_chooser *c)
{
    return scores_all(c) && !steps_given(c) && xsmi_fit_check(NULL) == XSM_OK && pass_of(c) <= FIT_PASS &&
           (double)c->train->classes * (double)c->train->features <= FIT_WEIGHTS;
}

/* In the order of the trials: the cheapest first. A line that is searched BESIDE follows the line that it is beside. */
static const line portfolio[] = {
    {XSMI_LABEL_TREE, ANY, tries_trees, AS_IT_IS, NULL, 0, 0, 1, 1, {{"trees", "1"}}},
    {XSMI_LABEL_TREE, ANY, tries_trees, AS_IT_IS, NULL, 0, 0, 1, 1, {{"trees", "3"}}},
    {XSMI_LABEL_TREE, ONE, tries_trees, BESIDE, NULL, 0, 0, 1, 1, {{"trees", "3"}, {"link", "normalised"}}},
    {XSMI_LABEL_TREE,
     ONE,
     tries_ranking_trees,
     AS_IT_IS,
     NULL,
     0,
     0,
     1,
     1,
     {{"trees", "3"}, {"link", "normalised"}, {"negatives", "10"}}},
    {XSMI_LABEL_TREE, ANY, tries_flat_trees, AS_IT_IS, NULL, 0, 0, 1, 1, {{"trees", "1"}, {"leaf", "4096"}}},
    {"softmax", ONE, scores_all, BY_RATE, NULL, 0, 0, 0, 0, {{0}}},
    {"softmax", ONE, tries_adagrad, BESIDE, &of_exact, 0, 0, 0, 0, {{0}}},
    {"softmax", ONE, tries_fit, AT_ONCE, NULL, 0, 0, 0, 0, {{0}}},
    {"one-vs-all", SEVERAL, scores_all, BY_RATE, NULL, 0, 0, 0, 0, {{0}}},
    {"one-vs-all", SEVERAL, tries_adagrad, BESIDE, &of_exact, 0, 0, 0, 0, {{0}}},
    {"softmax", SEVERAL, scores_all, BY_RATE, NULL, 0, 0, 0, 0, {{0}}},
    {"sampled-softmax",
     ANY,
     tries_shared_vectors,
     BY_RATE,
     &of_vectors,
     VECTOR,
     VECTOR_WIDE,
     EPOCHS_VECTOR,
     PASSES_VECTOR,
     {{"negatives", "1000"}, {"sampler", "frequency"}, {"shared", "yes"}}},
    {"sampled-softmax",
     ANY,
     tries_single_vectors,
     BY_RATE,
     &of_vectors,
     VECTOR,
     VECTOR,
     EPOCHS_VECTOR,
     PASSES_VECTOR,
     {{"negatives", "100"}, {"sampler", "frequency"}}},
    {"nce", ONE, samples, BY_RATE, NULL, 0, 0, 0, 0, {{"negatives", "20"}, {"sampler", "frequency"}}},
    {"sampled-softmax", ANY, samples, BY_RATE, NULL, 0, 0, 0, 0, {{"negatives", "50"}, {"sampler", "frequency"}}},
    {"one-vs-all-sampled", SEVERAL, samples, BY_RATE, NULL, 0, 0, 0, 0, {{"negatives", "50"}}},
};

/* -- candidates ---------------------------------------------------------------------------------------------------- */

/* The batch of a line: a power of two that leaves a pass enough steps. */
static uint64_t batch_of(const xsmi_chooser *c, const batching *b)
{
    uint64_t batch = BATCH_LEAST;
    while (b && batch < b->most && 2 * batch * b->steps <= c->train->rows) {
        batch *= 2;
    }
    return c->run.batch ? c->run.batch : b ? batch : 1;
}

static xsm_status add_tree(xsmi_chooser *c, const line *from, xsmi_candidate *candidate, xsm_error *err)
{
    xsm_label_tree_options *tree = &c->result->trees[c->candidate_count];
    const double labels = (double)c->train->counted.labels / (double)c->train->rows;
    *tree = (xsm_label_tree_options)XSM_LABEL_TREE_OPTIONS_INIT;
    for (size_t i = 0; i < SETTINGS && from->options[i][0]; i++) {
        XSMI_TRY(xsm_label_tree_set(tree, from->options[i][0], from->options[i][1], err));
    }
    tree->seed = c->run.seed;
    candidate->kind = XSMI_KIND_TREE;
    candidate->tree = tree;
    candidate->epochs = candidate->passes = 1;
    const double classes = (double)c->train->classes, leaf = fmin(classes, tree->leaf ? tree->leaf : TREE_LEAF);
    const double times = (double)tree->trees * (tree->negatives > 0 ? BEAM_TIMES : 1);
    candidate->work = times * labels * (c->survey.nonzeros + OVERHEAD) * (TREE_COST * log2(classes) + LEAF_COST * leaf);
    c->candidate_count++;
    return XSM_OK;
}

/* Adds a line's candidate, or that of the caller's estimator. */
static xsm_status add(xsmi_chooser *c, const line *from, xsm_estimator *given, xsm_error *err)
{
    xsmi_candidate *candidate = &c->candidates[c->candidate_count];
    const char *optimizer = c->options.optimizer;
    const bool full = from->way == AT_ONCE, wide = c->survey.nonzeros >= WIDE_FEATURES;
    *candidate = (xsmi_candidate){.method = from->method, .follows = from->way == BESIDE, .full = full};
    if (strcmp(from->method, XSMI_LABEL_TREE) == 0) {
        return add_tree(c, from, candidate, err);
    }
    candidate->estimator = given;
    candidate->optimizer = full ? "lbfgs" : optimizer ? optimizer : from->batching ? "adagrad" : "sgd";
    candidate->initial = from->batching ? from->batching->initial : 0;
    candidate->batch = batch_of(c, from->batching);
    candidate->hidden = wide ? from->wide : from->hidden;
    candidate->kind = candidate->hidden ? XSMI_KIND_EMBEDDING : XSMI_KIND_LINEAR;
    candidate->ridge = c->ridge >= 0 ? c->ridge : given ? given->common.ridge : 0;
    if (!given) {
        XSMI_TRY(xsm_estimator_new(c->runner.context, from->method, &candidate->estimator, err));
        candidate->own = true;
    }
    c->candidate_count++;
    c->stepped = c->stepped ? c->stepped : candidate;
    for (size_t i = 0; i < SETTINGS && from->options[i][0]; i++) {
        XSMI_TRY(xsm_estimator_set(candidate->estimator, from->options[i][0], from->options[i][1], err));
    }
    if (candidate->own) {
        XSMI_TRY(xsm_estimator_set_number(candidate->estimator, "seed", (int64_t)(c->run.seed & INT64_MAX), err));
    }
    XSMI_TRY(measure(c, candidate, err));
    const uint64_t own = from->epochs ? from->epochs : candidate->exact ? EPOCHS_CHEAP : EPOCHS_LARGE;
    candidate->epochs = c->run.epochs ? c->run.epochs : own;
    candidate->passes = from->passes ? XSMI_MIN(candidate->epochs, from->passes) : candidate->epochs;
    return XSM_OK;
}

/* Whether the classes are enough for all ranks. Of label trees each rank has the whole. */
static bool divides(const xsmi_chooser *c)
{
    return !c->runner.group || xsmi_enough_classes(c->train->classes, xsmi_ranks(c->runner.group));
}

/* Adds a line, or says why it is left out. */
static xsm_status add_line(xsmi_chooser *c, const line *from, xsm_error *err)
{
    if (strcmp(from->method, XSMI_LABEL_TREE) == 0 || divides(c)) {
        return add(c, from, NULL, err);
    }
    xsmi_log(c->runner.context, XSM_LOG_WARNING, "'%s' is not tried: %u classes cannot be divided among %u ranks",
             from->method, c->train->classes, xsmi_ranks(c->runner.group));
    return XSM_OK;
}

xsm_status xsmi_candidates_list(xsmi_chooser *c, xsm_error *err)
{
    const bool lbfgs = c->options.optimizer && strcmp(c->options.optimizer, "lbfgs") == 0;
    xsm_estimator *given = c->options.estimator;
    const line single = {.method = given ? given->ops.name : "softmax", .way = lbfgs ? AT_ONCE : BY_RATE};
    if (lbfgs) {
        XSMI_TRY(xsmi_fit_check(err));
    }
    if (given || lbfgs) {
        return add(c, &single, given, err);
    }
    for (size_t i = 0; i < sizeof portfolio / sizeof portfolio[0]; i++) {
        if ((portfolio[i].labels & (c->survey.several ? SEVERAL : ONE)) && portfolio[i].applies(c)) {
            XSMI_TRY(add_line(c, &portfolio[i], err));
        }
    }
    /* None is left where the classes are too few for the ranks: making a model fails, and says so. */
    return c->candidate_count > 0 ? XSM_OK : xsmi_candidate_model(c, &(xsmi_candidate){.method = NULL}, err);
}
