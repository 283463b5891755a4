/* SPDX-License-Identifier: MIT */
/**
 * @file stored_weights.h
 * @brief The weights as they are stored, and their layout.
 */
#ifndef XSOFTMAX_STORED_WEIGHTS_H
#define XSOFTMAX_STORED_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/model.h>

/** @defgroup stored_weights Stored weights
 *
 * For hosts that score or copy weights themselves: views that copy nothing, the vectors of the features of an embedding
 * model, the order of the weights in memory, and their type. xsm_model_get_parameters() gives the weights of the
 * classes, to read and write.
 *  @{ */

/** Settings of xsm_model_convert(). Start with #XSM_CONVERT_OPTIONS_INIT. */
typedef struct xsm_convert_options {
    size_t size;      /**< sizeof(xsm_convert_options). */
    int32_t dtype;    /**< #XSM_DTYPE_FLOAT32, #XSM_DTYPE_BFLOAT16 or #XSM_DTYPE_INT8. */
    int32_t reserved; /**< Zero. */
} xsm_convert_options;

/** Starting value of an #xsm_convert_options: float32. */
#define XSM_CONVERT_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(xsm_convert_options), 0, 0                                                                              \
    }

/** Raw vectors of features, to read and write. The vector of feature j begins at `vectors[j*feature_step]`. Start with
 *  #XSM_EMBEDDING_PARAMETERS_INIT. */
typedef struct xsm_embedding_parameters {
    size_t size;         /**< sizeof(xsm_embedding_parameters). */
    float *vectors;      /**< The vectors; for tied vectors, xsm_parameters::weight. NULL if that is. */
    size_t feature_step; /**< Numbers from one vector to the next. */
    uint32_t features;   /**< F. */
    uint32_t hidden;     /**< H. */
    int32_t dtype;       /**< An XSM_DTYPE_* value. */
    int32_t reserved;    /**< Zero. */
} xsm_embedding_parameters;

/** Starting value of an #xsm_embedding_parameters. */
#define XSM_EMBEDDING_PARAMETERS_INIT                                                                                  \
    {                                                                                                                  \
        sizeof(xsm_embedding_parameters), NULL, 0, 0, 0, 0, 0                                                          \
    }

/** Vectors of features as they are stored, to read. Number h of the vector of feature j is `vectors[j*feature_step +
 *  h]` times `scale`, and times `feature_scales[j]` if that is not NULL. Start with #XSM_EMBEDDING_VIEW_INIT. */
typedef struct xsm_embedding_view {
    size_t size;                  /**< sizeof(xsm_embedding_view). */
    const float *vectors;         /**< The vectors; NULL if their type is not #XSM_DTYPE_FLOAT32. */
    const void *data;             /**< The stored numbers, of type `dtype`. */
    uint64_t bytes;               /**< Bytes of `data`, with the gaps between vectors. */
    double scale;                 /**< Factor of every number. */
    const double *feature_scales; /**< [F] factor of each vector, or NULL. */
    size_t feature_step;          /**< Numbers from one vector to the next. */
    uint32_t features;            /**< F. */
    uint32_t hidden;              /**< H. */
    int32_t dtype;                /**< An XSM_DTYPE_* value. */
    int32_t reserved;             /**< Zero. */
} xsm_embedding_view;

/** Starting value of an #xsm_embedding_view. */
#define XSM_EMBEDDING_VIEW_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_embedding_view), NULL, NULL, 0, 0, NULL, 0, 0, 0, 0, 0                                              \
    }

/** Parameters as they are stored, to read. The weight of class k and feature j is `weight[k*class_step +
 *  j*feature_step]` times `scale`, and times `class_scales[k]` if that is not NULL. The factors are those of L2
 *  penalties that are not multiplied into the weights yet. Start with #XSM_PARAMETERS_VIEW_INIT. */
typedef struct xsm_parameters_view {
    size_t size;         /**< sizeof(xsm_parameters_view). */
    const float *weight; /**< The weights; NULL if `dtype` is not #XSM_DTYPE_FLOAT32 or `layout` is neither
                              class-major nor feature-major: then read `data`, or let the library compute
                              scores. */
    const void *data;    /**< The stored weights, of type `dtype`. */
    uint64_t bytes;      /**< Bytes of `data`, with the gaps between rows; of #XSM_LAYOUT_SPARSE_ROWS bytes of all
                              that is stored, where `data` are `nonzeros` numbers in an order of the library's,
                              or NULL in a label tree. */
    const float *bias;   /**< [K], without factors, or NULL. */
    double scale;        /**< Factor of every weight. */
    const double *class_scales; /**< [K] factor of the weights of each class, or NULL, as of sparse weights. */
    size_t class_step;          /**< Numbers from one class to the next. */
    size_t feature_step;        /**< Numbers from one feature to the next. */
    uint32_t classes;           /**< K. */
    uint32_t features;          /**< D; H of an embedding model. */
    int32_t dtype;              /**< An XSM_DTYPE_* value. */
    int32_t layout;             /**< An XSM_LAYOUT_* value. */
    uint64_t nonzeros;          /**< Weights that are stored; K D, if they are dense. */
} xsm_parameters_view;

