/*
 * Rows, classes and labels that are left out of a dataset. Memory is taken before anything changes, so a failure leaves
 * the dataset as it was.
 */

#include "data/dataset.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/held.h"

#include <stdio.h>
#include <string.h>

/* Rows between two polls. */
enum { ROWS_TOGETHER = 4096 };
/* The flags of rows; the other flag is of classes. */
enum { OF_ROWS = XSM_DROP_UNLABELLED | XSM_DROP_EMPTY | XSM_DROP_WEIGHTLESS };

static bool is_dropped(const xsm_dataset *d, uint64_t row, uint32_t which)
{
    return ((which & XSM_DROP_UNLABELLED) && d->label_offsets[row + 1] == d->label_offsets[row]) ||
           ((which & XSM_DROP_EMPTY) && xsmi_dataset_row_is_empty(d, row)) ||
           ((which & XSM_DROP_WEIGHTLESS) && xsmi_dataset_weight(d, row) == 0);
}

/* Moves the kept rows to the front. Row i is tested before its offsets are overwritten, as no row moves back. */
static uint64_t close_up(xsm_dataset *d, uint32_t which)
{
    float *values = xsmi_dataset_own_values(d);
    uint32_t *index = xsmi_dataset_own_index(d);
    uint64_t *offsets = xsmi_dataset_own_offsets(d);
    uint32_t *labels = xsmi_dataset_own_labels(d);
    uint64_t *label_offsets = xsmi_dataset_own_label_offsets(d);
    float *weights = xsmi_dataset_own_weights(d), *label_weights = xsmi_dataset_own_label_weights(d);
    uint64_t kept = 0;
    uint64_t value_next = 0;
    uint64_t label_next = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        if (is_dropped(d, i, which)) {
            continue;
        }
        xsmi_features f = xsmi_dataset_features(d, i);
        size_t label_count;
        const uint32_t *row_labels = xsmi_dataset_labels(d, i, &label_count);
        memmove(labels + label_next, row_labels, label_count * sizeof *labels);
        if (label_weights) {
            memmove(label_weights + label_next, label_weights + d->label_offsets[i],
                    label_count * sizeof *label_weights);
        }
        if (d->sparse) {
            memmove(values + value_next, f.values, f.count * sizeof *values);
            memmove(index + value_next, f.index, f.count * sizeof *index);
            offsets[kept] = value_next;
            value_next += f.count;
        } else {
            memmove(values + kept * d->stride, f.values, d->features * sizeof *values);
        }
        label_offsets[kept] = label_next;
        label_next += label_count;
        if (weights) {
            weights[kept] = weights[i];
        }
        kept++;
        xsmi_dataset_poll(d->context, i);
    }
    if (d->sparse) {
        offsets[kept] = value_next;
    }
    label_offsets[kept] = label_next;
    return kept;
}

/* Which classes stay: those that `least` rows have, and those of a map. */
typedef struct keep {
    const uint64_t *counts; /* [classes] rows that will have each */
    uint64_t least;
    const uint32_t *match; /* [classes] the class of the map, or XSM_CLASS_UNSEEN; NULL: no map */
} keep;

static bool stays(const keep *by, uint32_t k)
{
    return by->counts[k] >= by->least || (by->match && by->match[k] != XSM_CLASS_UNSEEN);
}

/* Renumbers the classes that stay; labels of the others go. */
static xsm_status drop_classes(xsm_dataset *d, const keep *by, xsm_error *err)
{
    uint32_t used = 0, all = d->classes;
    for (uint32_t k = 0; k < d->classes; k++) {
        used += stays(by, k);
    }
    if (used == d->classes) {
        return XSM_OK;
    }
    xsmi_held held = {.context = d->context};
    uint32_t *class_of = xsmi_hold(&held, all, sizeof *class_of);
    int64_t *labels = xsmi_hold(&held, used, sizeof *labels);
    const char **names = d->map.names ? xsmi_hold(&held, used, sizeof *names) : NULL;
    xsm_status status = xsmi_held_check(&held, "the map of classes", err);
    if (status == XSM_OK) {
        uint32_t next = 0;
        for (uint32_t k = 0; k < d->classes; k++) {
            class_of[k] = XSMI_CLASS_DROPPED;
            if (stays(by, k)) {
                class_of[k] = next;
                labels[next] = d->map.labels ? d->map.labels[k] : k;
                if (names) {
                    names[next] = d->map.names[k];
                }
                next++;
            }
        }
        const bool words = names && !d->map.labels; /* the labels are words: class numbers mean nothing */
        status = xsmi_dataset_renumber(d, class_of, used, words ? NULL : labels, names, err);
    }
    xsmi_held_release(&held);
    return status;
}

/* Counts the rows that will be dropped and, if `counts` is not NULL, the remaining rows of each class. */
static xsm_status count_dropped(const xsm_dataset *d, uint32_t which, uint64_t *counts, uint64_t *dropped,
                                xsm_error *err)
{
    *dropped = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        const bool goes = is_dropped(d, i, which);
        size_t count;
        const uint32_t *labels = xsmi_dataset_labels(d, i, &count);
        for (size_t j = 0; counts && !goes && j < count; j++) {
            if (labels[j] != XSM_CLASS_UNSEEN) {
                counts[labels[j]]++;
            }
        }
        *dropped += goes;
        xsmi_dataset_passed(d, i, 1);
        XSMI_TRY(i % ROWS_TOGETHER == 0 ? xsmi_go_on(d->context, err) : XSM_OK);
    }
    const char *const parts[] = {which & XSM_DROP_UNLABELLED ? " or without a label" : "",
                                 which & XSM_DROP_EMPTY ? " or without a non-zero feature" : "",
                                 which & XSM_DROP_WEIGHTLESS ? " or of weight 0" : ""};
    char said[80];
    (void)snprintf(said, sizeof said, "%s%s%s", parts[0], parts[1], parts[2]);
    return *dropped < d->rows ? XSM_OK
                              : xsmi_fail(err, XSM_ERROR_DATA, "all %llu rows are %s: none would be left",
                                          (unsigned long long)d->rows, said + strlen(" or "));
}

