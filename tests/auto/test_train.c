/*
 * Tests of training in one call: the model has the bytes that the command's `train` writes, for every kind of rows and
 * way of training; the report says what the model says; what goes wrong leaves the outputs as they were.
 * $XSM_TEST_COMMAND is the command; without it no bytes are compared.
 */
#define XSM_EXPERIMENTAL /* the choice */
#include "training.h"

#include <xsoftmax.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 150, WORDS = 40, CLASSES = 5 };

static uint32_t below(uint64_t *stream, uint32_t bound)
{
    return (uint32_t)(test_uniform(stream) * bound);
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Writes row number i of some kind. Classes have words, features or values of their own, among others. */
typedef void (*write_row)(FILE *out, uint32_t i, uint64_t *stream);

static void one_label(FILE *out, uint32_t i, uint64_t *stream)
{
    const uint32_t k = i % CLASSES;
    fprintf(out, "%u %u:%.3f %u:1.5 %u:%.3f\n", k, 1 + k * 4 + below(stream, 4), 1 + test_uniform(stream),
            21 + below(stream, 9), 30 + below(stream, 10), test_uniform(stream));
}

/* The same, but every sixth label is another one: probabilities are to be calibrated. */
static void blurred(FILE *out, uint32_t i, uint64_t *stream)
{
    const uint32_t k = i % CLASSES;
    fprintf(out, "%u %u:1 %u:1\n", i % 6 == 0 ? (k + 1) % CLASSES : k, 1 + k * 4 + below(stream, 4),
            21 + below(stream, 19));
}

static void some_labels(FILE *out, uint32_t i, uint64_t *stream)
{
    const uint32_t a = below(stream, 8), b = (a + 1 + below(stream, 3)) % 8, few = i % 3;
    if (i == 0) {
        fprintf(out, "%d %d %d\n", ROWS, WORDS, 8);
    }
    fprintf(out, few ? "%u,%u %u:1 %u:0.5\n" : "%u%.0u %u:1 %u:0.5\n", a < b ? a : b, few ? (a < b ? b : a) : 0,
            (a < b ? a : b) * 3 + below(stream, 3), 24 + (few ? (a < b ? b : a) : a) + below(stream, 2));
}

static void dense(FILE *out, uint32_t i, uint64_t *stream)
{
    static const char *const names[CLASSES] = {"red", "green", "blue", "black", "white"};
    const uint32_t k = i % CLASSES;
    if (i == 0) {
        fprintf(out, "x,y,z,label\n");
    }
    fprintf(out, "%.3f,%.3f,%.3f,%s\n", cos(k) + test_uniform(stream) / 3, sin(k) + test_uniform(stream) / 3,
            test_uniform(stream), names[k]);
}

/* Its endings tell the class, not its words. */
static void text(FILE *out, uint32_t i, uint64_t *stream)
{
    static const char *const ends[CLASSES] = {"ava", "ine", "osu", "uyo", "eck"};
    const uint32_t k = i % CLASSES;
    fprintf(out, "__label__%s s%up%s t%ur%s and\n", ends[k], below(stream, 500), ends[k], below(stream, 500), ends[k]);
}

/* Labels by chance. */
static void noise(FILE *out, uint32_t i, uint64_t *stream)
{
    (void)i;
    fprintf(out, "%u %u:1 %u:1\n", below(stream, 2) * below(stream, 4), 1 + below(stream, 20), 21 + below(stream, 20));
}

/* A file of rows; the path is valid until another one has the name. */
static const char *rows_file(const char *name, write_row write, uint32_t first, uint32_t count, uint64_t seed)
{
    HELD_MEMORY(char, bytes) = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    assert_non_null(out);
    uint64_t stream = seed;
    for (uint32_t i = first; i < first + count; i++) {
        write(out, i, &stream);
    }
    assert_int_equal(fclose(out), 0);
    const char *path = test_file(name, bytes, size);
    return path;
}

/* As the command reads rows whose n-grams it chooses. */
static xsm_dataset *read_rows(xsm_context *ctx, const char *path, const xsm_class_map *like)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_read_options o = XSM_READ_OPTIONS_INIT;
    xsm_text_options pairs = XSM_TEXT_OPTIONS_INIT;
    pairs.word_ngrams = 2;
    o.text = like ? NULL : &pairs;
    o.classes = like;
    NEW(xsm_dataset, d, xsm_dataset_read(ctx, path, NULL, &o, &d, &err));
    return d;
}

