/*
 * Scores (logits) of a few hundred rows against a range of classes, tile by tile, for evaluation and prediction. The N
 * x K matrix of scores never exists: a callback gets each tile.
 *
 * A score has the same bits whatever other rows and classes are scored with it. Tiles do not cross the border of a
 * class run (XSMI_RUN_CLASSES), and the borders of the tiles of a run are fixed, so that the sum over a run depends
 * neither on the grouping of rows nor on the range that the run is scored with, as long as ranges start at borders of
 * runs.
 */
#ifndef XSMI_MODEL_TILES_H
#define XSMI_MODEL_TILES_H

#include "model/score.h"

/* Rows to score against the classes first..end. */
typedef struct xsmi_tile_call {
    const xsm_model *model;
    const xsmi_tile_rows *rows;
    uint32_t first, end;
    /* Gets each tile. For each row the tiles come in rising order of classes. */
    void (*consume)(void *state, const xsmi_tile *tile);
    void *state;
    /* Its activity is polled; when it is cancelled, no further tiles come. */
    const xsm_context *context;
    /* consume() stores scores in memory that may be new, whose first use takes the system some time: polls before each
     * block's tile. */
    bool stores;
    bool hidden;  /* the rows are the hidden vectors of the model's first layer, if it has one */
    bool of_rows; /* the scores are those of the rows of weights, without the head */
} xsmi_tile_call;

/* Whether a tile has the rows of a block as lanes. */
static inline bool xsmi_tiles_packed(const xsm_model *m, bool sparse)
{
    return (!sparse || m->layer) && m->w.layout == XSM_LAYOUT_CLASS_MAJOR;
}

/* Return the bytes of scratch for `blocks` blocks, with the head and for rows of weights alone; SIZE_MAX if they cannot
 * be addressed. */
size_t xsmi_tiles_scratch(const xsm_model *m, bool sparse, size_t blocks);
size_t xsmi_tiles_scratch_of_rows(const xsm_model *m, bool sparse, size_t blocks);
/* Scores the rows. `scratch` is aligned to XSMI_ALIGNMENT. */
void xsmi_tiles_score(const xsmi_tile_call *call, void *scratch);

/* For the files of this folder: writes the scales of a tile's rows of weights, if each has its own; otherwise
 * nothing. */
void xsmi_tiles_scales(const xsm_model *m, uint32_t first, uint32_t count, float *scales);
/* Converts a row's sums of a tile to scores, with scales and bias. `scales` has those of the rows of weights, if each
 * has its own. */
void xsmi_tiles_finish(const xsm_model *m, uint32_t first, uint32_t count, const float *scales, float *scores);

#endif
