/*
 * Inside of optimizers, for the training loops.
 *
 * An optimizer is a table of three ways to change a model: one example on a class-major model (the inner loop of
 * windows of single steps), a batch on a class-major model a class at a time, and a batch on every class. A class's row
 * is only ever changed by one thread at a time, in the order of the examples.
 */
#ifndef XSMI_OPTIMIZER_H
#define XSMI_OPTIMIZER_H

#include "estimator/estimator.h"

#include <xsoftmax/optimizer.h>

typedef struct xsmi_optimizer_ops {
    const char *name;
    /* One example: w_k <- shrink_k (decay w_k - eta g_k x) for the classes listed, b_k <- b_k - eta g_k, where the
     * decay is in `alpha`, the model's alpha after the step. shrinks NULL: all ones. Then those longer than `bound` are
     * scaled to it; 0 = none, else the model has row_scale and row_length. */
    void (*step)(xsm_model *model, const xsmi_features *x, uint32_t count, const uint32_t *classes,
                 const float *coefficients, const double *shrinks, double eta, double alpha, double bound);
    /* One class of a batch, sampled: its row takes the places entry[0..count) of g, in that order. */
    void (*step_class)(xsm_model *model, const xsm_batch *batch, const xsm_gradient *g, uint32_t class,
                       const uint64_t *entries, size_t count, double eta, double alpha);
    /* The classes first..first+count of a batch whose gradient has every class. */
    void (*step_range)(xsm_model *model, const xsm_batch *batch, const xsm_gradient *g, uint32_t first, uint32_t count,
                       double eta, double alpha);
} xsmi_optimizer_ops;

struct xsm_optimizer {
    xsm_context *context;
    const xsmi_optimizer_ops *ops;
    xsm_model *model; /* NULL = not bound */
    uint64_t *sorted; /* places of a batch by class, two halves for sorting */
    size_t sorted_capacity;
    size_t *starts; /* where a class's places begin */
    size_t starts_capacity;
};

/* The model's alpha below which the scales are multiplied into the rows, so that float32 rows keep their range. */
#define XSMI_ALPHA_LEAST 1e-6

/* Makes what steps of a gradient need beside the weights: scales for proximal ones and bounded rows, lengths for
 * bounded rows; lengths that these steps would not keep right are dropped. Refuses models whose layout does not go with
 * it. */
xsm_status xsmi_optimizer_prepare(xsm_model *m, bool proximal, double bound, xsm_error *err);

/* The alpha after a decay; multiplies scales that have grown small into the rows first. The caller sets m->alpha to it
 * when the step is done. */
xsm_status xsmi_optimizer_decay(xsm_model *m, double decay, double *alpha, xsm_error *err);

extern const xsmi_optimizer_ops xsmi_sgd_ops;

#endif
