/*
 * Chooses a learning rate by successive halving over powers of ten (the grid of Fagan and Iyengar 2018, section 4).
 *
 * Every trial is a small version of the whole run: some of the rows, fewer passes, and the whole schedule compressed
 * into them. Few rows with all passes, as in the paper, would let the model memorise the rows at rates that are far too
 * large for all rows; a single pass never shows the effect of further passes. Two and three passes over as many rows as
 * a trial can afford, and most of the work for the last two rates, were right most often (bench/eta_auto.py measures
 * it).
 *
 * The run's objective is between a trial's loss on its own rows, which the trial learns better than the run learns all
 * rows, and its loss on other rows. The numbers of rows and features determine the position between them
 * (tune_trial.c). If the objectives of the last two rates are close to each other, the best rate is between the two.
 */
#include "auto/tune.h"

#include <math.h>
#include <string.h>

/* The learning rates of trials. */
static const double rates[] = {1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4};
_Static_assert(sizeof rates / sizeof rates[0] == XSMI_TUNE_PLACES, "a place for each rate");
enum { GRID_FIRST = 6, GRID_LAST = 12 };

/* A rate between two rates is chosen if the logarithms of their objectives differ by less than CLOSE, and by less than
 * CLOSE_SHARE of the decrease from no training to the better one. */
#define CLOSE 0.1
#define CLOSE_SHARE 0.2
/* The ratio of a rate between two rates to the smaller one. */
#define BETWEEN 3
/* Shares of the run's work: the maximum for all trials, and the planned work of the trials that every choice makes; the
 * rest is for rates beyond them. Rounds are reduced by factors CUT, down to CUT_LEAST at most, to fit. */
#define BUDGET 0.275
#define PLANNED 0.27
#define CUT 0.95
#define CUT_LEAST 0.2
/* The share of an exact step's work that is saved if all coefficients are 0, as those of a margin can be. */
#define IDLE 0.75
/* The same if weights of sparse rows are too many for a cache, and how busy the steps of such a run are assumed to be
 * before the first trial. */
#define IDLE_FAR 0.97
#define RUN_BUSY_FAR 0.1
/* For a step that searches, relative to the classes that it may list: the share saved if it lists none, and the work of
 * judging a row. */
#define SEARCH_IDLE 0.9
#define SEARCH_SCORE 0.25
/* How busy a run's steps are, relative to steps at the end of its best trial: the run continues for much longer. */
#define RUN_BUSY 0.4
/* How busy steps are before a search begins: classes are listed, but not searched. */
#define START_BUSY 0.5
/* With fewer rows than this, trials are not reduced, whatever they cost. */
#define ROWS_FEW 512
/* Multiples of the untrained model's objective: a rate that exceeds HOPELESS is not tried in the next round, and
 * training that exceeds LOST has failed. */
#define HOPELESS 4
#define LOST 100
/* The unit of work is a class that a step scores and updates. In a pass over all classes, a class takes a share of it:
 * EXACT_STEP to score and update it, also if the loss is computed with gradients. The others are for scoring alone:
 * with the weights laid out for steps on all classes; for steps on some; and the latter with weights too many for a
 * cache, also if the loss is computed with gradients. */
#define EXACT_STEP 0.125
#define EXACT_SCORE 0.08
#define SAMPLED_SCORE 0.12
#define SAMPLED_SCORE_FAR 0.5
/* The work of judging a row, relative to a step along a path. */
#define PATH_SCORE 0.5

/* -- the rates of a round ------------------------------------------------------------------------------------------ */

static xsm_status try_rate(xsmi_tuner *t, size_t place, xsm_error *err)
{
    return xsmi_tuner_try(t, place, rates[place], err);
}

static bool tried(const xsmi_tuner *t, uint32_t round, size_t place)
{
    return place < XSMI_TUNE_PLACES && t->result->trials[round][place].size != 0;
}

static double objective(const xsmi_tuner *t, uint32_t round, size_t place)
{
    return tried(t, round, place) ? t->result->trials[round][place].objective : (double)INFINITY;
}

/* A trial's estimate of the run's objective, by which a round compares rates; infinite if the rate was not tried or
 * diverged. */
