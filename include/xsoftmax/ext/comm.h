/* SPDX-License-Identifier: MIT */
/**
 * @file ext/comm.h
 * @brief A group of processes that divide a model's classes among them: the table of collective calls that a host
 * lends.
 */
#ifndef XSOFTMAX_EXT_COMM_H
#define XSOFTMAX_EXT_COMM_H

#ifndef XSM_EXPERIMENTAL
#error "xsoftmax/ext/comm.h is experimental, and changes from release to release: define XSM_EXPERIMENTAL to use it"
#endif

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/context.h>
#include <xsoftmax/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup ext_comm Groups of processes
 *
 * The processes of a group each have a context with a communicator (xsm_context_options::comm), and make the same calls
 * in the same order, with the same arguments and data. A process has a number from 0, its rank (xsm_comm::rank). A
 * model made or loaded in such a context is divided: each process holds the weights of a contiguous run of the classes.
 * Class numbers are those of the whole model in every process, and results are to the bit those of one process. @ref
 * guide_clusters says which calls take divided models; others refuse them with #XSM_ERROR_UNSUPPORTED. A label tree is
 * not divided: all processes fit it together, and each has the whole. Each also has the whole of sparse weights
 * (xsm_model_prune()). A process uses such models by itself, and process 0 saves them.
 *
 * The library calls the functions from the thread that called it, never two at once for one call. No function sums
 * floating-point numbers, because the order of such a sum would depend on the number of processes. Numbers are
 * exchanged as they are in memory: all processes must have the same byte order and the same library.
 *
 * **Errors.** If a call that needs the group fails in one process (a full disk, no memory, a bad argument), it fails in
 * all of them, with that process's status and a message that begins with `rank` and its number. Only where a process
 * gives NULL for the object that the group is known by (the context or the model, that which is bound to it, a trainer,
 * a predictor) does it fail alone, and the others wait. If a function of the table fails, the call ends with
 * #XSM_ERROR_COMM, and so do all later calls that need the group: a host's function must then fail in all processes, in
 * bounded time.
 *
 * **Rows.** Processes compare, by a hash, the datasets that they train on, evaluate or predict, the rows of each
 * gradient, score and prediction, and the classes, lists and bounds that are asked for with them; of a host's arrays,
 * only the number of rows. If those of a process are not those of process 0, the call fails with #XSM_ERROR_DATA in all
 * processes.
 *
 * **Settings.** Processes compare options in the same way: those of an estimator or an optimizer when it is bound to a
 * divided model, with some draws of the host's sampler and the sizes of a stream; those of a trainer and a predictor
 * when it is made; those of the fit of a label tree and evaluations when they are called; the metadata of what is
 * saved; and with each of these what the model is: bias, geometry, link, correction, calibration, first layer. If they
 * differ, the call fails with #XSM_ERROR_ARGUMENT in all processes, and the message names the option and the process.
 * The learning rate of single steps in a host's loop is not compared.
 *
 * **Exceptions.** The functions must return; they must not throw.
 *
 * **Threads.** All calls of a process that need the group must come from one thread at a time.
 *  @{ */

/** Collective calls of a group of processes. Start with #XSM_COMM_INIT. Each function is called in every process with
 *  the same arguments except the data, and returns after all processes have called it: 0 on success, with the same data
 *  in every process. Any other value means that the group can no longer be used. */
struct xsm_comm {
    size_t size;      /**< sizeof(xsm_comm). */
    uint32_t release; /**< #XSM_VERSION of the headers that the table was compiled with. The library of another minor
                           release refuses it with #XSM_ERROR_ABI. */
    uint32_t rank;    /**< Number of this process, from 0. */
    uint32_t ranks; /**< Number of processes, 1 to #XSM_RANKS_MAX. 1: nothing is divided, and no function is called. */
    uint32_t reserved; /**< Zero. */
    void *user;        /**< First argument of the functions. */
    /** Replaces each of `count` values, none of them NaN, by the largest of all processes. */
    int32_t (*max_f32)(void *user, float *values, size_t count);
    /** Concatenates the blocks of all processes in `all`, in the order of their ranks: that of process r has `sizes[r]`
     *  bytes. `mine` is this process's block, which does not overlap `all`. Sizes may be 0. */
    int32_t (*allgatherv)(void *user, const void *mine, void *all, const size_t *sizes);
    /** Copies `bytes` bytes of process `root` to `data` in all others. */
    int32_t (*broadcast)(void *user, void *data, size_t bytes, uint32_t root);
};

/** Most processes of a group. */
#define XSM_RANKS_MAX 65536

/** Starting value of an #xsm_comm. */
#define XSM_COMM_INIT                                                                                                  \
    {                                                                                                                  \
        sizeof(xsm_comm), XSM_VERSION, 0, 1, 0, NULL, NULL, NULL, NULL                                                 \
    }

/** @} */

#ifdef __cplusplus
}
#endif

#endif
