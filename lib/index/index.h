/* Internals of indexes, for prediction and estimators. */
#ifndef XSMI_INDEX_H
#define XSMI_INDEX_H

#include "base/base.h"
#include "base/counted.h"
#include "base/option.h"
#include "base/share.h"
#include "model/correction.h"
#include "model/model.h"

#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/search.h>
#include <xsoftmax/index.h>

typedef struct xsmi_index_common {
    int64_t seed;
} xsmi_index_common;

struct xsm_index {
    xsmi_holders holders;
    xsm_context *context;
    xsm_index_ops ops;                    /* a copy; members that the host's table lacks are NULL */
    const struct xsmi_index_ranks *ranks; /* how it is searched over ranks; NULL: only in one process */
    void *state;
    xsmi_index_common common;
    bool built;
    xsm_index_rows rows;              /* the rows that it was built over, */
    const xsm_model *model;           /* or the model (a reference), */
    xsmi_correction *correction;      /* with its correction at that time, numbers or NULL (a reference) */
    uint64_t shape;                   /* of the model at that time */
    uint32_t count, width, own_width; /* own_width: including the bias or what replaces it; count: of all ranks */
    bool sliced;                      /* over a slice of the model, without its common scale */
    uint32_t first;                   /* feature of the slice */
    uint32_t wanted;                  /* rows that searches will request; 0 = unknown */
};

XSMI_COUNTED(index)

/* Reads a row of an index that is not divided, own_width numbers. */
void xsmi_index_read_row(const xsm_index *index, uint32_t row, float *out);
/* Keeps a reference to a correction, or NULL, as long as the index is built over its model. */
void xsmi_index_hold(xsm_index *index, xsmi_correction *correction);
/* Sets the model that its rows are of, NULL = none, and keeps a reference to it. */
void xsmi_index_aim(xsm_index *index, const xsm_model *model);
/* Returns the index to the state before it was built. */
void xsmi_index_clear(xsm_index *index);
/* Its options with their values, which may be set as long as it is not built. */
xsmi_option_group xsmi_index_options(const xsm_index *index);
/* A new index with the table and options of an index that is not built. */
xsm_status xsmi_index_new_like(const xsm_index *of, xsm_index **out, xsm_error *err);
/* The features first..first+width of a class-major model, searched for `wanted` rows at a time. */
typedef struct xsmi_index_slice {
    const xsm_model *model;
    uint32_t first, width, wanted;
} xsmi_index_slice;

/* Builds it over a slice. Rows do not include the model's common scale alpha, which a step may change: queries must
 * include it and the coordinate of the bias. If scores are distances, that coordinate is the slice's own,
 * -||w_kj||^2/2. */
xsm_status xsmi_index_build_slice(xsm_index *index, const xsmi_index_slice *slice, xsm_error *err);

/* For checkpoints: the number of saved numbers of an index that is, or would be, built so; the numbers; and an index
 * made from them. Its rows come from a model with the same weights, which xsmi_index_aim() then replaces by another
 * model. */
xsm_status xsmi_index_saved(xsm_index *index, const xsmi_index_slice *slice, uint64_t *numbers, xsm_error *err);
void xsmi_index_save(const xsm_index *index, uint32_t *numbers);
xsm_status xsmi_index_restore_slice(xsm_index *index, const xsmi_index_slice *slice, const uint32_t *numbers,
                                    xsm_error *err);

/* For files (file.c): sets the rows of an index, of a model or the host, without building it; the number of numbers
 * that it saves; the index made from these, with the rows that are set; a hash of all rows, of a divided model by all
 * ranks together, each of which sends 8 bytes for 64 of its rows; and whether the model that it was built over still
 * has its shape. */
xsm_status xsmi_index_aim_at_model(xsm_index *index, const xsm_model *model, xsm_error *err);
xsm_status xsmi_index_aim_at_rows(xsm_index *index, const xsm_index_rows *rows, xsm_error *err);
uint64_t xsmi_index_numbers(const xsm_index *index);
xsm_status xsmi_index_restore(xsm_index *index, const uint32_t *numbers, xsm_error *err);
xsm_status xsmi_index_fingerprint(const xsm_index *index, uint64_t *out, xsm_error *err);
xsm_status xsmi_index_check_model(const xsm_index *index, xsm_error *err);

