/*
 * Activities: what a long call is doing, for the host's hook (xsm_context_options.progress), and whether it was asked
 * to stop.
 *
 * A public function that may take long begins an activity on its stack and ends it before it returns. Loops below it
 * poll; they need only the context, since a thread's current activity is found through a key of the context. xsmi_run()
 * takes the caller's activity to the threads that run its jobs. Once the hook has cancelled, polls stay true and
 * xsmi_run() fails until the outermost activity has ended, so that a loop may simply leave: the next status on the way
 * up is XSM_CANCELLED. What must be finished once begun, because weights or files would be half changed, is shielded.
 */
#ifndef XSMI_ACTIVITY_H
#define XSMI_ACTIVITY_H

#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct xsmi_activity xsmi_activity;
struct xsmi_activity {
    xsm_context *context;   /* NULL: no hook, or shielded; nothing happens */
    xsmi_activity *outer;   /* the thread's activity before this one */
    xsmi_activity *root;    /* the outermost */
    xsmi_activity *shown;   /* the one that the hook gets: this one, or one around it that covers it */
    xsmi_activity *counted; /* whose units are counted: this one, or the one around a shield */
    const char *phase, *unit;
    uint64_t reached;    /* units done, set by xsmi_reach() */
    atomic_size_t added; /* further units done, by xsmi_advance() */
    uint64_t total;
    double started;
    bool covers;
    bool held; /* the hook cannot cancel it */

    /* Members of the outermost activity alone. */
    pthread_t caller;
    bool any_thread;      /* a host's runner: threads that run jobs call the hook */
    atomic_flag calling;  /* a thread is calling the hook */
    double call_at;       /* the time at which the hook is called next */
    uint32_t polls_ahead; /* polls until a late clock starts */
    atomic_bool cancelled;
};

/* Begins an activity of the calling thread: `phase` as in "cancelled while ...", `unit` a plural, both static; total 0
 * = unknown. Ends within the same function. */
void xsmi_begin(xsmi_activity *activity, xsm_context *ctx, const char *phase, const char *unit, uint64_t total);
/* As xsmi_begin(), but the hook gets this activity in place of those within it. */
void xsmi_begin_cover(xsmi_activity *activity, xsm_context *ctx, const char *phase, const char *unit, uint64_t total);
/* For a call that is short unless its batch is large, and that hosts make in loops: its clock starts with its second
 * poll, so that a short call reads none. Within another activity it begins nothing: the call's polls then belong to
 * that one. */
void xsmi_begin_short(xsmi_activity *activity, xsm_context *ctx, const char *phase, const char *unit);
/* As xsmi_begin_short(), for a call that must not be left half done: the hook is called, but cannot cancel it. */
void xsmi_begin_whole(xsmi_activity *activity, xsm_context *ctx, const char *phase, const char *unit);
/* Returns the call's status; any failure of a cancelled call is XSM_CANCELLED. */
xsm_status xsmi_end(xsmi_activity *activity, xsm_status status, xsm_error *err);
/* Says how many units are done; for the thread that began the activity. */
void xsmi_reach(xsmi_activity *activity, uint64_t done);
/* Sets the number of units, where that is known only after the beginning. */
void xsmi_expect(xsmi_activity *activity, uint64_t total);
/* Says how many more units are done in the calling thread's activity; for jobs. */
void xsmi_advance(const xsm_context *ctx, size_t done);

/* Calls the hook if it is time. True when the call was cancelled: leave. Takes some 50 ns with a hook, a few without;
 * once in 10 to 1000 microseconds of work is right. */
bool xsmi_poll(const xsm_context *ctx);
/* Whether the call was cancelled; never calls the hook. */
bool xsmi_is_cancelled(const xsm_context *ctx);
/* Whether a poll may cancel the call: there is a hook, and no shield. */
bool xsmi_can_stop(const xsm_context *ctx);
/* XSM_CANCELLED, with a message of what was cancelled. */
xsm_status xsmi_fail_cancelled(const xsm_context *ctx, xsm_error *err);
/* xsmi_poll() as a status. */
xsm_status xsmi_go_on(const xsm_context *ctx, xsm_error *err);
/* memcpy() in pieces, between which the call may be cancelled. */
xsm_status xsmi_copy_bytes(const xsm_context *ctx, void *to, const void *from, size_t size, xsm_error *err);

/* For a part that must not be left half done: until xsmi_unshield(), polls of this thread and its jobs return false.
 * The hook is called meanwhile; if it cancels, the call ends after the part. */
void xsmi_shield(xsmi_activity *shield, xsm_context *ctx);
void xsmi_unshield(xsmi_activity *shield);
/* As xsmi_poll(), but returns true also within a shield: for work there that may be left out. */
bool xsmi_would_stop(const xsm_context *ctx);

/* How often the hook is called, in seconds; for tests. 0 = at every poll. */
void xsmi_set_pace(xsm_context *ctx, double seconds);

#endif
