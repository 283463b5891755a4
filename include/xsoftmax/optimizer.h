/**
 * @file optimizer.h
 * @brief Optimizers: how a score gradient changes the weights.
 */
#ifndef XSOFTMAX_OPTIMIZER_H
#define XSOFTMAX_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/estimator.h>

/** @defgroup optimizer Optimizers
 *
 * An optimizer applies score gradients to a model. Sums over a batch are taken in the order of the examples, so the
 * result does not depend on the number of threads.
 *
 * | name | step | keeps |
 * |---|---|---|
 * | `sgd` | the plain one of #xsm_gradient_view; takes proximal steps, a ridge and bounds on rows | nothing |
 * | `adagrad` | s <- s + t^2, w <- w - eta t / sqrt(s), t a weight's gradient (Duchi et al. 2011) | s for each number |
 *
 * What `adagrad` squares is the gradient of the whole batch; it keeps s for every weight and bias, from `initial`
 * (0.01, its one option) on.
 *
 * Both take embedding models. `adagrad` takes estimators whose gradients have neither `shrinks` nor a `decay` nor a
 * `row_bound`, and models whose scores are no distances (xsm_model_set_score()).
 *
 * **Threads.** One thread at a time on one optimizer and its model; it uses its context's threads itself.
 *  @{ */

/** An optimizer; opaque. */
typedef struct xsm_optimizer xsm_optimizer;
/** Table of an optimizer; opaque. */
typedef struct xsm_optimizer_ops xsm_optimizer_ops;

#ifdef __cplusplus
extern "C" {
#endif

/** Number of built-in optimizers. */
XSM_API size_t xsm_optimizer_count(void);
/** Table of built-in optimizer number `index`, NULL past the last. Static. */
XSM_API const xsm_optimizer_ops *xsm_optimizer_at(size_t index);
/** Table of a built-in optimizer by name; NULL if there is none. Static. */
XSM_API const xsm_optimizer_ops *xsm_optimizer_find(const char *name);
/** Name of an optimizer's table. */
XSM_API const char *xsm_optimizer_ops_name(const xsm_optimizer_ops *ops);
/** What an optimizer's steps are, in one line. */
XSM_API const char *xsm_optimizer_ops_summary(const xsm_optimizer_ops *ops);
/** Option number `index` of an optimizer; NULL past the last. */
XSM_API const xsm_option *xsm_optimizer_ops_option(const xsm_optimizer_ops *ops, size_t index);

/** Makes an optimizer with its default options.
 *  @param context context, or NULL
 *  @param name    name of a built-in optimizer
 *  @param[out] out the optimizer, the caller's to release with xsm_optimizer_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_NAME, the message naming what there is; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_optimizer_new(xsm_context *context, const char *name, xsm_optimizer **out, xsm_error *err);
/** Releases an optimizer; NULL is fine. */
XSM_API void xsm_optimizer_free(xsm_optimizer *optimizer);
/** Name of the optimizer; borrowed. */
XSM_API const char *xsm_optimizer_name(const xsm_optimizer *optimizer);

/** Sets an option from text. Options can be set until the optimizer is bound.
 *  @return #XSM_OK; #XSM_ERROR_NAME, the message naming the nearest option; #XSM_ERROR_RANGE or #XSM_ERROR_FORMAT for
 *          the value, the message saying what is accepted; #XSM_ERROR_STATE when it is bound */
XSM_API xsm_status xsm_optimizer_set(xsm_optimizer *optimizer, const char *name, const char *value, xsm_error *err);
/** Sets a number; whole numbers only for an integer option. Returns as xsm_optimizer_set(). */
XSM_API xsm_status xsm_optimizer_set_double(xsm_optimizer *optimizer, const char *name, double value, xsm_error *err);
/** Sets an integer, or a yes/no option as 1 or 0. Returns as xsm_optimizer_set(). */
XSM_API xsm_status xsm_optimizer_set_int(xsm_optimizer *optimizer, const char *name, int64_t value, xsm_error *err);
/** Writes an option's value as text to buffer (always terminated, cut if need be; may be NULL) and returns the length
 *  that it has whole; 0 if there is no such option. */
XSM_API size_t xsm_optimizer_get(const xsm_optimizer *optimizer, const char *name, char *buffer, size_t size);

/** Prepares an optimizer for a model, which must stay while the optimizer is used. A mapped model is copied to memory.
 *  What an optimizer keeps starts anew with every call, those of xsm_trainer_new() among them: `adagrad` takes the
 *  memory of another model, in this call or with the first steps, O(K D), of an embedding model O((F + K) H).
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_UNSUPPORTED for `adagrad` on a model whose scores are distances;
 *          #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_optimizer_bind(xsm_optimizer *optimizer, xsm_model *model, xsm_error *err);
/** Takes one step on the bound model.
 *  @param optimizer a bound optimizer
 *  @param batch     the rows that the gradient was computed for
 *  @param gradient  of xsm_estimator_gradient() for that batch
 *  @param eta       learning rate, > 0; the one that the gradient was computed for
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_STATE when not bound; #XSM_ERROR_RANGE for eta, or for rows that are not there;
 *          #XSM_ERROR_SHAPE when batch and gradient differ in n, or gradient and model in K; #XSM_ERROR_UNSUPPORTED for
 *          a gradient that the optimizer cannot take; #XSM_ERROR_DIVERGED when the step would not be finite (the model
 *          is as before); #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER. O(nnz) for each coefficient, a ridge O(1) besides. */
XSM_API xsm_status xsm_optimizer_apply(xsm_optimizer *optimizer, const xsm_batch *batch, const xsm_gradient *gradient,
                                       double eta, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
