/*
 * The first layer of an embedding model: a vector v_j of H floats for each feature j of a row x. The row's hidden
 * vector is phi = activation(pool), where pool = sum_j x_j v_j, or the mean over the features that the row lists. The
 * output layer scores phi as a linear model scores a row. Scoring and training first compute hidden vectors here and
 * then continue as with dense rows.
 */
#ifndef XSMI_LAYER_H
#define XSMI_LAYER_H

#include "base/base.h"
#include "base/file.h"
#include "data/dataset.h"
#include "model/matrix.h"

#include <xsoftmax/model.h>

typedef struct xsmi_layer {
    uint32_t features;          /* F */
    xsm_embedding_options made; /* the options that it was made with */
    bool tied;                  /* the vectors are the output layer's rows: `w` is not used */
    xsmi_weights w;             /* of the vectors, without biases */
} xsmi_layer;

/* Names of activations and poolings, in the order of their values; NULL at the end. */
extern const char *const xsmi_activation_names[];
extern const char *const xsmi_pool_names[];

/* Adds a first layer, still without vectors, to a model. Refuses tied vectors in a context with several processes. */
xsm_status xsmi_layer_new(xsm_model *m, uint32_t features, const xsm_embedding_options *options, xsm_error *err);
/* Allocates its vectors, unless they are tied. They are not initialised. */
xsm_status xsmi_layer_allocate(xsm_model *m, xsm_error *err);
void xsmi_layer_free(xsm_model *m);
/* Initialises the vectors as in a new model with these options. Fails only when it is cancelled. */
xsm_status xsmi_layer_start(xsm_model *m, xsm_error *err);
/* Copies the first layer of `from` to `to`, a model without one whose scale `alpha` is set, with the given number of
 * features (not fewer). New features start as in a new model. If vectors are tied, only the new ones are set. Does
 * nothing if `from` has no first layer. */
xsm_status xsmi_layer_grow(const xsm_model *from, uint32_t features, xsm_model *to, xsm_error *err);
/* Returns ||V||^2, including the scale; 0 for tied vectors, which count in ||W||^2, and without a first layer. */
double xsmi_layer_squared_norm(const xsm_model *m);
/* Copies mapped vectors to memory of their own. */
xsm_status xsmi_layer_own(xsm_model *m, xsm_error *err);
/* Sets the scale of vectors that are not tied: those have the output layer's. */
void xsmi_layer_set_alpha(xsm_model *m, double alpha);
/* Multiplies alpha into the vectors. */
void xsmi_layer_fold(xsm_model *m);

/* Copy the state of another model's first layer to memory of m's own; the check refuses a different first layer. */
xsm_status xsmi_layer_check_restore(const xsm_model *m, const xsm_model *from, xsm_error *err);
void xsmi_layer_restore(xsm_model *m, const xsm_model *from);

/* Computes a row's hidden vector, out[H]. */
void xsmi_layer_hidden(const xsm_model *m, const xsmi_features *x, float *out);
/* Turns dL/dphi, in place, into dL/d(sum_j x_j v_j), given phi. */
void xsmi_layer_before(const xsm_model *m, const xsmi_features *x, const float *hidden, float *gradient);
typedef struct xsmi_layer_change {
    double eta;
    double alpha; /* the layer's scale before the step */
    size_t piece, pieces;
} xsmi_layer_change;
/* Takes part `piece` of `pieces` of the step v_j <- v_j - eta x_j g for each feature j of the row. The model's alpha
 * includes the L2 penalty (ridge) already. Pieces share no vector. */
void xsmi_layer_step(xsm_model *m, const xsmi_features *x, const float *gradient, const xsmi_layer_change *change);

#endif
