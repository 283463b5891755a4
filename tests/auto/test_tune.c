/*
 * Tests of the choice of a learning rate: the result, that it is the same in a second run, the state of model and
 * estimator afterwards, and failures.
 */
#define XSM_EXPERIMENTAL /* choice and tuning */
#include "training.h"

#include "auto/tune.h"

#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/tune.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3000, FEATURES = 12, CLASSES = 9 };

/* Rows whose label is the best class of a linear model, with one in eight at random: the log-loss has a minimum that
 * training can come near, and rates that are too large or too small show. */
static test_problem make_problem(bool sparse)
{
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 5);
    double truth[CLASSES][FEATURES];
    uint64_t stream = 77;
    for (int k = 0; k < CLASSES; k++) {
        for (int j = 0; j < FEATURES; j++) {
            truth[k][j] = 2 * test_uniform(&stream) - 1;
        }
    }
    for (int i = 0; i < ROWS; i++) {
        double best = -INFINITY;
        for (uint32_t k = 0; k < CLASSES; k++) {
            double z = 0;
            for (int j = 0; j < FEATURES; j++) {
                z += truth[k][j] * (double)p.x[i * FEATURES + j];
            }
            p.labels[i] = z > best ? k : p.labels[i];
            best = z > best ? z : best;
        }
        if (test_next(&stream) % 8 == 0) {
            p.labels[i] = (uint32_t)(test_next(&stream) % CLASSES);
        }
    }
    xsm_dataset *data = test_relabel(&p, sparse, CLASSES, NULL, p.labels);
    xsm_dataset_free(p.data);
    p.data = data;
    return p;
}

static xsm_trainer_options run_options(uint64_t epochs, uint64_t batch)
{
    xsm_trainer_options o = XSM_TRAINER_OPTIONS_INIT;
    o.epochs = epochs;
    o.batch = batch;
    o.schedule = XSM_SCHEDULE_STEP;
    o.seed = 4;
    return o;
}

static xsm_tuning *tune(xsm_context *ctx, const test_problem *p, xsm_model *m, const char *estimator,
                        const char *options, const xsm_trainer_options *run)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_estimator, e) = test_estimator(ctx, estimator, options);
    HELD(xsm_optimizer, o) = test_optimizer(ctx, m);
    NEW(xsm_tuning, tuning, xsm_tune_eta(ctx, m, p->data, e, o, STRUCT(xsm_tune_options, .run = run), &tuning, &err));
    assert_ok(xsm_estimator_set(e, "seed", "9", &err), err); /* not bound any more */
    return tuning;
}

static xsm_tuning_info info_of(const xsm_tuning *tuning)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_tuning_info info = XSM_TUNING_INFO_INIT;
    assert_ok(xsm_tuning_get_info(tuning, &info, &err), err);
    return info;
}

static xsm_tune_trial trial_of(const xsm_tuning *tuning, uint64_t index)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_tune_trial trial = XSM_TUNE_TRIAL_INIT;
    assert_ok(xsm_tuning_get_trial(tuning, index, &trial, &err), err);
    return trial;
}

/* Log-loss of the training rows after a whole run, infinite if it diverges. */
static double whole_run(const test_problem *p, const char *estimator, const char *options, xsm_trainer_options run,
                        double eta)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_model *m = test_model(NULL, p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
    xsm_estimator *e = test_estimator(NULL, estimator, options);
    xsm_optimizer *o = test_optimizer(NULL, m);
    run.eta = eta;
    NEW(xsm_trainer, t, xsm_trainer_new(NULL, m, p->data, e, o, &run, &t, &err));
    xsm_status status = xsm_trainer_run(t, &err);
    if (status == XSM_OK) {
        assert_ok(xsm_evaluate(NULL, m, p->data, NULL, &metrics, &err), err);
    }
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    return status == XSM_OK ? metrics.log_loss : (double)INFINITY;
}

static const char *const kinds[][2] = {
    {"softmax", ""}, {"ove", "negatives=4"}, {"umax", "negatives=8"}, {"implicit", "negatives=3"}};

