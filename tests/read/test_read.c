/* Tests of reading well-formed text of every format, however the bytes are divided into pieces. */
#include "rows.h"
#include "support.h"

#include "data/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TEST_ZLIB
#include <zlib.h>
#endif

static xsm_status read_bytes(const void *data, size_t size, size_t step, const xsm_read_options *options,
                             xsm_dataset **out, xsm_error *err)
{
    test_bytes bytes = {data, size, step, SIZE_MAX, 0};
    return xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "text"), options, out, err);
}

typedef struct good {
    const char *text, *expected;
    xsm_read_options options;
} good;

#define OPTIONS(...)                                                                                                   \
    {                                                                                                                  \
        .size = sizeof(xsm_read_options), __VA_ARGS__                                                                  \
    }
#define NONE OPTIONS(.format = 0)

static const int64_t map_labels[] = {-1, 2, 7};
static const xsm_class_map from_zero = {.size = sizeof(xsm_class_map),
                                        .classes = 3,
                                        .features = 3,
                                        .labels = map_labels,
                                        .index_base = XSM_INDEX_BASE_ZERO};
static const xsm_class_map from_one = {
    .size = sizeof(xsm_class_map), .classes = 3, .features = 3, .index_base = XSM_INDEX_BASE_ONE};
static const xsm_class_map numbered = {
    .size = sizeof(xsm_class_map), .classes = 3, .features = 3, .labels = map_labels};
static const xsm_class_map counted = {.size = sizeof(xsm_class_map), .classes = 3};
static const char *const map_names[] = {"ant", "bee", "cat"};
static const xsm_class_map named = {.size = sizeof(xsm_class_map), .classes = 3, .features = 2, .names = map_names};
static const char *const equal_names[] = {"ant", "ant", "cat"};
static const xsm_class_map equally_named = {
    .size = sizeof(xsm_class_map), .classes = 3, .features = 2, .names = equal_names};
static const char *const spelled_names[] = {"01", "1"};
static const xsm_class_map spelled = {
    .size = sizeof(xsm_class_map), .classes = 2, .features = 2, .names = spelled_names};

