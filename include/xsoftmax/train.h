/* SPDX-License-Identifier: MIT */
/**
 * @file train.h
 * @brief From rows to a trained model in one call, which chooses what is not named.
 */
#ifndef XSOFTMAX_TRAIN_H
#define XSOFTMAX_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/label_tree.h>
#include <xsoftmax/trainer.h>

/** @defgroup train Training in one call
 *
 * xsm_train() does what `xsoftmax train` does: it chooses the n-grams of text, the transform, the method, the learning
 * rate, the L2 penalty and the number of epochs by short runs on a part of the rows, trains on all rows, and says what
 * it did. What is named is kept. The choice may be another one in a later release; the call stays. N-grams are chosen
 * among those that the rows were read with: set xsm_text_options::word_ngrams to 2 or more for a choice.
 *
 * The same rows, options and seed give the same model to the last bit, on any machine and any number of threads, unless
 * there is a time budget.
 *  @{ */

/** The measure of held-back rows by which ways of training are compared. Lower is better. */
enum {
    XSM_MEASURE_AUTO = 0,      /**< By the rows: #XSM_MEASURE_NDCG if any has several labels, else
                                    #XSM_MEASURE_LOG_LOSS. */
    XSM_MEASURE_LOG_LOSS = 1,  /**< The log-loss after calibration (@ref calibrate), so that a way that orders classes
                                    well is not dropped because its probabilities are too sure. */
    XSM_MEASURE_PRECISION = 2, /**< 1 - P\@k; k = 1 unless another is given. */
    XSM_MEASURE_NDCG = 3,      /**< 1 - nDCG\@k; k = 5. */
    XSM_MEASURE_HITS = 4,      /**< 1 - hits\@k: the share of rows without a label among the k best; k = 10. */
    XSM_MEASURE_MRR = 5        /**< 1 - MRR\@k, of the reciprocal rank of the first label among the k best; k = 10. */
};

/** Settings of xsm_train(). Start with #XSM_TRAIN_OPTIONS_INIT, which leaves everything open. */
typedef struct xsm_train_options {
    size_t size; /**< sizeof(xsm_train_options). */
    /** Rows that judge the trained model (xsm_train_report::test), or NULL. They are read against the class map of the
     *  rows to train on; the model's transform is applied to them. */
    xsm_dataset *test;
    /** Rows to calibrate the probabilities by at the end (@ref calibrate), or NULL = by the temperature that a choice
     *  found for its trials, if any. Read and transformed as `test`. */
    xsm_dataset *calibrate;
    /** A model to continue from. It is itself trained, and the result is another reference to it. It gets the classes
     *  and features of the rows that it lacks (xsm_model_grow()), once names and options have been checked, and its
     *  transform is that of the rows. `method` or `estimator`, and the learning rate, must be named: a choice by trials
     *  is possible only from a model of zeros. NULL = a new model. */
    xsm_model *start;
    /** An estimator's name, `label-tree` (xsm_fit_label_tree()) or `class-means` (xsm_fit_class_means()); NULL =
     *  chosen. */
    const char *method;
    /** In place of `method`: an estimator with its options; the caller's. Afterwards it is not bound, and its ridge is
     *  as before. NULL = none. */
    xsm_estimator *estimator;
    /** Settings of `label-tree`, but for the seed; NULL = the defaults. Only with that method. */
    const xsm_label_tree_options *label_tree;
    /** An optimizer's name, or `lbfgs` for all rows at once (xsm_fit_full_batch()); NULL = chosen with the method,
     *  and for a method that is named `sgd`. */
    const char *optimizer;
    /** As for xsm_transform_new(), `none` for rows as they are; NULL = chosen with the method, for a method that is
     *  named none, and for `label-tree` `unit`. */
    const char *transform;
    /** Settings to keep: `epochs`, `batch` and `eta` if not 0, `order` always, `schedule` and `factor` with
     *  `keep_schedule`; `evaluate_every`, `evaluate_train` and `evaluate_top` (on `test` of these options), `progress`
     *  and `progress_user` are used. `seed` and `test` are ignored. For `lbfgs` `epochs` is as
     *  xsm_fit_options::iterations. NULL = everything is chosen; for a method that is named without `eta` the rate
     *  alone (xsm_tune_eta()), with the trainer's defaults and batches of one. */
    const xsm_trainer_options *run;
    double ridge;          /**< With `keep_ridge`: L2 penalty mu, 0 to 1e30. */
    double seconds;        /**< Time budget for choice and training together; 0 = none. The model is then what was
                                reached in that time. */
    uint64_t seed;         /**< Seed of all that is random, up to 2^53. */
    int32_t keep_ridge;    /**< 1 = use `ridge`; 0 = chosen, or that of `estimator`. */
    int32_t keep_schedule; /**< 1 = use `schedule` and `factor` of `run`. */
    /** 1 = rows of text keep their n-grams. 0 = these are chosen (xsm_choose_ngrams()) where the method and the
     *  transform are, unless `test` or `calibrate` are given, which were read with them, and of rows from a cache. */
    int32_t keep_ngrams;
    int32_t measure;      /**< An XSM_MEASURE_* value. */
    uint32_t measure_top; /**< k of a measure of the k best classes, up to 100; 0 = that of the measure. */
    uint32_t reserved;    /**< Zero. */
} xsm_train_options;

/** Starting value of an #xsm_train_options: everything open, with the seed 1. */
#define XSM_TRAIN_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(xsm_train_options), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 1, 0, 0, 0, 0, 0, 0     \
    }

