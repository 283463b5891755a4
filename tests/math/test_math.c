/*
 * Tests of the Wright omega function (golden values, its own equation), the logarithm, softplus and sigmoid, and the
 * one-dimensional equation of the implicit step: its root, both solvers, and extreme inputs.
 */
#include "training.h"

#include "math/logarithm.h"
#include "math/omega.h"
#include "math/proximal.h"

#include "golden/omega_golden.h"

#include <float.h>
#include <math.h>

/* Distance in units of the last place of `right`. */
static double ulps(double value, double right)
{
    double step = nextafter(right, INFINITY) - right;
    return fabs(value - right) / step;
}

static void check_log(double x)
{
    const double got = xsmi_logarithm(x), right = (double)logl((long double)x);
    if (!(fabs(got - right) <= 3 * (nextafter(fabs(right), INFINITY) - fabs(right)))) {
        fail_msg("log(%a) = %a instead of %a", x, got, right);
    }
}

TEST(log_is_precise)
{
    assert_true(xsmi_logarithm(1) == 0);
    for (int i = 1; i <= 100000; i++) {
        check_log(i);
        check_log(1 + i * 1e-6);
        check_log(1 - i * 9e-6);
        check_log(i * 1e-9);
    }
    for (int e = -1021; e < 1024; e++) {
        for (double m = 1; m < 2; m += 0x1p-6) {
            check_log(ldexp(m, e));
        }
        check_log(ldexp(sqrt(0.5), e)); /* where the exponent that is taken out changes */
        check_log(ldexp(nextafter(sqrt(0.5), 0), e));
    }
    check_log(DBL_MIN);
    check_log(nextafter(1, 2));
    check_log(nextafter(1, 0));
    check_log(DBL_MAX);
    check_log(FLT_MAX);
}

TEST(omega_has_its_golden_values)
{
    for (size_t i = 0; i < sizeof omega_golden / sizeof *omega_golden; i++) {
        double t = omega_golden[i][0], w = xsmi_omega(t);
        if (!(ulps(w, omega_golden[i][1]) <= 4)) {
            fail_msg("omega(%a) = %a instead of %a", t, w, omega_golden[i][1]);
        }
    }
}

/* The root of w + log(w) = t nearest to w, in long double: two steps of Newton's method on x -> x + log x. */
static long double refine(long double w, long double t)
{
    for (int i = 0; i < 3; i++) {
        /* With w = e^t (1 + d), log(w) - t = log1p(d): for small w the residual would cancel. */
        long double r = t < -1 ? w + logl(w / expl(t)) : w + logl(w) - t;
        w -= r * w / (1 + w);
    }
    return w;
}

static void check_omega(double t, double *worst)
{
    double w = xsmi_omega(t);
    if (!(w >= 0) || !isfinite(w)) {
        fail_msg("omega(%a) = %g", t, w);
    }
    long double right = w > 0 ? refine((long double)w, (long double)t) : expl((long double)t);
    double off =
        (double)(fabsl((long double)w - right) / (long double)(nextafter((double)right, INFINITY) - (double)right));
    if (!(off <= 4)) {
        fail_msg("omega(%a) = %a is %g ulp from the root", t, w, off);
    }
    *worst = off > *worst ? off : *worst;
}

TEST(omega_solves_its_equation)
{
    double worst = 0;
    uint64_t seed = 1;
    for (int i = 0; i < 200000; i++) {
        check_omega(-745 + 845 * test_uniform(&seed), &worst);
        check_omega(-40 + 80 * test_uniform(&seed), &worst);
        check_omega(pow(10, -12 + 20 * test_uniform(&seed)), &worst);
        check_omega(-pow(10, -12 + 14 * test_uniform(&seed)), &worst);
    }
    print_message("worst of omega: %.2f ulp\n", worst);
    assert_true(xsmi_omega(-800) == 0);
    assert_true(xsmi_omega(-INFINITY) == 0);
    assert_true(xsmi_omega(INFINITY) == (double)INFINITY);
    assert_true(isnan(xsmi_omega(NAN)));
    for (double t = -708; t < 100; t += 0.37) { /* rises */
        assert_true(xsmi_omega(t + 0.37) > xsmi_omega(t));
    }
}

TEST(softplus_and_sigmoid_do_not_overflow)
{
    for (double t = -60; t <= 60; t += 0.01) {
        long double e = expl((long double)t);
        assert_true(ulps(xsmi_softplus(t), (double)log1pl(e)) <= 2);
        assert_true(ulps(xsmi_sigmoid(t), (double)(e / (1 + e))) <= 3);
    }
    assert_true(xsmi_softplus(1e300) == 1e300);
    assert_true(xsmi_softplus(-1e300) == 0);
    assert_true(xsmi_softplus(-700) > 0);
    assert_true(xsmi_sigmoid(1e300) == 1);
    assert_true(xsmi_sigmoid(-1e300) == 0);
    assert_true(xsmi_sigmoid(-700) > 0);
}

