/*
 * checkkernels: the kernels on weights in fewer bits. Each gives the bits that the scalar reference of its namesake
 * gives for the widened weights, which narrow_kinds.h makes by other means.
 */
#include "checkkernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "../narrow_kinds.h"

static const xsmi_kernels *const ref = &xsmi_kernels_scalar;

/* Numbers in fewer bits that end at a fence, and the same as floats. */
typedef struct narrow {
    array pages, wide;
    xsmi_narrow w;
} narrow;

static void narrow_open(narrow *a, size_t most)
{
    array_open(&a->pages, most);
    array_open(&a->wide, most);
}

static void narrow_close(narrow *a)
{
    array_close(&a->pages);
    array_close(&a->wide);
}

static void narrow_fill(narrow *a, const test_kind *type, size_t rows, size_t stride, size_t columns, kind k)
{
    const size_t n = rows ? (rows - 1) * stride + columns : 0;
    const size_t size = type->bytes;
    array_fill(&a->wide, n, 0, k);
    array_fill(&a->pages, (n * size + 3) / 4, 0, PLAIN);
    unsigned char *data = (unsigned char *)(a->pages.at + a->pages.n) - n * size;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, a->wide.at + i, sizeof bits);
        const uint16_t upper = (uint16_t)(bits >> 16);
        const uint8_t whole = (uint8_t)random_below(256);
        memcpy(data + i * size, size == 1 ? (const void *)&whole : (const void *)&upper, size);
        a->wide.at[i] = type->wide(size == 1 ? whole : upper);
    }
    a->w = (xsmi_narrow){type->dtype, data, stride};
}

static void test_widen(void **state)
{
    const xsmi_kernels *k = check_table(state);
    static uint16_t numbers[65536];
    static float want[65536], got[65536];
    for (EACH_KIND(type)) {
        const uint32_t all = UINT32_C(1) << 8 * type->bytes;
        for (uint32_t i = 0; i < all; i++) {
            if (type->bytes == 1) {
                ((uint8_t *)numbers)[i] = (uint8_t)i;
            } else {
                numbers[i] = (uint16_t)i;
            }
            want[i] = type->wide(i);
        }
        const xsmi_narrow w = {type->dtype, numbers, 0};
        for (size_t from = 0; from < 40; from++) {
            k->widen(&w, from, all - 2 * from, got);
            expect_floats(got, want + from, all - 2 * from, type->name, from);
        }
    }
}

static void test_narrow_rows(void **state)
{
    const xsmi_kernels *k = check_table(state);
    enum { classes = 7 };
    const uint32_t rows[] = {6, 0, 3, 3, 1};
    const uint32_t index[] = {0, 1, 2, 3, 5, 8, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 200};
    const uint32_t listed[] = {1, 2, 5, 6};
    narrow w;
    array x, want, got;
    narrow_open(&w, 10000);
    array_open(&x, 1000);
    array_open(&want, 1000);
    array_open(&got, 1000);
    for (size_t t = 0; t < TEST_KINDS; t++) {
        for (size_t s = 0; s < SIZES; s++) {
            const size_t d = size_at(s) % 700;
            const kind v = (kind)random_below(KINDS);
            narrow_fill(&w, &test_kinds[t], classes, d + random_below(20), d, v);
            array_fill(&x, d, 0, v);
            array_fill(&want, 5, 0, v);
            array_copy(&got, &want);
            ref->gather_scores(w.wide.at, w.w.stride, rows, 5, x.at, d, want.at, NULL);
            k->gather_narrow(&w.w, rows, 5, x.at, d, got.at);
            expect_arrays(&got, &want, "gather_narrow", d);
            if (d > 200) {
                const size_t nnz = random_below(22);
                ref->sparse_gather_scores(w.wide.at, w.w.stride, rows, 5, index, x.at, nnz, want.at);
                k->sparse_gather_narrow(&w.w, rows, 5, index, x.at, nnz, got.at);
                expect_arrays(&got, &want, "sparse_gather_narrow", nnz);
            }
            const bool chosen = random_below(2);
            const size_t terms = d < 5 ? 0 : random_below(chosen ? 5 : 6);
            array_fill(&want, d, 0, v);
            array_copy(&got, &want);
            ref->column_sums(w.wide.at, w.w.stride, chosen ? listed : NULL, x.at, terms, d, want.at);
            k->narrow_column_sums(&w.w, chosen ? listed : NULL, x.at, terms, d, got.at);
            expect_arrays(&got, &want, "narrow_column_sums", d);
        }
    }
    narrow_close(&w);
    array_close(&x);
    array_close(&want);
    array_close(&got);
}

