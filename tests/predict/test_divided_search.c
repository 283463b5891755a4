/*
 * Searches of models whose classes are divided among ranks, by a label tree as shortlist, a beam in the model's tree,
 * or the tree alone; and predictions of label trees, whose rows are divided: the same bits as in one process, with
 * filters and thresholds, scores and probabilities, on any number of ranks and threads.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "base/context.h"
#include "comm.h"
#include "model/model.h"

#include <xsoftmax/calibrate.h>
#include <xsoftmax/filter.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/predict.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Five class runs, the last of a few classes; more rows than are searched together. */
enum { ROWS = 290, SOME = 23, FEATURES = 6, CLASSES = 4 * XSMI_RUN_CLASSES + 11, TOP = 4, CALLS = 7 };

/* How classes are found. */
typedef enum way { SHORTLIST, BEAM, TREE_ALONE, LABEL_TREE, HIERARCHY, WAYS } way;

/* What a rank finds. */
typedef struct results {
    uint32_t classes[CALLS][ROWS * TOP];
    float scores[CALLS][ROWS * TOP];
    double probabilities[CALLS][ROWS * TOP];
    uint32_t lengths[CALLS][ROWS];
    uint64_t probed;
    double recall[TOP], mean_probed;
} results;

typedef struct work {
    const test_problem *problem;
    way how;
    bool likely; /* there are probabilities */
    bool brief;  /* few calls */
    char model[256], tree[256];
    results *of;                       /* [ranks] */
    xsm_context *contexts[TEST_RANKS]; /* of the models, NULL: the rank's own */
    test_memory *memory;               /* of rank 1's */
    size_t fail;                       /* the allocation that it is refused once models are loaded; 0 = none */
    xsm_status status;                 /* of rank 1, meanwhile */
} work;

/* -- what ranks do ------------------------------------------------------------------------------------------------- */

static xsm_status call(xsm_predictor *p, const xsm_batch *batch, xsm_prediction to, size_t number, const work *w,
                       results *r, xsm_error *err)
{
    to.batch = batch;
    to.classes = r->classes[number];
    to.scores = r->scores[number];
    to.lengths = r->lengths[number];
    to.probabilities = w->likely && number % 2 == 0 ? r->probabilities[number] : NULL;
    return xsm_predictor_run(p, &to, err);
}

/* Lists of each row: three classes; or a range of thousands, in which a search may find nothing. */
static xsm_status call_lists(xsm_predictor *p, const xsm_batch *batch, const work *w, results *r, xsm_error *err)
{
    enum { RANGE = 2000 };
    uint64_t few_ends[SOME + 1], many_ends[SOME + 1];
    uint32_t few[3 * SOME];
    uint32_t *many = calloc(SOME * RANGE, sizeof *many);
    for (uint32_t i = 0; i <= SOME; i++) {
        few_ends[i] = 3 * (uint64_t)i;
        many_ends[i] = RANGE * (uint64_t)i;
        for (uint32_t j = 0; i < SOME && j < RANGE; j++) {
            few[3 * i + j % 3] = 17 * i + j % 3 * (CLASSES / 3);
            many[RANGE * i + j] = i * 613 + j;
        }
    }
    xsm_prediction to = XSM_PREDICTION_INIT;
    to.allow_offsets = few_ends;
    to.allow = few;
    xsm_status status = call(p, batch, to, 2, w, r, err);
    to.allow_offsets = many_ends;
    to.allow = many;
    to.deny_offsets = few_ends;
    to.deny = few;
    status = status == XSM_OK ? call(p, batch, to, 3, w, r, err) : status;
    free(many);
    return status;
}

/* A filter of the call that leaves every ninth class; with known labels excluded. */
static xsm_status call_filtered(xsm_predictor *p, const xsm_batch *batch, const work *w, results *r, xsm_error *err)
{
    xsm_filter *filter = NULL;
    xsm_filter_classes left = XSM_FILTER_CLASSES_INIT;
    uint32_t *list = calloc(CLASSES, sizeof *list);
    left.classes = CLASSES;
    left.allow = list;
    for (uint32_t k = 0; k < CLASSES; k += 9) {
        list[left.allow_count++] = k;
    }
    xsm_status status = xsm_filter_new(NULL, &left, &filter, err);
    if (status == XSM_OK) {
        xsm_prediction to = XSM_PREDICTION_INIT;
        to.filter = filter;
        to.exclude_known = 1;
        status = call(p, batch, to, 4, w, r, err);
    }
    xsm_filter_free(filter);
    free(list);
    return status;
}

