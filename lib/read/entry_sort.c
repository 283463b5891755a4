#include "read/entry_sort.h"
#include "base/grow.h"
#include "data/sort.h"

#include <string.h>

/* Rows up to this length are sorted in place. */
#define SHORT_ROW 32

static void sort_short(uint32_t *index, float *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint32_t x = index[i];
        float v = values[i];
        size_t j = i;
        for (; j > 0 && index[j - 1] > x; j--) {
            index[j] = index[j - 1];
            values[j] = values[j - 1];
        }
        index[j] = x;
        values[j] = v;
    }
}

xsm_status xsmi_sort_entries(xsm_context *ctx, xsmi_entry_sort *s, uint32_t *index, float *values, size_t count,
                             xsm_error *err)
{
    if (count <= SHORT_ROW) {
        sort_short(index, values, count);
        return XSM_OK;
    }
    XSMI_TRY(XSMI_GROW(ctx, s->keys, s->key_capacity, count, "sorting a row", err));
    XSMI_TRY(XSMI_GROW(ctx, s->scratch, s->scratch_capacity, count, "sorting a row", err));
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        s->keys[i] = (uint64_t)index[i] << 32 | bits;
    }
    xsmi_sort(ctx, s->keys, s->scratch, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)s->keys[i];
        index[i] = (uint32_t)(s->keys[i] >> 32);
        memcpy(&values[i], &bits, sizeof bits);
    }
    return XSM_OK;
}

size_t xsmi_add_duplicates(uint32_t *index, float *values, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; left++) {
        double sum = 0;
        const uint32_t feature = index[i];
        for (; i < count && index[i] == feature; i++) {
            sum += (double)values[i];
        }
        index[left] = feature;
        values[left] = (float)sum;
    }
    return left;
}

void xsmi_entry_sort_end(xsm_context *ctx, xsmi_entry_sort *s)
{
    xsmi_release(ctx, s->keys, s->key_capacity, sizeof *s->keys);
    xsmi_release(ctx, s->scratch, s->scratch_capacity, sizeof *s->scratch);
}
