/*
 * Trials of learning rates (tune.c): the rows and passes of a round, a small run, and its objective.
 */
#include "auto/tune.h"

#include "base/random.h"

#include <math.h>

/* For each round: the work of a trial as a share of the run's, its passes, the least number of its rows, and the least
 * numbers of these and of other rows that judge it, unless everything is reduced to fit. */
static const struct {
    double share;
    uint64_t epochs, rows, evaluated, held;
    double evaluation; /* the largest shares of a trial's work for judging it on its rows, and on others */
} rounds[XSMI_TUNE_ROUNDS] = {{0.0025, 1, 64, 32, 0, 0.04}, {0.01, 2, 128, 48, 48, 0.03}, {0.08, 3, 128, 64, 64, 0.05}};

/* For trials of some of the classes, in which the loss falls late and judging a row is cheap: all rounds make the
 * passes of the last round over correspondingly fewer rows, and this many times the rows judge them. */
#define NARROW_JUDGED 4
/* The number of rows that is enough for judging. */
#define EVALUATED_MOST 512
/* The least number of rows for judging, however little work there is. */
#define EVALUATED_LEAST 16
/* Runs with fewer steps an epoch have batches reduced in proportion to the rows, so that trials still have steps. */
#define STEPS_FEW 32
/* The option by which estimators that sample can score all classes. */
#define NEGATIVES "negatives"
/* Rows whose own loss is computed in one call. */
#define LOSS_ROWS 32
/* The share of the model's cache lines up to which the lines that a trial changes are marked and zeroed one by one. */
#define MARKED 0.5
/* The work of marking and zeroing what a trial changed, relative to the work of changing it, with weights in a cache
 * and outside. For zeroing everything: the work for a line relative to that for a line that a step changes. */
#define ZERO_NEAR 0.03
#define ZERO_FAR 0.95
#define ZERO_ALL_NEAR 1
#define ZERO_ALL_FAR 0.35
/* Every row is memorised to the same degree until there are so many times more rows than features. */
#define BY_HEART 3
/* A factor for the weight of rows left out if trials use some of the classes. */
#define UNSEEN_NARROW 0.5
/* A step's work for a class besides its cache lines, in units of the work for one line in a cache. */
#define STEP_LINES 31
/* Copying a line of a row into new memory, in the same unit. */
#define TAKE_LINE 16

/* The share of non-zero coefficients from which exact steps are fully busy: by then many more have been examined. */
#define BUSY 0.12

static double busy(const xsmi_tuner *t, double active)
{
    return t->searched ? active : active < BUSY ? active / BUSY : 1;
}

/* -- the plan of a round ------------------------------------------------------------------------------------------- */

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void xsmi_tuner_plan(xsmi_tuner *t, uint32_t round)
{
    const uint64_t n = t->run_train->rows, all = t->run.epochs;
    const double passes = t->cut * rounds[round].share * (double)all;
    uint64_t steps = n / t->run.batch + (n % t->run.batch != 0);
    uint64_t epochs = (uint64_t)ceil(passes);
    if (steps < STEPS_FEW) {
        epochs = (uint64_t)ceil(sqrt(passes * (double)all)); /* reduces steps and rows alike */
    }
    t->epochs = at_most(at_least(epochs, rounds[t->narrow ? XSMI_TUNE_ROUNDS - 1 : round].epochs), all);
    double rows = ceil(passes / (double)t->epochs * (double)n);
    t->rows = at_most(at_least((uint64_t)rows, rounds[round].rows), n);
    t->batch = t->run.batch;
    if (steps < STEPS_FEW) {
        t->batch = at_least((uint64_t)((double)t->run.batch * (double)t->rows / (double)n + 0.5), 1);
    }
    t->score_work = 1 + t->score_few + t->score_class * (double)xsmi_tuner_classes(t);
    const double judged = t->narrow ? NARROW_JUDGED : 1;
    double work =
        judged * rounds[round].evaluation * (double)t->rows * (double)t->epochs * t->step_work / t->score_work;
    uint64_t evaluated = (uint64_t)fmin(work, EVALUATED_MOST);
    uint64_t least = at_least((uint64_t)(judged * t->cut * (double)rounds[round].evaluated), EVALUATED_LEAST);
    t->evaluated = at_most(at_least(evaluated, least), t->rows);
    const double held = judged * t->cut * (double)rounds[round].held;
    least = held > 0 ? at_least((uint64_t)held, EVALUATED_LEAST) : 0;
    t->held = least > 0 ? at_most(at_least(evaluated, least), n - t->rows) : 0;
    t->held = t->held < least ? 0 : t->held; /* too few to be informative */
}

