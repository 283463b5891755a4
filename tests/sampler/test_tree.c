/*
 * Tests of principal components and the tree over the classes, compared with their defining properties in double
 * precision. Statistical limits would fail for one true random source in a million.
 */
#include "training.h"

#include "base/order.h"
#include "data/pca.h"
#include "math/symmetric.h"
#include "sampler/sampler.h"
#include "sampler/tree_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/draw.h>

/* -- principal components ------------------------------------------------------------------------------------------ */

enum { ROWS = 700, FEATURES = 12 };

/* Rows that vary along few directions, off the origin, one feature constant. */
static xsm_dataset *slanted(test_problem *p, bool sparse)
{
    *p = test_problem_new(ROWS, FEATURES, 5, sparse, 6);
    uint64_t seed = 3;
    for (uint32_t i = 0; i < ROWS; i++) {
        float *x = p->x + i * FEATURES;
        double a = test_uniform(&seed) - 0.5, b = test_uniform(&seed) - 0.5;
        for (uint32_t j = 0; j < FEATURES; j++) {
            if (sparse && x[j] == 0) {
                continue;
            }
            x[j] = j == 4 ? 3 : (float)((double)x[j] * 0.2 + 5 * a * (j % 3 == 0) - 2 * b * (j % 4 == 1) + (j == 7));
        }
    }
    return test_relabel(p, sparse, 5, NULL, p->labels);
}

/* Covariance, or correlation with rows and columns of zeros for constant features; mean and scale too. */
static void plain_covariance(const float *x, bool correlation, double *mean, double *scale, double *c)
{
    for (int j = 0; j < FEATURES; j++) {
        mean[j] = 0;
        for (int i = 0; i < ROWS; i++) {
            mean[j] += (double)x[i * FEATURES + j] / ROWS;
        }
    }
    for (int j = 0; j < FEATURES; j++) {
        for (int l = 0; l < FEATURES; l++) {
            c[j * FEATURES + l] = 0;
            for (int i = 0; i < ROWS; i++) {
                c[j * FEATURES + l] +=
                    ((double)x[i * FEATURES + j] - mean[j]) * ((double)x[i * FEATURES + l] - mean[l]) / ROWS;
            }
        }
    }
    for (int j = 0; j < FEATURES; j++) {
        double variance = c[j * FEATURES + j];
        scale[j] = !correlation ? 1 : variance > 1e-9 ? 1 / sqrt(variance) : 0;
    }
    for (int j = 0; j < FEATURES * FEATURES; j++) {
        c[j] *= scale[j / FEATURES] * scale[j % FEATURES];
    }
}

