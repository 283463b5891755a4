/*
 * Bamler and Mandt, Extreme classification via adversarial softmax approximation, 2020, appendix A.2: the loss in
 * accuracy of negative sampling from the uniform distribution compared with the exact softmax, on data that is small
 * enough for the latter. Both use the learning rate and the number of epochs that are best on held-back rows. EURLex-4K
 * is not available: rows are generated in its shape after reduction to 512 features; small real sets are used beside
 * them, and the tree beside the uniform distribution.
 */
#include "shape_adversarial.h"
#include "race.h"

#include <stdio.h>

enum { METHODS = 3, EPOCHS = 50, EPOCHS_EXACT = 20 };
enum { SOFTMAX };

static const method methods[METHODS] = {
    [SOFTMAX] = {"softmax", "softmax", 100, 0, NULL},
    {"uniform", "negative-sampling", 1, 1, "sampler=uniform"},
    {"tree", "negative-sampling", 1, 1, "sampler=tree"},
};

static const rate_grid grid = {2, -5, 2}; /* 0.003 to 10 */

/* The best result so far on the held-back rows, and the result on the test rows at that moment. */
typedef struct best {
    const papers *p;
    const xsm_model *model;
    const xsm_dataset *test;
    double eta, held; /* accuracy on the held-back rows; below 0 = none yet */
    uint64_t epoch;
    evaluation at;
    double trying, reached; /* the present learning rate, and the best accuracy with it */
} best;

static int32_t look(void *user, const xsm_progress *progress)
{
    best *b = user;
    double accuracy = progress->test ? 1 - progress->test->error : -1;
    b->reached = accuracy > b->reached ? accuracy : b->reached;
    if (accuracy > b->held) {
        b->held = accuracy;
        b->eta = b->trying;
        b->epoch = progress->epoch;
        b->at = evaluate(b->p, b->model, b->test);
    }
    return 0;
}

typedef struct trial {
    best b;
    const data_pair *data;
    const xsm_dataset *held;
    const method *m;
} trial;

/* The share of the rows held back that is wrong at best. */
static double try_rate(void *user, double eta)
{
    trial *t = user;
    best *b = &t->b;
    const method *m = t->m;
    xsm_error err = XSM_ERROR_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_model *model = new_model(b->p, t->data->features, t->data->classes, 0, true);
    xsm_estimator *estimator = NULL;
    papers_check(xsm_estimator_new(b->p->context, m->estimator, &estimator, &err), &err);
    set_options(estimator, m, 0);
    options.epochs = b->p->quick ? 2 : m == &methods[SOFTMAX] ? EPOCHS_EXACT : EPOCHS;
    options.batch = m->batch;
    options.eta = eta;
    options.schedule = XSM_SCHEDULE_CONSTANT;
    options.evaluate_every = 1;
    options.test = t->held;
    options.progress = look;
    options.progress_user = b;
    b->model = model;
    b->trying = eta;
    b->reached = -1;
    (void)train_by_adagrad(b->p, model, t->data->train, estimator, &options);
    xsm_model_free(model);
    return b->reached < 0 ? PAPERS_NONE : 1 - b->reached;
}

static void run_set(const papers *p, report *r, const char *part, data_pair *data, const double paper[METHODS])
{
    char name[80];
    snprintf(name, sizeof name, "adversarial_eurlex-%s", part);
    curves *by_rate = curves_new(p, name, "eta");
    xsm_dataset *held = race_hold_out(data);
    report_note(r, "%s: N = %llu, D = %u, K = %u.", data->title, (unsigned long long)data->rows, data->features,
                data->classes);
    for (size_t m = 0; m < METHODS; m++) {
        trial t = {{p, NULL, data->test, 0, -1, 0, {.error = 0}, 0, 0}, data, held, &methods[m]};
        char row[120];
        snprintf(row, sizeof row, "%s, %s", data->title, methods[m].title);
        const rate_search rate = rate_find(p, &grid, row, try_rate, &t);
        const best b = t.b;
        for (int i = 0; i < rate.count; i++) {
            curves_point(by_rate, methods[m].title, rate.rate[i], 1 - rate.loss[i]);
        }
        snprintf(row, sizeof row, "%s, learning rates tried, least", data->title);
        report_cell(r, row, methods[m].title, PAPERS_NONE, rate.least);
        snprintf(row, sizeof row, "%s, learning rates tried, largest", data->title);
        report_cell(r, row, methods[m].title, PAPERS_NONE, rate.most);
        snprintf(row, sizeof row, "%s, test accuracy", data->title);
        report_cell(r, row, methods[m].title, paper[m], b.held < 0 ? PAPERS_NONE : 1 - b.at.error);
        snprintf(row, sizeof row, "%s, test log-likelihood", data->title);
        report_cell(r, row, methods[m].title, PAPERS_NONE, b.held < 0 ? PAPERS_NONE : -b.at.log_loss);
        snprintf(row, sizeof row, "%s, learning rate", data->title);
        report_cell(r, row, methods[m].title, PAPERS_NONE, b.held < 0 ? PAPERS_NONE : b.eta);
        snprintf(row, sizeof row, "%s, epochs", data->title);
        report_cell(r, row, methods[m].title, PAPERS_NONE, b.held < 0 ? PAPERS_NONE : (double)b.epoch);
        papers_say("  %s, %s", data->title, methods[m].title);
    }
    curves_end(by_rate);
    xsm_dataset_free(held);
    data_free(data);
}

void figure_adversarial_eurlex(const papers *p)
{
    static const double none[METHODS] = {PAPERS_NONE, PAPERS_NONE, PAPERS_NONE};
    static const double paper[METHODS] = {0.336, 0.264, PAPERS_NONE};
    static const char *const sets[][2] = {{"bibtex", "Bibtex"}, {"delicious", "Delicious"}, {"corel5k", "Corel5k"}};
    report *r = report_new(p, "adversarial_eurlex",
                           "Bamler and Mandt 2020, appendix A.2: the exact softmax against negative sampling");
    report_note(
        r, "Adagrad, rates (the best inside of those tried) and the number of epochs by the accuracy on a tenth of "
           "the rows held out; softmax n = 100, negative sampling n = m = 1, no penalty.");
    adversarial_sizes s = {15511, 3809, 512, 3687, 0.9};
    if (p->quick) {
        s = (adversarial_sizes){400, 100, 16, 50, 0.9};
    }
    data_pair made = adversarial_make(p, "EURLex-4K in shape", &s, 19);
    run_set(p, r, "made", &made, paper);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        data_pair data;
        if (data_read(p, sets[i][0], sets[i][1], "unit", &data)) {
            run_set(p, r, sets[i][0], &data, none);
        }
    }
    report_end(r);
}
