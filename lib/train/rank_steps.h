/*
 * Takes steps of one row each on a model whose classes are divided among processes. Steps that share no class share one
 * exchange.
 */
#ifndef XSMI_RANK_STEPS_H
#define XSMI_RANK_STEPS_H

#include "train/steps.h"

typedef struct xsmi_rank_steps xsmi_rank_steps;

/* Makes an object that takes the estimator's steps on this process's part of a divided model. Sends nothing: the caller
 * makes the processes agree. */
xsm_status xsmi_rank_steps_new(xsm_context *ctx, xsm_estimator *e, xsm_optimizer *o, xsmi_rank_steps **out,
                               xsm_error *err);
void xsmi_rank_steps_free(xsmi_rank_steps *t);
/* Reserves memory for lists of the estimator's present width. Sends nothing: the caller makes the processes agree. */
xsm_status xsmi_rank_steps_reserve(xsmi_rank_steps *t, xsm_error *err);
/* Takes the steps first..first+count of a list, which all processes have, if `status` is XSM_OK on all of them
 * (xsmi_agree()). Writes the loss of step s to losses[s]. *failed is the first step that was not finite, on all
 * processes, UINT64_MAX if all were finite: steps before it were taken; it and later ones were not, but an estimator
 * may have changed its state for the rows of the next few. Does not change the model's alpha. Besides 28 bytes to
 * agree, each process sends 4 bytes for each class of each list, 8 with a bias. */
xsm_status xsmi_rank_steps_run(xsmi_rank_steps *t, const xsmi_step_list *list, uint64_t first, uint64_t count,
                               xsm_status status, double *losses, uint64_t *failed, xsm_error *err);

#endif
