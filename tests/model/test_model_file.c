/*
 * Tests of models on disk: loading restores what was saved; damage of any kind is found; failures leave no file
 * behind; NumPy reads what we write, and we read what NumPy writes.
 */
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/model.h"
#include "model/model_file.h"

#include <xsoftmax/buffer.h>
#include <xsoftmax/stored_weights.h>

static const char golden_folder[] = TEST_SOURCE_ROOT "/tests/golden/";

/* Entries of the folder that a path is in. */
static size_t count_files(const char *path)
{
    HELD_MEMORY(char, folder) = strdup(path);
    *strrchr(folder, '/') = '\0';
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

#define FEATURES 3
#define CLASSES 4

enum { WITH_BIAS = 1, WITH_CLASSES = 2, WITH_TRANSFORM = 4, WITH_METADATA = 8, WITH_SCALES = 16, FEATURE_MAJOR = 32 };

static const int64_t labels[CLASSES] = {-9, 0, 5, INT64_MAX};
static const char *const names[CLASSES] = {"ant", "b\xc3\xa9\x65", "", "a \"quoted\\\" name"};

static float weight_of(size_t k, size_t j)
{
    return ((float)k - 1.25f) * 0.3f + (float)j;
}

static const uint64_t counts[CLASSES] = {0, 7, UINT64_C(1) << 40, 1};

static xsm_transform *fitted(xsm_context *ctx)
{
    static const float rows[] = {1, 0, 2, 1, 0, 3, 0, 1};
    HELD(xsm_dataset, data) = NULL;
    xsm_transform *t = NULL;
    assert_int_equal(
        xsm_dataset_from_dense(ctx, STRUCT(xsm_dense_rows, .values = rows, .rows = 2, .features = 4), &data, NULL),
        XSM_OK);
    assert_int_equal(xsm_transform_new(ctx, "truncate=3,tfidf,standard,unit", &t, NULL), XSM_OK);
    assert_int_equal(xsm_transform_fit(t, data, NULL), XSM_OK);
    return t;
}

static xsm_model *make_model(xsm_context *ctx, int with)
{
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = (with & WITH_BIAS) != 0;
    options.layout = with & FEATURE_MAJOR ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR;
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_model, m, xsm_model_new_linear(ctx, FEATURES, CLASSES, &options, &m, &err));
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    for (size_t k = 0; k < CLASSES; k++) {
        for (size_t j = 0; j < FEATURES; j++) {
            p.weight[k * p.class_step + j * p.feature_step] = weight_of(k, j);
        }
        if (p.bias) {
            p.bias[k] = (float)k / 3;
        }
    }
    if (with & WITH_CLASSES) {
        assert_ok(xsm_model_set_class_map(m,
                                          STRUCT(xsm_class_map, .classes = CLASSES, .labels = labels, .names = names,
                                                 .counts = counts, .rows = UINT64_C(1) << 40),
                                          &err),
                  err);
    }
    if (with & WITH_TRANSFORM) {
        HELD(xsm_transform, t) = fitted(ctx);
        assert_ok(xsm_model_set_transform(m, t, &err), err);
    }
    if (with & WITH_METADATA) {
        assert_ok(xsm_model_set_metadata(m, "estimator", "implicit", &err), err);
        assert_ok(xsm_model_set_metadata(m, "a note", "\"checksum\":\"0123456789abcdef\"\n\\", &err), err);
        assert_ok(xsm_model_set_metadata(m, "\xe7\x8a\xac", "", &err), err);
    }
    if (with & WITH_SCALES) {
        m->w.alpha = 0.3;
        if (!(with & FEATURE_MAJOR)) {
            assert_ok(xsmi_model_need_row_scale(m, &err), err);
            for (size_t k = 0; k < CLASSES; k++) {
                m->w.row_scale[k] = 1.0 + 0.1 * (double)k;
            }
        }
    }
    return m;
}

