/*
 * Chunks of sparse weights of which several ranks of a divided model have rows (divided.h). All ranks make the calls
 * together. What fails on one rank fails on all.
 */
#ifndef XSMI_SPARSE_JOINT_H
#define XSMI_SPARSE_JOINT_H

#include "base/comm.h"
#include "model/sparse.h"

/* A column of a rank's rows: its feature, and its entries. */
typedef struct xsmi_sparse_use {
    uint32_t feature, count;
} xsmi_sparse_use;

/* The columns of a chunk on every rank. */
typedef struct xsmi_sparse_joint {
    xsm_context *context;
    xsmi_sparse_use *uses; /* [starts[ranks]] those of one rank after another, features rising on each */
    size_t *starts;        /* [ranks+1] */
    size_t *next;          /* [ranks] the next one of each */
    /* The next column of the chunk, after a look. */
    uint32_t feature, count;
} xsmi_sparse_joint;

/* For a rank without rows of the chunk. */
#define XSMI_NO_CHUNK UINT32_MAX

/* Gets the columns of all ranks; `chunk` is that of this rank's rows in `mine`. To be freed after a failure, too. A
 * rank sends 8 bytes for each column, and 8. */
xsm_status xsmi_sparse_join(xsm_context *ctx, const xsmi_sparse *mine, uint32_t chunk, xsmi_sparse_joint *j,
                            xsm_error *err);
void xsmi_sparse_joint_free(xsmi_sparse_joint *j);
/* Finds the next column; false at the end. O(ranks) */
bool xsmi_sparse_joint_look(xsmi_sparse_joint *j);
/* The entries of that column that a rank has. */
static inline uint32_t xsmi_sparse_joint_of(const xsmi_sparse_joint *j, uint32_t rank)
{
    const size_t at = j->next[rank];
    return at < j->starts[rank + 1] && j->uses[at].feature == j->feature ? j->uses[at].count : 0;
}
/* Passes it. */
void xsmi_sparse_joint_step(xsmi_sparse_joint *j);

/* The places of the chunks of all classes, of which this rank has the rows from `first` on; `continues`: its first
 * chunk is the rest of one that another rank begins. The caller's to release, [*chunks+1]. A rank sends 24 bytes for
 * each chunk. */
typedef struct xsmi_sparse_share {
    const xsmi_sparse *mine;
    uint32_t first;
    bool continues;
    uint32_t rows; /* of all ranks */
} xsmi_sparse_share;
xsm_status xsmi_sparse_layout(xsm_context *ctx, const xsmi_sparse_share *share, xsmi_sparse_place **out,
                              uint32_t *chunks, xsm_error *err);

#endif
