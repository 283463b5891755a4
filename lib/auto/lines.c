/*
 * What xsm_choose() compares: the portfolio, a table of methods with their options, and the work of each. Whether a
 * line is tried depends on the options, on memory and on the price of its run, and not on guesses about the rows: the
 * race finds out which method suits them.
 */
#include "auto/choose.h"
#include "base/order.h"
#include "methods/registry.h"
#include "model/score.h"
#include "train/fit.h"

#include <xsoftmax/label_tree.h>
#include <xsoftmax/ext/optimizer.h>

#include <math.h>
#include <string.h>

/* Work is counted in multiplications, which describe it roughly. A sampled class must be read from memory, while an
 * exact step finds the weights of the next class beside those of the last. */
#define EXACT_COST 2.0
#define SAMPLED_COST 16.0
#define FAR_COST 160.0 /* the same if the weights, at least NEAR_BYTES, do not fit into a cache */
#define NEAR_BYTES 3e7
#define DENSE_COST 0.25 /* the same for dense rows in products of matrices */
#define OVERHEAD 8.0    /* fixed work of a row, in non-zeros */
#define STEP_COST 8e3   /* fixed work of an exact step */
/* In sparse rows a feature's weights of all classes are changed in vectors of that many; finding them costs one more
 * vector. */
#define VECTOR_WEIGHTS 16.0
/* The cost of a weight that adagrad changes, besides its score: weight and sum are read and written, 16 bytes, of which
 * memory streams two in the time of a multiplication (16 GB/s a core); in a cache, the root and the division take as
 * long. */
#define RULE_COST 8.0
/* The cost of a number in new memory, which the system clears page by page: class means, and the sums of adagrad. */
#define NEW_COST 16.0
/* Costs of an embedding model, whose vectors are short and mostly in a cache, for each number of a vector: in training;
 * for each further row if its batch shares the vector; in judging. */
#define VECTOR_COST 10.0
#define SHARED_COST 0.45
#define SCORE_COST 0.1
/* Costs of a label tree for each feature and label of a row: of a level of a tree, and of a class of a leaf. */
#define TREE_COST 104.0
#define LEAF_COST 1.6
/* Costs of a class that a search scores. It scores BEAM_CLASSES on each level, with 2^ARITY_BITS children of a node, or
 * all. */
#define TREE_SCORE_COST 6.0
#define BEAM_CLASSES 300.0
#define ARITY_BITS 4.0
/* The cost of lbfgs for each weight in an iteration. */
#define FIT_COST 250.0
/* How many times longer a label tree takes if it also learns from the mistakes of a beam. */
#define BEAM_TIMES 5.0
/* Multiplications a second of a usual machine, and in training embedding models: they convert work to seconds. The real
 * speed is not used, so that the choice is the same on any machine; with a time budget, it is used once it is
 * measured. */
#define SPEED 8e9
#define SPEED_VECTORS 2e10
/* A line is tried if its run takes at most RUN_MOST seconds, or RUN_TIMES the time of the cheapest one, and if its
 * model and optimizer take at most BYTES_MOST. Where there are embedding models, the cheapest one is a label tree or an
 * embedding model, and RUN_OTHERS replaces RUN_MOST, or RUN_LINEAR does for linear models. */
#define RUN_MOST 60.0
#define RUN_OTHERS 5.0
#define RUN_LINEAR 20.0
#define RUN_TIMES 4.0
#define BYTES_MOST 8e9
#define VALUE_BYTES 8.0 /* bytes of a value of a sparse row */
/* Costs of class means: for each feature and label of a row, and for each comparison of a row with a class in the
 * search for the variance. */
#define MEANS_COST 20.0
#define MEANS_SEARCH_COST 4e3
/* The most classes of a leaf by default, the most classes of a tree without inner nodes, and the number of trees if
 * there is time for them; with a time budget. */
