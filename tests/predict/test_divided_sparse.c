/*
 * Sparse weights over ranks: what is pruned, converted, saved, loaded, evaluated, predicted and calibrated has the bits
 * of one process, whatever chunks the classes lie in; a rank that fails ends the call on all.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "base/comm.h"
#include "comm.h"
#include "model/divided.h"

#include <xsoftmax/calibrate.h>
#include <xsoftmax/ext/storage.h>
#include <xsoftmax/ext/weights.h>
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
    /* One chunk of all classes; its values are sent in several pieces. */
    {true, true, XSM_CORRECTION_NONE, {32768, (size_t)1 << 30}, 0, 0, XSM_DTYPE_FLOAT32},
    {false, false, XSM_CORRECTION_CLASSES, {32768, (size_t)1 << 30}, 1.5, 9, XSM_DTYPE_INT8},
    /* Chunks that begin and end within the parts of ranks. */
    {true, false, XSM_CORRECTION_NONE, {5000, (size_t)1 << 30}, 0, 3, XSM_DTYPE_BFLOAT16},
    /* Chunks that end early: where depends on the weights of the ranks before. */
    {true, true, XSM_CORRECTION_NONE, {5000, 9001}, 2, 0, XSM_DTYPE_FLOAT32},
    {false, true, XSM_CORRECTION_NONE, {6000, 9001}, 1, 4, XSM_DTYPE_INT8},
    /* Rows that are numbered in a byte. */
    {true, true, XSM_CORRECTION_NONE, {200, (size_t)1 << 30}, 0, 2, XSM_DTYPE_INT8},
    /* Chunks of one rank each, one of them without a weight; a tree of the classes. */
    {true, true, XSM_CORRECTION_HIERARCHY, {XSMI_RUN_CLASSES, (size_t)1 << 30}, 0.5, 5, XSM_DTYPE_FLOAT32},
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
    char saved[256];
    results *of; /* [ranks][2] after pruning, and after loading what was converted */
    size_t k;    /* rank 1's k-th allocation fails */
    bool reached;
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

/* Converts and saves. */
static xsm_status convert_and_save(const xsm_model *m, int32_t dtype, const char *path, xsm_error *err)
{
    xsm_convert_options type = XSM_CONVERT_OPTIONS_INIT;
    type.dtype = dtype;
    xsm_model *converted = NULL;
    XSMI_TRY(xsm_model_convert(m, &type, &converted, err));
    const xsm_status status = xsm_model_save(converted, path, err);
    xsm_model_free(converted);
    return status;
}

