/*
 * Internals of a dataset, for higher floors that read rows in their inner loops.
 */
#ifndef XSMI_DATASET_H
#define XSMI_DATASET_H

#include "base/activity.h"
#include "base/base.h"
#include "base/counted.h"
#include "base/file.h"
#include "base/lender.h"

#include <xsoftmax/dataset.h>

#include <stdatomic.h>

/* The class map. */
typedef struct xsmi_dataset_map {
    int64_t *labels;  /* [classes], NULL = the class number */
    char **names;     /* [classes] or NULL; they lie in `text` */
    uint64_t *counts; /* [classes] rows that carry the class */
    char *text;
    size_t text_size;
} xsmi_dataset_map;

/* Counts that xsmi_dataset_count_*() renew when the contents change; dropped_features is counted when reading. */
typedef struct xsmi_dataset_counts {
    uint64_t labels, unlabelled, empty, unseen_rows, unseen_labels, dropped_features;
} xsmi_dataset_counts;

/* A hash of the contents, once it is known. Threads that share a dataset may compute it at the same time; all get the
 * same value. */
typedef struct xsmi_dataset_hash {
    _Atomic uint32_t high, low;
    atomic_bool known;
} xsmi_dataset_hash;

enum { XSMI_HASH_FEATURES, XSMI_HASH_LABELS, XSMI_HASH_WHOLE, XSMI_HASHES };

struct xsm_dataset {
    xsmi_holders holders;
    xsm_context *context;
    uint64_t rows;
    uint32_t features;
    uint32_t classes;
    bool sparse;
    bool transformed; /* the features are no longer those of the schema */
    int32_t format;
    struct xsmi_schema *schema; /* what the features are (a reference), or NULL: schema.h */
    uint32_t unknown_features;  /* features of the file that the class map lacks, counted when reading */
    uint32_t unseen_classes;    /* labels of the file that the class map lacks, each counted once */

    /* Features: dense rows `stride` floats apart, or CSR. Of a divided dataset, values and index are of this process's
     * rows alone. */
    const float *values;
    size_t stride;
    const uint64_t *offsets; /* [rows+1], NULL when dense */
    const uint32_t *index;
    /* Labels, always with internal offsets. */
    const uint64_t *label_offsets; /* [rows+1] */
    const uint32_t *labels;
    const float *weights;       /* [rows] of the rows, finite and at least 0; NULL = 1 each */
    const float *label_weights; /* of the labels, in their order; likewise */
    xsmi_dataset_map map;
    /* Files that hold borrowed arrays, released with the dataset: a cache, or spooled arrays. */
    struct {
        xsmi_mapping files[5];
        size_t count;
    } mapped;
    /* Elements allocated for each array of features, labels and weights; 0 = the caller's array. */
    struct {
        size_t values, index, offsets, labels, label_offsets, weights, label_weights;
    } capacity;
    xsmi_lender lender; /* is told when no array is borrowed any more */
    xsmi_dataset_counts counted;
    double total_weight;                   /* counted with the labels */
    uint64_t edits;                        /* see xsmi_dataset_edited() */
    xsmi_dataset_hash hashes[XSMI_HASHES]; /* fingerprint.c */
};

XSMI_COUNTED(dataset)

/* Notes that rows, labels, weights or classes have changed; to be called after each change. */
static inline void xsmi_dataset_edited(xsm_dataset *d)
{
    d->edits++;
    for (int i = 0; i < XSMI_HASHES; i++) {
        atomic_store_explicit(&d->hashes[i].known, false, memory_order_relaxed);
    }
}

/* A row's features and labels as a small view. */
typedef struct xsmi_features {
    const float *values;
    const uint32_t *index; /* NULL = dense */
    size_t count;
} xsmi_features;

static inline xsmi_features xsmi_dataset_features(const xsm_dataset *d, uint64_t row)
{
    xsmi_features f;
    if (d->sparse) {
        uint64_t start = d->offsets[row];
        f.values = d->values + start;
        f.index = d->index + start;
        f.count = (size_t)(d->offsets[row + 1] - start);
    } else {
        f.values = d->values + row * d->stride;
        f.index = NULL;
        f.count = d->features;
    }
    return f;
}

