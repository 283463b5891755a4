/*
 * Tests of training runs: order, schedules, the callback, cancelling and continuing, evaluation, divergence, settings.
 */
#include "training.h"

#include "train/trainer.h"

#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/trainer.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { FEATURES = 6, CLASSES = 40, ROWS = 230 };

/* -- what a run did ------------------------------------------------------------------------------------------------ */

/* Keeps what the estimator was asked, in the order of the run, and what the callback was told. */
static struct record {
    uint64_t row[4000];
    double eta[4000];
    size_t count;
    xsm_progress told[200];
    xsm_metrics train[200], test[200];
    double train_values[200][7][3], test_values[200][7][3];
    size_t calls;
    size_t stop_at;      /* call (from 1) that asks to stop; 0 = none */
    bool stop_in_middle; /* stop at the first call in the middle of an epoch */
    unsigned nap;        /* microseconds a step */
} record;

/* Copies metrics and their arrays, which are the library's. */
static void keep(const xsm_metrics *from, xsm_metrics *to, double values[7][3])
{
    const double *arrays[7] = {from->precision, from->ndcg,           from->psp, from->psndcg, from->recall,
                               from->hits,      from->reciprocal_rank};
    *to = *from;
    for (size_t i = 0; from->top == 3 && i < 7; i++) {
        memcpy(values[i], arrays[i], sizeof values[i]);
    }
}

static int32_t callback(void *user, const xsm_progress *p)
{
    struct record *r = user;
    assert_true(r->calls < 200);
    assert_int_equal(p->size, sizeof *p);
    if (p->train) {
        keep(p->train, &r->train[r->calls], r->train_values[r->calls]);
    }
    if (p->test) {
        keep(p->test, &r->test[r->calls], r->test_values[r->calls]);
    }
    r->told[r->calls++] = *p;
    bool middle = !p->epoch_ended && p->loss == p->loss;
    if (r->stop_in_middle && middle) {
        r->stop_in_middle = false;
        return 1;
    }
    return r->calls == r->stop_at;
}

static const xsm_estimator_ops *wrapped;

/* With several threads the records are whole, their order is not that of the run. */
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;

static void recording_gradient(void *state, const xsm_score_block *block)
{
    pthread_mutex_lock(&recording);
    for (uint64_t i = 0; i < block->count && record.count < 4000; i++) {
        record.row[record.count] = block->examples[i].row;
        record.eta[record.count++] = block->eta;
        if (record.nap) {
            usleep(record.nap);
        }
    }
    pthread_mutex_unlock(&recording);
    wrapped->gradient(state, block);
}

typedef struct rig {
    xsm_context *ctx;
    test_problem p;
    xsm_model *m;
    xsm_estimator *e;
    xsm_optimizer *o;
    xsm_trainer *t;
} rig;

static xsm_trainer_options recorded_options(void)
{
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 3;
    options.eta = 0.5;
    options.progress = callback;
    options.progress_user = &record;
    return options;
}

static rig build_on(test_problem p, const char *estimator, const char *settings, const xsm_trainer_options *options,
                    uint32_t threads)
{
    xsm_error err = XSM_ERROR_INIT;
    rig r = {.p = p};
    r.ctx = test_context(threads, TEST_BUILT_IN, 0);
    r.m = test_model(r.ctx, &r.p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    wrapped = xsm_estimator_find(estimator);
    xsm_estimator_ops ops = *wrapped;
    ops.gradient = threads == 1 ? recording_gradient : wrapped->gradient; /* the record is one thread's */
    assert_ok(xsm_estimator_new_from(r.ctx, &ops, &r.e, &err), err);
    char copy[100], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", settings);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value++ = '\0';
        assert_ok(xsm_estimator_set(r.e, word, value, &err), err);
    }
    assert_ok(xsm_optimizer_new(r.ctx, "sgd", &r.o, &err), err);
    assert_ok(xsm_trainer_new(r.ctx, r.m, r.p.data, r.e, r.o, options, &r.t, &err), err);
    memset(&record, 0, sizeof record);
    return r;
}

static rig build(const char *estimator, const char *settings, const xsm_trainer_options *options)
{
    return build_on(test_problem_new(ROWS, FEATURES, CLASSES, false, 3), estimator, settings, options, 1);
}

/* In an order that shows that nothing is needed from what is gone. */
static void end(rig *r)
{
    xsm_model_free(r->m);
    test_problem_free(&r->p);
    xsm_optimizer_free(r->o);
    xsm_estimator_free(r->e);
    xsm_trainer_free(r->t);
    xsm_context_free(r->ctx);
}

