/* SPDX-License-Identifier: MIT */
/**
 * @file tune.h
 * @brief Finds a learning rate for a training run by short runs on a part of the rows.
 */
#ifndef XSOFTMAX_TUNE_H
#define XSOFTMAX_TUNE_H

#ifndef XSM_EXPERIMENTAL
#error "xsoftmax/tune.h is experimental, and changes from release to release: define XSM_EXPERIMENTAL to use it"
#endif

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/trainer.h>

/** @defgroup tune Choosing a learning rate
 *
 * Experimental: define XSM_EXPERIMENTAL before the first header. Functions and structs may change with any release.
 *
 * The rule of Fagan and Iyengar (2018, section 4: eta in 10^-3 ... 10^3, each tried on a part of the rows), with
 * successive halving. Every trial is a small copy of the whole run: it starts from a model of zeros, trains one to
 * three times on a random part of the rows (three times if it uses only some of the classes), and runs through the
 * whole schedule of the learning rate (eta). The first round tries the seven rates with little work, the second the
 * best rate and its neighbours with more work, the third the best rate and its better neighbour with most of the work.
 * If the best rate is the smallest or largest so far, the next power of ten is tried as well, within 1e-9 to 1e4.
 *
 * If the objectives of the best two rates of the last round differ by at most a tenth, and by at most a fifth of the
 * improvement over no training, the chosen rate is three times the smaller of the two, which lies between them. For an
 * estimator with #XSM_ESTIMATOR_UNBOUNDED, no rate between them is chosen, because a rate that works for a while may
 * diverge later. Instead, a tenth of the best rate or less is chosen if the next power of ten ended worse than no
 * training or worse than in the previous round (if its losses explode rather than grow with the rate: a hundred times
 * worse than no training, before the last round).
 *
 * **Objective.** Trials are compared by f = sum_i loss_i + (mu/2) ||W||^2, with an L2 penalty (ridge) mu. loss_i is the
 * log-loss over all classes (for a row with several labels the mean over them). For an estimator with
 * #XSM_ESTIMATOR_OTHER_LOSS it is the loss that the estimator reports (`margin`, `one-vs-all`, `one-vs-all-sampled`
 * evaluated with all classes, `mips` and `decomp-mips` with the classes that they find). f is estimated from training
 * rows of the trial, with the sum scaled to all N rows. From the second round on, f is also estimated from held-back
 * rows, training rows that the trial did not train on; this estimate is f'. Rates are then compared by f + w (f' - f)
 * with w = (1 - (n + 3 D) / (N + 3 D)) / 2 for a trial of n rows in which D features occur, or half of this w if the
 * trial uses only some of the classes. Test rows are not used, nor are rows of weight 0.
 *
 * **Many classes.** If a trial of the last round would draw each class less than 200 times (100 if steps grow with the
 * number of classes), trials of a linear class-major model (#XSM_LAYOUT_CLASS_MAJOR) use a random subset of the classes
 * with all their rows, a different subset in each round. The share of classes equals the share of rows, but there are
 * at least 16 classes for each class that a step draws. The rates are multiplied by the sum of the coefficients of the
 * first step with all classes, divided by that with the subset. This requires one label a row; no sampler or correction
 * of the host; no option that lists classes; an estimator that samples, is compared by the log-loss and has bounded
 * steps; and a subset of at most 0.3 of the classes.
 *
 * **Work.** All trials cost at most 27.5 % of the work of the run, counted in classes that are scored and updated:
 * steps, evaluation, copies of the rows, and resetting the model. If the trials would cost more, they are made smaller.
 * They cost more only if rates outside the grid must be tried to find one at which training stays finite, if trials of
 * a fifth of their size would still cost more, or if the data has fewer than 512 rows. The plan depends on counts,
 * never on a clock, so the choice is the same on any machine with any number of threads.
 *
 * **The run itself** can still diverge, because it is longer than any trial. In this case, start again with a model of
 * zeros and a tenth of the rate, as `xsoftmax train` does.
 *
 * **Threads.** Only one thread at a time may use the model, the estimator and the optimizer that xsm_tune_eta() works
 * with.
 *  @{ */

/** Outcome of a trial. */
enum {
    XSM_TRIAL_DROPPED = 0, /**< Other rates were better. */
    XSM_TRIAL_KEPT = 1,    /**< Its rate went on to the next round. In the last round: a rate between this and another
                                rate, or below, is chosen. */
    XSM_TRIAL_CHOSEN = 2,  /**< Its rate is the chosen rate; in the last round only. */
    XSM_TRIAL_DIVERGED = 3 /**< Weights or scores (logits) were not finite. */
};

/** A trial: a short run with one learning rate. Start with #XSM_TUNE_TRIAL_INIT. */
typedef struct xsm_tune_trial {
    size_t size;       /**< sizeof(xsm_tune_trial). */
    uint32_t round;    /**< Round, from 1. */
    int32_t outcome;   /**< An XSM_TRIAL_* value. */
    double eta;        /**< Learning rate. */
    uint64_t rows;     /**< Rows that it trained on. */
    uint64_t epochs;   /**< Passes over these rows. */
    double objective;  /**< f as above, estimated from rows of the trial; infinite if it diverged. */
    uint64_t examples; /**< Examples processed: rows * epochs, fewer if it diverged. */
} xsm_tune_trial;

