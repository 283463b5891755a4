/*
 * xsm_fit_label_tree(): the same model on any number of threads and any processor, dense and sparse rows; what it
 * learns; probabilities; options; errors; cancelling; memory.
 */
#include "training.h"

#include "base/random.h"
#include "labels/grow_tree.h"

#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/label_tree.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABELS = 300, GROUPS = 20, FEATURES = 400, ROWS = 1800 };

/* Rows of labels that look alike in groups: words of the group, two words of each label, noise. Row i has the label i %
 * LABELS, and up to `most` labels of its group. */
static xsm_dataset *look_alikes(uint64_t seed, uint32_t rows, uint32_t most, uint32_t classes, bool sparse)
{
    const test_problem p = {.rows = rows, .features = FEATURES, .x = calloc((size_t)rows * FEATURES, sizeof *p.x)};
    HELD_MEMORY(uint64_t, offsets) = malloc((rows + 1) * sizeof *offsets);
    uint64_t count = 0;
    HELD_MEMORY(uint32_t, labels) = malloc((size_t)rows * most * sizeof *labels);
    for (uint32_t r = 0; r < rows; r++) {
        float *row = p.x + (size_t)r * FEATURES;
        const uint32_t label = r % LABELS, group = label % GROUPS;
        const uint32_t n = 1 + (uint32_t)(test_next(&seed) % most);
        offsets[r] = count;
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t l = (label + k * GROUPS) % LABELS;
            labels[count++] = l;
            row[100 + l] = 1;
            row[group * 5 + test_next(&seed) % 5] = 1;
        }
        row[test_next(&seed) % 100] = 1;
        double square = 0;
        for (uint32_t f = 0; f < FEATURES; f++) {
            square += (double)row[f];
        }
        for (uint32_t f = 0; f < FEATURES; f++) {
            row[f] = row[f] > 0 ? (float)(1 / sqrt(square)) : 0;
        }
    }
    offsets[rows] = count;
    xsm_dataset *data = test_relabel(&p, sparse, classes, offsets, labels);
    free(p.x);
    return data;
}

/* Fits and compares with the bytes of the first call. */
static void expect_bits(xsm_context *ctx, const xsm_dataset *data, const xsm_label_tree_options *o,
                        unsigned char **first, size_t *size)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = NULL;
    assert_ok(xsm_fit_label_tree(ctx, data, o, &m, NULL, &err), err);
    test_same_file(m, first, size);
}

TEST(test_bits)
{
    for (int k = 0; k < 6; k++) {
        xsm_label_tree_options o = test_small_trees();
        o.loss = k == 5 ? XSM_LABEL_TREE_LOSS_LOGISTIC : XSM_LABEL_TREE_LOSS_SQUARED_HINGE;
        o.balance = k == 2 ? XSM_LABEL_TREE_BALANCE_CLUSTERS : XSM_LABEL_TREE_BALANCE_BALANCED;
        o.trees = k == 1 ? 2 : 1;
        o.keep = k == 3 ? 10 : 0;
        o.negatives = k == 4 ? 3 : 0;
        for (int sparse = test_full() ? 0 : k % 2; sparse < 2; sparse += test_full() ? 1 : 2) {
            unsigned char *first = NULL;
            size_t size = 0;
            xsm_dataset *data = look_alikes(3, ROWS, k == 0 ? 1 : 3, LABELS + 5, sparse);
            for (uint32_t threads = 1; threads <= 3; threads += test_full() ? 1 : 2) {
                for (int runner = TEST_BUILT_IN; runner <= (test_full() ? TEST_PTHREADS : TEST_BUILT_IN); runner++) {
                    HELD(xsm_context, ctx) = test_context(threads, runner, threads == 2 ? XSM_CPU_DISABLE_AVX512 : 0);
                    expect_bits(ctx, data, &o, &first, &size);
                }
            }
            xsm_context *scalar =
                test_context(1, TEST_BUILT_IN, XSM_CPU_DISABLE_AVX512 | XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON);
            expect_bits(scalar, data, &o, &first, &size);
            xsm_context_free(scalar);
            xsm_dataset_free(data);
            free(first);
        }
    }
}

