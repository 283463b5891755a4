/*
 * Fitting a tree over the classes to rows with labels, see tree_fit.c.
 */
#ifndef XSMI_TREE_FIT_H
#define XSMI_TREE_FIT_H

#include "model/draw_tree.h"

/* The result of a fit. */
typedef struct xsmi_tree_report {
    double log_likelihood;  /* sum over the rows taken, of every (row, label) */
    uint64_t rows;          /* (row, label) pairs taken */
    uint64_t fitted;        /* nodes with two sides */
    uint64_t steps;         /* of Newton's method with a split, over all nodes */
    uint64_t not_converged; /* nodes whose fit stopped at its limit of steps */
    uint64_t not_settled;   /* nodes that stopped moving labels at the limit of splits */
} xsmi_tree_report;

/* The rows of a fit by label. */
typedef struct xsmi_tree_rows {
    const float *codes;     /* [rows][dims] by label */
    const uint64_t *starts; /* [classes+1] the start of each label's rows */
} xsmi_tree_rows;

/* Fits nodes and leaves of a tree that xsmi_tree_start() made. `ridge` is the L2 penalty lambda_n. Runs in parallel
 * over the rows of large nodes and over the other nodes of a level, with the same bits on any number of threads and any
 * instruction set. Temporarily copies the codes. */
xsm_status xsmi_tree_fit(xsmi_tree *t, const xsmi_tree_rows *rows, double ridge, xsmi_tree_report *report,
                         xsm_error *err);

#endif
