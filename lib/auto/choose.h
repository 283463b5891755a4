/*
 * The internal interface of the choice of a way to train: choose.c plans and searches, choose_trial.c runs trials,
 * choose_words.c describes the result.
 */
#ifndef XSMI_CHOOSE_H
#define XSMI_CHOOSE_H

#include "estimator/estimator.h"

#include <xsoftmax/choose.h>

/* A way to train, whose numbers are not chosen yet. */
typedef struct xsmi_way {
    xsm_estimator *estimator;
    bool own;              /* the estimator was made here */
    bool full;             /* lbfgs */
    bool exact;            /* scores every class */
    bool ranked;           /* judged by 1 - nDCG@5 instead of the log-loss */
    double work;           /* of an example, approximately in multiplications */
    double ridge;          /* the first one */
    uint32_t hidden;       /* length of an embedding model's vectors; 0 = linear */
    const char *optimizer; /* the optimizer of this way; NULL = sgd */
    uint64_t batch;        /* examples a step; 0 = 1 */
    double initial;        /* of adagrad; 0 = its default */
} xsmi_way;

/* The result of held-back rows for a trial's model, with pairs of that strength (xsm_model_add_pairs()). */
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
    xsm_trainer_options run;  /* 0: not given */
    double ridge;             /* < 0: not given */
    bool several;             /* rows have several labels */
    bool cheap;               /* scoring every class is cheap */
    double nonzeros, squared; /* means of a row */
    xsmi_way ways[XSMI_WAYS_MOST];
    size_t way_count;
    uint64_t epochs;  /* the most of the run */
    uint64_t passes;  /* of a trial */
    xsm_model *model; /* of all trials in turn; NULL before the first */
    /* Held-back rows and the trials' training rows, by transform; only the first of each if the transform is given. */
    xsm_dataset *held[XSMI_TRANSFORMS], *rows[XSMI_TRANSFORMS];
    size_t transform;          /* of the current trials */
    double began, deadline;    /* clock times; the deadline is that of the trials, infinite without a budget */
    double work, work_seconds; /* of training in trials so far */
    bool cut_short;            /* the deadline ended the search */
    bool cut_epochs;           /* the budget made the run shorter */
    xsm_choice *result;
} xsmi_chooser;

/* The transforms that are compared. */
extern const char *const xsmi_choose_transforms[XSMI_TRANSFORMS];

/* Transforms one or two (otherwise NULL) datasets of rows by transform number `transform`, fitted to all rows. */
xsm_status xsmi_choose_transform(const xsmi_chooser *c, size_t transform, xsm_dataset *one, xsm_dataset *other,
                                 xsm_error *err);
/* Resets the trials' model to the start of a run in that way. The model is made once for ways of one kind, because new
 * memory costs more than clearing memory. */
xsm_status xsmi_choose_model(xsmi_chooser *c, const xsmi_way *way, xsm_error *err);
/* Runs a trial and adds it to the result's trials. A diverged trial has an infinite loss; a trial that the deadline
 * ended counts with its complete epochs, if any. */
xsm_status xsmi_choose_try(xsmi_chooser *c, const xsmi_way *way, double eta, double ridge, xsm_error *err);
/* Judges the model of the last trial, which was of that way, with pairs of the strength in `judged`. */
xsm_status xsmi_choose_pairs(xsmi_chooser *c, const xsmi_way *way, xsmi_judged *judged, xsm_error *err);
/* Runs one pass over a few rows to measure the speed. */
xsm_status xsmi_choose_pilot(xsmi_chooser *c, const xsmi_way *way, double eta, xsm_error *err);
/* The name of a way's optimizer. */
const char *xsmi_choose_optimizer(const xsmi_chooser *c, const xsmi_way *way);
/* The batch size of a way. */
uint64_t xsmi_choose_batch(const xsmi_chooser *c, const xsmi_way *way);
/* The factor by which the rate falls to a tenth in so many epochs. */
double xsmi_choose_factor(uint64_t epochs);
/* Writes the three lines that describe the choice. */
void xsmi_choose_tell(const xsmi_chooser *c, const xsmi_way *way);

#endif