static void test_score_narrow(void **state)
{
    const xsmi_kernels *k = check_table(state);
    narrow w;
    array x[XSMI_FEW], terms, want, got;
    narrow_open(&w, XSMI_CLASS_TILE * 600);
    for (size_t l = 0; l < XSMI_FEW; l++) {
        array_open(x + l, 600);
    }
    array_open(&terms, 2 * XSMI_CLASS_TILE);
    array_open(&want, XSMI_CLASS_TILE * XSMI_LANES);
    array_open(&got, XSMI_CLASS_TILE * XSMI_LANES);
    for (size_t classes = 0; classes <= XSMI_CLASS_TILE; classes += classes < 50 || classes == 167 ? 1 : 39) {
        static const size_t dims[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 63, 64, 66, 100, 129, 257, 512};
        for (size_t s = 0; s < sizeof(dims) / sizeof(dims[0]); s++) {
            const size_t d = dims[s], n = 1 + random_below(XSMI_FEW), skipped = random_below(3);
            const kind v = (kind)random_below(KINDS);
            const float *row[XSMI_FEW];
            const size_t stride = d + random_below(20);
            narrow_fill(&w, &test_kinds[random_below(TEST_KINDS)], classes, stride, d, v);
            for (size_t l = 0; l < n; l++) {
                row[l] = array_fill(x + l, d, 0, v);
            }
            array_fill(&terms, 2 * classes, 0, v);
            array_fill(&want, classes * XSMI_LANES, 0, v);
            array_copy(&got, &want);
            const size_t first = skipped < classes ? skipped : 0, count = classes - first;
            const float scale = random_below(2) ? 1.0f : random_unit();
            const float *row_scale = random_below(2) ? terms.at : NULL;
            const float *bias = random_below(2) ? terms.at + classes : NULL;
            ref->score_few(w.wide.at + first * stride, stride, count, row, n, d, scale, row_scale, bias, want.at);
            k->score_narrow(&w.w, first, count, row, n, d, scale, row_scale, bias, got.at);
            expect_arrays(&got, &want, "score_narrow", classes * 1000 + d);
        }
    }
    narrow_close(&w);
    for (size_t l = 0; l < XSMI_FEW; l++) {
        array_close(x + l);
    }
    array_close(&terms);
    array_close(&want);
    array_close(&got);
}

