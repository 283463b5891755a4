/*
 * Coordinates of a batch's rows in an orthonormal basis of their span, and where those of fixed minibatches are kept.
 */
#ifndef XSMI_SPAN_H
#define XSMI_SPAN_H

#include "base/base.h"
#include "data/dataset.h"

typedef struct xsmi_spans xsmi_spans;

/* Bytes of kept coordinates; batches beyond it are worked out each time. */
#define XSMI_SPANS_MOST ((size_t)256 << 20)

/* `keep`: whether batches will come again, so that it is worth keeping what was worked out for them. `data` must stay.
 */
xsm_status xsmi_spans_new(xsm_context *ctx, const xsm_dataset *data, const xsmi_kernels *kernels, bool keep,
                          xsmi_spans **out, xsm_error *err);
void xsmi_spans_free(xsmi_spans *s);
/* Coordinates [count][*rank] of the rows, whose products are those of the rows up to float rounding; linearly dependent
 * rows (duplicates, rows of zeros) make the rank less than count. Valid until the next call. Kept ones are found by
 * their rows, all of them, in order. O(count^2) products of rows, on the context's threads, when they are worked out.
 */
xsm_status xsmi_spans_get(xsmi_spans *s, const uint64_t *rows, size_t count, const double **coordinates, size_t *rank,
                          xsm_error *err);
/* Batches that are kept; for tests. */
size_t xsmi_spans_kept(const xsmi_spans *s);

#endif
