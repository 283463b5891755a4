/*
 * Tests of the sampler 'label-tree': its distribution against the one that the scores of the label tree's nodes give
 * here, and means of gradients over its draws against exact gradients.
 */
#include "training.h"

#include <xsoftmax/draw.h>
#include <xsoftmax/ext/sampler.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/sampler.h>

#include "sampler/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 300, FEATURES = 20, CLASSES = 70 };

static xsm_sampler *bound(const xsm_dataset *data, const char *const *set)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_sampler, s, xsm_sampler_new(NULL, "label-tree", &s, &err));
    for (; *set; set += 2) {
        assert_ok(xsm_sampler_set(s, set[0], set[1], &err), err);
    }
    assert_ok(xsm_sampler_bind(s, data, &err), err);
    return s;
}

/* The log-probability of a node in the tree, softmax over siblings. */
static double node_score(const xsm_model *m, uint32_t node, const xsmi_features *x)
{
    const xsmi_class_tree *t = m->head->labels->tree[0].tree;
    double sum = 0;
    for (uint32_t v = node; v != 0; v = t->parent[v]) {
        float z[CLASSES + 1];
        xsmi_label_children(m->head->labels, 0, t->parent[v], x, z);
        sum += (double)z[v - t->first_child[t->parent[v]]];
    }
    return sum;
}

/* With a beam of all clusters: shares of clusters are powers of the tree's probabilities, classes share by frequency.
 * With few, the best clusters by level; here the tree has one level of clusters. */
TEST(the_distribution_is_that_of_the_tree)
{
    for (int kind = 0; kind < 4; kind++) {
        const char *const set[] = {"leaf", "6", "clusters", kind & 1 ? "3" : "64", "power", "0.7", "share", "0.25",
                                   "seed", "5", NULL};
        const uint32_t most = kind & 1 ? 3 : 64;
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, kind & 2, 4);
        HELD(xsm_sampler, s) = bound(p.data, set);
        xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
        HELD(xsm_model, m) = NULL;
        o.leaf = 6;
        o.seed = 5;
        assert_ok(xsm_fit_label_tree(NULL, p.data, &o, &m, NULL, &err), err);
        const xsmi_class_tree *t = m->head->labels->tree[0].tree;
        const uint64_t *counts = test_class_counts(p.data);
        for (uint64_t row = 0; row < ROWS; row += 7) {
            const xsmi_features x = xsmi_dataset_features(p.data, row);
            double share[CLASSES * 2] = {0}, score[CLASSES * 2], within[CLASSES * 2] = {0}, total = 0, sum = 0;
            for (uint32_t k = 0; k < CLASSES; k++) {
                const uint32_t c = t->parent[t->class_leaf[k]];
                within[c] += (double)counts[k] + 1;
                score[c] = node_score(m, c, &x);
            }
            for (uint32_t n = 0; n < most; n++) { /* the best that are left */
                uint32_t best = UINT32_MAX;
                for (uint32_t v = 0; v < t->nodes; v++) {
                    if (within[v] > 0 && share[v] <= 0 && (best == UINT32_MAX || score[v] > score[best])) {
                        best = v;
                    }
                }
                if (best == UINT32_MAX) {
                    break;
                }
                share[best] = exp(0.7 * score[best]);
                total += share[best];
            }
            const xsm_batch one = xsm_batch_range(p.data, row, 1);
            float have[CLASSES];
            assert_ok(xsm_sampler_log_probabilities(s, &one, 0, CLASSES, have, &err), err);
            for (uint32_t k = 0; k < CLASSES; k++) {
                const uint32_t c = t->parent[t->class_leaf[k]];
                const double n = (double)counts[k] + 1;
                const double want = 0.75 * share[c] / total * n / within[c] + 0.25 * n / (ROWS + CLASSES);
                assert_float_equal(exp((double)have[k]), want, 2e-5 * want);
                sum += exp((double)have[k]);
            }
            assert_float_equal(sum, 1, 1e-5);
        }
    }
}

/* sigma(s_k - s_y) of row 11. */
static double slope_of(const xsm_model *m, const test_problem *p, uint32_t k)
{
    const float *x = p->x + (size_t)11 * FEATURES;
    return 1 / (1 + exp(test_score(m, p->labels[11], x) - test_score(m, k, x)));
}

/* One-vs-each: a draw of class k counts sigma(s_k - s_y)/q(k|x), so that its mean is that of the exact loss. */
TEST(estimates_are_unbiased)
{
    const char *const set[] = {"leaf", "6", "clusters", "2", NULL};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 4);
    HELD(xsm_sampler, s) = bound(p.data, set);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
    HELD(xsm_estimator, e) = test_estimator(NULL, "ove-sampled", "negatives=1");
    HELD(xsm_gradient, g) = test_gradient(NULL);
    assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    enum { REPEATS = 4000 };
    const xsm_batch one = xsm_batch_range(p.data, 11, 1);
    float log_q[CLASSES];
    double mean[CLASSES] = {0}, square[CLASSES] = {0};
    assert_ok(xsm_sampler_log_probabilities(s, &one, 0, CLASSES, log_q, &err), err);
    for (int r = 0; r < REPEATS; r++) { /* each gradient draws anew */
        assert_ok(xsm_estimator_gradient(e, &one, 0.1, g, &err), err);
        const xsm_gradient_view view = test_view(g);
        for (uint32_t j = 0; j < view.lengths[0]; j++) {
            const uint32_t k = view.classes[j];
            if (k != p.labels[11]) {
                const double want = slope_of(m, &p, k) * exp(-(double)log_q[k]);
                assert_float_equal((double)view.coefficients[j], want, 1e-4 * want);
            }
            mean[k] += (double)view.coefficients[j] / REPEATS;
            square[k] += (double)view.coefficients[j] * (double)view.coefficients[j] / REPEATS;
        }
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        const double exact = slope_of(m, &p, k);
        const double deviation = sqrt((square[k] - mean[k] * mean[k]) / REPEATS);
        if (k != p.labels[11]) { /* 6 deviations: one run in 10^7 of a right table fails */
            assert_true(fabs(mean[k] - exact) <= 6 * deviation + 1e-4);
        }
    }
}

/* negative-sampling needs log q in the model: a copy of the sampler, which a file of the model has no place for. */
TEST(negative_sampling_takes_it)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 4);
    xsm_model *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_estimator *e = test_estimator(NULL, "negative-sampling", "sampler=label-tree");
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 1;
    options.eta = 0.1;
    NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    NEW(xsm_trainer, t, xsm_trainer_new(NULL, m, p.data, e, o, &options, &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_SAMPLER);
    assert_fails(xsm_model_save(m, test_path("label_tree.model"), NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    test_files_end();
}
