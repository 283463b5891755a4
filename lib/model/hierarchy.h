/*
 * A binary tree over the classes for hierarchical softmax (Morin and Bengio, Hierarchical probabilistic neural network
 * language model, 2005): row i of a model's weights is the logistic of inner node i, which sends a row of features to
 * the right with probability sigma(w_i.x + b_i), and log p(k|x) is the sum of a path. Unlike in the tree of tree.h, its
 * logistics are the model itself. Row K-1 of the weights is unused. The hierarchy converts the scores (logits) of
 * nodes to log p(k|x) of classes. It never changes once made and is reference-counted.
 *
 * The K-1 inner nodes are numbered in preorder: node 0 is the root; a node's subtrees follow it, the left one first.
 * Probabilities over the classes sum to one by construction.
 */
#ifndef XSMI_HIERARCHY_H
#define XSMI_HIERARCHY_H

#include "base/counted.h"
#include "base/safetensors.h"
#include "data/dataset.h"

/* Marks a child that is a class, not a node. */
#define XSMI_LEAF UINT32_C(0x80000000)

typedef struct xsmi_hierarchy {
    xsm_context *context;
    xsmi_holders holders;
    uint32_t classes, nodes; /* nodes = classes - 1, at least 1 */
    uint32_t depth;          /* of the lowest class */
    uint32_t *children;      /* [nodes][2] left and right: a node, or XSMI_LEAF + class */
    uint32_t *above;         /* [nodes] 2 * parent + (1 for a right child); none for the root */
    uint32_t *above_class;   /* [classes] the same for the classes */
} xsmi_hierarchy;

/* Halves the classes in the given order ([classes], NULL = 0, 1, ...); an odd one goes to the left. */
xsm_status xsmi_hierarchy_balanced(xsm_context *ctx, const uint32_t *order, uint32_t classes, xsmi_hierarchy **out,
                                   xsm_error *err);
/* The tree of least mean depth where class k has weights[k] (Huffman, A method for the construction of
 * minimum-redundancy codes, 1952). O(K log K). */
xsm_status xsmi_hierarchy_huffman(xsm_context *ctx, const uint64_t *weights, uint32_t classes, xsmi_hierarchy **out,
                                  xsm_error *err);
/* From a copy of children in preorder, as in a file; NULL if they are no tree over the classes. */
xsm_status xsmi_hierarchy_from_children(xsm_context *ctx, const uint32_t *children, uint32_t classes,
                                        xsmi_hierarchy **out, xsm_error *err);
xsmi_hierarchy *xsmi_hierarchy_retain(xsmi_hierarchy *h);
void xsmi_hierarchy_release(xsmi_hierarchy *h);

/* In a model's file: `hierarchy` U32 [K-1, 2], the children of its nodes in preorder: below 2^31 a node, else 2^31 + a
 * class (hierarchy_file.c). */
#define XSMI_HIERARCHY_TENSOR "hierarchy"
xsmi_tensor xsmi_hierarchy_tensor(const xsmi_hierarchy *h);
/* Reads the hierarchy of a model; NULL if the file has none. */
xsm_status xsmi_hierarchy_read(xsm_context *ctx, const xsmi_container *file, const char *name, uint32_t classes,
                               xsmi_hierarchy **out, xsm_error *err);

/* The nodes from a class up to the root, at most `depth`. Returns how many. */
static inline uint32_t xsmi_hierarchy_path(const xsmi_hierarchy *h, uint32_t class, uint32_t *nodes)
{
    uint32_t count = 0, at = h->above_class[class];
    for (; at / 2 != 0; at = h->above[at / 2]) {
        nodes[count++] = at / 2;
    }
    nodes[count++] = 0;
    return count;
}

/* A sweep over the nodes in their order, for the log-probabilities of all classes of up to XSMI_LANES rows. */
typedef struct xsmi_hierarchy_sweep {
    const xsmi_hierarchy *tree;
    const xsmi_kernels *kernels;
    float *out;    /* [classes][XSMI_LANES] result */
    float *stack;  /* [xsmi_hierarchy_stack()] */
    uint32_t node; /* the next */
    size_t height; /* of the stack */
} xsmi_hierarchy_sweep;

/* Floats of a sweep's stack, aligned to XSMI_ALIGNMENT. */
size_t xsmi_hierarchy_stack(const xsmi_hierarchy *h);
/* Starts at the root; out and stack are set. */
void xsmi_hierarchy_start_sweep(xsmi_hierarchy_sweep *s);
/* Consumes the scores [count][XSMI_LANES] of the next nodes; scores beyond the last node are ignored. */
void xsmi_hierarchy_consume(xsmi_hierarchy_sweep *s, const float *scores, uint32_t count);

#endif
