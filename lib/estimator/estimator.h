/*
 * The internal interface of estimators and gradients, for the optimizers and the training loops. Scores are logits.
 */
#ifndef XSMI_ESTIMATOR_H
#define XSMI_ESTIMATOR_H

#include "base/base.h"
#include "base/option.h"
#include "base/settings.h"
#include "estimator/searcher.h"
#include "estimator/span.h"
#include "gradient/gradient.h"
#include "sampler/sampler.h"

#include <xsoftmax/estimator.h>
#include <xsoftmax/ext/estimator.h>

/* Examples that one job passes to the table in one call. */
#define XSMI_EXAMPLE_CHUNK 64

/* Options of every estimator. */
typedef struct xsmi_common_options {
    double ridge;
    int64_t seed;
    int32_t sampler; /* index in xsmi_sampler_names, for estimators with a sampler */
    int32_t index;   /* index in xsmi_index_names, for estimators that search */
    int32_t shared;  /* with a sampler: the examples of a batch share their draws */
    int32_t tree;    /* index in xsmi_hierarchy_names, for hierarchies */
} xsmi_common_options;

typedef struct xsmi_stream_rows xsmi_stream_rows;

/* What an estimator with a sampler has. */
typedef struct xsmi_sampling {
    xsm_sampler *own;     /* the sampler of the options */
    xsm_sampler *sampler; /* the sampler in use: `own`, or the host's (a reference) */
    xsmi_draw_rule rule;
    xsmi_draw_fault fault; /* of the sampler, since this binding */
    float *codes;          /* [code_count] of the training rows while bound */
    size_t code_count;
    bool counted;     /* as a user of the sampler */
    bool follows;     /* while bound: the sampler follows the training */
    uint32_t *labels; /* [label_capacity] of a batch, for it */
    size_t label_capacity;
} xsmi_sampling;

/* What an estimator that searches has. */
typedef struct xsmi_searching {
    xsm_index *own;          /* the index of the options, never built */
    xsm_index *index;        /* the prototype of the indexes: `own` or a copy of the host's */
    xsmi_searcher *searcher; /* while bound */
} xsmi_searching;

struct xsm_estimator {
    xsmi_holders holders;
    xsm_context *context;
    xsm_estimator_ops ops; /* a copy; members missing in the host's table are NULL */
    void *state;
    xsmi_common_options common;
    const xsm_model *model;   /* NULL = not bound; a reference, as is the next */
    const xsm_dataset *train; /* the rows */
    uint64_t shape, edits;    /* of the model and of the rows when they were bound */
    uint64_t examples;        /* N of the objective */
    uint64_t row_slots;       /* while bound: more than the number of any example's row */
    uint64_t most_labels;     /* while bound: the most labels of a row */
    xsmi_stream_rows *stream; /* rows are streamed with labels; NULL = the data has them (stream.c) */
    bool labels_alone;        /* while bound: each batch brings its rows' features, `train` has the labels */
    float *norms;             /* [norm_count] ||x||^2 of the training rows while bound; NULL with labels_alone */
    size_t norm_count;
    bool exact;         /* while bound: scores every class, by its kind or by its options */
    bool hidden;        /* while bound: the model scores hidden vectors of a first layer of its own */
    bool divided;       /* while bound: the model's classes are divided among processes */
    uint64_t width;     /* entries of a row of a gradient: K for exact estimators */
    uint64_t position;  /* examples processed so far */
    uint64_t bindings;  /* number of bindings so far */
    double decay_rate;  /* mu/N, 0 for proximal estimators */
    bool fixed_batches; /* every epoch has the same minibatches */
    bool apart;         /* a step has failed on some processes: they may store different state for the rows */
    xsmi_spans *spans;  /* of joint batches; made with the first such batch */
    double row_bound;   /* maximum row norm; 0 = none */

