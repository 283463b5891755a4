/*
 * Gradients over all classes of losses to which only the classes of highest scores (logits) contribute. While the
 * scores of a tile of classes are computed, the classes that may still contribute are listed, and the N x K matrix of
 * scores is never stored.
 *
 * A score can be dropped if it is at or below a bar, which is the threshold of the projection onto the simplex (the
 * smoothed margin's gradient, Yen et al. 2018, eq. 10) of the scores so far: more scores only raise it. The classes are
 * cut into ranges whose length depends only on the model. Each range has its own bar, so that lists and sums do not
 * depend on the number of threads.
 */
#ifndef XSMI_SIFTED_H
#define XSMI_SIFTED_H

#include "estimator/estimator.h"

/* Fills g->classes, lengths and scores of the batch's examples, which g->example has already: first the labels in their
 * order, then other classes in rising order, which include all that contribute to the loss. If scores are not finite,
 * the first one is NaN. Sets the coefficients to zeros. Takes O(n K) for the scores, and little more. `scored`: the
 * scores are already in place of the coefficients. */
xsm_status xsmi_sift(const xsm_estimator *e, xsm_gradient *g, const xsm_batch *batch, bool scored, xsm_error *err);
/* Removes coefficients that are 0 from the lists of the examples first..first+count, where they replaced the scores,
 * and copies the others to the array for all classes. */
void xsmi_sift_spread(xsm_gradient *g, uint64_t first, uint64_t count);

#endif
