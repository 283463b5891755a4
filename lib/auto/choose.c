/*
 * Chooses a way to train by short runs that are judged on held-back rows.
 *
 * A way is an estimator with an optimizer and a kind of model. Few settings are tried, the most important first: the
 * ways that the numbers of rows and classes allow, and for each a learning rate and an L2 penalty (ridge), changed in
 * steps while the result improves. The plan depends on counts of work only; with a time budget, a pilot run measures
 * the work per second.
 */
#include "auto/choose.h"
#include "methods/method.h"
#include "train/trainer.h"

#include "optimizer/optimizer.h"

#include <math.h>
#include <string.h>

/* Work is counted in multiplications, as exactly as a single number can. A sampled class must be read from memory,
 * while an exact step finds the weights of the next class beside the last. */
#define EXACT_COST 2.0
#define SAMPLED_COST 16.0
#define FAR_COST 160.0 /* the same if the weights are in no cache */
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
/* The trials' work is limited to a multiple of the run's work (..._SHARE) plus a constant. */
#define CHEAP_SHARE 3.0
#define LARGE_SHARE 0.7
#define VECTOR_SHARE 0.45
#define ANYWAY 3e9
#define ANYWAY_SEVERAL 6e10 /* several labels a row: few rows need other rates and epochs than many */
/* Shares of a time budget: for the trials, and of the remaining time for the run, as estimates have errors. */
#define TRIAL_TIME 0.35
#define SAFE_TIME 0.9
/* Held-back rows: a share, a maximum, and the minimum of rows for meaningful trials. */
#define HELD_SHARE 0.1
enum {
    HELD_MOST = 2000,
    HELD_LEAST = 10,
    ROWS_LEAST = 100,
    EPOCHS_CHEAP = 10,
    EPOCHS_MORE = 2,
    EPOCHS_LARGE = 5,
    FIT_MOST = 200
};
/* The largest share of the trials' work for judging. */
#define JUDGING 0.2
/* Trials of a way, for the plan, which counts neither lbfgs nor ways that follow another one, if there are several. */
enum { TRIALS_EXACT = 7, TRIALS_LARGE = 4 };
const char *const xsmi_choose_transforms[XSMI_TRANSFORMS] = {"unit", "tfidf,unit"};
/* Rates and L2 penalties are searched in steps of half powers of ten: rates in 1 / mean ||x||^2, penalties in 0.1. */
enum { PLACE_MOST = 10 };
#define RIDGE_UNIT 0.1
/* Embedding models: adagrad's rates are this times powers of two. Its sums start at VECTOR_INITIAL over the square of
 * the batch size, because it squares the mean over the batch. */
#define VECTOR_RATE 0.05
#define VECTOR_INITIAL 0.004
#define VECTOR_MARGIN 0.04
enum { EPOCHS_VECTOR = 4, PASSES_VECTOR = 2 };
/* Strengths of pairs added to vectors: doubled while the loss improves by at least this share. */
#define PAIRS_FIRST 2.0
#define PAIRS_MOST 4.0
#define PAIRS_MARGIN 0.002
/* With fewer features a row, a pair nearly identifies a memorised row. Held-back rows are drawn at random and have
 * relatives among the trained rows, so they overrate such pairs in comparison with new rows. */
#define PAIRS_FEATURES 4.0
/* The length of their vectors: wide ones if rows have many features. */
enum { VECTOR = 256, VECTOR_WIDE = 512, WIDE_FEATURES = 32 };
/* Rows of their batches, chosen so that a pass has so many steps. */
enum { PASS_STEPS = 1000, BATCH_LEAST = 8, BATCH_MOST = 128 };
/* The same for exact ways with adagrad, and the start of its sums. */
enum { PASS_STEPS_EXACT = 100, BATCH_MOST_EXACT = 64 };
#define EXACT_INITIAL 4.0

/* -- ways ---------------------------------------------------------------------------------------------------------- */

