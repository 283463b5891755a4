/*
 * Bamler and Mandt, Extreme classification via adversarial softmax approximation, 2020, Figure 1: accuracy and
 * log-likelihood on test rows as functions of training time, the fit of the adversarial tree included, for the six
 * methods of the paper, those with the tree without and with the penalty lambda, and frequencies as they are, the
 * paper's, and with one row more a class. Its data, Wikipedia-500K and Amazon-670K with 512 features of a neural
 * network, is not available: rows are generated in the shape of the latter, and the largest available real sets are
 * used beside them. So no number is comparable, only the paper's claim: every other method needs at least ten times as
 * long.
 */
#include "shape_adversarial.h"
#include "race.h"

#include <stdio.h>

enum { METHODS = 9 };
enum { ADVERSARIAL, PENALISED, UNIFORM, FREQUENCY, SMOOTHED, NCE, NCE_PENALISED };

static const method methods[METHODS] = {
    [ADVERSARIAL] = {"adversarial", "negative-sampling", 1, 1, "sampler=tree"},
    [PENALISED] = {"adversarial with lambda", "negative-sampling", 1, 1, "sampler=tree,lambda=1e-3"},
    [UNIFORM] = {"uniform", "negative-sampling", 1, 1, "sampler=uniform"},
    [FREQUENCY] = {"frequency", "negative-sampling", 1, 1, "sampler=frequency,sampler.smoothing=0"},
    [SMOOTHED] = {"frequency + 1", "negative-sampling", 1, 1, "sampler=frequency,sampler.smoothing=1"},
    [NCE] = {"NCE", "nce", 1, 1, "sampler=tree"},
    [NCE_PENALISED] = {"NCE with lambda", "nce", 1, 1, "sampler=tree,lambda=1e-3"},
    {"A&R", "augment-reduce", 1, 1, NULL},
    {"OVE", "ove", 1, 1, NULL},
};

#define MADE "made"

static const struct {
    const char *folder, *title;
    double seconds;
} reals[] = {{"poetry-author-uni", "Poetry", 8}, {"kg-fb15k237", "FB15k-237", 8}, {"s3rec-beauty", "Beauty", 8}};
enum { REALS = sizeof reals / sizeof reals[0] };

static const rate_grid grid = {2, -4, 1}; /* 0.01 to 3 */

/* The share of a method's time that is spent on choosing the learning rate. */
#define TUNING 0.1

static void put(report *r, const char *set, const char *what, size_t m, double paper, double ours)
{
    char row[120];
    snprintf(row, sizeof row, "%s, %s", set, what);
    report_cell(r, row, methods[m].title, paper, ours);
}

static bool runs(const papers *p, size_t m)
{
    return papers_listed(p->only, methods[m].title);
}

/* Ends the program if an unknown method or set is requested. */
static void check_names(const papers *p)
{
    const char *titles[METHODS + 1] = {NULL}, *sets[REALS + 2] = {MADE};
    for (size_t m = 0; m < METHODS; m++) {
        titles[m] = methods[m].title;
    }
    for (size_t i = 0; i < REALS; i++) {
        sets[i + 1] = reals[i].folder;
    }
    papers_check_list(p->only, "method", titles);
    papers_check_list(p->sets, "set", sets);
}

