/*
 * Work that the ranks of a context divide among them: which rank does what, and what each has made, on all.
 *
 * Every rank makes the same calls in the same order, with pieces of work and arrays of the same sizes.
 */
#ifndef XSMI_SHARE_H
#define XSMI_SHARE_H

#include "base/comm.h"

/* Things in a row that are divided evenly, a contiguous share for each rank: the first of a rank's share, for the
 * number of ranks the number of things, which is at most 2^48; and the rank that has one. */
static inline uint64_t xsmi_share_start(uint64_t count, uint32_t ranks, uint32_t rank)
{
    return count * rank / ranks;
}
static inline uint32_t xsmi_share_of(uint64_t count, uint32_t ranks, uint64_t at)
{
    return (uint32_t)(((at + 1) * ranks - 1) / count); /* the last rank whose share begins at or before it */
}

/* An array that one rank has filled. */
typedef struct xsmi_shared {
    void *data;
    size_t bytes;
    uint32_t owner;
} xsmi_shared;

/* Gives pieces of work to the ranks, the largest first (of equal ones the first), each to the rank that has least by
 * then (of equal ones the lowest): owner[count], the same on every rank. O(count log count). */
xsm_status xsmi_share_work(xsm_context *ctx, const uint64_t *work, size_t count, uint32_t *owner, xsm_error *err);

/* Brings each array from its owner to all other ranks, in rounds of a few MiB, if all ranks are well: xsmi_agree() on
 * `status`. With a status that is not XSM_OK `arrays` may be NULL. A rank sends the bytes that it owns. */
xsm_status xsmi_share_arrays(xsm_context *ctx, xsm_status status, const xsmi_shared *arrays, size_t count,
                             xsm_error *err);

#endif
