/*
 * Sparse weights in chunks: makes them, checks those of a file, converts and scores them.
 */
#include "model/sparse_weights.h"

#include "base/grow.h"
#include "base/order.h"
#include "model/narrow.h"
#include "base/activity.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The number of columns that a block should have. */
#define BLOCK_COLUMNS 8
/* The most bits of a feature within its block. */
#define LOW_BITS 16

/* -- counting references ------------------------------------------------------------------------------------------- */

xsmi_sparse *xsmi_sparse_retain(xsmi_sparse *s)
{
    if (s) {
        xsmi_holders_add(&s->holders);
    }
    return s;
}

/* Releases an array of weights that own their arrays. */
static void release_array(const xsmi_sparse *s, const void *array, uint64_t count, size_t each)
{
    if (array) {
        xsmi_release(s->context, (void *)(uintptr_t)array, (size_t)count, each);
    }
}

void xsmi_sparse_release(xsmi_sparse *s)
{
    if (s && xsmi_holders_drop(&s->holders)) {
        if (s->owned) {
            const xsmi_sparse_place end = s->places[s->chunks];
            release_array(s, s->blocks, end.block, sizeof *s->blocks);
            release_array(s, s->columns, end.column, sizeof *s->columns);
            release_array(s, s->row8, end.entry, sizeof *s->row8);
            release_array(s, s->row16, end.entry, sizeof *s->row16);
            release_array(s, xsmi_sparse_numbers(s), end.entry, xsmi_number_bytes(xsmi_sparse_dtype(s)));
            release_array(s, s->factors, s->rows, sizeof *s->factors);
            release_array(s, s->bias, s->rows, sizeof *s->bias);
            release_array(s, s->scales, 2 * (uint64_t)s->levels, sizeof *s->scales);
            release_array(s, s->places, (uint64_t)s->chunks + 1, sizeof *s->places);
        }
        XSMI_OBJECT_FREE(s, xsmi_sparse);
    }
}

uint64_t xsmi_sparse_bytes(const xsmi_sparse *s)
{
    const xsmi_sparse_place end = s->places[s->chunks];
    const uint64_t rows = end.row;
    return ((uint64_t)s->chunks + 1) * sizeof *s->places + end.block * sizeof *s->blocks +
           end.column * sizeof *s->columns +
           end.entry * (xsmi_number_bytes(xsmi_sparse_dtype(s)) + (s->row8 ? sizeof *s->row8 : sizeof *s->row16)) +
           (s->bias ? rows * sizeof *s->bias : 0) + (s->factors ? rows * sizeof *s->factors : 0);
}

uint32_t xsmi_sparse_chunk_of(const xsmi_sparse *s, uint32_t row)
{
    uint32_t low = 0, high = s->chunks; /* places[low].row <= row < places[high].row */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (s->places[middle].row <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* -- building ------------------------------------------------------------------------------------------------------ */

struct xsmi_sparse_builder {
    xsm_context *context;
    uint32_t features, widest;
    bool with_bias;
    xsmi_sparse_place *places; /* [chunks+1] */
    size_t chunks, place_capacity;
    xsmi_sparse_block *blocks;
    size_t block_capacity;
    xsmi_sparse_column *columns;
    size_t column_capacity;
    uint16_t *entry_rows;
    size_t row_capacity;
    float *values;
    size_t value_capacity;
    float *bias;
    size_t bias_capacity;
};

/* Empties a builder. */
static void empty(xsmi_sparse_builder *b)
{
    xsm_context *ctx = b->context;
    xsmi_release(ctx, b->places, b->place_capacity, sizeof *b->places);
    xsmi_release(ctx, b->blocks, b->block_capacity, sizeof *b->blocks);
    xsmi_release(ctx, b->columns, b->column_capacity, sizeof *b->columns);
    xsmi_release(ctx, b->entry_rows, b->row_capacity, sizeof *b->entry_rows);
    xsmi_release(ctx, b->values, b->value_capacity, sizeof *b->values);
    xsmi_release(ctx, b->bias, b->bias_capacity, sizeof *b->bias);
    *b = (xsmi_sparse_builder){.context = ctx, .features = b->features, .with_bias = b->with_bias};
}

xsm_status xsmi_sparse_builder_new(xsm_context *ctx, uint32_t features, bool bias, xsmi_sparse_builder **out,
                                   xsm_error *err)
{
    xsmi_sparse_builder *b;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &b, xsmi_sparse_builder, "sparse weights", err));
    b->features = features;
    b->with_bias = bias;
    *out = b;
    return XSM_OK;
}

