/*
 * A learning rate by successive halving over powers of ten (the grid of Fagan and Iyengar 2018, section 4).
 *
 * Every trial is the whole run in small: a part of the rows, fewer passes, and the whole schedule squeezed into them.
 * Few rows and all passes, as the paper has it, would let the model learn the rows by heart at rates that are far too
 * large for all of them; one pass never shows what further passes do. Two and three passes over as many rows as a trial
 * can afford, and most of the work for the last two rates, were right most often (bench/eta_auto.py measures it). A
 * rate whose loss falls faster from one round to the next has more to gain in the run, so the last round is judged by
 * the loss carried on a little beyond it.
 */
#include "train/trainer.h"

#include "base/random.h"

#include "optimizer/optimizer.h"

#include <xsoftmax/tune.h>

#include <math.h>
#include <string.h>

/* The rates that there are. */
static const double rates[] = {1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4};
enum { PLACES = sizeof rates / sizeof rates[0], GRID_FIRST = 6, GRID_LAST = 12 };

enum { ROUNDS = 3 };

/* Work of a trial as a share of the run's, its passes, and the rows that it goes through and is judged on at least. */
static const struct {
    double share;
    uint64_t epochs, rows, evaluated;
} rounds[ROUNDS] = {{0.0025, 1, 64, 32}, {0.01, 2, 128, 64}, {0.09, 3, 128, 64}};

/* A rate's objective in the last round times its ratio to that of the round before to this power, is what counts. */
#define CARRY 0.5
/* Of the run's work, what the trials may take. */
#define BUDGET 0.25
/* How much better a rate has to be than a tenth of it: one that is too large costs more than one too small. */
#define LARGER 1.15
/* Objectives, as multiples of no training's, at which a rate is not tried in the next round, and at which training is
 * lost. */
#define HOPELESS 4
#define LOST 100
/* Of a trial's work, what its evaluation may take. */
#define EVALUATION 0.04
/* Runs with fewer steps an epoch have their batches made smaller with the rows, so that few steps do not become none.
 */
#define STEPS_FEW 32
/* Work is counted in classes that a step scores and updates. In one pass over all classes, a class takes that share of
 * it: scored and updated, or scored alone. */
#define EXACT_STEP 0.125
#define EXACT_SCORE 0.0625
/* The option of estimators that sample, by which they look at all classes. */
#define NEGATIVES "negatives"
/* Rows whose own loss is computed at a time. */
#define LOSS_ROWS 64
/* Of the model's cache lines, how many a trial may change to have them noted and zeroed one by one. */
#define MARKED 0.5
struct xsm_tuning {
    xsm_context *context;
    xsm_tuning_info info;
    xsm_tune_trial trials[ROUNDS][PLACES]; /* size 0: there is none */
};

typedef struct tuner {
    xsm_context *context;
    xsm_model *model;
    const xsm_dataset *train;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer_options run;
    xsm_tune_options options;
    double ridge;
    xsm_tuning *result;

    uint64_t *rank;           /* [N] of each row, a permutation: a trial takes the lowest */
    uint64_t *taken;          /* [N] room for their list */
    uint64_t startup;         /* examples of the run before a search begins */
    double step_work;         /* of an example, in classes */
    double score_work;        /* of an example's evaluation */
    uint64_t estimator_width; /* classes of a step */
    double untrained;         /* objective of a model of zeros */
    double spent, allowed;    /* work */
    double expected;          /* work, for the callback */
    double start;             /* on the clock */
    uint32_t round;           /* from 0 */
    double eta;               /* of the trial */
    uint64_t rows, epochs, batch, evaluated;
    xsm_gradient *losses; /* for an estimator that is judged by its own loss */
    uint64_t *marks;      /* [mark_count] of the weights that a trial may have changed, or NULL */
    size_t mark_count;
    bool marking, marked;         /* in this round; this trial */
    xsm_dataset *sample, *subset; /* what the round's trials go through and are evaluated on; NULL = all rows */
} tuner;