/* The work of an example for a way whose estimator is bound. */
static double cost(const xsmi_chooser *c, const xsmi_way *way)
{
    const xsm_estimator *e = way->estimator;
    if (way->hidden) {
        const double batch = (double)xsmi_choose_batch(c, way);
        const double class_cost = e->common.shared && batch > 1 ? SHARED_COST + VECTOR_COST / batch : VECTOR_COST;
        return (double)way->hidden * (class_cost * (double)e->width + VECTOR_COST * c->nonzeros);
    }
    const double places = c->nonzeros + OVERHEAD, k = (double)c->train->classes;
    double touch = 4 * k * (double)c->train->features > NEAR_BYTES ? FAR_COST : SAMPLED_COST;
    return e->exact ? EXACT_COST * k * places : touch * (double)e->width * places;
}

/* Binds the way's estimator to all rows: detects unsuitable data early and computes the work of a step. */
static xsm_status measure(xsmi_chooser *c, xsmi_way *way, xsm_error *err)
{
    if (!c->model || way->hidden || c->model->layer) {
        XSMI_TRY(xsmi_choose_model(c, way, err));
    }
    xsm_status status = xsm_estimator_bind(way->estimator, c->model, c->train, err);
    if (status == XSM_OK && way->full) {
        status = xsmi_estimator_check_full(way->estimator, err);
    }
    if (status == XSM_OK) {
        way->exact = way->estimator->exact;
        way->ranked = c->several || (way->estimator->ops.flags & XSM_ESTIMATOR_OTHER_LOSS) != 0;
        way->work = cost(c, way);
        xsmi_estimator_unbind(way->estimator);
    }
    return status;
}

/* Adds one of the library's estimators to a way, with its options. */
static xsm_status add(xsmi_chooser *c, xsmi_way start, const char *name, const char *const (*settings)[2],
                      xsm_error *err)
{
    xsmi_way *way = &c->ways[c->way_count];
    *way = start;
    way->own = true;
    XSMI_TRY(xsm_estimator_new(c->context, name, &way->estimator, err));
    c->way_count++;
    for (size_t i = 0; settings && settings[i][0]; i++) {
        XSMI_TRY(xsm_estimator_set(way->estimator, settings[i][0], settings[i][1], err));
    }
    XSMI_TRY(xsm_estimator_set_int(way->estimator, "seed", (int64_t)(c->run.seed & INT64_MAX), err));
    return measure(c, way, err);
}

static xsm_status add_way(xsmi_chooser *c, const char *name, const char *const (*settings)[2], bool full,
                          xsm_error *err)
{
    return add(c, (xsmi_way){.full = full}, name, settings, err);
}

/* Whether embedding models may be tried. They are trained by adagrad, which supports no L2 penalty (ridge); a given
 * learning rate is meant for steps on linear scores (logits). */
static bool takes_vectors(const xsmi_chooser *c)
{
    const char *optimizer = c->options.optimizer;
    return c->options.embedding && c->train->sparse && (!optimizer || strcmp(optimizer, "adagrad") == 0) &&
           !(c->ridge > 0) && !(c->run.eta > 0);
}

/* The batch size: a power of two that leaves a pass enough steps. */
static uint64_t batch_for(const xsmi_chooser *c, uint64_t steps, uint64_t most)
{
    uint64_t batch = BATCH_LEAST;
    while (batch < most && 2 * batch * steps <= c->train->rows) {
        batch *= 2;
    }
    return batch;
}

/* The start of adagrad's sums, from the start for single rows: adagrad squares the mean over a batch. */
static double initial_for(const xsmi_chooser *c, const xsmi_way *way, double single)
{
    const double rows = fmin((double)xsmi_choose_batch(c, way), (double)c->train->rows);
    return single / (rows * rows);
}

/* Whether exact ways with adagrad, in batches, may be tried. It supports no L2 penalty (ridge), and a given learning
 * rate, batch size of 1 or optimizer is meant for steps of another kind. With few classes its steps cost more than
 * single ones. */
static bool takes_adagrad(const xsmi_chooser *c)
{
    return c->train->classes > FEW_CLASSES && !c->options.optimizer && !(c->ridge > 0) && !(c->run.eta > 0) &&
           c->run.batch != 1;
}

static bool is_lbfgs(const xsmi_chooser *c)
{
    return c->options.optimizer && strcmp(c->options.optimizer, "lbfgs") == 0;
}

