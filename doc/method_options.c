/*
 * Prints the page of all methods with their options, doc/method_options.md, from the tables of the library:
 *
 *     BUILD/doc/method_options >doc/method_options.md
 */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <xsoftmax.h>
#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>

/* A kind of methods. */
typedef struct kind {
    const char *title, *intro;
    const char *(*name)(size_t method); /* NULL past the last */
    const char *(*summary)(size_t method);
    const xsm_option *(*option)(size_t method, size_t option);
} kind;

#define KIND(type)                                                                                                     \
    static const char *type##_name(size_t method)                                                                      \
    {                                                                                                                  \
        return xsm_##type##_at(method) ? xsm_##type##_at(method)->name : NULL;                                         \
    }                                                                                                                  \
    static const char *type##_summary(size_t method)                                                                   \
    {                                                                                                                  \
        return xsm_##type##_at(method)->summary;                                                                       \
    }                                                                                                                  \
    static const xsm_option *type##_option(size_t method, size_t option)                                               \
    {                                                                                                                  \
        return xsm_##type##_ops_option(xsm_##type##_at(method), option);                                               \
    }

KIND(estimator)
KIND(sampler)
KIND(index)
KIND(optimizer)

#define CALLS(type) type##_name, type##_summary, type##_option

static const kind kinds[] = {
    {"Estimators",
     "Set by xsm_estimator_set(), on the command line by `--set NAME=VALUE`. An estimator with the option `sampler` "
     "or\n"
     "`index` also takes the options of the chosen one, as `sampler.NAME` or `index.NAME`.",
     CALLS(estimator)},
    {"Samplers", "Set by xsm_sampler_set(), or of an estimator's own sampler by `sampler.NAME`.", CALLS(sampler)},
    {"Indexes", "Set by xsm_index_set(), or of an estimator's own index by `index.NAME`.", CALLS(index)},
    {"Optimizers", "Set by xsm_optimizer_set(), on the command line by `--set optimizer.NAME=VALUE`.",
     CALLS(optimizer)},
};

/* Text for a cell of a table. */
static void put(const char *text)
{
    for (; *text; text++) {
        if (*text == '|') {
            putchar('\\');
        }
        putchar(*text);
    }
}

static void put_number(double number)
{
    if (number == floor(number) && fabs(number) < 1e16) {
        printf("%.0f", number);
    } else {
        printf("%.15g", number);
    }
}

static void put_accepted(const xsm_option *o)
{
    const char *between = "";
    switch (o->type) {
    case XSM_OPTION_BOOL:
        printf("`yes`, `no`");
        break;
    case XSM_OPTION_CLASSES:
        printf("classes, counted from 0, with commas between them");
        break;
    case XSM_OPTION_CHOICE:
        for (size_t i = 0; o->choices[i]; i++, between = ", ") {
            printf("%s`%s`", between, o->choices[i]);
        }
        break;
    default:
        printf("%s, ", o->type == XSM_OPTION_INT ? "whole number" : "number");
        put_number(o->minimum);
        if (o->maximum <= DBL_MAX && o->maximum < 9e18) {
            printf(" to ");
            put_number(o->maximum);
        } else {
            printf(" or more");
        }
        for (size_t i = 0; o->choices && o->choices[i]; i++) {
            printf(", or `%s`", o->choices[i]);
        }
    }
}

static void put_option(const xsm_option *o)
{
    printf("| `%s` | ", o->name);
    if (o->initial[0]) {
        printf("`%s`", o->initial);
    }
    printf(" | ");
    put_accepted(o);
    printf(" | ");
    put(o->help);
    printf(" |\n");
}

static bool is_same(const xsm_option *a, const xsm_option *b)
{
    return a && b && strcmp(a->name, b->name) == 0 && strcmp(a->help, b->help) == 0 &&
           strcmp(a->initial, b->initial) == 0 && a->minimum == b->minimum && a->maximum == b->maximum;
}

/* Whether each method of the kind has the same option at this place. */
static bool is_common(const kind *k, size_t place)
{
    const xsm_option *first = k->option(0, place);
    for (size_t i = 1; first && k->name(i); i++) {
        if (!is_same(k->option(i, place), first)) {
            return false;
        }
    }
    return first && k->name(1);
}

/* The first method that has the same option. */
static size_t first_with(const kind *k, size_t method, size_t place)
{
    for (size_t i = 0; i < method; i++) {
        for (size_t j = 0; k->option(i, j); j++) {
            if (is_same(k->option(i, j), k->option(method, place))) {
                return i;
            }
        }
    }
    return method;
}

/* The options that are the same as those of an earlier method, by its name. */
static void put_same(const kind *k, size_t method, size_t first, size_t end)
{
    for (size_t i = 0; i < method; i++) {
        size_t count = 0;
        for (size_t j = first; j < end; j++) {
            if (first_with(k, method, j) == i) {
                if (count++ == 0) {
                    printf("As `%s` has them:", k->name(i));
                }
                printf("%s `%s`", count > 1 ? "," : "", k->option(method, j)->name);
            }
        }
        if (count > 0) {
            printf(".\n\n");
        }
    }
}

/* The options that no earlier method has. */
static void put_table(const kind *k, size_t method, size_t first, size_t end)
{
    size_t count = 0;
    for (size_t i = first; i < end; i++) {
        if (first_with(k, method, i) == method) {
            if (count++ == 0) {
                printf("| option | default | accepted | |\n|---|---|---|---|\n");
            }
            put_option(k->option(method, i));
        }
    }
    if (count > 0) {
        printf("\n");
    }
}

static void put_kind(const kind *k)
{
    size_t common = 0;
    printf("## %s\n\n%s\n\n", k->title, k->intro);
    while (is_common(k, common)) {
        common++;
    }
    if (common > 0) {
        printf("All of them have:\n\n");
        put_table(k, 0, 0, common);
    }
    for (size_t i = 0; k->name(i); i++) {
        size_t end = common;
        while (k->option(i, end)) {
            end++;
        }
        printf("### %s\n\n", k->name(i));
        put(k->summary(i));
        printf("%s\n\n", end > common ? "" : common > 0 ? " (No other options.)" : " (No options.)");
        put_same(k, i, common, end);
        put_table(k, i, common, end);
    }
}

int main(void)
{
    printf(
        "# Options of every method {#method_options}\n\n"
        "Written by the library itself; `doc/method_options.c` prints it, and the test `method-options` compares.\n\n");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        put_kind(&kinds[i]);
    }
    return fflush(stdout) != 0;
}
