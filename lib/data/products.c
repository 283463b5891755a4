/*
 * Pairs of features that occur together, and their products.
 *
 * Pairs are counted exactly, feature by feature: for feature a, the rows that have it are visited, and the features
 * behind it in them counted. A row is in one list at a time, that of its next feature, so that no index of all values
 * by feature is needed. Counts do not depend on the order of the rows in a list.
 */
#include "data/products.h"
#include "base/activity.h"
#include "base/grow.h"
#include "base/held.h"
#include "base/order.h"
#include "data/sort.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static uint64_t key_of(uint32_t lower, uint32_t higher)
{
    return (uint64_t)lower << 32 | higher;
}

static uint64_t key_at(const xsmi_products *p, uint64_t k)
{
    return key_of(p->pairs[k].lower, p->pairs[k].higher);
}

/* -- learning ------------------------------------------------------------------------------------------------------ */

typedef struct counting {
    xsm_context *context;
    xsmi_held held; /* the arrays */
    const xsm_dataset *rows;
    uint32_t features, least;
    uint64_t *place;         /* [rows] of each row the position of its next feature */
    uint64_t *next;          /* [rows] 1 + the next row of the same list, 0 at its end */
    uint64_t *list;          /* [features] 1 + the first of the rows whose next feature it is, 0 for none */
    uint32_t *counts;        /* [features] rows of the present list that have the feature, at most `least` */
    uint64_t *found, *other; /* [features] features with a count; scratch to sort them */
    uint64_t visits, values;
} counting;

static xsm_status allocate(counting *c, xsm_error *err)
{
    c->held.context = c->context;
    c->place = xsmi_hold_zeros(&c->held, c->rows->rows, sizeof *c->place);
    c->next = xsmi_hold(&c->held, c->rows->rows, sizeof *c->next);
    c->list = xsmi_hold_zeros(&c->held, c->features, sizeof *c->list);
    c->counts = xsmi_hold_zeros(&c->held, c->features, sizeof *c->counts);
    c->found = xsmi_hold(&c->held, c->features, sizeof *c->found);
    c->other = xsmi_hold(&c->held, c->features, sizeof *c->other);
    return xsmi_held_check(&c->held, "the counts of pairs of features", err);
}

/* Rows and features between two polls. */
#define VISITS_TOGETHER 256

static xsm_status poll(counting *c, xsmi_activity *activity, xsm_error *err)
{
    if (++c->visits % VISITS_TOGETHER != 0) {
        return XSM_OK;
    }
    xsmi_reach(activity, c->values);
    return xsmi_go_on(c->context, err);
}

/* Puts a row into the list of the first feature that is not zero from its place on. */
static void put(counting *c, uint64_t row)
{
    const xsmi_features f = xsmi_dataset_features(c->rows, row);
    uint64_t j = c->place[row];
    while (j < f.count && f.values[j] == 0) {
        j++;
    }
    c->place[row] = j;
    if (j < f.count && f.index[j] < c->features) {
        c->next[row] = c->list[f.index[j]];
        c->list[f.index[j]] = row + 1;
    }
}

static bool list_reaches(const counting *c, uint32_t feature)
{
    uint32_t rows = 0;
    for (uint64_t at = c->list[feature]; at > 0 && rows < c->least; at = c->next[at - 1]) {
        rows++;
    }
    return rows >= c->least;
}

/* Counts the features behind the row's present one; returns how many features have a count now. */
static size_t count_row(counting *c, uint64_t row, size_t found)
{
    const xsmi_features f = xsmi_dataset_features(c->rows, row);
    for (size_t j = (size_t)c->place[row] + 1; j < f.count && f.index[j] < c->features; j++) {
        const uint32_t feature = f.index[j], before = c->counts[feature];
        if (f.values[j] == 0) {
            continue;
        }
        if (before == 0) {
            c->found[found++] = feature;
        }
        c->counts[feature] = before + (before < c->least);
    }
    return found;
}

/* Adds the pairs of a feature with those that were found often enough, and clears the counts. */
static xsm_status keep(counting *c, uint32_t feature, size_t found, xsmi_products *out, xsm_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < found; i++) {
        const uint64_t other = c->found[i];
        if (c->counts[other] >= c->least) {
            c->found[kept++] = other;
        }
        c->counts[other] = 0;
    }
    if (kept > (size_t)(XSM_FEATURES_MAX - c->features) - out->count) {
        return xsmi_fail(err, XSM_ERROR_LIMIT,
                         "products=%" PRIu32 ": more than %" PRIu32 " pairs of features are in that many rows, which "
                         "with %" PRIu32 " features is the limit; accepted is a larger number of rows, or fewer "
                         "features",
                         c->least, (uint32_t)XSM_FEATURES_MAX - c->features, c->features);
    }
    xsm_context *ctx = c->context;
    XSMI_TRY(XSMI_GROW(ctx, out->pairs, out->capacity, out->count + kept, "pairs of features", err));
    xsmi_sort(ctx, c->found, c->other, kept);
    for (size_t i = 0; i < kept; i++) {
        out->pairs[out->count++] = (xsmi_feature_pair){feature, (uint32_t)c->found[i]};
    }
    return XSM_OK;
}

static xsm_status count_feature(counting *c, uint32_t feature, xsmi_products *out, xsmi_activity *activity,
                                xsm_error *err)
{
    const bool often = list_reaches(c, feature);
    size_t found = 0;
    for (uint64_t at = c->list[feature], next; at > 0; at = next) {
        XSMI_TRY(poll(c, activity, err));
        next = c->next[at - 1];
        if (often) {
            found = count_row(c, at - 1, found);
        }
        c->place[at - 1]++;
        c->values++;
        put(c, at - 1);
    }
    return keep(c, feature, found, out, err);
}

