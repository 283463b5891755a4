/*
 * Exact gradients of losses in which only the best classes have a part: as the scores of a tile of classes come, those
 * are listed that may still matter, and the N x K matrix of scores never exists.
 *
 * A score can be dropped that is at or below a bar, the threshold of the projection onto the simplex (the smoothed
 * margin's gradient, Yen et al. 2018, eq. 10) of those that are there so far: more scores only raise it. The classes
 * are cut into ranges whose length depends on nothing but the model, each with a bar of its own, so that lists and sums
 * do not depend on the number of threads.
 */
#ifndef XSMI_SIFTED_H
#define XSMI_SIFTED_H

#include "estimator/estimator.h"

/* What the state of a table with XSMI_ESTIMATOR_SIFTED begins with. */
typedef struct xsmi_sift_rule {
    double mu; /* width of the margin's smoothing */
} xsmi_sift_rule;

/* Fills g->classes, lengths and scores of the batch's examples, which g->example has already: the labels in their
 * order, then, in rising order, others, among which are all that the loss has a part for. Where scores are not finite
 * the first is NaN. Makes the coefficients zeros. O(n K) for the scores and little beside. */
xsm_status xsmi_sift(const xsm_estimator *e, xsm_gradient *g, const xsm_batch *batch, xsm_error *err);
/* Takes the coefficients that are 0 off the lists of examples first..first+count, which are where the scores were, and
 * puts the others among those of all classes. */
void xsmi_sift_spread(xsm_gradient *g, uint64_t first, uint64_t count);

#endif