static const good cases[] = {
    /* XC text with its header */
    {"2 5 9\n8,3 0:1 4:2\n0 1:.5\n", "5 3[0,3,8]: 2,1 0:1 4:2; 0 1:0.5", NONE},
    {"2 5 9\r\n8,3 0:1 4:2\r\n0 1:.5\r\n", "5 3[0,3,8]: 2,1 0:1 4:2; 0 1:0.5", NONE},
    {"2 5 9\n8,3 0:1 4:2\n0 1:.5", "5 3[0,3,8]: 2,1 0:1 4:2; 0 1:0.5", NONE},
    {"2 5 9\n8,3 0:1 4:2\n0 1:.5\r", "5 3[0,3,8]: 2,1 0:1 4:2; 0 1:0.5", NONE},
    {"\xEF\xBB\xBF"
     "2 5 9\n8,3 0:1 4:2\n0 1:.5\n\n\n",
     "5 3[0,3,8]: 2,1 0:1 4:2; 0 1:0.5", NONE},
    {"  2\t5  9 \n8 \t 0:1\t4:2 \n0\n", "5 2[0,8]: 1 0:1 4:2; 0", NONE},
    {"4 3 2\n 1:2\n\n0:1\n1", "3 1[1]:  1:2; ;  0:1; 0", NONE},              /* rows without labels */
    {"1 9 2\n1,0,1,0,0 7:1 3:2 5:-3\n", "9 2[0,1]: 1,0 3:2 5:-3 7:1", NONE}, /* order, repeated labels */
    {"1 9 2\n1 7:0 3:2 5:0.0 8:-0 2:1e-60\n", "9 1[1]: 0 3:2", NONE},        /* zeros are not kept */
    {"1 3 0\n 1:2\n", "3 0[]:  1:2", NONE},                                  /* to predict */
    {"1 2147483647 2147483647\n2147483646 2147483646:1\n", "2147483647 1[2147483646]: 0 2147483646:1", NONE},
    {"1 5 9\n8,3,4 0:1\n", "5 1[8]: 0 0:1", OPTIONS(.labels = XSM_KEEP_LABELS_FIRST)},
    {"1 5 9\n8,3,4 0:1\n", "5 1[3]: 0 0:1", OPTIONS(.labels = XSM_KEEP_LABELS_SMALLEST)},
    {"2 5 9\n8 0:1\n 1:1", "5 1[8]: 0 0:1;  1:1", OPTIONS(.labels = XSM_KEEP_LABELS_SMALLEST)},
    {"1 5 9\n8 0:1 4:1\n", "7 1[8]: 0 0:1 4:1", OPTIONS(.features = 7)},
    {"1 5 9\n2,8,7 0:1 2:1 3:1 4:0\n", "3 3[-1,2,7]: 1,?,2 0:1 2:1", OPTIONS(.classes = &numbered)},
    {"1 5 9\n2,8,7 0:1 3:1\n", "5 3[-1,2,7]: 1,?,2 0:1 3:1", OPTIONS(.classes = &numbered, .features = 5)},
    {"1 5 9\n2,8,1 0:1 3:1\n", "5 3[0,1,2]: 2,?,1 0:1 3:1", OPTIONS(.classes = &counted)},
    {"1 5 9\n2 0:1\n", "2 3[ant,bee,cat]: ? 0:1", OPTIONS(.classes = &named)}, /* numbers are no names */
    /* without */
    {"8,3 0:1 4:2\n\n0\n", "5 3[0,3,8]: 2,1 0:1 4:2; ; 0", OPTIONS(.format = XSM_FORMAT_XC)},
    {"0:1\n \n", "1 0[]:  0:1; ", OPTIONS(.format = XSM_FORMAT_XC)},
    {"7\n1", "4 2[1,7]: 1; 0", OPTIONS(.format = XSM_FORMAT_XC, .features = 4)},
    {"9223372036854775807 5:1", "6 1[9223372036854775807]: 0 5:1", OPTIONS(.format = XSM_FORMAT_XC)},
    {"000000000000000000000000000004 0000000000000000000000005:1", "6 1[4]: 0 5:1", OPTIONS(.format = XSM_FORMAT_XC)},
    /* LIBSVM */
    {"+1 1:1 3:2\n-1 2:1.5e0\n", "3 2[-1,1]: 1 0:1 2:2; 0 1:1.5", NONE},
    {"+1 0:1 3:2\n-1 2:1.5e0\n", "4 2[-1,1]: 1 0:1 3:2; 0 2:1.5", NONE},
    {"# data\n\n 1:2 # none\n1.0 3:1#x\n \t \n2.50e1,1 1:1", "3 2[1,25]:  0:2; 0 2:1; 1,0 0:1", NONE},
    {"1\n2\n3 1:1", "1 3[1,2,3]: 0; 1; 2 0:1", NONE},
    {"3 3:1 1:2 2:0", "3 1[3]: 0 0:2 2:1", NONE},
    {"3 0:0 1:2", "2 1[3]: 0 1:2", NONE}, /* an index 0 says base 0 even where its value is dropped */
    {"3 1:1", "2 1[3]: 0 1:1", OPTIONS(.format = XSM_FORMAT_LIBSVM, .index_base = XSM_INDEX_BASE_ZERO)},
    {"3 1:1", "1 1[3]: 0 0:1", OPTIONS(.format = XSM_FORMAT_LIBSVM, .index_base = XSM_INDEX_BASE_ONE)},
    {"3 1:1 4:1\n3 2:1", "4 1[3]: 0 0:1 3:1; 0 1:1", OPTIONS(.features = 4)},
    {"3 1:1 3:1\n3 0:1", "4 1[3]: 0 1:1 3:1; 0 0:1", OPTIONS(.features = 4)},
    {"7 1:1 4:1 3:1\n3 2:1", "3 3[-1,2,7]: 2 0:1 2:1; ? 1:1", OPTIONS(.classes = &numbered)},
    {"7 1:1 4:1 3:1\n-1 0:1", "3 3[-1,2,7]: 2 1:1; 0 0:1", OPTIONS(.classes = &numbered)},
    {"7 1:1 4:1 3:1", "3 3[-1,2,7]: 2 1:1", OPTIONS(.classes = &numbered, .index_base = XSM_INDEX_BASE_ZERO)},
    {"7 1:1 4:1 3:1", "3 3[-1,2,7]: 2 0:1 2:1", OPTIONS(.classes = &numbered, .index_base = XSM_INDEX_BASE_ONE)},
    {"7 1:1 4:1", "3 3[-1,2,7]: 2 1:1", OPTIONS(.classes = &from_zero)}, /* as in the training file */
    {"7 1:1 4:1", "3 3[-1,2,7]: 2 1:1", OPTIONS(.classes = &from_zero, .index_base = XSM_INDEX_BASE_ZERO)},
    {"7 1:1 3:1", "3 3[-1,2,7]: 2 0:1 2:1", OPTIONS(.classes = &from_zero, .index_base = XSM_INDEX_BASE_ONE)},
    {"8,3 2:1\n-4,-9 1:1", "2 2[-9,3]: 1 1:1; 0 0:1", OPTIONS(.labels = XSM_KEEP_LABELS_SMALLEST)},
    {"-9223372036854775808 2147483647:1", "1 1[-9223372036854775808]: 0 0:1", NONE},
    {"5,5\n", "2 1[5]: 0", OPTIONS(.format = XSM_FORMAT_LIBSVM, .features = 2)},
    /* CSV and TSV */
    {"a,label,b\n1,3,2\n-.5,1,4e1\n", "2 2[1,3]: 1 1 2; 0 -0.5 40", NONE},
    {"a\tlabel\tb\r\n1\t3\t2\r\n-.5\t1\t4e1", "2 2[1,3]: 1 1 2; 0 -0.5 40", NONE},
    {"label,a\n 10,2\n9,3\n10 ,4\n-7,5", "1 3[-7,9,10]: 2 2; 1 3; 2 4; 0 5", NONE},
    /* one label that is not spelled as integers are makes all of them names, each as it is spelled */
    {"label,a\n01,2\n1,3\n01,4\n", "1 2[01,1]: 0 2; 1 3; 0 4", NONE},
    {"label,a\n+1,2\n1,3\n1.0,4\n-0,5\n0,6\n1e0,7\n", "1 5[+1,-0,0,1,1e0]: 0 2; 3 3; 3 4; 1 5; 2 6; 4 7", NONE},
    {"label,a\n9223372036854775808,2\n1,3\n", "1 2[1,9223372036854775808]: 1 2; 0 3", NONE},
    {"label\ta\n00\t2\n0\t3\n", "1 2[0,00]: 1 2; 0 3", NONE},
    {"+1,-0 1:1\n1.0 1:2\n", "1 2[0,1]: 1,0 0:1; 1 0:2", OPTIONS(.format = XSM_FORMAT_LIBSVM)},
    {"label,a,b,c\n07,2,0,0\n7,1,0,0\n", "3 3[-1,2,7]: ? 2 0 0; 2 1 0 0", OPTIONS(.classes = &numbered)},
    {"label,a,b\n01,2,0\n1,1,0\n", "2 2[01,1]: 0 2 0; 1 1 0", OPTIONS(.classes = &spelled)},
    {"label,a,b\n1,1,0\n", "2 2[01,1]: 1 1 0", OPTIONS(.classes = &spelled)},
    /* with a class map an empty line is a row, which has an answer */
    {"a,label,b\n\n1,bee,2\n\n", "2 3[ant,bee,cat]:  0 0; 1 1 2;  0 0", OPTIONS(.classes = &named)},
    {"a,b\n\n1,2\n", "2 3[ant,bee,cat]:  0 0;  1 2", OPTIONS(.classes = &named)},
    {"7 1:1\n\n  \n# none\n2 3:2\n\n", "3 3[-1,2,7]: 2 0:1; ; ; 1 2:2; ", OPTIONS(.classes = &numbered)},
    {"7 1:1\n\n  \n# none\n2 3:2\n\n", "3 2[2,7]: 1 0:1; 0 2:2", NONE},
    {"a,label\n1,dog\n2,cat\n3,\n4,dog\n5,7\n", "1 3[7,cat,dog]: 2 1; 1 2;  3; 2 4; 0 5", NONE},
    {"a,label\n1,b\n2,B\n3,ba\n4,\xC3\xA9\n5,aa\n", "1 5[B,aa,b,ba,\xC3\xA9]: 2 1; 0 2; 3 3; 4 4; 1 5", NONE},
    {"\"a\",\"label\"\n\"1.5\",\"x, \"\"y\"\"\"\n2,\"\"\n\" 3 \",\"p\tq,r\"\n", "1 2[p\tq,r,x, \"y\"]: 1 1.5;  2; 0 3",
     NONE},
    {"\n\na,label\n\n 1 , 3\n\n2,3\n\n", "1 1[3]: 0 1; 0 2", OPTIONS(.format = XSM_FORMAT_CSV)},
    {"a,label\n1,\n2,\n", "1 0[]:  1;  2", NONE},
    {"a,kind,b\n1,3,2\n", "2 1[3]: 0 1 2", OPTIONS(.label_column = "kind")},
    {"label,1:1\n3,4\n", "1 1[3]: 0 4", NONE},
    {"a,label,b\n1,bee,2\n2,dog,0\n3,,4\n", "2 3[ant,bee,cat]: 1 1 2; ? 2 0;  3 4", OPTIONS(.classes = &named)},
    {"a,label,b\n1,ant,2\n", "2 3[ant,ant,cat]: 0 1 2", OPTIONS(.classes = &equally_named)},
    /* against a class map the labels may be missing; with the label's column named otherwise there is one too many */
    {"a,b\n1,2\n3,0\n", "2 3[ant,bee,cat]:  1 2;  3 0", OPTIONS(.classes = &named)},
    {"# a,b\n2 1:1\n", "2 3[ant,bee,cat]: ? 0:1", OPTIONS(.classes = &named)},
    {"a,b,c,d\n1,2,3,4\n", "4 3[-1,2,7]:  1 2 3 4", OPTIONS(.classes = &numbered, .features = 4)},
    {"a,label,b,c\n1,7,2,3\n2,x,0,3\n", "3 3[-1,2,7]: 2 1 2 3; ? 2 0 3", OPTIONS(.classes = &numbered)},
    {"a,label,b\n1,7,2\n", "2 1[7]: 0 1 2", OPTIONS(.features = 2)},
    {"a,\"la\nbel\"\n1,7\n", "1 1[7]: 0 1", OPTIONS(.format = XSM_FORMAT_CSV, .label_column = "la\nbel")},
};

