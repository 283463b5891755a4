/*
 * Tests of models that read text and get words: the new ones' features follow all that there were, words and buckets
 * keep theirs, files keep both, and rows read one at a time, from a dataset or through a cache are the same. Other
 * words or n-grams than the model's are refused, though they be as many.
 */
#include "training.h"

#include "data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/encoder.h>
#include <xsoftmax/vocabulary.h>
#include <xsoftmax/model.h>

static xsm_status read_text(const char *text, const xsm_text_options *how, const xsm_class_map *map, int32_t grows,
                            xsm_dataset **out, xsm_error *err)
{
    test_bytes bytes = {text, strlen(text), 0, SIZE_MAX, 0};
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.format = XSM_FORMAT_TEXT;
    options.text = how;
    options.classes = map;
    options.new_features = options.new_labels = grows;
    return xsm_dataset_read(NULL, NULL, TEST_BYTES(&bytes, "words.txt"), &options, out, err);
}

/* `a:0 b:1 ...`: the words and their features; and the classes. */
static void assert_words(const xsm_class_map *map, const char *wanted)
{
    char text[1024] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < xsm_vocabulary_words(map->vocabulary); i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s:%u ", xsm_vocabulary_word(map->vocabulary, i),
                                 xsm_vocabulary_feature(map->vocabulary, i));
    }
    for (uint32_t k = 0; k < map->classes; k++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s ", map->names[k]);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "%u", map->features);
    assert_string_equal(text, wanted);
}

/* A model of the rows, hidden != 0: an embedding model, with weights that differ. */
static xsm_model *model_of(const xsm_dataset *d, uint32_t hidden, const char *steps)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    const xsm_class_map map = test_map_of(d);
    NEW(xsm_model, m, xsm_model_new_linear(NULL, map.features - 1, map.classes, NULL, &m, &err));
    assert_fails(xsm_model_set_class_map(m, &map, &err), XSM_ERROR_SHAPE, err); /* of a network's input, say */
    xsm_model_free(m);
    assert_ok(hidden ? xsm_model_new_embedding(NULL, map.features, hidden, map.classes, NULL, &m, &err)
                     : xsm_model_new_linear(NULL, map.features, map.classes, NULL, &m, &err),
              err);
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    for (uint32_t k = 0; k < map.classes; k++) {
        for (uint32_t j = 0; j < (hidden ? hidden : map.features); j++) {
            p.weight[k * p.class_step + j * p.feature_step] = (float)((k * 7 + j * 13) % 23) - 11;
        }
    }
    assert_ok(xsm_model_set_class_map(m, &map, &err), err);
    NEW(xsm_transform, t, xsm_transform_new(NULL, steps, &t, &err));
    assert_ok(xsm_transform_fit(t, d, &err), err);
    assert_ok(xsm_model_set_transform(m, t, &err), err);
    xsm_transform_free(t);
    return m;
}

/* The model learns the words of the text; its rows, transformed. */
static xsm_dataset *grow(xsm_model *m, const char *text, const xsm_text_options *how)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsm_class_map before = test_map_of_model(m);
    NEW(xsm_dataset, d, read_text(text, how, &before, 1, &d, &err));
    const xsm_class_map map = test_map_of(d);
    assert_ok(xsm_model_grow(m, map.features, &map, &err), err);
    assert_ok(xsm_model_transform(m, d, &err), err);
    return d;
}

static const char training[] = "__label__b the cat sat\n__label__a the dog the dog\n__label__c a cat\n";
static const char more[] = "__label__d emu the yak\n__label__a yak cat __label__aa\n";
static const char last[] = "__label__e ant emu cat\n";

/* The rows of a text, each the same read one at a time by the model. */
static void assert_encoded(const xsm_model *m, const char *text, const xsm_dataset *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    MADE(xsm_encoder, encoder, xsm_encoder_new(m, NULL, &encoder, &err));
    for (uint64_t i = 0; i < rows->rows; i++) {
        xsm_batch batch = XSM_BATCH_INIT;
        xsm_row row = XSM_ROW_INIT;
        const size_t length = strcspn(text, "\n");
        assert_ok(xsm_dataset_get_row(rows, i, &row, &err), err);
        assert_ok(xsm_encoder_encode(encoder, text, length, &batch, &err), err);
        assert_int_equal(batch.offsets[1], row.count);
        assert_memory_equal(batch.index, row.index, row.count * sizeof *row.index);
        assert_memory_equal(batch.values, row.values, row.count * sizeof *row.values);
        text += length + 1;
    }
}

