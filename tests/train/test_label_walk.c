/*
 * Where labels meet a model: each way in, with labels that are numbers, numbers with names, words, or words of which
 * some look like numbers. A row's only feature says its label, and a class's only weight is that feature's, so that a
 * row is right exactly if its label and its class are called the same.
 */
#include "support.h"
#include "data/dataset.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

enum { SPELLINGS = 12, MOST = 5 };

/* A label's feature is its place here. */
static const char *const spellings[SPELLINGS] = {"1",   "2",   "3",   "4",     "01", "-1",
                                                 "ant", "bee", "cat", "other", "x",  " 1"};

typedef struct side {
    const char *labels[MOST]; /* as they are called, in the order of the classes */
    const char *names;        /* lines: of numbers that have names, which say nothing */
    bool backwards;           /* a model's words in the other order */
} side;

static const side sides[] = {
    {.labels = {"1", "2", "3"}},
    {.labels = {"1", "2", "3", "4"}},
    {.labels = {"1", "3"}},
    {.labels = {"2", "3", "4"}},
    {.labels = {"-1", "1"}},
    {.labels = {"1", "2", "3"}, .names = "-\nant\n1\nant\n"},
    {.labels = {"1", "2", "3"}, .names = "-\n3\n1\n2\n"},
    {.labels = {"ant", "bee", "cat"}},
    {.labels = {"ant", "bee", "cat"}, .backwards = true},
    {.labels = {"ant", "bee", "cat", "x"}},
    {.labels = {"ant", "cat"}},
    {.labels = {"bee", "cat", "x"}},
    {.labels = {"1", "2", "other"}},
    {.labels = {"1", "2", "other"}, .backwards = true},
    {.labels = {"1", "2", "3", "x"}},
    {.labels = {"01", "1", "2"}},
    {.labels = {"other", "x"}},
};
enum { SIDES = sizeof sides / sizeof *sides };

static uint32_t count_of(const side *s)
{
    uint32_t count = 0;
    while (count < MOST && s->labels[count]) {
        count++;
    }
    return count;
}

static uint32_t feature_of(const char *label)
{
    uint32_t j = 0;
    while (strcmp(spellings[j], label) != 0) {
        j++;
    }
    return j;
}

static bool is_words(const side *s)
{
    for (uint32_t k = 0; k < count_of(s); k++) {
        if (strspn(s->labels[k], "-123456789") < strlen(s->labels[k])) {
            return true;
        }
    }
    return false;
}

/* Of a model: what class k is called. */
static const char *called(const side *s, uint32_t k)
{
    return s->labels[s->backwards ? count_of(s) - 1 - k : k];
}

static bool has(const side *s, const char *label)
{
    for (uint32_t k = 0; k < count_of(s); k++) {
        if (strcmp(s->labels[k], label) == 0) {
            return true;
        }
    }
    return false;
}

static xsm_dataset *rows_of(const side *s, const xsm_class_map *map)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *d = NULL;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "label");
    for (uint32_t j = 0; j < SPELLINGS; j++) {
        used += (size_t)snprintf(text + used, sizeof text - used, ",f%u", j);
    }
    for (uint32_t k = 0; k < count_of(s); k++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "\n%s", s->labels[k]);
        for (uint32_t j = 0; j < SPELLINGS; j++) {
            used += (size_t)snprintf(text + used, sizeof text - used, ",%d", j == feature_of(s->labels[k]));
        }
    }
    options.classes = map;
    assert_ok(xsm_dataset_read(NULL, test_file("rows.csv", text, used), NULL, &options, &d, &err), err);
    if (s->names && !map) {
        assert_ok(xsm_dataset_read_names(d, test_file("names", s->names, strlen(s->names)), &err), err);
    }
    return d;
}

static xsm_model *model_of(const side *s)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    const char *names[MOST];
    options.bias = 1;
    HELD(xsm_dataset, d) = rows_of(s, NULL);
    assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
    assert_int_equal(map.labels == NULL, is_words(s));
    for (uint32_t k = 0; s->backwards && k < map.classes; k++) {
        names[k] = called(s, k);
        map.names = names;
    }
    map.counts = NULL;
    map.rows = 0;
    NEW(xsm_model, m, xsm_model_new_linear(NULL, map.features, map.classes, &options, &m, &err));
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    for (uint32_t k = 0; k < map.classes; k++) {
        p.weight[k * p.class_step + feature_of(called(s, k)) * p.feature_step] = 1;
        p.bias[k] = 0.5F; /* above those of new classes */
    }
    return m;
}

