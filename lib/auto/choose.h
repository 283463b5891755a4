/*
 * The internal interface of the choice of how to train: candidates.c lists what is compared, choose_plan.c
 * plans and runs trials, choose.c searches.
 */
#ifndef XSMI_CHOOSE_H
#define XSMI_CHOOSE_H

#include "auto/search.h"
#include "auto/trial.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax/choose.h>

/* A candidate method: a method with its settings, whose learning rate and L2 penalty are not chosen yet. */
typedef struct xsmi_candidate {
    xsm_estimator *estimator;
    const char *optimizer;             /* or lbfgs */
    bool own;                          /* the estimator was made here */
    bool full;                         /* lbfgs */
    bool follows;                      /* the previous one with adagrad: its rate follows from the other's */
    bool exact;                        /* scores every class */
    double work;                       /* of an example, approximately in multiplications */
    double ridge;                      /* the first one */
    double initial;                    /* of adagrad; 0 = its default */
    uint64_t batch;                    /* examples a step */
    uint32_t hidden;                   /* length of an embedding model's vectors; 0 = linear */
    double row_seconds, trial_seconds; /* of training a row once, and of a trial with judging; 0 before any */
    double few_loss;                   /* the least loss of its trials on few rows */
    int few_point;                     /* the rate's */
    bool raced;                        /* there were such trials */
    bool dropped;                      /* after these */
} xsmi_candidate;

enum { XSMI_CANDIDATES = 4, XSMI_TRANSFORMS = 2 };

struct xsm_choice {
    xsm_context *context;
    xsm_choice_info info;
    xsm_estimator *estimator; /* a reference */
    xsm_choice_trial *trials; /* [info.trials] */
    size_t trial_capacity;
};

/* What the rows are like: means of a row, and whether rows have several labels. */
typedef struct xsmi_survey {
    double nonzeros, squared;
    bool several;
} xsmi_survey;

/* The rows and the length of trials. */
typedef struct xsmi_choose_plan {
    /* Held-back rows and training rows by transform; only the first of each if the transform is given. */
    xsm_dataset *held_back[XSMI_TRANSFORMS], *rows[XSMI_TRANSFORMS];
    size_t transform; /* of the current trials */
    xsm_dataset *few; /* a part of the first transform's rows, for the first round; NULL: no such round */
    bool halving;     /* the first round runs */
    uint64_t epochs;  /* the most of the run */
    uint64_t passes;  /* of a trial */
    bool cheap;       /* scoring every class is cheap */
} xsmi_choose_plan;

/* The best trial of a candidate method. */
typedef struct xsmi_best {
    xsmi_candidate *candidate;
    uint64_t trial;       /* UINT64_MAX: none */
    double loss;          /* without pairs */
    double pairs;         /* their strength; 0 = none */
    xsmi_measured judged; /* with these pairs */
} xsmi_best;

typedef struct xsmi_chooser {
    xsmi_runner runner;
    xsmi_scale_search search;
    const xsm_dataset *train;
    xsm_choose_options options;
    xsm_trainer_options run; /* 0: not given */
    double ridge;            /* < 0: not given */
    xsmi_survey survey;
    xsmi_candidate candidates[XSMI_CANDIDATES];
    size_t candidate_count;
    xsmi_choose_plan plan;
    xsmi_best best, found;      /* of the current candidate, and of those before it */
    bool ended;                 /* trials have taken as long as the run will take */
    bool transformed;           /* the other transform was tried */
    xsmi_judge judge;           /* of all candidates */
    xsmi_measured judged;       /* the last trial */
    double work, work_seconds;  /* of training in trials so far */
    bool cut_short, cut_epochs; /* the deadline ended the search; the budget made the run shorter */
    xsm_choice *result;
} xsmi_chooser;

/* Lists the candidates, each measured: unsuitable data fails early. */
xsm_status xsmi_candidates_list(xsmi_chooser *c, xsm_error *err);
/* The work of judging a row by the first candidate's kind of model. */
double xsmi_candidates_judging(const xsmi_chooser *c);
/* Resets the trials' model to the start of a run. The model is made once for candidates of one kind, because new memory
 * costs more than clearing memory. */
xsm_status xsmi_candidate_model(xsmi_chooser *c, const xsmi_candidate *candidate, xsm_error *err);
/* The transforms that are compared. */
extern const char *const xsmi_choose_transforms[XSMI_TRANSFORMS];

xsmi_survey xsmi_choose_survey(const xsmi_chooser *c);
/* Holds rows back and selects as many others as the work allows; none if there are too few. */
xsm_status xsmi_choose_plan_trials(xsmi_chooser *c, xsm_error *err);
/* The factor by which the rate falls to its last value in so many epochs. */
double xsmi_choose_factor(const xsmi_chooser *c, uint64_t epochs);
/* Runs a trial and adds it to the result's trials. A trial that the deadline ended counts with its complete epochs, if
 * any. */
xsm_status xsmi_choose_try(xsmi_chooser *c, xsmi_candidate *candidate, double eta, double ridge, xsm_error *err);
/* Runs the first candidate on a few rows to measure the speed, which is infinite before. */
xsm_status xsmi_choose_pilot(xsmi_chooser *c, double eta, xsm_error *err);
double xsmi_choose_speed(const xsmi_chooser *c);

#endif