TEST(words_follow_all_features)
{
    static const struct {
        xsm_text_options how;
        const char *once, *twice;
    } kinds[] = {
        {{.size = sizeof(xsm_text_options)},
         "the:0 cat:1 dog:2 a:3 sat:4 yak:5 emu:6 a b c aa d 7",
         "the:0 cat:1 dog:2 a:3 sat:4 yak:5 emu:6 ant:7 a b c aa d e 8"},
        {{.size = sizeof(xsm_text_options), .word_ngrams = 2, .buckets = 10},
         "the:0 cat:1 dog:2 a:3 sat:4 yak:15 emu:16 a b c aa d 17",
         "the:0 cat:1 dog:2 a:3 sat:4 yak:15 emu:16 ant:17 a b c aa d e 18"},
        {{.size = sizeof(xsm_text_options), .min_chars = 2, .max_chars = 3, .buckets = 4, .min_count = 2},
         "the:0 cat:1 dog:2 yak:7 a b c aa d 8",
         "the:0 cat:1 dog:2 yak:7 a b c aa d e 8"},
    };
    static const char *const steps[] = {"", "log,unit", "tfidf,unit", "standard,unit"};
    for (size_t i = 0; i < 2 * 4 * sizeof kinds / sizeof *kinds; i++) {
        const size_t kind = i / 8;
        MADE(xsm_dataset, train, read_text(training, &kinds[kind].how, NULL, 0, &train, &err));
        HELD(xsm_model, m) = model_of(train, i % 2 ? 3 : 0, steps[i % 8 / 2]);
        xsm_dataset *rows = grow(m, more, NULL);
        xsm_class_map map = test_map_of_model(m);
        assert_words(&map, kinds[kind].once);
        assert_encoded(m, more, rows);
        xsm_dataset_free(rows);
        /* Again, by what its file says. */
        const char *path = test_path("model");
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        MADE(xsm_model, loaded, xsm_model_load(NULL, path, NULL, NULL, &loaded, &err));
        rows = grow(loaded, last, NULL);
        map = test_map_of_model(loaded);
        assert_words(&map, kinds[kind].twice);
        assert_encoded(loaded, last, rows);
        /* A cache has the rows and the words. */
        xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
        write.format = XSM_FORMAT_CACHE;
        path = test_path("cache");
        assert_ok(xsm_dataset_write(rows, path, &write, &err), err);
        NEW(xsm_dataset, back, xsm_dataset_read(NULL, path, NULL, NULL, &back, &err));
        map = test_map_of(back);
        assert_words(&map, kinds[kind].twice);
        assert_encoded(loaded, last, back);
        xsm_dataset_free(back);
        xsm_dataset_free(rows);
    }
}

/* Buckets of n-grams are those of the model, before and after. */
TEST(old_rows_keep_their_features)
{
    MADE(xsm_dataset, train,
         read_text(training, STRUCT(xsm_text_options, .word_ngrams = 3, .buckets = 50), NULL, 0, &train, &err));
    HELD(xsm_model, m) = model_of(train, 0, "");
    xsm_dataset_free(grow(m, more, NULL));
    const xsm_class_map map = test_map_of_model(m);
    MADE(xsm_dataset, again, read_text(training, NULL, &map, 0, &again, &err));
    assert_int_equal(again->offsets[again->rows], train->offsets[train->rows]);
    assert_memory_equal(again->index, train->index, train->offsets[train->rows] * sizeof *train->index);
}

TEST(least_counts_of_new_words)
{
    xsm_text_options how = XSM_TEXT_OPTIONS_INIT;
    MADE(xsm_dataset, train, read_text(training, NULL, NULL, 0, &train, &err));
    HELD(xsm_model, m) = model_of(train, 0, "");
    xsm_class_map map = test_map_of_model(m);
    /* Left out, and counted. */
    NEW(xsm_dataset, rows, read_text(more, NULL, &map, 0, &rows, &err));
    assert_int_equal(rows->counted.dropped_features, 3);
    assert_int_equal(rows->features, 5);
    xsm_dataset_free(rows);
    how.min_count = 2;
    rows = grow(m, more, &how);
    map = test_map_of_model(m);
    assert_words(&map, "the:0 cat:1 dog:2 a:3 sat:4 yak:5 a b c aa d 6");
    xsm_dataset_free(rows);
    /* None is new any more. */
    rows = grow(m, "__label__a the\n", &how);
    map = test_map_of_model(m);
    assert_words(&map, "the:0 cat:1 dog:2 a:3 sat:4 yak:5 a b c aa d 6");
    xsm_dataset_free(rows);
    how.word_ngrams = 2; /* not the model's */
    rows = NULL;
    assert_fails(read_text(more, &how, &map, 1, &rows, &err), XSM_ERROR_ARGUMENT, err);
    assert_null(rows);
}

