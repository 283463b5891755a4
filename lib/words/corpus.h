/*
 * Internals of a corpus: its vocabulary, and the words of its text in order.
 */
#ifndef XSMI_CORPUS_H
#define XSMI_CORPUS_H

#include "base/base.h"
#include "base/counted.h"
#include "data/dictionary.h"
#include "read/source.h"

#include <xsoftmax/words/corpus.h>

struct xsm_corpus {
    xsmi_holders holders;
    xsm_context *context;
    char *path;
    xsmi_dictionary words;
    uint64_t *counts;   /* [words.count], never rising */
    const char **names; /* [words.count] into the dictionary's text */
    xsm_corpus_info info;
};

XSMI_COUNTED(corpus)

/* Words from a source, any number of them a line. */
typedef struct xsmi_words {
    xsmi_source source;
    char *buffer;
    size_t capacity, next, end;
    bool ended;
    uint64_t line;       /* of the current word, from 1 */
    uint64_t line_start; /* bytes before the current line, for computing columns */
    uint64_t passed;     /* bytes before buffer[0] */
} xsmi_words;

/* The next event in a text. */
typedef enum xsmi_word_event {
    XSMI_WORD,      /* a word */
    XSMI_WORD_LINE, /* the end of a line */
    XSMI_WORD_END   /* the end of the text */
} xsmi_word_event;

/* Opens the file at `path`; xsmi_words_close() is allowed after a failure, and on zeroed memory with source.fd = -1. */
xsm_status xsmi_words_open(xsmi_words *w, xsm_context *ctx, const char *path, xsm_error *err);
void xsmi_words_close(xsmi_words *w);
/* Gets the next event; a word is valid until the next call. */
xsm_status xsmi_words_next(xsmi_words *w, xsmi_word_event *event, const char **word, size_t *length, xsm_error *err);

/* Returns the number of a word of the text; UINT32_MAX if it is not in the vocabulary. */
static inline uint32_t xsmi_corpus_number(const xsm_corpus *c, const char *word, size_t length)
{
    return xsmi_dictionary_find_word(&c->words, word, length);
}

#endif
