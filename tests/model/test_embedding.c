/*
 * Embedding models: hidden vectors against sums in double, the first layer's step against central differences of the
 * loss for every registered estimator, the same bits on any number of threads, and everything that works on a linear
 * model on them: evaluation, prediction, indexes, corrections, files.
 */
#define XSM_EXPERIMENTAL /* choice and tuning */
#include "training.h"

#include "estimator/estimator.h"

#include <xsoftmax/stored_weights.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/index.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>
#include <xsoftmax/tune.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FEATURES = 9, HIDDEN = 5, CLASSES = 7, ROWS = 40 };

typedef struct kind {
    int32_t activation, pool;
    bool tied, bias, sparse;
} kind;

static xsm_model *new_model(xsm_context *ctx, uint32_t features, uint32_t hidden, uint32_t classes, const kind *k)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    o.activation = k->activation;
    o.pool = k->pool;
    o.tied = k->tied;
    o.bias = k->bias;
    o.seed = 3;
    NEW(xsm_model, m, xsm_model_new_embedding(ctx, features, hidden, classes, &o, &m, &err));
    return m;
}

/* Fills W and the bias with random numbers. */
static void fill(xsm_model *m, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &w, &err), err);
    for (uint32_t k = 0; k < w.classes; k++) {
        for (uint32_t j = 0; j < w.features; j++) {
            w.weight[k * w.class_step + j * w.feature_step] = (float)(2 * test_uniform(&seed) - 1);
        }
        if (w.bias) {
            w.bias[k] = (float)(2 * test_uniform(&seed) - 1);
        }
    }
}

static xsm_embedding_parameters vectors_of(xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_parameters v = XSM_EMBEDDING_PARAMETERS_INIT;
    assert_ok(xsm_model_get_embedding_parameters(m, &v, &err), err);
    return v;
}

/* A vector's number as the model means it. */
static double vector_at(const xsm_model *m, uint32_t j, uint32_t h)
{
    return m->layer->tied ? test_weight(m, j, h)
                          : (double)m->layer->w.weight[j * m->layer->w.stride + h] * m->layer->w.alpha;
}

static void hidden_in_double(const xsm_model *m, const float *x, uint32_t features, bool sparse, double *out)
{
    const int32_t pool = m->layer->made.pool;
    double count = 0;
    for (uint32_t j = 0; j < features; j++) {
        count += pool == XSM_POOL_WEIGHTED_MEAN ? fabs((double)x[j]) : !sparse || x[j] != 0;
    }
    for (uint32_t h = 0; h < m->features; h++) {
        double sum = 0;
        for (uint32_t j = 0; j < features; j++) {
            sum += (double)x[j] * vector_at(m, j, h);
        }
        sum /= pool != XSM_POOL_SUM && count > 0 ? count : 1;
        switch (m->layer->made.activation) {
        case XSM_ACTIVATION_RELU:
            sum = sum > 0 ? sum : 0;
            break;
        case XSM_ACTIVATION_TANH:
            sum = tanh(sum);
            break;
        default:
            break;
        }
        out[h] = sum;
    }
}

/* Every kind, one after another. */
static bool next_kind(kind *k, int *number)
{
    int n = (*number)++;
    k->activation = n % 3;
    k->pool = n / 3 % 3;
    k->tied = n / 9 % 2;
    k->bias = n / 18 % 2;
    k->sparse = n / 36 % 2;
    return n < 72;
}

/* -- forward ------------------------------------------------------------------------------------------------------- */

TEST(hidden_vectors_and_scores_are_what_they_should_be)
{
    int number = 0;
    for (kind k; next_kind(&k, &number);) {
        const uint32_t features = k.tied ? CLASSES : FEATURES;
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, features, CLASSES, k.sparse, 3);
        HELD(xsm_model, m) = new_model(NULL, features, HIDDEN, CLASSES, &k);
        fill(m, 8);
        assert_int_equal(xsm_model_feature_count(m), features);
        assert_int_equal(test_model_info(m).hidden, HIDDEN);
        m->w.alpha = 0.5;
        m->layer->w.alpha = 0.75;
        if (number % 5 == 0) {
            assert_ok(xsmi_model_need_row_scale(m, &err), err);
            for (uint32_t c = 0; c < CLASSES; c++) {
                m->w.row_scale[c] = 0.25 + 0.125 * c;
            }
        }
        float hidden[ROWS][HIDDEN + 2], scores[ROWS * CLASSES], some[ROWS * 2];
        uint32_t classes[ROWS * 2];
        for (uint32_t i = 0; i < ROWS * 2; i++) {
            classes[i] = (i * 5 + 1) % CLASSES;
        }
        xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
        assert_ok(xsm_model_hidden_vectors(m, &batch, hidden[0], HIDDEN + 2, &err), err);
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, scores, CLASSES, &err), err);
        assert_ok(xsm_model_scores(m, &batch, classes, 2, some, &err), err);
        for (uint64_t i = 0; i < ROWS; i++) {
            double want[HIDDEN];
            hidden_in_double(m, p.x + i * features, features, k.sparse, want);
            for (uint32_t h = 0; h < HIDDEN; h++) {
                assert_true(fabs((double)hidden[i][h] - want[h]) < 1e-6);
            }
            for (uint32_t c = 0; c < CLASSES; c++) {
                double z = test_bias(m, c);
                for (uint32_t h = 0; h < HIDDEN; h++) {
                    z += want[h] * test_weight(m, c, h);
                }
                assert_true(fabs((double)scores[i * CLASSES + c] - z) < 4e-6);
                for (uint32_t s = 0; s < 2; s++) {
                    assert_true(classes[i * 2 + s] != c || fabs((double)some[i * 2 + s] - z) < 4e-6);
                }
            }
        }
        /* Rows of the host's own are rows, too. */
        xsm_batch values = xsm_batch_values(p.x, ROWS, features, features);
        float again[ROWS * 2];
        if (!k.sparse) {
            assert_ok(xsm_model_scores(m, &values, classes, 2, again, &err), err);
            assert_memory_equal(again, some, sizeof some);
        }
    }
}