TEST(components_are_eigenvectors)
{
    HELD(xsm_context, ctx) = test_context(2, TEST_BUILT_IN, 0);
    for (int kind = 0; kind < 16; kind++) {
        bool sparse = kind & 1, correlation = kind & 2, whiten = kind & 4;
        test_problem p;
        xsm_dataset *data = slanted(&p, sparse);
        double mean[FEATURES], scale[FEATURES], c[FEATURES * FEATURES], trace = 0, sum = 0;
        plain_covariance(p.x, correlation, mean, scale, c);
        xsmi_pca_options o = {kind & 8 ? FEATURES : 3, correlation, whiten, 7};
        xsmi_pca pca;
        assert_ok(xsmi_pca_fit(ctx, data, &o, &pca, &err), err);
        bool constant = !sparse; /* feature 4, where no row leaves it out */
        assert_int_equal(pca.components, kind & 8 ? FEATURES - constant : 3);
        for (uint32_t k = 0; k < pca.components; k++) {
            /* the direction in units of the scaled features, of length 1 */
            double v[FEATURES], length = 0, least = 0, most = 0;
            for (int j = 0; j < FEATURES; j++) {
                double raw = (double)pca.direction[(size_t)j * pca.components + k];
                v[j] = scale[j] > 0 ? raw / scale[j] * (whiten ? sqrt(pca.variance[k]) : 1) : 0;
                length += v[j] * v[j];
                most = v[j] > most ? v[j] : most;
                least = v[j] < least ? v[j] : least;
            }
            assert_true(fabs(length - 1) < 1e-5);
            assert_true(most >= -least - 1e-6);
            assert_true(k == 0 || pca.variance[k] <= pca.variance[k - 1] * (1 + 1e-9));
            for (int j = 0; j < FEATURES; j++) {
                double image = 0;
                for (int l = 0; l < FEATURES; l++) {
                    image += c[j * FEATURES + l] * v[l];
                }
                assert_true(fabs(image - pca.variance[k] * v[j]) < 1e-4 * pca.variance[0]);
            }
            sum += pca.variance[k];
        }
        for (int j = 0; j < FEATURES; j++) {
            trace += c[j * FEATURES + j];
        }
        assert_true(kind & 8 ? fabs(sum - trace) < 1e-4 * trace : sum < trace);
        /* codes: centred, uncorrelated, of the variance reported or 1 */
        double moment[FEATURES][FEATURES] = {{0}}, first[FEATURES] = {0};
        for (uint32_t i = 0; i < ROWS; i++) {
            float code[FEATURES];
            xsmi_features x = xsmi_dataset_features(data, i);
            xsmi_pca_encode(&pca, &x, code);
            for (uint32_t a = 0; a < pca.components; a++) {
                first[a] += (double)code[a] / ROWS;
                for (uint32_t b = 0; b < pca.components; b++) {
                    moment[a][b] += (double)code[a] * (double)code[b] / ROWS;
                }
            }
        }
        for (uint32_t a = 0; a < pca.components; a++) {
            double of_a = whiten ? 1 : sqrt(pca.variance[a]);
            assert_true(fabs(first[a]) < 1e-4 * of_a + 1e-5);
            for (uint32_t b = 0; b < pca.components; b++) {
                double of_b = whiten ? 1 : sqrt(pca.variance[b]);
                assert_true(fabs(moment[a][b] / of_a / of_b - (a == b)) < 2e-3);
            }
        }
        xsmi_pca_clear(&pca);
        xsm_dataset_free(data);
        test_problem_free(&p);
    }
}

/* More rows than one piece, so that the pieces' order matters; and every kind of runner. */
TEST(components_do_not_depend_on_threads)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        test_problem p;
        xsm_dataset *data = slanted(&p, sparse);
        xsmi_pca_options o = {2, true, true, 1};
        float first[FEATURES * 2];
        for (int i = 0; i < 4; i++) {
            HELD(xsm_context, ctx) = test_context(i == 0 ? 1 : 3, i % 3, i == 3 ? 1u << 1 : 0);
            xsmi_pca pca;
            assert_ok(xsmi_pca_fit(ctx, data, &o, &pca, &err), err);
            if (i == 0) {
                memcpy(first, pca.direction, sizeof first);
            }
            assert_memory_equal(first, pca.direction, sizeof first);
            xsmi_pca_clear(&pca);
        }
        xsm_dataset_free(data);
        test_problem_free(&p);
    }
}

TEST(components_are_checked)
{
    HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
    HELD_STRUCT(test_problem, p) = test_problem_new(5, 3, 2, false, 1);
    xsmi_pca pca;
    for (uint32_t k = 0; k < 5; k += 4) {
        xsmi_pca_options o = {k, true, true, 1};
        assert_fails(xsmi_pca_fit(ctx, p.data, &o, &pca, &err), XSM_ERROR_RANGE, err);
    }
    for (int i = 0; i < 15; i++) {
        p.x[i] = (float)(i % 3); /* rows all alike: no direction at all */
    }
    HELD(xsm_dataset, same) = test_relabel(&p, false, 2, NULL, p.labels);
    xsmi_pca_options o = {2, false, true, 1};
    assert_ok(xsmi_pca_fit(ctx, same, &o, &pca, &err), err);
    assert_int_equal(pca.components, 0);
    xsmi_pca_clear(&pca);
}

/* -- the tree ------------------------------------------------------------------------------------------------------ */

typedef struct grown {
    test_problem p;
    xsm_dataset *data;
    xsm_sampler *s;
} grown;

