/*
 * Text: words between blanks, a row a line, labels by their prefix.
 *
 * A line becomes codes: words by the number of their first appearance, n-grams by their bucket. Without a vocabulary
 * all words are numbered in one pass over the text. At its end the frequent words become the vocabulary, and the rows
 * are rewritten in place. With a vocabulary (the class map's) codes are features at once. New words that are to become
 * features get codes above all features, and numbers like words without a vocabulary.
 */
#include "base/grow.h"
#include "base/held.h"
#include "base/order.h"
#include "read/format.h"
#include "read/number.h"
#include "read/text.h"
#include "base/utf8.h"
#include "data/ngrams.h"
#include "data/sort.h"
#include "data/vocabulary.h"

#include <string.h>

#include <xsoftmax/vocabulary.h>

/* The first code of buckets, above the codes of words; or, with a vocabulary, the first code of new words, above all
 * features. */
#define BUCKET UINT32_C(0x80000000)
#define NONE UINT32_MAX

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static xsm_status add_code(xsmi_text *t, uint32_t code, xsm_error *err)
{
    XSMI_TRY(XSMI_GROW(t->r->context, t->keys, t->key_capacity, t->key_count + 1, "the words of a line", err));
    t->keys[t->key_count++] = code;
    return XSM_OK;
}

/* Adds the bucket of an n-gram, for which there is room; a vocabulary of fastText may lack it. Saved models depend on
 * the bucket. */
static void add_bucket(xsmi_text *t, uint64_t hash)
{
    uint32_t bucket;
    if (t->fasttext) {
        bucket = xsmi_vocabulary_bucket(t->vocabulary, (uint32_t)(hash % t->options.buckets));
        if (bucket == NONE) {
            return;
        }
    } else {
        bucket = xsmi_ngram_bucket(t->buckets, hash);
    }
    t->keys[t->key_count++] = t->bucket_code + bucket;
}

/* Adds the n-grams of two words and more that end with this one. Saved models depend on them. */
static xsm_status add_word_ngrams(xsmi_text *t, uint64_t hash, xsm_error *err)
{
    uint32_t most = t->options.word_ngrams;
    uint32_t length = t->window_length < most ? t->window_length + 1 : most;
    XSMI_TRY(XSMI_GROW(t->r->context, t->keys, t->key_capacity, t->key_count + length, "the words of a line", err));
    for (uint32_t n = length; n-- > 1;) {
        t->window[n] = t->window[n - 1] * UINT64_C(116049371) + hash;
        add_bucket(t, t->window[n]);
    }
    t->window[0] = hash;
    t->window_length = length;
    return XSM_OK;
}

static xsm_status add_char_ngrams(xsmi_text *t, const char *word, size_t length, xsm_error *err)
{
    const size_t size = length + 2, codes = xsmi_char_ngrams_room(&t->options, size);
    if (codes == 0) {
        return XSM_OK; /* the word has no n-grams of characters */
    }
    XSMI_TRY(XSMI_GROW(t->r->context, t->marked, t->marked_capacity, size, "a word", err));
    XSMI_TRY(XSMI_GROW(t->r->context, t->keys, t->key_capacity, t->key_count + codes, "the words of a line", err));
    const uint64_t *hashes = t->keys + t->key_count; /* buckets replace hashes in the same array, never ahead of the
                                                        reading */
    const size_t count = xsmi_char_ngrams(&t->options, t->fasttext, word, length, t->marked, t->keys + t->key_count);
    for (size_t i = 0; i < count; i++) {
        add_bucket(t, hashes[i]);
    }
    return XSM_OK;
}

