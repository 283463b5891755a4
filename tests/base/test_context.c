/* Contexts: the host's memory, threads and log. */
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/pool.h"
#include "base/system.h"

#include <xsoftmax/ext/context.h>

#define HUGE ((size_t)2 << 20)

TEST(test_defaults)
{
    NEW(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    assert_int_equal(test_context_info(ctx).threads, xsmi_processors());
    assert_string_equal(test_context_info(ctx).instruction_set, xsmi_kernels_select(0)->name);
    assert_ptr_equal(xsmi_context_kernels(ctx), xsmi_kernels_select(0));
    xsm_context_free(ctx);
    assert_ok(xsm_context_new(NULL, &ctx, NULL), err);
    xsm_context_free(ctx);
    xsm_context_free(NULL);
    xsm_context_info info = XSM_CONTEXT_INFO_INIT;
    assert_fails(xsm_context_get_info(NULL, &info, &err), XSM_ERROR_ARGUMENT, err);
}

static void *no_allocate(void *user, size_t size, size_t alignment)
{
    (void)size;
    (void)alignment;
    ++*(int *)user;
    return NULL;
}

static void no_release(void *user, void *memory, size_t size, size_t alignment)
{
    (void)user;
    (void)memory;
    (void)size;
    (void)alignment;
    fail_msg("nothing was allocated");
}

static int32_t run_backwards(void *user, xsm_job job, void *state, size_t count)
{
    ++*(int *)user;
    for (size_t i = count; i > 0; i--) {
        job(state, i - 1, (uint32_t)(i % 3));
    }
    return 0;
}

static int32_t run_half(void *user, xsm_job job, void *state, size_t count)
{
    (void)user;
    for (size_t i = 0; i < count / 2; i++) {
        job(state, i, 0);
    }
    return -7;
}

/* Ways not to run each job once, and to say that all is well. */
typedef enum wrong { LEAVES_ONE, LAST_TWICE, ONE_FOR_ANOTHER, ALL_TWICE, WRONGS } wrong;

static int32_t run_wrong(void *user, xsm_job job, void *state, size_t count)
{
    const wrong how = *(const wrong *)user;
    for (int n = 0; n < 1 + (how == ALL_TWICE); n++) {
        for (size_t i = 0; i < count - (how == LEAVES_ONE); i++) {
            job(state, i == 3 && how == ONE_FOR_ANOTHER ? 4 : i, 0);
        }
    }
    if (how == LAST_TWICE) {
        job(state, count - 1, 0);
    }
    return 0;
}

TEST(test_bad_options)
{
    int calls = 0;
    xsm_context *const untouched = (xsm_context *)&calls;
    xsm_context *ctx = untouched;
    assert_fails(xsm_context_new(NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);

    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    xsm_allocator allocator = {sizeof allocator, &calls, NULL, no_release};
    options.allocator = &allocator;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_ARGUMENT, err);
    allocator.allocate = no_allocate;
    allocator.release = NULL;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_ARGUMENT, err);
    assert_int_equal(calls, 0);
    allocator.release = no_release;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_MEMORY, err);
    assert_int_equal(calls, 1);
    options.allocator = NULL;

    xsm_runner runner = {sizeof runner, NULL, 1, 0, NULL};
    options.runner = &runner;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_ARGUMENT, err);
    runner.run = run_backwards;
    runner.threads = 0;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_ARGUMENT, err);
    runner.threads = 1;
    runner.threads = 4097;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_RANGE, err);
    options.runner = NULL;

    options.threads = 4097;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "4096"));
    options.threads = 0;
    options.cpu_disable = 8;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_RANGE, err);
    options.cpu_disable = 0;
    options.size = 1;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_STRUCT_OLD, err);
    assert_ptr_equal(ctx, untouched);
}

/* Each mask gives the best table that is left, and the scalar one when nothing is. */
TEST(test_instruction_sets)
{
    for (uint32_t mask = 0; mask < 8; mask++) {
        MADE(xsm_context, ctx, xsm_context_new(STRUCT(xsm_context_options, .cpu_disable = mask), &ctx, &err));
        const char *name = test_context_info(ctx).instruction_set;
        assert_false(strcmp(name, "avx2") == 0 && (mask & XSM_CPU_DISABLE_AVX2));
        assert_false(strcmp(name, "avx512") == 0 && (mask & (XSM_CPU_DISABLE_AVX512 | XSM_CPU_DISABLE_AVX2)));
        assert_false(strcmp(name, "neon") == 0 && (mask & XSM_CPU_DISABLE_NEON));
        assert_true(mask != 7 || strcmp(name, "scalar") == 0);
    }
}

