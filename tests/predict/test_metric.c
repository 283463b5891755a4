/*
 * Tests of models whose scores are distances: scores and the bias bound to the weights, steps compared with central
 * differences of the loss for estimators that score all classes or search, with and without a first layer, the same
 * bits on any number of threads, indexes, files, growth, and refused settings. A Mahalanobis distance is learned where
 * the Euclidean one fails.
 */
#include "training.h"

#include <xsoftmax/stored_weights.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/index.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

#include "estimator/estimator.h"
#include "index/index.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FEATURES = 9, CLASSES = 7, ROWS = 24, HIDDEN = 4 };

static void make_euclidean(xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_model_set_geometry(m, XSM_GEOMETRY_EUCLIDEAN, &err), err);
    assert_int_equal(test_model_info(m).geometry, XSM_GEOMETRY_EUCLIDEAN);
}

static xsm_model *embedding(xsm_context *ctx, const test_problem *p, int32_t activation)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    uint64_t seed = 5;
    o.activation = activation;
    NEW(xsm_model, m, xsm_model_new_embedding(ctx, p->features, HIDDEN, p->classes, &o, &m, &err));
    assert_ok(xsm_model_get_parameters(m, &w, &err), err);
    for (uint32_t k = 0; k < w.classes; k++) {
        for (uint32_t j = 0; j < w.features; j++) {
            w.weight[k * w.class_step + j] = (float)(2 * test_uniform(&seed) - 1);
        }
    }
    return m;
}

/* ||w_k||^2/2 in double. */
static double half_square(const xsm_model *m, uint32_t k)
{
    double sum = 0;
    for (uint32_t j = 0; j < m->features; j++) {
        sum += test_weight(m, k, j) * test_weight(m, k, j) / 2;
    }
    return sum;
}

static void check_bound(const xsm_model *m)
{
    for (uint32_t k = 0; k < m->classes; k++) {
        double want = -half_square(m, k);
        assert_true(fabs(test_bias(m, k) - want) <= 1e-6 * (1 - want));
    }
}

/* -- scores -------------------------------------------------------------------------------------------------------- */

TEST(scores_are_distances)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 4);
    for (int bias = 0; bias < 2; bias++) {
        HELD(xsm_model, m) = test_model(NULL, &p, bias, bias ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR, 1, 3);
        assert_int_equal(test_model_info(m).geometry, XSM_GEOMETRY_LINEAR);
        make_euclidean(m);
        assert_int_equal(test_model_info(m).layout, XSM_LAYOUT_CLASS_MAJOR);
        check_bound(m);
        float z[ROWS * CLASSES];
        xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, z, CLASSES, &err), err);
        for (uint32_t i = 0; i < ROWS; i++) {
            for (uint32_t k = 0; k < CLASSES; k++) {
                double distance = 0, length = 0;
                for (uint32_t j = 0; j < FEATURES; j++) {
                    double x = (double)p.x[i * FEATURES + j], gap = x - test_weight(m, k, j);
                    distance += gap * gap;
                    length += x * x;
                }
                assert_true(fabs((double)z[i * CLASSES + k] - (length - distance) / 2) < 1e-5);
            }
        }
        /* The bias is free again. */
        assert_ok(xsm_model_set_geometry(m, XSM_GEOMETRY_LINEAR, &err), err);
        assert_int_equal(test_model_info(m).geometry, XSM_GEOMETRY_LINEAR);
        assert_true(test_model_info(m).bias);
        check_bound(m);
    }
}

/* What a host writes counts when it says so, or when an optimizer is bound. */
TEST(written_weights_are_bound_again)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 4);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    xsm_parameters w = XSM_PARAMETERS_INIT;
    make_euclidean(m);
    for (int by_optimizer = 0; by_optimizer < 2; by_optimizer++) {
        assert_ok(xsm_model_get_parameters(m, &w, &err), err);
        w.weight[w.class_step + 2] += 3;
        if (by_optimizer) {
            xsm_optimizer_free(test_optimizer(NULL, m));
        } else {
            make_euclidean(m);
        }
        check_bound(m);
    }
}

