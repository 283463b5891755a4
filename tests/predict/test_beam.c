/*
 * Tests of beam search in the tree of a model, of prediction by the tree alone, and of the comparison of a search with
 * scores of all classes.
 */
#include "training.h"

#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/index.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

#include "model/beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2000, FEATURES = 8, CLASSES = 75, MOST = 128, TOP = 5 };

/* Rows around the centres of their classes, near to one another. */
static test_problem near_classes(uint32_t classes, bool sparse)
{
    test_problem p = test_problem_new(ROWS, FEATURES, classes, sparse, 5);
    uint64_t seed = 3;
    float centres[MOST * FEATURES];
    for (int i = 0; i < MOST * FEATURES; i++) {
        centres[i] = (float)(2 * test_uniform(&seed) - 1);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            float *x = &p.x[i * FEATURES + j];
            *x = sparse && (i + j) % 4 == 0 ? 0 : centres[p.labels[i] * FEATURES + j] + (float)test_uniform(&seed);
        }
    }
    xsm_dataset *data = test_relabel(&p, sparse, classes, NULL, p.labels);
    xsm_dataset_free(p.data);
    p.data = data;
    return p;
}

static xsm_model *trained(const test_problem *p, const char *sampler)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(NULL, p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "negative-sampling", "negatives=5");
    assert_ok(xsm_estimator_set(e, "sampler", sampler, &err), err);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    NEW(xsm_trainer, t,
        xsm_trainer_new(NULL, m, p->data, e, o, STRUCT(xsm_trainer_options, .epochs = 5, .batch = 1, .eta = 0.3), &t,
                        &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_trainer_free(t);
    return m;
}

static const xsmi_tree *tree_of(const xsm_model *m)
{
    assert_non_null(m->head);
    assert_non_null(m->head->tree);
    return m->head->tree;
}

static xsm_predictor *predictor(const xsm_model *m, uint32_t top, uint32_t beam, int32_t alone)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_predictor, p,
        xsm_predictor_new(m, STRUCT(xsm_predictor_options, .top = top, .beam = beam, .tree_alone = alone), &p, &err));
    return p;
}

/* -- the search ---------------------------------------------------------------------------------------------------- */

/* The same search the plain way: a node's probability is the sum of those of the classes below it. Marks the classes
 * that are left. */
static void plain_beam(const xsmi_tree *t, const double *log_q, uint32_t width, bool *kept)
{
    size_t leaves = xsmi_tree_leaves(t);
    bool alive[2 * MOST] = {false};
    alive[1] = true;
    for (uint32_t level = 1; level <= t->height; level++) {
        size_t first = (size_t)1 << level;
        double share[2 * MOST] = {0};
        for (uint32_t k = 0; k < t->classes; k++) {
            share[(leaves + t->class_leaf[k]) >> (t->height - level)] += exp(log_q[k]);
        }
        for (size_t node = first; node < 2 * first; node++) {
            alive[node] = alive[node / 2] && share[node] > 0;
        }
        for (size_t node = first; node < 2 * first; node++) {
            uint32_t better = 0;
            for (size_t other = first; other < 2 * first; other++) {
                better += alive[other / 2] && share[other] > share[node];
            }
            alive[node] = alive[node] && better < width;
        }
    }
    for (uint32_t k = 0; k < t->classes; k++) {
        kept[k] = alive[leaves + t->class_leaf[k]];
    }
}

TEST(beams_keep_the_likeliest)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 64, 65, CLASSES};
    static xsmi_beam_node nodes[3 * MOST];
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint32_t classes = sizes[s];
        HELD_STRUCT(test_problem, p) = near_classes(classes, false);
        HELD(xsm_model, m) = trained(&p, "tree");
        const xsmi_tree *t = tree_of(m);
        for (uint64_t row = 0; row < 30; row++) {
            float code[FEATURES + 8];
            double log_q[MOST], found_log_q[MOST];
            uint32_t found[MOST];
            xsmi_features x = xsmi_dataset_features(p.data, row);
            xsmi_tree_encode(t, &x, code);
            for (uint32_t k = 0; k < classes; k++) {
                log_q[k] = xsmi_tree_log_probability(t, code, k);
            }
            for (uint32_t width = 1; width <= classes + 1; width += width < 6 ? 1 : 11) {
                bool kept[MOST] = {false}, there[MOST] = {false};
                uint32_t count = xsmi_tree_beam(t, code, width, nodes, found, found_log_q);
                assert_int_equal(count, width < classes ? width : classes);
                plain_beam(t, log_q, width, kept);
                for (uint32_t j = 0; j < count; j++) {
                    assert_true(found[j] < classes && !there[found[j]]);
                    there[found[j]] = true;
                    assert_memory_equal(&found_log_q[j], &log_q[found[j]], sizeof *log_q);
                }
                assert_memory_equal(kept, there, sizeof kept);
            }
        }
    }
}

