/* Activities: when the host's hook is called, on which thread, what it is told, and what its answer stops. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/activity.h"

#include <xsoftmax/ext/context.h>

enum { THREADS = 4, JOBS = 100 };

typedef struct watcher {
    xsm_context *context;
    pthread_t caller;
    atomic_int calls, elsewhere;
    int cancel_at;
    const char *phase, *unit;
    uint64_t done, total;
    bool use_library; /* it runs jobs itself */
} watcher;

static void count_job(void *state, size_t index, uint32_t thread)
{
    (void)index;
    (void)thread;
    atomic_fetch_add((atomic_int *)state, 1);
}

static int32_t watch(void *user, const xsm_activity *activity)
{
    watcher *w = user;
    w->phase = activity->phase;
    w->unit = activity->unit;
    w->done = activity->done;
    w->total = activity->total;
    if (!pthread_equal(pthread_self(), w->caller)) {
        atomic_fetch_add(&w->elsewhere, 1);
    }
    if (w->use_library) {
        /* Its own calls are not cancelled, nor shown to itself. */
        atomic_int done = 0;
        xsmi_activity a;
        xsmi_begin(&a, w->context, "looking", "things", 0);
        assert_false(xsmi_poll(w->context));
        assert_int_equal(xsmi_run(w->context, count_job, &done, JOBS, NULL), XSM_OK);
        xsmi_end(&a, XSM_OK, NULL);
        assert_int_equal(done, JOBS);
    }
    return atomic_fetch_add(&w->calls, 1) + 1 == w->cancel_at;
}

static void start(watcher *w, uint32_t threads, const xsm_runner *runner, double pace)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    memset(w, 0, sizeof *w);
    w->caller = pthread_self();
    options.threads = threads;
    options.runner = runner;
    options.progress = watch;
    options.progress_user = w;
    assert_ok(xsm_context_new(&options, &w->context, &err), err);
    if (pace >= 0) {
        xsmi_set_pace(w->context, pace);
    }
}

