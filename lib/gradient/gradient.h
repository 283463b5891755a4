/*
 * The gradient of a batch with respect to the scores (logits), and what it implies for the weights. Estimators fill it
 * and optimizers apply it; neither knows anything else of the other.
 *
 * Entry j of example i is number i*width + j. Which class an entry belongs to, and which entries count, depends on the
 * form. Estimators fill the arrays; everyone else reads entries through the functions at the end.
 */
#ifndef XSMI_GRADIENT_H
#define XSMI_GRADIENT_H

#include "gradient/work.h"
#include "model/head.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax/ext/experimental.h>

/* Larger scores and steps are reported as divergence. The limit is far above any meaningful number, and small enough
 * that a step divided by the smallest scales of a row is still a float32. */
#define XSMI_STEP_LIMIT 1e15
/* The limit of the weight gradients of an example, for every learning rate: squares of larger numbers, which optimizers
 * sum, exceed float32. */
#define XSMI_GRADIENT_LIMIT 1e18

typedef enum xsmi_gradient_form {
    XSMI_GRADIENT_LISTED,    /* each example lists its classes, and the entries are theirs */
    XSMI_GRADIENT_SHARED,    /* listed; most classes are common to all examples, with a matrix of their coefficients */
    XSMI_GRADIENT_DENSE,     /* every class: entry j is class j */
    XSMI_GRADIENT_SIFTED,    /* dense, and each example lists the classes whose coefficient is not 0 */
    XSMI_GRADIENT_RECOMPUTED /* dense, but the coefficients are not kept: whoever needs some computes them again */
} xsmi_gradient_form;

/* The classes that all examples of a batch share. */
typedef struct xsmi_shared_classes {
    uint32_t count;
    uint32_t *classes; /* [count], each once */
    uint32_t *column;  /* [K] index in `classes`, XSMI_NO_CLASS = not shared */
    float *matrix;     /* [examples][stride] coefficients, those of labels among the shared classes included */
    bool listed;       /* the examples' lists are complete; otherwise only their labels are filled, though their lengths
                          are the full ones */
    size_t stride;
} xsmi_shared_classes;

/* The gradient of a first layer's hidden vectors. */
typedef struct xsmi_layer_gradient {
    float *hidden;   /* [examples][stride] phi */
    float *gradient; /* [examples][stride] dL/d(sum_j x_j v_j) */
    size_t stride, capacity;
    double decay; /* weight decay factor of the layer's vectors */
} xsmi_layer_gradient;

/* Over all processes, for a dense gradient of only the classes of this one: the entries of an example, and the
 * coefficients that are not 0. `width` 0: the gradient has all classes. */
typedef struct xsmi_whole_gradient {
    uint64_t width, nonzero;
} xsmi_whole_gradient;

/* Whether a table's sums of class runs have largest values of their own. */
static inline bool xsmi_sums_are_relative(const xsm_class_sums *table)
{
    return table->single == 2;
}

/* What computes the coefficients of a recomputed gradient again (estimator/recomputed.h). */
typedef struct xsmi_recomputed {
    /* Writes the coefficients [examples][end-first] of the classes first..end of one class run, at most step_classes
     * from a multiple of these in it, at the start of `scratch`, of `scratch_each` bytes. Polls the activity of `ctx`.
     * The weights of these classes, the batch and the estimator must be those of the gradient. */
    void (*compute)(const xsm_gradient *g, uint32_t first, uint32_t end, void *scratch, const xsm_context *ctx);
    size_t scratch_each;
    uint32_t step_classes, chunk_classes; /* that are computed together for all examples, for XSMI_EXAMPLE_CHUNK */
    const xsm_estimator *estimator;
    uint64_t batch; /* examples */
    double eta;
    float *most;                    /* [examples] the largest values, or NULL: see xsm_class_sums */
    double *sums;                   /* [examples][count] over all classes */
    float *label_scores;            /* of the labels of all examples */
    const float **label_score_rows; /* [examples] in `label_scores` */
    unsigned char *memory;          /* of the four above, and of the estimator's own work */
    size_t memory_bytes;
    const void *work; /* the estimator's, during its call */
} xsmi_recomputed;

