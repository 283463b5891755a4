/* SPDX-License-Identifier: MIT */
/**
 * @file calibrate.h
 * @brief Calibration: what turns a model's scores (logits) into honest probabilities.
 */
#ifndef XSOFTMAX_CALIBRATE_H
#define XSOFTMAX_CALIBRATE_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>
#include <xsoftmax/model.h>

/** @defgroup calibrate Calibration
 *
 * A model that ranks classes well may still be too sure, or not sure enough. Calibration fits one or two numbers to
 * rows that training has not seen, so that of the classes that get a probability of 0.8 about 80 % are right. Scores,
 * and so ranks, stay as they are; probabilities and log-losses change. The numbers are part of the model: they are
 * saved and loaded with it. What changes the scores removes them: training, xsm_fit_full_batch() and a correction
 * (xsm_model_add_pairs(), xsm_model_clear_correction()). So calibrate last.
 *
 * In a label tree both methods use the classes that a beam search finds, and score no other. A scale of 1 with a shift
 * of 0 changes nothing. Let p be the probability that the trees give to a class:
 *  - The temperature replaces p by p^scale / Z. Z is the sum of p^scale over the classes found, plus r^scale, where r
 *    is 1 minus the sum of their p. The classes not found share r^scale / Z in proportion to p, so that all sum to one.
 *    The link must be #XSM_LABEL_TREE_LINK_SOFTMAX or #XSM_LABEL_TREE_LINK_NORMALISED.
 *  - #XSM_CALIBRATION_LABELS uses z = log(p / (1 - p)), or the score if the link is #XSM_LABEL_TREE_LINK_HINGE. With
 *    #XSM_LABEL_TREE_LINK_NORMALISED p is that of #XSM_LABEL_TREE_LINK_SIGMOID.
 *  @{ */

/** How scores become probabilities. */
enum {
    /** For xsm_model_calibrate() alone, which then chooses. */
    XSM_CALIBRATION_AUTO = 0,
    /** The softmax of `scale` times the scores, for one label a row; 1/scale is the temperature (Guo et al., On
     *  calibration of modern neural networks, 2017). */
    XSM_CALIBRATION_TEMPERATURE = 1,
    /** 1/(1 + exp(-(scale z + shift))), each class by itself, for several labels a row (Platt, Probabilistic outputs
     *  for support vector machines, 1999, with one pair of numbers for all classes). */
    XSM_CALIBRATION_LABELS = 2,
    /** A model without a calibration: probabilities are those of its link (xsm_model_set_link()). */
    XSM_CALIBRATION_NONE = 3
};

/** The calibration of a model. Start with #XSM_CALIBRATION_INIT. */
typedef struct xsm_calibration {
    size_t size;       /**< sizeof(xsm_calibration). */
    int32_t method;    /**< An XSM_CALIBRATION_* value, not AUTO. */
    uint32_t reserved; /**< Zero. */
    double scale;      /**< Factor of the scores, 2^-20 to 2^20, rounded to float32. 1 for #XSM_CALIBRATION_NONE. */
    double shift;      /**< Added to the scaled scores, finite, rounded to float32; 0 unless the method is
                            #XSM_CALIBRATION_LABELS. */
} xsm_calibration;

/** Starting value of an #xsm_calibration: none. */
#define XSM_CALIBRATION_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(xsm_calibration), XSM_CALIBRATION_NONE, 0, 1, 0                                                         \
    }

/** Settings of xsm_model_calibrate(). Start with #XSM_CALIBRATE_OPTIONS_INIT. */
typedef struct xsm_calibrate_options {
    size_t size;       /**< sizeof(xsm_calibrate_options). */
    int32_t method;    /**< An XSM_CALIBRATION_* value, not NONE; #XSM_CALIBRATION_AUTO = by the rows:
                            #XSM_CALIBRATION_LABELS if any has several labels, and for a model with #XSM_LINK_SIGMOID or
                            a label tree with #XSM_LABEL_TREE_LINK_SIGMOID or #XSM_LABEL_TREE_LINK_HINGE; else
                            #XSM_CALIBRATION_TEMPERATURE. */
    uint32_t reserved; /**< Zero. */
    uint64_t rows;     /**< Most rows to use: a sample has one row of each of as many equal parts, chosen by a hash; 0 =
                            all. */
} xsm_calibrate_options;

