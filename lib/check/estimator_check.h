/*
 * A test of an estimator's table: its gradients are compared with themselves, and its lists, losses and coefficients
 * tested.
 */
#ifndef XSMI_CHECK_ESTIMATOR_H
#define XSMI_CHECK_ESTIMATOR_H

#include "check/failures.h"
#include "check/made_rows.h"
#include "estimator/pass.h"

enum {
    XSMI_TRIAL_ROWS = 70,   /* more than a chunk of the library's */
    XSMI_TRIAL_FIRST = 1000 /* position of the first row */
};

typedef struct xsmi_estimator_trial {
    xsm_context *context;
    const xsm_estimator_ops *ops;
    const xsm_estimator_check_options *options;
    xsmi_trial_shape shape;
    bool bias, smallest;
    xsm_dataset *data;
    xsm_model *model;
} xsmi_estimator_trial;

/* A gradient of a trial. */
typedef struct xsmi_trial_run {
    uint64_t first, count; /* the rows */
    uint64_t split;        /* examples a block */
    uint64_t batch;        /* of each step */
    int junk;              /* what uninitialised memory is filled with; bytes 0xff are NaN, 0x3f about 0.75 or a half */
    bool anew;             /* binds before, which must reset a row's state */
} xsmi_trial_run;

/* Reports an error of the table. */
xsm_status xsmi_estimator_fault(const xsmi_estimator_trial *t, xsm_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Makes an estimator with the options of the trial, bound to its data. */
xsm_status xsmi_estimator_trial_make(const xsmi_estimator_trial *t, xsm_context *ctx, xsm_estimator **out,
                                     xsm_error *err);
/* Sets weights up to `size`, and biases up to `bias` on a grid of 2^-16, so that small changes of biases are exact. */
xsm_status xsmi_estimator_trial_fill(const xsmi_estimator_trial *t, double size, double bias, uint64_t seed,
                                     xsm_error *err);
/* Computes a gradient. `g` has one more example than requested, which must remain junk. */
xsm_status xsmi_estimator_trial_run(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g,
                                    const xsmi_trial_run *how, xsm_error *err);
/* Checks that two gradients have the same bits. */
xsm_status xsmi_estimator_trial_same(const xsmi_estimator_trial *t, const xsm_gradient *a, const xsm_gradient *b,
                                     const char *when, xsm_error *err);
/* Checks the conditions that every gradient must meet. */
xsm_status xsmi_estimator_trial_numbers(const xsmi_estimator_trial *t, const xsm_gradient *g, bool finite,
                                        xsm_error *err);

/* Check the conditions for the list of an example, and that select() fills lists that meet them. */
xsm_status xsmi_estimator_trial_list(const xsmi_estimator_trial *t, const xsm_example *example, const uint32_t *classes,
                                     uint32_t length, uint64_t width, xsm_error *err);
xsm_status xsmi_estimator_trial_lists(const xsmi_estimator_trial *t, const xsm_estimator *e, xsm_error *err);

/* Check that coefficients are the slopes of losses, and that they are finite at large scores. */
xsm_status xsmi_estimator_trial_slopes(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g,
                                       xsm_gradient *other, xsm_error *err);
xsm_status xsmi_estimator_trial_extremes(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g,
                                         xsm_error *err);

#endif