/** Starting value of an #xsm_tune_trial. */
#define XSM_TUNE_TRIAL_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_tune_trial), 0, 0, 0, 0, 0, 0, 0                                                                    \
    }

/** Result of tuning. Start with #XSM_TUNING_INFO_INIT. */
typedef struct xsm_tuning_info {
    size_t size;       /**< sizeof(xsm_tuning_info). */
    double eta;        /**< Chosen learning rate. */
    uint64_t trials;   /**< Number of trials, see xsm_tuning_get_trial(). */
    uint64_t examples; /**< Examples that all trials processed. */
    double seconds;    /**< Seconds that all trials took, including evaluation. */
    uint64_t classes;  /**< Classes that the trials used: K, or fewer (see "Many classes"). */
} xsm_tuning_info;

/** Starting value of an #xsm_tuning_info. */
#define XSM_TUNING_INFO_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(xsm_tuning_info), 0, 0, 0, 0, 0                                                                         \
    }

/** Progress of tuning, for the callback. */
typedef struct xsm_tune_progress {
    size_t size;     /**< sizeof(xsm_tune_progress). */
    uint32_t round;  /**< Round of the current trial. */
    uint32_t rounds; /**< Number of rounds. */
    double eta;      /**< Learning rate of the current trial. */
    double done;     /**< Share of the planned work that is done, in [0, 1]. */
    double seconds;  /**< Seconds since the beginning. */
} xsm_tune_progress;

/** Called with the progress at the start of each trial and several times a second. A non-zero return value ends the
 *  tuning with #XSM_CANCELLED. The callback must not use the model, because a trial may use only some of its
 *  classes; it must return, and must not throw. */
typedef int32_t (*xsm_tune_progress_function)(void *user, const xsm_tune_progress *progress);

/** Settings of xsm_tune_eta(). Start with #XSM_TUNE_OPTIONS_INIT. */
typedef struct xsm_tune_options {
    size_t size;                    /**< sizeof(xsm_tune_options). */
    const xsm_trainer_options *run; /**< Settings of the run to find a rate for, or NULL for the defaults. Its epochs,
                                         batch, schedule, order and seed are used; its eta, evaluations and callback are
                                         ignored. */
    xsm_tune_progress_function progress; /**< Callback, or NULL. */
    void *progress_user;                 /**< First argument of progress(). */
} xsm_tune_options;

/** Starting value of an #xsm_tune_options. */
#define XSM_TUNE_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_tune_options), NULL, NULL, NULL                                                                     \
    }

/** Result of xsm_tune_eta(); opaque. */
typedef struct xsm_tuning xsm_tuning;

#ifdef __cplusplus
extern "C" {
#endif

/** Finds a learning rate for a run. Afterwards, make the trainer from the same objects with xsm_tuning_info::eta.
 *
 *  The trials train the model itself, so no second model has to fit into memory; of a divided model (@ref ext_comm),
 *  trials of some of the classes train another, which has these alone. They make a copy of the rows that they
 *  train on, a little more than a quarter of all rows in runs of ten epochs. The estimator and the optimizer are bound
 *  to other rows during the call.
 *  @param context   context whose threads are used, or NULL
 *  @param model     the model to be trained, new: all zeros except the vectors of an embedding model; it is reset to
 *                   this state before the function returns, also on failure
 *  @param train     the rows of the run
 *  @param estimator the estimator of the run; it is not bound afterwards, so its options can be set
 *  @param optimizer the optimizer of the run
 *  @param options   settings, or NULL
 *  @param[out] out  the result, the caller's to release with xsm_tuning_free()
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DIVERGED if training diverged with every rate; #XSM_ERROR_STATE for a model that is not
 *          all zeros; #XSM_CANCELLED if the callback returned non-zero; the errors of xsm_trainer_new() and
 *          xsm_trainer_run() for data, options and memory */
XSM_API xsm_status xsm_tune_eta(xsm_context *context, xsm_model *model, const xsm_dataset *train,
                                xsm_estimator *estimator, xsm_optimizer *optimizer, const xsm_tune_options *options,
                                xsm_tuning **out, xsm_error *err);
/** Releases the result of xsm_tune_eta(); NULL is allowed. */
XSM_API void xsm_tuning_free(xsm_tuning *tuning);
/** Fills `info` (start it with #XSM_TUNING_INFO_INIT).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_tuning_get_info(const xsm_tuning *tuning, xsm_tuning_info *info, xsm_error *err);
/** Fills `trial` (start it with #XSM_TUNE_TRIAL_INIT) with trial number `index`; trials are sorted by round, then by
 *  rate.
 *  @return as xsm_tuning_get_info(), and #XSM_ERROR_RANGE past the last */
XSM_API xsm_status xsm_tuning_get_trial(const xsm_tuning *tuning, uint64_t index, xsm_tune_trial *trial,
                                        xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