static double prospect(const xsmi_tuner *t, uint32_t round, size_t place)
{
    if (place >= XSMI_TUNE_PLACES || !isfinite(objective(t, round, place))) {
        return INFINITY;
    }
    const double seen = objective(t, round, place), unseen = t->unseen[round][place];
    return isfinite(unseen) ? seen + t->result->unseen_part[round] * (unseen - seen) : seen;
}

/* The index of the best rate of a round, of equal ones the smaller; XSMI_TUNE_PLACES if all diverged. */
static size_t best_of(const xsmi_tuner *t, uint32_t round)
{
    size_t best = XSMI_TUNE_PLACES;
    for (size_t place = 0; place < XSMI_TUNE_PLACES; place++) {
        best = prospect(t, round, place) < prospect(t, round, best) ? place : best;
    }
    return best;
}

/* How busy the steps of a rate's next trial are expected to be: like those of its last trial. */
static double busy_of(const xsmi_tuner *t, size_t place)
{
    for (uint32_t round = XSMI_TUNE_ROUNDS; round-- > 0;) {
        if (tried(t, round, place)) {
            return t->busy[round][place];
        }
    }
    return 1;
}

/* How busy the steps of the next round are expected to be: the mean over the rates that it is sure to try. */
static double busy_next(const xsmi_tuner *t, uint32_t round)
{
    const size_t best = best_of(t, round - 1);
    const double below = busy_of(t, best - 1), above = busy_of(t, best + 1);
    if (round == 1) {
        return (busy_of(t, best) + below + above) / 3;
    }
    return (busy_of(t, best) + (prospect(t, round - 1, best - 1) < prospect(t, round - 1, best + 1) ? below : above)) /
           2;
}

/* How busy steps are on the rows that judge a trial of the last round, at the best rate of a round: continues the
 * decrease since the previous round. */
static double busy_in_the_end(const xsmi_tuner *t, uint32_t round, size_t best)
{
    const double now = t->busy_after[round][best];
    const bool falls = round > 0 && round + 1 < XSMI_TUNE_ROUNDS && tried(t, round - 1, best);
    return falls && now < t->busy_after[round - 1][best] ? now * now / t->busy_after[round - 1][best] : now;
}

/* The work of the run, estimated from the best rate of a round. */
static double run_work(const xsmi_tuner *t, uint32_t round)
{
    const size_t best = best_of(t, round);
    const double examples = (double)t->run.epochs * (double)t->run_train->rows;
    const double start = fmin((double)t->startup / examples, 1);
    double busy = t->idle_far ? RUN_BUSY_FAR : 1;
    if (tried(t, round, best)) {
        busy = start * START_BUSY + (1 - start) * RUN_BUSY * busy_in_the_end(t, round, best);
    }
    return examples * (t->step_work - (1 - busy) * t->idle_work);
}

static bool affordable(const xsmi_tuner *t, size_t place, double reserve)
{
    return t->spent + xsmi_tuner_planned_work(t, busy_of(t, place)) + reserve <= BUDGET * run_work(t, t->round);
}

static xsm_status fail_diverged(const xsmi_tuner *t, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_DIVERGED,
                     "training with estimator '%s' diverged with every learning rate from %g up; try rows of unit "
                     "length, or a ridge",
                     t->estimator->ops.name, rates[0]);
}

/* Tries the grid, and rates beyond it while the best is at its end. */
static xsm_status first_round(xsmi_tuner *t, xsm_error *err)
{
    size_t low = GRID_FIRST, high = GRID_LAST;
    for (size_t place = low; place <= high; place++) {
        XSMI_TRY(try_rate(t, place, err));
    }
    for (;;) {
        size_t best = best_of(t, 0);
        if (best == high && high + 1 < XSMI_TUNE_PLACES) {
            XSMI_TRY(try_rate(t, ++high, err));
        } else if ((best == low || best == XSMI_TUNE_PLACES) && low > 0) {
            XSMI_TRY(try_rate(t, --low, err));
        } else if (best == XSMI_TUNE_PLACES) {
            return fail_diverged(t, err);
        } else {
            return XSM_OK;
        }
    }
}

/* Whether a rate's objective in the previous round was far worse than without training, or the rate does not exist. */
static bool hopeless(const xsmi_tuner *t, size_t place)
{
    return place >= XSMI_TUNE_PLACES || (tried(t, t->round - 1, place) &&
                                         !(objective(t, t->round - 1, place) < HOPELESS * t->untrained[t->round - 1]));
}

