/*
 * Tests of estimators for rows with several labels: `margin` and `one-vs-all` compared with their definitions in
 * double, the sampled one-vs-all over every set of classes that can be drawn, and the draws.
 */
#include "training.h"

#include "methods/method.h"
#include "loss/loss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 40, FEATURES = 6 };

static test_rig build(const char *name, const char *options, uint32_t classes, uint32_t most, bool sparse, double size)
{
    return test_rig_new(name, options, ROWS, FEATURES, classes, most, sparse, true, size);
}

static bool is_label(const test_rig *r, uint64_t row, uint32_t k)
{
    for (uint64_t j = r->offsets[row]; j < r->offsets[row + 1]; j++) {
        if (r->labels[j] == k) {
            return true;
        }
    }
    return false;
}

static double softplus(double t)
{
    return t > 0 ? t + log1p(exp(-t)) : log1p(exp(t));
}

/* Coefficients and loss of one row in double. */
static double want_row(const test_rig *r, const char *name, double mu, uint64_t row, double *g)
{
    uint32_t classes = r->m->classes;
    size_t own = 0, others = 0;
    HELD_MEMORY(double, z) = calloc(classes, sizeof *z);
    HELD_MEMORY(double, positive) = calloc(4 * (size_t)classes, sizeof *positive);
    double *negative = positive + classes, *g_positive = negative + classes, *g_negative = g_positive + classes;
    assert_true(z && positive);
    double loss = 0;
    for (uint32_t k = 0; k < classes; k++) {
        z[k] = test_score(r->m, k, r->p.x + row * FEATURES);
        *(is_label(r, row, k) ? &positive[own++] : &negative[others++]) = z[k];
    }
    if (strcmp(name, "margin") == 0) {
        size_t bytes = xsmi_loss_margin.scratch(own, others) * sizeof(double);
        double *scratch = malloc(bytes);
        assert_non_null(scratch);
        xsmi_loss_scores scores = {positive, negative, own, others, 0};
        xsmi_loss_gradient out = {g_positive, g_negative, 0, 0};
        loss = xsmi_loss_margin.gradient(&scores, mu, &out, scratch);
        free(scratch);
        own = others = 0;
        for (uint32_t k = 0; k < classes; k++) {
            g[k] = is_label(r, row, k) ? g_positive[own++] : g_negative[others++];
        }
    } else {
        for (uint32_t k = 0; k < classes; k++) {
            bool label = is_label(r, row, k);
            loss += softplus(label ? -z[k] : z[k]);
            g[k] = 1 / (1 + exp(-z[k])) - label;
        }
    }
    return loss;
}

/* A batch of every row against the definitions. */
static void check_exact(const char *name, const char *options, double mu, uint32_t classes, uint32_t most, bool sparse,
                        double size)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_rig, r) = build(name, options, classes, most, sparse, size);
    xsm_batch batch = xsm_batch_range(r.data, 0, ROWS);
    assert_ok(xsm_estimator_gradient(r.e, &batch, 0.1, r.g, &err), err);
    xsm_gradient_view view = test_view(r.g);
    assert_null(view.classes);
    HELD_MEMORY(double, want) = calloc(classes, sizeof *want);
    double loss = 0;
    assert_non_null(want);
    for (uint64_t i = 0; i < ROWS; i++) {
        loss += want_row(&r, name, mu, i, want);
        for (uint32_t k = 0; k < classes; k++) {
            double have = (double)view.coefficients[i * classes + k] * ROWS;
            if (!(fabs(have - want[k]) <= 1e-5 * (1 + size / mu))) {
                fail_msg("%s %s, %u classes: row %llu class %u: %g, not %g", name, options, classes,
                         (unsigned long long)i, k, have, want[k]);
            }
        }
    }
    assert_true(fabs(view.loss - loss / ROWS) <= 1e-5 * (1 + loss / ROWS));
}

TEST(exact_estimators_are_as_defined)
{
    static const uint32_t sizes[][2] = {{1, 1}, {2, 1}, {2, 2}, {7, 1}, {7, 3}, {64, 5}, {65, 5}, {511, 9}, {1300, 4}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int sparse = 0; sparse < 2; sparse++) {
            for (double size = 0.01; size < 100; size *= 20) {
                check_exact("one-vs-all", "", 1, sizes[i][0], sizes[i][1], sparse, size);
                check_exact("one-vs-all-sampled", "negatives=all", 1, sizes[i][0], sizes[i][1], sparse, size);
                check_exact("margin", "", 1, sizes[i][0], sizes[i][1], sparse, size);
                check_exact("margin", "mu=5", 5, sizes[i][0], sizes[i][1], sparse, size);
                check_exact("margin", "mu=200", 200, sizes[i][0], sizes[i][1], sparse, size);
            }
        }
    }
}

