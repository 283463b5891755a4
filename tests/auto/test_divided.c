/*
 * The choice of a learning rate, and of how to train, for models whose classes are divided among ranks: on every rank
 * the trials, the rate and the numbers are those of one process, on any number of ranks and threads; what stops or
 * fails on one rank ends the call on all, and leaves the model as new.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "base/context.h"
#include "comm.h"
#include "model/divided.h"

#include <xsoftmax/choose.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/tune.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two, three or five class runs, the last of a few classes: for as many ranks at most. Trials of some of the classes
 * have so many that two ranks divide them, and the most ranks do not. */
enum { RANKED_ROWS = 500, RANKED_FEATURES = 5, TRIALS_MOST = 400 };
enum { TINY = XSMI_RUN_CLASSES + 9, SMALL = 2 * XSMI_RUN_CLASSES + 9, LARGE = 4 * XSMI_RUN_CLASSES + 9 };

typedef struct ranked_run {
    const char *estimator, *options, *optimizer;
    uint32_t classes;
    uint64_t epochs, batch;
    bool sparse;
    int32_t layout;
    uint32_t hidden;
    uint64_t narrow; /* classes of the last round's trials at least, and fewer than all; 0: all */
} ranked_run;

static const ranked_run ranked_runs[] = {
    {"softmax", "ridge=0.5", "sgd", LARGE, 3, 35, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0},
    {"nce", "negatives=20 ridge=0.2", "sgd", LARGE, 10, 5, true, XSM_LAYOUT_CLASS_MAJOR, 0, XSMI_RUN_CLASSES + 1},
    {"softmax", "ridge=0.5", "sgd", SMALL, 3, 20, true, XSM_LAYOUT_FEATURE_MAJOR, 0, 0},
    {"implicit", "negatives=3 ridge=0.2", "sgd", SMALL, 2, 1, false, XSM_LAYOUT_CLASS_MAJOR, 0, XSMI_RUN_CLASSES + 1},
    {"one-vs-all", "", "adagrad", SMALL, 2, 20, true, XSM_LAYOUT_FEATURE_MAJOR, 0, 0},
    {"one-vs-all-sampled", "negatives=9", "sgd", SMALL, 1, 1, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0},
    {"sampled-softmax", "negatives=30 shared=yes sampler=frequency", "sgd", SMALL, 4, 32, false, XSM_LAYOUT_CLASS_MAJOR,
     0, 1},
    {"margin", "", "sgd", TINY, 1, 10, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0},
    {"hierarchical", "ridge=0.1", "sgd", SMALL, 2, 10, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0},
    {"negative-sampling", "negatives=4 sampler=frequency", "adagrad", SMALL, 2, 10, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0},
    {"raman", "negatives=4", "sgd", SMALL, 2, 10, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0},
    {"softmax", "ridge=1", "sgd", SMALL, 2, 30, true, XSM_LAYOUT_CLASS_MAJOR, 7, 0},
};

static xsm_trainer_options run_options(const ranked_run *run)
{
    xsm_trainer_options o = XSM_TRAINER_OPTIONS_INIT;
    o.epochs = run->epochs;
    o.batch = run->batch;
    o.schedule = XSM_SCHEDULE_STEP;
    o.seed = 4;
    return o;
}

typedef struct ranked {
    const ranked_run *run, *unlike; /* unlike: rank 1's; NULL: the same */
    const xsm_dataset *rows;
    uint32_t stop_rank;
    uint64_t stop_at;                    /* the callback's call that stops that rank; 0: none */
    uint64_t calls[TEST_RANKS], fail_at; /* the allocation of rank 1 that fails; 0: none */
    xsm_tuning_info info[TEST_RANKS];
    xsm_tune_trial trials[TEST_RANKS][TRIALS_MOST];
} ranked;

typedef struct ranked_call {
    ranked *of;
    uint32_t rank;
} ranked_call;

static int32_t count_ranked(void *user, const xsm_tune_progress *progress)
{
    const ranked_call *call = user;
    (void)progress;
    return ++call->of->calls[call->rank] == call->of->stop_at && call->rank == call->of->stop_rank;
}

static xsm_status set_options(xsm_estimator *e, const char *options, xsm_error *err)
{
    char text[96];
    snprintf(text, sizeof text, "%s", options);
    char *rest = text;
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        char *value = strchr(word, '=');
        *value = '\0';
        XSMI_TRY(xsm_estimator_set(e, word, value + 1, err));
    }
    return XSM_OK;
}

