/*
 * Fagan and Iyengar, Unbiased scalable softmax optimization, 2018, Figure 2: U-max on the paper's double sum and on
 * that of Raman et al., and plain SGD on both, by the learning rate and by where u starts: at 0, as in the authors'
 * program, or at log K, as in their pseudo-code, which is its best value when all weights are 0. Implicit for
 * comparison. The paper's Eurlex is not available.
 */
#include "umax_methods.h"

#include <stdio.h>

enum { SUMS = 5, STARTS = 2, EPOCHS = 50, FIRST = -4, LAST = 2, OURS = 0, RAMANS = 1 };

static const char *const starts[STARTS] = {"zero", "log-classes"}, *const names[STARTS] = {"0", "log K"};
static const struct {
    const char *title, *estimator, *options;
} sums[SUMS] = {
    [OURS] = {"U-max", "umax", ""}, [RAMANS] = {"U-max (Raman's sum)", "raman", "delta=1,"},
    {"vanilla", "vanilla", ""},     {"Raman", "raman", ""},
    {"Implicit", "implicit", ""},
};

static several run(const papers *p, const data_pair *data, size_t sum, size_t start, double rate)
{
    char options[80];
    snprintf(options, sizeof options, "%sstart=%s", sums[sum].options, starts[start]);
    const method m = {sums[sum].title, sums[sum].estimator, 1, 1, options};
    plan how = {.epochs = p->quick ? 3 : EPOCHS, .factor = 0.9, .eta = rate};
    several losses = {.count = 0};
    for (how.seed = 1; how.seed <= (p->quick ? 1 : SEEDS); how.seed++) {
        learned l = learn(p, data->train, &m, &how, NULL, NULL);
        several_add(&losses, l.train.log_loss);
        learned_free(&l);
    }
    return losses;
}

/* Cells of one set: rows by rate, columns by sum and start; a loss is there if no seed diverged. */
static void run_set(const papers *p, report *r, const char *folder, const char *title)
{
    data_pair data;
    if (!data_read(p, folder, title, "unit", &data)) {
        return;
    }
    char name[80], row[80], column[80];
    snprintf(name, sizeof name, "umax_start-%s", folder);
    curves *to = curves_new(p, name, "eta");
    double log_ratio[STARTS] = {0};
    int both[STARTS] = {0};
    for (size_t start = 0; start < STARTS; start++) {
        for (int i = FIRST; i <= LAST; i++) {
            const double rate = rate_at(&decades, i);
            double loss[SUMS];
            for (size_t sum = 0; sum < SUMS; sum++) {
                const several losses = run(p, &data, sum, start, rate);
                int diverged = 0;
                for (int j = 0; j < losses.count; j++) {
                    diverged += !isfinite(losses.value[j]);
                }
                loss[sum] = several_mean(&losses);
                snprintf(column, sizeof column, "%s from %s", sums[sum].title, names[start]);
                snprintf(row, sizeof row, "%s, eta0 = %g", title, rate);
                report_cell(r, row, column, PAPERS_NONE, loss[sum]);
                several_point(&losses, to, column, rate);
                snprintf(row, sizeof row, "%s, eta0 = %g, spread", title, rate);
                report_cell(r, row, column, PAPERS_NONE, several_spread(&losses));
                snprintf(row, sizeof row, "%s, eta0 = %g, seeds that diverge", title, rate);
                report_cell(r, row, column, PAPERS_NONE, diverged);
            }
            if (isfinite(loss[OURS]) && isfinite(loss[RAMANS])) {
                log_ratio[start] += log(loss[RAMANS] / loss[OURS]);
                both[start]++;
            }
        }
        papers_say("  %s from %s", title, names[start]);
    }
    for (size_t start = 0; start < STARTS; start++) {
        /* The paper's 3.08 is a mean over seven rates on Eurlex; of what kind it does not say. */
        snprintf(row, sizeof row, "%s, U-max on Raman's sum / on the paper's, geometric mean over the rates", title);
        snprintf(column, sizeof column, "from %s", names[start]);
        report_cell(r, row, column, 3.08, exp(log_ratio[start] / both[start]));
    }
    curves_end(to);
    data_free(&data);
}

void figure_umax_start(const papers *p)
{
    report *r =
        report_new(p, "umax_start",
                   "Fagan and Iyengar 2018, Figure 2: train log-loss after 50 epochs by double sum and start of u");
    report_note(r,
                "Settings of umax_table3, m = 1; the mean of %d seeds, - if one of them diverged. The paper shows "
                "Eurlex; its 3.08 is that of seven rates there.",
                (int)SEEDS);
    run_set(p, r, "bibtex", "Bibtex");
    run_set(p, r, "delicious", "Delicious");
    report_end(r);
}
