/*
 * Chooses how to train by short runs that are judged on held-back rows.
 *
 * A candidate is a line of the portfolio (candidates.c). Successive halving (Jamieson and Talwalkar 2016): all lines
 * that apply are tried on a part of the trials' rows. The best of each kind of model goes on to all of these, the best
 * kind first, unless another kind is so far ahead that it cannot catch up. For each of those the settings are tried,
 * the most important first: a learning rate and an L2 penalty (ridge), changed in steps while the result improves
 * (search.c; one after the other, as in a coordinate descent). The size of trials and their number depend on counts of
 * work only: trials end when they have had as much as the run that they choose will have. So nothing depends on the
 * clock, unless there is a time budget: then a pilot run measures the work per second, and the clock ends the trials.
 */
#include "auto/choose.h"

#include "base/activity.h"
#include "base/comm.h"
#include "base/entry.h"
#include "base/order.h"
#include "data/part.h"

#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/pairs.h>

#include <math.h>
#include <string.h>

/* An exact candidate's run has the epochs of the best trial and these: a trial's rate is still high at its best epoch,
 * but falls to its end in the run, which also has more rows. */
enum { EPOCHS_MORE = 2 };
/* Several trees are tried, and a single one is not, where the work of their run is that of at most so many seconds. */
#define FOREST_SECONDS 10.0
/* Iterations of a run with lbfgs at most. */
enum { FIT_MOST = 200 };
/* Shares of a time budget: for the trials, and of the remaining time for the run, as estimates have errors. */
#define TRIAL_TIME 0.35
#define SAFE_TIME 0.9
/* Rates and L2 penalties are searched in steps of half powers of ten, in 1 / mean ||x||^2 and in RIDGE_UNIT; an
 * embedding model's rates are VECTOR_RATE times powers of two. At most POINT_MOST steps up, and twice as many down. */
enum { POINT_MOST = 10 };
#define RIDGE_UNIT 0.1
#define VECTOR_RATE 0.05
/* adagrad's best rate is one to three times that of single-row steps; so the candidate that follows has one trial, at
 * this multiple of the other's best rate. */
#define BESIDE 2
/* The share of the loss by which a higher rate must improve an embedding model to count as better. Its trial has about
 * a fifth of the run's steps; higher rates win there, because vectors move faster, but overfit in the run. */
#define VECTOR_MARGIN 0.04
/* The share of the loss that a trial must gain to be better than one before it. After calibration the length of the
 * vectors does not count, so ever lower rates are as good as the last; the highest of them makes a model that needs
 * least of it. */
#define SAME 0.001
/* The same for pairs, whose strength is doubled from PAIRS_FIRST to PAIRS_MOST. */
#define PAIRS_MARGIN 0.002
#define PAIRS_FIRST 2.0
#define PAIRS_MOST 4.0

/* What the held-back rows are judged by. */
static int32_t measure_of(const xsmi_chooser *c)
{
    const int32_t own = c->survey.several ? XSM_MEASURE_NDCG : XSM_MEASURE_LOG_LOSS;
    return c->options.measure == XSM_MEASURE_AUTO ? own : c->options.measure;
}

/* -- the search ---------------------------------------------------------------------------------------------------- */

/* Rounds to one significant digit: 3, not 3.1623. Negative powers of ten are not exact, but a division by a power
 * rounds only once. */
static double rounded(double x)
{
    double power = floor(log10(x) + 1e-9), unit = pow(10, fabs(power));
    return power < 0 ? floor(x * unit + 0.5) / unit : floor(x / unit + 0.5) * unit;
}

static double rate_at(const xsmi_chooser *c, const xsmi_candidate *candidate, int point)
{
    return candidate->hidden ? ldexp(VECTOR_RATE, point) : rounded(pow(10, point / 2.0) / c->survey.squared);
}

static double ridge_at(int point)
{
    return rounded(RIDGE_UNIT * pow(10, point / 2.0));
}

static const xsm_choice_trial *trial_of(const xsmi_chooser *c, const xsmi_best *b)
{
    return b->trial == UINT64_MAX ? NULL : &c->result->trials[b->trial];
}

