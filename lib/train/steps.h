/*
 * Taking steps of one example each, in blocks of steps that do not touch one another.
 */
#ifndef XSMI_STEPS_H
#define XSMI_STEPS_H

#include "optimizer/optimizer.h"

/* Steps that are to be taken. */
typedef struct xsmi_step_list {
    const xsm_gradient *drawn; /* the lists of all steps; no row twice */
    double *alphas;            /* [steps+1] the model's alpha before each step and after the last */
    const double *etas;        /* [steps] */
} xsmi_step_list;

typedef struct xsmi_stepper xsmi_stepper;

/* For the estimator's steps on the optimizer's model, on up to the context's number of threads at once. */
xsm_status xsmi_stepper_new(xsm_context *ctx, xsm_estimator *e, xsm_optimizer *o, xsmi_stepper **out, xsm_error *err);
void xsmi_stepper_free(xsmi_stepper *t);
/* Takes the steps order[0..count) of a list, or 0..count where order is NULL, and leaves the loss of step s in
 * losses[s]: the result is the same bits as taking one after the other. Returns
 * the first that was not finite, UINT64_MAX if all were; those before it were taken, it and the later ones not, though
 * an estimator may have changed what it keeps for the rows of the few next ones. Leaves the model's alpha alone. */
uint64_t xsmi_stepper_run(xsmi_stepper *t, const xsmi_step_list *list, const uint32_t *order, double *losses,
                          uint64_t count, uint32_t thread);

#endif