/* -- what a round does --------------------------------------------------------------------------------------------- */

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Fills rows, epochs, batch and evaluated. */
static void plan(tuner *t, uint32_t round)
{
    const uint64_t n = t->train->rows, all = t->run.epochs;
    const double passes = rounds[round].share * (double)all;
    uint64_t steps = n / t->run.batch + (n % t->run.batch != 0);
    uint64_t epochs = (uint64_t)ceil(passes);
    if (steps < STEPS_FEW) {
        epochs = (uint64_t)ceil(sqrt(passes * (double)all)); /* fewer steps and fewer rows alike */
    }
    t->epochs = at_most(at_least(epochs, rounds[round].epochs), all);
    double rows = ceil(passes / (double)t->epochs * (double)n);
    t->rows = at_most(at_least((uint64_t)rows, rounds[round].rows), n);
    t->batch = t->run.batch;
    if (steps < STEPS_FEW) {
        t->batch = at_least((uint64_t)((double)t->run.batch * (double)t->rows / (double)n + 0.5), 1);
    }
    double evaluated = EVALUATION * (double)t->rows * (double)t->epochs * t->step_work / t->score_work;
    t->evaluated = at_most(at_least((uint64_t)fmin(evaluated, (double)n), rounds[round].evaluated), t->rows);
}

/* Examples of a trial by those of the run. */
static double share_of_run(const tuner *t)
{
    return (double)t->rows * (double)t->epochs / ((double)t->train->rows * (double)t->run.epochs);
}

static double planned_work(const tuner *t)
{
    return (double)t->rows * (double)t->epochs * t->step_work + (double)t->evaluated * t->score_work;
}

/* The rows of the lowest `count` ranks, in the order of the data; NULL for all. */
static xsm_status take_rows(tuner *t, uint64_t count, xsm_dataset **out, xsm_error *err)
{
    xsm_dataset_free(*out);
    *out = NULL;
    if (count == t->train->rows) {
        return XSM_OK;
    }
    uint64_t taken = 0;
    for (uint64_t row = 0; row < t->train->rows; row++) {
        if (t->rank[row] < count) {
            t->taken[taken++] = row;
        }
    }
    return xsm_dataset_select(t->train, t->taken, taken, out, err);
}

static xsm_status begin_round(tuner *t, uint32_t round, xsm_error *err)
{
    t->round = round;
    plan(t, round);
    /* A ridge that weighs as much on these rows as the run's does on all of them. */
    t->estimator->common.ridge = t->ridge * ((double)t->rows / (double)t->train->rows);
    XSMI_TRY(take_rows(t, t->rows, &t->sample, err));
    XSMI_TRY(take_rows(t, t->evaluated, &t->subset, err));
    /* Noting what a trial changes pays where that is little of the model. */
    double each = t->train->sparse ? (double)t->train->offsets[t->train->rows] / (double)t->train->rows
                                   : (double)t->train->features / XSMI_MARK_FLOATS;
    double changed = (double)t->rows * (double)t->epochs * (double)t->estimator_width * each;
    t->marking = changed < MARKED * (double)xsmi_model_marks(t->model);
    if (t->marking && !t->marks) {
        t->mark_count = xsmi_model_marks(t->model) / 64 + 1;
        t->marks = xsmi_allocate_zero(t->context, t->mark_count, sizeof *t->marks);
        t->marking = t->marks != NULL; /* it is only for speed */
    }
    return XSM_OK;
}

/* -- a trial ------------------------------------------------------------------------------------------------------- */

static xsm_status tell(const tuner *t, double trial_done, xsm_error *err)
{
    if (!t->options.progress) {
        return XSM_OK;
    }
    double done = (t->spent + trial_done) / t->expected;
    xsm_tune_progress p = {.size = sizeof p,
                           .round = t->round + 1,
                           .rounds = ROUNDS,
                           .eta = t->eta,
                           .done = done < 1 ? done : 1,
                           .seconds = xsmi_seconds() - t->start};
    return t->options.progress(t->options.progress_user, &p) == 0
               ? XSM_OK
               : xsmi_fail(err, XSM_CANCELLED, "the choice of a learning rate was stopped by the callback");
}