static inline const uint32_t *xsmi_dataset_labels(const xsm_dataset *d, uint64_t row, size_t *count)
{
    *count = (size_t)(d->label_offsets[row + 1] - d->label_offsets[row]);
    return d->labels + d->label_offsets[row];
}

static inline double xsmi_dataset_weight(const xsm_dataset *d, uint64_t row)
{
    return d->weights ? (double)d->weights[row] : 1;
}

/* Returns the weights of a row's labels, or NULL if each is 1. */
static inline const float *xsmi_dataset_label_weights(const xsm_dataset *d, uint64_t row)
{
    return d->label_weights ? d->label_weights + d->label_offsets[row] : NULL;
}

/* For rows of one label each: whether they have weights; and the weight of a row times its label's. */
static inline bool xsmi_dataset_has_weights(const xsm_dataset *d)
{
    return d->weights || d->label_weights;
}

static inline double xsmi_dataset_whole_weight(const xsm_dataset *d, uint64_t row)
{
    const bool labelled = d->label_weights && d->label_offsets[row + 1] > d->label_offsets[row];
    return xsmi_dataset_weight(d, row) * (labelled ? (double)d->label_weights[d->label_offsets[row]] : 1);
}

/* Returns a hash of rows, labels, weights and classes: equal for equal datasets, different for others except for one
 * pair in 2^64. O(size), at memory speed, the first time; then it is kept until the dataset changes. The result has no
 * meaning in a cancelled call. (fingerprint.c) */
uint64_t xsmi_dataset_fingerprint(const xsm_dataset *d);
/* As xsmi_dataset_fingerprint(), of the shape and the features alone; and of all but the features. */
uint64_t xsmi_dataset_hash_features(const xsm_dataset *d);
uint64_t xsmi_dataset_hash_labels(const xsm_dataset *d);

/* Returns the bytes of the rows if they are in files, 0 if they are in memory. */
size_t xsmi_dataset_mapped_bytes(const xsm_dataset *d);
/* Called by a pass over all rows, in any order, after the rows first..first+count. Now and then it releases mapped
 * pages that the pass no longer needs, so that data may be larger than memory. */
void xsmi_dataset_passed(const xsm_dataset *d, uint64_t first, uint64_t count);
/* Call after work on `numbers` more numbers: polls now and then. *since starts at 0. */
xsm_status xsmi_dataset_worked(const xsm_context *ctx, size_t *since, size_t numbers, xsm_error *err);

struct xsmi_stream;
/* Fills order[N] with the order of the rows in an epoch. */
xsm_status xsmi_dataset_order(const xsm_dataset *d, struct xsmi_stream *stream, uint64_t *order, xsm_error *err);
/* Returns the bytes of the rows if their file is so large that it decides the order, else 0. */
size_t xsmi_dataset_order_bytes(const xsm_dataset *d);

/* Reads a caller's map and checks its labels and names. (match.c) */
xsm_status xsmi_class_map_read(const xsm_class_map *given, xsm_class_map *map, xsm_error *err);
/* Sets match[k] to the class of `to` that equals class k of `from`, each once, or XSM_CLASS_UNSEEN; xsm_class_map says
 * which are equal. (match.c) */
xsm_status xsmi_class_match(xsm_context *ctx, const xsm_class_map *from, const xsm_class_map *to, uint32_t *match,
                            xsm_error *err);
/* Refuses rows, which the message calls `what`, if one of their classes has another label or name than in the model. A
 * map without labels and names says nothing of its classes. O(K). (match.c) */
xsm_status xsmi_class_check(const xsm_class_map *rows, const char *what, const xsm_class_map *model, xsm_error *err);

typedef struct xsmi_feature_pair {
    uint32_t lower, higher;
} xsmi_feature_pair;

/* The parts of a fitted transform, which a model stores. */
typedef struct xsmi_transform_parts {
    const char *description;        /* that it was made from, in its normal form */
    uint32_t features;              /* D that it was fitted for */
    const float *idf;               /* [idf_count]; NULL without tfidf */
    const double *standard;         /* [2, columns] means and scales; NULL without standard */
    const xsmi_feature_pair *pairs; /* [pair_count], rising; NULL without products */
    uint32_t idf_count, columns, pair_count;
} xsmi_transform_parts;

