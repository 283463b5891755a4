/**
 * @file choose.h
 * @brief Chooses how to train from the rows: a label tree, or estimator, sampler, optimizer, learning rate, epochs and
 * L2 penalty.
 */
#ifndef XSOFTMAX_CHOOSE_H
#define XSOFTMAX_CHOOSE_H

#ifndef XSM_EXPERIMENTAL
#error "xsoftmax/choose.h is experimental, and changes from release to release: define XSM_EXPERIMENTAL to use it"
#endif

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/label_tree.h>
#include <xsoftmax/trainer.h>

/** @defgroup choose Choosing how to train
 *
 * Experimental: define XSM_EXPERIMENTAL before the first header. Functions and structs may change with any release.
 *
 * xsm_choose() finds settings for training on given rows. It sets some rows aside (the held-back rows), trains on
 * others in short runs (trials) that differ in one setting at a time, and keeps the settings with the best result on
 * the held-back rows:
 *
 * - **Method.** The counts of rows, features and classes decide which methods are tried:
 *   - `label-tree` (xsm_fit_label_tree()), if label trees are allowed, rows are sparse and a pass over all classes
 *     takes long. Not where embedding models are allowed, rows have fewer than 4 features and classes 8 labels each in
 *     the mean: such rows are nearly identified by their features, and held-back rows overrate what memorises rows.
 *     Tried with three trees, or with one if the run of three would take more than 10 s by its work (both with a
 *     time budget); and if exact estimators are not tried, for up to 4,096 classes also with one tree of a single node.
 *     With one label a row also with three trees that give each label its own probability, by the better transform,
 *     and with #XSM_MEASURE_PRECISION then also with the mistakes of a beam among the negatives.
 *   - Exact estimators, if a pass over all classes is cheap: `softmax`, and for rows with several labels also
 *     `one-vs-all`.
 *   - Otherwise sampled estimators: for one label a row `nce` and `sampled-softmax`, for several `sampled-softmax` and
 *     `one-vs-all-sampled`; the sampler of the first three is `frequency`. If embedding models are allowed and rows are
 *     sparse, `sampled-softmax` with `frequency` on hidden vectors of length 256 (512 if rows have 32 features or more)
 *     replaces them: the cost of a step then does not depend on the number of features and classes. Where label trees
 *     are allowed, sampled estimators are only tried if classes have eight labels each in the mean: with fewer, a class
 *     has too few steps to learn from.
 * - **Transform**, if requested: unit rows, or tf-idf followed by unit rows, each tried with the best of a kind of
 *   model (label tree, linear, embedding). If values are counts, both begin with the step `log` of
 *   xsm_transform_new(). Counts are whole numbers from 0 on, some of them above 1, and at least as many equal to 1.
 * - **Learning rate** (eta): 1 / mean ||x||^2 times half powers of ten, for as long as the result improves; it falls to
 *   a tenth over the run. For embedding models, 0.05 (for adagrad) times powers of two.
 * - **Epochs**: up to 10, or 5 if classes are sampled; fewer if the held-back rows were best earlier (for exact
 *   estimators, two more than the best number in the trial). 4 for embedding models.
 * - **L2 penalty (ridge)**, in half powers of ten, for exact estimators with sgd if they beat the other candidates so
 *   far, and with lbfgs.
 * - **Optimizer**: `sgd`; for exact estimators with more than 100 classes also `adagrad` in batches of 8 to 64 rows, at
 *   twice the learning rate, unless sgd is two standard errors behind another method; for small problems with one
 *   label a row also `lbfgs`. `adagrad` for embedding models.
 * - **Pairs** of a feature and a class, with strength 2 or 4, added to an embedding model whose rows have 4 features or
 *   more (xsm_model_add_pairs()), if they lower the loss by 1/500 or more.
 *
 * Candidates are compared by what xsm_choose_options::measure says of the held-back rows: their log-loss after
 * calibration, or for rows with several labels 1 - nDCG@5. Lower is better.
 *
 * **Successive halving** (Jamieson and Talwalkar 2016). Where several methods apply, the rate of each is first searched
 * on a quarter of the trials' rows; label trees, which have none, get both transforms there. The best of each kind of
 * model goes on to all of these rows, unless it is two standard errors behind another kind. Label trees that are left
 * alone have no more trials. Where label trees are tried, a held-back row does not count if its only label occurs in no
 * row of the trials. A trial ends after its third epoch or later if it is two standard errors behind the best one of
 * its method after as many epochs.
 *
 * **Work and time.** Counts of work decide how many rows trials have: together they may cost up to about three times
 * the work of the chosen run if that run is small (some seconds more with several labels a row), 0.7 times if it is
 * large, and 0.45 times for embedding models. They also decide how many trials there are, in seconds of a usual
 * machine: none begins that would make the choice longer than the run that it chooses, or than five seconds if that run
 * is shorter (one second for a label tree, which has no rate). The first trial of a slower method may end within that
 * method's run. Three trees are tried if their run takes at most 10 seconds. So nothing depends on the clock: the same
 * rows, options and seed give the same choice on any machine and any number of threads, to the last bit. Only with
 * xsm_choose_options::seconds the clock decides, too.
 *
 * **Threads.** Only one thread at a time may use the estimator that xsm_choose() works with.
 *  @{ */

