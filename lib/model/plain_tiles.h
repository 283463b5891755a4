/*
 * Tiles of the scores (logits) of a model's weights, including scales and bias, without the model's head. For the files
 * of this folder; higher floors score with tiles.h.
 */
#ifndef XSMI_PLAIN_TILES_H
#define XSMI_PLAIN_TILES_H

#include "base/arena.h"
#include "model/tiles.h"

typedef struct xsmi_plain_scratch {
    /* For packed rows: */
    float *packed[XSMI_TILE_BLOCKS]; /* [features][XSMI_LANES] */
    float *lanes[XSMI_TILE_BLOCKS];  /* [XSMI_CLASS_TILE][XSMI_LANES] */
    float *wide[2];                  /* [piece of a tile][stride] widened weights: the piece in use, and the next one */
    /* For scoring row by row: */
    float *scores;       /* [XSMI_ROW_TILE], for each row when weights are gathered; unused between calls */
    float *scales;       /* [XSMI_ROW_TILE] */
    uint64_t *used;      /* [features/64] a bit for each feature: whether it occurs */
    uint32_t *column_of; /* [features] its column in the compact matrix, valid where the bit is set */
    uint32_t *list;      /* [GATHER_FEATURES] the features of the compact matrix */
    uint32_t *columns;   /* [GATHER_FEATURES] the columns of one row's features */
    float *compact;      /* [features][piece of a tile], at most [GATHER_FEATURES][GATHER_LEAST] floats */
    size_t *cursor;      /* [XSMI_TILE_ROWS] number of values of each row summed so far */
    float *hidden;       /* [blocks][XSMI_LANES][hidden_stride], with a first layer */
} xsmi_plain_scratch;

void xsmi_plain_divide(const xsm_model *m, bool sparse, size_t blocks, xsmi_arena *arena, xsmi_plain_scratch *s);
void xsmi_plain_score(const xsmi_tile_call *call, xsmi_plain_scratch *s);

/* Writes the scales of a tile's classes, if each has its own; otherwise nothing. */
void xsmi_tiles_scales(const xsm_model *m, uint32_t first, uint32_t count, float *scales);
/* Converts a row's sums of a tile to scores, with scales and bias. `scales` has those of the classes, if each has its
 * own. */
void xsmi_tiles_finish(const xsm_model *m, uint32_t first, uint32_t count, const float *scales, float *scores);

#endif