static void run_set(const papers *p, report *r, const char *part, data_pair *data, double seconds)
{
    char name[80];
    snprintf(name, sizeof name, "adversarial_curves-%s-accuracy", part);
    const char *unit = p->processor ? "processor seconds" : "seconds";
    curves *accuracy = curves_new(p, name, unit);
    snprintf(name, sizeof name, "adversarial_curves-%s-likelihood", part);
    curves *likelihood = curves_new(p, name, unit);
    xsm_dataset *held = race_hold_out(data);
    race_limit_test(data);
    race of[METHODS];
    report_note(r, "%s: N = %llu, D = %u, K = %u; %g s a method.", data->title, (unsigned long long)data->rows,
                data->features, data->classes, seconds);
    for (size_t m = 0; m < METHODS; m++) {
        /* One column for each method, in this order, even for those that do not start in time. */
        curves_point(accuracy, methods[m].title, seconds, PAPERS_NONE);
        curves_point(likelihood, methods[m].title, seconds, PAPERS_NONE);
    }
    for (size_t m = 0; m < METHODS; m++) {
        if (!runs(p, m)) {
            of[m] = (race){.count = 0};
            continue;
        }
        racer who = racer_new(p, data, &methods[m], "adagrad");
        if (m == NCE || m == NCE_PENALISED) {
            who.bias = -log(data->classes);
        }
        snprintf(name, sizeof name, "%s, %s", data->title, methods[m].title);
        const rate_search rate = race_rate(p, &grid, name, data, held, &who, TUNING * seconds, false);
        if (isfinite(rate.best)) {
            of[m] = race_run(p, data, data->test, &who, rate.best, seconds, RACE_POINTS, false);
        } else {
            of[m] = (race){.diverged = true};
        }
        racer_free(&who);
        for (size_t i = 0; i < of[m].count; i++) {
            curves_point(accuracy, methods[m].title, of[m].seconds[i], of[m].accuracy[i]);
            curves_point(likelihood, methods[m].title, of[m].seconds[i], -of[m].log_loss[i]);
        }
        bool any = of[m].count > 0 && !of[m].diverged;
        put(r, data->title, "learning rate", m, PAPERS_NONE, rate.best);
        put(r, data->title, "learning rates tried, least", m, PAPERS_NONE, rate.least);
        put(r, data->title, "learning rates tried, largest", m, PAPERS_NONE, rate.most);
        put(r, data->title, "fit, s", m, PAPERS_NONE, who.fit);
        put(r, data->title, "epochs", m, PAPERS_NONE, of[m].epochs);
        for (size_t i = 0; i < of[m].count; i++) {
            char what[60];
            snprintf(what, sizeof what, "%.3g s: test accuracy", ldexp(seconds, (int)i + 1 - (int)of[m].count));
            put(r, data->title, what, m, PAPERS_NONE, of[m].accuracy[i]);
            snprintf(what, sizeof what, "%.3g s: test log-likelihood", ldexp(seconds, (int)i + 1 - (int)of[m].count));
            put(r, data->title, what, m, PAPERS_NONE, -of[m].log_loss[i]);
        }
        put(r, data->title, "test accuracy", m, PAPERS_NONE, any ? of[m].accuracy[of[m].count - 1] : PAPERS_NONE);
        put(r, data->title, "test log-likelihood", m, PAPERS_NONE,
            any ? -of[m].log_loss[of[m].count - 1] : PAPERS_NONE);
        papers_say("  %s, %s: the fit took %.1f s", data->title, methods[m].title, who.fit);
    }
    /* The results of the other methods at the end, and the time at which the adversarial method reached them. */
    for (size_t m = ADVERSARIAL + 1; m < METHODS; m++) {
        if (!runs(p, m) || !runs(p, ADVERSARIAL)) {
            continue;
        }
        size_t last = of[m].count - 1;
        bool any = of[m].count > 0;
        put(r, data->title, "its time / adversarial's to that accuracy", m, 10,
            any ? of[m].seconds[last] / race_reached(&of[ADVERSARIAL], of[m].accuracy[last]) : PAPERS_NONE);
    }
    curves_end(accuracy);
    curves_end(likelihood);
    xsm_dataset_free(held);
    data_free(data);
}

void figure_adversarial_curves(const papers *p)
{
    check_names(p);
    report *r = report_new(p, "adversarial_curves",
                           "Bamler and Mandt 2020, Figure 1: test accuracy and log-likelihood against time");
    report_note(
        r,
        "n = m = 1, Adagrad, lambda 0 or, as the paper has it, 0.001; rates by a tenth of the time on rows held out, "
        "the best "
        "inside of those tried; %u "
        "threads; time is %s. At most %d test rows, at random. The paper's 10 is its claim of an order of magnitude.",
        papers_context(p).threads, p->processor ? "processor time of all of them" : "that of the clock",
        (int)RACE_TEST_MOST);
    adversarial_sizes s = {490449, 2000, 512, 213874, 0};
    if (p->quick) {
        s = (adversarial_sizes){2000, 100, 16, 300, 0};
    }
    if (p->scale > 1) {
        s.rows /= p->scale;
        s.classes = s.classes / p->scale > 2 ? s.classes / p->scale : 2;
    }
    if (papers_listed(p->sets, MADE)) {
        data_pair made = adversarial_make(p, "Amazon-670K in shape", &s, 17);
        run_set(p, r, MADE, &made, race_seconds(p, 60));
    }
    bool any = false;
    for (size_t i = 0; i < REALS && !(p->quick && any); i++) { /* one of them is enough for a quick test */
        data_pair data;
        if (papers_listed(p->sets, reals[i].folder) && data_read(p, reals[i].folder, reals[i].title, "unit", &data)) {
            run_set(p, r, reals[i].folder, &data, race_seconds(p, reals[i].seconds));
            any = true;
        }
    }
    report_end(r);
}
