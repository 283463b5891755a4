/* The automatic choice and its reasons in words: three lines. */
#include "train.h"

#include <xsoftmax/label_tree.h>

#include <stdlib.h>
#include <string.h>

/* " 20 classes": a number and what it counts, in the singular if it is 1. */
static void say_count(FILE *out, uint64_t count, const char *one, const char *many)
{
    cli_buffer number;
    fprintf(out, " %s %s", cli_grouped(count, &number), count == 1 ? one : many);
}

/* " 20 classes and 140 features a row" */
static void say_size(FILE *out, uint64_t classes, double features)
{
    say_count(out, classes, "class", "classes");
    fputs(" and", out);
    say_count(out, features > 1 ? (uint64_t)(features + 0.5) : 1, "feature", "features");
    fputs(" a row", out);
}

/* "label-tree, 3 trees, leaf=50": with the options that are not the defaults, but for the seed, which the run has. */
static char *name_tree(const xsm_label_tree_options *tree)
{
    const xsm_option *o;
    char *name = cli_format("label-tree, %u tree%s", (unsigned)tree->trees, tree->trees == 1 ? "" : "s");
    for (size_t i = 0; (o = xsm_label_tree_option(i)); i++) {
        char value[32] = "";
        (void)xsm_label_tree_get(tree, o->name, value, sizeof value);
        if (strcmp(value, o->initial) != 0 && strcmp(o->name, "trees") != 0 && strcmp(o->name, "seed") != 0) {
            char *longer = cli_format("%s, %s=%s", name, o->name, value);
            free(name);
            name = longer;
        }
    }
    return name;
}

/* "nce with 20 classes by frequency a row, by sgd:" */
static void say_estimator(FILE *out, const xsm_choice_info *chosen, const xsm_estimator *e)
{
    char m[32] = "", shared[8] = "";
    const xsm_estimator_info about = cli_estimator_info(e);
    const char *sampler = cli_sampler_name(about.sampler);
    fputs(about.name, out);
    if (xsm_estimator_get(e, "negatives", m, sizeof m) != SIZE_MAX && !chosen->exact && strcmp(m, "0") != 0) {
        (void)xsm_estimator_get(e, "shared", shared, sizeof shared);
        fprintf(out, " with %s %s%s%s a %s", m, strcmp(m, "1") == 0 ? "class" : "classes", sampler ? " by " : "",
                sampler ? sampler : "", strcmp(shared, "yes") == 0 ? "batch" : "row");
    }
    if (chosen->hidden) {
        fprintf(out, ", on vectors of %u", (unsigned)chosen->hidden);
    }
    fprintf(out, ", by %s:", chosen->optimizer);
}

static void say_method(FILE *out, const cli_run *r)
{
    const xsm_choice_info *chosen = &r->chosen;
    const xsm_estimator *e = xsm_choice_estimator(r->choice);
    xsm_dataset_info rows = XSM_DATASET_INFO_INIT;
    (void)xsm_dataset_get_info(r->train_rows, &rows, NULL);
    if (chosen->label_tree) {
        char *name = name_tree(chosen->label_tree);
        fprintf(out, "%s:", name);
        free(name);
        say_count(out, rows.rows, "row", "rows");
        fputs(" and", out);
        say_count(out, rows.classes, "class", "classes");
        return;
    }
    if (!e) {
        fprintf(out, "%s:", chosen->method);
    } else {
        say_estimator(out, chosen, e);
    }
    if (r->choice_given) {
        fputs(" as given", out);
        return;
    }
    say_count(out, rows.rows, "row", "rows");
    fputc(',', out);
    say_size(out, rows.classes, chosen->row_features);
}

static void say_settings(FILE *out, const cli_run *r)
{
    const xsm_choice_info *chosen = &r->chosen;
    cli_buffer number;
    const int alone = !chosen->optimizer; /* no estimator, and no numbers */
    if (chosen->transform) {
        fprintf(out, "rows by %s%s", chosen->transform, alone ? "" : ", ");
    }
    if (alone) {
        fputs(chosen->transform ? "" : "rows as they are", out);
        return;
    }
    if (strcmp(chosen->optimizer, "lbfgs") == 0) {
        fprintf(out, "ridge %s, at most %llu iterations", cli_real(chosen->ridge, &number),
                (unsigned long long)(r->full ? r->iterations : chosen->iterations)); /* full: lbfgs was given */
        return;
    }
    fprintf(out, "rate %s", cli_real(chosen->eta, &number));
    if (!r->schedule_text) {
        fprintf(out, " x %.2g an epoch", chosen->factor);
    }
    fprintf(out, ", %llu epoch%s, batches of %llu, ridge %s", (unsigned long long)chosen->epochs,
            chosen->epochs == 1 ? "" : "s", (unsigned long long)chosen->batch, cli_real(chosen->ridge, &number));
    if (chosen->pairs > 0) {
        fprintf(out, ", pairs of strength %s added", cli_real(chosen->pairs, &number));
    }
}

