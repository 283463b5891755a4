/*
 * Tests of the automatic choice: which trials it makes, the quality of the result, settings that the caller gives, and
 * time budgets.
 */
#define XSM_EXPERIMENTAL /* choice and tuning */
#include "training.h"

#include <xsoftmax.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 600, FEATURES = 12, CLASSES = 6 };

/* Rows whose class is where a linear function of ours is largest, so that there is something to learn. */
static test_problem make_problem(uint64_t rows, uint32_t features, uint32_t classes)
{
    test_problem p = test_problem_new(rows, features, classes, true, 5);
    uint64_t stream = 77;
    HELD_MEMORY(uint64_t, offsets) = malloc((rows + 1) * sizeof *offsets);
    HELD_MEMORY(double, truth) = malloc((size_t)classes * features * sizeof *truth);
    assert_non_null(offsets);
    assert_non_null(truth);
    for (size_t i = 0; i < (size_t)classes * features; i++) {
        truth[i] = 2 * test_uniform(&stream) - 1;
    }
    for (uint64_t i = 0; i < rows; i++) {
        double best = -INFINITY;
        offsets[i] = i;
        for (uint32_t k = 0; k < classes; k++) {
            double z = 0;
            for (uint32_t j = 0; j < features; j++) {
                z += truth[(size_t)k * features + j] * (double)p.x[i * features + j];
            }
            if (z > best) {
                best = z;
                p.labels[i] = k;
            }
        }
    }
    offsets[rows] = rows;
    xsm_dataset *data = test_relabel(&p, true, classes, offsets, p.labels);
    xsm_dataset_free(p.data);
    p.data = data;
    return p;
}

/* The library's clock, on a machine where every look at it takes `delay` seconds, or with nothing but these. */
static double delay, delayed;
static bool still;
double __real_xsmi_seconds(void);
double __wrap_xsmi_seconds(void);
double __wrap_xsmi_seconds(void)
{
    delayed += delay;
    return (still ? 1 : __real_xsmi_seconds()) + delayed;
}

static xsm_choice *choose(xsm_context *ctx, const xsm_dataset *data, const xsm_choose_options *options)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_choose_options o = options ? *options : (xsm_choose_options)XSM_CHOOSE_OPTIONS_INIT;
    NEW(xsm_choice, c, xsm_choose(ctx, data, &o, &c, &err));
    return c;
}

static xsm_choice_info info_of(const xsm_choice *c)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_choice_info info = XSM_CHOICE_INFO_INIT;
    assert_ok(xsm_choice_get_info(c, &info, &err), err);
    return info;
}

static xsm_choice_trial trial_of(const xsm_choice *c, uint64_t index)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_choice_trial trial = XSM_CHOICE_TRIAL_INIT;
    assert_ok(xsm_choice_get_trial(c, index, &trial, &err), err);
    return trial;
}

/* Trains as chosen. Returns the share of rows of `test` whose best class is wrong. */
static double error_of(const xsm_choice *c, const xsm_dataset *train, const xsm_dataset *test)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_choice_info info = info_of(c);
    xsm_dataset_info data = XSM_DATASET_INFO_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    assert_ok(xsm_dataset_get_info(train, &data, &err), err);
    NEW(xsm_model, m, xsm_model_new_linear(NULL, data.features, data.classes, NULL, &m, &err));
    if (strcmp(info.optimizer, "lbfgs") == 0) {
        xsm_fit_options o = XSM_FIT_OPTIONS_INIT;
        o.iterations = info.iterations;
        assert_ok(xsm_fit_full_batch(NULL, m, train, xsm_choice_estimator(c), &o, NULL, &err), err);
    } else {
        HELD(xsm_optimizer, optimizer) = NULL;
        xsm_trainer_options o = XSM_TRAINER_OPTIONS_INIT;
        o.epochs = info.epochs;
        o.batch = info.batch;
        o.eta = info.eta;
        o.schedule = info.schedule;
        o.factor = info.factor;
        assert_ok(xsm_optimizer_new(NULL, info.optimizer, &optimizer, &err), err);
        if (info.initial > 0) {
            assert_ok(xsm_optimizer_set_number(optimizer, "initial", info.initial, &err), err);
        }
        MADE(xsm_trainer, trainer,
             xsm_trainer_new(NULL, m, train, xsm_choice_estimator(c), optimizer, &o, &trainer, &err));
        assert_ok(xsm_trainer_run(trainer, &err), err);
    }
    assert_ok(xsm_evaluate(NULL, m, test, NULL, &metrics, &err), err);
    xsm_model_free(m);
    return metrics.error;
}

/* The least error on `test` of the exact softmax at its optimum over `train`, for L2 penalties over seven powers of
 * ten: what no choice of estimators and rates should be far behind. */
static double reachable_error(const xsm_dataset *train, const xsm_dataset *test)
{
    xsm_error err = XSM_ERROR_INIT;
    double least = INFINITY;
    xsm_dataset_info data = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(train, &data, &err), err);
    for (int power = -4; power <= 2; power++) {
        xsm_metrics metrics = XSM_METRICS_INIT;
        xsm_fit_options o = XSM_FIT_OPTIONS_INIT;
        HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "");
        o.iterations = 300;
        assert_ok(xsm_estimator_set_number(e, "ridge", pow(10, power), &err), err);
        MADE(xsm_model, m, xsm_model_new_linear(NULL, data.features, data.classes, NULL, &m, &err));
        assert_ok(xsm_fit_full_batch(NULL, m, train, e, &o, NULL, &err), err);
        assert_ok(xsm_evaluate(NULL, m, test, NULL, &metrics, &err), err);
        least = metrics.error < least ? metrics.error : least;
    }
    return least;
}

/* Rounds have shares that double, and everyone's rows are the same there; dropped settings have no other trial. */
static void check_rounds(const xsm_choice *c)
{
    const xsm_choice_info info = info_of(c);
    for (uint64_t i = 1; i < info.trials; i++) {
        const xsm_choice_trial before = trial_of(c, i - 1), t = trial_of(c, i);
        const bool same = t.rows == before.rows, doubled = t.part == 1 && t.rows / 2 == before.rows;
        assert_true(same || doubled);
    }
    for (uint64_t i = 0; i < info.trials; i++) {
        const xsm_choice_trial t = trial_of(c, i);
        for (uint64_t j = i + 1; j < info.trials && t.outcome == XSM_RACE_DROPPED; j++) {
            const xsm_choice_trial o = trial_of(c, j);
            assert_true(o.estimator != t.estimator || o.optimizer != t.optimizer || o.transform != t.transform ||
                        o.eta != t.eta || o.ridge != t.ridge || o.epochs != t.epochs || o.label_tree != t.label_tree);
        }
    }
}

