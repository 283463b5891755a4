/* SPDX-License-Identifier: MIT */
/**
 * @file trainer.h
 * @brief Training: epochs over a dataset with a schedule, evaluation and a callback.
 */
#ifndef XSOFTMAX_TRAINER_H
#define XSOFTMAX_TRAINER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/estimator.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/optimizer.h>

/** @defgroup trainer Training
 *
 * A trainer runs an estimator, which computes scores (logits) and their gradient, and an optimizer, which changes the
 * weights, over a dataset. The result depends only on the data, the options and the seed: it is bit-identical for any
 * number of threads, any instruction set and repeated runs.
 *
 * **Threads.** Only one trainer at a time may use a model, and only one thread at a time may use a trainer. The trainer
 * itself uses the threads of its context.
 *  @{ */

/** A trainer; opaque. */
typedef struct xsm_trainer xsm_trainer;

/** Schedules: how the learning rate eta falls. */
enum {
    XSM_SCHEDULE_CONSTANT = 0,    /**< eta. */
    XSM_SCHEDULE_STEP = 1,        /**< eta * factor^e in epoch e = 0, 1, ..., and not below DBL_MIN. */
    XSM_SCHEDULE_INVERSE = 2,     /**< eta / (1 + t/N), t the number of examples so far: eta/(1+e) at the start of epoch
                                       e. */
    XSM_SCHEDULE_INVERSE_SQRT = 3 /**< eta / sqrt(1 + t/N). */
};

/** Order of the rows in an epoch. */
enum {
    XSM_ORDER_SHUFFLE = 0, /**< A new permutation each epoch, from the seed. For an estimator that processes a batch
                                jointly (`implicit`), one permutation is cut into fixed minibatches, whose order changes
                                each epoch; a shorter one is last. */
    XSM_ORDER_FILE = 1     /**< As they are in the dataset. */
};

/** Progress of a run, for the callback and for xsm_trainer_get_progress() (start it with #XSM_PROGRESS_INIT). */
typedef struct xsm_progress {
    size_t size;              /**< sizeof(xsm_progress). */
    uint64_t epoch;           /**< Completed epochs. */
    uint64_t epochs;          /**< Epochs of the whole run. */
    uint64_t step;            /**< Steps taken. */
    uint64_t steps;           /**< Steps of the whole run. */
    uint64_t examples;        /**< Examples processed. */
    double eta;               /**< Learning rate of the last step. */
    double seconds;           /**< Seconds spent training, without evaluation. */
    double loss;              /**< Mean of the estimator's loss since the epoch began; NaN before an epoch's first
                                   step, and so after the last epoch, whose callback has it. */
    int32_t epoch_ended;      /**< 1 = an epoch has just ended, 0 = within an epoch. */
    int32_t reserved;         /**< Zero. */
    const xsm_metrics *train; /**< Evaluation on the training rows, or NULL if there is none now. All its arrays are
                                   filled. It belongs to the library and is valid during the callback only. */
    const xsm_metrics *test;  /**< Evaluation on the test rows, or NULL if there is none now; valid as `train`. */
    double objective;     /**< xsm_fit_full_batch(): sum of losses and L2 penalty (ridge) at the best weights so far;
                               else NaN. */
    double gradient_norm; /**< xsm_fit_full_batch(): norm of the gradient of `objective` there; else NaN. */
} xsm_progress;

/** Starting value of an #xsm_progress, for functions that fill one. */
#define XSM_PROGRESS_INIT                                                                                              \
    {                                                                                                                  \
        sizeof(xsm_progress), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0                                           \
    }

/** Called with the progress at the start (for the first epoch, step 0) and end of each epoch, and several times a
 *  second in between. A non-zero return value ends the run with #XSM_CANCELLED; the model keeps its current weights. It
 *  must return, and must not throw. */
typedef int32_t (*xsm_progress_function)(void *user, const xsm_progress *progress);

/** Settings of a trainer. Start with #XSM_TRAINER_OPTIONS_INIT. */
typedef struct xsm_trainer_options {
    size_t size;                    /**< sizeof(xsm_trainer_options). */
    uint64_t epochs;                /**< Passes over the rows; 0 = 10. */
    uint64_t batch;                 /**< Examples a step; 0 = 1. */
    double eta;                     /**< Initial learning rate, > 0; 0 = 1. */
    int32_t schedule;               /**< An XSM_SCHEDULE_* value. */
    int32_t order;                  /**< An XSM_ORDER_* value. */
    double factor;                  /**< Factor of #XSM_SCHEDULE_STEP, in (0, 1]; 0 = 0.9. */
    uint64_t seed;                  /**< Seed of the order of the rows; any number, 0 too. */
    uint64_t evaluate_every;        /**< Epochs between evaluations; 0 = never. */
    int32_t evaluate_train;         /**< An XSM_EVALUATE_* value: the training rows to evaluate on, too. */
    uint32_t evaluate_top;          /**< Numbers in each array of these evaluations, xsm_metrics::top, up to
                                         #XSM_TOP_MAX; 0 = 10. */
    const xsm_dataset *test;        /**< Test rows to evaluate on, or NULL. A trainer keeps them. */
    xsm_progress_function progress; /**< Callback, or NULL. */
    void *progress_user;            /**< First argument of progress(). */
} xsm_trainer_options;

