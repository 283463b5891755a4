/*
 * The shape of a label tree: which labels are under which node. Nodes are numbered in breadth-first order, so that the
 * children of a node are neighbours; a leaf is a label. Labels are ordered so that those under a node are neighbours.
 *
 * Classes without rows are under one child of the root, the last, in the order of their numbers.
 */
#ifndef XSMI_LABEL_LAYOUT_H
#define XSMI_LABEL_LAYOUT_H

#include "labels/arrivals.h"
#include "base/held.h"
#include "labels/split.h"

typedef struct xsmi_layout_settings {
    uint32_t arity; /* most children of a node whose children are not labels */
    uint32_t leaf;  /* most children of a node whose children are labels, 2 at least */
    bool balanced;  /* children have about as many labels */
    uint64_t seed;
    uint32_t iterations;           /* iterations of the clustering */
    uint64_t position;             /* of the first random stream; each split has the next one */
    bool divided;                  /* the processes of the context divide the splits */
    const xsmi_arrivals *arrivals; /* the tree that grows, of whose vectors the layout is made; NULL: a new one */
} xsmi_layout_settings;

typedef struct xsmi_layout {
    xsm_context *context;
    xsmi_held held;        /* the arrays */
    uint32_t labels;       /* L, all classes */
    uint32_t seen;         /* those with rows */
    uint32_t *order;       /* [L] positions in xsmi_label_vectors.label; the first `seen` have vectors */
    uint32_t nodes;        /* with the root, node 0, and the leaves */
    uint32_t capacity;     /* of the arrays of nodes */
    uint32_t *first_child; /* [nodes+1] the children of v are first_child[v] .. first_child[v+1]-1; a leaf has none */
    uint32_t *start, *end; /* [nodes] the positions of its labels in `order` */
    uint32_t *pieces;      /* [nodes] how many nodes whose children are labels will be under it */
    uint32_t *from;        /* [nodes] of a tree that grows: the old node of each, XSMI_NO_CLASS: it is new; or NULL */
    uint32_t depth;        /* levels, the root's included */
    uint32_t level[64];    /* [depth+1] the first node of each */
} xsmi_layout;

/* Makes the layout; at least one class must have rows. The result is the same for any number of threads. */
xsm_status xsmi_layout_make(xsmi_layout *t, const xsmi_label_vectors *v, const xsmi_layout_settings *settings,
                            xsm_error *err);
void xsmi_layout_free(xsmi_layout *t);

static inline bool xsmi_layout_is_leaf(const xsmi_layout *t, uint32_t node)
{
    return t->first_child[node] == t->first_child[node + 1];
}

/* Whether the node's classifier is that of an old tree. */
static inline bool xsmi_layout_is_kept(const xsmi_layout *t, uint32_t node)
{
    return t->from && t->from[node] != XSMI_NO_CLASS;
}

/* Whether a class under the node has rows, or had some. */
static inline bool xsmi_layout_is_seen(const xsmi_layout *t, uint32_t node)
{
    return t->start[node] < t->seen;
}

#endif