/* The number of examples of a trial relative to the run. */
static double share_of_run(const xsmi_tuner *t)
{
    return (double)t->rows * (double)t->epochs / ((double)t->run_train->rows * (double)t->run.epochs);
}

/* The number of cache lines that a step changes in each class. */
static double lines_of_class(const xsmi_tuner *t)
{
    return t->train->sparse ? fmax((double)t->train->offsets[t->train->rows] / (double)t->train->rows, 1)
                            : (double)t->train->features / XSMI_MARK_FLOATS;
}

/* The number of cache lines of the weights of the planned trial. */
static double lines_of_model(const xsmi_tuner *t)
{
    return t->narrow ? (double)xsmi_tuner_classes(t) * (double)t->model->stride / XSMI_MARK_FLOATS
                     : (double)xsmi_model_marks(t->model);
}

/* Marking a trial's changes pays off if they are a small part of the model. */
static bool pays_to_mark(const xsmi_tuner *t)
{
    double changed = (double)t->rows * (double)t->epochs * (double)t->estimator_width * lines_of_class(t);
    return t->model->layout == XSM_LAYOUT_CLASS_MAJOR && changed < MARKED * lines_of_model(t);
}

/* The work of resetting the model after a trial. */
static double zero_work(const xsmi_tuner *t)
{
    const bool far = lines_of_model(t) * XSMI_MARK_FLOATS > XSMI_TUNE_FAR;
    if (!pays_to_mark(t)) {
        return lines_of_model(t) *
               (far ? ZERO_ALL_FAR / lines_of_class(t) : ZERO_ALL_NEAR / (lines_of_class(t) + STEP_LINES));
    }
    return (far ? ZERO_FAR : ZERO_NEAR) * (double)t->rows * (double)t->epochs * (double)t->estimator_width;
}

/* The work of judging a trial. */
static double judge_work(const xsmi_tuner *t, double share)
{
    const bool may_idle = t->losses && !t->searched; /* a search takes the same time whatever it finds */
    return (double)(t->evaluated + t->held) * (t->score_work - (may_idle ? (1 - share) * t->idle_work : 0));
}

double xsmi_tuner_round_work(const xsmi_tuner *t)
{
    const double lines = lines_of_class(t), entry = sizeof(uint32_t) + sizeof(float);
    const double of_row = t->train->sparse ? lines * entry / (XSMI_MARK_FLOATS * sizeof(float)) : lines;
    return TAKE_LINE * of_row / (lines + STEP_LINES) * (double)(t->rows + t->evaluated + t->held);
}

double xsmi_tuner_planned_work(const xsmi_tuner *t, double share)
{
    return (double)t->rows * (double)t->epochs * (t->step_work - (1 - share) * t->idle_work) + judge_work(t, share) +
           zero_work(t);
}

/* Copies the `count` rows of ranks from `first` on, in the order of the data; NULL for all rows or none. */
static xsm_status take_rows(xsmi_tuner *t, uint64_t first, uint64_t count, xsm_dataset **out, xsm_error *err)
{
    xsm_dataset_free(*out);
    *out = NULL;
    if (count == t->train->rows || count == 0) {
        return XSM_OK;
    }
    uint64_t taken = 0;
    for (uint64_t row = 0; row < t->train->rows; row++) {
        if (t->rank[row] - first < count) { /* unsigned: this excludes ranks below `first` too */
            t->taken[taken++] = row;
        }
    }
    return xsm_dataset_select(t->train, t->taken, taken, out, err);
}