/* -- order and schedules ------------------------------------------------------------------------------------------- */

TEST(rows_come_in_order)
{
    uint64_t shuffled[2][3 * ROWS];
    for (int batch = 1; batch <= 7; batch += 6) {
        xsm_trainer_options options = recorded_options();
        options.batch = (uint64_t)batch;
        options.order = XSM_ORDER_FILE;
        rig r = build("ove", "", &options);
        assert_ok(xsm_trainer_run(r.t, &err), err);
        assert_int_equal(record.count, 3 * ROWS);
        for (size_t i = 0; i < record.count; i++) {
            assert_int_equal(record.row[i], i % ROWS);
        }
        end(&r);
        options.order = XSM_ORDER_SHUFFLE;
        for (uint64_t seed = 0; seed < 3; seed++) {
            options.seed = seed / 2; /* 0, 0, 1 */
            r = build("ove", "", &options);
            assert_ok(xsm_trainer_run(r.t, &err), err);
            assert_int_equal(record.count, 3 * ROWS);
            for (int epoch = 0; epoch < 3; epoch++) { /* each row once an epoch */
                bool seen[ROWS] = {false};
                for (size_t i = 0; i < ROWS; i++) {
                    uint64_t row = record.row[epoch * ROWS + i];
                    assert_false(seen[row]);
                    seen[row] = true;
                }
            }
            assert_memory_not_equal(record.row, record.row + ROWS, ROWS * sizeof *record.row);
            if (seed == 0) {
                memcpy(shuffled[batch == 7], record.row, sizeof shuffled[0]);
            } else if (seed == 1) {
                assert_memory_equal(shuffled[0], record.row, sizeof shuffled[0]);
            } else {
                assert_memory_not_equal(shuffled[0], record.row, sizeof shuffled[0]);
            }
            end(&r);
        }
    }
    assert_memory_equal(shuffled[0], shuffled[1], sizeof shuffled[0]); /* whatever the batch */
}

TEST(rates_follow_the_schedule)
{
    for (int32_t schedule = 0; schedule < 4; schedule++) {
        for (int batch = 1; batch <= 7; batch += 6) {
            xsm_trainer_options options = recorded_options();
            options.batch = (uint64_t)batch;
            options.schedule = schedule;
            options.factor = 0.3;
            rig r = build("umax", "", &options);
            assert_ok(xsm_trainer_run(r.t, &err), err);
            assert_int_equal(record.count, 3 * ROWS);
            for (size_t i = 0; i < record.count; i++) {
                size_t place = i % ROWS / (size_t)batch * (size_t)batch; /* where the batch began */
                double t = (double)(i / ROWS) + (double)place / ROWS;
                double want = schedule == XSM_SCHEDULE_CONSTANT  ? 0.5
                              : schedule == XSM_SCHEDULE_STEP    ? 0.5 * pow(0.3, floor(t))
                              : schedule == XSM_SCHEDULE_INVERSE ? 0.5 / (1 + t)
                                                                 : 0.5 / sqrt(1 + t);
                assert_true(fabs(record.eta[i] - want) <= 1e-15);
            }
            xsm_progress p = XSM_PROGRESS_INIT;
            assert_ok(xsm_trainer_get_progress(r.t, &p, &err), err);
            assert_true(p.eta == record.eta[3 * ROWS - 1]);
            end(&r);
        }
    }
}

/* The rate of a long run falls below all numbers; the run ends all the same. */
TEST(rates_stay_above_zero)
{
    for (int batch = 1; batch <= 7; batch += 6) {
        xsm_trainer_options options = recorded_options();
        options.batch = (uint64_t)batch;
        options.schedule = XSM_SCHEDULE_STEP;
        options.factor = 1e-200;
        rig r = build("umax", "", &options);
        assert_ok(xsm_trainer_run(r.t, &err), err);
        assert_true(record.count == 3 * ROWS && record.eta[2 * ROWS] == DBL_MIN);
        end(&r);
    }
}

/* -- the callback -------------------------------------------------------------------------------------------------- */