/* The classes are separable: what was chosen must say so of rows that nobody saw, where chance is wrong in 5 of 6. */
TEST(good_by_default)
{
    HELD_STRUCT(test_problem, p) = make_problem(4 * ROWS, FEATURES, CLASSES);
    HELD(xsm_dataset, test) = NULL;
    MADE(xsm_dataset, train, xsm_dataset_split(p.data, 0.25, 3, &test, &train, &err));
    HELD(xsm_choice, c) = choose(NULL, train, NULL);
    xsm_choice_info info = info_of(c);
    assert_string_equal(test_estimator_info(xsm_choice_estimator(c)).name, info.method);
    assert_true(info.trials >= 4 && info.rounds >= 1);
    assert_true(info.precision > 0.8 && info.loss < 0.5 * info.prior && !info.is_prior);
    assert_true(info.predicted <= info.loss && info.bytes >= 4 * FEATURES * CLASSES);
    uint64_t chosen = 0;
    for (uint64_t i = 0; i < info.trials; i++) {
        const xsm_choice_trial t = trial_of(c, i);
        assert_true(t.rows < 3 * ROWS && t.part >= 1 && t.part <= 5 && t.seconds > 0);
        chosen += t.outcome == XSM_RACE_CHOSEN;
        if (t.outcome == XSM_RACE_CHOSEN) {
            assert_true(t.eta == info.eta && t.ridge == info.ridge && t.predicted == info.predicted);
            assert_string_equal(t.optimizer, info.optimizer);
        }
    }
    assert_int_equal(chosen, 1);
    check_rounds(c);
    if (test_has_lbfgs()) { /* within two standard errors of some hundred rows */
        const double reachable = reachable_error(train, test);
        assert_true(info.precision > 1 - reachable - 0.03);
        assert_true(error_of(c, train, test) < reachable + 0.02);
    }
    xsm_choice_trial none = XSM_CHOICE_TRIAL_INIT;
    assert_int_equal(xsm_choice_get_trial(c, info.trials, &none, &err), XSM_ERROR_RANGE);
}

/* Of few rows all judge, each of a model that was not trained on it: five parts, the last of them at the end. */
TEST(all_of_few_judge)
{
    HELD_STRUCT(test_problem, p) = make_problem(ROWS, FEATURES, CLASSES);
    HELD(xsm_choice, c) = choose(NULL, p.data, NULL);
    const xsm_choice_info info = info_of(c);
    assert_int_equal(trial_of(c, info.trials - 1).part, 5);
    assert_true(info.held >= 0.95 * ROWS && info.held <= ROWS); /* but for the only row of a class */
    assert_int_equal(info.rounds, 1); /* the first share is the largest, and all parts judge at once */
}

/* Class means tell all classes apart that have a row, and the first share lacks some classes: their rows neither judge
 * nor calibrate. If they did, the best temperature would be one that is unsure of all rows. */
TEST(unknown_classes_say_nothing)
{
    enum { MANY = 700, EACH = 3, N = MANY * EACH, D = 8 };
    HELD_STRUCT(test_problem, p) = test_problem_new(N, D, 2, false, 5);
    for (uint64_t i = 0; i < N; i++) {
        p.labels[i] = (uint32_t)(i % MANY);
        for (uint64_t j = 0; j < D && i >= MANY; j++) { /* rows of a class differ by little */
            p.x[i * D + j] = p.x[i % MANY * D + j] + 1e-3F * p.x[i * D + j];
        }
    }
    HELD(xsm_dataset, data) = test_relabel(&p, false, MANY, NULL, p.labels);
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.bias = o.class_means = 1;
    HELD(xsm_choice, c) = choose(NULL, data, &o);
    uint64_t first = 0;
    for (uint64_t i = 0; i < info_of(c).trials; i++) {
        const xsm_choice_trial t = trial_of(c, i);
        if (strcmp(t.estimator, "class-means") == 0 && t.rows < N / 2) { /* of N * 4 / 5 without a part */
            first++;
            assert_true(t.loss < 0.1 && t.precision > 0.98);
        }
    }
    assert_true(first > 0);
}

/* Labels that are drawn by chance: no way is better than the frequencies of the classes, and the choice says so. */
TEST(says_where_nothing_is_learnt)
{
    uint64_t stream = 3;
    HELD_STRUCT(test_problem, p) = make_problem(2 * ROWS, FEATURES, CLASSES);
    for (uint64_t i = 0; i < p.rows; i++) {
        p.labels[i] = (uint32_t)(CLASSES * test_uniform(&stream) * test_uniform(&stream));
    }
    HELD(xsm_dataset, data) = test_relabel(&p, true, CLASSES, NULL, p.labels);
    xsm_choice *c = choose(NULL, data, NULL);
    const xsm_choice_info info = info_of(c);
    assert_true(info.is_prior && info.loss > 0.97 * info.prior && info.prior < log(CLASSES));
    assert_null(info.transform);
    xsm_choice_free(c);
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.transform = o.bias = 1; /* a model of the frequencies can be made */
    c = choose(NULL, data, &o);
    assert_true(info_of(c).is_prior);
    assert_string_equal(info_of(c).transform, "truncate=0");
    assert_string_equal(info_of(c).method, "softmax");
    xsm_choice_free(c);
}

/* Four rows follow each other that have a feature and a label of their own: nothing says of another four which label
 * they have. In another order only copies tell that, and not where they have other labels, too. */
TEST(groups_judge_whole)
{
    enum { GROUPS = 250, ALIKE, COPIES, CHANCE };
    for (int kind = ALIKE; kind <= CHANCE; kind++) {
        uint64_t stream = 7;
        HELD_STRUCT(test_problem, p) = test_problem_new(4 * GROUPS, GROUPS, CLASSES, true, 4);
        for (uint64_t i = 0; i < p.rows; i++) {
            for (uint64_t j = 0; j < GROUPS; j++) {
                p.x[i * GROUPS + j] = (j == i / 4) * (kind == ALIKE ? 1 + (float)(i % 4) : 1);
            }
            p.labels[i] = kind != CHANCE && i % 4 > 0 ? p.labels[i - 1] : (uint32_t)(CLASSES * test_uniform(&stream));
        }
        HELD(xsm_dataset, data) = test_relabel(&p, true, CLASSES, NULL, p.labels);
        xsm_choice *c = choose(NULL, data, NULL);
        assert_true(info_of(c).grouped && info_of(c).loss > 0.95 * info_of(c).prior);
        xsm_choice_free(c);
        assert_ok(xsm_dataset_shuffle(data, 1, &err), err);
        c = choose(NULL, data, NULL);
        assert_true(info_of(c).grouped == (kind == COPIES));
        assert_true(kind == ALIKE ? info_of(c).loss < 0.5 * info_of(c).prior
                                  : info_of(c).loss > 0.95 * info_of(c).prior);
        xsm_choice_free(c);
    }
}

