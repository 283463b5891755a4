/*
 * The rows of each node of a label tree's levels: those with a label under the node and, with a beam, those that the
 * classifiers above wrongly lead there.
 */
#ifndef XSMI_LABEL_LEVELS_H
#define XSMI_LABEL_LEVELS_H

#include "labels/level_scale.h"
#include "base/held.h"
#include "labels/layout.h"
#include "labels/node.h"

/* The rows of a level's inner nodes. */
typedef struct xsmi_level {
    uint64_t *first;       /* [nodes of the level + 1] */
    uint32_t *rows;        /* rows of each node, rising */
    float *score;          /* of each row's path to the node, -INFINITY if it is not in the beam; NULL: no beam */
    uint64_t *entries;     /* [nodes of the level] */
    uint32_t *node_at;     /* [labels] the node that a position is under, XSMI_NO_CLASS: none at this level */
    uint32_t from, count;  /* the level's nodes */
    xsmi_kept_scores kept; /* for its calibration */
} xsmi_level;

/* The beam of each row: the nodes of a level with which its search continues. */
typedef struct xsmi_beams {
    uint32_t *node; /* [rows][width] XSMI_NO_CLASS: none */
    float *score;   /* [rows][width] falling */
} xsmi_beams;

/* All levels. The caller sets the first members; the others start at zero. */
typedef struct xsmi_levels {
    xsm_context *context;
    xsmi_held held; /* the beams; its context, too, is the caller's to set */
    const xsm_dataset *data;
    const xsmi_layout *layout;
    const uint32_t *place; /* [classes] position in the layout's order */
    const uint8_t *idle;   /* [nodes] 1: its rows are not listed; NULL: all are */
    uint32_t width;        /* of the beam; 0 = none */
    xsmi_level *level;     /* [depth + 1] */
    bool keep_start;       /* keep `start`, for checkpoints */
    xsmi_beams beam;       /* on the level that is trained next */
    xsmi_beams start;      /* on the level that is trained, if kept */
} xsmi_levels;

/* Makes the levels, and finds for each level the node that each position is under. */
xsm_status xsmi_levels_find(xsmi_levels *s, xsm_error *err);
void xsmi_levels_free(xsmi_levels *s);
/* List the rows of the nodes of a level; release them when they are no longer needed. */
xsm_status xsmi_levels_list(xsmi_levels *s, uint32_t number, xsm_error *err);
void xsmi_levels_release(xsmi_levels *s, uint32_t number);

/* The beam starts with every row at the root. When the rows of a level are listed, the beam is cleared, or kept as
 * `start`; then each trained node offers its children to its rows. */
xsm_status xsmi_levels_start_beam(xsmi_levels *s, xsm_error *err);
void xsmi_levels_clear_beam(const xsmi_levels *s);
/* Exchanges `beam` and `start`. */
void xsmi_levels_swap_beams(xsmi_levels *s);
void xsmi_levels_advance(const xsmi_levels *s, uint32_t number, uint32_t node, const xsmi_node_part *part);

#endif
