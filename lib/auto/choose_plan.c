/*
 * The trials of xsm_choose(): their rows and length within the allowed work, and a run of one.
 */
#include "auto/choose.h"

#include "base/entry.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

/* The work of trials by steps is limited to a multiple of the run's work plus a constant: where scoring all classes is
 * cheap, where it is not, and for embedding models. With several labels a row, few rows need other rates and epochs
 * than many, so the constant is larger. */
#define CHEAP_SHARE 3.0
#define LARGE_SHARE 0.7
#define VECTOR_SHARE 0.45
#define ANYWAY 3e9
#define ANYWAY_SEVERAL 6e10
/* Trials of a candidate, for the plan, which counts neither lbfgs nor candidates that follow another one, if there are
 * several; and the largest share of their work for judging. */
enum { TRIALS_EXACT = 7, TRIALS_LARGE = 4 };
#define JUDGING 0.2
/* Held-back rows: a share, a maximum, and the minimum of these and of all rows for meaningful trials. */
#define HELD_BACK_SHARE 0.1
enum { HELD_BACK_MOST = 2000, HELD_BACK_LEAST = 10, ROWS_LEAST = 100 };
/* The rate falls to this share over the run. */
#define FALL 0.1
/* The most numbers of rows that are split for both transforms at once: 64 MB. */
#define TOGETHER 8e6
/* The part of the trials' rows that the first round has: successive halving with a ratio of four. */
#define FEW 0.25
/* A trial ends after PATIENCE epochs in a row that are worse than its best. */
enum { PATIENCE = 2 };
/* What is so many standard errors behind cannot catch up: a kind of model after the first round; and a trial, from this
 * epoch on, beside its line's best one after as many epochs. Before it rates differ more than in the end. */
#define BEHIND 2.0
enum { HOPELESS_FROM = 3 };
/* The same with lbfgs after so many iterations, or at this tolerance. */
enum { FIT_ITERATIONS = 60 };
#define FIT_TOLERANCE 1e-4
/* Rows of the pilot run, which measures the speed for a time budget. */
enum { PILOT_ROWS = 512 };
/* Multiplications a second of a usual machine, and in training label trees and embedding models: by these work is said
 * in seconds, which decide how many trials there are. The real speed does not count, so that the choice is the same on
 * any machine; with a time budget, until one is measured. */
#define SPEED 8e9
#define SPEED_TREE 1e10
#define SPEED_VECTORS 2e10
/* Seconds that a choice may take although the run takes less, in work: where rates are searched, and for a label tree,
 * which has none. */
#define FREE_SECONDS 5.0
#define FREE_SECONDS_TREE 1.0

/* -- trials -------------------------------------------------------------------------------------------------------- */

const xsm_dataset *xsmi_choose_rows(const xsmi_chooser *c)
{
    const xsmi_choose_plan *p = &c->plan;
    return p->halving ? p->few[p->transform] : p->rows[p->transform];
}

const xsm_dataset *xsmi_choose_held(const xsmi_chooser *c)
{
    const xsmi_choose_plan *p = &c->plan;
    return p->halving                               ? p->few_held[p->transform]
           : p->known[p->transform] && !p->treeless ? p->known[p->transform]
                                                    : p->held_back[p->transform];
}

/* A bound for the standard error of a loss, by how losses of rows are distributed: a share of something has a variance
 * of at most m (1 - m), and the logarithm of a probability is spread about as far as its mean. */
static double error_of(const xsmi_chooser *c, double loss)
{
    const double n = (double)xsmi_choose_held(c)->rows;
    return c->judge == XSMI_JUDGE_CALIBRATED ? fmax(loss, 0) / sqrt(n) : sqrt(fmax(loss * (1 - loss), 0) / n);
}

bool xsmi_choose_is_near(const xsmi_chooser *c, double loss, double least)
{
    return loss <= least || loss - least <= BEHIND * hypot(error_of(c, loss), error_of(c, least));
}

/* Whether the current trial is too far behind the best one of its line. Both have the schedule of as many epochs. */
static bool is_hopeless(void *user, uint64_t epoch, double loss)
{
    const xsmi_chooser *c = user;
    const xsmi_best *b = &c->best;
    return b->trial != UINT64_MAX && epoch >= HOPELESS_FROM && epoch <= b->epochs && epoch <= XSMI_CURVE &&
           !xsmi_choose_is_near(c, loss, b->curve[epoch - 1]);
}

