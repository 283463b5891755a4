/*
 * The internal interface of the choice of a learning rate: tune.c decides which rates are tried, tune_trial.c runs the
 * trials, tune_classes.c chooses their classes.
 */
#ifndef XSMI_TUNE_H
#define XSMI_TUNE_H

#include "optimizer/optimizer.h"
#include "predict/evaluate.h"
#include "train/trainer.h"

#include <xsoftmax/tune.h>

/* Numbers of rounds and of rates. */
enum { XSMI_TUNE_ROUNDS = 3, XSMI_TUNE_PLACES = 14 };
/* Floats of weights from which a cache is too small. */
enum { XSMI_TUNE_FAR = 8 << 20 };

struct xsm_tuning {
    xsm_context *context;
    xsm_tuning_info info;
    double share;                         /* work of the trials, relative to the estimate for the run */
    double unseen_part[XSMI_TUNE_ROUNDS]; /* weight of rows left out of trials; the trials' rows have the rest */
    xsm_tune_trial trials[XSMI_TUNE_ROUNDS][XSMI_TUNE_PLACES]; /* size 0: no trial */
};

typedef struct xsmi_tuner {
    xsm_context *context;
    const xsm_dataset *run_train; /* N rows */
    xsm_model *model;             /* while trials are of some of the classes, it has only these */
    const xsm_dataset *train;     /* the source of the round's trial rows: the run's rows or a part */
    bool narrow;                  /* trials are of some of the classes (tune_classes.c), different ones in each round */
    xsm_dataset *part;            /* the rows of these classes */
    size_t run_weights;           /* floats of the model */
    double run_first;             /* sum of the coefficients in the run's first step */
    double scale;                 /* rate of a trial relative to the run's */
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer_options run;
    xsm_tune_options options;
    double ridge;
    xsm_tuning *result;

    uint64_t *rank;           /* [N] rank of each row, a permutation: a trial uses the lowest ranks */
    uint64_t *taken;          /* [N] scratch for the list of these rows */
    bool searched;            /* steps search for their classes */
    uint64_t startup;         /* examples of the run before the search begins */
    double step_work;         /* of an example, in classes */
    bool idle_far;            /* most of a step's work is on weights outside of the caches, and idle steps save it */
    double score_work;        /* of an example's evaluation */
    double idle_work;         /* of either, the work that steps save if they are not busy */
    uint64_t estimator_width; /* classes of a step */
    double score_class, score_few; /* of score_work: for each class, and for the classes scored whatever their number */
    double untrained[XSMI_TUNE_ROUNDS]; /* objectives of a model of zeros; NaN: not computed yet */
    double spent;                       /* work */
    double cut;                         /* factor of the reduction of rounds */
    double expected;                    /* work, for the callback */
    double start;                       /* clock time */
    uint32_t round;                     /* from 0 */
    double eta;                         /* of the trial */
    uint64_t rows, epochs, batch;
    uint64_t evaluated, held;                          /* rows that judge a trial: of its own, and of those left out */
    double unseen[XSMI_TUNE_ROUNDS][XSMI_TUNE_PLACES]; /* objectives on the rows left out; NaN: no such rows */
    /* How busy steps are, 0 to 1, by the share of their coefficients in use: in a trial, and on the rows that judge
     * it. */
    double busy[XSMI_TUNE_ROUNDS][XSMI_TUNE_PLACES], busy_after[XSMI_TUNE_ROUNDS][XSMI_TUNE_PLACES];
    double judged_busy;   /* in the last judgement */
    xsm_gradient *losses; /* if the estimator's own loss judges it, or if it is the log-loss at less cost */
    xsmi_evaluate_scratch scratch;
    uint64_t *marks; /* [mark_count] marks of the weights that a trial may have changed, or NULL */
    size_t mark_count;
    bool marking, marked;         /* in this round; this trial */
    xsm_dataset *sample, *subset; /* training rows of the round's trials, and rows that judge them; NULL = all rows */
    xsm_dataset *rest;            /* `held` rows that trials do not train on; NULL = none */
} xsmi_tuner;

/* Decides whether trials use some of the classes; the estimator is bound to the run's rows and model. */
xsm_status xsmi_tuner_narrow(xsmi_tuner *t, xsm_error *err);
/* The approximate number of classes of the planned trials. */
uint32_t xsmi_tuner_classes(const xsmi_tuner *t);
/* Chooses the classes of the planned round, and their rows; `narrow` is set. */
xsm_status xsmi_tuner_take_classes(xsmi_tuner *t, xsm_error *err);
/* Returns to all classes, if necessary. */
void xsmi_tuner_drop_classes(xsmi_tuner *t);
/* Sets rows, epochs, batch, evaluated and held for a round. */
void xsmi_tuner_plan(xsmi_tuner *t, uint32_t round);
/* The work of copying the rows of the planned round. */
double xsmi_tuner_round_work(const xsmi_tuner *t);
/* The work of a trial of the planned round, with steps that are busy to this share (0 to 1). */
double xsmi_tuner_planned_work(const xsmi_tuner *t, double share);
/* Plans a round and copies its rows. */
xsm_status xsmi_tuner_begin(xsmi_tuner *t, uint32_t round, xsm_error *err);
/* Tries a rate in the current round, and resets the model. */
xsm_status xsmi_tuner_try(xsmi_tuner *t, size_t place, double eta, xsm_error *err);
/* The objective of the present model on some rows (NULL = all), scaled to all rows. */
xsm_status xsmi_tuner_judge(xsmi_tuner *t, const xsm_dataset *rows, double *f, xsm_error *err);

#endif