TEST(formats)
{
    static const size_t steps[] = {0, 1, 2, 3, 7};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            HELD(xsm_dataset, d) = NULL;
            char text[1024];
            if (read_bytes(cases[i].text, strlen(cases[i].text), steps[s], &cases[i].options, &d, &err) != XSM_OK) {
                fail_msg("case %zu: %s", i, err.message);
            }
            describe(d, text, sizeof text);
            if (strcmp(text, cases[i].expected) != 0) {
                fail_msg("case %zu:\n  %s\ninstead of\n  %s", i, text, cases[i].expected);
            }
        }
    }
}

static xsm_dataset_info info_of(const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(d, &info, &err), err);
    return info;
}

TEST(counts)
{
    static const char text[] = "5 9 10\n2,8,7 0:1 3:1 8:2\n8,9 1:1\n\n7 5:1\n 0:0\n";
    xsm_read_options options = OPTIONS(.classes = &numbered);
    NEW(xsm_dataset, d, read_bytes(text, sizeof text - 1, 0, &options, &d, &err));
    xsm_dataset_info info = info_of(d);
    assert_int_equal(info.rows, 5);
    assert_int_equal(info.values, 2);
    assert_int_equal(info.labels, 6);
    assert_int_equal(info.unlabelled, 2);
    assert_int_equal(info.empty, 3);
    assert_int_equal(info.unseen_rows, 1);
    assert_int_equal(info.unseen_labels, 3);
    assert_int_equal(info.dropped_features, 3);
    assert_int_equal(info.features, 3);
    assert_int_equal(info.classes, 3);
    assert_int_equal(info.sparse, 1);
    assert_int_equal(info.format, XSM_FORMAT_XC);
    const uint64_t expected[] = {0, 1, 2};
    assert_memory_equal(test_class_counts(d), expected, sizeof expected);
    xsm_dataset_free(d);
    /* a column too many moves all behind it */
    static const char wide[] = "a,b,c,d,label\n1,0,0,0,2\n", csv[] = "a,b,c,label\n1,0,0,2\n0,0,0,2\n0,0,0,3\n";
    assert_fails(read_bytes(wide, sizeof wide - 1, 0, &options, &d, &err), XSM_ERROR_FORMAT, err);
    assert_ok(read_bytes(csv, sizeof csv - 1, 0, &options, &d, &err), err);
    info = info_of(d);
    assert_int_equal(info.empty, 2);
    assert_int_equal(info.dropped_features, 0);
    assert_int_equal(info.unseen_rows, 1);
    assert_int_equal(info.sparse, 0);
    assert_int_equal(info.format, XSM_FORMAT_CSV);
    xsm_dataset_free(d);
    static const char svm[] = "2 1:1 4:1 5:1\n2 3:1\n";
    assert_ok(read_bytes(svm, sizeof svm - 1, 0, &options, &d, &err), err);
    assert_int_equal(info_of(d).dropped_features, 2);
    assert_int_equal(info_of(d).format, XSM_FORMAT_LIBSVM);
    xsm_dataset_free(d);
    static const char tsv[] = "label\ta\n1\t2\n";
    assert_ok(read_bytes(tsv, sizeof tsv - 1, 0, NULL, &d, &err), err);
    assert_int_equal(info_of(d).format, XSM_FORMAT_TSV);
    xsm_dataset_free(d);
}

