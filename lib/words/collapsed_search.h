/*
 * Gradients of the collapsed objective with the classes of each centre searched for.
 */
#ifndef XSMI_COLLAPSED_SEARCH_H
#define XSMI_COLLAPSED_SEARCH_H

#include "words/collapsed.h"

typedef struct xsmi_collapsed_search xsmi_collapsed_search;

/* Binds an estimator that searches (not NULL) to the output vectors, for centres with up to `most_contexts` distinct
 * contexts. `pairs` [V] of each centre, kept by the caller. */
xsm_status xsmi_collapsed_search_new(xsm_context *ctx, xsm_estimator *e, const xsm_model *input,
                                     const xsm_model *output, const uint64_t *pairs, uint32_t most_contexts,
                                     xsmi_collapsed_search **out, xsm_error *err);
void xsmi_collapsed_search_free(xsmi_collapsed_search *s);
/* To be called when the output vectors have moved. */
xsm_status xsmi_collapsed_search_moved(xsmi_collapsed_search *s, xsm_error *err);
/* Adds the loss of centres first..end, all of them counted, to *loss, and to `gradient` ([V][xsmi_row_stride(D)])
 * their parts of one side's: input rows are written, divided by the centre's pairs; output rows are added to. A loss of
 * NaN where something is not finite. */
xsm_status xsmi_collapsed_search_take(xsmi_collapsed_search *s, const xsmi_cooccurrence *counts, int side,
                                      uint32_t first, uint32_t end, float *gradient, double *loss, xsm_error *err);

#endif
