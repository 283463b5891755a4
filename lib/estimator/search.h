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

/* Searches a batch on a divided model, for memory that is reserved, and a searcher that is up to date: all ranks get
 * what one process computes. For each example and block what xsmi_index_find() sends; for each class of this rank whose
 * score the table asks for, labels included, 4 for each block. */
xsm_status xsmi_divided_search(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err);

#endif
