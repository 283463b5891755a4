/* SPDX-License-Identifier: MIT */
/**
 * @file storage.h
 * @brief Where bytes are read or written in place of a file.
 */
#ifndef XSOFTMAX_STORAGE_H
#define XSOFTMAX_STORAGE_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/context.h>

/** @defgroup storage Storages
 *
 * Bytes in memory, or functions of the host's that read and write, in place of a file: the bytes are those of the file,
 * and they pass the same checks. Functions that save, load and read rows take a path and a storage, one of which is
 * NULL; label trees have their checkpoints in storages by xsm_label_tree_options::checkpoint_storage and
 * `resume_storage`. A buffer (buffer.h) is a storage in memory.
 *  @{ */

/** A source of bytes other than a file. Start with #XSM_SOURCE_INIT. */
typedef struct xsm_source {
    size_t size; /**< sizeof(xsm_source). */
    void *user;  /**< First argument of read(). */
    /** Reads up to `size` bytes. Returns a negative number on failure, 0 at the end, else the number of bytes. It must
     *  not throw. */
    int64_t (*read)(void *user, void *buffer, size_t size);
} xsm_source;

/** Starting value of an #xsm_source. */
#define XSM_SOURCE_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(xsm_source), NULL, NULL                                                                                 \
    }

/** Where bytes are read or written in place of a file. Reading needs `bytes` or `source`, writing needs `write`. The
 *  functions are called in the calling thread, one at a time. They must not throw, and not use the object that is
 *  saved or loaded. A failure of theirs is #XSM_ERROR_IO, a source that ends too early #XSM_ERROR_FORMAT, and a storage
 *  that lacks what is needed, or has both of `bytes` and `source`, #XSM_ERROR_ARGUMENT. Start with #XSM_STORAGE_INIT.
 */
typedef struct xsm_storage {
    size_t size;              /**< sizeof(xsm_storage). */
    const char *name;         /**< What messages call it in place of a path; NULL = "storage". */
    const void *bytes;        /**< Reading: [byte_count] bytes, aligned to 8, in place of `source`; for weights that are
                                   used in place 64 is best. They must not change as long as they are used: by a model
                                   until its last reference is given up (objects that are made from a model keep
                                   references; release() says when), by all else until the call returns. With
                                   xsm_load_options::copy, a model needs them no longer than that. */
    size_t byte_count;        /**< Number of `bytes`: those of one file and no more. */
    const xsm_source *source; /**< Reading: what is read from front to back, exactly to the end of what was saved, so
                                   that more can follow; rows are read to the source's end. The bytes are kept in memory
                                 of the context. */
    void *user;               /**< Writing: first argument of the four functions that follow. */
    /** Called before the first write() of a save, which will write so many `bytes`. Returns 0, or anything else on
     *  failure: #XSM_ERROR_MEMORY makes the save return that, any other value #XSM_ERROR_IO. NULL = nothing to do. */
    int32_t (*begin)(void *user, uint64_t bytes);
    /** Writes up to `size` > 0 bytes after those written before. Returns how many it has written, at least 1; anything
     *  else is a failure. */
    int64_t (*write)(void *user, const void *data, size_t size);
    /** Moves the position of the next write() by `distance` bytes: back, by a negative number, to bytes of this save,
     *  and forward to their end again. Returns 0, anything else on failure. NULL: the storage is only written from
     *  front to back, such as a socket. The object that is saved is then read twice, the first time only for its
     *  checksum; if it has changed in between, the save fails (#XSM_ERROR_STATE). */
    int32_t (*seek)(void *user, int64_t distance);
    /** Called after the last write() of a save: once for each begin(), also for one that failed; if `begin` is NULL,
     *  once for each save that has called write(). A save that fails earlier calls neither. With `complete` = 1
     *  everything was written and replaces what was saved before; a return value other than 0 is a failure. With 0 the
     *  save has failed or was cancelled: drop what it has written; the return value is ignored. NULL = nothing to
     *  do. */
    int32_t (*end)(void *user, int32_t complete);
    xsm_release_hook release; /**< Reading a model that uses `bytes` in place: called when it no longer needs them,
                                   after its last reference has been given up, or as soon as a function that changes
                                   the weights has copied them. If tensors of the host (tensors.h) are in the bytes
                                   then, it may be called as late as with the model's last reference, even if they are
                                   removed before. It must not use the model. NULL = the caller knows. Where the bytes
                                 are needed for the call only (xsm_load_options::copy, a `source`, anything but a
                                 model), release() is #XSM_ERROR_ARGUMENT. */
    void *release_user;       /**< Argument of release(). */
} xsm_storage;

/** Starting value of an #xsm_storage. */
#define XSM_STORAGE_INIT                                                                                               \
    {                                                                                                                  \
        sizeof(xsm_storage), NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                             \
    }

/** @} */

#endif
