/* xsoftmax train --checkpoint and --resume: a run that continues after an interruption at any moment. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/vocabulary.h>

int cli_checkpoint_prepare(cli_run *r)
{
    const char *said = r->checkpoint_path ? "checkpoint" : r->resume_path ? "resume" : NULL;
    if (r->full && said) {
        return cli_misuse("--%s: lbfgs uses all rows at once and cannot be continued; --optimizer sgd can", said);
    }
    if (!r->checkpoint_path && r->checkpoint_every >= 0) {
        return cli_misuse("--checkpoint-every needs --checkpoint FILE, which is what is written");
    }
    r->checkpoint_every = r->checkpoint_every >= 0 ? r->checkpoint_every : CLI_CHECKPOINT_SECONDS;
    return r->checkpoint_path ? cli_output_plan(CLI_OUTPUT_CHECKPOINT, r->checkpoint_path) : CLI_GO_ON;
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

/* Uses the resumed run's text for a setting that was not given; the text is valid as long as the checkpoint's model. */
static void recall(const cli_run *r, const char *key, const char **text)
{
    if (!*text) {
        *text = xsm_model_get_metadata(r->recalled, key);
    }
}

static uint64_t recall_whole(const cli_run *r, const char *key, uint64_t given)
{
    const char *text = given ? NULL : xsm_model_get_metadata(r->recalled, key);
    return text ? strtoull(text, NULL, 10) : given;
}

/* Text is read as that of the resumed run, if it chose the n-grams. */
static int recall_ngrams(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_text_options text = XSM_TEXT_OPTIONS_INIT;
    if (!xsm_model_get_metadata(r->recalled, "training." CLI_NGRAMS)) {
        return CLI_GO_ON;
    }
    if (xsm_model_get_class_map(r->recalled, &map, &err) != XSM_OK ||
        xsm_vocabulary_get_options(map.vocabulary, &text, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    r->format.word_ngrams = text.word_ngrams;
    r->format.min_chars = text.min_chars;
    r->format.max_chars = text.max_chars;
    r->format.buckets = text.word_ngrams > 1 || text.max_chars > 0 ? text.buckets : 0;
    return CLI_GO_ON;
}

int cli_checkpoint_recall_choice(cli_run *r)
{
    if (cli_is_tree_checkpoint(r->resume_path)) {
        return cli_fail("%s: a checkpoint of label trees: --method label-tree goes on, with the options that 'xsoftmax "
                        "info' shows",
                        r->resume_path);
    }
    int code = cli_load(r->context, r->resume_path, &r->recalled);
    if (code != CLI_GO_ON) {
        return code;
    }
    const xsm_model_info about = cli_model_info(r->recalled);
    const char *ridge = xsm_model_get_metadata(r->recalled, "estimator.ridge");
    const char *pairs = xsm_model_get_metadata(r->recalled, "training.pairs");
    const char *temperature = xsm_model_get_metadata(r->recalled, "training.temperature");
    recall(r, "estimator", &r->estimator_name);
    if (!r->estimator_name || !xsm_estimator_find(r->estimator_name)) {
        return cli_fail("%s: does not say which estimator the run had; give it with --estimator", r->resume_path);
    }
    recall(r, "training.optimizer", &r->optimizer_name);
    recall(r, "training.schedule", &r->schedule_text);
    if (!r->hidden.size && about.hidden) {
        r->hidden = (cli_hidden){about.hidden, about.activation, about.pool, about.tied, r->hidden.vectors};
    }
    r->batch = recall_whole(r, "training.batch", r->batch);
    r->epochs = recall_whole(r, "training.epochs", r->epochs);
    r->ridge = r->ridge < 0 && ridge ? strtod(ridge, NULL) : r->ridge;
    r->pairs = r->pairs < 0 && pairs ? strtod(pairs, NULL) : r->pairs;
    if (!(r->pairs <= CLI_PAIRS_MOST)) {
        return cli_fail("%s: 'training.pairs' is no strength of pairs: '%s'", r->resume_path, pairs);
    }
    if (r->temperature == 0 && temperature && !r->calibrate) {
        r->temperature = strtod(temperature, NULL);
    }
    r->transform_text = !r->transform_text && *about.transform ? about.transform : r->transform_text;
    code = recall_ngrams(r);
    if (code != CLI_GO_ON) {
        return code;
    }
    r->format.labels = cli_labels_kept(r->recalled, r->format.labels);
    r->format.labels = r->format.labels < 0 ? XSM_KEEP_LABELS_FIRST : r->format.labels;
    r->choose = 0;
    r->began = cli_clock();
    return CLI_GO_ON;
}

int cli_checkpoint_recall_options(const cli_run *r, const char *prefix, cli_setter set, void *of)
{
    const xsm_model_info about = cli_model_info(r->recalled);
    size_t length = strlen(prefix);
    /* In alphabetical order, so that a sampler or an index precedes its options. */
    for (uint64_t i = 0; i < about.metadata_count; i++) {
        const char *key = about.metadata_keys[i];
        xsm_error err = XSM_ERROR_INIT;
        if (strncmp(key, prefix, length) == 0 &&
            set(of, key + length, xsm_model_get_metadata(r->recalled, key), &err) != XSM_OK) {
            return cli_fail("%s: %s", r->resume_path, err.message);
        }
    }
    return CLI_GO_ON;
}

xsm_status cli_checkpoint_resume(cli_run *r, xsm_error *err)
{
    r->checkpoint_saved = cli_clock();
    return r->resume_path ? xsm_trainer_resume(r->trainer, r->resume_path, NULL, err) : XSM_OK;
}

void cli_no_checkpoint(const char *why)
{
    cli_note_clear();
    fprintf(cli_messages(), "xsoftmax: no checkpoint: %s\n", why);
}

/* Saves a checkpoint; training continues if that fails, which is said once until one is saved again. */
static void save(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    const int failed = xsm_trainer_checkpoint(r->trainer, r->checkpoint_path, NULL, &err) != XSM_OK;
    if (failed && !r->checkpoint_failed) {
        cli_no_checkpoint(err.message);
    }
    r->checkpoint_failed = failed;
    r->checkpoint_saved = cli_clock();
}

void cli_checkpoint_tick(cli_run *r)
{
    if (cli_checkpoint_due(r) && !cli_group) {
        save(r);
    }
}

int cli_checkpoint_due(const cli_run *r)
{
    return r->checkpoint_path && r->trainer && cli_clock() - r->checkpoint_saved >= r->checkpoint_every;
}

int cli_checkpoint_pause(cli_run *r)
{
    const int due = cli_checkpoint_due(r), ends = cli_agree_any(cli_stop_requested() || r->spent);
    if (ends || !cli_agree_any(due)) {
        return 0;
    }
    save(r);
    return 1;
}

void cli_checkpoint_finish(cli_run *r)
{
    if (r->checkpoint_path) {
        if (cli_outputs[CLI_OUTPUT_CHECKPOINT].in_place) {
            cli_stop_again();
        }
        save(r);
    }
}