/* Computes a random order of the rows from which the round's trials choose theirs. */
static void rank_rows(xsmi_tuner *t, uint64_t position)
{
    for (uint64_t i = 0; i < t->train->rows; i++) {
        t->rank[i] = i;
    }
    xsmi_stream stream;
    xsmi_stream_start(&stream, t->run.seed, XSMI_STREAM_TUNE, position);
    xsmi_stream_permute(&stream, t->rank, (size_t)t->train->rows);
}

/* The number of features that occur in a trial's rows. */
static xsm_status count_features(const xsmi_tuner *t, double *count, xsm_error *err)
{
    const xsm_dataset *d = t->sample ? t->sample : t->train;
    *count = (double)d->features;
    if (!d->sparse) {
        return XSM_OK;
    }
    const size_t words = (size_t)d->features / 64 + 1;
    uint64_t *occurs = xsmi_allocate_zero(t->context, words, sizeof *occurs);
    if (!occurs) {
        return xsmi_fail_memory(err, words * sizeof *occurs, "the features of a trial");
    }
    uint64_t found = 0;
    for (uint64_t i = d->offsets[0]; i < d->offsets[d->rows]; i++) {
        const uint64_t bit = UINT64_C(1) << d->index[i] % 64;
        uint64_t *word = &occurs[d->index[i] / 64];
        found += (*word & bit) == 0;
        *word |= bit;
    }
    *count = (double)found;
    xsmi_release(t->context, occurs, words, sizeof *occurs);
    return XSM_OK;
}

/*
 * The weight of the loss on rows that a trial leaves out, in the estimate of the run's loss. A model of D features
 * partly memorises n rows: its loss on them is f (1 - x), and on others f (1 + x), where x is D / n in least squares.
 * After only a few passes x is less than 1, about D / (n + BY_HEART D). On the N rows of the run the loss is f (1 - X),
 * with X for N. This equals the first loss plus (1 - X / x) / 2 of the difference of the second to it. If there are
 * more features than rows, the run memorises its rows as well as the trial does, and rows left out have little weight.
 * A trial of some of the classes has fewer rows than the run for each feature, but as many for each weight: its weight
 * is between the two.
 */
static double unseen_part(const xsmi_tuner *t, double features)
{
    const double more = BY_HEART * features;
    const double part = (1 - ((double)t->rows + more) / ((double)t->run_train->rows + more)) / 2;
    return t->narrow ? UNSEEN_NARROW * part : part;
}

xsm_status xsmi_tuner_begin(xsmi_tuner *t, uint32_t round, xsm_error *err)
{
    double features;
    t->round = round;
    t->untrained[round] = round > 0 && !t->narrow ? t->untrained[0] : (double)NAN;
    xsmi_tuner_plan(t, round);
    if (t->narrow) {
        XSMI_TRY(xsmi_tuner_take_classes(t, err));
        rank_rows(t, 2 + round);
    } else if (round == 0) {
        rank_rows(t, 0);
    }
    /* An L2 penalty (ridge) with the same weight on these rows as the run's has on all rows. */
    t->estimator->common.ridge = t->ridge * ((double)t->rows / (double)t->train->rows);
    XSMI_TRY(take_rows(t, 0, t->rows, &t->sample, err));
    XSMI_TRY(count_features(t, &features, err));
    t->result->unseen_part[round] = unseen_part(t, features);
    XSMI_TRY(take_rows(t, 0, t->evaluated, &t->subset, err));
    XSMI_TRY(take_rows(t, t->train->rows - t->held, t->held, &t->rest, err));
    t->spent += xsmi_tuner_round_work(t);
    t->scratch.context = t->context;
    t->scratch.rows = at_most(EVALUATED_MOST, t->run_train->rows);
    t->marking = pays_to_mark(t);
    size_t marks = t->marking ? xsmi_model_marks(t->model) / 64 + 1 : 0;
    if (marks > t->mark_count) {
        xsmi_release(t->context, t->marks, t->mark_count, sizeof *t->marks);
        t->mark_count = marks;
        t->marks = xsmi_allocate_zero(t->context, t->mark_count, sizeof *t->marks);
        t->mark_count = t->marks ? marks : 0;
        t->marking = t->marks != NULL; /* only a matter of speed */
    }
    return XSM_OK;
}

