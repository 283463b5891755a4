/*
 * Tests of products of features: pairs and products of random rows against plain counting, and what is refused.
 */
#include "support.h"

#include "base/order.h"
#include "data/products.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 300, FEATURES = 60 };

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % below);
}

/* Rows of up to two thirds of the features, the first more often than others; one value in eight is a zero that is
 * listed. */
static xsm_dataset *make_rows(xsm_context *ctx, uint64_t seed)
{
    static float values[ROWS * FEATURES];
    static uint32_t index[ROWS * FEATURES];
    uint64_t offsets[ROWS + 1], state = seed, count = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint32_t chance = i % 7 ? 2 + i % 5 : 1000; /* every seventh row is nearly empty */
        offsets[i] = count;
        for (uint32_t j = 0; j < FEATURES; j++) {
            if (draw(&state, chance + j / 4) == 0) {
                index[count] = j;
                values[count++] = draw(&state, 8) ? (float)draw(&state, 200) / 64 - 1 : 0;
            }
        }
    }
    offsets[ROWS] = count;
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_dataset, d,
        xsm_dataset_from_csr(ctx,
                             STRUCT(xsm_csr_rows, .offsets = offsets, .index = index, .values = values, .rows = ROWS,
                                    .features = FEATURES),
                             &d, &err));
    return d;
}

static void dense_row(const xsm_dataset *d, uint64_t row, float dense[FEATURES])
{
    const xsmi_features f = xsmi_dataset_features(d, row);
    memset(dense, 0, FEATURES * sizeof *dense);
    for (size_t j = 0; j < f.count; j++) {
        dense[f.index[j]] = f.values[j];
    }
}

static void count_plainly(const xsm_dataset *d, uint32_t counts[FEATURES][FEATURES])
{
    float dense[FEATURES];
    memset(counts, 0, FEATURES * sizeof *counts);
    for (uint64_t i = 0; i < d->rows; i++) {
        dense_row(d, i, dense);
        for (uint32_t a = 0; a < FEATURES; a++) {
            for (uint32_t b = a + 1; b < FEATURES; b++) {
                counts[a][b] += dense[a] != 0 && dense[b] != 0;
            }
        }
    }
}

TEST(pairs_are_those_that_are_counted)
{
    static const uint32_t least[] = {1, 2, 3, 20, 100, ROWS + 1, XSM_FEATURES_MAX}, cuts[] = {FEATURES, 31, 1, 0};
    static uint32_t counts[FEATURES][FEATURES];
    uint32_t most = 0;
    for (uint64_t seed = 1; seed < 4; seed++) {
        HELD(xsm_dataset, d) = make_rows(NULL, seed);
        count_plainly(d, counts);
        for (size_t i = 0; i < sizeof least / sizeof *least * 4; i++) {
            const uint32_t n = least[i / 4], features = cuts[i % 4];
            xsmi_products p = {0};
            uint32_t k = 0;
            assert_ok(xsmi_products_learn(d->context, d, features, n, &p, &err), err);
            for (uint32_t a = 0; a < features; a++) {
                for (uint32_t b = a + 1; b < features; b++) {
                    if (counts[a][b] >= n) {
                        assert_true(k < p.count);
                        assert_int_equal(p.pairs[k].lower, a);
                        assert_int_equal(p.pairs[k].higher, b);
                        k++;
                    }
                }
            }
            assert_int_equal(k, p.count);
            assert_int_equal(p.features, features);
            assert_ok(xsmi_products_check(p.pairs, p.count, features, &err), err);
            most = XSMI_MAX(most, n > 1 && n <= ROWS ? k : 0);
            xsmi_products_free(d->context, &p);
        }
    }
    assert_true(most > 200); /* the rows are no trivial ones */
}

TEST(products_are_those_of_the_pairs)
{
    HELD(xsm_dataset, d) = make_rows(NULL, 5);
    HELD(xsm_dataset, other) = make_rows(NULL, 6);
    for (uint32_t least = 1; least < 60; least += 7) {
        xsmi_products p = {0};
        assert_ok(xsmi_products_learn(d->context, d, FEATURES, least, &p, &err), err);
        for (uint64_t i = 0; i < ROWS; i++) { /* rows that the pairs were not learned from */
            const xsmi_features f = xsmi_dataset_features(other, i);
            float dense[FEATURES], values[FEATURES * FEATURES];
            uint32_t index[FEATURES * FEATURES];
            size_t count = f.count, at[2], end = f.count;
            dense_row(other, i, dense);
            memcpy(values, f.values, count * sizeof *values);
            memcpy(index, f.index, count * sizeof *index);
            assert_true(xsmi_products_append(&p, index, values, &count, at));
            assert_true(count - f.count <= xsmi_products_most(&p, f.count));
            assert_memory_equal(values, f.values, f.count * sizeof *values);
            assert_memory_equal(index, f.index, f.count * sizeof *index);
            for (uint32_t k = 0; k < p.count; k++) {
                const float product = dense[p.pairs[k].lower] * dense[p.pairs[k].higher];
                if (product != 0) {
                    assert_true(end < count);
                    assert_int_equal(index[end], FEATURES + k);
                    assert_true(values[end] == product);
                    end++;
                }
            }
            assert_int_equal(end, count);
        }
        xsmi_products_free(d->context, &p);
    }
}

TEST(most_products_of_a_row)
{
    const xsmi_products few = {.count = 5}, many = {.count = XSM_FEATURES_MAX};
    assert_int_equal(xsmi_products_most(&few, 0), 0);
    assert_int_equal(xsmi_products_most(&few, 1), 0);
    assert_int_equal(xsmi_products_most(&few, 3), 3);
    assert_int_equal(xsmi_products_most(&few, 4), 5);
    assert_int_equal(xsmi_products_most(&many, 1000), 499500);
    assert_int_equal(xsmi_products_most(&many, XSM_FEATURES_MAX), XSM_FEATURES_MAX);
}

TEST(stored_pairs_are_checked)
{
    static const struct {
        xsmi_feature_pair pairs[3];
        uint32_t count;
        const char *says; /* NULL: accepted */
    } cases[] = {
        {{{0, 1}, {0, 9}, {1, 2}}, 3, NULL},
        {{{8, 9}}, 1, NULL},
        {{{0, 0}}, 0, NULL},
        {{{0, 0}}, 1, "pair 0"},
        {{{3, 2}}, 1, "pair 0"},
        {{{0, 10}}, 1, "below 10"},
        {{{0, UINT32_MAX}}, 1, "below 10"},
        {{{0, 1}, {0, 1}}, 2, "pair 1"},
        {{{0, 2}, {0, 1}}, 2, "pair 1"},
        {{{1, 2}, {2, 3}, {0, 9}}, 3, "pair 2"},
        {{{0, 1}}, XSM_FEATURES_MAX - 9u, "at most 2147483637"},
        {{{0, 1}}, UINT32_MAX, "at most 2147483637"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const xsm_status status = xsmi_products_check(cases[i].pairs, cases[i].count, 10, &err);
        assert_int_equal(status, cases[i].says ? XSM_ERROR_RANGE : XSM_OK);
        assert_true(!cases[i].says || strstr(err.message, cases[i].says));
    }
}