TEST(callback_is_told)
{
    xsm_trainer_options options = recorded_options();
    options.batch = 7;
    options.eta = 1e-4;
    rig r = build("ove", "", &options);
    uint64_t per_epoch = (ROWS + 6) / 7;
    xsm_progress p = XSM_PROGRESS_INIT;
    assert_ok(xsm_trainer_get_progress(r.t, &p, &err), err);
    assert_true(p.step == 0 && p.epoch == 0 && p.epochs == 3 && p.steps == 3 * per_epoch && isnan(p.loss));
    assert_ok(xsm_trainer_run(r.t, &err), err);
    assert_int_equal(record.calls, 6);
    for (uint64_t i = 0; i < 6; i++) {
        const xsm_progress *told = &record.told[i];
        uint64_t epochs = (i + 1) / 2;
        assert_int_equal(told->epoch_ended, i % 2);
        assert_int_equal(told->epoch, epochs);
        assert_int_equal(told->epochs, 3);
        assert_int_equal(told->step, epochs * per_epoch);
        assert_int_equal(told->steps, 3 * per_epoch);
        assert_int_equal(told->examples, epochs * ROWS);
        assert_true(i % 2 ? told->loss > 0 : isnan(told->loss));
        assert_true(told->seconds >= 0 && (i == 0 || told->seconds >= record.told[i - 1].seconds));
        assert_true(i == 0 ? told->eta == 0 : told->eta == 1e-4);
        assert_null(told->train);
        assert_null(told->test);
    }
    /* the loss of the first epoch, at weights of about nothing: (K-1) log 2 for one-vs-each */
    assert_true(fabs(record.told[1].loss - 39 * log(2)) < 0.1);
    assert_true(record.told[5].loss < record.told[1].loss);
    assert_ok(xsm_trainer_run(r.t, &err), err); /* nothing left to do */
    assert_int_equal(record.calls, 6);
    assert_ok(xsm_trainer_get_progress(r.t, &p, &err), err);
    assert_true(p.epoch == 3 && p.step == 3 * per_epoch && p.examples == 3 * ROWS);
    end(&r);
    options.batch = UINT64_MAX; /* all rows, one step an epoch */
    r = build("softmax", "", &options);
    assert_ok(xsm_trainer_run(r.t, &err), err);
    assert_int_equal(record.told[5].step, 3);
    assert_int_equal(record.told[5].steps, 3);
    end(&r);
}

static uint64_t finished(const char *estimator, const char *settings, uint64_t batch)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_trainer_options options = recorded_options();
    options.batch = batch;
    options.schedule = XSM_SCHEDULE_INVERSE_SQRT;
    rig r = build(estimator, settings, &options);
    assert_ok(xsm_trainer_run(r.t, &err), err);
    uint64_t hash = test_hash(r.m);
    end(&r);
    return hash;
}

TEST(cancelled_runs_go_on)
{
    static const char *const kinds[][2] = {
        {"ove", "ridge=3"}, {"umax", "ridge=3"}, {"implicit", ""}, {"implicit", "ridge=3"}, {"softmax", "ridge=3"}};
    for (int kind = 0; kind < 5; kind++) {
        for (uint64_t batch = 1; batch <= (strcmp(kinds[kind][0], "implicit") == 0 ? 1u : 7u); batch += 6) {
            uint64_t want = finished(kinds[kind][0], kinds[kind][1], batch);
            xsm_trainer_options options = recorded_options();
            options.batch = batch;
            options.schedule = XSM_SCHEDULE_INVERSE_SQRT;
            for (size_t call = 1; call <= 6; call++) { /* at the start and the end of each epoch */
                rig r = build(kinds[kind][0], kinds[kind][1], &options);
                record.stop_at = call;
                assert_fails(xsm_trainer_run(r.t, &err), XSM_CANCELLED, err);
                assert_int_equal(record.calls, call);
                assert_int_equal(record.count, call / 2 * ROWS);
                assert_ok(xsm_trainer_run(r.t, &err), err);
                assert_int_equal(record.calls, 6);
                assert_int_equal(record.count, 3 * ROWS);
                assert_true(test_hash(r.m) == want);
                end(&r);
            }
            rig r = build(kinds[kind][0], kinds[kind][1], &options);
            record.stop_in_middle = true;
            record.nap = 1500; /* so that an epoch takes longer than the callback waits */
            assert_fails(xsm_trainer_run(r.t, &err), XSM_CANCELLED, err);
            assert_true(record.count > 0 && record.count < ROWS);
            xsm_progress p = XSM_PROGRESS_INIT;
            assert_ok(xsm_trainer_get_progress(r.t, &p, &err), err);
            assert_int_equal(p.examples, record.count);
            assert_int_equal(p.step, record.count / batch);
            assert_true(p.loss > 0 && p.epoch_ended == 0);
            record.nap = 0;
            assert_ok(xsm_trainer_run(r.t, &err), err);
            assert_true(test_hash(r.m) == want);
            end(&r);
        }
    }
}

