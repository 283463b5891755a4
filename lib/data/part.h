/*
 * Rows that are divided among the ranks of a dataset's context (xsm_dataset_divide()): each rank keeps the features of
 * a contiguous share, and has those of other ranks while it needs them, by an exchange in which all take part. Labels,
 * weights, and where sparse rows begin, are on every rank.
 */
#ifndef XSMI_PART_H
#define XSMI_PART_H

#include "data/dataset.h"

#include <xsoftmax/batch.h>

/* Rows that were exchanged: of each rank those that were asked for, in that order. A row is its values, and for sparse
 * rows its features then. */
typedef struct xsmi_fetched {
    uint64_t *rows; /* [count] as asked for */
    size_t count, row_capacity;
    unsigned char *bytes;
    size_t byte_capacity;
} xsmi_fetched;

struct xsmi_row_part {
    uint64_t first,
        end;       /* the rows whose features this rank keeps, its share (base/share.h): values and index are theirs */
    uint64_t hash; /* xsmi_dataset_hash_features() of all rows */
    size_t order_bytes; /* xsmi_dataset_order_bytes() of the undivided dataset */
    uint64_t *place;    /* [rows] 1 + where the row begins in now.bytes; 0: it is not there */
    xsmi_fetched now, next;
    unsigned char *mine; /* what this rank sends */
    size_t mine_capacity;
    size_t *sizes, *at; /* [ranks] bytes of each rank's block, and where it begins */
};

/* Whether this rank keeps the features of a row; true of all rows that are not divided. */
bool xsmi_dataset_keeps(const xsm_dataset *d, uint64_t row);
/* Gets the features of the rows rows[0..count), or first..first+count for NULL, which all ranks ask for; those of an
 * earlier call are no longer there. Nothing is sent for the same rows as in that call, nor where rows are not divided.
 * Each rank sends the rows that it keeps, 4 bytes for each value and for each feature that a sparse row lists, and 4 to
 * agree. A caller whose ranks may have failed before gets here, or to an agreement. */
xsm_status xsmi_dataset_fetch(const xsm_dataset *d, const uint64_t *rows, uint64_t first, size_t count, xsm_error *err);
/* Whether the features of a checked batch come from rows that are divided. */
static inline bool xsmi_batch_is_divided(const xsm_batch *batch)
{
    return !batch->values && batch->dataset && batch->dataset->part;
}
/* The same for rows of a checked batch; those that come with it are not looked at. */
xsm_status xsmi_batch_fetch(const xsm_batch *batch, size_t first, size_t count, xsm_error *err);
/* Refuses rows that are divided; the message begins with `what`. */
xsm_status xsmi_dataset_need_whole(const xsm_dataset *d, const char *what, xsm_error *err);
/* The same for the dataset of a public function, which may be NULL. */
xsm_status xsmi_dataset_need_given(const xsm_dataset *d, const char *function, xsm_error *err);

/* Compare the rows that all ranks have read, the second without the features, by hashes: an error on all ranks if those
 * of one are not rank 0's. Each rank sends 32 bytes. A rank that has failed before calls xsmi_agree() instead.
 * (fingerprint.c) */
xsm_status xsmi_check_same_rows(xsm_context *ctx, const xsm_dataset *d, xsm_error *err);
xsm_status xsmi_check_same_labels(xsm_context *ctx, const xsm_dataset *d, xsm_error *err);
/* xsmi_agree_same() on the rows of a batch: those of a dataset by its hash and the rows' numbers, those of a host's
 * arrays by how many they are. `status` says whether the batch was accepted; if not it is not read. */
xsm_status xsmi_check_same_batch(xsm_context *ctx, const xsm_batch *batch, xsm_status status, xsm_error *err);

/* Releases what a divided dataset of so many rows has besides; NULL is allowed. */
void xsmi_row_part_free(xsm_context *ctx, xsmi_row_part *p, uint64_t rows);

#endif