/* Against whole runs with each rate of the grid. */
TEST(as_good_as_the_best_of_the_grid)
{
    for (int kind = 0; kind < 8; kind++) {
        const char *name = kinds[kind / 2][0], *options = kinds[kind / 2][1];
        HELD_STRUCT(test_problem, p) = make_problem(kind % 2);
        xsm_trainer_options run = run_options(12, 1);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
        HELD(xsm_tuning, tuning) = tune(NULL, &p, m, name, options, &run);
        double best = INFINITY, worst = 0;
        for (int power = -3; power <= 3; power++) {
            double loss = whole_run(&p, name, options, run, pow(10, power));
            best = fmin(best, loss);
            worst = fmax(worst, loss);
        }
        double found = whole_run(&p, name, options, run, info_of(tuning).eta);
        assert_true(worst > 2 * best);   /* the rate matters */
        assert_true(found < 1.1 * best); /* what trials this short can tell; bench/eta_auto.py has real data */
    }
}

enum { PAIR_CLASSES = 1600, PAIRS = 10000, FIRST_OF_PAIR = 40, SECOND_OF_PAIR = PAIR_CLASSES / FIRST_OF_PAIR };

/* Rows with two features, which together say the class, of so many classes that trials draw each seldom. One row in
 * five has another class. */
static test_problem make_pairs(void)
{
    test_problem p = test_problem_new(PAIRS, FIRST_OF_PAIR + SECOND_OF_PAIR, PAIR_CLASSES, true, 5);
    uint64_t stream = 78;
    memset(p.x, 0, (size_t)PAIRS * p.features * sizeof *p.x);
    for (size_t i = 0; i < PAIRS; i++) {
        uint32_t k = (uint32_t)(test_next(&stream) % PAIR_CLASSES);
        p.x[i * p.features + k % FIRST_OF_PAIR] = 0.7F;
        p.x[i * p.features + FIRST_OF_PAIR + k / FIRST_OF_PAIR] = 0.7F;
        p.labels[i] = test_next(&stream) % 5 == 0 ? (uint32_t)(test_next(&stream) % PAIR_CLASSES) : k;
    }
    xsm_dataset_free(p.data);
    p.data = test_relabel(&p, true, PAIR_CLASSES, NULL, p.labels);
    return p;
}

/* Estimators whose steps grow with the number of classes and others, against whole runs with each rate. */
TEST(some_of_many_classes)
{
    static const char *const names[] = {"sampled-softmax", "nce", "ove", "implicit"};
    HELD_STRUCT(test_problem, p) = make_pairs();
    xsm_trainer_options run = run_options(8, 1);
    for (size_t kind = 0; kind < sizeof names / sizeof *names; kind++) {
        double eta = 0, best = INFINITY, worst = 0;
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
            HELD(xsm_model, m) = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
            HELD(xsm_tuning, tuning) = tune(ctx, &p, m, names[kind], "", &run);
            assert_in_range(info_of(tuning).classes, 256, PAIR_CLASSES / 2);
            assert_true(threads == 1 || info_of(tuning).eta == eta);
            eta = info_of(tuning).eta;
            assert_int_equal(xsm_model_class_count(m), PAIR_CLASSES);
            for (uint32_t k = 0; k < PAIR_CLASSES; k++) {
                assert_true(test_bias(m, k) == 0 && test_weight(m, k, k % FIRST_OF_PAIR) == 0);
            }
        }
        for (int power = -3; power <= 2; power++) {
            double loss = whole_run(&p, names[kind], "", run, pow(10, power));
            best = fmin(best, loss);
            worst = fmax(worst, loss);
        }
        assert_true(worst > 2 * best);
        assert_true(whole_run(&p, names[kind], "", run, eta) < 1.3 * best);
    }
}

/* Where classes have names of their own in an option, or each is scored anyway, or losses are the estimator's own, or
 * features come first in memory. */
TEST(all_of_many_classes)
{
    static const struct {
        const char *name, *options;
        int32_t layout;
    } ways[] = {{"ove", "tight-classes=3,7", XSM_LAYOUT_CLASS_MAJOR},
                {"softmax", "", XSM_LAYOUT_CLASS_MAJOR},
                {"importance", "", XSM_LAYOUT_CLASS_MAJOR},
                {"one-vs-all-sampled", "", XSM_LAYOUT_CLASS_MAJOR},
                {"nce", "", XSM_LAYOUT_FEATURE_MAJOR}};
    HELD_STRUCT(test_problem, p) = make_pairs();
    xsm_trainer_options run = run_options(2, 1);
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        HELD(xsm_model, m) = test_model(NULL, &p, true, ways[way].layout, 0, 1);
        HELD(xsm_tuning, tuning) = tune(NULL, &p, m, ways[way].name, ways[way].options, &run);
        assert_int_equal(info_of(tuning).classes, PAIR_CLASSES);
    }
}

