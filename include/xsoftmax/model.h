/**
 * @file model.h
 * @brief Parameters that score classes, in memory and on disk.
 */
#ifndef XSOFTMAX_MODEL_H
#define XSOFTMAX_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/dataset.h>

/** @defgroup model Models
 *
 * A linear model scores class k of a row x as z_k = w_k . x + b_k, with weights W (K rows of D float32) and, if asked
 * for, a bias b. All start at zero.
 *
 * An **embedding model** has a vector v_j of H floats for each of its F features, and scores a row's hidden vector phi
 * in place of the row: phi = activation(sum_j x_j v_j) and z_k = w_k . phi + b_k, the sum over the features that the
 * row lists, or their mean (the sum over how many there are). A row of words, of items bought, of an entity and a
 * relation is such a bag of features. Its vectors start at random, W and b at zero. Whatever works on a linear model,
 * estimators, samplers, indexes, training, prediction, evaluation, works on it in the same way; a step changes the
 * vectors of the features that its rows have, and no others.
 *
 * **On disk** a model is one safetensors file: tensors `weight` [K,D] (also with D = 0), `labels` [K] int64 (the data
 * file's label of each class, or its number) and, where the model has them, `class_counts` [K] int64 (training rows of
 * each class), `bias` [K], `embedding` [F,H] (an embedding model's vectors; its `weight` is [K,H]), `idf` float32 (the
 * weights of tf-idf, a feature each), `label_names` (UTF-8 bytes, a name a line), `vocabulary` (likewise, the words of
 * text), and those of its correction (`correction`, `hierarchy`, `tree_*`, `pair_*`); metadata with the format version,
 * the estimator and its options, the transform for new rows, and a checksum: the XXH3-64 of the whole file in which its
 * own 16 digits are zeros. The file is replaced in one piece, and mapped, not read, when loaded. A safetensors file of
 * another program with a float32 `weight` and perhaps a `bias`, such as PyTorch's `Linear` layers have, loads too;
 * without version and checksum, its structure is all that is checked.
 *
 * **Threads.** Functions that take a model const may run at once. A model being trained must not be used otherwise.
 *  @{ */

/** A model; opaque. */
typedef struct xsm_model xsm_model;

/** Order of the weights in memory. Files always hold [K,D]. */
enum {
    XSM_LAYOUT_CLASS_MAJOR = 0,  /**< A class's weights are contiguous: for sampled estimators and dense features. */
    XSM_LAYOUT_FEATURE_MAJOR = 1 /**< A feature's weights are contiguous: for exact scoring of sparse features. */
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

/** What a class's score is. */
enum {
    XSM_SCORE_LINEAR = 0, /**< z_k = w_k . phi + b_k. */
    /** z_k = w_k . phi - ||w_k||^2/2 = (||phi||^2 - ||phi - w_k||^2)/2: the nearest class scores highest. */
    XSM_SCORE_EUCLIDEAN = 1
};

/** What is made of the sum of a row's vectors. */
enum {
    XSM_ACTIVATION_IDENTITY = 0, /**< The sum itself: the model is linear in the row, through H numbers. */
    XSM_ACTIVATION_RELU = 1,     /**< max(0, s). */
    XSM_ACTIVATION_TANH = 2      /**< tanh(s). */
};

/** How a row's vectors are put together. */
enum {
    XSM_POOL_SUM = 0, /**< sum_j x_j v_j. */
    XSM_POOL_MEAN = 1 /**< The sum over the number of features that the row lists; of a dense row, F. */
};

/** Longest hidden vectors. */
#define XSM_HIDDEN_MAX 65536

/** Settings of a new embedding model. Start with #XSM_EMBEDDING_OPTIONS_INIT. */
typedef struct xsm_embedding_options {
    size_t size;        /**< sizeof(xsm_embedding_options). */
    int32_t bias;       /**< 1 = with a bias, 0 = without. */
    int32_t activation; /**< An XSM_ACTIVATION_* value. */
    int32_t pool;       /**< An XSM_POOL_* value. */
    int32_t tied;      /**< 1 = one set of vectors, v_j = w_j, where features and classes are the same things: words, or
                            items bought. F = K then, and W starts at random. */
    uint64_t seed;     /**< Of the random start, below 2^63. */
    double scale;      /**< Every number starts uniform in [-scale, scale]; 0 = sqrt(3/H), which gives a vector a
                            squared length of 1 on average. At most 1e6. */
    int32_t reserved;  /**< Zero. */
    int32_t reserved2; /**< Zero. */
} xsm_embedding_options;

/** Starting value of an #xsm_embedding_options: without bias, identity, sum, not tied. */
#define XSM_EMBEDDING_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(xsm_embedding_options), 0, 0, 0, 0, 0, 0, 0, 0                                                          \
    }

