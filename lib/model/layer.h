/*
 * The first layer of an embedding model: a vector v_j of H floats for each feature j of a row x; the row's hidden
 * vector, phi = activation(pool),  pool = sum_j x_j v_j, or that over the number of features that the row lists, is
 * what the model's output layer scores as a linear model scores a row. Whoever scores or trains asks here for hidden
 * vectors first, and goes on as with dense rows.
 */
#ifndef XSMI_LAYER_H
#define XSMI_LAYER_H

#include "base/base.h"
#include "base/file.h"
#include "data/dataset.h"

#include <xsoftmax/model.h>

typedef struct xsmi_layer {
    uint32_t features;           /* F */
    xsm_embedding_options made;  /* as it was made */
    bool tied;                   /* the vectors are the output layer's rows: weight is not used */
    float *weight;               /* [F] rows `stride` floats apart; the vector is alpha * row. Read-only when mapped. */
    size_t stride, weight_count; /* floats allocated; 0 when mapped or tied */
    double alpha;
} xsmi_layer;

/* Names of activations and poolings, in the order of their values; NULL at the end. */
extern const char *const xsmi_activation_names[];
extern const char *const xsmi_pool_names[];

/* Gives a model without weights in memory of its own a first layer of vectors that are not set, or none in memory where
 * `mapped` has them. */
xsm_status xsmi_layer_new(xsm_model *m, uint32_t features, const xsm_embedding_options *options, const float *mapped,
                          xsm_error *err);
void xsmi_layer_free(xsm_model *m);
/* Sets the vectors to what they are of a new model with these options. */
void xsmi_layer_start(xsm_model *m);
/* Gives `to`, a model without a first layer whose scale `alpha` is set, that of `from` with so many features, not less:
 * new ones start as in a new model. Of tied vectors only the new are set. Does nothing where `from` has none. */
xsm_status xsmi_layer_grow(const xsm_model *from, uint32_t features, xsm_model *to, xsm_error *err);
/* ||V||^2, the scale included; 0 of tied vectors, which are counted with W, and without a first layer. */
double xsmi_layer_squared_norm(const xsm_model *m);
/* Copies mapped vectors to memory of their own. */
xsm_status xsmi_layer_own(xsm_model *m, xsm_error *err);
/* Multiplies alpha into the vectors. */
void xsmi_layer_fold(xsm_model *m);

/* Refuses to take over the state of a model with another first layer, or takes it over, in memory of m's own. */
xsm_status xsmi_layer_check_restore(const xsm_model *m, const xsm_model *from, xsm_error *err);
void xsmi_layer_restore(xsm_model *m, const xsm_model *from);

/* A row's hidden vector, out[H]. */
void xsmi_layer_hidden(const xsm_model *m, const xsmi_features *x, float *out);
/* Turns dL/dphi, in place, into dL/d(sum_j x_j v_j), given phi. */
void xsmi_layer_before(const xsm_model *m, const xsmi_features *x, const float *hidden, float *gradient);
/* The part `piece` of `pieces` of: v_j <- v_j - eta x_j g for each feature j of the row, the ridge being in `alpha`,
 * the layer's after the step. Pieces share no vector. */
void xsmi_layer_step(xsm_model *m, const xsmi_features *x, const float *gradient, double eta, double alpha,
                     size_t piece, size_t pieces);

#endif