void xsmi_sparse_builder_free(xsmi_sparse_builder *b)
{
    if (b) {
        empty(b);
        XSMI_OBJECT_FREE(b, xsmi_sparse_builder);
    }
}

/* Returns how many low bits of a feature remain within its block if blocks have about BLOCK_COLUMNS columns. */
static uint32_t shift_of(uint32_t features, uint32_t columns)
{
    const uint32_t most = XSMI_MAX(columns / BLOCK_COLUMNS, 1);
    uint32_t shift = 0;
    while (shift < LOW_BITS && features > 0 && (features - 1) >> shift >= most) {
        shift++;
    }
    return shift;
}

static xsm_status reserve(xsmi_sparse_builder *b, const xsmi_sparse_place *end, const xsmi_sparse_chunk *chunk,
                          size_t blocks, xsm_error *err)
{
    static const char what[] = "sparse weights";
    const uint64_t entries = end->entry + chunk->starts[chunk->columns];
    xsm_context *ctx = b->context;
    if (entries > SIZE_MAX / 8 || (uint64_t)end->row + chunk->rows > UINT32_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%llu sparse weights are more than can be addressed",
                         (unsigned long long)entries);
    }
    XSMI_TRY(XSMI_GROW(ctx, b->places, b->place_capacity, b->chunks + 2, what, err));
    XSMI_TRY(XSMI_GROW(ctx, b->blocks, b->block_capacity, (size_t)end->block + blocks + 1, what, err));
    XSMI_TRY(XSMI_GROW(ctx, b->columns, b->column_capacity, (size_t)end->column + chunk->columns + 1, what, err));
    XSMI_TRY(XSMI_GROW(ctx, b->entry_rows, b->row_capacity, (size_t)entries, what, err));
    XSMI_TRY(XSMI_GROW(ctx, b->values, b->value_capacity, (size_t)entries, what, err));
    return b->with_bias ? XSMI_GROW(ctx, b->bias, b->bias_capacity, (size_t)end->row + chunk->rows, what, err) : XSM_OK;
}

xsm_status xsmi_sparse_builder_add(xsmi_sparse_builder *b, const xsmi_sparse_chunk *chunk, xsm_error *err)
{
    xsmi_sparse_place at = {0};
    if (b->chunks > 0) {
        at = b->places[b->chunks];
    }
    at.shift = shift_of(b->features, chunk->columns);
    const size_t blocks = xsmi_sparse_blocks_of(b->features, at.shift);
    const uint32_t entries = chunk->starts[chunk->columns];
    XSMI_TRY(reserve(b, &at, chunk, blocks, err));
    xsmi_sparse_block *block = b->blocks + at.block;
    xsmi_sparse_column *column = b->columns + at.column;
    size_t next = 0;
    for (uint32_t c = 0; c < chunk->columns; c++) {
        const uint32_t feature = chunk->features[c];
        for (; next <= feature >> at.shift; next++) {
            block[next] = (xsmi_sparse_block){c, chunk->starts[c]};
        }
        column[c].low = (uint16_t)(feature & ((UINT32_C(1) << at.shift) - 1));
        column[c].count = (uint16_t)(chunk->starts[c + 1] - chunk->starts[c]);
    }
    for (; next <= blocks; next++) {
        block[next] = (xsmi_sparse_block){chunk->columns, entries};
    }
    if (entries > 0) {
        memcpy(b->entry_rows + at.entry, chunk->entry_rows, entries * sizeof *b->entry_rows);
        memcpy(b->values + at.entry, chunk->values, entries * sizeof *b->values);
    }
    if (b->with_bias) {
        memcpy(b->bias + at.row, chunk->bias, chunk->rows * sizeof *b->bias);
    }
    b->places[b->chunks++] = at;
    b->places[b->chunks] = (xsmi_sparse_place){.entry = at.entry + entries,
                                               .column = at.column + chunk->columns,
                                               .block = at.block + blocks + 1,
                                               .row = at.row + chunk->rows};
    b->widest = XSMI_MAX(b->widest, chunk->rows);
    return XSM_OK;
}

