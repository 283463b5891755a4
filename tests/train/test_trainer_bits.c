/*
 * Training gives the same bits on any number of threads, with a host's runner, on any instruction set, and again; and
 * the same as a plain loop of gradients and steps. K is large enough that windows of steps really run in parallel.
 */
#include "training.h"

#include "estimator/estimator.h"
#include "train/trainer.h"

#include <xsoftmax/dataset_weights.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 20000 };

typedef struct run {
    const char *estimator, *options;
    bool bias;
    uint64_t batch, epochs;
    int32_t order, schedule;
    double eta;            /* 0 = 0.5 */
    const char *optimizer; /* NULL = sgd */
} run;

/* Trains a new model and returns its hash; adds the windows that ran on the threads to *threaded. */
static uint64_t train(const run *r, const test_problem *p, xsm_context *ctx, int32_t way, uint64_t *threaded)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(ctx, p, r->bias, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(ctx, r->estimator, r->options);
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, r->optimizer ? r->optimizer : "sgd", &o, &err));
    NEW(xsm_trainer, t,
        xsm_trainer_new(ctx, m, p->data, e, o,
                        STRUCT(xsm_trainer_options, .epochs = r->epochs, .batch = r->batch,
                               .eta = r->eta > 0 ? r->eta : 0.5, .factor = 0.75, .order = r->order,
                               .schedule = r->schedule, .seed = 77),
                        &t, &err));
    xsmi_window_choice *w = t->window ? xsmi_window_chosen(t->window) : NULL;
    bool exact = (xsm_estimator_find(r->estimator)->kind == XSM_ESTIMATOR_EXACT) != 0;
    assert_true((w != NULL) == (r->batch == 1 && !exact));
    if (w) {
        w->mode = way;
    }
    assert_ok(xsm_trainer_run(t, &err), err);
    if (w) {
        *threaded += w->threaded;
        /* Each that ran on the threads had the one after it planned beside it, be it the next epoch's first. */
        assert_true(w->planned + 1 >= w->threaded);
    }
    xsm_trainer_free(t);
    uint64_t hash = test_hash(m);
    xsm_optimizer_free(o);
    return hash;
}

/* Each way to run the same. */
typedef struct machine {
    uint32_t threads;
    int runner;
    uint32_t cpu_disable;
    int32_t way;
} machine;

static const machine machines[] = {
    {1, TEST_BUILT_IN, 0, XSMI_WINDOW_FASTER},
    {1, TEST_BUILT_IN, 0, XSMI_WINDOW_FASTER},
    {2, TEST_BUILT_IN, 0, XSMI_WINDOW_THREADS},
    {3, TEST_BUILT_IN, 0, XSMI_WINDOW_THREADS},
    {3, TEST_BUILT_IN, 0, XSMI_WINDOW_FASTER},
    {3, TEST_BUILT_IN, 0, XSMI_WINDOW_ORDER},
    {3, TEST_REVERSED, 0, XSMI_WINDOW_THREADS},
    {3, TEST_PTHREADS, 0, XSMI_WINDOW_THREADS},
    {1, TEST_BUILT_IN, XSM_CPU_DISABLE_AVX2, XSMI_WINDOW_FASTER},
    {2, TEST_BUILT_IN, XSM_CPU_DISABLE_AVX512, XSMI_WINDOW_THREADS},
    {1, TEST_BUILT_IN, XSM_CPU_DISABLE_NEON, XSMI_WINDOW_FASTER},
};
#define MACHINES (sizeof machines / sizeof *machines)