/* -- steps --------------------------------------------------------------------------------------------------------- */

static double loss_of(xsm_model *m, const char *name, const char *options, const xsm_dataset *data, uint64_t first,
                      uint64_t count)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_estimator, e) = test_estimator(NULL, name, options);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(data, first, count);
    make_euclidean(m);
    assert_ok(xsm_estimator_bind(e, m, data, &err), err);
    assert_ok(xsm_estimator_gradient(e, &batch, 1e-3, g, &err), err);
    double loss = test_view(g).loss;
    return loss;
}

typedef struct rule {
    const char *estimator, *options;
} rule;

/* With all classes listed or drawn, losses are functions of the weights. */
static const rule rules[] = {
    {"softmax", ""},
    {"margin", "mu=2"},
    {"one-vs-all", ""},
    {"mips", "loss=nca index=exact candidates=7 startup=0"},
    {"mips", "loss=cross-entropy missing=drop index=exact candidates=7 startup=0"},
    {"mips", "loss=margin mu=2 index=spherical candidates=7 startup=0"},
    {"mips", "loss=triplet index=exact candidates=7 startup=0"},
    {"decomp-mips", "loss=margin mu=2 index=exact candidates=7 startup=0 blocks=1"},
    {"sampled-softmax", "negatives=6"},
    {"negative-sampling", "negatives=3"},
    {"ove", "negatives=all"},
    {"ove", "negatives=3"},
    {"vanilla", "negatives=2"},
};

/* Checks one step of `count` rows against central differences in every number of W, and of V where there is one. */
static void check_step(const rule *r, const test_problem *p, bool layer, uint64_t first, uint64_t count)
{
    xsm_error err = XSM_ERROR_INIT;
    const double eta = 1e-3;
    HELD(xsm_model, moved) = NULL;
    HELD(xsm_model, m) = NULL;
    moved = layer ? embedding(NULL, p, XSM_ACTIVATION_TANH) : test_model(NULL, p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    m = layer ? embedding(NULL, p, XSM_ACTIVATION_TANH) : test_model(NULL, p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    make_euclidean(moved);
    HELD(xsm_estimator, e) = test_estimator(NULL, r->estimator, r->options);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p->data, first, count);
    assert_ok(xsm_estimator_bind(e, moved, p->data, &err), err);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, moved);
    assert_ok(xsm_estimator_gradient(e, &batch, eta, g, &err), err);
    double scale = 0, loss = test_view(g).loss;
    assert_true(fabs(loss - loss_of(m, r->estimator, r->options, p->data, first, count)) < 1e-6 * (1 + fabs(loss)));
    assert_ok(xsm_optimizer_apply(o, &batch, g, eta, &err), err);
    check_bound(moved);
    xsm_parameters to = XSM_PARAMETERS_INIT, from = XSM_PARAMETERS_INIT;
    xsm_embedding_parameters v_to = XSM_EMBEDDING_PARAMETERS_INIT, v = XSM_EMBEDDING_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(moved, &to, &err), err);
    assert_ok(xsm_model_get_parameters(m, &from, &err), err);
    if (layer) {
        assert_ok(xsm_model_get_embedding_parameters(moved, &v_to, &err), err);
        assert_ok(xsm_model_get_embedding_parameters(m, &v, &err), err);
    }
    uint32_t width = to.features, lines = p->classes + (layer ? p->features : 0);
    for (uint32_t line = 0; line < lines; line++) {
        for (uint32_t j = 0; j < width; j++) {
            bool of_class = line < p->classes;
            float *x = of_class ? from.weight + line * from.class_step + j
                                : v.vectors + (line - p->classes) * v.feature_step + j;
            float after = of_class ? to.weight[line * to.class_step + j]
                                   : v_to.vectors[(line - p->classes) * v_to.feature_step + j];
            float held = *x;
            const float h = 0x1p-7f;
            *x = held + h;
            double above = loss_of(m, r->estimator, r->options, p->data, first, count), up = (double)*x;
            *x = held - h;
            double below = loss_of(m, r->estimator, r->options, p->data, first, count), span = up - (double)*x;
            *x = held;
            double want = (above - below) / span, got = ((double)held - (double)after) / eta;
            scale = fabs(want) > scale ? fabs(want) : scale;
            if (!(fabs(got - want) < 2e-3 * (1 + fabs(want)))) {
                fail_msg("%s %s, %d rows%s, line %u, number %u: %g, not %g", r->estimator, r->options, (int)count,
                         layer ? ", a first layer" : "", line, j, got, want);
            }
        }
    }
    assert_true(scale > 1e-2); /* there was something to see */
}