static xsm_status note_trials(const xsm_tuning *tuning, test_rank *r)
{
    ranked *w = r->user;
    w->info[r->rank] = (xsm_tuning_info)XSM_TUNING_INFO_INIT;
    XSMI_TRY(xsm_tuning_get_info(tuning, &w->info[r->rank], &r->err));
    for (uint64_t i = 0; i < w->info[r->rank].trials && i < TRIALS_MOST; i++) {
        w->trials[r->rank][i] = (xsm_tune_trial)XSM_TUNE_TRIAL_INIT;
        XSMI_TRY(xsm_tuning_get_trial(tuning, i, &w->trials[r->rank][i], &r->err));
    }
    return XSM_OK;
}

/* Lets an allocation of rank 1 fail from now on. */
static void fail_on_one(test_rank *r, test_countdown *c)
{
    if (r->rank == 1) {
        const xsm_allocator failing = test_countdown_allocator(c);
        r->context->allocator.allocate = failing.allocate;
        r->context->allocator.user = failing.user;
    }
}

/* Tunes, and looks whether the model is as new. */
static xsm_status tune_ranked(test_rank *r)
{
    ranked *w = r->user;
    const ranked_run *run = w->unlike && r->rank == 1 ? w->unlike : w->run;
    xsm_model *m = NULL;
    xsm_estimator *e = NULL;
    xsm_optimizer *o = NULL;
    xsm_tuning *tuning = NULL;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = 1;
    shape.layout = run->layout;
    xsm_trainer_options how = run_options(run);
    ranked_call call = {w, r->rank};
    xsm_tune_options options = XSM_TUNE_OPTIONS_INIT;
    options.run = &how;
    options.progress = count_ranked;
    options.progress_user = &call;
    xsm_status status =
        run->hidden ? xsm_model_new_embedding(r->context, RANKED_FEATURES, run->hidden, run->classes, NULL, &m, &r->err)
                    : xsm_model_new_linear(r->context, RANKED_FEATURES, run->classes, &shape, &m, &r->err);
    status = status == XSM_OK ? xsm_estimator_new(r->context, run->estimator, &e, &r->err) : status;
    status = status == XSM_OK ? set_options(e, run->options, &r->err) : status;
    status = status == XSM_OK ? xsm_optimizer_new(r->context, run->optimizer, &o, &r->err) : status;
    const xsm_allocator usual = r->context->allocator;
    test_countdown c = {w->fail_at, false};
    fail_on_one(r, &c);
    status = status == XSM_OK ? xsm_tune_eta(r->context, m, w->rows, e, o, &options, &tuning, &r->err) : status;
    r->context->allocator = usual;
    if (m &&
        (!xsmi_model_is_zero(xsmi_model_weights(m)) || m->correction || m->hierarchy || m->classes != run->classes ||
         (status != XSM_OK) != (tuning == NULL) || xsm_estimator_set(e, "seed", "9", NULL) != XSM_OK)) {
        status = XSM_ERROR_INTERNAL;
    }
    status = status == XSM_OK ? note_trials(tuning, r) : status;
    xsm_tuning_free(tuning);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    return status;
}

/* Rows of a class each, at random, but for every tenth. */
static test_problem make_ranked(const ranked_run *run)
{
    test_problem p = test_problem_new(RANKED_ROWS, RANKED_FEATURES, run->classes, run->sparse, 5);
    for (uint64_t i = 0; i < RANKED_ROWS; i += 10) {
        p.labels[i] = (uint32_t)(i % RANKED_FEATURES) * 3;
    }
    xsm_dataset *data = test_relabel(&p, run->sparse, run->classes, NULL, p.labels);
    xsm_dataset_free(p.data);
    p.data = data;
    return p;
}

/* That the rate, and each trial's numbers, are on every rank those of one process. */
static void compare_ranks(uint32_t count, uint32_t threads, const ranked *one, ranked *many)
{
    test_rank ranks[TEST_RANKS];
    test_run_ranks(count, threads, 0, tune_ranked, many, ranks);
    const double seconds = many->info[0].seconds; /* of rank 0 */
    assert_true(seconds > 0);
    for (uint32_t r = 0; r < count; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
        assert_true(many->info[r].seconds == seconds);
        many->info[r].seconds = one->info[0].seconds;
        assert_memory_equal(&many->info[r], &one->info[0], sizeof one->info[0]);
        assert_memory_equal(many->trials[r], one->trials[0], sizeof one->trials[0]);
    }
}

