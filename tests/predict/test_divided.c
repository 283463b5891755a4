/*
 * Models whose classes are divided among ranks: what is saved, evaluated and predicted has the bits of one process, on
 * any number of ranks and threads; a rank that fails ends the call on all; what cannot be divided refuses.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "base/context.h"
#include "comm.h"
#include "model/divided.h"
#include "ranks/comm.h"

#include <xsoftmax/calibrate.h>
#include <xsoftmax/choose.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/search.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/index.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/tune.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Three class runs, the last of a few classes; rows of more than one job of an evaluation. */
enum { ROWS = 260, SOME = 60, FEATURES = 5, CLASSES = 2 * XSMI_RUN_CLASSES + 11, RANKED = 5, TOP = 40 };

/* -- parts --------------------------------------------------------------------------------------------------------- */

TEST(test_parts)
{
    const uint32_t run = XSMI_RUN_CLASSES;
    for (uint32_t classes = run; classes <= 9 * run; classes += run / 2) {
        const uint32_t runs = (classes + run - 1) / run;
        for (uint32_t ranks = 1; ranks <= runs; ranks++) {
            assert_int_equal(xsmi_part_start(classes, ranks, 0), 0);
            assert_int_equal(xsmi_part_start(classes, ranks, ranks), classes);
            for (uint32_t r = 0; r < ranks; r++) {
                const uint32_t first = xsmi_part_start(classes, ranks, r), end = xsmi_part_start(classes, ranks, r + 1);
                assert_true(first < end && first % run == 0);
                assert_int_equal(xsmi_part_of(classes, ranks, first), r);
                assert_int_equal(xsmi_part_of(classes, ranks, end - 1), r);
            }
        }
    }
    assert_int_equal(xsmi_part_start(XSM_CLASSES_MAX, 3, 3), XSM_CLASSES_MAX);
    assert_int_equal(xsmi_part_of(XSM_CLASSES_MAX, 3, XSM_CLASSES_MAX - 1), 2);
}

/* -- the bits of one process --------------------------------------------------------------------------------------- */

/* What a rank computes. */
typedef struct results {
    double log_loss, error, calibration_error;
    uint64_t rows, known_rows, unseen_labels;
    double measures[4][RANKED];
    uint32_t classes[2][ROWS * TOP];
    float scores[2][ROWS * TOP];
    double probabilities[2][ROWS * TOP];
    uint64_t sent; /* bytes */
} results;

typedef struct work {
    const xsm_dataset *one, *several; /* rows with one label, and with up to three */
    uint32_t rows;                    /* to evaluate and to predict */
    char model[256], saved[256], nodes[256], sparse[256];
    results *of; /* [ranks] */
    int32_t layout;
} work;

static xsm_status evaluate(const xsm_model *m, const xsm_dataset *rows, uint32_t count, results *to, xsm_error *err)
{
    xsm_metrics metrics = XSM_METRICS_INIT;
    metrics.top = RANKED;
    metrics.precision = to->measures[0];
    metrics.ndcg = to->measures[1];
    metrics.psp = to->measures[2];
    metrics.psndcg = to->measures[3];
    xsm_evaluate_options options = XSM_EVALUATE_OPTIONS_INIT;
    options.rows = count;
    XSMI_TRY(xsm_evaluate(NULL, m, rows, &options, &metrics, err));
    to->log_loss += metrics.log_loss;
    to->error += metrics.error;
    to->calibration_error += metrics.calibration_error;
    to->rows += metrics.rows;
    to->known_rows += metrics.known_rows;
    to->unseen_labels += metrics.unseen_labels;
    return XSM_OK;
}

static xsm_status predict(const xsm_model *m, const xsm_dataset *rows, uint32_t count, uint32_t top, size_t number,
                          results *to, xsm_error *err)
{
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = top;
    HELD(xsm_predictor, p) = NULL;
    XSMI_TRY(xsm_predictor_new(m, &options, &p, err));
    const xsm_batch batch = xsm_batch_range(rows, 0, count);
    const xsm_status status =
        test_predict(p, &batch, to->classes[number], to->scores[number], to->probabilities[number], err);
    return status;
}

static xsm_status use_model(test_rank *r, xsm_model *m)
{
    work *w = r->user;
    results *to = &w->of[r->rank];
    const uint32_t some = w->rows < SOME ? w->rows : SOME;
    memset(to, 0, sizeof *to);
    char path[300];
    snprintf(path, sizeof path, "%s%s%u", w->saved, r->rank == 0 ? "" : "-", r->rank);
    XSMI_TRY(evaluate(m, w->several, some, to, &r->err));
    XSMI_TRY(evaluate(m, w->one, w->rows, to, &r->err));
    XSMI_TRY(predict(m, w->one, some, 3, 0, to, &r->err));
    XSMI_TRY(predict(m, w->several, some, TOP, 1, to, &r->err));
    to->sent = xsmi_sent_by(r->context).bytes;
    return xsm_model_save(m, path, NULL, &r->err);
}