static int32_t on_step(void *user, const xsm_progress *progress)
{
    const tuner *t = user;
    return tell(t, (double)progress->examples * t->step_work, NULL) != XSM_OK;
}

static xsm_status sum_losses(tuner *t, const xsm_dataset *rows, double *total, xsm_error *err)
{
    uint64_t list[LOSS_ROWS];
    double sum = 0;
    XSMI_TRY(xsm_estimator_bind(t->estimator, t->model, rows, err));
    if (t->estimator->searcher) {
        xsmi_searcher_set_startup(t->estimator->searcher, 0);
    }
    for (uint64_t first = 0; first < rows->rows; first += LOSS_ROWS) {
        uint64_t count = at_most(rows->rows - first, LOSS_ROWS);
        for (uint64_t i = 0; i < count; i++) {
            list[i] = first + i;
        }
        xsm_batch batch = xsm_batch_rows(rows, list, count);
        XSMI_TRY(xsm_estimator_gradient(t->estimator, &batch, 1, t->losses, err));
        sum += t->losses->loss * (double)count;
    }
    *total = sum;
    return XSM_OK;
}

/* The mean of the estimator's own loss over the rows that the round evaluates on. One that samples its sum over the
 * classes is judged by the whole sum: a few classes of each row are no measure of a model whose losses lie in few. */
static xsm_status own_loss(tuner *t, double *mean, xsm_error *err)
{
    const xsm_dataset *rows = t->subset ? t->subset : t->train;
    char negatives[32];
    xsmi_estimator_unbind(t->estimator);
    bool sampled = xsm_estimator_get(t->estimator, NEGATIVES, negatives, sizeof negatives) > 0;
    xsm_status status = sampled ? xsm_estimator_set(t->estimator, NEGATIVES, "all", err) : XSM_OK;
    status = status == XSM_OK ? sum_losses(t, rows, mean, err) : status;
    xsmi_estimator_unbind(t->estimator);
    if (sampled) {
        (void)xsm_estimator_set(t->estimator, NEGATIVES, negatives, NULL);
    }
    *mean /= (double)rows->rows;
    return status;
}

/* The objective of the model as it is, scaled to all rows. */
static xsm_status judge(tuner *t, double *f, xsm_error *err)
{
    double mean, norm = 0;
    if (t->losses) {
        XSMI_TRY(own_loss(t, &mean, err));
    } else {
        xsm_metrics metrics = XSM_METRICS_INIT;
        xsm_evaluate_options one = XSM_EVALUATE_OPTIONS_INIT;
        one.precision_max = 1;
        XSMI_TRY(xsm_evaluate(t->context, t->model, t->subset ? t->subset : t->train, &one, &metrics, err));
        mean = metrics.log_loss;
    }
    if (t->ridge > 0) {
        XSMI_TRY(xsmi_model_squared_norm(t->model, &norm, err));
    }
    *f = (double)t->train->rows * mean + t->ridge / 2 * norm;
    return XSM_OK;
}

