/*
 * Label trees that several ranks fit together: the saved model has the bytes of one process, whatever the ranks and
 * threads, also where a fit was cancelled on one rank and resumed on others; every rank has the whole model, and its
 * measures and predictions; a rank that fails ends the call on all.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "base/context.h"
#include "comm.h"
#include "ranks/comm.h"

#include <xsoftmax/label_tree.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 600, FEATURES = 30, CLASSES = 90, TOP = 4 };

/* What a rank finds with the model. */
typedef struct found {
    double measures[3 + 4 * TOP];
    uint32_t classes[ROWS][TOP];
    double probabilities[ROWS][TOP];
} found;

typedef struct work {
    const xsm_dataset *rows, *other;        /* other: rank 1's, NULL: the same */
    xsm_label_tree_options options, unlike; /* unlike: rank 1's, of size 0: the same */
    char path[256];                         /* of rank 0's file; others have another name */
    char missing[256];                      /* the file that rank 2 resumes from, if there is one */
    bool use;                               /* the model: evaluate, load, predict */
    xsm_context *contexts[TEST_RANKS];      /* of the fit, NULL: the rank's own */
    found found[TEST_RANKS];
    xsm_label_tree_result results[TEST_RANKS];
    uint64_t sent[TEST_RANKS];
} work;

static xsm_label_tree_options options_of(int kind)
{
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    o.arity = 4;
    o.leaf = 6;
    o.trees = kind == 1 ? 2 : 1;
    o.balance = kind == 2 ? XSM_LABEL_TREE_BALANCE_CLUSTERS : XSM_LABEL_TREE_BALANCE_BALANCED;
    o.negatives = kind == 3 ? 3 : 0;
    o.loss = kind == 4 ? XSM_LABEL_TREE_LOSS_LOGISTIC : XSM_LABEL_TREE_LOSS_SQUARED_HINGE;
    o.keep = kind == 4 ? 9 : 0;
    o.link = kind == 5 ? XSM_LABEL_TREE_LINK_HINGE : XSM_LABEL_TREE_LINK_AUTO;
    o.leaf = kind == 5 ? 40 : o.leaf; /* several groups of children */
    return o;
}

/* Rows whose label says something of their features; every third row has a second one. */
static xsm_dataset *rows_of(bool several, bool sparse)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 6);
    for (uint64_t i = 0; i < ROWS; i++) {
        p.labels[i] = (uint32_t)(p.labels[i] % 3 == 0 ? i % 7 : p.labels[i]);
    }
    xsm_dataset *data = test_second_labels(&p, sparse, CLASSES + 2, p.labels, several ? 7 : 0);
    return data;
}

/* -- bodies of ranks ----------------------------------------------------------------------------------------------- */

static xsm_status evaluate(xsm_context *ctx, const xsm_model *m, const xsm_dataset *rows, double seconds,
                           double measures[3 + 4 * TOP], xsm_error *err)
{
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_evaluate_options o = XSM_EVALUATE_OPTIONS_INIT;
    o.seconds = seconds;
    metrics.top = TOP;
    metrics.precision = measures + 3;
    metrics.ndcg = measures + 3 + TOP;
    metrics.psp = measures + 3 + 2 * TOP;
    metrics.psndcg = measures + 3 + 3 * TOP;
    XSMI_TRY(xsm_evaluate(ctx, m, rows, &o, &metrics, err));
    measures[0] = metrics.log_loss;
    measures[1] = metrics.error;
    measures[2] = (double)metrics.rows;
    return XSM_OK;
}

static xsm_status predict(const xsm_model *m, const xsm_dataset *rows, found *f, xsm_error *err)
{
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    o.top = TOP;
    HELD(xsm_predictor, p) = NULL;
    XSMI_TRY(xsm_predictor_new(m, &o, &p, err));
    const xsm_batch batch = xsm_batch_range(rows, 0, ROWS);
    return test_predict(p, &batch, f->classes[0], NULL, f->probabilities[0], err);
}

