/*
 * Internals of a model, for higher floors that score and update rows in their inner loops.
 */
#ifndef XSMI_MODEL_H
#define XSMI_MODEL_H

#include "base/base.h"
#include "base/counted.h"
#include "base/file.h"
#include "data/dataset.h"
#include "data/schema.h"
#include "model/calibration.h"
#include "model/head.h"
#include "model/host_tensors.h"
#include "model/layer.h"
#include "model/matrix.h"

#include <xsoftmax/model.h>

/* [count] keys in alphabetic order, each with its value in the other array. */
typedef struct xsmi_metadata {
    char **keys, **values;
    size_t count;
} xsmi_metadata;

/* Names of XSM_GEOMETRY_* values in their order; NULL at the end. */
extern const char *const xsmi_geometry_names[];

/* The squared norm of a row, and the number of updates to it since it was last computed from the row. */
typedef struct xsmi_row_length {
    double square;
    uint64_t age;
} xsmi_row_length;

/* The model's alpha, and a row's scale, below which they are multiplied into the rows, so that float32 rows keep their
 * range. */
#define XSMI_ALPHA_LEAST 1e-6
#define XSMI_ROW_SCALE_LEAST 1e-12

/* The class map: the label and the name of each class, and what is known of the training rows. */
typedef struct xsmi_model_map {
    int64_t *labels;     /* [classes] or NULL = the class number */
    char **names;        /* [classes] or NULL */
    uint64_t *counts;    /* [classes] training rows of each class, or NULL */
    uint64_t rows;       /* of the training data, if there are counts */
    xsmi_schema *schema; /* what features are before the transform (a reference), or NULL */
} xsmi_model_map;

/* The classes of this process in a model that is divided among several (divided.h). */
typedef struct xsmi_part {
    xsm_model *own;      /* NULL: the model is not divided */
    uint32_t first, end; /* class c of `own` is class first + c; in a model that was read in part, and is not divided
                            yet, line c of the weights is class first + c */
} xsmi_part;

/* Finds which of the listed classes belong to a part: local[] gets their numbers in it, and at[] their places in the
 * list; both have room for the whole list. Returns how many. */
static inline uint32_t xsmi_part_list(uint32_t first, uint32_t end, const uint32_t *classes, uint32_t count,
                                      uint32_t *local, uint32_t *at)
{
    uint32_t found = 0;
    for (uint32_t j = 0; j < count; j++) { /* without a branch, which could not be predicted */
        local[found] = classes[j] - first;
        at[found] = j;
        found += local[found] < end - first;
    }
    return found;
}

struct xsm_model {
    xsmi_holders holders; /* the first members stay when a model grows */
    uint64_t shape;       /* raised when K, D or the geometry change; stays, too */
    xsm_context *context;
    const xsmi_kernels *kernels;
    uint32_t classes, features; /* of the output layer: with a first layer, `features` is H */
    xsmi_layer *layer;          /* NULL: rows are scored directly */

    xsmi_weights w;  /* of the classes, or of the nodes of the hierarchy; empty for label trees and for divided models,
                        whose `layout` is that of the parts */
    bool untouched;  /* weights are still the zeros of a new model; call xsmi_model_own() before writing them */
    bool bias_owned; /* false when it is in the mapping */
    int32_t score;   /* XSM_GEOMETRY_*; with distances the bias is -||w_k||^2/2, the layout is class-major and no row is
                        scaled */
    /* [classes] or NULL: norms of the rows in `weight`, without the scales. After changing a row, update its norm or
     * drop all norms (xsmi_model_drop_row_lengths). Class-major only. */
    xsmi_row_length *row_length;
    xsmi_mapping mapping;
    xsmi_lender lender; /* of bytes that replace a mapping */

    /* The part, if the classes are divided among processes. A first layer belongs to part.own; every process has all of
     * it. */
    xsmi_part part;
    bool apart; /* a process has failed in a step that others may have taken, so parts may come from different steps */

    /* What turns scores of the weights into scores of classes; label trees, with XSM_LAYOUT_SPARSE_ROWS, also have the
     * weights. NULL: a row of weights is a class. */
    xsmi_head *head;
    uint32_t head_first; /* the head's number of class 0: the part of a divided model has the head of the whole */
    int32_t link;        /* XSM_LINK_* */
    xsmi_calibration calibration; /* of these scores: code that changes them drops it (xsmi_model_drop_calibration),
                                     which leaves that of the link */

