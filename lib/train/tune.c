/*
 * A learning rate by successive halving over powers of ten (the grid of Fagan and Iyengar 2018, section 4).
 *
 * Every trial is the whole run in small: a part of the rows, fewer passes, and the whole schedule squeezed into them.
 * Few rows and all passes, as the paper has it, would let the model learn the rows by heart at rates that are far too
 * large for all of them; one pass never shows what further passes do. Two and three passes over as many rows as a trial
 * can afford, and most of the work for the last two rates, were right most often (bench/eta_auto.py measures it).
 *
 * The run's objective lies between the loss on rows that a trial went through, which it learnt better than the run will
 * learn all rows, and that on rows it did not; by how many rows and features there are (tune_trial.c). Where the last
 * two rates end close to each other, the best lies between them.
 */
#include "train/tune.h"

#include <math.h>
#include <string.h>

/* The rates that there are. */
static const double rates[] = {1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4};
_Static_assert(sizeof rates / sizeof rates[0] == XSMI_TUNE_PLACES, "a place for each rate");
enum { GRID_FIRST = 6, GRID_LAST = 12 };

/* Logarithms that differ by less, and by less of what the better one fell by from no training, tell of a better rate
 * between. */
#define CLOSE 0.1
#define CLOSE_SHARE 0.2
/* What a rate between two is to the smaller one. */
#define BETWEEN 3
/* Of the run's work, what the trials may take; what those that there are always are planned for, the rest being for
 * rates beyond them; and the steps in which, and the least to which, rounds are cut down to that. */
#define BUDGET 0.275
#define PLANNED 0.27
#define CUT 0.95
#define CUT_LEAST 0.2
/* Of an exact step's work, what is saved where all coefficients are 0, as those of a margin can be. */
#define IDLE 0.75
/* Where weights of sparse rows are too many for a cache, and how busy the steps of a run are taken to be there before
 * any were tried. */
#define IDLE_FAR 0.97
#define RUN_BUSY_FAR 0.1
/* Of a step that searches, by the classes it may list, what is saved where it lists none, and what judging a row is. */
#define SEARCH_IDLE 0.9
#define SEARCH_SCORE 0.25
/* What a run's steps take beyond that, by what steps at the end of its best trial do: it goes on long after. */
#define RUN_BUSY 0.4
/* Before a search begins, classes are listed, but not searched. */
#define START_BUSY 0.5
/* Rows so few that trials are made of them what it may cost. */
#define ROWS_FEW 512
/* Objectives, as multiples of no training's, at which a rate is not tried in the next round, and at which training is
 * lost. */
#define HOPELESS 4
#define LOST 100
/* Work is counted in classes that a step scores and updates. In one pass over all classes, a class takes that share of
 * it: scored and updated, also where the loss is judged by gradients; scored alone, with the weights laid out for steps
 * on all classes or on some, and these too many for a cache, also where the loss is judged by gradients. */
#define EXACT_STEP 0.125
#define EXACT_SCORE 0.08
#define SAMPLED_SCORE 0.12
#define SAMPLED_SCORE_FAR 0.5
/* Of a step along a path, what judging a row is. */
#define PATH_SCORE 0.5

/* -- which rates a round tries ------------------------------------------------------------------------------------- */

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

/* What a trial says of the run's objective, by which rates are compared in a round; infinite for one that was not tried
 * or diverged. */
static double prospect(const xsmi_tuner *t, uint32_t round, size_t place)
{
    if (place >= XSMI_TUNE_PLACES || !isfinite(objective(t, round, place))) {
        return INFINITY;
    }
    const double seen = objective(t, round, place), unseen = t->unseen[round][place];
    return isfinite(unseen) ? seen + t->result->unseen_part[round] * (unseen - seen) : seen;
}

/* The best place of a round; XSMI_TUNE_PLACES if all diverged. Of equal ones the smaller rate. */
static size_t best_of(const xsmi_tuner *t, uint32_t round)
{
    size_t best = XSMI_TUNE_PLACES;
    for (size_t place = 0; place < XSMI_TUNE_PLACES; place++) {
        best = prospect(t, round, place) < prospect(t, round, best) ? place : best;
    }
    return best;
}

/* How busy the steps of a rate's next trial are: as those of its last one. */
static double busy_of(const xsmi_tuner *t, size_t place)
{
    for (uint32_t round = XSMI_TUNE_ROUNDS; round-- > 0;) {
        if (tried(t, round, place)) {
            return t->busy[round][place];
        }
    }
    return 1;
}

/* How busy the steps of the next round are: the mean over the rates that it surely tries. */
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

/* How busy steps are on the rows that a trial of the last round at the best rate of a round is judged on: they go on to
 * fall as they fell since the round before. */
static double busy_in_the_end(const xsmi_tuner *t, uint32_t round, size_t best)
{
    const double now = t->busy_after[round][best];
    const bool falls = round > 0 && round + 1 < XSMI_TUNE_ROUNDS && tried(t, round - 1, best);
    return falls && now < t->busy_after[round - 1][best] ? now * now / t->busy_after[round - 1][best] : now;
}

/* Work of the run, by the best rate of a round. */
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

/* The grid, and beyond it while the best is at its end. */
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

/* Whether a rate ended far worse than no training at all in the round before, or is none. */
static bool hopeless(const xsmi_tuner *t, size_t place)
{
    return place >= XSMI_TUNE_PLACES || (tried(t, t->round - 1, place) &&
                                         !(objective(t, t->round - 1, place) < HOPELESS * t->untrained[t->round - 1]));
}

static xsm_status try_neighbour(xsmi_tuner *t, size_t place, xsm_error *err)
{
    return hopeless(t, place) ? XSM_OK : try_rate(t, place, err);
}

