/*
 * Tests of feature numbers far above those in use, as hashes are: the numbers in use become features and are kept, by
 * files too; against a class map they are found again, and new ones may become features. Training is that of the same
 * rows with numbers 0, 1, ....
 */
#include "training.h"

#include "data/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/encoder.h>
#include <xsoftmax/model.h>
#include <xsoftmax/trainer.h>

#define LARGEST "9223372036854775807" /* 2^63 - 1 */

static xsm_status read_rows(const char *text, const xsm_read_options *options, xsm_dataset **out, xsm_error *err)
{
    test_bytes bytes = {text, strlen(text), 0, SIZE_MAX, 0};
    return xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "rows"), options, out, err);
}

static xsm_dataset *must_read(const char *text, int32_t format, const xsm_class_map *map, int32_t grows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.format = format;
    options.classes = map;
    options.new_features = options.new_labels = grows;
    NEW(xsm_dataset, d, read_rows(text, &options, &d, &err));
    return d;
}

/* `[numbers of features] feature:value ...; ...` */
static void assert_rows(const xsm_dataset *d, const char *wanted)
{
    char text[1024];
    const xsm_class_map map = test_map_of(d);
    size_t used = (size_t)snprintf(text, sizeof text, "[");
    for (uint32_t j = 0; j < map.feature_number_count; j++) {
        used += (size_t)snprintf(text + used, sizeof text - used, j ? " %" PRId64 : "%" PRId64, map.feature_numbers[j]);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "]");
    for (uint64_t i = 0; i < d->rows; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, i ? ";" : "");
        for (uint64_t j = d->offsets[i]; j < d->offsets[i + 1]; j++) {
            used += (size_t)snprintf(text + used, sizeof text - used, " %u:%g", d->index[j], (double)d->values[j]);
        }
    }
    assert_string_equal(text, wanted);
}

TEST(numbers_in_use_become_features)
{
    static const struct {
        const char *text, *wanted;
        int32_t format;
    } cases[] = {
        {"1 7:1 200000000:2\n2 3:3\n", "[3 7 200000000] 1:1 2:2; 0:3", XSM_FORMAT_LIBSVM},
        {"1 7:1 200000000:2\n2 3:3\n", "[3 7 200000000] 1:1 2:2; 0:3", XSM_FORMAT_XC},
        {"1 200000000:2 0:1\n2 3:3\n", "[0 3 200000000] 0:1 2:2; 1:3", XSM_FORMAT_LIBSVM},
        {"1 2147483646:1 2147483647:2 2147483648:3\n", "[2147483646 2147483647 2147483648] 0:1 1:2 2:3",
         XSM_FORMAT_LIBSVM},
        {"1 " LARGEST ":1 5:2 4294967296:3\n2 4294967296:4\n", "[5 4294967296 " LARGEST "] 0:2 1:3 2:1; 1:4",
         XSM_FORMAT_LIBSVM},
        {"1 00000000000000000000000" LARGEST ":1\n", "[" LARGEST "] 0:1", XSM_FORMAT_XC},
        {"1 1048576:1\n", "[] 1048575:1", XSM_FORMAT_LIBSVM}, /* as many as may be */
        {"1 1048577:1\n", "[1048577] 0:1", XSM_FORMAT_LIBSVM},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        HELD(xsm_dataset, d) = must_read(cases[i].text, cases[i].format, NULL, 0);
        assert_rows(d, cases[i].wanted);
    }
    /* D as declared, or as asked for. */
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_dataset *d = must_read("1 2000000 2\n1 1999999:1\n", XSM_FORMAT_AUTO, NULL, 0);
    assert_int_equal(d->features, 2000000);
    assert_rows(d, "[] 1999999:1");
    xsm_dataset_free(d);
    options.features = 3000000;
    assert_ok(read_rows("1 2000000:1\n", &options, &d, &err), err);
    assert_int_equal(d->features, 3000000);
    xsm_dataset_free(d);
}

/* One number in 16 is in use, or one fewer. */
TEST(sparse_enough)
{
    enum { TIMES = 16, IN_USE = 1 << 17, ROW = 1 << 10 };
    HELD_MEMORY(char, text) = malloc(IN_USE * 24);
    assert_non_null(text);
    for (uint32_t missing = 0; missing < 2; missing++) {
        size_t used = 0;
        for (uint32_t j = 1; j <= IN_USE; j++) {
            used += (size_t)sprintf(text + used, j % ROW == 1 ? "\n1" : "");
            if (missing == 0 || j != 5) {
                used += (size_t)sprintf(text + used, " %u:1", j * TIMES);
            }
        }
        HELD(xsm_dataset, d) = must_read(text, XSM_FORMAT_LIBSVM, NULL, 0);
        assert_int_equal(d->features, missing ? IN_USE - 1 : IN_USE * TIMES);
    }
}