/* Returns a grown array in memory of exactly its length. */
static void *fit(xsm_context *ctx, void *array, size_t *capacity, uint64_t count, size_t each)
{
    void *fitted = xsmi_reallocate(ctx, array, *capacity, count, each);
    *capacity = fitted ? (size_t)count : *capacity;
    return fitted ? fitted : array;
}

xsm_status xsmi_sparse_builder_finish(xsmi_sparse_builder *b, xsmi_sparse **out, xsm_error *err)
{
    xsm_context *ctx = b->context;
    const xsmi_sparse_place end = b->places[b->chunks];
    xsmi_sparse *s;
    XSMI_TRY(xsmi_struct_new(ctx, &s, sizeof *s, "sparse weights", err));
    uint8_t *bytes = NULL;
    const bool narrow = b->widest <= XSMI_BYTE_ROWS;
    if (narrow) {
        bytes = xsmi_allocate(ctx, end.entry, sizeof *bytes);
        for (size_t i = 0; bytes && i < end.entry; i++) {
            bytes[i] = (uint8_t)b->entry_rows[i];
        }
    }
    /* Arrays that are too long are cut, because they are released by their length. If that fails, or there is no memory
     * for rows in bytes, the weights are not made. */
    b->places = fit(ctx, b->places, &b->place_capacity, b->chunks + 1, sizeof *b->places);
    b->blocks = fit(ctx, b->blocks, &b->block_capacity, end.block, sizeof *b->blocks);
    b->columns = fit(ctx, b->columns, &b->column_capacity, end.column, sizeof *b->columns);
    b->values = fit(ctx, b->values, &b->value_capacity, end.entry, sizeof *b->values);
    b->entry_rows = fit(ctx, b->entry_rows, &b->row_capacity, bytes ? 0 : end.entry, sizeof *b->entry_rows);
    if (b->with_bias) {
        b->bias = fit(ctx, b->bias, &b->bias_capacity, end.row, sizeof *b->bias);
    }
    if (b->place_capacity != b->chunks + 1 || b->block_capacity != end.block || b->column_capacity != end.column ||
        b->value_capacity != end.entry || b->row_capacity != (bytes ? 0 : end.entry) ||
        (b->with_bias && b->bias_capacity != end.row) || (narrow && !bytes)) {
        xsmi_release(ctx, bytes, end.entry, sizeof *bytes);
        xsmi_release(ctx, s, 1, sizeof *s);
        return xsmi_fail_memory(err, end.entry, "sparse weights");
    }
    s->context = xsmi_context_retain(ctx);
    xsmi_holders_start(&s->holders);
    s->rows = end.row;
    s->features = b->features;
    s->chunks = (uint32_t)b->chunks;
    s->widest = b->widest;
    s->places = b->places;
    s->blocks = b->blocks;
    s->columns = b->columns;
    s->row8 = bytes;
    s->row16 = bytes ? NULL : b->entry_rows;
    s->values = b->values;
    s->bias = b->bias;
    s->owned = true;
    if (bytes) {
        xsmi_release(ctx, b->entry_rows, 0, sizeof *b->entry_rows);
    }
    *b = (xsmi_sparse_builder){.context = ctx, .features = b->features, .with_bias = b->with_bias};
    *out = s;
    return XSM_OK;
}

xsmi_sparse xsmi_sparse_builder_view(const xsmi_sparse_builder *b)
{
    return (xsmi_sparse){.context = b->context,
                         .rows = b->places[b->chunks].row,
                         .features = b->features,
                         .chunks = (uint32_t)b->chunks,
                         .widest = b->widest,
                         .places = b->places,
                         .blocks = b->blocks,
                         .columns = b->columns,
                         .row16 = b->entry_rows,
                         .values = b->values,
                         .bias = b->bias};
}