/* Other seeds give other trees. */
TEST(test_seed)
{
    HELD(xsm_dataset, data) = look_alikes(3, ROWS, 1, LABELS, true);
    xsm_label_tree_options o = test_small_trees();
    unsigned char *bytes[2] = {NULL, NULL};
    size_t size[2];
    for (int k = 0; k < 2; k++) {
        HELD(xsm_model, m) = NULL;
        o.seed = (uint64_t)k;
        assert_ok(xsm_fit_label_tree(NULL, data, &o, &m, NULL, &err), err);
        test_same_file(m, &bytes[k], &size[k]);
    }
    assert_true(size[0] != size[1] || memcmp(bytes[0], bytes[1], size[0]) != 0);
    free(bytes[0]);
    free(bytes[1]);
}

/* New rows of the labels are found; the share is known, as each row has two words that only its label has. */
TEST(test_learns)
{
    static const int32_t links[] = {XSM_LABEL_TREE_LINK_AUTO, XSM_LABEL_TREE_LINK_SIGMOID, XSM_LABEL_TREE_LINK_SOFTMAX,
                                    XSM_LABEL_TREE_LINK_HINGE, XSM_LABEL_TREE_LINK_NORMALISED};
    for (uint32_t most = 1; most <= 3; most += 2) {
        HELD(xsm_dataset, train) = look_alikes(3, ROWS, most, LABELS + 7, true);
        HELD(xsm_dataset, test) = look_alikes(4, ROWS, most, LABELS + 7, true);
        for (size_t k = 0; k < sizeof links / sizeof *links; k++) {
            for (int balance = 0; balance < (links[k] == XSM_LABEL_TREE_LINK_HINGE ? 3 : 4); balance++) {
                xsm_label_tree_options o = test_small_trees();
                o.loss = balance == 3 ? XSM_LABEL_TREE_LOSS_LOGISTIC : XSM_LABEL_TREE_LOSS_SQUARED_HINGE;
                o.cost = balance == 3 ? 10 : 1;
                xsm_label_tree_result result = XSM_LABEL_TREE_RESULT_INIT;
                HELD(xsm_model, m) = NULL;
                TEST_METRICS(metrics, 5);
                o.link = links[k];
                o.balance = balance % 2;
                o.negatives = balance == 2 ? 2 : 0;
                assert_ok(xsm_fit_label_tree(NULL, train, &o, &m, &result, &err), err);
                assert_int_equal(result.link, links[k] != XSM_LABEL_TREE_LINK_AUTO ? links[k]
                                              : most == 1                          ? XSM_LABEL_TREE_LINK_SOFTMAX
                                                                                   : XSM_LABEL_TREE_LINK_SIGMOID);
                assert_true(result.nodes > LABELS + 7 && result.weights > LABELS && result.bytes > 5 * result.weights);
                assert_in_range(result.depth, 2, 6);
                assert_ok(xsm_evaluate(NULL, m, test, NULL, &metrics, &err), err);
                assert_true(metrics.precision[0] > 0.95);
            }
        }
    }
}

/* All classes, the two without rows among them, have probabilities that sum to one. */
TEST(test_probabilities)
{
    enum { CLASSES = LABELS + 2 };
    HELD(xsm_dataset, train) = look_alikes(3, ROWS, 1, CLASSES, true);
    HELD(xsm_dataset, test) = look_alikes(4, 100, 1, CLASSES, true);
    xsm_label_tree_options o = test_small_trees();
    o.trees = 2;
    o.link = XSM_LABEL_TREE_LINK_SOFTMAX;
    HELD(xsm_model, m) = NULL;
    assert_ok(xsm_fit_label_tree(NULL, train, &o, &m, NULL, &err), err);
    HELD_MEMORY(float, scores) = malloc((size_t)100 * CLASSES * sizeof *scores);
    test_all_scores(m, test, scores);
    for (uint32_t r = 0; r < 100; r++) {
        double sum = 0, best = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            const double p = exp((double)scores[(size_t)r * CLASSES + k]);
            sum += p;
            best = p > best ? p : best;
        }
        assert_true(fabs(sum - 1) < 1e-4);
        for (uint32_t k = LABELS; k < CLASSES; k++) {
            assert_true(exp((double)scores[(size_t)r * CLASSES + k]) < best);
        }
    }
}