/* Prunes, converts and saves; then loads what was converted and saves it. */
static xsm_status prune_and_load(test_rank *r)
{
    const work *w = r->user;
    xsm_prune_options options = XSM_PRUNE_OPTIONS_INIT;
    options.below = w->plan->below;
    options.keep = w->plan->keep;
    char path[300];
    xsm_model *m = NULL, *pruned = NULL, *loaded = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->dense, NULL, &m, &r->err));
    xsm_status status = xsmi_model_prune(m, &options, w->plan->chunks, &pruned, &r->err);
    xsm_model_free(m);
    XSMI_TRY(status);
    status = xsm_model_save(pruned, w->saved, &r->err);
    snprintf(path, sizeof path, "%s-made", w->saved);
    status = status == XSM_OK ? convert_and_save(pruned, w->plan->dtype, path, &r->err) : status;
    status = status == XSM_OK ? use_model(pruned, w, &w->of[2 * r->rank], &r->err) : status;
    xsm_model_free(pruned);
    XSMI_TRY(status);
    XSMI_TRY(xsm_model_load(r->context, w->converted, NULL, &loaded, &r->err));
    snprintf(path, sizeof path, "%s-again", w->saved);
    status = xsm_model_save(loaded, path, &r->err);
    status = status == XSM_OK ? use_model(loaded, w, &w->of[2 * r->rank + 1], &r->err) : status;
    xsm_model_free(loaded);
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
            m->weight[k * m->stride + j] *= run == 2 || (j >= 20 && j % 5 != run) ? 0 : 1;
        }
    }
    if (of->correction == XSM_CORRECTION_HIERARCHY) {
        test_correct(m, p, of->correction);
    } else if (of->correction == XSM_CORRECTION_CLASSES) {
        xsmi_correction *c = NULL;
        float *numbers = calloc(CLASSES, sizeof *numbers);
        assert_non_null(numbers);
        for (uint32_t k = 0; k < CLASSES; k++) {
            numbers[k] = -(float)(k % 7) / 2;
        }
        assert_ok(xsmi_correction_of_classes(m->context, numbers, CLASSES, &c, &err), err);
        xsmi_model_set_correction(m, c);
        xsmi_correction_release(c);
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

static void assert_made(const work *w)
{
    char path[300];
    snprintf(path, sizeof path, "%s-made", w->saved);
    test_assert_same_file(path, w->converted);
    remove(path);
}

static void assert_files(const work *w)
{
    char path[300];
    snprintf(path, sizeof path, "%s-again", w->saved);
    test_assert_same_file(w->saved, w->sparse);
    test_assert_same_file(path, w->converted);
    remove(w->saved);
    remove(path);
}

static void test_bits(void **state)
{
    (void)state;
    static results one[2], many[2 * TEST_RANKS];
    test_rank ranks[TEST_RANKS];
    for (size_t i = 0; i < PLANS; i++) {
        test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, plans[i].sparse, 5);
        work w = work_new(&plans[i], &p);
        w.of = one;
        test_run_ranks(1, 1, 0, prune_and_load, &w, ranks);
        assert_ok(ranks[0].status, ranks[0].err);
        assert_files(&w);
        assert_made(&w);
        assert_int_equal(one[0].layout, XSM_LAYOUT_SPARSE_ROWS);
        assert_int_equal(one[1].dtype, plans[i].dtype);
        assert_int_equal(one[1].weights, one[0].weights);
        assert_true(one[0].error == 0.875); /* one row of eight is labelled with the best of its classes */
        assert_true(one[0].weights > CLASSES && one[0].weights < (uint64_t)CLASSES * FEATURES);
        w.of = many;
        static const uint32_t counts[] = {2, 3, 5};
        for (size_t c = 0; c < 3; c++) {
            if (!test_ranks_tried(counts[c])) {
                continue;
            }
            test_run_ranks(counts[c], 1 + (uint32_t)(c + i) % 2, 0, prune_and_load, &w, ranks);
            for (uint32_t r = 0; r < counts[c]; r++) {
                assert_ok(ranks[r].status, ranks[r].err);
                assert_memory_equal(&many[2 * r], &one[0], sizeof *one);
                assert_memory_equal(&many[2 * r + 1], &one[1], sizeof *one);
            }
            assert_files(&w);
            assert_made(&w);
        }
        xsm_dataset_free(w.rows);
        test_problem_free(&p);
    }
}

/* -- files, layouts, and what cannot be done ----------------------------------------------------------------------- */

typedef struct reading {
    const unsigned char *bytes;
    size_t size, at;
} reading;

static int64_t read_some(void *user, void *buffer, size_t size)
{
    reading *r = user;
    const size_t left = r->size - r->at, count = size < left ? size : left;
    memcpy(buffer, r->bytes + r->at, count);
    r->at += count;
    return (int64_t)count;
}

/* To a storage that is gone over twice, whose bytes rank 0 puts at the path. */
static xsm_status save_twice(test_rank *r, const xsm_model *m, const char *path)
{
    xsm_buffer *buffer = NULL;
    xsm_storage storage = XSM_STORAGE_INIT;
    XSMI_TRY(xsm_buffer_new(NULL, &buffer, &r->err));
    xsm_status status = xsm_buffer_get_storage(buffer, &storage, &r->err);
    storage.seek = NULL;
    status = status == XSM_OK ? xsm_model_save_to(m, &storage, &r->err) : status;
    uint64_t count = 0;
    const void *bytes = xsm_buffer_bytes(buffer, &count);
    if (status == XSM_OK && r->rank == 0) {
        FILE *f = fopen(path, "wb");
        const bool written = f && fwrite(bytes, 1, (size_t)count, f) == count;
        status = f && fclose(f) == 0 && written ? XSM_OK : XSM_ERROR_INTERNAL;
    } else if (status == XSM_OK && bytes) {
        status = XSM_ERROR_INTERNAL; /* the others' stay empty */
    }
    xsm_buffer_free(buffer);
    return status;
}