/* -- the equation of the implicit step ---------------------------------------------------------------------------- */

#define MOST 40
typedef struct equation {
    xsmi_proximal p;
    double rate, level[MOST], margin[MOST], q[MOST], c[MOST];
} equation;

/* Points the parts at each other; the struct must not move afterwards. */
static void make(equation *e, double eta, double u_old, double q_y, uint32_t count, double reach, double norm,
                 uint64_t *seed)
{
    for (uint32_t k = 0; k < count; k++) {
        e->q[k] = norm * (0.1 + test_uniform(seed));
        e->margin[k] = reach * (2 * test_uniform(seed) - 1);
        e->level[k] = log(e->q[k] * eta * 20) + e->margin[k];
    }
    e->rate = eta * 20;
    e->p = (xsmi_proximal){eta, u_old, q_y, count, e->level, e->q, e->c};
}

/* Solves it as estimators do, in lane 5 of 6, with the kernels of `disabled` left out: by the kernel's Newton's method,
 * *by_kernel, or what it leaves to others. Leaves the c. */
static double solve_in_lane(equation *e, uint32_t disabled, double tolerance, bool *by_kernel)
{
    enum { LANE = 5, STRIDE = XSMI_SOLVE_LANES };
    static double margin[MOST * STRIDE], q[MOST * STRIDE], c[MOST * STRIDE], work[2 * MOST * STRIDE], room[3 * MOST];
    double u_old[STRIDE], q_y[STRIDE], u[STRIDE];
    const uint32_t count = e->p.count;
    for (size_t l = 0; l < STRIDE; l++) {
        u_old[l] = l == LANE ? e->p.u_old : 1;
        q_y[l] = e->p.q_y;
        for (uint32_t k = 0; k < count; k++) {
            margin[k * STRIDE + l] = l == LANE ? e->margin[k] : 0.1 * (double)l;
            q[k * STRIDE + l] = e->q[k];
        }
    }
    xsmi_equations all = {LANE + 1, count, e->p.eta, e->rate, tolerance, u_old, q_y, margin, q, u, c, work, NULL};
    const xsmi_kernels *kernels = xsmi_kernels_select(disabled);
    *by_kernel = kernels->solve(&all) >> LANE & 1;
    xsmi_proximal_solve_lanes(kernels, &all, XSMI_SOLVER_NEWTON, room);
    for (uint32_t k = 0; k < count; k++) {
        e->c[k] = c[k * STRIDE + LANE];
    }
    return u[LANE];
}

/* F(u) in long double, the size of the terms that it is the sum of, and how far it is out in the arguments of omega: F
 * over its slope, times what an argument falls by for a u. */
static long double residual(const equation *e, double u, long double *size, long double *argument)
{
    const xsmi_proximal *p = &e->p;
    long double decline = -expm1l(-(long double)u);
    long double total = p->eta * decline + ((long double)u - p->u_old);
    long double rise = p->eta * expl(-(long double)u) + 1, pace = p->q_y * rise + 1, slope = rise;
    long double sum = 0;
    for (uint32_t k = 0; k < p->count; k++) {
        long double t = p->level[k] - p->q_y * total - u;
        long double w = xsmi_omega((double)t);
        w = w > 0 ? refine(w, t) : 0;
        sum += w / p->q[k];
        slope += w / p->q[k] / (1 + w) * pace;
    }
    *size = p->eta * decline + fabsl((long double)u) + p->u_old + sum;
    *argument = fabsl(total - sum) / slope * pace;
    return total - sum;
}

