/*
 * The indexes of an estimator that searches: one for each block of coordinates, kept up with the model.
 *
 * Rows are indexed without the model's alpha, which every decay changes for all rows at once: queries bring it. Rows
 * that the estimator's gradients named are read again before the next search. When the model's scales have been
 * multiplied into its rows, or its weights have moved, all is built anew.
 */
#ifndef XSMI_SEARCHED_H
#define XSMI_SEARCHED_H

#include "index/index.h"

#include <xsoftmax/ext/estimator.h>

typedef struct xsmi_searcher xsmi_searcher;

/* For a model, with indexes like one that is not built. `most_labels` of a row. */
xsm_status xsmi_searcher_new(xsm_context *ctx, const xsm_index *like, const xsm_search_plan *plan,
                             const xsm_model *model, uint64_t rows, xsmi_searcher **out, xsm_error *err);
void xsmi_searcher_free(xsmi_searcher *s);
/* Whether a batch that begins at that place of the run is searched. */
bool xsmi_searcher_begun(const xsmi_searcher *s, uint64_t position);

#endif