/* -- prediction ---------------------------------------------------------------------------------------------------- */

enum { SOME = 300 };

TEST(beams_as_wide_as_the_classes_are_exact)
{
    static uint32_t want[SOME * TOP], have[SOME * TOP];
    static float want_scores[SOME * TOP], have_scores[SOME * TOP];
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = near_classes(CLASSES, sparse);
        HELD(xsm_model, m) = trained(&p, "tree");
        xsm_batch batch = xsm_batch_range(p.data, 0, SOME);
        HELD(xsm_predictor, exact) = predictor(m, TOP, 0, 0);
        assert_ok(test_predict(exact, &batch, want, want_scores, NULL, &err), err);
        for (uint32_t beam = CLASSES - 1; beam <= CLASSES + 10; beam++) {
            HELD(xsm_predictor, wide) = predictor(m, TOP, beam, 0);
            assert_ok(test_predict(wide, &batch, have, have_scores, NULL, &err), err);
            if (beam >= CLASSES) {
                assert_memory_equal(want, have, sizeof want);
                assert_memory_equal(want_scores, have_scores, sizeof want_scores);
                assert_int_equal(test_predictor_info(wide).probed, 0);
            } else { /* one class is missing: the search itself, where that one is not among the best */
                uint32_t differ = 0;
                for (int i = 0; i < SOME * TOP; i++) {
                    differ += want[i] != have[i];
                }
                assert_true(differ < SOME * TOP / 100);
                assert_int_equal(test_predictor_info(wide).probed, SOME * (CLASSES - 1));
            }
        }
    }
}

/* Every score is the one that the model gives the class; lists are sorted and without repeats. */
TEST(beams_score_as_the_model_does)
{
    uint32_t classes[SOME * TOP], plain[SOME * TOP];
    float scores[SOME * TOP], wanted[TOP];
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = near_classes(CLASSES, sparse);
        HELD(xsm_model, m) = trained(&p, "tree");
        xsm_batch batch = xsm_batch_range(p.data, 0, SOME);
        for (uint32_t beam = TOP; beam < 40; beam += 11) {
            HELD(xsm_predictor, search) = predictor(m, TOP, beam, 0);
            assert_ok(test_predict(search, &batch, classes, scores, NULL, &err), err);
            assert_ok(test_predict(search, &batch, plain, NULL, NULL, &err), err);
            assert_memory_equal(classes, plain, sizeof classes);
            assert_int_equal(test_predictor_info(search).probed, 2 * SOME * beam);
            for (uint32_t i = 0; i < SOME; i++) {
                xsm_batch one = xsm_batch_range(p.data, i, 1);
                assert_ok(xsm_model_scores(m, &one, classes + i * TOP, TOP, wanted, &err), err);
                assert_memory_equal(wanted, scores + i * TOP, sizeof wanted);
                for (uint32_t j = 1; j < TOP; j++) {
                    assert_true(scores[i * TOP + j] < scores[i * TOP + j - 1] ||
                                classes[i * TOP + j] > classes[i * TOP + j - 1]);
                }
            }
        }
    }
}

