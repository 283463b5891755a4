/*
 * Activities, and the jobs that they span.
 *
 * A thread's activity is a value of a key (pthread_key_create()) that the context owns, so that neither is there static
 * data nor must every inner loop be given a pointer.
 */
#include "base/activity.h"

#include "base/context.h"
#include "base/entry.h"
#include "base/order.h"
#include "base/pool.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include <xsoftmax/ext/context.h>

double xsmi_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the calling thread's activity; NULL for none, or while it is shielded. */
static xsmi_activity *current(const xsm_context *ctx)
{
    xsmi_activity *a = ctx->progress ? pthread_getspecific(ctx->key) : NULL;
    return a && a->context ? a : NULL;
}

/* When an activity's clock starts. */
typedef enum clock_start {
    AT_ONCE,
    LATE,  /* with its second poll */
    NEVER, /* the hook does not get it */
} clock_start;

static void begin(xsmi_activity *a, xsm_context *ctx, const char *phase, const char *unit, uint64_t total,
                  clock_start start)
{
    a->context = NULL;
    if (!ctx->progress) {
        return;
    }
    a->outer = pthread_getspecific(ctx->key);
    /* Without memory for this thread's value the call continues, but cannot be cancelled. */
    if ((a->outer && !a->outer->context) || pthread_setspecific(ctx->key, a) != 0) {
        return;
    }
    a->context = ctx;
    a->phase = phase;
    a->unit = unit;
    a->total = total;
    a->reached = 0;
    atomic_init(&a->added, (size_t)0);
    a->started = start == AT_ONCE ? xsmi_seconds() : 0;
    a->covers = false;
    a->held = a->outer && a->outer->held;
    a->counted = a;
    a->shown = a->outer && (a->outer->covers || a->outer->shown != a->outer) ? a->outer->shown : a;
    a->root = a->outer ? a->outer->root : a;
    if (a->root == a) {
        a->caller = pthread_self();
        a->any_thread = ctx->runner.run != NULL;
        atomic_flag_clear(&a->calling);
        a->call_at = a->started + ctx->pace;
        a->polls_ahead = start == LATE ? 2 : 0;
        atomic_init(&a->cancelled, false);
    }
}

void xsmi_begin(xsmi_activity *a, xsm_context *ctx, const char *phase, const char *unit, uint64_t total)
{
    begin(a, ctx, phase, unit, total, AT_ONCE);
}

void xsmi_begin_cover(xsmi_activity *a, xsm_context *ctx, const char *phase, const char *unit, uint64_t total)
{
    begin(a, ctx, phase, unit, total, AT_ONCE);
    a->covers = true;
}

void xsmi_begin_short(xsmi_activity *a, xsm_context *ctx, const char *phase, const char *unit)
{
    a->context = NULL;
    if (ctx->progress && !pthread_getspecific(ctx->key)) {
        begin(a, ctx, phase, unit, 0, LATE);
    }
}

void xsmi_begin_whole(xsmi_activity *a, xsm_context *ctx, const char *phase, const char *unit)
{
    xsmi_shield(a, ctx);
    if (!a->context) {
        xsmi_begin_short(a, ctx, phase, unit);
        a->held = true;
    }
}

void xsmi_reach(xsmi_activity *a, uint64_t done)
{
    a->reached = done;
}

void xsmi_expect(xsmi_activity *a, uint64_t total)
{
    a->total = total;
}

void xsmi_advance(const xsm_context *ctx, size_t done)
{
    xsmi_activity *a = current(ctx);
    if (a) {
        atomic_fetch_add_explicit(&a->counted->added, done, memory_order_relaxed);
    }
}

/* Whether the hook has asked to cancel. */
static bool is_asked(const xsmi_activity *a)
{
    return atomic_load_explicit(&a->root->cancelled, memory_order_relaxed);
}

static bool is_cancelled(const xsmi_activity *a)
{
    return !a->held && is_asked(a);
}

static uint64_t done_of(const xsmi_activity *a)
{
    uint64_t done = a->reached + atomic_load_explicit(&a->added, memory_order_relaxed);
    return a->total > 0 && done > a->total ? a->total : done;
}

