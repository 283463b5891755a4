/*
 * Tests of models that get classes and features: old classes score the same bits, whatever the layout, the scales and
 * their new numbers; new classes score their bias of zero; estimators and optimizers must be bound again.
 */
#include "training.h"

#include "model/model.h"

#include <xsoftmax/trainer.h>

#include <math.h>
#include <string.h>

enum { CLASSES = 23, FEATURES = 11, WIDER = 17, MORE = 40, ROWS = 50 };

/* A model with scales of its own, trained on classes 0..22 with labels 3, 10, 17, ... */
static xsm_model *trained(const test_problem *p, const char *estimator, bool bias, const int64_t *labels)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(NULL, p, bias, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, estimator, "ridge=3");
    assert_ok(xsm_model_set_class_map(m, STRUCT(xsm_class_map, .classes = CLASSES, .labels = labels), &err), err);
    assert_ok(xsm_model_set_metadata(m, "origin", "here", &err), err);
    NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    NEW(xsm_trainer, t, xsm_trainer_new(NULL, m, p->data, e, o, NULL, &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    return m;
}

TEST(what_was_there_stays)
{
    static float before[ROWS * CLASSES], after[ROWS * MORE];
    static const char *const kinds[] = {"implicit", "umax", "softmax"};
    int64_t labels[CLASSES], all[MORE];
    uint64_t counts[MORE];
    uint32_t count = 0;
    for (int k = 0; k < CLASSES; k++) { /* a new class before every other one, and one behind all */
        labels[k] = 3 + 7 * k;
        if (k % 2 == 0) {
            all[count++] = labels[k] - 2;
        }
        all[count++] = labels[k];
    }
    all[count++] = 1000;
    for (uint32_t k = 0; k < count; k++) {
        counts[k] = k;
    }
    for (int bits = 0; bits < 3 * 8; bits++) {
        bool sparse = bits & 1, mapped = bits & 2, bias = bits & 4;
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 3);
        xsm_model *m = trained(&p, kinds[bits / 8], bias, labels);
        assert_true(m->w.alpha != 1 || m->w.row_scale);
        test_all_scores(m, p.data, before);
        if (mapped) {
            const char *path = test_path("model");
            assert_ok(xsm_model_save(m, path, NULL, &err), err);
            xsm_model_free(m);
            m = NULL;
            assert_ok(xsm_model_load(NULL, path, NULL, NULL, &m, &err), err);
            test_all_scores(m, p.data, before);
        }
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        map.classes = count;
        map.labels = all;
        map.counts = counts;
        map.rows = 1000;
        int32_t layout = test_model_info(m).layout;
        assert_ok(xsm_model_grow(m, WIDER, &map, &err), err);
        assert_int_equal(test_model_info(m).layout, layout);
        assert_int_equal(xsm_model_class_count(m), map.classes);
        assert_int_equal(xsm_model_feature_count(m), WIDER);
        assert_string_equal(xsm_model_get_metadata(m, "origin"), "here");
        xsm_class_map own = XSM_CLASS_MAP_INIT;
        assert_ok(xsm_model_get_class_map(m, &own, &err), err);
        assert_memory_equal(own.labels, all, map.classes * sizeof *all);
        assert_int_equal(own.rows, 1000);
        /* The same rows, with features of zero behind. */
        float x[ROWS * WIDER] = {0};
        for (int i = 0; i < ROWS; i++) {
            memcpy(x + i * WIDER, p.x + i * FEATURES, FEATURES * sizeof *x);
            x[i * WIDER + FEATURES] = 5; /* but for one: new features weigh nothing */
        }
        NEW(xsm_dataset, wide,
            xsm_dataset_from_dense(NULL, STRUCT(xsm_dense_rows, .values = x, .rows = ROWS, .features = WIDER), &wide,
                                   &err));
        test_all_scores(m, wide, after);
        for (int i = 0; i < ROWS; i++) {
            uint32_t old = 0;
            for (uint32_t k = 0; k < map.classes; k++) {
                float score = after[(uint32_t)i * map.classes + k];
                if (old < CLASSES && all[k] == labels[old]) {
                    float was = before[i * CLASSES + (int)old++];
                    assert_true(fabsf(score - was) <= 1e-5f * (1 + fabsf(was))); /* sums of other lengths */
                } else {
                    assert_true(score == 0);
                }
            }
            assert_int_equal(old, CLASSES);
        }
        xsm_dataset_free(wide);
        xsm_model_free(m);
    }
}

