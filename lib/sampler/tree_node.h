/*
 * A node of a tree that is being fitted (tree_fit.c), and Newton's ascent in it (tree_newton.c).
 */
#ifndef XSMI_TREE_NODE_H
#define XSMI_TREE_NODE_H

#include "sampler/tree_fit.h"

/* Rows that go through the kernels together. */
#define XSMI_TREE_BLOCK 128

typedef struct xsmi_tree_key {
    double delta;
    uint32_t place;
} xsmi_tree_key;

/* What a node came to. */
typedef struct xsmi_tree_outcome {
    double log_likelihood;
    uint32_t steps;
    bool fitted, converged, settled;
} xsmi_tree_outcome;

typedef struct xsmi_tree_fitting {
    xsmi_tree *tree;
    const xsmi_kernels *kernels;
    const xsmi_tree_rows *rows;
    double ridge;
    uint32_t dims, used;  /* floats of a code; components and the 1 */
    uint32_t *order;      /* [classes] labels, those of a node side by side */
    uint32_t *spare;      /* [classes] the same while a node's are put in their new order */
    uint64_t *first_row;  /* [classes+1] by place in `order`: where the rows of a label begin */
    float *codes;         /* [rows][dims] in that order */
    float *sums;          /* [classes][dims] by place: sum of a label's codes */
    unsigned char *right; /* [classes] by place, 1: on the right side of its node */
    xsmi_tree_key *keys;  /* [classes] by place */
    uint32_t *bounds[2];  /* [leaves+1] places where the labels of a level's nodes begin: this level and the next */
    xsmi_tree_outcome *outcomes; /* [nodes of a level] */
    double *scratch;             /* [threads][scratch_each] of nodes */
    size_t scratch_each;
    double *chunk_sums; /* [chunks][total_length] of a node whose chunks are spread */
    uint64_t chunk;     /* rows of a chunk */
    float *blocks;      /* [threads][block_each] */
    size_t total_length, block_each;
    size_t nodes; /* of this level */
} xsmi_tree_fitting;

/* A node being fitted: its places first..first+count, and scratch. */
typedef struct xsmi_tree_node {
    const xsmi_tree_fitting *work;
    uint32_t first, count, thread;
    bool spread;             /* over the threads */
    double *w, *trial;       /* [dims] */
    double *gradient, *step; /* [dims] */
    double *hessian;         /* [used][used] the negative one's lower triangle */
    double *sums;            /* [total_length] at w; see xsmi_tree_pass() */
    double *next;            /* [total_length] at the trial point */
    double *part;            /* [total_length] of a chunk */
} xsmi_tree_node;

/* The numbers that a pass adds up. For components a, b < c and the constant 1 in the place of code c: [a*c + b] is the
 * sum of v x_a x_b, [c*c + b] that of v x_b, [(c+1)*c + b] that of g x_b, then follow those of v, of g and of the
 * log-likelihood; g = zeta sigma(-zeta s), v = sigma(s) sigma(-s). */
static inline size_t xsmi_tree_total_of_v(size_t c)
{
    return (c + 2) * c;
}

/* The sums at w over all rows of the node. */
xsm_status xsmi_tree_pass(const xsmi_tree_node *f, const double *at, double *sums, xsm_error *err);
/* Gradient and Hessian at w from the sums there, and Newton's step. Returns twice what it would gain, were the
 * objective a parabola. */
double xsmi_tree_newton(const xsmi_tree_node *f);
/* Goes along Newton's step as far as the objective climbs; *moved is false where rounding alone is left. */
xsm_status xsmi_tree_climb(xsmi_tree_node *f, bool *moved, xsm_error *err);

#endif