static xsm_status try_neighbour(xsmi_tuner *t, size_t place, xsm_error *err)
{
    return hopeless(t, place) ? XSM_OK : try_rate(t, place, err);
}

/* Tries the best rate of the previous round with both neighbours, or with the better one. Continues while the best is
 * at an end of the tried rates, if the work leaves `reserve` for later rounds, and downwards while all diverge. */
static xsm_status later_round(xsmi_tuner *t, bool both, double reserve, xsm_error *err)
{
    const uint32_t before = t->round - 1;
    const size_t first = best_of(t, before);
    const bool below = prospect(t, before, first - 1) < prospect(t, before, first + 1);
    XSMI_TRY(try_rate(t, first, err));
    if (both || below) {
        XSMI_TRY(try_neighbour(t, first - 1, err)); /* below index 0 it wraps to at least XSMI_TUNE_PLACES */
    }
    if (both || !below) {
        XSMI_TRY(try_neighbour(t, first + 1, err));
    }
    size_t low = first, high = first;
    low -= low > 0 && tried(t, t->round, low - 1);
    high += tried(t, t->round, high + 1);
    for (;;) {
        size_t now = best_of(t, t->round);
        if (now == XSMI_TUNE_PLACES && low == 0) {
            return fail_diverged(t, err);
        }
        if (now == XSMI_TUNE_PLACES) {
            XSMI_TRY(try_rate(t, --low, err));
            continue;
        }
        size_t next = now == low && low > 0 ? low - 1 : now == high && !hopeless(t, high + 1) ? high + 1 : now;
        if (next == now || !affordable(t, next, reserve)) {
            return XSM_OK;
        }
        XSMI_TRY(try_rate(t, next, err));
        low = next < low ? next : low;
        high = next > high ? next : high;
    }
}

/* Whether the loss at some rate grew without bound rather than in proportion to the rate. */
static bool explodes(const xsmi_tuner *t)
{
    for (size_t place = 0; place < XSMI_TUNE_PLACES; place++) {
        if (tried(t, 0, place) && isinf(objective(t, 0, place))) {
            return true;
        }
    }
    return false;
}

/* The loss that the run grows to, divided by the rate: computed from the smallest rate of the last round, from `place`
 * on, that is worse than no training; 0 if there is none. */
static double growth(const xsmi_tuner *t, size_t place)
{
    const uint32_t last = XSMI_TUNE_ROUNDS - 1;
    const double longer = (double)t->run_train->rows * (double)t->run.epochs / ((double)t->rows * (double)t->epochs);
    for (; place < XSMI_TUNE_PLACES; place++) {
        if (objective(t, last, place) > t->untrained[last] && isfinite(objective(t, last, place))) {
            return objective(t, last, place) / rates[place] * longer;
        }
    }
    return 0;
}

/*
 * The index of the rate chosen after the last round for estimators with unbounded steps. A rate that works during a
 * trial may still diverge later; the result of the next power of ten gives a warning. If losses grow in proportion to
 * rate and steps (`importance`), that result predicts the loss of the run, which must not be worse than no training;
 * nor may the loss at the next power of ten have grown since the previous round. If losses explode (`raman`), a rate
 * works until steps occur that are too long for it. Then the next power of ten must not have been wholly lost before
 * the last round, which has far more steps than all previous rounds. The chosen index is at most one below the tried
 * rates.
 */
static size_t choose_unbounded(const xsmi_tuner *t, size_t chosen)
{
    if (chosen > 0 && objective(t, XSMI_TUNE_ROUNDS - 1, chosen) > t->untrained[XSMI_TUNE_ROUNDS - 1]) {
        chosen--; /* no smaller rate was affordable */
    }
    if (chosen == 0 || chosen + 1 == XSMI_TUNE_PLACES) {
        return chosen;
    }
    const uint32_t last = XSMI_TUNE_ROUNDS - 1;
    const bool lost = explodes(t);
    const double once = lost ? 0 : growth(t, chosen);
    double above = 0;
    for (uint32_t round = 0; round + lost < XSMI_TUNE_ROUNDS; round++) {
        above = tried(t, round, chosen + 1) ? fmax(above, objective(t, round, chosen + 1)) : above;
    }
    bool grew = !lost && tried(t, last - 1, chosen + 1) && tried(t, last, chosen + 1) &&
                objective(t, last, chosen + 1) > objective(t, last - 1, chosen + 1);
    chosen -= grew || above > t->untrained[last] * (lost ? LOST : 1);
    while (tried(t, 0, chosen) && chosen > 0 && rates[chosen] * once > t->untrained[last]) {
        chosen--;
    }
    return chosen;
}

