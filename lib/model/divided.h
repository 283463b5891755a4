/*
 * Models whose classes are divided among the processes of a context: ranks/comm.h.
 *
 * The class runs (XSMI_RUN_CLASSES) are divided into contiguous parts, one a rank. A divided model has no weights of
 * its own; its part is a model of its own, whose class c is class first + c. A first layer is the part's, and the
 * divided model's `layer` points to it; every rank has its vectors whole.
 * Sums over all classes are joined by class runs, in rising order, so that results have the bits of one process. All
 * ranks make the same calls.
 *
 * Label trees and sparse weights are not divided: each rank has a copy, which it uses by itself; rank 0 saves it.
 */
#ifndef XSMI_DIVIDED_H
#define XSMI_DIVIDED_H

#include "model/together.h"

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
/* Sets the head of any model, of a divided one of its part, too; NULL leaves it as it is. The caller makes the ranks
 * agree. */
xsm_status xsmi_divided_set_head(xsm_model *m, xsmi_head *h, xsm_error *err);
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

/* xsmi_together_score_rows() of a divided model. */
xsm_status xsmi_divided_score_rows(const xsm_model *m, const xsmi_score_all *rows, const xsmi_score_lists *lists,
                                   xsm_context *ctx, xsm_status status, xsm_error *err);

/* -- chosen classes and ranges (divided_chosen.c) ------------------------------------------------------------------ */

/* xsm_model_scores() and xsm_model_score_range(), of classes and batches that were checked, none of them empty. A score
 * takes 4 bytes, of the rank that has the class. */
xsm_status xsmi_divided_chosen_scores(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                                      float *scores, xsm_error *err);
xsm_status xsmi_divided_score_range(const xsm_model *m, const xsmi_score_range *range, xsmi_score_scratch *scratch,
                                    xsm_error *err);

#endif
