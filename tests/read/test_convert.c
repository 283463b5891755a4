/*
 * Tests of writing datasets and reading them again: the same rows, labels, names and sizes, or an error that says what
 * the format cannot store. Also invalid caches and NumPy files.
 */
#include "support.h"

#include "base/random.h"
#include "base/safetensors.h"
#include "data/dataset.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every bit of b is that of a; dense and sparse rows are compared by their non-zeros. */
static void assert_same(const xsm_dataset *a, const xsm_dataset *b, bool features, bool names)
{
    assert_int_equal(a->rows, b->rows);
    assert_true(!features || a->features == b->features);
    assert_int_equal(a->classes, b->classes);
    assert_int_equal(a->counted.labels, b->counted.labels);
    assert_int_equal(a->counted.unlabelled, b->counted.unlabelled);
    assert_int_equal(a->counted.empty, b->counted.empty);
    assert_int_equal(a->counted.unseen_labels, b->counted.unseen_labels);
    assert_int_equal(a->counted.unseen_rows, b->counted.unseen_rows);
    for (uint32_t k = 0; k < a->classes; k++) {
        assert_int_equal(a->map.counts[k], b->map.counts[k]);
        if (a->map.names && names) {
            assert_string_equal(a->map.names[k], b->map.names[k]);
        } else if (!a->map.names) {
            assert_int_equal(a->map.labels ? a->map.labels[k] : k, b->map.labels ? b->map.labels[k] : k);
        }
    }
    for (uint64_t i = 0; i < a->rows; i++) {
        size_t n, m;
        const uint32_t *s = xsmi_dataset_labels(a, i, &n);
        const uint32_t *t = xsmi_dataset_labels(b, i, &m);
        assert_int_equal(n, m);
        assert_memory_equal(s, t, n * sizeof *s);
        xsmi_features x = xsmi_dataset_features(a, i);
        xsmi_features y = xsmi_dataset_features(b, i);
        size_t q = 0;
        for (size_t p = 0; p < x.count; p++) {
            if (x.values[p] == 0) {
                continue;
            }
            while (q < y.count && y.values[q] == 0) {
                q++;
            }
            assert_true(q < y.count);
            assert_int_equal(x.index ? x.index[p] : p, y.index ? y.index[q] : q);
            assert_memory_equal(&x.values[p], &y.values[q], sizeof(float));
            q++;
        }
        for (; q < y.count; q++) {
            assert_true(y.values[q] == 0);
        }
    }
}

static xsm_dataset *from_text(const char *text, const xsm_read_options *options)
{
    xsm_error err = XSM_ERROR_INIT;
    test_bytes bytes = {text, strlen(text), 0, SIZE_MAX, 0};
    NEW(xsm_dataset, d, xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "text"), options, &d, &err));
    return d;
}

/* Values whose digits matter: the ends of float32, its neighbours of round numbers, ties. */
static const float hard[] = {1.0f / 3,    0.1f,          16777217.0f,   8388608.5f,   FLT_MAX,    -FLT_MAX,
                             FLT_MIN,     1.4e-45f,      9.9999e-42f,   123456.7f,    -0.001f,    1e10f,
                             1e-10f,      3.4028233e38f, 1234567.0f,    999999.94f,   1000000.0f, -1000000.0f,
                             0.99999994f, 3e-45f,        2147483648.0f, -123456789.f, 0.5f};
#define HARD (sizeof hard / sizeof *hard)

/* A dense dataset of these, two rows of them and one of zeros, labels that are no classes. */
static xsm_dataset *hard_rows(int32_t negative)
{
    static float values[3][HARD];
    static const uint32_t labels[] = {2, 0, 1};
    xsm_error err = XSM_ERROR_INIT;
    for (size_t j = 0; j < HARD; j++) {
        values[0][j] = hard[j];
        values[1][j] = j % 2 ? 0 : nextafterf(hard[j], 0);
    }
    xsm_labels l = {sizeof l, 3, 0, NULL, labels, NULL};
    NEW(xsm_dataset, d,
        xsm_dataset_from_dense(
            NULL, STRUCT(xsm_dense_rows, .values = values[0], .rows = 3, .features = HARD, .labels = &l), &d, &err));
    int64_t own[] = {negative ? -5 : 3, 7, 1000000};
    assert_ok(xsmi_dataset_replace_classes(d, 3, own, NULL, &err), err);
    xsmi_dataset_count_labels(d);
    return d;
}

static const char multi[] = "4 9 20\n3,1,19 0:1 8:-2.5\n\n 2:1e-7\n7\n";
static const char quoted[] = "a,label,b\n1,\"x, \"\"y\"\"\",0\n0,,2\n-3,\"b\tc\",.5\n0,d,0\n";
static const char words[] = "__label__z the cat __label__a\nthe dog\n\n__label__z a dog the dog\n";

static xsm_dataset *sample(int which)
{
    xsm_text_options how = XSM_TEXT_OPTIONS_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    how.word_ngrams = 2;
    how.buckets = 20;
    options.text = &how;
    switch (which) {
    case 0:
        return hard_rows(0);
    case 1:
        return hard_rows(1);
    case 2:
        return from_text(multi, NULL);
    case 3:
        return from_text(quoted, NULL);
    case 4:
        return from_text(words, &options);
    default:
        return from_text("-3 1:1\n9223372036854775807 2:2\n-9223372036854775808 1:1 5:1\n", NULL);
    }
}
enum { SAMPLES = 6 };

typedef struct target {
    int32_t format, base;
    /* What writing each sample says; NULL = it must come back the same. */
    const char *refusal[SAMPLES];
} target;

#define NEGATIVE "labels from 0"
#define NAMED "the classes have names"
static const target targets[] = {
    {XSM_FORMAT_XC, 0, {NULL, NEGATIVE, NULL, NAMED, NAMED, NEGATIVE}},
    {XSM_FORMAT_LIBSVM, 0, {NULL, NULL, "row 1 (from 0) has no label and no feature", NAMED, NAMED, NULL}},
    {XSM_FORMAT_LIBSVM, XSM_INDEX_BASE_ZERO, {NULL, NULL, "row 1 (from 0)", NAMED, NAMED, NULL}},
    {XSM_FORMAT_CSV, 0, {NULL, NULL, "row 0 (from 0) has 3 labels", NULL, "row 0 (from 0) has 2 labels", NULL}},
    {XSM_FORMAT_TSV, 0, {NULL, NULL, "row 0 (from 0) has 3 labels", NULL, "row 0 (from 0) has 2 labels", NULL}},
    {XSM_FORMAT_NPY, 0, {NULL, NULL, "row 0 (from 0) has 3 labels", NAMED, NAMED, NULL}},
    {XSM_FORMAT_CACHE, 0, {NULL, NULL, NULL, NULL, NULL, NULL}},
};

