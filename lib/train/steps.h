/*
 * Takes steps of one example each, in blocks of independent steps.
 */
#ifndef XSMI_STEPS_H
#define XSMI_STEPS_H

#include "estimator/estimator.h"
#include "optimizer/optimizer.h"

/* The steps to take. */
typedef struct xsmi_step_list {
    const xsm_gradient *drawn; /* the lists of all steps; each row occurs once */
    double *alphas;            /* [steps+1] the model's alpha before each step and after the last */
    const double *etas;        /* [steps] */
    uint64_t taken;            /* steps that the optimizer has taken before the list */
} xsmi_step_list;

typedef struct xsmi_stepper xsmi_stepper;

/* Makes an object that takes the estimator's steps on the optimizer's model, on up to the context's number of threads
 * at a time. */
xsm_status xsmi_stepper_new(xsm_context *ctx, xsm_estimator *e, xsm_optimizer *o, xsmi_stepper **out, xsm_error *err);
void xsmi_stepper_free(xsmi_stepper *t);
/* Takes the steps order[0..count) of a list, or 0..count if order is NULL, and writes the loss of step s to losses[s].
 * The result has the same bits as taking one step after another. Returns the first step that was not finite, UINT64_MAX
 * if all were finite. Steps before it were taken; it and later ones were not, but an estimator may have changed its
 * state for the rows of the next few. Does not change the model's alpha. */
uint64_t xsmi_stepper_run(xsmi_stepper *t, const xsmi_step_list *list, const uint32_t *order, double *losses,
                          uint64_t count, uint32_t thread);

#endif
