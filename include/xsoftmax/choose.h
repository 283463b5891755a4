/* SPDX-License-Identifier: MIT */
/**
 * @file choose.h
 * @brief Chooses how to train from the rows: a label tree, or estimator, sampler, optimizer, learning rate, epochs, L2
 * penalty and transform.
 */
#ifndef XSOFTMAX_CHOOSE_H
#define XSOFTMAX_CHOOSE_H

#ifndef XSM_EXPERIMENTAL
#error "xsoftmax/choose.h is experimental, and changes from release to release: define XSM_EXPERIMENTAL to use it"
#endif

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/train.h>

/** @defgroup choose Choosing how to train
 *
 * Experimental: define XSM_EXPERIMENTAL before the first header. Functions and structs may change with any release.
 *
 * xsm_choose() finds settings for training on given rows by a race. Ways of training are tried on a share of the rows
 * and judged by held-back rows; the best go on to a share twice as large, until it is clear which one is best with all
 * rows, or the work for the choice is spent.
 *
 * - **Rows that judge.** With fewer than 8,000 rows all rows judge, in five parts, each by models that were trained on
 *   the other parts; else 2,000. A row is held back if one of its classes has another row. Where hardly any row has
 *   such a class, training rows judge, from which each feature is removed with probability 1/2. A row neither judges
 *   nor calibrates while its classes are in no row of the share. All ways are judged by the same rows, so that they are
 *   compared row by row.
 * - **Measure.** What xsm_choose_options::measure says; lower is better. The log-loss is that after calibration by a
 *   factor from a quarter to four.
 * - **Ways.** Those that are possible with what was given, that fit in memory, and whose run is not too long beside the
 *   cheapest one:
 *   - `label-tree` (xsm_fit_label_tree()) on sparse rows, if label trees are allowed: three trees, or one if the run of
 *     three would take more than a minute; for one label a row also with a probability of its own for each label, and
 *     with #XSM_MEASURE_PRECISION also with the mistakes of a beam among the negatives; and a tree of a single node,
 *     for up to 4,096 classes. Not where embedding models are allowed, rows have fewer than 4 features and classes 8
 *     labels each in the mean: such rows are nearly identified by their features, and held-back rows overrate what
 *     memorises rows.
 *   - `class-means` (xsm_fit_class_means()), if they are allowed: without training.
 *   - `softmax` by `sgd`, by `adagrad` in batches, and by `lbfgs`; for rows with several labels `one-vs-all` by `sgd`
 *     and `adagrad`, and `softmax` by `sgd`.
 *   - With more than 1,000 classes `sampled-softmax`, whose batches share 1,000 classes, by `adagrad`: on linear
 *     models, and on hidden vectors of length 256 (512 if rows have 32 features or more) if embedding models are
 *     allowed and rows are sparse. Where neither is possible single rows draw 50 classes of their own, also by
 *     `one-vs-all-sampled` for several labels.
 *   - `implicit` on dense rows.
 * - **Transform**, if requested: for sparse rows `unit` and `tfidf,unit`, for dense rows none, `unit` and `standard`,
 *   which is tried too for sparse rows that use a tenth of their features or more and are no text; if a value is above
 *   1 or below -1, also these with the step `log` before them. The cheapest way of each kind of
 *   model (label tree, linear, embedding) tries all of these; the other ways use its best one.
 * - **Learning rate** (eta): 1 / median ||x||^2 times half powers of ten, for embedding models 0.05 times powers of
 *   two, for as long as the result improves by a standard error; it falls to a tenth over the run.
 * - **L2 penalty (ridge)**: none, or half powers of ten, for the way that leads, if it scores every class by `sgd`,
 *   and for `lbfgs`.
 * - **Epochs**: 10, or 5 if classes are sampled, 4 for embedding models; or three times as many for the way that
 *   leads, if the run then still takes a few seconds.
 * - **Pairs** of a feature and a class, with strength 2 or 4, added to an embedding model (xsm_model_add_pairs()).
 *
 * **Curves.** With each doubling of the rows, a loss is expected to fall by the last fall times a ratio. The ratio is
 * estimated from the last three shares; before there are three it is one half. The prediction is linear in the losses
 * of a row, so that the standard error of the difference of two predictions is that of a mean over rows. From the
 * second share on, a way is dropped if it is two standard errors behind the best one both in the last share and in the
 * prediction. In the end the way with the best prediction wins; or the way with the smallest model among those that are
 * less than a standard error worse, if it takes at most half of the memory.
 *
 * A winner that is not a standard error better than the frequencies of the classes (xsm_choice_info::is_prior) is not
 * chosen if a transform was requested and a bias is allowed: then the transform is `truncate=0`, which leaves a model
 * of these frequencies.
 *
 * **Fewer than 50 rows** judge nothing: the way is `softmax` by `lbfgs` with a ridge of 0.1, and the transform
 * `standard`, or `unit` for sparse rows that are no table; the cheapest way where options or several labels exclude it.
 *
 * **Rows of weight 0** are left out by xsm_choose(), not by xsm_choose_ngrams(): see xsm_dataset_drop().
 *
 * **Work and time.** The size of the first share and the number of trials follow from counts of work, converted to
 * seconds of a usual machine: the choice takes half as long as the run that it chooses, or choice and run together take
 * three seconds, whichever is more. The first trial of a slower way in a round may end within half of that way's run,
 * in the second round within twice that or six seconds, so that each has a curve. So nothing depends on the clock: the
 * same rows, options and seed give the same bits on any machine and any threads. Only with xsm_choose_options::seconds
 * does the clock decide, too: about a third of these seconds is for the race, or all but four times what the run takes;
 * the run may then have more passes and more label trees than the trials.
 *
 * **Threads.** Only one thread at a time may use the estimator that xsm_choose() works with.
 *  @{ */

