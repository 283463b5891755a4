/**
 * @file tune.h
 * @brief A learning rate for a training run, found by short runs on a part of the rows.
 */
#ifndef XSOFTMAX_TUNE_H
#define XSOFTMAX_TUNE_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/trainer.h>

/** @defgroup tune Choosing a learning rate
 *
 * The rule of Fagan and Iyengar (2018, section 4: eta in 10^-3 ... 10^3, each tried on a part of the rows), with
 * successive halving. Every trial is a small copy of the whole run: it starts from a model of zeros, goes through a
 * random part of the rows one to three times (three where it is of some of the classes), and goes through the whole
 * schedule in it. The first round tries the seven rates on a little work, the second the best and its neighbours on
 * more, the third the best and the better neighbour on most of it. Where the best lies at an end of what has been
 * tried, the next power of ten is tried as well, from 1e-9 to 1e4. Where the best two of the last round come within a
 * tenth of each other, and a fifth of what was gained over no training, three times the smaller of them is chosen,
 * which lies between. For an estimator with #XSM_ESTIMATOR_UNBOUNDED nothing between is chosen, but a tenth of the best
 * or less where the next power of ten ended worse than no training at all or than in the round before (if its losses
 * explode rather than grow with the rate: a hundred times worse than no training before the last round): a rate that
 * does well for a while may then blow up later.
 *
 * **Objective.** Trials are compared by f = sum_i loss_i + (mu/2) ||W||^2, with the exact log-loss (for a row with
 * several labels the mean over them), or for an estimator with #XSM_ESTIMATOR_OTHER_LOSS (`margin`, `one-vs-all`,
 * `one-vs-all-sampled`, which is judged with all classes, `mips` and `decomp-mips`, by those that they find) the loss
 * that it reports itself: estimated from training rows of the trial, the sum scaled to all N. From the second round on
 * it is estimated from training rows that the trial did not go through as well, and rates are compared by f + w (f' -
 * f), f' being that: w = (1 - (n + 3 D) / (N + 3 D)) / 2 for a trial of n rows, in which D features occur, or half of
 * that where it is of some of the classes. Test rows have no part in it.
 *
 * **Many classes.** Where a trial of the last round would draw each class less than 200 times (100 where steps grow
 * with the number of classes), trials of a linear model by class (#XSM_LAYOUT_CLASS_MAJOR) are of some of its classes,
 * at random: as few of them as of the rows, but 16 for each that a step draws, with all their rows, other ones in each
 * round. The rates are multiplied by the sum of the coefficients in the first step with all classes, over that with
 * these. It needs one label a row, no sampler or correction of the host's, no option that names classes, an estimator
 * that samples, is judged by the log-loss and has bounded steps, and classes of which those are at most 0.3.
 *
 * **Work.** The trials do at most 27.5 % of the run's work, counted in classes that are scored and updated: their
 * steps, their evaluation, copies of the rows that they take, and making the model new. Where that would be more, all
 * trials are smaller. It is more only where rates outside of the grid have to be tried to find one at which training
 * stays finite, where trials of a fifth of their size would still be more, and on data of fewer than 512 rows. The plan
 * depends on counts, never on a clock, so the choice is the same on any machine, with any number of threads.
 *
 * **The run itself** can still diverge, as it is longer than any trial. Begin it again then, with a model of zeros and
 * a tenth of the rate: `xsoftmax train` does so.
 *
 * **Threads.** As a trainer: one thread at a time on the model, the estimator and the optimizer that it works with.
 *  @{ */

/** What came of a trial. */
enum {
    XSM_TRIAL_DROPPED = 0, /**< Others were better. */
    XSM_TRIAL_KEPT = 1,    /**< Went on to the next round; in the last, a rate between it and another, or below. */
    XSM_TRIAL_CHOSEN = 2,  /**< Its rate is the one chosen; in the last round only. */
    XSM_TRIAL_DIVERGED = 3 /**< Weights or scores left the finite. */
};

/** A trial. */
typedef struct xsm_tune_trial {
    size_t size;       /**< sizeof(xsm_tune_trial). */
    uint32_t round;    /**< From 1. */
    int32_t outcome;   /**< An XSM_TRIAL_* value. */
    double eta;        /**< The rate. */
    uint64_t rows;     /**< Rows that it went through. */
    uint64_t epochs;   /**< How often. */
    double objective;  /**< f as above, by rows of the trial; infinite when it diverged. */
    uint64_t examples; /**< Examples handled: rows * epochs, fewer when it diverged. */
} xsm_tune_trial;

