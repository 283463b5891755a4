/*
 * checkkernels: the kernels on rows.
 */
#include "checkkernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

static const xsmi_kernels *const ref = &xsmi_kernels_scalar;

static void test_dot(void **state)
{
    const xsmi_kernels *k = check_table(state);
    array a;
    array b;
    array_open(&a, 10000);
    array_open(&b, 10000);
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = size_at(s);
        for (kind v = 0; v < KINDS; v++) {
            array_fill(&a, n, 0, v);
            array_fill(&b, n, random_below(17), v);
            expect_float(k->dot(a.at, b.at, n), ref->dot(a.at, b.at, n), "dot", n);
        }
    }
    /* A partial sum may be -0, by underflow, and has to stay so beside the unused lanes of the end. */
    for (size_t n = 1; n < 80; n++) {
        array_fill(&a, n, 0, PLAIN);
        array_fill(&b, n, 0, PLAIN);
        for (size_t i = 0; i < n; i++) {
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
    const xsmi_kernels *k = check_table(state);
    array x;
    array want;
    array got;
    array_open(&x, 10000);
    array_open(&want, 10000);
    array_open(&got, 10000);
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = size_at(s);
        for (kind v = 0; v < KINDS; v++) {
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
    const xsmi_kernels *k = check_table(state);
    array x;
    array want;
    array got;
    array_open(&x, 10000);
    array_open(&want, ROWS_IN_W * 9000);
    array_open(&got, ROWS_IN_W * 9000);
    for (size_t s = 0; s < SIZES; s++) {
        size_t d = size_at(s);
        for (kind v = 0; v < KINDS; v++) {
            size_t stride = d + random_below(20);
            uint32_t rows[40];
            float a[40];
            float b[40];
            float want_out[41];
            float got_out[41];
            size_t m = d == 512 ? 33 : random_below(12);
            for (size_t j = 0; j < 40; j++) {
                rows[j] = random_below(ROWS_IN_W);
            }
            for (size_t j = 0; j < m; j++) {
                a[j] = random_value(v);
                b[j] = random_value(v);
            }
            array_fill(&x, d, 0, v);
            array_fill(&want, (ROWS_IN_W - 1) * stride + d, 0, v);
            array_copy(&got, &want);
            want_out[m] = got_out[m] = 42.0f;
            xsmi_upcoming upcoming = {rows + random_below(4), 0, x.at,
                                      XSMI_PARTIALS * random_below(5)}; /* of them fewer than there are rows, or more */
            upcoming.count = random_below(d == 512 ? 30 : 20);
            ref->gather_scores(want.at, stride, rows, m, x.at, d, want_out, NULL);
            k->gather_scores(want.at, stride, rows, m, x.at, d, got_out, random_below(2) ? &upcoming : NULL);
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
    const xsmi_kernels *k = check_table(state);
    array value;
    array places;
    array want;
    array got;
    array_open(&value, 10000);
    array_open(&places, 10000);
    array_open(&want, ROWS_IN_W * 30000);
    array_open(&got, ROWS_IN_W * 30000);
    for (size_t s = 0; s < SIZES; s++) {
        size_t nnz = size_at(s);
        for (kind v = 0; v < KINDS; v++) {
            array_fill(&value, nnz, 0, v);
            uint32_t *index = (uint32_t *)(void *)array_fill(&places, nnz, 0, PLAIN);
            uint32_t d = 0;
            for (size_t i = 0; i < nnz; i++) {
                index[i] = d + random_below(3);
                d = index[i] + 1; /* the last index is the row's last place, at the fence */
            }
            size_t stride = d + random_below(20);
            size_t m = nnz == 512 ? 33 : random_below(12);
            uint32_t rows[40];
            float a[40];
            float want_out[41];
            float got_out[41];
            for (size_t j = 0; j < m; j++) {
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

/* Columns of a matrix whose rows are features: with and without an index list, columns up to the fence. */
static void test_columns(void **state)
{
    const xsmi_kernels *k = check_table(state);
    enum { FEATURES = 12 };
    array value;
    array g;
    array want;
    array got;
    array_open(&value, FEATURES);
    array_open(&g, 10000);
    array_open(&want, FEATURES * 10020);
    array_open(&got, FEATURES * 10020);
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = size_at(s);
        for (kind v = 0; v < KINDS; v++) {
            const uint32_t chosen[] = {1, 2, 5, 6, 11};
            bool listed = random_below(3) > 0;
            const uint32_t *index = listed ? chosen : NULL;
            size_t nnz = random_below(listed ? 6 : FEATURES + 1);
            size_t stride = n + random_below(20);
            float a = random_value(v);
            array_fill(&value, nnz, 0, v);
            array_fill(&g, n, 0, v);
            array_fill(&want, (FEATURES - 1) * stride + n, 0, v);
            array_copy(&got, &want);
            ref->column_update(want.at, stride, index, value.at, nnz, n, g.at, a);
            k->column_update(got.at, stride, index, value.at, nnz, n, g.at, a);
            expect_arrays(&got, &want, "column_update", n);
            array_fill(&got, n, 0, v);
            array_copy(&g, &got);
            ref->column_sums(want.at, stride, index, value.at, nnz, n, g.at);
            k->column_sums(want.at, stride, index, value.at, nnz, n, got.at);
            expect_arrays(&got, &g, "column_sums", n);
        }
    }
    array_close(&value);
    array_close(&g);
    array_close(&want);
    array_close(&got);
}

/* Indexes over the whole of uint32_t; a gather instruction takes signed ones. */
static void test_sparse_far(void **state)
{
    const xsmi_kernels *k = check_table(state);
    enum { nnz = 48 };
    uint64_t all = ((uint64_t)1 << 32) * sizeof(float);
    size_t bytes = all <= SIZE_MAX ? (size_t)all : 0;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    float *w = bytes == 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (w == MAP_FAILED) {
        print_message("skipped: no 16 GiB of addresses\n");
        skip();
    }
    uint32_t index[nnz];
    float value[nnz];
    for (uint32_t i = 0; i < nnz; i++) {
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
    for (size_t i = 0; i < nnz; i++) {
        expected[i] = w[index[i]];
        for (size_t j = 0; j < 4; j++) {
            expected[i] = fmaf(a[j], value[i], expected[i]);
        }
    }
    k->sparse_scatter_update(w, 0, rows, 4, index, value, nnz, a);
    for (size_t i = 0; i < nnz; i++) {
        expect_float(w[index[i]], expected[i], "sparse_scatter_update, far", i);
    }
    munmap(w, bytes);
}

static void test_adagrad(void **state)
{
    const xsmi_kernels *k = check_table(state);
    array x;
    array want[2];
    array got[2];
    uint32_t index[9000];
    array_open(&x, 10000);
    for (int i = 0; i < 2; i++) {
        array_open(&want[i], 20000);
        array_open(&got[i], 20000);
    }
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = size_at(s);
        for (kind v = 0; v < KINDS; v++) {
            float a = random_value(v);
            float eta = random_value(PLAIN), b = (float)(1 + random_below(300));
            array_fill(&x, n, random_below(17), v);
            for (int i = 0; i < 2; i++) {
                array_fill(&want[i], 2 * n, random_below(2) * random_below(17), i ? PLAIN : v);
            }
            for (size_t j = 0; j < 2 * n; j++) {
                want[1].at[j] = fabsf(want[1].at[j]) + 1e-6f; /* sums of squares */
            }
            for (size_t j = 0; j < n; j++) {
                index[j] = (uint32_t)(2 * j + random_below(2));
            }
            array_copy(&got[0], &want[0]);
            array_copy(&got[1], &want[1]);
            ref->adagrad(want[0].at, want[1].at, x.at, n, a, b, eta);
            k->adagrad(got[0].at, got[1].at, x.at, n, a, b, eta);
            ref->sparse_adagrad(want[0].at, want[1].at, index, x.at, n, a, b, eta);
            k->sparse_adagrad(got[0].at, got[1].at, index, x.at, n, a, b, eta);
            expect_arrays(&got[0], &want[0], "adagrad, weights", n);
            expect_arrays(&got[1], &want[1], "adagrad, sums", n);
        }
    }
    array_close(&x);
    for (int i = 0; i < 2; i++) {
        array_close(&want[i]);
        array_close(&got[i]);
    }
}

static void test_log_branches(void **state)
{
    const xsmi_kernels *k = check_table(state);
    array scores;
    array parents;
    array want;
    array got;
    array_open(&scores, 10 * XSMI_LANES);
    array_open(&parents, 10 * XSMI_LANES);
    array_open(&want, 20 * XSMI_LANES);
    array_open(&got, 20 * XSMI_LANES);
    for (size_t nodes = 0; nodes <= 10; nodes++) {
        for (kind v = 0; v < SPECIAL; v++) {
            array_fill(&scores, nodes * XSMI_LANES, 0, v);
            array_fill(&parents, nodes * XSMI_LANES, random_below(17), PLAIN);
            if (nodes > 0) {
                scores.at[0] = 0.0f;
                scores.at[1] = -1e4f;
                scores.at[2] = 1e4f;
            }
            array_fill(&want, 2 * nodes * XSMI_LANES, random_below(17), PLAIN);
            array_copy(&got, &want);
            ref->log_branches(scores.at, parents.at, nodes, want.at);
            k->log_branches(scores.at, parents.at, nodes, got.at);
            expect_arrays(&got, &want, "log_branches", nodes);
            for (size_t i = 0; i < nodes * XSMI_LANES; i++) {
                double s = (double)scores.at[i];
                double parent = (double)parents.at[i];
                double right = (s < 0.0 ? s : 0.0) - log1p(exp(-fabs(s)));
                size_t place = i / XSMI_LANES * 2 * XSMI_LANES + i % XSMI_LANES;
                double room = 1.1e-7 + 0x1p-23 * (fabs(right) + fabs(right - s) + fabs(parent));
                assert_true(fabs((double)want.at[place + XSMI_LANES] - (parent + right)) <= room);
                assert_true(fabs((double)want.at[place] - (parent + right - s)) <= room);
            }
        }
    }
    array_close(&scores);
    array_close(&parents);
    array_close(&want);
    array_close(&got);
}

static void test_logistics(void **state)
{
    enum { MOST = 70 };
    const xsmi_kernels *k = check_table(state);
    array scores;
    array want[3];
    array got[3];
    array_open(&scores, MOST);
    for (int i = 0; i < 3; i++) {
        array_open(&want[i], MOST);
        array_open(&got[i], MOST);
    }
    for (size_t n = 0; n <= MOST; n++) {
        for (kind v = 0; v < SPECIAL; v++) {
            array_fill(&scores, n, random_below(17), v);
            for (size_t i = 0; i < n && i < 6; i++) {
                const float edges[6] = {0.0f, -0.0f, -1e4f, 1e4f, 87.5f, -17.0f};
                scores.at[i] = edges[i];
            }
            for (int i = 0; i < 3; i++) {
                array_fill(&want[i], n, random_below(17), PLAIN);
                array_copy(&got[i], &want[i]);
            }
            const bool rest = n % 3 > 0;
            ref->logistics(scores.at, n, want[0].at, want[1].at, rest ? want[2].at : NULL);
            k->logistics(scores.at, n, got[0].at, got[1].at, rest ? got[2].at : NULL);
            expect_arrays(&got[0], &want[0], "logistics, left", n);
            expect_arrays(&got[1], &want[1], "logistics, right", n);
            expect_arrays(&got[2], &want[2], "logistics, rest", n);
            for (size_t i = 0; i < n; i++) {
                double s = (double)scores.at[i];
                double e = fabs(s) > 87.0 ? 0.0 : exp(-fabs(s));
                double small = e / (1.0 + e), large = 1.0 / (1.0 + e);
                double left = s < 0.0 ? large : small, right = s < 0.0 ? small : large;
                assert_true(fabs((double)want[0].at[i] - left) <= 3e-7 * left);
                assert_true(fabs((double)want[1].at[i] - right) <= 3e-7 * right);
                assert_true(!rest || fabs((double)want[2].at[i] - log1p(e)) <= 3e-7 * log1p(e));
            }
        }
    }
    array_close(&scores);
    for (int i = 0; i < 3; i++) {
        array_close(&want[i]);
        array_close(&got[i]);
    }
}

static void test_drawn_classes(void **state)
{
    enum { MOST = 2000 };
    const xsmi_kernels *k = check_table(state);
    static double all_less[MOST];
    static uint32_t all_counts[MOST];
    array z, want, got;
    array_open(&z, MOST);
    array_open(&want, MOST);
    array_open(&got, MOST);
    for (size_t n = 0; n < MOST; n = n < 70 ? n + 1 : n * 5 / 4) {
        /* They end where the arrays do. */
        double *less = all_less + (MOST - n);
        uint32_t *counts = all_counts + (MOST - n);
        for (size_t j = 0; j < n; j++) {
            less[j] = 9.0 * (double)random_unit() + 1e-9 * (double)random_unit();
            counts[j] = random_below(4) ? random_below(3) : random_below(INT32_MAX);
        }
        for (kind v = 0; v < KINDS; v++) {
            array_fill(&z, n, random_below(17), v);
            array_fill(&want, n, random_below(17), PLAIN);
            array_copy(&got, &want);
            ref->row_subtract(z.at, less, n, want.at);
            k->row_subtract(z.at, less, n, got.at);
            expect_arrays(&got, &want, "row_subtract", n);
            array_copy(&got, &z);
            k->row_subtract(got.at, less, n, got.at);
            for (size_t j = 0; j < n; j++) {
                expect_float(got.at[j], (float)((double)z.at[j] - less[j]), "row_subtract in place", n);
            }
            array_copy(&want, &z);
            array_copy(&got, &z);
            const double want_sum = ref->row_multiply_sum(want.at, counts, n),
                         got_sum = k->row_multiply_sum(got.at, counts, n);
            assert_true(memcmp(&want_sum, &got_sum, sizeof want_sum) == 0 || (isnan(want_sum) && isnan(got_sum)));
            expect_arrays(&got, &want, "row_multiply_sum", n);
            double partial[16] = {0}, sum = 0, size = 0;
            for (size_t j = 0; j < n; j++) {
                expect_float(got.at[j], (float)counts[j] * z.at[j], "row_multiply_sum", n);
                partial[j % 16] += (double)got.at[j];
                sum += (double)got.at[j];
                size += fabs((double)got.at[j]);
            }
            for (size_t half = 8; half > 0; half /= 2) { /* the promised order */
                for (size_t p = 0; p < half; p++) {
                    partial[p] += partial[p + half];
                }
            }
            assert_true(got_sum == partial[0] || isnan(partial[0]));
            assert_true(!isfinite(size) || fabs(got_sum - sum) <= (double)n * 0x1p-52 * size);
        }
    }
    array_close(&z);
    array_close(&want);
    array_close(&got);
}

static void test_row_reductions(void **state)
{
    const xsmi_kernels *k = check_table(state);
    array z;
    array want;
    array got;
    array_open(&z, 10000);
    array_open(&want, 10000);
    array_open(&got, 10000);
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = size_at(s);
        for (kind v = 0; v < KINDS; v++) {
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
            const float least = random_below(2) ? 0.0f : fabsf(random_unit());
            array_copy(&want, &z);
            array_copy(&got, &z);
            const float most = ref->row_scaled_max(want.at, n, factor, least);
            expect_float(k->row_scaled_max(got.at, n, factor, least), most, "row_scaled_max", n);
            expect_arrays(&got, &want, "row_scaled_max", n);
        }
    }
    /* The sign of a zero maximum does not depend on the order of the comparisons. */
    for (size_t n = 1; n < 300; n++) {
        array_fill(&z, n, 0, PLAIN);
        for (size_t i = 0; i < n; i++) {
            z.at[i] = copysignf(0.0f, random_unit());
        }
        expect_float(k->row_max(z.at, n), 0.0f, "row_max of zeros", n);
    }
    array_fill(&z, 1000, 0, PLAIN);
    for (size_t n = 1; n < 1000; n++) {
        size_t at = random_below((uint32_t)n);
        float value = z.at[at];
        z.at[at] = NAN;
        assert_true(isnan(k->row_max(z.at, n)));
        z.at[at] = 2.0f;
        assert_true(k->row_max(z.at, n) == 2.0f);
        z.at[at] = NAN;
        assert_true(isnan(k->row_scaled_max(z.at, n, 1, 0)));
        z.at[at] = -INFINITY;
        assert_true(k->row_scaled_max(z.at, n, 1, 0) == INFINITY);
        z.at[at] = value;
    }
    array_close(&z);
    array_close(&want);
    array_close(&got);
}

#define DUAL_ROWS 40
#define DUAL_FEATURES 60

/* A problem of dual coordinate descent in some state, and a copy that another table works on. */
typedef struct dual_problem {
    uint64_t offsets[DUAL_ROWS + 1];
    uint32_t index[DUAL_ROWS * DUAL_FEATURES], source[DUAL_ROWS], order[DUAL_ROWS];
    float value[DUAL_ROWS * DUAL_FEATURES], step[DUAL_ROWS], diagonals[DUAL_ROWS], above[XSMI_DUAL_LANES];
    bool own; /* each row has its own diagonal */
    uint16_t positive[DUAL_ROWS];
    struct {
        uint16_t active[DUAL_ROWS];
        float alpha[DUAL_ROWS * XSMI_DUAL_LANES], weights[DUAL_FEATURES * XSMI_DUAL_LANES];
        float bias[XSMI_DUAL_LANES], most[XSMI_DUAL_LANES], least[XSMI_DUAL_LANES];
    } state[2];
} dual_problem;

/* Of the logistic loss, too, with costs from small to large: alpha is u then, infinite at first. */
static void dual_fill(dual_problem *p, bool sparse, bool logistic)
{
    memset(p, 0, sizeof *p);
    p->own = random_below(2);
    uint64_t at = 0;
    for (uint32_t i = 0; i < DUAL_ROWS; i++) {
        p->offsets[i] = at;
        const uint32_t most = random_below(DUAL_FEATURES + 1);
        for (uint32_t f = 0; f < DUAL_FEATURES && (!sparse || f < most); f++) {
            if (!sparse || random_below(3) > 0) {
                p->index[at] = f;
                p->value[at++] = random_value(PLAIN);
            }
        }
        p->source[i] = DUAL_ROWS - 1 - i;
        p->order[i] = i;
        p->step[i] = logistic ? 1.5f + fabsf(random_value(PLAIN)) : -1.0f / (1.5f + random_unit());
        p->diagonals[i] = fabsf(random_unit());
        p->positive[i] = (uint16_t)random_bits();
        p->state[0].active[i] = (uint16_t)random_bits();
        for (size_t l = 0; l < XSMI_DUAL_LANES; l++) {
            const float other = logistic ? 3.0f * random_value(PLAIN) : fabsf(random_value(PLAIN));
            p->state[0].alpha[i * XSMI_DUAL_LANES + l] = random_below(2) ? (logistic ? INFINITY : 0.0f) : other;
        }
    }
    p->offsets[DUAL_ROWS] = at;
    for (size_t k = 0; k < DUAL_FEATURES * XSMI_DUAL_LANES; k++) {
        p->state[0].weights[k] = random_below(4) ? 0.1f * random_value(PLAIN) : 0.0f;
    }
    for (size_t l = 0; l < XSMI_DUAL_LANES; l++) {
        p->above[l] = random_below(3) ? fabsf(random_unit()) : INFINITY;
        p->state[0].bias[l] = random_unit();
        p->state[0].most[l] = -INFINITY;
        p->state[0].least[l] = INFINITY;
    }
    p->state[1] = p->state[0];
}

static void dual_run(const xsmi_kernels *k, dual_problem *p, size_t which, bool sparse, bool sourced, float cost)
{
    const xsmi_dual_pass pass = {.offsets = sparse ? p->offsets : NULL,
                                 .index = p->index,
                                 .value = p->value,
                                 .stride = DUAL_FEATURES,
                                 .features = DUAL_FEATURES,
                                 .source = sourced ? p->source : NULL,
                                 .order = p->order,
                                 .count = DUAL_ROWS,
                                 .positive = p->positive,
                                 .active = p->state[which].active,
                                 .live = 0xf7ff,
                                 .step = p->step,
                                 .diagonal = cost > 0 ? cost : 0.5f,
                                 .diagonals = p->own ? p->diagonals : NULL,
                                 .above = p->above,
                                 .alpha = p->state[which].alpha,
                                 .weights = p->state[which].weights,
                                 .bias = p->state[which].bias,
                                 .most = p->state[which].most,
                                 .least = p->state[which].least};
    if (cost > 0) {
        k->dual_logistic_pass(&pass);
    } else {
        k->dual_pass(&pass);
    }
}

/* Of the squared hinge for costs of 0, else of the logistic loss. */
static void try_dual_passes(const xsmi_kernels *k, const float costs[3])
{
    static dual_problem p;
    for (size_t trial = 0; trial < 200; trial++) {
        const bool sparse = random_below(3) > 0, sourced = random_below(2);
        const float cost = costs[trial % 3];
        dual_fill(&p, sparse, cost > 0);
        for (size_t pass = 0; pass < 3; pass++) {
            dual_run(ref, &p, 0, sparse, sourced, cost);
            dual_run(k, &p, 1, sparse, sourced, cost);
            assert_memory_equal(p.state[1].active, p.state[0].active, sizeof p.state[0].active);
            expect_floats(p.state[1].alpha, p.state[0].alpha, DUAL_ROWS * XSMI_DUAL_LANES, "alpha", trial);
            expect_floats(p.state[1].weights, p.state[0].weights, DUAL_FEATURES * XSMI_DUAL_LANES, "weights", trial);
            expect_floats(p.state[1].bias, p.state[0].bias, XSMI_DUAL_LANES, "bias", trial);
            expect_floats(p.state[1].most, p.state[0].most, XSMI_DUAL_LANES, "most", trial);
            expect_floats(p.state[1].least, p.state[0].least, XSMI_DUAL_LANES, "least", trial);
        }
    }
}

static void test_dual_pass(void **state)
{
    const float none[3] = {0, 0, 0};
    try_dual_passes(check_table(state), none);
}

static void test_dual_logistic_pass(void **state)
{
    const float costs[3] = {0.01f, 1.0f, 1e5f};
    try_dual_passes(check_table(state), costs);
}

/* Lines of DUAL_FEATURES numbers in all lanes: `often` of a hundred are infinite, NaN or zeros of both signs. */
static void fill_lines(float *lines, uint32_t often)
{
    static const float rare[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f};
    for (size_t i = 0; i < DUAL_FEATURES * XSMI_DUAL_LANES; i++) {
        lines[i] = random_below(100) < often ? rare[random_below(5)] : random_value(PLAIN);
    }
}

static void test_dual_squares(void **state)
{
    const xsmi_kernels *k = check_table(state);
    static float squares[2][DUAL_FEATURES * XSMI_DUAL_LANES];
    for (size_t trial = 0; trial < 200; trial++) {
        uint32_t index[DUAL_FEATURES];
        float value[DUAL_FEATURES], used[XSMI_DUAL_LANES], share[2][XSMI_DUAL_LANES];
        size_t count = 0;
        for (uint32_t f = 0; f < DUAL_FEATURES; f++) {
            index[count] = f;
            value[count] = random_value(PLAIN);
            count += random_below(3) > 0;
        }
        for (size_t l = 0; l < XSMI_DUAL_LANES; l++) {
            used[l] = random_below(2) ? fabsf(random_value(PLAIN)) : 0.0f;
            share[0][l] = share[1][l] = random_unit();
        }
        fill_lines(squares[0], trial % 2 ? 5 : 0);
        memcpy(squares[1], squares[0], sizeof squares[0]);
        ref->dual_squares(squares[0], index, value, count, used);
        k->dual_squares(squares[1], index, value, count, used);
        expect_floats(squares[1], squares[0], DUAL_FEATURES * XSMI_DUAL_LANES, "squares", trial);
        ref->dual_shares(squares[0], index, value, count, used, 2.0f, share[0]);
        k->dual_shares(squares[0], index, value, count, used, 2.0f, share[1]);
        expect_floats(share[1], share[0], XSMI_DUAL_LANES, "shares", trial);
    }
}

static void test_dual_keep(void **state)
{
    const xsmi_kernels *k = check_table(state);
    static float weights[2][DUAL_FEATURES * XSMI_DUAL_LANES];
    for (size_t trial = 0; trial < 200; trial++) {
        uint16_t kept[2][DUAL_FEATURES];
        float least[XSMI_DUAL_LANES];
        const size_t width = random_below(DUAL_FEATURES + 1);
        fill_lines(weights[0], trial % 2 ? 5 : 0);
        for (size_t l = 0; l < XSMI_DUAL_LANES; l++) {
            /* Now and then as large as a weight, which is kept then. */
            const float size = fabsf(weights[0][l]);
            least[l] = random_below(4) ? fabsf(random_value(PLAIN)) : isnan(size) ? INFINITY : size;
        }
        memcpy(weights[1], weights[0], sizeof weights[0]);
        const bool finite = ref->dual_keep(weights[0], width, least, kept[0]);
        assert_int_equal(k->dual_keep(weights[1], width, least, kept[1]), finite);
        assert_memory_equal(kept[1], kept[0], width * sizeof kept[0][0]);
        expect_floats(weights[1], weights[0], DUAL_FEATURES * XSMI_DUAL_LANES, "weights", trial);
        for (size_t i = 0; i < width * XSMI_DUAL_LANES; i++) {
            const bool is_kept = kept[0][i / XSMI_DUAL_LANES] >> i % XSMI_DUAL_LANES & 1;
            assert_int_equal(weights[0][i] != 0, is_kept);
        }
    }
}

const named_test row_tests[] = {
    {"dot", test_dot},
    {"axpby, scale", test_axpby_scale},
    {"gather_scores, scatter_update", test_gather_scatter},
    {"sparse_gather_scores, sparse_scatter_update", test_sparse},
    {"column_sums, column_update", test_columns},
    {"sparse kernels with far indexes", test_sparse_far},
    {"row_max, row_scaled_max, row_sum_exp, row_softmax", test_row_reductions},
    {"row_subtract, row_multiply_sum", test_drawn_classes},
    {"adagrad", test_adagrad},
    {"log_branches", test_log_branches},
    {"logistics", test_logistics},
    {"dual_pass", test_dual_pass},
    {"dual_logistic_pass", test_dual_logistic_pass},
    {"dual_squares, dual_shares", test_dual_squares},
    {"dual_keep", test_dual_keep},
    {NULL, NULL},
};
