/*
 * The state of the estimator `implicit`, and its step for batches.
 */
#ifndef XSMI_IMPLICIT_H
#define XSMI_IMPLICIT_H

#include "methods/double_sum.h"

typedef struct xsmi_implicit {
    xsmi_double_sum sum; /* first: the shared functions read the state as this type */
    int32_t solver;
    double tolerance;
    double ridge;
    const xsmi_kernels *kernels;
    double bias;            /* 1 with a bias, otherwise 0 */
    uint64_t *class_counts; /* [classes] with an L2 penalty (ridge), otherwise NULL */
    double *work;           /* [work_count] scratch for batches */
    size_t work_count;
} xsmi_implicit;

#endif
