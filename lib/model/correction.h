/*
 * The correction of a model's scores (logits). Where training drew classes from p_n and learnt log p(k|x) - log
 * p_n(k|x) + const (Bamler and Mandt 2020, eq. 5), log p_n(k|x) is added. In a hierarchy the scores are those of its
 * nodes and are converted to log p(k|x). The values of pairs of a feature and a class can be added. The correction is
 * part of the model: scores from the tiles and from the public interface include it.
 *
 * It never changes once made and is reference-counted.
 */
#ifndef XSMI_CORRECTION_H
#define XSMI_CORRECTION_H

#include "model/hierarchy.h"
#include "model/pairs.h"
#include "model/tree.h"

typedef struct xsmi_correction xsmi_correction;

/* One number a class, [classes], finite; copied. */
xsm_status xsmi_correction_of_classes(xsm_context *ctx, const float *log_q, uint32_t classes, xsmi_correction **out,
                                      xsm_error *err);
/* A tree; its contents are moved, and `tree` is left empty. */
xsm_status xsmi_correction_of_tree(xsm_context *ctx, xsmi_tree *tree, xsmi_correction **out, xsm_error *err);
/* The same of a hierarchy. */
xsm_status xsmi_correction_of_hierarchy(xsm_context *ctx, xsmi_hierarchy *hierarchy, xsmi_correction **out,
                                        xsm_error *err);
/* The same of pairs. */
xsm_status xsmi_correction_of_pairs(xsm_context *ctx, xsmi_pairs *pairs, xsmi_correction **out, xsm_error *err);
xsmi_correction *xsmi_correction_retain(xsmi_correction *c);
void xsmi_correction_release(xsmi_correction *c);

/* The numbers, the tree, the hierarchy or the pairs; NULL for the other kinds and for NULL. */
const float *xsmi_correction_numbers(const xsmi_correction *c);
const xsmi_tree *xsmi_correction_tree(const xsmi_correction *c);
const xsmi_hierarchy *xsmi_correction_hierarchy(const xsmi_correction *c);
const xsmi_pairs *xsmi_correction_pairs(const xsmi_correction *c);
uint32_t xsmi_correction_classes(const xsmi_correction *c);
/* "classes", "tree", "hierarchy" or "pairs"; "none" for NULL. */
const char *xsmi_correction_kind(const xsmi_correction *c);
/* Floats of scratch that xsmi_correction_add() needs. */
size_t xsmi_correction_code(const xsmi_correction *c);
/* Adds the correction to the scores of chosen classes of a row; not for hierarchies, whose scores are not sums. */
void xsmi_correction_add(const xsmi_correction *c, const xsmi_features *x, const uint32_t *classes, size_t count,
                         float *scores, float *scratch);

#endif
