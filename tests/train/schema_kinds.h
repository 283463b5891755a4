/*
 * Kinds of features, and rows that have a model's, the same in order, fewer, more, or of another kind.
 */
#ifndef XSM_TEST_SCHEMA_KINDS_H
#define XSM_TEST_SCHEMA_KINDS_H

#include "support.h"
#include "data/dataset.h"
#include "data/schema.h"
#include "model/model.h"

#include <string.h>

#include <xsoftmax/predict.h>

enum { ROWS = 3, CLASSES = 2, NOTHING = -1 };

/* Three rows. `like`: the row of the model's own that each is once it is mapped, NOTHING without a feature of the
 * model. `says`: parts of each refusal of rows as they are, NULL if they are the model's. `refused`: of one that cannot
 * be mapped, either, `read`: where the file itself is refused in other words. */
typedef struct file {
    const char *text;
    int like[ROWS];
    const char *says, *refused, *read;
    bool grows;   /* its map has the model's features, and more behind them */
    bool no_list; /* numbers of which one side has more: a transform does not map them */
    uint32_t ngrams;
} file;

/* The model's own rows are first; with `before`, they were read against the map of these. */
typedef struct kind {
    const char *name, *before;
    uint32_t ngrams;
    bool unknown; /* the model does not know what its features are */
    file files[10];
} kind;

