/*
 * Tests of hierarchical softmax: the shape of its trees, probabilities that sum to one in every function that scores,
 * gradients compared with central differences, the optimum of training, files, and refused combinations.
 */
#include "training.h"

#include <xsoftmax/index.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

#include "estimator/estimator.h"
#include "methods/method.h"
#include "model/hierarchy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- trees --------------------------------------------------------------------------------------------------------- */

static uint32_t depth_of(const xsmi_class_tree *h, uint32_t class)
{
    uint32_t nodes[4096], turns[4096];
    uint32_t count = xsmi_hierarchy_path(h, class, nodes, turns);
    assert_true(count <= h->depth && nodes[count - 1] == 0);
    return count;
}

/* Inner nodes of the subtree of v; each has two children, and their numbers are those of a walk through the subtree
 * that begins at `number`. */
static uint32_t walk(const xsmi_class_tree *h, uint32_t v, uint32_t number)
{
    if (xsmi_class_tree_is_leaf(h, v)) {
        assert_int_equal(h->class_leaf[xsmi_class_tree_class(h, v)], v);
        return 0;
    }
    const uint32_t left = h->first_child[v];
    assert_int_equal(h->first_child[v + 1], left + 2);
    assert_int_equal(h->number[v], number);
    assert_int_equal(h->inner_node[number], v);
    assert_true(xsmi_hierarchy_turn(left) == 0 && xsmi_hierarchy_turn(left + 1) == 1);
    assert_true(h->parent[left] == v && h->parent[left + 1] == v);
    const uint32_t first = walk(h, left, number + 1);
    return 1 + first + walk(h, left + 1, number + 1 + first);
}

/* Every class hangs where its path says, nodes are in preorder, and a file's tree is the same. */
static void check_tree(xsm_context *ctx, const xsmi_class_tree *h)
{
    xsm_error err = XSM_ERROR_INIT;
    uint32_t deepest = 0;
    for (uint32_t k = 0; k < h->classes; k++) {
        assert_true(h->made[h->class_leaf[k]] == (XSMI_TREE_LEAF | k));
        uint32_t depth = depth_of(h, k);
        deepest = depth > deepest ? depth : deepest;
    }
    assert_int_equal(deepest, h->depth);
    xsmi_class_tree *again = NULL;
    assert_int_equal(walk(h, 0, 0), h->classes - 1);
    assert_ok(xsmi_hierarchy_new(ctx, h->made, h->nodes, h->classes, &again, &err), err);
    assert_non_null(again);
    assert_int_equal(again->depth, h->depth);
    assert_memory_equal(again->number, h->number, h->nodes * sizeof *h->number);
    assert_memory_equal(again->class_leaf, h->class_leaf, h->classes * sizeof *h->class_leaf);
    xsmi_class_tree_release(again);
}

TEST(balanced_trees)
{
    HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
    for (uint32_t classes = 2; classes < 70; classes++) {
        uint32_t order[70], low = 0;
        while (((uint32_t)2 << low) <= classes) {
            low++;
        }
        for (uint32_t i = 0; i < classes; i++) {
            order[i] = classes - 1 - i;
        }
        xsmi_class_tree *h = NULL;
        for (int given = 0; given < 2; given++) {
            assert_ok(xsmi_hierarchy_balanced(ctx, given ? order : NULL, classes, &h, &err), err);
            check_tree(ctx, h);
            for (uint32_t k = 0; k < classes; k++) {
                assert_true(depth_of(h, k) >= low && depth_of(h, k) <= low + 1);
            }
            /* The first half of the order is on the left of the root. */
            for (uint32_t i = 0; i < classes; i++) {
                uint32_t v = h->class_leaf[given ? order[i] : i];
                while (h->parent[v] != 0) {
                    v = h->parent[v];
                }
                assert_int_equal(xsmi_hierarchy_turn(v), i >= (classes + 1) / 2);
            }
            xsmi_class_tree_release(h);
        }
    }
    xsmi_class_tree *h = NULL;
    assert_fails(xsmi_hierarchy_balanced(ctx, NULL, 1, &h, &err), XSM_ERROR_RANGE, err);
}

