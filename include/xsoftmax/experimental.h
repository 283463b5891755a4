/* SPDX-License-Identifier: MIT */
/**
 * @file experimental.h
 * @brief Functions whose form may still change.
 */
#ifndef XSOFTMAX_EXPERIMENTAL_H
#define XSOFTMAX_EXPERIMENTAL_H

#ifndef XSM_EXPERIMENTAL
#error "xsoftmax/experimental.h is experimental, and changes from release to release: define XSM_EXPERIMENTAL to use it"
#endif

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/label_tree.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/model.h>

/** @defgroup experimental Experimental functions
 *
 * Distances, pairs, filtered ranks, and the options of label trees by their names. Experimental: define
 * XSM_EXPERIMENTAL before the first header. What they leave in files stays readable.
 *  @{ */

/** Settings of xsm_evaluate_ranks(). Start with #XSM_RANKS_OPTIONS_INIT. */
typedef struct xsm_ranks_options {
    size_t size;                     /**< sizeof(xsm_ranks_options). */
    const xsm_dataset *const *known; /**< [known_count] datasets, for example the training rows, that were read against
                                          the model's class map and transformed. Their labels are known to be right for
                                          rows with the same features. Borrowed. */
    size_t known_count;              /**< Number of datasets. */
} xsm_ranks_options;

/** Starting value of an #xsm_ranks_options: only the labels of the row itself are known. */
#define XSM_RANKS_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(xsm_ranks_options), NULL, 0                                                                             \
    }

/** Filtered ranks of labels. The caller sets `top` and `hits`, the function the rest. Start with #XSM_RANKS_INIT. */
typedef struct xsm_ranks {
    size_t size;     /**< sizeof(xsm_ranks). */
    uint64_t labels; /**< Labels of all rows, in the class map or not. */
    /** Labels that the model does not have: they count as misses, with a reciprocal rank of 0. */
    uint64_t unseen_labels;
    double reciprocal_rank; /**< MRR: mean of 1/rank over all labels. The means are weighted by the rows' weights. */
    double mean_rank;       /**< Mean of the rank over the labels that the model has; NaN if there are none. */
    uint32_t top;           /**< Input: numbers in `hits`, at least 1. */
    uint32_t reserved;      /**< Zero. */
    double *hits;           /**< [top], or NULL if not wanted. hits[k-1]: Hits\@k, the share of labels with a rank of at
                                 most k. */
} xsm_ranks;

/** Starting value of an #xsm_ranks. */
#define XSM_RANKS_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(xsm_ranks), 0, 0, 0, 0, 0, 0, NULL                                                                      \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Sets the geometry of the model, which defines its scores (logits); a new model is linear. **Metric learning**: with
 *  #XSM_GEOMETRY_EUCLIDEAN a class is a point w_k (a prototype, or proxy) in the space of the rows (linear model) or of
 *  the hidden vectors phi (embedding model). Its score depends on the distance: z_k = w_k . phi - ||w_k||^2/2. The term
 *  -||phi||^2/2 of the distance is left out because it is the same for every class: for losses whose coefficients sum
 *  to zero (softmax, margin, triplet, nca), gradients equal those of -||phi - w_k||^2/2, also with respect to phi. An
 *  embedding model of dense rows without an activation learns a Mahalanobis distance, -(x - c_k)^T M (x - c_k)/2 with M
 *  = V^T V of rank H at most, V [H,F] its vectors and w_k = V c_k (Yen et al. 2018, section 2).
 *
 *  With distances, the bias is a function of the weights, b_k = -||w_k||^2/2; the function adds a bias if the model has
 *  none. Steps of the optimizer `sgd` update it. After writing weights through xsm_model_get_parameters(), call this
 *  function again. #XSM_GEOMETRY_LINEAR keeps the values of the bias and makes it an independent parameter. Scoring,
 *  search, prediction and saving support both definitions. Distances do not support an L2 penalty (ridge; it would pull
 *  towards an origin without a meaning), proximal estimators, a maximum row norm, `hierarchical`, the optimizers
 *  `adagrad` and L-BFGS, and feature-major weights. A step costs O(D) for each class that it changes, also for sparse
 *  rows.
 *  @param model    the model; estimators, optimizers, trainers and indexes of it must be bound or made again, and say
 *                  #XSM_ERROR_STATE until then
 *  @param geometry an XSM_GEOMETRY_* value
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for distances in a model without features, with tied vectors, or trained by
 *          `hierarchical`; #XSM_ERROR_RANGE. On failure the scores do not change. O(K D) */
