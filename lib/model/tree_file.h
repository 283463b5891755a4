/*
 * A tree over the classes in files of models and of samplers: `tree_nodes` F32 [2^height, dims], `tree_leaves` U32 [K],
 * `tree_mean` F32 [D] and `tree_directions` F32 [D, components].
 */
#ifndef XSMI_TREE_FILE_H
#define XSMI_TREE_FILE_H

#include "base/safetensors.h"
#include "model/draw_tree.h"

#define XSMI_TREE_TENSORS 4
#define XSMI_TREE_TENSOR_NAMES "tree_nodes", "tree_leaves", "tree_mean", "tree_directions"
extern const char *const xsmi_tree_tensor_names[XSMI_TREE_TENSORS];

/* Lists the tensors of a tree, with data borrowed from it; returns their number. */
size_t xsmi_tree_tensors(const xsmi_tree *t, xsmi_tensor tensors[XSMI_TREE_TENSORS]);

/* Tensors in the file of a model or a sampler with this shape. */
typedef struct xsmi_tensor_source {
    xsm_context *context;
    const char *name; /* begins messages */
    uint32_t classes, features;
    const xsmi_tensor *tensors[XSMI_TREE_TENSORS]; /* in the order of their names; NULL if one is missing */
} xsmi_tensor_source;

/* Fills an empty tree. After a failure call xsmi_tree_clear(). */
xsm_status xsmi_tree_restore(const xsmi_tensor_source *source, xsmi_tree *t, xsm_error *err);

#endif
