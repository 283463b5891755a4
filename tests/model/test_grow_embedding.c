/*
 * Tests of embedding models that get classes and features: rows without new features score the same bits, new features
 * have the vectors of a new model, and estimators and optimizers must be bound again.
 */
#include "training.h"

#include "model/model.h"

#include <xsoftmax/stored_weights.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <string.h>

enum { FEATURES = 13, HIDDEN = 5, CLASSES = 7, WIDER = 2100, MORE = 11, ROWS = 40, LARGE = 23 };

typedef struct kind {
    int32_t activation, pool;
    bool tied, bias, euclidean;
} kind;

static xsm_embedding_options options_of(const kind *k)
{
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    o.activation = k->activation;
    o.pool = k->pool;
    o.tied = k->tied;
    o.bias = k->bias;
    o.seed = 77;
    o.scale = 0.4;
    return o;
}

static xsm_model *new_model(uint32_t features, uint32_t classes, const kind *k)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options o = options_of(k);
    NEW(xsm_model, m, xsm_model_new_embedding(NULL, features, HIDDEN, classes, &o, &m, &err));
    return m;
}

static uint32_t classes_of(const kind *k)
{
    return k->tied ? FEATURES : CLASSES;
}

/* Weights of its own, and scales. */
static xsm_model *filled_model(const kind *k)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = new_model(FEATURES, classes_of(k), k);
    uint64_t seed = 5;
    for (uint32_t c = 0; c < m->classes; c++) {
        for (uint32_t h = 0; h < HIDDEN; h++) {
            m->w.weight[c * m->w.stride + h] = (float)(2 * test_uniform(&seed) - 1);
        }
        if (m->w.bias) {
            m->w.bias[c] = (float)(2 * test_uniform(&seed) - 1);
        }
    }
    if (k->euclidean) {
        assert_ok(xsm_model_set_geometry(m, XSM_GEOMETRY_EUCLIDEAN, &err), err);
    } else {
        assert_ok(xsmi_model_need_row_scale(m, &err), err);
        for (uint32_t c = 0; c < m->classes; c++) {
            m->w.row_scale[c] = 0.5 + test_uniform(&seed);
        }
        m->w.alpha = 0.8;
    }
    if (!k->tied) {
        m->layer->w.alpha = 0.7;
        for (uint32_t j = 0; j < FEATURES; j++) {
            m->layer->w.weight[j * m->layer->w.stride + 1] = (float)(2 * test_uniform(&seed) - 1);
        }
    }
    assert_ok(xsm_model_set_metadata(m, "origin", "here", &err), err);
    return m;
}

static void widen(xsm_dataset *data, uint32_t features, uint32_t classes)
{
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_dataset_extend(data, STRUCT(xsm_class_map, .classes = classes, .features = features), &err), err);
}

static xsm_embedding_parameters vectors_of(xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_parameters v = XSM_EMBEDDING_PARAMETERS_INIT;
    assert_ok(xsm_model_get_embedding_parameters(m, &v, &err), err);
    return v;
}

/* New vectors are those of a new model, but for a rounding where they lie under a scale. */
static void check_new_vectors(xsm_model *m, const kind *k, float tolerance)
{
    uint32_t features = xsm_model_feature_count(m);
    HELD(xsm_model, fresh) = new_model(features, xsm_model_class_count(m), k);
    xsm_embedding_parameters a = vectors_of(m), b = vectors_of(fresh);
    assert_int_equal(a.features, features);
    for (uint32_t j = FEATURES; j < features; j++) {
        for (uint32_t h = 0; h < HIDDEN; h++) {
            float had = a.vectors[j * a.feature_step + h], wanted = b.vectors[j * b.feature_step + h];
            assert_true(fabsf(had - wanted) <= tolerance * fabsf(wanted));
        }
    }
    assert_true(b.vectors[FEATURES * b.feature_step] != 0);
}