/* A table that is sorted by class and goes round a circle is one long group: it judges in pieces that are shorter than
 * a class is, of which enough rows stay to train on. */
TEST(sorted_tables_judge_in_short_pieces)
{
    enum { OF_A_CLASS = 80, SORTED = 100 };
    HELD_STRUCT(test_problem, p) = test_problem_new((uint64_t)OF_A_CLASS * SORTED, 2, SORTED, false, 4);
    for (uint64_t i = 0; i < p.rows; i++) {
        p.x[2 * i] = (float)cos((double)i / 10);
        p.x[2 * i + 1] = (float)sin((double)i / 10);
        p.labels[i] = (uint32_t)(i / OF_A_CLASS);
    }
    HELD(xsm_dataset, data) = test_relabel(&p, false, SORTED, NULL, p.labels);
    HELD(xsm_choice, c) = choose(NULL, data, NULL);
    assert_true(info_of(c).grouped && info_of(c).prior < log(SORTED) + 0.6);
}

/* Each class has one row, so that none can be held back: rows with a half of their features are judged. */
TEST(judges_halves_of_only_rows)
{
    enum { N = 400 };
    HELD_STRUCT(test_problem, p) = test_problem_new(N, 40, 2, true, 4);
    for (uint32_t i = 0; i < N; i++) {
        p.labels[i] = i;
    }
    HELD(xsm_dataset, data) = test_relabel(&p, true, N, NULL, p.labels);
    HELD(xsm_choice, c) = choose(NULL, data, NULL);
    const xsm_choice_info info = info_of(c);
    assert_int_equal(info.held, N);
    assert_true(info.trial_rows == N && !info.is_prior && info.loss < 0.7 * log(N));
}

/* Plans depend on counts, results on data and seed: any number of threads chooses alike. */
TEST(same_on_any_threads)
{
    HELD_STRUCT(test_problem, p) = make_problem(ROWS, FEATURES, CLASSES);
    HELD(xsm_choice, first) = choose(NULL, p.data, NULL);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        MADE(xsm_context, ctx, xsm_context_new(STRUCT(xsm_context_options, .threads = threads), &ctx, &err));
        HELD(xsm_choice, c) = choose(ctx, p.data, NULL);
        assert_int_equal(info_of(c).trials, info_of(first).trials);
        for (uint64_t i = 0; i < info_of(c).trials; i++) {
            assert_true(trial_of(c, i).loss == trial_of(first, i).loss);
            assert_true(trial_of(c, i).eta == trial_of(first, i).eta);
        }
        assert_true(info_of(c).eta == info_of(first).eta && info_of(c).epochs == info_of(first).epochs);
        assert_true(info_of(c).ridge == info_of(first).ridge && info_of(c).factor == info_of(first).factor);
        assert_true(info_of(c).trial_rows == info_of(first).trial_rows && info_of(c).batch == info_of(first).batch);
    }
}

static void assert_same_choice(const xsm_choice *a, const xsm_choice *b)
{
    const xsm_choice_info x = info_of(a), y = info_of(b);
    assert_string_equal(x.method, y.method);
    assert_true(x.eta == y.eta && x.epochs == y.epochs && x.ridge == y.ridge && x.factor == y.factor);
    assert_true(x.loss == y.loss && x.pairs == y.pairs && x.batch == y.batch && x.hidden == y.hidden);
    assert_true(x.transform == y.transform && x.gave_up == y.gave_up && x.trial_rows == y.trial_rows);
    assert_int_equal(x.label_tree ? x.label_tree->trees : 0, y.label_tree ? y.label_tree->trees : 0);
    assert_int_equal(x.trials, y.trials);
    for (uint64_t i = 0; i < x.trials; i++) {
        const xsm_choice_trial t = trial_of(a, i), u = trial_of(b, i);
        assert_string_equal(t.estimator, u.estimator);
        assert_true(t.loss == u.loss && t.eta == u.eta && t.ridge == u.ridge && t.epochs == u.epochs);
        assert_true(t.rows == u.rows && t.hidden == u.hidden && t.transform == u.transform);
    }
}

/* Chooses on a machine where every look at the clock takes so many seconds. */
static xsm_choice *choose_at(double seconds, uint32_t threads, const xsm_dataset *data, double budget)
{
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
    o.transform = o.embedding = o.label_tree = 1;
    o.seconds = budget;
    delay = seconds;
    xsm_choice *c = choose(ctx, data, &o);
    delay = 0;
    return c;
}

/* A slow machine chooses as a fast one does, on another number of threads. */
static void assert_same_at_any_speed(const xsm_dataset *data)
{
    HELD(xsm_choice, fast) = choose_at(0, 1, data, 0);
    HELD(xsm_choice, slow) = choose_at(120, 2, data, 0);
    assert_true(info_of(fast).trials >= 2); /* label trees alone: three, with both transforms */
    assert_same_choice(fast, slow);
}

/* What the caller gives stays, and an estimator of the caller's is handed back with its options, not bound. */
TEST(what_is_given_stays)
{
    HELD_STRUCT(test_problem, p) = make_problem(ROWS, FEATURES, CLASSES);
    xsm_estimator *e = test_estimator(NULL, "implicit", "negatives=3 ridge=0.25");
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    run.epochs = 4;
    run.eta = 0.7;
    run.batch = 2;
    run.schedule = XSM_SCHEDULE_INVERSE;
    o.run = &run;
    o.estimator = e;
    o.keep_schedule = 1;
    xsm_choice *c = choose(NULL, p.data, &o);
    xsm_choice_info info = info_of(c);
    char text[40];
    assert_ptr_equal(xsm_choice_estimator(c), e);
    assert_int_equal(info.epochs, 4);
    assert_int_equal(info.batch, 2);
    assert_int_equal(info.schedule, XSM_SCHEDULE_INVERSE);
    assert_true(info.eta == 0.7 && info.ridge == 0.25);
    assert_int_equal(info.trials, 5); /* the parts that judge */
    xsm_estimator_get(e, "ridge", text, sizeof text);
    assert_string_equal(text, "0.25");
    assert_ok(xsm_estimator_set(e, "negatives", "2", &err), err); /* not bound any more */
    xsm_choice_free(c);
    o.keep_ridge = 1;
    o.ridge = 2;
    c = choose(NULL, p.data, &o);
    assert_true(info_of(c).ridge == 2);
    xsm_choice_free(c);
    xsm_estimator_free(e);

    if (test_has_lbfgs()) {
        memset(&run, 0, sizeof run);
        run.size = sizeof run;
        o = (xsm_choose_options)XSM_CHOOSE_OPTIONS_INIT;
        o.optimizer = "lbfgs";
        c = choose(NULL, p.data, &o);
        assert_string_equal(info_of(c).optimizer, "lbfgs");
        assert_true(info_of(c).eta == 0 && info_of(c).iterations > 0 && info_of(c).ridge > 0);
        assert_true(error_of(c, p.data, p.data) < 0.2);
        xsm_choice_free(c);
    }
}