TEST(the_tree_predicts_alone)
{
    uint32_t classes[SOME * TOP];
    float scores[SOME * TOP];
    double probabilities[SOME * TOP];
    HELD_STRUCT(test_problem, p) = near_classes(CLASSES, false);
    HELD(xsm_model, m) = trained(&p, "tree");
    const xsmi_tree *t = tree_of(m);
    xsm_batch batch = xsm_batch_range(p.data, 0, SOME);
    static const uint32_t beams[] = {0, TOP, 20, CLASSES, CLASSES + 1};
    for (size_t b = 0; b < sizeof beams / sizeof *beams; b++) {
        HELD(xsm_predictor, alone) = predictor(m, TOP, beams[b], 1);
        uint32_t right = 0;
        assert_ok(test_predict(alone, &batch, classes, scores, probabilities, &err), err);
        uint64_t width = beams[b] == 0 ? 10 : beams[b] < CLASSES ? beams[b] : CLASSES;
        assert_int_equal(test_predictor_info(alone).probed, SOME * width);
        for (uint32_t i = 0; i < SOME; i++) {
            float code[FEATURES + 8];
            xsmi_features x = xsmi_dataset_features(p.data, i);
            xsmi_tree_encode(t, &x, code);
            for (uint32_t j = 0; j < TOP; j++) {
                double log_q = xsmi_tree_log_probability(t, code, classes[i * TOP + j]);
                assert_true(fabs((double)scores[i * TOP + j] - log_q) <= 1e-6 * (1 + fabs(log_q)));
                assert_true(fabs(probabilities[i * TOP + j] - exp(log_q)) < 1e-5);
            }
            uint32_t better = 0; /* classes that should have been there */
            for (uint32_t k = 0; k < CLASSES; k++) {
                better += xsmi_tree_log_probability(t, code, k) > (double)scores[i * TOP + TOP - 1] + 1e-4;
            }
            assert_true(beams[b] < CLASSES || better < TOP);
            right += better < TOP;
        }
        assert_true(right > SOME * 3 / 5);
    }
}

TEST(nothing_is_allocated_in_a_search)
{
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    test_problem p = near_classes(CLASSES, false);
    xsm_model *m = trained(&p, "tree"), *mine = NULL;
    const char *path = test_path("model");
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    assert_ok(xsm_model_load(ctx, path, NULL, NULL, &mine, &err), err);
    xsm_predictor *search = predictor(mine, TOP, 20, 0), *alone = predictor(mine, TOP, 20, 1);
    uint32_t classes[SOME * TOP];
    xsm_batch batch = xsm_batch_range(p.data, 0, SOME);
    size_t before = test_memory_calls(memory);
    assert_ok(test_predict(search, &batch, classes, NULL, NULL, &err), err);
    assert_ok(test_predict(alone, &batch, classes, NULL, NULL, &err), err);
    assert_int_equal(test_memory_calls(memory), before);
    xsm_predictor_free(alone);
    xsm_predictor_free(search);
    xsm_model_free(mine);
    test_memory_end(memory, ctx);
    xsm_model_free(m);
    test_problem_free(&p);
    test_files_end();
}