static xsm_status count_all(counting *c, xsmi_products *out, xsmi_activity *activity, xsm_error *err)
{
    XSMI_TRY(allocate(c, err));
    XSMI_TRY(XSMI_GROW(c->context, out->pairs, out->capacity, 1, "pairs of features", err));
    for (uint64_t i = 0; i < c->rows->rows; i++) {
        XSMI_TRY(poll(c, activity, err));
        put(c, i);
    }
    for (uint32_t feature = 0; feature < c->features; feature++) {
        XSMI_TRY(poll(c, activity, err));
        XSMI_TRY(count_feature(c, feature, out, activity, err));
    }
    return xsmi_go_on(c->context, err); /* a cancelled sort leaves the items unsorted */
}

xsm_status xsmi_products_learn(xsm_context *ctx, const xsm_dataset *d, uint32_t features, uint32_t least,
                               xsmi_products *out, xsm_error *err)
{
    xsmi_activity activity;
    counting c = {.context = ctx, .rows = d, .features = features, .least = least};
    out->features = features;
    xsmi_begin(&activity, ctx, "fitting a transform", "values", d->offsets[d->rows]);
    const xsm_status status = count_all(&c, out, &activity, err);
    xsmi_held_release(&c.held);
    if (status == XSM_OK) {
        xsmi_shrink(ctx, &out->pairs, &out->capacity, out->count, sizeof *out->pairs);
    }
    return xsmi_end(&activity, status, err);
}

/* -- stored pairs -------------------------------------------------------------------------------------------------- */

xsm_status xsmi_products_check(const xsmi_feature_pair *pairs, uint32_t count, uint32_t features, xsm_error *err)
{
    if (count > XSM_FEATURES_MAX - features) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "%" PRIu32 " pairs of a stored transform; with %" PRIu32 " features, at most %" PRIu32
                         " are accepted",
                         count, features, (uint32_t)XSM_FEATURES_MAX - features);
    }
    for (uint32_t k = 0; k < count; k++) {
        const xsmi_feature_pair p = pairs[k];
        if (p.lower >= p.higher || p.higher >= features ||
            (k > 0 && key_of(p.lower, p.higher) <= key_of(pairs[k - 1].lower, pairs[k - 1].higher))) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "pair %" PRIu32 " (from 0) of a stored transform is of features %" PRIu32 " and %" PRIu32
                             "; pairs must rise, and the features of each, all below %" PRIu32,
                             k, p.lower, p.higher, features);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_products_copy(xsm_context *ctx, const xsmi_feature_pair *pairs, uint32_t count, uint32_t features,
                              xsmi_products *out, xsm_error *err)
{
    XSMI_TRY(xsmi_array_new(ctx, &out->pairs, count, sizeof *pairs, "the pairs of a transform", err));
    if (count > 0) {
        memcpy(out->pairs, pairs, count * sizeof *pairs);
    }
    out->count = count;
    out->capacity = count;
    out->features = features;
    return XSM_OK;
}

void xsmi_products_free(xsm_context *ctx, xsmi_products *p)
{
    xsmi_release(ctx, p->pairs, p->capacity, sizeof *p->pairs);
    *p = (xsmi_products){0};
}

/* -- products of a row --------------------------------------------------------------------------------------------- */

uint64_t xsmi_products_most(const xsmi_products *p, size_t count)
{
    const uint64_t pairs = count > 0 ? (uint64_t)count * (count - 1) / 2 : 0;
    return XSMI_MIN(pairs, p->count);
}

/* Returns the first pair from `from` on whose key is not below `key`: in steps that double, then by halves. */
static uint64_t seek_pair(const xsmi_products *p, uint64_t from, uint64_t key)
{
    uint64_t end = from;
    for (uint64_t step = 1; end < p->count && key_at(p, end) < key; step *= 2) {
        from = end + 1;
        end += step;
    }
    end = XSMI_MIN(end, p->count);
    while (from < end) {
        const uint64_t middle = from + (end - from) / 2;
        if (key_at(p, middle) < key) {
            from = middle + 1;
        } else {
            end = middle;
        }
    }
    return from;
}

/* The pairs of a row rise, as those of the list do, so that one pass through the list finds them all: it skips pairs
 * that the row lacks, and features of the row that are in no pair. */
bool xsmi_products_append(const xsmi_products *p, uint32_t *index, float *values, size_t *count, size_t at[2])
{
    const size_t features = *count;
    size_t end = features;
    uint64_t k = 0;
    for (size_t i = 0; i < features && k < p->count; i++) {
        k = seek_pair(p, k, key_of(index[i], 0));
        size_t j = i + 1;
        while (k < p->count && p->pairs[k].lower == index[i]) {
            j += xsmi_lower_bound(index + j, features - j, p->pairs[k].higher);
            if (j == features) {
                break;
            }
            if (index[j] > p->pairs[k].higher) {
                k = seek_pair(p, k, key_of(index[i], index[j]));
                continue;
            }
            const float product = values[i] * values[j];
            if (!isfinite(product)) {
                at[0] = i;
                at[1] = j;
                return false;
            }
            if (product != 0) {
                index[end] = p->features + (uint32_t)k;
                values[end++] = product;
            }
            k++;
        }
    }
    *count = end;
    return true;
}
