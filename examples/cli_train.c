/* xsoftmax train: reads data, trains a model on it, says how good it is and saves it. */
#include "cli_train.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/ext/estimator.h>

static const char *const order_words[] = {"shuffle", "file", NULL}; /* XSM_ORDER_* */
static const char *const eta_words[] = {"auto", NULL};
static const char *const bias_words[] = {"no", "yes", "only", NULL};
enum { BIAS_ONLY = 2 };

/* step[:FACTOR], inverse, sqrt or constant */
static int read_schedule(cli_run *r)
{
    const char *text = r->schedule_text;
    r->factor = 0.9;
    if (strcmp(text, "constant") == 0) {
        r->schedule = XSM_SCHEDULE_CONSTANT;
    } else if (strcmp(text, "inverse") == 0) {
        r->schedule = XSM_SCHEDULE_INVERSE;
    } else if (strcmp(text, "sqrt") == 0) {
        r->schedule = XSM_SCHEDULE_INVERSE_SQRT;
    } else if (strcmp(text, "step") == 0) {
        r->schedule = XSM_SCHEDULE_STEP;
    } else if (strncmp(text, "step:", 5) == 0) {
        char *end = NULL;
        const char *number = text + 5;
        r->schedule = XSM_SCHEDULE_STEP;
        r->factor = *number && number[strspn(number, "0123456789.eE+-")] == '\0' ? strtod(number, &end) : 0;
        if (!end || *end || !(r->factor > 0 && r->factor <= 1)) {
            return cli_misuse("--schedule: '%s' is not a factor above 0 and at most 1, as in step:0.9", number);
        }
    } else {
        return cli_misuse("--schedule: '%s' is not known; step:FACTOR, inverse, sqrt or constant is accepted", text);
    }
    return CLI_GO_ON;
}

/* Flags of the one way to train that mean nothing to the other are refused; what was not said gets its default. */
static int choose_optimizer(cli_run *r)
{
    const char *steps[] = {r->epochs ? "epochs" : NULL, r->eta != 0 ? "eta" : NULL,
                           r->schedule_text ? "schedule" : NULL, r->batch ? "batch" : NULL,
                           r->order >= 0 ? "order" : NULL};
    r->full = strcmp(r->optimizer_name, "lbfgs") == 0;
    for (size_t i = 0; r->full && i < sizeof steps / sizeof steps[0]; i++) {
        if (steps[i]) {
            return cli_misuse("--%s means nothing to lbfgs, which takes all rows at once; --iterations and --tolerance "
                              "are what it has",
                              steps[i]);
        }
    }
    if (!r->full && (r->iterations || r->tolerance > 0)) {
        return cli_misuse("--%s is for --optimizer lbfgs alone", r->iterations ? "iterations" : "tolerance");
    }
    r->epochs = r->epochs ? r->epochs : 10;
    r->eta = r->eta > 0 ? r->eta : (double)NAN;
    r->schedule_text = r->schedule_text ? r->schedule_text : "step:0.9";
    r->batch = r->batch ? r->batch : 1;
    r->order = r->order >= 0 ? r->order : XSM_ORDER_SHUFFLE;
    r->iterations = r->iterations ? r->iterations : 1000;
    r->tolerance = r->tolerance > 0 ? r->tolerance : 1e-6;
    return CLI_GO_ON;
}

/* A setting that the library refused: the command line was wrong. */
static int misused(const char *flag, const xsm_error *err)
{
    return err->status == XSM_ERROR_MEMORY ? cli_library_failed(err) : cli_misuse("%s: %s", flag, err->message);
}

