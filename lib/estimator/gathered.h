/*
 * Batches on a divided model whose estimator lists some classes, where the gradient of the rows (dL/dx) is wanted, or
 * where all examples share draws.
 *
 * Such a gradient is a sum over the list in its order, and scores of shared draws are products of matrices; both
 * involve classes of several processes. So all processes get the weights of the classes that the batch lists, each
 * class's once, from the process that has it; they divide the examples, compute them as one process does, and exchange
 * the results. All then have the gradient of the whole batch, with the same bits as one process.
 */
#ifndef XSMI_ESTIMATOR_GATHERED_H
#define XSMI_ESTIMATOR_GATHERED_H

#include "estimator/pass.h"

/* Whether a batch is computed in this way, for a reserved gradient whose form is known. */
bool xsmi_pass_gathers(const xsmi_pass *p);
/* Sets which examples this process computes: whole blocks of XSMI_SHARED_ROWS if they share draws, and all examples if
 * the table stores state for each row. Returns whether the processes divide them. */
bool xsmi_gather_range(xsmi_pass *p);
/* Lists the classes of all examples, or takes those that they share, and gathers their weights. For each of its classes
 * that the batch lists, a process sends 4 bytes for each feature, and 12 or 16. The processes agree on a failure. */
xsm_status xsmi_gather_weights(const xsmi_pass *p, xsm_error *err);
/* Reserves the memory of xsmi_gather_results(). Called before the scores or the weights are exchanged and, with shared
 * draws, after drawing. */
xsm_status xsmi_gather_reserve(const xsmi_pass *p, xsm_error *err);
/* Gives all processes the results of each. For each of its examples, a process sends 4 bytes for each feature (8 with a
 * first layer, for the hidden vectors), for each entry (12 with proximal tables) and for each class that the examples
 * share, and 8 more. `status` is that of this process's computation: the exchange tells the others of a failure. Where
 * each process computes all examples, it only returns `status`. */
xsm_status xsmi_gather_results(const xsmi_pass *p, xsm_status status, xsmi_outcome *outcome, xsm_error *err);

/* Return the weights that listed classes are scored with, and the row there of each class of an example's list. */
static inline const xsmi_weights *xsmi_listed_weights(const xsm_estimator *e, const xsm_gradient *g)
{
    return g->work.gathered.used ? &g->work.gathered.rows : &e->model->w;
}
static inline const uint32_t *xsmi_listed_classes(const xsm_gradient *g, uint64_t i)
{
    return (g->work.gathered.used ? g->work.gathered.slots : g->classes) + i * g->width;
}

#endif