/* Trials draw each class 120 to 130 times: few for steps that do not grow with the number of classes. */
TEST(classes_by_draws)
{
    static const struct {
        const char *name;
        bool some;
    } ways[] = {{"sampled-softmax", true}, {"nce", true}, {"ove", false}, {"umax", false}};
    HELD_STRUCT(test_problem, p) = make_pairs();
    xsm_trainer_options run = run_options(10, 1);
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
        HELD(xsm_tuning, tuning) = tune(NULL, &p, m, ways[way].name, "negatives=24", &run);
        assert_int_equal(info_of(tuning).classes < PAIR_CLASSES, ways[way].some);
        for (uint64_t i = 0; i < info_of(tuning).trials; i++) { /* of some classes three passes in each round */
            const xsm_tune_trial t = trial_of(tuning, i);
            assert_int_equal(t.epochs, ways[way].some ? 3 : t.round);
        }
    }
}

/* What the trials are said to have been, and that they kept to their share of the run. */
TEST(trials_add_up)
{
    HELD_STRUCT(test_problem, p) = make_problem(false);
    xsm_trainer_options run = run_options(20, 1);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
    xsm_tuning *tuning = tune(NULL, &p, m, "implicit", "", &run);
    xsm_tuning_info info = info_of(tuning);
    uint64_t examples = 0;
    int first = 0, chosen = 0;
    double around[2] = {0, 0}; /* rates of the last round that led to the choice */
    for (uint64_t i = 0; i < info.trials; i++) {
        xsm_tune_trial t = trial_of(tuning, i);
        examples += t.examples;
        first += t.round == 1;
        if (t.outcome == XSM_TRIAL_CHOSEN) {
            chosen++;
            assert_true(t.eta == info.eta && t.round == 3);
        }
        if (t.round == 3 && t.outcome == XSM_TRIAL_KEPT) {
            around[around[0] > 0] = t.eta;
        }
        assert_int_equal(t.examples, t.rows * t.epochs);
        assert_true(t.rows <= ROWS && t.epochs <= 20);
        assert_true(isfinite(t.objective) && t.objective > 0);
        if (i > 0) {
            xsm_tune_trial last = trial_of(tuning, i - 1);
            assert_true(last.round < t.round || (last.round == t.round && last.eta < t.eta));
        }
    }
    assert_int_equal(examples, info.examples);
    assert_true(first >= 7);
    if (chosen == 0) { /* a rate between two */
        assert_true(around[0] < info.eta && info.eta < around[1] && around[1] / around[0] < 10.5);
    } else {
        assert_true(chosen == 1 && around[0] == 0);
    }
    assert_true((double)examples < 0.3 * 20 * ROWS);
    assert_true(info.seconds > 0);
    xsm_tune_trial none = XSM_TUNE_TRIAL_INIT;
    assert_fails(xsm_tuning_get_trial(tuning, info.trials, &none, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_tuning_get_trial(NULL, 0, &none, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_tuning_get_info(NULL, &info, &err), XSM_ERROR_ARGUMENT, err);
    xsm_tuning_free(tuning);
    xsm_tuning_free(NULL);
}

TEST(same_on_any_threads)
{
    static const struct {
        uint32_t threads, cpu_disable;
        int runner;
    } ways[] = {{1, 0, TEST_BUILT_IN}, {3, 0, TEST_BUILT_IN}, {4, 7, TEST_PTHREADS}, {3, 0, TEST_REVERSED}};
    for (int kind = 0; kind < 4; kind++) {
        HELD_STRUCT(test_problem, p) = make_problem(true);
        uint64_t batch = kind == 1 ? 7 : 1;
        xsm_trainer_options run = run_options(5, batch);
        xsm_tune_trial first[64];
        uint64_t count = 0;
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
            HELD(xsm_context, ctx) = test_context(ways[way].threads, ways[way].runner, ways[way].cpu_disable);
            HELD(xsm_model, m) = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
            HELD(xsm_tuning, tuning) = tune(ctx, &p, m, kinds[kind][0], "ridge=0.3", &run);
            if (way == 0) {
                count = info_of(tuning).trials;
                assert_true(count <= 64);
            }
            assert_int_equal(info_of(tuning).trials, count);
            for (uint64_t i = 0; i < count; i++) {
                xsm_tune_trial t = trial_of(tuning, i);
                if (way == 0) {
                    first[i] = t;
                }
                assert_memory_equal(&t, &first[i], sizeof t);
            }
        }
    }
}

/* A model's objective by hand: the log-loss of evaluation, or the losses of one-vs-all, and the ridge. */
static double objective_by_hand(const test_problem *p, xsm_model *m, bool one_vs_all, double ridge)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    assert_ok(xsm_evaluate(NULL, m, p->data, NULL, &metrics, &err), err);
    double f = one_vs_all ? 0 : (double)metrics.rows * metrics.log_loss;
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            f += ridge / 2 * test_weight(m, k, j) * test_weight(m, k, j);
        }
        for (uint64_t i = 0; one_vs_all && i < metrics.rows; i++) {
            double z = test_bias(m, k);
            for (uint32_t j = 0; j < FEATURES; j++) {
                z += test_weight(m, k, j) * (double)p->x[i * FEATURES + j];
            }
            z = p->labels[i] == k ? -z : z;
            f += fmax(z, 0) + log1p(exp(-fabs(z)));
        }
    }
    return f;
}

