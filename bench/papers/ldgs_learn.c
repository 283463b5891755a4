/* See ldgs.h: the results of the methods after whole epochs. */
#include "ldgs.h"

#include <stdio.h>

static const rate_grid decades_down = {1, -2, 0}; /* 0.01 to 1, the paper's */

typedef struct point {
    const ldgs_learning *to;
    curves *by_epoch, *by_time;
    const char *title, *row;
} point;

/* Records the result of an evaluation during training. */
static void add_point(void *user, uint64_t epoch, double seconds, const evaluation *train)
{
    const point *c = user;
    char column[40];
    const double accuracy = 100 * (1 - train->error);
    curves_point(c->by_epoch, c->title, (double)epoch, accuracy);
    curves_point(c->by_time, c->title, seconds, accuracy);
    snprintf(column, sizeof column, "%% right, epoch %d", (int)epoch);
    report_cell(c->to->table, c->row, column, PAPERS_NONE, accuracy);
    papers_say("    %s, %s after %.1f s: %.2f", c->row, column, seconds, accuracy);
}

typedef struct trial {
    const papers *p;
    const ldgs_learning *l;
    const method *m;
} trial;

/* Errors on the training rows after an epoch; of equal ones the one with the better order of the five best classes is
 * the less. (Errors are equal, for example, if one label occurs in every row.) */
static double try_rate(void *user, double rate)
{
    const trial *t = user;
    plan how = {.epochs = 1, .eta = rate, .hidden = t->l->hidden, .bias = t->l->bias};
    learned one = learn(t->p, t->l->train, t->m, &how, NULL, NULL);
    const double loss = one.diverged ? PAPERS_NONE : one.train.error - (t->l->several ? 1e-7 * one.train.ndcg[4] : 0);
    learned_free(&one);
    return loss;
}

void ldgs_learn(const papers *p, const ldgs_learning *l, const method *methods, size_t count)
{
    char epochs[80], seconds[80];
    snprintf(epochs, sizeof epochs, "%s-epochs", l->curves_name);
    snprintf(seconds, sizeof seconds, "%s-seconds", l->curves_name);
    curves *by_epoch = curves_new(p, epochs, "epoch"), *by_time = curves_new(p, seconds, "seconds");
    for (size_t i = 0; i < count; i++) {
        char row[120];
        trial t = {p, l, &methods[i]};
        snprintf(row, sizeof row, "%s%s", l->prefix, methods[i].title);
        const rate_search rate = rate_find(p, &decades_down, row, try_rate, &t);
        const double eta = rate.best;
        if (!isfinite(eta)) {
            papers_fail("%s diverges at every rate", row);
        }
        report_cell(l->table, row, "eta0", PAPERS_NONE, eta);
        point c = {l, by_epoch, by_time, methods[i].title, row};
        plan whole = {.epochs = l->epochs,
                      .eta = eta,
                      .hidden = l->hidden,
                      .bias = l->bias,
                      .evaluations = l->epochs,
                      .test = l->test};
        learned one = learn(p, l->train, &methods[i], &whole, add_point, &c);
        report_cell(l->table, row, "% right, test", PAPERS_NONE, 100 * (1 - one.test.error));
        if (l->several) {
            report_cell(l->table, row, "P@3, test, %", PAPERS_NONE, 100 * one.test.precision[2]);
            report_cell(l->table, row, "P@5, test, %", PAPERS_NONE, 100 * one.test.precision[4]);
            report_cell(l->table, row, "log-loss, train", PAPERS_NONE, one.train.log_loss);
            report_cell(l->table, row, "log-loss, test", PAPERS_NONE, one.test.log_loss);
        }
        report_cell(l->table, row, "eta0 tried, least", PAPERS_NONE, rate.least);
        report_cell(l->table, row, "eta0 tried, largest", PAPERS_NONE, rate.most);
        report_cell(l->table, row, "s an epoch", PAPERS_NONE, one.seconds / (double)l->epochs);
        papers_say("  %s, eta0 = %g", row, eta);
        learned_free(&one);
    }
    curves_end(by_epoch);
    curves_end(by_time);
}