/* Saved and loaded. */
static xsm_model *loaded(xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_model_save(m, test_path("model"), NULL, &err), err);
    NEW(xsm_model, again, xsm_model_load(NULL, test_path("model"), NULL, NULL, &again, &err));
    xsm_model_free(m);
    return again;
}

/* The rows are wrong whose labels the model has not, and no others. */
static void check_rows(const side *model, const side *rows, const xsm_model *m, const xsm_dataset *d, const char *how)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    uint32_t wrong = 0;
    for (uint32_t k = 0; k < count_of(rows); k++) {
        wrong += !has(model, rows->labels[k]);
    }
    assert_ok(xsm_evaluate(NULL, m, d, NULL, &metrics, &err), err);
    if ((uint32_t)(metrics.error * count_of(rows) + 0.5) != wrong) {
        fail_msg("%s, model %zu, rows %zu: error %g, not %u of %u", how, (size_t)(model - sides),
                 (size_t)(rows - sides), metrics.error, wrong, count_of(rows));
    }
}

static void read_for_the_model(const side *model, const side *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = loaded(model_of(model));
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    assert_ok(xsm_model_get_class_map(m, &map, &err), err);
    HELD(xsm_dataset, d) = rows_of(rows, &map);
    HELD(xsm_dataset, own) = rows_of(rows, NULL);
    check_rows(model, rows, m, d, "a file");
    write.format = XSM_FORMAT_CACHE;
    assert_ok(xsm_dataset_write(own, test_path("cache"), &write, &err), err);
    read.classes = &map;
    MADE(xsm_dataset, cached, xsm_dataset_read(NULL, test_path("cache"), NULL, &read, &cached, &err));
    check_rows(model, rows, m, cached, "a cache");
}

/* What the model knew it knows again; new labels are classes of their own. */
static void grow(const side *model, const side *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = model_of(model);
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    HELD(xsm_dataset, d) = rows_of(rows, NULL);
    uint32_t both = count_of(model);
    for (uint32_t k = 0; k < count_of(rows); k++) {
        both += !has(model, rows->labels[k]);
    }
    assert_ok(xsm_model_get_class_map(m, &map, &err), err);
    const xsm_status status = xsm_dataset_extend(d, &map, &err);
    if ((model->names && is_words(rows)) || (rows->names && is_words(model))) {
        assert_int_equal(status, XSM_ERROR_DATA); /* the names would be lost */
        assert_non_null(strstr(err.message, "numbers with names"));
    } else {
        assert_ok(status, err);
        assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
        assert_int_equal(map.classes, both);
        assert_int_equal(map.labels == NULL, is_words(model) || is_words(rows));
        assert_ok(xsm_model_grow(m, map.features, &map, &err), err);
        check_rows(model, rows, m, d, "growth");
        assert_ok(xsm_model_get_class_map(m, &map, &err), err);
        HELD(xsm_dataset, old) = rows_of(model, &map);
        check_rows(model, model, m, old, "old rows after growth");
    }
}

enum { WAYS = 7 };

static xsm_status way(int which, xsm_model *m, const xsm_dataset *own, const xsm_dataset *d, xsm_error *err)
{
    xsm_error made = XSM_ERROR_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_class_metrics classes = XSM_CLASS_METRICS_INIT;
    xsm_ranks ranks = XSM_RANKS_INIT;
    xsm_ranks_options known = XSM_RANKS_OPTIONS_INIT;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_trainer, t) = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_status status = XSM_OK;
    assert_ok(xsm_estimator_new(NULL, "softmax", &e, &made), made);
    assert_ok(xsm_optimizer_new(NULL, "sgd", &o, &made), made);
    known.known = &d;
    known.known_count = 1;
    options.test = d;
    switch (which) {
    case 0:
        status = xsm_evaluate(NULL, m, d, NULL, &metrics, err);
        break;
    case 1:
        status = xsm_evaluate_classes(NULL, m, d, NULL, &classes, err);
        break;
    case 2:
        status = xsm_evaluate_ranks(NULL, m, d, NULL, &ranks, err);
        break;
    case 3:
        status = xsm_evaluate_ranks(NULL, m, own, &known, &ranks, err);
        break;
    case 4:
        status = xsm_trainer_new(NULL, m, own, e, o, &options, &t, err);
        break;
    case 5:
        status = xsm_estimator_bind(e, m, d, err);
        break;
    default:
        status = xsm_model_calibrate(NULL, m, d, NULL, NULL, err);
        break;
    }
    return status;
}