enum { TREE_LEAF = 100, FLAT_CLASSES = 4096, TREES = 3, TREES_BUDGET = 9 };
/* The length of an embedding model's vectors: wide ones if rows have many features. */
enum { VECTOR = 256, VECTOR_WIDE = 512, WIDE_FEATURES = 32 };
/* Passes of a run for each kind of line, and iterations of lbfgs. */
enum { EPOCHS_EXACT = 10, EPOCHS_SAMPLED = 5, EPOCHS_VECTOR = 4, ITERATIONS = 100 };
/* The number of classes that a batch draws; if there are hardly more classes, all are scored. */
#define SHARED "1000"
enum { MANY_CLASSES = 1000 };
/* With fewer features a row, the features nearly identify it, and rows that are held back resemble training rows. They
 * then overrate methods that memorise rows, such as label trees, compared with vectors that had some thirty steps for
 * each class. */
#define KEY_FEATURES 4.0
#define TAUGHT 8.0
/* adagrad in batches: the number of steps of a pass, the largest batch, and the initial value of its sums. */
typedef struct batching {
    uint64_t steps, most;
    double initial;
} batching;
static const batching of_vectors = {1000, 128, 0.004}, of_exact = {100, 64, 4};
enum { BATCH_LEAST = 8 };

/* -- work ---------------------------------------------------------------------------------------------------------- */

static double line_floats(const xsmi_chooser *c, const xsmi_line *line)
{
    const double features = (double)c->train->features + (c->options.bias != 0), classes = (double)c->train->classes;
    return line->hidden ? line->hidden * (features + classes) : features * classes;
}

/* Returns the work of an exact step for an example. Batches of dense rows are scored, and their gradients are summed
 * twice, in products of matrices. A rule changes a weight once for each batch, which has at most all features. */
static double exact_cost(const xsmi_chooser *c, const xsmi_line *line, double batch)
{
    const double k = (double)c->train->classes, together = batch > 1 || line->full ? 3 * DENSE_COST : EXACT_COST;
    const double classes = c->train->sparse ? VECTOR_WEIGHTS * (ceil(k / VECTOR_WEIGHTS) + 1) : k;
    const double changed = line->sums * fmin(c->survey.nonzeros, (double)c->train->features / batch);
    const double scored = (c->train->sparse ? EXACT_COST : together) * (c->survey.nonzeros + OVERHEAD);
    return classes * (scored + RULE_COST * changed) + (line->full ? 0 : STEP_COST / batch);
}

/* Returns the work of an example in batches of that length. */
static double cost(const xsmi_chooser *c, const xsmi_line *line, double batch)
{
    const xsm_estimator *e = line->estimator;
    const double width = (double)line->width;
    const double shares = e->common.shared && batch > 1 ? SHARED_COST + VECTOR_COST / batch : VECTOR_COST;
    if (line->hidden) {
        return (double)line->hidden * (shares * width + VECTOR_COST * c->survey.nonzeros);
    }
    if (line->exact) {
        return exact_cost(c, line, batch);
    }
    const double features = c->survey.nonzeros + OVERHEAD;
    const double sampled = line_floats(c, line) > NEAR_BYTES / 4 ? FAR_COST : SAMPLED_COST;
    const bool rows = e->common.shared && batch > 1 && !c->train->sparse; /* products of matrices */
    return features * (rows ? shares * width : sampled * width);
}

static double judging(const xsmi_chooser *c, const xsmi_line *line)
{
    const uint32_t hidden = line->hidden;
    const double features = c->survey.nonzeros + OVERHEAD, classes = (double)c->train->classes;
    const double searched = fmin(classes, BEAM_CLASSES) * ceil(log2(classes) / ARITY_BITS);
    return line->tree ? line->tree->trees * features * TREE_SCORE_COST * searched
                      : classes * (hidden             ? hidden * SCORE_COST
                                   : c->train->sparse ? features * EXACT_COST
                                                      : features * DENSE_COST);
}

/* A pass has the same number of steps on every share, as far as batches keep some rows, so that a rate has the same
 * effect on all. */
uint64_t xsmi_line_batch(const xsmi_chooser *c, const xsmi_line *line, uint64_t rows)
{
    const double batch = floor((double)line->batch * (double)rows / (double)c->train->rows + 0.5);
    return c->run.batch || line->batch < BATCH_LEAST ? line->batch
                                                     : (uint64_t)fmin(fmax(batch, BATCH_LEAST), (double)line->batch);
}

