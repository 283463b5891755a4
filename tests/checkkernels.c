/*
 * checkkernels: every kernel of every table against the scalar reference, bit for bit, and the reference against
 * double precision; `checkkernels --bench` measures them (checkkernels_bench.c).
 *
 * Two tricks catch stray accesses: each array ends at a page that may not be touched, so that reading or writing past
 * its end is a fault, and outputs are compared with 64 floats before them. NaNs compare equal whatever their bits.
 */
#include "checkkernels.h"

#include "kernels/arithmetic.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define GUARD 64 /* floats before an array */

static const size_t long_sizes[] = {300, 511, 512, 513, 1000, 4095, 4096, 4097, 8300};
#define SHORT_SIZES 258
#define SIZES (SHORT_SIZES + sizeof(long_sizes) / sizeof(long_sizes[0]))

static size_t size_at(size_t k)
{
    return k < SHORT_SIZES ? k : long_sizes[k - SHORT_SIZES];
}

/* -- random numbers and values ---------------------------------------------------------------------- */

static uint64_t random_state = 1;

/* Marsaglia's xorshift64* is plenty for test data. */
static uint32_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * 0x2545f4914f6cdd1dULL) >> 32);
}

static uint32_t random_below(uint32_t n)
{
    return random_bits() % n;
}

static float random_unit(void)
{
    return (float)(random_bits() >> 8) * 0x1p-23f - 1.0f;
}

typedef enum { PLAIN, COARSE, WIDE, SPECIAL, KINDS } kind;

/* COARSE has many equal values, WIDE reaches from subnormals to 1e4, SPECIAL sprinkles NaN and infinities. */
static float random_value(kind k)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 1e-40f, -1e-45f, 3e38f};
    switch (k) {
    case COARSE:
        return (float)((int)random_below(9) - 4) * 0.5f;
    case WIDE:
        return random_unit() * (random_below(4) == 0 ? 1e-39f : random_below(2) ? 1e4f : 50.0f);
    case SPECIAL:
        return random_below(40) == 0 ? special[random_below(8)] : random_unit();
    default:
        return random_unit();
    }
}

/* -- arrays with fences ------------------------------------------------------------------------------ */

typedef struct array {
    char *pages;
    size_t bytes; /* without the fence */
    float *at;    /* the floats in use: they end at the fence */
    size_t n;
} array;

static void array_open(array *a, size_t most)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    a->bytes = ((most + GUARD) * sizeof(float) + page - 1) / page * page;
    a->pages = mmap(NULL, a->bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(a->pages != MAP_FAILED);
    assert_int_equal(mprotect(a->pages + a->bytes, page, PROT_NONE), 0);
}

static void array_close(array *a)
{
    munmap(a->pages, a->bytes + (size_t)sysconf(_SC_PAGESIZE));
}

/* Places n floats at the fence, or `slack` floats before it, and fills them; the guard too. */
static float *array_fill(array *a, size_t n, size_t slack, kind k)
{
    assert_true((n + slack + GUARD) * sizeof(float) <= a->bytes);
    a->at = (float *)(void *)(a->pages + a->bytes) - slack - n;
    a->n = n + slack;
    for (size_t i = 0; i < n + slack + GUARD; ++i) {
        a->at[i - GUARD] = random_value(k);
    }
    return a->at;
}

static float *array_copy(array *a, const array *from)
{
    a->at = (float *)(void *)(a->pages + a->bytes) - from->n;
    a->n = from->n;
    memcpy(a->at - GUARD, from->at - GUARD, (a->n + GUARD) * sizeof(float));
    return a->at;
}

static void expect_floats(const float *got, const float *want, size_t n, const char *what, size_t size)
{
    if (n == 0 || memcmp(got, want, n * sizeof(float)) == 0) {
        return;
    }
    for (size_t i = 0; i < n; ++i) {
        bool both_nan = isnan(got[i]) && isnan(want[i]);
        if (!both_nan && memcmp(got + i, want + i, sizeof(float)) != 0) {
            fail_msg("%s, size %zu: place %zu of %zu is %a, not %a", what, size, i, n, (double)got[i], (double)want[i]);
        }
    }
}

