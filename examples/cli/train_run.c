/* Training, and the measurements after it. */
#include "train.h"

#include <math.h>

#include <xsoftmax/calibrate.h>

enum { RESTARTS_MOST = 3 };

/* Says, once, how many labels an estimator that takes one a row leaves out. */
static void tell_unused(cli_run *r)
{
    cli_buffer a, b;
    if (r->labels_unused == 0 || r->unused_told) {
        return;
    }
    r->unused_told = 1;
    cli_note_clear();
    fprintf(cli_messages(),
            "xsoftmax: '%s' takes one label a row: %s of %s labels are not used; --estimator one-vs-all or "
            "sampled-softmax uses all, --labels first says that the first is meant\n",
            r->estimator_name, cli_grouped(r->labels_unused, &a), cli_grouped(r->raw_info.labels, &b));
}

void cli_train_unkept(cli_run *r)
{
    if (!r->unkept_told && !r->model_path && !r->checkpoint_path && !r->json) {
        cli_note_clear();
        fputs("xsoftmax: no --model is given: the trained model is not kept\n", cli_messages());
    }
    r->unkept_told = 1;
}

static int32_t on_progress(void *user, const xsm_progress *progress)
{
    cli_run *r = user;
    tell_unused(r);
    cli_train_unkept(r);
    r->end = *progress;
    if (progress->epoch_ended && (progress->train || progress->test)) {
        r->train_known = progress->train != NULL;
        r->test_known = progress->test != NULL;
        if (progress->train) {
            cli_metrics_keep(&r->train_metrics, progress->train);
        }
        if (progress->test) {
            cli_metrics_keep(&r->test_metrics, progress->test);
        }
        r->evaluated_step = progress->step;
        cli_history_line(&r->history, progress, progress->train, progress->test);
    }
    cli_checkpoint_tick(r);
    cli_bar(progress, r->started);
    r->spent = r->time_budget > 0 && cli_clock() - r->began > r->time_budget;
    return cli_stop_requested() || r->spent || (cli_group && cli_checkpoint_due(r));
}

/* The epochs between two lines of the history; 0 without a history: then nothing is evaluated during training. */
static uint64_t evaluate_every(const cli_run *r)
{
    return !r->history_path ? 0 : r->evaluate_every > 0 ? r->evaluate_every : 1;
}

static xsm_trainer_options step_options(cli_run *r)
{
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = r->epochs;
    options.batch = r->batch;
    options.schedule = r->schedule;
    options.factor = r->factor;
    options.order = r->order;
    options.seed = r->seed;
    options.eta = isnan(r->eta) ? 0 : r->eta;
    options.evaluate_every = evaluate_every(r);
    options.evaluate_train = r->evaluate_train;
    options.test = r->test_rows;
    options.progress = on_progress;
    options.progress_user = r;
    return options;
}

static int note_rate(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_buffer number;
    return cli_train_note(r, "training.", "eta", cli_real(r->eta, &number), &err) == XSM_OK ? CLI_GO_ON
                                                                                            : cli_library_failed(&err);
}

/* Chooses the learning rate if none was given, and records it in the model. */
static int choose_rate(cli_run *r)
{
    xsm_trainer_options options = step_options(r);
    int code = isnan(r->eta) ? cli_tune(r, &options) : CLI_GO_ON;
    return code == CLI_GO_ON ? note_rate(r) : code;
}

/* Steps over the rows, epoch by epoch. */
static xsm_status run_steps(cli_run *r, xsm_error *err)
{
    xsm_trainer_options options = step_options(r);
    xsm_status status =
        xsm_trainer_new(r->context, r->model, r->train_rows, r->estimator, r->optimizer, &options, &r->trainer, err);
    if (status == XSM_OK) {
        status = cli_checkpoint_resume(r, err);
    }
    if (status != XSM_OK) { /* stopped before the first step: there is nothing to keep */
        xsm_trainer_free(r->trainer);
        r->trainer = NULL;
        return status;
    }
    do {
        status = xsm_trainer_run(r->trainer, err);
    } while (status == XSM_CANCELLED && cli_group && cli_checkpoint_pause(r));
    if (status == XSM_OK || status == XSM_CANCELLED) {
        r->end.size = sizeof r->end;
        xsm_status asked = xsm_trainer_get_progress(r->trainer, &r->end, err);
        status = asked == XSM_OK ? status : asked;
    }
    return status;
}

/* All rows at once. */
static xsm_status run_fit(cli_run *r, xsm_error *err)
{
    xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
    options.iterations = r->iterations;
    options.tolerance = r->tolerance;
    options.evaluate_every = evaluate_every(r);
    options.evaluate_train = r->evaluate_train;
    options.test = r->test_rows;
    options.progress = on_progress;
    options.progress_user = r;
    xsm_status status = xsm_fit_full_batch(r->context, r->model, r->train_rows, r->estimator, &options, &r->fit, err);
    r->end.seconds = r->fit.seconds;
    return status;
}

/* Trials are short: a learning rate that is good in them can still be too large for the whole run. */
static int start_again(cli_run *r)
{
    cli_buffer from, to;
    double eta = r->eta / 10;
    fprintf(cli_messages(), "training diverged in epoch %llu at the rate chosen, %s; starting again with %s\n",
            (unsigned long long)r->end.epoch + 1, cli_real(r->eta, &from), cli_real(eta, &to));
    r->restarts++;
    r->eta = eta;
    r->evaluated_step = 0;
    r->train_known = r->test_known = 0;
    xsm_trainer_free(r->trainer);
    r->trainer = NULL;
    xsm_model_free(r->model);
    r->model = NULL;
    cli_history_again(&r->history);
    int code = cli_train_make_model(r);
    return code == CLI_GO_ON ? note_rate(r) : code;
}