/* The objective of a trial that is the whole run: few rows and one epoch leave nothing to cut. */
TEST(the_objective_is_f)
{
    static const char *const names[] = {"softmax", "one-vs-all",
                                        "one-vs-all-sampled"}; /* by all classes all the same */
    for (int kind = 0; kind < 3; kind++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(30, FEATURES, CLASSES, false, 8);
        xsm_trainer_options run = run_options(1, 1);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
        HELD(xsm_tuning, tuning) = tune(NULL, &p, m, names[kind], "ridge=3", &run);
        for (uint64_t i = 0; i < 7; i++) {
            xsm_tune_trial trial = trial_of(tuning, i);
            assert_int_equal(trial.rows, 30);
            HELD(xsm_estimator, e) = test_estimator(NULL, names[kind], "ridge=3");
            HELD(xsm_model, fresh) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
            HELD(xsm_optimizer, o) = test_optimizer(NULL, fresh);
            run.eta = trial.eta;
            MADE(xsm_trainer, t, xsm_trainer_new(NULL, fresh, p.data, e, o, &run, &t, &err));
            assert_ok(xsm_trainer_run(t, &err), err);
            double f = objective_by_hand(&p, fresh, kind > 0, 3);
            assert_true(fabs(trial.objective - f) < 1e-5 * f);
        }
    }
}

/* The part of the rows left out falls as a round has more rows, never reaches more than a half, and counts the features
 * that occur, not those that there could be: columns without a value change nothing. */
