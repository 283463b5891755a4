/*
 * Fuzzing of models of every sort, piece by piece: weights of each type, embeddings, corrections, hierarchies, pairs,
 * sparse weights, label trees, transforms, vocabularies. Inputs are those of contents.h. A model that was accepted is
 * saved, loaded, asked, evaluated, calibrated, converted, pruned, grown, searched and trained: each either works or
 * says why not, and what is saved can be loaded again.
 */
#include "contents.h"
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/schema.h"
#include "model/model.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax/encoder.h>
#include <xsoftmax/experimental.h>
#include <xsoftmax/tensors.h>
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/calibrate.h>
#include <xsoftmax/index.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>

/* -- models that are in order -------------------------------------------------------------------------------------- */

typedef enum change_of {
    AS_TRAINED,
    BFLOAT16,
    INT8,
    PRUNED,
    PRUNED_INT8,
    EUCLIDEAN,
    PAIRS,
    CALIBRATED,
    NAMED, /* with labels, names, counts, metadata and a tensor of the host */
    PRODUCTS,
    TREES,
    TREES_INT8,
    TEXT,
    FASTTEXT, /* text that is read as fastText does, with buckets that are listed */
    TABLE,    /* columns with names */
    HASHED    /* numbers of features that are listed */
} change_of;

enum { BUCKETS = 7 };

static const struct {
    fuzz_run run;
    change_of change;
} sorts[] = {
    {{"softmax", "", "sgd", 1, false, false}, AS_TRAINED},
    {{"softmax", "", "sgd", 1, true, false}, NAMED},
    {{"softmax", "", "sgd", 1, true, false}, CALIBRATED},
    {{"softmax", "", "sgd", 1, false, false}, BFLOAT16},
    {{"softmax", "", "sgd", 1, true, false}, INT8},
    {{"softmax", "", "sgd", 1, true, false}, PRUNED},
    {{"softmax", "", "sgd", 1, true, false}, PRUNED_INT8},
    {{"softmax", "", "sgd", 1, false, false}, EUCLIDEAN},
    {{"softmax", "", "adagrad", 1, true, true}, AS_TRAINED},
    {{"softmax", "", "adagrad", 1, true, true}, INT8},
    {{"softmax", "", "adagrad", 1, true, true}, PAIRS},
    {{"softmax", "", "sgd", 1, true, false}, PRODUCTS},
    {{"negative-sampling", "sampler=frequency", "adagrad", 1, true, false}, AS_TRAINED},
    {{"negative-sampling", "sampler=tree", "adagrad", 1, true, false}, AS_TRAINED},
    {{"hierarchical", "", "sgd", 1, true, false}, AS_TRAINED},
    {{"hierarchical", "tree=balanced", "adagrad", 1, true, true}, AS_TRAINED},
    {{"softmax", "", "sgd", 1, true, false}, TREES},
    {{"softmax", "", "sgd", 1, true, false}, TREES_INT8},
    {{"softmax", "", "sgd", 1, true, false}, TEXT},
    {{"softmax", "", "sgd", 1, true, false}, FASTTEXT},
    {{"softmax", "", "sgd", 1, true, false}, TABLE},
    {{"softmax", "", "sgd", 1, true, false}, HASHED},
};
enum { SORTS = sizeof sorts / sizeof *sorts };

/* Takes `made` in place of the model. */
static void become(fuzz_rig *r, xsm_status status, xsm_model *const *made, const xsm_error *err)
{
    fuzz_require(status == XSM_OK, err->message);
    xsm_model_free(r->model);
    r->model = *made;
}

static void convert(fuzz_rig *r, int32_t dtype)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_convert_options options = XSM_CONVERT_OPTIONS_INIT;
    xsm_model *made = NULL;
    options.dtype = dtype;
    become(r, xsm_model_convert(r->model, &options, &made, &err), &made, &err);
}

static void prune(fuzz_rig *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_prune_options options = XSM_PRUNE_OPTIONS_INIT;
    xsm_model *made = NULL;
    options.keep = 3;
    become(r, xsm_model_prune(r->model, &options, &made, &err), &made, &err);
}

static void grow_trees(fuzz_rig *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_label_tree_options options = XSM_LABEL_TREE_OPTIONS_INIT;
    xsm_model *made = NULL;
    options.trees = 2;
    options.arity = 2;
    options.leaf = 2;
    options.threshold = 0;
    become(r, xsm_fit_label_tree(r->context, r->rows, &options, &made, NULL, &err), &made, &err);
}

