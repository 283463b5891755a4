/*
 * A tile of scores (logits): a block of rows, or one of its rows, against a range of classes.
 */
#ifndef XSMI_TILE_H
#define XSMI_TILE_H

#include "data/dataset.h"

/* Blocks of XSMI_LANES rows that are scored together, so that a tile of weights is used while it is in the cache. */
#define XSMI_EXACT_BLOCKS 8
/* Most rows at once. */
#define XSMI_TILE_ROWS (XSMI_EXACT_BLOCKS * XSMI_LANES)
/* Classes of a tile of one row's scores: it stays in the first cache. */
#define XSMI_ROW_TILE 512

/* The rows of one call, before the first layer. All dense, or all sparse. */
typedef struct xsmi_tile_rows {
    const xsmi_features *features; /* [blocks][XSMI_LANES] */
    const size_t *counts;          /* [blocks] rows of the block, at most XSMI_LANES */
    size_t blocks;                 /* at most XSMI_EXACT_BLOCKS */
    bool sparse;
} xsmi_tile_rows;

typedef struct xsmi_tile {
    size_t block;
    size_t row; /* in its block; when `lanes`, the tile holds all rows of the block */
    bool lanes; /* scores[c*XSMI_LANES + row], else scores[c] */
    uint32_t first, count;
    const float *scores; /* scales and bias included */
} xsmi_tile;

#endif
