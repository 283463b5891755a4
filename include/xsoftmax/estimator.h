/* SPDX-License-Identifier: MIT */
/**
 * @file estimator.h
 * @brief Estimators: choose the classes that a step scores, and compute the score gradient.
 */
#ifndef XSOFTMAX_ESTIMATOR_H
#define XSOFTMAX_ESTIMATOR_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/index.h>
#include <xsoftmax/model.h>
#include <xsoftmax/option.h>

/** @defgroup estimator Estimators
 *
 * An estimator computes the **sparse score gradient** of a batch: for each example i a list of classes k with
 * coefficients g_ik, the derivatives of the loss with respect to the scores (logits) z_ik. The gradient with respect to
 * a row of weights w_k is sum_i g_ik x_i. An estimator never changes the weights; an optimizer or the host does.
 *
 * **Scale.** A gradient estimates the gradient of the *mean* loss per example. Papers that use the sum over N examples
 * have a factor N in front of their learning rate: the learning rate eta here equals N times theirs. With an L2 penalty
 * (ridge) mu the whole objective is f = sum_i loss_i + (mu/2) ||W||^2 (the bias is not penalised), so the penalty of
 * the mean is mu/N. This is the same for every estimator.
 *
 * Built in, with options that @ref method_options lists:
 *
 * | name | a step scores | converges to |
 * |---|---|---|
 * | `softmax` | all classes | the maximum likelihood |
 * | `bouchard` | all classes | the optimum of Bouchard's upper bound of the log-loss (Bouchard 2007) |
 * | `margin` | all classes | the smoothed margin's optimum (Crammer and Singer; Yen et al. 2018) |
 * | `one-vs-all` | all classes | each class's own logistic regression |
 * | `one-vs-all-sampled` | the labels and m others | as `one-vs-all` |
 * | `ove` | the label and m others, or all classes | the one-vs-each bound's optimum (Titsias 2016) |
 * | `umax` | the label and m others | the maximum likelihood, for small steps (Fagan and Iyengar 2018) |
 * | `vanilla` | the label and m others | the maximum likelihood, unless it diverges (Fagan and Iyengar 2018) |
 * | `raman` | the label and m others | the maximum likelihood, unless it diverges (Raman et al. 2016) |
 * | `implicit` | the label and m others | the maximum likelihood (Fagan and Iyengar 2018) |
 * | `augment-reduce` | the label and m others | the maximum likelihood, as its bounds converge (Ruiz et al. 2018) |
 * | `nce` | the label and m drawn | the maximum likelihood, if the model can be normalised (Gutmann 2010) |
 * | `importance` | the label and m drawn | biased (Bengio and Senecal 2003) |
 * | `sampled-softmax` | the labels and m drawn | the maximum likelihood as m grows (Jean et al. 2015) |
 * | `negative-sampling` | the label and m drawn | the maximum likelihood minus log q (Bamler and Mandt 2020) |
 * | `ove-sampled` | the label and m drawn | the one-vs-each bound's optimum (Titsias 2016) |
 * | `ove-searched` | the label, those that a search finds, m others | a tighter bound's optimum (Titsias 2016) |
 * | `hierarchical` | the path to the label in a tree | the tree's maximum likelihood (Morin and Bengio 2005) |
 * | `mips` | the labels and the classes that a search finds | biased; near the loss's optimum (Yen et al. 2018) |
 * | `decomp-mips` | as `mips`, searched by blocks of coordinates | less biased than `mips` (Yen et al. 2018) |
 *
 * "Drawn" classes come from a sampler (sampler.h) with the distribution q; any sampler may be used. A model trained by
 * `negative-sampling` adds log q to its scores, see xsm_model_info::correction. A search uses an index (index.h); any
 * index may be used.
 *
 * `softmax`, `bouchard`, `margin`, both `one-vs-all`, `sampled-softmax`, `mips` and `decomp-mips` accept rows with
 * several labels.
 *
 * **Threads.** Only one thread at a time may use an estimator. The estimator itself uses the threads of its context.
 *  @{ */

/** An estimator; opaque. */
typedef struct xsm_estimator xsm_estimator;
/** A sparse score gradient, reused from step to step; opaque. */
typedef struct xsm_gradient xsm_gradient;
/** Table of functions of an estimator, see ext/estimator.h. */
typedef struct xsm_estimator_ops xsm_estimator_ops;
/** A sampler, see sampler.h; opaque. */
typedef struct xsm_sampler xsm_sampler;

