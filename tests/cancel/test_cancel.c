/*
 * Each long call, cancelled at the first, the second, ... poll: it returns XSM_CANCELLED, leaks nothing, leaves its
 * outputs alone, and its objects can still be used.
 */
#define XSM_EXPERIMENTAL /* choice and tuning */
#include "base/activity.h"
#include "words.h"
#include "index/index.h"

#include <xsoftmax.h>
#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/draw.h>
#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>
#include <xsoftmax/search.h>
#include <xsoftmax/stored_weights.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 1500, FEATURES = 12, CLASSES = 700 };

/* A pace of the hook for calls that are not to be cancelled. */
#define NEVER 1e9

/* What the bodies share: rows, and a model of theirs for tests that do not change one. */
typedef struct things {
    test_problem dense, sparse, small;
    bool use_sparse;
    const char *name, *set;
    const char *path, *labels;
    int32_t format;
    uint64_t batch, hash;
} things;

static const test_problem *problem(const things *t)
{
    return t->use_sparse ? &t->sparse : &t->dense;
}

static int start(void **state)
{
    static things t;
    t.dense = test_problem_new(ROWS, FEATURES, CLASSES, false, 1);
    t.sparse = test_problem_new(ROWS, 40, CLASSES, true, 2);
    t.small = test_problem_new(150, 6, 40, false, 3);
    *state = &t;
    return 0;
}

static int end(void **state)
{
    things *t = *state;
    test_problem_free(&t->dense);
    test_problem_free(&t->sparse);
    test_problem_free(&t->small);
    test_files_end();
    return 0;
}

/* -- evaluation and prediction ------------------------------------------------------------------------------------- */

static xsm_status evaluate(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    const test_problem *p = problem(t);
    HELD(xsm_model, m) = test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    xsm_metrics metrics = XSM_METRICS_INIT;
    const xsm_metrics before = metrics;
    xsm_status status = xsm_evaluate(ctx, m, p->data, NULL, &metrics, err);
    if (status != XSM_OK) {
        assert_memory_equal(&metrics, &before, sizeof metrics);
    }
    return status;
}

static xsm_status evaluate_ranks(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    const test_problem *p = problem(t);
    HELD(xsm_model, m) = test_model(ctx, p, true, XSM_LAYOUT_FEATURE_MAJOR, 0.1, 3);
    xsm_ranks ranks = XSM_RANKS_INIT;
    const xsm_ranks before = ranks;
    const xsm_dataset *known[] = {p->data};
    xsm_ranks_options options = XSM_RANKS_OPTIONS_INIT;
    options.known = known;
    options.known_count = 1;
    xsm_status status = xsm_evaluate_ranks(ctx, m, p->data, &options, &ranks, err);
    if (status != XSM_OK) {
        assert_memory_equal(&ranks, &before, sizeof ranks);
    }
    return status;
}

static xsm_status evaluate_search(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    HELD(xsm_model, m) = test_model(ctx, &t->dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_index, x) = NULL;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_search_metrics metrics = XSM_SEARCH_METRICS_INIT;
    const xsm_search_metrics before = metrics;
    assert_ok(xsm_index_new(NULL, "spherical", &x, &none), none);
    assert_ok(xsm_index_build_model(x, m, &none), none);
    options.index = x;
    xsm_status status = xsm_evaluate_search(ctx, m, t->dense.data, &options, &metrics, err);
    if (status != XSM_OK) {
        assert_memory_equal(&metrics, &before, sizeof metrics);
    }
    return status;
}

static xsm_status predict(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    const test_problem *p = problem(t);
    static uint32_t classes[ROWS * 5], again[ROWS * 5];
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    HELD(xsm_predictor, predictor) = NULL;
    const xsm_batch all = xsm_batch_range(p->data, 0, ROWS), one = xsm_batch_range(p->data, 7, 1);
    assert_ok(xsm_predictor_new(m, NULL, &predictor, &none), none);
    xsm_status status = test_predict(predictor, &all, classes, NULL, NULL, err);
    if (status != XSM_OK) { /* it goes on working; one more call does not reach the poll that cancels */
        assert_ok(test_predict(predictor, &one, again, NULL, NULL, &none), none);
    }
    return status;
}

static void evaluations(void **state)
{
    things *t = *state;
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        for (t->use_sparse = false;; t->use_sparse = true) {
            test_every_poll(evaluate, t, threads, 2, "evaluating");
            test_every_poll(evaluate_ranks, t, threads, 2, "evaluating");
            test_every_poll(predict, t, threads, 2, "predicting");
            if (t->use_sparse) {
                break;
            }
        }
        test_every_poll(evaluate_search, t, threads, 2, "evaluating");
    }
}

/* -- indexes ------------------------------------------------------------------------------------------------------- */

static xsm_status build_index(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(ctx, &t->dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    HELD(xsm_index, x) = NULL;
    xsm_index_info info = XSM_INDEX_INFO_INIT;
    assert_ok(xsm_index_new(ctx, t->name, &x, &none), none);
    xsm_status status = xsm_index_build_model(x, m, err);
    assert_ok(xsm_index_get_info(x, &info, &none), none);
    assert_int_equal(info.rows, status == XSM_OK ? CLASSES : 0);
    if (status == XSM_CANCELLED) { /* and can be built after all */
        assert_ok(xsm_index_build_model(x, m, &none), none);
    }
    return status;
}

static xsm_status update_index(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    uint32_t classes[CLASSES];
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_index, x) = NULL;
    HELD_MEMORY(float, rows) = calloc(CLASSES, FEATURES * sizeof *rows);
    xsm_index_rows given = XSM_INDEX_ROWS_INIT;
    assert_ok(xsm_index_new(ctx, t->name, &x, &none), none);
    for (uint32_t k = 0; k < CLASSES; k++) {
        classes[k] = k;
        rows[k * FEATURES + k % FEATURES] = 1 + (float)k / CLASSES;
    }
    given.rows = rows;
    given.stride = given.width = FEATURES;
    given.count = CLASSES;
    xsm_status status = xsm_index_build(x, &given, err);
    for (uint32_t k = 0; status == XSM_OK && k < CLASSES; k++) {
        rows[k * FEATURES] += 2;
    }
    if (status == XSM_OK) {
        status = xsm_index_update(x, classes, CLASSES, err);
        if (status == XSM_CANCELLED) { /* it is valid, and can be updated after all */
            assert_ok(xsm_index_update(x, classes, CLASSES, &none), none);
        }
    }
    return status;
}

static xsm_status search_index(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(ctx, &t->dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    HELD(xsm_index, x) = NULL;
    double recall = -1;
    assert_ok(xsm_index_new(ctx, t->name, &x, &none), none);
    xsm_status status = xsm_index_build_model(x, m, err);
    if (status == XSM_OK) {
        xsm_index_search search = XSM_INDEX_SEARCH_INIT;
        search.queries = t->dense.x;
        search.stride = FEATURES;
        search.count = ROWS;
        search.top = 5;
        status = xsmi_index_recall(x, &search, &recall, err);
        assert_true(status == XSM_OK ? recall > 0 : recall == -1);
    }
    return status;
}

static void indexes(void **state)
{
    things *t = *state;
    for (size_t i = 0; xsm_index_at(i); i++) {
        t->name = xsm_index_at(i)->name;
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            test_every_poll(build_index, t, threads, 4, "building an index");
            test_every_poll(update_index, t, threads, 4, "building an index, updating an index");
            test_every_poll(search_index, t, threads, 4, "searching");
        }
    }
}

