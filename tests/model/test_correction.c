/*
 * Tests of the correction of negative sampling's bias: it belongs to the model, is part of every function that scores,
 * and is saved and loaded.
 */
#include "training.h"

#include <xsoftmax/index.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

#include <xsoftmax/ext/sampler.h>
#include <xsoftmax/stored_weights.h>

#include "model/model_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXTS = 4, CLASSES = 6, ROWS = 4000 };

/* Each row says one of four contexts, and its label is drawn from the context's own distribution. */
typedef struct world {
    test_problem p;
    xsm_dataset *data;
    double share[CONTEXTS][CLASSES]; /* of the labels, as they came out */
    uint32_t context[ROWS];
} world;

static world world_new(bool sparse)
{
    world w;
    w.p = test_problem_new(ROWS, CONTEXTS, CLASSES, sparse, 8);
    memset(w.p.x, 0, ROWS * CONTEXTS * sizeof *w.p.x);
    memset(w.share, 0, sizeof w.share);
    uint64_t seed = 12;
    double rows[CONTEXTS] = {0};
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t c = (uint32_t)(test_uniform(&seed) * CONTEXTS), k = 0;
        double u = test_uniform(&seed), sum = 0, left = 0;
        for (uint32_t j = 0; j < CLASSES; j++) {
            sum += exp(-0.6 * ((j + 2 * c) % CLASSES));
        }
        for (; k + 1 < CLASSES && (left += exp(-0.6 * ((k + 2 * c) % CLASSES)) / sum) < u; k++) {
        }
        w.p.x[i * CONTEXTS + c] = 1;
        w.p.labels[i] = k;
        w.context[i] = c;
        w.share[c][k]++;
        rows[c]++;
    }
    for (uint32_t c = 0; c < CONTEXTS; c++) {
        for (uint32_t k = 0; k < CLASSES; k++) {
            w.share[c][k] /= rows[c];
        }
    }
    w.data = test_relabel(&w.p, sparse, CLASSES, NULL, w.p.labels);
    return w;
}

static void world_free(world *w)
{
    xsm_dataset_free(w->data);
    test_problem_free(&w->p);
}

static xsm_model *trained_by(const world *w, const xsm_sampler_ops *ops, bool bias, uint64_t epochs)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(NULL, &w->p, bias, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_estimator *e = test_estimator(NULL, "negative-sampling", "negatives=10");
    NEW(xsm_sampler, s, xsm_sampler_new_from(NULL, ops, &s, &err));
    assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
    NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    NEW(xsm_trainer, t,
        xsm_trainer_new(NULL, m, w->data, e, o,
                        STRUCT(xsm_trainer_options, .epochs = epochs, .batch = 40, .eta = 8, .factor = 0.8,
                               .schedule = XSM_SCHEDULE_STEP),
                        &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_sampler_free(s); /* the model has what it needs of it */
    return m;
}

static xsm_model *trained(const world *w, const char *sampler, bool bias, uint64_t epochs)
{
    return trained_by(w, xsm_sampler_find(sampler), bias, epochs);
}

/* Largest difference between what the model predicts of a context and the shares of the labels there, which are the
 * exact softmax's optimum: its scores are free in each context. */
static double worst(const xsm_model *m, const world *w)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_predictor, predictor,
        xsm_predictor_new(m, STRUCT(xsm_predictor_options, .top = CLASSES), &predictor, &err));
    double off = 0;
    for (uint64_t i = 0; i < 40; i++) {
        uint32_t classes[CLASSES];
        double probabilities[CLASSES];
        xsm_batch batch = xsm_batch_range(w->data, i, 1);
        assert_ok(test_predict(predictor, &batch, classes, NULL, probabilities, &err), err);
        for (uint32_t k = 0; k < CLASSES; k++) {
            double d = fabs(probabilities[k] - w->share[w->context[i]][classes[k]]);
            off = d > off ? d : off;
        }
    }
    xsm_predictor_free(predictor);
    return off;
}