static void same_on_any_ranks(void **state)
{
    (void)state;
    ranked *one = calloc(1, sizeof *one), *many = calloc(1, sizeof *many);
    test_rank ranks[TEST_RANKS];
    assert_true(one && many);
    for (size_t i = 0; i < sizeof ranked_runs / sizeof *ranked_runs; i++) {
        const ranked_run *run = &ranked_runs[i];
        test_problem p = make_ranked(run);
        *one = *many = (ranked){.run = run, .rows = p.data};
        test_run_ranks(1, 1, 0, tune_ranked, one, ranks);
        assert_ok(ranks[0].status, ranks[0].err);
        assert_true(one->info[0].trials >= 10 && one->info[0].trials <= TRIALS_MOST);
        assert_int_equal(one->info[0].classes<run->classes, run->narrow> 0);
        assert_true(one->info[0].classes >= run->narrow);
        if (test_full() || i % 2 == 1 || run->classes == TINY) {
            compare_ranks(2, 1 + i % 2, one, many);
        }
        if (run->classes != TINY && (test_full() || i % 2 == 0)) {
            compare_ranks(run->classes == LARGE ? 5 : 3, 2 - i % 2, one, many);
        }
        test_problem_free(&p);
    }
    free(one);
    free(many);
}

/* Runs on three ranks, which must all end in the same way. */
static xsm_status tune_on_three(ranked *w, uint64_t fail_at, test_rank *ranks)
{
    memset(w->calls, 0, sizeof w->calls);
    test_run_ranks(3, 1, fail_at, tune_ranked, w, ranks);
    for (uint32_t r = 1; r < 3; r++) {
        assert_int_equal(ranks[r].status, ranks[0].status);
        assert_true(fail_at > 0 || strcmp(ranks[r].err.message, ranks[0].err.message) == 0);
    }
    return ranks[0].status;
}

/* What stops or fails on one rank ends the call on all, of trials that all ranks train together and of such that each
 * trains by itself, and leaves the model as new. */
static void ends_on_all_ranks(void **state)
{
    (void)state;
    static const size_t ways[] = {2, 3};
    test_rank ranks[TEST_RANKS];
    ranked *w = calloc(1, sizeof *w);
    assert_non_null(w);
    for (size_t kind = 0; kind < 2; kind++) {
        const ranked_run *run = &ranked_runs[ways[kind]];
        test_problem p = make_ranked(run);
        *w = (ranked){.run = run, .rows = p.data, .stop_rank = 1};
        assert_int_equal(tune_on_three(w, 0, ranks), XSM_OK);
        const uint64_t calls = w->calls[1] < 12 ? w->calls[1] : 12; /* one for each trial at least */
        assert_true(calls >= 10);
        for (w->stop_at = 1; w->stop_at <= calls; w->stop_at += test_full() ? 3 : 6) {
            assert_int_equal(tune_on_three(w, 0, ranks), XSM_CANCELLED);
            assert_string_equal(ranks[0].err.message,
                                "rank 1: the choice of a learning rate was stopped by the callback");
        }
        w->stop_at = 0;
        uint64_t at = 1, failures = 0;
        for (; tune_on_three(w, at, ranks) != XSM_OK; at = test_next_place(at, 1 + at / 2), failures++) {
            assert_int_equal(ranks[0].status, XSM_ERROR_COMM);
        }
        assert_true(failures >= (test_full() ? 8 : 4));
        failures = 0;
        for (w->fail_at = 1; tune_on_three(w, 0, ranks) != XSM_OK;
             w->fail_at = test_next_place(w->fail_at, 1 + w->fail_at / 3), failures++) {
            assert_int_equal(ranks[0].status, XSM_ERROR_MEMORY);
            assert_memory_equal(ranks[0].err.message, "rank 1: ", 8);
        }
        assert_true(failures >= (test_full() ? 8 : 4));
        test_problem_free(&p);
    }
    free(w);
}

/* -- the choice of how to train ------------------------------------------------------------------------------------ */

