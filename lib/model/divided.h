/*
 * Models whose classes are divided among the processes (ranks) of a context: base/comm.h.
 *
 * The class runs (XSMI_RUN_CLASSES) are divided into contiguous parts, one a rank. A divided model has no weights of
 * its own; its part is a model of its own, whose class c is class first + c. A first layer is the part's, and the
 * divided model's `layer` points to it; every rank has its vectors whole.
 * Sums over all classes are joined by class runs, in rising order, so that results have the bits of one process. All
 * ranks make the same calls.
 *
 * Label trees and sparse weights are not divided: each rank has a copy. Of what is computed for many rows each computes
 * some.
 */
#ifndef XSMI_DIVIDED_H
#define XSMI_DIVIDED_H

#include "base/comm.h"
#include "model/score.h"

/* Whether every one of several ranks has a copy of a model. */
bool xsmi_model_is_copied(const xsm_model *m);
/* The context of the ranks that make the calls for a model together, which is divided or copied; NULL: this process
 * does by itself, or there is no model. */
xsm_context *xsmi_model_all_ranks(const xsm_model *m);
/* Refuses a divided model whose parts may be of different steps. */
xsm_status xsmi_model_need_together(const xsm_model *m, const char *what, xsm_error *err);

/* -- which rank has which classes (class_parts.c) ------------------------------------------------------------------ */

/* Class runs of so many classes. */
uint32_t xsmi_runs_of(uint32_t classes);
/* Whether they are enough for so many ranks: each has at least one class run. */
static inline bool xsmi_enough_classes(uint32_t classes, uint32_t ranks)
{
    return xsmi_runs_of(classes) >= ranks;
}
/* The first class of a rank; for the number of ranks the number of classes. */
uint32_t xsmi_part_start(uint32_t classes, uint32_t ranks, uint32_t rank);
/* The number of its classes. */
uint32_t xsmi_part_size(uint32_t classes, uint32_t ranks, uint32_t rank);
/* Class runs of a rank's part. */
uint32_t xsmi_runs_of_rank(const xsm_model *m, uint32_t rank);
/* The rank that has a class. */
uint32_t xsmi_part_of(uint32_t classes, uint32_t ranks, uint32_t class);
/* For a list of classes, to number them by rank and, of a rank, as listed: sizes[r] = those of rank r, and next[r] =
 * those of the ranks before it; [ranks + 1] of next are written. */
void xsmi_part_count(uint32_t classes, uint32_t ranks, const uint32_t *list, size_t count, size_t *next, size_t *sizes);

/* The end of a rank's columns of a line that has one for each class, and `width` with what pads it. */
size_t xsmi_part_columns_end(uint32_t classes, uint32_t ranks, uint32_t rank, size_t width);

/* -- models (divided.c) -------------------------------------------------------------------------------------------- */

/* xsm_model_new_linear() in a context with several ranks, for options that were checked. */
xsm_status xsmi_divided_new_linear(xsm_context *ctx, uint32_t features, uint32_t classes, const xsm_model_options *o,
                                   xsm_model **out, xsm_error *err);
/* xsmi_model_set_scoring() of any model, of a divided one of its part, too. The caller makes the ranks agree. */
xsm_status xsmi_divided_set_scoring(xsm_model *m, xsmi_correction *c, xsmi_class_tree *h, xsm_error *err);
/* A divided model of the shape and place of another, without its layer; its part on this rank is `own`, which it takes
 * on success. This rank's part of it alone. */
xsm_status xsmi_divided_of_part(const xsm_model *like, xsm_model *own, xsm_model **out, xsm_error *err);
/* A number that tells files apart, by their checksums; 0 for one without. */
uint64_t xsmi_file_mark(const xsmi_container *c);
/* A call of all ranks, with the marks of the files that they have read: a file that is replaced meanwhile can be
 * another one for some of them, which is an error on all, as is a file without a checksum. */
xsm_status xsmi_check_same_file(xsm_context *ctx, uint64_t mark, const char *name, xsm_error *err);
/* Divides a model that every rank has loaded, whole or with the weights of its part, but for label trees and sparse
 * weights, which every rank keeps. This rank's part of it alone: the caller makes the ranks agree. */
xsm_status xsmi_model_divide(xsm_model *m, xsm_error *err);

/* Whether this rank has a class, and the end of the part that has it. */
bool xsmi_divided_has(const xsm_model *m, size_t class);
size_t xsmi_divided_end(const xsm_model *m, size_t class);
/* What the rank that has a class says of it, on every rank, if all ranks are well: xsmi_agree(). */
xsm_status xsmi_divided_share(const xsm_model *m, size_t class, void *data, size_t bytes, xsm_status status,
                              xsm_error *err);

/* -- scores (divided_scores.c) ------------------------------------------------------------------------------------- */