TEST(root_is_found)
{
    static const uint32_t counts[] = {1, 2, 7, 40};
    static const double reaches[] = {0, 1, 30, 1000, 10000}, norms[] = {1e-6, 1, 500};
    static const uint32_t sets[] = {0, XSMI_CPU_AVX512, XSMI_CPU_AVX512 | XSMI_CPU_AVX2 | XSMI_CPU_NEON};
    size_t tried = 0, kernel_roots = 0;
    uint64_t seed = 7;
    for (int power = -8; power <= 8; power++) {
        for (size_t n = 0; n < 4; n++) {
            for (size_t r = 0; r < 5; r++) {
                for (size_t s = 0; s < 3; s++) {
                    equation e;
                    double u_old = test_uniform(&seed) < 0.3 ? 0 : reaches[r] * test_uniform(&seed);
                    make(&e, pow(10, power), u_old, norms[s], counts[n], reaches[r], norms[s], &seed);
                    bool by_kernel;
                    double alone = xsmi_proximal_solve(&e.p, XSMI_SOLVER_NEWTON, 1e-12);
                    double u = solve_in_lane(&e, sets[tried++ % 3], 1e-12, &by_kernel);
                    double newton[MOST];
                    /* It leaves only scores far apart to others, and others have the same root. */
                    assert_true(by_kernel || reaches[r] > 1);
                    kernel_roots += by_kernel;
                    assert_true(fabs(u - alone) <= 1e-10 * (u + u_old + 1e-300) + 1e-11);
                    assert_true(isfinite(u) && u >= 0);
                    for (uint32_t k = 0; k < counts[n]; k++) {
                        assert_true(isfinite(e.c[k]) && e.c[k] >= 0);
                        newton[k] = e.c[k];
                    }
                    long double size, argument, f = residual(&e, u, &size, &argument);
                    if (!(argument <= 2e-12L || fabsl(f) <= 4e-15L * size)) {
                        fail_msg("eta 1e%d m %u reach %g norm %g: F(%g) = %Lg of %Lg, %Lg", power, counts[n],
                                 reaches[r], norms[s], u, f, size, argument);
                    }
                    double v = xsmi_proximal_solve(&e.p, XSMI_SOLVER_BISECTION, 1e-12);
                    if (!(fabs(u - v) <= 1e-10 * (u + u_old + 1e-300) + 1e-11)) {
                        fail_msg("eta 1e%d m %u reach %g norm %g: %.17g by Newton, %.17g by bisection", power,
                                 counts[n], reaches[r], norms[s], u, v);
                    }
                    for (uint32_t k = 0; k < counts[n]; k++) {
                        double room = 1e-9 * fmax(newton[k], e.c[k]) + 1e-14 * (double)size;
                        if (!(fabs(newton[k] - e.c[k]) <= room)) {
                            fail_msg("eta 1e%d m %u reach %g norm %g: c %.17g and %.17g", power, counts[n], reaches[r],
                                     norms[s], newton[k], e.c[k]);
                        }
                    }
                }
            }
        }
    }
    print_message("%zu of %zu by the kernel\n", kernel_roots, tried);
}

/* The classes' numbers are those of the equation at the root. */
TEST(classes_follow_the_root)
{
    uint64_t seed = 3;
    for (int i = 0; i < 200; i++) {
        equation e;
        make(&e, 0.3, 2, 1, 7, 5, 1, &seed);
        double u = xsmi_proximal_solve(&e.p, XSMI_SOLVER_NEWTON, 1e-12);
        for (uint32_t k = 0; k < 7; k++) {
            double total = -0.3 * expm1(-u) + u - 2;
            double w = xsmi_omega(e.level[k] - total - u);
            assert_true(fabs(e.c[k] * e.q[k] - w) <= 1e-11 * w);
        }
    }
}

TEST(looser_tolerance_is_kept)
{
    uint64_t seed = 11;
    for (int i = 0; i < 500; i++) {
        for (int32_t solver = 0; solver < 2; solver++) {
            equation e;
            make(&e, pow(10, 4 * test_uniform(&seed) - 2), 3 * test_uniform(&seed), 1, 5, 10, 1, &seed);
            double right = xsmi_proximal_solve(&e.p, XSMI_SOLVER_BISECTION, 1e-15);
            double c[MOST];
            for (uint32_t k = 0; k < 5; k++) {
                c[k] = e.c[k];
            }
            bool by_kernel;
            double u = solver == XSMI_SOLVER_NEWTON && i % 2 ? solve_in_lane(&e, 0, 1e-4, &by_kernel)
                                                             : xsmi_proximal_solve(&e.p, solver, 1e-4);
            assert_true(fabs(u - right) <= 1.1e-4);
            for (uint32_t k = 0; k < 5; k++) {
                assert_true(fabs(c[k] - e.c[k]) <= 1.2e-4 * c[k]);
            }
        }
    }
}

TEST(without_classes_u_falls_alone)
{
    xsmi_proximal p = {2, 5, 1, 0, NULL, NULL, NULL};
    for (int32_t solver = 0; solver < 2; solver++) {
        double u = xsmi_proximal_solve(&p, solver, 1e-14);
        assert_true(fabs(2 * (1 - exp(-u)) + u - 5) < 1e-12);
    }
    p.u_old = 0;
    assert_true(xsmi_proximal_solve(&p, XSMI_SOLVER_NEWTON, 1e-14) == 0);
}
