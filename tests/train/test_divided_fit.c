/*
 * Fits of all rows at once (L-BFGS) of models whose classes are divided among ranks: the saved model and the result are
 * those of one process, to the bit, on any number of ranks and threads, also from weights that are not zeros; a rank
 * that fails, is cancelled, or whose callback stops, ends the fit on all.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "comm.h"
#include "model/divided.h"

#include <xsoftmax/fit.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Three class runs, the last of a few classes; as many rows as are two tiles. */
enum { ROWS = 520, FEATURES = 5, CLASSES = 2 * XSMI_RUN_CLASSES + 5, ITERATIONS = 3 };

typedef struct settings {
    const char *estimator, *options;
    bool bias, sparse; /* sparse rows: feature-major weights */
} settings;

/* Sums over class runs, and coefficients of all classes. */
static const settings plans[] = {
    {"softmax", "ridge=1", true, false},
    {"softmax", "", false, true},
    {"one-vs-all", "ridge=0.1", true, true},
    {"ove", "negatives=all ridge=1", false, false},
    {"ove", "negatives=all tight=all", true, true},
    {"bouchard", "ridge=1", true, true},
    {"bouchard", "", false, false},
    {"one-vs-all-sampled", "negatives=all", true, false},
};
#define PLANS (sizeof plans / sizeof *plans)

typedef struct work {
    const settings *plan;
    const xsm_dataset *rows;
    char path[256];
    uint64_t stop_at; /* rank stop_rank stops after that iteration; UINT64_MAX = never */
    uint32_t stop_rank;
    bool again; /* fits once more, from the weights of the first */
    uint64_t ended[TEST_RANKS];
    xsm_fit_result result[TEST_RANKS];
    double tested[TEST_RANKS];
    uint64_t sent[TEST_RANKS];
} work;

typedef struct fitting {
    work *of;
    uint32_t rank;
} fitting;

static int32_t on_progress(void *user, const xsm_progress *p)
{
    const fitting *f = user;
    f->of->ended[f->rank] += p->epoch_ended != 0;
    if (p->test) {
        f->of->tested[f->rank] = p->test->log_loss;
    }
    return f->rank == f->of->stop_rank && p->step >= f->of->stop_at;
}

static xsm_status set_all(xsm_estimator *e, const char *options, xsm_error *err)
{
    char name[32], value[32];
    int length;
    for (; sscanf(options, " %31[^=]=%31s%n", name, value, &length) == 2; options += length) {
        XSMI_TRY(xsm_estimator_set(e, name, value, err));
    }
    return XSM_OK;
}

/* Fits in a context; *out has the best weights so far, also of a fit that was stopped. */
static xsm_status fit_in(test_rank *r, xsm_context *ctx, xsm_model **out)
{
    work *w = r->user;
    fitting f = {w, r->rank};
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = w->plan->bias;
    xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
    options.iterations = ITERATIONS;
    options.tolerance = 0;
    options.progress = on_progress;
    options.progress_user = &f;
    options.evaluate_every = 2;
    options.evaluate_train = XSM_EVALUATE_ALL;
    options.test = w->rows;
    w->ended[r->rank] = 0;
    w->result[r->rank] = (xsm_fit_result)XSM_FIT_RESULT_INIT;
    xsm_estimator *e = NULL;
    XSMI_TRY(xsm_model_new_linear(ctx, FEATURES, CLASSES, &shape, out, &r->err));
    xsm_status status = xsm_estimator_new(ctx, w->plan->estimator, &e, &r->err);
    status = status == XSM_OK ? set_all(e, w->plan->options, &r->err) : status;
    for (int i = 0; status == XSM_OK && i <= w->again; i++) {
        const uint64_t before = xsmi_sent_by(ctx).bytes;
        status = xsm_fit_full_batch(ctx, *out, w->rows, e, &options, &w->result[r->rank], &r->err);
        w->sent[r->rank] = xsmi_sent_by(ctx).bytes - before;
    }
    xsm_estimator_free(e);
    return status;
}

