/*
 * The indexes of an estimator that searches: one for each block of coordinates, updated with the model.
 *
 * Rows of weights are indexed without the model's alpha, which every decay changes for all rows at once; queries
 * include it. Rows that the estimator's gradients list are updated before the next search. If the model's scales have
 * been multiplied into its rows, or its weights have moved in memory, all indexes are rebuilt.
 */
#ifndef XSMI_SEARCHER_H
#define XSMI_SEARCHER_H

#include "base/held.h"
#include "index/index.h"

#include <xsoftmax/ext/estimator.h>

typedef struct xsmi_searcher xsmi_searcher;

/* The index of a coordinate block. */
typedef struct xsmi_block_index {
    xsm_index *index;
    uint32_t first, width; /* its coordinates */
} xsmi_block_index;

struct xsmi_searcher {
    xsm_context *context;
    xsmi_held held;         /* the indexes, and the arrays of `update` */
    const xsm_model *model; /* the estimator's reference */
    uint32_t classes;
    uint32_t blocks, candidates, most; /* `most` above 0: lists grow on demand */
    uint64_t startup;
    xsmi_block_index *indexes; /* [blocks] */
    size_t query_stride;       /* of the widest block */
    bool built;
    const float *weight; /* of the model when they were built */
    double alpha;        /* of the model at the last update */

    /* Rows that have changed since the last update. */
    struct {
        uint64_t *marks;   /* [mark_words] a bit for each class */
        size_t mark_words; /* stored here, as the model may grow while it is bound */
        uint32_t *changed; /* [classes] */
        uint32_t changes;
    } update;

    /* Memory for the classes found for up to `capacity` examples. */
    struct {
        xsmi_held held; /* the arrays, without `block` */
        size_t capacity;
        float *queries;       /* [blocks][capacity][query_stride] */
        uint32_t *found;      /* [capacity][blocks][candidates] */
        float *score;         /* [capacity][blocks][candidates] */
        uint32_t *length;     /* [capacity][blocks] */
        unsigned char *block; /* [threads][block_each] lists and scratch of a search, or xsmi_growing_lists */
        size_t block_each, block_bytes;
    } results;

    /* The state that a checkpoint stores, NULL until a copy is made. */
    struct {
        xsmi_held held;       /* the arrays */
        uint64_t progress[3]; /* 1 if the indexes are built, `startup`, `update.changes` */
        double alpha;
        uint32_t **indexes; /* [blocks] numbers of each index */
        uint64_t *counts;   /* [blocks] their counts */
        uint32_t *changed;  /* [classes] `update.changed` */
        char (*names)[24];  /* [blocks] */
    } copy;
};

/* A thread's lists of one example that grow on demand, at most `most` classes of each block. */
typedef struct xsmi_growing_lists {
    uint32_t *found;        /* [blocks][most] */
    float *score;           /* [blocks][most] */
    uint32_t *length;       /* [blocks] */
    size_t cursor_stride;   /* bytes of the largest cursor */
    unsigned char *cursors; /* [blocks][cursor_stride] */
    void *scratch;          /* scratch of an index */
} xsmi_growing_lists;

/* Makes a searcher for a model and data of `rows` rows, with indexes made like `like`, which is not built. */
xsm_status xsmi_searcher_new(xsm_context *ctx, const xsm_index *like, const xsm_search_plan *plan,
                             const xsm_model *model, uint64_t rows, xsmi_searcher **out, xsm_error *err);
void xsmi_searcher_free(xsmi_searcher *s);
/* Returns the number of examples that use randomly drawn classes before the search begins. */
uint64_t xsmi_searcher_startup(const xsmi_searcher *s);
void xsmi_searcher_set_startup(xsmi_searcher *s, uint64_t examples);
/* Whether a batch that begins at that position of the run is searched. */
bool xsmi_searcher_begun(const xsmi_searcher *s, uint64_t position);
/* Set which rows the next update indexes: none, if no step has been taken with the classes found, or all, after a step
 * that changes every row. */
void xsmi_searcher_change_none(xsmi_searcher *s);
void xsmi_searcher_change_all(xsmi_searcher *s);

/* For checkpoints: copy the present state, and return its tensors, by number. */
xsm_status xsmi_searcher_copy(xsmi_searcher *s, xsm_error *err);
bool xsmi_searcher_tensor(xsmi_searcher *s, uint32_t index, xsm_state_tensor *tensor);
/* Makes indexes from a file's tensors, data[i] of tensor i, and the rows of the file's model. On failure there are
 * none. The caller then either installs them in place of the searcher's indexes or frees them. */
xsm_status xsmi_searcher_restore(const xsmi_searcher *s, const xsm_index *like, const xsm_model *rows,
                                 const void *const *data, xsm_index **indexes, xsm_error *err);
void xsmi_searcher_install(xsmi_searcher *s, const void *const *data, xsm_index **indexes);
/* Releases the copy. */
void xsmi_searcher_forget(xsmi_searcher *s);

#endif
