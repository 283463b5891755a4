/* The steps of a search in the clusters of the spherical index (spherical_query.c). */
#ifndef XSMI_SPHERICAL_SEARCH_H
#define XSMI_SPHERICAL_SEARCH_H

#include "base/arena.h"
#include "index/spherical.h"

/* Marks a list that takes rows as they come, each cluster's rows in their own range. */
#define XSMI_AS_THEY_COME UINT32_MAX

typedef struct xsmi_sphere_arrays {
    float *tile;           /* [XSM_INDEX_QUERIES][XSMI_LANES] scores of some rows or centres */
    float *queries;        /* [XSM_INDEX_QUERIES][quads][XSMI_LINE] in the layout of the kernel for clusters */
    float *ranks;          /* [XSM_INDEX_QUERIES][C] products with the centres */
    float *best;           /* [C/RUN + 1] */
    uint32_t *chosen;      /* [XSM_INDEX_QUERIES][C] clusters of each query */
    uint32_t *counts;      /* [XSM_INDEX_QUERIES] */
    uint32_t *ends;        /* [C] end of the query list of each probed cluster */
    uint64_t *probed;      /* [C/64 + 1] a bit each cluster */
    uint32_t *probes;      /* [C] clusters that any query probes */
    uint32_t *probers;     /* [XSM_INDEX_QUERIES][C] queries by cluster */
    uint32_t *filled;      /* [XSM_INDEX_QUERIES] rows in a list that keeps the best rows, or XSMI_AS_THEY_COME */
    uint32_t *list_starts; /* [XSM_INDEX_QUERIES][C] parallel to `probers`: the start of a cluster's rows in the query's
                              list */
} xsmi_sphere_arrays;

/* A search for a block of queries. */
typedef struct xsmi_sphere_search {
    const xsmi_sphere *sphere;
    const xsm_index_block *block;
    xsmi_sphere_arrays scratch;
    uint64_t rows;     /* that the clusters of a query hold, at least */
    bool all;          /* nothing is selected: lists take rows as they come */
    uint32_t from, to; /* the queries whose rows are scored now */
    /* Over ranks, for `all`, else NULL: the scores of the rows that each query probes, cluster by cluster as chosen;
     * query i's are entries[starts[i]..starts[i] + block->probed[i]). */
    float *entries;
    const size_t *starts;
} xsmi_sphere_search;

/* Divides the memory of a search, of xsmi_sphere_scratch() bytes, or counts it. */
xsmi_sphere_arrays xsmi_sphere_divide_scratch(const xsmi_sphere *s, xsmi_arena *arena);
/* The products of all queries with the centres; then the clusters of a query, and the length of its list. */
void xsmi_sphere_rank_centres(const xsmi_sphere_search *q);
void xsmi_sphere_choose_for(const xsmi_sphere_search *q, uint32_t query);
/* Writes each group of four numbers of the queries four times. */
void xsmi_sphere_spread_queries(const xsmi_sphere_search *q);
/* Scores the rows of the chosen clusters; false if the call was cancelled. */
bool xsmi_sphere_probe(const xsmi_sphere_search *q);

#endif