static xsm_status predict(xsm_predictor *p, const work *w, results *r, xsm_error *err)
{
    const test_problem *problem = w->problem;
    const xsm_batch all = xsm_batch_range(problem->data, 0, ROWS), some = xsm_batch_range(problem->data, 5, SOME);
    if (w->brief) {
        XSMI_TRY(call(p, &some, (xsm_prediction)XSM_PREDICTION_INIT, 0, w, r, err));
        return call_filtered(p, &some, w, r, err);
    }
    XSMI_TRY(call(p, &all, (xsm_prediction)XSM_PREDICTION_INIT, 0, w, r, err));
    xsm_prediction known = XSM_PREDICTION_INIT;
    known.exclude_known = 1;
    XSMI_TRY(call(p, &some, known, 1, w, r, err));
    XSMI_TRY(call_lists(p, &some, w, r, err));
    XSMI_TRY(call_filtered(p, &some, w, r, err));
    /* Rows in another order, above thresholds. */
    uint64_t rows[SOME];
    for (uint64_t i = 0; i < SOME; i++) {
        rows[i] = ROWS - 1 - 7 * i;
    }
    const xsm_batch listed = xsm_batch_rows(problem->data, rows, SOME);
    xsm_prediction sure = XSM_PREDICTION_INIT;
    sure.least_probability = w->likely ? r->probabilities[0][TOP - 2] : 0;
    sure.has_least_score = 1;
    sure.least_score = r->scores[0][TOP - 1];
    XSMI_TRY(call(p, &listed, sure, 5, w, r, err));
    /* Features and labels of the caller's. */
    xsm_batch values = xsm_batch_values(problem->x, SOME, FEATURES, FEATURES);
    values.labels = problem->labels;
    XSMI_TRY(call(p, &values, known, 6, w, r, err));
    xsm_predictor_info info = XSM_PREDICTOR_INFO_INIT;
    XSMI_TRY(xsm_predictor_get_info(p, &info, err));
    r->probed = info.probed;
    return XSM_OK;
}

static xsm_predictor_options options_of(const work *w, const xsm_model *tree)
{
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    o.top = TOP;
    o.shortlist = w->how == SHORTLIST ? tree : NULL;
    o.candidates = w->how == SHORTLIST ? 30 : 0;
    o.beam = w->how == HIERARCHY ? 0 : w->how == LABEL_TREE || w->how == SHORTLIST ? 5 : 20;
    o.tree_alone = w->how == TREE_ALONE;
    return o;
}

static xsm_status use_models(test_rank *rank, const xsm_model *m, const xsm_model *tree)
{
    work *w = rank->user;
    results *r = &w->of[rank->rank];
    const xsm_predictor_options o = options_of(w, tree);
    xsm_predictor *p = NULL;
    memset(r, 0, sizeof *r);
    XSMI_TRY(xsm_predictor_new(m, &o, &p, &rank->err));
    const xsm_status status = predict(p, w, r, &rank->err);
    xsm_predictor_free(p);
    if (status != XSM_OK || w->brief) {
        return status;
    }
    xsm_search_metrics metrics = XSM_SEARCH_METRICS_INIT;
    metrics.top = TOP;
    metrics.recall = r->recall;
    XSMI_TRY(xsm_evaluate_search(NULL, m, w->problem->data, &o, &metrics, &rank->err));
    r->mean_probed = metrics.probed;
    return XSM_OK;
}