/* Floats from query to query in the library's memory. */
static inline size_t xsmi_index_query_stride(const xsm_index *index)
{
    return ((size_t)index->own_width + 15) / 16 * 16;
}
/* Bytes of scratch for a block of queries, SIZE_MAX if they cannot be addressed. */
size_t xsmi_index_scratch(const xsm_index *index, uint32_t top);
/* Reads a block for the built-in tables, which a host with another version's header may have made: missing members are
 * 0. */
xsm_status xsmi_index_read_block(const xsm_index_block *given, xsm_index_block *block, xsm_error *err);
/* The same for next(), whose cursors have so many bytes. */
xsm_status xsmi_index_read_next(const xsm_index_block *given, size_t cursor, xsm_index_block *block, xsm_error *err);
/* Searches a block whose queries are aligned, xsmi_index_query_stride() floats from each other, and followed by a 1 if
 * there is a bias. Checks that lists and lengths are valid. */
xsm_status xsmi_index_block(const xsm_index *index, const xsm_index_block *block, xsm_error *err);
/* Bytes from cursor to cursor of an index that has next(), SIZE_MAX if they cannot be addressed. */
size_t xsmi_index_cursor(const xsm_index *index);
/* As xsmi_index_block(), for further rows; without entries for those that the lists lack. */
xsm_status xsmi_index_next(const xsm_index *index, const xsm_index_block *block, xsm_error *err);

/* -- over ranks (ranks.c) ------------------------------------------------------------------------------------------ */

/*
 * An index over a divided model (model/divided.h) has the rows of this rank's classes, and what is said of all rows.
 * Its builds, updates and searches are calls of all ranks together, with the bits of one process; classes are numbered
 * as in the whole model. xsm_index_build_model(), xsm_index_update(), xsm_index_query() and xsm_index_recall() do this
 * by themselves; xsmi_index_find() takes the place of xsmi_index_block(), xsmi_index_find_next() that of
 * xsmi_index_next().
 */
static inline bool xsmi_index_is_divided(const xsm_index *index)
{
    return index->model && index->model->part.own;
}

/* The rows of this process, of those of all ranks. */
typedef struct xsmi_index_part {
    xsm_context *group; /* NULL: all rows are of this process, and the other members are 0 */
    uint32_t classes;   /* K of all ranks */
    uint32_t first;     /* this process's row c is class first + c */
} xsmi_index_part;

static inline xsmi_index_part xsmi_index_part_of(const xsm_index *index)
{
    const xsm_model *m = index->model;
    return xsmi_index_is_divided(index) ? (xsmi_index_part){m->context, m->classes, m->part.first}
                                        : (xsmi_index_part){NULL, 0, 0};
}

/* Classes that have changed. */
typedef struct xsmi_index_changes {
    const uint32_t *classes; /* [count] the same on every rank */
    uint32_t count;
    const uint32_t *own; /* [own_count] this rank's, in the same order, numbered as its rows */
    uint32_t own_count;
} xsmi_index_changes;

/* Memory for searches over ranks, kept from one to the next. Begins as zeros. */
typedef struct xsmi_index_desk {
    unsigned char *work, *entries, *mine, *all;
    size_t work_bytes, entry_bytes, mine_bytes, all_bytes;
} xsmi_index_desk;

void xsmi_index_desk_free(xsm_context *ctx, xsmi_index_desk *desk);

/* What a built-in table has for ranks, beside its functions. */
typedef struct xsmi_index_ranks {
    /* next() in two steps. The first lists the next of this rank's rows, where lists of all ranks have `sought` rows;
     * the second, which cannot fail, moves the cursors behind the last entries of the lists of all, and completes
     * block->probed. */
    xsm_status (*peek)(const void *state, const xsm_index_block *block, uint32_t sought, xsm_error *err);
    void (*pass)(const void *state, const xsm_index_block *block, const xsmi_index_part *part);
    /* The next three are NULL of a table whose query() finds the best of all its rows, so that lists of the ranks can
     * be merged, and whose update() cannot fail. Sets what rows the next build() or restore() is of; build() and
     * update() are then calls of all ranks together, which make them agree, and restore() is not. */
    void (*divide)(void *state, const xsmi_index_part *part);
    xsm_status (*update)(void *state, const xsm_index_source *source, const xsmi_index_changes *changes,
                         xsm_status status, xsm_error *err);
    /* As xsmi_index_find(). */
    xsm_status (*find)(const void *state, const xsm_index_block *block, xsmi_index_desk *desk, xsm_status status,
                       xsm_error *err);
} xsmi_index_ranks;

