/* SPDX-License-Identifier: MIT */
/**
 * @file metrics.h
 * @brief Evaluation of a model with scores of all classes: log-loss, error, precision.
 */
#ifndef XSOFTMAX_METRICS_H
#define XSOFTMAX_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>
#include <xsoftmax/model.h>

/** @defgroup metrics Evaluation
 *
 * Besides log-loss and error, the library computes the usual metrics of extreme classification from the k classes with
 * the highest scores (logits) of a row with the labels P. Classes are ranked by decreasing score; classes with equal
 * scores are in increasing order. r_j is the class at rank j.
 *
 * | member | definition |
 * |---|---|
 * | `precision` | sum over j <= k of [r_j in P] / k |
 * | `ndcg` | sum of [r_j in P] / log2(j+1), divided by its largest possible value (min(k, P) labels first) |
 * | `psp` | sum of [r_j in P] / p(r_j) / k: precision with weights for rare classes |
 * | `psndcg` | sum of [r_j in P] / (p(r_j) log2(j+1)), divided by the sum of 1 / log2(j+1) for j <= min(k, P) |
 * | `recall` | sum over j <= k of [r_j in P] / P |
 * | `hits` | 1 if any r_j with j <= k is in P, else 0 |
 * | `reciprocal_rank` | 1/j of the first r_j in P, 0 if j > k (MRR\@k: Voorhees, TREC-8 question answering, 1999) |
 *
 * p is the propensity of Jain, Prabhu and Varma (2016): 1/p(l) = 1 + C (n_l + B)^-A with C = (log n - 1) (B + 1)^A, for
 * a class that n_l of n training rows have (C at least 0); a label that does not occur in training has n_l = 0.
 * All but `psp` and `psndcg` are means over the rows. `psp` and `psndcg` are the mean over the rows divided by the mean
 * of the best possible ranking (the labels, largest 1/p first), as in the usual evaluation programs of extreme
 * classification.
 *
 * Probabilities are those of the model's calibration (@ref calibrate) or link (xsm_model_set_link()). Calibrated for
 * several labels, and with #XSM_LINK_SIGMOID, a row's log-loss is the sum over all classes of -log p for its labels and
 * -log(1 - p) for the others. In a label tree the sum is over
 * the classes that the beam finds and the row's labels; it is so without a calibration, too, if the link is
 * #XSM_LABEL_TREE_LINK_SIGMOID.
 *
 * Every class is scored, in tiles (a label tree finds the best classes by a beam search, see
 * xsm_evaluate_options::beam); the memory needed does not grow with N*K. Rows whose labels do not occur in training
 * count as wrong in `error` and `precision`, and are left out of the log-loss.
 *  @{ */

/** Largest k of the measures, and most classes that a prediction returns for a row. */
#define XSM_TOP_MAX 65536

/** What to evaluate. Start with #XSM_EVALUATE_OPTIONS_INIT. */
typedef struct xsm_evaluate_options {
    size_t size;         /**< sizeof(xsm_evaluate_options). */
    double propensity_a; /**< A, 0 to 10; #XSM_DEFAULT = 0.55. Usual: 0.5 for Wikipedia data, 0.6 for Amazon data. */
    /** B, 0 to 1e9; #XSM_DEFAULT = 1.5. Usual: 0.4 for Wikipedia data, 2.6 for Amazon data. With 0 the weight of a
     *  label without training rows is infinite, and `psp` and `psndcg` may be NaN. */
    double propensity_b;
    /** Most rows: with fewer than the dataset has, a sample, one row of each of as many equal parts of the dataset, the
     *  same in every call. 0 = all. xsm_metrics::rows says how many of them had a label. */
    uint64_t rows;
    /** About the most seconds, above 0: samples that grow are evaluated while the next one is expected to end in time,
     *  at least one of 128 rows; the result is that of the largest, which are all rows where time suffices. So it
     *  depends on the machine. 0 = no limit. */
    double seconds;
    uint32_t beam;     /**< Of a label tree: width of the beam search that ranks the classes; 0 = 10. K or more scores
                            every class, which takes long for many classes. Other models: 0. */
    uint32_t reserved; /**< Zero. */
} xsm_evaluate_options;