/* A host may look at the weights of a run that it has stopped, and write them, and put them in another order. */
TEST(weights_may_be_read_between)
{
    for (int kind = 0; kind < 2; kind++) {
        for (int order = 0; order < 2; order++) {
            xsm_trainer_options options = recorded_options();
            options.eta = 0.02;
            rig whole = build(kind ? "ove" : "implicit", "ridge=3", &options);
            assert_ok(xsm_trainer_run(whole.t, &err), err);
            rig r = build(kind ? "ove" : "implicit", "ridge=3", &options);
            record.stop_at = 3;
            assert_fails(xsm_trainer_run(r.t, &err), XSM_CANCELLED, err);
            xsm_parameters w = XSM_PARAMETERS_INIT;
            assert_ok(xsm_model_get_parameters(r.m, &w, &err), err);
            if (order) {
                assert_ok(xsm_model_set_layout(r.m, XSM_LAYOUT_FEATURE_MAJOR, &err), err);
            }
            assert_ok(xsm_trainer_run(r.t, &err), err);
            for (uint32_t k = 0; k < CLASSES; k++) {
                for (uint32_t j = 0; j < FEATURES; j++) {
                    assert_true(fabs(test_weight(r.m, k, j) - test_weight(whole.m, k, j)) < 1e-5);
                }
            }
            end(&whole);
            end(&r);
        }
    }
}

/* -- evaluation ---------------------------------------------------------------------------------------------------- */

TEST(evaluates_every_so_often)
{
    HELD_STRUCT(test_problem, other) = test_problem_new(50, FEATURES, CLASSES, false, 9);
    for (int what = 0; what < 4; what++) {
        xsm_trainer_options options = recorded_options();
        options.epochs = 5;
        options.evaluate_every = 2;
        options.evaluate_train = what & 1 ? XSM_EVALUATE_ALL : XSM_EVALUATE_NONE;
        options.evaluate_top = 3;
        options.test = what & 2 ? other.data : NULL;
        rig r = build("softmax", "", &options);
        assert_ok(xsm_trainer_run(r.t, &err), err);
        assert_int_equal(record.calls, 10);
        for (size_t i = 0; i < 10; i++) {
            const xsm_progress *told = &record.told[i];
            bool due = told->epoch_ended && (told->epoch == 2 || told->epoch == 4 || told->epoch == 5);
            assert_true((told->train != NULL) == (due && what & 1));
            assert_true((told->test != NULL) == (due && what & 2));
        }
        TEST_METRICS(metrics, 3);
        if (what & 1) {
            assert_ok(xsm_evaluate(r.ctx, r.m, r.p.data, NULL, &metrics, &err), err);
            assert_memory_equal(&metrics, &record.train[9], offsetof(xsm_metrics, precision));
            assert_memory_equal(metrics_values, record.train_values[9], sizeof metrics_values);
            assert_true(record.train[3].log_loss > record.train[9].log_loss);
        }
        if (what & 2) {
            assert_ok(xsm_evaluate(r.ctx, r.m, other.data, NULL, &metrics, &err), err);
            assert_memory_equal(&metrics, &record.test[9], offsetof(xsm_metrics, precision));
            assert_memory_equal(metrics_values, record.test_values[9], sizeof metrics_values);
        }
        end(&r);
    }
}

/* A sample of the training rows has the same number of rows in every evaluation. */
TEST(evaluates_a_sample)
{
    xsm_trainer_options options = recorded_options();
    options.epochs = 3;
    options.evaluate_every = 1;
    options.evaluate_train = XSM_EVALUATE_SAMPLE;
    options.evaluate_top = 3;
    rig r = build("softmax", "", &options);
    assert_ok(xsm_trainer_run(r.t, &err), err);
    uint64_t rows = 0;
    for (size_t i = 0; i < record.calls; i++) {
        if (record.told[i].epoch_ended) {
            assert_true(record.train[i].rows >= 128 || record.train[i].rows == r.p.rows);
            assert_true(rows == 0 || record.train[i].rows == rows);
            rows = record.train[i].rows;
        }
    }
    assert_true(rows > 0);
    xsm_trainer *t = NULL;
    options.evaluate_train = 3;
    assert_fails(xsm_trainer_new(r.ctx, r.m, r.p.data, r.e, r.o, &options, &t, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "evaluate_train 3"));
    end(&r);
}

