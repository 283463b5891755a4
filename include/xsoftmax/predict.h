/* SPDX-License-Identifier: MIT */
/**
 * @file predict.h
 * @brief Prediction: the classes with the highest scores (logits) of a row, with probabilities.
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
 * A predictor scores every class, or only the classes that a search finds: in an index, in a label tree as shortlist
 * or, for models with a tree (xsm_model_info::correction), in this tree. The classes that a search finds are scored
 * again as xsm_model_scores() does, so a search affects only which classes are scored. xsm_evaluate_search() measures
 * how many classes a search misses. A label tree is always searched, and one of several trees that misses a class gives
 * it a probability of 0. The tree is also a classifier by itself, which uses no weights and costs O(log K).
 *
 * **Filters.** xsm_prediction says which classes a row may get: by a filter of the call or of each row (filter.h), by
 * lists of each row, by excluding its known labels, and by a least score or probability. The result is that of scoring
 * every class and then removing those that the row may not get. Only the classes that are left are scored where they
 * are few; a search continues until it has found `top` of them or seen all. Probabilities are relative to all classes:
 * those left out keep their share. A row that gets fewer than `top` classes ends with #XSM_NO_CLASS;
 * xsm_prediction::lengths says how many it has, which may be 0.
 *
 * **Threads.** Only one thread at a time may use a predictor. Any number of predictors may share one model, which they
 * do not change. All processes together make and run a predictor of a model that is divided (ext/comm.h); it scores
 * every class, uses the context's threads, and allocates while it runs.
 *  @{ */

/** A predictor: the scratch memory of one thread; opaque. */
typedef struct xsm_predictor xsm_predictor;
/** Which classes may be predicted; opaque. See filter.h. */
typedef struct xsm_filter xsm_filter;

/** Settings of a predictor. Start with #XSM_PREDICTOR_OPTIONS_INIT. */
typedef struct xsm_predictor_options {
    size_t size;  /**< sizeof(xsm_predictor_options). */
    uint32_t top; /**< Classes for each row, 1 to #XSM_TOP_MAX; 0 = 5. At most the number of classes of the model. */
    uint32_t candidates; /**< With a shortlist: most classes that are scored for each row, at least `top`; 0 = 100. */
    const xsm_index *index; /**< Index that xsm_index_build_model() has built for the model; it is searched instead of
                                 scoring every class. NULL = none. The predictor keeps it; any number may share one. */
    uint32_t beam;          /**< Above 0, without an index: width of a beam search in the model's tree (Bamler and Mandt
                                 2020), at least `top`. The search keeps this many nodes on each level of the tree and
                                 scores the classes that it ends with. K or more scores every class. In a label tree,
                                 which is always searched: the width, any number; 0 = 10. It is doubled for a row where
                                 it finds fewer than `top` classes. */
    int32_t tree_alone;     /**< 1: use the tree alone, without the model's weights, to find the most probable classes:
                                 scores are log p_n(k|x), probabilities p_n(k|x). `beam` is the width, up to K; 0 = the
                                 larger of `top` and 10. */
    const xsm_model *shortlist; /**< A label tree (xsm_fit_label_tree()) of the model's classes, over rows with the
                                     model's features and transform: a beam search in it, `beam` wide (0 = 10), finds
                                     candidates, the best of which by the tree are scored. NULL = none. The predictor
                                     keeps it; any number may share one. */
} xsm_predictor_options;

/** Starting value of an #xsm_predictor_options. */
#define XSM_PREDICTOR_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(xsm_predictor_options), 0, 0, NULL, 0, 0, NULL                                                          \
    }

/** Rows to predict, and where to write the result. `top` is xsm_predictor_info::top. Start with
 *  #XSM_PREDICTION_INIT. */
