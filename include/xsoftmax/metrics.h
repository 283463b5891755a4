/**
 * @file metrics.h
 * @brief Evaluation of a model: exact log-loss, error, precision.
 */
#ifndef XSOFTMAX_METRICS_H
#define XSOFTMAX_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>
#include <xsoftmax/model.h>

/** @defgroup metrics Evaluation
 *
 * Every class is scored, in tiles; memory does not grow with N*K. Rows whose label was never seen in training count:
 * they are wrong by definition in `error` and `precision`, and have no log-loss.
 *  @{ */

/** Largest k of precision\@k. */
#define XSM_PRECISION_MAX 100

/** What to evaluate. Start with #XSM_EVALUATE_OPTIONS_INIT. */
typedef struct xsm_evaluate_options {
    size_t size;            /**< sizeof(xsm_evaluate_options). */
    uint32_t precision_max; /**< precision[0..precision_max) are computed, at most #XSM_PRECISION_MAX; 0 = 5. */
    uint32_t reserved;      /**< Zero. */
} xsm_evaluate_options;

/** Starting value of an #xsm_evaluate_options. */
#define XSM_EVALUATE_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(xsm_evaluate_options), 0, 0                                                                             \
    }

/** Result of an evaluation. */
typedef struct xsm_metrics {
    size_t size;            /**< sizeof(xsm_metrics). */
    uint64_t rows;          /**< Rows evaluated: those with a label, seen or not. */
    uint64_t known_rows;    /**< Rows with a label in the class map: those that log_loss is over. */
    uint64_t unseen_rows;   /**< rows - known_rows. */
    uint64_t unlabelled;    /**< Rows without any label, left out. */
    uint64_t unseen_labels; /**< Labels that are not in the class map, over all rows. */
    double log_loss;        /**< Mean over the known rows of the mean over a row's known labels of -log p(label). NaN if
                                 there are no such rows. */
    double error;           /**< Share of rows whose best class is none of its labels. */
    uint32_t precision_max; /**< Entries below that are set. */
    uint32_t reserved;      /**< Zero. */
    double
        precision[XSM_PRECISION_MAX]; /**< precision[k-1]: mean over rows of (labels among the k best classes) / k. */
} xsm_metrics;

/** Starting value of an #xsm_metrics. */
#define XSM_METRICS_INIT                                                                                               \
    {                                                                                                                  \
        sizeof(xsm_metrics), 0, 0, 0, 0, 0, 0, 0, 0, 0,                                                                \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Evaluates a model on rows that are transformed already (see xsm_model_transform()).
 *  @param context context whose threads to use, or NULL for the model's
 *  @param model   the model
 *  @param dataset rows with the model's D, read against its class map
 *  @param options settings, or NULL
 *  @param[out] metrics start it with #XSM_METRICS_INIT
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_SHAPE; #XSM_ERROR_DATA when no row has a label; #XSM_ERROR_DIVERGED when a score is not
 *          finite, naming the row; #XSM_ERROR_RANGE; #XSM_ERROR_MEMORY. O(N K nnz). The same bits for any number of
 *          threads. */
XSM_API xsm_status xsm_evaluate(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                                const xsm_evaluate_options *options, xsm_metrics *metrics, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