/* Sums of logarithms through products of hundreds of factors, at scores of all sizes. */
TEST(one_vs_all_of_many_classes)
{
    check_exact("one-vs-all", "", 1, 20000, 1, false, 0.1);
    check_exact("one-vs-all", "", 1, 5000, 1, false, 1000);
}

/* Classes enough for several ranges, each with a bar of its own. */
TEST(margin_of_many_classes)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        check_exact("margin", "", 1, 60000, 3, sparse, 0.5);
        check_exact("margin", "mu=5", 5, 60000, 3, sparse, 20);
    }
}

/* Nothing of a batch is left in the next one's gradient, be it smaller or larger. */
TEST(margin_of_batch_after_batch)
{
    static const uint64_t counts[] = {1, 9, 3, 20, 2, 17, 33, 5};
    HELD_STRUCT(test_rig, r) = build("margin", "mu=2", 1300, 4, false, 1);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        xsm_batch batch = xsm_batch_range(r.data, i, counts[i]);
        MADE(xsm_gradient, fresh, xsm_gradient_new(NULL, &fresh, &err));
        assert_ok(xsm_estimator_gradient(r.e, &batch, 0.1, r.g, &err), err);
        assert_ok(xsm_estimator_gradient(r.e, &batch, 0.1, fresh, &err), err);
        xsm_gradient_view have = test_view(r.g), want = test_view(fresh);
        assert_memory_equal(have.coefficients, want.coefficients, counts[i] * 1300 * sizeof(float));
        double sum = 0;
        for (uint64_t j = 0; j < counts[i] * 1300; j++) {
            sum += fabs((double)have.coefficients[j]);
        }
        assert_true(sum > 0);
    }
}