/** The result of xsm_choose(); opaque. */
typedef struct xsm_choice xsm_choice;

/** Progress of xsm_choose(), for the callback. */
typedef struct xsm_choose_progress {
    size_t size;           /**< sizeof(xsm_choose_progress). */
    const char *estimator; /**< Name of the estimator of the current trial, or `label-tree`. */
    uint64_t trial;        /**< Number of the trial, from 1. */
    double eta;            /**< Learning rate of the trial; 0 for lbfgs and a label tree. */
    double ridge;          /**< L2 penalty mu of the trial. */
    double seconds;        /**< Seconds since xsm_choose() began. */
    double left;           /**< Seconds that the choice may still take at most, by what is known so far; NaN before a
                                trial on as many rows has ended. */
} xsm_choose_progress;

/** Called with the progress several times a second; during the trial of a label tree only at its beginning and end,
 *  while the context's hook (@ref context) is called as always. A non-zero value ends xsm_choose() with
 *  #XSM_CANCELLED. It must return, and must not throw. */
typedef int32_t (*xsm_choose_progress_function)(void *user, const xsm_choose_progress *progress);

/** What the best way is: how held-back rows are judged. */
enum {
    XSM_MEASURE_AUTO = 0,      /**< By the rows: #XSM_MEASURE_NDCG if any has several labels, else
                                    #XSM_MEASURE_LOG_LOSS. */
    XSM_MEASURE_LOG_LOSS = 1,  /**< The log-loss after calibration (@ref calibrate): a way that ranks well is not given
                                    up because it is too sure. */
    XSM_MEASURE_PRECISION = 2, /**< 1 - P@k, with k of xsm_choose_options::measure_top, or else 1. */
    XSM_MEASURE_NDCG = 3,      /**< 1 - nDCG@k; k = 5. */
    XSM_MEASURE_HITS = 4,      /**< 1 - hits@k: the share of rows without a label among the k best; k = 10. */
    XSM_MEASURE_MRR = 5        /**< 1 - MRR@k, of the reciprocal rank of the first label among the k best; k = 10. */
};

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
    int32_t transform; /**< 1 = also choose a transform, for sparse rows as they were read; 0 = rows are not changed. */
    int32_t embedding; /**< 1 = also try embedding models, if rows are sparse and classes many; the caller must be able
                            to make a model with xsm_choice_info::hidden. 0 = linear models only. */
    int32_t measure;   /**< An XSM_MEASURE_* value. */
    int32_t label_tree;   /**< 1 = also try label trees, if rows are sparse and the other settings allow it; the caller
                               must be able to call xsm_fit_label_tree() with xsm_choice_info::label_tree. */
    uint32_t measure_top; /**< k of a measure of the k best classes, up to 100; 0 = that of the measure. */
    uint32_t reserved;    /**< Zero. */
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
                                caller's string. NULL for a label tree. */
    double eta;            /**< Initial learning rate; 0 for lbfgs and a label tree. */
    double factor;         /**< Factor of the schedule. */
    double ridge;          /**< mu. It is already set in the estimator. */
    uint64_t epochs;       /**< Passes over the rows; 0 for lbfgs and a label tree. */
    uint64_t batch;        /**< Examples a step; 0 for lbfgs and a label tree. */
    uint64_t iterations;   /**< Most iterations for lbfgs; else 0. */
    uint64_t held;         /**< Held-back rows of the trials. 0: there were too few rows, or too little time, for
                                trials. */
    uint64_t trials;       /**< Trials, see xsm_choice_get_trial(). */
    double loss;           /**< Loss of the held-back rows in the best trial, as `measure` says. NaN without trials. */
    double precision;      /**< Precision@1 of the held-back rows in the best trial. NaN without trials. */
    double seconds;        /**< Seconds that xsm_choose() took. */
    int32_t schedule;      /**< An XSM_SCHEDULE_* value. */
    int32_t gave_up;       /**< What the time budget made shorter: a sum of XSM_GAVE_UP_* values; 0 = nothing. */
    const char *transform; /**< Description for xsm_transform_new(): apply this transform to the rows before training.
                                NULL if no transform was requested. Static. */
    uint32_t hidden;       /**< 0: a linear model; else H for xsm_model_new_embedding(), with the run's seed and
                                otherwise the values of #XSM_EMBEDDING_OPTIONS_INIT. */
    uint32_t measure_top;  /**< k of `measure`; 0 for the log-loss. */
    double initial;        /**< Value of the option `initial` of adagrad, for xsm_optimizer_set_number(). 0: leave the
                                default. */
    double pairs;          /**< Strength for xsm_model_add_pairs(), after training. 0: no pairs. */
    uint64_t trial_rows;   /**< Rows that trials trained on; 0 without trials. */
    double row_features;   /**< Mean number of features that are not zero in a row: with the numbers of rows and classes
                                it decides whether every class is scored. */
    int32_t exact;         /**< 1 = the estimator scores every class; 0 = it samples or searches. */
    int32_t measure;       /**< What `loss` is, an XSM_MEASURE_* value, not #XSM_MEASURE_AUTO. */
    const char *method;    /**< Name of the estimator, or `label-tree`. Valid as long as the choice. */
    const xsm_label_tree_options *label_tree; /**< Settings for xsm_fit_label_tree(), which trains in place of estimator
                                and optimizer; valid as long as the choice. NULL: another method was chosen. */
} xsm_choice_info;

