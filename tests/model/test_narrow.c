/*
 * Tests of weights in fewer bits: conversions bit by bit, scores against those of models of float32 and sums in double
 * precision, files, and what is refused.
 */
#include "narrow_kinds.h"
#include "sparse_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden/narrow_golden.h"
#include "model/model.h"
#include "model/model_file.h"

#include <xsoftmax.h>
#include <xsoftmax/tensors.h>
#include <xsoftmax/stored_weights.h>

#define CLASSES 611
#define FEATURES 75
#define ROWS 77

static float weight_of(uint32_t k, uint32_t j)
{
    return ((float)(noise(k * 1009 + j) % 20001) - 10000) / (float)(3000 + 100 * (k % 50));
}

static rows *make_rows(xsm_context *ctx, uint32_t features)
{
    const sparse_shape shape = {ROWS, features, CLASSES, 30, 4, false};
    return rows_new(ctx, &shape);
}

/* Weights of W, then the vectors of features if there are any. */
static void fill(xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    for (uint32_t k = 0; k < p.classes; k++) {
        for (uint32_t j = 0; j < p.features; j++) {
            p.weight[k * p.class_step + j * p.feature_step] = k == 7 ? 0 : weight_of(k, j);
        }
        if (p.bias) {
            p.bias[k] = weight_of(k, 5000);
        }
    }
    assert_ok(xsm_model_set_metadata(m, "maker", "test", &err), err);
}

static xsm_model *make_linear(xsm_context *ctx, int32_t layout, bool bias)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_model, m,
        xsm_model_new_linear(ctx, FEATURES, CLASSES, STRUCT(xsm_model_options, .bias = bias, .layout = layout), &m,
                             &err));
    fill(m);
    return m;
}

static xsm_model *make_embedding(xsm_context *ctx, bool tied)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    o.bias = 1;
    o.tied = tied;
    o.activation = tied ? XSM_ACTIVATION_IDENTITY : XSM_ACTIVATION_TANH;
    o.pool = XSM_POOL_MEAN;
    NEW(xsm_model, m, xsm_model_new_embedding(ctx, tied ? CLASSES : FEATURES, 21, CLASSES, &o, &m, &err));
    return m;
}

/* -- conversions --------------------------------------------------------------------------------------------------- */

static xsm_model *one_row(const float *weights, uint32_t features)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    NEW(xsm_model, m, xsm_model_new_linear(NULL, features, 1, NULL, &m, &err));
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    memcpy(p.weight, weights, features * sizeof *weights);
    return m;
}

TEST(bfloat16_is_rounded_to_nearest_even)
{
    enum { COUNT = sizeof bfloat16_golden / sizeof *bfloat16_golden };
    float weights[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(weights + i, &bfloat16_golden[i][0], sizeof *weights);
    }
    HELD(xsm_model, m) = one_row(weights, COUNT);
    HELD(xsm_model, small) = test_converted(m, XSM_DTYPE_BFLOAT16);
    HELD(xsm_model, back) = NULL;
    xsm_parameters_view v = XSM_PARAMETERS_VIEW_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_view(small, &v, &err), err);
    assert_ok(xsm_model_get_parameters(small, &p, &err), err);
    assert_true(!v.weight && !p.weight && !v.class_scales && v.scale == 1);
    assert_true(v.dtype == XSM_DTYPE_BFLOAT16 && p.dtype == XSM_DTYPE_BFLOAT16 && v.bytes == 2 * COUNT);
    assert_int_equal(v.class_step, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(((const uint16_t *)v.data)[i], bfloat16_golden[i][1]);
    }
    back = test_converted(small, XSM_DTYPE_FLOAT32);
    assert_ok(xsm_model_get_view(back, &v, &err), err);
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t bits;
        memcpy(&bits, v.weight + i, sizeof bits);
        assert_int_equal(bits, bfloat16_golden[i][1] << 16);
    }
}

