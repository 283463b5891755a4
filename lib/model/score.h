/*
 * Scores (logits) of a model for batches and for single rows: of chosen classes, and of a range of classes.
 */
#ifndef XSMI_SCORE_H
#define XSMI_SCORE_H

#include "base/arena.h"
#include "data/batch.h"
#include "model/filter.h"
#include "model/model.h"
#include "model/tile.h"

/* Refuses rows that the model cannot take as they are: with other features or another number of them. The message calls
 * the rows `what`. Accepts NULL. O(1) except for a message. (class_parts.c) */
xsm_status xsmi_model_check_rows(const xsm_model *m, const xsm_dataset *d, const char *what, xsm_error *err);
/* Refuses rows whose classes have other names than the model's. Called before labels are used. Accepts NULL. O(K).
 * (class_parts.c) */
xsm_status xsmi_model_check_labels(const xsm_model *m, const xsm_dataset *d, const char *what, xsm_error *err);
/* Checks that this model can score a parsed batch. */
static inline xsm_status xsmi_model_check_batch(const xsm_model *m, const xsm_batch *batch, xsm_error *err)
{
    XSMI_TRY(batch->values ? XSM_OK : xsmi_model_check_rows(m, batch->dataset, "the rows", err));
    return xsmi_batch_check(batch, "a model", xsmi_model_input(m), err);
}
/* Parses and checks a caller's batch. */
static inline xsm_status xsmi_model_read_batch(const xsm_model *m, const xsm_batch *given, xsm_batch *batch,
                                               xsm_error *err)
{
    XSMI_TRY(xsmi_batch_parse(given, batch, err));
    return xsmi_model_check_batch(m, batch, err);
}

/* Returns the output layer's input for a row: the row, or its hidden vector, which is computed in `hidden`
 * [features]. */
static inline xsmi_features xsmi_model_forward(const xsm_model *m, const xsmi_features *x, float *hidden)
{
    if (!m->layer) {
        return *x;
    }
    xsmi_layer_hidden(m, x, hidden);
    return (xsmi_features){hidden, NULL, m->features};
}

/* Takes memory for the hidden vector from an arena; none without a first layer. */
static inline float *xsmi_model_take_hidden(const xsm_model *m, xsmi_arena *arena)
{
    return xsmi_arena_take(arena, xsmi_model_hidden_floats(m), sizeof(float));
}

/* Computes the hidden vectors of the rows first..end of a batch, that of row i at out + i*stride, in parallel. Runs
 * `aside` (NULL = nothing) at the same time. (layer.c) */
xsm_status xsmi_model_hidden(const xsm_model *m, const xsm_batch *batch, size_t first, size_t end, float *out,
                             size_t stride, const xsmi_aside *aside, xsm_error *err);

/* -- chosen classes ------------------------------------------------------------------------------------------------ */

/* Computes scores of chosen classes, with the model's head; xsmi_weights_score() computes those of the weights only,
 * which training uses. Takes the row, and the output layer's input for it. `scratch` has xsmi_model_chosen_scratch()
 * floats. */
static inline size_t xsmi_model_chosen_scratch(const xsm_model *m)
{
    return m->head ? m->head->code : 0;
}
typedef struct xsmi_model_row {
    xsmi_features x, input;
} xsmi_model_row;
void xsmi_model_chosen_scores(const xsm_model *m, const xsmi_model_row *row, const uint32_t *classes, size_t count,
                              float *scores, float *scratch);

/* -- ranges of classes --------------------------------------------------------------------------------------------- */

/* Scratch for scoring a range of classes, which the caller reuses from batch to batch. Initially zeros. */
typedef struct xsmi_score_scratch {
    uint64_t *used; /* one bit per feature, zeros between calls */
    size_t used_capacity;
    uint32_t *numbers;
    size_t number_capacity;
    float *compact;
    size_t compact_capacity;
    unsigned char *tiles;
    size_t tile_capacity;
} xsmi_score_scratch;
void xsmi_score_scratch_free(xsm_context *ctx, xsmi_score_scratch *scratch);
/* Scores of a checked batch against the classes first, first+1, ...; those of row i go to scores + i*stride. */
typedef struct xsmi_score_range {
    const xsm_batch *batch;
    uint32_t first, count; /* count >= 1 */
    float *scores;
    size_t stride; /* >= count */
} xsmi_score_range;
/* Scores of some rows against the classes first..end, which the calling thread computes. */
typedef struct xsmi_score_block {
    const xsmi_features *features; /* [count] */
    size_t count;                  /* 1 to XSMI_TILE_ROWS */
    bool sparse;
    bool hidden; /* the rows are hidden vectors of the model's first layer, if it has one */
    uint32_t first, end;
    float *scores; /* of row i from scores + i*stride on */
    size_t stride;
} xsmi_score_block;
/* `scratch` has xsmi_tiles_scratch() bytes for the blocks of these rows. When the activity of `ctx` is cancelled, the
 * scores left are undefined. */
void xsmi_model_score_block(const xsm_model *m, const xsmi_score_block *block, void *scratch, const xsm_context *ctx);
/* xsm_model_score_range() without checks, with the caller's scratch, which is allocated from `ctx`. */
xsm_status xsmi_model_score_range(const xsm_model *m, const xsmi_score_range *range, xsm_context *ctx,
                                  xsmi_score_scratch *scratch, xsm_error *err);

#endif