/* A map read from one file serves to read another. */
TEST(map_round_trip)
{
    char text[256];
    static const char words[] = "a,label,b\n1,bee,2\n2,ant,0\n";
    static const char more[] = "a,label,b\n5,ant,5\n6,wasp,6\n";
    NEW(xsm_dataset, train, read_bytes(words, sizeof words - 1, 0, NULL, &train, &err));
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_dataset_get_class_map(train, &map, &err), err);
    xsm_read_options options = OPTIONS(.classes = &map);
    MADE(xsm_dataset, test, read_bytes(more, sizeof more - 1, 0, &options, &test, &err));
    xsm_dataset_free(train); /* the test data have their own copy */
    describe(test, text, sizeof text);
    assert_string_equal(text, "2 2[ant,bee]: 0 5 5; ? 6 6");
}

/* Lines, rows and fields far longer than any buffer; feature indexes in falling order. */
TEST(long_lines)
{
    enum { FEATURES = 300000 };
    size_t size = 32 + (size_t)FEATURES * 12;
    HELD_MEMORY(char, text) = malloc(size);
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "2 %d 3\n1", FEATURES);
    for (int j = FEATURES - 1; j >= 0; j--) {
        used += (size_t)sprintf(text + used, " %d:%d", j, j % 7 + 1);
    }
    used += (size_t)sprintf(text + used, "\n2 4:1\n");
    static const size_t steps[] = {0, 65537, 1000};
    for (size_t s = 0; s < 3; s++) {
        MADE(xsm_dataset, d, read_bytes(text, used, steps[s], NULL, &d, &err));
        assert_int_equal(d->rows, 2);
        assert_int_equal(d->offsets[1], FEATURES);
        for (uint32_t j = 0; j < FEATURES; j++) {
            assert_int_equal(d->index[j], j);
            assert_true(d->values[j] == (float)(j % 7 + 1));
        }
    }
    /* A long quoted label. */
    used = (size_t)sprintf(text, "label,a\n\"");
    for (int i = 0; i < 200000; i++) {
        text[used++] = i % 10 == 9 ? ',' : 'x';
    }
    used += (size_t)sprintf(text + used, "\",7\n");
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    MADE(xsm_dataset, d, read_bytes(text, used, 333, NULL, &d, &err));
    assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
    assert_int_equal(strlen(map.names[0]), 200000);
    assert_true(d->values[0] == 7);
}