/* Saves also what a callback stopped. */
static xsm_status fit_and_save(test_rank *r)
{
    const work *w = r->user;
    xsm_model *m = NULL;
    xsm_error saving = XSM_ERROR_INIT;
    xsm_status status = fit_in(r, r->context, &m);
    if (status == XSM_OK || status == XSM_CANCELLED) {
        const xsm_status saved = xsm_model_save(m, w->path, &saving);
        status = saved == XSM_OK ? status : saved;
    }
    xsm_model_free(m);
    return status;
}

static work work_of(const settings *plan, const test_problem *p)
{
    work w = {.plan = plan, .rows = p->data, .stop_at = UINT64_MAX};
    snprintf(w.path, sizeof w.path, "%s", test_path("fitted"));
    return w;
}

/* Fits on so many ranks, with that status on each; the file's bytes are the caller's to free. */
static unsigned char *run_on(work *w, uint32_t count, uint32_t threads, xsm_status status, size_t *size)
{
    test_rank ranks[TEST_RANKS];
    remove(w->path);
    test_run_ranks(count, threads, 0, fit_and_save, w, ranks);
    for (uint32_t r = 0; r < count; r++) {
        if (ranks[r].status != status) {
            fail_msg("%s: rank %u of %u has status %d: %s", w->plan->estimator, r, count, (int)ranks[r].status,
                     ranks[r].err.message);
        }
        if (status == XSM_CANCELLED) {
            assert_non_null(strstr(ranks[r].err.message, "stopped by the callback after "));
            assert_true(count == 1 || strncmp(ranks[r].err.message, "rank 1: ", 8) == 0);
        }
    }
    return test_read(w->path, size);
}

static void compare_results(const xsm_fit_result *a, const xsm_fit_result *b)
{
    assert_int_equal(a->iterations, b->iterations);
    assert_int_equal(a->evaluations, b->evaluations);
    assert_memory_equal(&a->objective, &b->objective, sizeof a->objective);
    assert_memory_equal(&a->loss, &b->loss, sizeof a->loss);
    assert_memory_equal(&a->gradient_norm, &b->gradient_norm, sizeof a->gradient_norm);
    assert_int_equal(a->end, b->end);
}

TEST(test_bits)
{
    for (size_t i = 0; i < PLANS; i++) {
        const uint64_t rows = i < 2 ? ROWS : 50; /* of dense and of sparse rows two tiles */
        test_problem p = test_problem_new(rows, FEATURES, CLASSES, plans[i].sparse, 8);
        work w = work_of(&plans[i], &p);
        w.again = true;
        size_t size, wanted;
        unsigned char *one = run_on(&w, 1, 1, XSM_OK, &wanted);
        const xsm_fit_result result = w.result[0];
        const double tested = w.tested[0];
        assert_int_equal(result.iterations, ITERATIONS);
        for (uint32_t count = 2; count <= 3; count++) {
            for (uint32_t threads = test_full() ? 1 : 2; test_ranks_tried(count) && threads <= 2; threads++) {
                unsigned char *many = run_on(&w, count, threads, XSM_OK, &size);
                assert_int_equal(size, wanted);
                if (memcmp(many, one, size) != 0) {
                    fail_msg("%s: another model on %u ranks of %u threads", plans[i].estimator, count, threads);
                }
                for (uint32_t r = 0; r < count; r++) {
                    compare_results(&w.result[r], &result);
                    assert_memory_equal(&w.tested[r], &tested, sizeof tested);
                    assert_int_equal(w.ended[r], 2 * ITERATIONS);
                }
                free(many);
            }
        }
        free(one);
        test_problem_free(&p);
    }
}

