/*
 * Internals of skip-gram training: centres and their contexts from a text, and batches of steps.
 */
#ifndef XSMI_SKIPGRAM_H
#define XSMI_SKIPGRAM_H

#include "base/random.h"
#include "words/corpus.h"
#include "estimator/estimator.h"
#include "math/alias.h"

#include <xsoftmax/words/skipgram.h>

/* Most centres of a batch. */
#define XSMI_BATCH_MOST 65536
/* Most words of a line, or piece of a line, that share windows. */
#define XSMI_LINE_WORDS 1024

/* What word vectors are trained on and with; all are borrowed. */
typedef struct xsmi_word_task {
    xsm_context *context;
    const xsm_corpus *corpus;
    xsm_model *input, *output;
    xsm_estimator *estimator; /* or NULL */
} xsmi_word_task;

/* -- centres and contexts (skipgram_text.c, skipgram.c) ------------------------------------------------------------ */

typedef struct xsmi_text_settings {
    uint32_t window;  /* most words on each side */
    double subsample; /* the threshold t of the probability of keeping a word; t >= 1 keeps all */
    uint64_t seed;
} xsmi_text_settings;

typedef struct xsmi_centres {
    const xsm_corpus *corpus;
    xsmi_text_settings settings;
    uint32_t *keep; /* [V] an occurrence is kept when 32 random bits are not above it */
    uint64_t lines; /* pieces of lines read over all epochs; they number the random streams */
    uint64_t known; /* words of the vocabulary read in this pass */
    xsmi_words words;
    xsmi_stream stream;
    uint32_t count, position; /* of the current line */
    uint32_t line[XSMI_LINE_WORDS];
} xsmi_centres;

/* A centre: words[before] with its contexts around it. */
typedef struct xsmi_centre {
    const uint32_t *words; /* valid until the next centre */
    uint32_t before, after;
} xsmi_centre;

/* Call before the first pass over the text: computes the probability of keeping each word of the vocabulary. */
xsm_status xsmi_centres_open(xsmi_centres *c, xsm_context *ctx, const xsm_corpus *corpus,
                             const xsmi_text_settings *settings, xsm_error *err);
/* Closes the text; allowed on zeroed memory with words.source.fd = -1. */
void xsmi_centres_close(xsmi_centres *c, xsm_context *ctx);
/* Goes to the start of the text. */
xsm_status xsmi_centres_rewind(xsmi_centres *c, xsm_error *err);
/* Finds the next centre that has contexts; *found = false at the end of the text. */
xsm_status xsmi_centres_next(xsmi_centres *c, xsmi_centre *centre, bool *found, xsm_error *err);

/* Reads settings, sets defaults and checks them; `given` may be NULL. */
xsm_status xsmi_skipgram_read_options(const xsm_skipgram_options *given, const xsm_corpus *corpus,
                                      xsm_skipgram_options *o, xsm_error *err);
/* Checks that two models match a corpus and each other, and converts them to a layout for steps. */
xsm_status xsmi_word_models_check(const xsm_corpus *corpus, xsm_model *input, xsm_model *output, xsm_error *err);

/* -- batches (skipgram_batch.c) ------------------------------------------------------------------------------------ */

/* Steps in the order of the text. */
typedef struct xsmi_drawn {
    uint32_t steps;
    uint32_t *centres;  /* [batch] */
    uint32_t *starts;   /* [batch+1] of their contexts */
    uint32_t *contexts; /* [batch * 2 window] */
    uint64_t known;     /* words of the text read when it was filled */
    bool last;          /* it is the last of the text */
} xsmi_drawn;

typedef struct xsmi_skipgram_batch xsmi_skipgram_batch;

/* Makes a batch; without an estimator it does word2vec's negative sampling. The estimator is bound. */
xsm_status xsmi_skipgram_batch_new(const xsmi_word_task *task, const xsm_skipgram_options *o, xsmi_skipgram_batch **out,
                                   xsm_error *err);
void xsmi_skipgram_batch_free(xsmi_skipgram_batch *b);
/* Runs the steps that are ready, the first of which is step `position` of the run, and meanwhile reads the next ones
 * from the text. The first call of a pass has no ready steps and runs none; the call that runs the text's last steps
 * reports this. *result: the steps run, with the loss summed over pairs. Returns XSM_ERROR_DIVERGED without a message
 * when something is not finite: then no step was applied, or, if steps are applied one by one, only those before. */
typedef struct xsmi_batch_result {
    uint64_t steps, pairs, known;
    double loss;
    bool last;
} xsmi_batch_result;
xsm_status xsmi_skipgram_batch_run(xsmi_skipgram_batch *b, xsmi_centres *text, uint64_t position, double eta,
                                   xsmi_batch_result *result, xsm_error *err);

#endif