/* Many labels: the table grows, repeated ones are dropped, classes come out sorted. */
TEST(many_labels)
{
    enum { LABELS = 50000 };
    HELD_MEMORY(char, text) = malloc((size_t)LABELS * 40);
    assert_non_null(text);
    size_t used = 0;
    for (int i = 0; i < LABELS; i++) {
        int64_t label = (int64_t)((uint64_t)i * 2654435761u % LABELS) * 1000003 - 7;
        used += (size_t)sprintf(text + used, "%" PRId64 ",%" PRId64 ",%" PRId64 " 1:1\n", label, label + 1, label);
    }
    MADE(xsm_dataset, d, read_bytes(text, used, 0, NULL, &d, &err));
    assert_int_equal(d->classes, 2 * LABELS);
    for (uint32_t k = 0; k < 2 * LABELS; k++) {
        assert_int_equal(d->map.labels[k], (int64_t)(k / 2) * 1000003 - 7 + k % 2);
        assert_int_equal(d->map.counts[k], 1);
    }
    assert_int_equal(d->counted.labels, 2 * LABELS);
}

#ifdef TEST_ZLIB
static size_t compress_text(const char *text, size_t size, unsigned char *out, size_t room)
{
    z_stream z;
    memset(&z, 0, sizeof z);
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (z_const Bytef *)(uintptr_t)text;
    z.avail_in = (unsigned)size;
    z.next_out = out;
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}
#endif

/* Large enough that the arrays are sized by the part of the file read so far: rows that get longer, rows that get
 * shorter, and every allocation on the way refused once. */
typedef struct large {
    const char *path;
    uint64_t rows, values;
} large;

static xsm_status read_large(void *state, xsm_context *ctx, xsm_error *err)
{
    const large *l = state;
    HELD(xsm_dataset, d) = NULL;
    xsm_status status = xsm_dataset_read(ctx, l->path, NULL, NULL, &d, err);
    if (status == XSM_OK) {
        assert_int_equal(d->rows, l->rows);
        assert_int_equal(d->offsets[d->rows], l->values);
        for (uint64_t i = 0; i < d->rows; i += 97) {
            assert_true(d->values[d->offsets[i]] == (float)(i % 1000 + 1));
            assert_int_equal(d->map.labels[d->labels[i]], i % 5000);
        }
        /* What was guessed too large has been given back. */
        assert_true(d->capacity.values < l->values + l->values / 4);
    }
    return status;
}

TEST(large_files)
{
    enum { ROWS = 60000 };
    static char text[ROWS * 400 + 64];
    for (int rising = 0; rising < 2; rising++) {
        char *next = text + sprintf(text, "%d 40 5000\n", ROWS);
        large l = {NULL, ROWS, 0};
        for (int i = 0; i < ROWS; i++) {
            int count = (i < ROWS / 5) == (rising == 1) ? 2 : 30;
            next += snprintf(next, 64, "%d 0:%d", i % 5000, i % 1000 + 1);
            for (int j = 1; j < count; j++) {
                next += snprintf(next, 64, " %d:1.25", j);
            }
            *next++ = '\n';
            l.values += (uint64_t)count;
        }
        size_t used = (size_t)(next - text);
        l.path = test_file("large", text, used);
        assert_true(used > (size_t)3 << 20);
        assert_true(test_every_allocation(read_large, &l) > 30);
#ifdef TEST_ZLIB
        unsigned char *packed = malloc(used);
        assert_non_null(packed);
        l.path = test_file("large.gz", packed, compress_text(text, used, packed, used));
        assert_true(test_every_allocation(read_large, &l) > 30);
        free(packed);
#endif
    }
}

TEST(files)
{
    xsm_dataset *d = NULL;
    char text[128];
    const char *path = test_file("data", TEXT("3 1:1\n"));
    _Alignas(8) static const char bytes[] = "3 1:1\n";
    const xsm_storage memory = {.size = sizeof memory, .bytes = bytes, .byte_count = sizeof bytes - 1};
    for (int stored = 0; stored < 2; stored++) {
        assert_ok(xsm_dataset_read(NULL, stored ? NULL : path, stored ? &memory : NULL, NULL, &d, &err), err);
        describe(d, text, sizeof text);
        assert_string_equal(text, "1 1[3]: 0 0:1");
        xsm_dataset_free(d);
        d = NULL;
    }
    assert_fails(xsm_dataset_read(NULL, test_path("absent"), NULL, NULL, &d, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, "absent"));
    assert_fails(xsm_dataset_read(NULL, "/", NULL, NULL, &d, &err), XSM_ERROR_IO, err);
    assert_fails(xsm_dataset_read(NULL, NULL, NULL, NULL, &d, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_read(NULL, path, NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_read(NULL, path, &memory, NULL, &d, &err), XSM_ERROR_ARGUMENT, err);
    xsm_source unreadable = {sizeof unreadable, NULL, NULL};
    assert_fails(xsm_dataset_read(NULL, NULL, TEST_FROM(&unreadable, "x"), NULL, &d, &err), XSM_ERROR_ARGUMENT, err);
    /* A long path keeps its end, and the message its point. */
    char name[600];
    memset(name, 'd', sizeof name);
    memcpy(name, "/nowhere/", 9);
    strcpy(name + sizeof name - 10, "/last.txt");
    assert_fails(xsm_dataset_read(NULL, name, NULL, NULL, &d, &err), XSM_ERROR_IO, err);
    assert_non_null(strstr(err.message, "/last.txt: cannot open"));
    assert_null(d);
}

static int64_t too_much(void *user, void *buffer, size_t size)
{
    (void)user;
    (void)buffer;
    return (int64_t)size + 1;
}

TEST(host_failures)
{
    static const char data[] = "2 5 9\n8,3 0:1 4:2\n0 1:.5\n";
    xsm_dataset *d = NULL;
    for (size_t at = 0; at < sizeof data; at++) {
        test_bytes bytes = {data, sizeof data - 1, 3, at, 0};
        assert_fails(xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, NULL), NULL, &d, &err), XSM_ERROR_IO, err);
    }
    xsm_source source = {sizeof source, NULL, too_much};
    assert_fails(xsm_dataset_read(NULL, NULL, TEST_FROM(&source, NULL), NULL, &d, &err), XSM_ERROR_IO, err);
    assert_null(d);
}

