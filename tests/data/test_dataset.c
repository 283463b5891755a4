/* Datasets from memory: constructors, views, edits. */
#include "support.h"

#include "base/activity.h"
#include "data/dataset.h"

#include <xsoftmax/dataset_weights.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Four rows of five features:
 *   0: [1 0 2 0 0]  labels 2, 0
 *   1: [0 0 0 0 0]  no label
 *   2: [0 3 0 0 4]  label 3
 *   3: [5 0 0 6 0]  labels 0, unseen */
static const float dense[] = {1, 0, 2, 0, 0, 9, 0, 0, 0, 0, 0, 9, 0, 3, 0, 0, 4, 9, 5, 0, 0, 6, 0, 9};
static const uint64_t offsets[] = {0, 2, 2, 4, 6};
static const uint32_t indexes[] = {0, 2, 1, 4, 0, 3};
static const float values[] = {1, 2, 3, 4, 5, 6};
static const uint64_t label_offsets[] = {0, 2, 2, 3, 5};
static const uint32_t labels[] = {2, 0, 3, 0, XSM_CLASS_UNSEEN};
static const float row_weights[] = {0.5f, 2, 4, 8};
static const xsm_labels row_labels = {sizeof(xsm_labels), 5, 0, label_offsets, labels, NULL};

static xsm_status make(xsm_context *ctx, bool sparse, int32_t ownership, xsm_dataset **out, xsm_error *err)
{
    return sparse
               ? xsm_dataset_from_csr(ctx,
                                      STRUCT(xsm_csr_rows, .offsets = offsets, .index = indexes, .values = values,
                                             .rows = 4, .features = 5, .labels = &row_labels, .ownership = ownership,
                                             .weights = row_weights),
                                      out, err)
               : xsm_dataset_from_dense(ctx,
                                        STRUCT(xsm_dense_rows, .values = dense, .stride = 6, .rows = 4, .features = 5,
                                               .labels = &row_labels, .ownership = ownership, .weights = row_weights),
                                        out, err);
}

static xsm_dataset *made(bool sparse, int32_t ownership)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_dataset, d, make(NULL, sparse, ownership, &d, &err));
    return d;
}

/* The four variants that every edit must treat alike. */
#define EACH_KIND(sparse, ownership)                                                                                   \
    for (int kind_ = 0, sparse = 0, ownership = 0; kind_ < 4;                                                          \
         kind_++, sparse = kind_ & 1, ownership = kind_ & 2 ? XSM_BORROW : XSM_COPY)

static void check_row(const xsm_dataset *d, uint64_t index, const char *features, const char *classes)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_row row = XSM_ROW_INIT;
    assert_ok(xsm_dataset_get_row(d, index, &row, &err), err);
    char text[256] = "";
    size_t used = 0;
    for (uint64_t i = 0; i < row.count; i++) {
        if (row.values[i] != 0) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%u:%g", used ? " " : "",
                                     row.index ? row.index[i] : (uint32_t)i, (double)row.values[i]);
        }
    }
    assert_string_equal(text, features);
    text[0] = '\0';
    used = 0;
    for (uint64_t i = 0; i < row.label_count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, row.labels[i] == XSM_CLASS_UNSEEN ? "%s?" : "%s%u",
                                 used ? "," : "", row.labels[i]);
    }
    assert_string_equal(text, classes);
}

static xsm_dataset_info info_of(const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(d, &info, &err), err);
    return info;
}

TEST(views)
{
    EACH_KIND(sparse, ownership)
    {
        HELD(xsm_dataset, d) = made(sparse, ownership);
        xsm_dataset_info info = info_of(d);
        assert_int_equal(info.rows, 4);
        assert_int_equal(info.features, 5);
        assert_int_equal(info.classes, 5);
        assert_int_equal(info.values, sparse ? 6 : 20);
        assert_int_equal(info.labels, 5);
        assert_int_equal(info.unlabelled, 1);
        assert_int_equal(info.empty, 1);
        assert_int_equal(info.unseen_rows, 0);
        assert_int_equal(info.unseen_labels, 1);
        assert_int_equal(info.dropped_features, 0);
        assert_int_equal(info.sparse, sparse);
        assert_int_equal(info.format, 0);
        check_row(d, 0, "0:1 2:2", "2,0");
        check_row(d, 1, "", "");
        check_row(d, 2, "1:3 4:4", "3");
        check_row(d, 3, "0:5 3:6", "0,?");
        const uint64_t *counts = test_class_counts(d);
        const uint64_t expected[] = {2, 0, 1, 1, 0};
        assert_memory_equal(counts, expected, sizeof expected);
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
        assert_int_equal(map.classes, 5);
        assert_int_equal(map.features, 5);
        assert_null(map.labels);
        assert_null(map.names);
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(d, 2, &row, &err), err);
        if (ownership == XSM_BORROW) { /* no copy was made */
            assert_ptr_equal(row.values, sparse ? values + 2 : dense + 12);
            assert_ptr_equal(row.labels, labels + 2);
        } else {
            assert_ptr_not_equal(row.values, sparse ? values + 2 : dense + 12);
        }
    }
    xsm_dataset_free(NULL);
}

