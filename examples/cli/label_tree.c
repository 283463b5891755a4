/* xsoftmax train --method: what differs from a training run with an estimator. */
#include "train.h"

#include <xsoftmax/label_tree.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const cli_method_words[] = {"label-tree", "class-means", NULL};

/* The first flag that was given and means nothing to a method, or NULL. */
static const char *stranger(const cli_run *r)
{
    const struct {
        int given;
        const char *name;
    } flags[] = {
        {r->estimator_name != NULL, "estimator"},
        {r->optimizer_name != NULL, "optimizer"},
        {r->ridge >= 0, "ridge"},
        {r->bias >= 0, "bias"},
        {r->geometry >= 0, "geometry"},
        {r->hidden.size > 0, "hidden"},
        {r->pairs >= 0, "pairs"},
        {r->temperature > 0 && r->method != CLI_METHOD_CLASS_MEANS, "temperature"},
        {r->iterations > 0, "iterations"},
        {r->tolerance >= 0, "tolerance"},
        {r->epochs > 0, "epochs"},
        {r->eta != 0, "eta"},
        {r->schedule_text != NULL, "schedule"},
        {r->batch > 0, "batch"},
        {r->order >= 0, "order"},
        {r->method >= 0 && r->time_budget > 0, "time-budget"}, /* a choice keeps within it */
        {r->history_path != NULL, "history"},
        {r->warm_path != NULL && r->method != CLI_METHOD_LABEL_TREE, "warm-start"},
        {r->start >= 0, "start"},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (flags[i].given) {
            return flags[i].name;
        }
    }
    return cli_hidden_companion(&r->hidden);
}

int cli_label_tree_open(const cli_run *r)
{
    return !stranger(r);
}

/* One --set KEY=VALUE. */
static int set_option(cli_run *r, size_t i)
{
    xsm_error err = XSM_ERROR_INIT;
    const char *set = r->sets.items[i];
    const char *equals = strchr(set, '=');
    if (!equals || equals == set) {
        return cli_misuse("--set: '%s' is not of the form KEY=VALUE", set);
    }
    const size_t length = (size_t)(equals - set);
    for (size_t j = 0; j < i; j++) {
        if (strncmp(r->sets.items[j], set, length + 1) == 0) {
            return cli_misuse("--set %.*s is given twice", (int)length, set);
        }
    }
    if (length == 4 && strncmp(set, "seed", length) == 0) {
        return cli_misuse("--set seed: use --seed alone");
    }
    char *name = cli_format("%.*s", (int)length, set);
    const xsm_status status = xsm_label_tree_set(&r->tree, name, equals + 1, &err);
    free(name);
    return status == XSM_OK ? CLI_GO_ON : cli_misuse("--set: %s", err.message);
}

int cli_label_tree_options(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsm_option *option;
    r->tree = (xsm_label_tree_options)XSM_LABEL_TREE_OPTIONS_INIT;
    for (size_t i = 0; r->model && (option = xsm_label_tree_option(i)) != NULL; i++) {
        char *key = cli_format("label-tree.%s", option->name);
        const char *value = xsm_model_get_metadata(r->model, key);
        free(key);
        if (value && xsm_label_tree_set(&r->tree, option->name, value, &err) != XSM_OK) {
            return cli_fail("%s: its metadata: %s", r->warm_path, err.message);
        }
    }
    for (size_t i = 0; i < r->sets.count; i++) {
        const int code = set_option(r, i);
        if (code != CLI_GO_ON) {
            return code;
        }
    }
    r->tree.seed = r->seed;
    return CLI_GO_ON;
}

int cli_method_prepare(cli_run *r)
{
    const char *wrong = stranger(r);
    r->format.labels = r->format.labels < 0 ? XSM_KEEP_LABELS_ALL : r->format.labels;
    if (r->method == CLI_METHOD_CLASS_MEANS) {
        wrong = r->sets.count > 0 ? "set" : r->checkpoint_path ? "checkpoint" : r->resume_path ? "resume" : wrong;
        return wrong ? cli_misuse("--%s means nothing to --method class-means, which has no options and is not trained",
                                  wrong)
                     : CLI_GO_ON;
    }
    if (wrong) {
        return cli_misuse(
            "--%s means nothing to --method label-tree; 'xsoftmax estimators label-tree' lists its options, "
            "each given by --set",
            wrong);
    }
    if (!r->warm_path) {
        r->transform_text = r->transform_text ? r->transform_text : "unit"; /* for which the defaults are right */
    } else if (r->checkpoint_path || r->resume_path) {
        return cli_misuse("--%s: a label tree that grows has no checkpoints", r->resume_path ? "resume" : "checkpoint");
    }
    return cli_label_tree_options(r);
}