/* Returns the work of training besides its passes: new memory, and the search for the variance of class means. */
static double start_cost(const xsmi_chooser *c, const xsmi_line *line, double rows)
{
    if (line->kind != XSMI_KIND_MEANS) {
        return NEW_COST * line->sums * line_floats(c, line);
    }
    const double compared = fmin(rows, XSMI_MEANS_SAMPLE) * fmin((double)c->train->classes, XSMI_MEANS_SAMPLE);
    return NEW_COST * line_floats(c, line) + compared * (c->survey.nonzeros + MEANS_SEARCH_COST);
}

double xsmi_line_seconds(const xsmi_chooser *c, const xsmi_line *line, double rows, double judged)
{
    const double work = !line->estimator ? line->work : cost(c, line, (double)xsmi_line_batch(c, line, (uint64_t)rows));
    const double pass = rows * work + (line->full ? FIT_COST * line_floats(c, line) : 0);
    const double passes = rows > 0 ? (double)line->epochs * pass / line->speed : 0;
    const double trained = passes + (rows > 0 ? start_cost(c, line, rows) / SPEED : 0);
    return (trained + judged * line->judging / SPEED) * (line->pace > 0 ? line->pace : c->pace);
}

uint64_t xsmi_line_bytes(const xsmi_chooser *c, const xsmi_line *line, double fitted)
{
    return (uint64_t)(line->tree ? fitted * (double)c->train->rows / (double)c->rows.share : 4 * line_floats(c, line));
}

/* -- models -------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_line_model(xsmi_chooser *c, const xsmi_line *line, xsm_error *err)
{
    xsmi_runner *r = &c->runner;
    const xsm_dataset *d = c->train;
    const int32_t layout = xsmi_layout_for(line->exact, d->sparse);
    const uint32_t hidden = r->model ? xsmi_model_hidden_floats(r->model) : 0;
    if (r->model && hidden == line->hidden && (hidden || r->model->w.layout == layout)) {
        xsm_model_clear_correction(r->model);
        xsmi_model_drop_row_lengths(r->model);
        xsmi_model_zero(r->model);
        return XSM_OK;
    }
    xsm_model_free(r->model);
    r->model = NULL;
    if (line->hidden) {
        xsm_embedding_options e = XSM_EMBEDDING_OPTIONS_INIT;
        e.bias = c->options.bias != 0;
        e.seed = c->run.seed;
        return xsm_model_new_embedding(r->context, d->features, line->hidden, d->classes, &e, &r->model, err);
    }
    xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    o.bias = c->options.bias != 0;
    o.layout = layout;
    return xsm_model_new_linear(r->context, d->features, d->classes, &o, &r->model, err);
}

/* Binds the estimator to all rows: detects unsuitable data early and computes the work of a step. */
static xsm_status measure(xsmi_chooser *c, xsmi_line *line, xsm_error *err)
{
    xsm_estimator *e = line->estimator;
    if (!c->runner.model || line->hidden || xsmi_model_hidden_floats(c->runner.model)) {
        XSMI_TRY(xsmi_line_model(c, line, err));
    }
    XSMI_TRY(xsm_estimator_bind(e, c->runner.model, c->train, err));
    line->exact = e->exact;
    line->width = e->width;
    xsm_status status = line->full ? xsmi_estimator_check_full(e, err) : XSM_OK;
    xsmi_estimator_unbind(e);
    return status;
}

/* -- the portfolio ------------------------------------------------------------------------------------------------- */

/* How many labels rows have. */
typedef enum of_rows { ONE = 1, SEVERAL = 2, ANY = ONE | SEVERAL } of_rows;

enum { SETTINGS = 3 };

typedef struct method {
    const char *name; /* an estimator, XSMI_LABEL_TREE or XSMI_CLASS_MEANS */
    of_rows labels;
    bool (*applies)(const xsmi_chooser *c); /* whether it suits the rows and options */
    const char *optimizer;                  /* NULL: none, as there is no estimator */
    const batching *batching;               /* NULL: single rows */
    uint32_t hidden, wide; /* length of an embedding model's vectors, and their length if rows have many features; 0 =
                              linear */
    const char *options[SETTINGS][2];
} method;

