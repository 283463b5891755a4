/*
 * Inside of a model, for the floors above that score and update rows in their inner loops.
 *
 * The weight of class k is alpha * row_scale[k] * row k of `weight` (row_scale NULL: all ones): ridge shrinks a row, or
 * all rows, by changing one number. Only the optimizers change scales and rows.
 */
#ifndef XSMI_MODEL_H
#define XSMI_MODEL_H

#include "base/base.h"
#include "base/file.h"
#include "data/dataset.h"
#include "model/correction.h"
#include "model/layer.h"

#include <xsoftmax/model.h>

typedef struct xsmi_metadata {
    char *key, *value;
} xsmi_metadata;

/* Names of XSM_SCORE_* values in their order; NULL at the end. */
extern const char *const xsmi_score_names[];

/* Squared length of a row, and the changes by which it has been carried forward since it was last summed up. */
typedef struct xsmi_row_length {
    double square;
    uint64_t age;
} xsmi_row_length;

struct xsm_model {
    xsm_context *context;
    const xsmi_kernels *kernels;
    uint32_t classes, features; /* of the output layer: `features` is H where there is a first layer */
    int32_t layout;
    xsmi_layer *layer; /* NULL: rows are scored as they are */

    /* Class-major: row k at weight + k*stride, stride >= features. Feature-major: row j at weight + j*stride,
     * stride >= classes. Read-only when mapped. */
    float *weight;
    size_t stride;
    size_t weight_count; /* floats allocated; 0 when mapped */
    bool untouched;      /* weights are zeros as they were made: whoever writes them calls xsmi_model_own() before */
    float *bias;         /* [classes] or NULL */
    bool bias_owned;     /* false when it lies in the mapping */
    int32_t score; /* XSM_SCORE_*; of distances the bias is -||w_k||^2/2, the layout class-major and no row scaled */
    double alpha;
    double *row_scale; /* [classes] or NULL; class-major only */
    /* [classes] or NULL: lengths of the rows as they lie in `weight`, without the scales. Whoever changes a row keeps
     * its own right, or drops them all (xsmi_model_drop_row_lengths). Class-major only. */
    xsmi_row_length *row_length;
    xsmi_mapping mapping;

    xsmi_correction *correction; /* NULL = none */

    int32_t index_base;         /* of the class map, XSM_INDEX_BASE_* */
    int64_t *labels;            /* [classes] or NULL = the class number */
    char **names;               /* [classes] or NULL */
    uint64_t *counts;           /* [classes] training rows of each class, or NULL */
    uint64_t rows;              /* of the training data, where there are counts */
    xsm_vocabulary *vocabulary; /* what text is read with, a hold on it, or NULL */
    xsm_transform *transform;
    xsmi_metadata *metadata; /* alphabetic */
    size_t metadata_count;
};

/* Row stride for `length` floats: whole cache lines, and off multiples of 4 KB. */
size_t xsmi_row_stride(size_t length);
/* Copies a mapped model to memory of its own, so that it can be changed; to be called before its weights are. */
xsm_status xsmi_model_own(xsm_model *m, xsm_error *err);
/* Makes row_scale, all ones, if there is none. */
xsm_status xsmi_model_need_row_scale(xsm_model *m, xsm_error *err);
/* Makes row_length, summed up in parallel, if there is none. */
xsm_status xsmi_model_need_row_lengths(xsm_model *m, xsm_error *err);
void xsmi_model_drop_row_lengths(xsm_model *m);
/* Sums up the length of row k, where row_length is there. */
void xsmi_model_sum_row_length(xsm_model *m, uint32_t k);
/* Multiplies alpha and row_scale into the rows, in parallel. row_scale is kept, all ones, where row_length is. */
xsm_status xsmi_model_fold(xsm_model *m, xsm_error *err);
/* Whether every weight and bias of the output layer is zero; of tied vectors, whether they are a new model's. O(K D),
 * O(K) while nobody was about to write them. */