/* -- files --------------------------------------------------------------------------------------------------------- */

/* The files in the folder of a path that begin with its name: itself, and what an unfinished one may have left. */
static int files_like(const char *path)
{
    char folder[256], entry_path[600];
    const char *slash = strrchr(path, '/');
    int found = 0;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        snprintf(entry_path, sizeof entry_path, "%s/%s", folder, e->d_name);
        found += strncmp(entry_path, path, strlen(path)) == 0;
    }
    closedir(d);
    return found;
}

static xsm_status read_file(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    HELD(xsm_dataset, d) = NULL;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_error none = XSM_ERROR_INIT;
    options.labels_path = strstr(t->path, ".npy") ? t->labels : NULL;
    xsm_status status = xsm_dataset_read(ctx, t->path, NULL, &options, &d, err);
    if (status == XSM_OK) {
        assert_ok(xsm_dataset_get_info(d, &info, &none), none);
        assert_int_equal(info.rows, ROWS);
    } else {
        assert_null(d);
    }
    return status;
}

static xsm_status write_file(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_labels labels = XSM_LABELS_INIT;
    HELD(xsm_dataset, d) = NULL;
    labels.labels = t->dense.labels;
    labels.classes = CLASSES;
    xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
    rows.values = t->dense.x;
    rows.rows = ROWS;
    rows.features = rows.stride = FEATURES;
    rows.labels = &labels;
    xsm_status status = xsm_dataset_from_dense(ctx, &rows, &d, err);
    if (status != XSM_OK) {
        assert_null(d);
        return status;
    }
    xsm_write_options options = XSM_WRITE_OPTIONS_INIT;
    options.format = t->format;
    options.labels_path = t->format == XSM_FORMAT_NPY ? t->labels : NULL;
    unlink(t->path);
    status = xsm_dataset_write(d, t->path, &options, err);
    assert_int_equal(files_like(t->path), status == XSM_OK);
    return status;
}

static void datasets(void **state)
{
    things *t = *state;
    static const struct {
        int32_t format;
        const char *name;
    } formats[] = {{XSM_FORMAT_XC, "rows.xc"},   {XSM_FORMAT_LIBSVM, "rows.svm"}, {XSM_FORMAT_CSV, "rows.csv"},
                   {XSM_FORMAT_TSV, "rows.tsv"}, {XSM_FORMAT_NPY, "rows.npy"},    {XSM_FORMAT_CACHE, "rows.cache"}};
    t->labels = test_path("labels");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        t->format = formats[i].format;
        t->path = test_path(formats[i].name);
        test_every_poll(write_file, t, 1, 1, "writing");
        test_every_poll(read_file, t, 1, 1, "reading");
    }
}

/* -- rows that are changed ----------------------------------------------------------------------------------------- */

enum { CHANGED = 20000 };

/* Rows of two features; of 1000 classes each has two labels, but every seventh row none, and class 999 only empty rows.
 * They are borrowed, and their arrays are the caller's to keep. */
typedef struct changed_rows {
    float values[2 * CHANGED];
    uint32_t index[2 * CHANGED], labels[2 * CHANGED];
    uint64_t offsets[CHANGED + 1], label_offsets[CHANGED + 1];
} changed_rows;

static xsm_dataset *make_changed(changed_rows *c, xsm_context *ctx)
{
    xsm_error none = XSM_ERROR_INIT;
    xsm_dataset *d = NULL;
    for (uint32_t i = 0; i < CHANGED; i++) {
        const bool empty = i % 11 == 0;
        uint64_t at = c->label_offsets[i], value = c->offsets[i];
        for (uint32_t j = 0; j < 2 && !empty; j++) {
            c->index[value] = j;
            c->values[value++] = 1;
        }
        if (i % 7 != 0) {
            c->labels[at++] = empty ? 999 : i % 500 + 450;
            c->labels[at++] = i % 450;
        }
        c->offsets[i + 1] = value;
        c->label_offsets[i + 1] = at;
    }
    const xsm_labels labels = {sizeof labels, 1000, 0, c->label_offsets, c->labels, NULL};
    const xsm_csr_rows rows = {.size = sizeof rows,
                               .values = c->values,
                               .index = c->index,
                               .offsets = c->offsets,
                               .rows = CHANGED,
                               .features = 2,
                               .labels = &labels,
                               .ownership = XSM_BORROW};
    assert_ok(xsm_dataset_from_csr(ctx, &rows, &d, &none), none);
    return d;
}

static xsm_dataset_info info_of(const xsm_dataset *d)
{
    xsm_error none = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(d, &info, &none), none);
    return info;
}

static xsm_status drop_all(xsm_dataset *d, xsm_error *err)
{
    uint64_t dropped = 0;
    const xsm_status status =
        xsm_dataset_drop(d, XSM_DROP_UNLABELLED | XSM_DROP_EMPTY | XSM_DROP_CLASSES, &dropped, err);
    assert_true(dropped == (status == XSM_OK ? 4417 : 0)); /* the multiples of 7 or 11 below 20,000 */
    return status;
}

static xsm_status drop_rare(xsm_dataset *d, xsm_error *err)
{
    return xsm_dataset_drop_rare_labels(d, 37, NULL, NULL, err);
}

static xsm_status keep_smallest(xsm_dataset *d, xsm_error *err)
{
    return xsm_dataset_keep_labels(d, XSM_KEEP_LABELS_SMALLEST, err);
}

static xsm_status extend(xsm_dataset *d, xsm_error *err)
{
    static int64_t numbers[6000];
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    for (int i = 0; i < 6000; i++) {
        numbers[i] = 3 * i;
    }
    map.classes = 6000;
    map.labels = numbers;
    return xsm_dataset_extend(d, &map, err);
}

static xsm_status weigh(xsm_dataset *d, xsm_error *err)
{
    xsm_class_weights w = XSM_CLASS_WEIGHTS_INIT;
    w.method = XSM_CLASS_WEIGHTS_BALANCED;
    return xsm_dataset_weigh_classes(d, &w, err);
}

static xsm_status shuffle(xsm_dataset *d, xsm_error *err)
{
    return xsm_dataset_shuffle(d, 3, err);
}

/* Datasets of copies are there or not: those of a call that was cancelled are untouched. */
static xsm_status copied(xsm_status status, xsm_dataset *const *made, uint64_t rows)
{
    for (int i = 0; i < 2 && made[i]; i++) {
        assert_int_equal(info_of(made[i]).rows, rows);
        xsm_dataset_free(made[i]);
    }
    assert_int_equal(status == XSM_OK, made[0] != NULL);
    return status;
}

static xsm_status take_back(xsm_dataset *d, xsm_error *err)
{
    static uint64_t rows[CHANGED];
    xsm_dataset *out[2] = {NULL, NULL};
    for (uint64_t i = 0; i < CHANGED; i++) {
        rows[i] = CHANGED - 1 - i;
    }
    return copied(xsm_dataset_select(d, rows, CHANGED, &out[0], err), out, CHANGED);
}

static xsm_status split(xsm_dataset *d, xsm_error *err)
{
    xsm_dataset *out[2] = {NULL, NULL};
    const xsm_status status = xsm_dataset_split(d, 0.5, 3, &out[0], &out[1], err);
    assert_int_equal(!out[0], !out[1]);
    return copied(status, out, CHANGED / 2);
}