/* The least sum of weight * depth over all trees with these weights, by trying each way to merge two. */
static uint64_t least_cost(const uint64_t *weights, int count)
{
    uint64_t best = UINT64_MAX, rest[8];
    if (count == 1) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        for (int j = i + 1; j < count; j++) {
            int n = 0;
            for (int k = 0; k < count; k++) {
                if (k != i && k != j) {
                    rest[n++] = weights[k];
                }
            }
            rest[n++] = weights[i] + weights[j];
            uint64_t cost = weights[i] + weights[j] + least_cost(rest, n);
            best = cost < best ? cost : best;
        }
    }
    return best;
}

TEST(huffman_trees_have_the_least_depth)
{
    HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
    uint64_t seed = 5;
    for (int trial = 0; trial < 200; trial++) {
        uint64_t weights[6], cost = 0;
        uint32_t classes = 2 + (uint32_t)(test_next(&seed) % 5);
        for (uint32_t k = 0; k < classes; k++) {
            weights[k] = trial % 3 == 0 ? test_next(&seed) % 3 : test_next(&seed) % 1000;
        }
        xsmi_class_tree *h = NULL;
        assert_ok(xsmi_hierarchy_huffman(ctx, weights, classes, &h, &err), err);
        check_tree(ctx, h);
        for (uint32_t k = 0; k < classes; k++) {
            cost += weights[k] * depth_of(h, k);
        }
        assert_int_equal(cost, least_cost(weights, (int)classes));
        xsmi_class_tree_release(h);
    }
    /* Powers of two hang as a chain; classes without rows do not. */
    uint64_t weights[60];
    xsmi_class_tree *h = NULL;
    for (uint32_t k = 0; k < 60; k++) {
        weights[k] = (uint64_t)1 << k;
    }
    assert_ok(xsmi_hierarchy_huffman(ctx, weights, 60, &h, &err), err);
    check_tree(ctx, h);
    assert_int_equal(h->depth, 59);
    assert_int_equal(depth_of(h, 59), 1);
    xsmi_class_tree_release(h);
    memset(weights, 0, sizeof weights);
    assert_ok(xsmi_hierarchy_huffman(ctx, weights, 60, &h, &err), err);
    assert_int_equal(h->depth, 6);
    xsmi_class_tree_release(h);
}

TEST(what_is_no_tree)
{
    HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
    const uint32_t L = XSMI_TREE_LEAF;
    const uint32_t bad[][7] = {
        {2, 2, 2, L, L | 1, L | 2, L | 2}, /* a class twice */
        {2, 2, 2, L, L | 1, L | 2, L | 4}, /* a class that there is not */
        {3, 2, L, L | 1, L | 2, L | 3, L}, /* three children */
        {2, 1, 2, L, L | 1, L | 2, 1},     /* one child */
        {2, 2, L, L | 1, L | 2, 2, L | 3}, /* children that there are not */
        {L, L | 1, 2, L | 2, L | 3, 2, L}, /* nodes that hang on nothing */
        {2, 0, 2, L, L | 1, L | 2, L | 3}, /* no child */
    };
    xsmi_class_tree *h = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_ok(xsmi_hierarchy_new(ctx, bad[i], 7, 4, &h, &err), err);
        assert_null(h);
    }
    const uint32_t wide[] = {3, L, L | 1, L | 2}, chain[] = {2, 1, L, L | 1}; /* trees, but not binary ones */
    assert_ok(xsmi_hierarchy_new(ctx, wide, 4, 3, &h, &err), err);
    assert_null(h);
    assert_ok(xsmi_hierarchy_new(ctx, chain, 4, 2, &h, &err), err);
    assert_null(h);
    const uint32_t fine[] = {2, 2, L | 3, L | 1, 2, L, L | 2};
    assert_ok(xsmi_hierarchy_new(ctx, fine, 7, 4, &h, &err), err);
    assert_non_null(h);
    check_tree(ctx, h);
    xsmi_class_tree_release(h);
}