/* Whether settings of steps are given: they are meant for steps on linear scores. */
static bool steps_given(const xsmi_chooser *c)
{
    return c->options.optimizer || c->run.epochs || c->run.batch || c->run.eta > 0 || c->options.keep_schedule;
}

static bool always(const xsmi_chooser *c)
{
    (void)c;
    return true;
}

static bool in_batches(const xsmi_chooser *c)
{
    return c->run.batch != 1;
}

static bool has_many(const xsmi_chooser *c)
{
    return c->train->classes > MANY_CLASSES;
}

static bool fits_at_once(const xsmi_chooser *c)
{
    return !steps_given(c) && xsmi_fit_check(NULL) == XSM_OK;
}

/* Whether embedding models may be tried: a given learning rate is meant for steps on linear scores. */
static bool has_vectors(const xsmi_chooser *c)
{
    return c->options.embedding && c->train->sparse && has_many(c) && !(c->run.eta > 0);
}

/* Whether embedding models are trained row by row: single rows cannot share classes. */
static bool has_single_vectors(const xsmi_chooser *c)
{
    return has_vectors(c) && c->run.batch == 1;
}

static bool has_shared_vectors(const xsmi_chooser *c)
{
    return has_vectors(c) && c->run.batch != 1;
}

static bool shares(const xsmi_chooser *c)
{
    return has_many(c) && c->run.batch != 1;
}

/* Whether single rows draw classes: batches cannot share classes, or rows would have to share features, too. */
static bool samples(const xsmi_chooser *c)
{
    return has_many(c) && !has_vectors(c) && (c->train->sparse || c->run.batch == 1);
}

static bool is_dense(const xsmi_chooser *c)
{
    return !c->train->sparse;
}

/* Whether label trees may be tried: with several labels a row, they have no log-loss to be judged by. */
static bool has_trees(const xsmi_chooser *c)
{
    const xsm_dataset *d = c->train;
    const bool judged = !(c->survey.several && c->measure == XSM_MEASURE_LOG_LOSS);
    const bool weighed = !(c->survey.several && d->label_weights); /* label trees weigh rows, not labels */
    const bool overrated =
        c->survey.nonzeros < KEY_FEATURES && has_vectors(c) && (double)d->counted.labels >= TAUGHT * (double)d->classes;
    return c->options.label_tree && judged && weighed && d->sparse && d->features > 0 && !overrated &&
           d->rows < UINT32_MAX - 1 && d->classes <= INT32_MAX && d->classes > 1 && !steps_given(c) && c->ridge < 0;
}

/* Whether only the best class counts. With one label a row, taking the mistakes of a beam as negatives finds it more
 * often, but has a worse log-loss. */
static bool has_ranking_trees(const xsmi_chooser *c)
{
    return has_trees(c) && c->measure == XSM_MEASURE_PRECISION;
}

/* Whether class means may be tried: they take one pass and have no settings. */
static bool has_means(const xsmi_chooser *c)
{
    return c->options.class_means && c->options.bias && c->train->features > 0 && !steps_given(c) && c->ridge < 0;
}

/* Whether a tree can be a single node over all classes: exact one-vs-rest. */
static bool has_flat_trees(const xsmi_chooser *c)
{
    return has_trees(c) && c->train->classes > TREE_LEAF && c->train->classes <= FLAT_CLASSES;
}