/** Raw vectors of features. The vector of feature j begins at `vectors[j*feature_step]`. */
typedef struct xsm_embedding_parameters {
    size_t size;         /**< sizeof(xsm_embedding_parameters). */
    float *vectors;      /**< The vectors; of tied ones, xsm_parameters::weight. */
    size_t feature_step; /**< Floats from a vector to the next. */
    uint32_t features;   /**< F. */
    uint32_t hidden;     /**< H. */
} xsm_embedding_parameters;

/** Starting value of an #xsm_embedding_parameters. */
#define XSM_EMBEDDING_PARAMETERS_INIT                                                                                  \
    {                                                                                                                  \
        sizeof(xsm_embedding_parameters), NULL, 0, 0, 0                                                                \
    }

/** How to load a model. Start with #XSM_LOAD_OPTIONS_INIT. */
typedef struct xsm_load_options {
    size_t size;         /**< sizeof(xsm_load_options). */
    int32_t skip_verify; /**< 1 = do not compare contents with the checksum, so that loading reads no weights. */
    int32_t reserved;    /**< Zero. */
} xsm_load_options;

/** Starting value of an #xsm_load_options. */
#define XSM_LOAD_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_load_options), 0, 0                                                                                 \
    }

/** Raw parameters. The weight of class k and feature j is `weight[k*class_step + j*feature_step]`. */
typedef struct xsm_parameters {
    size_t size;         /**< sizeof(xsm_parameters). */
    float *weight;       /**< The weights; never NULL. */
    float *bias;         /**< [K], or NULL. */
    size_t class_step;   /**< Floats from a class to the next. */
    size_t feature_step; /**< Floats from a feature to the next. */
    uint32_t classes;    /**< K. */
    uint32_t features;   /**< D. */
} xsm_parameters;

/** Starting value of an #xsm_parameters. */
#define XSM_PARAMETERS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_parameters), NULL, NULL, 0, 0, 0, 0                                                                 \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a linear model of zeros.
 *  @param context  context, or NULL
 *  @param features D, 1 to #XSM_FEATURES_MAX; or 0, with a bias: then scores are the bias alone, z_k = b_k
 *  @param classes  K, 1 to #XSM_CLASSES_MAX
 *  @param options  settings, or NULL
 *  @param[out] out the model, the caller's to release with xsm_model_free()
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE; #XSM_ERROR_LIMIT when K*D floats cannot be addressed; #XSM_ERROR_MEMORY;
 *          #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW */
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
 *  @return #XSM_OK; #XSM_ERROR_RANGE; #XSM_ERROR_SHAPE for tied vectors of other than as many features as classes;
 *          #XSM_ERROR_LIMIT when F*H or K*H floats cannot be addressed; #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER;
 *          #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW. O((F + K) H) */
XSM_API xsm_status xsm_model_new_embedding(xsm_context *context, uint32_t features, uint32_t hidden, uint32_t classes,
                                           const xsm_embedding_options *options, xsm_model **out, xsm_error *err);