/* Lists the ways to compare. */
static xsm_status list_ways(xsmi_chooser *c, xsm_error *err)
{
    static const char *const few[][2] = {{"negatives", "20"}, {"sampler", "frequency"}, {NULL, NULL}};
    static const char *const more[][2] = {{"negatives", "50"}, {"sampler", "frequency"}, {NULL, NULL}};
    static const char *const most[][2] = {{"negatives", "100"}, {"sampler", "frequency"}, {NULL, NULL}};
    static const char *const together[][2] = {
        {"negatives", "1000"}, {"sampler", "frequency"}, {"shared", "yes"}, {NULL, NULL}};
    static const char *const uniform[][2] = {{"negatives", "50"}, {NULL, NULL}};
    const bool lbfgs = is_lbfgs(c);
    if (c->options.estimator) {
        c->ways[0] = (xsmi_way){.estimator = c->options.estimator, .full = lbfgs};
        c->ways[0].ridge = c->ridge < 0 ? c->options.estimator->common.ridge : c->ridge;
        c->way_count = 1;
        return measure(c, &c->ways[0], err);
    }
    const double n = (double)c->train->rows, k = (double)c->train->classes, places = c->nonzeros + OVERHEAD;
    const bool cheap = EXACT_COST * n * k * places <= CHEAP || k <= FEW_CLASSES;
    if (lbfgs) {
        return add_way(c, "softmax", NULL, true, err);
    }
    if (cheap) {
        const char *first = c->several ? "one-vs-all" : "softmax";
        XSMI_TRY(add_way(c, first, NULL, false, err));
        if (takes_adagrad(c)) {
            xsmi_way way = {.optimizer = "adagrad", .batch = batch_for(c, PASS_STEPS_EXACT, BATCH_MOST_EXACT)};
            way.initial = initial_for(c, &way, EXACT_INITIAL);
            XSMI_TRY(add(c, way, first, NULL, err));
        }
        if (c->several) {
            return add_way(c, "softmax", NULL, false, err);
        }
        /* lbfgs does not use batches, epochs and rates: if they are given, steps are meant. */
        bool steps =
            c->options.optimizer || c->run.epochs || c->run.batch || c->run.eta > 0 || c->options.keep_schedule;
        bool small = n * k * places <= FIT_PASS && k * (double)c->train->features <= FIT_WEIGHTS;
        return small && !steps ? add_way(c, "softmax", NULL, true, err) : XSM_OK;
    }
    if (takes_vectors(c)) {
        /* Single rows cannot share classes, so they get fewer. */
        const bool single = c->run.batch == 1;
        xsmi_way way = {.hidden = single || c->nonzeros < WIDE_FEATURES ? VECTOR : VECTOR_WIDE,
                        .optimizer = "adagrad",
                        .batch = single ? 1 : batch_for(c, PASS_STEPS, BATCH_MOST)};
        way.initial = initial_for(c, &way, VECTOR_INITIAL);
        return add(c, way, "sampled-softmax", single ? most : together, err);
    }
    if (c->several) {
        XSMI_TRY(add_way(c, "sampled-softmax", more, false, err));
        return add_way(c, "one-vs-all-sampled", uniform, false, err);
    }
    XSMI_TRY(add_way(c, "nce", few, false, err));
    return add_way(c, "sampled-softmax", more, false, err);
}

/* Whether a way is the previous one with adagrad: then its rate follows from the rate of that way. */
static bool follows(const xsmi_chooser *c, const xsmi_way *way)
{
    return way > c->ways && way->exact && way->optimizer;
}

/* -- the plan ------------------------------------------------------------------------------------------------------ */

/* Computes means over the rows, and whether rows have several labels. */
static void survey(xsmi_chooser *c)
{
    const xsm_dataset *d = c->train;
    double squares = 0, count = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        xsmi_features x = xsmi_dataset_features(d, i);
        squares += (double)xsmi_context_kernels(c->context)->dot(x.values, x.values, x.count);
        count += (double)x.count;
    }
    c->nonzeros = count / (double)d->rows;
    c->squared = squares / (double)d->rows;
    c->squared = isfinite(c->squared) && c->squared > 0 && !c->options.transform ? c->squared : 1;
    c->several = d->label_total > d->rows;
}

