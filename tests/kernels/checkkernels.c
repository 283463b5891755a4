/*
 * checkkernels: every kernel of every table against the scalar reference, bit for bit (checkkernels_rows.c,
 * checkkernels_tiles.c and checkkernels_narrow.c), and the reference against double precision (here); `checkkernels
 * --bench` measures them (checkkernels_bench.c).
 */
#include "checkkernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

const xsmi_kernels *const check_tables[] = {
    &xsmi_kernels_scalar,
#if defined(__x86_64__) || defined(__i386__)
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

/* The table under test; the test is skipped where the processor cannot run it. */
const xsmi_kernels *check_table(void **state)
{
    const xsmi_kernels *k = *state;
    if (!check_available(k)) {
        print_message("skipped: this processor or its system lacks %s\n", k->name);
        skip();
    }
    random_restart();
    return k;
}

static const xsmi_kernels *const ref = &xsmi_kernels_scalar;

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
    for (size_t s = 0; s < SIZES; s++) {
        size_t n = size_at(s);
        double exact = 0.0;
        double size = 0.0;
        double exps = 0.0;
        for (size_t i = 0; i < n; i++) {
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
    random_restart();
    for (size_t i = 0; i < sizeof(w) / sizeof(w[0]); i++) {
        w[i] = random_unit();
    }
    for (size_t c = 0; c < sizeof(bias) / sizeof(bias[0]); c++) {
        bias[c] = random_unit();
    }
    for (size_t l = 0; l < XSMI_LANES; l++) {
        rows[l] = x + l * d;
        target[l] = random_below(classes * tiles);
        for (size_t i = 0; i < d; i++) {
            x[l * d + i] = random_unit() * 3.0f;
        }
    }
    reduction_open(&a, top, target);
    ref->pack(rows, XSMI_LANES, d, packed);
    for (uint32_t t = 0; t < tiles; t++) {
        ref->score_tile(w + t * classes * d, d, classes, packed, d, 0.5f, NULL, bias + t * classes, scores);
        ref->reduce_tile(scores, classes, t * classes, &a.r);
    }
    for (size_t l = 0; l < XSMI_LANES; l++) {
        double sum = 0.0;
        for (size_t c = 0; c < classes * tiles; c++) {
            exact[c] = 0.0;
            for (size_t i = 0; i < d; i++) {
                exact[c] += (double)w[c * d + i] * (double)x[l * d + i];
            }
            exact[c] = 0.5 * exact[c] + (double)bias[c];
            sum += exp(exact[c]);
        }
        assert_true(fabs((double)a.max[l] + log(a.sum[l]) - log(sum)) < 1e-5);
        assert_true(fabs((double)a.target_score[l] - exact[target[l]]) < 1e-4);
        for (size_t k = 0; k < top; k++) {
            /* The scores of random classes are far enough apart for float to keep their order. */
            size_t best = 0;
            for (size_t c = 1; c < classes * tiles; c++) {
                best = exact[c] > exact[best] ? c : best;
            }
            assert_true(fabs(exact[best] - exact[a.top_class[k * XSMI_LANES + l]]) < 1e-4);
            assert_true(fabs(exact[best] - (double)a.top_score[k * XSMI_LANES + l]) < 1e-4);
            exact[a.top_class[k * XSMI_LANES + l]] = -INFINITY;
        }
    }
}

static void test_select(void **state)
{
    (void)state;
    assert_ptr_equal(xsmi_kernels_select(~0u), &xsmi_kernels_scalar);
    assert_true(check_available(xsmi_kernels_select(0)));
    uint32_t features = xsmi_cpu_features();
#if defined(__x86_64__) || defined(__i386__)
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

static const named_test reference_tests[] = {
    {"reference: exp", test_reference_exp},
    {"reference: sums", test_reference_sums},
    {"reference: tiles", test_reference_tiles},
    {"select", test_select},
};

#define MOST_TESTS 112

static void add_test(struct CMUnitTest *tests, char (*names)[80], size_t *n, const named_test *test,
                     const xsmi_kernels *k)
{
    assert_true(*n < MOST_TESTS);
    snprintf(names[*n], sizeof(names[*n]), "%s%s%s", k == NULL ? "" : k->name, k == NULL ? "" : ": ", test->name);
    tests[*n].name = names[*n];
    tests[*n].test_func = test->run;
    tests[*n].initial_state = (void *)(uintptr_t)k;
    ++*n;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--bench") == 0) {
        return check_bench();
    }
    if (argc != 1) {
        fprintf(stderr, "usage: %s [--bench]\n", argv[0]);
        return 2;
    }
    struct CMUnitTest tests[MOST_TESTS];
    char names[MOST_TESTS][80];
    memset(tests, 0, sizeof(tests));
    size_t n = 0;
    for (size_t t = 0; t < sizeof(reference_tests) / sizeof(reference_tests[0]); t++) {
        add_test(tests, names, &n, reference_tests + t, NULL);
    }
    for (const xsmi_kernels *const *k = check_tables; *k != NULL; k++) {
        for (const named_test *t = row_tests; t->name != NULL; t++) {
            add_test(tests, names, &n, t, *k);
        }
        for (const named_test *t = tile_tests; t->name != NULL; t++) {
            add_test(tests, names, &n, t, *k);
        }
        for (const named_test *t = narrow_tests; t->name != NULL; t++) {
            add_test(tests, names, &n, t, *k);
        }
        for (const named_test *t = solve_tests; t->name != NULL; t++) {
            add_test(tests, names, &n, t, *k);
        }
    }
    /* The function behind cmocka's macro, which takes the number of tests from the type of the array. */
    return _cmocka_run_group_tests("checkkernels", tests, n, NULL, NULL);
}