/* The whole of two arrays, guards included. */
static void expect_arrays(const array *got, const array *want, const char *what, size_t size)
{
    expect_floats(got->at - GUARD, want->at - GUARD, want->n + GUARD, what, size);
}

static void expect_float(float got, float want, const char *what, size_t size)
{
    expect_floats(&got, &want, 1, what, size);
}

/* -- the tables -------------------------------------------------------------------------------------- */

const xsmi_kernels *const check_tables[] = {
    &xsmi_kernels_scalar,
#if defined(__x86_64__)
    &xsmi_kernels_avx2,
    &xsmi_kernels_avx512,
#elif defined(__aarch64__)
    &xsmi_kernels_neon,
#endif
    NULL,
};

bool check_available(const xsmi_kernels *k)
{
    uint32_t features = xsmi_cpu_features();
    if (strcmp(k->name, "avx2") == 0) {
        return (features & XSMI_CPU_AVX2) != 0;
    }
    if (strcmp(k->name, "avx512") == 0) {
        return (features & XSMI_CPU_AVX512) != 0;
    }
    return true;
}

static const xsmi_kernels *const ref = &xsmi_kernels_scalar;

/* The table under test; the test is skipped where the processor cannot run it. */
static const xsmi_kernels *table(void **state)
{
    const xsmi_kernels *k = *state;
    if (!check_available(k)) {
        print_message("skipped: this processor or its system lacks %s\n", k->name);
        skip();
    }
    random_state = 1;
    return k;
}

/* -- rows -------------------------------------------------------------------------------------------- */

static void test_dot(void **state)
{
    const xsmi_kernels *k = table(state);
    array a;
    array b;
    array_open(&a, 10000);
    array_open(&b, 10000);
    for (size_t s = 0; s < SIZES; ++s) {
        size_t n = size_at(s);
        for (kind v = 0; v < KINDS; ++v) {
            array_fill(&a, n, 0, v);
            array_fill(&b, n, random_below(17), v);
            expect_float(k->dot(a.at, b.at, n), ref->dot(a.at, b.at, n), "dot", n);
        }
    }
    /* A partial sum may be -0, by underflow, and has to stay so beside the unused lanes of the end. */
    for (size_t n = 1; n < 80; ++n) {
        array_fill(&a, n, 0, PLAIN);
        array_fill(&b, n, 0, PLAIN);
        for (size_t i = 0; i < n; ++i) {
            a.at[i] = -1e-40f;
            b.at[i] = 1e-40f;
        }
        expect_float(k->dot(a.at, b.at, n), ref->dot(a.at, b.at, n), "dot of underflows", n);
    }
    array_close(&a);
    array_close(&b);
}

static void test_axpby_scale(void **state)
{
    const xsmi_kernels *k = table(state);
    array x;
    array want;
    array got;
    array_open(&x, 10000);
    array_open(&want, 10000);
    array_open(&got, 10000);
    for (size_t s = 0; s < SIZES; ++s) {
        size_t n = size_at(s);
        for (kind v = 0; v < KINDS; ++v) {
            float a = random_value(v);
            float b = random_below(3) == 0 ? 1.0f : random_value(v);
            array_fill(&x, n, random_below(17), v);
            array_fill(&want, n, random_below(2) * random_below(17), v);
            array_copy(&got, &want);
            ref->axpby(want.at, x.at, n, a, b);
            k->axpby(got.at, x.at, n, a, b);
            expect_arrays(&got, &want, "axpby", n);
            ref->scale(want.at, n, a);
            k->scale(got.at, n, a);
            expect_arrays(&got, &want, "scale", n);
        }
    }
    array_close(&x);
    array_close(&want);
    array_close(&got);
}

#define ROWS_IN_W 9

