/*
 * The gradient of a batch with respect to the scores (logits), and what it implies for the weights. Estimators fill it,
 * optimizers apply it; this is all that they know of each other.
 *
 * Entry j of example i is number i*width + j. Which class an entry belongs to, and which entries count, depends on the
 * form. Optimizers read entries through the functions at the end.
 */
#ifndef XSMI_GRADIENT_H
#define XSMI_GRADIENT_H

#include "gradient/limits.h"
#include "gradient/work.h"
#include "model/correction.h"

#include <xsoftmax/ext/estimator.h>

typedef enum xsmi_gradient_form {
    XSMI_GRADIENT_LISTED, /* each example lists its classes, and the entries are theirs */
    XSMI_GRADIENT_SHARED, /* listed; most classes are common to all examples, with a matrix of their coefficients */
    XSMI_GRADIENT_DENSE,  /* every class: entry j is class j */
    XSMI_GRADIENT_SIFTED  /* dense, and each example lists the classes whose coefficient is not 0 */
} xsmi_gradient_form;

/* The classes that all examples of a batch share. */
typedef struct xsmi_shared_classes {
    uint32_t count;
    uint32_t *classes; /* [count], each once */
    uint32_t *column;  /* [K] index in `classes`, XSMI_NO_CLASS = not shared */
    float *matrix;     /* [examples][stride] coefficients, those of labels among the shared classes included */
    bool listed;       /* the examples' lists are complete; otherwise they have labels only, but their full lengths */
    size_t stride;
} xsmi_shared_classes;

/* The gradient of a first layer's hidden vectors. */
typedef struct xsmi_layer_gradient {
    float *hidden;   /* [examples][stride] phi */
    float *gradient; /* [examples][stride] dL/d(sum_j x_j v_j) */
    size_t stride, capacity;
    double decay; /* weight decay factor of the layer's vectors */
} xsmi_layer_gradient;

struct xsm_gradient {
    xsm_context *context;
    xsmi_gradient_form form;
    bool proximal;
    uint64_t examples; /* 0 = the gradient is not valid */
    uint64_t width;    /* entries of an example; K where every class has one */
    uint32_t model_classes;
    float *coefficients;  /* [examples][width] */
    uint32_t *lengths;    /* [examples] of the lists, for all forms but dense */
    uint32_t *classes;    /* [examples][width] the lists */
    double *shrinks;      /* [examples][width], of proximal estimators */
    xsm_example *example; /* [examples] */
    double *losses;       /* [examples] */
    xsmi_shared_classes shared;
    xsmi_layer_gradient layer;
    bool layered;                /* `layer` is in use: the examples' rows are its hidden vectors */
    xsmi_correction *correction; /* the correction that the model needs, or NULL */
    xsmi_hierarchy *hierarchy;   /* the hierarchy that the model needs, or NULL */
    double decay;                /* weight decay factor of all weights */
    double row_bound;            /* maximum row norm after the step; 0 = none */
    double loss;                 /* the mean over the examples */
    double largest; /* max over all entries of |g| ||(x,1)||, and of the first layer's: bounds every change of a weight
                       or bias, per unit of eta */
    uint64_t listed, clean; /* sifted: rows below `listed` have lists; those below `clean` are zeros elsewhere */
    xsmi_work work;
    size_t example_capacity, entry_capacity, list_capacity, shrink_capacity;
};

/* What a gradient must hold. */
typedef struct xsmi_gradient_shape {
    xsmi_gradient_form form;
    uint64_t examples, width;
    uint32_t model_classes;
    bool proximal;
    bool linear;         /* the scores are needed without the bias, too */
    bool draws;          /* a sampler draws the lists */
    size_t scratch_each; /* bytes of scratch of one thread */
    uint32_t threads;
} xsmi_gradient_shape;

/* Reserves memory for a shape. The gradient is not valid until `examples` is set. */
xsm_status xsmi_gradient_reserve(xsm_gradient *g, const xsmi_gradient_shape *shape, xsm_error *err);
/* Reserves memory for sums over shards of the classes, `each` floats for each thread. */
xsm_status xsmi_gradient_reserve_shards(xsm_gradient *g, size_t each, uint32_t threads, xsm_error *err);
/* Reserves memory for the outcomes of so many jobs. */
xsm_status xsmi_gradient_reserve_outcomes(xsm_gradient *g, size_t jobs, xsm_error *err);
/* Copies an example with its list and draws, before it has coefficients. */
void xsmi_gradient_copy_example(xsm_gradient *g, uint64_t to, const xsm_gradient *from, uint64_t i);
/* Reserves memory for that many shared classes. */
xsm_status xsmi_gradient_reserve_shared(xsm_gradient *g, uint32_t count, xsm_error *err);
/* Reserves memory for the hidden vectors of n examples. */
xsm_status xsmi_gradient_reserve_layer(xsm_gradient *g, uint64_t examples, size_t stride, xsm_error *err);

/* Refuses learning rates that no step can use. */
xsm_status xsmi_check_eta(double eta, xsm_error *err);

/* Whether every class has an entry. */
static inline bool xsmi_gradient_is_exact(const xsm_gradient *g)
{
    return g->form >= XSMI_GRADIENT_DENSE;
}

/* Whether each example has a list of classes. */
static inline bool xsmi_gradient_has_lists(const xsm_gradient *g)
{
    return g->form != XSMI_GRADIENT_DENSE;
}

/* The class of an entry, and its example. */
static inline uint32_t xsmi_gradient_class(const xsm_gradient *g, uint64_t entry)
{
    return xsmi_gradient_is_exact(g) ? (uint32_t)(entry % g->width) : g->classes[entry];
}

static inline uint64_t xsmi_gradient_example(const xsm_gradient *g, uint64_t entry)
{
    return entry / g->width;
}

/* An upper limit of the number of entries that xsmi_gradient_entries() writes; for dense gradients their number. */
size_t xsmi_gradient_count(const xsm_gradient *g, bool shared);
/* Writes the numbers of the entries that a step must apply, in rising order, and returns how many. Without `shared`,
 * entries that the matrix of the shared classes has are left out. */
size_t xsmi_gradient_entries(const xsm_gradient *g, bool shared, uint64_t *entries);
/* The mean number of examples that change a class. */
double xsmi_gradient_density(const xsm_gradient *g);

#endif