/* In each kind, the line with the cheapest run chooses the transform for the others. */
static const method portfolio[] = {
    {XSMI_LABEL_TREE, ANY, has_trees, NULL, NULL, 0, 0, {{0}}},
    {XSMI_LABEL_TREE, ONE, has_trees, NULL, NULL, 0, 0, {{"link", "normalised"}}},
    {XSMI_LABEL_TREE, ONE, has_ranking_trees, NULL, NULL, 0, 0, {{"link", "normalised"}, {"negatives", "10"}}},
    {XSMI_LABEL_TREE, ANY, has_flat_trees, NULL, NULL, 0, 0, {{"trees", "1"}, {"leaf", "4096"}}},
    {XSMI_CLASS_MEANS, ANY, has_means, NULL, NULL, 0, 0, {{0}}},
    {"softmax", ONE, always, "sgd", NULL, 0, 0, {{0}}},
    {"softmax", ONE, in_batches, "adagrad", &of_exact, 0, 0, {{0}}},
    {"softmax", ONE, fits_at_once, "lbfgs", NULL, 0, 0, {{0}}},
    {"one-vs-all", SEVERAL, always, "sgd", NULL, 0, 0, {{0}}},
    {"one-vs-all", SEVERAL, in_batches, "adagrad", &of_exact, 0, 0, {{0}}},
    {"softmax", SEVERAL, always, "sgd", NULL, 0, 0, {{0}}},
    {"implicit", ONE, is_dense, "sgd", NULL, 0, 0, {{0}}},
    {"sampled-softmax",
     ANY,
     shares,
     "adagrad",
     &of_vectors,
     0,
     0,
     {{"negatives", SHARED}, {"sampler", "frequency"}, {"shared", "yes"}}},
    {"sampled-softmax", ANY, samples, "sgd", NULL, 0, 0, {{"negatives", "50"}, {"sampler", "frequency"}}},
    {"one-vs-all-sampled", SEVERAL, samples, "sgd", NULL, 0, 0, {{"negatives", "50"}}},
    {"sampled-softmax",
     ANY,
     has_shared_vectors,
     "adagrad",
     &of_vectors,
     VECTOR,
     VECTOR_WIDE,
     {{"negatives", SHARED}, {"sampler", "frequency"}, {"shared", "yes"}}},
    {"sampled-softmax",
     ANY,
     has_single_vectors,
     "adagrad",
     &of_vectors,
     VECTOR,
     VECTOR,
     {{"negatives", "100"}, {"sampler", "frequency"}}},
};
_Static_assert(sizeof portfolio / sizeof *portfolio <= XSMI_LINES_MOST, "a line for each");

/* Whether an optimizer supports an L2 penalty (ridge). */
static bool accepts_ridge(const char *name)
{
    const xsm_optimizer_ops *ops = xsm_optimizer_find(name);
    return strcmp(name, "lbfgs") == 0 || (ops && (ops->flags & XSM_OPTIMIZER_LINEAR) != 0);
}

/* Whether the options allow a method. */
static bool is_open(const xsmi_chooser *c, const method *m)
{
    const char *given = c->options.optimizer;
    const bool labels = (m->labels & (c->survey.several ? SEVERAL : ONE)) != 0;
    const char *optimizer = given && !m->batching ? given : m->optimizer;
    const bool steps = !m->optimizer || ((!given || !m->batching || strcmp(given, m->optimizer) == 0) &&
                                         (!(c->ridge > 0) || accepts_ridge(optimizer)));
    return labels && steps && m->applies(c);
}

/* -- lines --------------------------------------------------------------------------------------------------------- */

/* Returns the batch of a line: a power of two with which a pass has enough steps. */
static uint64_t batch_of(const xsmi_chooser *c, const batching *b)
{
    uint64_t batch = BATCH_LEAST;
    while (b && batch < b->most && 2 * batch * b->steps <= c->train->rows) {
        batch *= 2;
    }
    return c->run.batch ? c->run.batch : b ? batch : 1;
}

static double run_most(const xsmi_chooser *c)
{
    return c->options.seconds > 0 ? c->options.seconds : RUN_MOST;
}

uint32_t xsmi_line_trees(const xsmi_chooser *c, const xsmi_line *line, double seconds)
{
    const xsm_label_tree_options *tree = line->tree;
    const double each = xsmi_line_seconds(c, line, (double)c->train->rows, 0) / tree->trees;
    const bool alike = tree->leaf || c->train->classes <= TREE_LEAF; /* a single node each */
    const double most = fmin(floor(seconds / each), TREES_BUDGET);
    return alike || most < tree->trees ? tree->trees : (uint32_t)most;
}