    xsmi_head *head;        /* what the model needs: a correction or a hierarchy, or NULL */
    xsmi_sampling sampling; /* of estimators with a sampler */
    xsmi_searching search;  /* of estimators that search */
};

XSMI_COUNTED(estimator)

/* Fails if the estimator's processes may store different state for the rows. */
xsm_status xsmi_estimator_check_rows_kept(const xsm_estimator *e, xsm_error *err);
/* Releases what binding has made so far; the options stay. xsmi_estimator_unbind() does so for a bound estimator. */
void xsmi_estimator_clear(xsm_estimator *e);
void xsmi_estimator_unbind(xsm_estimator *e);

/* Reserves the arrays of a gradient for n examples of the estimator, processed by up to `threads` threads, as a joint
 * batch or one by one, and gives it what does not depend on the batch. */
xsm_status xsmi_estimator_reserve(const xsm_estimator *e, xsm_gradient *g, uint64_t examples, uint32_t threads,
                                  bool joint, xsm_error *err);
/* The same for a recomputed gradient. */
xsm_status xsmi_estimator_reserve_recomputed(const xsm_estimator *e, xsm_gradient *g, uint64_t examples,
                                             xsm_error *err);

/* Returns the example at position `position` of the run. */
static inline xsm_example xsmi_example_at(const xsm_estimator *e, uint64_t row, uint64_t position)
{
    size_t count;
    xsm_example example;
    example.labels = xsmi_dataset_labels(e->train, row, &count);
    example.label_count = count;
    example.row = row;
    example.position = position;
    example.squared_norm = e->norms ? (double)e->norms[row] : 0;
    return example;
}

/* -- rows of a stream (stream.c) ----------------------------------------------------------------------------------- */

/* Returns the slot of the state that the estimator stores for row i of the batch. */
uint64_t xsmi_stream_slot(const xsm_estimator *e, const xsm_batch *batch, uint64_t i);
void xsmi_stream_free(xsmi_stream_rows *s);

/* Whether computing a gradient changes the estimator's state, bit by bit. A sampler that follows changes at its end. */
static inline bool xsmi_estimator_changes(const xsm_estimator *e)
{
    return e->ops.state_tensor;
}

/* Returns what training makes of the model's scores, an XSM_LINK_* value. */
static inline int32_t xsmi_estimator_link(const xsm_estimator *e)
{
    return e->ops.flags & XSM_ESTIMATOR_SIGMOID ? XSM_LINK_SIGMOID : XSM_LINK_SOFTMAX;
}

/* Sets whether the examples of a gradient have weights, for rows of the data or with those of a batch, and then the
 * weights of example i. */
static inline void xsmi_example_weighted(const xsm_estimator *e, const xsm_batch *batch, xsm_gradient *g)
{
    const bool labels = e->train->label_weights || (batch && batch->label_weights);
    g->label_weighted = labels && (e->ops.flags & XSM_ESTIMATOR_LABEL_WEIGHTED);
    g->weighted = e->train->weights || (batch && batch->weights) || (labels && !g->label_weighted);
}

static inline void xsmi_example_weigh(const xsm_estimator *e, const xsm_batch *batch, uint64_t row, xsm_gradient *g,
                                      uint64_t i)
{
    const float *labels = e->stream ? batch->label_weights : xsmi_dataset_label_weights(e->train, row);
    if (labels && e->stream) {
        labels += batch->label_offsets ? batch->label_offsets[i] : i;
    }
    if (g->weighted) {
        const float weight = batch && batch->weights ? batch->weights[i]
                             : e->stream             ? 1
                                                     : (float)xsmi_dataset_weight(e->train, row);
        g->weights[i] = labels && !g->label_weighted ? weight * labels[0] : weight;
    }
    if (g->label_weighted) {
        g->label_weights[i] = labels;
    }
}

