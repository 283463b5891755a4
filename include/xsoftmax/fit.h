/**
 * @file fit.h
 * @brief Full-batch training: the whole objective minimised by L-BFGS.
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
    XSM_FIT_UNFINISHED = 0, /**< It did not: it was cancelled, or failed. */
    XSM_FIT_CONVERGED = 1,  /**< The tolerance was reached. */
    XSM_FIT_ITERATIONS = 2, /**< The most iterations allowed were made. */
    XSM_FIT_PRECISION = 3 /**< No step improves the objective any more as far as float32 weights and scores can tell. */
};

/** Settings of xsm_fit_batch(). Start with #XSM_FIT_OPTIONS_INIT. */
typedef struct xsm_fit_options {
    size_t size;         /**< sizeof(xsm_fit_options). */
    uint64_t iterations; /**< Most iterations, up to 2^31 - 1; 0 = 1000. */
    /** Relative accuracy of the objective f, in (0, 1); 0 = 1e-6. The fit ends when five iterations together lowered f
     *  by no more than this share of it; with a ridge mu and no bias, also as soon as ||grad f||^2/(2 mu), which bounds
     *  the distance to the minimum, is no more than that. */
    double tolerance;
    uint32_t memory;                /**< Pairs of vectors that L-BFGS keeps, up to 1000; 0 = 10. */
    int32_t evaluate_train;         /**< 1 = evaluate on the training rows, too. */
    uint64_t evaluate_every;        /**< Evaluate after every so many iterations, and at the end; 0 = never. */
    const xsm_dataset *test;        /**< Rows to evaluate on then, or NULL. Borrowed. */
    xsm_progress_function progress; /**< Or NULL. */
    void *progress_user;            /**< Handed to progress(). */
} xsm_fit_options;

/** Starting value of an #xsm_fit_options. */
#define XSM_FIT_OPTIONS_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(xsm_fit_options), 0, 0, 0, 0, 0, NULL, NULL, NULL                                                       \
    }

/** What came of a fit. */
typedef struct xsm_fit_result {
    size_t size;          /**< sizeof(xsm_fit_result). */
    uint64_t iterations;  /**< Iterations, each of which lowered the objective. */
    uint64_t evaluations; /**< Passes over the rows. */
    double objective;     /**< f = sum_i loss_i + (mu/2) ||W||^2 at the model's weights; NaN if it was never known. */
    double loss;          /**< The first part of it: the sum of the estimator's losses. */
    double gradient_norm; /**< ||grad f|| there. */
    double seconds;       /**< Time spent, evaluation not counted. */
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

/** Minimises f = sum_i loss_i + (mu/2) ||W||^2 (mu the estimator's `ridge`; the bias is free) over all rows at once,
 * from the weights that the model has, by L-BFGS with the line search of More and Thuente (libLBFGS).
 *
 *  The estimator must look at every class: `softmax`, `bouchard`, `margin`, `one-vs-all`, `ove` and
 * `one-vs-all-sampled` with `negatives=all`, or a host's own; its losses and coefficients must be a smooth function and
 * its gradient. It is bound to the model and the rows. The weights are put in the order that is faster for them, as
 * xsm_trainer_new() does. The rows are taken in tiles: the N x K matrix of scores never exists. Losses, the gradient
 * and L-BFGS's vectors are in double precision over scores and tiles in float32, so that f is right to about 1e-7 of
 * it, whatever the tolerance. The result is the same bits for any number of threads and any instruction set.
 *
 *  The callback sees an iteration as an epoch of one step: `epoch` = `step` = iterations made, `epochs` = `steps` =
 * most of them, `examples` = rows passed, `eta` = length of the last step along the search direction, `loss` = mean
 * loss of the best weights so far. When it cancels, within an iteration or after one, the best weights so far stay.
 *
 *  **Memory.** (2 m + 4) vectors of K (D + 1) doubles, m the pairs kept; of these, 2 m + 3 are libLBFGS's own, from the
 * C library's malloc() and not the context's allocator.
 *  @param context   context whose threads are used, or NULL
 *  @param model     the model to fit, from where it is
 *  @param train     rows with the model's D and K
 *  @param estimator the estimator
 *  @param options   settings, or NULL
 *  @param[in,out] result what came of it (start it with #XSM_FIT_RESULT_INIT), also filled on #XSM_CANCELLED and
 *                   #XSM_ERROR_DIVERGED; or NULL
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK, also when the iterations ran out (`end` tells); #XSM_CANCELLED; #XSM_ERROR_UNSUPPORTED for an
 *          estimator that samples, naming those accepted, for an embedding model, and where scores are distances;
 *          #XSM_ERROR_LIMIT for more than 2^31 - 17 weights; #XSM_ERROR_SHAPE for test rows of other than D features;
 *          #XSM_ERROR_DIVERGED when scores leave the finite numbers or no step along a gradient that is not small
 * lowers the objective (the model has the best weights so far); #XSM_ERROR_RANGE for an option; what
 *          xsm_estimator_bind() returns; #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER. O(N nnz K) an evaluation, O(m K D) an
 *          iteration. */
XSM_API xsm_status xsm_fit_batch(xsm_context *context, xsm_model *model, const xsm_dataset *train,
                                 xsm_estimator *estimator, const xsm_fit_options *options, xsm_fit_result *result,
                                 xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
