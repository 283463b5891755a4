/*
 * Chooses a learning rate by successive halving over powers of ten (search.c), the grid of Fagan and Iyengar (2018,
 * section 4).
 *
 * Every trial is a small version of the whole run: some of the rows, fewer passes, and the whole schedule compressed
 * into them. Few rows with all passes, as in the paper, would let the model memorise the rows at rates that are far too
 * large for all rows; a single pass never shows the effect of further passes. Two and three passes over as many rows as
 * a trial can afford, with most of the work for the last two rates, chose the right rate most often (measured by
 * bench/eta_auto.py).
 *
 * The run's objective is between a trial's loss on its own rows, which the trial learns better than the run learns all
 * rows, and its loss on other rows. The numbers of rows and features determine the position between them
 * (tune_rows.c). If the objectives of the last two rates are close to each other, the best rate is between the two.
 */
#include "auto/tune.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"

#include <math.h>

/* The learning rates of trials. */
static const double rates[] = {1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0, 1e1, 1e2, 1e3, 1e4};
_Static_assert(sizeof rates / sizeof rates[0] == XSMI_TUNE_POINTS, "a point for each rate");

/* A rate between two rates, BETWEEN times the smaller one, is chosen if the logarithms of their objectives differ by
 * less than CLOSE, and by less than CLOSE_SHARE of the decrease from no training to the better one. */
#define CLOSE 0.1
#define CLOSE_SHARE 0.2
#define BETWEEN 3
/* Multiples of the untrained model's objective: a rate that exceeds HOPELESS is not tried in the next round, and
 * training that exceeds LOST has failed. */
#define HOPELESS 4
#define LOST 100
/* The number of rows for whose evaluation memory stays allocated. */
enum { ROWS_KEPT = 512, LAST = XSMI_TUNE_ROUNDS - 1 };

static double objective(const xsmi_tuner *t, uint32_t round, int point)
{
    return xsmi_tune_tried(t, round, point) ? t->result->trials[round][point].objective : (double)INFINITY;
}

/* -- a trial ------------------------------------------------------------------------------------------------------- */

static int32_t on_progress(void *user, const xsm_progress *progress)
{
    const xsmi_tuner *t = user;
    const double done = (t->spent + (double)progress->examples * t->costs.step) / t->expected;
    const xsm_tune_progress p = {.size = sizeof p,
                                 .round = t->search.round + 1,
                                 .rounds = XSMI_TUNE_ROUNDS,
                                 .eta = t->eta,
                                 .done = fmin(done, 1),
                                 .seconds = xsmi_seconds() - t->runner.began};
    int32_t stop;
    XSMI_CALL_HOST(stop = t->options.progress(t->options.progress_user, &p));
    return stop;
}

/* Computes the objective of the present model on some rows (NULL = all), scaled to all rows; INFINITY if it is not
 * finite. */
static xsm_status judge(xsmi_tuner *t, const xsm_dataset *rows, double *f, double *busy, xsm_error *err)
{
    xsmi_measured m;
    double norm = 0;
    const double all = (double)t->run.train->rows, n = (double)t->rows.train->rows;
    XSMI_TRY(xsmi_runner_judge(&t->runner, t->estimator, t->judge, rows ? rows : t->rows.train, &m, err));
    if (t->run.ridge > 0) {
        XSMI_TRY(xsmi_model_squared_norm(t->runner.model, &norm, err));
    }
    *busy = xsmi_tune_busy_at(t, m.active);
    *f = (n * m.loss + t->run.ridge / 2 * norm) * (all / n);
    *f = isfinite(*f) ? *f : (double)INFINITY;
    return XSM_OK;
}