/* -- memory ------------------------------------------------------------------------------------------------------ */

TEST(test_memory_sizes)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, HUGE - 1, HUGE, HUGE + 1, 5 * HUGE + 12345};
    test_memory *m;
    xsm_context *ctx = test_memory_context(&m, 2);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *block = xsmi_allocate(ctx, sizes[i], 1);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % (sizes[i] >= HUGE ? HUGE : XSMI_ALIGNMENT), 0);
        assert_int_equal(test_memory_blocks(m), 1);
        assert_int_equal(test_memory_bytes(m), sizes[i] ? sizes[i] : 1);
        memset(block, 1, sizes[i]);
        xsmi_release(ctx, block, sizes[i], 1);

        block = xsmi_allocate_zero(ctx, sizes[i], 1);
        assert_non_null(block);
        for (size_t b = 0; b < sizes[i]; b++) {
            assert_int_equal(block[b], 0);
        }
        xsmi_release(ctx, block, sizes[i], 1);

        block = xsm_context_allocate(ctx, sizes[i]);
        assert_non_null(block);
        xsm_context_release(ctx, block, sizes[i]);
        assert_int_equal(test_memory_blocks(m), 0);
    }
    xsmi_release(ctx, NULL, 5, 5);
    xsm_context_release(ctx, NULL, 5);
    xsm_context_release(NULL, NULL, 5);
    assert_null(xsm_context_allocate(NULL, 5));
    test_memory_end(m, ctx);
}

TEST(test_memory_that_cannot_be)
{
    test_memory *m;
    xsm_context *ctx = test_memory_context(&m, 1);
    assert_null(xsmi_allocate(ctx, SIZE_MAX, 1)); /* beyond what a pointer difference can say */
    assert_null(xsmi_allocate(ctx, SIZE_MAX / 2 + 1, 2));
    assert_null(xsmi_allocate(ctx, SIZE_MAX / 4 + 1, 4));
    assert_null(xsmi_allocate_zero(ctx, SIZE_MAX, SIZE_MAX));
    assert_null(xsm_context_allocate(ctx, SIZE_MAX));
    assert_null(xsmi_copy_text(ctx, "", SIZE_MAX));
    assert_int_equal(test_memory_calls(m), 0);
    test_memory_fail(m, 1);
    assert_null(xsmi_allocate_zero(ctx, 100, 8));
    test_memory_fail(m, 1);
    assert_null(xsmi_copy_text(ctx, "text", 4));
    test_memory_end(m, ctx);

    size_t result = 7;
    assert_false(xsmi_multiply(SIZE_MAX / 2, 3, &result));
    assert_false(xsmi_add(SIZE_MAX, 1, &result));
    assert_true(xsmi_multiply(SIZE_MAX / 2, 2, &result) && result == SIZE_MAX - 1);
    assert_true(xsmi_add(SIZE_MAX - 1, 1, &result) && result == SIZE_MAX);
}

TEST(test_reallocate)
{
    test_memory *m;
    xsm_context *ctx = test_memory_context(&m, 1);
    uint32_t *list = xsmi_reallocate(ctx, NULL, 0, 3, sizeof *list);
    assert_non_null(list);
    for (uint32_t i = 0; i < 3; i++) {
        list[i] = i;
    }
    uint32_t *grown = xsmi_reallocate(ctx, list, 3, 600000, sizeof *list); /* over the border of huge pages */
    assert_non_null(grown);
    assert_true(grown[0] == 0 && grown[1] == 1 && grown[2] == 2);
    uint32_t *shrunk = xsmi_reallocate(ctx, grown, 600000, 2, sizeof *list);
    assert_non_null(shrunk);
    assert_true(shrunk[0] == 0 && shrunk[1] == 1);
    test_memory_fail(m, 1);
    assert_null(xsmi_reallocate(ctx, shrunk, 2, 10, sizeof *list));
    assert_null(xsmi_reallocate(ctx, shrunk, 2, SIZE_MAX / 2, sizeof *list));
    assert_true(shrunk[0] == 0 && shrunk[1] == 1); /* the old block stays */
    xsmi_release(ctx, shrunk, 2, sizeof *list);
    test_memory_end(m, ctx);
}

TEST(test_copy_text)
{
    test_memory *m;
    xsm_context *ctx = test_memory_context(&m, 1);
    char *copy = xsmi_copy_text(ctx, "labels", 5);
    assert_string_equal(copy, "label");
    xsmi_release_text(ctx, copy);
    copy = xsmi_copy_text(ctx, "", 0);
    assert_string_equal(copy, "");
    xsmi_release_text(ctx, copy);
    xsmi_release_text(ctx, NULL);
    test_memory_end(m, ctx);
}

