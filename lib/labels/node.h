/*
 * The classifiers of a node's children: gathers the node's rows, renumbers their features if they are few, trains one
 * child against the rest for groups of children, and keeps the weights that are not too small.
 */
#ifndef XSMI_LABEL_NODE_H
#define XSMI_LABEL_NODE_H

#include "data/dataset.h"
#include "labels/dual.h"
#include "labels/marks.h"
#include "model/sparse_weights.h"

typedef struct xsmi_node_settings {
    xsmi_dual_settings dual;
    double threshold; /* smaller weights are dropped */
    uint32_t keep;    /* the most weights of a child; 0 = all */
    uint64_t seed;
    uint64_t position; /* of the tree's first random stream; each group uses that of its first child */
} xsmi_node_settings;

/* The classifiers of an old node. Training continues from those of its children that remain. */
typedef struct xsmi_node_start {
    const xsmi_sparse *weights;
    uint32_t chunk;     /* of the old node */
    uint32_t first;     /* its first child, a node */
    float scale, shift; /* of its level */
    uint32_t *from;     /* [children] the old node of each; XSMI_NO_CLASS: it is new, or training has changed it */
} xsmi_node_start;

/* The rows of a node, and which children they are positive for. */
typedef struct xsmi_node_rows {
    const xsm_dataset *data;
    const uint32_t *identity; /* [features] 0, 1, ... if the dataset is dense */
    const uint32_t *rows;     /* [count] rising */
    uint32_t count;
    uint64_t entries;         /* of these rows */
    const uint32_t *place;    /* [classes] position of a label in the layout's order */
    uint32_t start, end;      /* the positions of the node's labels */
    const uint32_t *child_at; /* [positions] the child that a position is under */
    uint32_t first_child, children;
    const float *score; /* [count] of the path to the node, -INFINITY: the node is not in the row's beam; NULL: no
                           beam */
    const xsmi_node_start *old; /* NULL: children are trained from 0 */
    uint64_t sampled;           /* the share of the rows whose scores are kept for calibration, times 2^32 */
} xsmi_node_rows;

/* The weights of a group of up to XSMI_DUAL_LANES children. */
typedef struct xsmi_node_part {
    uint32_t children, columns, entries;
    uint32_t *feature; /* [columns] rising */
    uint32_t *start;   /* [columns+1] */
    float *value;      /* [entries] */
    uint8_t *child;    /* [entries] rising within a column */
    float bias[XSMI_DUAL_LANES];
    uint32_t samples;          /* rows whose scores are kept, the same in all groups of a node */
    float *score;              /* [samples][XSMI_DUAL_LANES] scores with the weights that are kept, as if the row had
                                  not been trained on; NaN: not to be used */
    uint16_t *sample_positive; /* [samples] */
    float *sample_weight;      /* [samples] of the rows */
    uint32_t beam_rows;        /* rows for which the children are scored for the beam: those with a score */
    float *beam;               /* [beam_rows][XSMI_DUAL_LANES] */
    bool overflown;            /* a weight is not finite */
} xsmi_node_part;

/* Scratch of a thread. */
typedef struct xsmi_node_work {
    xsm_context *context;
    xsmi_numbering features; /* of the node */
    uint64_t *offsets;
    uint32_t *index, *order;
    float *value, *square, *weight, *step, *diagonal, *alpha, *weights, *squares;
    uint16_t *positive, *active, *kept;
    xsmi_sparse_taken taken;
    uint8_t *lane_of; /* [children of the old node] of a group; XSMI_DUAL_LANES: none */
    uint8_t *under;   /* [rows] whether a label of the row is under the node */
    uint64_t *key;
    struct {
        size_t offsets, index, order, value, square, weight, step, diagonal, alpha, weights, squares, positive, active,
            kept, lane_of, under, key;
    } capacity;
} xsmi_node_work;

bool xsmi_node_work_new(xsmi_node_work *w, xsm_context *ctx, uint32_t features);
void xsmi_node_work_free(xsmi_node_work *w);

/* Trains the groups first .. first+count-1 of the node's children into parts[count]. False when there is no memory; the
 * parts may be filled in part then, as when the call is cancelled. */
bool xsmi_node_train(xsmi_node_work *w, const xsmi_node_settings *settings, const xsmi_node_rows *rows, uint32_t first,
                     uint32_t count, xsmi_node_part *parts);
void xsmi_node_part_free(xsmi_node_part *part, xsm_context *ctx);

#endif
