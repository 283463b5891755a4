/* The commands that list the built-in methods, and the options of one. */
#include "cli.h"

#include <xsoftmax.h>
#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Describes in words what an option accepts. */
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

/* A kind of methods, each with a name, a one-line description and options. */
typedef struct kind {
    const char *prefix;                /* prefix of its options in --set */
    const char *use;                   /* how to select one, with %s for its name, or NULL */
    const char *(*name)(size_t index); /* NULL past the last */
    const char *(*summary)(size_t index);
    const xsm_option *(*option)(size_t index, size_t option);
    void (*missing)(const char *name, xsm_error *err); /* the library's message for an unknown name */
} kind;

#define DEFINE_KIND(type, prefix_, use_)                                                                               \
    static const char *type##_name(size_t index)                                                                       \
    {                                                                                                                  \
        return xsm_##type##_at(index) ? xsm_##type##_at(index)->name : NULL;                                           \
    }                                                                                                                  \
    static const char *type##_summary(size_t index)                                                                    \
    {                                                                                                                  \
        return xsm_##type##_at(index)->summary;                                                                        \
    }                                                                                                                  \
    static const xsm_option *type##_option(size_t index, size_t option)                                                \
    {                                                                                                                  \
        return xsm_##type##_ops_option(xsm_##type##_at(index), option);                                                \
    }                                                                                                                  \
    static void type##_missing(const char *name, xsm_error *err)                                                       \
    {                                                                                                                  \
        xsm_##type *made = NULL;                                                                                       \
        if (xsm_##type##_new(NULL, name, &made, err) == XSM_OK) {                                                      \
            xsm_##type##_free(made);                                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    static const kind type##_kind = {prefix_, use_, type##_name, type##_summary, type##_option, type##_missing};

DEFINE_KIND(estimator, "", NULL)
DEFINE_KIND(sampler, "sampler.", "For estimators that take a sampler: --set sampler=")
DEFINE_KIND(optimizer, "optimizer.", NULL)
DEFINE_KIND(index, "index.", "For estimators that search: --set index=")

static void show_option(const char *prefix, const xsm_option *option)
{
    char *values = accepted(option);
    printf("\n  %s%s=%s\n      %s\n      %s\n", prefix, option->name, option->initial, option->help, values);
    free(values);
}

static void show_options(const kind *k, size_t index)
{
    const xsm_option *option;
    for (size_t i = 0; (option = k->option(index, i)) != NULL; i++) {
        show_option(k->prefix, option);
    }
}

/* The options of every sampler or index that an estimator accepts. */
static void show_parts(const kind *part, const char *option)
{
    for (size_t i = 0; part->name(i); i++) {
        printf("\nWith %s=%s:\n", option, part->name(i));
        show_options(part, i);
    }
}

/* The options of the method that is no estimator. */
static int show_label_tree(void)
{
    const xsm_option *option;
    printf("label-tree: sparse classifiers in a tree over the labels (--method)\n\n"
           "Options, each given as --set NAME=VALUE:\n");
    for (size_t i = 0; (option = xsm_label_tree_option(i)) != NULL; i++) {
        show_option("", option);
    }
    return CLI_DONE;
}

static int show(const kind *k, const char *name)
{
    if (k == &estimator_kind && strcmp(name, "label-tree") == 0) {
        return show_label_tree();
    }
    size_t index = 0;
    while (k->name(index) && strcmp(k->name(index), name) != 0) {
        index++;
    }
    if (!k->name(index)) {
        xsm_error err = XSM_ERROR_INIT;
        k->missing(name, &err);
        return cli_misuse("%s", err.message);
    }
    const xsm_option *option = k->option(index, 0);
    printf("%s: %s\n\n", name, k->summary(index));
    if (k->use) {
        printf("%s%s. ", k->use, name);
    }
    printf("%s\n", option ? "Options, each given as --set NAME=VALUE:" : "It has no options.");
    show_options(k, index);
    for (size_t i = 0; k == &estimator_kind && (option = k->option(index, i)) != NULL; i++) {
        if (strcmp(option->name, "sampler") == 0) {
            show_parts(&sampler_kind, option->name);
        } else if (strcmp(option->name, "index") == 0) {
            show_parts(&index_kind, option->name);
        }
    }
    return CLI_DONE;
}

static int list(const kind *k, const cli_command *command, int argc, char **argv)
{
    const char *name = NULL;
    int code = cli_parse(command, NULL, 0, &name, argc, argv);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (name) {
        return show(k, name);
    }
    int width = 0;
    for (size_t i = 0; k->name(i); i++) {
        int length = (int)strlen(k->name(i));
        width = length > width ? length : width;
    }
    for (size_t i = 0; k->name(i); i++) {
        printf("%-*s  %s\n", width, k->name(i), k->summary(i));
    }
    return CLI_DONE;
}

int cli_estimators(const cli_command *command, int argc, char **argv)
{
    return list(&estimator_kind, command, argc, argv);
}

int cli_samplers(const cli_command *command, int argc, char **argv)
{
    return list(&sampler_kind, command, argc, argv);
}

int cli_optimizers(const cli_command *command, int argc, char **argv)
{
    return list(&optimizer_kind, command, argc, argv);
}

int cli_indexes(const cli_command *command, int argc, char **argv)
{
    return list(&index_kind, command, argc, argv);
}
