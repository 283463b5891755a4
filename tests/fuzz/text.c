/*
 * Fuzzing of text: words, n-grams of words and characters, labels, vocabularies in memory and on disk, tf-idf, corpora.
 *
 * The first eight bytes are settings, the rest is text; what follows the byte 0x1E in it is a second text, which is
 * read with the vocabulary of the first. Where the first byte is odd, the rest is a vocabulary as files have it
 * instead: a line of settings, then the words. Numbers of n-grams are counted here once more, and tf-idf is computed.
 */
#include "fuzz.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/vocabulary.h>
#include <xsoftmax/words/corpus.h>

#include "data/schema.h"
#include "data/vocabulary.h"

enum { SETTINGS = 8, SEPARATOR = 0x1E, FEATURES_MOST = 100000 };

/* -- text --------------------------------------------------------------------------------------------------------- */

static bool is_blank(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* How many n-grams of characters a word has: of the lengths asked for between its brackets, but no bracket alone. */
static uint64_t count_chars(const xsm_text_options *o, const uint8_t *word, size_t length)
{
    uint64_t chars = 2, count = 0;
    for (size_t i = 0; i < length; i++) {
        chars += (word[i] & 0xC0) != 0x80;
    }
    for (uint64_t n = o->max_chars > 0 && o->min_chars == 0 ? 1 : o->min_chars; n > 0 && n <= o->max_chars; n++) {
        count += chars >= n ? chars - n + 1 : 0;
        count -= n == 1 ? 2 : 0;
    }
    return count;
}

/* Whether a word of rows for a class map is a label: the prefix and a name that does not have it, too. */
static bool is_label(const char *prefix, const uint8_t *word, size_t length)
{
    const size_t size = strlen(prefix);
    if (length <= size || memcmp(word, prefix, size) != 0) {
        return false;
    }
    const uint8_t *inner = memmem(word + size, length - size, prefix, size);
    return !inner || (size == 1 && inner + 1 == word + length);
}

/* What a line has of n-grams; `words` and `labels` are how many words are neither or one. */
static uint64_t count_grams(const xsm_text_options *o, const uint8_t *line, size_t length, uint64_t *words,
                            uint64_t *labels)
{
    uint64_t grams = 0;
    *words = *labels = 0;
    for (size_t at = 0; at < length;) {
        size_t start = at;
        while (at < length && !is_blank(line[at])) {
            at++;
        }
        if (is_label(o->label_prefix, line + start, at - start)) {
            ++*labels;
        } else if (at > start) {
            ++*words;
            grams += count_chars(o, line + start, at - start);
            grams += *words < o->word_ngrams ? *words - 1 : o->word_ngrams > 1 ? o->word_ngrams - 1 : 0;
        }
        at++;
    }
    return grams;
}

/* The rows have the numbers of words and n-grams that the lines have; but for words that are not in the vocabulary. */
static void check_counts(const xsm_dataset *d, const xsm_text_options *o, uint32_t vocabulary, const uint8_t *text,
                         size_t size)
{
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    fuzz_require(xsm_dataset_get_info(d, &info, NULL) == XSM_OK, "info");
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        size -= 3;
    }
    uint64_t row = 0;
    for (size_t at = 0; at < size; row++) {
        const uint8_t *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        const size_t mark = length >= 3 && memcmp(text + at, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        uint64_t words, labels, grams = count_grams(o, text + at + mark, length - mark, &words, &labels);
        xsm_row r = XSM_ROW_INIT;
        fuzz_require(xsm_dataset_get_row(d, row, &r, NULL) == XSM_OK, "a row a line");
        double of_words = 0, of_grams = 0;
        for (uint64_t j = 0; j < r.count; j++) {
            *(r.index[j] < vocabulary ? &of_words : &of_grams) += (double)r.values[j];
        }
        fuzz_require(of_grams == (double)grams, "as many n-grams as there are");
        fuzz_require(o->min_count > 1 || of_words <= (double)words, "no more words than there are");
        fuzz_require(r.label_count <= labels && (r.label_count > 0) == (labels > 0), "labels");
        at += length + 1;
    }
    fuzz_require(row == info.rows, "a line a row");
}

/* Most frequent first; those of one count in the order of their bytes. */
static void check_vocabulary(const xsm_dataset *d, const xsm_text_options *o)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    fuzz_require(xsm_dataset_get_class_map(d, &map, NULL) == XSM_OK, "classes");
    fuzz_require(xsm_dataset_get_info(d, &info, NULL) == XSM_OK && map.vocabulary, "info and vocabulary");
    uint32_t words = xsm_vocabulary_words(map.vocabulary);
    fuzz_require(info.features == words + xsmi_text_buckets(xsmi_vocabulary_options(map.vocabulary)), "features");
    double *counts = calloc((size_t)words + 1, sizeof *counts);
    fuzz_require(counts != NULL, "memory");
    for (uint64_t i = 0; i < info.rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        fuzz_require(xsm_dataset_get_row(d, i, &row, NULL) == XSM_OK, "row");
        for (uint64_t j = 0; j < row.count && row.index[j] < words; j++) {
            counts[row.index[j]] += (double)row.values[j];
        }
    }
    for (uint32_t i = 0; i < words; i++) {
        fuzz_require(counts[i] >= o->min_count, "frequent words only");
        fuzz_require(i == 0 || counts[i] < counts[i - 1] ||
                         (counts[i] == counts[i - 1] && strcmp(xsm_vocabulary_word(map.vocabulary, i - 1),
                                                               xsm_vocabulary_word(map.vocabulary, i)) < 0),
                     "the order of words");
    }
    free(counts);
}