/* Each is cancelled before the rows change, or not at all; what it then changes the hook sees, too. */
static void edits(void **state)
{
    (void)state;
    static const struct {
        xsm_status (*run)(xsm_dataset *d, xsm_error *err);
        const char *phase;
        bool changes;       /* what is said of the rows */
        size_t cancellable; /* polls at least */
    } tried[] = {{drop_all, "dropping rows and classes", true, 1},
                 {drop_rare, "dropping rare labels", true, 1},
                 {keep_smallest, "keeping a label of each row", true, 1},
                 {extend, "bringing classes together", true, 1},
                 {weigh, "weighing labels", false, 1},
                 {shuffle, "shuffling rows", false, CHANGED / 4096 + 1},
                 {take_back, "copying rows", false, CHANGED / 4096 + 1},
                 {split, "splitting rows", false, CHANGED / 4096 + 1}};
    HELD_MEMORY(changed_rows, c) = calloc(1, sizeof *c);
    assert_non_null(c);
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        test_hook h;
        size_t cancelled = 0;
        test_hook_start(&h, 1);
        for (size_t k = 1;; k++) {
            xsm_error err = XSM_ERROR_INIT;
            xsm_row before = XSM_ROW_INIT, after = XSM_ROW_INIT;
            xsm_dataset *d = make_changed(c, h.context);
            const xsm_dataset_info was = info_of(d);
            assert_ok(xsm_dataset_get_row(d, 12, &before, &err), err);
            test_hook_cancel(&h, k);
            const xsm_status status = tried[i].run(d, &err);
            const size_t calls = h.calls;
            const xsm_dataset_info is = info_of(d);
            test_hook_cancel(&h, 0);
            if (status == XSM_OK) {
                assert_true(!tried[i].changes || memcmp(&was, &is, sizeof is) != 0);
            } else {
                assert_fails(status, XSM_CANCELLED, err);
                assert_memory_equal(&was, &is, sizeof is);
                assert_ok(xsm_dataset_get_row(d, 12, &after, &err), err);
                assert_int_equal(after.label_count, before.label_count);
                assert_memory_equal(after.labels, before.labels, before.label_count * sizeof *before.labels);
                cancelled++;
            }
            xsm_dataset_free(d);
            if (calls < k) {
                assert_int_equal(status, XSM_OK);
                break;
            }
        }
        assert_non_null(strstr(h.phases, tried[i].phase));
        assert_true(cancelled >= tried[i].cancellable);
        test_hook_end(&h);
    }
}

typedef struct told {
    uint64_t least, most, total, calls;
} told;

static int32_t hear(void *user, const xsm_activity *activity)
{
    told *t = user;
    if (strcmp(activity->phase, "writing") == 0) {
        t->least = t->calls++ == 0 ? activity->done : t->least;
        assert_true(activity->done >= t->most && activity->done <= activity->total);
        t->most = activity->done;
        t->total = activity->total;
    }
    return 0;
}

/* Every format tells how much of a file is written: more than one buffer's worth. */
static void writing_is_told(void **state)
{
    things *t = *state;
    xsm_error err = XSM_ERROR_INIT;
    enum { WIDE = 400 };
    HELD_MEMORY(float, values) = calloc((size_t)ROWS * WIDE, sizeof *values);
    for (size_t i = 0; i < (size_t)ROWS * WIDE; i++) {
        values[i] = 1.5f;
    }
    xsm_labels labels = XSM_LABELS_INIT;
    labels.labels = t->dense.labels;
    labels.classes = CLASSES;
    for (int32_t format = XSM_FORMAT_XC; format <= XSM_FORMAT_CACHE; format++) {
        if (format == XSM_FORMAT_TEXT) { /* is read alone */
            continue;
        }
        told heard = {0};
        MADE(xsm_context, ctx,
             xsm_context_new(STRUCT(xsm_context_options, .progress = hear, .progress_user = &heard), &ctx, &err));
        xsmi_set_pace(ctx, 0);
        xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
        rows.values = values;
        rows.rows = ROWS;
        rows.features = rows.stride = WIDE;
        rows.labels = &labels;
        MADE(xsm_dataset, d, xsm_dataset_from_dense(ctx, &rows, &d, &err));
        xsm_write_options o = XSM_WRITE_OPTIONS_INIT;
        const char *path = test_path("told"), *labels_path = test_path("told.labels");
        o.format = format;
        o.labels_path = format == XSM_FORMAT_NPY ? labels_path : NULL;
        assert_ok(xsm_dataset_write(d, path, &o, &err), err);
        assert_true(heard.calls >= 3 && heard.least < heard.total / 2 && heard.most > heard.total / 2);
    }
}

static xsm_status read_corpus(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    HELD(xsm_corpus, c) = NULL;
    xsm_status status = xsm_corpus_open(ctx, t->path, NULL, &c, err);
    assert_true((c != NULL) == (status == XSM_OK));
    return status;
}

static void corpora(void **state)
{
    things *t = *state;
    t->path = test_topics_text("topics", 20000, 3);
    test_every_poll(read_corpus, t, 1, 3, "reading");
}