bool xsmi_model_is_zero(const xsm_model *m);
/* Makes them so, a first layer's vectors those of a new model, and the scales one, in memory of the model's own. */
void xsmi_model_zero(xsm_model *m);
/* A bit for so many floats of `weight`, a cache line; xsmi_model_marks() says how many bits there are. */
#define XSMI_MARK_FLOATS ((size_t)16)
size_t xsmi_model_marks(const xsm_model *m);
static inline void xsmi_mark(uint64_t *marks, size_t place)
{
    marks[place / XSMI_MARK_FLOATS / 64] |= (uint64_t)1 << (place / XSMI_MARK_FLOATS % 64);
}
/* As xsmi_model_zero() for a model whose weights are zero where there is no mark. Takes the marks away. */
void xsmi_model_zero_marked(xsm_model *m, uint64_t *marks);
/* Of distances (distance.c): w_k <- (1 + eta g) w_k, the part of a step along phi - w_k that a linear model's lacks, to
 * be taken before it; then the bias of a row that has changed, and of all rows. */
void xsmi_model_pull(xsm_model *m, uint32_t class, double coefficient, double eta);
void xsmi_model_settle(xsm_model *m, uint32_t class);
xsm_status xsmi_model_settle_all(xsm_model *m, xsm_error *err);
/* ||W||^2, scales included, the bias not. The same for any number of threads. */
xsm_status xsmi_model_squared_norm(const xsm_model *m, double *norm, xsm_error *err);
/* What scoring a range of classes needs, kept by who scores batch after batch. Zeros to start with. */
typedef struct xsmi_score_room {
    uint64_t *used; /* a bit a feature, zeros between calls */
    size_t used_capacity;
    uint32_t *numbers;
    size_t number_capacity;
    float *compact;
    size_t compact_capacity;
    unsigned char *tiles;
    size_t tile_capacity;
} xsmi_score_room;
/* xsm_model_score_range() with room of the caller's, whose memory is of `ctx`. */
xsm_status xsmi_model_score_range(const xsm_model *m, const xsm_batch *given, uint32_t first, uint32_t count,
                                  float *scores, size_t stride, xsm_context *ctx, xsmi_score_room *room,
                                  xsm_error *err);
void xsmi_score_room_free(xsm_context *ctx, xsmi_score_room *room);
/* Reads a caller's batch, and checks that it is one that this model can score. */
xsm_status xsmi_model_read_batch(const xsm_model *m, const xsm_batch *given, xsm_batch *batch, xsm_error *err);
/* The same for rows of so many features; `what` of that many wants them. */
xsm_status xsmi_batch_read(const xsm_batch *given, const char *what, uint32_t features, xsm_batch *batch,
                           xsm_error *err);

/* D of the rows that a model takes. */
static inline uint32_t xsmi_model_input(const xsm_model *m)
{
    return m->layer ? m->layer->features : m->features;
}

static inline uint64_t xsmi_batch_row(const xsm_batch *batch, size_t i)
{
    return batch->rows ? batch->rows[i] : batch->first + i;
}

static inline xsmi_features xsmi_batch_features(const xsm_batch *batch, size_t i)
{
    if (batch->offsets) {
        uint64_t start = batch->offsets[i];
        xsmi_features x = {batch->values + start, batch->index + start, (size_t)(batch->offsets[i + 1] - start)};
        return x;
    }
    if (batch->values) {
        xsmi_features x = {batch->values + i * batch->stride, NULL, batch->features};
        return x;
    }
    return xsmi_dataset_features(batch->dataset, xsmi_batch_row(batch, i));
}

/* Whether the rows are lists of features. */
static inline bool xsmi_batch_sparse(const xsm_batch *batch)
{
    return batch->values ? batch->offsets != NULL : batch->dataset->sparse;
}

/* What the output layer sees of a row: the row, or its hidden vector, made in `room` [features]. */
static inline xsmi_features xsmi_model_seen(const xsm_model *m, const xsmi_features *x, float *room)
{
    if (!m->layer) {
        return *x;
    }
    xsmi_layer_hidden(m, x, room);
    xsmi_features hidden = {room, NULL, m->features};
    return hidden;
}

/* The hidden vectors of a batch, in parallel (layer.c). */
xsm_status xsmi_model_hidden(const xsm_model *m, const xsm_batch *batch, float *out, size_t stride, xsm_error *err);

/* Adds the gradient with respect to a row's features that `count` classes make, sum_k coefficients_k w_k, to out
 * [features]: classes NULL = first, first+1, ... The order of the sum is that of the list. (backward.c) */