/* The rate chosen after the last round: the best one, or a rate between it and a close neighbour. *smaller is the index
 * of the rate itself or of the next lower one. */
static double choose(const xsmi_tuner *t, size_t *smaller)
{
    const uint32_t last = XSMI_TUNE_ROUNDS - 1;
    const size_t best = best_of(t, last);
    if (t->estimator->ops.flags & XSM_ESTIMATOR_UNBOUNDED) {
        *smaller = choose_unbounded(t, best);
        return rates[*smaller];
    }
    size_t other = prospect(t, last, best - 1) < prospect(t, last, best + 1) ? best - 1 : best + 1;
    const double value = prospect(t, last, best), behind = log(prospect(t, last, other) / value);
    if (value > 0 && behind < CLOSE && behind < CLOSE_SHARE * log(t->untrained[last] / value)) {
        *smaller = other < best ? other : best;
        return BETWEEN * rates[*smaller];
    }
    *smaller = best;
    return rates[best];
}

/* The work of a round's trial with steps that are `busy`. */
static double trial_work(xsmi_tuner *t, uint32_t round, double busy)
{
    xsmi_tuner_plan(t, round);
    return xsmi_tuner_planned_work(t, busy);
}

/* The work of the trials that every choice makes, from a round on. */
static double work_from(xsmi_tuner *t, uint32_t round, double busy)
{
    static const int trials[XSMI_TUNE_ROUNDS] = {GRID_LAST - GRID_FIRST + 1, 3, 2};
    double work = 0;
    for (; round < XSMI_TUNE_ROUNDS; round++) {
        work += trials[round] * trial_work(t, round, busy) + xsmi_tuner_round_work(t);
    }
    return work;
}

/* Reduces the rounds from `round` on until their work fits. The work of trials besides their steps is large if steps
 * are small. Steps that can be idle may cost less than those of the previous round; the reduction is then smaller. */
static void cut_to(xsmi_tuner *t, uint32_t round, double busy, double work)
{
    t->cut = t->idle_work > 0 ? 1 : t->cut;
    while (work_from(t, round, busy) > work && t->cut > CUT_LEAST && t->train->rows >= ROWS_FEW) {
        t->cut *= CUT;
    }
}

static xsm_status search(xsmi_tuner *t, xsm_error *err)
{
    cut_to(t, 0, 1, PLANNED * run_work(t, 0));
    t->expected = fmax(work_from(t, 0, 1), t->idle_work > 0 ? BUDGET * run_work(t, 0) : 0); /* reduced less later */
    XSMI_TRY(xsmi_tuner_begin(t, 0, err));
    XSMI_TRY(first_round(t, err));
    for (uint32_t round = 1; round < XSMI_TUNE_ROUNDS; round++) {
        double busy = busy_next(t, round);
        cut_to(t, round, busy, BUDGET * run_work(t, round - 1) - t->spent);
        double reserve = round + 1 < XSMI_TUNE_ROUNDS ? work_from(t, round + 1, busy) : 0;
        XSMI_TRY(xsmi_tuner_begin(t, round, err));
        XSMI_TRY(later_round(t, round == 1, reserve, err));
    }
    t->result->info.classes = t->train->classes;
    t->result->share = t->spent / run_work(t, XSMI_TUNE_ROUNDS - 1);
    return XSM_OK;
}

