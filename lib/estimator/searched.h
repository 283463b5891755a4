/*
 * The indexes of an estimator that searches: one for each block of coordinates, kept up with the model.
 *
 * Rows are indexed without the model's alpha, which every decay changes for all rows at once: queries bring it. Rows
 * that the estimator's gradients named are read again before the next search. When the model's scales have been
 * multiplied into its rows, or its weights have moved, all is built anew.
 */
#ifndef XSMI_SEARCHED_H
#define XSMI_SEARCHED_H

#include "index/index.h"

#include <xsoftmax/ext/estimator.h>

typedef struct xsmi_searcher xsmi_searcher;

/* The index of a block. */
typedef struct xsmi_search_part {
    xsm_index *index;
    uint32_t first, width; /* its coordinates */
} xsmi_search_part;

struct xsmi_searcher {
    xsm_context *context;
    const xsm_model *model;
    uint32_t blocks, candidates;
    uint64_t startup;
    xsmi_search_part *parts; /* [blocks] */
    size_t query_stride;     /* of the widest block */
    bool built;
    const float *weight; /* the model's when they were built */
    double alpha;        /* the model's when they were last up to date */

    /* Rows that have changed since. */
    uint64_t *marks;   /* [mark_words] a bit each class */
    size_t mark_words; /* kept, as the model may be gone when this is released */
    uint32_t *changed; /* [capacity] */
    uint32_t changes, capacity;

    /* Room for what is found for so many examples. */
    size_t room;
    float *queries;       /* [blocks][room][query_stride] */
    uint32_t *found;      /* [room][blocks][candidates] */
    float *score;         /* [room][blocks][candidates] */
    uint32_t *length;     /* [room][blocks] */
    unsigned char *block; /* [threads][block_each] a search's lists and scratch */
    size_t block_each, block_bytes;

    /* What a checkpoint keeps (searched_state.c), NULL until one is made. */
    uint64_t place[3];  /* 1 where the indexes are built, `startup`, `changes` */
    double last_alpha;  /* `alpha` */
    uint32_t **saved;   /* [blocks] numbers of each index */
    uint64_t *numbers;  /* [blocks] how many */
    uint32_t *changing; /* [classes] `changed` */
    char (*names)[24];  /* [blocks] */
};

/* For a model, with indexes like one that is not built. `most_labels` of a row. */
xsm_status xsmi_searcher_new(xsm_context *ctx, const xsm_index *like, const xsm_search_plan *plan,
                             const xsm_model *model, uint64_t rows, xsmi_searcher **out, xsm_error *err);
void xsmi_searcher_free(xsmi_searcher *s);
/* Examples that see classes drawn at random before the search begins. */
uint64_t xsmi_searcher_startup(const xsmi_searcher *s);
void xsmi_searcher_set_startup(xsmi_searcher *s, uint64_t examples);
/* Whether a batch that begins at that place of the run is searched. */
bool xsmi_searcher_begun(const xsmi_searcher *s, uint64_t position);
/* For whom takes no step on what was found, or one that moves every row: which rows are to be indexed anew before the
 * next search. */
void xsmi_searcher_change_none(xsmi_searcher *s);
xsm_status xsmi_searcher_change_all(xsmi_searcher *s, xsm_error *err);

/* Checkpoints (searched_state.c). Makes a copy of what has come about, and says where its tensors lie, by number. */
xsm_status xsmi_searcher_copy(xsmi_searcher *s, xsm_error *err);
bool xsmi_searcher_tensor(xsmi_searcher *s, uint32_t index, xsm_state_tensor *tensor);
/* Makes indexes from what a file has in place of that copy, data[i] of tensor i; the rows from the file's model. On
 * failure there are none. Then puts them in place of the searcher's own, or lets go of them. */
xsm_status xsmi_searcher_restore(const xsmi_searcher *s, const xsm_index *like, const xsm_model *rows,
                                 const void *const *data, xsm_index **indexes, xsm_error *err);
void xsmi_searcher_take(xsmi_searcher *s, const void *const *data, xsm_index **indexes);
/* Releases the copy. */
void xsmi_searcher_forget(xsmi_searcher *s);

#endif