TEST(what_cannot_be_searched_is_refused)
{
    HELD_STRUCT(test_problem, p) = near_classes(CLASSES, false);
    HELD(xsm_model, m) = trained(&p, "tree");
    HELD(xsm_model, other) = trained(&p, "frequency");
    HELD(xsm_model, plain) = trained(&p, "uniform");
    HELD(xsm_predictor, made) = NULL;
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    o.beam = 4; /* top is 5 */
    assert_fails(xsm_predictor_new(m, &o, &made, &err), XSM_ERROR_RANGE, err);
    o.tree_alone = 1;
    assert_fails(xsm_predictor_new(m, &o, &made, &err), XSM_ERROR_RANGE, err);
    o.tree_alone = 2;
    assert_fails(xsm_predictor_new(m, &o, &made, &err), XSM_ERROR_RANGE, err);
    o.tree_alone = 0;
    o.beam = 10;
    assert_fails(xsm_predictor_new(other, &o, &made, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_predictor_new(plain, &o, &made, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "sampler=tree"));
    o.beam = 0;
    o.tree_alone = 1;
    assert_fails(xsm_predictor_new(plain, &o, &made, &err), XSM_ERROR_UNSUPPORTED, err);
    MADE(xsm_index, index, xsm_index_new(NULL, "exact", &index, &err));
    assert_fails(xsm_index_build_model(index, m, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "beam"));
    assert_ok(xsm_index_build_model(index, plain, &err), err);
    o.index = index;
    assert_fails(xsm_predictor_new(plain, &o, &made, &err), XSM_ERROR_ARGUMENT, err);
    o.index = NULL;
    o.tree_alone = 0;
    o.beam = 10;
    assert_ok(xsm_predictor_new(m, &o, &made, &err), err);
    uint32_t classes[TOP];
    double probabilities[TOP];
    xsm_batch one = xsm_batch_range(p.data, 0, 1);
    assert_fails(test_predict(made, &one, classes, NULL, probabilities, &err), XSM_ERROR_UNSUPPORTED, err);
    m->w.bias[7] = NAN; /* which a beam of 10 need not meet; then none is to be told */
    for (uint32_t k = 0; k < CLASSES; k++) {
        m->w.bias[k] = NAN;
    }
    assert_fails(test_predict(made, &one, classes, NULL, NULL, &err), XSM_ERROR_DIVERGED, err);
    xsm_model_clear_correction(m);
    assert_fails(test_predict(made, &one, classes, NULL, NULL, &err), XSM_ERROR_STATE, err);
}

/* -- against all classes ------------------------------------------------------------------------------------------- */

TEST(recall_is_counted_right)
{
    static uint32_t want[ROWS * TOP], have[ROWS * TOP];
    HELD_STRUCT(test_problem, p) = near_classes(CLASSES, false);
    HELD(xsm_model, m) = trained(&p, "tree");
    xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
    double before[TOP] = {0}, precision = 0;
    xsm_predictor *exact = predictor(m, TOP, 0, 0);
    assert_ok(test_predict(exact, &batch, want, NULL, NULL, &err), err);
    xsm_predictor_free(exact);
    static const uint32_t beams[] = {5, 8, 16, 32, 64, CLASSES};
    for (size_t b = 0; b < sizeof beams / sizeof *beams; b++) {
        xsm_predictor *search = predictor(m, TOP, beams[b], 0);
        assert_ok(test_predict(search, &batch, have, NULL, NULL, &err), err);
        xsm_predictor_free(search);
        double recall[TOP] = {0}, right[TOP] = {0};
        for (uint32_t k = 1; k <= TOP; k++) {
            for (uint32_t i = 0; i < ROWS; i++) {
                for (uint32_t a = 0; a < k; a++) {
                    for (uint32_t c = 0; c < k; c++) {
                        recall[k - 1] += want[i * TOP + a] == have[i * TOP + c];
                    }
                    right[k - 1] += have[i * TOP + a] == p.labels[i];
                }
            }
        }
        xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
        o.beam = beams[b];
        for (uint32_t threads = 1; threads <= 3; threads++) {
            HELD(xsm_context, ctx) = test_context(threads, threads == 3 ? TEST_REVERSED : TEST_BUILT_IN, 0);
            double values[2][TOP];
            xsm_search_metrics found = {.size = sizeof found, .top = TOP, .recall = values[0], .precision = values[1]};
            assert_ok(xsm_evaluate_search(ctx, m, p.data, &o, &found, &err), err);
            assert_int_equal(found.rows, ROWS);
            assert_int_equal(found.labelled, ROWS);
            assert_true(fabs(found.probed - (beams[b] < CLASSES ? beams[b] : 0)) < 1e-9);
            for (uint32_t k = 0; k < TOP; k++) {
                assert_true(fabs(found.recall[k] - recall[k] / (ROWS * (k + 1.0))) < 1e-12);
                assert_true(fabs(found.precision[k] - right[k] / (ROWS * (k + 1.0))) < 1e-12);
            }
        }
        for (uint32_t k = 0; k < TOP; k++) { /* wider beams find more */
            assert_true(recall[k] >= before[k]);
            before[k] = recall[k];
        }
        precision = right[0];
        print_message("beam %u: recall@1 %.4f, @5 %.4f, P@1 %.4f\n", beams[b], recall[0] / ROWS,
                      recall[TOP - 1] / (ROWS * TOP), precision / ROWS);
    }
    assert_true(before[0] >= ROWS && before[TOP - 1] >= ROWS * TOP);
    assert_true(precision > 0.3 * ROWS); /* that the model has learnt something */
}

/* A weight is so many copies of the row, to the bit, with any number of threads. */
TEST(searches_are_weighted)
{
    enum { ALL = CLASSES + 2 };
    HELD_STRUCT(test_problem, p) = near_classes(CLASSES, false);
    HELD(xsm_model, m) = trained(&p, "tree");
    static uint64_t copies[3 * ROWS];
    static float weights[ROWS];
    uint64_t count = 0, seed = 4;
    for (uint32_t i = 0; i < ROWS; i++) {
        weights[i] = (float)(test_next(&seed) % 4);
        for (float n = 0; n < weights[i]; n++) {
            copies[count++] = i;
        }
    }
    static double values[6][ALL];
    xsm_search_metrics plain = {.size = sizeof plain, .top = ALL, .recall = values[0], .precision = values[1]};
    xsm_search_metrics wanted = {.size = sizeof wanted, .top = ALL, .recall = values[2], .precision = values[3]};
    xsm_search_metrics found = {.size = sizeof found, .top = ALL, .recall = values[4], .precision = values[5]};
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    o.tree_alone = 1;
    MADE(xsm_dataset, all, xsm_dataset_select(p.data, copies, count, &all, &err));
    assert_ok(xsm_evaluate_search(NULL, m, all, &o, &wanted, &err), err);
    assert_ok(xsm_evaluate_search(NULL, m, p.data, &o, &plain, &err), err);
    xsm_dataset_weights w = {sizeof w, weights, ROWS, NULL, 0};
    assert_ok(xsm_dataset_set_weights(p.data, &w, &err), err);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        HELD(xsm_context, ctx) = test_context(threads, threads == 3 ? TEST_REVERSED : TEST_BUILT_IN, 0);
        memset(values[4], 0, 2 * sizeof values[4]);
        assert_ok(xsm_evaluate_search(ctx, m, p.data, &o, &found, &err), err);
        assert_memory_equal(values[4], values[2], 2 * sizeof values[2]);
        assert_true(found.recall[1] != plain.recall[1] && found.precision[1] != plain.precision[1]);
        assert_true(found.rows == ROWS && found.labelled == ROWS && found.probed == plain.probed);
    }
    memset(weights, 0, sizeof weights);
    assert_ok(xsm_dataset_set_weights(p.data, &w, &err), err);
    assert_fails(xsm_evaluate_search(NULL, m, p.data, &o, &found, &err), XSM_ERROR_DATA, err);
}

