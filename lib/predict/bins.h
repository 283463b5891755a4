/*
 * Bins of the calibration error: of equal width, by the probability of a row's best class.
 */
#ifndef XSMI_BINS_H
#define XSMI_BINS_H

#include "base/order.h"

enum { XSMI_BINS = 15 };

static inline size_t xsmi_bin_of(double probability)
{
    return probability < 1 ? XSMI_MIN((size_t)(probability * XSMI_BINS), XSMI_BINS - 1) : XSMI_BINS - 1;
}

#endif