TEST(view_errors)
{
    HELD(xsm_dataset, d) = made(true, XSM_COPY);
    xsm_row row = XSM_ROW_INIT;
    assert_fails(xsm_dataset_get_row(d, 4, &row, &err), XSM_ERROR_RANGE, err);
    assert_null(row.values);
    assert_fails(xsm_dataset_get_row(NULL, 0, &row, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_get_row(d, 0, NULL, &err), XSM_ERROR_ARGUMENT, err);
    row.size = 8;
    assert_fails(xsm_dataset_get_row(d, 0, &row, &err), XSM_ERROR_STRUCT_OLD, err);
    struct {
        xsm_row row;
        uint64_t more;
    } longer = {XSM_ROW_INIT, 0};
    longer.row.size = sizeof longer;
    assert_ok(xsm_dataset_get_row(d, 0, &longer.row, &err), err);
    longer.more = 1;
    assert_fails(xsm_dataset_get_row(d, 0, &longer.row, &err), XSM_ERROR_STRUCT_NEW, err);
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_fails(xsm_dataset_get_info(NULL, &info, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_get_info(d, NULL, &err), XSM_ERROR_ARGUMENT, err);
    info.size = 1;
    assert_fails(xsm_dataset_get_info(d, &info, &err), XSM_ERROR_STRUCT_OLD, err);
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_fails(xsm_dataset_get_class_map(NULL, &map, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_get_class_map(d, NULL, &err), XSM_ERROR_ARGUMENT, err);
}

TEST(without_labels)
{
    for (int32_t ownership = XSM_COPY; ownership <= XSM_BORROW; ownership++) {
        NEW(xsm_dataset, d,
            xsm_dataset_from_dense(NULL,
                                   STRUCT(xsm_dense_rows, .values = dense, .stride = 6, .rows = 4, .features = 5,
                                          .ownership = ownership, .weights = row_weights),
                                   &d, &err));
        assert_int_equal(info_of(d).unlabelled, 4);
        assert_int_equal(info_of(d).classes, 0);
        assert_ok(xsm_dataset_drop(d, XSM_DROP_CLASSES, NULL, &err), err);
        assert_ok(xsm_dataset_keep_labels(d, XSM_KEEP_LABELS_FIRST, &err), err);
        assert_fails(xsm_dataset_drop(d, XSM_DROP_UNLABELLED, NULL, &err), XSM_ERROR_DATA, err);
        assert_int_equal(info_of(d).rows, 4);
        xsm_dataset_free(d);
        /* One label a row, without offsets. */
        const uint32_t one[] = {1, 0, 1, XSM_CLASS_UNSEEN};
        xsm_labels single = {sizeof single, 2, 0, NULL, one, NULL};
        assert_ok(xsm_dataset_from_dense(NULL,
                                         STRUCT(xsm_dense_rows, .values = dense, .stride = 6, .rows = 4, .features = 5,
                                                .labels = &single, .ownership = ownership, .weights = row_weights),
                                         &d, &err),
                  err);
        check_row(d, 2, "1:3 4:4", "1");
        assert_int_equal(info_of(d).unseen_rows, 1);
        xsm_dataset_free(d);
        /* No features: rows that have labels alone. */
        assert_ok(xsm_dataset_from_dense(NULL,
                                         STRUCT(xsm_dense_rows, .values = dense, .rows = 4, .features = 0,
                                                .ownership = ownership, .weights = row_weights),
                                         &d, &err),
                  err);
        assert_int_equal(info_of(d).features, 0);
        assert_int_equal(info_of(d).rows, 4);
        xsm_dataset_free(d);
        /* Sparse rows of nothing at all. */
        const uint64_t none[] = {0, 0, 0};
        xsm_labels empty = {sizeof empty, 3, 0, none, NULL, NULL};
        assert_ok(xsm_dataset_from_csr(NULL,
                                       STRUCT(xsm_csr_rows, .offsets = none, .rows = 2, .features = 7, .labels = &empty,
                                              .ownership = ownership, .weights = row_weights),
                                       &d, &err),
                  err);
        assert_int_equal(info_of(d).empty, 2);
        assert_ok(xsm_dataset_drop(d, XSM_DROP_CLASSES, NULL, &err), err);
        assert_int_equal(info_of(d).classes, 0);
        assert_ok(xsm_dataset_shuffle(d, 1, &err), err);
        xsm_dataset_free(d);
    }
}

/* The rows of the file's head in other types than the library's. */
static const int32_t narrow_offsets[] = {0, 2, 2, 4, 6};
static const int64_t wide_indexes[] = {0, 2, 1, 4, 0, 3};
static const int32_t narrow_label_offsets[] = {0, 2, 2, 3, 5};
static const xsm_labels narrow_labels = {sizeof(xsm_labels), 5, 32, narrow_label_offsets, labels, NULL};
static const double wide_values[] = {1, 2, 3, 4, 5, 6};
static const double wide_dense[] = {1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 4, 5, 0, 0, 6, 0};

static xsm_csr_rows csr_of(int kind)
{
    xsm_csr_rows csr = XSM_CSR_ROWS_INIT;
    csr.offsets = kind & 1 ? (const void *)narrow_offsets : offsets;
    csr.offset_bits = kind & 1 ? 32 : kind & 8 ? 64 : 0;
    csr.index = kind & 2 ? (const void *)wide_indexes : indexes;
    csr.index_bits = kind & 2 ? 64 : kind & 8 ? 32 : 0;
    csr.values = kind & 4 ? (const void *)wide_values : values;
    csr.dtype = kind & 4 ? XSM_DTYPE_FLOAT64 : XSM_DTYPE_FLOAT32;
    csr.rows = 4;
    csr.features = 5;
    csr.labels = kind & 16 ? &narrow_labels : &row_labels;
    return csr;
}

static xsm_status convert_all(void *state, xsm_context *ctx, xsm_error *err)
{
    (void)state;
    xsm_csr_rows csr = csr_of(23);
    HELD(xsm_dataset, d) = NULL;
    return xsm_dataset_from_csr(ctx, &csr, &d, err);
}

TEST(types_are_converted)
{
    for (int kind = 0; kind < 32; kind++) {
        xsm_csr_rows csr = csr_of(kind);
        NEW(xsm_dataset, d, xsm_dataset_from_csr(NULL, &csr, &d, &err));
        assert_int_equal(info_of(d).values, 6);
        check_row(d, 0, "0:1 2:2", "2,0");
        check_row(d, 1, "", "");
        check_row(d, 2, "1:3 4:4", "3");
        check_row(d, 3, "0:5 3:6", "0,?");
        xsm_dataset_free(d);
        csr.ownership = XSM_BORROW;
        d = NULL;
        if (kind & 7) {
            assert_fails(xsm_dataset_from_csr(NULL, &csr, &d, &err), XSM_ERROR_UNSUPPORTED, err);
        } else {
            assert_ok(xsm_dataset_from_csr(NULL, &csr, &d, &err), err);
            xsm_dataset_free(d);
        }
    }
    assert_true(test_every_allocation(convert_all, NULL) > 6);
    xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
    rows.values = wide_dense;
    rows.dtype = XSM_DTYPE_FLOAT64;
    rows.rows = 4;
    rows.features = 5; /* and no stride: they follow each other */
    rows.labels = &row_labels;
    NEW(xsm_dataset, d, xsm_dataset_from_dense(NULL, &rows, &d, &err));
    check_row(d, 0, "0:1 2:2", "2,0");
    check_row(d, 3, "0:5 3:6", "0,?");
    xsm_dataset_free(d);
    rows.ownership = XSM_BORROW;
    assert_fails(xsm_dataset_from_dense(NULL, &rows, &d, &err), XSM_ERROR_UNSUPPORTED, err);
    rows.ownership = XSM_COPY;
    static const double large[] = {1, 2, 3, 4, 1e39};
    rows.values = large; /* finite, but not as a float32 */
    rows.rows = 1;
    rows.labels = NULL;
    assert_fails(xsm_dataset_from_dense(NULL, &rows, &d, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "row 0, feature 4"));
    rows.dtype = XSM_DTYPE_INT32;
    assert_fails(xsm_dataset_from_dense(NULL, &rows, &d, &err), XSM_ERROR_ARGUMENT, err);

    xsm_csr_rows csr = csr_of(4);
    static const double infinite[] = {1, 2, 3, 4, 5, -1e300};
    csr.values = infinite;
    assert_fails(xsm_dataset_from_csr(NULL, &csr, &d, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "row 3, feature 3"));
    csr = csr_of(2);
    static const int64_t beyond[] = {0, 2, INT64_C(4294967297), 4, 0, 3}, negative[] = {0, 2, 1, -1, 0, 3};
    csr.index = beyond; /* 1, if its upper half were cut off */
    assert_fails(xsm_dataset_from_csr(NULL, &csr, &d, &err), XSM_ERROR_RANGE, err);
    csr.index = negative;
    assert_fails(xsm_dataset_from_csr(NULL, &csr, &d, &err), XSM_ERROR_RANGE, err);
    csr = csr_of(1);
    static const int32_t falling[] = {0, 2, 1, 4, 6};
    csr.offsets = falling;
    assert_fails(xsm_dataset_from_csr(NULL, &csr, &d, &err), XSM_ERROR_RANGE, err);
    csr = csr_of(0);
    csr.index_bits = 16;
    assert_fails(xsm_dataset_from_csr(NULL, &csr, &d, &err), XSM_ERROR_ARGUMENT, err);
    csr = csr_of(0);
    csr.offset_bits = 1;
    assert_fails(xsm_dataset_from_csr(NULL, &csr, &d, &err), XSM_ERROR_ARGUMENT, err);
    csr = csr_of(16);
    xsm_labels crooked = narrow_labels;
    csr.labels = &crooked;
    crooked.offsets = falling;
    assert_fails(xsm_dataset_from_csr(NULL, &csr, &d, &err), XSM_ERROR_RANGE, err);
    crooked.offset_bits = 16;
    assert_fails(xsm_dataset_from_csr(NULL, &csr, &d, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "xsm_labels.offset_bits is 16"));
    csr = csr_of(0);
    csr.dtype = XSM_DTYPE_BFLOAT16;
    assert_fails(xsm_dataset_from_csr(NULL, &csr, &d, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_from_csr(NULL, NULL, &d, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_from_dense(NULL, NULL, &d, &err), XSM_ERROR_ARGUMENT, err);
}

TEST(constructor_errors)
{
    xsm_dataset *const untouched = (xsm_dataset *)(uintptr_t)64;
    xsm_dataset *d = untouched;
#define DENSE(v, n, f, s, l, o)                                                                                        \
    xsm_dataset_from_dense(NULL,                                                                                       \
                           &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),                                           \
                                             .values = v,                                                              \
                                             .stride = s,                                                              \
                                             .rows = n,                                                                \
                                             .features = f,                                                            \
                                             .labels = l,                                                              \
                                             .ownership = o},                                                          \
                           &d, &err)
    assert_fails(DENSE(NULL, 4, 5, 6, NULL, XSM_COPY), XSM_ERROR_ARGUMENT, err);
    assert_fails(DENSE(dense, 0, 5, 6, NULL, XSM_COPY), XSM_ERROR_ARGUMENT, err);
    assert_fails(DENSE(dense, 4, 5, 4, NULL, XSM_COPY), XSM_ERROR_ARGUMENT, err);
    assert_fails(DENSE(dense, 4, 5, 6, NULL, 2), XSM_ERROR_ARGUMENT, err);
    assert_fails(DENSE(dense, 4, XSM_FEATURES_MAX + 1, SIZE_MAX, NULL, XSM_COPY), XSM_ERROR_LIMIT, err);
    assert_fails(DENSE(dense, SIZE_MAX, 5, 6, NULL, XSM_COPY), XSM_ERROR_LIMIT, err);
    assert_fails(DENSE(dense, 4, 5, SIZE_MAX, NULL, XSM_COPY), XSM_ERROR_LIMIT, err);
    assert_fails(xsm_dataset_from_dense(
                     NULL, STRUCT(xsm_dense_rows, .values = dense, .stride = 6, .rows = 4, .features = 5), NULL, &err),
                 XSM_ERROR_ARGUMENT, err);
    float bad[24];
    memcpy(bad, dense, sizeof bad);
    bad[2 * 6 + 3] = NAN;
    assert_fails(DENSE(bad, 4, 5, 6, NULL, XSM_COPY), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "row 2, feature 3"));
    bad[2 * 6 + 3] = -INFINITY;
    assert_fails(DENSE(bad, 4, 5, 6, NULL, XSM_BORROW), XSM_ERROR_RANGE, err);

    xsm_labels l = row_labels;
    l.classes = 3;
    assert_fails(DENSE(dense, 4, 5, 6, &l, XSM_COPY), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "row 2"));
    l.classes = XSM_CLASSES_MAX + 1;
    assert_fails(DENSE(dense, 4, 5, 6, &l, XSM_COPY), XSM_ERROR_LIMIT, err);
    l = row_labels;
    l.labels = NULL;
    assert_fails(DENSE(dense, 4, 5, 6, &l, XSM_COPY), XSM_ERROR_ARGUMENT, err);
    l.offsets = NULL;
    assert_fails(DENSE(dense, 4, 5, 6, &l, XSM_COPY), XSM_ERROR_ARGUMENT, err);
    l = row_labels;
    l.size = 4;
    assert_fails(DENSE(dense, 4, 5, 6, &l, XSM_COPY), XSM_ERROR_STRUCT_OLD, err);
    l = row_labels;
    const uint32_t twice[] = {2, 2, 3, 0, 1};
    l.labels = twice;
    assert_fails(DENSE(dense, 4, 5, 6, &l, XSM_COPY), XSM_ERROR_RANGE, err);
    l = row_labels;
    const uint64_t falling[] = {0, 2, 1, 3, 5};
    l.offsets = falling;
    assert_fails(DENSE(dense, 4, 5, 6, &l, XSM_COPY), XSM_ERROR_RANGE, err);

#define CSR(o, x, v, f)                                                                                                \
    xsm_dataset_from_csr(NULL,                                                                                         \
                         &(xsm_csr_rows){.size = sizeof(xsm_csr_rows),                                                 \
                                         .offsets = o,                                                                 \
                                         .index = x,                                                                   \
                                         .values = v,                                                                  \
                                         .rows = 4,                                                                    \
                                         .features = f,                                                                \
                                         .labels = &row_labels},                                                       \
                         &d, &err)
    assert_fails(CSR(NULL, indexes, values, 5), XSM_ERROR_ARGUMENT, err);
    assert_fails(CSR(offsets, NULL, values, 5), XSM_ERROR_ARGUMENT, err);
    assert_fails(CSR(offsets, indexes, NULL, 5), XSM_ERROR_ARGUMENT, err);
    assert_fails(CSR(offsets, indexes, values, 4), XSM_ERROR_RANGE, err);
    assert_fails(CSR(falling, indexes, values, 5), XSM_ERROR_RANGE, err);
    const uint64_t late[] = {1, 2, 2, 4, 6};
    assert_fails(CSR(late, indexes, values, 5), XSM_ERROR_RANGE, err);
    const uint64_t many[] = {0, 0, 0, 0, UINT64_MAX};
    assert_fails(CSR(many, indexes, values, 5), XSM_ERROR_LIMIT, err);
    const uint32_t unordered[] = {0, 2, 4, 1, 0, 3};
    assert_fails(CSR(offsets, unordered, values, 5), XSM_ERROR_RANGE, err);
    const uint32_t repeated[] = {0, 2, 1, 1, 0, 3};
    assert_fails(CSR(offsets, repeated, values, 5), XSM_ERROR_RANGE, err);
    const float infinite[] = {1, 2, 3, INFINITY, 5, 6};
    assert_fails(CSR(offsets, indexes, infinite, 5), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "row 2, feature 4"));
    assert_ptr_equal(d, untouched);
}