TEST(rows_left_out_count_by_shape)
{
    enum { WIDER = 50 };
    double narrow[XSMI_TUNE_ROUNDS] = {0};
    for (int wide = 0; wide < 2; wide++) {
        HELD_STRUCT(test_problem, p) = make_problem(true);
        test_problem q = p;
        q.features = wide ? WIDER * FEATURES : FEATURES;
        q.x = calloc((size_t)ROWS * q.features, sizeof *q.x);
        assert_non_null(q.x);
        for (size_t i = 0; i < ROWS; i++) {
            memcpy(q.x + i * q.features, p.x + i * FEATURES, FEATURES * sizeof *p.x);
        }
        q.data = test_relabel(&q, true, CLASSES, NULL, p.labels);
        xsm_trainer_options run = run_options(10, 1);
        xsm_model *m = test_model(NULL, &q, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
        xsm_tuning *tuning = tune(NULL, &q, m, "softmax", "", &run);
        uint64_t last = 0;
        double before = 0.5;
        for (uint64_t i = 0; i < info_of(tuning).trials; i++) {
            const xsm_tune_trial t = trial_of(tuning, i);
            const double part = tuning->unseen_part[t.round - 1];
            assert_true(part >= 0 && part < 0.5);
            assert_true(t.rows < ROWS ? part > 0 : part < 1e-12);
            if (t.rows != last) {
                assert_true(t.rows > last && part < before);
                last = t.rows;
                before = part;
            }
            if (wide) {
                assert_true(fabs(part - narrow[t.round - 1]) < 1e-12);
            } else {
                narrow[t.round - 1] = part;
            }
        }
        xsm_tuning_free(tuning);
        xsm_model_free(m);
        xsm_dataset_free(q.data);
        free(q.x);
    }
}

/* The model is as new, without the tree of a trial's rows: a run after the choice is the bits of a run without. */
TEST(leaves_nothing_behind)
{
    static const char *const names[] = {"softmax", "ove", "umax", "implicit", "hierarchical", "negative-sampling"};
    for (int kind = 0; kind < 6; kind++) {
        HELD_STRUCT(test_problem, p) = make_problem(kind % 2);
        xsm_trainer_options run = run_options(2, 1);
        uint64_t hash[2];
        for (int tuned = 0; tuned < 2; tuned++) {
            HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
            HELD(xsm_estimator, e) = test_estimator(NULL, names[kind], "ridge=0.5");
            HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
            if (tuned) {
                MADE(xsm_tuning, tuning, xsm_tune_eta(NULL, m, p.data, e, o, NULL, &tuning, &err));
                assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_NONE);
                char ridge[16];
                xsm_estimator_get(e, "ridge", ridge, sizeof ridge);
                assert_string_equal(ridge, "0.5");
            }
            run.eta = 0.5;
            MADE(xsm_trainer, t, xsm_trainer_new(NULL, m, p.data, e, o, &run, &t, &err));
            assert_ok(xsm_trainer_run(t, &err), err);
            hash[tuned] = test_hash(m);
        }
        assert_true(hash[0] == hash[1]);
    }
}

/* So many weights that a trial changes few: those are noted and zeroed one by one, and trials are as ever. */
TEST(many_weights)
{
    enum { MANY = 900, WIDE = 700 };
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(400, WIDE, MANY, sparse, 6);
        xsm_trainer_options run = run_options(10, 1);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
        uint64_t zero = test_hash(m);
        HELD(xsm_tuning, tuning) = tune(NULL, &p, m, "ove", "negatives=2", &run);
        assert_true(test_hash(m) == zero);
        /* What is left of a trial would make the next one of the same rate another. */
        HELD(xsm_tuning, again) = tune(NULL, &p, m, "ove", "negatives=2", &run);
        assert_int_equal(info_of(again).trials, info_of(tuning).trials);
        for (uint64_t i = 0; i < info_of(tuning).trials; i++) {
            assert_true(trial_of(again, i).objective == trial_of(tuning, i).objective);
        }
    }
}

/* So many classes beside short steps that judging the trials' rows would alone take more than trials may: rounds are
 * made smaller until all that they do fits into 27.5 % of the run's work. */
TEST(trials_keep_to_their_share)
{
    enum { MANY = 250, DRAWN = 4, EPOCHS = 10 }; /* classes too few for trials of some */
    const double share = 0.275;
    /* A class that is only scored takes about an eighth of what one does that is also updated; half is a safe bound. */
    const double scored = MANY / 16.0, step = 1 + DRAWN + 1, whole = step * ROWS * EPOCHS;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, MANY, true, 6);
    static const char *const names[] = {"umax", "ove", "implicit"};
    for (int i = 0; i < 3; i++) {
        xsm_trainer_options run = run_options(EPOCHS, 1);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
        HELD(xsm_tuning, tuning) = tune(NULL, &p, m, names[i], "negatives=4", &run);
        xsm_tuning_info info = info_of(tuning);
        double examples = (double)info.examples;
        /* As they are planned, trials handle 19.75 % of the run's examples at least, and are judged on 768 rows. */
        assert_true(0.1975 * whole + 2 * 768 * scored > share * whole);
        assert_true(examples < 0.19 * ROWS * EPOCHS); /* was cut */
        assert_true(tuning->share > 0 && tuning->share <= share);
        /* What is known of their work, judged on 16 rows at least. */
        assert_true(examples * step + (double)info.trials * 16 * scored < tuning->share * whole);
        for (uint64_t j = 0; j < info.trials; j++) {
            xsm_tune_trial t = trial_of(tuning, j);
            assert_true(t.epochs == (t.round == 1 ? 1 : t.round == 2 ? 2 : 3) && t.rows >= 64);
        }
    }
}

