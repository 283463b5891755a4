/*
 * Tests of text: the features of words, n-grams and labels, the words that a vocabulary keeps, and that a model has
 * its vocabulary. Buckets are computed here a second time, from a line's list of words, with XXH3 from its own header.
 */
#include "support.h"

#include "data/dataset.h"
#include "base/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/vocabulary.h>
#include <xsoftmax/model.h>
#include <xsoftmax/predict.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static xsm_status read_text(xsm_context *ctx, const char *text, size_t step, const xsm_read_options *options,
                            xsm_dataset **out, xsm_error *err)
{
    test_bytes bytes = {text, strlen(text), step, SIZE_MAX, 0};
    return xsm_dataset_read(ctx, NULL, TEST_BYTES(&bytes, "words.txt"), options, out, err);
}

static xsm_dataset *must_read(const char *text, const xsm_text_options *how, const xsm_class_map *map)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_dataset, d,
        read_text(NULL, text, 0, STRUCT(xsm_read_options, .format = XSM_FORMAT_TEXT, .text = how, .classes = map), &d,
                  &err));
    return d;
}

/* `[words] [names]: labels | word word*2 #bucket; ...` */
static void describe(const xsm_dataset *d, char *out, size_t size)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
    uint32_t words = xsm_vocabulary_words(map.vocabulary);
    size_t used = (size_t)snprintf(out, size, "[");
    for (uint32_t i = 0; i < words; i++) {
        used += (size_t)snprintf(out + used, size - used, i ? " %s" : "%s", xsm_vocabulary_word(map.vocabulary, i));
    }
    assert_null(xsm_vocabulary_word(map.vocabulary, words));
    used += (size_t)snprintf(out + used, size - used, "] [");
    for (uint32_t k = 0; k < map.classes; k++) {
        used += (size_t)snprintf(out + used, size - used, k ? " %s" : "%s", map.names[k]);
    }
    used += (size_t)snprintf(out + used, size - used, "]:");
    for (uint64_t i = 0; i < d->rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(d, i, &row, &err), err);
        used += (size_t)snprintf(out + used, size - used, i ? ";" : "");
        for (uint64_t j = 0; j < row.label_count; j++) {
            used += row.labels[j] == XSM_CLASS_UNSEEN ? (size_t)snprintf(out + used, size - used, " ?")
                                                      : (size_t)snprintf(out + used, size - used, " %u", row.labels[j]);
        }
        used += (size_t)snprintf(out + used, size - used, " |");
        for (uint64_t j = 0; j < row.count; j++) {
            uint32_t f = row.index[j];
            used += f < words ? (size_t)snprintf(out + used, size - used, " %s", xsm_vocabulary_word(map.vocabulary, f))
                              : (size_t)snprintf(out + used, size - used, " #%u", f - words);
            if (row.values[j] != 1) {
                used += (size_t)snprintf(out + used, size - used, "*%g", (double)row.values[j]);
            }
        }
    }
}

static void assert_described(const xsm_dataset *d, const char *wanted)
{
    char text[4096];
    describe(d, text, sizeof text);
    assert_string_equal(text, wanted);
}

typedef struct good {
    const char *text, *wanted;
    xsm_text_options how;
    int32_t labels;
} good;

#define HOW(...)                                                                                                       \
    {                                                                                                                  \
        .size = sizeof(xsm_text_options), __VA_ARGS__                                                                  \
    }
#define PLAIN HOW(.buckets = 0)

