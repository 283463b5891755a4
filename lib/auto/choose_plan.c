/*
 * The trials of xsm_choose(): their rows and length within the allowed work, and a run of one.
 */
#include "auto/choose.h"

#include "base/entry.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

/* The trials' work is limited to a multiple of the run's work plus a constant: where scoring all classes is cheap,
 * where it is not, and for embedding models. With several labels a row, few rows need other rates and epochs than many,
 * so the constant is larger. */
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
/* The part of the trials' rows that the first round has: successive halving with a ratio of four. */
#define FEW 0.25
/* A trial ends after PATIENCE epochs in a row that are worse than its best. */
enum { PATIENCE = 2 };
/* The same with lbfgs after so many iterations, or at this tolerance. */
enum { FIT_ITERATIONS = 60 };
#define FIT_TOLERANCE 1e-4
/* Rows of the pilot run, which measures the speed for a time budget. */
enum { PILOT_ROWS = 512 };

const char *const xsmi_choose_transforms[XSMI_TRANSFORMS] = {"unit", "tfidf,unit"};

/* -- trials -------------------------------------------------------------------------------------------------------- */

/* The factor by which the rate falls to FALL in so many epochs. */
double xsmi_choose_factor(const xsmi_chooser *c, uint64_t epochs)
{
    return c->options.keep_schedule ? c->run.factor : pow(FALL, 1 / (double)epochs);
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
                                   .seconds = xsmi_seconds() - c->runner.began};
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
                           .estimator = candidate->estimator->ops.name,
                           .optimizer = candidate->optimizer,
                           .eta = candidate->full ? 0 : eta,
                           .ridge = ridge,
                           .transform = c->options.transform ? xsmi_choose_transforms[p->transform] : NULL,
                           .hidden = candidate->hidden};
    *t = (xsmi_auto_trial){.runner = &c->runner,
                           .setting = {.estimator = candidate->estimator, .ridge = ridge, .run = c->run},
                           .rows = p->halving ? p->few : p->rows[p->transform],
                           .held_back = p->held_back[p->transform],
                           .judge = c->judge,
                           .budget = {.epochs = candidate->full ? FIT_ITERATIONS : p->passes,
                                      .patience = PATIENCE,
                                      .stretch = 1,
                                      .startup = UINT64_MAX,
                                      .tolerance = FIT_TOLERANCE}};
    t->setting.run.batch = candidate->batch;
    t->setting.run.eta = eta;
    t->setting.run.factor = xsmi_choose_factor(c, p->passes);
    c->runner.progress = c->options.progress ? on_progress : NULL;
    return xsmi_candidate_model(c, candidate, err);
}

/* Makes the optimizer and runs the trial. */
static xsm_status train(xsmi_chooser *c, const xsmi_candidate *candidate, xsmi_auto_trial *t, xsm_error *err)
{
    if (!candidate->full) {
        XSMI_TRY(xsm_optimizer_new(c->runner.context, candidate->optimizer, &t->setting.optimizer, err));
    }
    if (candidate->initial > 0) {
        XSMI_TRY(xsm_optimizer_set_number(t->setting.optimizer, "initial", candidate->initial, err));
    }
    return xsmi_auto_run(t, err);
}

static void end(xsmi_chooser *c, const xsmi_candidate *candidate, xsmi_auto_trial *t)
{
    xsmi_auto_end(t);
    xsm_optimizer_free(t->setting.optimizer);
    c->work += (double)t->outcome.examples * candidate->work;
    c->work_seconds += t->outcome.seconds;
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
    xsm_choice_trial *out = &c->result->trials[c->result->info.trials++];
    out->rows = t.rows->rows;
    out->epochs = t.outcome.epochs;
    out->best_epoch = t.outcome.best_epoch;
    out->loss = t.outcome.held_back.loss;
    out->precision = t.outcome.held_back.precision;
    c->judged = t.outcome.held_back;
    candidate->trial_seconds = xsmi_seconds() - began;
    candidate->row_seconds = t.outcome.examples > 0 ? t.outcome.seconds / (double)t.outcome.examples : 0;
    c->cut_short |= t.outcome.late;
    return XSM_OK;
}