/* A cache has the same rows, and the vocabulary with which the text gives them again. */
static void check_cache(const xsm_dataset *d, const uint8_t *text, size_t size)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_write_options options = XSM_WRITE_OPTIONS_INIT;
    xsm_dataset *back = NULL;
    options.format = XSM_FORMAT_CACHE;
    fuzz_require(xsm_dataset_write(d, fuzz_path("cache"), &options, &err) == XSM_OK, err.message);
    fuzz_require(xsm_dataset_read(NULL, fuzz_path("cache"), NULL, NULL, &back, &err) == XSM_OK, err.message);
    fuzz_walk(back);
    fuzz_read_again(back, text, size);
    xsm_dataset_free(back);
}

/* Two rows have the same values of the features below `most`, and `b` has no others. */
static bool same_below(const xsm_row *a, const xsm_row *b, uint32_t most)
{
    uint64_t count = 0;
    while (count < a->count && a->index[count] < most) {
        count++;
    }
    for (uint64_t j = 0; j < count && count == b->count; j++) {
        if (a->index[j] != b->index[j] || memcmp(&a->values[j], &b->values[j], sizeof *a->values) != 0) {
            return false;
        }
    }
    return count == b->count;
}

/* The second text with its new words, too: what the first knows is where it was, and what is new comes behind. Read
 * again against all that, nothing is new. */
static void read_grown(const xsm_dataset *closed, const xsm_class_map *first, const uint8_t *text, size_t size)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = *first;
    uint32_t features = map.features;
    const xsm_dataset *before = closed;
    xsm_dataset *d[2] = {NULL, NULL};
    if (features > 1U << 24) {
        return; /* a number for each of them would take more memory than a fuzzer gives */
    }
    for (int i = 0; i < 2; i++) {
        xsm_read_options options = XSM_READ_OPTIONS_INIT;
        options.classes = &map;
        options.new_features = 1;
        fuzz_bytes bytes = {text, size, 5};
        const xsm_status status = xsm_dataset_read(NULL, NULL, FUZZ_BYTES(&bytes, "grown"), &options, &d[i], &err);
        fuzz_require_reason(status, &err);
        if (status != XSM_OK) {
            fuzz_require(i == 0 && status == XSM_ERROR_LIMIT, err.message);
            return;
        }
        xsm_dataset_info info = XSM_DATASET_INFO_INIT;
        fuzz_walk(d[i]);
        fuzz_require(xsm_dataset_get_info(d[i], &info, &err) == XSM_OK &&
                         (i == 0 ? info.features >= features : info.features == features),
                     "nothing is new twice");
        for (uint64_t row = 0; row < info.rows; row++) {
            xsm_row a = XSM_ROW_INIT, b = XSM_ROW_INIT;
            fuzz_require(xsm_dataset_get_row(d[i], row, &a, &err) == XSM_OK &&
                             xsm_dataset_get_row(before, row, &b, &err) == XSM_OK,
                         "row");
            fuzz_require(same_below(&a, &b, features), "what was known stays");
        }
        fuzz_require(xsm_dataset_get_class_map(d[i], &map, &err) == XSM_OK, "classes");
        for (uint32_t j = 0; j < xsm_vocabulary_words(first->vocabulary); j++) {
            fuzz_require(strcmp(xsm_vocabulary_word(map.vocabulary, j), xsm_vocabulary_word(first->vocabulary, j)) ==
                                 0 &&
                             xsm_vocabulary_feature(map.vocabulary, j) == xsm_vocabulary_feature(first->vocabulary, j),
                         "words keep their features");
        }
        before = d[i];
        features = info.features;
    }
    xsm_dataset_free(d[0]);
    xsm_dataset_free(d[1]);
}