/* -- a trial ------------------------------------------------------------------------------------------------------- */

static xsm_status tell(const xsmi_tuner *t, double trial_done, xsm_error *err)
{
    if (!t->options.progress) {
        return XSM_OK;
    }
    double done = (t->spent + trial_done) / t->expected;
    xsm_tune_progress p = {.size = sizeof p,
                           .round = t->round + 1,
                           .rounds = XSMI_TUNE_ROUNDS,
                           .eta = t->eta,
                           .done = done < 1 ? done : 1,
                           .seconds = xsmi_seconds() - t->start};
    return t->options.progress(t->options.progress_user, &p) == 0
               ? XSM_OK
               : xsmi_fail(err, XSM_CANCELLED, "the choice of a learning rate was stopped by the callback");
}

static int32_t on_step(void *user, const xsm_progress *progress)
{
    const xsmi_tuner *t = user;
    return tell(t, (double)progress->examples * t->step_work, NULL) != XSM_OK;
}

static xsm_status mean_loss(xsmi_tuner *t, const xsm_dataset *rows, double *mean, xsm_error *err)
{
    uint64_t list[LOSS_ROWS], places = 0, active = 0;
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
        places += count * t->losses->width;
        active += xsmi_gradient_count(t->losses, true);
    }
    t->judged_busy = busy(t, (double)active / (double)places);
    *mean = sum / (double)rows->rows;
    return XSM_OK;
}

/* The mean of the estimator's own loss over some rows. If the estimator samples its sum over the classes, the full sum
 * is used: a few classes of each row do not measure a model whose losses are in few classes. */
static xsm_status own_loss(xsmi_tuner *t, const xsm_dataset *rows, double *mean, xsm_error *err)
{
    char negatives[32];
    xsmi_estimator_unbind(t->estimator);
    bool sampled = xsm_estimator_get(t->estimator, NEGATIVES, negatives, sizeof negatives) > 0;
    xsm_status status = sampled ? xsm_estimator_set(t->estimator, NEGATIVES, "all", err) : XSM_OK;
    status = status == XSM_OK ? mean_loss(t, rows, mean, err) : status;
    xsmi_estimator_unbind(t->estimator);
    if (sampled) {
        (void)xsm_estimator_set(t->estimator, NEGATIVES, negatives, NULL);
    }
    return status;
}

xsm_status xsmi_tuner_judge(xsmi_tuner *t, const xsm_dataset *rows, double *f, xsm_error *err)
{
    double mean, norm = 0;
    t->judged_busy = 1;
    rows = rows ? rows : t->train;
    if (t->losses) {
        XSMI_TRY(own_loss(t, rows, &mean, err));
    } else {
        xsm_metrics metrics = XSM_METRICS_INIT;
        xsm_evaluate_options one = XSM_EVALUATE_OPTIONS_INIT;
        one.precision_max = 1;
        XSMI_TRY(xsmi_evaluate(t->model, rows, &one, &t->scratch, &metrics, err));
        mean = metrics.log_loss;
    }
    if (t->ridge > 0) {
        XSMI_TRY(xsmi_model_squared_norm(t->model, &norm, err));
    }
    *f = ((double)t->train->rows * mean + t->ridge / 2 * norm) * ((double)t->run_train->rows / (double)t->train->rows);
    return XSM_OK;
}