static xsm_status take_trial(tuner *t, xsm_tune_trial *trial, xsm_error *err)
{
    const xsm_dataset *sample = t->sample ? t->sample : t->train;
    xsm_trainer_options o = t->run;
    o.epochs = t->epochs;
    o.batch = t->batch;
    o.eta = trial->eta;
    o.progress = t->options.progress ? on_step : NULL;
    o.progress_user = t;
    xsm_trainer *trainer;
    xsm_progress end;
    end.size = sizeof end;
    xsm_status status = xsm_trainer_new(t->context, t->model, sample, t->estimator, t->optimizer, &o, &trainer, err);
    if (status == XSM_OK) {
        if (t->estimator->searcher) { /* its start-up is a part of the run like any other */
            xsmi_searcher_set_startup(t->estimator->searcher, (uint64_t)((double)t->startup * share_of_run(t)));
        }
        xsmi_trainer_stretch(trainer, (double)t->run.epochs / (double)t->epochs);
        t->marked = t->marking && xsmi_trainer_mark(trainer, t->marks);
        status = xsm_trainer_run(trainer, err);
        (void)xsm_trainer_get_progress(trainer, &end, NULL);
        trial->examples = end.examples;
        xsm_trainer_free(trainer);
    }
    t->spent += (double)trial->examples * t->step_work;
    if (status != XSM_OK) {
        return status;
    }
    t->spent += (double)t->evaluated * t->score_work;
    return judge(t, &trial->objective, err);
}

/* Tries a rate in the current round. */
static xsm_status try_rate(tuner *t, size_t place, xsm_error *err)
{
    xsm_tune_trial *trial = &t->result->trials[t->round][place];
    *trial = (xsm_tune_trial){.size = sizeof *trial,
                              .round = t->round + 1,
                              .eta = rates[place],
                              .rows = t->rows,
                              .epochs = t->epochs,
                              .objective = (double)INFINITY};
    t->eta = trial->eta;
    XSMI_TRY(tell(t, 0, err));
    xsm_error inner = XSM_ERROR_INIT;
    xsm_status status = take_trial(t, trial, &inner);
    if (t->marked) {
        xsmi_model_zero_marked(t->model, t->marks);
    } else {
        xsmi_model_zero(t->model);
    }
    t->marked = false;
    if (status == XSM_ERROR_DIVERGED || (status == XSM_OK && !isfinite(trial->objective))) {
        trial->objective = (double)INFINITY;
        trial->outcome = XSM_TRIAL_DIVERGED;
        status = XSM_OK;
    } else if (status == XSM_CANCELLED) {
        status = xsmi_fail(err, XSM_CANCELLED, "the choice of a learning rate was stopped by the callback");
    } else if (status != XSM_OK) {
        xsmi_fail_copy(err, &inner);
    }
    return status;
}

/* -- which rates a round tries ------------------------------------------------------------------------------------- */

static bool tried(const tuner *t, uint32_t round, size_t place)
{
    return place < PLACES && t->result->trials[round][place].size != 0;
}

static double objective(const tuner *t, uint32_t round, size_t place)
{
    return place < PLACES && tried(t, round, place) ? t->result->trials[round][place].objective : (double)INFINITY;
}

/* By what rates are compared in a round. */
static double prospect(const tuner *t, uint32_t round, size_t place)
{
    const double now = objective(t, round, place);
    if (round + 1 < ROUNDS || !isfinite(now) || !isfinite(objective(t, round - 1, place)) || !(now > 0)) {
        return now;
    }
    return now * pow(now / objective(t, round - 1, place), CARRY) * pow(LARGER, (double)place);
}

/* The best place of a round; PLACES if all diverged. Of equal ones the smaller rate. */
static size_t best_of(const tuner *t, uint32_t round)
{
    size_t best = PLACES;
    for (size_t place = 0; place < PLACES; place++) {
        best = prospect(t, round, place) < prospect(t, round, best) ? place : best;
    }
    return best;
}

static bool affordable(const tuner *t, double reserve)
{
    return t->spent + planned_work(t) + reserve <= t->allowed;
}

static xsm_status fail_diverged(const tuner *t, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_DIVERGED,
                     "training with estimator '%s' diverged with every learning rate from %g up; try rows of unit "
                     "length, or a ridge",
                     t->estimator->ops.name, rates[0]);
}

