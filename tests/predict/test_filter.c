/*
 * Tests of filters: with any filter, thresholds and known labels the result is that of scoring every class and leaving
 * out afterwards, to the bit where scoring is exact; searches find as many classes as there are; bad lists are refused.
 */
#include "narrow_kinds.h"
#include "training.h"

#include <xsoftmax/calibrate.h>
#include <xsoftmax/filter.h>
#include <xsoftmax/buffer.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/index.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 70, FEATURES = 24, CLASSES = 330, TOP = 6 };

/* -- filters at random --------------------------------------------------------------------------------------------- */

/* A prediction's filters, with what they leave of each row. */
typedef struct made_filters {
    xsm_filter *call, *of_row[ROWS];
    const xsm_filter *rows[ROWS];
    uint64_t allow_offsets[ROWS + 1], deny_offsets[ROWS + 1];
    uint32_t allow[ROWS * CLASSES], deny[ROWS * CLASSES];
    bool left[ROWS][CLASSES];
    xsm_prediction prediction;
} made_filters;

/* Draws a filter that leaves about a part of the classes, by one of its three members, or two. */
static xsm_filter *draw_filter(uint64_t *random, double part, bool left[CLASSES])
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_filter_classes c = XSM_FILTER_CLASSES_INIT;
    uint32_t allow[2 * CLASSES], deny[2 * CLASSES];
    uint64_t bitmap[(CLASSES + 63) / 64];
    uint32_t count = 0;
    const int kind = (int)(4 * test_uniform(random));
    memset(bitmap, 0xFF, sizeof bitmap);     /* those past the last class, too */
    for (uint32_t at = CLASSES; at-- > 0;) { /* falling, some twice: any order is accepted */
        const bool is = test_uniform(random) < part;
        left[at] = is;
        count += is;
        if (is) {
            allow[c.allow_count++] = at;
            allow[c.allow_count++] = at;
        } else {
            deny[c.deny_count++] = at;
            bitmap[at / 64] &= ~(UINT64_C(1) << at % 64);
        }
    }
    c.classes = CLASSES;
    c.allow = kind == 0 || kind == 3 ? allow : NULL;
    c.allow_count = c.allow ? c.allow_count : 0;
    c.deny = kind == 1 || kind == 3 ? deny : NULL;
    c.deny_count = c.deny ? c.deny_count : 0;
    c.bitmap = kind == 2 ? bitmap : NULL;
    NEW(xsm_filter, filter, xsm_filter_new(NULL, &c, &filter, &err));
    assert_int_equal(xsm_filter_left(filter), count);
    return filter;
}

/* Part of the classes that a filter leaves: all, most, few or none. */
static double draw_part(uint64_t *random)
{
    static const double parts[] = {1, 0.9, 0.5, 0.1, 0.02, 0.005, 0};
    return parts[(size_t)(test_uniform(random) * (sizeof parts / sizeof *parts))];
}

/* Draws lists of rows, rising; `allows`: only what is listed is left. */
static void draw_lists(uint64_t *random, bool allows, uint64_t *offsets, uint32_t *list, made_filters *f)
{
    offsets[0] = 0;
    for (size_t i = 0; i < ROWS; i++) {
        const double part = draw_part(random);
        offsets[i + 1] = offsets[i];
        for (uint32_t k = 0; k < CLASSES; k++) {
            const bool is = test_uniform(random) < part;
            if (is) {
                list[offsets[i + 1]++] = k;
            }
            f->left[i][k] &= is == allows;
        }
    }
}

