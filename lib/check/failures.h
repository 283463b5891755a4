/*
 * Shared by the conformance suites for hosts' tables: a context whose memory is counted and refused on demand, and
 * options as a list of texts.
 */
#ifndef XSMI_CHECK_FAILURES_H
#define XSMI_CHECK_FAILURES_H

#include "base/activity.h"

#include <stdatomic.h>

/* Memory of another context, filled with junk when allocated, counted, and refused on demand. */
typedef struct xsmi_trial {
    xsm_context *parent;
    unsigned char junk;
    atomic_size_t calls, fail_at, blocks; /* fail_at: the call that fails, from 1; 0 = none */
    size_t own;                           /* blocks of the context itself */
    atomic_flag busy;                     /* held while the list is changed */
    struct xsmi_trial_block *list;        /* list of the blocks in use */
    xsmi_activity activity;               /* around all that happens in the context */
} xsmi_trial;

/* Makes a context on such memory with the given number of threads. Calls in it are cancelled when the parent's call is.
 * `trial` must not move while the context exists; one thread makes and frees it. */
xsm_status xsmi_trial_context(xsmi_trial *trial, xsm_context *parent, uint32_t threads, unsigned char junk,
                              xsm_context **out, xsm_error *err);
/* Returns the number of blocks in use now, without the context's own. */
size_t xsmi_trial_blocks(xsmi_trial *trial);
/* Makes a context with these options but for `progress`: its calls are cancelled when the parent's call is. */
xsm_status xsmi_trial_child(xsm_context *parent, xsm_context_options *options, xsm_context **out, xsm_error *err);
/* Frees the context and releases all blocks still in use; does nothing for NULL. */
void xsmi_trial_end(xsmi_trial *trial, xsm_context *ctx);
/* Ends the activity of a suite. A suite that was cancelled returns XSM_CANCELLED, whatever fault its parts have
 * reported. */
xsm_status xsmi_trial_status(xsmi_activity *activity, const xsm_context *ctx, xsm_status status, xsm_error *err);

/* A test that allocates from ctx and releases all of it. */
typedef xsm_status (*xsmi_trial_body)(void *state, xsm_context *ctx, xsm_error *err);
/* Runs body with the 1st, the 2nd, ... allocation refused, until none is left to refuse. Each run must fail with
 * XSM_ERROR_MEMORY, or work without the memory, and leak nothing. Otherwise the error is XSM_ERROR_DATA; its message
 * begins with `who`. */
xsm_status xsmi_trial_allocations(xsm_context *parent, xsmi_trial_body body, void *state, const char *who,
                                  xsm_error *err);

/* Sets an object's options from "name=value" texts, ended by NULL; a list that is NULL sets none. */
typedef xsm_status (*xsmi_trial_setter)(void *object, const char *name, const char *value, xsm_error *err);
xsm_status xsmi_trial_set(xsm_context *ctx, const char *const *set, xsmi_trial_setter setter, void *object,
                          xsm_error *err);

#endif