/* The grid, and beyond it while the best is at its end. */
static xsm_status first_round(tuner *t, xsm_error *err)
{
    size_t low = GRID_FIRST, high = GRID_LAST;
    for (size_t place = low; place <= high; place++) {
        XSMI_TRY(try_rate(t, place, err));
    }
    for (;;) {
        size_t best = best_of(t, 0);
        if (best == high && high + 1 < PLACES) {
            XSMI_TRY(try_rate(t, ++high, err));
        } else if ((best == low || best == PLACES) && low > 0) {
            XSMI_TRY(try_rate(t, --low, err));
        } else if (best == PLACES) {
            return fail_diverged(t, err);
        } else {
            return XSM_OK;
        }
    }
}

/* Whether a rate ended far worse than no training at all in the round before, or is none. */
static bool hopeless(const tuner *t, size_t place)
{
    return place >= PLACES ||
           (tried(t, t->round - 1, place) && !(objective(t, t->round - 1, place) < HOPELESS * t->untrained));
}

static xsm_status try_neighbour(tuner *t, size_t place, xsm_error *err)
{
    return hopeless(t, place) ? XSM_OK : try_rate(t, place, err);
}

/* The best of the round before with its neighbours, or with the better of them; on while the best is at an end of
 * what was tried, as far as the work allows, leaving `reserve` for later rounds; and down while all diverge. */
static xsm_status later_round(tuner *t, bool both, double reserve, xsm_error *err)
{
    const uint32_t before = t->round - 1;
    const size_t first = best_of(t, before);
    const bool below = objective(t, before, first - 1) < objective(t, before, first + 1);
    XSMI_TRY(try_rate(t, first, err));
    if (both || below) {
        XSMI_TRY(try_neighbour(t, first - 1, err)); /* past the ends: not below PLACES */
    }
    if (both || !below) {
        XSMI_TRY(try_neighbour(t, first + 1, err));
    }
    size_t low = first, high = first;
    low -= low > 0 && tried(t, t->round, low - 1);
    high += tried(t, t->round, high + 1);
    for (;;) {
        size_t now = best_of(t, t->round);
        if (now == PLACES && low == 0) {
            return fail_diverged(t, err);
        }
        if (now == PLACES) {
            XSMI_TRY(try_rate(t, --low, err));
            continue;
        }
        if (!affordable(t, reserve)) {
            return XSM_OK;
        }
        if (now == low && low > 0) {
            XSMI_TRY(try_rate(t, --low, err));
        } else if (now == high && high + 1 < PLACES && !hopeless(t, high + 1)) {
            XSMI_TRY(try_rate(t, ++high, err));
        } else {
            return XSM_OK;
        }
    }
}

/* Whether the loss of some rate grew without bounds, rather than with the rate. */
static bool explodes(const tuner *t)
{
    for (size_t place = 0; place < PLACES; place++) {
        if (tried(t, 0, place) && isinf(objective(t, 0, place))) {
            return true;
        }
    }
    return false;
}

/*
 * The place chosen after the last round. A rate at which an unbounded estimator does well for the length of a trial may
 * still blow up later; how the next power of ten ended warns of it. Where losses grow in proportion to rate and steps
 * (`importance`), it need only be worse than no training. Where they explode (`raman`), a rate is fine until steps come
 * that are too long for it, which a somewhat worse end at ten times the rate does not say; a wholly lost one does.
 */
static size_t choose(const tuner *t)
{
    size_t chosen = best_of(t, ROUNDS - 1);
    if (!(t->estimator->ops.flags & XSM_ESTIMATOR_UNBOUNDED) || chosen == 0 || chosen + 1 == PLACES) {
        return chosen;
    }
    double above = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        above = tried(t, round, chosen + 1) ? fmax(above, objective(t, round, chosen + 1)) : above;
    }
    return above > t->untrained * (explodes(t) ? LOST : 1) ? chosen - 1 : chosen;
}

