/* SPDX-License-Identifier: MIT */
/**
 * @file model.h
 * @brief Models: parameters that score classes, in memory and on disk.
 */
#ifndef XSOFTMAX_MODEL_H
#define XSOFTMAX_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/dataset.h>
#include <xsoftmax/dtype.h>
#include <xsoftmax/storage.h>

/** @defgroup model Models
 *
 * A linear model computes scores (logits) z_k = w_k . x + b_k of a row x for each class k, with weights W (K rows of D
 * float32) and an optional bias b. All parameters start at zero.
 *
 * An **embedding model** has a vector v_j of H floats for each of its F features. It scores the hidden vector phi of a
 * row instead of the row itself: phi = activation(sum_j x_j v_j) and z_k = w_k . phi + b_k. The sum is over the
 * features that the row lists; it may be divided by their number (the mean). Typical rows are bags of words, sets of
 * bought items, or an entity and a relation. The vectors start with random values, W and b at zero. Estimators,
 * samplers, indexes, training, prediction and evaluation work as for linear models. A step changes only the vectors of
 * the features of its rows.
 *
 * **On disk** a model is one safetensors file, with a float32 tensor `weight` [K,D] unless its weights are sparse or in
 * fewer bits; the page on file formats says all that is in it. A checksum of all tensors and metadata stays right when
 * another program saves them again unchanged. Saving replaces the file atomically; loading maps it instead of reading
 * it. A safetensors file of another program with a `weight` and an optional `bias`, such as that of a PyTorch `Linear`
 * layer, can be loaded too; as it has no version and checksum, only its structure is checked.
 *
 * **Threads.** Several threads may call functions that take a const model at the same time. While a model is trained,
 * nothing else may use it.
 *  @{ */

/** A model; opaque. */
typedef struct xsm_model xsm_model;

/** Order of the weights in memory. Files always contain [K,D]. */
enum {
    XSM_LAYOUT_CLASS_MAJOR = 0,   /**< The weights of a class are contiguous: best for sampled estimators and dense
                                       features. */
    XSM_LAYOUT_FEATURE_MAJOR = 1, /**< The weights of a feature are contiguous: best for full scoring of sparse
                                       features. */
    XSM_LAYOUT_SPARSE_ROWS = 2    /**< Only weights that are not zero: of models that xsm_model_prune() makes, of label
                                       trees, and of their files. Such models score, predict and are evaluated, and
                                       cannot be trained. */
};

/** Settings of a new model. Start with #XSM_MODEL_OPTIONS_INIT. */
typedef struct xsm_model_options {
    size_t size;    /**< sizeof(xsm_model_options). */
    int32_t bias;   /**< 1 = with a bias, 0 = without. */
    int32_t layout; /**< An XSM_LAYOUT_* value. */
} xsm_model_options;

/** Starting value of an #xsm_model_options: without bias, class-major. */
#define XSM_MODEL_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(xsm_model_options), 0, 0                                                                                \
    }

/** Which weights xsm_model_prune() keeps. Start with #XSM_PRUNE_OPTIONS_INIT. */
typedef struct xsm_prune_options {
    size_t size;       /**< sizeof(xsm_prune_options). */
    double below;      /**< Weights with a smaller absolute value are left out, 0 or above; with 0 only zeros are. */
    uint32_t keep;     /**< Weights of each class to keep at most: those of the largest absolute values, of equal ones
                            those of the smaller features; 0 = any number. */
    uint32_t reserved; /**< Zero. */
} xsm_prune_options;

/** Starting value of an #xsm_prune_options. */
#define XSM_PRUNE_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(xsm_prune_options), 0, 0, 0                                                                             \
    }

/** Geometry of a model: the definition of a class's score. */
enum {
    XSM_GEOMETRY_LINEAR = 0, /**< z_k = w_k . phi + b_k. */
    /** z_k = w_k . phi - ||w_k||^2/2 = (||phi||^2 - ||phi - w_k||^2)/2: the nearest class scores highest. */
    XSM_GEOMETRY_EUCLIDEAN = 1
};