/** Starting value of an #xsm_evaluate_options. */
#define XSM_EVALUATE_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(xsm_evaluate_options), XSM_DEFAULT, XSM_DEFAULT, 0, 0, 0, 0                                             \
    }

/** Which training rows a trainer or a fit evaluates. */
enum {
    XSM_EVALUATE_NONE = 0,  /**< None. */
    XSM_EVALUATE_ALL = 1,   /**< All: an exact evaluation scores every class for every row. */
    XSM_EVALUATE_SAMPLE = 2 /**< A sample that takes about a tenth of the seconds that training has taken before the
                                 first evaluation, but at least 0.1 s; all rows where time suffices. Later evaluations
                                 use as many rows as the first. xsm_metrics::rows says how many. */
};

/** Result of an evaluation. The caller sets `top` and the arrays that it wants, the function the rest. Start with
 *  #XSM_METRICS_INIT: no arrays. */
typedef struct xsm_metrics {
    size_t size;            /**< sizeof(xsm_metrics). */
    uint64_t rows;          /**< Evaluated rows: rows with a label, in the class map or not. */
    uint64_t known_rows;    /**< Rows with a label in the class map; log_loss is a mean over these. */
    uint64_t unseen_rows;   /**< rows - known_rows. */
    uint64_t unlabelled;    /**< Rows without any label, left out. */
    uint64_t unseen_labels; /**< Labels of all rows that are not in the class map. */
    double log_loss;        /**< Mean over the known rows of the mean of -log p(label) over the row's known labels
                                 (#XSM_CALIBRATION_LABELS, #XSM_LINK_SIGMOID: see above). NaN if there are no such
                                 rows, and for a label tree with #XSM_LABEL_TREE_LINK_HINGE without a calibration, whose
                                 scores rank only. */
    double error;           /**< Share of rows whose class with the highest score is not one of their labels. */
    uint32_t top;           /**< Input: numbers in each array, 1 to #XSM_TOP_MAX; may be more than K. */
    uint32_t beam;     /**< Width of the beam by which a label tree ranked the classes; 0: every class was scored. */
    double *precision; /**< [top], or NULL if not wanted. precision[k-1]: mean over rows of (labels among the k classes
                            with the highest scores) / k. */
    double *ndcg;      /**< [top] or NULL. ndcg[k-1]: nDCG\@k, mean over rows. */
    double *psp;       /**< [top] or NULL. psp[k-1]; NaN if the model has no class counts. */
    double *psndcg;    /**< [top] or NULL. psndcg[k-1]; NaN if the model has no class counts. */
    /** Expected calibration error: over 15 bins of equal width of the probability of each row's best class, the mean
     *  over the rows of | share of rows of the bin whose best class is a label - mean probability of the bin |. */
    double calibration_error;
    double *recall;          /**< [top] or NULL. recall[k-1]: mean over rows of (labels among the k best) / labels. */
    double *hits;            /**< [top] or NULL. hits[k-1]: share of rows with a label among the k best. */
    double *reciprocal_rank; /**< [top] or NULL. reciprocal_rank[k-1]: MRR\@k. */
} xsm_metrics;

/** Starting value of an #xsm_metrics. */
#define XSM_METRICS_INIT                                                                                               \
    {                                                                                                                  \
        sizeof(xsm_metrics), 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL                    \
    }

/** A pair of classes that are confused: a label that rows have and do not get, and a class that they get and do not
 *  have. */
typedef struct xsm_confusion {
    uint32_t label;     /**< The label, a class. */
    uint32_t predicted; /**< The class. */
    double rows;        /**< Rows with both, by weight. */
} xsm_confusion;

/** Settings of xsm_evaluate_classes(). Start with #XSM_CLASS_METRICS_OPTIONS_INIT. */
typedef struct xsm_class_metrics_options {
    size_t size; /**< sizeof(xsm_class_metrics_options). */
    /** What is predicted for a row: the classes with this probability or a larger one, 0 to 1; 0 = its best class
     *  alone. #XSM_DEFAULT = 0.5 where rows have several labels and each class has a probability of its own
     *  (#XSM_LINK_SIGMOID, #XSM_CALIBRATION_LABELS, a label tree whose probabilities do not sum to one), else 0. */
    double threshold;
    uint32_t beam;     /**< As xsm_evaluate_options::beam. */
    uint32_t reserved; /**< Zero. */
} xsm_class_metrics_options;

