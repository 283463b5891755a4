/* xsoftmax train without --estimator, or with --time-budget: makes the automatic choice and reports it to the user. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* XSM_MEASURE_* as --measure names them. */
static const char *const measures[] = {"auto", "log-loss", "precision", "ndcg", "hits", "mrr"};

int cli_choose_measure(cli_run *r)
{
    const char *at = strchr(r->measure_text, '@');
    const size_t length = at ? (size_t)(at - r->measure_text) : strlen(r->measure_text);
    char *end = NULL;
    const unsigned long top = at ? strtoul(at + 1, &end, 10) : 0;
    size_t i = 0;
    while (i < sizeof measures / sizeof *measures &&
           (strlen(measures[i]) != length || strncmp(measures[i], r->measure_text, length) != 0)) {
        i++;
    }
    if (i == sizeof measures / sizeof *measures ||
        (at && (i < XSM_MEASURE_PRECISION || at[1] < '0' || at[1] > '9' || *end || top < 1 || top > 100))) {
        return cli_misuse(
            "--measure '%s': accepted are auto, log-loss, and precision, ndcg, hits and mrr, which may name "
            "the classes that they look at, 1 to 100: hits@20",
            r->measure_text);
    }
    r->measure = (int)i;
    r->measure_top = (uint32_t)top;
    return CLI_GO_ON;
}

char *cli_choose_measured(const cli_run *r)
{
    static const char *const names[] = {"", "calibrated log-loss", "1 - P", "1 - nDCG", "1 - hits", "1 - MRR"};
    const char *name = names[r->chosen.measure];
    return r->chosen.measure_top ? cli_format("%s@%u", name, r->chosen.measure_top) : cli_format("%s", name);
}

static int32_t on_progress(void *user, const xsm_choose_progress *progress)
{
    cli_buffer eta, ridge, rows;
    cli_train_unkept(user);
    if (strcmp(progress->estimator, cli_method_words[CLI_METHOD_LABEL_TREE]) == 0 ||
        strcmp(progress->estimator, cli_method_words[CLI_METHOD_CLASS_MEANS]) == 0) {
        cli_note("choosing: run %llu on %s rows, %s", (unsigned long long)progress->trial,
                 cli_grouped(progress->rows, &rows), progress->estimator);
    } else if (progress->eta > 0) {
        cli_note("choosing: run %llu on %s rows, %s with eta %s, ridge %s", (unsigned long long)progress->trial,
                 cli_grouped(progress->rows, &rows), progress->estimator, cli_real(progress->eta, &eta),
                 cli_real(progress->ridge, &ridge));
    } else {
        cli_note("choosing: run %llu on %s rows, %s by lbfgs with ridge %s", (unsigned long long)progress->trial,
                 cli_grouped(progress->rows, &rows), progress->estimator, cli_real(progress->ridge, &ridge));
    }
    return cli_stop_requested();
}

/* Applies the choice as if the user had given it. xsm_train() does the same to the same bytes (a test compares), and is
 * not called: it is for one process, saves no checkpoints and goes on from none, and keeps no model when it is stopped;
 * nor has it --geometry, --hidden, --vectors, --bias and --start. */
