/*
 * Sparse weights on ranks, each of which has them whole: what is loaded, converted, saved, evaluated, predicted and
 * calibrated has the bits of one process; pruning a divided model and making sparse weights dense are refused.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "comm.h"
#include "model/divided.h"

#include <xsoftmax/calibrate.h>
#include <xsoftmax/buffer.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/metrics.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Five class runs, the last of a few classes. */
enum { ROWS = 40, FEATURES = 40, CLASSES = 4 * XSMI_RUN_CLASSES + 11, CHOSEN = 5, RANGE = 6000, TOP = 6 };
/* A range that begins and ends within the parts of ranks. */
enum { RANGE_FIRST = 3000 };

typedef struct plan {
    bool sparse, bias; /* the rows, the model */
    int32_t correction;
    xsmi_prune_chunks chunks;
    double below;
    uint32_t keep;
    int32_t dtype; /* that the pruned model is converted to before ranks load it */
} plan;

static const plan plans[] = {
    {true, true, XSM_CORRECTION_NONE, {32768, (size_t)1 << 30}, 0, 0, XSM_DTYPE_FLOAT32},
    {false, false, XSM_CORRECTION_CLASSES, {5000, 9001}, 1.5, 9, XSM_DTYPE_INT8},
    {true, true, XSM_CORRECTION_HIERARCHY, {XSMI_RUN_CLASSES, (size_t)1 << 30}, 0.5, 5, XSM_DTYPE_BFLOAT16},
};
enum { PLANS = sizeof plans / sizeof *plans };

/* What a rank computes. */
typedef struct results {
    uint64_t weights, bytes;
    int32_t dtype, layout, bias;
    double log_loss, error, reciprocal_rank, scale;
    float chosen[ROWS * CHOSEN], range[ROWS * RANGE];
    uint32_t classes[ROWS * TOP], lengths[ROWS];
    float scores[ROWS * TOP];
    double probabilities[ROWS * TOP];
} results;

typedef struct work {
    const plan *plan;
    xsm_dataset *rows;
    char dense[256], sparse[256], converted[256]; /* files of one process */
    char saved[256], made[256];
    results *of; /* [ranks] */
} work;

static xsm_status predict(const xsm_model *m, const work *w, results *to, xsm_error *err)
{
    const xsm_batch batch = xsm_batch_range(w->rows, 0, ROWS);
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = TOP;
    xsm_predictor *p = NULL;
    XSMI_TRY(xsm_predictor_new(m, &options, &p, err));
    xsm_prediction wanted = XSM_PREDICTION_INIT;
    wanted.batch = &batch;
    wanted.classes = to->classes;
    wanted.scores = to->scores;
    wanted.lengths = to->lengths;
    wanted.probabilities = to->probabilities;
    xsm_status status = xsm_predictor_run(p, &wanted, err);
    wanted.exclude_known = 1;
    wanted.least_probability = to->probabilities[TOP - 2];
    status = status == XSM_OK ? xsm_predictor_run(p, &wanted, err) : status;
    xsm_predictor_free(p);
    return status;
}

static xsm_status use_model(xsm_model *m, const work *w, results *to, xsm_error *err)
{
    const xsm_batch batch = xsm_batch_range(w->rows, 0, ROWS);
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_ranks ranks = XSM_RANKS_INIT;
    uint32_t classes[ROWS * CHOSEN];
    memset(to, 0, sizeof *to);
    XSMI_TRY(xsm_model_get_info(m, &info, err));
    to->weights = info.weights;
    to->bytes = info.bytes;
    to->dtype = info.dtype;
    to->layout = info.layout;
    to->bias = info.bias;
    XSMI_TRY(xsm_evaluate(NULL, m, w->rows, NULL, &metrics, err));
    to->log_loss = metrics.log_loss;
    to->error = metrics.error;
    XSMI_TRY(xsm_evaluate_ranks(NULL, m, w->rows, NULL, &ranks, err));
    to->reciprocal_rank = ranks.reciprocal_rank;
    for (uint32_t i = 0; i < ROWS * CHOSEN; i++) {
        classes[i] = i % CHOSEN == 0 ? CLASSES - 1 : (i * 2677) % CLASSES;
    }
    XSMI_TRY(xsm_model_scores(m, &batch, classes, CHOSEN, to->chosen, err));
    XSMI_TRY(xsm_model_score_range(m, &batch, RANGE_FIRST, RANGE - 3, to->range, RANGE, err));
    if (w->plan->correction != XSM_CORRECTION_HIERARCHY) { /* whose probabilities are not calibrated */
        xsm_calibrate_result result = XSM_CALIBRATE_RESULT_INIT;
        XSMI_TRY(xsm_model_calibrate(NULL, m, w->rows, NULL, &result, err));
        to->scale = result.scale;
    }
    return predict(m, w, to, err);
}

