/*
 * Choosing rows and labels of a dataset, and their order. Memory is taken before anything changes, so a failure leaves
 * the dataset as it was.
 */
#include "data/schema.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"
#include "base/random.h"

#include <math.h>

/* -- labels and classes ------------------------------------------------------------------------------------------- */

/* Keeps one label of each row, in arrays of the dataset's own. */
static void keep_one(xsm_dataset *d, int32_t which)
{
    uint32_t *labels = xsmi_dataset_own_labels(d);
    uint64_t *offsets = xsmi_dataset_own_label_offsets(d);
    float *weights = xsmi_dataset_own_label_weights(d);
    uint64_t next = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        size_t count;
        const uint32_t *row = xsmi_dataset_labels(d, i, &count);
        offsets[i] = next;
        if (count > 0) {
            /* Classes are in the order of the file's labels, and an unseen one is larger than any. */
            size_t kept = 0;
            for (size_t j = 1; j < count && which == XSM_KEEP_LABELS_SMALLEST; j++) {
                kept = row[j] < row[kept] ? j : kept;
            }
            if (weights) {
                weights[next] = weights[(size_t)(row - labels) + kept];
            }
            labels[next++] = row[kept];
        }
        xsmi_dataset_poll(d->context, i);
    }
    offsets[d->rows] = next;
    xsmi_dataset_count_labels(d);
}

static xsm_status keep_labels(xsm_dataset *d, int32_t which, xsm_error *err)
{
    bool single = true;
    for (uint64_t i = 0; i < d->rows && single; i++) {
        single = d->label_offsets[i + 1] - d->label_offsets[i] <= 1;
    }
    if (single) {
        return XSM_OK; /* nothing changes, so that a borrowed or mapped array need not be copied */
    }
    XSMI_TRY(xsmi_dataset_own(d, XSMI_OWN_LABELS, err));
    XSMI_TRY(xsmi_go_on(d->context, err));
    keep_one(d, which);
    return XSM_OK;
}

xsm_status xsm_dataset_keep_labels(xsm_dataset *d, int32_t which, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"});
    if (which == XSM_KEEP_LABELS_ALL) {
        return XSM_OK;
    }
    if (which != XSM_KEEP_LABELS_FIRST && which != XSM_KEEP_LABELS_SMALLEST) {
        return xsmi_fail(
            err, XSM_ERROR_ARGUMENT,
            "xsm_dataset_keep_labels: which is %d; XSM_KEEP_LABELS_ALL (0), _FIRST (1) and _SMALLEST (2) are "
            "accepted",
            (int)which);
    }
    xsmi_activity activity;
    xsmi_begin(&activity, d->context, "keeping a label of each row", "rows", 0);
    return xsmi_end(&activity, keep_labels(d, which, err), err);
}

/* Replaces label k by class_of[k], or removes it. */
static void renumber_labels(xsm_dataset *d, const uint32_t *class_of)
{
    uint32_t *labels = xsmi_dataset_own_labels(d);
    uint64_t *offsets = xsmi_dataset_own_label_offsets(d);
    float *weights = xsmi_dataset_own_label_weights(d);
    uint64_t next = 0;
    for (uint64_t i = 0, j = 0; i < d->rows; i++) {
        const uint64_t end = offsets[i + 1];
        offsets[i] = next;
        for (; j < end; j++) {
            const uint32_t k = labels[j] == XSM_CLASS_UNSEEN ? XSM_CLASS_UNSEEN : class_of[labels[j]];
            if (k != XSMI_CLASS_DROPPED) {
                if (weights) {
                    weights[next] = weights[j];
                }
                labels[next++] = k;
            }
        }
        xsmi_dataset_poll(d->context, i);
    }
    offsets[d->rows] = next;
}

xsm_status xsmi_dataset_renumber(xsm_dataset *d, const uint32_t *class_of, uint32_t classes, const int64_t *labels,
                                 const char *const *names, xsm_error *err)
{
    XSMI_TRY(xsmi_dataset_own(d, XSMI_OWN_LABELS, err));
    xsm_dataset *fresh = NULL;
    XSMI_TRY(xsmi_dataset_start(d->context, &fresh, err));
    xsm_status status = xsmi_dataset_set_classes(fresh, classes, labels, names, err);
    status = status == XSM_OK ? xsmi_go_on(d->context, err) : status;
    if (status == XSM_OK) {
        renumber_labels(d, class_of);
        /* The temporary dataset takes the old classes and is freed with them. */
        const xsmi_dataset_map old = d->map;
        const uint32_t before = d->classes;
        d->map.labels = fresh->map.labels;
        d->map.names = fresh->map.names;
        d->map.counts = fresh->map.counts;
        d->map.text = fresh->map.text;
        d->map.text_size = fresh->map.text_size;
        d->classes = classes;
        fresh->map.labels = old.labels;
        fresh->map.names = old.names;
        fresh->map.counts = old.counts;
        fresh->map.text = old.text;
        fresh->map.text_size = old.text_size;
        fresh->classes = before;
        xsmi_dataset_count_labels(d);
    }
    xsm_dataset_free(fresh);
    return status;
}

/* -- order and choice --------------------------------------------------------------------------------------------- */

/* Rows between two polls. */
enum { ROWS_TOGETHER = 4096 };

static xsm_status shuffle_rows(xsm_dataset *d, uint64_t seed, uint64_t *order, xsm_error *err)
{
    xsmi_stream stream;
    xsmi_stream_start(&stream, seed, XSMI_STREAM_PERMUTE, 0);
    XSMI_TRY(xsmi_stream_order(d->context, &stream, order, (size_t)d->rows, err));
    xsm_dataset *fresh = NULL;
    XSMI_TRY(xsmi_dataset_start(d->context, &fresh, err));
    const xsm_status status = xsmi_dataset_gather(fresh, d, order, d->rows, err);
    if (status == XSM_OK) {
        xsmi_dataset_move_rows(d, fresh);
    }
    xsm_dataset_free(fresh);
    return status;
}

