/*
 * The n-grams of text that a choice compares: single words; words with the n-grams of words with which the rows were
 * read; words with n-grams of characters; words with both. There are as many buckets as are in use, at most those of
 * the rows.
 */
#include "auto/choose.h"

#include "base/entry.h"
#include "base/order.h"
#include "data/ngrams.h"
#include "data/vocabulary.h"

/* N-grams have one to CHARS characters: one, so that every word has some, and four for stems and endings. */
enum { CHARS = 4 };
/* Number of rows in which features are counted. */
enum { ROWS_MEASURED = 500 };

/* Adds n-grams, with only as many buckets as are in use, rounded up to a number to which the rows' buckets can be
 * reduced. */
static xsm_status add(xsmi_chooser *c, xsm_text_options text, xsm_error *err)
{
    uint32_t used = 0;
    xsmi_schema *all;
    XSMI_TRY(xsmi_schema_with_ngrams(c->train->schema, &text, &all, err));
    const xsm_status status = xsmi_dataset_count_ngrams(c->train, all, &used, err);
    xsmi_schema_release(all);
    XSMI_TRY(status);
    while (text.buckets % 2 == 0 && text.buckets / 2 >= XSMI_MAX(used, 1)) {
        text.buckets /= 2;
    }
    XSMI_TRY(xsmi_schema_with_ngrams(c->train->schema, &text, &c->texts[c->text_count], err));
    c->result->texts[c->text_count] = text;
    c->result->texts[c->text_count++].label_prefix = NULL;
    return XSM_OK;
}

xsm_status xsmi_texts_list(xsmi_chooser *c, xsm_error *err)
{
    const xsm_dataset *d = c->train;
    const xsm_vocabulary *words = xsmi_schema_vocabulary(d->schema);
    const char *what = !words                                          ? "no text"
                       : d->transformed                                ? "transformed"
                       : xsmi_vocabulary_is_fasttext(words)            ? "read for a model of fastText"
                       : xsmi_vocabulary_options(words)->max_chars > 0 ? "read with n-grams of characters"
                                                                       : NULL;
    if (what) {
        return xsmi_fail(
            err, XSM_ERROR_ARGUMENT,
            "rows that are %s; a choice of n-grams accepts rows as they are read from text, without n-grams "
            "of characters",
            what);
    }
    const xsm_text_options read = *xsmi_vocabulary_options(words);
    xsm_text_options text = read;
    const bool chars = read.min_count == 1; /* otherwise some words are unknown */
    for (uint32_t i = 0; i < XSMI_TEXTS; i++) {
        text.word_ngrams = i % 2 == 0 ? 1 : read.word_ngrams;
        text.min_chars = i < 2 ? 0 : 1;
        text.max_chars = i < 2 ? 0 : CHARS;
        if ((i % 2 == 0 || read.word_ngrams > 1) && (i < 2 || chars)) {
            XSMI_TRY(add(c, text, err));
        }
    }
    return XSM_OK;
}

xsm_status xsmi_texts_measure(const xsmi_chooser *c, uint32_t text, double *features, xsm_error *err)
{
    uint64_t rows[ROWS_MEASURED];
    const uint64_t count = XSMI_MIN(c->train->rows, ROWS_MEASURED);
    xsm_dataset *some;
    for (uint64_t i = 0; i < count; i++) {
        rows[i] = i * (c->train->rows / count);
    }
    XSMI_TRY(xsm_dataset_select(c->train, rows, count, &some, err));
    const xsm_status status = xsmi_dataset_take_ngrams(some, c->texts[text], err);
    *features = (double)some->offsets[count] / (double)count;
    xsm_dataset_free(some);
    return status;
}

void xsmi_texts_free(xsmi_chooser *c)
{
    for (uint32_t i = 0; i < c->text_count; i++) {
        xsmi_schema_release(c->texts[i]);
    }
}