/** The result of xsm_choose(); opaque. */
typedef struct xsm_choice xsm_choice;

/** Progress of xsm_choose(), for the callback. */
typedef struct xsm_choose_progress {
    size_t size;           /**< sizeof(xsm_choose_progress). */
    const char *estimator; /**< Name of the estimator of the current trial, `label-tree` or `class-means`. */
    uint64_t trial;        /**< Number of the trial, from 1. */
    uint64_t rows;         /**< Rows that it trains on. */
    double eta;            /**< Learning rate of the trial; 0 for lbfgs, a label tree and class means. */
    double ridge;          /**< L2 penalty mu of the trial. */
    double seconds;        /**< Seconds since xsm_choose() began. */
} xsm_choose_progress;

/** Called with the progress several times a second; during the trial of a label tree only at its beginning and end,
 *  while the context's hook (@ref context) is called as always. A non-zero value ends xsm_choose() with
 *  #XSM_CANCELLED. It must return, and must not throw. */
typedef int32_t (*xsm_choose_progress_function)(void *user, const xsm_choose_progress *progress);

/** Settings. Start with #XSM_CHOOSE_OPTIONS_INIT. */
typedef struct xsm_choose_options {
    size_t size;                    /**< sizeof(xsm_choose_options). */
    xsm_estimator *estimator;       /**< Estimator to use, with its options; NULL = chosen. Borrowed. xsm_choose() binds
                                         it to other rows; it is not bound afterwards. */
    const char *optimizer;          /**< Name of the optimizer to use, or `lbfgs`; NULL = chosen. */
    const xsm_trainer_options *run; /**< Settings to keep: `epochs`, `batch` and `eta` if not 0, `order` and `seed`
                                         always, `schedule` and `factor` with `keep_schedule`. Other members are
                                         ignored. NULL = everything is chosen. */
    double ridge;                   /**< With `keep_ridge`: mu, 0 to 1e30. */
    double seconds;                 /**< Time budget in seconds for choice and training together; 0 = none. */
    int32_t keep_ridge;             /**< 1 = use `ridge`; 0 = chosen, or the ridge of the caller's estimator. */
    int32_t keep_schedule;          /**< 1 = keep `schedule` and `factor` of `run`. */
    int32_t bias;                   /**< 1 = the model will have a bias. */
    int32_t keep_pairs;             /**< 1 = do not try pairs, the caller decides; 0 = choose their strength. */
    xsm_choose_progress_function progress; /**< Or NULL. */
    void *progress_user;                   /**< First argument of progress(). */
    int32_t transform;  /**< 1 = also choose a transform, for rows as they were read; 0 = rows are not changed. */
    int32_t embedding;  /**< 1 = also try embedding models, if rows are sparse and classes many; the caller must be able
                             to make a model with xsm_choice_info::hidden. 0 = linear models only. */
    int32_t measure;    /**< An XSM_MEASURE_* value. */
    int32_t label_tree; /**< 1 = also try label trees, if rows are sparse and the other settings allow it; the caller
                             must be able to call xsm_fit_label_tree() with xsm_choice_info::label_tree. */
    uint32_t measure_top; /**< k of a measure of the k best classes, up to 100; 0 = that of the measure. */
    int32_t class_means;  /**< 1 = also try class means, if a bias is allowed; the caller must be able to call
                               xsm_fit_class_means(). */
} xsm_choose_options;