/* Trains the trial and judges it on rows that it left out, if any (otherwise NaN), and on its own. */
static xsm_status train(xsmi_tuner *t, xsmi_auto_trial *trial, xsm_tune_trial *out, double *unseen, xsm_error *err)
{
    xsmi_tune_busy *busy = &t->busy[t->search.round][out - t->result->trials[t->search.round]];
    xsm_status status = xsmi_auto_run(trial, err);
    xsmi_auto_end(trial);
    out->examples = trial->outcome.examples;
    busy->training = xsmi_tune_busy_at(t, trial->outcome.active);
    busy->judged = 1;
    t->spent += xsmi_tune_training_work(t, out->examples, busy->training);
    if (status != XSM_OK || trial->outcome.diverged) {
        return status;
    }
    if (t->rows.rest) {
        XSMI_TRY(judge(t, t->rows.rest, unseen, &busy->judged, err));
    }
    if (!isinf(*unseen)) {
        XSMI_TRY(judge(t, t->rows.subset, &out->objective, &busy->judged, err));
        t->spent += xsmi_tune_judging_work(t, busy->judged);
    }
    return XSM_OK;
}

/* Tries a rate in the current round, and resets the model. The value is an estimate of the run's objective. */
static xsm_status try_rate(void *user, int point, double *value, xsm_error *err)
{
    xsmi_tuner *t = user;
    const uint32_t round = t->search.round;
    const xsmi_tune_size *s = &t->size;
    const double all = (double)t->run.train->rows, epochs = (double)t->run.options.epochs;
    const double of_run = (double)s->rows * (double)s->epochs / (all * epochs);
    xsm_tune_trial *out = &t->result->trials[round][point];
    *out = (xsm_tune_trial){.size = sizeof *out,
                            .round = round + 1,
                            .eta = t->eta = rates[point],
                            .rows = s->rows,
                            .epochs = s->epochs,
                            .objective = (double)INFINITY};
    xsmi_auto_trial trial = {
        .runner = &t->runner,
        .setting = {.estimator = t->estimator, .optimizer = t->optimizer, .run = t->run.options},
        .rows = t->rows.sample ? t->rows.sample : t->rows.train,
        .budget = {.epochs = s->epochs,
                   .stretch = epochs / (double)s->epochs,
                   .startup = (uint64_t)(t->costs.startup * of_run), /* the same share as in the run */
                   .marked = t->marking}};
    /* The L2 penalty (ridge) has the same weight on these rows as the run's has on all rows. */
    trial.setting.ridge = t->run.ridge * ((double)s->rows / (double)t->rows.train->rows);
    trial.setting.run.batch = s->batch;
    trial.setting.run.eta = t->rows.scale * rates[point];
    double unseen = (double)NAN, ignored;
    xsm_status status = train(t, &trial, out, &unseen, err);
    if (trial.outcome.marked) {
        xsmi_model_zero_marked(t->runner.model, t->runner.marks);
    } else {
        xsmi_model_zero(t->runner.model);
    }
    XSMI_TRY(status);
    if (isinf(out->objective)) {
        out->outcome = XSM_TRIAL_DIVERGED;
        t->explodes |= round == 0;
    } else {
        *value =
            isnan(unseen) ? out->objective : out->objective + t->result->unseen_part[round] * (unseen - out->objective);
    }
    /* Judges the untrained model only after the first trial, because memory that is read before it is written gets
     * small pages. */
    if (isnan(t->untrained[round])) {
        XSMI_TRY(judge(t, t->rows.subset, &t->untrained[round], &ignored, err));
        t->spent += (double)s->evaluated * s->judging;
    }
    return XSM_OK;
}

/* -- the rounds ---------------------------------------------------------------------------------------------------- */

static xsm_status begin(void *user, uint32_t round, xsm_error *err)
{
    xsmi_tuner *t = user;
    xsmi_tune_fit(t, round);
    t->untrained[round] = round > 0 && !t->rows.narrow ? t->untrained[0] : (double)NAN;
    XSMI_TRY(xsmi_tune_select(t, round, err));
    t->spent += xsmi_tune_round_work(t);
    t->marking = xsmi_tune_pays_to_mark(t) && xsmi_runner_need_marks(&t->runner);
    return XSM_OK;
}