/* The start: vectors of squared length 1 on average, each feature's the same whatever the others; W and b zero. */
TEST(a_new_model_is_seeded)
{
    kind k = {0};
    HELD(xsm_model, a) = new_model(NULL, 2000, 24, 3, &k);
    xsm_model *b = new_model(NULL, 500, 24, 4, &k);
    xsm_embedding_parameters v = vectors_of(a), w = vectors_of(b);
    double square = 0, mean = 0;
    for (uint32_t j = 0; j < 2000; j++) {
        for (uint32_t h = 0; h < 24; h++) {
            double x = (double)v.vectors[j * v.feature_step + h];
            assert_true(fabs(x) <= sqrt(3.0 / 24) + 1e-7);
            square += x * x;
            mean += x;
            assert_true(j >= 500 || w.vectors[j * w.feature_step + h] == v.vectors[j * v.feature_step + h]);
        }
    }
    assert_true(fabs(square / 2000 - 1) < 0.02); /* four deviations of that mean */
    assert_true(fabs(mean / 48000) < 4 * sqrt(1.0 / 24 / 48000));
    assert_true(xsmi_model_is_zero(a));
    xsm_model_free(b);
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    o.seed = 4;
    o.scale = 0.25;
    o.pool = XSM_POOL_MEAN;
    assert_ok(xsm_model_new_embedding(NULL, 500, 24, 3, &o, &b, &err), err);
    w = vectors_of(b);
    float most = 0;
    for (uint32_t h = 0; h < 24; h++) {
        assert_true(w.vectors[h] != v.vectors[h]);
        most = fmaxf(most, fabsf(w.vectors[h]));
    }
    assert_true(most > 0.15f && most <= 0.25f);
    const xsm_model_info got = test_model_info(b);
    assert_true(got.bias == o.bias && got.activation == o.activation && got.pool == o.pool && got.tied == o.tied);
    assert_true(got.seed == o.seed && got.scale == o.scale);
    xsm_model_free(b);
}

/* -- the step ------------------------------------------------------------------------------------------------------ */

/* Always with the same draws. */
static double loss_of(xsm_estimator *e, xsm_model *m, const xsm_dataset *data, uint64_t n, double eta, xsm_gradient *g)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch batch = xsm_batch_range(data, 2, n);
    assert_ok(xsm_estimator_bind(e, m, data, &err), err);
    assert_ok(xsm_estimator_gradient(e, &batch, eta, g, &err), err);
    return test_view(g).loss;
}

/* The step on the vectors is -eta times the slope of the loss in them; of tied ones, through both of their places. */
static void check_step(const char *name, const kind *k, uint64_t n, double alpha)
{
    xsm_error err = XSM_ERROR_INIT;
    const uint32_t features = k->tied ? CLASSES : FEATURES;
    const double eta = 0x1p-4;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, features, CLASSES, k->sparse, 3);
    HELD(xsm_model, m) = new_model(NULL, features, HIDDEN, CLASSES, k);
    fill(m, 8);
    if (!k->tied) {
        m->layer->w.alpha = alpha;
    }
    HELD(xsm_estimator, e) = test_estimator(NULL, name, test_smooth_options(name));
    HELD(xsm_gradient, g) = test_gradient(NULL);
    float *vectors = k->tied ? m->w.weight : m->layer->w.weight;
    const size_t stride = k->tied ? m->w.stride : m->layer->w.stride;
    double want[FEATURES][HIDDEN], before[FEATURES][HIDDEN];
    const float h = 0x1p-7f;
    for (uint32_t j = 0; j < features; j++) {
        for (uint32_t d = 0; d < HIDDEN; d++) {
            float *at = &vectors[j * stride + d], held = *at;
            static const float steps[4] = {-2, -1, 1, 2};
            double loss[4];
            volatile float moved[4];
            for (int s = 0; s < 4; s++) {
                moved[s] = *at = held + steps[s] * h;
                loss[s] = loss_of(e, m, p.data, n, eta, g);
            }
            *at = held;
            want[j][d] = (8 * (loss[2] - loss[1]) - (loss[3] - loss[0])) /
                         (6 * ((double)moved[2] - (double)moved[1]) * (k->tied ? 1 : alpha));
            before[j][d] = vector_at(m, j, d);
        }
    }
    double loss = loss_of(e, m, p.data, n, eta, g);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    xsm_batch batch = xsm_batch_range(p.data, 2, n);
    assert_ok(xsm_optimizer_apply(o, &batch, g, eta, &err), err);
    for (uint32_t j = 0; j < features; j++) {
        for (uint32_t d = 0; d < HIDDEN; d++) {
            double slope = (before[j][d] - vector_at(m, j, d)) / eta;
            /* A rectifier's corner may lie within the differences: that is seen where both sides disagree. */
            if (!(fabs(slope - want[j][d]) <= 6e-5 * (1 + fabs(slope)) + 2e-5 * fabs(loss))) {
                fail_msg("%s, activation %d, pool %d, tied %d, batch %llu: feature %u number %u: differences say %.8g, "
                         "the step %.8g",
                         name, k->activation, k->pool, k->tied, (unsigned long long)n, j, d, want[j][d], slope);
            }
        }
    }
}