static double per_second(const xsmi_chooser *c)
{
    return c->work_seconds > 0 ? c->work / c->work_seconds : (double)INFINITY;
}

/* The rows of trials under a transform; all transforms have the same rows. */
static xsm_status take_rows(xsmi_chooser *c, size_t transform, double share, double rows, xsm_error *err)
{
    xsm_dataset **held = &c->held[transform], **kept = &c->rows[transform];
    XSMI_TRY(xsm_dataset_split(c->train, share, c->run.seed, held, kept, err));
    if (rows < 0.95 * (double)(*kept)->rows) {
        xsm_dataset *rest = *kept, *unused = NULL;
        *kept = NULL;
        xsm_status status = xsm_dataset_split(rest, rows / (double)rest->rows, c->run.seed, kept, &unused, err);
        xsm_dataset_free(rest);
        xsm_dataset_free(unused);
        XSMI_TRY(status);
    }
    return c->options.transform ? xsmi_choose_transform(c, transform, *held, *kept, err) : XSM_OK;
}

/* Holds rows back and takes as many others as the work allows; none if there are too few. */
static xsm_status plan(xsmi_chooser *c, xsm_error *err)
{
    const double n = (double)c->train->rows;
    const uint32_t vector = c->ways[0].hidden;
    double most = 0, trials = 0;
    double judged = (double)c->train->classes * (vector ? vector * SCORE_COST : (c->nonzeros + OVERHEAD) * EXACT_COST);
    for (size_t i = 0; i < c->way_count; i++) {
        const xsmi_way *w = &c->ways[i];
        double count = c->cheap ? TRIALS_EXACT : TRIALS_LARGE;
        bool beside = w->full || follows(c, w);
        trials += beside && c->way_count > 1 ? 0 : count * w->work;
        most = fmax(most, w->work);
    }
    double share = c->cheap ? CHEAP_SHARE : vector ? VECTOR_SHARE : LARGE_SHARE;
    double allowed = share * n * (double)c->epochs * most + (c->cheap && c->several ? ANYWAY_SEVERAL : ANYWAY);
    if (isfinite(c->deadline)) {
        allowed = fmin(allowed, (c->deadline - xsmi_seconds()) * per_second(c));
    }
    double each = allowed * most / trials / (double)c->passes; /* work of an epoch of the longest trial */
    double held = fmin(fmin(HELD_SHARE * n, HELD_MOST), JUDGING * each / judged);
    double rows = fmin((1 - JUDGING) * each / most, n);
    if (!(held >= HELD_LEAST && rows >= ROWS_LEAST && n >= ROWS_LEAST)) {
        c->cut_short = isfinite(c->deadline) && n >= ROWS_LEAST;
        return XSM_OK;
    }
    for (size_t i = 0; i < (c->options.transform ? XSMI_TRANSFORMS : 1); i++) {
        XSMI_TRY(take_rows(c, i, held / n, rows, err));
    }
    return XSM_OK;
}

/* -- the search ---------------------------------------------------------------------------------------------------- */

/* Rounds to one significant digit: 3, not 3.1623. Negative powers of ten are not exact, but a division by a power
 * rounds only once. */
static double rounded(double x)
{
    double power = floor(log10(x) + 1e-9), unit = pow(10, fabs(power));
    return power < 0 ? floor(x * unit + 0.5) / unit : floor(x / unit + 0.5) * unit;
}

static double rate_at(const xsmi_chooser *c, const xsmi_way *way, int place)
{
    if (way->hidden) {
        return ldexp(VECTOR_RATE, place);
    }
    return rounded(pow(10, place / 2.0) / c->squared);
}

static double ridge_at(int place)
{
    return rounded(RIDGE_UNIT * pow(10, place / 2.0));
}

static const xsm_choice_trial *last_trial(const xsmi_chooser *c)
{
    return &c->result->trials[c->result->info.trials - 1];
}

typedef struct best {
    const xsmi_way *way;
    uint64_t trial; /* UINT64_MAX: none */
    double loss;
    xsmi_judged pairs; /* the same with pairs, strength 0 = without pairs */
} best;

