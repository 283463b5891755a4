/* xsoftmax train --checkpoint and --resume: a run that goes on after it was interrupted, at whatever moment. */
#include "cli_train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int cli_checkpoint_prepare(cli_run *r, const char *const *inputs)
{
    const char *said = r->checkpoint_path ? "checkpoint" : r->resume_path ? "resume" : NULL;
    if (r->full && said) {
        return cli_misuse("--%s: lbfgs takes all rows at once and has no place to go on from; --optimizer sgd has",
                          said);
    }
    if (!r->checkpoint_path && r->checkpoint_every >= 0) {
        return cli_misuse("--checkpoint-every needs --checkpoint FILE, which is what is written");
    }
    r->checkpoint_every = r->checkpoint_every >= 0 ? r->checkpoint_every : CLI_CHECKPOINT_SECONDS;
    return r->checkpoint_path ? cli_output_plan(CLI_OUTPUT_CHECKPOINT, "checkpoint", r->checkpoint_path, inputs)
                              : CLI_GO_ON;
}

int cli_checkpoint_recall(cli_run *r)
{
    xsm_model *model = NULL;
    if (!r->resume_path) {
        return CLI_GO_ON;
    }
    int code = cli_load(r->context, r->resume_path, &model);
    if (code != CLI_GO_ON) {
        return code;
    }
    const char *eta = xsm_model_get_metadata(model, "training.eta");
    char *end = NULL;
    if (isnan(r->eta) && eta) {
        double number = strtod(eta, &end); /* the command runs in the C locale */
        r->eta_recalled = end != eta && *end == '\0' && number > 0;
        r->eta = r->eta_recalled ? number : r->eta;
    }
    xsm_model_free(model);
    if (isnan(r->eta)) {
        return cli_fail("%s: does not say which learning rate the run had; give it with --eta", r->resume_path);
    }
    return CLI_GO_ON;
}

xsm_status cli_checkpoint_resume(cli_run *r, xsm_error *err)
{
    r->checkpoint_saved = cli_clock();
    return r->resume_path ? xsm_trainer_resume(r->trainer, r->resume_path, err) : XSM_OK;
}

/* Saves a checkpoint; training goes on if it cannot be. */
static int save(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    r->checkpoint_failed = xsm_trainer_checkpoint(r->trainer, r->checkpoint_path, &err) != XSM_OK;
    r->checkpoint_saved = cli_clock();
    if (r->checkpoint_failed) {
        cli_note_clear();
        cli_fail("no checkpoint: %s", err.message);
    }
    return r->checkpoint_failed ? CLI_FAILED : CLI_GO_ON;
}

void cli_checkpoint_tick(cli_run *r)
{
    if (r->checkpoint_path && r->trainer && cli_clock() - r->checkpoint_saved >= r->checkpoint_every) {
        (void)save(r);
    }
}

int cli_checkpoint_finish(cli_run *r)
{
    return r->checkpoint_path ? save(r) : CLI_GO_ON;
}