    xsmi_model_map map;
    xsm_transform *transform;
    xsmi_metadata metadata;
    char *release; /* of the library that wrote the file; NULL: another program, or no file */
    uint32_t format_version;
    xsmi_host_tensors host;
};

XSMI_COUNTED(model)

/* Whether the model's classes are divided among processes. */
static inline bool xsmi_model_is_divided(const xsm_model *m)
{
    return m->part.own != NULL;
}
/* Returns the context of the processes that make calls for a divided model together; NULL if the model is not divided,
 * or is NULL. */
static inline xsm_context *xsmi_model_group(const xsm_model *m)
{
    return m && xsmi_model_is_divided(m) ? m->context : NULL;
}
/* Returns the model that has the weights: this process's part of a divided model, otherwise the model. */
static inline const xsm_model *xsmi_model_weights(const xsm_model *m)
{
    return m->part.own ? m->part.own : m;
}
/* Returns the same for a model that will be changed. */
static inline xsm_model *xsmi_model_changed(xsm_model *m)
{
    return m->part.own ? m->part.own : m;
}
/* The classes first..end, of which this process has the weights, in that order: all, unless the model is divided. */
typedef struct xsmi_mine {
    const xsmi_weights *w;
    uint32_t first, end;
} xsmi_mine;
static inline xsmi_mine xsmi_model_mine(const xsm_model *m)
{
    return m->part.own ? (xsmi_mine){&m->part.own->w, m->part.first, m->part.end} : (xsmi_mine){&m->w, 0, m->classes};
}
/* Refuses a divided model. The message begins with `what`. (class_parts.c) */
xsm_status xsmi_model_need_whole(const xsm_model *m, const char *what, xsm_error *err);

/* xsm_model_new_linear() in this process only, whatever its context, for checked options. */
xsm_status xsmi_model_new_local(xsm_context *context, uint32_t features, uint32_t classes, const xsm_model_options *o,
                                xsm_model **out, xsm_error *err);
/* Whether the model has biases. */
static inline bool xsmi_model_has_bias(const xsm_model *m)
{
    return m->part.own ? m->part.own->w.bias != NULL : m->w.bias != NULL;
}

/* Refuses a model whose weights are sparse, in fewer bits than float32, or divided among processes; the message begins
 * with `what`. */
xsm_status xsmi_model_need_dense(const xsm_model *m, const char *what, xsm_error *err);
/* Refuse a model whose scores are distances, with a first layer, with tied vectors, whose weights are not class-major,
 * or with a head; `what` begins the message. */
xsm_status xsmi_model_need_linear(const xsm_model *m, const char *what, xsm_error *err);
xsm_status xsmi_model_need_no_layer(const xsm_model *m, const char *what, xsm_error *err);
xsm_status xsmi_model_need_untied(const xsm_model *m, const char *what, xsm_error *err);
xsm_status xsmi_model_need_class_major(const xsm_model *m, const char *what, xsm_error *err);
xsm_status xsmi_model_need_plain(const xsm_model *m, const char *what, xsm_error *err);
/* Copies a mapped model to memory of its own. Refuses what xsmi_model_need_dense() refuses. Call it before changing
 * weights. */
xsm_status xsmi_model_own(xsm_model *m, xsm_error *err);
/* Copies only the bias to memory of the model's own, for any model. */
xsm_status xsmi_model_own_bias(xsm_model *m, xsm_error *err);
/* Makes row_scale, all ones, if there is none. The caller may change them afterwards: none is known to be 1 any
 * more. */
xsm_status xsmi_model_need_row_scale(xsm_model *m, xsm_error *err);
/* Compute row_length, in parallel, if there is none. */
xsm_status xsmi_model_need_row_lengths(xsm_model *m, xsm_error *err);
void xsmi_model_drop_row_lengths(xsm_model *m);
/* Computes the norm of row k, if there is row_length. */
void xsmi_model_sum_row_length(xsm_model *m, uint32_t k);
/* Multiplies the scale of row k into it. */
void xsmi_model_fold_row(xsm_model *m, uint32_t k);
/* Multiplies alpha and row_scale into the rows, in parallel. If there is row_length, row_scale stays, with ones. */
xsm_status xsmi_model_fold(xsm_model *m, xsm_error *err);
/* Whether every weight and bias of the output layer is zero or, for tied vectors, as in a new model. False for weights
 * in fewer bits than float32. O(K D), or O(K) as long as xsmi_model_own() was not called. */
bool xsmi_model_is_zero(const xsm_model *m);
/* Sets them to that state, a first layer's vectors to those of a new model, and the scales to one. The weights must be
 * the model's own (xsmi_model_own()); of a divided model, these are those of this process. */