typedef struct xsm_prediction {
    size_t size;            /**< sizeof(xsm_prediction). */
    const xsm_batch *batch; /**< n rows, already transformed. */
    uint32_t *classes;      /**< [n][top] output: highest score first; classes with equal scores in increasing order. */
    float *scores;          /**< [n][top] output: their scores, or NULL. */
    double *probabilities;  /**< [n][top] output: the probabilities by the model's calibration (@ref calibrate) or,
                               without one, its link: exp(score) divided by the sum over all K classes, or with
                               #XSM_LINK_SIGMOID 1/(1 + exp(-score)); or NULL. Not available
                               with an index, a shortlist or a beam of less than K, which do not score all classes;
                               available with them for #XSM_CALIBRATION_LABELS and #XSM_LINK_SIGMOID, and with the tree
                               alone, whose probabilities sum to one. A label tree has them of what it finds: exp(score)
                               without a calibration. */
    uint32_t *lengths; /**< [n] output: classes of each row, up to `top`; or NULL. The other entries of `classes` are
                            #XSM_NO_CLASS, of `scores` -INFINITY, of `probabilities` 0. */
    const xsm_filter *filter;         /**< What every row may get, of the model's K; NULL = all classes. Borrowed, as
                                           what follows, during the call. */
    const xsm_filter *const *filters; /**< [n] what each row may get besides, or NULL; an entry may be NULL. */
    const uint64_t *allow_offsets;    /**< [n+1] row i may get allow[allow_offsets[i]..allow_offsets[i+1]) only; NULL =
                                           all classes. */
    const uint32_t *allow;            /**< With `allow_offsets`: classes, strictly increasing within a row. */
    const uint64_t *deny_offsets;     /**< [n+1] row i may not get deny[deny_offsets[i]..deny_offsets[i+1]); NULL =
                                           none. */
    const uint32_t *deny;             /**< With `deny_offsets`: classes, strictly increasing within a row. */
    int32_t exclude_known;    /**< 1: no row gets a label of its own, of xsm_batch::labels or else of the batch's
                                   dataset. */
    int32_t has_least_score;  /**< 1: `least_score` counts. */
    float least_score;        /**< Classes with a score below it are left out. */
    uint32_t reserved;        /**< Zero. */
    double least_probability; /**< Classes with a probability below it are left out, 0 to 1; 0 = none. Above 0 it
                                   needs probabilities, whether they are written or not. */
} xsm_prediction;

/** Starting value of an #xsm_prediction. */
#define XSM_PREDICTION_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_prediction), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0        \
    }

/** Result of xsm_evaluate_search(). The caller sets `top` and the arrays that it wants, the function the rest. Start
 *  with #XSM_SEARCH_METRICS_INIT. */
typedef struct xsm_search_metrics {
    size_t size;       /**< sizeof(xsm_search_metrics). */
    uint64_t rows;     /**< Rows evaluated. */
    uint64_t labelled; /**< Evaluated rows with a label. */
    double probed; /**< Mean over the rows of xsm_predictor_info::probed, whatever their weights: what a row costs. */
    uint32_t top;  /**< Input: numbers in each array, 1 to #XSM_TOP_MAX; may be more than K. */
    uint32_t reserved; /**< Zero. */
    double *recall;    /**< [top], or NULL if not wanted. recall[k-1]: weighted mean over the rows of (classes that are
                            both among the k best of all classes and among the k best found) / min(k, K). */
    double *precision; /**< [top] or NULL. precision[k-1]: weighted mean over the rows with a label of (labels among the
                            k best found) / k; NaN if there are none. */
} xsm_search_metrics;

/** Starting value of an #xsm_search_metrics. */
#define XSM_SEARCH_METRICS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_search_metrics), 0, 0, 0, 0, 0, NULL, NULL                                                          \
    }

/** Facts about a predictor. Start with #XSM_PREDICTOR_INFO_INIT. */
typedef struct xsm_predictor_info {
    size_t size;     /**< sizeof(xsm_predictor_info). */
    uint64_t probed; /**< Total over all rows so far of the classes that an index or, of a shortlist, the model scored,
                          the classes that a beam search ended with, or the nodes that a search in a hierarchy expanded;
                          0 if all classes are scored. With a search and a filter also
                          the classes that were scored because few are left. */
    uint32_t top;    /**< Classes that xsm_predictor_run() returns for each row: the smaller of the option and K. */
    uint32_t reserved; /**< Zero. */
} xsm_predictor_info;

/** Starting value of an #xsm_predictor_info. */
#define XSM_PREDICTOR_INFO_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_predictor_info), 0, 0, 0                                                                            \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a predictor for a model, which it keeps.
 *  @param model   the model
 *  @param options settings, or NULL
 *  @param[out] out the predictor, the caller's to release with xsm_predictor_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_STATE for an index that is not built for this model in its present state;
 *          #XSM_ERROR_UNSUPPORTED for a beam in a model without a tree, and for a beam or a shortlist of one that is
 *          divided among processes (ext/comm.h); #XSM_ERROR_RANGE for an option, also for a
 *          beam that is narrower than `top`; #XSM_ERROR_ARGUMENT for two searches together; #XSM_ERROR_SHAPE for a
 *          shortlist over other features or classes, #XSM_ERROR_UNSUPPORTED for one over rows that are transformed
 *          otherwise, for a model that is no label tree, and with a label tree */
