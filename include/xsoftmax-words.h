/* SPDX-License-Identifier: MIT */
/**
 * @file xsoftmax-words.h
 * @brief Includes all headers of libxsoftmax-words, the library for word vectors.
 */
#ifndef XSOFTMAX_WORDS_H
#define XSOFTMAX_WORDS_H

#include <xsoftmax/words/corpus.h>
#include <xsoftmax/words/skipgram.h>

/** @defgroup words Word vectors: libxsoftmax-words
 *
 * Corpora and skip-gram models are a library of their own, libxsoftmax-words (pkg-config: `xsoftmax-words`). Programs
 * that only classify do not need it. It works only with the libxsoftmax of the same release: with another release its
 * functions return #XSM_ERROR_UNSUPPORTED and do nothing.
 */

#endif
