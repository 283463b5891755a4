/*
 * Draws that all examples of a minibatch share.
 *
 * One set S of classes is drawn for the batch. An example's list is its labels and the classes of S that are not
 * labels. The numbers of each list have the same meaning as for separate draws, so tables of estimators need no change.
 * For dense rows (mostly hidden vectors), the scores (logits) of S, the gradient of the rows and the gradient of the
 * weights are products of matrices. These cost a fraction of reading as many rows of weights from memory one by one.
 */
#ifndef XSMI_SHARED_H
#define XSMI_SHARED_H

#include "estimator/pass.h"

/* Examples of one job: the lanes of a product. */
#define XSMI_SHARED_ROWS XSMI_LANES

/* Refuses a sampler whose draws depend on the row. */
xsm_status xsmi_shared_check(const xsm_estimator *e, xsm_error *err);
/* Draws for a batch of n examples, whose rows g has already, and reserves memory for `threads` threads. With dense rows
 * the gradient's form is then XSMI_GRADIENT_SHARED. Does nothing if draws are not shared, or for a single example. */
xsm_status xsmi_shared_draw(const xsm_estimator *e, xsm_gradient *g, uint64_t n, uint32_t threads, xsm_error *err);
/* Fills the lists of the examples first..first+count. */
void xsmi_shared_select(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count);
/* For gradients of that form, these replace xsmi_estimator_scores() and xsmi_pass_backward(), for at most
 * XSMI_SHARED_ROWS examples. Without `input` no gradient of the rows is computed, but still the optimizer's matrix. */
bool xsmi_shared_scores(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count, uint32_t thread);
bool xsmi_shared_backward(const xsmi_pass *p, uint64_t first, uint64_t count, uint32_t thread);

#endif
