/* SPDX-License-Identifier: MIT */
/**
 * @file ext/context.h
 * @brief Memory and cancelling for the host's own estimators, samplers and indexes.
 */
#ifndef XSOFTMAX_EXT_CONTEXT_H
#define XSOFTMAX_EXT_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/context.h>

/** @defgroup ext_context A context, from within a table
 *
 * A host's own estimator, sampler or index allocates with the context of the object that calls it, and asks now and
 * then whether the call was cancelled.
 *  @{ */

#ifdef __cplusplus
extern "C" {
#endif

/** Allocates memory with the context's allocator, for the host's own estimators, samplers and indexes.
 *  @param context the context
 *  @param size    bytes; for 0 a valid pointer is returned, which must also be released
 *  @return NULL if there is no memory; else memory aligned to 64 bytes. Release it with xsm_context_release() and the
 *          same size. */
XSM_API void *xsm_context_allocate(xsm_context *context, size_t size);

/** Releases memory of xsm_context_allocate(); NULL is allowed. */
XSM_API void xsm_context_release(xsm_context *context, void *memory, size_t size);

/** For the long loops of the host's own estimators, samplers and indexes: calls the context's hook if it is due.
 *  Costs some 50 ns with a hook; call it every 10 to 1000 microseconds of work. Any thread.
 *  @return non-zero if the library's call that runs on this thread was cancelled: release what you allocated and return
 *          #XSM_CANCELLED */
XSM_API int32_t xsm_context_poll(const xsm_context *context);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