/* xsmi_model_score_rows() for any number of rows, on the context's threads: the results on every rank. A row takes 4
 * bytes for its target, 8 for each entry of its list and 12 for each class run of this rank.
 */
xsm_status xsmi_divided_score_rows(const xsm_model *m, const xsmi_score_all *rows, xsm_context *ctx, xsm_error *err);

/* As xsmi_weights_score(), `x` being the output layer's input, of this rank's classes; the scores of others are
 * -INFINITY, and one of this rank's that is NaN is INFINITY, so that xsmi_exchange_max() gives every rank all scores.
 */
void xsmi_divided_score_classes(const xsm_model *m, const xsmi_features *x, const uint32_t *classes, size_t count,
                                float *scores);
/* The same with the model's correction; a class that the model lacks has -INFINITY. `scratch` has
 * xsmi_correction_code() floats. */
void xsmi_divided_corrected_scores(const xsm_model *m, const xsmi_model_row *row, const uint32_t *classes, size_t count,
                                   float *scores, float *scratch);

/* -- chosen classes and ranges (divided_chosen.c) ------------------------------------------------------------------ */

/* xsm_model_scores() and xsm_model_score_range(), of classes and batches that were checked, none of them empty. A score
 * takes 4 bytes, of the rank that has the class. */
xsm_status xsmi_divided_chosen_scores(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                                      float *scores, xsm_error *err);
/* A list of classes for each row. */
typedef struct xsmi_chosen_rows {
    const xsmi_features *features; /* [rows] */
    const size_t *starts;          /* [rows + 1] where the classes of each row are */
    size_t rows;                   /* at least 1 */
    const uint32_t *classes;
} xsmi_chosen_rows;
/* The scores of the listed classes as xsmi_model_chosen_scores() has them or, with `weights`, those of the weights
 * alone (xsmi_weights_score()), which a hierarchy has not. On the context's threads, and the results on every
 * rank; a score takes 4 bytes, of the rank that has the class. */
xsm_status xsmi_divided_list_scores(const xsm_model *m, const xsmi_chosen_rows *lists, bool weights, float *scores,
                                    xsm_error *err);
xsm_status xsmi_divided_score_range(const xsm_model *m, const xsmi_score_range *range, xsmi_score_scratch *scratch,
                                    xsm_error *err);

/* -- hierarchies (divided_nodes.c) --------------------------------------------------------------------------------- */

/* Scores of all nodes of some rows, on every rank. */
typedef struct xsmi_nodes {
    const xsm_model *model;
    xsm_context *context;
    bool sparse;
    size_t together;   /* rows, at most */
    float *scores;     /* [together][inner nodes] */
    float *mine, *all; /* this rank's, row by row, and those of one rank after another */
    size_t *sizes;     /* [ranks] bytes */
    unsigned char *scratch;
    size_t scratch_each; /* of a thread */
} xsmi_nodes;

/* Memory for so many rows (1 or more), or fewer at a time. For a rank alone: what it returns is the status that the
 * first xsmi_nodes_score() takes, on every rank. To be freed after a failure, too. */
xsm_status xsmi_nodes_new(const xsm_model *m, xsm_context *ctx, size_t rows, bool sparse, xsmi_nodes *n,
                          xsm_error *err);
void xsmi_nodes_free(xsmi_nodes *n);
/* Scores up to `together` rows, with the bits of tiles, or of dot products. 4 bytes for each of this rank's nodes. */
xsm_status xsmi_nodes_score(const xsmi_nodes *n, const xsmi_features *features, size_t rows, bool products,
                            xsm_status status, xsm_error *err);
/* Tiles of log-probabilities of the classes first..end of up to XSMI_TILE_ROWS of these rows from `row` on, by this
 * rank alone. */
typedef struct xsmi_nodes_range {
    const xsmi_features *features;
    size_t row, rows;
    uint32_t first, end;
    void (*consume)(void *state, const xsmi_tile *tile);
    void *state;
} xsmi_nodes_range;
void xsmi_nodes_tiles(const xsmi_nodes *n, const xsmi_nodes_range *range, uint32_t thread);

/* xsmi_divided_score_rows(), xsmi_divided_score_range() and xsmi_divided_list_scores() of a model with a hierarchy: 4
 * bytes for each of this rank's nodes, or those on the paths of the listed classes; -INFINITY of a class that the model
 * lacks. */
xsm_status xsmi_nodes_score_rows(const xsm_model *m, const xsmi_score_all *rows, xsm_context *ctx, xsm_error *err);
xsm_status xsmi_nodes_score_range(const xsm_model *m, const xsmi_score_range *range, xsm_error *err);
xsm_status xsmi_nodes_score_chosen(const xsm_model *m, const xsmi_chosen_rows *chosen, float *scores, xsm_error *err);

#endif
