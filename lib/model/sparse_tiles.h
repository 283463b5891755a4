/*
 * Tiles of the scores of sparse weights: of a linear model, and of the classes of label trees. For the files of this
 * folder; higher floors score by tiles.h.
 */
#ifndef XSMI_SPARSE_TILES_H
#define XSMI_SPARSE_TILES_H

#include "base/arena.h"
#include "model/tiles.h"

/* Floats of scratch for a linear model. */
size_t xsmi_sparse_tiles_scratch(const xsm_model *m);
/* Scores rows by chunks of a linear model's weights. Where a range begins or ends within a chunk, the chunk's other
 * classes are scored in vain. `scratch` has so many floats. */
void xsmi_sparse_tiles(const xsmi_tile_call *call, float *scratch);

/* The same for label trees, whose nodes are all scored. */
size_t xsmi_label_tiles_scratch(const xsm_model *m, size_t blocks);
void xsmi_label_tiles(const xsmi_tile_call *call, float *scratch);

#endif
