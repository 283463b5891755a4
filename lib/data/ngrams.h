/*
 * N-grams of text: their buckets, and rows of text as they would be if they had been read with other n-grams.
 */
#ifndef XSMI_NGRAMS_H
#define XSMI_NGRAMS_H

#include "data/schema.h"

/* The bucket of an n-gram's hash, of `buckets`: the high half of a product, which spreads hashes evenly over any number
 * of buckets, and of B / m buckets is that of B divided by m. Saved models depend on it. */
static inline uint32_t xsmi_ngram_bucket(uint32_t buckets, uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)((hash >> 32) * buckets >> 32);
}

/* fastText's hash: FNV-1a of 32 bits, to which bytes from 128 on are negative numbers. `hash` is that of what is in
 * front of them. */
#define XSMI_FASTTEXT_START UINT32_C(2166136261)
static inline uint32_t xsmi_fasttext_hash(uint32_t hash, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (uint32_t)(int32_t)(signed char)text[i]) * UINT32_C(16777619);
    }
    return hash;
}

/* Hashes that the n-grams of characters of a word have at most, which has `size` bytes with its brackets. */
static inline size_t xsmi_char_ngrams_room(const xsm_text_options *o, size_t size)
{
    const size_t most = o->max_chars < size ? o->max_chars : size;
    return most < o->min_chars || o->max_chars == 0 ? 0 : size * (most - o->min_chars + 1);
}
/* Writes the hashes of the n-grams of characters of a word between brackets, which it puts into marked[length + 2].
 * Returns how many these are. */
size_t xsmi_char_ngrams(const xsm_text_options *o, bool fasttext, const char *word, size_t length, char *marked,
                        uint64_t *hashes);

/* The words of a schema of words, with n-grams as in complete options. */
xsm_status xsmi_schema_with_ngrams(const xsmi_schema *s, const xsm_text_options *text, xsmi_schema **out,
                                   xsm_error *err);
/* Gives rows that were read as text, not transformed, the n-grams of a schema with the same words: what reading makes
 * of the text, if the rows have its n-grams of words, if it has any, in a multiple of its buckets; and for n-grams of
 * characters if every word of the text is a feature, and the rows have none. Unchanged on failure. O(values). */
xsm_status xsmi_dataset_take_ngrams(xsm_dataset *d, const xsmi_schema *to, xsm_error *err);
/* How many buckets of the schema's are in use by the rows and their words. */
xsm_status xsmi_dataset_count_ngrams(const xsm_dataset *d, const xsmi_schema *to, uint32_t *count, xsm_error *err);

#endif