/* Rows as they are: refused if a class number is called otherwise. */
static void as_they_are(const side *model, const side *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    HELD(xsm_model, m) = loaded(model_of(model));
    assert_ok(xsm_model_get_class_map(m, &map, &err), err);
    HELD(xsm_dataset, own) = rows_of(model, &map);
    HELD(xsm_dataset, d) = rows_of(rows, NULL);
    uint32_t k = 0;
    while (k < count_of(model) && k < count_of(rows) && strcmp(called(model, k), rows->labels[k]) == 0) {
        k++;
    }
    const bool same = k == count_of(model) || k == count_of(rows);
    for (int which = 0; which < WAYS; which++) {
        const bool binds = which == 5, shape = binds && count_of(model) != count_of(rows);
        if (which == WAYS - 1 && same) {
            continue; /* rows that are all right cannot calibrate */
        }
        const xsm_status status = way(which, m, own, d, &err), right = shape  ? XSM_ERROR_SHAPE
                                                                       : same ? XSM_OK
                                                                              : XSM_ERROR_DATA;
        char says[32];
        snprintf(says, sizeof says, "class %u is ", k);
        if (status != right || (right == XSM_ERROR_DATA && !strstr(err.message, says))) {
            fail_msg("way %d, model %zu, rows %zu: %s", which, (size_t)(model - sides), (size_t)(rows - sides),
                     err.message);
        }
    }
    if (same) {
        check_rows(model, rows, m, d, "as they are");
    }
}

TEST(walk)
{
    for (size_t i = 0; i < SIDES; i++) {
        for (size_t j = 0; j < SIDES; j++) {
            if (!sides[j].backwards) { /* files sort their words */
                read_for_the_model(&sides[i], &sides[j]);
                grow(&sides[i], &sides[j]);
                as_they_are(&sides[i], &sides[j]);
            }
        }
    }
}

/* Rows of a host and models without a class map say nothing of their classes. */
TEST(nothing_known)
{
    static const float values[] = {1, 0, 0, 1};
    static const uint32_t labels[] = {0, 1};
    xsm_dense_rows dense = XSM_DENSE_ROWS_INIT;
    xsm_labels of = XSM_LABELS_INIT;
    of.classes = 2;
    of.labels = labels;
    dense.rows = dense.features = 2;
    dense.values = values;
    dense.labels = &of;
    MADE(xsm_dataset, host, xsm_dataset_from_dense(NULL, &dense, &host, &err));
    static const char text[] = "label,a,b\nx,1,0\ny,0,1\n";
    MADE(xsm_dataset, read,
         xsm_dataset_read(NULL, test_file("two.csv", text, sizeof text - 1), NULL, NULL, &read, &err));
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    MADE(xsm_model, m, xsm_model_new_linear(NULL, 2, 2, NULL, &m, &err));
    m = loaded(m);
    for (int with_map = 0; with_map < 2; with_map++) {
        for (int which = 0; which < WAYS - 1; which++) {
            assert_ok(way(which, m, host, host, &err), err);
            assert_int_equal(way(which, m, host, read, &err), XSM_OK);
        }
        assert_ok(xsm_dataset_get_class_map(host, &map, &err), err);
        assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    }
    assert_ok(xsm_dataset_get_class_map(read, &map, &err), err);
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    assert_int_equal(way(0, m, host, host, &err), XSM_OK);
}

TEST(equal_words)
{
    static const char *const from[] = {"x", "y", "x", "x", "z"}, *const to[] = {"x", "w", "x", "y", "7"};
    static const int64_t numbers[] = {6, 7, 8};
    static const uint32_t right[] = {0, 3, 2, XSM_CLASS_UNSEEN, XSM_CLASS_UNSEEN};
    xsm_class_map a = XSM_CLASS_MAP_INIT, b = XSM_CLASS_MAP_INIT;
    uint32_t match[5];
    MADE(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    a.classes = b.classes = 5;
    a.names = from;
    b.names = to;
    assert_int_equal(xsmi_class_match(ctx, &a, &b, match, &err), XSM_OK);
    assert_memory_equal(match, right, sizeof right);
    a.classes = 3;
    a.labels = numbers;
    assert_int_equal(xsmi_class_match(ctx, &a, &b, match, &err), XSM_OK);
    assert_true(match[0] == XSM_CLASS_UNSEEN && match[1] == 4 && match[2] == XSM_CLASS_UNSEEN);
}

/* A run is resumed by rows whose classes are called the same. */
TEST(fingerprints)
{
    for (size_t i = 0; i < SIDES; i++) {
        for (size_t j = 0; j < SIDES; j++) {
            if (!sides[i].backwards && !sides[j].backwards) {
                HELD(xsm_dataset, a) = rows_of(&sides[i], NULL);
                HELD(xsm_dataset, b) = rows_of(&sides[j], NULL);
                assert_int_equal(xsmi_dataset_fingerprint(a) == xsmi_dataset_fingerprint(b), i == j);
            }
        }
    }
}
