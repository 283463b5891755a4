/* The parts of a step on a batch, which apply.c puts together. */
#ifndef XSMI_OPTIMIZER_STEP_H
#define XSMI_OPTIMIZER_STEP_H

#include "base/order.h"
#include "optimizer/optimizer.h"

/* A step on a batch of the output layer's rows. */
typedef struct xsmi_step {
    xsm_optimizer *optimizer;
    const xsm_batch *batch;
    const xsm_gradient *g;
    const xsmi_layer_gradient *layer; /* NULL: the model has no first layer */
    bool distances;                   /* the model's scores: rows are pulled before a step, and settled after it */
    double alpha, next_alpha;         /* the model's before and after the step */
    size_t listed;                    /* of a dense gradient, unless `every`: its coefficients that are not 0 */
    bool every;                       /* all classes are stepped alike, whether a coefficient is 0 or not */
    bool undoes;                      /* it may be cancelled: classes are saved before they change */
    xsm_step step;
} xsmi_step;

/* Whether the gradient of every class is a product of matrices: class-major models, dense rows. */
static inline bool xsmi_step_is_product(const xsmi_step *s)
{
    return s->optimizer->model->w.layout == XSM_LAYOUT_CLASS_MAJOR && !xsmi_batch_sparse(s->batch);
}

/* -- scratch and jobs ---------------------------------------------------------------------------------------------- */

/* About how many multiplications make a job worth its start. */
#define XSMI_JOB_WORK 2e4
/* Runs the jobs of a step. On a divided model a host's runner cannot make it fail, because the other processes have
 * taken their part. */
xsm_status xsmi_run_step(const xsmi_step *s, xsmi_range_job job, void *state, size_t count, size_t each,
                         xsm_error *err);
/* As xsmi_run_step(), for jobs of `work` multiplications in all: uses no other threads if that is little. */
xsm_status xsmi_run_work(const xsmi_step *s, xsmi_range_job job, void *state, size_t count, size_t each, double work,
                         xsm_error *err);
/* Packs the batch's dense rows for the kernel of products; pieces are xsmi_pitch() floats apart. */
xsm_status xsmi_pack_batch(const xsmi_step *s, xsm_error *err);
static inline size_t xsmi_pitch(const xsmi_step *s)
{
    return (size_t)s->batch->count * XSMI_LANES;
}
/* Makes zeros for each thread; jobs leave zeros behind, but for the sums of groups (groups.c). */
xsm_status xsmi_reserve_sums(xsm_optimizer *o, size_t each, xsm_error *err);

/* -- accumulators (optimizer.c) ------------------------------------------------------------------------------------ */

/* Refuses a model whose shape has changed; follows its layout. */
xsm_status xsmi_accumulators_follow(xsm_optimizer *o, xsm_error *err);

/* -- tiles and groups of classes ----------------------------------------------------------------------------------- */

/* The gradient of some classes on a batch: sum_i g_i[c] x_i, by example in `coefficients` and by feature in `list`. */
typedef struct xsmi_class_tile {
    const xsmi_feature_list *list;
    uint64_t examples;
    uint32_t first, count;     /* classes first..first+count */
    const float *coefficients; /* [examples][stride] of these classes, packed */
    size_t stride;
} xsmi_class_tile;
#define XSMI_TILE_MOST 512 /* classes */

/* Takes a step on every class by feature (by_feature.c), if the model is feature-major and the step is faster for this
 * batch; of rules always. Otherwise *done is false, and nothing has been changed. */
xsm_status xsmi_step_by_feature(const xsmi_step *s, bool *done, xsm_error *err);
void xsmi_release_tiles(xsm_optimizer *o);

/* The step by groups (groups.c), on classes with a matrix of coefficients: class-major models, dense rows. */
/* Returns the floats of scratch that each thread needs; SIZE_MAX if they cannot be addressed. */
size_t xsmi_group_sums(const xsm_model *m);
xsm_status xsmi_step_groups(const xsmi_step *s, const xsmi_class_matrix *matrix, xsm_error *err);
/* The same on the calling thread, once the batch is packed. */
void xsmi_groups_here(const xsmi_step *s, const xsmi_class_matrix *matrix, uint32_t thread);

/* Take the step of the first layer on the rows, after that of the output layer (first_layer.c). Call prepare before the
 * output layer's step. */
xsm_status xsmi_prepare_first_layer(const xsmi_step *s, const xsm_batch *rows, xsm_error *err);
xsm_status xsmi_step_first_layer(const xsmi_step *s, const xsm_batch *rows, xsm_error *err);

