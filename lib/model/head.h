/*
 * The head of a model turns the scores (logits) of the rows of weights into the scores of the classes. A model without
 * a head has a row for each class, and the row's score is the class's.
 *
 * A correction adds to the scores of the weights. If training drew classes from p_n and learnt log p(k|x) - log
 * p_n(k|x) + const (Bamler and Mandt 2020, eq. 5), it adds log p_n(k|x); another correction adds the values of pairs of
 * a feature and a class. Hierarchies and label trees compute the scores of classes from those of nodes. The head is
 * part of the model: scores from the tiles and from the public interface include it.
 *
 * It never changes once made and is reference-counted.
 */
#ifndef XSMI_HEAD_H
#define XSMI_HEAD_H

#include "base/counted.h"
#include "base/safetensors.h"
#include "model/calibration.h"
#include "model/label_trees.h"
#include "model/tile.h"
#include "model/tree_file.h"

#include <xsoftmax/model.h>

typedef struct xsmi_head xsmi_head;
struct xsmi_tile_call;
struct xsmi_model_row;

/* The most tensors of a head. */
#define XSMI_HEAD_TENSORS XSMI_TREE_TENSORS

/* The functions of a head whose rows of weights belong to the nodes of trees over the classes. */
typedef struct xsmi_head_of_nodes {
    /* Computes the scores of chosen classes of a row; `scratch` has the head's `code` floats. */
    void (*chosen)(const xsm_model *m, const struct xsmi_model_row *row, const uint32_t *classes, size_t count,
                   float *scores, float *scratch);
    /* What xsmi_tiles_scratch() and xsmi_tiles_score() do for such a model. */
    size_t (*scratch)(const xsm_model *m, bool sparse, size_t blocks);
    void (*score)(const struct xsmi_tile_call *call, void *scratch);
    /* The usual width of the beam that searches the classes (label_beam.h); 0: none does. */
    uint32_t beam;
    /* The reason, for messages, why such models cannot have XSM_LINK_SIGMOID. */
    const char *why_softmax;
    /* Refuses a calibration that the head's scores cannot have. */
    xsm_status (*check_calibration)(const xsmi_head *h, int32_t method, xsm_error *err);
} xsmi_head_of_nodes;

/* A kind of head: one file, which ends in its table, and one line in XSMI_HEADS if files name it. */
typedef struct xsmi_head_kind {
    int32_t number;        /* xsm_model_info::correction */
    const char *name;      /* in files and messages */
    const char *described; /* for messages: "scores made with ..." */
    size_t size;           /* of the struct, whose first member is an xsmi_head */
    bool drawn; /* from the sampler of the training, whose estimator learns with it; otherwise counted in rows */
    const xsmi_head_of_nodes *nodes; /* NULL: a correction, which has chosen(), prepare() and tile() */
    /* Releases what the struct holds. */
    void (*clear)(xsmi_head *c);
    /* Adds the correction to the scores of chosen classes of a row. `scratch` has c->code floats. */
    void (*chosen)(const xsmi_head *c, const xsmi_features *x, const uint32_t *classes, size_t count, float *scores,
                   float *scratch);
    /* Computes what the tiles of a block of rows need, in c->block bytes; NULL if they need nothing. */
    void (*prepare)(const xsmi_head *c, const xsmi_kernels *kernels, const xsmi_features *rows, size_t count,
                    void *prepared);
    /* Adds the correction to a tile of that block. */
    void (*tile)(const xsmi_head *c, const xsmi_tile *tile, const xsmi_features *rows, size_t count,
                 const void *prepared, float *scores);
    /* The names of its tensors in a model's file; NULL at the end. A kind without save() cannot be saved. */
    const char *const *tensor_names;
    /* Lists the tensors with their data; returns their number. */
    size_t (*save)(const xsmi_head *c, xsmi_tensor *tensors);
    xsm_status (*load)(const xsmi_tensor_source *source, xsmi_head **out, xsm_error *err);
} xsmi_head_kind;

/* All kinds that files name (model_load.c). */
#define XSMI_HEADS(X)                                                                                                  \
    X(xsmi_classes_head)                                                                                               \
    X(xsmi_tree_head)                                                                                                  \
    X(xsmi_pairs_head)                                                                                                 \
    X(xsmi_hierarchy_head)

#define XSMI_DECLARE(kind) extern const xsmi_head_kind kind;
XSMI_HEADS(XSMI_DECLARE)
#undef XSMI_DECLARE

struct xsmi_head {
    const xsmi_head_kind *kind;
    xsm_context *context;
    xsmi_holders holders;
    uint32_t classes;
    size_t code, block;               /* scratch of chosen(), in floats, and of prepare(), in bytes */
    const float *numbers;             /* [classes] if the correction is one number per class, which an index can search;
                                         or NULL */
    const xsmi_tree *tree;            /* if it has a tree, which finds classes; or NULL */
    const xsmi_class_tree *hierarchy; /* if rows of weights are those of its inner nodes; or NULL */
    const xsmi_label_trees *labels;   /* if it is one of label trees; or NULL */
};

/* Makes a head of a kind: kind->size bytes, with zeros after the first member. */
xsm_status xsmi_head_new(xsm_context *ctx, const xsmi_head_kind *kind, uint32_t classes, xsmi_head **out,
                         xsm_error *err);
xsmi_head *xsmi_head_retain(xsmi_head *h);
void xsmi_head_release(xsmi_head *h);

/* Makes a correction by one number per class, [classes], which are finite and copied. */
xsm_status xsmi_correction_of_classes(xsm_context *ctx, const float *log_q, uint32_t classes, xsmi_head **out,
                                      xsm_error *err);
/* Makes a correction by a tree, whose contents are moved: `tree` is left empty. */
xsm_status xsmi_correction_of_tree(xsm_context *ctx, xsmi_tree *tree, xsmi_head **out, xsm_error *err);
/* Makes the head of a hierarchy, to which it takes a reference. (hierarchy.c) */
xsm_status xsmi_head_of_hierarchy(xsmi_class_tree *tree, xsmi_head **out, xsm_error *err);
/* Makes such a head, and sets it in a model. */
xsm_status xsmi_model_set_hierarchy(xsm_model *m, xsmi_class_tree *tree, xsm_error *err);

#endif
