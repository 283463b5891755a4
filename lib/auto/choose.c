/*
 * The choice of how to train: reads the options, runs the race, and reports the result.
 */
#include "auto/choose.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"
#include "data/ngrams.h"

#include <xsoftmax/ext/optimizer.h>

#include <limits.h>
#include <math.h>
#include <string.h>

/* The share of a budget's remaining time that the run may take: less than 1, as estimates have errors. */
#define SAFE_TIME 0.9
/* With fewer rows, held-back rows tell too little. */
enum { ROWS_LEAST = 50 };
#define STANDARD "standard"

/* Lists the transforms to compare: sparse rows of unit length, also with logarithms if these change a value; tables
 * also with columns of one scale, and dense ones as they are. */
static void list_transforms(xsmi_chooser *c)
{
    static const char *const sparse[] = {"unit", "tfidf,unit", "log,unit", "log,tfidf,unit"};
    static const char *const filled[] = {"unit", "tfidf,unit", STANDARD, "log,unit", "log,standard"};
    static const char *const dense[] = {NULL, "unit", STANDARD, "log,unit", "log,standard"};
    const char *const *list = !c->train->sparse ? dense : c->survey.table ? filled : sparse;
    const bool large = c->survey.large;
    const size_t count = c->survey.table ? (large ? 5 : 3) : large ? 4 : 2;
    c->transform_count = 0;
    for (size_t i = 0; i < count && c->options.transform; i++) {
        c->transforms[c->transform_count++] = list[i];
    }
    c->transform_count = XSMI_MAX(c->transform_count, 1);
}

/* -- the result ---------------------------------------------------------------------------------------------------- */

/* Reduces the epochs to those that fit into the remaining budget; the rate then falls to the same value in fewer
 * epochs. Uses the budget for more label trees. */
static void fit_budget(xsmi_chooser *c, const xsmi_line *line)
{
    xsm_choice_info *info = &c->result->info;
    const double left = SAFE_TIME * (c->options.seconds - c->runner.elapsed);
    if (!(c->options.seconds > 0) || line->full || (!line->estimator && !line->tree)) {
        return;
    }
    if (line->tree) {
        xsm_label_tree_options *run = &c->result->trees[XSMI_LINES_MOST];
        *run = *line->tree;
        run->trees = xsmi_line_trees(c, line, left);
        info->label_tree = run;
        return;
    }
    const double pass = xsmi_line_seconds(c, line, (double)c->train->rows, 0) / (double)line->epochs;
    const double fits = floor(left / pass);
    c->cut_epochs = fits < (double)info->epochs;
    if (c->cut_epochs && c->run.epochs == 0) { /* otherwise as many as requested; the budget will end them */
        info->epochs = fits > 1 ? (uint64_t)fits : 1;
        info->factor = xsmi_race_factor(c, info->epochs);
    }
}

/* Reports what the race predicted of each entrant, and all of its results for the winner. */
static void report(xsmi_chooser *c, const xsmi_entrant *e)
{
    xsm_choice *r = c->result;
    xsm_choice_info *info = &r->info;
    const size_t judged = xsmi_race_judged(c);
    for (size_t i = 0; i < c->entrant_count; i++) {
        const xsmi_entrant *o = &c->entrants[i];
        if (o->trial != UINT64_MAX) {
            r->trials[o->trial].predicted = o->predicted;
        }
    }
    r->trials[e->trial].outcome = XSM_RACE_CHOSEN;
    const xsmi_gap gap = xsmi_race_gap(e->now, c->rows.prior, judged);
    info->held = 0;
    for (size_t i = 0; i < judged; i++) {
        info->held += !isnan(e->now[i]);
    }
    info->loss = e->loss;
    info->predicted = e->predicted;
    info->prior = e->loss - gap.difference;
    info->is_prior = isfinite(gap.error) && !(gap.difference < -gap.error);
    info->grouped = c->rows.halved ? 2 : c->rows.grouped;
    info->precision = e->precision;
    info->bytes = e->bytes;
    info->trial_rows = e->rows;
}

/* Returns a line that learns only the frequencies of the classes, in a bias; NULL if there is none, or if the options
 * exclude it. */
static xsmi_line *prior_line(xsmi_chooser *c)
{
    xsmi_line *found = NULL;
    for (size_t i = 0; i < c->line_count && c->options.transform && c->options.bias; i++) {
        xsmi_line *line = &c->lines[i];
        found = line->own && line->exact && (!found || line->full) ? line : found;
    }
    return found;
}

/* Replaces a winner that is no better than the frequencies of the classes by a model of these: a bias without
 * features. */