/* A rank sends its share of the parameters once at the start, and of the gradient in each evaluation. */
TEST(test_sent)
{
    for (size_t i = 0; i < 2; i++) {
        test_problem p = test_problem_new(20, FEATURES, CLASSES, plans[i].sparse, 8);
        work w = work_of(&plans[i], &p);
        size_t size;
        free(run_on(&w, 3, 1, XSM_OK, &size));
        for (uint32_t r = 0; r < 3; r++) {
            const uint64_t first = xsmi_part_start(CLASSES, 3, r), end = xsmi_part_start(CLASSES, 3, r + 1);
            const uint64_t vectors = 1 + w.result[r].evaluations,
                           numbers = vectors * (end - first) * (FEATURES + plans[i].bias);
            /* Of the 20 rows 16 bytes in each evaluation or more, and 36; the measures are sent, too. */
            assert_in_range(w.sent[r], 8 * numbers, 8 * numbers + 20000);
        }
        test_problem_free(&p);
    }
}

/* A callback of rank 1 stops all ranks after the same iteration, where all have the model of one process. */
TEST(test_stopped)
{
    test_problem p = test_problem_new(60, FEATURES, CLASSES, true, 8);
    work w = work_of(&plans[2], &p);
    for (w.stop_at = 0; w.stop_at < ITERATIONS; w.stop_at++) {
        size_t size, wanted;
        w.stop_rank = 0;
        unsigned char *one = run_on(&w, 1, 1, XSM_CANCELLED, &wanted);
        const xsm_fit_result result = w.result[0];
        assert_int_equal(result.iterations, w.stop_at);
        w.stop_rank = 1;
        unsigned char *many = run_on(&w, 3, 1, XSM_CANCELLED, &size);
        assert_int_equal(size, wanted);
        assert_memory_equal(many, one, size);
        for (uint32_t r = 0; r < 3; r++) {
            compare_results(&w.result[r], &result);
        }
        free(many);
        free(one);
    }
    test_problem_free(&p);
}

/* The group fails at each of its calls in turn: every rank returns, and with the same status. */
TEST(test_lost)
{
    static const size_t tried[] = {0, 2};
    for (size_t i = 0; i < 2; i++) {
        test_problem p = test_problem_new(12, FEATURES, CLASSES, plans[tried[i]].sparse, 8);
        work w = work_of(&plans[tried[i]], &p);
        test_rank ranks[TEST_RANKS];
        uint64_t at = 1;
        do {
            test_run_ranks(3, 1, at, fit_and_save, &w, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                assert_int_equal(ranks[r].status, ranks[0].status);
            }
            assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_ERROR_COMM);
            at = test_next_place(at, 1 + at / 40);
        } while (ranks[0].status != XSM_OK);
        assert_true(at > 40);
        test_problem_free(&p);
    }
}

/* -- a rank without memory, and one that is cancelled -------------------------------------------------------------- */

typedef struct limited {
    work of;
    size_t k; /* rank 1's k-th allocation fails, or its hook cancels at its k-th call; 0 = neither */
    bool cancels, reached;
} limited;

static xsm_status fit_limited(test_rank *r)
{
    limited *l = r->user;
    test_rank of = {.rank = r->rank, .ranks = r->ranks, .user = &l->of, .err = XSM_ERROR_INIT};
    test_countdown c = {r->rank == 1 ? l->k : 0, false};
    xsm_context *ctx = NULL;
    xsm_model *m = NULL;
    xsm_status status = test_rank_context(r, l->cancels ? NULL : &c, l->cancels ? &c : NULL, &ctx);
    if (status != XSM_OK) {
        return xsmi_agree(r->context, status, &r->err);
    }
    status = fit_in(&of, ctx, &m);
    r->err = of.err;
    xsm_model_free(m);
    xsm_context_free(ctx);
    if (r->rank == 1) {
        l->reached = c.reached;
    }
    return status;
}