static xsm_status add_word(xsmi_text *t, const char *word, size_t length, xsm_error *err)
{
    uint64_t hash = xsmi_dictionary_hash(word, length);
    uint32_t id;
    const bool end =
        t->fasttext && length == sizeof XSMI_FASTTEXT_END - 1 && memcmp(word, XSMI_FASTTEXT_END, length) == 0;
    if (t->vocabulary) {
        id = xsmi_dictionary_find_hashed_word(xsmi_vocabulary_dictionary(t->vocabulary), hash, word, length);
        id = id == NONE || id < t->bucket_code ? id : id + t->buckets; /* words that were added later follow the
                                                                          buckets */
    }
    if (!t->vocabulary || (id == NONE && t->grows && !end)) {
        XSMI_TRY(xsmi_dictionary_hashed_word(&t->words, hash, word, length, &id, err));
        t->words.entries[id].mark++;
        id += t->grows ? BUCKET : 0;
    }
    if (id != NONE) {
        XSMI_TRY(add_code(t, id, err));
    } else {
        t->r->dropped += !end;
    }
    if (t->options.word_ngrams > 1) {
        hash = t->fasttext ? (uint64_t)(int32_t)xsmi_fasttext_hash(XSMI_FASTTEXT_START, word, length) : hash;
        XSMI_TRY(add_word_ngrams(t, hash, err));
    }
    return t->options.max_chars > 0 && !end ? add_char_ngrams(t, word, length, err) : XSM_OK;
}

/* Splits the weight from a label that ends in ':' and a number; other labels have the weight 1. */
static xsm_status cut_weight(const xsmi_text *t, const char *word, size_t *length, float *weight, xsm_error *err)
{
    size_t colon = *length;
    while (colon > t->prefix_length && word[colon - 1] != ':') {
        colon--;
    }
    const char *end = word;
    float number;
    if (colon <= t->prefix_length + 1 || xsmi_parse_float(word + colon, &end, &number) != XSMI_NUMBER_OK ||
        end != word + *length) {
        return XSM_OK;
    }
    if (!(number >= 0)) {
        return xsmi_reader_fail(t->r, err, XSM_ERROR_FORMAT, t->r->lines.line, (uint64_t)(word + colon - t->line) + 1,
                                "the weight of a label is %g; 0 or more is accepted", (double)number);
    }
    *weight = number;
    *length = colon - 1;
    return XSM_OK;
}

/* -- labels -------------------------------------------------------------------------------------------------------- */

void xsmi_text_note_add(xsmi_text_note *n, uint64_t line, const char *word, size_t length)
{
    if (n->count++ == 0) {
        n->line = line;
        xsmi_quote(n->first, word, length);
    }
}

/* Returns the next position of the label prefix from `at` on, or `end`. */
static const char *find_prefix(const xsmi_text *t, const char *at, const char *end)
{
    const char *const prefix = t->options.label_prefix;
    while ((size_t)(end - at) >= t->prefix_length &&
           (at = memchr(at, prefix[0], (size_t)(end - at) - t->prefix_length + 1)) != NULL) {
        if (memcmp(at, prefix, t->prefix_length) == 0) {
            return at;
        }
        at++;
    }
    return end;
}

