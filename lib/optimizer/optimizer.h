/*
 * Inside of optimizers, for the training loops.
 *
 * An optimizer is a table of three ways to change a model: one example on a class-major model (the inner loop of
 * windows of single steps), the examples of a batch that name a class, and a batch on every class. A class's row is
 * only ever changed by one thread at a time, in the order of the examples. The table's state, of `state_size` bytes,
 * starts as zeros and the options' values.
 */
#ifndef XSMI_OPTIMIZER_H
#define XSMI_OPTIMIZER_H

#include "optimizer/feature_list.h"

#include <xsoftmax/optimizer.h>

/* The gradient of some classes on a batch: sum_i g_i[c] x_i, example by example in `coefficients` and in `list` by
 * feature. */
typedef struct xsmi_class_tile {
    const xsmi_feature_list *list;
    uint64_t examples;
    uint32_t first, count;     /* classes first..first+count */
    const float *coefficients; /* [examples][stride] of these classes, near */
    size_t stride;
} xsmi_class_tile;

struct xsm_optimizer_ops {
    const char *name, *summary;
    size_t state_size;
    const xsm_option *options; /* [option_count] */
    uint32_t option_count;
    bool proximal;  /* takes gradients with shrinks, a decay or a bound on rows: steps scale rows, too */
    bool distances; /* takes models whose scores are distances (model/distance.c) */
    bool layers;    /* takes models with a first layer */

    /* Makes what the steps on o->model keep; called again for every xsm_optimizer_bind(). On failure the layer calls
     * unbind(). Both NULL where nothing is kept. */
    xsm_status (*bind)(xsm_optimizer *o, xsm_error *err);
    void (*unbind)(xsm_optimizer *o);
    /* Called before steps on any number of threads: makes room for the given batch, or for single examples of a
     * class-major model where `batch` is NULL. NULL = nothing to do. */
    xsm_status (*prepare)(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, xsm_error *err);
    /* Asks the processor for what step() will read beside weights and features, of an example some steps ahead. NULL =
     * nothing. */
    void (*fetch)(const xsm_optimizer *o, const xsmi_features *x, uint32_t count, const uint32_t *classes);

    /* One example: w_k <- shrink_k (decay w_k - eta g_k x) for the classes listed, b_k <- b_k - eta g_k, where the
     * decay is in `alpha`, the model's alpha after the step. shrinks NULL: all ones. Then those longer than `bound` are
     * scaled to it; 0 = none, else the model has row_scale and row_length. */
    void (*step)(xsm_optimizer *o, const xsmi_features *x, uint32_t count, const uint32_t *classes,
                 const float *coefficients, const double *shrinks, double eta, double alpha, double bound);
    /* One class of a batch: its row takes the places entry[0..count) of g, in that order. */
    void (*step_class)(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t class,
                       const uint64_t *entries, size_t count, double eta, double alpha, uint32_t thread);
    /* The classes first..first+count of a batch whose gradient has every class. */
    void (*step_range)(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t first, uint32_t count,
                       double eta, double alpha, uint32_t thread);
    /* One class whose gradient over a batch is there already, [features], and that of its bias: for rows that are
     * dense, on a class-major model. `gradient` may be overwritten. NULL: the table takes places only. */
    void (*step_sum)(xsm_optimizer *o, uint32_t class, float *gradient, float bias, double eta, double alpha);
    /* The same for a tile of classes of a feature-major model, weights and bias: each feature's weights are changed
     * once a batch. Both give the same bits where the optimizer is `additive`: the steps of a batch's examples add up,
     * so that step_range() can take them one by one. Others need not take feature-major models in step_range(). */
    void (*step_tile)(xsm_optimizer *o, const xsmi_class_tile *tile, double eta, double alpha, uint32_t thread);
    bool additive;
    /* The first layer of an embedding model, after the output layer's step on a batch; both NULL: a plain step, with
     * the ridge (first_layer.c). prepare_layer() is called before either, with the rows whose hidden vectors the output
     * layer's batch is. The part `piece` of `pieces`, which no vector is in two of, is taken by one thread. */
    xsm_status (*prepare_layer)(xsm_optimizer *o, const xsm_batch *rows, xsm_error *err);
    void (*step_layer)(xsm_optimizer *o, const xsm_gradient *g, double eta, size_t piece, size_t pieces,
                       uint32_t thread);
    /* What the optimizer keeps beside the model, as xsm_estimator_ops::state_tensor() says it; NULL = nothing. Numbers
     * from 0 on: a checkpoint with others is refused. */
    int32_t (*state_tensor)(xsm_optimizer *o, uint32_t index, xsm_state_tensor *tensor);
};

struct xsm_optimizer {
    xsm_context *context;
    const xsm_optimizer_ops *ops;
    void *state;
    xsm_model *model; /* NULL = not bound */
    uint64_t *sorted; /* places of a batch by class, two halves for sorting */
    size_t sorted_capacity;
    size_t *starts; /* where a class's places begin */
    size_t starts_capacity;
    float *sums; /* [threads] scratch for the products of a batch (product.c, sgd.c) */
    size_t sum_capacity;
    xsmi_feature_list features; /* of the batch at hand, where steps go by feature */
    float *tiles;               /* [tiles_capacity] a tile's coefficients for each thread */
    size_t tiles_capacity;
};

/* Refuses an estimator, bound, whose gradients the optimizer cannot take. */
xsm_status xsmi_optimizer_check(const xsm_optimizer *o, const xsm_estimator *e, xsm_error *err);

/* Makes what steps of a gradient need beside the weights: scales for proximal ones and bounded rows, lengths for
 * bounded rows; lengths that these steps would not keep right are dropped. Refuses models whose layout does not go with
 * it. `batch` is what prepare() of the table gets. */
xsm_status xsmi_optimizer_prepare(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, xsm_error *err);

/* The alpha after a decay; multiplies scales that have grown small into the rows first. The caller sets m->alpha to it
 * when the step is done. */
xsm_status xsmi_optimizer_decay(xsm_model *m, double decay, double *alpha, xsm_error *err);

/* Multiplications that a job should come to. */
#define XSMI_JOB_WORK 2e4
/* Multiplications that a row of a batch takes for one class, about. */
double xsmi_optimizer_row_work(const xsm_batch *batch);

/* The step on the classes that a batch shares, whose coefficients are a matrix, and whether a step can be taken so. */
bool xsmi_optimizer_takes_product(const xsm_optimizer *o, const xsm_gradient *g);
xsm_status xsmi_optimizer_step_product(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                                       double alpha, xsm_error *err);

/* A batch's step on every class by feature (by_feature.c), on a feature-major model whose batch it suits; else *done is
 * false, and nothing has been done. */
xsm_status xsmi_optimizer_step_by_feature(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                                          double alpha, bool *done, xsm_error *err);
void xsmi_optimizer_release_tiles(xsm_optimizer *o);

/* The step of the first layer, after that of the output layer (first_layer.c). */
xsm_status xsmi_optimizer_step_layer(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                                     xsm_error *err);

/* The registry: a line each in registry.c. */
/* The built-in optimizers: a new one is its file and a line here. */
/* clang-format off */
#define XSMI_OPTIMIZERS(X) \
    X(xsmi_sgd_ops) \
    X(xsmi_adagrad_ops)
/* clang-format on */
#define XSMI_DECLARE_OPTIMIZER(table) extern const xsm_optimizer_ops table;
XSMI_OPTIMIZERS(XSMI_DECLARE_OPTIMIZER)

#endif
