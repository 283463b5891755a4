/* What searches of all classes in one process share with those of a divided model (queries.c, search.c,
 * divided_search.c). */
#ifndef XSMI_ESTIMATOR_SEARCH_H
#define XSMI_ESTIMATOR_SEARCH_H

#include "estimator/pass.h"

/* The examples first..first+count of a batch, whose queries are made and run together. */
typedef struct xsmi_query_job {
    const xsmi_pass *pass;
    xsmi_searcher *searcher;
    uint64_t first;
    uint32_t count;
    uint32_t pieces;    /* number of pieces of the queries, for more threads than blocks */
    xsm_status *status; /* [pieces][blocks]; of lists that grow [count] */
    xsm_error *errors;  /* the same */
} xsmi_query_job;

/* The query of example first + i for an index. */
void xsmi_query_make(const xsmi_query_job *job, const xsmi_block_index *p, uint32_t i, float *query);

/* B z_kj of a class of the searcher's model and query number i, for all blocks. */
void xsmi_query_shares(const xsmi_searcher *s, size_t i, uint32_t class, float *shares);

/* What search() gets of an example of the batch, without what was found and what scores. */
xsm_search_block xsmi_search_block_of(const xsmi_pass *p, uint64_t example, uint32_t thread);
/* Completes the coefficients that search() has written. */
void xsmi_search_finish(const xsmi_pass *p, const xsm_search_block *block, xsmi_outcome *outcome);

/* -- lists that grow, on a divided model (growing.c) --------------------------------------------------------------- */

/* What is known of a list: its first classes. */
typedef struct xsmi_known_list {
    uint32_t *classes; /* [length] */
    float *scores;     /* the same */
    size_t class_capacity, score_capacity;
    uint32_t length;
    bool ended; /* the index has no others */
} xsmi_known_list;

/* The lists of some examples, of which all ranks know the same. */
typedef struct xsmi_growing {
    xsmi_searcher *searcher;
    size_t examples;        /* at most, at least 1; 0: lists do not grow */
    xsmi_known_list *lists; /* [examples][blocks] */
    uint32_t *wanted;       /* [examples] classes by which a list must grow; 0: none must */
    uint32_t *of;           /* [examples] the block of that list */
    size_t stride;          /* from cursor to cursor of searcher->results.cursors [blocks][examples] */
    float *queries;         /* [examples][query_stride] of lists that grow together */
    uint32_t *classes;      /* what they grow by */
    float *scores;          /* the same */
    size_t class_capacity, score_capacity;
} xsmi_growing;

/* Of up to so many examples; `g` stays empty if lists do not grow. To be freed after a failure, too. */
xsm_status xsmi_growing_new(xsmi_searcher *s, size_t examples, xsmi_growing *g, xsm_error *err);
void xsmi_growing_free(xsmi_growing *g);
/* Begins the lists of an example anew. */
void xsmi_growing_begin(const xsmi_growing *g, size_t example);
/* xsm_search_block.next() of an example, whose lists are shown in `shown`: *found is what it returns. False if what is
 * asked for is not known yet, and is wanted from now on. */
bool xsmi_growing_next(const xsmi_growing *g, size_t example, const xsmi_growing_lists *shown, uint32_t j,
                       uint32_t count, uint32_t *found);
/* Lets lists grow by what is wanted, on all ranks, which are well. xsmi_index_find_next() of each. */
xsm_status xsmi_growing_extend(xsmi_growing *g, uint32_t count, xsm_error *err);

/* -- searches on a divided model (divided_search.c) ---------------------------------------------------------------- */

/* Searches a batch on a divided model, for memory that is reserved, and a searcher that is up to date: all ranks get
 * what one process computes. For each example and block what xsmi_index_find() sends, or
 * where lists grow xsmi_index_find_next(); for each class of this rank whose
 * score the table asks for, labels included, 4 for each block. */
xsm_status xsmi_divided_search(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err);

#endif