/* Draws some of the filters for a batch of a dataset from its row `first` on. */
static made_filters *draw_filters(uint64_t *random, const xsm_dataset *data, uint64_t first, unsigned which)
{
    xsm_error err = XSM_ERROR_INIT;
    made_filters *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->prediction = (xsm_prediction)XSM_PREDICTION_INIT;
    memset(f->left, 1, sizeof f->left);
    if (which & 1) {
        bool left[CLASSES];
        f->prediction.filter = f->call = draw_filter(random, draw_part(random), left);
        for (size_t i = 0; i < ROWS; i++) {
            for (uint32_t k = 0; k < CLASSES; k++) {
                f->left[i][k] &= left[k];
            }
        }
    }
    if (which & 2) {
        f->prediction.filters = f->rows;
        for (size_t i = 0; i < ROWS; i += 1 + i % 3) { /* others have none */
            bool left[CLASSES];
            f->rows[i] = f->of_row[i] = draw_filter(random, draw_part(random), left);
            for (uint32_t k = 0; k < CLASSES; k++) {
                f->left[i][k] &= left[k];
            }
        }
    }
    if (which & 4) {
        draw_lists(random, true, f->allow_offsets, f->allow, f);
        f->prediction.allow_offsets = f->allow_offsets;
        f->prediction.allow = f->allow;
    }
    if (which & 8) {
        draw_lists(random, false, f->deny_offsets, f->deny, f);
        f->prediction.deny_offsets = f->deny_offsets;
        f->prediction.deny = f->deny;
    }
    if (which & 16) {
        f->prediction.exclude_known = 1;
        for (uint64_t i = 0; i < ROWS; i++) {
            xsm_row row = XSM_ROW_INIT;
            assert_ok(xsm_dataset_get_row(data, first + i, &row, &err), err);
            for (uint64_t j = 0; j < row.label_count; j++) {
                f->left[i][row.labels[j]] = false;
            }
        }
    }
    return f;
}

static void free_filters(made_filters *f)
{
    xsm_filter_free(f->call);
    for (size_t i = 0; i < ROWS; i++) {
        xsm_filter_free(f->of_row[i]);
    }
    free(f);
}

/* -- models -------------------------------------------------------------------------------------------------------- */

/* Ways to predict, and how exactly they do as scoring every class does. */
typedef struct way {
    const char *name;
    xsm_model *model, *shortlist;
    xsm_index *index;
    xsm_dataset *data;
    uint32_t beam;
    int32_t alone;
    bool exact;  /* finds the best, to the bit */
    bool near;   /* finds the best, but for rounding */
    bool search; /* has no probabilities */
    float least_recall;
} way;

/* What scoring every class says, best first: [ROWS][CLASSES]. */
typedef struct ranking {
    uint32_t classes[ROWS * CLASSES];
    float scores[ROWS * CLASSES];
    double probabilities[ROWS * CLASSES];
} ranking;

static ranking *rank_all(const way *w, const xsm_batch *batch)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    ranking *r = malloc(sizeof *r);
    assert_non_null(r);
    o.top = CLASSES;
    o.tree_alone = w->alone;
    o.beam = w->alone || xsmi_model_trees(w->model) ? CLASSES : 0;
    o.index = w->exact ? w->index : NULL; /* whose classes are scored as xsm_model_scores() does */
    NEW(xsm_predictor, p, xsm_predictor_new(w->model, &o, &p, &err));
    memset(r->probabilities, 0, sizeof r->probabilities);
    assert_ok(test_predict(p, batch, r->classes, r->scores, w->search ? NULL : r->probabilities, &err), err);
    xsm_predictor_free(p);
    return r;
}

static xsm_predictor *predictor_of(const way *w)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_predictor, p,
        xsm_predictor_new(w->model,
                          STRUCT(xsm_predictor_options, .top = TOP, .index = w->index, .beam = w->beam,
                                 .tree_alone = w->alone, .shortlist = w->shortlist,
                                 .candidates = w->shortlist ? 20 : 0),
                          &p, &err));
    return p;
}

typedef struct results {
    uint32_t classes[ROWS * TOP], lengths[ROWS];
    float scores[ROWS * TOP];
    double probabilities[ROWS * TOP];
} results;

/* What the ranking leaves of a row: its first TOP classes that are left, above the thresholds. */
static uint32_t leave_out(const ranking *all, const made_filters *f, size_t row, size_t places[TOP])
{
    const xsm_prediction *p = &f->prediction;
    uint32_t count = 0;
    for (size_t j = row * CLASSES; j < (row + 1) * CLASSES && count < TOP; j++) {
        if (f->left[row][all->classes[j]] && !(p->has_least_score && all->scores[j] < p->least_score) &&
            !(all->probabilities[j] < p->least_probability)) {
            places[count++] = j;
        }
    }
    return count;
}

static void check_padding(const results *r, const xsm_prediction *p, size_t row)
{
    for (size_t j = row * TOP + r->lengths[row]; j < (row + 1) * TOP; j++) {
        assert_int_equal(r->classes[j], XSM_NO_CLASS);
        assert_true(r->scores[j] < 0 && isinf(r->scores[j]));
        assert_true(!p->probabilities || fpclassify(r->probabilities[j]) == FP_ZERO);
    }
}