/* Numbers of training rows that a file holds, and no others. */
TEST(counts_are_those_a_file_holds)
{
    static const struct {
        uint64_t counts[2], rows;
        xsm_status set, grown; /* grown: by as many rows again */
    } cases[] = {
        {{0, 0}, 0, XSM_ERROR_RANGE, XSM_OK},
        {{0, 0}, 1, XSM_OK, XSM_OK},
        {{3, 5}, 4, XSM_ERROR_RANGE, XSM_OK},
        {{INT64_MAX / 2, 0}, INT64_MAX / 2, XSM_OK, XSM_OK},
        {{INT64_MAX / 2 + 1, 0}, INT64_MAX / 2 + 1, XSM_OK, XSM_ERROR_RANGE},
        {{INT64_MAX, INT64_MAX}, INT64_MAX, XSM_OK, XSM_ERROR_RANGE},
        {{0, 0}, (uint64_t)INT64_MAX + 1, XSM_ERROR_RANGE, XSM_OK},
        {{1, 1}, UINT64_MAX, XSM_ERROR_RANGE, XSM_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        HELD(xsm_model, loaded) = NULL;
        MADE(xsm_model, m, xsm_model_new_linear(NULL, 3, 2, NULL, &m, &err));
        xsm_class_map map = XSM_CLASS_MAP_INIT, own = XSM_CLASS_MAP_INIT;
        map.classes = 2;
        map.counts = cases[i].counts;
        map.rows = cases[i].rows;
        assert_int_equal(xsm_model_set_class_map(m, &map, &err), cases[i].set);
        if (cases[i].set == XSM_OK) {
            const uint64_t more[] = {cases[i].counts[0], cases[i].counts[1], 0};
            map.classes = 3;
            map.counts = more;
            const xsm_status status = xsm_model_grow(m, 3, &map, &err);
            assert_int_equal(status, cases[i].grown);
            assert_ok(xsm_model_save(m, test_path("counts"), NULL, &err), err);
            assert_ok(xsm_model_load(NULL, test_path("counts"), NULL, NULL, &loaded, &err), err);
            assert_ok(xsm_model_get_class_map(loaded, &own, &err), err);
            const uint64_t times = status == XSM_OK ? 2 : 1;
            assert_int_equal(own.classes, status == XSM_OK ? 3 : 2);
            assert_int_equal(own.rows, times * cases[i].rows);
            assert_int_equal(own.counts[0], times * cases[i].counts[0]);
            assert_int_equal(own.counts[1], times * cases[i].counts[1]);
        }
    }
}

/* Without new features, bit by bit; and classes at the end, without labels. */
TEST(classes_alone)
{
    static float before[ROWS * CLASSES], after[ROWS * MORE];
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 3);
        HELD(xsm_model, m) = trained(&p, sparse ? "softmax" : "implicit", true, NULL);
        test_all_scores(m, p.data, before);
        assert_ok(xsm_model_grow(m, FEATURES, STRUCT(xsm_class_map, .classes = MORE), &err), err);
        test_all_scores(m, p.data, after);
        for (int i = 0; i < ROWS; i++) {
            assert_memory_equal(before + i * CLASSES, after + i * MORE, CLASSES * sizeof *before);
            for (int k = CLASSES; k < MORE; k++) {
                assert_true(after[i * MORE + k] == 0);
            }
        }
        /* nothing new: nothing changes */
        uint64_t hash = test_hash(m);
        assert_ok(xsm_model_grow(m, FEATURES, NULL, &err), err);
        assert_true(test_hash(m) == hash);
    }
}

/* Who was bound to the model before is told to bind again, and then trains it on. */
TEST(training_goes_on)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    HELD_STRUCT(test_problem, q) = test_problem_new(ROWS, FEATURES, MORE, true, 4);
    for (int kind = 0; kind < 2; kind++) {
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        HELD(xsm_estimator, e) = test_estimator(NULL, kind ? "softmax" : "umax", "");
        HELD(xsm_gradient, g) = test_gradient(NULL);
        MADE(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
        NEW(xsm_trainer, t, xsm_trainer_new(NULL, m, p.data, e, o, NULL, &t, &err));
        assert_ok(xsm_trainer_run(t, &err), err);
        assert_ok(xsm_model_grow(m, FEATURES, STRUCT(xsm_class_map, .classes = MORE), &err), err);
        xsm_batch batch = xsm_batch_range(p.data, 0, 1);
        assert_fails(xsm_estimator_gradient(e, &batch, 0.1, g, &err), XSM_ERROR_STATE, err);
        assert_fails(xsm_trainer_run(t, &err), XSM_ERROR_STATE, err);
        assert_fails(xsm_trainer_checkpoint(t, test_path("c"), NULL, &err), XSM_ERROR_STATE, err);
        xsm_trainer_free(t);
        t = NULL;
        xsm_metrics before = XSM_METRICS_INIT, after = XSM_METRICS_INIT;
        assert_ok(xsm_evaluate(NULL, m, q.data, NULL, &before, &err), err);
        assert_ok(xsm_trainer_new(NULL, m, q.data, e, o, STRUCT(xsm_trainer_options, .eta = 0.05), &t, &err), err);
        assert_ok(xsm_trainer_run(t, &err), err);
        assert_ok(xsm_evaluate(NULL, m, q.data, NULL, &after, &err), err);
        assert_true(after.log_loss < before.log_loss);
        xsm_trainer_free(t);
    }
}