static xsm_status save_model(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    HELD(xsm_model, m) = test_model(ctx, &t->dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    unlink(t->path);
    xsm_status status = xsm_model_save(m, t->path, NULL, err);
    assert_int_equal(files_like(t->path), status == XSM_OK);
    return status;
}

static xsm_status load_model(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    HELD(xsm_model, m) = NULL;
    xsm_status status = xsm_model_load(ctx, t->path, NULL, NULL, &m, err);
    assert_true((m != NULL) == (status == XSM_OK));
    return status;
}

static void models(void **state)
{
    things *t = *state;
    t->path = test_path("model");
    test_every_poll(save_model, t, 1, 2, "saving"); /* a weight and a bias, a piece each */
    test_every_poll(load_model, t, 1, 1, "checking a file");
}

/* -- changes of a model -------------------------------------------------------------------------------------------- */

/* What the scores of a model are computed from. A cancelled change leaves it to the bit. */
static uint64_t scores_of(const xsm_model *m, const xsm_dataset *rows)
{
    enum { SOME = 5 };
    xsm_error none = XSM_ERROR_INIT;
    const xsm_batch batch = xsm_batch_range(rows, 0, SOME);
    const uint32_t classes = xsm_model_class_count(m);
    float *scores = malloc(SOME * (size_t)classes * sizeof *scores);
    uint64_t hash = 14695981039346656037u;
    assert_non_null(scores);
    xsmi_set_pace(m->context, NEVER);
    assert_ok(xsm_model_score_range(m, &batch, 0, classes, scores, classes, &none), none);
    xsmi_set_pace(m->context, 0);
    for (size_t i = 0; i < SOME * (size_t)classes; i++) {
        uint32_t bits;
        memcpy(&bits, &scores[i], sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
    }
    free(scores);
    return hash ^ classes;
}

static xsm_status add_pairs(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(ctx, &t->sparse, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    const uint64_t before = scores_of(m, t->sparse.data);
    xsm_status status = xsm_model_add_pairs(m, t->sparse.data, 0.5, err);
    assert_int_equal(test_model_info(m).correction, status == XSM_OK ? XSM_CORRECTION_PAIRS : XSM_CORRECTION_NONE);
    assert_true((scores_of(m, t->sparse.data) == before) == (status != XSM_OK));
    if (status == XSM_CANCELLED) { /* and once more replaces them */
        assert_ok(xsm_model_add_pairs(m, t->sparse.data, 0.5, &none), none);
        assert_true(scores_of(m, t->sparse.data) != before);
    }
    return status;
}

static xsm_status change_layout(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(ctx, &t->sparse, true, t->format, 0.1, 3);
    const int32_t other = t->format == XSM_LAYOUT_CLASS_MAJOR ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR;
    const uint64_t before = test_hash(m);
    xsm_status status = xsm_model_set_layout(m, other, err);
    assert_int_equal(test_model_info(m).layout, status == XSM_OK ? other : t->format);
    if (status == XSM_CANCELLED) {
        assert_ok(xsm_model_set_layout(m, other, &none), none);
        assert_ok(xsm_model_set_layout(m, t->format, &none), none);
        assert_true(test_hash(m) == before);
    }
    return status;
}

/* Grows a model by classes between the others, whose names need a search, and by features. */
static xsm_status grow(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    static char texts[2 * CLASSES][8];
    static const char *own[CLASSES], *all[2 * CLASSES];
    xsm_error none = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT, wider = XSM_CLASS_MAP_INIT;
    for (uint32_t k = 0; k < 2 * CLASSES; k++) {
        snprintf(texts[k], sizeof texts[k], "c%04u", (k * 13) % (2 * CLASSES));
        all[k] = texts[k];
        own[k / 2] = texts[k];
    }
    xsm_model *m = NULL;
    if (t->batch) { /* an embedding model */
        xsm_embedding_options options = XSM_EMBEDDING_OPTIONS_INIT;
        assert_ok(xsm_model_new_embedding(ctx, t->sparse.features, 6, CLASSES, &options, &m, &none), none);
    } else {
        m = test_model(ctx, &t->sparse, true, t->format, 0.1, 3);
    }
    map.classes = CLASSES;
    map.names = own;
    wider.classes = 2 * CLASSES;
    wider.names = all;
    xsm_status status = xsm_model_set_class_map(m, &map, err);
    if (status != XSM_OK) {
        assert_ok(xsm_model_get_class_map(m, &map, &none), none);
        assert_null(map.names);
        xsm_model_free(m);
        return status;
    }
    const uint64_t before = scores_of(m, t->sparse.data);
    const uint32_t features = xsm_model_feature_count(m) + 3;
    status = xsm_model_grow(m, features, &wider, err);
    if (status == XSM_CANCELLED) {
        assert_int_equal(xsm_model_feature_count(m), features - 3);
        assert_true(scores_of(m, t->sparse.data) == before);
        assert_ok(xsm_model_get_class_map(m, &map, &none), none);
        assert_string_equal(map.names[1], own[1]);
        assert_ok(xsm_model_grow(m, features, &wider, &none), none);
    }
    assert_int_equal(xsm_model_class_count(m), 2 * CLASSES);
    assert_int_equal(xsm_model_feature_count(m), features);
    xsm_model_free(m);
    return status;
}

static void changes(void **state)
{
    things *t = *state;
    test_every_poll(add_pairs, t, 1, 4, "counting pairs");
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        for (t->format = XSM_LAYOUT_CLASS_MAJOR; t->format <= XSM_LAYOUT_FEATURE_MAJOR; t->format++) {
            test_every_poll(change_layout, t, threads, 2, "changing the layout");
            t->batch = 0;
            test_every_poll(grow, t, threads, 3, "growing a model");
        }
        t->batch = 1;
        test_every_poll(grow, t, threads, 3, "growing a model");
    }
}

/* -- the suites for hosts' tables ---------------------------------------------------------------------------------- */

static xsm_status check_estimator(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_estimator_check_options options = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    const xsm_estimator_ops *ops = xsm_estimator_find(t->name);
    options.promises = 0;
    return xsm_estimator_check(ctx, ops, &options, err);
}

static xsm_status check_sampler(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_sampler_check_options options = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    options.draws = 2000;
    return xsm_sampler_check(ctx, xsm_sampler_find(t->name), &options, err);
}

static xsm_status check_index(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_index_check_options options = XSM_INDEX_CHECK_OPTIONS_INIT;
    options.rows = 300;
    return xsm_index_check(ctx, xsm_index_find(t->name), &options, err);
}

static xsm_status check_optimizer(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    return xsm_optimizer_check(ctx, xsm_optimizer_find(t->name), NULL, err);
}

static void suites(void **state)
{
    things *t = *state;
    t->name = "ove";
    test_every_poll(check_estimator, t, 1, 10, "trying an estimator");
    for (size_t i = 0; xsm_sampler_at(i); i++) {
        t->name = xsm_sampler_at(i)->name;
        test_every_poll(check_sampler, t, 1, 10, "trying a sampler");
    }
    for (size_t i = 0; xsm_index_at(i); i++) {
        t->name = xsm_index_at(i)->name;
        test_every_poll(check_index, t, 2, 10, "trying an index");
    }
    t->name = "adagrad";
    test_every_poll(check_optimizer, t, 1, 10, "trying an optimizer");
}

/* -- transforms and samplers --------------------------------------------------------------------------------------- */

static xsm_status transform(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_transform, transform) = NULL;
    HELD(xsm_dataset, d) = NULL;
    const uint64_t all = t->sparse.rows;
    uint64_t rows[ROWS];
    for (uint64_t i = 0; i < all; i++) {
        rows[i] = i;
    }
    assert_ok(xsm_dataset_select(t->sparse.data, rows, all, &d, &none), none);
    assert_ok(xsm_transform_new(ctx, t->name, &transform, &none), none);
    xsm_row before = XSM_ROW_INIT, after = XSM_ROW_INIT;
    assert_ok(xsm_dataset_get_row(d, 3, &before, &none), none);
    float first = before.values[0];
    xsm_status status = xsm_transform_fit(transform, d, err);
    if (status == XSM_OK) {
        status = xsm_transform_apply(transform, d, err);
    }
    assert_ok(xsm_dataset_get_row(d, 3, &after, &none), none);
    assert_true((after.values[0] == first) == (status != XSM_OK));
    return status;
}

/* A sampler; a tree is fitted to two folds only, which takes less time. */
static xsm_sampler *sampler_of(xsm_context *ctx, const char *name)
{
    xsm_error none = XSM_ERROR_INIT;
    xsm_sampler *s = NULL;
    assert_ok(xsm_sampler_new(ctx, name, &s, &none), none);
    if (strcmp(name, "tree") == 0) {
        assert_ok(xsm_sampler_set(s, "folds", "2", &none), none);
    }
    return s;
}

static xsm_status bind_sampler(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_sampler, s) = sampler_of(ctx, t->name);
    xsm_status status = xsm_sampler_bind(s, problem(t)->data, err);
    assert_int_equal(test_sampler_info(s).classes, status == XSM_OK ? CLASSES : 0);
    if (status != XSM_OK) {
        assert_ok(xsm_sampler_bind(s, t->small.data, &none), none);
    }
    return status;
}

static xsm_status save_sampler(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    HELD(xsm_sampler, s) = sampler_of(ctx, "tree");
    HELD(xsm_sampler, loaded) = NULL;
    xsm_status status = xsm_sampler_bind(s, t->dense.data, err);
    if (status == XSM_OK) {
        status = xsm_sampler_save(s, t->path, NULL, err);
    }
    if (status == XSM_OK) {
        status = xsm_sampler_load(ctx, t->path, NULL, NULL, &loaded, err);
        assert_true((loaded != NULL) == (status == XSM_OK));
    }
    return status;
}