TEST(steps_follow_the_loss)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 4);
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
            bool small = strcmp(rules[i].estimator, "vanilla") == 0;
            check_step(&rules[i], &p, false, 3, 1);
            check_step(&rules[i], &p, true, 3, 1);
            /* Triplets have corners, and batches of the double sum coefficients of thousands. */
            if (!small && !strstr(rules[i].options, "triplet")) {
                check_step(&rules[i], &p, false, 2, 6);
                check_step(&rules[i], &p, true, 2, 6);
            }
        }
    }
}

/* Blocks have distances of their own, which add up to the whole's; with one block all is exact. */
TEST(blocks_have_their_own_distances)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 4);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    make_euclidean(m);
    /* Many rounds bring all blocks to the scores themselves (Theorem 2), so that the gradient is the exact one. */
    xsm_estimator *exact = test_estimator(NULL, "margin", "mu=5"),
                  *blocks = test_estimator(NULL, "decomp-mips",
                                           "mu=5 index=exact candidates=7 startup=0 blocks=3 rounds=100 threshold=0");
    xsm_gradient *g = test_gradient(NULL), *h = test_gradient(NULL);
    assert_ok(xsm_estimator_bind(exact, m, p.data, &err), err);
    assert_ok(xsm_estimator_bind(blocks, m, p.data, &err), err);
    for (uint64_t row = 0; row < ROWS; row++) {
        xsm_batch batch = xsm_batch_range(p.data, row, 1);
        double want[CLASSES], got[CLASSES] = {0};
        assert_ok(xsm_estimator_gradient(exact, &batch, 0.1, g, &err), err);
        assert_ok(xsm_estimator_gradient(blocks, &batch, 0.1, h, &err), err);
        xsm_gradient_view v = test_view(g), u = test_view(h);
        for (uint32_t k = 0; k < CLASSES; k++) {
            want[k] = (double)v.coefficients[k];
        }
        for (uint32_t j = 0; j < u.lengths[0]; j++) {
            got[u.classes[j]] = (double)u.coefficients[j];
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            assert_true(fabs(got[k] - want[k]) < 2e-2);
        }
        assert_true(fabs(u.loss - v.loss) < 2e-2);
    }
    xsm_gradient_free(g);
    xsm_gradient_free(h);
    xsm_estimator_free(exact);
    xsm_estimator_free(blocks);
}

/* -- training ------------------------------------------------------------------------------------------------------ */

/* Rows about a point of each class, 4 from the next, in two numbers, beside `noise` in the others. */
static xsm_dataset *points(uint64_t rows, uint32_t features, uint32_t classes, double spread, double noise,
                           uint64_t seed)
{
    static float x[600 * 16];
    static uint32_t labels[600];
    xsm_error err = XSM_ERROR_INIT;
    assert_true(rows <= 600 && features <= 16);
    for (uint64_t i = 0; i < rows; i++) {
        uint32_t k = labels[i] = (uint32_t)(i % classes);
        for (uint32_t j = 0; j < features; j++) {
            double at = 4 * (j == 0 ? k % 4 : j == 1 ? k / 4 : 0), u = 0;
            for (int t = 0; t < 4; t++) {
                u += test_uniform(&seed) - 0.5;
            }
            x[i * features + j] = (float)(at + (j < 2 ? spread : noise) * u);
        }
    }
    xsm_labels given = {sizeof given, classes, 0, NULL, labels, NULL};
    NEW(xsm_dataset, data,
        xsm_dataset_from_dense(
            NULL, STRUCT(xsm_dense_rows, .values = x, .rows = rows, .features = features, .labels = &given), &data,
            &err));
    return data;
}