/* Judges the last trial's model with pairs of a strength; an infinite loss if the sums exceed float32. */
static xsm_status judge_pairs(xsmi_chooser *c, double strength, xsmi_measured *out, xsm_error *err)
{
    xsm_model *m = c->runner.model;
    const xsmi_candidate *candidate = c->best.candidate;
    const xsmi_choose_plan *p = &c->plan;
    xsm_error inner = XSM_ERROR_INIT;
    xsm_status status = xsm_model_add_pairs(m, p->rows[p->transform], strength, &inner);
    if (status == XSM_ERROR_RANGE || status == XSM_ERROR_DIVERGED) {
        if (c->runner.group) {
            xsmi_agree_begin(c->runner.group); /* a failure that is none for the search */
        }
        *out = (xsmi_measured){.loss = (double)INFINITY};
        return XSM_OK;
    }
    if (status != XSM_OK) {
        xsmi_fail_copy(err, &inner);
        return status;
    }
    status = xsmi_runner_judge(&c->runner, candidate->estimator, c->judge, xsmi_choose_held(c), out, err);
    xsm_model_clear_correction(m);
    return status;
}

/* Judges pairs with the vectors of the trial that has just become the best. Vectors are compared without pairs. */
static xsm_status try_pairs(xsmi_chooser *c, xsm_error *err)
{
    xsmi_best *b = &c->best;
    for (double strength = PAIRS_FIRST; strength <= PAIRS_MOST; strength *= 2) {
        xsmi_measured now;
        XSMI_TRY(xsmi_runner_look(&c->runner, err));
        if (xsmi_runner_late(&c->runner)) {
            break;
        }
        XSMI_TRY(judge_pairs(c, strength, &now, err));
        if (!(now.loss < b->judged.loss * (1 - PAIRS_MARGIN))) {
            break;
        }
        b->pairs = strength;
        b->judged = now;
    }
    return XSM_OK;
}

/* The seconds of a trial of a candidate in the present round. */
static double trial_seconds(const xsmi_chooser *c, const xsmi_candidate *candidate)
{
    const double rows = (double)xsmi_choose_rows(c)->rows;
    return candidate->trial_seconds > 0 ? rows * candidate->trial_seconds
                                        : xsmi_choose_seconds(c, candidate, rows, (double)candidate->passes);
}

/* Whether no other trial of the current candidate is worth its time: the choice would take longer than the run. A
 * candidate that has had no trial in this round, and may turn out to be the best, may take as long as its own run. */
static bool enough(const xsmi_chooser *c)
{
    const xsmi_candidate *candidate = c->best.candidate;
    const double end = xsmi_choose_elapsed(c) + trial_seconds(c, candidate);
    const bool first = c->best.trial == UINT64_MAX && end <= xsmi_choose_run_seconds(c, candidate);
    return !first && end > xsmi_choose_limit(c);
}

/* Whether a label tree, which cannot end early, is too long for the budget, or its trial for the rest of the choice; or
 * a forest for anybody's patience. */
static bool too_long(const xsmi_chooser *c, const xsmi_candidate *candidate)
{
    const double now = c->runner.elapsed, run = xsmi_choose_run_seconds(c, candidate);
    const double end = c->options.seconds > 0 ? c->options.seconds : (double)INFINITY;
    return candidate->tree &&
           (run > SAFE_TIME * (end - now) || now + trial_seconds(c, candidate) > c->runner.deadline ||
            (candidate->tree->trees > 1 && run > FOREST_SECONDS));
}

/* Runs a trial of the current candidate method. Its value is infinite unless it is the method's best so far. After
 * the deadline, and when the choice has taken as long as the run, it runs none. */