static void check_kind(const kind *k, bool mapped)
{
    static float before[ROWS * FEATURES], after[ROWS * WIDER], back[ROWS * WIDER];
    xsm_error err = XSM_ERROR_INIT;
    const uint32_t had = classes_of(k), now = k->tied ? LARGE : MORE, features = k->tied ? LARGE : WIDER;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, had, true, 3);
    xsm_model *m = filled_model(k), *loaded = NULL;
    int64_t labels[CLASSES], all[MORE];
    uint32_t place[FEATURES];
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    for (uint32_t c = 0; c < had; c++) {
        place[c] = c;
    }
    map.classes = had;
    if (!k->tied) { /* new classes before, between and behind */
        uint32_t count = 0;
        for (uint32_t c = 0; c < CLASSES; c++) {
            labels[c] = 3 + 7 * (int64_t)c;
            if (c % 3 == 0) {
                all[count++] = labels[c] - 2;
            }
            place[c] = count;
            all[count++] = labels[c];
        }
        all[count++] = 100;
        assert_int_equal(count, MORE);
        map.labels = labels;
        assert_ok(xsm_model_set_class_map(m, &map, &err), err);
        map.labels = all;
    }
    const char *path = test_path("grown");
    if (mapped) {
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        xsm_model_free(m);
        assert_ok(xsm_model_load(NULL, path, NULL, NULL, &m, &err), err);
    }
    test_all_scores(m, p.data, before);
    map.classes = now;
    assert_ok(xsm_model_grow(m, features, &map, &err), err);
    assert_int_equal(xsm_model_feature_count(m), features);
    assert_int_equal(xsm_model_class_count(m), now);
    assert_int_equal(test_model_info(m).hidden, HIDDEN);
    assert_int_equal(test_model_info(m).geometry, k->euclidean ? XSM_GEOMETRY_EUCLIDEAN : XSM_GEOMETRY_LINEAR);
    assert_string_equal(xsm_model_get_metadata(m, "origin"), "here");
    const xsm_embedding_options wanted = options_of(k);
    const xsm_model_info made = test_model_info(m);
    assert_true(made.seed == wanted.seed && made.scale == wanted.scale && made.activation == wanted.activation);
    assert_true(made.pool == wanted.pool && made.tied == wanted.tied);
    widen(p.data, features, had);
    test_all_scores(m, p.data, after);
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t c = 0; c < had; c++) {
            assert_memory_equal(&after[i * now + place[c]], &before[i * had + c], sizeof *after);
        }
        for (uint32_t c = 0, old = 0; c < now && !k->tied; c++) {
            if (old < had && place[old] == c) {
                old++;
            } else {
                assert_true(after[i * now + c] == 0);
            }
        }
    }
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    assert_ok(xsm_model_load(NULL, path, NULL, NULL, &loaded, &err), err);
    assert_int_equal(xsm_model_feature_count(loaded), features);
    test_all_scores(loaded, p.data, back);
    for (uint32_t i = 0; i < ROWS * now; i++) { /* a file has the scales multiplied in */
        assert_true(fabsf(after[i] - back[i]) <= (mapped ? 0 : 1e-5f) * (1 + fabsf(after[i])));
    }
    check_new_vectors(loaded, k, 1e-6f);
    check_new_vectors(m, k, mapped ? 0 : 1e-6f);
    xsm_model_free(loaded);
    xsm_model_free(m);
}

TEST(rows_without_what_is_new_score_the_same_bits)
{
    for (int32_t activation = XSM_ACTIVATION_IDENTITY; activation <= XSM_ACTIVATION_TANH; activation++) {
        for (int bits = 0; bits < 16; bits++) {
            kind k = {activation, bits & 1 ? XSM_POOL_MEAN : XSM_POOL_SUM, .tied = bits & 2, .bias = bits & 4};
            check_kind(&k, bits & 8);
        }
    }
    kind k = {XSM_ACTIVATION_TANH, XSM_POOL_SUM, .euclidean = true};
    check_kind(&k, false);
    check_kind(&k, true);
}

