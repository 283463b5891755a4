/*
 * N-grams of text: their buckets, and rows of text as they would be if they had been read with other n-grams.
 */
#ifndef XSMI_NGRAMS_H
#define XSMI_NGRAMS_H

#include "data/schema.h"

/* Returns the bucket of an n-gram's hash: the high half of a product, which spreads hashes evenly over any number of
 * buckets. Among B / m buckets it is the bucket among B, divided by m. Saved models depend on it. */
static inline uint32_t xsmi_ngram_bucket(uint32_t buckets, uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)((hash >> 32) * buckets >> 32);
}

/* fastText's hash: FNV-1a of 32 bits, with bytes from 128 on taken as negative numbers. `hash` is that of the text
 * before. */
#define XSMI_FASTTEXT_START UINT32_C(2166136261)
static inline uint32_t xsmi_fasttext_hash(uint32_t hash, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (uint32_t)(int32_t)(signed char)text[i]) * UINT32_C(16777619);
    }
    return hash;
}

/* Returns the most n-grams of characters that a word can have, which has `size` bytes with its brackets. */
static inline size_t xsmi_char_ngrams_room(const xsm_text_options *o, size_t size)
{
    const size_t most = o->max_chars < size ? o->max_chars : size;
    return most < o->min_chars || o->max_chars == 0 ? 0 : size * (most - o->min_chars + 1);
}
/* Writes the hashes of the n-grams of characters of a word between brackets, which it puts into marked[length + 2].
 * Returns their number. */
size_t xsmi_char_ngrams(const xsm_text_options *o, bool fasttext, const char *word, size_t length, char *marked,
                        uint64_t *hashes);

/* Makes a schema with the words of a schema of words, and with n-grams as `text` says, whose options are all set. */
xsm_status xsmi_schema_with_ngrams(const xsmi_schema *s, const xsm_text_options *text, xsmi_schema **out,
                                   xsm_error *err);
/* Gives rows the n-grams of a schema with the same words, as if the text had been read with it. The rows were read as
 * text and are not transformed. If `to` has n-grams of words, the rows must have the same in a multiple of its buckets.
 * If it has n-grams of characters, every word of the text must be a feature, and the rows must have none. Unchanged on
 * failure. O(values). */
xsm_status xsmi_dataset_take_ngrams(xsm_dataset *d, const xsmi_schema *to, xsm_error *err);
/* Counts the buckets of the schema that the rows and their words use. */
xsm_status xsmi_dataset_count_ngrams(const xsm_dataset *d, const xsmi_schema *to, uint32_t *count, xsm_error *err);

#endif