bool xsmi_text_is_joined(const char *name, size_t length)
{
    static const char *const blanks[] = {"\xC2\xA0", "\xE2\x80\x8B", "\xE3\x80\x80", "\xEF\xBB\xBF"};
    for (size_t i = 0; i < length; i++) {
        if (name[i] == ',' || name[i] == ';' || name[i] == '|') {
            return true;
        }
        for (size_t j = 0; j < sizeof blanks / sizeof *blanks && (unsigned char)name[i] >= 0xC2; j++) {
            const size_t size = strlen(blanks[j]);
            if (length - i >= size && memcmp(name + i, blanks[j], size) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || xsmi_is_digit(c) || ((unsigned char)c & 0x80);
}

/* Whether a word looks like a misspelt label, with the prefix in other cases or signs: _label_a, __Label__a. */
static bool is_misspelt(const xsmi_text *t, const char *word, size_t length)
{
    const char *prefix = t->options.label_prefix, *const end = word + length;
    while (*prefix && !is_letter(*prefix)) {
        prefix++;
    }
    while (word < end && !is_letter(*word)) {
        word++;
    }
    const char *const core = prefix;
    for (; is_letter(*prefix) && word < end && (*prefix | 0x20) == (*word | 0x20); word++) {
        prefix++;
    }
    return prefix > core && *prefix && !is_letter(*prefix) && end - word > 1 && *word == *prefix;
}

/* Whether a label's name ends in a colon and a fraction, as one with a weight does. */
static bool looks_weighted(const char *name, size_t length)
{
    const char *const end = name + length, *colon = end, *stop = name;
    float number;
    if (!memchr(name, ':', length)) {
        return false;
    }
    while (colon[-1] != ':') {
        colon--;
    }
    return memchr(colon, '.', (size_t)(end - colon)) && xsmi_parse_float(colon, &stop, &number) == XSMI_NUMBER_OK &&
           stop == end;
}

/* Returns the second label prefix of a label, or its end. */
static const char *inner_prefix(const xsmi_text *t, const char *word, size_t length)
{
    const char *const end = word + length, *const inner = find_prefix(t, word + t->prefix_length, end);
    return t->prefix_length > 1 || inner + 1 < end ? inner : end;
}

/* Whether a word that begins with the label prefix is no label: nothing or another prefix follows, and the rows are to
 * be predicted or evaluated. */
static bool is_no_label(const xsmi_text *t, const char *word, size_t length)
{
    const xsmi_reader *r = t->r;
    return r->has_map && !r->options.new_labels &&
           (length == t->prefix_length || (!r->skips_labels && inner_prefix(t, word, length) < word + length));
}

static xsm_status add_label(xsmi_text *t, const char *word, size_t length, bool *first, xsm_error *err)
{
    xsmi_reader *r = t->r;
    if (length == t->prefix_length) {
        char quote[XSMI_QUOTE_SIZE];
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, r->lines.line, (uint64_t)(word - t->line) + 1,
                                "expected a label's name behind %s, found a blank or the end of the line",
                                xsmi_quote(quote, word, length));
    }
    const char *const inner = inner_prefix(t, word, length);
    if (!r->skips_labels && inner < word + length) {
        char quote[XSMI_QUOTE_SIZE];
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, r->lines.line, (uint64_t)(inner - t->line) + 1,
                                "a label within a label, %s; a blank between them is accepted",
                                xsmi_quote(quote, word, length));
    }
    if (!r->skips_labels && (*first || r->options.labels != XSM_KEEP_LABELS_FIRST)) {
        uint32_t id;
        float weight = 1;
        if (r->options.label_weights) {
            XSMI_TRY(cut_weight(t, word, &length, &weight, err));
        } else if (looks_weighted(word + t->prefix_length, length - t->prefix_length)) {
            xsmi_text_note_add(&t->weighted, r->lines.line, word, length);
        }
        XSMI_TRY(xsmi_reader_word(r, word + t->prefix_length, length - t->prefix_length, &id, err));
        xsmi_reader_add_weighted(r, id, weight);
        if (word[t->prefix_length] == '"' || xsmi_text_is_joined(word + t->prefix_length, length - t->prefix_length)) {
            xsmi_text_note_add(&t->joined, r->lines.line, word, length);
        }
    }
    *first = false;
    return XSM_OK;
}

/* Ends a row: sorts its codes and keeps each once, with its count. */
static xsm_status end_row(xsmi_text *t, xsm_error *err)
{
    xsmi_reader *r = t->r;
    XSMI_TRY(XSMI_GROW(r->context, t->scratch, t->scratch_capacity, t->key_count, "the words of a line", err));
    if (t->key_count > 0) {
        xsmi_sort(r->context, t->keys, t->scratch, t->key_count);
    }
    XSMI_TRY(xsmi_reader_reserve(r, t->key_count, 0, err));
    for (size_t i = 0; i < t->key_count;) {
        size_t start = i;
        while (i < t->key_count && t->keys[i] == t->keys[start]) {
            i++;
        }
        if (t->keys[start] >= t->kept) {
            r->dropped++;
            continue;
        }
        r->entries.index[r->entries.count] = (uint32_t)t->keys[start];
        r->entries.values[r->entries.count++] = (float)(i - start);
    }
    xsmi_reader_end_row(r);
    return XSM_OK;
}

xsm_status xsmi_text_read_row(xsmi_text *t, const char *line, size_t length, xsm_error *err)
{
    return xsmi_text_read_words(t, line, length, t->r->lines.line, err);
}

/* Finds the next word of the line from *at on; false: none is left. */
static bool next_word(const char **at, const char *stop, size_t *length)
{
    const char *end = *at;
    while (end < stop && is_blank(*end)) {
        end++;
    }
    *at = end;
    while (end < stop && !is_blank(*end)) {
        end++;
    }
    *length = (size_t)(end - *at);
    return *length > 0;
}

xsm_status xsmi_text_read_words(xsmi_text *t, const char *line, size_t length, uint64_t number, xsm_error *err)
{
    xsmi_reader *r = t->r;
    const bool bad = xsmi_utf8_prefix(line, length) < length;
    if (bad && r->options.bad_bytes != XSM_BAD_BYTES_REPLACE) {
        return xsmi_reader_text(r, number, 1, "", &line, &length, err);
    }
    t->line = line;
    t->key_count = 0;
    t->window_length = 0;
    bool first = true, opens = !t->only_words;
    XSMI_TRY(xsmi_reader_reserve(r, 0, length / (t->prefix_length + 2) + 1, err));
    const bool marked = length >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0; /* in the middle of a file, if cat joined
                                                                                several */
    const char *word = line + (marked ? 3 : 0), *const stop = line + length;
    const char *prefix = opens ? find_prefix(t, word, stop) : stop;
    for (size_t size; next_word(&word, stop, &size); word += size, opens = false) {
        if (prefix == word && !is_no_label(t, word, size)) {
            XSMI_TRY(bad ? xsmi_reader_label(r, number, 1, word, size, err) : XSM_OK);
            XSMI_TRY(add_label(t, word, size, &first, err));
        } else {
            const char *mended = word;
            size_t mended_size = size;
            XSMI_TRY(bad ? xsmi_reader_text(r, number, 1, "", &mended, &mended_size, err) : XSM_OK);
            XSMI_TRY(add_word(t, mended, mended_size, err));
            if (prefix < word + size || (opens && is_misspelt(t, word, size))) {
                xsmi_text_note_add(&t->missed, number, word, size);
            }
        }
        prefix = prefix < word + size ? find_prefix(t, word + size, stop) : prefix;
    }
    XSMI_TRY(t->fasttext ? add_word(t, XSMI_FASTTEXT_END, sizeof XSMI_FASTTEXT_END - 1, err) : XSM_OK);
    return end_row(t, err);
}

/* -- the vocabulary ----------------------------------------------------------------------------------------------- */

static int comes_before(const void *state, uint32_t a, uint32_t b)
{
    const uint64_t first = ((const xsmi_dictionary *)state)->entries[a].mark,
                   second = ((const xsmi_dictionary *)state)->entries[b].mark;
    return first != second ? first > second : xsmi_dictionary_before(state, a, b);
}

/* Makes the reader's schema: the class map's vocabulary, followed by the most frequent new words. */
static xsm_status add_words(xsmi_text *t, uint32_t *feature_of, const uint32_t *order, uint32_t count, xsm_error *err)
{
    xsm_vocabulary *v;
    XSMI_TRY(t->vocabulary ? xsmi_vocabulary_new_grown(t->vocabulary, &v, err)
                           : xsmi_vocabulary_new(t->r->context, &t->options, &v, err));
    xsm_status status = XSM_OK;
    const uint32_t before = xsm_vocabulary_words(v);
    for (uint32_t i = 0; i < count && status == XSM_OK; i++) {
        size_t length;
        bool known;
        const char *word = xsmi_dictionary_text(&t->words, order[i], &length);
        status = xsmi_vocabulary_add(v, word, length, &known, err);
        feature_of[order[i]] = xsmi_vocabulary_feature(v, before + i);
    }
    status = status == XSM_OK ? xsmi_schema_of_words(t->r->context, v, &t->r->schema, err) : status;
    xsmi_vocabulary_release(v);
    return status;
}

/* Gives the frequent words their features, feature_of[number] or NONE, and the reader the vocabulary. `order` and
 * `spare` are scratch for all words. */
static xsm_status make_vocabulary(xsmi_text *t, uint32_t *feature_of, uint32_t *order, uint32_t *spare, xsm_error *err)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->words.count; i++) {
        feature_of[i] = NONE;
        if (t->words.entries[i].mark >= t->options.min_count) {
            order[count++] = i;
        }
    }
    const uint64_t before = t->vocabulary ? xsmi_vocabulary_features(t->vocabulary) : t->buckets;
    if (before + count > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %u words and %u buckets; at most %u features are supported",
                         t->r->source.name, xsm_vocabulary_words(t->vocabulary) + count, t->buckets,
                         (unsigned)XSM_FEATURES_MAX);
    }
    if (count == 0 && t->vocabulary) {
        return XSM_OK;
    }
    if (count == 0 && t->buckets == 0 && t->r->rows > 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "%s: no word occurs %u times (xsm_text_options.min_count) or more",
                         t->r->source.name, t->options.min_count);
    }
    xsmi_sort_by(t->r->context, comes_before, &t->words, order, spare, count);
    XSMI_TRY(xsmi_go_on(t->r->context, err));
    return add_words(t, feature_of, order, count, err);
}