static xsm_status attempt(xsmi_chooser *c, double eta, double ridge, double *value, xsm_error *err)
{
    xsmi_best *b = &c->best;
    xsmi_candidate *candidate = b->candidate;
    *value = (double)INFINITY;
    XSMI_TRY(xsmi_runner_look(&c->runner, err));
    if (xsmi_runner_late(&c->runner)) {
        c->cut_short = true;
        return XSM_OK;
    }
    if (too_long(c, candidate)) {
        return XSM_OK;
    }
    if (enough(c)) {
        c->ended = true;
        return XSM_OK;
    }
    const bool faster = candidate->hidden && b->trial != UINT64_MAX && eta > trial_of(c, b)->eta;
    XSMI_TRY(xsmi_choose_try(c, candidate, eta, ridge, err));
    const uint64_t last = c->result->info.trials - 1;
    const xsm_choice_trial *t = &c->result->trials[last];
    const double margin = faster ? VECTOR_MARGIN : b->trial != UINT64_MAX && !candidate->tree ? SAME : 0;
    if (!(t->best_epoch > 0 && t->loss < b->loss * (1 - margin))) {
        return XSM_OK;
    }
    *b = (xsmi_best){.candidate = candidate,
                     .trial = last,
                     .loss = t->loss,
                     .judged = c->last.held_back,
                     .transform = c->plan.transform,
                     .epochs = c->last.epochs};
    memcpy(b->curve, c->last.curve, sizeof b->curve);
    *value = t->loss;
    /* The model is the one after the trial's last epoch, as the run's will be, which need not be the best one. */
    const bool pairs = candidate->hidden && !c->options.keep_pairs && c->survey.nonzeros >= XSMI_KEY_FEATURES &&
                       !c->plan.halving && !c->cut_short;
    return pairs ? try_pairs(c, err) : XSM_OK;
}

static xsm_status attempt_rate(void *user, int point, double *value, xsm_error *err)
{
    xsmi_chooser *c = user;
    const xsmi_candidate *candidate = c->best.candidate;
    return attempt(c, rate_at(c, candidate, point), candidate->ridge, value, err);
}

/* At the best rate so far. */
static xsm_status attempt_ridge(void *user, int point, double *value, xsm_error *err)
{
    xsmi_chooser *c = user;
    const xsm_choice_trial *t = trial_of(c, &c->best);
    return attempt(c, t ? t->eta : 0, ridge_at(point), value, err);
}

static bool in_time(void *user, int point, bool planned)
{
    (void)point;
    (void)planned;
    const xsmi_chooser *c = user;
    return !c->cut_short && !c->ended;
}

static const xsmi_scale rates = {-2 * POINT_MOST, POINT_MOST, 0, 1, 1, NULL, attempt_rate, in_time};
/* For lbfgs, and after no penalty. */
static const xsmi_scale ridges = {-2 * POINT_MOST, POINT_MOST, 0, 1, 1, NULL, attempt_ridge, in_time};
static const xsmi_scale more_ridges = {0, POINT_MOST, 0, 0, 1, NULL, attempt_ridge, in_time};

/* Whether an optimizer supports an L2 penalty (ridge). */
static bool accepts_ridge(const char *name)
{
    const xsm_optimizer_ops *ops = xsm_optimizer_find(name);
    return ops && (ops->flags & XSM_OPTIMIZER_LINEAR) != 0;
}

/* Tries the other transform with the best settings of the first. Both make rows of unit length, so rates and L2
 * penalties have the same meaning. */
static xsm_status try_transform(xsmi_chooser *c, xsm_error *err)
{
    const xsmi_best *b = &c->best;
    double value;
    if (!c->options.transform || c->transformed || b->trial == UINT64_MAX || c->cut_short) {
        return XSM_OK;
    }
    const xsm_choice_trial *t = trial_of(c, b);
    c->transformed = true;
    c->plan.transform = 1;
    XSMI_TRY(attempt(c, t->eta, t->ridge, &value, err));
    c->plan.transform = isfinite(value);
    return XSM_OK;
}

/* Searches the numbers of the current candidate method; `ahead` is the least loss of the previous ones. */
static xsm_status search_candidate(xsmi_chooser *c, double ahead, xsm_error *err)
{
    const xsmi_best *b = &c->best;
    const xsmi_candidate *candidate = b->candidate;
    const bool open =
        c->ridge < 0 && candidate->own && !candidate->tree && (candidate->full || accepts_ridge(candidate->optimizer));
    double value;
    xsmi_scale from = candidate->full ? ridges : rates;
    /* An embedding model's rate depends on the number of steps. */
    if (candidate->raced && !candidate->hidden) {
        from.first = from.last = candidate->few_point;
    }
    if (!candidate->tree && (candidate->full ? open : !(c->run.eta > 0))) {
        XSMI_TRY(xsmi_scale_search_run(&c->search, &from, c, err));
    } else {
        XSMI_TRY(attempt(c, c->run.eta, candidate->ridge, &value, err));
    }
    XSMI_TRY(try_transform(c, err));
    const bool penalised = open && candidate->exact && !candidate->full && b->loss < ahead && !c->cut_short;
    return penalised ? xsmi_scale_search_run(&c->search, &more_ridges, c, err) : XSM_OK;
}

