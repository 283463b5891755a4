/**
 * @file ext/storage.h
 * @brief Saving to and loading from memory, or whatever the host reads and writes, in place of files.
 */
#ifndef XSOFTMAX_EXT_STORAGE_H
#define XSOFTMAX_EXT_STORAGE_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/model.h>
#include <xsoftmax/sampler.h>
#include <xsoftmax/trainer.h>

/** @defgroup ext_storage Memory and storage of the host
 *
 * What is saved to a file can be saved to a storage, and what is loaded from a file can be loaded from one: bytes in
 * memory, or functions of the host's that read and write. The bytes are those of the file, and they pass the same
 * checks. xsm_buffer is a storage in memory that grows. Label trees have their checkpoints in storages by
 * xsm_label_tree_options::checkpoint_storage and `resume_storage`.
 *  @{ */

/** Where bytes are read or written in place of a file. Reading needs `bytes` or `source`, writing needs `write`. The
 *  functions are called in the calling thread, one at a time. They must not throw, and not use the object that is
 *  saved or loaded. A failure of theirs is #XSM_ERROR_IO. Start with #XSM_STORAGE_INIT. */
struct xsm_storage {
    size_t size;              /**< sizeof(xsm_storage). */
    const char *name;         /**< What messages call it in place of a path; NULL = "storage". */
    const void *bytes;        /**< Reading: [byte_count] bytes, aligned to 8, in place of `source`; for weights that are
                                   used in place 64 is best. They must not change as long as they are used: by a model
                                   until its last reference is given up (objects that are made from a model keep
                                   references; release() says when), by all else until the call returns. With
                                   xsm_load_options::copy, a model needs them no longer than that. */
    uint64_t byte_count;      /**< Number of `bytes`: those of one file and no more. */
    const xsm_source *source; /**< Reading: what is read from front to back, exactly to the end of what was saved, so
                                   that more can follow. The bytes are kept in memory of the context. */
    void *user;               /**< Writing: first argument of the four functions that follow. */
    /** Before the first write() of a save: it will write so many `bytes`. Returns 0, anything else on failure, which is
     *  #XSM_ERROR_MEMORY if that is what it returns. NULL = nothing to do. */
    int32_t (*begin)(void *user, uint64_t bytes);
    /** Writes up to `size` > 0 bytes behind those before. Returns how many it has written, at least 1; anything else is
     *  a failure. */
    int64_t (*write)(void *user, const void *data, size_t size);
    /** Moves the place where write() goes on by `distance` bytes: back by a negative number to bytes of this save, and
     *  forward to their end again. Returns 0, anything else on failure. NULL: the storage is only written from front to
     *  back, such as a socket. What is saved is then gone over twice, the first time for its checksum alone; if it has
     *  changed in between, the save fails (#XSM_ERROR_STATE). */
    int32_t (*seek)(void *user, int64_t distance);
    /** After the last write() of a save, once for each begin() that was called or could have been: with `complete` = 1
     *  all is written, and takes the place of what was saved before; a return value other than 0 is a failure. With 0
     *  the save has failed or was cancelled: what it has written is to be dropped, and the return value is ignored.
     *  NULL = nothing to do. */
    int32_t (*end)(void *user, int32_t complete);
    xsm_release_hook release; /**< Reading a model that uses `bytes` in place: called when it no longer needs them,
                                   after its last reference has been given up, or all that it uses of them has been
                                   copied because a function had to change it. It must not use the model. NULL = the
                                   caller knows. */
    void *release_user;       /**< Argument of release(). */
};

/** Starting value of an #xsm_storage. */
#define XSM_STORAGE_INIT                                                                                               \
    {                                                                                                                  \
        sizeof(xsm_storage), NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                             \
    }

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
XSM_API const void *xsm_buffer_bytes(const xsm_buffer *buffer, uint64_t *count);
/** Fills `storage` (start it with #XSM_STORAGE_INIT) so that it writes to the buffer, and reads the bytes that are in
 *  it now: fill it again after a save, or reading is #XSM_ERROR_STATE. `name` stays as it is. The buffer must outlive
 *  the calls with the storage, not the models that they load: a model over the bytes keeps them until it needs them no
 *  longer, whatever is saved into the buffer, itself included, or if the buffer is freed. With a release() that the
 *  host adds, reading is #XSM_ERROR_ARGUMENT.
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

#ifdef __cplusplus
}
#endif

/** @} */

#endif
