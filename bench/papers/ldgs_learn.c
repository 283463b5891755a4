/* See ldgs.h: the results of the methods after whole epochs. */
#include "ldgs.h"

#include <stdio.h>

typedef struct point {
    const ldgs_learning *to;
    curves *by_epoch, *by_time;
    const char *title, *row;
} point;

/* Records the result of an evaluation during training. */
static int32_t add_point(void *user, const xsm_progress *progress)
{
    const point *c = user;
    if (progress->train) {
        char column[40];
        double accuracy = 100 * (1 - progress->train->error);
        curves_point(c->by_epoch, c->title, (double)progress->epoch, accuracy);
        curves_point(c->by_time, c->title, progress->seconds, accuracy);
        snprintf(column, sizeof column, "%% right, epoch %d", (int)progress->epoch);
        report_cell(c->to->table, c->row, column, PAPERS_NONE, accuracy);
        papers_say("    %s, %s after %.1f s: %.2f", c->row, column, progress->seconds, accuracy);
    }
    return 0;
}

/* The learning rate with the fewest errors on the training rows after an epoch; of equal ones the one with the better
 * order of the five best classes. (Errors are equal, for example, if one label occurs in every row.) */
static double best_eta(const papers *p, const ldgs_learning *l, const method *m)
{
    double best = INFINITY, order = -1, eta = l->etas[0];
    for (size_t j = 0; j < l->eta_count; j++) {
        plan how = {.epochs = 1, .eta = l->etas[j], .hidden = l->hidden, .bias = l->bias};
        learned one = learn(p, l->train, m, &how, NULL, NULL);
        bool same = one.train.error == best && l->several;
        if (!one.diverged && (one.train.error < best || (same && one.train.ndcg[4] > order))) {
            best = one.train.error;
            order = one.train.ndcg[4];
            eta = how.eta;
        }
        learned_free(&one);
    }
    return eta;
}

void ldgs_learn(const papers *p, const ldgs_learning *l, const method *methods, size_t count)
{
    char epochs[80], seconds[80];
    snprintf(epochs, sizeof epochs, "%s-epochs", l->curves_name);
    snprintf(seconds, sizeof seconds, "%s-seconds", l->curves_name);
    curves *by_epoch = curves_new(p, epochs, "epoch"), *by_time = curves_new(p, seconds, "seconds");
    for (size_t i = 0; i < count; i++) {
        char row[120];
        double eta = best_eta(p, l, &methods[i]);
        snprintf(row, sizeof row, "%s%s, eta0 = %g", l->prefix, methods[i].title, eta);
        point c = {l, by_epoch, by_time, methods[i].title, row};
        plan whole = {.epochs = l->epochs,
                      .eta = eta,
                      .hidden = l->hidden,
                      .bias = l->bias,
                      .evaluations = l->epochs,
                      .test = l->test,
                      .progress = add_point,
                      .progress_user = &c};
        learned one = learn(p, l->train, &methods[i], &whole, NULL, NULL);
        report_cell(l->table, row, "% right, test", PAPERS_NONE, 100 * (1 - one.test.error));
        if (l->several) {
            report_cell(l->table, row, "P@3, test, %", PAPERS_NONE, 100 * one.test.precision[2]);
            report_cell(l->table, row, "P@5, test, %", PAPERS_NONE, 100 * one.test.precision[4]);
            report_cell(l->table, row, "log-loss, train", PAPERS_NONE, one.train.log_loss);
            report_cell(l->table, row, "log-loss, test", PAPERS_NONE, one.test.log_loss);
        }
        report_cell(l->table, row, "s an epoch", PAPERS_NONE, one.seconds / (double)l->epochs);
        papers_say("  %s", row);
        learned_free(&one);
    }
    curves_end(by_epoch);
    curves_end(by_time);
}