/* -- scores -------------------------------------------------------------------------------------------------------- */

static const char *const trees[] = {"tree=fitted", "tree=balanced", "tree=huffman"};

/* A model of random weights with a tree: what a trainer of no epochs leaves. */
static xsm_model *random_model(xsm_context *ctx, const test_problem *p, const char *tree, int32_t layout, double size)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(ctx, p, true, layout, size, 3);
    xsm_estimator *e = test_estimator(ctx, "hierarchical", tree);
    assert_ok(xsm_estimator_bind(e, m, p->data, &err), err);
    xsmi_model_set_head(m, e->head);
    xsm_estimator_free(e);
    assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_HIERARCHY);
    return m;
}

/* log p(k|x) in double, from the root down. */
static double log_p(const xsm_model *m, uint32_t class, const float *x)
{
    const xsmi_class_tree *h = m->head->hierarchy;
    double sum = 0;
    for (uint32_t v = h->class_leaf[class]; v != 0; v = h->parent[v]) {
        double z = test_score(m, h->number[h->parent[v]], x);
        double t = v == h->first_child[h->parent[v]] ? z : -z; /* sigma(z) is the probability of the right child */
        sum -= (t > 0 ? t : 0) + log1p(exp(-fabs(t)));
    }
    return sum;
}

TEST(probabilities_sum_to_one)
{
    static const uint32_t sizes[] = {2, 3, 5, 64, 171, 700};
    for (int kind = 0; kind < 6 * 3 * 4; kind++) {
        uint32_t classes = sizes[kind % 6];
        bool sparse = kind / 18 & 1;
        int32_t layout = kind / 36 ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR;
        HELD_STRUCT(test_problem, p) = test_problem_new(300, 12, classes, sparse, 2);
        HELD(xsm_model, m) = random_model(NULL, &p, trees[kind / 6 % 3], layout, 2);
        HELD_MEMORY(float, all) = calloc(300 * (size_t)classes, sizeof *all);
        HELD_MEMORY(float, some) = calloc(300 * (size_t)classes, sizeof *some);
        HELD_MEMORY(uint32_t, chosen) = calloc(300 * (size_t)classes, sizeof *chosen);
        assert_true(all && some && chosen);
        xsm_batch batch = xsm_batch_range(p.data, 0, 300);
        assert_ok(xsm_model_score_range(m, &batch, 0, classes, all, classes, &err), err);
        for (size_t i = 0; i < 300 * (size_t)classes; i++) {
            chosen[i] = (uint32_t)(i % classes);
        }
        assert_ok(xsm_model_scores(m, &batch, chosen, classes, some, &err), err);
        double loss = 0;
        for (uint32_t i = 0; i < 300; i++) {
            double sum = 0;
            for (uint32_t k = 0; k < classes; k++) {
                double want = log_p(m, k, p.x + i * p.features), have = (double)all[i * (size_t)classes + k];
                assert_float_equal(have, want, 1e-5 * (1 + fabs(want)));
                assert_float_equal((double)some[i * (size_t)classes + k], want, 1e-5 * (1 + fabs(want)));
                sum += exp(have);
            }
            assert_float_equal(sum, 1, 1e-5);
            loss -= log_p(m, p.labels[i], p.x + i * p.features) / 300;
        }
        /* A part of the classes, on borders of no tile; bits as before. */
        uint32_t first = classes / 3, count = classes - first - classes / 5;
        assert_ok(xsm_model_score_range(m, &batch, first, count, some, count, &err), err);
        for (uint32_t i = 0; i < 300; i++) {
            assert_memory_equal(some + i * (size_t)count, all + i * (size_t)classes + first, count * sizeof *some);
        }
        xsm_metrics metrics = XSM_METRICS_INIT;
        assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), err);
        assert_float_equal(metrics.log_loss, loss, 2e-5 * (1 + loss));
    }
}