static xsm_status add_tree(xsmi_chooser *c, const method *m, xsmi_line *line, xsm_error *err)
{
    xsm_label_tree_options *tree = &c->result->trees[c->line_count];
    const double labels = (double)c->train->counted.labels / (double)c->train->rows;
    *tree = (xsm_label_tree_options)XSM_LABEL_TREE_OPTIONS_INIT;
    for (size_t i = 0; i < SETTINGS && m->options[i][0]; i++) {
        XSMI_TRY(xsm_label_tree_set(tree, m->options[i][0], m->options[i][1], err));
    }
    tree->seed = c->run.seed;
    line->kind = XSMI_KIND_TREE;
    line->tree = tree;
    line->epochs = 1;
    line->speed = SPEED;
    const double classes = (double)c->train->classes, leaf = fmin(classes, tree->leaf ? tree->leaf : TREE_LEAF);
    const double times = tree->negatives > 0 ? BEAM_TIMES : 1;
    line->work = times * labels * (c->survey.nonzeros + OVERHEAD) * (TREE_COST * log2(classes) + LEAF_COST * leaf);
    /* More trees do not harm: the log-loss of the trees' mean probability is at most the mean of their log-losses
     * (Jensen's inequality). */
    if (!tree->trees) {
        const double three = TREES * xsmi_line_seconds(c, line, (double)c->train->rows, 0);
        tree->trees = three <= run_most(c) ? TREES : 1;
    }
    line->work *= tree->trees;
    line->judging = judging(c, line);
    c->line_count++;
    return XSM_OK;
}

/* Adds a line, with the caller's estimator if there is one. */
static xsm_status add(xsmi_chooser *c, const method *m, xsm_estimator *given, xsm_error *err)
{
    xsmi_line *line = &c->lines[c->line_count];
    *line = (xsmi_line){.method = m->name};
    if (m->applies == has_means) {
        line->kind = XSMI_KIND_MEANS;
        line->epochs = 1;
        line->speed = SPEED;
        line->work = MEANS_COST * c->survey.nonzeros * (double)c->train->counted.labels / (double)c->train->rows;
        line->judging = judging(c, line);
        c->line_count++;
        return XSM_OK;
    }
    if (!m->optimizer) {
        return add_tree(c, m, line, err);
    }
    line->estimator = given;
    line->optimizer = c->options.optimizer ? c->options.optimizer : m->optimizer;
    line->full = strcmp(line->optimizer, "lbfgs") == 0;
    line->initial = m->batching ? m->batching->initial : 0;
    line->batch = batch_of(c, m->batching);
    line->hidden = c->survey.nonzeros >= WIDE_FEATURES ? m->wide : m->hidden;
    line->kind = line->hidden ? XSMI_KIND_EMBEDDING : XSMI_KIND_LINEAR;
    line->speed = line->hidden ? SPEED_VECTORS : SPEED;
    const xsm_optimizer_ops *ops = xsm_optimizer_find(line->optimizer); /* NULL: lbfgs, or unknown, which a trial will
                                                                           refuse */
    line->sums = ops ? ops->accumulators : 0;
    line->ridge = c->ridge >= 0 ? c->ridge : given ? given->common.ridge : 0;
    line->rates = !line->full && !(c->run.eta > 0);
    if (!given) {
        XSMI_TRY(xsm_estimator_new(c->runner.context, m->name, &line->estimator, err));
        line->own = true;
    }
    c->line_count++;
    for (size_t i = 0; i < SETTINGS && m->options[i][0]; i++) {
        XSMI_TRY(xsm_estimator_set(line->estimator, m->options[i][0], m->options[i][1], err));
    }
    if (line->own) {
        XSMI_TRY(xsm_estimator_set_number(line->estimator, "seed", (int64_t)(c->run.seed & INT64_MAX), err));
    }
    XSMI_TRY(measure(c, line, err));
    line->ridges = c->ridge < 0 && line->own && line->exact && accepts_ridge(line->optimizer);
    line->judging = judging(c, line);
    const uint64_t own = line->full     ? ITERATIONS
                         : line->hidden ? EPOCHS_VECTOR
                         : line->exact  ? EPOCHS_EXACT
                                        : EPOCHS_SAMPLED;
    line->epochs = c->run.epochs && !line->full ? c->run.epochs : own;
    return XSM_OK;
}