static xsm_status load_and_use(test_rank *rank)
{
    work *w = rank->user;
    xsm_context *ctx = w->contexts[rank->rank] ? w->contexts[rank->rank] : rank->context;
    if (ctx != rank->context) {
        ctx->group = rank->context->group;
    }
    xsm_model *m = NULL, *tree = NULL;
    xsm_status status = xsm_model_load(ctx, w->how == LABEL_TREE ? w->tree : w->model, NULL, &m, &rank->err);
    if (status == XSM_OK && w->how == SHORTLIST) {
        status = xsm_model_load(ctx, w->tree, NULL, &tree, &rank->err);
    }
    if (status == XSM_OK && w->fail > 0 && rank->rank == 1) {
        test_memory_fail(w->memory, w->fail);
    }
    status = status == XSM_OK ? use_models(rank, m, tree) : status;
    xsm_model_free(tree);
    xsm_model_free(m);
    return status;
}

/* -- models -------------------------------------------------------------------------------------------------------- */

static void correct(xsm_model *m, const test_problem *p, int32_t kind)
{
    xsm_error err = XSM_ERROR_INIT;
    if (kind == XSM_CORRECTION_HIERARCHY) {
        xsmi_class_tree *tree = NULL;
        assert_ok(xsmi_hierarchy_balanced(m->context, NULL, CLASSES, &tree, &err), err);
        xsmi_model_set_hierarchy(m, tree);
        xsmi_class_tree_release(tree);
    } else {
        test_correct(m, p, kind);
    }
}

/* A linear model, or one with a first layer of `hidden` > 0. */
static xsm_model *model_new(const test_problem *p, uint32_t hidden)
{
    xsm_error err = XSM_ERROR_INIT;
    if (hidden == 0) {
        return test_model(NULL, p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 6);
    }
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    layer.activation = XSM_ACTIVATION_TANH;
    xsm_model *m = NULL;
    uint64_t seed = 6;
    assert_ok(xsm_model_new_embedding(NULL, FEATURES, hidden, CLASSES, &layer, &m, &err), err);
    assert_ok(xsmi_model_own(m, &err), err);
    for (size_t k = 0; k < CLASSES; k++) {
        for (size_t j = 0; j < hidden; j++) {
            m->w.weight[k * m->w.stride + j] = (float)(2 * test_uniform(&seed) - 1);
        }
    }
    return m;
}

static void save_model(const work *w, uint32_t hidden, int32_t correction)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = model_new(w->problem, hidden);
    correct(m, w->problem, correction);
    if (w->how != TREE_ALONE && correction != XSM_CORRECTION_HIERARCHY) { /* so that there are probabilities */
        xsm_calibration c = XSM_CALIBRATION_INIT;
        c.method = XSM_CALIBRATION_LABELS;
        c.scale = 0.75;
        c.shift = -2;
        assert_ok(xsm_model_set_calibration(m, &c, &err), err);
    }
    assert_ok(xsm_model_save(m, w->model, &err), err);
    xsm_model_free(m);
}

static void save_tree(const work *w, int64_t trees, int32_t link)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *tree = NULL;
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    o.trees = trees;
    o.arity = 16;
    o.leaf = 60;
    o.rounds = 4;
    o.link = link;
    assert_ok(xsm_fit_label_tree(NULL, w->problem->data, &o, &tree, NULL, &err), err);
    assert_ok(xsm_model_save(tree, w->tree, &err), err);
    xsm_model_free(tree);
}

static test_problem problem_new(bool sparse)
{
    return test_problem_new(ROWS, FEATURES, CLASSES, sparse, 5);
}

static work work_new(const test_problem *p, way how, uint32_t hidden, int32_t correction, int64_t trees, int32_t link)
{
    work w = {.problem = p, .how = how, .likely = how != SHORTLIST || correction != XSM_CORRECTION_HIERARCHY};
    snprintf(w.model, sizeof w.model, "%s", test_path("searched"));
    snprintf(w.tree, sizeof w.tree, "%s", test_path("tree"));
    if (how == SHORTLIST || how == LABEL_TREE) {
        save_tree(&w, trees, link);
    }
    if (how != LABEL_TREE) {
        save_model(&w, hidden, correction);
    }
    return w;
}

/* -- bits ---------------------------------------------------------------------------------------------------------- */