/* The share of the loss by which a trial must improve to count as better. An embedding model's trial has about a fifth
 * of the run's steps. Higher rates win there, because vectors move faster, but overfit in the run. */
static double margin(const xsmi_chooser *c, const best *b, double eta)
{
    const bool faster = b->trial != UINT64_MAX && eta > c->result->trials[b->trial].eta;
    return b->way->hidden && faster ? VECTOR_MARGIN : 0;
}

/* Judges pairs with the vectors of the trial that has just become the best. Vectors are compared without pairs. */
static xsm_status try_pairs(xsmi_chooser *c, best *b, xsm_error *err)
{
    const xsm_choice_trial *t = last_trial(c);
    b->pairs = (xsmi_judged){0, t->loss, t->precision};
    for (double strength = PAIRS_FIRST; strength <= PAIRS_MOST; strength *= 2) {
        xsmi_judged now = {strength, 0, 0};
        if (xsmi_seconds() > c->deadline) {
            break;
        }
        XSMI_TRY(xsmi_choose_pairs(c, b->way, &now, err));
        if (!(now.loss < b->pairs.loss * (1 - PAIRS_MARGIN))) {
            break;
        }
        b->pairs = now;
    }
    return XSM_OK;
}

/* Runs a trial and returns whether it was better than the best of this way so far. After the deadline it runs none. */
static xsm_status attempt(xsmi_chooser *c, best *b, double eta, double ridge, bool *better, xsm_error *err)
{
    *better = false;
    if (xsmi_seconds() > c->deadline) {
        c->cut_short = true;
        return XSM_OK;
    }
    XSMI_TRY(xsmi_choose_try(c, b->way, eta, ridge, err));
    const xsm_choice_trial *t = last_trial(c);
    if (t->best_epoch > 0 && t->loss < b->loss * (1 - margin(c, b, eta))) {
        b->loss = t->loss;
        b->trial = c->result->info.trials - 1;
        *better = true;
        /* The model is the one after the trial's last epoch. */
        b->pairs = (xsmi_judged){0, t->loss, t->precision};
        const bool pairs =
            b->way->hidden && !c->options.keep_pairs && c->nonzeros >= PAIRS_FEATURES && t->best_epoch == t->epochs;
        return pairs && !c->cut_short ? try_pairs(c, b, err) : XSM_OK;
    }
    return XSM_OK;
}

static xsm_status at_place(xsmi_chooser *c, best *b, bool rates, int place, double eta, double ridge, bool *better,
                           xsm_error *err)
{
    return rates ? attempt(c, b, rate_at(c, b->way, place), ridge, better, err)
                 : attempt(c, b, eta, ridge_at(place), better, err);
}

/* Searches rates (at that L2 penalty) or penalties (at that rate): tries two neighbours and continues in the better
 * direction, downwards also while all trials diverge. */
static xsm_status walk(xsmi_chooser *c, best *b, bool rates, double eta, double ridge, xsm_error *err)
{
    bool better;
    XSMI_TRY(at_place(c, b, rates, 0, eta, ridge, &better, err));
    XSMI_TRY(at_place(c, b, rates, 1, eta, ridge, &better, err));
    const int step = better ? 1 : -1;
    for (int place = better ? 2 : -1; place <= PLACE_MOST && place >= -2 * PLACE_MOST; place += step) {
        XSMI_TRY(at_place(c, b, rates, place, eta, ridge, &better, err));
        if (!better && isfinite(b->loss)) {
            break;
        }
        if (c->cut_short) {
            break;
        }
    }
    return XSM_OK;
}

/* Tries L2 penalties (ridge) after none: a small one first, then larger ones while they are better. */
static xsm_status try_ridges(xsmi_chooser *c, best *b, xsm_error *err)
{
    const double eta = c->result->trials[b->trial].eta;
    bool better;
    XSMI_TRY(attempt(c, b, eta, ridge_at(0), &better, err));
    for (int place = 1; better && place <= PLACE_MOST; place++) {
        XSMI_TRY(attempt(c, b, eta, ridge_at(place), &better, err));
    }
    return XSM_OK;
}