/* Several labels a row: an estimator that takes them, judged by their ranking. */
TEST(several_labels)
{
    HELD_STRUCT(test_problem, p) = make_problem(ROWS, FEATURES, CLASSES);
    uint64_t offsets[ROWS + 1];
    uint32_t labels[2 * ROWS];
    for (uint64_t i = 0; i <= ROWS; i++) {
        offsets[i] = 2 * i;
    }
    for (uint64_t i = 0; i < ROWS; i++) {
        uint32_t a = p.labels[i], b = (a + 1) % CLASSES;
        labels[2 * i] = a < b ? a : b;
        labels[2 * i + 1] = a < b ? b : a;
    }
    HELD(xsm_dataset, data) = test_relabel(&p, true, CLASSES, offsets, labels);
    HELD(xsm_choice, c) = choose(NULL, data, NULL);
    int seen[2] = {0, 0};
    for (uint64_t i = 0; i < info_of(c).trials; i++) {
        xsm_choice_trial t = trial_of(c, i);
        seen[0] += strcmp(t.estimator, "one-vs-all") == 0;
        seen[1] += strcmp(t.estimator, "softmax") == 0;
        assert_true(t.loss >= 0 && (t.loss <= 1 || isinf(t.loss))); /* 1 - nDCG@5 */
    }
    assert_true(seen[0] >= 2 && seen[1] >= 2);
    check_rounds(c);
    assert_true(info_of(c).precision > 0.8);
}

/* Trials of a choice by an optimizer. */
static uint64_t trials_by(const xsm_choice *c, const char *optimizer)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < info_of(c).trials; i++) {
        count += strcmp(trial_of(c, i).optimizer, optimizer) == 0;
    }
    return count;
}

static uint64_t adagrad_trials(const xsm_dataset *train, const xsm_choose_options *o)
{
    HELD(xsm_choice, c) = choose(NULL, train, o);
    const uint64_t count = trials_by(c, "adagrad");
    return count;
}

/* adagrad on batches is tried beside steps of a row, but not against what is given. */
TEST(exact_adagrad)
{
    enum { SOME = 120, N = 1700 };
    HELD_STRUCT(test_problem, p) = make_problem(N, FEATURES, SOME);
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.run = &run;
    run.batch = 16; /* steps: no lbfgs */
    xsm_choice *c = choose(NULL, p.data, &o);
    xsm_choice_info info = info_of(c);
    assert_true(trials_by(c, "adagrad") >= 2 && trials_by(c, "sgd") >= 2 && trials_by(c, "lbfgs") == 0);
    assert_true(info.loss < 2.5); /* log(120) is 4.8 */
    assert_int_equal(info.initial > 0, strcmp(info.optimizer, "adagrad") == 0);
    assert_true(error_of(c, p.data, p.data) < (test_has_lbfgs() ? reachable_error(p.data, p.data) + 0.05 : 0.3));
    xsm_choice_free(c);

    o.keep_ridge = 1;
    o.ridge = 0.1;
    assert_int_equal(adagrad_trials(p.data, &o), 0);
    o.keep_ridge = 0;
    run.batch = 1;
    assert_int_equal(adagrad_trials(p.data, &o), 0);
    run.batch = 0;
    o.optimizer = "sgd";
    assert_int_equal(adagrad_trials(p.data, &o), 0);
}

/* So many classes that scoring them all in every step is not cheap: ways that sample. */
TEST(many_classes)
{
    enum { MANY = 2100, N = 1500, WAYS = 50 };
    HELD_STRUCT(test_problem, p) = test_problem_new(N, FEATURES, 2, true, 4);
    for (uint32_t i = 0; i < N; i++) {
        p.labels[i] = i % WAYS * 7;
    }
    HELD(xsm_dataset, data) = test_relabel(&p, true, MANY, NULL, p.labels);
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.bias = 1;
    HELD(xsm_choice, c) = choose(NULL, data, &o);
    uint64_t sampled = 0;
    for (uint64_t i = 0; i < info_of(c).trials; i++) {
        sampled += strcmp(trial_of(c, i).estimator, "sampled-softmax") == 0;
    }
    assert_true(sampled >= 2);
    check_rounds(c);
    assert_int_equal(info_of(c).hidden, 0);
}

/* The trials of models with vectors of that length, all of them by the method for vectors. */
static uint64_t vectors_tried(const xsm_choice *c, uint32_t hidden)
{
    uint64_t tried = 0;
    for (uint64_t i = 0; i < info_of(c).trials; i++) {
        const xsm_choice_trial t = trial_of(c, i);
        assert_true(t.hidden == 0 || strcmp(t.optimizer, "adagrad") == 0);
        tried += t.hidden == hidden && strcmp(t.estimator, "sampled-softmax") == 0;
    }
    return tried;
}

/* The same with embedding models allowed: some are tried, but not against what is given. */
TEST_OF_FULL(many_classes_embedded)
{
    enum { MANY = 2100, N = 1500, SEEN = 50 };
    HELD_STRUCT(test_problem, p) = test_problem_new(N, FEATURES, 2, true, 4);
    for (uint32_t i = 0; i < N; i++) {
        p.labels[i] = i % SEEN * 7;
    }
    HELD(xsm_dataset, data) = test_relabel(&p, true, MANY, NULL, p.labels);
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    o.bias = 1;
    o.embedding = 1;
    o.run = &run;
    xsm_choice *c = choose(NULL, data, &o);
    assert_true(vectors_tried(c, 256) > 0);
    assert_true(info_of(c).loss < 6); /* log(50) is 3.9, log(2100) is 7.6; features say nothing of the labels */
    assert_true(info_of(c).hidden > 0 || info_of(c).pairs == 0);
    xsm_choice_free(c);

    o.optimizer = "sgd";
    run.epochs = 1;
    c = choose(NULL, data, &o);
    assert_int_equal(info_of(c).hidden, 0);
    assert_int_equal(vectors_tried(c, 256), 0);
    assert_string_equal(info_of(c).optimizer, "sgd");
    xsm_choice_free(c);
    o.optimizer = NULL;
    run.eta = 1;
    c = choose(NULL, data, &o);
    assert_int_equal(info_of(c).hidden, 0);
    assert_true(info_of(c).eta == 1);
    xsm_choice_free(c);
}

