/*
 * Sparse weights: rows of D numbers, most of them zero, in chunks of neighbouring rows.
 *
 * A chunk lists, for each feature that any of its rows uses, the rows that use it, with their weights, so that a row of
 * data meets all rows of a chunk at once (Etter, Zhong, Yu, Ying and Dhillon, Enterprise-scale search: accelerating
 * inference for sparse extreme multi-label ranking trees, 2022). For a linear model the rows are those of the classes;
 * for a label tree they are those of the nodes below the root, and a chunk has the children of one node.
 *
 * To find a feature in a chunk, its number is cut into a block, its upper bits, and its lower bits. A table says where
 * the columns of each block begin; a block has about eight columns, which are searched one by one. A weight takes 5
 * bytes, or 6 if a chunk has more than 256 rows; a column takes 4 and a block 8. In fewer bits (narrow.h), a weight
 * takes those of its kind in place of four, with a factor for each row where the kind has them.
 *
 * Sparse weights never change once made and are reference-counted. They may be in a mapped file.
 */
#ifndef XSMI_SPARSE_WEIGHTS_H
#define XSMI_SPARSE_WEIGHTS_H

#include "base/counted.h"
#include "data/dataset.h"
#include "kernels/kernels.h"

/* The most rows of a chunk. */
#define XSMI_CHUNK_ROWS 65535
/* The most rows of a chunk whose numbers fit into a byte. */
#define XSMI_BYTE_ROWS 256

/* A column of a chunk: a feature, and how many rows use it, at least 1. */
typedef struct xsmi_sparse_column {
    uint16_t low; /* the feature's bits below the chunk's `shift` */
    uint16_t count;
} xsmi_sparse_column;

/* Where the columns of a block begin, and their entries, counted from the chunk's first. */
typedef struct xsmi_sparse_block {
    uint32_t column, entry;
} xsmi_sparse_block;

/* Where a chunk begins. */
typedef struct xsmi_sparse_place {
    uint64_t entry, column, block;
    uint32_t row, shift;
} xsmi_sparse_place;

typedef struct xsmi_sparse {
    xsm_context *context;
    xsmi_holders holders;
    uint32_t rows, features; /* D */
    uint32_t chunks;
    uint32_t widest;                   /* rows of the largest chunk */
    const xsmi_sparse_place *places;   /* [chunks+1]; the last one is where all arrays end */
    const xsmi_sparse_block *blocks;   /* xsmi_sparse_blocks() + 1 for each chunk: the last one is where its columns
                                          end */
    const xsmi_sparse_column *columns; /* features rise within a chunk */
    const uint8_t *row8;               /* [entries] row within the chunk, rising within a column; NULL: see row16 */
    const uint16_t *row16;             /* the same; NULL if no chunk has more than 256 rows */
    const float *values;               /* [entries], or NULL: in fewer bits, `narrow` */
    xsmi_narrow narrow;                /* one row of [entries] numbers; `data` is NULL for float32 */
    const float *factors;              /* [rows], or NULL: none */
    const float *bias;                 /* [rows] or NULL */
    /* Of a label tree whose fit scaled its weights: [levels][2] by what the weights and biases of each level were
     * multiplied, and what was added to the biases; NULL: not known. */
    const float *scales;
    uint32_t levels;
    bool owned; /* the arrays belong to these weights; false if they are in a file's mapping */
} xsmi_sparse;

xsmi_sparse *xsmi_sparse_retain(xsmi_sparse *s);
void xsmi_sparse_release(xsmi_sparse *s);

/* Returns the number of blocks of a chunk with that shift. */
static inline size_t xsmi_sparse_blocks_of(uint32_t features, uint32_t shift)
{
    return features > 0 ? (size_t)((features - 1) >> shift) + 1 : 1;
}

/* Returns the number of blocks of a chunk. */
static inline size_t xsmi_sparse_blocks(const xsmi_sparse *s, uint32_t chunk)
{
    return xsmi_sparse_blocks_of(s->features, s->places[chunk].shift);
}

static inline uint32_t xsmi_sparse_chunk_rows(const xsmi_sparse *s, uint32_t chunk)
{
    return s->places[chunk + 1].row - s->places[chunk].row;
}

/* Returns the number of weights that are stored. */
static inline uint64_t xsmi_sparse_entries(const xsmi_sparse *s)
{
    return s->places[s->chunks].entry;
}

/* Returns the bytes of all arrays. */
uint64_t xsmi_sparse_bytes(const xsmi_sparse *s);
/* Returns the chunk of a row. O(log chunks) */
uint32_t xsmi_sparse_chunk_of(const xsmi_sparse *s, uint32_t row);

/* Returns the type of the weights, an XSM_DTYPE_* value. */
static inline int32_t xsmi_sparse_dtype(const xsmi_sparse *s)
{
    return s->narrow.dtype;
}

/* Returns the stored numbers, which have that type. */
static inline const void *xsmi_sparse_numbers(const xsmi_sparse *s)
{
    return s->narrow.dtype == XSM_DTYPE_FLOAT32 ? s->values : s->narrow.data;
}

/* Returns number i as a float, exactly, without the factor of its row. */
static inline float xsmi_sparse_number(const xsmi_sparse *s, uint64_t i)
{
    return s->narrow.dtype == XSM_DTYPE_FLOAT32 ? s->values[i] : xsmi_narrow_number(&s->narrow, (size_t)i);
}

