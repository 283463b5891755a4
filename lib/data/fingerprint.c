/*
 * A hash by which two datasets are compared: features, labels, weights and classes.
 */
#include "data/dataset.h"
#include "data/schema.h"
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
    xsmi_dataset_hash *kept =
        &((xsm_dataset *)(uintptr_t)d)->hashes[which]; /* the kept hash is not part of the contents */
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