TEST(there_and_back)
{
    char labels[512];
    char path[512];
    snprintf(labels, sizeof labels, "%s", test_path("labels.npy"));
    snprintf(path, sizeof path, "%s", test_path("written"));
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        for (int s = 0; s < SAMPLES; s++) {
            xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
            xsm_read_options read = XSM_READ_OPTIONS_INIT;
            HELD(xsm_dataset, d) = sample(s);
            write.format = targets[t].format;
            write.index_base = targets[t].base;
            write.labels_path = targets[t].format == XSM_FORMAT_NPY ? labels : NULL;
            read.index_base = targets[t].format == XSM_FORMAT_LIBSVM ? targets[t].base : 0;
            read.labels_path = write.labels_path;
            remove(path);
            xsm_status status = xsm_dataset_write(d, path, &write, &err);
            if (targets[t].refusal[s]) {
                if (status != XSM_ERROR_UNSUPPORTED || !strstr(err.message, targets[t].refusal[s])) {
                    fail_msg("target %zu, sample %d: %s: %s", t, s, xsm_status_name(status), err.message);
                }
                assert_null(fopen(path, "rb"));
            } else {
                assert_ok(status, err);
                MADE(xsm_dataset, again, xsm_dataset_read(NULL, path, NULL, &read, &again, &err));
                assert_int_equal(again->format, targets[t].format);
                assert_same(d, again, targets[t].format != XSM_FORMAT_LIBSVM, true);
            }
        }
    }
}

/* With a file for the names, numbers stand for them. */
TEST(names_aside)
{
    static const int32_t formats[] = {XSM_FORMAT_XC, XSM_FORMAT_LIBSVM};
    char path[512];
    char names[512];
    snprintf(path, sizeof path, "%s", test_path("numbers"));
    snprintf(names, sizeof names, "%s", test_path("names"));
    for (size_t i = 0; i < 2; i++) {
        xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
        HELD(xsm_dataset, d) = sample(4);
        assert_ok(xsm_dataset_drop(d, XSM_DROP_EMPTY, NULL, &err), err);
        write.format = formats[i];
        write.names_path = names;
        assert_ok(xsm_dataset_write(d, path, &write, &err), err);
        MADE(xsm_dataset, again, xsm_dataset_read(NULL, path, NULL, NULL, &again, &err));
        assert_ok(xsm_dataset_read_names(again, names, &err), err);
        assert_same(d, again, false, true);
    }
    /* A name that is two lines cannot be one. */
    xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
    HELD(xsm_dataset, d) = sample(3);
    d->map.names[1][0] = '\n';
    write.format = XSM_FORMAT_XC;
    write.names_path = names;
    assert_fails(xsm_dataset_write(d, path, &write, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "line end"));
}