/** How scores become probabilities without a calibration (xsm_model_set_link()). */
enum {
    XSM_LINK_SOFTMAX = 0, /**< exp(z_k) / sum_j exp(z_j): one class is right. */
    /** 1/(1 + exp(-z_k)): each class is right or not, whatever the others are. */
    XSM_LINK_SIGMOID = 1
};

/** Function that is applied to the pooled vectors of a row. */
enum {
    XSM_ACTIVATION_IDENTITY = 0, /**< No change: the model is linear in the row, with weights of rank H at most. */
    XSM_ACTIVATION_RELU = 1,     /**< max(0, s). */
    XSM_ACTIVATION_TANH = 2      /**< tanh(s). */
};

/** How the vectors of a row are pooled. */
enum {
    XSM_POOL_SUM = 0,  /**< sum_j x_j v_j. */
    XSM_POOL_MEAN = 1, /**< The sum divided by the number of features that the row lists (F for a dense row). */
    /** The sum divided by sum_j |x_j|, if that is not 0: of counts, the mean over all words of a row, as in fastText.
     */
    XSM_POOL_WEIGHTED_MEAN = 2
};

/** Largest length of a hidden vector. */
#define XSM_HIDDEN_MAX 65536

/** Settings of a new embedding model. Start with #XSM_EMBEDDING_OPTIONS_INIT. */
typedef struct xsm_embedding_options {
    size_t size;        /**< sizeof(xsm_embedding_options). */
    int32_t bias;       /**< 1 = with a bias, 0 = without. */
    int32_t activation; /**< An XSM_ACTIVATION_* value. */
    int32_t pool;       /**< An XSM_POOL_* value. */
    int32_t tied;       /**< 1 = one set of vectors, v_j = w_j, for data in which features and classes are the same
                             things, such as words or bought items. F must equal K, and W starts with random values. */
    uint64_t seed;      /**< Seed of the random initial values, below 2^63; 0 is a seed, too. */
    /** Initial values are uniform in [-scale, scale], 0 to 1e6; #XSM_DEFAULT = sqrt(3/H), for which the mean squared
     *  norm of a vector is 1. With 0 all are 0, for a host that sets them. */
    double scale;
} xsm_embedding_options;

/** Starting value of an #xsm_embedding_options: without bias, identity, sum, not tied. */
#define XSM_EMBEDDING_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(xsm_embedding_options), 0, 0, 0, 0, 0, XSM_DEFAULT                                                      \
    }

/** How to load a model. Start with #XSM_LOAD_OPTIONS_INIT. */
typedef struct xsm_load_options {
    size_t size;         /**< sizeof(xsm_load_options). */
    int32_t skip_verify; /**< 1 = do not verify the checksum, so that loading reads no weights. */
    int32_t copy;        /**< 1 = read everything into memory of the context, in place of mapping the file: then it may
                              change, and no access to a weight waits for a disk. */
} xsm_load_options;

/** Starting value of an #xsm_load_options. */
#define XSM_LOAD_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_load_options), 0, 0                                                                                 \
    }

/** Raw parameters, to read and write. The weight of class k and feature j is `weight[k*class_step + j*feature_step]`.
 *  Start with #XSM_PARAMETERS_INIT. */
typedef struct xsm_parameters {
    size_t size;   /**< sizeof(xsm_parameters). */
    float *weight; /**< The weights; NULL if `dtype` is not #XSM_DTYPE_FLOAT32 or `layout` is neither class-major nor
                        feature-major. Such weights cannot be written; xsm_model_get_view() shows them, and
                        xsm_model_score_range() scores with them. A program should check for NULL, as a model may
                        be sparse, or in fewer bits (xsm_model_convert() in stored_weights.h). */
    float *bias;   /**< [K], or NULL. */
    size_t class_step;   /**< Numbers from one class to the next. */
    size_t feature_step; /**< Numbers from one feature to the next. */
    uint32_t classes;    /**< K. */
    uint32_t features;   /**< D; H of an embedding model. */
    int32_t dtype;       /**< An XSM_DTYPE_* value. */
    int32_t layout;      /**< An XSM_LAYOUT_* value. */
} xsm_parameters;