/* From bytes in place and from a source; each rank has memory for its own weights alone. Then dense, and saved. */
static xsm_status load_from(test_rank *r)
{
    const work *w = r->user;
    size_t size;
    unsigned char *bytes = test_read(w->converted, &size);
    reading from = {bytes, size, 0};
    const xsm_source source = {&from, read_some};
    char path[300];
    xsm_status status = XSM_OK;
    for (int i = 0; i < 2 && status == XSM_OK; i++) {
        xsm_storage storage = XSM_STORAGE_INIT;
        storage.name = "weights";
        if (i == 0) {
            storage.bytes = bytes;
            storage.byte_count = size;
        } else {
            storage.source = &source;
        }
        xsm_model *m = NULL;
        status = xsm_model_load_from(r->context, &storage, NULL, &m, &r->err);
        if (status == XSM_OK && m->part.own->sparse->rows != m->part.end - m->part.first) {
            status = XSM_ERROR_INTERNAL;
        }
        snprintf(path, sizeof path, "%s-again", w->saved);
        status = status != XSM_OK ? status : i == 0 ? xsm_model_save(m, path, &r->err) : save_twice(r, m, path);
        status = status == XSM_OK ? xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, &r->err) : status;
        status = status == XSM_OK ? xsm_model_save(m, w->saved, &r->err) : status;
        xsm_model_free(m);
    }
    free(bytes);
    return status;
}

static void test_storages(void **state)
{
    (void)state;
    test_rank ranks[TEST_RANKS];
    xsm_error err = XSM_ERROR_INIT;
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, true, 5);
    work w = work_new(&plans[3], &p);
    /* What one process makes dense. */
    xsm_model *m = NULL;
    assert_ok(xsm_model_load(NULL, w.converted, NULL, &m, &err), err);
    assert_ok(xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, &err), err);
    assert_ok(xsm_model_save(m, w.sparse, &err), err);
    xsm_model_free(m);
    test_run_ranks(3, 1, 0, load_from, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
    }
    assert_files(&w);
    xsm_dataset_free(w.rows);
    test_problem_free(&p);
}

/* Each refusal is with XSM_ERROR_UNSUPPORTED, and says why. */
#define REFUSES(call, why)                                                                                             \
    do {                                                                                                               \
        if ((call) != XSM_ERROR_UNSUPPORTED || !strstr(r->err.message, why)) {                                         \
            return xsmi_fail(&r->err, XSM_ERROR_INTERNAL, "not refused: %s", #call);                                   \
        }                                                                                                              \
    } while (0)

static xsm_status refuse_all(test_rank *r, xsm_model *m)
{
    const work *w = r->user;
    xsm_error *err = &r->err;
    xsm_model *other = NULL;
    xsm_estimator *e = NULL;
    xsm_parameters parameters = XSM_PARAMETERS_INIT;
    xsm_parameters_view view = XSM_PARAMETERS_VIEW_INIT;
    REFUSES(xsm_model_prune(m, NULL, &other, err), "sparse");
    REFUSES(xsm_model_parameters(m, &parameters, err), "2 ranks");
    REFUSES(xsm_model_view(m, &view, err), "2 ranks");
    XSMI_TRY(xsm_estimator_new(r->context, "nce", &e, err));
    const xsm_status status = xsm_estimator_bind(e, m, w->rows, err);
    xsm_estimator_free(e);
    REFUSES(status, "sparse");
    return XSM_OK;
}

static xsm_status refuse(test_rank *r)
{
    const work *w = r->user;
    xsm_model *m = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->sparse, NULL, &m, &r->err));
    const xsm_status status = refuse_all(r, m);
    xsm_model_free(m);
    return status;
}

static xsm_status load_sparse(test_rank *r)
{
    const work *w = r->user;
    xsm_load_options options = XSM_LOAD_OPTIONS_INIT;
    options.skip_verify = 1;
    xsm_model *m = NULL;
    const xsm_status status =
        xsm_model_load(r->context, r->rank == w->k ? "/nowhere/at/all" : w->sparse, &options, &m, &r->err);
    xsm_model_free(m);
    return status;
}

static void test_refusals(void **state)
{
    (void)state;
    test_rank ranks[TEST_RANKS];
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, true, 5);
    work w = work_new(&plans[2], &p);
    test_run_ranks(2, 1, 0, refuse, &w, ranks);
    assert_ok(ranks[0].status, ranks[0].err);
    assert_ok(ranks[1].status, ranks[1].err);
    /* Five runs, of more ranks. */
    w.k = TEST_RANKS;
    test_run_ranks(6, 1, 0, load_sparse, &w, ranks);
    for (uint32_t r = 0; r < 6; r++) {
        assert_fails(ranks[r].status, XSM_ERROR_RANGE, ranks[r].err);
        assert_memory_equal(ranks[r].err.message, "rank 0: ", 8);
    }
    xsm_dataset_free(w.rows);
    test_problem_free(&p);
}