/* The same weights, bit for bit, once the scales are multiplied in, and everything else. */
static void assert_same_model(xsm_model *a, xsm_model *b)
{
    xsm_error err = XSM_ERROR_INIT;
    assert_int_equal(xsm_model_class_count(a), xsm_model_class_count(b));
    assert_int_equal(xsm_model_feature_count(a), xsm_model_feature_count(b));
    assert_int_equal(test_model_info(a).input_features, test_model_info(b).input_features);
    assert_int_equal(test_model_info(a).bias, test_model_info(b).bias);
    xsm_class_map s = XSM_CLASS_MAP_INIT;
    xsm_class_map t = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_model_get_class_map(a, &s, &err), err);
    assert_ok(xsm_model_get_class_map(b, &t, &err), err);
    assert_int_equal(s.names == NULL, t.names == NULL);
    assert_int_equal(s.counts == NULL, t.counts == NULL);
    assert_int_equal(s.rows, t.rows);
    assert_true(!s.counts || memcmp(s.counts, t.counts, s.classes * sizeof *s.counts) == 0);
    for (size_t k = 0; k < s.classes; k++) {
        assert_int_equal(s.labels ? s.labels[k] : (int64_t)k, t.labels ? t.labels[k] : (int64_t)k);
        if (s.names) {
            assert_string_equal(s.names[k], t.names[k]);
        }
    }
    size_t i = 0;
    for (const char *key; (key = test_metadata_key(a, i)) != NULL; i++) {
        assert_string_equal(key, test_metadata_key(b, i));
        assert_string_equal(xsm_model_get_metadata(a, key), xsm_model_get_metadata(b, key));
    }
    assert_null(test_metadata_key(b, i));
    assert_int_equal(a->transform == NULL, b->transform == NULL);
    if (a->transform) {
        assert_true(xsmi_transform_equal(a->transform, b->transform));
        assert_int_equal(xsmi_transform_features(a->transform), xsmi_transform_features(b->transform));
    }
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_parameters q = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(a, &p, &err), err);
    assert_ok(xsm_model_get_parameters(b, &q, &err), err);
    for (size_t k = 0; k < p.classes; k++) {
        for (size_t j = 0; j < p.features; j++) {
            assert_memory_equal(&p.weight[k * p.class_step + j * p.feature_step],
                                &q.weight[k * q.class_step + j * q.feature_step], sizeof(float));
        }
        if (p.bias) {
            assert_memory_equal(&p.bias[k], &q.bias[k], sizeof(float));
        }
    }
}

TEST(comes_back)
{
    for (int with = 0; with < 64; with++) {
        test_memory *memory;
        xsm_context *ctx = test_memory_context(&memory, 1);
        xsm_model *m = make_model(ctx, with);
        const char *path = test_path("model.safetensors");
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        assert_int_equal(count_files(path), 1);
        NEW(xsm_model, loaded,
            xsm_model_load(ctx, path, NULL, STRUCT(xsm_load_options, .skip_verify = with & 1), &loaded, &err));
        xsm_model_info about = XSM_MODEL_INFO_INIT, made = XSM_MODEL_INFO_INIT;
        assert_ok(xsm_model_get_info(loaded, &about, &err), err);
        assert_ok(xsm_model_get_info(m, &made, &err), err);
        assert_string_equal(about.release, xsm_version_string());
        assert_true(about.format_version == 1 && made.format_version == 0 && *made.release == '\0');
        /* Mapped: nothing was copied, and the weights begin at a cache line. */
        assert_int_equal(loaded->w.weight_count, 0);
        assert_int_equal(loaded->w.stride, FEATURES);
        assert_true((const unsigned char *)loaded->w.weight > loaded->mapping.data &&
                    (const unsigned char *)loaded->w.weight < loaded->mapping.data + loaded->mapping.size);
        assert_int_equal((uintptr_t)loaded->w.weight % XSMI_ALIGNMENT, 0);
        /* It scores as it is, and saving it gives the same file. */
        const float row[FEATURES] = {1, 2, 4};
        NEW(xsm_dataset, data,
            xsm_dataset_from_dense(ctx, STRUCT(xsm_dense_rows, .values = row, .rows = 1, .features = FEATURES), &data,
                                   &err));
        xsm_batch batch = xsm_batch_range(data, 0, 1);
        float scores[CLASSES];
        assert_ok(xsm_model_score_range(loaded, &batch, 0, CLASSES, scores, CLASSES, &err), err);
        for (size_t k = 0; k < CLASSES; k++) {
            float scale = with & WITH_SCALES ? 0.3f * (with & FEATURE_MAJOR ? 1 : 1 + 0.1f * (float)k) : 1;
            float score = scale * (weight_of(k, 0) + 2 * weight_of(k, 1) + 4 * weight_of(k, 2));
            assert_true(fabsf(scores[k] - score - (with & WITH_BIAS ? (float)k / 3 : 0)) < 1e-5f);
        }
        xsm_dataset_free(data);
        const char *again = test_path("again.safetensors");
        assert_ok(xsm_model_save(loaded, again, NULL, &err), err);
        size_t size;
        size_t size_again;
        unsigned char *bytes = test_read(path, &size);
        unsigned char *bytes_again = test_read(again, &size_again);
        assert_int_equal(size, size_again);
        assert_memory_equal(bytes, bytes_again, size);
        free(bytes);
        free(bytes_again);
        unlink(again);
        /* A save over the file that is mapped replaces it; the mapping stays what it was. */
        assert_ok(xsm_model_save(loaded, path, NULL, &err), err);
        assert_same_model(m, loaded); /* copies the mapping to memory on its way */
        assert_true(loaded->w.weight_count > 0);
        assert_null(loaded->mapping.data);
        xsm_model_free(loaded);
        xsm_model_free(m);
        test_memory_end(memory, ctx);
    }
    test_files_end();
}