/* Scores are those of score_lanes, whatever is widened beside them, and that is what `widen` gives. */
static void test_score_widening(void **state)
{
    const xsmi_kernels *k = check_table(state);
    enum { most = 40000 };
    narrow w;
    array weights, packed, want, got, wide, widened;
    narrow_open(&w, most);
    array_open(&weights, XSMI_CLASS_TILE * 300);
    array_open(&packed, 300 * XSMI_LANES);
    array_open(&want, XSMI_CLASS_TILE * XSMI_LANES);
    array_open(&got, XSMI_CLASS_TILE * XSMI_LANES);
    array_open(&wide, most);
    array_open(&widened, most);
    for (size_t classes = 0; classes <= XSMI_CLASS_TILE; classes += classes < 30 ? 1 : 46) {
        static const size_t dims[] = {0, 1, 15, 16, 33, 100, 257};
        for (size_t s = 0; s < 2 * sizeof dims / sizeof *dims; s++) {
            const size_t d = dims[s / 2], n = 1 + random_below(XSMI_LANES), stride = d + random_below(20);
            const kind v = (kind)random_below(KINDS);
            const size_t first = random_below(300), count = s % 3 == 0 ? random_below(200) : random_below(most - 300);
            narrow_fill(&w, &test_kinds[random_below(TEST_KINDS)], 1, first + count, first + count, v);
            array_fill(&weights, classes == 0 ? 0 : (classes - 1) * stride + d, 0, v);
            array_fill(&packed, d * XSMI_LANES, 0, v);
            array_fill(&want, classes * XSMI_LANES, 0, v);
            array_copy(&got, &want);
            array_fill(&wide, count, 0, v);
            array_copy(&widened, &wide);
            const xsmi_widening next = {&w.w, first, first + count, widened.at};
            k->score_lanes(weights.at, stride, classes, packed.at, n, d, 0.5f, NULL, NULL, want.at);
            k->score_widening(weights.at, stride, classes, packed.at, n, d, 0.5f, NULL, NULL, got.at, &next);
            for (size_t c = 0; c < classes; c++) { /* of the other lanes nothing is said */
                for (size_t l = n; l < XSMI_LANES; l++) {
                    got.at[c * XSMI_LANES + l] = want.at[c * XSMI_LANES + l];
                }
            }
            expect_arrays(&got, &want, "score_widening", classes * 1000 + d);
            k->widen(&w.w, first, count, wide.at);
            expect_arrays(&widened, &wide, "numbers of score_widening", count);
        }
    }
    narrow_close(&w);
    array_close(&weights);
    array_close(&packed);
    array_close(&want);
    array_close(&got);
    array_close(&wide);
    array_close(&widened);
}

/* The bits of dot() on the widened numbers, and a sum of squares as its order is defined: here by adding up an array of
 * partial sums in a loop of its own. */
static float squares_of(const float *w, size_t d)
{
    float partial[32] = {0};
    for (size_t i = 0; i < d; i++) {
        partial[i % 32] = fmaf(w[i], w[i], partial[i % 32]);
    }
    for (size_t half = 16; half > 0; half /= 2) {
        for (size_t l = 0; l < half; l++) {
            partial[l] += partial[l + half];
        }
    }
    return partial[0];
}

static void test_screen(void **state)
{
    const xsmi_kernels *k = check_table(state);
    enum { most = 9 };
    narrow w;
    array x, want, got, squares, sums;
    narrow_open(&w, 20000);
    array_open(&x, 1000);
    array_open(&want, most);
    array_open(&got, most);
    array_open(&squares, most);
    array_open(&sums, most);
    for (size_t s = 0; s < 3 * SIZES; s++) {
        const size_t d = size_at(s / 3) % 700, classes = random_below(most + 1), stride = d + random_below(20);
        const kind v = (kind)random_below(KINDS);
        narrow_fill(&w, &test_kinds[random_below(TEST_KINDS)], classes, stride, d, v);
        const xsmi_narrow wide = {XSM_DTYPE_FLOAT32, w.wide.at, stride}, *numbers = s % 3 == 2 ? &wide : &w.w;
        const size_t first = classes > 2 ? random_below(3) : 0, count = classes - first;
        array_fill(&x, d, 0, v);
        array_fill(&want, count, 0, v);
        array_fill(&squares, count, 0, v);
        array_copy(&got, &want);
        array_copy(&sums, &squares);
        for (size_t c = 0; c < count; c++) {
            want.at[c] = ref->dot(w.wide.at + (first + c) * stride, x.at, d);
            squares.at[c] = squares_of(w.wide.at + (first + c) * stride, d);
        }
        k->screen(numbers, first, count, x.at, d, got.at, sums.at);
        expect_arrays(&got, &want, "screen", d);
        expect_arrays(&sums, &squares, "squares of screen", d);
        memset(got.at, 0, count * sizeof *got.at);
        k->screen(numbers, first, count, x.at, d, got.at, NULL);
        expect_arrays(&got, &want, "screen without squares", d);
    }
    narrow_close(&w);
    array_close(&x);
    array_close(&want);
    array_close(&got);
    array_close(&squares);
    array_close(&sums);
}

const named_test narrow_tests[] = {
    {"widen", test_widen},
    {"gather_narrow, narrow_column_sums", test_narrow_rows},
    {"score_narrow", test_score_narrow},
    {"score_widening", test_score_widening},
    {"screen", test_screen},
    {NULL, NULL},
};