/* Measures of the model and of the one in the file, which must be the same, and predictions of the latter. */
static xsm_status use_model(test_rank *r, const xsm_model *m)
{
    work *w = r->user;
    found *f = &w->found[r->rank];
    double loaded[3 + 4 * TOP];
    HELD(xsm_model, other) = NULL;
    XSMI_TRY(evaluate(r->context, m, w->rows, 0, f->measures, &r->err));
    XSMI_TRY(xsm_model_load(r->context, w->path, NULL, NULL, &other, &r->err));
    xsm_status status = evaluate(r->context, other, w->rows, 1000, loaded, &r->err);
    if (status == XSM_OK && memcmp(loaded, f->measures, sizeof loaded) != 0) {
        status = xsmi_fail(&r->err, XSM_ERROR_INTERNAL, "measures of the file are others");
    }
    status = status == XSM_OK ? predict(other, w->rows, f, &r->err) : status;
    return status;
}

/* Fits and saves. Each rank names a file of its own, of which only that of rank 0 is made. */
static xsm_status fit(test_rank *r)
{
    work *w = r->user;
    xsm_context *ctx = w->contexts[r->rank] ? w->contexts[r->rank] : r->context;
    if (ctx != r->context) {
        ctx->group = r->context->group;
    }
    xsm_label_tree_options o = w->unlike.size > 0 && r->rank == 1 ? w->unlike : w->options;
    o.resume = w->missing[0] && r->rank == 2 ? w->missing : o.resume;
    xsm_model *m = NULL;
    w->results[r->rank] = (xsm_label_tree_result)XSM_LABEL_TREE_RESULT_INIT;
    const xsm_dataset *rows = w->other && r->rank == 1 ? w->other : w->rows;
    xsm_status status = xsm_fit_label_tree(ctx, rows, &o, &m, &w->results[r->rank], &r->err);
    if (status != XSM_OK) {
        return m ? XSM_ERROR_INTERNAL : status;
    }
    w->sent[r->rank] = xsmi_sent_by(ctx).bytes;
    char path[300];
    snprintf(path, sizeof path, r->rank == 0 ? "%s" : "%s.%u", w->path, (unsigned)r->rank);
    status = xsm_model_save(m, path, NULL, &r->err);
    if (status == XSM_OK && r->rank > 0 && access(path, F_OK) == 0) {
        status = xsmi_fail(&r->err, XSM_ERROR_INTERNAL, "rank %u has written a file", (unsigned)r->rank);
    }
    status = status == XSM_OK && w->use ? use_model(r, m) : status;
    xsm_model_free(m);
    return status;
}

/* Runs fit() on so many ranks; the file's bytes are the caller's to free. */
static unsigned char *fit_on(work *w, uint32_t count, uint32_t threads, size_t *size)
{
    return test_ranks_file(count, threads, fit, w, w->path, size);
}

static work *work_new(const xsm_dataset *rows, int kind)
{
    work *w = calloc(1, sizeof *w);
    w->rows = rows;
    w->options = options_of(kind);
    snprintf(w->path, sizeof w->path, "%s", test_path("tree"));
    return w;
}

/* -- bits ---------------------------------------------------------------------------------------------------------- */

TEST(test_bits)
{
    static const uint32_t counts[] = {2, 3, 5};
    for (int kind = 0; kind < 6; kind++) {
        HELD(xsm_dataset, rows) = rows_of(kind % 3 == 1, kind != 2);
        HELD_MEMORY(work, w) = work_new(rows, kind);
        w->use = true;
        size_t wanted, size;
        unsigned char *one = fit_on(w, 1, 2, &wanted);
        const found first = w->found[0];
        const xsm_label_tree_result result = w->results[0];
        assert_true(w->sent[0] == 0 && result.nodes > CLASSES);
        for (size_t c = 0; c < 3; c++) {
            for (uint32_t threads = 1; threads <= 2; threads++) {
                memset(w->found, 0, sizeof w->found);
                unsigned char *many = fit_on(w, counts[c], threads, &size);
                if (size != wanted || memcmp(many, one, size) != 0) {
                    fail_msg("another model of kind %d on %u ranks of %u threads", kind, counts[c], threads);
                }
                uint64_t sent = 0, most = 0;
                for (uint32_t r = 0; r < counts[c]; r++) {
                    assert_memory_equal(&w->found[r], &first, sizeof first);
                    const xsm_label_tree_result *have = &w->results[r];
                    assert_true(have->nodes == result.nodes && have->depth == result.depth &&
                                have->weights == result.weights && have->bytes == result.bytes);
                    assert_memory_equal(have, &w->results[0], sizeof *have); /* the seconds are rank 0's */
                    sent += w->sent[r];
                    most = w->sent[r] > most ? w->sent[r] : most;
                }
                assert_true(sent > result.weights * 5); /* each weight once, with its child */
                assert_true(most < sent * 3 / 4);       /* no rank has trained nearly all of them */
                free(many);
            }
        }
        free(one);
    }
}