/* Of the coefficients of a margin, those that are not 0 are counted: all of a model of zeros, whose classes are all as
 * near to each other, and fewer once a model tells classes apart; and so are those of a search. Of other estimators all
 * are. */
TEST(steps_tell_how_busy_they_are)
{
    static const char *const names[] = {"margin", "mips", "softmax", "ove"};
    for (int i = 0; i < 4; i++) {
        double active[2];
        for (int trained = 0; trained < 2; trained++) {
            HELD_STRUCT(test_problem, p) = make_problem(false);
            HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
            HELD(xsm_estimator, e) = test_estimator(NULL, names[i], i == 1 ? "startup=0" : "");
            HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
            xsm_trainer_options run = run_options(1, 16);
            run.eta = trained ? 10 : 1e-9;
            MADE(xsm_trainer, t, xsm_trainer_new(NULL, m, p.data, e, o, &run, &t, &err));
            assert_ok(xsm_trainer_run(t, &err), err);
            active[trained] = xsmi_trainer_active(t);
        }
        assert_true(active[0] == 1);
        assert_true(i < 2 ? active[1] > 0 && active[1] < 0.7 : active[1] == 1);
    }
}

/* -- what goes wrong ----------------------------------------------------------------------------------------------- */

static xsm_status no_bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    (void)state;
    (void)problem;
    (void)err;
    return XSM_OK;
}

static void infinite_gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count * block->width; i++) {
        block->coefficients[i] = INFINITY;
    }
    for (uint64_t i = 0; i < block->count; i++) {
        block->losses[i] = 1;
    }
}

static const xsm_estimator_ops infinite_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .kind = XSM_ESTIMATOR_EXACT,
    .name = "infinite",
    .summary = "diverges",
    .state_size = 8,
    .bind = no_bind,
    .gradient = infinite_gradient,
};

/* Softmax, of whose loss so much is taken that it is negative. */
static void negative_gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        const uint32_t y = block->examples[i].labels[0];
        double top = (double)z[0], sum = 0, own = (double)z[y];
        for (uint64_t k = 1; k < block->width; k++) {
            top = fmax(top, (double)z[k]);
        }
        for (uint64_t k = 0; k < block->width; k++) {
            sum += exp((double)z[k] - top);
        }
        for (uint64_t k = 0; k < block->width; k++) {
            g[k] = (float)(exp((double)z[k] - top) / sum - (k == y));
        }
        block->losses[i] = top + log(sum) - own - 1000;
    }
}

/* A step moves the label's score by the rate, whatever it is: the loss falls up to 1 and grows in proportion to rate
 * and steps from there. */
static void growing_gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        float *g = block->coefficients + i * block->width; /* in place of the scores */
        const uint32_t y = block->examples[i].labels[0];
        block->losses[i] = fabs((double)block->scores[i * block->width + y] - 1);
        memset(g, 0, (size_t)block->width * sizeof *g);
        g[y] = -1;
    }
}

