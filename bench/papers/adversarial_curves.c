/*
 * Bamler and Mandt, Extreme classification via adversarial softmax approximation, 2020, Figure 1: accuracy and
 * log-likelihood on test rows as functions of training time, the fit of the adversarial tree included, for the six
 * methods of the paper. Its data, Wikipedia-500K and Amazon-670K with 512 features of a neural network, is not
 * available: rows are generated in the shape of the latter, and the largest available real sets are used beside them.
 * So no number is comparable, only the paper's claim: every other method needs at least ten times as long.
 */
#include "shape_adversarial.h"
#include "race.h"

#include <stdio.h>

enum { METHODS = 6, ETAS = 6 };
enum { ADVERSARIAL, UNIFORM, FREQUENCY, NCE };

static const method methods[METHODS] = {
    [ADVERSARIAL] = {"adversarial", "negative-sampling", 1, 1, "sampler=tree"},
    [UNIFORM] = {"uniform", "negative-sampling", 1, 1, "sampler=uniform"},
    [FREQUENCY] = {"frequency", "negative-sampling", 1, 1, "sampler=frequency"},
    [NCE] = {"NCE", "nce", 1, 1, "sampler=tree"},
    {"A&R", "augment-reduce", 1, 1, NULL},
    {"OVE", "ove", 1, 1, NULL},
};

#define MADE "made"

static const struct {
    const char *folder, *title;
    double seconds;
} reals[] = {{"poetry-author-uni", "Poetry", 60}, {"kg-fb15k237", "FB15k-237", 60}, {"s3rec-beauty", "Beauty", 60}};
enum { REALS = sizeof reals / sizeof reals[0] };

static const double etas[ETAS] = {0.01, 0.03, 0.1, 0.3, 1, 3};

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

/* The learning rate that is best on the held-back rows after a tenth of the time, spent on steps alone. */
static double choose(const papers *p, const data_pair *data, const xsm_dataset *held, const racer *who, double seconds)
{
    double best = 0, most = -1;
    for (size_t i = 0; i < ETAS; i++) {
        race r = race_run(p, data, held, who, etas[i], TUNING * seconds, 1, true);
        double accuracy = r.diverged || r.count == 0 ? -1 : r.accuracy[r.count - 1];
        if (accuracy > most) {
            most = accuracy;
            best = etas[i];
        }
    }
    return best;
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
        if (m == NCE) {
            who.bias = -log(data->classes);
        }
        double eta = choose(p, data, held, &who, seconds);
        of[m] = race_run(p, data, data->test, &who, eta, seconds, RACE_POINTS, false);
        racer_free(&who);
        for (size_t i = 0; i < of[m].count; i++) {
            curves_point(accuracy, methods[m].title, of[m].seconds[i], of[m].accuracy[i]);
            curves_point(likelihood, methods[m].title, of[m].seconds[i], -of[m].log_loss[i]);
        }
        bool any = of[m].count > 0 && !of[m].diverged;
        put(r, data->title, "learning rate", m, PAPERS_NONE, any ? eta : PAPERS_NONE);
        put(r, data->title, "fit, s", m, PAPERS_NONE, who.fit);
        put(r, data->title, "epochs", m, PAPERS_NONE, of[m].epochs);
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

static double seconds_for(const papers *p, double usual)
{
    return p->quick ? 0.1 : p->budget > 0 ? p->budget : usual;
}

void figure_adversarial_curves(const papers *p)
{
    check_names(p);
    report *r = report_new(p, "adversarial_curves",
                           "Bamler and Mandt 2020, Figure 1: test accuracy and log-likelihood against time");
    report_note(
        r,
        "n = m = 1, Adagrad, rates of 0.01 to 3 by a tenth of the time on rows held out; %u "
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
        run_set(p, r, MADE, &made, seconds_for(p, 300));
    }
    bool any = false;
    for (size_t i = 0; i < REALS && !(p->quick && any); i++) { /* one of them is enough for a quick test */
        data_pair data;
        if (papers_listed(p->sets, reals[i].folder) && data_read(p, reals[i].folder, reals[i].title, "unit", &data)) {
            run_set(p, r, reals[i].folder, &data, seconds_for(p, reals[i].seconds));
            any = true;
        }
    }
    report_end(r);
}
