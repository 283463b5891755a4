/* SPDX-License-Identifier: MIT */
/**
 * @file buffer.h
 * @brief Memory that is saved to and loaded from in place of files.
 */
#ifndef XSOFTMAX_BUFFER_H
#define XSOFTMAX_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/storage.h>

/** @defgroup buffer Buffers
 *
 * A storage (@ref storage) in memory that grows.
 *  @{ */

/** Bytes in memory that a save fills; opaque. Only one thread at a time may use a buffer. */
typedef struct xsm_buffer xsm_buffer;

#ifdef __cplusplus
extern "C" {
#endif

/** Makes an empty buffer.
 *  @param context context whose allocator it uses, or NULL
 *  @param[out] out the buffer, the caller's to release with xsm_buffer_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_buffer_new(xsm_context *context, xsm_buffer **out, xsm_error *err);
/** Releases a buffer; NULL is allowed. Its bytes go with it, or with the last model over them that was loaded from its
 *  storage. Nothing else may use them any more. */
XSM_API void xsm_buffer_free(xsm_buffer *buffer);
/** The bytes of the last complete save, aligned to 64. The pointer is valid until the next save into the buffer is
 *  complete or it is freed, also for a model that the host loads from a storage of its own over it. A save that fails
 *  leaves them as they are; while one runs, the memory for both is needed.
 *  @param buffer the buffer
 *  @param[out] count number of bytes, 0 before the first save
 *  @return the bytes; NULL before the first save. O(1) */
XSM_API const void *xsm_buffer_bytes(const xsm_buffer *buffer, size_t *count);
/** Fills `storage` (start it with #XSM_STORAGE_INIT) so that it writes to the buffer, and reads the bytes that are in
 *  it now: fill it again after a save, or reading is #XSM_ERROR_STATE, as it is of an empty buffer. `name` stays as it
 *  is. The buffer must outlive calls with the storage, but not the models that they load: a model that uses the bytes
 *  in place keeps them, even if something else, or the model itself, is saved into the buffer, or if the buffer is
 *  freed. If the host adds a release() to the storage, reading is #XSM_ERROR_ARGUMENT.
 *  @return #XSM_OK, or what any function may return (@ref error). O(1) */
XSM_API xsm_status xsm_buffer_get_storage(xsm_buffer *buffer, xsm_storage *storage, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