typedef struct choosing {
    const xsm_dataset *rows, *others; /* others: rank 1's; NULL: the same */
    const xsm_choose_options *unlike; /* rank 1's; NULL: the same */
    xsm_choose_options options;
    xsm_trainer_options run;
    uint64_t stop_at; /* the callback's call that stops rank 1; 0: none */
    uint64_t fail_at; /* the allocation of rank 1 that fails; 0: none */
    uint64_t calls[TEST_RANKS], warnings[TEST_RANKS];
    xsm_choice_info info[TEST_RANKS];
    xsm_choice_trial trials[TEST_RANKS][TRIALS_MOST];
    uint32_t trees[TEST_RANKS]; /* of the chosen label tree */
} choosing;

typedef struct choosing_call {
    choosing *of;
    uint32_t rank;
} choosing_call;

static int32_t count_choosing(void *user, const xsm_choose_progress *progress)
{
    const choosing_call *call = user;
    (void)progress;
    return ++call->of->calls[call->rank] == call->of->stop_at && call->rank == 1;
}

static void count_warnings(void *user, int32_t level, const char *message)
{
    const choosing_call *call = user;
    call->of->warnings[call->rank] += level == XSM_LOG_WARNING && strstr(message, "is not tried: 5000 classes") != NULL;
}

/* What was chosen, without pointers to a rank's own. */
static xsm_status note_choice(const xsm_choice *c, test_rank *r)
{
    choosing *w = r->user;
    xsm_choice_info *info = &w->info[r->rank];
    *info = (xsm_choice_info)XSM_CHOICE_INFO_INIT;
    XSMI_TRY(xsm_choice_get_info(c, info, &r->err));
    w->trees[r->rank] = info->label_tree ? info->label_tree->trees : 0;
    info->label_tree = NULL;
    for (uint64_t i = 0; i < info->trials && i < TRIALS_MOST; i++) {
        xsm_choice_trial *trial = &w->trials[r->rank][i];
        *trial = (xsm_choice_trial)XSM_CHOICE_TRIAL_INIT;
        XSMI_TRY(xsm_choice_get_trial(c, i, trial, &r->err));
        trial->label_tree = NULL;
    }
    return XSM_OK;
}

static xsm_status choose_ranked(test_rank *r)
{
    choosing *w = r->user;
    xsm_choice *choice = NULL;
    choosing_call call = {w, r->rank};
    xsm_choose_options o = w->unlike && r->rank == 1 ? *w->unlike : w->options;
    o.run = o.run ? o.run : &w->run;
    o.progress = count_choosing;
    o.progress_user = &call;
    const xsm_allocator usual = r->context->allocator;
    test_countdown c = {w->fail_at, false};
    fail_on_one(r, &c);
    r->context->log = count_warnings;
    r->context->log_user = &call;
    const xsm_dataset *rows = w->others && r->rank == 1 ? w->others : w->rows;
    xsm_status status = xsm_choose(r->context, rows, &o, &choice, &r->err);
    r->context->allocator = usual;
    status = (status != XSM_OK) != (choice == NULL) ? XSM_ERROR_INTERNAL : status;
    status = status == XSM_OK ? note_choice(choice, r) : status;
    xsm_choice_free(choice);
    return status;
}

/* Rows of six features, whose label can be learnt from them; with two labels each where `several`. */
static xsm_dataset *make_rows(uint64_t rows, uint32_t classes, bool several)
{
    test_problem p = test_problem_new(rows, 6, classes, true, 5);
    uint64_t *offsets = calloc(rows + 1, sizeof *offsets);
    uint32_t *labels = calloc(2 * rows, sizeof *labels);
    const uint64_t each = several ? 2 : 1;
    assert_true(offsets && labels);
    for (uint64_t i = 0; i < rows; i++) {
        labels[i * each] = (uint32_t)(i % p.features) * (classes / p.features);
        p.x[i * p.features + i % p.features] += 2;
        if (several) {
            labels[i * each + 1] = labels[i * each] + 1;
        }
        offsets[i + 1] = (i + 1) * each;
    }
    xsm_dataset *data = test_relabel(&p, true, classes, offsets, labels);
    free(offsets);
    free(labels);
    test_problem_free(&p);
    return data;
}

/* Rows of thirty features: which of many things they are of, each with a label of its own, and others that say little.
 * What few steps do not teach vectors, counts of pairs know. */