static double train(xsm_model *m, const char *name, const char *options, const xsm_dataset *data, uint64_t epochs,
                    uint64_t batch, double eta)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator *e = test_estimator(m->context, name, options);
    xsm_trainer_options how = XSM_TRAINER_OPTIONS_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    how.epochs = epochs;
    how.batch = batch;
    how.eta = eta;
    NEW(xsm_optimizer, o, xsm_optimizer_new(m->context, "sgd", &o, &err));
    NEW(xsm_trainer, t, xsm_trainer_new(m->context, m, data, e, o, &how, &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    assert_ok(xsm_evaluate(m->context, m, data, NULL, &metrics, &err), err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    return metrics.error;
}

/* Twelve points of a grid: inner ones lie between others, where a linear score needs a bias of just the right size.
 * Blocks that know of one of two numbers need some rounds to agree. */
TEST(points_are_learned)
{
    static const rule ways[] = {{"softmax", ""},
                                {"margin", ""},
                                {"sampled-softmax", "negatives=5"},
                                {"mips", "loss=triplet index=exact candidates=4"},
                                {"mips", "loss=nca index=exact candidates=12"},
                                {"decomp-mips", "candidates=6 blocks=2 rounds=20"}};
    HELD(xsm_dataset, data) = points(600, 4, 12, 0.6, 0.6, 7);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        MADE(xsm_model, m, xsm_model_new_linear(NULL, 4, 12, NULL, &m, &err));
        make_euclidean(m);
        double error = train(m, ways[i].estimator, ways[i].options, data, 40, 1, 0.1);
        if (error > 0.05) {
            fail_msg("%s %s: error %g", ways[i].estimator, ways[i].options, error);
        }
        check_bound(m);
    }
}

/* Four numbers of noise beside the two that tell the classes apart: a distance that is not learned is led astray. */
TEST(a_mahalanobis_distance_is_learned)
{
    HELD(xsm_dataset, data) = points(600, 6, 12, 0.6, 8, 9);
    HELD(xsm_dataset, test) = points(600, 6, 12, 0.6, 8, 10);
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_metrics plain = XSM_METRICS_INIT, metric = XSM_METRICS_INIT;
    /* The best that the plain distance has: the mean of each class's rows. */
    MADE(xsm_model, means, xsm_model_new_linear(NULL, 6, 12, NULL, &means, &err));
    xsm_parameters w = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(means, &w, &err), err);
    for (uint64_t i = 0; i < 600; i++) {
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(data, i, &row, &err), err);
        for (uint32_t j = 0; j < 6; j++) {
            w.weight[row.labels[0] * w.class_step + j] += row.values[j] / 50;
        }
    }
    make_euclidean(means);
    assert_ok(xsm_evaluate(NULL, means, test, NULL, &plain, &err), err);
    o.scale = 0.1;
    MADE(xsm_model, learned, xsm_model_new_embedding(NULL, 6, 6, 12, &o, &learned, &err));
    make_euclidean(learned);
    (void)train(learned, "softmax", "", data, 200, 10, 0.03);
    assert_ok(xsm_evaluate(NULL, learned, test, NULL, &metric, &err), err);
    if (!(plain.error > 0.25 && metric.error < 0.04)) {
        fail_msg("error %g by the plain distance, %g by the learned one", plain.error, metric.error);
    }
}

TEST(threads_change_no_bit)
{
    static const rule ways[] = {{"softmax", ""}, {"sampled-softmax", "negatives=3"}, {"mips", "candidates=4"}};
    HELD_STRUCT(test_problem, p) = test_problem_new(200, FEATURES, CLASSES, false, 4);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        for (uint64_t batch = 1; batch <= 8; batch += 7) {
            uint64_t first = 0;
            for (uint32_t threads = 1; threads <= 3; threads++) {
                HELD(xsm_context, ctx) =
                    test_context(threads, TEST_BUILT_IN, threads == 2 ? XSM_CPU_DISABLE_AVX512 : 0);
                HELD(xsm_model, m) = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
                make_euclidean(m);
                (void)train(m, ways[i].estimator, ways[i].options, p.data, 3, batch, 0.2);
                uint64_t hash = test_hash(m);
                first = threads == 1 ? hash : first;
                assert_true(hash == first);
            }
        }
    }
}