void xsmi_model_zero(xsm_model *m);
/* Floats of `weight` for each mark bit: a cache line. The functions return the number of mark bits of so many floats,
 * and of a model. */
#define XSMI_MARK_FLOATS ((size_t)16)
static inline size_t xsmi_marks_of(size_t floats)
{
    return floats / XSMI_MARK_FLOATS + (floats % XSMI_MARK_FLOATS != 0);
}
size_t xsmi_model_marks(const xsm_model *m);
/* Returns the floats that `weight` would have with all classes in one process; SIZE_MAX: too many to address. */
size_t xsmi_model_floats(const xsm_model *m);
static inline void xsmi_mark(uint64_t *marks, size_t index)
{
    marks[index / XSMI_MARK_FLOATS / 64] |= (uint64_t)1 << (index / XSMI_MARK_FLOATS % 64);
}
/* Like xsmi_model_zero() for a model whose weights are zero where no mark is set. Clears the marks. */
void xsmi_model_zero_marked(xsm_model *m, uint64_t *marks);
/* Whether steps pull rows before they add to them, and settle them afterwards: for distances. xsmi_model_pull()
 * computes w_k <- (1 + eta g) w_k, the part of a step along phi - w_k that a linear step lacks; xsmi_model_settle()
 * computes the bias of a changed row. */
static inline bool xsmi_model_pulls(const xsm_model *m)
{
    return m->score != XSM_GEOMETRY_LINEAR;
}
void xsmi_model_pull(xsm_model *m, uint32_t class, double coefficient, double eta);
void xsmi_model_settle(xsm_model *m, uint32_t class);
/* xsmi_model_settle() for all rows, which a host may have changed; does nothing if scores are linear. */
xsm_status xsmi_model_settle_all(xsm_model *m, xsm_error *err);
/* Returns the biases that steps learn; NULL: there are none, or they follow from the rows. */
static inline float *xsmi_model_learned_bias(const xsm_model *m)
{
    return m->score == XSM_GEOMETRY_LINEAR ? m->w.bias : NULL;
}
/* Sets *constant to what a class's score adds to the product of features with `row`, a copy of `width` of its weights:
 * the bias, or -||row||^2/2 for distances. Returns false, and sets nothing, if it adds nothing. */
bool xsmi_model_constant(const xsm_model *m, uint32_t class, const float *row, size_t width, float *constant);
/* Computes ||W||^2, with scales and without the bias. It is the same for any number of threads, and on every process of
 * a divided model; each sends 8 bytes for up to 4,096 of its classes, or for as many wide rows as have 2^20 weights,
 * and an agreement. */
xsm_status xsmi_model_squared_norm(const xsm_model *m, double *norm, xsm_error *err);

/* Returns the type of the weights, an XSM_DTYPE_* value. */
static inline int32_t xsmi_model_dtype(const xsm_model *m)
{
    const xsm_model *own = m->part.own ? m->part.own : m;
    return xsmi_weights_dtype(&own->w);
}
/* Copies all but the weights to a model of the same shape; from a divided model to one that is divided in the same way,
 * where it copies only this process's part. (convert.c) */
xsm_status xsmi_model_copy_rest(const xsm_model *from, xsm_model *to, xsm_error *err);
/* Returns the weights of the first layer's vectors: those of the output layer if they are tied; NULL without a first
 * layer. */
static inline const xsmi_weights *xsmi_model_vectors(const xsm_model *m)
{
    return !m->layer ? NULL : m->layer->tied ? &m->w : &m->layer->w;
}

/* Returns the number of weights that are stored, and sets *bytes to their bytes. */
uint64_t xsmi_model_stored(const xsm_model *m, uint64_t *bytes);

/* Returns the floats of a row's hidden vector; 0 without a first layer. */
static inline uint32_t xsmi_model_hidden_floats(const xsm_model *m)
{
    return m->layer ? m->features : 0;
}

/* Returns D of the rows that the model accepts. */
static inline uint32_t xsmi_model_input(const xsm_model *m)
{
    return m->layer ? m->layer->features : m->features;
}

/* Returns D of the rows before the model's transform. (model_transform.c) */
uint32_t xsmi_model_input_features(const xsm_model *m);

/* Which part of a tensor [lines, width] this process has of a divided model: all of it, the lines of its classes, or
 * the columns of its classes, to which the padding of the lines belongs on the last process. */