/* Starts a late clock with its second poll. Returns whether the clock runs. */
static bool run_clock(xsmi_activity *root)
{
    if (root->polls_ahead > 0 && --root->polls_ahead == 0) {
        root->started = xsmi_seconds();
        root->call_at = root->started + root->context->pace;
    }
    return root->polls_ahead == 0;
}

/* Calls the hook if it is due, on one thread at a time. */
static void call_hook(xsmi_activity *a)
{
    xsmi_activity *root = a->root;
    xsm_context *ctx = a->context;
    if (atomic_flag_test_and_set_explicit(&root->calling, memory_order_acquire)) {
        return;
    }
    const double now = run_clock(root) ? xsmi_seconds() : -INFINITY;
    if (now >= root->call_at) {
        const xsmi_activity *s = a->shown;
        const xsm_activity seen = {sizeof seen, s->phase, s->unit, done_of(s), s->total, now - s->started};
        pthread_setspecific(ctx->key, &ctx->shield); /* calls that the hook makes are not reported */
        int32_t end;
        XSMI_CALL_HOST(end = ctx->progress(ctx->progress_user, &seen));
        if (end != 0) {
            atomic_store_explicit(&root->cancelled, true, memory_order_relaxed);
        }
        pthread_setspecific(ctx->key, a);
        root->call_at = xsmi_seconds() + ctx->pace;
    }
    atomic_flag_clear_explicit(&root->calling, memory_order_release);
}

static bool poll_activity(xsmi_activity *a)
{
    if (!is_asked(a) && (a->root->any_thread || pthread_equal(a->root->caller, pthread_self()))) {
        call_hook(a);
    }
    return is_cancelled(a);
}

bool xsmi_poll(const xsm_context *ctx)
{
    xsmi_activity *a = current(ctx);
    return a && poll_activity(a);
}

int32_t xsm_context_poll(const xsm_context *ctx)
{
    return ctx && xsmi_poll(ctx);
}

bool xsmi_is_cancelled(const xsm_context *ctx)
{
    const xsmi_activity *a = current(ctx);
    return a && is_cancelled(a);
}

bool xsmi_can_stop(const xsm_context *ctx)
{
    const xsmi_activity *a = current(ctx);
    return a && !a->held;
}

xsm_status xsmi_fail_cancelled(const xsm_context *ctx, xsm_error *err)
{
    const xsmi_activity *a = current(ctx);
    if (!a) {
        return xsmi_fail(err, XSM_CANCELLED, "cancelled");
    }
    a = a->shown;
    const unsigned long long done = done_of(a);
    if (a->total > 0) {
        return xsmi_fail(err, XSM_CANCELLED, "cancelled while %s: %llu of %llu %s", a->phase, done,
                         (unsigned long long)a->total, a->unit);
    }
    if (done > 0) {
        return xsmi_fail(err, XSM_CANCELLED, "cancelled while %s, after %llu %s", a->phase, done, a->unit);
    }
    return xsmi_fail(err, XSM_CANCELLED, "cancelled while %s", a->phase);
}

xsm_status xsmi_end(xsmi_activity *a, xsm_status status, xsm_error *err)
{
    if (a->context) {
        /* Another failure, of memory say, may follow from jobs that did not run. */
        if (status != XSM_OK && status != XSM_CANCELLED && is_cancelled(a)) {
            status = xsmi_fail_cancelled(a->context, err);
        }
        pthread_setspecific(a->context->key, a->outer);
    }
    return status;
}

xsm_status xsmi_go_on(const xsm_context *ctx, xsm_error *err)
{
    return xsmi_poll(ctx) ? xsmi_fail_cancelled(ctx, err) : XSM_OK;
}

xsm_status xsmi_copy_bytes(const xsm_context *ctx, void *to, const void *from, size_t size, xsm_error *err)
{
    const size_t piece = (size_t)1 << 20;
    for (size_t at = 0; at < size; at += piece) {
        const size_t left = size - at;
        memcpy((char *)to + at, (const char *)from + at, XSMI_MIN(left, piece));
        XSMI_TRY(xsmi_go_on(ctx, err));
    }
    return XSM_OK;
}

void xsmi_shield(xsmi_activity *a, xsm_context *ctx)
{
    a->context = NULL;
    xsmi_activity *outer = current(ctx);
    if (outer) {
        begin(a, ctx, outer->phase, outer->unit, outer->total, NEVER);
        a->shown = outer->shown;
        a->counted = outer->counted;
        a->held = true;
    }
}

