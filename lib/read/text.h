/*
 * The state of reading text, line by line.
 */
#ifndef XSMI_READ_TEXT_H
#define XSMI_READ_TEXT_H

#include "base/utf8.h"
#include "data/vocabulary.h"
#include "read/reader.h"

/* Something to report once for the whole text: how often it occurred, and where first. */
typedef struct xsmi_text_note {
    uint64_t count, line;
    char first[XSMI_QUOTE_SIZE];
} xsmi_text_note;

void xsmi_text_note_add(xsmi_text_note *n, uint64_t line, const char *word, size_t length);
/* Whether a name has a character that elsewhere separates words or labels: `,;|`, or a blank that is not ASCII. */
bool xsmi_text_is_joined(const char *name, size_t length);

typedef struct xsmi_text {
    xsmi_reader *r;
    xsm_text_options options;
    size_t prefix_length;
    bool only_words;                  /* the text has no labels */
    const xsm_vocabulary *vocabulary; /* the class map's; NULL: it is made from the text */
    bool grows;                       /* words that the class map's vocabulary lacks become features */
    xsmi_dictionary words;            /* the words of the text that `vocabulary` lacks, with their counts */
    bool fasttext;                    /* with a vocabulary: words and n-grams are fastText's */
    uint32_t buckets, bucket_code;    /* features of n-grams, and the code of the first */
    uint64_t kept;                    /* codes from here on are dropped and counted */

    const char *line;
    uint64_t window[XSMI_WORD_NGRAMS_MAX]; /* hashes of the n-grams that end with the last word, by length - 1 */
    uint32_t window_length;
    uint64_t *keys; /* codes of the line */
    size_t key_count, key_capacity;
    uint64_t *scratch;
    size_t scratch_capacity;
    char *marked; /* a word between its brackets */
    size_t marked_capacity;
    xsmi_text_note joined;   /* labels with characters that elsewhere separate words */
    xsmi_text_note missed;   /* words that look like labels */
    xsmi_text_note weighted; /* labels that look as if they had weights */
} xsmi_text;

/* Takes the reader's settings: the class map's vocabulary, or options. Call xsmi_text_end() also after a failure. */
xsm_status xsmi_text_start(xsmi_text *t, xsmi_reader *r, xsm_error *err);
void xsmi_text_end(xsmi_text *t);
/* Reads a line as the reader's next row, whose entries are features if there is a vocabulary, else codes. */
xsm_status xsmi_text_read_row(xsmi_text *t, const char *line, size_t length, xsm_error *err);
/* Reads a text within line `number` of the file as the next row; it has no labels. */
xsm_status xsmi_text_read_words(xsmi_text *t, const char *line, size_t length, uint64_t number, xsm_error *err);
/* Call after the last row: makes the vocabulary, and features of the codes. */
xsm_status xsmi_text_finish(xsmi_text *t, xsm_error *err);

#endif