static void check_run(const run *r, const test_problem *p, bool sparse)
{
    uint64_t first = 0;
    for (size_t i = 0; i < MACHINES; i++) {
        HELD(xsm_context, ctx) = test_context(machines[i].threads, machines[i].runner, machines[i].cpu_disable);
        uint64_t threaded = 0, hash = train(r, p, ctx, machines[i].way, &threaded);
        bool windows = r->batch == 1 && !(xsm_estimator_find(r->estimator)->kind == XSM_ESTIMATOR_EXACT);
        if (windows && machines[i].way != XSMI_WINDOW_FASTER) {
            assert_true((threaded > 0) == (machines[i].way == XSMI_WINDOW_THREADS));
        }
        first = i ? first : hash;
        if (hash != first) {
            fail_msg("%s %s, sparse %d, bias %d, batch %llu: machine %zu has other bits", r->estimator, r->options,
                     sparse, r->bias, (unsigned long long)r->batch, i);
        }
    }
}

static void same_bits(const char *estimator, const char *plain, const char *ridge, uint32_t classes, uint64_t rows,
                      uint64_t most, double eta)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(rows, sparse ? 24 : 12, classes, sparse, 31);
        for (int bits = 0; bits < 4; bits++) {
            run r = {estimator,         bits & 1 ? ridge : plain, bits & 2, 1,   2,
                     XSM_ORDER_SHUFFLE, XSM_SCHEDULE_INVERSE,     eta,      NULL};
            /* Half of the kinds by single rows, half by batches: every two of the three settings meet in both. */
            r.batch = (sparse ^ bits ^ bits >> 1) & 1 ? most : 1;
            check_run(&r, &p, sparse);
        }
    }
}

TEST(softmax_has_the_same_bits)
{
    same_bits("softmax", "", "ridge=0.5", 1500, 24, 7, 0);
}

TEST(many_label_estimators_have_the_same_bits)
{
    same_bits("margin", "", "ridge=0.5", 1500, 24, 7, 0);
    same_bits("one-vs-all", "", "ridge=0.5", 1500, 24, 7, 0);
    same_bits("one-vs-all-sampled", "negatives=2", "negatives=2 ridge=0.5", CLASSES, 1800, 7, 0);
}

TEST(ove_has_the_same_bits)
{
    same_bits("ove", "negatives=2", "negatives=2 ridge=0.5", CLASSES, 1800, 7, 0);
}

TEST(umax_has_the_same_bits)
{
    same_bits("umax", "negatives=2", "negatives=2 ridge=0.5", CLASSES, 1800, 7, 0);
    same_bits("umax", "negatives=2 weight-bound=2", "negatives=2 weight-bound=2 ridge=0.5", CLASSES, 1800, 7, 0);
}

TEST(plain_double_sums_have_the_same_bits)
{
    same_bits("vanilla", "negatives=2", "negatives=2 ridge=0.5", CLASSES, 1800, 7, 1e-5);
    same_bits("raman", "negatives=2", "negatives=2 ridge=0.5", CLASSES, 1800, 7, 1e-5);
    same_bits("augment-reduce", "negatives=2", "negatives=2 ridge=0.5", CLASSES, 1800, 7, 0.01);
}

TEST(implicit_has_the_same_bits)
{
    same_bits("implicit", "negatives=2", "negatives=2 ridge=0.5", CLASSES, 1800, 1, 0);
    same_bits("implicit", "negatives=2", "negatives=2 ridge=0.5", 400, 300, 7, 0);
}

/* So strong a ridge that the scales leave their range within a window: multiplied out in the middle of it. */
TEST(strong_ridges_have_the_same_bits)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(1800, 12, CLASSES, false, 31);
    run r = {"ove", "negatives=2 ridge=100", true, 1, 2, XSM_ORDER_SHUFFLE, XSM_SCHEDULE_CONSTANT, 0, NULL};
    check_run(&r, &p, false); /* once a window */
    for (int i = 0; i < 2; i++) {
        r.options = i ? "negatives=2 ridge=1e9" : "negatives=2 ridge=500"; /* several times a window; every step */
        uint64_t first = 0, threaded = 0;
        for (uint32_t threads = 1; threads < 4; threads++) {
            HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
            uint64_t hash = train(&r, &p, ctx, XSMI_WINDOW_THREADS, &threaded);
            first = threads == 1 ? hash : first;
            assert_true(hash == first);
        }
        assert_int_equal(threaded, 0);
    }
}

