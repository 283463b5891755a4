/*
 * The internal interface of trainers, for callers that make runs themselves.
 */
#ifndef XSMI_TRAINER_H
#define XSMI_TRAINER_H

#include "estimator/estimator.h"
#include "base/held.h"
#include "optimizer/optimizer.h"
#include "train/window.h"

#include <xsoftmax/trainer.h>

/* How the learning rate falls. */
typedef struct xsmi_trainer_schedule {
    double stretch;        /* number of passes that one pass counts for */
    double decayed, decay; /* passes for which the rate has fallen so far, and its factor then */
} xsmi_trainer_schedule;

/* The order of the rows. */
typedef struct xsmi_trainer_sequence {
    uint64_t *now;  /* [rows] */
    bool ready;     /* `now` is the current epoch's */
    uint64_t *next; /* [rows] of the next epoch; NULL if none is planned ahead */
    uint64_t ahead; /* the epoch of `next`, or UINT64_MAX */
} xsmi_trainer_sequence;

/* The progress of the run. A checkpoint restores it, with the model. */
typedef struct xsmi_trainer_done {
    uint64_t epoch; /* complete epochs */
    uint64_t rows;  /* of the current epoch */
    uint64_t steps, examples;
    double loss_sum; /* of the current epoch */
    double eta;      /* of the last step */
    double seconds;
    double active; /* sum over examples of the share of coefficients that are listed */
} xsmi_trainer_done;

/* Evaluation and the callback. */
typedef struct xsmi_trainer_report {
    bool pending;               /* a complete epoch has not been evaluated and reported yet */
    bool running;               /* the callback is running */
    double last_call, interval; /* seconds between two calls of the callback within an epoch; 0 = after every step */
    xsm_metrics train, test;
    uint64_t sample; /* number of training rows evaluated, 0 before the first evaluation */
} xsmi_trainer_report;

struct xsm_trainer {
    xsm_context *context;
    xsmi_held held; /* the orders of rows, and the rates */
    /* References; options.test is one, too. */
    xsm_model *model;
    const xsm_dataset *train;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer_options options;
    xsmi_window *window;    /* NULL: batches one by one */
    xsm_gradient *gradient; /* without a window */
    uint64_t rows;
    double *etas; /* [window_steps] */
    uint64_t window_steps;
    uint64_t *marks;       /* marks of weights that may have changed, or NULL */
    int32_t layout;        /* of the weights */
    uint64_t shape, edits; /* of the model and of the rows when the trainer was made */
    xsmi_trainer_schedule schedule;
    xsmi_trainer_sequence sequence;
    xsmi_trainer_done done;
    xsmi_trainer_report report;
    bool running; /* xsm_trainer_run() is running */
    bool freed;   /* its own callback has freed it: it is released when the run ends */
};

/* Checks the schedule, its factor (0: the default) and the order. */
xsm_status xsmi_trainer_check_schedule(const xsm_trainer_options *o, xsm_error *err);
/* Sets *o to the options with their defaults, checked against the estimator; `given` may be NULL. */
xsm_status xsmi_trainer_read_options(const xsm_trainer_options *given, const xsm_estimator *e, xsm_trainer_options *o,
                                     xsm_error *err);
/* Makes the schedule count each pass as `stretch` passes, so that a run of few epochs has the schedule of a long
 * one. */
void xsmi_trainer_stretch(xsm_trainer *t, double stretch);
/* Makes the trainer mark (model.h) the weights that its steps may change. Returns false, and marks nothing, if the
 * trainer uses batches or the model is divided. `marks` is borrowed. */
bool xsmi_trainer_mark(xsm_trainer *t, uint64_t *marks);
/* Returns the share of the coefficients of all steps so far that were used: of a sifted gradient those that are not 0,
 * of a search those listed, otherwise all. */
double xsmi_trainer_active(const xsm_trainer *t);
/* Fails if one of the trainer's objects was bound to something else in the meantime. */
xsm_status xsmi_trainer_check(const xsm_trainer *t, xsm_error *err);
/* Sorts the rows into the order of the current epoch. */
xsm_status xsmi_trainer_order_rows(xsm_trainer *t, xsm_error *err);

#endif
