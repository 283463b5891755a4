/*
 * Models in memory: construction, layouts, scales, parameters, classes, transform, metadata. Scores are in
 * test_model_score_all.c, files in test_model_file.c.
 */
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "model/model.h"

#include <xsoftmax/stored_weights.h>

static xsm_model *new_model(uint32_t features, uint32_t classes, int32_t bias, int32_t layout)
{
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = bias;
    options.layout = layout;
    xsm_model *m = NULL;
    assert_int_equal(xsm_model_new_linear(NULL, features, classes, &options, &m, NULL), XSM_OK);
    return m;
}

static void fill(xsm_model *m)
{
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_int_equal(xsm_model_get_parameters(m, &p, NULL), XSM_OK);
    for (size_t k = 0; k < p.classes; k++) {
        for (size_t j = 0; j < p.features; j++) {
            p.weight[k * p.class_step + j * p.feature_step] = (float)(k * 1000 + j) / 8;
        }
        if (p.bias) {
            p.bias[k] = (float)k;
        }
    }
}

static void check_filled(xsm_model *m, float factor)
{
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_int_equal(xsm_model_get_parameters(m, &p, NULL), XSM_OK);
    for (size_t k = 0; k < p.classes; k++) {
        for (size_t j = 0; j < p.features; j++) {
            float expected = factor * ((float)(k * 1000 + j) / 8);
            assert_true(p.weight[k * p.class_step + j * p.feature_step] == expected);
        }
        if (p.bias) {
            assert_true(p.bias[k] == (float)k);
        }
    }
}

TEST(row_strides)
{
    assert_int_equal(xsmi_row_stride(1), 16);
    assert_int_equal(xsmi_row_stride(16), 16);
    assert_int_equal(xsmi_row_stride(17), 32);
    assert_int_equal(xsmi_row_stride(512), 512);
    assert_int_equal(xsmi_row_stride(1010), 1024 + 16);
    assert_int_equal(xsmi_row_stride(1024), 1024 + 16);
    assert_int_equal(xsmi_row_stride(4096), 4096 + 16);
}

TEST(starts_at_zero)
{
    for (int32_t layout = 0; layout < 2; layout++) {
        for (int32_t bias = 0; bias < 2; bias++) {
            HELD(xsm_model, m) = new_model(33, 70, bias, layout);
            assert_int_equal(xsm_model_class_count(m), 70);
            assert_int_equal(xsm_model_feature_count(m), 33);
            assert_int_equal(test_model_info(m).input_features, 33);
            assert_int_equal(test_model_info(m).bias, bias);
            assert_int_equal(test_model_info(m).layout, layout);
            assert_int_equal((uintptr_t)m->w.weight % XSMI_ALIGNMENT, 0);
            for (size_t i = 0; i < m->w.weight_count; i++) {
                assert_true(m->w.weight[i] == 0.0f);
            }
            for (size_t k = 0; bias && k < 70; k++) {
                assert_true(m->w.bias[k] == 0.0f);
            }
        }
    }
    xsm_model *m = NULL;
    assert_int_equal(xsm_model_new_linear(NULL, 3, 4, NULL, &m, NULL), XSM_OK);
    assert_int_equal(test_model_info(m).bias, 0);
    assert_int_equal(test_model_info(m).layout, XSM_LAYOUT_CLASS_MAJOR);
    xsm_model_free(m);
    xsm_model_free(NULL);
}