static xsm_status load_and_use(test_rank *r)
{
    const work *w = r->user;
    HELD(xsm_model, m) = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->model, NULL, NULL, &m, &r->err));
    xsm_status status = xsm_model_set_layout(m, w->layout, &r->err);
    status = status == XSM_OK ? use_model(r, m) : status;
    return status;
}

/* Rows with no label, with one, two and three. */
static xsm_dataset *several_labels(const test_problem *p, bool sparse)
{
    static uint64_t offsets[ROWS + 1];
    static uint32_t labels[3 * ROWS];
    uint64_t count = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        offsets[i] = count;
        for (uint32_t j = 0; j < i % 4; j++) {
            labels[count++] = (i * 37 + j * (CLASSES / 3)) % CLASSES;
        }
    }
    offsets[ROWS] = count;
    for (uint32_t i = 0; i < ROWS; i++) { /* rising within a row */
        for (uint64_t a = offsets[i]; a < offsets[i + 1]; a++) {
            for (uint64_t b = a + 1; b < offsets[i + 1]; b++) {
                if (labels[b] < labels[a]) {
                    const uint32_t saved = labels[a];
                    labels[a] = labels[b];
                    labels[b] = saved;
                }
            }
        }
    }
    return test_relabel(p, sparse, CLASSES, offsets, labels);
}

/* Adds a number for each class to the scores, as training with a sampler does. */
static void correct(xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_head *c = NULL;
    HELD_MEMORY(float, numbers) = calloc(CLASSES, sizeof *numbers);
    uint64_t seed = 9;
    assert_non_null(numbers);
    for (uint32_t k = 0; k < CLASSES; k++) {
        numbers[k] = (float)(-5 * test_uniform(&seed));
    }
    assert_ok(xsmi_correction_of_classes(m->context, numbers, CLASSES, &c, &err), err);
    xsmi_model_set_head(m, c);
    xsmi_head_release(c);
}

static void try_bits(bool sparse, bool bias, int32_t layout, bool corrected)
{
    static results one, many[TEST_RANKS];
    test_rank ranks[TEST_RANKS];
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 5);
    HELD(xsm_dataset, several) = several_labels(&p, sparse);
    xsm_model *m = test_model(NULL, &p, bias, XSM_LAYOUT_CLASS_MAJOR, 3, 6);
    if (corrected) {
        correct(m);
    }
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_dataset_get_class_map(p.data, &map, &err), err);
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    work w = {.one = p.data, .several = several, .rows = ROWS, .layout = layout, .of = &one};
    snprintf(w.model, sizeof w.model, "%s", test_path("divided"));
    snprintf(w.saved, sizeof w.saved, "%s", test_path("saved"));
    assert_ok(xsm_model_save(m, w.model, NULL, &err), err);
    xsm_model_free(m);
    test_run_ranks(1, 2, 0, load_and_use, &w, ranks);
    assert_ok(ranks[0].status, ranks[0].err);
    char path[300];
    snprintf(path, sizeof path, "%s0", w.saved);
    test_assert_same_file(path, w.model);
    assert_true(one.known_rows > ROWS);
    w.of = many;
    for (uint32_t count = 2; count <= 3; count++) {
        remove(path);
        test_run_ranks(count, 1 + count % 2, 0, load_and_use, &w, ranks);
        uint64_t sent = 0;
        for (uint32_t r = 0; r < count; r++) {
            assert_ok(ranks[r].status, ranks[r].err);
            sent += many[r].sent;
            many[r].sent = 0;
            assert_memory_equal(&many[r], &one, sizeof one);
            char other[300];
            snprintf(other, sizeof other, "%s-%u", w.saved, r);
            assert_null(fopen(other, "rb")); /* rank 0 alone writes */
        }
        test_assert_same_file(path, w.model);
        /* 12 bytes for each class run, 8 for each of the best on each rank, the target; then scores of labels, and
         * agreements. */
        const uint64_t runs = (CLASSES + XSMI_RUN_CLASSES - 1) / XSMI_RUN_CLASSES;
        const uint64_t best = (ROWS + SOME) * RANKED + SOME * (TOP + 3), scored = ROWS + 3 * SOME;
        const uint64_t least = scored * (12 * runs + 4 * count) + 8 * best * count;
        assert_in_range(sent, least, least + count * (3 * SOME * 4 + 300));
    }
    remove(path);
}

TEST(test_bits)
{
    try_bits(false, true, XSM_LAYOUT_CLASS_MAJOR, false);
    try_bits(true, false, XSM_LAYOUT_CLASS_MAJOR, false);
    try_bits(true, true, XSM_LAYOUT_FEATURE_MAJOR, false);
    try_bits(false, false, XSM_LAYOUT_CLASS_MAJOR, true);
    try_bits(true, true, XSM_LAYOUT_FEATURE_MAJOR, true);
}

/* -- sparse weights ------------------------------------------------------------------------------------------------ */

/* Every process has them whole, and process 0 saves them; also of fewer classes than could be divided. */
enum { FEW = 50 };

typedef struct pruned {
    const xsm_dataset *rows;
    char sparse[256], saved[256];
    double made[TEST_RANKS][2]; /* log-loss and error */
} pruned;