static const xsmi_best nothing = {.trial = UINT64_MAX, .loss = (double)INFINITY};

/* Begins with a candidate. */
static void take(xsmi_chooser *c, xsmi_candidate *candidate)
{
    c->best = nothing;
    c->best.candidate = candidate;
}

/* The candidate of a kind that did best in the first round; NULL: none. */
static xsmi_candidate *best_of(xsmi_chooser *c, xsmi_kind kind)
{
    xsmi_candidate *best = NULL;
    for (size_t i = 0; i < c->candidate_count; i++) {
        xsmi_candidate *candidate = &c->candidates[i];
        const double needed = best ? best->few.loss * (1 - SAME) : (double)INFINITY;
        best =
            candidate->kind == kind && candidate->raced && (!best || candidate->few.loss < needed) ? candidate : best;
    }
    return best;
}

/* Drops the lines of a kind except the best one, its followers that have had no trial, and lbfgs; without a best one,
 * all of them. */
static void drop(xsmi_chooser *c, xsmi_kind kind, const xsmi_candidate *best)
{
    const xsmi_candidate *leader = NULL;
    for (size_t i = 0; i < c->candidate_count; i++) {
        xsmi_candidate *candidate = &c->candidates[i];
        leader = candidate->follows ? leader : candidate;
        const bool stays = candidate == best || (leader == best && !candidate->raced) || candidate->full;
        if (candidate->kind == kind && !(best && stays)) {
            candidate->dropped = true;
        }
    }
}

/* The first trials of a line, on few rows: a search for its best rate, if it has one. */
static xsm_status race(xsmi_chooser *c, xsmi_candidate *candidate, xsm_error *err)
{
    double value;
    take(c, candidate);
    XSMI_TRY(candidate->tree ? attempt(c, 0, 0, &value, err) : xsmi_scale_search_run(&c->search, &rates, c, err));
    candidate->few = c->best;
    candidate->few_point = candidate->tree || c->search.best[0] == XSMI_NOWHERE ? 0 : c->search.best[0];
    candidate->raced = true;
    c->found = *xsmi_choose_leader(c);
    return XSM_OK;
}

/* A label tree has no numbers to search and costs little on few rows, so all that there is to choose of it is chosen
 * there, before other kinds spend the time: the line, the transform for the best one, and by this transform the lines
 * beside it. */
static xsm_status race_trees(xsmi_chooser *c, xsm_error *err)
{
    for (size_t i = 0; i < c->candidate_count; i++) {
        xsmi_candidate *candidate = &c->candidates[i];
        XSMI_TRY(candidate->tree && !candidate->follows && !candidate->dropped ? race(c, candidate, err) : XSM_OK);
    }
    xsmi_candidate *best = best_of(c, XSMI_KIND_TREE);
    if (!best || best->few.trial == UINT64_MAX) {
        return XSM_OK;
    }
    c->best = best->few;
    XSMI_TRY(try_transform(c, err));
    best->few = c->best;
    c->found = *xsmi_choose_leader(c);
    for (size_t i = 0; i < c->candidate_count; i++) {
        xsmi_candidate *candidate = &c->candidates[i];
        XSMI_TRY(candidate->tree && candidate->follows ? race(c, candidate, err) : XSM_OK);
    }
    c->plan.transform = 0;
    return XSM_OK;
}

/* Tries each line of the portfolio on few rows. Of each kind the best line goes on, unless the kind cannot catch up
 * with another. */
