/**
 * @file choose.h
 * @brief Estimator, sampler, optimizer, learning rate, epochs and ridge for a training run, from the rows themselves.
 */
#ifndef XSOFTMAX_CHOOSE_H
#define XSOFTMAX_CHOOSE_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/trainer.h>

/** @defgroup choose Choosing how to train
 *
 * xsm_choose() finds out how rows are best trained on. It holds some of them back, trains on others by short runs that
 * differ in one thing at a time, and keeps what does best on the rows held back:
 *
 * - **Estimator.** Where a pass over all classes is cheap, exact ones: `softmax`, and for rows with several labels
 *   `one-vs-all` beside it. Where it is not, sampled ones: `nce` and `sampled-softmax` with classes drawn by
 *   `frequency`, for several labels `sampled-softmax` likewise and `one-vs-all-sampled`. Where embedding models may be
 *   chosen and rows are sparse, `sampled-softmax` by `frequency` on vectors of 256, or of 512 where rows have 32
 *   features or more, takes their place: a step then costs the same however many features and classes there are.
 * - **Transform**, where it is asked for: unit rows, or unit rows by tf-idf.
 * - **Learning rate**, in half powers of ten of 1 / mean ||x||^2, going on while it gets better; it falls to a tenth
 *   over the run. For embedding models, in powers of two of adagrad's 0.05.
 * - **Epochs**: up to 10, or 5 where classes are sampled; fewer if the rows held back say so (two more than were best
 *   in the trial for exact estimators). 4 of embedding models.
 * - **Ridge**, for exact estimators by sgd, where they are ahead of the ways before, or by lbfgs, in half powers of
 * ten.
 * - **Optimizer**: `sgd`; beside it, for exact estimators of more than 100 classes, `adagrad` in batches of 8 to 64
 *   rows, at twice the rate; for small problems with one label a row also `lbfgs`; `adagrad` for embedding models.
 *
 * - **Pairs** of a feature and a class, of strength 2 or 4, beside an embedding model's vectors where rows have 4
 *   features or more (xsm_model_add_pairs()), where they make the loss better by a five-hundredth.
 *
 * They are compared by the log-loss of the rows held back, or, for rows with several labels and estimators of another
 * loss, by their nDCG@5 (1 - nDCG@5, the less the better).
 *
 * **Work.** The short runs together do up to about three times the work of the run chosen where that is small (with
 * several labels a row some seconds more), 0.7 of it where it is large, and 0.45 of it for embedding models. Without a
 * time budget all plans depend on counts, never on a clock, so that the choice is the same on any machine, with any
 * number of threads.
 *
 * **Threads.** One thread at a time on the estimator that it works with.
 *  @{ */

/** What was chosen; opaque. */
typedef struct xsm_choice xsm_choice;

/** Where the choice is, for the callback. */
typedef struct xsm_choose_progress {
    size_t size;           /**< sizeof(xsm_choose_progress). */
    const char *estimator; /**< Being tried. */
    uint64_t trial;        /**< Its number, from 1. */
    double eta;            /**< Its rate; 0 for lbfgs. */
    double ridge;          /**< Its ridge. */
    double seconds;        /**< Since the choice began. */
} xsm_choose_progress;

/** Told of the progress, several times a second; returning non-zero ends the choice with #XSM_CANCELLED. */
typedef int32_t (*xsm_choose_progress_function)(void *user, const xsm_choose_progress *progress);

/** Settings. Start with #XSM_CHOOSE_OPTIONS_INIT. */
typedef struct xsm_choose_options {
    size_t size;                    /**< sizeof(xsm_choose_options). */
    xsm_estimator *estimator;       /**< To be kept, with its options; NULL = chosen.
                                         Borrowed; it is bound to other rows on the way, and not bound afterwards. */
    const char *optimizer;          /**< To be kept: the name of an optimizer, or `lbfgs`; NULL = chosen. */
    const xsm_trainer_options *run; /**< Of it `epochs`, `batch` and `eta` are kept where they are not 0, `order` and
                                         `seed` always, `schedule` and `factor` with `keep_schedule`; the rest means
                                         nothing. NULL = everything is chosen. */
    double ridge;                   /**< With `keep_ridge`: mu, 0 and more. */
    double seconds;                 /**< Time budget of choice and training together; 0 = none. */
    int32_t keep_ridge;             /**< 1 = `ridge` is kept; 0 = chosen, or the one that the caller's estimator has. */
    int32_t keep_schedule;          /**< 1 = the run's `schedule` and `factor` are kept. */
    int32_t bias;                   /**< 1 = the model is to have a bias. */
    int32_t keep_pairs;             /**< 1 = pairs are the caller's, none are tried; 0 = their strength is chosen. */
    xsm_choose_progress_function progress; /**< Or NULL. */
    void *progress_user;                   /**< Handed to progress(). */
    int32_t transform; /**< 1 = a transform is chosen too, for sparse rows as they were read; 0 = rows stay. */
    int32_t embedding; /**< 1 = embedding models are among the ways, where rows are sparse and classes many: the caller
                            can make one of xsm_choice_info::hidden. 0 = linear models alone. */
} xsm_choose_options;

/** Starting value of an #xsm_choose_options. */
#define XSM_CHOOSE_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_choose_options), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0                               \
    }