/* -- divergence ---------------------------------------------------------------------------------------------------- */

/* Row 1400 is so long that the step there cannot be taken; all goes well before. */
static test_problem with_long_row(uint32_t classes)
{
    test_problem p = test_problem_new(2000, FEATURES, classes, false, 3);
    for (uint32_t j = 0; j < FEATURES; j++) {
        p.x[1400 * FEATURES + j] = j % 2 ? 1e17f : -2e17f;
    }
    xsm_dataset_free(p.data);
    p.data = test_relabel(&p, false, classes, NULL, p.labels);
    return p;
}

TEST(divergence_is_named)
{
    static const char *const kinds[][2] = {{"ove", "ridge=20"}, {"umax", "ridge=20"}, {"implicit", "ridge=20"}};
    for (int kind = 0; kind < 3; kind++) {
        double distance_at_stop = 0;
        for (int way = 0; way < 4; way++) {
            uint32_t threads = way == 2 ? 3 : 1;
            xsm_trainer_options options = recorded_options();
            options.order = XSM_ORDER_FILE;
            options.batch = way == 3 && kind < 2 ? 10 : 1;
            rig r = build_on(with_long_row(20000), kinds[kind][0], kinds[kind][1], &options, threads);
            if (options.batch == 1) {
                xsmi_window_chosen(r.t->window)->mode = way == 2 ? XSMI_WINDOW_THREADS : XSMI_WINDOW_ORDER;
            }
            assert_fails(xsm_trainer_run(r.t, &err), XSM_ERROR_DIVERGED, err);
            assert_non_null(strstr(err.message, options.batch == 1 ? "step 1400 " : "step 140 "));
            assert_non_null(strstr(err.message, "epoch 1"));
            assert_non_null(strstr(err.message, kinds[kind][0]));
            assert_non_null(strstr(err.message, "smaller learning rate than 0.5"));
            xsm_progress p = XSM_PROGRESS_INIT;
            assert_ok(xsm_trainer_get_progress(r.t, &p, &err), err);
            assert_int_equal(p.examples, 1400);
            assert_fails(xsm_trainer_run(r.t, &err), XSM_ERROR_DIVERGED, err); /* and again */
            /* the model is that of 1400 steps: a run over those rows alone gives the same */
            uint64_t first[1400];
            for (uint64_t i = 0; i < 1400; i++) {
                first[i] = i;
            }
            if (way < 2) {
                double size = 0;
                for (uint32_t k = 0; k < 20000; k++) {
                    size += fabs(test_weight(r.m, k, 1));
                }
                if (way == 0) {
                    distance_at_stop = size;
                    HELD(xsm_estimator, e) = test_estimator(NULL, kinds[kind][0], kinds[kind][1]);
                    HELD(xsm_model, m) = test_model(NULL, &r.p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
                    assert_ok(xsm_estimator_bind(e, m, r.p.data, &err), err);
                    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
                    HELD(xsm_gradient, g) = test_gradient(NULL);
                    for (uint64_t i = 0; i < 1400; i++) {
                        xsm_batch batch = xsm_batch_rows(r.p.data, first + i, 1);
                        test_take_step(e, o, g, &batch, 0.5);
                    }
                    assert_true(fabs(m->w.alpha / r.m->w.alpha - 1) < 1e-12);
                    assert_true(test_hash(m) == test_hash(r.m));
                }
                assert_true(size == distance_at_stop && size > 0);
            }
            xsm_parameters w = XSM_PARAMETERS_INIT;
            assert_ok(xsm_model_get_parameters(r.m, &w, &err), err);
            for (uint32_t k = 0; k < 20000; k++) {
                for (uint32_t j = 0; j < FEATURES; j++) {
                    assert_true(fabs((double)w.weight[k * w.class_step + j]) < 1e6);
                }
                assert_true(isfinite(w.bias[k]));
            }
            end(&r);
        }
    }
}

TEST(huge_rates_end_in_divergence)
{
    static const char *const names[] = {"ove",   "umax",   "softmax",    "vanilla",
                                        "raman", "margin", "one-vs-all", "one-vs-all-sampled"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        for (uint64_t batch = 1; batch <= 7; batch += 6) {
            xsm_trainer_options options = recorded_options();
            options.epochs = 50;
            options.eta = 9e14;
            options.batch = batch;
            rig r = build(names[n], "", &options);
            xsm_status status = xsm_trainer_run(r.t, &err);
            bool bounded = n == 2 || n >= 5; /* coefficients that are shares or likelihoods */
            assert_true(status == XSM_ERROR_DIVERGED || (bounded && status == XSM_OK));
            xsm_metrics metrics = XSM_METRICS_INIT;
            assert_ok(xsm_evaluate(NULL, r.m, r.p.data, NULL, &metrics, &err), err); /* finite and usable */
            assert_true(isfinite(metrics.log_loss));
            end(&r);
        }
    }
}

/* -- changes ------------------------------------------------------------------------------------------------------- */

/* A change, between two runs or in the callback of one, of what the trainer was made with. */
typedef struct change {
    xsm_model *model;
    xsm_dataset *data;
    xsm_estimator *estimator;
    int which;
} change;

enum { GROW_FEATURES, GROW_CLASSES, GEOMETRY, SHUFFLE, UNIT, LABELS_ALONE, STREAM, CHANGES };

static void make_change(const change *c)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_transform *unit = NULL;
    switch (c->which) {
    case GROW_FEATURES:
        assert_ok(xsm_model_grow(c->model, FEATURES + 7, NULL, &err), err);
        break;
    case GROW_CLASSES: /* of both, so that they agree */
        map.classes = CLASSES + 40;
        assert_ok(xsm_model_grow(c->model, FEATURES, &map, &err), err);
        assert_ok(xsm_dataset_extend(c->data, &map, &err), err);
        break;
    case GEOMETRY:
        assert_ok(xsm_model_set_geometry(c->model, XSM_GEOMETRY_EUCLIDEAN, &err), err);
        break;
    case SHUFFLE:
        assert_ok(xsm_dataset_shuffle(c->data, 3, &err), err);
        break;
    case UNIT:
        assert_ok(xsm_transform_new(NULL, "unit", &unit, &err), err);
        assert_ok(xsm_transform_fit(unit, c->data, &err), err);
        assert_ok(xsm_transform_apply(unit, c->data, &err), err);
        xsm_transform_free(unit);
        break;
    case LABELS_ALONE:
        assert_ok(xsm_estimator_bind_labels(c->estimator, c->model, c->data, &err), err);
        break;
    default:
        assert_ok(xsm_estimator_bind_stream(c->estimator, c->model, NULL, &err), err);
    }
}