static void name(fuzz_rig *r)
{
    static const int64_t labels[FUZZ_CLASSES] = {-5, 0, 1, 2, 3, 4, 5, 60, 700};
    static const char *const names[FUZZ_CLASSES] = {"a", "b", "c", "d", "e", "f", "g", "h", "\xc3\xa4"};
    static const uint64_t counts[FUZZ_CLASSES] = {3, 1, 1, 4, 0, 0, 0, 5, 0};
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_tensor tensor = XSM_TENSOR_INIT;
    map.classes = FUZZ_CLASSES;
    map.labels = labels;
    map.names = names;
    map.counts = counts;
    map.rows = FUZZ_ROWS;
    map.index_base = XSM_INDEX_BASE_ONE;
    tensor.name = "host's own";
    tensor.dtype = "F32";
    tensor.data = labels;
    tensor.bytes = 4;
    fuzz_require(xsm_model_set_class_map(r->model, &map, &err) == XSM_OK, err.message);
    fuzz_require(xsm_model_set_metadata(r->model, "estimator", "softmax", &err) == XSM_OK, err.message);
    fuzz_require(xsm_model_set_tensor(r->model, &tensor, &err) == XSM_OK, err.message);
}

static void calibrate(fuzz_rig *r)
{
    xsm_error err = XSM_ERROR_INIT;
    fuzz_require(xsm_model_calibrate(r->context, r->model, r->rows, NULL, NULL, &err) == XSM_OK, err.message);
}

/* Trains another model, on rows that are read or made here. */
static void train_anew(fuzz_rig *r, xsm_dataset *rows, const char *transform)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_transform *t = NULL;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_model *made = NULL;
    options.epochs = 1;
    options.eta = 0.3;
    fuzz_require(xsm_transform_new(r->context, transform, &t, &err) == XSM_OK, err.message);
    fuzz_require(xsm_transform_fit(t, rows, &err) == XSM_OK && xsm_transform_apply(t, rows, &err) == XSM_OK,
                 err.message);
    fuzz_require(xsm_dataset_get_class_map(rows, &map, &err) == XSM_OK, err.message);
    xsm_trainer_free(r->trainer);
    r->trainer = NULL;
    xsm_dataset_free(r->rows);
    r->rows = rows;
    become(r, xsm_model_new_linear(r->context, map.features, map.classes, NULL, &made, &err), &made, &err);
    fuzz_require(xsm_trainer_new(r->context, r->model, rows, r->estimator, r->optimizer, &options, &r->trainer, &err) ==
                     XSM_OK,
                 err.message);
    fuzz_require(xsm_trainer_run(r->trainer, &err) == XSM_OK, err.message);
    fuzz_require(xsm_model_set_class_map(r->model, &map, &err) == XSM_OK, err.message);
    fuzz_require(xsm_model_set_transform(r->model, t, &err) == XSM_OK, err.message);
    xsm_transform_free(t);
}

static xsm_dataset *read_text(xsm_context *ctx)
{
    static const char text[] = "__label__x the cat sat\n__label__y the dog ran off\n__label__z a cat and a dog\n"
                               "__label__x sat sat the\n__label__y ran\n";
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_text_options words = XSM_TEXT_OPTIONS_INIT;
    words.word_ngrams = 2;
    words.buckets = BUCKETS;
    options.text = &words;
    return fuzz_read_rows(ctx, text, &options);
}

