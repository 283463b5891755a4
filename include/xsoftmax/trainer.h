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
 * A trainer runs an estimator and an optimizer over a dataset. The result is the same bits for any number of threads
 * and any instruction set, and for a repeated run: it depends on the data, the options and the seed.
 *
 * **Threads.** One trainer per model, one thread at a time on a trainer; it uses its context's threads itself.
 *  @{ */

/** A trainer; opaque. */
typedef struct xsm_trainer xsm_trainer;

/** How the learning rate falls. */
enum {
    XSM_SCHEDULE_CONSTANT = 0, /**< eta. */
    XSM_SCHEDULE_STEP = 1,     /**< eta * factor^e in epoch e = 0, 1, ... */
    XSM_SCHEDULE_INVERSE = 2,  /**< eta / (1 + t/N), t the examples handled so far: eta/(1+e) at the epochs' starts. */
    XSM_SCHEDULE_INVERSE_SQRT = 3 /**< eta / sqrt(1 + t/N). */
};

/** Order of the rows in an epoch. */
enum {
    XSM_ORDER_SHUFFLE = 0, /**< A new permutation each epoch, from the seed. An estimator that takes batches as wholes
                                (`implicit`) has fixed minibatches: of one permutation, in a new order each epoch, a
                                shorter one at the end. */
    XSM_ORDER_FILE = 1     /**< As they are in the dataset. */
};

/** Where a run is, for the callback, and for xsm_trainer_get_progress(): start with #XSM_PROGRESS_INIT there. */
typedef struct xsm_progress {
    size_t size;              /**< sizeof(xsm_progress). */
    uint64_t epoch;           /**< Epochs that are complete. */
    uint64_t epochs;          /**< Epochs asked for. */
    uint64_t step;            /**< Steps taken. */
    uint64_t steps;           /**< Steps of the whole run. */
    uint64_t examples;        /**< Examples handled. */
    double eta;               /**< Learning rate of the last step. */
    double seconds;           /**< Time spent training, evaluation not counted. */
    double loss;              /**< Mean of the estimator's own loss since the epoch began; NaN before the first step. */
    int32_t epoch_ended;      /**< 1 = an epoch is complete, 0 = within one. */
    int32_t reserved;         /**< Zero. */
    const xsm_metrics *train; /**< Evaluation on the training rows, when this call has one; else NULL. */
    const xsm_metrics *test;  /**< Evaluation on the test rows, when this call has one; else NULL. */
    double objective;         /**< xsm_fit_batch(): sum of the losses and ridge at the best weights so far; else NaN. */
    double gradient_norm;     /**< xsm_fit_batch(): norm of that sum's gradient there; else NaN. */
} xsm_progress;

/** Starting value of an #xsm_progress, for those who ask for one. */
#define XSM_PROGRESS_INIT                                                                                              \
    {                                                                                                                  \
        sizeof(xsm_progress), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0                                           \
    }

/** Told of the progress; returning non-zero ends the run with #XSM_CANCELLED and the model as it is. Called at each
 *  epoch's start (step 0 of the first) and end, and several times a second in between. */
typedef int32_t (*xsm_progress_function)(void *user, const xsm_progress *progress);

/** Settings of a trainer. Start with #XSM_TRAINER_OPTIONS_INIT. */
typedef struct xsm_trainer_options {
    size_t size;                    /**< sizeof(xsm_trainer_options). */
    uint64_t epochs;                /**< Passes over the rows; 0 = 10. */
    uint64_t batch;                 /**< Examples a step; 0 = 1. */
    double eta;                     /**< Initial learning rate, > 0; 0 = 1. */
    int32_t schedule;               /**< An XSM_SCHEDULE_* value. */
    int32_t order;                  /**< An XSM_ORDER_* value. */
    double factor;                  /**< Of #XSM_SCHEDULE_STEP, in (0, 1]; 0 = 0.9. */
    uint64_t seed;                  /**< Of the order of the rows. */
    uint64_t evaluate_every;        /**< Evaluate after every so many epochs; 0 = never. */
    int32_t evaluate_train;         /**< 1 = evaluate on the training rows then. */
    int32_t reserved;               /**< Zero. */
    const xsm_dataset *test;        /**< Rows to evaluate on then, or NULL. Borrowed. */
    xsm_progress_function progress; /**< Or NULL. */
    void *progress_user;            /**< Handed to progress(). */
} xsm_trainer_options;

/** Starting value of an #xsm_trainer_options. */
#define XSM_TRAINER_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(xsm_trainer_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL                                    \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a trainer. Binds the estimator and the optimizer to the model and the data; all four must stay while the
 *  trainer is used. The weights are put in the order that is faster for them: feature-major for an exact estimator on
 *  sparse rows, else class-major.
 *  @param context   context whose threads are used, or NULL
 *  @param model     the model to train, from where it is
 *  @param train     rows with the model's D and K
 *  @param estimator the estimator
 *  @param optimizer the optimizer
 *  @param options   settings, or NULL
 *  @param[out] out  the trainer, the caller's to release with xsm_trainer_free()
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE for an option; #XSM_ERROR_SHAPE, for the test rows too; #XSM_ERROR_UNSUPPORTED for
 *          a batch that the estimator does not take, or an estimator that the optimizer does not; what
 * xsm_estimator_bind() and xsm_optimizer_bind() return; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_trainer_new(xsm_context *context, xsm_model *model, const xsm_dataset *train,
                                   xsm_estimator *estimator, xsm_optimizer *optimizer,
                                   const xsm_trainer_options *options, xsm_trainer **out, xsm_error *err);
/** Releases a trainer, not what it was made from; NULL is fine. */
XSM_API void xsm_trainer_free(xsm_trainer *trainer);
/** Trains to the end, or goes on after a cancelled run.
 *  @return #XSM_OK; #XSM_CANCELLED when the callback asked for it; #XSM_ERROR_DIVERGED, the message naming the step and
 *          what to try (the model is as before that step, and finite; with several threads, some steps soon after it
 *          that touch other classes may have been taken); #XSM_ERROR_STATE when the estimator or the optimizer has been
 *          bound to something else, or the estimator to the same with options that make it look at all classes; by the
 *          callback, too; #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER */
XSM_API xsm_status xsm_trainer_run(xsm_trainer *trainer, xsm_error *err);
/** Saves all that the run consists of in one file, from which xsm_trainer_resume() goes on to the same bits: the model,
 *  what estimator and optimizer keep, the place in the epoch and in the random streams, the settings, and a fingerprint
 *  of the data. May be called between runs, after a cancelled one, and in the callback. The file is a safetensors file
 *  that is replaced in one piece: whatever happens meanwhile, the old or the new one is there, whole. It is a model as
 *  well, which xsm_model_load() loads as it was at that moment. Cost: one pass over the model; the first time, one over
 *  the data.
 *  @param trainer the trainer
 *  @param path    the file to write or replace
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_ARGUMENT for a host's estimator that names two tensors of its state
 * alike; #XSM_ERROR_UNSUPPORTED for one that keeps something by row and does not say what
 *          (xsm_estimator_ops::state_tensor), for a host's index without save(), and on a big-endian machine;
 *          #XSM_ERROR_DIVERGED when something
 * is not finite; #XSM_ERROR_STATE as xsm_trainer_run(); #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_trainer_checkpoint(xsm_trainer *trainer, const char *path, xsm_error *err);
/** Puts a trainer where the one was that saved a checkpoint. The model, the estimator and the optimizer that the
 * trainer was made from change accordingly; xsm_trainer_run() then ends at the same bits as a run that was never
 * interrupted, on any number of threads and any instruction set.
 *
 *  The trainer must have been made from the same data, estimator, optimizer and settings, in which only the number of
 *  epochs, the test rows, the evaluation and the callback may differ, and from a model of the same shape; its weights
 * do not matter.
 *  @param trainer the trainer, new or not
 *  @param path    a file of xsm_trainer_checkpoint()
 *  @param err     what went wrong, or NULL; names the first setting that differs
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT for another setting; #XSM_ERROR_DATA for other rows, or a sampler that draws
 *          other classes; #XSM_ERROR_SHAPE for a model with a bias where there was none, or the other way round;
 *          #XSM_ERROR_RANGE when the checkpoint is beyond the number of epochs; #XSM_ERROR_FORMAT,
 *          #XSM_ERROR_CHECKSUM, #XSM_ERROR_FILE_VERSION and #XSM_ERROR_IO for the file; #XSM_ERROR_STATE as
 *          xsm_trainer_run(); #XSM_ERROR_MEMORY. On failure everything is as before. */
XSM_API xsm_status xsm_trainer_resume(xsm_trainer *trainer, const char *path, xsm_error *err);
/** Fills `progress` (start it with #XSM_PROGRESS_INIT) with where the trainer is. O(1).
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_trainer_get_progress(const xsm_trainer *trainer, xsm_progress *progress, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