/* Returns the feature of a code, or NONE. Not called if the vocabulary is known and no words are new: codes are
 * features then. */
static uint32_t feature_of_code(const xsmi_text *t, const uint32_t *feature_of, uint32_t words, uint32_t code)
{
    if (t->grows) {
        return code < BUCKET ? code : feature_of[code - BUCKET];
    }
    return code < BUCKET ? feature_of[code] : words + (code - BUCKET);
}

/* Rows between two polls. */
#define ROWS_TOGETHER 1024

/* Rewrites the rows with features in place of codes; no row becomes longer. */
static void write_features(xsmi_text *t, const uint32_t *feature_of, uint64_t kept)
{
    xsmi_reader *r = t->r;
    uint32_t words = xsm_vocabulary_words(r->schema->vocabulary);
    size_t next = 0;
    size_t start = 0;
    for (uint64_t i = 0; i < r->rows; i++) {
        size_t end = (size_t)r->entries.offsets[i + 1];
        size_t count = 0;
        if (i % ROWS_TOGETHER == 0 && xsmi_poll(r->context)) {
            return; /* the rows are not used any more */
        }
        for (size_t j = start; j < end; j++) {
            const uint32_t feature = feature_of_code(t, feature_of, words, r->entries.index[j]);
            if (feature == NONE) {
                continue;
            }
            if (feature >= kept) {
                r->dropped++;
                continue;
            }
            uint32_t bits;
            memcpy(&bits, &r->entries.values[j], sizeof bits);
            t->keys[count++] = (uint64_t)feature << 32 | bits;
        }
        if (count > 0) {
            xsmi_sort(r->context, t->keys, t->scratch, count);
        }
        for (size_t j = 0; j < count; j++, next++) {
            uint32_t bits = (uint32_t)t->keys[j];
            r->entries.index[next] = (uint32_t)(t->keys[j] >> 32);
            memcpy(&r->entries.values[next], &bits, sizeof bits);
        }
        xsmi_reader_passed(r, (end - start) * 8 + 8);
        start = end;
        r->entries.offsets[i + 1] = next;
    }
    r->entries.count = next;
}