/* -- datasets ------------------------------------------------------------------------------------------------------ */

TEST(datasets_get_classes)
{
    static const char text[] = "5 0:1\n9 1:1\n2 2:1\n";
    static const int64_t labels[] = {1, 5, 7}, union_of[] = {1, 2, 5, 7, 9};
    static const char *const names[] = {"one", "five", "seven"}, *const all_names[] = {"one", "2", "five", "seven",
                                                                                       "9"};
    MADE(xsm_dataset, d, xsm_dataset_read(NULL, test_file("rows", text, sizeof text - 1), NULL, NULL, &d, &err));
    xsm_class_map map = XSM_CLASS_MAP_INIT, own = XSM_CLASS_MAP_INIT;
    map.classes = 3;
    map.features = 8;
    map.labels = labels;
    map.names = names;
    assert_ok(xsm_dataset_extend(d, &map, &err), err);
    assert_ok(xsm_dataset_get_class_map(d, &own, &err), err);
    assert_int_equal(own.classes, 5);
    assert_int_equal(own.features, 8);
    assert_memory_equal(own.labels, union_of, sizeof union_of);
    for (int k = 0; k < 5; k++) {
        assert_string_equal(own.names[k], all_names[k]);
        assert_int_equal(own.counts[k], k == 1 || k == 2 || k == 4);
    }
    static const uint32_t wanted[] = {2, 4, 1};
    for (uint64_t i = 0; i < 3; i++) {
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(d, i, &row, &err), err);
        assert_int_equal(row.labels[0], wanted[i]);
    }
    static const int64_t falling[] = {1, 5, 5};
    map.labels = falling;
    assert_fails(xsm_dataset_extend(d, &map, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_dataset_extend(d, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_extend(NULL, &map, &err), XSM_ERROR_ARGUMENT, err);
}

/* Words are matched as words: the map's keep their numbers. */
TEST(words_get_classes)
{
    static const char text[] = "label,a\npear,1\napple,2\nfig,3\n";
    static const char *const names[] = {"fig", "cherry"}, *const all_names[] = {"fig", "cherry", "apple", "pear"};
    MADE(xsm_dataset, d, xsm_dataset_read(NULL, test_file("rows.csv", text, sizeof text - 1), NULL, NULL, &d, &err));
    xsm_class_map map = XSM_CLASS_MAP_INIT, own = XSM_CLASS_MAP_INIT;
    map.classes = 2;
    map.features = 1;
    map.names = names;
    assert_ok(xsm_dataset_extend(d, &map, &err), err);
    assert_ok(xsm_dataset_get_class_map(d, &own, &err), err);
    assert_int_equal(own.classes, 4);
    for (int k = 0; k < 4; k++) {
        assert_string_equal(own.names[k], all_names[k]);
    }
    static const uint32_t wanted[] = {3, 2, 0};
    for (uint64_t i = 0; i < 3; i++) {
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(d, i, &row, &err), err);
        assert_int_equal(row.labels[0], wanted[i]);
    }
    map.features = 2;
    assert_fails(xsm_dataset_extend(d, &map, &err), XSM_ERROR_SHAPE, err);
    /* and a model of words grows to them */
    MADE(xsm_model, m, xsm_model_new_linear(NULL, 1, 2, NULL, &m, &err));
    map.features = 1;
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    xsm_parameters at = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &at, &err), err);
    at.weight[0] = 1;
    at.weight[at.class_step] = 2;
    assert_ok(xsm_model_grow(m, 1, &own, &err), err);
    assert_ok(xsm_model_get_parameters(m, &at, &err), err);
    assert_true(at.weight[0] == 1 && at.weight[at.class_step] == 2 && at.weight[2 * at.class_step] == 0);
}

/* -- refused ------------------------------------------------------------------------------------------------------- */