TEST(every_estimator_steps_the_vectors_down_their_slope)
{
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        const xsm_estimator_ops *ops = xsm_estimator_at(i);
        if (ops->flags & XSM_ESTIMATOR_PROXIMAL) {
            continue; /* see the next test */
        }
        kind identity = {.activation = XSM_ACTIVATION_IDENTITY, .sparse = true};
        kind tanh_mean = {.activation = XSM_ACTIVATION_TANH, .pool = XSM_POOL_MEAN, .bias = true};
        kind tied = {.activation = XSM_ACTIVATION_IDENTITY, .pool = XSM_POOL_MEAN, .tied = true, .sparse = true};
        kind weighted = {.activation = XSM_ACTIVATION_IDENTITY, .pool = XSM_POOL_WEIGHTED_MEAN, .sparse = true};
        check_step(ops->name, &identity, 1, 1);
        check_step(ops->name, &weighted, 6, 1);
        check_step(ops->name, &identity, 6, 0.75);
        check_step(ops->name, &tanh_mean, 6, 1);
        if (!(ops->kind == XSM_ESTIMATOR_HIERARCHY) && !ops->search_plan) { /* those refuse tied vectors */
            check_step(ops->name, &tied, 1, 1);
            check_step(ops->name, &tied, 6, 1);
        }
    }
    kind relu = {.activation = XSM_ACTIVATION_RELU, .sparse = true, .bias = true};
    check_step("softmax", &relu, 1, 1);
    check_step("sampled-softmax", &relu, 6, 1);
}

/* What a network of the host's would do with the gradient that it gets (test_input_gradient holds that against
 * differences, of proximal steps too). */
TEST(the_first_layer_is_a_network_as_a_host_would_have_it)
{
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        const xsm_estimator_ops *ops = xsm_estimator_at(i);
        const uint64_t n = ops->joint ? 1 : 6;
        const double eta = 0x1p-4;
        kind k = {.activation = XSM_ACTIVATION_TANH, .pool = XSM_POOL_MEAN, .bias = true, .sparse = true};
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
        test_problem narrow = {.features = HIDDEN, .classes = CLASSES};
        HELD(xsm_model, m) = new_model(NULL, FEATURES, HIDDEN, CLASSES, &k);
        HELD(xsm_model, linear) = test_model(NULL, &narrow, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        fill(m, 8);
        fill(linear, 8);
        HELD(xsm_estimator, e) = test_estimator(NULL, ops->name, "ridge=0.5");
        HELD(xsm_estimator, host) = test_estimator(NULL, ops->name, "ridge=0.5");
        HELD(xsm_gradient, g) = test_gradient(NULL);
        HELD(xsm_gradient, of_host) = test_gradient(NULL);
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        HELD(xsm_optimizer, p_o) = test_optimizer(NULL, linear);
        xsm_batch batch = xsm_batch_range(p.data, 2, n);
        float hidden[6 * HIDDEN], back[6 * HIDDEN];
        double want[FEATURES][HIDDEN];
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        assert_ok(xsm_estimator_bind_labels(host, linear, p.data, &err), err);
        assert_ok(xsm_model_hidden_vectors(m, &batch, hidden, HIDDEN, &err), err);
        xsm_batch values = xsm_batch_values(hidden, n, HIDDEN, HIDDEN);
        values.dataset = p.data;
        values.first = 2;
        assert_ok(xsm_estimator_gradient_input(host, &values, eta, of_host, back, HIDDEN, &err), err);
        assert_ok(xsm_optimizer_apply(p_o, &values, of_host, eta, &err), err);
        for (uint32_t j = 0; j < FEATURES; j++) {
            for (uint32_t h = 0; h < HIDDEN; h++) {
                double v = vector_at(m, j, h);
                for (uint64_t r = 0; r < n; r++) {
                    const float *x = p.x + (2 + r) * FEATURES;
                    double count = 0, phi = (double)hidden[r * HIDDEN + h];
                    for (uint32_t f = 0; f < FEATURES; f++) {
                        count += x[f] != 0;
                    }
                    v -= eta * (double)x[j] / count * (1 - phi * phi) * (double)back[r * HIDDEN + h];
                }
                want[j][h] = v / (1 + eta * 0.5 / ROWS);
            }
        }
        test_take_step(e, o, g, &batch, eta);
        for (uint32_t j = 0; j < FEATURES; j++) {
            for (uint32_t h = 0; h < HIDDEN; h++) {
                if (!(fabs(vector_at(m, j, h) - want[j][h]) < 1e-6 * (1 + fabs(want[j][h])))) {
                    fail_msg("%s: feature %u number %u: %.8g, and %.8g by hand", ops->name, j, h, vector_at(m, j, h),
                             want[j][h]);
                }
            }
        }
        assert_true(test_hash(m) == test_hash(linear)); /* the output layer has taken the host's step */
    }
}

/* -- training ------------------------------------------------------------------------------------------------------ */