static void change_model(fuzz_rig *r, change_of change)
{
    static const char table[] = "a,b,label\n1,2,dog\n0,0,cat\n3,0,dog\n0.5,1,bee\n";
    static const char hashed[] = "1 7:1 900000001:2\n2 900000001:0.5 1700000000:1\n";
    xsm_error err = XSM_ERROR_INIT;
    switch (change) {
    case AS_TRAINED:
        break;
    case BFLOAT16:
        convert(r, XSM_DTYPE_BFLOAT16);
        break;
    case INT8:
        convert(r, XSM_DTYPE_INT8);
        break;
    case PRUNED:
        prune(r);
        break;
    case PRUNED_INT8:
        prune(r);
        convert(r, XSM_DTYPE_INT8);
        break;
    case EUCLIDEAN:
        fuzz_require(xsm_model_set_geometry(r->model, XSM_GEOMETRY_EUCLIDEAN, &err) == XSM_OK, err.message);
        break;
    case PAIRS:
        fuzz_require(xsm_model_add_pairs(r->model, r->rows, 2, &err) == XSM_OK, err.message);
        break;
    case CALIBRATED:
        calibrate(r);
        break;
    case NAMED:
        name(r);
        break;
    case PRODUCTS:
        train_anew(r, fuzz_rows(r->context, true), "log,tfidf,unit,products=3");
        break;
    case TREES:
        grow_trees(r);
        break;
    case TREES_INT8:
        grow_trees(r);
        convert(r, XSM_DTYPE_INT8);
        break;
    case TEXT:
    case FASTTEXT:
        train_anew(r, read_text(r->context), "tfidf,standard,unit");
        break;
    case TABLE:
        train_anew(r, fuzz_read_rows(r->context, table, NULL), "standard,unit");
        break;
    case HASHED:
        train_anew(r, fuzz_read_rows(r->context, hashed, NULL), "unit");
        break;
    }
}

/* False where something that is not finite keeps it from being saved. The buffer is the caller's to free. */
static bool save(xsm_context *ctx, const xsm_model *m, xsm_buffer **buffer, xsm_storage *saved)
{
    xsm_error err = XSM_ERROR_INIT;
    *buffer = fuzz_buffer(ctx);
    *saved = fuzz_storage(*buffer);
    const xsm_status status = xsm_model_save(m, NULL, saved, &err);
    fuzz_require(status == XSM_OK || strstr(err.message, "finite"), err.message);
    *saved = fuzz_storage(*buffer);
    return status == XSM_OK;
}

/* Makes the vocabulary of a model one of fastText, whose buckets are listed, all of them. */
static void become_fasttext(fuzz_contents *c)
{
    static const uint32_t all[BUCKETS] = {0, 1, 2, 3, 4, 5, 6};
    const size_t last = c->tensor_count++;
    for (size_t i = 0; i < c->entry_count; i++) {
        char *value = c->values[i], *prefix = strstr(value, "label_prefix=");
        if (prefix && asprintf(&c->values[i], "%.*shash=fasttext %s", (int)(prefix - value), value, prefix) > 0) {
            free(value);
        }
    }
    c->tensors[last] = (xsmi_tensor){.dtype = XSMI_DTYPE_U32, .rank = 1, .shape = {BUCKETS}, .size = sizeof all};
    c->data[last] = memcpy(malloc(sizeof all), all, sizeof all);
    c->names[last] = strdup(XSMI_BUCKETS_TENSOR);
}

static const fuzz_contents *know(size_t which)
{
    static fuzz_contents all[SORTS];
    fuzz_contents *c = &all[which];
    if (c->tensor_count == 0) {
        fuzz_rig r;
        xsm_error err = XSM_ERROR_INIT;
        xsm_buffer *buffer = NULL;
        fuzz_rig_begin(&r, &sorts[which].run);
        fuzz_require(xsm_trainer_run(r.trainer, &err) == XSM_OK, err.message);
        change_model(&r, sorts[which].change);
        xsm_storage saved;
        fuzz_require(save(r.context, r.model, &buffer, &saved), "finite weights");
        fuzz_contents_read(r.context, &saved, c);
        if (sorts[which].change == FASTTEXT) {
            become_fasttext(c);
        }
        xsm_buffer_free(buffer);
        fuzz_rig_end(&r);
    }
    return c;
}

/* -- what is done with a model ------------------------------------------------------------------------------------- */

enum { MOST = 20, ROWS = 3, TOP = 3, MOST_DENSE = 10000, BEAM = 4 };

