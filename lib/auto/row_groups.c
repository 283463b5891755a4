#include "auto/row_groups.h"

#include "auto/choose.h"
#include "base/hash.h"
#include "base/order.h"
#include "data/sort.h"

#include <math.h>
#include <string.h>

/* The fewest comparisons that decide. */
enum { COMPARED_LEAST = 50 };
/* One row in COPIED is a copy, and of these at most one in LABELLED has other labels; and there are DISTINCT others. */
enum { COPIED = 4, LABELLED = 20, DISTINCT = 100 };

/* Returns the cosine of two rows whose features are in rising order; 0 if one is all zeros. */
static double cosine(const xsm_dataset *d, uint64_t a, uint64_t b)
{
    const xsmi_features x = xsmi_dataset_features(d, a), y = xsmi_dataset_features(d, b);
    double product = 0, left = 0, right = 0;
    size_t i = 0, j = 0;
    while (i < x.count || j < y.count) {
        const uint64_t at = i < x.count ? (x.index ? x.index[i] : i) : UINT64_MAX;
        const uint64_t other = j < y.count ? (y.index ? y.index[j] : j) : UINT64_MAX;
        const double u = at <= other ? (double)x.values[i] : 0, v = other <= at ? (double)y.values[j] : 0;
        product += u * v;
        left += u * u;
        right += v * v;
        i += at <= other;
        j += other <= at;
    }
    return left > 0 && right > 0 ? product / sqrt(left * right) : 0;
}

bool xsmi_rows_grouped(const xsm_context *ctx, const xsm_dataset *d, const uint64_t *order, uint64_t *last,
                       double *alike)
{
    uint64_t compared = 0, more = 0, less = 0;
    double sum = 0;
    for (uint32_t k = 0; k < d->classes; k++) {
        last[k] = UINT64_MAX;
    }
    for (uint64_t i = 0; i < d->rows && compared < XSMI_MEASURED; i++) {
        const uint64_t row = order[i];
        size_t labels;
        const uint32_t *label = xsmi_dataset_labels(d, row, &labels);
        const uint64_t same = labels > 0 ? last[label[0]] : UINT64_MAX;
        if (same != UINT64_MAX && row + 1 < d->rows && same != row + 1) {
            const double next = cosine(d, row, row + 1), by_class = cosine(d, row, same);
            more += next > by_class;
            less += next < by_class;
            sum += by_class;
            compared++;
        }
        if (labels > 0) {
            last[label[0]] = row;
        }
        xsmi_dataset_poll(ctx, i);
    }
    *alike = compared > 0 ? sum / (double)compared : 0;
    return compared >= COMPARED_LEAST && 2 * (more - XSMI_MIN(more, less)) > compared;
}

uint64_t xsmi_row_groups(const xsm_context *ctx, const xsm_dataset *d, double alike, uint64_t most, uint64_t *first)
{
    uint64_t groups = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        if (i == 0 || i - first[groups - 1] >= most || !(cosine(d, i - 1, i) > alike)) {
            first[groups++] = i;
        }
        xsmi_dataset_poll(ctx, i);
    }
    return groups;
}

static bool same_labels(const xsm_dataset *d, uint64_t a, uint64_t b)
{
    size_t x, y;
    const uint32_t *left = xsmi_dataset_labels(d, a, &x), *right = xsmi_dataset_labels(d, b, &y);
    return x == y && (x == 0 || memcmp(left, right, x * sizeof *left) == 0);
}

bool xsmi_rows_copied(const xsm_context *ctx, const xsm_dataset *d, uint64_t seed, uint64_t *order, uint64_t *spare)
{
    uint64_t place = 1, copies = 0, others = 0; /* place: a power of two above the numbers of rows */
    while (place < d->rows) {
        place *= 2;
    }
    for (uint64_t i = 0; i < d->rows; i++) {
        const xsmi_features x = xsmi_dataset_features(d, i);
        uint64_t hash = seed;
        for (size_t j = 0; j < x.count; j++) {
            uint32_t bits;
            memcpy(&bits, &x.values[j], sizeof bits);
            hash = xsmi_hash_mix(x.index ? xsmi_hash_mix(hash, x.index[j]) : hash, bits);
        }
        order[i] = (hash & ~(place - 1)) | i;
        xsmi_dataset_poll(ctx, i);
    }
    xsmi_sort(ctx, order, spare, d->rows);
    for (uint64_t i = 1; i < d->rows; i++) {
        const bool same = (order[i - 1] ^ order[i]) < place;
        const bool copy = same && same_labels(d, order[i - 1] & (place - 1), order[i] & (place - 1));
        copies += copy;
        others += same && !copy;
    }
    for (uint64_t i = 0; i < d->rows; i++) {
        order[i] &= place - 1;
    }
    return copies >= d->rows / COPIED && others <= copies / LABELLED && d->rows - copies >= DISTINCT;
}