TEST(drop)
{
    EACH_KIND(sparse, ownership)
    {
        HELD(xsm_dataset, d) = made(sparse, ownership);
        uint64_t dropped = 99;
        assert_ok(xsm_dataset_drop(d, XSM_DROP_EMPTY | XSM_DROP_UNLABELLED, &dropped, &err), err);
        assert_int_equal(dropped, 1);
        assert_int_equal(info_of(d).rows, 3);
        assert_int_equal(info_of(d).empty, 0);
        assert_int_equal(info_of(d).unlabelled, 0);
        check_row(d, 0, "0:1 2:2", "2,0");
        check_row(d, 1, "1:3 4:4", "3");
        check_row(d, 2, "0:5 3:6", "0,?");
        assert_ok(xsm_dataset_drop(d, XSM_DROP_EMPTY, &dropped, &err), err);
        assert_int_equal(dropped, 0);
        assert_fails(xsm_dataset_drop(d, 16, &dropped, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(xsm_dataset_drop(NULL, 1, &dropped, &err), XSM_ERROR_ARGUMENT, err);
    }
    assert_int_equal(dense[5], 9); /* the caller's arrays are as they were */
    assert_int_equal(indexes[2], 1);
}

TEST(keep_labels)
{
    EACH_KIND(sparse, ownership)
    {
        xsm_dataset *d = made(sparse, ownership);
        assert_ok(xsm_dataset_keep_labels(d, XSM_KEEP_LABELS_ALL, &err), err);
        assert_int_equal(info_of(d).labels, 5);
        assert_ok(xsm_dataset_keep_labels(d, XSM_KEEP_LABELS_FIRST, &err), err);
        check_row(d, 0, "0:1 2:2", "2");
        check_row(d, 1, "", "");
        check_row(d, 2, "1:3 4:4", "3");
        check_row(d, 3, "0:5 3:6", "0");
        assert_int_equal(info_of(d).labels, 3);
        assert_int_equal(info_of(d).classes, 5);
        const uint64_t expected[] = {1, 0, 1, 1, 0};
        assert_memory_equal(test_class_counts(d), expected, sizeof expected);
        xsm_dataset_free(d);
        d = made(sparse, ownership);
        assert_ok(xsm_dataset_keep_labels(d, XSM_KEEP_LABELS_SMALLEST, &err), err);
        check_row(d, 0, "0:1 2:2", "0");
        check_row(d, 3, "0:5 3:6", "0");
        assert_fails(xsm_dataset_keep_labels(d, 3, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(xsm_dataset_keep_labels(NULL, 1, &err), XSM_ERROR_ARGUMENT, err);
        xsm_dataset_free(d);
    }
    assert_int_equal(labels[0], 2);
}

TEST(compact)
{
    EACH_KIND(sparse, ownership)
    {
        HELD(xsm_dataset, d) = made(sparse, ownership);
        const char *path = test_file("names", TEXT("zero\none\ntwo\nthree\nfour\n"));
        assert_ok(xsm_dataset_read_names(d, path, &err), err);
        assert_ok(xsm_dataset_drop(d, XSM_DROP_CLASSES, NULL, &err), err);
        assert_int_equal(info_of(d).classes, 3);
        check_row(d, 0, "0:1 2:2", "1,0");
        check_row(d, 2, "1:3 4:4", "2");
        check_row(d, 3, "0:5 3:6", "0,?");
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
        assert_int_equal(map.labels[0], 0);
        assert_int_equal(map.labels[1], 2);
        assert_int_equal(map.labels[2], 3);
        assert_string_equal(map.names[0], "zero");
        assert_string_equal(map.names[1], "two");
        assert_string_equal(map.names[2], "three");
        assert_ok(xsm_dataset_drop(d, XSM_DROP_CLASSES, NULL, &err), err);
        /* Names again: lines go by the file's labels. */
        path = test_file("names", TEXT("a\nb\nc\nd"));
        assert_ok(xsm_dataset_read_names(d, path, &err), err);
        assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
        assert_string_equal(map.names[2], "d");
    }
    /* Rows first: the class of a row that goes, goes too. */
    const float some[] = {1, 0, 2};
    const uint32_t each[] = {0, 1, 2};
    xsm_labels of = XSM_LABELS_INIT;
    of.classes = 4;
    of.labels = each;
    xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
    rows.values = some;
    rows.rows = 3;
    rows.features = 1;
    rows.labels = &of;
    uint64_t dropped = 0;
    NEW(xsm_dataset, d, xsm_dataset_from_dense(NULL, &rows, &d, &err));
    assert_ok(xsm_dataset_drop(d, XSM_DROP_EMPTY | XSM_DROP_CLASSES, &dropped, &err), err);
    assert_int_equal(dropped, 1);
    assert_int_equal(info_of(d).classes, 2);
    check_row(d, 1, "0:2", "1");
    assert_fails(xsm_dataset_drop(d, 16, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "XSM_DROP_CLASSES (4)"));
    xsm_dataset_free(d);
    assert_fails(xsm_dataset_drop(NULL, XSM_DROP_CLASSES, NULL, &err), XSM_ERROR_ARGUMENT, err);
}

TEST(names_errors)
{
    static const struct {
        const char *text;
        size_t size;
        xsm_status status;
        uint64_t line, column;
    } cases[] = {
        {TEXT("a\nb\nc\nd\n"), XSM_ERROR_SHAPE, 0, 0},     {TEXT(""), XSM_ERROR_SHAPE, 0, 0},
        {TEXT("a\n\nc\nd\ne\n"), XSM_ERROR_FORMAT, 2, 1},  {TEXT("a\nb\xFF\nc\nd\ne"), XSM_ERROR_FORMAT, 2, 2},
        {TEXT("a\nb\nc\nd\n\0e"), XSM_ERROR_FORMAT, 5, 1}, {TEXT("a\nb\nc\nd\ne\xC3"), XSM_ERROR_FORMAT, 5, 2},
        {TEXT("\xED\xA0\x80"), XSM_ERROR_FORMAT, 1, 1},    {TEXT("\xC0\x80"), XSM_ERROR_FORMAT, 1, 1},
    };
    HELD(xsm_dataset, d) = made(true, XSM_COPY);
    const char *good = test_file("good", TEXT("\xC3\xA9\nb\n\xE4\xB8\xAD\r\n\xF0\x9F\x98\x80\ne\nmore\n"));
    assert_ok(xsm_dataset_read_names(d, good, &err), err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = test_file("names", cases[i].text, cases[i].size);
        assert_fails(xsm_dataset_read_names(d, path, &err), cases[i].status, err);
        assert_int_equal(err.line, cases[i].line);
        assert_int_equal(err.column, cases[i].column);
    }
    assert_fails(xsm_dataset_read_names(d, test_path("absent"), &err), XSM_ERROR_IO, err);
    assert_fails(xsm_dataset_read_names(d, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_read_names(NULL, good, &err), XSM_ERROR_ARGUMENT, err);
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
    assert_string_equal(map.names[0], "\xC3\xA9"); /* still the good ones */
    assert_string_equal(map.names[2], "\xE4\xB8\xAD");
}

TEST(shuffle)
{
    EACH_KIND(sparse, ownership)
    {
        /* Every order turns up, and a seed gives the same one each time. */
        unsigned seen = 0;
        for (uint64_t seed = 0; seed < 300; seed++) {
            HELD(xsm_dataset, d) = made(sparse, ownership);
            HELD(xsm_dataset, again) = made(!sparse, ownership);
            assert_ok(xsm_dataset_shuffle(d, seed, &err), err);
            assert_ok(xsm_dataset_shuffle(again, seed, &err), err);
            unsigned where[4] = {9, 9, 9, 9};
            for (uint64_t i = 0; i < 4; i++) {
                xsmi_features f = xsmi_dataset_features(d, i);
                xsmi_features g = xsmi_dataset_features(again, i);
                double sum = 0;
                double sum_again = 0;
                for (size_t j = 0; j < f.count; j++) {
                    sum += (double)f.values[j];
                }
                for (size_t j = 0; j < g.count; j++) {
                    sum_again += (double)g.values[j];
                }
                assert_true(sum == sum_again);
                where[i] = sum == 3 ? 0 : sum == 0 ? 1 : sum == 7 ? 2 : 3;
            }
            assert_int_equal((1u << where[0]) | (1u << where[1]) | (1u << where[2]) | (1u << where[3]), 15);
            unsigned rank = 0; /* of the permutation, 0..23 */
            for (unsigned i = 0; i < 4; i++) {
                unsigned below = 0;
                for (unsigned j = i + 1; j < 4; j++) {
                    below += where[j] < where[i];
                }
                rank = rank * (4 - i) + below;
            }
            seen |= 1u << rank;
            assert_int_equal(info_of(d).labels, 5);
        }
        assert_int_equal(seen, (1u << 24) - 1);
        assert_fails(xsm_dataset_shuffle(NULL, 1, &err), XSM_ERROR_ARGUMENT, err);
    }
}

TEST(select_rows)
{
    EACH_KIND(sparse, ownership)
    {
        xsm_dataset *d = made(sparse, ownership);
        assert_ok(xsm_dataset_drop(d, XSM_DROP_CLASSES, NULL, &err), err);
        const uint64_t rows[] = {3, 0, 3};
        NEW(xsm_dataset, s, xsm_dataset_select(d, rows, 3, &s, &err));
        assert_int_equal(info_of(s).rows, 3);
        assert_int_equal(info_of(s).classes, 3);
        check_row(s, 0, "0:5 3:6", "0,?");
        check_row(s, 1, "0:1 2:2", "1,0");
        check_row(s, 2, "0:5 3:6", "0,?");
        const uint64_t expected[] = {3, 1, 0};
        assert_memory_equal(test_class_counts(s), expected, sizeof expected);
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        assert_ok(xsm_dataset_get_class_map(s, &map, &err), err);
        assert_int_equal(map.labels[1], 2);
        xsm_dataset *none = NULL;
        const uint64_t beyond[] = {0, 4};
        assert_fails(xsm_dataset_select(d, beyond, 2, &none, &err), XSM_ERROR_RANGE, err);
        assert_fails(xsm_dataset_select(d, rows, 0, &none, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(xsm_dataset_select(d, NULL, 1, &none, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(xsm_dataset_select(d, rows, 1, NULL, &err), XSM_ERROR_ARGUMENT, err);
        assert_fails(xsm_dataset_select(NULL, rows, 1, &none, &err), XSM_ERROR_ARGUMENT, err);
        assert_null(none);
        xsm_dataset_free(d);
        xsm_dataset_free(s); /* outlives what it was chosen from */
    }
}

TEST(split)
{
    enum { ROWS = 1000 };
    HELD_MEMORY(float, numbers) = malloc(ROWS * sizeof *numbers);
    assert_non_null(numbers);
    for (int i = 0; i < ROWS; i++) {
        numbers[i] = (float)i;
    }
    MADE(xsm_dataset, d,
         xsm_dataset_from_dense(
             NULL, STRUCT(xsm_dense_rows, .values = numbers, .rows = ROWS, .features = 1, .ownership = XSM_BORROW), &d,
             &err));
    int taken[ROWS] = {0};
    for (uint64_t seed = 0; seed < 200; seed++) {
        HELD(xsm_dataset, part) = NULL;
        MADE(xsm_dataset, rest, xsm_dataset_split(d, 0.2505, seed, &part, &rest, &err));
        assert_int_equal(part->rows, 251);
        assert_int_equal(rest->rows, 749);
        float last = -1;
        for (uint64_t i = 0; i < part->rows; i++) {
            float x = xsmi_dataset_features(part, i).values[0];
            assert_true(x > last);
            taken[(int)x]++;
            last = x;
        }
        uint64_t at = 0; /* rest is what part lacks */
        for (uint64_t i = 0; i < rest->rows; i++) {
            float x = xsmi_dataset_features(rest, i).values[0];
            while (at < part->rows && xsmi_dataset_features(part, at).values[0] < x) {
                at++;
            }
            assert_true(at == part->rows || xsmi_dataset_features(part, at).values[0] != x);
            assert_true(i == 0 || x > xsmi_dataset_features(rest, i - 1).values[0]);
        }
    }
    /* Every row is taken a quarter of the time: 200 draws have a mean of 50.2 and a deviation of 6.1. */
    for (int i = 0; i < ROWS; i++) {
        assert_in_range(taken[i], 20, 80);
    }
    xsm_dataset *part = NULL;
    xsm_dataset *rest = NULL;
    assert_fails(xsm_dataset_split(d, 0, 1, &part, &rest, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_dataset_split(d, 1, 1, &part, &rest, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_dataset_split(d, (double)NAN, 1, &part, &rest, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_dataset_split(d, 0.0004, 1, &part, &rest, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_dataset_split(d, 0.9996, 1, &part, &rest, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_dataset_split(d, 0.5, 1, NULL, &rest, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_split(d, 0.5, 1, &part, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_dataset_split(NULL, 0.5, 1, &part, &rest, &err), XSM_ERROR_ARGUMENT, err);
    assert_null(part);
    assert_null(rest);
}

/* Rows of more features than a cache line holds are padded with zeros, off multiples of 4 KiB. */
TEST(padding)
{
    static const uint32_t sizes[] = {1, 63, 64, 65, 1000, 1024, 2048};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint32_t n = sizes[s];
        HELD_MEMORY(float, numbers) = malloc(3 * n * sizeof *numbers);
        assert_non_null(numbers);
        for (uint32_t i = 0; i < 3 * n; i++) {
            numbers[i] = (float)(i + 1);
        }
        MADE(xsm_dataset, d,
             xsm_dataset_from_dense(NULL, STRUCT(xsm_dense_rows, .values = numbers, .rows = 3, .features = n), &d,
                                    &err));
        assert_true(d->stride >= n && (n < 64 || d->stride % 16 == 0) && d->stride % 1024 != 0);
        for (uint64_t i = 0; i < 3; i++) {
            assert_memory_equal(d->values + i * d->stride, numbers + i * n, n * sizeof *numbers);
            for (size_t j = n; j < d->stride; j++) {
                assert_true(d->values[i * d->stride + j] == 0);
            }
        }
    }
}

/* -- memory that runs out ----------------------------------------------------------------------------------------- */

typedef struct kind {
    bool sparse;
    int32_t ownership;
} kind;

static xsm_status run_constructor(void *state, xsm_context *ctx, xsm_error *err)
{
    const kind *k = state;
    HELD(xsm_dataset, d) = NULL;
    xsm_status status = make(ctx, k->sparse, k->ownership, &d, err);
    assert_true((d != NULL) == (status == XSM_OK));
    return status;
}

static xsm_status edit_drop(xsm_dataset *d, xsm_error *err)
{
    return xsm_dataset_drop(d, XSM_DROP_EMPTY, NULL, err);
}
static xsm_status edit_keep(xsm_dataset *d, xsm_error *err)
{
    return xsm_dataset_keep_labels(d, XSM_KEEP_LABELS_FIRST, err);
}
static xsm_status edit_shuffle(xsm_dataset *d, xsm_error *err)
{
    return xsm_dataset_shuffle(d, 7, err);
}
static xsm_status edit_names(xsm_dataset *d, xsm_error *err)
{
    return xsm_dataset_read_names(d, test_path("names-for-memory"), err);
}
static xsm_status edit_split(xsm_dataset *d, xsm_error *err)
{
    HELD(xsm_dataset, part) = NULL;
    HELD(xsm_dataset, rest) = NULL;
    xsm_status status = xsm_dataset_split(d, 0.5, 3, &part, &rest, err);
    assert_true((part != NULL) == (status == XSM_OK) && (rest != NULL) == (status == XSM_OK));
    return status;
}
static xsm_status edit_select(xsm_dataset *d, xsm_error *err)
{
    const uint64_t rows[] = {1, 2};
    HELD(xsm_dataset, s) = NULL;
    xsm_status status = xsm_dataset_select(d, rows, 2, &s, err);
    assert_true((s != NULL) == (status == XSM_OK));
    return status;
}

typedef struct edit {
    kind kind;
    xsm_status (*change)(xsm_dataset *d, xsm_error *err);
} edit;

/* A failed edit leaves every row as it was. */
static xsm_status run_edit(void *state, xsm_context *ctx, xsm_error *err)
{
    const edit *e = state;
    HELD(xsm_dataset, d) = NULL;
    xsm_status status = make(ctx, e->kind.sparse, e->kind.ownership, &d, err);
    if (status != XSM_OK) {
        return status;
    }
    status = e->change(d, err);
    if (status != XSM_OK) {
        xsm_dataset_info info = info_of(d);
        assert_int_equal(info.rows, 4);
        assert_int_equal(info.labels, 5);
        assert_int_equal(info.classes, 5);
        assert_int_equal(test_class_counts(d)[0], 2);
        check_row(d, 0, "0:1 2:2", "2,0");
        check_row(d, 1, "", "");
        check_row(d, 2, "1:3 4:4", "3");
        check_row(d, 3, "0:5 3:6", "0,?");
    }
    return status;
}

static xsm_status edit_classes(xsm_dataset *d, xsm_error *err)
{
    return xsm_dataset_drop(d, XSM_DROP_CLASSES, NULL, err);
}

static xsm_status edit_rare(xsm_dataset *d, xsm_error *err)
{
    xsm_class_map known = XSM_CLASS_MAP_INIT;
    known.classes = 3;
    return xsm_dataset_drop_rare_labels(d, 2, &known, NULL, err);
}

/* The hook that cancels. */
static int32_t stop(void *user, const xsm_activity *activity)
{
    (void)user;
    (void)activity;
    return 1;
}

/* A hash is found once, until the dataset changes; one of a call that was cancelled is not kept. */
TEST(hashes)
{
    enum { MANY = 200 };
    HELD_MEMORY(float, rows) = calloc(MANY, sizeof *rows);
    assert_non_null(rows);
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.progress = stop;
    const xsm_dense_rows given = {
        .size = sizeof given, .values = rows, .rows = MANY, .features = 1, .ownership = XSM_BORROW};
    MADE(xsm_context, ctx, xsm_context_new(&options, &ctx, &err));
    MADE(xsm_dataset, same, xsm_dataset_from_dense(NULL, &given, &same, &err));
    xsmi_set_pace(ctx, 1e9);
    MADE(xsm_dataset, d, xsm_dataset_from_dense(ctx, &given, &d, &err));
    xsmi_set_pace(ctx, 0);
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "comparing rows", "rows", 0);
    (void)xsmi_dataset_fingerprint(d);
    assert_fails(xsmi_end(&activity, xsmi_go_on(ctx, &err), &err), XSM_CANCELLED, err);
    const uint64_t before = xsmi_dataset_fingerprint(d), labels_before = xsmi_dataset_hash_labels(d);
    assert_int_equal(before, xsmi_dataset_fingerprint(same));
    rows[1] = 1; /* the library does not see it */
    assert_int_equal(xsmi_dataset_fingerprint(d), before);
    assert_ok(xsm_dataset_set_weights(d, NULL, &err), err);
    assert_true(xsmi_dataset_fingerprint(d) != before);
    assert_int_equal(xsmi_dataset_hash_labels(d), labels_before);
    rows[1] = 0;
    assert_ok(xsm_dataset_set_weights(d, NULL, &err), err);
    assert_int_equal(xsmi_dataset_fingerprint(d), before);
}

/* Weights stay with their rows, whatever is done to these, and are part of what two datasets are compared by. */
TEST(weights)
{
    EACH_KIND(sparse, ownership)
    {
        HELD(xsm_dataset, d) = made(sparse, ownership);
        HELD(xsm_dataset, other) = made(sparse, ownership);
        xsm_dataset *part = NULL, *rest = NULL;
        const float *given = row_weights, wrong[] = {1, 1, -1, 1};
        const uint64_t rows[] = {2, 0, 2};
        xsm_dataset_weights w = XSM_DATASET_WEIGHTS_INIT;
        xsm_row row = XSM_ROW_INIT;
        assert_true(info_of(d).total_weight == 14.5 && info_of(d).weighted == 1);
        assert_ok(xsm_dataset_set_weights(d, NULL, &err), err);
        assert_true(info_of(d).total_weight == 4 && info_of(d).weighted == 0);
        const uint64_t before = xsmi_dataset_fingerprint(d);
        w.rows = wrong;
        w.row_count = 3;
        assert_fails(xsm_dataset_set_weights(d, &w, &err), XSM_ERROR_SHAPE, err);
        assert_non_null(strstr(err.message, "row_count is 3; 4 is accepted"));
        w.row_count = 4;
        assert_fails(xsm_dataset_set_weights(d, &w, &err), XSM_ERROR_RANGE, err);
        assert_int_equal(xsmi_dataset_fingerprint(d), before);
        w.rows = given;
        assert_ok(xsm_dataset_set_weights(d, &w, &err), err);
        assert_true(info_of(d).total_weight == 14.5 && info_of(d).weighted == 1);
        assert_true(xsmi_dataset_fingerprint(d) != before);
        assert_int_equal(xsmi_dataset_fingerprint(d), xsmi_dataset_fingerprint(other));
        assert_ok(xsm_dataset_select(d, rows, 3, &part, &err), err);
        for (uint64_t i = 0; i < 3; i++) {
            assert_ok(xsm_dataset_get_row(part, i, &row, &err), err);
            assert_true(row.weight == (double)given[rows[i]]);
        }
        assert_true(info_of(part).total_weight == 8.5);
        xsm_dataset_free(part);
        assert_ok(xsm_dataset_split(d, 0.5, 1, &part, &rest, &err), err);
        assert_true(info_of(part).total_weight + info_of(rest).total_weight == 14.5);
        xsm_dataset_free(part);
        xsm_dataset_free(rest);
        assert_ok(xsm_dataset_shuffle(other, 3, &err), err);
        for (uint64_t i = 0; i < 4; i++) { /* the rows differ in their values */
            for (uint64_t j = 0; j < 4; j++) {
                xsm_row a = XSM_ROW_INIT, b = XSM_ROW_INIT;
                assert_ok(xsm_dataset_get_row(d, i, &a, &err), err);
                assert_ok(xsm_dataset_get_row(other, j, &b, &err), err);
                const bool same = a.count == b.count && memcmp(a.values, b.values, a.count * sizeof *a.values) == 0;
                assert_true(!same || a.weight == b.weight);
            }
        }
        assert_ok(xsm_dataset_drop(d, XSM_DROP_UNLABELLED, NULL, &err), err); /* row 1 */
        assert_true(info_of(d).rows == 3 && info_of(d).total_weight == 12.5);
        assert_ok(xsm_dataset_get_row(d, 1, &row, &err), err);
        assert_true(row.weight == 4);
        const float some[] = {2, 0, 3}, none[3] = {0};
        uint64_t dropped = 0;
        w.rows = none;
        w.row_count = 3;
        assert_ok(xsm_dataset_set_weights(d, &w, &err), err);
        assert_fails(xsm_dataset_drop(d, XSM_DROP_WEIGHTLESS | XSM_DROP_EMPTY, &dropped, &err), XSM_ERROR_DATA, err);
        assert_non_null(strstr(err.message, "all 3 rows are without a non-zero feature or of weight 0"));
        w.rows = some;
        assert_ok(xsm_dataset_set_weights(d, &w, &err), err);
        assert_ok(xsm_dataset_drop(d, XSM_DROP_WEIGHTLESS | XSM_DROP_CLASSES, &dropped, &err), err);
        assert_true(dropped == 1 && info_of(d).rows == 2 && info_of(d).classes == 2 && info_of(d).total_weight == 5);
        check_row(d, 1, "0:5 3:6", "0,?"); /* class 3 went with its row */
        assert_ok(xsm_dataset_set_weights(d, NULL, &err), err);
        assert_true(info_of(d).total_weight == 2 && info_of(d).weighted == 0);
    }
}

TEST(memory_runs_out)
{
    (void)test_file("names-for-memory", TEXT("zero\none\ntwo\nthree\nfour\n"));
    xsm_status (*const changes[])(xsm_dataset *, xsm_error *) = {edit_drop,    edit_rare,  edit_keep,  edit_classes,
                                                                 edit_shuffle, edit_names, edit_split, edit_select};
    EACH_KIND(sparse, ownership)
    {
        kind k = {sparse, ownership};
        assert_true(test_every_allocation(run_constructor, &k) > 2);
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
            edit e = {k, changes[i]};
            assert_true(test_every_allocation(run_edit, &e) > 3);
        }
    }
}

/* The label that programs show, and the class that has it. */
TEST(labels_of_classes)
{
    static const int64_t numbers[] = {-3, 0, 70000000000};
    static const char *const names[] = {"tea", "red wine", "tea"}, *const tens[] = {"10", "10.0", "20.0"};
    char buffer[9] = "unchanged";
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = 3;
    assert_int_equal(xsm_class_map_label(&map, 2, buffer, sizeof buffer), 1);
    assert_string_equal(buffer, "2");
    assert_int_equal(xsm_class_map_find(&map, "2"), 2);
    assert_int_equal(xsm_class_map_find(&map, "3"), XSM_NO_CLASS);
    assert_int_equal(xsm_class_map_find(&map, "-1"), XSM_NO_CLASS);
    assert_int_equal(xsm_class_map_label(&map, 3, buffer, sizeof buffer), 0); /* there is none */
    assert_string_equal(buffer, "");

    map.labels = numbers;
    assert_int_equal(xsm_class_map_label(&map, 2, buffer, sizeof buffer), 11);
    assert_string_equal(buffer, "70000000"); /* cut */
    assert_int_equal(xsm_class_map_label(&map, 2, NULL, 0), 11);
    assert_int_equal(xsm_class_map_find(&map, "70000000000"), 2);
    assert_int_equal(xsm_class_map_find(&map, "-3"), 0);
    assert_int_equal(xsm_class_map_find(&map, "7.0e+10"), 2);
    assert_int_equal(xsm_class_map_find(&map, "1"), XSM_NO_CLASS);
    assert_int_equal(xsm_class_map_find(&map, "0x"), XSM_NO_CLASS);
    assert_int_equal(xsm_class_map_find(&map, ""), XSM_NO_CLASS);

    map.names = names;
    assert_int_equal(xsm_class_map_label(&map, 1, buffer, sizeof buffer), 8);
    assert_string_equal(buffer, "red wine");
    assert_int_equal(xsm_class_map_find(&map, "tea"), 0); /* the first */
    assert_int_equal(xsm_class_map_find(&map, "0"), XSM_NO_CLASS);
    map.names = tens;
    map.labels = NULL;
    static const char *const spelt[] = {"10", "10.0", "20", "20.00", "1.0e+01", "010", "20e0"};
    static const uint32_t found[] = {0, 1, 2, 2, 0, XSM_NO_CLASS, XSM_NO_CLASS};
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(xsm_class_map_find(&map, spelt[i]), found[i]);
    }
    map.names = names;

    assert_int_equal(xsm_class_map_find(NULL, "tea"), XSM_NO_CLASS);
    assert_int_equal(xsm_class_map_find(&map, NULL), XSM_NO_CLASS);
    assert_int_equal(xsm_class_map_label(NULL, 0, buffer, sizeof buffer), 0);
    map.size = 3; /* no map that this release knows */
    assert_int_equal(xsm_class_map_find(&map, "tea"), XSM_NO_CLASS);
}