static xsm_status use_pruned(test_rank *r)
{
    pruned *w = r->user;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_model, narrow) = NULL;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_convert_options type = XSM_CONVERT_OPTIONS_INIT;
    type.dtype = XSM_DTYPE_INT8;
    XSMI_TRY(xsm_model_load(r->context, w->sparse, NULL, NULL, &m, &r->err));
    xsm_status status = xsm_evaluate(NULL, m, w->rows, NULL, &metrics, &r->err);
    w->made[r->rank][0] = metrics.log_loss;
    w->made[r->rank][1] = metrics.error;
    status = status == XSM_OK ? xsm_model_convert(m, &type, &narrow, &r->err) : status;
    status = status == XSM_OK ? xsm_model_save(narrow, w->saved, NULL, &r->err) : status;
    return status;
}

/* Weights above a number; at most three for each class. */
static void save_pruned(const test_problem *p, const char *path)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_prune_options options = XSM_PRUNE_OPTIONS_INIT;
    options.below = 0.5;
    options.keep = 3;
    HELD(xsm_model, m) = test_model(NULL, p, true, XSM_LAYOUT_CLASS_MAJOR, 3, 6);
    MADE(xsm_model, sparse, xsm_model_prune(m, &options, &sparse, &err));
    assert_ok(xsm_model_save(sparse, path, NULL, &err), err);
}

TEST(test_sparse)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, sparse ? CLASSES : FEW, sparse, 5);
        pruned w = {.rows = p.data};
        snprintf(w.sparse, sizeof w.sparse, "%s", test_path("sparse"));
        snprintf(w.saved, sizeof w.saved, "%s", test_path("saved"));
        save_pruned(&p, w.sparse);
        const test_made made = {w.saved, w.made, sizeof *w.made};
        test_same_on_ranks(use_pruned, &w, &made, 4, "sparse weights");
    }
}

/* -- failures ------------------------------------------------------------------------------------------------------ */

/* A file that rank 1 alone cannot read. */
static xsm_status load_elsewhere(test_rank *r)
{
    const work *w = r->user;
    xsm_model *m = NULL;
    const xsm_status status =
        xsm_model_load(r->context, r->rank == 1 ? "/nowhere/at/all" : w->model, NULL, NULL, &m, &r->err);
    return m ? XSM_ERROR_INTERNAL : status;
}

/* A file that is another one for rank 1, as if it had been replaced meanwhile. */
static xsm_status load_replaced(test_rank *r)
{
    const work *w = r->user;
    xsm_model *m = NULL;
    const xsm_status status = xsm_model_load(r->context, r->rank == 1 ? w->saved : w->model, NULL, NULL, &m, &r->err);
    return m ? XSM_ERROR_INTERNAL : status;
}

/* A file of another program, by which ranks could not tell that they have read the same. */
static xsm_status load_unmarked(test_rank *r)
{
    const work *w = r->user;
    xsm_model *m = NULL;
    const xsm_status status = xsm_model_load(r->context, w->saved, NULL, NULL, &m, &r->err);
    const bool loaded = m != NULL;
    xsm_model_free(m);
    return loaded ? XSM_ERROR_INTERNAL : status;
}

static void write_unmarked(const char *path)
{
    enum { LENGTH = 88, WEIGHTS = 3 * XSMI_RUN_CLASSES };
    const unsigned char length[8] = {LENGTH};
    static float weights[WEIGHTS];
    char header[LENGTH + 1], text[LENGTH + 1];
    snprintf(text, sizeof text, "{\"weight\": {\"dtype\": \"F32\", \"shape\": [%d, 1], \"data_offsets\": [0, %d]}}",
             WEIGHTS, 4 * WEIGHTS);
    snprintf(header, sizeof header, "%-*s", LENGTH, text);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fwrite(length, 8, 1, file) == 1 && fwrite(header, LENGTH, 1, file) == 1 &&
                fwrite(weights, sizeof weights, 1, file) == 1 && fclose(file) == 0);
}

/* A folder that rank 0 cannot write to: no other rank looks at it. The model is good afterwards. */
static xsm_status save_nowhere(test_rank *r)
{
    const work *w = r->user;
    HELD(xsm_model, m) = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->model, NULL, NULL, &m, &r->err));
    xsm_status status = xsm_model_save(m, "/nowhere/at/all", NULL, &r->err);
    if (status == XSM_ERROR_IO && strncmp(r->err.message, "rank 0: /nowhere", 16) == 0) {
        status = xsm_model_save(m, w->saved, NULL, &r->err);
    }
    return status;
}

/* A weight of the last rank that is not finite. */
static xsm_status save_diverged(test_rank *r)
{
    const work *w = r->user;
    HELD(xsm_model, m) = NULL;
    XSMI_TRY(xsm_model_load(r->context, w->model, NULL, NULL, &m, &r->err));
    if (r->rank == r->ranks - 1) {
        m->part.own->w.weight[3] = (float)INFINITY;
    }
    xsm_status status = xsm_model_save(m, w->saved, NULL, &r->err);
    if (status == XSM_ERROR_DIVERGED) { /* and rows have no finite scores */
        xsm_metrics metrics = XSM_METRICS_INIT;
        status = xsm_evaluate(NULL, m, w->one, NULL, &metrics, &r->err);
    }
    return status;
}