/* Sets D, unless the caller did. *kept: features from here on are dropped. */
static xsm_status set_features(xsmi_text *t, uint64_t features, uint64_t *kept, xsm_error *err)
{
    bool drops;
    uint32_t wanted = xsmi_reader_features(t->r, &drops);
    if (wanted > 0 && wanted < features && !drops) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "%s: %llu features (words and buckets); xsm_read_options.features wants %u", t->r->source.name,
                         (unsigned long long)features, wanted);
    }
    t->r->features = wanted ? wanted : (uint32_t)features;
    *kept = t->r->features;
    return XSM_OK;
}

static xsm_status end_text(xsmi_text *t, xsm_error *err)
{
    uint32_t count = t->words.count;
    xsmi_held held = {.context = t->r->context};
    uint32_t *feature_of = xsmi_hold(&held, count, sizeof *feature_of);
    uint32_t *order = xsmi_hold(&held, count, sizeof *order);
    uint32_t *spare = xsmi_hold(&held, count, sizeof *spare);
    uint64_t kept = 0;
    xsm_status status = xsmi_held_check(&held, "the vocabulary", err);
    status = status == XSM_OK ? make_vocabulary(t, feature_of, order, spare, err) : status;
    if (status == XSM_OK) {
        t->r->schema = t->r->schema ? t->r->schema : xsmi_schema_retain(t->r->wanted); /* there are no new words */
        status = set_features(t, t->r->schema->count, &kept, err);
    }
    if (status == XSM_OK) {
        write_features(t, feature_of, kept);
    }
    xsmi_held_release(&held);
    return status;
}

