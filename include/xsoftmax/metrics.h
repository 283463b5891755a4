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
 * Beside log-loss and error there are the measures of the extreme classification literature, of the k best classes of a
 * row with the labels P. Classes are ranked by score, of equal scores the smaller first; r_j is the class at rank j.
 *
 * | member | what it is |
 * |---|---|
 * | `precision` | sum over j <= k of [r_j in P] / k |
 * | `ndcg` | sum of [r_j in P] / log2(j+1), over the same sum for the best order, whose first min(k, P) are labels |
 * | `psp` | sum of [r_j in P] / p(r_j) / k: precision with weights for rare classes |
 * | `psndcg` | sum of [r_j in P] / (p(r_j) log2(j+1)), over the sum of 1 / log2(j+1) for j <= min(k, P) |
 *
 * p is the propensity of Jain, Prabhu and Varma (2016): 1/p(l) = 1 + C (n_l + B)^-A with C = (log n - 1) (B + 1)^A, for
 * a class in n_l of n training rows (C at least 0); a label that was never seen has n_l = 0. `precision` and `ndcg` are
 * means over the rows; `psp` and `psndcg` are the mean over the rows divided by the mean that the labels themselves,
 * best weights first, would get, as the programs of the field have it.
 *
 * Every class is scored, in tiles; memory does not grow with N*K. Rows whose label was never seen in training count:
 * they are wrong by definition in `error` and `precision`, and have no log-loss.
 *  @{ */

/** Largest k of precision\@k. */
#define XSM_PRECISION_MAX 100

/** What to evaluate. Start with #XSM_EVALUATE_OPTIONS_INIT. */
typedef struct xsm_evaluate_options {
    size_t size;            /**< sizeof(xsm_evaluate_options). */
    uint32_t precision_max; /**< precision[0..precision_max) are computed, at most #XSM_PRECISION_MAX; 0 = 10. */
    uint32_t reserved;      /**< Zero. */
    double propensity_a;    /**< A, 0 to 10; 0 = 0.55. The field takes 0.5 for Wikipedia data and 0.6 for Amazon's. */
    double propensity_b;    /**< B, 0 to 1e9; 0 = 1.5. The field takes 0.4 for Wikipedia data and 2.6 for Amazon's. */
} xsm_evaluate_options;

/** Starting value of an #xsm_evaluate_options. */
#define XSM_EVALUATE_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(xsm_evaluate_options), 0, 0, 0, 0                                                                       \
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
    double ndcg[XSM_PRECISION_MAX];   /**< ndcg[k-1], in the same way. */
    double psp[XSM_PRECISION_MAX];    /**< psp[k-1]; NaN where the model does not know its classes' counts. */
    double psndcg[XSM_PRECISION_MAX]; /**< psndcg[k-1]; NaN likewise. */
} xsm_metrics;

/** Starting value of an #xsm_metrics. */
#define XSM_METRICS_INIT                                                                                               \
    {                                                                                                                  \
        sizeof(xsm_metrics), 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, {0}, {0},                                                 \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }

/** Hits are counted up to that rank. */
#define XSM_RANKS_HITS 10

/** What to rank labels by. Start with #XSM_RANKS_OPTIONS_INIT. */
typedef struct xsm_ranks_options {
    size_t size;                     /**< sizeof(xsm_ranks_options). */
    const xsm_dataset *const *known; /**< [known_count] datasets, read against the model's class map and transformed,
                                          whose labels are known to be right for rows with the same features: the
                                          training rows, say. Borrowed. */
    size_t known_count;              /**< Datasets. */
} xsm_ranks_options;

/** Starting value of an #xsm_ranks_options: labels of the row itself alone. */
#define XSM_RANKS_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(xsm_ranks_options), NULL, 0                                                                             \
    }

/** Filtered ranks of labels. Every label of every row is one of `labels`. */
typedef struct xsm_ranks {
    size_t size;                 /**< sizeof(xsm_ranks). */
    uint64_t labels;             /**< Labels, seen in training or not. */
    uint64_t unseen_labels;      /**< Those that the model does not have: no hit, and a reciprocal rank of 0. */
    double reciprocal_rank;      /**< MRR: the mean of 1/rank over all labels. */
    double mean_rank;            /**< The mean of the rank over the labels that the model has; NaN if it has none. */
    double hits[XSM_RANKS_HITS]; /**< hits[k-1]: Hits\@k, the share of labels of rank k at most. */
} xsm_ranks;

/** Starting value of an #xsm_ranks. */
#define XSM_RANKS_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(xsm_ranks), 0, 0, 0, 0,                                                                                 \
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

/** Ranks every label of every row among all classes but those that are known to be right: the other labels of the row,
 * and those of rows with the same features in the datasets of the options. This is the filtered setting of link
 * prediction (Bordes et al. 2013). A label's rank is 1, and the classes with a higher score, and half of those with the
 * same.
 *  @param context context whose threads to use, or NULL for the model's
 *  @param model   the model
 *  @param dataset rows with the model's D, read against its class map, transformed already
 *  @param options settings, or NULL
 *  @param[out] ranks start it with #XSM_RANKS_INIT
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_SHAPE; #XSM_ERROR_DATA when no row has a label; #XSM_ERROR_DIVERGED
 *          when a score is not finite; #XSM_ERROR_MEMORY. Scores everything twice: O(N K (nnz + labels a row)). The
 * same bits for any number of threads. */
XSM_API xsm_status xsm_evaluate_ranks(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                                      const xsm_ranks_options *options, xsm_ranks *ranks, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
