/*
 * Where rows meet a model: each way in, with each kind of features, of rows that have the same, others in order, fewer,
 * more, or another kind. Rows that are read, transformed or extended for the model are mapped, and each has, to the
 * bit, the scores of the model's own row that it stands for; rows as they are must be the model's, and the refusal
 * names the first difference. So do the samplers, trees, checkpoints and maps that were made from them.
 */
#define XSM_EXPERIMENTAL
#include "schema_kinds.h"

#include <stdio.h>
#include <string.h>

#include <xsoftmax/calibrate.h>
#include <xsoftmax/encoder.h>
#include <xsoftmax/search.h>
#include <xsoftmax/vocabulary.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/sampler.h>
#include <xsoftmax/trainer.h>
#include <xsoftmax/tune.h>

/* -- the ways in of rows that must be the model's as they are ------------------------------------------------------ */

typedef struct meeting {
    const kind *kind;
    const file *file;
    xsm_model *model;
    const xsm_dataset *own, *rows;
} meeting;

typedef xsm_status way_in(const meeting *at, xsm_error *err);

static xsm_status by_evaluate(const meeting *at, xsm_error *err)
{
    xsm_metrics metrics = XSM_METRICS_INIT;
    return xsm_evaluate(NULL, at->model, at->rows, NULL, &metrics, err);
}

static xsm_status by_classes(const meeting *at, xsm_error *err)
{
    xsm_class_metrics metrics = XSM_CLASS_METRICS_INIT;
    return xsm_evaluate_classes(NULL, at->model, at->rows, NULL, &metrics, err);
}

static xsm_status by_ranks(const meeting *at, xsm_error *err)
{
    xsm_ranks ranks = XSM_RANKS_INIT;
    ranks.top = 1;
    return xsm_evaluate_ranks(NULL, at->model, at->rows, NULL, &ranks, err);
}

static xsm_status by_known_rows(const meeting *at, xsm_error *err)
{
    xsm_ranks ranks = XSM_RANKS_INIT;
    xsm_ranks_options options = XSM_RANKS_OPTIONS_INIT;
    options.known = &at->rows;
    options.known_count = 1;
    ranks.top = 1;
    return xsm_evaluate_ranks(NULL, at->model, at->own, &options, &ranks, err);
}

static xsm_status by_predictor(const meeting *at, xsm_error *err)
{
    float scores[ROWS * CLASSES];
    return predict(at->model, at->rows, scores, err);
}

static xsm_status with_index(const meeting *at, bool search, xsm_error *err)
{
    xsm_error made = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_search_metrics metrics = XSM_SEARCH_METRICS_INIT;
    HELD(xsm_index, x) = NULL;
    float scores[ROWS * CLASSES];
    const xsm_batch batch = xsm_batch_range(at->rows, 0, ROWS);
    assert_ok(xsm_index_new(NULL, "exact", &x, &made), made);
    assert_ok(xsm_index_build_model(x, at->model, &made), made);
    options.index = x;
    metrics.top = 1;
    return search ? xsm_evaluate_search(NULL, at->model, at->rows, &options, &metrics, err)
                  : predict_by(at->model, &options, &batch, scores, err);
}

static xsm_status by_index(const meeting *at, xsm_error *err)
{
    return with_index(at, false, err);
}

static xsm_status by_search(const meeting *at, xsm_error *err)
{
    return with_index(at, true, err);
}

/* Rows that are taken may have no best scale. */
static xsm_status by_calibrate(const meeting *at, xsm_error *err)
{
    xsm_model *m = model_of(at->own, 1);
    const xsm_status status = xsm_model_calibrate(NULL, m, at->rows, NULL, NULL, err);
    xsm_model_free(m);
    return status != XSM_OK && strstr(err->message, "no scale is the best") ? XSM_OK : status;
}

static xsm_model *tree_of(const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *tree = NULL;
    assert_ok(xsm_fit_label_tree(NULL, d, NULL, &tree, NULL, &err), err);
    return tree;
}

/* A label tree of the own rows evaluates. */
static xsm_status by_tree(const meeting *at, xsm_error *err)
{
    xsm_metrics metrics = XSM_METRICS_INIT;
    HELD(xsm_model, tree) = tree_of(at->own);
    return xsm_evaluate(NULL, tree, at->rows, NULL, &metrics, err);
}

