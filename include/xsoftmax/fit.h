/* SPDX-License-Identifier: MIT */
/**
 * @file fit.h
 * @brief Full-batch training: minimises the whole objective with L-BFGS; and class means, without training.
 */
#ifndef XSOFTMAX_FIT_H
#define XSOFTMAX_FIT_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/trainer.h>

/** @ingroup trainer
 *  @{ */

/** Why a fit ended. */
enum {
    XSM_FIT_UNFINISHED = 0, /**< It was cancelled, or failed. */
    XSM_FIT_CONVERGED = 1,  /**< The tolerance was reached. */
    XSM_FIT_ITERATIONS = 2, /**< The largest number of iterations was reached. */
    XSM_FIT_PRECISION = 3   /**< No step lowers the objective further at the precision of float32 weights and scores
                                 (logits). */
};

/** Settings of xsm_fit_full_batch(). Start with #XSM_FIT_OPTIONS_INIT. */
typedef struct xsm_fit_options {
    size_t size;         /**< sizeof(xsm_fit_options). */
    uint64_t iterations; /**< Most iterations, up to 2^31 - 1; 0 = 1000. */
    /** Relative accuracy of the objective f, 0 to below 1; #XSM_DEFAULT = 1e-6. The fit ends when five iterations
     *  together lower f by at most this share of f. With an L2 penalty (ridge) mu and no bias, it also ends as soon as
     *  ||grad f||^2/(2 mu), an upper bound of f minus its minimum, is at most this share of f. With 0 it ends when no
     *  step lowers f. */
    double tolerance;
    uint32_t memory;                /**< Pairs of vectors that L-BFGS stores, up to 1000; 0 = 10. */
    int32_t evaluate_train;         /**< An XSM_EVALUATE_* value: the training rows to evaluate on, too. */
    uint64_t evaluate_every;        /**< Iterations between evaluations; also evaluates at the end. 0 = never. */
    const xsm_dataset *test;        /**< Test rows to evaluate on, or NULL. Borrowed during the call. */
    xsm_progress_function progress; /**< Callback, or NULL. */
    void *progress_user;            /**< First argument of progress(). */
    uint32_t evaluate_top;          /**< Numbers in each array of the evaluations, xsm_metrics::top, up to
                                         #XSM_TOP_MAX; 0 = 10. */
    uint32_t reserved;              /**< Zero. */
} xsm_fit_options;

/** Starting value of an #xsm_fit_options. */
#define XSM_FIT_OPTIONS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(xsm_fit_options), 0, XSM_DEFAULT, 0, 0, 0, NULL, NULL, NULL, 0, 0                                       \
    }

/** Result of a fit. Start with #XSM_FIT_RESULT_INIT. */
typedef struct xsm_fit_result {
    size_t size;          /**< sizeof(xsm_fit_result). */
    uint64_t iterations;  /**< Iterations, each of which lowered the objective. */
    uint64_t evaluations; /**< Passes over the rows. */
    double objective;     /**< f = sum_i loss_i + (mu/2) ||W||^2 at the model's weights; NaN if never computed. */
    double loss;          /**< The first term of f: the sum of the estimator's losses. */
    double gradient_norm; /**< ||grad f|| at the model's weights. */
    double seconds;       /**< Seconds spent, without evaluation. */
    int32_t end;          /**< An XSM_FIT_* value. */
    int32_t reserved;     /**< Zero. */
} xsm_fit_result;

