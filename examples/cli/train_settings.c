/* Checks the flags of xsoftmax train together, and reports all errors that can be found before the data is read. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/ext/estimator.h>

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

/* Refuses flags of one kind of training that have no meaning for the other, and sets the defaults of flags not
 * given. */
static int choose_optimizer(cli_run *r)
{
    const char *steps[] = {r->epochs ? "epochs" : NULL, r->eta != 0 ? "eta" : NULL,
                           r->schedule_text ? "schedule" : NULL, r->batch ? "batch" : NULL,
                           r->order >= 0 ? "order" : NULL};
    r->full = r->optimizer_name && strcmp(r->optimizer_name, "lbfgs") == 0;
    for (size_t i = 0; r->full && i < sizeof steps / sizeof steps[0]; i++) {
        if (steps[i]) {
            return cli_misuse("--%s means nothing to lbfgs, which uses all rows at once; --iterations and --tolerance "
                              "are what it has",
                              steps[i]);
        }
    }
    if (!r->full && (r->iterations || r->tolerance >= 0)) {
        return cli_misuse("--%s is for --optimizer lbfgs alone", r->iterations ? "iterations" : "tolerance");
    }
    r->eta = r->eta > 0 ? r->eta : (double)NAN;
    if (!r->choose) {
        r->optimizer_name = r->optimizer_name ? r->optimizer_name : "sgd";
        r->epochs = r->epochs ? r->epochs : 10;
        r->schedule_text = r->schedule_text ? r->schedule_text : "step:0.9";
        r->batch = r->batch ? r->batch : 1;
    }
    r->order = r->order >= 0 ? r->order : XSM_ORDER_SHUFFLE;
    r->iterations = r->iterations ? r->iterations : 1000;
    r->tolerance = r->tolerance >= 0 ? r->tolerance : 1e-6;
    return CLI_GO_ON;
}

/* The library refused a setting: the command line was wrong. */
static int misused(const char *flag, const xsm_error *err)
{
    return err->status == XSM_ERROR_MEMORY ? cli_library_failed(err) : cli_misuse("%s: %s", flag, err->message);
}

/* One --set: keys that begin with "optimizer." belong to the optimizer, all others to the estimator. */
static int set_option(cli_run *r, const char *name, const char *value)
{
    static const char prefix[] = "optimizer.";
    xsm_error err = XSM_ERROR_INIT;
    if (strcmp(name, "seed") == 0 || (strcmp(name, "ridge") == 0 && r->ridge >= 0)) {
        return cli_misuse("--set %s: use --%s alone", name, name);
    }
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) {
        return xsm_estimator_set(r->estimator, name, value, &err) == XSM_OK ? CLI_GO_ON : misused("--set", &err);
    }
    if (r->full) {
        return cli_misuse("--set %s: lbfgs has --iterations and --tolerance alone", name);
    }
    return xsm_optimizer_set(r->optimizer, name + sizeof prefix - 1, value, &err) == XSM_OK ? CLI_GO_ON
                                                                                            : misused("--set", &err);
}

/* Passes --ridge, --seed and every --set to estimator and optimizer; each option once. */
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
    /* The sampler or index is set first, so that its own options, sampler.KEY, are known in any order. */
    for (size_t n = 0; n < 2 * r->sets.count; n++) {
        size_t i = n % r->sets.count;
        const char *set = r->sets.items[i];
        const char *equals = strchr(set, '=');
        int part = strncmp(set, "sampler=", 8) == 0 || strncmp(set, "index=", 6) == 0;
        if (part != (n < r->sets.count)) {
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
        int code = set_option(r, name, equals + 1);
        free(name);
        if (code != CLI_GO_ON) {
            return code;
        }
    }
    return CLI_GO_ON;
}

static xsm_status set_of_estimator(void *of, const char *name, const char *value, xsm_error *err)
{
    return xsm_estimator_set(of, name, value, err);
}

static xsm_status set_of_optimizer(void *of, const char *name, const char *value, xsm_error *err)
{
    return xsm_optimizer_set(of, name, value, err);
}