struct xsm_gradient {
    xsm_context *context;
    xsmi_gradient_form form;
    bool proximal;
    uint64_t examples; /* 0 = the gradient is not valid */
    uint64_t width;    /* entries of an example; K where every class has one */
    uint32_t model_classes;
    float *coefficients;         /* [examples][width] */
    uint32_t *lengths;           /* [examples] of the lists, for all forms but dense */
    uint32_t *classes;           /* [examples][width] the lists */
    double *shrinks;             /* [examples][width], of proximal estimators */
    xsm_example *example;        /* [examples] */
    double *losses;              /* [examples] */
    float *weights;              /* [examples], if `weighted` */
    bool weighted;               /* examples have weights other than 1 */
    const float **label_weights; /* [examples] of each example's labels, if `label_weighted` */
    bool label_weighted;
    int32_t link; /* XSM_LINK_* of the scores that steps lead to */
    xsmi_shared_classes shared;
    xsmi_layer_gradient layer;
    bool layered;     /* the examples' rows are the hidden vectors of `layer`; in a gradient from xsmi_gradient_part(),
                         those of the whole gradient's `layer` */
    xsmi_head *head;  /* what the model needs: a correction or a hierarchy, or NULL */
    double decay;     /* weight decay factor of all weights */
    double row_bound; /* maximum row norm after the step; 0 = none */
    double loss;      /* the mean over the examples */
    double largest; /* max over all entries of |g| ||(x,1)||, and the same of the first layer: bounds every change of a
                       weight or bias, per unit of eta */
    xsmi_whole_gradient whole;
    uint64_t listed, clean; /* sifted: rows below `listed` have lists; rows below `clean` are zero where the lists have
                               no class */
    xsmi_recomputed recomputed;
    uint64_t array_most; /* a step's coefficients are recomputed if they are more; XSMI_ARRAY_MOST but for tests */
    xsmi_work work;
    size_t example_capacity, entry_capacity, list_capacity, shrink_capacity;
};

/* More coefficients than these, 1 GB, are not kept: a step then takes 1.1 to 2 times as long, but fits a machine that
 * the array would not. */
#define XSMI_ARRAY_MOST ((uint64_t)250000000)
/* A dense gradient, such as the margin's, is applied class by class if at most one coefficient in so many is not 0. */
#define XSMI_SPARSE_PART 16