static uint64_t train(const test_problem *p, const kind *k, const char *name, const char *options, uint64_t batch,
                      xsm_context *ctx, double eta)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = new_model(ctx, p->features, 33, p->classes, k);
    HELD(xsm_estimator, e) = test_estimator(ctx, name, options);
    HELD(xsm_optimizer, o) = test_optimizer(ctx, m);
    NEW(xsm_trainer, t,
        xsm_trainer_new(ctx, m, p->data, e, o, STRUCT(xsm_trainer_options, .epochs = 2, .batch = batch, .eta = eta), &t,
                        &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    uint64_t hash = test_hash_embedding(m);
    xsm_trainer_free(t);
    return hash;
}

TEST(training_gives_the_same_bits_on_any_machine)
{
    static const struct {
        const char *name, *options;
        uint64_t batch;
        kind k;
    } runs[] = {
        {"softmax", "ridge=0.5", 32, {.activation = XSM_ACTIVATION_RELU, .bias = true}},
        {"sampled-softmax", "negatives=7 ridge=0.5", 200, {.pool = XSM_POOL_MEAN, .sparse = true}},
        {"negative-sampling", "sampler=tree", 96, {.activation = XSM_ACTIVATION_TANH, .sparse = true, .bias = true}},
        {"umax", "ridge=0.5", 130, {.sparse = true}},
        {"implicit", "ridge=0.5", 1, {.pool = XSM_POOL_MEAN, .sparse = true, .bias = true}},
        {"implicit", "ridge=0.5", 1, {.tied = true, .sparse = true}},
        {"nce", "ridge=0.5", 130, {.tied = true, .sparse = true, .bias = true}},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(500, 60, 60, runs[i].k.sparse, 4);
        uint64_t want = 0;
        for (int machine = 0; machine < 5; machine++) {
            static const uint32_t threads[5] = {1, 2, 5, 3, 4};
            static const int runners[5] = {TEST_BUILT_IN, TEST_BUILT_IN, TEST_BUILT_IN, TEST_REVERSED, TEST_PTHREADS};
            HELD(xsm_context, ctx) =
                test_context(threads[machine], runners[machine], machine == 1 ? UINT32_MAX & 7 : 0);
            uint64_t hash = train(&p, &runs[i].k, runs[i].name, runs[i].options, runs[i].batch, ctx, 0.1);
            want = machine == 0 ? hash : want;
            if (hash != want) {
                fail_msg("%s %s: other bits on machine %d", runs[i].name, runs[i].options, machine);
            }
        }
    }
}

/* Steps on rows that are the host's own, dense or sparse as it has them, are the steps on a dataset of them. */
TEST(rows_may_be_the_hosts_own)
{
    enum { ROWS_HERE = 60, FEATURES_HERE = 9, CLASSES_HERE = 20, MOST = 15 };
    static const char *const optimizers[] = {"sgd", "adagrad"}, *const estimators[] = {"softmax", "nce"};
    for (int bits = 0; bits < 32; bits++) {
        const kind k = {.bias = true, .sparse = bits & 1};
        const uint64_t n = bits & 2 ? MOST : 1;
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS_HERE, FEATURES_HERE, CLASSES_HERE, k.sparse, 6);
        uint64_t hash[2];
        for (int own = 0; own < 2; own++) {
            HELD(xsm_model, m) = new_model(NULL, FEATURES_HERE, 2, CLASSES_HERE, &k);
            HELD(xsm_estimator, e) = test_estimator(NULL, estimators[bits >> 4], "");
            HELD(xsm_gradient, g) = test_gradient(NULL);
            assert_ok(xsm_model_set_layout(m, bits & 4 ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR, &err), err);
            MADE(xsm_optimizer, o, xsm_optimizer_new(NULL, optimizers[bits >> 3 & 1], &o, &err));
            assert_ok(xsm_optimizer_bind(o, m, &err), err);
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            for (uint64_t i = 0; i < ROWS_HERE; i += n) {
                uint64_t offsets[MOST + 1] = {0};
                uint32_t index[MOST * FEATURES_HERE];
                float values[MOST * FEATURES_HERE];
                for (uint64_t r = 0; r < n; r++) {
                    xsm_row row = XSM_ROW_INIT;
                    assert_ok(xsm_dataset_get_row(p.data, i + r, &row, &err), err);
                    offsets[r + 1] = offsets[r] + row.count;
                    memcpy(values + offsets[r], row.values, row.count * sizeof *values);
                    memcpy(index + offsets[r], row.index ? row.index : index,
                           row.index ? row.count * sizeof *index : 0);
                }
                xsm_batch batch = xsm_batch_range(p.data, i, n);
                if (own) {
                    batch = k.sparse ? xsm_batch_sparse_values(offsets, index, values, n, FEATURES_HERE)
                                     : xsm_batch_values(values, n, FEATURES_HERE, FEATURES_HERE);
                    batch.dataset = p.data;
                    batch.first = i;
                }
                test_take_step(e, o, g, &batch, 0.1);
            }
            hash[own] = test_hash_embedding(m);
        }
        if (hash[0] != hash[1]) {
            fail_msg("%s by %s, sparse %d, batches of %llu, bits %d: other bits than on a dataset",
                     estimators[bits >> 4], optimizers[bits >> 3 & 1], k.sparse, (unsigned long long)n, bits);
        }
    }
}

/* A run that is cut off and goes on from its checkpoint ends at the same bits, the scale of the vectors included. */
TEST(a_run_goes_on_from_its_checkpoint)
{
    for (int way = 0; way < 4; way++) {
        const bool tied = way & 1, adagrad = way & 2; /* adagrad takes no ridge, and keeps sums of squares */
        const char *options = adagrad ? "" : "ridge=20";
        kind k = {.activation = XSM_ACTIVATION_TANH, .bias = true, .sparse = true, .tied = tied};
        HELD_STRUCT(test_problem, p) = test_problem_new(200, 40, 40, true, 4);
        uint64_t want = 0;
        for (int run = 0; run < 2; run++) {
            xsm_model *m = new_model(NULL, 40, 12, 40, &k);
            for (uint64_t epochs = run ? 2 : 4; epochs <= 4; epochs += 2) {
                /* The second half starts from another model than it left. */
                xsm_model *now = epochs == 4 && run ? new_model(NULL, 40, 12, 40, &k) : m;
                xsm_estimator *e = test_estimator(NULL, "sampled-softmax", options);
                NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, adagrad ? "adagrad" : "sgd", &o, &err));
                NEW(xsm_trainer, t,
                    xsm_trainer_new(NULL, now, p.data, e, o,
                                    STRUCT(xsm_trainer_options, .epochs = epochs, .batch = 8, .eta = 0.1), &t, &err));
                if (now != m) {
                    assert_ok(xsm_trainer_resume(t, test_path("half.safetensors"), NULL, &err), err);
                }
                assert_ok(xsm_trainer_run(t, &err), err);
                assert_true(now->layer->w.alpha < 1 || tied || adagrad);
                if (run && now == m) {
                    assert_ok(xsm_trainer_checkpoint(t, test_path("half.safetensors"), NULL, &err), err);
                }
                xsm_trainer_free(t);
                xsm_optimizer_free(o);
                xsm_estimator_free(e);
                if (now != m) {
                    xsm_model_free(m);
                    m = now;
                }
            }
            want = run ? want : test_hash_embedding(m);
            assert_true(test_hash_embedding(m) == want);
            xsm_model_free(m);
        }
        /* It is no checkpoint of another model. */
        HELD(xsm_model, linear) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        HELD(xsm_estimator, e) = test_estimator(NULL, "sampled-softmax", "ridge=20");
        HELD(xsm_optimizer, o) = test_optimizer(NULL, linear);
        MADE(xsm_trainer, t,
             xsm_trainer_new(NULL, linear, p.data, e, o,
                             STRUCT(xsm_trainer_options, .epochs = 4, .batch = 8, .eta = 0.1), &t, &err));
        assert_int_not_equal(xsm_trainer_resume(t, test_path("half.safetensors"), NULL, &err), XSM_OK);
    }
}

