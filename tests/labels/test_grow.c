/*
 * Label trees that grow: every classifier that no class that arrives concerns keeps its bytes, read from the sparse
 * weights here; new classes are found; the same bits on any number of threads and through a file; full nodes are
 * divided; a failure, at any allocation, leaves the old model as it was; what is refused.
 */
#include "training.h"

#include "labels/arrivals.h"

#include <xsoftmax/label_tree.h>
#include <xsoftmax/stored_weights.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABELS = 240, GROUPS = 12, FEATURES = 400, EACH = 6 };

/* Rows of the labels below `end`: words of the label and of its group of neighbours, and noise. */
static xsm_dataset *make_rows(uint64_t seed, uint32_t end)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *data;
    FILE *file = fopen(test_path("rows.txt"), "w");
    assert_non_null(file);
    fprintf(file, "%u %d %u\n", end * EACH, FEATURES, end);
    for (uint32_t r = 0; r < end * EACH; r++) {
        const uint32_t label = r % end, group = label / (LABELS / GROUPS) * 4;
        const uint32_t a = (uint32_t)(test_next(&seed) % 2), b = (uint32_t)(test_next(&seed) % 2);
        fprintf(file, "%u %u:.5 %u:.5 %u:.5 %u:.5\n", label, group + a, group + 2 + b,
                60 + (uint32_t)(test_next(&seed) % 40), 100 + label);
    }
    fclose(file);
    assert_ok(xsm_dataset_read(NULL, test_path("rows.txt"), NULL, NULL, &data, &err), err);
    return data;
}

/* Whether two nodes have the same classifier, to the bit. */
static bool are_same(const xsmi_sparse *a, uint32_t i, const xsmi_sparse *b, uint32_t j)
{
    bool same = memcmp(&a->bias[i - 1], &b->bias[j - 1], sizeof *a->bias) == 0;
    for (uint32_t f = 0; f < FEATURES && same; f++) {
        const float one = 1.0f;
        const xsmi_features x = {&one, &f, 1};
        /* The bias is added last: a sum of a weight and the same bias. */
        const float p = xsmi_sparse_score(a, i - 1, &x), q = xsmi_sparse_score(b, j - 1, &x);
        same = memcmp(&p, &q, sizeof p) == 0;
    }
    return same;
}

/* Whether a class from `from` on is under a node. */
static bool has_new(const xsmi_class_tree *t, uint32_t node, uint32_t from)
{
    bool any = false;
    for (uint32_t k = from; k < t->classes && !any; k++) {
        uint32_t v = t->class_leaf[k];
        while (v > node) {
            v = t->parent[v];
        }
        any = v == node;
    }
    return any;
}

/* Checks that the old classes keep their classifiers, and nodes without a class that arrives those of all their
 * children. Returns how many such nodes there are. */
static uint32_t expect_kept(const xsmi_label_tree *old, const xsmi_label_tree *now, uint32_t from)
{
    uint32_t untouched = 0, changed = 0;
    for (uint32_t k = 0; k < from; k++) {
        uint32_t v = old->tree->class_leaf[k], w = now->tree->class_leaf[k];
        assert_true(are_same(old->weights, v, now->weights, w));
        /* Up the paths, as long as they are the same: a node that was divided has one more below it. */
        while (old->tree->parent[v] != 0 && now->tree->parent[w] != 0) {
            v = old->tree->parent[v];
            w = now->tree->parent[w];
            if (has_new(now->tree, now->tree->parent[w], from)) {
                changed += !are_same(old->weights, v, now->weights, w);
                break;
            }
            assert_true(are_same(old->weights, v, now->weights, w));
            untouched++;
        }
    }
    assert_true(changed > 0);
    return untouched;
}

static double precision(const xsm_model *m, const xsm_dataset *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    TEST_METRICS(metrics, 1);
    assert_ok(xsm_evaluate(NULL, m, rows, NULL, &metrics, &err), err);
    return metrics.precision[0];
}

/* Fits a model, or grows `start`. */
static xsm_model *grow(xsm_context *ctx, const xsm_model *start, xsm_label_tree_options o, const xsm_dataset *rows,
                       xsm_label_tree_result *result)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m;
    o.start = start;
    assert_ok(xsm_fit_label_tree(ctx, rows, &o, &m, result, &err), err);
    return m;
}