/* -- around -------------------------------------------------------------------------------------------------------- */

TEST(indexes_find_the_nearest)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(50, 12, 800, false, 4);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    double recall = 0;
    make_euclidean(m);
    MADE(xsm_index, x, xsm_index_new(NULL, "spherical", &x, &err));
    assert_ok(xsm_index_build_model(x, m, &err), err);
    assert_ok(xsmi_index_recall(x, STRUCT(xsm_index_search, .queries = p.x, .stride = 12, .count = 50, .top = 10),
                                &recall, &err),
              err);
    assert_true(recall > 0.7); /* 226 of 800 rows looked at, without any structure */
    /* The first of an exact list is the nearest. */
    HELD(xsm_index, exact) = NULL;
    uint32_t found[50], lengths[50];
    float scores[50];
    xsm_index_search s = XSM_INDEX_SEARCH_INIT;
    s.queries = p.x;
    s.stride = 12;
    s.count = 50;
    s.top = 1;
    s.classes = found;
    s.scores = scores;
    s.lengths = lengths;
    assert_ok(xsm_index_new(NULL, "exact", &exact, &err), err);
    assert_ok(xsm_index_build_model(exact, m, &err), err);
    assert_ok(xsm_index_query(exact, &s, &err), err);
    for (uint32_t i = 0; i < 50; i++) {
        double best = INFINITY, of_found = 0;
        for (uint32_t k = 0; k < 800; k++) {
            double distance = 0;
            for (uint32_t j = 0; j < 12; j++) {
                double gap = (double)p.x[i * 12 + j] - test_weight(m, k, j);
                distance += gap * gap;
            }
            best = distance < best ? distance : best;
            of_found = k == found[i] ? distance : of_found;
        }
        assert_true(of_found <= best + 1e-5);
    }
}

TEST(files_keep_the_score)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 4);
    const char *path = test_path("metric");
    for (int layer = 0; layer < 2; layer++) {
        HELD(xsm_model, m) = layer ? embedding(NULL, &p, XSM_ACTIVATION_IDENTITY)
                                   : test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
        float z[2][ROWS * CLASSES];
        xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
        make_euclidean(m);
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        MADE(xsm_model, read, xsm_model_load(NULL, path, NULL, NULL, &read, &err));
        assert_int_equal(test_model_info(read).geometry, XSM_GEOMETRY_EUCLIDEAN);
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, z[0], CLASSES, &err), err);
        assert_ok(xsm_model_score_range(read, &batch, 0, CLASSES, z[1], CLASSES, &err), err);
        assert_memory_equal(z[0], z[1], sizeof z[0]);
        assert_fails(xsm_model_set_metadata(read, "geometry", "linear", &err), XSM_ERROR_ARGUMENT, err);
        /* A loaded model is trained on. */
        (void)train(read, "softmax", "", p.data, 1, 1, 0.1);
        (void)train(m, "softmax", "", p.data, 1, 1, 0.1);
        assert_true(test_hash(read) == test_hash(m));
        check_bound(read);
    }
}

/* Files of another program: one linear tensor, metadata that we do not know of. */
TEST(bad_files_are_refused)
{
    static const char *const wrong[][3] = {
        {"manhattan", "\"weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}", "manhattan"},
        {"euclidean", "\"weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}", "bias"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char header[400], zeros[32] = {0};
        const char *path = test_path("foreign");
        xsm_model *m = NULL;
        int length =
            snprintf(header, sizeof header, "{\"__metadata__\":{\"geometry\":\"%s\"},%s}", wrong[i][0], wrong[i][1]);
        while (length % 8 != 0) {
            header[length++] = ' ';
        }
        FILE *f = fopen(path, "wb");
        uint64_t size = (uint64_t)length;
        assert_non_null(f);
        assert_true(fwrite(&size, 8, 1, f) == 1 && fwrite(header, size, 1, f) == 1 && fwrite(zeros, 24, 1, f) == 1);
        assert_int_equal(fclose(f), 0);
        assert_fails(xsm_model_load(NULL, path, NULL, NULL, &m, &err), XSM_ERROR_FORMAT, err);
        assert_non_null(strstr(err.message, wrong[i][2]));
    }
}

TEST(models_grow)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 4);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    make_euclidean(m);
    assert_ok(xsm_model_grow(m, FEATURES + 4, NULL, &err), err);
    assert_int_equal(test_model_info(m).geometry, XSM_GEOMETRY_EUCLIDEAN);
    check_bound(m);
}

