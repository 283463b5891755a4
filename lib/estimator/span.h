/*
 * Coordinates of a batch's rows in an orthonormal basis of their span, and a cache of them for fixed minibatches.
 */
#ifndef XSMI_SPAN_H
#define XSMI_SPAN_H

#include "base/base.h"
#include "data/dataset.h"

typedef struct xsmi_spans xsmi_spans;

/* Bytes of cached coordinates; further batches are computed each time. */
#define XSMI_SPANS_MOST ((size_t)256 << 20)

/* Makes the memory of such coordinates. `keep`: whether batches recur, so that caching their coordinates pays off.
 * `data` must remain valid. */
xsm_status xsmi_spans_new(xsm_context *ctx, const xsm_dataset *data, const xsmi_kernels *kernels, bool keep,
                          xsmi_spans **out, xsm_error *err);
void xsmi_spans_free(xsmi_spans *s);
/* Sets *coordinates to the coordinates [count][*rank] of the rows. Their products equal those of the rows up to 1e-6 of
 * the rows' lengths; linearly dependent rows (duplicates, rows of zeros), and rows with less than 7e-4 of their length
 * outside of the span of the others, make the rank less than count. *coordinates is valid until the next call. Cached
 * batches are found by all their rows, in order. Others take O(count^2) products of rows, on the context's threads. */
xsm_status xsmi_spans_get(xsmi_spans *s, const uint64_t *rows, size_t count, const double **coordinates, size_t *rank,
                          xsm_error *err);
/* Returns the number of cached batches. Only tests call this: the cache changes no result. */
size_t xsmi_spans_kept(const xsmi_spans *s);

#endif
