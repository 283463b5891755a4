/*
 * What the library promises about a host's threads (the guide's page "What the library does to its host"): errno, the
 * floating-point environment, and that run() is not called from a job. That results and rounding mode stay the same in
 * another floating-point environment, and that 128 KiB of stack are enough, is shown by `bits` for every run.
 */
#include "training.h"

#include "base/activity.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xsoftmax.h>

/* What every test here does: it binds, draws, trains, evaluates, predicts, searches and saves. */
static void use_everything(xsm_context *ctx, const char *estimator)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_problem, p) = test_problem_new(300, 12, 40, false, 7);
    xsm_labels labels = XSM_LABELS_INIT;
    labels.classes = p.classes;
    labels.labels = p.labels;
    xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
    rows.values = p.x;
    rows.rows = p.rows;
    rows.features = p.features;
    rows.labels = &labels;
    MADE(xsm_dataset, data, xsm_dataset_from_dense(ctx, &rows, &data, &err));
    MADE(xsm_model, m, xsm_model_new_linear(ctx, p.features, p.classes, NULL, &m, &err));
    MADE(xsm_estimator, e, xsm_estimator_new(ctx, estimator, &e, &err));
    MADE(xsm_optimizer, o, xsm_optimizer_new(ctx, "sgd", &o, &err));
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    run.epochs = 2;
    run.batch = 8;
    run.eta = 1e-4; /* at which each of them stays finite */
    MADE(xsm_trainer, t, xsm_trainer_new(ctx, m, data, e, o, &run, &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_metrics metrics = XSM_METRICS_INIT;
    assert_ok(xsm_evaluate(ctx, m, data, NULL, &metrics, &err), err);
    MADE(xsm_index, x, xsm_index_new(ctx, "spherical", &x, &err));
    if (test_model_info(m).correction == XSM_CORRECTION_NONE) {
        assert_ok(xsm_index_build_model(x, m, &err), err);
    }
    char path[] = "/tmp/xsoftmax-contracts-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    remove(path);
}

/* -- errno --------------------------------------------------------------------------------------------------------- */

TEST(test_errno)
{
    xsm_dataset *data = NULL;
    HELD(xsm_context, ctx) = test_context(2, TEST_BUILT_IN, 0);
    errno = EXDEV;
    assert_fails(xsm_dataset_read(ctx, "/nowhere/at/all", NULL, NULL, &data, &err), XSM_ERROR_IO, err);
    assert_int_equal(errno, EXDEV);
    xsm_model *m = NULL;
    assert_fails(xsm_model_load(ctx, "/nowhere/at/all", NULL, NULL, &m, &err), XSM_ERROR_IO, err);
    assert_int_equal(errno, EXDEV);
    MADE(xsm_estimator, e, xsm_estimator_new(ctx, "umax", &e, &err));
    assert_ok(xsm_estimator_set(e, "ridge", "1e-400", &err), err); /* strtod() says ERANGE */
    assert_int_equal(errno, EXDEV);
}

/* -- floating point ------------------------------------------------------------------------------------------------ */

TEST(test_flags)
{
    HELD(xsm_context, ctx) = test_context(2, TEST_BUILT_IN, 0);
    HELD_STRUCT(test_problem, p) = test_problem_new(50, 6, 9, false, 7);
    MADE(xsm_model, m, xsm_model_new_linear(ctx, p.features, p.classes, NULL, &m, &err));
    xsm_metrics metrics = XSM_METRICS_INIT;
    feclearexcept(FE_ALL_EXCEPT);
    assert_ok(xsm_evaluate(ctx, m, p.data, NULL, &metrics, &err), err); /* log(9) is inexact */
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0);
    feraiseexcept(FE_DIVBYZERO);
    assert_ok(xsm_evaluate(ctx, m, p.data, NULL, &metrics, &err), err);
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT), FE_DIVBYZERO);
    feclearexcept(FE_ALL_EXCEPT);
}

/* A host that wants a signal at the first inexact sum of its own gets none from the library. */
TEST(test_traps)
{
#ifdef __GLIBC__
    feclearexcept(FE_ALL_EXCEPT); /* the x87 would trap at flags that are set already */
    if (feenableexcept(FE_INEXACT | FE_UNDERFLOW | FE_DIVBYZERO) != -1) {
        xsm_context *ctx = test_context(2, TEST_BUILT_IN, 0);
        xsm_estimator *e = NULL;
        xsm_status status = xsm_estimator_new(ctx, "softmax", &e, &err);
        status = status == XSM_OK ? xsm_estimator_set(e, "ridge", "0.1", &err) : status;
        fedisableexcept(FE_ALL_EXCEPT);
        assert_ok(status, err);
        xsm_estimator_free(e);
        xsm_context_free(ctx);
        return;
    }
#endif
    skip();
}

