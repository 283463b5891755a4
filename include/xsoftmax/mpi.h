/* SPDX-License-Identifier: MIT */
/**
 * @file mpi.h
 * @brief Groups of processes by MPI: libxsoftmax-mpi.
 */
#ifndef XSOFTMAX_MPI_H
#define XSOFTMAX_MPI_H

#ifndef XSM_EXPERIMENTAL
#error "xsoftmax/mpi.h is experimental, and changes from release to release: define XSM_EXPERIMENTAL to use it"
#endif

#include <stddef.h>

#include <xsoftmax/error.h>
#include <xsoftmax/ext/comm.h>

/** @defgroup mpi Groups of processes by MPI: libxsoftmax-mpi
 *
 * A library of its own (pkg-config: `xsoftmax-mpi`), built against one MPI; libxsoftmax itself does not use MPI. It
 * makes an #xsm_comm of an MPI communicator:
 *
 * @code
 * MPI_Comm all = MPI_COMM_WORLD;
 * xsm_comm group = XSM_COMM_INIT;
 * xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
 * options.comm = &group;
 * if (xsm_mpi_comm_new(&all, sizeof all, &group, &err) || xsm_context_new(&options, &context, &err)) {
 *     fprintf(stderr, "%s\n", err.message);
 *     MPI_Abort(MPI_COMM_WORLD, 1);
 * }
 * @endcode
 *
 * This header does not include mpi.h: a communicator is given by its address and size, so that the functions have the
 * same form with every MPI.
 *  @{ */

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a communicator for xsm_context_options::comm. Collective: all processes of `mpi_comm` call it; xsm_comm::rank
 *  is the rank in `mpi_comm`. The new communicator works on a duplicate of `mpi_comm`, whose messages are apart from
 *  the program's; an MPI call that fails on the duplicate makes the library's call end with #XSM_ERROR_COMM
 *  (MPI_ERRORS_RETURN). Data of any size is sent, in pieces of at most 1 GiB.
 *
 *  @param mpi_comm address of an MPI_Comm, an intracommunicator; only read during the call
 *  @param bytes sizeof(MPI_Comm) in the program
 *  @param out filled; not changed on failure. Release it by xsm_mpi_comm_free() after the contexts that use it, before
 *         MPI_Finalize()
 *  @param err may be NULL
 *  @return #XSM_ERROR_STATE before MPI_Init_thread() or after MPI_Finalize(); #XSM_ERROR_UNSUPPORTED if MPI gives less
 *          than MPI_THREAD_FUNNELED, or `bytes` is another MPI's; #XSM_ERROR_ARGUMENT for MPI_COMM_NULL and for an
 *          intercommunicator; #XSM_ERROR_RANGE for more than #XSM_RANKS_MAX processes; #XSM_ERROR_COMM if MPI cannot
 *          duplicate the communicator
 *
 *  With MPI_THREAD_FUNNELED the library's calls must come from the thread that called MPI_Init_thread(), with
 *  MPI_THREAD_SERIALIZED from one thread at a time. */
XSM_API xsm_status xsm_mpi_comm_new(const void *mpi_comm, size_t bytes, xsm_comm *out, xsm_error *err);

/** Releases what xsm_mpi_comm_new() made, and sets `comm` to #XSM_COMM_INIT. Collective. Does nothing after
 *  MPI_Finalize(), to NULL, and to an #xsm_comm that has nothing to release. */
XSM_API void xsm_mpi_comm_free(xsm_comm *comm);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
