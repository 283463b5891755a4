/* xsoftmax train: reads data, trains a model on it, reports how good it is and saves it. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const order_words[] = {"shuffle", "file", NULL};     /* XSM_ORDER_* */
const char *const cli_evaluate_words[] = {"no", "all", "sample", NULL}; /* XSM_EVALUATE_* */
static const char *const eta_words[] = {"auto", NULL};
static const char *const bias_words[] = {"no", "yes", "only", NULL}; /* CLI_BIAS_ONLY is the last */

static int save_model(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    char *path = cli_output_name(CLI_OUTPUT_MODEL);
    if (!path) {
        return CLI_FAILED;
    }
    cli_note("saving %s ...", r->model_path);
    const xsm_status status = xsm_model_save(r->model, path, NULL, &err);
    cli_note_clear();
    struct stat saved;
    r->model_bytes =
        !cli_outputs[CLI_OUTPUT_MODEL].in_place && stat(path, &saved) == 0 ? (double)saved.st_size : (double)NAN;
    cli_outputs[CLI_OUTPUT_MODEL].ready = status == XSM_OK;
    free(path);
    return status == XSM_OK ? CLI_GO_ON : cli_library_failed(&err);
}

static int renamed(int failure)
{
    return failure ? cli_fail("the outputs cannot be renamed into place: %s", strerror(failure)) : CLI_GO_ON;
}

/* From the last step until all outputs are renamed. */
static int finish(cli_run *r, char **json)
{
    char *stopped_json = NULL, *message = NULL;
    int code = CLI_GO_ON;
    /* Files that cannot be replaced are written last. */
    int save_last = cli_outputs[CLI_OUTPUT_MODEL].in_place;
    if (r->model_path && !save_last) {
        code = save_model(r);
    }
    r->stopped = cli_agree_any(r->stopped || cli_stop_requested());
    if (code == CLI_GO_ON && cli_group) { /* a rank that is lost while evaluating ends them all: the model is kept */
        code = cli_agree(renamed(cli_output_rename(CLI_OUTPUT_MODEL)));
    }
    if (code == CLI_GO_ON && !r->stopped) {
        /* The evaluation can be long, and the model is complete: Ctrl-C now only skips the results of the
         * evaluation. */
        stopped_json = r->json ? cli_train_json(r, "evaluation") : cli_format("%s", "");
        message = cli_format("%sxsoftmax: stopped while evaluating; %s%s\n", cli_erase_line(),
                             r->model_path ? "the trained model is in " : "no --model was given, so nothing is kept",
                             r->model_path ? r->model_path : "");
        if (!save_last && !cli_group) {
            cli_stop_finishes(stopped_json, message);
        }
        code = cli_train_evaluate(r);
        if (code == CLI_GO_ON && !r->unevaluated) {
            r->prediction_seconds = cli_prediction_seconds(r->model, r->test_rows ? r->test_rows : r->train_rows, 0);
        }
    }
    r->history_failed = code == CLI_GO_ON && cli_history_close(&r->history) != CLI_GO_ON; /* the model is kept */
    if (code == CLI_GO_ON && r->model_path && save_last) {
        cli_stop_again();
        code = save_model(r);
    }
    cli_stop_hold();
    code = code == CLI_GO_ON ? renamed(cli_output_commit()) : code;
    cli_stop_remove();
    if (code == CLI_GO_ON && r->json) {
        *json = cli_train_json(r, r->stopped ? "training" : NULL);
        code = *json ? code : cli_fail("out of memory");
    }
    free(stopped_json);
    free(message);
    return code;
}

/* The exit code of a run that ended, after a message if a checkpoint or history could not be written. */
static int ended(const cli_run *r)
{
    if (!r->checkpoint_failed && !r->history_failed) {
        return CLI_DONE;
    }
    const char *lost = !r->history_failed      ? "the last checkpoint is"
                       : !r->checkpoint_failed ? "the history is"
                                               : "the last checkpoint and the history are";
    return r->model_path ? cli_fail("the model is saved in %s; %s not", r->model_path, lost)
                         : cli_fail("%s not saved; no --model was given", lost);
}