/* Old weights stay, a new feature weighs like one in the fewest rows. */
TEST(weights_of_new_words)
{
    MADE(xsm_dataset, train, read_text(training, NULL, NULL, 0, &train, &err));
    HELD(xsm_model, m) = model_of(train, 0, "tfidf");
    HELD(xsm_dataset, rows) = grow(m, more, NULL);
    const float often = (float)(log(4.0 / 3) + 1), once = (float)(log(4.0 / 2) + 1); /* in 2 and in 1 of 3 rows */
    const float wanted[] = {often, once, once, often, once};
    for (size_t j = 0; j < 5; j++) {
        assert_true(fabsf(rows->values[j] - wanted[j]) < 1e-6f); /* the yak emu; cat yak */
    }
}

TEST(other_words_are_refused)
{
    static const char *const others[] = {"__label__b the cat sat\n__label__a the dog the dog\n__label__c o cat\n",
                                         "__label__b cat the sat\n__label__a cat the dog dog\n__label__c a cat\n"};
    xsm_text_options pairs = XSM_TEXT_OPTIONS_INIT;
    pairs.word_ngrams = 2;
    pairs.buckets = 4;
    MADE(xsm_dataset, train, read_text(training, NULL, NULL, 0, &train, &err));
    HELD(xsm_model, m) = model_of(train, 0, "");
    const uint64_t hash = test_hash(m);
    for (int i = 0; i < 3; i++) {
        MADE(xsm_dataset, rows, read_text(i < 2 ? others[i] : training, i < 2 ? NULL : &pairs, NULL, 0, &rows, &err));
        const xsm_class_map own = test_map_of_model(m), map = test_map_of(rows);
        assert_fails(xsm_model_grow(m, map.features, &map, &err), XSM_ERROR_DATA, err);
        assert_non_null(strstr(err.message, i < 2 ? "feature " : "word_ngrams"));
        if (i < 2) { /* rows that may be changed are mapped by word, and new words follow */
            assert_ok(xsm_dataset_extend(rows, &own, &err), err);
            const xsm_class_map joined = test_map_of(rows);
            assert_words(&joined,
                         i == 0 ? "the:0 cat:1 dog:2 a:3 sat:4 o:5 a b c 6" : "the:0 cat:1 dog:2 a:3 sat:4 a b c 5");
        } else {
            assert_fails(xsm_dataset_extend(rows, &own, &err), XSM_ERROR_DATA, err);
            assert_non_null(strstr(err.message, "word_ngrams"));
            assert_int_equal(rows->features, map.features);
        }
    }
    /* Features that are no words, and words of a text of no model. */
    assert_fails(xsm_model_grow(m, 9, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    HELD(xsm_dataset, rows) = NULL;
    assert_fails(read_text(more, NULL, NULL, 1, &rows, &err), XSM_ERROR_ARGUMENT, err);
    assert_int_equal(test_hash(m), hash);
    /* Rows that were read before others brought words get them. */
    const xsm_class_map before = test_map_of_model(m);
    assert_ok(read_text(last, NULL, &before, 0, &rows, &err), err);
    xsm_dataset_free(grow(m, more, NULL));
    const xsm_class_map after = test_map_of_model(m);
    assert_ok(xsm_dataset_extend(rows, &after, &err), err);
    const xsm_class_map both = test_map_of(rows);
    assert_words(&both, "the:0 cat:1 dog:2 a:3 sat:4 yak:5 emu:6 a b c aa d 7");
}

/* Classes are their names, whichever of them are left in the rows. */
TEST(classes_are_their_names)
{
    MADE(xsm_dataset, train,
         read_text("__label__d __label__a w\n__label__b v\n__label__f __label__c w v\n", NULL, NULL, 0, &train, &err));
    assert_ok(xsm_dataset_keep_labels(train, XSM_KEEP_LABELS_FIRST, &err), err);
    assert_ok(xsm_dataset_drop(train, XSM_DROP_CLASSES, NULL, &err), err);
    xsm_class_map map = test_map_of(train);
    assert_words(&map, "v:0 w:1 b d f 2");
    assert_null(map.labels);
    HELD(xsm_model, m) = model_of(train, 0, "");
    map = test_map_of_model(m);
    assert_null(map.labels);
    MADE(xsm_dataset, rows, read_text("__label__c __label__f w\n__label__d v\n", NULL, &map, 1, &rows, &err));
    assert_ok(xsm_dataset_keep_labels(rows, XSM_KEEP_LABELS_FIRST, &err), err);
    assert_ok(xsm_dataset_drop(rows, XSM_DROP_CLASSES, NULL, &err), err);
    assert_ok(xsm_dataset_extend(rows, &map, &err), err);
    const xsm_class_map joined = test_map_of(rows);
    assert_words(&joined, "v:0 w:1 b d f c 2");
    assert_int_equal(rows->labels[0], 3);
    assert_int_equal(rows->labels[1], 1);
}
