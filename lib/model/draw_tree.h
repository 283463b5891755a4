/*
 * A balanced binary tree over the classes: a distribution that depends on a row's features, in which the probability of
 * a class costs one path (Bamler and Mandt, Extreme classification via adversarial softmax approximation, 2020, section
 * 3).
 *
 * Each inner node is a logistic of a row's code: its principal components and a 1. The nodes are stored as in a heap:
 * node 1 is the root, the children of node v are 2v (left) and 2v + 1 (right), leaf i is node 2^height + i. A leaf
 * without a class is reached with probability 0 exactly: the node above it has no weights and a bias of XSMI_TREE_SURE,
 * for which the probability of the other side is 1. Only leaves can lack a class: every inner node has a class below
 * it.
 */
#ifndef XSMI_TREE_H
#define XSMI_TREE_H

#include "base/random.h"
#include "base/held.h"
#include "data/pca.h"

#include <string.h>

#define XSMI_TREE_SURE 1e4f
/* The most rows of one sweep. */
#define XSMI_TREE_ROWS XSMI_LANES

typedef struct xsmi_tree {
    xsm_context *context;
    xsmi_held held; /* the arrays */
    xsmi_pca pca;
    uint32_t classes, height; /* 2^height leaves, the smallest such number >= classes */
    uint32_t dims;            /* floats of a code: components, a 1, zeros to a multiple of 4 */
    float *nodes;             /* [2^height][dims], the first is unused */
    uint32_t *leaf_class;     /* [2^height], XSMI_NO_CLASS for a leaf without a class */
    uint32_t *class_leaf;     /* [classes] */
} xsmi_tree;

static inline size_t xsmi_tree_leaves(const xsmi_tree *t)
{
    return (size_t)1 << t->height;
}

/* Makes the arrays for that many classes and the components of a fitted t->pca. Nodes are zeros, and no leaf has a
 * class. On failure t is empty except for the pca. */
xsm_status xsmi_tree_start(xsm_context *ctx, uint32_t classes, xsmi_tree *t, xsm_error *err);
void xsmi_tree_clear(xsmi_tree *t);
/* Fills leaf_class from class_leaf; returns false unless each class has its own leaf. */
bool xsmi_tree_set_leaves(xsmi_tree *t);

/* Returns a node's score, added in four partial sums. */
static inline float xsmi_tree_node_score(const float *node, const float *code, uint32_t dims)
{
    typedef float quad __attribute__((vector_size(16)));
    quad part = {0}, a, b;
    for (size_t i = 0; i < dims; i += 4) {
        memcpy(&a, node + i, sizeof a);
        memcpy(&b, code + i, sizeof b);
        part += a * b;
    }
    return (part[0] + part[2]) + (part[1] + part[3]);
}

/* Writes a row's code, [dims]. */
void xsmi_tree_encode(const xsmi_tree *t, const xsmi_features *x, float *code);
/* Draws to make side by side, up to XSMI_TREE_ROWS. */
typedef struct xsmi_tree_draws {
    size_t count;
    const float *codes[XSMI_TREE_ROWS];
    double uniforms[XSMI_TREE_ROWS];  /* of [0, 1) */
    uint32_t classes[XSMI_TREE_ROWS]; /* the results begin here */
    double log_probabilities[XSMI_TREE_ROWS];
} xsmi_tree_draws;

/* Draws the i-th class with codes[i] and uniforms[i], independently of the others, and computes its log-probability.
 * O(k log K) each, for k components. Each probability is correct up to 2^-53 and the float roundings of a logistic; a
 * probability of 0 is exact. */
void xsmi_tree_draw(const xsmi_tree *t, const xsmi_kernels *kernels, xsmi_tree_draws *draws);
/* Returns the log-probability of a class: the sum over its path. */
double xsmi_tree_log_probability(const xsmi_tree *t, const float *code, uint32_t class);
/* Returns the number of floats of scratch, aligned to XSMI_ALIGNMENT, that a sweep needs. */
size_t xsmi_tree_scratch(const xsmi_tree *t);
/* Computes the log-probabilities of all classes for up to XSMI_TREE_ROWS rows: out[class*XSMI_LANES + row]; lanes
 * beyond the rows are undefined. O(k K) for each row, for k components. They are computed in float, so they may differ
 * from those of a path in the last bits. */
void xsmi_tree_sweep(const xsmi_tree *t, const xsmi_kernels *kernels, const float *const *codes, size_t rows,
                     float *out, float *scratch);

#endif