/* Rows of the model's input, each with other features, some labels beyond its classes and some without weight. */
static xsm_dataset *make_rows(xsm_context *ctx, const xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    float values[ROWS * MOST];
    uint32_t index[ROWS * MOST], labels[ROWS] = {0, m->classes - 1, m->classes / 2};
    uint64_t offsets[ROWS + 1] = {0}, label_offsets[ROWS + 1] = {0, 1, 2, 3};
    xsm_labels given = XSM_LABELS_INIT;
    xsm_csr_rows csr = XSM_CSR_ROWS_INIT;
    xsm_dataset *rows = NULL;
    fuzz_require(xsm_model_get_info(m, &info, &err) == XSM_OK, err.message);
    for (uint32_t i = 0, next = 0; i < ROWS; i++) {
        const uint32_t count = info.input_features < MOST ? info.input_features : MOST;
        for (uint32_t j = i; j < count; j++) { /* the first ones and, in other rows, the last ones */
            values[next] = 1.5f - (float)i;
            index[next++] = i == 1 ? info.input_features - count + j : j;
        }
        offsets[i + 1] = next;
    }
    given.classes = m->classes;
    given.labels = labels;
    given.offsets = label_offsets;
    csr.rows = ROWS;
    csr.features = info.input_features;
    csr.offsets = offsets;
    csr.index = index;
    csr.values = values;
    csr.labels = &given;
    fuzz_require(xsm_dataset_from_csr(ctx, &csr, &rows, &err) == XSM_OK, err.message);
    const xsm_status status = xsm_model_transform(m, rows, &err);
    fuzz_require_reason(status, &err);
    if (status != XSM_OK) { /* weights near the end of float32 */
        xsm_dataset_free(rows);
        rows = NULL;
    }
    return rows;
}

static void predict(const xsm_model *m, const xsm_dataset *rows, const xsm_predictor_options *options)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor *p = NULL;
    xsm_status status = xsm_predictor_new(m, options, &p, &err);
    fuzz_require_reason(status, &err);
    if (status != XSM_OK) {
        return;
    }
    uint32_t classes[ROWS * TOP], lengths[ROWS];
    float scores[ROWS * TOP];
    double probabilities[ROWS * TOP];
    const xsm_batch batch = xsm_batch_range(rows, 0, ROWS);
    xsm_prediction prediction = XSM_PREDICTION_INIT;
    xsm_predictor_info info = XSM_PREDICTOR_INFO_INIT;
    prediction.batch = &batch;
    prediction.classes = classes;
    prediction.scores = scores;
    prediction.lengths = lengths;
    for (int with = 0; with < 2; with++) {
        fuzz_require(xsm_predictor_get_info(p, &info, &err) == XSM_OK && info.top <= TOP, "as many as were asked for");
        prediction.probabilities = with ? probabilities : NULL;
        prediction.exclude_known = with;
        status = xsm_predictor_run(p, &prediction, &err);
        fuzz_require_reason(status, &err);
        for (size_t i = 0; status == XSM_OK && i < ROWS; i++) {
            fuzz_require(lengths[i] <= info.top, "lengths");
            for (uint32_t j = 0; j < lengths[i]; j++) {
                fuzz_require(classes[i * info.top + j] < m->classes, "classes");
            }
        }
    }
    xsm_predictor_free(p);
}

static void ask(xsm_context *ctx, const xsm_model *m, const xsm_dataset *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = TOP;
    predict(m, rows, &options);
    options.beam = BEAM;
    predict(m, rows, &options);
    options.tree_alone = 1;
    predict(m, rows, &options);
    const xsm_batch batch = xsm_batch_range(rows, 0, ROWS);
    uint32_t some[ROWS * 2] = {0};
    some[1] = some[ROWS] = m->classes - 1;
    float scores[ROWS * 2];
    fuzz_require_reason(xsm_model_scores(m, &batch, some, 2, scores, &err), &err);
    double precision[TOP], psp[TOP], hits[TOP];
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_ranks ranks = XSM_RANKS_INIT;
    metrics.top = ranks.top = TOP;
    metrics.precision = precision;
    metrics.psp = psp;
    ranks.hits = hits;
    fuzz_require_reason(xsm_evaluate(ctx, m, rows, NULL, &metrics, &err), &err);
    fuzz_require_reason(xsm_evaluate_ranks(ctx, m, rows, NULL, &ranks, &err), &err);
    xsm_encoder *e = NULL;
    if (xsm_encoder_new(m, NULL, &e, &err) == XSM_OK) {
        static const char *const lines[] = {"0:1", "1:0.5 3:2", "the cat sat", ""};
        xsm_batch row = XSM_BATCH_INIT;
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
            fuzz_require_reason(xsm_encoder_encode(e, lines[i], strlen(lines[i]), &row, &err), &err);
        }
    }
    xsm_encoder_free(e);
}

/* What is saved can be loaded. */
static void save_and_load(xsm_context *ctx, const xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_buffer *buffer = NULL;
    xsm_model *again = NULL;
    xsm_storage saved;
    if (save(ctx, m, &buffer, &saved)) {
        fuzz_require(xsm_model_load(ctx, NULL, &saved, NULL, &again, &err) == XSM_OK, err.message);
    }
    xsm_model_free(again);
    xsm_buffer_free(buffer);
}