static void release(cli_run *r)
{
    cli_history_abandon(&r->history);
    cli_output_discard();
    cli_stop_remove(); /* if the run failed */
    cli_output_free();
    xsm_trainer_free(r->trainer);
    xsm_tuning_free(r->tuning);
    xsm_optimizer_free(r->optimizer);
    if (!r->choice || r->choice_given) {
        xsm_estimator_free(r->estimator);
    }
    xsm_choice_free(r->choice);
    xsm_choice_free(r->ngrams);
    xsm_model_free(r->model);
    xsm_model_free(r->recalled);
    xsm_dataset_free(r->test_rows);
    xsm_dataset_free(r->calibrate_rows);
    xsm_dataset_free(r->train_rows);
    xsm_transform_free(r->transform);
    free(r->schedule_made);
    for (size_t i = 0; i < CLI_CHOICE_LINES; i++) {
        free(r->why[i]);
    }
    xsm_context_free(r->context);
    cli_list_free(&r->sets);
}

static int train(cli_run *r)
{
    char *json = NULL;
    int code = cli_agree(cli_train_prepare(r));
    code = code == CLI_GO_ON ? cli_agree(cli_train_read(r)) : code;
    code = code == CLI_GO_ON && r->dry ? cli_dry_run(r) : code;
    code = code == CLI_GO_ON && r->choose ? cli_choose(r) : code;
    if (r->method >= 0) {
        code = code == CLI_GO_ON ? cli_agree(cli_method_run(r)) : code;
    } else {
        code = code == CLI_GO_ON ? cli_agree(cli_train_make_model(r)) : code;
        code = code == CLI_GO_ON ? cli_train_run(r) : code;
    }
    code = code == CLI_GO_ON ? cli_train_calibrate(r) : code;
    code = code == CLI_GO_ON ? finish(r, &json) : code;
    cli_note_clear();
    if (code == CLI_GO_ON) {
        if (!json) {
            cli_train_report(r);
        }
        if (r->stopped) {
            const char *checkpoint = r->checkpoint_failed ? NULL : r->checkpoint_path;
            cli_buffer done, all;
            fprintf(cli_messages(), "xsoftmax: stopped after %s of %s%s; %s%s%s\n", cli_grouped(r->end.step, &done),
                    cli_grouped(r->end.steps, &all), r->full ? " iterations at most" : " steps",
                    r->model_path ? "the model so far is saved"
                    : checkpoint  ? "no --model was given"
                                  : "no --model was given, so nothing is kept",
                    checkpoint ? "; the same command goes on with --resume " : "", checkpoint ? checkpoint : "");
        }
        if (r->spent && !r->stopped) {
            cli_buffer done, all, seconds;
            fprintf(cli_messages(), "xsoftmax: the time budget of %s ended training after %s of %s%s\n",
                    cli_seconds(r->time_budget, &seconds), cli_grouped(r->end.step, &done),
                    cli_grouped(r->end.steps, &all), r->full ? " iterations at most" : " steps");
        }
        code = ended(r);
        fputs(json ? json : "", stdout); /* the last line, also where standard output is that of errors */
    }
    free(json);
    return code;
}