static void take_prior(xsmi_chooser *c, xsmi_entrant *e)
{
    xsmi_line *line = prior_line(c);
    if (c->result->info.is_prior && line) {
        *e = (xsmi_entrant){.line = line, .transform = c->transform_count, .ridge = INT_MIN};
        c->transforms[c->transform_count] = "truncate=0";
    }
}

/* Sets *e to how to train if nothing was tried: by the cheapest line or, for few rows, by the one that ends at an
 * optimum, on columns of one scale or rows of unit length, for which the first rate and ridge are usual. */
static xsm_status untried(xsmi_chooser *c, xsmi_entrant *e, xsm_error *err)
{
    *e = (xsmi_entrant){.line = &c->lines[0], .ridge = INT_MIN};
    for (size_t i = 0; i < c->line_count && c->few; i++) {
        e->line = c->lines[i].full ? &c->lines[i] : e->line;
    }
    for (uint32_t t = 0; t < c->transform_count && c->survey.table; t++) {
        e->transform = c->transforms[t] && strcmp(c->transforms[t], STANDARD) == 0 ? t : e->transform;
    }
    e->ridge = e->line->full && e->line->ridges ? 0 : INT_MIN;
    return xsmi_race_rows_measure(c, e, err);
}

/* Fills the result with how to train. */
static xsm_status conclude_training(xsmi_chooser *c, const xsmi_entrant *winner, xsm_error *err)
{
    xsm_choice *r = c->result;
    xsm_choice_info *info = &r->info;
    xsmi_entrant chosen;
    const xsmi_entrant *e = &chosen;
    if (!winner) {
        XSMI_TRY(untried(c, &chosen, err));
    } else {
        chosen = *winner;
        take_prior(c, &chosen);
    }
    xsmi_line *line = e->line;
    info->method = line->method;
    info->label_tree = line->tree;
    info->optimizer = line->optimizer;
    info->hidden = line->hidden;
    info->initial = line->initial;
    info->ridge = xsmi_race_ridge(e);
    info->transform = c->transforms[e->transform];
    info->pairs = e->pairs;
    info->temperature = xsmi_race_temperature(c, e);
    if (line->full) {
        info->iterations = line->epochs;
    } else if (line->estimator) {
        info->eta = xsmi_race_eta(c, e);
        info->epochs = xsmi_race_epochs(e);
        info->batch = line->batch;
        info->schedule = c->run.schedule;
        info->factor = xsmi_race_factor(c, info->epochs);
    }
    if (line->estimator) {
        line->estimator->common.ridge = info->ridge;
        r->estimator = xsmi_estimator_retain(line->estimator);
    }
    fit_budget(c, line);
    info->exact = line->exact;
    return XSM_OK;
}

static xsm_status conclude(xsmi_chooser *c, const xsmi_entrant *winner, xsm_error *err)
{
    xsm_choice_info *info = &c->result->info;
    info->loss = info->predicted = info->prior = info->precision = (double)NAN;
    info->temperature = 1;
    if (winner) {
        report(c, winner);
    }
    if (c->text_count > 0) {
        info->text = &c->result->texts[winner ? winner->line->text : 0];
    } else {
        XSMI_TRY(conclude_training(c, winner, err));
    }
    info->row_features = c->survey.nonzeros;
    info->measure = c->measure;
    info->measure_top = c->top;
    info->gave_up = (c->late || c->cut_trials ? XSM_GAVE_UP_TRIALS : 0) + (c->cut_epochs ? XSM_GAVE_UP_EPOCHS : 0);
    info->seconds = xsmi_seconds() - c->runner.began;
    return XSM_OK;
}

static xsm_status race(xsmi_chooser *c, const xsmi_entrant **winner, xsm_error *err)
{
    *winner = NULL;
    c->few = c->train->rows < ROWS_LEAST;
    if (c->few || (c->text_count > 0 && c->line_count < 2)) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_race_rows_plan(c, err));
    const size_t judged = xsmi_race_judged(c);
    XSMI_TRY(xsmi_array_new(c->runner.context, &c->outcomes, judged, sizeof *c->outcomes, "the choice of how to train",
                            err));
    XSMI_TRY(xsmi_race(c, winner, err));
    if (!*winner && !c->late && c->result->info.trials > 0) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED,
                         "training with '%s' diverged in every trial; try rows of unit length, or a ridge",
                         c->lines[0].method);
    }
    return XSM_OK;
}

/* Gives the rows the chosen n-grams. */
static xsm_status take_text(const xsmi_chooser *c, xsm_dataset *rows, xsm_error *err)
{
    const xsmi_schema *chosen = c->texts[c->result->info.text - c->result->texts];
    return xsmi_schema_equal(rows->schema, chosen) ? XSM_OK : xsmi_dataset_take_ngrams(rows, chosen, err);
}