/** Starting value of an #xsm_choose_options. */
#define XSM_CHOOSE_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_choose_options), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0                   \
    }

/** What a time budget made shorter, in xsm_choice_info::gave_up. */
enum {
    XSM_GAVE_UP_TRIALS = 1, /**< Trials. */
    XSM_GAVE_UP_EPOCHS = 2  /**< Epochs of the run: `epochs` is smaller, or, if they were given, they may not fit. */
};

/** The chosen settings, and what they follow from. Start with #XSM_CHOICE_INFO_INIT. */
typedef struct xsm_choice_info {
    size_t size;           /**< sizeof(xsm_choice_info). */
    const char *optimizer; /**< A name for xsm_optimizer_new(), or `lbfgs`: xsm_fit_full_batch(). Static, or the
                                caller's string. NULL for a label tree and class means. */
    double eta;            /**< Initial learning rate; 0 for lbfgs, a label tree and class means. */
    double factor;         /**< Factor of the schedule. */
    double ridge;          /**< mu. It is already set in the estimator. */
    uint64_t epochs;       /**< Passes over the rows; 0 for lbfgs, a label tree and class means. */
    uint64_t batch;        /**< Examples a step; 0 for lbfgs, a label tree and class means. */
    uint64_t iterations;   /**< Most iterations for lbfgs; else 0. */
    uint64_t held;         /**< Rows that judged the best way. 0: there were too few rows, or too little time, for
                                trials. */
    uint64_t trials;       /**< Trials, see xsm_choice_get_trial(). */
    double loss;           /**< Loss of these rows with the largest share, as `measure` says. NaN without trials. */
    double precision;      /**< Precision@1 in the last of these trials. NaN without trials. */
    double seconds;        /**< Seconds that xsm_choose() took. */
    int32_t schedule;      /**< An XSM_SCHEDULE_* value. */
    int32_t gave_up;       /**< What the time budget made shorter: a sum of XSM_GAVE_UP_* values; 0 = nothing. */
    const char *transform; /**< Description for xsm_transform_new(): apply this transform to the rows before training.
                                NULL: rows as they are. Static. */
    uint32_t hidden;       /**< 0: a linear model; else H for xsm_model_new_embedding(), with the run's seed and
                                otherwise the values of #XSM_EMBEDDING_OPTIONS_INIT. */
    uint32_t measure_top;  /**< k of `measure`; 0 for the log-loss. */
    double initial;        /**< Value of the option `initial` of adagrad, for xsm_optimizer_set_number(). 0: leave the
                                default. */
    double pairs;          /**< Strength for xsm_model_add_pairs(), after training. 0: no pairs. */
    uint64_t trial_rows;   /**< Rows that trials trained on; 0 without trials. */
    double row_features;   /**< Mean number of features that are not zero in a row: with the numbers of rows and classes
                                they say what a run takes. */
    int32_t exact;         /**< 1 = the estimator scores every class; 0 = it samples or searches. */
    int32_t measure;       /**< What `loss` is, an XSM_MEASURE_* value, not #XSM_MEASURE_AUTO. */
    const char *method;    /**< Name of the estimator, `label-tree` or `class-means`. Valid as long as the choice. */
    const xsm_label_tree_options *label_tree; /**< Settings for xsm_fit_label_tree(), which trains in place of estimator
                                and optimizer; valid as long as the choice. NULL: another method was chosen. */
    double predicted;                         /**< Loss expected with all rows, by the curve through the last shares. */
    double prior;     /**< Loss of the frequencies of the classes on the same rows as `loss`; NaN without trials,
                           and for the log-loss of several labels a row. */
    uint64_t bytes;   /**< Memory of the weights of the model that the run will make, approximately. */
    uint64_t rounds;  /**< Rounds of the race. */
    int32_t is_prior; /**< 1 = the best way was not better than the frequencies of the classes by a standard error:
                           the features do not predict the classes, or there are too few rows. */
    int32_t grouped;  /**< 1 = rows that follow each other are more alike than rows of one class, as those of a session,
                           a user or a document are, or many are copies: all rows of a group judge what was trained on
                           other groups.
                           2 = nearly all classes have one row, so that rows judge that were trained on, without half
                           of their features: the losses promise nothing for other rows. */
    const xsm_text_options *text; /**< Of xsm_choose_ngrams(): the n-grams that were chosen, without a prefix of labels;
                                valid as long as the choice. Else NULL. */
    double temperature; /**< Temperature (@ref calibrate) that the last trials of the best way had, to a tenth: give the
                             trained model a calibration with `scale` 1/temperature. 1: it is good as it is, as label
                             trees and class means are; so with several labels and measures but the log-loss, too. */
} xsm_choice_info;