static xsm_status halve(xsmi_chooser *c, xsm_error *err)
{
    if (!xsmi_choose_halves(c) || !c->plan.few[0]) {
        return XSM_OK;
    }
    c->plan.halving = true;
    XSMI_TRY(race_trees(c, err));
    for (size_t i = 0; i < c->candidate_count; i++) {
        xsmi_candidate *candidate = &c->candidates[i];
        const bool races = !candidate->tree && !candidate->follows && !candidate->full;
        XSMI_TRY(races ? race(c, candidate, err) : XSM_OK);
    }
    for (xsmi_kind kind = XSMI_KIND_TREE; kind <= XSMI_KIND_EMBEDDING; kind++) {
        const xsmi_candidate *best = best_of(c, kind);
        const bool late = best && !xsmi_choose_is_near(c, best->few.loss, c->found.loss);
        drop(c, kind, late ? NULL : best);
        c->plan.treeless |= kind == XSMI_KIND_TREE && late;
    }
    c->plan.halving = false;
    return XSM_OK;
}

/* The next candidate to go on with: of the kind that was best in the first round, then the next kind; lines of a kind
 * in their order. NULL: none. */
static xsmi_candidate *next(xsmi_chooser *c, const bool *done)
{
    xsmi_candidate *chosen = NULL;
    double least = (double)INFINITY;
    for (size_t i = 0; i < c->candidate_count; i++) {
        xsmi_candidate *candidate = &c->candidates[i];
        const xsmi_candidate *best = best_of(c, candidate->kind);
        const double loss = best ? best->few.loss : 0;
        if (!candidate->dropped && !done[i] && (!chosen || loss < least)) {
            chosen = candidate;
            least = loss;
        }
    }
    return chosen;
}

/* Whether label trees are all that is left, whose trials on few rows are over. */
static bool is_settled(const xsmi_chooser *c)
{
    for (size_t i = 0; i < c->candidate_count; i++) {
        if (!c->candidates[i].dropped && !(c->candidates[i].tree && c->candidates[i].raced)) {
            return false;
        }
    }
    return true;
}

static xsm_status search_all(xsmi_chooser *c, xsm_error *err)
{
    bool done[XSMI_CANDIDATES] = {false};
    int kind = -1;
    double value;
    for (xsmi_candidate *candidate; (candidate = next(c, done)); done[candidate - c->candidates] = true) {
        const xsm_choice_trial *before = trial_of(c, &c->best); /* of the line that this one may be beside */
        const double beside = before ? BESIDE * before->eta : 0;
        if ((int)candidate->kind != kind) { /* kinds differ in the transform that is best for them */
            kind = (int)candidate->kind;
            c->transformed = candidate->tree && candidate->raced;
            c->plan.transform = c->transformed ? candidate->few.transform : 0;
        }
        take(c, candidate);
        if (!candidate->follows || candidate->tree) {
            XSMI_TRY(search_candidate(c, c->found.loss, err));
        } else if (before && !c->cut_short &&
                   xsmi_choose_is_near(c, before->loss, c->found.loss)) { /* it gains a percent or two */
            XSMI_TRY(attempt(c, beside, 0, &value, err));
        }
        c->found = *xsmi_choose_leader(c);
    }
    return XSM_OK;
}

/* Drops the line of one label tree where the next one has several and is not too long. There is nothing to find out:
 * the mean of trees' probabilities has at most the mean of their log-losses (Jensen's inequality). With a time budget
 * the trial of one tree stays, which is what there is if the other does not fit. */
static void drop_single_tree(xsmi_chooser *c)
{
    const xsmi_candidate *several = &c->candidates[1];
    if (c->candidate_count > 1 && several->tree && several->tree->trees > 1 && !(c->options.seconds > 0)) {
        c->candidates[0].dropped = !too_long(c, several);
    }
}

static xsm_status search(xsmi_chooser *c, xsm_error *err)
{
    xsmi_best *found = &c->found;
    drop_single_tree(c);
    xsmi_candidate *first = &c->candidates[c->stepped ? c->stepped - c->candidates : c->candidates[0].dropped];
    take(c, first);
    *found = c->best;
    if (!c->plan.held_back[0]) {
        return XSM_OK;
    }
    XSMI_TRY(halve(c, err));
    const xsmi_best few = *found; /* losses of few rows are not compared with those of all */
    const xsmi_candidate *tree = best_of(c, XSMI_KIND_TREE);
    if (tree && is_settled(c)) {
        *found = tree->few;
    } else {
        take(c, first);
        *found = c->best;
        XSMI_TRY(search_all(c, err));
        *found = found->trial == UINT64_MAX && few.trial != UINT64_MAX ? few : *found;
    }
    if (found->trial == UINT64_MAX && !c->cut_short && !first->tree) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED,
                         "training with '%s' diverged in every trial; try rows of unit length, or a ridge",
                         first->method);
    }
    return XSM_OK;
}

