/* xsoftmax info: what a file holds. xsoftmax estimators, samplers, optimizers, indexes: what there is to train with. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A safetensors file starts with the length of its header, eight bytes, and the header's brace; metadata come first,
 * and a cache of data says there that it is one. */
static int looks_like_model(const char *path)
{
    char start[1024];
    FILE *file = strcmp(path, "-") == 0 ? NULL : fopen(path, "rbe");
    size_t got = file ? fread(start, 1, sizeof start - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    start[got] = '\0';
    return got > 8 && start[8] == '{' && start[7] == 0 && !strstr(start + 8, "\"dataset\":\"1\"");
}

static void print_vocabulary(const xsm_vocabulary *vocabulary)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_text_options text = XSM_TEXT_OPTIONS_INIT;
    cli_buffer a;
    if (!vocabulary || xsm_vocabulary_get_options(vocabulary, &text, &err) != XSM_OK) {
        return;
    }
    printf("  %-22s %s", "words", cli_grouped(xsm_vocabulary_words(vocabulary), &a));
    if (text.min_count > 1) {
        printf(", each at least %u times", text.min_count);
    }
    if (text.word_ngrams > 1) {
        printf("; n-grams of up to %u words", text.word_ngrams);
    }
    if (text.max_chars > 0) {
        printf("; n-grams of %u to %u characters", text.min_chars, text.max_chars);
    }
    if (text.word_ngrams > 1 || text.max_chars > 0) {
        printf(" in %s buckets", cli_grouped(text.buckets, &a));
    }
    printf("\n");
}

static int show_model(xsm_context *context, const char *path)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_model *model = NULL;
    cli_buffer a, b, c;
    int code = cli_load(context, path, &model);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (xsm_model_get_classes(model, &map, &err) != XSM_OK) {
        xsm_model_free(model);
        return cli_library_failed(&err);
    }
    uint32_t classes = xsm_model_classes(model), features = xsm_model_features(model);
    printf("%s: a model, its checksum right\n", path);
    printf("  %-22s %s\n", "classes", cli_grouped(classes, &a));
    if (map.labels) {
        printf("  %-22s %lld to %lld\n", "labels", (long long)map.labels[0], (long long)map.labels[classes - 1]);
    }
    printf("  %-22s %s\n", "label names", map.names ? "yes" : "no");
    print_vocabulary(map.vocabulary);
    printf("  %-22s %s", "features", cli_grouped(features, &b));
    if (map.features != features) {
        printf(", of %s in the data", cli_grouped(map.features, &c));
    }
    printf("\n  %-22s %s\n", "bias", xsm_model_has_bias(model) ? "yes" : "no");
    printf("  %-22s %s\n", "weights", cli_bytes(4.0 * classes * features, &a));
    printf("  %-22s %s\n", "correction", xsm_model_correction(model));
    const char *transform = xsm_model_transform_description(model);
    printf("  %-22s %s\n", "transform", *transform ? transform : "none");
    const char *key;
    for (size_t i = 0; (key = xsm_model_metadata_key(model, i)) != NULL; i++) {
        printf("  %-22s %s\n", key, xsm_model_get_metadata(model, key));
    }
    xsm_model_free(model);
    return CLI_DONE;
}

static int show_data(xsm_context *context, const char *path, const cli_data *format)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_dataset *dataset = NULL;
    cli_buffer a;
    int code = cli_read(context, path, format, NULL, &dataset);
    if (code != CLI_GO_ON) {
        return code;
    }
    xsm_status status = xsm_dataset_get_info(dataset, &info, &err);
    xsm_dataset_free(dataset);
    if (status != XSM_OK) {
        return cli_library_failed(&err);
    }
    double rows = (double)info.rows;
    printf("%s: data, %s, %s\n", path, cli_format_name(info.format), info.sparse ? "sparse" : "dense");
    printf("  %-22s %s\n", "rows", cli_grouped(info.rows, &a));
    printf("  %-22s %s\n", "features", cli_grouped(info.features, &a));
    printf("  %-22s %s (%.1f a row)\n", "values", cli_grouped(info.values, &a), (double)info.values / rows);
    printf("  %-22s %s\n", "classes", cli_grouped(info.classes, &a));
    printf("  %-22s %s (%.2f a row)\n", "labels", cli_grouped(info.labels, &a), (double)info.labels / rows);
    printf("  %-22s %s\n", "rows without a label", cli_grouped(info.unlabelled, &a));
    printf("  %-22s %s\n", "rows without a feature", cli_grouped(info.empty, &a));
    return CLI_DONE;
}

