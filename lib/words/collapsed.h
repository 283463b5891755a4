/*
 * The collapsed skip-gram objective and its gradients.
 */
#ifndef XSMI_COLLAPSED_H
#define XSMI_COLLAPSED_H

#include "words/cooccurrence.h"

typedef struct xsmi_collapsed xsmi_collapsed;

/* The vectors of a gradient. */
enum { XSMI_INPUT, XSMI_OUTPUT };

/* Makes the objective of models that xsmi_word_models_check() has prepared. Options have their defaults filled in;
 * their estimator is the task's. */
xsm_status xsmi_collapsed_new(const xsmi_word_task *task, const xsm_skipgram_fit_options *o, xsmi_collapsed **out,
                              xsm_error *err);
void xsmi_collapsed_free(xsmi_collapsed *c);
/* Computes the objective, or with an estimator its estimate, and the gradient of one side's vectors:
 * [V][xsmi_row_stride(D)], each row divided by the share of the pairs with the word as centre (input) or context
 * (output); rows of words without pairs are zero. */
xsm_status xsmi_collapsed_at(xsmi_collapsed *c, int side, double *objective, xsm_error *err);
/* Returns that gradient, for tests that compare it with differences of the objective. */
const float *xsmi_collapsed_gradient(const xsmi_collapsed *c);

#endif
