/*
 * Trains one label tree: the layout's shape, the classifiers of all nodes, and the weights and the tree as the model
 * stores them.
 */
#ifndef XSMI_LABEL_GROW_H
#define XSMI_LABEL_GROW_H

#include "labels/checkpoint.h"
#include "labels/layout.h"
#include "labels/node.h"

/* What scores of nodes become (model/label_trees.h). */
enum { XSMI_GROW_SIGMOID, XSMI_GROW_SOFTMAX, XSMI_GROW_PLAIN };

typedef struct xsmi_grow_settings {
    xsmi_layout_settings layout;
    xsmi_node_settings node;
    bool divided;      /* the ranks of the context fit the tree together: each trains some of the nodes */
    uint32_t beam;     /* nodes of a level that each row's search goes on with, for negatives; 0 = none */
    int32_t calibrate; /* an XSMI_GROW_* value; the weights are scaled so that the link is right */
} xsmi_grow_settings;

typedef struct xsmi_grow_times {
    double clustering, training; /* seconds */
} xsmi_grow_times;

/* Makes a tree and its weights from rows with at least one label; the caller releases both. Goes on with what the
 * checkpoint resumes, and writes it. Where it is divided, a rank that fails between two agreements has not agreed on it
 * yet: xsmi_agree_once(). */
xsm_status xsmi_label_grow(const xsmi_label_vectors *v, const xsm_dataset *data, const xsmi_grow_settings *settings,
                           xsmi_fit_checkpoint *checkpoint, xsmi_label_tree *out, xsmi_grow_times *times,
                           xsm_error *err);

#endif
