/*
 * Turns scores of nodes into probabilities: a scale and a shift for each level of a tree, fitted to rows that the
 * classifiers were trained on. So that these rows count as new ones, each row's scores are replaced by what they would
 * be if it had not been trained on. Removing a row that misses the margin by e leaves it missing by e (1 + 2 C q), q =
 * x (I + 2 C X^T X)^-1 x over the other rows that miss theirs (the leave-one-out formula of least squares, which the
 * squared hinge is on these rows). Of the matrix only the diagonal is used: q = sum_f x_f^2/(1 + 2 C s_f), s_f the sum
 * of the others' x_f^2.
 */
#ifndef XSMI_LEVEL_SCALE_H
#define XSMI_LEVEL_SCALE_H

#include "base/base.h"

typedef struct xsmi_kept_score {
    float z;
    float label; /* the weight of the row, which is above 0; negative: no label of the row is under the child */
} xsmi_kept_score;

/* Scores of the children of nodes, for some rows; those of a row are neighbours. */
typedef struct xsmi_kept_scores {
    xsmi_kept_score *score;
    size_t count, capacity;
    size_t *end; /* [rows] where each row's scores end */
    size_t rows, row_capacity;
} xsmi_kept_scores;

/* Reserves space for the scores of `rows` rows, each for `children` children. The caller fills it row by row and calls
 * xsmi_kept_scores_end() after each row. */
xsm_status xsmi_kept_scores_reserve(xsmi_kept_scores *c, xsm_context *ctx, uint32_t rows, uint32_t children,
                                    xsmi_kept_score **score, xsm_error *err);
void xsmi_kept_scores_end(xsmi_kept_scores *c, const xsmi_kept_score *end);
void xsmi_kept_scores_free(xsmi_kept_scores *c, xsm_context *ctx);

/* A probability is the sigmoid, or the softmax over siblings, of scale*z + shift. */
typedef struct xsmi_calibrated {
    double scale, shift;
} xsmi_calibrated;

/* Fits a sigmoid: minimises the log-loss with the targets of Platt (Probabilistic outputs for support vector machines,
 * 1999) by Newton's method. If all labels have one sign: scale 1 and shift 0. */
xsmi_calibrated xsmi_calibrate_sigmoid(const xsmi_kept_scores *c);
/* Fits a softmax by a scale alone, one over the temperature of Guo et al. (On calibration of modern neural networks,
 * 2017). Rows without a positive label, or with several, are left out. Uses the context's threads; the result does not
 * depend on their number. */
xsmi_calibrated xsmi_calibrate_softmax(const xsmi_kept_scores *c, xsm_context *ctx);

#endif