/* Runs the choice. `text` is the rows if their n-grams are chosen, otherwise NULL. */
static xsm_status choose(xsmi_chooser *c, xsm_dataset *text, xsm_error *err)
{
    XSMI_TRY(XSMI_OBJECT_NEW(c->runner.context, &c->result, xsm_choice, "a choice", err));
    c->result->info.size = sizeof c->result->info;
    c->survey = xsmi_race_survey(c);
    c->measure = c->options.measure != XSM_MEASURE_AUTO ? c->options.measure
                 : c->survey.several                    ? XSM_MEASURE_NDCG
                                                        : XSM_MEASURE_LOG_LOSS;
    static const uint32_t tops[] = {0, 0, 1, 5, 10, 10};
    c->top = c->options.measure_top ? c->options.measure_top : tops[c->measure];
    list_transforms(c);
    XSMI_TRY(text ? xsmi_texts_list(c, err) : XSM_OK);
    XSMI_TRY(text ? xsmi_lines_of_texts(c, err) : xsmi_lines_list(c, err));
    if (c->options.seconds > 0) {
        c->runner.deadline = c->options.seconds / (text ? 4 : 2);
    }
    const xsmi_entrant *winner;
    XSMI_TRY(race(c, &winner, err));
    xsmi_runner_read_clock(&c->runner);
    XSMI_TRY(conclude(c, winner, err));
    return text ? take_text(c, text, err) : XSM_OK;
}

xsm_status xsmi_check_seconds(const char *options, double seconds, xsm_error *err)
{
    return seconds >= 0 && isfinite(seconds)
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_RANGE, "%s.seconds is %g; accepted is above 0, or 0 for no budget", options,
                           seconds);
}

xsm_status xsmi_check_ridge(const char *options, double ridge, xsm_error *err)
{
    return ridge >= 0 && ridge <= XSMI_RIDGE_MAX
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_RANGE, "%s.ridge is %g; accepted is 0 to %g", options, ridge, XSMI_RIDGE_MAX);
}

xsm_status xsmi_check_measure(int32_t measure, uint32_t top, xsm_error *err)
{
    if (measure < XSM_MEASURE_AUTO || measure > XSM_MEASURE_MRR) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "measure %d is no XSM_MEASURE_* value", measure);
    }
    if (top > XSMI_TOP_MOST || (top > 0 && measure <= XSM_MEASURE_LOG_LOSS)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "measure_top is %u; accepted is up to %d, with a measure of the best classes", top,
                         XSMI_TOP_MOST);
    }
    return XSM_OK;
}

static xsm_status read_options(xsmi_chooser *c, const xsm_choose_options *options, xsm_error *err)
{
    xsm_choose_options *o = &c->options;
    XSMI_TRY(XSMI_READ(xsm_choose_options, o, options, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, keep_ridge, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, keep_schedule, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, bias, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, keep_pairs, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, transform, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, embedding, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, label_tree, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_choose_options, o, class_means, err));
    XSMI_TRY(XSMI_READ(xsm_trainer_options, &c->run, o->run, err));
    if (c->run.eta != 0) {
        XSMI_TRY(xsmi_check_eta(c->run.eta, err));
    }
    XSMI_TRY(xsmi_check_seconds("xsm_choose_options", o->seconds, err));
    XSMI_TRY(xsmi_check_measure(o->measure, o->measure_top, err));
    XSMI_TRY(o->keep_ridge ? xsmi_check_ridge("xsm_choose_options", o->ridge, err) : XSM_OK);
    c->run.schedule = o->keep_schedule ? c->run.schedule : XSM_SCHEDULE_STEP;
    c->run.factor = c->run.schedule == XSM_SCHEDULE_STEP && c->run.factor == 0
                        ? XSMI_DEFAULT(xsm_trainer_options, factor)
                        : c->run.factor;
    c->ridge = o->keep_ridge ? o->ridge : -1;
    return xsmi_trainer_check_schedule(&c->run, err);
}

static xsm_status start(xsmi_chooser *c, const xsm_choose_options *options, xsm_error *err)
{
    XSMI_TRY(xsmi_context_need_alone(c->runner.context, c->runner.purpose, err));
    return read_options(c, options, err);
}

