/*
 * A tree over the classes whose nodes have any number of children, as label trees have it: every class is one leaf.
 * Nodes are numbered level by level: node 0 is the root, and the children of a node are neighbours. It never changes
 * once made and is reference-counted.
 *
 * Where weights belong to a tree, row v - 1 of them is that of node v, and chunk i has the children of the i-th inner
 * node (sparse.h).
 */
#ifndef XSMI_CLASS_TREE_H
#define XSMI_CLASS_TREE_H

#include "base/base.h"
#include "base/counted.h"
#include "base/safetensors.h"

/* Marks a node that is a class. */
#define XSMI_TREE_LEAF UINT32_C(0x80000000)
/* Most children of a node. */
#define XSMI_TREE_CHILDREN 65535

typedef struct xsmi_class_tree {
    xsm_context *context;
    xsmi_holders holders;
    uint32_t classes, nodes, inner;
    uint32_t depth;        /* steps from the root to the lowest leaf, at least 1 */
    uint32_t widest;       /* most children of a node */
    uint32_t *made;        /* [nodes] as it was made: number of children, or XSMI_TREE_LEAF + class */
    uint32_t *first_child; /* [nodes+1] the children of node v: first_child[v] .. first_child[v+1]-1; none of a leaf */
    uint32_t *parent;      /* [nodes]; 0 for the root */
    uint32_t *chunk;       /* [nodes] of an inner node, its number among the inner nodes; unused for a leaf */
    uint32_t *class_leaf;  /* [classes] its node */
} xsmi_class_tree;

/* A tree from the number of children of each node, level by level, or XSMI_TREE_LEAF + the class of a leaf. Sets *out
 * to NULL if that is no tree in which each class is one leaf. O(nodes) */
xsm_status xsmi_class_tree_new(xsm_context *ctx, const uint32_t *nodes, size_t count, uint32_t classes,
                               xsmi_class_tree **out, xsm_error *err);
xsmi_class_tree *xsmi_class_tree_retain(xsmi_class_tree *t);
void xsmi_class_tree_release(xsmi_class_tree *t);

static inline bool xsmi_class_tree_is_leaf(const xsmi_class_tree *t, uint32_t node)
{
    return t->made[node] & XSMI_TREE_LEAF;
}
static inline uint32_t xsmi_class_tree_class(const xsmi_class_tree *t, uint32_t leaf)
{
    return t->made[leaf] & ~XSMI_TREE_LEAF;
}

#endif