int cli_train(const cli_command *command, int argc, char **argv)
{
    cli_run r = {
        .format = CLI_DATA_INIT,
        .seed = 1,
        .ridge = -1,
        .pairs = -1,
        .bias = -1,
        .new_words = -1,
        .order = -1,
        .checkpoint_every = -1,
        .geometry = -1,
        .tolerance = -1,
        .evaluate_train = -1,
        .entered = cli_clock(),
        .model_bytes = (double)NAN,
        .prediction_seconds = (double)NAN,
        .hidden = {0, -1, -1, 0, NULL},
        .method = -1,
        .start = -1,
        .tree_result = XSM_LABEL_TREE_RESULT_INIT,
        .fit = XSM_FIT_RESULT_INIT,
        .tuned = XSM_TUNING_INFO_INIT,
        .chosen = XSM_CHOICE_INFO_INIT,
        .ngrams_chosen = XSM_CHOICE_INFO_INIT,
        .raw_info = XSM_DATASET_INFO_INIT,
        .train_info = XSM_DATASET_INFO_INIT,
        .test_info = XSM_DATASET_INFO_INIT,
    };
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, NULL, "Data", NULL, 0, 0, 0, 0},
        {"data", CLI_INPUT, &r.data, "FILE", "rows to train on; - is standard input", NULL, 0, 0, 0, 1},
        {"test", CLI_INPUT, &r.test, "FILE", "rows to test the trained model on", NULL, 0, 0, 0, 0},
        CLI_DATA_FLAGS(r.format),
        CLI_WEIGHTS_FLAG(r.format),
        CLI_LABEL_WEIGHTS_FLAG(r.format),
        {"class-weights", CLI_INPUT, &r.class_weights, "HOW",
         "weights of labels by class: balanced, propensity, or a FILE of lines LABEL WEIGHT (1 each)", NULL, 0, 0, 0,
         0},
        {"test-labels-from", CLI_INPUT, &r.format.test_labels_from, "FILE",
         "xc, npy and npz: file with the labels of each row to test", NULL, 0, 0, 0, 0},
        {"test-weights", CLI_INPUT, &r.format.test_weights, "FILE", "weight of each row to test (1 each)", NULL, 0, 0,
         0, 0},
        CLI_TEXT_FLAGS(r.format),
        {"labels", CLI_CHOICE, &r.format.labels, "WHICH",
         "labels kept of a row: first, smallest, all (all, or first with an --estimator that takes one)",
         cli_label_words, 0, 0, 0, 0},
        {"label-names", CLI_INPUT, &r.label_names, "FILE", "names of the labels, line i (from 0) naming label i", NULL,
         0, 0, 0, 0},
        {"drop-empty", CLI_SWITCH, &r.drop_empty, NULL, "leave out rows without a feature, of which the bias learns",
         NULL, 0, 0, 0, 0},
        {"min-label-count", CLI_WHOLE, &r.min_label_count, "N",
         "leave out labels that fewer rows have; of a warm start, only new ones (1)", NULL, 1, 1e15, 0, 0},
        {"transform", CLI_TEXT, &r.transform_text, "STEPS",
         "log, tfidf, standard, unit, products=N, truncate=N, with commas, in the order given; or none", NULL, 0, 0, 0,
         0},
        {NULL, CLI_HEADING, NULL, NULL, "Method", NULL, 0, 0, 0, 0},
        {"method", CLI_CHOICE, &r.method, "NAME",
         "label-tree: sparse classifiers in a tree over labels; class-means: the nearest mean", cli_method_words, 0, 0,
         0, 0},
        {"estimator", CLI_TEXT, &r.estimator_name, "NAME", "see 'xsoftmax estimators' (chosen from the rows)", NULL, 0,
         0, 0, 0},
        {"set", CLI_LIST, &r.sets, "KEY=VALUE",
         "an option of estimator or method (see 'estimators NAME'); of optimizer: optimizer.KEY", NULL, 0, 0, 0, 0},
        {"ridge", CLI_REAL, &r.ridge, "MU",
         "add (MU/2) ||W||^2 to the sum of the losses (0, or chosen with the estimator)", NULL, 0, INFINITY, 0, 0},
        {"bias", CLI_CHOICE, &r.bias, "yes|no|only",
         "give every class a bias; only: nothing else, whatever the features (yes)", bias_words, 0, 0, 0, 0},
        {"geometry", CLI_CHOICE, &r.geometry, "HOW",
         "linear, or euclidean: a class is a point, and scores by its distance (linear)", cli_geometry_words, 0, 0, 0,
         0},
        CLI_HIDDEN_FLAGS(r.hidden),
        {"pairs", CLI_REAL, &r.pairs, "S",
         "after training, add S times what features and classes occurring together say (0, or chosen)", NULL, 0,
         CLI_PAIRS_MOST, 0, 0},
        {"optimizer", CLI_TEXT, &r.optimizer_name, "NAME",
         "sgd, adagrad, row-adagrad, or lbfgs: all rows at once, every class scored (sgd, or chosen)", NULL, 0, 0, 0,
         0},
        {"iterations", CLI_WHOLE, &r.iterations, "N", "lbfgs: at most so many (1000)", NULL, 1, 2147483647, 0, 0},
        {"tolerance", CLI_REAL, &r.tolerance, "X", "lbfgs: relative accuracy of the objective (1e-6)", NULL, 0,
         0.999999, 0, 0},
        {"epochs", CLI_WHOLE, &r.epochs, "N", "times to go through the rows (10, or chosen)", NULL, 1, 1e9, 0, 0},
        {"eta", CLI_REAL, &r.eta, "auto|X", "learning rate to start with; auto tries some on a part of the rows (auto)",
         eta_words, 0, 1e14, 1, 0},
        {"schedule", CLI_TEXT, &r.schedule_text, "HOW",
         "step:F (times F each epoch), inverse, sqrt or constant (step:0.9, or chosen)", NULL, 0, 0, 0, 0},
        {"batch", CLI_WHOLE, &r.batch, "N", "examples a step (1, or chosen)", NULL, 1, 1e9, 0, 0},
        {"order", CLI_CHOICE, &r.order, "HOW", "order of the rows: shuffle (anew each epoch) or file (shuffle)",
         order_words, 0, 0, 0, 0},
        {"seed", CLI_WHOLE, &r.seed, "S", "of all that is random; the same seed gives the same model (1)", NULL, 0,
         9007199254740992.0, 0, 0},
        {"threads", CLI_WHOLE, &r.threads, "T", "threads; the result is the same with any number (all)", NULL, 1, 4096,
         0, 0},
        {"calibrate", CLI_INPUT, &r.calibrate, "FILE",
         "at the end, calibrate the probabilities by these rows, which are not trained on", NULL, 0, 0, 0, 0},
        {"temperature", CLI_REAL, &r.temperature, "T",
         "divide scores by T for probabilities, as calibration does (1, or chosen)", NULL, 1 / CLI_TEMPERATURE_MOST,
         CLI_TEMPERATURE_MOST, 0, 0},
        {"measure", CLI_TEXT, &r.measure_text, "NAME[@K]",
         "judge by log-loss (calibrated), precision, ndcg, hits or mrr (ndcg@5 with several labels)", NULL, 0, 0, 0, 0},
        {"time-budget", CLI_REAL, &r.time_budget, "SECONDS", "choose and train within so many seconds", NULL, 0, 1e9, 1,
         0},
        {NULL, CLI_HEADING, NULL, NULL, "Results", NULL, 0, 0, 0, 0},
        {"model", CLI_OUTPUT, &r.model_path, "OUT", "save the model here", NULL, 0, 0, 0, 0},
        {"history", CLI_OUTPUT, &r.history_path, "CSV", "evaluate after each epoch and write the figures here", NULL, 0,
         0, 0, 0},
        {"history-measures", CLI_TEXT, &r.history_measures, "LIST",
         "of precision,ndcg,psp,psndcg,recall,hits,mrr (the first; the first four with several labels)", NULL, 0, 0, 0,
         0},
        {"evaluate-every", CLI_WHOLE, &r.evaluate_every, "N", "with --history: only after every N epochs and the last",
         NULL, 1, 1e9, 0, 0},
        {"checkpoint", CLI_OUTPUT, &r.checkpoint_path, "FILE",
         "save here, now and then, at the end and on Ctrl-C, all that --resume needs", NULL, 0, 0, 0, 0},
        {"checkpoint-every", CLI_REAL, &r.checkpoint_every, "S", "seconds from a checkpoint to the next (300)", NULL, 0,
         1e9, 0, 0},
        {"start", CLI_CHOICE, &r.start, "zeros|means", "where a linear model starts: class means are one pass (zeros)",
         cli_start_words, 0, 1, 0, 0},
        {"warm-start", CLI_INPUT, &r.warm_path, "MODEL",
         "start from this model, with whatever classes and features are new in the rows", NULL, 0, 0, 0, 0},
        {"new-words", CLI_CHOICE, &r.new_words, "yes|no",
         "--warm-start: words and other features that the model lacks are learned, or left out (yes)", bias_words, 0, 1,
         0, 0},
        {"resume", CLI_INPUT, &r.resume_path, "FILE",
         "go on from this checkpoint; the other flags must be those of the run that saved it", NULL, 0, 0, 0, 0},
        {"evaluate-train", CLI_CHOICE, &r.evaluate_train, "HOW",
         "training rows to evaluate on: no, all, or a sample in a tenth of the run's time (sample)", cli_evaluate_words,
         0, 0, 0, 0},
        {"no-evaluate", CLI_SWITCH, &r.unevaluated, NULL, "skip every evaluation", NULL, 0, 0, 0, 0},
        {"dry-run", CLI_SWITCH, &r.dry, NULL,
         "read the rows, say what each way of training would need in memory, and train nothing", NULL, 0, 0, 0, 0},
        {"json", CLI_SWITCH, &r.json, NULL, "print one JSON object instead of the report", NULL, 0, 0, 0, 0},
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, argc, argv);
    if (code == CLI_GO_ON) {
        code = train(&r);
    }
    release(&r);
    return code;
}