static int apply_choice(cli_run *r)
{
    cli_buffer number;
    if (r->temperature == 0 && !r->calibrate) {
        r->temperature = r->chosen.temperature;
    }
    if (r->chosen.label_tree) {
        r->method = CLI_METHOD_LABEL_TREE;
        r->tree = *r->chosen.label_tree;
        return r->chosen.transform ? cli_train_transform(r, r->chosen.transform) : CLI_GO_ON;
    }
    if (!xsm_choice_estimator(r->choice)) {
        r->method = CLI_METHOD_CLASS_MEANS;
        return r->chosen.transform ? cli_train_transform(r, r->chosen.transform) : CLI_GO_ON;
    }
    r->estimator = xsm_choice_estimator(r->choice);
    r->estimator_name = r->chosen.method;
    r->optimizer_name = r->chosen.optimizer;
    r->hidden.size = r->chosen.hidden ? r->chosen.hidden : r->hidden.size;
    int code = r->chosen.transform ? cli_train_transform(r, r->chosen.transform) : CLI_GO_ON;
    if (code != CLI_GO_ON) {
        return code;
    }
    if (!r->full && strcmp(r->optimizer_name, "lbfgs") == 0) {
        r->full = 1;
        r->iterations = r->chosen.iterations;
    }
    if (r->full) {
        return CLI_GO_ON;
    }
    r->eta_chosen = isnan(r->eta);
    r->pairs = r->pairs >= 0 ? r->pairs : r->chosen.pairs;
    r->eta = r->chosen.eta;
    r->epochs = r->chosen.epochs;
    r->batch = r->chosen.batch;
    r->schedule = r->chosen.schedule;
    r->factor = r->chosen.factor;
    if (!r->schedule_text) {
        r->schedule_text = r->schedule_made = cli_format("step:%s", cli_real(r->factor, &number));
    }
    xsm_error err = XSM_ERROR_INIT;
    if (!r->optimizer && xsm_optimizer_new(r->context, r->optimizer_name, &r->optimizer, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (r->chosen.initial > 0 && xsm_optimizer_set_number(r->optimizer, "initial", r->chosen.initial, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    return CLI_GO_ON;
}

xsm_choose_options cli_choose_options(cli_run *r)
{
    static xsm_trainer_options run;
    xsm_choose_options options = XSM_CHOOSE_OPTIONS_INIT;
    run = (xsm_trainer_options)XSM_TRAINER_OPTIONS_INIT;
    run.epochs = r->epochs;
    run.batch = r->batch;
    run.eta = isnan(r->eta) ? 0 : r->eta;
    run.order = r->order;
    run.seed = r->seed;
    run.schedule = r->schedule;
    run.factor = r->factor;
    options.run = &run;
    options.keep_schedule = r->schedule_text != NULL;
    options.estimator = r->estimator;
    options.optimizer = r->optimizer_name;
    options.ridge = r->ridge;
    options.keep_ridge = r->ridge >= 0;
    options.keep_pairs = r->pairs >= 0;
    if (r->time_budget > 0) {
        options.seconds = fmax(r->time_budget - r->ngrams_chosen.seconds, 1e-3);
    }
    options.measure = r->measure;
    options.measure_top = r->measure_top;
    options.bias = r->bias != 0;
    options.transform = !r->estimator && !r->transform_asked;
    /* The automatic choice considers embedding models only for linear scores, without a warm start, and with
     * features. */
    options.embedding =
        !r->estimator && !r->warm_path && r->geometry <= XSM_GEOMETRY_LINEAR && r->bias != CLI_BIAS_ONLY;
    options.label_tree = options.class_means = !r->estimator && r->trees_open;
    options.progress = on_progress;
    options.progress_user = r;
    return options;
}

int cli_choose(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_choose_options options = cli_choose_options(r);
    r->choice_given = r->estimator != NULL;
    r->began = cli_clock() - r->ngrams_chosen.seconds;
    xsm_status status = xsm_choose(r->context, r->train_rows, &options, &r->choice, &err);
    cli_note_clear();
    if (status == XSM_CANCELLED) {
        return cli_fail("stopped while choosing how to train; no model was trained");
    }
    if (status != XSM_OK || xsm_choice_get_info(r->choice, &r->chosen, &err) != XSM_OK) {
        return cli_train_refused(r, &err);
    }
    int code = cli_choose_words(r);
    if (code != CLI_GO_ON) {
        return code;
    }
    for (size_t i = 0; i < CLI_CHOICE_LINES; i++) {
        fprintf(cli_messages(), "%-10s %s\n", i == 0 ? "chosen" : "", r->why[i]);
    }
    cli_choose_race(cli_messages(), r->choice, r->chosen.trials);
    return apply_choice(r);
}

static const char *const outcomes[] = {"kept", "dropped", "diverged", "chosen"}; /* XSM_RACE_* */

void cli_choose_trials(cli_json *json, const xsm_choice *choice, uint64_t trials)
{
    cli_json_open_list(json, "trials");
    for (uint64_t i = 0; i < trials; i++) {
        xsm_choice_trial trial = XSM_CHOICE_TRIAL_INIT;
        (void)xsm_choice_get_trial(choice, i, &trial, NULL);
        cli_json_open(json, NULL);
        if (trial.text) {
            char *name = cli_ngrams_name(trial.text);
            cli_json_text(json, "ngrams", name);
            free(name);
        }
        cli_json_text(json, "estimator", trial.estimator);
        cli_json_text(json, "optimizer", trial.optimizer);
        cli_json_text(json, "transform", trial.transform);
        cli_json_real(json, "eta", trial.eta > 0 ? trial.eta : (double)NAN);
        cli_json_real(json, "ridge", trial.ridge);
        cli_json_whole(json, "hidden", trial.hidden);
        cli_json_whole(json, "trees", trial.label_tree ? (uint64_t)trial.label_tree->trees : 0);
        cli_json_whole(json, "rows", trial.rows);
        cli_json_whole(json, "part", trial.part);
        cli_json_whole(json, "epochs", trial.epochs);
        cli_json_real(json, "pairs", trial.pairs);
        cli_json_real(json, "temperature", trial.temperature);
        cli_json_real(json, "loss", trial.loss);
        cli_json_real(json, "predicted", trial.predicted);
        cli_json_real(json, "precision", trial.precision);
        cli_json_whole(json, "bytes", trial.bytes);
        cli_json_text(json, "outcome", outcomes[trial.outcome]);
        cli_json_real(json, "seconds", trial.seconds);
        cli_json_close(json);
    }
    cli_json_close_list(json);
}

void cli_choose_json(cli_json *json, const cli_run *r)
{
    if (!r->choice) {
        cli_json_null(json, "choice");
        return;
    }
    cli_json_open(json, "choice");
    cli_json_open_list(json, "why");
    for (size_t i = 0; i < CLI_CHOICE_LINES; i++) {
        cli_json_text(json, NULL, r->why[i]);
    }
    cli_json_close_list(json);
    cli_json_text(json, "method", r->chosen.method);
    cli_json_text(json, "optimizer", r->chosen.optimizer);
    cli_json_text(json, "transform", r->chosen.transform);
    cli_json_real(json, "ridge", r->chosen.ridge);
    cli_json_real(json, "factor", r->full || r->method >= 0 ? (double)NAN : r->chosen.factor);
    cli_json_real(json, "pairs", r->chosen.pairs);
    cli_json_real(json, "temperature", r->chosen.temperature);
    cli_json_whole(json, "held", r->chosen.held);
    cli_json_real(json, "held_loss", r->chosen.loss);
    cli_json_real(json, "held_precision", r->chosen.precision);
    cli_json_real(json, "predicted", r->chosen.predicted);
    cli_json_real(json, "prior", r->chosen.prior);
    cli_json_whole(json, "bytes", r->chosen.bytes);
    cli_json_whole(json, "rounds", r->chosen.rounds);
    cli_json_whole(json, "grouped", (uint64_t)r->chosen.grouped);
    if (r->chosen.measure_top) {
        cli_json_whole(json, "measure_top", r->chosen.measure_top);
    }
    cli_json_text(json, "measure", r->chosen.measure ? measures[r->chosen.measure] : NULL);
    cli_json_real(json, "seconds", r->chosen.seconds);
    cli_choose_trials(json, r->choice, r->chosen.trials);
    cli_ngrams_json(json, r);
    if (r->time_budget > 0) {
        cli_json_real(json, "budget_seconds", r->time_budget);
        cli_json_text(json, "gave_up", r->spent ? "steps" : r->chosen.gave_up ? "trials or epochs" : "nothing");
    }
    cli_json_close(json);
}
