/* xsoftmax train --warm-start: continues training from a saved model, on other rows, with new classes and features. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/ext/estimator.h>

/* Dense float32 weights are trained, and label trees grow. */
static int check_weights(const char *path, const xsm_model_info *about, int method)
{
    if (about->trees == 0 && method >= 0) {
        return cli_fail("%s: it is no label tree, which --method label-tree starts from", path);
    }
    if (about->trees > 0 && about->dtype == XSM_DTYPE_FLOAT32) {
        return CLI_GO_ON;
    }
    if (about->layout == XSM_LAYOUT_SPARSE_ROWS) {
        return cli_fail("%s: its weights are sparse, and dense ones are trained; start from the model that was pruned",
                        path);
    }
    return about->dtype == XSM_DTYPE_FLOAT32
               ? CLI_GO_ON
               : cli_fail("%s: its weights are %s, and float32 is trained; start from the model that was converted, or "
                          "from what 'xsoftmax convert-model --model %s --output OUT --type float32' makes of it",
                          path, cli_type_of(about->dtype)->word, path);
}

int cli_warm_prepare(cli_run *r)
{
    if (!r->warm_path) {
        return CLI_GO_ON;
    }
    int code = cli_load(r->context, r->warm_path, &r->model);
    if (code != CLI_GO_ON) {
        return code;
    }
    const xsm_model_info about = cli_model_info(r->model);
    if (about.trees > 0 && r->method < 0) {
        return cli_fail("%s: a label tree does not go on training; it grows with --method label-tree", r->warm_path);
    }
    if (r->transform_text) {
        return cli_misuse("--transform: a warm start treats rows as the model's training did");
    }
    if (r->method < 0 && !r->full && isnan(r->eta) && !r->resume_path) {
        return cli_misuse("--warm-start needs --eta X: rates can be tried out only from a model of zeros; the last one "
                          "that the model was trained with is a good guess");
    }
    if (r->choose) {
        return cli_misuse("--warm-start needs --estimator NAME and goes without --time-budget: what to train with can "
                          "be tried out only from a model of zeros");
    }
    if (r->new_words == 0 && r->format.min_count > 0) {
        return cli_misuse("--min-count is of new words, which --new-words no leaves out");
    }
    r->bias = about.bias ? about.features ? 1 : CLI_BIAS_ONLY : 0;
    code = check_weights(r->warm_path, &about, r->method);
    return code == CLI_GO_ON && about.trees > 0 ? cli_label_tree_options(r) : code;
}

/* Whether a model with this transform can get more features (xsm_model_grow()). */
static int may_grow(const xsm_model_info *about)
{
    return about->features > 0 && !strstr(about->transform, "truncate") && !strstr(about->transform, "products");
}

int cli_warm_read(cli_run *r, cli_data *format)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    const xsm_model_info about = cli_model_info(r->model);
    if (r->new_words > 0 && !may_grow(&about)) {
        return cli_fail(
            "%s: its transform '%s' is of the features that it has, so that it learns no others; --new-words "
            "no leaves these out",
            r->warm_path, about.transform);
    }
    format->new_features = r->new_words != 0 && may_grow(&about);
    format->new_labels = 1;
    cli_recall_table(r->model, format);
    return xsm_model_get_class_map(r->model, &map, &err) == XSM_OK
               ? cli_read(r->context, r->data, format, &map, &r->train_rows)
               : cli_library_failed(&err);
}

/* If features are classes, rows and model both get the union: `map` is the rows'. */
static xsm_status match_tied(cli_run *r, xsm_class_map *map, xsm_error *err)
{
    if (!cli_model_info(r->model).tied || map->names) {
        return XSM_OK;
    }
    int64_t last = map->labels ? map->labels[map->classes - 1] : (int64_t)map->classes - 1;
    if (last >= XSM_FEATURES_MAX) {
        return XSM_OK; /* the model gives the message */
    }
    xsm_class_map both = XSM_CLASS_MAP_INIT;
    both.classes = both.features = last >= map->features ? (uint32_t)last + 1 : map->features;
    xsm_status status = xsm_dataset_extend(r->train_rows, &both, err);
    return status == XSM_OK ? xsm_dataset_get_class_map(r->train_rows, map, err) : status;
}

/* Whether a class has its number for a name, as those have that came without one to classes with names. */
static int is_numbered(const xsm_class_map *map, uint32_t k)
{
    char *number = cli_format("%lld", map->labels ? (long long)map->labels[k] : (long long)k);
    const int same = strcmp(map->names[k], number) == 0;
    free(number);
    return same;
}