/** Releases a model; NULL is fine. */
XSM_API void xsm_model_free(xsm_model *model);

/** K. */
XSM_API uint32_t xsm_model_classes(const xsm_model *model);
/** D, the number of features of the rows that the model scores (after its transform); of an embedding model, F. */
XSM_API uint32_t xsm_model_features(const xsm_model *model);
/** D of the rows as they are read, before the model's transform. */
XSM_API uint32_t xsm_model_input_features(const xsm_model *model);
/** H of an embedding model, 0 of a linear one. */
XSM_API uint32_t xsm_model_hidden(const xsm_model *model);
/** Fills `options` (start it with #XSM_EMBEDDING_OPTIONS_INIT) with what an embedding model was made with; one whose
 * file came from another program has the defaults.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_STATE for a linear model; #XSM_ERROR_STRUCT_OLD,
 *          #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_model_get_embedding(const xsm_model *model, xsm_embedding_options *options, xsm_error *err);
/** 1 with a bias, else 0. */
XSM_API int32_t xsm_model_has_bias(const xsm_model *model);
/** Order of the weights in memory, an XSM_LAYOUT_* value. */
XSM_API int32_t xsm_model_layout(const xsm_model *model);
/** Reorders the weights (an embedding model's W; its vectors stay as they are); needs memory for a second copy
 * meanwhile, and copies a mapped file to memory. O(K D).
 *  @return #XSM_OK; #XSM_ERROR_RANGE for a layout that is none; #XSM_ERROR_UNSUPPORTED for
 *          feature-major tied vectors; #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER.
 *          The model's scores are as before, whatever the result. */
XSM_API xsm_status xsm_model_set_layout(xsm_model *model, int32_t layout, xsm_error *err);

/** Says what the model's scores are; a new model's are linear. **Metric learning**: with #XSM_SCORE_EUCLIDEAN a class
 * is a point w_k (a prototype, or proxy) in the space of the rows, linear model, or of the hidden vectors phi,
 * embedding model, and scores by its distance, z_k = w_k . phi - ||w_k||^2/2. The part -||phi||^2/2 of the distance is
 * left out, as it is the same for every class: gradients of losses whose coefficients sum to zero (softmax, margin,
 * triplet, nca) are those of -||phi - w_k||^2/2, also with respect to phi. An embedding model of dense rows without an
 * activation is a learned Mahalanobis distance, -(x - c_k)^T M (x - c_k)/2 with M = V^T V of rank H at most, V [H,F]
 * its vectors and w_k = V c_k (Yen et al. 2018, section 2).
 *
 *  The bias is bound to the weights, b_k = -||w_k||^2/2, and made where there is none; steps of the optimizer `sgd`
 * keep it so. Who writes weights through xsm_model_parameters() calls this again afterwards. With #XSM_SCORE_LINEAR the
 *  bias keeps its values and is free from then on. Everything that scores, searches, predicts and saves works on
 * either. Refused with distances: a ridge (it would pull towards an origin that means nothing), proximal estimators and
 * bounds on the length of rows, `hierarchical`, the optimizers `adagrad` and L-BFGS, feature-major weights. A step
 * costs O(D) for each class that it changes, of sparse rows too.
 *  @param model the model; not while an estimator, optimizer, predictor or index is bound to it
 *  @param score an XSM_SCORE_* value
 *  @param err   what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_RANGE; #XSM_ERROR_UNSUPPORTED for distances in a model without
 *          features, with tied vectors, or that `hierarchical` trained; #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER. The
 *          model scores as before on failure. O(K D) */
XSM_API xsm_status xsm_model_set_score(xsm_model *model, int32_t score, xsm_error *err);
/** What the model's scores are, an XSM_SCORE_* value. */
XSM_API int32_t xsm_model_score(const xsm_model *model);