static xsm_dataset *make_things(uint64_t rows, uint32_t classes)
{
    enum { THINGS = 1000, OTHERS = 100, LISTED = 29 };
    test_problem p = test_problem_new(rows, THINGS + OTHERS, classes, true, 5);
    memset(p.x, 0, rows * p.features * sizeof *p.x);
    for (uint64_t i = 0; i < rows; i++) {
        const uint32_t thing = p.labels[i] % THINGS;
        float *x = p.x + i * p.features;
        x[thing] = 1;
        for (uint64_t j = 0; j < LISTED; j++) {
            x[THINGS + (7 * i + 3 * j) % OTHERS] = 0.1F;
        }
        p.labels[i] = thing * (classes / THINGS);
    }
    xsm_dataset *data = test_relabel(&p, true, classes, NULL, p.labels);
    test_problem_free(&p);
    return data;
}

static choosing *new_choosing(xsm_dataset *rows)
{
    choosing *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->rows = rows;
    w->options = (xsm_choose_options)XSM_CHOOSE_OPTIONS_INIT;
    w->run = (xsm_trainer_options)XSM_TRAINER_OPTIONS_INIT;
    return w;
}

/* Runs on some ranks; all have the same choice, and the same trials. */
static void choose_on(choosing *w, uint32_t count, uint32_t threads)
{
    test_rank ranks[TEST_RANKS];
    memset(w->trials, 0, sizeof w->trials);
    test_run_ranks(count, threads, 0, choose_ranked, w, ranks);
    for (uint32_t r = 0; r < count; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
        assert_true(w->info[r].trials <= TRIALS_MOST);
        assert_memory_equal(&w->info[r], &w->info[0], sizeof w->info[0]);
        assert_memory_equal(w->trials[r], w->trials[0], sizeof w->trials[0]);
        assert_int_equal(w->trees[r], w->trees[0]);
    }
}

/* Chooses in one process and on ranks. Returns the choice. */
static xsm_choice_info choose_the_same(choosing *w, uint32_t count, uint32_t threads)
{
    choosing *many = new_choosing(NULL);
    *many = *w;
    choose_on(w, 1, 1);
    choose_on(many, count, threads);
    assert_true(w->info[0].trials > 0);
    many->info[0].seconds = w->info[0].seconds;
    for (uint64_t i = 0; i < w->info[0].trials; i++) {
        many->trials[0][i].seconds = w->trials[0][i].seconds;
    }
    assert_memory_equal(&many->info[0], &w->info[0], sizeof w->info[0]);
    assert_memory_equal(many->trials[0], w->trials[0], sizeof w->trials[0]);
    assert_int_equal(many->trees[0], w->trees[0]);
    free(many);
    return w->info[0];
}

static void chooses_the_same(void **state)
{
    (void)state;
    xsm_dataset *single = make_rows(110, SMALL, false), *several = make_rows(110, SMALL, true),
                *many = make_things(4000, 20000);
    choosing *w = new_choosing(single);
    w->run.epochs = test_full() ? 0 : 1;
    xsm_choice_info info = choose_the_same(w, 3, 1); /* by steps, and all rows at once */
    assert_true(info.exact && info.hidden == 0 && !w->trees[0]);
    w->rows = several;
    info = choose_the_same(w, 2, 2);
    assert_int_equal(info.measure, XSM_MEASURE_NDCG);
    w->rows = many;
    w->run.epochs = 1;
    w->run.batch = 64;
    if (test_full()) {
        info = choose_the_same(w, 2, 1); /* classes are drawn */
        assert_true(!info.exact && info.hidden == 0);
    }
    w->options.embedding = 1;
    info = choose_the_same(w, 2, 1); /* with pairs */
    bool pairs = false;
    for (uint64_t i = 0; i < info.trials; i++) {
        pairs |= w->trials[0][i].hidden > 0 && w->trials[0][i].pairs > 0;
    }
    assert_true(pairs);
    w->run.epochs = w->run.batch = 0;
    w->options.label_tree = w->options.transform = 1;
    info = choose_the_same(w, 3, 1);
    assert_true(w->trees[0] > 0 && info.hidden == 0);
    free(w);
    xsm_dataset_free(single);
    xsm_dataset_free(several);
    xsm_dataset_free(many);
}

/* A time budget is by the clock of rank 0: the ranks choose alike, whatever it is. */
static void budgets_are_of_rank_0(void **state)
{
    (void)state;
    xsm_dataset *rows = make_rows(300, SMALL, false);
    choosing *w = new_choosing(rows);
    for (double seconds = 1e-3; seconds < 3; seconds *= test_full() ? 10 : 100) {
        w->options.seconds = seconds;
        choose_on(w, 3, 1);
        assert_true(seconds > 2e-3 || (w->info[0].gave_up & XSM_GAVE_UP_TRIALS) != 0);
    }
    free(w);
    xsm_dataset_free(rows);
}