/* The second text against the first; then as a model that was trained on the first would see it. */
static void read_more(const xsm_dataset *d, const xsm_transform *t, const uint8_t *text, size_t size)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    fuzz_require(xsm_dataset_get_class_map(d, &map, &err) == XSM_OK, "classes");
    options.classes = &map;
    fuzz_bytes bytes = {text, size, 3};
    xsm_dataset *more = NULL;
    xsm_status status = xsm_dataset_read(NULL, NULL, FUZZ_BYTES(&bytes, "more"), &options, &more, &err);
    fuzz_require_reason(status, &err);
    if (status != XSM_OK) {
        return;
    }
    fuzz_walk(more);
    fuzz_require(xsm_dataset_get_info(more, &info, &err) == XSM_OK && info.features == map.features, "features");
    check_counts(more, xsmi_vocabulary_options(map.vocabulary), xsm_vocabulary_words(map.vocabulary), text, size);
    read_grown(more, &map, text, size);
    if (t) {
        status = xsm_transform_apply(t, more, &err);
        fuzz_require_reason(status, &err);
        fuzz_require(status == XSM_OK, "counts and weights are small");
        fuzz_walk(more);
    }
    xsm_dataset_free(more);
}

/* tf-idf and the length of rows, computed again. */
static xsm_transform *transform(xsm_dataset *d, bool unit)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_transform *t = NULL;
    xsm_dataset *before = NULL;
    fuzz_require(xsm_dataset_get_info(d, &info, &err) == XSM_OK, "info");
    uint64_t *rows = calloc(info.rows, sizeof *rows), *with = calloc(info.features, sizeof *with);
    fuzz_require(rows && with, "memory");
    for (uint64_t i = 0; i < info.rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        rows[i] = i;
        fuzz_require(xsm_dataset_get_row(d, i, &row, &err) == XSM_OK, "row");
        for (uint64_t j = 0; j < row.count; j++) {
            with[row.index[j]]++;
        }
    }
    fuzz_require(xsm_dataset_select(d, rows, info.rows, &before, &err) == XSM_OK, err.message);
    fuzz_require(xsm_transform_new(NULL, unit ? "tfidf,unit" : "tfidf", &t, &err) == XSM_OK, err.message);
    fuzz_require(xsm_transform_fit(t, d, &err) == XSM_OK && xsm_transform_apply(t, d, &err) == XSM_OK, err.message);
    fuzz_walk(d);
    for (uint64_t i = 0; i < info.rows; i++) {
        xsm_row a = XSM_ROW_INIT, b = XSM_ROW_INIT;
        fuzz_require(xsm_dataset_get_row(before, i, &a, &err) == XSM_OK, "row");
        fuzz_require(xsm_dataset_get_row(d, i, &b, &err) == XSM_OK && a.count == b.count, "the same features");
        double squares = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (uint64_t j = 0; j < a.count; j++) {
                double n = (double)with[a.index[j]];
                double value = (double)a.values[j] * (log((1 + (double)info.rows) / (1 + n)) + 1);
                squares += pass ? 0 : value * value;
                value /= pass && unit ? sqrt(squares) : 1;
                fuzz_require(!pass || fabs(value - (double)b.values[j]) <= 1e-5 * value, "tf-idf");
            }
        }
    }
    xsm_dataset_free(before);
    free(rows);
    free(with);
    return t;
}