static xsm_status search(tuner *t, xsm_error *err)
{
    double work[ROUNDS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        plan(t, round);
        work[round] = planned_work(t);
    }
    t->expected = (GRID_LAST - GRID_FIRST + 1) * work[0] + 3 * work[1] + 2 * work[2];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        XSMI_TRY(begin_round(t, round, err));
        if (round == 0) {
            XSMI_TRY(judge(t, &t->untrained, err));
        }
        XSMI_TRY(round == 0   ? first_round(t, err)
                 : round == 1 ? later_round(t, true, 2 * work[2], err)
                              : later_round(t, false, 0, err));
    }
    return XSM_OK;
}

/* Says of each trial what came of it, and what was chosen. */
static void conclude(tuner *t)
{
    xsm_tuning *r = t->result;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (size_t place = 0; place < PLACES; place++) {
            xsm_tune_trial *trial = &r->trials[round][place];
            if (trial->size == 0) {
                continue;
            }
            r->info.trials++;
            r->info.examples += trial->examples;
            if (trial->outcome != XSM_TRIAL_DIVERGED && round + 1 < ROUNDS) {
                trial->outcome = tried(t, round + 1, place) ? XSM_TRIAL_KEPT : XSM_TRIAL_DROPPED;
            }
        }
    }
    size_t chosen = choose(t);
    if (tried(t, ROUNDS - 1, chosen)) {
        r->trials[ROUNDS - 1][chosen].outcome = XSM_TRIAL_CHOSEN;
    } else {
        r->trials[ROUNDS - 1][chosen + 1].outcome = XSM_TRIAL_KEPT;
    }
    r->info.eta = rates[chosen];
    r->info.seconds = xsmi_seconds() - t->start;
}

/* -- the public functions ------------------------------------------------------------------------------------------ */

/* Binds the estimator to all rows: finds out early what does not fit, and what a step costs. */
static xsm_status measure(tuner *t, xsm_error *err)
{
    XSMI_TRY(xsm_estimator_bind(t->estimator, t->model, t->train, err));
    double classes = (double)t->train->classes;
    bool exact = t->estimator->exact;
    t->step_work = 1 + (exact ? EXACT_STEP * classes : (double)t->estimator->width);
    t->score_work = 1 + EXACT_SCORE * classes;
    t->estimator_width = t->estimator->width;
    if (xsmi_correction_hierarchy(t->estimator->correction)) {
        xsmi_model_set_correction(t->model, t->estimator->correction); /* the run's tree, not one of a trial's rows */
    }
    t->startup = t->estimator->searcher ? xsmi_searcher_startup(t->estimator->searcher) : 0;
    t->allowed = BUDGET * (double)t->run.epochs * (double)t->train->rows * t->step_work;
    return XSM_OK;
}

static xsm_status tune(tuner *t, xsm_error *err)
{
    const uint64_t n = t->train->rows;
    XSMI_TRY(measure(t, err));
    xsmi_estimator_unbind(t->estimator);
    t->rank = n < SIZE_MAX ? xsmi_allocate(t->context, (size_t)n, sizeof *t->rank) : NULL;
    t->taken = t->rank ? xsmi_allocate(t->context, (size_t)n, sizeof *t->taken) : NULL;
    t->result = t->taken ? xsmi_allocate(t->context, 1, sizeof *t->result) : NULL;
    if (!t->result) {
        return xsmi_fail_memory(err, (size_t)n * sizeof *t->rank, "the choice of a learning rate");
    }
    memset(t->result, 0, sizeof *t->result);
    t->result->context = xsmi_context_retain(t->context);
    t->result->info.size = sizeof t->result->info;
    for (uint64_t i = 0; i < n; i++) {
        t->rank[i] = i;
    }
    xsmi_stream stream;
    xsmi_stream_start(&stream, t->run.seed, XSMI_STREAM_TUNE, 0);
    xsmi_stream_permute(&stream, t->rank, (size_t)n);
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
    tuner t = {.model = model,
               .train = train,
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
    xsmi_model_set_correction(model, correction);
    xsmi_correction_release(correction);
    xsm_dataset_free(t.sample);
    xsm_dataset_free(t.subset);
    xsm_gradient_free(t.losses);
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