/* Loads what was converted and saves it; then converts what was pruned and saves that. */
static xsm_status load_and_convert(test_rank *r)
{
    const work *w = r->user;
    xsm_convert_options type = XSM_CONVERT_OPTIONS_INIT;
    type.dtype = w->plan->dtype;
    xsm_model *m = NULL, *converted = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->converted, NULL, &m, &r->err));
    xsm_status status = xsm_model_save(m, w->saved, &r->err);
    status = status == XSM_OK ? use_model(m, w, &w->of[r->rank], &r->err) : status;
    xsm_model_free(m);
    XSMI_TRY(status);
    m = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->sparse, NULL, &m, &r->err));
    status = xsm_model_convert(m, &type, &converted, &r->err);
    status = status == XSM_OK ? xsm_model_save(converted, w->made, &r->err) : status;
    xsm_model_free(converted);
    xsm_model_free(m);
    return status;
}

/* Random weights; some features are used by the classes of one run alone, and one run of classes has no weight. */
static xsm_model *dense_model(const test_problem *p, const plan *of)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(NULL, p, of->bias, XSM_LAYOUT_CLASS_MAJOR, 3, 6);
    for (size_t k = 0; k < CLASSES; k++) {
        const size_t run = k / XSMI_RUN_CLASSES;
        for (size_t j = 0; j < FEATURES; j++) {
            m->w.weight[k * m->w.stride + j] *= run == 2 || (j >= 20 && j % 5 != run) ? 0 : 1;
        }
    }
    if (of->correction == XSM_CORRECTION_HIERARCHY) {
        test_correct(m, p, of->correction);
    } else if (of->correction == XSM_CORRECTION_CLASSES) {
        xsmi_head *c = NULL;
        float *numbers = calloc(CLASSES, sizeof *numbers);
        assert_non_null(numbers);
        for (uint32_t k = 0; k < CLASSES; k++) {
            numbers[k] = -(float)(k % 7) / 2;
        }
        assert_ok(xsmi_correction_of_classes(m->context, numbers, CLASSES, &c, &err), err);
        xsmi_model_set_head(m, c);
        xsmi_head_release(c);
        free(numbers);
    }
    return m;
}

/* The rows with labels that are among their best classes, so that a calibration has something to fit. */
static xsm_dataset *label_rows(const test_problem *p, const plan *of, const xsm_model *m)
{
    enum { BEST = 8 };
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = BEST;
    xsm_predictor *predictor = NULL;
    uint32_t best[ROWS * BEST], labels[ROWS];
    const xsm_batch batch = xsm_batch_range(p->data, 0, ROWS);
    assert_ok(xsm_predictor_new(m, &options, &predictor, &err), err);
    assert_ok(test_predict(predictor, &batch, best, NULL, NULL, &err), err);
    xsm_predictor_free(predictor);
    for (uint32_t i = 0; i < ROWS; i++) {
        labels[i] = best[i * BEST + i % BEST];
    }
    return test_relabel(p, of->sparse, CLASSES, NULL, labels);
}