/* A share of 1,000 rows is known to 0.016; what the stochastic steps add is of that size. */
#define CLOSE 0.03

TEST(corrected_models_are_unbiased)
{
    static const struct {
        const char *sampler;
        int32_t correction;
    } kinds[] = {
        {"uniform", XSM_CORRECTION_NONE}, {"frequency", XSM_CORRECTION_CLASSES}, {"tree", XSM_CORRECTION_TREE}};
    for (int kind = 0; kind < 6; kind++) {
        world w = world_new(kind >= 3);
        xsm_model *m = trained(&w, kinds[kind % 3].sampler, kind & 1, 30);
        assert_int_equal(test_model_info(m).correction, kinds[kind % 3].correction);
        double with = worst(m, &w);
        xsm_model_clear_correction(m);
        assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_NONE);
        double without = worst(m, &w);
        if (!(with < CLOSE) || (kind % 3 == 2 && !(without > 3 * CLOSE)) || (kind % 3 == 1 && !(without > CLOSE))) {
            fail_msg("%s: off by %.4f with the correction, %.4f without", kinds[kind % 3].sampler, with, without);
        }
        xsm_model_free(m);
        world_free(&w);
    }
}

static double log_sum(const float *scores)
{
    double sum = 0;
    for (uint32_t k = 0; k < CLASSES; k++) {
        sum += exp((double)scores[k]);
    }
    return log(sum);
}

/* Every way to a score says the same: chosen classes, ranges in both layouts, predictions, evaluation. */
TEST(every_score_is_corrected)
{
    static const char *const samplers[] = {"frequency", "tree"};
    for (int kind = 0; kind < 8; kind++) {
        world w = world_new(kind & 1);
        xsm_model *m = trained(&w, samplers[kind >> 1 & 1], true, 3);
        if (kind & 4) {
            assert_ok(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, &err), err);
        }
        enum { SOME = 70 };
        float chosen[SOME * CLASSES], range[SOME * CLASSES], plain[SOME * CLASSES];
        uint32_t classes[SOME * CLASSES];
        for (uint32_t i = 0; i < SOME * CLASSES; i++) {
            classes[i] = i % CLASSES;
        }
        xsm_batch batch = xsm_batch_range(w.data, 5, SOME);
        assert_ok(xsm_model_scores(m, &batch, classes, CLASSES, chosen, &err), err);
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, range, CLASSES, &err), err);
        double loss = 0;
        for (uint32_t i = 0; i < SOME; i++) {
            for (uint32_t k = 0; k < CLASSES; k++) {
                assert_true(fabsf(chosen[i * CLASSES + k] - range[i * CLASSES + k]) < 1e-4f);
            }
            loss += log_sum(range + i * CLASSES) - (double)range[i * CLASSES + w.p.labels[5 + i]];
        }
        uint64_t rows[SOME];
        for (uint64_t i = 0; i < SOME; i++) {
            rows[i] = 5 + i;
        }
        NEW(xsm_dataset, some, xsm_dataset_select(w.data, rows, SOME, &some, &err));
        xsm_metrics metrics = XSM_METRICS_INIT;
        assert_ok(xsm_evaluate(NULL, m, some, NULL, &metrics, &err), err);
        assert_true(fabs(metrics.log_loss - loss / SOME) < 1e-5);
        /* several labels a row: their scores are worked out one by one */
        uint64_t offsets[SOME + 1];
        uint32_t pairs[2 * SOME];
        double both = 0;
        for (uint32_t i = 0; i < SOME; i++) {
            offsets[i] = 2 * i;
            pairs[2 * i] = w.p.labels[5 + i];
            pairs[2 * i + 1] = (w.p.labels[5 + i] + 1) % CLASSES;
            both += log_sum(range + i * CLASSES) -
                    ((double)range[i * CLASSES + pairs[2 * i]] + (double)range[i * CLASSES + pairs[2 * i + 1]]) / 2;
        }
        offsets[SOME] = 2 * SOME;
        if (!(kind & 1)) {
            xsm_labels labels = {sizeof labels, CLASSES, 0, offsets, pairs, NULL};
            MADE(xsm_dataset, several,
                 xsm_dataset_from_dense(NULL,
                                        STRUCT(xsm_dense_rows, .values = w.p.x + 5 * CONTEXTS, .rows = SOME,
                                               .features = CONTEXTS, .labels = &labels),
                                        &several, &err));
            assert_ok(xsm_evaluate(NULL, m, several, NULL, &metrics, &err), err);
            assert_true(fabs(metrics.log_loss - both / SOME) < 1e-5);
        }
        xsm_model_clear_correction(m);
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, plain, CLASSES, &err), err);
        double moved = 0;
        for (int i = 0; i < SOME * CLASSES; i++) {
            const double change = fabs((double)plain[i] - (double)range[i]);
            moved = change > moved ? change : moved; /* not fmax(), on which gcc 12 for ARM fails */
        }
        assert_true(moved > 0.5);
        xsm_dataset_free(some);
        xsm_model_free(m);
        world_free(&w);
    }
}