TEST(wrong_options)
{
    static const struct {
        int sample;
        xsm_write_options options;
        xsm_status status;
        const char *says;
    } bad[] = {
        {0, {sizeof(xsm_write_options), 0, 0, NULL, NULL, NULL, NULL, NULL}, XSM_ERROR_RANGE, "1 to 8"},
        {0, {sizeof(xsm_write_options), 9, 0, NULL, NULL, NULL, NULL, NULL}, XSM_ERROR_RANGE, "1 to 8"},
        {0, {sizeof(xsm_write_options), XSM_FORMAT_XC, 3, NULL, NULL, NULL, NULL, NULL}, XSM_ERROR_RANGE, "0 to 2"},
        {4,
         {sizeof(xsm_write_options), XSM_FORMAT_TEXT, 0, NULL, NULL, NULL, NULL, NULL},
         XSM_ERROR_UNSUPPORTED,
         "words"},
        {0,
         {sizeof(xsm_write_options), XSM_FORMAT_XC, 0, NULL, "x", NULL, NULL, NULL},
         XSM_ERROR_ARGUMENT,
         "labels_path"},
        {0, {sizeof(xsm_write_options), XSM_FORMAT_XC, 0, NULL, NULL, "x", NULL, NULL}, XSM_ERROR_ARGUMENT, "no names"},
        {3,
         {sizeof(xsm_write_options), XSM_FORMAT_CSV, 0, NULL, NULL, "x", NULL, NULL},
         XSM_ERROR_ARGUMENT,
         "in themselves"},
        {3, {sizeof(xsm_write_options), XSM_FORMAT_CSV, 0, "b", NULL, NULL, NULL, NULL}, XSM_ERROR_RANGE, "'b'"},
        {0, {sizeof(xsm_write_options), XSM_FORMAT_CSV, 0, "f1", NULL, NULL, NULL, NULL}, XSM_ERROR_RANGE, "'f1'"},
        {0,
         {sizeof(xsm_write_options), XSM_FORMAT_NPY, 0, NULL, NULL, NULL, NULL, NULL},
         XSM_ERROR_ARGUMENT,
         "a file of their own"},
        {0,
         {sizeof(xsm_write_options), XSM_FORMAT_XC, 1, NULL, NULL, NULL, NULL, NULL},
         XSM_ERROR_ARGUMENT,
         "index_base is for"},
        {0,
         {sizeof(xsm_write_options), XSM_FORMAT_CACHE, 2, NULL, NULL, NULL, NULL, NULL},
         XSM_ERROR_ARGUMENT,
         "index_base is for"},
        {0,
         {sizeof(xsm_write_options), XSM_FORMAT_NPY, 0, "y", NULL, NULL, NULL, NULL},
         XSM_ERROR_ARGUMENT,
         "label_column is for"},
        {0, {8, XSM_FORMAT_XC, 0, NULL, NULL, NULL, NULL, NULL}, XSM_ERROR_STRUCT_OLD, ""},
    };
    const char *path = test_path("never");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        HELD(xsm_dataset, d) = sample(bad[i].sample);
        assert_fails(xsm_dataset_write(d, path, &bad[i].options, &err), bad[i].status, err);
        assert_non_null(strstr(err.message, bad[i].says));
        assert_null(fopen(path, "rb"));
    }
    for (size_t i = 0; i < 2; i++) { /* two contents cannot be one file, by whatever path */
        HELD(xsm_dataset, d) = sample(i == 0 ? 4 : 5);
        char same[512];
        xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
        write.format = i == 0 ? XSM_FORMAT_XC : XSM_FORMAT_NPY;
        write.names_path = i == 0 ? same : NULL;
        write.labels_path = i == 0 ? NULL : same;
        assert_true(snprintf(same, sizeof same, "%.*s/.//never", (int)(strrchr(path, '/') - path), path) < 512);
        assert_fails(xsm_dataset_write(d, path, &write, &err), XSM_ERROR_ARGUMENT, err);
        assert_non_null(strstr(err.message, i == 0 ? "names_path is the same file as path"
                                                   : "labels_path is the same file as path"));
        assert_null(fopen(path, "rb"));
    }
    xsm_write_options cache = {sizeof cache, XSM_FORMAT_CACHE, 0, NULL, NULL, NULL, NULL, NULL};
    HELD(xsm_dataset, d) = sample(0);
    assert_fails(xsm_dataset_write(NULL, path, &cache, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_write(d, NULL, &cache, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_write(d, path, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_write(d, "/nowhere/at/all", &cache, &err), XSM_ERROR_IO, err);
    assert_fails(xsm_dataset_write(d, "/dev/full",
                                   &(xsm_write_options){sizeof cache, XSM_FORMAT_CSV, 0, NULL, NULL, NULL, NULL, NULL},
                                   &err),
                 XSM_ERROR_IO, err);
}

/* Labels that are in no class map: a cache keeps them, nothing else does. */
TEST(unseen_labels)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    int64_t known[] = {1};
    map.classes = 1;
    map.labels = known;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.classes = &map;
    HELD(xsm_dataset, d) = from_text("1 1:1\n5,1 2:1\n6 2:2\n", &options);
    xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
    char path[512];
    snprintf(path, sizeof path, "%s", test_path("unseen"));
    write.format = XSM_FORMAT_XC;
    assert_fails(xsm_dataset_write(d, path, &write, &err), XSM_ERROR_UNSUPPORTED, err);
    write.format = XSM_FORMAT_CACHE;
    assert_ok(xsm_dataset_write(d, path, &write, &err), err);
    MADE(xsm_dataset, again, xsm_dataset_read(NULL, path, NULL, NULL, &again, &err));
    assert_same(d, again, true, true);
}

/* -- caches -------------------------------------------------------------------------------------------------------- */

static const char *cached(int which)
{
    static char path[512];
    xsm_error err = XSM_ERROR_INIT;
    xsm_write_options write = {sizeof write, XSM_FORMAT_CACHE, 0, NULL, NULL, NULL, NULL, NULL};
    HELD(xsm_dataset, d) = sample(which);
    snprintf(path, sizeof path, "%s", test_path("cache"));
    assert_ok(xsm_dataset_write(d, path, &write, &err), err);
    return path;
}

/* A cache may be written over itself; a file of another kind, or beside it, would lose what the cache holds. */
TEST(caches_are_replaced_by_caches)
{
    xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
    const char *path = cached(4);
    const char *beside = test_path("beside");
    NEW(xsm_dataset, d, xsm_dataset_read(NULL, path, NULL, NULL, &d, &err));
    write.format = XSM_FORMAT_XC;
    assert_fails(xsm_dataset_write(d, path, &write, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "only a cache may replace it"));
    write.names_path = path;
    assert_fails(xsm_dataset_write(d, beside, &write, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "only a cache may replace it"));
    write.names_path = NULL;
    write.format = XSM_FORMAT_CACHE;
    assert_ok(xsm_dataset_write(d, path, &write, &err), err);
    xsm_dataset_free(d);
    d = NULL;
    assert_ok(xsm_dataset_read(NULL, path, NULL, NULL, &d, &err), err);
    xsm_dataset_free(d);
}

/* What options ask of a file, they ask of its cache. */
TEST(caches_adapt)
{
    static const int64_t some[] = {3, 7, 8};
    for (int i = 0; i < 7; i++) {
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        xsm_read_options options = XSM_READ_OPTIONS_INIT;
        map.classes = 3;
        map.labels = some;
        map.features = i == 4 ? 3 : i == 5 ? 20 : 0;
        options.labels = i < 3 ? i : 0;
        options.classes = i >= 3 && i < 6 ? &map : NULL;
        options.features = i == 6 ? 11 : 0;
        HELD(xsm_dataset, direct) = from_text(multi, i < 5 ? &options : NULL);
        MADE(xsm_dataset, again, xsm_dataset_read(NULL, cached(2), NULL, &options, &again, &err));
        if (i < 5) {
            /* Labels left out leave their classes, which a cache has kept: compared against the same map only. */
            assert_true(options.labels != XSM_KEEP_LABELS_ALL || direct->classes == again->classes);
            assert_int_equal(direct->counted.labels, again->counted.labels);
            assert_int_equal(direct->counted.unseen_labels, again->counted.unseen_labels);
            assert_int_equal(direct->counted.dropped_features, again->counted.dropped_features);
            assert_int_equal(direct->features, again->features);
        } else {
            assert_int_equal(again->features, i == 5 ? 20 : 11);
        }
        if (i >= 3 && i < 5) {
            assert_same(direct, again, true, true);
        }
    }
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_dataset *d = NULL;
    options.features = 3;
    assert_fails(xsm_dataset_read(NULL, cached(2), NULL, &options, &d, &err), XSM_ERROR_FORMAT, err);
    assert_fails(
        xsm_dataset_read(NULL, cached(0), NULL, &(xsm_read_options){.size = sizeof options, .features = 99}, &d, &err),
        XSM_ERROR_FORMAT, err);
    test_bytes bytes = {"x", 1, 0, SIZE_MAX, 0};
    options.features = 0;
    options.format = XSM_FORMAT_CACHE;
    assert_fails(xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "s"), &options, &d, &err), XSM_ERROR_UNSUPPORTED, err);
    options.skip_verify = 2;
    assert_fails(xsm_dataset_read(NULL, "x", NULL, &options, &d, &err), XSM_ERROR_RANGE, err);
    assert_null(d);
}

/* Names are matched by name, from words or from a cache of them. */
TEST(caches_match_names)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    HELD(xsm_dataset, train) = from_text("__label__b the\n__label__z cat\n__label__q dog\n", NULL);
    assert_ok(xsm_dataset_get_class_map(train, &map, &err), err);
    map.features = 0;
    map.vocabulary = NULL;
    MADE(xsm_dataset, again,
         xsm_dataset_read(NULL, cached(4), NULL, STRUCT(xsm_read_options, .classes = &map), &again, &err));
    size_t n;
    const uint32_t *labels = xsmi_dataset_labels(again, 0, &n);
    assert_int_equal(n, 2);
    assert_int_equal(labels[0], 2); /* z */
    assert_int_equal(labels[1], XSM_CLASS_UNSEEN);
    assert_int_equal(again->classes, 3);
}

/* Every byte changed in turn: the checksum finds it. Without it, whatever is accepted has rows within their arrays. */
TEST(damaged_caches)
{
    FILE *file = fopen(cached(2), "rb");
    static unsigned char bytes[8192];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(size > 500 && size < sizeof bytes);
    size_t accepted = 0;
    for (size_t at = 0; at < size; at += at < 64 ? 1 : 3) {
        for (int believe = 0; believe < 2; believe++) {
            xsm_read_options options = XSM_READ_OPTIONS_INIT;
            HELD(xsm_dataset, d) = NULL;
            options.format = XSM_FORMAT_CACHE;
            options.skip_verify = believe;
            bytes[at] ^= 0x21;
            const char *path = test_file("damaged", bytes, size);
            xsm_status status = xsm_dataset_read(NULL, path, NULL, &options, &d, &err);
            bytes[at] ^= 0x21;
            if (!believe && status == XSM_OK) {
                fail_msg("byte %zu changed, and nothing was found", at);
            }
            assert_true(status == XSM_OK || (!d && strstr(err.message, path)));
            for (uint64_t i = 0; d && i < d->rows; i++) {
                assert_true(d->offsets[i] <= d->offsets[i + 1] && d->label_offsets[i] <= d->label_offsets[i + 1]);
            }
            accepted += d != NULL;
        }
    }
    assert_true(accepted > 0); /* values, labels */
    for (size_t length = 0; length < size; length += 7) {
        xsm_dataset *d = NULL;
        assert_int_not_equal(xsm_dataset_read(NULL, test_file("damaged", bytes, length), NULL,
                                              STRUCT(xsm_read_options, .format = XSM_FORMAT_CACHE, .skip_verify = 1),
                                              &d, &err),
                             XSM_OK);
        assert_null(d);
    }
}