/** Starting value of an #xsm_calibrate_options. */
#define XSM_CALIBRATE_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(xsm_calibrate_options), 0, 0, 0                                                                         \
    }

/** Result of xsm_model_calibrate(). Start with #XSM_CALIBRATE_RESULT_INIT. */
typedef struct xsm_calibrate_result {
    size_t size;            /**< sizeof(xsm_calibrate_result). */
    int32_t method;         /**< The XSM_CALIBRATION_* value that was fitted: TEMPERATURE or LABELS. */
    uint32_t passes;        /**< Times that the rows were scored. */
    uint64_t rows;          /**< Rows with a label of the model, which were used. */
    double scale;           /**< As in #xsm_calibration. */
    double shift;           /**< As in #xsm_calibration. */
    double log_loss_before; /**< Log-loss of these rows with the same method, a scale of 1 and a shift of 0. */
    double log_loss;        /**< Log-loss of these rows (xsm_metrics::log_loss) after calibration. */
} xsm_calibrate_result;

/** Starting value of an #xsm_calibrate_result. */
#define XSM_CALIBRATE_RESULT_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(xsm_calibrate_result), 0, 0, 0, 0, 0, 0, 0                                                              \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Fits a model's calibration to rows that it was not trained on, by the least log-loss over the scores of all classes.
 *  The temperature is found by bracketing and parabolic interpolation, three passes over the rows as a rule; the
 *  numbers of #XSM_CALIBRATION_LABELS by Newton's method, about eight passes. A calibration that the model has is
 *  replaced.
 *
 *  For a label tree the log-loss is that of the classes that a beam of 10 finds. If the least log-loss would raise the
 *  calibration error of the best class (xsm_metrics::calibration_error) on these rows, the scale and the shift are
 *  moved back towards 1 and 0, in up to eight steps: so neither the log-loss nor this error is larger than with these.
 *  With #XSM_LABEL_TREE_LINK_HINGE, which has no probabilities without a calibration, this error is not considered.
 *  @param context context whose threads to use, or NULL for the model's
 *  @param model   the model; no trainer may be at work on it
 *  @param rows    rows with the model's D, read against its class map and already transformed. Some hundreds are
 *                 enough, as one or two numbers are fitted. The rows of training would make the model too sure
 *  @param options settings, or NULL
 *  @param[out] result what was found, or NULL
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_SHAPE if the rows do not match the model; #XSM_ERROR_DATA if no row has a label of the
 *          model, or if the log-loss has no minimum, as when every row is right by a margin; #XSM_ERROR_DIVERGED if a
 *          score is not finite; #XSM_ERROR_UNSUPPORTED for a model of `hierarchical`, whose scores are
 *          log-probabilities of its tree, for one that is divided among processes (ext/comm.h), and for a temperature
 *          of a label tree whose probabilities do not sum to one; #XSM_ERROR_RANGE; #XSM_CANCELLED. The model is
 *          unchanged on failure. O(N K nnz) a pass; the same bits for any number of threads. */
XSM_API xsm_status xsm_model_calibrate(xsm_context *context, xsm_model *model, const xsm_dataset *rows,
                                       const xsm_calibrate_options *options, xsm_calibrate_result *result,
                                       xsm_error *err);
/** Sets a model's calibration; NULL removes it.
 *  @return #XSM_OK; #XSM_ERROR_RANGE for a method, scale or shift that is not accepted; #XSM_ERROR_UNSUPPORTED for a
 *          model of `hierarchical`, and a temperature of a label tree whose probabilities do not sum to one */
XSM_API xsm_status xsm_model_set_calibration(xsm_model *model, const xsm_calibration *calibration, xsm_error *err);
/** Fills `calibration` (start it with #XSM_CALIBRATION_INIT) with that of a model.
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_model_get_calibration(const xsm_model *model, xsm_calibration *calibration, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
