/*
 * What the tests of word vectors share: texts whose neighbours are known, and models of their words.
 */
#ifndef XSM_TEST_WORDS_H
#define XSM_TEST_WORDS_H

#include "training.h"

#include <xsoftmax/words/skipgram.h>

xsm_corpus *test_corpus(xsm_context *ctx, const char *path, uint64_t min_count);
/* Vectors of its words, that start within the spread. */
xsm_model *test_vectors(xsm_context *ctx, const xsm_corpus *c, uint32_t dimension, double spread, uint64_t seed);

/* A text whose lines each have eight words of one of TEST_TOPICS topics, word t of topic k being "k_t". */
enum { TEST_TOPICS = 8, TEST_OF_TOPIC = 12 };
const char *test_topics_text(const char *name, int lines, uint64_t seed);
/* Share of its words whose nearest neighbour by cosine is of their topic. */
double test_neighbours_right(xsm_model *m);
/* Settings that such a text is learnt with. */
xsm_skipgram_options test_word_run(uint64_t epochs);

#endif