static int32_t change_once(void *user, const xsm_progress *p)
{
    change *c = user;
    if (c->which < CHANGES) {
        make_change(c);
        c->which = CHANGES;
    } else {
        c->which += p->step > 0; /* steps were taken after the change */
    }
    return 0;
}

TEST(changes_are_noticed)
{
    static const char *const names[] = {"softmax", "umax", "implicit", "mips", "nce"};
    enum { NAMES = sizeof names / sizeof *names };
    for (int i = 0; i < NAMES * 4 * CHANGES; i++) {
        const int which = i % CHANGES, inside = i / CHANGES % 2;
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, i % 3 == 0, 2);
        HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        HELD(xsm_estimator, e) = test_estimator(NULL, names[i / CHANGES / 4], "");
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        change c = {m, p.data, e, inside ? which : CHANGES + 1};
        MADE(xsm_trainer, t,
             xsm_trainer_new(NULL, m, p.data, e, o,
                             STRUCT(xsm_trainer_options, .batch = i / CHANGES / 2 % 2 ? 8 : 1, .epochs = 2, .eta = 1e-3,
                                    .progress = change_once, .progress_user = &c),
                             &t, &err));
        xsm_batch rows = xsm_batch_range(p.data, 0, 1);
        if (!inside) {
            assert_ok(xsm_trainer_run(t, &err), err);
            assert_ok(xsm_estimator_gradient(e, &rows, 1e-3, g, &err), err);
            c.which = which;
            make_change(&c);
        }
        assert_fails(xsm_trainer_run(t, &err), XSM_ERROR_STATE, err);
        if (inside) {
            assert_int_equal(c.which, CHANGES);
        }
        if (which < LABELS_ALONE) {
            rows = xsm_batch_range(p.data, 0, 1);
            assert_fails(xsm_estimator_gradient(e, &rows, 1e-3, g, &err), XSM_ERROR_STATE, err);
        }
        if (!inside && which < SHUFFLE) {
            assert_fails(xsm_optimizer_apply(o, &rows, g, 1e-3, &err), XSM_ERROR_STATE, err);
        }
    }
}