/** Starting value of an #xsm_parameters. */
#define XSM_PARAMETERS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_parameters), NULL, NULL, 0, 0, 0, 0, 0, 0                                                           \
    }

/** What a model adds to the scores of its weights: xsm_model_info::correction. */
enum {
    XSM_CORRECTION_NONE = 0,      /**< Nothing. */
    XSM_CORRECTION_CLASSES = 1,   /**< One number for each class. */
    XSM_CORRECTION_TREE = 2,      /**< log q of a tree over the classes. */
    XSM_CORRECTION_SAMPLER = 3,   /**< log q of another sampler that depends on the row, a host's or `label-tree`;
                                       xsm_model_save() refuses such a model. */
    XSM_CORRECTION_HIERARCHY = 4, /**< Rows of weights are those of the nodes of a tree. */
    XSM_CORRECTION_PAIRS = 5      /**< One number for each feature and class that occur together (experimental.h). */
};

/** Facts about a model. Start with #XSM_MODEL_INFO_INIT. Texts are valid until the model changes. */
typedef struct xsm_model_info {
    size_t size;       /**< sizeof(xsm_model_info). */
    uint32_t classes;  /**< K. */
    uint32_t features; /**< D, the number of features of the rows that the model scores (after its transform); F of
                            an embedding model. */
    uint32_t input_features; /**< D of the rows before the model's transform. */
    int32_t bias;            /**< 1 = with a bias, 0 = without. */
    int32_t layout;          /**< An XSM_LAYOUT_* value. */
    int32_t geometry;        /**< An XSM_GEOMETRY_* value. */
    const char *transform; /**< Description of the model's transform, as for xsm_transform_new(); "" if it has none. */
    const char *const *metadata_keys; /**< [metadata_count] keys of the metadata, in alphabetic order. */
    uint64_t metadata_count;          /**< Entries of the metadata. */
    /** H of an embedding model; 0 for a linear model, whose members below are zero, too. They are the options that an
     *  embedding model was made with; the defaults for a model from a file of another program. */
    uint32_t hidden;
    int32_t activation; /**< An XSM_ACTIVATION_* value. */
    int32_t pool;       /**< An XSM_POOL_* value. */
    int32_t tied;       /**< 1 = the vectors of features and classes are the same. */
    uint64_t seed;      /**< Seed of the random initial values. */
    double scale;       /**< Bound of the random initial values. */
    uint64_t weights;   /**< Weights of classes or nodes that are stored: K D (K H), or those of sparse weights. */
    uint64_t bytes;     /**< Bytes of these weights, with the positions of sparse ones, without the bias. */
    uint32_t trees;     /**< Trees of a label tree; 0 for other models. */
    /** The correction: what the model adds to the scores of its weights. Training with `negative-sampling` and classes
     *  drawn from p_n has a bias: the scores of the softmax are those of the weights plus log p_n(k|x) (Bamler, Mandt
     *  2020, eq. 5). Such a model stores p_n, saves and loads it with the weights, and adds log p_n(k|x) to every
     *  score; probabilities and metrics include it. A model trained by `hierarchical` stores its tree in the same way:
     *  its rows of weights are those of inner nodes, and its scores are log p(k|x), which the tree computes from them.
     *
     *  An XSM_CORRECTION_* value; a later release may have others. */
    int32_t correction;
    int32_t dtype;       /**< Type of the weights, an XSM_DTYPE_* value (xsm_model_convert() in stored_weights.h). */
    int32_t link;        /**< An XSM_LINK_* value; of a label tree #XSM_LINK_SOFTMAX where its probabilities sum to
                              one. */
    const char *release; /**< Release of the library that wrote the file which the model was loaded from; "" for a
                              model from no file, or from one of another program. */
    uint32_t format_version; /**< Version of the format of that file; 0 likewise. */
    uint32_t reserved;       /**< Zero. */
} xsm_model_info;