TEST(bad_options)
{
    static const int64_t falling[] = {3, 2};
    static const char *const absent[] = {"a", NULL};
    static const xsm_class_map maps[] = {
        {.size = sizeof(xsm_class_map), .classes = 2, .labels = falling},
        {.size = sizeof(xsm_class_map), .classes = 2, .names = absent},
        {.size = sizeof(xsm_class_map), .classes = XSM_CLASSES_MAX + 1},
        {.size = sizeof(xsm_class_map), .classes = 1, .features = XSM_FEATURES_MAX + 1},
        {.size = 8, .classes = 1, .features = 1},
        {.size = sizeof(xsm_class_map), .classes = 2, .index_base = 3},
    };
    static const struct {
        xsm_read_options options;
        xsm_status status;
    } bad[] = {
        {OPTIONS(.format = -1), XSM_ERROR_RANGE},
        {OPTIONS(.format = XSM_FORMAT_NPZ + 1), XSM_ERROR_RANGE},
        {OPTIONS(.labels = -1), XSM_ERROR_RANGE},
        {OPTIONS(.labels = 3), XSM_ERROR_RANGE},
        {OPTIONS(.duplicates = 2), XSM_ERROR_RANGE},
        {OPTIONS(.bad_bytes = -1), XSM_ERROR_RANGE},
        {OPTIONS(.header = 3), XSM_ERROR_RANGE},
        {OPTIONS(.separator = ""), XSM_ERROR_RANGE},
        {OPTIONS(.separator = ";;"), XSM_ERROR_RANGE},
        {OPTIONS(.separator = "e"), XSM_ERROR_RANGE},
        {OPTIONS(.label_separator = "\""), XSM_ERROR_RANGE},
        {OPTIONS(.index_base = -1), XSM_ERROR_RANGE},
        {OPTIONS(.index_base = 3), XSM_ERROR_RANGE},
        {OPTIONS(.features = XSM_FEATURES_MAX + 1), XSM_ERROR_RANGE},
        {OPTIONS(.classes = &maps[0]), XSM_ERROR_ARGUMENT},
        {OPTIONS(.classes = &maps[1]), XSM_ERROR_ARGUMENT},
        {OPTIONS(.classes = &maps[2]), XSM_ERROR_RANGE},
        {OPTIONS(.classes = &maps[3]), XSM_ERROR_RANGE},
        {OPTIONS(.classes = &maps[4]), XSM_ERROR_STRUCT_OLD},
        {OPTIONS(.classes = &maps[5]), XSM_ERROR_RANGE},
        {{.size = 4}, XSM_ERROR_STRUCT_OLD},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        xsm_dataset *d = NULL;
        assert_fails(read_bytes("1 1:1", 5, 0, &bad[i].options, &d, &err), bad[i].status, err);
        assert_null(d);
    }
}

/* Options of another format than is asked for are refused, in words; what is to be found out may have them, and
 * defaults ask for nothing. */
