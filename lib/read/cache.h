/*
 * A dataset as one safetensors file that is mapped when it is read:
 *
 *     offsets       U64 [N+1]        sparse rows: row i has the values offsets[i]..offsets[i+1]
 *     label_offsets U64 [N+1]        likewise its labels
 *     class_labels  I64 [K]          the file's label of each class, if they are no class numbers
 *     class_counts  I64 [K]          rows that carry each class
 *     values        F32 [nnz], or [N, D] when dense
 *     index         U32 [nnz]        sparse rows: the features, rising
 *     labels        U32 [L]          classes, or 2^32 - 1 for one that the class map lacks
 *     class_names   U8 [bytes]       a name a line, if classes have names
 *     vocabulary    U8 [bytes]       vocabulary_file.c
 *
 * and metadata `dataset` = "1", `features`, `classes`, `index_base`, `source_format`, `dropped_features` and the counts
 * of special rows, so that reading need not count anything.
 */
#ifndef XSMI_CACHE_H
#define XSMI_CACHE_H

#include "data/dataset.h"

xsm_status xsmi_cache_write(const xsm_dataset *d, const char *path, xsm_error *err);

/* A dataset on the mapping, as it was written. Without `believe`, checksum and contents are checked in one pass. */
xsm_status xsmi_cache_open(xsm_context *ctx, const char *path, bool believe, xsm_dataset **out, xsm_error *err);

/* Whether a regular file begins like a container, or like a NumPy file. */
bool xsmi_cache_looks_like(const char *path, bool *npy);

#endif