/* The search opens a part of the nodes, and finds what sorting all probabilities finds. */
TEST(best_classes_are_found)
{
    enum { CLASSES = 400, ROWS = 60 };
    for (int kind = 0; kind < 12; kind++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, 12, CLASSES, kind & 1, 2);
        HELD(xsm_model, m) = random_model(NULL, &p, trees[kind / 2 % 3],
                                          kind < 6 ? XSM_LAYOUT_CLASS_MAJOR : XSM_LAYOUT_FEATURE_MAJOR, 2);
        static float all[ROWS * CLASSES];
        xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, all, CLASSES, &err), err);
        for (uint32_t top = 1; top <= CLASSES; top = top == 1    ? 25
                                                     : top == 25 ? 26
                                                     : top == 26 ? CLASSES
                                                                 : 2 * CLASSES) {
            xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
            options.top = top;
            static uint32_t classes[ROWS * CLASSES];
            static float scores[ROWS * CLASSES];
            static double probabilities[ROWS * CLASSES];
            NEW(xsm_predictor, predictor, xsm_predictor_new(m, &options, &predictor, &err));
            assert_ok(test_predict(predictor, &batch, classes, scores, probabilities, &err), err);
            uint64_t opened = test_predictor_info(predictor).probed;
            assert_true(top <= 25 ? opened > 0 && opened < ROWS * (CLASSES - 1) : opened == 0);
            for (uint32_t i = 0; i < ROWS; i++) {
                char seen[CLASSES] = {0};
                for (uint32_t k = 0; k < top; k++) {
                    size_t at = i * (size_t)top + k;
                    double log_score = (double)all[i * CLASSES + classes[at]];
                    assert_false(seen[classes[at]]++);
                    assert_float_equal((double)scores[at], log_score, 1e-5 * (1 + fabs(log_score)));
                    assert_float_equal(probabilities[at], exp((double)scores[at]), 1e-6);
                    assert_true(k == 0 || scores[at] <= scores[at - 1]);
                }
                for (uint32_t k = 0; k < CLASSES; k++) {
                    assert_true(seen[k] || all[i * CLASSES + k] <= scores[(i + 1) * (size_t)top - 1] + 1e-4f);
                }
            }
            xsm_predictor_free(predictor);
        }
    }
    /* Equal probabilities: the smaller classes; what is not finite is said. */
    HELD_STRUCT(test_problem, p) = test_problem_new(3, 2, 64, false, 2);
    HELD(xsm_model, flat) = random_model(NULL, &p, "tree=balanced", XSM_LAYOUT_CLASS_MAJOR, 0);
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = 3;
    uint32_t classes[9];
    xsm_batch batch = xsm_batch_range(p.data, 0, 3);
    MADE(xsm_predictor, predictor, xsm_predictor_new(flat, &options, &predictor, &err));
    assert_ok(test_predict(predictor, &batch, classes, NULL, NULL, &err), err);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(classes[i], i % 3);
    }
    flat->w.bias[0] = NAN;
    assert_fails(test_predict(predictor, &batch, classes, NULL, NULL, &err), XSM_ERROR_DIVERGED, err);
}

