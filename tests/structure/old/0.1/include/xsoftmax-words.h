/**
 * @file xsoftmax-words.h
 * @brief Everything that a user of the library for word vectors needs; its functions are in libxsoftmax-words.
 */
#ifndef XSOFTMAX_WORDS_H
#define XSOFTMAX_WORDS_H

#include <xsoftmax/words/corpus.h>
#include <xsoftmax/words/skipgram.h>

/** @defgroup words Word vectors: libxsoftmax-words
 *
 * Corpora and skip-gram models are a library of their own, libxsoftmax-words (pkg-config: `xsoftmax-words`), of which a
 * program that classifies needs nothing. It works with the libxsoftmax of the same release alone: with another one its
 * functions return #XSM_ERROR_UNSUPPORTED, and do nothing.
 */

#endif