static const good cases[] = {
    /* The most frequent word first, equally frequent ones bytewise. */
    {"__label__x b a b\n__label__y c a b\n", "[b a c] [x y]: 0 | b*2 a; 1 | b a c", PLAIN, 0},
    {"__label__x b a b\n__label__y c a b", "[b a] [x y]: 0 | b*2 a; 1 | b a", HOW(.min_count = 2), 0},
    {"__label__x b a b\n__label__y c a b", "[b] [x y]: 0 | b*2; 1 | b", HOW(.min_count = 3), 0},
    /* Labels anywhere, several, twice the same, none; blanks of all kinds; empty lines are rows. */
    {"a __label__x b\t__label__w\v__label__x\f\n\n  \nb a\r\n", "[a b] [w x]: 1 0 | a b; |; |; | a b", PLAIN, 0},
    {"__label__x\n__label__y a", "[a] [x y]: 0 |; 1 | a", PLAIN, 0},
    /* Names are names: no numbers are made of them. */
    {"__label__2 a\n__label__10 a\n__label__02 a\n", "[a] [02 10 2]: 2 | a; 1 | a; 0 | a", PLAIN, 0},
    {"__label__\xC3\xA9t\xC3\xA9 caf\xC3\xA9\n", "[caf\xC3\xA9] [\xC3\xA9t\xC3\xA9]: 0 | caf\xC3\xA9", PLAIN, 0},
    {"\xEF\xBB\xBF__label__x a", "[a] [x]: 0 | a", PLAIN, 0},
    /* Another prefix. */
    {"#x a __label__y", "[__label__y a] [x]: 0 | __label__y a", HOW(.label_prefix = "#"), 0},
    {"__label__ a", "[__label__ a] []: | __label__ a", HOW(.label_prefix = "__label__x"), 0},
    /* One label a row. */
    {"__label__y __label__x a\n__label__x a", "[a] [x y]: 1 | a; 0 | a", PLAIN, XSM_KEEP_LABELS_FIRST},
    {"__label__y __label__x a\n__label__z a", "[a] [x y z]: 0 | a; 2 | a", PLAIN, XSM_KEEP_LABELS_SMALLEST},
    /* A bucket for everything. */
    {"__label__y a b c b", "[b a c] [y]: 0 | b*2 a c #0*5", HOW(.word_ngrams = 3, .buckets = 1), 0},
    /* <a>: a, <a, a>, <a>; a bracket alone is none. */
    {"a", "[a] []: | a #0*4", HOW(.max_chars = 3, .buckets = 1), 0},
    {"a", "[a] []: | a #0", HOW(.min_chars = 3, .max_chars = 4, .buckets = 1), 0},
    /* Characters, not bytes: <e'e'> has four pairs ... */
    {"\xC3\xA9\xE6\x97\xA5", "[\xC3\xA9\xE6\x97\xA5] []: | \xC3\xA9\xE6\x97\xA5 #0*3",
     HOW(.min_chars = 2, .max_chars = 2, .buckets = 1), 0},
    /* Rare words are no features; their n-grams are. */
    {"a b\na", "[a] []: | a #0; | a", HOW(.min_count = 2, .word_ngrams = 2, .buckets = 1), 0},
    {"a b", "[] []: | #0", HOW(.min_count = 2, .word_ngrams = 2, .buckets = 1), 0},
};

TEST(rows_of_text)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t step = 0; step < 4; step++) {
            MADE(xsm_dataset, d,
                 read_text(NULL, cases[i].text, step,
                           STRUCT(xsm_read_options, .format = XSM_FORMAT_TEXT, .labels = cases[i].labels,
                                  .text = &cases[i].how),
                           &d, &err));
            assert_described(d, cases[i].wanted);
            assert_int_equal(d->format, XSM_FORMAT_TEXT);
        }
    }
}

TEST(detection)
{
    static const struct {
        const char *text, *prefix;
        int32_t format;
    } files[] = {
        {"__label__x a b", NULL, XSM_FORMAT_TEXT},
        {"\n\n \t__label__x 1:2", NULL, XSM_FORMAT_TEXT},
        {"@x 1 2", "@", XSM_FORMAT_TEXT},
        {"__label__x,label\n1,2", NULL, XSM_FORMAT_TEXT},
        {"__label__x,label\n1,2", "@", XSM_FORMAT_CSV},
        {"1 2:3", NULL, XSM_FORMAT_LIBSVM},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        xsm_read_options options = XSM_READ_OPTIONS_INIT;
        xsm_text_options how = XSM_TEXT_OPTIONS_INIT;
        how.label_prefix = files[i].prefix;
        options.text = &how;
        MADE(xsm_dataset, d, read_text(NULL, files[i].text, 0, &options, &d, &err));
        assert_int_equal(d->format, files[i].format);
    }
}

/* -- buckets, a second time ---------------------------------------------------------------------------------------- */

static uint32_t bucket(uint64_t hash, uint32_t buckets)
{
    hash = (hash ^ hash >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)((hash >> 32) * (uint64_t)buckets / (UINT64_C(1) << 32));
}

