/*
 * Fagan and Iyengar, Unbiased scalable softmax optimization, 2018, Figure 3: the log-loss after 50 epochs as a function
 * of the initial learning rate. (Figure 2, the two double sums, is umax_start.) The paper's data in these figures,
 * Eurlex, is not available: Bibtex and Delicious are used instead, so there are no numbers to compare with.
 */
#include "umax_methods.h"

#include <stdio.h>

enum { SHOWN = 9, EPOCHS = 50, LOWEST = -4 };

/* In the order of the paper's legend. */
static const umax_method shown[SHOWN] = {UMAX_IMPLICIT, UMAX_IMPLICIT_5, UMAX_OVE,       UMAX_NCE,    UMAX_NCE_1,
                                         UMAX_IS,       UMAX_UMAX,       UMAX_OTHER_SUM, UMAX_VANILLA};

static void run_set(const papers *p, report *r, const char *folder, const char *title)
{
    data_pair data;
    if (!data_read(p, folder, title, "unit", &data)) {
        return;
    }
    char name[80];
    snprintf(name, sizeof name, "umax_rates-%s", folder);
    curves *to = curves_new(p, name, "eta");
    plan how = {.epochs = p->quick ? 5 : EPOCHS, .factor = 0.9};
    for (int i = LOWEST; i <= decades.last; i++) {
        const double rate = rate_at(&decades, i);
        for (size_t j = 0; j < SHOWN; j++) {
            const method *m = &umax_methods[shown[j]];
            how.eta = rate;
            learned l = learn(p, data.train, m, &how, NULL, NULL);
            char row[80];
            snprintf(row, sizeof row, "%s, eta0 = %g", title, rate);
            report_cell(r, row, m->title, PAPERS_NONE, l.train.log_loss);
            curves_point(to, m->title, rate, l.train.log_loss);
            learned_free(&l);
        }
        papers_say("  %s, eta0 = %g", title, rate);
    }
    curves_end(to);
    data_free(&data);
}

void figure_umax_rates(const papers *p)
{
    report *r = report_new(p, "umax_rates", "Fagan and Iyengar 2018, Figure 3: train log-loss after 50 epochs by eta0");
    report_note(r, "Settings of umax_table3; the paper shows Eurlex, as curves without numbers. - means that training "
                   "diverged.");
    run_set(p, r, "bibtex", "Bibtex");
    run_set(p, r, "delicious", "Delicious");
    report_end(r);
}