static void preparations(void **state)
{
    things *t = *state;
    static const char *const steps[] = {"tfidf,unit", "tfidf,unit,products=2", "log,standard"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        t->name = steps[i];
        test_every_poll(transform, t, 1, 2, "fitting a transform, transforming rows");
    }
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        for (t->use_sparse = false;; t->use_sparse = true) {
            t->name = "tree";
            test_every_poll(bind_sampler, t, threads, 3, "finding principal components, fitting a tree");
            t->name = "label-tree";
            test_every_poll(bind_sampler, t, threads, 3, "making label vectors, training nodes");
            if (t->use_sparse) {
                break;
            }
        }
    }
    t->path = test_path("sampler");
    test_every_poll(save_sampler, t, 1, 3, "saving, checking a file");
}

/* -- training ------------------------------------------------------------------------------------------------------ */

/* Trains; a cancelled run is continued, to the same bits. */
static xsm_status train(void *state, xsm_context *ctx, xsm_error *err)
{
    things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    const test_problem *p = &t->small;
    HELD(xsm_model, m) = test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    HELD(xsm_estimator, e) = test_estimator(ctx, t->name, "");
    HELD(xsm_optimizer, o) = test_optimizer(ctx, m);
    HELD(xsm_trainer, trainer) = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.eta = 0.001;
    options.batch = t->batch;
    options.evaluate_every = 1;
    options.test = p->data;
    xsm_status status = xsm_trainer_new(ctx, m, p->data, e, o, &options, &trainer, err);
    if (status == XSM_OK) {
        status = xsm_trainer_run(trainer, err);
        if (status == XSM_CANCELLED) {
            assert_ok(xsm_trainer_run(trainer, &none), none);
        }
        const uint64_t hash = test_hash(m);
        t->hash = t->hash == 0 ? hash : t->hash;
        assert_true(t->hash == hash);
    }
    return status;
}

static void trainings(void **state)
{
    things *t = *state;
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        t->name = xsm_estimator_at(i)->name;
        const uint64_t limit = xsm_estimator_at(i)->batch_limit;
        for (t->batch = 1; t->batch <= 16 && (limit == 0 || t->batch <= limit); t->batch += 15) {
            for (uint32_t threads = 1; threads <= 3; threads += 2) {
                t->hash = 0;
                xsm_error err = XSM_ERROR_INIT;
                assert_ok(train(t, NULL, &err), err); /* not interrupted */
                test_every_poll(train, t, threads, 1, "training, evaluating");
            }
        }
    }
}

#ifndef TEST_NO_LBFGS
static xsm_status fit(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(ctx, &t->small, true, XSM_LAYOUT_CLASS_MAJOR, 0, 3);
    HELD(xsm_estimator, e) = test_estimator(ctx, "softmax", "ridge=1");
    xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
    xsm_fit_result result = XSM_FIT_RESULT_INIT, after = XSM_FIT_RESULT_INIT;
    options.iterations = 5;
    xsm_status status = xsm_fit_full_batch(ctx, m, t->small.data, e, &options, &result, err);
    if (status == XSM_CANCELLED && result.iterations > 0) {
        /* The model has the best weights so far, and goes on from there. */
        options.iterations = 1;
        assert_ok(xsm_fit_full_batch(ctx, m, t->small.data, e, &options, &after, &none), none);
        assert_true(after.objective <= result.objective);
    }
    return status;
}
#endif

static xsm_status tune(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    HELD(xsm_model, m) = test_model(ctx, &t->small, true, XSM_LAYOUT_CLASS_MAJOR, 0, 3);
    HELD(xsm_estimator, e) = test_estimator(ctx, "implicit", "");
    HELD(xsm_optimizer, o) = test_optimizer(ctx, m);
    HELD(xsm_tuning, tuning) = NULL;
    xsm_status status = xsm_tune_eta(ctx, m, t->small.data, e, o, NULL, &tuning, err);
    assert_true((tuning != NULL) == (status == XSM_OK));
    for (size_t i = 0; i < m->w.weight_count; i++) {
        assert_true(m->w.weight[i] == 0);
    }
    return status;
}

static xsm_status choose(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    HELD(xsm_choice, choice) = NULL;
    xsm_status status = xsm_choose(ctx, t->small.data, NULL, &choice, err);
    assert_true((choice != NULL) == (status == XSM_OK));
    return status;
}

static void choices(void **state)
{
    things *t = *state;
#ifndef TEST_NO_LBFGS
    test_every_poll(fit, t, 1, 3, "training");
    test_every_poll(fit, t, 3, 3, "training");
#endif
    test_every_poll(tune, t, 1, 3, "choosing a learning rate");
    test_every_poll(choose, t, 1, 3, "choosing a way to train");
}

static xsm_status skipgram(void *state, xsm_context *ctx, xsm_error *err)
{
    things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_corpus, c) = test_corpus(NULL, t->path, 1);
    HELD(xsm_model, in) = test_vectors(NULL, c, 8, 0.1, 1);
    HELD(xsm_model, out) = test_vectors(NULL, c, 8, 0, 2);
    xsm_skipgram_options options = test_word_run(1);
    HELD(xsm_skipgram, trainer) = NULL;
    xsm_status status = xsm_skipgram_new(ctx, c, in, out, NULL, &options, &trainer, err);
    if (status == XSM_OK) {
        status = xsm_skipgram_run(trainer, err);
        if (status == XSM_CANCELLED) {
            assert_ok(xsm_skipgram_run(trainer, &none), none);
        }
        const uint64_t hash = test_hash(in);
        t->hash = t->hash == 0 ? hash : t->hash;
        assert_true(t->hash == hash);
    }
    return status;
}

static xsm_status word_file(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    HELD(xsm_corpus, c) = test_corpus(NULL, t->labels, 1);
    HELD(xsm_model, m) = NULL;
    HELD(xsm_model, again) = NULL;
    unlink(t->path);
    xsm_status status = xsm_word_model_new(ctx, c, 40, 0.1, 1, &m, err);
    assert_true((m != NULL) == (status == XSM_OK));
    if (status == XSM_OK) {
        status = xsm_word_model_write(m, t->path, err);
        assert_int_equal(files_like(t->path), status == XSM_OK);
    }
    if (status == XSM_OK) {
        status = xsm_word_model_read(ctx, t->path, &again, err);
        assert_true((again != NULL) == (status == XSM_OK));
    }
    return status;
}

static void word_files(void **state)
{
    things *t = *state;
    t->labels = test_topics_text("topics of vectors", 500, 3);
    t->path = test_path("vectors.vec");
    test_every_poll(word_file, t, 1, 6, "starting word vectors, writing, reading");
}

static void words(void **state)
{
    things *t = *state;
    xsm_error err = XSM_ERROR_INIT;
    t->path = test_topics_text("lines", 500, 3);
    t->hash = 0;
    assert_ok(skipgram(t, NULL, &err), err);
    test_every_poll(skipgram, t, 1, 3, "training");
    test_every_poll(skipgram, t, 3, 3, "training");
}

/* -- calls that are long for large batches ------------------------------------------------------------------------- */

enum { FORMS = 3 };

/* Class-major weights with dense and with sparse rows, feature-major ones with sparse rows. */
static void take_form(things *t, size_t form)
{
    t->format = form < 2 ? XSM_LAYOUT_CLASS_MAJOR : XSM_LAYOUT_FEATURE_MAJOR;
    t->use_sparse = form > 0;
}

/* A gradient. One that was cancelled is empty, no step can be taken with it, and the next one is what it would have
 * been. */
