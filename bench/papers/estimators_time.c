/*
 * Not of a paper: which estimator has the least loss on new rows after a given time? Log-loss and accuracy on test rows
 * against training time, on five real sets from 20 to 12 thousand classes, for the estimators that the guide page
 * which_estimator.md recommends and their nearest rivals.
 */
#include "race.h"

#include <stdio.h>

enum { METHODS = 7 };

static const struct {
    method how;
    const char *optimizer;
} methods[METHODS] = {
    {{"softmax", "softmax", 10, 0, NULL}, "adagrad"},
    {{"implicit", "implicit", 1, 5, NULL}, "sgd"},
    {{"umax", "umax", 1, 5, NULL}, "sgd"},
    {{"ove", "ove", 1, 5, NULL}, "adagrad"},
    {{"sampled-softmax", "sampled-softmax", 1, 20, "sampler=frequency"}, "adagrad"},
    {{"negative-sampling, tree", "negative-sampling", 1, 5, "sampler=tree,lambda=1e-3"}, "adagrad"},
    {{"hierarchical", "hierarchical", 1, 0, NULL}, "adagrad"},
};

static const struct {
    const char *folder, *title;
    double seconds;
} sets[] = {{"20news", "20 Newsgroups", 2},
            {"bibtex", "Bibtex", 2},
            {"delicious", "Delicious", 2},
            {"kg-fb15k237", "FB15k-237", 6},
            {"poetry-author-uni", "Poetry", 8}};
enum { SETS = sizeof sets / sizeof sets[0], QUICK = 1 };

static const rate_grid grid = {2, -4, 2}; /* 0.01 to 10 */
#define TUNING 0.1

static void put(report *r, const char *set, const char *what, size_t m, double ours)
{
    char row[120];
    snprintf(row, sizeof row, "%s, %s", set, what);
    report_cell(r, row, methods[m].how.title, PAPERS_NONE, ours);
}

static void run_set(const papers *p, report *r, const char *folder, const char *title, double usual)
{
    data_pair data;
    if (!data_read(p, folder, title, "unit", &data)) {
        return;
    }
    const double seconds = race_seconds(p, usual);
    char name[120];
    snprintf(name, sizeof name, "estimators_time-%s", folder);
    curves *to = curves_new(p, name, p->processor ? "processor seconds" : "seconds");
    xsm_dataset *held = race_hold_out(&data);
    race_limit_test(&data);
    report_note(r, "%s: N = %llu, D = %u, K = %u.", title, (unsigned long long)data.rows, data.features, data.classes);
    for (size_t m = 0; m < METHODS; m++) {
        /* One column for each method, in this order, even for those that do not start in time. */
        curves_point(to, methods[m].how.title, seconds, PAPERS_NONE);
    }
    for (size_t m = 0; m < METHODS; m++) {
        if (!papers_listed(p->only, methods[m].how.title)) {
            continue;
        }
        racer who = racer_new(p, &data, &methods[m].how, methods[m].optimizer);
        snprintf(name, sizeof name, "%s, %s", title, methods[m].how.title);
        const rate_search rate = race_rate(p, &grid, name, &data, held, &who, TUNING * seconds, true);
        put(r, title, "learning rate", m, rate.best);
        put(r, title, "learning rates tried, least", m, rate.least);
        put(r, title, "learning rates tried, largest", m, rate.most);
        if (isfinite(rate.best)) {
            race of = race_run(p, &data, data.test, &who, rate.best, seconds, RACE_POINTS, false);
            double least = INFINITY, when = PAPERS_NONE, most = -1;
            for (size_t i = 0; i < of.count; i++) {
                curves_point(to, methods[m].how.title, of.seconds[i], of.log_loss[i]);
                when = of.log_loss[i] < least ? of.seconds[i] : when;
                least = of.log_loss[i] < least ? of.log_loss[i] : least;
                most = of.accuracy[i] > most ? of.accuracy[i] : most;
            }
            put(r, title, "least test log-loss", m, isfinite(least) ? least : PAPERS_NONE);
            put(r, title, "after, s", m, when);
            put(r, title, "best test accuracy", m, most >= 0 ? most : PAPERS_NONE);
        }
        racer_free(&who);
        papers_say("  %s, %s: rate %g", title, methods[m].how.title, rate.best);
    }
    curves_end(to);
    xsm_dataset_free(held);
    data_free(&data);
}

void figure_estimators_time(const papers *p)
{
    const char *titles[METHODS + 1] = {NULL}, *folders[SETS + 1] = {NULL};
    for (size_t m = 0; m < METHODS; m++) {
        titles[m] = methods[m].how.title;
    }
    for (size_t i = 0; i < SETS; i++) {
        folders[i] = sets[i].folder;
    }
    papers_check_list(p->only, "method", titles);
    papers_check_list(p->sets, "set", folders);
    report *r = report_new(p, "estimators_time", "which estimator: log-loss on test rows against training time");
    report_note(r, "Linear models, unit rows, first label; rates by the log-loss of rows held out after a tenth of the "
                   "time; sgd for implicit and umax, adagrad for the others; the fit of trees counts.");
    for (size_t i = 0; i < SETS; i++) {
        /* One set is enough for a quick test; the first rows of some sets have one class. */
        if (papers_listed(p->sets, sets[i].folder) && (!p->quick || i == QUICK)) {
            run_set(p, r, sets[i].folder, sets[i].title, sets[i].seconds);
        }
    }
    report_end(r);
}
