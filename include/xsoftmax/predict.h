/**
 * @file predict.h
 * @brief Prediction: the best classes of a row, with probabilities.
 */
#ifndef XSOFTMAX_PREDICT_H
#define XSOFTMAX_PREDICT_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/index.h>
#include <xsoftmax/model.h>

/** @defgroup predict Prediction
 *
 * A predictor scores every class, or those that a search index finds; these are scored again as xsm_model_scores()
 * does, so that an index decides which classes are looked at and nothing else.
 *
 * **Threads.** A predictor belongs to one thread at a time; any number of them share one model, which is not changed.
 *  @{ */

/** A predictor: the scratch memory of one thread; opaque. */
typedef struct xsm_predictor xsm_predictor;

/** Settings of a predictor. Start with #XSM_PREDICTOR_OPTIONS_INIT. */
typedef struct xsm_predictor_options {
    size_t size;            /**< sizeof(xsm_predictor_options). */
    uint32_t top;           /**< Classes a row, 1 to 65536; 0 = 5. A model with fewer classes gives those it has. */
    uint32_t reserved;      /**< Zero. */
    const xsm_index *index; /**< Index that xsm_index_build_model() has built over the model, to search in place of
                                 scoring every class; NULL = none. Borrowed; any number of predictors share one. */
} xsm_predictor_options;

/** Starting value of an #xsm_predictor_options. */
#define XSM_PREDICTOR_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(xsm_predictor_options), 0, 0, NULL                                                                      \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a predictor for a model, which must stay while it is used.
 *  @param model   the model
 *  @param options settings, or NULL
 *  @param[out] out the predictor, the caller's to release with xsm_predictor_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE; #XSM_ERROR_STATE for an index that is not built over this model;
 * #XSM_ERROR_MEMORY; #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_predictor_new(const xsm_model *model, const xsm_predictor_options *options, xsm_predictor **out,
                                     xsm_error *err);
/** Releases a predictor; NULL is fine. */
XSM_API void xsm_predictor_free(xsm_predictor *predictor);
/** Classes that xsm_predictor_run() gives for each row: the smaller of `top` and K. */
XSM_API uint32_t xsm_predictor_top(const xsm_predictor *predictor);
/** Finds the best classes of each row of a batch, on the caller's thread alone.
 *  @param predictor the predictor
 *  @param batch     n rows, transformed already
 *  @param[out] classes [n][top] best first; of equal scores the smaller class first
 *  @param[out] scores  [n][top] their scores, or NULL
 *  @param[out] probabilities [n][top] exp(score) over the sum of all K, or NULL; not with an index, which does not see
 *                   all K
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_SHAPE; #XSM_ERROR_RANGE; #XSM_ERROR_STATE when the model has been trained to another
 *          correction since; #XSM_ERROR_DIVERGED when a score is not finite (rows before that one may have been filled
 *          in); #XSM_ERROR_UNSUPPORTED for probabilities with an index. O(n K nnz), or n searches; no allocation. */
XSM_API xsm_status xsm_predictor_run(xsm_predictor *predictor, const xsm_batch *batch, uint32_t *classes, float *scores,
                                     double *probabilities, xsm_error *err);

/** Classes that the index scored for the rows so far, or nodes that the search in a hierarchy opened; 0 where all
 *  classes are scored. */
XSM_API uint64_t xsm_predictor_probed(const xsm_predictor *predictor);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
