/* Labels that few rows have are left out, by a count that the test keeps for itself. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 40, CLASSES = 9, MOST = ROWS * 3 };

/* Rows of one feature, the row's number, and up to three labels, of which class k is drawn the more often the larger it
 * is; the last of every fifth row is unseen. The weight of a label says which it is: row + label / 16. */
typedef struct sample {
    float values[ROWS], weights[MOST];
    uint64_t offsets[ROWS + 1];
    uint32_t labels[MOST];
    uint64_t counts[CLASSES];
} sample;

static float weight_of(uint64_t row, uint32_t label)
{
    return (float)row + (float)(label == XSM_CLASS_UNSEEN ? 15 : label) / 16;
}

static void fill(sample *s, unsigned seed)
{
    memset(s, 0, sizeof *s);
    srand(seed);
    for (uint64_t i = 0, n = 0; i < ROWS; i++) {
        uint32_t last = CLASSES;
        s->values[i] = (float)i;
        for (int j = 0; j < (int)(i % 4); j++) {
            uint32_t k = (uint32_t)rand() % CLASSES;
            k = k > (uint32_t)rand() % CLASSES ? k : k / 2;
            if (j == 2 && i % 5 == 0) {
                k = XSM_CLASS_UNSEEN;
            } else if (k >= last || k == 3) { /* no row has class 3 */
                continue;
            } else {
                s->counts[k]++;
                last = k;
            }
            s->weights[n] = weight_of(i, k);
            s->labels[n++] = k;
        }
        s->offsets[i + 1] = n;
    }
}

static xsm_dataset *dataset_of(const sample *s, int32_t ownership)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_labels labels = {sizeof labels, CLASSES, 0, s->offsets, s->labels, s->weights};
    NEW(xsm_dataset, d,
        xsm_dataset_from_dense(NULL,
                               STRUCT(xsm_dense_rows, .values = s->values, .rows = ROWS, .features = 1,
                                      .labels = &labels, .ownership = ownership),
                               &d, &err));
    return d;
}

/* Writes the rows to a cache, and maps that. */
static xsm_dataset *cached(xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_dataset_write(d, test_path("cache"), STRUCT(xsm_write_options, .format = XSM_FORMAT_CACHE), &err),
              err);
    NEW(xsm_dataset, mapped, xsm_dataset_read(NULL, test_path("cache"), NULL, NULL, &mapped, &err));
    xsm_dataset_free(d);
    return mapped;
}

static int64_t label_of(const xsm_class_map *map, uint32_t k)
{
    return map->labels ? map->labels[k] : k;
}

/* Every row has what it had, in that order, without the labels of classes that do not stay. Returns how many rows have
 * no label. */
static uint64_t check_rows(const xsm_dataset *d, const sample *s, const bool *stays)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    uint64_t unlabelled = 0;
    assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
    for (uint64_t i = 0; i < ROWS; i++) {
        xsm_row row = XSM_ROW_INIT;
        uint64_t next = 0;
        assert_ok(xsm_dataset_get_row(d, i, &row, &err), err);
        for (uint64_t j = s->offsets[i]; j < s->offsets[i + 1]; j++) {
            const uint32_t label = s->labels[j];
            if (label != XSM_CLASS_UNSEEN && !stays[label]) {
                continue;
            }
            assert_true(next < row.label_count);
            const uint32_t k = row.labels[next];
            assert_true(label == XSM_CLASS_UNSEEN ? k == label : label_of(&map, k) == label);
            assert_true(row.label_weights[next] == weight_of(i, label));
            next++;
        }
        assert_int_equal(next, row.label_count);
        unlabelled += next == 0;
    }
    return unlabelled;
}