/** Starting value of an #xsm_model_info. */
#define XSM_MODEL_INFO_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_model_info), 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0        \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a linear model whose parameters are all zero.
 *  @param context  context, or NULL
 *  @param features D, 1 to #XSM_FEATURES_MAX; or 0 for a model with a bias: then z_k = b_k
 *  @param classes  K, 1 to #XSM_CLASSES_MAX
 *  @param options  settings, or NULL
 *  @param[out] out the model, the caller's to release with xsm_model_free()
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_LIMIT if K*D floats cannot be addressed; #XSM_ERROR_RANGE */
XSM_API xsm_status xsm_model_new_linear(xsm_context *context, uint32_t features, uint32_t classes,
                                        const xsm_model_options *options, xsm_model **out, xsm_error *err);
/** Makes an embedding model.
 *  @param context  context, or NULL
 *  @param features F, 1 to #XSM_FEATURES_MAX
 *  @param hidden   H, 1 to #XSM_HIDDEN_MAX
 *  @param classes  K, 1 to #XSM_CLASSES_MAX
 *  @param options  settings, or NULL
 *  @param[out] out the model, the caller's to release with xsm_model_free()
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_SHAPE for tied vectors with F not equal to K; #XSM_ERROR_UNSUPPORTED for tied vectors in
 *          a context of several processes (ext/comm.h); #XSM_ERROR_LIMIT if F*H or K*H floats cannot be addressed;
 *          #XSM_ERROR_RANGE. O((F + K) H) */
XSM_API xsm_status xsm_model_new_embedding(xsm_context *context, uint32_t features, uint32_t hidden, uint32_t classes,
                                           const xsm_embedding_options *options, xsm_model **out, xsm_error *err);
/** Gives up the caller's reference to a model; NULL is allowed. The model is released with the last one: estimators,
 *  optimizers, indexes, predictors and trainers keep references (@ref guide_errors). */
XSM_API void xsm_model_free(xsm_model *model);
/** Returns another reference to a model, which the caller gives up with xsm_model_free(); NULL for NULL. Any thread.
 *  O(1). */
XSM_API xsm_model *xsm_model_ref(const xsm_model *model);

/** Fills `info` (start it with #XSM_MODEL_INFO_INIT). O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_model_get_info(const xsm_model *model, xsm_model_info *info, xsm_error *err);
/** K. */
XSM_API uint32_t xsm_model_class_count(const xsm_model *model);
/** D, the number of features of the rows that the model scores (after its transform); F for an embedding model. */
XSM_API uint32_t xsm_model_feature_count(const xsm_model *model);

/** Sets how scores become probabilities in prediction, evaluation, thresholds and calibration. The link is saved with
 *  the model. A new model has #XSM_LINK_SOFTMAX. Training sets the link that the estimator trains for: `one-vs-all` and
 *  `one-vs-all-sampled`, and tables with #XSM_ESTIMATOR_SIGMOID, #XSM_LINK_SIGMOID; all others #XSM_LINK_SOFTMAX. An
 *  optimizer's step does so, too. So only a host that writes weights itself (xsm_model_get_parameters()) calls this.
 *  Scores stay as they are; a calibration is removed.
 *  @param model the model; no trainer may be at work on it
 *  @param link  an XSM_LINK_* value
 *  @param err   what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for #XSM_LINK_SIGMOID in a label tree, whose link is an option of its fit,
 *          and in a model of `hierarchical`; #XSM_ERROR_RANGE. O(1) */
XSM_API xsm_status xsm_model_set_link(xsm_model *model, int32_t link, xsm_error *err);

