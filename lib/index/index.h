/* Inside of indexes, for prediction and estimators. */
#ifndef XSMI_INDEX_H
#define XSMI_INDEX_H

#include "base/base.h"
#include "base/option.h"
#include "model/model.h"

#include <xsoftmax/ext/index.h>
#include <xsoftmax/index.h>

typedef struct xsmi_index_common {
    int64_t seed;
} xsmi_index_common;

struct xsm_index {
    xsm_context *context;
    xsm_index_ops ops; /* a copy: what the host's table lacks is NULL */
    void *state;
    xsmi_index_common common;
    bool built;
    bool own_table;                   /* the library's own search: its lists need no looking through */
    xsm_index_rows rows;              /* what it was built over, */
    const xsm_model *model;           /* or the model, */
    xsmi_correction *correction;      /* with what its scores had added then, numbers or NULL; a hold on it */
    uint32_t count, width, own_width; /* own_width: with the bias, or what is added in its place */
    bool sliced;                      /* over the model's features first..first+width, without its alpha */
    uint32_t first;
    uint32_t wanted; /* rows that searches will ask for; 0 = not known */
};

/* Keeps a correction, or none, for as long as the index is built over its model. */
void xsmi_index_hold(xsm_index *index, xsmi_correction *correction);
/* Back to an index that is not built. */
void xsmi_index_clear(xsm_index *index);
/* An index with the table and the options of one that has not been built. */
xsm_status xsmi_index_new_like(const xsm_index *of, xsm_index **out, xsm_error *err);
/* Builds it over the features first..first+width of a class-major model, `wanted` rows a search. Rows leave out the
 * model's alpha, which all share and a step may change: queries have to bring it, and the bias's coordinate too. Where
 * scores are distances that coordinate is the slice's own, -||w_kj||^2/2. */
xsm_status xsmi_index_build_slice(xsm_index *index, const xsm_model *model, uint32_t first, uint32_t width,
                                  uint32_t wanted, xsm_error *err);

/* For checkpoints: how many numbers are saved of an index that is built so, or would be; what they are; and an index
 * from them, whose rows come from a model with the same weights, which xsmi_index_move() then changes for another. */
xsm_status xsmi_index_saved(xsm_index *index, const xsm_model *model, uint32_t first, uint32_t width, uint32_t wanted,
                            uint64_t *numbers, xsm_error *err);
void xsmi_index_save(const xsm_index *index, uint32_t *numbers);
xsm_status xsmi_index_restore_slice(xsm_index *index, const xsm_model *model, uint32_t first, uint32_t width,
                                    uint32_t wanted, const uint32_t *numbers, xsm_error *err);
void xsmi_index_move(xsm_index *index, const xsm_model *model);

/* Floats from query to query in memory of ours. */
size_t xsmi_index_query_stride(const xsm_index *index);
/* Bytes of scratch for a block of queries, SIZE_MAX = more than can be. */
size_t xsmi_index_scratch(const xsm_index *index, uint32_t top);
/* A block for the library's own tables, which a host with another version's header may have made: what it lacks is 0,
 * and `apart` is said. */
xsm_status xsmi_index_read_block(const xsm_index_block *given, xsm_index_block *block, xsm_error *err);
/* Searches a block whose queries are xsmi_index_query_stride() apart, aligned, with a 1 behind where there is a bias.
 * Lists and lengths are checked to be such. */
xsm_status xsmi_index_block(const xsm_index *index, const xsm_index_block *block, xsm_error *err);

/* Names for an option of that choice, ended by NULL. */
extern const char *const xsmi_index_names[];
/* Whether a table's searches are those of a built-in index. */
bool xsmi_index_own_table(const xsm_index_ops *ops);
extern const xsm_index_ops xsmi_exact_index_ops;
extern const xsm_index_ops xsmi_spherical_index_ops;

#endif