/* Files of others that claim to be datasets: contents are judged by themselves, with a checksum that is right. */
TEST(wrong_caches)
{
    static const uint64_t right[] = {0, 1, 3};
    static const uint64_t falling[] = {0, 4, 3};
    static const uint64_t beyond[] = {0, 1, 4};
    static const uint32_t index[] = {1, 0, 2};
    static const uint32_t index_falls[] = {1, 2, 0};
    static const uint32_t index_large[] = {1, 0, 3};
    static const uint32_t index_equal[] = {1, 2, 2};
    static const float values[] = {1, 2, 3};
    static const float not_finite[] = {1, 2, INFINITY};
    static const uint32_t labels[] = {0, 1, XSM_CLASS_UNSEEN};
    static const uint32_t labels_large[] = {0, 2, 1};
    static const uint32_t labels_twice[] = {0, 1, 1};
    static const float nothing[] = {1, 0, 0};
    static const int64_t counts[] = {1, 1}, counts_high[] = {1, 2}, counts_low[] = {0, 1}, counts_below[] = {1, -1};
    static const struct {
        const uint64_t *offsets, *label_offsets;
        const uint32_t *index;
        const float *values;
        const uint32_t *labels;
        const char *says, *features;
        const int64_t *counts;
        const char *key, *claim; /* metadata that is other than below */
    } files[] = {
        {right, right, index, values, labels, NULL, "3", counts, NULL, NULL},
        {right, right, index, values, labels, "2 rows of class 1, and there are 1", "3", counts_high, NULL, NULL},
        {right, right, index, values, labels, "0 rows of class 0, and there are 1", "3", counts_low, NULL, NULL},
        {right, right, index, values, labels, "-1 rows of class 1", "3", counts_below, NULL, NULL},
        {right, right, index, values, labels, "'labels_unseen' is 0, and there are 1", "3", counts, "labels_unseen",
         "0"},
        {right, right, index, values, labels, "'labels_unseen' is 2", "3", counts, "labels_unseen", "2"},
        {right, right, index, values, labels, "'rows_unseen' is 1", "3", counts, "rows_unseen", "1"},
        {right, right, index, values, labels, "'rows_without_label' is 1", "3", counts, "rows_without_label", "1"},
        {right, right, index, values, labels, "'rows_without_feature' is 3", "3", counts, "rows_without_feature", "3"},
        {right, right, index, nothing, labels, "'rows_without_feature' is 0, and there are 1", "3", counts, NULL, NULL},
        {right, right, index, nothing, labels, NULL, "3", counts, "rows_without_feature", "1"},
        {right, right, index, values, labels_twice, "row 1 (from 0) has the label 1 twice", "3", counts, NULL, NULL},
        {falling, right, index, values, labels, "'offsets'", "3", counts, NULL, NULL},
        {right, falling, index, values, labels, "'label_offsets'", "3", counts, NULL, NULL},
        {beyond, right, index, values, labels, "'offsets'", "3", counts, NULL, NULL},
        {right, right, index_falls, values, labels, "row 1", "3", counts, NULL, NULL},
        {right, right, index_equal, values, labels, "row 1", "3", counts, NULL, NULL},
        {right, right, index_large, values, labels, "row 1", "3", counts, NULL, NULL},
        {right, right, index, not_finite, labels, "row 1", "3", counts, NULL, NULL},
        {right, right, index, values, labels_large, "row 1", "3", counts, NULL, NULL},
        {right, right, index, values, labels, "'features' is '-1'", "-1", counts, NULL, NULL},
        {right, right, index, values, labels, "2147483648 features", "2147483648", counts, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        xsm_dataset *d = NULL;
        const char *path = test_path("wrong");
        MADE(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
        xsmi_tensor tensors[] = {{.name = "offsets", .dtype = XSMI_DTYPE_U64, .rank = 1, .shape = {3}},
                                 {.name = "label_offsets", .dtype = XSMI_DTYPE_U64, .rank = 1, .shape = {3}},
                                 {.name = "class_counts", .dtype = XSMI_DTYPE_I64, .rank = 1, .shape = {2}},
                                 {.name = "values", .dtype = XSMI_DTYPE_F32, .rank = 1, .shape = {3}},
                                 {.name = "index", .dtype = XSMI_DTYPE_U32, .rank = 1, .shape = {3}},
                                 {.name = "labels", .dtype = XSMI_DTYPE_U32, .rank = 1, .shape = {3}}};
        xsmi_entry metadata[] = {{"dataset", "1"},
                                 {"features", files[i].features},
                                 {"classes", "2"},
                                 {"index_base", "1"},
                                 {"source_format", "1"},
                                 {"dropped_features", "0"},
                                 {"rows_without_label", "0"},
                                 {"rows_without_feature", "0"},
                                 {"rows_unseen", "0"},
                                 {"labels_unseen", "1"}};
        for (size_t k = 0; k < sizeof metadata / sizeof *metadata && files[i].key; k++) {
            metadata[k].value = strcmp(metadata[k].key, files[i].key) == 0 ? files[i].claim : metadata[k].value;
        }
        xsmi_container_writer *w = NULL;
        assert_ok(xsmi_container_create(ctx, path, &(xsmi_container_plan){tensors, 6, 0, metadata, 10}, &w, &err), err);
        assert_ok(xsmi_container_write(w, files[i].offsets, 24, &err), err);
        assert_ok(xsmi_container_write(w, files[i].label_offsets, 24, &err), err);
        assert_ok(xsmi_container_write(w, files[i].counts, 16, &err), err);
        assert_ok(xsmi_container_write(w, files[i].values, 12, &err), err);
        assert_ok(xsmi_container_write(w, files[i].index, 12, &err), err);
        assert_ok(xsmi_container_write(w, files[i].labels, 12, &err), err);
        assert_ok(xsmi_container_commit(w, &err), err);
        for (int believe = 0; believe < 2; believe++) {
            xsm_read_options options = XSM_READ_OPTIONS_INIT;
            options.format = XSM_FORMAT_CACHE;
            options.skip_verify = believe;
            xsm_status status = xsm_dataset_read(NULL, path, NULL, &options, &d, &err);
            if (files[i].says ? status == XSM_OK || !strstr(err.message, files[i].says) : status != XSM_OK) {
                fail_msg("file %zu: %s: %s", i, xsm_status_name(status), err.message);
            }
            xsm_dataset_free(d);
            d = NULL;
        }
    }
}

/* -- NumPy --------------------------------------------------------------------------------------------------------- */

TEST(wrong_arrays)
{
    static const struct {
        const char *header;
        size_t data;
        xsm_status status;
        const char *says;
        const char *column;
    } files[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, XSM_OK, "", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, XSM_OK, "", "-3"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 48, XSM_OK, "", "0"},
        {"{'shape':(1,3),'fortran_order':False,'descr':'<f8'}", 24, XSM_OK, "", "2"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23, XSM_ERROR_FORMAT, "row 1 (from 0) of 2",
         NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 25, XSM_ERROR_FORMAT, "more bytes", NULL},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", 24, XSM_OK, "", NULL},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 24, XSM_OK, NULL, NULL},
        {"{'descr': '<U2', 'fortran_order': False, 'shape': (2, 3), }", 48, XSM_ERROR_FORMAT, "of text", NULL},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }", 12, XSM_OK, NULL, NULL},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }", 48, XSM_ERROR_FORMAT, "'<c8'", NULL},
        {"{'descr': [('a','<f4')], 'fortran_order': False, 'shape': (2,)}", 8, XSM_ERROR_FORMAT, "type", NULL},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24, XSM_ERROR_FORMAT, "column by column", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", 24, XSM_ERROR_FORMAT, "1 dimensions", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3), }", 24, XSM_ERROR_FORMAT, "3 dimensions", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2, 3), }", 24, XSM_ERROR_FORMAT, "shape", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 6, }", 24, XSM_ERROR_FORMAT, "tuple", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (x, 3), }", 24, XSM_ERROR_FORMAT, "shape", NULL},
        {"{'descr': '<f4', 'shape': (2, 3), }", 24, XSM_ERROR_FORMAT, "needs 'descr'", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }", 0, XSM_ERROR_DATA, "no rows", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0), }", 0, XSM_ERROR_LIMIT, "0 columns", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6, 1), }", 24, XSM_ERROR_LIMIT, "0 columns", "0"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 99999999999), }", 24, XSM_ERROR_LIMIT, "columns", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, XSM_ERROR_RANGE, "0 to 2", "3"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, XSM_ERROR_RANGE, "-1 down to -3", "-4"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, XSM_ERROR_RANGE, "'kind'", "kind"},
    };
    static const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3};
    static const double doubles[] = {1, 2, 3, 4, 5, 6};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        for (size_t step = 0; step < 3; step++) {
            static unsigned char text[1024];
            size_t length = strlen(files[i].header);
            memcpy(text, "\x93NUMPY\x01\x00", 8);
            text[8] = (unsigned char)length;
            text[9] = 0;
            memcpy(text + 10, files[i].header, length);
            memcpy(text + 10 + length, strstr(files[i].header, "<f8") ? (const void *)doubles : numbers, 48);
            xsm_read_options options = XSM_READ_OPTIONS_INIT;
            HELD(xsm_dataset, d) = NULL;
            test_bytes bytes = {text, 10 + length + files[i].data, step, SIZE_MAX, 0};
            options.format = XSM_FORMAT_NPY;
            options.label_column = files[i].column;
            xsm_status status = xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "array.npy"), &options, &d, &err);
            if (status != files[i].status ||
                (status != XSM_OK && (!strstr(err.message, files[i].says) || d || !strstr(err.message, "array.npy")))) {
                fail_msg("array %zu: %s: %s", i, xsm_status_name(status), err.message);
            }
            if (d && files[i].column) {
                assert_int_equal(d->features, 2);
                assert_int_equal(d->map.labels[0], files[i].column[0] == '2' ? 3 : 1);
            }
        }
    }
    /* Versions 1 and 2, whose headers' lengths have two bytes and four. */
    static const char *const starts[] = {"\x93NUMPY\x01\x00\x40\x00{'descr': '<f4', 'fortran_order': False",
                                         "\x93NUMPY\x02\x00\x40\x00\x00\x00{'descr': '<f4', 'fortran_order': False"};
    for (size_t cut = 0; cut < 80; cut++) {
        xsm_read_options options = XSM_READ_OPTIONS_INIT;
        xsm_dataset *d = NULL;
        test_bytes bytes = {starts[cut % 2], cut / 2, 0, SIZE_MAX, 0};
        options.format = XSM_FORMAT_NPY;
        assert_fails(xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "a"), &options, &d, &err), XSM_ERROR_FORMAT, err);
    }
}