/* Compares a row's classes with what the ranking leaves; returns how many of those were found. */
static uint32_t check_row(const way *w, const ranking *all, const made_filters *f, const results *r, size_t row)
{
    size_t places[TOP];
    const uint32_t count = leave_out(all, f, row, places), length = r->lengths[row];
    const bool thresholds = f->prediction.has_least_score || f->prediction.least_probability > 0;
    uint32_t hits = 0;
    assert_true(length <= TOP);
    if (w->exact || w->near || !thresholds) { /* a search that misses a class may end with one below a threshold */
        assert_int_equal(length, count);
    }
    check_padding(r, &f->prediction, row);
    for (uint32_t j = 0; j < length; j++) {
        const size_t at = row * TOP + j;
        assert_true(f->left[row][r->classes[at]]);
        for (uint32_t i = 0; i < count; i++) {
            hits += r->classes[at] == all->classes[places[i]];
        }
        if (j > 0) {
            assert_true(r->scores[at] < r->scores[at - 1] ||
                        (!(r->scores[at] > r->scores[at - 1]) && r->classes[at] > r->classes[at - 1]));
        }
        if (w->exact) {
            assert_int_equal(r->classes[at], all->classes[places[j]]);
            assert_memory_equal(&r->scores[at], &all->scores[places[j]], sizeof *r->scores);
            assert_true(!f->prediction.probabilities ||
                        memcmp(&r->probabilities[at], &all->probabilities[places[j]], sizeof(double)) == 0);
        } else if (w->near) {
            assert_float_equal(r->scores[at], all->scores[places[j]], 1e-4);
            assert_true(!f->prediction.probabilities ||
                        fabs(r->probabilities[at] - all->probabilities[places[j]]) < 1e-4);
        }
    }
    return hits;
}

/* Runs a way with every combination of filters, and compares. */
static void check_way(const way *w)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_predictor, p) = predictor_of(w);
    const xsm_batch batch = xsm_batch_range(w->data, 0, ROWS);
    HELD_MEMORY(ranking, all) = rank_all(w, &batch);
    HELD_MEMORY(results, r) = malloc(sizeof *r);
    assert_non_null(r);
    uint64_t random = 77, hits = 0, possible = 0;
    for (unsigned run = 0; run < 96; run++) {
        made_filters *f = draw_filters(&random, w->data, 0, run % 32);
        xsm_prediction *to = &f->prediction;
        to->batch = &batch;
        to->classes = r->classes;
        to->scores = r->scores;
        to->lengths = r->lengths;
        to->probabilities = w->search || run % 2 ? NULL : r->probabilities;
        const size_t middle = (size_t)(test_uniform(&random) * 40);
        /* A threshold at a score; where scores may differ in the last bits, between two. */
        const size_t next = middle + (w->exact ? 0 : 1);
        if (run >= 32 && run < 64) {
            to->has_least_score = 1;
            to->least_score = (all->scores[middle] + all->scores[next]) / 2;
        } else if (run >= 64 && !w->search) { /* a rounded probability may be above 1 */
            to->least_probability = fmin(1, (all->probabilities[middle] + all->probabilities[next]) / 2);
        }
        assert_ok(xsm_predictor_run(p, to, &err), err);
        for (size_t i = 0; i < ROWS; i++) {
            size_t places[TOP];
            hits += check_row(w, all, f, r, i);
            possible += leave_out(all, f, i, places);
        }
        if (w->exact || w->search) { /* a row alone has the same result */
            HELD_MEMORY(results, one) = malloc(sizeof *one);
            assert_non_null(one);
            xsm_prediction alone = *to;
            const size_t i = (size_t)(test_uniform(&random) * ROWS);
            const xsm_batch row = xsm_batch_range(w->data, i, 1);
            const xsm_filter *own = f->rows[i];
            alone.batch = &row;
            alone.classes = one->classes;
            alone.scores = one->scores;
            alone.lengths = one->lengths;
            alone.probabilities = to->probabilities ? one->probabilities : NULL;
            alone.filters = to->filters ? &own : NULL;
            alone.allow_offsets = to->allow_offsets ? to->allow_offsets + i : NULL;
            alone.deny_offsets = to->deny_offsets ? to->deny_offsets + i : NULL;
            assert_ok(xsm_predictor_run(p, &alone, &err), err);
            assert_int_equal(one->lengths[0], r->lengths[i]);
            assert_memory_equal(one->classes, r->classes + i * TOP, TOP * sizeof *one->classes);
            assert_memory_equal(one->scores, r->scores + i * TOP, TOP * sizeof *one->scores);
        }
        free_filters(f);
    }
    const double recall = (double)hits / (double)possible;
    print_message("%-28s recall %.4f\n", w->name, recall);
    assert_true(recall >= (double)w->least_recall);
}