xsm_status xsmi_sparse_builder_load(xsmi_sparse_builder *b, const xsmi_sparse *s, xsm_error *err)
{
    static const char what[] = "sparse weights";
    const xsmi_sparse_place end = s->places[s->chunks];
    xsm_context *ctx = b->context;
    XSMI_TRY(XSMI_GROW(ctx, b->places, b->place_capacity, (size_t)s->chunks + 1, what, err));
    XSMI_TRY(XSMI_GROW(ctx, b->blocks, b->block_capacity, (size_t)end.block, what, err));
    XSMI_TRY(XSMI_GROW(ctx, b->columns, b->column_capacity, (size_t)end.column, what, err));
    XSMI_TRY(XSMI_GROW(ctx, b->entry_rows, b->row_capacity, (size_t)end.entry, what, err));
    XSMI_TRY(XSMI_GROW(ctx, b->values, b->value_capacity, (size_t)end.entry, what, err));
    if (b->with_bias) {
        XSMI_TRY(XSMI_GROW(ctx, b->bias, b->bias_capacity, (size_t)end.row, what, err));
        memcpy(b->bias, s->bias, end.row * sizeof *b->bias);
    }
    memcpy(b->places, s->places, ((size_t)s->chunks + 1) * sizeof *b->places);
    memcpy(b->blocks, s->blocks, (size_t)end.block * sizeof *b->blocks);
    if (end.entry > 0) {
        memcpy(b->columns, s->columns, (size_t)end.column * sizeof *b->columns);
        memcpy(b->values, s->values, (size_t)end.entry * sizeof *b->values);
    }
    for (uint64_t i = 0; i < end.entry; i++) {
        b->entry_rows[i] = s->row8 ? s->row8[i] : s->row16[i];
    }
    b->chunks = s->chunks;
    b->widest = s->widest;
    return XSM_OK;
}

xsm_status xsmi_sparse_set_scales(xsmi_sparse *s, const float *scales, uint32_t levels, xsm_error *err)
{
    float *copy;
    XSMI_TRY(xsmi_array_new(s->context, &copy, 2 * (uint64_t)levels, sizeof *copy, "the scales of levels", err));
    memcpy(copy, scales, 2 * (size_t)levels * sizeof *copy);
    s->scales = copy;
    s->levels = levels;
    return XSM_OK;
}

xsm_status xsmi_sparse_take(xsmi_sparse_taken *c, const xsmi_sparse *s, uint32_t number, xsm_error *err)
{
    const xsmi_sparse_place *at = &s->places[number], *end = at + 1;
    const uint32_t columns = (uint32_t)(end->column - at->column), entries = (uint32_t)(end->entry - at->entry);
    if (!xsmi_reserve_all(c->context, XSMI_ARRAYS(XSMI_ARRAY(c->features), XSMI_ARRAY(c->starts)), &c->columns,
                          (uint64_t)columns + 1) ||
        !xsmi_reserve(c->context, &c->rows, &c->entries, entries, sizeof *c->rows)) {
        return xsmi_fail_memory(err, columns * 8ull + entries * 2ull, "the weights of a node");
    }
    const xsmi_sparse_block *block = s->blocks + at->block;
    const size_t blocks = xsmi_sparse_blocks(s, number);
    uint32_t entry = 0;
    for (size_t b = 0; b < blocks; b++) {
        for (uint32_t k = block[b].column; k < block[b + 1].column; k++) {
            c->features[k] = (uint32_t)(b << at->shift) + s->columns[at->column + k].low;
            c->starts[k] = entry;
            entry += s->columns[at->column + k].count;
        }
    }
    c->starts[columns] = entry;
    for (uint32_t i = 0; i < entries; i++) {
        c->rows[i] = s->row8 ? s->row8[at->entry + i] : s->row16[at->entry + i];
    }
    c->chunk = (xsmi_sparse_chunk){.rows = end->row - at->row,
                                   .columns = columns,
                                   .features = c->features,
                                   .starts = c->starts,
                                   .entry_rows = c->rows,
                                   .values = s->values + at->entry,
                                   .bias = s->bias ? s->bias + at->row : NULL};
    return XSM_OK;
}

