/*
 * The stages of a batch in an estimator. Each stage reads the batch pass and fills the gradient; a stage that meets
 * numbers that are not finite records it in the outcome, and the caller reports it.
 */
#ifndef XSMI_PASS_H
#define XSMI_PASS_H

#include "base/order.h"
#include "estimator/estimator.h"

/* The output array for dL/dx: the gradient of example i is at values + i*stride, D floats. */
typedef struct xsmi_input_gradient {
    float *values;
    size_t stride;
} xsmi_input_gradient;

/* A batch pass: one batch and what is computed for it. */
typedef struct xsmi_pass {
    xsm_estimator *estimator;
    xsm_gradient *gradient;
    const xsm_batch *batch; /* checked */
    double eta;
    const xsmi_input_gradient *input; /* where the gradient of the rows goes; NULL = nowhere */
    bool lists;                       /* the lists also contain classes that an optimizer finds in the shared matrix */
    uint64_t first, end;              /* the examples that this process computes */
    /* Of a recomputed gradient, otherwise NULL: returns the coefficients [rows][end-first] of the examples
     * row..row+rows, at most XSMI_EXAMPLE_CHUNK, for at most xsmi_recomputed::chunk_classes of a run. */
    const float *(*recompute)(const xsm_gradient *g, uint64_t row, uint64_t rows, uint32_t first, uint32_t end,
                              uint32_t thread);
    bool some_hidden; /* with a first layer: computes hidden vectors only for these; the others come with results */
} xsmi_pass;

/* Joins another outcome: the largest |g| ||(x,1)|| so far, and whether all numbers are finite. */
static inline void xsmi_outcome_join(xsmi_outcome *o, const xsmi_outcome *other)
{
    o->finite &= other->finite;
    o->largest = XSMI_MAX(other->largest, o->largest);
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Copies a caller's batch, and checks that a bound estimator can take it. */
xsm_status xsmi_estimator_read_batch(const xsm_estimator *e, const xsm_batch *given, xsm_batch *batch, xsm_error *err);
/* Sets the gradient's rows to those of the batch, or to their hidden vectors; computes the codes of rows that come with
 * the batch. `aside` (NULL = nothing) runs beside that. */
xsm_status xsmi_pass_set_rows(const xsmi_pass *p, const xsmi_aside *aside, xsm_error *err);
/* Fills the gradient's examples first..first+count, and computes ||x||^2 of rows that came with the batch. */
void xsmi_pass_list_examples(const xsmi_pass *p, uint64_t first, uint64_t count);
/* Propagates the gradient of the examples first..first+count back through the first layer. */
void xsmi_pass_layer_backward(const xsmi_pass *p, uint64_t first, uint64_t count, xsmi_outcome *outcome);

/* -- kinds of batches ---------------------------------------------------------------------------------------------- */

/* Computes dL/dx of the examples first..first+count from their coefficients; returns false if one is not finite. Where
 * every class has a coefficient, the gradient's work has xsmi_pass_backward_scratch() floats of `shards` for each
 * thread. */
bool xsmi_pass_backward(const xsmi_pass *p, uint64_t first, uint64_t count, uint32_t thread);
size_t xsmi_pass_backward_scratch(const xsmi_pass *p);
/* Where every class has a coefficient: xsmi_pass_backward_node() computes, for `rows` examples from `first` on (at most
 * xsmi_pass_rows_together(), and one in sifted gradients), the sum over the classes of a node (gradient/shards.h), all
 * of them this process's; see xsmi_shard_node(). */
uint64_t xsmi_pass_rows_together(const xsmi_pass *p, uint64_t rows);
bool xsmi_pass_backward_node(const xsmi_pass *p, uint64_t first, uint64_t rows, uint32_t thread, uint32_t shard,
                             uint32_t count, float *out, size_t stride);
/* Computes a batch whose classes are searched. (searcher.c) */
xsm_status xsmi_pass_search(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err);

/* Refuses models whose batches cannot be processed as a whole. */
xsm_status xsmi_estimator_check_joint(const xsm_estimator *e, xsm_error *err);
/* Whether a batch of that size is processed as a whole. */
static inline bool xsmi_estimator_is_joint(const xsm_estimator *e, uint64_t batch)
{
    return batch > 1 && e->ops.joint;
}

#endif
