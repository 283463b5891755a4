/*
 * Gradients of every class without the N x K array of coefficients (Wijmans et al., "Cut Your Losses in
 * Large-Vocabulary Language Models", 2024). What is kept of a batch are each example's sums over all classes, as of a
 * divided model (xsm_class_sums). The scores of some classes, and from them their coefficients, are computed for the
 * sums (and for the largest scores before them, unless the sums of class runs are relative to their own), for the
 * gradient of the rows, and once more for the step, which then has them in the cache. Beside 8 n K/4096 bytes for each
 * sum, memory is O(n) class runs for each thread.
 *
 * The paper's two passes are three here: both forms have the same bits, and a step is only taken when all numbers are
 * known to be finite.
 */
#ifndef XSMI_RECOMPUTED_H
#define XSMI_RECOMPUTED_H

#include "estimator/pass.h"

/* Whether a batch's coefficients are not kept: more than xsm_gradient::array_most, of an exact table with class_sums,
 * for a step on weights that score by products of matrices and whose scales it does not fold, which would round them
 * (xsmi_optimizer_prepare()). */
bool xsmi_pass_recomputes(const xsmi_pass *p);
/* Computes such a batch. *done is false, and nothing has changed, if so few coefficients are not 0 that the step would
 * go class by class, whose bits are others: then the array is needed. */
xsm_status xsmi_pass_recomputed(const xsmi_pass *p, xsmi_outcome *outcome, bool *done, xsm_error *err);

#endif
