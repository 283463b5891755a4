/*
 * Scores of chosen classes and ranges, ranks of labels, filtered predictions and evaluations that a clock ends, of
 * models whose classes are divided among ranks, with weights of every type, corrections of every kind, trees of the
 * classes and a first layer: the same bits as in one process.
 */
#define XSM_EXPERIMENTAL
#include "narrow_kinds.h"
#include "training.h"

#include "comm.h"
#include "model/divided.h"

#include <xsoftmax/filter.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/metrics.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Four class runs, the last of a few classes; more rows than an evaluation by the clock begins with. */
enum { ROWS = 300, FEATURES = 5, CLASSES = 3 * XSMI_RUN_CLASSES + 11, SOME = 7, CHOSEN = 6, RANGE = 5000, TOP = 4 };
/* A range that begins and ends within the parts of ranks. */
enum { RANGE_FIRST = 3000 };

typedef struct results {
    float chosen[SOME * CHOSEN];
    float range[SOME * RANGE], all[2 * CLASSES];
    uint32_t classes[4][SOME * TOP];
    float scores[4][SOME * TOP];
    double probabilities[4][SOME * TOP];
    uint32_t lengths[4][SOME];
    uint64_t probed; /* classes or nodes that predictions scored */
    double log_loss, error;
    uint64_t evaluated;
    int32_t dtype, correction;
    uint64_t bytes;
} results;

typedef struct work {
    const xsm_dataset *rows;
    char model[256], saved[256];
    char wide[256], converted[256]; /* the model with float32 weights, and what it is converted to */
    int32_t dtype;
    results *of; /* [ranks] */
} work;

static xsm_status score(const xsm_model *m, const work *w, results *to, xsm_error *err)
{
    const xsm_batch batch = xsm_batch_range(w->rows, 2, SOME), few = xsm_batch_range(w->rows, 5, 2);
    uint32_t classes[SOME * CHOSEN];
    for (uint32_t i = 0; i < SOME * CHOSEN; i++) {
        classes[i] = i % CHOSEN == 0 ? CLASSES - 1 : i % CHOSEN == 1 ? 0 : (i * 2677) % CLASSES;
    }
    XSMI_TRY(xsm_model_scores(m, &batch, classes, CHOSEN, to->chosen, err));
    XSMI_TRY(xsm_model_score_range(m, &batch, RANGE_FIRST, RANGE - 3, to->range, RANGE, err));
    return xsm_model_score_range(m, &few, 0, CLASSES, to->all, CLASSES, err);
}

static xsm_status run(xsm_predictor *p, xsm_prediction *to, size_t number, results *r, xsm_error *err)
{
    to->classes = r->classes[number];
    to->scores = r->scores[number];
    to->lengths = r->lengths[number];
    return xsm_predictor_run(p, to, err);
}

/* Known labels excluded; few classes left; lists and a filter of all rows; thresholds. */
static xsm_status predict(xsm_predictor *p, const work *w, results *to, xsm_error *err)
{
    const xsm_batch batch = xsm_batch_range(w->rows, 0, SOME);
    xsm_prediction known = XSM_PREDICTION_INIT;
    known.batch = &batch;
    known.exclude_known = 1;
    known.probabilities = to->probabilities[0];
    XSMI_TRY(run(p, &known, 0, to, err));
    uint64_t offsets[SOME + 1];
    uint32_t list[SOME * 3];
    for (uint32_t i = 0; i <= SOME; i++) {
        offsets[i] = i * 3;
        for (uint32_t j = 0; i < SOME && j < 3; j++) {
            list[3 * i + j] = to->classes[0][i * TOP] % 100 + j * (CLASSES / 3);
        }
    }
    xsm_prediction few = XSM_PREDICTION_INIT;
    few.batch = &batch;
    few.allow_offsets = offsets;
    few.allow = list;
    XSMI_TRY(run(p, &few, 1, to, err));
    xsm_filter_classes left = XSM_FILTER_CLASSES_INIT;
    left.classes = CLASSES;
    left.deny = list;
    left.deny_count = 3;
    xsm_filter *filter = NULL;
    XSMI_TRY(xsm_filter_new(NULL, &left, &filter, err));
    xsm_prediction most = XSM_PREDICTION_INIT;
    most.batch = &batch;
    most.filter = filter;
    most.deny_offsets = offsets;
    most.deny = list;
    most.exclude_known = 1;
    most.probabilities = to->probabilities[2];
    const xsm_status status = run(p, &most, 2, to, err);
    xsm_filter_free(filter);
    XSMI_TRY(status);
    xsm_prediction sure = XSM_PREDICTION_INIT;
    sure.batch = &batch;
    sure.probabilities = to->probabilities[3];
    sure.least_probability = to->probabilities[0][TOP - 1];
    sure.has_least_score = 1;
    sure.least_score = to->scores[0][TOP + 1];
    return run(p, &sure, 3, to, err);
}