/** Contents of a gradient. Start with #XSM_GRADIENT_VIEW_INIT. Pointers are borrowed until the gradient is next filled
 *  or freed.
 *
 *  The step with learning rate eta takes each example x_i in turn, with its classes k:
 *
 *      w_k <- shrink_ik (w_k - eta g_ik x_i),   b_k <- b_k - eta g_ik.
 *
 *  After the last example, w_k <- decay w_k for every class, listed or not. So the penalty is applied to what the
 *  gradient leaves (a proximal step), and a constant rate ends at the optimum of the ridge that was asked for. If
 *  `row_bound` is above 0, each w_k of the batch whose norm is then larger is scaled to this norm. */
typedef struct xsm_gradient_view {
    size_t size;               /**< sizeof(xsm_gradient_view). */
    uint64_t examples;         /**< n. */
    uint64_t width;            /**< Entries for each example in the arrays below. */
    const uint32_t *lengths;   /**< [n] number of classes of each example; NULL = `width` for each. */
    const uint32_t *classes;   /**< [n][width] the classes; NULL = entry k is class k. */
    const float *coefficients; /**< [n][width] the g_ik, already divided by n. */
    const double *shrinks;     /**< [n][width] weight decay factors of proximal steps; NULL = 1. */
    double decay;              /**< Weight decay factor of the L2 penalty, for every weight: 1/(1 + eta mu/N). */
    double loss;               /**< Mean over the batch of the estimator's estimate of the loss. */
    double row_bound;          /**< Maximum row norm ||w_k|| after the step; 0 = no limit. */
} xsm_gradient_view;

/** Starting value of an #xsm_gradient_view. */
#define XSM_GRADIENT_VIEW_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(xsm_gradient_view), 0, 0, NULL, NULL, NULL, NULL, 1, 0, 0                                               \
    }

/** What is known in advance about the rows of a stream. Start with #XSM_STREAM_OPTIONS_INIT. */
typedef struct xsm_stream_options {
    size_t size;                  /**< sizeof(xsm_stream_options). */
    uint64_t examples;            /**< N, the number of rows that the L2 penalty refers to; required with an L2 penalty.
                                       On a model of zeros, estimators that search begin to search after this number of
                                       examples. */
    uint64_t ids;                 /**< Number of ids: ids of rows are 0, 1, ... below this. Estimators that store
                                       something for each row need memory for each id: 8 bytes for the built-in ones, 16
                                       for `augment-reduce`. */
    uint64_t batch;               /**< Largest batch in which rows without an id occur; 0 = 256. */
    uint32_t labels;              /**< Most labels of a row; 0 = 1. */
    uint32_t reserved;            /**< Zero. */
    const uint64_t *class_counts; /**< [K] number of rows with each class, for samplers that use it; NULL = unknown. */
} xsm_stream_options;

/** Starting value of an #xsm_stream_options. */
#define XSM_STREAM_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_stream_options), 0, 0, 0, 0, 0, NULL                                                                \
    }

/** Facts about an estimator. Start with #XSM_ESTIMATOR_INFO_INIT. */
typedef struct xsm_estimator_info {
    size_t size;                /**< sizeof(xsm_estimator_info). */
    const char *name;           /**< The estimator's name; borrowed. */
    const xsm_sampler *sampler; /**< The sampler that it draws with, its own or the host's; NULL for an estimator that
                                     uses none. Borrowed until another is set or the estimator is released. */
    uint64_t batch_limit;       /**< Largest batch that it accepts; 0 = any size. */
} xsm_estimator_info;

/** Starting value of an #xsm_estimator_info. */
#define XSM_ESTIMATOR_INFO_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_estimator_info), NULL, NULL, 0                                                                      \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes an estimator with its default options.
 *  @param context context, or NULL
 *  @param name    a name of the table above
 *  @param[out] out the estimator, the caller's to release with xsm_estimator_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown name (the message suggests a similar one) */
XSM_API xsm_status xsm_estimator_new(xsm_context *context, const char *name, xsm_estimator **out, xsm_error *err);
/** Gives up the caller's reference to an estimator; NULL is allowed. Trainers keep theirs. With the last reference the
 *  estimator gives up the model, the rows and the sampler. */
XSM_API void xsm_estimator_free(xsm_estimator *estimator);
/** Returns another reference to an estimator, which the caller gives up with xsm_estimator_free(); NULL for NULL. Any
 *  thread. O(1). */