/* The factor by which the rate falls to FALL in so many epochs. */
double xsmi_choose_factor(const xsmi_chooser *c, uint64_t epochs)
{
    return c->options.keep_schedule ? c->run.factor : pow(FALL, 1 / (double)epochs);
}

double xsmi_choose_elapsed(const xsmi_chooser *c)
{
    return c->options.seconds > 0 ? c->runner.elapsed : c->elapsed;
}

/* The seconds by the clock that are left if the best candidate so far stays the best; NaN if no such end is known. */
static double seconds_left(const xsmi_chooser *c)
{
    const double pace = c->options.seconds > 0 ? 1 : c->trials_seconds / c->elapsed;
    const double limit = pace * xsmi_choose_limit(c);
    const double now = xsmi_seconds() - c->runner.began;
    return isnan(limit) ? limit : fmax(fmin(limit, c->runner.deadline) - now, 0);
}

static int32_t on_progress(void *user, const xsm_progress *progress)
{
    const xsmi_chooser *c = user;
    const xsm_choice_trial *t = &c->result->trials[c->result->info.trials];
    const xsm_choose_progress p = {.size = sizeof p,
                                   .estimator = t->estimator,
                                   .trial = c->result->info.trials + 1,
                                   .eta = t->eta,
                                   .ridge = t->ridge,
                                   .seconds = xsmi_seconds() - c->runner.began,
                                   .left = seconds_left(c)};
    (void)progress;
    int32_t stop;
    XSMI_CALL_HOST(stop = c->options.progress(c->options.progress_user, &p));
    return stop;
}

/* Adds a trial to the result, not counted yet, and makes the setting for it. */
static xsm_status start(xsmi_chooser *c, const xsmi_candidate *candidate, double eta, double ridge, xsmi_auto_trial *t,
                        xsm_error *err)
{
    xsm_choice *r = c->result;
    const xsmi_choose_plan *p = &c->plan;
    if (r->info.trials == r->trial_capacity) {
        size_t wanted = 2 * r->trial_capacity + 8;
        xsm_choice_trial *more = xsmi_reallocate(r->context, r->trials, r->trial_capacity, wanted, sizeof *r->trials);
        if (!more) {
            return xsmi_fail_memory(err, wanted * sizeof *more, "the list of trials");
        }
        r->trials = more;
        r->trial_capacity = wanted;
    }
    r->trials[r->info.trials] =
        (xsm_choice_trial){.size = sizeof *r->trials,
                           .estimator = candidate->method,
                           .optimizer = candidate->optimizer,
                           .label_tree = candidate->tree,
                           .eta = candidate->full || candidate->tree ? 0 : eta,
                           .ridge = ridge,
                           .transform = c->options.transform ? xsmi_choose_transform(c, p->transform) : NULL,
                           .hidden = candidate->hidden};
    *t = (xsmi_auto_trial){.runner = &c->runner,
                           .setting = {.estimator = candidate->estimator, .ridge = ridge, .run = c->run},
                           .rows = xsmi_choose_rows(c),
                           .held_back = xsmi_choose_held(c),
                           .judge = c->judge,
                           .hopeless = candidate->full ? NULL : is_hopeless,
                           .budget = {.epochs = candidate->full ? FIT_ITERATIONS : candidate->passes,
                                      .patience = PATIENCE,
                                      .stretch = 1,
                                      .startup = UINT64_MAX,
                                      .tolerance = FIT_TOLERANCE}};
    t->setting.run.batch = candidate->batch;
    t->setting.run.eta = eta;
    t->setting.run.factor = xsmi_choose_factor(c, candidate->passes);
    c->runner.progress = c->options.progress ? on_progress : NULL;
    return candidate->tree ? XSM_OK : xsmi_candidate_model(c, candidate, err);
}

/* Makes the optimizer and runs the trial. */
static xsm_status train(xsmi_chooser *c, const xsmi_candidate *candidate, xsmi_auto_trial *t, xsm_error *err)
{
    if (candidate->tree) {
        return xsmi_auto_run_tree(t, candidate->tree, err);
    }
    if (!candidate->full) {
        XSMI_TRY(xsm_optimizer_new(c->runner.context, candidate->optimizer, &t->setting.optimizer, err));
    }
    if (candidate->initial > 0) {
        XSMI_TRY(xsm_optimizer_set_number(t->setting.optimizer, "initial", candidate->initial, err));
    }
    return xsmi_auto_run(t, err);
}