/* The link `normalised` has the scores of `sigmoid`, and the log-loss of their probabilities divided by their sum. */
TEST(test_normalised)
{
    enum { N = 100 };
    static const int32_t links[] = {XSM_LABEL_TREE_LINK_SIGMOID, XSM_LABEL_TREE_LINK_NORMALISED};
    HELD(xsm_dataset, train) = look_alikes(3, ROWS, 1, LABELS, true);
    HELD(xsm_dataset, test) = look_alikes(4, N, 1, LABELS, true);
    float *scores[2];
    double losses[2], want = 0;
    for (size_t k = 0; k < 2; k++) {
        xsm_label_tree_options o = test_small_trees();
        o.link = links[k];
        o.trees = 2;
        HELD(xsm_model, m) = NULL;
        assert_ok(xsm_fit_label_tree(NULL, train, &o, &m, NULL, &err), err);
        scores[k] = malloc((size_t)N * LABELS * sizeof **scores);
        test_all_scores(m, test, scores[k]);
        TEST_METRICS(metrics, 1);
        xsm_evaluate_options all = XSM_EVALUATE_OPTIONS_INIT;
        all.beam = LABELS;
        assert_ok(xsm_evaluate(NULL, m, test, &all, &metrics, &err), err);
        losses[k] = metrics.log_loss;
    }
    assert_memory_equal(scores[0], scores[1], (size_t)N * LABELS * sizeof **scores);
    for (uint32_t r = 0; r < N; r++) {
        size_t count;
        const uint32_t *label = xsmi_dataset_labels(test, r, &count);
        double sum = 0;
        assert_int_equal(count, 1);
        for (uint32_t k = 0; k < LABELS; k++) {
            sum += exp((double)scores[1][(size_t)r * LABELS + k]);
        }
        want += (log(sum) - (double)scores[1][(size_t)r * LABELS + label[0]]) / N;
    }
    assert_true(fabs(losses[1] - want) < 1e-5 * want);
    assert_true(losses[0] > want); /* a sum over all labels */
    free(scores[0]);
    free(scores[1]);
}

/* However many classes have no rows, each by itself or all together, they have together what one of them has: the
 * root's classifiers are the same, and what is under such a node shares its probability. */
TEST(test_unseen)
{
    enum { N = 50, FEW = LABELS + 1, MANY = LABELS + 2500 };
    static const int32_t links[] = {XSM_LABEL_TREE_LINK_SIGMOID, XSM_LABEL_TREE_LINK_SOFTMAX,
                                    XSM_LABEL_TREE_LINK_NORMALISED};
    for (size_t k = 0; k < 4; k++) {
        float *scores[2];
        for (size_t i = 0; i < 2; i++) {
            const uint32_t classes = i == 0 ? FEW : MANY;
            HELD(xsm_dataset, train) = look_alikes(3, ROWS, 1, classes, true);
            HELD(xsm_dataset, test) = look_alikes(4, N, 1, classes, true);
            xsm_label_tree_options o = test_small_trees();
            o.link = links[k % 3];
            o.negatives = k == 3 ? 3 : 0;
            HELD(xsm_model, m) = NULL;
            assert_ok(xsm_fit_label_tree(NULL, train, &o, &m, NULL, &err), err);
            scores[i] = malloc((size_t)N * classes * sizeof **scores);
            test_all_scores(m, test, scores[i]);
        }
        for (size_t r = 0; r < N; r++) {
            const double one = exp((double)scores[0][r * FEW + LABELS]);
            double sum = 0;
            for (uint32_t c = LABELS; c < MANY; c++) {
                sum += exp((double)scores[1][r * MANY + c]);
            }
            assert_true(fabs(sum - one) < 1e-4 * one);
        }
        free(scores[0]);
        free(scores[1]);
    }
}

