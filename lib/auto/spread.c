/*
 * How much the sizes of features differ. Training by named settings, on rows without a transform, may fail because of
 * that without an error.
 */
#include "auto/choose.h"

#include "base/entry.h"
#include "base/order.h"

#include <math.h>

typedef struct sizes {
    double *squares, *counts; /* [features] of the values that are not zero */
    double rows;
} sizes;

static void add_rows(const xsm_dataset *d, sizes *s)
{
    const uint64_t count = XSMI_MIN(d->rows, XSMI_MEASURED);
    for (uint64_t i = 0; i < count; i++) {
        const xsmi_features x = xsmi_dataset_features(d, i * d->rows / count);
        for (size_t j = 0; j < x.count; j++) {
            const size_t feature = x.index ? x.index[j] : j;
            const double value = (double)x.values[j];
            s->squares[feature] += value * value;
            s->counts[feature] += value != 0;
        }
    }
    s->rows = (double)count;
}

/* Compares the mean squares of features, and that of all rare ones together. */
static void compare(const sizes *s, uint32_t features, double *ratio, uint32_t *feature)
{
    double squares = 0, count = 0, least = (double)INFINITY, most = 0;
    for (uint32_t j = 0; j < features; j++) {
        const bool often = s->counts[j] >= XSMI_FILLED * s->rows, some = s->counts[j] > 0;
        squares += often ? 0 : s->squares[j];
        count += often ? 0 : s->counts[j];
        const double mean = often && some ? s->squares[j] / s->counts[j] : 0;
        least = mean > 0 ? fmin(least, mean) : least;
        *feature = mean > most ? j : *feature;
        most = fmax(most, mean);
    }
    if (squares > 0) {
        *feature = squares / count > most ? UINT32_MAX : *feature;
        least = fmin(least, squares / count);
        most = fmax(most, squares / count);
    }
    *ratio = most > 0 ? sqrt(most / least) : 1;
}

xsm_status xsm_dataset_spread(const xsm_dataset *dataset, double *ratio, uint32_t *feature, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {dataset, "the data"}, {ratio, "ratio"});
    const uint32_t features = dataset->features;
    sizes s = {0};
    uint32_t largest = UINT32_MAX;
    XSMI_TRY(xsmi_zeros_new(dataset->context, &s.squares, features, 2 * sizeof *s.squares, "sizes of features", err));
    s.counts = s.squares + features;
    add_rows(dataset, &s);
    compare(&s, features, ratio, &largest);
    xsmi_release(dataset->context, s.squares, features, 2 * sizeof *s.squares);
    if (feature) {
        *feature = largest;
    }
    return XSM_OK;
}
