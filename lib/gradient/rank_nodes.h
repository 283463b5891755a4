/*
 * The nodes of the tree of shards (shards.h) that the processes of a divided model compute: each the fewest nodes that
 * cover its classes. All processes get the sums of all nodes and join them in the tree, with the bits of one process.
 */
#ifndef XSMI_RANK_NODES_H
#define XSMI_RANK_NODES_H

#include "base/base.h"
#include "gradient/shards.h"

/* A node whose classes all belong to one process, while its parent's do not. */
typedef struct xsmi_rank_node {
    uint32_t shard, count, rank;
} xsmi_rank_node;

typedef struct xsmi_rank_nodes {
    xsmi_rank_node *nodes;    /* [count] of all processes, in the order of the classes */
    size_t count, first, own; /* those of this process are `own` nodes from `first` on */
} xsmi_rank_nodes;

/* Makes the nodes for so many classes, divided among the processes of `group`. Clearing is allowed after a failure. */
xsm_status xsmi_rank_nodes_new(xsm_context *group, uint32_t classes, xsmi_rank_nodes *out, xsm_error *err);
void xsmi_rank_nodes_clear(xsm_context *group, xsmi_rank_nodes *n);
/* Adds `each` bytes for each node to the bytes of its process: sizes[ranks]. */
void xsmi_rank_nodes_sizes(const xsmi_rank_nodes *n, size_t each, size_t *sizes);
/* Returns the position of a node in the list; SIZE_MAX: it is not there. */
size_t xsmi_rank_nodes_find(const xsmi_rank_nodes *n, uint32_t shard, uint32_t count);
/* A sum() for an xsmi_shard_sums whose known() knows these nodes. It is never called: the tree is descended until a
 * node is known, and every node of one class run is. */
bool xsmi_rank_nodes_no_sum(void *state, uint32_t first, uint32_t end, float *out, size_t stride);

#endif
