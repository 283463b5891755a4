/*
 * checkkernels: the equations of implicit steps, and random streams, side by side: the same bits on every instruction
 * set, whatever is solved beside them. test_math.c tests that the roots are right.
 */
#include "checkkernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const xsmi_kernels *const ref = &xsmi_kernels_scalar;

enum { LANES = XSMI_SOLVE_LANES, MOST = 9 };

typedef struct equations {
    xsmi_equations e;
    double u_old[LANES], q_y[LANES], u[LANES];
    double margin[MOST * LANES], q[MOST * LANES], c[MOST * LANES], work[2 * MOST * LANES];
} equations;

/* Points the parts at each other; the struct must not move afterwards. */
static void point(equations *a)
{
    a->e.u_old = a->u_old;
    a->e.q_y = a->q_y;
    a->e.margin = a->margin;
    a->e.q = a->q;
    a->e.u = a->u;
    a->e.c = a->c;
    a->e.work = a->work;
}

/* Between 10^-most and 10^most. */
static double power(double most)
{
    return pow(10, most * (double)random_unit());
}

static void make(equations *a, size_t lanes, size_t count, double reach)
{
    memset(a, 0, sizeof(*a));
    point(a);
    a->e.lanes = lanes;
    a->e.count = count;
    a->e.eta = power(4);
    a->e.rate = a->e.eta * (1 + (double)random_below(300000));
    a->e.tolerance = random_below(2) ? 1e-8 : 1e-14;
    for (size_t l = 0; l < LANES; l++) {
        a->u_old[l] = random_below(4) ? 20 * fabs((double)random_unit()) : 0;
        a->q_y[l] = random_below(8) ? power(3) : 0;
        for (size_t k = 0; k < count; k++) {
            a->q[k * LANES + l] = random_below(20) ? power(3) : 1e-300;
            a->margin[k * LANES + l] = reach * (double)random_unit();
        }
    }
}

static void expect_lane(const equations *got, size_t at, const equations *want, size_t lane)
{
    assert_memory_equal(&got->u[at], &want->u[lane], sizeof(double));
    for (size_t k = 0; k < want->e.count; k++) {
        assert_memory_equal(&got->c[k * LANES + at], &want->c[k * LANES + lane], sizeof(double));
    }
}

static void test_same_bits(void **state)
{
    const xsmi_kernels *k = check_table(state);
    static const double reaches[] = {0.5, 10, 300, 1e7};
    size_t solved = 0;
    for (size_t round = 0; round < 20000; round++) {
        equations want;
        equations got;
        size_t lanes = 1 + random_below(LANES);
        make(&want, lanes, 1 + random_below(round % 2 ? MOST : 1), reaches[random_below(4)]);
        got = want;
        point(&got);
        uint32_t good = ref->solve(&want.e);
        assert_int_equal(k->solve(&got.e), good);
        assert_true(good >> lanes == 0);
        for (size_t l = 0; l < lanes; l++) {
            if (!(good >> l & 1)) {
                continue;
            }
            solved++;
            expect_lane(&got, l, &want, l);
            /* Alone, in another lane, among others. */
            equations alone;
            size_t at = random_below(LANES);
            make(&alone, at + 1, want.e.count, 5);
            alone.e.eta = want.e.eta;
            alone.e.rate = want.e.rate;
            alone.e.tolerance = want.e.tolerance;
            alone.u_old[at] = want.u_old[l];
            alone.q_y[at] = want.q_y[l];
            for (size_t j = 0; j < want.e.count; j++) {
                alone.q[j * LANES + at] = want.q[j * LANES + l];
                alone.margin[j * LANES + at] = want.margin[j * LANES + l];
            }
            assert_true(k->solve(&alone.e) >> at & 1);
            expect_lane(&alone, at, &want, l);
        }
    }
    assert_true(solved > 30000);
}

/* What is far out is left to others, and does not disturb the other lanes. */
static void test_far_out(void **state)
{
    const xsmi_kernels *k = check_table(state);
    static const double bad[] = {1e300, -1e300, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < 5; i++) {
        equations a;
        make(&a, LANES, 1, 1);
        a.e.eta = 1;
        a.e.rate = 1000;
        for (size_t l = 0; l < LANES; l++) {
            a.q[l] = a.q_y[l] = 1;
        }
        a.margin[3] = bad[i];
        a.q[5] = 1e-300;
        a.u_old[6] = (double)NAN;
        assert_int_equal(k->solve(&a.e), 0xff & ~(1u << 3 | 1u << 5 | 1u << 6));
        a.e.rate = 1e200;
        assert_int_equal(k->solve(&a.e), 0);
    }
}

static uint32_t random_word(void)
{
    return random_below(65536) << 16 | random_below(65536);
}

/* Any number of streams, and nothing is written but their words. The test of streams holds the reference to published
 * words. */
static void test_philox(void **state)
{
    enum { STREAMS = 41 };
    const xsmi_kernels *k = check_table(state);
    for (size_t round = 0; round < 2000; round++) {
        const uint32_t key[2] = {random_word(), random_word()}, purpose = random_word();
        const uint32_t block = round % 5 ? random_word() : 0;
        const size_t n = round % STREAMS;
        uint64_t positions[STREAMS];
        uint32_t want[4 * STREAMS], got[4 * STREAMS];
        for (size_t i = 0; i < n; i++) {
            positions[i] = (uint64_t)(round % 3 ? random_word() : 0) << 32 | random_word();
        }
        memset(want, 0x5a, sizeof(want));
        memset(got, 0x5a, sizeof(got));
        ref->philox(key, block, purpose, positions, n, want);
        k->philox(key, block, purpose, positions, n, got);
        assert_memory_equal(got, want, sizeof(want));
    }
}

const named_test solve_tests[] = {
    {"solve, bits", test_same_bits},
    {"solve, far out", test_far_out},
    {"philox", test_philox},
    {NULL, NULL},
};
