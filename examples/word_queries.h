/* Queries of word vectors: neighbours, analogies, similarities. */
#ifndef WORD_QUERIES_H
#define WORD_QUERIES_H

#include <xsoftmax-words.h>
#include <xsoftmax.h>

/* Vectors of unit length, looked up by word. */
typedef struct word_set word_set;

/* Loads a `.vec` or a safetensors file. On failure, prints a message to stderr and returns NULL. */
word_set *word_set_load(const char *path);
void word_set_free(word_set *set);

/* Each returns 0, or 1 after printing a message to stderr. */
/* Prints the `top` words whose vectors have the largest cosines with that of `word`. */
int word_neighbours(const word_set *set, const char *word, uint32_t top);
/* Evaluates a file of questions "a b c d" under headings ": name". d is the expected word, the nearest to b - a + c
 * other than these three. Prints the share of correct answers to the questions whose words are all known. */
int word_analogies(const word_set *set, const char *path);
/* Evaluates a file of "word word score": Spearman's rank correlation of the scores with the cosines, over the pairs of
 * known words. */
int word_similarity(const word_set *set, const char *path);

#endif