/* -- cancelling (step.c) ------------------------------------------------------------------------------------------- */

/* Whether the step, on every class, may be cancelled; if so, reserves memory for undoing it and saves the biases. */
bool xsmi_undo_begin(const xsmi_step *s);
/* Saves the classes first..first+count before they change. Returns false if the call was cancelled: they must not
 * change then. */
bool xsmi_undo_save(const xsmi_step *s, uint32_t first, size_t count);
/* Puts back what was saved. */
void xsmi_undo_step(const xsmi_step *s);
void xsmi_undo_free(xsm_optimizer *o);

/* -- changing weights: linear steps (linear.c) --------------------------------------------------------------------- */

void xsmi_linear_example(xsm_model *m, const xsmi_example_step *s);
/* Applies the entries entries[0..count) of the gradient, in that order, to a class's row. */
void xsmi_linear_class(const xsmi_step *s, uint32_t class, const uint64_t *entries, size_t count);
/* Applies a gradient that is summed already. */
void xsmi_linear_sum(const xsmi_step *s, uint32_t class, const float *sum, float bias);
/* Applies a range of classes of a dense gradient. */
void xsmi_linear_range(const xsmi_step *s, const xsmi_class_matrix *range, uint32_t thread);
/* Returns the floats of sums that each thread needs for xsmi_linear_range(). */
size_t xsmi_linear_sums(const xsmi_step *s);
void xsmi_linear_tile(const xsmi_step *s, const xsmi_class_tile *tile);

/* -- changing weights: rules (rule.c) ------------------------------------------------------------------------------ */

/* Returns the numbers that an accumulator has for a row of n weights. */
static inline size_t xsmi_optimizer_numbers(const xsm_optimizer *o, size_t n)
{
    return o->ops.row_rate ? 1 : n;
}

/* Weights with their accumulators: weight i is weights[i*stride]. */
typedef struct xsmi_row {
    float *weights, *accumulators[XSM_OPTIMIZER_ACCUMULATORS];
    size_t stride;
} xsmi_row;

/* Sets `row` to the weights of a line of the matrix (a class or a feature, by layout) from a column on. */
static inline void xsmi_row_at(const xsm_optimizer *o, size_t line, size_t column, xsmi_row *row)
{
    const xsm_model *m = o->model;
    row->weights = m->w.weight + line * m->w.stride + column;
    row->stride = 1;
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        const xsmi_weights *w = &o->accumulators[i].w;
        row->accumulators[i] = w->weight + line * w->stride + column;
    }
}

/* Sets `row` to a class's weights. */
static inline void xsmi_row_of_class(const xsm_optimizer *o, uint32_t class, xsmi_row *row)
{
    size_t step;
    row->weights = xsmi_weights_row(&o->model->w, class, &row->stride);
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        row->accumulators[i] = xsmi_weights_row(&o->accumulators[i].w, class, &step);
    }
}

/* Rows whose first lines are prefetched together (see xsmi_prefetch_firsts()) before the steps on them. */
enum { XSMI_ROWS_TOGETHER = 32 };

/* Prefetches the first n weights. */
XSMI_PREFETCHER void xsmi_prefetch_weights(const xsm_optimizer *o, const xsmi_row *row, size_t n)
{
    xsmi_prefetch_row(row->weights, n);
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        xsmi_prefetch_row(row->accumulators[i], xsmi_optimizer_numbers(o, n));
    }
}

/* Returns the floats at the start of a thread's scratch that are zeros between jobs. */
static inline size_t xsmi_rule_zeros(const xsm_model *m)
{
    return XSMI_MAX(xsmi_row_stride(m->features), (size_t)XSMI_TILE_MOST);
}
/* Applies the rule to weights whose gradient is factor*x; for a row_rate(), that is the row's whole gradient. */
void xsmi_rule_row(const xsm_optimizer *o, const xsmi_row *row, const xsmi_features *x, float factor,
                   const xsm_step *step);
/* Applies the rule to the biases first + index[i], or first + i, with the gradients of x. */
void xsmi_rule_bias(const xsm_optimizer *o, uint32_t first, const xsmi_features *x, const xsm_step *step);
void xsmi_rule_example(const xsm_optimizer *o, const xsmi_example_step *s);
/* As xsmi_linear_class(), by the table's rule; entries NULL: the class's entry in each of `count` examples. */
void xsmi_rule_class(const xsmi_step *s, uint32_t class, const uint64_t *entries, size_t count, uint32_t thread);
void xsmi_rule_tile(const xsmi_step *s, const xsmi_class_tile *tile, uint32_t thread);

#endif