TEST(int8_has_a_factor_for_each_row)
{
    enum { COUNT = sizeof int8_golden / sizeof *int8_golden };
    for (size_t i = 0; i < COUNT; i++) {
        HELD(xsm_model, m) = one_row(int8_golden[i].weights, ROW_WIDTH);
        HELD(xsm_model, small) = test_converted(m, XSM_DTYPE_INT8);
        xsm_parameters_view v = XSM_PARAMETERS_VIEW_INIT;
        assert_ok(xsm_model_get_view(small, &v, &err), err);
        assert_true(v.dtype == XSM_DTYPE_INT8 && v.bytes == ROW_WIDTH &&
                    v.class_scales[0] == (double)int8_golden[i].factor);
        assert_memory_equal(v.data, int8_golden[i].numbers, ROW_WIDTH);
    }
}

TEST(errors_are_bounded)
{
    HELD(xsm_model, m) = make_linear(NULL, XSM_LAYOUT_CLASS_MAJOR, true);
    for (EACH_KIND(kind)) {
        HELD(xsm_model, small) = test_converted(m, kind->dtype);
        HELD(xsm_model, back) = test_converted(small, XSM_DTYPE_FLOAT32);
        for (uint32_t k = 0; k < CLASSES; k++) {
            const float *was = m->w.weight + k * m->w.stride, *is = back->w.weight + k * back->w.stride;
            float most = 0;
            for (uint32_t j = 0; j < FEATURES; j++) {
                most = fmaxf(most, fabsf(was[j]));
            }
            for (uint32_t j = 0; j < FEATURES; j++) {
                const double bound = kind->error * (double)(kind->factors ? most : fabsf(was[j]));
                assert_true(fabs((double)is[j] - (double)was[j]) <= bound + (double)most * 0x1p-23);
            }
        }
    }
}

TEST(conversions_keep_the_rest)
{
    HELD(xsm_model, m) = make_linear(NULL, XSM_LAYOUT_FEATURE_MAJOR, true);
    HELD(xsm_model, same) = make_linear(NULL, 0, true);
    for (EACH_KIND(kind)) {
        HELD(xsm_model, small) = test_converted(m, kind->dtype);
        HELD(xsm_model, other) = test_converted(same, kind->dtype);
        HELD(xsm_model, again) = test_converted(small, kind->dtype);
        const xsm_model_info info = test_model_info(small);
        const size_t bytes = kind->bytes * CLASSES * FEATURES;
        assert_string_equal(xsm_model_get_metadata(small, "maker"), "test");
        assert_true(info.bias == 1 && info.layout == XSM_LAYOUT_CLASS_MAJOR && info.weights == CLASSES * FEATURES);
        assert_int_equal(info.bytes, bytes + (kind->factors ? CLASSES * sizeof(float) : 0));
        assert_memory_equal(small->w.bias, m->w.bias, CLASSES * sizeof(float));
        assert_memory_equal(small->w.narrow.data, other->w.narrow.data, bytes);
        assert_memory_equal(small->w.narrow.data, again->w.narrow.data, bytes);
        if (kind->factors) {
            assert_memory_equal(small->w.row_scale, again->w.row_scale, CLASSES * sizeof(double));
        }
    }
    HELD(xsm_model, copy) = NULL;
    assert_ok(xsm_model_convert(m, NULL, &copy, &err), err); /* float32 is the default */
    assert_true(test_model_info(copy).dtype == XSM_DTYPE_FLOAT32 && copy->w.layout == XSM_LAYOUT_CLASS_MAJOR);
    for (uint32_t k = 0; k < CLASSES; k++) {
        assert_memory_equal(copy->w.weight + k * copy->w.stride, same->w.weight + k * same->w.stride,
                            FEATURES * sizeof(float));
    }
}

/* -- scores -------------------------------------------------------------------------------------------------------- */