/** Removes the correction: the scores are then those of the weights alone. Without its hierarchy, a model trained by
 *  `hierarchical` has no meaningful scores of classes. NULL is allowed. O(1). */
XSM_API void xsm_model_clear_correction(xsm_model *model);

/** Makes a linear model that has the weights of another except for small ones, as #XSM_LAYOUT_SPARSE_ROWS: a model of
 *  many classes over sparse features becomes a hundredth of its size, and often loses nothing. Bias, class map,
 *  transform, correction, calibration and metadata are copied. Such a model takes some 6 bytes for each weight that is
 *  kept; a score adds in the order of the features, so that it may differ in the last bits from that of the dense
 *  model. Scoring all classes of a row costs O(K + weights of the row's features). It cannot be trained, grown,
 *  searched by an index or given pairs or distances: these functions return #XSM_ERROR_UNSUPPORTED.
 *  xsm_model_set_layout() makes a sparse model dense.
 *  @param model   a linear model with dense weights
 *  @param options which weights are kept, or NULL: all that are not zero
 *  @param[out] out the model, the caller's to release with xsm_model_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for an embedding model, scores that are distances, sparse weights, and
 *          classes that are divided among processes (@ref ext_comm); #XSM_ERROR_DIVERGED for a weight that is not
 *          finite; #XSM_ERROR_RANGE; #XSM_ERROR_LIMIT. O(K D), with `keep` O(K D log keep) */
XSM_API xsm_status xsm_model_prune(const xsm_model *model, const xsm_prune_options *options, xsm_model **out,
                                   xsm_error *err);

/** Adds classes, features, or both to a model. Existing classes keep their weights, even if their numbers change. The
 *  weights of new classes and features are zero, so scores of existing classes stay bit-identical. New features of an
 *  embedding model get the vectors that they would have in a new model with the same seed and scale: growing twice
 *  equals growing once. New words of text have features behind all that there are (xsm_read_options::new_features). A
 *  `tfidf` transform keeps its weights, and a new feature gets the largest of them, that of a feature in the fewest
 *  rows; `standard` keeps means and scales, and a new feature gets the mean 0 and the median of the scales. Tied
 *  vectors belong to features and classes alike: F must equal K, existing classes keep their numbers, and new vectors
 *  start with random values and a bias of zero. New classes of a label tree come last, at a score of about -1e4, until
 *  xsm_label_tree_options::start gives them a place. Estimators, optimizers, trainers, predictors and indexes of the
 *  model must be bound or made again, and say #XSM_ERROR_STATE until then; binding resets the sums of squares of
 *  `adagrad`.
 *  @param model    the model, with any layout; a mapped file is copied to memory
 *  @param features the new D, not less than the old; new features follow the existing ones
 *  @param classes  a class map with all classes of the model and new ones, such as that of a dataset after
 *                  xsm_dataset_extend(), which also defines which classes are the same. The model gets the labels,
 *                  names and vocabulary of the map, and adds the map's counts to its own. NULL = no new classes
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for new features if the model reads text and they are no words of the map's
 *          vocabulary, or if its transform has `truncate` or `products`, and for a model with a correction
 *          (xsm_model_clear_correction()); #XSM_ERROR_DATA for a map in which a number is another feature than in the
 *          model; #XSM_ERROR_ARGUMENT for a map that lacks a class of the model (the message names it) or changes the
 *          number of a class with tied vectors; #XSM_ERROR_SHAPE for tied vectors with F not equal to K;
 *          #XSM_ERROR_RANGE for fewer features, labels that do not increase or counts of more than INT64_MAX rows in
 *          all; #XSM_ERROR_LIMIT, also for more than 65,535 new classes of a label tree at a time. The model is
 *          unchanged on failure. O(K D), or O((K + D) H) for an embedding model; old and new model are in memory
 *          during the call. */
