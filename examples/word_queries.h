/* What can be asked of word vectors: neighbours, analogies, similarities. */
#ifndef WORD_QUERIES_H
#define WORD_QUERIES_H

#include <xsoftmax.h>

/* Vectors of unit length, looked up by word. */
typedef struct word_set word_set;

/* Loads a `.vec` or a safetensors file. NULL after a message on stderr. */
word_set *word_set_load(const char *path);
void word_set_free(word_set *set);

/* Each returns 0, or 1 after a message on stderr. */
/* Prints the `top` words whose vectors have the largest cosines with that of `word`. */
int word_neighbours(const word_set *set, const char *word, uint32_t top);
/* Scores a file of questions "a b c d" (d is to be the word nearest to b - a + c, those three left out) under headings
 * ": name": the share answered rightly of those whose words are all known. */
int word_analogies(const word_set *set, const char *path);
/* Scores a file of "word word score": Spearman's rank correlation of the scores with the cosines, over the pairs that
 * are known. */
int word_similarity(const word_set *set, const char *path);

#endif
