/* The rows of a training run and the model that is made for them. */
#include "train.h"
#include "same_file.h"

#include <stdlib.h>
#include <string.h>

#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/ext/estimator.h>

const char *const cli_geometry_words[] = {"linear", "euclidean", NULL}; /* XSM_GEOMETRY_* */

/* Says so if rows that judge are those that train. */
static void tell_same(const cli_run *r, const char *flag, const char *path)
{
    if (path && same_file(r->data, path)) {
        fprintf(cli_messages(), "xsoftmax: note: --%s: %s is the file of --data, so that its rows were trained on\n",
                flag, path);
    }
}

/* Reads rows that training does not see, with the classes and the transform of those that it sees. `path` NULL: none.
 */
static int read_beside(cli_run *r, const char *path, const char *labels_from, const char *weights, xsm_class_map *map,
                       xsm_dataset **rows, xsm_dataset_info *info)
{
    xsm_error err = XSM_ERROR_INIT;
    if (!path) {
        return CLI_GO_ON;
    }
    /* as in the file, before the transform */
    map->features = r->warm_path ? cli_model_info(r->model).input_features : r->raw_info.features;
    cli_data format = r->format;
    format.labels_from = labels_from;
    format.weights = weights;
    if (r->warm_path) {
        cli_recall_table(r->model, &format);
    }
    int code = cli_read(r->context, path, &format, map, rows);
    code = code == CLI_GO_ON ? cli_need_labels(path, *rows) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    if ((r->transform && xsm_transform_apply(r->transform, *rows, &err) != XSM_OK) ||
        (r->warm_path && xsm_model_transform(r->model, *rows, &err) != XSM_OK) ||
        xsm_dataset_get_info(*rows, info, &err) != XSM_OK) {
        return cli_fail("%s: %s", path, err.message);
    }
    return CLI_GO_ON;
}

static xsm_status weigh_classes(cli_run *r, xsm_error *err)
{
    xsm_class_weights weights = XSM_CLASS_WEIGHTS_INIT;
    weights.method = strcmp(r->class_weights, "balanced") == 0     ? XSM_CLASS_WEIGHTS_BALANCED
                     : strcmp(r->class_weights, "propensity") == 0 ? XSM_CLASS_WEIGHTS_PROPENSITY
                                                                   : XSM_CLASS_WEIGHTS_GIVEN;
    weights.path = weights.method == XSM_CLASS_WEIGHTS_GIVEN ? r->class_weights : NULL;
    return xsm_dataset_weigh_classes(r->train_rows, &weights, err);
}

static xsm_status drop_empty(cli_run *r, xsm_error *err)
{
    uint64_t dropped = 0;
    const xsm_status status = r->drop_empty ? xsm_dataset_drop(r->train_rows, XSM_DROP_EMPTY, &dropped, err) : XSM_OK;
    r->dropped += dropped;
    return status;
}

/* What the model of a warm start knows stays. */
static xsm_status drop_rare(cli_run *r, xsm_error *err)
{
    xsm_class_map known = XSM_CLASS_MAP_INIT;
    if (r->min_label_count == 0) {
        return XSM_OK;
    }
    xsm_status status = r->warm_path ? xsm_model_get_class_map(r->model, &known, err) : XSM_OK;
    status = status == XSM_OK ? xsm_dataset_drop_rare_labels(r->train_rows, r->min_label_count,
                                                             r->warm_path ? &known : NULL, &r->rare_labels, err)
                              : status;
    return status == XSM_OK ? xsm_dataset_drop(r->train_rows, XSM_DROP_UNLABELLED, &r->rare_rows, err) : status;
}