/* Which of two words of two is right depends on the other: a linear model cannot, one with a rectifier can. */
TEST(a_hidden_layer_learns_what_a_linear_model_cannot)
{
    enum { N = 400 };
    uint64_t offsets[N + 1] = {0};
    uint32_t index[2 * N], labels[N];
    float values[2 * N];
    for (uint32_t i = 0; i < N; i++) {
        uint32_t a = i & 1, b = i >> 1 & 1;
        index[2 * i] = a;
        index[2 * i + 1] = 2 + b;
        values[2 * i] = values[2 * i + 1] = 1;
        labels[i] = a ^ b;
        offsets[i + 1] = 2 * (i + 1);
    }
    xsm_labels given = {sizeof given, 2, 0, NULL, labels, NULL};
    MADE(xsm_dataset, data,
         xsm_dataset_from_csr(NULL,
                              STRUCT(xsm_csr_rows, .offsets = offsets, .index = index, .values = values, .rows = N,
                                     .features = 4, .labels = &given, .ownership = XSM_BORROW),
                              &data, &err));
    for (int hidden = 0; hidden < 2; hidden++) {
        kind k = {.activation = XSM_ACTIVATION_RELU, .bias = true};
        HELD(xsm_model, m) = NULL;
        if (hidden) {
            m = new_model(NULL, 4, 8, 2, &k);
        } else {
            assert_ok(xsm_model_new_linear(NULL, 4, 2, NULL, &m, &err), err);
        }
        HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "");
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        xsm_trainer_options settings = XSM_TRAINER_OPTIONS_INIT;
        settings.epochs = 60;
        settings.batch = 4;
        settings.eta = 0.2;
        settings.evaluate_every = 60;
        settings.test = data;
        xsm_metrics metrics = XSM_METRICS_INIT;
        MADE(xsm_trainer, t, xsm_trainer_new(NULL, m, data, e, o, &settings, &t, &err));
        assert_ok(xsm_trainer_run(t, &err), err);
        assert_ok(xsm_evaluate(NULL, m, data, NULL, &metrics, &err), err);
        assert_true(hidden ? metrics.error == 0 && metrics.log_loss < 0.1 : metrics.log_loss > 0.69);
    }
}

/* A ridge shrinks the vectors by 1/(1 + eta mu/N) a step, however small their scale becomes. */
TEST(a_strong_ridge_shrinks_the_vectors)
{
    kind k = {.sparse = true};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    HELD(xsm_model, m) = new_model(NULL, FEATURES, HIDDEN, CLASSES, &k);
    xsm_estimator *e = test_estimator(NULL, "sampled-softmax", "ridge=80"); /* a third left a step */
    xsm_gradient *g = test_gradient(NULL);
    xsm_optimizer *o = test_optimizer(NULL, m);
    uint32_t absent = UINT32_MAX; /* a feature that row 3 has not */
    for (uint32_t j = 0; j < FEATURES; j++) {
        absent = p.x[3 * FEATURES + j] == 0 ? j : absent;
    }
    double start = vector_at(m, absent, 1);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    for (int step = 1; step <= 40; step++) {
        xsm_batch batch = xsm_batch_range(p.data, 3, 1);
        test_take_step(e, o, g, &batch, 1);
        double want = start / pow(3, step);
        assert_true(fabs(vector_at(m, absent, 1) - want) <= 2e-6 * fabs(want) + 1e-30);
        assert_true(m->layer->w.alpha > 1e-7);
    }
    xsm_optimizer_free(o);
    xsm_gradient_free(g);
    xsm_estimator_free(e);
}

/* -- evaluation, prediction, indexes, corrections ------------------------------------------------------------------ */