/* -- the command's bytes ------------------------------------------------------------------------------------------- */

/* Runs `xsoftmax train --data PATH --model OUT FLAGS...`, quietly. */
static void run_command(const char *command, const char *path, const char *out, const char *const *flags)
{
    const char *arguments[24] = {command, "train", "--data", path, "--model", out, "--no-evaluate", "--threads", "2"};
    size_t count = 9;
    for (size_t i = 0; flags && flags[i]; i++) {
        arguments[count++] = flags[i];
    }
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr)) {
            execv(command, (char *const *)(uintptr_t)arguments);
        }
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Trains on a file by one call on 1 and 3 threads, and by the command. */
static void same_bytes(write_row write, const xsm_train_options *options, const char *const *flags,
                       xsm_train_report *report)
{
    xsm_error err = XSM_ERROR_INIT;
    const char *path = rows_file("rows", write, 0, ROWS, 7);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
        HELD(xsm_dataset, d) = read_rows(ctx, path, NULL);
        HELD(xsm_model, m) = NULL;
        assert_ok(xsm_train(ctx, d, options, &m, report, &err), err);
        const char *name = xsm_model_get_metadata(m, report->optimizer ? "estimator" : "method");
        assert_string_equal(report->method, name);
        assert_int_equal(report->rows, ROWS);
        assert_true(report->seconds >= report->train_seconds && report->train_seconds > 0);
        assert_ok(xsm_model_save(m, test_path(threads == 1 ? "one" : "three"), NULL, &err), err);
        assert_string_equal(report->transform, test_model_info(m).transform);
        assert_int_equal(report->is_prior, strcmp(report->transform, "truncate=0") == 0); /* features say nothing */
        report->method = report->optimizer = report->transform = "";                      /* the model's */
    }
    HELD_MEMORY(char, one) = strdup(test_path("one"));
    assert_non_null(one);
    test_assert_same_file(test_path("three"), one);
    const char *command = getenv("XSM_TEST_COMMAND");
    if (command) {
        run_command(command, path, test_path("command"), flags);
        test_assert_same_file(test_path("command"), one);
    }
}

TEST(of_what_is_chosen)
{
    static const write_row kinds[] = {one_label, some_labels, dense, text, noise};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        xsm_train_report report = XSM_TRAIN_REPORT_INIT;
        same_bytes(kinds[i], NULL, NULL, &report);
        assert_true(report.trials > 0 && report.held > 0 && report.choose_seconds > 0 && !report.spent);
        assert_int_equal(report.measure, kinds[i] == some_labels ? XSM_MEASURE_NDCG : XSM_MEASURE_LOG_LOSS);
        assert_true(kinds[i] == noise || report.precision > (kinds[i] == some_labels ? 0.3 : 0.8));
        assert_int_equal(report.max_chars > 0, kinds[i] == text); /* endings are no words */
    }
}

