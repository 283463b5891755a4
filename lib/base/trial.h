/*
 * What the suites that try a table of the host's own have in common: a context whose memory is counted and refused on
 * demand, and options as a list of texts.
 */
#ifndef XSMI_TRIAL_H
#define XSMI_TRIAL_H

#include "base/base.h"

#include <stdatomic.h>

/* Memory of another context, filled with junk before it is handed out, counted, and refused when it is told to. */
typedef struct xsmi_trial {
    xsm_context *parent;
    unsigned char junk;
    atomic_size_t calls, fail_at, blocks; /* fail_at: the call that gets nothing, from 1; 0 = none */
    size_t own;                           /* blocks of the context itself */
    atomic_flag busy;                     /* held while the list is changed */
    struct xsmi_trial_block *list;        /* of the blocks that are out */
} xsmi_trial;

/* A context on such memory with so many threads. `trial` stays where it is until the context is gone. */
xsm_status xsmi_trial_context(xsmi_trial *trial, xsm_context *parent, uint32_t threads, unsigned char junk,
                              xsm_context **out, xsm_error *err);
/* Blocks that are out now, the context's own not counted. */
size_t xsmi_trial_blocks(xsmi_trial *trial);
/* Lets go of the context, and releases what is still out; nothing may use either any more. */
void xsmi_trial_end(xsmi_trial *trial, xsm_context *ctx);

/* Something that allocates from ctx, and releases what it has made. */
typedef xsm_status (*xsmi_trial_body)(void *state, xsm_context *ctx, xsm_error *err);
/* Runs body with the 1st, the 2nd, ... allocation refused until none is left to refuse. Each run must fail with
 * XSM_ERROR_MEMORY, or do without what it was refused, and leave nothing behind; XSM_ERROR_DATA, `who` first, where one
 * does not. */
xsm_status xsmi_trial_allocations(xsm_context *parent, xsmi_trial_body body, void *state, const char *who,
                                  xsm_error *err);

/* Sets an object's options from "name=value" texts, ended by NULL; a list that is NULL sets none. */
typedef xsm_status (*xsmi_trial_setter)(void *object, const char *name, const char *value, xsm_error *err);
xsm_status xsmi_trial_set(xsm_context *ctx, const char *const *set, xsmi_trial_setter setter, void *object,
                          xsm_error *err);

#endif