TEST(refuses_bad_settings)
{
    xsm_model *m = (xsm_model *)&err;
    xsm_model *const untouched = m;
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    assert_int_equal(xsm_model_new_linear(NULL, 3, 4, NULL, NULL, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_new_linear(NULL, 0, 4, NULL, &m, &err), XSM_ERROR_RANGE);
    assert_non_null(strstr(err.message, "features"));
    assert_int_equal(xsm_model_new_linear(NULL, XSM_FEATURES_MAX + 1u, 4, NULL, &m, &err), XSM_ERROR_RANGE);
    assert_int_equal(xsm_model_new_linear(NULL, 3, 0, NULL, &m, &err), XSM_ERROR_RANGE);
    assert_non_null(strstr(err.message, "classes"));
    assert_int_equal(xsm_model_new_linear(NULL, 3, XSM_CLASSES_MAX + 1u, NULL, &m, &err), XSM_ERROR_RANGE);
    options.bias = 2;
    assert_int_equal(xsm_model_new_linear(NULL, 3, 4, &options, &m, &err), XSM_ERROR_RANGE);
    options.bias = 0;
    options.layout = 2;
    assert_int_equal(xsm_model_new_linear(NULL, 3, 4, &options, &m, &err), XSM_ERROR_RANGE);
    options.layout = 0;
    options.size = 8;
    assert_int_equal(xsm_model_new_linear(NULL, 3, 4, &options, &m, &err), XSM_ERROR_STRUCT_OLD);
    struct {
        xsm_model_options known;
        uint64_t more;
    } longer = {XSM_MODEL_OPTIONS_INIT, 1};
    longer.known.size = sizeof longer;
    assert_int_equal(xsm_model_new_linear(NULL, 3, 4, &longer.known, &m, &err), XSM_ERROR_STRUCT_NEW);
    /* 2^62 floats are 2^64 bytes. */
    assert_int_equal(xsm_model_new_linear(NULL, XSM_FEATURES_MAX, XSM_CLASSES_MAX, NULL, &m, &err), XSM_ERROR_LIMIT);
    assert_ptr_equal(m, untouched);

    assert_int_equal(xsm_model_class_count(NULL), 0);
    assert_int_equal(xsm_model_feature_count(NULL), 0);
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    assert_int_equal(xsm_model_get_info(NULL, &info, &err), XSM_ERROR_ARGUMENT);
}

TEST(layouts_hold_the_same)
{
    static const uint32_t sizes[][2] = {{1, 1}, {1, 100}, {100, 1}, {31, 33}, {64, 64}, {200, 130}, {1024, 70}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int32_t bias = 0; bias < 2; bias++) {
            HELD(xsm_model, m) = new_model(sizes[i][0], sizes[i][1], bias, XSM_LAYOUT_CLASS_MAJOR);
            fill(m);
            assert_int_equal(xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, NULL), XSM_OK);
            assert_int_equal(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, NULL), XSM_OK);
            assert_int_equal(test_model_info(m).layout, XSM_LAYOUT_FEATURE_MAJOR);
            assert_int_equal(m->w.stride, xsmi_row_stride(sizes[i][1]));
            check_filled(m, 1.0f);
            assert_int_equal(xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, NULL), XSM_OK);
            assert_int_equal(m->w.stride, xsmi_row_stride(sizes[i][0]));
            check_filled(m, 1.0f);
        }
    }
    HELD(xsm_model, m) = new_model(3, 4, 0, 0);
    assert_int_equal(xsm_model_set_layout(m, 3, &err), XSM_ERROR_RANGE);
    assert_int_equal(xsm_model_set_layout(m, XSM_LAYOUT_SPARSE_ROWS, &err), XSM_ERROR_UNSUPPORTED);
    assert_int_equal(xsm_model_set_layout(m, -1, &err), XSM_ERROR_RANGE);
    assert_int_equal(xsm_model_set_layout(NULL, 0, &err), XSM_ERROR_ARGUMENT);
}

TEST(scales_fold)
{
    for (int variant = 0; variant < 4; variant++) {
        HELD(xsm_model, m) = new_model(50, 300, 1, XSM_LAYOUT_CLASS_MAJOR);
        fill(m);
        m->w.alpha = 0.5;
        float factor = 0.5f;
        if (variant & 1) {
            assert_int_equal(xsmi_model_need_row_scale(m, NULL), XSM_OK);
            assert_int_equal(xsmi_model_need_row_scale(m, NULL), XSM_OK);
            for (size_t k = 0; k < 300; k++) {
                assert_true(m->w.row_scale[k] == 1.0);
                m->w.row_scale[k] = 0.25;
            }
            factor *= 0.25f;
        }
        if (variant & 2) {
            assert_int_equal(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, NULL), XSM_OK);
            assert_null(m->w.row_scale);
        }
        check_filled(m, factor); /* xsm_model_get_parameters() folds */
        assert_true(m->w.alpha == 1.0);
        assert_null(m->w.row_scale);
    }
}

/* A runner that does some of the work, in pieces or not at all, and says that it failed. */
static int32_t failing_run(void *user, xsm_job job, void *state, size_t count)
{
    (void)user;
    for (size_t i = 0; i < count; i += 2) {
        job(state, i, 0);
    }
    return 7;
}

