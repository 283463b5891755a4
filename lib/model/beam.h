/*
 * Beam search in a tree over the classes: going down from the root, it keeps the most probable nodes of each level.
 */
#ifndef XSMI_BEAM_H
#define XSMI_BEAM_H

#include "model/draw_tree.h"

/* A node with the parts of its log-probability, -(sum + log product), which are summed as in
 * xsmi_tree_log_probability(). */
typedef struct xsmi_beam_node {
    double log_q, product, sum;
    uint64_t node;
} xsmi_beam_node;

/* Returns the number of nodes of scratch for a beam of that width. */
static inline size_t xsmi_beam_nodes(uint32_t width)
{
    return 3 * (size_t)width;
}

/* Finds up to `width` classes, in no order, with log-probabilities that have the same bits as those of
 * xsmi_tree_log_probability(). A beam of K or more finds every class. Returns their number: the smaller of `width` and
 * K. O(width c log K) for codes of c floats. */
uint32_t xsmi_tree_beam(const xsmi_tree *t, const float *code, uint32_t width, xsmi_beam_node *scratch,
                        uint32_t *classes, double *log_q);

#endif