/* In two steps or in one, the numbers are the same, and those of a new model of that size. */
TEST(twice_is_once)
{
    for (int bits = 0; bits < 4; bits++) {
        kind k = {XSM_ACTIVATION_RELU, XSM_POOL_SUM, .tied = bits & 1, .bias = true};
        bool filled = bits & 2;
        const uint32_t sizes[] = {FEATURES + 1, LARGE};
        xsm_model *made[2] = {NULL};
        for (int i = 0; i < 2; i++) {
            made[i] = filled ? filled_model(&k) : new_model(FEATURES, classes_of(&k), &k);
            for (int step = i; step < 2; step++) {
                assert_ok(xsm_model_grow(made[i], sizes[step], STRUCT(xsm_class_map, .classes = sizes[step]), &err),
                          err);
            }
        }
        if (!filled) {
            assert_true(xsmi_model_is_zero(made[0]));
            check_new_vectors(made[0], &k, 0);
        }
        xsm_embedding_parameters a = vectors_of(made[0]), b = vectors_of(made[1]);
        for (uint32_t j = 0; j < LARGE; j++) {
            assert_memory_equal(a.vectors + j * a.feature_step, b.vectors + j * b.feature_step,
                                HIDDEN * sizeof *a.vectors);
        }
        assert_true(test_hash(made[0]) == test_hash(made[1]));
        xsm_model_free(made[0]);
        xsm_model_free(made[1]);
    }
}

TEST(training_goes_on)
{
    for (int bits = 0; bits < 4; bits++) {
        kind k = {XSM_ACTIVATION_IDENTITY, XSM_POOL_SUM, .tied = bits & 1, .bias = true};
        bool adagrad = bits & 2;
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, classes_of(&k), true, 3);
        HELD_STRUCT(test_problem, q) = test_problem_new(ROWS, LARGE, k.tied ? LARGE : classes_of(&k), true, 4);
        HELD(xsm_model, m) = new_model(FEATURES, classes_of(&k), &k);
        HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "");
        HELD(xsm_gradient, g) = test_gradient(NULL);
        xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
        options.eta = 0.1;
        MADE(xsm_optimizer, o, xsm_optimizer_new(NULL, adagrad ? "adagrad" : "sgd", &o, &err));
        NEW(xsm_trainer, t, xsm_trainer_new(NULL, m, p.data, e, o, &options, &t, &err));
        assert_ok(xsm_trainer_run(t, &err), err);
        xsm_trainer_free(t);
        t = NULL;
        assert_ok(xsm_model_grow(m, LARGE, STRUCT(xsm_class_map, .classes = k.tied ? LARGE : CLASSES), &err), err);
        assert_ok(xsm_estimator_bind(e, m, q.data, &err), err);
        xsm_batch batch = xsm_batch_range(q.data, 0, 4);
        assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g, &err), err);
        uint64_t hash = test_hash(m);
        assert_fails(xsm_optimizer_apply(o, &batch, g, 0.1, &err), XSM_ERROR_STATE, err);
        assert_non_null(strstr(err.message, "bind it again"));
        assert_true(test_hash(m) == hash);
        assert_ok(xsm_optimizer_bind(o, m, &err), err);
        assert_ok(xsm_optimizer_apply(o, &batch, g, 0.1, &err), err);
        xsm_metrics before = XSM_METRICS_INIT, after = XSM_METRICS_INIT;
        assert_ok(xsm_evaluate(NULL, m, q.data, NULL, &before, &err), err);
        assert_ok(xsm_trainer_new(NULL, m, q.data, e, o, &options, &t, &err), err);
        assert_ok(xsm_trainer_run(t, &err), err);
        assert_ok(xsm_evaluate(NULL, m, q.data, NULL, &after, &err), err);
        assert_true(after.log_loss < before.log_loss);
        xsm_trainer_free(t);
    }
}