TEST(rare_labels_go)
{
    static const int64_t known_labels[] = {0, 3, 5, 77};
    sample s, before;
    for (int round = 0; round < 3 * 5 * 2; round++) {
        xsm_class_map known = XSM_CLASS_MAP_INIT, map = XSM_CLASS_MAP_INIT;
        const uint64_t least = (uint64_t)(round / 3 % 5) * 2 + 1;
        const bool by_map = round >= 15;
        known.classes = 4;
        known.labels = known_labels;
        fill(&s, (unsigned)round + 1);
        before = s;
        HELD(xsm_dataset, d) = dataset_of(&s, round % 3 == 0 ? XSM_COPY : XSM_BORROW);
        d = round % 3 == 2 ? cached(d) : d;
        bool stays[CLASSES];
        uint64_t rare = 0, dropped = 99;
        uint32_t kept = 0, some = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            stays[k] = s.counts[k] >= least || (by_map && (k == 0 || k == 3 || k == 5));
            rare += s.counts[k] > 0 && !stays[k];
            kept += stays[k];
            some += s.counts[k] > 0 && stays[k];
        }
        assert_true(some > 0);
        assert_ok(xsm_dataset_drop_rare_labels(d, least, by_map ? &known : NULL, &dropped, &err), err);
        assert_int_equal(dropped, rare);
        xsm_dataset_info info = XSM_DATASET_INFO_INIT;
        assert_ok(xsm_dataset_get_info(d, &info, &err), err);
        assert_int_equal(info.classes, kept);
        assert_int_equal(info.unlabelled, check_rows(d, &s, stays));
        assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
        for (uint32_t k = 0; k < kept; k++) {
            assert_int_equal(map.counts[k], s.counts[label_of(&map, k)]);
        }
        assert_memory_equal(&s, &before, sizeof s); /* what was borrowed */
    }
}

TEST(none_would_be_left)
{
    xsm_class_map known = XSM_CLASS_MAP_INIT;
    static const int64_t falling[] = {4, 2};
    sample s;
    uint64_t most = 0, dropped = 99;
    bool stays[CLASSES];
    fill(&s, 1);
    for (uint32_t k = 0; k < CLASSES; k++) {
        most = s.counts[k] > most ? s.counts[k] : most;
        stays[k] = true;
    }
    xsm_dataset *d = dataset_of(&s, XSM_BORROW);
    char expected[64];
    snprintf(expected, sizeof expected, "the most frequent has %d", (int)most);
    assert_fails(xsm_dataset_drop_rare_labels(d, most + 1, NULL, &dropped, &err), XSM_ERROR_DATA, err);
    assert_non_null(strstr(err.message, expected));
    known.classes = 2;
    known.labels = (const int64_t[]){3, 100}; /* which no row has */
    assert_fails(xsm_dataset_drop_rare_labels(d, most + 1, &known, &dropped, &err), XSM_ERROR_DATA, err);
    known.labels = falling;
    assert_fails(xsm_dataset_drop_rare_labels(d, 1, &known, &dropped, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_dataset_drop_rare_labels(d, 0, NULL, &dropped, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_dataset_drop_rare_labels(NULL, 1, NULL, &dropped, &err), XSM_ERROR_ARGUMENT, err);
    assert_int_equal(dropped, 99);
    (void)check_rows(d, &s, stays);
    xsm_dataset_free(d);
    /* Rows without labels. */
    assert_ok(
        xsm_dataset_from_dense(NULL, STRUCT(xsm_dense_rows, .values = s.values, .rows = ROWS, .features = 1), &d, &err),
        err);
    known.labels = NULL;
    assert_fails(xsm_dataset_drop_rare_labels(d, 1, NULL, NULL, &err), XSM_ERROR_DATA, err);
    assert_fails(xsm_dataset_drop_rare_labels(d, 1, &known, NULL, &err), XSM_ERROR_DATA, err);
    xsm_dataset_free(d);
}

/* Names are matched by name, whatever their numbers. */
TEST(names_stay)
{
    static const char *const names[] = {"zoo", "bear"};
    xsm_class_map known = XSM_CLASS_MAP_INIT, map = XSM_CLASS_MAP_INIT;
    uint64_t dropped = 0, rows = 0;
    const char *path = test_file("animals", TEXT("__label__ant __label__bear x\n__label__ant y\n__label__cat z\n"));
    known.classes = 2;
    known.names = names;
    MADE(xsm_dataset, d, xsm_dataset_read(NULL, path, NULL, NULL, &d, &err));
    assert_ok(xsm_dataset_drop_rare_labels(d, 2, &known, &dropped, &err), err);
    assert_int_equal(dropped, 1);
    assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
    assert_int_equal(map.classes, 2);
    assert_string_equal(map.names[0], "ant");
    assert_string_equal(map.names[1], "bear");
    assert_ok(xsm_dataset_drop(d, XSM_DROP_UNLABELLED, &rows, &err), err);
    assert_int_equal(rows, 1);
}