TEST(test_memory_lost)
{
    static const size_t tried[] = {0, 2, 5};
    for (size_t i = 0; i < 3; i++) {
        test_problem p = test_problem_new(12, FEATURES, CLASSES, plans[tried[i]].sparse, 8);
        limited l = {.of = work_of(&plans[tried[i]], &p), .reached = true};
        test_rank ranks[TEST_RANKS];
        size_t failures = 0;
        for (l.k = 1; l.reached; l.k = test_next_place(l.k, 1)) {
            test_run_ranks(3, 1, 0, fit_limited, &l, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                /* Estimators are made without the group: the others find that rank 1 has left. */
                assert_true(ranks[r].status == ranks[1].status || ranks[r].status == XSM_ERROR_COMM);
            }
            assert_true(ranks[1].status == XSM_OK || ranks[1].status == XSM_ERROR_MEMORY);
            failures += ranks[0].status == XSM_ERROR_MEMORY && strncmp(ranks[0].err.message, "rank 1: ", 8) == 0;
        }
        assert_int_equal(ranks[0].status, XSM_OK);
        assert_true(failures > (test_full() ? 15 : 4));
        test_problem_free(&p);
    }
}

TEST(test_cancelled)
{
    static const size_t tried[] = {0, 5};
    for (size_t i = 0; i < 2; i++) {
        test_problem p = test_problem_new(40, FEATURES, CLASSES, plans[tried[i]].sparse, 8);
        limited l = {.of = work_of(&plans[tried[i]], &p), .cancels = true, .reached = true};
        test_rank ranks[TEST_RANKS];
        size_t cancelled = 0;
        for (l.k = 1; l.reached; l.k = test_next_place(l.k, 1 + l.k / 10)) {
            test_run_ranks(3, 1, 0, fit_limited, &l, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                assert_int_equal(ranks[r].status, ranks[0].status);
            }
            /* A hook that says so while nothing can end any more is not heard. */
            assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_CANCELLED);
            cancelled += ranks[0].status == XSM_CANCELLED;
        }
        assert_int_equal(ranks[0].status, XSM_OK);
        assert_true(cancelled > (test_full() ? 10 : 4));
        test_problem_free(&p);
    }
}

/* -- what is refused ----------------------------------------------------------------------------------------------- */

/* As in one process: a model with a first layer, and an estimator that samples. */
static xsm_status refuse(test_rank *r)
{
    const work *w = r->user;
    xsm_model *m = NULL, *deep = NULL;
    xsm_estimator *e = NULL, *samples = NULL;
    xsm_status status = xsm_model_new_linear(r->context, FEATURES, CLASSES, NULL, &m, &r->err);
    status =
        status == XSM_OK ? xsm_model_new_embedding(r->context, FEATURES, 3, CLASSES, NULL, &deep, &r->err) : status;
    status = status == XSM_OK ? xsm_estimator_new(r->context, "softmax", &e, &r->err) : status;
    status = status == XSM_OK ? xsm_estimator_new(r->context, "umax", &samples, &r->err) : status;
    if (status == XSM_OK) {
        const bool refused =
            xsm_fit_full_batch(r->context, deep, w->rows, e, NULL, NULL, &r->err) == XSM_ERROR_UNSUPPORTED &&
            strstr(r->err.message, "linear model") &&
            xsm_fit_full_batch(r->context, m, w->rows, samples, NULL, NULL, &r->err) == XSM_ERROR_UNSUPPORTED &&
            strstr(r->err.message, "umax");
        status = refused ? XSM_OK : XSM_ERROR_INTERNAL;
    }
    xsm_estimator_free(samples);
    xsm_estimator_free(e);
    xsm_model_free(deep);
    xsm_model_free(m);
    return status;
}

TEST(test_refusals)
{
    test_problem p = test_problem_new(12, FEATURES, CLASSES, false, 8);
    work w = work_of(&plans[0], &p);
    test_rank ranks[TEST_RANKS];
    test_run_ranks(2, 1, 0, refuse, &w, ranks);
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
    }
    test_problem_free(&p);
}
