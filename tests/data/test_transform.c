/*
 * Tests of transforms: descriptions, fitting and applying, compared with rows transformed in decimal arithmetic
 * (golden/dataset.py).
 */
#include "support.h"

#include "data/dataset.h"
#include "read/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static xsm_dataset *read_golden(void)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_dataset, d, xsm_dataset_read(NULL, TEST_GOLDEN "/dataset_rows.txt", NULL, NULL, &d, &err));
    return d;
}

/* The same rows in dense form, in the caller's memory. */
static float *dense_of(const xsm_dataset *d)
{
    float *values = calloc((size_t)d->rows * d->features, sizeof *values);
    assert_non_null(values);
    for (uint64_t i = 0; i < d->rows; i++) {
        xsmi_features f = xsmi_dataset_features(d, i);
        for (size_t j = 0; j < f.count; j++) {
            values[i * d->features + f.index[j]] = f.values[j];
        }
    }
    return values;
}

TEST(descriptions)
{
    static const char *const good[][2] = {
        {"", ""},
        {"  \t", ""},
        {"unit", "unit"},
        {" tfidf ,\tunit", "tfidf,unit"},
        {"truncate=5", "truncate=5"},
        {"log", "log"},
        {"log , tfidf,log,unit,products=2, log", "log,tfidf,log,unit,products=2,log"},
        {"truncate = 0005 , unit,unit", "truncate=5,unit,unit"},
        {"truncate=2147483647,tfidf,truncate=1", "truncate=2147483647,tfidf,truncate=1"},
        {"tfidf,unit , products =03", "tfidf,unit,products=3"},
        {" none ", ""},
        {"log,tfidf, standard ,products=2,unit", "log,tfidf,standard,products=2,unit"},
        {"products=2147483647,truncate=2147483647,unit", "products=2147483647,truncate=2147483647,unit"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        NEW(xsm_transform, t, xsm_transform_new(NULL, good[i][0], &t, &err));
        assert_string_equal(xsmi_transform_description(t), good[i][1]);
        xsm_transform *again = NULL; /* the normal form is one */
        assert_ok(xsm_transform_new(NULL, xsmi_transform_description(t), &again, &err), err);
        assert_string_equal(xsmi_transform_description(again), good[i][1]);
        assert_int_equal(xsmi_transform_features(t), 0);
        xsm_transform_free(t);
        xsm_transform_free(again);
    }
    static const struct {
        const char *text;
        xsm_status status;
    } bad[] = {
        {"units", XSM_ERROR_NAME},
        {"uni", XSM_ERROR_NAME},
        {"Unit", XSM_ERROR_NAME},
        {"unit,", XSM_ERROR_NAME},
        {",unit", XSM_ERROR_NAME},
        {"unit,,unit", XSM_ERROR_NAME},
        {"unit tfidf", XSM_ERROR_RANGE},
        {"unit=1", XSM_ERROR_RANGE},
        {"log=2", XSM_ERROR_RANGE},
        {"log2", XSM_ERROR_NAME},
        {"tfidf,unit,tfidf", XSM_ERROR_RANGE},
        {"truncate", XSM_ERROR_RANGE},
        {"truncate=", XSM_ERROR_RANGE},
        {"truncate=-1", XSM_ERROR_RANGE},
        {"truncate=1.5", XSM_ERROR_RANGE},
        {"truncate=5x", XSM_ERROR_RANGE},
        {"truncate 5", XSM_ERROR_RANGE},
        {"truncate=2147483648", XSM_ERROR_RANGE},
        {"truncate=99999999999999999999999999", XSM_ERROR_RANGE},
        {"none,unit", XSM_ERROR_NAME},
        {"non", XSM_ERROR_NAME},
        {"standard=1", XSM_ERROR_RANGE},
        {"standard,unit,standard", XSM_ERROR_RANGE},
        {"standard,tfidf", XSM_ERROR_RANGE},
        {"product=2", XSM_ERROR_NAME},
        {"products", XSM_ERROR_RANGE},
        {"products=0", XSM_ERROR_RANGE},
        {"products=2147483648", XSM_ERROR_RANGE},
        {"products=2,products=2", XSM_ERROR_RANGE},
        {"products=2,tfidf", XSM_ERROR_RANGE},
        {"a name that is far longer than any step has and that goes on and on without an end in sight", XSM_ERROR_NAME},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        xsm_transform *t = NULL;
        assert_fails(xsm_transform_new(NULL, bad[i].text, &t, &err), bad[i].status, err);
        assert_null(t);
        if (bad[i].status == XSM_ERROR_NAME) {
            assert_non_null(strstr(err.message, "truncate=N, log, tfidf, standard, unit and products=N"));
        }
    }
    xsm_transform *t = NULL;
    assert_fails(xsm_transform_new(NULL, NULL, &t, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_transform_new(NULL, "", NULL, &err), XSM_ERROR_ARGUMENT, err);
    xsm_transform_free(NULL);
}

TEST(golden)
{
    FILE *file = fopen(TEST_GOLDEN "/dataset_transforms.txt", "r");
    assert_non_null(file);
    static char line[65536];
    char form[8]; /* of the rows that it is fitted to, where that matters */
    unsigned features;
    int transforms = 0, at;
    char *got = fgets(line, sizeof line, file);
    while (got && sscanf(line, "%7s %u%n", form, &features, &at) == 2) {
        line[strcspn(line, "\n")] = '\0';
        char *description = strdup(line + at + 1);
        const bool fit_dense = strcmp(form, "dense") == 0;
        NEW(xsm_transform, t, xsm_transform_new(NULL, description, &t, &err));
        /* Sparse and dense, copied and borrowed, and with what a model would store. */
        xsm_dataset *sparse = read_golden();
        xsm_dataset *dense = NULL;
        xsm_dataset *stored = read_golden();
        const bool grows = strstr(description, "products") != NULL; /* which dense rows cannot */
        float *values = dense_of(sparse);
        float *values_before = dense_of(sparse);
        NEW(xsm_dataset, borrowed,
            xsm_dataset_from_dense(NULL,
                                   STRUCT(xsm_dense_rows, .values = values, .rows = sparse->rows,
                                          .features = sparse->features, .ownership = XSM_BORROW),
                                   &borrowed, &err));
        assert_ok(xsm_dataset_from_dense(
                      NULL,
                      STRUCT(xsm_dense_rows, .values = values, .rows = sparse->rows, .features = sparse->features),
                      &dense, &err),
                  err);
        if (grows) {
            assert_fails(xsm_transform_fit(t, dense, &err), XSM_ERROR_UNSUPPORTED, err);
            assert_int_equal(xsmi_transform_features(t), 0);
        }
        assert_ok(xsm_transform_fit(t, grows || strcmp(form, "sparse") == 0 ? sparse : dense, &err), err);
        assert_int_equal(xsmi_transform_features(t), sparse->features);
        assert_int_equal(xsmi_transform_output_features(t), features);
        const xsmi_transform_parts parts = xsmi_transform_get_parts(t);
        NEW(xsm_transform, restored, xsmi_transform_restore(NULL, &parts, &restored, &err));
        assert_true(xsmi_transform_equal(t, restored));
        NEW(xsm_transform, refitted, xsm_transform_new(NULL, description, &refitted, &err));
        assert_ok(xsm_transform_fit(refitted, sparse, &err), err);
        assert_ok(xsm_transform_fit(refitted, fit_dense ? dense : sparse, &err), err);
        assert_ok(xsm_transform_apply(refitted, sparse, &err), err);
        assert_true(xsmi_transform_equal(refitted, t));
        if (grows) {
            assert_fails(xsm_transform_apply(t, borrowed, &err), XSM_ERROR_UNSUPPORTED, err);
            assert_fails(xsm_transform_apply(t, dense, &err), XSM_ERROR_UNSUPPORTED, err);
        } else {
            assert_ok(xsm_transform_apply(t, borrowed, &err), err);
            assert_ok(xsm_transform_apply(t, dense, &err), err);
        }
        assert_ok(xsm_transform_apply(restored, stored, &err), err);
        uint64_t empty = 0;
        for (uint64_t i = 0; i < sparse->rows; i++) {
            assert_non_null(fgets(line, sizeof line, file));
            const char *p = line;
            xsmi_features f = xsmi_dataset_features(sparse, i);
            empty += *p == '\n';
            for (size_t j = 0; j < f.count; j++) {
                char *end;
                unsigned long index = strtoul(p, &end, 10);
                float expected = strtof(end + 1, &end);
                p = *end == ' ' ? end + 1 : end;
                assert_int_equal(f.index[j], index);
                /* One rounding of the weight and one of the product may differ, of both factors of a product. */
                if (!(fabsf(f.values[j] - expected) <= (grows ? 6e-7f : 2.4e-7f) * fabsf(expected))) {
                    fail_msg("%s: row %d, feature %lu: %.9g instead of %.9g", description, (int)i, index,
                             (double)f.values[j], (double)expected);
                }
                if (!grows) {
                    assert_memory_equal(&borrowed->values[i * borrowed->stride + index], &f.values[j], sizeof(float));
                    assert_memory_equal(&dense->values[i * dense->stride + index], &f.values[j], sizeof(float));
                }
                assert_memory_equal(&xsmi_dataset_features(stored, i).values[j], &f.values[j], sizeof(float));
            }
            assert_int_equal(*p, '\n');
        }
        assert_int_equal(sparse->features, features);
        assert_int_equal(sparse->counted.empty, empty);
        if (!grows) {
            assert_int_equal(dense->features, features);
            assert_int_equal(borrowed->features, features);
            assert_int_equal(dense->counted.empty, empty);
        }
        assert_memory_equal(values, values_before, sizeof *values * 12 * 30); /* the caller's rows are as they were */
        if (features != xsmi_transform_features(t)) {
            assert_fails(xsm_transform_apply(t, sparse, &err), XSM_ERROR_STATE, err);
        }
        transforms++;
        free(description);
        free(values);
        free(values_before);
        xsm_dataset_free(sparse);
        xsm_dataset_free(borrowed);
        xsm_dataset_free(dense);
        xsm_dataset_free(stored);
        xsm_transform_free(t);
        xsm_transform_free(restored);
        xsm_transform_free(refitted);
        got = fgets(line, sizeof line, file);
    }
    assert_null(got);
    assert_int_equal(transforms, 27);
    fclose(file);
}

TEST(golden_numbers)
{
    FILE *file = fopen(TEST_GOLDEN "/dataset_numbers.txt", "r");
    assert_non_null(file);
    char text[512];
    unsigned bits;
    int count = 0;
    while (fscanf(file, "%500s %x", text, &bits) == 2) {
        float value = 0;
        uint32_t mine;
        const char *end = NULL;
        int result = xsmi_parse_float(text, &end, &value);
        memcpy(&mine, &value, sizeof mine);
        if ((bits & 0x7FFFFFFF) == 0x7F800000 ? result != XSMI_NUMBER_TOO_LARGE
                                              : result != XSMI_NUMBER_OK || mine != bits || *end) {
            fail_msg("%s: %08x instead of %08x (%d)", text, mine, bits, result);
        }
        count++;
    }
    assert_true(count > 100);
    fclose(file);
}

TEST(errors)
{
    xsm_dataset *d = read_golden();
    NEW(xsm_transform, t, xsm_transform_new(NULL, "truncate=10,tfidf", &t, &err));
    assert_fails(xsm_transform_apply(t, d, &err), XSM_ERROR_STATE, err);
    assert_fails(xsm_transform_fit(NULL, d, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_transform_fit(t, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_transform_apply(NULL, d, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_transform_apply(t, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_ok(xsm_transform_fit(t, d, &err), err);
    assert_ok(xsm_transform_apply(t, d, &err), err);
    assert_int_equal(d->features, 10);
    xsm_dataset_free(d);
    const float few[] = {1, 0, 2, 3};
    const xsm_dense_rows short_rows = {.size = sizeof(xsm_dense_rows), .values = few, .rows = 2, .features = 2};
    assert_ok(xsm_dataset_from_dense(NULL, &short_rows, &d, &err), err);
    assert_fails(xsm_transform_apply(t, d, &err), XSM_ERROR_SHAPE, err);
    xsm_transform_free(t);
    xsm_dataset_free(d);

    /* A second transform, the same or another; one without steps does nothing. */
    static const char *const twice[] = {"unit", "tfidf", ""};
    xsm_transform *each[3] = {NULL, NULL, NULL};
    const uint64_t row = 1;
    assert_ok(xsm_dataset_from_dense(NULL, &short_rows, &d, &err), err);
    for (int i = 0; i < 3; i++) {
        assert_ok(xsm_transform_new(NULL, twice[i], &each[i], &err), err);
        assert_ok(xsm_transform_fit(each[i], d, &err), err);
    }
    assert_ok(xsm_transform_apply(each[2], d, &err), err);
    assert_ok(xsm_transform_apply(each[0], d, &err), err);
    NEW(xsm_dataset, chosen, xsm_dataset_select(d, &row, 1, &chosen, &err));
    for (int i = 0; i < 2; i++) {
        assert_fails(xsm_transform_apply(each[i], d, &err), XSM_ERROR_STATE, err);
        assert_non_null(strstr(err.message, "were transformed before"));
        assert_fails(xsm_transform_apply(each[i], chosen, &err), XSM_ERROR_STATE, err);
    }
    assert_ok(xsm_transform_apply(each[2], d, &err), err);
    assert_true(d->values[0] == 1);
    for (int i = 0; i < 3; i++) {
        xsm_transform_free(each[i]);
    }
    xsm_dataset_free(chosen);
    xsm_dataset_free(d);

    /* A product beyond float32 is found before anything changes. */
    const float large[] = {1, 0, 0, 0.9f * FLT_MAX};
    assert_ok(xsm_dataset_from_dense(NULL, STRUCT(xsm_dense_rows, .values = large, .rows = 2, .features = 2), &d, &err),
              err);
    t = NULL;
    assert_ok(xsm_transform_new(NULL, "tfidf", &t, &err), err);
    assert_ok(xsm_transform_fit(t, d, &err), err);
    assert_fails(xsm_transform_apply(t, d, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "row 1, feature 1"));
    assert_memory_equal(d->values, large, sizeof large);
    xsm_transform_free(t);
    t = NULL;
    assert_ok(xsm_transform_new(NULL, "unit,tfidf", &t, &err), err); /* nothing is above 1 behind unit */
    assert_ok(xsm_transform_fit(t, d, &err), err);
    assert_ok(xsm_transform_apply(t, d, &err), err);
    assert_true(d->values[3] > 1 && d->values[3] < 2);
    xsm_transform_free(t);
    xsm_dataset_free(d);

    /* So does log, but not behind tfidf. */
    static const char *const damped[] = {"tfidf,log", "log,tfidf"};
    assert_ok(xsm_dataset_from_dense(NULL, STRUCT(xsm_dense_rows, .values = large, .rows = 2, .features = 2), &d, &err),
              err);
    for (int i = 0; i < 2; i++) {
        t = NULL;
        assert_ok(xsm_transform_new(NULL, damped[i], &t, &err), err);
        assert_ok(xsm_transform_fit(t, d, &err), err);
        const xsm_status status = xsm_transform_apply(t, d, &err);
        assert_int_equal(status, i == 0 ? XSM_ERROR_RANGE : XSM_OK);
        xsm_transform_free(t);
    }
    assert_true(d->values[3] > 89 && d->values[3] < 180);
    xsm_dataset_free(d);

    /* Products, too; and the rows stay. */
    const uint64_t offsets[] = {0, 1, 3};
    const uint32_t index[] = {1, 0, 2};
    const float sparse[] = {1, 1e30f, -1e30f};
    xsm_csr_rows csr = {.size = sizeof(xsm_csr_rows),
                        .offsets = offsets,
                        .index = index,
                        .values = sparse,
                        .rows = 2,
                        .features = 3,
                        .ownership = XSM_BORROW};
    assert_ok(xsm_dataset_from_csr(NULL, &csr, &d, &err), err);
    t = NULL;
    assert_ok(xsm_transform_new(NULL, "products=1", &t, &err), err);
    assert_ok(xsm_transform_fit(t, d, &err), err);
    assert_int_equal(xsmi_transform_output_features(t), 4);
    assert_fails(xsm_transform_apply(t, d, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "row 1, features 0 and 2"));
    assert_ptr_equal(d->values, sparse);
    assert_int_equal(d->features, 3);
    xsm_transform_free(t);
    t = NULL;
    assert_ok(xsm_transform_new(NULL, "unit,products=1", &t, &err), err);
    assert_ok(xsm_transform_fit(t, d, &err), err);
    assert_ok(xsm_transform_apply(t, d, &err), err);
    assert_int_equal(d->offsets[2], 4);
    assert_int_equal(d->index[3], 3);
    assert_true(fabsf(d->values[3] + 0.5f) < 1e-6f);
    assert_true(sparse[1] == 1e30f);
    xsm_transform_free(t);
    xsm_dataset_free(d);

    /* The ends of float32 have a norm. */
    const float ends[] = {FLT_MAX, FLT_MAX, 1e-45f, 0};
    assert_ok(
        xsm_dataset_from_dense(
            NULL, STRUCT(xsm_dense_rows, .values = ends, .rows = 2, .features = 2, .ownership = XSM_BORROW), &d, &err),
        err);
    t = NULL;
    assert_ok(xsm_transform_new(NULL, "unit", &t, &err), err);
    assert_ok(xsm_transform_fit(t, d, &err), err);
    assert_ok(xsm_transform_apply(t, d, &err), err);
    assert_true(fabsf(d->values[0] - sqrtf(0.5f)) < 1e-7f);
    assert_true(d->values[2] == 1);
    xsm_transform_free(t);
    xsm_dataset_free(d);
}

/* The mean of a column of dense rows, and its variance. */
static void measure_column(const float *values, size_t rows, size_t columns, size_t column, double *mean,
                           double *variance)
{
    *mean = *variance = 0;
    for (size_t i = 0; i < rows; i++) {
        *mean += values[i * columns + column] / (double)rows;
    }
    for (size_t i = 0; i < rows; i++) {
        const double from = values[i * columns + column] - *mean;
        *variance += from * from / (double)rows;
    }
}

/* Columns of any scale, far from 0 or constant, have mean 0 and variance 1, whatever stands before the step. */
TEST(standard)
{
    enum { ROWS = 300, COLUMNS = 8 };
    static const float scale[COLUMNS] = {1e-44f, 1e-30f, 1e-3f, 1, 3, 1e6f, 1e30f, 1e37f};
    static const float offset[COLUMNS] = {0, 1e-28f, 0, 1e4f, 0, 3e7f, -1e31f, 0};
    static float rows[ROWS * COLUMNS];
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < COLUMNS; j++) {
            rows[i * COLUMNS + j] = offset[j] + scale[j] * (float)((i * (2 * j + 7) + i * i) % 31);
        }
        rows[i * COLUMNS + 4] = 0.1f;
    }
    const xsm_dense_rows given = {
        .size = sizeof(xsm_dense_rows), .values = rows, .rows = ROWS, .features = COLUMNS, .ownership = XSM_BORROW};
    static const char *const steps[] = {"standard", "log,standard", "unit,standard"};
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        MADE(xsm_dataset, d, xsm_dataset_from_dense(NULL, &given, &d, &err));
        MADE(xsm_transform, t, xsm_transform_new(NULL, steps[k], &t, &err));
        assert_ok(xsm_transform_fit(t, d, &err), err);
        assert_ok(xsm_transform_apply(t, d, &err), err);
        for (size_t j = 0; j < COLUMNS; j++) {
            double mean, variance;
            measure_column(d->values, ROWS, d->stride, j, &mean, &variance);
            const bool constant = d->values[j] == 0 && variance == 0;
            assert_true(fabs(mean) < 1e-6 && (constant || fabs(variance - 1) < 1e-5));
            assert_true(constant == (k < 2 ? j == 4 : variance == 0));
        }
    }

    /* What was constant is not divided; what is too large is refused with its place, and the rows stay. */
    NEW(xsm_dataset, d, xsm_dataset_from_dense(NULL, &given, &d, &err));
    MADE(xsm_transform, t, xsm_transform_new(NULL, "standard", &t, &err));
    assert_ok(xsm_transform_fit(t, d, &err), err);
    xsm_dataset_free(d);
    rows[4] = 1e30f;
    assert_ok(xsm_dataset_from_dense(NULL, &given, &d, &err), err);
    assert_ok(xsm_transform_apply(t, d, &err), err);
    assert_true(d->values[4] == 1e30f - 0.1f && fabsf(d->values[d->stride + 4]) == 0);
    xsm_dataset_free(d);
    rows[5 * COLUMNS + 1] = 1e20f;
    assert_ok(xsm_dataset_from_dense(NULL, &given, &d, &err), err);
    assert_fails(xsm_transform_apply(t, d, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "standard: row 5, feature 1 "));
    assert_ptr_equal(d->values, rows);
    xsm_dataset_free(d);

    /* More features: the means and scales that there are stay, new ones get none and the median. */
    assert_true(xsmi_transform_may_grow(t));
    MADE(xsm_transform, wider, xsmi_transform_grown(t, COLUMNS + 2, &wider, &err));
    const double *before = xsmi_transform_get_parts(t).standard, *after = xsmi_transform_get_parts(wider).standard;
    assert_memory_equal(after, before, COLUMNS * sizeof *before);
    assert_memory_equal(after + COLUMNS + 2, before + COLUMNS, COLUMNS * sizeof *before);
    assert_true(after[COLUMNS] == 0 && after[COLUMNS + 1] == 0);
    for (size_t j = 0; j < 2; j++) {
        size_t below = 0, above = 0;
        for (size_t k = 0; k < COLUMNS; k++) {
            below += before[COLUMNS + k] < after[2 * COLUMNS + 2 + j];
            above += before[COLUMNS + k] > after[2 * COLUMNS + 2 + j];
        }
        assert_true(below <= COLUMNS / 2 && above <= COLUMNS / 2);
    }
}

TEST(restore_errors)
{
    const float idf[] = {1, 2, 3, 4};
    const float bad[] = {1, 2, NAN, 4};
    const float zero[] = {1, 0, 3, 4};
    const double standard[] = {0, 1, 2, 1, 0, (double)INFINITY};
    xsm_transform *t = NULL;
    const xsmi_feature_pair pairs[] = {{0, 1}, {1, 3}}, fallen[] = {{1, 3}, {0, 1}};
    const struct {
        xsmi_transform_parts parts;
        xsm_status status;
    } cases[] = {
        {{"standard", 2, .standard = standard, .columns = 1}, XSM_ERROR_SHAPE},
        {{"standard", 2, .columns = 2}, XSM_ERROR_SHAPE},
        {{"unit", 2, .standard = standard, .columns = 2}, XSM_ERROR_SHAPE},
        {{"standard", 2, .standard = standard + 1, .columns = 2}, XSM_ERROR_RANGE},
        {{"standard", 2, .standard = standard + 2, .columns = 2}, XSM_ERROR_RANGE},
        {{"tfidf", 5, .idf = idf, .idf_count = 4}, XSM_ERROR_SHAPE},
        {{"tfidf", 4, .idf_count = 4}, XSM_ERROR_SHAPE},
        {{"unit", 4, .idf = idf, .idf_count = 4}, XSM_ERROR_SHAPE},
        {{"tfidf", 0, .idf = idf, .idf_count = 4}, XSM_ERROR_RANGE},
        {{"tfidf", 4, .idf = bad, .idf_count = 4}, XSM_ERROR_RANGE},
        {{"tfidf", 4, .idf = zero, .idf_count = 4}, XSM_ERROR_RANGE},
        {{"tfodf", 4, .idf = idf, .idf_count = 4}, XSM_ERROR_NAME},
        {{"unit", 4, .pairs = pairs, .pair_count = 2}, XSM_ERROR_SHAPE},
        {{"products=1", 4, .pair_count = 0}, XSM_ERROR_SHAPE},
        {{"products=1", 4, .pairs = fallen, .pair_count = 2}, XSM_ERROR_RANGE},
        {{"products=1", 3, .pairs = pairs, .pair_count = 2}, XSM_ERROR_RANGE},
        {{"truncate=3,products=1", 4, .pairs = pairs, .pair_count = 2}, XSM_ERROR_RANGE},
        {{"products=1", XSM_FEATURES_MAX - 1, .pairs = pairs, .pair_count = 2}, XSM_ERROR_RANGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_fails(xsmi_transform_restore(NULL, &cases[i].parts, &t, &err), cases[i].status, err);
        assert_null(t);
    }
    xsmi_transform_parts good = {"truncate=4,tfidf,truncate=2", 9, .idf = idf, .idf_count = 4};
    assert_ok(xsmi_transform_restore(NULL, &good, &t, &err), err);
    assert_int_equal(xsmi_transform_output_features(t), 2);
    xsm_transform_free(t);
    t = NULL;
    good = (xsmi_transform_parts){"truncate=4,products=1,truncate=5", 9, .pairs = pairs, .pair_count = 2};
    assert_ok(xsmi_transform_restore(NULL, &good, &t, &err), err);
    assert_int_equal(xsmi_transform_output_features(t), 5);
    xsm_transform_free(t);
}

/* -- memory that runs out ----------------------------------------------------------------------------------------- */

typedef struct run {
    const xsm_dataset *rows;
    bool dense;
    int32_t ownership;
    const char *steps;
} run;

static xsm_status fit_and_apply(xsm_context *ctx, xsm_transform *t, xsm_dataset *d, xsm_error *err)
{
    xsm_status status = xsm_transform_fit(t, d, err);
    if (status != XSM_OK) {
        assert_int_equal(xsmi_transform_features(t), 0);
        return status;
    }
    float before = d->values[0];
    uint32_t features = d->features;
    status = xsm_transform_apply(t, d, err);
    if (status != XSM_OK) {
        assert_true(d->values[0] == before && d->features == features);
        return status;
    }
    const xsmi_transform_parts parts = xsmi_transform_get_parts(t);
    HELD(xsm_transform, restored) = NULL;
    status = xsmi_transform_restore(ctx, &parts, &restored, err);
    assert_true((restored != NULL) == (status == XSM_OK));
    return status;
}

static xsm_status run_transform(void *state, xsm_context *ctx, xsm_error *err)
{
    const run *r = state;
    const xsm_dataset *from = r->rows;
    HELD(xsm_transform, t) = NULL;
    xsm_status status = xsm_transform_new(ctx, r->steps, &t, err);
    if (status != XSM_OK) {
        assert_null(t);
        return status;
    }
    HELD(xsm_dataset, d) = NULL;
    status =
        r->dense
            ? xsm_dataset_from_dense(ctx,
                                     STRUCT(xsm_dense_rows, .values = from->values, .stride = from->stride,
                                            .rows = from->rows, .features = from->features, .ownership = r->ownership),
                                     &d, err)
            : xsm_dataset_from_csr(ctx,
                                   STRUCT(xsm_csr_rows, .offsets = from->offsets, .index = from->index,
                                          .values = from->values, .rows = from->rows, .features = from->features,
                                          .ownership = r->ownership),
                                   &d, err);
    if (status == XSM_OK) {
        status = fit_and_apply(ctx, t, d, err);
    }
    return status;
}

/* Rows of few features that claim many: the hook is asked, and memory is for the weights, not for counts. */
TEST(many_features_are_claimed)
{
    enum { CLAIMED = 1 << 22 };
    static const uint64_t offsets[] = {0, 1, 2};
    static const uint32_t index[] = {3, 5};
    static const float values[] = {1, 2};
    const xsm_csr_rows rows = {.size = sizeof rows,
                               .offsets = offsets,
                               .index = index,
                               .values = values,
                               .rows = 2,
                               .features = CLAIMED,
                               .ownership = XSM_COPY};
    static const char *const names[] = {"tfidf", "standard"};
    for (int i = 0; i < 2; i++) {
        test_hook h;
        test_hook_start(&h, 1);
        NEW(xsm_dataset, d, xsm_dataset_from_csr(h.context, &rows, &d, &err));
        NEW(xsm_transform, t, xsm_transform_new(h.context, names[i], &t, &err));
        test_hook_cancel(&h, 0);
        assert_ok(xsm_transform_fit(t, d, &err), err);
        assert_true(h.calls > CLAIMED / 8192);
        test_hook_cancel(&h, CLAIMED / 8192);
        assert_fails(xsm_transform_fit(t, d, &err), XSM_CANCELLED, err);
        xsm_transform_free(t);
        xsm_dataset_free(d);
        test_hook_end(&h);
    }
}

TEST(memory_runs_out)
{
    HELD(xsm_dataset, sparse) = read_golden();
    HELD_MEMORY(float, values) = dense_of(sparse);
    MADE(xsm_dataset, dense,
         xsm_dataset_from_dense(NULL,
                                STRUCT(xsm_dense_rows, .values = values, .rows = sparse->rows,
                                       .features = sparse->features, .ownership = XSM_BORROW),
                                &dense, &err));
    for (int kind = 0; kind < 8; kind++) {
        const bool is_dense = kind & 1 && kind != 5;
        run r = {is_dense ? dense : sparse, is_dense, kind & 2 || kind == 5 ? XSM_BORROW : XSM_COPY,
                 kind < 4   ? "truncate=20, tfidf, unit"
                 : kind < 6 ? "tfidf, unit, products=15"
                            : "log, standard, unit"};
        assert_true(test_every_allocation(run_transform, &r) > 10);
    }
}