/** Starting value of an #xsm_fit_result. */
#define XSM_FIT_RESULT_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_fit_result), 0, 0, 0, 0, 0, 0, 0, 0                                                                 \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Minimises f = sum_i loss_i + (mu/2) ||W||^2 over all rows at once, by L-BFGS with the line search of More and
 *  Thuente (libLBFGS). It starts from the current weights of the model. mu is the estimator's option `ridge`; the bias
 *  is not penalised.
 *
 *  The estimator must score every class: `softmax`, `bouchard`, `margin`, `one-vs-all`, `ove` and `one-vs-all-sampled`
 *  with `negatives=all`, or an estimator of the host. Its losses must be a smooth function of the scores (logits), and
 *  its coefficients their gradient. The function binds it to the model and the rows, and changes the layout of the
 *  weights to the faster one as xsm_trainer_new() does. Rows are processed in tiles: the N x K matrix of scores is
 *  never stored. Losses, the gradient and the vectors of L-BFGS are in double precision, scores and tiles in float32,
 *  so f has a relative error of about 1e-7, whatever the tolerance. The result is bit-identical for any number of
 *  threads and any instruction set.
 *
 *  For the callback, an iteration is an epoch of one step: `epoch` = `step` = iterations so far, `epochs` = `steps` =
 *  most iterations, `examples` = rows processed, `eta` = length of the last step along the search direction (in place
 *  of a learning rate), `loss` = mean loss at the best weights so far. If it cancels, within an iteration or after one,
 *  the model has the best weights so far.
 *
 *  **Memory.** (2 m + 4) vectors of K (D + 1) doubles, m the stored pairs. libLBFGS allocates 2 m + 3 of them with
 *  malloc() of the C library, not with the context's allocator.
 *  @param context   context whose threads are used, or NULL
 *  @param model     the model to fit; its weights are the starting point
 *  @param train     rows with the model's D and K
 *  @param estimator the estimator
 *  @param options   settings, or NULL
 *  @param[in,out] result the result (start it with #XSM_FIT_RESULT_INIT), also filled on #XSM_CANCELLED and
 *                   #XSM_ERROR_DIVERGED; or NULL
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK, also after the largest number of iterations (xsm_fit_result::end says which); #XSM_ERROR_DIVERGED
 *          if scores are not finite, or if the gradient is not small and no step along it lowers the objective (the
 *          model has the best weights so far); #XSM_ERROR_UNSUPPORTED for an estimator that samples (the message names
 *          the accepted ones), for an embedding model, for scores that are distances, for a model of a context with a
 *          communicator of several processes (xsoftmax/ext/comm.h), and in a build without libLBFGS (always);
 *          #XSM_ERROR_LIMIT for more than 2^31 - 17 weights; #XSM_ERROR_SHAPE for test rows whose number of
 *          features is not D; #XSM_ERROR_RANGE for an option; the errors of xsm_estimator_bind(); #XSM_CANCELLED. An
 *          evaluation of f is O(N nnz K), an iteration O(m K D). */
XSM_API xsm_status xsm_fit_full_batch(xsm_context *context, xsm_model *model, const xsm_dataset *train,
                                      xsm_estimator *estimator, const xsm_fit_options *options, xsm_fit_result *result,
                                      xsm_error *err);

/** Sets a linear model to the means of the classes' rows: the nearest class mean as a linear model. There is no
 *  training: rows are read twice, and more often for each label above the first.
 *
 *  With mu_k the mean of the rows of class k, m that of all rows, n_k the number of rows and v a variance,
 *  w_k = (mu_k - m) / v and b_k = (||m||^2 - ||mu_k||^2) / (2 v) + a log(n_k / sum_l n_l). With a = 1 the scores are
 *  the logarithms of the classes' probabilities where the rows of every class are normally distributed around their
 *  mean with the same variance in each feature (Hastie, Tibshirani and Friedman, The Elements of Statistical Learning,
 *  2009, section 4.3).
 *  With a = 0, or where classes are equally frequent, the best class is the one whose mean is the nearest
 *  (scikit-learn's NearestCentroid). v, and whether a is 0 or 1, have the largest likelihood of up to 512 rows, each
 *  scored as if its class had been counted and averaged without it, so that probabilities are realistic; if no class
 *  has two rows, v is a guess and a is 1; v is no less than the guess where it hardly makes these rows more likely.
 *
 *  A row with several labels counts for each of them. Weights of rows and labels count as so many rows. A class without
 *  rows gets the weights 0 and a bias with which it is never the best one. Means are computed in double precision. The
 *  result is bit-identical for any number of threads and any instruction set. The model's layout becomes
 *  #XSM_LAYOUT_CLASS_MAJOR. An estimator may train on from there.
 *
 *  **Memory.** 8 bytes a label of the rows, 12 where labels have weights, 32 a class, 8 a feature for each thread and
 *  one more, and 2 MiB.
 *  @param context   context whose threads are used, or NULL
 *  @param model     a linear model with a bias; its weights are replaced
 *  @param train     rows with the model's D and K
 *  @param[out] variance v, or NULL
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for a model without a bias, one with a first layer, a correction or
 *          distances, one whose weights are sparse, in fewer bits or divided among processes; #XSM_ERROR_DATA for
 *          labels of no class of the model, or weights that are all 0; #XSM_ERROR_RANGE where weights would not be
 *          finite in float32; #XSM_CANCELLED. After an error that is found later than these the model's weights are 0.
 *          O(nnz of all labels' rows + K D) */
XSM_API xsm_status xsm_fit_class_means(xsm_context *context, xsm_model *model, const xsm_dataset *train,
                                       double *variance, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