TEST(what_cannot_be_is_refused)
{
    static const int64_t labels[] = {0, 1, 2}, moved[] = {0, 1, 2, 3};
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    o.tied = 1;
    NEW(xsm_model, m, xsm_model_new_embedding(NULL, 3, 2, 3, &o, &m, &err));
    uint64_t hash = test_hash(m);
    map.classes = 4;
    assert_fails(xsm_model_grow(m, 3, &map, &err), XSM_ERROR_SHAPE, err);
    assert_fails(xsm_model_grow(m, 5, &map, &err), XSM_ERROR_SHAPE, err);
    assert_fails(xsm_model_grow(m, 4, NULL, &err), XSM_ERROR_SHAPE, err);
    map.classes = 3;
    int64_t own[] = {labels[0], labels[1], 3};
    map.labels = own;
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    map.classes = 4;
    map.labels = moved;
    assert_fails(xsm_model_grow(m, 4, &map, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "makes class 2 class 3"));
    assert_fails(xsm_model_grow(m, 2, NULL, &err), XSM_ERROR_RANGE, err);
    assert_true(test_hash(m) == hash);
    assert_int_equal(xsm_model_feature_count(m), 3);
    assert_ok(xsm_model_grow(m, 3, NULL, &err), err); /* nothing new */
    assert_true(test_hash(m) == hash);
    xsm_model_free(m);
    /* untied: features go by the first layer, not by H */
    o.tied = 0;
    assert_ok(xsm_model_new_embedding(NULL, 6, 2, 3, &o, &m, &err), err);
    assert_fails(xsm_model_grow(m, 5, NULL, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_model_grow(m, XSM_FEATURES_MAX + 1u, NULL, &err), XSM_ERROR_RANGE, err);
    test_problem p = test_problem_new(ROWS, 6, 3, true, 3);
    static const char *const transforms[] = {"truncate=9", "unit"};
    for (int i = 0; i < 2; i++) {
        NEW(xsm_transform, t, xsm_transform_new(NULL, transforms[i], &t, &err));
        assert_ok(xsm_transform_fit(t, p.data, &err), err);
        assert_ok(xsm_model_set_transform(m, t, &err), err);
        xsm_transform_free(t);
        if (i == 0) {
            assert_fails(xsm_model_grow(m, 7, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
            assert_ok(xsm_model_grow(m, 6, NULL, &err), err);
            assert_int_equal(test_model_info(m).input_features, 6);
        } else {
            assert_ok(xsm_model_grow(m, 7, NULL, &err), err);
            assert_int_equal(test_model_info(m).input_features, 7);
        }
    }
    test_problem_free(&p);
    xsm_model_free(m);
}

/* The model is as it was when memory runs out. */
static xsm_status grow_one(void *state, xsm_context *ctx, xsm_error *err)
{
    const kind *k = state;
    xsm_embedding_options o = options_of(k);
    HELD(xsm_model, m) = NULL;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    uint64_t counts[LARGE] = {0};
    map.classes = LARGE;
    map.counts = counts;
    map.rows = 9;
    xsm_status status = xsm_model_new_embedding(ctx, FEATURES, HIDDEN, classes_of(k), &o, &m, err);
    status = status == XSM_OK ? xsmi_model_need_row_scale(m, err) : status;
    if (status == XSM_OK) {
        uint64_t hash = test_hash(m);
        status = xsm_model_grow(m, LARGE, &map, err);
        assert_int_equal(xsm_model_class_count(m), status ? classes_of(k) : LARGE);
        assert_int_equal(xsm_model_feature_count(m), status ? FEATURES : LARGE);
        assert_true(status == XSM_OK || test_hash(m) == hash);
    }
    return status;
}

TEST(nothing_is_leaked)
{
    kind k = {XSM_ACTIVATION_TANH, XSM_POOL_SUM, .bias = true};
    assert_true(test_every_allocation(grow_one, &k) > 10);
    k.tied = true;
    assert_true(test_every_allocation(grow_one, &k) > 8);
}