/* -- an estimator that the callback binds anew -------------------------------------------------------------------- */

typedef struct rebinding {
    xsm_estimator *estimator;
    const xsm_model *model, *other;
    const xsm_dataset *data;
    const char *negatives;
} rebinding;

static int32_t rebind(void *user, const xsm_progress *progress)
{
    const rebinding *r = user;
    if (progress->epoch_ended && progress->epoch == 1) {
        xsm_error err = XSM_ERROR_INIT;
        xsmi_estimator_unbind(r->estimator); /* as a bind() that fails does */
        assert_ok(xsm_estimator_set(r->estimator, "negatives", r->negatives, &err), err);
        assert_ok(xsm_estimator_bind(r->estimator, r->other ? r->other : r->model, r->data, &err), err);
    }
    return 0;
}

/* Lists of another width, of every class, or of another model's. */
TEST(estimators_may_be_bound_anew)
{
    static const char *const negatives[] = {"1", "9", "all", "2"};
    HELD_STRUCT(test_problem, p) = test_problem_new(1800, 12, CLASSES, false, 31);
    for (int kind = 0; kind < 4; kind++) {
        uint64_t hashes[2];
        for (int threaded = 0; threaded < 2; threaded++) {
            HELD(xsm_context, ctx) = test_context(threaded ? 3 : 1, TEST_BUILT_IN, 0);
            HELD(xsm_model, m) = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
            HELD(xsm_model, other) = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
            HELD(xsm_estimator, e) = test_estimator(ctx, "ove", "negatives=2");
            MADE(xsm_optimizer, o, xsm_optimizer_new(ctx, "sgd", &o, &err));
            rebinding r = {e, m, kind == 3 ? other : NULL, p.data, negatives[kind]};
            MADE(xsm_trainer, t,
                 xsm_trainer_new(
                     ctx, m, p.data, e, o,
                     STRUCT(xsm_trainer_options, .epochs = 3, .eta = 0.5, .progress = rebind, .progress_user = &r), &t,
                     &err));
            xsmi_window_chosen(t->window)->mode = threaded ? XSMI_WINDOW_THREADS : XSMI_WINDOW_ORDER;
            if (kind < 2) {
                assert_ok(xsm_trainer_run(t, &err), err);
            } else {
                assert_fails(xsm_trainer_run(t, &err), XSM_ERROR_STATE, err);
            }
            hashes[threaded] = test_hash(m);
        }
        assert_true(hashes[0] == hashes[1]);
    }
}

/* -- a loop of one's own ------------------------------------------------------------------------------------------ */

static uint64_t plain_loop(const run *r, const test_problem *p)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(NULL, p, r->bias, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, r->estimator, r->options);
    assert_ok(xsm_estimator_bind(e, m, p->data, &err), err);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    for (uint64_t epoch = 0; epoch < r->epochs; epoch++) {
        double eta = epoch == 0 ? 0.5 : 0.5 * 0.75; /* powers of 0.75 that are exact */
        for (uint64_t i = 0; i < p->rows; i += r->batch) {
            xsm_batch batch = xsm_batch_range(p->data, i, p->rows - i < r->batch ? p->rows - i : r->batch);
            test_take_step(e, o, g, &batch, eta);
        }
    }
    uint64_t hash = test_hash(m);
    return hash;
}