/* Returns the parts, borrowed from the transform. */
xsmi_transform_parts xsmi_transform_get_parts(const xsm_transform *t);
/* Makes a fitted transform from its stored parts, which are checked and copied. */
xsm_status xsmi_transform_restore(xsm_context *ctx, const xsmi_transform_parts *parts, xsm_transform **out,
                                  xsm_error *err);
/* Whether two fitted transforms make the same rows; NULL makes none. */
bool xsmi_transform_equal(const xsm_transform *a, const xsm_transform *b);
bool xsmi_transform_is_fitted(const xsm_transform *t);
uint32_t xsmi_transform_features(const xsm_transform *t);
/* Whether rows may get more features: no step depends on which there are. */
bool xsmi_transform_may_grow(const xsm_transform *t);
/* Makes a copy for rows of `features` features, at least as many as before. A new feature gets the largest idf weight
 * that there is, that of a feature in the fewest rows, the mean 0 and the median of the scales. */
xsm_status xsmi_transform_grown(const xsm_transform *t, uint32_t features, xsm_transform **out, xsm_error *err);
const char *xsmi_transform_description(const xsm_transform *t);
/* Returns the D of transformed rows. */
uint32_t xsmi_transform_output_features(const xsm_transform *t);
/* Sets *room to the elements that the arrays of a row of `count` features must have for xsmi_transform_row(). */
xsm_status xsmi_transform_row_room(const xsm_transform *t, size_t count, size_t *room, xsm_error *err);
/* Transforms one row in place, as xsm_transform_apply() does those of a dataset: features index[0..count), rising and
 * below the transform's D, in arrays of xsmi_transform_row_room() elements. */
xsm_status xsmi_transform_row(const xsm_transform *t, uint32_t *index, float *values, size_t *count, xsm_error *err);

/* -- for the data floor itself ------------------------------------------------------------------------------------- */

/* Makes an empty dataset for a constructor to fill; xsm_dataset_free() releases it at any stage. */
xsm_status xsmi_dataset_start(xsm_context *ctx, xsm_dataset **out, xsm_error *err);
/* Allocates an array of d and sets its capacity, at least 1, as a capacity of 0 means that the array is the caller's.
 * Does nothing when *status is already a failure, so that several calls need one check. */
void *xsmi_dataset_allocate(xsm_dataset *d, uint64_t count, size_t each, size_t *capacity, xsm_status *status,
                            xsm_error *err);
/* Gives a new dataset its classes: counts of zero, copies of labels and names (either may be NULL). */
xsm_status xsmi_dataset_set_classes(xsm_dataset *d, uint32_t classes, const int64_t *labels, const char *const *names,
                                    xsm_error *err);
/* The same for a dataset that has classes already; unchanged on failure. */
xsm_status xsmi_dataset_replace_classes(xsm_dataset *d, uint32_t classes, const int64_t *labels,
                                        const char *const *names, xsm_error *err);
/* Replaces the classes of a dataset; old class k becomes class_of[k], and its labels go if that is
 * XSMI_CLASS_DROPPED. Unchanged on failure. (edit.c) */
#define XSMI_CLASS_DROPPED (XSM_CLASS_UNSEEN - 1)
xsm_status xsmi_dataset_renumber(xsm_dataset *d, const uint32_t *class_of, uint32_t classes, const int64_t *labels,
                                 const char *const *names, xsm_error *err);
/* Makes and fills the arrays of features, labels and weights for `count` rows of `from`, in that order. */
xsm_status xsmi_dataset_gather(xsm_dataset *d, const xsm_dataset *from, const uint64_t *rows, uint64_t count,
                               xsm_error *err);