/* A float32 model that must score with the same bits: the widened numbers, and factors as scales. */
static xsm_model *widened(const xsm_model *small, const test_kind *kind)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_converted(small, XSM_DTYPE_FLOAT32);
    if (kind->factors) {
        assert_ok(xsmi_model_need_row_scale(m, &err), err);
        for (size_t k = 0; k < m->classes; k++) {
            m->w.row_scale[k] = small->w.row_scale[k];
            for (size_t j = 0; j < m->features; j++) {
                m->w.weight[k * m->w.stride + j] = test_number(kind, small->w.narrow.data, k * m->features + j);
            }
        }
    }
    return m;
}

/* Chosen classes, a range of them, evaluation and prediction of all kinds of batches. */
static void expect_same_scores(const xsm_model *a, const xsm_model *b, const xsm_dataset *data)
{
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 31, 33, ROWS};
    xsm_error err = XSM_ERROR_INIT;
    HELD_MEMORY(float, x) = calloc(ROWS * CLASSES, sizeof *x);
    HELD_MEMORY(float, y) = calloc(ROWS * CLASSES, sizeof *y);
    HELD_MEMORY(uint32_t, classes) = calloc(ROWS * CLASSES, sizeof *classes);
    for (uint32_t i = 0; i < ROWS * CLASSES; i++) {
        classes[i] = noise(i) % CLASSES;
    }
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        xsm_batch batch = xsm_batch_range(data, 0, counts[c]);
        assert_ok(xsm_model_scores(a, &batch, classes, 40, x, &err), err);
        assert_ok(xsm_model_scores(b, &batch, classes, 40, y, &err), err);
        assert_memory_equal(x, y, counts[c] * 40 * sizeof *x);
        assert_ok(xsm_model_score_range(a, &batch, 3, CLASSES - 9, x, CLASSES, &err), err);
        assert_ok(xsm_model_score_range(b, &batch, 3, CLASSES - 9, y, CLASSES, &err), err);
        assert_memory_equal(x, y, counts[c] * CLASSES * sizeof *x);
        uint32_t found[2][ROWS * 5];
        float scores[2][ROWS * 5];
        MADE(xsm_predictor, p, xsm_predictor_new(a, NULL, &p, &err));
        MADE(xsm_predictor, q, xsm_predictor_new(b, NULL, &q, &err));
        for (int i = 0; i < 2; i++) {
            assert_ok(
                xsm_predictor_run(
                    i ? q : p, STRUCT(xsm_prediction, .batch = &batch, .classes = found[i], .scores = scores[i]), &err),
                err);
        }
        assert_memory_equal(found[0], found[1], counts[c] * 5 * sizeof **found);
        assert_memory_equal(scores[0], scores[1], counts[c] * 5 * sizeof **scores);
    }
    TEST_METRICS(first, 5);
    TEST_METRICS(second, 5);
    assert_ok(xsm_evaluate(NULL, a, data, NULL, &first, &err), err);
    assert_ok(xsm_evaluate(NULL, b, data, NULL, &second, &err), err);
    assert_true(first.log_loss == second.log_loss);
}

TEST(linear_models_score_like_widened_ones)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        test_memory *memory;
        xsm_context *ctx = test_memory_context(&memory, threads);
        rows *r = make_rows(ctx, FEATURES);
        for (size_t t = 0; t < 2 * TEST_KINDS; t++) {
            const test_kind *kind = &test_kinds[t / 2];
            HELD(xsm_model, m) = make_linear(ctx, XSM_LAYOUT_CLASS_MAJOR, t % 2);
            HELD(xsm_model, small) = test_converted(m, kind->dtype);
            HELD(xsm_model, wide) = widened(small, kind);
            expect_same_scores(small, wide, r->full);
            expect_same_scores(small, wide, r->sparse);
        }
        end_rows(r);
        test_memory_end(memory, ctx);
    }
}