TEST(wrong_labels)
{
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } files[] = {
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", 8, NULL},
        {"{'descr': '|i1', 'fortran_order': False, 'shape': (2, 1), }", 2, NULL},
        {"{'descr': '<u8', 'fortran_order': False, 'shape': (2,), }", 16, NULL},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", 12, "has labels for 3 rows"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }", 16, "a label for each row"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", 7, "row 1"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", 9, "more bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, "no integer"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        static const char matrix[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
        unsigned char text[256] = "\x93NUMPY\x01";
        unsigned char labels[256] = "\x93NUMPY\x01";
        size_t length = sizeof matrix - 1;
        text[8] = (unsigned char)length;
        memcpy(text + 10, matrix, length);
        memset(text + 10 + length, 0, 8);
        size_t size = strlen(files[i].header);
        labels[8] = (unsigned char)size;
        memcpy(labels + 10, files[i].header, size);
        memset(labels + 10 + size, 0x3E, 4); /* as a float 0.19 */
        char path[512];
        snprintf(path, sizeof path, "%s", test_file("labels", labels, 10 + size + files[i].data));
        xsm_read_options options = XSM_READ_OPTIONS_INIT;
        HELD(xsm_dataset, d) = NULL;
        options.labels_path = path;
        xsm_status status =
            xsm_dataset_read(NULL, test_file("matrix", text, 10 + length + 8), NULL, &options, &d, &err);
        if (files[i].says ? status == XSM_OK || !strstr(err.message, files[i].says) : status != XSM_OK) {
            fail_msg("labels %zu: %s: %s", i, xsm_status_name(status), err.message);
        }
    }
}

/* -- spools, memory ------------------------------------------------------------------------------------------------ */

/* Rows in temporary files are the rows in memory, for every reader, also when changed later. */
/* A file of weights is read with the rows, whatever their format; weights are written beside all formats but caches,
 * and read back the same. */
