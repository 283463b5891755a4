/* Sparse weights of some of the rows: those of one rank of a divided model. */
#include "model/sparse.h"

#include "base/order.h"

#include <string.h>

/* The chunk that has a row: of places 0..chunks the last that does not begin after it. */
static uint32_t chunk_of(const xsmi_sparse_place *places, uint32_t chunks, uint32_t row)
{
    uint32_t low = 0, high = chunks; /* places[low].row <= row < places[high].row */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (places[middle].row <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

uint32_t xsmi_sparse_chunk_of(const xsmi_sparse *s, uint32_t row)
{
    return chunk_of(s->places, s->chunks, row);
}

void xsmi_sparse_chunks_of(const xsmi_sparse_place *places, uint32_t chunks, uint32_t first, uint32_t end,
                           uint32_t *from, uint32_t *to)
{
    *from = chunk_of(places, chunks, first);
    *to = places[*from + 1].row >= end ? *from + 1 : chunk_of(places, chunks, end - 1) + 1;
}

/* Where the weights of some chunks go; without memory they are only counted. */
typedef struct target {
    xsmi_sparse_place at; /* what there is so far */
    xsmi_sparse_block *blocks;
    xsmi_sparse_column *columns;
    uint8_t *row8;
    uint16_t *row16;
    unsigned char *numbers;
} target;

static uint32_t row_at(const xsmi_sparse *s, uint64_t entry)
{
    return s->row8 ? s->row8[entry] : s->row16[entry];
}

/* Adds entries, whose rows begin with `low`. */
static void add_entries(const xsmi_sparse *s, uint64_t first, uint32_t count, uint32_t low, const target *to)
{
    const size_t each = xsmi_number_bytes(xsmi_sparse_dtype(s));
    memcpy(to->numbers + to->at.entry * each, (const unsigned char *)xsmi_sparse_numbers(s) + first * each,
           count * each);
    for (uint32_t i = 0; i < count; i++) {
        if (to->row8) {
            to->row8[to->at.entry + i] = (uint8_t)(s->row8[first + i] - low);
        } else {
            to->row16[to->at.entry + i] = (uint16_t)(s->row16[first + i] - low);
        }
    }
}

/* Adds the rows low..high of a chunk, counted from its first. */
static void add_chunk(const xsmi_sparse *s, uint32_t chunk, uint32_t low, uint32_t high, target *to)
{
    const xsmi_sparse_place *from = &s->places[chunk], before = to->at;
    const xsmi_sparse_block *block = s->blocks + from->block;
    const size_t blocks = xsmi_sparse_blocks(s, chunk);
    uint64_t entry = from->entry;
    for (size_t b = 0; b <= blocks; b++) {
        if (to->blocks) {
            to->blocks[to->at.block] =
                (xsmi_sparse_block){(uint32_t)(to->at.column - before.column), (uint32_t)(to->at.entry - before.entry)};
        }
        to->at.block++;
        for (uint32_t c = block[b].column; b < blocks && c < block[b + 1].column; c++) {
            const xsmi_sparse_column column = s->columns[from->column + c];
            uint64_t first = entry, end;
            entry += column.count;
            for (; first < entry && row_at(s, first) < low; first++) {
            }
            for (end = first; end < entry && row_at(s, end) < high; end++) {
            }
            if (end == first) {
                continue;
            }
            if (to->columns) {
                to->columns[to->at.column] = (xsmi_sparse_column){column.low, (uint16_t)(end - first)};
                add_entries(s, first, (uint32_t)(end - first), low, to);
            }
            to->at.column++;
            to->at.entry += end - first;
        }
    }
    to->at.row += high - low;
}

/* Adds the rows first..end, and their places, [chunks+1] or NULL. */
static void add_rows(const xsmi_sparse *s, uint32_t first, uint32_t end, target *to, xsmi_sparse_place *places)
{
    uint32_t from, last;
    xsmi_sparse_chunks_of(s->places, s->chunks, first, end, &from, &last);
    for (uint32_t c = from; c < last; c++) {
        const uint32_t start = s->places[c].row, low = XSMI_MAX(first, start),
                       high = XSMI_MIN(end, s->places[c + 1].row);
        if (places) {
            *places = to->at;
            places++->shift = s->places[c].shift;
        }
        add_chunk(s, c, low - start, high - start, to);
    }
    if (places) {
        *places = to->at;
    }
}

/* Memory for a cut; NULL: there is too little. */
static xsmi_sparse *new_weights(const xsmi_sparse *from, uint32_t first, uint32_t end, target *to)
{
    xsm_context *ctx = from->context;
    uint32_t start, last;
    target counted = {.blocks = NULL};
    xsmi_sparse *s = xsmi_allocate_zero(ctx, 1, sizeof *s);
    if (!s) {
        return NULL;
    }
    s->context = xsmi_context_retain(ctx);
    xsmi_holders_start(&s->holders);
    xsmi_sparse_chunks_of(from->places, from->chunks, first, end, &start, &last);
    s->rows = end - first;
    s->features = from->features;
    s->chunks = last - start;
    s->narrow.dtype = xsmi_sparse_dtype(from);
    xsmi_sparse_place *places = xsmi_allocate(ctx, (uint64_t)s->chunks + 1, sizeof *places);
    s->places = places;
    s->owned = places != NULL; /* they say how long the others are */
    if (!places) {
        xsmi_sparse_release(s);
        return NULL;
    }
    add_rows(from, first, end, &counted, places);
    for (uint32_t c = 0; c < s->chunks; c++) {
        s->widest = XSMI_MAX(s->widest, xsmi_sparse_chunk_rows(s, c));
    }
    const xsmi_sparse_place all = counted.at;
    s->blocks = to->blocks = xsmi_allocate(ctx, all.block, sizeof *to->blocks);
    s->columns = to->columns = xsmi_allocate(ctx, all.column, sizeof *to->columns);
    s->row8 = to->row8 = from->row8 ? xsmi_allocate(ctx, all.entry, sizeof *to->row8) : NULL;
    s->row16 = to->row16 = from->row16 ? xsmi_allocate(ctx, all.entry, sizeof *to->row16) : NULL;
    to->numbers = xsmi_allocate(ctx, all.entry, xsmi_number_bytes(s->narrow.dtype));
    if (s->narrow.dtype == XSM_DTYPE_FLOAT32) {
        s->values = (const float *)(const void *)to->numbers;
    } else {
        s->narrow.data = to->numbers;
    }
    float *factors = from->factors ? xsmi_allocate(ctx, s->rows, sizeof *factors) : NULL;
    float *bias = from->bias ? xsmi_allocate(ctx, s->rows, sizeof *bias) : NULL;
    s->factors = factors;
    s->bias = bias;
    if (!to->blocks || !to->columns || !to->numbers || (!to->row8 && !to->row16) || !factors != !from->factors ||
        !bias != !from->bias) {
        xsmi_sparse_release(s);
        return NULL;
    }
    if (factors) {
        memcpy(factors, from->factors + first, s->rows * sizeof *factors);
    }
    if (bias) {
        memcpy(bias, from->bias + first, s->rows * sizeof *bias);
    }
    return s;
}

xsm_status xsmi_sparse_cut(const xsmi_sparse *s, uint32_t first, uint32_t end, xsmi_sparse **out, xsm_error *err)
{
    target to = {.blocks = NULL};
    xsmi_sparse *cut = new_weights(s, first, end, &to);
    if (!cut) {
        return xsmi_fail_memory(err, (size_t)xsmi_sparse_bytes(s), "sparse weights");
    }
    add_rows(s, first, end, &to, NULL);
    *out = cut;
    return XSM_OK;
}