/** Starting value of an #xsm_choice_info. */
#define XSM_CHOICE_INFO_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(xsm_choice_info), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL,      \
            NULL, 0, 0, 0, 0, 0, 0, NULL, 0                                                                            \
    }

/** Outcome of a trial. */
enum {
    XSM_RACE_KEPT = 0,     /**< Its settings went on to the next round, or there was no time for one. */
    XSM_RACE_DROPPED = 1,  /**< They cannot win. */
    XSM_RACE_DIVERGED = 2, /**< Weights or scores (logits) were not finite. */
    XSM_RACE_CHOSEN = 3    /**< The last trial of the chosen settings. */
};

/** A trial: a run with some settings on a share of the rows. Start with #XSM_CHOICE_TRIAL_INIT. */
typedef struct xsm_choice_trial {
    size_t size;           /**< sizeof(xsm_choice_trial). */
    const char *estimator; /**< Name of the estimator, `label-tree` or `class-means`; valid as long as the choice. */
    const char
        *optimizer;   /**< Name of the optimizer; valid as long as the choice. NULL for a label tree and class means. */
    double eta;       /**< Learning rate; 0 for lbfgs, a label tree and class means. */
    double ridge;     /**< mu. */
    uint64_t rows;    /**< Rows that it trained on, the share of its round. */
    uint64_t part;    /**< Part of the held-back rows that judged it, from 1. */
    uint64_t epochs;  /**< Passes over these rows; iterations for lbfgs; 1 for a label tree. */
    double loss;      /**< As xsm_choice_info::measure says, of the rows that judged it, whose class the share has;
                           infinite if it diverged. */
    double precision; /**< Precision@1 of the rows that judged it. */
    double predicted; /**< Loss that these settings are expected to have with all rows; NaN but in the last trial
                           of some settings. */
    double pairs;     /**< Strength of pairs; 0: none. */
    const char *transform;                    /**< As xsm_choice_info::transform. */
    uint32_t hidden;                          /**< As xsm_choice_info::hidden. */
    int32_t outcome;                          /**< An XSM_RACE_* value. */
    const xsm_label_tree_options *label_tree; /**< As xsm_choice_info::label_tree. */
    uint64_t bytes;                           /**< As xsm_choice_info::bytes. */
    double seconds;                           /**< Seconds that it took, judging included. */
    const xsm_text_options *text; /**< Of xsm_choose_ngrams(): the n-grams of the rows, as xsm_choice_info::text. */
    double temperature;           /**< As xsm_choice_info::temperature, by the rows that judged it. */
} xsm_choice_trial;

/** Starting value of an #xsm_choice_trial. */
#define XSM_CHOICE_TRIAL_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_choice_trial), NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 0, 0, NULL, 0               \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Chooses how to train on rows. If xsm_choice_info::label_tree is not NULL afterwards, pass it to xsm_fit_label_tree()
 *  and do no more. If xsm_choice_info::method is `class-means`, make a linear model with a bias and call
 *  xsm_fit_class_means(). Otherwise make a linear model (or an embedding model if xsm_choice_info::hidden is not 0),
 *  the optimizer (with its option `initial` set if xsm_choice_info::initial is not 0), and a trainer from these,
 *  xsm_choice_estimator() and the settings of xsm_choice_get_info(). For `lbfgs`, call xsm_fit_full_batch() with these
 *  settings instead. If xsm_choice_info::pairs is not 0, pass it to xsm_model_add_pairs() after training; in the end
 *  set the calibration, if xsm_choice_info::temperature is not 1. With a time budget, let the run's callback end the
 *  run when the budget is spent: the planned length is an estimate.
 *
 *  Trials allocate models of their own, as large as the model to be trained, one at a time and one more for a label
 *  tree, and copies of the rows.
 *  @param context  context whose threads are used, or NULL
 *  @param train    rows, each with a label; rows may have several labels if the estimator accepts them
 *  @param options  settings, or NULL
 *  @param[out] out the choice, the caller's to release with xsm_choice_free()
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DIVERGED if every trial diverged; #XSM_CANCELLED if the callback returned non-zero;
 *          #XSM_ERROR_RANGE for an option; #XSM_ERROR_UNSUPPORTED for `lbfgs` with an estimator that samples,
 *          and for a context of several processes (@ref ext_comm); the errors of xsm_trainer_new() and
 *          xsm_fit_full_batch() for data, options and memory */
