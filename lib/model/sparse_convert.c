/*
 * Sparse weights in another type: the same rows and features, with other numbers.
 *
 * With int8 each row has a factor, as rows of dense weights have. A factor for each chunk would save four bytes a row
 * but lose accuracy: most rows have no weight as large as the largest of their chunk.
 */
#include "model/narrow.h"
#include "model/sparse_weights.h"

#include "base/activity.h"
#include "base/order.h"

static uint32_t row_of(const xsmi_sparse *s, uint32_t chunk, uint64_t entry)
{
    return s->places[chunk].row + (s->row8 ? s->row8[entry] : s->row16[entry]);
}

/* Returns the weight of an entry, which belongs to row `row`, as a float. */
static float weight_of(const xsmi_sparse *s, uint64_t entry, uint32_t row)
{
    const float number = xsmi_sparse_number(s, entry);
    return s->factors ? number * s->factors[row] : number;
}

/* Returns the feature of a chunk's entry. */
static uint32_t feature_of(const xsmi_sparse *s, uint32_t chunk, uint64_t entry)
{
    const xsmi_sparse_place *at = &s->places[chunk];
    const xsmi_sparse_block *block = s->blocks + at->block;
    const xsmi_sparse_column *columns = s->columns + at->column;
    uint64_t end = at->entry + columns[0].count;
    uint32_t c = 0, b = 0;
    while (end <= entry) {
        end += columns[++c].count;
    }
    while (block[b + 1].column <= c) {
        b++;
    }
    return (b << at->shift) + columns[c].low;
}

/* -- numbers ------------------------------------------------------------------------------------------------------- */

/* Where the converted numbers are written. */
typedef struct target {
    int32_t dtype;
    void *numbers;  /* [entries] of the new type */
    float *factors; /* [rows] of int8 */
} target;

/* Computes the factors of a chunk's rows from their largest weights, which are finite. */
static void find_factors(const xsmi_sparse *s, uint32_t chunk, const target *to)
{
    const xsmi_sparse_place *at = &s->places[chunk], *end = at + 1;
    for (uint32_t r = at->row; r < end->row; r++) {
        to->factors[r] = 0;
    }
    for (uint64_t i = at->entry; i < end->entry; i++) {
        const uint32_t row = row_of(s, chunk, i);
        to->factors[row] = XSMI_MAX(to->factors[row], fabsf(weight_of(s, i, row)));
    }
    for (uint32_t r = at->row; r < end->row; r++) {
        to->factors[r] = xsmi_int8_factor(to->factors[r]);
    }
}

static bool all_finite(const xsmi_sparse *s, uint32_t chunk, int32_t dtype, xsmi_sparse_bad *bad)
{
    for (uint64_t i = s->places[chunk].entry; i < s->places[chunk + 1].entry; i++) {
        const uint32_t row = row_of(s, chunk, i);
        if (!xsmi_finite_in(dtype, weight_of(s, i, row))) {
            *bad = (xsmi_sparse_bad){true, row, feature_of(s, chunk, i)};
            return false;
        }
    }
    return true;
}

static void convert_chunk(const xsmi_sparse *s, uint32_t chunk, const target *to)
{
    const uint64_t end = s->places[chunk + 1].entry;
    if (to->factors) {
        find_factors(s, chunk, to);
    }
    for (uint64_t i = s->places[chunk].entry; i < end; i++) {
        const uint32_t row = row_of(s, chunk, i);
        const float weight = weight_of(s, i, row);
        if (to->dtype == XSM_DTYPE_INT8) {
            ((int8_t *)to->numbers)[i] = xsmi_to_int8(weight, to->factors[row]);
        } else if (to->dtype == XSM_DTYPE_BFLOAT16) {
            ((uint16_t *)to->numbers)[i] = xsmi_to_bfloat16(weight);
        } else {
            ((float *)to->numbers)[i] = weight;
        }
    }
}