static xsm_status make_context(void *state, xsm_context *ctx, xsm_error *err)
{
    /* A context over the allocator of another: what the first takes is counted by the second. */
    xsm_allocator *allocator = state;
    allocator->user = ctx;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.allocator = allocator;
    options.threads = 2;
    HELD(xsm_context, made) = NULL;
    XSMI_TRY(xsm_context_new(&options, &made, err));
    return XSM_OK;
}

static void *allocate_from(void *user, size_t size, size_t alignment)
{
    assert_true(alignment <= XSMI_ALIGNMENT);
    return xsm_context_allocate(user, size);
}

static void release_to(void *user, void *memory, size_t size, size_t alignment)
{
    (void)alignment;
    xsm_context_release(user, memory, size);
}

TEST(test_refused_memory)
{
    xsm_allocator allocator = {sizeof allocator, NULL, allocate_from, release_to};
    /* The context, the pool and its list of workers, and once none refused. */
    assert_int_equal(test_every_allocation(make_context, &allocator), 4);
}

/* The allocator outlives the caller's hold for as long as an object needs it. */
TEST(test_holders)
{
    test_memory *m;
    xsm_context *ctx = test_memory_context(&m, 1);
    MADE(xsm_context, held, xsmi_context_acquire(ctx, &held, &err));
    assert_ptr_equal(held, ctx);
    void *block = xsmi_allocate(held, 10, 1);
    xsm_context_free(ctx);
    xsmi_release(held, block, 10, 1);
    test_memory_end(m, held);

    assert_ok(xsmi_context_acquire(NULL, &held, &err), err);
    assert_true(test_context_info(held).threads >= 1);
    MADE(xsm_context, second, xsmi_context_acquire(NULL, &second, &err));
    assert_ptr_not_equal(held, second); /* there is no default context that strangers would share */
}

/* What a host lends to a context, and what was called in which order. */
typedef struct lent {
    test_memory *memory;
    int releases;
    size_t blocks; /* that the allocator still had when the hook came */
} lent;

static void count_release(void *user)
{
    lent *l = user;
    l->releases++;
    l->blocks = test_memory_blocks(l->memory);
    errno = 77; /* undone */
}

/* The hook comes once, after the last object and all memory, and not where there is no context. */
TEST(test_release_hook)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        test_memory *m;
        xsm_context *base = test_memory_context(&m, 1), *ctx = NULL;
        xsm_allocator allocator = {sizeof allocator, base, allocate_from, release_to};
        lent l = {m, 0, 0};
        xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
        options.allocator = &allocator;
        options.threads = threads;
        options.release = count_release;
        options.release_user = &l;
        test_memory_fail(m, 1);
        assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_MEMORY, err);
        assert_int_equal(l.releases, 0);

        assert_ok(xsm_context_new(&options, &ctx, &err), err);
        xsm_model *model = NULL, *pruned = NULL;
        assert_ok(xsm_model_new_linear(ctx, 3, 4, NULL, &model, &err), err);
        assert_ok(xsm_model_prune(model, NULL, &pruned, &err), err);
        xsm_context_free(ctx);
        xsm_model_free(model);
        assert_int_equal(l.releases, 0); /* what was made of an object needs the context, too */
        errno = 5;
        xsm_model_free(pruned);
        assert_int_equal(errno, 5);
        assert_int_equal(l.releases, 1);
        assert_int_equal(l.blocks, 0);
        test_memory_end(m, base);
    }
}

/* -- log --------------------------------------------------------------------------------------------------------- */

typedef struct logged {
    int32_t level;
    char text[2048];
} logged;

static void take_log(void *user, int32_t level, const char *message)
{
    logged *l = user;
    l->level = level;
    snprintf(l->text, sizeof l->text, "%s", message);
}

TEST(test_log)
{
    logged l = {0};
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.log = take_log;
    options.log_user = &l;
    xsm_context *ctx;
    assert_ok(xsm_context_new(&options, &ctx, &err), err);
    xsmi_log(ctx, XSM_LOG_INFO, "%s: %d\nrows", "a\tfile", 3);
    assert_int_equal(l.level, XSM_LOG_INFO);
    assert_string_equal(l.text, "a file: 3 rows");
    char long_text[1500];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    xsmi_log(ctx, XSM_LOG_WARNING, "%s", long_text);
    assert_true(strlen(l.text) > 500 && strlen(l.text) < sizeof long_text - 1);
    xsm_context_free(ctx);

    assert_ok(xsm_context_new(NULL, &ctx, &err), err);
    xsmi_log(ctx, XSM_LOG_WARNING, "nobody listens"); /* silence by default */
    xsm_context_free(ctx);
}

