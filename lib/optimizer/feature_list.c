/* A sparse batch by feature. */
#include "optimizer/feature_list.h"

static xsm_status need_heads(xsm_context *ctx, xsmi_feature_list *list, size_t features, xsm_error *err)
{
    if (list->head_capacity > 0) {
        return XSM_OK;
    }
    list->head = xsmi_allocate(ctx, features, sizeof *list->head);
    list->found = list->head ? xsmi_allocate(ctx, features, sizeof *list->found) : NULL;
    if (!list->found) {
        xsmi_release(ctx, list->head, features, sizeof *list->head);
        list->head = NULL;
        return xsmi_fail_memory(err, 2 * features * sizeof *list->head, "the features of a batch");
    }
    list->head_capacity = features;
    for (size_t j = 0; j < features; j++) {
        list->head[j] = XSMI_NO_ENTRY;
    }
    return XSM_OK;
}

static xsm_status need_entries(xsm_context *ctx, xsmi_feature_list *list, size_t entries, xsm_error *err)
{
    if (entries > list->entry_capacity) {
        xsmi_release(ctx, list->entries, list->entry_capacity, sizeof *list->entries);
        list->entry_capacity = 0;
        list->entries = xsmi_allocate(ctx, entries, sizeof *list->entries);
        if (!list->entries) {
            return xsmi_fail_memory(err, entries * sizeof *list->entries, "the features of a batch");
        }
        list->entry_capacity = entries;
    }
    return XSM_OK;
}

xsm_status xsmi_feature_list_fill(xsm_context *ctx, xsmi_feature_list *list, size_t features, const xsm_batch *batch,
                                  xsm_error *err)
{
    size_t count = 0;
    for (uint64_t i = 0; i < batch->count; i++) {
        count += xsmi_batch_features(batch, i).count;
    }
    if (count >= XSMI_NO_ENTRY || batch->count >= XSMI_NO_ENTRY) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "a batch of %zu features; optimizer 'adagrad' takes fewer than %u",
                         count, XSMI_NO_ENTRY);
    }
    XSMI_TRY(need_heads(ctx, list, features, err));
    for (size_t f = 0; f < list->founds; f++) {
        list->head[list->found[f]] = XSMI_NO_ENTRY;
    }
    list->founds = 0;
    XSMI_TRY(need_entries(ctx, list, count, err));
    uint32_t used = 0;
    for (uint64_t i = batch->count; i-- > 0;) {
        xsmi_features x = xsmi_batch_features(batch, i);
        for (size_t j = 0; j < x.count; j++) {
            uint32_t feature = x.index ? x.index[j] : (uint32_t)j;
            if (list->head[feature] == XSMI_NO_ENTRY) {
                list->found[list->founds++] = feature;
            }
            list->entries[used] = (xsmi_feature_entry){(uint32_t)i, list->head[feature], x.values[j]};
            list->head[feature] = used++;
        }
    }
    return XSM_OK;
}

void xsmi_feature_list_free(xsm_context *ctx, xsmi_feature_list *list)
{
    xsmi_release(ctx, list->entries, list->entry_capacity, sizeof *list->entries);
    xsmi_release(ctx, list->head, list->head_capacity, sizeof *list->head);
    xsmi_release(ctx, list->found, list->head_capacity, sizeof *list->found);
    *list = (xsmi_feature_list){NULL, 0, NULL, NULL, 0, 0};
}

const float *xsmi_feature_list_sum(const xsmi_feature_list *list, uint32_t feature, const xsmi_kernels *kernels,
                                   const float *of, size_t stride, size_t count, float *sums, float *factor)
{
    const xsmi_feature_entry *e = &list->entries[list->head[feature]];
    if (e->next == XSMI_NO_ENTRY) {
        *factor = e->value;
        return of + e->example * stride;
    }
    for (;; e = &list->entries[e->next]) {
        kernels->axpby(sums, of + e->example * stride, count, e->value, 1);
        if (e->next == XSMI_NO_ENTRY) {
            *factor = 1;
            return sums;
        }
    }
}
