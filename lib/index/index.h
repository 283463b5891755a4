/* Internals of indexes, for prediction and estimators. */
#ifndef XSMI_INDEX_H
#define XSMI_INDEX_H

#include "base/base.h"
#include "base/counted.h"
#include "base/option.h"
#include "model/head.h"
#include "model/model.h"

#include <xsoftmax/ext/index.h>
#include <xsoftmax/search.h>
#include <xsoftmax/index.h>

typedef struct xsmi_index_common {
    int64_t seed;
} xsmi_index_common;

struct xsm_index {
    xsmi_holders holders;
    xsm_context *context;
    xsm_index_ops ops; /* a copy; members that the host's table lacks are NULL */
    void *state;
    xsmi_index_common common;
    bool built;
    xsm_index_rows rows;              /* the rows that it was built over, */
    const xsm_model *model;           /* or the model (a reference), */
    xsmi_head *head;                  /* with its head at that time, numbers or NULL (a reference) */
    uint64_t shape;                   /* of the model at that time */
    uint32_t count, width, own_width; /* own_width: including the bias or what replaces it */
    bool sliced;                      /* over a slice of the model, without its common scale */
    uint32_t first;                   /* feature of the slice */
    uint32_t wanted;                  /* rows that searches will request; 0 = unknown */
};

XSMI_COUNTED(index)

/* Sets *recall to the mean over queries of the share of the `top` rows with the highest scores that a built index
 * finds; a row that scores as much as the last of these counts as one of them. Scores every row. The outputs of
 * `search` are not used. */
xsm_status xsmi_index_recall(const xsm_index *index, const xsm_index_search *search, double *recall, xsm_error *err);
/* Sets the model whose rows the index has (NULL = none), and keeps a reference to it. */
void xsmi_index_aim(xsm_index *index, const xsm_model *model);
/* Returns the index's options with their values, which may be set while it is not built. */
xsmi_option_group xsmi_index_options(const xsm_index *index);
/* Makes an index with the table and options of an index that is not built. */
xsm_status xsmi_index_new_like(const xsm_index *of, xsm_index **out, xsm_error *err);
/* The features first..first+width of a class-major model. A search is for `wanted` rows. */
typedef struct xsmi_index_slice {
    const xsm_model *model;
    uint32_t first, width, wanted;
} xsmi_index_slice;

/* Builds an index over a slice. Its rows do not include the model's common scale alpha, which a step may change:
 * queries must include it, and the coordinate of the bias. If scores are distances, that coordinate is the slice's own,
 * -||w_kj||^2/2. */
xsm_status xsmi_index_build_slice(xsm_index *index, const xsmi_index_slice *slice, xsm_error *err);

/* For checkpoints: the number of saved numbers of an index that is, or would be, built over a slice; the numbers; and
 * an index made from them. The rows come from a model with the same weights; xsmi_index_aim() then sets the model to
 * use. */
xsm_status xsmi_index_saved(xsm_index *index, const xsmi_index_slice *slice, uint64_t *numbers, xsm_error *err);
void xsmi_index_save(const xsm_index *index, uint32_t *numbers);
xsm_status xsmi_index_restore_slice(xsm_index *index, const xsmi_index_slice *slice, const uint32_t *numbers,
                                    xsm_error *err);

/* For files (index_file.c): set the rows of an index, a model's or the host's, without building it; the number of
 * numbers that it saves; make the index from these and the rows that were set; a hash of all rows; and whether the
 * model of the index still has the shape that it had. */
xsm_status xsmi_index_aim_at_model(xsm_index *index, const xsm_model *model, xsm_error *err);
xsm_status xsmi_index_aim_at_rows(xsm_index *index, const xsm_index_rows *rows, xsm_error *err);
uint64_t xsmi_index_numbers(const xsm_index *index);
xsm_status xsmi_index_restore(xsm_index *index, const uint32_t *numbers, xsm_error *err);
xsm_status xsmi_index_fingerprint(const xsm_index *index, uint64_t *out, xsm_error *err);
xsm_status xsmi_index_check_model(const xsm_index *index, xsm_error *err);

/* Returns the floats from query to query in the library's memory. */
static inline size_t xsmi_index_query_stride(const xsm_index *index)
{
    return ((size_t)index->own_width + 15) / 16 * 16;
}
/* Returns the bytes of scratch for a block of queries, SIZE_MAX if they cannot be addressed. */
size_t xsmi_index_scratch(const xsm_index *index, uint32_t top);
/* Reads a block for the built-in tables. A host may have made it with another release's header: missing members become
 * 0. */
xsm_status xsmi_index_read_block(const xsm_index_block *given, xsm_index_block *block, xsm_error *err);
/* Reads a block for next(), whose cursors have `cursor` bytes. */
xsm_status xsmi_index_read_next(const xsm_index_block *given, size_t cursor, xsm_index_block *block, xsm_error *err);
/* Searches a block whose queries are aligned, xsmi_index_query_stride() floats from each other, and followed by a 1 if
 * there is a bias. Checks that lists and lengths are valid. */
xsm_status xsmi_index_block(const xsm_index *index, const xsm_index_block *block, xsm_error *err);
/* Returns the bytes from cursor to cursor of an index that has next(), SIZE_MAX if they cannot be addressed. */
size_t xsmi_index_cursor(const xsm_index *index);
/* As xsmi_index_block(), for the rows that follow; entries that a list lacks have no class. */
xsm_status xsmi_index_next(const xsm_index *index, const xsm_index_block *block, xsm_error *err);

/* Names for an option, ended by NULL. */
extern const char *const xsmi_index_names[];
/* The built-in indexes: a new one is its file and a line here. */
/* clang-format off */
#define XSMI_INDEXES(X) \
    X(xsmi_exact_index_ops, "exact") \
    X(xsmi_spherical_index_ops, "spherical")
/* clang-format on */
#define XSMI_DECLARE_INDEX(table, name) extern const xsm_index_ops table;
XSMI_INDEXES(XSMI_DECLARE_INDEX)

#endif