TEST(larger_models_come_back)
{
    /* More rows than are written together, and wide rows; both layouts. */
    static const uint32_t shapes[][2] = {{40, 9000}, {300001, 3}, {1030, 600}};
    for (size_t i = 0; i < 6; i++) {
        uint32_t d = shapes[i / 2][0];
        uint32_t k = shapes[i / 2][1];
        MADE(xsm_model, m, xsm_model_new_linear(NULL, d, k, NULL, &m, &err));
        for (size_t r = 0; r < k; r++) {
            for (size_t c = 0; c < d; c++) {
                m->w.weight[r * m->w.stride + c] = (float)(r * 31 + c);
            }
        }
        const char *path = test_path("large.safetensors");
        if (i % 2) {
            assert_ok(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, &err), err);
        }
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        MADE(xsm_model, loaded, xsm_model_load(NULL, path, NULL, NULL, &loaded, &err));
        assert_ok(xsm_model_set_layout(loaded, XSM_LAYOUT_FEATURE_MAJOR, &err), err);
        assert_same_model(m, loaded);
    }
    test_files_end();
}

/* -- damage -------------------------------------------------------------------------------------------------------- */

/* Loads bytes in memory as a file's; the bytes must outlive the model. */
static xsm_status load_bytes(xsm_context *ctx, const unsigned char *bytes, size_t size, xsm_model **out, xsm_error *err)
{
    xsm_storage from = XSM_STORAGE_INIT;
    from.name = "bytes";
    from.bytes = bytes;
    from.byte_count = size;
    return xsm_model_load(ctx, NULL, &from, NULL, out, err);
}

static void assert_refused(test_memory *memory, xsm_context *ctx, const unsigned char *bytes, size_t size)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = NULL;
    size_t before = test_memory_blocks(memory);
    xsm_status status = load_bytes(ctx, bytes, size, &m, &err);
    assert_true(status == XSM_ERROR_FORMAT || status == XSM_ERROR_CHECKSUM || status == XSM_ERROR_FILE_VERSION ||
                status == XSM_ERROR_LIMIT);
    assert_int_equal(err.status, status);
    assert_true(err.message[0] != '\0');
    assert_null(m);
    assert_int_equal(test_memory_blocks(memory), before);
}

/* Whether memory lies in a model's mapping. */
static bool is_mapped(const xsm_model *m, const void *memory)
{
    const unsigned char *at = memory;
    return m->mapping.data && at >= m->mapping.data && at < m->mapping.data + m->mapping.size;
}

TEST(a_view_copies_nothing)
{
    const char *path = test_path("viewed");
    xsm_model *saved = make_model(NULL, WITH_BIAS), *m = NULL;
    assert_ok(xsm_model_save(saved, path, NULL, &err), err);
    xsm_model_free(saved);
    assert_ok(xsm_model_load(NULL, path, NULL, NULL, &m, &err), err);
    xsm_parameters_view v = XSM_PARAMETERS_VIEW_INIT;
    assert_ok(xsm_model_get_view(m, &v, &err), err);
    assert_true(is_mapped(m, v.weight) && is_mapped(m, v.bias));
    assert_true(is_mapped(m, (const unsigned char *)v.data + v.bytes - 1));
    for (size_t k = 0; k < CLASSES; k++) {
        for (size_t j = 0; j < FEATURES; j++) {
            assert_true(v.weight[k * v.class_step + j * v.feature_step] == weight_of(k, j));
        }
    }
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    assert_false(is_mapped(m, p.weight));
    xsm_model_free(m);

    NEW(xsm_model, embedding, xsm_model_new_embedding(NULL, 7, 3, 4, NULL, &embedding, &err));
    assert_ok(xsm_model_save(embedding, path, NULL, &err), err);
    xsm_model_free(embedding);
    assert_ok(xsm_model_load(NULL, path, NULL, NULL, &m, &err), err);
    xsm_embedding_view e = XSM_EMBEDDING_VIEW_INIT;
    assert_ok(xsm_model_get_embedding_view(m, &e, &err), err);
    assert_true(is_mapped(m, e.vectors) && is_mapped(m, (const unsigned char *)e.data + e.bytes - 1));
    xsm_model_free(m);
}