static xsm_status choose_on_three(choosing *w, uint64_t fail_at, test_rank *ranks)
{
    memset(w->calls, 0, sizeof w->calls);
    test_run_ranks(3, 1, fail_at, choose_ranked, w, ranks);
    for (uint32_t r = 1; r < 3; r++) {
        assert_int_equal(ranks[r].status, ranks[0].status);
        assert_true(fail_at > 0 || strcmp(ranks[r].err.message, ranks[0].err.message) == 0);
    }
    return ranks[0].status;
}

/* What stops or fails on one rank ends the choice on all. */
static void choosing_ends_on_all_ranks(void **state)
{
    (void)state;
    xsm_dataset *rows = make_rows(110, SMALL, false);
    choosing *w = new_choosing(rows);
    test_rank ranks[TEST_RANKS];
    w->run.epochs = 1;
    for (w->stop_at = 1; w->stop_at < 8; w->stop_at += 3) {
        assert_int_equal(choose_on_three(w, 0, ranks), XSM_CANCELLED);
        assert_string_equal(ranks[0].err.message, "rank 1: the choice of how to train was stopped by the callback");
    }
    w->stop_at = 0;
    uint64_t failures = 0;
    for (uint64_t at = 1; choose_on_three(w, at, ranks) != XSM_OK; at = test_next_place(at, 1 + at / 2), failures++) {
        assert_int_equal(ranks[0].status, XSM_ERROR_COMM);
    }
    assert_true(failures >= (test_full() ? 8 : 4));
    failures = 0;
    for (w->fail_at = 1; choose_on_three(w, 0, ranks) != XSM_OK;
         w->fail_at = test_next_place(w->fail_at, 1 + w->fail_at / 3), failures++) {
        assert_int_equal(ranks[0].status, XSM_ERROR_MEMORY);
        assert_memory_equal(ranks[0].err.message, "rank 1: ", 8);
    }
    assert_true(failures >= (test_full() ? 8 : 4));
    w->fail_at = 0;
    xsm_dataset_free(rows);
    /* Too few classes for the ranks. */
    w->rows = rows = make_rows(110, 5000, false);
    assert_int_equal(choose_on_three(w, 0, ranks), XSM_ERROR_RANGE);
    for (uint32_t r = 0; r < 3; r++) {
        assert_true(w->warnings[r] >= 1 && w->warnings[r] == w->warnings[0]);
    }
    free(w);
    xsm_dataset_free(rows);
}

/* -- other settings than rank 0's ---------------------------------------------------------------------------------- */

/* What differs is named, on all ranks. */
static void end_unlike(test_rank_body body, void *work, xsm_status status, const char *says)
{
    test_rank ranks[TEST_RANKS];
    test_run_ranks(3, 1, 0, body, work, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        if (ranks[r].status != status || !strstr(ranks[r].err.message, says)) {
            fail_msg("%s: rank %u: %s: %s", says, r, xsm_status_name(ranks[r].status), ranks[r].err.message);
        }
    }
}

static void tunes_by_the_same_settings(void **state)
{
    (void)state;
    const ranked_run run = {"nce", "negatives=20 ridge=0.2", "sgd", LARGE, 2, 5, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0};
    ranked_run others[4] = {run, run, run, run};
    others[0].epochs = 3;
    others[1].batch = 0;
    others[2].options = "negatives=21 ridge=0.2";
    others[3].estimator = "importance";
    static const char *const says[] = {"rank 1 has epochs = 3, and rank 0 has 2",
                                       "rank 1 has batch = ", "rank 1 has estimator.negatives = 21, and rank 0 has 20",
                                       "rank 1 has estimator = importance, and rank 0 has nce"};
    test_problem p = make_ranked(&run);
    ranked *w = calloc(1, sizeof *w);
    w->run = &run;
    w->rows = p.data;
    for (size_t i = 0; i < 4; i++) {
        w->unlike = &others[i];
        end_unlike(tune_ranked, w, XSM_ERROR_ARGUMENT, says[i]);
    }
    free(w);
    test_problem_free(&p);
}