/* Classes stand for directions, a few of them have no row. */
static grown grow(xsm_context *ctx, uint64_t rows, uint32_t features, uint32_t classes, bool sparse, const char *key,
                  const char *value)
{
    grown g;
    xsm_error err = XSM_ERROR_INIT;
    g.p = test_problem_new(rows, features, classes, sparse, 2);
    for (uint64_t i = 0; i < rows; i++) {
        g.p.labels[i] = g.p.labels[i] % 5 == 3 && classes > 4 ? 0 : g.p.labels[i];
        float *x = g.p.x + i * features;
        x[g.p.labels[i] % features] += sparse && x[g.p.labels[i] % features] == 0 ? 0 : 1.5f;
    }
    g.data = test_relabel(&g.p, sparse, classes, NULL, g.p.labels);
    g.s = NULL;
    assert_ok(xsm_sampler_new(ctx, "tree", &g.s, &err), err);
    if (key) {
        assert_ok(xsm_sampler_set(g.s, key, value, &err), err);
    }
    assert_ok(xsm_sampler_bind(g.s, g.data, &err), err);
    return g;
}

static void fell(grown *g)
{
    xsm_sampler_free(g->s);
    xsm_dataset_free(g->data);
    test_problem_free(&g->p);
}

/* The state of the sampler begins with its options; the tree is its last member. */
static const xsmi_tree *tree_of(const xsm_sampler *s)
{
    return (const xsmi_tree *)(const void *)((const char *)s->state + s->ops.state_size - sizeof(xsmi_tree));
}

TEST(every_number_of_classes)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8, 9, 33, 100, 129, 300};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        for (int sparse = 0; sparse < 2; sparse++) {
            uint32_t classes = sizes[n];
            grown g = grow(NULL, 400, 10, classes, sparse, NULL, NULL);
            const xsmi_tree *t = tree_of(g.s);
            assert_int_equal(t->classes, classes);
            assert_true(((uint64_t)1 << t->height) >= classes && ((uint64_t)1 << t->height) < 2 * (uint64_t)classes);
            /* each class at one leaf */
            uint32_t found = 0;
            for (size_t leaf = 0; leaf < xsmi_tree_leaves(t); leaf++) {
                if (t->leaf_class[leaf] != XSMI_NO_CLASS) {
                    assert_int_equal(t->class_leaf[t->leaf_class[leaf]], leaf);
                    found++;
                }
            }
            assert_int_equal(found, classes);
            /* probabilities sum to one, and a sweep says what the paths say */
            enum { SWEPT = 40 };
            float *all = malloc(SWEPT * classes * sizeof *all), *code = malloc(t->dims * sizeof *code);
            xsm_batch batch = xsm_batch_range(g.data, 3, SWEPT);
            assert_ok(xsm_sampler_log_probabilities(g.s, &batch, 0, classes, all, &err), err);
            for (uint32_t i = 0; i < SWEPT; i++) {
                double sum = 0;
                xsmi_features x = xsmi_dataset_features(g.data, 3 + i);
                xsmi_tree_encode(t, &x, code);
                for (uint32_t k = 0; k < classes; k++) {
                    double path = xsmi_tree_log_probability(t, code, k);
                    sum += exp(path);
                    assert_true(fabs((double)all[i * classes + k] - path) < 2e-5 * (1 + fabs(path)));
                }
                assert_true(fabs(sum - 1) < 1e-9);
            }
            if (classes > 2) {
                float few[2];
                xsm_batch one = xsm_batch_range(g.data, 3, 1);
                assert_ok(xsm_sampler_log_probabilities(g.s, &one, classes - 2, classes > 33 ? 2 : 1, few, &err), err);
                assert_true(fabsf(few[0] - all[classes - 2]) < 1e-4f);
            }
            free(all);
            free(code);
            fell(&g);
        }
    }
}

/* Rows whose components overflow are refused. */
static void refuse_far_rows(const xsm_sampler *s)
{
    static const float x[2][6] = {{0}, {3e38f, 3e38f, 3e38f, -3e38f, -3e38f, -3e38f}};
    const xsm_batch batch = xsm_batch_values(x[0], 2, 6, 6);
    uint32_t drawn[2];
    float all[22];
    xsm_error err = XSM_ERROR_INIT;
    const xsm_draw draw = {.size = sizeof draw, .batch = &batch, .count = 1, .classes = drawn};
    assert_fails(xsm_sampler_draw(s, &draw, &err), XSM_ERROR_RANGE, err);
    for (uint32_t count = 1; count <= 11; count += 10) { /* one, then swept */
        assert_fails(xsm_sampler_log_probabilities(s, &batch, 0, count, all, &err), XSM_ERROR_RANGE, err);
        assert_non_null(strstr(err.message, "row 1 "));
    }
}

