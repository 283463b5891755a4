/*
 * Inside of choosing a learning rate: tune.c says which rates are tried, tune_trial.c tries them, tune_classes.c on
 * which classes.
 */
#ifndef XSMI_TUNE_H
#define XSMI_TUNE_H

#include "optimizer/optimizer.h"
#include "train/evaluate.h"
#include "train/trainer.h"

#include <xsoftmax/tune.h>

/* Rounds, and the rates that there are. */
enum { XSMI_TUNE_ROUNDS = 3, XSMI_TUNE_PLACES = 14 };
/* Floats of weights that are too many for a cache. */
enum { XSMI_TUNE_FAR = 8 << 20 };

struct xsm_tuning {
    xsm_context *context;
    xsm_tuning_info info;
    double share;                         /* work of the trials, by what the run's was taken to be */
    double unseen_part[XSMI_TUNE_ROUNDS]; /* how much rows left out of a round's trials count, theirs for the rest */
    xsm_tune_trial trials[XSMI_TUNE_ROUNDS][XSMI_TUNE_PLACES]; /* size 0: there is none */
};

typedef struct xsmi_tuner {
    xsm_context *context;
    const xsm_dataset *run_train; /* N rows */
    xsm_model *model;             /* while trials are of some of the classes, as if it had only these */
    const xsm_dataset *train;     /* whose rows the round's trials go through: the run's, or part */
    bool narrow;                  /* trials are of some of the classes (tune_classes.c), another part in each round: */
    xsm_dataset *part;            /* their rows */
    size_t run_weights;           /* floats of the model */
    double run_first;             /* sum of the coefficients in the run's first step */
    double scale;                 /* rate of a trial, by that of the run */
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer_options run;
    xsm_tune_options options;
    double ridge;
    xsm_tuning *result;

    uint64_t *rank;                     /* [N] of each row, a permutation: a trial takes the lowest */
    uint64_t *taken;                    /* [N] room for their list */
    bool searched;                      /* steps search for their classes */
    uint64_t startup;                   /* examples of the run before they do */
    double step_work;                   /* of an example, in classes */
    bool idle_far;                      /* most of a step's work is on weights far away, and saved by idle ones */
    double score_work;                  /* of an example's evaluation */
    double idle_work;                   /* of either, what steps that are not busy save */
    uint64_t estimator_width;           /* classes of a step */
    double score_class, score_few;      /* of that, for a class, and for what it looks at however many there are */
    double untrained[XSMI_TUNE_ROUNDS]; /* objectives of a model of zeros; NaN: not known yet */
    double spent;                       /* work */
    double cut;                         /* what rounds are made smaller by, to fit */
    double expected;                    /* work, for the callback */
    double start;                       /* on the clock */
    uint32_t round;                     /* from 0 */
    double eta;                         /* of the trial */
    uint64_t rows, epochs, batch;
    uint64_t evaluated, held; /* rows to judge on, of the trial's and of those left out of it */
    double unseen[XSMI_TUNE_ROUNDS][XSMI_TUNE_PLACES]; /* objectives by the rows left out; NaN: there were none */
    /* How busy steps are with coefficients, 0 to 1: those of a trial, and those on the rows that it is then judged on.
     */
    double busy[XSMI_TUNE_ROUNDS][XSMI_TUNE_PLACES], busy_after[XSMI_TUNE_ROUNDS][XSMI_TUNE_PLACES];
    double judged_busy;   /* of the last judgement */
    xsm_gradient *losses; /* for an estimator that is judged by its own loss, or whose is the log-loss, for less */
    xsmi_evaluate_room room;
    uint64_t *marks; /* [mark_count] of the weights that a trial may have changed, or NULL */
    size_t mark_count;
    bool marking, marked;         /* in this round; this trial */
    xsm_dataset *sample, *subset; /* what the round's trials go through and are judged on; NULL = all rows */
    xsm_dataset *rest;            /* `held` rows that they do not go through; NULL = none */
} xsmi_tuner;

/* Finds out whether trials are to be of some of the classes; the estimator is bound to the run's rows and model. */
xsm_status xsmi_tuner_narrow(xsmi_tuner *t, xsm_error *err);
/* About how many classes the trials have that are planned. */
uint32_t xsmi_tuner_classes(const xsmi_tuner *t);
/* Takes the classes of the round that is planned, and their rows; `narrow` is set. */
xsm_status xsmi_tuner_take_classes(xsmi_tuner *t, xsm_error *err);
/* Goes back to all classes, if it is not there. */
void xsmi_tuner_drop_classes(xsmi_tuner *t);
/* Fills rows, epochs, batch, evaluated and held for a round. */
void xsmi_tuner_plan(xsmi_tuner *t, uint32_t round);
/* Work of taking the rows of the round that is planned. */
double xsmi_tuner_round_work(const xsmi_tuner *t);
/* Work of a trial of the round that is planned, with steps that busy (0 to 1). */
double xsmi_tuner_planned_work(const xsmi_tuner *t, double share);
/* Plans a round and takes its rows. */
xsm_status xsmi_tuner_begin(xsmi_tuner *t, uint32_t round, xsm_error *err);
/* Tries a rate in the current round, and leaves the model as new. */
xsm_status xsmi_tuner_try(xsmi_tuner *t, size_t place, double eta, xsm_error *err);
/* The objective of the model as it is by some rows, NULL being all, scaled to all. */
xsm_status xsmi_tuner_judge(xsmi_tuner *t, const xsm_dataset *rows, double *f, xsm_error *err);

#endif