TEST(bad_numbers)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"1 9223372036854775808:1\n", "line 1, column 3"},
        {"1 3:1\n1 99999999999999999999999:1\n", "line 2, column 3"},
        {"1 3:1 400000000000:1 400000000000:2\n", "feature 400000000000 for the second time"},
        {"1 " LARGEST ":1 5:1 " LARGEST ":2\n", "feature " LARGEST " for the second time"},
    };
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_dataset *d = NULL;
    options.format = XSM_FORMAT_LIBSVM;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_not_equal(read_rows(cases[i].text, &options, &d, &err), XSM_OK);
        assert_non_null(strstr(err.message, cases[i].says));
        assert_null(d);
    }
}

static const char training[] = "1 7:1 200000000:2\n2 3:3\n1 3:1 7:2\n2 200000000:1\n";
static const char same[] = "1 2:1 3:2\n2 1:3\n1 1:1 2:2\n2 3:1\n";

TEST(against_a_class_map)
{
    static const char more[] = "2 200000000:1 9:1 3:1\n3 6000000000:1 8:2 7:1\n";
    xsm_dataset *train = must_read(training, XSM_FORMAT_LIBSVM, NULL, 0);
    const xsm_class_map map = test_map_of(train);
    for (int32_t format = XSM_FORMAT_XC; format <= XSM_FORMAT_LIBSVM; format++) {
        xsm_dataset *d = must_read(more, format, &map, 0);
        assert_rows(d, "[3 7 200000000] 0:1 2:1; 1:1");
        assert_int_equal(d->counted.dropped_features, 3);
        xsm_dataset_free(d);
        d = must_read(more, format, &map, 1);
        assert_rows(d, "[3 7 200000000 8 9 6000000000] 0:1 2:1 4:1; 1:1 3:2 5:1");
        assert_int_equal(test_map_of(d).classes, 3);
        xsm_dataset_free(d);
    }
    xsm_dataset *d = must_read("1 200000001 3\n2 200000000:1 9:1\n", XSM_FORMAT_AUTO, &map, 0);
    assert_rows(d, "[3 7 200000000] 2:1");
    xsm_dataset_free(d);
    xsm_dataset_free(train);
    /* Numbers of their own after all, where the model had none. */
    train = must_read(same, XSM_FORMAT_LIBSVM, NULL, 0);
    const xsm_class_map plain = test_map_of(train);
    d = must_read("1 3:1 200000000:2\n", XSM_FORMAT_LIBSVM, &plain, 1);
    assert_rows(d, "[1 2 3 200000000] 2:1 3:2");
    xsm_dataset_free(d);
    d = must_read("1 3:1 9:2\n", XSM_FORMAT_LIBSVM, &plain, 1);
    assert_rows(d, "[] 2:1 8:2");
    xsm_dataset_free(d);
    xsm_dataset_free(train);
}

/* What is written has the numbers of the file. */
TEST(files_keep_numbers)
{
    static const int32_t formats[] = {XSM_FORMAT_LIBSVM, XSM_FORMAT_XC, XSM_FORMAT_CACHE};
    xsm_dataset *d = must_read(training, XSM_FORMAT_LIBSVM, NULL, 0);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
        write.format = formats[i];
        const char *path = test_path("written");
        assert_ok(xsm_dataset_write(d, path, &write, &err), err);
        if (formats[i] == XSM_FORMAT_LIBSVM) {
            test_assert_bytes(path, training, sizeof training - 1);
        }
        xsm_read_options read = XSM_READ_OPTIONS_INIT;
        const xsm_class_map map = test_map_of(d);
        read.classes = formats[i] == XSM_FORMAT_XC ? &map : NULL; /* a header says how many features there are */
        MADE(xsm_dataset, back, xsm_dataset_read(NULL, path, NULL, &read, &back, &err));
        assert_rows(back, "[3 7 200000000] 1:1 2:2; 0:3; 0:1 1:2; 2:1");
    }
    xsm_dataset_free(d);
    /* No header says so many. */
    d = must_read("1 6000000000:1\n", XSM_FORMAT_LIBSVM, NULL, 0);
    assert_fails(xsm_dataset_write(d, test_path("written"), STRUCT(xsm_write_options, .format = XSM_FORMAT_XC), &err),
                 XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "6000000000"));
    xsm_dataset_free(d);
}