/* Rows that are all the same, two thirds with one label and one third with the other: with hardly any penalty the
 * logistic loss finds these shares, of which the calibration takes a row's own share. */
TEST(test_odds)
{
    enum { N = 600 };
    float x[N];
    uint32_t labels[N];
    for (uint32_t i = 0; i < N; i++) {
        x[i] = 1;
        labels[i] = i % 3 == 0;
    }
    xsm_labels labelled = XSM_LABELS_INIT;
    labelled.classes = 2;
    labelled.labels = labels;
    MADE(xsm_dataset, data,
         xsm_dataset_from_dense(NULL,
                                STRUCT(xsm_dense_rows, .values = x, .rows = N, .features = 1,
                                       .dtype = XSM_DTYPE_FLOAT32, .labels = &labelled),
                                &data, &err));
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    o.loss = XSM_LABEL_TREE_LOSS_LOGISTIC;
    o.link = XSM_LABEL_TREE_LINK_SIGMOID;
    o.cost = 1000;
    o.epsilon = 1e-4;
    o.iterations = 10000;
    HELD(xsm_model, m) = NULL;
    assert_ok(xsm_fit_label_tree(NULL, data, &o, &m, NULL, &err), err);
    float scores[N * 2];
    test_all_scores(m, data, scores);
    assert_true(fabs(exp((double)scores[0]) - 2.0 / 3) < 0.01 && fabs(exp((double)scores[1]) - 1.0 / 3) < 0.01);
}

/* No child has more weights than asked for, and none is below the threshold. */
TEST(test_pruning)
{
    HELD(xsm_dataset, data) = look_alikes(3, ROWS, 2, LABELS, true);
    xsm_label_tree_options o = test_small_trees();
    o.link = XSM_LABEL_TREE_LINK_HINGE; /* weights as the solver has them */
    for (int k = 0; k < 2; k++) {
        o.keep = k == 0 ? 0 : 3;
        o.threshold = k == 0 ? 0.3 : 0;
        HELD(xsm_model, m) = NULL;
        assert_ok(xsm_fit_label_tree(NULL, data, &o, &m, NULL, &err), err);
        const xsmi_sparse *w = m->head->labels->tree[0].weights;
        HELD_MEMORY(uint32_t, counts) = calloc(w->rows, sizeof *counts);
        uint32_t most = 0;
        for (uint32_t c = 0; c < w->chunks; c++) {
            for (uint64_t e = w->places[c].entry; e < w->places[c + 1].entry; e++) {
                const uint32_t row = w->places[c].row + w->row8[e];
                most = ++counts[row] > most ? counts[row] : most;
                assert_true(fabsf(w->values[e]) >= (float)o.threshold && w->values[e] != 0.0f);
            }
        }
        assert_true(k == 0 ? most > 3 : most == 3);
    }
}