TEST(damage_is_found)
{
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    xsm_model *m = make_model(ctx, WITH_BIAS | WITH_CLASSES | WITH_TRANSFORM | WITH_METADATA);
    const char *path = test_path("model.safetensors");
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    xsm_model_free(m);
    size_t size;
    unsigned char *bytes = test_read(path, &size);
    m = NULL;
    assert_ok(load_bytes(ctx, bytes, size, &m, &err), err);
    xsm_model_free(m);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_refused(memory, ctx, bytes, size);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (size_t length = 0; length < size; length++) {
        unsigned char *part = aligned_alloc(64, (length + 64) / 64 * 64);
        assert_non_null(part);
        memcpy(part, bytes, length);
        assert_refused(memory, ctx, part, length);
        free(part);
    }
    for (size_t more = 1; more <= 9; more++) {
        bytes[size + more - 1] = (unsigned char)(more * 37);
        assert_refused(memory, ctx, bytes, size + more);
    }
    /* The same through a file: once each way. */
    m = NULL;
    bytes[size - 1] ^= 4;
    assert_fails(xsm_model_load(ctx, test_file("model.safetensors", bytes, size), NULL, NULL, &m, &err),
                 XSM_ERROR_CHECKSUM, err);
    assert_non_null(strstr(err.message, "model.safetensors"));
    assert_fails(xsm_model_load(ctx, test_file("model.safetensors", bytes, size / 2), NULL, NULL, &m, &err),
                 XSM_ERROR_FORMAT, err);
    assert_fails(xsm_model_load(ctx, test_file("model.safetensors", bytes, 0), NULL, NULL, &m, &err), XSM_ERROR_FORMAT,
                 err);
    assert_null(m);
    free(bytes);
    test_memory_end(memory, ctx);
    test_files_end();
}

/* A file of someone else's, its header and data as given. */
static xsm_status load_made(const char *header, const void *data, size_t size, xsm_error *err)
{
    size_t length = (strlen(header) + 7) / 8 * 8;
    unsigned char *bytes = aligned_alloc(64, (8 + length + size + 64) / 64 * 64);
    assert_non_null(bytes);
    memset(bytes, ' ', 8 + length);
    for (size_t i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    }
    memcpy(bytes + 8, header, strlen(header));
    if (size > 0) {
        memcpy(bytes + 8 + length, data, size);
    }
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    xsm_model *m = NULL;
    xsm_status status = load_bytes(ctx, bytes, 8 + length + size, &m, err);
    xsm_model_free(m);
    test_memory_end(memory, ctx);
    free(bytes);
    return status;
}

#define WEIGHT "\"weight\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}"
#define COUNTS "\"class_counts\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[8,24]}"
#define PAIRS(shape, offsets) "\"products\":{\"dtype\":\"U32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define PRODUCTS(features) "\"__metadata__\":{\"transform\":\"products=1\",\"input_features\":\"" features "\"}"
#define COLUMNS(shape, offsets) "\"standard\":{\"dtype\":\"F64\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define STANDARD(features) "\"__metadata__\":{\"transform\":\"standard\",\"input_features\":\"" features "\"}"
#define LABELS(offsets) "\"labels\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":" offsets "}"

