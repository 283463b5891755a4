/*
 * Checkpoints of a fit of label trees: the finished trees, and the finished nodes of the current tree, in one file from
 * which a fit continues with the same bits.
 *
 *     state.place      U64 [5]         finished trees; 1 if another is begun; its nodes; the level whose nodes are
 *                                      trained, or 0 if all are trained together; how many jobs of that are done
 *     state.kept_rows  U64 [depth, 2]  the scores of each level that are kept for calibration, and their rows
 *     state.kept_ends  U64 [all rows]  where each row's scores end
 *     state.kept       U32 [all, 2]    the bits of each xsmi_kept_score
 *     state.start_node, state.next_node    U32 [rows, beam]  the beams at the start of the level, and of the next
 *     state.start_score, state.next_score  F32 [rows, beam]  their scores
 *     treeT.*          as in a model's file (model/sparse_file.h); the current tree has no nodes
 *
 * and the options, the shape of the data and its hash as metadata (base/settings.h), and what the features are
 * (data/schema.h). Label vectors and the shape of the current tree are computed again.
 */
#ifndef XSMI_LABEL_CHECKPOINT_H
#define XSMI_LABEL_CHECKPOINT_H

#include "base/settings.h"
#include "data/schema.h"
#include "labels/levels.h"
#include "model/model_file.h"
#include "model/sparse_file.h"

/* The tensor that says how far the fit has got. */
#define XSMI_FIT_PLACE "state.place"

typedef struct xsmi_fit_checkpoint {
    xsm_context *context;
    const xsmi_place *place; /* where checkpoints are written; NULL: none are */
    bool writes;             /* this process writes: of several processes only the first does */
    double every;            /* seconds from one checkpoint to the next */
    double saved;            /* when the last one was written */
    uint32_t written;
    xsm_status status; /* of the last one */
    xsmi_settings settings;
    const xsmi_schema *schema;    /* of the rows, which outlive this struct */
    const xsmi_label_tree *trees; /* the finished trees */
    uint32_t count;
    /* The checkpoint that is resumed, until the current tree is restored: */
    const char *resume;   /* its name in messages */
    xsmi_container *file; /* NULL: nothing */
} xsmi_fit_checkpoint;

/* The state of the current tree. */
typedef struct xsmi_fit_place {
    xsmi_levels *levels;
    xsmi_sparse_builder *builder;
    uint32_t chunks; /* chunks in the builder */
    uint32_t level;
    uint64_t jobs;
    bool restored; /* it was restored from a checkpoint */
} xsmi_fit_place;

void xsmi_fit_checkpoint_free(xsmi_fit_checkpoint *c);

/* Writes a checkpoint, if this process writes them, and notes the status: the fit continues if that fails. `now` is
 * NULL between trees. */
xsm_status xsmi_fit_checkpoint_save(xsmi_fit_checkpoint *c, const xsmi_fit_place *now, xsm_error *err);
static inline bool xsmi_fit_checkpoint_is_due(const xsmi_fit_checkpoint *c)
{
    return c->place && xsmi_seconds() - c->saved >= c->every;
}

/* Opens the checkpoint to resume, compares it with the settings, and reads its finished trees, at most `most`, which
 * must be for data of `features` features and `classes` classes. The caller releases trees[0] .. trees[*count-1], also
 * on failure. */
xsm_status xsmi_fit_checkpoint_resume(xsmi_fit_checkpoint *c, const xsmi_place *place, uint32_t features,
                                      uint32_t classes, uint32_t most, xsmi_label_tree *trees, uint32_t *count,
                                      xsm_error *err);
/* Restores the current tree and closes the file. `now` has an empty builder and the levels, and gets the rest; it is
 * unchanged if no tree was begun or nothing is resumed. */
xsm_status xsmi_fit_checkpoint_restore(xsmi_fit_checkpoint *c, xsmi_fit_place *now, xsm_error *err);
/* Returns the error of a file whose numbers do not agree. */
xsm_status xsmi_fit_checkpoint_fail(const xsmi_fit_checkpoint *c, const char *tensor, xsm_error *err);

#endif