static void make_other(xsm_context *ctx, const xsm_model *m, const xsm_dataset *rows, unsigned how)
{
    static const int32_t dtypes[] = {XSM_DTYPE_FLOAT32, XSM_DTYPE_BFLOAT16, XSM_DTYPE_INT8};
    xsm_error err = XSM_ERROR_INIT;
    const unsigned which = how % 4;
    xsm_convert_options convert = XSM_CONVERT_OPTIONS_INIT;
    xsm_prune_options prune = XSM_PRUNE_OPTIONS_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_model *made = NULL;
    convert.dtype = which > 0 ? dtypes[which - 1] : 0;
    prune.below = 0.1;
    options.top = TOP;
    xsm_status status =
        which > 0 ? xsm_model_convert(m, &convert, &made, &err) : xsm_model_prune(m, &prune, &made, &err);
    fuzz_require_reason(status, &err);
    if (status == XSM_OK) {
        save_and_load(ctx, made);
        predict(made, rows, &options);
        xsm_model_free(made);
    }
    xsm_index *x = NULL;
    fuzz_require(xsm_index_new(ctx, how / 4 % 2 ? "exact" : "spherical", &x, &err) == XSM_OK, err.message);
    status = xsm_index_build_model(x, m, &err);
    fuzz_require_reason(status, &err);
    options.index = x;
    if (status == XSM_OK) {
        predict(m, rows, &options);
    }
    xsm_index_free(x);
}

/* The last, as they change the model. */
static void change_further(xsm_context *ctx, xsm_model *m, const xsm_dataset *rows, unsigned how)
{
    static const char *const estimators[] = {"softmax", "hierarchical", "negative-sampling", "umax"};
    xsm_error err = XSM_ERROR_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 1;
    options.eta = 0.1;
    fuzz_require_reason(xsm_model_calibrate(ctx, m, rows, NULL, NULL, &err), &err);
    xsm_estimator *e = NULL;
    xsm_optimizer *o = NULL;
    xsm_trainer *t = NULL;
    fuzz_require(xsm_estimator_new(ctx, estimators[how % 4], &e, &err) == XSM_OK, err.message);
    fuzz_require(xsm_optimizer_new(ctx, how / 4 % 2 ? "adagrad" : "sgd", &o, &err) == XSM_OK, err.message);
    const xsm_status status = xsm_trainer_new(ctx, m, rows, e, o, &options, &t, &err);
    fuzz_require_reason(status, &err);
    if (status == XSM_OK) {
        fuzz_require_reason(xsm_trainer_run(t, &err), &err);
    }
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = m->classes + 1;
    const uint32_t features = m->features;
    fuzz_require_reason(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, &err), &err);
    fuzz_require_reason(xsm_model_grow(m, features, m->map.names || m->map.labels ? NULL : &map, &err), &err);
    save_and_load(ctx, m);
}

static void use(xsm_context *ctx, xsm_model *m, unsigned how)
{
    fuzz_look(m);
    save_and_load(ctx, m);
    if ((uint64_t)m->classes * m->features > MOST_DENSE) {
        return;
    }
    xsm_dataset *rows = make_rows(ctx, m);
    if (rows) {
        ask(ctx, m, rows);
        make_other(ctx, m, rows, how);
        change_further(ctx, m, rows, how / 8);
    }
    xsm_dataset_free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    const fuzz_contents *c = know(data[0] % SORTS);
    xsm_context *ctx = fuzz_context();
    fuzz_file file;
    if (fuzz_contents_make(ctx, c, data, size, &file)) {
        xsm_error err = XSM_ERROR_INIT;
        xsm_model *m = NULL;
        const xsm_storage from = fuzz_file_storage(&file);
        const xsm_status status = xsm_model_load(ctx, NULL, &from, NULL, &m, &err);
        fuzz_require_reason(status, &err);
        fuzz_require(status == XSM_OK || !m, "no model");
        if (m) {
            use(ctx, m, data[0] / SORTS + data[size - 1]);
        }
        xsm_model_free(m);
        fuzz_file_free(&file);
    }
    return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
    fuzz_contents_run(2000);
    return argc > 1 ? fuzz_replay(argc, argv, false) : 0;
}
#endif
