/*
 * The group of processes of a context: the host's collective calls (ext/comm.h), with a status.
 *
 * Every rank makes the same calls in the same order. A rank whose part of a call has failed still takes part in the
 * next xsmi_agree(), which ends the call on all ranks; nothing is exchanged after an agreement that failed.
 */
#ifndef XSMI_COMM_H
#define XSMI_COMM_H

#include "base/base.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax/ext/comm.h>

/* What this rank has sent. */
typedef struct xsmi_sent {
    uint64_t calls, bytes;
} xsmi_sent;

typedef struct xsmi_group {
    xsm_comm comm; /* ranks = 1 without one */
    xsmi_sent sent;
    bool failed; /* a function of the host's has */
    bool agreed; /* the last agreement was on a failure */
    bool met;    /* since xsmi_agree_begin() the ranks have exchanged something */
} xsmi_group;

/* Reads a host's table; NULL = this process alone. */
xsm_status xsmi_group_read(const xsm_comm *given, xsmi_group *group, xsm_error *err);

uint32_t xsmi_ranks(const xsm_context *ctx);
uint32_t xsmi_rank(const xsm_context *ctx);
xsmi_sent xsmi_sent_by(const xsm_context *ctx);
/* Refuses a context of several ranks for `what`. NULL is accepted. */
xsm_status xsmi_context_need_alone(const xsm_context *ctx, const char *what, xsm_error *err);

/* Whether all ranks are well: XSM_OK if `status` is on each of them; otherwise, on all, the status and the message of
 * the first rank where it is not. 4 bytes, and on a failure an error. Here and below the context NULL is this process
 * alone, which agrees with itself. */
xsm_status xsmi_agree(xsm_context *ctx, xsm_status status, xsm_error *err);
/* For a call with several agreements: begin it, and pass a failure on: agrees on it, unless all ranks have done so
 * already. */
void xsmi_agree_begin(xsm_context *ctx);
xsm_status xsmi_agree_once(xsm_context *ctx, xsm_status status, xsm_error *err);
/* The same at the end of a call that all ranks leave together where it succeeds. */
xsm_status xsmi_agree_end(xsm_context *ctx, xsm_status status, xsm_error *err);
/* Whether, since xsmi_agree_begin(), all ranks know of a failure, or cannot learn of one any more. */
bool xsmi_agreed(const xsm_context *ctx);
/* Whether the ranks have exchanged something since the last xsmi_agree_begin(): a rank that now fails alone may have
 * been left behind by others. */
bool xsmi_met(const xsm_context *ctx);
/* xsmi_agree(), which also fails if ranks do not have the same number `mine`: with the status `unlike` and the message
 * of the first rank whose number is not rank 0's. 28 bytes in one exchange, and more on a failure. All ranks must call
 * it: one that calls xsmi_agree() instead makes another exchange than the rest. */
xsm_status xsmi_agree_same(xsm_context *ctx, xsm_status status, uint64_t mine, xsm_status unlike, const char *message,
                           xsm_error *err);
/* Whether a number is that of rank 0. Rank 0 sends 8 bytes. */
xsm_status xsmi_compare_first(xsm_context *ctx, uint64_t mine, bool *same, xsm_error *err);
/* The end of an agreement whose first half was part of an exchange, by which all ranks know that `first` is the first
 * rank where not all is well: on all its status and message. That rank sends an error. */
xsm_status xsmi_agree_failed(xsm_context *ctx, uint32_t first, xsm_status status, xsm_error *err);
/* The largest values of all ranks. */
xsm_status xsmi_exchange_max(xsm_context *ctx, float *values, size_t count, xsm_error *err);
/* The blocks of all ranks one after another; rank r's has sizes[r] bytes. */
xsm_status xsmi_exchange_blocks(xsm_context *ctx, const void *mine, void *all, const size_t *sizes, xsm_error *err);
/* Rank `root`'s data on all ranks. */
xsm_status xsmi_exchange_copy(xsm_context *ctx, void *data, size_t bytes, uint32_t root, xsm_error *err);

#endif
