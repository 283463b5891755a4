/*
 * Tests of prediction with a label tree as shortlist: it finds the best of the tree's candidates by the model's scores,
 * whatever the order of the tree's classes; all candidates are all classes; what does not fit is refused.
 */
#include "training.h"

#include <xsoftmax/calibrate.h>
#include <xsoftmax/index.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/predict.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 150, FEATURES = 25, CLASSES = 60, TOP = 4 };

static xsm_model *grown(const xsm_dataset *train, int64_t trees)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *tree = NULL;
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    o.trees = trees;
    o.arity = 3;
    o.leaf = 5;
    assert_ok(xsm_fit_label_tree(NULL, train, &o, &tree, NULL, &err), err);
    return tree;
}

static void predict(const xsm_model *m, const xsm_predictor_options *o, const xsm_batch *batch, uint32_t *classes,
                    float *scores, double *probed)
{
    xsm_error err = XSM_ERROR_INIT;
    MADE(xsm_predictor, p, xsm_predictor_new(m, o, &p, &err));
    assert_ok(test_predict(p, batch, classes, scores, NULL, &err), err);
    if (probed) {
        *probed = (double)test_predictor_info(p).probed / (double)batch->count;
    }
}

/* Names "n000", ... in rising or falling order. */
static void name_classes(xsm_model *m, bool falling)
{
    static char text[CLASSES][8];
    static const char *names[CLASSES];
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = CLASSES;
    map.names = names;
    for (uint32_t k = 0; k < CLASSES; k++) {
        snprintf(text[k], sizeof text[k], "n%03u", falling ? CLASSES - 1 - k : k);
        names[k] = text[k];
    }
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
}

/* The model's best of the tree's best `candidates`, by scores of single classes. `name_of` is what class k of the tree
 * is in the model. */
static void check_best(const xsm_model *m, const xsm_model *tree, const xsm_batch *batch, uint32_t beam,
                       uint32_t candidates, bool falling)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT, alone = XSM_PREDICTOR_OPTIONS_INIT;
    static uint32_t listed[ROWS * CLASSES], have[ROWS * TOP];
    static float scores[ROWS * CLASSES], found[ROWS * TOP], tree_scores[ROWS * CLASSES];
    double probed;
    o.shortlist = tree;
    o.beam = beam;
    o.candidates = candidates;
    o.top = TOP;
    predict(m, &o, batch, have, found, &probed);
    assert_float_equal(probed, candidates, 0);
    alone.top = candidates;
    alone.beam = beam;
    predict(tree, &alone, batch, listed, tree_scores, NULL);
    for (size_t i = 0; i < ROWS * candidates && falling; i++) {
        listed[i] = CLASSES - 1 - listed[i];
    }
    assert_ok(xsm_model_scores(m, batch, listed, candidates, scores, &err), err);
    for (size_t i = 0; i < ROWS; i++) {
        bool taken[CLASSES] = {false};
        for (size_t k = 0; k < TOP; k++) {
            size_t best = SIZE_MAX;
            for (size_t j = 0; j < candidates; j++) {
                const size_t at = i * candidates + j;
                if (!taken[j] &&
                    (best == SIZE_MAX || scores[at] > scores[i * candidates + best] ||
                     (!(scores[at] < scores[i * candidates + best]) && listed[at] < listed[i * candidates + best]))) {
                    best = j;
                }
            }
            taken[best] = true;
            assert_int_equal(have[i * TOP + k], listed[i * candidates + best]);
            assert_memory_equal(&found[i * TOP + k], &scores[i * candidates + best], sizeof *found);
        }
    }
}

TEST(best_of_the_candidates)
{
    for (int kind = 0; kind < 8; kind++) {
        const bool sparse = kind & 1, falling = kind & 2;
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 3);
        HELD(xsm_model, tree) = grown(p.data, kind & 4 ? 2 : 1);
        xsm_model *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 7);
        if (kind >= 6) {
            xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
            xsm_model_free(m);
            m = NULL;
            assert_ok(xsm_model_new_embedding(NULL, FEATURES, 6, CLASSES, &o, &m, &err), err);
            for (uint32_t k = 0; k < CLASSES; k++) {
                for (uint32_t j = 0; j < 6; j++) {
                    m->w.weight[k * m->w.stride + j] = (float)((k * 37 + j * 11) % 23) / 10 - 1;
                }
            }
            m->untouched = false;
        }
        if (falling) {
            name_classes(m, false);
            name_classes(tree, true);
        }
        const xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
        check_best(m, tree, &batch, CLASSES, 20, falling);
        check_best(m, tree, &batch, 8, TOP, falling);
        /* All classes are what scoring all finds. */
        xsm_predictor_options all = XSM_PREDICTOR_OPTIONS_INIT, o = XSM_PREDICTOR_OPTIONS_INIT;
        static uint32_t want[ROWS * TOP], have[ROWS * TOP];
        static float scores[ROWS * TOP];
        all.top = o.top = TOP;
        o.shortlist = tree;
        o.beam = o.candidates = CLASSES;
        predict(m, &all, &batch, want, scores, NULL);
        predict(m, &o, &batch, have, scores, NULL);
        assert_memory_equal(want, have, sizeof want);
        /* The comparison with scoring all says the same. */
        double recall[TOP];
        xsm_search_metrics found = XSM_SEARCH_METRICS_INIT;
        found.top = TOP;
        found.recall = recall;
        assert_ok(xsm_evaluate_search(NULL, m, p.data, &o, &found, &err), err);
        assert_float_equal(recall[TOP - 1], 1, 0);
        assert_float_equal(found.probed, CLASSES, 0);
        o.candidates = TOP;
        assert_ok(xsm_evaluate_search(NULL, m, p.data, &o, &found, &err), err);
        assert_true(recall[TOP - 1] < 1);
        xsm_model_free(m);
    }
}

