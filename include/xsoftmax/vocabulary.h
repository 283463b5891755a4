/* SPDX-License-Identifier: MIT */
/**
 * @file vocabulary.h
 * @brief The words of a vocabulary.
 */
#ifndef XSOFTMAX_VOCABULARY_H
#define XSOFTMAX_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>

/** @defgroup vocabulary Vocabularies
 *
 * Text is read with the vocabulary of a class map (xsm_class_map::vocabulary) without looking into it. These functions
 * show what is in it.
 *  @{ */

#ifdef __cplusplus
extern "C" {
#endif

/** Number of words of a vocabulary, V. */
XSM_API uint32_t xsm_vocabulary_words(const xsm_vocabulary *vocabulary);

/** Word number `index`; NULL if `index` is not below V. Borrowed from the vocabulary. */
XSM_API const char *xsm_vocabulary_word(const xsm_vocabulary *vocabulary, uint32_t index);

/** The feature of word number `index`: `index` itself, but for words that were added to a vocabulary with n-grams,
 *  whose features follow the buckets; UINT32_MAX if `index` is not below V. */
XSM_API uint32_t xsm_vocabulary_feature(const xsm_vocabulary *vocabulary, uint32_t index);

/** Fills `options` (start it with #XSM_TEXT_OPTIONS_INIT) with the options that the vocabulary was made with, defaults
 *  filled in; the prefix is borrowed.
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_vocabulary_get_options(const xsm_vocabulary *vocabulary, xsm_text_options *options,
                                              xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