/* The callback's answer to a second run inside the first. */
static int32_t run_again(void *user, const xsm_progress *p)
{
    xsm_error err = XSM_ERROR_INIT;
    assert_fails(xsm_trainer_run(*(xsm_trainer **)user, &err), XSM_ERROR_STATE, err);
    assert_fails(xsm_trainer_resume(*(xsm_trainer **)user, test_path("start"), NULL, &err), XSM_ERROR_STATE, err);
    (void)p;
    return 0;
}

static xsm_trainer *stepping;
static bool refuses;

/* Tries in the middle of a step what would change the run. */
static xsm_status follow_and_try(void *state, const xsm_sampler_step *step, xsm_error *err)
{
    xsm_error own = XSM_ERROR_INIT;
    assert_fails(xsm_trainer_run(stepping, &own), XSM_ERROR_STATE, own);
    assert_fails(xsm_trainer_resume(stepping, test_path("start"), NULL, &own), XSM_ERROR_STATE, own);
    assert_fails(xsm_trainer_checkpoint(stepping, test_path("middle"), NULL, &own), XSM_ERROR_STATE, own);
    assert_non_null(strstr(own.message, "in the middle of a step"));
    return refuses ? xsmi_fail(err, XSM_ERROR_LIMIT, "no labels any more")
                   : xsm_sampler_find("recent")->follow(state, step, err);
}

TEST(steps_are_not_changed_within)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "importance", "");
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    xsm_sampler_ops ops = *xsm_sampler_find("recent");
    ops.follow = follow_and_try;
    MADE(xsm_sampler, s, xsm_sampler_new_from(NULL, &ops, &s, &err));
    assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
    assert_ok(
        xsm_trainer_new(NULL, m, p.data, e, o, STRUCT(xsm_trainer_options, .batch = 8, .epochs = 1), &stepping, &err),
        err);
    assert_ok(xsm_trainer_checkpoint(stepping, test_path("start"), NULL, &err), err);
    assert_ok(xsm_trainer_run(stepping, &err), err);
    assert_ok(xsm_trainer_resume(stepping, test_path("start"), NULL, &err), err);
    const uint64_t before = test_hash(m);
    refuses = true; /* what follow() returns is returned, and the step is not taken */
    assert_fails(xsm_trainer_run(stepping, &err), XSM_ERROR_LIMIT, err);
    assert_non_null(strstr(err.message, "no labels any more"));
    assert_true(test_hash(m) == before && e->position == 0);
    xsm_trainer_free(stepping);
}

TEST(runs_are_not_nested)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "umax", "");
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_trainer, t) = NULL;
    assert_ok(xsm_trainer_new(
                  NULL, m, p.data, e, o,
                  STRUCT(xsm_trainer_options, .epochs = 2, .eta = 1e-3, .progress = run_again, .progress_user = &t), &t,
                  &err),
              err);
    assert_ok(xsm_trainer_checkpoint(t, test_path("start"), NULL, &err), err);
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_progress done = XSM_PROGRESS_INIT;
    assert_ok(xsm_trainer_get_progress(t, &done, &err), err);
    assert_true(done.epoch == 2 && done.step == 2 * ROWS);
}

static int32_t free_it(void *user, const xsm_progress *p)
{
    xsm_trainer **t = user;
    if (p->epoch == 1) {
        xsm_trainer_free(*t);
        *t = NULL;
    }
    return 0;
}

TEST(callbacks_may_free_their_trainer)
{
    for (uint64_t batch = 1; batch <= 8; batch += 7) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
        xsm_model *m = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        xsm_estimator *e = test_estimator(NULL, "umax", "");
        xsm_optimizer *o = test_optimizer(NULL, m);
        xsm_trainer *t = NULL;
        assert_ok(xsm_trainer_new(NULL, m, p.data, e, o,
                                  STRUCT(xsm_trainer_options, .batch = batch, .epochs = 3, .eta = 1e-3,
                                         .progress = free_it, .progress_user = &t),
                                  &t, &err),
                  err);
        xsm_optimizer_free(o);
        xsm_estimator_free(e);
        xsm_model_free(m);
        assert_int_equal(xsm_trainer_run(t, &err), XSM_CANCELLED);
        assert_null(t);
    }
}

/* -- settings ------------------------------------------------------------------------------------------------------ */