int cli_info(const cli_command *command, int argc, char **argv)
{
    cli_data format = CLI_DATA_INIT;
    const char *path = NULL;
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, NULL, "Options, for data", NULL, 0, 0, 0, 0},
        CLI_DATA_FLAGS(format),
        CLI_TEXT_FLAGS(format),
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], &path, 1, argc, argv);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (!path) {
        return cli_misuse("info needs a FILE: a model or data");
    }
    xsm_context *context = NULL;
    code = cli_context(0, &context);
    if (code == CLI_GO_ON) {
        code = looks_like_model(path) ? show_model(context, path) : show_data(context, path, &format);
    }
    xsm_context_free(context);
    return code;
}

/* What an option accepts, in words. */
static char *accepted(const xsm_option *option)
{
    cli_buffer low, high;
    if (option->type == XSM_OPTION_BOOL) {
        return cli_format("yes or no");
    }
    if (option->type == XSM_OPTION_CHOICE) {
        char *text = cli_format("%s", option->choices[0]);
        for (size_t i = 1; option->choices[i]; i++) {
            char *longer = cli_format("%s%s%s", text, option->choices[i + 1] ? ", " : " or ", option->choices[i]);
            free(text);
            text = longer;
        }
        return text;
    }
    if (option->type == XSM_OPTION_CLASSES) {
        return cli_format("numbers of classes, counted from 0, with commas between them");
    }
    const char *what = option->type == XSM_OPTION_INT ? "whole number" : "number";
    const int bounded = isfinite(option->maximum) && option->maximum < 9e18;
    cli_real(option->minimum, &low);
    cli_real(option->maximum, &high);
    char *text =
        bounded ? cli_format("%s, %s to %s", what, low.text, high.text) : cli_format("%s, %s or more", what, low.text);
    for (size_t i = 0; option->choices && option->choices[i]; i++) {
        char *longer = cli_format("%s, or %s", text, option->choices[i]);
        free(text);
        text = longer;
    }
    return text;
}

static void show_option(const char *prefix, const xsm_option *option)
{
    char *values = accepted(option);
    printf("\n  %s%s=%s\n      %s\n      %s\n", prefix, option->name, option->initial, option->help, values);
    free(values);
}

static int show_estimator(const char *name)
{
    const xsm_estimator_ops *ops = xsm_estimator_find(name);
    if (!ops) {
        xsm_error err = XSM_ERROR_INIT;
        xsm_estimator *estimator = NULL;
        /* For the message, which names the nearest. */
        if (xsm_estimator_new(NULL, name, &estimator, &err) == XSM_OK) {
            xsm_estimator_free(estimator);
        }
        return cli_misuse("%s", err.message);
    }
    printf("%s: %s\n\nOptions, each given as --set NAME=VALUE:\n", name, xsm_estimator_ops_summary(ops));
    const xsm_option *option;
    for (size_t i = 0; (option = xsm_estimator_ops_option(ops, i)) != NULL; i++) {
        show_option("", option);
    }
    return CLI_DONE;
}

static int show_sampler(const char *name)
{
    const xsm_sampler_ops *ops = xsm_sampler_find(name);
    if (!ops) {
        xsm_error err = XSM_ERROR_INIT;
        xsm_sampler *sampler = NULL;
        if (xsm_sampler_new(NULL, name, &sampler, &err) == XSM_OK) {
            xsm_sampler_free(sampler);
        }
        return cli_misuse("%s", err.message);
    }
    printf("%s: %s\n\nFor estimators that take a sampler: --set sampler=%s. Options, each given as --set NAME=VALUE:\n",
           name, xsm_sampler_ops_summary(ops), name);
    const xsm_option *option;
    for (size_t i = 0; (option = xsm_sampler_ops_option(ops, i)) != NULL; i++) {
        show_option("sampler.", option);
    }
    return CLI_DONE;
}

