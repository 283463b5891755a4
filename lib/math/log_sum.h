/*
 * Sums of exponentials of scores (logits), relative to the largest score so that none overflows.
 */
#ifndef XSMI_LOG_SUM_H
#define XSMI_LOG_SUM_H

#include "base/order.h"
#include "kernels/arithmetic.h"

#include <math.h>

/* A sum of e^z, which is e^max * sum. */
typedef struct xsmi_log_sum {
    float max;
    double sum;
} xsmi_log_sum;

/* The sum over no score. */
#define XSMI_LOG_SUM_INIT                                                                                              \
    {                                                                                                                  \
        -INFINITY, 0                                                                                                   \
    }

/* Adds the scores of the next class run (XSMI_RUN_CLASSES). The sum of the first run stays as it is. A sum that is
 * NaN, for a score of NaN or +INFINITY, stays NaN. */
static inline void xsmi_log_sum_join(xsmi_log_sum *s, const xsmi_log_sum *run)
{
    const float max = XSMI_MAX(run->max, s->max);
    /* Where every score is -INFINITY, shifting by 0 gives exponentials of 0, not NaN. */
    const float shift = max == -INFINITY ? 0.0f : max;
    s->sum = s->sum * (double)xsmi_expf0(s->max - shift) + run->sum * (double)xsmi_expf0(run->max - shift);
    s->max = max;
}

#endif