static xsm_model *train(const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsm_class_map map = test_map_of(d);
    HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "");
    NEW(xsm_model, m, xsm_model_new_linear(NULL, map.features, map.classes, NULL, &m, &err));
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    NEW(xsm_trainer, t, xsm_trainer_new(NULL, m, d, e, o, NULL, &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    return m;
}

/* Training, a model's file, one row at a time. */
TEST(models_of_numbers)
{
    static const char row[] = "1 200000000:0.5 6000000000:9 7:1\n", places[] = "1 3:0.5 2:1\n";
    HELD(xsm_dataset, hashed) = must_read(training, XSM_FORMAT_LIBSVM, NULL, 0);
    HELD(xsm_dataset, plain) = must_read(same, XSM_FORMAT_LIBSVM, NULL, 0);
    HELD(xsm_model, a) = train(hashed);
    HELD(xsm_model, b) = train(plain);
    assert_true(test_hash(a) == test_hash(b));
    const char *path = test_path("model");
    assert_ok(xsm_model_save(a, path, NULL, &err), err);
    MADE(xsm_model, loaded, xsm_model_load(NULL, path, NULL, NULL, &loaded, &err));
    xsm_encoder *known = NULL, *other = NULL;
    xsm_encoder_options options = XSM_ENCODER_OPTIONS_INIT;
    assert_ok(xsm_encoder_new(loaded, &options, &known, &err), err);
    assert_ok(xsm_encoder_new(b, &options, &other, &err), err);
    for (int twice = 0; twice < 2; twice++) {
        xsm_batch one = XSM_BATCH_INIT, two = XSM_BATCH_INIT;
        assert_ok(xsm_encoder_encode(known, row, strlen(row), &one, &err), err);
        assert_ok(xsm_encoder_encode(other, places, strlen(places), &two, &err), err);
        assert_int_equal(one.offsets[1], 2);
        assert_memory_equal(one.index, two.index, 2 * sizeof *two.index);
        assert_memory_equal(one.values, two.values, 2 * sizeof *two.values);
    }
    xsm_encoder_free(known);
    xsm_encoder_free(other);
    /* It learns further numbers. */
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_model_get_class_map(loaded, &map, &err), err);
    HELD(xsm_dataset, more) = must_read("3 5:1 200000000:1\n", XSM_FORMAT_LIBSVM, &map, 1);
    map = test_map_of(more);
    assert_ok(xsm_model_grow(loaded, map.features, &map, &err), err);
    assert_ok(xsm_model_get_class_map(loaded, &map, &err), err);
    assert_int_equal(map.feature_number_count, 4);
    assert_int_equal(map.feature_numbers[3], 5);
    assert_rows(more, "[3 7 200000000 5] 2:1 3:1");
}

/* Files can be written whatever number of classes, rows, values and features there is. */
TEST(files_of_any_shape)
{
    static const char *const rows[] = {"1 90000001:1 777777777:5\n", "2 12345678:1\n", "3 888888888:1\n", "3 5:1\n"};
    char text[128] = "";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
        strcat(text, rows[i]);
        HELD(xsm_dataset, d) = must_read(text, XSM_FORMAT_LIBSVM, NULL, 0);
        write.format = XSM_FORMAT_CACHE;
        assert_ok(xsm_dataset_write(d, test_path("written"), &write, &err), err);
        NEW(xsm_dataset, back, xsm_dataset_read(NULL, test_path("written"), NULL, NULL, &back, &err));
        assert_true(memcmp(test_map_of(d).feature_numbers, test_map_of(back).feature_numbers,
                           test_map_of(d).feature_number_count * sizeof(int64_t)) == 0);
        xsm_dataset_free(back);
        HELD(xsm_model, m) = train(d);
        assert_ok(xsm_model_save(m, test_path("model"), NULL, &err), err);
        MADE(xsm_model, loaded, xsm_model_load(NULL, test_path("model"), NULL, NULL, &loaded, &err));
        assert_true(test_hash(loaded) == test_hash(m));
    }
}
