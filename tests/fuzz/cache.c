/*
 * Fuzzing of caches, piece by piece. Inputs are those of contents.h. Rows that were accepted are as sound as those that
 * a reader makes: they are walked, changed, written again and trained on.
 */
#include "contents.h"
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include <xsoftmax/metrics.h>

enum { BASES = 5, MOST_WEIGHTS = 10000 };

/* -- caches that are in order -------------------------------------------------------------------------------------- */

static const char text[] = "__label__x:2 the cat sat\n__label__y the dog ran off\n__label__z:0 __label__x a cat\n"
                           "the cat\n__label__x sat sat the\n__label__y\n";
static const char table[] = "a,b,weight,label\n1,2,0.5,dog\n0,0,2,cat\n3,0,1,dog\n";
static const char hashed[] = "1 7:1 900000001:2\n2 900000001:0.5 1700000000:1\n";
static const char sparse[] = "-3 1:1 4:2\n7 2:0.5\n7 1:-1 2:3\n9 5:2\n";

static xsm_dataset *make_rows(xsm_context *ctx, size_t which)
{
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_text_options words = XSM_TEXT_OPTIONS_INIT;
    if (which == 0) {
        return fuzz_rows(ctx, false);
    }
    if (which == 1) {
        options.weights_column = "weight";
        return fuzz_read_rows(ctx, table, &options);
    }
    if (which == 2) {
        words.word_ngrams = 2;
        words.buckets = 7;
        options.text = &words;
        options.label_weights = 1;
        return fuzz_read_rows(ctx, text, &options);
    }
    options.format = XSM_FORMAT_LIBSVM;
    return which == 3 ? fuzz_read_rows(ctx, sparse, &options) : fuzz_read_rows(ctx, hashed, &options);
}

static const fuzz_contents *know(size_t which)
{
    static fuzz_contents all[BASES];
    if (all[which].tensor_count == 0) {
        xsm_error err = XSM_ERROR_INIT;
        xsm_write_options options = XSM_WRITE_OPTIONS_INIT;
        xsm_context *ctx = fuzz_context();
        xsm_dataset *rows = make_rows(ctx, which);
        xsm_storage saved = XSM_STORAGE_INIT;
        size_t size;
        options.format = XSM_FORMAT_CACHE;
        fuzz_require(xsm_dataset_write(rows, fuzz_path("rows"), &options, &err) == XSM_OK, err.message);
        uint8_t *bytes = fuzz_read("rows", &size);
        saved.bytes = bytes;
        saved.byte_count = size;
        fuzz_contents_read(ctx, &saved, &all[which]);
        free(bytes);
        xsm_dataset_free(rows);
    }
    return &all[which];
}

/* -- what is done with rows ---------------------------------------------------------------------------------------- */

/* What the file says of its rows is what they are. */
static void count(const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    fuzz_require(xsm_dataset_get_info(d, &info, &err) == XSM_OK, err.message);
    fuzz_require(xsm_dataset_get_class_map(d, &map, &err) == XSM_OK, err.message);
    uint64_t labels = 0, unseen = 0, unlabelled = 0, of_classes = 0;
    for (uint64_t i = 0; i < info.rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        fuzz_require(xsm_dataset_get_row(d, i, &row, &err) == XSM_OK, err.message);
        labels += row.label_count;
        unlabelled += row.label_count == 0;
        for (uint64_t j = 0; j < row.count; j++) {
            fuzz_require(row.values[j] - row.values[j] == 0, "finite values");
            fuzz_require(!row.index || (row.index[j] < info.features && (j == 0 || row.index[j] > row.index[j - 1])),
                         "features rise, below D");
        }
        for (uint64_t j = 0; j < row.label_count; j++) {
            unseen += row.labels[j] == XSM_CLASS_UNSEEN;
            fuzz_require(row.labels[j] < map.classes || row.labels[j] == XSM_CLASS_UNSEEN, "labels below K");
        }
    }
    for (uint32_t k = 0; k < map.classes; k++) {
        of_classes += map.counts[k];
    }
    fuzz_require(labels == info.labels && unseen == info.unseen_labels && unlabelled == info.unlabelled &&
                     of_classes == labels - unseen,
                 "counts");
}