/* Hands --ridge, --seed and every --set to the estimator; each option once. */
static int set_options(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_buffer number;
    if (r->ridge >= 0 && xsm_estimator_set(r->estimator, "ridge", cli_real(r->ridge, &number), &err) != XSM_OK) {
        return misused("--ridge", &err);
    }
    snprintf(number.text, sizeof number.text, "%llu", (unsigned long long)r->seed);
    if (xsm_estimator_set(r->estimator, "seed", number.text, &err) != XSM_OK) {
        return misused("--seed", &err);
    }
    /* The sampler first: its own options, sampler.KEY, then find it whatever the order. */
    for (size_t n = 0; n < 2 * r->sets.count; n++) {
        size_t i = n % r->sets.count;
        const char *set = r->sets.items[i];
        const char *equals = strchr(set, '=');
        if ((strncmp(set, "sampler=", 8) == 0) != (n < r->sets.count)) {
            continue;
        }
        if (!equals || equals == set) {
            return cli_misuse("--set: '%s' is not of the form KEY=VALUE", set);
        }
        size_t length = (size_t)(equals - set);
        for (size_t j = 0; j < i; j++) {
            if (strncmp(r->sets.items[j], set, length + 1) == 0) {
                return cli_misuse("--set %.*s is given twice", (int)length, set);
            }
        }
        char *name = cli_format("%.*s", (int)length, set);
        int code = CLI_GO_ON;
        if (strcmp(name, "seed") == 0 || (strcmp(name, "ridge") == 0 && r->ridge >= 0)) {
            code = cli_misuse("--set %s: use --%s alone", name, name);
        } else if (xsm_estimator_set(r->estimator, name, equals + 1, &err) != XSM_OK) {
            code = misused("--set", &err);
        }
        free(name);
        if (code != CLI_GO_ON) {
            return code;
        }
    }
    return CLI_GO_ON;
}

static int make_estimator(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    if (xsm_estimator_new(r->context, r->estimator_name, &r->estimator, &err) != XSM_OK) {
        return misused("--estimator", &err);
    }
    int code = set_options(r);
    if (code != CLI_GO_ON) {
        return code;
    }
    uint64_t limit = xsm_estimator_batch_limit(r->estimator);
    if (limit > 0 && r->batch > limit) {
        return cli_misuse("--batch: %llu examples a step are more than the %llu that '%s' takes",
                          (unsigned long long)r->batch, (unsigned long long)limit, r->estimator_name);
    }
    int multi = (xsm_estimator_find(r->estimator_name)->flags & XSM_ESTIMATOR_MULTI_LABEL) != 0;
    if (r->format.labels < 0) {
        r->format.labels = multi ? XSM_LABELS_ALL : XSM_LABELS_FIRST;
    } else if (r->format.labels == XSM_LABELS_ALL && !multi) {
        return cli_misuse("--labels all: '%s' takes one label a row; first or smallest is accepted", r->estimator_name);
    }
    return CLI_GO_ON;
}

/* All that can be known to be wrong before the data is read. */
static int prepare(cli_run *r)
{
    if (r->bias == BIAS_ONLY && r->transform_text) {
        return cli_misuse("--bias only looks at no feature, so --transform has nothing to do");
    }
    if (r->bias == BIAS_ONLY) {
        r->transform_text = "truncate=0";
    }
    xsm_error err = XSM_ERROR_INIT;
    int code = choose_optimizer(r);
    code = code == CLI_GO_ON ? read_schedule(r) : code;
    if (code == CLI_GO_ON && r->test && strcmp(r->test, "-") == 0 && strcmp(r->data, "-") == 0) {
        code = cli_misuse("--data and --test cannot both be standard input");
    }
    if (code == CLI_GO_ON && r->evaluate_every > 0 && !r->history_path) {
        code = cli_misuse("--evaluate-every needs --history CSV, which is where the results go");
    }
    if (code == CLI_GO_ON) {
        code = cli_context(r->threads, &r->context);
    }
    if (code == CLI_GO_ON) {
        code = make_estimator(r);
    }
    if (code == CLI_GO_ON && !r->full &&
        xsm_optimizer_new(r->context, r->optimizer_name, &r->optimizer, &err) != XSM_OK) {
        code = err.status == XSM_ERROR_NAME ? cli_misuse("--optimizer: %s, or lbfgs", err.message)
                                            : misused("--optimizer", &err);
    }
    if (code == CLI_GO_ON && r->transform_text &&
        xsm_transform_new(r->context, r->transform_text, &r->transform, &err) != XSM_OK) {
        code = misused("--transform", &err);
    }
    const char *inputs[] = {r->data, r->test ? r->test : r->data, r->label_names, NULL};
    if (code == CLI_GO_ON && r->model_path) {
        code = cli_output_plan(CLI_OUTPUT_MODEL, "model", r->model_path, inputs);
    }
    if (code == CLI_GO_ON && r->history_path) {
        code = cli_output_plan(CLI_OUTPUT_HISTORY, "history", r->history_path, inputs);
    }
    return code;
}