typedef struct xsmi_division {
    enum { XSMI_UNDIVIDED, XSMI_LINES, XSMI_COLUMNS } by;
    size_t stride; /* with columns: this process's data are [lines][stride] */
} xsmi_division;
/* Returns how a tensor with a line or a column for each class is divided; neither: it is not. (class_parts.c) */
xsmi_division xsmi_model_division(const xsm_model *m, bool lines, bool columns, size_t stride);
/* Returns the part of tensor t that this process has: some lines of `line` bytes or, without `lines`, some columns of
 * `line` bytes, of which each line has t->shape[1] with its padding. */
xsmi_tensor_part xsmi_model_division_part(const xsm_model *m, const xsmi_tensor *t, bool lines, size_t line);

/* What a checkpoint has besides a model: tensors named "state.*" with their data, and metadata under "checkpoint" and
 * "checkpoint.*". */
typedef struct xsmi_model_extras {
    const xsmi_tensor *tensors;
    const xsmi_division *divisions; /* [tensor_count] */
    size_t tensor_count;
    const xsmi_entry *metadata;
    size_t metadata_count;
} xsmi_model_extras;

/* Like xsm_model_save(), but saves weights and scales as they are in memory, so that a run can continue with the same
 * bits, and the run's other state. xsm_model_load() accepts the file as a model. (model_save.c) */
xsm_status xsmi_model_save_state(const xsm_model *m, const xsmi_place *place, const xsmi_model_extras *extras,
                                 xsm_error *err);
/* Copies weights, scales and bias from a model that was loaded from such a file into one of the same shape, in any
 * layout (feature-major: without row scales); `row_length` [K] and `row_age` [K] may both be NULL. On failure nothing
 * has changed. With a divided model, the processes agree before anything changes, and `m` gets this process's classes.
 * (model_state.c) */
xsm_status xsmi_model_restore(xsm_model *m, const xsm_model *from, const double *row_length, const uint64_t *row_age,
                              xsm_error *err);

/* Sets the head of a model, to which it takes a reference, and that of a divided model's part; NULL: none. */
void xsmi_model_set_head(xsm_model *m, xsmi_head *h);
/* Sets a head that training needs; NULL leaves the model's as it is. */
static inline void xsmi_model_take_head(xsm_model *m, xsmi_head *h)
{
    if (h) {
        xsmi_model_set_head(m, h);
    }
}
/* Sets the calibration of a model, and that of a divided model's part. */
static inline void xsmi_model_put_calibration(xsm_model *m, xsmi_calibration c)
{
    m->calibration = c;
    if (m->part.own) {
        m->part.own->link = m->link;
        m->part.own->calibration = c;
    }
}
/* Removes the calibration, because the scores are about to change. */
static inline void xsmi_model_drop_calibration(xsm_model *m)
{
    xsmi_model_put_calibration(m, xsmi_calibration_of_link(m->link));
}
/* Removes the calibration, and sets the link that the scores will have. */
static inline void xsmi_model_put_link(xsm_model *m, int32_t link)
{
    m->link = link;
    xsmi_model_drop_calibration(m);
}
/* Fails if the model cannot have a calibration with this method. */
xsm_status xsmi_model_check_calibratable(const xsm_model *m, int32_t method, xsm_error *err);
/* Returns the functions of a head whose rows of weights belong to nodes; NULL if they belong to classes. */
static inline const xsmi_head_of_nodes *xsmi_model_nodes(const xsm_model *m)
{
    return m->head ? m->head->kind->nodes : NULL;
}
/* Returns the width of the beam that searches the model's classes, at most all: `wanted`, or for 0 the usual one. 0 for
 * a model that is searched so only on request. */
static inline uint32_t xsmi_model_beam(const xsm_model *m, uint32_t wanted)
{
    const uint32_t usual = xsmi_model_nodes(m) ? xsmi_model_nodes(m)->beam : 0, width = wanted ? wanted : usual;
    return usual ? XSMI_MIN(width, m->classes) : 0;
}
/* Refuses a model that an index cannot search: a score must be the product of a class's weights with the features, plus
 * at most a number of the class. */
xsm_status xsmi_model_need_products(const xsm_model *m, const char *what, xsm_error *err);
/* Returns the model's label trees, or NULL. */
static inline const xsmi_label_trees *xsmi_model_trees(const xsm_model *m)
{
    return m->head ? m->head->labels : NULL;
}
/* Returns the tree that the model's correction has, or NULL. */
static inline const xsmi_tree *xsmi_model_drawn_tree(const xsm_model *m)
{
    return m->head ? m->head->tree : NULL;
}
/* Returns the model's hierarchy, or NULL. */
static inline const xsmi_class_tree *xsmi_model_hierarchy(const xsm_model *m)
{
    return m->head ? m->head->hierarchy : NULL;
}
/* Returns XSM_LINK_SIGMOID if each class has a probability by itself, XSM_LINK_SOFTMAX if those of all classes sum to
 * one. */
