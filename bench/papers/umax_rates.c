/*
 * Fagan and Iyengar, Unbiased scalable softmax optimization, 2018, Figures 2 and 3: the log-loss after 50 epochs as a
 * function of the initial learning rate; the double sum of the paper and that of Raman et al. The paper's data in these
 * figures, Eurlex, is not available: Bibtex and Delicious are used instead, so there are no numbers to compare with.
 */
#include "umax_methods.h"

#include <stdio.h>

enum { SHOWN = 8, EPOCHS = 50, POINTS = 10 };

/* In the order of the paper's legend. */
static const umax_method shown[SHOWN] = {UMAX_OVE,     UMAX_NCE,  UMAX_IS,       UMAX_RAMAN,
                                         UMAX_VANILLA, UMAX_UMAX, UMAX_IMPLICIT, UMAX_IMPLICIT_5};

typedef struct curve {
    curves *to;
    char column[80];
} curve;

static void add_point(void *user, uint64_t epoch, const evaluation *train)
{
    const curve *c = user;
    curves_point(c->to, c->column, (double)epoch, train->log_loss);
}

static void run_set(const papers *p, report *r, const char *folder, const char *title)
{
    data_pair data;
    if (!data_read(p, folder, title, "unit", &data)) {
        return;
    }
    char name[80];
    snprintf(name, sizeof name, "umax_rates-%s", folder);
    curves *to = curves_new(p, name, "eta");
    snprintf(name, sizeof name, "umax_rates-%s-epochs", folder);
    curves *epochs = curves_new(p, name, "epoch");
    plan how = {.epochs = p->quick ? 5 : EPOCHS, .factor = 0.9, .evaluations = POINTS};
    for (size_t i = RATES_BELOW; i < RATES; i++) {
        for (size_t j = 0; j < SHOWN; j++) {
            const method *m = &umax_methods[shown[j]];
            curve c = {epochs, ""};
            snprintf(c.column, sizeof c.column, "%s %g", m->title, rates[i]);
            how.eta = rates[i];
            learned l = learn(p, data.train, m, &how, add_point, &c);
            char row[80];
            snprintf(row, sizeof row, "%s, eta0 = %g", title, rates[i]);
            report_cell(r, row, m->title, PAPERS_NONE, l.train.log_loss);
            curves_point(to, m->title, rates[i], l.train.log_loss);
            learned_free(&l);
        }
        papers_say("  %s, eta0 = %g", title, rates[i]);
    }
    curves_end(to);
    curves_end(epochs);
    data_free(&data);
}

void figure_umax_rates(const papers *p)
{
    report *r =
        report_new(p, "umax_rates", "Fagan and Iyengar 2018, Figures 2 and 3: train log-loss after 50 epochs by eta0");
    report_note(r, "Settings of umax_table3; the paper shows Eurlex, as curves without numbers. - means that training "
                   "diverged.");
    run_set(p, r, "bibtex", "Bibtex");
    run_set(p, r, "delicious", "Delicious");
    report_end(r);
}