TEST(saved_and_loaded)
{
    static const char *const samplers[] = {"frequency", "tree"};
    for (int kind = 0; kind < 4; kind++) {
        world w = world_new(kind & 1);
        xsm_model *m = trained(&w, samplers[kind >> 1], true, 2), *back = NULL;
        const char *path = test_path("corrected");
        enum { SOME = 50 };
        float before[SOME * CLASSES], after[SOME * CLASSES];
        xsm_batch batch = xsm_batch_range(w.data, 0, SOME);
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, before, CLASSES, &err), err);
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        assert_ok(xsm_model_load(NULL, path, NULL, NULL, &back, &err), err);
        assert_int_equal(test_model_info(back).correction, test_model_info(m).correction);
        assert_ok(xsm_model_score_range(back, &batch, 0, CLASSES, after, CLASSES, &err), err);
        assert_memory_equal(before, after, sizeof before);
        /* and training goes on from there */
        xsm_estimator *e = test_estimator(NULL, "negative-sampling", "");
        assert_ok(xsm_estimator_bind(e, back, w.data, &err), err);
        xsm_estimator_free(e);
        e = test_estimator(NULL, "softmax", "");
        assert_ok(xsm_estimator_bind(e, back, w.data, &err), err);
        xsm_estimator_free(e);
        e = test_estimator(NULL, "umax", "");
        assert_fails(xsm_estimator_bind(e, back, w.data, &err), XSM_ERROR_UNSUPPORTED, err);
        xsm_model_clear_correction(back);
        assert_ok(xsm_estimator_bind(e, back, w.data, &err), err);
        xsm_estimator_free(e);
        xsm_model_free(back);
        xsm_model_free(m);
        world_free(&w);
    }
    test_files_end();
}

enum { LOOKED = 50 };

static void score_all(const xsm_model *m, const world *w, float *scores)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch batch = xsm_batch_range(w->data, 0, LOOKED);
    assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, scores, CLASSES, &err), err);
}