static inline xsm_example xsmi_example_of(const xsm_estimator *e, const xsm_batch *batch, uint64_t i)
{
    if (!e->stream) {
        return xsmi_example_at(e, xsmi_batch_row(batch, (size_t)i), e->position + i);
    }
    const uint64_t *at = batch->label_offsets;
    xsm_example example;
    example.labels = batch->labels + (at ? at[i] : i);
    example.label_count = at ? at[i + 1] - at[i] : 1;
    example.row = xsmi_stream_slot(e, batch, i);
    example.position = e->position + i;
    example.squared_norm = 0; /* computed with the batch */
    return example;
}

/* Returns the weight decay factor of the L2 penalty (ridge) in a step with eta. */
static inline double xsmi_estimator_decay(const xsm_estimator *e, double eta)
{
    return 1 / (1 + eta * e->decay_rate);
}

/* Returns this factor for weights that the library itself decays, whatever the table does: first layers and joint
 * batches. */
static inline double xsmi_estimator_own_decay(const xsm_estimator *e, double eta)
{
    return 1 / (1 + eta * e->common.ridge / (double)e->examples);
}

/* Whether the scored rows differ from the rows of the training data: they come with their batches, or are hidden
 * vectors. */
static inline bool xsmi_estimator_rows_vary(const xsm_estimator *e)
{
    return e->labels_alone || e->hidden;
}

/* Returns the best order of the weights for a bound estimator. */
static inline int32_t xsmi_estimator_layout(const xsm_estimator *e)
{
    return xsmi_model_layout_for(e->model, e->exact, e->train->sparse && !xsmi_estimator_rows_vary(e));
}

/* Returns the features of an example of a gradient. */
static inline xsmi_features xsmi_gradient_features(const xsm_estimator *e, const xsm_gradient *g, uint64_t i)
{
    if (g->work.rows.values && g->work.rows.offsets) {
        uint64_t start = g->work.rows.offsets[i];
        xsmi_features x = {g->work.rows.values + start, g->work.rows.index + start,
                           (size_t)(g->work.rows.offsets[i + 1] - start)};
        return x;
    }
    if (g->work.rows.values) {
        xsmi_features x = {g->work.rows.values + i * g->work.rows.stride, NULL, e->model->features};
        return x;
    }
    return xsmi_dataset_features(e->train, g->example[i].row);
}

/* -- settings and binding (estimator.c, bind.c, state.c, weight_kinds.c) ------------------------------------------- */

/* The sizes that a dataset would have, for rows that are not known yet. */
typedef struct xsmi_bind_size {
    uint64_t examples, row_slots, most_labels;
} xsmi_bind_size;

/* Adds an estimator's settings, with those of its sampler and its index. */
xsm_status xsmi_estimator_settings(const xsm_estimator *e, xsmi_settings *s, xsm_error *err);
/* xsm_estimator_get() as an xsmi_option_getter. */
size_t xsmi_estimator_get(const void *of, const char *name, char *buffer, size_t size);
/* Compares an estimator's settings among the processes of a group, what a sampler of the host's draws, and the sizes of
 * a stream (`size`, or NULL). */
xsm_status xsmi_estimator_agree(const xsm_estimator *e, const xsm_model *model, const xsm_dataset *train,
                                const xsmi_bind_size *size, xsm_error *err);
/* Binds. labels_alone: each batch brings its features. size: in place of the sizes of `train`; NULL = these. */
xsm_status xsmi_estimator_bind(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, bool labels_alone,
                               const xsmi_bind_size *size, xsm_error *err);
/* Gets the tensors of a bound estimator's state, by number; *found is false after the last. Checks a host's table. */
xsm_status xsmi_estimator_state_tensor(const xsm_estimator *e, uint32_t index, xsm_state_tensor *tensor, bool *found,
                                       xsm_error *err);

/* Refuses weights of rows for a table that would take them for 1, and likewise of labels, of which rows have up to
 * `most`. */