/* Rows of some forty features try vectors twice as wide; who asks for single rows tries the others. */
TEST_OF_FULL(wide_vectors)
{
    enum { MANY = 2100, N = 1000, MANY_FEATURES = 200 };
    HELD_STRUCT(test_problem, p) = test_problem_new(N, MANY_FEATURES, 2, true, 5);
    HELD(xsm_dataset, data) = test_relabel(&p, true, MANY, NULL, p.labels);
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    o.embedding = 1;
    o.run = &run;
    xsm_choice *c = choose(NULL, data, &o);
    assert_true(vectors_tried(c, 512) > 0);
    assert_int_equal(vectors_tried(c, 256), 0);
    assert_true(info_of(c).row_features >= 32);
    xsm_choice_free(c);
    run.batch = 1;
    c = choose(NULL, data, &o);
    assert_true(vectors_tried(c, 256) > 0);
    assert_int_equal(vectors_tried(c, 512), 0);
    xsm_choice_free(c);
}

/* Three features are in nearly all rows and say nothing; one of many rare ones, with a value of 1, says the class. */
static xsm_dataset *make_rare(float (*value)(uint64_t *stream))
{
    enum { RARE = 400, D = RARE + 3, N = 1200, K = 8 };
    xsm_error err = XSM_ERROR_INIT;
    uint64_t stream = 9;
    HELD_MEMORY(uint64_t, offsets) = malloc((N + 1) * sizeof *offsets);
    HELD_MEMORY(uint64_t, starts) = malloc((N + 1) * sizeof *starts);
    HELD_MEMORY(uint32_t, index) = malloc((size_t)N * 4 * sizeof *index);
    HELD_MEMORY(uint32_t, labels) = malloc(N * sizeof *labels);
    HELD_MEMORY(float, values) = malloc((size_t)N * 4 * sizeof *values);
    assert_true(offsets && starts && index && labels && values);
    for (uint64_t i = 0; i < N; i++) {
        uint32_t rare = (uint32_t)(test_uniform(&stream) * RARE);
        offsets[i] = i;
        starts[i] = 4 * i;
        labels[i] = rare % K;
        for (uint32_t j = 0; j < 3; j++) {
            index[4 * i + j] = j;
            values[4 * i + j] = value(&stream);
        }
        index[4 * i + 3] = 3 + rare;
        values[4 * i + 3] = 1;
    }
    offsets[N] = N;
    starts[N] = 4 * (uint64_t)N;
    xsm_labels given = {sizeof given, K, 0, offsets, labels, NULL};
    NEW(xsm_dataset, data,
        xsm_dataset_from_csr(NULL,
                             STRUCT(xsm_csr_rows, .offsets = starts, .index = index, .values = values, .rows = N,
                                    .features = D, .labels = &given),
                             &data, &err));
    return data;
}