/* -- failures ------------------------------------------------------------------------------------------------------ */

/* Converts, and forgets it. */
static xsm_status try_conversion(const xsm_model *m, int32_t dtype, xsm_error *err)
{
    xsm_convert_options type = XSM_CONVERT_OPTIONS_INIT;
    type.dtype = dtype;
    xsm_model *converted = NULL;
    const xsm_status status = xsm_model_convert(m, &type, &converted, err);
    xsm_model_free(converted);
    return converted || status != XSM_OK ? status : XSM_ERROR_INTERNAL;
}

/* Prunes, converts, saves, and loads. */
static xsm_status prune_and_save(xsm_context *ctx, const work *w, xsm_error *err)
{
    xsm_prune_options options = XSM_PRUNE_OPTIONS_INIT;
    options.below = w->plan->below;
    options.keep = w->plan->keep;
    xsm_model *m = NULL, *pruned = NULL;
    XSMI_TRY(xsm_model_load(ctx, w->dense, NULL, &m, err));
    xsm_status status = xsmi_model_prune(m, &options, w->plan->chunks, &pruned, err);
    status = status == XSM_OK ? try_conversion(m, XSM_DTYPE_INT8, err) : status;
    status = status == XSM_OK ? try_conversion(pruned, XSM_DTYPE_BFLOAT16, err) : status;
    xsm_model_free(m);
    if (status != XSM_OK) {
        xsm_model_free(pruned);
        return status;
    }
    status = xsm_model_save(pruned, w->saved, err);
    xsm_model_free(pruned);
    XSMI_TRY(status);
    m = NULL;
    XSMI_TRY(xsm_model_load(ctx, w->converted, NULL, &m, err));
    status = xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, err);
    const bool kept = m->layout == (status == XSM_OK ? XSM_LAYOUT_CLASS_MAJOR : XSM_LAYOUT_SPARSE_ROWS) &&
                      m->part.own->layout == m->layout && !m->part.own->sparse == (status == XSM_OK);
    xsm_model_free(m);
    return kept ? status : xsmi_fail(err, XSM_ERROR_INTERNAL, "the layout is not that of all ranks");
}

static xsm_status lose(test_rank *r)
{
    return prune_and_save(r->context, r->user, &r->err);
}

/* The group fails at each of its calls in turn. */
static void test_lost(void **state)
{
    (void)state;
    test_rank ranks[TEST_RANKS];
    static const size_t tried[] = {1, 3, 5};
    for (size_t i = 0; i < 3; i++) {
        plan of = plans[tried[i]];
        of.dtype = XSM_DTYPE_FLOAT32; /* to be made dense */
        of.sparse = true;
        test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, true, 5);
        work w = work_new(&of, &p);
        uint64_t at = 1;
        do {
            remove(w.saved);
            test_run_ranks(3, 1, at, lose, &w, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                assert_int_equal(ranks[r].status, ranks[0].status);
            }
            assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_ERROR_COMM);
            at = test_next_place(at, 1 + at / 12);
        } while (ranks[0].status != XSM_OK);
        assert_true(at > 40);
        test_assert_same_file(w.saved, w.sparse);
        xsm_dataset_free(w.rows);
        test_problem_free(&p);
    }
}

/* In a context in which rank 1's k-th allocation fails. */
static xsm_status run_short(test_rank *r)
{
    work *w = r->user;
    test_countdown c = {0, false};
    xsm_context *ctx = NULL;
    XSMI_TRY(test_rank_context(r, &c, NULL, &ctx));
    c.left = r->rank == 1 ? w->k : 0;
    xsm_status status = prune_and_save(ctx, w, &r->err);
    xsm_context_free(ctx);
    if (r->rank == 1) {
        w->reached = c.reached;
    }
    return status;
}

static void test_memory_lost(void **state)
{
    (void)state;
    test_rank ranks[TEST_RANKS];
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, true, 5);
    plan of = plans[4];
    of.sparse = true;
    of.dtype = XSM_DTYPE_FLOAT32;
    work w = work_new(&of, &p);
    size_t failed = 0;
    w.reached = true;
    for (w.k = 1; w.reached; w.k = test_next_place(w.k, 1 + w.k / 25)) {
        remove(w.saved);
        test_run_ranks(3, 1, 0, run_short, &w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].status, ranks[0].status);
            if (ranks[0].status == XSM_OK) {
                continue; /* not reached, or the rank has done without */
            }
            assert_true(w.reached);
            assert_fails(ranks[r].status, XSM_ERROR_MEMORY, ranks[r].err);
            assert_memory_equal(ranks[r].err.message, "rank 1: ", 8);
        }
        failed += ranks[0].status != XSM_OK;
    }
    assert_true(failed > (test_full() ? 40 : 10));
    test_assert_same_file(w.saved, w.sparse);
    xsm_dataset_free(w.rows);
    test_problem_free(&p);
}

