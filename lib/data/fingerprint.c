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

uint64_t xsmi_dataset_hash_features(const xsm_dataset *d)
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

uint64_t xsmi_dataset_hash_rest(const xsm_dataset *d, uint64_t hash)
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

uint64_t xsmi_dataset_fingerprint(const xsm_dataset *d)
{
    return xsmi_dataset_hash_rest(d, xsmi_dataset_hash_features(d));
}