static const kind kinds[] = {
    {.name = "words",
     .files = {{.text = "__label__a red red tea\n__label__b tea\n__label__a red\n", .like = {0, 1, 2}},
               {.text = "__label__b tea\n__label__b tea\n__label__a red red tea\n",
                .like = {1, 1, 0},
                .says = "feature 0 (from 0)|'tea'"},
               {.text = "__label__a red\n__label__b red\n__label__a red\n",
                .like = {2, 2, 2},
                .says = "feature 1 (from 0)|none|'tea'"},
               {.text = "__label__a red red tea new\n__label__b tea\n__label__a red\n",
                .like = {0, 1, 2},
                .says = "feature 2 (from 0)|none|'new'",
                .grows = true},
               {.text = "a,red,label\n1,2,a\n1,3,b\n2,1,a\n",
                .says = "words|the column 'a'",
                .refused = "columns of a table"},
               {.text = "0 1:2 2:1\n1 2:1\n0 1:1\n", .says = "words|number 1", .refused = "numbers"}}},
    {.name = "n-grams",
     .ngrams = 2,
     .files = {{.text = "__label__a red red tea\n__label__b tea\n__label__a red\n", .like = {0, 1, 2}, .ngrams = 2},
               {.text = "__label__b tea\n__label__b tea\n__label__a red red tea\n",
                .like = {1, 1, 0},
                .says = "feature 0 (from 0)|'tea'",
                .ngrams = 2},
               {.text = "__label__a red\n__label__b red\n__label__a red\n",
                .like = {2, 2, 2},
                .says = "feature 1 (from 0)|bucket 0|'tea'",
                .ngrams = 2},
               {.text = "__label__a red red tea\n__label__b tea\n__label__a new\n",
                .like = {0, 1, NOTHING},
                .says = "feature 2 (from 0)|bucket 0|'new'",
                .ngrams = 2},
               {.text = "__label__a red red tea\n__label__b tea\n__label__a red\n",
                .says = "word_ngrams",
                .refused = "word_ngrams"}}},
    {.name = "columns",
     .files = {{.text = "x,y,label\n1,2,a\n3,-1,b\n0,4,a\n", .like = {0, 1, 2}},
               {.text = "y,label,x\n2,a,1\n-1,b,3\n4,a,0\n", .like = {0, 1, 2}, .says = "feature 0 (from 0)|'y'"},
               {.text = "x,label\n1,a\n3,b\n0,a\n", .says = "column 'y'", .refused = "column 'y'"},
               {.text = "id,y,label,x\n7,2,a,1\n8,-1,b,3\n9,4,a,0\n",
                .like = {0, 1, 2},
                .says = "feature 0 (from 0)|'id'"},
               {.text = "x,y,z,label\n1,2,0,a\n3,-1,0,b\n0,4,0,a\n",
                .like = {0, 1, 2},
                .says = "feature 2 (from 0)|'z'",
                .grows = true},
               {.text = "0 0:1 1:2\n1 0:3 1:-1\n0 1:4\n", .says = "number 0|column 'x'", .refused = "numbers"}}},
    {.name = "from 1",
     .files =
         {{.text = "0 1:1 2:2\n1 1:3\n0 2:4\n", .like = {0, 1, 2}},
          {.text = "0 2:4\n0 2:2 1:1\n1 1:3\n", .like = {2, 0, 1}},
          {.text = "0 1:3\n1 1:3\n0 1:3\n", .like = {1, 1, 1}, .says = "features|1|2", .grows = true, .no_list = true},
          {.text = "0 1:1 2:2 3:5\n1 1:3\n0 2:4\n",
           .like = {0, 1, 2},
           .says = "features|3|2",
           .grows = true,
           .no_list = true},
          {.text = "0 0:1 1:2\n1 0:3 1:-1\n0 1:4\n",
           .says = "numbered|from 0|from 1",
           .refused = "a feature of number 0",
           .read = "start at 1"},
          {.text = "0 1:1 2:2 900000001:5\n1 1:3\n0 2:4\n",
           .like = {0, 1, 2},
           .says = "feature 2 (from 0)|number 900000001",
           .grows = true},
          {.text = "__label__0 red tea\n__label__1 tea\n__label__0 red\n",
           .says = "'red'|number 1",
           .refused = "words",
           .read = "text is read with a vocabulary"}}},
    {.name = "from 0",
     .files =
         {{.text = "0 0:1 1:2\n1 0:3\n0 1:4\n", .like = {0, 1, 2}},
          {.text = "0 1:4\n0 1:2 0:1\n1 0:3\n", .like = {2, 0, 1}},
          {.text = "0 0:3\n1 0:3\n0 0:3\n", .like = {1, 1, 1}, .says = "features|1|2", .grows = true, .no_list = true},
          {.text = "0 0:1 1:2 2:5\n1 0:3\n0 1:4\n",
           .like = {0, 1, 2},
           .says = "features|3|2",
           .grows = true,
           .no_list = true},
          {.text = "0 1:4\n1 1:4\n0 1:4\n", .like = {2, 2, 2}, .says = "numbered|from 1|from 0"},
          {.text = "0 1:4\n1 1:4 3:7\n0 1:4\n", .like = {2, 2, 2}, .says = "numbered|from 1|from 0"},
          {.text = "0 1:4\n1 1:4 2:7\n0 1:4\n",
           .says = "numbered|from 1|from 0",
           .refused = "from 0 to 1",
           .read = "set xsm_read_options.index_base to 1"},
          {.text = "x,y,label\n1,2,0\n3,-1,1\n0,4,0\n", .says = "'x'|number 0", .refused = "columns"}}},
    {.name = "hashed",
     .files = {{.text = "0 7:1 900000001:2\n1 7:3\n0 900000001:4\n", .like = {0, 1, 2}},
               {.text = "0 900000001:4\n0 900000001:2 7:1\n1 7:3\n", .like = {2, 0, 1}},
               {.text = "0 900000001:4\n1 900000001:4\n0 900000001:4\n",
                .like = {2, 2, 2},
                .says = "feature 0 (from 0)|number 7|number 900000001"},
               {.text = "0 7:1 55:6 900000001:2\n1 7:3\n0 900000001:4\n",
                .like = {0, 1, 2},
                .says = "feature 1 (from 0)|number 55|number 900000001"},
               {.text = "0 7:1 900000001:2\n1 7:3\n0 900000001:4 900000002:1\n",
                .like = {0, 1, 2},
                .says = "feature 2 (from 0)|none|number 900000002",
                .grows = true},
               {.text = "0 7:3\n1 7:3 1:5\n0 2:9\n",
                .like = {1, 1, NOTHING},
                .says = "feature 0 (from 0)|number 1|number 7"}}},
    {.name = "hashed and grown",
     .before = "0 900000001:4\n1 900000001:4\n",
     .files = {{.text = "0 7:1 900000001:2\n1 7:3\n0 900000001:4\n", .like = {0, 1, 2}},
               {.text = "0 900000001:4\n0 900000001:2 7:1\n1 7:3\n",
                .like = {2, 0, 1},
                .says = "feature 0 (from 0)|number 7|number 900000001"},
               {.text = "0 900000001:4\n1 900000001:4\n0 900000001:4\n",
                .like = {2, 2, 2},
                .says = "feature 1 (from 0)|none|number 7"},
               {.text = "0 7:1 900000001:2\n1 7:3\n0 900000001:4 900000002:1\n",
                .like = {0, 1, 2},
                .says = "feature 0 (from 0)|number 7|number 900000001"}}},
    {.name = "none",
     .unknown = true,
     .files =
         {{.text = "0 1:2 2:1\n1 2:1\n0 1:1\n", .like = {0, 1, 2}},
          {.text = "0 0:2 1:1\n1 1:1\n0 0:1\n", .like = {0, 1, 2}},
          {.text = "__label__0 red red tea\n__label__1 tea\n__label__0 red\n", .like = {0, 1, 2}},
          {.text = "0 1:1\n1 1:1\n0 1:1\n", .like = {2, 2, 2}, .says = "features|1|2", .grows = true, .no_list = true},
          {.text = "0 1:2 2:1 3:1\n1 2:1\n0 1:1\n",
           .like = {0, 1, 2},
           .says = "features|3|2",
           .grows = true,
           .no_list = true}}},
};