/** Starting value of an #xsm_tune_trial. */
#define XSM_TUNE_TRIAL_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_tune_trial), 0, 0, 0, 0, 0, 0, 0                                                                    \
    }

/** What came of all of them. */
typedef struct xsm_tuning_info {
    size_t size;       /**< sizeof(xsm_tuning_info). */
    double eta;        /**< The rate chosen. */
    uint64_t trials;   /**< Trials, see xsm_tuning_get_trial(). */
    uint64_t examples; /**< Examples that they handled. */
    double seconds;    /**< Time that they took, evaluation included. */
    uint64_t classes;  /**< Classes that they were on: K, or fewer where they would have drawn each too seldom. */
} xsm_tuning_info;

/** Starting value of an #xsm_tuning_info. */
#define XSM_TUNING_INFO_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(xsm_tuning_info), 0, 0, 0, 0, 0                                                                         \
    }

/** Where tuning is, for the callback. */
typedef struct xsm_tune_progress {
    size_t size;     /**< sizeof(xsm_tune_progress). */
    uint32_t round;  /**< The trial's round. */
    uint32_t rounds; /**< Rounds in all. */
    double eta;      /**< The trial's rate. */
    double done;     /**< Share of the planned work that is done, in [0, 1]. */
    double seconds;  /**< Since the beginning. */
} xsm_tune_progress;

/** Told of the progress; returning non-zero ends the tuning with #XSM_CANCELLED. Called at each trial's start and
 *  several times a second. The model is not to be used there: a trial may be of some of its classes. */
typedef int32_t (*xsm_tune_function)(void *user, const xsm_tune_progress *progress);

/** Settings of xsm_tune_eta(). Start with #XSM_TUNE_OPTIONS_INIT. */
typedef struct xsm_tune_options {
    size_t size;                    /**< sizeof(xsm_tune_options). */
    const xsm_trainer_options *run; /**< The run that a rate is wanted for, or NULL for the defaults. Its epochs, batch,
                                         schedule, order and seed count; its eta, evaluations and callback do not. */
    xsm_tune_function progress;     /**< Or NULL. */
    void *progress_user;            /**< Handed to progress(). */
} xsm_tune_options;

/** Starting value of an #xsm_tune_options. */
#define XSM_TUNE_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_tune_options), NULL, NULL, NULL                                                                     \
    }

/** Trials and their outcome; opaque. */
typedef struct xsm_tuning xsm_tuning;

#ifdef __cplusplus
extern "C" {
#endif

/** Finds a learning rate for a run. Afterwards, make the trainer from the same objects with xsm_tuning_info::eta.
 *
 *  The trials run in the model itself, so that no second one has to fit into memory; besides, they hold a copy of the
 *  rows that they go through, a good quarter of all in runs of ten epochs. The estimator and the optimizer are bound to
 * other rows on the way.
 *  @param context   context whose threads are used, or NULL
 *  @param model     the model to be trained, new: all zeros, but for the vectors of an embedding model; it is as new
 *                   again afterwards, also on failure
 *  @param train     the rows of the run
 *  @param estimator the estimator of the run; not bound afterwards, so that options can be set
 *  @param optimizer the optimizer of the run
 *  @param options   settings, or NULL
 *  @param[out] out  what came of it, the caller's to release with xsm_tuning_free()
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_CANCELLED when the callback asked for it; #XSM_ERROR_DIVERGED when training diverged with
 *          every rate; #XSM_ERROR_STATE for a model that is not all zeros; what xsm_trainer_new() and
 *          xsm_trainer_run() return for data, options and memory */
XSM_API xsm_status xsm_tune_eta(xsm_context *context, xsm_model *model, const xsm_dataset *train,
                                xsm_estimator *estimator, xsm_optimizer *optimizer, const xsm_tune_options *options,
                                xsm_tuning **out, xsm_error *err);
/** Releases what xsm_tune_eta() returned; NULL is fine. */
XSM_API void xsm_tuning_free(xsm_tuning *tuning);
/** Fills `info` (start it with #XSM_TUNING_INFO_INIT).
 *  @return #XSM_OK, #XSM_ERROR_ARGUMENT, #XSM_ERROR_STRUCT_OLD or #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_tuning_get_info(const xsm_tuning *tuning, xsm_tuning_info *info, xsm_error *err);
/** Fills `trial` (start it with #XSM_TUNE_TRIAL_INIT) with trial number `index`; they are in order of round, then rate.
 *  @return as xsm_tuning_get_info(), and #XSM_ERROR_RANGE past the last */
XSM_API xsm_status xsm_tuning_get_trial(const xsm_tuning *tuning, uint64_t index, xsm_tune_trial *trial,
                                        xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
