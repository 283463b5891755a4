/*
 * Chooses the rows of a sample: one of each of equal parts, at a position given by a hash, so that periods in the order
 * of the rows do not matter.
 */
#ifndef XSMI_SAMPLE_H
#define XSMI_SAMPLE_H

#include "base/hash.h"
#include "base/order.h"

/* Returns the first row of part i of `wanted` equal parts; with a hundred million parts it may be a row off. */
static inline uint64_t xsmi_sample_part(uint64_t rows, uint64_t wanted, uint64_t i)
{
    const uint64_t whole = rows / wanted, rest = rows % wanted;
    return i * whole + XSMI_MIN((uint64_t)((double)i * (double)rest / (double)wanted), rest);
}

/* Returns row i of a sample of `wanted` rows, rising with i; if that is all rows, row i. */
static inline uint64_t xsmi_sample_row(uint64_t rows, uint64_t wanted, uint64_t i)
{
    if (rows == wanted) {
        return i;
    }
    const uint64_t first = xsmi_sample_part(rows, wanted, i);
    return first + xsmi_hash(&i, sizeof i, 0) % (xsmi_sample_part(rows, wanted, i + 1) - first);
}

#endif