TEST(no_hook_no_effect)
{
    xsmi_activity a;
    MADE(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    xsmi_begin(&a, ctx, "waiting", "things", 3);
    assert_false(xsmi_poll(ctx));
    assert_int_equal(xsm_context_poll(ctx), 0);
    xsmi_advance(ctx, 1);
    xsmi_reach(&a, 1);
    assert_ok(xsmi_go_on(ctx, &err), err);
    xsmi_end(&a, XSM_OK, NULL);
    assert_int_equal(xsm_context_poll(NULL), 0);
}

TEST(what_the_hook_is_told)
{
    watcher w;
    xsmi_activity a, b, c;
    start(&w, 1, NULL, 0);
    assert_false(xsmi_poll(w.context)); /* no activity, nothing to tell */
    assert_int_equal(w.calls, 0);
    xsmi_begin(&a, w.context, "cooking", "meals", 7);
    assert_int_equal(xsm_context_poll(w.context), 0);
    assert_int_equal(w.calls, 1);
    assert_string_equal(w.phase, "cooking");
    assert_string_equal(w.unit, "meals");
    assert_int_equal(w.done, 0);
    assert_int_equal(w.total, 7);
    xsmi_reach(&a, 2);
    xsmi_advance(w.context, 3);
    xsmi_poll(w.context);
    assert_int_equal(w.done, 5);
    xsmi_advance(w.context, 30);
    xsmi_poll(w.context);
    assert_int_equal(w.done, 7); /* never more than all */
    xsmi_begin(&b, w.context, "frying", "eggs", 0);
    xsmi_poll(w.context);
    assert_string_equal(w.phase, "frying");
    xsmi_end(&b, XSM_OK, NULL);
    xsmi_begin_cover(&b, w.context, "washing", "plates", 9);
    xsmi_reach(&b, 4);
    xsmi_begin(&c, w.context, "drying", "plates", 2);
    xsmi_advance(w.context, 1);
    xsmi_poll(w.context);
    assert_string_equal(w.phase, "washing");
    assert_int_equal(w.done, 4);
    w.cancel_at = w.calls + 1;
    assert_true(xsmi_poll(w.context));
    assert_fails(xsmi_go_on(w.context, &err), XSM_CANCELLED, err);
    assert_string_equal(err.message, "cancelled while washing: 4 of 9 plates");
    xsmi_end(&c, XSM_OK, NULL);
    /* A call that fails after it was cancelled was cancelled. */
    assert_int_equal(xsmi_end(&b, XSM_OK, &err), XSM_OK);
    const int calls = w.calls;
    assert_true(xsmi_poll(w.context)); /* it stays so to the end of the outermost */
    assert_true(xsmi_is_cancelled(w.context));
    assert_int_equal(w.calls, calls);
    assert_null(xsmi_allocate_zero(w.context, 64 << 20, 1));
    assert_fails(xsmi_end(&a, xsmi_fail_memory(&err, 1, "a meal"), &err), XSM_CANCELLED, err);
    assert_false(xsmi_poll(w.context));
    xsmi_begin(&a, w.context, "resting", "minutes", 0);
    assert_false(xsmi_poll(w.context)); /* and the next call starts anew */
    w.cancel_at = w.calls + 1;
    assert_fails(xsmi_go_on(w.context, &err), XSM_CANCELLED, err);
    assert_string_equal(err.message, "cancelled while resting");
    xsmi_advance(w.context, 6);
    assert_fails(xsmi_fail_cancelled(w.context, &err), XSM_CANCELLED, err);
    assert_string_equal(err.message, "cancelled while resting, after 6 minutes");
    xsmi_end(&a, XSM_OK, NULL);
    xsm_context_free(w.context);
}

/* By default the hook is left alone for the first 50 ms, and then called at most every 50 ms. */
TEST(how_often)
{
    watcher w;
    xsmi_activity a;
    start(&w, 1, NULL, -1);
    const double began = xsmi_seconds(); /* before the activity, in case this thread has to wait in between */
    xsmi_begin(&a, w.context, "waiting", "turns", 0);
    while (w.calls < 3) {
        xsmi_poll(w.context);
        assert_true(xsmi_seconds() - began < 60);
    }
    assert_true(xsmi_seconds() - began >= 0.15);
    xsmi_end(&a, XSM_OK, NULL);
    xsm_context_free(w.context);
}

TEST(jobs_are_skipped)
{
    for (uint32_t threads = 1; threads <= THREADS; threads += THREADS - 1) {
        watcher w;
        xsmi_activity a, shield;
        atomic_int done = 0;
        start(&w, threads, NULL, 0);
        w.use_library = true;
        xsmi_begin(&a, w.context, "working", "jobs", JOBS);
        assert_ok(xsmi_run(w.context, count_job, &done, JOBS, &err), err);
        assert_int_equal(done, JOBS);
        assert_int_equal(w.elsewhere, 0);
        w.cancel_at = w.calls + 1;
        assert_true(xsmi_poll(w.context));
        assert_fails(xsmi_run(w.context, count_job, &done, JOBS, &err), XSM_CANCELLED, err);
        assert_int_equal(done, JOBS);
        /* What is shielded runs to its end. */
        xsmi_shield(&shield, w.context);
        assert_false(xsmi_poll(w.context));
        assert_false(xsmi_is_cancelled(w.context));
        assert_ok(xsmi_run(w.context, count_job, &done, JOBS, &err), err);
        assert_true(xsmi_would_stop(w.context));
        xsmi_unshield(&shield);
        assert_int_equal(done, 2 * JOBS);
        assert_true(xsmi_poll(w.context));
        xsmi_end(&a, XSM_OK, NULL);
        assert_ok(xsmi_run(w.context, count_job, &done, JOBS, &err), err);
        xsm_context_free(w.context);
    }
}

/* A job that works until it is told to leave. */
typedef struct endless {
    xsm_context *context;
    pthread_t caller;
    bool here; /* jobs on the calling thread leave at once */
    atomic_int left;
} endless;

static void work_on(void *state, size_t index, uint32_t thread)
{
    endless *e = state;
    (void)index;
    (void)thread;
    const double began = xsmi_seconds();
    if (!e->here && pthread_equal(pthread_self(), e->caller)) {
        nanosleep(&(struct timespec){0, 20 * 1000 * 1000}, NULL); /* the other threads take the other jobs */
        return;
    }
    while (!xsmi_poll(e->context)) {
        assert_true(xsmi_seconds() - began < 60);
    }
    atomic_fetch_add(&e->left, 1);
}

/* The caller has nothing to do but to wait for jobs of other threads: it calls the hook meanwhile. */
TEST(the_caller_waits)
{
    for (int here = 0; here < 2; here++) {
        watcher w;
        xsmi_activity a;
        start(&w, 2, NULL, -1);
        endless e = {w.context, pthread_self(), here, 0};
        w.cancel_at = 2;
        xsmi_begin(&a, w.context, "working", "jobs", 2);
        xsm_status status = xsmi_run(w.context, work_on, &e, 2, &err);
        if (e.left > 0) { /* else the worker came too late for a job */
            assert_fails(status, XSM_CANCELLED, err);
            assert_int_equal(w.calls, 2);
        }
        assert_int_equal(w.elsewhere, 0);
        xsmi_end(&a, XSM_OK, NULL);
        xsm_context_free(w.context);
    }
}

/* A runner whose caller only waits. */
typedef struct thread_state {
    xsm_job job;
    void *state;
    size_t count;
} thread_state;

static void *run_all(void *argument)
{
    thread_state *t = argument;
    for (size_t i = 0; i < t->count; i++) {
        t->job(t->state, i, 0);
    }
    return NULL;
}

static int32_t run_on_another(void *user, xsm_job job, void *state, size_t count)
{
    (void)user;
    thread_state t = {job, state, count};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_all, &t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return 0;
}

TEST(the_runner_of_the_host)
{
    watcher w;
    xsmi_activity a;
    const xsm_runner runner = {sizeof runner, NULL, 2, 0, run_on_another};
    start(&w, 0, &runner, -1);
    endless e = {w.context, pthread_self(), true, 0};
    w.cancel_at = 1;
    xsmi_begin(&a, w.context, "working", "jobs", 3);
    assert_fails(xsmi_run(w.context, work_on, &e, 3, &err), XSM_CANCELLED, err);
    assert_int_equal(e.left, 1);
    assert_int_equal(w.elsewhere, 1);
    xsmi_end(&a, XSM_OK, NULL);
    xsm_context_free(w.context);
}

/* Two threads, one context: each is shown and cancelled by itself. */
typedef struct lone {
    watcher *w;
    bool stopped;
} lone;

static void *poll_for_long(void *argument)
{
    lone *l = argument;
    xsmi_activity a;
    xsmi_begin(&a, l->w->context, "another", "turns", 0);
    for (int i = 0; i < 1000 && !l->stopped; i++) {
        l->stopped = xsmi_poll(l->w->context);
    }
    xsmi_end(&a, XSM_OK, NULL);
    return NULL;
}

TEST(calls_are_apart)
{
    watcher w;
    xsmi_activity a;
    pthread_t thread;
    start(&w, 1, NULL, 0);
    lone l = {&w, false};
    w.cancel_at = 1;
    xsmi_begin(&a, w.context, "this", "turns", 0);
    assert_true(xsmi_poll(w.context));
    assert_int_equal(pthread_create(&thread, NULL, poll_for_long, &l), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(l.stopped);
    assert_int_equal(w.elsewhere, 1000);
    assert_true(xsmi_is_cancelled(w.context));
    xsmi_end(&a, XSM_OK, NULL);
    xsm_context_free(w.context);
}

/* Each context with a hook takes one of the process's keys, and gives it back. */
TEST(keys_run_out)
{
    enum { MANY = 5000 };
    static xsm_context *made[MANY];
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = 1;
    options.progress = watch;
    int count = 0;
    while (count < MANY && xsm_context_new(&options, &made[count], &err) == XSM_OK) {
        count++;
    }
    assert_in_range(count, 64, MANY);
    if (count < MANY) {
        assert_int_equal(err.status, XSM_ERROR_LIMIT);
    }
    while (count > 0) {
        xsm_context_free(made[--count]);
    }
    assert_ok(xsm_context_new(&options, &made[0], &err), err);
    xsm_context_free(made[0]);
}