/* -- checkpoints --------------------------------------------------------------------------------------------------- */

/* One rank's hook cancels, each time a bit later; others go on from the checkpoint. */
TEST(test_resume)
{
    static const uint32_t counts[] = {1, 2, 3, 5};
    char checkpoint[256];
    snprintf(checkpoint, sizeof checkpoint, "%s", test_path("tree.checkpoint"));
    for (int kind = 1; kind < 4; kind++) {
        HELD(xsm_dataset, rows) = rows_of(true, true);
        HELD_MEMORY(work, w) = work_new(rows, kind);
        size_t wanted, size, resumed = 0, written = 0, times = 0;
        unsigned char *one = fit_on(w, 1, 1, &wanted);
        for (size_t poll = 1;; poll += 1 + poll / 3, times++) {
            const uint32_t count = counts[1 + times % 3];
            test_hook hooks[TEST_RANKS];
            test_rank ranks[TEST_RANKS];
            for (uint32_t r = 0; r < count; r++) {
                test_hook_start(&hooks[r], 1 + r % 2);
                test_hook_cancel(&hooks[r], r == times % count ? poll : SIZE_MAX);
                w->contexts[r] = hooks[r].context;
            }
            remove(checkpoint);
            w->options.checkpoint = checkpoint;
            w->options.checkpoint_every = 1e-9; /* after every job */
            test_run_ranks(count, 1, 0, fit, w, ranks);
            for (uint32_t r = 0; r < count; r++) {
                hooks[r].context->group = (xsmi_group){.comm.ranks = 1};
                test_hook_end(&hooks[r]);
                w->contexts[r] = NULL;
                assert_int_equal(ranks[r].status, ranks[0].status);
            }
            const bool ended = ranks[0].status == XSM_OK;
            assert_true(ended || ranks[0].status == XSM_CANCELLED);
            if (ended) {
                for (uint32_t r = 0; r < count; r++) {
                    assert_true(w->results[r].checkpoints > 5 && w->results[r].checkpoint == XSM_OK);
                }
            }
            if (access(checkpoint, F_OK) == 0) {
                w->options.checkpoint = times % 2 ? checkpoint : NULL;
                w->options.checkpoint_every = 0;
                w->options.resume = checkpoint;
                unsigned char *again = fit_on(w, counts[times % 4], 1 + (uint32_t)(times % 2), &size);
                w->options.resume = NULL;
                if (size != wanted || memcmp(again, one, size) != 0) {
                    fail_msg("another model of kind %d, cancelled on %u ranks at poll %zu, on %u", kind, count, poll,
                             counts[times % 4]);
                }
                free(again);
                resumed++;
                written += !ended;
            }
            if (ended) {
                break;
            }
        }
        assert_true(resumed > 6 && written > 5);
        free(one);
    }
}

/* -- failures ------------------------------------------------------------------------------------------------------ */

static void expect_failure(work *w, xsm_status status, const char *prefix)
{
    test_rank ranks[TEST_RANKS];
    test_run_ranks(3, 1, 0, fit, w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_fails(ranks[r].status, status, ranks[r].err);
        if (strncmp(ranks[r].err.message, prefix, strlen(prefix)) != 0) {
            fail_msg("rank %u says: %s", r, ranks[r].err.message);
        }
    }
}