TEST(refuses_options_of_other_formats)
{
    static const xsm_text_options often = {.size = sizeof often, .min_count = 2};
    static const xsm_text_options defaults = {.size = sizeof defaults, .label_prefix = "__label__", .min_count = 1};
    static const struct {
        xsm_read_options options;
        const char *says;
    } bad[] = {
        {OPTIONS(.format = XSM_FORMAT_XC, .index_base = XSM_INDEX_BASE_ONE),
         "index_base is set, an option of XSM_FORMAT_LIBSVM"},
        {OPTIONS(.format = XSM_FORMAT_XC, .label_column = "label"),
         "label_column is set, an option of XSM_FORMAT_CSV, TSV and NPY"},
        {OPTIONS(.format = XSM_FORMAT_XC, .text = &often),
         "text is set, an option of XSM_FORMAT_TEXT, and the format is XSM_FORMAT_XC"},
        {OPTIONS(.format = XSM_FORMAT_LIBSVM, .labels_path = "y.npy"), "labels_path is set"},
        {OPTIONS(.format = XSM_FORMAT_XC, .bad_bytes = XSM_BAD_BYTES_REPLACE), "bad_bytes is set"},
        {OPTIONS(.format = XSM_FORMAT_XC, .header = XSM_HEADER_NO),
         "header is set, an option of XSM_FORMAT_CSV and TSV"},
        {OPTIONS(.format = XSM_FORMAT_XC, .separator = ";"), "separator is set"},
        {OPTIONS(.format = XSM_FORMAT_TEXT, .ignore_columns = "a"), "ignore_columns is set"},
        {OPTIONS(.format = XSM_FORMAT_NPY, .label_separator = ","), "label_separator is set"},
        {OPTIONS(.format = XSM_FORMAT_LIBSVM, .text_column = "a"), "text_column is set"},
        {OPTIONS(.format = XSM_FORMAT_TSV, .separator = ";"), "TSV has tabs"},
        {OPTIONS(.format = XSM_FORMAT_TEXT, .duplicates = XSM_DUPLICATES_SUM),
         "duplicates is set, an option of XSM_FORMAT_XC, LIBSVM and NPZ"},
        {OPTIONS(.format = XSM_FORMAT_XC, .skip_verify = 1), "skip_verify is set"},
        {OPTIONS(.format = XSM_FORMAT_CSV, .index_base = XSM_INDEX_BASE_ZERO), "the format is XSM_FORMAT_CSV"},
        {OPTIONS(.format = XSM_FORMAT_CACHE, .text = &often), "the format is XSM_FORMAT_CACHE"},
        {OPTIONS(.labels_path = "y.npy"), "and XC text alone"},
        {OPTIONS(.classes = &from_one, .index_base = XSM_INDEX_BASE_ZERO), "are numbered from 1"},
        {OPTIONS(.header = XSM_HEADER_NO, .recalled = XSM_RECALLED_HEADER), "recalled is 32; "},
        {OPTIONS(.classes = &from_one, .separator = ";", .recalled = XSM_RECALLED_TEXT_COLUMN), "8 here"},
        {OPTIONS(.recalled = -1), "recalled is -1; "},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        xsm_dataset *d = NULL;
        assert_fails(read_bytes("1 1:1", 5, 0, &bad[i].options, &d, &err), XSM_ERROR_ARGUMENT, err);
        assert_null(d);
        if (!strstr(err.message, bad[i].says)) {
            fail_msg("'%s' lacks '%s'", err.message, bad[i].says);
        }
    }
    const xsm_read_options fine[] = {
        OPTIONS(.format = XSM_FORMAT_LIBSVM, .text = &defaults),
        OPTIONS(.index_base = XSM_INDEX_BASE_ONE, .label_column = "kind", .text = &often, .skip_verify = 1),
    };
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        MADE(xsm_dataset, d, read_bytes("1 1:1", 5, 0, &fine[i], &d, &err));
    }
}

/* -- gzip --------------------------------------------------------------------------------------------------------- */

#ifdef TEST_ZLIB

TEST(gzip_good)
{
    static const char first[] = "2 5 9\n8,3 0:1";
    static const char second[] = " 4:2\n0 1:.5\n";
    unsigned char packed[512];
    static const size_t steps[] = {0, 1, 2, 5};
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        /* Two members with an empty one between, then padding. */
        size_t size = compress_text(first, sizeof first - 1, packed, sizeof packed);
        size += compress_text("", 0, packed + size, sizeof packed - size);
        size += compress_text(second, sizeof second - 1, packed + size, sizeof packed - size);
        memset(packed + size, 0, 9);
        size += 9;
        char text[256];
        MADE(xsm_dataset, d, read_bytes(packed, size, steps[s], NULL, &d, &err));
        describe(d, text, sizeof text);
        assert_string_equal(text, "5 3[0,3,8]: 2,1 0:1 4:2; 0 1:0.5");
    }
    /* Well packed text: far more comes out than goes in, and more than the line buffer holds. */
    enum { ROWS = 200000 };
    char *text = malloc((size_t)ROWS * 8);
    unsigned char *big = malloc((size_t)ROWS * 8);
    assert_non_null(text);
    assert_non_null(big);
    for (size_t i = 0; i < ROWS; i++) {
        memcpy(text + i * 8, "1 1:1.5\n", 8);
    }
    size_t size = compress_text(text, (size_t)ROWS * 8, big, (size_t)ROWS * 8);
    assert_true(size < 16384);
    const char *path = test_file("data.gz", big, size);
    NEW(xsm_dataset, d, xsm_dataset_read(NULL, path, NULL, NULL, &d, &err));
    assert_int_equal(d->rows, ROWS);
    xsm_dataset_free(d);
    free(text);
    free(big);
}

/* Cut off anywhere the file is refused; with any bit changed it is refused or, where the bit has no meaning (the
 * header's time, padding), read as it was. */
TEST(gzip_damaged)
{
    static const char data[] = "2 5 9\n8,3 0:1 4:2\n0 1:.5\n";
    unsigned char packed[512];
    size_t size = compress_text(data, sizeof data - 1, packed, sizeof packed);
    xsm_dataset *d = NULL;
    for (size_t cut = 2; cut < size; cut++) {
        assert_fails(read_bytes(packed, cut, 0, NULL, &d, &err), XSM_ERROR_FORMAT, err);
        assert_non_null(strstr(err.message, "too early"));
        assert_null(d);
    }
    for (size_t at = 2; at < size; at++) {
        for (int bit = 0; bit < 8; bit++) {
            packed[at] ^= (unsigned char)(1 << bit);
            xsm_status status = read_bytes(packed, size, 0, NULL, &d, &err);
            packed[at] ^= (unsigned char)(1 << bit);
            if (status == XSM_OK) {
                char text[256];
                describe(d, text, sizeof text);
                assert_string_equal(text, "5 3[0,3,8]: 2,1 0:1 4:2; 0 1:0.5");
                xsm_dataset_free(d);
                d = NULL;
            } else {
                assert_int_equal(status, XSM_ERROR_FORMAT);
                assert_null(d);
            }
        }
    }
    /* Something else behind it. */
    packed[size] = 'x';
    assert_fails(read_bytes(packed, size + 1, 0, NULL, &d, &err), XSM_ERROR_FORMAT, err);
    assert_non_null(strstr(err.message, "0x78"));
    packed[size] = 0x1F;
    packed[size + 1] = 0x8C;
    assert_fails(read_bytes(packed, size + 2, 0, NULL, &d, &err), XSM_ERROR_FORMAT, err);
    packed[size + 1] = 0x8B;
    assert_fails(read_bytes(packed, size + 2, 0, NULL, &d, &err), XSM_ERROR_FORMAT, err);
    assert_null(d);
}