/** What xsm_train() did. The caller may set `test`, the function sets the rest. Start with #XSM_TRAIN_REPORT_INIT.
 *  Texts are the model's, valid as long as its metadata and transform. */
typedef struct xsm_train_report {
    size_t size; /**< sizeof(xsm_train_report). */
    /** Input: the measures of xsm_train_options::test, with the arrays that are wanted, see #xsm_metrics; NULL = these
     *  rows are not evaluated. */
    xsm_metrics *test;
    const char *method;    /**< Name of the estimator, `label-tree` or `class-means`. */
    const char *optimizer; /**< Name of the optimizer, or `lbfgs`; NULL for `label-tree` and `class-means`. */
    const char *transform; /**< Transform of the rows; "" = none. */
    uint64_t rows;         /**< Rows that were trained on. */
    uint64_t dropped;      /**< Rows without a label or of weight 0, which were dropped. */
    uint64_t epochs;       /**< Passes over the rows that were completed; of `lbfgs` iterations; else 0. */
    uint64_t steps;        /**< Steps that were taken; else 0. */
    uint64_t batch;        /**< Examples a step; else 0. */
    double eta;            /**< Learning rate at the start; 0 where there is none. */
    double factor;         /**< Factor of the schedule #XSM_SCHEDULE_STEP; else 0. */
    double ridge;          /**< L2 penalty. */
    double pairs;          /**< Strength of pairs that were added (xsm_choice_info::pairs); 0 = none. */
    double temperature;    /**< Temperature of the probabilities (xsm_choice_info::temperature); 1 = as they are, or
                                calibrated by rows. */
    int32_t schedule;      /**< An XSM_SCHEDULE_* value. */
    uint32_t hidden;       /**< Length of the vectors of an embedding model; 0 = a linear model or a label tree. */
    uint32_t trees;        /**< Trees of a label tree; else 0. */
    uint32_t word_ngrams;  /**< N-grams of text as in #xsm_text_options; 0 = the rows are no text. */
    uint32_t min_chars;    /**< Likewise; 0 = no n-grams of characters. */
    uint32_t max_chars;    /**< Likewise. */
    uint32_t buckets;      /**< Likewise; 0 = no n-grams. */
    uint32_t restarts;     /**< Times that training diverged and was started again with a tenth of the rate. */
    uint64_t trials;       /**< Number of short runs for the choice. */
    uint64_t held;         /**< Rows that judged the best way, by models that had not seen them or, with a warning that
                                nearly all classes have one row, had; 0: nothing was tried, and the four numbers below
                                are NaN. */
    double loss;           /**< Loss of the last trial of the best way on these rows, by `measure`. */
    double predicted;      /**< Loss expected of a model of all rows. */
    double prior;          /**< Loss of the frequencies of the classes on these rows; NaN for the log-loss of several
                                labels. */
    double precision;      /**< Precision@1 of that trial. */
    int32_t measure;       /**< An XSM_MEASURE_* value but #XSM_MEASURE_AUTO; 0 where nothing was chosen. */
    uint32_t measure_top;  /**< k of `measure`; 0 for the log-loss. */
    int32_t is_prior;      /**< 1 = nothing was better than the frequencies of the classes: the features do not predict
                                the classes, or the rows are too few. */
    int32_t spent;         /**< 1 = the time budget ended training. */
    double spread;         /**< How many times as large the values of some features of the rows are as those of others,
                                at least 1. From some 30 on, a method that was named learns little from the small ones;
                                the transform `standard` makes them alike. */
    double choose_seconds; /**< Seconds of the choice. */
    double train_seconds;  /**< Seconds of training on all rows. */
    double seconds;        /**< Seconds of the whole call. */
} xsm_train_report;

/** Starting value of an #xsm_train_report. */
#define XSM_TRAIN_REPORT_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_train_report), NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                                         \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Trains a model on rows.
 *
 *  Rows without a label or of weight 0 are dropped. The rows, and those of `test` and `calibrate`, get the n-grams and
 *  the transform of the model: afterwards they are as xsm_evaluate() and xsm_predict() take them. After an error they
 *  may have been changed in this way, and are to be read again.
 *
 *  The model has the class map of the rows. Its metadata say how it was trained (`method` or `estimator`, options,
 *  learning rate, ...), as those of the command do.
 *  @param context  context whose threads are used, or NULL; its hook gets the progress of all phases and can cancel
 *                  them
 *  @param train    rows, not transformed, with one label or several
 *  @param options  what is named, or NULL
 *  @param[out] out the model, the caller's to release with xsm_model_free(); unchanged on failure
 *  @param[in,out] report what was done, or NULL; unchanged on failure
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK, also where the time budget ended training; #XSM_ERROR_NAME for an unknown method or optimizer;
 *          #XSM_ERROR_ARGUMENT for options that do not go together (the message says which), and for transformed rows;
 *          #XSM_ERROR_SHAPE if features or classes of the rows differ; #XSM_ERROR_DATA if no row has a label and a
 *          weight above 0 or, for a method that is named, cannot learn from them; #XSM_ERROR_DIVERGED;
 *          #XSM_ERROR_UNSUPPORTED for a context of several processes (ext/comm.h); #XSM_ERROR_RANGE for an option;
 *          #XSM_CANCELLED, from the hook or the callback; the errors of xsm_choose(), xsm_tune_eta(),
 *          xsm_trainer_run(), xsm_fit_label_tree() and xsm_model_calibrate(). Takes about half as long again as
 *          training alone, or three seconds, if that is more */
XSM_API xsm_status xsm_train(xsm_context *context, xsm_dataset *train, const xsm_train_options *options,
                             xsm_model **out, xsm_train_report *report, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