int cli_estimators(const cli_command *command, int argc, char **argv)
{
    const char *name = NULL;
    int code = cli_parse(command, NULL, 0, &name, 1, argc, argv);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (name) {
        return show_estimator(name);
    }
    for (size_t i = 0; i < xsm_estimator_count(); i++) {
        const xsm_estimator_ops *ops = xsm_estimator_at(i);
        printf("%-15s %s\n", xsm_estimator_ops_name(ops), xsm_estimator_ops_summary(ops));
    }
    return CLI_DONE;
}

int cli_samplers(const cli_command *command, int argc, char **argv)
{
    const char *name = NULL;
    int code = cli_parse(command, NULL, 0, &name, 1, argc, argv);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (name) {
        return show_sampler(name);
    }
    for (size_t i = 0; i < xsm_sampler_count(); i++) {
        const xsm_sampler_ops *ops = xsm_sampler_at(i);
        printf("%-15s %s\n", xsm_sampler_ops_name(ops), xsm_sampler_ops_summary(ops));
    }
    return CLI_DONE;
}

static int show_optimizer(const char *name)
{
    const xsm_optimizer_ops *ops = xsm_optimizer_find(name);
    if (!ops) {
        xsm_error err = XSM_ERROR_INIT;
        xsm_optimizer *optimizer = NULL;
        if (xsm_optimizer_new(NULL, name, &optimizer, &err) == XSM_OK) {
            xsm_optimizer_free(optimizer);
        }
        return cli_misuse("%s", err.message);
    }
    const xsm_option *option = xsm_optimizer_ops_option(ops, 0);
    printf("%s: %s\n\n%s\n", name, xsm_optimizer_ops_summary(ops),
           option ? "Options, each given as --set NAME=VALUE:" : "It has no options.");
    for (size_t i = 0; (option = xsm_optimizer_ops_option(ops, i)) != NULL; i++) {
        show_option("optimizer.", option);
    }
    return CLI_DONE;
}

int cli_optimizers(const cli_command *command, int argc, char **argv)
{
    const char *name = NULL;
    int code = cli_parse(command, NULL, 0, &name, 1, argc, argv);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (name) {
        return show_optimizer(name);
    }
    for (size_t i = 0; i < xsm_optimizer_count(); i++) {
        const xsm_optimizer_ops *ops = xsm_optimizer_at(i);
        printf("%-15s %s\n", xsm_optimizer_ops_name(ops), xsm_optimizer_ops_summary(ops));
    }
    return CLI_DONE;
}

static int show_index(const char *name)
{
    const xsm_index_ops *ops = xsm_index_find(name);
    if (!ops) {
        xsm_error err = XSM_ERROR_INIT;
        xsm_index *index = NULL;
        if (xsm_index_new(NULL, name, &index, &err) == XSM_OK) {
            xsm_index_free(index);
        }
        return cli_misuse("%s", err.message);
    }
    printf("%s: %s\n\nFor estimators that search: --set index=%s. Options, each given as --set NAME=VALUE:\n", name,
           xsm_index_ops_summary(ops), name);
    const xsm_option *option;
    for (size_t i = 0; (option = xsm_index_ops_option(ops, i)) != NULL; i++) {
        show_option("index.", option);
    }
    return CLI_DONE;
}

int cli_indexes(const cli_command *command, int argc, char **argv)
{
    const char *name = NULL;
    int code = cli_parse(command, NULL, 0, &name, 1, argc, argv);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (name) {
        return show_index(name);
    }
    for (size_t i = 0; i < xsm_index_count(); i++) {
        const xsm_index_ops *ops = xsm_index_at(i);
        printf("%-15s %s\n", xsm_index_ops_name(ops), xsm_index_ops_summary(ops));
    }
    return CLI_DONE;
}
