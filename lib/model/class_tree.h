/*
 * A tree over the classes, in which every class is one leaf. Label trees, whose nodes have any number of children, and
 * hierarchies, which are binary (hierarchy.h), use it. Nodes are numbered level by level: node 0 is the root, and the
 * children of a node are neighbours. Inner nodes also have numbers among themselves. A tree never changes once made and
 * is reference-counted.
 *
 * The weights of a label tree belong to its nodes below the root: row v - 1 is that of node v, and chunk i has the
 * children of inner node i (sparse_weights.h). The weights of a hierarchy belong to its inner nodes: row i is that of
 * inner node i.
 *
 * In a model's file, `nodes` U32 is the array `made`; tree t of a label tree model has "tree<t>.nodes".
 */
#ifndef XSMI_CLASS_TREE_H
#define XSMI_CLASS_TREE_H

#include "base/base.h"
#include "base/counted.h"
#include "base/held.h"
#include "base/safetensors.h"

/* Marks a node that is a class. */
#define XSMI_TREE_LEAF UINT32_C(0x80000000)
/* The most children that a node may have. */
#define XSMI_TREE_CHILDREN 65535
/* The most steps from the root to a leaf: some code takes time quadratic in them. Huffman trees have at most 31 +
 * log(2^64) / log(golden ratio) < 124 steps. */
#define XSMI_TREE_DEPTH 256
/* The tensor of a tree in files. */
#define XSMI_TREE_TENSOR "nodes"

/* How inner nodes are numbered. */
typedef enum xsmi_tree_order {
    XSMI_TREE_BY_LEVEL, /* like all nodes: for searches that go down level by level */
    XSMI_TREE_PREORDER  /* the subtrees follow their node in order: for sweeps, which then need memory for one path
                           only */
} xsmi_tree_order;

typedef struct xsmi_class_tree {
    xsm_context *context;
    xsmi_held held; /* the arrays */
    xsmi_holders holders;
    uint32_t classes, nodes, inner;
    uint32_t depth;        /* steps from the root to the lowest leaf, at least 1 */
    uint32_t widest;       /* most children of a node */
    uint32_t *made;        /* [nodes] what it was made from: the number of children, or XSMI_TREE_LEAF + class */
    uint32_t *first_child; /* [nodes+1] the children of node v: first_child[v] .. first_child[v+1]-1; a leaf has none */
    uint32_t *parent;      /* [nodes]; 0 for the root */
    uint32_t *number;      /* [nodes] an inner node's number among the inner nodes; unused for a leaf */
    uint32_t *inner_node;  /* [inner] the node with that number */
    uint32_t *class_leaf;  /* [classes] the node of each class */
} xsmi_class_tree;

/* Makes a tree from `nodes`: level by level, each node's number of children, or XSMI_TREE_LEAF + class for a leaf. Sets
 * *out to NULL if that is no tree in which each class is one leaf, at most XSMI_TREE_DEPTH steps below the root.
 * O(nodes) */
xsm_status xsmi_class_tree_new(xsm_context *ctx, const uint32_t *nodes, size_t count, uint32_t classes,
                               xsmi_tree_order order, xsmi_class_tree **out, xsm_error *err);
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
