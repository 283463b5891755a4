/*
 * A hierarchy: a binary tree over the classes for hierarchical softmax (Morin and Bengio, Hierarchical probabilistic
 * neural network language model, 2005). Row i of a model's weights is the logistic of inner node i, which sends a row
 * of features to its second child, the right one, with probability sigma(w_i.x + b_i), and log p(k|x) is the sum of a
 * path. Unlike in the tree of draw_tree.h, the logistics are the model itself. Row K-1 of the weights is unused. The
 * hierarchy converts the scores (logits) of nodes to log p(k|x) of classes.
 *
 * The K-1 inner nodes are numbered in preorder. Probabilities over the classes sum to one by construction.
 */
#ifndef XSMI_HIERARCHY_H
#define XSMI_HIERARCHY_H

#include "data/dataset.h"
#include "model/class_tree.h"

/* Makes a tree that halves the classes in the given order ([classes], NULL = 0, 1, ...); if their number is odd, the
 * left half is larger. */
xsm_status xsmi_hierarchy_balanced(xsm_context *ctx, const uint32_t *order, uint32_t classes, xsmi_class_tree **out,
                                   xsm_error *err);
/* Makes the tree of least mean depth if class k has weights[k] (Huffman, A method for the construction of
 * minimum-redundancy codes, 1952). O(K log K). */
xsm_status xsmi_hierarchy_huffman(xsm_context *ctx, const uint64_t *weights, uint32_t classes, xsmi_class_tree **out,
                                  xsm_error *err);
/* Makes a tree from its inner nodes in the order in which they were merged, the root last: merged[2 i] and merged[2 i +
 * 1] are the children of node i, which are earlier nodes or XSMI_TREE_LEAF + class. Unless `made` is NULL, sets made[i]
 * to the merge that made inner node i of the tree. Sets *out to NULL if this is no binary tree over the classes. */
xsm_status xsmi_hierarchy_of_merges(xsm_context *ctx, const uint32_t *merged, uint32_t classes, uint32_t *made,
                                    xsmi_class_tree **out, xsm_error *err);
/* Makes a tree from nodes as xsmi_class_tree_new() takes them; sets *out to NULL if this is no binary tree over the
 * classes. */
xsm_status xsmi_hierarchy_new(xsm_context *ctx, const uint32_t *nodes, size_t count, uint32_t classes,
                              xsmi_class_tree **out, xsm_error *err);

/* Returns 1 for a node that is its parent's second child: as every inner node has two children, second children have
 * even numbers. */
static inline uint32_t xsmi_hierarchy_turn(uint32_t node)
{
    return (node & 1) ^ 1;
}

/* Lists the numbers of the inner nodes from a class up to the root, at most `depth`, and for each a turn: 1 if the path
 * goes to its right child. Returns how many. */
static inline uint32_t xsmi_hierarchy_path(const xsmi_class_tree *h, uint32_t class, uint32_t *inner, uint32_t *turns)
{
    uint32_t count = 0;
    for (uint32_t v = h->class_leaf[class]; v != 0; v = h->parent[v], count++) {
        inner[count] = h->number[h->parent[v]];
        turns[count] = xsmi_hierarchy_turn(v);
    }
    return count;
}

#endif