/* -- the result ---------------------------------------------------------------------------------------------------- */

/* Reduces the epochs to those that fit into the remaining budget; the rate then falls as far in fewer epochs. */
static void fit_budget(xsmi_chooser *c, const xsmi_candidate *candidate)
{
    xsm_choice_info *info = &c->result->info;
    if (!(c->options.seconds > 0) || candidate->full || candidate->tree) {
        return;
    }
    const double left = SAFE_TIME * (c->options.seconds - c->runner.elapsed);
    const double fits = floor(left / xsmi_choose_seconds(c, candidate, (double)c->train->rows, 1));
    c->cut_epochs = fits < (double)info->epochs;
    if (c->cut_epochs && c->run.epochs == 0) { /* else as many as requested; the budget will end them */
        info->epochs = fits > 1 ? (uint64_t)fits : 1;
        info->factor = xsmi_choose_factor(c, info->epochs);
    }
}

static uint64_t run_epochs(const xsmi_chooser *c, const xsmi_candidate *candidate, const xsm_choice_trial *t)
{
    const uint64_t most = candidate->epochs;
    /* A trial that the deadline ended gives no information about later epochs. */
    if (c->run.epochs || !t || candidate->hidden || (c->cut_short && t->best_epoch == t->epochs)) {
        return most;
    }
    const uint64_t epochs = t->best_epoch + (candidate->exact ? EPOCHS_MORE : 0);
    return XSMI_MIN(epochs, most);
}

static void conclude(xsmi_chooser *c, const xsmi_best *b)
{
    xsm_choice *r = c->result;
    xsm_choice_info *info = &r->info;
    const xsm_choice_trial *t = trial_of(c, b);
    xsmi_candidate *candidate = b->candidate;
    info->method = candidate->method;
    info->label_tree = candidate->tree;
    info->optimizer = candidate->optimizer;
    info->hidden = candidate->hidden;
    info->initial = candidate->initial;
    info->ridge = t ? t->ridge : candidate->ridge;
    info->held = c->plan.held_back[0] ? xsmi_choose_held(c)->rows : 0;
    info->transform = c->options.transform ? xsmi_choose_transform(c, b->transform) : NULL;
    info->measure_top = c->runner.top;
    info->loss = t ? b->judged.loss : (double)NAN;
    info->precision = t ? b->judged.precision : (double)NAN;
    info->pairs = b->pairs;
    if (candidate->full) {
        info->iterations = FIT_MOST;
    } else if (!candidate->tree) {
        info->eta = t ? t->eta : c->run.eta > 0 ? c->run.eta : rate_at(c, candidate, 0);
        info->epochs = run_epochs(c, candidate, t);
        info->batch = candidate->batch;
        info->schedule = c->run.schedule;
        info->factor = xsmi_choose_factor(c, info->epochs);
    }
    if (!candidate->tree) {
        candidate->estimator->common.ridge = info->ridge;
        r->estimator = xsmi_estimator_retain(candidate->estimator);
    }
    fit_budget(c, candidate);
    info->trial_rows = t ? t->rows : 0;
    info->row_features = c->survey.nonzeros;
    info->exact = candidate->exact;
    info->measure = measure_of(c);
    info->gave_up = (c->cut_short ? XSM_GAVE_UP_TRIALS : 0) + (c->cut_epochs ? XSM_GAVE_UP_EPOCHS : 0);
    info->seconds = xsmi_seconds() - c->runner.began;
}

