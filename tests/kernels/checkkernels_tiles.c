/*
 * checkkernels: the kernels on tiles of scores.
 */
#include "checkkernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const xsmi_kernels *const ref = &xsmi_kernels_scalar;

void reduction_open(reduction_arrays *a, uint32_t top, const uint32_t *target)
{
    memset(a, 0x5a, sizeof(*a));
    a->r = (xsmi_reduction){.max = a->max,
                            .sum = a->sum,
                            .top = top,
                            .top_score = a->top_score,
                            .top_class = a->top_class,
                            .target = target,
                            .target_score = a->target_score,
                            .lanes = XSMI_LANES};
    xsmi_reduction_start(&a->r);
}

static void test_pack(void **state)
{
    const xsmi_kernels *k = check_table(state);
    array x[XSMI_LANES], want, got;
    const float *row[XSMI_LANES];
    static float back[600 * XSMI_LANES];
    for (size_t l = 0; l < XSMI_LANES; l++) {
        array_open(x + l, 600);
    }
    array_open(&want, 600 * XSMI_LANES);
    array_open(&got, 600 * XSMI_LANES);
    for (size_t n = 0; n <= XSMI_LANES; n++) {
        for (size_t d = 0; d < 530; d += d < 40 ? 1 : 163) {
            for (size_t l = 0; l < n; l++) {
                row[l] = array_fill(x + l, d, 0, SPECIAL);
            }
            array_fill(&want, d * XSMI_LANES, 0, PLAIN);
            array_copy(&got, &want);
            ref->pack(row, n, d, want.at);
            k->pack(row, n, d, got.at);
            expect_arrays(&got, &want, "pack", d);
            k->unpack(want.at, d, n, back, d);
            for (size_t l = 0; l < n; l++) {
                assert_memory_equal(back + l * d, row[l], d * sizeof *back);
            }
        }
    }
    for (size_t l = 0; l < XSMI_LANES; l++) {
        array_close(x + l);
    }
    array_close(&want);
    array_close(&got);
}

static void test_pack_rows(void **state)
{
    const xsmi_kernels *k = check_table(state);
    enum { most_n = 9 };
    array x[most_n];
    const float *row[most_n];
    array want, got;
    for (size_t i = 0; i < most_n; i++) {
        array_open(x + i, 600);
    }
    array_open(&want, 19 * (most_n + 2) * XSMI_LANES);
    array_open(&got, 19 * (most_n + 2) * XSMI_LANES);
    for (size_t n = 0; n <= most_n; n++) {
        for (size_t d = 0; d < 530; d += d < 70 ? 1 : 163) {
            size_t pitch = (n + random_below(3)) * XSMI_LANES;
            for (size_t i = 0; i < n; i++) {
                row[i] = array_fill(x + i, d, 0, SPECIAL);
            }
            array_fill(&want, (d + XSMI_LANES - 1) / XSMI_LANES * pitch, 0, PLAIN);
            array_copy(&got, &want);
            ref->pack_rows(row, n, d, want.at, pitch);
            k->pack_rows(row, n, d, got.at, pitch);
            expect_arrays(&got, &want, "pack_rows", d);
        }
    }
    for (size_t i = 0; i < most_n; i++) {
        array_close(x + i);
    }
    array_close(&want);
    array_close(&got);
}

static void test_score_tile(void **state)
{
    const xsmi_kernels *k = check_table(state);
    array w;
    array packed;
    array terms;
    array want, got;
    array_open(&w, XSMI_CLASS_TILE * 600);
    array_open(&packed, 600 * XSMI_LANES);
    array_open(&terms, 2 * XSMI_CLASS_TILE);
    array_open(&want, XSMI_CLASS_TILE * XSMI_LANES);
    array_open(&got, XSMI_CLASS_TILE * XSMI_LANES);
    for (size_t classes = 0; classes <= XSMI_CLASS_TILE; classes += classes < 31 || classes == 167 ? 1 : 34) {
        static const size_t dims[] = {0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 257, 512};
        for (size_t s = 0; s < sizeof(dims) / sizeof(dims[0]); s++) {
            size_t d = dims[s];
            kind v = (kind)random_below(KINDS);
            size_t stride = d + random_below(20);
            array_fill(&w, classes == 0 ? 0 : (classes - 1) * stride + d, 0, v);
            array_fill(&packed, d * XSMI_LANES, 0, v);
            array_fill(&terms, 2 * classes, 0, v);
            array_fill(&want, classes * XSMI_LANES, 0, v);
            array_copy(&got, &want);
            float scale = random_below(2) ? 1.0f : random_unit();
            const float *row_scale = random_below(2) ? terms.at : NULL;
            const float *bias = random_below(2) ? terms.at + classes : NULL;
            ref->score_tile(w.at, stride, classes, packed.at, d, scale, row_scale, bias, want.at);
            k->score_tile(w.at, stride, classes, packed.at, d, scale, row_scale, bias, got.at);
            expect_arrays(&got, &want, "score_tile", classes * 1000 + d);
            /* The first lanes alone have the same bits; of the others nothing is said. */
            size_t n = 1 + random_below(XSMI_LANES);
            memset(got.at, 0, classes * XSMI_LANES * sizeof *got.at);
            k->score_lanes(w.at, stride, classes, packed.at, n, d, scale, row_scale, bias, got.at);
            for (size_t c = 0; c < classes; c++) {
                for (size_t l = n; l < XSMI_LANES; l++) {
                    got.at[c * XSMI_LANES + l] = want.at[c * XSMI_LANES + l];
                }
            }
            expect_arrays(&got, &want, "score_lanes", classes * 1000 + n);
        }
    }
    array_close(&w);
    array_close(&packed);
    array_close(&terms);
    array_close(&want);
    array_close(&got);
}