TEST(training_is_the_plain_loop)
{
    static const char *const kinds[][2] = {{"ove", "negatives=2"},
                                           {"umax", "negatives=2 start=log-classes"},
                                           {"umax", "negatives=2 weight-bound=0.5 ridge=1"},
                                           {"implicit", "negatives=2"},
                                           {"implicit", "negatives=2 ridge=2"}};
    HELD(xsm_context, ctx) = test_context(3, TEST_BUILT_IN, 0);
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(1800, 12, CLASSES, sparse, 31);
        for (int kind = 0; kind < 5; kind++) {
            for (int bias = 0; bias < 2; bias++) {
                run r = {kinds[kind][0], kinds[kind][1], bias, 1, 2, XSM_ORDER_FILE, XSM_SCHEDULE_STEP, 0, NULL};
                uint64_t threaded = 0, hash = plain_loop(&r, &p);
                if (train(&r, &p, ctx, XSMI_WINDOW_THREADS, &threaded) != hash ||
                    train(&r, &p, ctx, XSMI_WINDOW_ORDER, &threaded) != hash) {
                    fail_msg("%s %s, sparse %d, bias %d: other bits than a plain loop", r.estimator, r.options, sparse,
                             bias);
                }
                assert_true(threaded > 0);
                if (kind < 3 || (!bias && p.rows % 7)) { /* the last batch is shorter */
                    r.batch = 7;
                    assert_true(train(&r, &p, ctx, 0, &threaded) == plain_loop(&r, &p));
                }
            }
        }
    }
}

/* Sums beside the weights, which the steps of a window change on several threads. */
TEST(adagrad_has_the_same_bits)
{
    static const char *const estimators[] = {"ove", "nce", "softmax"};
    for (int i = 0; i < 6; i++) {
        bool sparse = i & 1, exact = i / 2 == 2;
        HELD_STRUCT(test_problem, p) =
            test_problem_new(exact ? 100 : 1800, sparse ? 24 : 12, exact ? 300 : CLASSES, sparse, 31);
        for (uint64_t batch = 1; batch <= 130; batch += 129) {
            run r = {estimators[i / 2], exact ? "" : "negatives=2", true, batch,    2,
                     XSM_ORDER_SHUFFLE, XSM_SCHEDULE_INVERSE,       0.1,  "adagrad"};
            check_run(&r, &p, sparse);
        }
    }
}

/* -- coefficients that are not kept -------------------------------------------------------------------------------- */

/* What a trained model is, and what the training took. */
typedef struct trained {
    uint64_t hash;
    double loss;
} trained;

/* Trains with batches of 150 rows: a linear model, or one of `hidden` numbers. */
static trained train_again(xsm_context *ctx, const xsm_dataset *data, const run *r, uint32_t hidden, bool again)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(data, &info, &err), err);
    HELD(xsm_model, m) = NULL;
    xsm_model_options bias = XSM_MODEL_OPTIONS_INIT;
    bias.bias = r->bias;
    assert_ok(hidden ? xsm_model_new_embedding(ctx, info.features, hidden, info.classes, NULL, &m, &err)
                     : xsm_model_new_linear(ctx, info.features, info.classes, &bias, &m, &err),
              err);
    HELD(xsm_estimator, e) = test_estimator(ctx, r->estimator, r->options);
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, r->optimizer, &o, &err));
    NEW(xsm_trainer, t,
        xsm_trainer_new(ctx, m, data, e, o, STRUCT(xsm_trainer_options, .epochs = 3, .batch = 150, .eta = r->eta), &t,
                        &err));
    t->gradient->array_most = again ? 0 : UINT64_MAX;
    assert_ok(xsm_trainer_run(t, &err), err);
    assert_true((t->gradient->coefficients == NULL) == again);
    const trained got = {hidden ? test_hash_embedding(m) : test_hash(m), t->gradient->loss};
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    return got;
}

