/*
 * Sparse weights in a model's file. A linear model has `indptr` U64 [chunks+1, 4], where each chunk's entries, columns,
 * blocks and rows begin, with 2^32 times the chunk's shift added to the row; `values` F32 [entries], or of another kind
 * (weight_kinds.h), then with `values_scale` F32 [rows] if that has factors; `blocks` U32 [blocks, 2]; `columns` U16
 * [columns, 2]; `indices` U8 or U16 [entries] (sparse_weights.h). In a label tree model, the names of tree t begin with
 * "tree<t>.", and each tree also has `nodes` U32 [nodes] (class_tree.h), `bias` F32 [nodes-1], if it has biases, and
 * `scales` F32 [levels, 2], which only growth reads.
 */
#ifndef XSMI_SPARSE_FILE_H
#define XSMI_SPARSE_FILE_H

#include "base/safetensors.h"
#include "model/model.h"

/* The tensors of sparse weights, and the nodes of a tree. */
enum {
    XSMI_SPARSE_PLACES,
    XSMI_SPARSE_VALUES,
    XSMI_SPARSE_FACTORS,
    XSMI_SPARSE_BIAS,
    XSMI_SPARSE_SCALES,
    XSMI_SPARSE_BLOCKS,
    XSMI_SPARSE_NODES,
    XSMI_SPARSE_COLUMNS,
    XSMI_SPARSE_INDICES,
    XSMI_SPARSE_NAMES /* how many names there are */
};

/* Tensors with their data and names, those of larger elements first. */
typedef struct xsmi_sparse_tensors {
    xsm_context *context;
    xsmi_tensor *tensors; /* [capacity] */
    char (*names)[32];    /* [capacity] */
    size_t count, capacity;
} xsmi_sparse_tensors;

/* Lists the tensors of a model; none if its weights are dense. */
xsm_status xsmi_sparse_list(const xsm_model *m, xsmi_sparse_tensors *list, xsm_error *err);
/* Lists the tensors of linear weights (NULL: none), and of `count` label trees, of which the last may have no tree
 * yet. */
xsm_status xsmi_sparse_list_trees(xsm_context *ctx, const xsmi_sparse *linear, const xsmi_label_tree *trees,
                                  uint32_t count, xsmi_sparse_tensors *list, xsm_error *err);
/* Returns which tensor of linear weights or of a tree a name belongs to; XSMI_SPARSE_NAMES: none. */
int xsmi_sparse_which(const char *name);
/* Frees a list, and leaves it empty. */
void xsmi_sparse_list_free(xsmi_sparse_tensors *list);
/* Whether a file has sparse weights. */
bool xsmi_sparse_in_file(const xsmi_container *file);

/* Metadata: D; the number of trees of a label tree model and their link, such as "3 softmax". */
#define XSMI_KEY_SPARSE_FEATURES "sparse_features"
#define XSMI_KEY_LABEL_TREES "label_trees"
#define XSMI_LABEL_TREES_TEXT 32
void xsmi_label_trees_describe(const xsmi_label_trees *l, char text[XSMI_LABEL_TREES_TEXT]);

/* Reads tree `tree` of a file, over the file's memory: its weights and, if the file has its nodes, its tree over
 * *classes classes, which tree 0 sets. On failure *out is empty. */
xsm_status xsmi_sparse_read_tree(xsm_context *ctx, const xsmi_container *file, const char *name, uint32_t features,
                                 int tree, uint32_t *classes, xsmi_label_tree *out, xsm_error *err);

/* A source of tensors: find() returns a tensor of `where`, a container or a list, by its name. */
typedef struct xsmi_tensor_list {
    const xsmi_tensor *(*find)(const void *where, const char *name);
    const void *where;
    const char *name; /* for messages */
} xsmi_tensor_list;
xsm_status xsmi_sparse_find_tree(xsm_context *ctx, const xsmi_tensor_list *tensors, uint32_t features, int tree,
                                 uint32_t *classes, xsmi_label_tree *out, xsm_error *err);
/* Copies the weights of a tree that was read to memory of its own. */
xsm_status xsmi_sparse_own_tree(xsm_context *ctx, xsmi_label_tree *tree, xsm_error *err);

/* Makes a model whose sparse weights or trees are in the container's memory, with its features and classes. */
xsm_status xsmi_sparse_model_read(xsm_context *ctx, const xsmi_container *file, const char *name, xsm_model **out,
                                  xsm_error *err);

#endif
