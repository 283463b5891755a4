/* Alias tables. */
#include "math/alias.h"

#include "base/order.h"

xsm_status xsmi_alias_new(xsm_context *ctx, const double *weights, uint32_t count, xsmi_alias *out, xsm_error *err)
{
    xsmi_alias_column *columns = xsmi_allocate(ctx, count, sizeof *columns);
    double *rest = xsmi_allocate(ctx, count, sizeof *rest);
    uint32_t *stack =
        xsmi_allocate(ctx, count, sizeof *stack); /* small columns from the bottom, large columns from the top */
    if (!columns || !rest || !stack) {
        xsmi_release(ctx, columns, count, sizeof *columns);
        xsmi_release(ctx, rest, count, sizeof *rest);
        xsmi_release(ctx, stack, count, sizeof *stack);
        return xsmi_fail_memory(err, count * sizeof *columns, "an alias table");
    }
    double total = 0;
    for (uint32_t k = 0; k < count; k++) {
        total += weights[k];
    }
    uint32_t small = 0, large = count, heaviest = 0;
    for (uint32_t k = 0; k < count; k++) {
        rest[k] = weights[k] / total * count;
        heaviest = weights[k] > weights[heaviest] ? k : heaviest;
        if (rest[k] < 1) {
            stack[small++] = k;
        } else {
            stack[--large] = k;
        }
    }
    while (small > 0 && large < count) {
        uint32_t less = stack[--small], more = stack[large];
        double threshold = rest[less] * 0x1p32;
        columns[less].threshold = (uint32_t)XSMI_MIN(threshold, 0x1p32 - 1);
        columns[less].alias = more;
        rest[more] = rest[more] + rest[less] - 1;
        if (rest[more] < 1) {
            large++;
            stack[small++] = more;
        }
    }
    /* The remaining columns are 1 except for rounding; an outcome of probability 0 can only remain by rounding. */
    while (large < count) {
        uint32_t k = stack[large++];
        columns[k].threshold = UINT32_MAX;
        columns[k].alias = k;
    }
    while (small > 0) {
        uint32_t k = stack[--small];
        columns[k].threshold = weights[k] > 0 ? UINT32_MAX : 0;
        columns[k].alias = weights[k] > 0 ? k : heaviest;
    }
    xsmi_release(ctx, rest, count, sizeof *rest);
    xsmi_release(ctx, stack, count, sizeof *stack);
    out->columns = columns;
    out->count = count;
    return XSM_OK;
}

void xsmi_alias_clear(xsm_context *ctx, xsmi_alias *table)
{
    xsmi_release(ctx, table->columns, table->count, sizeof *table->columns);
    table->columns = NULL;
    table->count = 0;
}

/* Draws whose columns are prefetched together. */
enum { TOGETHER = 64 };

void xsmi_alias_draws(const xsmi_alias *table, xsmi_stream *stream, uint32_t count, uint32_t *out)
{
    uint32_t words[TOGETHER];
    for (uint32_t start = 0, n; start < count; start += n) {
        uint32_t *drawn = out + start;
        n = XSMI_MIN(count - start, (uint32_t)TOGETHER);
        for (uint32_t j = 0; j < n; j++) {
            drawn[j] = (uint32_t)xsmi_stream_below(stream, table->count);
            words[j] = xsmi_stream_next(stream);
            __builtin_prefetch(table->columns + drawn[j], 0, 3);
        }
        for (uint32_t j = 0; j < n; j++) {
            const xsmi_alias_column c = table->columns[drawn[j]];
            const uint32_t own = (uint32_t)0 - (words[j] < c.threshold); /* no branch: the processor could not predict
                                                                            it */
            drawn[j] = (drawn[j] & own) | (c.alias & ~own);
        }
    }
}