/* The work of judging the rows that a trial held back, after each epoch, or of lbfgs at its end. */
static double judging_work(const xsmi_chooser *c, const xsmi_candidate *candidate, const xsmi_auto_trial *t)
{
    const double times = candidate->full ? 1 : (double)t->outcome.epochs;
    return t->held_back ? times * (double)t->held_back->rows * xsmi_candidates_judging(c, candidate) : 0;
}

static void end(xsmi_chooser *c, const xsmi_candidate *candidate, xsmi_auto_trial *t)
{
    if (!candidate->tree) {
        xsmi_auto_end(t);
    }
    xsm_optimizer_free(t->setting.optimizer);
    c->work += (double)t->outcome.examples * candidate->work;
    c->work_seconds += t->outcome.seconds;
}

static double speed_of(const xsmi_candidate *candidate)
{
    static const double speeds[] = {
        [XSMI_KIND_TREE] = SPEED_TREE, [XSMI_KIND_LINEAR] = SPEED, [XSMI_KIND_EMBEDDING] = SPEED_VECTORS};
    return speeds[candidate->kind];
}

/* Notes what a trial has taken. */
static void account(xsmi_chooser *c, xsmi_candidate *candidate, const xsmi_auto_trial *t, double seconds)
{
    const bool timed = c->options.seconds > 0 && t->outcome.examples > 0;
    const double own = candidate->work / speed_of(candidate);
    const double counted = (double)t->outcome.examples * own + judging_work(c, candidate, t) / SPEED;
    candidate->trial_seconds = (timed ? seconds : counted) / (double)t->rows->rows;
    candidate->row_seconds = timed ? t->outcome.seconds / (double)t->outcome.examples : own;
    c->elapsed += counted;
    c->trials_seconds = xsmi_seconds() - c->runner.began;
}

/* Runs a trial and adds it to the result's trials. A trial that the deadline ended counts with its complete epochs, if
 * any. */
xsm_status xsmi_choose_try(xsmi_chooser *c, xsmi_candidate *candidate, double eta, double ridge, xsm_error *err)
{
    xsmi_auto_trial t;
    const double began = xsmi_seconds();
    XSMI_TRY(start(c, candidate, eta, ridge, &t, err));
    xsm_status status = train(c, candidate, &t, err);
    end(c, candidate, &t);
    XSMI_TRY(status);
    double seconds = xsmi_seconds() - began;
    XSMI_TRY(xsmi_runner_share(&c->runner, XSM_OK, &seconds, sizeof seconds, err));
    xsm_choice_trial *out = &c->result->trials[c->result->info.trials++];
    out->rows = t.rows->rows;
    out->epochs = t.outcome.epochs;
    out->best_epoch = t.outcome.best_epoch;
    out->loss = t.outcome.held_back.loss;
    out->precision = t.outcome.held_back.precision;
    c->last = t.outcome;
    out->seconds = seconds;
    account(c, candidate, &t, seconds);
    c->cut_short |= t.outcome.late;
    return XSM_OK;
}

/* Ten occurrences of a word do not mean ten times as much: counts are replaced by their logarithms. */
const char *xsmi_choose_transform(const xsmi_chooser *c, size_t transform)
{
    static const char *const steps[2][XSMI_TRANSFORMS] = {{"unit", "tfidf,unit"}, {"log,unit", "log,tfidf,unit"}};
    return steps[c->survey.counts][transform];
}

/* Transforms one or two (otherwise NULL) datasets of rows, fitted to all rows. */
static xsm_status transform_rows(const xsmi_chooser *c, size_t transform, xsm_dataset *one, xsm_dataset *other,
                                 xsm_error *err)
{
    xsm_transform *t;
    XSMI_TRY(xsm_transform_new(c->runner.context, xsmi_choose_transform(c, transform), &t, err));
    xsm_status status = xsm_transform_fit(t, c->train, err);
    status = status == XSM_OK ? xsm_transform_apply(t, one, err) : status;
    status = status == XSM_OK && other ? xsm_transform_apply(t, other, err) : status;
    xsm_transform_free(t);
    return status;
}

