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
 * An optimizer applies score gradients to a model. Built in: `sgd`, the plain step of #xsm_gradient_view. Sums over a
 * batch are taken in the order of the examples, so the result does not depend on the number of threads.
 *
 * **Threads.** One thread at a time on one optimizer and its model; it uses its context's threads itself.
 *  @{ */

/** An optimizer; opaque. */
typedef struct xsm_optimizer xsm_optimizer;

#ifdef __cplusplus
extern "C" {
#endif

/** Makes an optimizer.
 *  @param context context, or NULL
 *  @param name    "sgd"
 *  @param[out] out the optimizer, the caller's to release with xsm_optimizer_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_NAME; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_optimizer_new(xsm_context *context, const char *name, xsm_optimizer **out, xsm_error *err);
/** Releases an optimizer; NULL is fine. */
XSM_API void xsm_optimizer_free(xsm_optimizer *optimizer);
/** Name of the optimizer; borrowed. */
XSM_API const char *xsm_optimizer_name(const xsm_optimizer *optimizer);
/** Prepares an optimizer for a model, which must stay while the optimizer is used. A mapped model is copied to memory.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_optimizer_bind(xsm_optimizer *optimizer, xsm_model *model, xsm_error *err);
/** Takes one step on the bound model.
 *  @param optimizer a bound optimizer
 *  @param batch     the rows that the gradient was computed for
 *  @param gradient  of xsm_estimator_gradient() for that batch
 *  @param eta       learning rate, > 0; the one that the gradient was computed for
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_STATE when not bound; #XSM_ERROR_SHAPE when batch and gradient differ in n;
 *          #XSM_ERROR_DIVERGED when the step would not be finite (the model is as before); #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_optimizer_apply(xsm_optimizer *optimizer, const xsm_batch *batch, const xsm_gradient *gradient,
                                       double eta, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