/* Drops classes before the rows: dropping classes can fail. */
static xsm_status drop(xsm_dataset *d, uint32_t which, uint64_t *counts, uint64_t *dropped, xsm_error *err)
{
    const bool some = ((which & XSM_DROP_UNLABELLED) && d->counted.unlabelled > 0) ||
                      ((which & XSM_DROP_EMPTY) && d->counted.empty > 0) ||
                      ((which & XSM_DROP_WEIGHTLESS) && d->weights);
    const keep used = {counts ? counts : d->map.counts, 1, NULL};
    *dropped = 0;
    XSMI_TRY(some ? count_dropped(d, which, counts, dropped, err) : XSM_OK);
    XSMI_TRY(*dropped > 0 ? xsmi_dataset_own(d, XSMI_OWN_ALL, err) : XSM_OK);
    XSMI_TRY(which & XSM_DROP_CLASSES ? drop_classes(d, &used, err) : XSM_OK);
    if (*dropped > 0) {
        d->rows = close_up(d, which);
        xsmi_dataset_count_features(d);
        xsmi_dataset_count_labels(d);
    }
    return XSM_OK;
}

xsm_status xsm_dataset_drop(xsm_dataset *d, uint32_t which, uint64_t *dropped, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"});
    const uint32_t rows = which & (uint32_t)OF_ROWS;
    if (which & ~(rows | XSM_DROP_CLASSES)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_dataset_drop: which is %u; a sum of XSM_DROP_UNLABELLED (1), XSM_DROP_EMPTY (2), "
                         "XSM_DROP_CLASSES (4) and XSM_DROP_WEIGHTLESS (8) is accepted",
                         which);
    }
    const uint32_t all = rows && which & XSM_DROP_CLASSES ? d->classes : 0;
    uint64_t *counts = NULL, count;
    if (all > 0) {
        XSMI_TRY(xsmi_zeros_new(d->context, &counts, all, sizeof *counts, "the rows of classes", err));
    }
    xsmi_activity activity;
    xsmi_begin(&activity, d->context, "dropping rows and classes", "rows", 0);
    const xsm_status status = xsmi_end(&activity, drop(d, which, counts, &count, err), err);
    xsmi_release(d->context, counts, all, sizeof *counts);
    if (status == XSM_OK && dropped) {
        *dropped = count;
    }
    return status;
}

/* Counts the labels that will be dropped; fails if no row would keep one. */
static xsm_status count_rare(const xsm_dataset *d, const keep *by, uint64_t *rare, xsm_error *err)
{
    uint64_t most = 0;
    bool some = false;
    *rare = 0;
    for (uint32_t k = 0; k < d->classes; k++) {
        const uint64_t count = by->counts[k];
        *rare += count > 0 && !stays(by, k);
        some |= count > 0 && stays(by, k);
        most = count > most ? count : most;
    }
    return some ? XSM_OK
                : xsmi_fail(err, XSM_ERROR_DATA,
                            "no label has %llu rows or more, so that none would be left; the most frequent has %llu",
                            (unsigned long long)by->least, (unsigned long long)most);
}

/* `match`: [classes] scratch with a map, else NULL. */
static xsm_status drop_rare(xsm_dataset *d, uint64_t least, const xsm_class_map *map, uint32_t *match, uint64_t *rare,
                            xsm_error *err)
{
    xsm_class_map own = XSM_CLASS_MAP_INIT;
    const keep frequent = {d->map.counts, least, match};
    XSMI_TRY(xsm_dataset_get_class_map(d, &own, err));
    XSMI_TRY(match ? xsmi_class_match(d->context, &own, map, match, err) : XSM_OK);
    XSMI_TRY(count_rare(d, &frequent, rare, err));
    return drop_classes(d, &frequent, err);
}

xsm_status xsm_dataset_drop_rare_labels(xsm_dataset *d, uint64_t least, const xsm_class_map *known, uint64_t *dropped,
                                        xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"});
    if (least == 0) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_dataset_drop_rare_labels: least is 0; at least 1 is accepted");
    }
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    const uint32_t all = known ? d->classes : 0;
    uint32_t *match = NULL;
    uint64_t rare = 0;
    if (known) {
        XSMI_TRY(xsmi_class_map_read(known, &map, err));
        XSMI_TRY(xsmi_array_new(d->context, &match, all, sizeof *match, "the classes of a map", err));
    }
    xsmi_activity activity;
    xsmi_begin(&activity, d->context, "dropping rare labels", "rows", 0);
    const xsm_status status = xsmi_end(&activity, drop_rare(d, least, &map, match, &rare, err), err);
    xsmi_release(d->context, match, all, sizeof *match);
    if (status == XSM_OK && dropped) {
        *dropped = rare;
    }
    return status;
}