/* score_few against score_tile: the lanes that it writes have the same bits, the others are left as they are. */
static void test_score_few(void **state)
{
    const xsmi_kernels *k = check_table(state);
    array w;
    array x[XSMI_FEW];
    array packed;
    array terms;
    array want, got;
    array_open(&w, XSMI_CLASS_TILE * 600);
    for (size_t l = 0; l < XSMI_FEW; l++) {
        array_open(x + l, 600);
    }
    array_open(&packed, 600 * XSMI_LANES);
    array_open(&terms, 2 * XSMI_CLASS_TILE);
    array_open(&want, XSMI_CLASS_TILE * XSMI_LANES);
    array_open(&got, XSMI_CLASS_TILE * XSMI_LANES);
    for (size_t classes = 0; classes <= XSMI_CLASS_TILE; classes += classes < 36 || classes == 167 ? 1 : 33) {
        static const size_t dims[] = {0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 66, 127, 128, 129, 257, 512};
        for (size_t s = 0; s < sizeof(dims) / sizeof(dims[0]); s++) {
            size_t d = dims[s], n = 1 + random_below(XSMI_FEW);
            kind v = (kind)random_below(KINDS);
            size_t stride = d + random_below(20);
            const float *row[XSMI_FEW];
            array_fill(&w, classes == 0 ? 0 : (classes - 1) * stride + d, 0, v);
            for (size_t l = 0; l < n; l++) {
                row[l] = array_fill(x + l, d, 0, v);
            }
            array_fill(&packed, d * XSMI_LANES, 0, PLAIN);
            ref->pack(row, n, d, packed.at);
            array_fill(&terms, 2 * classes, 0, v);
            array_fill(&want, classes * XSMI_LANES, 0, v);
            array_copy(&got, &want);
            float scale = random_below(2) ? 1.0f : random_unit();
            const float *row_scale = random_below(2) ? terms.at : NULL;
            const float *bias = random_below(2) ? terms.at + classes : NULL;
            ref->score_tile(w.at, stride, classes, packed.at, d, scale, row_scale, bias, want.at);
            for (size_t c = 0; c < classes; c++) {
                for (size_t l = n; l < XSMI_LANES; l++) {
                    want.at[c * XSMI_LANES + l] = got.at[c * XSMI_LANES + l];
                }
            }
            k->score_few(w.at, stride, classes, row, n, d, scale, row_scale, bias, got.at);
            expect_arrays(&got, &want, "score_few", classes * 1000 + d);
        }
    }
    array_close(&w);
    for (size_t l = 0; l < XSMI_FEW; l++) {
        array_close(x + l);
    }
    array_close(&packed);
    array_close(&terms);
    array_close(&want);
    array_close(&got);
}

static void expect_reductions(const reduction_arrays *got, const reduction_arrays *want, size_t size)
{
    expect_floats(got->max, want->max, XSMI_LANES, "reduce_tile: max", size);
    expect_floats(got->top_score, want->top_score, (MOST_TOP + 1) * XSMI_LANES, "reduce_tile: top", size);
    expect_floats(got->target_score, want->target_score, XSMI_LANES, "reduce_tile: target", size);
    assert_memory_equal(got->top_class, want->top_class, sizeof(want->top_class));
    for (size_t l = 0; l < XSMI_LANES; l++) {
        if (!isnan(got->sum[l]) || !isnan(want->sum[l])) {
            assert_memory_equal(got->sum + l, want->sum + l, sizeof(double));
        }
    }
}