TEST(what_cannot_work_is_refused)
{
    static const rule estimators[] = {{"implicit", ""},
                                      {"umax", "ridge=0.1"},
                                      {"umax", "weight-bound=2"},
                                      {"hierarchical", ""},
                                      {"softmax", "ridge=1"}};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 4);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    assert_fails(xsm_model_set_geometry(NULL, XSM_GEOMETRY_EUCLIDEAN, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_set_geometry(m, 2, &err), XSM_ERROR_RANGE, err);
    make_euclidean(m);
    uint64_t before = test_hash(m);
    for (size_t i = 0; i < sizeof estimators / sizeof *estimators; i++) {
        HELD(xsm_estimator, e) = test_estimator(NULL, estimators[i].estimator, estimators[i].options);
        assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_non_null(strstr(err.message, "distances"));
    }
    NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, "adagrad", &o, &err));
    assert_fails(xsm_optimizer_bind(o, m, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_optimizer_free(o);
    assert_fails(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_estimator *softmax = test_estimator(NULL, "softmax", "");
    assert_fails(xsm_fit_full_batch(NULL, m, p.data, softmax, NULL, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_estimator_free(softmax);
    /* A gradient of another model, whose rows may be scaled. */
    xsm_model *linear = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    xsm_estimator *ridge = test_estimator(NULL, "softmax", "ridge=1");
    xsm_gradient *g = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 0, 1);
    assert_ok(xsm_estimator_bind(ridge, linear, p.data, &err), err);
    assert_ok(xsm_estimator_gradient(ridge, &batch, 0.1, g, &err), err);
    o = test_optimizer(NULL, m);
    assert_fails(xsm_optimizer_apply(o, &batch, g, 0.1, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_optimizer_free(o);
    xsm_gradient_free(g);
    xsm_estimator_free(ridge);
    xsm_model_free(linear);
    assert_true(test_hash(m) == before);
    xsm_embedding_options tied = XSM_EMBEDDING_OPTIONS_INIT;
    tied.tied = 1;
    NEW(xsm_model, other, xsm_model_new_embedding(NULL, CLASSES, HIDDEN, CLASSES, &tied, &other, &err));
    assert_fails(xsm_model_set_geometry(other, XSM_GEOMETRY_EUCLIDEAN, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_int_equal(test_model_info(other).geometry, XSM_GEOMETRY_LINEAR);
    xsm_model_free(other);
    assert_ok(xsm_model_new_linear(NULL, 0, CLASSES, STRUCT(xsm_model_options, .bias = 1), &other, &err), err);
    assert_fails(xsm_model_set_geometry(other, XSM_GEOMETRY_EUCLIDEAN, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_model_free(other);
}

/* Steps that leave the finite numbers are an error, not a model. */
TEST(divergence_is_told)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 4);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    HELD(xsm_estimator, e) = test_estimator(NULL, "one-vs-all", "");
    HELD(xsm_gradient, g) = test_gradient(NULL);
    make_euclidean(m);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    xsm_status status = XSM_OK;
    for (int step = 0; step < 100 && status == XSM_OK; step++) {
        xsm_batch batch = xsm_batch_range(p.data, (uint64_t)step % ROWS, 1);
        status = xsm_estimator_gradient(e, &batch, 1e12, g, &err);
        if (status == XSM_OK) {
            status = xsm_optimizer_apply(o, &batch, g, 1e12, &err);
        }
    }
    assert_int_equal(status, XSM_ERROR_DIVERGED);
}