/* Keeps only the options of a choice of n-grams, which uses label trees. */
static void keep_few_options(xsmi_chooser *c)
{
    const uint64_t seed = c->run.seed;
    xsm_choose_options few = XSM_CHOOSE_OPTIONS_INIT;
    few.seconds = c->options.seconds;
    few.measure = c->options.measure;
    few.measure_top = c->options.measure_top;
    few.progress = c->options.progress;
    few.progress_user = c->options.progress_user;
    few.transform = few.label_tree = few.bias = 1;
    c->options = few;
    c->run = (xsm_trainer_options)XSM_TRAINER_OPTIONS_INIT;
    c->run.seed = seed;
    c->ridge = -1;
}

static void free_race(xsmi_chooser *c)
{
    xsm_context *ctx = c->runner.context;
    const size_t judged = xsmi_race_judged(c);
    for (size_t i = 0; i < c->entrant_count; i++) {
        xsmi_release(ctx, c->entrants[i].now, judged, sizeof *c->entrants[i].now);
        xsmi_release(ctx, c->entrants[i].before, judged, sizeof *c->entrants[i].before);
    }
    xsmi_release(ctx, c->entrants, c->entrant_capacity, sizeof *c->entrants);
    xsmi_release(ctx, c->outcomes, judged, sizeof *c->outcomes);
    xsmi_race_rows_free(c);
    xsmi_lines_free(c);
    xsmi_texts_free(c);
    xsm_model_free(c->runner.model);
    xsmi_runner_free(&c->runner);
}

/* Chooses how to train on the rows or, if `text` has the same rows to be changed, their n-grams. */
static xsm_status make_choice(xsm_context *context, const xsm_dataset *train, xsm_dataset *text,
                              const xsm_choose_options *options, xsm_choice **out, xsm_error *err)
{
    xsmi_chooser c = {.train = train,
                      .options = XSM_CHOOSE_OPTIONS_INIT,
                      .run = XSM_TRAINER_OPTIONS_INIT,
                      .pace = 1,
                      .runner = {.user = &c}};
    c.runner.purpose = "the choice of how to train";
    c.runner.began = xsmi_seconds();
    c.runner.deadline = (double)INFINITY;
    XSMI_TRY(xsmi_context_acquire(context, &c.runner.context, err));
    xsm_status status = start(&c, options, err);
    if (text) {
        keep_few_options(&c);
    }
    xsm_estimator *given = status == XSM_OK ? c.options.estimator : NULL;
    const double before = given ? given->common.ridge : 0;
    xsmi_activity activity;
    xsmi_begin_cover(&activity, c.runner.context, "choosing a way to train", "trials", 0);
    status = xsmi_end(&activity, status == XSM_OK ? choose(&c, text, err) : status, err);
    if (status != XSM_OK && given) {
        given->common.ridge = before;
        xsmi_estimator_unbind(given);
    }
    free_race(&c);
    if (status == XSM_OK) {
        *out = c.result;
    } else {
        xsm_choice_free(c.result);
    }
    xsm_context_free(c.runner.context);
    return status;
}

xsm_status xsm_choose(xsm_context *context, const xsm_dataset *train, const xsm_choose_options *options,
                      xsm_choice **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {train, "the data"}, {out, "out"});
    xsm_dataset *weighted;
    XSMI_TRY(xsmi_rows_with_weight(train, &weighted, err));
    const xsm_status status = make_choice(context, weighted ? weighted : train, NULL, options, out, err);
    xsm_dataset_free(weighted);
    return status;
}

xsm_status xsm_choose_ngrams(xsm_context *context, xsm_dataset *train, const xsm_choose_options *options,
                             xsm_choice **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {train, "the data"}, {out, "out"});
    return make_choice(context, train, train, options, out, err);
}

/* -- what a host reads --------------------------------------------------------------------------------------------- */

void xsm_choice_free(xsm_choice *r)
{
    if (r) {
        xsm_context *ctx = r->context;
        xsm_estimator_free(r->estimator);
        xsmi_release(ctx, r->trials, r->trial_capacity, sizeof *r->trials);
        XSMI_OBJECT_FREE(r, xsm_choice);
    }
}

xsm_status xsm_choice_get_info(const xsm_choice *r, xsm_choice_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {r, "the choice"});
    return XSMI_WRITE(xsm_choice_info, &r->info, info, err);
}

xsm_estimator *xsm_choice_estimator(const xsm_choice *r)
{
    return r ? r->estimator : NULL;
}

xsm_status xsm_choice_get_trial(const xsm_choice *r, uint64_t index, xsm_choice_trial *trial, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {r, "the choice"});
    if (index >= r->info.trials) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "trial %llu of %llu; accepted is below that", (unsigned long long)index,
                         (unsigned long long)r->info.trials);
    }
    const xsm_choice_trial *t = &r->trials[index];
    return XSMI_WRITE(xsm_choice_trial, t, trial, err);
}