/* Sets each trial's outcome, and the chosen rate. */
static void conclude(xsmi_tuner *t)
{
    xsm_tuning *r = t->result;
    for (uint32_t round = 0; round < XSMI_TUNE_ROUNDS; round++) {
        for (size_t place = 0; place < XSMI_TUNE_PLACES; place++) {
            xsm_tune_trial *trial = &r->trials[round][place];
            if (trial->size == 0) {
                continue;
            }
            r->info.trials++;
            r->info.examples += trial->examples;
            if (trial->outcome != XSM_TRIAL_DIVERGED && round + 1 < XSMI_TUNE_ROUNDS) {
                trial->outcome = tried(t, round + 1, place) ? XSM_TRIAL_KEPT : XSM_TRIAL_DROPPED;
            }
        }
    }
    size_t smaller;
    r->info.eta = choose(t, &smaller);
    r->trials[XSMI_TUNE_ROUNDS - 1][best_of(t, XSMI_TUNE_ROUNDS - 1)].outcome = XSM_TRIAL_KEPT;
    for (size_t place = smaller; place <= smaller + 1 && place < XSMI_TUNE_PLACES; place++) {
        xsm_tune_trial *trial = &r->trials[XSMI_TUNE_ROUNDS - 1][place];
        if (trial->size > 0 && trial->eta == r->info.eta) {
            trial->outcome = XSM_TRIAL_CHOSEN;
            break;
        }
        trial->outcome = trial->size > 0 ? XSM_TRIAL_KEPT : 0; /* the chosen rate is between two rates, or below one */
    }
    r->info.seconds = xsmi_seconds() - t->start;
}

/* -- the public functions ------------------------------------------------------------------------------------------ */

/* The mean number of classes of a step: lists are long enough for the row with the most labels. */
static double mean_width(const xsm_estimator *e, const xsm_dataset *d)
{
    const double fewer = (double)e->most_labels - (double)d->label_total / (double)d->rows;
    /* Lists of all classes are full for every number of labels. */
    return e->most_labels < e->width && e->width < d->classes ? (double)e->width - fewer : (double)e->width;
}

/* Binds the estimator to all rows: detects unsuitable data early and computes the work of a step. */
static xsm_status measure(xsmi_tuner *t, xsm_error *err)
{
    XSMI_TRY(xsm_estimator_bind(t->estimator, t->model, t->train, err));
    double classes = (double)t->train->classes;
    bool exact = t->estimator->exact;
    const double width = mean_width(t->estimator, t->train);
    t->step_work = 1 + (exact ? EXACT_STEP * classes : width);
    bool far = t->model->weight_count > XSMI_TUNE_FAR;
    double score = !exact && far ? SAMPLED_SCORE_FAR : t->losses ? EXACT_STEP : exact ? EXACT_SCORE : SAMPLED_SCORE;
    t->score_class = score;
    bool sifted = exact && t->estimator->ops.sift;
    t->idle_far = sifted && far && t->train->sparse;
    t->idle_work = sifted ? (t->idle_far ? IDLE_FAR : IDLE) * EXACT_STEP * classes : 0;
    t->estimator_width = t->estimator->width;
    t->searched = t->estimator->searcher != NULL;
    if (t->searched && t->losses) {
        t->idle_work = SEARCH_IDLE * width;
        t->score_class = 0;
        t->score_few = SEARCH_SCORE * width;
    }
    if (t->estimator->hierarchy) { /* the loss of a path is the log-loss */
        XSMI_TRY(t->losses ? XSM_OK : xsm_gradient_new(t->context, &t->losses, err));
        t->score_class = 0;
        t->score_few = PATH_SCORE * width;
        xsmi_model_set_hierarchy(t->model, t->estimator->hierarchy); /* the tree of the run, not of a trial's rows */
    }
    t->startup = t->estimator->searcher ? xsmi_searcher_startup(t->estimator->searcher) : 0;
    return XSM_OK;
}

static xsm_status tune(xsmi_tuner *t, xsm_error *err)
{
    XSMI_TRY(measure(t, err));
    XSMI_TRY(xsmi_tuner_narrow(t, err));
    xsmi_estimator_unbind(t->estimator);
    const uint64_t n = t->train->rows;
    t->rank = n < SIZE_MAX ? xsmi_allocate(t->context, (size_t)n, sizeof *t->rank) : NULL;
    t->taken = t->rank ? xsmi_allocate(t->context, (size_t)n, sizeof *t->taken) : NULL;
    t->result = t->taken ? xsmi_allocate(t->context, 1, sizeof *t->result) : NULL;
    if (!t->result) {
        return xsmi_fail_memory(err, (size_t)n * sizeof *t->rank, "the choice of a learning rate");
    }
    memset(t->result, 0, sizeof *t->result);
    t->result->context = xsmi_context_retain(t->context);
    t->result->info.size = sizeof t->result->info;
    XSMI_TRY(search(t, err));
    conclude(t);
    return XSM_OK;
}

