/*
 * Scores of sparse weights. Every score is a sum in float of one product for each feature, in the order of the
 * features, multiplied by the row's factor for int8. So it has the same bits when chunks and when single rows are
 * scored, and on any processor. Weights in fewer bits are widened, exactly, when they are read.
 */
#include "model/sparse_weights.h"

#include "base/order.h"

#include <string.h>

/* Number of features of a row that are looked up together, so that the memory of one is fetched while others are
 * found. */
#define TOGETHER 32

/* The entries of a feature, counted from the chunk's first; none if the chunk lacks it. */
typedef struct found {
    uint32_t entry, count;
} found;

static inline found find_column(const xsmi_sparse_column *columns, const xsmi_sparse_block *block, uint32_t low)
{
    uint32_t c = block[0].column, entry = block[0].entry;
    const uint32_t end = block[1].column;
    for (; c < end && columns[c].low < low; c++) {
        entry += columns[c].count;
    }
    return c < end && columns[c].low == low ? (found){entry, columns[c].count} : (found){0, 0};
}

/* Computes z[row of entry] += value * number of entry, for the entries of some features, which are counted from `first`
 * on. The rows of a column are distinct. */
#define ADD(name, row_type, rows_of, number_type, number)                                                              \
    static void name(const xsmi_sparse *s, uint64_t first, const found *at, const float *values, size_t n, float *z)   \
    {                                                                                                                  \
        const row_type *rows = s->rows_of;                                                                             \
        const number_type *numbers = xsmi_sparse_numbers(s);                                                           \
        for (size_t f = 0; f < n; f++) {                                                                               \
            const float value = values[f];                                                                             \
            for (uint64_t i = first + at[f].entry, end = i + at[f].count; i < end; i++) {                              \
                z[rows[i]] += value * number(numbers[i]);                                                              \
            }                                                                                                          \
        }                                                                                                              \
    }
ADD(add_float32_8, uint8_t, row8, float, (float))
ADD(add_float32_16, uint16_t, row16, float, (float))
ADD(add_bfloat16_8, uint8_t, row8, uint16_t, xsmi_of_bfloat16)
ADD(add_bfloat16_16, uint16_t, row16, uint16_t, xsmi_of_bfloat16)
ADD(add_int8_8, uint8_t, row8, int8_t, (float))
ADD(add_int8_16, uint16_t, row16, int8_t, (float))

static inline void add_entries(const xsmi_sparse *s, uint64_t first, const found *at, const float *values, size_t n,
                               float *z)
{
    if (s->narrow.dtype == XSM_DTYPE_FLOAT32) {
        (s->row8 ? add_float32_8 : add_float32_16)(s, first, at, values, n, z);
    } else if (s->narrow.dtype == XSM_DTYPE_BFLOAT16) {
        (s->row8 ? add_bfloat16_8 : add_bfloat16_16)(s, first, at, values, n, z);
    } else {
        (s->row8 ? add_int8_8 : add_int8_16)(s, first, at, values, n, z);
    }
}

static inline void prefetch_entries(const xsmi_sparse *s, uint64_t first)
{
    const char *numbers = xsmi_sparse_numbers(s);
    __builtin_prefetch(numbers + first * xsmi_number_bytes(s->narrow.dtype), 0, 3);
    __builtin_prefetch(s->row8 ? (const void *)(s->row8 + first) : (const void *)(s->row16 + first), 0, 3);
}

static void add_sparse(const xsmi_sparse *s, const xsmi_sparse_place *at, const xsmi_features *x, float *z)
{
    const xsmi_sparse_block *blocks = s->blocks + at->block;
    const xsmi_sparse_column *columns = s->columns + at->column;
    const uint32_t mask = (UINT32_C(1) << at->shift) - 1;
    for (size_t first = 0; first < x->count; first += TOGETHER) {
        const size_t count = XSMI_MIN(x->count - first, TOGETHER);
        const uint32_t *index = x->index + first;
        found at_feature[TOGETHER];
        for (size_t i = 0; i < count; i++) {
            __builtin_prefetch(blocks + (index[i] >> at->shift), 0, 3);
        }
        for (size_t i = 0; i < count; i++) {
            __builtin_prefetch(columns + blocks[index[i] >> at->shift].column, 0, 3);
        }
        for (size_t i = 0; i < count; i++) {
            at_feature[i] = find_column(columns, blocks + (index[i] >> at->shift), index[i] & mask);
            prefetch_entries(s, at->entry + at_feature[i].entry);
        }
        add_entries(s, at->entry, at_feature, x->values + first, count, z);
    }
}