static void test_reduce_tile(void **state)
{
    const xsmi_kernels *k = check_table(state);
    static reduction_arrays want;
    static reduction_arrays got;
    array z;
    array_open(&z, XSMI_CLASS_TILE * XSMI_LANES);
    static const uint32_t tops[] = {0, 1, 2, 5, 10, MOST_TOP};
    for (size_t round = 0; round < 300; round++) {
        uint32_t target[XSMI_LANES];
        for (size_t l = 0; l < XSMI_LANES; l++) {
            target[l] = random_below(5) == 0 ? XSMI_NO_CLASS : random_below(600);
        }
        uint32_t top = tops[random_below(6)];
        bool with_target = random_below(2) != 0;
        reduction_open(&want, top, with_target ? target : NULL);
        reduction_open(&got, top, with_target ? target : NULL);
        uint32_t first = random_below(3);
        kind v = (kind)(round % KINDS);
        for (size_t t = 0; t < 4; t++) {
            size_t classes = random_below(3) == 0 ? XSMI_CLASS_TILE : random_below(XSMI_CLASS_TILE);
            array_fill(&z, classes * XSMI_LANES, 0, v);
            for (size_t l = 0; l < XSMI_LANES; l++) {
                /* Some lanes see no finite score, for a tile or for ever; NaN without any number too. */
                if (l == 3 || (l == 5 && t < 2) || (l == 6 && t > 1) || l == 7) {
                    for (size_t c = 0; c < classes; c++) {
                        z.at[c * XSMI_LANES + l] = l == 7 && t == 1 && c % 9 == 1 ? NAN : -INFINITY;
                    }
                }
                /* Here the maximum is a zero, of either sign. */
                for (size_t c = 0; l == 9 && c < classes; c++) {
                    z.at[c * XSMI_LANES + l] = copysignf(0.0f, random_unit());
                }
            }
            ref->reduce_tile(z.at, classes, first, &want.r);
            k->reduce_tile(z.at, classes, first, &got.r);
            expect_reductions(&got, &want, classes);
            first += (uint32_t)classes;
        }
    }
    array_close(&z);
}

/* With few lanes in use, those are what they are with all in use. */
static void test_reduce_few(void **state)
{
    const xsmi_kernels *k = check_table(state);
    static reduction_arrays want;
    static reduction_arrays got;
    array z;
    array_open(&z, XSMI_CLASS_TILE * XSMI_LANES);
    static const uint32_t tops[] = {0, 1, 2, 5, 10, MOST_TOP};
    for (size_t round = 0; round < 400; round++) {
        uint32_t target[XSMI_LANES];
        for (size_t l = 0; l < XSMI_LANES; l++) {
            target[l] = random_below(5) == 0 ? XSMI_NO_CLASS : random_below(600);
        }
        uint32_t top = tops[random_below(6)];
        bool with_target = random_below(2) != 0;
        reduction_open(&want, top, with_target ? target : NULL);
        reduction_open(&got, top, with_target ? target : NULL);
        got.r.lanes = 1 + random_below(XSMI_FEW + 2);
        uint32_t first = random_below(3);
        kind v = (kind)(round % KINDS);
        for (size_t t = 0; t < 4; t++) {
            size_t classes = random_below(3) == 0 ? XSMI_CLASS_TILE : random_below(XSMI_CLASS_TILE);
            array_fill(&z, classes * XSMI_LANES, 0, v);
            /* A lane sees no finite score, for a tile or for ever, NaN now and then, or only zeros of either sign. */
            size_t l = round % XSMI_FEW;
            for (size_t c = 0; c < classes && round % 3 == 0; c++) {
                z.at[c * XSMI_LANES + l] = round % 2 && t == 1 && c % 9 == 1 ? NAN : -INFINITY;
            }
            for (size_t c = 0; c < classes && round % 3 == 1 && t < 2; c++) {
                z.at[c * XSMI_LANES + l] = round % 2 ? copysignf(0.0f, random_unit()) : -INFINITY;
            }
            ref->reduce_tile(z.at, classes, first, &want.r);
            k->reduce_tile(z.at, classes, first, &got.r);
            for (size_t i = 0; i < got.r.lanes; i++) {
                expect_floats(got.max + i, want.max + i, 1, "reduce_tile, few: max", classes);
                expect_floats(got.target_score + i, want.target_score + i, 1, "reduce_tile, few: target", classes);
                for (size_t j = 0; j < top; j++) {
                    size_t at = j * XSMI_LANES + i;
                    expect_floats(got.top_score + at, want.top_score + at, 1, "reduce_tile, few: top", classes);
                    assert_int_equal(got.top_class[at], want.top_class[at]);
                }
                if (!isnan(got.sum[i]) || !isnan(want.sum[i])) {
                    assert_memory_equal(got.sum + i, want.sum + i, sizeof(double));
                }
            }
            first += (uint32_t)classes;
        }
    }
    array_close(&z);
}