/* A label tree of the rows finds candidates for the model. */
static xsm_status by_shortlist(const meeting *at, xsm_error *err)
{
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    float scores[ROWS * CLASSES];
    const xsm_batch batch = xsm_batch_range(at->own, 0, ROWS);
    HELD(xsm_model, tree) = tree_of(at->rows);
    options.shortlist = tree;
    return predict_by(at->model, &options, &batch, scores, err);
}

/* What trains: the rows are those of the run, or its test rows. */
enum run { BIND, TEST, FULL_BATCH, TUNE };

static xsm_status train(const meeting *at, enum run run, xsm_error *err)
{
    xsm_error made = XSM_ERROR_INIT;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_trainer, t) = NULL;
    HELD(xsm_tuning, tuning) = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_fit_options fit = XSM_FIT_OPTIONS_INIT;
    HELD(xsm_model, m) = model_of(at->own, 0);
    options.test = fit.test = at->rows;
    fit.iterations = 1;
    assert_ok(xsm_estimator_new(NULL, "softmax", &e, &made), made);
    assert_ok(xsm_optimizer_new(NULL, "sgd", &o, &made), made);
    return run == BIND   ? xsm_estimator_bind(e, m, at->rows, err)
           : run == TEST ? xsm_trainer_new(NULL, m, at->own, e, o, &options, &t, err)
           : run == TUNE ? xsm_tune_eta(NULL, m, at->rows, e, o, NULL, &tuning, err)
                         : xsm_fit_full_batch(NULL, m, at->own, e, &fit, NULL, err);
}

static xsm_status by_bind(const meeting *at, xsm_error *err)
{
    return train(at, BIND, err);
}

static xsm_status by_test_rows(const meeting *at, xsm_error *err)
{
    return train(at, TEST, err);
}

static xsm_status by_tuning(const meeting *at, xsm_error *err)
{
    return train(at, TUNE, err);
}

static xsm_status by_full_batch(const meeting *at, xsm_error *err)
{
    return test_has_lbfgs() ? train(at, FULL_BATCH, err) : by_test_rows(at, err);
}

/* A sampler that was bound to the rows draws for the model; in between it was a file. */
static xsm_status with_sampler(const meeting *at, const char *name, xsm_error *err)
{
    xsm_error made = XSM_ERROR_INIT;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_sampler, s) = NULL;
    HELD(xsm_sampler, loaded) = NULL;
    const char *path = test_path("sampler");
    assert_ok(xsm_sampler_new(NULL, name, &s, &made), made);
    assert_ok(xsm_sampler_bind(s, at->rows, &made), made);
    assert_ok(xsm_sampler_save(s, path, NULL, &made), made);
    assert_ok(xsm_sampler_load(NULL, path, NULL, NULL, &loaded, &made), made);
    assert_ok(xsm_estimator_new(NULL, "sampled-softmax", &e, &made), made);
    assert_ok(xsm_estimator_set_sampler(e, loaded, &made), made);
    return xsm_estimator_bind(e, at->model, at->own, err);
}

static xsm_status by_sampler(const meeting *at, xsm_error *err)
{
    return with_sampler(at, "tree", err);
}

static xsm_status by_tree_sampler(const meeting *at, xsm_error *err)
{
    return with_sampler(at, "label-tree", err);
}

static const struct {
    const char *name;
    way_in *way;
    bool sparse; /* dense rows have no label trees */
} ways[] = {
    {"evaluate", by_evaluate, false},
    {"classes", by_classes, false},
    {"ranks", by_ranks, false},
    {"known rows", by_known_rows, false},
    {"predictor", by_predictor, false},
    {"index", by_index, false},
    {"search", by_search, false},
    {"calibrate", by_calibrate, false},
    {"label tree", by_tree, true},
    {"shortlist", by_shortlist, true},
    {"bind", by_bind, false},
    {"test rows", by_test_rows, false},
    {"tuning", by_tuning, false},
    {"full batch", by_full_batch, false},
    {"sampler tree", by_sampler, false},
    {"sampler label-tree", by_tree_sampler, true},
};

/* -- what else is made of rows ------------------------------------------------------------------------------------- */

static xsm_trainer *trainer_of(xsm_model *m, const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 1;
    NEW(xsm_estimator, e, xsm_estimator_new(NULL, "softmax", &e, &err));
    NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    NEW(xsm_trainer, t, xsm_trainer_new(NULL, m, d, e, o, &options, &t, &err));
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    return t;
}