/* Moves the rows, with their labels and weights, from `from`, which has none afterwards. */
void xsmi_dataset_move_rows(xsm_dataset *d, xsm_dataset *from);
/* Replaces the requested arrays of the caller by copies: all or none. */
enum { XSMI_OWN_VALUES = 1, XSMI_OWN_INDEX = 2, XSMI_OWN_LABELS = 4, XSMI_OWN_WEIGHTS = 8, XSMI_OWN_ALL = 15 };
xsm_status xsmi_dataset_own(xsm_dataset *d, unsigned which, xsm_error *err);
/* For a loop over rows that must run to its end: polls now and then so that the hook is called, and ignores whether it
 * cancels. The context is that of the call; the rows may have another. */
static inline void xsmi_dataset_poll(const xsm_context *ctx, uint64_t row)
{
    if (row % 4096 == 0) {
        (void)xsmi_poll(ctx);
    }
}
/* Tells the lender if no array is borrowed any more; to be called after arrays were copied. */
void xsmi_dataset_let_go(xsm_dataset *d);
/* Features of a dataset's rows, in arrays with a capacity of at least 1. */
typedef struct xsmi_feature_arrays {
    float *values;
    uint32_t *index;   /* of sparse rows */
    uint64_t *offsets; /* of sparse rows; NULL: those of the dataset stay */
    size_t stride, value_capacity, index_capacity, offset_capacity;
} xsmi_feature_arrays;
/* Puts the arrays in place of the dataset's, which are released. */
void xsmi_dataset_take_features(xsm_dataset *d, const xsmi_feature_arrays *arrays);
void xsmi_feature_arrays_free(xsm_context *ctx, const xsmi_feature_arrays *arrays);
/* Refuses a weight that is not finite, or is below 0; `what` says whose weights. */
xsm_status xsmi_check_weights(const float *weights, uint64_t count, const char *what, xsm_error *err);
/* Replaces the weights of the rows, or of the labels, by an array of xsmi_dataset_allocate(), or by none. */
void xsmi_dataset_take_weights(xsm_dataset *d, float *weights, size_t capacity);
void xsmi_dataset_take_label_weights(xsm_dataset *d, float *weights, size_t capacity);
/* Renew the counts that xsm_dataset_info has: of the weights, of rows and features, of labels and weights. */
void xsmi_dataset_count_weights(xsm_dataset *d);
void xsmi_dataset_count_features(xsm_dataset *d);
void xsmi_dataset_count_labels(xsm_dataset *d);
/* As xsmi_dataset_count_labels(), for labels that are not checked yet: refuses one that is not below the number of
 * classes or occurs twice in its row. `name` is the file's; NULL: the labels are the host's. */
xsm_status xsmi_dataset_check_labels(xsm_dataset *d, const char *name, xsm_error *err);
bool xsmi_dataset_row_is_empty(const xsm_dataset *d, uint64_t row);
/* Returns the floats from row to row in the dataset's own memory: whole cache lines where that costs little. */
size_t xsmi_dataset_stride(uint32_t features);

/* Return an array, for writing, that the dataset is known to own. */
static inline float *xsmi_dataset_own_values(const xsm_dataset *d)
{
    return (float *)(uintptr_t)d->values;
}
static inline uint32_t *xsmi_dataset_own_index(const xsm_dataset *d)
{
    return (uint32_t *)(uintptr_t)d->index;
}
static inline uint64_t *xsmi_dataset_own_offsets(const xsm_dataset *d)
{
    return (uint64_t *)(uintptr_t)d->offsets;
}
static inline float *xsmi_dataset_own_label_weights(const xsm_dataset *d)
{
    return (float *)(uintptr_t)d->label_weights;
}
static inline float *xsmi_dataset_own_weights(const xsm_dataset *d)
{
    return (float *)(uintptr_t)d->weights;
}
static inline uint32_t *xsmi_dataset_own_labels(const xsm_dataset *d)
{
    return (uint32_t *)(uintptr_t)d->labels;
}
static inline uint64_t *xsmi_dataset_own_label_offsets(const xsm_dataset *d)
{
    return (uint64_t *)(uintptr_t)d->label_offsets;
}

/* Returns the class of a label that is a number: its position in labels[], which rise, or the label itself if labels is
 * NULL. XSM_CLASS_UNSEEN if there is none. */
uint32_t xsmi_class_of_number(const int64_t *labels, uint32_t classes, int64_t label);

#endif
