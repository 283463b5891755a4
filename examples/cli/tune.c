/* xsoftmax train --eta auto: chooses a learning rate and reports the trials to the user. */
#include "train.h"

#include <math.h>
#include <string.h>

static const char *const outcomes[] = {"dropped", "kept", "chosen", "diverged"}; /* XSM_TRIAL_* */

static int32_t on_progress(void *user, const xsm_tune_progress *progress)
{
    cli_buffer eta;
    (void)user;
    cli_note("choosing a learning rate: round %u of %u, trying %s  %3d %%", progress->round, progress->rounds,
             cli_real(progress->eta, &eta), (int)(100 * progress->done));
    return cli_stop_requested();
}

static xsm_tune_trial trial_at(const cli_run *r, uint64_t index)
{
    xsm_tune_trial trial = XSM_TUNE_TRIAL_INIT;
    (void)xsm_tuning_get_trial(r->tuning, index, &trial, NULL);
    return trial;
}

/* The smallest rate above `from` among the trials; infinite if there is none. */
static double next_rate(const cli_run *r, double from)
{
    double next = (double)INFINITY;
    for (uint64_t i = 0; i < r->tuned.trials; i++) {
        double eta = trial_at(r, i).eta;
        next = eta > from && eta < next ? eta : next;
    }
    return next;
}

/* One line for each rate, one column for each round. */
static void print_trials(const cli_run *r)
{
    cli_buffer a, b, c;
    uint32_t rounds = 0;
    fprintf(cli_messages(), "learning rate %s, chosen in %s by %s short runs; the objective per row that they reached",
            cli_real(r->eta, &a), cli_seconds(r->tuned.seconds, &b), cli_grouped(r->tuned.trials, &c));
    if (r->tuned.classes < r->train_info.classes) {
        fprintf(cli_messages(), ", on up to %s of the %s classes", cli_grouped(r->tuned.classes, &a),
                cli_grouped(r->train_info.classes, &b));
    }
    fputs(":\n", cli_messages());
    fprintf(cli_messages(), "%10s", "eta");
    for (uint64_t i = 0; i < r->tuned.trials; i++) {
        xsm_tune_trial trial = trial_at(r, i);
        if (trial.round > rounds) {
            char head[64];
            rounds = trial.round;
            snprintf(head, sizeof head, "%s rows x %llu", cli_grouped(trial.rows, &a),
                     (unsigned long long)trial.epochs);
            fprintf(cli_messages(), "  %16s", head);
        }
    }
    fputc('\n', cli_messages());
    for (double eta = next_rate(r, 0); isfinite(eta); eta = next_rate(r, eta)) {
        const char *last = "";
        fprintf(cli_messages(), "%10s", cli_real(eta, &a));
        for (uint32_t round = 1; round <= rounds; round++) {
            char cell[32] = "";
            for (uint64_t i = 0; i < r->tuned.trials; i++) {
                xsm_tune_trial trial = trial_at(r, i);
                if (trial.round == round && trial.eta == eta) {
                    last = outcomes[trial.outcome];
                    if (isfinite(trial.objective)) {
                        snprintf(cell, sizeof cell, "%.5g", trial.objective / (double)r->train_info.rows);
                    } else {
                        snprintf(cell, sizeof cell, "-");
                    }
                }
            }
            fprintf(cli_messages(), "  %16s", cell);
        }
        fprintf(cli_messages(), "  %s\n", last);
    }
}

int cli_tune(cli_run *r, const xsm_trainer_options *run)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_tune_options options = XSM_TUNE_OPTIONS_INIT;
    options.run = run;
    options.progress = on_progress;
    xsm_status status =
        xsm_tune_eta(r->context, r->model, r->train_rows, r->estimator, r->optimizer, &options, &r->tuning, &err);
    cli_note_clear();
    if (status == XSM_CANCELLED) {
        return cli_fail("stopped while choosing a learning rate; no model was trained");
    }
    if (status != XSM_OK || xsm_tuning_get_info(r->tuning, &r->tuned, &err) != XSM_OK) {
        return cli_train_refused(r, &err);
    }
    r->eta = r->tuned.eta;
    print_trials(r);
    return CLI_GO_ON;
}

void cli_tune_json(cli_json *json, const cli_run *r)
{
    cli_json_real(json, "eta", r->full ? (double)NAN : r->eta); /* lbfgs has none */
    if (!r->tuning) {
        cli_json_null(json, "eta_tried");
        cli_json_null(json, "tune_seconds");
        cli_json_whole(json, "restarts", 0);
        return;
    }
    cli_json_open_list(json, "eta_tried");
    for (uint64_t i = 0; i < r->tuned.trials; i++) {
        xsm_tune_trial trial = trial_at(r, i);
        cli_json_open(json, NULL);
        cli_json_real(json, "eta", trial.eta);
        cli_json_whole(json, "round", trial.round);
        cli_json_whole(json, "rows", trial.rows);
        cli_json_whole(json, "epochs", trial.epochs);
        cli_json_real(json, "objective", trial.objective);
        cli_json_text(json, "outcome", outcomes[trial.outcome]);
        cli_json_close(json);
    }
    cli_json_close_list(json);
    cli_json_real(json, "tune_seconds", r->tuned.seconds);
    cli_json_whole(json, "restarts", r->restarts);
}