/* A run on these rows resumes from a checkpoint of a run on the model's own. */
static xsm_status resume(const meeting *at, xsm_error *err)
{
    xsm_error made = XSM_ERROR_INIT;
    const char *path = test_path("checkpoint");
    HELD(xsm_model, first) = model_of(at->own, 0);
    HELD(xsm_model, second) = model_of(at->rows, 0);
    xsm_trainer *t = trainer_of(first, at->own);
    assert_ok(xsm_trainer_run(t, &made), made);
    assert_ok(xsm_trainer_checkpoint(t, path, NULL, &made), made);
    xsm_trainer_free(t);
    t = trainer_of(second, at->rows);
    const xsm_status status = xsm_trainer_resume(t, path, NULL, err);
    xsm_trainer_free(t);
    return status;
}

/* The model grows by the features of the rows. */
static xsm_status grow(const meeting *at, xsm_error *err)
{
    const xsm_class_map own = test_map_of(at->own);
    xsm_class_map map = test_map_of(at->rows);
    map.classes = own.classes;
    map.labels = own.labels;
    map.names = own.names;
    map.counts = NULL;
    map.rows = 0;
    HELD(xsm_model, m) = model_of(at->own, 1);
    const xsm_status status =
        xsm_model_grow(m, map.features > at->own->features ? map.features : at->own->features, &map, err);
    return status;
}

/* -- the walk ------------------------------------------------------------------------------------------------------ */

/* The message has all parts, which '|' separates. */
static void check(const meeting *at, const char *way, xsm_status status, const xsm_error *err, const char *says)
{
    if ((status == XSM_OK) != !says) {
        fail_msg("%s, %s, '%s': '%s' instead of '%s'", at->kind->name, way, at->file->text, err->message,
                 says ? says : "");
    }
    for (size_t length; says && *says; says += length + (says[length] == '|')) {
        char part[40];
        length = strcspn(says, "|");
        snprintf(part, sizeof part, "%.*s", (int)length, says);
        if (!strstr(err->message, part)) {
            fail_msg("%s, %s, '%s': '%s' lacks '%s'", at->kind->name, way, at->file->text, err->message, part);
        }
    }
}

/* The rows have the scores of those that they are like. */
static void check_scores(const meeting *at, const char *way, const xsm_model *m, const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    float own[ROWS * CLASSES], scores[ROWS * CLASSES];
    static const float none[CLASSES];
    assert_ok(predict(at->model, at->own, own, &err), err);
    check(at, way, predict(m, d, scores, &err), &err, NULL);
    for (size_t i = 0; i < ROWS; i++) {
        const int like = at->file->like[i];
        const float *right = like == NOTHING ? none : own + (size_t)like * CLASSES;
        if (memcmp(scores + i * CLASSES, right, sizeof none) != 0) {
            fail_msg("%s, %s, '%s': row %zu has %g instead of %g", at->kind->name, way, at->file->text, i,
                     (double)scores[i * CLASSES], (double)*right);
        }
    }
}

/* Rows that are read against the model's map: from the file itself, and from a cache that knows nothing of it. */
static void read_mapped(const meeting *at)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsm_class_map map = test_map_of_model(at->model);
    xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
    const char *path = test_path("cache");
    write.format = XSM_FORMAT_CACHE;
    assert_ok(xsm_dataset_write(at->rows, path, &write, &err), err);
    for (int cached = 0; cached < 2; cached++) {
        HELD(xsm_dataset, d) = NULL;
        if (!cached && (at->kind->unknown || (map.vocabulary && at->file->refused))) {
            continue; /* which is read as the text that it is, too */
        }
        const xsm_status status = read_as(at->file->text, 0, &map, cached ? path : NULL, &d, &err);
        check(at, cached ? "cache" : "text", status, &err,
              !cached && at->file->read ? at->file->read : at->file->refused);
        if (status == XSM_OK) {
            check_scores(at, cached ? "cache" : "text", at->model, d);
        }
    }
}

