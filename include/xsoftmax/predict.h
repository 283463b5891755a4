/**
 * @file predict.h
 * @brief Prediction: the best classes of a row, with probabilities.
 */
#ifndef XSOFTMAX_PREDICT_H
#define XSOFTMAX_PREDICT_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/dataset.h>
#include <xsoftmax/index.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/model.h>

/** @defgroup predict Prediction
 *
 * A predictor scores every class, or those that a search finds: in an index, or, for models that carry a tree
 * (xsm_model_correction()), in that tree. These are scored again as xsm_model_scores() does, so that a search decides
 * which classes are looked at and nothing else. What it misses, xsm_evaluate_search() says. The tree is also a
 * classifier by itself, which asks for no weights and costs O(log K).
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
    uint32_t beam;          /**< Above 0, without an index: classes to score, `top` or more, found by a beam search of
                                 that width in the model's tree (Bamler and Mandt 2020): on each of its levels so many
                                 nodes are kept. K or more scores every class. */
    int32_t tree_alone;     /**< 1: the classes that the tree finds likeliest, without the model's weights: scores are
                                 log p_n(k|x), probabilities p_n(k|x) itself. `beam` is the width, up to K; 0 = the
                                 larger of `top` and 10. */
} xsm_predictor_options;

/** Starting value of an #xsm_predictor_options. */
#define XSM_PREDICTOR_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(xsm_predictor_options), 0, 0, NULL, 0, 0                                                                \
    }

/** Result of xsm_evaluate_search(). */
typedef struct xsm_search_metrics {
    size_t size;                      /**< sizeof(xsm_search_metrics). */
    uint64_t rows;                    /**< Rows looked at. */
    uint64_t labelled;                /**< Those with a label. */
    uint32_t top;                     /**< Entries below that are set. */
    uint32_t reserved;                /**< Zero. */
    double probed;                    /**< Mean over the rows of the classes that the search scored, or ended with. */
    double recall[XSM_PRECISION_MAX]; /**< recall[k-1]: mean over the rows of (classes that are among the k best of
                                           all and among the k best found) / k. */
    double precision[XSM_PRECISION_MAX]; /**< precision[k-1]: mean over the labelled rows of (labels among the k best
                                              found) / k; NaN if there are none. */
} xsm_search_metrics;

/** Starting value of an #xsm_search_metrics. */
#define XSM_SEARCH_METRICS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_search_metrics), 0, 0, 0, 0, 0, {0},                                                                \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a predictor for a model, which must stay while it is used.
 *  @param model   the model
 *  @param options settings, or NULL
 *  @param[out] out the predictor, the caller's to release with xsm_predictor_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE, for a beam that is narrower than `top` too; #XSM_ERROR_STATE for an index that is
 *          not built over this model as it is now; #XSM_ERROR_UNSUPPORTED for a beam in a model without a tree;
 *          #XSM_ERROR_ARGUMENT for an index and a beam together; #XSM_ERROR_MEMORY; #XSM_ERROR_STRUCT_OLD,
 * #XSM_ERROR_STRUCT_NEW */
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
 *  @param[out] probabilities [n][top] exp(score) over the sum of all K, or NULL; not with an index or a beam of less
 *                   than K, which do not see all K, but with the tree alone, whose scores sum to one
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_SHAPE; #XSM_ERROR_RANGE; #XSM_ERROR_STATE when the model has grown or been trained to
 *          another correction since, or the index been built over something else; #XSM_ERROR_DIVERGED when a score is
 *          not finite (rows before that one may have been filled in); #XSM_ERROR_UNSUPPORTED for probabilities with a
 *          search; #XSM_ERROR_MEMORY. O(n K nnz), or n searches: of a beam, O(W nnz) and O(W c log K) for a tree on c
 *          components; no allocation, but once after the model's layout has changed (xsm_model_set_layout()) or the
 *          index been built again. */
XSM_API xsm_status xsm_predictor_run(xsm_predictor *predictor, const xsm_batch *batch, uint32_t *classes, float *scores,
                                     double *probabilities, xsm_error *err);

/** Classes that an index scored, or a beam ended with, for the rows so far, or nodes that the search in a hierarchy
 *  opened; 0 where all classes are scored. */
XSM_API uint64_t xsm_predictor_probed(const xsm_predictor *predictor);

/** What a search finds, against all classes.
 *  @param context context whose threads to use, or NULL for the model's
 *  @param model   the model
 *  @param dataset rows with the model's D, transformed already, with labels or without
 *  @param options the predictor to be tried; `top` at most #XSM_PRECISION_MAX, 0 = 5
 *  @param[out] metrics start it with #XSM_SEARCH_METRICS_INIT
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_SHAPE; #XSM_ERROR_RANGE; as xsm_predictor_new() and
 *          xsm_predictor_run(). Every class of every row is scored once. The same result on any number of threads. */
XSM_API xsm_status xsm_evaluate_search(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                                       const xsm_predictor_options *options, xsm_search_metrics *metrics,
                                       xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
