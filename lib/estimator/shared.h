/*
 * Draws that all examples of a minibatch share.
 *
 * One set S of classes is drawn for the batch; an example's list is its labels and what of S is none of them. What is
 * said of each list stays as it is for draws of its own, so that tables of estimators need not know; but of dense rows
 * (hidden vectors, mostly) the scores of S, what goes back to the rows and the gradient of the weights are products of
 * matrices, which cost a fraction of as many rows of weights that go to memory one by one.
 */
#ifndef XSMI_SHARED_H
#define XSMI_SHARED_H

#include "base/base.h"

#include <xsoftmax/error.h>

struct xsm_estimator;
struct xsm_gradient;
struct xsmi_input_gradient;

/* Examples that one job takes: the lanes of a product. */
#define XSMI_SHARED_ROWS XSMI_LANES

typedef struct xsmi_shared {
    uint32_t count;       /* |S|; 0: examples have draws of their own */
    bool product;         /* the rows are dense: `rows` and `dense` are in use */
    uint32_t *classes;    /* [count], none twice */
    uint32_t *draws;      /* [count] */
    double *log_expected; /* [count] */
    uint32_t *column;     /* [K] place in `classes`, XSMI_NO_CLASS = not drawn */
    float *rows;          /* [count][stride] their weights, scales multiplied in */
    float *bias;          /* [count] */
    size_t stride;
    float *dense; /* [examples][dense_stride] coefficients of S, those of labels in S among them */
    size_t dense_stride;
    float *scratch; /* [slots][scratch_each] */
    size_t scratch_each;
    size_t class_capacity, column_capacity, row_capacity, dense_capacity, scratch_capacity;
} xsmi_shared;

/* Releases what a gradient has of this; says that no draws are shared. */
void xsmi_shared_clear(struct xsm_gradient *g);
void xsmi_shared_forget(struct xsm_gradient *g);
/* Refuses a sampler whose draws depend on the row. */
xsm_status xsmi_shared_check(const struct xsm_estimator *e, xsm_error *err);
/* Draws for a batch of n examples, whose rows g has taken already, and makes room for `slots` threads. Nothing where
 * the draws are not to be shared, or there is one example. */
xsm_status xsmi_shared_draw(const struct xsm_estimator *e, struct xsm_gradient *g, uint64_t n, uint32_t slots,
                            xsm_error *err);
/* The lists of the examples first..first+count. */
void xsmi_shared_select(const struct xsm_estimator *e, struct xsm_gradient *g, uint64_t first, uint64_t count);
/* With `product`, in place of xsmi_estimator_scores() and xsmi_input_gradient_take(), for at most XSMI_SHARED_ROWS
 * examples. Input NULL: what goes back to the rows is not wanted, but the optimizer's matrix is made. */
bool xsmi_shared_scores(const struct xsm_estimator *e, struct xsm_gradient *g, uint64_t first, uint64_t count,
                        uint32_t slot);
bool xsmi_shared_backward(const struct xsm_estimator *e, struct xsm_gradient *g,
                          const struct xsmi_input_gradient *input, uint64_t first, uint64_t count, uint32_t slot);

#endif