static void transform(const meeting *at)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_dataset, d) = rows_of(at->file->text, at->file->ngrams);
    float scores[ROWS * CLASSES];
    const xsm_status status = xsm_model_transform(at->model, d, &err);
    check(at, "transform", status, &err, at->file->refused);
    if (status == XSM_OK && at->file->no_list) {
        check(at, "transform", predict(at->model, d, scores, &err), &err, at->file->says);
    } else if (status == XSM_OK) {
        check_scores(at, "transform", at->model, d);
    }
}

/* Rows are extended by the model's map, and the model grows by theirs. */
static void extend(const meeting *at)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_dataset, d) = rows_of(at->file->text, at->file->ngrams);
    xsm_class_map map = test_map_of_model(at->model);
    xsm_status status = xsm_dataset_extend(d, &map, &err);
    check(at, "extend", status, &err, at->file->refused);
    if (status == XSM_OK) {
        HELD(xsm_model, m) = model_of(at->own, 1);
        map = test_map_of(d);
        check(at, "grow after extend", xsm_model_grow(m, map.features, &map, &err), &err, NULL);
        check_scores(at, "extend", m, d);
    }
}

/* Lines are read one at a time. */
static void encode(const meeting *at)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_encoder, e) = NULL;
    xsm_encoder_options options = XSM_ENCODER_OPTIONS_INIT;
    const char *text = at->file->text;
    float own[ROWS * CLASSES], scores[CLASSES];
    static const float none[CLASSES];
    options.index_base =
        test_map_of_model(at->model).index_base == XSM_INDEX_BASE_ONE ? XSM_INDEX_BASE_ZERO : XSM_INDEX_BASE_ONE;
    check(at, "encoder", xsm_encoder_new(at->model, &options, &e, &err), &err, "index_base");
    assert_ok(xsm_encoder_new(at->model, NULL, &e, &err), err);
    assert_ok(predict(at->model, at->own, own, &err), err);
    for (size_t i = 0; i < ROWS; i++) {
        xsm_batch batch = XSM_BATCH_INIT;
        const size_t label = strcspn(text, " "), length = strcspn(text, "\n");
        assert_ok(xsm_encoder_encode(e, text + label + 1, length - label - 1, &batch, &err), err);
        assert_ok(predict_by(at->model, NULL, &batch, scores, &err), err);
        const int like = at->file->like[i];
        assert_memory_equal(scores, like == NOTHING ? none : own + (size_t)like * CLASSES, sizeof scores);
        text += length + 1;
    }
}

static void meet(const meeting *at)
{
    xsm_error err = XSM_ERROR_INIT;
    const file *f = at->file;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!ways[i].sparse || (at->rows->sparse && at->own->sparse)) {
            check(at, ways[i].name, ways[i].way(at, &err), &err, f->says);
        }
    }
    check(at, "resume", resume(at, &err), &err,
          f->says                                      ? f->says
          : f == at->kind->files && !at->kind->unknown ? NULL
                                                       : "the training rows");
    check(at, "grow", grow(at, &err), &err, f->grows ? NULL : f->says);
    read_mapped(at);
    transform(at);
    extend(at);
    if (!f->refused && at->own->sparse && !at->kind->unknown) {
        encode(at);
    }
}

TEST(walk)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const kind *k = &kinds[i];
        HELD(xsm_dataset, own) = own_rows(k);
        HELD(xsm_dataset, bare) = own_rows(k);
        HELD(xsm_model, m) = model_of(own, 1);
        for (const file *f = k->before ? k->files + 1 : k->files; f->text; f++) {
            HELD(xsm_dataset, d) = rows_of(f->text, f->ngrams);
            meet(&(meeting){k, f, m, own, d});
        }
        forget_features(bare); /* they pass by their counts */
        const meeting at = {k, k->files, m, own, bare};
        for (size_t j = 0; j < sizeof ways / sizeof *ways; j++) {
            if (!ways[j].sparse || own->sparse) {
                check(&at, ways[j].name, ways[j].way(&at, &err), &err, NULL);
            }
        }
    }
}