/* A pass over `few` rows, which warms up, and another, whose speed is measured. */
static xsm_status run_pilot(xsmi_chooser *c, xsmi_candidate candidate, double eta, const xsm_dataset *few,
                            xsm_error *err)
{
    xsmi_auto_trial t;
    candidate.optimizer = candidate.full ? "sgd" : candidate.optimizer;
    candidate.full = false;
    XSMI_TRY(start(c, &candidate, eta, candidate.ridge, &t, err));
    t.rows = few;
    t.held_back = NULL;
    t.budget.epochs = 1;
    xsm_status status = train(c, &candidate, &t, err);
    const xsmi_auto_outcome warm = t.outcome;
    status = status == XSM_OK ? xsmi_auto_continue(&t, 2, err) : status;
    if (t.outcome.examples > warm.examples) {
        t.outcome.examples -= warm.examples;
        t.outcome.seconds -= warm.seconds;
    }
    end(c, &candidate, &t);
    return status;
}

xsm_status xsmi_choose_pilot(xsmi_chooser *c, const xsmi_candidate *candidate, double eta, xsm_error *err)
{
    const uint64_t rows = c->train->rows, count = XSMI_MIN(rows, PILOT_ROWS);
    uint64_t list[PILOT_ROWS];
    xsm_dataset *few;
    for (uint64_t i = 0; i < count; i++) {
        list[i] = (uint64_t)((double)i / (double)count * (double)rows + 1e-6);
    }
    XSMI_TRY(xsm_dataset_select(c->train, list, count, &few, err));
    /* The speed is the same under every transform. */
    xsm_status status = c->options.transform ? transform_rows(c, 0, few, NULL, err) : XSM_OK;
    status = status == XSM_OK ? run_pilot(c, *candidate, eta, few, err) : status;
    xsm_dataset_free(few);
    return status;
}

/* -- the plan ------------------------------------------------------------------------------------------------------ */

/* Values of the rows so far: how many are 1, and how many are more. */
typedef struct tally {
    uint64_t ones, more;
    bool whole; /* all are whole numbers, and none is below 0 */
} tally;

static void count_values(tally *t, const xsmi_features *x)
{
    for (size_t j = 0; j < x->count && t->whole; j++) {
        const float value = x->values[j];
        t->ones += value == 1;
        t->more += value > 1;
        t->whole = value >= 0 && (value >= 0x1p23f || value == (float)(int32_t)value);
    }
}

xsmi_survey xsmi_choose_survey(const xsmi_chooser *c)
{
    const xsm_dataset *d = c->train;
    double squares = 0, count = 0;
    tally t = {.whole = true};
    for (uint64_t i = 0; i < d->rows; i++) {
        xsmi_features x = xsmi_dataset_features(d, i);
        squares += (double)xsmi_context_kernels(c->runner.context)->dot(x.values, x.values, x.count);
        count += (double)x.count;
        count_values(&t, &x);
    }
    /* Most words of a row occur once in it; whole numbers that are rarely 1, such as pixels, are measurements. */
    const bool counts = t.whole && t.more > 0 && t.ones >= t.more;
    const double n = (double)d->rows, squared = squares / n;
    const bool given = isfinite(squared) && squared > 0 && !c->options.transform;
    return (xsmi_survey){count / n, given ? squared : 1, d->counted.labels > d->rows, counts};
}

/* Multiplications a second, with a time budget. */
static double speed(const xsmi_chooser *c)
{
    return c->work_seconds > 0 ? c->work / c->work_seconds : SPEED;
}

double xsmi_choose_seconds(const xsmi_chooser *c, const xsmi_candidate *candidate, double rows, double passes)
{
    const double usual = c->options.seconds > 0 ? speed(c) : speed_of(candidate);
    return rows * passes * (candidate->row_seconds > 0 ? candidate->row_seconds : candidate->work / usual);
}

double xsmi_choose_run_seconds(const xsmi_chooser *c, const xsmi_candidate *candidate)
{
    return xsmi_choose_seconds(c, candidate, (double)c->train->rows, (double)candidate->epochs);
}

const xsmi_best *xsmi_choose_leader(const xsmi_chooser *c)
{
    return c->best.loss < c->found.loss ? &c->best : &c->found;
}

