/**
 * @file buffer.h
 * @brief Saving to and loading from memory, or whatever the host reads and writes, in place of files.
 */
#ifndef XSOFTMAX_BUFFER_H
#define XSOFTMAX_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>
#include <xsoftmax/search.h>
#include <xsoftmax/model.h>
#include <xsoftmax/sampler.h>
#include <xsoftmax/storage.h>
#include <xsoftmax/trainer.h>

/** @defgroup buffer Memory and storage of the host
 *
 * What is saved to a file can be saved to a storage (#xsm_storage), and what is loaded from a file can be loaded from
 * one. xsm_buffer is a storage in memory that grows.
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
 *  it now: fill it again after a save, or reading is #XSM_ERROR_STATE. `name` stays as it is. The buffer must outlive
 *  calls with the storage, but not the models that they load: a model that uses the bytes in place keeps them, even if
 *  something else, or the model itself, is saved into the buffer, or if the buffer is freed. If the host adds a
 *  release() to the storage, reading is #XSM_ERROR_ARGUMENT.
 *  @return #XSM_OK, or what any function may return (@ref error). O(1) */
XSM_API xsm_status xsm_buffer_get_storage(xsm_buffer *buffer, xsm_storage *storage, xsm_error *err);

/** As xsm_model_save(), to a storage.
 *  @return as xsm_model_save(); #XSM_ERROR_ARGUMENT for a storage without write() */
XSM_API xsm_status xsm_model_save_to(const xsm_model *model, const xsm_storage *storage, xsm_error *err);
/** As xsm_model_load(), from a storage. A model over `bytes` uses them in place and copies none of its weights.
 *  @return as xsm_model_load(); #XSM_ERROR_ARGUMENT for a storage with neither or both of `bytes` and `source`, and for
 *          bytes that are not aligned; #XSM_ERROR_FORMAT for a source that ends too early */
XSM_API xsm_status xsm_model_load_from(xsm_context *context, const xsm_storage *storage,
                                       const xsm_load_options *options, xsm_model **out, xsm_error *err);
/** As xsm_trainer_checkpoint(), to a storage.
 *  @return as xsm_trainer_checkpoint(); #XSM_ERROR_ARGUMENT for a storage without write() */
XSM_API xsm_status xsm_trainer_checkpoint_to(xsm_trainer *trainer, const xsm_storage *storage, xsm_error *err);
/** As xsm_trainer_resume(), from a storage.
 *  @return as xsm_trainer_resume(); as xsm_model_load_from() for the storage */
XSM_API xsm_status xsm_trainer_resume_from(xsm_trainer *trainer, const xsm_storage *storage, xsm_error *err);
/** As xsm_sampler_save(), to a storage.
 *  @return as xsm_sampler_save(); #XSM_ERROR_ARGUMENT for a storage without write() */
XSM_API xsm_status xsm_sampler_save_to(const xsm_sampler *sampler, const xsm_storage *storage, xsm_error *err);
/** As xsm_sampler_load(), from a storage.
 *  @return as xsm_sampler_load(); as xsm_model_load_from() for the storage */
XSM_API xsm_status xsm_sampler_load_from(xsm_context *context, const xsm_storage *storage, const xsm_sampler_ops *ops,
                                         xsm_sampler **out, xsm_error *err);
/** As xsm_index_save(), to a storage.
 *  @return as xsm_index_save(); #XSM_ERROR_ARGUMENT for a storage without write() */
XSM_API xsm_status xsm_index_save_to(const xsm_index *index, const xsm_storage *storage, xsm_error *err);
/** As xsm_index_load(), from a storage.
 *  @return as xsm_index_load(); as xsm_model_load_from() for the storage */
XSM_API xsm_status xsm_index_load_from(xsm_context *context, const xsm_storage *storage, const xsm_index_ops *ops,
                                       const xsm_model *model, xsm_index **out, xsm_error *err);
/** As xsm_index_load_rows(), from a storage.
 *  @return as xsm_index_load_rows(); as xsm_model_load_from() for the storage */
XSM_API xsm_status xsm_index_load_rows_from(xsm_context *context, const xsm_storage *storage, const xsm_index_ops *ops,
                                            const xsm_index_rows *rows, xsm_index **out, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
