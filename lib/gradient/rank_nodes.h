/*
 * The nodes of the tree of shards (shards.h) that the ranks of a divided model compute: each those that lie in its
 * classes, as few as there are. All ranks get the sums of all, and join them in the tree, to the bits of one process.
 */
#ifndef XSMI_RANK_NODES_H
#define XSMI_RANK_NODES_H

#include "base/base.h"
#include "gradient/shards.h"

/* A node whose classes are all of one rank, and whose parent's are not. */
typedef struct xsmi_rank_node {
    uint32_t shard, count, rank;
} xsmi_rank_node;

typedef struct xsmi_rank_nodes {
    xsmi_rank_node *nodes;    /* [count] of all ranks, in the order of the classes */
    size_t count, first, own; /* this rank's are own from `first` on */
} xsmi_rank_nodes;

/* Makes the nodes for so many classes, divided among the ranks of `group`. Clearing is allowed after a failure. */
xsm_status xsmi_rank_nodes_new(xsm_context *group, uint32_t classes, xsmi_rank_nodes *out, xsm_error *err);
void xsmi_rank_nodes_clear(xsm_context *group, xsmi_rank_nodes *n);
/* Adds `each` bytes for each node to the bytes of its rank: sizes[ranks]. */
void xsmi_rank_nodes_sizes(const xsmi_rank_nodes *n, size_t each, size_t *sizes);
/* Returns the place of a node among them; SIZE_MAX: there is none. */
size_t xsmi_rank_nodes_find(const xsmi_rank_nodes *n, uint32_t shard, uint32_t count);
/* The sum() of an xsmi_shard_sums whose known() knows these nodes: never called, as whoever has no node that is known
 * asks for its halves, and those of one class run are. */
bool xsmi_rank_nodes_no_sum(void *state, uint32_t first, uint32_t end, float *out, size_t stride);

#endif