XSM_API xsm_status xsm_model_set_geometry(xsm_model *model, int32_t geometry, xsm_error *err);

/** Adds pairs to a trained model: numbers computed from counts of the training rows, for each feature and class that
 *  occur together. They let the model remember co-occurrences that its vectors only generalise. The score of row x for
 *  class k increases by sum_j x_j v_jk,
 *
 *      v_jk = strength log(1 + 4 p(k|j) / (K p(k))),   p(k|j) = C_jk / (1 + sum_l C_jl),   p(k) = n_k / sum_l n_l,
 *
 *  C_jk the sum of x_j > 0 over the rows with label k, n_k the number of these rows; v_jk = 0 if feature and class
 *  never occur together. This is pointwise mutual information (Church and Hanks, Word association norms, mutual
 *  information, and lexicography, 1990) with a lower bound of its ratio. It corresponds to the wide part of Cheng et
 *  al. (Wide & deep learning for recommender systems, 2016), but is computed from counts instead of learnt. The pairs
 *  are saved and loaded with the model and are part of every score, probability and metric. Estimators that sample
 *  ignore them: add pairs after training, and remove them (xsm_model_clear_correction()) before training again. An
 *  index cannot search such a model.
 *  @param model    the model; no estimator, trainer, predictor or index may be bound to it
 *  @param train    sparse rows with the model's features and classes, already transformed
 *  @param strength above 0; xsm_choose() finds a value (xsm_choice_info::pairs). Existing pairs are replaced
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for dense rows, and for a model with another correction; #XSM_ERROR_SHAPE if
 *          features or classes of rows and model differ; #XSM_ERROR_RANGE. The model is unchanged on failure.
 *          O(non-zeros times labels), which also bounds the number of pairs; each pair needs 8 bytes */
XSM_API xsm_status xsm_model_add_pairs(xsm_model *model, const xsm_dataset *train, double strength, xsm_error *err);

/** Ranks every label of every row among all classes except those that are known to be right: the other labels of the
 *  row, and the labels of rows with the same features in the datasets of the options. This is the filtered setting of
 *  link prediction (Bordes et al. 2013). The rank of a label is 1, plus the number of classes with a higher score, plus
 *  half the number of other classes with the same score.
 *  @param context context whose threads to use, or NULL for the model's
 *  @param model   the model
 *  @param dataset rows with the model's D, read against its class map and already transformed
 *  @param options settings, or NULL
 *  @param[in,out] ranks the result, see #xsm_ranks
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DATA if no row has a label, or those with one have no weight above 0;
 *          #XSM_ERROR_DIVERGED if a score is not finite; #XSM_ERROR_SHAPE if the rows do not match the model;
 *          #XSM_ERROR_UNSUPPORTED for one that is divided among processes (ext/comm.h). Scores every class twice:
 *          O(N K (nnz + labels a row)). The result is bit-identical for any number of threads. */
XSM_API xsm_status xsm_evaluate_ranks(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                                      const xsm_ranks_options *options, xsm_ranks *ranks, xsm_error *err);

/** Sets a member of `options` by the name of its option, from text: "trees", "16". The other members stay as they are.
 *  For programs that read and list options as text, such as the command; others set the members, which are of the core.
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown option (the message suggests a similar name); #XSM_ERROR_RANGE or
 *          #XSM_ERROR_FORMAT for the value (the message says what is accepted). */
XSM_API xsm_status xsm_label_tree_set(xsm_label_tree_options *options, const char *name, const char *value,
                                      xsm_error *err);
/** Option number `index` of the table, NULL past the last. Its `offset` has no meaning: set a member by
 *  xsm_label_tree_set(). */
XSM_API const xsm_option *xsm_label_tree_option(size_t index);
/** Writes an option's value as text; for a member that means the default, the default's value. The text is terminated
 *  and cut to `size` bytes.
 *  @return the text's full length; SIZE_MAX, and an empty text, for a name that is no option and for options that the
 *          fit refuses. */
XSM_API size_t xsm_label_tree_get(const xsm_label_tree_options *options, const char *name, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
