/*
 * Tests of what Fagan and Iyengar (2018) prove about the double sum: gradients are bounded within the bounds of Lemmas
 * 1 and 2 (Lemma 4); raising u decreases the objective by delta^2/2 (Lemma 5), so that a U-max step is never worse
 * than a plain one (Theorem 1, in u and W); the implicit step is never longer than the explicit one (Proposition 1). At
 * extreme scores and rates every estimator stays finite or reports a divergence.
 */
#include "training.h"

#include "estimator/estimator.h"
#include "methods/double_sum.h"

#include <xsoftmax/metrics.h>
#include <xsoftmax/trainer.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLASSES = 7, FEATURES = 4 };

/* Scores of CLASSES classes of one example of class 2, asked of a table as it is called by the library. */
typedef struct asked {
    double u, loss;
    float g[CLASSES];
} asked;

static asked ask(xsm_estimator *e, const float *z, uint32_t length, const uint32_t *classes, double eta, double u)
{
    uint32_t label = 2;
    asked a = {.u = u};
    xsm_example example = {0, 0, &label, 1, 1};
    double *at = ((xsmi_double_sum *)e->state)->u;
    at[0] = u;
    a.loss = test_ask(e, &example, length, classes, z, eta, a.g);
    a.u = at[0];
    return a;
}

typedef struct rig {
    test_problem p;
    xsm_model *m;
    xsm_estimator *e;
} rig;

