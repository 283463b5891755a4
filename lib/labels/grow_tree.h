/*
 * Trains one label tree: the layout's shape, the classifiers of all nodes, and the weights and the tree as the model
 * stores them.
 */
#ifndef XSMI_GROW_TREE_H
#define XSMI_GROW_TREE_H

#include "labels/checkpoint.h"
#include "labels/layout.h"
#include "labels/node.h"

/* How scores of nodes become probabilities (model/label_trees.h). */
enum { XSMI_GROW_SIGMOID, XSMI_GROW_SOFTMAX, XSMI_GROW_PLAIN };

typedef struct xsmi_grow_settings {
    xsmi_layout_settings layout;
    xsmi_node_settings node;
    bool divided;  /* the processes of the context fit the tree together: each trains some of the nodes */
    uint32_t beam; /* width of each row's beam search, which finds negatives; 0 = none */
    const xsmi_arrivals *arrivals; /* the tree that grows, with `beam` 0 and not `divided`; NULL: a new one */
    int32_t calibrate;             /* an XSMI_GROW_* value; the weights are scaled so that the link is right */
} xsmi_grow_settings;

typedef struct xsmi_grow_times {
    double clustering, training; /* seconds */
    uint64_t trained;            /* nodes whose children were trained, some or all */
} xsmi_grow_times;

/* Makes a tree and its weights from rows with at least one label; the caller releases both. Continues what the
 * checkpoint resumes, and writes checkpoints. If it is divided and fails, the processes may not have agreed on the
 * failure yet: call xsmi_agree_once(). */
xsm_status xsmi_label_grow(const xsmi_label_vectors *v, const xsm_dataset *data, const xsmi_grow_settings *settings,
                           xsmi_fit_checkpoint *checkpoint, xsmi_label_tree *out, xsmi_grow_times *times,
                           xsm_error *err);

#endif
