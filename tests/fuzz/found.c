/*
 * Fuzzing of what strangers' files need: options of tables, and labels in a file of their own. The first bytes are the
 * options; the rest is the file or, from the first zero of a line of its own on, that of the labels.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#define PICK(list, number) (list)[(number) % (sizeof(list) / sizeof *(list))]

/* The options that four bytes choose. */
static void choose(xsm_read_options *o, const uint8_t *byte)
{
    static const int32_t formats[] = {XSM_FORMAT_AUTO, XSM_FORMAT_CSV, XSM_FORMAT_TSV};
    static const char *const columns[] = {NULL, "0", "-1", "label", "2"};
    static const char *const separators[] = {NULL, NULL, ";", " ", "|"};
    static const char *const ignored[] = {NULL, "0", "id,-1", "1,2"};
    static const char *const between[] = {NULL, ",", " "};
    static const char *const texts[] = {NULL, NULL, "1", "text"};
    o->format = PICK(formats, byte[0]);
    o->header = byte[0] / 8 % 3;
    o->labels = byte[0] / 32 % 3;
    o->label_column = PICK(columns, byte[1]);
    o->separator = o->format == XSM_FORMAT_TSV ? NULL : PICK(separators, byte[1] / 8);
    o->ignore_columns = PICK(ignored, byte[2]);
    o->label_separator = PICK(between, byte[2] / 8);
    o->text_column = PICK(texts, byte[2] / 32);
    o->bad_bytes = byte[3] & 1;
    o->weights_column = byte[3] & 8 ? "1" : NULL;
}

/* Where the labels begin, behind a zero in a line of its own; the end if there are none. */
static size_t find_labels(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 2 < size; i++) {
        if (memcmp(data + i, "\n\0\n", 3) == 0) {
            return i;
        }
    }
    return size;
}

static void try_rows(const uint8_t *data, size_t size, size_t step, const xsm_read_options *options)
{
    fuzz_bytes b = {data, size, step};
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *d = NULL;
    xsm_status status = xsm_dataset_read(NULL, NULL, FUZZ_BYTES(&b, "fuzz"), options, &d, &err);
    fuzz_require((status == XSM_OK) == (d != NULL), "outputs");
    fuzz_require_reason(status, &err);
    if (d) {
        fuzz_walk(d);
        xsm_dataset_free(d);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    if (size < 5) {
        return 0;
    }
    const uint8_t *rows = data + 4;
    const size_t left = size - 4, end = find_labels(rows, left);
    const size_t step = data[3] & 16 ? 7 : SIZE_MAX;
    if (end == left) {
        choose(&options, data);
        try_rows(rows, left, step, &options);
        return 0;
    }
    char path[4096];
    strcpy(path, fuzz_path("labels"));
    fuzz_write("labels", rows + end + 3, left - end - 3);
    options.labels_path = path;
    options.labels = data[0] % 3;
    options.format = data[1] % 2 ? XSM_FORMAT_XC : XSM_FORMAT_AUTO;
    options.label_weights = data[2] & 1;
    options.duplicates = data[3] & 1;
    try_rows(rows, end + 1, step, &options);
    return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
    return fuzz_replay(argc, argv, true);
}
#endif