/* Whether a model of a line and its optimizer will fit into memory. */
static bool fits(const xsmi_chooser *c, const method *m)
{
    const xsmi_line shape = {.hidden = m->hidden};
    const double copies = m->batching ? 2 : 1;
    return strcmp(m->name, XSMI_LABEL_TREE) == 0 || copies * (double)xsmi_line_bytes(c, &shape, 0) <= BYTES_MOST;
}

static double run_of(const xsmi_chooser *c, const xsmi_line *line)
{
    return xsmi_line_seconds(c, line, (double)c->train->rows, 0);
}

static void order_by_price(xsmi_chooser *c)
{
    for (size_t i = 1; i < c->line_count; i++) {
        const xsmi_line line = c->lines[i];
        size_t at = i;
        for (; at > 0 && run_of(c, &line) < run_of(c, &c->lines[at - 1]); at--) {
            c->lines[at] = c->lines[at - 1];
        }
        c->lines[at] = line;
    }
}

/* Drops lines whose run takes too long. The cheapest line is the measure, but not class means, which have no run. */
static void drop_slow(xsmi_chooser *c)
{
    bool others = false;
    for (size_t i = 0; i < c->line_count && has_vectors(c) && !(c->options.seconds > 0); i++) {
        others = others || c->lines[i].kind == XSMI_KIND_TREE || c->lines[i].kind == XSMI_KIND_EMBEDDING;
    }
    const double least = others ? RUN_OTHERS : run_most(c), linear = others ? RUN_LINEAR : least;
    double most = 0;
    size_t kept = 0;
    for (size_t i = 0; i < c->line_count; i++) {
        const xsmi_line line = c->lines[i];
        const double run = run_of(c, &line);
        const bool measures = line.kind != XSMI_KIND_MEANS && !(others && line.kind == XSMI_KIND_LINEAR);
        most = measures && !(most > 0) ? fmax(least, RUN_TIMES * run) : most;
        if (run <= (measures ? most : linear)) {
            c->lines[kept++] = line;
        } else if (line.own) {
            xsm_estimator_free(line.estimator);
        }
    }
    c->line_count = kept;
}

xsm_status xsmi_lines_list(xsmi_chooser *c, xsm_error *err)
{
    const bool lbfgs = c->options.optimizer && strcmp(c->options.optimizer, "lbfgs") == 0;
    xsm_estimator *given = c->options.estimator;
    if (lbfgs) {
        XSMI_TRY(xsmi_fit_check(err));
    }
    if (given || lbfgs) {
        const char *optimizer = c->options.optimizer ? c->options.optimizer : "sgd";
        const method single = {.name = given ? given->ops.name : "softmax", .optimizer = optimizer};
        return add(c, &single, given, err);
    }
    for (size_t i = 0; i < sizeof portfolio / sizeof *portfolio; i++) {
        const method *m = &portfolio[i];
        XSMI_TRY(is_open(c, m) && fits(c, m) ? add(c, m, NULL, err) : XSM_OK);
    }
    order_by_price(c);
    drop_slow(c);
    /* If none is left, every model is too large: making one gives the error. */
    return c->line_count > 0 ? XSM_OK : xsmi_line_model(c, &(xsmi_line){.method = NULL}, err);
}

xsm_status xsmi_lines_of_texts(xsmi_chooser *c, xsm_error *err)
{
    static const method tree = {.name = XSMI_LABEL_TREE, .options = {{"trees", "1"}}};
    const double words = c->survey.nonzeros;
    for (uint32_t i = 0; i < c->text_count && has_trees(c); i++) {
        XSMI_TRY(xsmi_texts_measure(c, i, &c->survey.nonzeros, err));
        if (VALUE_BYTES * c->survey.nonzeros * (double)c->train->rows <= BYTES_MOST) {
            XSMI_TRY(add(c, &tree, NULL, err));
            c->lines[c->line_count - 1].text = i;
        }
    }
    c->survey.nonzeros = words;
    order_by_price(c);
    drop_slow(c);
    return XSM_OK;
}

void xsmi_lines_free(xsmi_chooser *c)
{
    for (size_t i = 0; i < c->line_count; i++) {
        if (c->lines[i].own) {
            xsm_estimator_free(c->lines[i].estimator);
        }
    }
}