/* Rows with several labels and with none. */
TEST(searches_are_evaluated_on_any_labels)
{
    HELD_STRUCT(test_problem, p) = near_classes(CLASSES, false);
    HELD(xsm_model, m) = trained(&p, "tree");
    static uint64_t offsets[ROWS + 1];
    static uint32_t labels[2 * ROWS], have[ROWS * TOP];
    uint64_t total = 0, labelled = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        offsets[i] = total;
        for (uint32_t j = 0; j < i % 3; j++) {
            labels[total++] = (p.labels[i] + j) % CLASSES;
        }
        labelled += i % 3 > 0;
    }
    offsets[ROWS] = total;
    HELD(xsm_dataset, data) = test_relabel(&p, false, CLASSES, offsets, labels);
    HELD(xsm_predictor, alone) = predictor(m, 3, 0, 1);
    xsm_batch batch = xsm_batch_range(data, 0, ROWS);
    assert_ok(test_predict(alone, &batch, have, NULL, NULL, &err), err);
    double right[3] = {0};
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t k = 1; k <= 3; k++) {
            for (uint32_t a = 0; a < k; a++) {
                for (uint64_t l = offsets[i]; l < offsets[i + 1]; l++) {
                    right[k - 1] += labels[l] == have[i * 3 + a];
                }
            }
        }
    }
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    double values[2][XSM_TOP_MAX];
    xsm_search_metrics found = {.size = sizeof found, .top = 3, .recall = values[0], .precision = values[1]};
    o.top = 3;
    o.tree_alone = 1;
    assert_ok(xsm_evaluate_search(NULL, m, data, &o, &found, &err), err);
    assert_int_equal(found.labelled, labelled);
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(fabs(found.precision[k] - right[k] / ((double)labelled * (k + 1))) < 1e-12);
    }
    memset(offsets, 0, sizeof offsets);
    HELD(xsm_dataset, bare) = test_relabel(&p, false, CLASSES, offsets, labels);
    assert_ok(xsm_evaluate_search(NULL, m, bare, &o, &found, &err), err);
    assert_int_equal(found.labelled, 0);
    assert_true(isnan(found.precision[0]) && found.recall[0] > 0);
    found.top = 4; /* more than the predictor finds */
    assert_fails(xsm_evaluate_search(NULL, m, data, &o, &found, &err), XSM_ERROR_RANGE, err);
    found.top = 0;
    assert_fails(xsm_evaluate_search(NULL, m, data, &o, &found, &err), XSM_ERROR_RANGE, err);
    o.top = 0;
    found.top = CLASSES + 2; /* more than there are: the last ones find all */
    assert_ok(xsm_evaluate_search(NULL, m, data, &o, &found, &err), err);
    assert_true(fabs(found.recall[CLASSES + 1] - 1) < 1e-12);
    assert_true(fabs(found.precision[CLASSES + 1] * (CLASSES + 2) - (double)total / (double)labelled) < 1e-9);
    found.recall = found.precision = NULL; /* the work alone is counted */
    o.top = 3;
    assert_ok(xsm_evaluate_search(NULL, m, data, &o, &found, &err), err);
    assert_true(found.probed > 0);
    found.recall = values[0];
    found.top = XSM_TOP_MAX + 1;
    o.top = XSM_TOP_MAX + 1;
    assert_fails(xsm_evaluate_search(NULL, m, data, &o, &found, &err), XSM_ERROR_RANGE, err);
    o.top = 0;
    found.top = 3;
    o.beam = 2;
    assert_fails(xsm_evaluate_search(NULL, m, data, &o, &found, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_evaluate_search(NULL, NULL, data, &o, &found, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_evaluate_search(NULL, m, NULL, &o, &found, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_evaluate_search(NULL, m, data, &o, NULL, &err), XSM_ERROR_ARGUMENT, err);
    HELD_STRUCT(test_problem, narrow) = test_problem_new(10, FEATURES - 1, CLASSES, false, 1);
    o.beam = 0;
    assert_fails(xsm_evaluate_search(NULL, m, narrow.data, &o, &found, &err), XSM_ERROR_SHAPE, err);
}

/* A number a class is a part of the product: an index searches by it, and scores with it. */
TEST(indexes_see_corrections_by_class)
{
    static uint32_t want[SOME * TOP], have[SOME * TOP];
    static float want_scores[SOME * TOP], have_scores[SOME * TOP];
    for (int bias = 0; bias < 2; bias++) {
        HELD_STRUCT(test_problem, p) = near_classes(CLASSES, false);
        xsm_model *m = trained(&p, "frequency");
        if (!bias) { /* the correction alone makes the difference */
            xsm_model *without = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
            xsmi_model_set_head(without, m->head);
            xsm_model_free(m);
            m = without;
        }
        assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_CLASSES);
        xsm_batch batch = xsm_batch_range(p.data, 0, SOME);
        NEW(xsm_index, index, xsm_index_new(NULL, "exact", &index, &err));
        assert_ok(xsm_index_build_model(index, m, &err), err);
        xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
        xsm_predictor *exact = predictor(m, TOP, 0, 0), *search = NULL;
        o.index = index;
        assert_ok(xsm_predictor_new(m, &o, &search, &err), err);
        assert_ok(test_predict(exact, &batch, want, want_scores, NULL, &err), err);
        assert_ok(test_predict(search, &batch, have, have_scores, NULL, &err), err);
        assert_memory_equal(want, have, sizeof want);
        for (int i = 0; i < SOME * TOP; i++) {
            assert_true(fabsf(want_scores[i] - have_scores[i]) < 1e-4f);
        }
        xsm_predictor_free(search);
        xsm_predictor_free(exact);
        xsm_model_clear_correction(m);
        assert_fails(xsm_predictor_new(m, &o, &search, &err), XSM_ERROR_STATE, err);
        assert_ok(xsm_index_build_model(index, m, &err), err);
        assert_ok(xsm_predictor_new(m, &o, &search, &err), err);
        xsm_predictor_free(search);
        xsm_index_free(index);
        xsm_model_free(m);
    }
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

typedef struct memory_state {
    const char *path;
    const xsm_dataset *data;
} memory_state;

static xsm_status search_some(void *state, xsm_context *ctx, xsm_error *err)
{
    const memory_state *s = state;
    HELD(xsm_model, m) = NULL;
    xsm_predictor *p = NULL;
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    double recall[5];
    xsm_search_metrics metrics = {.size = sizeof metrics, .top = 5, .recall = recall};
    xsm_status status = xsm_model_load(ctx, s->path, NULL, NULL, &m, err);
    o.beam = 9;
    for (int alone = 0; alone < 2 && status == XSM_OK; alone++) {
        o.tree_alone = alone;
        status = xsm_predictor_new(m, &o, &p, err);
        if (status == XSM_OK) {
            xsm_predictor_free(p);
            status = xsm_evaluate_search(ctx, m, s->data, &o, &metrics, err);
        }
    }
    return status;
}

TEST(every_allocation_is_checked)
{
    test_problem p = near_classes(CLASSES, false);
    xsm_model *m = trained(&p, "tree");
    test_problem few = test_problem_new(10, FEATURES, CLASSES, false, 1);
    memory_state s = {test_path("model"), few.data};
    assert_ok(xsm_model_save(m, s.path, NULL, &err), err);
    assert_true(test_every_allocation(search_some, &s) > 20);
    xsm_model_free(m);
    test_problem_free(&few);
    test_problem_free(&p);
    test_files_end();
}