XSM_API xsm_status xsm_predictor_new(const xsm_model *model, const xsm_predictor_options *options, xsm_predictor **out,
                                     xsm_error *err);
/** Releases a predictor; NULL is allowed. */
XSM_API void xsm_predictor_free(xsm_predictor *predictor);
/** Fills `info` (start it with #XSM_PREDICTOR_INFO_INIT). O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_predictor_get_info(const xsm_predictor *predictor, xsm_predictor_info *info, xsm_error *err);
/** Finds the classes with the highest scores of each row of a batch, on the calling thread only.
 *  @param predictor the predictor
 *  @param prediction the batch and the arrays to fill
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DIVERGED if a score that was computed is not finite (earlier rows may already be filled
 *          in); #XSM_ERROR_SHAPE, also for a filter of another number of classes; #XSM_ERROR_RANGE, also for a class of
 *          a list that is not below K or does not rise (the message names row and position); #XSM_ERROR_ARGUMENT for
 *          known labels of a batch that has none; #XSM_ERROR_STATE if the model has grown or has another correction
 *          since the predictor was made, or the index has been built for something else; #XSM_ERROR_UNSUPPORTED for
 *          probabilities with a search; #XSM_ERROR_DATA if a process has other rows than process 0 (ext/comm.h). O(n K
 *          nnz), or n searches; O(m nnz) for a row that may get m classes, if that is less; a search with a beam of
 *          width W costs O(W nnz) and O(W c log K) for a tree on c components. Allocates no memory, except once after
 *          the model's layout has changed (xsm_model_set_layout()) or the index has been built again, with the first
 *          filter, and where a filter needs a wider beam than those before. */
XSM_API xsm_status xsm_predictor_run(xsm_predictor *predictor, const xsm_prediction *prediction, xsm_error *err);

/** Finds the classes with the highest scores of many rows on the context's threads, as xsm_predictor_run() does on one,
 *  with the same bits. The number of classes a row is the smaller of xsm_predictor_options::top and K.
 *
 *  Each call makes a predictor for each thread that it uses, at most one a row, and one more, and releases them. To
 *  predict rows one by one, keep a predictor and use xsm_predictor_run(). Besides that it needs no memory, however many
 *  the rows are.
 *  @param context    context whose threads to use, or NULL for the model's. If the model's context has several
 *                    processes (ext/comm.h), all call this together, and it uses the model's context
 *  @param model      the model
 *  @param options    settings as of xsm_predictor_new(), or NULL
 *  @param prediction the rows, as a batch of any size, and the arrays to fill
 *  @param err        what went wrong, or NULL
 *  @return #XSM_OK; the errors of xsm_predictor_new() and xsm_predictor_run(), of the first row that has one: of
 *          #XSM_ERROR_DIVERGED and #XSM_CANCELLED some rows may be filled in, of all others none */
XSM_API xsm_status xsm_predict(xsm_context *context, const xsm_model *model, const xsm_predictor_options *options,
                               const xsm_prediction *prediction, xsm_error *err);

/** Compares the result of a search with that of scoring all classes.
 *  @param context context whose threads to use, or NULL for the model's
 *  @param model   the model
 *  @param dataset rows with the model's D, already transformed, with or without labels
 *  @param options options of the predictor to evaluate; `top` at least xsm_search_metrics::top, which is the default
 *  @param[in,out] metrics the result, see #xsm_search_metrics
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; the errors of xsm_predictor_new() and xsm_predictor_run(); #XSM_ERROR_SHAPE; #XSM_ERROR_RANGE;
 *          #XSM_ERROR_DATA if no row has a weight above 0.
 *          Every class of every row is scored once, and O(top^2) classes of a row are compared. The result is the same
 *          for any number of threads. */
XSM_API xsm_status xsm_evaluate_search(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                                       const xsm_predictor_options *options, xsm_search_metrics *metrics,
                                       xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