TEST(what_cannot_be_is_refused)
{
    static const int64_t labels[] = {1, 2, 3}, others[] = {1, 2, 4, 5};
    NEW(xsm_model, m, xsm_model_new_linear(NULL, 5, 3, NULL, &m, &err));
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = 3;
    map.labels = labels;
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    map.classes = 4;
    map.labels = others;
    assert_fails(xsm_model_grow(m, 5, &map, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "label 3"));
    assert_fails(xsm_model_grow(m, 4, NULL, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_model_grow(m, XSM_FEATURES_MAX + 1u, NULL, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_model_grow(NULL, 5, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_int_equal(xsm_model_class_count(m), 3);
    /* features that nobody says what they are, beside columns */
    static const char *const columns[] = {"a", "b", "c", "d", "e"};
    xsm_class_map named = XSM_CLASS_MAP_INIT;
    NEW(xsm_model, of_columns, xsm_model_new_linear(NULL, 5, 3, NULL, &of_columns, &err));
    named.classes = 3;
    named.feature_names = columns;
    named.feature_name_count = named.features = 5;
    assert_ok(xsm_model_set_class_map(of_columns, &named, &err), err);
    assert_fails(xsm_model_grow(of_columns, 6, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_ok(xsm_model_grow(of_columns, 5, NULL, &err), err);
    assert_int_equal(xsm_model_feature_count(of_columns), 5);
    xsm_model_free(of_columns);
    /* a transform that knows its features, and one that does not */
    test_problem p = test_problem_new(ROWS, 5, 3, true, 3);
    static const char *const transforms[] = {"truncate=9", "log,unit"};
    for (int i = 0; i < 2; i++) {
        MADE(xsm_transform, t, xsm_transform_new(NULL, transforms[i], &t, &err));
        assert_ok(xsm_transform_fit(t, p.data, &err), err);
        assert_ok(xsm_model_set_transform(m, t, &err), err);
        if (i == 0) {
            assert_fails(xsm_model_grow(m, 6, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
            assert_ok(xsm_model_grow(m, 5, NULL, &err), err);
            assert_int_equal(test_model_info(m).input_features, 5);
        } else {
            assert_ok(xsm_model_grow(m, 6, NULL, &err), err);
            assert_int_equal(test_model_info(m).input_features, 6);
            assert_string_equal(test_model_info(m).transform, "log,unit");
        }
    }
    test_problem_free(&p);
    xsm_model_free(m);
    /* a correction */
    p = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_estimator *e = test_estimator(NULL, "negative-sampling", "sampler=frequency sampler.smoothing=1");
    NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    NEW(xsm_trainer, t, xsm_trainer_new(NULL, m, p.data, e, o, NULL, &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    map.classes = MORE;
    map.labels = NULL;
    assert_fails(xsm_model_grow(m, FEATURES, &map, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_ok(xsm_model_grow(m, FEATURES, NULL, &err), err); /* nothing new */
    assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_CLASSES);
    xsm_model_clear_correction(m);
    assert_ok(xsm_model_grow(m, FEATURES, &map, &err), err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    test_problem_free(&p);
}

/* The model is as it was when memory runs out. */
static xsm_status grow_one(void *state, xsm_context *ctx, xsm_error *err)
{
    const xsm_class_map *map = state;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_transform, transform) = NULL;
    HELD_STRUCT(test_problem, p) = test_problem_new(6, FEATURES, 3, true, 3);
    static const char *const names[] = {"a", "b", "c"};
    xsm_class_map own = XSM_CLASS_MAP_INIT;
    own.classes = 3;
    own.names = names;
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = 1;
    xsm_status status = xsm_model_new_linear(ctx, FEATURES, 3, &options, &m, err);
    status = status ? status : xsm_model_set_class_map(m, &own, err);
    status = status ? status : xsm_transform_new(ctx, "unit", &transform, err);
    status = status ? status : xsm_transform_fit(transform, p.data, err);
    status = status ? status : xsm_model_set_transform(m, transform, err);
    if (status == XSM_OK) {
        status = xsm_model_grow(m, WIDER, map, err);
        assert_int_equal(xsm_model_class_count(m), status ? 3 : 4);
        assert_int_equal(xsm_model_feature_count(m), status ? FEATURES : WIDER);
    }
    return status;
}

TEST(nothing_is_leaked)
{
    static const char *const names[] = {"b", "d", "c", "a"};
    static const uint64_t counts[] = {1, 2, 3, 4};
    assert_true(test_every_allocation(
                    grow_one, STRUCT(xsm_class_map, .classes = 4, .names = names, .counts = counts, .rows = 9)) > 10);
}