/* Whether a rate's objective in the previous round was far worse than without training. */
static bool hopeless(const xsmi_tuner *t, int point)
{
    const uint32_t before = t->search.round - 1;
    return xsmi_tune_tried(t, before, point) && !(objective(t, before, point) < HOPELESS * t->untrained[before]);
}

static bool allows(void *user, int point, bool planned)
{
    const xsmi_tuner *t = user;
    const xsmi_scale_search *s = &t->search;
    if (planned) {
        return !hopeless(t, point);
    }
    return s->round == 0 || s->best[s->round] == XSMI_NOWHERE ||
           ((point < s->low || !hopeless(t, point)) && xsmi_tune_affordable(t, point));
}

static const xsmi_scale scale = {
    0, XSMI_TUNE_POINTS - 1, XSMI_TUNE_FIRST, XSMI_TUNE_LAST, XSMI_TUNE_ROUNDS, begin, try_rate, allows};

/* -- the choice ---------------------------------------------------------------------------------------------------- */

/* Returns the loss to which the run grows, divided by the rate, computed from the smallest rate of the last round, from
 * `point` on, that is worse than no training; 0 if there is none. */
static double growth(const xsmi_tuner *t, int point)
{
    const double longer =
        (double)t->run.train->rows * (double)t->run.options.epochs / ((double)t->size.rows * (double)t->size.epochs);
    for (; point < XSMI_TUNE_POINTS; point++) {
        if (objective(t, LAST, point) > t->untrained[LAST] && isfinite(objective(t, LAST, point))) {
            return objective(t, LAST, point) / rates[point] * longer;
        }
    }
    return 0;
}

/*
 * Returns the index of the rate chosen after the last round for estimators with unbounded steps. A rate that works
 * during a trial may still diverge later; the result of the next power of ten gives a warning. If losses grow in
 * proportion to rate and steps (`importance`), that result predicts the loss of the run, which must not be worse than
 * no training; nor may the loss at the next power of ten have grown since the previous round. If losses explode
 * (`raman`), a rate works until steps occur that are too long for it. Then the next power of ten must not have been
 * wholly lost before the last round, which has far more steps than all previous rounds. The chosen index is at most one
 * below the tried rates.
 */
static int choose_unbounded(const xsmi_tuner *t, int chosen)
{
    if (chosen > 0 && objective(t, LAST, chosen) > t->untrained[LAST]) {
        chosen--; /* no smaller rate was affordable */
    }
    if (chosen == 0 || chosen + 1 == XSMI_TUNE_POINTS) {
        return chosen;
    }
    const bool lost = t->explodes;
    const double once = lost ? 0 : growth(t, chosen);
    double above = 0;
    for (uint32_t round = 0; round + lost < XSMI_TUNE_ROUNDS; round++) {
        above = xsmi_tune_tried(t, round, chosen + 1) ? fmax(above, objective(t, round, chosen + 1)) : above;
    }
    bool grew = !lost && xsmi_tune_tried(t, LAST - 1, chosen + 1) && xsmi_tune_tried(t, LAST, chosen + 1) &&
                objective(t, LAST, chosen + 1) > objective(t, LAST - 1, chosen + 1);
    chosen -= grew || above > t->untrained[LAST] * (lost ? LOST : 1);
    while (xsmi_tune_tried(t, 0, chosen) && chosen > 0 && rates[chosen] * once > t->untrained[LAST]) {
        chosen--;
    }
    return chosen;
}

/* Returns the rate chosen after the last round: the best one, or a rate between it and a close neighbour. Sets *smaller
 * to the index of the rate itself or of the next lower one. */
static double choose(const xsmi_tuner *t, int *smaller)
{
    const int best = t->search.best[LAST];
    if (t->estimator->ops.flags & XSM_ESTIMATOR_UNBOUNDED) {
        *smaller = choose_unbounded(t, best);
        return rates[*smaller];
    }
    const int other = xsmi_scale_search_second(&t->search, LAST);
    const double value = xsmi_scale_search_value(&t->search, LAST, best),
                 behind = log(xsmi_scale_search_value(&t->search, LAST, other) / value);
    if (value > 0 && behind < CLOSE && behind < CLOSE_SHARE * log(t->untrained[LAST] / value)) {
        *smaller = XSMI_MIN(other, best);
        return BETWEEN * rates[*smaller];
    }
    *smaller = best;
    return rates[best];
}