static xsm_status use_model(test_rank *r, xsm_model *m)
{
    const work *w = r->user;
    results *to = &w->of[r->rank];
    xsm_error *err = &r->err;
    memset(to, 0, sizeof *to);
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    XSMI_TRY(xsm_model_get_info(m, &info, err));
    to->dtype = info.dtype;
    to->correction = info.correction;
    to->bytes = info.bytes;
    XSMI_TRY(score(m, w, to, err));
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = TOP;
    xsm_predictor *p = NULL;
    XSMI_TRY(xsm_predictor_new(m, &options, &p, err));
    xsm_status status = predict(p, w, to, err);
    xsm_predictor_info searched = XSM_PREDICTOR_INFO_INIT;
    status = status == XSM_OK ? xsm_predictor_get_info(p, &searched, err) : status;
    to->probed = searched.probed;
    xsm_predictor_free(p);
    XSMI_TRY(status);
    xsm_evaluate_options timed = XSM_EVALUATE_OPTIONS_INIT;
    timed.seconds = 1e6; /* so that the sample grows to all rows */
    xsm_metrics metrics = XSM_METRICS_INIT;
    XSMI_TRY(xsm_evaluate(NULL, m, w->rows, &timed, &metrics, err));
    to->log_loss = metrics.log_loss;
    to->error = metrics.error;
    to->evaluated = metrics.rows;
    timed.seconds = 1e-9; /* the first sample, on every rank */
    XSMI_TRY(xsm_evaluate(NULL, m, w->rows, &timed, &metrics, err));
    to->evaluated += 1000 * metrics.rows;
    return xsm_model_save(m, w->saved, NULL, err);
}

/* Converts the model with float32 weights, and saves it. */
static xsm_status convert(const work *w, xsm_context *ctx, xsm_error *err)
{
    xsm_convert_options options = XSM_CONVERT_OPTIONS_INIT;
    options.dtype = w->dtype;
    xsm_model *m = NULL;
    HELD(xsm_model, narrow) = NULL;
    XSMI_TRY(xsm_model_load(ctx, w->wide, NULL, NULL, &m, err));
    xsm_status status = xsm_model_convert(m, &options, &narrow, err);
    xsm_model_free(m);
    XSMI_TRY(status);
    status = xsm_model_save(narrow, w->converted, NULL, err);
    return status;
}

static xsm_status load_and_use(test_rank *r)
{
    const work *w = r->user;
    xsm_model *m = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->model, NULL, NULL, &m, &r->err));
    const xsm_status status = use_model(r, m);
    xsm_model_free(m);
    return status == XSM_OK ? convert(w, r->context, &r->err) : status;
}