TEST(buckets_are_hashes)
{
    enum { BUCKETS = 1000003, WORDS = 4, MOST = 3 };
    static const char *const words[WORDS] = {"to", "be", "\xC3\xA9tre", "to"};
    /* Every n-gram of characters, written down. */
    static const char *const chars[] = {"<to", "to>", "<be",  "be>",  "<\xC3\xA9t",  "\xC3\xA9tr",  "tre",  "re>",
                                        "<to", "to>", "<to>", "<be>", "<\xC3\xA9tr", "\xC3\xA9tre", "tre>", "<to>"};
    HELD_MEMORY(float, wanted) = calloc(BUCKETS, sizeof *wanted);
    assert_non_null(wanted);
    for (size_t first = 0; first < WORDS; first++) {
        uint64_t hash = XXH3_64bits(words[first], strlen(words[first]));
        for (size_t n = 1; n < MOST && first + n < WORDS; n++) {
            hash = hash * 116049371 + XXH3_64bits(words[first + n], strlen(words[first + n]));
            wanted[bucket(hash, BUCKETS)]++;
        }
    }
    for (size_t i = 0; i < sizeof chars / sizeof *chars; i++) {
        wanted[bucket(XXH3_64bits(chars[i], strlen(chars[i])), BUCKETS)]++;
    }
    xsm_text_options how = HOW(.word_ngrams = MOST, .min_chars = 3, .max_chars = 4, .buckets = BUCKETS);
    HELD(xsm_dataset, d) = must_read("__label__q to be __label__r \xC3\xA9tre to", &how, NULL);
    assert_int_equal(d->features, 3 + BUCKETS);
    size_t found = 0;
    size_t distinct = 0;
    for (uint64_t j = 0; j < d->offsets[1]; j++) {
        if (d->index[j] >= 3) {
            assert_true(wanted[d->index[j] - 3] == d->values[j]);
            found++;
        }
    }
    for (size_t b = 0; b < BUCKETS; b++) {
        distinct += wanted[b] > 0;
    }
    assert_int_equal(found, distinct);
    assert_true(distinct > 15);
}

/* -- against a vocabulary ------------------------------------------------------------------------------------------ */

static const char training[] = "__label__b the cat sat\n__label__a the dog the dog\n__label__c a cat\n";
static const char testing[] =
    "the zebra cat\n__label__a dog zebra\n__label__z the the\n\n__label__b __label__z sat a\n";

TEST(known_words)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset *train = must_read(training, NULL, NULL);
    assert_described(train, "[the cat dog a sat] [a b c]: 1 | the cat sat; 0 | the*2 dog*2; 2 | cat a");
    assert_ok(xsm_dataset_get_class_map(train, &map, &err), err);
    xsm_dataset *test = must_read(testing, NULL, &map);
    const char *wanted = "[the cat dog a sat] [a b c]: | the cat; 0 | dog; ? | the*2; |; 1 ? | a sat";
    assert_described(test, wanted);
    xsm_dataset_free(test);

    /* Found out by itself, against a map with a vocabulary, whatever the lines look like. */
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.classes = &map;
    assert_ok(read_text(NULL, "1 2:3\n", 0, &options, &test, &err), err);
    assert_described(test, "[the cat dog a sat] [a b c]: |");
    /* Its rows are of the same features, and have the vocabulary still. */
    assert_int_equal(test->features, 5);
    /* Rows without a single feature can be copied like any others. */
    uint64_t first = 0;
    NEW(xsm_dataset, copy, xsm_dataset_select(test, &first, 1, &copy, &err));
    assert_described(copy, "[the cat dog a sat] [a b c]: |");
    assert_true(test->capacity.index > 0 && test->capacity.values > 0);
    xsm_dataset_free(copy);
    xsm_dataset_free(test);

    /* D as asked for: features too many are an error, or dropped and counted against a smaller map. */
    map.features = 2;
    test = must_read(testing, NULL, &map);
    assert_int_equal(test->features, 2);
    assert_int_equal(test->counted.dropped_features, 3 + 2); /* and a word that the vocabulary lacks */
    xsm_dataset_free(test);
    map.features = 9;
    test = must_read(testing, NULL, &map);
    assert_int_equal(test->features, 9);
    xsm_dataset_free(test);

    /* Options that agree, and that do not. */
    xsm_text_options how = XSM_TEXT_OPTIONS_INIT;
    assert_ok(xsm_vocabulary_get_options(map.vocabulary, &how, &err), err);
    assert_string_equal(how.label_prefix, "__label__");
    assert_int_equal(how.min_count, 1);
    assert_int_equal(how.word_ngrams, 1);
    assert_int_equal(how.buckets, 1 << 18);
    test = must_read(testing, &how, &map);
    xsm_dataset_free(test);
    test = NULL;
    how.word_ngrams = 2;
    options.text = &how;
    assert_fails(read_text(NULL, testing, 0, &options, &test, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "vocabulary"));
    assert_null(test);
    xsm_dataset_free(train);
    assert_int_equal(xsm_vocabulary_words(NULL), 0);
    assert_null(xsm_vocabulary_word(NULL, 0));
    assert_fails(xsm_vocabulary_get_options(NULL, &how, &err), XSM_ERROR_ARGUMENT, err);
}