TEST(test_failures)
{
    test_rank ranks[TEST_RANKS];
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 5);
    xsm_model *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 3, 6);
    results of[3];
    work w = {.one = p.data, .several = p.data, .rows = 5, .of = of};
    snprintf(w.model, sizeof w.model, "%s", test_path("divided"));
    snprintf(w.saved, sizeof w.saved, "%s", test_path("saved"));
    assert_ok(xsm_model_save(m, w.model, NULL, &err), err);
    xsm_parameters weights = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &weights, &err), err);
    weights.weight[0] += 1;
    assert_ok(xsm_model_save(m, w.saved, NULL, &err), err);
    xsm_model_free(m);
    test_run_ranks(3, 1, 0, load_replaced, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_fails(ranks[r].status, XSM_ERROR_STATE, ranks[r].err);
        assert_memory_equal(ranks[r].err.message, "rank 1: ", 8);
    }
    write_unmarked(w.saved);
    test_run_ranks(1, 1, 0, load_unmarked, &w, ranks);
    assert_int_equal(ranks[0].status, XSM_ERROR_INTERNAL); /* one process has loaded it */
    test_run_ranks(3, 1, 0, load_unmarked, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_fails(ranks[r].status, XSM_ERROR_UNSUPPORTED, ranks[r].err);
        assert_memory_equal(ranks[r].err.message, "rank 0: ", 8);
    }

    test_run_ranks(3, 1, 0, load_elsewhere, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_fails(ranks[r].status, XSM_ERROR_IO, ranks[r].err);
        assert_memory_equal(ranks[r].err.message, "rank 1: /nowhere", 16);
    }
    test_run_ranks(3, 1, 0, save_nowhere, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
    }
    test_assert_same_file(w.saved, w.model);
    remove(w.saved);
    test_run_ranks(3, 1, 0, save_diverged, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_fails(ranks[r].status, XSM_ERROR_DIVERGED, ranks[r].err);
    }
    assert_null(fopen(w.saved, "rb"));
    /* The group fails at each of its calls in turn. */
    uint64_t at = 1;
    do {
        test_run_ranks(3, 1, at++, load_and_use, &w, ranks);
        for (uint32_t r = 1; r < 3; r++) {
            assert_int_equal(ranks[r].status, ranks[0].status);
        }
        assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_ERROR_COMM);
    } while (ranks[0].status != XSM_OK);
    assert_true(at > 20);
}

/* -- what cannot be divided ---------------------------------------------------------------------------------------- */

/* Each refusal is with XSM_ERROR_UNSUPPORTED, and names the ranks. */
#define REFUSES(call)                                                                                                  \
    do {                                                                                                               \
        if ((call) != XSM_ERROR_UNSUPPORTED || !strstr(r->err.message, "2 processes")) {                               \
            r->err.status = XSM_ERROR_INTERNAL;                                                                        \
            snprintf(r->err.message, sizeof r->err.message, "not refused: %s", #call);                                 \
            return XSM_ERROR_INTERNAL;                                                                                 \
        }                                                                                                              \
    } while (0)

static xsm_status refuse_index(test_rank *r, const xsm_model *m)
{
    const work *w = r->user;
    HELD(xsm_index, index) = NULL;
    xsm_index *loaded = NULL;
    XSMI_TRY(xsm_index_new(r->context, "spherical", &index, &r->err));
    REFUSES(xsm_index_build_model(index, m, &r->err));
    REFUSES(xsm_index_load(r->context, w->saved, NULL, NULL, m, &loaded, &r->err));
    return XSM_OK;
}

/* Models whose vectors are tied: a new one, and one of a file. */
static xsm_status refuse_tied(test_rank *r)
{
    const work *w = r->user;
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    layer.tied = 1;
    xsm_model *m = NULL;
    REFUSES(xsm_model_new_embedding(r->context, CLASSES, 3, CLASSES, &layer, &m, &r->err));
    REFUSES(xsm_model_load(r->context, w->model, NULL, NULL, &m, &r->err));
    return XSM_OK;
}

/* The choice of how to train, and of a rate; all rows at once. */
static xsm_status refuse_choices(test_rank *r, xsm_model *m)
{
    const work *w = r->user;
    xsm_choice *choice = NULL;
    REFUSES(xsm_choose(r->context, w->one, NULL, &choice, &r->err));
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_optimizer, o) = NULL;
    xsm_tuning *tuning = NULL;
    XSMI_TRY(xsm_estimator_new(NULL, "softmax", &e, &r->err));
    XSMI_TRY(xsm_optimizer_new(NULL, "sgd", &o, &r->err));
    REFUSES(xsm_tune_eta(r->context, m, w->one, e, o, NULL, &tuning, &r->err));
    if (test_has_lbfgs()) { /* else it is refused for that */
        REFUSES(xsm_fit_full_batch(r->context, m, w->one, e, NULL, NULL, &r->err));
    }
    return XSM_OK;
}

