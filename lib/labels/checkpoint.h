/*
 * Checkpoints of a fit of label trees: the finished trees, and of the tree in work the nodes that are finished, in one
 * file from which a fit goes on to the same bits.
 *
 *     state.place      U64 [5]      finished trees; 1 if another is begun, and of that its nodes, the level whose nodes
 *                                   are trained, or 0 where all are trained together, and how many jobs of it are done
 *     state.kept_rows  U64 [depth, 2]  of each level the scores that are kept for calibration, and their rows
 *     state.kept_ends  U64 [all rows]  where each row's scores end
 *     state.kept       U32 [all, 2]    the bits of each score, and 1 if it is positive
 *     state.start_node, state.next_node   U32 [rows, negatives]   the beams at the start of the level, and of the next
 *     state.start_score, state.next_score F32 [rows, negatives]
 *     treeT.*                       as in a model's file (model/sparse_file.h); the tree in work has no nodes
 *
 * and the options, the shape of the data and its hash as metadata (base/settings.h), and what the features are
 * (data/schema.h). Label vectors and the shape of the
 * tree in work are computed again.
 */
#ifndef XSMI_LABEL_CHECKPOINT_H
#define XSMI_LABEL_CHECKPOINT_H

#include "base/settings.h"
#include "data/schema.h"
#include "labels/levels.h"
#include "model/model_file.h"
#include "model/sparse_file.h"

/* The tensor that says how far the fit is. */
#define XSMI_FIT_PLACE "state.place"

typedef struct xsmi_fit_checkpoint {
    xsm_context *context;
    const xsmi_place *place; /* NULL: none is written */
    bool writes;             /* of several ranks the first, for all */
    double every;            /* seconds from one to the next */
    double saved;            /* when */
    uint32_t written;
    xsm_status status; /* of the last one */
    xsmi_settings settings;
    const xsmi_schema *schema;    /* of the rows, which outlive this */
    const xsmi_label_tree *trees; /* that are finished */
    uint32_t count;
    /* What is resumed, until the tree in work is restored: */
    const char *resume;   /* in messages */
    xsmi_container *file; /* NULL: nothing */
} xsmi_fit_checkpoint;

/* The tree in work. */
typedef struct xsmi_fit_place {
    xsmi_levels *levels;
    xsmi_sparse_builder *builder;
    uint32_t chunks; /* in the builder */
    uint32_t level;
    uint64_t jobs;
    bool restored; /* from a checkpoint */
} xsmi_fit_place;

void xsmi_fit_checkpoint_free(xsmi_fit_checkpoint *c);

/* Writes a checkpoint if this rank does, `now` NULL between trees, and notes its status: the fit goes on if that fails.
 */
xsm_status xsmi_fit_checkpoint_save(xsmi_fit_checkpoint *c, const xsmi_fit_place *now, xsm_error *err);
static inline bool xsmi_fit_checkpoint_is_due(const xsmi_fit_checkpoint *c)
{
    return c->place && xsmi_seconds() - c->saved >= c->every;
}

/* Opens what to resume, after a comparison with the settings, and reads the finished trees, at most `most`, over
 * data of so many features and classes. The caller releases trees[0] .. trees[*count-1], also on failure. */
xsm_status xsmi_fit_checkpoint_resume(xsmi_fit_checkpoint *c, const xsmi_place *place, uint32_t features,
                                      uint32_t classes, uint32_t most, xsmi_label_tree *trees, uint32_t *count,
                                      xsm_error *err);
/* Restores the tree in work, and closes the file; `now` has an empty builder and its levels, and gets the rest. Where
 * no tree was begun, or nothing is resumed, it stays as it is. */
xsm_status xsmi_fit_checkpoint_restore(xsmi_fit_checkpoint *c, xsmi_fit_place *now, xsm_error *err);
/* The error for a file whose numbers do not fit together. */
xsm_status xsmi_fit_checkpoint_fail(const xsmi_fit_checkpoint *c, const char *tensor, xsm_error *err);

#endif