/* A part of a dataset has the vocabulary when the whole is gone. */
TEST(parts_keep_it)
{
    xsm_dataset *train = must_read(training, NULL, NULL);
    uint64_t rows[] = {2, 0};
    MADE(xsm_dataset, chosen, xsm_dataset_select(train, rows, 2, &chosen, &err));
    xsm_dataset_free(train);
    assert_ok(xsm_dataset_drop(chosen, XSM_DROP_CLASSES, NULL, &err), err);
    assert_described(chosen, "[the cat dog a sat] [b c]: 1 | cat a; 0 | the cat sat");
}

TEST(wrong_options)
{
    static const struct {
        xsm_text_options how;
        xsm_status status;
        const char *says;
    } bad[] = {
        {HOW(.label_prefix = ""), XSM_ERROR_RANGE, "label_prefix is ''"},
        {HOW(.label_prefix = "a b"), XSM_ERROR_RANGE, "without blanks"},
        {HOW(.label_prefix = "\xFF"), XSM_ERROR_RANGE, "UTF-8"},
        {HOW(.word_ngrams = 17), XSM_ERROR_RANGE, "1 to 16"},
        {HOW(.min_chars = 3), XSM_ERROR_RANGE, "min_chars"},
        {HOW(.min_chars = 3, .max_chars = 2), XSM_ERROR_RANGE, "min_chars"},
        {HOW(.max_chars = 65), XSM_ERROR_RANGE, "64"},
        {HOW(.buckets = UINT32_C(1) << 31), XSM_ERROR_RANGE, "2147483647"},
        {HOW(.reserved = 1), XSM_ERROR_STRUCT_NEW, "reserved"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        xsm_read_options options = XSM_READ_OPTIONS_INIT;
        xsm_dataset *d = NULL;
        options.text = &bad[i].how;
        assert_fails(read_text(NULL, training, 0, &options, &d, &err), bad[i].status, err);
        assert_non_null(strstr(err.message, bad[i].says));
        assert_null(d);
    }
}

/* A line that is longer than every buffer, and a word that is. */
TEST(long_lines)
{
    size_t size = (size_t)3 << 20;
    HELD_MEMORY(char, text) = malloc(size + 1);
    assert_non_null(text);
    for (size_t i = 0; i < size; i++) {
        text[i] = i % 2 ? ' ' : (char)('a' + i / 2 % 3);
    }
    text[size] = '\0';
    xsm_dataset *d = must_read(text, NULL, NULL);
    assert_int_equal(d->rows, 1);
    assert_int_equal(d->offsets[1], 3);
    assert_true(d->values[0] + d->values[1] + d->values[2] == (float)(size / 2));
    xsm_dataset_free(d);
    memset(text, 'x', size);
    xsm_text_options how = HOW(.min_chars = 5, .max_chars = 5, .buckets = 1);
    d = must_read(text, &how, NULL);
    assert_int_equal(d->offsets[1], 2);
    assert_true(d->values[1] == (float)(size + 2 - 4));
    xsm_dataset_free(d);
}

/* -- in a model ---------------------------------------------------------------------------------------------------- */

static const xsm_text_options rich =
    HOW(.min_count = 2, .word_ngrams = 2, .min_chars = 2, .max_chars = 3, .buckets = 50);

/* Reads, makes a model that knows the text, saves and loads it, and reads new text for it. */
static xsm_status round_trip(void *state, xsm_context *ctx, xsm_error *err)
{
    const char *path = state;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_dataset *train = NULL;
    HELD(xsm_dataset, test) = NULL;
    xsm_model *made = NULL;
    xsm_model *model = NULL;
    options.text = &rich;
    xsm_status status = read_text(ctx, training, 0, &options, &train, err);
    status = status == XSM_OK ? xsm_dataset_get_class_map(train, &map, err) : status;
    status = status == XSM_OK ? xsm_model_new_linear(ctx, map.features, map.classes, NULL, &made, err) : status;
    status = status == XSM_OK ? xsm_model_set_class_map(made, &map, err) : status;
    xsm_dataset_free(train);
    status = status == XSM_OK ? xsm_model_save(made, path, NULL, err) : status;
    xsm_model_free(made);
    status = status == XSM_OK ? xsm_model_load(ctx, path, NULL, NULL, &model, err) : status;
    status = status == XSM_OK ? xsm_model_get_class_map(model, &map, err) : status;
    options.classes = &map;
    options.text = NULL;
    status = status == XSM_OK ? read_text(ctx, training, 0, &options, &test, err) : status;
    xsm_model_free(model); /* the rows have a hold on the vocabulary of their own */
    if (status == XSM_OK) {
        HELD(xsm_dataset, again) = must_read(training, &rich, NULL);
        char a[4096];
        char b[4096];
        describe(again, a, sizeof a);
        describe(test, b, sizeof b);
        assert_string_equal(a, b);
        assert_int_equal(again->features, test->features);
    }
    return status;
}

TEST(in_a_model)
{
    char path[512];
    snprintf(path, sizeof path, "%s", test_path("text.safetensors"));
    assert_true(test_every_allocation(round_trip, path) > 30);
}

/* Saving what was loaded gives the same bytes. */
TEST(same_bytes)
{
    char first[512];
    char second[512];
    snprintf(first, sizeof first, "%s", test_path("first.safetensors"));
    snprintf(second, sizeof second, "%s", test_path("second.safetensors"));
    assert_ok(round_trip(first, NULL, &err), err);
    NEW(xsm_model, m, xsm_model_load(NULL, first, NULL, NULL, &m, &err));
    assert_ok(xsm_model_save(m, second, NULL, &err), err);
    xsm_model_free(m);
    FILE *a = fopen(first, "rb");
    FILE *b = fopen(second, "rb");
    assert_non_null(a);
    assert_non_null(b);
    int c;
    do {
        c = getc(a);
        assert_int_equal(c, getc(b));
    } while (c != EOF);
    fclose(a);
    fclose(b);
}

/* Files whose vocabulary is not as it should be. */
TEST(damaged)
{
    static const char fine[] = "words=2 min_count=1 word_ngrams=1 min_chars=0 max_chars=0 buckets=9 label_prefix=#";
    static const struct {
        const char *metadata, *lines, *says;
    } files[] = {
        {fine, "a\nb\n", NULL},
        {fine, "a\n", "line 2 of the vocabulary"},
        {fine, "a\nb", "line 2 of the vocabulary"},
        {fine, "a\n\n", "line 2 of the vocabulary"},
        {fine, "a\n\xFF\n", "line 2 of the vocabulary"},
        {fine, "a\na\n", "second time"},
        {fine, "a\nb\nc\n", "more lines"},
        {fine, NULL, "need each other"},
        {NULL, "a\n", "need each other"},
        {"words=2", "a\nb\n", "words=V"},
        {"words=x min_count=1 word_ngrams=1 min_chars=0 max_chars=0 buckets=9 label_prefix=#", "a\nb\n", "words=V"},
        {"words=4294967296 min_count=1 word_ngrams=1 min_chars=0 max_chars=0 buckets=9 label_prefix=#", "a\nb\n",
         "words=V"},
        {"words=2 min_count=1 word_ngrams=99 min_chars=0 max_chars=0 buckets=9 label_prefix=#", "a\nb\n", "1 to 16"},
        {"words=2 min_count=1 word_ngrams=1 min_chars=0 max_chars=0 buckets=9 label_prefix=", "a\nb\n", "label_prefix"},
        {"words=2147483647 min_count=1 word_ngrams=2 min_chars=0 max_chars=0 buckets=9 label_prefix=#", "a\nb\n",
         "9 buckets"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = test_path("damaged.safetensors");
        MADE(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
        static const float weight[4] = {1, 2, 3, 4};
        size_t size = files[i].lines ? strlen(files[i].lines) : 0;
        xsmi_tensor tensors[] = {{.name = "weight", .dtype = XSMI_DTYPE_F32, .rank = 2, .shape = {2, 2}},
                                 {.name = "vocabulary", .dtype = XSMI_DTYPE_U8, .rank = 1, .shape = {size}}};
        xsmi_entry entry = {"vocabulary", files[i].metadata};
        xsmi_container_writer *w = NULL;
        assert_ok(xsmi_container_create(
                      ctx, path,
                      &(xsmi_container_plan){tensors, files[i].lines ? 2 : 1, 0, &entry, files[i].metadata != NULL}, &w,
                      &err),
                  err);
        assert_ok(xsmi_container_write(w, weight, sizeof weight, &err), err);
        if (size > 0) {
            assert_ok(xsmi_container_write(w, files[i].lines, size, &err), err);
        }
        assert_ok(xsmi_container_commit(w, &err), err);
        HELD(xsm_model, m) = NULL;
        xsm_status status = xsm_model_load(NULL, path, NULL, NULL, &m, &err);
        if (!files[i].says) {
            assert_int_equal(status, XSM_OK);
        } else if (status != XSM_ERROR_FORMAT || !strstr(err.message, files[i].says) || m) {
            fail_msg("file %zu: %s: %s", i, xsm_status_name(status), err.message);
        }
    }
}