TEST(weights_beside)
{
    static const double given[] = {0.5, 0, 3, 0.1f};
    const char *weights = test_file("weights", TEXT("0.5\n0\r\n3e0 \n.1"));
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    read.weights_path = weights;
    static const char plain[] = "a,label,b\n1,x,0\n0,,2\n-3,b,.5\n0,d,0\n";
    xsm_dataset *d = from_text(plain, &read);
    static const int32_t formats[] = {XSM_FORMAT_CSV, XSM_FORMAT_XC, XSM_FORMAT_NPY, XSM_FORMAT_CACHE};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
        xsm_read_options again = XSM_READ_OPTIONS_INIT;
        write.format = again.format = formats[i];
        if (formats[i] == XSM_FORMAT_XC || formats[i] == XSM_FORMAT_NPY) {
            write.names_path = test_path("weighted-names");
        }
        if (formats[i] == XSM_FORMAT_NPY) {
            uint64_t dropped;
            assert_ok(xsm_dataset_drop(d, XSM_DROP_UNLABELLED, &dropped, &err), err);
            assert_int_equal(dropped, 1); /* the second row, and its weight */
            write.labels_path = again.labels_path = test_path("weighted-labels");
        }
        const char *path = test_path("weighted");
        if (formats[i] != XSM_FORMAT_CACHE) {
            assert_fails(xsm_dataset_write(d, path, &write, &err), XSM_ERROR_UNSUPPORTED, err);
            assert_non_null(strstr(err.message, "weights_path"));
            write.weights_path = path;
            assert_fails(xsm_dataset_write(d, path, &write, &err), XSM_ERROR_ARGUMENT, err);
            write.weights_path = again.weights_path = test_path("weighted-weights");
        }
        assert_ok(xsm_dataset_write(d, path, &write, &err), err);
        MADE(xsm_dataset, back, xsm_dataset_read(NULL, path, NULL, &again, &back, &err));
        xsm_dataset_info info = XSM_DATASET_INFO_INIT, kept = XSM_DATASET_INFO_INIT;
        assert_ok(xsm_dataset_get_info(back, &info, &err), err);
        assert_ok(xsm_dataset_get_info(d, &kept, &err), err);
        assert_true(info.weighted && info.total_weight == kept.total_weight && info.rows == kept.rows);
        for (uint64_t r = 0; r < info.rows; r++) {
            xsm_row row = XSM_ROW_INIT;
            assert_ok(xsm_dataset_get_row(back, r, &row, &err), err);
            assert_true(row.weight == given[r + (r > 0 && info.rows == 3)]);
        }
    }
    xsm_dataset_free(d);
    static const struct {
        const char *text;
        xsm_status status;
        const char *message;
    } wrong[] = {
        {"1\n2\n3\n", XSM_ERROR_SHAPE, "only 3 lines"},  {"1\n2\n3\n4\n5\n", XSM_ERROR_SHAPE, "more than 4"},
        {"1\n2\n\n4\n", XSM_ERROR_FORMAT, "line 3"},     {"1\n-2\n3\n4\n", XSM_ERROR_FORMAT, "'-2'"},
        {"1\nnan\n3\n4\n", XSM_ERROR_FORMAT, "line 2"},  {"1 1\n2\n3\n4\n", XSM_ERROR_FORMAT, "line 1"},
        {"1\n2\n3\n1e99\n", XSM_ERROR_FORMAT, "line 4"}, {"1\n\1\377\n3\n4\n", XSM_ERROR_FORMAT, "'\\x01\\xFF'"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        xsm_dataset *none = NULL;
        read.weights_path = test_file("weights", wrong[i].text, strlen(wrong[i].text));
        assert_fails(xsm_dataset_read(NULL, test_file("rows.csv", TEXT(plain)), NULL, &read, &none, &err),
                     wrong[i].status, err);
        assert_non_null(strstr(err.message, wrong[i].message));
        assert_null(none);
    }
    read.weights_path = "no/such/file";
    xsm_dataset *none = NULL;
    assert_fails(xsm_dataset_read(NULL, test_file("rows.csv", TEXT(plain)), NULL, &read, &none, &err), XSM_ERROR_IO,
                 err);
}

static void check_weights(const xsm_dataset *d, const double *given)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(d, &info, &err), err);
    assert_true(info.weighted && info.rows == 3 && info.features == 2 &&
                info.total_weight == given[0] + given[1] + given[2]);
    for (uint64_t i = 0; i < 3; i++) {
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(d, i, &row, &err), err);
        assert_true(row.weight == given[i] && row.values[0] == (float)i && row.values[1] == 7 && row.label_count == 1);
    }
}

/* Weights as a column of CSV, TSV and NumPy files: the same rows as with a file of weights, before and behind the
 * labels, in memory and spooled, with a class map and without; written to a column, and read back. */
