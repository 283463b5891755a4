/*
 * Linear classifiers, each one class against the rest, trained side by side on the same rows: minimises 1/2 (|w|^2 +
 *     b^2) + C sum_i v_i max(0, 1 - y_i (w x_i + b))^2 for each by dual coordinate descent (Hsieh, Chang, Lin, Keerthi
 *     and Sundararajan, A dual coordinate descent method for large-scale linear SVM, 2008) with their shrinking, or
 *     with the logistic loss log(1 + exp(-y_i (w x_i + b))) in place of the squared hinge (Yu, Huang and Lin, Dual
 *     coordinate descent methods for logistic regression and maximum entropy models, 2011), whose equation of one
 *     variable is solved over its margin: alpha = C sigma(-u), u - y_i (w x_i + b) + (|x_i|^2 + 1) (alpha before -
 *     alpha) = 0. The order of the rows is random; all lanes share it.
 */
#ifndef XSMI_LABEL_DUAL_H
#define XSMI_LABEL_DUAL_H

#include "base/base.h"
#include "base/random.h"

/* The rows of a node. */
typedef struct xsmi_dual_rows {
    const uint64_t *offsets; /* as in xsmi_dual_pass */
    const uint32_t *index;
    const float *value;
    size_t stride, features;
    const uint32_t *source;
    uint32_t count;
    uint32_t width;      /* features are below this */
    const float *square; /* [count] |x|^2 + 1 */
    const float *weight; /* [count] v_i, at least 0; NULL = 1 each. A row of weight 0 is never visited. */
} xsmi_dual_rows;

typedef enum xsmi_dual_loss { XSMI_DUAL_SQUARED_HINGE, XSMI_DUAL_LOGISTIC } xsmi_dual_loss;

typedef struct xsmi_dual_settings {
    double cost;         /* C */
    double epsilon;      /* stop when projected gradients differ by at most this; logistic loss: when the largest is at
                            most this */
    uint32_t iterations; /* most passes */
    xsmi_dual_loss loss;
} xsmi_dual_settings;

/* Scratch and result of up to XSMI_DUAL_LANES classifiers. */
typedef struct xsmi_dual_group {
    uint32_t lanes;
    bool started;             /* weights and bias have values w0 and b0, and |w - w0|^2 + (b - b0)^2 is the penalty */
    const uint16_t *positive; /* [count] lanes in which a row is positive */
    uint16_t *active;         /* [count] scratch */
    uint32_t *order;          /* [count] scratch */
    float *step;              /* [count] scratch */
    float *diagonal;          /* [count] scratch, if rows have weights */
    float *alpha;             /* [count][XSMI_DUAL_LANES] result */
    float *weights;           /* [width][XSMI_DUAL_LANES] result */
    float bias[XSMI_DUAL_LANES];
    uint64_t visits; /* of rows */
} xsmi_dual_group;

/* Trains the group's classifiers. Returns early when the call is cancelled. */
void xsmi_dual_solve(const xsm_context *ctx, const xsmi_dual_rows *rows, const xsmi_dual_settings *settings,
                     xsmi_stream *stream, xsmi_dual_group *group);

#endif
