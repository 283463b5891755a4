/*
 * Trials: short runs of a setting on some rows, within a budget, and their outcomes. A runner has what trials share; it
 * tries the rates of tune.c and the entrants of choose.c.
 */
#ifndef XSMI_TRIAL_H
#define XSMI_TRIAL_H

#include "predict/evaluate.h"
#include "train/trainer.h"

#include <xsoftmax/label_tree.h>

/* What judges a model; lower is better. */
typedef enum xsmi_judge {
    XSMI_JUDGE_LOG_LOSS,
    XSMI_JUDGE_OWN /* the loss that the estimator reports */
} xsmi_judge;

typedef struct xsmi_measured {
    double loss;   /* mean over the rows; INFINITY if it is not finite */
    double active; /* the share of coefficients in use, for the estimator's own loss; otherwise 1 */
} xsmi_measured;

/* Called at the start of each epoch of a trial and several times a second; a non-zero value cancels the search. */
typedef int32_t (*xsmi_auto_function)(void *user, const xsm_progress *progress);

typedef struct xsmi_runner {
    xsm_context *context;
    xsm_model *model;            /* of all trials in turn */
    const char *purpose;         /* of the trials, for messages */
    xsmi_auto_function progress; /* or NULL */
    void *user;                  /* its first argument */
    double began;                /* clock time */
    double deadline;             /* seconds after `began` at which trials end; INFINITY = none */
    double elapsed;              /* seconds after `began` when the clock was last read */
    xsm_gradient *losses;        /* scratch for own losses; NULL before the first */
    xsmi_evaluate_scratch scratch;
    uint64_t *marks; /* [mark_count] marks of the weights that a trial may have changed, or NULL */
    size_t mark_count;
} xsmi_runner;

typedef struct xsmi_auto_setting {
    xsm_estimator *estimator;
    xsm_optimizer *optimizer; /* NULL: lbfgs */
    double ridge;
    xsm_trainer_options run; /* learning rate, schedule, batch, order and seed; the runner sets the rest */
} xsmi_auto_setting;

typedef struct xsmi_auto_budget {
    uint64_t epochs;  /* passes over the rows, or iterations of lbfgs */
    double stretch;   /* passes of the whole run that a pass counts for in the schedule */
    uint64_t startup; /* examples before a searching estimator's search begins; UINT64_MAX = its own number */
    double tolerance; /* of lbfgs */
    bool marked;      /* whether to use the runner's marks */
} xsmi_auto_budget;

typedef struct xsmi_auto_outcome {
    uint64_t examples;      /* examples trained, which is the cost; for lbfgs, all rows at each evaluation of the
                               objective */
    double seconds, active; /* seconds of training; the share of coefficients in use */
    bool diverged, late;    /* the deadline ended it */
    bool marked;            /* the marks say which weights it changed */
    uint64_t bytes;         /* bytes of a label tree */
} xsmi_auto_outcome;

typedef struct xsmi_auto_trial {
    xsmi_runner *runner;
    xsmi_auto_setting setting;
    const xsm_dataset *rows;
    xsmi_auto_budget budget;
    xsmi_auto_outcome outcome;
    xsm_trainer *trainer;
    bool stopped; /* by the callback */
} xsmi_auto_trial;

/* Makes a trial from the members above `outcome`, and trains the runner's model. A trial that diverges returns XSM_OK,
 * and sets this in the outcome. The caller must always end the trial, which unbinds the estimator. */
xsm_status xsmi_auto_run(xsmi_auto_trial *t, xsm_error *err);
void xsmi_auto_end(xsmi_auto_trial *t);
/* Trains a label tree, which is a new model; the trial need not be ended. Calls the runner's callback before and
 * after. */
xsm_status xsmi_auto_run_tree(xsmi_auto_trial *t, const xsm_label_tree_options *tree, xsm_model **out, xsm_error *err);
/* Judges the runner's model by some rows. If its scores are not finite, the loss is infinite. */
xsm_status xsmi_runner_judge(xsmi_runner *r, xsm_estimator *e, xsmi_judge judge, const xsm_dataset *rows,
                             xsmi_measured *out, xsm_error *err);
/* Reserves the marks; returns false if there is no memory, which only costs speed. */
bool xsmi_runner_need_marks(xsmi_runner *r);
/* Sets *out to a copy of the rows whose weight is above 0; NULL: all rows are, or none. */
xsm_status xsmi_rows_with_weight(const xsm_dataset *d, xsm_dataset **out, xsm_error *err);
/* Updates `elapsed` by the clock if there is a deadline. */
void xsmi_runner_read_clock(xsmi_runner *r);
/* Releases all but the context and the model. */
void xsmi_runner_free(xsmi_runner *r);

#endif
