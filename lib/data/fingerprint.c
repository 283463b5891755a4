/*
 * A number that tells whether two datasets are the same rows: features, labels and what classes there are.
 */
#include "data/dataset.h"
#include "base/hash.h"

uint64_t xsmi_dataset_fingerprint(const xsm_dataset *d)
{
    const uint64_t shape[] = {d->rows, d->features, d->classes, d->sparse};
    uint64_t hash = xsmi_hash(shape, sizeof shape, 0);
    if (d->sparse) {
        uint64_t first = d->offsets[0], count = d->offsets[d->rows] - first;
        hash = xsmi_hash(d->offsets, (size_t)(d->rows + 1) * sizeof *d->offsets, hash);
        hash = xsmi_hash(d->values + first, (size_t)count * sizeof *d->values, hash);
        hash = xsmi_hash(d->index + first, (size_t)count * sizeof *d->index, hash);
    } else {
        for (uint64_t i = 0; i < d->rows; i++) { /* what lies between rows is not theirs */
            hash = xsmi_hash(d->values + i * d->stride, d->features * sizeof *d->values, hash);
        }
    }
    uint64_t first = d->label_offsets[0], labels = d->label_offsets[d->rows] - first;
    hash = xsmi_hash(d->label_offsets, (size_t)(d->rows + 1) * sizeof *d->label_offsets, hash);
    hash = xsmi_hash(d->labels + first, (size_t)labels * sizeof *d->labels, hash);
    if (d->class_labels) {
        hash = xsmi_hash(d->class_labels, d->classes * sizeof *d->class_labels, hash);
    }
    return hash;
}