static void say_numbers(FILE *out, const cli_run *r)
{
    cli_buffer number;
    say_settings(out, r);
    if (r->chosen.temperature != 1 && r->temperature == 0 && !r->calibrate) {
        fprintf(out, ", temperature %s", cli_real(r->chosen.temperature, &number));
    }
}

static void say_search(FILE *out, const cli_run *r)
{
    const xsm_choice_info *chosen = &r->chosen;
    const int trials = (chosen->gave_up & XSM_GAVE_UP_TRIALS) != 0,
              epochs = (chosen->gave_up & XSM_GAVE_UP_EPOCHS) != 0;
    cli_buffer number, rows, held;
    static const char *const judges[] = {"others", "others of other sessions or groups of alike rows",
                                         "of these without half of their features"};
    if (chosen->trials > 0) {
        char *measured = cli_choose_measured(r);
        fprintf(out, "%s runs on up to %s rows in %.2g s; on %s %s: %s %.4g, predicted with all rows %.4g",
                cli_grouped(chosen->trials, &number), cli_grouped(chosen->trial_rows, &rows), chosen->seconds,
                cli_grouped(chosen->held, &held), judges[chosen->grouped], measured, chosen->loss, chosen->predicted);
        free(measured);
        if (chosen->prior > 0) {
            fprintf(out, ", of the classes' frequencies %.4g%s", chosen->prior,
                    chosen->is_prior ? ": nothing was surely better than these" : "");
        }
    } else {
        fprintf(out, "nothing was tried%s", trials ? "" : ": too few rows");
    }
    if (chosen->gave_up) {
        fprintf(out, "; in the budget of %s s:%s%s%s", cli_real(r->time_budget, &number), trials ? " fewer trials" : "",
                trials && epochs ? "," : "", epochs ? " fewer epochs" : "");
    }
    if (epochs && r->epochs == 0) {
        fprintf(out, " (%llu)", (unsigned long long)chosen->epochs);
    } else if (epochs) {
        fprintf(out, " than %llu, if need be", (unsigned long long)chosen->epochs);
    }
}

static xsm_choice_trial trial_of(const xsm_choice *choice, uint64_t i)
{
    xsm_choice_trial t = XSM_CHOICE_TRIAL_INIT;
    (void)xsm_choice_get_trial(choice, i, &t, NULL);
    return t;
}

/* Whether two trials are of one line: the same method in other settings. */
static int is_of(const xsm_choice_trial *a, const xsm_choice_trial *b)
{
    const char *x = a->optimizer ? a->optimizer : "", *y = b->optimizer ? b->optimizer : "";
    return strcmp(a->estimator, b->estimator) == 0 && strcmp(x, y) == 0 && a->hidden == b->hidden &&
           a->label_tree == b->label_tree && a->text == b->text;
}

static void say_line(FILE *out, const xsm_choice_trial *t)
{
    cli_buffer rows;
    char *name = t->text         ? cli_ngrams_name(t->text)
                 : t->label_tree ? name_tree(t->label_tree)
                 : t->hidden    ? cli_format("%s by %s, vectors of %u", t->estimator, t->optimizer, (unsigned)t->hidden)
                 : t->optimizer ? cli_format("%s by %s", t->estimator, t->optimizer)
                                : cli_format("%s", t->estimator);
    fprintf(out, "%-10s %-42s %-16s %.4g on %s rows", "", name, t->transform ? t->transform : "", t->loss,
            cli_grouped(t->rows, &rows));
    if (t->predicted < t->loss) {
        fprintf(out, ", predicted %.4g", t->predicted);
    }
    fputs(t->outcome == XSM_RACE_CHOSEN ? ", chosen\n" : "\n", out);
    free(name);
}

void cli_choose_race(FILE *out, const xsm_choice *choice, uint64_t trials)
{
    for (uint64_t i = 0; i < trials; i++) {
        xsm_choice_trial best = trial_of(choice, i);
        int first = 1;
        for (uint64_t j = 0; j < trials; j++) {
            const xsm_choice_trial t = trial_of(choice, j);
            if (is_of(&best, &t)) {
                first = first && j >= i;
                best = t.outcome == XSM_RACE_CHOSEN ||
                               (best.outcome != XSM_RACE_CHOSEN && t.predicted < best.predicted) ||
                               (t.predicted > 0 && !(best.predicted > 0))
                           ? t
                           : best;
            }
        }
        if (first) {
            say_line(out, &best);
        }
    }
}

int cli_choose_words(cli_run *r)
{
    static void (*const say[CLI_CHOICE_LINES])(FILE *, const cli_run *) = {say_method, say_numbers, say_search};
    for (size_t i = 0; i < CLI_CHOICE_LINES; i++) {
        size_t size = 0;
        FILE *out = open_memstream(&r->why[i], &size);
        if (!out) {
            return cli_fail("out of memory");
        }
        say[i](out, r);
        if (fclose(out) != 0) {
            return cli_fail("out of memory");
        }
    }
    return CLI_GO_ON;
}
