/*
 * The collective calls of a context's group of processes, by the host's communicator (ext/comm.h), with a status.
 *
 * Every process makes the same calls in the same order. A process whose part of a call has failed still takes part in
 * the next xsmi_agree(), which ends the call on all processes; nothing is exchanged after an agreement that failed.
 * What a public call exchanges first is an agreement, and all agreements are alike: so it ends everywhere, too, where
 * one process fails before it, of an argument say.
 */
#ifndef XSMI_COMM_H
#define XSMI_COMM_H

#include "base/group.h"

uint32_t xsmi_ranks(const xsm_context *ctx);
uint32_t xsmi_rank(const xsm_context *ctx);
xsmi_sent xsmi_sent_by(const xsm_context *ctx);

/* What a public call that needs a group returns behind XSMI_ENTER(err); `call` also checks the arguments. A failure in
 * one process is one in all. Here and below the context NULL means this process alone; outside such a call an exchange
 * fails. */
#define XSMI_COLLECTIVE(group, call, err) (xsmi_collective_begin(group), xsmi_collective_end(group, call, err))
void xsmi_collective_begin(xsm_context *group);
xsm_status xsmi_collective_end(xsm_context *group, xsm_status status, xsm_error *err);
/* The group of a context: itself, or NULL where it has one process. */
xsm_context *xsmi_context_group(xsm_context *ctx);

/* Makes all processes return the same status: XSM_OK if `status` is XSM_OK in each; otherwise the status and the
 * message of the first process where it is not. Each sends 28 bytes, and after a failure that process its error. */
xsm_status xsmi_agree(xsm_context *ctx, xsm_status status, xsm_error *err);
/* For a call, or a part of one, with several agreements. xsmi_agree_begin() begins it. xsmi_agree_once() agrees on a
 * failure, unless all processes have done so already. */
void xsmi_agree_begin(xsm_context *ctx);
xsm_status xsmi_agree_once(xsm_context *ctx, xsm_status status, xsm_error *err);
/* Whether all processes have learnt of a failure since xsmi_agree_begin(), or can no longer be told of one. */
bool xsmi_agreed(const xsm_context *ctx);
/* Whether the processes have exchanged something since the last xsmi_agree_begin(): then the others may already be
 * further than a process that now fails alone. */
bool xsmi_met(const xsm_context *ctx);
/* xsmi_agree(), which also fails if processes do not have the same number `mine`: with the status `unlike` and the
 * message of the first process whose number is not process 0's. A process that has failed may call xsmi_agree(). */
xsm_status xsmi_agree_same(xsm_context *ctx, xsm_status status, uint64_t mine, xsm_status unlike, const char *message,
                           xsm_error *err);
/* Sets *same to whether a number is that of process 0, which sends 8 bytes. */
xsm_status xsmi_compare_first(xsm_context *ctx, uint64_t mine, bool *same, xsm_error *err);
/* Ends an agreement that began within another exchange, from which all processes know that `first` is the first that
 * has failed. All return its status and message, which it sends. */
xsm_status xsmi_agree_failed(xsm_context *ctx, uint32_t first, xsm_status status, xsm_error *err);
/* Replaces each value by the largest of all processes. */
xsm_status xsmi_exchange_max(xsm_context *ctx, float *values, size_t count, xsm_error *err);
/* Fills `all` with the blocks of all processes one after another; that of process r has sizes[r] bytes. */
xsm_status xsmi_exchange_blocks(xsm_context *ctx, const void *mine, void *all, const size_t *sizes, xsm_error *err);
/* Copies the data of process `root` to all others. */
xsm_status xsmi_exchange_copy(xsm_context *ctx, void *data, size_t bytes, uint32_t root, xsm_error *err);

#endif