XSM_API xsm_estimator *xsm_estimator_ref(const xsm_estimator *estimator);

/** Fills `info` (start it with #XSM_ESTIMATOR_INFO_INIT). O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_estimator_get_info(const xsm_estimator *estimator, xsm_estimator_info *info, xsm_error *err);

/** Sets an option from text. Options can be set until the estimator is bound. Estimators that use a sampler have the
 *  option `sampler`, which makes a new sampler with default options, and the options of the sampler as `sampler.KEY`.
 *  Estimators that search have `index` and `index.KEY` in the same way.
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown option (the message suggests a similar name); #XSM_ERROR_RANGE or
 *          #XSM_ERROR_FORMAT for the value (the message says what is accepted); #XSM_ERROR_STATE if the estimator is
 *          bound */
XSM_API xsm_status xsm_estimator_set(xsm_estimator *estimator, const char *name, const char *value, xsm_error *err);
/** Sets a numeric option; an integer option accepts integers only. Returns as xsm_estimator_set(). */
XSM_API xsm_status xsm_estimator_set_number(xsm_estimator *estimator, const char *name, double value, xsm_error *err);
/** Writes the value of an option as text to `buffer` (always terminated, truncated to `size` bytes; may be NULL).
 *  Returns the length of the whole text without the terminator, 0 for an empty value; SIZE_MAX, and an empty text,
 *  if there is no such option. */
XSM_API size_t xsm_estimator_get(const xsm_estimator *estimator, const char *name, char *buffer, size_t size);

/** Sets the sampler that an estimator draws classes with, in place of the sampler of its options.
 *  @param estimator an estimator that uses a sampler, not bound
 *  @param sampler   the sampler, which the estimator keeps; several may share it. It may already be bound, to rows with
 *  the same classes and features as those that the estimator will be bound to; otherwise it is bound with the
 *  estimator. NULL: use the estimator's own sampler again
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for an estimator that uses no sampler; #XSM_ERROR_STATE if the estimator is
 *          bound */
XSM_API xsm_status xsm_estimator_set_sampler(xsm_estimator *estimator, xsm_sampler *sampler, xsm_error *err);

/** Prepares an estimator for a model and its training data: checks that they match and allocates its state. It
 *  keeps both until it is bound again or released. Binding again resets the estimator.
 *  @return #XSM_OK; #XSM_ERROR_DATA for rows without a label, with more labels than the estimator accepts, or with a
 *          label that is not in the class map, and of a divided model, in all processes, if one has other rows than
 *          process 0; #XSM_ERROR_SHAPE if D or K of model and data differ; #XSM_ERROR_UNSUPPORTED for a model that the
 *          estimator cannot train: a correction of another estimator (xsm_model_info::correction), scores that are
 *          distances with an L2 penalty, a proximal step or a maximum row norm, tied vectors with a search or a
 *          hierarchy, classes that are divided among processes (ext/comm.h) with a search or a hierarchy;
 *          #XSM_ERROR_RANGE for an option that does not fit the data (more negatives than there are other classes), and
 *          for a sampler that never draws a label of the rows; the errors of xsm_sampler_bind() and of a host's table.
 *          O(N + values), plus the cost of binding the sampler. */
XSM_API xsm_status xsm_estimator_bind(xsm_estimator *estimator, const xsm_model *model, const xsm_dataset *train,
                                      xsm_error *err);
/** As xsm_estimator_bind(), for rows whose features are passed with each batch (xsm_batch_values()), such as the output
 *  of a network of the host. Only the labels and classes of `train` are used; it may have any number of features, also
 *  0.
 *  @return as xsm_estimator_bind(); K must be equal, D may differ. #XSM_ERROR_SHAPE for a sampler that depends on the
 *          features of a row, if it is bound to rows whose D is not the model's. Such a sampler must be bound before
 *          (xsm_estimator_set_sampler()) */
XSM_API xsm_status xsm_estimator_bind_labels(xsm_estimator *estimator, const xsm_model *model, const xsm_dataset *train,
                                             xsm_error *err);
