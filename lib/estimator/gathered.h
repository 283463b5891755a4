/*
 * Batches on a divided model whose estimator lists some classes, where the gradient of the rows (dL/dphi) is wanted, or
 * where all examples share draws.
 *
 * Such a gradient is a sum over the list in its order, and scores of shared draws are products of matrices, with
 * classes of several ranks. So all ranks get the weights of the classes that the batch lists, each class's once, from
 * the rank that has it; they divide the examples, compute them as one process does, and exchange what came of it. All
 * have then the gradient of the whole batch, with the bits of one process.
 */
#ifndef XSMI_ESTIMATOR_GATHERED_H
#define XSMI_ESTIMATOR_GATHERED_H

#include "estimator/pass.h"

/* Whether a batch is computed so, for a reserved gradient whose form is known. */
bool xsmi_pass_gathers(const xsmi_pass *p);
/* Sets which examples this rank computes, whole blocks of XSMI_SHARED_ROWS if they share draws; all examples, if the
 * table keeps a state for each row. Returns whether the ranks divide them. */
bool xsmi_gather_range(xsmi_pass *p);
/* Lists the classes of all examples, or takes those that they share, and gathers the weights: 4 bytes for each feature,
 * and 12 or 16, for each class of this rank that the batch lists. The ranks agree on a failure. */
xsm_status xsmi_gather_weights(const xsmi_pass *p, xsm_error *err);
/* Reserves the memory of the next, before the scores or the weights are exchanged; of shared draws once there are
 * such. */
xsm_status xsmi_gather_reserve(const xsmi_pass *p, xsm_error *err);
/* Gives all ranks what each has computed of its examples: 4 bytes for each feature (8 with a first layer, whose hidden
 * vectors each has of its examples), each entry of an example (and 8 of proximal tables) and each class that the
 * examples share, and 8. `status` is that of this rank's computation; the ranks learn of a failure by what they send.
 * Where each computes all examples, it is returned as it is. */
xsm_status xsmi_gather_results(const xsmi_pass *p, xsm_status status, xsmi_outcome *outcome, xsm_error *err);

/* The weights that listed classes are scored with, and the row there of each class of an example's list. */
static inline const xsmi_weights *xsmi_listed_weights(const xsm_estimator *e, const xsm_gradient *g)
{
    return g->work.gathered.used ? &g->work.gathered.rows : &e->model->w;
}
static inline const uint32_t *xsmi_listed_classes(const xsm_gradient *g, uint64_t i)
{
    return (g->work.gathered.used ? g->work.gathered.slots : g->classes) + i * g->width;
}

#endif