XSM_API xsm_status xsm_choose(xsm_context *context, const xsm_dataset *train, const xsm_choose_options *options,
                              xsm_choice **out, xsm_error *err);
/** Chooses the n-grams of rows of text before xsm_choose(), and gives the rows these. It compares single words; words
 *  with the n-grams of words that the rows were read with (xsm_text_options::word_ngrams; 2 is a good value); words
 *  with n-grams of 1 to 4 characters, if xsm_text_options::min_count is 1; and words with both. A race as that of
 *  xsm_choose() decides, of one label tree with each of them, the transforms `unit`, `tfidf,unit` and these after
 *  `log`, and half of the work. N-grams get about as many buckets as are in use: the rows' number of buckets, halved as
 *  often as needed. Single words are chosen if no label tree can be tried, as with several labels a row and
 *  #XSM_MEASURE_LOG_LOSS, if there are fewer than 50 rows, and if there is no time for a trial.
 *
 *  Afterwards the rows are as if they had been read with xsm_choice_info::text, and so is the vocabulary of their class
 *  map, with which other rows are then read.
 *  @param context  context whose threads are used, or NULL
 *  @param train    rows of text, each with a label, not transformed, without n-grams of characters; unchanged if this
 *                  fails
 *  @param options  settings, or NULL; `seconds`, `measure`, `measure_top`, `progress` and the seed of `run` are used
 *  @param[out] out the choice, the caller's to release with xsm_choice_free(): its trials, `text` of its info, and
 *                  what that says of the trials
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT for rows of another kind; as xsm_choose() */
XSM_API xsm_status xsm_choose_ngrams(xsm_context *context, xsm_dataset *train, const xsm_choose_options *options,
                                     xsm_choice **out, xsm_error *err);
/** Releases a choice and the estimator that it made; NULL is allowed. */
XSM_API void xsm_choice_free(xsm_choice *choice);
/** Fills `info` (start it with #XSM_CHOICE_INFO_INIT).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_choice_get_info(const xsm_choice *choice, xsm_choice_info *info, xsm_error *err);
/** The estimator, not bound, with all its options set: borrowed from the choice, which keeps it. It is the
 *  caller's own if xsm_choose_options::estimator was set. NULL if a label tree or class means were chosen. */
XSM_API xsm_estimator *xsm_choice_estimator(const xsm_choice *choice);
/** Fills `trial` (start it with #XSM_CHOICE_TRIAL_INIT) with trial number `index`, in the order in which they ran.
 *  @return as xsm_choice_get_info(), and #XSM_ERROR_RANGE past the last */
XSM_API xsm_status xsm_choice_get_trial(const xsm_choice *choice, uint64_t index, xsm_choice_trial *trial,
                                        xsm_error *err);

/** Compares the sizes of features, for a way of training that is named: steps, label trees and class means learn little
 *  from small features beside large ones (errors rise from a ratio of some 30 on), and say nothing. xsm_choose() tries
 *  the transform `standard`. The size of a feature is the root mean square of its values that are not zero; features of
 *  less than a tenth of the rows count together as one.
 *  @param dataset  rows, of which up to 1,000 are looked at
 *  @param[out] ratio   the largest size divided by the smallest, at least 1
 *  @param[out] feature the feature of the largest size, UINT32_MAX if it is that of rare ones; or NULL
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK, or what any function may return (@ref error). O(D + 1,000 nnz) */
XSM_API xsm_status xsm_dataset_spread(const xsm_dataset *dataset, double *ratio, uint32_t *feature, xsm_error *err);

/** Writes into the metadata of a model how it is trained, as xsm_train() does: `estimator` its name and
 *  `estimator.NAME` each of its options, those of its sampler and index too; `training.optimizer` likewise; of the run
 *  `training.schedule` (`step:0.9`, `inverse`, `sqrt`, `constant`), `order`, `batch` and `epochs`; and `training.seed`.
 *  @param model     the model
 *  @param estimator the estimator
 *  @param optimizer the optimizer; NULL = `lbfgs`, which has no run
 *  @param run       the settings of its trainer; of `lbfgs` the seed alone is written
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_model_describe(xsm_model *model, const xsm_estimator *estimator, const xsm_optimizer *optimizer,
                                      const xsm_trainer_options *run, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
