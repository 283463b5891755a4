/*
 * Where rows meet a model: each way in, with each kind of features, of rows that have the same, others in order, fewer,
 * more, or another kind. Rows that are read or transformed for the model are mapped, and have its answers to the bit;
 * rows as they are must be the model's, and the refusal names the first difference.
 */
#include "support.h"
#include "data/dataset.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include <xsoftmax/fit.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

/* Three rows; the model's own are first. `says`: of the refusal of rows as they are, NULL if they are the model's; a
 * file that cannot be mapped, either, has `refused`. */
typedef struct file {
    const char *text, *says, *refused;
} file;

typedef struct kind {
    const char *name;
    uint32_t ngrams;
    file files[6];
} kind;

static const kind kinds[] = {
    {"words",
     1,
     {{"__label__a red red tea\n__label__b tea\n__label__a red\n", NULL, NULL},
      {"__label__b tea\n__label__a red red tea\n__label__a red tea tea\n", "feature 0 (from 0) is the word 'tea'",
       NULL},
      {"__label__a red red tea new\n__label__b tea\n__label__a red\n", "", NULL},
      {"__label__a red\n__label__a red\n__label__a red red\n", "", NULL},
      {"a,red,label\n1,2,x\n", "", "columns of a table"}}},
    {"n-grams",
     2,
     {{"__label__a red red tea\n__label__b tea\n__label__a red\n", NULL, NULL},
      {"__label__b tea\n__label__a tea red tea\n__label__a red\n", "feature 0 (from 0) is the word 'tea'", NULL}}},
    {"columns",
     0,
     {{"x,y,label\n1,2,a\n3,-1,b\n0,4,a\n", NULL, NULL},
      {"y,label,x\n2,a,1\n-1,b,3\n4,a,0\n", "feature 0 (from 0) is the column 'y'", NULL},
      {"id,y,label,x\n7,2,a,1\n8,-1,b,3\n9,4,a,0\n", "feature 0 (from 0) is the column 'id'", NULL},
      {"x,label\n1,a\n3,b\n0,a\n", "the column 'y' of the model is missing", "the column 'y' of "},
      {"0 0:1 1:2\n1 0:3 1:-1\n0 1:4\n", "numbers", "numbers"}}},
    {"from 1",
     0,
     {{"0 1:1 2:2\n1 1:3 2:-1\n0 2:4\n", NULL, NULL},
      {"0 1:1\n1 1:3 2:-1\n0 2:4\n", NULL, NULL},
      {"0 0:1 2:2\n1 1:3 2:-1\n0 2:4\n", "numbered from 0, and those of the model from 1", "a feature of number 0"}}},
    {"from 0",
     0,
     {{"0 0:1 1:2\n1 0:3 1:-1\n0 1:4\n", NULL, NULL},
      {"0 1:2\n1 1:3\n0 1:4\n", "numbered from 1, and those of the model from 0", NULL}}},
};

static xsm_status read_as(const char *text, uint32_t ngrams, const xsm_class_map *map, const char *cache,
                          xsm_dataset **out, xsm_error *err)
{
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_text_options how = XSM_TEXT_OPTIONS_INIT;
    how.word_ngrams = ngrams;
    how.buckets = 5;
    options.classes = map;
    options.text = ngrams > 1 && !map ? &how : NULL;
    test_bytes bytes = {text, strlen(text), 0, SIZE_MAX, 0};
    xsm_source source = test_source(&bytes);
    return cache ? xsm_dataset_read(NULL, cache, &options, out, err)
                 : xsm_dataset_read_source(NULL, &source, "rows", &options, out, err);
}

/* A model of these rows with weights that tell features apart. */
static xsm_model *model_of(const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = NULL;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
    assert_ok(xsm_model_new_linear(NULL, map.features, map.classes, NULL, &m, &err), err);
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    assert_ok(xsm_model_parameters(m, &p, &err), err);
    for (size_t k = 0; k < map.classes; k++) {
        for (size_t j = 0; j < map.features; j++) {
            p.weight[k * p.class_step + j * p.feature_step] = (float)(k + 1) / (float)(j + 2);
        }
    }
    return m;
}

/* Scores of three rows. */
static xsm_status predict(const xsm_model *m, const xsm_dataset *d, float scores[6], xsm_error *err)
{
    xsm_error made = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_prediction out = XSM_PREDICTION_INIT;
    xsm_predictor *p = NULL;
    uint32_t classes[6];
    options.top = 2;
    assert_ok(xsm_predictor_new(m, &options, &p, &made), made);
    const xsm_batch batch = xsm_batch_range(d, 0, 3);
    out.batch = &batch;
    out.classes = classes;
    out.scores = scores;
    const xsm_status status = xsm_predictor_run(p, &out, err);
    xsm_predictor_free(p);
    return status;
}

/* The ways in of rows that must be the model's as they are; those that are not const come later. */
#ifdef TEST_LBFGS
enum { WAYS = 5 };
#else
enum { WAYS = 4 };
#endif

