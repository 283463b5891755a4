/*
 * Label trees: one or more trees over the classes with sparse weights for every node below the root. The link turns a
 * node's score into the logarithm of its probability given its parent. The log-probability of a class in a tree is the
 * sum over its path, and its score in the model is the logarithm of the mean of its probabilities in the trees (Prabhu,
 * Kag, Harsola, Agrawal and Varma, Parabel: partitioned label trees for extreme classification with application to
 * dynamic search advertising, 2018).
 *
 * With XSMI_LINK_NORMALISED, these probabilities are divided by a sum that a search finds (model/label_beam.h): nodes
 * compete with all other nodes and not only with their siblings, so that a label is not likely only because its
 * siblings suit the row even less (the label bias of Lafferty, McCallum and Pereira, Conditional random fields, 2001).
 */
#ifndef XSMI_LABEL_TREES_H
#define XSMI_LABEL_TREES_H

#include "model/class_tree.h"
#include "model/sparse_weights.h"

/* How a node's score z becomes its log-probability given its parent. */
enum {
    XSMI_LINK_LOG_SIGMOID,   /* log sigma(z): any number of children may be right */
    XSMI_LINK_SQUARED_HINGE, /* -max(0, 1 - z)^2: any number, too, after training with the squared hinge loss */
    XSMI_LINK_SOFTMAX,    /* z minus the log of the siblings' sum of e^z: one child is right, and probabilities of all
                             classes sum to one */
    XSMI_LINK_NORMALISED, /* log sigma(z): one class is right, and probabilities are divided by their sum */
    XSMI_LINKS
};
/* The links' names in files; NULL at the end. */
extern const char *const xsmi_link_names[];

/* The most trees of a model. */
#define XSMI_LABEL_TREES 64

typedef struct xsmi_label_tree {
    xsmi_class_tree *tree;
    xsmi_sparse *weights; /* chunk i has the children of the i-th inner node */
} xsmi_label_tree;

/* The trees of a model. They own a reference to the parts of each tree. */
typedef struct xsmi_label_trees {
    const xsmi_kernels *kernels;
    int32_t link;
    uint32_t count;
    uint32_t widest; /* most children of a node */
    size_t nodes;    /* of all trees */
    xsmi_label_tree tree[XSMI_LABEL_TREES];
} xsmi_label_trees;

/* Whether exactly one class is right, so that the probabilities of all classes sum to one. */
static inline bool xsmi_label_sums_to_one(const xsmi_label_trees *l)
{
    return l->link == XSMI_LINK_SOFTMAX || l->link == XSMI_LINK_NORMALISED;
}

/* Computes the log-probabilities of an inner node's children given the node, z[children], for a row of data. */
void xsmi_label_children(const xsmi_label_trees *l, uint32_t tree, uint32_t node, const xsmi_features *x, float *z);

/* Returns the logarithm of the mean of probabilities whose logarithms are p[count]. */
float xsmi_label_mean(const float *p, uint32_t count);

/* Scores chosen classes, O(depth) nodes each; `scratch` has l->widest floats. */
void xsmi_label_chosen(const xsmi_label_trees *l, const xsmi_features *x, const uint32_t *classes, size_t count,
                       float *scores, float *scratch);

/* Returns the score of a class that a search with XSMI_LINK_NORMALISED did not find. The search scored the children of
 * the nodes `opened`, those of tree t before opened_end[t]. Below the first node of the class's path that is not among
 * them, siblings are divided by their sum, so that the classes below a node add up to the node. */
float xsmi_label_outside(const xsmi_label_trees *l, const xsmi_features *x, uint32_t class, const uint32_t *opened,
                         const uint32_t *opened_end, float *scratch);

/* Whether the chunks of the weights are the children of the tree's inner nodes. */
bool xsmi_label_tree_fits(const xsmi_label_tree *t);

/* Return the number of weights that are stored, and the bytes of weights and trees. */
uint64_t xsmi_label_entries(const xsmi_label_trees *l);
uint64_t xsmi_label_bytes(const xsmi_label_trees *l);

#endif