static void test_rank_update(void **state)
{
    const xsmi_kernels *k = check_table(state);
    enum { most_n = 70 };
    array x[most_n];
    const float *row[most_n];
    array g;
    array want, got;
    for (size_t i = 0; i < most_n; i++) {
        array_open(x + i, 600);
    }
    array_open(&g, most_n * 64);
    array_open(&want, 40 * 600);
    array_open(&got, 40 * 600);
    for (size_t classes = 0; classes < 33; classes++) {
        for (size_t d = 0; d < 600; d += d < 70 ? 1 : 103) {
            kind v = (kind)random_below(KINDS);
            size_t n = d == 64 ? most_n : random_below(5);
            size_t stride = d + random_below(20);
            size_t g_stride = classes + random_below(20);
            for (size_t i = 0; i < n; i++) {
                row[i] = array_fill(x + i, d, 0, v);
            }
            array_fill(&g, n == 0 ? 0 : (n - 1) * g_stride + classes, 0, v);
            array_fill(&want, classes == 0 ? 0 : (classes - 1) * stride + d, 0, v);
            array_copy(&got, &want);
            ref->rank_update(want.at, stride, classes, g.at, g_stride, row, n, d);
            k->rank_update(got.at, stride, classes, g.at, g_stride, row, n, d);
            expect_arrays(&got, &want, "rank_update", classes * 1000 + d);
        }
    }
    for (size_t i = 0; i < most_n; i++) {
        array_close(x + i);
    }
    array_close(&g);
    array_close(&want);
    array_close(&got);
}

static void test_rank_packed(void **state)
{
    const xsmi_kernels *k = check_table(state);
    enum { most_n = 70 };
    array x;
    array g;
    array want, got;
    array_open(&x, 19 * (most_n + 8) * XSMI_LANES);
    array_open(&g, most_n * 64);
    array_open(&want, 40 * 600);
    array_open(&got, 40 * 600);
    for (size_t classes = 0; classes < 33; classes++) {
        for (size_t d = 0; d < 600; d += d < 70 ? 1 : 103) {
            kind v = (kind)random_below(KINDS);
            size_t n = d == 64 ? most_n : random_below(5);
            size_t stride = d + random_below(20);
            size_t pitch = (n + random_below(8)) * XSMI_LANES, pieces = (d + XSMI_LANES - 1) / XSMI_LANES;
            /* The coefficients of a class together, or those of a term. */
            bool by_class = random_below(2);
            size_t g_stride = (by_class ? n : classes) + 1 + random_below(20);
            size_t lines = by_class ? classes : n, length = by_class ? n : classes;
            array_fill(&x, pieces * pitch, 0, v);
            array_fill(&g, lines == 0 ? 0 : (lines - 1) * g_stride + length, 0, v);
            array_fill(&want, classes == 0 ? 0 : (classes - 1) * stride + d, 0, v);
            array_copy(&got, &want);
            bool add = random_below(2);
            size_t by = by_class ? g_stride : 1, term = by_class ? 1 : g_stride;
            ref->rank_packed(add, want.at, stride, classes, g.at, by, term, x.at, pitch, n, d, NULL);
            k->rank_packed(add, got.at, stride, classes, g.at, by, term, x.at, pitch, n, d, NULL);
            expect_arrays(&got, &want, "rank_packed", classes * 1000 + d);
        }
    }
    array_close(&x);
    array_close(&g);
    array_close(&want);
    array_close(&got);
}

static void test_ties_keep_the_smaller_class_first(void **state)
{
    const xsmi_kernels *k = check_table(state);
    static reduction_arrays a;
    static float scores[8 * XSMI_LANES];
    static const float column[8] = {1, 3, 2, 3, 1, 3, 2, 3};
    for (size_t i = 0; i < 8 * XSMI_LANES; i++) {
        scores[i] = column[i / XSMI_LANES];
    }
    reduction_open(&a, 6, NULL);
    k->reduce_tile(scores, 8, 100, &a.r);
    k->reduce_tile(scores, 8, 108, &a.r);
    static const uint32_t classes[6] = {101, 103, 105, 107, 109, 111};
    for (size_t i = 0; i < 6 * XSMI_LANES; i++) {
        assert_int_equal(a.top_class[i], classes[i / XSMI_LANES]);
    }
}