/* Sets each trial's outcome, and the chosen rate. */
static void conclude(xsmi_tuner *t)
{
    xsm_tuning *r = t->result;
    for (uint32_t round = 0; round < XSMI_TUNE_ROUNDS; round++) {
        for (int point = 0; point < XSMI_TUNE_POINTS; point++) {
            xsm_tune_trial *trial = &r->trials[round][point];
            if (trial->size == 0) {
                continue;
            }
            r->info.trials++;
            r->info.examples += trial->examples;
            if (trial->outcome != XSM_TRIAL_DIVERGED && round + 1 < XSMI_TUNE_ROUNDS) {
                trial->outcome = xsmi_tune_tried(t, round + 1, point) ? XSM_TRIAL_KEPT : XSM_TRIAL_DROPPED;
            }
        }
    }
    int smaller;
    r->info.eta = choose(t, &smaller);
    r->trials[LAST][t->search.best[LAST]].outcome = XSM_TRIAL_KEPT;
    /* A rate between two rates, or below one, can be chosen. */
    for (int point = smaller; point <= smaller + 1; point++) {
        if (xsmi_tune_tried(t, LAST, point)) {
            const bool chosen = r->trials[LAST][point].eta == r->info.eta;
            r->trials[LAST][point].outcome = chosen ? XSM_TRIAL_CHOSEN : XSM_TRIAL_KEPT;
            point += chosen;
        }
    }
    r->info.seconds = xsmi_seconds() - t->runner.began;
}

/* -- the public functions ------------------------------------------------------------------------------------------ */

/* Binds the estimator to all rows: detects unsuitable data early and computes the work of a step. */
static xsm_status measure(xsmi_tuner *t, xsm_error *err)
{
    XSMI_TRY(xsm_estimator_bind(t->estimator, t->runner.model, t->run.train, err));
    xsmi_tune_measure(t);
    if (t->estimator->ops.kind == XSM_ESTIMATOR_HIERARCHY) { /* so that trials have the tree of the run, not one of
                                                                their rows */
        xsmi_model_set_head(t->runner.model, t->estimator->head);
    }
    XSMI_TRY(xsmi_tune_narrow(t, err));
    xsmi_estimator_unbind(t->estimator);
    return XSM_OK;
}

static xsm_status tune(xsmi_tuner *t, xsm_error *err)
{
    const uint64_t n = t->run.train->rows;
    xsm_context *ctx = t->runner.context;
    XSMI_TRY(measure(t, err));
    t->rows.rank = n < SIZE_MAX ? xsmi_allocate(ctx, (size_t)n, sizeof *t->rows.rank) : NULL;
    t->rows.chosen = t->rows.rank ? xsmi_allocate(ctx, (size_t)n, sizeof *t->rows.chosen) : NULL;
    if (!t->rows.chosen) {
        return xsmi_fail_memory(err, (size_t)n * sizeof *t->rows.rank, "the choice of a learning rate");
    }
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &t->result, xsm_tuning, "the choice of a learning rate", err));
    t->result->info.size = sizeof t->result->info;
    XSMI_TRY(xsmi_scale_search_run(&t->search, &scale, t, err));
    if (t->search.round < XSMI_TUNE_ROUNDS) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED,
                         "training with estimator '%s' diverged with every learning rate from %g up; try rows of unit "
                         "length, or a ridge",
                         t->estimator->ops.name, rates[0]);
    }
    t->result->info.classes = t->rows.train->classes;
    t->result->share = t->spent / xsmi_tune_run_work(t, LAST);
    conclude(t);
    return XSM_OK;
}