TEST(draws_follow_the_tree)
{
    enum { CLASSES = 11, DRAWS = 40000 };
    static uint32_t drawn[DRAWS];
    static double log_q[DRAWS];
    grown g = grow(NULL, 300, 6, CLASSES, false, NULL, NULL);
    const xsmi_tree *t = tree_of(g.s);
    refuse_far_rows(g.s);
    for (uint64_t row = 0; row < 6; row++) {
        float code[16];
        xsmi_features x = xsmi_dataset_features(g.data, row);
        xsmi_tree_encode(t, &x, code);
        xsm_batch batch = xsm_batch_range(g.data, row, 1);
        assert_ok(xsm_sampler_draw(g.s,
                                   STRUCT(xsm_draw, .batch = &batch, .seed = 4, .position = row, .count = DRAWS,
                                          .classes = drawn, .log_probabilities = log_q),
                                   &err),
                  err);
        double seen[CLASSES] = {0}, chi = 0, freedom = -1, rest_seen = 0, rest = 0;
        for (int i = 0; i < DRAWS; i++) {
            assert_true(drawn[i] < CLASSES); /* never a leaf without a class */
            /* a descent's logistics are floats: 3e-7 a level */
            assert_true(fabs(log_q[i] - xsmi_tree_log_probability(t, code, drawn[i])) < 2e-6);
            seen[drawn[i]]++;
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            double want = exp(xsmi_tree_log_probability(t, code, k)) * DRAWS;
            if (want < 10) {
                rest += want;
                rest_seen += seen[k];
            } else {
                chi += (seen[k] - want) * (seen[k] - want) / want;
                freedom++;
            }
        }
        chi += rest > 1 ? (rest_seen - rest) * (rest_seen - rest) / rest : 0;
        freedom += rest > 1;
        assert_true(freedom < 1 || chi < freedom + 5 * sqrt(2 * freedom) + 20);
    }
    fell(&g);
}

/* Gathers the rows below a node, in the test's own way. */
static double node_objective(const grown *g, size_t node, const double *w, double ridge, double *slope)
{
    const xsmi_tree *t = tree_of(g->s);
    double sum = 0;
    memset(slope, 0, t->dims * sizeof *slope);
    for (uint64_t i = 0; i < g->p.rows; i++) {
        size_t at = xsmi_tree_leaves(t) + t->class_leaf[g->p.labels[i]];
        while (at / 2 > node) {
            at /= 2;
        }
        if (at / 2 != node) {
            continue;
        }
        float code[32];
        xsmi_features x = xsmi_dataset_features(g->data, i);
        xsmi_tree_encode(t, &x, code);
        double score = 0, zeta = at % 2 ? 1 : -1;
        for (uint32_t j = 0; j < t->dims; j++) {
            score += w[j] * (double)code[j];
        }
        sum -= log1p(exp(-zeta * score));
        for (uint32_t j = 0; j < t->dims; j++) {
            slope[j] += zeta * (double)code[j] / (1 + exp(zeta * score));
        }
    }
    for (uint32_t j = 0; j < t->dims; j++) {
        sum -= ridge * w[j] * w[j];
        slope[j] -= 2 * ridge * w[j];
    }
    return sum;
}

