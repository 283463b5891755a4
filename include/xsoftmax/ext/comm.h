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
 * The processes (ranks) of a group each have a context with a communicator (xsm_context_options::comm), and make the
 * same calls in the same order, with the same arguments and data. A model made or loaded in such a context is divided:
 * each rank holds the weights of a contiguous run of the classes. Class numbers are those of the whole model on every
 * rank, and results are to the bit those of one process. @ref guide_clusters says which calls take divided models;
 * others refuse them with #XSM_ERROR_UNSUPPORTED. A label tree is not divided: all ranks fit it together, and each has
 * the whole. Sparse weights (xsm_model_prune()) are whole on each rank, too. Each rank uses such models by itself, and
 * rank 0 saves them.
 *
 * The library calls the functions from the thread that called it, never two at once for one call. There is no sum of
 * floating-point numbers, whose order would depend on the number of ranks. Numbers are exchanged as they are in memory:
 * all ranks have the same byte order and the same library.
 *
 * **Errors.** If a call that needs the group fails on one rank (a full disk, no memory), it fails on all of them, with
 * that rank's status and a message that begins with the rank. If a function of the table fails, the call ends with
 * #XSM_ERROR_COMM, and so do all later calls that need the group: a host's function must then fail on all ranks, in
 * bounded time.
 *
 * **Rows.** Ranks compare, by a hash, the datasets that they train on, evaluate or predict; of a host's arrays to
 * predict, only the number of rows. If those of a rank are not rank 0's, the call fails with #XSM_ERROR_DATA on all
 * ranks.
 *
 * **Settings.** Ranks compare options in the same way: of an estimator or an optimizer when it is bound to a divided
 * model; of a trainer and a predictor when it is made; of L-BFGS, the fit of a label tree and evaluations when they are
 * called. If they differ, the call fails with #XSM_ERROR_ARGUMENT on all ranks, and the message says which one of which
 * rank. The learning rate of single steps in a host's loop is not compared.
 *
 * **Exceptions.** The functions must return; they must not throw.
 *
 * **Threads.** All calls of a rank that need the group must come from one thread at a time.
 *  @{ */

/** Collective calls of a group of processes. Start with #XSM_COMM_INIT. Each function is called on every rank with the
 *  same arguments but for the data, returns after all ranks have called it, and returns 0 on success, the same data on
 *  every rank; any other value means that the group can no longer be used. */
struct xsm_comm {
    size_t size;      /**< sizeof(xsm_comm). */
    uint32_t release; /**< #XSM_VERSION of the headers that the table was compiled with. The library of another minor
                           release refuses it with #XSM_ERROR_ABI. */
    uint32_t rank;    /**< This process, from 0. */
    uint32_t ranks; /**< Number of processes, 1 to #XSM_RANKS_MAX. 1: nothing is divided, and no function is called. */
    uint32_t reserved; /**< Zero. */
    void *user;        /**< First argument of the functions. */
    /** Replaces each of `count` values, none of them NaN, by the largest of all ranks. */
    int32_t (*max_f32)(void *user, float *values, size_t count);
    /** Concatenates the blocks of all ranks, in the order of the ranks, in `all`: rank r's has `sizes[r]` bytes, and
     *  `mine` is this rank's, which does not overlap `all`. Sizes may be 0. */
    int32_t (*allgatherv)(void *user, const void *mine, void *all, const size_t *sizes);
    /** Copies `bytes` bytes of rank `root` to the same memory of all others. */
    int32_t (*broadcast)(void *user, void *data, size_t bytes, uint32_t root);
};

/** Most ranks. */
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
