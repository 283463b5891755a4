/*
 * Clusters of labels: vectors are sums of rows, halves have the sizes that were asked for, labels of a kind stay
 * together, and the result does not depend on the number of threads.
 */
#include "support.h"

#include "base/base.h"
#include "base/random.h"
#include "labels/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Labels of `groups` kinds, each with words of its own; label l is of kind l % groups. Label l is the first of rows l
 * and l + labels; with `of` = 2 each row also has the next label of its kind. */
static xsm_dataset *grouped(xsm_context *ctx, uint32_t labels, uint32_t groups, uint32_t classes, uint32_t each,
                            uint32_t of)
{
    const uint32_t rows = 2 * labels / of, spread = of == 1 ? 3 : 12, width = spread * each + 2;
    xsm_error err = XSM_ERROR_INIT;
    HELD_MEMORY(uint64_t, offsets) = malloc((rows + 1) * sizeof *offsets);
    HELD_MEMORY(uint64_t, label_offsets) = malloc((rows + 1) * sizeof *offsets);
    HELD_MEMORY(uint32_t, index) = malloc(rows * each * sizeof *index);
    HELD_MEMORY(uint32_t, label) = malloc(rows * of * sizeof *label);
    HELD_MEMORY(float, values) = malloc(rows * each * sizeof *values);
    xsmi_stream s;
    xsmi_stream_start(&s, 5, XSMI_STREAM_CHECK, 0);
    for (uint32_t r = 0; r <= rows; r++) {
        offsets[r] = (uint64_t)r * each;
        label_offsets[r] = (uint64_t)r * of;
        for (uint32_t j = 0; j < of && r < rows; j++) {
            label[r * of + j] = (r + j * groups) % labels;
        }
        uint32_t at = r % labels % groups * width;
        for (uint32_t k = 0; k < each && r < rows; k++) {
            at += 1 + (uint32_t)xsmi_stream_below(&s, spread);
            index[r * each + k] = at - 1;
            values[r * each + k] = 1.0f;
        }
    }
    xsm_labels labelled = XSM_LABELS_INIT;
    labelled.classes = classes;
    labelled.offsets = label_offsets;
    labelled.labels = label;
    xsm_csr_rows csr = XSM_CSR_ROWS_INIT;
    csr.rows = rows;
    csr.features = groups * width;
    csr.offsets = offsets;
    csr.index = index;
    csr.values = values;
    csr.dtype = XSM_DTYPE_FLOAT32;
    csr.labels = &labelled;
    xsm_dataset *data;
    assert_ok(xsm_dataset_from_csr(ctx, &csr, &data, &err), err);
    return data;
}

static xsm_context *threads(uint32_t count)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = count;
    xsm_context *ctx;
    assert_ok(xsm_context_new(&options, &ctx, &err), err);
    return ctx;
}

/* Every vector is the sum of its label's rows, at unit length, whether by a source of its own, features in rising
 * order, or by rows that labels share. */
TEST(test_vectors)
{
    enum { EACH = 60, FEATURES = 10 * (12 * EACH + 2) };
    static double sum[FEATURES], found[FEATURES];
    HELD(xsm_context, ctx) = threads(2);
    for (uint32_t of = 1; of <= 2; of++) {
        HELD(xsm_dataset, data) = grouped(ctx, 700, 10, 900, EACH, of);
        xsmi_label_vectors v;
        uint32_t shared = 0;
        assert_ok(xsmi_label_vectors_make(&v, ctx, data, of == 1, &err), err);
        assert_int_equal(v.count, 700);
        assert_int_equal(v.classes, 900);
        for (uint32_t l = 0; l < v.classes; l++) {
            assert_int_equal(v.label[l], l);
        }
        for (uint32_t l = 0; l < v.count; l++) {
            double length = 0;
            memset(sum, 0, sizeof sum);
            memset(found, 0, sizeof found);
            for (uint32_t j = 0; j < 2; j++) {
                const xsmi_features x = xsmi_dataset_features(data, of == 1 ? l + j * 700 : (l + 700 - j * 10) % 700);
                for (size_t k = 0; k < x.count; k++) {
                    sum[x.index[k]] += 1;
                }
            }
            const xsmi_label_terms t = xsmi_label_terms_of(&v, l);
            shared += t.row != NULL;
            for (uint32_t i = 0; i < t.count; i++) {
                const xsmi_features x = xsmi_label_source(&v, xsmi_term_source(&v, &t, l, i));
                for (size_t k = 0; k < x.count; k++) {
                    assert_true(k == 0 || x.index[k] > x.index[k - 1]);
                    found[x.index[k]] += (double)t.weight[i] * (double)x.values[k];
                }
            }
            for (size_t f = 0; f < FEATURES; f++) {
                length += sum[f] * sum[f];
            }
            for (size_t f = 0; f < FEATURES; f++) {
                assert_true(fabs(found[f] - sum[f] / sqrt(length)) < 1e-6);
            }
        }
        assert_true(of == 1 ? shared == 0 : shared > 0);
        xsmi_label_vectors_free(&v);
    }
}