TEST(weights_in_a_column)
{
    static const double given[] = {0.5, 0, 3};
    static const char *const texts[] = {"a,w,b,label\n0,.5,7,x\n1, 0 ,7,y\n2,3e0,7,x\n",
                                        "w\tlabel\ta\tb\n5e-1\tx\t0\t7\n-0\ty\t1\t7\n3\tx\t2\t7\n",
                                        "a,b,label,\"w\"\n0,7,x,0.5\n1,7,y,0\n2,7,x,\"3\"\n"};
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    for (size_t i = 0; i < 3; i++) {
        read.spool = i == 1 ? "/tmp" : NULL;
        read.weights_column = "w";
        read.classes = NULL;
        HELD(xsm_dataset, d) = from_text(texts[i], &read);
        xsm_dataset *back = NULL;
        check_weights(d, given);
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
        for (int32_t format = XSM_FORMAT_CSV; format <= XSM_FORMAT_TSV; format++) {
            xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
            const char *path = test_path("column");
            write.format = format;
            assert_fails(xsm_dataset_write(d, path, &write, &err), XSM_ERROR_UNSUPPORTED, err);
            assert_non_null(strstr(err.message, "weights_column"));
            write.weights_column = "label";
            assert_fails(xsm_dataset_write(d, path, &write, &err), XSM_ERROR_RANGE, err);
            write.weights_column = "a";
            assert_fails(xsm_dataset_write(d, path, &write, &err), XSM_ERROR_RANGE, err);
            write.weights_column = "say \"w\"";
            write.weights_path = test_path("column-weights");
            assert_fails(xsm_dataset_write(d, path, &write, &err), XSM_ERROR_ARGUMENT, err);
            write.weights_path = NULL;
            assert_ok(xsm_dataset_write(d, path, &write, &err), err);
            read.weights_column = write.weights_column;
            read.classes = format == XSM_FORMAT_TSV ? &map : NULL;
            assert_ok(xsm_dataset_read(NULL, path, NULL, &read, &back, &err), err);
            check_weights(back, given);
            xsm_dataset_free(back);
        }
        assert_fails(xsm_dataset_write(d, test_path("column"),
                                       STRUCT(xsm_write_options, .format = XSM_FORMAT_XC, .weights_column = "w"), &err),
                     XSM_ERROR_ARGUMENT, err);
        /* Against the class map without labels. */
        read.weights_column = "1";
        read.classes = &map;
        HELD(xsm_dataset, bare) = from_text("b,1,a\n7,.5,0\n", &read);
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(bare, 0, &row, &err), err);
        assert_true(row.weight == 0.5 && row.values[1] == 7 && row.label_count == 0);
    }
    read = (xsm_read_options)XSM_READ_OPTIONS_INIT;
    /* The columns of a matrix: features 0, weights 1, labels 3. */
    static const char *const columns[][2] = {{"1", "3"}, {"-3", "-1"}};
    read.label_column = "c";
    xsm_dataset *all = from_text("a,w,b,l,c\n0,.5,7,4,\n1,0,7,5,\n2,3,7,4,\n", &read);
    xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
    write.format = XSM_FORMAT_NPY;
    const char *path = test_path("column.npy");
    assert_ok(xsm_dataset_write(all, path, &write, &err), err);
    for (size_t i = 0; i < 2; i++) {
        read.weights_column = columns[i][0];
        read.label_column = columns[i][1];
        MADE(xsm_dataset, d, xsm_dataset_read(NULL, path, NULL, &read, &d, &err));
        check_weights(d, given);
    }
    xsm_dataset_free(all);
    static const struct {
        const char *labels, *weights;
        xsm_status status;
        const char *message;
    } numbers[] = {{"3", "4", XSM_ERROR_RANGE, "the weights column is '4'"},
                   {"3", "w", XSM_ERROR_RANGE, "from 0 to 3"},
                   {"3", "-1", XSM_ERROR_ARGUMENT, "the column -1 is that of the labels"}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        xsm_dataset *none = NULL;
        read.label_column = numbers[i].labels;
        read.weights_column = numbers[i].weights;
        assert_fails(xsm_dataset_read(NULL, path, NULL, &read, &none, &err), numbers[i].status, err);
        assert_non_null(strstr(err.message, numbers[i].message));
        assert_null(none);
    }
    read.label_column = NULL;
    read.weights_column = "-1";
    all = from_text("a,w,b,label\n0,.5,7,\n1,0,-7,\n", NULL);
    assert_ok(xsm_dataset_write(all, path, &write, &err), err);
    xsm_dataset_free(all);
    xsm_dataset *none = NULL;
    assert_fails(xsm_dataset_read(NULL, path, NULL, &read, &none, &err), XSM_ERROR_FORMAT, err);
    assert_non_null(strstr(err.message, "row 1, column 2 (both from 0): -7 is no weight"));
    static const struct {
        const char *text;
        xsm_status status;
        const char *message;
    } wrong[] = {{"a,label\n1,x\n", XSM_ERROR_FORMAT, "line 1, column 1: no column 'w'"},
                 {"a,w,label,w\n1,1,x,1\n", XSM_ERROR_FORMAT, "line 1, column 11: a second column 'w'"},
                 {"w,label\n1,x\n", XSM_ERROR_FORMAT, "no column beside 'w', 'label'"},
                 {"a,w,label\n1,1,x\n1,-2,x\n", XSM_ERROR_FORMAT, "line 3, column 3: '-2' is no weight"},
                 {"a,w,label\n1,,x\n", XSM_ERROR_FORMAT, "line 2, column 3: expected a number, found an empty field"},
                 {"a,w,label\n1,1e99,x\n", XSM_ERROR_FORMAT, "line 2, column 3"},
                 {"a,w,label\n1,nan,x\n", XSM_ERROR_FORMAT, "line 2, column 3: expected a finite number"},
                 {"a,w,label\n1,2 z,x\n", XSM_ERROR_FORMAT, "line 2, column 5"},
                 {"1 1:2\n", XSM_ERROR_ARGUMENT, "weights_column"}};
    read.weights_column = "w";
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_fails(
            xsm_dataset_read(NULL, test_file("rows", wrong[i].text, strlen(wrong[i].text)), NULL, &read, &none, &err),
            wrong[i].status, err);
        if (!strstr(err.message, wrong[i].message)) {
            fail_msg("'%s' lacks '%s'", err.message, wrong[i].message);
        }
        assert_null(none);
    }
    read.weights_column = "label";
    assert_fails(xsm_dataset_read(NULL, test_file("rows", TEXT("a,label\n1,x\n")), NULL, &read, &none, &err),
                 XSM_ERROR_ARGUMENT, err);
    read.weights_path = "weights"; /* both */
    assert_fails(xsm_dataset_read(NULL, "rows", NULL, &read, &none, &err), XSM_ERROR_ARGUMENT, err);
    read.weights_path = NULL;
    read.format = XSM_FORMAT_XC;
    assert_fails(xsm_dataset_read(NULL, "rows", NULL, &read, &none, &err), XSM_ERROR_ARGUMENT, err);
    HELD(xsm_dataset, plain) = from_text("a,label\n1,x\n", NULL);
    write.format = XSM_FORMAT_CSV;
    write.weights_column = "w";
    assert_fails(xsm_dataset_write(plain, test_path("column"), &write, &err), XSM_ERROR_ARGUMENT, err);
}

/* Labels with weights in three formats, and in a cache. */
TEST(labels_with_weights)
{
    static const struct {
        const char *text;
        int32_t format, labels;
        bool spooled;
    } tries[] = {{"3 9 20\n3:0.5,7 0:1\n 1:2\n7:2,3:0,12:1e1 0:1 8:3\n", XSM_FORMAT_XC, XSM_KEEP_LABELS_ALL, false},
                 {"3:0.5,7 0:1\n 1:2\n7:2,3:0,12:1e1 0:1 8:3\n", XSM_FORMAT_LIBSVM, XSM_KEEP_LABELS_ALL, true},
                 {"__label__3:0.5 a __label__7\nb\n__label__7:2 a __label__3:0 b __label__12:10\n", XSM_FORMAT_TEXT,
                  XSM_KEEP_LABELS_ALL, true},
                 {"3:0.5,7 0:1\n 1:2\n7:2,3:0,12:1e1 0:1 8:3\n", XSM_FORMAT_LIBSVM, XSM_KEEP_LABELS_SMALLEST, false},
                 {"3:0.5,7 0:1\n 1:2\n7:2,3:0,12:1e1 0:1 8:3\n", XSM_FORMAT_LIBSVM, XSM_KEEP_LABELS_FIRST, false}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        xsm_read_options read = XSM_READ_OPTIONS_INIT;
        read.format = tries[i].format;
        read.labels = tries[i].labels;
        read.label_weights = 1;
        read.spool = tries[i].spooled ? "/tmp" : NULL;
        HELD(xsm_dataset, d) = from_text(tries[i].text, &read);
        xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
        write.format = XSM_FORMAT_XC;
        write.names_path = tries[i].format == XSM_FORMAT_TEXT ? test_path("names-aside") : NULL;
        assert_fails(xsm_dataset_write(d, test_path("labelled"), &write, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_non_null(strstr(err.message, "cache"));
        write.format = XSM_FORMAT_CACHE;
        write.names_path = NULL;
        assert_ok(xsm_dataset_write(d, test_path("labelled"), &write, &err), err);
        MADE(xsm_dataset, back, xsm_dataset_read(NULL, test_path("labelled"), NULL, NULL, &back, &err));
        const xsm_dataset *const both[] = {d, back};
        for (size_t j = 0; j < 2; j++) {
            xsm_row row = XSM_ROW_INIT;
            assert_ok(xsm_dataset_get_row(both[j], 0, &row, &err), err);
            const bool all = tries[i].labels == XSM_KEEP_LABELS_ALL;
            assert_int_equal(row.label_count, all ? 2 : 1);
            assert_true(row.label_weights[0] == 0.5f && (!all || row.label_weights[1] == 1));
            assert_ok(xsm_dataset_get_row(both[j], 1, &row, &err), err);
            assert_int_equal(row.label_count, 0);
            assert_ok(xsm_dataset_get_row(both[j], 2, &row, &err), err);
            assert_int_equal(row.label_count, all ? 3 : 1);
            assert_true(row.label_weights[0] == (tries[i].labels == XSM_KEEP_LABELS_SMALLEST ? 0 : 2));
            assert_true(!all || (row.label_weights[1] == 0 && row.label_weights[2] == 10));
        }
        assert_int_equal(xsmi_dataset_fingerprint(d), xsmi_dataset_fingerprint(back));
    }
    static const struct {
        const char *text;
        int32_t format;
    } wrong[] = {{"3:-1 0:1\n", XSM_FORMAT_LIBSVM},
                 {"3: 0:1\n", XSM_FORMAT_LIBSVM},
                 {"3:nan 0:1\n", XSM_FORMAT_LIBSVM},
                 {"__label__x:-2 a\n", XSM_FORMAT_TEXT},
                 {"3:1:2 0:1\n", XSM_FORMAT_LIBSVM}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        xsm_read_options read = XSM_READ_OPTIONS_INIT;
        xsm_dataset *d = NULL;
        read.format = wrong[i].format;
        read.label_weights = 1;
        assert_fails(
            xsm_dataset_read(NULL, test_file("wrong", wrong[i].text, strlen(wrong[i].text)), NULL, &read, &d, &err),
            XSM_ERROR_FORMAT, err);
        assert_int_equal(err.line, 1);
    }
}

TEST(spooled)
{
    static const char *const texts[] = {multi, quoted, words, "1 3:1 1:2\n2 7:1\n", "a\tlabel\n1\t2\n3\t4\n"};
    char folder[512];
    snprintf(folder, sizeof folder, "%s", test_path(""));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        xsm_read_options options = XSM_READ_OPTIONS_INIT;
        HELD(xsm_dataset, plain) = from_text(texts[i], NULL);
        options.spool = folder;
        HELD(xsm_dataset, d) = from_text(texts[i], &options);
        assert_same(plain, d, true, true);
        assert_true(xsmi_dataset_mapped_bytes(d) > 0);
        assert_ok(xsm_dataset_shuffle(d, 3, &err), err);
        assert_ok(xsm_dataset_shuffle(plain, 3, &err), err);
        assert_ok(xsm_dataset_drop(d, XSM_DROP_UNLABELLED, NULL, &err), err);
        assert_ok(xsm_dataset_drop(plain, XSM_DROP_UNLABELLED, NULL, &err), err);
        assert_same(plain, d, true, true);
    }
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_dataset *d = NULL;
    options.spool = "/nowhere/at/all";
    test_bytes bytes = {TEXT("1 1:1\n"), 0, SIZE_MAX, 0};
    assert_fails(xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "s"), &options, &d, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, "/nowhere/at/all"));
    assert_null(d);
}

