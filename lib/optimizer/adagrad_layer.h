/*
 * What adagrad keeps for the first layer of an embedding model, and its step: t_j = sum_i x_ij dL/dpool_i over the
 * batch for the vector of feature j, s_j <- s_j + t_j^2, v_j <- v_j - eta t_j / sqrt(s_j). Only vectors of features
 * that the batch has are looked at. Tied vectors are the output layer's rows, and share their sums: their step here
 * comes after the one there.
 */
#ifndef XSMI_ADAGRAD_LAYER_H
#define XSMI_ADAGRAD_LAYER_H

#include "optimizer/feature_list.h"

/* Starts as zeros. */
typedef struct xsmi_adagrad_layer {
    float *squares;       /* [F] rows `stride` floats apart; NULL: the model is linear, else borrowed or of `count` */
    size_t stride, count; /* floats allocated; 0 of tied vectors */
    xsmi_feature_list list;
} xsmi_adagrad_layer;

/* Does nothing for a linear model. `rows` holds the sums of the output layer. */
xsm_status xsmi_adagrad_layer_new(xsm_context *ctx, xsmi_adagrad_layer *l, const xsm_model *m, const xsm_model *rows,
                                  float initial, xsm_error *err);
void xsmi_adagrad_layer_free(xsm_context *ctx, xsmi_adagrad_layer *l);
/* Whether the model has the features that it was bound with; those of tied vectors are its classes. */
xsm_status xsmi_adagrad_layer_check(const xsmi_adagrad_layer *l, const xsm_model *m, xsm_error *err);
/* Called before the step on a batch of rows. */
xsm_status xsmi_adagrad_layer_prepare(xsm_context *ctx, xsmi_adagrad_layer *l, xsm_model *m, const xsm_batch *rows,
                                      xsm_error *err);
/* The part `piece` of `pieces` of the step. `sums`: [H] zeros, which are left behind. */
void xsmi_adagrad_layer_step(const xsmi_adagrad_layer *l, xsm_model *m, const xsm_gradient *g, float eta, size_t piece,
                             size_t pieces, float *sums);

#endif