/** What the model's scores are corrected by. Training with `negative-sampling` against classes drawn from p_n leaves a
 *  bias: the scores of the softmax are those of the weights plus log p_n(k|x) (Bamler and Mandt 2020, eq. 5). Such a
 * model carries p_n; every score, probability and figure that the library gives of it has log p_n(k|x) added, and it is
 * saved and loaded with the weights.
 *  A model trained by `hierarchical` carries its tree in the same way: its rows are those of inner nodes, and its
 * scores log p(k|x), which the tree makes of them.
 *  xsm_model_add_pairs() adds numbers of pairs.
 *  @return "none"; "classes": a number a class; "tree": a tree over the classes; "hierarchy": the rows are those of the
 *          nodes of a tree; "pairs": a number for each feature and class that occurred together. Static. */
XSM_API const char *xsm_model_correction(const xsm_model *model);
/** Takes the correction away: the scores are then those of the weights alone, which mean nothing of the classes where
 *  the rows were those of nodes. NULL is fine. O(1). */
XSM_API void xsm_model_clear_correction(xsm_model *model);
/** Adds to the model's scores what counts of rows say of each feature and class that occur together, for a model that
 * has been trained on them: vectors generalise, and counts remember. Row x scores sum_j x_j v_jk more for class k,
 *
 *      v_jk = strength log(1 + 4 p(k|j) / (K p(k))),   p(k|j) = C_jk / (1 + sum_l C_jl),   p(k) = n_k / sum_l n_l,
 *
 *  C_jk the sum of x_j > 0 over the rows with label k, n_k their number; v_jk = 0 where they never were together. That
 * is pointwise mutual information (Church and Hanks, Word association norms, mutual information, and lexicography,
 * 1990) with a floor under its ratio, and the wide part beside the deep one of Cheng et al. (Wide & deep learning for
 *  recommender systems, 2016), not learnt but counted. It is saved and loaded with the model, and part of every score,
 *  probability and figure. Estimators that sample do not know of it: it is added after training, and taken away
 *  (xsm_model_clear_correction()) before training again. An index cannot search such a model.
 *  @param model    the model; not while an estimator, trainer, predictor or index is bound to it
 *  @param train    sparse rows with the model's features, transformed as it takes them, and classes
 *  @param strength above 0; xsm_choose() finds one (xsm_choice_info::pairs). Pairs that the model has are replaced.
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_RANGE; #XSM_ERROR_SHAPE for rows of other features or classes;
 *          #XSM_ERROR_UNSUPPORTED for dense rows, and a model with another correction; #XSM_ERROR_MEMORY. The model is
 *          as before on failure. O(non-zeros times labels); 8 bytes a pair, of which there are not more than that */
XSM_API xsm_status xsm_model_add_pairs(xsm_model *model, const xsm_dataset *train, double strength, xsm_error *err);

/** Gives a model more classes, more features, or both: the classes that it has keep their weights, wherever they come
 *  to lie, and new classes and features start at zero, so that scores of the old ones stay the same bits. New features
 *  of an embedding model get the vectors that they have in a new model with its seed and scale: growing twice gives the
 *  same as growing once. Tied vectors are features and classes in one: both must be as many, the old ones keep their
 *  numbers, and new ones start as vectors do, with a bias of zero. Estimators, optimizers, trainers, predictors and
 *  indexes that were made for the model must be bound or made again; `adagrad` then starts its sums of squares anew.
 *  @param model    the model, whatever its layout; a mapped file is copied to memory
 *  @param features D from then on, not less than now; new features come behind those that are there
 *  @param classes  a map with all of the model's classes and others, matched as xsm_dataset_extend() does, which is
 * what makes one: the model takes its labels and names, and adds its counts to those it has. NULL = those that there
 * are
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE for fewer features or labels that do not rise; #XSM_ERROR_ARGUMENT for a map
 *          without one of the model's classes, naming it, or that moves a class of tied vectors; #XSM_ERROR_SHAPE for
 *          tied vectors of other than as many features as classes; #XSM_ERROR_UNSUPPORTED for more features where they
 *          are the words of a vocabulary, or under a transform that was fitted for those there are, and for a model
 *          with a correction (xsm_model_clear_correction()); #XSM_ERROR_LIMIT; #XSM_ERROR_MEMORY. The model is as
 * before on failure. O(K D), of an embedding model O((K + D) H), with both models in memory meanwhile. */