/* With random weights up to 3: linear, or with a first layer of `hidden` > 0. */
static xsm_model *model_new(const test_problem *p, bool bias, uint32_t hidden)
{
    if (hidden == 0) {
        return test_model(NULL, p, bias, XSM_LAYOUT_CLASS_MAJOR, 3, 6);
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    layer.bias = bias;
    layer.activation = XSM_ACTIVATION_TANH;
    layer.pool = XSM_POOL_MEAN;
    uint64_t seed = 6;
    NEW(xsm_model, m, xsm_model_new_embedding(NULL, FEATURES, hidden, CLASSES, &layer, &m, &err));
    assert_ok(xsmi_model_own(m, &err), err);
    for (size_t k = 0; k < CLASSES; k++) {
        for (size_t j = 0; j < hidden; j++) {
            m->w.weight[k * m->w.stride + j] = (float)(6 * test_uniform(&seed) - 3);
        }
        if (bias) {
            m->w.bias[k] = (float)(6 * test_uniform(&seed) - 3);
        }
    }
    return m;
}

static work work_new(const test_problem *p, bool bias, uint32_t hidden, int32_t dtype, int32_t correction)
{
    xsm_error err = XSM_ERROR_INIT;
    work w = {.rows = p->data, .dtype = dtype};
    snprintf(w.wide, sizeof w.wide, "%s", test_path("wide"));
    snprintf(w.converted, sizeof w.converted, "%s", test_path("converted"));
    snprintf(w.model, sizeof w.model, "%s", test_path("scored"));
    snprintf(w.saved, sizeof w.saved, "%s", test_path("saved"));
    HELD(xsm_model, m) = model_new(p, bias, hidden);
    test_correct(m, p, correction);
    xsm_convert_options options = XSM_CONVERT_OPTIONS_INIT;
    options.dtype = dtype;
    assert_ok(xsm_model_save(m, w.wide, NULL, &err), err);
    MADE(xsm_model, narrow, xsm_model_convert(m, &options, &narrow, &err));
    assert_ok(xsm_model_save(narrow, w.model, NULL, &err), err);
    return w;
}

static void try_bits(bool sparse, bool bias, uint32_t hidden, int32_t dtype, int32_t correction)
{
    static results one, many[TEST_RANKS];
    test_rank ranks[TEST_RANKS];
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 5);
    work w = work_new(&p, bias, hidden, dtype, correction);
    w.of = &one;
    test_run_ranks(1, 2, 0, load_and_use, &w, ranks);
    assert_ok(ranks[0].status, ranks[0].err);
    assert_int_equal(one.dtype, dtype);
    assert_int_equal(one.correction, correction);
    assert_int_equal(one.evaluated, ROWS + 1000 * 128);
    assert_in_range(one.lengths[1][0], 3, 3);
    size_t wanted, size;
    unsigned char *file = test_read(w.model, &wanted);
    w.of = many;
    for (uint32_t count = 2; count <= 4; count++) {
        if (!test_ranks_tried(count)) {
            continue;
        }
        remove(w.saved);
        test_run_ranks(count, 1 + count % 2, 0, load_and_use, &w, ranks);
        for (uint32_t r = 0; r < count; r++) {
            assert_ok(ranks[r].status, ranks[r].err);
            assert_memory_equal(many[r].chosen, one.chosen, sizeof one.chosen);
            assert_memory_equal(many[r].range, one.range, sizeof one.range);
            assert_memory_equal(many[r].all, one.all, sizeof one.all);
            assert_memory_equal(&many[r], &one, sizeof one);
        }
        unsigned char *saved = test_read(w.saved, &size);
        assert_int_equal(size, wanted);
        assert_memory_equal(saved, file, size);
        free(saved);
        test_assert_bytes(w.converted, file, wanted);
        remove(w.converted);
    }
    free(file);
}

TEST(test_floats)
{
    try_bits(false, true, 0, XSM_DTYPE_FLOAT32, XSM_CORRECTION_NONE);
    try_bits(true, false, 0, XSM_DTYPE_FLOAT32, XSM_CORRECTION_NONE);
}

TEST(test_narrow)
{
    for (EACH_KIND(kind)) {
        try_bits(false, kind->factors, 0, kind->dtype, XSM_CORRECTION_NONE);
        try_bits(true, !kind->factors, 0, kind->dtype, XSM_CORRECTION_NONE);
    }
}

TEST(test_corrected)
{
    try_bits(false, true, 0, XSM_DTYPE_FLOAT32, XSM_CORRECTION_CLASSES);
    try_bits(true, false, 0, XSM_DTYPE_BFLOAT16, XSM_CORRECTION_CLASSES);
    try_bits(false, false, 0, XSM_DTYPE_FLOAT32, XSM_CORRECTION_TREE);
    try_bits(true, true, 0, XSM_DTYPE_INT8, XSM_CORRECTION_TREE);
    try_bits(true, true, 0, XSM_DTYPE_FLOAT32, XSM_CORRECTION_PAIRS);
    try_bits(true, false, 0, XSM_DTYPE_BFLOAT16, XSM_CORRECTION_PAIRS);
}