static void train(xsm_context *ctx, xsm_dataset *d, unsigned how)
{
    static const char *const estimators[] = {"softmax", "one-vs-all", "hierarchical", "negative-sampling"};
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 1;
    options.eta = 0.1;
    fuzz_require(xsm_dataset_get_class_map(d, &map, &err) == XSM_OK, err.message);
    if (map.classes < 1 || (uint64_t)map.classes * map.features > MOST_WEIGHTS) {
        return;
    }
    xsm_model *m = NULL;
    xsm_estimator *e = NULL;
    xsm_optimizer *o = NULL;
    xsm_trainer *t = NULL;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_status status = xsm_model_new_linear(ctx, map.features, map.classes, NULL, &m, &err);
    status = status == XSM_OK ? xsm_model_set_class_map(m, &map, &err) : status;
    status = status == XSM_OK ? xsm_estimator_new(ctx, estimators[how % 4], &e, &err) : status;
    status = status == XSM_OK ? xsm_optimizer_new(ctx, "sgd", &o, &err) : status;
    status = status == XSM_OK ? xsm_trainer_new(ctx, m, d, e, o, &options, &t, &err) : status;
    status = status == XSM_OK ? xsm_trainer_run(t, &err) : status;
    status = status == XSM_OK ? xsm_evaluate(ctx, m, d, NULL, &metrics, &err) : status;
    fuzz_require_reason(status, &err);
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
}

/* Written as rows of some format, which may lack what they have. */
static void write(const xsm_dataset *d, int32_t format)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_write_options options = XSM_WRITE_OPTIONS_INIT;
    char labels[1400], names[1400], weights[1400];
    strcpy(labels, fuzz_path("labels"));
    strcpy(names, fuzz_path("names"));
    strcpy(weights, fuzz_path("weights"));
    options.format = format;
    options.labels_path = format == XSM_FORMAT_NPY ? labels : NULL;
    options.names_path = format != XSM_FORMAT_CSV && format != XSM_FORMAT_CACHE ? names : NULL;
    options.weights_path = format != XSM_FORMAT_CACHE ? weights : NULL;
    fuzz_require_reason(xsm_dataset_write(d, fuzz_path("written"), &options, &err), &err);
}

static void change(xsm_dataset *d, unsigned how)
{
    static const char *const transforms[] = {"tfidf,unit", "products=2", "log", "unit,truncate=2"};
    static const int64_t labels[] = {-3, 0, 1, 8};
    xsm_error err = XSM_ERROR_INIT;
    xsm_transform *t = NULL;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset *part = NULL, *rest = NULL;
    fuzz_require(xsm_transform_new(NULL, transforms[how % 4], &t, &err) == XSM_OK, err.message);
    fuzz_require(xsm_dataset_get_class_map(d, &map, &err) == XSM_OK, err.message);
    if (map.features < MOST_WEIGHTS && xsm_transform_fit(t, d, &err) == XSM_OK) {
        fuzz_require_reason(xsm_transform_apply(t, d, &err), &err);
    }
    xsm_transform_free(t);
    if (xsm_dataset_split(d, 0.5, how, &part, &rest, &err) == XSM_OK) {
        count(part);
        count(rest);
        xsm_dataset_free(part);
        xsm_dataset_free(rest);
    }
    fuzz_require_reason(xsm_dataset_keep_labels(d, (int32_t)(how % 3), &err), &err);
    fuzz_require_reason(xsm_dataset_drop(d, how % 8, NULL, &err), &err);
    fuzz_require_reason(xsm_dataset_shuffle(d, how, &err), &err);
    map = (xsm_class_map)XSM_CLASS_MAP_INIT;
    map.classes = 4;
    map.labels = labels;
    fuzz_require_reason(xsm_dataset_extend(d, &map, &err), &err);
    count(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int32_t formats[] = {XSM_FORMAT_XC, XSM_FORMAT_LIBSVM, XSM_FORMAT_CSV, XSM_FORMAT_NPY,
                                      XSM_FORMAT_CACHE};
    if (size < 2) {
        return 0;
    }
    const fuzz_contents *c = know(data[0] % BASES);
    const unsigned how = data[0] / BASES + (size > 2 ? data[size - 1] : 0);
    xsm_context *ctx = fuzz_context();
    fuzz_file file;
    if (fuzz_contents_make(ctx, c, data, size, &file)) {
        xsm_error err = XSM_ERROR_INIT;
        xsm_read_options options = XSM_READ_OPTIONS_INIT;
        xsm_dataset *d = NULL;
        options.format = XSM_FORMAT_CACHE;
        options.skip_verify = how % 2;
        fuzz_write("cache", file.bytes, file.size);
        const xsm_status status = xsm_dataset_read(ctx, fuzz_path("cache"), NULL, &options, &d, &err);
        fuzz_require_reason(status, &err);
        fuzz_require((status == XSM_OK) == (d != NULL), "rows or an error");
        if (d) {
            count(d);
            if (data[0] / BASES % 16 == 0) { /* what is written is synced, which takes long */
                write(d, formats[how % 5]);
            }
            train(ctx, d, how);
            change(d, how);
            train(ctx, d, how / 4);
        }
        xsm_dataset_free(d);
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