/* -- ways ---------------------------------------------------------------------------------------------------------- */

/* Rows around centres, so that searches have something to find. */
static test_problem make_problem(bool sparse)
{
    test_problem p = test_problem_new(1200, FEATURES, CLASSES, sparse, 9);
    uint64_t seed = 4;
    HELD_MEMORY(float, centres) = malloc(sizeof *centres * CLASSES * FEATURES);
    assert_non_null(centres);
    for (size_t i = 0; i < (size_t)CLASSES * FEATURES; i++) {
        centres[i] = (float)(2 * test_uniform(&seed) - 1);
    }
    for (uint32_t i = 0; i < p.rows; i++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            float *x = &p.x[i * FEATURES + j];
            *x = sparse && (i + j) % 4 == 0 ? 0 : centres[p.labels[i] * FEATURES + j] + (float)test_uniform(&seed) / 2;
        }
    }
    xsm_dataset *data = test_relabel(&p, sparse, CLASSES, NULL, p.labels);
    xsm_dataset_free(p.data);
    p.data = data;
    return p;
}

static xsm_model *trained(const test_problem *p, const char *name, const char *options, int32_t layout)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(NULL, p, true, layout, 0.1, 3);
    xsm_estimator *e = test_estimator(NULL, name, options);
    xsm_optimizer *o = test_optimizer(NULL, m);
    NEW(xsm_trainer, t,
        xsm_trainer_new(NULL, m, p->data, e, o, STRUCT(xsm_trainer_options, .epochs = 4, .batch = 1, .eta = 0.3), &t,
                        &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    assert_ok(xsm_model_set_layout(m, layout, &err), err); /* training may change it */
    return m;
}

static xsm_model *grown(const test_problem *p, int64_t trees, int32_t method)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *tree = NULL;
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    xsm_calibrate_options calibrate = XSM_CALIBRATE_OPTIONS_INIT;
    xsm_calibrate_result fitted = XSM_CALIBRATE_RESULT_INIT;
    o.trees = trees;
    o.arity = 4;
    o.leaf = 10;
    assert_ok(xsm_fit_label_tree(NULL, p->data, &o, &tree, NULL, &err), err);
    if (method != XSM_CALIBRATION_NONE) {
        calibrate.method = method;
        assert_ok(xsm_model_calibrate(NULL, tree, p->data, &calibrate, &fitted, &err), err);
    }
    return tree;
}

static xsm_index *index_of(const xsm_model *m, const char *name)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_index, index, xsm_index_new(NULL, name, &index, &err));
    assert_ok(xsm_index_build_model(index, m, &err), err);
    return index;
}

static void free_way(way *w)
{
    xsm_index_free(w->index);
    xsm_model_free(w->shortlist);
    xsm_model_free(w->model);
}

/* Prunes, calibrates or converts a model. */
static void change(xsm_model **m, const test_problem *p, int kind)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_prune_options prune = XSM_PRUNE_OPTIONS_INIT;
    xsm_calibrate_options calibrate = XSM_CALIBRATE_OPTIONS_INIT;
    xsm_calibrate_result fitted = XSM_CALIBRATE_RESULT_INIT;
    if (kind > 7) {
        xsm_model *converted = test_converted(*m, test_kinds[(kind - 8) / 2].dtype);
        xsm_model_free(*m);
        *m = converted;
    } else if (kind == 3) {
        prune.keep = FEATURES / 2;
        NEW(xsm_model, pruned, xsm_model_prune(*m, &prune, &pruned, &err));
        xsm_model_free(*m);
        *m = pruned;
    } else if (kind == 4 || kind == 5) {
        calibrate.method = kind == 4 ? XSM_CALIBRATION_TEMPERATURE : XSM_CALIBRATION_LABELS;
        assert_ok(xsm_model_calibrate(NULL, *m, p->data, &calibrate, &fitted, &err), err);
    }
}