xsm_status xsm_tune_eta(xsm_context *context, xsm_model *model, const xsm_dataset *train, xsm_estimator *estimator,
                        xsm_optimizer *optimizer, const xsm_tune_options *options, xsm_tuning **out, xsm_error *err)
{
    if (!model || !train || !estimator || !optimizer || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_tune_eta: %s is NULL",
                         !model       ? "the model"
                         : !train     ? "the data"
                         : !estimator ? "the estimator"
                         : !optimizer ? "the optimizer"
                                      : "out");
    }
    xsmi_tuner t = {.model = model,
                    .train = train,
                    .run_train = train,
                    .scale = 1,
                    .cut = 1,
                    .estimator = estimator,
                    .optimizer = optimizer,
                    .run = XSM_TRAINER_OPTIONS_INIT,
                    .options = XSM_TUNE_OPTIONS_INIT,
                    .start = xsmi_seconds()};
    XSMI_TRY(xsmi_options_read(&t.options, sizeof t.options, sizeof t.options, options, "xsm_tune_options", err));
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    XSMI_TRY(xsmi_options_read(&run, sizeof run, sizeof run, t.options.run, "xsm_trainer_options", err));
    run.eta = 0;
    XSMI_TRY(xsmi_trainer_read_options(&run, estimator, &t.run, err));
    t.run.evaluate_every = 0;
    t.run.evaluate_train = 0;
    t.run.test = NULL;
    if (!xsmi_model_is_zero(model)) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the model has been trained: a learning rate is chosen for a model that is all zeros");
    }
    XSMI_TRY(xsmi_model_own(model, err));
    XSMI_TRY(xsmi_context_acquire(context, &t.context, err));
    t.ridge = estimator->common.ridge;
    xsmi_correction *correction = xsmi_correction_retain(model->correction);
    xsmi_hierarchy *hierarchy = xsmi_hierarchy_retain(model->hierarchy);
    xsm_status status = XSM_OK;
    if (estimator->ops.flags & XSM_ESTIMATOR_OTHER_LOSS) {
        status = xsm_gradient_new(t.context, &t.losses, err);
    }
    status = status == XSM_OK ? tune(&t, err) : status;
    estimator->common.ridge = t.ridge;
    xsmi_estimator_unbind(estimator);
    xsmi_tuner_drop_classes(&t);
    xsmi_model_set_correction(model, correction);
    xsmi_model_set_hierarchy(model, hierarchy);
    xsmi_correction_release(correction);
    xsmi_hierarchy_release(hierarchy);
    xsm_dataset_free(t.sample);
    xsm_dataset_free(t.subset);
    xsm_dataset_free(t.rest);
    xsm_gradient_free(t.losses);
    xsmi_evaluate_scratch_free(&t.scratch);
    xsmi_release(t.context, t.marks, t.mark_count, sizeof *t.marks);
    xsmi_release(t.context, t.rank, (size_t)train->rows, sizeof *t.rank);
    xsmi_release(t.context, t.taken, (size_t)train->rows, sizeof *t.taken);
    if (status == XSM_OK) {
        *out = t.result;
    } else {
        xsm_tuning_free(t.result);
    }
    xsm_context_free(t.context);
    return status;
}

void xsm_tuning_free(xsm_tuning *r)
{
    if (r) {
        xsm_context *ctx = r->context;
        xsmi_release(ctx, r, 1, sizeof *r);
        xsm_context_free(ctx);
    }
}

xsm_status xsm_tuning_get_info(const xsm_tuning *r, xsm_tuning_info *info, xsm_error *err)
{
    if (!r) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_tuning_get_info: the tuning is NULL");
    }
    return xsmi_options_write(&r->info, sizeof r->info, sizeof r->info, info, "xsm_tuning_info", err);
}

xsm_status xsm_tuning_get_trial(const xsm_tuning *r, uint64_t index, xsm_tune_trial *trial, xsm_error *err)
{
    if (!r) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_tuning_get_trial: the tuning is NULL");
    }
    if (index >= r->info.trials) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "trial %llu of %llu; accepted is below that", (unsigned long long)index,
                         (unsigned long long)r->info.trials);
    }
    const xsm_tune_trial *all = &r->trials[0][0];
    for (uint64_t left = index;; all++) {
        if (all->size > 0 && left-- == 0) {
            break;
        }
    }
    return xsmi_options_write(all, sizeof *all, sizeof *all, trial, "xsm_tune_trial", err);
}