/* At each node: Newton has reached the optimum, the labels on the right have the larger Delta, sides are halves. */
TEST(nodes_are_optimal)
{
    enum { CLASSES = 21 };
    for (int kind = 0; kind < 2; kind++) {
        grown g = grow(NULL, 500, 8, CLASSES, false, kind ? "ridge" : NULL, kind ? "2" : NULL);
        const xsmi_tree *t = tree_of(g.s);
        double ridge = kind ? 2 : 0.1;
        for (size_t node = 1; node < xsmi_tree_leaves(t); node++) {
            uint32_t side[2] = {0, 0};
            double w[32], slope[32], delta[CLASSES] = {0}, least_right = INFINITY, most_left = -INFINITY;
            bool below[CLASSES] = {false}, right[CLASSES] = {false};
            for (uint32_t k = 0; k < CLASSES; k++) {
                size_t at = xsmi_tree_leaves(t) + t->class_leaf[k];
                while (at / 2 > node) {
                    at /= 2;
                }
                below[k] = at / 2 == node;
                right[k] = at % 2;
                side[at % 2] += below[k];
            }
            for (uint32_t j = 0; j < t->dims; j++) {
                w[j] = (double)t->nodes[node * t->dims + j];
            }
            if (side[0] + side[1] < 2) {
                assert_true(w[t->pca.components] == -(double)XSMI_TREE_SURE && side[0] == 1);
                continue;
            }
            assert_true(side[0] == side[1] || side[0] == side[1] + 1);
            /* As the objective is 2 ridge-strongly concave, it is at most |slope|^2/(4 ridge) below its optimum. */
            double value = node_objective(&g, node, w, ridge, slope), distance = 0;
            for (uint32_t j = 0; j < t->dims; j++) {
                distance += slope[j] * slope[j] / (4 * ridge);
            }
            assert_true(distance <= 1e-5 * fabs(value));
            for (uint64_t i = 0; i < g.p.rows; i++) {
                float code[32];
                xsmi_features x = xsmi_dataset_features(g.data, i);
                xsmi_tree_encode(t, &x, code);
                for (uint32_t j = 0; j < t->dims; j++) {
                    delta[g.p.labels[i]] += w[j] * (double)code[j];
                }
            }
            for (uint32_t k = 0; k < CLASSES; k++) {
                least_right = below[k] && right[k] && delta[k] < least_right ? delta[k] : least_right;
                most_left = below[k] && !right[k] && delta[k] > most_left ? delta[k] : most_left;
            }
            assert_true(most_left <= least_right + 1e-3);
        }
        fell(&g);
    }
}

/* The largest objective of a root that sends the labels of `mask` to the right: Newton's method in the test's own way.
 */
static double best_of_split(const float *codes, const uint32_t *labels, uint64_t rows, uint32_t dims, uint32_t mask,
                            double ridge)
{
    enum { MOST = 8 };
    double w[MOST] = {0}, value = -INFINITY;
    assert_true(dims <= MOST);
    for (int step = 0; step < 40; step++) {
        double a[MOST][MOST + 1] = {{0}}, now = 0;
        for (uint32_t j = 0; j < dims; j++) {
            now -= ridge * w[j] * w[j];
            a[j][j] = 2 * ridge;
            a[j][dims] = -2 * ridge * w[j];
        }
        for (uint64_t i = 0; i < rows; i++) {
            const float *x = codes + i * dims;
            double score = 0, zeta = mask >> labels[i] & 1 ? 1 : -1;
            for (uint32_t j = 0; j < dims; j++) {
                score += w[j] * (double)x[j];
            }
            const double wrong = 1 / (1 + exp(zeta * score));
            now -= log1p(exp(-zeta * score));
            for (uint32_t j = 0; j < dims; j++) {
                a[j][dims] += zeta * wrong * (double)x[j];
                for (uint32_t l = 0; l < dims; l++) {
                    a[j][l] += wrong * (1 - wrong) * (double)x[j] * (double)x[l];
                }
            }
        }
        value = now;
        for (uint32_t j = 0; j < dims; j++) { /* Gauss and Jordan; the matrix is positive definite */
            for (uint32_t i = 0; i < dims; i++) {
                const double factor = i == j ? 0 : a[i][j] / a[j][j];
                for (uint32_t l = j; l <= dims; l++) {
                    a[i][l] -= factor * a[j][l];
                }
            }
        }
        for (uint32_t j = 0; j < dims; j++) {
            w[j] += a[j][dims] / a[j][j];
        }
    }
    return value;
}

/* Eight labels can be halved in 35 ways. Fitting and halving in turns ends at a local optimum, which need not be the
 * best of them; but every root's is above their mean, where one in two would be by chance. */