/* What searches some of the classes, ranks labels among all, or fits numbers to the scores of all. */
static xsm_status refuse_passes(test_rank *r, xsm_model *m)
{
    const work *w = r->user;
    xsm_predictor *p = NULL;
    xsm_predictor_options beam = XSM_PREDICTOR_OPTIONS_INIT, alone = XSM_PREDICTOR_OPTIONS_INIT,
                          listed = XSM_PREDICTOR_OPTIONS_INIT;
    beam.beam = 20;
    alone.tree_alone = 1;
    listed.shortlist = m;
    REFUSES(xsm_predictor_new(m, &beam, &p, &r->err));
    REFUSES(xsm_predictor_new(m, &alone, &p, &r->err));
    REFUSES(xsm_predictor_new(m, &listed, &p, &r->err));
    xsm_search_metrics searched = XSM_SEARCH_METRICS_INIT;
    REFUSES(xsm_evaluate_search(NULL, m, w->one, NULL, &searched, &r->err));
    xsm_ranks ranks = XSM_RANKS_INIT;
    REFUSES(xsm_evaluate_ranks(NULL, m, w->one, NULL, &ranks, &r->err));
    REFUSES(xsm_model_calibrate(NULL, m, w->one, NULL, NULL, &r->err));
    return XSM_OK;
}

/* Weights of the nodes of a tree: to be trained, and in a file. */
static xsm_status refuse_nodes(test_rank *r, xsm_model *m)
{
    const work *w = r->user;
    HELD(xsm_estimator, e) = NULL;
    xsm_model *loaded = NULL;
    XSMI_TRY(xsm_estimator_new(r->context, "hierarchical", &e, &r->err));
    REFUSES(xsm_estimator_bind(e, m, w->one, &r->err));
    REFUSES(xsm_model_load(r->context, w->nodes, NULL, NULL, &loaded, &r->err));
    return XSM_OK;
}

/* Pruning divided weights, and making sparse ones dense. */
static xsm_status refuse_sparse(test_rank *r, xsm_model *m)
{
    const work *w = r->user;
    HELD(xsm_model, loaded) = NULL;
    REFUSES(xsm_model_prune(m, NULL, &loaded, &r->err));
    XSMI_TRY(xsm_model_load(r->context, w->sparse, NULL, NULL, &loaded, &r->err));
    REFUSES(xsm_model_set_layout(loaded, XSM_LAYOUT_CLASS_MAJOR, &r->err));
    return XSM_OK;
}

static xsm_status refuse_all(test_rank *r, xsm_model *m)
{
    const work *w = r->user;
    xsm_error *err = &r->err;
    xsm_parameters parameters = XSM_PARAMETERS_INIT;
    REFUSES(xsm_model_get_parameters(m, &parameters, err));
    xsm_parameters_view view = XSM_PARAMETERS_VIEW_INIT;
    REFUSES(xsm_model_get_view(m, &view, err));
    XSMI_TRY(refuse_index(r, m));
    XSMI_TRY(refuse_tied(r));
    XSMI_TRY(refuse_choices(r, m));
    XSMI_TRY(refuse_passes(r, m));
    XSMI_TRY(refuse_nodes(r, m));
    XSMI_TRY(refuse_sparse(r, m));
    /* Not refused: time enough for all rows, in two rounds. */
    xsm_metrics metrics = XSM_METRICS_INIT, timed = XSM_METRICS_INIT;
    xsm_evaluate_options limit = XSM_EVALUATE_OPTIONS_INIT;
    limit.seconds = 1000;
    XSMI_TRY(xsm_evaluate(NULL, m, w->one, NULL, &metrics, err));
    XSMI_TRY(xsm_evaluate(NULL, m, w->one, &limit, &timed, err));
    if (timed.rows != metrics.rows || timed.log_loss != metrics.log_loss) {
        return xsmi_fail(err, XSM_ERROR_INTERNAL, "with a time limit %llu rows have log-loss %a, without %a",
                         (unsigned long long)timed.rows, timed.log_loss, metrics.log_loss);
    }
    return XSM_OK;
}

static xsm_status refuse(test_rank *r)
{
    HELD(xsm_model, m) = NULL;
    if (xsm_model_new_linear(r->context, FEATURES, XSMI_RUN_CLASSES, NULL, &m, &r->err) != XSM_ERROR_RANGE) {
        return XSM_ERROR_INTERNAL;
    }
    XSMI_TRY(xsm_model_new_linear(r->context, FEATURES, CLASSES, NULL, &m, &r->err));
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    xsm_status status = xsm_model_get_info(m, &info, &r->err);
    status = status == XSM_OK && (info.classes != CLASSES || info.features != FEATURES || info.bias)
                 ? XSM_ERROR_INTERNAL
                 : status;
    status = status == XSM_OK ? refuse_all(r, m) : status;
    return status;
}

