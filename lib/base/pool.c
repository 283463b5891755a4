/*
 * The built-in runner.
 *
 * A run is published in one atomic word: its number in the upper half, the next piece to be taken in the lower half. A
 * thread takes a piece by incrementing the lower half. This fails if the run has changed meanwhile, so that a late
 * worker takes nothing. Between runs the lower half is CLOSED, larger than any count. Workers spin for a moment for the
 * next run, then sleep. Where the processor has no atomic words of 64 bits, a mutex guards the word.
 */
#include "base/pool.h"
#include "base/entry.h"
#include "base/system.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Most pieces that threads share; the caller alone runs more. */
#define COUNT_MOST ((size_t)1 << 30)
#define CLOSED UINT32_MAX

/* How long a thread spins before it sleeps: reads in a row, and how many such rows, after each of which it yields the
 * processor. */
enum { READS = 64, ROUNDS = 40 };

typedef struct worker {
    xsmi_pool *pool;
    pthread_t handle;
    uint32_t number; /* 1, 2, ...; 0 is the caller */
} worker;

struct xsmi_pool {
    xsm_allocator allocator;
    pid_t process;
    uint32_t threads;     /* the caller included */
    uint32_t started;     /* workers */
    worker *workers;      /* [threads-1] */
    pthread_mutex_t busy; /* held for a run */

    /* The run. */
#if XSMI_HAVE_ATOMIC_64
    _Alignas(XSMI_ALIGNMENT) _Atomic uint64_t ticket;
#else
    _Alignas(XSMI_ALIGNMENT) uint64_t ticket;
    pthread_mutex_t ticket_lock;
#endif
    _Atomic(xsm_job) job;
    _Atomic(void *) state;
    _Atomic uint32_t count;
    _Alignas(XSMI_ALIGNMENT) _Atomic uint32_t left; /* pieces that have not finished */