TEST(evaluation_prediction_and_search_agree_with_the_scores)
{
    uint64_t starts[ROWS + 1];
    uint32_t labels[2 * ROWS];
    for (uint32_t i = 0; i < ROWS; i++) { /* some rows with two labels */
        starts[i] = i + i / 2;
        labels[starts[i]] = i % CLASSES;
        labels[starts[i] + i % 2] = (i + i % 2) % CLASSES;
    }
    starts[ROWS] = ROWS + ROWS / 2;
    for (int corrected = 0; corrected < 3; corrected++) {
        kind k = {.activation = XSM_ACTIVATION_TANH, .bias = true, .sparse = true};
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
        HELD(xsm_dataset, several) = test_relabel(&p, true, CLASSES, starts, labels);
        HELD(xsm_model, m) = new_model(NULL, FEATURES, HIDDEN, CLASSES, &k);
        fill(m, 9);
        if (corrected) {
            xsm_estimator *e =
                test_estimator(NULL, "negative-sampling", corrected == 1 ? "sampler=frequency" : "sampler=tree");
            xsm_gradient *g = test_gradient(NULL);
            xsm_optimizer *o = test_optimizer(NULL, m);
            xsm_batch batch = xsm_batch_range(p.data, 0, 5);
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            test_take_step(e, o, g, &batch, 0.1);
            assert_int_equal(test_model_info(m).correction,
                             corrected == 1 ? XSM_CORRECTION_CLASSES : XSM_CORRECTION_TREE);
            xsm_optimizer_free(o);
            xsm_gradient_free(g);
            xsm_estimator_free(e);
        }
        float scores[ROWS * CLASSES], chosen[ROWS * CLASSES];
        uint32_t all[ROWS * CLASSES];
        for (uint32_t i = 0; i < ROWS * CLASSES; i++) {
            all[i] = i % CLASSES;
        }
        xsm_batch batch = xsm_batch_range(several, 0, ROWS);
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, scores, CLASSES, &err), err);
        assert_ok(xsm_model_scores(m, &batch, all, CLASSES, chosen, &err), err);
        double loss = 0;
        uint32_t best[ROWS];
        for (uint32_t i = 0; i < ROWS; i++) {
            const float *z = scores + i * CLASSES;
            double sum = 0, own = 0;
            best[i] = 0;
            for (uint32_t c = 0; c < CLASSES; c++) {
                assert_true(fabsf(z[c] - chosen[i * CLASSES + c]) < 1e-5f);
                sum += exp((double)z[c]);
                best[i] = z[c] > z[best[i]] ? c : best[i];
            }
            uint64_t count = starts[i + 1] - starts[i];
            for (uint64_t j = starts[i]; j < starts[i + 1]; j++) {
                own += (double)z[labels[j]] / (double)count;
            }
            loss += log(sum) - own;
        }
        xsm_metrics metrics = XSM_METRICS_INIT;
        assert_ok(xsm_evaluate(NULL, m, several, NULL, &metrics, &err), err);
        assert_true(fabs(metrics.log_loss - loss / ROWS) < 1e-5);
        xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
        uint32_t found[ROWS];
        options.top = 1;
        for (int indexed = 0; indexed < 2 - (corrected != 0); indexed++) {
            HELD(xsm_index, index) = NULL;
            if (indexed) {
                assert_ok(xsm_index_new(NULL, "exact", &index, &err), err);
                assert_ok(xsm_index_build_model(index, m, &err), err);
                options.index = index;
            }
            MADE(xsm_predictor, predictor, xsm_predictor_new(m, &options, &predictor, &err));
            assert_ok(test_predict(predictor, &batch, found, NULL, NULL, &err), err);
            assert_memory_equal(found, best, sizeof best);
        }
    }
}

/* -- files --------------------------------------------------------------------------------------------------------- */

TEST(a_model_comes_back_from_its_file)
{
    int number = 0;
    for (kind k; next_kind(&k, &number);) {
        const uint32_t features = k.tied ? CLASSES : FEATURES;
        HELD(xsm_model, m) = new_model(NULL, features, HIDDEN, CLASSES, &k);
        fill(m, 8);
        m->layer->w.alpha = k.tied ? 1 : 0.625;
        const char *path = test_path("embedding.safetensors");
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        MADE(xsm_model, back, xsm_model_load(NULL, path, NULL, NULL, &back, &err));
        const xsm_model_info a = test_model_info(m), b = test_model_info(back);
        assert_true(a.bias == b.bias && a.activation == b.activation && a.pool == b.pool && a.tied == b.tied);
        assert_true(a.seed == b.seed && a.scale == b.scale && a.hidden == b.hidden);
        assert_int_equal(xsm_model_feature_count(back), features);
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, features, CLASSES, k.sparse, 3);
        xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
        float scores[2][ROWS * CLASSES];
        vectors_of(m); /* multiplies the scale out, as saving did */
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, scores[0], CLASSES, &err), err);
        assert_ok(xsm_model_score_range(back, &batch, 0, CLASSES, scores[1], CLASSES, &err), err);
        assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
        /* It is trained on in memory of its own. */
        xsm_optimizer_free(test_optimizer(NULL, back));
        assert_true(test_hash_embedding(back) == test_hash_embedding(m));
    }
}

/* Writes a container with a weight [2,3] and an embedding [4,3] of another program, and loads it. */
static xsm_status load_foreign(const char *metadata, const char *shape, xsm_model **out, xsm_error *err)
{
    char header[512];
    float numbers[18];
    unsigned char file[1024];
    for (size_t i = 0; i < 18; i++) {
        numbers[i] = (float)i / 4;
    }
    int length = snprintf(header, sizeof header,
                          "{%s\"weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                          "\"embedding\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[24,72]}}",
                          metadata, shape);
    while (length % 8 != 0) {
        header[length++] = ' ';
    }
    uint64_t size = (uint64_t)length;
    memcpy(file, &size, 8);
    memcpy(file + 8, header, size);
    memcpy(file + 8 + size, numbers, sizeof numbers);
    return xsm_model_load(NULL, test_file("foreign.safetensors", file, 8 + (size_t)size + sizeof numbers), NULL, NULL,
                          out, err);
}

