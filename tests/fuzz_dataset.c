/*
 * Fuzzing of the readers and what follows them. The first byte chooses the format and the options, the rest is the
 * file. Built with -DFUZZER and clang's -fsanitize=fuzzer it is a fuzz target; built without, it replays the files and
 * folders that it is given, and each of their prefixes.
 */
#include <xsoftmax/dataset.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct bytes {
    const uint8_t *data;
    size_t left, step;
} bytes;

static int64_t read_bytes(void *user, void *buffer, size_t size)
{
    bytes *b = user;
    size_t count = b->left < size ? b->left : size;
    count = count < b->step ? count : b->step;
    if (count > 0) {
        memcpy(buffer, b->data, count);
    }
    b->data += count;
    b->left -= count;
    return (int64_t)count;
}

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* Every row within its bounds, every number in its range. */
static void walk(const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    require(xsm_dataset_get_info(d, &info, &err) == XSM_OK, "info");
    require(xsm_dataset_get_classes(d, &map, &err) == XSM_OK, "classes");
    require(info.rows > 0 && info.features > 0 && info.classes == map.classes, "sizes");
    for (uint32_t k = 1; k < map.classes; k++) {
        require(!map.labels || map.labels[k] > map.labels[k - 1], "labels rise");
        require(!map.names || strcmp(map.names[k], map.names[k - 1]) > 0, "names rise");
    }
    uint64_t labels = 0;
    uint64_t values = 0;
    for (uint64_t i = 0; i < info.rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        require(xsm_dataset_get_row(d, i, &row, &err) == XSM_OK, "row");
        for (uint64_t j = 0; j < row.count; j++) {
            require(row.values[j] - row.values[j] == 0, "finite values");
            require(!row.index || (row.index[j] < info.features && (j == 0 || row.index[j] > row.index[j - 1])),
                    "indexes rise");
            require(!row.index || row.values[j] != 0, "no zeros kept");
        }
        for (uint64_t j = 0; j < row.label_count; j++) {
            require(row.labels[j] < info.classes || row.labels[j] == XSM_CLASS_UNSEEN, "classes in range");
        }
        labels += row.label_count;
        values += row.count;
    }
    require(labels == info.labels && values == info.values, "totals");
}

static void change(xsm_dataset *d, unsigned choice)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_transform *t = NULL;
    static const char *const descriptions[] = {"tfidf,unit", "truncate=2,unit", "unit", ""};
    require(xsm_transform_new(NULL, descriptions[choice % 4], &t, &err) == XSM_OK, "transform");
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    require(xsm_dataset_get_classes(d, &map, &err) == XSM_OK, "classes");
    /* A single large index would have weights for gigabytes of features. */
    if (map.features < 100000 && xsm_transform_fit(t, d, &err) == XSM_OK) {
        (void)xsm_transform_apply(t, d, &err);
    }
    xsm_transform_free(t);
    (void)xsm_dataset_keep_labels(d, (int32_t)(choice % 3), &err);
    (void)xsm_dataset_drop(d, choice % 4, NULL, &err);
    (void)xsm_dataset_compact(d, &err);
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

/* The same text against the vocabulary and classes that it has given is the same rows. */
static void read_again(const xsm_dataset *d, const uint8_t *data, size_t size)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset_info first = XSM_DATASET_INFO_INIT;
    xsm_dataset_info second = XSM_DATASET_INFO_INIT;
    require(xsm_dataset_get_classes(d, &map, &err) == XSM_OK, "classes");
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.classes = &map;
    bytes b = {data, size, SIZE_MAX};
    xsm_source source = {&b, read_bytes};
    xsm_dataset *again = NULL;
    require(xsm_dataset_read_source(NULL, &source, "fuzz", &options, &again, &err) == XSM_OK, err.message);
    require(xsm_dataset_get_info(d, &first, &err) == XSM_OK, "info");
    require(xsm_dataset_get_info(again, &second, &err) == XSM_OK, "info");
    require(first.rows == second.rows && first.features == second.features && first.values == second.values, "again");
    for (uint64_t i = 0; i < first.rows; i++) {
        xsm_row a = XSM_ROW_INIT;
        xsm_row c = XSM_ROW_INIT;
        require(xsm_dataset_get_row(d, i, &a, &err) == XSM_OK && xsm_dataset_get_row(again, i, &c, &err) == XSM_OK,
                "rows");
        require(a.count == c.count && (a.count == 0 || (memcmp(a.index, c.index, a.count * sizeof *a.index) == 0 &&
                                                        memcmp(a.values, c.values, a.count * sizeof *a.values) == 0)),
                "the same features");
    }
    xsm_dataset_free(again);
}

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
    options.labels = (int32_t)(choice / 5 % 3);
    if (options.format == XSM_FORMAT_AUTO || options.format == XSM_FORMAT_LIBSVM) {
        options.index_base = (int32_t)(choice / 15 % 3);
    }
    options.features = choice % 7 == 3 ? 4 : 0;
    options.classes = choice % 11 == 5 ? &map : NULL;
    bytes b = {data + 1, size - 1, choice % 3 == 0 ? 1 + choice % 13 : SIZE_MAX};
    xsm_source source = {&b, read_bytes};
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *d = NULL;
    xsm_status status = xsm_dataset_read_source(NULL, &source, "fuzz", &options, &d, &err);
    require((status == XSM_OK) == (d != NULL), "outputs");
    require(status == XSM_OK || (err.status == status && err.message[0] != '\0'), "an error says what");
    require(status == XSM_OK || !memchr(err.message, '\n', strlen(err.message)), "one line");
    if (d) {
        walk(d);
        if (options.format == XSM_FORMAT_TEXT) {
            read_again(d, data + 1, size - 1);
        }
        change(d, choice);
        xsm_dataset_free(d);
    }
    return 0;
}

#ifndef FUZZER

#include <dirent.h>

static unsigned runs;

static void replay(const char *path)
{
    DIR *folder = opendir(path);
    if (folder) {
        for (struct dirent *e = readdir(folder); e; e = readdir(folder)) {
            char inner[1024];
            if (e->d_name[0] != '.' && snprintf(inner, sizeof inner, "%s/%s", path, e->d_name) < (int)sizeof inner) {
                replay(inner);
            }
        }
        closedir(folder);
        return;
    }
    FILE *file = fopen(path, "rb");
    require(file != NULL, path);
    static uint8_t text[65536];
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    for (size_t length = 0; length <= size; length++) {
        /* In memory of its own, so that a sanitizer sees a read beyond the end. */
        uint8_t *copy = malloc(length ? length : 1);
        require(copy != NULL, "memory");
        memcpy(copy, text, length);
        LLVMFuzzerTestOneInput(copy, length);
        free(copy);
        runs++;
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        replay(argv[i]);
    }
    printf("%u inputs replayed\n", runs);
    return runs == 0;
}

#endif