/* Converts all chunks, or up to a weight that is not finite. Numbers that have the type already are copied. */
static xsm_status convert_numbers(const xsmi_sparse *s, const target *to, xsmi_sparse_bad *bad, xsm_error *err)
{
    const size_t each = xsmi_number_bytes(to->dtype);
    const bool same = xsmi_sparse_dtype(s) == to->dtype;
    for (uint32_t c = 0; c < s->chunks; c++) {
        const uint64_t first = s->places[c].entry, count = s->places[c + 1].entry - first;
        XSMI_TRY(xsmi_go_on(s->context, err));
        if (!all_finite(s, c, to->dtype, bad)) {
            return XSM_OK;
        }
        if (same && count > 0) {
            memcpy((char *)to->numbers + first * each, (const char *)xsmi_sparse_numbers(s) + first * each,
                   (size_t)count * each);
        } else if (!same) {
            convert_chunk(s, c, to);
        }
        xsmi_advance(s->context, count);
    }
    if (same && to->factors) {
        memcpy(to->factors, s->factors, s->rows * sizeof *to->factors);
    }
    return XSM_OK;
}

/* -- weights ------------------------------------------------------------------------------------------------------- */

static void *copy(xsm_context *ctx, const void *array, uint64_t count, size_t each)
{
    void *copied = array ? xsmi_allocate(ctx, count, each) : NULL;
    if (copied && count > 0) {
        memcpy(copied, array, (size_t)count * each);
    }
    return copied;
}

/* Makes weights with the rows and features of others, and memory for numbers. Returns NULL if there is too little
 * memory. */
static xsmi_sparse *new_weights(const xsmi_sparse *from, int32_t dtype, target *to)
{
    const xsmi_sparse_place end = from->places[from->chunks];
    xsm_context *ctx = from->context;
    xsmi_sparse *s = xsmi_allocate_zero(ctx, 1, sizeof *s);
    if (!s) {
        return NULL;
    }
    s->context = xsmi_context_retain(ctx);
    xsmi_holders_start(&s->holders);
    s->rows = from->rows;
    s->features = from->features;
    s->chunks = from->chunks;
    s->widest = from->widest;
    s->places = copy(ctx, from->places, (uint64_t)from->chunks + 1, sizeof *s->places);
    s->owned = s->places != NULL; /* the places tell the lengths of the other arrays */
    s->narrow.dtype = dtype;
    if (s->owned) {
        *to = (target){dtype, xsmi_allocate(ctx, end.entry, xsmi_number_bytes(dtype)), NULL};
        if (dtype == XSM_DTYPE_FLOAT32) {
            s->values = to->numbers;
        } else {
            s->narrow.data = to->numbers;
        }
        if (dtype == XSM_DTYPE_INT8) {
            s->factors = to->factors = xsmi_allocate(ctx, from->rows, sizeof *to->factors);
        }
        s->blocks = copy(ctx, from->blocks, end.block, sizeof *s->blocks);
        s->columns = copy(ctx, from->columns, end.column, sizeof *s->columns);
        s->row8 = copy(ctx, from->row8, end.entry, sizeof *s->row8);
        s->row16 = copy(ctx, from->row16, end.entry, sizeof *s->row16);
        s->bias = copy(ctx, from->bias, from->rows, sizeof *s->bias);
    }
    if (!s->owned || !to->numbers || !s->blocks || !s->columns || (!s->row8 && !s->row16) || (from->bias && !s->bias) ||
        (dtype == XSM_DTYPE_INT8 && !s->factors)) {
        xsmi_sparse_release(s);
        return NULL;
    }
    return s;
}

xsm_status xsmi_sparse_convert(const xsmi_sparse *s, int32_t dtype, xsmi_sparse_bad *bad, xsmi_sparse **out,
                               xsm_error *err)
{
    target to = {dtype, NULL, NULL};
    *bad = (xsmi_sparse_bad){false, 0, 0};
    *out = new_weights(s, dtype, &to);
    if (!*out) {
        return xsmi_fail_memory(err, (size_t)xsmi_sparse_bytes(s), "sparse weights");
    }
    const xsm_status status = convert_numbers(s, &to, bad, err);
    if (status != XSM_OK || bad->found) {
        xsmi_sparse_release(*out);
        *out = NULL;
    }
    return status;
}