static xsm_status choose(xsmi_chooser *c, xsm_error *err)
{
    c->result = xsmi_allocate_zero(c->runner.context, 1, sizeof *c->result);
    if (!c->result) {
        return xsmi_fail_memory(err, sizeof *c->result, "a choice");
    }
    c->result->context = xsmi_context_retain(c->runner.context);
    c->result->info.size = sizeof c->result->info;
    c->survey = xsmi_choose_survey(c);
    c->best = c->found = nothing;
    static const xsmi_judge judges[] = {
        0, XSMI_JUDGE_CALIBRATED, XSMI_JUDGE_PRECISION, XSMI_JUDGE_RANKING, XSMI_JUDGE_HITS, XSMI_JUDGE_MRR};
    static const uint32_t tops[] = {0, 0, 1, 5, 10, 10};
    c->judge = judges[measure_of(c)];
    c->runner.top = c->options.measure_top ? c->options.measure_top : tops[measure_of(c)];
    XSMI_TRY(xsmi_candidates_list(c, err));
    if (c->options.seconds > 0) {
        c->runner.deadline = TRIAL_TIME * c->options.seconds;
    }
    if (c->options.seconds > 0 && c->stepped) {
        XSMI_TRY(xsmi_choose_pilot(c, c->stepped, c->run.eta > 0 ? c->run.eta : rate_at(c, c->stepped, 0), err));
    }
    XSMI_TRY(xsmi_choose_plan_trials(c, err));
    XSMI_TRY(search(c, err));
    XSMI_TRY(xsmi_runner_look(&c->runner, err));
    conclude(c, &c->found);
    return xsmi_runner_share(&c->runner, XSM_OK, &c->result->info.seconds, sizeof c->result->info.seconds, err);
}

static xsm_status read_options(xsmi_chooser *c, const xsm_choose_options *options, xsm_error *err)
{
    xsm_choose_options *o = &c->options;
    XSMI_TRY(xsmi_options_read(o, sizeof *o, XSMI_FIRST(xsm_choose_options), options, "xsm_choose_options", err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, keep_ridge, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, keep_schedule, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, bias, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, keep_pairs, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, transform, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, embedding, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, label_tree, err));
    o->transform = o->transform && c->train->sparse;
    XSMI_TRY(
        xsmi_options_read(&c->run, sizeof c->run, XSMI_FIRST(xsm_trainer_options), o->run, "xsm_trainer_options", err));
    if (c->run.eta != 0) {
        XSMI_TRY(xsmi_check_eta(c->run.eta, err));
    }
    if (!(o->seconds >= 0) || isinf(o->seconds)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "the time budget is %g seconds; accepted is above 0, or 0 for none",
                         o->seconds);
    }
    if (o->measure < XSM_MEASURE_AUTO || o->measure > XSM_MEASURE_MRR) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "measure %d is no XSM_MEASURE_* value", o->measure);
    }
    if (o->measure_top > XSMI_JUDGE_TOP || (o->measure_top > 0 && o->measure <= XSM_MEASURE_LOG_LOSS)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "measure_top is %u; accepted is up to %d, with a measure of the best classes", o->measure_top,
                         XSMI_JUDGE_TOP);
    }
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_choose_options, o, reserved, err));
    if (o->keep_ridge && !(o->ridge >= 0 && o->ridge <= XSMI_RIDGE_MAX)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_choose_options.ridge is %g; accepted is 0 to %g", o->ridge,
                         XSMI_RIDGE_MAX);
    }
    c->run.schedule = o->keep_schedule ? c->run.schedule : XSM_SCHEDULE_STEP;
    c->run.factor = c->run.schedule == XSM_SCHEDULE_STEP && c->run.factor == 0 ? 0.9 : c->run.factor;
    c->ridge = o->keep_ridge ? o->ridge : -1;
    return xsmi_trainer_check_schedule(&c->run, err);
}