/* Sums in double precision over the numbers that a view shows. */
TEST(scores_are_sums_of_what_is_stored)
{
    rows *r = make_rows(NULL, FEATURES);
    xsm_model *m = make_linear(NULL, XSM_LAYOUT_CLASS_MAJOR, true);
    for (EACH_KIND(kind)) {
        HELD(xsm_model, small) = test_converted(m, kind->dtype);
        xsm_parameters_view v = XSM_PARAMETERS_VIEW_INIT;
        assert_ok(xsm_model_get_view(small, &v, &err), err);
        for (uint32_t count = 1; count <= ROWS; count += 76) {
            HELD_MEMORY(float, z) = calloc(ROWS * CLASSES, sizeof *z);
            xsm_batch batch = xsm_batch_range(r->full, 0, count);
            assert_ok(xsm_model_score_range(small, &batch, 0, CLASSES, z, CLASSES, &err), err);
            for (uint32_t i = 0; i < count; i++) {
                for (uint32_t k = 0; k < CLASSES; k++) {
                    double sum = 0, size = 1;
                    for (uint32_t j = 0; j < FEATURES; j++) {
                        const size_t at = k * v.class_step + j;
                        const double number = (double)test_number(kind, v.data, at);
                        const double w = kind->factors ? number * v.class_scales[k] : number;
                        sum += w * (double)r->dense[i * FEATURES + j];
                        size += fabs(w * (double)r->dense[i * FEATURES + j]);
                    }
                    const double want = sum + (double)v.bias[k];
                    assert_true(fabs((double)z[i * CLASSES + k] - want) < 1e-5 * size);
                }
            }
        }
    }
    xsm_model_free(m);
    end_rows(r);
}

TEST(embedding_models_have_vectors_of_the_type)
{
    for (int tied = 0; tied < 2; tied++) {
        const uint32_t features = tied ? CLASSES : FEATURES;
        rows *r = make_rows(NULL, features);
        xsm_model *m = make_embedding(NULL, tied);
        if (!tied) {
            fill(m);
        }
        for (EACH_KIND(kind)) {
            HELD(xsm_model, small) = test_converted(m, kind->dtype);
            HELD(xsm_model, wide) = test_converted(small, XSM_DTYPE_FLOAT32);
            xsm_embedding_view v = XSM_EMBEDDING_VIEW_INIT;
            xsm_embedding_parameters p = XSM_EMBEDDING_PARAMETERS_INIT;
            assert_ok(xsm_model_get_embedding_view(small, &v, &err), err);
            assert_ok(xsm_model_get_embedding_parameters(small, &p, &err), err);
            assert_true(!v.vectors && !p.vectors && v.data && v.dtype == kind->dtype && p.dtype == kind->dtype);
            assert_true(v.features == features && v.hidden == 21 && (v.feature_scales != NULL) == kind->factors);
            HELD_MEMORY(float, a) = calloc(ROWS * 21, sizeof *a);
            HELD_MEMORY(float, b) = calloc(ROWS * 21, sizeof *b);
            xsm_batch batch = xsm_batch_range(r->sparse, 0, ROWS);
            assert_ok(xsm_model_hidden_vectors(small, &batch, a, 21, &err), err);
            assert_ok(xsm_model_hidden_vectors(wide, &batch, b, 21, &err), err);
            for (size_t i = 0; i < ROWS * 21; i++) {
                assert_true(kind->factors ? fabs((double)a[i] - (double)b[i]) < 1e-5 : a[i] == b[i]);
            }
            if (!kind->factors) {
                expect_same_scores(small, wide, r->sparse);
                expect_same_scores(small, wide, r->full);
            }
        }
        xsm_model_free(m);
        end_rows(r);
    }
}