/* Tries the other transform with the best settings of the first. Both make rows of unit length, so rates and L2
 * penalties have the same meaning. */
static xsm_status try_transform(xsmi_chooser *c, best *b, xsm_error *err)
{
    const xsm_choice_trial *t = &c->result->trials[b->trial];
    bool better;
    c->transform = 1;
    XSMI_TRY(attempt(c, b, t->eta, t->ridge, &better, err));
    c->transform = better;
    return XSM_OK;
}

/* `ahead` is the least loss of the previous ways. */
static xsm_status search_way(xsmi_chooser *c, best *b, double ahead, xsm_error *err)
{
    /* Only sgd is sure to support an L2 penalty (ridge). */
    const bool plain =
        c->options.optimizer ? is_lbfgs(c) || strcmp(c->options.optimizer, "sgd") == 0 : !b->way->optimizer;
    const bool open = c->ridge < 0 && b->way->own && plain;
    const double ridge = c->ridge >= 0 ? c->ridge : b->way->ridge;
    bool better;
    if (b->way->full) {
        XSMI_TRY(open ? walk(c, b, false, 0, 0, err) : attempt(c, b, 0, ridge, &better, err));
    } else {
        XSMI_TRY(c->run.eta > 0 ? attempt(c, b, c->run.eta, ridge, &better, err) : walk(c, b, true, 0, ridge, err));
    }
    if (c->options.transform && b->way == &c->ways[0] && b->trial != UINT64_MAX && !c->cut_short) {
        XSMI_TRY(try_transform(c, b, err));
    }
    const bool ridges = open && b->way->exact && !b->way->full && c->cheap && b->loss < ahead;
    return ridges && !c->cut_short ? try_ridges(c, b, err) : XSM_OK;
}

/* The same way with adagrad: one trial, at twice the best rate of single-row steps, as adagrad's best rate is one to
 * three times that. */
static xsm_status search_beside(xsmi_chooser *c, best *b, const best *before, xsm_error *err)
{
    bool better;
    return before->trial == UINT64_MAX || c->cut_short
               ? XSM_OK
               : attempt(c, b, 2 * c->result->trials[before->trial].eta, 0, &better, err);
}

static xsm_status search(xsmi_chooser *c, best *found, xsm_error *err)
{
    *found = (best){.way = &c->ways[0], .trial = UINT64_MAX, .loss = (double)INFINITY};
    best b = *found;
    for (size_t i = 0; c->held[0] && i < c->way_count; i++) {
        const best before = b;
        b = (best){.way = &c->ways[i], .trial = UINT64_MAX, .loss = (double)INFINITY};
        XSMI_TRY(follows(c, b.way) ? search_beside(c, &b, &before, err) : search_way(c, &b, found->loss, err));
        if (b.loss < found->loss) {
            *found = b;
        }
    }
    if (c->held[0] && found->trial == UINT64_MAX && !c->cut_short) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED,
                         "training with estimator '%s' diverged in every trial; try rows of unit length, or a ridge",
                         c->ways[0].estimator->ops.name);
    }
    return XSM_OK;
}

/* -- the result ---------------------------------------------------------------------------------------------------- */

/* Reduces the epochs to those that fit into the remaining budget; the rate then falls as far in fewer epochs. */
static void fit_budget(xsmi_chooser *c, const xsmi_way *way)
{
    xsm_choice_info *info = &c->result->info;
    if (!(c->options.seconds > 0) || way->full) {
        return;
    }
    double left = SAFE_TIME * (c->began + c->options.seconds - xsmi_seconds());
    double epoch = (double)c->train->rows * way->work / per_second(c);
    double fits = floor(left / epoch);
    if (fits < (double)info->epochs && c->run.epochs == 0) {
        info->epochs = fits > 1 ? (uint64_t)fits : 1;
        info->factor = c->options.keep_schedule ? info->factor : xsmi_choose_factor(info->epochs);
        c->cut_epochs = true;
    } else if (fits < (double)info->epochs) {
        c->cut_epochs = true; /* as many as requested; the budget will end them */
    }
}