TEST(settings_are_checked)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    HELD_STRUCT(test_problem, wide) = test_problem_new(ROWS, FEATURES + 1, CLASSES, true, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", "ridge=1");
    MADE(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    xsm_trainer *t = (xsm_trainer *)&err;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
#define REFUSE(member, value, wanted)                                                                                  \
    do {                                                                                                               \
        xsm_trainer_options bad = options;                                                                             \
        bad.member = value;                                                                                            \
        assert_fails(xsm_trainer_new(NULL, m, p.data, e, o, &bad, &t, &err), wanted, err);                             \
        assert_ptr_equal(t, (xsm_trainer *)&err);                                                                      \
    } while (0)
    REFUSE(eta, -1, XSM_ERROR_RANGE);
    REFUSE(eta, (double)NAN, XSM_ERROR_RANGE);
    REFUSE(eta, (double)INFINITY, XSM_ERROR_RANGE);
    REFUSE(eta, 1e15, XSM_ERROR_RANGE);
    REFUSE(schedule, 4, XSM_ERROR_RANGE);
    REFUSE(schedule, -1, XSM_ERROR_RANGE);
    REFUSE(order, 2, XSM_ERROR_RANGE);
    REFUSE(order, -1, XSM_ERROR_RANGE);
    REFUSE(factor, -0.1, XSM_ERROR_RANGE);
    REFUSE(factor, 1.1, XSM_ERROR_RANGE);
    REFUSE(factor, (double)NAN, XSM_ERROR_RANGE);
    REFUSE(test, wide.data, XSM_ERROR_SHAPE);
    REFUSE(size, 8, XSM_ERROR_STRUCT_OLD);
#undef REFUSE
    assert_fails(xsm_trainer_new(NULL, NULL, p.data, e, o, NULL, &t, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_trainer_new(NULL, m, NULL, e, o, NULL, &t, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_trainer_new(NULL, m, p.data, NULL, o, NULL, &t, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_trainer_new(NULL, m, p.data, e, NULL, NULL, &t, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_trainer_new(NULL, m, p.data, e, o, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_trainer_new(NULL, m, wide.data, e, o, NULL, &t, &err), XSM_ERROR_SHAPE, err);
    xsm_estimator_ops singly = *xsm_estimator_find("ove");
    singly.batch_limit = 1;
    NEW(xsm_estimator, one, xsm_estimator_new_from(NULL, &singly, &one, &err));
    xsm_trainer_options pairs = options;
    pairs.batch = 2;
    assert_fails(xsm_trainer_new(NULL, m, p.data, one, o, &pairs, &t, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_estimator_free(one);
    assert_fails(xsm_trainer_run(NULL, &err), XSM_ERROR_ARGUMENT, err);
    xsm_progress progress = XSM_PROGRESS_INIT;
    assert_fails(xsm_trainer_get_progress(NULL, &progress, &err), XSM_ERROR_ARGUMENT, err);
    assert_ok(xsm_trainer_new(NULL, m, p.data, e, o, NULL, &t, &err), err);
    assert_fails(xsm_trainer_get_progress(t, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_ok(xsm_trainer_get_progress(t, &progress, &err), err);
    assert_true(progress.epochs == 10 && progress.steps == 10 * ROWS); /* the defaults */
    /* what the trainer was made with is bound to something else */
    HELD(xsm_model, other) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    assert_ok(xsm_optimizer_bind(o, other, &err), err);
    assert_fails(xsm_trainer_run(t, &err), XSM_ERROR_STATE, err);
    assert_ok(xsm_optimizer_bind(o, m, &err), err);
    assert_ok(xsm_estimator_bind(e, other, p.data, &err), err);
    assert_fails(xsm_trainer_run(t, &err), XSM_ERROR_STATE, err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_trainer_free(t);
    xsm_trainer_free(NULL);
    /* a ridge and a rate that leave nothing of the weights */
    HELD(xsm_estimator, strong) = test_estimator(NULL, "ove", "ridge=1e30");
    assert_fails(xsm_trainer_new(NULL, m, p.data, strong, o, NULL, &t, &err), XSM_ERROR_RANGE, err);
    /* the layout is the faster one */
    assert_int_equal(test_model_info(m).layout, XSM_LAYOUT_CLASS_MAJOR);
    HELD(xsm_estimator, exact) = test_estimator(NULL, "softmax", "");
    assert_ok(xsm_trainer_new(NULL, m, p.data, exact, o, NULL, &t, &err), err);
    assert_int_equal(test_model_info(m).layout, XSM_LAYOUT_FEATURE_MAJOR);
    xsm_trainer_free(t);
}