TEST(survives_a_failing_runner)
{
    xsm_runner runner = {sizeof runner, NULL, 2, 0, failing_run};
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.runner = &runner;
    HELD(xsm_context, context) = NULL;
    assert_int_equal(xsm_context_new(&options, &context, NULL), XSM_OK);
    HELD(xsm_model, m) = NULL;
    const uint32_t features = 1 << 12;
    const uint32_t classes = 600;
    assert_int_equal(xsm_model_new_linear(context, features, classes, NULL, &m, NULL), XSM_OK);
    for (size_t i = 0; i < m->w.weight_count; i++) {
        assert_true(m->w.weight[i] == 0.0f);
        m->w.weight[i] = 1.0f;
    }
    m->w.alpha = 0.5;
    assert_int_equal(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, &err), XSM_ERROR_RUNNER);
    assert_int_equal(test_model_info(m).layout, XSM_LAYOUT_CLASS_MAJOR);
    assert_int_equal(xsmi_model_fold(m, &err), XSM_ERROR_RUNNER);
    for (size_t k = 0; k < classes; k++) {
        assert_true(m->w.alpha * m->w.row_scale[k] * (double)m->w.weight[k * m->w.stride] == 0.5);
    }
}

TEST(parameters_are_checked)
{
    HELD(xsm_model, m) = new_model(3, 4, 1, 0);
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_int_equal(xsm_model_get_parameters(NULL, &p, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_get_parameters(m, NULL, &err), XSM_ERROR_ARGUMENT);
    p.size = 4;
    p.classes = 77;
    assert_int_equal(xsm_model_get_parameters(m, &p, &err), XSM_ERROR_STRUCT_OLD);
    assert_int_equal(p.classes, 77);
    p.size = sizeof p;
    assert_int_equal(xsm_model_get_parameters(m, &p, &err), XSM_OK);
    assert_int_equal(p.classes, 4);
    assert_int_equal(p.features, 3);
    assert_int_equal(p.class_step, 16);
    assert_int_equal(p.feature_step, 1);
    assert_non_null(p.bias);
    assert_int_equal(p.dtype, XSM_DTYPE_FLOAT32);
    assert_int_equal(p.layout, XSM_LAYOUT_CLASS_MAJOR);
}

/* A view's numbers times its factors are the weights, and a view applies nothing. */
TEST(views_apply_nothing)
{
    for (int32_t layout = 0; layout < 2; layout++) {
        HELD(xsm_model, m) = new_model(20, 50, 1, layout);
        fill(m);
        m->w.alpha = 0.5;
        if (layout == XSM_LAYOUT_CLASS_MAJOR) {
            assert_int_equal(xsmi_model_need_row_scale(m, NULL), XSM_OK);
            for (size_t k = 0; k < 50; k++) {
                m->w.row_scale[k] = k % 2 ? 0.25 : 2;
            }
        }
        xsm_parameters_view v = XSM_PARAMETERS_VIEW_INIT, again = XSM_PARAMETERS_VIEW_INIT;
        assert_ok(xsm_model_get_view(m, &v, &err), err);
        assert_true(v.scale == 0.5);
        assert_int_equal(v.class_scales != NULL, layout == XSM_LAYOUT_CLASS_MAJOR);
        assert_int_equal(v.classes, 50);
        assert_int_equal(v.features, 20);
        assert_int_equal(v.dtype, XSM_DTYPE_FLOAT32);
        assert_int_equal(v.layout, layout);
        assert_ptr_equal(v.data, v.weight);
        const size_t last = 49 * v.class_step + 19 * v.feature_step;
        assert_int_equal(v.bytes, (last + 1) * sizeof(float));
        double seen[50][20];
        for (size_t k = 0; k < 50; k++) {
            assert_true(v.bias[k] == (float)k);
            for (size_t j = 0; j < 20; j++) {
                const double stored = (double)v.weight[k * v.class_step + j * v.feature_step];
                assert_true(stored == (double)(k * 1000 + j) / 8);
                seen[k][j] = stored * v.scale * (v.class_scales ? v.class_scales[k] : 1);
            }
        }
        assert_ok(xsm_model_get_view(m, &again, &err), err);
        assert_memory_equal(&v, &again, sizeof v);
        xsm_parameters p = XSM_PARAMETERS_INIT;
        assert_ok(xsm_model_get_parameters(m, &p, &err), err);
        for (size_t k = 0; k < 50; k++) {
            for (size_t j = 0; j < 20; j++) {
                assert_true((double)p.weight[k * p.class_step + j * p.feature_step] == seen[k][j]);
            }
        }
        assert_ok(xsm_model_get_view(m, &v, &err), err);
        assert_true(v.scale == 1);
        assert_null(v.class_scales);
        assert_ptr_equal(v.weight, p.weight);
        xsm_embedding_view e = XSM_EMBEDDING_VIEW_INIT;
        assert_fails(xsm_model_get_embedding_view(m, &e, &err), XSM_ERROR_STATE, err);
        assert_fails(xsm_model_get_view(NULL, &v, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(xsm_model_get_view(m, NULL, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(xsm_model_get_embedding_view(NULL, &e, &err), XSM_ERROR_ARGUMENT, err);
    }
}

TEST(vectors_are_viewed)
{
    for (int32_t tied = 0; tied < 2; tied++) {
        xsm_embedding_options options = XSM_EMBEDDING_OPTIONS_INIT;
        options.tied = tied;
        MADE(xsm_model, m, xsm_model_new_embedding(NULL, 9, 5, 9, &options, &m, &err));
        xsm_embedding_view v = XSM_EMBEDDING_VIEW_INIT;
        assert_ok(xsm_model_get_embedding_view(m, &v, &err), err);
        assert_int_equal(v.features, 9);
        assert_int_equal(v.hidden, 5);
        assert_int_equal(v.dtype, XSM_DTYPE_FLOAT32);
        assert_true(v.scale == 1);
        assert_int_equal(v.bytes, (8 * v.feature_step + 5) * sizeof(float));
        xsm_embedding_parameters p = XSM_EMBEDDING_PARAMETERS_INIT;
        assert_ok(xsm_model_get_embedding_parameters(m, &p, &err), err);
        assert_ptr_equal(v.vectors, p.vectors); /* in memory already: nothing to copy */
        assert_ptr_equal(v.data, p.vectors);
        if (!tied) {
            const float first = v.vectors[0];
            m->layer->w.alpha = 0.5;
            assert_ok(xsm_model_get_embedding_view(m, &v, &err), err);
            assert_true(v.scale == 0.5 && v.vectors[0] == first);
            assert_ok(xsm_model_get_embedding_parameters(m, &p, &err), err);
            assert_true(p.vectors[0] == first / 2);
        }
    }
}

TEST(feature_numbers_are_each_once)
{
    static const int64_t twice[] = {7, 9, 7}, once[] = {7, 11, 9};
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    HELD(xsm_model, m) = new_model(3, 3, 0, 0);
    map.classes = map.feature_number_count = 3;
    map.feature_numbers = twice;
    assert_fails(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_RANGE, err);
    assert_string_equal(err.message, "the number of features 0 and 2 is 7; each number is accepted once");
    map.feature_numbers = once;
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
}

TEST(classes_are_kept)
{
    HELD(xsm_model, m) = new_model(3, 3, 0, 0);
    xsm_class_map view = XSM_CLASS_MAP_INIT;
    assert_int_equal(xsm_model_get_class_map(m, &view, &err), XSM_OK);
    assert_int_equal(view.classes, 3);
    assert_int_equal(view.features, 3);
    assert_null(view.labels);
    assert_null(view.names);

    int64_t labels[] = {-5, 7, INT64_MAX};
    const char *names[] = {"cat", "", "\xe7\x8a\xac"};
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = 3;
    map.labels = labels;
    map.names = names;
    assert_int_equal(xsm_model_set_class_map(m, &map, &err), XSM_OK);
    labels[0] = 0;
    assert_int_equal(xsm_model_get_class_map(m, &view, &err), XSM_OK);
    assert_int_equal(view.labels[0], -5);
    assert_int_equal(view.labels[2], INT64_MAX);
    assert_string_equal(view.names[0], "cat");
    assert_string_equal(view.names[1], "");
    assert_string_equal(view.names[2], names[2]);

    /* What is refused leaves what is there. */
    map.classes = 4;
    assert_int_equal(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_SHAPE);
    map.classes = 3;
    labels[0] = 7;
    assert_int_equal(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_RANGE);
    assert_non_null(strstr(err.message, "class 1"));
    labels[0] = 0;
    names[1] = "a\nb";
    assert_int_equal(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_FORMAT);
    names[1] = "a\rb";
    assert_int_equal(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_FORMAT);
    names[1] = "\xff";
    assert_int_equal(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_FORMAT);
    names[1] = NULL;
    assert_int_equal(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_set_class_map(m, NULL, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_set_class_map(NULL, &map, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_get_class_map(m, NULL, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_get_class_map(NULL, &view, &err), XSM_ERROR_ARGUMENT);
    names[1] = "b";
    static const char *const columns[] = {"x", "y", "z", "u"};
    static const int64_t numbers[] = {7, 9, 11, 13};
    for (uint32_t count = 2; count <= 4; count += 2) {
        char counts[80];
        map.feature_names = columns;
        map.feature_name_count = count;
        assert_fails(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_SHAPE, err);
        snprintf(counts, sizeof counts, "names of %u features for a model that reads 3", count);
        assert_non_null(strstr(err.message, counts));
        map.feature_names = NULL;
        map.feature_name_count = 0;
        map.feature_numbers = numbers;
        map.feature_number_count = count;
        assert_fails(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_SHAPE, err);
        assert_non_null(strstr(err.message, "numbers of"));
        map.feature_numbers = NULL;
        map.feature_number_count = 0;
    }
    map.size = 8;
    assert_int_equal(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_STRUCT_OLD);
    assert_int_equal(xsm_model_get_class_map(m, &view, &err), XSM_OK);
    assert_string_equal(view.names[0], "cat");

    /* A model's own view may be given back to it, and a map without labels takes them away. */
    assert_int_equal(xsm_model_set_class_map(m, &view, &err), XSM_OK);
    assert_int_equal(xsm_model_get_class_map(m, &view, &err), XSM_OK);
    assert_string_equal(view.names[0], "cat");
    view.labels = NULL;
    view.names = NULL;
    assert_int_equal(xsm_model_set_class_map(m, &view, &err), XSM_OK);
    assert_null(m->map.labels);
    assert_null(m->map.names);
}

TEST(metadata_is_kept)
{
    HELD(xsm_model, m) = new_model(3, 3, 0, 0);
    assert_null(test_metadata_key(m, 0));
    assert_null(xsm_model_get_metadata(m, "a"));
    static const char *const keys[] = {"m", "b", "z", "a", "k", "b2"};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(xsm_model_set_metadata(m, keys[i], "old", &err), XSM_OK);
        assert_int_equal(xsm_model_set_metadata(m, keys[i], keys[i], &err), XSM_OK);
    }
    static const char *const sorted[] = {"a", "b", "b2", "k", "m", "z"};
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(test_metadata_key(m, i), sorted[i]);
        assert_string_equal(xsm_model_get_metadata(m, sorted[i]), sorted[i]);
    }
    assert_null(test_metadata_key(m, 6));
    assert_int_equal(xsm_model_set_metadata(m, "k", NULL, &err), XSM_OK);
    assert_int_equal(xsm_model_set_metadata(m, "k", NULL, &err), XSM_OK);
    assert_null(xsm_model_get_metadata(m, "k"));
    assert_string_equal(test_metadata_key(m, 3), "m");

    static const char *const reserved[] = {"format_version", "checksum",   "transform",     "library",
                                           "input_features", "index_base", "training_rows", "checkpoint",
                                           "dataset",        "index",      "sampler"};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        assert_int_equal(xsm_model_set_metadata(m, reserved[i], "x", &err), XSM_ERROR_ARGUMENT);
        assert_int_equal(xsm_model_set_metadata(m, reserved[i], NULL, &err), XSM_ERROR_ARGUMENT);
        assert_non_null(strstr(err.message, reserved[i]));
    }
    assert_int_equal(xsm_model_set_metadata(m, "", "x", &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_set_metadata(m, NULL, "x", &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_set_metadata(NULL, "a", "x", &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_set_metadata(m, "a", "\xc0\x80", &err), XSM_ERROR_FORMAT);
    assert_int_equal(xsm_model_set_metadata(m, "\xed\xa0\x80", "x", &err), XSM_ERROR_FORMAT);
    assert_string_equal(xsm_model_get_metadata(m, "a"), "a");
    assert_null(xsm_model_get_metadata(NULL, "a"));
    assert_null(xsm_model_get_metadata(m, NULL));
    while (test_metadata_key(m, 0)) {
        char key[8];
        snprintf(key, sizeof key, "%s", test_metadata_key(m, 0));
        assert_int_equal(xsm_model_set_metadata(m, key, NULL, &err), XSM_OK);
    }
}

static const float transform_values[] = {1, 0, 2, 0, 3, 4, 5, 0, 6};

static xsm_dataset *transform_data(void)
{
    xsm_dataset *data = NULL;
    assert_int_equal(
        xsm_dataset_from_dense(NULL, STRUCT(xsm_dense_rows, .values = transform_values, .rows = 3, .features = 3),
                               &data, NULL),
        XSM_OK);
    return data;
}

TEST(transform_is_kept)
{
    HELD(xsm_model, m) = new_model(2, 3, 0, 0);
    HELD(xsm_dataset, data) = transform_data();
    assert_int_equal(xsm_model_transform(m, data, &err), XSM_OK); /* none yet: the rows stay */
    xsm_transform *t = NULL;
    assert_int_equal(xsm_transform_new(NULL, "truncate=2,tfidf,unit", &t, &err), XSM_OK);
    assert_int_equal(xsm_model_set_transform(m, t, &err), XSM_ERROR_STATE);
    assert_int_equal(xsm_transform_fit(t, data, &err), XSM_OK);
    xsm_model *other = new_model(3, 3, 0, 0);
    assert_int_equal(xsm_model_set_transform(other, t, &err), XSM_ERROR_SHAPE);
    xsm_model_free(other);
    assert_int_equal(xsm_model_set_transform(NULL, t, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_set_transform(m, t, &err), XSM_OK);
    assert_int_equal(xsm_model_set_transform(m, t, &err), XSM_OK);
    assert_int_equal(test_model_info(m).input_features, 3);
    assert_int_equal(xsm_model_feature_count(m), 2);

    HELD(xsm_dataset, expected) = transform_data();
    assert_int_equal(xsm_transform_apply(t, expected, &err), XSM_OK);
    xsm_transform_free(t);
    assert_int_equal(xsm_model_transform(m, data, &err), XSM_OK);
    for (uint64_t i = 0; i < 3; i++) {
        xsm_row a = XSM_ROW_INIT;
        xsm_row b = XSM_ROW_INIT;
        assert_int_equal(xsm_dataset_get_row(data, i, &a, &err), XSM_OK);
        assert_int_equal(xsm_dataset_get_row(expected, i, &b, &err), XSM_OK);
        assert_int_equal(a.count, 2);
        assert_memory_equal(a.values, b.values, 2 * sizeof(float));
    }
    assert_int_equal(xsm_model_transform(m, data, &err), XSM_ERROR_STATE);
    assert_int_equal(xsm_model_transform(NULL, data, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_transform(m, NULL, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_set_transform(m, NULL, &err), XSM_OK);
    assert_int_equal(test_model_info(m).input_features, 2);
}

static xsm_status everything(void *state, xsm_context *context, xsm_error *err)
{
    const xsm_transform *t = state;
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = 1;
    HELD(xsm_model, m) = NULL;
    xsm_status status = xsm_model_new_linear(context, 2, 3, &options, &m, err);
    if (status != XSM_OK) {
        assert_null(m);
        return status;
    }
    int64_t labels[] = {1, 2, 5};
    const char *names[] = {"a", "b", "c"};
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = 3;
    map.labels = labels;
    map.names = names;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    if ((status = xsm_model_set_class_map(m, &map, err)) == XSM_OK &&
        (status = xsm_model_set_transform(m, t, err)) == XSM_OK &&
        (status = xsm_model_set_metadata(m, "b", "1", err)) == XSM_OK &&
        (status = xsm_model_set_metadata(m, "a", "2", err)) == XSM_OK &&
        (status = xsm_model_set_metadata(m, "a", "3", err)) == XSM_OK &&
        (status = xsm_model_set_metadata(m, "b", NULL, err)) == XSM_OK &&
        (status = xsmi_model_need_row_scale(m, err)) == XSM_OK &&
        (status = xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, err)) == XSM_OK) {
        m->w.alpha = 0.5;
        status = xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, err);
        if (status == XSM_OK) {
            status = xsm_model_get_parameters(m, &p, err);
        }
    }
    return status;
}

TEST(every_allocation_may_fail)
{
    HELD(xsm_dataset, data) = transform_data();
    HELD(xsm_transform, t) = NULL;
    assert_int_equal(xsm_transform_new(NULL, "truncate=2,tfidf", &t, NULL), XSM_OK);
    assert_int_equal(xsm_transform_fit(t, data, NULL), XSM_OK);
    test_every_allocation(everything, t);
}