TEST(what_is_no_model_is_refused)
{
    struct {
        float weight[2];
        int64_t labels[2];
    } data = {{1, 2}, {3, 4}};
    static const struct {
        const char *header;
        size_t size;
        const char *says; /* NULL: a model */
    } cases[] = {
        {"{" WEIGHT "}", 8, NULL},
        {"{" WEIGHT "," LABELS("[8,24]") "}", 24, NULL},
        {"{}", 0, "no tensor 'weight'"},
        {"{" WEIGHT ",\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]}}", 8, "a tensor 'x'"},
        {"{\"weight\":{\"dtype\":\"F64\",\"shape\":[1,1],\"data_offsets\":[0,8]}}", 8, "'weight' is F64"},
        {"{\"weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "1 dimensions"},
        {"{\"weight\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[0,0]}}", 0, "0 classes"},
        {"{\"weight\":{\"dtype\":\"F32\",\"shape\":[5,0],\"data_offsets\":[0,0]}}", 0, "0 features"},
        {"{\"weight\":{\"dtype\":\"F32\",\"shape\":[2147483648,0],\"data_offsets\":[0,0]}}", 0, "2147483648 classes"},
        {"{" WEIGHT ",\"bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12, "'bias' has 1"},
        {"{" WEIGHT ",\"bias\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[8,16]}}", 16, "2 dimensions"},
        {"{" WEIGHT ",\"labels\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[8,16]}}", 16, "'labels' has 1"},
        {"{" WEIGHT "," COUNTS ",\"__metadata__\":{\"training_rows\":\"9\"}}", 24, NULL},
        {"{" WEIGHT "," COUNTS ",\"__metadata__\":{\"training_rows\":\"2\"}}", 24, "class 0 is in 3 rows of 2"},
        {"{" WEIGHT "," COUNTS ",\"__metadata__\":{\"training_rows\":\"0\"}}", 24, "counts of 0 training rows"},
        {"{" WEIGHT "," COUNTS ",\"__metadata__\":{\"training_rows\":\"2x\"}}", 24, "'training_rows'"},
        {"{" WEIGHT "," COUNTS "}", 24, "'training_rows'"},
        {"{" WEIGHT ",\"__metadata__\":{\"training_rows\":\"2\"}}", 8, "'class_counts'"},
        {"{" WEIGHT ",\"class_counts\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[8,16]},"
         "\"__metadata__\":{\"training_rows\":\"2\"}}",
         16, "'class_counts' has 1"},
        {"{" WEIGHT ",\"idf\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12, "'transform'"},
        {"{" WEIGHT "," COLUMNS("[2,1]", "[8,24]") "}", 24, "'transform'"},
        {"{" WEIGHT "," COLUMNS("[2,1]", "[8,24]") "," STANDARD("1") "}", 24, NULL},
        {"{" WEIGHT "," COLUMNS("[2,1]", "[8,24]") "," STANDARD("2") "}", 24, "of 1 columns; it needs 2"},
        {"{" WEIGHT "," COLUMNS("[1,2]", "[8,24]") "," STANDARD("1") "}", 24, "[1, 2]; [2, n] is needed"},
        {"{" WEIGHT "," STANDARD("1") "}", 8, "of 0 columns; it needs 1"},
        {"{" WEIGHT "," PAIRS("[1,2]", "[8,16]") "}", 16, "'transform'"},
        {"{" WEIGHT "," PAIRS("[0,2]", "[8,8]") "," PRODUCTS("1") "}", 8, NULL},
        {"{" WEIGHT "," PAIRS("[1,2]", "[8,16]") "," PRODUCTS("1") "}", 16, "pair 0"},
        {"{" WEIGHT "," PAIRS("[2,1]", "[8,16]") "," PRODUCTS("1") "}", 16, "[2, 1]"},
        {"{" WEIGHT "," PAIRS("[2]", "[8,16]") "," PRODUCTS("1") "}", 16, "1 dimensions"},
        {"{" WEIGHT "," PRODUCTS("1") "}", 8, "without pairs"},
        {"{" WEIGHT "," PAIRS("[0,2]", "[8,8]") ",\"__metadata__\":{\"transform\":\"unit\",\"input_features\":\"1\"}}",
         8, "with pairs"},
        {"{" WEIGHT "," PAIRS("[0,2]", "[8,8]") "," PRODUCTS("2") "}", 8, "yields 2 features"},
        {"{" WEIGHT ",\"__metadata__\":{\"transform\":\"unit\"}}", 8, "'input_features'"},
        {"{" WEIGHT ",\"__metadata__\":{\"input_features\":\"1\"}}", 8, "'transform'"},
        {"{" WEIGHT ",\"__metadata__\":{\"transform\":\"unit\",\"input_features\":\"1\"}}", 8, NULL},
        {"{" WEIGHT ",\"__metadata__\":{\"transform\":\"unit\",\"input_features\":\"0\"}}", 8, "'input_features'"},
        {"{" WEIGHT ",\"__metadata__\":{\"transform\":\"unit\",\"input_features\":\"1x\"}}", 8, "'input_features'"},
        {"{" WEIGHT ",\"__metadata__\":{\"transform\":\"unit\",\"input_features\":\"99999999999\"}}", 8, "'input_fea"},
        {"{" WEIGHT ",\"__metadata__\":{\"transform\":\"unit\",\"input_features\":\"2\"}}", 8, "yields 2 features"},
        {"{" WEIGHT ",\"__metadata__\":{\"transform\":\"nope\",\"input_features\":\"1\"}}", 8, "nope"},
        {"{" WEIGHT ",\"__metadata__\":{\"transform\":\"tfidf\",\"input_features\":\"1\"}}", 8, "bytes: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        xsm_status status = load_made(cases[i].header, &data, cases[i].size, &err);
        if (!cases[i].says) {
            assert_ok(status, err);
        } else if (status != XSM_ERROR_FORMAT || !strstr(err.message, cases[i].says)) {
            fail_msg("%s: '%s' does not say '%s'", cases[i].header, err.message, cases[i].says);
        }
    }
    data.labels[1] = 3;
    assert_fails(load_made("{" WEIGHT "," LABELS("[8,24]") "}", &data, 24, &err), XSM_ERROR_FORMAT, err);
    assert_non_null(strstr(err.message, "class 1"));
    data.labels[0] = INT64_C(0x7f800000) << 32; /* 0 and infinity as floats */
    assert_fails(
        load_made("{" WEIGHT ",\"bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}", &data, 16, &err),
        XSM_ERROR_FORMAT, err);
    assert_non_null(strstr(err.message, "bias of class 1"));

    /* Names: a line each, no more, no less. */
    static const struct {
        char text[5];
        bool good;
    } lines[] = {{"a\nb\n", true},   {"\n12\n", true},     {"\n\n\n\n", false}, {"abc\n", false}, {"a\nbc", false},
                 {"a\n\0\n", false}, {"a\n\xff\n", false}, {"a\n\r\n", false},  {"abcd", false}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        unsigned char bytes[12] = {0};
        memcpy(bytes + 8, lines[i].text, 4);
        xsm_status status = load_made(
            "{" WEIGHT ",\"label_names\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,12]}}", bytes, 12, &err);
        assert_int_equal(status, lines[i].good ? XSM_OK : XSM_ERROR_FORMAT);
    }
}

/* -- failures of saving and loading -------------------------------------------------------------------------------- */

TEST(a_failed_save_changes_nothing)
{
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    xsm_model *m = make_model(ctx, WITH_BIAS);
    const char *path = test_file("model.safetensors", "old", 3);
    static const float bad[] = {NAN, INFINITY, -INFINITY}, x[FEATURES] = {0, 1};
    const xsm_batch batch = xsm_batch_values(x, 1, FEATURES, FEATURES);
    float scores[2];
    for (int layout = 0; layout < 2; layout++) {
        assert_ok(xsm_model_set_layout(m, layout, &err), err);
        xsm_parameters p = XSM_PARAMETERS_INIT;
        assert_ok(xsm_model_get_parameters(m, &p, &err), err);
        for (size_t i = 0; i < 3; i++) {
            float *weight = &p.weight[2 * p.class_step + 1 * p.feature_step];
            *weight = bad[i];
            assert_fails(xsm_model_save(m, path, NULL, &err), XSM_ERROR_DIVERGED, err);
            assert_non_null(strstr(err.message, "class 2 and feature 1"));
            assert_fails(xsm_model_score_range(m, &batch, 1, 2, scores, 2, &err), XSM_ERROR_DIVERGED, err);
            assert_non_null(strstr(err.message, "row 0 has scores"));
            *weight = 0;
            p.bias[3] = bad[i];
            assert_fails(xsm_model_save(m, path, NULL, &err), XSM_ERROR_DIVERGED, err);
            assert_non_null(strstr(err.message, "bias of class 3"));
            p.bias[3] = 0;
        }
    }
    m->w.alpha = 1e39; /* finite weights, whose product with the scale is not */
    assert_fails(xsm_model_save(m, path, NULL, &err), XSM_ERROR_DIVERGED, err);
    m->w.alpha = 1;
    assert_int_equal(count_files(path), 1);
    size_t size;
    unsigned char *bytes = test_read(path, &size);
    assert_int_equal(size, 3);
    assert_memory_equal(bytes, "old", 3);
    free(bytes);

    if (access("/dev/full", W_OK) == 0) {
        assert_fails(xsm_model_save(m, "/dev/full", NULL, &err), XSM_ERROR_IO, err);
        assert_non_null(strstr(err.message, "/dev/full"));
    }
    assert_fails(xsm_model_save(m, test_path("no/such/folder"), NULL, &err), XSM_ERROR_IO, err);
    assert_fails(xsm_model_save(m, test_path(""), NULL, &err), XSM_ERROR_IO, err);
    assert_fails(xsm_model_save(m, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_save(NULL, path, NULL, &err), XSM_ERROR_ARGUMENT, err);
    const char *closed = test_path("closed");
    assert_int_equal(mkdir(closed, 0500), 0);
    if (geteuid() != 0) { /* root may write anywhere */
        assert_fails(xsm_model_save(m, test_path("closed/model"), NULL, &err), XSM_ERROR_IO, err);
    }
    chmod(closed, 0700);
    assert_int_equal(count_files(path), 2);
    xsm_model_free(m);
    test_memory_end(memory, ctx);
    test_files_end();
}

TEST(a_failed_load_says_why)
{
    xsm_model *m = NULL;
    const char *path = test_path("none");
    assert_fails(xsm_model_load(NULL, path, NULL, NULL, &m, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, path));
    assert_fails(xsm_model_load(NULL, "/tmp", NULL, NULL, &m, &err), XSM_ERROR_IO, err);
    assert_fails(xsm_model_load(NULL, NULL, NULL, NULL, &m, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_load(NULL, path, NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    xsm_load_options options = XSM_LOAD_OPTIONS_INIT;
    options.skip_verify = 2;
    assert_fails(xsm_model_load(NULL, path, NULL, &options, &m, &err), XSM_ERROR_RANGE, err);
    options.skip_verify = 0;
    options.copy = 2;
    assert_fails(xsm_model_load(NULL, path, NULL, &options, &m, &err), XSM_ERROR_RANGE, err);
    options.copy = 0;
    options.size = 3;
    assert_fails(xsm_model_load(NULL, path, NULL, &options, &m, &err), XSM_ERROR_STRUCT_OLD, err);
    assert_null(m);
    test_files_end();
}

static xsm_status save_and_load(void *state, xsm_context *ctx, xsm_error *err)
{
    static const char *const path = "model.safetensors";
    const xsm_model *made = state;
    /* The first save is of a model with another context; the second counts what saving takes. */
    XSMI_TRY(xsm_model_save(made, test_path(path), NULL, err));
    xsm_model *m = NULL;
    XSMI_TRY(xsm_model_load(ctx, test_path(path), NULL, NULL, &m, err));
    xsm_status status = xsm_model_save(m, test_path("second"), NULL, err);
    xsm_parameters p = XSM_PARAMETERS_INIT;
    if (status == XSM_OK) {
        status = xsm_model_get_parameters(m, &p, err);
    }
    if (status == XSM_OK) {
        status = xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, err);
    }
    if (status == XSM_OK) {
        status = xsm_model_save(m, test_path("second"), NULL, err);
    }
    xsm_model_free(m);
    assert_true(count_files(test_path(path)) <= 2); /* and no temporary file */
    return status;
}

TEST(every_allocation_may_fail)
{
    xsm_model *m = make_model(NULL, WITH_BIAS | WITH_CLASSES | WITH_TRANSFORM | WITH_METADATA);
    assert_true(test_every_allocation(save_and_load, m) > 20);
    xsm_model_free(m);
    test_files_end();
}

/* -- NumPy --------------------------------------------------------------------------------------------------------- */

TEST(reads_what_numpy_writes)
{
    static const char *const files[] = {"numpy_full.safetensors", "numpy_plain.safetensors", "numpy_bare.safetensors",
                                        "numpy_products.safetensors"};
    for (size_t i = 0; i < 4; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s%s", golden_folder, files[i]);
        MADE(xsm_model, m, xsm_model_load(NULL, path, NULL, NULL, &m, &err));
        assert_int_equal(xsm_model_class_count(m), 5);
        assert_int_equal(xsm_model_feature_count(m), 3);
        assert_int_equal(test_model_info(m).bias, i < 2);
        for (size_t w = 0; w < 15; w++) {
            assert_true(m->w.weight[w] == ((float)w - 7) / 4);
        }
        for (size_t k = 0; i < 2 && k < 5; k++) {
            assert_true(m->w.bias[k] == (float)k / 8);
        }
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        assert_ok(xsm_model_get_class_map(m, &map, &err), err);
        if (i == 0) {
            static const int64_t golden_labels[] = {-3, 0, 1, 7, INT64_C(1) << 40};
            static const char *const golden_names[] = {"ant", "b\xc3\xa9\x65", "", "d ", "\xe7\x8a\xac"};
            static const float golden_idf[] = {1, 1.5f, 2};
            assert_memory_equal(map.labels, golden_labels, sizeof golden_labels);
            for (size_t k = 0; k < 5; k++) {
                assert_string_equal(map.names[k], golden_names[k]);
            }
            assert_int_equal(map.features, 4);
            const xsmi_transform_parts parts = xsmi_transform_get_parts(m->transform);
            assert_int_equal(parts.idf_count, 3);
            assert_memory_equal(parts.idf, golden_idf, sizeof golden_idf);
            assert_string_equal(xsmi_transform_description(m->transform), "truncate=3,tfidf");
            assert_string_equal(test_metadata_key(m, 0), "estimator");
            assert_string_equal(test_metadata_key(m, 1), "note");
            assert_null(test_metadata_key(m, 2));
        } else {
            assert_null(map.labels);
            assert_null(map.names);
            assert_int_equal(map.features, i < 3 ? 3 : 2);
        }
        if (i == 3) {
            const xsmi_transform_parts parts = xsmi_transform_get_parts(m->transform);
            assert_int_equal(parts.pair_count, 1);
            assert_int_equal(parts.pairs->lower, 0);
            assert_int_equal(parts.pairs->higher, 1);
        }
    }
}

/* A Python that has NumPy, or NULL. */
static const char *find_python(void)
{
    static const char *const candidates[] = {"python3", "/usr/bin/python3"};
    for (size_t i = 0; i < 2; i++) {
        char command[128];
        snprintf(command, sizeof command, "%s -c 'import numpy' 2>/dev/null", candidates[i]);
        if (system(command) == 0) {
            return candidates[i];
        }
    }
    return NULL;
}

/* Takes the line that begins so out of the text, and returns what follows there. */
static char *take_line(char *text, const char *start, char *line)
{
    char *at = strstr(text, start);
    assert_non_null(at);
    const size_t length = strcspn(at, "\n") + 1;
    memcpy(line, at, length);
    line[length] = '\0';
    memmove(at, at + length, strlen(at + length) + 1);
    return line + strlen(start);
}

TEST(numpy_reads_what_is_written)
{
    const char *python = find_python();
    if (!python) {
        print_message("no python3 with NumPy: skipped\n");
        skip();
    }
    xsm_model *m = make_model(NULL, WITH_BIAS | WITH_CLASSES | WITH_TRANSFORM);
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    for (size_t k = 0; k < CLASSES; k++) {
        p.bias[k] = (float)k / 8;
        for (size_t j = 0; j < FEATURES; j++) {
            p.weight[k * p.class_step + j] = (float)(k * 10 + j);
        }
    }
    const char *path = test_path("model.safetensors");
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    const xsmi_transform_parts learned = xsmi_transform_get_parts(m->transform);
    char command[8192];
    snprintf(command, sizeof command, "%s '%smodel_file.py' read '%s'", python, golden_folder, path);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    char text[4096], line[4096];
    size_t length = fread(text, 1, sizeof text - 1, output);
    text[length] = '\0';
    assert_int_equal(pclose(output), 0);
    /* What Python prints of these depends on its digits: compared as numbers. */
    char *place = take_line(text, "idf float32 3 : ", line);
    for (size_t j = 0; j < 3; j++) {
        assert_true((float)strtod(place, &place) == learned.idf[j]);
    }
    place = take_line(text, "standard float64 2 3 : ", line);
    for (size_t j = 0; j < 6; j++) {
        assert_true(strtod(place, &place) == learned.standard[j]);
    }
    assert_string_equal(text, "checksum good\n"
                              "format_version 1\n"
                              "input_features 4\n"
                              "training_rows 1099511627776\n"
                              "transform truncate=3,tfidf,standard,unit\n"
                              "bias float32 4 : 0.0 0.125 0.25 0.375\n"
                              "class_counts int64 4 : 0 7 1099511627776 1\n"
                              "label_names uint8 27 : 97 110 116 10 98 195 169 101 10 10 97 32 34 113 117 111 116 101 "
                              "100 92 34 32 110 97 109 101 10\n"
                              "labels int64 4 : -9 0 5 9223372036854775807\n"
                              "weight float32 4 3 : 0.0 1.0 2.0 10.0 11.0 12.0 20.0 21.0 22.0 30.0 31.0 32.0\n");
    xsm_model_free(m);
    test_files_end();
}