/* -- jobs -------------------------------------------------------------------------------------------------------- */

enum { JOBS = 1000, THREADS = 4 };

typedef struct jobs {
    atomic_uint done[JOBS];
    atomic_int busy[THREADS];
    atomic_int others;
    uint32_t threads;
    pthread_t caller;
} jobs;

static void one_job(void *state, size_t index, uint32_t thread)
{
    jobs *j = state;
    assert_true(index < JOBS && thread < j->threads);
    assert_int_equal(atomic_fetch_add(&j->busy[thread], 1), 0); /* never twice at once */
    if (!pthread_equal(pthread_self(), j->caller)) {
        atomic_fetch_add(&j->others, 1);
    }
    atomic_fetch_add(&j->done[index], 1);
    atomic_fetch_sub(&j->busy[thread], 1);
}

static void one_element(void *state, const xsmi_range *r)
{
    assert_true(r->first == r->index && r->end == r->first + 1);
    one_job(state, r->index, r->thread);
}

static void assert_jobs(xsm_context *ctx, size_t count, uint32_t threads)
{
    static jobs j;
    xsm_error err = XSM_ERROR_INIT;
    memset(&j, 0, sizeof j);
    j.threads = threads;
    j.caller = pthread_self();
    assert_ok(xsmi_run(ctx, one_job, &j, count, &err), err);
    for (size_t i = 0; i < JOBS; i++) {
        assert_int_equal(j.done[i], i < count);
    }
    assert_true(threads > 1 || j.others == 0);
}

TEST(test_jobs)
{
    for (uint32_t threads = 1; threads <= THREADS; threads++) {
        test_memory *m;
        xsm_context *ctx = test_memory_context(&m, threads);
        assert_int_equal(test_context_info(ctx).threads, threads);
        assert_jobs(ctx, 0, 1);
        assert_jobs(ctx, 1, 1); /* a single job runs on the caller */
        assert_jobs(ctx, 2, threads);
        assert_jobs(ctx, JOBS, threads);
        test_memory_end(m, ctx);
    }
}

typedef struct nested {
    xsm_context *context;
    jobs inner[8];
    xsm_status status[8];
} nested;

static void one_nested(void *state, size_t index, uint32_t thread)
{
    nested *n = state;
    (void)thread;
    n->inner[index].threads = 1;
    n->inner[index].caller = pthread_self();
    n->status[index] = xsmi_run(n->context, one_job, &n->inner[index], JOBS, NULL);
}

/* A job that runs jobs on the same context does them itself: nobody waits for threads that are taken. */
TEST(test_jobs_when_nested)
{
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = THREADS;
    static nested n;
    memset(&n, 0, sizeof n);
    assert_ok(xsm_context_new(&options, &n.context, &err), err);
    assert_ok(xsmi_run(n.context, one_nested, &n, 8, &err), err);
    for (size_t t = 0; t < 8; t++) {
        assert_int_equal(n.status[t], XSM_OK);
        assert_int_equal(n.inner[t].others, 0);
        for (size_t i = 0; i < JOBS; i++) {
            assert_int_equal(n.inner[t].done[i], 1);
        }
    }
    xsm_context_free(n.context);
}

enum { CALLERS = 3, ROUNDS = 3000, PIECES = 7 };

typedef struct crowd {
    xsm_context *context;
    int64_t sum;
    bool good;
} crowd;

static void add_piece(void *state, size_t index, uint32_t thread)
{
    (void)thread;
    __atomic_fetch_add((int64_t *)state, (int64_t)index + 1, __ATOMIC_RELAXED);
}

static void *call_often(void *argument)
{
    crowd *c = argument;
    c->good = true;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t before = c->sum;
        c->good &= xsmi_run(c->context, add_piece, &c->sum, PIECES, NULL) == XSM_OK;
        c->good &= c->sum - before == PIECES * (PIECES + 1) / 2;
    }
    return NULL;
}