/* A file of an index over some rows. */
static void save_index(const test_problem *p, const char *path)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_index_rows rows = XSM_INDEX_ROWS_INIT;
    rows.rows = p->x;
    rows.count = ROWS;
    rows.width = FEATURES;
    rows.stride = FEATURES;
    MADE(xsm_index, index, xsm_index_new(NULL, "spherical", &index, &err));
    assert_ok(xsm_index_build(index, &rows, &err), err);
    assert_ok(xsm_index_save(index, path, NULL, &err), err);
}

static void save_tied(const char *path)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    layer.tied = 1;
    MADE(xsm_model, m, xsm_model_new_embedding(NULL, CLASSES, 3, CLASSES, &layer, &m, &err));
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
}

TEST(test_refusals)
{
    test_rank ranks[TEST_RANKS];
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 5);
    work w = {.one = p.data};
    snprintf(w.saved, sizeof w.saved, "%s", test_path("index"));
    save_index(&p, w.saved);
    snprintf(w.model, sizeof w.model, "%s", test_path("tied"));
    save_tied(w.model);
    snprintf(w.nodes, sizeof w.nodes, "%s", test_path("nodes"));
    snprintf(w.sparse, sizeof w.sparse, "%s", test_path("sparse"));
    save_pruned(&p, w.sparse);
    xsm_model *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 3, 6);
    test_correct(m, &p, XSM_CORRECTION_HIERARCHY);
    assert_ok(xsm_model_save(m, w.nodes, NULL, &err), err);
    xsm_model_free(m);
    test_run_ranks(2, 1, 0, refuse, &w, ranks);
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
    }
}

/* -- ranks that are unlike ----------------------------------------------------------------------------------------- */

/* Batches of rank 0 and rank 1, and what a prediction says of them. */
typedef struct unlike_batches {
    xsm_batch batches[2];
    uint32_t top[2];
    xsm_status status;
    const char *message;
} unlike_batches;

static xsm_status predict_unlike(test_rank *r)
{
    const unlike_batches *u = r->user;
    const size_t which = r->rank == 1;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = u->top[which];
    uint32_t classes[4 * RANKED];
    HELD(xsm_model, m) = NULL;
    HELD(xsm_predictor, p) = NULL;
    XSMI_TRY(xsm_model_new_linear(r->context, FEATURES, CLASSES, NULL, &m, &r->err));
    xsm_status status = xsm_predictor_new(m, &options, &p, &r->err);
    status = status == XSM_OK ? test_predict(p, &u->batches[which], classes, NULL, NULL, &r->err) : status;
    return status;
}

/* Ranks predict other rows than rank 0, or what one gives is refused: all fail. Of a host's arrays only their number
 * of rows is compared. */
TEST(test_unlike_batches)
{
    static const char other[] = "rank 1: the rows are not those of rank 0";
    static const uint64_t rows[] = {3, 1, 2}, others[] = {3, 2, 1};
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 5);
    HELD_STRUCT(test_problem, moved) = test_problem_new(ROWS, FEATURES, CLASSES, false, 5);
    HELD_STRUCT(test_problem, wide) = test_problem_new(ROWS, FEATURES + 1, CLASSES, false, 5);
    ((float *)(uintptr_t)moved.data->values)[FEATURES - 1] += 1;
    const float *values = p.data->values;
    const size_t stride = p.data->stride;
    const unlike_batches unlike[] = {
        {{xsm_batch_range(p.data, 1, 3), xsm_batch_range(p.data, 1, 3)}, {2, 2}, XSM_OK, ""},
        {{xsm_batch_range(p.data, 1, 3), xsm_batch_range(moved.data, 1, 3)}, {2, 2}, XSM_ERROR_DATA, other},
        {{xsm_batch_range(p.data, 1, 3), xsm_batch_range(p.data, 2, 3)}, {2, 2}, XSM_ERROR_DATA, other},
        {{xsm_batch_range(p.data, 1, 3), xsm_batch_range(p.data, 1, 2)}, {2, 2}, XSM_ERROR_DATA, other},
        {{xsm_batch_rows(p.data, rows, 3), xsm_batch_rows(p.data, rows, 3)}, {2, 2}, XSM_OK, ""},
        {{xsm_batch_rows(p.data, rows, 3), xsm_batch_rows(p.data, others, 3)}, {2, 2}, XSM_ERROR_DATA, other},
        {{xsm_batch_values(values, 3, FEATURES, stride), xsm_batch_values(values + stride, 3, FEATURES, stride)},
         {2, 2},
         XSM_OK,
         ""},
        {{xsm_batch_values(values, 3, FEATURES, stride), xsm_batch_values(values, 4, FEATURES, stride)},
         {2, 2},
         XSM_ERROR_DATA,
         other},
        {{xsm_batch_range(p.data, 1, 3), xsm_batch_range(wide.data, 1, 3)}, {2, 2}, XSM_ERROR_SHAPE, "rank 1: "},
        {{xsm_batch_range(p.data, 1, 3), xsm_batch_range(p.data, ROWS, 3)}, {2, 2}, XSM_ERROR_RANGE, "rank 1: "},
        {{xsm_batch_range(p.data, 1, 3), xsm_batch_range(p.data, 1, 3)},
         {2, XSM_TOP_MAX + 1},
         XSM_ERROR_RANGE,
         "rank 1: top is"},
    };
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++) {
        unlike_batches u = unlike[i];
        test_rank ranks[TEST_RANKS];
        test_run_ranks(3, 1, 0, predict_unlike, &u, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].status, u.status);
            assert_memory_equal(ranks[r].err.message, u.message, strlen(u.message));
        }
    }
}