/* An index is of weights, whatever features are called: one of other weights is refused, though as many. */
TEST(indexes_are_of_weights)
{
    const char *path = test_path("index");
    HELD(xsm_dataset, d) = rows_of(kinds[0].files[0].text, 0);
    HELD(xsm_dataset, swapped) = rows_of(kinds[0].files[1].text, 0);
    HELD(xsm_model, m) = model_of(d, 1);
    HELD(xsm_model, alike) = model_of(swapped, 1);
    HELD(xsm_model, other) = model_of(d, 2);
    HELD(xsm_index, loaded) = NULL;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    const xsm_batch batch = xsm_batch_range(swapped, 0, ROWS);
    float right[ROWS * CLASSES], scores[ROWS * CLASSES];
    MADE(xsm_index, x, xsm_index_new(NULL, "spherical", &x, &err));
    assert_ok(xsm_index_build_model(x, m, &err), err);
    assert_ok(xsm_index_save(x, path, NULL, &err), err);
    assert_fails(xsm_index_load(NULL, path, NULL, NULL, other, &loaded, &err), XSM_ERROR_STATE, err);
    assert_ok(xsm_index_load(NULL, path, NULL, NULL, alike, &loaded, &err), err);
    options.index = x;
    assert_fails(predict_by(alike, &options, &batch, scores, &err), XSM_ERROR_STATE, err);
    options.index = loaded;
    assert_ok(predict_by(alike, &options, &batch, scores, &err), err);
    assert_ok(predict(alike, swapped, right, &err), err);
    assert_memory_equal(scores, right, sizeof right);
}

/* Rows have what they had where memory runs out, whether their features or their classes are to be moved. */
static xsm_status try_extend(void *state, xsm_context *ctx, xsm_error *err)
{
    const xsm_dataset *other = state;
    const xsm_class_map map = test_map_of(other);
    const char *text = "__label__c tea new\n__label__b tea\n__label__c red\n";
    test_bytes bytes = {text, strlen(text), 0, SIZE_MAX, 0};
    HELD(xsm_dataset, d) = NULL;
    xsm_status status = xsm_dataset_read(ctx, NULL, TEST_BYTES(&bytes, "rows"), NULL, &d, err);
    if (status == XSM_OK) {
        status = xsm_dataset_extend(d, &map, err);
        const bool done = status == XSM_OK;
        assert_string_equal(xsm_vocabulary_word(test_map_of(d).vocabulary, 0), done ? "red" : "tea");
        assert_string_equal(test_map_of(d).names[0], done ? "a" : "b");
        assert_int_equal(d->index[d->offsets[1]], done ? 1 : 0);
        assert_int_equal(d->labels[0], done ? 2 : 1);
        assert_int_equal(d->features, 3);
    }
    return status;
}

TEST(extend_is_all_or_nothing)
{
    HELD(xsm_dataset, other) = rows_of(kinds[0].files[0].text, 0);
    assert_true(test_every_allocation(try_extend, other) > 10);
}

/* Caches and models keep long numbers, however many numbers of other sizes they have. */
TEST(lists_are_saved)
{
    HELD(xsm_dataset, d) = rows_of("0 7:1 55:2 900000001:3\n1 7:3 55:1 900000001:1\n2 900000001:1\n", 0);
    HELD(xsm_model, m) = model_of(d, 1);
    xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
    float right[ROWS * CLASSES], scores[ROWS * CLASSES];
    write.format = XSM_FORMAT_CACHE;
    assert_int_equal(d->features * d->classes, 9);
    assert_int_equal(d->offsets[d->rows], 7);
    assert_ok(xsm_dataset_write(d, test_path("cache"), &write, &err), err);
    assert_ok(xsm_model_save(m, test_path("model"), NULL, &err), err);
    MADE(xsm_model, loaded, xsm_model_load(NULL, test_path("model"), NULL, NULL, &loaded, &err));
    const xsm_class_map map = test_map_of_model(loaded);
    assert_int_equal(map.feature_numbers[2], 900000001);
    MADE(xsm_dataset, back, read_as("", 0, &map, test_path("cache"), &back, &err));
    assert_ok(predict(m, d, right, &err), err);
    assert_ok(predict(loaded, back, scores, &err), err);
    assert_memory_equal(scores, right, sizeof right);
}

/* Columns that the model does not have are counted. */
TEST(columns_left_out_are_counted)
{
    const file *files = kinds[2].files;
    HELD(xsm_dataset, own) = rows_of(files[0].text, 0);
    HELD(xsm_model, m) = model_of(own, 1);
    const xsm_class_map map = test_map_of_model(m);
    assert_string_equal(map.feature_names[1], "y");
    MADE(xsm_dataset, d, read_as(files[3].text, 0, &map, NULL, &d, &err));
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(d, &info, &err), err);
    assert_int_equal(info.unknown_features, 1);
}