static xsm_status gradient(void *state, xsm_context *ctx, xsm_error *err)
{
    things *t = state;
    const test_problem *p = problem(t);
    static float rows[ROWS * FEATURES];
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(ctx, p, true, t->format, 0.1, 3);
    HELD(xsm_estimator, e) = test_estimator(ctx, t->name, t->set);
    HELD(xsm_optimizer, o) = test_optimizer(ctx, m);
    HELD(xsm_gradient, g) = test_gradient(ctx);
    const xsm_batch batch = xsm_batch_range(p->data, 0, t->batch);
    const uint64_t before = test_hash(m);
    assert_ok(xsm_optimizer_bind(o, m, &none), none);
    xsmi_set_pace(m->context, 0);
    xsm_status status = xsm_estimator_bind(e, m, p->data, err);
    status = status == XSM_OK && *t->set ? xsm_estimator_gradient(e, &batch, 0.1, g, err) : status;
    if (status == XSM_OK) {
        status = t->use_sparse ? xsm_estimator_gradient(e, &batch, 0.1, g, err)
                               : xsm_estimator_gradient_input(e, &batch, 0.1, g, rows, FEATURES, err);
        xsmi_set_pace(m->context, NEVER);
        if (status == XSM_CANCELLED) {
            assert_int_equal(xsm_optimizer_apply(o, &batch, g, 0.1, &none), XSM_ERROR_SHAPE);
            assert_true(test_hash(m) == before);
            assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g, &none), none);
        }
        if (*t->set) { /* by what the sampler has made of the batches before it */
            assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g, &none), none);
        }
        assert_ok(xsm_optimizer_apply(o, &batch, g, 0.1, &none), none);
        const uint64_t hash = test_hash(m);
        t->hash = t->hash == 0 ? hash : t->hash;
        assert_true(hash == t->hash && hash != before);
    }
    return status;
}

static void gradients(void **state)
{
    things *t = *state;
    static const char *const names[][2] = {
        {"softmax", ""}, {"margin", ""}, {"ove", ""}, {"sampled-softmax", ""}, {"sampled-softmax", "sampler=midx"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        t->name = names[i][0];
        t->set = names[i][1];
        t->batch = ROWS;
        assert_null(xsm_estimator_find(t->name)->state_tensor);
        for (size_t form = 0; form < FORMS; form++) {
            take_form(t, form);
            for (uint32_t threads = 1; threads <= (test_full() || i == 0 ? 3 : 1); threads += 2) {
                t->hash = 0;
                xsm_error err = XSM_ERROR_INIT;
                assert_ok(gradient(t, NULL, &err), err); /* not interrupted */
                test_every_poll(gradient, t, threads, 3, "computing a gradient");
            }
        }
    }
}

static xsm_status score_range(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    const test_problem *p = problem(t);
    static float scores[ROWS * CLASSES];
    const xsm_batch all = xsm_batch_range(p->data, 0, ROWS);
    HELD(xsm_model, m) = test_model(ctx, p, true, t->format, 0.1, 3);
    return xsm_model_score_range(m, &all, 0, CLASSES, scores, CLASSES, err);
}

/* 32 rows with more classes than are scored between two polls. */
static xsm_status score_chosen(void *state, xsm_context *ctx, xsm_error *err)
{
    enum { SOME = 32, CHOSEN = 9000 };
    const things *t = state;
    const test_problem *p = problem(t);
    static float scores[SOME * CHOSEN];
    static uint32_t classes[SOME * CHOSEN];
    const xsm_batch some = xsm_batch_range(p->data, 0, SOME);
    for (size_t i = 0; i < (size_t)SOME * CHOSEN; i++) {
        classes[i] = (uint32_t)(i * 7 % CLASSES);
    }
    HELD(xsm_model, m) = test_model(ctx, p, true, t->format, 0.1, 3);
    xsm_status status = xsm_model_scores(m, &some, classes, CHOSEN, scores, err);
    for (size_t i = 0; status == XSM_OK && i < (size_t)SOME * CHOSEN; i++) {
        assert_true(scores[i] == scores[i / CHOSEN * CHOSEN + i % CHOSEN % CLASSES]); /* pieces join */
    }
    return status;
}

static void scorings(void **state)
{
    things *t = *state;
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        for (size_t form = 0; form < FORMS; form++) {
            take_form(t, form);
            test_every_poll(score_range, t, threads, 3, "scoring");
            test_every_poll(score_chosen, t, threads, 3, "scoring");
        }
    }
}

static xsm_status draw(void *state, xsm_context *ctx, xsm_error *err)
{
    enum { DRAWS = 5, BOUND = 200 };
    const things *t = state;
    static uint32_t classes[ROWS * DRAWS];
    static float logs[ROWS * CLASSES];
    uint64_t first[BOUND];
    HELD(xsm_dataset, few) = NULL;
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_sampler, s) = sampler_of(ctx, t->name);
    xsm_draw draw = XSM_DRAW_INIT;
    const xsm_batch all = xsm_batch_range(t->dense.data, 0, ROWS);
    for (uint64_t i = 0; i < BOUND; i++) {
        first[i] = i;
    }
    draw.batch = &all;
    draw.count = DRAWS;
    draw.classes = classes;
    draw.distinct = t->use_sparse;
    assert_ok(xsm_dataset_select(t->dense.data, first, BOUND, &few, &none), none);
    xsmi_set_pace(ctx, NEVER);
    assert_ok(xsm_sampler_bind(s, few, &none), none);
    xsmi_set_pace(ctx, 0);
    xsm_status status = xsm_sampler_draw(s, &draw, err);
    if (status == XSM_OK) {
        status = xsm_sampler_log_probabilities(s, &all, 0, CLASSES, logs, err);
    }
    return status;
}

static void draws(void **state)
{
    things *t = *state;
    for (uint32_t threads = 1; threads <= (test_full() ? 3 : 1); threads += 2) {
        for (size_t i = 0; xsm_sampler_at(i); i++) {
            t->name = xsm_sampler_at(i)->name;
            t->use_sparse = false;
            test_every_poll(draw, t, threads, 3, "drawing");
            t->use_sparse = true; /* distinct */
            test_every_poll(draw, t, threads, 3, "drawing");
        }
    }
}

/* A step on every class by dense rows. One that was cancelled has changed nothing: the next one is what it would have
 * been, also of a rule that stores numbers for each weight. */
