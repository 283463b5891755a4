/*
 * Hierarchical softmax on models whose rows of weights, those of a tree's nodes, are divided among ranks: the saved
 * model has the bytes of one process's for every tree, on any number of ranks and threads, and so have evaluations and
 * predictions with it on another number. The log-loss is the mean of the log-probabilities that are scored one by one.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "comm.h"
#include "model/divided.h"

#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Six class runs, of which the last is one class, whose row of weights no node has. */
enum { ROWS = 150, FEATURES = 6, HIDDEN = 5, CLASSES = 5 * XSMI_RUN_CLASSES + 1, SOME = 20, FEW = 3, MANY = 2000 };

typedef struct results {
    double one, several, chosen; /* log-losses; the last of the scores of labels */
    double error;
    uint64_t probed;
    uint32_t classes[SOME * FEW], all[2 * MANY];
    float scores[SOME * FEW], all_scores[2 * MANY];
    double probabilities[SOME * FEW], all_probabilities[2 * MANY];
} results;

typedef struct work {
    const char *tree;
    bool layer;
    const xsm_dataset *rows, *several;
    char model[256];
    results *of; /* [ranks] */
} work;

static xsm_status train(test_rank *r)
{
    const work *w = r->user;
    xsm_model *m = NULL;
    xsm_estimator *e = NULL;
    xsm_optimizer *o = NULL;
    xsm_trainer *t = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.batch = 40;
    options.eta = 0.5;
    xsm_status status = w->layer ? xsm_model_new_embedding(r->context, FEATURES, HIDDEN, CLASSES, NULL, &m, &r->err)
                                 : xsm_model_new_linear(r->context, FEATURES, CLASSES, NULL, &m, &r->err);
    status = status == XSM_OK ? xsm_estimator_new(r->context, "hierarchical", &e, &r->err) : status;
    status = status == XSM_OK ? xsm_estimator_set(e, "tree", w->tree, &r->err) : status;
    status = status == XSM_OK ? xsm_optimizer_new(r->context, "adagrad", &o, &r->err) : status;
    status = status == XSM_OK ? xsm_trainer_new(r->context, m, w->rows, e, o, &options, &t, &r->err) : status;
    status = status == XSM_OK ? xsm_trainer_run(t, &r->err) : status;
    status = status == XSM_OK ? xsm_model_save(m, w->model, &r->err) : status;
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    return status;
}

static xsm_status predict(const xsm_model *m, const work *w, uint32_t top, uint64_t rows, results *to, xsm_error *err)
{
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_predictor_info info = XSM_PREDICTOR_INFO_INIT;
    xsm_predictor *p = NULL;
    options.top = top;
    XSMI_TRY(xsm_predictor_new(m, &options, &p, err));
    const xsm_batch batch = xsm_batch_range(w->rows, 0, rows);
    const bool few = top == FEW;
    xsm_status status = test_predict(p, &batch, few ? to->classes : to->all, few ? to->scores : to->all_scores,
                                     few ? to->probabilities : to->all_probabilities, err);
    status = status == XSM_OK ? xsm_predictor_get_info(p, &info, err) : status;
    to->probed += info.probed;
    xsm_predictor_free(p);
    return status;
}

static xsm_status use(test_rank *r)
{
    const work *w = r->user;
    results *to = &w->of[r->rank];
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_model *m = NULL;
    uint32_t labels[ROWS];
    float scores[ROWS];
    memset(to, 0, sizeof *to);
    XSMI_TRY(xsm_model_load(r->context, w->model, NULL, &m, &r->err));
    xsm_status status = xsm_evaluate(r->context, m, w->rows, NULL, &metrics, &r->err);
    to->one = metrics.log_loss;
    to->error = metrics.error;
    status = status == XSM_OK ? xsm_evaluate(r->context, m, w->several, NULL, &metrics, &r->err) : status;
    to->several = metrics.log_loss;
    for (uint32_t i = 0; i < ROWS; i++) {
        size_t count;
        labels[i] = *xsmi_dataset_labels(w->rows, i, &count);
    }
    const xsm_batch batch = xsm_batch_range(w->rows, 0, ROWS);
    status = status == XSM_OK ? xsm_model_scores(m, &batch, labels, 1, scores, &r->err) : status;
    for (uint32_t i = 0; i < ROWS && status == XSM_OK; i++) {
        to->chosen -= (double)scores[i] / ROWS;
    }
    status = status == XSM_OK ? predict(m, w, FEW, SOME, to, &r->err) : status;
    status = status == XSM_OK ? predict(m, w, MANY, 2, to, &r->err) : status;
    xsm_model_free(m);
    return status;
}

static void run(work *w, uint32_t count, uint32_t threads, test_rank_body body)
{
    test_rank ranks[TEST_RANKS];
    test_run_ranks(count, threads, 0, body, w, ranks);
    for (uint32_t r = 0; r < count; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
    }
}

static void try_tree(const char *tree, bool layer)
{
    static const uint32_t counts[] = {1, 2, 3, 5};
    static results one, many[TEST_RANKS];
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, layer, 8);
    uint64_t offsets[ROWS + 1];
    uint32_t labels[2 * ROWS];
    for (uint32_t i = 0; i <= ROWS; i++) {
        offsets[i] = 2 * i;
        if (i < ROWS) {
            labels[2 * i] = i * 13;
            labels[2 * i + 1] = CLASSES - 1 - i;
        }
    }
    xsm_dataset *several = test_relabel(&p, layer, CLASSES, offsets, labels);
    work w = {.tree = tree, .layer = layer, .rows = p.data, .several = several, .of = &one};
    snprintf(w.model, sizeof w.model, "%s", test_path("tree"));
    run(&w, 1, 1, train);
    size_t wanted, size;
    unsigned char *file = test_read(w.model, &wanted);
    run(&w, 1, 1, use);
    assert_true(fabs(one.chosen - one.one) < 1e-5 * one.one);
    assert_true(one.probed > 0 && one.several > 0);
    w.of = many;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (uint32_t threads = test_full() ? 1 : 2; test_ranks_tried(counts[i]) && threads <= 2; threads++) {
            remove(w.model);
            run(&w, counts[i], threads, train);
            unsigned char *saved = test_read(w.model, &size);
            assert_int_equal(size, wanted);
            assert_memory_equal(saved, file, size);
            free(saved);
            run(&w, counts[i], threads, use);
            for (uint32_t r = 0; r < counts[i]; r++) {
                assert_memory_equal(&many[r], &one, sizeof one);
            }
        }
    }
    free(file);
    xsm_dataset_free(several);
    test_problem_free(&p);
}

static void test_huffman(void **state)
{
    (void)state;
    try_tree("huffman", false);
}

static void test_balanced(void **state)
{
    (void)state;
    try_tree("balanced", true);
}

static void test_fitted(void **state)
{
    (void)state;
    try_tree("fitted", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_huffman),
        cmocka_unit_test(test_balanced),
        cmocka_unit_test(test_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, test_files_teardown);
}
