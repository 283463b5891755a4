/*
 * A vocabulary turns text into features: the words of the training text in the order of their features, and the rules
 * for words and n-grams. It never changes once it is made, so that datasets and models share it. Words that were added
 * later have features behind the buckets, so that all features keep their numbers.
 */
#ifndef XSMI_VOCABULARY_H
#define XSMI_VOCABULARY_H

#include "base/base.h"
#include "data/dictionary.h"

#include <xsoftmax/dataset.h>

#define XSMI_LABEL_PREFIX "__label__"
#define XSMI_FASTTEXT_END "</s>"
#define XSMI_WORD_NGRAMS_MAX 16
#define XSMI_CHARS_MAX 64

/* Copies the caller's options (NULL = defaults) with the defaults filled in; the prefix stays the caller's. */
xsm_status xsmi_text_options_read(xsm_text_options *known, const xsm_text_options *given, xsm_error *err);
bool xsmi_text_options_equal(const xsm_text_options *a, const xsm_text_options *b);
/* Returns the number of buckets of n-grams, 0 without n-grams. */
static inline uint32_t xsmi_text_buckets(const xsm_text_options *o)
{
    return o->word_ngrams > 1 || o->max_chars > 0 ? o->buckets : 0;
}

/* Makes a vocabulary without words, for the reader to fill; `options` are complete. */
xsm_status xsmi_vocabulary_new(xsm_context *ctx, const xsm_text_options *options, xsm_vocabulary **out, xsm_error *err);
/* Adds the next word. *known: it was there already, and nothing was added. */
xsm_status xsmi_vocabulary_add(xsm_vocabulary *v, const char *word, size_t length, bool *known, xsm_error *err);
/* Makes a vocabulary with the words of `from`, to which the reader adds later words. */
xsm_status xsmi_vocabulary_new_grown(const xsm_vocabulary *from, xsm_vocabulary **out, xsm_error *err);
/* Sets whether text is read as fastText reads it: with its hash and its buckets, and XSMI_FASTTEXT_END as the last word
 * of a row. */
void xsmi_vocabulary_set_fasttext(xsm_vocabulary *v, bool fasttext);
bool xsmi_vocabulary_is_fasttext(const xsm_vocabulary *v);
/* Keeps `count` buckets as features: the caller sets (*kept)[count] to them, in rising order. N-grams of the others are
 * left out. */
xsm_status xsmi_vocabulary_keep_buckets(xsm_vocabulary *v, uint32_t count, uint32_t **kept, xsm_error *err);
/* Returns the buckets kept; NULL: all are features. */
const uint32_t *xsmi_vocabulary_kept(const xsm_vocabulary *v);
/* Returns the number of features that n-grams share. */
uint32_t xsmi_vocabulary_buckets(const xsm_vocabulary *v);
/* Returns which of these features a bucket is; UINT32_MAX: none. */
uint32_t xsmi_vocabulary_bucket(const xsm_vocabulary *v, uint32_t bucket);
/* Whether both make the same n-grams, and number them alike. */
bool xsmi_vocabulary_same_ngrams(const xsm_vocabulary *a, const xsm_vocabulary *b);
/* Adds a reference; NULL is allowed. */
xsm_vocabulary *xsmi_vocabulary_retain(const xsm_vocabulary *v);
/* Drops a reference; NULL is allowed. */
void xsmi_vocabulary_release(const xsm_vocabulary *v);
const xsmi_dictionary *xsmi_vocabulary_dictionary(const xsm_vocabulary *v);
const xsm_text_options *xsmi_vocabulary_options(const xsm_vocabulary *v);
/* Returns the D of rows that are read with it. */
uint64_t xsmi_vocabulary_features(const xsm_vocabulary *v);
/* Returns the number of words before the buckets, which is also the first bucket's feature. */
uint32_t xsmi_vocabulary_first_words(const xsm_vocabulary *v);
/* Marks the words from number `first` on as added later. */
void xsmi_vocabulary_set_first_words(xsm_vocabulary *v, uint32_t first);
/* Returns the feature of a word that the dictionary has. */
uint32_t xsmi_vocabulary_feature(const xsm_vocabulary *v, uint32_t word);

#endif