/* Records in the model how it was made. */
static xsm_status describe(cli_run *r, xsm_error *err)
{
    const xsm_option *option;
    xsm_status status = cli_train_note(r, "", "method", cli_method_words[r->method], err);
    for (size_t i = 0;
         status == XSM_OK && r->method == CLI_METHOD_LABEL_TREE && (option = xsm_label_tree_option(i)) != NULL; i++) {
        const size_t size = xsm_label_tree_get(&r->tree, option->name, NULL, 0) + 1;
        char *value = cli_format("%*s", (int)size, "");
        xsm_label_tree_get(&r->tree, option->name, value, size);
        status = cli_train_note(r, "label-tree.", option->name, value, err);
        free(value);
    }
    status =
        status == XSM_OK ? cli_train_note(r, "training.", "labels", cli_label_words[r->format.labels], err) : status;
    status = status == XSM_OK ? cli_train_note_temperature(r, err) : status;
    status = status == XSM_OK ? cli_note_table(r->model, &r->format, r->raw_info.format, err) : status;
    return status == XSM_OK ? cli_train_note_whole(r, "examples", r->train_info.rows, err) : status;
}

static int fit_label_tree(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    r->tree.checkpoint = r->checkpoint_path;
    r->tree.resume = r->resume_path;
    r->tree.checkpoint_every = r->checkpoint_every > 0 ? r->checkpoint_every : 1e-9; /* 0: whenever it can */
    r->tree.start = r->model;
    xsm_model *model = NULL;
    const xsm_status status = xsm_fit_label_tree(r->context, r->train_rows, &r->tree, &model, &r->tree_result, &err);
    xsm_model_free(r->model);
    r->model = model;
    if (status != XSM_OK) {
        cli_note_clear();
        const int code = cli_library_failed(&err);
        if (status == XSM_CANCELLED && r->checkpoint_path && access(r->checkpoint_path, R_OK) == 0) {
            fprintf(cli_messages(), "xsoftmax: the same command goes on with --resume %s\n", r->checkpoint_path);
        }
        return code;
    }
    if (r->tree_result.checkpoint != XSM_OK) {
        r->checkpoint_failed = 1;
        cli_no_checkpoint(xsm_status_name(r->tree_result.checkpoint));
    }
    return r->transform && xsm_model_set_transform(r->model, r->transform, &err) != XSM_OK ? cli_library_failed(&err)
                                                                                           : CLI_GO_ON;
}

int cli_method_run(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    r->started = cli_clock();
    const int code = r->method == CLI_METHOD_CLASS_MEANS ? cli_class_means(r) : fit_label_tree(r);
    cli_note_clear();
    r->end.seconds = cli_clock() - r->started;
    return code == CLI_GO_ON && describe(r, &err) != XSM_OK ? cli_library_failed(&err) : code;
}

void cli_method_report(const cli_run *r)
{
    cli_buffer a, b, c, d;
    if (r->method == CLI_METHOD_CLASS_MEANS) {
        printf("%-10s class-means, variance %s, in %s\n", "training", cli_real(r->variance, &a),
               cli_seconds(r->end.seconds, &b));
        return;
    }
    if (r->warm_path) {
        printf("%-10s label-tree, %s new labels have places, in %s (finding them %s)\n", "training",
               cli_grouped(r->tree_result.classes, &a), cli_seconds(r->end.seconds, &c),
               cli_seconds(r->tree_result.clustering_seconds, &d));
        printf("%-10s of %s nodes, %s were trained and %s divided; the others are as they were\n", "",
               cli_grouped(r->tree_result.nodes, &a), cli_grouped(r->tree_result.trained, &b),
               cli_grouped(r->tree_result.divided, &c));
        return;
    }
    printf("%-10s label-tree, %s nodes, %s weights, in %s (clustering %s)\n", "training",
           cli_grouped(r->tree_result.nodes, &a), cli_grouped(r->tree_result.weights, &b),
           cli_seconds(r->end.seconds, &c), cli_seconds(r->tree_result.clustering_seconds, &d));
}

void cli_method_json(cli_json *json, const cli_run *r)
{
    if (r->method == CLI_METHOD_CLASS_MEANS) {
        return;
    }
    cli_json_open(json, "label_tree");
    cli_json_whole(json, "depth", r->tree_result.depth);
    cli_json_whole(json, "nodes", r->tree_result.nodes);
    cli_json_whole(json, "weights", r->tree_result.weights);
    if (r->warm_path) {
        cli_json_whole(json, "placed", r->tree_result.classes);
        cli_json_whole(json, "trained_nodes", r->tree_result.trained);
        cli_json_whole(json, "divided_nodes", r->tree_result.divided);
    }
    cli_json_real(json, "clustering_seconds", r->tree_result.clustering_seconds);
    cli_json_real(json, "training_seconds", r->tree_result.training_seconds);
    cli_json_close(json);
}