void xsmi_unshield(xsmi_activity *a)
{
    (void)xsmi_end(a, XSM_OK, NULL);
}

bool xsmi_would_stop(const xsm_context *ctx)
{
    xsmi_activity *a = current(ctx);
    return a && (poll_activity(a) || is_asked(a));
}

void xsmi_set_pace(xsm_context *ctx, double seconds)
{
    ctx->pace = seconds;
}

/* -- jobs --------------------------------------------------------------------------------------------------------- */

/* Jobs of a call that has an activity. */
typedef struct watched {
    xsmi_activity *activity;
    xsm_job job;
    void *state;
} watched;

static void run_watched(void *state, size_t index, uint32_t thread)
{
    const watched *w = state;
    xsmi_activity *a = w->activity;
    const pthread_key_t key = a->context->key;
    void *before = pthread_getspecific(key);
    if (before != a) {
        pthread_setspecific(key, a);
    }
    if (!poll_activity(a)) {
        w->job(w->state, index, thread);
    }
    if (before != a) {
        pthread_setspecific(key, before);
    }
}

static void look_meanwhile(void *activity)
{
    poll_activity(activity);
}

/* Jobs that a host's runner runs. */
typedef struct guest_job {
    xsm_job job;
    void *state;
    /* The jobs that have ended: how many, and the sum of their numbers. */
    atomic_size_t ended, numbers;
} guest_job;

static void run_guest(void *state, size_t index, uint32_t thread)
{
    XSMI_ENTER_AS(host_state_);
    guest_job *guest = state;
    guest->job(guest->state, index, thread);
    atomic_fetch_add_explicit(&guest->ended, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&guest->numbers, index, memory_order_relaxed);
}

/* Fails unless each job has ended once. Several errors whose numbers have the same sum go unnoticed. */
static xsm_status check_guest(const guest_job *guest, size_t count, xsm_error *err)
{
    static const char says[] = "the host's runner returned 0, which says that each job has ended once";
    const size_t ended = atomic_load_explicit(&guest->ended, memory_order_relaxed),
                 sum = count % 2 ? (count - 1) / 2 * count : count / 2 * (count - 1);
    if (ended != count) {
        return xsmi_fail(err, XSM_ERROR_RUNNER, "%s; %zu jobs have, of %zu", says, ended, count);
    }
    if (atomic_load_explicit(&guest->numbers, memory_order_relaxed) != sum) {
        return xsmi_fail(err, XSM_ERROR_RUNNER, "%s; some have twice, and others have not", says);
    }
    return XSM_OK;
}

static xsm_status run_jobs(xsm_context *ctx, xsm_job job, void *state, size_t count, xsmi_activity *a, xsm_error *err)
{
    if (ctx->runner.threads == 1) {
        for (size_t i = 0; i < count; i++) {
            job(state, i, 0);
        }
        return XSM_OK;
    }
    if (ctx->runner.run) {
        guest_job guest = {.job = job, .state = state};
        atomic_init(&guest.ended, (size_t)0);
        atomic_init(&guest.numbers, (size_t)0);
        int32_t result;
        XSMI_CALL_HOST(result = ctx->runner.run(ctx->runner.user, run_guest, &guest, count));
        if (result != 0) {
            return xsmi_fail(err, XSM_ERROR_RUNNER, "the host's runner returned %d", result);
        }
        return check_guest(&guest, count, err);
    }
    xsmi_pool_run(ctx->pool, job, state, count, a ? look_meanwhile : NULL, a);
    return XSM_OK;
}

xsm_status xsmi_run(xsm_context *ctx, xsm_job job, void *state, size_t count, xsm_error *err)
{
    xsmi_activity *a = current(ctx);
    if (count <= 1) {
        if (count == 1) {
            job(state, 0, 0);
        }
    } else if (!a) {
        return run_jobs(ctx, job, state, count, NULL, err);
    } else {
        watched w = {a, job, state};
        XSMI_TRY(run_jobs(ctx, run_watched, &w, count, a, err));
    }
    return a && is_cancelled(a) ? xsmi_fail_cancelled(ctx, err) : XSM_OK;
}