/** Starting value of an #xsm_class_metrics_options. */
#define XSM_CLASS_METRICS_OPTIONS_INIT                                                                                 \
    {                                                                                                                  \
        sizeof(xsm_class_metrics_options), XSM_DEFAULT, 0, 0                                                           \
    }

/** Result of xsm_evaluate_classes(). The caller sets the arrays that it wants and `most`, the function the rest. Start
 *  with #XSM_CLASS_METRICS_INIT. */
typedef struct xsm_class_metrics {
    size_t size;       /**< sizeof(xsm_class_metrics). */
    uint64_t rows;     /**< Evaluated rows: those with a label, in the class map or not. */
    double threshold;  /**< The threshold that was used; 0 = the best class of each row. */
    double micro_f1;   /**< F1 of the sums over all classes. */
    double macro_f1;   /**< Mean of F1 over the classes that are a label or predicted. */
    uint64_t counted;  /**< Number of classes in that mean, labels that the model lacks included. */
    size_t most;       /**< Input: entries of `confusions`. */
    double *labels;    /**< [K] or NULL: rows that have the class as a label, by weight, as in the two arrays below. */
    double *predicted; /**< [K] or NULL: rows for which it is predicted. */
    double *right;     /**< [K] or NULL: rows where it is both: true positives. */
    xsm_confusion *confusions; /**< [most] or NULL: the pairs with most rows, most first, of equal ones by classes. */
    uint64_t found;            /**< Number of all pairs with rows; at most `most` of them are written. */
} xsm_class_metrics;

/** Starting value of an #xsm_class_metrics. */
#define XSM_CLASS_METRICS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(xsm_class_metrics), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0                                         \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Evaluates a model on rows that are already transformed (see xsm_model_transform()).
 *  @param context context whose threads to use, or NULL for the model's
 *  @param model   the model
 *  @param dataset rows with the model's D, read against its class map
 *  @param options settings, or NULL
 *  @param[in,out] metrics the result, with the arrays that are wanted, see #xsm_metrics
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DATA if no row has a label; #XSM_ERROR_DIVERGED if a score is not finite (the message
 *          names the row); #XSM_ERROR_SHAPE if the rows do not match the model; #XSM_ERROR_RANGE. O(N K nnz), and
 *          O(N K top) at worst with arrays, where N are the rows evaluated. Needs 2 KiB times `top` for each thread,
 *          and up to 64 MiB for sums of measures. The result is bit-identical for any number of threads, unless
 *          `seconds` are given. */
XSM_API xsm_status xsm_evaluate(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                                const xsm_evaluate_options *options, xsm_metrics *metrics, xsm_error *err);

/** Compares what is predicted for each row, as a set of classes, with its labels, class by class. With the true
 *  positives T, the labels L and the predictions P of a class or of all, F1 = 2 T / (L + P) (van Rijsbergen 1979):
 *  the micro mean takes the sums over all classes, the macro mean is over the classes with L + P > 0, as scikit-learn's
 *  f1_score() has both (Opitz and Burst, Macro F1 and macro F1, 2019). A label that the model lacks has T = 0
 *  and so an F1 of 0 in the macro mean; rows from memory do not say which of these are the same, so they count in the
 *  sum of L alone.
 *  @param context context whose threads to use, or NULL for the model's
 *  @param model   the model
 *  @param dataset rows with the model's D, read against its class map and already transformed
 *  @param options settings, or NULL
 *  @param[in,out] metrics the result, see #xsm_class_metrics
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DATA if no row has a label, or those with one have no weight above 0;
 *          #XSM_ERROR_DIVERGED if a score is not finite; #XSM_ERROR_SHAPE if the rows do not match the model;
 *          #XSM_ERROR_RANGE; #XSM_ERROR_UNSUPPORTED for a threshold without probabilities. Scores every class once, and
 *          again where more classes than were expected have so large a probability. 24 bytes a class, and 16 for each
 *          pair of confused classes where they are wanted. Bit-identical for any number of threads. */
XSM_API xsm_status xsm_evaluate_classes(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                                        const xsm_class_metrics_options *options, xsm_class_metrics *metrics,
                                        xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
