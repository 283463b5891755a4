/*
 * A node of a tree during its fit and Newton's ascent in it (tree_fit.c).
 */
#ifndef XSMI_TREE_NODE_H
#define XSMI_TREE_NODE_H

#include "sampler/tree_fit.h"

/* Rows of one call of the kernels. */
#define XSMI_TREE_BLOCK 128

typedef struct xsmi_tree_key {
    double delta;
    uint32_t position;
} xsmi_tree_key;

/* The result of a node. */
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
    uint32_t *order;      /* [classes] labels, those of a node contiguous */
    uint32_t *spare;      /* [classes] scratch for reordering a node's labels */
    uint64_t *first_row;  /* [classes+1] by position in `order`: the start of a label's rows */
    float *codes;         /* [rows][dims] in that order */
    float *sums;          /* [classes][dims] by position: sum of a label's codes */
    unsigned char *right; /* [classes] by position, 1: on the right side of its node */
    xsmi_tree_key *keys;  /* [classes] by position */
    uint32_t *bounds[2];  /* [leaves+1] positions where the labels of a level's nodes begin: this level and the next */
    xsmi_tree_outcome *outcomes; /* [nodes of a level] */
    double *scratch;             /* [threads][scratch_each] of nodes */
    size_t scratch_each;
    double *chunk_sums; /* [chunks][total_length] of a node whose chunks are spread over the threads */
    uint64_t chunk;     /* rows of a chunk */
    float *blocks;      /* [threads][block_each] */
    size_t total_length, block_each;
    size_t nodes; /* of this level */
} xsmi_tree_fitting;

/* A node being fitted: its positions first..first+count, and scratch. */
typedef struct xsmi_tree_node {
    const xsmi_tree_fitting *work;
    uint32_t first, count, thread;
    bool spread;             /* over the threads */
    double *w, *trial;       /* [dims] */
    double *gradient, *step; /* [dims] */
    double *hessian;         /* [used][used] the lower triangle of the negative Hessian */
    double *sums;            /* [total_length] at w; see xsmi_tree_pass() */
    double *next;            /* [total_length] at the trial point */
    double *part;            /* [total_length] of a chunk */
} xsmi_tree_node;

/* The layout of a pass's sums. For components a, b < c and the constant 1 as component c: [a*c + b] is the sum of v x_a
 * x_b, [c*c + b] of v x_b, [(c+1)*c + b] of g x_b. Then follow the sums of v, of g and of the log-likelihood; g = zeta
 * sigma(-zeta s), v = sigma(s) sigma(-s). */
static inline size_t xsmi_tree_total_of_v(size_t c)
{
    return (c + 2) * c;
}

/* Computes the sums at w over all rows of the node. */
xsm_status xsmi_tree_pass(const xsmi_tree_node *f, const double *at, double *sums, xsm_error *err);
/* Gradient and Hessian at w from the sums there, and Newton's step. Returns twice the gain that a parabola would
 * have. */
double xsmi_tree_newton(const xsmi_tree_node *f);
/* Moves along Newton's step as far as the objective increases; *moved is false if only rounding errors remain. */
xsm_status xsmi_tree_climb(xsmi_tree_node *f, bool *moved, xsm_error *err);

#endif