static void test_gather_scatter(void **state)
{
    const xsmi_kernels *k = table(state);
    array x;
    array want;
    array got;
    array_open(&x, 10000);
    array_open(&want, ROWS_IN_W * 9000);
    array_open(&got, ROWS_IN_W * 9000);
    for (size_t s = 0; s < SIZES; ++s) {
        size_t d = size_at(s);
        for (kind v = 0; v < KINDS; ++v) {
            size_t stride = d + random_below(20);
            uint32_t rows[40];
            float a[40];
            float b[40];
            float want_out[41];
            float got_out[41];
            size_t m = d == 512 ? 33 : random_below(12);
            for (size_t j = 0; j < m; ++j) {
                rows[j] = random_below(ROWS_IN_W);
                a[j] = random_value(v);
                b[j] = random_value(v);
            }
            array_fill(&x, d, 0, v);
            array_fill(&want, (ROWS_IN_W - 1) * stride + d, 0, v);
            array_copy(&got, &want);
            want_out[m] = got_out[m] = 42.0f;
            ref->gather_scores(want.at, stride, rows, m, x.at, d, want_out);
            k->gather_scores(want.at, stride, rows, m, x.at, d, got_out);
            expect_floats(got_out, want_out, m + 1, "gather_scores", d);
            const float *factor = random_below(2) ? b : NULL;
            ref->scatter_update(want.at, stride, rows, m, x.at, d, a, factor);
            k->scatter_update(got.at, stride, rows, m, x.at, d, a, factor);
            expect_arrays(&got, &want, "scatter_update", d);
        }
    }
    array_close(&x);
    array_close(&want);
    array_close(&got);
}

static void test_sparse(void **state)
{
    const xsmi_kernels *k = table(state);
    array value;
    array places;
    array want;
    array got;
    array_open(&value, 10000);
    array_open(&places, 10000);
    array_open(&want, ROWS_IN_W * 30000);
    array_open(&got, ROWS_IN_W * 30000);
    for (size_t s = 0; s < SIZES; ++s) {
        size_t nnz = size_at(s);
        for (kind v = 0; v < KINDS; ++v) {
            array_fill(&value, nnz, 0, v);
            uint32_t *index = (uint32_t *)(void *)array_fill(&places, nnz, 0, PLAIN);
            uint32_t d = 0;
            for (size_t i = 0; i < nnz; ++i) {
                index[i] = d + random_below(3);
                d = index[i] + 1; /* the last index is the row's last place, at the fence */
            }
            size_t stride = d + random_below(20);
            size_t m = nnz == 512 ? 33 : random_below(12);
            uint32_t rows[40];
            float a[40];
            float want_out[41];
            float got_out[41];
            for (size_t j = 0; j < m; ++j) {
                rows[j] = random_below(ROWS_IN_W);
                a[j] = random_value(v);
            }
            array_fill(&want, (ROWS_IN_W - 1) * stride + d, 0, v);
            array_copy(&got, &want);
            want_out[m] = got_out[m] = 42.0f;
            ref->sparse_gather_scores(want.at, stride, rows, m, index, value.at, nnz, want_out);
            k->sparse_gather_scores(want.at, stride, rows, m, index, value.at, nnz, got_out);
            expect_floats(got_out, want_out, m + 1, "sparse_gather_scores", nnz);
            ref->sparse_scatter_update(want.at, stride, rows, m, index, value.at, nnz, a);
            k->sparse_scatter_update(got.at, stride, rows, m, index, value.at, nnz, a);
            expect_arrays(&got, &want, "sparse_scatter_update", nnz);
        }
    }
    array_close(&value);
    array_close(&places);
    array_close(&want);
    array_close(&got);
}