/* Against its definition, place by place, with bars that few or many scores are above, NaN and infinities. */
static void test_sift_tile(void **state)
{
    const xsmi_kernels *k = check_table(state);
    static float scores[XSMI_CLASS_TILE * XSMI_LANES], bar[XSMI_LANES];
    static uint32_t found[XSMI_CLASS_TILE * XSMI_LANES + 1];
    for (size_t classes = 0; classes <= XSMI_CLASS_TILE; classes += classes < 9 || classes == 167 ? 1 : 53) {
        for (size_t n = 1; n <= XSMI_LANES; n++) {
            static const float odd[] = {NAN, INFINITY, -INFINITY, 0.5f};
            for (size_t i = 0; i < classes * XSMI_LANES; i++) {
                scores[i] = random_below(100) ? random_unit() : odd[random_below(4)];
            }
            for (size_t l = 0; l < XSMI_LANES; l++) {
                bar[l] = random_below(10) ? 0.5f + 0.5f * random_unit() : odd[1 + random_below(3)];
            }
            size_t count = k->sift_tile(scores, classes, bar, n, found), at = 0;
            for (size_t i = 0; i < classes * XSMI_LANES; i++) {
                if (i % XSMI_LANES < n && !(scores[i] <= bar[i % XSMI_LANES])) {
                    assert_true(at < count);
                    assert_int_equal(found[at++], i);
                }
            }
            assert_int_equal(at, count);
        }
    }
}

/* Against the scalar kernel, and that against its definition in double precision. */
static void test_score_quads(void **state)
{
    enum { BLOCKS = 3, QUADS_MOST = 40, LINE = XSMI_QUAD_ROWS };
    const xsmi_kernels *k = check_table(state);
    array rows, query, want, got;
    array_open(&rows, BLOCKS * (QUADS_MOST * 4 * LINE + 37));
    array_open(&query, QUADS_MOST * LINE);
    array_open(&want, BLOCKS * LINE);
    array_open(&got, BLOCKS * LINE);
    for (size_t quads = 1; quads <= QUADS_MOST; quads += quads < 9 ? 1 : 10) {
        for (size_t blocks = 0; blocks <= BLOCKS; blocks++) {
            const kind v = (kind)random_below(KINDS);
            const size_t block_stride = quads * 4 * LINE + random_below(38);
            array_fill(&rows, blocks ? (blocks - 1) * block_stride + quads * 4 * LINE : 0, 0, v);
            array_fill(&query, quads * LINE, 0, v);
            for (size_t i = 0; i < quads * LINE; i++) {
                query.at[i] = query.at[i / LINE * LINE + i % 4];
            }
            array_fill(&want, blocks * LINE, 0, PLAIN);
            array_copy(&got, &want);
            ref->score_quads(query.at, rows.at, block_stride, blocks, quads, want.at);
            k->score_quads(query.at, rows.at, block_stride, blocks, quads, got.at);
            expect_arrays(&got, &want, "score_quads", quads * 1000 + blocks);
            for (size_t i = 0; v == PLAIN && i < blocks * LINE; i++) {
                const float *row = rows.at + i / LINE * block_stride + xsmi_quad_offset(i % LINE, quads);
                double sum = 0, size = 0;
                for (size_t f = 0; f < 4 * quads; f++) {
                    double term = (double)row[f / 4 * LINE + f % 4] * (double)query.at[f / 4 * LINE + f % 4];
                    sum += term;
                    size += fabs(term);
                }
                assert_true(fabs(sum - (double)want.at[i]) <= 1e-6 * size + 1e-30);
            }
        }
    }
    array_close(&rows);
    array_close(&query);
    array_close(&want);
    array_close(&got);
}

const named_test tile_tests[] = {
    {"pack", test_pack},
    {"score_tile", test_score_tile},
    {"score_few", test_score_few},
    {"score_quads", test_score_quads},
    {"sift_tile", test_sift_tile},
    {"reduce_tile", test_reduce_tile},
    {"reduce_tile, few lanes", test_reduce_few},
    {"pack_rows", test_pack_rows},
    {"rank_update", test_rank_update},
    {"rank_packed", test_rank_packed},
    {"reduce_tile: ties", test_ties_keep_the_smaller_class_first},
    {NULL, NULL},
};
