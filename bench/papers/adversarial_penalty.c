/*
 * Bamler and Mandt, Extreme classification via adversarial softmax approximation, 2020, eq. 6: the penalty lambda on
 * squared scores, for negative sampling from the tree and for NCE with the tree as noise. Rates and numbers of epochs
 * are those with the best accuracy on held-back rows, and lambda that with the best log-likelihood on them at that
 * moment.
 */
#include "race.h"

#include <stdio.h>

#include <xsoftmax/sampler.h>

enum { METHODS = 2, LAMBDAS = 4, NCE = 1 };

static const double lambdas[LAMBDAS] = {0, 1e-4, 1e-3, 1e-2};
static const struct {
    const char *title, *estimator;
} methods[METHODS] = {{"tree", "negative-sampling"}, [NCE] = {"NCE with the tree", "nce"}};
static const rate_grid grid = {2, -4, 1}; /* 0.01 to 3 */

/* Trainings of one method at one lambda. */
typedef struct trial {
    const papers *p;
    const data_pair *data;
    const xsm_dataset *held;
    xsm_sampler *tree;
    const char *estimator;
    double lambda;
    uint64_t epochs, seed;
    const xsm_model *model; /* of the present run */
    evaluation reached;     /* on the rows held back: the best of the present run */
    uint64_t epoch;         /* of it */
    evaluation best_held;   /* the best of all runs */
    uint64_t best_epoch;
} trial;

static int32_t look(void *user, const xsm_progress *progress)
{
    trial *t = user;
    if (progress->test && (t->epoch == 0 || progress->test->error < t->reached.error)) {
        t->reached = (evaluation){.error = progress->test->error, .log_loss = progress->test->log_loss};
        t->epoch = progress->epoch;
    }
    return 0;
}

/* Trains for t->epochs; with `test`, evaluates there at the end, else on the held-back rows after each epoch. */
static evaluation train(trial *t, double eta, const xsm_dataset *test)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_model *model = new_model(t->p, t->data->features, t->data->classes, 0, true);
    xsm_estimator *estimator = NULL;
    evaluation at = {.error = PAPERS_NONE, .log_loss = PAPERS_NONE};
    if (t->estimator == methods[NCE].estimator) {
        set_biases(model, -log(t->data->classes)); /* scores that are log-probabilities from the start */
    }
    papers_check(xsm_estimator_new(t->p->context, t->estimator, &estimator, &err), &err);
    papers_check(xsm_estimator_set_number(estimator, "negatives", 1, &err), &err);
    papers_check(xsm_estimator_set_number(estimator, "lambda", t->lambda, &err), &err);
    papers_check(xsm_estimator_set_number(estimator, "seed", (double)t->seed, &err), &err);
    papers_check(xsm_estimator_set_sampler(estimator, t->tree, &err), &err);
    options.epochs = t->epochs;
    options.batch = 1;
    options.eta = eta;
    options.seed = t->seed;
    options.schedule = XSM_SCHEDULE_CONSTANT;
    if (!test) {
        options.evaluate_every = 1;
        options.test = t->held;
        options.progress = look;
        options.progress_user = t;
    }
    if (train_by_adagrad(t->p, model, t->data->train, estimator, &options) && test) {
        at = evaluate(t->p, model, test);
    }
    xsm_model_free(model);
    return at;
}

static double try_rate(void *user, double rate)
{
    trial *t = user;
    t->epoch = 0;
    train(t, rate, NULL);
    if (t->epoch == 0) {
        return PAPERS_NONE;
    }
    if (t->best_epoch == 0 || t->reached.error < t->best_held.error) {
        t->best_held = t->reached;
        t->best_epoch = t->epoch;
    }
    return t->reached.error;
}

static void put(report *r, const char *set, double lambda, const char *what, const char *column, double ours)
{
    char row[120];
    snprintf(row, sizeof row, "%s, lambda = %g, %s", set, lambda, what);
    report_cell(r, row, column, PAPERS_NONE, ours);
}

