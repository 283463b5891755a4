/*
 * Work that the processes of a context divide: which process does what, and how all get what each has made.
 *
 * Every process makes the same calls in the same order, with pieces of work and arrays of the same sizes.
 */
#ifndef XSMI_SHARE_H
#define XSMI_SHARE_H

#include "ranks/comm.h"

/* An array that one process has filled. */
typedef struct xsmi_shared {
    void *data;
    size_t bytes;
    uint32_t owner;
} xsmi_shared;

/* Assigns pieces of work to the processes: the largest first (of equal ones the first), each to the process that has
 * the least work so far (of equal ones the lowest). Fills owner[count], the same in every process. O(count log
 * count). */
xsm_status xsmi_share_work(xsm_context *ctx, const uint64_t *work, size_t count, uint32_t *owner, xsm_error *err);

/* Agrees on `status` (xsmi_agree()); if all are XSM_OK, sends each array from its owner to all other processes, in
 * rounds of some 8 MiB. With another status `arrays` may be NULL. A process sends the bytes that it owns. */
xsm_status xsmi_share_arrays(xsm_context *ctx, xsm_status status, const xsmi_shared *arrays, size_t count,
                             xsm_error *err);

#endif