/* A beam of 1 finds few classes; the search goes on until there are `top`. */
TEST(narrow_beams_find_enough)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD(xsm_model, tree) = grown(p.data, 1);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 7);
    const xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    static uint32_t have[ROWS * CLASSES];
    o.shortlist = tree;
    o.beam = 1;
    o.candidates = o.top = CLASSES;
    predict(m, &o, &batch, have, NULL, NULL);
    for (size_t i = 0; i < ROWS; i++) {
        bool seen[CLASSES] = {false};
        for (size_t k = 0; k < CLASSES; k++) {
            assert_false(seen[have[i * CLASSES + k]]);
            seen[have[i * CLASSES + k]] = true;
        }
    }
}

static void refused(const xsm_model *m, const xsm_predictor_options *o, xsm_status status, const char *part)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor *p = (xsm_predictor *)&err;
    assert_fails(xsm_predictor_new(m, o, &p, &err), status, err);
    assert_non_null(strstr(err.message, part));
    assert_ptr_equal(p, (xsm_predictor *)&err);
}

TEST(what_does_not_fit_is_refused)
{
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, false, 3),
                 wide = test_problem_new(ROWS, FEATURES + 1, CLASSES, false, 3),
                 more = test_problem_new(ROWS, FEATURES, CLASSES + 1, false, 3);
    xsm_model *tree = grown(p.data, 1), *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 7);
    xsm_model *wide_tree = grown(wide.data, 1), *large_tree = grown(more.data, 1);
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    o.candidates = 9;
    refused(m, &o, XSM_ERROR_ARGUMENT, "without a shortlist");
    o.shortlist = m;
    refused(m, &o, XSM_ERROR_UNSUPPORTED, "this model is none");
    o.shortlist = tree;
    refused(tree, &o, XSM_ERROR_UNSUPPORTED, "searched by itself");
    o.tree_alone = 1;
    refused(m, &o, XSM_ERROR_ARGUMENT, "own tree");
    o.tree_alone = 0;
    o.shortlist = wide_tree;
    refused(m, &o, XSM_ERROR_SHAPE, "25 features, the label tree of the shortlist 26");
    o.shortlist = large_tree;
    refused(m, &o, XSM_ERROR_SHAPE, "61 classes");
    o.shortlist = tree;
    xsm_transform *unit = NULL;
    assert_ok(xsm_transform_new(NULL, "unit", &unit, &err), err);
    assert_ok(xsm_transform_fit(unit, p.data, &err), err);
    assert_ok(xsm_model_set_transform(tree, unit, &err), err);
    refused(m, &o, XSM_ERROR_UNSUPPORTED, "transformed by '', the label tree of the shortlist by 'unit'");
    assert_ok(xsm_model_set_transform(m, unit, &err), err);
    NEW(xsm_index, index, xsm_index_new(NULL, "exact", &index, &err));
    assert_ok(xsm_index_build_model(index, m, &err), err);
    o.index = index;
    refused(m, &o, XSM_ERROR_ARGUMENT, "an index, not both");
    o.index = NULL;
    /* Probabilities are those of all classes, but for a calibration for several labels. */
    const xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
    static uint32_t classes[ROWS * TOP];
    static float scores[ROWS * TOP];
    static double probabilities[ROWS * TOP];
    o.top = TOP;
    NEW(xsm_predictor, predictor, xsm_predictor_new(m, &o, &predictor, &err));
    assert_fails(test_predict(predictor, &batch, classes, NULL, probabilities, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_calibration c = XSM_CALIBRATION_INIT;
    c.method = XSM_CALIBRATION_LABELS;
    c.scale = 2;
    c.shift = -1;
    assert_ok(xsm_model_set_calibration(m, &c, &err), err);
    assert_ok(test_predict(predictor, &batch, classes, scores, probabilities, &err), err);
    for (size_t i = 0; i < ROWS * TOP; i++) {
        assert_float_equal(probabilities[i], 1 / (1 + exp(1 - 2 * (double)scores[i])), 1e-6);
    }
    m->w.bias[classes[0]] = NAN;
    assert_fails(test_predict(predictor, &batch, classes, NULL, NULL, &err), XSM_ERROR_DIVERGED, err);
    xsm_predictor_free(predictor);
    xsm_index_free(index);
    xsm_transform_free(unit);
    xsm_model_free(m);
    xsm_model_free(tree);
    xsm_model_free(wide_tree);
    xsm_model_free(large_tree);
    test_problem_free(&p);
    test_problem_free(&wide);
    test_problem_free(&more);
}