/* --label-names: the names of the rows' classes, among which are all of the model's; a class that has one keeps it. */
static int read_names(const cli_run *r, const xsm_class_map *own, xsm_class_map *map)
{
    xsm_error err = XSM_ERROR_INIT;
    if (!r->label_names) {
        return CLI_GO_ON;
    }
    if (xsm_dataset_read_names(r->train_rows, r->label_names, &err) != XSM_OK ||
        xsm_dataset_get_class_map(r->train_rows, map, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    for (uint32_t k = 0, j = 0; own->names && k < own->classes; k++) { /* labels of both rise */
        const int64_t label = own->labels ? own->labels[k] : (int64_t)k;
        while (map->labels[j] < label) {
            j++;
        }
        if (strcmp(own->names[k], map->names[j]) != 0 && !is_numbered(own, k)) {
            return cli_fail(
                "%s, line %lld: the label %lld is named '%.80s', and '%.80s' in %s, whose classes keep their "
                "names",
                r->label_names, (long long)label + 1, (long long)label, map->names[j], own->names[k], r->warm_path);
        }
    }
    return CLI_GO_ON;
}

int cli_warm_fit(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map own = XSM_CLASS_MAP_INIT, map = XSM_CLASS_MAP_INIT;
    const xsm_model_info about = cli_model_info(r->model);
    const xsm_estimator_ops *estimator = r->method < 0 ? xsm_estimator_find(r->estimator_name) : NULL;
    int corrects = estimator && (estimator->flags & XSM_ESTIMATOR_CORRECTED) != 0;
    if (xsm_dataset_drop(r->train_rows, XSM_DROP_CLASSES, NULL, &err) != XSM_OK ||
        xsm_model_get_class_map(r->model, &own, &err) != XSM_OK ||
        xsm_dataset_extend(r->train_rows, &own, &err) != XSM_OK ||
        xsm_dataset_get_class_map(r->train_rows, &map, &err) != XSM_OK || match_tied(r, &map, &err) != XSM_OK) {
        return cli_fail("%s, for %s: %s", r->data, r->warm_path, err.message);
    }
    const int code = read_names(r, &own, &map);
    if (code != CLI_GO_ON) {
        return code;
    }
    const int pairs = about.correction == XSM_CORRECTION_PAIRS;
    const char *strength = xsm_model_get_metadata(r->model, "training.pairs");
    if (pairs && r->pairs < 0) {
        r->pairs = strength ? strtod(strength, NULL) : 0;
        if (!(r->pairs > 0 && r->pairs <= CLI_PAIRS_MOST)) {
            return cli_fail("%s: does not say how strong its pairs are; give --pairs, 0 for none", r->warm_path);
        }
    }
    if (r->pairs > 0 && estimator && cli_train_corrects(r->estimator_name)) {
        return cli_fail("%s: the model has pairs, and '%s' corrects scores itself; --pairs 0 does without",
                        r->warm_path, r->estimator_name);
    }
    if (r->pairs > 0 && !r->raw_info.sparse) {
        return cli_fail("%s: the model has pairs, and the rows of %s are dense; --pairs 0 does without", r->warm_path,
                        r->data);
    }
    const int nodes = estimator && estimator->kind == XSM_ESTIMATOR_HIERARCHY;
    if (nodes && about.correction != XSM_CORRECTION_HIERARCHY) {
        return cli_fail(
            "%s: the model's weights are those of classes, which '%s' would take for nodes of its tree; start "
            "from a model of that estimator, or train with another",
            r->warm_path, r->estimator_name);
    }
    if (corrects || pairs) {
        xsm_model_clear_correction(r->model); /* training makes a new one */
    }
    const uint32_t wanted = map.features > about.input_features ? map.features : about.input_features;
    r->new_features = wanted - about.input_features;
    if (xsm_model_grow(r->model, about.features + r->new_features, &map, &err) != XSM_OK ||
        xsm_model_transform(r->model, r->train_rows, &err) != XSM_OK) {
        return cli_fail("%s: %s", r->warm_path, err.message);
    }
    r->new_classes = xsm_model_class_count(r->model) - about.classes;
    /* Metadata of the earlier training does not describe this one, but for how its rows are read. */
    for (uint64_t i = cli_model_info(r->model).metadata_count; i > 0; i--) {
        const char *key = cli_model_info(r->model).metadata_keys[i - 1];
        if (strncmp(key, "estimator.", 10) != 0 && (strncmp(key, "training.", 9) != 0 || cli_is_of_table(key))) {
            continue;
        }
        char *copy = cli_format("%s", key); /* the model's goes with the entry */
        xsm_status status = xsm_model_set_metadata(r->model, copy, NULL, &err);
        free(copy);
        if (status != XSM_OK) {
            return cli_library_failed(&err);
        }
    }
    return xsm_model_set_metadata(r->model, "training.warm_start", r->warm_path, &err) == XSM_OK
               ? CLI_GO_ON
               : cli_library_failed(&err);
}