static work work_new(const plan *of, const test_problem *p)
{
    xsm_error err = XSM_ERROR_INIT;
    work w = {.plan = of};
    snprintf(w.dense, sizeof w.dense, "%s", test_path("dense"));
    snprintf(w.sparse, sizeof w.sparse, "%s", test_path("sparse"));
    snprintf(w.converted, sizeof w.converted, "%s", test_path("converted"));
    snprintf(w.saved, sizeof w.saved, "%s", test_path("saved"));
    snprintf(w.made, sizeof w.made, "%s", test_path("made"));
    xsm_prune_options options = XSM_PRUNE_OPTIONS_INIT;
    options.below = of->below;
    options.keep = of->keep;
    xsm_convert_options type = XSM_CONVERT_OPTIONS_INIT;
    type.dtype = of->dtype;
    xsm_model *m = dense_model(p, of), *pruned = NULL, *converted = NULL;
    assert_ok(xsm_model_set_metadata(m, "a key", "and its value", &err), err);
    assert_ok(xsm_model_save(m, w.dense, &err), err);
    assert_ok(xsmi_model_prune(m, &options, of->chunks, &pruned, &err), err);
    assert_ok(xsm_model_save(pruned, w.sparse, &err), err);
    w.rows = label_rows(p, of, pruned);
    assert_ok(xsm_model_convert(pruned, &type, &converted, &err), err);
    assert_ok(xsm_model_save(converted, w.converted, &err), err);
    xsm_model_free(converted);
    xsm_model_free(pruned);
    xsm_model_free(m);
    return w;
}

static void assert_files(const work *w)
{
    test_assert_same_file(w->saved, w->converted);
    test_assert_same_file(w->made, w->converted);
    remove(w->saved);
    remove(w->made);
}

TEST(test_bits)
{
    static results one, many[TEST_RANKS];
    test_rank ranks[TEST_RANKS];
    for (size_t i = 0; i < PLANS; i++) {
        test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, plans[i].sparse, 5);
        work w = work_new(&plans[i], &p);
        w.of = &one;
        test_run_ranks(1, 1, 0, load_and_convert, &w, ranks);
        assert_ok(ranks[0].status, ranks[0].err);
        assert_files(&w);
        assert_int_equal(one.layout, XSM_LAYOUT_SPARSE_ROWS);
        assert_int_equal(one.dtype, plans[i].dtype);
        assert_true(one.error == 0.875); /* one row of eight is labelled with the best of its classes */
        w.of = many;
        static const uint32_t counts[] = {2, 3, 7}; /* the last are more than class runs */
        for (size_t c = 0; c < 3; c++) {
            if (!test_ranks_tried(counts[c])) {
                continue;
            }
            test_run_ranks(counts[c], 1 + (uint32_t)(c + i) % 2, 0, load_and_convert, &w, ranks);
            for (uint32_t r = 0; r < counts[c]; r++) {
                assert_ok(ranks[r].status, ranks[r].err);
                assert_memory_equal(&many[r], &one, sizeof one);
            }
            assert_files(&w);
        }
        xsm_dataset_free(w.rows);
        test_problem_free(&p);
    }
}

/* -- what cannot be done ------------------------------------------------------------------------------------------- */

/* Each refusal is with XSM_ERROR_UNSUPPORTED, and names the ranks. */
#define REFUSES(call)                                                                                                  \
    do {                                                                                                               \
        if ((call) != XSM_ERROR_UNSUPPORTED || !strstr(r->err.message, "2 processes")) {                               \
            return xsmi_fail(&r->err, XSM_ERROR_INTERNAL, "not refused: %s", #call);                                   \
        }                                                                                                              \
    } while (0)

static xsm_status refuse(test_rank *r)
{
    const work *w = r->user;
    xsm_model *m = NULL, *pruned = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->dense, NULL, &m, &r->err));
    REFUSES(xsm_model_prune(m, NULL, &pruned, &r->err));
    xsm_model_free(m);
    m = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->sparse, NULL, &m, &r->err));
    REFUSES(xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, &r->err));
    xsm_model_free(m);
    return XSM_OK;
}

TEST(test_refusals)
{
    test_rank ranks[TEST_RANKS];
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, true, 5);
    work w = work_new(&plans[0], &p);
    test_run_ranks(2, 1, 0, refuse, &w, ranks);
    assert_ok(ranks[0].status, ranks[0].err);
    assert_ok(ranks[1].status, ranks[1].err);
    xsm_dataset_free(w.rows);
    test_problem_free(&p);
}