/* Rows with weights, some 0, and up to three labels, weighted too. */
static xsm_dataset *weighted_rows(const test_problem *p, bool sparse, bool several)
{
    enum { MOST = 200 };
    xsm_error err = XSM_ERROR_INIT;
    uint64_t offsets[MOST + 1] = {0};
    uint32_t labels[3 * MOST];
    float rows[MOST], values[3 * MOST];
    for (uint64_t i = 0; i < p->rows; i++) {
        offsets[i + 1] = offsets[i];
        rows[i] = (float)(i % 4) / 2;
        for (uint32_t j = 0; j < (several ? 1 + i % 3 : 1); j++) {
            values[offsets[i + 1]] = 0.5f + (float)j;
            labels[offsets[i + 1]++] = (uint32_t)(i * 37 % 3000) + 3000 * j; /* one of each class run */
        }
    }
    xsm_dataset *data = test_relabel(p, sparse, p->classes, offsets, labels);
    assert_ok(xsm_dataset_set_weights(data,
                                      STRUCT(xsm_dataset_weights, .rows = rows, .row_count = (size_t)p->rows,
                                             .labels = several ? values : NULL,
                                             .label_count = several ? (size_t)offsets[p->rows] : 0),
                                      &err),
              err);
    return data;
}

TEST(coefficients_that_are_not_kept_have_the_same_bits)
{
    static const run runs[] = {
        {.estimator = "softmax", .options = "", .bias = true, .eta = 0.5, .optimizer = "sgd"},
        {.estimator = "softmax", .options = "ridge=3", .eta = 0.5, .optimizer = "sgd"},
        {.estimator = "softmax", .options = "", .bias = true, .eta = 0.1, .optimizer = "adagrad"},
        {.estimator = "softmax", .options = "", .eta = 0.1, .optimizer = "row-adagrad"},
        {.estimator = "one-vs-all", .options = "", .bias = true, .eta = 0.5, .optimizer = "sgd"},
        {.estimator = "ove", .options = "negatives=all", .eta = 0.01, .optimizer = "adagrad"}};
    for (size_t k = 0; k < 2 * sizeof runs / sizeof *runs; k++) {
        const run *r = &runs[k / 2];
        const uint32_t hidden = k % 2 ? 5 : 0;
        HELD_STRUCT(test_problem, p) = test_problem_new(190, 12, 9001, hidden > 0, 31);
        HELD(xsm_dataset, data) = weighted_rows(&p, hidden > 0, strcmp(r->estimator, "ove") != 0);
        const trained want = train_again(NULL, data, r, hidden, false);
        for (size_t i = 0; i < MACHINES; i += 1 + (i > 0)) {
            HELD(xsm_context, ctx) = test_context(machines[i].threads, machines[i].runner, machines[i].cpu_disable);
            const trained got = train_again(ctx, data, r, hidden, true);
            if (got.hash != want.hash || got.loss != want.loss) {
                fail_msg("%s %s by %s, hidden %u: machine %zu has other bits", r->estimator, r->options, r->optimizer,
                         hidden, i);
            }
        }
    }
}

/* Bytes in use and the most so far, of one thread. */
typedef struct meter {
    size_t now, most;
} meter;

static void *meter_allocate(void *user, size_t size, size_t alignment)
{
    meter *m = user;
    m->now += size;
    m->most = m->now > m->most ? m->now : m->most;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void meter_release(void *user, void *memory, size_t size, size_t alignment)
{
    (void)alignment;
    ((meter *)user)->now -= size;
    free(memory);
}

/* 150 rows of 300,000 classes: 180 MB of coefficients beside a model of 19 MB. Kept, they are that much more. */
TEST(coefficients_that_are_not_kept_take_no_memory)
{
    const run r = {.estimator = "softmax", .options = "", .eta = 0.5, .optimizer = "sgd"};
    HELD_STRUCT(test_problem, p) = test_problem_new(150, 12, 300000, false, 31);
    size_t most[2];
    for (int again = 0; again < 2; again++) {
        meter m = {0, 0};
        const xsm_allocator allocator = {sizeof allocator, &m, meter_allocate, meter_release};
        NEW(xsm_context, ctx,
            xsm_context_new(STRUCT(xsm_context_options, .allocator = &allocator, .threads = 1), &ctx, &err));
        (void)train_again(ctx, p.data, &r, 0, again != 0);
        xsm_context_free(ctx);
        assert_int_equal(m.now, 0);
        most[again] = m.most;
    }
    assert_true(most[0] > 180000000 && most[1] < 40000000);
}
