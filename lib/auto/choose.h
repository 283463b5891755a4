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

#define XSMI_LABEL_TREE "label-tree"
/* With fewer features a row, these nearly identify it. Held-back rows are drawn at random and have relatives among the
 * trained rows, so they overrate what memorises rows, pairs and label trees, in comparison with new rows. */
#define XSMI_KEY_FEATURES 4.0

/* What kind of model a candidate trains. */
typedef enum xsmi_kind { XSMI_KIND_TREE, XSMI_KIND_LINEAR, XSMI_KIND_EMBEDDING } xsmi_kind;

/* The best trial of a candidate method. */
typedef struct xsmi_best {
    struct xsmi_candidate *candidate;
    uint64_t trial;       /* UINT64_MAX: none */
    double loss;          /* without pairs */
    double pairs;         /* their strength; 0 = none */
    xsmi_measured judged; /* with these pairs */
    size_t transform;     /* of the rows */
    uint64_t epochs;      /* that it was trained; `curve` has the losses of the first XSMI_CURVE */
    double curve[XSMI_CURVE];
} xsmi_best;

/* A candidate method: a line of the portfolio, whose learning rate and L2 penalty are not chosen yet. */
typedef struct xsmi_candidate {
    const char *method; /* the estimator's name, or XSMI_LABEL_TREE */
    xsmi_kind kind;
    const xsm_label_tree_options *tree; /* NULL: by steps, or lbfgs */
    xsm_estimator *estimator;           /* NULL: a label tree */
    const char *optimizer;              /* or lbfgs; NULL: a label tree */
    bool own;                           /* the estimator was made here */
    bool full;                          /* lbfgs */
    bool follows;                       /* the previous one, beside which it is tried */
    bool exact;                         /* scores every class */
    uint64_t epochs;                    /* the most of the run */
    uint64_t passes;                    /* of a trial */
    double work;                        /* of an example, approximately in multiplications */
    double ridge;                       /* the first one */
    double initial;                     /* of adagrad; 0 = its default */
    uint64_t batch;                     /* examples a step */
    uint32_t hidden;                    /* length of an embedding model's vectors; 0 = linear */
    double row_seconds, trial_seconds;  /* of training a row once, and of a trial's row with judging; 0 before any */
    xsmi_best few;                      /* of its trials on few rows */
    int few_point;                      /* the rate's */
    bool raced;                         /* there were such trials */
    bool dropped;                       /* after these */
} xsmi_candidate;

enum { XSMI_CANDIDATES = 10, XSMI_TRANSFORMS = 2 };

struct xsm_choice {
    xsm_context *context;
    xsm_choice_info info;
    xsm_estimator *estimator;                      /* a reference */
    xsm_label_tree_options trees[XSMI_CANDIDATES]; /* of the candidates that are label trees, by their number */
    xsm_choice_trial *trials;                      /* [info.trials] */
    size_t trial_capacity;
};

/* What the rows are like: means over the rows, whether rows have several labels, and whether values are counts. */
typedef struct xsmi_survey {
    double nonzeros, squared;
    bool several, counts;
} xsmi_survey;

/* The rows and the length of trials. */
typedef struct xsmi_choose_plan {
    /* Held-back rows and training rows by transform; only the first of each if the transform is given. */
    xsm_dataset *held_back[XSMI_TRANSFORMS], *rows[XSMI_TRANSFORMS];
    size_t transform; /* of the current trials */
    /* With label trees: the held-back rows that can be judged by them. */
    xsm_dataset *known[XSMI_TRANSFORMS];
    /* A part of the training rows for the first round, and the held-back rows for it; NULL: no such round. */
    xsm_dataset *few[XSMI_TRANSFORMS], *few_held[XSMI_TRANSFORMS];
    bool halving;  /* the first round runs */
    bool treeless; /* no label tree has come through it */
} xsmi_choose_plan;

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
    const xsmi_candidate *stepped; /* the first one that is no label tree; NULL: none */
    xsmi_choose_plan plan;
    xsmi_best best, found;      /* of the current candidate, and of those before it */
    bool ended;                 /* trials have taken as long as the run will take */
    bool transformed;           /* the other transform was tried with the current kind of model */
    xsmi_judge judge;           /* of all candidates */
    xsmi_auto_outcome last;     /* of the last trial */
    double work, work_seconds;  /* of training in trials so far */
    double elapsed;             /* the seconds that the work of the trials so far takes at a usual speed */
    double trials_seconds;      /* the same by the clock */
    bool cut_short, cut_epochs; /* the deadline ended the search; the budget made the run shorter */
    xsm_choice *result;
} xsmi_chooser;

/* Lists the candidates, each measured: unsuitable data fails early. */
xsm_status xsmi_candidates_list(xsmi_chooser *c, xsm_error *err);
/* The work of judging a row by a candidate's model. */
double xsmi_candidates_judging(const xsmi_chooser *c, const xsmi_candidate *candidate);
/* Resets the trials' model to the start of a run. The model is made once for candidates of one kind, because new memory
 * costs more than clearing memory. */
xsm_status xsmi_candidate_model(xsmi_chooser *c, const xsmi_candidate *candidate, xsm_error *err);
/* The steps of one of the transforms that are compared. */
const char *xsmi_choose_transform(const xsmi_chooser *c, size_t transform);

xsmi_survey xsmi_choose_survey(const xsmi_chooser *c);
/* Holds rows back and selects as many others as the work allows; none if there are too few. */
xsm_status xsmi_choose_plan_trials(xsmi_chooser *c, xsm_error *err);
/* The factor by which the rate falls to its last value in so many epochs. */
double xsmi_choose_factor(const xsmi_chooser *c, uint64_t epochs);
/* Runs a trial and adds it to the result's trials. A trial that the deadline ended counts with its complete epochs, if
 * any. */
xsm_status xsmi_choose_try(xsmi_chooser *c, xsmi_candidate *candidate, double eta, double ridge, xsm_error *err);
/* Runs a candidate on a few rows to measure the speed. */
xsm_status xsmi_choose_pilot(xsmi_chooser *c, const xsmi_candidate *candidate, double eta, xsm_error *err);
/* The seconds since the choice began: by the last look at the clock with a time budget, else by the work of the trials,
 * so that nothing depends on the clock. */
double xsmi_choose_elapsed(const xsmi_chooser *c);
/* The seconds that training a candidate on so many rows, so many times, will take: by its work, with a time budget also
 * by the speed of its trials, before any by the speed of all trials. */
double xsmi_choose_seconds(const xsmi_chooser *c, const xsmi_candidate *candidate, double rows, double passes);
/* The seconds that the run will take at most. */
double xsmi_choose_run_seconds(const xsmi_chooser *c, const xsmi_candidate *candidate);
/* The best trial so far in this round, of the current candidate or of those before it. */
const xsmi_best *xsmi_choose_leader(const xsmi_chooser *c);
/* When the choice ends if that one stays the best, in seconds from its beginning; NaN before any. */
double xsmi_choose_limit(const xsmi_chooser *c);
/* Whether there may be a first round, on few rows: there are several lines, and no given rate. */
bool xsmi_choose_halves(const xsmi_chooser *c);
/* Whether a loss is within two standard errors of the difference to the least one, as if other rows were judged. */
bool xsmi_choose_is_near(const xsmi_chooser *c, double loss, double least);
/* The training rows of the present round, and the held-back rows by which it is judged. */
const xsm_dataset *xsmi_choose_rows(const xsmi_chooser *c);
const xsm_dataset *xsmi_choose_held(const xsmi_chooser *c);

#endif
