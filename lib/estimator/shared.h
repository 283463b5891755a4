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

#include "base/base.h"

#include <xsoftmax/error.h>

struct xsm_estimator;
struct xsm_gradient;
struct xsmi_input_gradient;

/* Examples of one job: the lanes of a product. */
#define XSMI_SHARED_ROWS XSMI_LANES

typedef struct xsmi_shared {
    uint32_t count;       /* |S|; 0: each example has its own draws */
    bool product;         /* the rows are dense; `rows` and `dense` are in use */
    uint32_t *classes;    /* [count], each once */
    uint32_t *draws;      /* [count] */
    double *log_expected; /* [count] */
    uint32_t *column;     /* [K] index in `classes`, XSMI_NO_CLASS = not drawn */
    float *rows;          /* [count][stride] their weights, with the scales multiplied in */
    float *bias;          /* [count] */
    size_t stride;
    float *dense; /* [examples][dense_stride] coefficients of S, including labels in S */
    size_t dense_stride;
    float *scratch; /* [slots][scratch_each] */
    size_t scratch_each;
    size_t class_capacity, column_capacity, row_capacity, dense_capacity, scratch_capacity;
} xsmi_shared;

/* Releases a gradient's shared draws and marks them as not shared. */
void xsmi_shared_clear(struct xsm_gradient *g);
void xsmi_shared_forget(struct xsm_gradient *g);
/* Refuses a sampler whose draws depend on the row. */
xsm_status xsmi_shared_check(const struct xsm_estimator *e, xsm_error *err);
/* Draws for a batch of n examples, whose rows g has already, and reserves memory for `slots` threads. Does nothing if
 * draws are not shared, or for a single example. */
xsm_status xsmi_shared_draw(const struct xsm_estimator *e, struct xsm_gradient *g, uint64_t n, uint32_t slots,
                            xsm_error *err);
/* Fills the lists of the examples first..first+count. */
void xsmi_shared_select(const struct xsm_estimator *e, struct xsm_gradient *g, uint64_t first, uint64_t count);
/* With `product`, these replace xsmi_estimator_scores() and xsmi_input_gradient_take(), for at most XSMI_SHARED_ROWS
 * examples. Input NULL: computes no gradient of the rows, but still the optimizer's matrix. */
bool xsmi_shared_scores(const struct xsm_estimator *e, struct xsm_gradient *g, uint64_t first, uint64_t count,
                        uint32_t slot);
bool xsmi_shared_backward(const struct xsm_estimator *e, struct xsm_gradient *g,
                          const struct xsmi_input_gradient *input, uint64_t first, uint64_t count, uint32_t slot);

#endif