void xsmi_sparse_taken_free(xsmi_sparse_taken *c)
{
    xsmi_release_all(c->context, XSMI_ARRAYS(XSMI_ARRAY(c->features), XSMI_ARRAY(c->starts)), &c->columns);
    xsmi_release(c->context, c->rows, c->entries, sizeof *c->rows);
}

/* -- from files ---------------------------------------------------------------------------------------------------- */

/* Whether a chunk's entries are valid: rows rise within each column, and none is beyond the chunk. */
static bool rows_sound(const xsmi_sparse *s, uint64_t first, uint32_t count, uint32_t rows)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t row = s->row8 ? s->row8[first + i] : s->row16[first + i];
        const uint32_t before = i == 0 ? 0 : s->row8 ? s->row8[first + i - 1] : s->row16[first + i - 1];
        if (row >= rows || (i > 0 && row <= before)) {
            return false;
        }
    }
    return true;
}

/* Whether the columns of a chunk, whose place is within the arrays, belong to its blocks. */
static bool chunk_sound(const xsmi_sparse *s, uint32_t chunk)
{
    const xsmi_sparse_place *at = &s->places[chunk], *end = at + 1;
    const uint32_t rows = end->row - at->row;
    const size_t blocks = xsmi_sparse_blocks(s, chunk);
    const xsmi_sparse_block *block = s->blocks + at->block;
    const xsmi_sparse_column *column = s->columns + at->column;
    const uint64_t columns = end->column - at->column, entries = end->entry - at->entry;
    uint64_t entry = 0, c = 0;
    for (size_t b = 0; b < blocks; b++) {
        if (block[b].column != c || block[b].entry != entry || block[b + 1].column < c ||
            block[b + 1].column > columns) {
            return false;
        }
        for (uint64_t first = c; c < block[b + 1].column; c++) {
            const uint64_t feature = ((uint64_t)b << at->shift) + column[c].low;
            if (column[c].low >> at->shift != 0 || feature >= s->features ||
                (c > first && column[c].low <= column[c - 1].low) || column[c].count < 1 ||
                column[c].count > entries - entry || !rows_sound(s, at->entry + entry, column[c].count, rows)) {
                return false;
            }
            entry += column[c].count;
        }
    }
    return c == columns && entry == entries && block[blocks].column == columns && block[blocks].entry == entries;
}

/* Whether the places divide arrays of these lengths. Does not read the arrays. */
static bool places_sound(const xsmi_sparse_arrays *a)
{
    if (a->place_count < 2 || a->place_count > UINT32_MAX) {
        return false;
    }
    const uint32_t chunks = (uint32_t)(a->place_count - 1);
    const xsmi_sparse_place *first = &a->places[0], *last = &a->places[chunks];
    if (first->entry != 0 || first->column != 0 || first->block != 0 || first->row != 0 || last->shift != 0 ||
        last->entry != a->entries || last->column != a->column_count || last->block != a->block_count ||
        last->row != a->rows) {
        return false;
    }
    for (uint32_t c = 0; c < chunks; c++) {
        const xsmi_sparse_place *at = &a->places[c], *end = at + 1;
        /* Each place is checked against the next one, and the last against the arrays, so all are within them. */
        if (at->shift > LOW_BITS || end->row <= at->row || end->row - at->row > XSMI_CHUNK_ROWS ||
            end->entry < at->entry || end->entry - at->entry > UINT32_MAX || end->column < at->column ||
            end->column - at->column > UINT32_MAX || end->block < at->block ||
            end->block - at->block != xsmi_sparse_blocks_of(a->features, at->shift) + 1) {
            return false;
        }
    }
    return true;
}