/* Classes 2j and 2j + 1 cannot be told apart: the label is among the two best classes, first in P@1 of the rows. */
TEST(measures)
{
    enum { MANY = 800, PAIRS = 4 };
    static float values[MANY * PAIRS];
    static uint32_t labels[MANY];
    for (size_t i = 0; i < MANY; i++) {
        labels[i] = (uint32_t)(i * i / 7 % (2 * PAIRS));
        values[i * PAIRS + labels[i] / 2] = 1;
    }
    const xsm_labels of = {.size = sizeof of, .classes = 2 * PAIRS, .labels = labels};
    const xsm_dense_rows rows = {.size = sizeof rows, .values = values, .rows = MANY, .features = PAIRS, .labels = &of};
    MADE(xsm_dataset, data, xsm_dataset_from_dense(NULL, &rows, &data, &err));
    const struct {
        int32_t measure;
        uint32_t given, top;
        double first, second; /* what a row counts whose label is first, and second */
    } cases[] = {
        {XSM_MEASURE_PRECISION, 0, 1, 1, 0},
        {XSM_MEASURE_PRECISION, 2, 2, 0.5, 0.5},
        {XSM_MEASURE_NDCG, 0, 5, 1, 1 / log2(3)},
        {XSM_MEASURE_NDCG, 1, 1, 1, 0},
        {XSM_MEASURE_HITS, 0, 10, 1, 1},
        {XSM_MEASURE_HITS, 1, 1, 1, 0},
        {XSM_MEASURE_HITS, 2, 2, 1, 1},
        {XSM_MEASURE_MRR, 0, 10, 1, 0.5},
        {XSM_MEASURE_MRR, 1, 1, 1, 0},
        {XSM_MEASURE_MRR, 100, 100, 1, 0.5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
        xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
        o.run = &run;
        o.optimizer = "sgd";
        o.measure = cases[i].measure;
        o.measure_top = cases[i].given;
        run.eta = 1;
        HELD(xsm_choice, c) = choose(NULL, data, &o);
        const xsm_choice_info info = info_of(c);
        assert_int_equal(info.measure, cases[i].measure);
        assert_int_equal(info.measure_top, cases[i].top);
        assert_true(info.precision > 0.3 && info.precision < 0.7);
        const double wanted = cases[i].first * info.precision + cases[i].second * (1 - info.precision);
        assert_true(fabs(1 - info.loss - wanted) < 1e-6); /* losses are float32 */
    }
    xsm_choice *c = NULL;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.measure = XSM_MEASURE_MRR + 1;
    assert_fails(xsm_choose(NULL, data, &o, &c, &err), XSM_ERROR_RANGE, err);
    o.measure = XSM_MEASURE_HITS;
    o.measure_top = 101;
    assert_fails(xsm_choose(NULL, data, &o, &c, &err), XSM_ERROR_RANGE, err);
    o.measure = XSM_MEASURE_LOG_LOSS;
    o.measure_top = 1;
    assert_fails(xsm_choose(NULL, data, &o, &c, &err), XSM_ERROR_RANGE, err);
    assert_null(c);
}

static float measure(uint64_t *stream)
{
    return (float)(3 * test_uniform(stream));
}

/* 0 to 6, half of them 1. */
static float count(uint64_t *stream)
{
    const double u = test_uniform(stream);
    return u < 0.5 ? 1 : (float)floor(14 * (u - 0.5));
}

static float pixel(uint64_t *stream)
{
    return (float)floor(256 * test_uniform(stream));
}

static float one(uint64_t *stream)
{
    (void)stream;
    return 1;
}

/* Tf-idf is what makes rare features learnt in few epochs, and what it is worth shows on the rows held back. */
TEST(transforms)
{
    HELD(xsm_dataset, data) = make_rare(measure);
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    xsm_choice *c = choose(NULL, data, &o);
    assert_null(info_of(c).transform);
    assert_null(trial_of(c, 0).transform);
    xsm_choice_free(c);
    o.transform = 1;
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    run.eta = 1;
    run.epochs = 4;
    o.run = &run;
    c = choose(NULL, data, &o);
    const char *chosen = info_of(c).transform;
    assert_true(strcmp(chosen, "tfidf,unit") == 0 || strcmp(chosen, "log,tfidf,unit") == 0);
    xsm_choice_free(c);
}

/* Logarithms are tried where they change a value. */
TEST(transforms_with_logarithms)
{
    static float (*const values[])(uint64_t * stream) = {count, pixel, one};
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.transform = 1;
    for (size_t kind = 0; kind < sizeof values / sizeof *values; kind++) {
        HELD(xsm_dataset, data) = make_rare(values[kind]);
        HELD(xsm_choice, c) = choose(NULL, data, &o);
        uint64_t seen[2] = {0}, logs = 0;
        for (uint64_t i = 0; i < info_of(c).trials; i++) {
            const char *steps = trial_of(c, i).transform;
            seen[strstr(steps, "tfidf") != NULL]++;
            logs += strncmp(steps, "log,", 4) == 0;
        }
        assert_true(seen[0] > 0 && seen[1] > 0);
        assert_int_equal(logs > 0, values[kind] != one);
    }
}

/* Dense columns of unlike scales: they are made alike, by the trials, not by a rule; and one huge row changes little.
 */
TEST(dense_columns)
{
    enum { N = 2000 };
    for (int huge = 0; huge < 2; huge++) {
        HELD_STRUCT(test_problem, p) = make_problem(N, FEATURES, CLASSES);
        for (uint64_t i = 0; i < N * FEATURES; i++) {
            p.x[i] = p.x[i] * (float)pow(10, (double)(i % FEATURES) / 3) + (float)(i % FEATURES);
        }
        for (uint64_t j = 0; j < FEATURES; j++) {
            p.x[j] = huge ? 1e6F : p.x[j];
        }
        HELD(xsm_dataset, data) = test_relabel(&p, false, CLASSES, NULL, p.labels);
        xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
        o.transform = 1;
        HELD(xsm_choice, c) = choose(NULL, data, &o);
        const xsm_choice_info info = info_of(c);
        assert_true(info.precision > (huge ? 0.3 : 0.75)); /* chance: 1 in 6 */
    }
    (void)err;
}

/* The ratio of the sizes of features: of those in many rows each, of rare ones together, of values that are not zero.
 */
TEST(spread)
{
    const struct {
        const char *rows; /* of 4 features */
        double ratio;
        uint32_t feature;
    } cases[] = {
        {"0 1:1 2:3 3:1 4:1\n1 1:1 2:3 3:1 4:1\n", 3, 1},
        {"0 1:1 2:0 3:2 4:1\n1 1:1 2:4 3:2 4:1\n", 4, 1},
        {"0 1:2\n1 1:2\n", 1, 0},
        {"0 1:0\n1 1:0\n", 1, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double ratio = 0;
        uint32_t feature = 0;
        MADE(xsm_dataset, d,
             xsm_dataset_read(NULL, test_file("spread", cases[i].rows, strlen(cases[i].rows)), NULL, NULL, &d, &err));
        assert_ok(xsm_dataset_spread(d, &ratio, &feature, &err), err);
        assert_true(fabs(ratio - cases[i].ratio) < 1e-9 && feature == cases[i].feature);
    }
    xsm_dataset *rare = make_rare(one); /* each in one of 400 rows, and three in all */
    double ratio = 0;
    assert_ok(xsm_dataset_spread(rare, &ratio, NULL, &err), err);
    assert_true(ratio == 1);
    xsm_dataset_free(rare);
}

/* A budget ends the trials, and says what it took. */
TEST(budgets)
{
    HELD_STRUCT(test_problem, p) = make_problem(20 * ROWS, 40, 60);
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.seconds = 1e-6;
    xsm_choice *c = choose(NULL, p.data, &o);
    xsm_choice_info info = info_of(c);
    assert_true((info.gave_up & XSM_GAVE_UP_TRIALS) != 0 && info.trials == 0 && info.trial_rows <= 20 * ROWS);
    assert_true(info.epochs >= 1 && info.eta > 0);
    xsm_choice_free(c);
    o.seconds = 1e6;
    c = choose(NULL, p.data, &o);
    assert_true(info_of(c).gave_up == 0);
    xsm_choice_free(c);
}

/* Rows of many classes, of which some occur: too many to score all of them, and few rows a class. Fifty at a time have
 * the same words, and two of their own each. */
enum { LOOKALIKES = 1500, WORDS = 300, DECLARED = 3000, OCCURRING = 600, ALIKE = 50, SHARED = 6, OWN = 2, NOISE = 3 };

static xsm_dataset *make_lookalikes(uint64_t each)
{
    uint64_t stream = 11;
    HELD_MEMORY(uint64_t, offsets) = malloc((LOOKALIKES + 1) * sizeof *offsets);
    test_problem p = {.rows = LOOKALIKES, .features = WORDS, .classes = DECLARED};
    static uint32_t own[OCCURRING][OWN], shared[OCCURRING / ALIKE][SHARED];
    p.x = calloc((size_t)LOOKALIKES * WORDS, sizeof *p.x);
    p.labels = malloc(LOOKALIKES * each * sizeof *p.labels);
    assert_non_null(offsets);
    assert_non_null(p.x);
    assert_non_null(p.labels);
    for (size_t k = 0; k < OCCURRING; k++) {
        for (size_t j = 0; j < OWN; j++) {
            own[k][j] = (uint32_t)(test_next(&stream) % WORDS);
        }
        for (size_t j = 0; j < SHARED; j++) {
            shared[k / ALIKE][j] = (uint32_t)(test_next(&stream) % WORDS);
        }
    }
    for (uint64_t i = 0; i <= LOOKALIKES; i++) {
        offsets[i] = i * each;
    }
    for (uint64_t i = 0; i < LOOKALIKES; i++) {
        const uint64_t k = test_next(&stream) % OCCURRING;
        for (uint64_t j = 0; j < each; j++) {
            p.labels[i * each + j] = (uint32_t)k * (DECLARED / OCCURRING) + (uint32_t)j;
        }
        for (size_t j = 0; j < SHARED; j++) {
            p.x[i * WORDS + shared[k / ALIKE][j]] = test_uniform(&stream) < 0.7;
        }
        for (size_t j = 0; j < OWN; j++) {
            p.x[i * WORDS + own[k][j]] = 1;
        }
        for (size_t j = 0; j < NOISE; j++) {
            p.x[i * WORDS + test_next(&stream) % WORDS] = 1;
        }
    }
    xsm_dataset *data = test_relabel(&p, true, DECLARED, offsets, p.labels);
    free(p.x);
    free(p.labels);
    return data;
}

/* A budget leaves time for more than is tried without one: passes where these help, and label trees, up to nine. */
TEST(budgets_are_used)
{
    HELD_STRUCT(test_problem, p) = make_problem(ROWS, FEATURES, CLASSES);
    HELD(xsm_dataset, many) = make_lookalikes(1);
    still = true;
    delay = 1e-9;
    for (int rich = 0; rich < 2; rich++) {
        xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
        xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
        run.eta = 2e-3; /* so small that all passes help */
        o.run = &run;
        o.optimizer = "sgd";
        o.keep_ridge = 1;
        o.seconds = rich ? 0.1 : 0;
        xsm_choice *c = choose(NULL, p.data, &o);
        assert_int_equal(info_of(c).epochs, rich ? 810 : 30);
        xsm_choice_free(c);
        o = (xsm_choose_options)XSM_CHOOSE_OPTIONS_INIT;
        o.label_tree = o.transform = 1;
        o.seconds = rich ? 0.1 : 0;
        c = choose(NULL, many, &o);
        assert_string_equal(info_of(c).method, "label-tree");
        assert_int_equal(info_of(c).label_tree->trees, rich ? 9 : 3);
        xsm_choice_free(c);
    }
    still = false;
    delay = 0;
}

/* Labels by chance, of many classes: with more rows more classes are possible, and losses rise. What this costs those
 * who have seen more rows is added to the predictions of those who were dropped before. */
TEST(losses_that_rise)
{
    enum { MANY = 400, N = 6 * MANY };
    uint64_t stream = 5;
    HELD_STRUCT(test_problem, p) = test_problem_new(N, FEATURES, 2, true, 5);
    for (uint64_t i = 0; i < N; i++) {
        p.labels[i] = (uint32_t)(MANY * test_uniform(&stream));
    }
    HELD(xsm_dataset, data) = test_relabel(&p, true, MANY, NULL, p.labels);
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.seconds = 0.1;
    still = true;
    delay = 1e-9;
    HELD(xsm_choice, c) = choose(NULL, data, &o);
    still = false;
    delay = 0;
    uint64_t dropped = 0;
    for (uint64_t i = 0; i < info_of(c).trials; i++) {
        const xsm_choice_trial t = trial_of(c, i);
        if (t.rows < info_of(c).trial_rows && t.predicted > 0) {
            dropped++;
            assert_true(t.predicted > t.loss + 1e-3);
        }
    }
    assert_true(dropped > 0);
}

/* Too few rows to hold any back, whose small column says all: it is learnt all the same. */
TEST(few_rows)
{
    enum { FEW = 6 };
    static float x[FEW * 2] = {1.2F, 3.4e6F, -0.9F, 1.2e6F, 0.8F, 2.1e6F, -1.1F, 0.9e6F, 1.5F, 1.8e6F, -0.7F, 2.5e6F};
    static uint32_t labels[FEW] = {0, 1, 0, 1, 0, 1};
    const test_problem p = {.rows = FEW, .features = 2, .classes = 2, .x = x, .labels = labels};
    const uint64_t epochs[] = {0, 0, 20, 20};
    for (size_t i = 0; i < 4; i++) { /* dense and sparse rows; by steps, whose rate nothing tells */
        xsm_dataset *rows = test_relabel(&p, i % 2 == 1, 2, (uint64_t[]){0, 1, 2, 3, 4, 5, 6}, labels);
        xsm_model *m = NULL;
        xsm_train_report report = XSM_TRAIN_REPORT_INIT;
        xsm_metrics metrics = XSM_METRICS_INIT;
        xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
        xsm_train_options o = XSM_TRAIN_OPTIONS_INIT;
        run.epochs = epochs[i];
        o.run = &run;
        assert_ok(xsm_train(NULL, rows, &o, &m, &report, &err), err);
        assert_ok(xsm_evaluate(NULL, m, rows, NULL, &metrics, &err), err);
        assert_true(report.trials == 0 && metrics.error == 0 && metrics.log_loss < log(2) / 2);
        xsm_model_free(m);
        xsm_dataset_free(rows);
    }
}

/* Nothing depends on the clock, which with a budget ends the trials of a slow machine early. */
TEST(same_at_any_speed)
{
    HELD_STRUCT(test_problem, p) = make_problem(ROWS, FEATURES, CLASSES);
    HELD(xsm_dataset, many) = make_lookalikes(1);
    HELD(xsm_dataset, several) = make_lookalikes(2);
    assert_same_at_any_speed(p.data);
    assert_same_at_any_speed(many);
    assert_same_at_any_speed(several);
    HELD(xsm_choice, fast) = choose_at(0, 2, p.data, 1000);
    HELD(xsm_choice, slow) = choose_at(120, 2, p.data, 1000);
    assert_true(info_of(slow).trials < info_of(fast).trials && info_of(slow).gave_up);
}

/* The share of rows of `test` whose best class is wrong, for the label tree that was chosen. */
static double tree_error_of(const xsm_choice *c, const xsm_dataset *train, const xsm_dataset *test)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = NULL;
    xsm_metrics metrics = XSM_METRICS_INIT;
    assert_ok(xsm_fit_label_tree(NULL, train, info_of(c).label_tree, &m, NULL, &err), err);
    assert_ok(xsm_evaluate(NULL, m, test, NULL, &metrics, &err), err);
    xsm_model_free(m);
    return metrics.error;
}

/* The fewest trees of a trial of label trees that have inner nodes. */
static uint32_t trees_tried(const xsm_choice *c)
{
    uint32_t fewest = UINT32_MAX;
    for (uint64_t i = 0; i < info_of(c).trials; i++) {
        const xsm_choice_trial t = trial_of(c, i);
        if (t.label_tree && t.label_tree->leaf == 0 && t.label_tree->trees < fewest) {
            fewest = t.label_tree->trees;
        }
    }
    return fewest;
}

/* Label trees are tried beside what is chosen without them, which stays unless they are better; the same with any
 * number of threads. */
TEST(label_trees)
{
    HELD(xsm_dataset, data) = make_lookalikes(1);
    HELD(xsm_dataset, test) = NULL;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    MADE(xsm_dataset, train, xsm_dataset_split(data, 0.1, 3, &test, &train, &err));
    xsm_choice *without = choose(NULL, train, &o);
    assert_null(info_of(without).label_tree);
    const double other = error_of(without, train, test);
    xsm_choice_free(without);
    o.label_tree = 1;
    HELD(xsm_context, one) = test_context(1, TEST_BUILT_IN, 0);
    HELD(xsm_context, two) = test_context(2, TEST_BUILT_IN, 0);
    HELD(xsm_choice, c) = choose(one, train, &o);
    HELD(xsm_choice, again) = choose(two, train, &o);
    const xsm_choice_info info = info_of(c);
    assert_int_equal(info.label_tree != NULL, strcmp(info.method, "label-tree") == 0);
    if (info.label_tree) {
        assert_null(info.optimizer);
        assert_null(xsm_choice_estimator(c));
        assert_true(info.epochs == 0 && info.batch == 0 && info.eta == 0 && info.ridge == 0);
    }
    assert_true((info.label_tree ? tree_error_of(c, train, test) : error_of(c, train, test)) < other + 0.03);
    for (uint64_t i = 0; i < info.trials; i++) {
        const xsm_choice_trial t = trial_of(c, i), same = trial_of(again, i);
        assert_int_equal(t.label_tree != NULL, strcmp(t.estimator, "label-tree") == 0);
        assert_true(t.loss == same.loss && t.rows == same.rows && t.seconds > 0);
        assert_string_equal(t.estimator, same.estimator);
    }
    assert_int_equal(info_of(again).trials, info.trials);
    assert_string_equal(info_of(again).method, info.method);
    assert_int_equal(trees_tried(c), 3); /* three are no worse than one, and quick here */
}

/* What is given for steps leaves no label tree, nor does a measure that it does not have; with a budget for nothing,
 * nothing is tried. */
TEST_OF_FULL(no_label_trees)
{
    HELD(xsm_dataset, data) = make_lookalikes(1);
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.label_tree = 1;
    o.run = &run;
    run.epochs = 1;
    xsm_choice *c = choose(NULL, data, &o);
    assert_null(info_of(c).label_tree);
    for (uint64_t i = 0; i < info_of(c).trials; i++) {
        assert_null(trial_of(c, i).label_tree);
    }
    xsm_choice_free(c);
    xsm_dataset *several = make_lookalikes(2);
    run.epochs = 0;
    o.measure = XSM_MEASURE_LOG_LOSS; /* which a label tree does not have there */
    c = choose(NULL, several, &o);
    assert_null(info_of(c).label_tree);
    xsm_choice_free(c);
    xsm_dataset_free(several);
    o.measure = XSM_MEASURE_AUTO;
    o.seconds = 1e-3;
    c = choose(NULL, data, &o);
    assert_true((info_of(c).gave_up & XSM_GAVE_UP_TRIALS) != 0);
    xsm_choice_free(c);
}

static xsm_status choose_tree(void *state, xsm_context *ctx, xsm_error *err)
{
    HELD(xsm_choice, c) = NULL;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.label_tree = o.embedding = 1; /* so few rows a class that nothing else is tried */
    return xsm_choose(ctx, state, &o, &c, err);
}

static int32_t stop_at(void *user, const xsm_choose_progress *p)
{
    uint64_t *left = user;
    assert_true(p->size == sizeof *p && p->trial >= 1 && p->seconds >= 0 && strlen(p->estimator) > 0);
    return (*left)-- == 0;
}

/* The callback ends a trial of a label tree before or after it, a context's hook within. */
TEST(cancelled_trees)
{
    HELD(xsm_dataset, data) = make_lookalikes(1);
    xsm_choice *c = NULL;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    o.label_tree = o.embedding = o.transform = 1; /* two trials */
    o.progress = stop_at;
    for (uint64_t calls = 0; calls < 3; calls++) {
        uint64_t left = calls;
        o.progress_user = &left;
        assert_int_equal(xsm_choose(NULL, data, &o, &c, &err), XSM_CANCELLED);
        assert_null(c);
    }
    test_hook h;
    test_hook_start(&h, 2);
    size_t polls = 0;
    for (size_t k = 1; k <= 81; k *= 3) {
        test_hook_cancel(&h, k);
        assert_int_equal(choose_tree(data, h.context, &err), XSM_CANCELLED);
        polls = h.calls;
    }
    assert_true(polls >= 81);
    test_hook_end(&h);
}

TEST(refuses)
{
    HELD_STRUCT(test_problem, p) = make_problem(ROWS, FEATURES, CLASSES);
    HELD(xsm_estimator, e) = test_estimator(NULL, "ove", "negatives=2");
    xsm_choice *c = NULL;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    assert_int_equal(xsm_choose(NULL, NULL, &o, &c, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_choose(NULL, p.data, &o, NULL, &err), XSM_ERROR_ARGUMENT);
    o.seconds = -1;
    assert_int_equal(xsm_choose(NULL, p.data, &o, &c, &err), XSM_ERROR_RANGE);
    o.seconds = NAN;
    assert_int_equal(xsm_choose(NULL, p.data, &o, &c, &err), XSM_ERROR_RANGE);
    o.seconds = 0;
    o.keep_ridge = 1;
    o.ridge = 1.001e30; /* as an estimator refuses it */
    assert_fails(xsm_choose(NULL, p.data, &o, &c, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "0 to 1e+30"));
    o.ridge = -1;
    assert_int_equal(xsm_choose(NULL, p.data, &o, &c, &err), XSM_ERROR_RANGE);
    o.keep_ridge = 0;
    o.estimator = e;
    o.optimizer = "lbfgs";
    assert_int_equal(xsm_choose(NULL, p.data, &o, &c, &err), XSM_ERROR_UNSUPPORTED);
    o.optimizer = "sdg";
    assert_int_equal(xsm_choose(NULL, p.data, &o, &c, &err), XSM_ERROR_NAME);
    o.optimizer = NULL;
    uint64_t left = 3;
    o.progress = stop_at;
    o.progress_user = &left;
    assert_int_equal(xsm_choose(NULL, p.data, &o, &c, &err), XSM_CANCELLED);
    assert_null(c);
    assert_ok(xsm_estimator_set(e, "negatives", "2", &err), err); /* not bound */
    assert_int_equal(xsm_choice_get_info(NULL, NULL, &err), XSM_ERROR_ARGUMENT);
    assert_null(xsm_choice_estimator(NULL));
    xsm_choice_free(NULL);
}

static xsm_status choose_once(void *state, xsm_context *ctx, xsm_error *err)
{
    test_problem *p = state;
    HELD(xsm_choice, c) = NULL;
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    xsm_choose_options o = XSM_CHOOSE_OPTIONS_INIT;
    run.epochs = 1;
    o.run = &run;
    o.transform = 1;
    return xsm_choose(ctx, p->data, &o, &c, err);
}

TEST(every_allocation)
{
    HELD_STRUCT(test_problem, p) = make_problem(150, 5, 3);
    assert_true(test_every_allocation(choose_once, &p) > 20);
}
