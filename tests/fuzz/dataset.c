/*
 * Fuzzing of the readers and what follows them. The first byte chooses the format and the options, the rest is the
 * file.
 */
#include "fuzz.h"

static void change(xsm_dataset *d, unsigned choice)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_transform *t = NULL;
    static const char *const descriptions[] = {"tfidf,unit",
                                               "truncate=2,unit",
                                               "unit",
                                               "",
                                               "tfidf,unit,products=2,truncate=5",
                                               "products=1",
                                               "log,tfidf,unit",
                                               "log,standard,unit,products=2"};
    fuzz_require(xsm_transform_new(NULL, descriptions[choice % 8], &t, &err) == XSM_OK, "transform");
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    fuzz_require(xsm_dataset_get_class_map(d, &map, &err) == XSM_OK, "classes");
    /* A single large index would have weights for gigabytes of features. */
    if (map.features < 100000 && xsm_transform_fit(t, d, &err) == XSM_OK) {
        (void)xsm_transform_apply(t, d, &err);
    }
    xsm_transform_free(t);
    (void)xsm_dataset_keep_labels(d, (int32_t)(choice % 3), &err);
    (void)xsm_dataset_drop(d, choice % 4, NULL, &err);
    (void)xsm_dataset_drop(d, XSM_DROP_CLASSES, NULL, &err);
    (void)xsm_dataset_shuffle(d, choice, &err);
    xsm_dataset *part = NULL;
    xsm_dataset *rest = NULL;
    if (xsm_dataset_split(d, 0.5, choice, &part, &rest, &err) == XSM_OK) {
        xsm_dataset_free(part);
        xsm_dataset_free(rest);
    }
}

/* From here on the first byte asks for a NumPy file, and for text. */
#define FIRST_NPY 232
#define FIRST_TEXT 240

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    unsigned choice = data[0];
    static const int64_t map_labels[] = {-1, 2, 7};
    static const char *const map_names[] = {"ant", "bee", "cat"};
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = 3;
    map.features = 3;
    map.labels = choice & 1 ? map_labels : NULL;
    map.names = choice & 2 ? map_names : NULL;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.format = (int32_t)(choice % 5);
    xsm_text_options text = XSM_TEXT_OPTIONS_INIT;
    if (choice >= FIRST_NPY && choice < FIRST_TEXT) {
        options.format = XSM_FORMAT_NPY;
        options.label_column = choice & 1 ? "-1" : NULL;
    }
    if (choice >= FIRST_TEXT) {
        options.format = XSM_FORMAT_TEXT;
        text.label_prefix = choice & 1 ? "__label__" : "#";
        text.min_count = choice >> 1 & 1;
        text.word_ngrams = 1 + (choice >> 2 & 1) * 2;
        text.max_chars = (choice >> 3 & 1) * 3;
        text.buckets = 7;
        options.text = &text;
    }
    if (options.format == XSM_FORMAT_CSV || options.format == XSM_FORMAT_TSV) {
        options.weights_column = choice % 13 == 6 ? "w" : NULL;
    } else if (options.format == XSM_FORMAT_NPY) {
        options.weights_column = choice & 4 ? "0" : NULL;
    }
    options.labels = (int32_t)(choice / 5 % 3);
    if (options.format == XSM_FORMAT_AUTO || options.format == XSM_FORMAT_LIBSVM) {
        options.index_base = (int32_t)(choice / 15 % 3);
    }
    options.features = choice % 7 == 3 ? 4 : 0;
    options.classes = choice % 11 == 5 ? &map : NULL;
    fuzz_bytes b = {data + 1, size - 1, choice % 3 == 0 ? 1 + choice % 13 : SIZE_MAX};
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *d = NULL;
    xsm_status status = xsm_dataset_read(NULL, NULL, FUZZ_BYTES(&b, "fuzz"), &options, &d, &err);
    fuzz_require((status == XSM_OK) == (d != NULL), "outputs");
    fuzz_require_reason(status, &err);
    if (d) {
        fuzz_walk(d);
        if (options.format == XSM_FORMAT_TEXT) {
            fuzz_read_again(d, data + 1, size - 1);
        }
        change(d, choice);
        xsm_dataset_free(d);
    }
    return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
    return fuzz_replay(argc, argv, true);
}
#endif