/* Functions of the host's that leave another environment, each in turn. */
enum { NOBODY, PROGRESS, HOOK, LOG, ALLOCATE, RELEASE, RUN, READ, CULPRITS };
static atomic_int culprit, guilty; /* who, and how often */

static void leave_modes(int who)
{
    if (atomic_load(&culprit) == who) {
        atomic_fetch_add(&guilty, 1);
        fesetround(FE_UPWARD); /* also of the x87 */
    }
}

static int32_t bad_progress(void *user, const xsm_progress *progress)
{
    (void)user;
    (void)progress;
    leave_modes(PROGRESS);
    return 0;
}

static int32_t bad_hook(void *user, const xsm_activity *activity)
{
    (void)user;
    (void)activity;
    leave_modes(HOOK);
    return 0;
}

static void bad_log(void *user, int32_t level, const char *message)
{
    (void)user;
    (void)level;
    (void)message;
    leave_modes(LOG);
}

static void *bad_allocate(void *user, size_t size, size_t alignment)
{
    (void)user;
    void *memory = NULL;
    leave_modes(ALLOCATE);
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

static void bad_release(void *user, void *memory, size_t size, size_t alignment)
{
    (void)user;
    (void)size;
    (void)alignment;
    free(memory);
    leave_modes(RELEASE);
}

static int32_t bad_run(void *user, xsm_job job, void *state, size_t count)
{
    (void)user;
    for (size_t i = 0; i < count; i++) {
        job(state, i, 0);
        leave_modes(RUN);
    }
    return 0;
}

static int64_t bad_read(void *user, void *buffer, size_t size)
{
    leave_modes(READ);
    return (int64_t)fread(buffer, 1, size, user);
}

/* Reads rows and trains; the weights' hash. */
static uint64_t trained(bool threads)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_allocator allocator = {sizeof allocator, NULL, bad_allocate, bad_release};
    xsm_runner runner = {sizeof runner, NULL, 2, 0, bad_run};
    NEW(xsm_context, ctx,
        xsm_context_new(STRUCT(xsm_context_options, .allocator = &allocator, .runner = threads ? NULL : &runner,
                               .threads = 2, .log = bad_log, .progress = bad_hook),
                        &ctx, &err));
    xsmi_set_pace(ctx, 0);
    FILE *text = tmpfile();
    assert_non_null(text);
    uint64_t seed = 3;
    for (int i = 0; i < 3000; i++) {
        fprintf(text, "%d 1:%.9f 2:%.9f 3:%.9f\n", i % 40, test_uniform(&seed), test_uniform(&seed),
                test_uniform(&seed));
    }
    rewind(text);
    xsm_source source = {sizeof source, text, bad_read};
    NEW(xsm_dataset, data, xsm_dataset_read(ctx, NULL, TEST_FROM(&source, "rows"), NULL, &data, &err));
    fclose(text);
    NEW(xsm_model, m, xsm_model_new_linear(ctx, 3, 40, NULL, &m, &err));
    NEW(xsm_estimator, e, xsm_estimator_new(ctx, "softmax", &e, &err));
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, "adagrad", &o, &err));
    NEW(xsm_trainer, t,
        xsm_trainer_new(ctx, m, data, e, o,
                        STRUCT(xsm_trainer_options, .epochs = 2, .batch = 1000, .eta = 0.3, .progress = bad_progress),
                        &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsmi_log(ctx, XSM_LOG_INFO, "trained");
    const uint64_t hash = test_hash(m);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    xsm_dataset_free(data);
    xsm_context_free(ctx);
    return hash;
}

TEST(test_what_callbacks_leave)
{
    for (int threads = 0; threads < 2; threads++) {
        atomic_store(&culprit, NOBODY);
        const uint64_t hash = trained(threads);
        for (int who = PROGRESS; who < CULPRITS; who++) {
            atomic_store(&culprit, who);
            atomic_store(&guilty, 0);
            const uint64_t other = trained(threads);
            const int mode = fegetround();
            volatile long double one = 1, three = 3; /* by the x87, where there is one */
            volatile long double third = one / three;
            char digits[16];
            snprintf(digits, sizeof digits, "%.1f", 0.11);
            fesetround(FE_TONEAREST);
            assert_true(third == one / three);
            assert_string_equal(digits, "0.1");
            assert_int_equal(mode, FE_TONEAREST);
            if (other != hash || (atomic_load(&guilty) == 0 && (who != RUN || !threads))) {
                fail_msg("culprit %d was called %d times; the weights are %s", who, atomic_load(&guilty),
                         other == hash ? "the same" : "others");
            }
        }
    }
    atomic_store(&culprit, NOBODY);
}

/* -- run() --------------------------------------------------------------------------------------------------------- */

/* A runner with two threads that notes whether run() was called from a job. */
typedef struct shy_runner {
    pthread_key_t inside; /* not NULL in a thread that runs a job */
    size_t runs, nested;
    pthread_mutex_t lock;
} shy_runner;

typedef struct shy_half {
    shy_runner *runner;
    xsm_job job;
    void *state;
    size_t count;
    uint32_t thread;
} shy_half;

static void *run_half(void *argument)
{
    shy_half *h = argument;
    pthread_setspecific(h->runner->inside, h);
    for (size_t i = h->thread; i < h->count; i += 2) {
        h->job(h->state, i, h->thread);
    }
    pthread_setspecific(h->runner->inside, NULL);
    return NULL;
}

static int32_t run_shyly(void *user, xsm_job job, void *state, size_t count)
{
    shy_runner *r = user;
    pthread_mutex_lock(&r->lock);
    r->runs++;
    r->nested += pthread_getspecific(r->inside) != NULL;
    pthread_mutex_unlock(&r->lock);
    shy_half halves[2] = {{r, job, state, count, 0}, {r, job, state, count, 1}};
    pthread_t other;
    if (pthread_create(&other, NULL, run_half, &halves[1]) != 0) {
        return 1;
    }
    run_half(&halves[0]);
    pthread_join(other, NULL);
    return 0;
}

TEST(test_no_nesting)
{
    shy_runner r = {0, 0, 0, PTHREAD_MUTEX_INITIALIZER};
    assert_int_equal(pthread_key_create(&r.inside, NULL), 0);
    xsm_runner runner = {sizeof runner, &r, 2, 0, run_shyly};
    NEW(xsm_context, ctx, xsm_context_new(STRUCT(xsm_context_options, .runner = &runner), &ctx, &err));
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        use_everything(ctx, xsm_estimator_at(i)->name);
    }
    xsm_context_free(ctx);
    pthread_key_delete(r.inside);
    assert_true(r.runs > 100);
    assert_int_equal(r.nested, 0);
}