static int make_optimizer(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    if (r->optimizer_name && !r->full &&
        xsm_optimizer_new(r->context, r->optimizer_name, &r->optimizer, &err) != XSM_OK) {
        return err.status == XSM_ERROR_NAME ? cli_misuse("--optimizer: %s, or lbfgs", err.message)
                                            : misused("--optimizer", &err);
    }
    const char *before = r->recalled ? xsm_model_get_metadata(r->recalled, "training.optimizer") : NULL;
    if (before && r->optimizer_name && strcmp(before, r->optimizer_name) != 0) {
        return CLI_GO_ON; /* if this differs from the checkpoint, resuming reports it */
    }
    return r->optimizer ? cli_checkpoint_recall_options(r, CLI_KEY_OPTIMIZER, set_of_optimizer, r->optimizer)
                        : CLI_GO_ON;
}

static int make_estimator(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    for (size_t i = 0; cli_method_words[i]; i++) {
        if (strcmp(r->estimator_name, cli_method_words[i]) == 0) {
            return cli_misuse("--estimator '%s' is a method without steps: --method %s", r->estimator_name,
                              r->estimator_name);
        }
    }
    if (xsm_estimator_new(r->context, r->estimator_name, &r->estimator, &err) != XSM_OK) {
        return misused("--estimator", &err);
    }
    int code = cli_checkpoint_recall_options(r, CLI_KEY_ESTIMATOR, set_of_estimator, r->estimator);
    code = code == CLI_GO_ON ? set_options(r) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    uint64_t limit = cli_estimator_info(r->estimator).batch_limit;
    if (limit > 0 && r->batch > limit) {
        return cli_misuse("--batch: %llu examples a step are more than the %llu that '%s' takes",
                          (unsigned long long)r->batch, (unsigned long long)limit, r->estimator_name);
    }
    int multi = (xsm_estimator_find(r->estimator_name)->flags & XSM_ESTIMATOR_MULTI_LABEL) != 0;
    if (r->format.labels < 0) {
        r->format.labels = multi ? XSM_KEEP_LABELS_ALL : XSM_KEEP_LABELS_FIRST;
        r->first_by_default = !multi;
    } else if (r->format.labels == XSM_KEEP_LABELS_ALL && !multi) {
        return cli_misuse("--labels all: '%s' takes one label a row; first or smallest is accepted", r->estimator_name);
    }
    return CLI_GO_ON;
}

int cli_train_several(cli_run *r)
{
    if (!r->first_by_default || r->raw_info.labels <= r->raw_info.rows) {
        return CLI_GO_ON;
    }
    if (r->estimator_by_default) {
        xsm_estimator_free(r->estimator);
        r->estimator = NULL;
        r->estimator_name = "sampled-softmax";
        r->format.labels = -1;
        return make_estimator(r);
    }
    r->labels_unused = r->raw_info.labels - r->raw_info.rows;
    return CLI_GO_ON;
}

static int is_hierarchy(const char *estimator)
{
    const xsm_estimator_ops *ops = xsm_estimator_find(estimator);
    return ops && ops->kind == XSM_ESTIMATOR_HIERARCHY;
}

int cli_train_corrects(const char *estimator)
{
    const xsm_estimator_ops *ops = xsm_estimator_find(estimator);
    return ops && ((ops->flags & XSM_ESTIMATOR_CORRECTED) != 0 || is_hierarchy(estimator));
}

/* Checks what cannot be combined with scores that are distances. */
static int check_score(const cli_run *r)
{
    if (r->geometry <= XSM_GEOMETRY_LINEAR) {
        return CLI_GO_ON;
    }
    const char *wrong = r->bias == CLI_BIAS_ONLY ? "--bias only leaves no features to be near to"
                        : r->time_budget > 0     ? "--time-budget chooses among models with linear scores"
                        : r->full                ? "lbfgs takes linear scores; sgd is what trains distances"
                                                 : NULL;
    if (wrong) {
        return cli_misuse("--geometry %s: %s", cli_geometry_words[r->geometry], wrong);
    }
    return CLI_GO_ON;
}

const char *const cli_start_words[] = {"zeros", "means", NULL};