TEST(test_grows)
{
    for (int k = 0; k < 6; k++) {
        /* 1: several trees; 2: clusters; 3: scores that rank; 4: nodes that become full; 5: sigmoids */
        xsm_label_tree_options o = test_small_trees();
        const uint32_t from = k == 4 ? 120 : 226;
        o.trees = k == 1 ? 2 : 1;
        o.balance = k == 2 ? XSM_LABEL_TREE_BALANCE_CLUSTERS : XSM_LABEL_TREE_BALANCE_BALANCED;
        o.link = k == 3 ? XSM_LABEL_TREE_LINK_HINGE : k == 5 ? XSM_LABEL_TREE_LINK_SIGMOID : 0;
        HELD(xsm_dataset, all) = make_rows(2, LABELS);
        HELD(xsm_dataset, test) = make_rows(3, LABELS);
        HELD(xsm_dataset, some) = make_rows(1, from);
        HELD(xsm_model, start) = grow(NULL, NULL, o, some, NULL);
        HELD(xsm_model, anew) = grow(NULL, NULL, o, all, NULL);
        unsigned char *first = NULL, *old = NULL;
        size_t size, old_size;
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        assert_ok(xsm_dataset_get_class_map(all, &map, &err), err);
        assert_ok(xsm_model_grow(start, FEATURES, &map, &err), err);
        test_same_file(start, &old, &old_size);
        for (uint32_t threads = 1; threads <= 4; threads += threads) {
            HELD(xsm_context, ctx) = test_context(threads, 0, 0);
            xsm_label_tree_result result = XSM_LABEL_TREE_RESULT_INIT;
            HELD(xsm_model, m) = grow(ctx, start, o, all, &result);
            test_same_file(m, &first, &size);
            assert_int_equal(result.classes, LABELS - from);
            assert_true(result.trained > 0 && (k != 4 || result.divided > 0));
            xsm_model *twice = grow(ctx, m, o, all, &result); /* all have their places now */
            test_same_file(twice, &first, &size);
            assert_int_equal(result.classes, 0);
            for (uint32_t t = 0; t < o.trees && threads == 1; t++) {
                const xsmi_label_tree *before = &xsmi_model_trees(start)->tree[t], *now = &xsmi_model_trees(m)->tree[t];
                const uint32_t same = expect_kept(before, now, from);
                assert_true(k == 4 || same > 0);
            }
            assert_true(precision(m, test) > precision(anew, test) - .05);
            xsm_model_free(twice);
        }
        assert_true(precision(start, test) < precision(anew, test) - .05);
        test_same_file(start, &old, &old_size);
        free(old);
        free(first);
    }
}

/* Classes that a fit knew without rows arrive as new ones do; a single one is a leaf under the root. */
TEST(test_known_before)
{
    const xsm_label_tree_options o = test_small_trees();
    HELD(xsm_dataset, all) = make_rows(2, LABELS);
    for (uint32_t missing = 1; missing <= 30; missing += 29) {
        xsm_label_tree_result result = XSM_LABEL_TREE_RESULT_INIT;
        HELD(xsm_dataset, rows) = make_rows(1, LABELS - missing);
        xsm_class_map map = XSM_CLASS_MAP_INIT;
        assert_ok(xsm_dataset_get_class_map(all, &map, &err), err);
        assert_ok(xsm_dataset_extend(rows, &map, &err), err);
        HELD(xsm_model, m) = grow(NULL, NULL, o, rows, NULL);
        HELD(xsm_model, grown) = grow(NULL, m, o, all, &result);
        assert_int_equal(result.classes, missing);
        assert_true(precision(grown, all) > .95);
    }
}

static xsm_status grow_body(void *state, xsm_context *ctx, xsm_error *err)
{
    const xsm_dataset *all = state;
    xsm_label_tree_options o = test_small_trees();
    HELD(xsm_model, m) = NULL;
    HELD(xsm_model, grown) = NULL;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    XSMI_TRY(xsm_dataset_get_class_map(all, &map, err));
    XSMI_TRY(xsm_model_load(ctx, test_path("small.model"), NULL, NULL, &m, err));
    xsm_status status = xsm_model_grow(m, FEATURES, &map, err);
    o.start = m;
    o.leaf = 4; /* nodes are divided */
    status = status == XSM_OK ? xsm_fit_label_tree(ctx, all, &o, &grown, NULL, err) : status;
    return status;
}

TEST(test_every)
{
    const xsm_label_tree_options o = test_small_trees();
    HELD(xsm_dataset, all) = make_rows(2, LABELS);
    HELD(xsm_dataset, some) = make_rows(1, 200);
    HELD(xsm_model, m) = grow(NULL, NULL, o, some, NULL);
    xsm_model *out = NULL;
    assert_ok(xsm_model_save(m, test_path("small.model"), NULL, &err), err);
    assert_true(test_every_allocation(grow_body, all) > 50);
    test_every_poll(grow_body, all, 2, 10, "training nodes");
    /* What is refused. */
    MADE(xsm_model, narrow,
         xsm_model_convert(m, STRUCT(xsm_convert_options, .dtype = XSM_DTYPE_BFLOAT16), &narrow, &err));
    assert_fails(xsm_model_grow(narrow, FEATURES + 1, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    const struct {
        const xsm_model *start;
        const xsm_dataset *rows;
        const char *checkpoint, *says;
    } wrong[] = {{m, all, NULL, "200 classes and 400 features, the rows 240 and 400"},
                 {narrow, some, NULL, "float32"},
                 {m, some, "a", "checkpoint"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        xsm_label_tree_options other = o;
        other.start = wrong[i].start;
        other.checkpoint = wrong[i].checkpoint;
        assert_true(xsm_fit_label_tree(NULL, wrong[i].rows, &other, &out, NULL, &err) != XSM_OK && !out);
        assert_non_null(strstr(err.message, wrong[i].says));
    }
}