static void chooses_by_the_same_settings(void **state)
{
    (void)state;
    choosing *w = calloc(1, sizeof *w);
    xsm_dataset *rows = make_rows(90, LARGE, false);
    xsm_estimator *mine;
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_estimator_new(NULL, "ove", &mine, &err), err);
    w->rows = rows;
    w->options = (xsm_choose_options)XSM_CHOOSE_OPTIONS_INIT;
    w->run = (xsm_trainer_options)XSM_TRAINER_OPTIONS_INIT;
    w->run.epochs = 2;
    xsm_choose_options o;
    xsm_trainer_options run;
    w->unlike = &o;
#define UNLIKE(change, status, says)                                                                                   \
    o = w->options;                                                                                                    \
    run = w->run;                                                                                                      \
    o.run = &run;                                                                                                      \
    change;                                                                                                            \
    end_unlike(choose_ranked, w, status, says)
    UNLIKE(run.epochs = 3, XSM_ERROR_ARGUMENT, "rank 1 has epochs = 3, and rank 0 has 2");
    UNLIKE(run.batch = 3, XSM_ERROR_ARGUMENT, "rank 1 has batch = 3, and rank 0 has 0");
    UNLIKE(run.eta = .5, XSM_ERROR_ARGUMENT, "rank 1 has eta = 0.5, and rank 0 has 0");
    UNLIKE(run.seed = 5, XSM_ERROR_ARGUMENT, "rank 1 has seed = 5, and rank 0 has 0");
    UNLIKE(run.order = XSM_ORDER_FILE, XSM_ERROR_ARGUMENT, "rank 1 has order = 1, and rank 0 has 0");
    UNLIKE(o.keep_schedule = 1, XSM_ERROR_ARGUMENT, "rank 1 has keep_schedule = 1, and rank 0 has 0");
    UNLIKE(o.keep_ridge = 1, XSM_ERROR_ARGUMENT, "rank 1 has ridge = 0, and rank 0 has -1");
    UNLIKE(o.seconds = 60, XSM_ERROR_ARGUMENT, "rank 1 has seconds = 60, and rank 0 has 0");
    UNLIKE(o.bias = 1, XSM_ERROR_ARGUMENT, "rank 1 has bias = 1, and rank 0 has 0");
    UNLIKE(o.keep_pairs = 1, XSM_ERROR_ARGUMENT, "rank 1 has keep_pairs = 1, and rank 0 has 0");
    UNLIKE(o.transform = 1, XSM_ERROR_ARGUMENT, "rank 1 has transform = 1, and rank 0 has 0");
    UNLIKE(o.embedding = 1, XSM_ERROR_ARGUMENT, "rank 1 has embedding = 1, and rank 0 has 0");
    UNLIKE(o.label_tree = 1, XSM_ERROR_ARGUMENT, "rank 1 has label_tree = 1, and rank 0 has 0");
    UNLIKE(o.measure = XSM_MEASURE_NDCG, XSM_ERROR_ARGUMENT, "rank 1 has measure = ");
    UNLIKE((o.measure = XSM_MEASURE_NDCG, o.measure_top = 3), XSM_ERROR_ARGUMENT,
           "rank 1 has measure_top = 3, and rank 0 has 0");
    UNLIKE(o.optimizer = "adagrad", XSM_ERROR_ARGUMENT, "rank 1 has optimizer = adagrad, and rank 0 has ");
    UNLIKE(o.estimator = mine, XSM_ERROR_ARGUMENT, "rank 1 has estimator = ove, and rank 0 has no such setting");
    UNLIKE(o.seconds = -1, XSM_ERROR_RANGE, "rank 1: the time budget is -1 seconds");
#undef UNLIKE
    xsm_dataset *fewer = make_rows(89, LARGE, false);
    w->unlike = NULL;
    w->others = fewer;
    end_unlike(choose_ranked, w, XSM_ERROR_DATA, "rank 1: ");
    free(w);
    xsm_estimator_free(mine);
    xsm_dataset_free(fewer);
    xsm_dataset_free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_on_any_ranks),
        cmocka_unit_test(ends_on_all_ranks),
        cmocka_unit_test(chooses_the_same),
        cmocka_unit_test(budgets_are_of_rank_0),
        cmocka_unit_test(choosing_ends_on_all_ranks),
        cmocka_unit_test(tunes_by_the_same_settings),
        cmocka_unit_test(chooses_by_the_same_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