/* Several of the host's threads on one context, with runs so short that workers are often late for them. */
TEST(test_jobs_of_many_callers)
{
    MADE(xsm_context, ctx, xsm_context_new(STRUCT(xsm_context_options, .threads = THREADS), &ctx, &err));
    crowd c[CALLERS];
    pthread_t callers[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        c[i] = (crowd){ctx, 0, false};
        assert_int_equal(pthread_create(&callers[i], NULL, call_often, &c[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(callers[i], NULL), 0);
        assert_true(c[i].good);
    }
}

TEST(test_runner)
{
    int calls = 0;
    xsm_runner runner = {sizeof runner, &calls, 3, 0, run_backwards};
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.runner = &runner;
    options.threads = 17; /* only counts without a runner */
    xsm_context *ctx;
    assert_ok(xsm_context_new(&options, &ctx, &err), err);
    memset(&runner, 0, sizeof runner); /* it was copied */
    assert_int_equal(test_context_info(ctx).threads, 3);
    assert_jobs(ctx, JOBS, 3);
    assert_int_equal(calls, 1);
    assert_jobs(ctx, 1, 1);
    assert_int_equal(calls, 1); /* not for a single job */
    xsm_context_free(ctx);

    runner = (xsm_runner){sizeof(xsm_runner), &calls, 1, 0, run_backwards};
    assert_ok(xsm_context_new(&options, &ctx, &err), err);
    assert_jobs(ctx, JOBS, 1); /* nor for a single thread */
    assert_int_equal(calls, 1);
    xsm_context_free(ctx);
}

/* Where a runner is not to fail, each job runs once. */
static void assert_run_surely(xsm_context *ctx, jobs *j)
{
    xsm_error err = XSM_ERROR_INIT;
    memset(j, 0, sizeof *j);
    j->threads = 2;
    j->caller = pthread_self();
    assert_ok(xsmi_run_all(ctx, one_element, j, 10, 1, &err), err);
    xsmi_run_surely(ctx, one_element, j, 10, 1);
    assert_ok(xsmi_run_together(ctx, true, one_element, j, 10, 1, &err), err);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(j->done[i], 3);
    }
}

TEST(test_runner_that_fails)
{
    static jobs j;
    memset(&j, 0, sizeof j);
    j.threads = 2;
    xsm_runner runner = {sizeof runner, NULL, 2, 0, run_half};
    MADE(xsm_context, ctx, xsm_context_new(STRUCT(xsm_context_options, .runner = &runner), &ctx, &err));
    assert_fails(xsmi_run(ctx, one_job, &j, 10, &err), XSM_ERROR_RUNNER, err);
    assert_non_null(strstr(err.message, "-7"));
    assert_run_surely(ctx, &j);
    assert_fails(xsmi_run_together(ctx, false, one_element, &j, 10, 1, &err), XSM_ERROR_RUNNER, err);
    /* Memory is zero even so. */
    size_t bytes = (size_t)64 << 20;
    unsigned char *block = xsmi_allocate_zero(ctx, bytes, 1);
    assert_non_null(block);
    for (size_t i = 0; i < bytes; i += 64) {
        assert_int_equal(block[i], 0);
    }
    xsmi_release(ctx, block, bytes, 1);
}

TEST(test_runner_that_lies)
{
    static jobs j;
    static const char *const messages[WRONGS] = {"9 jobs have, of 10", "11 jobs have, of 10", "some have twice",
                                                 "20 jobs have, of 10"};
    wrong how;
    xsm_runner runner = {sizeof runner, &how, 2, 0, run_wrong};
    MADE(xsm_context, ctx, xsm_context_new(STRUCT(xsm_context_options, .runner = &runner), &ctx, &err));
    for (how = LEAVES_ONE; how < WRONGS; how++) {
        memset(&j, 0, sizeof j);
        j.threads = 2;
        assert_fails(xsmi_run(ctx, one_job, &j, 10, &err), XSM_ERROR_RUNNER, err);
        assert_non_null(strstr(err.message, messages[how]));
        assert_run_surely(ctx, &j);
    }
}

/* What the header promises of a child: contexts made before the fork, whose threads it does not have, work. */
TEST(test_fork)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it cannot follow threads that start after a fork */
#endif
    test_memory *m;
    xsm_context *ctx = test_memory_context(&m, THREADS);
    assert_jobs(ctx, JOBS, THREADS);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static jobs j;
        xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
        options.threads = THREADS;
        xsm_context *made;
        alarm(60);
        j.threads = THREADS;
        j.caller = pthread_self();
        bool good = xsmi_run(ctx, one_job, &j, JOBS, NULL) == XSM_OK && j.others == 0 &&
                    xsm_context_new(&options, &made, NULL) == XSM_OK &&
                    xsmi_run(made, one_job, &j, JOBS, NULL) == XSM_OK && j.done[JOBS - 1] == 2;
        if (good) {
            xsm_context_free(made);
            xsm_context_free(ctx); /* does not wait for the parent's threads */
        }
        _exit(good ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    test_memory_end(m, ctx);
}
