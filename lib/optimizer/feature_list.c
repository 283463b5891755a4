/* A sparse batch by feature. */
#include "optimizer/feature_list.h"

/* The largest ratio of the model's features to the entries of the rows at which scanning all features is the faster way
 * of sorting those found. */
#define FEATURES_AN_ENTRY 4

/* Arrays that share a capacity. */
#define BY_FEATURE(l) XSMI_ARRAYS(XSMI_ARRAY((l)->position), XSMI_ARRAY((l)->found), XSMI_ARRAY((l)->starts))
#define BY_ENTRY(l) XSMI_ARRAYS(XSMI_ARRAY((l)->examples), XSMI_ARRAY((l)->values))

void xsmi_feature_list_free(xsm_context *ctx, xsmi_feature_list *list)
{
    xsmi_release_all(ctx, BY_FEATURE(list), &list->feature_capacity);
    xsmi_release_all(ctx, BY_ENTRY(list), &list->entry_capacity);
    list->founds = 0;
}

/* Reserves memory for the features, and for the end of the last feature's examples. */
static xsm_status need_features(xsm_context *ctx, xsmi_feature_list *list, size_t features, xsm_error *err)
{
    if (features + 1 <= list->feature_capacity) {
        return XSM_OK;
    }
    if (!xsmi_reserve_all(ctx, BY_FEATURE(list), &list->feature_capacity, features + 1)) {
        return xsmi_fail_memory(err, 4 * features * sizeof *list->position, "the features of a batch");
    }
    list->founds = 0;
    for (size_t j = 0; j < list->feature_capacity; j++) {
        list->position[j] = XSMI_NO_POSITION;
    }
    return XSM_OK;
}

static xsm_status need_entries(xsm_context *ctx, xsmi_feature_list *list, size_t entries, xsm_error *err)
{
    return xsmi_reserve_all(ctx, BY_ENTRY(list), &list->entry_capacity, entries)
               ? XSM_OK
               : xsmi_fail_memory(err, 2 * entries * sizeof *list->values, "the features of a batch");
}

static uint32_t feature_of(const xsmi_features *x, size_t i)
{
    return x->index ? x->index[i] : (uint32_t)i;
}

/* Numbers the features that occur, and counts their examples in starts[position + 1]. */
static void count_examples(xsmi_feature_list *list, const xsm_batch *batch)
{
    for (uint64_t i = 0; i < batch->count; i++) {
        xsmi_features x = xsmi_batch_features(batch, i);
        for (size_t j = 0; j < x.count; j++) {
            uint32_t *position = &list->position[feature_of(&x, j)];
            if (*position == XSMI_NO_POSITION) {
                *position = (uint32_t)list->founds;
                list->found[list->founds++] = feature_of(&x, j);
                list->starts[list->founds] = 0;
            }
            list->starts[*position + 1]++;
        }
    }
}

/* Sorts the found features in rising order, with their numbers and counts. */
static void sort_features(xsmi_feature_list *list, size_t features)
{
    /* `found` stores the counts; the features are known from `position`. */
    size_t founds = 0;
    for (size_t f = 0; f < list->founds; f++) {
        list->found[f] = (uint32_t)list->starts[f + 1];
    }
    for (size_t j = 0; j < features; j++) {
        if (list->position[j] != XSMI_NO_POSITION) {
            list->starts[++founds] = list->found[list->position[j]];
            list->position[j] = (uint32_t)(founds - 1);
        }
    }
    for (size_t j = 0; j < features; j++) {
        if (list->position[j] != XSMI_NO_POSITION) {
            list->found[list->position[j]] = (uint32_t)j;
        }
    }
}

xsm_status xsmi_feature_list_fill(xsm_context *ctx, xsmi_feature_list *list, size_t features, const xsm_batch *batch,
                                  xsm_error *err)
{
    const size_t count = xsmi_batch_entries(batch);
    if (batch->count > UINT32_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "a batch of %llu sparse rows; accepted are up to %u",
                         (unsigned long long)batch->count, UINT32_MAX);
    }
    XSMI_TRY(need_features(ctx, list, features, err));
    XSMI_TRY(need_entries(ctx, list, count, err));
    for (size_t f = 0; f < list->founds; f++) {
        list->position[list->found[f]] = XSMI_NO_POSITION;
    }
    list->founds = 0;
    count_examples(list, batch);
    if (batch->count > 1 && features / FEATURES_AN_ENTRY <= count) {
        sort_features(list, features);
    }
    list->starts[0] = 0;
    for (size_t f = 0; f < list->founds; f++) {
        list->starts[f + 1] += list->starts[f];
    }
    for (uint64_t i = 0; i < batch->count; i++) {
        xsmi_features x = xsmi_batch_features(batch, i);
        for (size_t j = 0; j < x.count; j++) {
            size_t at = list->starts[list->position[feature_of(&x, j)]]++;
            list->examples[at] = (uint32_t)i;
            list->values[at] = x.values[j];
        }
    }
    for (size_t f = list->founds; f > 0; f--) {
        list->starts[f] = list->starts[f - 1];
    }
    list->starts[0] = 0;
    return XSM_OK;
}

const float *xsmi_feature_list_sum(const xsmi_feature_list *list, size_t f, const xsmi_example_rows *of, float *sums,
                                   float *factor)
{
    const size_t start = list->starts[f], examples = list->starts[f + 1] - start;
    if (examples == 1) {
        *factor = list->values[start];
        return of->rows + list->examples[start] * of->stride;
    }
    of->kernels->column_sums(of->rows, of->stride, list->examples + start, list->values + start, examples, of->count,
                             sums);
    *factor = 1;
    return sums;
}