/* Checks what cannot be combined with class means to start from. */
static int check_start(const cli_run *r)
{
    const char *wrong = r->start <= 0                       ? NULL
                        : r->warm_path                      ? "--warm-start goes on from the model's weights"
                        : r->hidden.size                    ? "the vectors of --hidden start at random"
                        : r->bias != 1                      ? "class means need features and a bias"
                        : r->geometry > XSM_GEOMETRY_LINEAR ? "scores that are distances have no shares of classes"
                        : r->choose ? "give --estimator NAME, and no --time-budget: what to train with can "
                                      "be tried out only from a model of zeros"
                        : !r->full && isnan(r->eta) && !r->resume_path
                            ? "give --eta X: rates can be tried out only from a model of zeros"
                            : NULL;
    return wrong ? cli_misuse("--start means: %s", wrong) : CLI_GO_ON;
}

int cli_train_prepare(cli_run *r)
{
    r->transform_asked = r->transform_text != NULL || r->bias == CLI_BIAS_ONLY;
    if (r->method >= 0) {
        const int refused = cli_method_prepare(r);
        if (refused != CLI_GO_ON) {
            return refused;
        }
    }
    r->trees_open = cli_label_tree_open(r);
    if (r->hidden.vectors && !r->hidden.size && r->method < 0) {
        const int code = cli_vectors_length(r->hidden.vectors, &r->hidden.size);
        if (code != CLI_GO_ON) {
            return code;
        }
    }
    const char *hidden = r->hidden.size ? "hidden" : cli_hidden_companion(&r->hidden);
    const char *models = r->bias >= 0 ? "bias" : hidden ? hidden : r->geometry >= 0 ? "geometry" : NULL;
    if (r->warm_path && models) {
        return cli_misuse("--%s: --warm-start keeps that of the model that it starts from", models);
    }
    if (!r->warm_path && r->new_words >= 0) {
        return cli_misuse("--new-words is of --warm-start MODEL, whose words others are new to");
    }
    r->bias = r->bias >= 0 ? r->bias : 1;
    if (r->bias == CLI_BIAS_ONLY && r->transform_text) {
        return cli_misuse("--bias only uses no feature, so --transform has nothing to do");
    }
    if (r->bias == CLI_BIAS_ONLY) {
        r->transform_text = "truncate=0";
    }
    xsm_error err = XSM_ERROR_INIT;
    if (r->hidden.size && !r->estimator_name && r->geometry <= XSM_GEOMETRY_LINEAR) {
        r->estimator_name =
            r->format.labels == XSM_KEEP_LABELS_ALL ? "sampled-softmax" : "implicit"; /* none is chosen */
        r->estimator_by_default = r->sets.count == 0;
    }
    if (r->geometry > XSM_GEOMETRY_LINEAR && !r->estimator_name) {
        r->estimator_name = "softmax";
    }
    r->choose = r->method < 0 && (!r->estimator_name || r->time_budget > 0);
    if (r->method < 0 && !r->estimator_name && r->sets.count > 0) {
        return cli_misuse("--set is about an estimator: name it with --estimator");
    }
    if (r->measure_text && cli_choose_measure(r) != CLI_GO_ON) {
        return CLI_USAGE;
    }
    if (r->measure && !r->choose) {
        return cli_misuse("--measure says what is best when it is chosen; it needs a choice, which --estimator NAME "
                          "without --time-budget leaves out");
    }
    int code = r->resume_path && r->method < 0 && !r->estimator_name ? cli_checkpoint_recall_choice(r) : CLI_GO_ON;
    code = code == CLI_GO_ON && r->method < 0 ? choose_optimizer(r) : code;
    if (code == CLI_GO_ON && r->schedule_text) {
        code = read_schedule(r);
    }
    r->format.ngrams_open = cli_ngrams_open(r);
    code = code == CLI_GO_ON ? check_score(r) : code;
    code = code == CLI_GO_ON ? cli_hidden_check(r) : code;
    if (code == CLI_GO_ON && r->pairs > 0 && r->bias == CLI_BIAS_ONLY) {
        code = cli_misuse("--bias only uses no feature, so there is nothing for --pairs to count");
    }
    if (code == CLI_GO_ON && r->pairs > 0 && r->estimator_name && cli_train_corrects(r->estimator_name)) {
        code = cli_misuse("--pairs: '%s' corrects the model's scores itself", r->estimator_name);
    }
    if (code == CLI_GO_ON && r->temperature > 0 && r->calibrate) {
        code = cli_misuse("--temperature: --calibrate FILE finds it by its rows");
    }
    if (code == CLI_GO_ON && r->temperature > 0 && r->estimator_name && is_hierarchy(r->estimator_name)) {
        code = cli_misuse("--temperature: the scores of '%s' are probabilities as they are", r->estimator_name);
    }
    if (code == CLI_GO_ON && r->test && strcmp(r->test, "-") == 0 && strcmp(r->data, "-") == 0) {
        code = cli_misuse("--data and --test cannot both be standard input");
    }
    if (code == CLI_GO_ON && r->format.test_labels_from && !r->test) {
        code = cli_misuse("--test-labels-from needs --test FILE, whose rows' labels they are");
    }
    if (code == CLI_GO_ON && r->format.test_weights && r->format.weights_column) {
        code = cli_misuse("--test-weights: --weights-column names the column of the weights of the rows to test, too");
    }
    if (code == CLI_GO_ON && r->format.test_weights && !r->test) {
        code = cli_misuse("--test-weights needs --test FILE, whose rows' weights they are");
    }
    if (code == CLI_GO_ON && r->evaluate_every > 0 && !r->history_path) {
        code = cli_misuse("--evaluate-every needs --history CSV, which is where the results go");
    }
    if (code == CLI_GO_ON && r->unevaluated && (r->test || r->history_path)) {
        code = cli_misuse("--no-evaluate: %s needs figures", r->test ? "--test" : "--history");
    }
    if (code == CLI_GO_ON && r->unevaluated && r->evaluate_train >= 0) {
        code = cli_misuse("--no-evaluate: --evaluate-train needs figures");
    }
    if (code == CLI_GO_ON && r->history_path && r->evaluate_train == XSM_EVALUATE_NONE && !r->test) {
        code = cli_misuse("--evaluate-train no: --history needs figures, of training rows or of --test FILE");
    }
    if (code == CLI_GO_ON && cli_group && r->dry) {
        code = cli_misuse("--dry-run is for one process");
    }
    r->evaluate_train = r->evaluate_train >= 0 ? r->evaluate_train : XSM_EVALUATE_SAMPLE;
    if (code == CLI_GO_ON && r->history_measures && !r->history_path) {
        code = cli_misuse("--history-measures needs --history CSV, which is where they go");
    }
    if (code == CLI_GO_ON && r->history_measures) {
        code = cli_measures_read("--history-measures", r->history_measures, &r->history.measures);
    }
    if (code == CLI_GO_ON) {
        code = cli_context(r->threads, &r->context);
    }
    code = code == CLI_GO_ON ? make_optimizer(r) : code;
    code = code == CLI_GO_ON && r->estimator_name ? make_estimator(r) : code;
    r->format.labels = r->format.labels < 0 ? XSM_KEEP_LABELS_ALL : r->format.labels;
    if (code == CLI_GO_ON && r->transform_text &&
        xsm_transform_new(r->context, r->transform_text, &r->transform, &err) != XSM_OK) {
        code = misused("--transform", &err);
    }
    code = code == CLI_GO_ON ? cli_checkpoint_prepare(r) : code;
    /* The same rows lead to the same choice. */
    code = code == CLI_GO_ON && r->method < 0 && !r->choose ? cli_checkpoint_recall(r) : code;
    code = code == CLI_GO_ON ? cli_warm_prepare(r) : code;
    code = code == CLI_GO_ON ? check_start(r) : code;
    if (code == CLI_GO_ON && r->model_path) {
        code = cli_output_plan(CLI_OUTPUT_MODEL, r->model_path);
    }
    if (code == CLI_GO_ON && r->history_path) {
        code = cli_output_plan(CLI_OUTPUT_HISTORY, r->history_path);
    }
    return code;
}
