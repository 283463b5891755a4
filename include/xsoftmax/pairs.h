/**
 * @file pairs.h
 * @brief Numbers for pairs of a feature and a class, added to the scores of a model.
 */
#ifndef XSOFTMAX_PAIRS_H
#define XSOFTMAX_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/model.h>

/** @defgroup pairs Pairs
 *
 * A correction of the scores that is counted, not trained.
 *  @{ */

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

/** @} */

#endif