TEST(distances_are_to_the_rounded_points)
{
    rows *r = make_rows(NULL, FEATURES);
    for (EACH_KIND(kind)) {
        HELD(xsm_model, m) = make_linear(NULL, XSM_LAYOUT_CLASS_MAJOR, false);
        assert_ok(xsm_model_set_geometry(m, XSM_GEOMETRY_EUCLIDEAN, &err), err);
        HELD(xsm_model, small) = test_converted(m, kind->dtype);
        HELD(xsm_model, wide) = test_converted(small, XSM_DTYPE_FLOAT32);
        assert_int_equal(test_model_info(small).geometry, XSM_GEOMETRY_EUCLIDEAN);
        assert_ok(xsm_model_set_geometry(wide, XSM_GEOMETRY_EUCLIDEAN, &err), err); /* computes the bias anew */
        assert_memory_equal(small->w.bias, wide->w.bias, CLASSES * sizeof(float));
        assert_ok(xsm_model_set_geometry(small, XSM_GEOMETRY_LINEAR, &err), err);
        assert_fails(xsm_model_set_geometry(small, XSM_GEOMETRY_EUCLIDEAN, &err), XSM_ERROR_UNSUPPORTED, err);
    }
    end_rows(r);
}

TEST(indexes_search_widened_rows)
{
    rows *r = make_rows(NULL, FEATURES);
    xsm_model *m = make_linear(NULL, XSM_LAYOUT_CLASS_MAJOR, true);
    for (EACH_KIND(kind)) {
        HELD(xsm_model, small) = test_converted(m, kind->dtype);
        uint32_t found[2][ROWS * 5];
        MADE(xsm_index, x, xsm_index_new(NULL, "exact", &x, &err));
        assert_ok(xsm_index_build_model(x, small, &err), err);
        for (int i = 0; i < 2; i++) {
            xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
            xsm_batch batch = xsm_batch_range(r->full, 0, ROWS);
            xsm_prediction prediction = XSM_PREDICTION_INIT;
            o.index = i ? x : NULL;
            prediction.batch = &batch;
            prediction.classes = found[i];
            MADE(xsm_predictor, p, xsm_predictor_new(small, &o, &p, &err));
            assert_ok(xsm_predictor_run(p, &prediction, &err), err);
        }
        assert_memory_equal(found[0], found[1], sizeof found[0]);
    }
    xsm_model_free(m);
    end_rows(r);
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static void expect_mapped(const xsm_model *m, const void *data, size_t bytes)
{
    const unsigned char *first = data;
    assert_true(first > m->mapping.data && first + bytes <= m->mapping.data + m->mapping.size);
}

TEST(files_are_mapped_and_saved_alike)
{
    HELD_MEMORY(char, first) = strdup(test_path("first"));
    HELD_MEMORY(char, second) = strdup(test_path("second"));
    for (size_t t = 0; t < 3 * TEST_KINDS; t++) {
        const test_kind *kind = &test_kinds[t / 3];
        const bool vectors = t % 3 == 1;
        test_memory *memory;
        xsm_context *ctx = test_memory_context(&memory, 1);
        xsm_model *m = t % 3 == 0 ? make_linear(ctx, XSM_LAYOUT_CLASS_MAJOR, true) : make_embedding(ctx, !vectors);
        rows *r = make_rows(ctx, xsm_model_feature_count(m));
        xsm_model *small = test_converted(m, kind->dtype), *loaded = NULL;
        assert_ok(xsm_model_save(m, first, NULL, &err), err);
        size_t whole, size, other;
        free(test_read(first, &whole));
        const uint16_t halves[3] = {1, 2, 3}; /* numbers of two bytes, behind or before the weights */
        const uint64_t shape = 3;
        assert_ok(xsm_model_set_tensor(small,
                                       STRUCT(xsm_tensor, .name = "halves", .dtype = "F16", .shape = &shape, .rank = 1,
                                              .data = halves, .bytes = sizeof halves),
                                       &err),
                  err);
        assert_ok(xsm_model_save(small, first, NULL, &err), err);
        assert_ok(xsm_model_load(ctx, first, NULL, NULL, &loaded, &err), err);
        assert_ok(xsm_model_save(loaded, second, NULL, &err), err);
        unsigned char *bytes = test_read(first, &size), *again = test_read(second, &other);
        assert_int_equal(size, other);
        assert_memory_equal(bytes, again, size);
        const size_t all = CLASSES + (vectors ? FEATURES : 0), factors = kind->factors ? all : 0;
        assert_true(whole - size > (4 - kind->bytes) * all * m->features - 4 * factors - 300);
        assert_int_equal(test_model_info(loaded).dtype, kind->dtype);
        expect_mapped(loaded, loaded->w.narrow.data, CLASSES * m->features * kind->bytes);
        if (vectors) {
            expect_mapped(loaded, loaded->layer->w.narrow.data, FEATURES * m->features * kind->bytes);
        }
        expect_same_scores(small, loaded, r->sparse);
        free(bytes);
        free(again);
        end_rows(r);
        xsm_model_free(loaded);
        xsm_model_free(small);
        xsm_model_free(m);
        test_memory_end(memory, ctx);
    }
}

/* Replaces the first occurrence of a text in the header by one of the same length. */
static void replace(unsigned char *bytes, size_t size, const char *from, const char *to)
{
    const size_t length = strlen(from);
    assert_int_equal(length, strlen(to));
    for (size_t i = 0; i + length <= size; i++) {
        if (memcmp(bytes + i, from, length) == 0) {
            memcpy(bytes + i, to, length);
            return;
        }
    }
    fail_msg("no '%s'", from);
}

/* As PyTorch saves a linear layer of bfloat16: without labels and metadata, with a bias of the type. */
TEST(layers_of_other_programs_are_loaded)
{
    static const char header[] = "{\"weight\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                                 "\"bias\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[12,16]}}      ";
    static const uint16_t numbers[] = {0x3f80, 0xc000, 0x3f00, 0, 0x4040, 0x8000, 0x4100, 0xbf80};
    enum { LENGTH = (sizeof header - 1) / 8 * 8 };
    unsigned char bytes[8 + LENGTH + sizeof numbers] = {LENGTH};
    memcpy(bytes + 8, header, LENGTH);
    memcpy(bytes + 8 + LENGTH, numbers, sizeof numbers);
    MADE(xsm_model, m, xsm_model_load(NULL, test_file("layer", bytes, sizeof bytes), NULL, NULL, &m, &err));
    const float x[3] = {1, 2, 4};
    xsm_batch batch = xsm_batch_values(x, 1, 3, 3);
    float scores[2];
    assert_ok(xsm_model_score_range(m, &batch, 0, 2, scores, 2, &err), err);
    assert_true(scores[0] == 1 - 4 + 2 + 8 && scores[1] == 0 + 6 - 0 - 1);
}

TEST(damaged_files_are_refused)
{
    static const struct {
        int32_t type;
        const char *from, *to, *says;
    } damages[] = {
        {XSM_DTYPE_INT8, "weight_scale", "weight_scalf", "needs a tensor 'weight_scale'"},
        {XSM_DTYPE_INT8,
         "\"weight_scale\":{\"data_offsets\":", "\"correction\":  {\"data_offsets\":", "needs a tensor 'weight_scale'"},
        {XSM_DTYPE_INT8, "\"dtype\":\"I8\",\"shape\":[611,75]", "\"dtype\":\"U8\",\"shape\":[611,75]",
         "F32 of 2 is needed"},
        {XSM_DTYPE_INT8, "\"I8\",\"shape\":[611,75]", "\"I8\",\"shape\":[75,611]", "the model has 75 classes"},
        {XSM_DTYPE_INT8, "\"I8\",\"shape\":[611,75]", "\"I8\",\"shape\":[45825 ]", "I8 of 1 dimensions"},
        {XSM_DTYPE_BFLOAT16, "\"BF16\",\"shape\":[611,75]", "\"U16\", \"shape\":[611,75]", "F32 of 2 is needed"},
        {XSM_DTYPE_BFLOAT16, "\"BF16\",\"shape\":[611,75]", "\"BF16\",\"shape\":[75,611]", "the model has 75 classes"},
    };
    xsm_load_options o = XSM_LOAD_OPTIONS_INIT;
    HELD(xsm_model, m) = make_linear(NULL, XSM_LAYOUT_CLASS_MAJOR, true);
    xsm_model *loaded = NULL;
    HELD_MEMORY(char, path) = strdup(test_path("model"));
    o.skip_verify = 1;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        HELD(xsm_model, small) = test_converted(m, damages[i].type);
        assert_ok(xsm_model_save(small, path, NULL, &err), err);
        size_t size;
        unsigned char *bytes = test_read(path, &size);
        replace(bytes, size, damages[i].from, damages[i].to);
        const char *damaged = test_file("damaged", bytes, size);
        assert_fails(xsm_model_load(NULL, damaged, NULL, &o, &loaded, &err), XSM_ERROR_FORMAT, err);
        if (!strstr(err.message, damages[i].says)) {
            fail_msg("'%s', not '%s'", err.message, damages[i].says);
        }
        free(bytes);
    }
    /* Factors that are none. */
    HELD(xsm_model, small) = test_converted(m, XSM_DTYPE_INT8);
    static const float bad[] = {NAN, INFINITY, -1};
    for (size_t i = 0; i < 3; i++) {
        const float good = (float)small->w.row_scale[9];
        assert_ok(xsm_model_save(small, path, NULL, &err), err);
        size_t size, at = 0;
        unsigned char *bytes = test_read(path, &size);
        while (memcmp(bytes + at, &good, sizeof good) != 0) {
            at++;
        }
        memcpy(bytes + at, &bad[i], sizeof good);
        const char *damaged = test_file("damaged", bytes, size);
        assert_fails(xsm_model_load(NULL, damaged, NULL, &o, &loaded, &err), XSM_ERROR_FORMAT, err);
        assert_non_null(strstr(err.message, "number 9 of tensor 'weight_scale'"));
        o.skip_verify = 0;
        assert_fails(xsm_model_load(NULL, damaged, NULL, &o, &loaded, &err), XSM_ERROR_CHECKSUM, err);
        o.skip_verify = 1;
        free(bytes);
    }
}