/* A job of the host's, in a context's own threads, may use the context. */
typedef struct inner_state {
    xsm_context *context;
    test_problem *problem;
    xsm_model *model;
    xsm_metrics metrics[8];
    xsm_status status[8];
} inner_state;

static void evaluate_inside(void *state, size_t index, uint32_t thread)
{
    inner_state *s = state;
    (void)thread;
    s->metrics[index] = (xsm_metrics)XSM_METRICS_INIT;
    s->status[index] = xsm_evaluate(s->context, s->model, s->problem->data, NULL, &s->metrics[index], NULL);
}

TEST(test_nested_calls)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(200, 6, 9, false, 7);
    inner_state s = {.context = test_context(2, TEST_BUILT_IN, 0), .problem = &p};
    s.model = test_model(s.context, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    assert_ok(xsmi_run(s.context, evaluate_inside, &s, 8, &err), err);
    xsm_metrics alone = XSM_METRICS_INIT;
    assert_ok(xsm_evaluate(s.context, s.model, p.data, NULL, &alone, &err), err);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(s.status[i], XSM_OK);
        assert_true(s.metrics[i].log_loss == alone.log_loss);
    }
    xsm_model_free(s.model);
    xsm_context_free(s.context);
}

/* -- fork() -------------------------------------------------------------------------------------------------------- */

/* Objects of a host that divides into two processes in the middle of a run. */
typedef struct family {
    test_problem problem;
    int released; /* what the context has been lent */
    xsm_context *context;
    xsm_dataset *borrowed, *spooled; /* rows of the problem; rows in temporary files */
    int returned;                    /* the borrowed rows */
    xsm_model *model;
    xsm_trainer *trainer;
} family;

static void add_one(void *user)
{
    ++*(int *)user;
}

static int32_t stop_once(void *user, const xsm_progress *progress)
{
    int *stops = user;
    return progress->epoch_ended && progress->epoch == 1 && (*stops)++ == 0;
}

