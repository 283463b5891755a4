/* What the files of the trial of optimizers share. */
#ifndef XSMI_CHECK_OPTIMIZER_H
#define XSMI_CHECK_OPTIMIZER_H

#include "optimizer/optimizer.h"

/* Number of steps of each run. */
#define XSMI_OPTIMIZER_TRIAL_STEPS 4

typedef struct xsmi_optimizer_trial {
    xsm_context *context;
    const xsm_optimizer_ops *ops;
    const xsm_optimizer_check_options *options;
    xsm_dataset *data; /* sparse rows */
    float *dense;      /* the same rows, [rows][features] */
} xsmi_optimizer_trial;

/* Reports a fault of the table. */
xsm_status xsmi_optimizer_fault(const xsmi_optimizer_trial *t, xsm_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Tests the rule of a bound optimizer without a model. */
xsm_status xsmi_optimizer_try_rule(const xsmi_optimizer_trial *t, const xsm_optimizer *o, xsm_error *err);

#endif
