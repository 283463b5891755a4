/* Real data sets, where they are installed: what we read against the table in their README. */
#include "support.h"

#include "data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static xsm_dataset_info info_of(const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    assert_ok(xsm_dataset_get_info(d, &info, &err), err);
    return info;
}

typedef struct described {
    char file[200];
    unsigned long rows, features, declared, used, first;
    double labels, values;
    unsigned long unlabelled;
} described;

static void check_file(const described *x)
{
    const char *path = test_data(x->file);
    assert_non_null(path);
    xsm_error err = XSM_ERROR_INIT;
    MADE(xsm_dataset, d, xsm_dataset_read(NULL, path, NULL, NULL, &d, &err));
    xsm_dataset_info info = info_of(d);
    assert_int_equal(info.format, XSM_FORMAT_XC);
    assert_int_equal(info.rows, x->rows);
    assert_int_equal(info.features, x->features);
    assert_int_equal(info.classes, x->used);
    assert_true(d->map.labels[info.classes - 1] < (int64_t)x->declared);
    assert_int_equal(info.unlabelled, x->unlabelled);
    assert_true(fabs((double)info.labels / (double)info.rows - x->labels) < 0.0051);
    assert_true(fabs((double)info.values / (double)info.rows - x->values) < 0.051);
    assert_int_equal(info.unseen_labels, 0);
    assert_int_equal(info.dropped_features, 0);
    uint64_t counted = 0;
    for (uint32_t k = 0; k < info.classes; k++) {
        assert_true(d->map.counts[k] > 0);
        counted += d->map.counts[k];
    }
    assert_int_equal(counted, info.labels);
    /* The first label of each row, chosen afterwards and while reading: the same. */
    assert_ok(xsm_dataset_keep_labels(d, XSM_KEEP_LABELS_FIRST, &err), err);
    assert_ok(xsm_dataset_drop(d, XSM_DROP_CLASSES, NULL, &err), err);
    assert_int_equal(info_of(d).classes, x->first);
    MADE(xsm_dataset, first,
         xsm_dataset_read(NULL, path, NULL, STRUCT(xsm_read_options, .labels = XSM_KEEP_LABELS_FIRST), &first, &err));
    assert_int_equal(info_of(first).classes, x->first);
    assert_memory_equal(first->map.labels, d->map.labels, x->first * sizeof *d->map.labels);
    assert_memory_equal(first->labels, d->labels, info_of(d).labels * sizeof *d->labels);
}

static void table(void **state)
{
    (void)state;
    const char *readme = test_data("README.md");
    if (!readme) {
        skip();
    }
    FILE *file = fopen(readme, "r");
    assert_non_null(file);
    char line[1024];
    int files = 0;
    while (fgets(line, sizeof line, file)) {
        described x;
        if (sscanf(line, "| `%199[^`]` | %lu | %lu | %lu | %lu | %lu | %lf | %lf | %lu |", x.file, &x.rows, &x.features,
                   &x.declared, &x.used, &x.first, &x.labels, &x.values, &x.unlabelled) == 9) {
            check_file(&x);
            files++;
        }
    }
    fclose(file);
    print_message("%d files of real data\n", files);
    assert_true(files >= 10);
}

/* Test rows against the classes of the training rows. */
static void against_training(void **state)
{
    (void)state;
    const char *path = test_data("kg-fb15k237/kg-fb15k237_train.txt.gz");
    if (!path) {
        skip();
    }
    xsm_error err = XSM_ERROR_INIT;
    MADE(xsm_dataset, train, xsm_dataset_read(NULL, path, NULL, NULL, &train, &err));
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_dataset_get_class_map(train, &map, &err), err);
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.classes = &map;
    path = test_data("kg-fb15k237/kg-fb15k237_test.txt.gz");
    MADE(xsm_dataset, test, xsm_dataset_read(NULL, path, NULL, &options, &test, &err));
    xsm_dataset_info info = info_of(test);
    assert_int_equal(info.rows, 22850);
    assert_int_equal(info.classes, 14505);
    /* 14,541 entities, 14,505 of them seen in training: some of the test labels must be among the other 36. */
    assert_in_range(info.unseen_labels, 1, 500);
    assert_true(info.unseen_rows > 0 && info.unseen_rows <= info.unseen_labels);
    /* Each class has the same label in the file as in training: read without the map and compare. */
    MADE(xsm_dataset, plain, xsm_dataset_read(NULL, path, NULL, NULL, &plain, &err));
    uint64_t unseen = 0;
    for (uint64_t i = 0; i < plain->counted.labels; i++) {
        int64_t label = plain->map.labels[plain->labels[i]];
        if (test->labels[i] == XSM_CLASS_UNSEEN) {
            unseen++;
        } else {
            assert_int_equal(train->map.labels[test->labels[i]], label);
        }
    }
    assert_int_equal(unseen, info.unseen_labels);
}

static void names(void **state)
{
    (void)state;
    const char *path = test_data("20news/20news_train.txt.gz");
    if (!path) {
        skip();
    }
    xsm_error err = XSM_ERROR_INIT;
    MADE(xsm_dataset, d, xsm_dataset_read(NULL, path, NULL, NULL, &d, &err));
    path = test_data("20news/labels.txt.gz");
    assert_non_null(path);
    assert_ok(xsm_dataset_read_names(d, path, &err), err);
    assert_string_equal(d->map.names[0], "alt.atheism");
    assert_string_equal(d->map.names[19], "talk.religion.misc");
}

int main(void)
{
#ifndef TEST_ZLIB
    print_message("the real data are compressed, and this build reads no gzip: skipped\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(against_training),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests_name("real", tests, NULL, NULL);
}
