/*
 * The collapsed skip-gram objective and its gradients.
 */
#ifndef XSMI_COLLAPSED_H
#define XSMI_COLLAPSED_H

#include "words/cooccurrence.h"

typedef struct xsmi_collapsed xsmi_collapsed;

/* Which vectors a gradient is of. */
enum { XSMI_INPUT, XSMI_OUTPUT };

/* Both models are such as xsmi_word_models_check() leaves them. Options with their defaults. */
xsm_status xsmi_collapsed_new(xsm_context *ctx, const xsm_corpus *corpus, xsm_model *input, xsm_model *output,
                              const xsm_skipgram_fit_options *o, xsmi_collapsed **out, xsm_error *err);
void xsmi_collapsed_free(xsmi_collapsed *c);
/* The objective, or with an estimator its estimate, and the gradient of one side's vectors: [V][xsmi_row_stride(D)],
 * each row divided by the share of the pairs that the word is centre (input) or context (output) of; rows of words that
 * are in none are zero. */
xsm_status xsmi_collapsed_at(xsmi_collapsed *c, int side, double *objective, xsm_error *err);
const float *xsmi_collapsed_gradient(const xsmi_collapsed *c);
/* Pairs that a word is centre or context of, and all pairs; after the first objective. */
const uint64_t *xsmi_collapsed_pairs(const xsmi_collapsed *c, int side, uint64_t *all);

#endif
