/*
 * Inside of trainers, for what makes runs of its own.
 */
#ifndef XSMI_TRAINER_H
#define XSMI_TRAINER_H

#include "optimizer/optimizer.h"
#include "train/window.h"

#include <xsoftmax/trainer.h>

struct xsm_trainer {
    xsm_context *context;
    xsm_model *model;
    const xsm_dataset *train;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer_options options;
    xsmi_window *window;    /* NULL: batches one by one */
    xsm_gradient *gradient; /* without a window */
    uint64_t rows;
    uint64_t *order;       /* [rows] */
    uint64_t *next_order;  /* [rows] the next epoch's, or NULL where none is planned ahead */
    double *etas;          /* [window steps] */
    double stretch;        /* of the schedule: passes that a pass counts for */
    double decayed, decay; /* passes that it has gone down for, and its factor then */
    uint64_t *marks;       /* of weights that may have changed, or NULL */
    uint64_t window_steps;
    int32_t layout; /* of the weights */
    uint64_t epoch; /* complete ones */
    uint64_t place; /* rows of the current epoch that are done */
    uint64_t step, examples;
    double loss_sum, eta, seconds;
    double active;              /* sum over examples of the share of their coefficients that are listed */
    bool ordered;               /* `order` is the current epoch's */
    uint64_t ahead;             /* epoch that `next_order` is of, or UINT64_MAX */
    bool pending;               /* a complete epoch has not been evaluated and told of yet */
    bool telling;               /* the callback is being told of it right now */
    double last_call, interval; /* seconds between two calls within an epoch */
    uint64_t fingerprint;       /* of `train`, once it is known */
    bool fingerprint_known;
    xsm_metrics train_metrics, test_metrics;
};

/* Options with their defaults, checked against the estimator; `given` may be NULL. */
xsm_status xsmi_trainer_read_options(const xsm_trainer_options *given, const xsm_estimator *e, xsm_trainer_options *o,
                                     xsm_error *err);
/* Has the schedule count each pass as `stretch` passes, so that a run of few epochs sees the schedule of a long one. */
void xsmi_trainer_stretch(xsm_trainer *t, double stretch);
/* Has the trainer mark (model.h) the weights that its steps may change; false, and it does not, where it takes batches.
 * `marks` is borrowed. */
bool xsmi_trainer_mark(xsm_trainer *t, uint64_t *marks);
/* Of the coefficients of all steps so far, the share that steps were taken for: of a sifted gradient those that are not
 * 0, of a search those listed, of another all. */
double xsmi_trainer_active(const xsm_trainer *t);
/* Has the callback told so often within an epoch; for tests, 0: after every window or batch. */
void xsmi_trainer_call_every(xsm_trainer *t, double seconds);
/* Refuses a trainer whose parts were bound to something else meanwhile. */
xsm_status xsmi_trainer_check(const xsm_trainer *t, xsm_error *err);
/* Puts the rows into the order of the current epoch. */
void xsmi_trainer_order_rows(xsm_trainer *t);

#endif
