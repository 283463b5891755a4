/* SPDX-License-Identifier: MIT */
/**
 * @file corpus.h
 * @brief Running text as a sequence of words, with a vocabulary.
 */
#ifndef XSOFTMAX_CORPUS_H
#define XSOFTMAX_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/context.h>
#include <xsoftmax/dataset.h>

/** @defgroup corpus Text corpora
 *  @ingroup words
 *
 * A corpus is a text file, plain or gzip-compressed. Its words are separated by white space (space, tab, line end,
 * vertical tab, form feed, NUL); a line is a sentence. Opening a corpus reads the file once and counts its words. Words
 * that occur often enough form the vocabulary; they are numbered from 0 by decreasing count, and words with the same
 * count in the order of their first occurrence. Training streams the text from the file again, so only the vocabulary
 * is kept in memory; the file must not change while the corpus is used.
 *
 * **Threads.** A corpus is constant: any number of threads may use it at the same time.
 *  @{ */

/** A corpus; opaque. */
typedef struct xsm_corpus xsm_corpus;

/** Settings of the vocabulary. Start with #XSM_CORPUS_OPTIONS_INIT. */
typedef struct xsm_corpus_options {
    size_t size;        /**< sizeof(xsm_corpus_options). */
    uint64_t min_count; /**< Words that occur less often are left out; 0 = 5. */
    uint32_t max_words; /**< Largest size of the vocabulary, the most frequent words; 0 = #XSM_CLASSES_MAX. */
    /** Most different words that are counted at once, below #XSM_CLASSES_MAX; 0 = 16777216. If a text has more, the
     *  rarest words so far are dropped (words with one occurrence, then with two, ...), so that memory stays bounded;
     *  xsm_corpus_info::forgotten is the number of occurrences that were dropped. */
    uint32_t max_distinct;
} xsm_corpus_options;

/** Starting value of an #xsm_corpus_options. */
#define XSM_CORPUS_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_corpus_options), 0, 0, 0                                                                            \
    }

/** Facts about a corpus. Start with #XSM_CORPUS_INFO_INIT. */
typedef struct xsm_corpus_info {
    size_t size;        /**< sizeof(xsm_corpus_info). */
    uint64_t lines;     /**< Lines with at least one word. */
    uint64_t tokens;    /**< Words of the running text. */
    uint64_t known;     /**< Words of the running text that are in the vocabulary. */
    uint64_t forgotten; /**< Words of the running text that were dropped because of xsm_corpus_options::max_distinct. */
    uint32_t words;     /**< Words of the vocabulary, V. */
    uint32_t reserved;  /**< Zero. */
} xsm_corpus_info;

/** Starting value of an #xsm_corpus_info. */
#define XSM_CORPUS_INFO_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(xsm_corpus_info), 0, 0, 0, 0, 0, 0                                                                      \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Opens a text file and counts its words.
 *  @param context context, or NULL
 *  @param path    the file, plain or gzip; training on the corpus reads it again
 *  @param options settings, or NULL
 *  @param[out] out the corpus, the caller's to release with xsm_corpus_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_FORMAT, with line and column, for a word that is not UTF-8 or is longer
 *          than 65535 bytes; #XSM_ERROR_DATA if no word occurs `min_count` times; #XSM_ERROR_RANGE for the options;
 *          #XSM_ERROR_UNSUPPORTED for gzip in a build without zlib. O(bytes of the file). */
XSM_API xsm_status xsm_corpus_open(xsm_context *context, const char *path, const xsm_corpus_options *options,
                                   xsm_corpus **out, xsm_error *err);
/** Gives up the caller's reference to a corpus; NULL is allowed. Trainers keep theirs. */
XSM_API void xsm_corpus_free(xsm_corpus *corpus);
/** Fills `info` (start it with #XSM_CORPUS_INFO_INIT). O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_corpus_get_info(const xsm_corpus *corpus, xsm_corpus_info *info, xsm_error *err);
/** Fills `map` (start it with #XSM_CLASS_MAP_INIT) with the words as names of classes 0..V-1 and their counts; D is 0.
 *  Valid as long as the corpus.
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_corpus_get_class_map(const xsm_corpus *corpus, xsm_class_map *map, xsm_error *err);
/** The number of a word, #XSM_CLASS_UNSEEN if it is not in the vocabulary or an argument is NULL. O(length). */
XSM_API uint32_t xsm_corpus_find(const xsm_corpus *corpus, const char *word);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