XSM_API xsm_status xsm_model_grow(xsm_model *model, uint32_t features, const xsm_class_map *classes, xsm_error *err);
/** Copies labels, names and counts of a class map with K classes to the model, and its vocabulary, which is saved with
 *  the model. Then read test rows and rows to predict with the class map of xsm_model_get_class_map().
 *  A model below a network of the host's own takes the map without what says of the network's features, which are not
 *  its own: vocabulary, feature_names and feature_numbers NULL.
 *  @return #XSM_OK; #XSM_ERROR_SHAPE if the map does not have K classes, names or numbers of more or fewer features
 *          than the model reads, with its transform, or words of more; #XSM_ERROR_RANGE for labels that do not
 *          increase, counts above the number of rows, more than INT64_MAX rows, counts of no rows, or an unknown index
 *          base; #XSM_ERROR_FORMAT for a name with a line end or that is not UTF-8. The model is unchanged on failure.
 *          O(K). */
XSM_API xsm_status xsm_model_set_class_map(xsm_model *model, const xsm_class_map *map, xsm_error *err);
/** Fills `map` (start it with #XSM_CLASS_MAP_INIT) with a view of the class map; its `features` is
 *  xsm_model_info::input_features. Valid until the model changes. O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_model_get_class_map(const xsm_model *model, xsm_class_map *map, xsm_error *err);
/** Stores a copy of a fitted transform in the model; it is saved with the model, and xsm_model_transform() applies it
 *  to new rows. NULL, or a transform without steps or of no features, removes the model's transform.
 *  @return #XSM_OK; #XSM_ERROR_SHAPE if the transform does not produce D features; #XSM_ERROR_STATE if it is not
 *          fitted */
XSM_API xsm_status xsm_model_set_transform(xsm_model *model, const xsm_transform *transform, xsm_error *err);
/** Applies the model's transform, if it has one, to a dataset of untransformed rows.
 *  @return as xsm_transform_apply() */
XSM_API xsm_status xsm_model_transform(const xsm_model *model, xsm_dataset *dataset, xsm_error *err);
/** Sets an entry of the file's metadata. Keys that the library writes itself are an error: `format_version`,
 *  `checksum`, `transform`, `input_features`, `index_base`, `training_rows`, `vocabulary`, `first_layer`,
 *  `geometry`, `link`, `calibration`, `sparse_features`, `label_trees` and `library`, and those that tell the
 *  kinds of files apart: `checkpoint`, `dataset`, `index` and `sampler`. A `value` of NULL removes the entry.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT for such a key; #XSM_ERROR_FORMAT for text that is not UTF-8 */
XSM_API xsm_status xsm_model_set_metadata(xsm_model *model, const char *key, const char *value, xsm_error *err);
/** An entry of the metadata, or NULL if there is none; valid until the model changes. */
XSM_API const char *xsm_model_get_metadata(const xsm_model *model, const char *key);

/** Fills `parameters` (start it with #XSM_PARAMETERS_INIT) with pointers to the weights, which the caller may read and
 *  write until the model is next trained or freed. If scores are distances, call xsm_model_set_geometry() after
 *  writing. The function first applies pending scale factors to the weights and copies a mapped file to memory;
 *  xsm_model_get_view() does neither. O(1), or O(K D) if it has to scale or copy.
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_model_get_parameters(xsm_model *model, xsm_parameters *parameters, xsm_error *err);
/** Computes the hidden vectors phi of the rows of a batch.
 *  @param model  an embedding model
 *  @param batch  n rows with the model's F
 *  @param[out] out H floats for row i, starting at out[i*stride]
 *  @param stride floats from one row to the next, >= H
 *  @param err    what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_STATE for a linear model; #XSM_ERROR_SHAPE or #XSM_ERROR_RANGE for the batch. O(nnz
 *          H) */
XSM_API xsm_status xsm_model_hidden_vectors(const xsm_model *model, const xsm_batch *batch, float *out, size_t stride,
                                            xsm_error *err);