/* Makes sure that the weights are zeros that can be written. */
static xsm_status claim(xsm_model *m, xsm_error *err)
{
    XSMI_TRY(xsmi_model_need_dense(m, "the choice of a learning rate", err));
    return xsmi_model_is_zero(m)
               ? xsmi_model_own(m, err)
               : xsmi_fail(err, XSM_ERROR_STATE,
                           "the model has been trained: a learning rate is chosen for a model that is all zeros");
}

/* Reads the options, and takes the model. */
static xsm_status start(xsmi_tuner *t, const xsm_tune_options *options, xsm_error *err)
{
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    XSMI_TRY(xsmi_model_need_whole(t->runner.model, "the choice of a learning rate", err));
    XSMI_TRY(XSMI_READ(xsm_tune_options, &t->options, options, err));
    XSMI_TRY(XSMI_READ(xsm_trainer_options, &run, t->options.run, err));
    run.eta = 0;
    XSMI_TRY(xsmi_trainer_read_options(&run, t->estimator, &t->run.options, err));
    return claim(t->runner.model, err);
}

static xsm_status tune_eta(xsm_context *context, xsm_model *model, const xsm_dataset *train, xsm_estimator *estimator,
                           xsm_optimizer *optimizer, const xsm_tune_options *options, xsm_tuning **out, xsm_error *err)
{
    xsmi_tuner t = {.runner = {.model = model,
                               .purpose = "the choice of a learning rate",
                               .began = xsmi_seconds(),
                               .deadline = (double)INFINITY,
                               .scratch = {.rows = XSMI_MIN(train->rows, ROWS_KEPT)}},
                    .estimator = estimator,
                    .optimizer = optimizer,
                    .options = XSM_TUNE_OPTIONS_INIT,
                    .run = {.train = train, .options = XSM_TRAINER_OPTIONS_INIT, .ridge = estimator->common.ridge},
                    .rows = {.train = train, .scale = 1},
                    .cut = 1};
    XSMI_TRY(xsmi_context_acquire(context, &t.runner.context, err));
    xsm_status status = start(&t, options, err);
    if (status != XSM_OK) {
        xsm_context_free(t.runner.context);
        return status;
    }
    t.runner.progress = t.options.progress ? on_progress : NULL;
    t.runner.user = &t;
    xsmi_head *before = xsmi_head_retain(model->head);
    xsmi_activity activity;
    xsmi_begin_cover(&activity, t.runner.context, "choosing a learning rate", "trials", 0);
    status = xsmi_end(&activity, tune(&t, err), err);
    estimator->common.ridge = t.run.ridge;
    xsmi_estimator_unbind(estimator);
    xsmi_tune_rows_free(&t);
    xsmi_model_set_head(model, before);
    xsmi_head_release(before);
    xsmi_runner_free(&t.runner);
    if (status == XSM_OK) {
        *out = t.result;
    } else {
        xsm_tuning_free(t.result);
    }
    xsm_context_free(t.runner.context);
    return status;
}

xsm_status xsm_tune_eta(xsm_context *context, xsm_model *model, const xsm_dataset *train, xsm_estimator *estimator,
                        xsm_optimizer *optimizer, const xsm_tune_options *options, xsm_tuning **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"}, {train, "the data"}, {estimator, "the estimator"},
              {optimizer, "the optimizer"}, {out, "out"});
    xsm_dataset *weighted;
    XSMI_TRY(xsmi_rows_with_weight(train, &weighted, err));
    const xsm_status status =
        tune_eta(context, model, weighted ? weighted : train, estimator, optimizer, options, out, err);
    xsm_dataset_free(weighted);
    return status;
}

void xsm_tuning_free(xsm_tuning *r)
{
    if (r) {
        XSMI_OBJECT_FREE(r, xsm_tuning);
    }
}

xsm_status xsm_tuning_get_info(const xsm_tuning *r, xsm_tuning_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {r, "the tuning"});
    return XSMI_WRITE(xsm_tuning_info, &r->info, info, err);
}

xsm_status xsm_tuning_get_trial(const xsm_tuning *r, uint64_t index, xsm_tune_trial *trial, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {r, "the tuning"});
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
    return XSMI_WRITE(xsm_tune_trial, all, trial, err);
}