/* -- making -------------------------------------------------------------------------------------------------------- */

/* The weights of one chunk, for a builder. */
typedef struct xsmi_sparse_chunk {
    uint32_t rows;            /* 1 to XSMI_CHUNK_ROWS */
    uint32_t columns;         /* features that a row uses */
    const uint32_t *features; /* [columns] rising, each below D */
    const uint32_t *starts; /* [columns+1] where each column's entries begin, the first 0; a column has at least one */
    const uint16_t *entry_rows; /* [entries] rising within a column, each below `rows` */
    const float *values;        /* [entries] finite */
    const float *bias;          /* [rows], or NULL: the builder makes weights without a bias */
} xsmi_sparse_chunk;

/* A builder of sparse weights. It takes chunks in the order of their rows. */
typedef struct xsmi_sparse_builder xsmi_sparse_builder;
xsm_status xsmi_sparse_builder_new(xsm_context *ctx, uint32_t features, bool bias, xsmi_sparse_builder **out,
                                   xsm_error *err);
/* Adds a copy of a chunk. */
xsm_status xsmi_sparse_builder_add(xsmi_sparse_builder *b, const xsmi_sparse_chunk *chunk, xsm_error *err);
/* Moves the chunks that were added, at least one, to new weights; the builder is then empty. */
xsm_status xsmi_sparse_builder_finish(xsmi_sparse_builder *b, xsmi_sparse **out, xsm_error *err);
void xsmi_sparse_builder_free(xsmi_sparse_builder *b);
/* Returns a view of the chunks that were added so far, at least one. It is valid until the next one is added. The rows
 * are in row16. */
xsmi_sparse xsmi_sparse_builder_view(const xsmi_sparse_builder *b);
/* Copies weights of float32 into an empty builder with as many features, as if their chunks had been added. */
xsm_status xsmi_sparse_builder_load(xsmi_sparse_builder *b, const xsmi_sparse *s, xsm_error *err);

/* Gives new weights a copy of their levels' scales, [levels][2]. */
xsm_status xsmi_sparse_set_scales(xsmi_sparse *s, const float *scales, uint32_t levels, xsm_error *err);

/* A chunk of float32 as a builder takes it. xsmi_sparse_take() reads chunk `number` of s into c.chunk, whose arrays
 * belong to `c` and may be changed until the next call, but for `values` and `bias`, which are those of s. Start with
 * the context and zeros, and end with xsmi_sparse_taken_free(). O(columns + entries) */
typedef struct xsmi_sparse_taken {
    xsm_context *context;
    xsmi_sparse_chunk chunk;
    uint32_t *features, *starts;
    uint16_t *rows;
    size_t columns, entries; /* room */
} xsmi_sparse_taken;
xsm_status xsmi_sparse_take(xsmi_sparse_taken *c, const xsmi_sparse *s, uint32_t number, xsm_error *err);
void xsmi_sparse_taken_free(xsmi_sparse_taken *c);

/* Makes the same weights in another type, with arrays of their own. If a weight is not finite in the type, sets *out to
 * NULL and *bad to that weight. Advances the context's activity by entries. O(entries). */
typedef struct xsmi_sparse_bad {
    bool found;
    uint32_t row, feature;
} xsmi_sparse_bad;
xsm_status xsmi_sparse_convert(const xsmi_sparse *s, int32_t dtype, xsmi_sparse_bad *bad, xsmi_sparse **out,
                               xsm_error *err);

/* Makes weights over borrowed arrays, such as a file's mapping, after checking all but the values. The arrays have the
 * lengths that the places say. Sets *out to NULL if they are no sparse weights. O(entries). */
typedef struct xsmi_sparse_arrays {
    uint32_t rows, features;
    const xsmi_sparse_place *places;
    size_t place_count;
    const xsmi_sparse_block *blocks;
    size_t block_count;
    const xsmi_sparse_column *columns;
    size_t column_count;
    const uint8_t *row8; /* one of these two is NULL */
    const uint16_t *row16;
    const float *values; /* or NULL: then these two */
    xsmi_narrow narrow;
    const float *factors; /* or NULL; must be finite and not below 0 */
    size_t entries;
    const float *bias;
    const float *scales; /* finite */
    uint32_t levels;
} xsmi_sparse_arrays;
xsm_status xsmi_sparse_over(xsm_context *ctx, const xsmi_sparse_arrays *a, xsmi_sparse **out, xsm_error *err);

/* -- scoring ------------------------------------------------------------------------------------------------------- */

/* Computes the scores of all rows of a chunk, z[rows of the chunk]: sums in the order of the features, times the row's
 * factor if it has one, then plus the bias. The bits are the same on any processor and for a dense and a sparse row of
 * the same numbers. */
void xsmi_sparse_scores(const xsmi_sparse *s, uint32_t chunk, const xsmi_features *x, float *z);
/* Returns the score of one row, with the same bits. */
float xsmi_sparse_score(const xsmi_sparse *s, uint32_t row, const xsmi_features *x);
/* Writes weights of float32 to weight[row * row_step + feature * feature_step], in parallel. */
xsm_status xsmi_sparse_spread(const xsmi_sparse *s, float *weight, size_t row_step, size_t feature_step,
                              xsm_error *err);

#endif