/* Every byte of the header is changed; what is still accepted must be usable. */
TEST(damage_is_found_or_harmless)
{
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    rows *r = make_rows(ctx, FEATURES);
    for (size_t t = 0; t < 2 * TEST_KINDS; t++) {
        xsm_model *m = t % 2 ? make_embedding(ctx, false) : make_linear(ctx, XSM_LAYOUT_CLASS_MAJOR, false);
        xsm_model *small = test_converted(m, test_kinds[t / 2].dtype);
        const char *path = test_path("damaged");
        tried tries = {0, 0};
        size_t size;
        assert_ok(xsm_model_save(small, path, NULL, &err), err);
        xsm_model_free(small);
        xsm_model_free(m);
        unsigned char *bytes = test_read(path, &size);
        const size_t before = test_memory_blocks(memory);
        for (size_t i = 0; i < 700; i++) {
            for (uint32_t change = 1; change < 256; change = change * 3 + 2) {
                bytes[i] ^= (unsigned char)change;
                try_bytes(ctx, bytes, size, r, FEATURES, &tries);
                bytes[i] ^= (unsigned char)change;
                assert_int_equal(test_memory_blocks(memory), before);
            }
        }
        assert_true(tries.refused > 100 && tries.accepted > 20);
        free(bytes);
    }
    end_rows(r);
    test_memory_end(memory, ctx);
}