/* -- other settings than rank 0's ---------------------------------------------------------------------------------- */

/* Calls with options of which rank 1 sets one otherwise, and what all say of it. */
typedef struct unlike_calls {
    const xsm_dataset *rows, *others;
    size_t call;
} unlike_calls;

static const struct {
    const char *says;
    xsm_status status;
} unlike_says[] = {
    {"rank 1: rank 1 has top = 4, and rank 0 has 3;", XSM_ERROR_ARGUMENT},
    {"rank 1: xsm_predictor_options.candidates is 200 without a shortlist", XSM_ERROR_ARGUMENT},
    {"rank 1: rank 1 has top = 4, and rank 0 has 3;", XSM_ERROR_ARGUMENT},
    {"rank 1: rank 1 has top = 0, and rank 0 has 3;", XSM_ERROR_ARGUMENT},
    {"rank 1: rank 1 has rows = 20, and rank 0 has 0;", XSM_ERROR_ARGUMENT},
    {"rank 1: rank 1 has timed = 1, and rank 0 has 0;", XSM_ERROR_ARGUMENT},
    {"rank 1: rank 1 has propensity_a = 0.5, and rank 0 has 0.55;", XSM_ERROR_ARGUMENT},
    {"rank 1: xsm_evaluate_options.seconds is -1", XSM_ERROR_RANGE},
    {"rank 1: rank 1 has threshold = 0.25, and rank 0 has 0;", XSM_ERROR_ARGUMENT},
    {"rank 1: rank 1 has confusions = 1, and rank 0 has 0;", XSM_ERROR_ARGUMENT},
    {"rank 1: xsm_class_metrics_options.beam is 3", XSM_ERROR_UNSUPPORTED},
    {"rank 1: the rows are not those of rank 0, or what is asked", XSM_ERROR_DATA}, /* SCORES: classes of a range */
    {"rank 1: the rows are not those of rank 0, or what is asked", XSM_ERROR_DATA}, /* listed classes */
    {"rank 1: the rows are not those of rank 0, or what is asked", XSM_ERROR_DATA}, /* the least score */
    {"rank 1: the rows are not those of rank 0", XSM_ERROR_DATA},                   /* rows of a gradient */
    {"rank 1: rank 1 has classes = ", XSM_ERROR_ARGUMENT},
    {"rank 1: rank 1 has metadata = ", XSM_ERROR_ARGUMENT},
    {"calibration temperature 2,", XSM_ERROR_ARGUMENT},
    {"rank 1: rank 1 has examples = 800, and rank 0 has 400;", XSM_ERROR_ARGUMENT},
    {"rank 1: rank 1 has estimator.sampler.draws = ", XSM_ERROR_ARGUMENT},
    {"identity sum seed=1 scale=", XSM_ERROR_ARGUMENT},
    {"rank 1: rank 1 has model = (no bias, ", XSM_ERROR_ARGUMENT},
};
enum { SCORES = 11, LISTED, LEAST, GRADIENT, SIZES, METADATA, SCALE, STREAM, DRAWS, LAYER, BIAS };

/* Scores and predictions. */
static xsm_status score_unlike(const unlike_calls *u, bool other, const xsm_model *m, xsm_error *err)
{
    float scores[2 * 200];
    uint32_t classes[2 * RANKED] = {1, other ? 2 : 3};
    const xsm_batch batch = xsm_batch_range(u->rows, 0, 2);
    if (u->call == SCORES) {
        return xsm_model_score_range(m, &batch, 0, other ? 100 : 200, scores, 200, err);
    }
    if (u->call == LISTED) {
        return xsm_model_scores(m, &batch, classes, 1, scores, err);
    }
    HELD(xsm_predictor, p) = NULL;
    xsm_prediction to = XSM_PREDICTION_INIT;
    to.batch = &batch;
    to.classes = classes;
    to.has_least_score = 1;
    to.least_score = other ? -1 : 0;
    xsm_predictor_options find = XSM_PREDICTOR_OPTIONS_INIT;
    find.top = RANKED;
    XSMI_TRY(xsm_predictor_new(m, &find, &p, err));
    return xsm_predictor_run(p, &to, err);
}