/* Pairs are counted, not trained. */
static int add_pairs(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    if (!(r->pairs > 0)) {
        return CLI_GO_ON;
    }
    const double start = cli_clock();
    cli_note("counting pairs of features and classes ...");
    if (xsm_model_add_pairs(r->model, r->train_rows, r->pairs, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    cli_note_clear();
    r->end.seconds += cli_clock() - start;
    r->train_known = r->test_known = 0; /* of the model without pairs */
    return CLI_GO_ON;
}

int cli_train_calibrate(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_calibration given = XSM_CALIBRATION_INIT;
    if (!r->calibrate_rows && (r->temperature == 0 || r->temperature == 1)) {
        return CLI_GO_ON;
    }
    r->train_known = r->test_known = 0; /* of the model before */
    if (!r->calibrate_rows) {
        given.method = XSM_CALIBRATION_TEMPERATURE;
        given.scale = 1 / r->temperature;
        return xsm_model_set_calibration(r->model, &given, &err) == XSM_OK ? CLI_GO_ON : cli_library_failed(&err);
    }
    cli_note("calibrating ...");
    if (xsm_model_calibrate(r->context, r->model, r->calibrate_rows, NULL, NULL, &err) != XSM_OK) {
        return cli_fail("%s: %s", r->calibrate, err.message);
    }
    cli_note_clear();
    return CLI_GO_ON;
}

int cli_train_refused(const cli_run *r, const xsm_error *err)
{
    return err->status == XSM_ERROR_UNSUPPORTED && !r->warm_path ? cli_misuse("%s", err->message)
                                                                 : cli_library_failed(err);
}

int cli_train_run(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    if (r->pairs > 0 && !r->train_info.sparse) {
        return cli_fail("--pairs: the rows of %s are dense; pairs are counted in sparse ones", r->data);
    }
    int code = r->full ? CLI_GO_ON : choose_rate(r);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (!r->history_measures) { /* with one label a row the other measures add little to precision */
        int several = r->train_info.labels > r->train_info.rows - r->train_info.unlabelled;
        r->history.measures = several ? (1U << CLI_MEASURES_FIRST) - 1 : 1;
    }
    if (r->history_path && cli_history_open(&r->history) != CLI_GO_ON) {
        return CLI_FAILED;
    }
    r->started = cli_clock();
    xsm_status status = r->full ? run_fit(r, &err) : run_steps(r, &err);
    cli_note_clear();
    while (status == XSM_ERROR_DIVERGED && (r->tuning || r->eta_chosen) && r->restarts < RESTARTS_MOST) {
        code = start_again(r);
        if (code != CLI_GO_ON) {
            return code;
        }
        status = run_steps(r, &err);
        cli_note_clear();
    }
    if (status == XSM_CANCELLED && !r->full && !r->trainer) {
        return cli_library_failed(&err);
    }
    if (status != XSM_OK && status != XSM_CANCELLED) {
        return cli_train_refused(r, &err);
    }
    const int spent = cli_agree_any(r->spent), requested = cli_agree_any(cli_stop_requested());
    r->spent = spent;
    r->stopped = status == XSM_CANCELLED && (!spent || requested);
    cli_stop_taken();
    cli_checkpoint_finish(r);
    if (cli_train_note_whole(r, r->full ? "iterations" : "epochs", r->end.epoch, &err) != XSM_OK ||
        (!r->full && cli_train_note_whole(r, "steps", r->end.step, &err) != XSM_OK)) {
        return cli_library_failed(&err);
    }
    if (r->evaluated_step != r->end.step) {
        r->train_known = r->test_known = 0; /* of an earlier epoch */
    }
    return add_pairs(r);
}

/* The training rows, or as many of them as may be evaluated in a tenth of the time that the run has taken so far. */
static int evaluate_train(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_evaluate_options options = XSM_EVALUATE_OPTIONS_INIT;
    if (r->evaluate_train == XSM_EVALUATE_SAMPLE) {
        options.seconds = fmax((cli_clock() - r->entered) / 10, 0.1);
    }
    cli_metrics_start(&r->train_metrics);
    cli_note("evaluating on %s training rows ...", r->evaluate_train == XSM_EVALUATE_ALL ? "the" : "some");
    if (xsm_evaluate(r->context, r->model, r->train_rows, &options, &r->train_metrics.of, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    r->train_known = 1;
    return CLI_GO_ON;
}

int cli_train_evaluate(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    if (r->train_known || r->test_known || r->unevaluated) {
        return CLI_GO_ON;
    }
    int code = r->evaluate_train == XSM_EVALUATE_NONE ? CLI_GO_ON : evaluate_train(r);
    if (code == CLI_GO_ON && r->test_rows) {
        cli_metrics_start(&r->test_metrics);
        cli_note("evaluating on the test rows ...");
        if (xsm_evaluate(r->context, r->model, r->test_rows, NULL, &r->test_metrics.of, &err) != XSM_OK) {
            return cli_library_failed(&err);
        }
        r->test_known = 1;
    }
    cli_note_clear();
    if (code == CLI_GO_ON) {
        cli_history_line(&r->history, &r->end, r->train_known ? &r->train_metrics.of : NULL,
                         r->test_known ? &r->test_metrics.of : NULL);
    }
    return code;
}