/** Computes the scores of given classes for the rows of a batch.
 *  @param model   the model
 *  @param batch   n rows with the model's D
 *  @param classes [n][count] classes of each row
 *  @param count   number of classes for each row
 *  @param[out] scores [n][count]
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_SHAPE if the rows do not have D features; #XSM_ERROR_RANGE for a class that is not below
 *          K or a row that does not exist; #XSM_ERROR_DIVERGED if a score is not finite (the message names the row);
 *          after that and #XSM_CANCELLED `scores` are undefined. A score is bit-identical whatever other classes and
 *          rows are in the call. O(n count nnz). */
XSM_API xsm_status xsm_model_scores(const xsm_model *model, const xsm_batch *batch, const uint32_t *classes,
                                    size_t count, float *scores, xsm_error *err);
/** Computes the scores of the classes [first, first+count) for the rows of a batch, in tiles.
 *  @param model  the model
 *  @param batch  n rows with the model's D
 *  @param first  first class
 *  @param count  number of classes; first + count <= K
 *  @param[out] scores those of row i start at scores[i*stride]
 *  @param stride floats from one row to the next, >= count
 *  @param err    what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_SHAPE if the rows do not have D features or `stride` is below `count`; #XSM_ERROR_RANGE
 *          for classes or rows that do not exist; #XSM_ERROR_DIVERGED if a score is not finite (the message names the
 *          row); after that and #XSM_CANCELLED `scores` are undefined. A score is bit-identical whatever other classes
 *          and rows are in the call, but may differ in the last bits from that of xsm_model_scores(), which adds in
 *          another order. O(n count nnz), limited by arithmetic, not by memory. Each call allocates scratch memory from
 *          the context, because threads share the model: score many rows in a call. A predictor (predict.h) reuses its
 *          own scratch memory. */
XSM_API xsm_status xsm_model_score_range(const xsm_model *model, const xsm_batch *batch, uint32_t first, uint32_t count,
                                         float *scores, size_t stride, xsm_error *err);

/** Saves the model and replaces an existing file atomically: after a crash, `path` is the complete old file or the
 *  complete new one. The same model gives the same bytes, whatever its layout and pending scale factors. The weights
 *  are streamed; no second copy of them is made.
 *  @param model   the model
 *  @param path    the file, or NULL for `storage`
 *  @param storage what is written in place of a file (@ref storage), or NULL
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_DIVERGED if a weight is not finite (the message names its class and
 *          feature); #XSM_ERROR_LIMIT for more than 16 MiB of metadata; #XSM_ERROR_UNSUPPORTED on a big-endian machine.
 *          On failure an existing file is unchanged. O(K D). */
XSM_API xsm_status xsm_model_save(const xsm_model *model, const char *path, const xsm_storage *storage, xsm_error *err);
/** Loads a saved model by mapping its file. The file must not be modified in place while the model exists, unless
 *  xsm_load_options::copy is set. Replacing the file, as xsm_model_save() does, is allowed. A model over
 *  xsm_storage::bytes uses them in place and copies none of its weights.
 *  @param context context, or NULL
 *  @param path    the file, or NULL for `storage`
 *  @param storage what is read in place of a file (@ref storage), or NULL
 *  @param options settings, or NULL
 *  @param[out] out the model, the caller's to release with xsm_model_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_FORMAT (the message says what is wrong); #XSM_ERROR_CHECKSUM;
 *          #XSM_ERROR_FILE_VERSION; #XSM_ERROR_LIMIT for a header over 16 MiB; #XSM_ERROR_RANGE for the options;
 *          #XSM_ERROR_UNSUPPORTED on a big-endian machine, and for tied vectors in a context of several processes
 *          (ext/comm.h) */
XSM_API xsm_status xsm_model_load(xsm_context *context, const char *path, const xsm_storage *storage,
                                  const xsm_load_options *options, xsm_model **out, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