/* A trial's rate is still high at its best epoch, but falls to its end in the run, which also has more rows: exact ways
 * benefit from some more epochs. */
static uint64_t run_epochs(const xsmi_chooser *c, const xsmi_way *way, const xsm_choice_trial *t)
{
    const uint64_t epochs = t->best_epoch + (way->exact ? EPOCHS_MORE : 0);
    return epochs < c->epochs ? epochs : c->epochs;
}

static void conclude(xsmi_chooser *c, const best *b)
{
    xsm_choice *r = c->result;
    xsm_choice_info *info = &r->info;
    const xsm_choice_trial *t = b->trial == UINT64_MAX ? NULL : &r->trials[b->trial];
    xsmi_way *way = &c->ways[b->way - c->ways];
    info->optimizer = xsmi_choose_optimizer(c, way);
    info->hidden = way->hidden;
    info->initial = way->initial;
    info->ridge = t ? t->ridge : c->ridge >= 0 ? c->ridge : way->ridge;
    info->held = c->held[0] ? c->held[0]->rows : 0;
    info->transform = c->options.transform ? xsmi_choose_transforms[c->transform] : NULL;
    info->loss = t ? b->pairs.loss : (double)NAN;
    info->precision = t ? b->pairs.precision : (double)NAN;
    info->pairs = t ? b->pairs.pairs : 0;
    if (way->full) {
        info->iterations = FIT_MOST;
    } else {
        info->eta = t ? t->eta : c->run.eta > 0 ? c->run.eta : rate_at(c, way, 0);
        info->epochs = c->run.epochs ? c->run.epochs : t && !way->hidden ? run_epochs(c, way, t) : c->epochs;
        info->batch = xsmi_choose_batch(c, way);
        info->schedule = c->options.keep_schedule ? c->run.schedule : XSM_SCHEDULE_STEP;
        /* A trial that the deadline ended gives no information about later epochs. */
        if (t && c->run.epochs == 0 && c->cut_short && t->best_epoch == t->epochs) {
            info->epochs = c->epochs;
        }
        info->factor = c->options.keep_schedule ? c->run.factor : xsmi_choose_factor(info->epochs);
    }
    way->estimator->common.ridge = info->ridge;
    r->estimator = way->estimator;
    r->own = way->own;
    way->own = false; /* owned by the result from now on */
    fit_budget(c, way);
    info->gave_up = c->cut_short || c->cut_epochs;
    info->seconds = xsmi_seconds() - c->began;
    xsmi_choose_tell(c, way);
}

static xsm_status choose(xsmi_chooser *c, xsm_error *err)
{
    c->result = xsmi_allocate_zero(c->context, 1, sizeof *c->result);
    if (!c->result) {
        return xsmi_fail_memory(err, sizeof *c->result, "a choice");
    }
    c->result->context = xsmi_context_retain(c->context);
    c->result->info.size = sizeof c->result->info;
    survey(c);
    XSMI_TRY(list_ways(c, err));
    c->cheap = c->ways[0].exact;
    c->epochs = c->run.epochs       ? c->run.epochs
                : c->ways[0].hidden ? EPOCHS_VECTOR
                : c->cheap          ? EPOCHS_CHEAP
                                    : EPOCHS_LARGE;
    /* For an embedding model's rate, few passes over many rows tell more than many passes over few rows, which are
     * memorised. A single pass favours rates with which the run overfits. */
    c->passes = c->ways[0].hidden ? (c->epochs < PASSES_VECTOR ? c->epochs : PASSES_VECTOR) : c->epochs;
    if (c->options.seconds > 0) {
        c->deadline = c->began + TRIAL_TIME * c->options.seconds;
        XSMI_TRY(xsmi_choose_pilot(c, &c->ways[0], c->run.eta > 0 ? c->run.eta : rate_at(c, &c->ways[0], 0), err));
    }
    XSMI_TRY(plan(c, err));
    best found;
    XSMI_TRY(search(c, &found, err));
    conclude(c, &found);
    return XSM_OK;
}