/* The same bits whatever the machine. */
TEST(scores_have_the_same_bits)
{
    static const uint32_t cpus[] = {0, XSM_CPU_DISABLE_AVX512, XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON};
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(70, 12, 700, sparse, 2);
        static float first[70 * 700], other[70 * 700];
        for (int i = 0; i < 6; i++) {
            HELD(xsm_context, ctx) = test_context(i < 3 ? 1 : 3, TEST_BUILT_IN, cpus[i % 3]);
            HELD(xsm_model, m) = random_model(ctx, &p, "tree=huffman", XSM_LAYOUT_CLASS_MAJOR, 2);
            xsm_batch batch = xsm_batch_range(p.data, 0, 70);
            assert_ok(xsm_model_score_range(m, &batch, 0, 700, i ? other : first, 700, &err), err);
            assert_true(!i || memcmp(first, other, sizeof first) == 0);
        }
    }
}

/* -- gradients ----------------------------------------------------------------------------------------------------- */

static double loss_of(xsm_model *m, const test_problem *p, uint64_t n)
{
    double loss = 0;
    for (uint64_t i = 0; i < n; i++) {
        loss -= log_p(m, p->labels[i], p->x + i * p->features);
    }
    return loss / (double)n;
}

TEST(gradients_are_central_differences)
{
    for (int kind = 0; kind < 6; kind++) {
        enum { N = 9, K = 13, D = 5 };
        HELD_STRUCT(test_problem, p) = test_problem_new(60, D, K, kind & 1, 2);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 3);
        HELD(xsm_estimator, e) = test_estimator(NULL, "hierarchical", trees[kind / 2]);
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        xsmi_model_set_head(m, e->head);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        xsm_batch batch = xsm_batch_range(p.data, 0, N);
        assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g, &err), err);
        xsm_gradient_view view = test_view(g);
        assert_float_equal(view.loss, loss_of(m, &p, N), 1e-6);
        double bias[K] = {0}, weight[K][D] = {{0}};
        for (uint64_t i = 0; i < N; i++) {
            for (uint32_t j = 0; j < view.lengths[i]; j++) {
                uint32_t row = view.classes[i * view.width + j];
                double c = (double)view.coefficients[i * view.width + j];
                bias[row] += c;
                for (uint32_t f = 0; f < D; f++) {
                    weight[row][f] += c * (double)p.x[i * D + f];
                }
            }
        }
        for (uint32_t k = 0; k < K; k++) {
            for (uint32_t f = 0; f <= D; f++) {
                float *at = f < D ? &m->w.weight[k * m->w.stride + f] : &m->w.bias[k], held = *at;
                *at = held + 0x1p-8f;
                double up = loss_of(m, &p, N);
                *at = held - 0x1p-8f;
                double down = loss_of(m, &p, N);
                *at = held;
                assert_float_equal(f < D ? weight[k][f] : bias[k], (up - down) * 0x1p7, 2e-5);
            }
        }
    }
}

/* -- training ------------------------------------------------------------------------------------------------------ */

static xsm_model *trained(xsm_context *ctx, const test_problem *p, const char *tree, uint64_t batch, uint64_t epochs,
                          double eta, const char *optimizer)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(ctx, "hierarchical", tree);
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, optimizer, &o, &err));
    NEW(xsm_trainer, t,
        xsm_trainer_new(ctx, m, p->data, e, o,
                        STRUCT(xsm_trainer_options, .epochs = epochs, .batch = batch, .eta = eta,
                               .schedule = XSM_SCHEDULE_STEP, .factor = 0.85),
                        &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    return m;
}

/* Rows that say one of few contexts: the optimum is the labels' shares in each context, whatever the tree. */
TEST(training_ends_at_the_shares)
{
    enum { CONTEXTS = 3, CLASSES = 5, ROWS = 3000 };
    double share[CONTEXTS][CLASSES];
    HELD_STRUCT(test_problem, p) = test_context_problem(ROWS, CONTEXTS, CLASSES, share[0]);
    for (int i = 0; i < 3; i++) {
        HELD(xsm_model, m) = trained(NULL, &p, trees[i], 30, 40, 2, "sgd");
        for (uint32_t c = 0; c < CONTEXTS; c++) {
            float x[CONTEXTS] = {0};
            x[c] = 1;
            for (uint32_t k = 0; k < CLASSES; k++) {
                assert_float_equal(exp(log_p(m, k, x)), share[c][k], 0.01);
            }
        }
    }
}

TEST(training_has_the_same_bits)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(500, 8, 900, false, 31);
    for (int kind = 0; kind < 4; kind++) {
        uint64_t first = 0;
        for (uint32_t threads = 1; threads < 4; threads++) {
            HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, threads == 2 ? XSM_CPU_DISABLE_AVX512 : 0);
            HELD(xsm_model, m) =
                trained(ctx, &p, trees[kind % 3], kind & 1 ? 50 : 1, 2, 0.2, kind < 2 ? "sgd" : "adagrad");
            uint64_t hash = test_hash(m);
            first = threads == 1 ? hash : first;
            assert_true(hash == first);
        }
    }
}