/* Whether the filters were of every kind, for which the rows must differ. */
static void check_one(const results *one)
{
    uint32_t whole = 0, short_of = 0;
    for (size_t i = 0; i < SOME; i++) {
        assert_int_equal(one->lengths[2][i], 3);
        whole += one->lengths[3][i] == TOP;
        short_of += one->lengths[5][i] < TOP;
    }
    assert_int_equal(whole, SOME);
    assert_true(short_of > 0);
    assert_true(one->probed > 0 && one->mean_probed > 0);
}

static void try_bits(bool sparse, way how, uint32_t hidden, int32_t correction, int64_t trees, int32_t link)
{
    static const uint32_t counts[] = {2, 3, 5};
    static results one, many[TEST_RANKS];
    test_rank ranks[TEST_RANKS];
    test_problem p = problem_new(sparse);
    work w = work_new(&p, how, hidden, correction, trees, link);
    w.of = &one;
    test_run_ranks(1, 1, 0, load_and_use, &w, ranks);
    assert_ok(ranks[0].status, ranks[0].err);
    check_one(&one);
    w.of = many;
    for (size_t c = 0; c < 3; c++) {
        for (uint32_t threads = test_full() ? 1 : 2; test_ranks_tried(counts[c]) && threads <= 2; threads++) {
            memset(many, 0, sizeof many);
            test_run_ranks(counts[c], threads, 0, load_and_use, &w, ranks);
            for (uint32_t r = 0; r < counts[c]; r++) {
                assert_ok(ranks[r].status, ranks[r].err);
                for (size_t i = 0; i < CALLS; i++) {
                    assert_memory_equal(many[r].classes[i], one.classes[i], sizeof one.classes[i]);
                    assert_memory_equal(many[r].scores[i], one.scores[i], sizeof one.scores[i]);
                }
                assert_memory_equal(&many[r], &one, sizeof one);
            }
        }
    }
    test_problem_free(&p);
}

static void test_shortlists(void **state)
{
    (void)state;
    try_bits(false, SHORTLIST, 0, XSM_CORRECTION_NONE, 1, XSM_LABEL_TREE_LINK_AUTO);
    try_bits(true, SHORTLIST, 7, XSM_CORRECTION_CLASSES, 2, XSM_LABEL_TREE_LINK_AUTO);
}

static void test_shortlists_of_nodes(void **state)
{
    (void)state;
    try_bits(false, SHORTLIST, 0, XSM_CORRECTION_HIERARCHY, 1, XSM_LABEL_TREE_LINK_HINGE);
}

static void test_beams(void **state)
{
    (void)state;
    try_bits(false, BEAM, 0, XSM_CORRECTION_TREE, 0, 0);
    try_bits(true, TREE_ALONE, 0, XSM_CORRECTION_TREE, 0, 0);
}

static void test_label_trees(void **state)
{
    (void)state;
    try_bits(false, LABEL_TREE, 0, 0, 1, XSM_LABEL_TREE_LINK_AUTO);
    try_bits(true, LABEL_TREE, 0, 0, 2, XSM_LABEL_TREE_LINK_AUTO);
}

/* -- failures ------------------------------------------------------------------------------------------------------ */

static work work_of(const test_problem *p, way how, results *of)
{
    const int32_t corrections[WAYS] = {XSM_CORRECTION_NONE, XSM_CORRECTION_TREE, XSM_CORRECTION_TREE,
                                       XSM_CORRECTION_NONE, XSM_CORRECTION_HIERARCHY};
    work w = work_new(p, how, 0, corrections[how], 1, XSM_LABEL_TREE_LINK_AUTO);
    w.of = of;
    w.brief = true;
    return w;
}

