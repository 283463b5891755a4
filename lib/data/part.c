/* Rows divided among ranks: part.h. */
#include "data/part.h"

#include "base/order.h"
#include "base/share.h"

#include <string.h>

/* -- which rank has which rows ------------------------------------------------------------------------------------- */

bool xsmi_dataset_keeps(const xsm_dataset *d, uint64_t row)
{
    return !d->part || (row >= d->part->first && row < d->part->end);
}

xsm_status xsmi_dataset_need_whole(const xsm_dataset *d, const char *what, xsm_error *err)
{
    return !d || !d->part ? XSM_OK
                          : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                                      "%s needs the features of all rows, and xsm_dataset_divide() has divided them "
                                      "among %u ranks; a dataset that is not divided is accepted",
                                      what, xsmi_ranks(d->context));
}

xsm_status xsmi_dataset_need_given(const xsm_dataset *d, const char *function, xsm_error *err)
{
    return d ? xsmi_dataset_need_whole(d, function, err)
             : xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: dataset is NULL", function);
}

/* -- features ------------------------------------------------------------------------------------------------------ */

static size_t count_of(const xsm_dataset *d, uint64_t row)
{
    return d->sparse ? (size_t)(d->offsets[row + 1] - d->offsets[row]) : d->features;
}

static size_t bytes_of(const xsm_dataset *d, uint64_t row)
{
    return count_of(d, row) * (sizeof *d->values + (d->sparse ? sizeof *d->index : 0));
}

/* A row that was fetched. */
static xsmi_features features_at(const xsm_dataset *d, uint64_t row, const unsigned char *bytes)
{
    const size_t count = count_of(d, row);
    const void *index = bytes + count * sizeof *d->values;
    return (xsmi_features){(const float *)(const void *)bytes, d->sparse ? index : NULL, count};
}

xsmi_features xsmi_part_features(const xsm_dataset *d, uint64_t row)
{
    const xsmi_row_part *p = d->part;
    if (!xsmi_dataset_keeps(d, row)) { /* a row that nobody has fetched has no memory */
        return p->place[row] ? features_at(d, row, p->now.bytes + (p->place[row] - 1))
                             : (xsmi_features){NULL, NULL, count_of(d, row)};
    }
    if (!d->sparse) {
        return (xsmi_features){d->values + (row - p->first) * d->stride, NULL, d->features};
    }
    const uint64_t at = d->offsets[row] - d->offsets[p->first];
    return (xsmi_features){d->values + at, d->index + at, count_of(d, row)};
}

/* -- the exchange -------------------------------------------------------------------------------------------------- */

static bool is_fetched(const xsmi_row_part *p, const uint64_t *rows, uint64_t first, size_t count)
{
    bool same = count == p->now.count;
    for (size_t i = 0; i < count && same; i++) {
        same = p->now.rows[i] == (rows ? rows[i] : first + i);
    }
    return same;
}

/* Lists the rows, and makes room for them. What was fetched before stays until all ranks have made room. */
static xsm_status prepare(const xsm_dataset *d, const uint64_t *rows, uint64_t first, size_t count, xsm_error *err)
{
    xsmi_row_part *p = d->part;
    xsm_context *ctx = d->context;
    const uint32_t ranks = xsmi_ranks(ctx);
    uint64_t total = 0;
    if (!xsmi_reserve(ctx, &p->next.rows, &p->next.row_capacity, count, sizeof *p->next.rows)) {
        return xsmi_fail_memory(err, count * sizeof *p->next.rows, "the rows of other ranks");
    }
    memset(p->sizes, 0, ranks * sizeof *p->sizes);
    for (size_t i = 0; i < count; i++) {
        const uint64_t row = rows ? rows[i] : first + i;
        p->next.rows[i] = row;
        p->sizes[xsmi_share_of(d->rows, ranks, row)] += bytes_of(d, row);
        total += bytes_of(d, row);
    }
    p->next.count = count;
    const size_t mine = p->sizes[xsmi_rank(ctx)];
    if (total > SIZE_MAX || !xsmi_reserve(ctx, &p->next.bytes, &p->next.byte_capacity, XSMI_MAX(total, 1), 1) ||
        !xsmi_reserve(ctx, &p->mine, &p->mine_capacity, XSMI_MAX(mine, 1), 1)) {
        return xsmi_fail_memory(err, (size_t)total, "the rows of other ranks");
    }
    return XSM_OK;
}

static void pack(const xsm_dataset *d)
{
    const xsmi_row_part *p = d->part;
    unsigned char *to = p->mine;
    for (size_t i = 0; i < p->next.count; i++) {
        const uint64_t row = p->next.rows[i];
        if (xsmi_dataset_keeps(d, row) && count_of(d, row) > 0) {
            const xsmi_features x = xsmi_part_features(d, row);
            memcpy(to, x.values, x.count * sizeof *x.values);
            to += x.count * sizeof *x.values;
            if (x.index) {
                memcpy(to, x.index, x.count * sizeof *x.index);
                to += x.count * sizeof *x.index;
            }
        }
    }
}

/* Makes what has come the rows that are there. */
static void take(const xsm_dataset *d)
{
    xsmi_row_part *p = d->part;
    const uint32_t ranks = xsmi_ranks(d->context);
    const xsmi_fetched before = p->now;
    for (size_t i = 0; i < before.count; i++) {
        p->place[before.rows[i]] = 0;
    }
    size_t start = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        p->at[r] = start;
        start += p->sizes[r];
    }
    for (size_t i = 0; i < p->next.count; i++) {
        const uint64_t row = p->next.rows[i];
        size_t *at = &p->at[xsmi_share_of(d->rows, ranks, row)];
        p->place[row] = *at + 1;
        *at += bytes_of(d, row);
    }
    p->now = p->next;
    p->next = before;
}

xsm_status xsmi_dataset_fetch(const xsm_dataset *d, const uint64_t *rows, uint64_t first, size_t count, xsm_error *err)
{
    xsmi_row_part *p = d->part;
    if (!p || is_fetched(p, rows, first, count)) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_agree(d->context, prepare(d, rows, first, count, err), err));
    pack(d);
    XSMI_TRY(xsmi_exchange_blocks(d->context, p->mine, p->next.bytes, p->sizes, err));
    take(d);
    return XSM_OK;
}

xsm_status xsmi_batch_fetch(const xsm_batch *batch, size_t first, size_t count, xsm_error *err)
{
    return xsmi_batch_is_divided(batch) ? xsmi_dataset_fetch(batch->dataset, batch->rows ? batch->rows + first : NULL,
                                                             batch->first + first, count, err)
                                        : XSM_OK;
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

static void free_fetched(xsm_context *ctx, const xsmi_fetched *f)
{
    xsmi_release(ctx, f->rows, f->row_capacity, sizeof *f->rows);
    xsmi_release(ctx, f->bytes, f->byte_capacity, 1);
}

void xsmi_row_part_free(xsm_context *ctx, xsmi_row_part *p, uint64_t rows)
{
    if (p) {
        free_fetched(ctx, &p->now);
        free_fetched(ctx, &p->next);
        xsmi_release(ctx, p->mine, p->mine_capacity, 1);
        xsmi_release(ctx, p->place, (size_t)rows, sizeof *p->place);
        xsmi_release(ctx, p->sizes, 2 * (size_t)xsmi_ranks(ctx), sizeof *p->sizes);
        xsmi_release(ctx, p, 1, sizeof *p);
    }
}