static rig begin(const char *name, const char *options)
{
    xsm_error err = XSM_ERROR_INIT;
    rig r = {.p = test_problem_new(8, FEATURES, CLASSES, false, 2)};
    r.m = test_model(NULL, &r.p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    r.e = test_estimator(NULL, name, options);
    assert_ok(xsm_estimator_bind(r.e, r.m, r.p.data, &err), err);
    return r;
}

static void end(rig *r)
{
    xsm_estimator_free(r->e);
    xsm_model_free(r->m);
    test_problem_free(&r->p);
}

/* f of one example at u: u + e^-u (1 + sum over all classes). */
static double objective(const double *z, double u)
{
    double sum = exp(-u);
    for (int k = 0; k < CLASSES; k++) {
        sum += k == 2 ? 0 : exp(z[k] - z[2] - u);
    }
    return u + sum;
}

/* -- Theorem 1 ---------------------------------------------------------------------------------------------------- */

/* Where |w| <= B_W and |x| <= B_x, scores differ by at most 2 B_x B_W. */
static void draw_scores(float *z, double reach, uint64_t *seed)
{
    for (int k = 0; k < CLASSES; k++) {
        z[k] = (float)(reach * (2 * test_uniform(seed) - 1));
    }
}

TEST(gradients_are_bounded)
{
    uint64_t seed = 5;
    rig plain = begin("vanilla", "negatives=1"), max = begin("umax", "negatives=1 delta=0.75");
    for (int i = 0; i < 20000; i++) {
        double reach = 4 * test_uniform(&seed); /* B_x B_W */
        float z[CLASSES];
        draw_scores(z, reach, &seed);
        double b_u = log(1 + (CLASSES - 1) * exp(2 * reach)), u = b_u * test_uniform(&seed);
        uint32_t other = (uint32_t)(test_next(&seed) % (CLASSES - 1));
        uint32_t classes[] = {2, other + (other >= 2)};
        const double eta = 1e-9;
        asked a = ask(plain.e, z, 2, classes, eta, u);
        /* Lemma 4, on the scale of the mean loss: |df/du| <= max(1, e^B_u - 1), |df/dz| <= e^B_u. */
        double slope = -((double)a.g[1] - (1 - exp(-u)));
        assert_true(fabs(slope) <= fmax(1, exp(b_u) - 1) * (1 + 1e-6));
        assert_true((double)a.g[1] <= exp(b_u) * (1 + 1e-6));
        /* Section 3.1: U-max's are bounded by (K-1) e^delta whatever u is. */
        asked b = ask(max.e, z, 2, classes, eta, u);
        assert_true((double)b.g[1] <= (CLASSES - 1) * exp(0.75) * (1 + 1e-6));
    }
    end(&plain);
    end(&max);
}

/* The scores after the step: those of the weights w - eta g x for |x| = 1. */
static void step(const asked *a, double eta, uint32_t length, const uint32_t *classes, const float *z, double *stepped)
{
    for (int k = 0; k < CLASSES; k++) {
        stepped[k] = (double)z[k];
    }
    for (uint32_t j = 0; j < length; j++) {
        stepped[classes[j]] -= eta * (double)a->g[j];
    }
}

/* For both double sums. That of Raman et al. is the same function of u - z_y, `shift` = 1. */
static void check_raising(const char *name, const char *reference, int shift)
{
    uint64_t seed = 6;
    const double delta = 0.5, weight = (CLASSES - 1.0) / 2;
    rig max = begin(name, "negatives=2 delta=0.5"), plain = begin(reference, "negatives=2");
    int raised = 0;
    for (int i = 0; i < 20000; i++) {
        float z[CLASSES];
        double now[CLASSES], with[CLASSES], without[CLASSES];
        draw_scores(z, 5 * test_uniform(&seed), &seed);
        uint32_t classes[] = {2, 0, 3 + (uint32_t)(test_next(&seed) % 4)};
        const double own = shift * (double)z[2];
        double sum = 0, all = 0;
        for (int k = 0; k < CLASSES; k++) {
            now[k] = (double)z[k];
            double e = k == 2 ? 0 : exp((double)z[k] - (double)z[2]);
            all += e;
            sum += (uint32_t)k == classes[1] || (uint32_t)k == classes[2] ? e : 0;
        }
        double bound = log(1 + sum), u = 1.5 * bound * test_uniform(&seed);
        assert_true(bound <= log(1 + all) + 1e-12); /* the best u */
        /* eta so small that what is seen is the raising alone */
        asked a = ask(max.e, z, 3, classes, 1e-12, own + u);
        if (u < bound - delta) {
            raised++;
            assert_true(fabs(a.u - own - bound) <= 1e-6);
            assert_true(objective(now, u) - objective(now, a.u - own) >= delta * delta / 2 - 1e-6); /* Lemma 5 */
        } else {
            assert_true(fabs(a.u - own - u) <= 1e-6);
        }
        /* Theorem 1: for eta <= delta^2/(4 B_f^2) a step of u and W together lowers f by no less than plain SGD's.
         * At u >= 0 no slope is above 1 + weight * all, and there are four: of u, of the label, of two classes. */
        double slope = 1 + weight * all, eta = delta * delta / (4 * 4 * slope * slope);
        a = ask(max.e, z, 3, classes, eta, own + u);
        asked b = ask(plain.e, z, 3, classes, eta, own + u);
        step(&a, eta, 3, classes, z, with);
        step(&b, eta, 3, classes, z, without);
        double f = objective(without, b.u - shift * without[2]);
        assert_true(objective(with, a.u - shift * with[2]) <= f + 1e-9 * f);
    }
    assert_in_range(raised, 4000, 16000);
    end(&max);
    end(&plain);
}

TEST(raising_u_pays)
{
    check_raising("umax", "vanilla", 0);
    check_raising("raman", "raman", 1);
}

/* The double sum is above the log-loss everywhere, and equal where u is right: it never promises too much. */
TEST(bounds_the_log_loss)
{
    uint64_t seed = 7;
    uint32_t classes[CLASSES] = {2, 0, 1, 3, 4, 5, 6};
    static const char *const names[] = {"vanilla", "umax", "raman", "implicit"};
    for (int n = 0; n < 4; n++) {
        rig r = begin(names[n], "negatives=6");
        for (int i = 0; i < 3000; i++) {
            float z[CLASSES];
            draw_scores(z, 6 * test_uniform(&seed), &seed);
            double exact[CLASSES];
            for (int k = 0; k < CLASSES; k++) {
                exact[k] = (double)z[k];
            }
            double log_loss = log(objective(exact, 0)), best = log_loss + (n == 2 ? exact[2] : 0);
            asked a = ask(r.e, z, CLASSES, classes, 1e-9, fmax(0, best + 4 * test_uniform(&seed) - 2));
            assert_true(a.loss >= log_loss - 1e-5 * (1 + log_loss));
            if (n != 2 || best >= 0) {
                a = ask(r.e, z, CLASSES, classes, 1e-9, best);
                assert_true(fabs(a.loss - log_loss) <= 2e-6 * (1 + log_loss));
            }
        }
        end(&r);
    }
}

/* -- Propositions 1 and 2 ------------------------------------------------------------------------------------------ */

/* |theta+ - theta| of the implicit step is at most that of the explicit one from the same point, in (W, u) together;
 * the coefficient is the gradient at the point where it ends, and grows at most linearly in the gap. */
TEST(implicit_steps_are_shorter)
{
    uint64_t seed = 9;
    static const uint32_t negatives[] = {1, 3, 6};
    for (int n = 0; n < 3; n++) {
        char options[32], exact[64];
        snprintf(options, sizeof options, "negatives=%u", negatives[n]);
        snprintf(exact, sizeof exact, "%s tolerance=1e-12", options);
        rig implicit = begin("implicit", exact), plain = begin("vanilla", options);
        for (int i = 0; i < 6000; i++) {
            float z[CLASSES];
            draw_scores(z, 12 * test_uniform(&seed), &seed);
            uint32_t classes[CLASSES] = {2, 0, 1, 3, 4, 5, 6}, length = 1 + negatives[n];
            double eta = pow(10, 8 * test_uniform(&seed) - 5), u = 6 * test_uniform(&seed);
            asked a = ask(implicit.e, z, length, classes, eta, u), b = ask(plain.e, z, length, classes, 1e-12, u);
            double short_square = (a.u - u) / eta * ((a.u - u) / eta), slope = exp(-u) - 1, long_square;
            double weight = (CLASSES - 1.0) / negatives[n];
            for (uint32_t j = 1; j < length; j++) {
                slope += (double)b.g[j];
            }
            long_square = slope * slope;
            for (uint32_t j = 0; j < length; j++) { /* |x| = 1 */
                short_square += (double)a.g[j] * (double)a.g[j];
                long_square += (double)b.g[j] * (double)b.g[j];
                double end_gap =
                    (double)z[classes[j]] - eta * (double)a.g[j] - (double)z[2] + eta * (double)a.g[0] - a.u;
                double want = weight * exp(end_gap);
                /* the new scores have float coefficients times eta in them */
                double slack = 1e-6 + 2e-7 * eta * (fabs((double)a.g[0]) + fabs((double)a.g[j]));
                assert_true(j == 0 || fabs((double)a.g[j] - want) / want - slack <= 1e-5);
            }
            assert_true(short_square <= long_square * (1 + 1e-5) + 1e-12);
            /* Proposition 2: eta g_k <= omega(t) <= log(1 + e^t), which is linear in the gap that is left, t. */
            for (uint32_t j = 1; j < length; j++) {
                double t = log(eta * weight) + (double)z[classes[j]] - (double)z[2] - a.u;
                assert_true(eta * (double)a.g[j] <= (t > 0 ? t + log1p(exp(-t)) : log1p(exp(t))) * (1 + 1e-6));
            }
        }
        end(&implicit);
        end(&plain);
    }
}

/* What implicit reports is f where the step ends, whatever the rate. A step of 1e-14 moves u by less than its last
 * digits, from which f must not be found. */
TEST(implicit_reports_its_loss)
{
    uint64_t seed = 10;
    rig r = begin("implicit", "negatives=6 tolerance=1e-12");
    for (int i = 0; i < 6000; i++) {
        float z[CLASSES];
        draw_scores(z, 6 * test_uniform(&seed), &seed);
        const uint32_t classes[CLASSES] = {2, 0, 1, 3, 4, 5, 6};
        double eta = pow(10, 16 * test_uniform(&seed) - 14), u = 6 * test_uniform(&seed), last[CLASSES];
        asked a = ask(r.e, z, CLASSES, classes, eta, u);
        step(&a, eta, CLASSES, classes, z, last);
        double f = objective(last, a.u) - 1, rounding = 0;
        for (int j = 0; j < CLASSES; j++) { /* of the coefficients, which are floats */
            rounding += 1e-7 * eta * fabs((double)a.g[j]) * (1 + fabs(f));
        }
        assert_true(fabs(a.loss - f) <= 2e-6 * (1 + f) + rounding * CLASSES);
    }
    end(&r);
}

/* -- extremes ----------------------------------------------------------------------------------------------------- */

/* Scores up to 1e4 and rates from 1e-8 to 1e8: a whole run is finite, or says that it diverged; u and weights are never
 * NaN either way. */
TEST(extremes_are_finite_or_divergence)
{
    static const char *const names[] = {"vanilla", "raman", "umax", "implicit"};
    int diverged[4] = {0}, vanilla_alone = 0;
    for (double size = 1; size <= 1e4; size *= 10) {
        for (int power = -8; power <= 8; power += 2) {
            bool failed[4];
            for (int n = 0; n < 4; n++) {
                for (uint64_t batch = 1; batch <= 6; batch += 5) {
                    HELD_STRUCT(test_problem, p) = test_problem_new(24, FEATURES, CLASSES, false, 4);
                    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, size, 5);
                    HELD(xsm_estimator, e) = test_estimator(NULL, names[n], "negatives=3");
                    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
                    MADE(
                        xsm_trainer, t,
                        xsm_trainer_new(NULL, m, p.data, e, o,
                                        STRUCT(xsm_trainer_options, .epochs = 3, .batch = batch, .eta = pow(10, power)),
                                        &t, &err));
                    xsm_status status = xsm_trainer_run(t, &err);
                    assert_true(status == XSM_OK || status == XSM_ERROR_DIVERGED);
                    failed[n] = batch == 1 ? status != XSM_OK : failed[n];
                    diverged[n] += status != XSM_OK;
                    for (uint32_t k = 0; k < CLASSES; k++) {
                        assert_true(isfinite(test_bias(m, k)));
                        for (uint32_t j = 0; j < FEATURES; j++) {
                            assert_true(isfinite(test_weight(m, k, j)));
                        }
                    }
                    for (uint64_t i = 0; i < p.rows; i++) {
                        assert_true(isfinite(((xsmi_double_sum *)e->state)->u[i]));
                    }
                    xsm_metrics metrics = XSM_METRICS_INIT;
                    assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), err);
                    assert_true(isfinite(metrics.log_loss));
                }
            }
            vanilla_alone += failed[0] && !failed[2];
            assert_false(failed[3]);
        }
    }
    print_message("diverged: vanilla %d, raman %d, umax %d, implicit %d of 90; vanilla where umax does not: %d of 45\n",
                  diverged[0], diverged[1], diverged[2], diverged[3], vanilla_alone);
    assert_true(vanilla_alone >= 10);
    assert_true(diverged[1] > 0);
    assert_int_equal(diverged[3], 0);
}