TEST(test_options)
{
    /* What the initialiser has stands for the table's defaults: in words, and when they are set. */
    const xsm_label_tree_options initial = XSM_LABEL_TREE_OPTIONS_INIT;
    xsm_label_tree_options set = initial;
    size_t count = 0;
    char text[32];
    for (const xsm_option *o; (o = xsm_label_tree_option(count)); count++) {
        assert_int_equal(xsm_label_tree_get(&initial, o->name, text, sizeof text), strlen(o->initial));
        assert_string_equal(text, o->initial);
        const xsm_label_tree_options before = set;
        assert_ok(xsm_label_tree_set(&set, o->name, o->initial, &err), err);
        const unsigned char *a = (const unsigned char *)&before, *b = (const unsigned char *)&set;
        size_t changed = 0;
        for (size_t i = 0; i < sizeof set; i++) {
            changed += a[i] != b[i];
        }
        assert_true(changed <= sizeof(double)); /* one member at most */
    }
    assert_int_equal(count, 14);
    assert_true(set.trees == 1 && set.arity == 16 && set.leaf == 100 && set.rounds == 20 && set.iterations == 100);
    assert_true(set.keep == 0 && set.negatives == 0 && set.seed == 1);
    assert_true(set.cost == 1 && set.epsilon == 0.1 && set.threshold == 0.1);
    assert_true(set.loss == XSM_LABEL_TREE_LOSS_SQUARED_HINGE);
    assert_true(set.balance == XSM_LABEL_TREE_BALANCE_BALANCED && set.link == XSM_LABEL_TREE_LINK_AUTO);
    set.threshold = 0; /* a threshold, no default */
    assert_int_equal(xsm_label_tree_get(&set, "threshold", text, sizeof text), 1);
    assert_string_equal(text, "0");
    set.trees = 65;
    assert_int_equal(xsm_label_tree_get(&set, "threshold", text, sizeof text), SIZE_MAX);
    assert_string_equal(text, "");
    set = initial;
    assert_ok(xsm_label_tree_set(&set, "trees", "3", &err), err);
    assert_ok(xsm_label_tree_set(&set, "balance", "clusters", &err), err);
    assert_true(set.trees == 3 && set.balance == XSM_LABEL_TREE_BALANCE_CLUSTERS);
    assert_fails(xsm_label_tree_set(&set, "tree", "3", &err), XSM_ERROR_NAME, err);
    assert_non_null(strstr(err.message, "trees"));
    assert_fails(xsm_label_tree_set(&set, "trees", "0", &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_label_tree_set(&set, "trees", "few", &err), XSM_ERROR_FORMAT, err);
    assert_fails(xsm_label_tree_set(&set, "trees", NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_label_tree_set(NULL, "trees", "3", &err), XSM_ERROR_ARGUMENT, err);
    assert_int_equal(set.trees, 3);

    HELD(xsm_dataset, data) = look_alikes(3, 200, 1, LABELS, true);
    xsm_model *m = NULL;
    set = initial;
    set.arity = 1;
    assert_fails(xsm_fit_label_tree(NULL, data, &set, &m, NULL, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "arity"));
    set = initial;
    set.cost = NAN;
    assert_fails(xsm_fit_label_tree(NULL, data, &set, &m, NULL, &err), XSM_ERROR_RANGE, err);
    set = initial;
    set.link = 5;
    assert_fails(xsm_fit_label_tree(NULL, data, &set, &m, NULL, &err), XSM_ERROR_RANGE, err);
    set = initial;
    set.loss = 2;
    assert_fails(xsm_fit_label_tree(NULL, data, &set, &m, NULL, &err), XSM_ERROR_RANGE, err);
    assert_ok(xsm_label_tree_set(&set, "loss", "logistic", &err), err);
    assert_int_equal(set.loss, XSM_LABEL_TREE_LOSS_LOGISTIC);
    set.link = XSM_LABEL_TREE_LINK_HINGE;
    assert_fails(xsm_fit_label_tree(NULL, data, &set, &m, NULL, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "squared-hinge"));
    set = initial;
    set.seed = UINT64_MAX;
    assert_fails(xsm_fit_label_tree(NULL, data, &set, &m, NULL, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "seed"));
    set = initial;
    set.epsilon = -1; /* stands for a default of other members */
    assert_fails(xsm_fit_label_tree(NULL, data, &set, &m, NULL, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_fit_label_tree(NULL, NULL, NULL, &m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_fit_label_tree(NULL, data, NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_null(m);
}

/* Zeros, the defaults in numbers, and no options at all give the same model. */
TEST(test_defaults)
{
    HELD(xsm_dataset, data) = look_alikes(3, ROWS, 1, LABELS, true);
    xsm_label_tree_options zeros = XSM_LABEL_TREE_OPTIONS_INIT, numbers = {.size = sizeof numbers,
                                                                           .trees = 1,
                                                                           .arity = 16,
                                                                           .leaf = 100,
                                                                           .rounds = 20,
                                                                           .iterations = 100,
                                                                           .seed = 1,
                                                                           .cost = 1,
                                                                           .epsilon = 0.1,
                                                                           .threshold = 0.1};
    unsigned char *first = NULL;
    size_t size = 0;
    expect_bits(NULL, data, &zeros, &first, &size);
    expect_bits(NULL, data, &numbers, &first, &size);
    expect_bits(NULL, data, NULL, &first, &size);
    free(first);
}

/* Few labels, one label, rows without labels or features, and none that can be learnt from. */
TEST(test_edges)
{
    static const float x[] = {1, 0, 0, 1, 0, 0};
    static const uint64_t offsets[] = {0, 1, 1, 2};
    static const uint32_t labels[][2] = {{0, 1}, {2, 2}, {XSM_CLASS_UNSEEN, 1}, {XSM_CLASS_UNSEEN, XSM_CLASS_UNSEEN}};
    for (size_t k = 0; k < 4; k++) {
        xsm_labels labelled = XSM_LABELS_INIT;
        labelled.classes = 3;
        labelled.offsets = offsets;
        labelled.labels = labels[k];
        xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
        dense.values = x;
        dense.rows = 3;
        dense.features = 2;
        dense.dtype = XSM_DTYPE_FLOAT32;
        dense.labels = &labelled;
        xsm_model *m = NULL;
        MADE(xsm_dataset, data, xsm_dataset_from_dense(NULL, &dense, &data, &err));
        if (k == 3) {
            assert_fails(xsm_fit_label_tree(NULL, data, NULL, &m, NULL, &err), XSM_ERROR_SHAPE, err);
        } else {
            assert_ok(xsm_fit_label_tree(NULL, data, NULL, &m, NULL, &err), err);
            float scores[9];
            test_all_scores(m, data, scores);
            for (size_t i = 0; i < 9; i++) {
                assert_true(isfinite(scores[i]) && scores[i] <= 0);
            }
            const uint32_t first = k == 0 ? 0 : k == 1 ? 2 : 1;
            for (uint32_t c = 0; c < 3; c++) {
                assert_true(scores[first] >= scores[c]);
            }
            xsm_model_free(m);
        }
    }
}

/* Rows whose squares overflow. */
TEST(test_overflow)
{
    static const float x[] = {1e30f, 2e30f, -3e30f, 1e30f};
    static const uint32_t labels[] = {0, 1};
    xsm_labels labelled = XSM_LABELS_INIT;
    labelled.classes = 2;
    labelled.labels = labels;
    xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
    dense.values = x;
    dense.rows = 2;
    dense.features = 2;
    dense.dtype = XSM_DTYPE_FLOAT32;
    dense.labels = &labelled;
    HELD(xsm_model, m) = NULL;
    MADE(xsm_dataset, data, xsm_dataset_from_dense(NULL, &dense, &data, &err));
    /* Steps of 1/|x|^2 = 0 leave all weights at 0. */
    assert_ok(xsm_fit_label_tree(NULL, data, NULL, &m, NULL, &err), err);
    float scores[4];
    test_all_scores(m, data, scores);
    for (size_t i = 0; i < 4; i++) {
        assert_true(isfinite(scores[i]) && scores[i] == scores[0]);
    }
}

static xsm_status fit_body(void *state, xsm_context *ctx, xsm_error *err)
{
    const xsm_dataset *data = state;
    xsm_label_tree_options o = test_small_trees();
    o.trees = 2;
    o.negatives = 2;
    xsm_model *m;
    const xsm_status status = xsm_fit_label_tree(ctx, data, &o, &m, NULL, err);
    if (status == XSM_OK) {
        xsm_model_free(m);
    }
    return status;
}

TEST(test_every)
{
    HELD(xsm_dataset, data) = look_alikes(3, 600, 2, LABELS, true);
    assert_true(test_every_allocation(fit_body, data) > 50);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        test_every_poll(fit_body, data, threads, 10, "making label vectors, clustering labels, training nodes");
    }
}

static void *small_stack(void *state)
{
    xsm_error err = XSM_ERROR_INIT;
    return fit_body(state, NULL, &err) == XSM_OK ? state : NULL;
}

TEST(test_stack)
{
    HELD(xsm_dataset, data) = look_alikes(3, ROWS, 2, LABELS, true);
    pthread_attr_t attributes;
    pthread_t thread;
    void *done = NULL;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t)128 << 10), 0);
    assert_int_equal(pthread_create(&thread, &attributes, small_stack, data), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_non_null(done);
    pthread_attr_destroy(&attributes);
}

/* Weights of 1 change no bit. A tree of rows with weights finds for each row what one of their copies finds, with
 * scores within the tolerance of the solver; rows of weight 0 are not learned. */
TEST(test_weights)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        enum { TOP = 3 };
        static float weights[ROWS];
        static uint64_t copies[3 * ROWS];
        static uint32_t found[2][ROWS * TOP];
        static float scores[2][ROWS * TOP];
        uint64_t count = 0;
        HELD(xsm_dataset, data) = look_alikes(5, ROWS, 2, LABELS, sparse);
        xsm_label_tree_options o = test_small_trees();
        xsm_dataset_weights w = XSM_DATASET_WEIGHTS_INIT;
        unsigned char *bytes = NULL;
        size_t size = 0;
        w.rows = weights;
        w.row_count = ROWS;
        expect_bits(NULL, data, &o, &bytes, &size);
        for (size_t i = 0; i < ROWS; i++) {
            weights[i] = 1;
        }
        assert_ok(xsm_dataset_set_weights(data, &w, &err), err);
        expect_bits(NULL, data, &o, &bytes, &size);
        free(bytes);
        for (size_t i = 0; i < ROWS; i++) {
            weights[i] = (float)(i / LABELS % 3);
            for (size_t n = 0; n < i / LABELS % 3; n++) {
                copies[count++] = i;
            }
        }
        MADE(xsm_dataset, all, xsm_dataset_select(data, copies, count, &all, &err));
        assert_ok(xsm_dataset_set_weights(data, &w, &err), err);
        o.epsilon = 1e-5;
        o.iterations = 20000;
        o.threshold = 1e-6;
        o.link = XSM_LABEL_TREE_LINK_HINGE;
        const xsm_dataset *const of[] = {data, all};
        for (size_t j = 0; j < 2; j++) {
            HELD(xsm_model, m) = NULL;
            xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
            options.top = TOP;
            assert_ok(xsm_fit_label_tree(NULL, of[j], &o, &m, NULL, &err), err);
            MADE(xsm_predictor, p, xsm_predictor_new(m, &options, &p, &err));
            const xsm_batch batch = xsm_batch_range(data, 0, ROWS);
            assert_ok(test_predict(p, &batch, found[j], scores[j], NULL, &err), err);
        }
        for (size_t i = 0; i < ROWS * TOP; i++) {
            assert_true(fabsf(scores[0][i] - scores[1][i]) < 2e-3f);
            assert_true(i % TOP > 0 || found[0][i] == found[1][i]);
        }
    }
}

/* Labels of a row with weights of their own are refused where a row has several, before anything is fitted. */
TEST(test_weights_of_labels)
{
    for (size_t labels = 1; labels <= 2; labels++) {
        HELD(xsm_dataset, data) = look_alikes(5, ROWS, labels, LABELS, true);
        xsm_dataset_info info = XSM_DATASET_INFO_INIT;
        xsm_dataset_weights w = XSM_DATASET_WEIGHTS_INIT;
        xsm_label_tree_options o = test_small_trees();
        HELD(xsm_model, m) = NULL;
        assert_ok(xsm_dataset_get_info(data, &info, &err), err);
        HELD_MEMORY(float, weights) = malloc(info.labels * sizeof *weights);
        assert_non_null(weights);
        for (uint64_t i = 0; i < info.labels; i++) {
            weights[i] = 0.5f + (float)(i % 2);
        }
        w.labels = weights;
        w.label_count = (size_t)info.labels;
        assert_ok(xsm_dataset_set_weights(data, &w, &err), err);
        if (labels == 1) {
            assert_ok(xsm_fit_label_tree(NULL, data, &o, &m, NULL, &err), err);
        } else {
            assert_fails(xsm_fit_label_tree(NULL, data, &o, &m, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
            assert_non_null(strstr(err.message, "labels with weights; a label tree weighs rows"));
            assert_null(m);
        }
    }
}