/* The group fails at its calls in turn, past the first 20 at each ninth. */
static void test_group_lost(void **state)
{
    (void)state;
    static results of[3];
    test_problem p = problem_new(false);
    for (int how = SHORTLIST; how <= LABEL_TREE; how++) {
        if (how == TREE_ALONE) {
            continue; /* its rows are divided as those of a label tree */
        }
        work w = work_of(&p, (way)how, of);
        test_rank ranks[TEST_RANKS];
        uint64_t at = 0;
        do {
            at = test_next_place(at, at < 20 ? 1 : 9);
            test_run_ranks(3, 1, at, load_and_use, &w, ranks);
            for (uint32_t r = 1; r < 3; r++) {
                assert_int_equal(ranks[r].status, ranks[0].status);
            }
            assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_ERROR_COMM);
        } while (ranks[0].status != XSM_OK);
        assert_true(at > 8);
    }
    test_problem_free(&p);
}

/* An allocation of rank 1 fails, and the call on all ranks. */
static void test_memory_lost(void **state)
{
    (void)state;
    static results of[3];
    test_problem p = problem_new(true);
    for (int how = SHORTLIST; how <= LABEL_TREE; how++) {
        if (how == TREE_ALONE) {
            continue; /* its rows are divided as those of a label tree */
        }
        work w = work_of(&p, (way)how, of);
        test_rank ranks[TEST_RANKS];
        size_t failures = 0;
        bool reached = true;
        for (w.fail = 1; reached; w.fail = test_next_place(w.fail, w.fail < 15 ? 1 : 11)) {
            test_memory *memory[3];
            for (uint32_t r = 0; r < 3; r++) {
                w.contexts[r] = test_memory_context(&memory[r], 2);
            }
            w.memory = memory[1];
            test_run_ranks(3, 1, 0, load_and_use, &w, ranks);
            reached = test_memory_calls(memory[1]) >= w.fail;
            for (uint32_t r = 0; r < 3; r++) {
                w.contexts[r]->group = (xsmi_group){.comm.ranks = 1};
                test_memory_end(memory[r], w.contexts[r]);
                assert_int_equal(ranks[r].status, ranks[0].status);
                assert_true(ranks[r].status == XSM_OK || strncmp(ranks[r].err.message, "rank 1: ", 8) == 0);
            }
            assert_true(ranks[0].status == XSM_OK || (reached && ranks[0].status == XSM_ERROR_MEMORY));
            failures += ranks[0].status != XSM_OK;
        }
        assert_true(failures > (test_full() ? 8 : 4));
    }
    test_problem_free(&p);
}

/* A weight of the last rank that is not a number. */
static xsm_status use_diverged(test_rank *rank)
{
    work *w = rank->user;
    xsm_model *m = NULL, *tree = NULL;
    XSMI_TRY(xsm_model_load(rank->context, w->model, NULL, &m, &rank->err));
    xsm_status status = w->how == SHORTLIST ? xsm_model_load(rank->context, w->tree, NULL, &tree, &rank->err) : XSM_OK;
    if (status == XSM_OK && rank->rank == rank->ranks - 1) {
        xsm_model *own = m->part.own ? m->part.own : m;
        status = xsmi_model_own(own, &rank->err);
        for (size_t k = 0; status == XSM_OK && k < own->classes; k++) {
            own->w.weight[k * own->w.stride] = -NAN;
        }
    }
    status = status == XSM_OK ? use_models(rank, m, tree) : status;
    xsm_model_free(tree);
    xsm_model_free(m);
    return status;
}

static void test_diverged(void **state)
{
    (void)state;
    static results of[3];
    test_problem p = problem_new(false);
    for (int how = 0; how < WAYS; how++) {
        if (how == TREE_ALONE || how == LABEL_TREE) {
            continue; /* they read no weights of the model's classes */
        }
        work w = work_of(&p, (way)how, of);
        test_rank ranks[TEST_RANKS];
        test_run_ranks(3, 1, 0, use_diverged, &w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_fails(ranks[r].status, XSM_ERROR_DIVERGED, ranks[r].err);
        }
    }
    test_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shortlists), cmocka_unit_test(test_shortlists_of_nodes),
        cmocka_unit_test(test_beams),      cmocka_unit_test(test_label_trees),
        cmocka_unit_test(test_group_lost), cmocka_unit_test(test_memory_lost),
        cmocka_unit_test(test_diverged),
    };
    return cmocka_run_group_tests(tests, NULL, test_files_teardown);
}
