/* Real data, prepared as in the papers. */
#include "learn.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { QUICK_ROWS = 400, PATH_LENGTH = 4096 };

static xsm_dataset *read_file(const papers *p, const char *path, int32_t labels, const xsm_class_map *classes)
{
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_dataset *data = NULL;
    xsm_error err = XSM_ERROR_INIT;
    options.format = XSM_FORMAT_XC;
    options.labels = labels;
    options.classes = classes;
    papers_check(xsm_dataset_read(p->context, path, NULL, &options, &data, &err), &err);
    papers_check(xsm_dataset_drop(data, XSM_DROP_UNLABELLED | XSM_DROP_EMPTY, NULL, &err), &err);
    return data;
}

static void keep_few(xsm_dataset **data)
{
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_dataset_get_info(*data, &info, &err), &err);
    if (info.rows > QUICK_ROWS) {
        uint64_t *rows = papers_memory(QUICK_ROWS, sizeof *rows);
        for (uint64_t i = 0; i < QUICK_ROWS; i++) {
            rows[i] = i;
        }
        xsm_dataset *few = NULL;
        papers_check(xsm_dataset_select(*data, rows, QUICK_ROWS, &few, &err), &err);
        xsm_dataset_free(*data);
        *data = few;
        free(rows);
    }
}

static bool path_of(char path[PATH_LENGTH], const char *folder, const char *part)
{
    const char *root = getenv("XSM_DATA");
    int length = snprintf(path, PATH_LENGTH, "%s/%s/%s_%s.txt.gz", root ? root : BENCH_SOURCE_ROOT "/../shared/data",
                          folder, folder, part);
    return length > 0 && length < PATH_LENGTH && access(path, R_OK) == 0;
}

/* The labels that occur in either of two datasets read without a class map, as a map; free() its labels. */
static xsm_class_map join_classes(xsm_dataset *train, xsm_dataset *test)
{
    xsm_class_map a = XSM_CLASS_MAP_INIT, b = XSM_CLASS_MAP_INIT, both = XSM_CLASS_MAP_INIT;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_dataset_drop(train, XSM_DROP_CLASSES, NULL, &err), &err);
    papers_check(xsm_dataset_drop(test, XSM_DROP_CLASSES, NULL, &err), &err);
    papers_check(xsm_dataset_get_class_map(train, &a, &err), &err);
    papers_check(xsm_dataset_get_class_map(test, &b, &err), &err);
    int64_t *labels = papers_memory((size_t)a.classes + b.classes, sizeof *labels);
    uint32_t i = 0, j = 0;
    while (i < a.classes || j < b.classes) {
        int64_t x = i < a.classes ? (a.labels ? a.labels[i] : (int64_t)i) : INT64_MAX;
        int64_t y = j < b.classes ? (b.labels ? b.labels[j] : (int64_t)j) : INT64_MAX;
        labels[both.classes++] = x < y ? x : y;
        i += x <= y;
        j += y <= x;
    }
    both.features = a.features;
    both.labels = labels;
    both.index_base = a.index_base;
    return both;
}

static bool read_pair(const papers *p, const char *folder, const char *title, const char *transform, int32_t labels,
                      bool join, data_pair *out)
{
    char train[PATH_LENGTH], test[PATH_LENGTH];
    if (!path_of(train, folder, "train") || !path_of(test, folder, "test")) {
        papers_say("skipped: %s is not there (looked for %s; XSM_DATA names another folder)", title, train);
        return false;
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_transform *steps = NULL;
    *out = (data_pair){title, NULL, NULL, 0, 0, 0, 0};
    out->train = read_file(p, train, labels, NULL);
    if (p->quick) {
        keep_few(&out->train);
    }
    if (join) {
        xsm_dataset *other = read_file(p, test, labels, NULL);
        map = join_classes(out->train, other);
        xsm_dataset_free(other);
        xsm_dataset_free(out->train);
        out->train = read_file(p, train, labels, &map);
        if (p->quick) {
            keep_few(&out->train);
        }
        out->test = read_file(p, test, labels, &map);
        free((void *)(uintptr_t)map.labels);
    } else {
        papers_check(xsm_dataset_drop(out->train, XSM_DROP_CLASSES, NULL, &err), &err);
        papers_check(xsm_dataset_get_class_map(out->train, &map, &err), &err);
        out->test = read_file(p, test, labels, &map);
    }
    if (p->quick) {
        keep_few(&out->test);
    }
    papers_check(xsm_transform_new(p->context, transform, &steps, &err), &err);
    papers_check(xsm_transform_fit(steps, out->train, &err), &err);
    papers_check(xsm_transform_apply(steps, out->train, &err), &err);
    papers_check(xsm_transform_apply(steps, out->test, &err), &err);
    xsm_transform_free(steps);
    papers_check(xsm_dataset_get_info(out->test, &info, &err), &err);
    out->test_rows = info.rows;
    papers_check(xsm_dataset_get_info(out->train, &info, &err), &err);
    out->rows = info.rows;
    out->features = info.features;
    out->classes = info.classes;
    return true;
}

bool data_read(const papers *p, const char *folder, const char *title, const char *transform, data_pair *out)
{
    return read_pair(p, folder, title, transform, XSM_KEEP_LABELS_FIRST, false, out);
}

bool data_read_labels(const papers *p, const char *folder, const char *title, const char *transform, data_pair *out)
{
    return read_pair(p, folder, title, transform, XSM_KEEP_LABELS_ALL, false, out);
}

bool data_read_union(const papers *p, const char *folder, const char *title, const char *transform, data_pair *out)
{
    return read_pair(p, folder, title, transform, XSM_KEEP_LABELS_FIRST, true, out);
}

static xsm_dataset *scaled(const papers *p, const xsm_dataset *data, float factor)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    papers_check(xsm_dataset_get_info(data, &info, &err), &err);
    uint64_t *offsets = papers_memory(info.rows + 1, sizeof *offsets), count = 0;
    uint32_t *index = papers_memory(info.values, sizeof *index), *of = papers_memory(info.rows, sizeof *of);
    float *values = papers_memory(info.values, sizeof *values);
    for (uint64_t i = 0; i < info.rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        papers_check(xsm_dataset_get_row(data, i, &row, &err), &err);
        for (uint64_t j = 0; j < row.count; j++) {
            index[count] = row.index[j];
            values[count++] = factor * row.values[j];
        }
        offsets[i + 1] = count;
        of[i] = row.labels[0];
    }
    xsm_labels labels = {sizeof labels, info.classes, 0, NULL, of, NULL};
    xsm_dataset *out = NULL;
    papers_check(xsm_dataset_from_csr(p->context,
                                      &(xsm_csr_rows){.size = sizeof(xsm_csr_rows),
                                                      .offsets = offsets,
                                                      .index = index,
                                                      .values = values,
                                                      .rows = info.rows,
                                                      .features = info.features,
                                                      .labels = &labels},
                                      &out, &err),
                 &err);
    free(offsets);
    free(index);
    free(of);
    free(values);
    return out;
}

void data_scale(const papers *p, data_pair *data, float factor)
{
    xsm_dataset *train = scaled(p, data->train, factor), *test = scaled(p, data->test, factor);
    data_free(data);
    data->train = train;
    data->test = test;
}

void data_free(data_pair *data)
{
    xsm_dataset_free(data->train);
    xsm_dataset_free(data->test);
}

xsm_dataset *data_tenth(const data_pair *data)
{
    xsm_dataset *tenth = NULL, *rest = NULL;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_dataset_split(data->train, 0.1, 1, &tenth, &rest, &err), &err);
    xsm_dataset_free(rest);
    return tenth;
}