/* Training rows first: what they hold decides how the test rows are read. */
static int read_rows(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    uint64_t dropped = 0;
    int code = cli_read(r->context, r->data, &r->format, NULL, &r->train_rows);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (xsm_dataset_get_info(r->train_rows, &r->raw_info, &err) != XSM_OK ||
        xsm_dataset_drop(r->train_rows, XSM_DROP_UNLABELLED, &r->unlabelled_dropped, &err) != XSM_OK ||
        (r->bias != BIAS_ONLY && xsm_dataset_drop(r->train_rows, XSM_DROP_EMPTY, &r->dropped, &err) != XSM_OK)) {
        return cli_fail("%s: %s", r->data, err.message);
    }
    /* A transform that truncates can leave rows empty, so rows are dropped after it as well, and only then is it
     * known which classes there are. */
    if (r->transform &&
        (xsm_transform_fit(r->transform, r->train_rows, &err) != XSM_OK ||
         xsm_transform_apply(r->transform, r->train_rows, &err) != XSM_OK ||
         (r->bias != BIAS_ONLY && xsm_dataset_drop(r->train_rows, XSM_DROP_EMPTY, &dropped, &err) != XSM_OK))) {
        return cli_fail("%s: %s", r->data, err.message);
    }
    r->dropped += dropped;
    if (xsm_dataset_compact(r->train_rows, &err) != XSM_OK ||
        (r->label_names && xsm_dataset_read_names(r->train_rows, r->label_names, &err) != XSM_OK) ||
        xsm_dataset_get_info(r->train_rows, &r->train_info, &err) != XSM_OK ||
        xsm_dataset_get_classes(r->train_rows, &map, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (r->test) {
        map.features = r->raw_info.features; /* as in the file, before the transform */
        code = cli_read(r->context, r->test, &r->format, &map, &r->test_rows);
        if (code != CLI_GO_ON) {
            return code;
        }
        if ((r->transform && xsm_transform_apply(r->transform, r->test_rows, &err) != XSM_OK) ||
            xsm_dataset_get_info(r->test_rows, &r->test_info, &err) != XSM_OK) {
            return cli_fail("%s: %s", r->test, err.message);
        }
        if (r->test_info.unlabelled == r->test_info.rows) {
            return cli_fail("%s: no row has a label", r->test);
        }
    }
    return CLI_GO_ON;
}

static xsm_status set_metadata(cli_run *r, const char *prefix, const char *name, const char *value, xsm_error *err)
{
    char *key = cli_format("%s%s", prefix, name);
    xsm_status status = xsm_model_set_metadata(r->model, key, value, err);
    free(key);
    return status;
}

static xsm_status set_whole(cli_run *r, const char *name, uint64_t value, xsm_error *err)
{
    cli_buffer number;
    snprintf(number.text, sizeof number.text, "%llu", (unsigned long long)value);
    return set_metadata(r, "training.", name, number.text, err);
}

static xsm_status describe_option(cli_run *r, const char *prefix, const char *option, xsm_error *err)
{
    char *name = cli_format("%s%s", prefix, option);
    size_t room = xsm_estimator_get(r->estimator, name, NULL, 0) + 1;
    char *value = cli_format("%*s", (int)room, "");
    xsm_estimator_get(r->estimator, name, value, room);
    xsm_status status = set_metadata(r, "estimator.", name, value, err);
    free(name);
    free(value);
    return status;
}

/* How the model was made, kept in it. */
static int describe(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_buffer number;
    const xsm_estimator_ops *ops = xsm_estimator_find(r->estimator_name);
    const xsm_option *option;
    xsm_status status = xsm_model_set_metadata(r->model, "estimator", r->estimator_name, &err);
    for (size_t i = 0; status == XSM_OK && (option = xsm_estimator_ops_option(ops, i)) != NULL; i++) {
        status = describe_option(r, "", option->name, &err);
    }
    const char *sampler = xsm_sampler_name(xsm_estimator_sampler(r->estimator));
    const xsm_sampler_ops *of_sampler = sampler ? xsm_sampler_find(sampler) : NULL;
    for (size_t i = 0; status == XSM_OK && (option = xsm_sampler_ops_option(of_sampler, i)) != NULL; i++) {
        status = describe_option(r, "sampler.", option->name, &err);
    }
    int ok = status == XSM_OK && set_metadata(r, "training.", "optimizer", r->optimizer_name, &err) == XSM_OK &&
             set_metadata(r, "training.", "labels", cli_label_words[r->format.labels], &err) == XSM_OK &&
             set_whole(r, "seed", r->seed, &err) == XSM_OK &&
             set_whole(r, "examples", r->train_info.rows, &err) == XSM_OK;
    if (r->full) {
        ok = ok && set_metadata(r, "training.", "tolerance", cli_real(r->tolerance, &number), &err) == XSM_OK;
    } else {
        ok = ok && set_metadata(r, "training.", "schedule", r->schedule_text, &err) == XSM_OK &&
             set_metadata(r, "training.", "order", order_words[r->order], &err) == XSM_OK &&
             set_whole(r, "batch", r->batch, &err) == XSM_OK;
    }
    return ok ? CLI_GO_ON : cli_library_failed(&err);
}

static int make_model(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    int exact = (xsm_estimator_find(r->estimator_name)->flags & XSM_ESTIMATOR_EXACT) != 0;
    options.bias = r->bias != 0;
    /* An estimator that scores every class of a sparse row reads whole features, one that samples reads whole
     * classes. */
    options.layout = exact && r->train_info.sparse ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR;
    if (xsm_model_new_linear(r->context, r->train_info.features, r->train_info.classes, &options, &r->model, &err) !=
            XSM_OK ||
        xsm_dataset_get_classes(r->train_rows, &map, &err) != XSM_OK ||
        xsm_model_set_classes(r->model, &map, &err) != XSM_OK ||
        (r->transform && xsm_model_set_transform(r->model, r->transform, &err) != XSM_OK)) {
        return cli_library_failed(&err);
    }
    return describe(r);
}

static int32_t on_progress(void *user, const xsm_progress *progress)
{
    cli_run *r = user;
    r->end = *progress;
    if (progress->epoch_ended && (progress->train || progress->test)) {
        r->train_known = progress->train != NULL;
        r->test_known = progress->test != NULL;
        if (progress->train) {
            r->train_metrics = *progress->train;
        }
        if (progress->test) {
            r->test_metrics = *progress->test;
        }
        r->evaluated_step = progress->step;
        cli_history_line(&r->history, progress, progress->train, progress->test);
    }
    cli_bar(progress, r->started);
    return cli_stop_requested();
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
    if (r->history_path) {
        options.evaluate_every = r->evaluate_every > 0 ? r->evaluate_every : 1;
        options.evaluate_train = 1;
        options.test = r->test_rows;
    }
    options.progress = on_progress;
    options.progress_user = r;
    return options;
}

/* Chooses the learning rate if none was given, and notes it in the model. */
static int choose_rate(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_buffer number;
    xsm_trainer_options options = step_options(r);
    int code = isnan(r->eta) ? cli_tune(r, &options) : CLI_GO_ON;
    if (code == CLI_GO_ON && set_metadata(r, "training.", "eta", cli_real(r->eta, &number), &err) != XSM_OK) {
        code = cli_library_failed(&err);
    }
    return code;
}

/* Steps over the rows, epoch by epoch. */
static xsm_status run_steps(cli_run *r, xsm_error *err)
{
    xsm_trainer_options options = step_options(r);
    xsm_status status =
        xsm_trainer_new(r->context, r->model, r->train_rows, r->estimator, r->optimizer, &options, &r->trainer, err);
    if (status == XSM_OK) {
        status = xsm_trainer_run(r->trainer, err);
    }
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
    if (r->history_path) {
        options.evaluate_every = r->evaluate_every > 0 ? r->evaluate_every : 1;
        options.evaluate_train = 1;
        options.test = r->test_rows;
    }
    options.progress = on_progress;
    options.progress_user = r;
    xsm_status status = xsm_fit_batch(r->context, r->model, r->train_rows, r->estimator, &options, &r->fit, err);
    r->end.seconds = r->fit.seconds;
    return status;
}

static int train_model(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_stop_install();
    int code = r->full ? CLI_GO_ON : choose_rate(r);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (r->history_path && cli_history_open(&r->history) != CLI_GO_ON) {
        return CLI_FAILED;
    }
    r->started = cli_clock();
    xsm_status status = r->full ? run_fit(r, &err) : run_steps(r, &err);
    cli_note_clear();
    if (status != XSM_OK && status != XSM_CANCELLED) {
        return cli_library_failed(&err);
    }
    r->stopped = status == XSM_CANCELLED;
    if (set_whole(r, r->full ? "iterations" : "epochs", r->end.epoch, &err) != XSM_OK ||
        (!r->full && set_whole(r, "steps", r->end.step, &err) != XSM_OK)) {
        return cli_library_failed(&err);
    }
    if (r->evaluated_step != r->end.step) {
        r->train_known = r->test_known = 0; /* of an earlier epoch */
    }
    return CLI_GO_ON;
}

/* Evaluates the model as it is now, unless the trainer has just done so. */
static int evaluate_model(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    if (r->train_known) {
        return CLI_GO_ON;
    }
    xsm_metrics train = XSM_METRICS_INIT, test = XSM_METRICS_INIT;
    cli_note("evaluating on the training rows ...");
    if (xsm_evaluate(r->context, r->model, r->train_rows, NULL, &train, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (r->test_rows) {
        cli_note("evaluating on the test rows ...");
        if (xsm_evaluate(r->context, r->model, r->test_rows, NULL, &test, &err) != XSM_OK) {
            return cli_library_failed(&err);
        }
    }
    cli_note_clear();
    r->train_metrics = train;
    r->test_metrics = test;
    r->train_known = 1;
    r->test_known = r->test_rows != NULL;
    cli_history_line(&r->history, &r->end, &train, r->test_known ? &test : NULL);
    return CLI_GO_ON;
}

static int save_model(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    const char *path = cli_output_begin(CLI_OUTPUT_MODEL);
    if (!path) {
        return CLI_FAILED;
    }
    cli_note("saving %s ...", r->model_path);
    if (xsm_model_save(r->model, path, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    cli_note_clear();
    cli_outputs[CLI_OUTPUT_MODEL].ready = 1;
    return CLI_GO_ON;
}

/* From the last step to outputs that are in their places. */
static int finish(cli_run *r, char **json)
{
    char *stopped_json = NULL, *message = NULL;
    int code = CLI_GO_ON;
    /* What is no file that can be replaced is written last. */
    int save_last = cli_outputs[CLI_OUTPUT_MODEL].in_place;
    if (r->model_path && !save_last) {
        code = save_model(r);
    }
    r->stopped = r->stopped || cli_stop_requested();
    if (code == CLI_GO_ON && !r->stopped) {
        /* The evaluation can be long, and the model is ready: Ctrl-C now only does without the figures. */
        stopped_json = r->json ? cli_train_json(r) : cli_format("%s", "");
        message = cli_format("%sxsoftmax: stopped while evaluating; %s%s\n", cli_erase_line(),
                             r->model_path ? "the trained model is in " : "no --model was given, so nothing is kept",
                             r->model_path ? r->model_path : "");
        if (!save_last) {
            cli_stop_finishes(stopped_json, message);
        }
        code = evaluate_model(r);
    }
    if (code == CLI_GO_ON) {
        code = cli_history_close(&r->history);
    }
    if (code == CLI_GO_ON && r->model_path && save_last) {
        code = save_model(r);
    }
    cli_stop_hold();
    if (code == CLI_GO_ON) {
        int failure = cli_output_commit();
        code = failure ? cli_fail("the outputs cannot be renamed into place: %s", strerror(failure)) : code;
    }
    cli_stop_remove();
    if (code == CLI_GO_ON && r->json) {
        *json = cli_train_json(r);
        code = *json ? code : cli_fail("out of memory");
    }
    free(stopped_json);
    free(message);
    return code;
}

static void release(cli_run *r)
{
    cli_history_abandon(&r->history);
    cli_output_discard();
    cli_output_free();
    xsm_trainer_free(r->trainer);
    xsm_tuning_free(r->tuning);
    xsm_model_free(r->model);
    xsm_dataset_free(r->test_rows);
    xsm_dataset_free(r->train_rows);
    xsm_transform_free(r->transform);
    xsm_optimizer_free(r->optimizer);
    xsm_estimator_free(r->estimator);
    xsm_context_free(r->context);
    cli_list_free(&r->sets);
}

static int train(cli_run *r)
{
    char *json = NULL;
    int code = prepare(r);
    code = code == CLI_GO_ON ? read_rows(r) : code;
    code = code == CLI_GO_ON ? make_model(r) : code;
    code = code == CLI_GO_ON ? train_model(r) : code;
    code = code == CLI_GO_ON ? finish(r, &json) : code;
    cli_note_clear();
    if (code == CLI_GO_ON) {
        if (json) {
            fputs(json, stdout);
        } else {
            cli_train_report(r);
        }
        if (r->stopped) {
            cli_buffer done, all;
            fprintf(stderr, "xsoftmax: stopped after %s of %s%s; %s\n", cli_grouped(r->end.step, &done),
                    cli_grouped(r->end.steps, &all), r->full ? " iterations at most" : " steps",
                    r->model_path ? "the model so far is saved" : "no --model was given, so nothing is kept");
        }
        code = CLI_DONE;
    }
    free(json);
    return code;
}

int cli_train(const cli_command *command, int argc, char **argv)
{
    cli_run r = {
        .format = CLI_DATA_INIT,
        .estimator_name = "implicit",
        .optimizer_name = "sgd",
        .seed = 1,
        .ridge = -1,
        .bias = 1,
        .order = -1,
        .fit = XSM_FIT_RESULT_INIT,
        .tuned = XSM_TUNING_INFO_INIT,
        .raw_info = XSM_DATASET_INFO_INIT,
        .train_info = XSM_DATASET_INFO_INIT,
        .test_info = XSM_DATASET_INFO_INIT,
    };
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, NULL, "Data", NULL, 0, 0, 0, 0},
        {"data", CLI_TEXT, &r.data, "FILE", "rows to train on; - is standard input", NULL, 0, 0, 0, 1},
        {"test", CLI_TEXT, &r.test, "FILE", "rows to test the trained model on", NULL, 0, 0, 0, 0},
        CLI_DATA_FLAGS(r.format),
        {"labels", CLI_CHOICE, &r.format.labels, "WHICH",
         "labels kept of a row: first, smallest, all (first if one is taken, else all)", cli_label_words, 0, 0, 0, 0},
        {"label-names", CLI_TEXT, &r.label_names, "FILE", "names of the labels, line i (from 0) naming label i", NULL,
         0, 0, 0, 0},
        {"transform", CLI_TEXT, &r.transform_text, "STEPS", "of tfidf, unit and truncate=N, with commas, in that order",
         NULL, 0, 0, 0, 0},
        {NULL, CLI_HEADING, NULL, NULL, "Method", NULL, 0, 0, 0, 0},
        {"estimator", CLI_TEXT, &r.estimator_name, "NAME", "see 'xsoftmax estimators' (implicit)", NULL, 0, 0, 0, 0},
        {"set", CLI_LIST, &r.sets, "KEY=VALUE", "an option of the estimator; see 'xsoftmax estimators NAME'", NULL, 0,
         0, 0, 0},
        {"ridge", CLI_REAL, &r.ridge, "MU", "add (MU/2) ||W||^2 to the sum of the losses (0)", NULL, 0, INFINITY, 0, 0},
        {"bias", CLI_CHOICE, &r.bias, "yes|no|only",
         "give every class a bias; only: nothing else, whatever the features (yes)", bias_words, 0, 0, 0, 0},
        {"optimizer", CLI_TEXT, &r.optimizer_name, "NAME",
         "sgd, or lbfgs: all rows at once, for estimators that look at every class (sgd)", NULL, 0, 0, 0, 0},
        {"iterations", CLI_WHOLE, &r.iterations, "N", "lbfgs: at most so many (1000)", NULL, 1, 2147483647, 0, 0},
        {"tolerance", CLI_REAL, &r.tolerance, "X", "lbfgs: relative accuracy of the objective (1e-6)", NULL, 0,
         0.999999, 1, 0},
        {"epochs", CLI_WHOLE, &r.epochs, "N", "times to go through the rows (10)", NULL, 1, 1e9, 0, 0},
        {"eta", CLI_REAL, &r.eta, "auto|X", "learning rate to start with; auto tries some on a part of the rows (auto)",
         eta_words, 0, 1e14, 1, 0},
        {"schedule", CLI_TEXT, &r.schedule_text, "HOW",
         "step:F (times F each epoch), inverse, sqrt or constant (step:0.9)", NULL, 0, 0, 0, 0},
        {"batch", CLI_WHOLE, &r.batch, "N", "examples a step (1)", NULL, 1, 1e9, 0, 0},
        {"order", CLI_CHOICE, &r.order, "HOW", "order of the rows: shuffle (anew each epoch) or file (shuffle)",
         order_words, 0, 0, 0, 0},
        {"seed", CLI_WHOLE, &r.seed, "S", "of all that is random; the same seed gives the same model (1)", NULL, 0,
         9007199254740992.0, 0, 0},
        {"threads", CLI_WHOLE, &r.threads, "T", "threads; the result is the same with any number (all)", NULL, 1, 4096,
         0, 0},
        {NULL, CLI_HEADING, NULL, NULL, "Results", NULL, 0, 0, 0, 0},
        {"model", CLI_TEXT, &r.model_path, "OUT", "save the model here", NULL, 0, 0, 0, 0},
        {"history", CLI_TEXT, &r.history_path, "CSV", "evaluate after each epoch and write the figures here", NULL, 0,
         0, 0, 0},
        {"evaluate-every", CLI_WHOLE, &r.evaluate_every, "N", "with --history: only after every N epochs and the last",
         NULL, 1, 1e9, 0, 0},
        {"json", CLI_SWITCH, &r.json, NULL, "print one JSON object instead of the report", NULL, 0, 0, 0, 0},
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, 0, argc, argv);
    if (code == CLI_GO_ON) {
        code = train(&r);
    }
    release(&r);
    return code;
}