xsm_status xsmi_estimator_check_weights(const xsm_estimator *e, xsm_error *err);
xsm_status xsmi_estimator_check_label_weights(const xsm_estimator *e, uint64_t most, xsm_error *err);

/* The largest L2 penalty (ridge). */
#define XSMI_RIDGE_MAX 1e30

/* Refuses learning rates that are unusable for every estimator, or with this one's L2 penalty (ridge). */
xsm_status xsmi_estimator_check_eta(const xsm_estimator *e, double eta, xsm_error *err);

/* -- samplers (sampling.c) ----------------------------------------------------------------------------------------- */

/* Makes the sampler that the option names and replaces the present one. */
xsm_status xsmi_estimator_make_sampler(xsm_estimator *e, xsm_error *err);
/* Binds the sampler, makes the rows' codes, and sets the width; `most_labels` of a row. On failure the estimator is
 * without a bound sampler. */
xsm_status xsmi_estimator_bind_sampler(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train,
                                       uint64_t most_labels, xsm_error *err);
void xsmi_estimator_unbind_sampler(xsm_estimator *e);
/* Tells a sampler that follows the training of a batch whose gradient is computed. */
xsm_status xsmi_estimator_follow(xsm_estimator *e, const xsm_batch *batch, xsm_error *err);
/* Fails, and names the class, if a sampler has drawn what no estimator can use; then coefficients are not computed. */
xsm_status xsmi_estimator_check_draws(const xsm_estimator *e, xsm_error *err);

/* -- gradients ----------------------------------------------------------------------------------------------------- */

/* As xsm_estimator_gradient(), for callers that only apply the gradient, to the same model: it does not list the
 * classes that the batch shares for each example. */
xsm_status xsmi_estimator_step_gradient(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g,
                                        xsm_error *err);

/* -- a batch's examples -------------------------------------------------------------------------------------------- */

/* Lists the classes of the examples first..first+count of a gradient, for estimators that are not exact. */
void xsmi_estimator_select(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count);

/* Scores the examples first..first+count of a gradient with filled lists, for estimators that are not exact. alpha is
 * the model's at that moment. Meanwhile it prefetches what the next examples' lists need or, for a single example,
 * `upcoming` (NULL = nothing). Returns false when a score is not finite or too large. */
bool xsmi_estimator_scores(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count, double alpha,
                           const xsmi_upcoming *upcoming);
/* Some examples of a gradient that one thread processes together. */
typedef struct xsmi_piece {
    uint64_t first, count;
    uint64_t batch; /* examples of the whole batch */
    double eta;
    uint32_t thread;
} xsmi_piece;

/* Returns the examples of a piece as the estimator's table gets them. */
xsm_score_block xsmi_estimator_block(const xsm_estimator *e, xsm_gradient *g, const xsmi_piece *piece);
/* Calls the table to turn the scores of a piece into coefficients. Returns the number of examples before the first with
 * a coefficient that is not finite or too large. */
uint64_t xsmi_estimator_coefficients(xsm_estimator *e, xsm_gradient *g, const xsmi_piece *piece, xsmi_outcome *outcome);

/* Completes a block of the gradient that the table has filled: multiplies by the examples' weights, takes the mean over
 * the batch, and returns how many examples are finite, as above. If its `lengths` is NULL, examples have all
 * entries. */
uint64_t xsmi_estimator_finish_block(const xsmi_kernels *kernels, const xsm_score_block *block, xsmi_outcome *outcome);

/* -- hierarchies (bind_hierarchy.c) -------------------------------------------------------------------------------- */

/* The trees that the option `tree` names, ended by NULL. */
extern const char *const xsmi_hierarchy_names[];
/* Takes the model's tree, or makes the tree that the option names; sets the estimator's width. */
xsm_status xsmi_estimator_bind_hierarchy(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train,
                                         xsm_error *err);
/* Lists the nodes on the paths of the examples first..first+count, and where the paths turn right. */
void xsmi_hierarchy_select(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count);

#endif