XSM_API xsm_status xsm_model_grow(xsm_model *model, uint32_t features, const xsm_class_map *classes, xsm_error *err);
/** Gives the classes the labels, names and counts of a class map with K classes (copied), and the model the map's
 * vocabulary, which is saved with it. Rows to test or predict are then read with xsm_model_get_classes().
 *  @return #XSM_OK; #XSM_ERROR_SHAPE when the map has other than K classes; #XSM_ERROR_RANGE for labels that do not
 *          rise, counts above the number of rows, or an index base that is none; #XSM_ERROR_FORMAT for a name that has
 *          a line end or is not UTF-8; #XSM_ERROR_MEMORY. The model is untouched on failure. O(K). */
XSM_API xsm_status xsm_model_set_classes(xsm_model *model, const xsm_class_map *map, xsm_error *err);
/** Fills `map` (start it with #XSM_CLASS_MAP_INIT) with a view of the class map, its `features` being
 *  xsm_model_input_features(); valid until the model changes. O(1).
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_model_get_classes(const xsm_model *model, xsm_class_map *map, xsm_error *err);
/** Keeps a copy of a fitted transform, to be saved and applied to new rows by xsm_model_transform(). NULL takes the
 *  model's transform away.
 *  @return #XSM_OK; #XSM_ERROR_SHAPE when the transform yields other than D features; #XSM_ERROR_STATE when it is not
 *          fitted; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_model_set_transform(xsm_model *model, const xsm_transform *transform, xsm_error *err);
/** Description of the model's transform as xsm_transform_new() takes it, "" if it has none; valid until the model
 *  changes. */
XSM_API const char *xsm_model_transform_description(const xsm_model *model);
/** Applies the model's transform, if it has one, to rows as they were read.
 *  @return as xsm_transform_apply() */
XSM_API xsm_status xsm_model_transform(const xsm_model *model, xsm_dataset *dataset, xsm_error *err);
/** Sets an entry of the file's metadata. Keys that the library writes itself (`format_version`, `checksum`,
 *  `transform`, `input_features`, `index_base`, `training_rows`, `vocabulary`, `first_layer`, `score_function`,
 * `library`) are refused. NULL removes the entry.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_FORMAT for text that is not UTF-8; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_model_set_metadata(xsm_model *model, const char *key, const char *value, xsm_error *err);
/** An entry of the metadata, NULL if it is not there; valid until the model changes. */
XSM_API const char *xsm_model_get_metadata(const xsm_model *model, const char *key);
/** Key number `index` (from 0) of the metadata in alphabetic order, NULL past the last. */
XSM_API const char *xsm_model_metadata_key(const xsm_model *model, size_t index);

/** Fills `parameters` (start it with #XSM_PARAMETERS_INIT) with pointers to the weights, which the caller may read and
 *  write until the model is next trained or freed; where scores are distances, xsm_model_set_score() is to be called
 *  after writing. Weights kept as scale times row are multiplied out first, and a
 *  mapped file is copied to memory. O(1), or O(K D) when there was something to multiply out or copy.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER; #XSM_ERROR_STRUCT_OLD,
 *          #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_model_parameters(xsm_model *model, xsm_parameters *parameters, xsm_error *err);
/** The same for the vectors of an embedding model's features; xsm_model_parameters() gives its W [K,H] and bias.
 *  @return as xsm_model_parameters(); #XSM_ERROR_STATE for a linear model */