/* Nodes are numbered level by level, every class is one leaf, and no node is larger than allowed. */
static void check_layout(const xsmi_layout *t, const xsmi_layout_settings *s, uint32_t seen)
{
    uint32_t next = 1, leaves = 0;
    HELD_MEMORY(uint8_t, found) = calloc(t->labels, 1);
    for (uint32_t v = 0; v < t->nodes; v++) {
        assert_int_equal(t->first_child[v], next);
        next = t->first_child[v + 1];
        const uint32_t children = next - t->first_child[v], n = t->end[v] - t->start[v];
        if (children == 0) {
            assert_int_equal(n, 1);
            const uint32_t label = t->order[t->start[v]];
            assert_false(found[label]);
            found[label] = 1;
            leaves++;
            continue;
        }
        uint32_t at = t->start[v];
        for (uint32_t c = t->first_child[v]; c < next; c++) {
            assert_int_equal(t->start[c], at);
            at = t->end[c];
        }
        assert_int_equal(at, t->end[v]);
        assert_true(children >= 2 || v == 0);
        assert_true(children <= (s->arity > s->leaf ? s->arity : s->leaf) + (v == 0 && seen < t->labels));
        if (s->balanced && t->end[v] <= seen && n > s->leaf) {
            for (uint32_t c = t->first_child[v]; c < next; c++) {
                const double share = (double)t->pieces[c] / t->pieces[v];
                assert_true(fabs(t->end[c] - t->start[c] - n * share) <= 5);
            }
        }
    }
    assert_int_equal(next, t->nodes);
    assert_int_equal(leaves, t->labels);
}

TEST(test_layout)
{
    enum { LARGE = 64 }; /* labels with so many words that all threads divide them together */
    static const struct {
        uint32_t labels, classes;
        xsmi_layout_settings settings;
    } cases[] = {
        {1, 1, {16, 100, true, 1, 20, 0, false, NULL}},     {1, 3, {16, 100, true, 1, 20, 0, false, NULL}},
        {2, 700, {16, 2, true, 1, 20, 0, false, NULL}},     {90, 90, {16, 100, true, 1, 20, 0, false, NULL}},
        {1000, 1000, {4, 10, true, 1, 20, 0, false, NULL}}, {1001, 1500, {16, 7, true, 2, 20, 0, false, NULL}},
        {600, 601, {2, 2, true, 3, 20, 0, false, NULL}},    {1000, 1200, {8, 20, false, 1, 20, 0, false, NULL}},
        {300, 300, {2, 2, false, 4, 20, 0, false, NULL}},   {LARGE, 64, {2, 32, true, 1, 20, 0, false, NULL}},
        {LARGE, 64, {3, 32, false, 1, 20, 0, false, NULL}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        uint32_t *order[3] = {NULL};
        for (uint32_t n = 1; n <= 3; n++) {
            HELD(xsm_context, ctx) = threads(n);
            const bool large = cases[k].labels == LARGE;
            HELD(xsm_dataset, data) = large ? grouped(ctx, LARGE, 2, cases[k].classes, 35000, 2)
                                            : grouped(ctx, cases[k].labels, 10, cases[k].classes, 6, 1);
            xsmi_label_vectors v;
            xsmi_layout t;
            assert_ok(xsmi_label_vectors_make(&v, ctx, data, false, &err), err);
            assert_ok(xsmi_layout_make(&t, &v, &cases[k].settings, &err), err);
            check_layout(&t, &cases[k].settings, cases[k].labels);
            order[n - 1] = malloc(t.labels * sizeof *t.order);
            memcpy(order[n - 1], t.order, t.labels * sizeof *t.order);
            assert_memory_equal(order[n - 1], order[0], t.labels * sizeof *t.order);
            xsmi_layout_free(&t);
            xsmi_label_vectors_free(&v);
        }
        for (uint32_t n = 0; n < 3; n++) {
            free(order[n]);
        }
    }
}

/* Whether each child of the root has labels of one kind. */
static bool is_pure(const xsmi_layout *t)
{
    for (uint32_t c = 1; c <= 2; c++) {
        for (uint32_t p = t->start[c]; p < t->end[c]; p++) {
            if (t->order[p] % 2 != t->order[t->start[c]] % 2) {
                return false;
            }
        }
    }
    return t->first_child[1] == 3;
}

/* Two kinds of one size come apart, from most beginnings: two labels of one kind may be a bad one. */
TEST(test_kinds)
{
    HELD(xsm_context, ctx) = threads(2);
    HELD(xsm_dataset, data) = grouped(ctx, 400, 2, 400, 6, 1);
    xsmi_label_vectors v;
    assert_ok(xsmi_label_vectors_make(&v, ctx, data, false, &err), err);
    for (uint32_t balanced = 0; balanced < 2; balanced++) {
        uint32_t pure = 0;
        for (uint32_t seed = 0; seed < 10; seed++) {
            const xsmi_layout_settings settings = {2, 200, balanced, seed, 20, 0, false, NULL};
            xsmi_layout t;
            assert_ok(xsmi_layout_make(&t, &v, &settings, &err), err);
            pure += is_pure(&t);
            xsmi_layout_free(&t);
        }
        assert_in_range(pure, 4, 10);
    }
    xsmi_label_vectors_free(&v);
}

static xsm_status layout_body(void *state, xsm_context *ctx, xsm_error *err)
{
    const bool *balanced = state;
    HELD(xsm_dataset, data) = grouped(NULL, 300, 10, 310, 6, 2);
    const xsmi_layout_settings settings = {4, 10, *balanced, 1, 20, 0, false, NULL};
    xsmi_label_vectors v;
    xsmi_layout t;
    xsm_status status = xsmi_label_vectors_make(&v, ctx, data, false, err);
    if (status == XSM_OK) {
        status = xsmi_layout_make(&t, &v, &settings, err);
        if (status == XSM_OK) {
            xsmi_layout_free(&t);
        }
        xsmi_label_vectors_free(&v);
    }
    return status;
}

TEST(test_allocations)
{
    bool balanced = true;
    assert_true(test_every_allocation(layout_body, &balanced) > 20);
    balanced = false;
    assert_true(test_every_allocation(layout_body, &balanced) > 20);
}
