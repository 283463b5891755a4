/* SPDX-License-Identifier: MIT */
/**
 * @file optimizer.h
 * @brief Optimizers: change the weights by a score gradient.
 */
#ifndef XSOFTMAX_OPTIMIZER_H
#define XSOFTMAX_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/estimator.h>

/** @defgroup optimizer Optimizers
 *
 * An optimizer applies score gradients (gradients with respect to the scores, or logits) to a model. Sums over a batch
 * are computed in the order of the examples, so the result does not depend on the number of threads.
 *
 * | name | step | state |
 * |---|---|---|
 * | `sgd` | the step of #xsm_gradient_view, with proximal steps, L2 penalty (ridge) and maximum row norm | none |
 * | `adagrad` | s <- s + t^2, w <- w - eta t / sqrt(s), t a weight's gradient (Duchi et al. 2011) | s for each weight |
 * | `row-adagrad` | the same, with the mean of t^2 over a class's or a feature's weights | s for each of these |
 *
 * eta is the learning rate. In `adagrad`, t is the sum of the gradients of a batch's examples, not their mean, so one
 * learning rate suits batches of any size. s is stored for every weight and bias; it starts at the value of the option
 * `initial` (0.01). @ref method_options lists all options.
 *
 * All support embedding models. `adagrad` and `row-adagrad` support only gradients without `shrinks`, `decay` and
 * `row_bound`, and models whose scores are not distances (xsm_model_set_geometry()). A host can bring an optimizer of
 * its own: a rule in a table, see ext/optimizer.h and xsm_optimizer_new_from().
 *
 * **Threads.** Only one thread at a time may use an optimizer and its model. The optimizer itself uses the threads of
 * its context.
 *  @{ */

/** An optimizer; opaque. */
typedef struct xsm_optimizer xsm_optimizer;
/** Table of functions of an optimizer, see ext/optimizer.h. */
typedef struct xsm_optimizer_ops xsm_optimizer_ops;

/** Facts about an optimizer. Start with #XSM_OPTIMIZER_INFO_INIT. */
typedef struct xsm_optimizer_info {
    size_t size;      /**< sizeof(xsm_optimizer_info). */
    const char *name; /**< The optimizer's name; borrowed. */
} xsm_optimizer_info;

/** Starting value of an #xsm_optimizer_info. */
#define XSM_OPTIMIZER_INFO_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_optimizer_info), NULL                                                                               \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes an optimizer with its default options.
 *  @param context context, or NULL
 *  @param name    name of a built-in optimizer
 *  @param[out] out the optimizer, the caller's to release with xsm_optimizer_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown name (the message lists the names) */
XSM_API xsm_status xsm_optimizer_new(xsm_context *context, const char *name, xsm_optimizer **out, xsm_error *err);
/** Gives up the caller's reference to an optimizer; NULL is allowed. Trainers keep theirs. */
XSM_API void xsm_optimizer_free(xsm_optimizer *optimizer);
/** Returns another reference to an optimizer, which the caller gives up with xsm_optimizer_free(); NULL for NULL. Any
 *  thread. O(1). */
XSM_API xsm_optimizer *xsm_optimizer_ref(const xsm_optimizer *optimizer);

/** Fills `info` (start it with #XSM_OPTIMIZER_INFO_INIT). O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_optimizer_get_info(const xsm_optimizer *optimizer, xsm_optimizer_info *info, xsm_error *err);

/** Sets an option from text. Options can be set until the optimizer is bound.
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown option (the message suggests a similar name); #XSM_ERROR_RANGE or
 *          #XSM_ERROR_FORMAT for the value (the message says what is accepted); #XSM_ERROR_STATE if the optimizer is
 *          bound */
XSM_API xsm_status xsm_optimizer_set(xsm_optimizer *optimizer, const char *name, const char *value, xsm_error *err);
/** Sets a numeric option; an integer option accepts integers only. Returns as xsm_optimizer_set(). */
XSM_API xsm_status xsm_optimizer_set_number(xsm_optimizer *optimizer, const char *name, double value, xsm_error *err);
/** Writes the value of an option as text to `buffer` (always terminated, truncated to `size` bytes; may be NULL).
 *  Returns the length of the whole text without the terminator, 0 for an empty value; SIZE_MAX, and an empty text,
 *  if there is no such option. */
XSM_API size_t xsm_optimizer_get(const xsm_optimizer *optimizer, const char *name, char *buffer, size_t size);

/** Prepares an optimizer for a model, which it keeps until it is bound again or released. A mapped model is copied to
 *  memory. Every call resets the state of the optimizer; xsm_trainer_new() calls this function. `adagrad` allocates as
 *  much memory as the model: O(K D), or O((F + K) H) for an embedding model; `row-adagrad` O(F + K).
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for a rule on a model whose scores are distances */
XSM_API xsm_status xsm_optimizer_bind(xsm_optimizer *optimizer, xsm_model *model, xsm_error *err);
/** Takes one step on the bound model.
 *  @param optimizer a bound optimizer
 *  @param batch     the rows that the gradient was computed for
 *  @param gradient  gradient of xsm_estimator_gradient() for this batch
 *  @param eta       learning rate, > 0; the same as for the gradient
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DIVERGED if the step would not be finite (the model is unchanged); #XSM_ERROR_STATE if
 *          not bound, or if the model has grown or has another geometry since; #XSM_ERROR_RANGE for eta, or for rows
 *          that do not exist; #XSM_ERROR_SHAPE if n of batch and gradient or K of gradient and model differ;
 *          #XSM_ERROR_UNSUPPORTED for a gradient that the optimizer does not support. O(nnz) for each coefficient, plus
 *          O(1) for an L2 penalty. #XSM_CANCELLED for a large step (@ref guide_cancelling), after which the model is as
 *          before; others are taken as a whole: an #xsm_activity_hook is called and does not stop them. */
XSM_API xsm_status xsm_optimizer_apply(xsm_optimizer *optimizer, const xsm_batch *batch, const xsm_gradient *gradient,
                                       double eta, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
