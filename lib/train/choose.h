/*
 * Inside of the choice of a way to train: choose.c plans and searches, choose_trial.c runs, choose_words.c tells.
 */
#ifndef XSMI_CHOOSE_H
#define XSMI_CHOOSE_H

#include "estimator/estimator.h"

#include <xsoftmax/choose.h>

/* A way to train, whose numbers are still open. */
typedef struct xsmi_way {
    xsm_estimator *estimator;
    bool own;              /* made here */
    bool full;             /* lbfgs */
    bool exact;            /* looks at every class */
    bool ranked;           /* judged by 1 - nDCG@5 in place of the log-loss */
    double work;           /* of an example, roughly in multiplications */
    double ridge;          /* to begin with */
    uint32_t hidden;       /* length of an embedding model's vectors; 0 = linear */
    const char *optimizer; /* that goes with it; NULL = sgd */
    uint64_t batch;        /* examples a step; 0 = 1 */
    double initial;        /* of adagrad; 0 = its default */
} xsmi_way;

/* What rows held back say of a trial's model, with pairs of such a strength (xsm_model_add_pairs()) beside it. */
typedef struct xsmi_judged {
    double pairs, loss, precision;
} xsmi_judged;

enum { XSMI_WAYS_MOST = 4, XSMI_TRANSFORMS = 2 };

struct xsm_choice {
    xsm_context *context;
    xsm_choice_info info;
    xsm_estimator *estimator;
    bool own;
    xsm_choice_trial *trials; /* [info.trials] */
    size_t trial_capacity;
    char line[3][256];
};

typedef struct xsmi_chooser {
    xsm_context *context;
    const xsm_dataset *train;
    xsm_choose_options options;
    xsm_trainer_options run;  /* 0: open */
    double ridge;             /* < 0: open */
    bool several;             /* labels a row */
    bool cheap;               /* scoring every class is */
    double nonzeros, squared; /* means of a row */
    xsmi_way ways[XSMI_WAYS_MOST];
    size_t way_count;
    uint64_t epochs;  /* most of the run */
    uint64_t passes;  /* of a trial */
    xsm_model *model; /* of the trials, one after the other; NULL before the first */
    /* Held back, and what trials go through, by transform; only the first of each where none is to be chosen. */
    xsm_dataset *held[XSMI_TRANSFORMS], *rows[XSMI_TRANSFORMS];
    size_t transform;          /* of the trials now */
    double began, deadline;    /* on the clock; of the trials, infinite without a budget */
    double work, work_seconds; /* trained in trials so far */
    bool cut_short;            /* the deadline ended the search */
    bool cut_epochs;           /* the budget made the run shorter */
    xsm_choice *result;
} xsmi_chooser;

/* The transforms that are compared. */
extern const char *const xsmi_choose_transforms[XSMI_TRANSFORMS];

/* Transforms one or two (else NULL) datasets of rows by number `transform`, fitted to all rows. */
xsm_status xsmi_choose_transform(const xsmi_chooser *c, size_t transform, xsm_dataset *one, xsm_dataset *other,
                                 xsm_error *err);
/* Brings the trials' model to the start of a run in that way: made once for ways of one kind, as memory that is new
 * costs more than memory that is cleared. */
xsm_status xsmi_choose_model(xsmi_chooser *c, const xsmi_way *way, xsm_error *err);
/* Runs a trial and adds it to the result's. One that diverged has an infinite loss; one that the deadline ended counts
 * with the epochs that it had, if any. */
xsm_status xsmi_choose_try(xsmi_chooser *c, const xsmi_way *way, double eta, double ridge, xsm_error *err);
/* Judges the model of the last trial, which was of that way, with pairs of the strength that `judged` has. */
xsm_status xsmi_choose_pairs(xsmi_chooser *c, const xsmi_way *way, xsmi_judged *judged, xsm_error *err);
/* One pass over a few rows, to see how fast that is. */
xsm_status xsmi_choose_pilot(xsmi_chooser *c, const xsmi_way *way, double eta, xsm_error *err);
/* The optimizer of a way, by name. */
const char *xsmi_choose_optimizer(const xsmi_chooser *c, const xsmi_way *way);
/* How many examples its steps take. */
uint64_t xsmi_choose_batch(const xsmi_chooser *c, const xsmi_way *way);
/* The factor by which the rate falls to a tenth in so many epochs. */
double xsmi_choose_factor(uint64_t epochs);
/* Writes the three lines. `best` is the trial that won, NULL without any. */
void xsmi_choose_tell(const xsmi_chooser *c, const xsmi_way *way);

#endif
