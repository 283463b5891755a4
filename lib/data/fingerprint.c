/*
 * A hash by which two datasets are compared: features, labels, weights and classes.
 */
#include "data/part.h"
#include "base/activity.h"
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
    if (d->part) {
        return d->part->hash;
    }
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
                return hash; /* the caller finds out */
            }
        }
    }
    return hash;
}

/* Of all but the features. */
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
    return hash;
}

static uint64_t hash_labels(const xsm_dataset *d)
{
    const uint64_t shape[] = {d->rows, d->classes};
    return hash_rest(d, xsmi_hash(shape, sizeof shape, 0));
}

static uint64_t hash_whole(const xsm_dataset *d)
{
    return hash_rest(d, xsmi_dataset_hash_features(d));
}

/* A hash that is kept until the dataset is changed. */
static uint64_t known(const xsm_dataset *d, int which, uint64_t (*find)(const xsm_dataset *d))
{
    xsmi_dataset_hash *kept = &((xsm_dataset *)(uintptr_t)d)->hashes[which]; /* no part of the contents */
    const uint64_t of = d->edits + 1;
    if (atomic_load_explicit(&kept->of, memory_order_acquire) == of) {
        return atomic_load_explicit(&kept->value, memory_order_relaxed);
    }
    const uint64_t hash = find(d);
    if (!xsmi_is_cancelled(d->context)) {
        atomic_store_explicit(&kept->value, hash, memory_order_relaxed);
        atomic_store_explicit(&kept->of, of, memory_order_release);
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
