/*
 * The whole objective of an estimator that scores every class, f = sum_i loss_i + (mu/2) ||W||^2, and its gradient.
 */
#ifndef XSMI_OBJECTIVE_H
#define XSMI_OBJECTIVE_H

#include "estimator/estimator.h"

typedef struct xsmi_objective xsmi_objective;

/* Requires an exact estimator, bound to the model and the rows, and model scales of 1. Parameters are the weights in
 * the model's order without gaps, then the bias. */
xsm_status xsmi_objective_new(xsm_context *ctx, xsm_model *m, const xsm_dataset *train, xsm_estimator *e,
                              xsmi_objective **out, xsm_error *err);
void xsmi_objective_free(xsmi_objective *o);
/* Returns the number of parameters: K D, and K more with a bias. */
size_t xsmi_objective_size(const xsmi_objective *o);
/* Copies the model's parameters to x. */
xsm_status xsmi_objective_read(xsmi_objective *o, double *x, xsm_error *err);

/* pause(user, rows, err) is called from time to time during an evaluation, with the number of rows done; a status other
 * than XSM_OK ends it. NULL: none. */
typedef xsm_status (*xsmi_objective_pause)(void *user, uint64_t rows, xsm_error *err);
void xsmi_objective_set_pause(xsmi_objective *o, xsmi_objective_pause pause, void *user);

/* Computes f/N and its gradient at x, and copies x, rounded, to the model's parameters. *loss is the sum of the losses
 * without the penalty. */
xsm_status xsmi_objective_at(xsmi_objective *o, const double *x, double *f, double *loss, double *gradient,
                             xsm_error *err);

#endif
