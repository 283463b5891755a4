/*
 * The internal interface of optimizers, for the training loops.
 *
 * An optimizer is a table of three ways to change a model: by one example on a class-major model (the inner loop of
 * windows of single steps), by the examples of a batch that list a class, and by a batch on every class. Only one
 * thread at a time changes a class's row of weights, in the order of the examples. The table's state, of `state_size`
 * bytes, is initialised with zeros and the options' values.
 */
#ifndef XSMI_OPTIMIZER_H
#define XSMI_OPTIMIZER_H

#include "optimizer/feature_list.h"

#include <xsoftmax/optimizer.h>

/* The gradient of some classes on a batch: sum_i g_i[c] x_i, by example in `coefficients` and by feature in `list`. */
typedef struct xsmi_class_tile {
    const xsmi_feature_list *list;
    uint64_t examples;
    uint32_t first, count;     /* classes first..first+count */
    const float *coefficients; /* [examples][stride] of these classes, packed */
    size_t stride;
} xsmi_class_tile;

struct xsm_optimizer_ops {
    const char *name, *summary;
    size_t state_size;
    const xsm_option *options; /* [option_count] */
    uint32_t option_count;
    bool proximal;  /* takes gradients with shrinks, a decay or a maximum row norm: steps also scale rows */
    bool distances; /* takes models whose scores are distances (model/distance.c) */
    bool layers;    /* takes models with a first layer */

    /* Makes the state for steps on o->model; called again for every xsm_optimizer_bind(). On failure the layer calls
     * unbind(). Both are NULL for optimizers without such state. */
    xsm_status (*bind)(xsm_optimizer *o, xsm_error *err);
    void (*unbind)(xsm_optimizer *o);
    /* Called before steps on any number of threads: reserves memory for the given batch, or for single examples of a
     * class-major model if `batch` is NULL. NULL = nothing to do. */
    xsm_status (*prepare)(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, xsm_error *err);
    /* Prefetches the memory that step() will read besides weights and features, for an example of a later step. NULL =
     * none. */
    void (*fetch)(const xsm_optimizer *o, const xsmi_features *x, uint32_t count, const uint32_t *classes);

    /* One example: w_k <- shrink_k (decay w_k - eta g_k x) for the listed classes, b_k <- b_k - eta g_k. The weight
     * decay factor is part of `alpha`, the model's alpha after the step. shrinks NULL: all ones. Then rows of weights
     * longer than `bound` are scaled to it. A bound of 0 means none; otherwise the model has row_scale and
     * row_length. */
    void (*step)(xsm_optimizer *o, const xsmi_features *x, uint32_t count, const uint32_t *classes,
                 const float *coefficients, const double *shrinks, double eta, double alpha, double bound);
    /* One class of a batch: applies the entries entry[0..count) of g to its row of weights, in that order. */
    void (*step_class)(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t class,
                       const uint64_t *entries, size_t count, double eta, double alpha, uint32_t thread);
    /* The classes first..first+count of a batch whose gradient has every class. */
    void (*step_range)(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t first, uint32_t count,
                       double eta, double alpha, uint32_t thread);
    /* One class whose gradient over a batch is computed already, [features], with that of its bias, for dense rows on a
     * class-major model. `gradient` may be overwritten. NULL: the table takes single entries only. */
    void (*step_sum)(xsm_optimizer *o, uint32_t class, float *gradient, float bias, double eta, double alpha);
    /* The same for a tile of classes of a feature-major model, weights and bias: each feature's weights are changed
     * once a batch. Both give the same bits if the optimizer is `additive`: the steps of a batch's examples are summed,
     * so that step_range() can apply them one by one. Other optimizers may refuse feature-major models in
     * step_range(). */
    void (*step_tile)(xsm_optimizer *o, const xsmi_class_tile *tile, double eta, double alpha, uint32_t thread);
    bool additive;
    /* The first layer of an embedding model, after the output layer's step on a batch. If both are NULL, the layer
     * takes a plain step, with the L2 penalty (ridge) (first_layer.c). prepare_layer() is called before either step,
     * with the rows whose hidden vectors are the output layer's batch. One thread runs part `piece` of `pieces`; no two
     * parts share a vector. */
    xsm_status (*prepare_layer)(xsm_optimizer *o, const xsm_batch *rows, xsm_error *err);
    void (*step_layer)(xsm_optimizer *o, const xsm_gradient *g, double eta, size_t piece, size_t pieces,
                       uint32_t thread);
    /* The optimizer's state besides the model, as described for xsm_estimator_ops::state_tensor(); NULL = none. All its
     * numbers are 0 or more: a checkpoint with other numbers is refused. */
    int32_t (*state_tensor)(xsm_optimizer *o, uint32_t index, xsm_state_tensor *tensor);
};

struct xsm_optimizer {
    xsm_context *context;
    const xsm_optimizer_ops *ops;
    void *state;
    xsm_model *model; /* NULL = not bound */
    uint64_t *sorted; /* entries of a batch by class, two halves for sorting */
    size_t sorted_capacity;
    size_t *starts; /* the first entry of each class */
    size_t starts_capacity;
    float *sums; /* [threads] scratch for the products of a batch (product.c, sgd.c) */
    size_t sum_capacity;
    xsmi_feature_list features; /* of the current batch, for steps by feature */
    float *tiles;               /* [tiles_capacity] a tile's coefficients for each thread */
    size_t tiles_capacity;
};

/* Refuses a bound estimator whose gradients the optimizer does not support. */
xsm_status xsmi_optimizer_check(const xsm_optimizer *o, const xsm_estimator *e, xsm_error *err);

/* Makes what steps of a gradient need besides the weights: scales for proximal steps and bounded rows, lengths for
 * bounded rows. Drops lengths that these steps would not update. Refuses models with an unsupported layout. `batch` is
 * passed to prepare() of the table. */
xsm_status xsmi_optimizer_prepare(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, xsm_error *err);

/* Returns the alpha after a decay; first multiplies scales that have become small into the rows. The caller sets
 * m->alpha to it after the step. */
xsm_status xsmi_optimizer_decay(xsm_model *m, double decay, double *alpha, xsm_error *err);

/* The number of multiplications that make a job worth its start, about. */
#define XSMI_JOB_WORK 2e4

/* The step on the classes that a batch shares, whose coefficients are a matrix, and whether such a step is possible. */
bool xsmi_optimizer_takes_product(const xsm_optimizer *o, const xsm_gradient *g);
xsm_status xsmi_optimizer_step_product(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                                       double alpha, xsm_error *err);

/* A batch's step on every class by feature (by_feature.c), if the model is feature-major and the step is faster for
 * this batch. Otherwise *done is false, and nothing has been changed. */
xsm_status xsmi_optimizer_step_by_feature(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                                          double alpha, bool *done, xsm_error *err);
void xsmi_optimizer_release_tiles(xsm_optimizer *o);

/* The step of the first layer, after that of the output layer (first_layer.c). */
xsm_status xsmi_optimizer_step_layer(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                                     xsm_error *err);

/* The built-in optimizers: a new one is its file and a line here. */
/* clang-format off */
#define XSMI_OPTIMIZERS(X) \
    X(xsmi_sgd_ops) \
    X(xsmi_adagrad_ops)
/* clang-format on */
#define XSMI_DECLARE_OPTIMIZER(table) extern const xsm_optimizer_ops table;
XSMI_OPTIMIZERS(XSMI_DECLARE_OPTIMIZER)

#endif