void xsmi_model_backward(const xsm_model *m, const uint32_t *classes, uint32_t first, const float *coefficients,
                         size_t count, float *out);

struct xsmi_tensor;
struct xsmi_entry;

/* What is saved with a model in a checkpoint: tensors with their data (of 8 bytes a number, then of 4), named
 * "state.*", and metadata under "checkpoint" and "checkpoint.*". */
typedef struct xsmi_model_extras {
    const struct xsmi_tensor *tensors;
    size_t tensor_count;
    const struct xsmi_entry *metadata;
    size_t metadata_count;
} xsmi_model_extras;

/* As xsm_model_save(), with the weights and their factors each as they lie in memory, so that a run can go on from them
 * bit by bit, and what else the run consists of. The file is a model that xsm_model_load() takes as well.
 * (model_save.c)
 */
xsm_status xsmi_model_save_state(const xsm_model *m, const char *path, const xsmi_model_extras *extras, xsm_error *err);
/* Puts weights, factors and bias from a model that was loaded from such a file into one of the same shape, in whatever
 * layout that has; `row_length` [K] and `row_age` [K] or both NULL. On failure nothing has changed. (model_state.c) */
xsm_status xsmi_model_restore(xsm_model *m, const xsm_model *from, const double *row_length, const uint64_t *row_age,
                              xsm_error *err);

/* Has the model hold a correction, or none (NULL). */
void xsmi_model_set_correction(xsm_model *m, xsmi_correction *c);

/* Scores of m classes of one row, as the output layer sees it, scales and bias included, without the model's
 * correction: what training works on. Inner loop: no checks, no allocation. Dense rows that are coming are asked for
 * meanwhile; NULL = none. */
void xsmi_model_score_classes(const xsm_model *m, const xsmi_features *x, const uint32_t *classes, size_t count,
                              double alpha, float *scores, const xsmi_coming *coming);

/* The same as the model means them: with its correction, or log-probabilities in a hierarchy. The row as it is, and as
 * the output layer sees it. `scratch` holds xsmi_correction_code() floats. */
void xsmi_model_chosen_scores(const xsm_model *m, const xsmi_features *x, const xsmi_features *seen,
                              const uint32_t *classes, size_t count, float *scores, float *scratch);

/*
 * Exact scores of one block of at most XSMI_LANES rows against every class, folded into the results as they come; the
 * scores themselves are never kept. The loss of a row is log_sum_exp - target_score, whose target_score is the very
 * score that entered the sum. A score that is not a number, or plus infinity, makes log_sum_exp NaN.
 * A row's results are the same bits whatever blocks and rows are scored with it, on any number of threads.
 */
typedef struct xsmi_exact {
    size_t rows;                   /* n <= XSMI_LANES */
    const xsmi_features *features; /* [n] */
    bool sparse;                   /* all are lists of features, or none is */
    const uint32_t *target;        /* [n] class whose score is wanted, or XSMI_NO_CLASS; NULL = none */
    uint32_t top;                  /* length of the top lists */
    /* results */
    double *log_sum_exp; /* [n] */
    float *target_score; /* [n], with target; -INFINITY for XSMI_NO_CLASS or one that the model has not */
    float *top_score;    /* [n][top] falling; of equal scores the smaller class first */
    uint32_t *top_class; /* [n][top]; XSMI_NO_CLASS past the K-th */
} xsmi_exact;

/* Blocks scored together, so that a tile of weights is used while it is in the cache. */
#define XSMI_EXACT_BLOCKS 8

/* Bytes of scratch for `blocks` blocks of dense or sparse rows against this model; SIZE_MAX when that many cannot be
 * addressed. */
size_t xsmi_model_exact_scratch(const xsm_model *m, bool sparse, size_t blocks, uint32_t top);
/* Scores `count` (<= XSMI_EXACT_BLOCKS) blocks against all classes. All have one `sparse` and one `top`, which
 * `scratch` (aligned to XSMI_ALIGNMENT) is for, and for that many blocks. */
void xsmi_model_exact(const xsm_model *m, xsmi_exact *blocks, size_t count, void *scratch);

#endif