TEST(splits_are_near_the_best)
{
    enum { CLASSES = 8, TRIED = 12 };
    int best_found = 0;
    double share = 0;
    for (int n = 0; n < TRIED; n++) {
        grown g = grow(NULL, 160 + 20 * (uint64_t)n, 3 + (uint32_t)n % 4, CLASSES, false, NULL, NULL);
        const xsmi_tree *t = tree_of(g.s);
        float *codes = malloc(g.p.rows * t->dims * sizeof *codes);
        for (uint64_t i = 0; i < g.p.rows; i++) {
            xsmi_features x = xsmi_dataset_features(g.data, i);
            xsmi_tree_encode(t, &x, codes + i * t->dims);
        }
        uint32_t own = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            own |= (t->class_leaf[k] >= xsmi_tree_leaves(t) / 2 ? 1u : 0) << k;
        }
        double best = -INFINITY, mean = 0, found = 0, w[32], slope[32];
        for (uint32_t mask = 0; mask < 1u << CLASSES; mask++) {
            if (__builtin_popcount(mask) != CLASSES / 2) {
                continue;
            }
            double value = best_of_split(codes, g.p.labels, g.p.rows, t->dims, mask, 0.1);
            best = XSMI_MAX(best, value);
            mean += value / 70; /* each way twice, with the sides swapped */
            found = mask == own ? value : found;
        }
        for (uint32_t j = 0; j < t->dims; j++) {
            w[j] = (double)t->nodes[t->dims + j];
        }
        /* the weights are the best of their split, but for their rounding to floats and where Newton stops */
        assert_true(fabs(node_objective(&g, 1, w, 0.1, slope) - found) <= 1e-5 * fabs(found));
        best_found += best - found <= 1e-9 * fabs(best);
        assert_true(found <= best && found > mean);
        share += (found - mean) / (best - mean) / TRIED;
        free(codes);
        fell(&g);
    }
    print_message("the best of 35 splits in %d of %d; on average %.2f of what the best is above the mean\n", best_found,
                  TRIED, share);
}

/* Large nodes are fitted by all threads together, the others by one each: many rows, so that there are both. */
TEST(fits_do_not_depend_on_threads)
{
    enum { CLASSES = 9 };
    float first[16 * 8];
    for (int i = 0; i < 4; i++) {
        HELD(xsm_context, ctx) = test_context(i == 0 ? 1 : 3, i % 3, i == 3 ? 3u : 0);
        grown g = grow(ctx, 40000, 5, CLASSES, false, NULL, NULL);
        const xsmi_tree *t = tree_of(g.s);
        const size_t bytes = xsmi_tree_leaves(t) * t->dims * sizeof *first;
        assert_true(bytes <= sizeof first);
        if (i == 0) {
            memcpy(first, t->nodes, bytes);
        }
        assert_memory_equal(first, t->nodes, bytes);
        fell(&g);
    }
}

/* Rows that say one of three contexts: every node can tell all of them apart, so that the tree's log-likelihood is that
 * of the labels' shares in each context, the largest that there is, less what the ridge costs. */
TEST(the_tree_learns)
{
    enum { CONTEXTS = 3, CLASSES = 8, MANY = 6000 };
    double share[CONTEXTS][CLASSES], by_tree = 0, by_share = 0;
    HELD_STRUCT(test_problem, p) = test_context_problem(MANY, CONTEXTS, CLASSES, share[0]);
    MADE(xsm_sampler, s, xsm_sampler_new(NULL, "tree", &s, &err));
    assert_ok(xsm_sampler_bind(s, p.data, &err), err);
    const xsmi_tree *t = tree_of(s);
    for (uint64_t i = 0; i < MANY; i++) {
        float code[32];
        uint32_t c = 0;
        xsmi_features x = xsmi_dataset_features(p.data, i);
        xsmi_tree_encode(t, &x, code);
        while (p.x[i * CONTEXTS + c] == 0) {
            c++;
        }
        by_tree += xsmi_tree_log_probability(t, code, p.labels[i]) / MANY;
        by_share += log(share[c][p.labels[i]]) / MANY;
    }
    /* The logistics are floats; 0.1 of the ridge on seven nodes costs some thousandth of a nat at six thousand rows. */
    assert_true(by_tree <= by_share + 1e-6);
    assert_true(by_tree >= by_share - 0.005);
}

