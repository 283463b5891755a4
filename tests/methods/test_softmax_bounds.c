/*
 * Tests of bounds of the softmax's likelihood: their order, where they are equal, large scores, and gradients. All
 * calls go through an estimator's table, so that scores can be set.
 */
#include "training.h"

#include "estimator/estimator.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include <xsoftmax/bindings.h>

enum { MOST = 40, MANY = 1300 };

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
    float held[MANY];
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
TEST(bouchard_is_above_softmax)
{
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
TEST(bouchards_alpha_is_the_best)
{
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

/* More classes than are taken at a time, the largest anywhere: coefficients by bisection in double. */
TEST(bouchards_alpha_of_many_classes)
{
    uint64_t seed = 24;
    static const uint32_t tops[] = {0, 1, 511, 512, 513, 1024, MANY - 1};
    bound b = start("bouchard", "", MANY);
    for (int i = 0; i < 70; i++) {
        static float z[MANY], g[MANY];
        draw(&seed, (double)(i % 10) * 12, z, MANY);
        uint32_t top = tops[i % 7];
        z[top] = 100 + (float)(i % 10);
        (void)loss_at(&b, z, MANY - 2, g);
        double low = -300, high = 300;
        for (int step = 0; step < 100; step++) {
            double alpha = (low + high) / 2, sum = 0;
            for (uint32_t k = 0; k < MANY; k++) { /* with 1 - sigma(z - alpha) of the largest on the other side */
                sum += k == top ? -1 / (1 + exp((double)z[k] - alpha)) : 1 / (1 + exp(alpha - (double)z[k]));
            }
            low = sum > 0 ? alpha : low;
            high = sum > 0 ? high : alpha;
        }
        for (int k = 0; k < MANY; k++) {
            double want = 1 / (1 + exp(low - (double)z[k])) - (k == MANY - 2);
            double least = k == MANY - 2 ? 1e-7 : (double)FLT_MIN;
            assert_true(fabs((double)g[k] - want) <= 2e-6 * fabs(want) + least);
        }
    }
    end(&b);
}

/* softmax <= tightened one-vs-each <= one-vs-each as losses, tighter with every class more, and equal at the ends:
 * C of all classes is the softmax, and with two classes everything is. */
TEST(tighter_is_closer)
{
    enum { CLASSES = 7 };
    uint64_t seed = 24;
    bound softmax = start("softmax", "", CLASSES), plain = start("ove", "negatives=all", CLASSES);
    bound listed = start("ove", "negatives=all tight-classes=0,1,2,3,4,5,6", CLASSES);
    bound tight[CLASSES + 1];
    for (int c = 0; c <= CLASSES; c++) {
        char list[80] = "negatives=all tight-classes=";
        static const char *const order[] = {"4",         "4,0",         "4,0,6",        "4,0,6,2",
                                            "4,0,6,2,1", "4,0,6,2,1,5", "4,0,6,2,1,5,3"};
        strcat(list, c ? order[c - 1] : "");
        tight[c] = start("ove", c ? list : "negatives=all", CLASSES);
    }
    for (int i = 0; i < 4000; i++) {
        float z[MOST], g[MOST], want[MOST];
        double reach = reaches[i % REACHES];
        draw(&seed, reach, z, CLASSES);
        uint32_t y = (uint32_t)(test_next(&seed) % CLASSES);
        double exact = loss_at(&softmax, z, y, want), before = loss_at(&plain, z, y, NULL);
        double small = 1e-6 * (1 + exact); /* softmax adds float32 exponentials */
        for (int c = 0; c <= CLASSES; c++) {
            double loss = loss_at(&tight[c], z, y, g), sum = 0;
            assert_true(isfinite(loss) && loss >= exact - small && loss <= before + 1e-12 * (1 + before));
            for (int k = 0; k < CLASSES; k++) {
                sum += (double)g[k];
                assert_true(isfinite(g[k]));
            }
            assert_true(fabs(sum) < 2e-6);
            before = loss;
        }
        assert_true(fabs(before - exact) <= small);
        assert_true(loss_at(&listed, z, y, NULL) == before);
        for (int k = 0; k < CLASSES; k++) {
            assert_true(fabs((double)g[k] - (double)want[k]) < 2e-6);
        }
    }
    for (int c = 0; c <= CLASSES; c++) {
        end(&tight[c]);
    }
    end(&softmax);
    end(&plain);
    end(&listed);
    bound two = start("softmax", "", 2), ove = start("ove", "", 2), one = start("ove", "tight=1", 2);
    for (int i = 0; i < 1000; i++) {
        float z[2], a[2], b[2];
        draw(&seed, reaches[i % REACHES], z, 2);
        double loss = loss_at(&two, z, 1, a), other = loss_at(&ove, z, 1, b);
        assert_true(fabs(loss - other) <= 1e-6 * (1 + loss) && fabs((double)a[0] - (double)b[0]) < 1e-6);
        assert_true(fabs(loss_at(&one, z, 1, NULL) - other) <= 1e-12 * (1 + loss));
    }
    end(&two);
    end(&ove);
    end(&one);
}

/* The tightest bounds that have no C: one-vs-each is below Bouchard's at its own optimum for equal scores of few
 * classes (Titsias 2016 compares the two there), and each may be the better one elsewhere; both are bounds, which is
 * what the tests above say. With two classes one-vs-each is exact and Bouchard's is not. */
TEST(two_classes_tell_the_bounds_apart)
{
    bound ove = start("ove", "", 2), bouchard = start("bouchard", "", 2);
    for (int i = 0; i <= 40; i++) {
        float z[2] = {0, (float)(i - 20) / 4};
        double exact = log1p(exp((double)z[1])), upper = loss_at(&bouchard, z, 0, NULL);
        assert_true(fabs(loss_at(&ove, z, 0, NULL) - exact) < 1e-12);
        /* alpha is the mean of the two: the bound is z_1/2 + 2 log(1 + e^-|z_1|/2) + |z_1|/2 */
        double half = fabs((double)z[1]) / 2;
        assert_true(fabs(upper - ((double)z[1] / 2 + half + 2 * log1p(exp(-half)))) < 1e-12);
        assert_true(upper > exact);
    }
    end(&ove);
    end(&bouchard);
}

/* -- what is drawn ------------------------------------------------------------------------------------------------- */

/* With C = {1, 4} of 7 classes: each class outside comes up equally often, C always, the label first, none twice; and
 * the mean over the draws is the full bound. */
TEST(tight_samples_are_unbiased)
{
    enum { CLASSES = 7, DRAWS = 30000 };
    bound full = start("ove", "negatives=all tight-classes=4,1", CLASSES);
    for (uint32_t m = 1; m <= 4; m += 1) {
        char options[80] = "tight-classes=4,1 negatives=0";
        options[strlen(options) - 1] = (char)('0' + m);
        bound b = start("ove", options, CLASSES);
        assert_false(b.e->exact);
        for (uint32_t y = 0; y < CLASSES; y += 2) { /* 4 is in C, the others are not */
            float z[CLASSES] = {0.5f, -1, 2, 0.25f, -0.5f, 1.5f, 0}, want[CLASSES];
            double loss_full = loss_at(&full, z, y, want), loss_mean = 0, mean[CLASSES] = {0};
            uint32_t seen[CLASSES] = {0};
            uint32_t others = y == 4 ? 5 : 4, drawn = m < others ? m : others;
            uint64_t width = b.e->width;
            for (uint64_t i = 0; i < DRAWS; i++) {
                uint32_t classes[CLASSES], length = 0, listed = 0;
                float g[CLASSES];
                xsm_example example = {0, i, &y, 1, 1};
                b.e->ops.select(b.e->state, &example, 1, classes, &length);
                assert_true(length <= width && length == (y == 4 ? 2 : 3) + drawn);
                assert_int_equal(classes[0], y);
                for (uint32_t j = 0; j < length; j++) {
                    assert_true(classes[j] < CLASSES && !(listed >> classes[j] & 1));
                    listed |= 1u << classes[j];
                    seen[classes[j]]++;
                }
                assert_true((listed & 0x12) == 0x12);
                loss_mean += test_ask(b.e, &example, length, classes, z, 1, g) / DRAWS;
                for (uint32_t j = 0; j < length; j++) {
                    mean[classes[j]] += (double)g[j] / DRAWS;
                }
            }
            for (uint32_t k = 0; k < CLASSES; k++) {
                bool outside = k != y && k != 1 && k != 4;
                double share = (double)drawn / others, off = fabs(seen[k] - share * DRAWS);
                assert_true(!outside || off <= 5 * sqrt(DRAWS * share * (1 - share)) + 1e-9); /* one in 1.7 million */
                assert_true(fabs(mean[k] - (double)want[k]) < 0.06);
            }
            assert_true(fabs(loss_mean - loss_full) < 0.06);
        }
        end(&b);
    }
    end(&full);
}

/* `tight=N` takes the most frequent classes. */
TEST(tight_takes_the_frequent)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(10, 2, 5, false, 1);
    static const uint32_t labels[10] = {3, 3, 3, 1, 1, 0, 0, 4, 2, 3};
    HELD(xsm_dataset, data) = test_relabel(&p, false, 5, NULL, labels);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    static const char *const same[][2] = {{"tight=1", "tight-classes=3"},
                                          {"tight=2", "tight-classes=3,0"},
                                          {"tight=4", "tight-classes=0,1,2,3"},
                                          {"tight=all", "tight-classes=4,3,2,1,0"}};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        bound b[2];
        float z[5] = {1, -2, 0.5f, 3, 0};
        double loss[2];
        for (int s = 0; s < 2; s++) {
            b[s] = (bound){.classes = 5};
            b[s].e = test_estimator(NULL, "ove", same[i][s]);
            assert_ok(xsm_estimator_set(b[s].e, "negatives", "all", &err), err);
            assert_ok(xsm_estimator_bind(b[s].e, m, data, &err), err);
            loss[s] = loss_at(&b[s], z, 1, NULL);
            xsm_estimator_free(b[s].e);
        }
        assert_true(loss[0] == loss[1]);
    }
    static const struct {
        const char *options, *says;
    } wrong[] = {{"tight=6", "only 5 classes"},
                 {"tight-classes=5", "class 5"},
                 {"tight=2 tight-classes=1", "one is enough"},
                 {"tight=2 negatives=4", "only 3 other classes"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        HELD(xsm_estimator, e) = test_estimator(NULL, "ove", wrong[i].options);
        assert_fails(xsm_estimator_bind(e, m, data, &err), XSM_ERROR_RANGE, err);
        assert_non_null(strstr(err.message, wrong[i].says));
    }
}

/* Lists of classes as options. */
TEST(lists_are_options)
{
    HELD(xsm_estimator, e) = test_estimator(NULL, "ove", "");
    char text[32];
    assert_int_equal(xsm_estimator_get(e, "tight-classes", text, sizeof text), 0);
    assert_string_equal(text, "");
    static const uint32_t classes[] = {70000, 3, 12};
    assert_ok(xsm_estimator_set_classes(e, "tight-classes", classes, 3, &err), err);
    assert_int_equal(xsm_estimator_get(e, "tight-classes", text, sizeof text), 10);
    assert_string_equal(text, "70000,3,12");
    assert_int_equal(xsm_estimator_get(e, "tight-classes", text, 8), 10);
    assert_string_equal(text, "70000,3");
    static const char *const bad[] = {",", "1,", "1,,2", "a", "-1", "1 2", "1.5", "4294967296", "99999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_fails(xsm_estimator_set(e, "tight-classes", bad[i], &err), XSM_ERROR_FORMAT, err);
    }
    assert_fails(xsm_estimator_set(e, "tight-classes", "1,2,1", &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_estimator_set(e, "tight-classes", "4294967295", &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_estimator_set_number(e, "tight-classes", 3, &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_estimator_set_classes(e, "tight", classes, 3, &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_estimator_set_classes(e, "tite", classes, 3, &err), XSM_ERROR_NAME, err);
    assert_fails(xsm_estimator_set_classes(e, "tight-classes", NULL, 3, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_estimator_set_classes(NULL, "tight-classes", classes, 3, &err), XSM_ERROR_ARGUMENT, err);
    assert_int_equal(xsm_estimator_get(e, "tight-classes", NULL, 0), 10); /* as it was */
    assert_ok(xsm_estimator_set(e, "tight-classes", "", &err), err);
    assert_int_equal(xsm_estimator_get(e, "tight-classes", NULL, 0), 0);
    assert_ok(xsm_estimator_set(e, "negatives", "all", &err), err);
    assert_int_equal(xsm_estimator_get(e, "negatives", text, sizeof text), 3);
    assert_string_equal(text, "all");
    assert_fails(xsm_estimator_set(e, "negatives", "none", &err), XSM_ERROR_FORMAT, err);
    assert_non_null(strstr(err.message, "all"));
    assert_fails(xsm_estimator_set_number(e, "negatives", -1, &err), XSM_ERROR_RANGE, err);
}

/* Coefficients are the derivatives of the loss, at moderate and at large scores. */
TEST(coefficients_are_slopes)
{
    static const struct {
        const char *name, *options;
    } of[] = {{"softmax", ""},
              {"bouchard", ""},
              {"ove", "negatives=all"},
              {"ove", "negatives=all tight=2"},
              {"ove", "negatives=all tight-classes=5,1,3"}};
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