XSM_API xsm_status xsm_model_embedding_parameters(xsm_model *model, xsm_embedding_parameters *parameters,
                                                  xsm_error *err);
/** Computes the hidden vectors phi of the rows of a batch.
 *  @param model  an embedding model
 *  @param batch  n rows with the model's F
 *  @param[out] out row i's H floats at out[i*stride]
 *  @param stride floats from row to row, >= H
 *  @param err    what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_STATE for a linear model; #XSM_ERROR_SHAPE; #XSM_ERROR_RANGE.
 *          O(nnz H) */
XSM_API xsm_status xsm_model_hidden_vectors(const xsm_model *model, const xsm_batch *batch, float *out, size_t stride,
                                            xsm_error *err);

/** Scores chosen classes of the rows of a batch.
 *  @param model   the model
 *  @param batch   n rows with the model's D
 *  @param classes [n][count] classes of each row
 *  @param count   classes a row
 *  @param[out] scores [n][count]
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_SHAPE when the rows have other than D features; #XSM_ERROR_RANGE
 *          for a class that is not below K or a row that is not there. A class's score is the same bits whatever
 *          else is scored with it. O(n count nnz). */
XSM_API xsm_status xsm_model_scores(const xsm_model *model, const xsm_batch *batch, const uint32_t *classes,
                                    size_t count, float *scores, xsm_error *err);
/** Scores the classes first..first+count of the rows of a batch, tile by tile.
 *  @param model  the model
 *  @param batch  n rows with the model's D
 *  @param first  first class
 *  @param count  number of classes; first + count <= K
 *  @param[out] scores row i's at scores[i*stride]
 *  @param stride floats from row to row, >= count
 *  @param err    what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_SHAPE when the rows have other than D features or `stride` is below
 *          `count`; #XSM_ERROR_RANGE for classes or rows that are not there; #XSM_ERROR_MEMORY. A score is the same
 *          bits whatever else is scored with it, but may differ in its last bits from that of xsm_model_scores(), whose
 *          sums run in another order. O(n count nnz), at the speed of arithmetic. Working memory is taken from the
 *          context anew at each call, as the model is shared between threads: score many rows a call. A predictor
 *          (predict.h) keeps its own. */
XSM_API xsm_status xsm_model_score_range(const xsm_model *model, const xsm_batch *batch, uint32_t first, uint32_t count,
                                         float *scores, size_t stride, xsm_error *err);

/** Saves the model, replacing what is at `path` in one piece: after a crash the old file or the new is there, whole.
 *  The same model gives the same bytes, whatever its layout and scales. Streams the weights: no second copy of them is
 *  made.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_IO; #XSM_ERROR_MEMORY; #XSM_ERROR_LIMIT for more than 16 MiB of
 *          metadata; #XSM_ERROR_UNSUPPORTED on a big-endian machine; #XSM_ERROR_DIVERGED if a weight is not finite,
 * naming its class and feature. What is at `path` stays as it is on failure. O(K D). */
XSM_API xsm_status xsm_model_save(const xsm_model *model, const char *path, xsm_error *err);
/** Maps a saved model. The file must not be changed in place while the model lives (replacing it, as
 *  xsm_model_save() does, is fine).
 *  @param context context, or NULL
 *  @param path    the file
 *  @param options settings, or NULL
 *  @param[out] out the model, the caller's
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_RANGE for the options; #XSM_ERROR_IO; #XSM_ERROR_FORMAT, naming
 *          what is not as it should be; #XSM_ERROR_CHECKSUM; #XSM_ERROR_FILE_VERSION; #XSM_ERROR_LIMIT for a header
 *          over 16 MiB; #XSM_ERROR_MEMORY; #XSM_ERROR_UNSUPPORTED on a big-endian machine; #XSM_ERROR_STRUCT_OLD,
 *          #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_model_load(xsm_context *context, const char *path, const xsm_load_options *options,
                                  xsm_model **out, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