/** Starting value of an #xsm_parameters_view. */
#define XSM_PARAMETERS_VIEW_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(xsm_parameters_view), NULL, NULL, 0, NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0                                 \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Fills `view` (start it with #XSM_PARAMETERS_VIEW_INIT) with pointers to the weights as they are stored, valid until
 *  the model changes. Copies nothing and changes nothing: a mapped model stays mapped, and scale factors stay pending.
 *  O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_model_get_view(const xsm_model *model, xsm_parameters_view *view, xsm_error *err);

/** As xsm_model_get_parameters(), for the vectors of the features of an embedding model. xsm_model_get_parameters()
 *  gives its W [K,H] and bias.
 *  @return as xsm_model_get_parameters(); #XSM_ERROR_STATE for a linear model */
XSM_API xsm_status xsm_model_get_embedding_parameters(xsm_model *model, xsm_embedding_parameters *parameters,
                                                      xsm_error *err);

/** As xsm_model_get_view(), for the vectors of the features of an embedding model (start `view` with
 *  #XSM_EMBEDDING_VIEW_INIT).
 *  @return as xsm_model_get_view(); #XSM_ERROR_STATE for a linear model */
XSM_API xsm_status xsm_model_get_embedding_view(const xsm_model *model, xsm_embedding_view *view, xsm_error *err);

/** Changes the layout of the weights (of W in an embedding model; its vectors do not change). Needs memory for a second
 *  copy during the call, and copies a mapped file to memory. Sparse weights become dense, with room for all K D. O(K
 *  D).
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for feature-major tied vectors, for #XSM_LAYOUT_SPARSE_ROWS, which
 *          xsm_model_prune() makes, and for a label tree; #XSM_ERROR_RANGE for an unknown layout; #XSM_ERROR_LIMIT. The
 *          scores of the model do not change, whatever the result. */
XSM_API xsm_status xsm_model_set_layout(xsm_model *model, int32_t layout, xsm_error *err);

/** Makes a model that has the weights of another in another type, of an embedding model the vectors of the features,
 *  too: a half of the size as #XSM_DTYPE_BFLOAT16, a quarter as #XSM_DTYPE_INT8. Bias, class map, transform,
 *  correction, calibration and metadata are copied; of scores that are distances, the bias becomes that of the rounded
 *  weights.
 *
 *  - #XSM_DTYPE_BFLOAT16: the nearest bfloat16, ties to even: a relative error of 2^-8 at most.
 *  - #XSM_DTYPE_INT8: the nearest whole number of -127 to 127, ties to even, times a float for each row (class or
 *    feature), its largest absolute weight divided by 127: an error of 1/254 of that weight at most, or of 7.1e-46,
 *    half the smallest float, if that is more.
 *  - #XSM_DTYPE_FLOAT32: the weights as they are, class-major. The rounding to fewer bits is not undone: bfloat16 is
 *    converted exactly, int8 times its factor is rounded to float.
 *
 *  Such a model is saved and loaded, mapped, scores, predicts, is evaluated and calibrated, and an index can be built
 *  over it. Scores are sums in float32 of widened weights, with the same bits on every processor: those of a float32
 *  model with the widened numbers and, of int8, the factors as scales of its rows. For one to four rows, reading the
 *  weights from memory is what takes time, so that a half or a quarter of it is left. The weights cannot be changed:
 *  training, growing, pruning, distances, pairs and another layout return #XSM_ERROR_UNSUPPORTED.
 *
 *  Sparse weights and label trees stay sparse: their numbers are converted, int8 with a factor for each class or node.
 *  Such models support what those of float32 do, except another layout.
 *
 *  A host that keeps both models can score the best k of the small one again: xsm_model_scores() with the float32 model
 *  and the classes that a prediction found.
 *  @param model   a model with features; it is unchanged
 *  @param options the type, or NULL: float32
 *  @param[out] out the model, the caller's to release with xsm_model_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for a model without features; #XSM_ERROR_DIVERGED for a weight that is not
 *          finite, also after rounding; #XSM_ERROR_RANGE; #XSM_ERROR_LIMIT. O(K D), of an embedding model O((F + K) H),
 *          of sparse weights O(their number) */
XSM_API xsm_status xsm_model_convert(const xsm_model *model, const xsm_convert_options *options, xsm_model **out,
                                     xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
