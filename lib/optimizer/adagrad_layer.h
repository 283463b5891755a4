/*
 * Adagrad's state for the first layer of an embedding model, and its step. For the vector of feature j, with the sum
 * over the batch t_j = sum_i x_ij dL/dpool_i: s_j <- s_j + t_j^2, v_j <- v_j - eta t_j / sqrt(s_j). The step reads only
 * vectors of features in the batch. Tied vectors are the output layer's rows and share their sums. Their step here
 * follows the step of the output layer.
 */
#ifndef XSMI_ADAGRAD_LAYER_H
#define XSMI_ADAGRAD_LAYER_H

#include "optimizer/feature_list.h"

/* Initialise with zeros. */
typedef struct xsmi_adagrad_layer {
    float *squares;       /* [F] rows `stride` floats apart; NULL for a linear model; borrowed if `count` is 0 */
    size_t stride, count; /* floats allocated; 0 for tied vectors */
    xsmi_feature_list list;
} xsmi_adagrad_layer;

/* Does nothing for a linear model. `rows` has the sums of the output layer. */
xsm_status xsmi_adagrad_layer_new(xsm_context *ctx, xsmi_adagrad_layer *l, const xsm_model *m, const xsm_model *rows,
                                  float initial, xsm_error *err);
void xsmi_adagrad_layer_free(xsm_context *ctx, xsmi_adagrad_layer *l);
/* Checks that the model has the number of features of its binding; tied vectors have one for each class. */
xsm_status xsmi_adagrad_layer_check(const xsmi_adagrad_layer *l, const xsm_model *m, xsm_error *err);
/* Call this before the step on a batch of rows. */
xsm_status xsmi_adagrad_layer_prepare(xsm_context *ctx, xsmi_adagrad_layer *l, xsm_model *m, const xsm_batch *rows,
                                      xsm_error *err);
/* Part `piece` of `pieces` of the step. `sums`: [H] zeros, and zeros again afterwards. */
void xsmi_adagrad_layer_step(const xsmi_adagrad_layer *l, xsm_model *m, const xsm_gradient *g, float eta, size_t piece,
                             size_t pieces, float *sums);

#endif
