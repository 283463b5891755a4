/*
 * Scores (logits) of a model for batches and for single rows: of chosen classes, of a range of classes, and sums and
 * best classes over all classes.
 */
#ifndef XSMI_SCORE_H
#define XSMI_SCORE_H

#include "base/arena.h"
#include "base/top.h"
#include "data/batch.h"
#include "math/log_sum.h"
#include "model/filter.h"
#include "model/model.h"
#include "model/tile.h"

/* Refuses rows that the model cannot take as they are: with other features or another number of them (the message calls
 * the rows `what`), or divided among processes although the model in the same context is not. Accepts NULL. O(1) except
 * for a message. (class_parts.c) */
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
    return xsmi_arena_take(arena, m->layer ? m->features : 0, sizeof(float));
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

/* xsmi_model_score_listed() computes these scores with the same bits as when all classes are scored, for models for
 * which xsmi_model_lists_as_all() returns true: those of float32 without trees, pairs and hierarchy. `scratch` has
 * xsmi_model_listed_scratch() bytes. (listed.c) */
bool xsmi_model_lists_as_all(const xsm_model *m);
size_t xsmi_model_listed_scratch(const xsm_model *m);
void xsmi_model_score_listed(const xsm_model *m, const xsmi_model_row *row, const uint32_t *classes, size_t count,
                             float *scores, void *scratch);

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
/* xsm_model_scores() for a model that is not divided, without checks. */
xsm_status xsmi_model_batch_scores(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                                   float *scores, xsm_error *err);
/* xsm_model_score_range() without checks, with the caller's scratch, which is allocated from `ctx`. */
xsm_status xsmi_model_score_range(const xsm_model *m, const xsmi_score_range *range, xsm_context *ctx,
                                  xsmi_score_scratch *scratch, xsm_error *err);

/* -- all classes --------------------------------------------------------------------------------------------------- */

/*
 * A block of at most XSMI_LANES rows, whose scores against every class are added to the results tile by tile and not
 * stored. The loss of a row is log_sum_exp - target_score, where target_score is the same float that entered the sum.
 * In a model with a calibration log_sum_exp is the log-partition: that of the scaled scores, or the sum over all
 * classes of log(1 + exp(scale z + shift)); target_score and top_score are not scaled. A score that is not a number, or
 * plus infinity, makes log_sum_exp NaN or infinite. A row's results have the same bits whatever other rows are scored
 * with it, on any number of threads.
 */
typedef struct xsmi_score_all {
    size_t rows;                    /* n <= XSMI_LANES */
    const xsmi_features *features;  /* [n] */
    bool sparse;                    /* rows are lists of features */
    const uint32_t *target;         /* [n] class whose score is requested, or XSMI_NO_CLASS; NULL = none */
    uint32_t top;                   /* length of the top lists */
    const xsmi_row_filter *filters; /* [n] which classes the top lists may have; NULL = all. The sums include all
                                       classes. */
    /* results */
    double *log_sum_exp; /* [n] */
    /* [n][run_count] the sum of each class run, which are then joined to log_sum_exp; NULL = not requested */
    xsmi_log_sum *runs;
    size_t run_count;    /* number of the model's class runs, if `runs` are requested */
    float *target_score; /* [n], with target; -INFINITY for XSMI_NO_CLASS or a class that the model lacks */
    float *top_score;    /* [n][top] falling; of equal scores the smaller class first */
    uint32_t *top_class; /* [n][top]; XSMI_NO_CLASS after the last of the K classes, or of those that the filter
                            accepts */
} xsmi_score_all;

/* Returns the bytes of scratch for `blocks` blocks of dense or sparse rows against this model; SIZE_MAX if they cannot
 * be addressed. */
size_t xsmi_model_score_all_scratch(const xsm_model *m, bool sparse, size_t blocks, uint32_t top);
/* Scores `count` (<= XSMI_TILE_BLOCKS) blocks against all classes. All have the same `sparse` and `top`, and all have
 * filters or none has. `scratch` (aligned to XSMI_ALIGNMENT) has the size for these and for so many blocks. Polls the
 * activity of `ctx`; the results of a cancelled call are undefined. */
void xsmi_model_score_all(const xsm_model *m, xsmi_score_all *blocks, size_t count, void *scratch,
                          const xsm_context *ctx);
/* Scores up to XSMI_TILE_ROWS rows, one after another in memory, which are divided into blocks. */
void xsmi_model_score_rows(const xsm_model *m, const xsmi_score_all *rows, void *scratch, const xsm_context *ctx);

/* -- the best of all classes, without the sum over all (screen.c) -------------------------------------------------- */

/* Whether xsmi_model_screen() finds the best classes of a sparse or dense row faster than xsmi_model_score_rows(). */
bool xsmi_model_screens(const xsm_model *m, bool sparse, uint32_t top);
size_t xsmi_model_screen_scratch(const xsm_model *m, uint32_t top);
/* Fills a row's list with the classes and scores that xsmi_model_score_rows() finds, with the same bits. Returns false
 * if it cannot tell which these are: scores may not be finite, or too many are nearly equal. `scratch` (aligned to
 * XSMI_ALIGNMENT) has xsmi_model_screen_scratch() bytes. Polls the activity of `ctx`; the results of a cancelled call
 * are undefined. */
bool xsmi_model_screen(const xsm_model *m, const xsmi_features *row, const xsmi_top *list, void *scratch,
                       const xsm_context *ctx);

#endif