/* The sizes of what a gradient must hold. */
typedef struct xsmi_gradient_shape {
    xsmi_gradient_form form;
    uint64_t examples, width;
    uint32_t model_classes;
    bool proximal;
    bool linear;         /* the scores without the bias are needed, too */
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
/* Reserves memory for the entries of this process's classes in the lists of so many examples. */
xsm_status xsmi_gradient_reserve_own(xsm_gradient *g, uint64_t examples, xsm_error *err);
/* Copies an example with its list and draws, before it has coefficients. */
void xsmi_gradient_copy_example(xsm_gradient *g, uint64_t to, const xsm_gradient *from, uint64_t i);
/* Reserves memory for that many shared classes. */
xsm_status xsmi_gradient_reserve_shared(xsm_gradient *g, uint32_t count, xsm_error *err);
/* Reserves memory for the hidden vectors of n examples. */
xsm_status xsmi_gradient_reserve_layer(xsm_gradient *g, uint64_t examples, size_t stride, xsm_error *err);

/* Fills `out` with the entries of the classes first..end, numbered from first. It may point into g, so it is valid
 * until g changes. */
xsm_status xsmi_gradient_part(const xsm_gradient *g, uint32_t first, uint32_t end, xsm_gradient *out, xsm_error *err);

/* Refuses learning rates that no step can use. */
xsm_status xsmi_check_eta(double eta, xsm_error *err);

/* Whether every class has an entry. */
static inline bool xsmi_gradient_is_dense(const xsm_gradient *g)
{
    return g->form >= XSMI_GRADIENT_DENSE;
}

/* Whether each example has a list of classes. */
static inline bool xsmi_gradient_has_lists(const xsm_gradient *g)
{
    return g->form < XSMI_GRADIENT_DENSE || g->form == XSMI_GRADIENT_SIFTED;
}

/* Whether every class has an entry, and each example lists its entries that are not 0. */
static inline bool xsmi_gradient_is_sifted(const xsm_gradient *g)
{
    return g->form == XSMI_GRADIENT_SIFTED;
}

/* Whether every class has an entry, which is not kept. */
static inline bool xsmi_gradient_is_recomputed(const xsm_gradient *g)
{
    return g->form == XSMI_GRADIENT_RECOMPUTED;
}

/* Whether all examples share most classes, whose coefficients are a matrix. */
static inline bool xsmi_gradient_is_shared(const xsm_gradient *g)
{
    return g->form == XSMI_GRADIENT_SHARED;
}

/* -- the entries of an example ------------------------------------------------------------------------------------- */

typedef struct xsmi_entries {
    uint64_t count;
    const uint32_t *classes;   /* [count]; NULL = 0, 1, 2, ... */
    const float *coefficients; /* [count] */
    const double *shrinks;     /* [count]; NULL = all ones */
} xsmi_entries;

/* Returns the list of an example, of gradients that are not dense. */
static inline xsmi_entries xsmi_gradient_list(const xsm_gradient *g, uint64_t i)
{
    const uint64_t first = i * g->width;
    return (xsmi_entries){g->lengths[i], g->classes + first, g->coefficients + first,
                          g->proximal ? g->shrinks + first : NULL};
}

/* Returns the coefficients of every class, of dense gradients that keep them; those of example i + 1 are `width` later.
 */
static inline const float *xsmi_gradient_row(const xsm_gradient *g, uint64_t i)
{
    return g->coefficients + i * g->width;
}

/* Returns the entries of an example, of any gradient. */
static inline xsmi_entries xsmi_gradient_example_entries(const xsm_gradient *g, uint64_t i)
{
    return xsmi_gradient_is_dense(g) ? (xsmi_entries){g->width, NULL, xsmi_gradient_row(g, i), NULL}
                                     : xsmi_gradient_list(g, i);
}

/* Prefetches where the list of an example begins. */
XSMI_PREFETCHER void xsmi_gradient_fetch(const xsm_gradient *g, uint64_t i)
{
    __builtin_prefetch(g->example + i, 0, 3);
    __builtin_prefetch(g->classes + i * g->width, 0, 3);
    __builtin_prefetch(g->lengths + i, 0, 3);
}

/* -- entries by number --------------------------------------------------------------------------------------------- */

/* Return the class of an entry, and its example. */
static inline uint32_t xsmi_gradient_class(const xsm_gradient *g, uint64_t entry)
{
    return xsmi_gradient_is_dense(g) ? (uint32_t)(entry % g->width) : g->classes[entry];
}

static inline uint64_t xsmi_gradient_example(const xsm_gradient *g, uint64_t entry)
{
    return entry / g->width;
}

/* Return the coefficient of an entry; and the factor by which the step multiplies the class's weights, NULL = 1. */
static inline const float *xsmi_gradient_coefficient(const xsm_gradient *g, uint64_t entry)
{
    return g->coefficients + entry;
}

static inline const double *xsmi_gradient_shrink(const xsm_gradient *g, uint64_t entry)
{
    return g->proximal ? g->shrinks + entry : NULL;
}

/* Returns the entry of a class, of dense gradients. */
static inline uint64_t xsmi_gradient_entry(const xsm_gradient *g, uint64_t example, uint32_t class)
{
    return example * g->width + class;
}

/* Returns an upper limit of the number of entries that xsmi_gradient_entries() writes; for dense gradients their
 * number. */
size_t xsmi_gradient_count(const xsm_gradient *g, bool shared);
/* Returns the number of a dense gradient's entries, or some number above `most`. */
size_t xsmi_gradient_count_to(const xsm_gradient *g, size_t most);
/* Writes the numbers of the entries that a step must apply, in rising order, and returns how many. Without `shared`,
 * entries that the matrix of the shared classes has are left out. */
size_t xsmi_gradient_entries(const xsm_gradient *g, bool shared, uint64_t *entries);
/* Returns the sum over the examples of the share of their entries that are listed; without lists the number of
 * examples. */
double xsmi_gradient_density(const xsm_gradient *g);

/* -- classes with a matrix of coefficients ------------------------------------------------------------------------- */

typedef struct xsmi_class_matrix {
    const uint32_t *classes; /* [count]; NULL = first, first + 1, ... */
    uint32_t first;
    size_t count;
    const float *coefficients; /* [examples][stride] */
    size_t stride;
} xsmi_class_matrix;

/* Returns the classes first..end, of dense gradients. The matrix of a recomputed one is in `scratch`, and may end
 * before; see xsmi_recomputed. */
xsmi_class_matrix xsmi_gradient_range(const xsm_gradient *g, uint32_t first, uint32_t end, void *scratch,
                                      const xsm_context *ctx);

/* Returns the classes that all examples share, of shared gradients. */
static inline xsmi_class_matrix xsmi_gradient_shared(const xsm_gradient *g)
{
    return (xsmi_class_matrix){g->shared.classes, 0, g->shared.count, g->shared.matrix, g->shared.stride};
}

/* -- for trials ---------------------------------------------------------------------------------------------------- */

/* Fills the memory of so many examples, and the scratch, with a byte, to check that a gradient does not depend on what
 * was there. */
void xsmi_gradient_fill(xsm_gradient *g, uint64_t examples, int byte);
/* Whether the coefficients of example i, and the scratch of a thread, are still that byte. */
bool xsmi_gradient_is_filled(const xsm_gradient *g, uint64_t i, int byte);
bool xsmi_gradient_scratch_is_filled(const xsm_gradient *g, uint32_t thread, int byte);

#endif