TEST(files_of_other_programs_load_or_are_refused)
{
    NEW(xsm_model, m, load_foreign("", "[4,3]", &m, &err));
    assert_int_equal(xsm_model_feature_count(m), 4);
    assert_int_equal(test_model_info(m).hidden, 3);
    float x[4] = {0, 1, 0, 2}, z[2];
    xsm_batch batch = xsm_batch_values(x, 1, 4, 4);
    assert_ok(xsm_model_score_range(m, &batch, 0, 2, z, 2, &err), err);
    /* phi = v_1 + 2 v_3 = (39, 42, 45)/4 + ... : v_1 = (9,10,11)/4, v_3 = (15,16,17)/4 */
    assert_true(z[0] == (39.0f * 0 + 42 * 1 + 45 * 2) / 16 && z[1] == (39.0f * 3 + 42 * 4 + 45 * 5) / 16);
    xsm_model_free(m);
    static const char *const bad[][2] = {
        {"", "[3,4]"},
        {"", "[12]"},
        {"\"__metadata__\":{\"first_layer\":\"cosine sum seed=1 scale=1\"},", "[4,3]"},
        {"\"__metadata__\":{\"first_layer\":\"relu most seed=1 scale=1\"},", "[4,3]"},
        {"\"__metadata__\":{\"first_layer\":\"relu sum seed=-1 scale=1\"},", "[4,3]"},
        {"\"__metadata__\":{\"first_layer\":\"relu sum seed=1 scale=-1\"},", "[4,3]"},
        {"\"__metadata__\":{\"first_layer\":\"relu sum seed=1\"},", "[4,3]"},
        {"\"__metadata__\":{\"first_layer\":\"relu sum seed=1 scale=1 loose\"},", "[4,3]"},
        {"\"__metadata__\":{\"first_layer\":\"relu sum seed=1 scale=1 tied\"},", "[4,3]"},
        {"\"__metadata__\":{\"first_layer\":\"\"},", "[4,3]"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(load_foreign(bad[i][0], bad[i][1], &m, &err), XSM_ERROR_FORMAT, err);
    }
    assert_ok(load_foreign("\"__metadata__\":{\"first_layer\":\"relu mean seed=1 scale=1\"},", "[4,3]", &m, &err), err);
    /* A number that is none is not saved. */
    vectors_of(m).vectors[2] = INFINITY;
    assert_fails(xsm_model_save(m, test_path("none.safetensors"), NULL, &err), XSM_ERROR_DIVERGED, err);
    assert_non_null(strstr(err.message, "feature 0"));
    xsm_model_free(m);
}

/* -- what is refused ----------------------------------------------------------------------------------------------- */

TEST(what_cannot_be_is_refused)
{
    xsm_model *m = NULL;
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    assert_fails(xsm_model_new_embedding(NULL, 4, 3, 2, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_new_embedding(NULL, 0, 3, 2, NULL, &m, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_model_new_embedding(NULL, 4, 0, 2, NULL, &m, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_model_new_embedding(NULL, 4, XSM_HIDDEN_MAX + 1, 2, NULL, &m, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_model_new_embedding(NULL, 4, 3, 0, NULL, &m, &err), XSM_ERROR_RANGE, err);
    for (int i = 0; i < 7; i++) {
        o = (xsm_embedding_options)XSM_EMBEDDING_OPTIONS_INIT;
        o.bias = i == 0 ? 2 : 0;
        o.activation = i == 1 ? 3 : 0;
        o.pool = i == 2 ? -1 : 0;
        o.tied = i == 3 ? 2 : 0;
        o.scale = i == 4 ? -2 : i == 5 ? NAN : 0;
        o.seed = i == 6 ? UINT64_MAX : 0;
        assert_fails(xsm_model_new_embedding(NULL, 4, 3, 2, &o, &m, &err), XSM_ERROR_RANGE, err);
    }
    o = (xsm_embedding_options)XSM_EMBEDDING_OPTIONS_INIT;
    for (int zeros = 0; zeros < 2; zeros++) { /* 0 is a scale, too */
        o.scale = zeros ? 0 : XSM_DEFAULT;
        assert_ok(xsm_model_new_embedding(NULL, 4, 3, 2, &o, &m, &err), err);
        xsm_embedding_view v = XSM_EMBEDDING_VIEW_INIT;
        assert_ok(xsm_model_get_embedding_view(m, &v, &err), err);
        for (int j = 0; j < 4; j++) {
            assert_true((v.vectors[j * v.feature_step] == 0) == zeros);
        }
        const char *path = test_path("zeros"); /* the scale comes back with the file */
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        xsm_model_free(m);
        assert_ok(xsm_model_load(NULL, path, NULL, NULL, &m, &err), err);
        assert_true(test_model_info(m).scale == (zeros ? 0 : 1)); /* sqrt(3/H), H = 3 */
        xsm_model_free(m);
        m = NULL;
    }
    o = (xsm_embedding_options)XSM_EMBEDDING_OPTIONS_INIT;
    o.tied = 1;
    assert_fails(xsm_model_new_embedding(NULL, 4, 3, 2, &o, &m, &err), XSM_ERROR_SHAPE, err);
    assert_ok(xsm_model_new_embedding(NULL, CLASSES, 3, CLASSES, &o, &m, &err), err);
    assert_fails(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_model_free(m);

    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    xsm_model *linear = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_embedding_parameters v = XSM_EMBEDDING_PARAMETERS_INIT;
    float out[HIDDEN];
    xsm_batch batch = xsm_batch_range(p.data, 0, 1);
    assert_fails(xsm_model_get_embedding_parameters(linear, &v, &err), XSM_ERROR_STATE, err);
    assert_int_equal(test_model_info(linear).hidden, 0);
    assert_fails(xsm_model_hidden_vectors(linear, &batch, out, HIDDEN, &err), XSM_ERROR_STATE, err);
    kind k = {0};
    m = new_model(NULL, FEATURES, HIDDEN, CLASSES, &k);
    assert_fails(xsm_model_hidden_vectors(m, &batch, out, HIDDEN - 1, &err), XSM_ERROR_SHAPE, err);
    assert_fails(xsm_model_hidden_vectors(m, &batch, NULL, HIDDEN, &err), XSM_ERROR_ARGUMENT, err);

    /* All rows at once, batches as wholes, and the gradient with respect to the row. */
    xsm_estimator *e = test_estimator(NULL, "softmax", "");
    xsm_gradient *g = test_gradient(NULL);
    assert_fails(xsm_fit_full_batch(NULL, m, p.data, e, NULL, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    float input[FEATURES];
    assert_fails(xsm_estimator_gradient_input(e, &batch, 1, g, input, FEATURES, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_estimator_free(e);
    e = test_estimator(NULL, "implicit", "");
    xsm_optimizer *optimizer = test_optimizer(NULL, m);
    xsm_trainer_options settings = XSM_TRAINER_OPTIONS_INIT;
    settings.batch = 2;
    xsm_trainer *t = NULL;
    assert_fails(xsm_trainer_new(NULL, m, p.data, e, optimizer, &settings, &t, &err), XSM_ERROR_UNSUPPORTED, err);
    batch = xsm_batch_range(p.data, 0, 2);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_UNSUPPORTED, err);

    /* A gradient of a linear model is not one of this. */
    batch = xsm_batch_range(p.data, 0, 1);
    assert_ok(xsm_estimator_bind(e, linear, p.data, &err), err);
    assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
    assert_fails(xsm_optimizer_apply(optimizer, &batch, g, 1, &err), XSM_ERROR_SHAPE, err);
    xsm_optimizer_free(optimizer);
    xsm_gradient_free(g);
    xsm_estimator_free(e);
    xsm_model_free(m);
    xsm_model_free(linear);

    /* Bounded rows that are vectors of features, too. */
    HELD_STRUCT(test_problem, square) = test_problem_new(ROWS, CLASSES, CLASSES, true, 3);
    kind tied = {.tied = true};
    m = new_model(NULL, CLASSES, HIDDEN, CLASSES, &tied);
    e = test_estimator(NULL, "umax", "ridge=1");
    optimizer = test_optimizer(NULL, m);
    g = test_gradient(NULL);
    batch = xsm_batch_range(square.data, 0, 1);
    assert_ok(xsm_estimator_bind(e, m, square.data, &err), err);
    assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g, &err), err);
    uint64_t before = test_hash_embedding(m);
    assert_fails(xsm_optimizer_apply(optimizer, &batch, g, 0.1, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_true(test_hash_embedding(m) == before);
    xsm_optimizer_free(optimizer);
    xsm_gradient_free(g);
    xsm_estimator_free(e);
    xsm_model_free(m);
}

TEST(a_step_that_would_overflow_is_divergence)
{
    kind k = {.sparse = true};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    HELD(xsm_model, m) = new_model(NULL, FEATURES, HIDDEN, CLASSES, &k);
    HELD(xsm_estimator, e) = test_estimator(NULL, "sampled-softmax", "");
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    MADE(xsm_trainer, t,
         xsm_trainer_new(NULL, m, p.data, e, o, STRUCT(xsm_trainer_options, .epochs = 200, .eta = 1e6, .batch = 4), &t,
                         &err));
    assert_fails(xsm_trainer_run(t, &err), XSM_ERROR_DIVERGED, err);
    assert_ok(xsm_model_save(m, test_path("finite.safetensors"), NULL, &err),
              err); /* it would say if one were not finite */
}

/* -- the rest ------------------------------------------------------------------------------------------------------ */

TEST(a_rate_is_chosen_and_the_model_left_new)
{
    for (int tied = 0; tied < 2; tied++) {
        kind k = {.sparse = true, .tied = tied};
        const uint32_t features = tied ? CLASSES : FEATURES;
        HELD_STRUCT(test_problem, p) = test_problem_new(600, features, CLASSES, true, 3);
        HELD(xsm_model, m) = new_model(NULL, features, HIDDEN, CLASSES, &k);
        HELD(xsm_model, again) = new_model(NULL, features, HIDDEN, CLASSES, &k);
        HELD(xsm_estimator, e) = test_estimator(NULL, "sampled-softmax", "");
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        MADE(xsm_tuning, tuning, xsm_tune_eta(NULL, m, p.data, e, o, NULL, &tuning, &err));
        assert_true(test_hash_embedding(m) == test_hash_embedding(again));
    }
}

static xsm_status use(void *state, xsm_context *ctx, xsm_error *err)
{
    const test_problem *p = state;
    xsm_embedding_options options = XSM_EMBEDDING_OPTIONS_INIT;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_model, back) = NULL;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_gradient, g) = NULL;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_embedding_parameters v = XSM_EMBEDDING_PARAMETERS_INIT;
    xsm_batch batch = xsm_batch_range(p->data, 0, 6);
    uint32_t classes[6] = {0};
    float scores[6];
    const char *path = test_path("memory.safetensors");
    options.activation = XSM_ACTIVATION_RELU;
    xsm_status status = xsm_model_new_embedding(ctx, FEATURES, HIDDEN, CLASSES, &options, &m, err);
    status = status == XSM_OK ? xsm_estimator_new(ctx, "sampled-softmax", &e, err) : status;
    status = status == XSM_OK ? xsm_estimator_bind(e, m, p->data, err) : status;
    status = status == XSM_OK ? xsm_optimizer_new(ctx, "sgd", &o, err) : status;
    status = status == XSM_OK ? xsm_optimizer_bind(o, m, err) : status;
    status = status == XSM_OK ? xsm_gradient_new(ctx, &g, err) : status;
    status = status == XSM_OK ? xsm_estimator_gradient(e, &batch, 0.1, g, err) : status;
    status = status == XSM_OK ? xsm_optimizer_apply(o, &batch, g, 0.1, err) : status;
    status = status == XSM_OK ? xsm_model_scores(m, &batch, classes, 1, scores, err) : status;
    status = status == XSM_OK ? xsm_evaluate(ctx, m, p->data, NULL, &metrics, err) : status;
    status = status == XSM_OK ? xsm_model_save(m, path, NULL, err) : status;
    status = status == XSM_OK ? xsm_model_load(ctx, path, NULL, NULL, &back, err) : status;
    status = status == XSM_OK ? xsm_model_get_embedding_parameters(back, &v, err) : status;
    return status;
}

TEST(every_allocation_may_fail)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    assert_true(test_every_allocation(use, &p) > 20);
}