/* A host's copy of the table is called with all scores, and comes to the same. */
TEST(copied_margin_takes_all_scores)
{
    static const uint32_t sizes[][2] = {{1, 1}, {2, 2}, {65, 5}, {1300, 4}, {50000, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        HELD_STRUCT(test_rig, r) = build("margin", "", sizes[i][0], sizes[i][1], i % 2, 2);
        xsm_estimator_ops ops = *xsm_estimator_find("margin");
        xsm_batch batch = xsm_batch_range(r.data, 0, ROWS);
        MADE(xsm_estimator, copy, xsm_estimator_new_from(NULL, &ops, &copy, &err));
        assert_ok(xsm_estimator_bind(copy, r.m, r.data, &err), err);
        MADE(xsm_gradient, g, xsm_gradient_new(NULL, &g, &err));
        assert_ok(xsm_estimator_gradient(r.e, &batch, 0.1, r.g, &err), err);
        assert_ok(xsm_estimator_gradient(copy, &batch, 0.1, g, &err), err);
        xsm_gradient_view have = test_view(r.g), want = test_view(g);
        for (size_t j = 0; j < (size_t)ROWS * sizes[i][0]; j++) {
            assert_true(fabs((double)have.coefficients[j] - (double)want.coefficients[j]) <= 1e-7);
        }
        assert_true(fabs(have.loss - want.loss) <= 1e-12 * (1 + want.loss));
    }
}

TEST(scores_that_are_not_finite_are_told_of)
{
    static const char *const names[] = {"margin", "one-vs-all", "one-vs-all-sampled"};
    for (int n = 0; n < 3; n++) {
        for (int kind = 0; kind < 3; kind++) {
            HELD_STRUCT(test_rig, r) = build(names[n], "", 5, 2, false, 1);
            uint32_t k = kind ? r.labels[0] : (r.labels[0] + 1) % 5;
            for (uint32_t other = 0; other < 5; other++) {
                r.m->w.bias[other] = other == k || n == 2 ? (kind == 2 ? NAN : INFINITY) : 0;
            }
            xsm_batch batch = xsm_batch_range(r.data, 0, ROWS);
            assert_fails(xsm_estimator_gradient(r.e, &batch, 0.1, r.g, &err), XSM_ERROR_DIVERGED, err);
        }
    }
}

/* -- sampling ------------------------------------------------------------------------------------------------------ */

static uint32_t bits(uint32_t set)
{
    return set ? (set & 1) + bits(set >> 1) : 0;
}

/* The mean over every set of m classes that are no labels is the exact gradient. */
TEST(sampled_one_vs_all_is_unbiased)
{
    enum { K = 7 };
    static const float all[K] = {0.5f, -1.25f, 0.75f, 2, -3, 0.125f, 1};
    static const uint32_t label_sets[] = {1u << 2, 1u << 0 | 1u << 6, 1u << 1 | 1u << 3 | 1u << 4, (1u << K) - 1};
    for (int s = 0; s < 4; s++) {
        uint32_t labels[K], own = 0;
        for (uint32_t k = 0; k < K; k++) {
            if (label_sets[s] >> k & 1) {
                labels[own++] = k;
            }
        }
        for (uint32_t m = 1; m <= (own < K ? K - own : 1); m++) {
            HELD_STRUCT(test_rig, r) = build("one-vs-all-sampled", "negatives=3", K, 3, false, 1);
            double mean[K] = {0}, loss = 0;
            uint32_t sets = 0;
            for (uint32_t set = 0; set < 1u << K; set++) {
                if (bits(set) != (own < K ? m : 0) || (set & label_sets[s])) {
                    continue;
                }
                uint32_t classes[K], length = own;
                float g[K];
                memcpy(classes, labels, own * sizeof *classes);
                for (uint32_t k = 0; k < K; k++) {
                    if (set >> k & 1) {
                        classes[length++] = k;
                    }
                }
                xsm_example example = {0, 0, labels, own, 1};
                loss += test_ask(r.e, &example, length, classes, all, 1e-3, g);
                sets++;
                for (uint32_t j = 0; j < length; j++) {
                    mean[classes[j]] += (double)g[j];
                }
            }
            double want = 0;
            for (uint32_t k = 0; k < K; k++) {
                bool label = label_sets[s] >> k & 1;
                double z = (double)all[k];
                want += softplus(label ? -z : z);
                assert_true(fabs(mean[k] / sets - (1 / (1 + exp(-z)) - label)) < 1e-6);
            }
            assert_true(fabs(loss / sets - want) < 1e-6);
        }
    }
    (void)err;
}

/* Lists hold the labels in rising order, then distinct others, each of them equally often. */
TEST(negatives_are_drawn_alike)
{
    enum { K = 23, DRAWS = 20000 };
    static const uint32_t labels[] = {22, 4, 0, 11, 5};
    for (uint32_t m = 1; m <= 20; m += m < 4 ? 1 : 7) {
        uint64_t times[K] = {0};
        for (uint64_t i = 0; i < DRAWS; i++) {
            xsm_example example = {i, i, labels, 5, 1};
            uint32_t list[5 + 20], length;
            xsmi_select_negatives(xsmi_kernels_select(0),
                                  &(xsmi_negative_lists){7, K, m, 5 + m, &example, 1, list, &length});
            uint32_t want = m < K - 5 ? m : K - 5, seen = 0;
            assert_int_equal(length, 5 + want);
            for (uint32_t j = 0; j < length; j++) {
                assert_true(list[j] < K && !(seen >> list[j] & 1));
                seen |= 1u << list[j];
                times[list[j]] += j >= 5;
            }
            static const uint32_t sorted[] = {0, 4, 5, 11, 22};
            assert_memory_equal(list, sorted, sizeof sorted);
        }
        double chi = 0, mean = (double)(m < K - 5 ? m : K - 5) * DRAWS / (K - 5);
        for (uint32_t k = 0; k < K; k++) {
            bool label = k == 0 || k == 4 || k == 5 || k == 11 || k == 22;
            assert_true(!label || times[k] == 0);
            chi += label ? 0 : ((double)times[k] - mean) * ((double)times[k] - mean) / mean;
        }
        assert_true(chi < 44.9); /* 17 degrees of freedom: exceeded once in 4,000; sets without replacement vary less */
    }
}

/* A run of one step or a batch is the same draw: means over a batch are those of its rows. */
TEST(batches_are_means)
{
    static const char *const names[] = {"margin", "one-vs-all", "one-vs-all-sampled"};
    for (int n = 0; n < 3; n++) {
        HELD_STRUCT(test_rig, whole) = build(names[n], "", 50, 4, true, 1);
        HELD_STRUCT(test_rig, single) = build(names[n], "", 50, 4, true, 1);
        xsm_batch batch = xsm_batch_range(whole.data, 0, ROWS);
        assert_ok(xsm_estimator_gradient(whole.e, &batch, 0.1, whole.g, &err), err);
        xsm_gradient_view view = test_view(whole.g);
        double loss = 0;
        for (uint64_t i = 0; i < ROWS; i++) {
            xsm_batch row = xsm_batch_range(single.data, i, 1);
            assert_ok(xsm_estimator_gradient(single.e, &row, 0.1, single.g, &err), err);
            xsm_gradient_view one = test_view(single.g);
            loss += one.loss;
            assert_true(!view.lengths || view.lengths[i] == one.lengths[0]);
            for (uint64_t j = 0; j < (view.lengths ? view.lengths[i] : view.width); j++) {
                double want = (double)one.coefficients[j] / ROWS;
                assert_true(!view.classes || view.classes[i * view.width + j] == one.classes[j]);
                assert_true(fabs((double)view.coefficients[i * view.width + j] - want) <= 2e-7 * fabs(want));
            }
        }
        assert_true(fabs(view.loss - loss / ROWS) < 1e-12 * fabs(view.loss));
    }
}