/* Indexes over the whole of uint32_t; a gather instruction takes signed ones. */
static void test_sparse_far(void **state)
{
    const xsmi_kernels *k = table(state);
    enum { nnz = 48 };
    size_t bytes = ((size_t)1 << 32) * sizeof(float);
    float *w = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (w == MAP_FAILED) {
        print_message("skipped: no 16 GiB of addresses\n");
        skip();
    }
    uint32_t index[nnz];
    float value[nnz];
    for (uint32_t i = 0; i < nnz; ++i) {
        index[i] = UINT32_MAX - (nnz - 1 - i) * (UINT32_MAX / nnz);
        value[i] = random_unit();
        w[index[i]] = random_unit();
    }
    const uint32_t rows[4] = {0, 0, 0, 0};
    const float a[4] = {0.5f, 0.25f, -3.0f, 1.0f};
    float want[4];
    float got[4];
    ref->sparse_gather_scores(w, 0, rows, 4, index, value, nnz, want);
    k->sparse_gather_scores(w, 0, rows, 4, index, value, nnz, got);
    expect_floats(got, want, 4, "sparse_gather_scores, far", nnz);
    float expected[nnz];
    for (size_t i = 0; i < nnz; ++i) {
        expected[i] = w[index[i]];
        for (size_t j = 0; j < 4; ++j) {
            expected[i] = fmaf(a[j], value[i], expected[i]);
        }
    }
    k->sparse_scatter_update(w, 0, rows, 4, index, value, nnz, a);
    for (size_t i = 0; i < nnz; ++i) {
        expect_float(w[index[i]], expected[i], "sparse_scatter_update, far", i);
    }
    munmap(w, bytes);
}

static void test_row_reductions(void **state)
{
    const xsmi_kernels *k = table(state);
    array z;
    array want;
    array got;
    array_open(&z, 10000);
    array_open(&want, 10000);
    array_open(&got, 10000);
    for (size_t s = 0; s < SIZES; ++s) {
        size_t n = size_at(s);
        for (kind v = 0; v < KINDS; ++v) {
            array_fill(&z, n, 0, v);
            float max = ref->row_max(z.at, n);
            expect_float(k->row_max(z.at, n), max, "row_max", n);
            double want_sum = ref->row_sum_exp(z.at, n, max);
            double got_sum = k->row_sum_exp(z.at, n, max);
            assert_true(memcmp(&want_sum, &got_sum, sizeof(double)) == 0 || (isnan(want_sum) && isnan(got_sum)));
            float factor = random_unit();
            array_fill(&want, n, random_below(17), PLAIN);
            array_copy(&got, &want);
            ref->row_softmax(z.at, n, max, factor, want.at);
            k->row_softmax(z.at, n, max, factor, got.at);
            expect_arrays(&got, &want, "row_softmax", n);
            /* Clamped above the shift, and in place. */
            ref->row_softmax(want.at, n, 0.1f, factor, want.at);
            k->row_softmax(got.at, n, 0.1f, factor, got.at);
            expect_arrays(&got, &want, "row_softmax in place", n);
        }
    }
    /* The sign of a zero maximum does not depend on the order of the comparisons. */
    for (size_t n = 1; n < 300; ++n) {
        array_fill(&z, n, 0, PLAIN);
        for (size_t i = 0; i < n; ++i) {
            z.at[i] = copysignf(0.0f, random_unit());
        }
        expect_float(k->row_max(z.at, n), 0.0f, "row_max of zeros", n);
    }
    array_fill(&z, 1000, 0, PLAIN);
    for (size_t n = 1; n < 1000; ++n) {
        size_t at = random_below((uint32_t)n);
        float value = z.at[at];
        z.at[at] = NAN;
        assert_true(isnan(k->row_max(z.at, n)));
        z.at[at] = 2.0f;
        assert_true(k->row_max(z.at, n) == 2.0f);
        z.at[at] = value;
    }
    array_close(&z);
    array_close(&want);
    array_close(&got);
}

/* -- tiles ------------------------------------------------------------------------------------------- */

