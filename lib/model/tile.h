/*
 * A tile of scores (logits): a block of rows, or one of its rows, against a range of classes.
 */
#ifndef XSMI_TILE_H
#define XSMI_TILE_H

#include "base/order.h"
#include "data/dataset.h"

/* Most blocks of XSMI_LANES rows that are scored together, so that a tile of weights is used while it is in the
 * cache. */
#define XSMI_TILE_BLOCKS 8
/* Most rows that are scored together. */
#define XSMI_TILE_ROWS (XSMI_TILE_BLOCKS * XSMI_LANES)
/* Number of classes of a tile of one row's scores, which stays in the L1 cache. */
#define XSMI_ROW_TILE 512

/* The rows of one call, before the first layer: all dense, or all sparse. */
typedef struct xsmi_tile_rows {
    const xsmi_features *features; /* [blocks][XSMI_LANES] */
    const size_t *counts;          /* [blocks] rows of the block, at most XSMI_LANES */
    size_t blocks;                 /* at most XSMI_TILE_BLOCKS */
    bool sparse;
} xsmi_tile_rows;

typedef struct xsmi_tile {
    size_t block;
    size_t row; /* in its block; with `lanes`, the tile has all rows of the block */
    bool lanes; /* scores[c*XSMI_LANES + row], otherwise scores[c] */
    uint32_t first, count;
    const float *scores; /* scales and bias included */
} xsmi_tile;

/* Returns the number of classes of the tile that starts at class `first`: at most `most`, none from `end` on, and none
 * of the next class run. */
static inline uint32_t xsmi_tile_classes(uint32_t first, uint32_t end, uint32_t most)
{
    const uint32_t run = XSMI_RUN_CLASSES - first % XSMI_RUN_CLASSES;
    return XSMI_MIN(XSMI_MIN(end - first, run), most);
}

#endif