/* What one rank alone cannot read or write ends the fit, or the save, on all. */
TEST(test_files)
{
    HELD(xsm_dataset, rows) = rows_of(true, true);
    HELD_MEMORY(work, w) = work_new(rows, 0);
    char checkpoint[256];
    snprintf(checkpoint, sizeof checkpoint, "%s", test_path("tree.checkpoint"));
    w->options.checkpoint = "/nonexistent/folder/x";
    expect_failure(w, XSM_ERROR_IO, "rank 0: ");
    w->options.checkpoint = checkpoint;
    size_t size, half;
    unsigned char *one = fit_on(w, 2, 1, &size);
    w->options.checkpoint = NULL;
    w->options.resume = checkpoint;
    snprintf(w->missing, sizeof w->missing, "%s", test_path("missing.checkpoint"));
    expect_failure(w, XSM_ERROR_IO, "rank 2: ");
    unsigned char *bytes = test_read(checkpoint, &half);
    snprintf(w->missing, sizeof w->missing, "%s", test_file("half.checkpoint", bytes, half / 2));
    expect_failure(w, XSM_ERROR_FORMAT, "rank 2: ");
    /* A whole one of the same settings, but of an earlier state than rank 0's. */
    test_hook hook;
    test_rank alone;
    test_hook_start(&hook, 1);
    test_hook_cancel(&hook, 60);
    w->contexts[0] = hook.context;
    snprintf(w->missing, sizeof w->missing, "%s", test_path("earlier.checkpoint"));
    w->options.checkpoint = w->missing;
    w->options.checkpoint_every = 1e-9;
    w->options.resume = NULL;
    test_run_ranks(1, 1, 0, fit, w, &alone);
    assert_int_equal(alone.status, XSM_CANCELLED);
    test_hook_end(&hook);
    w->contexts[0] = NULL;
    w->options.checkpoint = NULL;
    w->options.checkpoint_every = 0;
    w->options.resume = checkpoint;
    expect_failure(w, XSM_ERROR_STATE, "rank 2: ");
    w->missing[0] = '\0';
    w->options.resume = NULL;
    xsm_dataset *others = rows_of(false, true);
    w->other = others;
    expect_failure(w, XSM_ERROR_DATA, "rank 1: the dataset is not that of rank 0");
    w->other = NULL;
    xsm_dataset_free(others);
    snprintf(w->path, sizeof w->path, "/nonexistent/folder/x");
    expect_failure(w, XSM_ERROR_IO, "rank 0: ");
    w->options.cost = -1; /* on every rank, before anything is agreed on */
    expect_failure(w, XSM_ERROR_RANGE, "rank 0: ");
    free(one);
    free(bytes);
}

/* The group fails at each of its calls in turn: every rank returns, and with the same status. */
TEST(test_group_lost)
{
    HELD(xsm_dataset, rows) = rows_of(true, true);
    HELD_MEMORY(work, w) = work_new(rows, 3);
    char checkpoint[256];
    snprintf(checkpoint, sizeof checkpoint, "%s", test_path("tree.checkpoint"));
    w->options.checkpoint = checkpoint;
    w->use = true;
    test_rank ranks[TEST_RANKS];
    uint64_t at = 1;
    do {
        test_run_ranks(3, 1, at++, fit, w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].status, ranks[0].status);
        }
        assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_ERROR_COMM);
    } while (ranks[0].status != XSM_OK);
    assert_true(at > 20);
}