static void test_pack(void **state)
{
    const xsmi_kernels *k = table(state);
    array x[XSMI_LANES];
    const float *row[XSMI_LANES];
    array want;
    array got;
    for (size_t l = 0; l < XSMI_LANES; ++l) {
        array_open(x + l, 600);
    }
    array_open(&want, 600 * XSMI_LANES);
    array_open(&got, 600 * XSMI_LANES);
    for (size_t n = 0; n <= XSMI_LANES; ++n) {
        for (size_t d = 0; d < 530; d += d < 40 ? 1 : 163) {
            for (size_t l = 0; l < n; ++l) {
                row[l] = array_fill(x + l, d, 0, SPECIAL);
            }
            array_fill(&want, d * XSMI_LANES, 0, PLAIN);
            array_copy(&got, &want);
            ref->pack(row, n, d, want.at);
            k->pack(row, n, d, got.at);
            expect_arrays(&got, &want, "pack", d);
        }
    }
    for (size_t l = 0; l < XSMI_LANES; ++l) {
        array_close(x + l);
    }
    array_close(&want);
    array_close(&got);
}

static void test_score_tile(void **state)
{
    const xsmi_kernels *k = table(state);
    array w;
    array packed;
    array terms;
    array want;
    array got;
    array_open(&w, XSMI_CLASS_TILE * 600);
    array_open(&packed, 600 * XSMI_LANES);
    array_open(&terms, 2 * XSMI_CLASS_TILE);
    array_open(&want, XSMI_CLASS_TILE * XSMI_LANES);
    array_open(&got, XSMI_CLASS_TILE * XSMI_LANES);
    for (size_t classes = 0; classes <= XSMI_CLASS_TILE; classes += classes < 31 || classes == 167 ? 1 : 34) {
        static const size_t dims[] = {0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 257, 512};
        for (size_t s = 0; s < sizeof(dims) / sizeof(dims[0]); ++s) {
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
        }
    }
    array_close(&w);
    array_close(&packed);
    array_close(&terms);
    array_close(&want);
    array_close(&got);
}

#define MOST_TOP 33

typedef struct reduction_arrays {
    xsmi_reduction r;
    float max[XSMI_LANES];
    double sum[XSMI_LANES];
    float top_score[(MOST_TOP + 1) * XSMI_LANES];
    uint32_t top_class[(MOST_TOP + 1) * XSMI_LANES];
    float target_score[XSMI_LANES];
} reduction_arrays;

static void reduction_open(reduction_arrays *a, uint32_t top, const uint32_t *target)
{
    memset(a, 0x5a, sizeof(*a));
    a->r = (xsmi_reduction){.max = a->max,
                            .sum = a->sum,
                            .top = top,
                            .top_score = a->top_score,
                            .top_class = a->top_class,
                            .target = target,
                            .target_score = a->target_score};
    xsmi_reduction_start(&a->r);
}

static void expect_reductions(const reduction_arrays *got, const reduction_arrays *want, size_t size)
{
    expect_floats(got->max, want->max, XSMI_LANES, "reduce_tile: max", size);
    expect_floats(got->top_score, want->top_score, (MOST_TOP + 1) * XSMI_LANES, "reduce_tile: top", size);
    expect_floats(got->target_score, want->target_score, XSMI_LANES, "reduce_tile: target", size);
    assert_memory_equal(got->top_class, want->top_class, sizeof(want->top_class));
    for (size_t l = 0; l < XSMI_LANES; ++l) {
        if (!isnan(got->sum[l]) || !isnan(want->sum[l])) {
            assert_memory_equal(got->sum + l, want->sum + l, sizeof(double));
        }
    }
}