TEST(of_what_is_named)
{
    xsm_train_report report = XSM_TRAIN_REPORT_INIT;
    xsm_train_options o = XSM_TRAIN_OPTIONS_INIT;
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    o.run = &run;
    o.seed = 3;
    o.method = "label-tree";
    same_bytes(some_labels, &o, (const char *[]){"--method", "label-tree", "--seed", "3", NULL}, &report);
    assert_int_equal(report.trees, 1);
    o.method = "class-means";
    same_bytes(dense, &o, (const char *[]){"--method", "class-means", "--seed", "3", NULL}, &report);
    assert_true(isnan(report.loss) && report.trials == 0 && report.eta == 0);
    o.method = "one-vs-all-sampled"; /* has a sampler, and its rate is tried out */
    o.transform = "unit";
    run.epochs = 4;
    same_bytes(some_labels, &o,
               (const char *[]){"--estimator", "one-vs-all-sampled", "--transform", "unit", "--epochs", "4", "--seed",
                                "3", NULL},
               &report);
    assert_true(report.eta > 0 && report.trials > 0 && report.epochs == 4);
    o.method = "implicit";
    o.transform = NULL;
    o.keep_schedule = o.keep_ridge = 1;
    o.ridge = 0.125;
    run.eta = 0.5;
    run.schedule = XSM_SCHEDULE_INVERSE;
    same_bytes(one_label, &o,
               (const char *[]){"--estimator", "implicit", "--eta", "0.5", "--epochs", "4", "--seed", "3", "--schedule",
                                "inverse", "--ridge", "0.125", NULL},
               &report);
    assert_true(report.eta == 0.5 && report.ridge == 0.125 && report.schedule == XSM_SCHEDULE_INVERSE);
    assert_true(report.factor == 0 && report.steps == 4 * ROWS);
    if (test_has_lbfgs()) {
        o = (xsm_train_options)XSM_TRAIN_OPTIONS_INIT;
        o.method = "softmax";
        o.optimizer = "lbfgs";
        o.keep_ridge = 1;
        o.ridge = 1;
        same_bytes(one_label, &o,
                   (const char *[]){"--estimator", "softmax", "--optimizer", "lbfgs", "--ridge", "1", NULL}, &report);
        assert_true(report.epochs > 1 && report.steps == 0);
    }
}

/* -- other rows ---------------------------------------------------------------------------------------------------- */

/* Test rows get the model's transform, and their measures are those of xsm_evaluate(); rows to calibrate by leave the
 * model that xsm_model_calibrate() makes of the one without. */
TEST(with_rows_beside)
{
    HELD_MEMORY(char, train_path) = strdup(rows_file("train", blurred, 0, ROWS, 7));
    HELD_MEMORY(char, test_rows) = strdup(rows_file("test", blurred, 0, ROWS, 8));
    xsm_model *models[2] = {NULL, NULL};
    TEST_METRICS(metrics, 3);
    TEST_METRICS(again, 3);
    for (int calibrated = 0; calibrated <= 1; calibrated++) {
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        xsm_train_options o = XSM_TRAIN_OPTIONS_INIT;
        xsm_train_report report = XSM_TRAIN_REPORT_INIT;
        HELD(xsm_dataset, train) = read_rows(NULL, train_path, NULL);
        assert_ok(xsm_dataset_get_class_map(train, &map, &err), err);
        o.test = read_rows(NULL, test_rows, &map);
        o.calibrate = calibrated ? read_rows(NULL, test_rows, &map) : NULL;
        report.test = &metrics;
        assert_ok(xsm_train(NULL, train, &o, &models[calibrated], &report, &err), err);
        assert_ok(xsm_evaluate(NULL, models[calibrated], o.test, NULL, &again, &err), err);
        assert_true(metrics.rows == ROWS && metrics.error < 0.4 && metrics.error == again.error);
        assert_true(metrics.log_loss == again.log_loss && metrics.precision[2] == again.precision[2]);
        assert_int_equal(report.temperature == 1, calibrated);
        if (!calibrated) { /* the temperature of the trials mends probabilities of rows that they never saw */
            assert_ok(xsm_model_set_metadata(models[0], "training.temperature", NULL, &err), err);
            assert_ok(xsm_model_set_calibration(models[0], NULL, &err), err);
            assert_ok(xsm_evaluate(NULL, models[0], o.test, NULL, &again, &err), err);
            assert_true(metrics.log_loss < again.log_loss && metrics.error == again.error);
        }
        if (calibrated) {
            assert_ok(xsm_model_calibrate(NULL, models[0], o.calibrate, NULL, NULL, &err), err);
        }
        xsm_dataset_free(o.calibrate);
        xsm_dataset_free(o.test);
    }
    assert_ok(xsm_model_save(models[0], test_path("apart"), NULL, &err), err);
    assert_ok(xsm_model_save(models[1], test_path("within"), NULL, &err), err);
    char *apart = strdup(test_path("apart"));
    test_assert_same_file(test_path("within"), apart);
    free(apart);
    xsm_model_free(models[0]);
    xsm_model_free(models[1]);
}