double xsmi_choose_limit(const xsmi_chooser *c)
{
    const xsmi_best *b = xsmi_choose_leader(c);
    if (b->trial == UINT64_MAX) {
        return (double)NAN;
    }
    return fmax(xsmi_choose_run_seconds(c, b->candidate), b->candidate->tree ? FREE_SECONDS_TREE : FREE_SECONDS);
}

/* The held-back rows that label trees can judge after training on `rows`, a new dataset: none whose only label is of no
 * training row. Nothing can be said of such a class, and a label tree says that it is impossible. If hardly any would
 * be left, all stay. */
static xsm_status judged_rows(const xsmi_chooser *c, const xsm_dataset *rows, const xsm_dataset *held_back,
                              xsm_dataset **out, xsm_error *err)
{
    xsm_context *ctx = c->runner.context;
    const uint64_t count = held_back->rows;
    const uint32_t classes = rows->classes;
    uint64_t *list = xsmi_allocate(ctx, count, sizeof *list), kept = 0;
    unsigned char *known = xsmi_allocate_zero(ctx, classes, sizeof *known);
    xsm_status status =
        list && known ? XSM_OK : xsmi_fail_memory(err, count * sizeof *list + classes, "held-back rows");
    size_t n;
    for (uint64_t i = 0; status == XSM_OK && i < rows->rows; i++) {
        const uint32_t *labels = xsmi_dataset_labels(rows, i, &n);
        for (size_t j = 0; j < n; j++) {
            known[labels[j]] = 1;
        }
    }
    for (uint64_t i = 0; status == XSM_OK && i < count; i++) {
        const uint32_t *labels = xsmi_dataset_labels(held_back, i, &n);
        if (n != 1 || known[labels[0]] || !c->candidates[0].tree) {
            list[kept++] = i;
        }
    }
    for (uint64_t i = 0; status == XSM_OK && kept < HELD_BACK_LEAST && i < count; i++) {
        list[i] = i;
    }
    const uint64_t some = kept < HELD_BACK_LEAST ? count : kept;
    status = status == XSM_OK ? xsm_dataset_select(held_back, list, some, out, err) : status;
    xsmi_release(ctx, list, count, sizeof *list);
    xsmi_release(ctx, known, classes, sizeof *known);
    return status;
}

bool xsmi_choose_halves(const xsmi_chooser *c)
{
    size_t lines = 0;
    for (size_t i = 0; i < c->candidate_count; i++) {
        const xsmi_candidate *candidate = &c->candidates[i];
        lines += !candidate->follows && !candidate->full && !candidate->dropped;
    }
    return lines > 1 && !(c->run.eta > 0);
}

/* A part of some rows; all of them if that is nearly the same. `rows` is replaced. */
static xsm_status keep_some(const xsmi_chooser *c, double count, xsm_dataset **rows, xsm_error *err)
{
    xsm_dataset *all = *rows, *some = NULL, *rest = NULL;
    if (count >= 0.95 * (double)all->rows) {
        return XSM_OK;
    }
    XSMI_TRY(xsm_dataset_split(all, count / (double)all->rows, c->run.seed, &some, &rest, err));
    xsm_dataset_free(all);
    xsm_dataset_free(rest);
    *rows = some;
    return XSM_OK;
}

static xsm_status split_more(xsmi_chooser *c, size_t transform, double rows, xsm_error *err)
{
    xsmi_choose_plan *p = &c->plan;
    xsm_dataset **kept = &p->rows[transform], **few = &p->few[transform], *rest = NULL;
    const xsm_dataset *held_back = p->held_back[transform];
    XSMI_TRY(keep_some(c, rows, kept, err));
    if (c->candidates[0].tree) {
        XSMI_TRY(judged_rows(c, *kept, held_back, &p->known[transform], err));
    }
    if (xsmi_choose_halves(c) && FEW * (double)(*kept)->rows >= ROWS_LEAST) {
        XSMI_TRY(xsm_dataset_split(*kept, FEW, c->run.seed, few, &rest, err));
        xsm_dataset_free(rest);
        XSMI_TRY(judged_rows(c, *few, held_back, &p->few_held[transform], err));
    }
    return XSM_OK;
}