static void test_reduce_tile(void **state)
{
    const xsmi_kernels *k = table(state);
    static reduction_arrays want;
    static reduction_arrays got;
    array z;
    array_open(&z, XSMI_CLASS_TILE * XSMI_LANES);
    static const uint32_t tops[] = {0, 1, 2, 5, 10, MOST_TOP};
    for (size_t round = 0; round < 300; ++round) {
        uint32_t target[XSMI_LANES];
        for (size_t l = 0; l < XSMI_LANES; ++l) {
            target[l] = random_below(5) == 0 ? XSMI_NO_CLASS : random_below(600);
        }
        uint32_t top = tops[random_below(6)];
        bool with_target = random_below(2) != 0;
        reduction_open(&want, top, with_target ? target : NULL);
        reduction_open(&got, top, with_target ? target : NULL);
        uint32_t first = random_below(3);
        kind v = (kind)(round % KINDS);
        for (size_t t = 0; t < 4; ++t) {
            size_t classes = random_below(3) == 0 ? XSMI_CLASS_TILE : random_below(XSMI_CLASS_TILE);
            array_fill(&z, classes * XSMI_LANES, 0, v);
            for (size_t l = 0; l < XSMI_LANES; ++l) {
                /* Some lanes see no finite score, for a tile or for ever; NaN without any number too. */
                if (l == 3 || (l == 5 && t < 2) || (l == 6 && t > 1) || l == 7) {
                    for (size_t c = 0; c < classes; ++c) {
                        z.at[c * XSMI_LANES + l] = l == 7 && t == 1 && c % 9 == 1 ? NAN : -INFINITY;
                    }
                }
                /* Here the maximum is a zero, of either sign. */
                for (size_t c = 0; l == 9 && c < classes; ++c) {
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

static void test_rank_update(void **state)
{
    const xsmi_kernels *k = table(state);
    enum { most_n = 70 };
    array x[most_n];
    const float *row[most_n];
    array g;
    array want;
    array got;
    for (size_t i = 0; i < most_n; ++i) {
        array_open(x + i, 600);
    }
    array_open(&g, most_n * 64);
    array_open(&want, 40 * 600);
    array_open(&got, 40 * 600);
    for (size_t classes = 0; classes < 33; ++classes) {
        for (size_t d = 0; d < 600; d += d < 70 ? 1 : 103) {
            kind v = (kind)random_below(KINDS);
            size_t n = d == 64 ? most_n : random_below(5);
            size_t stride = d + random_below(20);
            size_t g_stride = classes + random_below(20);
            for (size_t i = 0; i < n; ++i) {
                row[i] = array_fill(x + i, d, 0, v);
            }
            array_fill(&g, n == 0 ? 0 : (n - 1) * g_stride + classes, 0, v);
            array_fill(&want, classes == 0 ? 0 : (classes - 1) * stride + d, 0, v);
            array_copy(&got, &want);
            float decay = random_below(2) ? 1.0f : random_unit();
            ref->rank_update(want.at, stride, classes, g.at, g_stride, row, n, d, decay);
            k->rank_update(got.at, stride, classes, g.at, g_stride, row, n, d, decay);
            expect_arrays(&got, &want, "rank_update", classes * 1000 + d);
        }
    }
    for (size_t i = 0; i < most_n; ++i) {
        array_close(x + i);
    }
    array_close(&g);
    array_close(&want);
    array_close(&got);
}

/* -- the reference against double precision ------------------------------------------------------------ */

static const double half_ulp = 0x1p-24;

static void test_reference_exp(void **state)
{
    (void)state;
    /* Every 61st float of [-87, -2^-40], through row_softmax with shift 0 and factor 1. */
    uint32_t least;
    uint32_t most;
    const float ends[2] = {-0x1p-40f, -87.0f};
    memcpy(&least, ends, sizeof(least));
    memcpy(&most, ends + 1, sizeof(most));
    double worst = 0.0;
    for (uint32_t bits = least; bits <= most; bits += 61) {
        float x;
        float y;
        memcpy(&x, &bits, sizeof(x));
        ref->row_softmax(&x, 1, 0.0f, 1.0f, &y);
        double exact = exp((double)x);
        int exponent;
        (void)frexp(exact, &exponent);
        double ulps = fabs((double)y - exact) / ldexp(1.0, exponent - 24);
        worst = ulps > worst ? ulps : worst;
    }
    print_message("exp: at most %.3f ulp\n", worst);
    assert_true(worst <= 2.0);
    const float points[] = {0.0f, -0.0f, -87.00001f, -1e4f, -3e38f, -INFINITY, NAN, 0.5f, -1e-45f};
    float out[9];
    ref->row_softmax(points, 9, 0.0f, 1.0f, out);
    assert_true(out[0] == 1.0f && out[1] == 1.0f && out[7] == 1.0f && out[8] == 1.0f);
    assert_true(out[2] == 0.0f && out[3] == 0.0f && out[4] == 0.0f && out[5] == 0.0f);
    assert_true(isnan(out[6]));
}

static void test_reference_sums(void **state)
{
    (void)state;
    static float a[8300];
    static float b[8300];
    for (size_t s = 0; s < SIZES; ++s) {
        size_t n = size_at(s);
        double exact = 0.0;
        double size = 0.0;
        double exps = 0.0;
        for (size_t i = 0; i < n; ++i) {
            a[i] = random_unit() * 20.0f;
            b[i] = random_unit();
            exact += (double)a[i] * (double)b[i];
            size += fabs((double)a[i] * (double)b[i]);
            exps += exp((double)a[i]);
        }
        /* One rounding a term of a partial sum, six where they join. */
        double roundings = (double)(n / XSMI_PARTIALS + 1 + 6);
        assert_true(fabs((double)ref->dot(a, b, n) - exact) <= roundings * half_ulp * size);
        float max = ref->row_max(a, n);
        if (n > 0) {
            double lse = (double)max + log(ref->row_sum_exp(a, n, max));
            assert_true(fabs(lse - log(exps)) < 2e-6);
        }
    }
}

static void test_reference_tiles(void **state)
{
    (void)state;
    enum { classes = XSMI_CLASS_TILE, tiles = 3, d = 40, top = 5 };
    static float w[classes * tiles * d];
    static float bias[classes * tiles];
    static float x[XSMI_LANES * d];
    static float packed[XSMI_LANES * d];
    static float scores[classes * XSMI_LANES];
    static double exact[classes * tiles];
    static reduction_arrays a;
    const float *rows[XSMI_LANES];
    uint32_t target[XSMI_LANES];
    random_state = 1;
    for (size_t i = 0; i < sizeof(w) / sizeof(w[0]); ++i) {
        w[i] = random_unit();
    }
    for (size_t c = 0; c < sizeof(bias) / sizeof(bias[0]); ++c) {
        bias[c] = random_unit();
    }
    for (size_t l = 0; l < XSMI_LANES; ++l) {
        rows[l] = x + l * d;
        target[l] = random_below(classes * tiles);
        for (size_t i = 0; i < d; ++i) {
            x[l * d + i] = random_unit() * 3.0f;
        }
    }
    reduction_open(&a, top, target);
    ref->pack(rows, XSMI_LANES, d, packed);
    for (uint32_t t = 0; t < tiles; ++t) {
        ref->score_tile(w + t * classes * d, d, classes, packed, d, 0.5f, NULL, bias + t * classes, scores);
        ref->reduce_tile(scores, classes, t * classes, &a.r);
    }
    for (size_t l = 0; l < XSMI_LANES; ++l) {
        double sum = 0.0;
        for (size_t c = 0; c < classes * tiles; ++c) {
            exact[c] = 0.0;
            for (size_t i = 0; i < d; ++i) {
                exact[c] += (double)w[c * d + i] * (double)x[l * d + i];
            }
            exact[c] = 0.5 * exact[c] + (double)bias[c];
            sum += exp(exact[c]);
        }
        assert_true(fabs((double)a.max[l] + log(a.sum[l]) - log(sum)) < 1e-5);
        assert_true(fabs((double)a.target_score[l] - exact[target[l]]) < 1e-4);
        for (size_t k = 0; k < top; ++k) {
            /* The scores of random classes are far enough apart for float to keep their order. */
            size_t best = 0;
            for (size_t c = 1; c < classes * tiles; ++c) {
                best = exact[c] > exact[best] ? c : best;
            }
            assert_true(fabs(exact[best] - exact[a.top_class[k * XSMI_LANES + l]]) < 1e-4);
            assert_true(fabs(exact[best] - (double)a.top_score[k * XSMI_LANES + l]) < 1e-4);
            exact[a.top_class[k * XSMI_LANES + l]] = -INFINITY;
        }
    }
}

static void test_ties_keep_the_smaller_class_first(void **state)
{
    const xsmi_kernels *k = table(state);
    static reduction_arrays a;
    static float scores[8 * XSMI_LANES];
    static const float column[8] = {1, 3, 2, 3, 1, 3, 2, 3};
    for (size_t i = 0; i < 8 * XSMI_LANES; ++i) {
        scores[i] = column[i / XSMI_LANES];
    }
    reduction_open(&a, 6, NULL);
    k->reduce_tile(scores, 8, 100, &a.r);
    k->reduce_tile(scores, 8, 108, &a.r);
    static const uint32_t classes[6] = {101, 103, 105, 107, 109, 111};
    for (size_t i = 0; i < 6 * XSMI_LANES; ++i) {
        assert_int_equal(a.top_class[i], classes[i / XSMI_LANES]);
    }
}

static void test_select(void **state)
{
    (void)state;
    assert_ptr_equal(xsmi_kernels_select(~0u), &xsmi_kernels_scalar);
    assert_true(check_available(xsmi_kernels_select(0)));
    uint32_t features = xsmi_cpu_features();
#if defined(__x86_64__)
    if (features & XSMI_CPU_AVX512) {
        assert_ptr_equal(xsmi_kernels_select(0), &xsmi_kernels_avx512);
    }
    if (features & XSMI_CPU_AVX2) {
        assert_ptr_equal(xsmi_kernels_select(XSMI_CPU_AVX512), &xsmi_kernels_avx2);
    }
#elif defined(__aarch64__)
    assert_int_equal(features, XSMI_CPU_NEON);
    assert_ptr_equal(xsmi_kernels_select(0), &xsmi_kernels_neon);
#endif
    (void)features;
}

/* -- main -------------------------------------------------------------------------------------------- */

typedef struct named_test {
    const char *name;
    CMUnitTestFunction run;
} named_test;

static const named_test table_tests[] = {
    {"dot", test_dot},
    {"axpby, scale", test_axpby_scale},
    {"gather_scores, scatter_update", test_gather_scatter},
    {"sparse_gather_scores, sparse_scatter_update", test_sparse},
    {"sparse kernels with far indexes", test_sparse_far},
    {"row_max, row_sum_exp, row_softmax", test_row_reductions},
    {"pack", test_pack},
    {"score_tile", test_score_tile},
    {"reduce_tile", test_reduce_tile},
    {"reduce_tile: ties", test_ties_keep_the_smaller_class_first},
    {"rank_update", test_rank_update},
};

static const named_test reference_tests[] = {
    {"reference: exp", test_reference_exp},
    {"reference: sums", test_reference_sums},
    {"reference: tiles", test_reference_tiles},
    {"select", test_select},
};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--bench") == 0) {
        return check_bench();
    }
    if (argc != 1) {
        fprintf(stderr, "usage: %s [--bench]\n", argv[0]);
        return 2;
    }
    enum {
        tables = sizeof(check_tables) / sizeof(check_tables[0]) - 1,
        tests_a_table = sizeof(table_tests) / sizeof(table_tests[0]),
        tests_of_reference = sizeof(reference_tests) / sizeof(reference_tests[0]),
    };
    struct CMUnitTest tests[tests_of_reference + tables * tests_a_table];
    char names[tables * tests_a_table][80];
    memset(tests, 0, sizeof(tests));
    for (size_t t = 0; t < tests_of_reference; ++t) {
        tests[t].name = reference_tests[t].name;
        tests[t].test_func = reference_tests[t].run;
    }
    for (size_t n = 0; n < (size_t)tables * tests_a_table; ++n) {
        const xsmi_kernels *k = check_tables[n / tests_a_table];
        const named_test *test = table_tests + n % tests_a_table;
        snprintf(names[n], sizeof(names[n]), "%s: %s", k->name, test->name);
        tests[tests_of_reference + n].name = names[n];
        tests[tests_of_reference + n].test_func = test->run;
        tests[tests_of_reference + n].initial_state = (void *)(uintptr_t)k;
    }
    return cmocka_run_group_tests_name("checkkernels", tests, NULL, NULL);
}