static inline int32_t xsmi_model_link(const xsm_model *m)
{
    const xsmi_label_trees *trees = xsmi_model_trees(m);
    return trees && !xsmi_label_sums_to_one(trees) ? XSM_LINK_SIGMOID : m->link;
}
/* Returns the best order of the weights: feature-major if every class of sparse rows is scored. */
static inline int32_t xsmi_layout_for(bool every, bool sparse)
{
    return every && sparse ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR;
}
/* The same for a model, whose weights may have to be class-major. */
static inline int32_t xsmi_model_layout_for(const xsm_model *m, bool every, bool sparse)
{
    return xsmi_layout_for(every, sparse && m->score == XSM_GEOMETRY_LINEAR);
}
/* Returns feature-major weights whose lines a sparse row's scores sum; otherwise NULL. */
static inline const xsmi_weights *xsmi_model_feature_lines(const xsm_model *m)
{
    return m->w.layout == XSM_LAYOUT_FEATURE_MAJOR && !m->layer && !m->part.own ? &m->w : NULL;
}
/* Whether a step on some classes changes their rows of weights and nothing else. */
static inline bool xsmi_model_steps_apart(const xsm_model *m)
{
    return !m->layer && xsmi_model_weights(m)->w.layout == XSM_LAYOUT_CLASS_MAJOR;
}
/* Whether scores of dense rows and steps on them are products of matrices. */
static inline bool xsmi_model_has_products(const xsm_model *m)
{
    return m->w.layout == XSM_LAYOUT_CLASS_MAJOR && m->score == XSM_GEOMETRY_LINEAR;
}
/* Whether a model's scores are those of its weights, without a head. */
static inline bool xsmi_model_is_plain(const xsm_model *m)
{
    return !m->head;
}
/* Whether scores of dense rows, or of hidden vectors, are products with the weights alone: no head, no row scales. */
static inline bool xsmi_model_multiplies(const xsm_model *m, bool sparse)
{
    return xsmi_model_is_plain(m) && !m->part.own && xsmi_model_has_products(m) && (m->layer || !sparse) &&
           !m->w.row_scale;
}
/* Whether scores are products of rows with weights: no head, no hidden vectors, no distances. */
static inline bool xsmi_model_is_linear(const xsm_model *m)
{
    return xsmi_model_is_plain(m) && !m->layer && m->score == XSM_GEOMETRY_LINEAR;
}

/* -- for the model floor itself ------------------------------------------------------------------------------------ */

/* Makes a class-major model without weights, for a loader to fill. xsm_model_free() accepts it at any stage. */
xsm_status xsmi_model_new_empty(xsm_context *context, uint32_t features, uint32_t classes, xsm_model **out,
                                xsm_error *err);
/* Releases weights and bias, or their mapping unless the host's tensors are in it, too. If bytes replaced a mapping,
 * the caller tells their lender. */
void xsmi_model_release_weights(xsm_model *m);

/* Make a linear model without bias from sparse weights, one row for each class; and a model of label trees, whose parts
 * fit each other and which have the same features and classes (label_trees.c). They take references. */
xsm_status xsmi_model_of_sparse(xsm_context *ctx, xsmi_sparse *weights, xsm_model **out, xsm_error *err);
xsm_status xsmi_model_of_label_trees(xsm_context *ctx, int32_t link, const xsmi_label_tree *trees, uint32_t count,
                                     xsm_model **out, xsm_error *err);

/* xsm_model_set_class_map() for a model whose transform is set later: the map's features are not counted. */
xsm_status xsmi_model_put_class_map(xsm_model *m, const xsm_class_map *map, xsm_error *err);
/* Refuses counts of training rows that no file could hold; NULL: no counts. (classes.c) */
xsm_status xsmi_model_check_counts(const uint64_t *counts, uint32_t classes, uint64_t rows, xsm_error *err);
/* Releases labels and names. (classes.c) */
void xsmi_model_clear_classes(xsm_model *m);
/* Releases the transform. (model_transform.c) */
void xsmi_model_clear_transform(xsm_model *m);
/* Releases the metadata. (classes.c) */
void xsmi_model_clear_metadata(xsm_model *m);

#endif