/* Training rows first: they decide how the test rows are read. */
int cli_train_read(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    cli_data format = r->format;
    format.labels = r->first_by_default ? XSM_KEEP_LABELS_ALL : format.labels; /* to tell how many the rows have */
    int code = r->warm_path ? cli_warm_read(r, &format) : cli_read(r->context, r->data, &format, NULL, &r->train_rows);
    code = code == CLI_GO_ON ? cli_need_labels(r->data, r->train_rows) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    if (xsm_dataset_drop(r->train_rows, XSM_DROP_UNLABELLED | XSM_DROP_WEIGHTLESS, &r->not_used, &err) != XSM_OK ||
        xsm_dataset_get_info(r->train_rows, &r->raw_info, &err) != XSM_OK) {
        return cli_fail("%s: %s", r->data, err.message);
    }
    code = cli_train_several(r);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (xsm_dataset_keep_labels(r->train_rows, r->format.labels, &err) != XSM_OK || drop_empty(r, &err) != XSM_OK ||
        drop_rare(r, &err) != XSM_OK) {
        return cli_fail("%s: %s", r->data, err.message);
    }
    /* A transform that truncates can make rows empty, too; only after it is the set of classes known. */
    if (r->warm_path) {
        code = cli_warm_fit(r);
        if (code != CLI_GO_ON) {
            return code;
        }
        if (drop_empty(r, &err) != XSM_OK) {
            return cli_fail("%s: %s", r->data, err.message);
        }
    }
    if (r->transform &&
        (xsm_transform_fit(r->transform, r->train_rows, &err) != XSM_OK ||
         xsm_transform_apply(r->transform, r->train_rows, &err) != XSM_OK || drop_empty(r, &err) != XSM_OK)) {
        return cli_fail("%s: %s", r->data, err.message);
    }
    if (!r->warm_path && (xsm_dataset_drop(r->train_rows, XSM_DROP_CLASSES, NULL, &err) != XSM_OK ||
                          (r->label_names && xsm_dataset_read_names(r->train_rows, r->label_names, &err) != XSM_OK))) {
        return cli_library_failed(&err);
    }
    if (r->class_weights && weigh_classes(r, &err) != XSM_OK) {
        return cli_fail("--class-weights: %s", err.message);
    }
    code = cli_choose_ngrams(r);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (xsm_dataset_get_info(r->train_rows, &r->train_info, &err) != XSM_OK ||
        xsm_dataset_get_class_map(r->train_rows, &map, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (map.classes == 1 && !r->warm_path) {
        fprintf(cli_messages(), "xsoftmax: note: %s: all rows have the same label, so that there is nothing to learn\n",
                r->data);
    }
    if (r->train_info.empty == r->train_info.rows && r->bias != CLI_BIAS_ONLY) {
        return cli_fail("%s: no row has a feature%s; --bias only trains without features", r->data,
                        r->transform || r->warm_path ? " after the transform" : "");
    }
    xsm_dataset_info aside = XSM_DATASET_INFO_INIT;
    code =
        read_beside(r, r->test, r->format.test_labels_from, r->format.test_weights, &map, &r->test_rows, &r->test_info);
    code = code == CLI_GO_ON ? read_beside(r, r->calibrate, NULL, NULL, &map, &r->calibrate_rows, &aside) : code;
    tell_same(r, "test", r->test);
    tell_same(r, "calibrate", r->calibrate);
    const xsm_dataset *const all[] = {r->train_rows, r->test_rows, r->calibrate_rows};
    return code == CLI_GO_ON ? cli_data_used(&r->format, all, 3) : code;
}

int cli_train_transform(cli_run *r, const char *description)
{
    xsm_error err = XSM_ERROR_INIT;
    if (xsm_transform_new(r->context, description, &r->transform, &err) != XSM_OK ||
        xsm_transform_fit(r->transform, r->train_rows, &err) != XSM_OK ||
        xsm_transform_apply(r->transform, r->train_rows, &err) != XSM_OK) {
        return cli_fail("%s: %s", r->data, err.message);
    }
    if (r->test_rows && xsm_transform_apply(r->transform, r->test_rows, &err) != XSM_OK) {
        return cli_fail("%s: %s", r->test, err.message);
    }
    if (r->calibrate_rows && xsm_transform_apply(r->transform, r->calibrate_rows, &err) != XSM_OK) {
        return cli_fail("%s: %s", r->calibrate, err.message);
    }
    /* a transform that leaves no feature is chosen where features say nothing of the classes */
    return xsm_dataset_get_info(r->train_rows, &r->train_info, &err) == XSM_OK ? CLI_GO_ON : cli_library_failed(&err);
}

xsm_status cli_train_note(cli_run *r, const char *prefix, const char *name, const char *value, xsm_error *err)
{
    char *key = cli_format("%s%s", prefix, name);
    xsm_status status = xsm_model_set_metadata(r->model, key, value, err);
    free(key);
    return status;
}

xsm_status cli_train_note_whole(cli_run *r, const char *name, uint64_t value, xsm_error *err)
{
    cli_buffer number;
    snprintf(number.text, sizeof number.text, "%llu", (unsigned long long)value);
    return cli_train_note(r, "training.", name, number.text, err);
}

xsm_status cli_train_note_temperature(cli_run *r, xsm_error *err)
{
    cli_buffer number;
    const double t = r->temperature;
    return t > 0 && t != 1 ? cli_train_note(r, "training.", "temperature", cli_real(t, &number), err) : XSM_OK;
}

/* Records in the model how it was made. */
static int describe(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_buffer number;
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    run.epochs = r->epochs; /* for checkpoints: those requested */
    run.batch = r->batch;
    run.schedule = r->schedule;
    run.factor = r->factor;
    run.order = r->order;
    run.seed = r->seed;
    int ok = xsm_model_describe(r->model, r->estimator, r->full ? NULL : r->optimizer, &run, &err) == XSM_OK &&
             cli_train_note(r, "training.", "labels", cli_label_words[r->format.labels], &err) == XSM_OK &&
             cli_note_table(r->model, &r->format, r->raw_info.format, &err) == XSM_OK &&
             cli_train_note_whole(r, "examples", r->train_info.rows, &err) == XSM_OK &&
             cli_train_note_temperature(r, &err) == XSM_OK;
    if (r->ngrams || (r->recalled && xsm_model_get_metadata(r->recalled, "training." CLI_NGRAMS))) {
        ok = ok && cli_train_note(r, "training.", CLI_NGRAMS, CLI_CHOSEN, &err) == XSM_OK;
    }
    if (r->start > 0) {
        ok = ok && cli_train_note(r, "training.", "start", cli_start_words[r->start], &err) == XSM_OK;
    }
    if (r->pairs > 0) {
        ok = ok && cli_train_note(r, "training.", "pairs", cli_real(r->pairs, &number), &err) == XSM_OK;
    }
    if (r->full) {
        ok = ok && cli_train_note(r, "training.", "tolerance", cli_real(r->tolerance, &number), &err) == XSM_OK;
    }
    return ok ? CLI_GO_ON : cli_library_failed(&err);
}

/* Makes the model for the rows, with their classes and transform. */
static int new_model(cli_run *r, int32_t layout)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = r->bias != 0;
    options.layout = layout;
    if (xsm_dataset_get_class_map(r->train_rows, &map, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (r->hidden.size) {
        int code = cli_hidden_model(r, &map);
        if (code != CLI_GO_ON) {
            return code;
        }
    } else if (xsm_model_new_linear(r->context, r->train_info.features, r->train_info.classes, &options, &r->model,
                                    &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    return (!r->transform || xsm_model_set_transform(r->model, r->transform, &err) == XSM_OK) &&
                   xsm_model_set_class_map(r->model, &map, &err) == XSM_OK
               ? CLI_GO_ON
               : cli_library_failed(&err);
}

int cli_class_means(cli_run *r)
{
    xsm_error err = XSM_ERROR_INIT;
    const int code = r->method >= 0 ? new_model(r, XSM_LAYOUT_CLASS_MAJOR) : CLI_GO_ON;
    if (code != CLI_GO_ON || xsm_fit_class_means(r->context, r->model, r->train_rows, &r->variance, &err) == XSM_OK) {
        return code;
    }
    cli_note_clear();
    return cli_library_failed(&err);
}

int cli_train_make_model(cli_run *r)
{
    if (r->warm_path) {
        return describe(r);
    }
    xsm_error err = XSM_ERROR_INIT;
    const int exact = xsm_estimator_find(r->estimator_name)->kind == XSM_ESTIMATOR_EXACT;
    /* An estimator that scores every class of a sparse row reads whole features; one that samples reads whole
     * classes. */
    int code = new_model(r, exact && r->train_info.sparse ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR);
    code = code == CLI_GO_ON && r->start > 0 ? cli_class_means(r) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    if (r->geometry > XSM_GEOMETRY_LINEAR && xsm_model_set_geometry(r->model, r->geometry, &err) != XSM_OK) {
        return cli_train_refused(r, &err);
    }
    return describe(r);
}