/* Bindings and a gradient. */
static xsm_status bind_unlike(const unlike_calls *u, xsm_context *ctx, bool other, const xsm_model *m, xsm_error *err)
{
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_sampler, s) = NULL;
    HELD(xsm_gradient, g) = NULL;
    xsm_stream_options stream = XSM_STREAM_OPTIONS_INIT;
    stream.examples = other ? 800 : 400;
    const xsm_batch batch = xsm_batch_range(u->rows, 0, other ? 6 : 5);
    XSMI_TRY(xsm_estimator_new(ctx, u->call == DRAWS ? "sampled-softmax" : "softmax", &e, err));
    xsm_status status = xsm_estimator_set(e, "ridge", u->call == STREAM ? "5" : "0", err);
    if (u->call == DRAWS) {
        XSMI_TRY(xsm_sampler_new(ctx, "frequency", &s, err));
        XSMI_TRY(xsm_sampler_bind(s, other ? u->others : u->rows, err));
        XSMI_TRY(xsm_estimator_set_sampler(e, s, err));
    }
    status = status != XSM_OK    ? status
             : u->call == STREAM ? xsm_estimator_bind_stream(e, m, &stream, err)
                                 : xsm_estimator_bind(e, m, u->rows, err);
    if (status == XSM_OK && u->call == GRADIENT) {
        XSMI_TRY(xsm_gradient_new(ctx, &g, err));
        status = xsm_estimator_gradient(e, &batch, .1, g, err);
    }
    return status;
}

static xsm_status use_unlike(const unlike_calls *u, xsm_context *ctx, bool other, xsm_error *err)
{
    HELD(xsm_model, m) = NULL;
    xsm_model_options linear = XSM_MODEL_OPTIONS_INIT;
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_calibration scale = XSM_CALIBRATION_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    linear.bias = u->call != BIAS || !other;
    layer.seed = other;
    scale.method = XSM_CALIBRATION_TEMPERATURE;
    scale.scale = other ? 2 : 3;
    XSMI_TRY(u->call == LAYER
                 ? xsm_model_new_embedding(ctx, FEATURES, 4, CLASSES, &layer, &m, err)
                 : xsm_model_new_linear(ctx, FEATURES, CLASSES + (u->call == SIZES && other), &linear, &m, err));
    xsm_status status = u->call == METADATA ? xsm_model_set_metadata(m, "of", other ? "1" : "2", err)
                        : u->call == SCALE  ? xsm_model_set_calibration(m, &scale, err)
                                            : XSM_OK;
    status = status != XSM_OK      ? status
             : u->call <= LEAST    ? score_unlike(u, other, m, err)
             : u->call == SCALE    ? xsm_evaluate(NULL, m, u->rows, NULL, &metrics, err)
             : u->call == METADATA ? xsm_model_save(m, test_path("unlike"), NULL, err)
                                   : bind_unlike(u, ctx, other, m, err);
    return status;
}

static xsm_status call_unlike(test_rank *r)
{
    const unlike_calls *u = r->user;
    if (u->call >= SCORES) {
        return use_unlike(u, r->context, r->rank == 1, &r->err);
    }
    const size_t call = r->rank == 1 ? u->call : SIZE_MAX; /* what this rank does otherwise */
    double measures[4];
    HELD(xsm_model, m) = NULL;
    HELD(xsm_predictor, p) = NULL;
    xsm_confusion pairs[2];
    xsm_predictor_options find = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_evaluate_options evaluate_options = XSM_EVALUATE_OPTIONS_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_class_metrics_options of_classes = XSM_CLASS_METRICS_OPTIONS_INIT;
    xsm_class_metrics class_metrics = XSM_CLASS_METRICS_INIT;
    XSMI_TRY(xsm_model_new_linear(r->context, FEATURES, CLASSES, NULL, &m, &r->err));
    xsm_status status;
    find.top = call == 0 ? 4 : 3;
    find.candidates = call == 1 ? 200 : 0;
    metrics.top = call == 2 ? 4 : 3;
    metrics.precision = call == 3 ? NULL : measures;
    evaluate_options.rows = call == 4 ? 20 : 0;
    evaluate_options.seconds = call == 5 ? 1000 : call == 7 ? -1 : 0;
    evaluate_options.propensity_a = call == 6 ? .5 : XSM_DEFAULT;
    of_classes.threshold = call == 8 ? .25 : 0;
    class_metrics.confusions = call == 9 ? pairs : NULL;
    class_metrics.most = 2;
    of_classes.beam = call == 10 ? 3 : 0;
    if (u->call < 2) {
        status = xsm_predictor_new(m, &find, &p, &r->err);
    } else if (u->call < 8) {
        status = xsm_evaluate(NULL, m, u->rows, &evaluate_options, &metrics, &r->err);
    } else {
        status = xsm_evaluate_classes(NULL, m, u->rows, &of_classes, &class_metrics, &r->err);
    }
    return status;
}

/* What differs is named, on all ranks, also where one refuses what is its own. */
TEST(test_unlike_settings)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 5);
    HELD_STRUCT(test_problem, others) = test_problem_new(ROWS, FEATURES, CLASSES, false, 6);
    for (size_t i = 0; i < sizeof unlike_says / sizeof *unlike_says; i++) {
        unlike_calls u = {p.data, others.data, i};
        test_rank ranks[TEST_RANKS];
        test_run_ranks(3, 1, 0, call_unlike, &u, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            if (ranks[r].status != unlike_says[i].status || !strstr(ranks[r].err.message, unlike_says[i].says)) {
                fail_msg("%zu: rank %u: %s: %s", i, r, xsm_status_name(ranks[r].status), ranks[r].err.message);
            }
        }
    }
}