/* What nothing bounds grows on in the run as it grew in a trial, for as much longer. */
TEST(growth_is_foreseen)
{
    enum { EPOCHS = 10 };
    for (double length = 0.04; length < 0.4; length *= 1.25) { /* rates within the grid */
        test_problem p = test_problem_new(ROWS, 1, 2, false, 5);
        for (int i = 0; i < ROWS; i++) {
            p.x[i] = (float)length;
        }
        xsm_dataset *data = test_relabel(&p, false, 2, NULL, p.labels);
        xsm_model *m = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
        xsm_optimizer *o = test_optimizer(NULL, m);
        xsm_estimator_ops ops = infinite_ops;
        ops.name = "growing";
        ops.flags |= XSM_ESTIMATOR_OTHER_LOSS | XSM_ESTIMATOR_UNBOUNDED;
        ops.gradient = growing_gradient;
        NEW(xsm_estimator, e, xsm_estimator_new_from(NULL, &ops, &e, &err));
        xsm_tune_options options = XSM_TUNE_OPTIONS_INIT;
        const xsm_trainer_options run = run_options(EPOCHS, 1);
        options.run = &run;
        NEW(xsm_tuning, tuning, xsm_tune_eta(NULL, m, data, e, o, &options, &tuning, &err));
        const double eta = info_of(tuning).eta;
        for (uint64_t i = 0; i < info_of(tuning).trials; i++) {
            const xsm_tune_trial t = trial_of(tuning, i);
            const double longer = (double)(ROWS * EPOCHS) / (double)t.examples;
            if (t.round == 3 && t.objective > ROWS && t.eta > eta) { /* no training: 1 a row */
                assert_true(t.objective * longer * eta / t.eta <= ROWS);
            }
        }
        xsm_tuning_free(tuning);
        xsm_estimator_free(e);
        xsm_optimizer_free(o);
        xsm_model_free(m);
        xsm_dataset_free(data);
        test_problem_free(&p);
    }
}

/* A logarithm tells nothing of them, but they are no divergence, and better than positive ones. An option of the host's
 * may have any name: this one is not about classes that are drawn. */
TEST(negative_losses_do_not_diverge)
{
    const xsm_option negatives = {sizeof(xsm_option),          "negatives", XSM_OPTION_INT, 0, "1000", 0, 1e6, NULL,
                                  "what is taken off the loss"};
    HELD_STRUCT(test_problem, p) = make_problem(false);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    xsm_estimator_ops ops = infinite_ops;
    ops.name = "negative";
    ops.flags |= XSM_ESTIMATOR_OTHER_LOSS;
    ops.gradient = negative_gradient;
    ops.options = &negatives;
    ops.option_count = 1;
    MADE(xsm_estimator, e, xsm_estimator_new_from(NULL, &ops, &e, &err));
    MADE(xsm_tuning, tuning, xsm_tune_eta(NULL, m, p.data, e, o, NULL, &tuning, &err));
    /* Large rates make them positive, which is worse. */
    assert_true(info_of(tuning).eta > 0 && info_of(tuning).eta <= 10 && trial_of(tuning, 0).objective < 0);
    char text[16];
    assert_int_equal(xsm_estimator_get(e, "negatives", text, sizeof text), 4);
    assert_string_equal(text, "1000");
}

TEST(every_rate_diverges)
{
    HELD_STRUCT(test_problem, p) = make_problem(false);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    MADE(xsm_estimator, e, xsm_estimator_new_from(NULL, &infinite_ops, &e, &err));
    xsm_tuning *none = (xsm_tuning *)&p;
    assert_fails(xsm_tune_eta(NULL, m, p.data, e, o, NULL, &none, &err), XSM_ERROR_DIVERGED, err);
    assert_ptr_equal(none, &p);
    assert_non_null(strstr(err.message, "every learning rate from 1e-09"));
}

typedef struct stop {
    int calls, stop_at;
    double done;
} stop;

static int32_t count_calls(void *user, const xsm_tune_progress *progress)
{
    stop *s = user;
    assert_int_equal(progress->size, sizeof *progress);
    assert_true(progress->round >= 1 && progress->round <= progress->rounds);
    assert_true(progress->eta > 0 && progress->done >= s->done && progress->done <= 1);
    assert_true(progress->seconds >= 0);
    s->done = progress->done;
    return ++s->calls == s->stop_at;
}

TEST(stops_when_asked)
{
    HELD_STRUCT(test_problem, p) = make_problem(false);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
    uint64_t zero = test_hash(m);
    int all = 0;
    for (int stop_at = 0; stop_at <= all; stop_at++) {
        HELD(xsm_estimator, e) = test_estimator(NULL, "umax", "");
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        stop s = {0, stop_at, 0};
        xsm_tune_options options = XSM_TUNE_OPTIONS_INIT;
        options.progress = count_calls;
        options.progress_user = &s;
        HELD(xsm_tuning, tuning) = NULL;
        if (stop_at == 0) {
            assert_ok(xsm_tune_eta(NULL, m, p.data, e, o, &options, &tuning, &err), err);
            all = s.calls < 40 ? s.calls : 40;
            assert_true(all >= 12);
        } else {
            assert_fails(xsm_tune_eta(NULL, m, p.data, e, o, &options, &tuning, &err), XSM_CANCELLED, err);
            assert_null(tuning);
            assert_int_equal(s.calls, stop_at);
        }
        assert_true(test_hash(m) == zero);
    }
}