static xsm_model *embedding(void)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    NEW(xsm_model, m, xsm_model_new_embedding(NULL, FEATURES, 6, CLASSES, &o, &m, &err));
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < 6; j++) {
            m->w.weight[k * m->w.stride + j] = (float)((k * 37 + j * 11) % 23) / 10 - 1;
        }
    }
    m->untouched = false;
    return m;
}

TEST(of_all_classes)
{
    static const char *const names[] = {"dense",
                                        "sparse, class-major",
                                        "sparse, feature-major",
                                        "pruned",
                                        "dense, temperature",
                                        "dense, labels",
                                        "noise",
                                        "embedding"};
    for (int kind = 0; kind < 8 + 2 * TEST_KINDS; kind++) { /* the last are of fewer bits, dense and sparse */
        test_problem p = make_problem((kind > 0 && kind < 4) || kind == 7 || (kind > 7 && kind % 2));
        way w = {.name = kind < 8 ? names[kind] : test_kinds[(kind - 8) / 2].name,
                 .data = p.data,
                 .exact = true,
                 .least_recall = 1};
        w.model = kind == 7 ? embedding()
                            : trained(&p, kind == 6 ? "negative-sampling" : "implicit", "negatives=5",
                                      kind == 2 ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR);
        change(&w.model, &p, kind);
        check_way(&w);
        free_way(&w);
        test_problem_free(&p);
    }
}

TEST(by_index)
{
    for (int kind = 0; kind < 4; kind++) {
        static const char *const names[] = {"exact index, dense", "exact index, sparse", "spherical, dense",
                                            "spherical, sparse"};
        HELD_STRUCT(test_problem, p) = make_problem(kind % 2);
        way w = {.name = names[kind], .data = p.data, .search = true};
        w.model = trained(&p, "implicit", "negatives=5", XSM_LAYOUT_CLASS_MAJOR);
        w.index = index_of(w.model, kind < 2 ? "exact" : "spherical");
        w.exact = kind < 2;
        w.least_recall = kind < 2 ? 1 : 0.9f;
        check_way(&w);
        free_way(&w);
    }
}

TEST(by_trees)
{
    static const struct {
        const char *name;
        int64_t trees;
        int32_t method;
        uint32_t beam;
        bool exact;
        float recall;
    } ways[] = {
        {"label tree, all", 1, XSM_CALIBRATION_NONE, CLASSES, true, 1},
        {"label tree, beam 4", 1, XSM_CALIBRATION_NONE, 4, false, 0.8f},
        {"label tree, beam 10", 1, XSM_CALIBRATION_NONE, 10, false, 0.9f},
        {"two label trees, all", 2, XSM_CALIBRATION_NONE, CLASSES, true, 1},
        {"two label trees, beam 10", 2, XSM_CALIBRATION_NONE, 10, false, 0.8f},
        {"temperature, beam 10", 1, XSM_CALIBRATION_TEMPERATURE, 10, false, 0.9f},
        {"labels, beam 10", 1, XSM_CALIBRATION_LABELS, 10, false, 0.9f},
    };
    HELD_STRUCT(test_problem, p) = make_problem(true);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        way w = {.name = ways[i].name,
                 .data = p.data,
                 .beam = ways[i].beam,
                 .exact = ways[i].exact,
                 .least_recall = ways[i].recall};
        w.model = grown(&p, ways[i].trees, ways[i].method);
        check_way(&w);
        free_way(&w);
    }
    /* As a shortlist. */
    way w = {.name = "shortlist", .data = p.data, .search = true, .beam = 10, .least_recall = 0.7f};
    w.model = trained(&p, "implicit", "negatives=5", XSM_LAYOUT_CLASS_MAJOR);
    w.shortlist = grown(&p, 1, XSM_CALIBRATION_NONE);
    check_way(&w);
    free_way(&w);
}

