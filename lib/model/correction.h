/*
 * What is done to a model's scores before they mean anything: log p_n(k|x) is added, where training was against classes
 * drawn from p_n and learnt log p(k|x) - log p_n(k|x) + const (Bamler and Mandt 2020, eq. 5); or they are those of the
 * nodes of a hierarchy, which are turned into log p(k|x); or what pairs of a feature and a class have is added. A part
 * of the model: whoever scores through the tiles, or asks for chosen classes by the public interface, gets it done.
 *
 * Never changed once made, and shared by those that hold it.
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
/* A tree; its contents are taken over, and `tree` is left empty. */
xsm_status xsmi_correction_of_tree(xsm_context *ctx, xsmi_tree *tree, xsmi_correction **out, xsm_error *err);
/* The same of a hierarchy. */
xsm_status xsmi_correction_of_hierarchy(xsm_context *ctx, xsmi_hierarchy *hierarchy, xsmi_correction **out,
                                        xsm_error *err);
/* The same of pairs. */
xsm_status xsmi_correction_of_pairs(xsm_context *ctx, xsmi_pairs *pairs, xsmi_correction **out, xsm_error *err);
xsmi_correction *xsmi_correction_retain(xsmi_correction *c);
void xsmi_correction_release(xsmi_correction *c);

/* The numbers, the tree, the hierarchy or the pairs; NULL for the other kinds, and of NULL. */
const float *xsmi_correction_numbers(const xsmi_correction *c);
const xsmi_tree *xsmi_correction_tree(const xsmi_correction *c);
const xsmi_hierarchy *xsmi_correction_hierarchy(const xsmi_correction *c);
const xsmi_pairs *xsmi_correction_pairs(const xsmi_correction *c);
uint32_t xsmi_correction_classes(const xsmi_correction *c);
/* "classes", "tree", "hierarchy" or "pairs"; "none" of NULL. */
const char *xsmi_correction_kind(const xsmi_correction *c);
/* Floats of scratch that xsmi_correction_add() needs. */
size_t xsmi_correction_code(const xsmi_correction *c);
/* Adds what belongs to chosen classes of a row to their scores; not for hierarchies, whose scores are no sums. */
void xsmi_correction_add(const xsmi_correction *c, const xsmi_features *x, const uint32_t *classes, size_t count,
                         float *scores, float *scratch);

#endif
