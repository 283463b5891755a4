/* Real data, prepared as the papers do. */
#include "learn.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { QUICK_ROWS = 400, PATH_LENGTH = 4096 };

static xsm_dataset *read_file(const papers *p, const char *path, const xsm_class_map *classes)
{
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_dataset *data = NULL;
    xsm_error err = XSM_ERROR_INIT;
    options.format = XSM_FORMAT_XC;
    options.labels = XSM_LABELS_FIRST;
    options.classes = classes;
    papers_check(xsm_dataset_read(p->context, path, &options, &data, &err), &err);
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

bool data_read(const papers *p, const char *folder, const char *title, const char *transform, data_pair *out)
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
    out->train = read_file(p, train, NULL);
    if (p->quick) {
        keep_few(&out->train);
    }
    papers_check(xsm_dataset_compact(out->train, &err), &err);
    papers_check(xsm_dataset_get_classes(out->train, &map, &err), &err);
    out->test = read_file(p, test, &map);
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