static xsm_status large_step(void *state, xsm_context *ctx, xsm_error *err)
{
    things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    const xsm_batch all = xsm_batch_range(t->dense.data, 0, ROWS);
    HELD(xsm_model, m) = test_model(ctx, &t->dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    HELD(xsm_estimator, e) = test_estimator(ctx, "softmax", "");
    HELD(xsm_gradient, g) = test_gradient(ctx);
    HELD(xsm_optimizer, o) = NULL;
    assert_ok(xsm_optimizer_new(ctx, t->name, &o, &none), none);
    assert_ok(xsm_optimizer_bind(o, m, &none), none);
    assert_ok(xsm_estimator_bind(e, m, t->dense.data, &none), none);
    xsmi_set_pace(m->context, NEVER);
    assert_ok(xsm_estimator_gradient(e, &all, 0.1, g, &none), none);
    assert_ok(xsm_optimizer_apply(o, &all, g, 0.1, &none), none);
    const uint64_t before = test_hash(m);
    xsmi_set_pace(m->context, 0);
    const xsm_status status = xsm_optimizer_apply(o, &all, g, 0.1, err);
    xsmi_set_pace(m->context, NEVER);
    if (status == XSM_CANCELLED) {
        assert_true(test_hash(m) == before);
        assert_ok(xsm_optimizer_apply(o, &all, g, 0.1, &none), none);
    }
    const uint64_t hash = test_hash(m);
    t->hash = t->hash == 0 ? hash : t->hash;
    assert_true(hash == t->hash && hash != before);
    xsmi_set_pace(m->context, 0);
    return status;
}

static void large_steps(void **state)
{
    things *t = *state;
    static const char *const names[] = {"sgd", "adagrad"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        t->name = names[i];
        t->hash = 0;
        xsm_error err = XSM_ERROR_INIT;
        assert_ok(large_step(t, NULL, &err), err); /* not interrupted */
        test_every_poll(large_step, t, 1, 5, "taking a step");
        test_every_poll(large_step, t, 3, 5, "taking a step");
    }
}

/* Another step that has begun is taken as a whole, whatever the hook says. */
static void steps(void **state)
{
    things *t = *state;
    xsm_error none = XSM_ERROR_INIT;
    static const char *const names[] = {"sgd", "adagrad"};
    for (size_t i = 0; i < 4; i++) {
        const test_problem *p = &t->sparse;
        const int32_t layout = i < 2 ? XSM_LAYOUT_CLASS_MAJOR : XSM_LAYOUT_FEATURE_MAJOR;
        const xsm_batch all = xsm_batch_range(p->data, 0, ROWS);
        uint64_t hash[2];
        for (size_t hooked = 0; hooked < 2; hooked++) {
            test_hook h;
            test_hook_start(&h, 1);
            xsm_model *m = test_model(h.context, p, true, layout, 0.1, 3);
            xsm_estimator *e = test_estimator(h.context, "softmax", "");
            xsm_gradient *g = test_gradient(h.context);
            xsm_optimizer *o = NULL;
            assert_ok(xsm_optimizer_new(h.context, names[i % 2], &o, &none), none);
            assert_ok(xsm_optimizer_bind(o, m, &none), none);
            assert_ok(xsm_estimator_bind(e, m, p->data, &none), none);
            assert_ok(xsm_estimator_gradient(e, &all, 0.1, g, &none), none);
            test_hook_cancel(&h, hooked);
            h.phases[0] = '\0';
            assert_ok(xsm_optimizer_apply(o, &all, g, 0.1, &none), none);
            assert_true(h.calls >= 1);
            assert_string_equal(h.phases, "taking a step");
            hash[hooked] = test_hash(m);
            xsm_gradient_free(g);
            xsm_optimizer_free(o);
            xsm_estimator_free(e);
            xsm_model_free(m);
            test_hook_end(&h);
        }
        assert_true(hash[0] == hash[1]);
    }
}

/* What an estimator stores for the rows is not half changed, either: its gradient is computed as a whole, unless it
 * takes the batch as a whole and stores last. */
static void stored(void **state)
{
    things *t = *state;
    xsm_error none = XSM_ERROR_INIT;
    size_t tried = 0;
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        const xsm_estimator_ops *ops = xsm_estimator_at(i);
        if (!ops->state_tensor || ops->joint || (ops->batch_limit > 0 && ops->batch_limit < ROWS)) {
            continue;
        }
        test_hook h;
        test_hook_start(&h, 1);
        xsm_model *m = test_model(h.context, &t->dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
        xsm_estimator *e = test_estimator(h.context, ops->name, "");
        xsm_gradient *g = test_gradient(h.context);
        const xsm_batch all = xsm_batch_range(t->dense.data, 0, ROWS);
        assert_ok(xsm_estimator_bind(e, m, t->dense.data, &none), none);
        test_hook_cancel(&h, 1);
        assert_ok(xsm_estimator_gradient(e, &all, 0.001, g, &none), none);
        tried += h.calls > 0;
        xsm_gradient_free(g);
        xsm_estimator_free(e);
        xsm_model_free(m);
        test_hook_end(&h);
    }
    assert_true(tried > 0);
}

/* A gradient of rows that are taken together. */
static xsm_status joint(void *state, xsm_context *ctx, xsm_error *err)
{
    enum { TOGETHER = 150 };
    things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(ctx, &t->dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    HELD(xsm_estimator, e) = test_estimator(ctx, "implicit", "negatives=200");
    HELD(xsm_gradient, g) = test_gradient(ctx);
    xsm_gradient_view view = XSM_GRADIENT_VIEW_INIT;
    const xsm_batch batch = xsm_batch_range(t->dense.data, 0, TOGETHER);
    xsmi_set_pace(m->context, NEVER);
    assert_ok(xsm_estimator_bind(e, m, t->dense.data, &none), none);
    xsmi_set_pace(m->context, 0);
    const xsm_status status = xsm_estimator_gradient(e, &batch, 1, g, err);
    xsmi_set_pace(m->context, NEVER);
    if (status == XSM_CANCELLED) {
        assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &none), none);
    }
    assert_ok(xsm_gradient_get_view(g, &view, &none), none);
    uint64_t hash = 0;
    for (uint64_t i = 0; i < TOGETHER; i++) {
        for (uint32_t j = 0; j < view.lengths[i]; j++) {
            uint32_t bits;
            memcpy(&bits, view.coefficients + i * view.width + j, sizeof bits);
            hash = (hash ^ bits) * UINT64_C(0x9E3779B97F4A7C15);
        }
    }
    t->hash = t->hash == 0 ? hash : t->hash;
    assert_true(hash == t->hash && hash != 0);
    xsmi_set_pace(m->context, 0);
    return status;
}

static void joints(void **state)
{
    things *t = *state;
    t->hash = 0;
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(joint(t, NULL, &err), err); /* not interrupted */
    test_every_poll(joint, t, 1, 8, "computing a gradient");
    test_every_poll(joint, t, 3, 8, "computing a gradient");
}

/* A trainer's step that is cancelled before its update changes no weight, and one after it all. */
static xsm_status one_step(void *state, xsm_context *ctx, xsm_error *err)
{
    things *t = state;
    xsm_error none = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(ctx, &t->dense, true, XSM_LAYOUT_CLASS_MAJOR, 0.1, 3);
    HELD(xsm_estimator, e) = test_estimator(ctx, t->name, "");
    HELD(xsm_optimizer, o) = test_optimizer(ctx, m);
    HELD(xsm_trainer, trainer) = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_progress progress = XSM_PROGRESS_INIT;
    const uint64_t before = test_hash(m);
    options.epochs = 1;
    options.eta = 0.1;
    options.batch = ROWS;
    xsm_status status = xsm_trainer_new(ctx, m, t->dense.data, e, o, &options, &trainer, err);
    if (status == XSM_OK) {
        status = xsm_trainer_run(trainer, err);
        assert_ok(xsm_trainer_get_progress(trainer, &progress, &none), none);
        const uint64_t hash = test_hash(m);
        if (progress.step > 0) {
            t->hash = t->hash == 0 ? hash : t->hash;
        }
        assert_true(hash == (progress.step > 0 ? t->hash : before));
        assert_true(status == XSM_CANCELLED || progress.step == 1);
        if (status == XSM_CANCELLED) { /* it goes on to the same bits */
            xsmi_set_pace(m->context, NEVER);
            assert_ok(xsm_trainer_run(trainer, &none), none);
            xsmi_set_pace(m->context, 0);
            assert_true(test_hash(m) == t->hash);
        }
    }
    return status;
}