/* A model goes on with rows that have a class more: as a trainer does on what has grown. */
TEST(from_a_model)
{
    const char *first = "0 1:1 2:1\n1 2:1 3:1\n0 1:2\n1 3:2\n", *more = "2 1:1 4:1\n0 1:1\n1 3:1\n";
    xsm_model *models[2] = {NULL, NULL};
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    run.epochs = 3;
    run.eta = 0.25;
    run.seed = 1;
    for (size_t by_hand = 0; by_hand <= 1; by_hand++) {
        xsm_train_options o = XSM_TRAIN_OPTIONS_INIT;
        xsm_train_report report = XSM_TRAIN_REPORT_INIT;
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        xsm_read_options like = XSM_READ_OPTIONS_INIT;
        xsm_model *m = NULL;
        MADE(xsm_dataset, old,
             xsm_dataset_read(NULL, test_file("first", first, strlen(first)), NULL, NULL, &old, &err));
        o.method = "softmax";
        o.run = &run;
        assert_ok(xsm_train(NULL, old, &o, &m, NULL, &err), err);
        assert_ok(xsm_model_get_class_map(m, &map, &err), err);
        like.classes = &map;
        like.new_labels = like.new_features = 1;
        MADE(xsm_dataset, rows,
             xsm_dataset_read(NULL, test_file("more", more, strlen(more)), NULL, &like, &rows, &err));
        if (by_hand) {
            HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "seed=1");
            run.schedule = XSM_SCHEDULE_STEP;
            assert_ok(xsm_dataset_extend(rows, &map, &err), err);
            assert_ok(xsm_dataset_get_class_map(rows, &map, &err), err);
            assert_ok(xsm_model_grow(m, 4, &map, &err), err);
            MADE(xsm_optimizer, optimizer, xsm_optimizer_new(NULL, "sgd", &optimizer, &err));
            MADE(xsm_trainer, trainer, xsm_trainer_new(NULL, m, rows, e, optimizer, &run, &trainer, &err));
            assert_ok(xsm_trainer_run(trainer, &err), err);
        } else {
            o.start = m;
            xsm_model *out = NULL;
            const uint64_t before = test_hash(m);
            o.optimizer = "sdg"; /* what is wrong is found before the model changes */
            assert_fails(xsm_train(NULL, rows, &o, &out, NULL, &err), XSM_ERROR_NAME, err);
            o.optimizer = "adagrad";
            o.keep_ridge = 1;
            o.ridge = 0.5;
            assert_fails(xsm_train(NULL, rows, &o, &out, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
            o.method = "negative-sampling";
            o.optimizer = "lbfgs";
            assert_fails(xsm_train(NULL, rows, &o, &out, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
            o.method = "softmax";
            o.optimizer = NULL;
            run.evaluate_top = UINT32_MAX;
            assert_fails(xsm_train(NULL, rows, &o, &out, NULL, &err), XSM_ERROR_RANGE, err);
            run.evaluate_top = 0;
            o.keep_ridge = 0;
            assert_true(test_hash(m) == before && xsm_model_class_count(m) == 2);
            assert_ok(xsm_train(NULL, rows, &o, &out, &report, &err), err);
            assert_ptr_equal(out, m);
            xsm_model_free(out);
            assert_int_equal(report.rows, 3);
            assert_string_equal(xsm_model_get_metadata(m, "training.examples"), "3");
        }
        assert_int_equal(xsm_model_class_count(m), 3);
        assert_int_equal(xsm_model_feature_count(m), 4);
        models[by_hand] = m;
    }
    assert_true(test_hash(models[0]) == test_hash(models[1]));
    xsm_model_free(models[0]);
    xsm_model_free(models[1]);
}

TEST(leaves_the_estimator_of_the_caller)
{
    char ridge[8];
    HELD(xsm_dataset, d) = read_rows(NULL, rows_file("rows", one_label, 0, ROWS, 7), NULL);
    HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "ridge=0.25");
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    xsm_train_options o = XSM_TRAIN_OPTIONS_INIT;
    xsm_train_report report = XSM_TRAIN_REPORT_INIT;
    HELD(xsm_model, m) = NULL;
    run.eta = 0.25;
    run.epochs = 1;
    o.run = &run;
    o.estimator = e;
    o.keep_ridge = 1;
    o.ridge = 0.5;
    assert_ok(xsm_train(NULL, d, &o, &m, &report, &err), err);
    assert_true(report.ridge == 0.5);
    assert_int_equal(xsm_estimator_get(e, "ridge", ridge, sizeof ridge), 4);
    assert_string_equal(ridge, "0.25");
    HELD(xsm_model, same) = NULL;
    o.start = m;
    o.optimizer = "lbfgs";
    assert_ok(xsm_train(NULL, d, &o, &same, NULL, &err), err);
}

/* -- what ends a call ---------------------------------------------------------------------------------------------- */

TEST(refuses)
{
    HELD(xsm_dataset, d) = read_rows(NULL, rows_file("rows", one_label, 0, ROWS, 7), NULL);
    xsm_dataset *other = NULL;
    xsm_model *m = NULL;
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    xsm_train_report report = XSM_TRAIN_REPORT_INIT;
    memset((char *)&report + sizeof report.size, 0x41, sizeof report - sizeof report.size);
    report.test = NULL;
    const xsm_train_report before = report;
    const struct {
        xsm_train_options options;
        xsm_status status;
        const char *says;
    } cases[] = {
        {{.method = "softmaks"}, XSM_ERROR_NAME, "softmax"},
        {{.method = "softmax", .optimizer = "sdg"}, XSM_ERROR_NAME, "sgd"},
        {{.method = "label-tree", .optimizer = "sgd"}, XSM_ERROR_ARGUMENT, "label-tree and class-means have no"},
        {{.method = "class-means", .seconds = 1}, XSM_ERROR_ARGUMENT, "time budget"},
        {{.label_tree = &(xsm_label_tree_options)XSM_LABEL_TREE_OPTIONS_INIT}, XSM_ERROR_ARGUMENT, "label_tree"},
        {{.seconds = -1}, XSM_ERROR_RANGE, "seconds"},
        {{.seconds = (double)INFINITY}, XSM_ERROR_RANGE, "seconds"},
        {{.ridge = -1, .keep_ridge = 1}, XSM_ERROR_RANGE, "ridge"},
        {{.keep_ngrams = 2}, XSM_ERROR_RANGE, "keep_ngrams"},
        {{.seed = UINT64_MAX}, XSM_ERROR_RANGE, "seed"},
        {{.measure = 9}, XSM_ERROR_RANGE, "measure"},
        {{.method = "softmax", .measure = 9}, XSM_ERROR_RANGE, "measure"}, /* also where nothing is chosen */
        {{.method = "softmax", .measure_top = 101}, XSM_ERROR_RANGE, "measure_top"},
        {{.transform = "unti"}, XSM_ERROR_NAME, "unit"},
        {{.test = d}, XSM_ERROR_ARGUMENT, "test"},
        {{.reserved = 1}, XSM_ERROR_STRUCT_NEW, "reserved"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xsm_train_options o = cases[i].options;
        o.size = sizeof o;
        assert_fails(xsm_train(NULL, d, &o, &m, &report, &err), cases[i].status, err);
        if (!strstr(err.message, cases[i].says)) {
            fail_msg("case %zu says nothing of %s: %s", i, cases[i].says, err.message);
        }
        assert_null(m);
        assert_memory_equal(&report, &before, sizeof report);
    }
    xsm_train_options o = XSM_TRAIN_OPTIONS_INIT;
    assert_fails(xsm_train(NULL, NULL, NULL, &m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_train(NULL, d, NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    other = read_rows(NULL, test_file("other", TEXT("1 1:1\n")), NULL);
    o.test = other;
    assert_fails(xsm_train(NULL, d, &o, &m, NULL, &err), XSM_ERROR_SHAPE, err);
    o = (xsm_train_options)XSM_TRAIN_OPTIONS_INIT;
    assert_ok(xsm_model_new_linear(NULL, 39, CLASSES, NULL, &o.start, &err), err);
    assert_fails(xsm_train(NULL, d, &o, &m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    o.method = "softmax";
    assert_fails(xsm_train(NULL, d, &o, &m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "eta"));
    run.eta = 1;
    o.run = &run;
    o.transform = "unit";
    assert_fails(xsm_train(NULL, d, &o, &m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    xsm_model_free(o.start);
    xsm_dataset_free(other);
    other = read_rows(NULL, test_file("empty", TEXT("1:1\n2:1\n")), NULL);
    assert_fails(xsm_train(NULL, other, NULL, &m, NULL, &err), XSM_ERROR_DATA, err);
    xsm_dataset_free(other);
    o = (xsm_train_options)XSM_TRAIN_OPTIONS_INIT; /* rows that a call has transformed are not taken again */
    o.method = "label-tree";
    assert_ok(xsm_train(NULL, d, &o, &m, NULL, &err), err);
    xsm_model_free(m);
    m = NULL;
    assert_fails(xsm_train(NULL, d, &o, &m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_null(m);
}

/* Every fourth row follows one with labels and values that no other has, and one without a label. */
static void beside_odd(FILE *out, uint32_t i, uint64_t *stream)
{
    fputs(i % 4 == 0 ? "8,9 1:1e6 39:-1e6\n 2:1e6\n" : "", out);
    one_label(out, i, stream);
}

static void weights(FILE *out, uint32_t i, uint64_t *stream)
{
    (void)stream;
    fputs(i % 4 == 0 ? "0\n1\n1\n" : "1\n", out);
}

/* Rows of weight 0 or without a label change neither the choice nor the model, whatever they have. */
TEST(drops_rows_that_say_nothing)
{
    char *all = strdup(rows_file("all", beside_odd, 0, ROWS, 7)),
         *some = strdup(rows_file("some", one_label, 0, ROWS, 7));
    HELD_MEMORY(char, weigh) = strdup(rows_file("weights", weights, 0, ROWS, 7));
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_read_options with = XSM_READ_OPTIONS_INIT;
    with.weights_path = weigh;
    xsm_dataset *rows[2] = {NULL, NULL};
    xsm_train_report reports[2] = {XSM_TRAIN_REPORT_INIT, XSM_TRAIN_REPORT_INIT};
    assert_ok(xsm_dataset_read(NULL, all, NULL, &with, &rows[0], &err), err);
    assert_ok(xsm_dataset_get_class_map(rows[0], &map, &err), err);
    rows[1] = read_rows(NULL, some, &map);
    xsm_choice_info chosen[2] = {XSM_CHOICE_INFO_INIT, XSM_CHOICE_INFO_INIT};
    for (size_t i = 0; i < 2; i++) {
        xsm_dataset *labelled = i ? rows[1] : NULL;
        assert_ok(i ? XSM_OK : xsm_dataset_read(NULL, all, NULL, &with, &labelled, &err), err);
        assert_ok(xsm_dataset_drop(labelled, XSM_DROP_UNLABELLED, NULL, &err), err);
        NEW(xsm_choice, choice, xsm_choose(NULL, labelled, NULL, &choice, &err));
        assert_ok(xsm_choice_get_info(choice, &chosen[i], &err), err);
        xsm_choice_free(choice);
        xsm_dataset_free(i ? NULL : labelled);
    }
    assert_true(chosen[0].eta == chosen[1].eta && chosen[0].loss == chosen[1].loss);
    for (size_t i = 0; i < 2; i++) {
        xsm_model *m = NULL;
        assert_ok(xsm_train(NULL, rows[i], NULL, &m, &reports[i], &err), err);
        assert_ok(xsm_model_save(m, test_path(i ? "alone" : "among"), NULL, &err), err);
        assert_true(reports[i].rows == ROWS && reports[i].measure == XSM_MEASURE_LOG_LOSS);
        xsm_model_free(m);
        xsm_dataset_free(rows[i]);
    }
    assert_true(reports[0].dropped == 2 * ((ROWS + 3) / 4) && reports[1].dropped == 0);
    assert_true(reports[0].trials == reports[1].trials && reports[0].loss == reports[1].loss);
    char *alone = strdup(test_path("alone"));
    test_assert_same_file(test_path("among"), alone);
    const char *command = getenv("XSM_TEST_COMMAND");
    if (command) {
        run_command(command, all, test_path("among"), (const char *[]){"--weights", weigh, NULL});
        run_command(command, some, alone, NULL);
        test_assert_same_file(test_path("among"), alone);
    }
    free(alone);
    free(all);
    free(some);
}

typedef struct call {
    const char *path;
    const xsm_train_options *options;
} call;

static xsm_status train_once(void *state, xsm_context *ctx, xsm_error *err)
{
    const call *c = state;
    HELD(xsm_dataset, d) = NULL;
    HELD(xsm_model, m) = NULL;
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    xsm_status status = xsm_dataset_read(ctx, c->path, NULL, &read, &d, err);
    status = status == XSM_OK ? xsm_train(ctx, d, c->options, &m, NULL, err) : status;
    assert_true((m != NULL) == (status == XSM_OK));
    return status;
}

TEST(is_cancelled_by_the_hook)
{
    xsm_train_options named = XSM_TRAIN_OPTIONS_INIT;
    call c = {rows_file("rows", text, 0, 60, 7), NULL};
    test_every_poll(train_once, &c, 1, 5, "choosing a way to train,training");
    named.method = "softmax"; /* a rate is tried out, and a run follows */
    c.options = &named;
    test_every_poll(train_once, &c, 3, 1, "training");
}

TEST(lacks_memory)
{
    xsm_train_options named = XSM_TRAIN_OPTIONS_INIT;
    named.method = "one-vs-all";
    call c = {rows_file("rows", one_label, 0, 12, 7), &named};
    assert_true(test_every_allocation(train_once, &c) > 50);
}

static int32_t stop_at_two(void *user, const xsm_progress *progress)
{
    ++*(uint64_t *)user;
    return progress->epoch >= 2;
}

TEST(is_cancelled_by_the_callback)
{
    uint64_t calls = 0;
    HELD(xsm_dataset, d) = read_rows(NULL, rows_file("rows", one_label, 0, ROWS, 7), NULL);
    xsm_trainer_options run = XSM_TRAINER_OPTIONS_INIT;
    xsm_train_options o = XSM_TRAIN_OPTIONS_INIT;
    xsm_train_report report = XSM_TRAIN_REPORT_INIT;
    HELD(xsm_model, m) = NULL;
    run.eta = 1;
    run.progress = stop_at_two;
    run.progress_user = &calls;
    o.method = "softmax";
    o.run = &run;
    assert_fails(xsm_train(NULL, d, &o, &m, &report, &err), XSM_CANCELLED, err);
    assert_true(!m && calls >= 3 && report.rows == 0);
    /* A budget ends a run, too, and keeps what there is. */
    run.progress = NULL;
    run.epochs = 1000000000;
    o.seconds = 0.3;
    assert_ok(xsm_train(NULL, d, &o, &m, &report, &err), err);
    assert_true(m && report.spent == 1 && report.epochs < run.epochs && report.seconds >= 0.3);
}
