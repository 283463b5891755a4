/*
 * The internal interface of optimizers, for the training loops.
 *
 * The layer (apply.c) decides how the weights of a batch are divided, and two files change them: linear.c applies each
 * example to the weights, with the lazy scales of the model; rule.c sums the gradients of a few weights and calls the
 * table's rule. Only one thread at a time changes a weight, in the order of the examples.
 */
#ifndef XSMI_OPTIMIZER_H
#define XSMI_OPTIMIZER_H

#include "base/settings.h"
#include "gradient/gradient.h"
#include "optimizer/feature_list.h"

#include <xsoftmax/ext/optimizer.h>

/* A number for each weight of the model, or, for tables with row_rate(), for each row and bias. */
typedef struct xsmi_accumulator {
    xsmi_weights w;               /* of the shape and layout of the model's, with its bias; of rows: [classes][1] */
    xsmi_weights vectors;         /* of a first layer; those of tied vectors are a view of `w` */
    char *bias_name, *layer_name; /* in checkpoints */
} xsmi_accumulator;

/* Steps on fewer rows cannot be cancelled: copying the weights would take more than a tenth of their time. */
#define XSMI_UNDO_ROWS 128

/* The weights before the current step, of those classes that it has changed (step.c). */
typedef struct xsmi_undo {
    float *floats; /* rows and biases of the model, then those of each accumulator */
    size_t float_capacity;
    unsigned char *saved; /* [K] */
    size_t saved_capacity;
} xsmi_undo;

struct xsm_optimizer {
    xsmi_holders holders;
    xsm_context *context;
    xsm_optimizer_ops ops; /* a copy; members that the host's table lacks are NULL */
    void *state;
    bool linear;        /* the step is weights - eta*sum */
    xsm_model *model;   /* a reference; NULL = not bound. Of a divided model this process's part. */
    xsm_model *whole;   /* the divided model, a reference, or NULL */
    xsm_gradient *part; /* with `whole`: the entries of this process's classes in a step's gradient */
    uint64_t shape;     /* of the model when it was bound */
    uint64_t steps;     /* taken since then */
    xsmi_accumulator accumulators[XSM_OPTIMIZER_ACCUMULATORS];
    uint64_t *sorted; /* entries of a batch by class, two halves for sorting */
    size_t sorted_capacity;
    size_t *starts; /* the first entry of each class */
    size_t starts_capacity;
    float *sums; /* [threads][sums_each] scratch, zeros between jobs */
    size_t sums_each, sums_capacity;
    float *packed; /* the rows of the current batch, for products (step.c) */
    size_t packed_capacity;
    xsmi_feature_list features; /* of the current batch, for steps by feature */
    float *tiles;               /* [tiles_capacity] a tile's coefficients for each thread */
    size_t tiles_capacity;
    xsmi_feature_list rows; /* of the current batch, for rules on a first layer */
    xsmi_undo undo;
};

XSMI_COUNTED(optimizer)

/* Adds an optimizer's settings. */
xsm_status xsmi_optimizer_settings(const xsm_optimizer *o, xsmi_settings *s, xsm_error *err);
/* xsm_optimizer_get() as an xsmi_option_getter. */
size_t xsmi_optimizer_get(const void *of, const char *name, char *buffer, size_t size);

/* Returns the model that the optimizer was bound to. */
static inline const xsm_model *xsmi_optimizer_model(const xsm_optimizer *o)
{
    return o->whole ? o->whole : o->model;
}

/* One example's step on listed classes: w_k <- decay shrink_k (w_k - eta g_k x), b_k <- b_k - eta g_k, or a rule's. The
 * weight decay factor is next_alpha/alpha. Then rows of weights longer than `bound` are scaled to it; 0 = none,
 * otherwise the model has row_scale and row_length. */
typedef struct xsmi_example_step {
    const xsmi_features *x;
    xsmi_entries entries;     /* each class once */
    double alpha, next_alpha; /* the model's before and after the step */
    double bound;
    xsm_step step;
} xsmi_example_step;

/* Refuses gradients with proximal steps, a decay or a maximum row norm that the optimizer does not support. */
xsm_status xsmi_optimizer_check(const xsm_optimizer *o, bool proximal, bool decay, bool bound, xsm_error *err);

/* Makes what steps of a gradient need besides the weights: scales for proximal steps and bounded rows, lengths for
 * bounded rows. Drops lengths that these steps would not update, folds scales that they would not keep, and refuses
 * unsupported layouts. */
xsm_status xsmi_optimizer_prepare(xsm_optimizer *o, const xsm_gradient *g, xsm_error *err);
/* Sets *next_alpha to the alpha after a decay; first multiplies scales that have become small into the rows, which
 * changes m->w.alpha. The caller sets m->w.alpha to *next_alpha after the step. */
xsm_status xsmi_optimizer_decay(xsm_model *m, double decay, double *next_alpha, xsm_error *err);
/* As xsm_optimizer_apply(), for a batch and a rate that have been checked already, for example when the gradient was
 * computed. A step on XSMI_UNDO_ROWS rows or more may be cancelled if step.c can undo it; the caller shields smaller
 * ones. On a divided model, a process without memory for the step fails alone: its model then differs from the others'
 * (xsm_model::apart), and it takes part in their next agreement. */
xsm_status xsmi_optimizer_apply(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                                xsm_error *err);
/* Takes an example's step, after xsmi_optimizer_prepare(): on a class-major model, on any thread. */
void xsmi_optimizer_step(xsm_optimizer *o, const xsmi_example_step *s);
/* Prefetches what xsmi_optimizer_step() reads besides weights and features. */
void xsmi_optimizer_fetch(const xsm_optimizer *o, const xsmi_features *x, uint32_t count, const uint32_t *classes);

/* The form of an accumulator's tensor. */
typedef struct xsmi_accumulator_kind {
    float least;  /* that the numbers can be */
    bool classes; /* each line belongs to a class: on a divided model, the tensor has the lines of this process's
                     classes */
    bool columns; /* the same for columns, which further columns may follow */
} xsmi_accumulator_kind;
/* Describes the accumulators, as xsm_estimator_ops::state_tensor() does the state. */
bool xsmi_optimizer_tensor(const xsm_optimizer *o, uint32_t index, xsm_state_tensor *tensor,
                           xsmi_accumulator_kind *kind);

/* The built-in optimizers: a new one is its file and a line here. */
/* clang-format off */
#define XSMI_OPTIMIZERS(X) \
    X(xsmi_sgd_ops) \
    X(xsmi_adagrad_ops) \
    X(xsmi_row_adagrad_ops)
/* clang-format on */
#define XSMI_DECLARE_OPTIMIZER(table) extern const xsm_optimizer_ops table;
XSMI_OPTIMIZERS(XSMI_DECLARE_OPTIMIZER)

#endif