/* Words between white space, whatever their prefix: how often each is there. */
static void try_corpus(const uint8_t *text, size_t size, const uint8_t *settings)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_corpus_options options = XSM_CORPUS_OPTIONS_INIT;
    xsm_corpus_info info = XSM_CORPUS_INFO_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_corpus *c = NULL;
    options.min_count = settings[0] % 3;
    options.max_words = settings[1] % 4;
    options.max_distinct = settings[2] % 5;
    fuzz_write("corpus", text, size);
    xsm_status status = xsm_corpus_open(NULL, fuzz_path("corpus"), &options, &c, &err);
    fuzz_require_reason(status, &err);
    if (status != XSM_OK) {
        return;
    }
    fuzz_require(xsm_corpus_get_info(c, &info, &err) == XSM_OK, err.message);
    fuzz_require(xsm_corpus_get_class_map(c, &map, &err) == XSM_OK && map.classes == info.words, "words");
    uint64_t known = 0, longest = 0;
    for (uint32_t k = 0; k < info.words; k++) {
        fuzz_require(xsm_corpus_find(c, map.names[k]) == k, "words are found");
        fuzz_require(k == 0 || map.counts[k] <= map.counts[k - 1], "counts fall");
        fuzz_require(map.counts[k] >= (options.min_count ? options.min_count : 5), "frequent words only");
        known += map.counts[k];
        longest = strlen(map.names[k]) > longest ? strlen(map.names[k]) : longest;
    }
    fuzz_require(longest <= size && (options.max_words == 0 || info.words <= options.max_words), "bounds");
    fuzz_require(known == info.known && known + info.forgotten <= info.tokens, "totals");
    xsm_corpus_free(c);
}

static void try_text(const uint8_t *settings, const uint8_t *data, size_t size)
{
    static const char *const prefixes[] = {"__label__", "#", "\xC3\xA4", "_"};
    static const uint32_t buckets[] = {1, 7, 1000, 0, 65536, XSM_FEATURES_MAX - 3, XSM_FEATURES_MAX, UINT32_MAX};
    const uint8_t *end = size > 0 ? memchr(data, SEPARATOR, size) : NULL;
    size_t length = end ? (size_t)(end - data) : size;
    xsm_text_options text = XSM_TEXT_OPTIONS_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    text.label_prefix = prefixes[settings[1] % 4];
    text.min_count = settings[2] % 4;
    text.word_ngrams = settings[3] % 18;
    text.min_chars = settings[4] % 66;
    text.max_chars = settings[5] % 66;
    text.buckets = buckets[settings[6] % 8];
    options.format = XSM_FORMAT_TEXT;
    options.labels = settings[1] / 4 % 3;
    options.text = &text;
    fuzz_bytes bytes = {data, length, settings[7] % 4 == 0 ? 1 + (size_t)settings[7] / 4 : SIZE_MAX};
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset *d = NULL;
    xsm_status status = xsm_dataset_read(NULL, NULL, FUZZ_BYTES(&bytes, "text"), &options, &d, &err);
    fuzz_require((status == XSM_OK) == (d != NULL), "a dataset or an error");
    fuzz_require_reason(status, &err);
    if (status != XSM_OK) {
        return;
    }
    fuzz_walk(d);
    fuzz_require(xsm_dataset_get_info(d, &info, &err) == XSM_OK && xsm_dataset_get_class_map(d, &map, &err) == XSM_OK,
                 "info and classes");
    check_vocabulary(d, &text);
    check_counts(d, &text, xsm_vocabulary_words(map.vocabulary), data, length);
    fuzz_read_again(d, data, length);
    if (settings[0] & 2) {
        check_cache(d, data, length);
    }
    xsm_transform *t = info.features < FEATURES_MOST ? transform(d, settings[0] & 4) : NULL;
    if (end) {
        read_more(d, t, end + 1, size - length - 1);
    }
    xsm_transform_free(t);
    xsm_dataset_free(d);
}