    /* Sleeping. */
    pthread_mutex_t lock;
    pthread_cond_t published, ended;
    _Atomic uint32_t sleepers;
    _Atomic bool caller_sleeps;
    _Atomic bool stop;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#if XSMI_HAVE_ATOMIC_64
static uint64_t load_ticket(xsmi_pool *p)
{
    return atomic_load_explicit(&p->ticket, memory_order_seq_cst);
}

static void store_ticket(xsmi_pool *p, uint64_t ticket)
{
    atomic_store_explicit(&p->ticket, ticket, memory_order_seq_cst);
}

/* Increments the ticket if it is still the expected one; may fail without a reason. */
static bool raise_ticket(xsmi_pool *p, uint64_t expected)
{
    return atomic_compare_exchange_weak_explicit(&p->ticket, &expected, expected + 1, memory_order_acq_rel,
                                                 memory_order_relaxed);
}
#else
static uint64_t load_ticket(xsmi_pool *p)
{
    pthread_mutex_lock(&p->ticket_lock);
    const uint64_t ticket = p->ticket;
    pthread_mutex_unlock(&p->ticket_lock);
    return ticket;
}

static void store_ticket(xsmi_pool *p, uint64_t ticket)
{
    pthread_mutex_lock(&p->ticket_lock);
    p->ticket = ticket;
    pthread_mutex_unlock(&p->ticket_lock);
}

/* Increments the ticket if it is still the expected one. */
static bool raise_ticket(xsmi_pool *p, uint64_t expected)
{
    pthread_mutex_lock(&p->ticket_lock);
    const bool same = p->ticket == expected;
    p->ticket += same;
    pthread_mutex_unlock(&p->ticket_lock);
    return same;
}
#endif

/* Runs pieces until none is left. */
static void run_pieces(xsmi_pool *p, uint32_t thread)
{
    for (;;) {
        uint64_t ticket = load_ticket(p);
        xsm_job job = atomic_load_explicit(&p->job, memory_order_relaxed);
        void *state = atomic_load_explicit(&p->state, memory_order_relaxed);
        uint32_t piece = (uint32_t)ticket;
        if (piece >= atomic_load_explicit(&p->count, memory_order_relaxed)) {
            return;
        }
        if (!raise_ticket(p, ticket)) {
            continue;
        }
        job(state, piece, thread);
        if (atomic_fetch_sub_explicit(&p->left, 1, memory_order_seq_cst) == 1 &&
            atomic_load_explicit(&p->caller_sleeps, memory_order_seq_cst)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->ended);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static bool has_pieces(xsmi_pool *p)
{
    return (uint32_t)load_ticket(p) < atomic_load_explicit(&p->count, memory_order_seq_cst);
}

static void *work(void *argument)
{
    XSMI_ENTER_AS(as_caller_); /* a thread starts with the environment of the one that makes it */
    worker *me = argument;
    xsmi_pool *p = me->pool;
    while (!atomic_load_explicit(&p->stop, memory_order_acquire)) {
        run_pieces(p, me->number);
        bool found = false;
        for (int round = 0; round < ROUNDS && !found; round++) {
            for (int read = 0; read < READS && !found; read++) {
                relax();
                found = has_pieces(p) || atomic_load_explicit(&p->stop, memory_order_relaxed);
            }
            if (!found) {
                sched_yield();
            }
        }
        if (found) {
            continue;
        }
        pthread_mutex_lock(&p->lock);
        atomic_fetch_add_explicit(&p->sleepers, 1, memory_order_seq_cst);
        while (!has_pieces(p) && !atomic_load_explicit(&p->stop, memory_order_seq_cst)) {
            pthread_cond_wait(&p->published, &p->lock);
        }
        atomic_fetch_sub_explicit(&p->sleepers, 1, memory_order_seq_cst);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

xsm_status xsmi_pool_new(const xsm_allocator *allocator, uint32_t threads, xsmi_pool **out, xsm_error *err)
{
    xsmi_pool *p;
    XSMI_CALL_HOST(p = allocator->allocate(allocator->user, sizeof *p, XSMI_ALIGNMENT));
    size_t bytes = (threads - 1) * sizeof(worker);
    worker *workers = NULL;
    if (p) {
        XSMI_CALL_HOST(workers = allocator->allocate(allocator->user, bytes, XSMI_ALIGNMENT));
    }
    if (!workers) {
        if (p) {
            XSMI_CALL_HOST(allocator->release(allocator->user, p, sizeof *p, XSMI_ALIGNMENT));
        }
        return xsmi_fail_memory(err, sizeof *p + bytes, "threads");
    }
    memset(p, 0, sizeof *p);
    p->allocator = *allocator;
    p->process = getpid();
    p->threads = threads;
    p->workers = workers;
#if XSMI_HAVE_ATOMIC_64
    atomic_init(&p->ticket, CLOSED);
#else
    p->ticket = CLOSED;
    pthread_mutex_init(&p->ticket_lock, NULL);
#endif
    atomic_init(&p->job, (xsm_job)NULL);
    atomic_init(&p->state, (void *)NULL);
    atomic_init(&p->count, 0u);
    atomic_init(&p->left, 0u);
    atomic_init(&p->sleepers, 0u);
    atomic_init(&p->caller_sleeps, false);
    atomic_init(&p->stop, false);
    /* With default attributes none of these calls can fail on the supported systems. */
    pthread_mutex_init(&p->busy, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->published, NULL);
    pthread_cond_init(&p->ended, NULL);
    *out = p;
    return XSM_OK;
}

void xsmi_pool_free(xsmi_pool *p)
{
    if (!p) {
        return;
    }
    if (p->process == getpid()) { /* a child has its parent's pool, but not its threads */
        pthread_mutex_lock(&p->lock);
        atomic_store_explicit(&p->stop, true, memory_order_seq_cst);
        pthread_cond_broadcast(&p->published);
        pthread_mutex_unlock(&p->lock);
        for (uint32_t i = 0; i < p->started; i++) {
            pthread_join(p->workers[i].handle, NULL);
        }
        pthread_cond_destroy(&p->ended);
        pthread_cond_destroy(&p->published);
        pthread_mutex_destroy(&p->lock);
#if !XSMI_HAVE_ATOMIC_64
        pthread_mutex_destroy(&p->ticket_lock);
#endif
        pthread_mutex_destroy(&p->busy);
    }
    xsm_allocator allocator = p->allocator;
    const size_t bytes = (p->threads - 1) * sizeof *p->workers;
    XSMI_CALL_HOST(allocator.release(allocator.user, p->workers, bytes, XSMI_ALIGNMENT));
    XSMI_CALL_HOST(allocator.release(allocator.user, p, sizeof *p, XSMI_ALIGNMENT));
}

/* Starts workers up to `wanted`. They block all signals: these belong to the host's threads. */
static void start_workers(xsmi_pool *p, uint32_t wanted)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) {
        return;
    }
    while (p->started < wanted) {
        worker *w = &p->workers[p->started];
        w->pool = p;
        w->number = p->started + 1;
        if (pthread_create(&w->handle, NULL, work, w) != 0) {
            break; /* the pool works with the threads that it has */
        }
        p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* 20 ms from now. */
static struct timespec soon(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t); /* the clock of pthread_cond_timedwait() */
    t.tv_nsec += 20 * 1000 * 1000;
    if (t.tv_nsec >= 1000 * 1000 * 1000) {
        t.tv_nsec -= 1000 * 1000 * 1000;
        t.tv_sec++;
    }
    return t;
}

static void wait_for_end(xsmi_pool *p, void (*idle)(void *), void *idle_state)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (int read = 0; read < READS; read++) {
            if (atomic_load_explicit(&p->left, memory_order_acquire) == 0) {
                return;
            }
            relax();
        }
        sched_yield();
    }
    pthread_mutex_lock(&p->lock);
    atomic_store_explicit(&p->caller_sleeps, true, memory_order_seq_cst);
    while (atomic_load_explicit(&p->left, memory_order_seq_cst) > 0) {
        if (!idle) {
            pthread_cond_wait(&p->ended, &p->lock);
            continue;
        }
        const struct timespec until = soon();
        if (pthread_cond_timedwait(&p->ended, &p->lock, &until) != 0) {
            pthread_mutex_unlock(&p->lock); /* idle() may call the host */
            idle(idle_state);
            pthread_mutex_lock(&p->lock);
        }
    }
    atomic_store_explicit(&p->caller_sleeps, false, memory_order_seq_cst);
    pthread_mutex_unlock(&p->lock);
}

static void run_published(xsmi_pool *p, xsm_job job, void *state, uint32_t count, void (*idle)(void *),
                          void *idle_state)
{
    uint64_t number = (load_ticket(p) >> 32) + 1;
    atomic_store_explicit(&p->job, job, memory_order_relaxed);
    atomic_store_explicit(&p->state, state, memory_order_relaxed);
    atomic_store_explicit(&p->left, count, memory_order_relaxed);
    atomic_store_explicit(&p->count, count, memory_order_seq_cst);
    store_ticket(p, number << 32);
    if (atomic_load_explicit(&p->sleepers, memory_order_seq_cst) > 0) {
        pthread_mutex_lock(&p->lock);
        for (uint32_t i = 1; i < count && i < p->threads; i++) {
            pthread_cond_signal(&p->published);
        }
        pthread_mutex_unlock(&p->lock);
    }
    run_pieces(p, 0);
    /* All pieces are taken. A thread that still holds an old ticket must find it changed before the fields change. */
    store_ticket(p, number << 32 | CLOSED);
    wait_for_end(p, idle, idle_state);
}

void xsmi_pool_run(xsmi_pool *p, xsm_job job, void *state, size_t count, void (*idle)(void *), void *idle_state)
{
    if (p->process != getpid() || pthread_mutex_trylock(&p->busy) != 0) {
        for (size_t i = 0; i < count; i++) {
            job(state, i, 0);
        }
        return;
    }
    uint32_t wanted = count < p->threads ? (uint32_t)count - 1 : p->threads - 1;
    if (p->started < wanted) {
        start_workers(p, wanted);
    }
    if (count <= COUNT_MOST) {
        run_published(p, job, state, (uint32_t)count, idle, idle_state);
    } else {
        for (size_t i = 0; i < count; i++) { /* so many pieces do not occur in practice */
            job(state, i, 0);
        }
    }
    pthread_mutex_unlock(&p->busy);
}