/* Takes the class map's vocabulary. Options that are given must agree with its own, except the least count of new
 * words. */
static xsm_status take_vocabulary(xsmi_text *t, const xsm_vocabulary *v, xsm_error *err)
{
    const xsmi_reader *r = t->r;
    const xsm_text_options *made = xsmi_vocabulary_options(v);
    t->grows = r->options.new_features != 0;
    t->options = *made;
    if (r->options.text) {
        t->options.min_count = t->grows ? r->text.min_count : made->min_count;
        xsm_text_options given = r->text;
        given.min_count = t->grows ? made->min_count : given.min_count;
        if (!xsmi_text_options_equal(&given, made)) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "xsm_read_options.text is not what the class map's vocabulary was made with; NULL takes "
                             "it from there");
        }
    }
    t->vocabulary = v;
    t->fasttext = xsmi_vocabulary_is_fasttext(v);
    t->buckets = xsmi_vocabulary_buckets(v);
    t->bucket_code = xsmi_vocabulary_first_words(v);
    t->kept = UINT64_MAX;
    return t->grows ? XSM_OK : set_features(t, xsmi_vocabulary_features(v), &t->kept, err);
}

/* Chooses the settings for reading text: the class map's vocabulary, with which the options must agree, or the
 * options. */
static xsm_status choose_vocabulary(xsmi_text *t, xsm_error *err)
{
    const xsmi_reader *r = t->r;
    const xsm_vocabulary *v = r->has_map ? r->map.vocabulary : NULL;
    t->options = r->text;
    if (v) {
        return take_vocabulary(t, v, err);
    }
    if (r->has_map && r->map.features > 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "%s: text is read with a vocabulary, and the class map has none: it is that of data which was "
                         "no text",
                         r->source.name);
    }
    t->buckets = xsmi_text_buckets(&t->options);
    t->bucket_code = BUCKET;
    t->kept = UINT64_MAX;
    return XSM_OK;
}

xsm_status xsmi_text_start(xsmi_text *t, xsmi_reader *r, xsm_error *err)
{
    *t = (xsmi_text){.r = r};
    xsmi_dictionary_start(&t->words, r->context, true);
    XSMI_TRY(choose_vocabulary(t, err));
    t->prefix_length = strlen(t->options.label_prefix);
    return XSM_OK;
}

void xsmi_text_end(xsmi_text *t)
{
    xsm_context *ctx = t->r->context;
    xsmi_dictionary_end(&t->words);
    xsmi_release(ctx, t->keys, t->key_capacity, sizeof *t->keys);
    xsmi_release(ctx, t->scratch, t->scratch_capacity, sizeof *t->scratch);
    xsmi_release(ctx, t->marked, t->marked_capacity, 1);
}