TEST(test_first_layers)
{
    try_bits(true, true, 7, XSM_DTYPE_FLOAT32, XSM_CORRECTION_NONE);
    try_bits(false, false, 40, XSM_DTYPE_FLOAT32, XSM_CORRECTION_TREE);
    try_bits(true, false, 7, XSM_DTYPE_BFLOAT16, XSM_CORRECTION_CLASSES);
    try_bits(true, true, 7, XSM_DTYPE_INT8, XSM_CORRECTION_NONE);
}

/* -- failures ------------------------------------------------------------------------------------------------------ */

/* Numbers that are not finite: scores are what they are, everything else fails on all ranks. */
static xsm_status use_diverged(test_rank *r)
{
    const work *w = r->user;
    HELD(xsm_model, m) = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->model, NULL, NULL, &m, &r->err));
    if (r->rank == r->ranks - 1) {
        xsm_model *own = (xsm_model *)(uintptr_t)xsmi_model_weights(m);
        XSMI_TRY(xsmi_model_own(own, &r->err));
        own->w.weight[(own->classes - 1) * own->w.stride] = -NAN;
    }
    results *to = &w->of[r->rank];
    memset(to, 0, sizeof *to);
    xsm_status status = score(m, w, to, &r->err);
    if (status == XSM_OK) {
        xsm_metrics metrics = XSM_METRICS_INIT;
        status = xsm_evaluate(NULL, m, w->rows, NULL, &metrics, &r->err);
    }
    return status;
}

/* The group fails at each of its first calls in turn, and at some of the later ones. */
static void lose_group(work *w, uint64_t least)
{
    test_rank ranks[TEST_RANKS];
    uint64_t at = 1;
    do {
        test_run_ranks(3, 1, at, load_and_use, w, ranks);
        for (uint32_t r = 1; r < 3; r++) {
            assert_int_equal(ranks[r].status, ranks[0].status);
        }
        assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_ERROR_COMM);
        at = test_next_place(at, 1 + at / 20);
    } while (ranks[0].status != XSM_OK);
    assert_true(at > least);
}

/* Weights in fewer bits are never trained. */
static xsm_status refuse(test_rank *r)
{
    const work *w = r->user;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_estimator, e) = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->model, NULL, NULL, &m, &r->err));
    xsm_status status = xsm_estimator_new(r->context, "nce", &e, &r->err);
    if (status == XSM_OK) {
        status = xsm_estimator_bind(e, m, w->rows, &r->err) == XSM_ERROR_UNSUPPORTED && strstr(r->err.message, "int8")
                     ? XSM_OK
                     : XSM_ERROR_INTERNAL;
    }
    return status;
}

TEST(test_failures)
{
    static results one, many[TEST_RANKS];
    test_rank ranks[TEST_RANKS];
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 5);
    work w = work_new(&p, true, 0, XSM_DTYPE_FLOAT32, XSM_CORRECTION_NONE);
    w.of = &one;
    test_run_ranks(1, 1, 0, use_diverged, &w, ranks);
    assert_fails(ranks[0].status, XSM_ERROR_DIVERGED, ranks[0].err);
    const xsm_error wanted = ranks[0].err;
    w.of = many;
    test_run_ranks(3, 1, 0, use_diverged, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_fails(ranks[r].status, XSM_ERROR_DIVERGED, ranks[r].err);
        assert_non_null(strstr(ranks[r].err.message, wanted.message));
        assert_memory_equal(many[r].chosen, one.chosen, sizeof one.chosen);
        assert_memory_equal(many[r].all, one.all, sizeof one.all);
    }
    assert_true(one.chosen[0] != one.chosen[0]);
    lose_group(&w, 30);
    w = work_new(&p, true, 0, XSM_DTYPE_INT8, XSM_CORRECTION_NONE);
    w.of = many;
    test_run_ranks(2, 1, 0, refuse, &w, ranks);
    assert_ok(ranks[0].status, ranks[0].err);
    assert_ok(ranks[1].status, ranks[1].err);
}
