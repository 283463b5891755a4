/*
 * Yen et al., Loss Decomposition for Fast Learning in Large Output Spaces, 2018, Figure 1 (MegaFace: 672 thousand
 * identities, embeddings of 128 numbers, 4.7 million images), on made-up faces of that form.
 *
 * Two tables in one: what a step costs at the paper's K and D, and, at fewer classes, how far each method comes in
 * whole epochs from zero.
 */
#include "ldgs.h"
#include "learn.h"

#include <stdio.h>
#include <string.h>

enum { D = 128, BLOCKS = 8, EPOCHS = 5, METHODS = 5, IMAGES = 7 };

typedef struct point {
    curves *by_epoch, *by_time;
    report *to;
    const char *title, *row;
} point;

/* Notes what an evaluation on the way found. */
static int32_t add_point(void *user, const xsm_progress *progress)
{
    const point *c = user;
    if (progress->train) {
        char column[40];
        double accuracy = 100 * (1 - progress->train->error);
        curves_point(c->by_epoch, c->title, (double)progress->epoch, accuracy);
        curves_point(c->by_time, c->title, progress->seconds, accuracy);
        snprintf(column, sizeof column, "%% right, epoch %d", (int)progress->epoch);
        report_cell(c->to, c->row, column, PAPERS_NONE, accuracy);
    }
    return 0;
}

static void learn_all(const papers *p, report *r)
{
    ldgs_shape s = {p->quick ? 400 : 6000, p->quick ? 20 : 90, D, 1, 1.9};
    static const double etas[] = {1, 0.1, 0.01};
    const uint32_t few = s.classes / 100, startup = IMAGES * s.classes / 10;
    char mips[120], decomposed[160], sampled[40];
    snprintf(sampled, sizeof sampled, "negatives=%u", few);
    snprintf(mips, sizeof mips, "candidates=%u,index.clusters=100,startup=%u", few, startup);
    snprintf(decomposed, sizeof decomposed, "%s,blocks=%d", mips, BLOCKS);
    const method methods[METHODS] = {{"Softmax", "softmax", 10, 0, NULL},
                                     {"Sampled-Softmax", "sampled-softmax", 10, 0, sampled},
                                     {"Margin", "margin", 10, 0, NULL},
                                     {"MIPS", "mips", 10, 0, mips},
                                     {"Decomp-MIPS", "decomp-mips", 10, 0, decomposed}};
    xsm_dataset *train = ldgs_rows(p, &s, IMAGES, 0, 5), *test = ldgs_rows(p, &s, 0, 2000, 99);
    report_note(
        r,
        "Epochs, K = %u, %d images each, Q = K/100: n = 10, rate eta0/(1 + epochs), eta0 the best of 1, 0.1 and 0.01 "
        "after an epoch; searches begin after a tenth of one.",
        s.classes, IMAGES);
    curves *by_epoch = curves_new(p, "ldgs_multiclass-epochs", "epoch"),
           *by_time = curves_new(p, "ldgs_multiclass-seconds", "seconds");
    for (size_t i = 0; i < METHODS; i++) {
        plan how = {.epochs = 1};
        double best = INFINITY, eta = 1;
        for (size_t j = 0; j < sizeof etas / sizeof etas[0]; j++) {
            how.eta = etas[j];
            learned l = learn(p, train, &methods[i], &how, NULL, NULL);
            if (!l.diverged && l.train.error < best) {
                best = l.train.error;
                eta = etas[j];
            }
            learned_free(&l);
        }
        char row[80];
        snprintf(row, sizeof row, "%s, eta0 = %g", methods[i].title, eta);
        point c = {by_epoch, by_time, r, methods[i].title, row};
        plan whole = {.epochs = EPOCHS,
                      .eta = eta,
                      .evaluations = EPOCHS,
                      .test = test,
                      .progress = add_point,
                      .progress_user = &c};
        learned l = learn(p, train, &methods[i], &whole, NULL, NULL);
        report_cell(r, row, "% right, test", PAPERS_NONE, 100 * (1 - l.test.error));
        report_cell(r, row, "s an epoch", PAPERS_NONE, l.seconds / EPOCHS);
        papers_say("  %s", row);
        learned_free(&l);
    }
    curves_end(by_epoch);
    curves_end(by_time);
    xsm_dataset_free(train);
    xsm_dataset_free(test);
}

void figure_ldgs_multiclass(const papers *p)
{
    report *r = report_new(p, "ldgs_multiclass",
                           "Yen et al. 2018, Figure 1: faces of MegaFace's form, what a step costs and what it brings");
    ldgs_shape faces = {p->quick ? 3000 : 672000, p->quick ? 50 : 8000, D, 1, 0.9};
    ldgs_time(p, r, &faces, BLOCKS, "");
    learn_all(p, r);
    report_end(r);
}