/* The rows of both rounds under a transform; all transforms have the same rows. */
static xsm_status split_rows(xsmi_chooser *c, size_t transform, double share, double rows, xsm_error *err)
{
    xsmi_choose_plan *p = &c->plan;
    xsm_dataset **held_back = &p->held_back[transform], **kept = &p->rows[transform];
    XSMI_TRY(xsm_dataset_split(c->train, share, c->run.seed, held_back, kept, err));
    XSMI_TRY(split_more(c, transform, rows, err));
    if (!c->options.transform) {
        return XSM_OK;
    }
    XSMI_TRY(p->few[transform] ? transform_rows(c, transform, p->few[transform], p->few_held[transform], err) : XSM_OK);
    XSMI_TRY(p->known[transform] ? transform_rows(c, transform, p->known[transform], NULL, err) : XSM_OK);
    return transform_rows(c, transform, *held_back, *kept, err);
}

/* Splits the rows for both transforms: most of that is copying rows, of all of them for a while, so that many rows are
 * split for one transform after the other. */
typedef struct splitting {
    xsmi_chooser *chooser;
    double share, rows;
    xsm_status status[XSMI_TRANSFORMS];
    xsm_error error[XSMI_TRANSFORMS];
} splitting;

static void run_split(void *state, size_t transform, uint32_t thread)
{
    splitting *s = state;
    (void)thread;
    s->error[transform] = (xsm_error)XSM_ERROR_INIT;
    s->status[transform] = split_rows(s->chooser, transform, s->share, s->rows, &s->error[transform]);
}

/* How many rows are held back, and how many trials by steps train on, by the work that is allowed. */
static void allow_rows(const xsmi_chooser *c, double *held_back, double *rows)
{
    const double n = (double)c->train->rows;
    const xsmi_candidate *first = c->stepped;
    double most = 0, trials = 0;
    for (size_t i = 0; i < c->candidate_count; i++) {
        const xsmi_candidate *candidate = &c->candidates[i];
        const bool beside = candidate->tree || ((candidate->full || candidate->follows) && candidate != first);
        trials += beside ? 0 : (first->exact ? TRIALS_EXACT : TRIALS_LARGE) * candidate->work;
        most = candidate->tree ? most : fmax(most, candidate->work);
    }
    const double share = first->exact ? CHEAP_SHARE : first->hidden ? VECTOR_SHARE : LARGE_SHARE;
    double allowed =
        share * n * (double)first->epochs * most + (first->exact && c->survey.several ? ANYWAY_SEVERAL : ANYWAY);
    if (isfinite(c->runner.deadline)) {
        allowed = fmin(allowed, (c->runner.deadline - c->runner.elapsed) * speed(c));
    }
    const double each = allowed * most / trials / (double)first->passes; /* work of an epoch of the longest trial */
    *held_back = fmin(*held_back, JUDGING * each / xsmi_candidates_judging(c, first));
    *rows = fmin((1 - JUDGING) * each / most, n);
}

/* Holds rows back and selects as many others as the work allows; none if there are too few. */
xsm_status xsmi_choose_plan_trials(xsmi_chooser *c, xsm_error *err)
{
    const double n = (double)c->train->rows;
    double held_back = fmin(HELD_BACK_SHARE * n, HELD_BACK_MOST), rows = FEW * n;
    XSMI_TRY(xsmi_runner_look(&c->runner, err));
    if (c->stepped) {
        allow_rows(c, &held_back, &rows);
    }
    if (!(held_back >= HELD_BACK_LEAST && rows >= ROWS_LEAST && n >= ROWS_LEAST)) {
        c->cut_short = isfinite(c->runner.deadline) && n >= ROWS_LEAST;
        return XSM_OK;
    }
    splitting s = {.chooser = c, .share = held_back / n, .rows = rows};
    const size_t transforms = c->options.transform ? XSMI_TRANSFORMS : 1;
    const bool together = c->survey.nonzeros * n <= TOGETHER;
    for (size_t i = 0; !together && i < transforms; i++) {
        run_split(&s, i, 0);
    }
    XSMI_TRY(together ? xsmi_run_all(c->runner.context, run_split, &s, transforms, err) : XSM_OK);
    for (size_t i = 0; i < transforms; i++) {
        if (s.status[i] != XSM_OK) {
            xsmi_fail_copy(err, &s.error[i]);
            return s.status[i];
        }
    }
    return XSM_OK;
}