/* -- vocabularies ------------------------------------------------------------------------------------------------- */

/* A file of one tensor and one entry of metadata, as JSON; `text` has been made fit for it. The bytes are the caller's
 * to free. */
static uint8_t *make_file(const char *text, const uint8_t *words, size_t size, size_t *bytes)
{
    size_t room = strlen(text) + 200, length;
    char *header = aligned_alloc(64, (room + size + 63) / 64 * 64);
    fuzz_require(header != NULL, "memory");
    length =
        (size_t)snprintf(header + 8, room,
                         "{\"__metadata__\":{\"vocabulary\":\"%s\"},\"vocabulary\":{\"dtype\":\"U8\",\"shape\":[%zu],"
                         "\"data_offsets\":[0,%zu]}}",
                         text, size, size);
    memcpy(header, &(uint64_t){length}, 8);
    if (size > 0) {
        memcpy(header + 8 + length, words, size);
    }
    *bytes = 8 + length + size;
    return (uint8_t *)header;
}

static void try_vocabulary(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t length = end ? (size_t)(end - data) : size, bytes;
    char line[300] = "";
    for (size_t i = 0; i < length && i < sizeof line - 1; i++) {
        bool plain = data[i] >= ' ' && data[i] < 127 && data[i] != '"' && data[i] != '\\';
        line[i] = plain ? (char)data[i] : '?';
    }
    uint8_t *file = make_file(line, end ? end + 1 : NULL, end ? size - length - 1 : 0, &bytes);
    xsm_error err = XSM_ERROR_INIT;
    xsmi_container *c = NULL;
    xsmi_schema *read = NULL;
    xsm_context_options one = XSM_CONTEXT_OPTIONS_INIT;
    one.threads = 1;
    xsm_context *ctx = NULL;
    fuzz_require(xsm_context_new(&one, &ctx, &err) == XSM_OK, err.message);
    xsm_storage storage = XSM_STORAGE_INIT;
    storage.bytes = file;
    storage.byte_count = bytes;
    const xsmi_place place = {"input", &storage};
    fuzz_require(xsmi_container_open_at(ctx, &place, (xsmi_open_how){.believe = false}, &c, &err) == XSM_OK,
                 err.message);
    xsm_status status = xsmi_schema_load(ctx, c, "input", &read, &err);
    const xsm_vocabulary *v = xsmi_schema_vocabulary(read);
    fuzz_require((status == XSM_OK) == (v != NULL), "a vocabulary or an error");
    fuzz_require_reason(status, &err);
    if (v) {
        const uint8_t *word = end ? end + 1 : NULL;
        for (uint32_t i = 0; i < xsm_vocabulary_words(v); i++) {
            size_t letters = strlen(xsm_vocabulary_word(v, i));
            fuzz_require(word && memcmp(word, xsm_vocabulary_word(v, i), letters) == 0 && word[letters] == '\n',
                         "words");
            word += letters + 1;
        }
        fuzz_require(!end || word == data + size, "no more words");
        xsmi_contents contents;
        xsmi_contents_start(&contents, ctx);
        xsm_text_options known = XSM_TEXT_OPTIONS_INIT;
        fuzz_require(xsmi_schema_list(read, &contents, &err) == XSM_OK &&
                         xsmi_text_options_read(&known, xsmi_vocabulary_options(v), &err) == XSM_OK,
                     "settings");
        fuzz_require(xsmi_text_options_equal(&known, xsmi_vocabulary_options(v)), "defaults are filled in");
        xsmi_contents_end(&contents);
    }
    xsmi_schema_release(read);
    xsmi_container_close(c);
    xsm_context_free(ctx);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < SETTINGS) {
        return 0;
    }
    if (data[0] & 1) {
        try_vocabulary(data + SETTINGS, size - SETTINGS);
    } else {
        try_text(data, data + SETTINGS, size - SETTINGS);
        if (data[0] & 8) {
            try_corpus(data + SETTINGS, size - SETTINGS, data + 1);
        }
    }
    return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
    return fuzz_replay(argc, argv, true);
}
#endif
