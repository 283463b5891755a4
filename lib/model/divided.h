/*
 * Models whose classes are divided among the processes (ranks) of a context: base/comm.h.
 *
 * The class runs (XSMI_RUN_CLASSES) are divided into contiguous parts, one a rank. A divided model has no weights of
 * its own; its part is a model of its own, whose class c is class first + c. A first layer is not divided: it is the
 * part's, and the divided model's `layer` points to it. Sums over all classes are joined by class
 * runs, in rising order, so that results have the bits of one process. All ranks make the same calls.
 */
#ifndef XSMI_DIVIDED_H
#define XSMI_DIVIDED_H

#include "base/comm.h"
#include "model/score.h"

static inline bool xsmi_model_is_divided(const xsm_model *m)
{
    return m->part.own != NULL;
}
/* The model that has the weights: of a divided one, this rank's part. */
static inline const xsm_model *xsmi_model_weights(const xsm_model *m)
{
    return m->part.own ? m->part.own : m;
}
/* Refuses a divided model; the message begins with `what`. */
xsm_status xsmi_model_need_whole(const xsm_model *m, const char *what, xsm_error *err);

/* -- which rank has which classes (part.c) ------------------------------------------------------------------------- */

/* Class runs of so many classes. */
uint32_t xsmi_runs_of(uint32_t classes);
/* The first class of a rank; for the number of ranks the number of classes. */
uint32_t xsmi_part_start(uint32_t classes, uint32_t ranks, uint32_t rank);
/* The rank that has a class. */
uint32_t xsmi_part_of(uint32_t classes, uint32_t ranks, uint32_t class);

/* -- models (divided.c) -------------------------------------------------------------------------------------------- */

/* xsm_model_new_linear() in a context with several ranks, for options that were checked. */
xsm_status xsmi_divided_new_linear(xsm_context *ctx, uint32_t features, uint32_t classes, const xsm_model_options *o,
                                   xsm_model **out, xsm_error *err);
/* xsmi_model_set_scoring() of any model, of a divided one of its part, too. The caller makes the ranks agree. */
xsm_status xsmi_divided_set_scoring(xsm_model *m, xsmi_correction *c, xsmi_class_tree *h, xsm_error *err);
/* Divides a model that every rank has loaded. This rank's part of it alone: the caller makes the ranks agree. */
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

/* As xsmi_model_score_classes(), `x` being the output layer's input, of this rank's classes; the scores of others are
 * -INFINITY, and one of this rank's that is NaN is INFINITY, so that xsmi_exchange_max() gives every rank all scores.
 */
void xsmi_divided_score_classes(const xsm_model *m, const xsmi_features *x, const uint32_t *classes, size_t count,
                                float *scores);
/* The same with the model's correction. `scratch` has xsmi_correction_code() floats. */
void xsmi_divided_corrected_scores(const xsm_model *m, const xsmi_model_row *row, const uint32_t *classes, size_t count,
                                   float *scores, float *scratch);

/* -- chosen classes and ranges (divided_chosen.c) ------------------------------------------------------------------ */

/* xsm_model_scores() and xsm_model_score_range(), of classes and batches that were checked, none of them empty. A score
 * takes 4 bytes, of the rank that has the class. */
xsm_status xsmi_divided_chosen_scores(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                                      float *scores, xsm_error *err);
xsm_status xsmi_divided_score_range(const xsm_model *m, const xsmi_score_range *range, xsmi_score_scratch *scratch,
                                    xsm_error *err);

#endif