#else

TEST(gzip_good)
{
    xsm_dataset *d = NULL;
    assert_fails(read_bytes("\x1F\x8B\x08", 3, 0, NULL, &d, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_null(d);
}

TEST(gzip_damaged)
{
    skip();
}

#endif

/* -- memory that runs out ----------------------------------------------------------------------------------------- */

typedef struct input {
    const void *data;
    size_t size;
    const xsm_read_options *options;
} input;

static xsm_status run_read(void *state, xsm_context *ctx, xsm_error *err)
{
    const input *in = state;
    test_bytes bytes = {in->data, in->size, 0, SIZE_MAX, 0};
    HELD(xsm_dataset, d) = NULL;
    xsm_status status = xsm_dataset_read(ctx, NULL, TEST_BYTES(&bytes, "text"), in->options, &d, err);
    assert_true((d != NULL) == (status == XSM_OK));
    return status;
}

TEST(memory_runs_out)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        input in = {cases[i].text, strlen(cases[i].text), &cases[i].options};
        assert_true(test_every_allocation(run_read, &in) > 8);
    }
    /* Enough to make every array grow, and rows long enough to need the sorting arrays. */
    enum { ROWS = 300 };
    HELD_MEMORY(char, text) = malloc((size_t)ROWS * 1000);
    assert_non_null(text);
    size_t used = 0;
    for (int i = 0; i < ROWS; i++) {
        used += (size_t)sprintf(text + used, "%d,%d", i * 3, i * 7);
        for (int j = 40; j > 0; j--) {
            used += (size_t)sprintf(text + used, " %d:%d", j * 3, i);
        }
        used += (size_t)sprintf(text + used, "\n");
    }
    input sparse = {text, used, NULL};
    assert_true(test_every_allocation(run_read, &sparse) > 20);
    used = (size_t)sprintf(text, "label,a,b\n");
    for (int i = 0; i < ROWS; i++) {
        used += (size_t)sprintf(text + used, "word%d,%d,%d\n", i, i, i);
    }
    input dense = {text, used, NULL};
    assert_true(test_every_allocation(run_read, &dense) > 20);
#ifdef TEST_ZLIB
    unsigned char packed[16384];
    input zipped = {packed, compress_text(text, used, packed, sizeof packed), NULL};
    assert_true(test_every_allocation(run_read, &zipped) > 22);
#endif
}

static void count_message(void *user, int32_t level, const char *message)
{
    assert_int_equal(level, XSM_LOG_INFO);
    assert_non_null(strstr(message, "index_base"));
    ++*(int *)user;
}

/* A guess of the first index is logged. A dataset's map says which it was, and so do the maps of datasets made from it.
 */
TEST(test_index_base)
{
    static const struct {
        const char *text;
        int32_t format, base;
    } files[] = {
        {"1 2 1\n0 1:1\n", XSM_FORMAT_AUTO, XSM_INDEX_BASE_ZERO}, {"0 1:1\n", XSM_FORMAT_XC, XSM_INDEX_BASE_ZERO},
        {"0 1:1\n", XSM_FORMAT_AUTO, XSM_INDEX_BASE_ONE},         {"0 0:1 1:1\n", XSM_FORMAT_AUTO, XSM_INDEX_BASE_ZERO},
        {"label,a\n1,2\n", XSM_FORMAT_AUTO, XSM_INDEX_BASE_AUTO},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        xsm_read_options options = XSM_READ_OPTIONS_INIT;
        options.format = files[i].format;
        test_bytes bytes = {files[i].text, strlen(files[i].text), 0, SIZE_MAX, 0};
        uint64_t row = 0;
        int messages = 0;
        xsm_context_options logging = XSM_CONTEXT_OPTIONS_INIT;
        logging.log = count_message;
        logging.log_user = &messages;
        xsm_context *ctx;
        assert_ok(xsm_context_new(&logging, &ctx, &err), err);
        MADE(xsm_dataset, d, xsm_dataset_read(ctx, NULL, TEST_BYTES(&bytes, "text"), &options, &d, &err));
        xsm_context_free(ctx);
        assert_int_equal(messages, files[i].base == XSM_INDEX_BASE_ONE);
        MADE(xsm_dataset, copy, xsm_dataset_select(d, &row, 1, &copy, &err));
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        assert_ok(xsm_dataset_get_class_map(copy, &map, &err), err);
        assert_int_equal(map.index_base, files[i].base);
    }
}