/* Adds a dense row: uses all columns of the chunk. */
static void add_dense(const xsmi_sparse *s, uint32_t chunk, const xsmi_features *x, float *z)
{
    const xsmi_sparse_place *at = &s->places[chunk];
    const xsmi_sparse_block *block = s->blocks + at->block;
    const xsmi_sparse_column *columns = s->columns + at->column;
    const size_t blocks = xsmi_sparse_blocks(s, chunk);
    uint64_t entry = at->entry;
    for (size_t b = 0; b < blocks; b++) {
        for (uint32_t c = block[b].column; c < block[b + 1].column; c++) {
            const float value = x->values[(b << at->shift) + columns[c].low];
            if (value != 0) { /* as a sparse row would skip it */
                add_entries(s, entry, &(found){0, columns[c].count}, &value, 1, z);
            }
            entry += columns[c].count;
        }
    }
}

void xsmi_sparse_scores(const xsmi_sparse *s, uint32_t chunk, const xsmi_features *x, float *z)
{
    const xsmi_sparse_place *at = &s->places[chunk];
    const uint32_t rows = xsmi_sparse_chunk_rows(s, chunk);
    memset(z, 0, rows * sizeof *z);
    if (x->index) {
        add_sparse(s, at, x, z);
    } else {
        add_dense(s, chunk, x, z);
    }
    for (uint32_t r = 0; s->factors && r < rows; r++) {
        z[r] *= s->factors[at->row + r];
    }
    for (uint32_t r = 0; s->bias && r < rows; r++) {
        z[r] += s->bias[at->row + r];
    }
}

/* Finds the number of a row in a column; returns false if it has none. */
static bool find_row(const xsmi_sparse *s, uint64_t first, uint32_t count, uint32_t row, float *value)
{
    uint64_t low = first, end = first + count;
    for (uint32_t n = count; n > 0;) {
        const uint32_t half = n / 2, other = s->row8 ? s->row8[low + half] : s->row16[low + half];
        low += other < row ? half + 1 : 0;
        n = other < row ? n - half - 1 : half;
    }
    if (low >= end || (s->row8 ? s->row8[low] : s->row16[low]) != row) {
        return false;
    }
    *value = xsmi_sparse_number(s, low);
    return true;
}

float xsmi_sparse_score(const xsmi_sparse *s, uint32_t row, const xsmi_features *x)
{
    const uint32_t chunk = xsmi_sparse_chunk_of(s, row);
    const xsmi_sparse_place *at = &s->places[chunk];
    const xsmi_sparse_block *blocks = s->blocks + at->block;
    const xsmi_sparse_column *columns = s->columns + at->column;
    const uint32_t mask = (UINT32_C(1) << at->shift) - 1;
    float z = 0;
    for (size_t i = 0; i < x->count; i++) {
        const uint32_t feature = x->index ? x->index[i] : (uint32_t)i;
        float value;
        if (!x->index && x->values[i] == 0) {
            continue;
        }
        const found f = find_column(columns, blocks + (feature >> at->shift), feature & mask);
        if (find_row(s, at->entry + f.entry, f.count, row - at->row, &value)) {
            z += x->values[i] * value;
        }
    }
    z = s->factors ? z * s->factors[row] : z;
    return s->bias ? z + s->bias[row] : z;
}

/* -- all weights --------------------------------------------------------------------------------------------------- */

typedef struct spread_job {
    const xsmi_sparse *s;
    float *weight;
    size_t row_step, feature_step;
} spread_job;

static void spread_chunk(void *state, size_t chunk, uint32_t thread)
{
    const spread_job *job = state;
    const xsmi_sparse *s = job->s;
    const xsmi_sparse_place *at = &s->places[chunk];
    const xsmi_sparse_block *block = s->blocks + at->block;
    uint64_t entry = at->entry;
    (void)thread;
    for (size_t b = 0; b < xsmi_sparse_blocks(s, (uint32_t)chunk); b++) {
        for (uint32_t c = block[b].column; c < block[b + 1].column; c++) {
            const xsmi_sparse_column column = s->columns[at->column + c];
            float *weight = job->weight + ((b << at->shift) + column.low) * job->feature_step;
            for (uint32_t i = 0; i < column.count; i++, entry++) {
                const size_t row = at->row + (s->row8 ? s->row8[entry] : s->row16[entry]);
                weight[row * job->row_step] = s->values[entry];
            }
        }
    }
}

xsm_status xsmi_sparse_spread(const xsmi_sparse *s, float *weight, size_t row_step, size_t feature_step, xsm_error *err)
{
    spread_job job = {s, weight, row_step, feature_step};
    return xsmi_run(s->context, spread_chunk, &job, s->chunks, err);
}