static xsm_status read_options(xsmi_chooser *c, const xsm_choose_options *options, xsm_error *err)
{
    xsm_choose_options *o = &c->options;
    XSMI_TRY(xsmi_options_read(o, sizeof *o, sizeof *o, options, "xsm_choose_options", err));
    o->transform = o->transform && c->train->sparse;
    XSMI_TRY(xsmi_options_read(&c->run, sizeof c->run, sizeof c->run, o->run, "xsm_trainer_options", err));
    if (c->run.eta != 0) {
        XSMI_TRY(xsmi_check_eta(c->run.eta, err));
    }
    if (!(o->seconds >= 0) || isinf(o->seconds)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "the time budget is %g seconds; accepted is above 0, or 0 for none",
                         o->seconds);
    }
    if (o->keep_ridge && !(o->ridge >= 0 && isfinite(o->ridge))) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "the ridge is %g; accepted is 0 and more", o->ridge);
    }
    if (o->keep_schedule && c->run.schedule == XSM_SCHEDULE_STEP && c->run.factor == 0) {
        c->run.factor = 0.9;
    }
    c->ridge = o->keep_ridge ? o->ridge : -1;
    return XSM_OK;
}

xsm_status xsm_choose(xsm_context *context, const xsm_dataset *train, const xsm_choose_options *options,
                      xsm_choice **out, xsm_error *err)
{
    if (!train || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_choose: %s is NULL", !train ? "the data" : "out");
    }
    xsmi_chooser c = {.train = train,
                      .options = XSM_CHOOSE_OPTIONS_INIT,
                      .run = XSM_TRAINER_OPTIONS_INIT,
                      .began = xsmi_seconds(),
                      .deadline = (double)INFINITY};
    XSMI_TRY(read_options(&c, options, err));
    XSMI_TRY(xsmi_context_acquire(context, &c.context, err));
    const xsm_estimator *given = c.options.estimator;
    const double before = given ? given->common.ridge : 0;
    xsm_status status = choose(&c, err);
    if (status != XSM_OK && c.options.estimator) {
        c.options.estimator->common.ridge = before;
        xsmi_estimator_unbind(c.options.estimator);
    }
    for (size_t i = 0; i < c.way_count; i++) {
        if (c.ways[i].own) {
            xsm_estimator_free(c.ways[i].estimator);
        }
    }
    xsm_model_free(c.model);
    for (size_t i = 0; i < XSMI_TRANSFORMS; i++) {
        xsm_dataset_free(c.held[i]);
        xsm_dataset_free(c.rows[i]);
    }
    if (status == XSM_OK) {
        *out = c.result;
    } else {
        xsm_choice_free(c.result);
    }
    xsm_context_free(c.context);
    return status;
}

void xsm_choice_free(xsm_choice *r)
{
    if (r) {
        xsm_context *ctx = r->context;
        if (r->own) {
            xsm_estimator_free(r->estimator);
        }
        xsmi_release(ctx, r->trials, r->trial_capacity, sizeof *r->trials);
        xsmi_release(ctx, r, 1, sizeof *r);
        xsm_context_free(ctx);
    }
}

xsm_status xsm_choice_get_info(const xsm_choice *r, xsm_choice_info *info, xsm_error *err)
{
    if (!r) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_choice_get_info: the choice is NULL");
    }
    return xsmi_options_write(&r->info, sizeof r->info, sizeof r->info, info, "xsm_choice_info", err);
}

xsm_estimator *xsm_choice_estimator(const xsm_choice *r)
{
    return r ? r->estimator : NULL;
}

const char *xsm_choice_line(const xsm_choice *r, size_t index)
{
    return r && index < sizeof r->line / sizeof r->line[0] ? r->line[index] : NULL;
}

xsm_status xsm_choice_get_trial(const xsm_choice *r, uint64_t index, xsm_choice_trial *trial, xsm_error *err)
{
    if (!r) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_choice_get_trial: the choice is NULL");
    }
    if (index >= r->info.trials) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "trial %llu of %llu; accepted is below that", (unsigned long long)index,
                         (unsigned long long)r->info.trials);
    }
    const xsm_choice_trial *t = &r->trials[index];
    return xsmi_options_write(t, sizeof *t, sizeof *t, trial, "xsm_choice_trial", err);
}