/* Overwrites a byte of a file from the end on. */
static void damage(const char *path, size_t from_end)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -(long)from_end, SEEK_END), 0);
    assert_int_equal(fputc(0xFF, f), 0xFF);
    assert_int_equal(fclose(f), 0);
}

/* A weight of one rank that is not finite; a file that one rank lacks; rows of one rank that are none. */
static xsm_status prune_diverged(test_rank *r)
{
    const work *w = r->user;
    xsm_model *m = NULL, *pruned = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->dense, NULL, &m, &r->err));
    if (r->rank == 2) {
        m->part.own->weight[3] = (float)INFINITY;
    }
    xsm_prune_options options = XSM_PRUNE_OPTIONS_INIT;
    const xsm_status status = xsmi_model_prune(m, &options, w->plan->chunks, &pruned, &r->err);
    xsm_model_free(m);
    return pruned ? XSM_ERROR_INTERNAL : status;
}

/* The same of conversions, of dense weights and of sparse ones. */
static xsm_status convert_diverged(test_rank *r)
{
    const work *w = r->user;
    const bool sparse = w->k == TEST_RANKS;
    xsm_model *m = NULL;
    XSMI_TRY(xsm_model_load(r->context, sparse ? w->sparse : w->dense, NULL, &m, &r->err));
    if (r->rank == 2) {
        xsm_model *own = m->part.own;
        *(sparse ? (float *)(uintptr_t)own->sparse->values : own->weight + 3) = (float)INFINITY;
    }
    const xsm_status status = try_conversion(m, XSM_DTYPE_INT8, &r->err);
    xsm_model_free(m);
    return status;
}

static void test_failures(void **state)
{
    (void)state;
    test_rank ranks[TEST_RANKS];
    char message[100];
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, true, 5);
    for (size_t i = 2; i < 4; i++) {
        work w = work_new(&plans[i], &p);
        test_run_ranks(3, 1, 0, prune_diverged, &w, ranks);
        snprintf(message, sizeof message, "rank 2: the weight of class %u and feature 3 is not finite",
                 xsmi_part_start(CLASSES, 3, 2));
        for (uint32_t r = 0; r < 3; r++) {
            assert_fails(ranks[r].status, XSM_ERROR_DIVERGED, ranks[r].err);
            assert_string_equal(ranks[r].err.message, message);
        }
        for (int sparse = 0; sparse < 2; sparse++) {
            w.k = sparse ? TEST_RANKS : 0;
            test_run_ranks(3, 1, 0, convert_diverged, &w, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                assert_fails(ranks[r].status, XSM_ERROR_DIVERGED, ranks[r].err);
                assert_memory_equal(ranks[r].err.message, "rank 2: the weight of class ", 28);
                assert_non_null(strstr(ranks[r].err.message, "is not finite in int8"));
                const unsigned long class = strtoul(ranks[r].err.message + 28, NULL, 10);
                assert_in_range(class, xsmi_part_start(CLASSES, 3, 2),
                                sparse ? CLASSES : xsmi_part_start(CLASSES, 3, 2));
            }
        }
        xsm_dataset_free(w.rows);
    }
    work w = work_new(&plans[2], &p);
    w.k = 1;
    test_run_ranks(3, 1, 0, load_sparse, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_fails(ranks[r].status, XSM_ERROR_IO, ranks[r].err);
        assert_memory_equal(ranks[r].err.message, "rank 1: /nowhere", 16);
    }
    /* The last tensor has the rows within chunks of 16 bits: that of the last entry, which the last rank reads, is made
     * one beyond the chunk. */
    w.k = TEST_RANKS;
    damage(w.sparse, 1);
    test_run_ranks(3, 1, 0, load_sparse, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_fails(ranks[r].status, XSM_ERROR_FORMAT, ranks[r].err);
        assert_memory_equal(ranks[r].err.message, "rank 2: ", 8);
        assert_non_null(strstr(ranks[r].err.message, "sparse weights"));
    }
    xsm_dataset_free(w.rows);
    test_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits), cmocka_unit_test(test_storages),    cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_lost), cmocka_unit_test(test_memory_lost), cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, test_files_teardown);
}