/* A host's table does what the built-in one does: its tree becomes the model's; without the tree, its log q. */
TEST(samplers_of_hosts_correct)
{
    for (int kind = 0; kind < 8; kind++) {
        world w = world_new(kind & 1);
        xsm_sampler_ops ops = *xsm_sampler_find("tree");
        ops.name = "own";
        ops.flags = kind & 2 ? 0 : XSM_SAMPLER_TREE;
        ops.log_probabilities_rows = kind & 4 ? NULL : ops.log_probabilities_rows;
        ops.rows_scratch = kind & 4 ? NULL : ops.rows_scratch;
        xsm_model *own = trained_by(&w, &ops, true, 2), *m = trained(&w, "tree", true, 2), *back = NULL;
        const char *path = test_path("own");
        float scores[LOOKED * CLASSES], want[LOOKED * CLASSES], chosen[LOOKED * CLASSES], tree[LOOKED * CLASSES];
        uint32_t classes[LOOKED * CLASSES];
        score_all(own, &w, scores);
        score_all(m, &w, want);
        for (uint32_t i = 0; i < LOOKED * CLASSES; i++) {
            classes[i] = i % CLASSES;
            assert_true(fabsf(scores[i] - want[i]) < (kind < 6 ? 1e-30f : 1e-4f)); /* paths and sweeps round apart */
        }
        xsm_batch batch = xsm_batch_range(w.data, 0, LOOKED);
        assert_ok(xsm_model_scores(own, &batch, classes, CLASSES, chosen, &err), err);
        assert_ok(xsm_model_scores(m, &batch, classes, CLASSES, tree, &err), err);
        assert_memory_equal(chosen, tree, sizeof tree);
        assert_true(fabs(worst(own, &w) - worst(m, &w)) < 1e-4);
        if (kind & 2) {
            assert_int_equal(test_model_info(own).correction, XSM_CORRECTION_SAMPLER);
            assert_fails(xsm_model_save(own, path, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
            xsm_model_clear_correction(own);
            assert_ok(xsm_model_save(own, path, NULL, &err), err);
        } else {
            assert_int_equal(test_model_info(own).correction, XSM_CORRECTION_TREE);
            assert_ok(xsm_model_save(own, path, NULL, &err), err);
            assert_ok(xsm_model_load(NULL, path, NULL, NULL, &back, &err), err);
            score_all(back, &w, want);
            assert_memory_equal(scores, want, sizeof want);
        }
        xsm_model_free(back);
        xsm_model_free(m);
        xsm_model_free(own);
        world_free(&w);
    }
    test_files_end();
}

/* Files whose correction cannot be right. */
TEST(bad_corrections_are_refused)
{
    enum { K = 3, D = 2, DIMS = 4 };
    static const float weight[K * D] = {0}, mean[D] = {0}, directions[D] = {1, 0};
    for (int defect = 0; defect < 9; defect++) {
        HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
        float nodes[4 * DIMS] = {0}, numbers[K] = {0};
        uint32_t leaves[K] = {0, 1, 3};
        bool number = defect >= 5 && defect < 8;
        uint64_t node_rows = defect == 1 ? 2 : 4;
        leaves[2] = defect == 2 ? 1 : defect == 3 ? 4 : 3;
        nodes[5] = defect == 4 ? NAN : 0;
        nodes[3 * DIMS + 1] = defect == 8 ? 0 : 1e4f; /* the leaf beside class 2 has none: never the left */
        numbers[1] = defect == 6 ? INFINITY : 1;
        uint64_t count = defect == 7 ? 2 : K;
        xsmi_tensor tensors[5] = {
            {.name = "weight", .dtype = XSMI_DTYPE_F32, .rank = 2, .shape = {K, D}},
            {.name = number ? "correction" : "tree_nodes",
             .dtype = XSMI_DTYPE_F32,
             .rank = number ? 1 : 2,
             .shape = {number ? count : node_rows, DIMS}},
            {.name = "tree_leaves", .dtype = XSMI_DTYPE_U32, .rank = 1, .shape = {K}},
            {.name = "tree_mean", .dtype = XSMI_DTYPE_F32, .rank = 1, .shape = {D}},
            {.name = "tree_directions", .dtype = XSMI_DTYPE_F32, .rank = 2, .shape = {D, 1}},
        };
        const char *path = test_path("bad");
        xsmi_container_writer *w = NULL;
        assert_ok(
            xsmi_container_create(ctx, path, &(xsmi_container_plan){tensors, number ? 2 : 5, 0, NULL, 0}, &w, &err),
            err);
        assert_ok(xsmi_container_write(w, weight, sizeof weight, &err), err);
        if (number) {
            assert_ok(xsmi_container_write(w, numbers, count * sizeof *numbers, &err), err);
        } else {
            assert_ok(xsmi_container_write(w, nodes, node_rows * DIMS * sizeof *nodes, &err), err);
            assert_ok(xsmi_container_write(w, leaves, sizeof leaves, &err), err);
            assert_ok(xsmi_container_write(w, mean, sizeof mean, &err), err);
            assert_ok(xsmi_container_write(w, directions, sizeof directions, &err), err);
        }
        assert_ok(xsmi_container_commit(w, &err), err);
        test_load_corrected(ctx, path,
                            defect != 0 && defect != 5 ? XSM_CORRECTION_NONE
                            : number                   ? XSM_CORRECTION_CLASSES
                                                       : XSM_CORRECTION_TREE);
    }
    test_files_end();
}

/* A host that takes the steps itself cannot forget it; a predictor made before does not go on unawares. */
TEST(a_step_brings_the_correction)
{
    world w = world_new(false);
    xsm_model *m = test_model(NULL, &w.p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_estimator *e = test_estimator(NULL, "negative-sampling", "sampler=tree");
    uint32_t classes[5];
    xsm_batch batch = xsm_batch_range(w.data, 0, 8), one = xsm_batch_range(w.data, 0, 1);
    NEW(xsm_predictor, predictor, xsm_predictor_new(m, NULL, &predictor, &err));
    assert_ok(test_predict(predictor, &one, classes, NULL, NULL, &err), err);
    assert_ok(xsm_estimator_bind(e, m, w.data, &err), err);
    NEW(xsm_index, index, xsm_index_new(NULL, "exact", &index, &err));
    assert_ok(xsm_index_build_model(index, m, &err), err);
    xsm_optimizer *o = test_optimizer(NULL, m);
    xsm_gradient *g = test_gradient(NULL);
    assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
    assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_NONE);
    xsm_estimator_free(e); /* the gradient holds what it needs */
    assert_ok(xsm_optimizer_apply(o, &batch, g, 1, &err), err);
    assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_TREE);
    assert_fails(test_predict(predictor, &one, classes, NULL, NULL, &err), XSM_ERROR_STATE, err);
    xsm_predictor_free(predictor);
    /* an index sees the rows alone: one from before is no longer any good, and no other can be had */
    assert_fails(xsm_predictor_new(m, STRUCT(xsm_predictor_options, .index = index), &predictor, &err), XSM_ERROR_STATE,
                 err);
    assert_fails(xsm_index_build_model(index, m, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_index_free(index);
    xsm_gradient_free(g);
    xsm_optimizer_free(o);
    xsm_model_free(m);
    world_free(&w);
}

TEST(what_cannot_be_corrected_is_refused)
{
    test_problem p = test_problem_new(30, 3, 40, false, 1); /* some classes have no row */
    xsm_model *m = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    xsm_estimator *e = test_estimator(NULL, "negative-sampling", "sampler=frequency");
    assert_ok(xsm_estimator_set(e, "sampler.smoothing", "0", &err), err);
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_RANGE, err);
    assert_ok(xsm_estimator_set(e, "sampler.smoothing", "1", &err), err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    xsm_estimator_free(e);
    e = test_estimator(NULL, "nce", "sampler=frequency sampler.smoothing=0"); /* it learns nothing about such a class */
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "never draws class"));
    xsm_estimator_free(e);
    /* a model cannot have the log q of a table that cannot be copied */
    xsm_sampler_ops ops = *xsm_sampler_find("tree");
    ops.flags = 0;
    ops.save = NULL;
    ops.load = NULL;
    NEW(xsm_sampler, s, xsm_sampler_new_from(NULL, &ops, &s, &err));
    e = test_estimator(NULL, "negative-sampling", "");
    assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_estimator_free(e);
    xsm_sampler_free(s);
    xsm_model_free(m);
    test_problem_free(&p);
}