static void run_set(const papers *p, report *r, const char *folder, const char *title, uint64_t epochs)
{
    data_pair data;
    if (!data_read(p, folder, title, "unit", &data)) {
        return;
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *held = race_hold_out(&data);
    xsm_sampler *tree = NULL;
    race_limit_test(&data);
    papers_check(xsm_sampler_new(p->context, "tree", &tree, &err), &err);
    papers_check(xsm_sampler_bind(tree, data.train, &err), &err);
    char name[80];
    snprintf(name, sizeof name, "adversarial_penalty-%s-log-loss", folder);
    curves *losses = curves_new(p, name, "lambda");
    snprintf(name, sizeof name, "adversarial_penalty-%s-accuracy", folder);
    curves *accuracies = curves_new(p, name, "lambda");
    for (size_t m = 0; m < METHODS; m++) {
        double chosen = PAPERS_NONE, least = INFINITY;
        for (size_t i = 0; i < LAMBDAS; i++) {
            trial t = {p, &data, held, tree, methods[m].estimator, lambdas[i], p->quick ? 2 : epochs, .seed = 1};
            snprintf(name, sizeof name, "%s, %s, lambda = %g", title, methods[m].title, lambdas[i]);
            const rate_search rate = rate_find(p, &grid, name, try_rate, &t);
            if (!isfinite(rate.best)) {
                continue;
            }
            several accuracy = {.count = 0}, loss = {.count = 0};
            t.epochs = t.best_epoch;
            for (t.seed = 1; t.seed <= (p->quick ? 1 : SEEDS); t.seed++) {
                const evaluation at = train(&t, rate.best, data.test);
                several_add(&accuracy, 1 - at.error);
                several_add(&loss, at.log_loss);
            }
            const char *column = methods[m].title;
            put(r, title, lambdas[i], "test accuracy", column, several_mean(&accuracy));
            put(r, title, lambdas[i], "test accuracy, spread", column, several_spread(&accuracy));
            put(r, title, lambdas[i], "test log-loss", column, several_mean(&loss));
            put(r, title, lambdas[i], "test log-loss, spread", column, several_spread(&loss));
            put(r, title, lambdas[i], "held-back accuracy", column, 1 - t.best_held.error);
            put(r, title, lambdas[i], "held-back log-loss", column, t.best_held.log_loss);
            put(r, title, lambdas[i], "epochs", column, (double)t.best_epoch);
            put(r, title, lambdas[i], "learning rate", column, rate.best);
            put(r, title, lambdas[i], "learning rates tried, least", column, rate.least);
            put(r, title, lambdas[i], "learning rates tried, largest", column, rate.most);
            /* A logarithmic axis has no zero. */
            const double x = lambdas[i] > 0 ? lambdas[i] : 1e-5;
            several_point(&loss, losses, column, x);
            several_point(&accuracy, accuracies, column, x);
            if (t.best_held.log_loss < least) {
                least = t.best_held.log_loss;
                chosen = lambdas[i];
            }
            papers_say("  %s: rate %g, %d epochs, test accuracy %.4f, log-loss %.4f", name, rate.best,
                       (int)t.best_epoch, several_mean(&accuracy), several_mean(&loss));
        }
        char row[120];
        snprintf(row, sizeof row, "%s, lambda chosen", title);
        report_cell(r, row, methods[m].title, PAPERS_NONE, chosen);
    }
    curves_end(losses);
    curves_end(accuracies);
    xsm_sampler_free(tree);
    xsm_dataset_free(held);
    data_free(&data);
}

void figure_adversarial_penalty(const papers *p)
{
    static const struct {
        const char *folder, *title;
        uint64_t epochs;
    } sets[] = {{"bibtex", "Bibtex", 30}, {"delicious", "Delicious", 30}, {"corel5k", "Corel5k", 30}};
    report *r = report_new(p, "adversarial_penalty", "Bamler and Mandt 2020, eq. 6: the penalty on squared scores");
    report_note(r,
                "Adagrad, n = m = 1; rate and number of epochs by the accuracy on rows held out, lambda by the "
                "log-loss there; test rows: the mean of %d seeds, and their largest less their least.",
                (int)SEEDS);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        run_set(p, r, sets[i].folder, sets[i].title, sets[i].epochs);
    }
    report_end(r);
}