typedef struct way {
    const char *text;
    int32_t format;
    bool spool, mapped;
} way;

/* Reads, writes and reads again, all on the context whose memory runs out. */
static xsm_status write_and_read(void *state, xsm_context *ctx, xsm_error *err)
{
    static const int64_t some[] = {1, 5, 9};
    const way *w = state;
    char path[512];
    char labels[512];
    char folder[512];
    snprintf(path, sizeof path, "%s", test_path("memory"));
    snprintf(labels, sizeof labels, "%s", test_path("memory.labels"));
    snprintf(folder, sizeof folder, "%s", test_path(""));
    xsm_write_options write = {sizeof write, w->format, 0,   NULL, w->format == XSM_FORMAT_NPY ? labels : NULL,
                               NULL,         NULL,      NULL};
    xsm_read_options first = XSM_READ_OPTIONS_INIT;
    xsm_read_options second = XSM_READ_OPTIONS_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = 3;
    map.labels = some;
    first.spool = w->spool ? folder : NULL;
    second.classes = w->mapped ? &map : NULL;
    second.labels_path = write.labels_path;
    test_bytes bytes = {w->text, strlen(w->text), 0, SIZE_MAX, 0};
    HELD(xsm_dataset, d) = NULL;
    HELD(xsm_dataset, again) = NULL;
    xsm_status status = xsm_dataset_read(ctx, NULL, TEST_BYTES(&bytes, "text"), &first, &d, err);
    status = status == XSM_OK ? xsm_dataset_write(d, path, &write, err) : status;
    status = status == XSM_OK ? xsm_dataset_read(ctx, path, NULL, &second, &again, err) : status;
    return status;
}

TEST(memory_runs_out)
{
    static const char one[] = "3 1:1 2:2\n5 1:.5\n";
    way ways[] = {
        {multi, XSM_FORMAT_CACHE, false, false}, {words, XSM_FORMAT_CACHE, true, false},
        {multi, XSM_FORMAT_CACHE, false, true},  {quoted, XSM_FORMAT_CACHE, false, false},
        {multi, XSM_FORMAT_XC, true, false},     {one, XSM_FORMAT_LIBSVM, false, false},
        {quoted, XSM_FORMAT_CSV, false, false},  {one, XSM_FORMAT_NPY, false, false},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        assert_true(test_every_allocation(write_and_read, &ways[i]) > 10);
    }
}

/* -- orders -------------------------------------------------------------------------------------------------------- */

/* The order of a dataset that claims to lie in a file of 6.4 GB is a permutation whose stretches come from few places.
 */
TEST(orders_of_large_files)
{
    enum { ROWS = 100003 };
    MADE(xsm_dataset, d,
         xsm_dataset_from_dense(
             NULL, STRUCT(xsm_dense_rows, .values = NULL, .rows = ROWS, .features = 0, .ownership = XSM_BORROW), &d,
             &err));
    uint64_t *order = calloc(ROWS, sizeof *order);
    unsigned char *seen = calloc(ROWS, 1);
    assert_non_null(order);
    assert_non_null(seen);
    size_t jumps[2];
    const int most = UINT64_C(64000) * ROWS <= SIZE_MAX / 2; /* else no file is large */
    for (int large = 0; large <= most; large++) {
        xsm_dataset view = *d;
        view.capacity.values = 0;
        view.mapped.count = 1;
        view.mapped.files[0] =
            (xsmi_mapping){.data = (const unsigned char *)"", .size = large ? (size_t)64000 * ROWS : 1000};
        xsmi_stream stream;
        xsmi_stream_start(&stream, 5, XSMI_STREAM_SHUFFLE, 0);
        assert_ok(xsmi_dataset_order(&view, &stream, order, &err), err);
        memset(seen, 0, ROWS);
        for (size_t i = 0; i < ROWS; i++) {
            assert_true(order[i] < ROWS && !seen[order[i]]);
            seen[order[i]] = 1;
        }
        /* Rows of 64 kB: 4194 of them are a stretch of 256 MB, 65 a run of 4 MB. */
        memset(seen, 0, ROWS);
        jumps[large] = 0;
        for (size_t i = 0; i < 4194; i++) {
            jumps[large] += !seen[order[i] / 65];
            seen[order[i] / 65] = 1;
        }
        /* Within a stretch the order is mixed: neighbours are seldom neighbours in the file. */
        size_t neighbours = 0;
        for (size_t i = 1; i < 4194; i++) {
            neighbours += order[i] == order[i - 1] + 1;
        }
        assert_true(neighbours < 20);
    }
    assert_true(jumps[0] > 1400); /* of 1539, nearly all */
    assert_true(most == 0 || (jumps[1] >= 64 && jumps[1] <= 66));
    free(order);
    free(seen);
}