/** Starting value of an #xsm_trainer_options. */
#define XSM_TRAINER_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(xsm_trainer_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL                                    \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a trainer. Binds the estimator and the optimizer to the model and the data, and keeps all four and the test
 *  rows. The layout of the weights is changed to the faster one: feature-major for an exact estimator on
 *  sparse rows, else class-major.
 *  @param context   context whose threads are used, or NULL
 *  @param model     the model to train; training starts from its current weights
 *  @param train     rows with the model's D and K
 *  @param estimator the estimator
 *  @param optimizer the optimizer
 *  @param options   settings, or NULL
 *  @param[out] out  the trainer, the caller's to release with xsm_trainer_free()
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DATA for rows that the estimator cannot learn from, and the other errors of
 *          xsm_estimator_bind() and xsm_optimizer_bind(); #XSM_ERROR_SHAPE if training or test rows do not match the
 *          model; #XSM_ERROR_UNSUPPORTED for a batch size that the estimator does not support, or an estimator that the
 *          optimizer does not support; #XSM_ERROR_RANGE for an option */
XSM_API xsm_status xsm_trainer_new(xsm_context *context, xsm_model *model, const xsm_dataset *train,
                                   xsm_estimator *estimator, xsm_optimizer *optimizer,
                                   const xsm_trainer_options *options, xsm_trainer **out, xsm_error *err);
/** Releases a trainer, which gives up what it was made from; NULL is allowed. In its own callback it ends the run with
 *  #XSM_CANCELLED, and the run releases it. */
XSM_API void xsm_trainer_free(xsm_trainer *trainer);
/** Trains to the end of the last epoch; after a cancelled run, continues it.
 *  @return #XSM_OK; #XSM_ERROR_DIVERGED (the message names the step and what to try; the model is that before the step,
 *          and finite; with several threads, some later steps on other classes may have been taken), likewise
 *          #XSM_ERROR_RANGE for draws of a host's sampler (xsm_estimator_gradient()); #XSM_CANCELLED if the callback
 *          returned non-zero; #XSM_ERROR_STATE if the estimator or the optimizer has been bound to something else, or
 *          the estimator has been bound again with options that make it score all classes, or the model has grown or
 *          has another geometry, or the data were edited (in the callback, too), in any callback within a run of this
 *          trainer, and if a process of a divided model (@ref ext_comm) had no memory in a step that others may have
 *          taken: the model can then neither be trained further nor saved, and a new one can resume the run from a
 *          checkpoint */
XSM_API xsm_status xsm_trainer_run(xsm_trainer *trainer, xsm_error *err);
/** Saves the complete state of the run in one file: the model, the state of estimator and optimizer, the positions in
 *  the epoch and in the random streams, the settings, and a fingerprint of the data. A run that xsm_trainer_resume()
 *  continues from this file gives bit-identical results. May be called between runs, after a cancelled run, and in the
 *  callback of the options, in no other within a run. The file is a safetensors file, and an existing file is replaced
 *  atomically: after a crash, `path` is the complete old file or the complete new one. xsm_model_load() can load the
 *  file as a model. Costs one pass over the model, and in the first call one pass over the data.
 *  @param trainer the trainer
 *  @param path    the file to write or replace, or NULL for `storage`
 *  @param storage what is written in place of a file (@ref storage), or NULL
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_UNSUPPORTED for a host's estimator that stores something for each row but
 *          has no xsm_estimator_ops::state_tensor, for a host's index without save(), and on a big-endian machine;
 *          #XSM_ERROR_DIVERGED if a number is not finite; #XSM_ERROR_ARGUMENT for a host's estimator with two tensors
 *          of the same name; #XSM_ERROR_STATE as xsm_trainer_run() */
XSM_API xsm_status xsm_trainer_checkpoint(xsm_trainer *trainer, const char *path, const xsm_storage *storage,
                                          xsm_error *err);
/** Restores the state of a run from a checkpoint. The model, the estimator and the optimizer of the trainer change
 *  accordingly; the model's tensors of the host (tensors.h) become copies of those of the checkpoint.
 *  xsm_trainer_run() then gives results that are bit-identical to those of a run without interruption, for any number
 *  of threads and any instruction set.
 *
 *  The trainer must have been made from the same data, estimator, optimizer and settings, and from a model of the same
 *  shape; the weights of that model are ignored. Only the number of epochs, the test rows, the evaluation and the
 *  callback may differ.
 *  @param trainer the trainer, new or not
 *  @param path    a file of xsm_trainer_checkpoint(), or NULL for `storage`
 *  @param storage what is read in place of a file (@ref storage), or NULL
 *  @param err     what went wrong, or NULL; the message names the first setting that differs
 *  @return #XSM_OK; #XSM_ERROR_DATA for different rows, or a sampler that draws different classes;
 *          #XSM_ERROR_ARGUMENT for a different setting; #XSM_ERROR_IO, #XSM_ERROR_FORMAT, #XSM_ERROR_CHECKSUM and
 *          #XSM_ERROR_FILE_VERSION for the file; #XSM_ERROR_SHAPE if only one of the models has a bias;
 *          #XSM_ERROR_RANGE if the checkpoint is past the number of epochs; #XSM_ERROR_STATE as xsm_trainer_run().
 *          On failure nothing changes. */
XSM_API xsm_status xsm_trainer_resume(xsm_trainer *trainer, const char *path, const xsm_storage *storage,
                                      xsm_error *err);
/** Fills `progress` (start it with #XSM_PROGRESS_INIT) with the progress of the run. O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_trainer_get_progress(const xsm_trainer *trainer, xsm_progress *progress, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