TEST(by_the_models_tree)
{
    HELD_STRUCT(test_problem, p) = make_problem(false);
    for (int kind = 0; kind < 4; kind++) {
        static const char *const names[] = {"hierarchy", "tree's correction, all", "tree's correction, beam 20",
                                            "tree alone, beam 20"};
        way w = {.name = names[kind], .data = p.data, .near = kind < 2, .beam = kind < 2 ? 0 : 20, .alone = kind == 3};
        w.search = kind == 2;
        w.least_recall = kind < 2 ? 0.99f : 0.7f; /* the last bits may change who is sixth */
        w.model = kind == 0 ? trained(&p, "hierarchical", "", XSM_LAYOUT_CLASS_MAJOR)
                            : trained(&p, "negative-sampling", "negatives=5 sampler=tree", XSM_LAYOUT_CLASS_MAJOR);
        check_way(&w);
        free_way(&w);
    }
}

/* -- mistakes ------------------------------------------------------------------------------------------------------ */

TEST(bad_filters)
{
    static const uint32_t list[] = {3, 1, CLASSES};
    xsm_filter *filter = NULL;
    xsm_filter_classes c = XSM_FILTER_CLASSES_INIT;
    assert_fails(xsm_filter_new(NULL, &c, &filter, &err), XSM_ERROR_RANGE, err);
    c.classes = CLASSES;
    c.allow = list;
    c.allow_count = 3;
    assert_fails(xsm_filter_new(NULL, &c, &filter, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "allow[2]"));
    c.allow = NULL;
    assert_fails(xsm_filter_new(NULL, &c, &filter, &err), XSM_ERROR_ARGUMENT, err);
    c.allow_count = 0;
    c.deny = list;
    c.deny_count = 3;
    assert_fails(xsm_filter_new(NULL, &c, &filter, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_filter_new(NULL, NULL, &filter, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_filter_new(NULL, &c, NULL, &err), XSM_ERROR_ARGUMENT, err);
    /* No class at all. */
    c.deny = NULL;
    c.deny_count = 0;
    c.allow = list;
    assert_ok(xsm_filter_new(NULL, &c, &filter, &err), err);
    assert_int_equal(xsm_filter_left(filter), 0);
    xsm_filter_free(filter);
    xsm_filter_free(NULL);
    assert_int_equal(xsm_filter_left(NULL), 0);
}

TEST(bad_predictions)
{
    static const uint64_t offsets[] = {0, 2, 3}, crooked[] = {0, 2, 1};
    static const uint32_t good[] = {1, 3, 0}, equal[] = {3, 3, 0}, large[] = {1, 3, CLASSES};
    HELD_STRUCT(test_problem, p) = test_problem_new(20, FEATURES, CLASSES, false, 1);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 2);
    way w = {.model = m};
    HELD(xsm_predictor, predictor) = predictor_of(&w);
    const xsm_batch batch = xsm_batch_range(p.data, 0, 2), values = xsm_batch_values(p.x, 2, FEATURES, FEATURES);
    uint32_t classes[2 * TOP];
    xsm_prediction to = XSM_PREDICTION_INIT, start;
    const xsm_filter *rows[2] = {NULL, NULL};
    MADE(xsm_filter, other, xsm_filter_new(NULL, STRUCT(xsm_filter_classes, .classes = CLASSES + 1), &other, &err));
    to.batch = &batch;
    to.classes = classes;
    start = to;
    to.filter = other;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_SHAPE, err);
    to = start;
    to.filters = rows;
    assert_ok(xsm_predictor_run(predictor, &to, &err), err);
    rows[1] = other;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_SHAPE, err);
    to = start;
    to.allow_offsets = offsets;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_ARGUMENT, err);
    to.allow = equal;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "allow[1]"));
    to.allow = large;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_RANGE, err);
    to.allow = good;
    assert_ok(xsm_predictor_run(predictor, &to, &err), err);
    assert_true(classes[0] == 1 || classes[0] == 3);
    assert_int_equal(classes[TOP], 0);
    assert_int_equal(classes[TOP + 1], XSM_NO_CLASS);
    to.deny_offsets = crooked;
    to.deny = good;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_RANGE, err);
    to = start;
    to.least_probability = 1.5;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_RANGE, err);
    to.least_probability = NAN;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_RANGE, err);
    to = start;
    to.has_least_score = 1;
    to.least_score = NAN;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_RANGE, err);
    to = start;
    to.has_least_score = 2;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_RANGE, err);
    to = start;
    to.exclude_known = 2;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_RANGE, err);
    to.exclude_known = 1;
    to.batch = &values;
    assert_fails(xsm_predictor_run(predictor, &to, &err), XSM_ERROR_ARGUMENT, err);
    /* The batch's own labels. */
    xsm_batch labelled = values;
    uint32_t best[2 * TOP];
    to.exclude_known = 0;
    assert_ok(xsm_predictor_run(predictor, &to, &err), err);
    memcpy(best, classes, sizeof best);
    const uint32_t labels[] = {best[0], best[TOP + 1]};
    labelled.labels = labels;
    to.exclude_known = 1;
    to.batch = &labelled;
    assert_ok(xsm_predictor_run(predictor, &to, &err), err);
    assert_int_equal(classes[0], best[1]);
    assert_int_equal(classes[TOP], best[TOP]);
    assert_int_equal(classes[TOP + 1], best[TOP + 2]);
    /* A threshold on probabilities, which a search has not. */
    w.index = index_of(m, "spherical");
    xsm_predictor *searching = predictor_of(&w);
    to = start;
    to.least_probability = 0.1;
    assert_fails(xsm_predictor_run(searching, &to, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_predictor_free(searching);
    xsm_index_free(w.index);
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

typedef struct memory_case {
    const test_problem *p;
    const char *index;
} memory_case;

static xsm_status predict_filtered(void *state, xsm_context *ctx, xsm_error *err)
{
    static const uint32_t deny[] = {0, 1, 2, 5};
    const memory_case *c = state;
    uint32_t classes[5 * TOP];
    HELD(xsm_model, m) = NULL;
    HELD(xsm_index, index) = NULL;
    HELD(xsm_predictor, p) = NULL;
    HELD(xsm_filter, filter) = NULL;
    xsm_filter_classes left = XSM_FILTER_CLASSES_INIT;
    xsm_prediction to = XSM_PREDICTION_INIT;
    xsm_predictor_options o = XSM_PREDICTOR_OPTIONS_INIT;
    const xsm_batch batch = xsm_batch_range(c->p->data, 0, 5);
    left.classes = CLASSES;
    left.deny = deny;
    left.deny_count = 4;
    o.top = TOP;
    to.batch = &batch;
    to.classes = classes;
    xsm_status status = xsm_model_new_linear(ctx, FEATURES, CLASSES, NULL, &m, err);
    if (status == XSM_OK && c->index) {
        status = xsm_index_new(ctx, c->index, &index, err);
        status = status ? status : xsm_index_build_model(index, m, err);
        o.index = index;
    }
    status = status ? status : xsm_predictor_new(m, &o, &p, err);
    status = status ? status : xsm_filter_new(ctx, &left, &filter, err);
    to.filter = filter;
    status = status ? status : xsm_predictor_run(p, &to, err);
    return status;
}

TEST(memory)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(20, FEATURES, CLASSES, false, 1);
    assert_true(test_every_allocation(predict_filtered, &(memory_case){&p, NULL}) > 5);
    assert_true(test_every_allocation(predict_filtered, &(memory_case){&p, "spherical"}) > 8);
}

/* Nothing is allocated after the first filtered call. */
TEST(memory_once)
{
    test_memory *counted;
    xsm_context *ctx = test_memory_context(&counted, 1);
    test_problem p = test_problem_new(200, FEATURES, CLASSES, false, 1);
    xsm_model *m = test_model(ctx, &p, false, XSM_LAYOUT_CLASS_MAJOR, 1, 2);
    for (int searches = 0; searches < 2; searches++) {
        way w = {.model = m};
        if (searches) {
            assert_ok(xsm_index_new(ctx, "spherical", &w.index, &err), err);
            assert_ok(xsm_index_build_model(w.index, m, &err), err);
        }
        xsm_predictor *predictor = predictor_of(&w);
        uint32_t classes[TOP];
        xsm_prediction to = XSM_PREDICTION_INIT;
        size_t calls = 0;
        to.classes = classes;
        to.exclude_known = 1;
        for (uint64_t i = 0; i < 100; i++) {
            const xsm_batch batch = xsm_batch_range(p.data, i, 1);
            to.batch = &batch;
            assert_ok(xsm_predictor_run(predictor, &to, &err), err);
            if (i > 0) {
                assert_int_equal(test_memory_calls(counted), calls);
            }
            calls = test_memory_calls(counted);
        }
        xsm_predictor_free(predictor);
        xsm_index_free(w.index);
    }
    xsm_model_free(m);
    test_problem_free(&p);
    test_memory_end(counted, ctx);
}

/* The scratch of filters follows the model's layout: listed classes of class-major weights are gathered. */
TEST(another_layout)
{
    static const uint32_t few[] = {2, 30, 299};
    xsm_filter_classes c = XSM_FILTER_CLASSES_INIT;
    xsm_prediction to = XSM_PREDICTION_INIT;
    HELD_STRUCT(test_problem, p) = make_problem(true);
    way w = {.model = trained(&p, "implicit", "negatives=5", XSM_LAYOUT_FEATURE_MAJOR)};
    xsm_predictor *before = predictor_of(&w);
    const xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
    results r;
    c.classes = CLASSES;
    c.allow = few;
    c.allow_count = 3;
    NEW(xsm_filter, filter, xsm_filter_new(NULL, &c, &filter, &err));
    to.batch = &batch;
    to.filter = filter;
    to.classes = r.classes;
    to.scores = r.scores;
    assert_ok(xsm_predictor_run(before, &to, &err), err);
    assert_ok(xsm_model_set_layout(w.model, XSM_LAYOUT_CLASS_MAJOR, &err), err);
    assert_ok(xsm_predictor_run(before, &to, &err), err);
    xsm_predictor *after = predictor_of(&w);
    results expected;
    to.classes = expected.classes;
    to.scores = expected.scores;
    assert_ok(xsm_predictor_run(after, &to, &err), err);
    assert_memory_equal(r.classes, expected.classes, sizeof r.classes);
    assert_memory_equal(r.scores, expected.scores, sizeof r.scores);
    xsm_predictor_free(after);
    xsm_predictor_free(before);
    xsm_filter_free(filter);
    xsm_model_free(w.model);
}

/* A model whose bytes end with the weights of the last class, which is listed: valgrind and the address sanitizer see
 * whether more is read. */
TEST(bytes_in_place)
{
    static const uint32_t few[] = {2, 30, CLASSES - 1};
    xsm_storage storage = XSM_STORAGE_INIT, exact = XSM_STORAGE_INIT;
    xsm_filter_classes c = XSM_FILTER_CLASSES_INIT;
    xsm_prediction to = XSM_PREDICTION_INIT;
    HELD_STRUCT(test_problem, p) = make_problem(false);
    xsm_model *m = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3), *mapped = NULL;
    const xsm_batch batch = xsm_batch_range(p.data, 0, 1);
    results r[2];
    NEW(xsm_buffer, buffer, xsm_buffer_new(NULL, &buffer, &err));
    assert_ok(xsm_buffer_get_storage(buffer, &storage, &err), err);
    assert_ok(xsm_model_save(m, NULL, &storage, &err), err);
    const void *saved = xsm_buffer_bytes(buffer, &exact.byte_count);
    HELD_MEMORY(void, bytes) = malloc((size_t)exact.byte_count);
    assert_non_null(bytes);
    memcpy(bytes, saved, (size_t)exact.byte_count);
    exact.bytes = bytes;
    assert_ok(xsm_model_load(NULL, NULL, &exact, NULL, &mapped, &err), err);
    const float *weight = mapped->w.weight + (size_t)(CLASSES - 1) * mapped->w.stride + FEATURES;
    assert_ptr_equal(weight, (unsigned char *)bytes + exact.byte_count);
    c.classes = CLASSES;
    c.allow = few;
    c.allow_count = 3;
    NEW(xsm_filter, filter, xsm_filter_new(NULL, &c, &filter, &err));
    to.batch = &batch;
    to.filter = filter;
    for (int in_place = 0; in_place < 2; in_place++) {
        way w = {.model = in_place ? mapped : m};
        HELD(xsm_predictor, predictor) = predictor_of(&w);
        to.classes = r[in_place].classes;
        to.scores = r[in_place].scores;
        assert_ok(xsm_predictor_run(predictor, &to, &err), err);
    }
    assert_memory_equal(r[0].classes, r[1].classes, TOP * sizeof *r->classes);
    assert_memory_equal(r[0].scores, r[1].scores, TOP * sizeof *r->scores);
    xsm_filter_free(filter);
    xsm_model_free(mapped);
    xsm_model_free(m);
    xsm_buffer_free(buffer);
}