xsm_status xsm_dataset_shuffle(xsm_dataset *d, uint64_t seed, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"});
    const size_t rows = (size_t)d->rows;
    uint64_t *order;
    XSMI_TRY(xsmi_array_new(d->context, &order, rows, sizeof *order, "the order of rows", err));
    xsmi_activity activity;
    xsmi_begin(&activity, d->context, "shuffling rows", "rows", 0);
    const xsm_status status = xsmi_end(&activity, shuffle_rows(d, seed, order, err), err);
    xsmi_release(d->context, order, rows, sizeof *order);
    return status;
}

/* Copies rows that are known to exist. */
static xsm_status choose(const xsm_dataset *d, const uint64_t *rows, uint64_t count, xsm_dataset **out, xsm_error *err)
{
    xsm_dataset *fresh;
    XSMI_TRY(xsmi_dataset_start(d->context, &fresh, err));
    xsm_status status = xsmi_dataset_gather(fresh, d, rows, count, err);
    if (status == XSM_OK) {
        status = xsmi_dataset_set_classes(fresh, d->classes, d->map.labels, (const char *const *)d->map.names, err);
    }
    if (status != XSM_OK) {
        xsm_dataset_free(fresh);
        return status;
    }
    fresh->format = d->format;
    fresh->schema = xsmi_schema_retain(d->schema);
    fresh->transformed = d->transformed;
    fresh->unseen_classes = d->unseen_classes;
    xsmi_dataset_count_features(fresh);
    xsmi_dataset_count_labels(fresh);
    status = xsmi_go_on(d->context, err);
    if (status != XSM_OK) {
        xsm_dataset_free(fresh);
        return status;
    }
    *out = fresh;
    return XSM_OK;
}

static xsm_status select_rows(const xsm_dataset *d, const uint64_t *rows, uint64_t count, xsm_dataset **out,
                              xsm_error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        if (rows[i] >= d->rows) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "rows[%llu] is %llu; rows are numbered from 0 to %llu",
                             (unsigned long long)i, (unsigned long long)rows[i], (unsigned long long)d->rows - 1);
        }
        XSMI_TRY(i % ROWS_TOGETHER == 0 ? xsmi_go_on(d->context, err) : XSM_OK);
    }
    return choose(d, rows, count, out, err);
}

xsm_status xsm_dataset_select(const xsm_dataset *d, const uint64_t *rows, size_t count, xsm_dataset **out,
                              xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"});
    if (!out || !rows || count == 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_dataset_select: %s",
                         !out ? "out is NULL" : "no rows are given; at least one is needed");
    }
    xsmi_activity activity;
    xsmi_begin(&activity, d->context, "copying rows", "rows", 0);
    return xsmi_end(&activity, select_rows(d, rows, count, out, err), err);
}

/* Makes both parts of a split; the first has `wanted` rows. rows[] is scratch. */
static xsm_status split_rows(const xsm_dataset *d, uint64_t wanted, uint64_t seed, uint64_t *rows, xsm_dataset *out[2],
                             xsm_error *err)
{
    /* Selection sampling (Knuth 3.4.2 S): each row is taken with the probability that gives every set the same
     * chance. */
    xsmi_stream stream;
    xsmi_stream_start(&stream, seed, XSMI_STREAM_SPLIT, 0);
    uint64_t chosen = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        if (xsmi_stream_below(&stream, d->rows - i) < wanted - chosen) {
            rows[chosen++] = i;
        } else {
            rows[wanted + (i - chosen)] = i;
        }
        XSMI_TRY(i % ROWS_TOGETHER == 0 ? xsmi_go_on(d->context, err) : XSM_OK);
    }
    XSMI_TRY(choose(d, rows, wanted, &out[0], err));
    const xsm_status status = choose(d, rows + wanted, d->rows - wanted, &out[1], err);
    if (status != XSM_OK) {
        xsm_dataset_free(out[0]);
    }
    return status;
}

xsm_status xsm_dataset_split(const xsm_dataset *d, double fraction, uint64_t seed, xsm_dataset **part,
                             xsm_dataset **rest, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"});
    if (!part || !rest || part == rest) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_dataset_split: %s",
                         !part   ? "part is NULL"
                         : !rest ? "rest is NULL"
                                 : "part and rest are the same");
    }
    if (!(fraction > 0 && fraction < 1)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a fraction of %g; between 0 and 1 is accepted", fraction);
    }
    uint64_t wanted = (uint64_t)floor(fraction * (double)d->rows + 0.5);
    if (wanted == 0 || wanted >= d->rows) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "a fraction of %g gives %llu of %llu rows; both parts must get at least one", fraction,
                         (unsigned long long)wanted, (unsigned long long)d->rows);
    }
    xsm_context *ctx = d->context;
    uint64_t *rows;
    XSMI_TRY(xsmi_array_new(ctx, &rows, (size_t)d->rows, sizeof *rows, "the rows of a split", err));
    xsm_dataset *both[2];
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "splitting rows", "rows", 0);
    const xsm_status status = xsmi_end(&activity, split_rows(d, wanted, seed, rows, both, err), err);
    if (status == XSM_OK) {
        *part = both[0];
        *rest = both[1];
    }
    xsmi_release(ctx, rows, (size_t)d->rows, sizeof *rows);
    return status;
}