/** What was chosen. */
typedef struct xsm_choice_info {
    size_t size;           /**< sizeof(xsm_choice_info). */
    const char *optimizer; /**< A name for xsm_optimizer_new(), or `lbfgs`: xsm_fit_batch(). Static, or the caller's. */
    double eta;            /**< Learning rate to start with; 0 for lbfgs. */
    double factor;         /**< Of the schedule. */
    double ridge;          /**< mu. The estimator has it already. */
    uint64_t epochs;       /**< Passes; 0 for lbfgs. */
    uint64_t batch;        /**< Examples a step; 0 for lbfgs. */
    uint64_t iterations;   /**< At most so many, for lbfgs; else 0. */
    uint64_t held;         /**< Rows held back in the trials. 0: there were too few rows, or too little time, to try. */
    uint64_t trials;       /**< Trials, see xsm_choice_get_trial(). */
    double loss;      /**< Of the rows held back, in the best trial: log-loss, or 1 - nDCG@5. NaN without trials. */
    double precision; /**< Precision@1 of those rows then. NaN without trials. */
    double seconds;   /**< Time that the choice took. */
    int32_t schedule; /**< An XSM_SCHEDULE_* value. */
    int32_t gave_up;  /**< 1 = the time budget made the choice or the run shorter; the third line tells. */
    const char *transform; /**< For xsm_transform_new(): the rows are to be transformed so before they are trained on.
                                NULL where none was to be chosen. Static. */
    uint32_t hidden;       /**< 0: a linear model; else xsm_model_new_embedding() with vectors of this length, the run's
                                seed, and all else as #XSM_EMBEDDING_OPTIONS_INIT has it. */
    uint32_t reserved;     /**< Zero. */
    double initial;        /**< For xsm_optimizer_set_double(): the option `initial` of adagrad. 0: as it is. */
    double pairs;          /**< For xsm_model_add_pairs() when the model is trained: their strength. 0: without. */
} xsm_choice_info;

/** Starting value of an #xsm_choice_info. */
#define XSM_CHOICE_INFO_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(xsm_choice_info), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0                         \
    }

/** A short run. */
typedef struct xsm_choice_trial {
    size_t size;           /**< sizeof(xsm_choice_trial). */
    const char *estimator; /**< Its name; as long as the choice. */
    const char *optimizer; /**< Likewise. */
    double eta;            /**< Rate; 0 for lbfgs. */
    double ridge;          /**< mu. */
    uint64_t rows;         /**< Rows that it went through. */
    uint64_t epochs;       /**< How often; iterations for lbfgs. */
    uint64_t best_epoch;   /**< After which of them the rows held back did best; 0: it diverged. */
    double loss;           /**< As xsm_choice_info::loss, then; infinite when it diverged. */
    double precision;      /**< As xsm_choice_info::precision, then. */
    const char *transform; /**< As xsm_choice_info::transform. */
    uint32_t hidden;       /**< As xsm_choice_info::hidden. */
    uint32_t reserved;     /**< Zero. */
} xsm_choice_trial;

/** Starting value of an #xsm_choice_trial. */
#define XSM_CHOICE_TRIAL_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_choice_trial), NULL, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0                                          \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Chooses how to train on rows. Afterwards, make a model of zeros (or an embedding model, where `hidden` says so), and
 *  a trainer with xsm_choice_estimator(), the optimizer, its option `initial` set where xsm_choice_info::initial is not
 *  0, and the settings of xsm_choice_get_info(); or for `lbfgs` hand them to xsm_fit_batch(). Where
 *  xsm_choice_info::pairs is not 0, hand it to xsm_model_add_pairs() when the model is trained. With a time budget,
 * have the run's callback end it when the budget is spent: how long it will take is an estimate.
 *
 *  Trials have models of their own, one at a time, of the size of the model to be trained, and copies of the rows.
 *  @param context  context whose threads are used, or NULL
 *  @param train    rows, each with a label; with several labels a row, where the estimators are to take them
 *  @param options  settings, or NULL
 *  @param[out] out the choice, the caller's to release with xsm_choice_free()
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_CANCELLED when the callback asked for it; #XSM_ERROR_DIVERGED when every trial diverged;
 *          #XSM_ERROR_RANGE for an option; #XSM_ERROR_UNSUPPORTED for `lbfgs` with an estimator that samples; what
 *          xsm_trainer_new() and xsm_fit_batch() return for data, options and memory */
XSM_API xsm_status xsm_choose(xsm_context *context, const xsm_dataset *train, const xsm_choose_options *options,
                              xsm_choice **out, xsm_error *err);
/** Releases a choice and the estimator that it made; NULL is fine. */
XSM_API void xsm_choice_free(xsm_choice *choice);
/** Fills `info` (start it with #XSM_CHOICE_INFO_INIT).
 *  @return #XSM_OK, #XSM_ERROR_ARGUMENT, #XSM_ERROR_STRUCT_OLD or #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_choice_get_info(const xsm_choice *choice, xsm_choice_info *info, xsm_error *err);
/** The estimator, with all its options set and not bound: the choice's, borrowed, or the one that was handed in. */
XSM_API xsm_estimator *xsm_choice_estimator(const xsm_choice *choice);
/** Why, in words: three lines, `index` 0 (the method), 1 (rate, epochs, ridge) and 2 (how it was found out, and what a
 *  time budget took away). In English, no line end; as long as the choice. NULL past the last. */
XSM_API const char *xsm_choice_line(const xsm_choice *choice, size_t index);
/** Fills `trial` (start it with #XSM_CHOICE_TRIAL_INIT) with trial number `index`, in the order in which they were
 * made.
 *  @return as xsm_choice_get_info(), and #XSM_ERROR_RANGE past the last */
XSM_API xsm_status xsm_choice_get_trial(const xsm_choice *choice, uint64_t index, xsm_choice_trial *trial,
                                        xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