/** Prepares an estimator for a stream: rows without a dataset. Every batch has its own features and labels
 *  (xsm_batch_values(), xsm_batch_sparse_values(), xsm_batch::labels). Estimators that store something for each row,
 *  such as `umax`, store it for each id (xsm_batch::ids). For a row without an id they start from the initial value
 *  each time; other estimators are then a better choice. A sampler that depends on the features of a row (`tree`) must
 *  be bound and set before.
 *
 *  If the estimator is already bound to a stream, for example to add ids or after xsm_model_grow(), the values of
 *  existing ids are kept and the random stream continues.
 *  @param estimator the estimator
 *  @param model     the model, which the estimator keeps until it is bound again or released
 *  @param options   settings, or NULL
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DATA for several labels a row if the estimator accepts one; #XSM_ERROR_UNSUPPORTED for a
 *          host's table that stores something for each row but has no xsm_estimator_ops::state_tensor; #XSM_ERROR_RANGE
 *          for an option; the errors of xsm_estimator_bind(). O(K). */
XSM_API xsm_status xsm_estimator_bind_stream(xsm_estimator *estimator, const xsm_model *model,
                                             const xsm_stream_options *options, xsm_error *err);

/** Computes a score gradient at the model's weights. Each call continues the estimator's random stream.
 *  @param estimator a bound estimator
 *  @param batch     rows of the data that the estimator is bound to, with their own features or features of the host
 *                   (xsm_batch::values)
 *  @param eta       learning rate, > 0; used by estimators whose step is not linear in it
 *  @param gradient  output; empty on failure
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DIVERGED if scores or coefficients are not finite or too large for a step;
 *          #XSM_ERROR_STATE if not bound, or if since then the model has grown or got another geometry, or the data
 *          were edited; #XSM_ERROR_ARGUMENT, #XSM_ERROR_SHAPE, #XSM_ERROR_RANGE or #XSM_ERROR_UNSUPPORTED for the
 *          batch; #XSM_ERROR_RANGE for eta, and for a host's sampler that draws what is no class or gives a class that
 *          it drew, or a label, the probability 0, NaN or more than 1; #XSM_ERROR_LIMIT for a batch whose coefficients
 *          cannot be addressed;
 *          #XSM_CANCELLED: the same call computes the same gradient again. An #xsm_activity_hook does not stop an
 *          estimator with a xsm_estimator_ops::state_tensor, as what it stores would be half changed.
 *          O(n m nnz), m the number of classes that a step scores; a search has the cost of its index. */
XSM_API xsm_status xsm_estimator_gradient(xsm_estimator *estimator, const xsm_batch *batch, double eta,
                                          xsm_gradient *gradient, xsm_error *err);

/** As xsm_estimator_gradient(), and also computes the gradient with respect to the features of the rows (the input
 *  gradient), for a host with a network below: loss, score gradient and dL/dx in one pass over the weights. L is the
 *  mean over the batch of the estimator's loss. For sampled estimators the drawn classes are fixed; the correction of a
 *  model's scores is constant. The step of a proximal estimator minimises, over the weights (and the values that it
 *  stores for the row), its loss and L2 penalty plus the squared distance from the previous values divided by 2 eta. L
 *  is then this minimum as a function of x (the Moreau envelope), and dL/dx = sum_k g_k w_k with the weights after the
 *  step. Call it before taking the step.
 *  @param estimator a bound estimator
 *  @param batch     n rows of the data that the estimator is bound to
 *  @param eta       learning rate, > 0
 *  @param gradient  output; empty on failure
 *  @param[out] input_gradient [n][D] dL/dx, already divided by n; row i starts at input_gradient[i*stride]; undefined
 *                   after a failure
 *  @param stride    floats from one row to the next, >= D
 *  @param err       what went wrong, or NULL
 *  @return as xsm_estimator_gradient(); #XSM_ERROR_SHAPE for the stride; #XSM_ERROR_UNSUPPORTED if the estimator
 *          processes several rows jointly (`implicit` with n > 1), and for an embedding model. O(n m D) plus the cost
 *          of the gradient, m the number of its classes */
XSM_API xsm_status xsm_estimator_gradient_input(xsm_estimator *estimator, const xsm_batch *batch, double eta,
                                                xsm_gradient *gradient, float *input_gradient, size_t stride,
                                                xsm_error *err);

/** Makes an empty gradient.
 *  @param context context, or NULL
 *  @param[out] out the gradient, the caller's to release with xsm_gradient_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_gradient_new(xsm_context *context, xsm_gradient **out, xsm_error *err);
/** Releases a gradient; NULL is allowed. */
XSM_API void xsm_gradient_free(xsm_gradient *gradient);
/** Fills `view` (start it with #XSM_GRADIENT_VIEW_INIT). O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_gradient_get_view(const xsm_gradient *gradient, xsm_gradient_view *view, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
