/*
 * Values of pairs of a feature and a class that occur together in training rows: a linear part beside an embedding
 * model's vectors, as sparse as the rows, computed from counts. The score of class k for row x grows by sum_j x_j v_jk,
 * with
 *
 *     v_jk = strength log(1 + 4 p(k|j) / (K p(k))),   p(k|j) = C_jk / (1 + sum_l C_jl),   p(k) = n_k / sum_l n_l,
 *
 * where C_jk is the sum of x_j > 0 over the rows with label k, and n_k their number. p(k|j) / p(k) is the ratio of
 * pointwise mutual information (Church and Hanks 1990). The 1 in the logarithm bounds it from below: pairs that did not
 * occur have the value 0. Among classes of equal size, one that follows feature j with probability p gets log(1 + 4p).
 */
#ifndef XSMI_PAIRS_H
#define XSMI_PAIRS_H

#include "base/base.h"
#include "base/held.h"
#include "data/dataset.h"

typedef struct xsmi_pairs {
    xsm_context *context;
    xsmi_held held; /* the arrays */
    uint32_t features, classes;
    size_t count;
    uint32_t *counts; /* [features] number of classes of each feature */
    uint64_t *start;  /* [features+1] where the classes of each feature begin */
    uint32_t *class;  /* [count] rising for each feature */
    float *value;     /* [count] */
} xsmi_pairs;

/* Allocates `counts` [features] (copied) classes for each feature. `pairs` must be zeros; xsmi_pairs_clear() releases
 * it at any stage. */
xsm_status xsmi_pairs_start(xsm_context *ctx, const uint32_t *counts, uint32_t features, uint32_t classes,
                            xsmi_pairs *pairs, xsm_error *err);
/* Counts pairs in the rows of a sparse dataset. O(non-zeros times labels). `count` is 0 if no pair occurs. */
xsm_status xsmi_pairs_count(xsm_context *ctx, const xsm_dataset *train, double strength, xsmi_pairs *pairs,
                            xsm_error *err);
/* Checks pairs from a file: whether classes exist and rise for each feature, and values are finite. */
bool xsmi_pairs_sound(const xsmi_pairs *pairs);
void xsmi_pairs_clear(xsmi_pairs *pairs);

/* Adds the row's pairs to the scores of `count` classes from `first` on, `stride` floats apart. A class gets the same
 * bits in every range. */
void xsmi_pairs_add_range(const xsmi_pairs *pairs, const xsmi_features *x, uint32_t first, uint32_t count,
                          float *scores, size_t stride);
/* Adds them to the scores of chosen classes. */
void xsmi_pairs_add(const xsmi_pairs *pairs, const xsmi_features *x, const uint32_t *classes, size_t count,
                    float *scores);

#endif