static xsm_status way(int which, xsm_model *m, const xsm_dataset *own, const xsm_dataset *d, xsm_error *err)
{
    float scores[6];
    xsm_metrics metrics = XSM_METRICS_INIT;
    if (which < 2) {
        return which == 0 ? xsm_evaluate(NULL, m, d, NULL, &metrics, err) : predict(m, d, scores, err);
    }
    xsm_status status = XSM_OK;
    xsm_error made = XSM_ERROR_INIT;
    xsm_estimator *e = NULL;
    xsm_optimizer *o = NULL;
    assert_ok(xsm_estimator_new(NULL, "softmax", &e, &made), made);
    assert_ok(xsm_optimizer_new(NULL, "sgd", &o, &made), made);
    if (which == 2) {
        status = xsm_estimator_bind(e, m, d, err);
    } else if (which == 3) {
        xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
        xsm_trainer *t = NULL;
        options.test = d;
        status = xsm_trainer_new(NULL, m, own, e, o, &options, &t, err);
        xsm_trainer_free(t);
    } else {
        xsm_fit_options options = XSM_FIT_OPTIONS_INIT;
        options.test = d;
        status = xsm_fit_full_batch(NULL, m, own, e, &options, NULL, err);
    }
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    return status;
}

/* Rows that may be changed: read from a cache of their own against the model's map, or transformed by the model. */
static void mapped(const kind *k, const file *f, const xsm_model *m, xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
    xsm_dataset *direct = NULL, *cached = NULL;
    const char *path = test_path("cache");
    float right[6], scores[6];
    write.format = XSM_FORMAT_CACHE;
    assert_ok(xsm_model_get_class_map(m, &map, &err), err);
    assert_ok(xsm_dataset_write(d, path, &write, &err), err);
    const xsm_status status = read_as("", k->ngrams, &map, path, &cached, &err);
    if (f->refused) {
        assert_int_equal(status, XSM_ERROR_DATA);
        assert_non_null(strstr(err.message, f->refused));
        assert_fails(xsm_model_transform(m, d, &err), XSM_ERROR_DATA, err);
        assert_non_null(strstr(err.message, f->refused));
        return;
    }
    assert_ok(status, err);
    assert_ok(read_as(f->text, k->ngrams, &map, NULL, &direct, &err), err);
    assert_ok(xsm_model_transform(m, d, &err), err);
    assert_ok(predict(m, direct, right, &err), err);
    assert_ok(predict(m, cached, scores, &err), err);
    assert_memory_equal(scores, right, sizeof right);
    assert_ok(predict(m, d, scores, &err), err);
    assert_memory_equal(scores, right, sizeof right);
    xsm_dataset_free(direct);
    xsm_dataset_free(cached);
}

static void walk(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const kind *k = &kinds[i];
        xsm_error err = XSM_ERROR_INIT;
        xsm_dataset *own = NULL;
        assert_ok(read_as(k->files[0].text, k->ngrams, NULL, NULL, &own, &err), err);
        xsm_model *m = model_of(own);
        for (const file *f = k->files; f->text; f++) {
            xsm_dataset *d = NULL;
            assert_ok(read_as(f->text, k->ngrams, NULL, NULL, &d, &err), err);
            for (int which = 0; which < (f->says ? WAYS : 4); which++) { /* a fit of the very rows would go on */
                const xsm_status status = way(which, m, own, d, &err);
                if ((status == XSM_OK) != !f->says) {
                    fail_msg("%s, way %d, '%s': %s", k->name, which, f->text, err.message);
                }
                if (f->says && !strstr(err.message, f->says)) {
                    fail_msg("%s, way %d: '%s' lacks '%s'", k->name, which, err.message, f->says);
                }
            }
            mapped(k, f, m, d);
            xsm_dataset_free(d);
        }
        xsm_model_free(m);
        xsm_dataset_free(own);
    }
}

/* Columns in another order, and more of them, give the answers that the model's own rows get. */
static void columns_by_name(void **state)
{
    (void)state;
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset *own = NULL;
    const file *files = kinds[2].files;
    float right[6], scores[6];
    assert_ok(read_as(files[0].text, 0, NULL, NULL, &own, &err), err);
    xsm_model *m = model_of(own);
    assert_ok(xsm_model_get_class_map(m, &map, &err), err);
    assert_string_equal(map.feature_names[1], "y");
    assert_ok(predict(m, own, right, &err), err);
    for (size_t i = 1; i < 3; i++) {
        xsm_dataset *d = NULL;
        assert_ok(read_as(files[i].text, 0, &map, NULL, &d, &err), err);
        assert_ok(predict(m, d, scores, &err), err);
        assert_memory_equal(scores, right, sizeof right);
        xsm_dataset_info info = XSM_DATASET_INFO_INIT;
        assert_ok(xsm_dataset_get_info(d, &info, &err), err);
        assert_int_equal(info.unknown_features, i - 1);
        xsm_dataset_free(d);
    }
    xsm_model_free(m);
    xsm_dataset_free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(walk), cmocka_unit_test(columns_by_name)};
    const int failures = cmocka_run_group_tests_name("schema_walk", tests, NULL, NULL);
    test_files_end();
    return failures;
}