xsm_status xsmi_sparse_over(xsm_context *ctx, const xsmi_sparse_arrays *a, xsmi_sparse **out, xsm_error *err)
{
    *out = NULL;
    if (!places_sound(a)) {
        return XSM_OK;
    }
    xsmi_sparse *s;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &s, xsmi_sparse, "sparse weights", err));
    xsmi_holders_start(&s->holders);
    s->rows = a->rows;
    s->features = a->features;
    s->chunks = (uint32_t)(a->place_count - 1);
    s->places = a->places;
    s->blocks = a->blocks;
    s->columns = a->columns;
    s->row8 = a->row8;
    s->row16 = a->row16;
    s->values = a->values;
    s->narrow = a->narrow;
    s->factors = a->factors;
    s->bias = a->bias;
    s->scales = a->scales;
    s->levels = a->levels;
    bool sound = true;
    for (uint32_t k = 0; sound && k < 2 * a->levels; k++) {
        sound = isfinite(a->scales[k]);
    }
    for (uint32_t r = 0; sound && a->factors && r < a->rows; r++) {
        sound = a->factors[r] >= 0 && a->factors[r] <= FLT_MAX;
    }
    for (uint32_t c = 0; sound && c < s->chunks; c++) {
        s->widest = XSMI_MAX(s->widest, xsmi_sparse_chunk_rows(s, c));
        sound = chunk_sound(s, c);
    }
    if (sound) {
        *out = s;
    } else {
        xsmi_sparse_release(s);
    }
    return XSM_OK;
}

/* -- other types --------------------------------------------------------------------------------------------------- */

/*
 * Sparse weights in another type: the same rows and features, with other numbers.
 *
 * Where a kind has factors, each row has one, as rows of dense weights have. A factor for each chunk would save four
 * bytes a row but lose accuracy: most rows have no weight as large as the largest of their chunk.
 */

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
    float *factors; /* [rows], or NULL if the type has none */
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
        to->factors[r] = xsmi_factor_of(xsmi_kind_of(to->dtype)->whole, to->factors[r]);
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
        xsmi_round_to(to->dtype, weight_of(s, i, row), to->factors ? to->factors[row] : 1, to->numbers, (size_t)i);
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
        if (xsmi_has_factors(dtype)) {
            s->factors = to->factors = xsmi_allocate(ctx, from->rows, sizeof *to->factors);
        }
        s->blocks = copy(ctx, from->blocks, end.block, sizeof *s->blocks);
        s->columns = copy(ctx, from->columns, end.column, sizeof *s->columns);
        s->row8 = copy(ctx, from->row8, end.entry, sizeof *s->row8);
        s->row16 = copy(ctx, from->row16, end.entry, sizeof *s->row16);
        s->bias = copy(ctx, from->bias, from->rows, sizeof *s->bias);
        s->levels = from->levels;
        s->scales = copy(ctx, from->scales, 2 * (uint64_t)from->levels, sizeof *s->scales);
    }
    if (!s->owned || !to->numbers || !s->blocks || !s->columns || (!s->row8 && !s->row16) || (from->bias && !s->bias) ||
        (from->scales && !s->scales) || (xsmi_has_factors(dtype) && !s->factors)) {
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

/* -- scores -------------------------------------------------------------------------------------------------------- */

/*
 * Scores of sparse weights. Every score is a sum in float of one product for each feature, in the order of the
 * features, multiplied by the row's factor if it has one. So it has the same bits when chunks and when single rows are
 * scored, and on any processor. Weights in fewer bits are widened, exactly, when they are read.
 */

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
#define ADD_OF_KIND(with, TYPE, name, number, ...)                                                                     \
    ADD(add_##name##_8, uint8_t, row8, number, xsmi_of_##name)                                                         \
    ADD(add_##name##_16, uint16_t, row16, number, xsmi_of_##name)
XSMI_WEIGHT_KINDS(ADD_OF_KIND, )

static inline void add_entries(const xsmi_sparse *s, uint64_t first, const found *at, const float *values, size_t n,
                               float *z)
{
#define CALL_OF_KIND(with, TYPE, name, ...)                                                                            \
    case XSM_DTYPE_##TYPE:                                                                                             \
        (s->row8 ? add_##name##_8 : add_##name##_16)(s, first, at, values, n, z);                                      \
        break;
    switch (s->narrow.dtype) {
        XSMI_WEIGHT_KINDS(CALL_OF_KIND, )
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