/* That of a table; NULL: it cannot be searched over ranks. For a table that this library has handed out: another
 * library with the same objects, such as that of words, has copies of its functions at other places. */
const xsmi_index_ranks *xsmi_index_ranks_of(const xsm_index_ops *table);
/* Refuses an index that cannot be built over a divided model. */
xsm_status xsmi_index_check_ranks(const xsm_index *index, const xsm_model *model, xsm_error *err);

/* Searches a block on the index's threads, all ranks together and with the same queries, as xsmi_index_block() does in
 * one process: all ranks get the same lists. `status` is this rank's so far. The scratch of the block is not used. For
 * `exact`, and where a search has an order, a rank sends for each query 4 bytes, and 8 for each row of a list of `top`,
 * or of its rows if these are fewer; for rows that `spherical` lists in any order 4 for each of its own. */
xsm_status xsmi_index_find(const xsm_index *index, const xsm_index_block *block, xsmi_index_desk *desk,
                           xsm_status status, xsm_error *err);

/* The same in place of xsmi_index_next(), for rows in falling order. cursors[count] takes the place of those of the
 * block, which may lie apart, and are of this rank's rows. A rank sends for each query 4 bytes, and 8 for each row of a
 * list of `top`, or of its rows if these are fewer. */
xsm_status xsmi_index_find_next(const xsm_index *index, const xsm_index_block *block, void *const *cursors,
                                xsmi_index_desk *desk, xsm_status status, xsm_error *err);

/* Lists of some rows, for xsmi_index_merge(). */
typedef struct xsmi_index_lister {
    xsm_status (*query)(const void *state, const xsm_index_block *block, xsm_error *err); /* of this rank's rows */
    const void *state;
    size_t scratch; /* bytes that a query needs */
    uint32_t rows;  /* of this rank */
    const xsmi_index_part *part;
    xsm_context *context; /* of the threads */
    bool every;           /* lists have every row, in rising order, not sorted by score */
} xsmi_index_lister;
/* xsmi_index_find() where each rank lists the best of its rows, but for entries beyond the lists' lengths. */
xsm_status xsmi_index_merge(const xsmi_index_lister *lister, const xsm_index_block *block, xsmi_index_desk *desk,
                            xsm_status status, xsm_error *err);
/* Parts of a block for the threads: so many, and the first query of each. */
static inline uint32_t xsmi_index_pieces(xsm_context *ctx, uint32_t queries)
{
    const uint32_t threads = xsmi_context_threads(ctx);
    return threads < queries ? threads : queries;
}
static inline uint32_t xsmi_index_piece(uint32_t queries, uint32_t pieces, size_t piece)
{
    return (uint32_t)xsmi_share_start(queries, pieces, (uint32_t)piece);
}
/* The queries first..end of a block, with their lists. */
xsm_index_block xsmi_index_part_of_block(const xsm_index_block *block, uint32_t first, uint32_t end);

/* Those of the built-in tables. */
extern const xsmi_index_ranks xsmi_exact_index_ranks, xsmi_spherical_index_ranks;

/* Names for an option, ended by NULL. */
extern const char *const xsmi_index_names[];
/* The built-in indexes: a new one is its file and a line here, with how it is searched over ranks, or NULL. */
/* clang-format off */
#define XSMI_INDEXES(X) \
    X(xsmi_exact_index_ops, "exact", &xsmi_exact_index_ranks) \
    X(xsmi_spherical_index_ops, "spherical", &xsmi_spherical_index_ranks)
/* clang-format on */
#define XSMI_DECLARE_INDEX(table, name, ranks) extern const xsm_index_ops table;
XSMI_INDEXES(XSMI_DECLARE_INDEX)

#endif