/** Starting value of an #xsm_choice_info. */
#define XSM_CHOICE_INFO_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(xsm_choice_info), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL \
    }

/** A trial: a short run with some settings. Start with #XSM_CHOICE_TRIAL_INIT. */
typedef struct xsm_choice_trial {
    size_t size;           /**< sizeof(xsm_choice_trial). */
    const char *estimator; /**< Name of the estimator, or `label-tree`; valid as long as the choice. */
    const char *optimizer; /**< Name of the optimizer; valid as long as the choice. NULL for a label tree. */
    double eta;            /**< Learning rate; 0 for lbfgs and a label tree. */
    double ridge;          /**< mu. */
    uint64_t rows;         /**< Rows that it trained on. */
    uint64_t epochs;       /**< Passes over these rows; iterations for lbfgs; 1 for a label tree. */
    uint64_t best_epoch;   /**< Epoch after which the held-back rows were best; 0: it diverged. */
    double loss;           /**< As xsm_choice_info::loss, after `best_epoch`; infinite if it diverged. */
    double precision;      /**< As xsm_choice_info::precision, after `best_epoch`. */
    const char *transform; /**< As xsm_choice_info::transform. */
    uint32_t hidden;       /**< As xsm_choice_info::hidden. */
    uint32_t reserved;     /**< Zero. */
    const xsm_label_tree_options *label_tree; /**< As xsm_choice_info::label_tree. */
    double seconds;                           /**< That it took, judging included. */
} xsm_choice_trial;

/** Starting value of an #xsm_choice_trial. */
#define XSM_CHOICE_TRIAL_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_choice_trial), NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 0                                 \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Chooses how to train on rows. If xsm_choice_info::label_tree is not NULL afterwards, pass it to
 *  xsm_fit_label_tree(), which is all. Otherwise make a linear model (or an embedding model if xsm_choice_info::hidden
 *  is not 0), the optimizer (with its option `initial` set if xsm_choice_info::initial is not 0), and a trainer from
 *  these, xsm_choice_estimator() and the settings of xsm_choice_get_info(). For `lbfgs`, call xsm_fit_full_batch() with
 *  these settings instead. If xsm_choice_info::pairs is not 0, pass it to xsm_model_add_pairs() after training. With a
 *  time budget, let the run's callback end the run when the budget is spent: the planned length is an estimate.
 *
 *  With a context of several ranks (@ref ext_comm) all make the trials together, and get the choice of one process; a
 *  time budget is by the clock of rank 0. With too few classes for the ranks only label trees are tried, with a warning
 *  to the log.
 *
 *  Trials allocate models of their own, as large as the model to be trained, one at a time and one more for a label
 *  tree, and copies of the rows.
 *  @param context  context whose threads are used, or NULL
 *  @param train    rows, each with a label; rows may have several labels if the estimator accepts them
 *  @param options  settings, or NULL
 *  @param[out] out the choice, the caller's to release with xsm_choice_free()
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DIVERGED if every trial diverged; #XSM_CANCELLED if the callback returned non-zero;
 *          #XSM_ERROR_RANGE for an option; #XSM_ERROR_UNSUPPORTED for `lbfgs` with an estimator that samples; the
 *          errors of xsm_trainer_new() and xsm_fit_full_batch() for data, options and memory */
XSM_API xsm_status xsm_choose(xsm_context *context, const xsm_dataset *train, const xsm_choose_options *options,
                              xsm_choice **out, xsm_error *err);
/** Releases a choice and the estimator that it made; NULL is allowed. */
XSM_API void xsm_choice_free(xsm_choice *choice);
/** Fills `info` (start it with #XSM_CHOICE_INFO_INIT).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_choice_get_info(const xsm_choice *choice, xsm_choice_info *info, xsm_error *err);
/** The estimator, not bound, with all its options set: borrowed from the choice, which keeps it. It is the
 *  caller's own if xsm_choose_options::estimator was set. NULL if a label tree was chosen. */
XSM_API xsm_estimator *xsm_choice_estimator(const xsm_choice *choice);
/** Fills `trial` (start it with #XSM_CHOICE_TRIAL_INIT) with trial number `index`, in the order in which they ran.
 *  @return as xsm_choice_get_info(), and #XSM_ERROR_RANGE past the last */
XSM_API xsm_status xsm_choice_get_trial(const xsm_choice *choice, uint64_t index, xsm_choice_trial *trial,
                                        xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