static void family_new(family *f, int *stops)
{
    xsm_error err = XSM_ERROR_INIT;
    f->problem = test_problem_new(300, 12, 40, false, 7);
    xsm_context_options context = XSM_CONTEXT_OPTIONS_INIT;
    context.threads = 3;
    context.release = add_one;
    context.release_user = &f->released;
    assert_ok(xsm_context_new(&context, &f->context, &err), err);
    xsm_labels labels = XSM_LABELS_INIT;
    labels.classes = f->problem.classes;
    labels.labels = f->problem.labels;
    xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
    rows.values = f->problem.x;
    rows.rows = f->problem.rows;
    rows.features = f->problem.features;
    rows.labels = &labels;
    rows.ownership = XSM_BORROW;
    rows.release = add_one;
    rows.release_user = &f->returned;
    assert_ok(xsm_dataset_from_dense(f->context, &rows, &f->borrowed, &err), err);
    const char *path = test_path("family.csv");
    xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    write.format = XSM_FORMAT_CSV;
    read.spool = "/tmp";
    assert_ok(xsm_dataset_write(f->borrowed, path, &write, &err), err);
    assert_ok(xsm_dataset_read(f->context, path, NULL, &read, &f->spooled, &err), err);
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    run.epochs = 3;
    run.batch = 50;
    run.progress = stop_once;
    run.progress_user = stops;
    assert_ok(xsm_model_new_linear(f->context, f->problem.features, f->problem.classes, NULL, &f->model, &err), err);
    MADE(xsm_estimator, e, xsm_estimator_new(f->context, "softmax", &e, &err));
    MADE(xsm_optimizer, o, xsm_optimizer_new(f->context, "sgd", &o, &err));
    assert_ok(xsm_trainer_new(f->context, f->model, f->borrowed, e, o, &run, &f->trainer, &err), err);
}

/* Continues the run, saves the model, changes the rows and releases everything. */
static bool live_on(family *f, const char *path, bool shuffle)
{
    bool good = xsm_trainer_run(f->trainer, NULL) == XSM_OK && xsm_model_save(f->model, path, NULL, NULL) == XSM_OK;
    good = good && (!shuffle || (xsm_dataset_shuffle(f->spooled, 5, NULL) == XSM_OK &&
                                 xsm_dataset_shuffle(f->borrowed, 5, NULL) == XSM_OK));
    /* A shuffle copies the rows, so that they are given back before. */
    good = good && f->released == 0 && f->returned == shuffle;
    xsm_trainer_free(f->trainer);
    xsm_model_free(f->model);
    xsm_dataset_free(f->borrowed);
    xsm_dataset_free(f->spooled);
    xsm_context_free(f->context);
    return good && f->released == 1 && f->returned == 1;
}

static bool same_files(const char *a, const char *b)
{
    FILE *one = fopen(a, "rb"), *other = fopen(b, "rb");
    int x = 0, y = 0;
    while (one && other && x == y && x != EOF) {
        x = getc(one);
        y = getc(other);
    }
    const bool same = one && other && x == y;
    if (one) {
        fclose(one);
    }
    if (other) {
        fclose(other);
    }
    return same;
}

/* A child works with all that was made before it, as the parent does, and neither sees what the other does with it. */
TEST(test_fork)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it cannot follow threads that start after a fork */
#endif
    static family f;
    int stops = 0, result;
    family_new(&f, &stops);
    const char *ours = test_path("parent.model"), *theirs = test_path("child.model");
    assert_fails(xsm_trainer_run(f.trainer, &err), XSM_CANCELLED, err);
    float before[12];
    xsm_row row = XSM_ROW_INIT;
    assert_ok(xsm_dataset_get_row(f.spooled, 11, &row, &err), err);
    assert_int_equal(row.count, 12);
    memcpy(before, row.values, sizeof before);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        _exit(live_on(&f, theirs, true) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    assert_ok(xsm_dataset_get_row(f.spooled, 11, &row, &err), err);
    assert_memory_equal(row.values, before, sizeof before);
    assert_true(f.released == 0 && f.returned == 0);
    assert_true(live_on(&f, ours, false));
    assert_true(same_files(ours, theirs));
    test_problem_free(&f.problem);
}

/* -- runners that skip jobs ---------------------------------------------------------------------------------------- */

static int32_t skip_odd_jobs(void *user, xsm_job job, void *state, size_t count)
{
    (void)user;
    for (size_t i = 0; i < count; i += 2) {
        job(state, i, 0);
    }
    return 0;
}

/* Not numbers that no job has written. */
TEST(test_skipped_jobs)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(300, 12, 40, false, 7);
    xsm_runner runner = {sizeof runner, NULL, 2, 0, skip_odd_jobs};
    MADE(xsm_context, ctx, xsm_context_new(STRUCT(xsm_context_options, .runner = &runner), &ctx, &err));
    MADE(xsm_model, m, xsm_model_new_linear(NULL, p.features, p.classes, NULL, &m, &err));
    xsm_metrics metrics = XSM_METRICS_INIT;
    assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), err);
    const xsm_metrics before = metrics;
    assert_fails(xsm_evaluate(ctx, m, p.data, NULL, &metrics, &err), XSM_ERROR_RUNNER, err);
    assert_memory_equal(&metrics, &before, sizeof before);
}