/* -- rows and models ----------------------------------------------------------------------------------------------- */

static xsm_status read_as(const char *text, uint32_t ngrams, const xsm_class_map *map, const char *cache,
                          xsm_dataset **out, xsm_error *err)
{
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_text_options how = XSM_TEXT_OPTIONS_INIT;
    how.word_ngrams = ngrams;
    how.buckets = 5;
    options.classes = map;
    options.text = ngrams > 1 ? &how : NULL;
    test_bytes bytes = {text, strlen(text), 0, SIZE_MAX, 0};
    return cache ? xsm_dataset_read(NULL, cache, NULL, &options, out, err)
                 : xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "rows"), &options, out, err);
}

static xsm_dataset *rows_of(const char *text, uint32_t ngrams)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *d = NULL;
    assert_ok(read_as(text, ngrams, NULL, NULL, &d, &err), err);
    return d;
}

/* As a host's arrays, of whose features nothing is known. */
static void forget_features(xsm_dataset *d)
{
    xsmi_schema_release(d->schema);
    d->schema = NULL;
}

/* The model's own rows. */
static xsm_dataset *own_rows(const kind *k)
{
    if (!k->before) {
        xsm_dataset *own = rows_of(k->files[0].text, k->ngrams);
        if (k->unknown) {
            forget_features(own);
        }
        return own;
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_dataset *before = rows_of(k->before, 0), *d = NULL;
    const xsm_class_map map = test_map_of(before);
    options.classes = &map;
    options.new_features = 1;
    test_bytes bytes = {k->files[0].text, strlen(k->files[0].text), 0, SIZE_MAX, 0};
    assert_ok(xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "rows"), &options, &d, &err), err);
    xsm_dataset_free(before);
    return d;
}

/* A model of these rows with weights that tell features apart; with a factor of 0, of zeros. */
static xsm_model *model_of(const xsm_dataset *d, float factor)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = NULL;
    xsm_class_map map = test_map_of(d);
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_new_linear(NULL, map.features, map.classes, NULL, &m, &err), err);
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    for (size_t k = 0; k < map.classes; k++) {
        for (size_t j = 0; j < map.features; j++) {
            p.weight[k * p.class_step + j * p.feature_step] = factor * (float)(k + 1) / (float)(j + 2);
        }
    }
    return m;
}

static xsm_status predict_by(const xsm_model *m, const xsm_predictor_options *how, const xsm_batch *batch,
                             float *scores, xsm_error *err)
{
    xsm_predictor_options options = how ? *how : (xsm_predictor_options)XSM_PREDICTOR_OPTIONS_INIT;
    xsm_prediction out = XSM_PREDICTION_INIT;
    xsm_predictor *p = NULL;
    uint32_t classes[ROWS * CLASSES];
    options.top = CLASSES;
    xsm_status status = xsm_predictor_new(m, &options, &p, err);
    if (status == XSM_OK) {
        out.batch = batch;
        out.classes = classes;
        out.scores = scores;
        status = xsm_predictor_run(p, &out, err);
    }
    xsm_predictor_free(p);
    return status;
}

static xsm_status predict(const xsm_model *m, const xsm_dataset *d, float scores[ROWS * CLASSES], xsm_error *err)
{
    const xsm_batch batch = xsm_batch_range(d, 0, ROWS);
    return predict_by(m, NULL, &batch, scores, err);
}

#endif