static xsm_status take_trial(xsmi_tuner *t, xsm_tune_trial *trial, double *unseen, double *share, xsm_error *err)
{
    const xsm_dataset *sample = t->sample ? t->sample : t->train;
    xsm_trainer_options o = t->run;
    o.epochs = t->epochs;
    o.batch = t->batch;
    o.eta = t->scale * trial->eta;
    o.progress = t->options.progress ? on_step : NULL;
    o.progress_user = t;
    xsm_trainer *trainer;
    xsm_progress end;
    end.size = sizeof end;
    xsm_status status = xsm_trainer_new(t->context, t->model, sample, t->estimator, t->optimizer, &o, &trainer, err);
    if (status == XSM_OK) {
        if (t->estimator->searcher) { /* its start-up is an ordinary part of the run */
            xsmi_searcher_set_startup(t->estimator->searcher, (uint64_t)((double)t->startup * share_of_run(t)));
        }
        xsmi_trainer_stretch(trainer, (double)t->run.epochs / (double)t->epochs);
        t->marked = t->marking && xsmi_trainer_mark(trainer, t->marks);
        status = xsm_trainer_run(trainer, err);
        (void)xsm_trainer_get_progress(trainer, &end, NULL);
        trial->examples = end.examples;
        *share = busy(t, xsmi_trainer_active(trainer));
        xsm_trainer_free(trainer);
    }
    t->spent += (double)trial->examples * (t->step_work - (1 - *share) * t->idle_work) + zero_work(t);
    if (status != XSM_OK) {
        return status;
    }
    if (t->rest) {
        XSMI_TRY(xsmi_tuner_judge(t, t->rest, unseen, err));
    }
    XSMI_TRY(xsmi_tuner_judge(t, t->subset, &trial->objective, err));
    t->spent += judge_work(t, t->judged_busy);
    return XSM_OK;
}

xsm_status xsmi_tuner_try(xsmi_tuner *t, size_t place, double eta, xsm_error *err)
{
    xsm_tune_trial *trial = &t->result->trials[t->round][place];
    *trial = (xsm_tune_trial){.size = sizeof *trial,
                              .round = t->round + 1,
                              .eta = eta,
                              .rows = t->rows,
                              .epochs = t->epochs,
                              .objective = (double)INFINITY};
    double *unseen = &t->unseen[t->round][place];
    *unseen = (double)NAN;
    t->eta = trial->eta;
    XSMI_TRY(tell(t, 0, err));
    xsm_error inner = XSM_ERROR_INIT;
    double *share = &t->busy[t->round][place];
    *share = t->judged_busy = 1;
    xsm_status status = take_trial(t, trial, unseen, share, &inner);
    t->busy_after[t->round][place] = t->judged_busy;
    if (t->marked) {
        xsmi_model_zero_marked(t->model, t->marks);
    } else {
        xsmi_model_zero(t->model);
    }
    t->marked = false;
    if (status == XSM_ERROR_DIVERGED || (status == XSM_OK && (!isfinite(trial->objective) || isinf(*unseen)))) {
        trial->objective = (double)INFINITY;
        trial->outcome = XSM_TRIAL_DIVERGED;
        status = XSM_OK;
    } else if (status == XSM_CANCELLED) {
        status = xsmi_fail(err, XSM_CANCELLED, "the choice of a learning rate was stopped by the callback");
    } else if (status != XSM_OK) {
        xsmi_fail_copy(err, &inner);
    }
    /* Only after the first trial, because memory that is read before it is written gets small pages. */
    if (status == XSM_OK && isnan(t->untrained[t->round])) {
        status = xsmi_tuner_judge(t, t->subset, &t->untrained[t->round], err);
        t->spent += (double)t->evaluated * t->score_work;
    }
    return status;
}