/* Each allocation of rank 1 fails in turn, and ends the call on all, or the rank does without. Returns how many did. */
static size_t without_memory(work *w)
{
    test_rank ranks[TEST_RANKS];
    size_t failures = 0;
    bool reached = true;
    for (size_t k = 1; reached; k++) {
        test_memory *memory[3];
        for (uint32_t r = 0; r < 3; r++) {
            w->contexts[r] = test_memory_context(&memory[r], 1);
        }
        test_memory_fail(memory[1], k);
        test_run_ranks(3, 1, 0, fit, w, ranks);
        reached = test_memory_calls(memory[1]) >= k;
        for (uint32_t r = 0; r < 3; r++) {
            w->contexts[r]->group = (xsmi_group){.comm.ranks = 1};
            test_memory_end(memory[r], w->contexts[r]);
            w->contexts[r] = NULL;
            assert_int_equal(ranks[r].status, ranks[0].status);
            assert_true(ranks[r].status == XSM_OK || strncmp(ranks[r].err.message, "rank 1: ", 8) == 0);
        }
        assert_true(ranks[0].status == XSM_OK || (reached && ranks[0].status == XSM_ERROR_MEMORY));
        failures += ranks[0].status != XSM_OK;
    }
    return failures;
}

TEST(test_memory_lost)
{
    for (int kind = 2; kind < 4; kind++) {
        HELD(xsm_dataset, rows) = rows_of(true, true);
        HELD_MEMORY(work, w) = work_new(rows, kind);
        w->options.leaf = 30;
        assert_true(without_memory(w) > 100);
    }
}

/* What differs is named, on all ranks, also where one refuses what is its own. */
TEST(test_unlike_settings)
{
    static const struct {
        const char *name, *value, *says; /* says NULL: the option itself is refused */
    } tried[] = {
        {"trees", "2", "rank 1 has label-tree.trees = 2, and rank 0 has 1"},
        {"arity", "5", "rank 1 has label-tree.arity = 5, and rank 0 has 4"},
        {"leaf", "7", "rank 1 has label-tree.leaf = 7, and rank 0 has 6"},
        {"balance", "clusters", "rank 1 has label-tree.balance = clusters, and rank 0 has balanced"},
        {"rounds", "7", "rank 1 has label-tree.rounds = 7, and rank 0 has 20"},
        {"loss", "logistic", "rank 1 has label-tree.loss = logistic, and rank 0 has squared-hinge"},
        {"cost", "2", "rank 1 has label-tree.cost = 2, and rank 0 has 1"},
        {"epsilon", "0.5", "rank 1 has label-tree.epsilon = 0.5, and rank 0 has 0.1"},
        {"iterations", "7", "rank 1 has label-tree.iterations = 7, and rank 0 has 100"},
        {"threshold", "0.5", "rank 1 has label-tree.threshold = 0.5, and rank 0 has 0.1"},
        {"keep", "3", "rank 1 has label-tree.keep = 3, and rank 0 has 0"},
        {"negatives", "2", "rank 1 has label-tree.negatives = 2, and rank 0 has 0"},
        {"link", "hinge", "rank 1 has label-tree.link = hinge, and rank 0 has auto"},
        {"seed", "9", "rank 1 has label-tree.seed = 9, and rank 0 has 1"},
    };
    const xsm_option *option;
    HELD(xsm_dataset, rows) = rows_of(true, true);
    HELD_MEMORY(work, w) = work_new(rows, 0);
    for (size_t i = 0; (option = xsm_label_tree_option(i)); i++) {
        assert_true(i < sizeof tried / sizeof *tried);
        assert_string_equal(option->name, tried[i].name);
        w->unlike = w->options;
        assert_ok(xsm_label_tree_set(&w->unlike, tried[i].name, tried[i].value, &err), err);
        char says[128];
        snprintf(says, sizeof says, "rank 1: %s;", tried[i].says);
        expect_failure(w, XSM_ERROR_ARGUMENT, says);
    }
    w->unlike = w->options;
    w->unlike.cost = -7;
    expect_failure(w, XSM_ERROR_RANGE, "rank 1: ");
    w->unlike = w->options;
    w->unlike.checkpoint = test_path("unlike.checkpoint");
    expect_failure(w, XSM_ERROR_ARGUMENT, "rank 1: rank 1 has checkpoint = 1, and rank 0 has 0;");
    w->unlike.checkpoint = NULL;
    w->unlike.resume = test_path("unlike.checkpoint");
    expect_failure(w, XSM_ERROR_ARGUMENT, "rank 1: rank 1 has resume = 1, and rank 0 has 0;");
}
