/*
 * A hash by which two datasets are compared, those that processes have read, too: features, labels, weights and
 * classes.
 */
#include "data/same_rows.h"
#include "data/schema.h"
#include "base/activity.h"
#include "base/comm.h"
#include "base/hash.h"
#include "base/order.h"
#include "base/spool.h"

/* Hashes in pieces, so that files may be larger than memory; rows in memory have the same pieces. */
static uint64_t hash_array(const xsm_dataset *d, const void *data, size_t size, uint64_t hash)
{
    for (size_t at = 0;;) {
        size_t piece = XSMI_MIN(size - at, XSMI_FORGET_BYTES);
        hash = xsmi_hash((const char *)data + at, piece, hash);
        at += piece;
        if (at == size || xsmi_poll(d->context)) {
            return hash;
        }
        for (size_t i = 0; i < d->mapped.count; i++) {
            xsmi_mapping_forget(&d->mapped.files[i]);
        }
    }
}

static uint64_t hash_features(const xsm_dataset *d)
{
    const uint64_t shape[] = {d->rows, d->features, d->classes, d->sparse};
    uint64_t hash = xsmi_hash(shape, sizeof shape, 0);
    if (d->sparse) {
        uint64_t first = d->offsets[0], count = d->offsets[d->rows] - first;
        hash = hash_array(d, d->offsets, (size_t)(d->rows + 1) * sizeof *d->offsets, hash);
        hash = hash_array(d, d->values + first, (size_t)count * sizeof *d->values, hash);
        hash = hash_array(d, d->index + first, (size_t)count * sizeof *d->index, hash);
    } else {
        for (uint64_t i = 0; i < d->rows; i++) { /* padding between rows does not count */
            hash = xsmi_hash(d->values + i * d->stride, d->features * sizeof *d->values, hash);
            xsmi_dataset_passed(d, i, 1);
            if (i % 64 == 0 && xsmi_poll(d->context)) {
                return hash; /* the caller finds out that the call was cancelled */
            }
        }
    }
    return hash;
}

/* Hashes all but the features. */
static uint64_t hash_rest(const xsm_dataset *d, uint64_t hash)
{
    uint64_t first = d->label_offsets[0], labels = d->label_offsets[d->rows] - first;
    hash = hash_array(d, d->label_offsets, (size_t)(d->rows + 1) * sizeof *d->label_offsets, hash);
    hash = hash_array(d, d->labels + first, (size_t)labels * sizeof *d->labels, hash);
    if (d->weights) {
        hash = hash_array(d, d->weights, (size_t)d->rows * sizeof *d->weights, hash);
    }
    if (d->label_weights) {
        hash = hash_array(d, d->label_weights + first, (size_t)labels * sizeof *d->label_weights, hash);
    }
    if (d->map.labels) {
        hash = xsmi_hash(d->map.labels, d->classes * sizeof *d->map.labels, hash);
    }
    if (d->map.names) {
        hash = xsmi_hash(d->map.text, d->map.text_size, hash);
    }
    return hash;
}

static uint64_t hash_labels(const xsm_dataset *d)
{
    const uint64_t shape[] = {d->rows, d->classes};
    return hash_rest(d, xsmi_hash(shape, sizeof shape, 0));
}

static uint64_t hash_whole(const xsm_dataset *d)
{
    const uint64_t hash = xsmi_dataset_hash_features(d);
    return hash_rest(d, d->schema ? xsmi_hash(&d->schema->hash, sizeof d->schema->hash, hash) : hash);
}

/* Returns a hash, which is kept until the dataset is changed. */
static uint64_t known(const xsm_dataset *d, int which, uint64_t (*find)(const xsm_dataset *d))
{
    xsmi_dataset_hash *kept = &((xsm_dataset *)(uintptr_t)d)->hashes[which]; /* the kept hash is no part of the
                                                                                contents */
    if (atomic_load_explicit(&kept->known, memory_order_acquire)) {
        const uint64_t high = atomic_load_explicit(&kept->high, memory_order_relaxed);
        return high << 32 | atomic_load_explicit(&kept->low, memory_order_relaxed);
    }
    const uint64_t hash = find(d);
    if (!xsmi_is_cancelled(d->context)) {
        atomic_store_explicit(&kept->high, (uint32_t)(hash >> 32), memory_order_relaxed);
        atomic_store_explicit(&kept->low, (uint32_t)hash, memory_order_relaxed);
        atomic_store_explicit(&kept->known, true, memory_order_release);
    }
    return hash;
}

uint64_t xsmi_dataset_hash_features(const xsm_dataset *d)
{
    return known(d, XSMI_HASH_FEATURES, hash_features);
}

uint64_t xsmi_dataset_hash_labels(const xsm_dataset *d)
{
    return known(d, XSMI_HASH_LABELS, hash_labels);
}

uint64_t xsmi_dataset_fingerprint(const xsm_dataset *d)
{
    return known(d, XSMI_HASH_WHOLE, hash_whole);
}

/* -- processes ----------------------------------------------------------------------------------------------------- */

/* Computes one of the hashes above, which can be cancelled. */
static xsm_status find_hash(const xsm_dataset *d, uint64_t (*find)(const xsm_dataset *d), uint64_t *hash,
                            xsm_error *err)
{
    xsmi_activity activity;
    xsmi_begin(&activity, d->context, "comparing rows", "rows", d->rows);
    *hash = find(d);
    return xsmi_end(&activity, xsmi_go_on(d->context, err), err);
}

static xsm_status check_same(xsm_context *ctx, const xsm_dataset *d, uint64_t (*find)(const xsm_dataset *d),
                             xsm_error *err)
{
    uint64_t hash = 0;
    if (!ctx) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_agree(ctx, find_hash(d, find, &hash, err), err)); /* meets a process that failed before */
    return xsmi_agree_same(ctx, XSM_OK, hash, XSM_ERROR_DATA,
                           "the dataset is not that of rank 0; all ranks must read the same rows", err);
}

xsm_status xsmi_check_same_rows(xsm_context *ctx, const xsm_dataset *d, xsm_error *err)
{
    return check_same(ctx, d, xsmi_dataset_fingerprint, err);
}

xsm_status xsmi_check_same_labels(xsm_context *ctx, const xsm_dataset *d, xsm_error *err)
{
    return check_same(ctx, d, xsmi_dataset_hash_labels, err);
}

xsm_status xsmi_check_same_batch(xsm_context *ctx, const xsm_batch *batch, xsm_status status, xsm_error *err)
{
    uint64_t hash = 0;
    if (ctx && status == XSM_OK && !batch->values) {
        status = find_hash(batch->dataset, xsmi_dataset_fingerprint, &hash, err);
        hash = batch->rows ? xsmi_hash(batch->rows, (size_t)batch->count * sizeof *batch->rows, hash)
                           : xsmi_hash(&batch->first, sizeof batch->first, hash);
    }
    return xsmi_agree_same(ctx, status, xsmi_hash(&batch->count, sizeof batch->count, hash), XSM_ERROR_DATA,
                           "the rows are not those of rank 0; all ranks must give the same rows", err);
}