/* Transforms one or two (otherwise NULL) datasets of rows, fitted to all rows. */
static xsm_status transform_rows(const xsmi_chooser *c, size_t transform, xsm_dataset *one, xsm_dataset *other,
                                 xsm_error *err)
{
    xsm_transform *t;
    XSMI_TRY(xsm_transform_new(c->runner.context, xsmi_choose_transforms[transform], &t, err));
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

xsm_status xsmi_choose_pilot(xsmi_chooser *c, double eta, xsm_error *err)
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
    status = status == XSM_OK ? run_pilot(c, c->candidates[0], eta, few, err) : status;
    xsm_dataset_free(few);
    return status;
}

/* -- the plan ------------------------------------------------------------------------------------------------------ */

xsmi_survey xsmi_choose_survey(const xsmi_chooser *c)
{
    const xsm_dataset *d = c->train;
    double squares = 0, count = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        xsmi_features x = xsmi_dataset_features(d, i);
        squares += (double)xsmi_context_kernels(c->runner.context)->dot(x.values, x.values, x.count);
        count += (double)x.count;
    }
    const double n = (double)d->rows, squared = squares / n;
    const bool given = isfinite(squared) && squared > 0 && !c->options.transform;
    return (xsmi_survey){count / n, given ? squared : 1, d->counted.labels > d->rows};
}

double xsmi_choose_speed(const xsmi_chooser *c)
{
    return c->work_seconds > 0 ? c->work / c->work_seconds : (double)INFINITY;
}

/* The rows of trials under a transform; all transforms have the same rows. */
static xsm_status split_rows(xsmi_chooser *c, size_t transform, double share, double rows, xsm_error *err)
{
    xsm_dataset **held_back = &c->plan.held_back[transform], **kept = &c->plan.rows[transform];
    XSMI_TRY(xsm_dataset_split(c->train, share, c->run.seed, held_back, kept, err));
    if (rows < 0.95 * (double)(*kept)->rows) {
        xsm_dataset *rest = *kept, *unused = NULL;
        *kept = NULL;
        xsm_status status = xsm_dataset_split(rest, rows / (double)rest->rows, c->run.seed, kept, &unused, err);
        xsm_dataset_free(rest);
        xsm_dataset_free(unused);
        XSMI_TRY(status);
    }
    return c->options.transform ? transform_rows(c, transform, *held_back, *kept, err) : XSM_OK;
}

/* Holds rows back and selects as many others as the work allows; none if there are too few. */
xsm_status xsmi_choose_plan_trials(xsmi_chooser *c, xsm_error *err)
{
    const xsmi_choose_plan *p = &c->plan;
    const double n = (double)c->train->rows;
    double most = 0, trials = 0;
    for (size_t i = 0; i < c->candidate_count; i++) {
        const xsmi_candidate *candidate = &c->candidates[i];
        const bool beside = (candidate->full || candidate->follows) && c->candidate_count > 1;
        trials += beside ? 0 : (p->cheap ? TRIALS_EXACT : TRIALS_LARGE) * candidate->work;
        most = fmax(most, candidate->work);
    }
    const double share = p->cheap ? CHEAP_SHARE : c->candidates[0].hidden ? VECTOR_SHARE : LARGE_SHARE;
    double allowed = share * n * (double)p->epochs * most + (p->cheap && c->survey.several ? ANYWAY_SEVERAL : ANYWAY);
    if (isfinite(c->runner.deadline)) {
        allowed = fmin(allowed, (c->runner.deadline - xsmi_seconds()) * xsmi_choose_speed(c));
    }
    const double each = allowed * most / trials / (double)p->passes; /* work of an epoch of the longest trial */
    const double held_back =
        fmin(fmin(HELD_BACK_SHARE * n, HELD_BACK_MOST), JUDGING * each / xsmi_candidates_judging(c));
    const double rows = fmin((1 - JUDGING) * each / most, n);
    if (!(held_back >= HELD_BACK_LEAST && rows >= ROWS_LEAST && n >= ROWS_LEAST)) {
        c->cut_short = isfinite(c->runner.deadline) && n >= ROWS_LEAST;
        return XSM_OK;
    }
    for (size_t i = 0; i < (c->options.transform ? XSMI_TRANSFORMS : 1); i++) {
        XSMI_TRY(split_rows(c, i, held_back / n, rows, err));
    }
    if (FEW * (double)p->rows[0]->rows >= ROWS_LEAST) {
        xsm_dataset *rest = NULL;
        XSMI_TRY(xsm_dataset_split(p->rows[0], FEW, c->run.seed, &c->plan.few, &rest, err));
        xsm_dataset_free(rest);
    }
    return XSM_OK;
}
