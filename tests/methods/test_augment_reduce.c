/*
 * Tests of augment-reduce: its bound and where it is tight, means over every set of classes that can be drawn, the
 * softmax as its limit with all classes, and convergence to the maximum likelihood.
 */
#include "training.h"

#include "estimator/estimator.h"

#include <xsoftmax/trainer.h>

#include <math.h>
#include <string.h>

enum { CLASSES = 6, LABEL = 2 };

typedef struct rig {
    test_problem p;
    xsm_model *m;
    xsm_estimator *e;
    double *u, *visits;
} rig;

static rig begin(const char *options)
{
    xsm_error err = XSM_ERROR_INIT;
    rig r = {.p = test_problem_new(8, 3, CLASSES, false, 2)};
    r.m = test_model(NULL, &r.p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    r.e = test_estimator(NULL, "augment-reduce", options);
    assert_ok(xsm_estimator_bind(r.e, r.m, r.p.data, &err), err);
    xsm_state_tensor u = {.size = sizeof u}, visits = u, none = u;
    assert_int_equal(r.e->ops.state_tensor(r.e->state, 0, &u), 1);
    assert_int_equal(r.e->ops.state_tensor(r.e->state, 1, &visits), 1);
    assert_int_equal(r.e->ops.state_tensor(r.e->state, 2, &none), 0);
    assert_string_equal(u.name, "u");
    assert_string_equal(visits.name, "visits");
    r.u = u.data;
    r.visits = visits.data;
    return r;
}

static void end(rig *r)
{
    xsm_estimator_free(r->e);
    xsm_model_free(r->m);
    test_problem_free(&r->p);
}

/* A step on row 0 with the classes listed, the label first; the row has u and has been visited so often. */
static double ask(rig *r, const float *z, uint32_t length, const uint32_t *classes, double u, double visits, float *g)
{
    uint32_t label = LABEL;
    xsm_example example = {0, 0, &label, 1, 1};
    r->u[0] = u;
    r->visits[0] = visits;
    const double loss = test_ask(r->e, &example, length, classes, z, 0.1, g);
    assert_true(r->visits[0] == visits + 1);
    return loss;
}

static const float z[CLASSES] = {0.5f, -1.25f, 0.25f, 2, -0.5f, 1};
static const uint32_t everyone[CLASSES] = {LABEL, 0, 1, 3, 4, 5};

/* 1 + sum of e^(z_k - z_y) = 1/p(y|x). */
static double inverse(void)
{
    double sum = 0;
    for (int k = 0; k < CLASSES; k++) {
        sum += exp((double)z[k] - (double)z[LABEL]);
    }
    return sum;
}

TEST(all_classes_are_the_softmax)
{
    rig r = begin("negatives=all");
    float g[CLASSES];
    for (int first = 0; first < 2; first++) { /* its first step on the row, whatever u was; later ones at the best u */
        double loss = ask(&r, z, CLASSES, everyone, first ? 7 : log(inverse()), first ? 0 : 5, g);
        assert_float_equal(loss, log(inverse()), 1e-12);
        assert_float_equal(r.u[0], log(inverse()), 1e-12);
        for (int j = 0; j < CLASSES; j++) {
            double p = exp((double)z[everyone[j]] - (double)z[LABEL]) / inverse();
            assert_float_equal((double)g[j], p - (j == 0), 1e-7);
        }
    }
    /* The bound, at any other u: above -log p by the divergence u* - u + e^(u* - u) - 1 turned round. */
    for (double u = -3; u < 9; u += 0.5) {
        double loss = ask(&r, z, CLASSES, everyone, u, 1e300, g);
        assert_float_equal(loss, u + inverse() * exp(-u) - 1, 1e-9);
        assert_true(loss >= log(inverse()));
        assert_float_equal(r.u[0], u, 1e-12);
    }
    end(&r);
}

TEST(a_row_remembers_as_the_option_says)
{
    static const struct {
        const char *options;
        double forget;
    } kinds[] = {{"negatives=all", 0.9},
                 {"negatives=all forget=0.5", 0.5},
                 {"negatives=all forget=0", 0},
                 {"negatives=all forget=1", 1}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        rig r = begin(kinds[i].options);
        float g[CLASSES];
        for (int t = 0; t < 6; t++) {
            double rho = pow(1 + t, -kinds[i].forget), want = (1 - rho) * exp(3) + rho * inverse();
            (void)ask(&r, z, CLASSES, everyone, 3, t, g);
            assert_float_equal(exp(r.u[0]), want, 1e-10 * want);
            double all = 0;
            for (int j = 1; j < CLASSES; j++) {
                double c = exp((double)z[everyone[j]] - (double)z[LABEL]) / want;
                assert_float_equal((double)g[j], c, 1e-7);
                all += c;
            }
            assert_float_equal((double)g[0], -all, 1e-6);
        }
        end(&r);
    }
}

/* The mean over every set of m other classes: of e, and, e being held, of loss and coefficients. */
TEST(means_over_all_sets_are_those_of_all_classes)
{
    for (uint32_t m = 1; m < CLASSES; m++) {
        char options[32] = "negatives=?";
        options[10] = (char)('0' + m);
        rig r = begin(options);
        for (int held = 0; held < 2; held++) {
            double u = 1.25, visits = held ? 1e300 : 3, rho = pow(1 + visits, -0.9);
            double mean_e = 0, loss = 0, mean[CLASSES] = {0}, sets = 0;
            for (uint32_t set = 0; set < 1u << CLASSES; set++) {
                uint32_t classes[CLASSES] = {LABEL}, length = 1;
                for (uint32_t k = 0; k < CLASSES; k++) {
                    if (set >> k & 1 && k != LABEL) {
                        classes[length++] = k;
                    }
                }
                if ((set >> LABEL & 1) || length != m + 1) {
                    continue;
                }
                float g[CLASSES];
                loss += ask(&r, z, length, classes, u, visits, g);
                mean_e += exp(r.u[0]);
                for (uint32_t j = 0; j < length; j++) {
                    mean[classes[j]] += (double)g[j];
                }
                sets++;
            }
            double want_e = (1 - rho) * exp(u) + rho * inverse();
            assert_float_equal(mean_e / sets, want_e, 1e-10 * want_e);
            if (held) {
                assert_float_equal(loss / sets, u + inverse() * exp(-u) - 1, 1e-10);
                double all = 0;
                for (int k = 0; k < CLASSES; k++) {
                    double c = k == LABEL ? 0 : exp((double)z[k] - (double)z[LABEL] - u);
                    all += c;
                    assert_true(k == LABEL || fabs(mean[k] / sets - c) < 1e-6);
                }
                assert_float_equal(mean[LABEL] / sets, -all, 1e-6);
            }
        }
        end(&r);
    }
}

/* Scores far out on either side: nothing overflows, and the sizes are those that they tend to. */
TEST(far_scores_are_finite)
{
    rig r = begin("negatives=1");
    static const uint32_t classes[2] = {LABEL, 0};
    for (int sign = -1; sign < 2; sign += 2) {
        for (int visits = 0; visits < 3; visits++) {
            float far[CLASSES] = {(float)(sign * 1e4)}, g[CLASSES];
            double loss = ask(&r, far, 2, classes, visits == 2 ? 1e4 : 0, visits, g);
            assert_true(isfinite(loss) && isfinite(r.u[0]) && isfinite(g[0]) && isfinite(g[1]));
            if (visits == 0) {
                assert_float_equal(loss, sign > 0 ? 1e4 + log(CLASSES - 1) : 0, 1e-6);
                assert_float_equal((double)g[1], sign > 0, 1e-6);
            }
        }
    }
    end(&r);
}

/* Rows that say one of few contexts: what training ends at are the labels' shares in each, as of the softmax, with one
 * sampled class a step. */
TEST(training_ends_at_the_maximum_likelihood)
{
    enum { CONTEXTS = 3, ROWS = 1500 };
    double share[CONTEXTS][CLASSES];
    HELD_STRUCT(test_problem, p) = test_context_problem(ROWS, CONTEXTS, CLASSES, share[0]);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "augment-reduce", "negatives=1");
    MADE(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    MADE(xsm_trainer, t,
         xsm_trainer_new(NULL, m, p.data, e, o,
                         STRUCT(xsm_trainer_options, .epochs = 600, .batch = 50, .eta = 1,
                                .schedule = XSM_SCHEDULE_STEP, .factor = 0.99),
                         &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    for (uint32_t c = 0; c < CONTEXTS; c++) {
        float x[CONTEXTS] = {0};
        double sum = 0;
        x[c] = 1;
        for (uint32_t k = 0; k < CLASSES; k++) {
            sum += exp(test_score(m, k, x));
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            assert_float_equal(exp(test_score(m, k, x)) / sum, share[c][k], 0.02);
        }
    }
}