TEST(the_same_tree_on_any_threads)
{
    HELD_MEMORY(float, first) = NULL;
    uint32_t leaves[64];
    size_t bytes = 0;
    for (int i = 0; i < 4; i++) {
        HELD(xsm_context, ctx) = test_context(i == 0 ? 1 : 3, i % 3, i == 3 ? 1u << 1 : 0);
        grown g = grow(ctx, 900, 9, 50, false, NULL, NULL);
        const xsmi_tree *t = tree_of(g.s);
        if (i == 0) {
            bytes = 64 * t->dims * sizeof(float);
            first = malloc(bytes);
            memcpy(first, t->nodes, bytes);
            memcpy(leaves, t->leaf_class, sizeof leaves);
        }
        assert_memory_equal(first, t->nodes, bytes);
        assert_memory_equal(leaves, t->leaf_class, sizeof leaves);
        fell(&g);
    }
}

/* Rows all alike, and labels whose rows are: whatever is drawn, it is drawn as the numbers say. */
TEST(alike_rows)
{
    enum { CLASSES = 6, N = 240 };
    for (int kind = 0; kind < 2; kind++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(N, 4, CLASSES, false, 2);
        for (uint32_t i = 0; i < N; i++) {
            p.labels[i] = i % 12 < 7 ? 0 : i % 12 - 6; /* 7 of 12, then one in 12 each */
            for (uint32_t j = 0; j < 4; j++) {
                p.x[i * 4 + j] = kind == 0 ? 1 : (float)(i / 12 % 5) * (float)(j + 1);
            }
        }
        HELD(xsm_dataset, data) = test_relabel(&p, false, CLASSES, NULL, p.labels);
        MADE(xsm_sampler, s, xsm_sampler_new(NULL, "tree", &s, &err));
        assert_ok(xsm_sampler_set(s, "ridge", "0.0001", &err), err);
        assert_ok(xsm_sampler_bind(s, data, &err), err);
        float all[CLASSES];
        xsm_batch batch = xsm_batch_range(data, 17, 1);
        assert_ok(xsm_sampler_log_probabilities(s, &batch, 0, CLASSES, all, &err), err);
        for (int k = 0; k < CLASSES; k++) {
            assert_true(fabs(exp((double)all[k]) - (k == 0 ? 7 : 1) / 12.0) < 2e-3);
        }
    }
}

TEST(options_are_checked)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(40, 4, 6, false, 2);
    MADE(xsm_sampler, s, xsm_sampler_new(NULL, "tree", &s, &err));
    assert_ok(xsm_sampler_set(s, "components", "5", &err), err);
    assert_fails(xsm_sampler_bind(s, p.data, &err), XSM_ERROR_RANGE, err);
    assert_ok(xsm_sampler_set(s, "components", "2", &err), err);
    assert_ok(xsm_sampler_set(s, "folds", "1", &err), err);
    assert_fails(xsm_sampler_bind(s, p.data, &err), XSM_ERROR_RANGE, err);
    assert_ok(xsm_sampler_set(s, "folds", "41", &err), err);
    assert_fails(xsm_sampler_bind(s, p.data, &err), XSM_ERROR_RANGE, err);
    assert_ok(xsm_sampler_set(s, "folds", "4", &err), err);
    assert_ok(xsm_sampler_bind(s, p.data, &err), err);
    assert_int_equal(tree_of(s)->pca.components, 2);
}

/* Labels that have nothing to do with the features: the strongest ridge is the best, and the tree shows it. */
TEST(folds_choose_the_ridge)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(300, 12, 4, false, 2);
    MADE(xsm_sampler, s, xsm_sampler_new(NULL, "tree", &s, &err));
    MADE(xsm_sampler, strong, xsm_sampler_new(NULL, "tree", &strong, &err));
    assert_ok(xsm_sampler_set(s, "folds", "5", &err), err);
    assert_ok(xsm_sampler_set(strong, "ridge", "10", &err), err);
    assert_ok(xsm_sampler_bind(s, p.data, &err), err);
    assert_ok(xsm_sampler_bind(strong, p.data, &err), err);
    assert_memory_equal(tree_of(s)->nodes, tree_of(strong)->nodes, 4 * tree_of(s)->dims * sizeof(float));
}
