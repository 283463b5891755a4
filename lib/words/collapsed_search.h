/*
 * Gradients of the collapsed objective in which the classes of each centre are searched.
 */
#ifndef XSMI_COLLAPSED_SEARCH_H
#define XSMI_COLLAPSED_SEARCH_H

#include "words/collapsed.h"

typedef struct xsmi_collapsed_search xsmi_collapsed_search;

/* Binds the task's estimator, which searches, to the output vectors, for centres with up to `most_contexts` distinct
 * contexts. `pairs` [V] of each centre; borrowed. */
xsm_status xsmi_collapsed_search_new(const xsmi_word_task *task, const uint64_t *pairs, uint32_t most_contexts,
                                     xsmi_collapsed_search **out, xsm_error *err);
void xsmi_collapsed_search_free(xsmi_collapsed_search *s);
/* Call it after the output vectors have changed. */
void xsmi_collapsed_search_moved(xsmi_collapsed_search *s);
/* Most centres that are searched for at once. */
#define XSMI_SEARCH_CENTRES XSM_INDEX_QUERIES
/* Adds the loss of the centres counted to *loss, and their part of one side's gradient to `gradient`
 * ([V][xsmi_row_stride(D)]): input rows are set, divided by the centre's pairs; output rows are added to. The loss is
 * NaN if something is not finite. */
xsm_status xsmi_collapsed_search_add(xsmi_collapsed_search *s, const xsmi_cooccurrence *counts, int side,
                                     float *gradient, double *loss, xsm_error *err);

#endif