static void trainer_steps(void **state)
{
    things *t = *state;
    static const char *const names[] = {"softmax", "margin"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            t->name = names[i];
            t->hash = 0;
            xsm_error err = XSM_ERROR_INIT;
            assert_ok(one_step(t, NULL, &err), err);
            test_every_poll(one_step, t, threads, 3, "training");
        }
    }
}

/* -- objects that take long to make -------------------------------------------------------------------------------- */

enum { MANY = 4096 }; /* MANY by CLASSES numbers are several times what is done between two polls */

static xsm_status large_model(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    xsm_model *m = NULL;
    HELD(xsm_model, mapped) = NULL;
    xsm_optimizer *o = NULL;
    xsm_error none = XSM_ERROR_INIT;
    xsm_status status = xsm_model_new_linear(ctx, MANY, CLASSES, NULL, &m, err);
    assert_true((m != NULL) == (status == XSM_OK));
    if (status == XSM_OK) {
        assert_ok(xsm_optimizer_new(ctx, "adagrad", &o, &none), none);
        status = xsm_optimizer_bind(o, m, err);
    }
    xsm_optimizer_free(o);
    xsm_model_free(m);
    if (status == XSM_OK) {
        xsm_parameters p = XSM_PARAMETERS_INIT;
        xsm_load_options options = XSM_LOAD_OPTIONS_INIT;
        options.skip_verify = 1;
        status = xsm_model_load(ctx, t->path, NULL, &options, &mapped, err);
        status = status == XSM_OK ? xsm_model_get_parameters(mapped, &p, err) : status;
        assert_true((p.weight != NULL) == (status == XSM_OK));
    }
    return status;
}

static xsm_status large_embedding(void *state, xsm_context *ctx, xsm_error *err)
{
    HELD(xsm_model, m) = NULL;
    const xsm_status status = xsm_model_new_embedding(ctx, 3 * CLASSES, MANY, CLASSES, NULL, &m, err);
    (void)state;
    assert_true((m != NULL) == (status == XSM_OK));
    return status;
}

static xsm_status large_rows(void *state, xsm_context *ctx, xsm_error *err)
{
    const things *t = state;
    static float values[CLASSES * MANY];
    static uint64_t chosen[CLASSES];
    static uint32_t index[CLASSES * MANY];
    static uint64_t offsets[CLASSES + 1];
    for (size_t i = 0; i < CLASSES * (size_t)MANY; i++) {
        index[i] = (uint32_t)(i % MANY);
        offsets[i / MANY] = i / MANY * MANY;
    }
    offsets[CLASSES] = CLASSES * (uint64_t)MANY;
    const xsm_dense_rows dense = {.size = sizeof dense, .values = values, .rows = CLASSES, .features = MANY};
    const xsm_csr_rows sparse = {
        .size = sizeof sparse, .values = values, .index = index, .offsets = offsets, .rows = CLASSES, .features = MANY};
    HELD(xsm_dataset, d) = NULL;
    HELD(xsm_dataset, some) = NULL;
    xsm_status status =
        t->use_sparse ? xsm_dataset_from_csr(ctx, &sparse, &d, err) : xsm_dataset_from_dense(ctx, &dense, &d, err);
    status = status == XSM_OK ? xsm_dataset_select(d, chosen, CLASSES, &some, err) : status;
    assert_true((some != NULL) == (status == XSM_OK));
    return status;
}

static void large_objects(void **state)
{
    things *t = *state;
    xsm_error err = XSM_ERROR_INIT;
    t->path = test_path("large");
    NEW(xsm_model, m, xsm_model_new_linear(NULL, MANY, CLASSES, NULL, &m, &err));
    assert_ok(xsm_model_save(m, t->path, NULL, &err), err);
    xsm_model_free(m);
    test_every_poll(large_model, t, 1, 3, "making a model, preparing an optimizer, preparing weights");
    test_every_poll(large_embedding, t, 1, 3, "making a model");
    for (int sparse = 0; sparse < 2; sparse++) {
        t->use_sparse = sparse;
        test_every_poll(large_rows, t, 1, 2, "taking rows, copying rows");
    }
    remove(t->path);
}

/* Sorting many classes asks, too. */
static void many_classes(void **state)
{
    enum { LOTS = 1 << 17, ASKED = LOTS / 4096 };
    static const char *const names[][2] = {{"hierarchical", ""}, {"ove", "tight=5"}};
    HELD_STRUCT(test_problem, p) = test_problem_new(4, 3, LOTS, false, 5);
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        xsm_error err = XSM_ERROR_INIT;
        test_hook h;
        test_hook_start(&h, 1);
        xsm_model *m = test_model(h.context, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 3);
        xsm_estimator *e = test_estimator(h.context, names[i][0], names[i][1]);
        test_hook_cancel(&h, 0);
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        assert_true(h.calls > ASKED);
        test_hook_cancel(&h, ASKED);
        assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_CANCELLED, err);
        xsm_estimator_free(e);
        xsm_model_free(m);
        test_hook_end(&h);
    }
}

/* The hook is that of the call's context, wherever the rows are from. */
static void rows_of_others(void **state)
{
    enum { ROWS_READ = 9000 };
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS_READ, 6, 12, true, 5);
    xsm_error err = XSM_ERROR_INIT;
    size_t calls[2][2];
    (void)state;
    xsm_write_options cache = XSM_WRITE_OPTIONS_INIT;
    cache.format = XSM_FORMAT_CACHE;
    assert_ok(xsm_dataset_write(p.data, test_path("rows.cache"), &cache, &err), err);
    for (size_t own = 0; own < 2; own++) {
        test_hook h;
        xsm_model *tree = NULL;
        test_hook_start(&h, 1);
        xsm_model *m = test_model(h.context, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 3);
        NEW(xsm_dataset, d, xsm_dataset_read(own ? h.context : NULL, test_path("rows.cache"), NULL, NULL, &d, &err));
        test_hook_cancel(&h, 0);
        assert_ok(xsm_fit_class_means(h.context, m, d, NULL, &err), err);
        calls[own][0] = h.calls;
        test_hook_cancel(&h, 0);
        assert_ok(xsm_fit_label_tree(h.context, d, NULL, &tree, NULL, &err), err);
        calls[own][1] = h.calls;
        xsm_model_free(tree);
        xsm_model_free(m);
        xsm_dataset_free(d);
        test_hook_end(&h);
    }
    assert_memory_equal(calls[0], calls[1], sizeof calls[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluations),    cmocka_unit_test(indexes),         cmocka_unit_test(datasets),
        cmocka_unit_test(edits),          cmocka_unit_test(corpora),         cmocka_unit_test(models),
        cmocka_unit_test(preparations),   cmocka_unit_test(trainings),       cmocka_unit_test(choices),
        cmocka_unit_test(words),          cmocka_unit_test(writing_is_told), cmocka_unit_test(changes),
        cmocka_unit_test(suites),         cmocka_unit_test(word_files),      cmocka_unit_test(gradients),
        cmocka_unit_test(scorings),       cmocka_unit_test(draws),           cmocka_unit_test(large_steps),
        cmocka_unit_test(steps),          cmocka_unit_test(stored),          cmocka_unit_test(joints),
        cmocka_unit_test(trainer_steps),  cmocka_unit_test(large_objects),   cmocka_unit_test(many_classes),
        cmocka_unit_test(rows_of_others),
    };
    return cmocka_run_group_tests(tests, start, end);
}