static void tell(const xsmi_text *t)
{
    if (t->joined.count > 0) {
        xsmi_log(t->r->context, XSM_LOG_WARNING,
                 "%s: %llu labels have a comma, a semicolon, a bar, a quote or a wide blank within, the first is %s in "
                 "line %llu; "
                 "it is part of the name, for labels end at a blank (of ASCII): put one in its place if it separates",
                 t->r->source.name, (unsigned long long)t->joined.count, t->joined.first,
                 (unsigned long long)t->joined.line);
    }
    if (t->weighted.count > 0) {
        xsmi_log(t->r->context, XSM_LOG_WARNING,
                 "%s: %llu labels end in a colon and a number, the first is %s in line %llu; these are parts of names, "
                 "unless xsm_read_options.label_weights says that they are weights",
                 t->r->source.name, (unsigned long long)t->weighted.count, t->weighted.first,
                 (unsigned long long)t->weighted.line);
    }
    if (t->missed.count > 0) {
        xsmi_log(t->r->context, XSM_LOG_WARNING,
                 "%s: %llu words look like labels, which begin with %s (xsm_text_options.label_prefix), and are words, "
                 "the first is %s in line %llu%s",
                 t->r->source.name, (unsigned long long)t->missed.count, t->options.label_prefix, t->missed.first,
                 (unsigned long long)t->missed.line,
                 t->missed.first[1] == '"' ? "; lines in quotes are lines without: sed 's/^\"//; s/\"$//; s/\"\"/\"/g'"
                                           : "");
    }
}

xsm_status xsmi_text_finish(xsmi_text *t, xsm_error *err)
{
    tell(t);
    return (t->vocabulary && !t->grows) || t->r->rows == 0 ? XSM_OK : end_text(t, err);
}

static xsm_status read_lines(xsmi_text *t, xsm_error *err)
{
    for (;;) {
        char *line;
        size_t length;
        XSMI_TRY(xsmi_lines_next(&t->r->lines, &line, &length, err));
        if (!line) {
            break;
        }
        XSMI_TRY(xsmi_text_read_row(t, line, length, err));
    }
    return xsmi_text_finish(t, err);
}

static xsm_status read_text(xsmi_reader *r, xsm_error *err)
{
    xsmi_text t;
    xsm_status status = xsmi_text_start(&t, r, err);
    r->schema = t.vocabulary && !t.grows ? xsmi_schema_retain(r->wanted) : NULL;
    status = status == XSM_OK ? read_lines(&t, err) : status;
    xsmi_text_end(&t);
    return status;
}

/* Matches a line that starts with a label, or less surely one that has a label elsewhere. */
static xsmi_match match(const xsmi_reader *r, const xsmi_early_line *line)
{
    const char *const prefix = r->text.label_prefix, *word = line->text;
    const size_t size = strlen(prefix);
    size_t length;
    xsmi_match found = XSMI_MATCH_SURE;
    for (; next_word(&word, line->text + line->length, &length); word += length) {
        if (length >= size && memcmp(word, prefix, size) == 0) {
            return found;
        }
        found = size > 2 ? XSMI_MATCH_MAYBE : XSMI_MATCH_NO; /* a prefix of one or two bytes, such as #, may be
                                                                anything */
    }
    return XSMI_MATCH_NO;
}

const xsmi_format xsmi_text_format = {
    .id = XSM_FORMAT_TEXT,
    .name = "TEXT",
    .form = "text (a word starts with " XSMI_LABEL_PREFIX ", or xsm_text_options.label_prefix)",
    .accepts = XSMI_ACCEPTS_TEXT | XSMI_ACCEPTS_LABEL_WEIGHTS | XSMI_ACCEPTS_BAD_BYTES,
    .labels = XSMI_LABELS_NAMES,
    .sparse = true,
    .match = match,
    .read = read_text,
};