/* Compares rows and options among the processes of a group. */
static xsm_status agree_options(const xsmi_chooser *c, xsm_error *err)
{
    const xsm_choose_options *o = &c->options;
    const xsmi_number numbers[] = {
        XSMI_REAL("ridge", c->ridge),
        XSMI_REAL("seconds", o->seconds),
        XSMI_WHOLE("keep_schedule", (uint64_t)o->keep_schedule),
        XSMI_WHOLE("bias", (uint64_t)o->bias),
        XSMI_WHOLE("keep_pairs", (uint64_t)o->keep_pairs),
        XSMI_WHOLE("transform", (uint64_t)o->transform),
        XSMI_WHOLE("embedding", (uint64_t)o->embedding),
        XSMI_WHOLE("measure_top", o->measure_top),
        XSMI_WHOLE("measure", (uint64_t)o->measure),
        XSMI_WHOLE("label_tree", (uint64_t)o->label_tree),
        XSMI_WHOLE("epochs", c->run.epochs),
        XSMI_WHOLE("batch", c->run.batch),
        XSMI_REAL("eta", c->run.eta),
        XSMI_WHOLE("schedule", (uint64_t)c->run.schedule),
        XSMI_REAL("factor", c->run.factor),
        XSMI_WHOLE("order", (uint64_t)c->run.order),
        XSMI_WHOLE("seed", c->run.seed),
    };
    xsmi_settings s = {.context = c->runner.group};
    xsm_status status =
        xsmi_settings_add(&s, XSMI_SETTINGS_PREFIX "optimizer", "", o->optimizer ? o->optimizer : "", err);
    status = status == XSM_OK && o->estimator ? xsmi_estimator_settings(o->estimator, &s, err) : status;
    status = status == XSM_OK ? xsmi_settings_add_numbers(&s, numbers, sizeof numbers / sizeof *numbers, err) : status;
    status = xsmi_settings_agree(c->runner.group, &s, status, err);
    xsmi_settings_free(&s);
    return status == XSM_OK ? xsmi_check_same_rows(c->runner.group, c->train, err) : status;
}

/* Reads the options, which are those of all ranks. */
static xsm_status start(xsmi_chooser *c, const xsm_choose_options *options, xsm_error *err)
{
    XSMI_TRY(xsmi_dataset_need_whole(c->train, "the choice of how to train", err));
    XSMI_TRY(read_options(c, options, err));
    return c->runner.group ? agree_options(c, err) : XSM_OK;
}

xsm_status xsm_choose(xsm_context *context, const xsm_dataset *train, const xsm_choose_options *options,
                      xsm_choice **out, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!train || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_choose: %s is NULL", !train ? "the data" : "out");
    }
    xsmi_chooser c = {
        .train = train, .options = XSM_CHOOSE_OPTIONS_INIT, .run = XSM_TRAINER_OPTIONS_INIT, .runner = {.user = &c}};
    c.runner.purpose = "the choice of how to train";
    c.runner.began = xsmi_seconds();
    c.runner.deadline = (double)INFINITY;
    XSMI_TRY(xsmi_context_acquire(context, &c.runner.context, err));
    xsm_context *group = xsmi_ranks(c.runner.context) > 1 ? c.runner.context : NULL;
    c.runner.group = group;
    if (group) {
        xsmi_agree_begin(group);
    }
    xsm_status status = start(&c, options, err);
    xsm_estimator *given = status == XSM_OK ? c.options.estimator : NULL;
    const double before = given ? given->common.ridge : 0;
    xsmi_activity activity;
    xsmi_begin_cover(&activity, c.runner.context, "choosing a way to train", "trials", 0);
    status = xsmi_end(&activity, status == XSM_OK ? choose(&c, err) : status, err);
    status = group && status != XSM_OK ? xsmi_agree_once(group, status, err) : status;
    if (status != XSM_OK && given) {
        given->common.ridge = before;
        xsmi_estimator_unbind(given);
    }
    for (size_t i = 0; i < c.candidate_count; i++) {
        if (c.candidates[i].own) {
            xsm_estimator_free(c.candidates[i].estimator);
        }
    }
    xsm_model_free(c.runner.model);
    xsmi_runner_free(&c.runner);
    for (size_t i = 0; i < XSMI_TRANSFORMS; i++) {
        xsm_dataset_free(c.plan.held_back[i]);
        xsm_dataset_free(c.plan.rows[i]);
        xsm_dataset_free(c.plan.few[i]);
        xsm_dataset_free(c.plan.few_held[i]);
        xsm_dataset_free(c.plan.known[i]);
    }
    if (status == XSM_OK) {
        *out = c.result;
    } else {
        xsm_choice_free(c.result);
    }
    xsm_context_free(c.runner.context);
    return status;
}
