/*
 * Bounds of the softmax's likelihood: their order, where they are equal, scores that are large, and their gradients.
 * Everything goes through an estimator's table, so that scores can be set.
 */
#include "training.h"

#include "estimator/estimator.h"

#include <math.h>
#include <string.h>

enum { MOST = 40 };

/* An estimator bound to a problem of K classes; free with end(). */
typedef struct bound {
    test_problem p;
    xsm_model *m;
    xsm_estimator *e;
    uint32_t classes;
} bound;

static bound start(const char *name, const char *options, uint32_t classes)
{
    xsm_error err = XSM_ERROR_INIT;
    bound b = {.p = test_problem_new(20, 3, classes, false, 2), .classes = classes};
    b.m = test_model(NULL, &b.p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    b.e = test_estimator(NULL, name, options);
    assert_ok(xsm_estimator_bind(b.e, b.m, b.p.data, &err), err);
    return b;
}

static void end(bound *b)
{
    xsm_estimator_free(b->e);
    xsm_model_free(b->m);
    test_problem_free(&b->p);
}

/* Loss of scores z for class y, every class looked at. g may be NULL. */
static double loss_at(const bound *b, const float *z, uint32_t y, float *g)
{
    float held[MOST];
    double loss = NAN;
    _Alignas(64) unsigned char scratch[8192];
    assert_true(b->e->exact && (!b->e->ops.scratch || b->e->ops.scratch(b->e->state) <= sizeof scratch));
    memcpy(held, z, b->classes * sizeof *held);
    xsm_example example = {0, 0, &y, 1, 1};
    xsm_score_block block = {.size = sizeof block,
                             .examples = &example,
                             .count = 1,
                             .batch = 1,
                             .width = b->classes,
                             .scores = held,
                             .eta = 1,
                             .coefficients = held,
                             .losses = &loss,
                             .scratch = scratch};
    b->e->ops.gradient(b->e->state, &block);
    if (g) {
        memcpy(g, held, b->classes * sizeof *held);
    }
    return loss;
}

static void draw(uint64_t *seed, double reach, float *z, uint32_t classes)
{
    for (uint32_t k = 0; k < classes; k++) {
        z[k] = (float)(reach * (2 * test_uniform(seed) - 1));
    }
}

static const double reaches[] = {0, 0.1, 1, 10, 100, 1e4};
#define REACHES (sizeof reaches / sizeof reaches[0])

/* Bouchard's is an upper bound of the log-loss; with two classes equal scores make it 2 log 2, not log 2. */
static void bouchard_is_above_softmax(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 3, 7, MOST};
    uint64_t seed = 4;
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        bound softmax = start("softmax", "", sizes[n]), bouchard = start("bouchard", "", sizes[n]);
        for (int i = 0; i < 3000; i++) {
            float z[MOST];
            draw(&seed, reaches[i % REACHES], z, sizes[n]);
            uint32_t y = (uint32_t)(test_next(&seed) % sizes[n]);
            double exact = loss_at(&softmax, z, y, NULL), upper = loss_at(&bouchard, z, y, NULL);
            assert_true(isfinite(exact) && isfinite(upper) && exact >= 0);
            assert_true(upper >= exact - 1e-6 * (1 + exact));
        }
        float equal[MOST] = {0};
        /* sigma(-alpha) = 1/K at alpha = log(K-1): the bound is log(K-1) + K log(K/(K-1)). */
        double k = sizes[n], want = log(k - 1) + k * log(k / (k - 1));
        assert_true(fabs(loss_at(&bouchard, equal, 0, NULL) - want) < 1e-12 * want);
        end(&softmax);
        end(&bouchard);
    }
}

/* alpha is the tightest: no other gives a smaller bound, and the coefficients add up to 0. */
static void bouchards_alpha_is_the_best(void **state)
{
    (void)state;
    uint64_t seed = 14;
    bound b = start("bouchard", "", 9);
    for (int i = 0; i < 2000; i++) {
        float z[MOST], g[MOST];
        draw(&seed, reaches[i % REACHES], z, 9);
        double loss = loss_at(&b, z, 3, g), sum = 0, most = (double)z[0], least = (double)z[0];
        for (int k = 0; k < 9; k++) {
            sum += (double)g[k];
            assert_true(g[k] >= (k == 3 ? -1 : 0) && g[k] <= 1);
            most = fmax(most, (double)z[k]);
            least = fmin(least, (double)z[k]);
        }
        assert_true(fabs(sum) < 1e-6);
        for (int j = 0; j <= 200; j++) {
            double alpha = least - 1 + (most + 4 - least) * j / 200, other = alpha - (double)z[3];
            for (int k = 0; k < 9; k++) {
                other += log1p(exp(-fabs((double)z[k] - alpha))) + fmax((double)z[k] - alpha, 0);
            }
            assert_true(loss <= other + 1e-10 * (1 + fabs(other)));
        }
    }
    end(&b);
}

/* Coefficients are the derivatives of the loss, at moderate and at large scores. */
static void coefficients_are_slopes(void **state)
{
    (void)state;
    static const struct {
        const char *name, *options;
    } of[] = {{"softmax", ""}, {"bouchard", ""}};
    uint64_t seed = 8;
    for (size_t n = 0; n < sizeof of / sizeof of[0]; n++) {
        bound b = start(of[n].name, of[n].options, 6);
        for (int i = 0; i < 300; i++) {
            float z[MOST], g[MOST];
            double reach = reaches[i % REACHES];
            draw(&seed, reach, z, 6);
            uint32_t y = (uint32_t)(test_next(&seed) % 6);
            loss_at(&b, z, y, g);
            /* Powers of two, so that the scores move by exactly what is divided by. */
            const float h = reach > 1e3 ? 0x1p-4f : 0x1p-7f;
            for (int k = 0; k < 6; k++) {
                double at[4];
                static const float steps[4] = {-2, -1, 1, 2};
                volatile float moved[4];
                float held = z[k];
                for (int s = 0; s < 4; s++) {
                    moved[s] = z[k] = held + steps[s] * h;
                    at[s] = loss_at(&b, z, y, NULL);
                }
                z[k] = held;
                double slope = (8 * (at[2] - at[1]) - (at[3] - at[0])) / (6 * ((double)moved[2] - (double)moved[1]));
                if (!(fabs(slope - (double)g[k]) < 5e-4)) {
                    fail_msg("%s %s: class %d of scores up to %g: differences say %.8g, the coefficient is %.8g",
                             of[n].name, of[n].options, k, reach, slope, (double)g[k]);
                }
            }
        }
        end(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bouchard_is_above_softmax),
        cmocka_unit_test(bouchards_alpha_is_the_best),
        cmocka_unit_test(coefficients_are_slopes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