/* -- what cannot be done ------------------------------------------------------------------------------------------- */

TEST(what_changes_weights_is_refused)
{
    rows *r = make_rows(NULL, FEATURES);
    xsm_model *m = make_linear(NULL, XSM_LAYOUT_CLASS_MAJOR, true), *other = NULL;
    xsm_trainer *trainer = NULL;
    xsm_fit_options fit = XSM_FIT_OPTIONS_INIT;
    NEW(xsm_estimator, e, xsm_estimator_new(NULL, "one-vs-all", &e, &err));
    NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    for (EACH_KIND(kind)) {
        HELD(xsm_model, small) = test_converted(m, kind->dtype);
        assert_fails(xsm_estimator_bind(e, small, r->sparse, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_non_null(strstr(err.message, "training by an estimator needs float32 weights"));
        assert_non_null(strstr(err.message, kind->name));
        assert_fails(xsm_optimizer_bind(o, small, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_fails(xsm_trainer_new(NULL, small, r->sparse, e, o, NULL, &trainer, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_fails(xsm_model_grow(small, FEATURES + 1, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_fails(xsm_model_add_pairs(small, r->sparse, 1, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_fails(xsm_model_prune(small, NULL, &other, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_fails(xsm_model_set_layout(small, XSM_LAYOUT_FEATURE_MAJOR, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_ok(xsm_model_set_layout(small, XSM_LAYOUT_CLASS_MAJOR, &err), err);
        if (test_has_lbfgs()) {
            assert_fails(xsm_fit_full_batch(NULL, small, r->sparse, e, &fit, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
        }
    }
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    end_rows(r);
}

TEST(bad_arguments_are_refused)
{
    xsm_convert_options o = XSM_CONVERT_OPTIONS_INIT;
    xsm_model_options with_bias = XSM_MODEL_OPTIONS_INIT;
    xsm_model *m = make_linear(NULL, XSM_LAYOUT_CLASS_MAJOR, true), *out = NULL;
    assert_fails(xsm_model_convert(NULL, &o, &out, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_convert(m, &o, NULL, &err), XSM_ERROR_ARGUMENT, err);
    for (o.dtype = -1; o.dtype < 100; o.dtype++) { /* all but those that these tests know */
        bool known = o.dtype == XSM_DTYPE_FLOAT32;
        for (EACH_KIND(kind)) {
            known = known || o.dtype == kind->dtype;
        }
        if (!known) {
            assert_fails(xsm_model_convert(m, &o, &out, &err), XSM_ERROR_RANGE, err);
        }
    }
    for (EACH_KIND(kind)) {
        const float worst[] = {NAN, INFINITY, -INFINITY, kind->too_large};
        o.dtype = kind->dtype;
        for (size_t i = 0; i < 4; i++) {
            m->w.weight[5 * m->w.stride + 3] = worst[i];
            assert_fails(xsm_model_convert(m, &o, &out, &err), XSM_ERROR_DIVERGED, err);
            assert_non_null(strstr(err.message, "class 5 and feature 3"));
            assert_non_null(strstr(err.message, kind->name));
        }
        m->w.weight[5 * m->w.stride + 3] = 0;
    }
    xsm_model_free(m);
    with_bias.bias = 1;
    assert_ok(xsm_model_new_linear(NULL, 0, 3, &with_bias, &m, &err), err);
    assert_fails(xsm_model_convert(m, &o, &out, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_model_free(m);
    m = make_embedding(NULL, false);
    m->layer->w.weight[4 * m->layer->w.stride + 2] = NAN;
    assert_fails(xsm_model_convert(m, &o, &out, &err), XSM_ERROR_DIVERGED, err);
    assert_non_null(strstr(err.message, "number 2 of the vector of feature 4"));
    assert_null(out);
    xsm_model_free(m);
}

static xsm_status convert_in(void *state, xsm_context *ctx, xsm_error *err)
{
    (void)state;
    xsm_embedding_options e = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_convert_options o = XSM_CONVERT_OPTIONS_INIT;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_model, small) = NULL;
    HELD(xsm_model, back) = NULL;
    e.bias = 1;
    o.dtype = XSM_DTYPE_INT8;
    xsm_status status = xsm_model_new_embedding(ctx, 30, 11, 20, &e, &m, err);
    status = status == XSM_OK ? xsm_model_convert(m, &o, &small, err) : status;
    o.dtype = XSM_DTYPE_FLOAT32;
    status = status == XSM_OK ? xsm_model_convert(small, &o, &back, err) : status;
    return status;
}

TEST(every_allocation_may_fail)
{
    assert_true(test_every_allocation(convert_in, NULL) > 8);
}

TEST(conversion_can_be_cancelled)
{
    test_every_poll(convert_in, NULL, 1, 2, "converting");
}