TEST(refuses)
{
    HELD_STRUCT(test_problem, p) = make_problem(false);
    HELD(xsm_model, zero) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
    HELD(xsm_model, trained) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 1);
    HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", "");
    HELD(xsm_optimizer, o) = test_optimizer(NULL, zero);
    xsm_tuning *out = NULL;
    uint64_t before = test_hash(trained);
    assert_fails(xsm_tune_eta(NULL, trained, p.data, e, o, NULL, &out, &err), XSM_ERROR_STATE, err);
    assert_true(test_hash(trained) == before);
    assert_fails(xsm_tune_eta(NULL, NULL, p.data, e, o, NULL, &out, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_tune_eta(NULL, zero, NULL, e, o, NULL, &out, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_tune_eta(NULL, zero, p.data, NULL, o, NULL, &out, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_tune_eta(NULL, zero, p.data, e, NULL, NULL, &out, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_tune_eta(NULL, zero, p.data, e, o, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    xsm_trainer_options run = run_options(3, 1);
    xsm_tune_options options = XSM_TUNE_OPTIONS_INIT;
    options.run = &run;
    run.factor = 2;
    assert_fails(xsm_tune_eta(NULL, zero, p.data, e, o, &options, &out, &err), XSM_ERROR_RANGE, err);
    HELD_STRUCT(test_problem, other) = test_problem_new(50, FEATURES + 1, CLASSES, false, 3);
    assert_fails(xsm_tune_eta(NULL, zero, other.data, e, o, NULL, &out, &err), XSM_ERROR_SHAPE, err);
    assert_null(out);
}

/* Full batches: as many steps as the run has epochs, however few the rows. */
TEST(full_batches)
{
    HELD_STRUCT(test_problem, p) = make_problem(false);
    xsm_trainer_options run = run_options(40, ROWS);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 1);
    HELD(xsm_tuning, tuning) = tune(NULL, &p, m, "softmax", "", &run);
    double best = INFINITY;
    for (int power = -3; power <= 3; power++) {
        best = fmin(best, whole_run(&p, "softmax", "", run, pow(10, power)));
    }
    for (uint64_t i = 0; i < info_of(tuning).trials; i++) {
        xsm_tune_trial trial = trial_of(tuning, i);
        assert_true(trial.epochs > 1 && trial.epochs <= 40); /* more steps than the share of one pass */
    }
    assert_true(whole_run(&p, "softmax", "", run, info_of(tuning).eta) < 1.05 * best);
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

typedef struct subject {
    test_problem p;
    const char *estimator;
} subject;

static xsm_status tune_once(void *state, xsm_context *ctx, xsm_error *err)
{
    const subject *s = state;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_tuning, tuning) = NULL;
    xsm_model_options bias = XSM_MODEL_OPTIONS_INIT;
    bias.bias = 1;
    xsm_trainer_options run = run_options(2, 1);
    xsm_tune_options options = XSM_TUNE_OPTIONS_INIT;
    options.run = &run;
    xsm_status status = xsm_model_new_linear(ctx, FEATURES, CLASSES, &bias, &m, err);
    status = status == XSM_OK ? xsm_estimator_new(ctx, s->estimator, &e, err) : status;
    if (status == XSM_OK) {
        assert_int_equal(xsm_estimator_set(e, "ridge", "0.5", NULL), XSM_OK);
    }
    status = status == XSM_OK ? xsm_optimizer_new(ctx, "sgd", &o, err) : status;
    status = status == XSM_OK ? xsm_tune_eta(ctx, m, s->p.data, e, o, &options, &tuning, err) : status;
    return status;
}

TEST(every_allocation)
{
    static const char *const names[] = {"softmax", "implicit"};
    for (int i = 0; i < 2; i++) {
        subject s = {test_problem_new(150, FEATURES, CLASSES, true, 3), names[i]};
        assert_true(test_every_allocation(tune_once, &s) > 20);
        test_problem_free(&s.p);
    }
}
