/*
 * The internal interface of the choice of a learning rate: tune.c tries rates and chooses, tune_rows.c selects the rows
 * and classes of a round's trials, tune_work.c plans their size by their work.
 */
#ifndef XSMI_TUNE_H
#define XSMI_TUNE_H

#include "auto/search.h"
#include "auto/trial.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax/tune.h>

/* The numbers of rounds and of rates, and the first and the last rate of the grid. */
enum { XSMI_TUNE_ROUNDS = XSMI_SEARCH_ROUNDS, XSMI_TUNE_POINTS = 14, XSMI_TUNE_FIRST = 6, XSMI_TUNE_LAST = 12 };

struct xsm_tuning {
    xsm_context *context;
    xsm_tuning_info info;
    double share;                         /* work of the trials relative to the estimated work of the run */
    double unseen_part[XSMI_TUNE_ROUNDS]; /* weight of rows left out of trials; the trials' rows have the rest */
    xsm_tune_trial trials[XSMI_TUNE_ROUNDS][XSMI_TUNE_POINTS]; /* size 0: no trial */
};

/* The run whose rate is chosen. */
typedef struct xsmi_tune_run {
    const xsm_dataset *train;
    xsm_trainer_options options;
    double ridge;
    double first; /* sum of the coefficients in the first step */
} xsmi_tune_run;

/* The work of an example, in classes that a step scores and updates. */
typedef struct xsmi_tune_costs {
    double step;
    double idle;                   /* the part of it that steps save if they are not busy */
    double score_class, score_few; /* of judging: for each class, and fixed */
    double width;                  /* classes of a step */
    double startup;                /* examples of the run before the search begins */
    bool searched;                 /* steps search for their classes */
    bool idle_far; /* most of a step's work is on weights outside of the caches, and idle steps save it */
} xsmi_tune_costs;

/* The size of a round's trials. */
typedef struct xsmi_tune_size {
    uint64_t rows, epochs, batch;
    uint64_t evaluated, held_back; /* numbers of rows that judge a trial: of its own rows, and of rows left out */
    double judging;                /* the work of judging a row */
} xsmi_tune_size;

/* The rows of a round's trials. */
typedef struct xsmi_tune_rows {
    bool narrow;                  /* trials are of some of the classes, different ones in each round */
    const xsm_dataset *train;     /* the rows to select from: the run's rows, or `part` */
    xsm_dataset *part;            /* the rows of the chosen classes */
    xsm_dataset *sample, *subset; /* the rows of trials, and those of them that judge trials; NULL = all */
    xsm_dataset *rest;            /* rows that trials do not train on, which judge them, too; NULL = none */
    double scale;                 /* rate of a trial relative to the run's */
    uint64_t *rank;               /* [N] rank of each row, a permutation: a trial uses the lowest ranks */
    uint64_t *chosen;             /* [N] scratch for the list of these rows */
} xsmi_tune_rows;

/* How busy a trial's steps are, 0 to 1, from the share of their coefficients in use: in training, and on the rows that
 * judge the trial. */
typedef struct xsmi_tune_busy {
    double training, judged;
} xsmi_tune_busy;

typedef struct xsmi_tuner {
    xsmi_runner runner; /* if trials use some of the classes, its model has only these */
    xsmi_scale_search search;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_tune_options options;
    xsmi_tune_run run;
    xsmi_tune_costs costs;
    xsmi_judge judge;
    xsmi_tune_size size;
    xsmi_tune_rows rows;
    bool marking;  /* the round's trials mark what they change */
    bool explodes; /* the loss at some rate of the first round grew without bound, not in proportion to the rate */
    double eta;    /* of the current trial, unscaled */
    double cut;    /* the factor by which rounds are reduced */
    double spent, expected, reserve;    /* work: so far, expected in total (for the callback), of the rounds after this
                                           one */
    double untrained[XSMI_TUNE_ROUNDS]; /* objectives of a model of zeros; NaN: not computed yet */
    xsmi_tune_busy busy[XSMI_TUNE_ROUNDS][XSMI_TUNE_POINTS];
    xsm_tuning *result;
} xsmi_tuner;

static inline bool xsmi_tune_tried(const xsmi_tuner *t, uint32_t round, int point)
{
    return point >= 0 && point < XSMI_TUNE_POINTS && t->result->trials[round][point].size != 0;
}

/* -- work (tune_work.c) -------------------------------------------------------------------------------------------- */

/* Sets the costs, and how trials are judged. The estimator must be bound to the run's rows and model. */
void xsmi_tune_measure(xsmi_tuner *t);
/* Sets the size of a round's trials. */
void xsmi_tune_plan(xsmi_tuner *t, uint32_t round);
/* Returns the least number of classes for a trial of some classes. */
double xsmi_tune_classes_least(const xsmi_tuner *t);
/* Reduces the rounds from `round` on to the work that is left, and plans this round. */
void xsmi_tune_fit(xsmi_tuner *t, uint32_t round);
/* Whether marking a trial's changes pays off, because they are a small part of the model. */
bool xsmi_tune_pays_to_mark(const xsmi_tuner *t);
/* Returns how busy steps are that use the share `active` of their coefficients. */
double xsmi_tune_busy_at(const xsmi_tuner *t, double active);
/* Return the work of copying the rows of the round, of training `examples` examples and resetting the model, and of
 * judging. */
double xsmi_tune_round_work(const xsmi_tuner *t);
double xsmi_tune_training_work(const xsmi_tuner *t, uint64_t examples, double busy);
double xsmi_tune_judging_work(const xsmi_tuner *t, double busy);
/* Returns the work of the run, estimated from the best rate of a round. */
double xsmi_tune_run_work(const xsmi_tuner *t, uint32_t round);
/* Whether a trial of a rate leaves enough work for the rounds after this one. */
bool xsmi_tune_affordable(const xsmi_tuner *t, int point);

/* -- rows (tune_rows.c) -------------------------------------------------------------------------------------------- */

/* Decides whether trials use some of the classes. The estimator must be bound to the run's rows and model. */
xsm_status xsmi_tune_narrow(xsmi_tuner *t, xsm_error *err);
/* Selects the rows, and classes, of the planned round. */
xsm_status xsmi_tune_select(xsmi_tuner *t, uint32_t round, xsm_error *err);
/* Returns to all classes, and releases the rows. */
void xsmi_tune_rows_free(xsmi_tuner *t);

#endif
