/*
 * Data: generated from a fixed seed, or Bibtex from the folder of real data (XSM_DATA, or shared/data beside the
 * source).
 */
#include "data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Bibtex's sizes: from the README of shared/data, first label of each row. */
enum { ROWS = 4880, FEATURES = 1836, CLASSES = 146, NONZEROS = 68 };

xsm_dataset *bench_dense(xsm_context *ctx, uint64_t rows, uint32_t features, uint32_t classes)
{
    bench_random random = {2};
    float *values = bench_memory((size_t)rows * features, sizeof *values);
    uint32_t *labels = bench_memory((size_t)rows, sizeof *labels);
    float scale = sqrtf(3.0f / (float)features);
    for (size_t i = 0; i < rows * features; i++) {
        values[i] = scale * bench_uniform(&random);
    }
    for (uint64_t i = 0; i < rows; i++) {
        labels[i] = (uint32_t)bench_below(&random, classes);
    }
    xsm_labels of = {sizeof of, classes, 0, NULL, labels, NULL};
    xsm_dataset *data = NULL;
    xsm_error err = XSM_ERROR_INIT;
    bench_check(
        xsm_dataset_from_dense(
            ctx,
            &(xsm_dense_rows){
                .size = sizeof(xsm_dense_rows), .values = values, .rows = rows, .features = features, .labels = &of},
            &data, &err),
        &err);
    free(values);
    free(labels);
    return data;
}

/* Draws the features of one row, rising: each is drawn with a probability that falls with its number, as for words.
 * Returns how many. */
static size_t draw_row(bench_random *random, uint32_t *index)
{
    size_t count = 0;
    for (uint32_t j = 0; j < FEATURES; j++) {
        /* The integral over j is about NONZEROS. */
        double probability = 0.5 * NONZEROS / sqrt((double)FEATURES * (j + 1));
        if ((double)bench_uniform(random) * 0.5 + 0.5 < probability) {
            index[count++] = j;
        }
    }
    return count;
}

char *bench_bibtex_text(uint64_t rows, size_t *length)
{
    bench_random random = {3};
    uint32_t index[FEATURES];
    char *text = NULL;
    FILE *file = open_memstream(&text, length);
    if (!file) {
        fprintf(stderr, "bench: no memory for text\n");
        exit(1);
    }
    fprintf(file, "%llu %d %d\n", (unsigned long long)rows, FEATURES, CLASSES);
    for (uint64_t i = 0; i < rows; i++) {
        size_t count = draw_row(&random, index);
        fprintf(file, "%u", (unsigned)bench_below(&random, CLASSES));
        for (size_t j = 0; j < count; j++) {
            fprintf(file, " %u:%.6f", index[j], 1 / sqrt((double)count));
        }
        fprintf(file, "\n");
    }
    if (fclose(file) != 0) {
        fprintf(stderr, "bench: no memory for text\n");
        exit(1);
    }
    return text;
}

/* The folder of Bibtex, or NULL. */
static const char *bibtex_path(char *path, size_t size)
{
    const char *folder = getenv("XSM_DATA");
    snprintf(path, size, "%s/bibtex/bibtex_train.txt.gz", folder ? folder : BENCH_SOURCE_ROOT "/../shared/data");
    return access(path, R_OK) == 0 ? path : NULL;
}

typedef struct text_reader {
    const char *text;
    size_t left;
} text_reader;

static int64_t read_text(void *user, void *buffer, size_t size)
{
    text_reader *reader = user;
    size_t some = size < reader->left ? size : reader->left;
    for (size_t i = 0; i < some; i++) {
        ((char *)buffer)[i] = reader->text[i];
    }
    reader->text += some;
    reader->left -= some;
    return (int64_t)some;
}

xsm_dataset *bench_bibtex(xsm_context *ctx, const char **note)
{
    char path[4096];
    xsm_dataset *data = NULL;
    xsm_error err = XSM_ERROR_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.format = XSM_FORMAT_XC;
    options.labels = XSM_KEEP_LABELS_FIRST;
    if (bibtex_path(path, sizeof path)) {
        *note = "Bibtex";
        bench_check(xsm_dataset_read(ctx, path, NULL, &options, &data, &err), &err);
    } else {
        *note = "generated, of Bibtex's shape (XSM_DATA names no folder that has it)";
        text_reader reader = {NULL, 0};
        char *text = bench_bibtex_text(ROWS, &reader.left);
        reader.text = text;
        xsm_source source = {sizeof source, &reader, read_text};
        bench_check(
            xsm_dataset_read(ctx, NULL,
                             &(xsm_storage){.size = sizeof(xsm_storage), .name = "generated text", .source = &source},
                             &options, &data, &err),
            &err);
        free(text);
    }
    xsm_transform *unit = NULL;
    bench_check(xsm_dataset_drop(data, XSM_DROP_UNLABELLED, NULL, &err), &err);
    bench_check(xsm_dataset_drop(data, XSM_DROP_CLASSES, NULL, &err), &err);
    bench_check(xsm_transform_new(ctx, "unit", &unit, &err), &err);
    bench_check(xsm_transform_fit(unit, data, &err), &err);
    bench_check(xsm_transform_apply(unit, data, &err), &err);
    xsm_transform_free(unit);
    return data;
}