/* The best of the round before with its neighbours, or with the better of them; on while the best is at an end of
 * what was tried, as far as the work allows, leaving `reserve` for later rounds; and down while all diverge. */
static xsm_status later_round(xsmi_tuner *t, bool both, double reserve, xsm_error *err)
{
    const uint32_t before = t->round - 1;
    const size_t first = best_of(t, before);
    const bool below = prospect(t, before, first - 1) < prospect(t, before, first + 1);
    XSMI_TRY(try_rate(t, first, err));
    if (both || below) {
        XSMI_TRY(try_neighbour(t, first - 1, err)); /* past the ends: not below XSMI_TUNE_PLACES */
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

/* Whether the loss of some rate grew without bounds, rather than with the rate. */
static bool explodes(const xsmi_tuner *t)
{
    for (size_t place = 0; place < XSMI_TUNE_PLACES; place++) {
        if (tried(t, 0, place) && isinf(objective(t, 0, place))) {
            return true;
        }
    }
    return false;
}

/* What the loss grows to in the run by its rate, as the smallest rate of the last round from `place` on that is worse
 * than no training tells it; 0: none is. */
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
 * The place chosen after the last round, where nothing bounds the estimator's steps. A rate at which an unbounded
 * estimator does well for the length of a trial may still blow up later; how the next power of ten ended warns of it.
 * Where losses grow in proportion to rate and steps (`importance`), that tells what they grow to in the run, which must
 * not be worse than no training; nor must they have grown at the next power of ten since the round before. Where they
 * explode (`raman`), a rate is fine until steps come that are too long for it; the next power of ten must not have been
 * wholly lost before the last round, whose steps are as many as all before by far. At most one place below the rates
 * that were tried is gone down to.
 */
static size_t choose_unbounded(const xsmi_tuner *t, size_t chosen)
{
    if (chosen > 0 && objective(t, XSMI_TUNE_ROUNDS - 1, chosen) > t->untrained[XSMI_TUNE_ROUNDS - 1]) {
        chosen--; /* no smaller one was within the work allowed */
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

/* The rate chosen after the last round: its best, or one between that and a neighbour that came close. *smaller is the
 * place of the rate itself, or of the one below it. */
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

/* The work of a round's trial of steps that busy. */
static double trial_work(xsmi_tuner *t, uint32_t round, double busy)
{
    xsmi_tuner_plan(t, round);
    return xsmi_tuner_planned_work(t, busy);
}

/* The work of the trials that there always are from a round on. */
static double work_from(xsmi_tuner *t, uint32_t round, double busy)
{
    static const int trials[XSMI_TUNE_ROUNDS] = {GRID_LAST - GRID_FIRST + 1, 3, 2};
    double work = 0;
    for (; round < XSMI_TUNE_ROUNDS; round++) {
        work += trials[round] * trial_work(t, round, busy) + xsmi_tuner_round_work(t);
    }
    return work;
}

/* Makes the rounds from one on smaller until their work fits: what trials cost beside their steps is much where steps
 * are small. Steps that can be idle may turn out cheaper than those a round before, and then are cut less. */
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
    t->expected = fmax(work_from(t, 0, 1), t->idle_work > 0 ? BUDGET * run_work(t, 0) : 0); /* cut less later */
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

/* Says of each trial what came of it, and what was chosen. */
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
        trial->outcome = trial->size > 0 ? XSM_TRIAL_KEPT : 0; /* the choice is between two, or less than one */
    }
    r->info.seconds = xsmi_seconds() - t->start;
}

/* -- the public functions ------------------------------------------------------------------------------------------ */

/* Classes of a step in the mean: lists have room for the labels of the row with most. */
static double mean_width(const xsm_estimator *e, const xsm_dataset *d)
{
    const double fewer = (double)e->most_labels - (double)d->label_total / (double)d->rows;
    /* Lists of all classes are full whatever a row's labels. */
    return e->most_labels < e->width && e->width < d->classes ? (double)e->width - fewer : (double)e->width;
}

/* Binds the estimator to all rows: finds out early what does not fit, and what a step costs. */
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
    bool sifted = exact && (t->estimator->ops.flags & XSMI_ESTIMATOR_SIFTED) != 0;
    t->idle_far = sifted && far && t->train->sparse;
    t->idle_work = sifted ? (t->idle_far ? IDLE_FAR : IDLE) * EXACT_STEP * classes : 0;
    t->estimator_width = t->estimator->width;
    t->searched = t->estimator->searcher != NULL;
    if (t->searched && t->losses) {
        t->idle_work = SEARCH_IDLE * width;
        t->score_class = 0;
        t->score_few = SEARCH_SCORE * width;
    }
    if (xsmi_correction_hierarchy(t->estimator->correction)) { /* a path's loss is the log-loss */
        XSMI_TRY(t->losses ? XSM_OK : xsm_gradient_new(t->context, &t->losses, err));
        t->score_class = 0;
        t->score_few = PATH_SCORE * width;
        xsmi_model_set_correction(t->model, t->estimator->correction); /* the run's tree, not one of a trial's rows */
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
    xsm_status status = XSM_OK;
    if (estimator->ops.flags & XSM_ESTIMATOR_OTHER_LOSS) {
        status = xsm_gradient_new(t.context, &t.losses, err);
    }
    status = status == XSM_OK ? tune(&t, err) : status;
    estimator->common.ridge = t.ridge;
    xsmi_estimator_unbind(estimator);
    xsmi_tuner_drop_classes(&t);
    xsmi_model_set_correction(model, correction);
    xsmi_correction_release(correction);
    xsm_dataset_free(t.sample);
    xsm_dataset_free(t.subset);
    xsm_dataset_free(t.rest);
    xsm_gradient_free(t.losses);
    xsmi_evaluate_room_free(t.context, &t.room);
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