/* -- the model ----------------------------------------------------------------------------------------------------- */

TEST(models_are_saved_and_go_on)
{
    char path[] = "test_hierarchical_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    HELD_STRUCT(test_problem, p) = test_problem_new(300, 8, 40, false, 31);
    HELD(xsm_model, m) = trained(NULL, &p, "tree=huffman", 10, 3, 0.5, "sgd");
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    NEW(xsm_model, loaded, xsm_model_load(NULL, path, NULL, NULL, &loaded, &err));
    assert_int_equal(test_model_info(loaded).correction, XSM_CORRECTION_HIERARCHY);
    static float was[300 * 40], is[300 * 40];
    xsm_batch batch = xsm_batch_range(p.data, 0, 300);
    assert_ok(xsm_model_score_range(m, &batch, 0, 40, was, 40, &err), err);
    assert_ok(xsm_model_score_range(loaded, &batch, 0, 40, is, 40, &err), err);
    assert_memory_equal(was, is, sizeof is);
    /* The loaded model keeps its tree, whatever the option says. */
    xsm_estimator *e = test_estimator(NULL, "hierarchical", "tree=balanced");
    assert_ok(xsm_estimator_bind(e, loaded, p.data, &err), err);
    assert_ptr_equal(e->head, loaded->head);
    xsm_estimator_free(e);
    /* What other estimators and indexes would make of its rows is refused. */
    static const char *const others[] = {"softmax", "ove", "negative-sampling", "implicit"};
    for (int i = 0; i < 4; i++) {
        e = test_estimator(NULL, others[i], "");
        assert_fails(xsm_estimator_bind(e, loaded, p.data, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_non_null(strstr(err.message, "hierarchical"));
        xsm_estimator_free(e);
    }
    NEW(xsm_index, index, xsm_index_new(NULL, "exact", &index, &err));
    assert_fails(xsm_index_build_model(index, loaded, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_index_free(index);
    xsm_model_free(loaded);
    /* A file whose tree is none. */
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    static char bytes[1 << 16];
    size_t size = fread(bytes, 1, sizeof bytes, f);
    const uint32_t root[2] = {m->head->hierarchy->made[0], m->head->hierarchy->made[1]};
    bool changed = false;
    for (size_t i = 0; i + sizeof root <= size && !changed; i += 4) {
        if (memcmp(bytes + i, root, sizeof root) == 0) {
            bytes[i] ^= 1;
            changed = true;
        }
    }
    assert_true(changed);
    rewind(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
    loaded = (xsm_model *)&err;
    assert_int_not_equal(xsm_model_load(NULL, path, NULL, NULL, &loaded, &err), XSM_OK);
    assert_ptr_equal(loaded, (xsm_model *)&err);
    unlink(path);
}

/* A host's table of that kind: the hinge of Crammer and Singer in every node. */
static void hinge_gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    for (uint64_t i = 0; i < block->count; i++) {
        block->losses[i] = 0;
        for (uint64_t j = i * block->width; j < i * block->width + block->lengths[i]; j++) {
            double side = block->turns[j] ? 1 : -1, missing = 1 - side * (double)block->scores[j];
            block->losses[i] += missing > 0 ? missing : 0;
            block->coefficients[j] = missing > 0 ? (float)-side : 0;
        }
    }
}

TEST(hosts_bring_their_own)
{
    const xsm_estimator_ops ops = {.size = sizeof ops,
                                   .abi = XSM_EXT_ABI_VERSION,
                                   .kind = XSM_ESTIMATOR_HIERARCHY,
                                   .name = "hinge-nodes",
                                   .summary = "a hinge in every node of a tree",
                                   .gradient = hinge_gradient};
    assert_ok(xsm_estimator_check(NULL, &ops, NULL, &err), err);
    HELD_STRUCT(test_problem, p) = test_problem_new(60, 6, 9, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    MADE(xsm_estimator, e, xsm_estimator_new_from(NULL, &ops, &e, &err));
    assert_ok(xsm_estimator_set(e, "tree", "balanced", &err), err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    xsm_batch all = xsm_batch_range(p.data, 0, 60);
    assert_ok(xsm_estimator_gradient(e, &all, 0.1, g, &err), err);
    xsm_gradient_view view = test_view(g);
    for (uint64_t i = 0; i < view.examples; i++) { /* 9 classes: paths of 3 or 4 nodes; all scores are zero */
        assert_in_range(view.lengths[i], 3, 4);
        for (uint64_t j = 0; j < view.lengths[i]; j++) {
            assert_true(view.coefficients[i * view.width + j] == 1.0f / 60 ||
                        view.coefficients[i * view.width + j] == -1.0f / 60);
        }
    }
}

TEST(what_does_not_go_with_it)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(60, 6, 9, false, 2);
    HELD_STRUCT(test_problem, one) = test_problem_new(10, 6, 1, false, 2);
    xsm_model *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0),
              *narrow = test_model(NULL, &one, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_estimator *e = test_estimator(NULL, "hierarchical", "");
    assert_fails(xsm_estimator_bind(e, narrow, one.data, &err), XSM_ERROR_RANGE, err);
    /* a model that is corrected already */
    xsm_estimator *negative = test_estimator(NULL, "negative-sampling", "sampler=frequency");
    assert_ok(xsm_estimator_bind(negative, m, p.data, &err), err);
    xsmi_model_set_head(m, negative->head);
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_model_clear_correction(m);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    xsm_estimator_free(e);
    xsm_estimator_free(negative);
    xsm_model_free(m);
    xsm_model_free(narrow);
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

typedef struct subject {
    test_problem p;
    const char *tree;
} subject;

static xsm_status run(void *state, xsm_context *ctx, xsm_error *err)
{
    subject *s = state;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_trainer, t) = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    options.eta = 0.1;
    options.epochs = 1;
    xsm_status status = xsm_model_new_linear(ctx, s->p.features, s->p.classes, NULL, &m, err);
    status = status == XSM_OK ? xsm_estimator_new(ctx, "hierarchical", &e, err) : status;
    status = status == XSM_OK ? xsm_estimator_set(e, "tree", s->tree, err) : status;
    status = status == XSM_OK ? xsm_optimizer_new(ctx, "sgd", &o, err) : status;
    status = status == XSM_OK ? xsm_trainer_new(ctx, m, s->p.data, e, o, &options, &t, err) : status;
    status = status == XSM_OK ? xsm_trainer_run(t, err) : status;
    status = status == XSM_OK ? xsm_evaluate(ctx, m, s->p.data, NULL, &metrics, err) : status;
    return status;
}

TEST(every_allocation)
{
    static const char *const names[] = {"fitted", "balanced", "huffman"};
    for (int i = 0; i < 3; i++) {
        subject s = {test_problem_new(80, 6, 20, false, 2), names[i]};
        assert_true(test_every_allocation(run, &s) > 12);
        test_problem_free(&s.p);
    }
}
